"""A loss of power at any moment leaves what the manifest says: no shard is committed before its bytes and its name are
on disk, and none is answered for before the journal is. SFL-1, CRD-1, DJR-1.

power_loss_test.py ENGINE_PROGRAM TROUPE SYNC_LOG: the last is loaded into all processes and logs what they do to files.
"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from program_case import ProgramCase, run_tests  # noqa: E402

SYNC_LOG = None


class PowerLossCase(ProgramCase):
    NUMBERS = ("--generator", "faulty", "--milliseconds", 40, "--format", "lines", "--samples", 395, "--seed", 7)

    def setUp(self):
        super().setUp()
        self.environment["LD_PRELOAD"] = SYNC_LOG
        self.environment["TROUPE_TEST_SYNC_LOG"] = self.path("log")
        self.clusters = False

    def tearDown(self):
        if self.clusters:
            self.troupe("stop", "--all")
        super().tearDown()

    def troupe(self, *arguments, before=()):
        done = subprocess.run([*before, self.TROUPE, *map(str, arguments)], env=self.environment, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        self.assertEqual(done.returncode, 0, f"{arguments}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def log(self):
        with open(self.path("log"), encoding="utf-8") as file:
            return [line.split() for line in file]

    def after(self, lines, at, *words):
        """The place of the first such line behind `at`."""
        for i in range(at + 1, len(lines)):
            if lines[i] == list(words):
                return i
        return self.fail(f"no {words} after line {at}: {lines[at]}")

    def folder_synced(self, lines, at, folder):
        """Where a sync of the folder ends that began behind `at`."""
        return self.after(lines, self.after(lines, at, "sync-begin", folder), "sync", folder)

    def named(self, lines, path):
        """Where the file got its name, its bytes being on disk then."""
        found = [i for i, words in enumerate(lines) if words[0] == "name" and words[2] == path]
        self.assertEqual(len(found), 1, path)
        self.assertIn(["sync", lines[found[0]][1]], lines[:found[0]], f"{path} has its name before it is on disk")
        return found[0]

    def check(self, out, made_by_us=True):
        lines, digest = self.log(), json.loads(self.datagen("show", out, "--json"))
        for record in digest["done"]:
            path = f"{out}/{record['name']}"
            there = self.folder_synced(lines, self.named(lines, path), os.path.dirname(path))
            commits = [i for i, words in enumerate(lines) if words[0] == "append" and record["name"] in words]
            self.assertTrue(commits, path)
            self.assertGreater(commits[0], there, f"{path} is committed before its name is on disk")
        appended = [i for i, words in enumerate(lines) if words[0] == "append"]
        for i in appended:  # each is synced, under the name that the journal had when it was opened
            self.after(lines, i, "sync", lines[i][1])
        journals = [words[2] for words in lines if words[0] == "name" and re.search(r"/manifest/\d+\.log$", words[2])]
        self.assertGreater(len(journals), 0)
        for journal in journals:
            self.folder_synced(lines, self.named(lines, journal), f"{out}/manifest")
        job = self.named(lines, f"{out}/manifest/job.json")
        self.assertLess(self.folder_synced(lines, job, f"{out}/manifest"), self.named(lines, journals[0]))
        # The folders have their names before anything in them counts.
        for folder in (out, os.path.dirname(out))[:2 if made_by_us else 1]:
            self.assertIn(["sync", folder], lines[:appended[0]], f"{folder} is not synced before the first commit")
        return journals


class PowerLossTest(PowerLossCase):
    def test_a_run(self):
        out = self.path("set")
        self.datagen("run", *self.NUMBERS, "--out", out, "--workers", 2)
        self.assertEqual(len(self.check(out)), 1)

    def test_a_run_that_is_resumed(self):
        out = self.path("set")
        self.datagen("run", *self.NUMBERS, "--out", out, "--workers", 1)
        journal = f"{out}/manifest/000001.log"
        os.truncate(journal, (os.path.getsize(journal) - 80) // 2)
        self.datagen("resume", out)
        self.assertEqual(len(self.check(out)), 2)

    def test_two_nodes(self):
        """The second one's workers sync the folder themselves."""
        self.clusters = True
        start = ("start", "--cpus", 1, "--object-store-memory", "128MB", "--json")
        head = json.loads(self.troupe(*start, "--head"))
        self.troupe(*start, "--address", head["address"])
        out = self.path("set")
        self.datagen("run", *self.NUMBERS, "--out", out, "--troupe-address", head["address"])
        self.assertEqual(len(self.result(out)["shards_of_node"]), 2)
        self.check(out)


class TravelTest(PowerLossCase):
    """A folder is hidden from a node."""

    def test_shards_that_travel(self):
        self.need_mounts()
        self.clusters, out = True, self.path("set")
        os.mkdir(out)
        start = ("start", "--cpus", 1, "--object-store-memory", "128MB", "--json")
        head = json.loads(self.troupe(*start, "--head"))
        self.troupe(*start, "--address", head["address"],
                    before=("unshare", "-m", "sh", "-c", f'mount -t tmpfs none "{out}" && exec "$0" "$@"'))
        self.datagen("run", *self.NUMBERS, "--out", out, "--troupe-address", head["address"])
        self.assertGreater(self.result(out)["travelled_shards"], 0)
        self.check(out, made_by_us=False)


if __name__ == "__main__":
    ProgramCase.PROGRAM, ProgramCase.TROUPE, SYNC_LOG = sys.argv[1:4]
    sys.exit(run_tests(sys.argv[4:]))
