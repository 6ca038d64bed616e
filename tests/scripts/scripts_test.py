"""The scripts that judge everything else can see a failure: tests/run counts what ctest says, cmake/install-deps refuses
what it does not know. (bench_test.py: bench/run.)"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True


def load(path):
    loader = importlib.machinery.SourceFileLoader(re.sub(r"\W", "_", path), os.path.join(ROOT, path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


RESULTS = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="x" tests="8" failures="3" disabled="0" skipped="3">
  <testcase name="t.A.Ok" status="run"><system-out>[==========] Running 1 test
[ RUN      ] A.Ok
[       OK ] A.Ok (0 ms)</system-out></testcase>
  <testcase name="t.A.Skips" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>[==========] Running 1 test
[ RUN      ] A.Skips
/t.cc:3: Skipped
no GPU here
[  SKIPPED ] A.Skips (0 ms)</system-out></testcase>
  <testcase name="t.A.Fails" status="fail"><failure message=""/><system-out>[==========] Running 1 test
[ RUN      ] A.Fails
[  FAILED  ] A.Fails (0 ms)</system-out></testcase>
  <testcase name="whole" status="fail"><failure message=""/><system-out>[==========] Running 3 tests
[ RUN      ] A.Ok
[       OK ] A.Ok (0 ms)
[ RUN      ] A.Skips
/t.cc:3: Skipped
no toolkit
[  SKIPPED ] A.Skips (0 ms)
[ RUN      ] A.Fails
[  FAILED  ] A.Fails (0 ms)</system-out></testcase>
  <testcase name="crashed" status="fail"><failure message=""/><system-out>[==========] Running 2 tests
[ RUN      ] A.Ok
[       OK ] A.Ok (0 ms)
[ RUN      ] A.Dies</system-out></testcase>
  <testcase name="missing" status="notrun"><skipped message="Unable to find executable"/></testcase>
  <testcase name="script" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>skipped: no clang</system-out></testcase>
</testsuite>
"""


class RunTest(unittest.TestCase):
    def test_every_verdict_of_ctest_is_counted(self):
        run, tally = load("tests/run.py"), None
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(RESULTS)
            file.flush()
            tally = run.Tally()
            for result in run.read_results(file.name).values():
                tally.add(result)
        self.assertEqual(tally.passed, 3)
        self.assertEqual(tally.failed, ["t.A.Fails", "whole.A.Fails", "crashed", "missing (not run: Unable to find executable)"])
        self.assertEqual(tally.skipped, [("t.A.Skips", "no GPU here"), ("whole.A.Skips", "no toolkit"), ("script", "no clang")])

    def judge(self, first, alone):
        """What tests/run counts when ctest says `first`, then, of what failed, `alone`: (exit code, {test: passed})."""
        run = load("tests/run.py")
        answers = [first, alone]

        def run_ctest(preset, build, name, flags):
            code, passed = answers.pop(0)
            results = {}
            for test, ok in passed.items():
                results[test] = run.Tally()
                results[test].passed, results[test].failed = int(ok), [] if ok else [test]
            return code, results

        run.call, run.run_ctest = lambda *arguments, **keywords: 0, run_ctest
        tally = run.Tally()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            run.run_preset("dev", None, 2, tally)
        return tally, answers, said.getvalue()

    def test_what_fails_is_tried_alone_and_named(self):
        tally, left, said = self.judge((8, {"a": True, "b": False}), (0, {"b": True}))
        self.assertEqual((tally.passed, tally.failed, left), (2, [], []))
        self.assertIn("passed only alone: b", said)

    def test_what_fails_alone_too_has_failed(self):
        tally, _, said = self.judge((8, {"a": True, "b": False, "c": False}), (8, {"b": False, "c": True}))
        self.assertEqual((tally.passed, tally.failed), (2, ["b"]))
        self.assertNotIn("passed only alone: b", said)

    def test_many_failures_are_not_tried_again(self):
        tally, left, _ = self.judge((8, {f"t{i}": False for i in range(13)}), (0, {}))
        self.assertEqual((len(tally.failed), len(left)), (13, 1))

    def test_a_broken_ctest_is_a_failure(self):
        tally, _, _ = self.judge((8, {}), (0, {}))
        self.assertEqual(tally.failed, ["dev: ctest ended with code 8"])

    def test_a_wrong_expression_is_wrong_usage(self):
        done = subprocess.run([os.path.join(ROOT, "tests", "run"), "--only", "("], capture_output=True)
        self.assertEqual(done.returncode, 2)


class InstallDepsTest(unittest.TestCase):
    def deps(self, *arguments):
        return subprocess.run([os.path.join(ROOT, "cmake", "install-deps"), *arguments], capture_output=True, text=True)

    def test_wrong_usage(self):
        self.assertEqual(self.deps("--dry-rum").returncode, 2)

    def test_a_dry_run_changes_nothing_and_says_what_it_would_do(self):
        done = self.deps("--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "everything is there|would run")


if __name__ == "__main__":
    unittest.main()
