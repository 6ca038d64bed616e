"""The scripts that judge everything else can see a failure: tests/run counts what ctest says, cmake/install-deps
refuses what it does not know. (bench_test.py: bench/run.)"""
import concurrent.futures
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from types import SimpleNamespace

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
  <testcase name="t.A.Skips" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>[==========] Running 1 test
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
  <testcase name="script" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
    <system-out>skipped: no clang</system-out></testcase>
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
        self.assertEqual(tally.failed,
                         ["t.A.Fails", "whole.A.Fails", "crashed", "missing (not run: Unable to find executable)"])
        self.assertEqual(tally.skipped, [("t.A.Skips", "no GPU here"), ("whole.A.Skips", "no toolkit"),
                                         ("script", "no clang")])
        self.assertEqual(tally.output["whole.A.Fails"], "[ RUN      ] A.Fails")
        self.assertIn("A.Dies", tally.output["crashed"])

    def judge(self, code, passed):
        """What tests/run counts when ctest ends with this code and says {test: passed}; the commands that it ran."""
        run = load("tests/run.py")
        calls = []

        def run_ctest(preset, build, flags):
            calls.append(flags)
            results = {}
            for test, ok in passed.items():
                results[test] = run.Tally()
                results[test].passed, results[test].failed = int(ok), [] if ok else [test]
            return code, results

        run.call, run.run_ctest = lambda *arguments, **keywords: 0, run_ctest
        tally = run.Tally()
        with contextlib.redirect_stdout(io.StringIO()):
            run.run_preset("check", SimpleNamespace(only=None, jobs=2, deep=False, fuzz_seconds=None), tally)
        return tally, calls

    def test_what_fails_is_not_tried_again(self):
        tally, calls = self.judge(8, {"a": True, "b": False})
        self.assertEqual((tally.passed, tally.failed, len(calls)), (1, ["b"], 1))
        self.assertNotIn("--repeat", calls[0])

    def test_more_tests_run_at_once_than_there_are_jobs(self):
        _, calls = self.judge(0, {"a": True})
        self.assertEqual(calls[0][:2], ["-j", "3"])

    def test_nothing_here_repeats_tests(self):
        for path in ("tests/run.py", "tests/run", ".ci/run", "CMakePresets.json"):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                self.assertNotRegex(file.read(), r"until-pass|rerun-failed|twice|--repeat", path)

    def test_a_broken_ctest_is_a_failure(self):
        tally, _ = self.judge(8, {})
        self.assertEqual(tally.failed, ["check: ctest ended with code 8"])

    def test_deep_tests_are_left_out_unless_asked_for(self):
        _, calls = self.judge(0, {"a": True})
        self.assertIn("^deep$", calls[0])

    def test_busy_loops_run_beside_the_tests_and_end_with_them(self):
        loops = load("tests/run.py").BusyLoops(2)
        with loops:
            self.assertEqual([loop.poll() for loop in loops.loops], [None, None])
        self.assertNotIn(None, [loop.poll() for loop in loops.loops])

    def test_a_wrong_expression_is_wrong_usage(self):
        done = subprocess.run([os.path.join(ROOT, "tests", "run"), "--only", "("], capture_output=True)
        self.assertEqual(done.returncode, 2)


