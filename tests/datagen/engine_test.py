"""The program as a user meets it: runs, what is refused, and generators that throw, hang, crash and change their minds.

DRN-1, DRN-3, DSF-1, STK-3, VRF-1, SFL-2, DCL-1.
"""
import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from exactly_once_matrix_test import checkpoint  # noqa: E402
from program_case import ProgramCase  # noqa: E402


class EngineTest(ProgramCase):
    NUMBERS = ("--generator", "numbers", "--format", "lines", "--samples", 95, "--seed", 7)

    def faulty(self, fault, *more):
        return ("--generator", "faulty", "--format", "lines", "--samples", 95, "--seed", 7, "--fault", fault, *more)

    def test_a_data_set(self):
        out = self.path("set")
        said = self.datagen("run", *self.NUMBERS, "--out", out)
        self.assertEqual(sorted(os.listdir(f"{out}/data")), [f"part-{i:05}.txt" for i in range(10)])
        lines = []
        for name in sorted(os.listdir(f"{out}/data")):
            with open(f"{out}/data/{name}", encoding="utf-8") as file:
                lines += file.read().splitlines()
        self.assertEqual([int(line.split()[0]) for line in lines], list(range(95)))
        result = self.result(out)
        self.assertEqual(
            (result["status"], result["shards"], result["shards_made"], result["rows"], result["wasted_shards"]),
            ("done", 10, 10, 95, 0))
        self.assertIn(result["digest"], said)
        self.assertEqual(self.temporaries(out), [])
        shown = json.loads(self.datagen("show", out, "--json"))
        self.assertEqual((shown["digest"], len(shown["done"]), shown["config"]["seed"]), (result["digest"], 10, 7))
        self.assertIn("good", self.datagen("verify", out, "--regenerate", 10))
        # Once more: nothing is left to make, and nothing changes.
        self.datagen("run", *self.NUMBERS, "--out", out)
        again = self.result(out)
        self.assertEqual((again["shards_made"], again["digest"]), (0, result["digest"]))

    def test_the_digest_is_of_the_settings_alone(self):
        digests = set()
        for workers in (1, 2, 8):
            out = self.path(f"set-{workers}")
            self.datagen("run", *self.NUMBERS, "--out", out, "--workers", workers, "--troupe-cpus", 2)
            digests.add(self.digest(out))
        self.assertEqual(len(digests), 1)
        self.datagen("run", *self.NUMBERS[:-1], 8, "--out", self.path("other"))
        self.assertNotIn(self.digest(self.path("other")), digests)

    def test_another_configuration_is_refused_with_the_differences(self):
        out = self.path("set")
        self.datagen("run", *self.NUMBERS, "--out", out)
        before = self.digest(out)
        said = self.datagen("run", *self.NUMBERS[:-1], 8, "--label", "x", "--samples-per-shard", 5, "--out", out,
                            code=2)
        for part in ("seed: was 7, now 8", 'generator.settings.label: was "none", now "x"',
                     "plan.samples_per_shard: was 10, now 5"):
            self.assertIn(part, said)
        self.assertEqual(self.digest(out), before)

    def test_folders_that_are_not_ours_are_refused(self):
        out = self.path("mine")
        os.mkdir(out)
        with open(f"{out}/thesis.txt", "w", encoding="utf-8") as file:
            file.write("x")
        self.assertIn("thesis.txt", self.datagen("run", *self.NUMBERS, "--out", out, code=2))
        self.assertEqual(os.listdir(out), ["thesis.txt"])
        for verb in ("resume", "show", "verify"):
            self.assertIn("no data set", self.datagen(verb, out, code=2))
        newer = self.path("newer")
        self.datagen("run", *self.NUMBERS, "--out", newer)
        with open(f"{newer}/manifest/job.json", encoding="utf-8") as file:
            job = json.load(file)
        job["datagen"] = 2
        with open(f"{newer}/manifest/job.json", "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.assertIn("newer version", self.datagen("resume", newer, code=2))

    def test_wrong_usage_is_2_and_helps(self):
        out = ("--out", self.path("none"))
        for arguments, words in ((("run", *self.NUMBERS, "--scal", 2, *out), "did you mean --scale?"),
                                 (("run", "--generator", "number", "--samples", 5, *out), "numbers"),
                                 (("run", *self.NUMBERS, "--samples-per-shard", 0, *out), "number from 1"),
                                 (("run", *self.NUMBERS[:4], "--samples", 0, *out), "--samples"),
                                 (("run", *self.NUMBERS[:4], "--samples", -1, *out), "--samples"),
                                 (("run", *self.NUMBERS[:4], "--samples", 2**33, "--samples-per-shard", 1, *out),
                                  "--samples-per-shard"),
                                 (("run", *self.NUMBERS, "--seed", 2**64, *out), "--seed"),
                                 (("run", *self.NUMBERS, "--isa", "avx3", *out), "did you mean avx2?"),
                                 (("run", *self.NUMBERS, "--scale", -1, *out), "scale"), ((), ""),
                                 (("fly",), "there is no verb fly: did you mean"),
                                 (("resum", self.path("x")), "did you mean resume?")):
            self.assertIn(words, self.datagen(*arguments, code=2), arguments)
        self.assertFalse(os.path.exists(self.path("none")))

    def test_a_finished_data_set_does_not_go_on_where_its_numbers_would_be_others(self):  # its check is of numbers, too
        out = self.path("set")
        self.datagen("run", *self.NUMBERS, "--out", out)
        folder = self.environment["DATAGEN_TEST_MACHINE"] = self.path("machine")
        os.mkdir(folder)
        with open(f"{folder}/glibc", "w", encoding="utf-8") as file:
            file.write("2.1")
        said = self.datagen("resume", out, code=1)
        self.assertRegex(said, "the data set is made with glibc .*, this machine has 2.1")

    def test_a_file_of_settings(self):
        with open(self.path("job.yaml"), "w", encoding="utf-8") as file:
            file.write("generator: numbers\nformat: lines\nsamples: 95\nseed: 3\nlabel: x\n")
        said = self.datagen("plan", "--config", self.path("job.yaml"), "--seed", 7)
        for part in ('"seed":7', '"label":"x"', "10 shards", "data/part-00009.txt: samples 90 to 94", "index: int64"):
            self.assertIn(part, said)
        with open(self.path("job.yaml"), "a", encoding="utf-8") as file:
            file.write("lable: x\n")
        self.assertIn("did you mean label?", self.datagen("plan", "--config", self.path("job.yaml"), code=2))

    def test_list_names_everything(self):
        said = self.datagen("list")
        for part in ("numbers", "lines", "jsonl", "option-prices", "--fault", "empty: a new line (\"\\n\")\n"):
            self.assertIn(part, said)
        self.assertNotIn("()", said)

    def test_a_generator_that_throws_once_is_tried_again(self):
        out = self.path("set")
        self.datagen("run", *self.faulty("throw", "--at", 42, "--once", self.path("once")), "--out", out)
        self.assertEqual((self.result(out)["retries"], self.result(out)["wasted_shards"]), (1, 0), self.result(out))
        self.assertIn("good", self.datagen("verify", out, "--regenerate", 10))

    def test_a_generator_that_always_throws_ends_the_run(self):
        out = self.path("set")
        said = self.datagen("run", *self.faulty("throw", "--at", 42), "--out", out, "--retries", 1, code=1)
        self.assertIn("the generator has had enough", said)
        self.assertIn("shard 4 of 10, data/part-00004.txt", said)
        self.assertIn(f"datagen resume {out}", said)
        self.assertEqual(self.result(out)["status"], "failed")
        self.assertEqual(self.temporaries(out), [])

    def test_a_generator_that_crashes_once_is_tried_again(self):
        for fault in ("crash", "late-crash"):
            out = self.path(fault)
            self.datagen("run", *self.faulty(fault, "--at", 42, "--once", self.path(f"once-{fault}")), "--out", out)
            result = self.result(out)
            self.assertLessEqual(result["wasted_shards"], 1, result)
            self.assertGreaterEqual(result["retries"], 1)
            self.assertIn("good", self.datagen("verify", out))
            self.assertEqual(self.temporaries(out), [])

    def test_a_generator_that_hangs_once_is_tried_again(self):
        out = self.path("set")
        said = self.datagen("run", *self.faulty("hang", "--at", 42, "--once", self.path("once")), "--out", out,
                            "--shard-timeout", 3)
        self.assertIn("another attempt", said)
        result = self.result(out)
        self.assertEqual((result["retries"], result["wasted_shards"], result["wasted_rows"]), (1, 1, 10), result)
        self.assertIn("good", self.datagen("verify", out))
        self.assertEqual(self.temporaries(out), [])

    def test_a_generator_that_always_hangs_ends_the_run(self):
        out = self.path("set")
        said = self.datagen("run", *self.faulty("hang", "--at", 42), "--out", out, "--shard-timeout", 3, "--retries", 1,
                            code=1)
        self.assertIn("shard 4 of 10", said)
        self.assertEqual(self.temporaries(out), [])
        self.assertEqual(self.processes("troupe-worker"), [])

    def test_a_generator_that_gives_too_little_is_named(self):
        said = self.datagen("run", *self.faulty("short", "--at", 42), "--out", self.path("set"), code=1)
        self.assertIn("the generator faulty gave 9 samples of the 10 from 40 on", said)

    def test_a_check_that_fails_does_not_fail_what_is_whole(self):
        out = self.path("set")
        said = self.datagen("run", *self.faulty("check"), "--out", out)
        self.assertIn("the samples could not be checked: there is nothing to compare with", said)
        self.assertEqual((self.result(out)["status"], self.digest(out)), ("done", self.result(out)["digest"]))

    def test_other_bytes_at_the_second_try_are_found(self):
        out = self.path("set")
        self.datagen("run", *self.faulty("unstable", "--at", 42), "--out", out)
        said = self.datagen("verify", out, "--regenerate", 10, code=1)
        self.assertIn("data/part-00004.txt: NondeterministicError", said)
        self.assertEqual(said.count("NondeterministicError"), 1)
        # And by a shard that is made again over its file, whose commit was lost.
        journal = [name for name in os.listdir(f"{out}/manifest") if name.endswith(".log")][0]
        with open(f"{out}/manifest/{journal}", "r+b") as file:
            file.truncate(80)
        said = self.datagen("resume", out, code=1)
        self.assertRegex(said, r"NondeterministicError: the bytes of shard data/part-00004\.txt are others at the "
                               r"second try: sha-256 was [0-9a-f]{64}, now [0-9a-f]{64}")

    def test_verify_finds_damage_and_resume_mends_it(self):
        out = self.path("set")
        self.datagen("run", *self.NUMBERS, "--out", out)
        digest = self.digest(out)
        with open(f"{out}/data/part-00003.txt", "r+b") as file:
            file.seek(10)
            byte = file.read(1)
            file.seek(10)
            file.write(bytes([byte[0] ^ 1]))
        os.remove(f"{out}/data/part-00008.txt")
        said = self.datagen("verify", out, code=1)
        self.assertIn("bad: data/part-00003.txt: sha-256", said)
        self.assertIn("bad: data/part-00008.txt: there is no file", said)
        self.assertIn("2 files are not what the manifest says", said)
        self.datagen("verify", out, "--remove-bad", code=1)
        self.assertIn("2 shards of the manifest have no file", self.datagen("resume", out))
        self.assertIn("good", self.datagen("verify", out))
        self.assertEqual(self.digest(out), digest)

    def test_what_cannot_be_removed_is_said(self):
        out = self.path("set")
        self.datagen("run", *self.NUMBERS, "--out", out)
        os.truncate(f"{out}/data/part-00003.txt", 20)
        os.remove(f"{out}/data/part-00008.txt")
        os.makedirs(f"{out}/data/part-00008.txt/full")
        said = self.datagen("verify", out, "--remove-bad", code=1)
        self.assertIn("data/part-00008.txt could not be removed: Directory not empty", said)
        self.assertIn("2 files are not what the manifest says: 1 of them could not be removed", said)
        self.assertEqual((os.path.exists(f"{out}/data/part-00003.txt"), os.path.exists(f"{out}/data/part-00008.txt")),
                         (False, True))

    def test_verify_tells_of_the_files_where_a_shard_cannot_be_made_again(self):
        out, once = self.path("set"), self.path("once")
        with open(once, "w", encoding="utf-8"):  # it throws when this is not there
            pass
        self.datagen("run", *self.faulty("throw", "--at", 42, "--once", once), "--out", out)
        os.remove(f"{out}/data/part-00008.txt")
        os.remove(once)
        said = self.datagen("verify", out, "--regenerate", 10, code=1)
        self.assertIn("bad: data/part-00008.txt: there is no file", said)
        self.assertRegex(said, r"bad: data/part-00004\.txt: could not be made again: .*has had enough")
        self.assertRegex(said, r"10 shards checked \(.*\), 9 made again, .*: not good")

    def test_a_shard_that_was_cut_short_is_made_again(self):
        out = self.path("set")
        self.datagen("run", *self.NUMBERS, "--out", out)
        digest = self.digest(out)
        os.truncate(f"{out}/data/part-00003.txt", 20)
        said = self.datagen("resume", out)
        self.assertIn("1 shards of the manifest have no file, or one of another size: they are made again", said)
        self.assertEqual((self.result(out)["shards_made"], self.result(out)["wasted_shards"]), (1, 0))
        self.assertIn("good", self.datagen("verify", out))
        self.assertEqual((self.digest(out), self.temporaries(out)), (digest, []))

    def test_a_corrupt_manifest_keeps_its_good_prefix(self):
        out = self.path("set")
        self.datagen("run", *self.NUMBERS, "--out", out)
        digest = self.digest(out)
        journal = [name for name in os.listdir(f"{out}/manifest") if name.endswith(".log")][0]
        size = os.path.getsize(f"{out}/manifest/{journal}")
        with open(f"{out}/manifest/{journal}", "r+b") as file:
            file.seek(80 + 5 * (size - 80) // 10 + 40)
            file.write(b"\xff\xff\xff")
        said = self.datagen("resume", out)
        self.assertRegex(said, r"\d+ bytes from byte \d+ on are lost \(a wrong checksum\)")
        result = self.result(out)
        self.assertEqual((result["shards_before"], result["shards_made"], result["digest"]), (5, 5, digest))

    def test_ctrl_c_leaves_a_job_that_goes_on(self):
        out = self.path("set")
        arguments = ("--generator", "faulty", "--format", "lines", "--samples", 400)
        with self.start("run", *arguments, "--milliseconds", 100, "--out", out) as running:
            self.until("some shards", lambda: len(self.shards_there(out)) >= 5, running)
            running.send_signal(signal.SIGINT)
            said = "".join(running.communicate(timeout=60))
        self.assertEqual(running.returncode, 130, said)
        self.assertIn(f"datagen resume {out}", said)
        self.assertEqual(self.processes("troupe-worker"), [])
        self.assertEqual(self.temporaries(out), [])
        self.assertEqual(self.result(out)["status"], "interrupted")
        said = self.datagen("verify", out, code=1)
        self.assertRegex(said, r"\d+ of 40 shards are missing: 'datagen resume")
        self.assertIn("not good", said)
        self.datagen("resume", out)
        self.datagen("run", *arguments, "--out", self.path("undisturbed"))
        self.assertEqual(self.digest(out), self.digest(self.path("undisturbed")))

    def test_a_file_that_the_generator_reads_and_that_is_another_one_is_refused(self):
        model, out = self.path("model.safetensors"), self.path("set")
        checkpoint(model)
        self.datagen("run", "--generator", "gpt-text", "--checkpoint", model, "--heads", 2, "--tokens", 5,
                     "--samples", 2, "--out", out)
        before = self.digest(out)
        with open(model, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(bytes(4))
        said = self.datagen("resume", out, code=2)
        self.assertRegex(said, r'another data set: generator\.identity\.\w+: was "[0-9a-f]{64}", now "[0-9a-f]{64}"')
        self.assertEqual(self.digest(out), before)

    def test_ctrl_c_while_verifying(self):
        out, once = self.path("set"), self.path("once")
        with open(once, "w", encoding="utf-8"):  # it hangs when this is not there
            pass
        self.datagen("run", *self.faulty("hang", "--at", 42, "--once", once), "--out", out)
        before = self.digest(out)
        os.remove(once)
        with self.start("verify", out, "--regenerate", 10) as running:
            self.until("a worker hangs at a shard", lambda: os.path.exists(once), running)
            running.send_signal(signal.SIGINT)
            said = "".join(running.communicate(timeout=60))
        self.assertEqual(running.returncode, 130, said)
        self.assertEqual((self.processes("troupe-worker"), self.temporaries(out)), ([], []))
        self.assertEqual(self.digest(out), before)

    def test_a_folder_that_cannot_be_written(self):
        self.datagen("run", *self.NUMBERS, "--out", "/proc/none", code=1)


if __name__ == "__main__":
    ProgramCase.PROGRAM, ProgramCase.TROUPE = sys.argv[1], sys.argv[2]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
