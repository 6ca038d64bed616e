"""Exactly once, step by step: at each call by which a run changes its folder the disk is full or broken, the process
is killed, or it is stopped, another run takes over, and the first one wakes up. Afterwards the data set is the one
that an undisturbed run makes, nothing is left beside it, and whoever failed said why. CRD-1, DJR-1 to DJR-5, DRN-1,
DSF-2, RTK-1 to RTK-3, SFL-1 to SFL-4, TMP-2.

interleavings_test.py PROGRAM TROUPE DISTURB: DISTURB is loaded into the program and its workers (disturb.cc).
"""
import contextlib
import errno
import itertools
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from program_case import ProgramCase  # noqa: E402

SHARDS = 12
JOB = ("--generator", "faulty", "--format", "lines", "--samples", 10 * SHARDS - 3, "--seed", 7, "--milliseconds", 3)
# Call, file, which of them; in the order of a run.
BEGIN = (("mkdir", "*/set/manifest", 1), ("write", "*/manifest/.job.json.*", 1), ("fsync", "*/manifest/.job.json.*", 1),
         ("renameat2", "*/manifest/.job.json.*", 1), ("fsync", "*/set/manifest", 1))
JOURNAL = (("open", "*/manifest/.000001.log.*", 1), ("pwrite", "*/manifest/*.log*", 1),
           ("fsync", "*/manifest/*.log*", 1), ("link", "*/manifest/*.log*", 1), ("fsync", "*/set/manifest", 2))
TOKEN = (("write", "*/manifest/*.token*", 1), ("rename", "*/manifest/*.token*", 1))
SHARD = (("mkdir", "*/set/data", 1), ("open", "*/data/.part-*", 3), ("write", "*/data/.part-*", 2),
         ("fsync", "*/data/.part-*", 5), ("renameat2", "*/data/.part-*", 4))
COMMIT = (("fsync", "*/set/data", 2), ("pwrite", "*/manifest/*.log*", 3), ("fdatasync", "*/manifest/*.log*", 2))
END = (("unlink", "*/manifest/*.token", 1), ("write", "*/result.json.tmp.*", 1), ("rename", "*/result.json.tmp.*", 1))


