"""rl train --seeds: SDS-1 to SDS-3, CHP-1, CHP-2, SSM-1, as a user meets them."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

RL = None


class SeedsTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tr-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.temporary.cleanup()

    def start(self, *arguments):
        return subprocess.Popen([RL, "train", *arguments], env=self.environment, text=True, cwd=self.root,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, running, code):
        out, err = running.communicate(timeout=240)
        self.assertEqual(running.returncode, code, out + err)
        return out, err

    def train(self, code, *arguments):
        return self.end(self.start(*arguments), code)

    def read(self, path):
        with open(f"{self.root}/{path}", "rb") as file:
            return file.read()

    def result(self, path="o/result.json"):
        return json.loads(self.read(path))

    def processes(self):
        """Of all that was started here: those whose environment names this folder."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"TROUPE_SESSION_ROOT={self.root}".encode() in file.read():
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def eventually(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    PPO = ("--env", "CartPole-v1", "--steps", "8192", "--num-envs", "8", "--keep-going", "--no-tensorboard")

    def test_each_seed_is_the_run_that_it_would_be_alone(self):
        out, err = self.train(3, *self.PPO, "--seed", "7", "--seeds", "3", "--parallel", "2", "--out", "o")
        self.assertIn("3 of 3 seeds ended", out)
        self.assertIn("of 3 seeds", err)
        self.train(3, *self.PPO, "--seed", "8", "--out", "alone")
        self.assertEqual(self.read("alone/policy.bin"), self.read("o/seed-8/policy.bin"))
        self.assertNotEqual(self.read("alone/policy.bin"), self.read("o/seed-9/policy.bin"))
        together = self.result()
        self.assertEqual([one["seed"] for one in together["seeds"]], [7, 8, 9])
        returns = []
        for one in together["seeds"]:
            alone = self.result(f"o/seed-{one['seed']}/result.json")
            self.assertEqual((one["steps"], one["mean_return"]), (alone["steps"], alone["mean_return"]))
            returns.append(alone["mean_return"])
        self.assertAlmostEqual(together["mean_return"]["mean"], sum(returns) / 3)
        self.assertAlmostEqual(together["mean_return"]["interquartile_mean"], sum(returns) / 3)  # of 3 all count
        self.assertLessEqual(together["mean_return"]["low"], together["mean_return"]["high"])
        picture = xml.etree.ElementTree.fromstring(self.read("o/seeds.svg"))
        lines = [e for e in picture.iter() if e.tag.endswith(("polyline", "path"))]
        self.assertGreaterEqual(len(lines), 5)  # three seeds, mean, interquartile mean

    def test_a_seed_that_fails_takes_nothing_from_the_others(self):
        os.makedirs(f"{self.root}/o")
        with open(f"{self.root}/o/seed-2", "w", encoding="utf-8"):
            pass  # no folder can be made there
        out, err = self.train(1, *self.PPO, "--seeds", "3", "--out", "o")
        self.assertIn("seed 2", err)
        self.assertIn("2 of 3 seeds ended", out)
        result = self.result()
        self.assertEqual((result["ended"], result["failed"]), (2, 1))
        self.assertEqual([one["exit_code"] for one in result["seeds"]], [3, 1, 3])
        returns = [self.result(f"o/seed-{seed}/result.json")["mean_return"] for seed in (1, 3)]
        self.assertAlmostEqual(result["mean_return"]["mean"], sum(returns) / 2)

    def begun(self, *more):
        running = self.start("--algo", "ars", "--steps", "100000000", "--keep-going", "--no-tensorboard", "--seeds",
                             "3", "--parallel", "2", "--out", "o", *more)
        self.eventually(lambda: all(os.path.exists(f"{self.root}/o/seed-{seed}/progress.jsonl") for seed in (1, 2)),
                        "two seeds did not begin")
        return running

    def test_ctrl_c_leaves_checkpoints_that_go_on_and_no_process(self):
        running = self.begun()
        running.send_signal(signal.SIGINT)
        out, _ = self.end(running, 130)
        self.assertIn("go on with: --seeds 3 --resume o", out)
        self.eventually(lambda: not self.processes(), "a process is left")
        result = self.result()
        self.assertEqual((result["interrupted"], [one["exit_code"] for one in result["seeds"]]), (True, [130] * 3))
        before = {seed: self.result(f"o/seed-{seed}/result.json")["steps"] for seed in (1, 2)}
        self.assertFalse(os.path.exists(f"{self.root}/o/seed-3"))
        steps = max(before.values()) + 4000
        kept = self.read("o/config.yaml").decode()
        rate = json.loads(self.read("o/seed-1/result.json"))["config"]["learning_rate"]
        self.assertIn(f"learning_rate: {rate}\n", kept)
        with open(f"{self.root}/o/config.yaml", "w", encoding="utf-8") as file:
            file.write(kept.replace(f"learning_rate: {rate}\n", "learning_rate: 0.5\n"))
        resumed = self.start("--seeds", "3", "--resume", "o", "--steps", str(steps), "--no-tensorboard")
        out, err = resumed.communicate(timeout=240)
        # Either may be: how far the first run came is the machine's doing.
        solved = all(self.result(f"o/seed-{seed}/result.json")["solved"] for seed in (1, 2, 3))
        self.assertEqual(resumed.returncode, 0 if solved else 3, out + err)
        for seed, stopped in before.items():
            one = self.result(f"o/seed-{seed}/result.json")
            self.assertEqual(one["resumed_from_steps"], stopped)
            self.assertEqual(one["config"]["learning_rate"], rate, "RCL-2: its checkpoint says it")
            self.assertGreaterEqual(one["steps"], steps)
        self.assertEqual(self.result("o/seed-3/result.json")["resumed_from_steps"], 0)

    def test_the_end_of_its_input_ends_all_seeds(self):
        command = [RL, "train", "--algo", "ars", "--steps", "100000000", "--keep-going", "--seeds", "2",
                   "--no-tensorboard", "--out", "o", "--end-with-input"]
        running = subprocess.Popen(command, env=self.environment, text=True, cwd=self.root, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.eventually(lambda: all(os.path.exists(f"{self.root}/o/seed-{seed}/progress.jsonl") for seed in (1, 2)),
                        "two seeds did not begin")
        self.end(running, 130)  # communicate() closes it
        self.eventually(lambda: not self.processes(), "a process is left")

    def test_no_seed_outlives_its_parent(self):
        running = self.begun()
        running.kill()
        running.communicate(timeout=60)
        self.eventually(lambda: not self.processes(), "a process is left")

    def test_a_seed_that_does_not_answer_ctrl_c_is_killed_and_told_of(self):
        running = self.start("--env", "stall:CartPole-v1", "--env-kwargs", '{"p": 1, "seconds": 1000}', "--seeds", "3",
                             "--parallel", "2", "--out", "o", "--no-tensorboard", "--stop-deadline", "3")
        self.eventually(lambda: all(os.path.exists(f"{self.root}/o/seed-{seed}/config.yaml") for seed in (1, 2)),
                        "two seeds did not begin")
        running.send_signal(signal.SIGINT)
        out, _ = self.end(running, 130)
        self.assertIn("0 of 3 seeds ended", out)
        self.assertTrue(self.result()["interrupted"])
        self.eventually(lambda: not self.processes(), "a process is left")

    def test_long_rounds_of_seeds_are_finished_for_their_checkpoints(self):
        host = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_gym_host.py")
        played, gate = f"{self.root}/played", f"{self.root}/gate"
        running = self.start("--env", "gym:slow", "--env-kwargs", json.dumps({"played": played, "gate": gate}),
                             "--python", host, "--seeds", "2", "--parallel", "2", "--num-workers", "1", "--num-envs",
                             "1", "--horizon", "128", "--out", "o", "--no-tensorboard")
        # Before its first step no round is open (LGR-3).
        self.eventually(lambda: os.path.exists(played) and self.read("played").count(b"\n") == 2,
                        "two seeds did not begin")
        running.send_signal(signal.SIGINT)
        # No round is over before its seed knows of the signal; then there are 12.7 s of it left.
        self.eventually(lambda: all(b"this round is finished for the checkpoint" in self.read(f"o/seed-{seed}/log.txt")
                                    for seed in (1, 2)), "two seeds do not finish their rounds")
        open(gate, "w", encoding="utf-8").close()
        self.end(running, 130)
        for seed in (1, 2):
            with open(f"{self.root}/o/seed-{seed}/result.json", encoding="utf-8") as file:
                self.assertEqual(json.load(file)["steps"], 128)
            self.assertTrue(os.path.exists(f"{self.root}/o/seed-{seed}/checkpoint.bin"))

    def test_a_python_that_a_folder_or_a_file_names_is_asked_about_and_what_was_typed_is_not(self):
        """RCL-3."""
        os.makedirs(f"{self.root}/open")
        os.chmod(f"{self.root}/open", 0o777)
        python, mark = f"{self.root}/open/python3", f"{self.root}/was-run"
        with open(python, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\ntouch {mark}\nexit 3\n")
        os.chmod(python, 0o755)
        self.train(3, *self.PPO, "--seeds", "1", "--python", python, "--out", "o")  # the environment needs none
        for env in ("CartPole-v1", "gym:CartPole-v1"):
            kept = self.read("o/config.yaml").decode().replace("env: CartPole-v1", f"env: {env}")
            self.assertIn(f"env: {env}\n", kept)
            for path in ("o/config.yaml", "mine.yaml"):
                with open(f"{self.root}/{path}", "w", encoding="utf-8") as file:
                    file.write(kept)
            for arguments in (("--seeds", "1", "--resume", "o"), ("--config", "mine.yaml"),
                              ("--config", "mine.yaml", "--resume", "o/seed-1/checkpoint.bin")):
                _, err = self.train(1 if arguments[-1].endswith(".bin") else 2, *arguments)
                self.assertIn("which is not run", err)
                self.assertIn("--python", err)
        self.assertFalse(os.path.exists(mark))

    def test_wrong_usage(self):
        for arguments, wrong in ((("--seeds", "2", "--checkpoint", "c"), "no --checkpoint"),
                                 (("--parallel", "2"), "--parallel is for --seeds"),
                                 (("--seeds", "2", "--resume", "nowhere"), "the folder of an earlier --seeds"),
                                 (("--seeds", "2", "--seed", "18446744073709551615"), "there are no 2 seeds from"),
                                 (("--seeds", "0"), "--seeds")):
            _, err = self.train(2, "--env", "CartPole-v1", *arguments)
            self.assertIn(wrong, err)
        _, err = self.train(1, "--env", "CartPol-v1", "--seeds", "2")
        self.assertEqual(err.count("is \"CartPole-v1\" meant"), 1, "what is wrong for all is said once: " + err)


if __name__ == "__main__":
    RL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
