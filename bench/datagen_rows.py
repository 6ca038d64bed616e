"""Data sets by `datagen run`, two workers: columns of Parquet and bytes of WebDataset a second, steps of CartPole a
second, what a shard costs beside its samples, and how long it takes to go on with a hundred thousand shards.

Start-up of the cluster is excluded, generation is included; what is written is synced. Each row is measured three
times, and with --peers after each of them its peers: the row has the medians of both. Prints
rows as the other measures do, then all single values.
"""
import argparse
import glob
import json
import multiprocessing
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import data_peer  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MEMORY, DISK = "/dev/shm", os.path.join(ROOT, "build")
FLOAT_COLUMNS = 64
ROW_BYTES = 4 * (FLOAT_COLUMNS + 2)  # with label and cluster
BLOB_BYTES = 65_536
GIB = 1 << 30


class Bench:
    def __init__(self, wish):
        self.program, self.rl, self.quick, self.peers = wish.program, wish.rl, wish.quick, wish.peers
        self.runs = 1 if wish.quick else 3
        self.peer_values = {}  # of rows, of peers

    def run(self, out, *arguments, workers=2):
        """What result.json says of it."""
        command = [self.program, "run", "--out", out, "--workers", str(workers), *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=900,
                              check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
        with open(os.path.join(out, "result.json"), encoding="utf-8") as file:
            return json.load(file)

    def times(self, where, measure, row=None):
        """`measure` of a fresh folder, three times, once for a look; in turns with the peers of `row`."""
        seen = []
        for _ in range(self.runs):
            with tempfile.TemporaryDirectory(prefix="troupe-bench-", dir=where) as folder:
                seen.append(measure(folder))
            if row and self.peers:
                found = data_peer.measure(self.peers, row, self.quick, say)
                for peer, value in found.items():
                    self.peer_values.setdefault(row, {}).setdefault(peer, []).append(value)
        return seen


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def table_rows(quick):
    return (GIB // 4 if quick else 2 * GIB) // ROW_BYTES


def parquet(bench, where, row):
    """GB of columns a second."""
    rows = table_rows(bench.quick)

    def measure(folder):
        result = bench.run(os.path.join(folder, "set"), "--generator", "tabular", "--columns", FLOAT_COLUMNS,
                           "--format", "parquet", "--samples", rows, "--samples-per-shard", -(-rows // 16))
        return result["rows_per_second"] * ROW_BYTES / 1e9

    return [bench.times(where, measure, row)]


def copy_rate(folder, size):
    """GB/s of one process that copies as many bytes, from memory, and syncs them."""
    with tempfile.NamedTemporaryFile(prefix="troupe-bench-", dir=MEMORY) as source:
        block = os.urandom(1 << 20)
        for _ in range(size >> 20):
            source.write(block)
        source.flush()
        start = time.monotonic()
        subprocess.run(["dd", f"if={source.name}", f"of={os.path.join(folder, 'copy')}", "bs=4M", "conv=fsync",
                        "status=none"], check=True)
        seconds = time.monotonic() - start
    os.unlink(os.path.join(folder, "copy"))
    return (size >> 20 << 20) / seconds / 1e9


def tars_of(bench):
    return GIB // 4 if bench.quick else 2 * GIB


def tar_rate(bench, folder):
    """GB of samples a second, without what a tar adds; the tars are removed."""
    out = os.path.join(folder, "set")
    result = bench.run(out, "--generator", "blobs", "--bytes", BLOB_BYTES, "--format", "webdataset", "--samples",
                       tars_of(bench) // BLOB_BYTES, "--samples-per-shard", 2048)
    shutil.rmtree(out)
    return result["rows_per_second"] * BLOB_BYTES / 1e9


def webdataset(bench):
    return [bench.times(MEMORY, lambda folder: tar_rate(bench, folder), "datagen/webdataset")]


def webdataset_disk(bench):
    size = tars_of(bench)

    def measure(folder):
        before = copy_rate(folder, size)
        rate = tar_rate(bench, folder)
        return rate, rate / ((before + copy_rate(folder, size)) / 2)

    seen = bench.times(DISK, measure, "datagen/webdataset_disk")
    return [rate for rate, _ in seen], [over for _, over in seen]


def policy_in(bench, folder):
    """An expert of CartPole: a few seconds of training."""
    subprocess.run([bench.rl, "train", "--preset", "ppo-cartpole", "--out", folder, "--no-tensorboard"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
    return os.path.join(folder, "policy.bin")


def trajectories(bench):
    with tempfile.TemporaryDirectory(prefix="troupe-bench-") as training:
        policy = policy_in(bench, training)

        def measure(folder):
            result = bench.run(os.path.join(folder, "set"), "--generator", "trajectories", "--policy", policy,
                               "--format", "parquet", "--samples", 2_000 if bench.quick else 60_000,
                               "--samples-per-shard", 250 if bench.quick else 1_000)
            return result["rows_per_second"]

        return [bench.times(MEMORY, measure, "datagen/trajectories"), bench.times(DISK, measure)]


def tiny_shards(bench, folder, count):
    """Seconds a shard of one sample of eight bytes."""
    result = bench.run(folder, "--generator", "blobs", "--bytes", 8, "--format", "safetensors", "--samples", count,
                       "--samples-per-shard", 1)
    return result["seconds"] / count


def bare(folder, names):
    """A file each that is written, synced and renamed."""
    for name in names:
        aside = os.path.join(folder, f".{name}.tmp")
        file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(file, b"x" * 256)
        os.fsync(file)
        os.close(file)
        os.rename(aside, os.path.join(folder, str(name)))


def bare_seconds(folder, count, processes):
    """Seconds for one of `count` such files, by so many processes at a time."""
    with tempfile.TemporaryDirectory(prefix="bare-", dir=folder) as where:
        workers = [multiprocessing.Process(target=bare, args=(where, range(count)[i::processes]))
                   for i in range(processes)]
        start = time.monotonic()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds = time.monotonic() - start
        if any(worker.exitcode for worker in workers):
            raise RuntimeError("a bare write failed")
        return seconds / count


def shard_overhead(bench):
    count = 1_000 if bench.quick else 20_000
    seen = bench.times(MEMORY, lambda folder: tiny_shards(bench, os.path.join(folder, "set"), count))
    return [[1e6 * one for one in seen]]


def shard_overhead_disk(bench):
    """Microseconds, and over what one and two processes need for the same files without us, before and after."""
    count = 200 if bench.quick else 2_000

    def measure(folder):
        before = [bare_seconds(folder, count, processes) for processes in (1, 2)]
        ours = tiny_shards(bench, os.path.join(folder, "set"), count)
        after = [bare_seconds(folder, count, processes) for processes in (1, 2)]
        return 1e6 * ours, *(2 * ours / (b + a) for b, a in zip(before, after))

    return list(zip(*bench.times(DISK, measure)))


def resume(bench):
    """Seconds of the whole process, with 100,000 shards in the manifest and the last one missing."""
    count = 2_000 if bench.quick else 100_000
    with tempfile.TemporaryDirectory(prefix="troupe-bench-", dir=MEMORY) as folder:
        out = os.path.join(folder, "set")
        tiny_shards(bench, out, count)
        whole = read_manifest(bench, out)
        seen = []
        for _ in range(bench.runs):
            drop_last_record(out)
            start = time.monotonic()
            subprocess.run([bench.program, "resume", out], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=300)
            seen.append(time.monotonic() - start)
            if read_manifest(bench, out) != whole:
                raise RuntimeError("the digest after resume is another")
        return [seen]


def read_manifest(bench, out):
    done = subprocess.run([bench.program, "show", out, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["digest"]


def drop_last_record(out):
    """Of the manifest: its last bytes are torn off, as a crash does it."""
    newest = max(glob.glob(os.path.join(out, "manifest", "*.log")))  # of the greatest epoch
    os.truncate(newest, os.path.getsize(newest) - 1)


# What is measured together, and the rows that it gives.
MEASURES = [
    (["datagen/parquet"], lambda bench: parquet(bench, MEMORY, "datagen/parquet")),
    (["datagen/parquet_disk"], lambda bench: parquet(bench, DISK, "datagen/parquet_disk")),
    (["datagen/webdataset"], webdataset),
    (["datagen/webdataset_disk", "datagen/webdataset_over_copy"], webdataset_disk),
    (["datagen/trajectories", "datagen/trajectories_disk"], trajectories),
    (["datagen/shard_overhead_us"], shard_overhead),
    (["datagen/shard_overhead_disk_us", "datagen/shard_overhead_disk_over_bare",
      "datagen/shard_overhead_disk_over_two_bare"], shard_overhead_disk),
    (["datagen/resume_s"], resume),
]


def single_values(row, who, values):
    return f"{row:42s} {who:18s} " + " ".join(f"{value:10.4g}" for value in values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", required=True, help="datagen")
    parser.add_argument("--rl", required=True, help="rl, which trains the expert")
    parser.add_argument("--peers", metavar="PYTHON", help="one that has their packages (peers/data_peer.py)")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    wish = parser.parse_args()
    bench, code, singles = Bench(wish), 0, []
    for rows, measure in MEASURES:
        if not any(re.search(wish.only, row) for row in rows):
            continue
        try:
            seen_by_row = dict(zip(rows, measure(bench)))
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            print(f"{rows[0]}: {error}", file=sys.stderr, flush=True)
            code = 1
            continue
        for row, seen in seen_by_row.items():
            fields = {"row": row, "value": statistics.median(seen),
                      "spread": statistics.stdev(seen) if len(seen) > 1 else 0}
            peers = bench.peer_values.get(row, {})
            if peers:
                fields["peers"] = {peer: statistics.median(values) for peer, values in peers.items()}
            singles += [single_values(row, who, values) for who, values in [("Troupe", seen), *peers.items()]]
            print(json.dumps(fields) if wish.json else f"{row:40s} {fields['value']:14.5g}  +- {fields['spread']:.2g}",
                  flush=True)
    print("\n".join(["# row, who, each run", *singles]))
    return code


if __name__ == "__main__":
    sys.exit(main())
