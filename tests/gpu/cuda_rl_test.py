"""rl train --device cuda as a user meets it, on the emulated plug-in: every learner holds a GPU of the runtime, what is
learned is what the CPU learns but for rounding, and what is missing is said before anything starts."""
import os
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "rl"))
import rl_program_test  # noqa: E402

PLUGIN = None


class CudaRlTest(rl_program_test.ProgramTest):
    def setUp(self):
        super().setUp()
        for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "CUDA_VISIBLE_DEVICES"):
            self.environment.pop(name, None)
        self.environment["TROUPE_CUDA_LIB"] = PLUGIN

    def cuda(self, code, folder, *arguments, gpus=1):
        return self.train(code, folder, "--device", "cuda", "--troupe-gpus", str(gpus), *arguments)

    def numbers(self, folder):
        header, data = self.parameters(folder)
        floats = [entry for entry in header.values() if entry.get("dtype") == "F32"]
        self.assertTrue(floats)
        return [struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
                for begin, end in (entry["data_offsets"] for entry in floats)]

    def same_parameters(self, one, other, near):
        """Between runs whose sums are rounded in another order."""
        for left, right in zip(self.numbers(one), self.numbers(other), strict=True):
            for a, b in zip(left, right, strict=True):
                self.assertAlmostEqual(a, b, delta=near)

    # So few updates that rounding has not chosen another action yet. Code 0: nothing says what solved means.
    ENDLESS = ("--env", "CartPole-v1", "--num-workers", "1", "--num-envs", "4", "--horizon", "32", "--epochs", "2",
               "--minibatch", "64", "--hidden", "16,16", "--keep-going", "--seed", "3")
    PPO = (*ENDLESS, "--steps", "256")
    SHORT = {
        "ppo": (3, "ppo", *PPO),
        "ppo with convolutions":
            (0, "ppo", "--env", "MinAtar/Breakout-v1", "--num-workers", "1", "--num-envs", "2", "--horizon", "16",
             "--steps", "64", "--epochs", "1", "--minibatch", "32", "--convolutions", "4x3x1,4x2x2", "--hidden", "16"),
        "a2c": (3, "a2c", "--env", "CartPole-v1", "--num-envs", "4", "--horizon", "8", "--steps", "128", "--hidden",
                "16"),
        "dqn": (3, "dqn", "--env", "CartPole-v1", "--horizon", "32", "--updates", "8", "--learning-starts", "64",
                "--steps", "192", "--minibatch", "32", "--dueling", "--hidden", "16,16", "--epsilon-last", "1"),
        "sac": (0, "sac", "--env", "Pendulum-v1", "--learning-starts", "64", "--steps", "96", "--minibatch", "32",
                "--hidden", "16,16"),
        "sac with gsde": (0, "sac", "--env", "Pendulum-v1", "--learning-starts", "64", "--steps", "96", "--minibatch",
                          "32", "--hidden", "16,16", "--noise", "gsde")}

    def test_few_updates_of_each_kind_are_those_of_the_cpu(self):
        for name, (code, algo, *arguments) in self.SHORT.items():
            with self.subTest(name):
                short = ("--algo", algo, *arguments)
                self.train(code, f"{name}-cpu", *short)
                _, said = self.cuda(code, f"{name}-gpu", *short)
                self.assertRegex(said, r"learner: process \d+ on GPU 0: .*emulation.*, products by")
                for device in ("cpu", "cuda"):
                    self.assertEqual(self.result(f"{name}-{device.replace('cuda', 'gpu')}")["config"]["device"], device)
                self.same_parameters(f"{name}-gpu", f"{name}-cpu", 2e-3)

    def test_fragments_and_demonstrations_are_learned_from_too(self):
        self.cuda(3, "impala", "--algo", "impala", "--env", "CartPole-v1", "--num-envs", "4", "--steps", "1024",
                  "--hidden", "16", "--keep-going")  # what it learns depends on time
        self.assertEqual(self.result("impala")["steps"], 1024)
        episodes = f"{self.root}/episodes.bin"
        self.run_rl(0, "collect", f"{self.root}/impala/policy.bin", "--episodes", "10", "--out", episodes)
        clone = ("--algo", "bc", "--demonstrations", episodes, "--steps", "1024", "--hidden", "16",
                 "--evaluate-every", "0")
        self.train(3, "bc-cpu", *clone)
        self.cuda(3, "bc-gpu", *clone)
        self.same_parameters("bc-gpu", "bc-cpu", 2e-3)

    # Rounding chooses other actions in the end: the numbers are then those of two seeds, near each other.
    LONG = {
        "ppo": (3, "--env", "CartPole-v1", "--num-workers", "1", "--steps", "8192", "--hidden", "16,16"),
        "dqn": (3, "--env", "CartPole-v1", "--horizon", "64", "--updates", "8", "--learning-starts", "256",
                "--steps", "4096", "--hidden", "16,16"),
        "sac": (0, "--env", "Pendulum-v1", "--horizon", "8", "--updates", "1", "--learning-starts", "256", "--steps",
                "2048", "--minibatch", "64", "--hidden", "16,16")}

    def test_a_few_thousand_steps_learn_what_they_learn_on_the_cpu(self):
        for algo, (code, *arguments) in self.LONG.items():
            with self.subTest(algo):
                long = ("--algo", algo, *arguments, "--keep-going", "--seed", "1")
                self.train(code, f"{algo}-cpu", *long)
                self.cuda(code, f"{algo}-gpu", *long)
                cpu, gpu = self.result(f"{algo}-cpu"), self.result(f"{algo}-gpu")
                self.assertEqual((gpu["steps"], gpu["updates"]), (cpu["steps"], cpu["updates"]))
                for name, value in cpu["learning"][0].items():
                    self.assertAlmostEqual(gpu["learning"][0][name], value, delta=1e-4 + 1e-3 * abs(value), msg=name)
                self.assertAlmostEqual(gpu["mean_return"], cpu["mean_return"], delta=0.5 * abs(cpu["mean_return"]))

    def test_two_learners_hold_two_gpus(self):
        self.train(3, "cpu", *self.PPO)
        _, said = self.cuda(3, "gpus", *self.PPO, "--learners", "2", gpus=2)
        self.assertEqual(len(re.findall(r"learner: process \d+ on GPU", said)), 2, said)
        self.same_parameters("gpus", "cpu", 2e-3)

    def test_a_checkpoint_goes_on_here_and_there(self):
        self.cuda(3, "one", *self.PPO)
        self.cuda(3, "two", *self.PPO)
        self.assertEqual(self.parameters("one")[1], self.parameters("two")[1])  # LRN-1
        more = ("--resume", f"{self.root}/one/checkpoint.bin", "--steps", "384")
        self.train(3, "on-cpu", *more, "--device", "cpu")
        self.train(3, "on-gpu", *more, "--troupe-gpus", "1")
        self.assertEqual(self.result("on-gpu")["config"]["device"], "cuda")
        self.same_parameters("on-gpu", "on-cpu", 2e-3)
        out, _ = self.run_rl(0, "evaluate", f"{self.root}/on-gpu/policy.bin", "--episodes", "2")
        self.assertIn("mean return", out)

    def test_a_learner_that_is_killed_gives_its_gpu_to_the_next(self):
        folder, said = f"{self.root}/killed", f"{self.root}/said"
        arguments = (*self.ENDLESS, "--steps", "10000000", "--device", "cuda", "--troupe-gpus", "1", "--out", folder)

        def learners():
            with open(said, encoding="utf-8") as file:
                return [int(pid) for pid in re.findall(r"learner: process (\d+) on GPU", file.read())]

        with open(said, "w", encoding="utf-8") as err, subprocess.Popen(
            [rl_program_test.RL, "train", *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=err) as running:
            deadline = time.monotonic() + 120

            def wait_until(condition):
                while not condition():
                    self.assertLess(time.monotonic(), deadline)
                    self.assertIsNone(running.poll())
                    time.sleep(0.01)

            try:
                wait_until(lambda: os.path.exists(f"{folder}/checkpoint.bin") and learners())
                os.kill(learners()[0], signal.SIGKILL)
                wait_until(lambda: len(learners()) == 2)
                steps = self.steps_of(folder)
                wait_until(lambda: self.steps_of(folder) > steps)
                running.send_signal(signal.SIGINT)
                self.assertEqual(running.wait(60), 130)
            finally:
                running.kill()

    @staticmethod
    def steps_of(folder):
        """How many rounds it has told of."""
        with open(f"{folder}/progress.jsonl", encoding="utf-8") as file:
            return len(file.readlines())

    def test_what_is_missing_is_said_in_one_line_before_anything_starts(self):
        nowhere = f"{self.root}/none.so"
        for said, plugin, gpus, more in (("there is no GPU in the cluster", PLUGIN, 0, ()),
                                         ("2 learners want a GPU each, the cluster has 1: --learners 1", PLUGIN, 1,
                                          ("--learners", "2")),
                                         ("TROUPE_CUDA_LIB", nowhere, 1, ()), ("none.so", nowhere, 0, ())):
            self.environment["TROUPE_CUDA_LIB"] = plugin
            _, err = self.cuda(1, "bad", "--algo", "ppo", *more, gpus=gpus)
            self.assertIn(said, err)
            self.assertEqual(len(err.strip().splitlines()), 1, err)
            self.assertFalse(os.path.exists(f"{self.root}/bad/config.yaml"))


if __name__ == "__main__":
    rl_program_test.RL, PLUGIN = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
