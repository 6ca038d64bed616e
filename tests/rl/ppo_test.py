"""ppo as a user meets it: its exit codes, what it reports, a rollout actor that is killed, Ctrl-C and --resume."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PPO = None


class PpoTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tp-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.temporary.cleanup()

    def start(self, *arguments):
        return subprocess.Popen([PPO, "--out", self.root + "/out", *arguments], env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, running, code):
        out, err = running.communicate(timeout=240)
        self.assertEqual(running.returncode, code, out + err)
        return out, err

    def result(self):
        with open(self.root + "/out/result.json", encoding="utf-8") as file:
            return json.load(file)

    def workers(self):
        """The worker processes of this test's cluster."""
        found, mark = [], f"TROUPE_SESSION_ROOT={self.root}".encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/comm", encoding="utf-8") as comm, open(f"/proc/{name}/environ",
                                                                                "rb") as environment:
                    if comm.read().strip() == "troupe-worker" and mark in environment.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                pass
        return found

    def test_seeds_go_on_in_their_folder_without_out(self):
        for more, wrong in (((), "there is no nowhere/config.yaml"), (("--out", "ppo-out"), "not in ppo-out")):
            done = subprocess.run([PPO, "--seeds", "2", "--resume", "nowhere", *more], env=self.environment, text=True,
                                  cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(wrong, done.stderr)

    def test_a_run_that_solves_exits_0_and_reports(self):
        self.end(self.start(), 0)
        result = self.result()
        self.assertTrue(result["solved"])
        self.assertEqual(len(result["learning"]), result["updates"])
        for point in result["learning"]:
            self.assertGreater(point["entropy"], 0)
            self.assertGreaterEqual(point["clip_fraction"], 0)
        rates = [point["learning_rate"] for point in result["learning"]]
        self.assertEqual(rates, sorted(rates, reverse=True))

    def test_a_run_that_does_not_solve_exits_3(self):
        out, _ = self.end(self.start("--total-steps", "4096"), 3)
        self.assertIn("not solved", out)
        result = self.result()
        self.assertFalse(result["solved"])
        self.assertAlmostEqual(result["learning"][-1]["learning_rate"], 2e-4,
                               places=9)  # the schedule has come to its end

    def test_wrong_usage_is_2(self):
        self.end(self.start("--fly"), 2)

    def test_ctrl_c_leaves_a_checkpoint_that_goes_on(self):
        running = self.start("--keep-going", "--total-steps", "100000000")
        progress, deadline = self.root + "/out/progress.jsonl", time.monotonic() + 60
        while not (os.path.exists(progress) and os.path.getsize(progress) > 0) and time.monotonic() < deadline:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        out, _ = self.end(running, 130)
        self.assertIn("go on with", out)
        stopped = self.result()["steps"]
        resumed = self.start("--resume", self.root + "/out/checkpoint.bin", "--total-steps", str(stopped + 4096))
        out, err = resumed.communicate(timeout=240)
        # Either may be: how far the first run came is the machine's doing.
        self.assertEqual(resumed.returncode, 0 if self.result()["solved"] else 3, out + err)
        self.assertEqual(self.result()["resumed_from_steps"], stopped)


if __name__ == "__main__":
    PPO = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
