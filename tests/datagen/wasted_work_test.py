"""What is said of wasted work is what the generator saw: it writes a line for each shard that it begins. A killed
worker costs one shard at most.
"""
import collections
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from program_case import ProgramCase  # noqa: E402

SHARDS, KILLS = 60, 5


class WastedWorkTest(ProgramCase):
    def begun(self):
        """How often each shard was begun."""
        with open(self.path("log"), encoding="utf-8") as file:
            return collections.Counter(map(int, file.read().split()))

    def run_with_kills(self, out, kills):
        arguments = ("--generator", "faulty", "--format", "lines", "--samples", 10 * SHARDS, "--milliseconds", 100,
                     "--log", self.path("log"), "--workers", 2, "--retries", 20, "--troupe-cpus", 2)
        with self.start("run", *arguments, "--out", out) as running:
            for _ in range(kills):
                there = len(self.shards_there(out))
                self.until("more shards", lambda: len(self.shards_there(out)) > there, running)
                os.kill(self.until("a worker", lambda: self.makers(out), running)[0], signal.SIGKILL)
            said = "".join(running.communicate(timeout=60))
        self.assertEqual(running.returncode, 0, said)
        return self.result(out)

    def test_nothing_is_wasted_where_nobody_is_killed(self):
        result = self.run_with_kills(self.path("set"), 0)
        self.assertEqual((result["wasted_shards"], result["retries"]), (0, 0))
        self.assertEqual(self.begun(), {10 * shard: 1 for shard in range(SHARDS)})

    def test_a_killed_worker_costs_a_shard_at_most(self):
        result = self.run_with_kills(self.path("set"), KILLS)
        begun = self.begun()
        wasted = begun.total() - SHARDS
        self.assertEqual(len(begun), SHARDS)
        self.assertGreater(wasted, 0, "nobody was killed at work")
        # A worker that is killed between the making of its file and the generator's line has wasted it, too.
        self.assertLessEqual(wasted, result["wasted_shards"])
        self.assertLessEqual(result["wasted_shards"], KILLS)


if __name__ == "__main__":
    ProgramCase.PROGRAM, ProgramCase.TROUPE = sys.argv[1], sys.argv[2]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
