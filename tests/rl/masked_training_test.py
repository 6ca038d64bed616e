"""Whole runs in an environment where a forbidden action is an error: every loop, evaluation and collection heed its
mask, and a mask that allows nothing ends a run with the environment and the step."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

RL = None


class MaskedTrainingTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tr-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.temporary.cleanup()

    def run_program(self, code, *arguments):
        done = subprocess.run([RL, *arguments], env=self.environment, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=120, cwd=self.root)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def train(self, *arguments, env="Gates-v0", code=0):
        return self.run_program(code, "train", "--env", env, "--hidden", "16", "--no-tensorboard", *arguments)

    def greedy_return(self):
        out, _ = self.run_program(0, "evaluate", "rl-out/policy.bin", "--episodes", "50")
        return float(out.split("mean return ")[1].split()[0])

    def test_every_loop_takes_what_is_allowed_alone_and_learns_the_best_of_it(self):
        # An episode has some 17 steps of reward 1 at most; any allowed action gives some 9 of them.
        for name, arguments in {
                "ppo": ("--steps", "20480", "--learners", "2", "--learning-rate", "3e-3"),
                "impala": ("--steps", "40960", "--inference-actors", "1", "--learning-rate", "5e-3"),
                "dqn": ("--steps", "10240", "--num-envs", "8", "--horizon", "32", "--gamma", "0.5", "--replay-shards",
                        "2", "--prioritized-replay")}.items():
            with self.subTest(name):
                self.train("--algo", name, *arguments)
                self.assertGreater(self.greedy_return(), 15)

    def test_demonstrations_are_cloned_by_what_was_allowed(self):
        self.train("--algo", "ars", "--steps", "20000")
        self.run_program(0, "collect", "rl-out/policy.bin", "--episodes", "20", "--out", "played.bin")
        with open(f"{self.root}/played.bin", "rb") as file:
            head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        self.assertEqual(head["mask"]["shape"], [head["reward"]["shape"][0], 4])
        self.train("--algo", "bc", "--demonstrations", "played.bin", "--steps", "20000", "--evaluate-every", "0")
        self.assertGreater(self.greedy_return(), 9)

    def test_a_mask_that_allows_nothing_ends_the_run_with_its_step(self):
        _, err = self.train("--algo", "ppo", env="Closed-v0", code=1)
        self.assertRegex(err, r"environment \d+ of Closed-v0 allows no action at step 7: its mask is 0 for all choices")

    def test_who_cannot_heed_a_mask_refuses_the_environment(self):
        _, err = self.train("--algo", "dqn", env="Gates2-v0", code=1)
        self.assertIn("dqn on Gates2-v0", err)


if __name__ == "__main__":
    RL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
