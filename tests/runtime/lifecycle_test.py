#!/usr/bin/env python3
"""Lives and deaths of whole programs: options, exit codes, signals, sudden deaths; after each of them nothing is left:
no process, socket, shared memory, or file but logs and event history.

Usage: lifecycle_test.py PROGRAM [NAME...]
"""
import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.abspath(sys.argv[1])
LIMIT = 60
SYS_TGKILL = {"x86_64": 234, "aarch64": 131}[os.uname().machine]
failures = 0


def check(ok, text):
    global failures
    if not ok:
        failures += 1
        print("FAILED:", text, flush=True)
    return ok


class Place:
    """A session root of its own; what lives there is found by the environment of its processes."""

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="runtime-life-")
        os.chmod(self.root, 0o700)
        self.tag = "RUNTIME_LIFE_TAG=" + os.path.basename(self.root)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root
        self.environment["RUNTIME_LIFE_TAG"] = os.path.basename(self.root)
        self.shm = set(os.listdir("/dev/shm"))

    def start(self, *arguments, **more):
        environment = dict(self.environment, **more)
        return subprocess.Popen([PROGRAM, *arguments], env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")

    def run(self, *arguments, **more):
        process = self.start(*arguments, **more)
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            check(False, f"{arguments} hangs\n{err[-2000:]}")
        return process.returncode, out, err

    def processes(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self.tag.encode() not in file.read().split(b"\0"):
                        continue
                with open(f"/proc/{pid}/stat") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                        continue
                found.append(int(pid))
            except OSError:
                pass
        return found

    def leftovers(self):
        left = [f"process {pid}" for pid in self.processes()]
        left += ["/dev/shm/" + name for name in set(os.listdir("/dev/shm")) - self.shm]
        for folder, folders, files in os.walk(self.root):
            inside = os.path.relpath(folder, self.root).split(os.sep)
            for name in files:
                if name == ".lock":  # empty: who holds it sweeps
                    continue
                if not any(part in ("logs", "events") for part in inside):
                    left.append(os.path.join(folder, name))
        return left

    def nothing_left(self, what, sockets_may_stay=False):
        end = time.monotonic() + 20
        while True:
            left = self.leftovers()
            if sockets_may_stay:
                left = [one for one in left if one.startswith("process") or one.startswith("/dev/shm")]
            if not left or time.monotonic() > end:
                break
            time.sleep(0.05)
        check(not left, f"{what} left {left}")
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def wait_for(path, process):
    end = time.monotonic() + LIMIT
    while not os.path.exists(path) and time.monotonic() < end and process.poll() is None:
        time.sleep(0.005)
    return os.path.exists(path)


def help_and_flags():
    with Place() as place:
        code, out, _ = place.run("hello", "--troupe-help")
        check(code == 0 and "--troupe-cpus" in out and "--troupe-address" in out and "144" not in out,
              f"--troupe-help: {code} {out}")
        for bad in (["--troupe-nonsense"], ["--troupe-cpus=many"], ["--troupe-cpus"], [
                "--troupe-object-store-memory=lots"
        ], ["--troupe-labels=x"], ["--troupe-resources=a=b"], ["--troupe-shutdown-grace=1y"], ["--troupe-cpus=nan"],
                    ["--troupe-cpus=-1"], ["--troupe-object-store-memory=1e300GB"]):
            code, out, err = place.run("hello", *bad)
            check(code == 2 and "144" not in out and err.strip(), f"{bad}: {code} {out} {err}")
        code, _, err = place.run("hello", TROUPE_CPUS="x")
        check(code == 2 and "TROUPE_CPUS" in err, f"a bad variable: {code} {err}")
        code, out, _ = place.run("args", "a", "--troupe-cpus=3", "b", "--troupe-name-space", "ns", "--x",
                                 TROUPE_CPUS="7")
        check(code == 0 and "[a][b][--x]" in out and "cpus 3 space 'ns' args 5" in out, f"flags: {code} {out}")
        code, out, _ = place.run("args", TROUPE_CPUS="7", TROUPE_NAME_SPACE="from env")
        check("cpus 7 space 'from env'" in out, f"variables: {out}")
        code, _, err = place.run("hello", "--troupe-address=/no/such/file")
        check(code == 1 and err.strip(), f"an address that is not there: {code} {err}")
        place.nothing_left("flags")


def exit_codes():
    with Place() as place:
        for given, expected in (("0", 0), ("3", 3), ("255", 255)):
            code, _, _ = place.run("code", given)
            check(code == expected, f"code {given}: {code}")
        code, _, err = place.run("throw")
        check(code == 1 and "out_of_range" in err and "left the driver" in err, f"throw: {code} {err}")
        code, _, err = place.run("throw remote")
        check(code == 1 and "domain_error" in err and "far away" in err and "pid" in err, f"throw remote: {code} {err}")
        code, _, err = place.run("no workers")
        check(code == 5, f"an actor of a program that ends before run: {code} {err}")
        code, _, _ = place.run("unfinished")
        check(code == 4, f"unfinished: {code}")
        place.nothing_left("exit codes")


def run_again():
    with Place() as place:
        code, out, err = place.run("twice")
        check(code == 0 and "twice" in out, f"run twice: {code} {out} {err[-1000:]}")
        place.nothing_left("run twice")


def signals():
    for number in (signal.SIGINT, signal.SIGTERM):
        with Place() as place:
            ready = os.path.join(place.root, "logs-ready")
            process = place.start("wait signal", ready)
            check(wait_for(ready, process), "started")
            time.sleep(0.05)
            process.send_signal(number)
            out, err = process.communicate(timeout=LIMIT)
            check(process.returncode == 128 + number, f"signal {number}: {process.returncode} {err[-500:]}")
            check("CancelledError 1" in out and "pet 5" in out and "square 9" in out, f"within its grace: {out}")
            os.remove(ready)
            place.nothing_left(f"signal {number}")
    with Place() as place:
        ready = os.path.join(place.root, "logs-ready")
        process = place.start("thread waits", ready)
        check(wait_for(ready, process), "started")
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LIMIT)
        check("CancelledError" in out and "thread 1" in out and process.returncode == 130,
              f"another thread sees cancelled(): {out}")
    for second in (True, False):
        with Place() as place:
            ready = os.path.join(place.root, "logs-ready")
            process = place.start("ignore signal", ready, "--troupe-shutdown-grace=" + ("60s" if second else "1s"))
            check(wait_for(ready, process), "started")
            process.send_signal(signal.SIGTERM)
            if second:
                process.stdout.readline()
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIMIT)
            check(process.returncode == 128 + signal.SIGTERM, f"ignored signal: {process.returncode}")
            os.remove(ready)
            place.nothing_left(f"ignored signal, second {second}")


