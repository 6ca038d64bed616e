"""The program among people who mean harm: manifests that name the files of others, words that are no numbers, pipes and
links where files are wanted. Each is refused by what is wrong with it, with the exit code that docs/datagen.md lists;
nothing else is touched, nothing hangs.

hostile_program_test.py PROGRAM TROUPE
"""
import contextlib
import hashlib
import os
import shutil
import signal
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from program_case import ProgramCase  # noqa: E402

WORD = (1 << 64) - 1
PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def rotated(value, by):
    return (value << by | value >> (64 - by)) & WORD


def round_of(sum_, lane):
    return rotated((sum_ + lane * PRIMES[1]) & WORD, 31) * PRIMES[0] & WORD


def xxh64(data, seed):
    """Of multiples of four bytes, which is what a journal has."""
    at = 0
    if len(data) >= 32:
        sums = [(seed + PRIMES[0] + PRIMES[1]) & WORD, (seed + PRIMES[1]) & WORD, seed, (seed - PRIMES[0]) & WORD]
        for at in range(0, len(data) - 31, 32):
            sums = [round_of(one, lane) for one, lane in zip(sums, struct.unpack_from("<4Q", data, at))]
        at += 32
        out = sum(rotated(one, by) for one, by in zip(sums, (1, 7, 12, 18))) & WORD
        for one in sums:
            out = ((out ^ round_of(0, one)) * PRIMES[0] + PRIMES[3]) & WORD
    else:
        out = (seed + PRIMES[4]) & WORD
    out = (out + len(data)) & WORD
    while len(data) - at >= 8:
        out = (rotated(out ^ round_of(0, struct.unpack_from("<Q", data, at)[0]), 27) * PRIMES[0] + PRIMES[3]) & WORD
        at += 8
    if len(data) - at >= 4:
        out = (rotated(out ^ struct.unpack_from("<I", data, at)[0] * PRIMES[0] & WORD, 23) * PRIMES[1] +
               PRIMES[2]) & WORD
    out = (out ^ out >> 33) * PRIMES[1] & WORD
    out = (out ^ out >> 29) * PRIMES[2] & WORD
    return out ^ out >> 32


def record_of(epoch, name, begin, end, rows=1, size=1):
    body = struct.pack("<4Q32sII", begin, end, rows, size, b"\xab" * 32, 0, len(name)) + name
    body += b"\0" * (-len(body) % 8)
    front = struct.pack("<II", len(body), 1)
    return front + struct.pack("<Q", xxh64(body, xxh64(front, epoch))) + body


