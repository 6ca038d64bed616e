"""Every worker process of a training run is killed in its middle, one a run, whoever it is: a runner, a shard of the
replay, an inference actor, a learner, an idle one; and the Python process of a gym: environment.

ASL-1 and ROL: steps of a run are those that were consumed, whoever died. LAC-1, LGR-2: only a learner's death ends the
run, and it is named; the run goes on from its checkpoint, or from the beginning where it has none yet.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RL = None
# With more, not every round would have its line of progress. The networks are so large that these take much longer
# than anybody stands still: no run is over by itself before the kill.
MOST_ROUNDS = 2000
ENDS = (0, 3, 130)  # solved, not solved, by Ctrl-C: that may come late


class KillsTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tk-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.temporary.cleanup()

    def workers(self):
        """The worker processes of this test's cluster, in the order of their start."""
        found, mark = [], f"TROUPE_SESSION_ROOT={self.root}".encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/comm", encoding="utf-8") as comm, open(f"/proc/{name}/environ",
                                                                                "rb") as environment:
                    if comm.read().strip() == "troupe-worker" and mark in environment.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                pass
        return sorted(found)

    def lines(self, folder):
        try:
            with open(f"{folder}/progress.jsonl", encoding="utf-8") as file:
                return file.read().splitlines()
        except OSError:
            return []

    @staticmethod
    def processor_time(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return int(file.read().rsplit(")", 1)[1].split()[11])
        except OSError:  # it has ended
            return 0

    def have_worked_most(self, count=1):
        """So many workers have used more than twice the processor time of any other, and no little: the learners."""
        times = sorted(map(self.processor_time, self.workers()))
        return len(times) > count and times[-count] >= 30 and times[-count] > 2 * times[-count - 1]

    def until_killed(self, folder):
        """A few rounds."""
        return len(self.lines(folder)) >= 6

    def run_and_kill(self, name, whom, arguments, until=None, ends=None):
        """Kills whom(workers) after some rounds: (the victim, exit code, messages, folder).

        A run that is over before the kill fails here. Behind the kill Ctrl-C ends the run: after some more rounds, or
        as soon as ends(messages, folder) holds. Nobody is killed where whom() finds nobody.
        """
        folder, log = f"{self.root}/{name}", f"{self.root}/{name}.log"
        command = [RL, "train", "--out", folder, "--no-tensorboard", "--keep-going", *arguments]

        def said():
            with open(log, encoding="utf-8") as file:
                return file.read()

        def wait_for(condition, what):
            deadline = time.monotonic() + 120
            while not condition():
                self.assertLess(time.monotonic(), deadline, f"{what}: {said()}")
                time.sleep(0.005)

        with open(log, "w", encoding="utf-8") as output, subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as running:
            try:
                wait_for(lambda: running.poll() is not None or (until or self.until_killed)(folder), "no progress")
                self.assertIsNone(running.poll(), f"it ended before anybody was killed: {said()}")
                running.send_signal(signal.SIGSTOP)  # so that it stands still while the victim is looked for
                workers, before = self.workers(), len(self.lines(folder))
                self.assertGreater(len(workers), 1, said())
                victim = whom(workers)
                if victim is not None:
                    os.kill(victim, signal.SIGKILL)
                running.send_signal(signal.SIGCONT)
                if victim is not None:
                    ends = ends or (lambda _, folder: len(self.lines(folder)) >= before + 20)
                    wait_for(lambda: running.poll() is not None or ends(said(), folder), "it does not go on")
                running.send_signal(signal.SIGINT)
                running.wait(timeout=120)
            finally:
                running.kill()  # what failed here would wait for it for ever
        return victim, running.returncode, said(), folder

    def check_steps(self, folder, steps_of_a_round, first=None):
        """first: of the first round that has something to tell, when that is a later one."""
        rounds = [json.loads(line)["steps"] for line in self.lines(folder)]
        with open(f"{folder}/result.json", encoding="utf-8") as file:
            total = json.load(file)["steps"]
        self.assertEqual(rounds, list(range(first or steps_of_a_round, total + 1, steps_of_a_round)))
        self.assertEqual(rounds[-1], total)

    def kill_each(self, steps_of_a_round, *arguments, first=None):
        """Who is number i of the workers is chance: a learner may be met or not (the last test meets one)."""
        survived, number = 0, 0
        while True:
            victim, code, said, folder = self.run_and_kill(
                number, lambda workers: workers[number] if number < len(workers) else None,
                (*arguments, "--steps", str(MOST_ROUNDS * steps_of_a_round), "--max-failures", "0"))
            if victim is None:
                break
            seconds = [json.loads(line)["seconds"] for line in self.lines(folder)]
            print(f"worker {number}: the longest without new steps "
                  f"{max((b - a for a, b in zip(seconds, seconds[1:])), default=0):.2f} s")
            if code == 1:
                # Who meets it first: a call of the learner, or a runner that reads parameters, which only learners own.
                self.assertRegex(said, rf"LearnerActor is dead[^\n]*SIGKILL[^\n]*pid {victim}\b|"
                                       rf"the owner of the object, process \S+ \(pid {victim}\), died")
            else:
                self.assertIn(code, ENDS, said)
                self.check_steps(folder, steps_of_a_round, first)
                survived += 1
            number += 1
        self.assertGreater(survived, 0)

    def test_ppo(self):
        self.kill_each(512, "--env", "MountainCar-v0", "--num-envs", "4", "--horizon", "64", "--hidden", "256,256")

    def test_impala(self):
        self.kill_each(128, "--algo", "impala", "--num-envs", "4", "--horizon", "32", "--hidden", "512,512")

    def test_impala_with_inference_actors(self):
        # INF-2: one that is restarted is told the parameters again.
        self.kill_each(128, "--algo", "impala", "--env", "MountainCar-v0", "--num-envs", "4", "--horizon", "32",
                       "--hidden", "512,512", "--inference-actors", "1")

    def pythons(self):
        """The processes of gym: environments: those that the fake host plays."""
        found, mark = [], f"TROUPE_SESSION_ROOT={self.root}".encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                python = os.path.basename(os.readlink(f"/proc/{name}/exe")).startswith("python")
                with open(f"/proc/{name}/environ", "rb") as environment:
                    if python and mark in environment.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                pass
        return sorted(found)

    def test_a_python_of_a_gym_environment(self):
        # BE-7: the episodes of its environments are faults; the runner, the only one, begins them anew in another
        # process.
        fake = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_gym_host.py")
        for algo, steps_of_a_round in {"ppo": 256, "impala": 128, "dqn": 64}.items():
            with self.subTest(algo):
                victim, code, said, folder = self.run_and_kill(
                    f"python-{algo}", lambda _: self.pythons()[0],
                    ("--algo", algo, "--env", "gym:count", "--env-kwargs", '{"length": 5}', "--python", fake,
                     "--num-workers", "1", "--num-envs", "4", "--horizon", str(steps_of_a_round // 4), "--hidden",
                     "512,512", "--fault-prefix", "drop", "--steps",
                     str(MOST_ROUNDS * steps_of_a_round)))
                self.assertIn(code, ENDS, said)
                self.check_steps(folder, steps_of_a_round)
                with open(f"{folder}/result.json", encoding="utf-8") as file:
                    faults = json.load(file)["faults"]
                self.assertEqual((faults["threw"], faults["exited"], faults["stalled"]), (0, 4, 0), said)
                self.assertNotIn(victim, self.pythons())
                seconds = [json.loads(line)["seconds"] for line in self.lines(folder)]
                print(f"{algo}: the longest without new steps {max(b - a for a, b in zip(seconds, seconds[1:])):.2f} s")

    def test_dqn_with_two_shards(self):
        self.kill_each(128, "--algo", "dqn", "--hidden", "256,256", "--minibatch", "128", "--horizon", "32",
                       "--updates", "8", "--learning-starts", "200", "--replay-shards", "2", "--num-workers", "2",
                       "--num-envs", "2", "--prioritized-replay")

    def test_sac_with_two_shards(self):
        # No episode ends before the first update.
        self.kill_each(64, "--algo", "sac", "--env", "Pendulum-v1", "--hidden", "256,256", "--minibatch", "32",
                       "--horizon", "16", "--updates", "8", "--learning-starts", "200", "--replay-shards", "2",
                       "--num-workers", "2", "--num-envs", "2", first=256)

    # What a round has, and the first that has something to tell.
    WITH_CHECKPOINTS = {
        "ppo": (2048, 1, ("--env", "MountainCar-v0", "--hidden", "256,256")),
        "dqn": (64, 4, ("--env", "MountainCar-v0", "--hidden", "256,256", "--minibatch", "128", "--num-envs", "1",
                        "--horizon", "64", "--num-workers", "1", "--updates", "32", "--learning-starts", "200")),
        "sac": (16, 7, ("--env", "Pendulum-v1", "--minibatch", "128", "--horizon", "16", "--updates", "16")),
    }

    def test_a_learner_after_a_checkpoint(self):
        went_on_from = re.compile(r"failure 1 of 3: going on from the checkpoint of (\d+) steps")

        def goes_on(said, folder):
            """Behind all that was told before the learner died: its last round may have been told after the kill."""
            if went_on_from.search(said) and "lines" not in at:
                at["lines"] = len(self.lines(folder))
            return "lines" in at and len(self.lines(folder)) >= at["lines"] + 6

        for algo, (steps_of_a_round, first, arguments) in self.WITH_CHECKPOINTS.items():
            with self.subTest(algo):
                at = {}
                # The learner is who has calculated most.
                victim, code, said, folder = self.run_and_kill(
                    f"again-{algo}", lambda workers: max(workers, key=self.processor_time),
                    ("--algo", algo, *arguments, "--steps", str(MOST_ROUNDS * steps_of_a_round)),
                    lambda folder: os.path.exists(f"{folder}/checkpoint.bin") and self.have_worked_most(), goes_on)
                self.assertIn(code, ENDS, said)
                self.assertRegex(said, rf"LearnerActor is dead[^\n]*pid {victim}\b|\(pid {victim}\), died")
                went_on = int(went_on_from.search(said)[1])
                self.assertGreater(went_on, 0)
                with open(f"{folder}/result.json", encoding="utf-8") as file:
                    result = json.load(file)
                self.assertEqual(result["resumed_from_steps"], went_on)
                # Every step once, those after the checkpoint again: the curve is of the run that stands. The checkpoint
                # may be older than the first round that has something to tell.
                steps = [json.loads(line)["steps"] for line in self.lines(folder)]
                back = next((i for i in range(1, len(steps)) if steps[i] <= steps[i - 1]), len(steps))
                self.assertEqual(steps[:back], [(first + i) * steps_of_a_round for i in range(back)])
                self.assertGreaterEqual(steps[back - 1], went_on)
                if back < len(steps):
                    again = max(went_on + steps_of_a_round, first * steps_of_a_round)
                    self.assertEqual(steps[back:], list(range(again, result["steps"] + 1, steps_of_a_round)))
                self.assertEqual(steps[-1], result["steps"])

    def test_a_learner_before_the_first_checkpoint(self):
        def learns(folder):
            """Of the first round only the learner's part is long, and it is much longer than anybody stands still."""
            self.assertEqual(self.lines(folder), [], "still in the first round")
            return self.have_worked_most()

        victim, code, said, folder = self.run_and_kill(
            "before", lambda workers: max(workers, key=self.processor_time),
            ("--env", "MountainCar-v0", "--hidden", "512,512", "--num-envs", "16", "--horizon", "16", "--epochs",
             "768", "--steps", "512"), learns, ends=lambda *_: False)  # it ends after this round
        self.assertEqual(code, 3, said)
        self.assertRegex(said, rf"LearnerActor is dead[^\n]*pid {victim}\b|\(pid {victim}\), died")
        self.assertIn("failure 1 of 3: beginning again, as there is no checkpoint yet", said)
        self.check_steps(folder, 512)

    def test_one_of_two_learners(self):
        for rank in (0, 1):  # of those who have calculated most
            victim, code, said, _ = self.run_and_kill(
                f"learner-{rank}", lambda workers: sorted(workers, key=self.processor_time)[-1 - rank],
                ("--env", "MountainCar-v0", "--hidden", "256,256", "--epochs", "16", "--learners", "2", "--steps",
                 "100000000", "--max-failures", "0"), lambda _: self.have_worked_most(2))
            self.assertEqual(code, 1, said)
            # whoever saw it first: the driver, the other learner, or a runner that fetched its weights
            self.assertRegex(said, rf"LearnerActor is dead[^\n]*pid {victim}\b|CollectiveError|rank \d|"
                                   rf"\(pid {victim}\), died", said)


if __name__ == "__main__":
    RL = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
