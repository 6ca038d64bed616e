"""gpt --device cuda as a user meets it, on the emulated plug-in: every worker holds a GPU of the runtime, the losses
are those of the CPU, and what is missing is said."""
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "train"))
import app_test  # noqa: E402

GPT = PLUGIN = None
TINY = ["--layers", "1", "--heads", "2", "--channels", "16", "--context", "8", "--batch", "4", "--validation-rows", "4",
        "--evaluate-every", "0"]
WIDE = ["--heads", "1", "--channels", "130"]


class CudaTrainAppTest(app_test.ProgramTest):
    def setUp(self):
        super().setUp()
        for name in ("LOCAL_RANK", "CUDA_VISIBLE_DEVICES"):
            self.environment.pop(name, None)
        self.environment["TROUPE_CUDA_LIB"] = PLUGIN

    def gpt(self, out, *arguments):
        self.run_program(GPT, *TINY, "--out", self.path(out), *arguments)
        return self.result(out)

    def cuda(self, out, workers, *arguments):
        return self.gpt(out, "--device", "cuda", "--workers", str(workers), "--troupe-gpus", str(workers), *arguments)

    def same_losses(self, one, other):
        self.assertEqual(len(one["losses"]), len(other["losses"]))
        for (step, loss), (_, wanted) in zip(one["losses"], other["losses"]):
            self.assertAlmostEqual(loss, wanted, delta=1e-4, msg=f"step {step}")

    def test_one_worker_and_two_train_as_on_the_cpu(self):
        on_cpu = self.gpt("cpu", "--steps", "6", "--workers", "2")
        one, two = self.cuda("one", 1, "--steps", "6"), self.cuda("two", 2, "--steps", "6", "--zero", "1")
        ranks = self.run_program(GPT, *TINY, "--device", "cuda", "--workers", "1", "--troupe-gpus", "1", "--steps", "1",
                                 "--out", self.path("said")).stderr
        self.assertRegex(ranks, r"rank 0: process \d+ on .*emulation.*products by")
        self.assertEqual([run["device"] for run in (on_cpu, one, two)], ["cpu", "cuda", "cuda"])
        self.assertLess(two["losses"][-1][1], two["losses"][0][1])
        self.same_losses(one, on_cpu)
        self.same_losses(two, on_cpu)
        self.assertAlmostEqual(two["evaluations"][-1]["loss"], on_cpu["evaluations"][-1]["loss"], delta=1e-4)

    def test_micro_batches_and_resume_from_a_checkpoint_of_the_cpu(self):
        whole = self.gpt("whole", "--steps", "6", "--workers", "1")
        mixed = self.cuda("micro", 1, "--steps", "6", "--micro-batch", "3", "--sample", "4")
        self.same_losses(mixed, whole)
        self.assertTrue(mixed["sample"])
        self.gpt("begun", "--steps", "3", "--workers", "1", "--decay-steps", "6", "--warmup", "0")
        on = self.cuda("begun", 1, "--steps", "6", "--decay-steps", "6", "--warmup", "0", "--resume")
        uninterrupted = self.gpt("straight", "--steps", "6", "--workers", "1", "--warmup", "0")
        self.assertAlmostEqual(on["losses"][-1][1], uninterrupted["losses"][-1][1], delta=1e-4)

    def test_processes_that_a_launcher_started_take_the_gpu_of_their_local_rank(self):
        actors = self.cuda("actors", 2, "--steps", "4")
        launcher = {"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": f"c{os.getpid()}"}
        ranks = [app_test.Running([GPT, *TINY, "--device", "cuda", "--steps", "4", "--out", self.path("joined")],
                                  {**self.environment, **launcher, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                 for rank in range(2)]
        for rank in ranks:
            self.assertEqual(rank.end(), 0, rank.text())
        self.assertEqual(self.result("joined")["losses"], actors["losses"])

    def test_a_rank_that_is_killed_gives_its_gpu_to_its_replacement(self):
        running = app_test.Running([
            GPT, *TINY, "--device", "cuda", "--workers", "2", "--troupe-gpus", "2", "--steps", "1000000",
            "--commit-every", "2", "--checkpoint-every", "0", "--out",
            self.path("lost")
        ], self.environment)
        try:
            self.assertTrue(app_test.wait_until(lambda: len(running.pids()) == 2 and running.reached() > 4),
                            running.text())
            os.kill(running.pids()[1], signal.SIGKILL)
            self.assertTrue(app_test.wait_until(lambda: len(running.pids()) == 3), running.text())
            running.process.send_signal(signal.SIGINT)
            self.assertEqual(running.end(), 130, running.text())
            self.assertEqual([recovery["ranks"] for recovery in self.result("lost")["recoveries"]], [2, 1, 2])
        finally:
            if running.process.poll() is None:
                running.process.kill()
                running.end()

    def test_what_is_missing_is_said_in_one_line(self):
        out = ["--out", self.path("bad")]
        nowhere = self.path("none.so")
        for said, plugin, arguments in (
                ("no GPU", PLUGIN, ["--troupe-gpus", "0"]),
                ("the cluster has 1: --workers 1", PLUGIN, ["--workers", "3", "--troupe-gpus", "1"]),
                ("TROUPE_CUDA_LIB", nowhere, ["--workers", "1", "--troupe-gpus", "1"]),
                ("at most 128", PLUGIN, ["--workers", "1", "--troupe-gpus", "1"])):
            self.environment["TROUPE_CUDA_LIB"] = plugin
            size = WIDE if said == "at most 128" else TINY
            done = self.run_program(GPT, *size, "--device", "cuda", *arguments, *out, code=1)
            self.assertIn(said, done.stderr, arguments)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        alone = {"WORLD_SIZE": "1", "RANK": "0", "TROUPE_CUDA_LIB": nowhere}
        rank = app_test.Running([GPT, *TINY, "--device", "cuda", *out], {**self.environment, **alone})
        self.assertEqual(rank.end(), 1)
        self.assertIn("TROUPE_CUDA_LIB", rank.text())


if __name__ == "__main__":
    GPT, PLUGIN = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
