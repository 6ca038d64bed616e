"""Exactly once: whoever is killed, and however often, the data set is the one that an undisturbed run makes.

Workers, the coordinator, the driver and a node are killed by SIGKILL, the disk fills up, a coordinator is stopped and
taken over from. Afterwards the digest is the undisturbed run's, no temporary file is left, and no more than a shard a
kill was made for nothing, two where a node is killed. CRD-1 to CRD-4, DRN-1 to DRN-4, DJR-2, DJR-3, RTK-1 to RTK-3.
"""
import contextlib
import glob
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
from program_case import ProgramCase, run_tests  # noqa: E402

SHARDS = 80


class ExactlyOnceCase(ProgramCase):
    JOB = ("--generator", "faulty", "--format", "lines", "--samples", 10 * SHARDS - 3, "--seed", 11)
    SLOW = ("--milliseconds", 60)  # who shall be killed in the middle must be found before the run is over

    def setUp(self):
        super().setUp()
        self.random = random.Random(7)
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

    def undisturbed(self):
        self.datagen("run", *self.JOB, "--out", self.path("undisturbed"))
        return self.digest(self.path("undisturbed"))

    def slow(self, workers):
        """Settings: a run by so many workers takes no less time than one by two."""
        return "--milliseconds", self.SLOW[1] * max(1, workers // 2)

    def log_of(self, name):
        """Settings: the generator writes a line for each shard that it begins."""
        return "--log", self.path(f"log-{name}")

    def wasted(self, name):
        """Shards that were begun for nothing, over a run and all its resumes. A driver that is killed leaves no
        result.json, so what its run wasted is counted by what the generator saw."""
        with open(self.path(f"log-{name}"), encoding="utf-8") as file:
            begun = file.read().split()
        self.assertEqual(len(set(begun)), SHARDS)
        return len(begun) - SHARDS

    def check(self, out, digest):
        self.assertEqual(self.temporaries(out), [])
        self.assertEqual([name for name in os.listdir(f"{out}/manifest") if ".made." in name], [])
        self.assertEqual(self.processes("troupe-worker"), [])
        self.assertEqual(self.digest(out), digest)
        self.assertIn("good", self.datagen("verify", out))
        self.assert_files_are_the_manifests(out)

    def kill(self, pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def someone(self, find, running):
        """One of those that `find` gives, once there is one; None when the run ends before."""
        while running.poll() is None:
            found = find()
            if found:
                return self.random.choice(found)
            time.sleep(0.002)
        return None

    def wait_for_more(self, out, running, before, by):
        while running.poll() is None and len(self.shards_there(out)) < before + by:
            time.sleep(0.002)
        return running.poll() is None

    def until_nobody_works(self, out, running):
        """No look finds anybody for a while: one look may fall between two shards of a worker."""
        looks = 0
        while looks < 20:
            self.assertIsNone(running.poll(), "it ended before nobody was at work")
            looks = 0 if self.makers(out) else looks + 1
            time.sleep(0.02)

    def two_nodes(self, before=()):
        self.clusters = True
        first = json.loads(self.troupe("start", "--head", "--cpus", 1, "--object-store-memory", "128MB", "--json"))
        second = json.loads(self.troupe("start", "--address", first["address"], "--cpus", 1, "--object-store-memory",
                                        "128MB", "--json", before=before))
        return first, second


class ExactlyOnceTest(ExactlyOnceCase):
    def test_workers_and_the_coordinator(self):
        digest = self.undisturbed()
        for workers in (1, 2, 8):
            out, kills = self.path(f"workers-{workers}"), 0
            with self.start("run", *self.JOB, *self.slow(workers), *self.log_of(workers), "--out", out, "--workers",
                            workers, "--retries", 20, "--troupe-cpus", 2) as running:
                for turn in range(6):
                    if not self.wait_for_more(out, running, len(self.shards_there(out)), 5):
                        break
                    find = (lambda: self.makers(out)) if turn % 2 == 0 else \
                        (lambda: list(filter(None, [self.journal_holder(out)])))
                    victim = self.someone(find, running)
                    kills += victim is not None and self.kill(victim)
                said = "".join(running.communicate(timeout=100))
            self.assertEqual(running.returncode, 0, said)
            self.assertGreaterEqual(kills, 4)
            result = self.result(out)
            self.assertEqual(result["shards_made"], SHARDS)
            self.assertLessEqual(result["wasted_shards"], kills, result)
            self.assertLessEqual(self.wasted(workers), kills)
            self.check(out, digest)

    def test_the_driver(self):
        digest = self.undisturbed()
        for workers in (1, 2, 8):
            out, kills = self.path(f"driver-{workers}"), 0
            arguments = ("run", *self.JOB, *self.slow(workers), *self.log_of(workers))
            while True:
                with self.start(*arguments, *(("--out", out) if arguments[0] == "run" else (out,)), "--workers",
                                workers, "--troupe-cpus", 2) as running:
                    go_on = kills < 4 and self.wait_for_more(out, running, len(self.shards_there(out)),
                                                             self.random.randint(3, 12))
                    if go_on:
                        kills += self.kill(running.pid)
                    said = "".join(running.communicate(timeout=100))
                if running.returncode == 0:
                    break
                self.assertEqual(running.returncode, -signal.SIGKILL, said)
                self.until("nobody is left", lambda: not self.processes("troupe-worker"))
                arguments = ("resume",)
            self.assertEqual(kills, 4)
            result = self.result(out)
            # The driver's end is the end of all its workers: one shard each, the one that it makes.
            self.assertLessEqual(result["wasted_shards"], workers, result)
            self.assertLessEqual(self.wasted(workers), kills * workers)
            self.assertGreater(result["shards_before"], 0)
            self.check(out, digest)

    def test_what_is_made_is_kept_when_nothing_was_committed(self):  # CRD-4
        digest = self.undisturbed()
        out = self.path("kept")
        with self.start("run", *self.JOB, *self.SLOW, "--out", out, "--workers", 2, "--troupe-cpus", 2) as running:
            self.until("some shards", lambda: len(self.shards_there(out)) >= 5, running)
            coordinator = self.until("a coordinator", lambda: self.journal_holder(out), running)
            os.kill(coordinator, signal.SIGSTOP)
            self.until_nobody_works(out, running)
            self.kill(running.pid)
            running.communicate(timeout=60)
        self.until("nobody is left", lambda: not self.processes("troupe-worker"))
        there = len(self.shards_there(out))
        said = self.datagen("resume", out)
        self.assertIn("that an earlier run made and did not commit are kept", said)
        result = self.result(out)
        self.assertLessEqual(result["wasted_shards"], 2, result)  # a worker may have begun again at the kill
        self.assertGreaterEqual(result["shards_before"], there - result["wasted_shards"], result)
        self.check(out, digest)

    def test_a_file_that_was_changed_since_it_was_noted_is_not_kept(self):  # CRD-4
        out = self.path("changed")
        with self.start("run", *self.JOB, *self.SLOW, "--out", out, "--workers", 2, "--troupe-cpus", 2) as running:
            self.until("some shards", lambda: len(self.shards_there(out)) >= 5, running)
            os.kill(self.until("a coordinator", lambda: self.journal_holder(out), running), signal.SIGSTOP)
            self.until_nobody_works(out, running)
            self.kill(running.pid)
            running.communicate(timeout=60)
        self.until("nobody is left", lambda: not self.processes("troupe-worker"))
        # Of those that are not committed: the last by name may be, when its worker is ahead of the other one. And of
        # those that were noted: a worker may have been killed between the shard's name and its note.
        notes = b"".join(pathlib.Path(path).read_bytes() for path in glob.glob(f"{out}/manifest/*.made.*"))
        open_ones = {f"data/{name}" for name in self.shards_there(out)} - self.committed(out)
        noted = {name for name in open_ones if name.encode() in notes}
        self.assertTrue(noted, f"none of {open_ones} is noted, and some were in hand when the coordinator stopped")
        changed = f"{out}/{max(noted)}"
        with open(changed, "r+b") as file:
            first = file.read(1)
            file.seek(0)
            file.write(b"7" if first != b"7" else b"8")
        said = self.datagen("resume", out, code=1)
        self.assertIn(os.path.basename(changed), said)
        os.unlink(changed)
        self.datagen("resume", out)
        self.check(out, self.undisturbed())

    def test_a_coordinator_that_stands_still_is_replaced(self):  # DRN-4
        digest = self.undisturbed()
        out = self.path("replaced")
        with self.start("run", *self.JOB, *self.SLOW, "--out", out, "--commit-timeout", 0.5) as running:
            self.until("some shards", lambda: len(self.shards_there(out)) >= 10, running)
            coordinator = self.until("a coordinator", lambda: self.journal_holder(out), running)
            os.kill(coordinator, signal.SIGSTOP)
            said = "".join(running.communicate(timeout=60))
        self.assertEqual(running.returncode, 0, said)
        self.assertIn("the coordinator has not answered for 0.5 s: another one takes its place", said)
        self.assertEqual(self.result(out)["shards_made"], SHARDS)
        self.check(out, digest)

    def test_a_driver_that_stood_still_does_not_blame_the_coordinator(self):  # DRN-4
        digest = self.undisturbed()
        out = self.path("blamed")
        with self.start("run", *self.JOB, *self.SLOW, "--out", out, "--commit-timeout", 5) as running:
            self.until("some shards", lambda: len(self.shards_there(out)) >= 10, running)
            coordinator = self.until("a coordinator", lambda: self.journal_holder(out), running)
            os.kill(coordinator, signal.SIGSTOP)
            time.sleep(0.1)  # a commit is asked for
            running.send_signal(signal.SIGSTOP)
            time.sleep(6)
            running.send_signal(signal.SIGCONT)
            time.sleep(0.5)  # it looks, and there is no answer; of the 6 s it counts one
            os.kill(coordinator, signal.SIGCONT)
            said = "".join(running.communicate(timeout=60))
        self.assertEqual(running.returncode, 0, said)
        self.assertNotIn("another one takes its place", said)
        self.check(out, digest)

    def test_everybody_in_turn(self):
        digest = self.undisturbed()
        workers, out, kills, drivers = 2, self.path("all"), 0, 0
        verb = ("run", *self.JOB, *self.SLOW, *self.log_of("all"), "--out", out)
        while True:
            with self.start(*verb, "--retries", 20, "--workers", workers, "--troupe-cpus", 2) as running:
                whom = self.random.choice(("worker", "coordinator", "driver")) if kills < 12 else None
                if whom and self.wait_for_more(out, running, len(self.shards_there(out)), 2):
                    victim = {"worker": lambda: self.someone(lambda: self.makers(out), running),
                              "coordinator": lambda: self.journal_holder(out),
                              "driver": lambda: running.pid}[whom]()
                    kills += victim is not None and self.kill(victim)
                    if whom != "driver" and self.wait_for_more(out, running, len(self.shards_there(out)), 2):
                        kills += self.kill(running.pid)
                said = "".join(running.communicate(timeout=100))
            if running.returncode == 0:
                break
            self.assertEqual(running.returncode, -signal.SIGKILL, said)
            drivers += 1
            verb = ("resume", out)
        self.assertGreaterEqual(kills, 8)
        # A worker's end costs a shard, a driver's that of all its workers.
        self.assertLessEqual(self.wasted("all"), kills - drivers + drivers * workers)
        self.check(out, digest)

    def test_a_stopped_coordinator_is_taken_over_from(self):
        digest = self.undisturbed()
        out = self.path("stopped")
        with self.start("run", *self.JOB, *self.SLOW, "--out", out) as running:
            self.until("some shards", lambda: len(self.shards_there(out)) >= 10, running)
            coordinator = self.until("a coordinator", lambda: self.journal_holder(out), running)
            os.kill(coordinator, signal.SIGSTOP)
            try:
                self.datagen("resume", out)
            finally:
                with contextlib.suppress(ProcessLookupError):  # its driver has found out meanwhile, and has ended it
                    os.kill(coordinator, signal.SIGCONT)
            said = "".join(running.communicate(timeout=60))
        self.assertEqual(running.returncode, 1, said)
        self.assertIn("taken over", said)
        self.assertEqual(self.result(out)["status"], "done", "who was taken over from says nothing there")
        self.check(out, digest)

    def test_of_resumes_at_once_one_goes_on(self):  # RTK-3
        digest = self.undisturbed()
        for turn in range(4):
            out = self.path(f"together-{turn}")
            with self.start("run", *self.JOB, *self.SLOW, "--out", out) as running:
                self.until("some shards", lambda: len(self.shards_there(out)) >= 10, running)
                self.kill(running.pid)
                running.communicate(timeout=60)
            self.until("nobody is left", lambda: not self.processes("troupe-worker"))
            together = [self.start("resume", out, "--troupe-cpus", 1) for _ in range(3)]
            said = ["".join(running.communicate(timeout=100)) for running in together]
            self.assertIn(0, [running.returncode for running in together], said)
            for running, words in zip(together, said):
                self.assertTrue(running.returncode == 0 or running.returncode == 1 and "taken over" in words, said)
            self.assertEqual(self.result(out)["status"], "done", "who was taken over from says nothing there")
            self.check(out, digest)

    def test_a_node_of_two(self):
        digest = self.undisturbed()
        first, second = self.two_nodes()
        out = self.path("nodes")
        with self.start("run", *self.JOB, *self.SLOW, "--out", out, "--troupe-address", first["address"]) as running:
            self.until("some shards", lambda: len(self.shards_there(out)) >= 10, running)
            coordinator = self.until("a coordinator", lambda: self.journal_holder(out), running)
            victim = second if coordinator in self.children(first["pid"]) else first
            self.assertIs(victim, second, "the driver is on the head's node")
            self.until("the other one makes shards",
                       lambda: set(self.makers(out)) & set(self.children(second["pid"])), running)
            before = len(self.shards_there(out))
            self.until("more shards", lambda: len(self.shards_there(out)) >= before + 8, running)
            for pid in self.children(victim["pid"]):
                self.kill(pid)
            said = "".join(running.communicate(timeout=100))
        self.assertEqual(running.returncode, 0, said)
        result = self.result(out)
        self.assertEqual(len(result["shards_of_node"]), 2, "both have made shards")
        # One that was published and not yet told of, and the next one.
        self.assertLessEqual(result["wasted_shards"], 2)
        self.troupe("stop", "--all")
        self.check(out, digest)


class MountsTest(ExactlyOnceCase):
    """What needs file systems that are mounted for it."""

    def setUp(self):
        super().setUp()
        self.need_mounts()

    def test_a_full_disk(self):
        out = self.path("small")
        os.mkdir(out)
        # Pages of 4 KiB: some dozen files fit.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", out], check=True)
        try:
            said = self.datagen("run", *self.JOB, "--out", out, code=1)
            self.assertIn("No space left on device", said)
            self.assertIn(f"datagen resume {out}", said)
            self.assertEqual(self.temporaries(out), [])
            there = len(self.shards_there(out))
            self.assertGreater(there, 10)
            self.assertIn("No space left", self.datagen("resume", out, code=1))
            subprocess.run(["mount", "-o", "remount,size=4m", out], check=True)
            self.datagen("resume", out)
            self.datagen("run", *self.JOB, "--out", self.path("quick"))
            self.check(out, self.digest(self.path("quick")))
        finally:
            subprocess.run(["umount", "-l", out], check=True)

    def test_a_node_that_does_not_share_the_folder(self):
        digest = self.undisturbed()
        out = self.path("hidden")
        os.mkdir(out)
        first, second = self.two_nodes(before=("unshare", "-m", "sh", "-c",
                                               f'mount -t tmpfs none "{out}" && exec "$0" "$@"'))
        said = self.datagen("run", *self.JOB, *self.SLOW, "--out", out, "--troupe-address", first["address"])
        self.assertIn(f"node {second['node_id']} does not share {out}: its shards travel through the store", said)
        result = self.result(out)
        self.assertEqual(result["travelled_shards"], result["shards_of_node"][second["node_id"]])
        self.assertGreater(result["travelled_shards"], 0)
        # A shard without bytes is a file too (CRD-1).
        silent = f"{out}/silent"
        os.mkdir(silent)
        self.datagen("run", "--generator", "faulty", "--format", "silent", *self.JOB[4:], *self.SLOW, "--out", silent,
                     "--troupe-address", first["address"])
        self.assertGreater(self.result(silent)["travelled_shards"], 0)
        self.assertEqual(len(self.shards_there(silent)), SHARDS)
        self.troupe("stop", "--all")
        self.assertIn("good", self.datagen("verify", silent))
        self.check(out, digest)

    def other_machine(self, what, word):
        """A cluster whose second node counts as another machine: only it sees the file that says so."""
        folder = self.environment["DATAGEN_TEST_MACHINE"] = self.path("machine")
        os.makedirs(folder, exist_ok=True)
        return self.two_nodes(before=("unshare", "-m", "sh", "-c", f'mount -t tmpfs none "{folder}" && '
                                      f'echo {word} > "{folder}/{what}" && exec "$0" "$@"'))

    def test_a_node_that_would_make_other_bytes_is_refused(self):  # STK-2
        job = ("--generator", "faulty", "--format", "lines", "--samples", 95, "--seed", 11)
        self.datagen("run", *job, "--isa", "portable", "--out", self.path("alone"))
        first, second = self.other_machine("isa", "portable")
        there = ("--troupe-address", first["address"])
        said = self.datagen("run", *job, "--isa", "avx2", "--out", self.path("avx2"), *there, code=1)
        self.assertIn(f"node {second['node_id']}: the data set is made with avx2, which this machine does not have",
                      said)
        self.assertIn("--isa portable", said)
        self.assertEqual(self.shards_there(self.path("avx2")), [])
        # What it says to do does.
        self.datagen("run", *job, "--isa", "portable", "--out", self.path("portable"), *there)
        self.troupe("stop", "--all")
        first, second = self.other_machine("glibc", "2.1")
        said = self.datagen("run", *job, "--isa", "portable", "--out", self.path("glibc"), "--troupe-address",
                            first["address"], code=1)
        self.assertRegex(said, f"node {second['node_id']}: the data set is made with glibc .*, this machine has 2.1")
        self.troupe("stop", "--all")
        self.check(self.path("portable"), self.digest(self.path("alone")))


if __name__ == "__main__":
    ProgramCase.PROGRAM, ProgramCase.TROUPE = sys.argv[1], sys.argv[2]
    sys.exit(run_tests(sys.argv[3:]))
