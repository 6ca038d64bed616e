"""rl train --device cuda as a user meets it, on the emulated plug-in: every learner holds a GPU of the runtime, what is
learned is what the CPU learns but for rounding, and what is missing is said before anything starts."""
import os
import struct
import sys
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

    # So few updates that rounding has not chosen another action yet.
    SHORT = {
        "ppo": ("--env", "CartPole-v1", "--num-workers", "1", "--num-envs", "4", "--horizon", "32", "--steps", "256",
                "--epochs", "2", "--minibatch", "64", "--hidden", "16,16"),
        "a2c": ("--env", "CartPole-v1", "--num-envs", "4", "--horizon", "8", "--steps", "128", "--hidden", "16"),
        "dqn": ("--env", "CartPole-v1", "--horizon", "32", "--updates", "8", "--learning-starts", "64", "--steps",
                "192", "--minibatch", "32", "--dueling", "--hidden", "16,16", "--epsilon-last", "1"),
        "sac": ("--env", "Pendulum-v1", "--learning-starts", "64", "--steps", "96", "--minibatch", "32", "--hidden",
                "16,16")}

    def test_few_updates_of_each_kind_are_those_of_the_cpu(self):
        for algo, arguments in self.SHORT.items():
            with self.subTest(algo):
                short = ("--algo", algo, *arguments, "--keep-going", "--seed", "3")
                for folder, device in ((f"{algo}-cpu", "cpu"), (f"{algo}-gpu", "cuda")):
                    code = 0 if algo == "sac" else 3
                    if device == "cpu":
                        self.train(code, folder, *short)
                    else:
                        self.cuda(code, folder, *short)
                    self.assertEqual(self.result(folder)["config"]["device"], device)
                self.same_parameters(f"{algo}-gpu", f"{algo}-cpu", 2e-3)

    def test_a_few_thousand_steps_learn_what_they_learn_on_the_cpu(self):
        steps = ("--env", "CartPole-v1", "--num-workers", "1", "--steps", "8192", "--hidden", "16,16", "--keep-going",
                 "--seed", "1")
        for folder, run in (("cpu", self.train), ("gpu", self.cuda)):
            run(3, folder, "--algo", "ppo", *steps)
        cpu, gpu = self.result("cpu"), self.result("gpu")
        self.assertEqual(gpu["steps"], cpu["steps"])
        self.assertGreater(gpu["mean_return"], 40)
        self.assertAlmostEqual(gpu["mean_return"], cpu["mean_return"], delta=0.5 * cpu["mean_return"])

    def test_two_learners_hold_two_gpus(self):
        short = ("--algo", "ppo", *self.SHORT["ppo"], "--keep-going", "--seed", "3")
        self.train(3, "cpu", *short)
        self.cuda(3, "gpus", *short, "--learners", "2", gpus=2)
        self.same_parameters("gpus", "cpu", 2e-3)

    def test_a_checkpoint_goes_on_here_and_there(self):
        short = ("--algo", "ppo", *self.SHORT["ppo"], "--keep-going", "--seed", "3")
        self.cuda(3, "one", *short)
        self.cuda(3, "two", *short)
        self.assertEqual(self.parameters("one")[1], self.parameters("two")[1])  # LRN-1
        more = ("--resume", f"{self.root}/one/checkpoint.bin", "--steps", "384")
        self.train(3, "on-cpu", *more, "--device", "cpu")
        self.train(3, "on-gpu", *more, "--troupe-gpus", "1")
        self.assertEqual(self.result("on-gpu")["config"]["device"], "cuda")
        self.same_parameters("on-gpu", "on-cpu", 2e-3)
        out, _ = self.run_rl(0, "evaluate", f"{self.root}/on-gpu/policy.bin", "--episodes", "2")
        self.assertIn("mean return", out)

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
