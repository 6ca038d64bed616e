"""What the tests of the engine share: a session folder of their own, the program, and what it left."""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest


def alive(pid):
    """A zombie whose parent has not looked yet is not alive."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def may_mount():
    """Whether this user makes a mount of its own: root, where nothing forbids it."""
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False,
                          capture_output=True, timeout=60).returncode == 0


def run_tests(names):
    """Runs the cases of the program's own file (all of them without names). Its exit code: 1 where one failed, else 77
    where one was skipped, which ctest counts, with the reason printed. So cases that can be skipped are in a test of
    ctest with others that need the same thing."""
    result = unittest.main(argv=[sys.argv[0], *names], exit=False).result
    for case, why in result.skipped:
        print(f"skipped: {case}: {why}")
    return 1 if not result.wasSuccessful() else 77 if result.skipped else 0


class ProgramCase(unittest.TestCase):
    PROGRAM = TROUPE = None

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="dg-")
        self.addCleanup(self.temporary.cleanup)  # the last of them: what start() has started is over by then
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def need_mounts(self):
        """Small disks, and folders that a node does not see. Under .ci/run a skip is a failure."""
        if may_mount():
            return
        self.assertFalse(os.environ.get("TROUPE_REQUIRE_DATA"), "these cases mount file systems: root's")
        self.skipTest("file systems are mounted by root")

    def path(self, name):
        return f"{self.root}/{name}"

    def datagen(self, *arguments, code=0, **more):
        done = subprocess.run([self.PROGRAM, *(a if isinstance(a, bytes) else str(a) for a in arguments)],
                              env=self.environment, text=True, errors="replace", timeout=120,
                              stdin=subprocess.DEVNULL, capture_output=True, **more)
        if code is None:  # refused in any of the ways that are listed
            self.assertIn(done.returncode, (1, 2), f"{arguments}:\n{done.stdout}\n{done.stderr}")
        else:
            self.assertEqual(done.returncode, code, f"{arguments}:\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def start(self, *arguments):
        running = subprocess.Popen([self.PROGRAM, *map(str, arguments)], env=self.environment, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.abandon, running)
        return running

    def abandon(self, running):
        """A test that fails in the middle leaves nobody behind."""
        if running.poll() is None:
            running.kill()
            running.communicate()

    def result(self, out):
        with open(f"{out}/result.json", encoding="utf-8") as file:
            return json.load(file)

    def digest(self, out):
        return json.loads(self.datagen("show", out, "--json"))["digest"]

    def assert_files_are_the_manifests(self, out):
        """Each shard's file has the bytes that were committed, by a hash that is none of ours; there is no other."""
        shown = json.loads(self.datagen("show", out, "--json"))
        for record in shown["done"]:
            with open(f"{out}/{record['name']}", "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), record["sha256"], record["name"])
        self.assertEqual(len(shown["done"]), shown["shards"])
        beside = {"main_data.hdf5", "metadata.json"}  # of minari
        self.assertEqual({f"data/{name}" for name in os.listdir(f"{out}/data") if name not in beside},
                         {record["name"] for record in shown["done"]})

    def committed(self, out):
        """The names of the shards that the manifest has."""
        return {record["name"] for record in json.loads(self.datagen("show", out, "--json"))["done"]}

    def temporaries(self, out):
        return [f"{folder}/{name}" for folder, _, names in os.walk(out) for name in names if name.endswith(".tmp")]

    def processes(self, name, out=None):
        """The processes of this test's clusters whose name is `name`, in the order of their start."""
        found, mark = [], f"TROUPE_SESSION_ROOT={self.root}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as comm, open(f"/proc/{pid}/environ",
                                                                               "rb") as environment:
                    if comm.read().strip() == name and mark in environment.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:
                pass
        return sorted(found)

    def children(self, pid):
        """The process and all below it."""
        parents = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parents.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
            except OSError:
                pass
        found = [pid]
        for parent in found:
            found += parents.get(parent, [])
        return found

    def journal_holder(self, out):
        """The process that has a journal of this data set open: the coordinator's."""
        for pid in self.processes("troupe-worker"):
            try:
                for descriptor in os.listdir(f"/proc/{pid}/fd"):
                    # Opened under the name that it had before it was published.
                    if re.match(rf"{re.escape(out)}/manifest/\.?\d+\.log",
                                os.readlink(f"/proc/{pid}/fd/{descriptor}")):
                        return pid
            except OSError:
                pass
        return None

    def makers(self, out):
        """The processes that are inside of the run: they hold its token."""
        found = []
        for pid in self.processes("troupe-worker"):
            try:
                links = [os.readlink(f"/proc/{pid}/fd/{d}") for d in os.listdir(f"/proc/{pid}/fd")]
            except OSError:
                continue
            if any(re.match(rf"{re.escape(out)}/manifest/\d+\.token", link) for link in links):
                found.append(pid)
        return found

    def until(self, what, condition, running=None, seconds=60):
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            self.assertLess(time.monotonic(), deadline, f"not within {seconds} s: {what}")
            if running is not None:
                self.assertIsNone(running.poll(), f"it ended before: {what}")
            time.sleep(0.002)
        return value

    def shards_there(self, out):
        try:
            return [name for name in os.listdir(f"{out}/data") if not name.startswith(".")]
        except OSError:
            return []
