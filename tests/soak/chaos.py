#!/usr/bin/env python3
"""The soak: three nodes on this machine under load, and each second something is killed.

The load is `storm` (actors and transfers between nodes, all results checked) and PPO runs one after the other, each of
which must solve its task. The faults, at random from a seed: a worker is killed (SIGKILL); a joined node is killed,
daemon and all, and started anew; the TCP connections of a node are reset. At the end: no wrong result, no driver that
failed, and over the last two thirds of the time memory, descriptors and processes of those that lived throughout are
flat; their slopes are printed (and judged from five minutes on: before, everything still warms up).

Usage: tests/soak/chaos.py [--minutes M] [--seed N] [--every SECONDS] [--build DIR] [--no-ppo]
Exit code: 0 all held, 1 something did not, 2 wrong usage. Connections are reset with `ss -K`, which needs root and the
kernel's permission; where it has neither, that is said and counted, and the other faults go on.
"""
import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import drivers  # noqa: E402  what it knows of processes, marks and descriptors

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NODES = 3
STORE = "512MB"
SAMPLE_SECONDS = 2.0
# What may be gained over the time that is judged: a floor for the allocator and the logs, and what is remembered of the
# dead.
GAIN_KB, GAIN_DESCRIPTORS, GAIN_PROCESSES = 8192, 8, 4
WARM_SECONDS = 300


def slope(points):
    """The least-squares slope of (seconds, value), a minute."""
    count = len(points)
    if count < 2:
        return 0.0
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    below = sum((x - mean_x) ** 2 for x, _ in points)
    return 60 * sum((x - mean_x) * (y - mean_y) for x, y in points) / below if below else 0.0


