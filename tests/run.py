"""Builds Troupe and passes all its tests: on a fresh Debian 12 this one command does everything.

Every test runs once; what fails has failed. The last line is 'N passed, N failed, N skipped'. Above it stands every
failure, with the end of what it printed, and every skip, with its reason.
Exit code: 0 all passed, 1 something failed, 2 wrong usage.
"""
import argparse
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SANITIZERS = ["asan", "tsan", "ubsan"]
DEEP = "^deep$"  # the label of tests that only --deep runs
DEEP_FUZZ_SECONDS = 120
SHOWN_LINES = 80  # of what a failed test printed, again at the end, where it is looked for


class Tally:
    """What has passed, failed and been skipped so far; one name each, and what the failed ones printed."""

    def __init__(self):
        self.passed, self.failed, self.skipped, self.output = 0, [], [], {}

    def add(self, other, prefix=""):
        self.passed += other.passed
        self.failed += [prefix + name for name in other.failed]
        self.skipped += [(prefix + name, why) for name, why in other.skipped]
        self.output.update({prefix + name: text for name, text in other.output.items()})


def say(text):
    print(f"== {text}", flush=True)


def call(command, **keywords):
    return subprocess.run(command, cwd=ROOT, **keywords).returncode


def cases_of_program(name, text, tally):
    """Counts the cases of a GoogleTest program that ctest knows as one test."""
    tally.passed += len(re.findall(r"^\[       OK \] .*\(\d+ ms\)", text, re.M))
    for case in sorted(set(re.findall(r"^\[  SKIPPED \] (\S+) \(\d+ ms\)", text, re.M))):
        tally.skipped.append((f"{name}.{case}", skip_reason(text, case)))
    failed = sorted(set(re.findall(r"^\[  FAILED  \] (\S+) \(\d+ ms\)", text, re.M)))
    for case in failed:
        tally.failed.append(f"{name}.{case}")
        tally.output[f"{name}.{case}"] = text[text.find(f"[ RUN      ] {case}\n"):].split(f"\n[  FAILED  ] {case} (")[0]
    return bool(failed)


def skip_reason(text, case=None):
    """The message of GTEST_SKIP: the lines between 'Skipped' and the case's verdict; or a line 'skipped: why'."""
    if case:
        start = text.find(f"[ RUN      ] {case}\n")
        text = text[start:] if start >= 0 else text
    match = (re.search(r": Skipped\n(.*?)\n\s*\n?\[  SKIPPED \]", text, re.S)
             or re.search(r"^skipped: (.*)$", text, re.M | re.I))
    reason = " ".join(match.group(1).split()) if match else ""
    return reason or "no reason given"


def read_results(path):
    """What each test of ctest's report has done: name -> Tally."""
    results = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name, status = case.get("name"), case.get("status")
        tally = results[name] = Tally()
        text = case.findtext("system-out") or ""
        whole = "[==========] Running" in text and len(re.findall(r"^\[ RUN      \]", text, re.M)) > 1
        if status == "run":
            if not (whole and cases_of_program(name, text, tally) is not None):
                tally.passed += 1
        elif status in ("notrun", "disabled") or case.find("skipped") is not None:
            missing = case.find("skipped")
            message = missing.get("message") if missing is not None else ""
            if "SKIP" in (message or "") or "[  SKIPPED ]" in text or status == "disabled":
                tally.skipped.append((name, skip_reason(text)))
            else:
                tally.failed.append(f"{name} (not run: {message or status})")
        elif not (whole and cases_of_program(name, text, tally)):
            tally.failed.append(name)
            tally.output[name] = text
    return results


def run_ctest(preset, build, flags):
    """One run of ctest: its exit code, and name -> Tally."""
    report = os.path.join(build, "test_results.xml")
    if os.path.exists(report):
        os.remove(report)
    code = call(["ctest", "--preset", preset, "--output-on-failure", "--output-junit", report,
                 "--test-output-size-passed", "1000000", "--test-output-size-failed", "1000000", *flags])
    return code, read_results(report) if os.path.exists(report) else {}


def slowest(path, count=10):
    """(seconds, name) of the tests of ctest's report that took longest."""
    if not os.path.exists(path):
        return []
    cases = ElementTree.parse(path).getroot().iter("testcase")
    return sorted(((float(case.get("time") or 0), case.get("name")) for case in cases), reverse=True)[:count]


