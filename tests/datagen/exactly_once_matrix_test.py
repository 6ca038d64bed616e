"""Exactly once for every generator in every format, with the real program: a worker, the coordinator and the driver are
killed by SIGKILL while a data set is made by 1, 2 or 8 workers, and a node of two; afterwards the digest is that of a
run by one worker that nobody disturbed, and no temporary file is left. GEN-1, GEN-2, CRD-1 to CRD-3.

exactly_once_matrix_test.py DATAGEN TROUPE CASES...: formats that the build lacks are skipped (77), and under
TROUPE_REQUIRE_DATA a failure. A generator or a format that `datagen list` shows and that has no line here fails.
MatrixTest gives every second pair one number of workers, and some pairs a second node. WholeTest.test_GENERATOR is the
whole product, and FullDiskTest fills a disk between kills: these are for tests/run --deep.
"""
import itertools
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
from program_case import ProgramCase, run_tests  # noqa: E402

SHARDS = 24
# Settings, samples a shard: some ten milliseconds of work.
GENERATORS = {
    "blobs": (("--bytes", 100_000), 60),
    "gpt-text": (("--checkpoint", "model.safetensors", "--heads", 2, "--tokens", 40), 12),
    "mm1-queue": (("--customers", 32_000), 32),
    "option-prices": (("--paths", 20_000), 16),
    "scenes": (("--width", 48, "--height", 48), 8),
    "tabular": (("--columns", 16, "--label-noise", 0.1), 20_000),
    "trajectories": (("--env", "Acrobot-v1", "--mixture", "random", "--max-episode-steps", 200), 20),
}
FORMATS = {
    "jsonl": ("--compression", "zstd"),
    "minari": ("--dataset-id", "matrix/test-v0"),
    "parquet": ("--row-group-rows", 1000),
    "safetensors": (),
    "webdataset": (),
}


def pairs():
    return [(g, f) for g, f in itertools.product(GENERATORS, FORMATS) if f != "minari" or g == "trajectories"]


def every_second():
    """Of each generator every second format, and of each format every second generator."""
    generators, formats = list(GENERATORS), list(FORMATS)
    return [(g, f) for g, f in pairs() if f == "minari" or (generators.index(g) + formats.index(f)) % 2 == 0]


def checkpoint(path):
    """A GPT over all bytes that nobody trained: 2 layers of 16 channels."""
    width, draws, arrays = 16, random.Random(3), {"wte.weight": (256, 16), "wpe.weight": (16, 16)}
    for layer in range(2):
        for name, rows in (("attn.c_attn", 3 * width), ("attn.c_proj", width), ("mlp.c_fc", 4 * width)):
            arrays[f"h.{layer}.{name}.weight"] = (rows, width)
            arrays[f"h.{layer}.{name}.bias"] = (rows,)
        arrays[f"h.{layer}.mlp.c_proj.weight"] = (width, 4 * width)
        for name in ("ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias", "mlp.c_proj.bias"):
            arrays[f"h.{layer}.{name}"] = (width,)
    arrays["ln_f.weight"] = arrays["ln_f.bias"] = (width,)
    header, body = {}, bytearray()
    for name, shape in arrays.items():
        begin = len(body)
        for _ in range(shape[0] * (shape[1] if len(shape) == 2 else 1)):
            body += struct.pack("<f", 1.0 if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight")) else
                                draws.gauss(0, 0.3))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(body)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