class AcceptTest(unittest.TestCase):
    """tests/accept goes on where it was, and counts runs in a row."""

    def setUp(self):
        self.accept = load("tests/accept")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.accept.ROOT = os.path.join(folder.name, "here")
        self.records = os.path.join(folder.name, "carried along")

    def record(self, commit="c1"):
        return self.accept.Record("t", commit, self.records)

    def row(self, codes, wanted=3):
        """A row of runs with these exit codes; (has it passed, how many were run)."""
        codes, record = list(codes), self.record()
        before = len(record.data["runs"])
        with contextlib.redirect_stdout(io.StringIO()):
            passed = record.row("full", wanted, lambda _: ["sh", "-c", f"echo FAILED: x; exit {codes.pop(0)}"])
        return passed, len(record.data["runs"]) - before

    def test_a_failure_starts_the_count_anew_and_is_kept(self):
        self.assertEqual(self.row([0, 0, 1]), (False, 3))
        self.assertEqual(self.row([0, 0, 0]), (True, 3))
        self.assertEqual([run["code"] for run in self.record().data["runs"]], [0, 0, 1, 0, 0, 0])
        self.assertEqual(self.record().data["runs"][2]["failed"], ["FAILED: x"])

    def test_an_interrupted_row_goes_on(self):
        self.assertEqual(self.row([0], wanted=1), (True, 1))
        self.assertEqual(self.row([0, 0]), (True, 2))

    def test_another_checkout_goes_on_with_the_records_that_were_carried_along(self):
        self.assertEqual(self.row([0, 0], wanted=2), (True, 2))
        self.accept.ROOT = self.accept.ROOT + " and there"
        self.assertEqual(self.row([0]), (True, 1))

    def test_what_is_recorded_names_no_folder_of_this_machine(self):
        record, soak = self.record(), os.path.join(tempfile.gettempdir(), "soak-1")
        with contextlib.redirect_stdout(io.StringIO()):
            record.run("soak", ["sh", "-c", f"echo FAILED: logs in {soak}; echo to {self.accept.ROOT}/build"], cwd=None)
        run = self.record().data["runs"][0]
        self.assertEqual((run["failed"], run["last"]), (["FAILED: logs in soak-1"], "to build"))

    def test_a_tag_that_moved_is_refused(self):
        self.record().save()
        with self.assertRaisesRegex(SystemExit, "use a new tag"):
            self.record("c2")

    def test_the_row_of_full_runs_has_one_beside_busy_loops(self):
        record, commands = self.record(), []
        record.run = lambda step, command: (commands.append(command) or True, 1)
        self.assertTrue(self.accept.full(record))
        self.assertEqual([len(command) for command in commands], [1, 1, 3, 1, 1])

    def test_the_simulator_runs_each_seed_once_with_full_rings_as_well_and_goes_on_where_it_was(self):
        commands, failing = [], ["1001"]

        def run(step, command):
            commands.append(command)
            return command[command.index("--seed") + 1] not in failing, 1

        def seeds(full_rings):
            told = [command for command in commands if ("--full-rings" in command) == full_rings]
            return sorted(first + i for command in told for first in [int(command[command.index("--seed") + 1])]
                          for i in range(int(command[command.index("--seeds") + 1])))

        record = self.record()
        record.run = run
        self.assertFalse(self.accept.sim(record))
        self.assertEqual(seeds(False), list(range(1, 10001)))
        self.assertEqual(seeds(True), list(range(1, 2501)))
        commands.clear()
        failing.clear()
        record = self.record()
        record.run = run
        self.assertTrue(self.accept.sim(record))
        self.assertEqual((seeds(False), seeds(True)), (list(range(1001, 1501)), list(range(1001, 1501))))

    def test_runs_beside_each_other_are_all_recorded(self):
        record = self.record()
        with contextlib.redirect_stdout(io.StringIO()), concurrent.futures.ThreadPoolExecutor(8) as threads:
            def part(number):
                return record.row(f"part_{number}", 1, lambda _: ["sh", "-c", f"echo {number}"])
            self.assertTrue(all(threads.map(part, range(40))))
        self.assertEqual(sorted(int(run["last"]) for run in self.record().data["runs"]), list(range(40)))
        self.assertEqual(len(self.record().data["in_a_row"]), 40)

    def test_the_parts_of_a_deep_run_that_have_passed_are_not_run_again(self):
        record, parts, order = self.record(), [], list(self.accept.DEEP_PARTS)
        self.assertEqual(set(order), {"check", "release", "asan", "tsan", "ubsan", "fuzz"})
        record.run = lambda step, command: (parts.append(command[-1]) or command[-1] != order[2], 1)
        self.assertFalse(self.accept.deep(record))
        self.assertEqual(parts, order[:3])
        record = self.record()
        record.run = lambda step, command: (parts.append(command[-1]) or True, 1)
        self.assertTrue(self.accept.deep(record))
        self.assertEqual(parts[3:], order[2:])


class ChaosTest(unittest.TestCase):
    """tests/soak/chaos.py: its own faults are none of the cluster's."""

    def test_a_worker_that_has_ended_by_itself_is_no_finding(self):
        chaos = load("tests/soak/chaos.py").Chaos
        ended = subprocess.Popen(["true"])
        ended.wait()
        with subprocess.Popen(["sleep", "60"]) as alive:
            chaos.processes = lambda _: {ended.pid: "m/1234/x", alive.pid: "m/1234/x"}
            for seed in range(8):  # in whichever order it picks them
                told = chaos.__new__(chaos)
                told.random = random.Random(seed)
                self.assertEqual(told.kill_worker(), "worker killed")
            self.assertEqual(alive.wait(), -signal.SIGKILL)
        told.processes = lambda: {ended.pid: "m/1234/x"}
        self.assertEqual(told.kill_worker(), "no worker")


class InstallDepsTest(unittest.TestCase):
    def deps(self, *arguments):
        return subprocess.run([os.path.join(ROOT, "cmake", "install-deps"), *arguments], capture_output=True, text=True)

    def test_wrong_usage(self):
        self.assertEqual(self.deps("--dry-rum").returncode, 2)

    def test_a_dry_run_changes_nothing_and_says_what_it_would_do(self):
        done = self.deps("--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "everything is there|would run")

    def test_packages_of_pypi_are_pinned(self):
        with open(os.path.join(ROOT, "cmake", "install-deps"), encoding="utf-8") as file:
            text = file.read()
        for group in ("rl", "data"):
            names = re.search(rf"^{group}_pypi=\(([^)]*)\)", text, re.M).group(1).split()
            self.assertGreater(len(names), 3)
            for name in names:
                self.assertRegex(name, r"^[\w-]+==[\d.]+$")
            self.assertEqual(self.deps("--dry-run", group).returncode, 0)


if __name__ == "__main__":
    unittest.main()
