"""The templates of apps/datagen/examples: a generator and a format of a user's own, under the verbs of datagen."""
import csv
import glob
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

OWN_GENERATOR = OWN_FORMAT = None


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tr-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.temporary.cleanup()

    def run_program(self, code, *arguments, program=None):
        done = subprocess.run([program or OWN_GENERATOR, *arguments], env=self.environment, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, capture_output=True, cwd=self.root)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def make(self, out, *more):
        self.run_program(0, "run", "--generator", "spirals", "--samples", "2500", "--samples-per-shard", "400",
                         "--turns", "2", "--noise", "0.01", "--format", "jsonl", "--out", out, *more)
        with open(f"{self.root}/{out}/result.json", encoding="utf-8") as file:
            return json.load(file)

    def test_a_generator_of_ones_own_makes_its_rows(self):
        out, _ = self.run_program(0, "list")
        self.assertIn("spirals", out)
        result = self.make("one", "--workers", "1")
        self.assertEqual((result["status"], result["rows"], result["shards"]), ("done", 2500, 7))
        rows = []
        for path in sorted(glob.glob(f"{self.root}/one/data/*.jsonl") or glob.glob(f"{self.root}/one/**/*.jsonl",
                                                                                    recursive=True)):
            with open(path, encoding="utf-8") as file:
                rows += [json.loads(line) for line in file]
        self.assertEqual(len(rows), 2500)
        for row in rows:  # on its arm, but for the noise
            x, y = row["x"]
            here = math.hypot(x, y)
            arm = [here + step / 500 for step in range(-30, 31)]  # radii of its arm near by
            angles = [2 * math.pi * (row["arm"] / 3 + 2 * radius) for radius in arm]
            away = min(math.hypot(x - radius * math.cos(angle), y - radius * math.sin(angle))
                       for radius, angle in zip(arm, angles))
            self.assertLess(away, 0.06)  # six deviations of the noise; the arms are 0.17 apart
        self.assertEqual({row["arm"] for row in rows}, {0, 1, 2})

    def test_two_workers_make_the_data_set_of_one(self):
        self.assertEqual(self.make("one", "--workers", "1")["digest"], self.make("two", "--workers", "2")["digest"])
        self.assertNotEqual(self.make("other", "--seed", "1")["digest"], self.make("one", "--workers", "1")["digest"])
        out, _ = self.run_program(0, "verify", "two")
        self.assertIn("good", out)

    def test_a_setting_out_of_range_is_refused(self):
        _, errors = self.run_program(2, "run", "--generator", "spirals", "--samples", "10", "--arms", "0", "--out",
                                     "no")
        self.assertIn("--arms", errors)
        self.assertFalse(os.path.exists(f"{self.root}/no"))

    def test_a_format_of_ones_own_takes_any_generators_rows(self):
        for workers, kind in (("1", "csv"), ("2", "csv"), ("1", "jsonl")):
            more = ("--separator", ";") if kind == "csv" else ()
            self.run_program(0, "run", "--generator", "tabular", "--columns", "3", "--samples", "700",
                             "--samples-per-shard", "200", "--format", kind, *more, "--workers", workers, "--out",
                             kind + workers, program=OWN_FORMAT)
        rows, known = [], []
        for path in sorted(glob.glob(f"{self.root}/csv1/data/part-*-of-00004.csv")):
            with open(path, encoding="utf-8") as file:
                rows += list(csv.DictReader(file, delimiter=";"))
            with open(path.replace("csv1", "csv2"), encoding="utf-8") as other, open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), other.read())
        for path in sorted(glob.glob(f"{self.root}/jsonl1/data/*.jsonl")):
            with open(path, encoding="utf-8") as file:
                known += [json.loads(line) for line in file]
        self.assertEqual([{k: float(v) for k, v in row.items()} for row in rows], known)
        self.assertEqual(len(rows), 700)
        _, errors = self.run_program(2, "run", "--generator", "tabular", "--samples", "9", "--format", "csv",
                                     "--separator", "x", "--out", "no", program=OWN_FORMAT)
        self.assertIn("--separator", errors)


if __name__ == "__main__":
    OWN_FORMAT = sys.argv.pop(2)
    OWN_GENERATOR = sys.argv.pop(1)
    unittest.main()
