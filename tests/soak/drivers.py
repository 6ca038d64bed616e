#!/usr/bin/env python3
"""Drivers one after the other on one long-lived cluster, some of them killed at random moments; then embedded ones,
killed.

After the end of each, sooner or later: no process of its job (found by a tag in its environment, and by the session's
mark), no socket or shared memory beyond what the idle cluster has, the store's usage as at the start, and of files only
logs and events. No time is asserted: a minute is a wait's end, on however busy a machine.
Over all of them: head and daemon keep their number of descriptors and, within an allowance, their private memory.

Usage: drivers.py [--drivers N] [--kills N] [--embedded N] [--seed N] TROUPE_COMMAND SOAK_DRIVER
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

LIMIT = 60  # seconds: what is still there then is left for good, on the busiest machine
HANGS = 120  # a driver that takes so long hangs
WARM = 10  # drivers before memory is first looked at: caches fill, the allocator takes its arenas
# What head and daemon may gain in private memory between driver 10 and the last: a floor for the allocator, and what is
# remembered of the past on purpose, each up to a bound: dead processes and dead actors (the last 10,000 of each, below
# 1 KiB each).
ALLOWED_KB, ALLOWED_KB_EACH, REMEMBERED = 3072, 1, 10000
TAG = "SOAK_DRIVER_TAG"
MARK = "TROUPE_INTERNAL_MARK="


def variables_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read().decode(errors="replace").split("\0")


def is_zombie(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "Z"


def processes_with(prefix):
    """pid -> the variable that begins so, for all living processes that have one."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            hits = [one for one in variables_of(pid) if one.startswith(prefix)]
            if hits and not is_zombie(pid):
                found[int(pid)] = hits[-1]
        except OSError:
            pass
    return found


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return "?"