class HostileProgramTest(ProgramCase):
    NUMBERS = ("--generator", "numbers", "--format", "lines", "--samples", 95, "--seed", 7)

    def data_set(self):
        out = self.path("set")
        self.datagen("run", *self.NUMBERS, "--out", out)
        return out

    def forge(self, out, *records):
        """Of shard 4 the manifest has these instead."""
        path = f"{out}/manifest/000001.log"
        with open(path, "rb") as file:
            journal = file.read()
        kept, at = journal[:80], 80
        while at < len(journal):
            size = 16 + struct.unpack_from("<I", journal, at)[0]
            record = journal[at:at + size]
            if struct.unpack_from("<Q", record, 16)[0] != 40:
                kept += record
            at += size
        self.assertEqual(record_of(1, b"data/part-00004.txt", 40, 50)[8:16],
                         struct.pack("<Q", xxh64(record_of(1, b"data/part-00004.txt", 40, 50)[16:],
                                                 xxh64(struct.pack("<II", 96, 1), 1))))
        with open(path, "wb") as file:
            file.write(kept + b"".join(record_of(1, *record) for record in records))

    def test_a_manifest_that_names_the_files_of_others(self):
        victim = self.path("victim")
        with open(victim, "wb") as file:
            file.write(b"precious")
        out = self.data_set()
        whole = self.path("whole")
        shutil.copytree(out, whole)
        for name, begin, end in ((victim, 40, 50), ("../victim", 40, 50), ("data/../../victim", 40, 50),
                                 ("manifest/job.json", 40, 50), ("data/part-00003.txt", 40, 50),
                                 ("data/part-00004.txt", 45, 55), ("data/part-00011.txt", 100, 110),
                                 ("data/part-00004.txt", 40, 1 << 63), ("data/x\ny\x1b[31m", 40, 50)):
            with self.subTest(name=name, begin=begin, end=end):
                self.forge(out, (name.encode(), begin, end, 1 << 63, 8))
                for verb in (("verify", out), ("verify", out, "--remove-bad"), ("resume", out),
                             ("run", *self.NUMBERS, "--out", out)):
                    said = self.datagen(*verb, code=1)
                    self.assertIn("which the plan has not", said)
                    self.assertNotIn("\x1b", said)
                    with open(victim, "rb") as file:
                        self.assertEqual(file.read(), b"precious")
                    self.assertTrue(os.path.exists(f"{out}/manifest/job.json"))
                    self.assertTrue(os.path.exists(f"{out}/data/part-00003.txt"))
                shutil.rmtree(out)
                shutil.copytree(whole, out)

    def test_numbers_that_are_none(self):
        """DCL-1: -1 was 2^64 - 1, and so was everything above it; a timeout that is no number was none."""
        out = self.path("set")
        for flag, words in (("--samples", ("-1", "0", "18446744073709551616", "1e3", "1.5", "", "0x10", "+5", "5 ",
                                           "nan")),
                            ("--seed", ("-1", "18446744073709551616", "1e30")),
                            ("--samples-per-shard", ("0", "-3")), ("--workers", ("0", "-1")), ("--retries", ("-1",)),
                            ("--open-bytes", ("0", "-1", "1e9")), ("--shard-timeout", ("nan", "-1", "inf", "1e300")),
                            ("--scale", ("nan", "inf", "1e999"))):
            for word in words:
                arguments = [*self.NUMBERS, "--out", out, f"{flag}={word}"]
                if flag in self.NUMBERS:
                    at = arguments.index(flag)
                    del arguments[at:at + 2]
                said = self.datagen("run", *arguments, code=2)
                self.assertIn(flag, said, word)
        self.assertFalse(os.path.exists(out))
        self.datagen("plan", *self.NUMBERS[:-1], (1 << 64) - 1)
        self.data_set()
        for word in ("-1", "1.5"):
            self.assertIn("--regenerate", self.datagen("verify", out, f"--regenerate={word}", code=2))

    def test_names_that_are_none(self):
        self.assertIn("without a name", self.datagen("run", *self.NUMBERS, "--out", "", code=2))
        for name in ("a\nb", "\x1b[31m", b"\xff\xfe", "x" * 2000):
            out = self.path("named")
            said = self.datagen("run", *self.NUMBERS, "--out", out, "--name", name, code=2)
            self.assertIn("the name of a data set", said)
            self.assertNotIn("\x1b", said)
            self.assertFalse(os.path.exists(out))
        self.assertIn("--name", self.datagen("run", *self.NUMBERS, "--out", os.fsencode(self.root) + b"/\xff", code=2))
        said = self.datagen("run", "--generator", "faulty", "--format", "lines", "--samples", 9, "--once", b"\xff",
                            "--out", out, code=2)
        self.assertIn("once is no UTF-8", said)
        out = self.path("back\nslash\\")
        self.datagen("run", *self.NUMBERS, "--out", out, "--name", "caf\u00e9/expert-v0")
        self.assertIn("good", self.datagen("verify", out))

    def test_pipes_and_devices_where_files_are_wanted(self):
        """IFL-1: they were waited for, for ever."""
        out, pipe = self.data_set(), self.path("pipe")
        os.mkfifo(pipe)
        for wanted in (pipe, "/dev/zero", self.root):
            for arguments in (("--generator", "trajectories", "--policy", wanted),
                              ("--generator", "gpt-text", "--checkpoint", wanted), ("--config", wanted)):
                self.datagen("plan", *arguments, "--samples", 4, code=2 if "gpt-text" not in arguments else None)
        for name in ("manifest/job.json", "manifest/000001.log", "data/part-00003.txt"):
            whole = self.path("whole")
            os.rename(f"{out}/{name}", whole)
            os.mkfifo(f"{out}/{name}")
            self.datagen("verify", out, code=None)
            os.remove(f"{out}/{name}")
            os.rename(whole, f"{out}/{name}")
        self.assertIn("good", self.datagen("verify", out))

    def test_yaml_that_is_in_itself(self):
        for text in ("a: &a [*a]", "samples: &a {b: *a}", "a: &a [1]\nb: &b [*a, *a]", "a: " + "[" * 10_000,
                     "samples: .inf", "samples: -1", "sample: 4", "generator: [numbers]"):
            with open(self.path("c.yaml"), "w", encoding="utf-8") as file:
                file.write(text + "\n")
            self.assertIn("c.yaml", self.datagen("plan", "--generator", "numbers", "--config", self.path("c.yaml"),
                                                 code=2))

    def test_links_in_the_folder_of_a_data_set(self):
        """SFL-6, OF-2: who can write there chooses no file that the user's rights are used on."""
        victim, out = self.path("victim"), self.path("set")
        with open(victim, "wb") as file:
            file.write(b"precious")
        os.makedirs(f"{out}/data")
        for epoch in range(1, 4):
            for attempt in range(4):
                for shard in range(10):
                    os.symlink(victim, f"{out}/data/.part-{shard:05}.txt.{epoch}.{attempt}.tmp")
        self.assertIn("no data set of datagen", self.datagen("run", *self.NUMBERS, "--out", out, code=2))
        os.rename(f"{out}/data", self.path("data"))
        running = self.start("run", "--generator", "faulty", "--format", "lines", "--samples", 95, "--milliseconds", 5,
                             "--seed", 7, "--out", out)
        self.until("it has begun", lambda: os.path.exists(f"{out}/manifest/job.json"), running)
        os.makedirs(f"{out}/data", exist_ok=True)
        for name in os.listdir(self.path("data")):
            with contextlib.suppress(FileExistsError):  # the run was there first: it makes such names all the time
                os.symlink(victim, f"{out}/data/{name}")
        running.communicate(timeout=60)
        os.symlink(victim, f"{out}/result.json.tmp.1")
        self.datagen("resume", out)
        with open(victim, "rb") as file:
            self.assertEqual(file.read(), b"precious")
        self.assertIn("good", self.datagen("verify", out))

    def test_the_token_of_a_run_is_its_users_alone(self):
        out = self.path("set")
        running = self.start("run", "--generator", "faulty", "--format", "lines", "--samples", 95, "--milliseconds",
                             1000, "--seed", 7, "--out", out)

        def token():
            names = os.listdir(f"{out}/manifest") if os.path.isdir(f"{out}/manifest") else []
            return next((f"{out}/manifest/{name}" for name in names if name.endswith(".token")), None)

        found = self.until("there is a token", token, running)
        self.assertEqual(os.stat(found).st_mode & 0o777, 0o600)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)

    def program(self, name, mode=0o755):
        """It leaves a file when it is run."""
        path, mark = self.path(name), self.path("was-run")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\ntouch {mark}\nexit 3\n")
        os.chmod(path, mode)
        return path, mark

    def test_a_data_set_that_names_a_program(self):
        """NPG-1."""
        out = self.path("set")
        self.datagen("run", "--generator", "trajectories", "--env", "CartPole-v1", "--mixture", "random", "--samples",
                     4, "--out", out)
        with open(f"{out}/manifest/job.json", encoding="utf-8") as file:
            job = file.read()
        for name, mode in (("evil/python3", 0o777), ("evil/python3", 0o757), ("open/python3", 0o755)):
            path, mark = self.program(name, mode)
            if name.startswith("open"):
                os.chmod(os.path.dirname(path), 0o777)
            relative = os.path.relpath(path, self.root)
            for named in (path, relative, f"./{relative}", f"{self.root}/x/../{relative}"):
                text = job[job.index('"config":') + 9:].strip()[:-1]
                text = text.replace('"python":"python3"', f'"python":"{named}"')
                text = text.replace('"env":"CartPole-v1"', '"env":"gym:CartPole-v1"')
                with open(f"{out}/manifest/job.json", "w", encoding="utf-8") as file:
                    file.write('{"datagen":1,"name":"set","hash":"%s","config":%s}' %
                               (hashlib.sha256(text.encode()).hexdigest(), text))
                for verb in (("resume", out), ("verify", out)):
                    self.assertIn("which is not run", self.datagen(*verb, code=2, cwd=self.root))
                self.assertFalse(os.path.exists(mark), named)


if __name__ == "__main__":
    ProgramCase.PROGRAM, ProgramCase.TROUPE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