def takes_signal(pid, thread, number):
    with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8") as file:
        blocked = int(re.search(r"^SigBlk:\s*(\w+)", file.read(), re.M)[1], 16)
    return not blocked >> number - 1 & 1


def signals_on_any_thread():
    """The kernel gives a signal to whichever thread takes it: none may lose it, the one least that waits for it."""
    tgkill, index, tried = ctypes.CDLL(None, use_errno=True).syscall, 0, 0
    while True:
        with Place() as place:
            ready = os.path.join(place.root, "logs-ready")
            process = place.start("wait signal", ready)
            check(wait_for(ready, process), "started")
            threads = sorted(map(int, os.listdir(f"/proc/{process.pid}/task")))
            takes = index < len(threads) and takes_signal(process.pid, threads[index], signal.SIGINT)
            if takes:
                check(tgkill(SYS_TGKILL, process.pid, threads[index], int(signal.SIGINT)) == 0, "tgkill")
                tried += 1
            else:
                process.send_signal(signal.SIGINT)
            try:
                _, err = process.communicate(timeout=LIMIT)
                check(process.returncode == 130, f"SIGINT on thread {index}: {process.returncode} {err[-500:]}")
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                check(False, f"SIGINT on thread {index} of {len(threads)} was lost")
            index += 1
        if index >= len(threads):
            break
    check(tried > 0, "a thread that takes SIGINT")