def private_kb(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    return 0


def descriptors(pid):
    """What each descriptor of a process is, without the numbers that tell two of a kind apart."""
    kinds = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            kinds.append(os.readlink(f"/proc/{pid}/fd/{number}").split(":[")[0])
        except OSError:
            pass
    return sorted(kinds)


def difference(now, before):
    left = list(now)
    for one in before:
        if one in left:
            left.remove(one)
    return left


def bound_sockets(folder):
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        return sorted(line.split()[-1] for line in file if folder in line)


def files_in(root):
    """All but logs, events and the lock by which sweepers exclude each other."""
    found = []
    for folder, _, files in os.walk(root):
        parts = os.path.relpath(folder, root).split(os.sep)
        if "logs" not in parts and "events" not in parts:
            found += [os.path.join(folder, name) for name in files if name != ".lock"]
    return sorted(found)


class Soak:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.root = tempfile.mkdtemp(prefix="soak-")
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root
        self.failures = []
        self.address = None
        self.servers = {}
        self.slowest = 0.0

    def fail(self, text):
        self.failures.append(text)
        print("FAILED:", text, flush=True)

    def troupe(self, *arguments):
        done = subprocess.run([self.options.troupe, *arguments], env=self.environment, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=HANGS)
        if done.returncode != 0:
            raise RuntimeError(f"troupe {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    # ---------------------------------------------------------------------------------------------------- what there is

    def start_cluster(self):
        started = json.loads(self.troupe("start", "--head", "--cpus", "2", "--object-store-memory", "256MB", "--json"))
        self.address, self.session_dir = started["address"], started["session"]
        self.session = os.path.basename(self.session_dir)
        self.troupe("status")  # what the first to ask leaves for good is part of the beginning
        # MARK=<session>/<node>/<job>/<serial>: head and daemon are of no job.
        marked = processes_with(MARK + self.session + "/")
        self.servers = {pid: name_of(pid) for pid, mark in marked.items() if mark.split("/")[-2] == "00000000"}
        if sorted(self.servers.values()) != ["troupe-daemon", "troupe-head"]:
            self.fail(f"an idle cluster has the processes {self.servers}")

    def store(self):
        status = json.loads(self.troupe("status", "--json"))
        return {"used": int(status["store_used"]), "objects": int(status["store_objects"])}

    def look(self):
        """The idle cluster: until two looks in a row are the same."""
        before = None
        while True:
            now = self.look_once()
            if now == before:
                return now
            before = now
            time.sleep(0.5)

    def look_once(self):
        store = self.store()
        self.wait_for_quiet()
        return {
            "store": store, "shm": sorted(os.listdir("/dev/shm")), "files": files_in(self.root),
            "sockets": bound_sockets(self.root), "descriptors": {pid: descriptors(pid)
                                                                 for pid in self.servers}
        }

    def wait_for_quiet(self):
        """What the last driver started may not be over."""
        end = time.monotonic() + LIMIT
        while self.others() and time.monotonic() < end:
            time.sleep(0.02)

    def others(self):
        return {pid: mark for pid, mark in processes_with(MARK + self.session + "/").items() if pid not in self.servers}

    def leftovers(self, tag, before):
        """Cheap looks first: the store is asked only when all else is gone."""
        left = [f"process {pid} ({name_of(pid)}) of the driver" for pid in processes_with(f"{TAG}={tag}")]
        if self.servers:
            left += [f"process {pid} ({name_of(pid)}) {mark}" for pid, mark in self.others().items()]
        left += ["/dev/shm/" + name for name in difference(sorted(os.listdir("/dev/shm")), before["shm"])]
        left += ["file " + name for name in difference(files_in(self.root), before["files"])]
        if left or not self.servers:
            return left
        left += ["socket " + name for name in difference(bound_sockets(self.root), before["sockets"])]
        for pid, kinds in before["descriptors"].items():
            left += [f"descriptor of {self.servers[pid]}: {kind}" for kind in difference(descriptors(pid), kinds)]
        if left:
            return left
        store = self.store()
        return [] if store == before["store"] else [f"the store has {store}, at first {before['store']}"]

    def nothing_left(self, what, tag, before, since):
        left = self.leftovers(tag, before)
        while left and time.monotonic() - since < LIMIT:
            time.sleep(0.02)
            left = self.leftovers(tag, before)
        took = time.monotonic() - since
        self.slowest = max(self.slowest, took)
        if left:
            self.fail(f"{what} left {len(left)} things after {took:.1f} s: " + "; ".join(left[:12]))
            for pid in processes_with(f"{TAG}={tag}"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return took

    # ------------------------------------------------------------------------------------------------------ the drivers

    def driver(self, mode, number, tag, address):
        environment = {**self.environment, TAG: tag}
        if address:
            environment["TROUPE_ADDRESS"] = address
        log = open(os.path.join(self.root, "logs", f"{tag}.log"), "wb")
        with log:
            return subprocess.Popen(
                [self.options.driver, mode, str(number), str(self.options.seed)], env=environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def tail(self, tag):
        with open(os.path.join(self.root, "logs", f"{tag}.log"), encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-15:])

    def run_to_end(self, mode, number, tag):
        process = self.driver(mode, number, tag, self.address)
        try:
            code = process.wait(HANGS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = "hangs"
        if code != 0:
            self.fail(f"driver {tag} ({mode}): {code}\n{self.tail(tag)}")
        return time.monotonic()

    def run_and_kill(self, number, tag, address, latest):
        process = self.driver("forever", number, tag, address)
        time.sleep(self.random.random() * latest)
        if process.poll() is not None:
            self.fail(f"driver {tag} ended by itself: {process.returncode}\n{self.tail(tag)}")
        process.kill()
        process.wait()
        return time.monotonic()

    def memory(self):
        """(private memory, what is remembered): always behind the same question, whose answer costs the head memory.

        Before it the allocator may just have given back what that takes again.
        """
        past = self.remembered()
        return {pid: private_kb(pid) for pid in self.servers}, past

    def remembered(self):
        """Dead processes and dead actors of this cluster so far, as far as they are kept."""
        with open(os.path.join(self.session_dir, "logs", "node-daemon.log"), encoding="utf-8",
                  errors="replace") as file:
            processes = sum(" is dead: " in line for line in file)
        actors = len(json.loads(self.troupe("list", "actors", "--json", "--limit", str(REMEMBERED))))
        return min(processes, REMEMBERED) + actors

    def drivers(self):
        count = self.options.drivers
        kills = set(self.random.sample(range(count), min(self.options.kills, count)))
        self.start_cluster()
        before, begun, warm = self.look(), time.monotonic(), None
        for number in range(count):
            tag = f"{os.path.basename(self.root)}-{number}"
            start = time.monotonic()
            if number in kills:
                since = self.run_and_kill(number, tag, self.address, 3)
                self.run_to_end("unkeep", number, tag)  # a detached actor outlives its job, killed or not
                since = max(since, time.monotonic() - 1)
            else:
                since = self.run_to_end("work", number, tag)
            took = self.nothing_left(f"driver {number}{' (killed)' if number in kills else ''}", tag, before, since)
            self.wait_for_quiet()
            if number + 1 == min(WARM, max(1, count // 2)):  # quiet, as at the end: the head may be behind
                warm = (number, *self.memory())
            sizes = ", ".join(f"{self.servers[pid]} {private_kb(pid)} KiB {len(descriptors(pid))} fds"
                              for pid in self.servers if os.path.exists(f"/proc/{pid}"))
            print(
                f"driver {number + 1}/{count}: {'killed' if number in kills else 'ended'} after {since - start:.1f} s, "
                f"clean {took:.2f} s later; {sizes}",
                flush=True)
            if not all(os.path.exists(f"/proc/{pid}") for pid in self.servers):
                self.fail("head or daemon died")
            if self.failures:  # what is left would be found again after every other driver
                break
        else:
            self.check_growth(count, warm)
        self.troupe("stop", "--all")
        self.servers = {}
        self.nothing_left("the cluster", os.path.basename(self.root), {"shm": before["shm"], "files": []},
                          time.monotonic())
        print(
            f"{count} drivers, {len(kills)} killed: {time.monotonic() - begun:.0f} s, "
            f"the slowest clean-up {self.slowest:.2f} s",
            flush=True)

    def check_growth(self, count, warm):
        first, sizes, past = warm
        now, remembered = self.memory()
        allowed = ALLOWED_KB + ALLOWED_KB_EACH * (remembered - past)
        for pid, size in now.items():
            gain = size - sizes[pid]
            print(
                f"{self.servers[pid]}: {sizes[pid]} KiB after driver {first + 1}, {size} KiB after {count}: "
                    f"{gain:+d} KiB ({allowed} allowed)",
                flush=True)
            if gain > allowed:
                self.fail(f"{self.servers[pid]} grew by {gain} KiB")

    def embedded(self):
        for number in range(self.options.embedded):
            tag = f"{os.path.basename(self.root)}-embedded-{number}"
            before = {"shm": sorted(os.listdir("/dev/shm")), "files": []}
            since = self.run_and_kill(number, tag, None, 2.5)
            took = self.nothing_left(f"embedded driver {number} (killed)", tag, before, since)
            print(f"embedded driver {number + 1}/{self.options.embedded}: killed, clean {took:.2f} s later", flush=True)

    def run(self):
        os.mkdir(os.path.join(self.root, "logs"))
        try:
            self.drivers()
            self.embedded()
        finally:
            for pid in processes_with(f"TROUPE_SESSION_ROOT={self.root}"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not self.failures:
                shutil.rmtree(self.root, ignore_errors=True)
        print(
            f"FAILED: {len(self.failures)} findings, the logs are in {self.root}"
            if self.failures else "nothing was left and nothing grew", flush=True)
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--drivers", type=int, default=100)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--embedded", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("troupe", type=os.path.abspath)
    parser.add_argument("driver", type=os.path.abspath)
    return Soak(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
