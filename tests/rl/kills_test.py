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

    def one_has_worked_most(self):
        """One of the workers has used more than twice the processor time of any other, and no little: the learner."""
        times = sorted(map(self.processor_time, self.workers()))
        return len(times) > 1 and times[-1] >= 30 and times[-1] > 2 * times[-2]

    def until_killed(self, folder):
        """A few rounds."""
        return len(self.lines(folder)) >= 6

    def run_and_kill(self, name, whom, arguments, until=None):
        """Kills whom(workers) after some rounds, or Ctrl-C for None: (the victim, exit code, messages, folder)."""
        folder = f"{self.root}/{name}"
        command = [RL, "train", "--out", folder, "--no-tensorboard", "--keep-going", *arguments]
        with subprocess.Popen(command, env=self.environment, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            deadline = time.monotonic() + 60
            while not (until or self.until_killed)(folder):
                self.assertLess(time.monotonic(), deadline, "no progress")
                self.assertIsNone(running.poll(), "it ended before anybody was killed")
                time.sleep(0.005)
            running.send_signal(signal.SIGSTOP)  # so that it is not over while the victim is looked for
            victim = whom(self.workers())
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
            else:
                running.send_signal(signal.SIGINT)
            running.send_signal(signal.SIGCONT)
            out, err = running.communicate(timeout=120)
        return victim, running.returncode, out + err, folder

    def check_steps(self, folder, steps_of_a_round, total, first=None):
        """first: of the first round that has something to tell, when that is a later one."""
        rounds = [json.loads(line)["steps"] for line in self.lines(folder)]
        self.assertEqual(rounds, list(range(first or steps_of_a_round, total + 1, steps_of_a_round)))
        with open(f"{folder}/result.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["steps"], total)

    def kill_each(self, steps_of_a_round, total, *arguments, first=None):
        """Who is number i of the workers is chance: a learner may be met or not (the last test meets one)."""
        survived, number = 0, 0
        while True:
            victim, code, said, folder = self.run_and_kill(
                number, lambda workers: workers[number] if number < len(workers) else None,
                (*arguments, "--steps", str(total), "--max-failures", "0"))
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
                self.assertIn(code, (0, 3), said)  # what IMPALA learns depends on time: it may solve its task
                self.check_steps(folder, steps_of_a_round, total, first)
                survived += 1
            number += 1
        self.assertGreater(survived, 0)

    def test_ppo(self):
        self.kill_each(512, 163840, "--env", "MountainCar-v0", "--num-envs", "4", "--horizon", "64")

    def test_impala(self):
        self.kill_each(128, 204800, "--algo", "impala", "--num-envs", "4", "--horizon", "32", "--hidden", "256,256")

    def test_impala_with_inference_actors(self):
        # INF-2: one that is restarted is told the parameters again.
        self.kill_each(128, 102400, "--algo", "impala", "--env", "MountainCar-v0", "--num-envs", "4", "--horizon", "32",
                       "--inference-actors", "1")

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
                total = steps_of_a_round * 200
                victim, code, said, folder = self.run_and_kill(
                    f"python-{algo}", lambda _: self.pythons()[0],
                    ("--algo", algo, "--env", "gym:count", "--env-kwargs", '{"length": 5}', "--python", fake,
                     "--num-workers", "1", "--num-envs", "4", "--horizon", str(steps_of_a_round // 4), "--hidden",
                     "16", "--fault-prefix", "drop", "--steps", str(total)))
                self.assertIn(code, (0, 3), said)
                self.check_steps(folder, steps_of_a_round, total)
                with open(f"{folder}/result.json", encoding="utf-8") as file:
                    faults = json.load(file)["faults"]
                self.assertEqual((faults["threw"], faults["exited"], faults["stalled"]), (0, 4, 0), said)
                self.assertNotIn(victim, self.pythons())
                seconds = [json.loads(line)["seconds"] for line in self.lines(folder)]
                print(f"{algo}: the longest without new steps {max(b - a for a, b in zip(seconds, seconds[1:])):.2f} s")

    def test_dqn_with_two_shards(self):
        self.kill_each(128, 51200, "--algo", "dqn", "--hidden", "32,32", "--horizon", "32", "--updates", "8",
                       "--learning-starts", "200", "--replay-shards", "2", "--num-workers", "2", "--num-envs", "2",
                       "--prioritized-replay")

    def test_sac_with_two_shards(self):
        # No episode ends before the first update.
        self.kill_each(64, 12800, "--algo", "sac", "--env", "Pendulum-v1", "--hidden", "32,32", "--minibatch", "32",
                       "--horizon", "16", "--updates", "8", "--learning-starts", "200", "--replay-shards", "2",
                       "--num-workers", "2", "--num-envs", "2", first=256)

    # Enough that a learner lives for some seconds: what a round has, how many there are, the first that has something
    # to tell, how a whole run ends.
    WITH_CHECKPOINTS = {
        "ppo": (2048, 20, 1, 3, ("--env", "MountainCar-v0", "--hidden", "256,256")),
        "dqn": (64, 100, 4, 3, ("--env", "MountainCar-v0", "--hidden", "256,256", "--minibatch", "128",
                                "--num-envs", "1", "--horizon", "64", "--num-workers", "1", "--updates", "32",
                                "--learning-starts", "200")),
        "sac": (16, 120, 7, 0, ("--env", "Pendulum-v1", "--minibatch", "128", "--horizon", "16", "--updates", "16")),
    }

    def test_a_learner_after_a_checkpoint(self):
        for algo, (steps_of_a_round, rounds, first, ended, arguments) in self.WITH_CHECKPOINTS.items():
            with self.subTest(algo):
                total = steps_of_a_round * rounds
                # The learner is who has calculated most.
                victim, code, said, folder = self.run_and_kill(
                    f"again-{algo}", lambda workers: max(workers, key=self.processor_time),
                    ("--algo", algo, *arguments, "--steps", str(total)),
                    lambda folder: os.path.exists(f"{folder}/checkpoint.bin") and self.one_has_worked_most())
                self.assertEqual(code, ended, said)
                self.assertRegex(said, rf"LearnerActor is dead[^\n]*pid {victim}\b|\(pid {victim}\), died")
                went_on = int(re.search(r"failure 1 of 3: going on from the checkpoint of (\d+) steps", said)[1])
                self.assertGreater(went_on, 0)
                with open(f"{folder}/result.json", encoding="utf-8") as file:
                    result = json.load(file)
                self.assertEqual((result["steps"], result["resumed_from_steps"]), (total, went_on))
                # Every step once, those after the checkpoint again: the curve is of the run that stands.
                steps = [json.loads(line)["steps"] for line in self.lines(folder)]
                back = next((i for i in range(1, len(steps)) if steps[i] <= steps[i - 1]), len(steps))
                self.assertEqual(steps[:back], [(first + i) * steps_of_a_round for i in range(back)])
                self.assertGreaterEqual(steps[back - 1], went_on)
                if back < len(steps):
                    self.assertEqual(steps[back:], list(range(went_on + steps_of_a_round, total + 1, steps_of_a_round)))
                self.assertEqual(steps[-1], total)

    def test_a_learner_before_the_first_checkpoint(self):
        looks = {}

        def learns(folder):
            """Who works by himself now, and has for a while: in the first round the runners have ended before."""
            self.assertEqual(self.lines(folder), [], "still in the first round")
            before, now = dict(looks), {pid: self.processor_time(pid) for pid in self.workers()}
            looks.update(now)
            busiest = max(now, key=now.get, default=None)
            return busiest is not None and now[busiest] >= 50 and all(
                now[pid] == before.get(pid) for pid in now if pid != busiest) and now[busiest] > before.get(busiest, 0)

        victim, code, said, folder = self.run_and_kill(
            "before", lambda workers: max(workers, key=self.processor_time),
            ("--env", "MountainCar-v0", "--hidden", "512,512", "--num-envs", "16", "--horizon", "256", "--epochs", "8",
             "--steps", "8192"), learns)
        self.assertIn(code, (0, 3), said)
        self.assertRegex(said, rf"LearnerActor is dead[^\n]*pid {victim}\b|\(pid {victim}\), died")
        self.assertIn("failure 1 of 3: beginning again, as there is no checkpoint yet", said)
        self.check_steps(folder, 8192, 8192)

    def test_one_of_two_learners(self):
        for rank in (0, 1):  # of those who have calculated most
            victim, code, said, _ = self.run_and_kill(
                f"learner-{rank}", lambda workers: sorted(workers, key=self.processor_time)[-1 - rank],
                ("--env", "MountainCar-v0", "--hidden", "256,256", "--learners", "2", "--steps", "1000000",
                 "--max-failures", "0"))
            self.assertEqual(code, 1, said)
            # whoever saw it first: the driver, the other learner, or a runner that fetched its weights
            self.assertRegex(said, rf"LearnerActor is dead[^\n]*pid {victim}\b|CollectiveError|rank \d|"
                                   rf"\(pid {victim}\), died", said)


if __name__ == "__main__":
    RL = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