def sudden_ends():
    for mode, code in (("exit inside", 9), ("_exit inside", 9), ("abort", -signal.SIGABRT)):
        with Place() as place:
            got, _, err = place.run(mode)
            check(got == code, f"{mode}: {got} {err[-500:]}")
            place.nothing_left(mode, sockets_may_stay=True)
            code2, out, _ = place.run("hello")  # the next start sweeps what a dead session left
            check(code2 == 0 and "144" in out, f"hello after {mode}")
            place.nothing_left(f"{mode}, then another run")


def random_kills():
    seed = int(os.environ.get("RUNTIME_TEST_SEED", "1"))
    rng = random.Random(seed)
    with Place() as place:
        for round_number in range(16):
            ready = os.path.join(place.root, f"logs-ready{round_number}")
            process = place.start("busy", ready)
            if round_number % 2:
                check(wait_for(ready, process), "busy started")
                time.sleep(rng.random() * 0.3)
            else:
                time.sleep(rng.random() * 0.6)  # anywhere in its start
            process.kill()
            process.communicate(timeout=LIMIT)
            if os.path.exists(ready):
                os.remove(ready)
            place.nothing_left(f"a driver killed in round {round_number} of seed {seed}", sockets_may_stay=True)
        code, out, _ = place.run("hello")
        check(code == 0 and "144" in out, "hello after the kills")
        place.nothing_left("the kills, then another run")


def killed_parts():
    """The head, the daemon or the launcher dies alone: the driver ends with a typed error, and nothing is left."""
    with Place() as place:
        for round_number in range(6):
            ready = os.path.join(place.root, f"logs-ready{round_number}")
            process = place.start("busy", ready)
            check(wait_for(ready, process), "busy started")
            others = [pid for pid in place.processes() if pid != process.pid]
            sessions = [pid for pid in others if os.getsid(pid) == pid]  # head, daemon, launchers
            victim = sessions[round_number % len(sessions)] if sessions else others[0]
            name = open(f"/proc/{victim}/comm").read().strip()
            command = open(f"/proc/{victim}/cmdline", "rb").read().replace(b"\0", b" ").decode(errors="replace")[:120]
            os.kill(victim, signal.SIGKILL)
            try:
                _, err = process.communicate(timeout=8)
                check(process.returncode == 1,
                      f"after {name} ({command}) died the driver ended with {process.returncode}: {err[-500:]}")
            except subprocess.TimeoutExpired:
                process.kill()  # it goes on: a launcher is replaced
                process.communicate()
            if os.path.exists(ready):
                os.remove(ready)
            place.nothing_left(f"{name} ({command}) killed", sockets_may_stay=True)


def hundred_drivers():
    with Place() as place:
        for i in range(100):
            code, out, err = place.run("hello")
            if not check(code == 0 and "144" in out, f"driver {i}: {code} {out} {err[-500:]}"):
                break
        place.nothing_left("a hundred drivers")
        sessions = [name for name in os.listdir(place.root) if os.path.isdir(os.path.join(place.root, name))]
        kept = sum(
            len([n for n in os.listdir(os.path.join(place.root, name)) if re.match(r"\d{8}-", n)]) for name in sessions)
        kept += len([name for name in sessions if re.match(r"\d{8}-", name)])
        check(kept <= 11, f"the last ten sessions are kept, not {kept}")


def together():
    with Place() as place:
        started = [place.start("hello") for _ in range(6)]
        for process in started:
            out, err = process.communicate(timeout=LIMIT * 2)
            check(process.returncode == 0 and "144" in out, f"one of six at once: {process.returncode} {err[-500:]}")
        place.nothing_left("six at once")


TESTS = [
    help_and_flags, exit_codes, run_again, signals, signals_on_any_thread, sudden_ends, random_kills, killed_parts,
    together, hundred_drivers
]

for test in TESTS:
    if len(sys.argv) > 2 and not any(name in test.__name__ for name in sys.argv[2:]):
        continue
    before, start = failures, time.monotonic()
    print("[", test.__name__, flush=True)
    test()
    print("  kept ]" if failures == before else "  BROKEN ]", test.__name__, f"({time.monotonic() - start:.1f} s)",
          flush=True)
sys.exit(1 if failures else 0)
