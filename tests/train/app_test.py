"""The training programs as a user meets them: help, wrong usage, short runs, resume, Ctrl-C, kill -9, mpirun's way of
starting."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

GPT = MLP = SLOW_DISK = TROUPE = None
TINY = [
    "--layers", "1", "--heads", "2", "--channels", "16", "--context", "16", "--batch", "4", "--validation-rows", "8"
]


def alive(pid):
    """A zombie whose parent has not looked yet is not alive."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def is_below(pid, ancestor):
    while pid > 1 and pid != ancestor:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            pid = int(file.read().rsplit(")", 1)[1].split()[1])
    return pid == ancestor


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Running:
    """A program under way; its error stream is read line by line."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def text(self):
        return "".join(self.lines)

    def pids(self):
        return [int(pid) for pid in re.findall(r"^rank \d+: process (\d+)", self.text(), re.M)]

    def reached(self):
        steps = re.findall(r"^([\d,]+)/[\d,]+ steps", self.text(), re.M)
        return int(steps[-1].replace(",", "")) if steps else 0

    def end(self, seconds=240):
        try:
            self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self.reader.join()
            self.output = self.process.stdout.read()
            self.process.stdout.close()
            self.process.stderr.close()
        return self.process.returncode


class ProgramTest(unittest.TestCase):
    """A folder and an environment of its own for the programs of one test."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="ta-")
        self.root = self.temporary.name
        self.programs = []
        foreign = ("TROUPE_", "OMPI_", "PMIX_")
        self.environment = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(foreign) and k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR")
        }
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        left = [program for program in self.programs if program.process.poll() is None]
        if left:  # only a test that failed leaves one; what its processes wrote says why
            self.print_logs()
        for program in left:
            program.process.kill()
            program.end()
        self.temporary.cleanup()

    def print_logs(self):
        for folder, _, names in os.walk(self.root):
            for name in names:
                if name.endswith((".log", ".out", ".err")):
                    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                        print(f"== {name}\n" + "".join(file.readlines()[-200:]), flush=True)

    def begin(self, command, environment):
        self.programs.append(Running(command, environment))
        return self.programs[-1]

    def path(self, *names):
        return os.path.join(self.root, *names)

    def run_program(self, program, *arguments, code=0):
        done = subprocess.run([program, *arguments], env=self.environment, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=240)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{arguments}:\n{done.stdout}\n{done.stderr}")
        return done

    def result(self, out):
        with open(self.path(out, "result.json"), encoding="utf-8") as file:
            return json.load(file)