class Chaos:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.root = tempfile.mkdtemp(prefix="chaos-")
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = os.path.join(self.root, "sessions")
        os.mkdir(self.environment["TROUPE_SESSION_ROOT"], 0o700)
        self.failures, self.faults, self.samples = [], {}, {}
        self.daemons, self.joined = {}, [
        ]  # pid -> name of those that live throughout; sessions of nodes that may be killed
        self.address = None
        self.can_reset = True

    def fail(self, text):
        self.failures.append(text)
        print("FAILED:", text, flush=True)

    def program(self, path):
        return os.path.join(self.options.build, path)

    def troupe(self, *arguments):
        done = subprocess.run([self.program("bin/troupe"), *arguments], env=self.environment, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=drivers.HANGS)
        if done.returncode != 0:
            raise RuntimeError(f"troupe {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    # ---------------------------------------------------------------------------------------------------------- cluster

    def start(self):
        head = json.loads(self.troupe("start", "--head", "--cpus", "2", "--object-store-memory", STORE, "--json"))
        self.address, session = head["address"], os.path.basename(head["session"])
        for pid, mark in drivers.processes_with(drivers.MARK + session + "/").items():
            if mark.split("/")[-2] == "00000000":
                self.daemons[pid] = drivers.name_of(pid)
        for _ in range(NODES - 1):
            self.join()

    def join(self):
        said = json.loads(
            self.troupe("start", "--address", self.address, "--cpus", "2", "--object-store-memory", STORE, "--json"))
        self.joined.append(os.path.basename(said["session"]))

    def processes(self):
        """pid -> mark of everything of this soak's sessions."""
        return {pid: mark for pid, mark in drivers.processes_with(drivers.MARK).items() if self.is_ours(pid)}

    def is_ours(self, pid):
        try:
            return f"TROUPE_SESSION_ROOT={self.environment['TROUPE_SESSION_ROOT']}" in drivers.variables_of(pid)
        except OSError:
            return False

    # ----------------------------------------------------------------------------------------------------------- faults

    def kill_worker(self):
        workers = [pid for pid, mark in self.processes().items() if mark.split("/")[-2] != "00000000"]
        for pid in self.random.sample(workers, len(workers)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it has ended since: with its task, its job, or a fault before this one
                continue
            return "worker killed"
        return "no worker"

    def kill_node(self):
        if not self.joined:
            return "no node"
        session = self.joined.pop(self.random.randrange(len(self.joined)))
        for pid in drivers.processes_with(drivers.MARK + session + "/"):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.join()
        return "node killed"

    def reset_connections(self):
        if not self.can_reset:
            return "reset not possible"
        node = self.random.choice(json.loads(self.troupe("list", "nodes", "--json")))
        port = str(node["address"]).rsplit(":", 1)[-1]
        done = subprocess.run(
            ["ss", "-K", "-H", "-t", "state", "established", f"( sport = :{port} or dport = :{port} )"],
            capture_output=True, text=True)
        if done.returncode != 0 or "not permitted" in done.stderr or "not supported" in done.stderr:
            self.can_reset = False
            print(f"skipped: resetting connections: {done.stderr.strip() or done.returncode}", flush=True)
            return "reset not possible"
        return "connections reset"

    def fault(self):
        act = self.random.choices([self.kill_worker, self.reset_connections, self.kill_node], [8, 3, 1])[0]
        try:
            what = act()
        except (ProcessLookupError, RuntimeError, subprocess.TimeoutExpired) as error:
            self.fail(f"{act.__name__}: {error}")
            what = f"{act.__name__} failed"
        self.faults[what] = self.faults.get(what, 0) + 1

    # --------------------------------------------------------------------------------------------------------- watching

    def sample(self, now, driver):
        for pid, name in {**self.daemons, driver.pid: "storm"}.items():
            try:
                self.samples.setdefault((name, "KiB"), []).append((now, drivers.private_kb(pid)))
                self.samples.setdefault((name, "descriptors"), []).append((now, len(drivers.descriptors(pid))))
            except OSError:
                if pid != driver.pid:
                    self.fail(f"{name} ({pid}) died")
                    self.daemons.pop(pid)
        self.samples.setdefault(("all", "processes"), []).append((now, len(self.processes())))

    def judge(self, seconds):
        allowed = {"KiB": GAIN_KB, "descriptors": GAIN_DESCRIPTORS, "processes": GAIN_PROCESSES}
        for (name, kind), points in sorted(self.samples.items()):
            last = [(x, y) for x, y in points if x >= seconds / 3]
            rate = slope(last)
            gain = rate * (last[-1][0] - last[0][0]) / 60 if len(last) > 1 else 0.0
            print(f"{name:16} {kind:12} {last[0][1] if last else 0:8.0f} -> {last[-1][1] if last else 0:8.0f}, "
                  f"slope {rate:+9.2f} a minute", flush=True)
            if kind == "KiB":  # what fills up to a bound (core/base/recent_set.h) grows and then is flat
                steps = [next((y for x, y in points if x >= seconds * step / 12), points[-1][1]) for step in range(12)]
                print(" " * 17 + "at each twelfth: " + " ".join(f"{y:.0f}" for y in steps), flush=True)
            if seconds >= WARM_SECONDS and gain > allowed[kind]:
                self.fail(f"{name}: {gain:.0f} {kind} gained over the last two thirds (allowed {allowed[kind]})")

    # ------------------------------------------------------------------------------------------------------------- load

    def driver(self, name, command):
        log = open(os.path.join(self.root, f"{name}.log"), "ab")
        environment = {**self.environment, "TROUPE_ADDRESS": self.address}
        with log:
            return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def tail(self, name):
        with open(os.path.join(self.root, f"{name}.log"), encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-12:])

    def start_ppo(self, number):
        out = os.path.join(self.root, "ppo")
        return self.driver("ppo", [self.program("apps/rl/ppo"), "--seed", str(number), "--out", out])

    def run(self):
        seconds = self.options.minutes * 60
        self.start()
        storm = self.driver("storm", [self.program("tests/soak/storm"), "--seconds", str(int(seconds)),
                                      "--seed", str(self.options.seed)])
        began, next_sample, next_fault, solved = time.monotonic(), 0.0, 3.0, 0
        ppo = None if self.options.no_ppo else self.start_ppo(1)
        while storm.poll() is None:
            now = time.monotonic() - began
            if now > seconds + 5 * drivers.HANGS:
                self.fail("the storm did not end")
                storm.kill()
            if ppo is not None and ppo.poll() is not None:
                if ppo.returncode != 0:
                    self.fail(f"PPO run {solved + 1} ended with {ppo.returncode}:\n{self.tail('ppo')}")
                solved += ppo.returncode == 0
                ppo = self.start_ppo(solved + 1) if now < seconds else None
            if now >= next_sample:
                self.sample(now, storm)
                next_sample = now + SAMPLE_SECONDS
            if next_fault <= now < seconds:
                self.fault()
                next_fault = max(next_fault + self.options.every, now)
            time.sleep(0.05)
        if storm.returncode != 0:
            self.fail(f"the storm ended with {storm.returncode}:\n{self.tail('storm')}")
        if ppo is not None and ppo.wait(drivers.HANGS) != 0:
            self.fail(f"the last PPO run ended with {ppo.returncode}:\n{self.tail('ppo')}")
        print(self.tail("storm").strip().split("\n")[-1])
        print(f"PPO runs that solved their task: {solved}; faults: {json.dumps(self.faults)}", flush=True)
        self.judge(seconds)

    def close(self):
        try:
            self.troupe("stop", "--all")
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            self.fail(f"troupe stop: {error}")
        left = self.processes()
        deadline = time.monotonic() + drivers.LIMIT
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left = self.processes()
        if left:
            self.fail(f"left behind: {left}")
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if not self.failures:
            shutil.rmtree(self.root, ignore_errors=True)
        print(f"FAILED: {len(self.failures)} findings, the logs are in {self.root}" if self.failures else
              f"{self.options.minutes:g} minutes of chaos: everything held", flush=True)
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(prog="tests/soak/chaos.py", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=30, help="how long (default 30)")
    parser.add_argument("--seed", type=int, default=1, help="of the faults and the load")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="between faults (default 1)")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "check"),
                        help="the build folder (default build/check)")
    parser.add_argument("--no-ppo", action="store_true", help="the storm alone")
    options = parser.parse_args()
    for path in ("bin/troupe", "tests/soak/storm") + (() if options.no_ppo else ("apps/rl/ppo",)):
        if not os.access(os.path.join(options.build, path), os.X_OK):
            parser.error(f"not built: {os.path.join(options.build, path)}")
    chaos = Chaos(options)
    try:
        chaos.run()
    finally:
        code = chaos.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