class MatrixCase(ProgramCase):
    def setUp(self):
        super().setUp()
        self.random = random.Random(5)
        self.clusters = False
        self.missing = set()
        checkpoint(self.path("model.safetensors"))

    def tearDown(self):
        if self.clusters:
            self.troupe("stop", "--all")
        super().tearDown()

    def troupe(self, *arguments):
        done = subprocess.run([self.TROUPE, *map(str, arguments)], env=self.environment, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=60)
        self.assertEqual(done.returncode, 0, f"{arguments}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def job(self, generator, kind, shards=SHARDS):
        settings, each = GENERATORS[generator]
        settings = [self.path(s) if s == "model.safetensors" else s for s in settings]
        return ("--generator", generator, *settings, "--format", kind, *FORMATS[kind], "--samples", each * shards - 3,
                "--samples-per-shard", each, "--seed", 11)

    def undisturbed(self, generator, kind, shards=SHARDS):
        """The digest that one worker's run has; None where the build lacks the format."""
        out = self.path(f"{generator}-{kind}-undisturbed")
        done = subprocess.run([self.PROGRAM, "run", *map(str, self.job(generator, kind, shards)), "--out", out,
                               "--workers", "1"], env=self.environment, text=True, capture_output=True, timeout=120)
        if "cmake/install-deps data" in done.stderr and not os.environ.get("TROUPE_REQUIRE_DATA"):
            self.missing.add(kind)
            return None
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.digest(out)

    def kill(self, whom, out, running, before, node):
        """SIGKILL to a worker, the coordinator, the driver or all of the node with that process, once there are more
        shards than before; whether it did."""
        find = {"worker": lambda: self.makers(out), "coordinator": lambda: [self.journal_holder(out)],
                "driver": lambda: [running.pid],
                "node": lambda: set(self.makers(out)) & set(self.children(node)) if node else []}[whom]
        while running.poll() is None:
            victims = list(filter(None, find())) if len(self.shards_there(out)) > before else []
            if victims:
                if whom == "node":
                    self.kill_all(node)
                    return True
                try:
                    os.kill(self.random.choice(victims), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                return True
            time.sleep(0.001)
        return False

    def at_work(self, out, node=None):
        """Processes that the run before left; those of a cluster stay, without a part in it."""
        return self.processes("troupe-worker") if node is None else self.makers(out) or self.journal_holder(out)

    def run_with_kills(self, verb, out, victims, node=None):
        """One run, until it ends or its driver is killed: (its exit code, whom it killed, what it said)."""
        killed = []
        with self.start(*verb, "--retries", 20) as running:
            for victim in victims:
                if not self.kill(victim, out, running, len(self.shards_there(out)) + 2, node):
                    break
                killed.append(victim)
                if victim == "driver":
                    break
            said = "".join(running.communicate(timeout=100))
        return running.returncode, killed, said

    def disturbed(self, job, out, where, victims, node=None):
        """Runs with kills until it is done; whom it killed. `where`: settings of each run."""
        verb, killed = ("run", *job, "--out", out), []
        for _ in range(len(victims) + 1):
            code, more, said = self.run_with_kills((*verb, *where), out, victims[len(killed):], node)
            killed += more
            if code == 0:
                return killed
            self.assertEqual((code, killed[-1:]), (-signal.SIGKILL, ["driver"]), said)
            self.until("nobody is left", lambda: not self.at_work(out, node))
            verb = ("resume", out)
        return self.fail(f"{killed} were killed, and it is not done")

    def disturbed_twice(self, *arguments, **more):
        """disturbed(), with two kills at least: a run that was over before has disturbed nobody, and is made again."""
        for _ in range(4):
            killed = self.disturbed(*arguments, **more)
            if len(killed) >= 2:
                return killed
            shutil.rmtree(arguments[1])
        return self.fail("four runs were over before two were killed")

    def check(self, out, digest, undisturbed=None):
        undisturbed = undisturbed or f"{out}-undisturbed"
        self.assertEqual(self.temporaries(out), [])
        self.assertEqual(self.processes("troupe-worker"), [])
        self.assertEqual(self.digest(out), digest)
        self.assert_files_are_the_manifests(out)
        # Also what a format has beside its shards.
        names = sorted(os.listdir(f"{out}/data"))
        self.assertEqual(names, sorted(os.listdir(f"{undisturbed}/data")))
        for name in names:
            with open(f"{out}/data/{name}", "rb") as one, open(f"{undisturbed}/data/{name}", "rb") as other:
                self.assertEqual(one.read(), other.read(), name)

    def kill_all(self, node):
        for pid in self.children(node):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def two_nodes(self):
        self.clusters = True
        start = ("start", "--cpus", 1, "--object-store-memory", "128MB", "--json")
        head = json.loads(self.troupe(*start, "--head"))
        return head, json.loads(self.troupe(*start, "--address", head["address"]))

    def stop(self):
        self.troupe("stop", "--all")
        self.clusters = False

    def say_what_is_missing(self):
        if self.missing:
            self.skipTest(f"cmake/install-deps data: the build has no {sorted(self.missing)}")


class MatrixTest(MatrixCase):
    def test_the_matrix_has_every_generator_and_format(self):
        generators, formats = self.datagen("list").split("formats\n")
        self.assertEqual(set(re.findall(r"^  (\S+)", generators, re.M)), set(GENERATORS))
        self.assertEqual(set(re.findall(r"^  (\S+)", formats, re.M)), set(FORMATS))

    def test_every_generator_in_every_second_format(self):
        victims, killed = itertools.cycle(itertools.permutations(("worker", "coordinator", "driver"))), []
        for (generator, kind), workers in zip(every_second(), itertools.cycle((2, 1, 8))):
            with self.subTest(generator=generator, format=kind, workers=workers):
                digest = self.undisturbed(generator, kind)
                if digest is None:
                    continue
                out = self.path(f"{generator}-{kind}")
                dead = self.disturbed_twice(self.job(generator, kind), out, ("--workers", workers, "--troupe-cpus", 2),
                                      next(victims))
                killed += dead
                self.check(out, digest)
        self.assertEqual(set(killed), {"worker", "coordinator", "driver"})
        self.say_what_is_missing()

    def kill_at_work(self, node, out, running):
        """SIGKILL to all of a node, one of whose processes makes shards."""
        def makers():
            return (set(self.makers(out)) - {self.journal_holder(out)}) & set(self.children(node))

        self.until("the node is at work", makers, running)
        before = len(self.shards_there(out))
        self.until("some shards more", lambda: len(self.shards_there(out)) >= before + 3, running)
        self.kill_all(node)

    def test_a_node_of_two(self):
        """One of each format."""
        for generator, kind in (("trajectories", "minari"), ("option-prices", "parquet"), ("gpt-text", "jsonl"),
                                ("mm1-queue", "safetensors"), ("scenes", "webdataset")):
            with self.subTest(generator=generator, format=kind):
                shards = 4 * SHARDS  # so that the second node has begun before all are made
                digest = self.undisturbed(generator, kind, shards)
                if digest is None:
                    continue
                head, second = self.two_nodes()
                out = self.path(f"{generator}-{kind}")
                with self.start("run", *self.job(generator, kind, shards), "--out", out, "--troupe-address",
                                head["address"]) as running:
                    self.kill_at_work(second["pid"], out, running)
                    said = "".join(running.communicate(timeout=100))
                self.assertEqual(running.returncode, 0, said)
                self.stop()
                self.check(out, digest)
        self.say_what_is_missing()


class WholeTest(MatrixCase):
    """Every generator in every format, by 1, 2 and 8 workers, on one and on two nodes."""

    def whole(self, generator):
        victims, killed = itertools.cycle(itertools.permutations(("worker", "coordinator", "driver"))), []
        for kind, nodes in itertools.product([f for g, f in pairs() if g == generator], (1, 2)):
            shards = nodes * SHARDS  # so that the second node has begun before all are made
            digest = self.undisturbed(generator, kind, shards)
            undisturbed = self.path(f"{generator}-{kind}-undisturbed")
            if digest is None:
                continue
            for workers in (1, 2, 8):
                with self.subTest(format=kind, nodes=nodes, workers=workers):
                    out, where, node = self.path(f"{kind}-{nodes}-{workers}"), ("--troupe-cpus", 2), None
                    dying = list(next(victims))
                    if nodes == 2:
                        head, second = self.two_nodes()
                        where, node = ("--troupe-address", head["address"]), second["pid"]
                        # One worker may never be there.
                        dying += ["node"] if workers > 1 else []
                    dead = self.disturbed_twice(self.job(generator, kind, shards), out, ("--workers", workers, *where),
                                          dying, node)
                    killed += dead
                    if nodes == 2:
                        self.stop()
                    self.check(out, digest, undisturbed)
                    shutil.rmtree(out)
            shutil.rmtree(undisturbed)
        self.say_what_is_missing()
        self.assertEqual(set(killed), {"worker", "coordinator", "driver", "node"})


for one in GENERATORS:
    setattr(WholeTest, f"test_{one.replace('-', '_')}", lambda self, one=one: self.whole(one))


class FullDiskTest(MatrixCase):
    def test_a_full_disk_between_kills(self):
        self.need_mounts()
        out, job = self.path("blobs-webdataset"), self.job("blobs", "webdataset")
        where = ("--workers", 2, "--troupe-cpus", 2)
        digest = self.undisturbed("blobs", "webdataset")
        os.mkdir(out)
        # Some ten of the shards fit.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", out], check=True)
        try:
            code, killed, said = self.run_with_kills(("run", *job, "--out", out, *where), out, ("worker", "driver"))
            self.assertEqual((code, killed), (-signal.SIGKILL, ["worker", "driver"]), said)
            self.until("nobody is left", lambda: not self.at_work(out))
            self.assertIn("No space left on device", self.datagen("resume", out, *where, code=1))
            subprocess.run(["mount", "-o", "remount,size=512m", out], check=True)
            dying = ("coordinator", "worker", "driver")
            code, killed, said = self.run_with_kills(("resume", out, *where), out, dying)
            self.assertEqual((code, killed), (-signal.SIGKILL, list(dying)), said)
            self.until("nobody is left", lambda: not self.at_work(out))
            self.datagen("resume", out, *where)
            self.check(out, digest)
        finally:
            subprocess.run(["umount", "-l", out], check=True)


if __name__ == "__main__":
    ProgramCase.PROGRAM, ProgramCase.TROUPE = sys.argv[1], sys.argv[2]
    sys.exit(run_tests(sys.argv[3:]))