class AppTest(ProgramTest):
    def gpt(self, out, *arguments, code=0):
        self.run_program(GPT, *TINY, "--out", self.path(out), *arguments, code=code)
        return self.result(out)

    def test_help_is_0_and_wrong_usage_is_2(self):
        for program in (GPT, MLP):
            self.assertIn("--workers", self.run_program(program, "--help").stdout)
            for wrong in (["--fly"], ["--workers", "0"], ["--steps", "many"], ["--zero", "2"], ["--device",
                                                                                                "abacus"], ["stray"]):
                done = self.run_program(program, *wrong, code=2)
                self.assertTrue(done.stderr.strip(), wrong)

    def test_bad_input_is_1_with_one_line_that_says_what(self):
        empty, short, foreign = self.path("empty"), self.path("short"), self.path("foreign")
        for path, text in ((empty, ""), (short, "abc"), (foreign, "a,b\n1,2\n")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        out = ["--out", self.path("bad")]
        for program, arguments, said in ((GPT, ["--data", self.path("none")], "none"), (GPT, [
                "--data", empty
        ], "empty"), (GPT, ["--data", short], "window"), (GPT, ["--heads", "3"], "heads"), (MLP, [
                "--data", foreign
        ], "digits"), (GPT, ["--resume"], "no checkpoint"), (GPT, ["--steps", "10", "--warmup", "20"], "warm-up")):
            done = self.run_program(program, *arguments, *out, code=1)
            self.assertIn(said, done.stderr, arguments)
        self.assertIn("no GPU", self.run_program(GPT, "--device", "cuda", "--troupe-gpus", "0", *out, code=1).stderr)
        self.assertIn("gpt", self.run_program(MLP, "--device", "cuda", *out, code=1).stderr)

    def test_mlp_learns_digits_on_two_ranks(self):
        self.run_program(MLP, "--workers", "2", "--steps", "120", "--out", self.path("mlp"))
        result = self.result("mlp")
        self.assertEqual(result["steps"], 120)
        self.assertGreater(result["accuracy"], 0.8)
        with open(self.path("mlp", "learning_curve.svg"), encoding="utf-8") as file:
            self.assertIn("polyline", file.read())

    def test_ranks_and_zero_do_not_change_the_run(self):
        one = self.gpt("one", "--steps", "8", "--workers", "1")
        two = self.gpt("two", "--steps", "8", "--workers", "2")
        sharded = self.gpt("sharded", "--steps", "8", "--workers", "2", "--zero", "1")
        self.assertEqual(two["losses"], sharded["losses"])  # ZeRO-1 equals ZeRO-0 bit for bit
        for (_, a), (_, b) in zip(one["losses"], two["losses"], strict=True):
            self.assertAlmostEqual(a, b, places=4)

    def test_more_ranks_than_cpus_are_said(self):
        done = self.run_program(GPT, *TINY, "--steps", "2", "--workers", "3", "--troupe-cpus", "2", "--out",
                                self.path("many"))
        self.assertIn("3 ranks share 2 CPUs", done.stderr)

    def test_resume_repeats_the_curve_bit_for_bit(self):
        schedule = ["--decay-steps", "12", "--workers", "2"]
        whole = self.gpt("whole", "--steps", "12", *schedule)
        self.gpt("parts", "--steps", "5", *schedule)
        parts = self.gpt("parts", "--steps", "12", "--resume", *schedule)
        self.assertEqual(parts["resumed_from"], 5)
        self.assertEqual(parts["losses"], [line for line in whole["losses"] if line[0] > 5])
        self.assertEqual(parts["validation_loss"], whole["validation_loss"])
        # Another run does not write over its checkpoints, and another model is refused.
        self.assertIn("--overwrite", self.run_program(GPT, *TINY, "--out", self.path("parts"), code=1).stderr)
        def left():
            return [open(self.path("parts", name), "rb").read() for name in ("result.json", "learning_curve.svg")]
        before = left()
        refused = self.run_program(GPT, *TINY, "--clip", "2", "--resume", "--out", self.path("parts"), "--steps", "13",
                                   code=1)
        self.assertIn("clip", refused.stderr)
        self.assertEqual(left(), before)  # what the run had left is not written over

    def test_sample_writes_text(self):
        result = self.gpt("sample", "--steps", "3", "--sample", "40", "--prompt", "The ")
        self.assertTrue(result["sample"].startswith("The "))
        self.assertEqual(len(result["sample"]), 44)

    def start(self, out, *arguments):
        return self.begin([GPT, *TINY, "--out", self.path(out), *arguments], self.environment)

    def test_ctrl_c_leaves_a_checkpoint_and_nothing_running(self):
        running = self.start("interrupted", "--steps", "100000000", "--workers", "2")
        self.assertTrue(wait_until(lambda: running.reached() > 0), running.text())
        pids = running.pids()
        running.process.send_signal(signal.SIGINT)
        self.assertEqual(running.end(), 130, running.text())
        result = self.result("interrupted")
        self.assertTrue(result["interrupted"])
        self.assertTrue(
            os.path.exists(self.path("interrupted", "checkpoints", f"step-{result['steps']:09}.safetensors")))
        self.assertEqual(len(pids), 2)
        self.assertTrue(wait_until(lambda: not any(alive(pid) for pid in pids)))

    def test_a_killed_rank_is_replaced_and_the_run_goes_on(self):
        for victim, zero in ((0, "1"), (1, "0")):
            with self.subTest(victim=victim, zero=zero):
                out = f"killed{victim}"
                running = self.start(out, "--steps", "100000000", "--workers", "2", "--zero", zero, "--commit-every",
                                     "20", "--evaluate-every", "0", "--checkpoint-every", "0")
                self.assertTrue(wait_until(lambda: running.reached() > 0 and len(running.pids()) == 2), running.text())
                os.kill(running.pids()[victim], signal.SIGKILL)
                self.assertTrue(wait_until(lambda: len(re.findall(r"^2 ranks: ", running.text(), re.M)) == 2),
                                running.text())
                running.process.send_signal(signal.SIGINT)
                self.assertEqual(running.end(), 130, running.text())
                result = self.result(out)
                self.assertEqual([recovery["ranks"] for recovery in result["recoveries"]], [2, 1, 2])
                self.assertIn("commit", result["recoveries"][1]["text"])
                self.assertEqual([line[0] for line in result["losses"]], list(range(1, result["steps"] + 1)))
                self.assertEqual(len(set(running.pids())), 3)

    def all_are_back(self, running, count, since=0):
        """The last formation that is told of has so many ranks, and it is not among the first `since`."""
        told = re.findall(r"^(\d+) ranks?: ", running.text(), re.M)
        return len(told) > since and told[-1] == str(count)

    LONG = ["--steps", "100000000", "--commit-every", "20", "--evaluate-every", "0", "--checkpoint-every", "0"]

    def interrupt(self, running, out):
        running.process.send_signal(signal.SIGINT)
        self.assertEqual(running.end(), 130, running.text())
        self.assertTrue(os.path.exists(self.path(out, "result.json")), running.text())
        result = self.result(out)
        self.assertEqual([line[0] for line in result["losses"]], list(range(1, result["steps"] + 1)))
        return result

    def test_two_of_three_killed_some_milliseconds_apart(self):
        """D.1: the second one dies at any moment of the driver's forming the group again without the first one."""
        running = self.start("twice", *self.LONG, "--workers", "3")
        self.assertTrue(wait_until(lambda: running.reached() > 0 and len(running.pids()) == 3), running.text())
        known = 3
        for milliseconds in (0, 1, 3, 10, 20, 40):
            formations = len(re.findall(r"^\d+ ranks?: ", running.text(), re.M))
            victims = [pid for pid in running.pids() if alive(pid)][-2:]
            self.assertEqual(len(victims), 2, running.text())
            os.kill(victims[0], signal.SIGKILL)
            time.sleep(milliseconds / 1000)
            os.kill(victims[1], signal.SIGKILL)
            known += 2
            self.assertTrue(
                wait_until(lambda: self.all_are_back(running, 3, formations) and len(running.pids()) >= known),
                f"{milliseconds} ms\n{running.text()}")
        self.interrupt(running, "twice")

    def workers(self):
        return self.processes("troupe-worker")

    def processes(self, kind):
        """Those of this test's cluster, found by their environment."""
        found, mark = [], f"TROUPE_SESSION_ROOT={self.root}".encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/comm", encoding="utf-8") as comm, open(f"/proc/{name}/environ",
                                                                                "rb") as environment:
                    if comm.read().strip() == kind and mark in environment.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                pass
        return found

    def test_replacements_that_die_while_they_are_taken_in(self):
        """D.1: killed before they are members, or while they become it; the rank that is left goes on."""
        running = self.start("again", *self.LONG, "--workers", "2")
        self.assertTrue(wait_until(lambda: running.reached() > 0 and len(running.pids()) == 2), running.text())
        survivor, victim = running.pids()
        os.kill(victim, signal.SIGKILL)
        for wait in range(20):  # whatever process comes, the replacement among them, dies after a while of its own
            time.sleep(0.02 * (wait % 7))
            for pid in self.workers():
                if pid != survivor and alive(pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        self.assertTrue(
            wait_until(lambda: self.all_are_back(running, 2) and len([p for p in running.pids() if alive(p)]) == 2),
            running.text())
        self.assertTrue(alive(survivor), running.text())
        self.interrupt(running, "again")

    def test_ranks_that_die_before_the_first_group_is_formed(self):
        """D.1: the first formation is a formation like any other."""
        running = self.start("early", *self.LONG, "--workers", "2")
        killed = set()
        end = time.monotonic() + 60
        while len(killed) < 5 and time.monotonic() < end and not running.pids():
            for pid in self.workers():
                if pid not in killed:
                    killed.add(pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
        self.assertTrue(killed)
        self.assertTrue(wait_until(lambda: self.all_are_back(running, 2)), running.text())
        self.interrupt(running, "early")

    def test_a_replacement_without_a_place_keeps_no_other_out(self):
        """DR-7: a node of three is gone for good, and of the ranks that are left another one is killed."""
        def node(*of):
            return json.loads(
                self.run_program(TROUPE, "start", *of, "--cpus", "1", "--object-store-memory", "128MB",
                                 "--json").stdout)

        try:
            first = node("--head")
            second, third = [node("--address", first["address"]) for _ in range(2)]
            running = self.start("nodes", *self.LONG, "--workers", "3", "--troupe-address", first["address"])
            self.assertTrue(wait_until(lambda: running.reached() > 0 and len(running.pids()) == 3), running.text())
            victim, = [pid for pid in running.pids() if is_below(pid, second["pid"])]
            os.kill(third["pid"], signal.SIGKILL)
            self.assertTrue(wait_until(lambda: self.all_are_back(running, 2, 1)), running.text())
            os.kill(victim, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: self.all_are_back(running, 2, 3)), running.text())
            self.assertEqual([recovery["ranks"] for recovery in self.interrupt(running, "nodes")["recoveries"]],
                             [3, 2, 1, 2])
        finally:
            self.run_program(TROUPE, "stop", "--all", code=None)

    def test_a_frozen_rank_is_killed_and_replaced(self):
        """D.1, DR-5: whichever rank it is."""
        running = self.start("frozen", *self.LONG, "--workers", "2", "--heartbeat-timeout", "4")
        self.assertTrue(wait_until(lambda: running.reached() > 0 and len(running.pids()) == 2), running.text())
        for index in (0, 1):
            formations = len(re.findall(r"^\d+ ranks?: ", running.text(), re.M))
            frozen = [pid for pid in running.pids() if alive(pid)][index]
            os.kill(frozen, signal.SIGSTOP)
            self.assertTrue(wait_until(lambda: self.all_are_back(running, 2, formations)), running.text())
            self.assertTrue(wait_until(lambda: not alive(frozen)))
            self.assertTrue(wait_until(lambda: len([pid for pid in running.pids() if alive(pid)]) == 2))
        self.assertIn("taken for frozen", running.text())
        self.interrupt(running, "frozen")

    def test_a_rank_that_is_slow_to_take_its_place_is_no_death(self):
        """DR-5: it stands still for longer than a formation waits, and for less than a heartbeat may take."""
        running = self.start("late", *self.LONG, "--workers", "3", "--heartbeat-timeout", "60")
        self.assertTrue(wait_until(lambda: running.reached() > 0 and len(running.pids()) == 3), running.text())
        slow, victim = running.pids()[1:]
        os.kill(slow, signal.SIGSTOP)
        os.kill(victim, signal.SIGKILL)
        time.sleep(14)
        os.kill(slow, signal.SIGCONT)
        self.assertTrue(wait_until(lambda: self.all_are_back(running, 3, 1)), running.text())
        self.assertTrue(alive(slow), running.text())
        self.assertEqual(self.interrupt(running, "late")["recoveries"][1]["ranks"], 2)

    def test_ctrl_c_while_a_lost_rank_is_buried_leaves_a_checkpoint(self):
        """DR-3: the driver waits for the head, which stands still."""
        running = self.start("buried", *self.LONG, "--workers", "2")
        self.assertTrue(wait_until(lambda: running.reached() > 0 and len(running.pids()) == 2), running.text())
        head, = self.processes("troupe-head")
        os.kill(head, signal.SIGSTOP)
        os.kill(running.pids()[1], signal.SIGKILL)
        time.sleep(1)
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        os.kill(head, signal.SIGCONT)
        self.assertEqual(running.end(), 130, running.text())
        result = self.result("buried")
        self.assertTrue(
            os.path.exists(self.path("buried", "checkpoints", f"step-{result['steps']:09}.safetensors")))

    def test_ctrl_c_beside_a_frozen_rank_leaves_a_checkpoint(self):
        """DR-3: within the grace, so a rank that does not take its place is not waited for."""
        running = self.start("stuck", *self.LONG, "--workers", "3", "--heartbeat-timeout", "60")
        self.assertTrue(wait_until(lambda: running.reached() > 0 and len(running.pids()) == 3), running.text())
        frozen, victim = running.pids()[1:]
        os.kill(frozen, signal.SIGSTOP)
        os.kill(victim, signal.SIGKILL)
        self.assertTrue(wait_until(lambda: "lost the rank" in running.text()), running.text())
        running.process.send_signal(signal.SIGINT)
        self.assertEqual(running.end(), 130, running.text())
        result = self.result("stuck")
        self.assertTrue(
            os.path.exists(self.path("stuck", "checkpoints", f"step-{result['steps']:09}.safetensors")))

    def test_ctrl_c_before_there_is_a_rank_waits_for_none(self):
        """They wait for a place, and would tell nothing: the report is written within the grace."""
        running = self.start("unborn", *self.LONG, "--workers", "1", "--troupe-cpus", "0")
        self.assertTrue(wait_until(lambda: "is waiting for a place" in running.text()), running.text())
        running.process.send_signal(signal.SIGINT)
        self.assertEqual(running.end(), 130, running.text())
        self.assertTrue(self.result("unborn")["interrupted"])

    def test_ctrl_c_while_a_sample_is_written_keeps_the_run(self):
        running = self.start("sampled", "--steps", "2", "--workers", "1", "--sample", "100000000")
        last = self.path("sampled", "checkpoints", "step-000000002.safetensors")
        self.assertTrue(wait_until(lambda: os.path.exists(last)), running.text())
        time.sleep(1)
        running.process.send_signal(signal.SIGINT)
        self.assertEqual(running.end(), 130, running.text())
        self.assertEqual([line[0] for line in self.result("sampled")["losses"]], [1, 2])

    def test_a_slow_checkpoint_is_no_death(self):
        """D.2: rank 0 writes for longer than a heartbeat may take, the others wait for it."""
        slow = {**self.environment, "LD_PRELOAD": SLOW_DISK, "TROUPE_TEST_FSYNC_SECONDS": "10"}
        running = self.begin([
            GPT, *TINY, "--out",
            self.path("slow"), "--steps", "2", "--checkpoint-every", "2", "--workers", "2", "--heartbeat-timeout", "4"
        ], slow)
        self.assertEqual(running.end(), 0, running.text())
        self.assertEqual([recovery["ranks"] for recovery in self.result("slow")["recoveries"]], [2])

    def test_a_checkpoint_that_cannot_be_written_is_a_warning(self):
        """D.3"""
        full = {**self.environment, "LD_PRELOAD": SLOW_DISK, "TROUPE_TEST_FSYNC_FULL": "2"}
        running = self.begin(
            [GPT, *TINY, "--out",
             self.path("full"), "--steps", "6", "--checkpoint-every", "2", "--workers", "2"], full)
        self.assertEqual(running.end(), 0, running.text())
        self.assertIn("warning: the checkpoint of step 2 was not written", running.text())
        result = self.result("full")
        self.assertEqual((result["steps"], len(result["warnings"])), (6, 2))

    def test_a_longer_run_goes_on_with_the_schedule_that_it_had(self):
        """H.16: --help says that --steps counts those before --resume."""
        self.gpt("short", "--steps", "5", "--workers", "1")
        longer = self.gpt("short", "--steps", "8", "--workers", "1", "--resume")
        self.assertEqual((longer["resumed_from"], longer["steps"]), (5, 8))

    def test_zero_does_not_change_nine_ranks_that_joined_over_sockets(self):
        """D.5: where sums are not those of shared memory, they are the same ones for ZeRO-0 and ZeRO-1."""
        losses = []
        for zero in ("0", "1"):
            launcher = {
                "WORLD_SIZE": "9", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                "TROUPE_COLLECTIVE_BACKEND": "tcp"
            }
            ranks = [
                self.begin([
                    GPT, *TINY[:TINY.index("--batch")], "--batch", "9", "--validation-rows", "9", "--steps", "5",
                    "--zero", zero, "--out",
                    self.path("nine" + zero)
                ], {**self.environment, **launcher, "RANK": str(rank)}) for rank in range(9)
            ]
            for rank in ranks:
                self.assertEqual(rank.end(), 0, rank.text())
            losses.append(self.result("nine" + zero)["losses"])
        self.assertEqual(*losses)

    def test_when_no_rank_is_left_new_ones_begin_with_the_checkpoint(self):
        running = self.start("alone", "--steps", "100000000", "--workers", "1", "--checkpoint-every", "500",
                             "--evaluate-every", "0")
        checkpoints = self.path("alone", "checkpoints")
        self.assertTrue(wait_until(lambda: os.path.exists(checkpoints) and any(
            name.endswith("00.safetensors") for name in os.listdir(checkpoints))), running.text())
        self.assertTrue(wait_until(running.pids), running.text())  # the rank trains before the driver tells of it
        os.kill(running.pids()[0], signal.SIGKILL)
        self.assertTrue(wait_until(lambda: "resumes the checkpoint" in running.text()), running.text())
        running.process.send_signal(signal.SIGINT)
        self.assertEqual(running.end(), 130, running.text())

    def test_processes_that_a_launcher_started_join(self):
        actors = self.gpt("actors", "--steps", "6", "--workers", "2")
        launcher = {"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": f"t{os.getpid()}"}
        ranks = [
            self.begin([GPT, *TINY, "--steps", "6", "--out", self.path("joined")],
                    {**self.environment, **launcher, "RANK": str(rank)}) for rank in range(2)
        ]
        for rank in ranks:
            self.assertEqual(rank.end(), 0, rank.text())
        self.assertEqual(self.result("joined")["losses"], actors["losses"])


if __name__ == "__main__":
    GPT, MLP, SLOW_DISK, TROUPE = sys.argv[1:5]
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
