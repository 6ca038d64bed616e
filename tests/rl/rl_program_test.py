"""rl as a user meets it: any environment, settings from flags and files, going on, playing, and its messages."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

RL = None


class RlTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tr-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.temporary.cleanup()

    def run_rl(self, code, *arguments):
        done = subprocess.run([RL, *arguments], env=self.environment, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=240)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def train(self, code, folder, *arguments):
        return self.run_rl(code, "train", "--out", f"{self.root}/{folder}", *arguments)

    def result(self, folder):
        with open(f"{self.root}/{folder}/result.json", encoding="utf-8") as file:
            return json.load(file)

    def parameters(self, folder):
        """All bytes behind the header of the policy's safetensors file."""
        with open(f"{self.root}/{folder}/policy.bin", "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            return json.loads(file.read(size)), file.read()

    PENDULUM = ("--env", "Pendulum-v1", "--normalize-observation", "--normalize-reward", "--num-envs", "4", "--horizon",
                "32", "--steps", "1024", "--hidden", "32,16", "--activation", "relu", "--initial-log-std", "-0.5")

    def test_an_environment_of_numbers_without_a_threshold_is_trained_and_played(self):
        out, _ = self.train(0, "p", *self.PENDULUM)
        self.assertIn("trained: 1024 steps", out)
        result = self.result("p")
        self.assertIsNone(result["threshold"])
        self.assertEqual(result["config"]["hidden"], [32, 16])
        header, _ = self.parameters("p")
        self.assertEqual(header["policy/hidden0/weight"]["shape"], [32, 3])
        self.assertEqual(header["log_std"]["shape"], [1])
        self.assertEqual(header["moments/0"]["shape"], [7])  # count, three means, three squared deviations
        out, _ = self.run_rl(0, "evaluate", f"{self.root}/p/policy.bin", "--episodes", "2")
        self.assertIn("Pendulum-v1: mean return -", out)

    def test_the_kept_configuration_makes_the_same_run_again(self):
        self.train(0, "one", *self.PENDULUM)
        self.train(0, "two", "--config", f"{self.root}/one/config.yaml")
        self.assertEqual(self.parameters("one")[1], self.parameters("two")[1])
        self.train(0, "three", "--config", f"{self.root}/one/config.yaml", "--seed", "2")
        self.assertNotEqual(self.parameters("one")[1], self.parameters("three")[1])

    def test_a_run_goes_on_with_its_moments_and_settings(self):
        self.train(0, "p", *self.PENDULUM)
        self.train(0, "q", "--resume", f"{self.root}/p/checkpoint.bin", "--steps", "2048")
        result = self.result("q")
        self.assertEqual(result["steps"], 2048)
        self.assertEqual(result["resumed_from_steps"], 1024)
        self.assertEqual(result["config"]["activation"], "relu")
        _, err = self.train(1, "r", "--resume", f"{self.root}/p/checkpoint.bin", "--hidden", "8")
        self.assertIn("another environment or network", err)

    def test_faults_are_counted_by_their_kind(self):
        self.train(3, "f", "--env", "throw:CartPole-v1", "--env-kwargs", '{"p": 0.02}', "--steps", "4096")
        faults = self.result("f")["faults"]
        self.assertGreater(faults["threw"], 20)
        self.assertEqual((faults["exited"], faults["stalled"]), (0, 0))

    def test_list_and_mistakes(self):
        out, _ = self.run_rl(0, "list")
        for name in ("ppo", "CartPole-v1", "Pendulum-v1"):
            self.assertIn(name, out)
        self.assertIn("did you mean --horizon?", self.train(2, "x", "--horizn", "3")[1])
        self.assertIn("learning_rate is a number from 0 on", self.train(2, "x", "--learning-rate", "-1")[1])
        self.assertIn("one of ppo", self.train(2, "x", "--algo", "dreamer")[1])
        self.assertIn('is "CartPole-v1" meant?', self.train(1, "x", "--env", "CartPol-v1")[1])
        with open(f"{self.root}/bad.yaml", "w", encoding="utf-8") as file:
            file.write("gama: 0.9\n")
        self.assertIn("did you mean 'gamma'?", self.train(2, "x", "--config", f"{self.root}/bad.yaml")[1])
        self.run_rl(2)


if __name__ == "__main__":
    RL = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