def run_preset(preset, options, tally):
    """Configures, builds and tests one preset. Each test runs once: one that fails has failed."""
    build = os.path.join(ROOT, "build", preset)
    say(f"{preset}: configuring")
    configure = ["cmake", "--preset", preset]
    if preset == "fuzz" and options.fuzz_seconds:
        configure.append(f"-DTROUPE_FUZZ_SECONDS={options.fuzz_seconds}")
    if call(configure, stdout=subprocess.DEVNULL if os.path.exists(f"{build}/build.ninja") else None):
        tally.failed.append(f"{preset}: cmake --preset {preset}")
        return
    say(f"{preset}: building")
    if call(["cmake", "--build", "--preset", preset, "-j", str(options.jobs)]):
        tally.failed.append(f"{preset}: cmake --build --preset {preset}")
        return
    say(f"{preset}: testing")
    # Many tests wait more than they compute: half as many again as there are cores.
    flags = ["-j", str(options.jobs + options.jobs // 2)]
    flags += ["-R", options.only, "--no-tests=ignore"] if options.only else []
    flags += [] if options.deep else ["-LE", DEEP]
    code, results = run_ctest(preset, build, flags)
    counted = Tally()
    for tally_of in results.values():
        counted.add(tally_of)
    if code and not counted.failed:
        counted.failed.append(f"{preset}: ctest ended with code {code}")
    prefix = "" if preset == "check" else f"{preset}: "
    tally.add(counted, prefix)
    for seconds, name in slowest(os.path.join(build, "test_results.xml")):
        print(f"slowest: {seconds:6.1f} s  {prefix}{name}")


class BusyLoops:
    """So many processes that do nothing but take a core, for as long as the block runs: what a busy host is."""

    def __init__(self, count):
        self.count, self.loops = count, []

    def __enter__(self):
        # A loop ends with this process, however that ends: it reads from a pipe whose other end is here.
        program = ("import select, sys\n"
                   "while not select.select([sys.stdin], [], [], 0)[0]:\n"
                   "    for _ in range(1000000): pass\n")
        for _ in range(self.count):
            self.loops.append(subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE))

    def __exit__(self, *_):
        for loop in self.loops:
            loop.stdin.close()
            loop.wait()


def main():
    parser = argparse.ArgumentParser(prog="tests/run", description=__doc__.split("\n")[0])
    parser.add_argument("--preset", default="check",
                        help="CMake preset to build and test (default: check, as dev but compiled in batches)")
    parser.add_argument("--only", metavar="REGEX", help="only tests whose name matches")
    parser.add_argument("--sanitizers", action="store_true", help="also " + ", ".join(SANITIZERS))
    parser.add_argument("--fuzz", action="store_true", help="also the fuzzers with libFuzzer (installs clang)")
    parser.add_argument("--deep", action="store_true",
                        help=f"also the tests labelled deep, then release, {', '.join(SANITIZERS)} and longer fuzzing")
    parser.add_argument("--part", action="append", metavar="PRESET",
                        help="of what --deep, --sanitizers or --fuzz run only this preset; may be given several times")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="N busy loops beside the tests")
    parser.add_argument("--no-install", action="store_true", help="do not look for missing packages")
    parser.add_argument("-j", "--jobs", type=int, default=max(2, min(os.cpu_count() or 2, 16)),
                        help="jobs of the build; of the tests half as many again")
    arguments = parser.parse_args()
    if arguments.only:
        try:
            re.compile(arguments.only)
        except re.error as error:
            parser.error(f"--only: {error}")
    arguments.sanitizers |= arguments.deep
    arguments.fuzz |= arguments.deep
    arguments.fuzz_seconds = DEEP_FUZZ_SECONDS if arguments.deep else None
    presets = [arguments.preset] + (["release"] if arguments.deep else [])
    presets += (SANITIZERS if arguments.sanitizers else []) + (["fuzz"] if arguments.fuzz else [])
    if arguments.part:
        unknown = [part for part in arguments.part if part not in presets]
        if unknown:
            parser.error(f"--part: {', '.join(unknown)}: not one of {', '.join(dict.fromkeys(presets))}")
        presets = [preset for preset in presets if preset in arguments.part]
    started = time.monotonic()
    tally = Tally()
    if not arguments.no_install:
        groups = ["build", "test"] + (["fuzz"] if arguments.fuzz else [])
        if call([os.path.join(ROOT, "cmake", "install-deps"), *groups]):
            print("tests/run: packages are missing, see above", file=sys.stderr)
            print("0 passed, 1 failed, 0 skipped")
            return 1
    with BusyLoops(arguments.busy):
        for preset in dict.fromkeys(presets):
            run_preset(preset, arguments, tally)

    print()
    for name, why in tally.skipped:
        print(f"skipped: {name}: {why}")
    for name in tally.failed:
        print(f"FAILED: {name}")
        for line in tally.output.get(name, "").strip().splitlines()[-SHOWN_LINES:]:
            print(f"  | {line}")
    if tally.passed == 0 and not tally.failed:
        tally.failed.append("nothing was tested")
        print("FAILED: nothing was tested")
    print(f"finished in {time.monotonic() - started:.0f} s")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped", flush=True)
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
