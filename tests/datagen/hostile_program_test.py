"""The program among people who mean harm: manifests that name the files of others, words that are no numbers, pipes and
links where files are wanted. Each is refused by what is wrong with it, with the exit code that docs/datagen.md lists;
nothing else is touched, nothing hangs.

hostile_program_test.py PROGRAM TROUPE
"""
import os
import shutil
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


if __name__ == "__main__":
    ProgramCase.PROGRAM, ProgramCase.TROUPE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
