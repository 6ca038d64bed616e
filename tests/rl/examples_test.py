"""The templates of apps/rl/examples: an environment and an algorithm of a user's own, under the verbs of rl."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

OWN_ENV = OWN_ALGORITHM = None


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tr-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.temporary.cleanup()

    def run_program(self, code, program, *arguments):
        done = subprocess.run([program, *arguments], env=self.environment, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=120, cwd=self.root)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def result(self):
        with open(f"{self.root}/rl-out/result.json", encoding="utf-8") as file:
            return json.load(file)

    def test_an_environment_of_ones_own_is_solved(self):
        out, _ = self.run_program(0, OWN_ENV, "list")
        self.assertIn("  Corridor-v0\n", out)
        # Half of the steps to the left, at first: far from the 10.8 steps that solve it.
        self.run_program(0, OWN_ENV, "train", "--env", "Corridor-v0", "--env-kwargs", '{"cells": 12}', "--steps",
                         "200000")
        self.assertLess(self.result()["solved_steps"], 200000)
        out, _ = self.run_program(0, OWN_ENV, "evaluate", "rl-out/policy.bin", "--episodes", "50")
        self.assertGreater(float(out.split("mean return ")[1].split()[0]), -11)
        for algorithm in ("a2c", "dqn"):
            self.run_program(0, OWN_ENV, "train", "--algo", algorithm, "--env", "Corridor-v0", "--steps", "60000")

    def test_a_callback_ends_a_run(self):
        out, _ = self.run_program(3, OWN_ENV, "train", "--env", "Corridor-v0", "--env-kwargs", '{"cells": 100}',
                                  "--steps", "400000", "--learning-rate", "0", "--learning-rate-last", "0")
        self.assertIn("ended by a callback", out)
        self.assertEqual(self.result()["steps"], 100352)  # the first whole round of 2,048 behind it
        out, _ = self.run_program(3, OWN_ENV, "train", "--algo", "dqn", "--env", "Corridor-v0", "--env-kwargs",
                                  '{"cells": 100}', "--hidden", "8", "--horizon", "1000", "--updates", "1", "--steps",
                                  "400000", "--keep-going", "--epsilon-last", "1", "--num-envs", "1",
                                  "--num-workers", "1")
        self.assertIn("ended by a callback", out)
        self.assertEqual(self.result()["steps"], 100000)  # not a round more, that might have begun early

    def test_what_is_wrong_with_it_is_said(self):
        _, err = self.run_program(1, OWN_ENV, "train", "--env", "Corridor-v0", "--env-kwargs", '{"cell": 12}')
        self.assertIn("Corridor-v0 takes cells, from 2 to 1000", err)
        _, err = self.run_program(1, OWN_ENV, "train", "--env", "Coridor-v0")
        self.assertIn("Corridor-v0", err)
        _, err = self.run_program(2, OWN_ENV, "record", "rl-out/policy.bin")
        self.assertIn("no pictures", err)

    def test_an_algorithm_of_ones_own_learns_goes_on_and_has_its_settings(self):
        out, _ = self.run_program(0, OWN_ALGORITHM, "list")
        self.assertIn("  reinforce\n", out)
        train = ("train", "--algo", "reinforce", "--keep-going")
        self.run_program(3, OWN_ALGORITHM, *train, "--steps", "8192", "--baseline-coefficient", "0.25")
        result = self.result()
        self.assertEqual(result["config"]["baseline_coefficient"], 0.25)
        first = result["mean_return"]
        self.run_program(3, OWN_ALGORITHM, *train, "--resume", "rl-out/checkpoint.bin", "--steps", "81920")
        result = self.result()
        self.assertEqual(result["config"]["baseline_coefficient"], 0.25)
        self.assertEqual(result["resumed_from_steps"], 8192)
        self.assertGreater(result["mean_return"], 2 * first)  # any actions: 22
        _, err = self.run_program(2, OWN_ALGORITHM, *train, "--clip", "0.1")
        self.assertIn("is a setting of ppo", err)
        _, err = self.run_program(2, OWN_ALGORITHM, "train", "--algo", "ppo", "--baseline-coefficient", "1")
        self.assertIn("'baseline_coefficient' is a setting of reinforce, not of ppo", err)


if __name__ == "__main__":
    OWN_ENV, OWN_ALGORITHM = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    unittest.main()
