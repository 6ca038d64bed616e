"""What a machine or a user does wrong: each has a typed error that says what to do, or does no harm; and nothing is
left.

Usage: faults_test.py TROUPE_COMMAND SOAK_DRIVER SOAK_OTHER_DRIVER
"""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TROUPE = DRIVER = OTHER = None


class FaultsTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="faults-")
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        subprocess.run([TROUPE, "stop", "--all"], env=self.environment, capture_output=True, timeout=60, check=False)
        end = time.monotonic() + 60  # a daemon gives its workers some seconds, and as many to its own parts
        while (left := (self.processes(), self.files())) != ([], []) and time.monotonic() < end:
            time.sleep(0.02)
        shutil.rmtree(self.root)
        self.assertEqual(left, ([], []), "what is left after 60 s")

    def files(self):
        return [os.path.join(folder, name) for folder, _, names in os.walk(self.root) for name in names
                if name != ".lock" and not {"logs", "events"} & set(folder.split(os.sep))]

    def processes(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file, open(f"/proc/{pid}/stat", "rb") as stat:
                    if f"TROUPE_SESSION_ROOT={self.root}".encode() in file.read().split(b"\0") and stat.read().rsplit(
                            b")", 1)[1].split()[0] != b"Z":
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def run_driver(self, *arguments, program=None, limits=None, **more):
        return subprocess.run([program or DRIVER, *arguments], env={**self.environment, **more},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=60,
                              preexec_fn=limits, check=False)

    def test_a_store_that_the_machine_cannot_hold(self):
        done = self.run_driver("work", "1", "--troupe-object-store-memory=100TB")
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not fit this machine", done.stderr)
        done = subprocess.run([TROUPE, "start", "--head", "--object-store-memory", "100TB"], env=self.environment,
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("does not fit this machine", done.stderr)

    def test_too_little_shared_memory(self):
        done = self.run_driver("work", "1", "--troupe-object-store-memory=256MB",
                               limits=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10 << 20, 10 << 20)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("choose a smaller object store", done.stderr)

    def test_a_session_folder_that_cannot_be_written(self):
        done = self.run_driver("work", "1", TROUPE_SESSION_ROOT="/proc/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("TROUPE_SESSION_ROOT", done.stderr)

    def test_an_executable_that_changes_while_it_runs(self):
        program, junk = os.path.join(self.root, "logs", "program"), os.path.join(self.root, "logs", "junk")
        os.mkdir(os.path.dirname(program))
        shutil.copy(DRIVER, program)
        with open(junk, "w", encoding="utf-8") as file:
            file.write("not a program")
        with open(os.path.join(self.root, "logs", "out"), "wb") as log:
            running = subprocess.Popen([program, "tasks", "1"], env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log)
        try:
            self.wait_for_launcher()
            os.rename(junk, program)
            for _ in range(3):  # each new launcher is started from what the driver runs, not from what lies there now
                os.kill(self.wait_for_launcher(), signal.SIGKILL)
                time.sleep(0.3)
            self.wait_for_launcher()
            with open(os.path.join(self.root, "logs", "out"), encoding="utf-8", errors="replace") as log:
                self.assertIsNone(running.poll(), log.read()[-2000:])
        finally:
            running.kill()
            running.wait()

    def wait_for_launcher(self):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for pid in self.processes():
                try:
                    with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                        if file.read().strip() == "troupe-launcher":
                            return pid
                except OSError:
                    pass
            time.sleep(0.01)
        self.fail("no launcher came")

    def test_an_actor_of_another_build_is_refused_with_what_to_do(self):
        done = subprocess.run([TROUPE, "start", "--head", "--cpus", "2", "--object-store-memory", "128MB", "--json"],
                              env=self.environment, capture_output=True, text=True, timeout=60, check=True)
        address = json.loads(done.stdout)["address"]
        self.assertEqual(self.run_driver("keep", "1", TROUPE_ADDRESS=address).returncode, 0)
        other = self.run_driver("ask", "1", program=OTHER, TROUPE_ADDRESS=address)
        self.assertEqual(other.returncode, 5, other.stderr)
        self.assertIn("run the same build", other.stdout)
        same = self.run_driver("ask", "1", TROUPE_ADDRESS=address)
        self.assertEqual((same.returncode, same.stdout), (0, "total 2\n"), same.stderr)
        self.assertEqual(self.run_driver("unkeep", "1", TROUPE_ADDRESS=address).returncode, 0)


if __name__ == "__main__":
    TROUPE, DRIVER, OTHER = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
    unittest.main()
