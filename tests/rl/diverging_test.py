"""An environment that gives NaN ends the run, whatever learns from it: who gave it and when is said, and what was
learned before is kept (CKF-1, CKF-2)."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

RL = None


class DivergingTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tr-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.temporary.cleanup()

    def train(self, code, folder, kwargs, *arguments):
        done = subprocess.run([RL, "train", "--out", f"{self.root}/{folder}", "--env", "Diverging-v0", "--env-kwargs",
                               json.dumps(kwargs), "--num-workers", "1", "--hidden", "8",
                               "--no-tensorboard", *arguments], env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def test_it_is_named_with_its_seed_and_step_and_the_run_goes_on_from_before(self):
        for where, step, what in (("reward", 205, "reward"), ("observation", 205, "observation"),
                                  ("last", 210, "last observation")):
            with self.subTest(where):
                # Environments 0 and 1 have the seeds 1 and 2; rounds are of 32 steps of each.
                _, err = self.train(1, where, {"in": where, "step": step}, "--steps", "100000", "--horizon", "32",
                                    "--num-envs", "2")
                self.assertIn(f"environment 1 of Diverging-v0 (seed 2) gave in step {step} the {what} nan", err)
                self.assertIn("after 384 steps", err)
                checkpoint = f"{self.root}/{where}/checkpoint.bin"
                self.assertIn(f"checkpoint {checkpoint}", err)
                _, err = self.train(0, f"{where}-on", {"in": "nowhere", "step": 0}, "--resume", checkpoint, "--steps",
                                    "1024", "--num-envs", "2")
                self.assertIn("begin new episodes", err)
                with open(f"{self.root}/{where}-on/result.json", encoding="utf-8") as file:
                    result = json.load(file)
                self.assertEqual((result["resumed_from_steps"], result["steps"]), (384, 1024))

    def test_every_algorithm_that_plays_ends_by_it(self):
        few = ("--steps", "100000", "--horizon", "16", "--num-envs", "2")
        for algo, kwargs in (("a2c", {}), ("impala", {}), ("dqn", {}), ("sac", {"box": True})):
            with self.subTest(algo=algo):
                _, err = self.train(1, algo, {"in": "observation", "step": 55, **kwargs}, "--algo", algo, *few)
                self.assertRegex(err, r"after \d+ steps of seed 1: .*environment [01] of Diverging-v0 "
                                      r"\(seed \d+\) gave in step 55 the observation nan")
                self.assertTrue(os.path.exists(f"{self.root}/{algo}/checkpoint.bin"))

    def test_a_search_ends_by_it(self):
        _, err = self.train(1, "ars", {"in": "reward", "step": 5}, "--algo", "ars", "--steps", "100000")
        self.assertRegex(err, r"environment 0 of Diverging-v0 \(seed \d+\) gave in step 5 the reward nan")

    def test_a_first_observation_is_looked_at(self):
        _, err = self.train(1, "first", {"in": "first", "step": 0}, "--steps", "1000",
                            "--num-envs", "2")
        self.assertIn("environment 1 of Diverging-v0 (seed 2) gave in step 0 the observation nan", err)


if __name__ == "__main__":
    RL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