class InterleavingsTest(ProgramCase):
    DISTURB = None

    def setUp(self):
        super().setUp()
        self.datagen("run", *JOB, "--out", self.path("undisturbed"))
        self.digest_wanted = self.result(self.path("undisturbed"))["digest"]
        self.turn = 0

    def disturbed(self, point, action, *arguments):
        """A run in a new folder in which that happens; the folder."""
        self.turn += 1
        out = self.path(f"{self.turn}/set")
        os.mkdir(self.path(f"{self.turn}"))
        call, pattern, nth = point
        self.count = self.path(f"count-{self.turn}")
        environment = {**self.environment, "LD_PRELOAD": self.DISTURB, "DATAGEN_DISTURB_COUNT": self.count,
                       "DATAGEN_DISTURB": f"{call} {pattern} {nth} {action}"}
        self.running = subprocess.Popen([self.PROGRAM, *map(str, ("run", *JOB, "--out", out, "--troupe-cpus", 2,
                                                                 *arguments))],
                                        env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.addCleanup(self.end, self.running)
        return out

    def end(self, running):
        """Of a test that went wrong nobody is left, stopped or not."""
        running.kill()
        running.communicate()
        for pid in self.processes("troupe-worker"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def victim(self):
        """Where it happened; None as long as it has not."""
        try:
            with open(f"{self.count}.pid", encoding="utf-8") as file:
                return int(file.read() or 0) or None
        except OSError:
            return None

    def stopped(self, pid):
        """It tells of itself before it stops: SIGCONT between the two would be lost."""
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "T"

    def check(self, out):
        left = [name for _, _, names in os.walk(out) for name in names if ".tmp" in name or name.endswith(".token")]
        self.assertEqual(left, [])
        result = self.result(out)
        self.assertEqual((result["status"], result["digest"]), ("done", self.digest_wanted))
        self.assertEqual(len(self.shards_there(out)), SHARDS)

    def test_a_call_that_fails(self):
        codes = itertools.cycle((errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EMFILE))
        for point, code in zip((*BEGIN, *JOURNAL, *TOKEN, *SHARD, *COMMIT, *END), codes):
            with self.subTest(point=point, code=errno.errorcode[code]):
                out = self.disturbed((point[0], point[1], f"{point[2]}+"), code)
                said = "".join(self.running.communicate(timeout=60))
                self.assertIsNotNone(self.victim(), f"there is such a call: {said}")
                self.assertIn(self.running.returncode, (0, 1), said)
                if self.running.returncode == 1:
                    self.assertIn(os.strerror(code), said)
                    self.assertNotIn("the driver ended with", said)
                self.assertEqual(self.processes("troupe-worker"), [])
                self.datagen("run", *JOB, "--out", out)
                self.check(out)

    def test_what_verify_cannot_read_is_not_removed(self):  # VRF-2
        out = self.path("undisturbed")
        before = sorted(self.shards_there(out))
        for call, code in (("open", errno.EMFILE), ("read", errno.EIO)):
            with self.subTest(call=call):
                self.environment.update({"LD_PRELOAD": self.DISTURB, "DATAGEN_DISTURB_COUNT": self.path(call),
                                         "DATAGEN_DISTURB": f"{call} */data/part-0000* 3+ {code}"})
                said = self.datagen("verify", out, "--remove-bad", "--regenerate", 0, code=1)
                self.assertIn(os.strerror(code), said)
                self.assertIn("files could not be read and are left as they are", said)
                self.assertEqual(sorted(self.shards_there(out)), before)
        for name in ("LD_PRELOAD", "DATAGEN_DISTURB"):
            del self.environment[name]
        self.assertIn("good", self.datagen("verify", out))

    def test_a_process_that_is_killed(self):
        for point in (*BEGIN, *JOURNAL, *TOKEN, *SHARD, *COMMIT, *END):
            with self.subTest(point=point):
                out = self.disturbed(point, "KILL")
                said = "".join(self.running.communicate(timeout=60))
                self.assertIsNotNone(self.victim(), f"there is such a call: {said}")
                driver = self.victim() == self.running.pid
                self.assertEqual(self.running.returncode, -signal.SIGKILL if driver else 0, said)
                self.until("nobody is left", lambda: not self.processes("troupe-worker"))
                if driver:
                    self.datagen("run", *JOB, "--out", out)
                self.check(out)

    def test_a_process_that_is_stopped_and_wakes_up_after_another_run(self):
        for point in (JOURNAL[2], JOURNAL[3], TOKEN[1], SHARD[2], SHARD[4], COMMIT[0], COMMIT[2]):
            with self.subTest(point=point):
                out = self.disturbed(point, "STOP")
                victim = self.until("it happened", self.victim)
                self.until("it stands still", lambda: self.stopped(victim))
                self.datagen("run", *JOB, "--out", out)
                try:
                    os.kill(victim, signal.SIGCONT)
                except ProcessLookupError:
                    pass  # its driver has found out meanwhile, and has ended it
                said = "".join(self.running.communicate(timeout=60))
                self.assertIn(self.running.returncode, (0, 1), said)
                if self.running.returncode == 1:
                    self.assertIn("taken over", said)
                self.check(out)

    def test_a_coordinator_that_stands_still_is_replaced(self):  # DRN-4, from its first call on
        for point in (JOURNAL[2], JOURNAL[3], ("fsync", "*/set", 2), COMMIT[2]):
            with self.subTest(point=point):
                out = self.disturbed(point, "STOP", "--commit-timeout", 0.5)
                said = "".join(self.running.communicate(timeout=60))
                self.assertIsNotNone(self.victim(), f"there is such a call: {said}")
                self.assertEqual(self.running.returncode, 0, said)
                self.assertIn("the coordinator has not answered for 0.5 s: another one takes its place", said)
                self.check(out)

    def test_a_slow_disk_is_no_coordinator_that_stands_still(self):  # DRN-4: it has twice the time, and so on
        # Few shards are under way at a time, so that there are commits enough: a life finds what the one before it had
        # written, so it is the commit after that one which has to wait.
        out = self.disturbed((*COMMIT[2][:2], "1+"), "SLOW700", "--commit-timeout", 0.25, "--open-bytes", 1)
        said = "".join(self.running.communicate(timeout=60))
        self.assertEqual(self.running.returncode, 0, said)
        for seconds in (0.25, 0.5):
            self.assertIn(f"the coordinator has not answered for {seconds} s: another one takes its place", said)
        # That it ends at all shows that the time grew until it was enough; how often it doubled is the machine's doing.
        self.check(out)

    def test_ctrl_c_does_not_wait_for_a_coordinator_that_stands_still(self):  # DRN-1, CRD-4
        out = self.disturbed(COMMIT[2], "STOP")
        self.until("it happened", self.victim)
        self.running.send_signal(signal.SIGINT)
        said = "".join(self.running.communicate(timeout=30))  # a commit has a minute
        self.assertEqual(self.running.returncode, 130, said)
        self.assertEqual(self.processes("troupe-worker"), [])
        self.datagen("run", *JOB, "--out", out)
        self.check(out)

    def test_it_is_said_for_whom_the_start_waits(self):
        out = self.disturbed(("open", "*/manifest/*.token", 1), "STOP")
        victim = self.until("it happened", self.victim)
        self.assertNotEqual(victim, self.running.pid)
        said = ""
        while "waiting for node" not in said:
            line = self.running.stderr.readline()
            self.assertTrue(line, f"it ended before: {said}")
            said += line
        os.kill(victim, signal.SIGCONT)
        said += "".join(self.running.communicate(timeout=60))
        self.assertEqual(self.running.returncode, 0, said)
        self.check(out)


if __name__ == "__main__":
    ProgramCase.PROGRAM, ProgramCase.TROUPE, InterleavingsTest.DISTURB = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
