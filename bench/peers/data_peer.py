"""The peers of bench/datagen_rows.py: pyarrow and Ray Data write the table of `tabular` made in numpy, webdataset
writes tars of samples of 64 KiB, Minari collects CartPole. As a program it is run by a Python that has PACKAGES, which
python() makes; it measures one row once, so that datagen_rows.py can run it in turns with ours.

As much is written as by ours, but by Minari, and with our writer properties: no dictionary, zstd of level 1,
statistics, row groups of 131,072 rows. Numbers are drawn in the way that is the fastest in numpy. Start-up is excluded,
generation is included. Files are synced by pyarrow and webdataset, as ours are; by Ray Data and Minari they are not.
Prints {"peer": ..., "row": ..., "value": ...}.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import sys
import tempfile
import time

PACKAGES = ["pyarrow==26.0.1", "numpy==2.4.6", "webdataset==1.0.2", "ray[data]==2.60.0", "minari[create]==0.5.4",
            "gymnasium==1.4.0", "h5py==3.16.0", "pillow==13.0.0", "torch==2.15.0"]
MEMORY = "/dev/shm"
DISK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build")  # as for our rows
COLUMNS, CLUSTERS, CLASSES = 64, 8, 4
ROW_BYTES = 4 * (COLUMNS + 2)
ROW_GROUP, COMPRESSION, LEVEL = 131_072, "zstd", 1
GIB = 1 << 30


def tabular(rng, centres, rows):
    """A batch as ours: noise of two halves of a word around a centre, column by column."""
    import numpy as np
    cluster = rng.integers(0, CLUSTERS, rows, dtype=np.int32)
    out = {}
    for column in range(COLUMNS):
        words = rng.integers(0, 1 << 32, rows, dtype=np.uint32)
        noise = ((words & 0xffff) + (words >> 16)).astype(np.float32)
        noise -= 65_535
        noise *= 6 ** 0.5 / 65_536
        noise += centres[cluster, column]
        out[f"f{column:02}"] = noise
    out["label"], out["cluster"] = cluster % CLASSES, cluster
    return out


def centres_of(seed):
    import numpy as np
    return np.random.default_rng(seed).uniform(-4, 4, (CLUSTERS, COLUMNS)).astype(np.float32)


def table_rows(quick):
    return (GIB // 8 if quick else 2 * GIB) // ROW_BYTES


def write_parquet(path, rows, seed):
    """A file by one thread, synced."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    rng, centres = np.random.Generator(np.random.SFC64(seed)), centres_of(0)
    schema = pa.table(tabular(rng, centres, 1)).schema
    with pq.ParquetWriter(path, schema, compression=COMPRESSION, compression_level=LEVEL, use_dictionary=False,
                          write_statistics=True) as writer:
        for begin in range(0, rows, ROW_GROUP):
            table = pa.table(tabular(rng, centres, min(ROW_GROUP, rows - begin)), schema=schema)
            writer.write_table(table, row_group_size=ROW_GROUP)
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def pyarrow_in(where, quick, threads=1):
    """GB of columns a second, one process. Its writer has one thread; several write a file each, since numpy and Arrow
    let go of the interpreter's lock."""
    rows = table_rows(quick) // threads
    with tempfile.TemporaryDirectory(prefix="troupe-bench-", dir=where) as folder:
        write_parquet(os.path.join(folder, "warm"), 1000, 0)
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(write_parquet, os.path.join(folder, f"part-{i}"), rows, i + 1)
                         for i in range(threads)]:
                done.result()
        return threads * rows * ROW_BYTES / (time.perf_counter() - start) / 1e9


def pyarrow(quick):
    return pyarrow_in(MEMORY, quick)


def pyarrow_threads(quick):
    return pyarrow_in(MEMORY, quick, threads=2)


def pyarrow_disk(quick):
    return pyarrow_in(DISK, quick)


def pyarrow_threads_disk(quick):
    return pyarrow_in(DISK, quick, threads=2)


def ray_data(quick):
    """GB of columns a second, all cores. Other sizes of blocks and batches are as fast."""
    import numpy as np
    import ray
    rows, centres = table_rows(quick), centres_of(0)
    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False

    def generate(batch):
        rng = np.random.Generator(np.random.SFC64(int(batch["id"][0])))
        return tabular(rng, centres, len(batch["id"]))

    def write(count, folder):
        data = ray.data.range(count, override_num_blocks=8).map_batches(generate, batch_size=ROW_GROUP)
        data.write_parquet(folder, compression=COMPRESSION, compression_level=LEVEL, use_dictionary=False,
                           row_group_size=ROW_GROUP)

    try:
        with tempfile.TemporaryDirectory(prefix="troupe-bench-", dir=MEMORY) as folder:
            write(1000, os.path.join(folder, "warm"))  # its workers are there now
            start = time.perf_counter()
            write(rows, os.path.join(folder, "set"))
            return rows * ROW_BYTES / (time.perf_counter() - start) / 1e9
    finally:
        ray.shutdown()


def webdataset_in(where, quick):
    """GB a second, one process."""
    import numpy as np
    import webdataset as wds
    samples, draws = (2 if quick else 32) * 1024, np.random.SFC64(1)
    with tempfile.TemporaryDirectory(prefix="troupe-bench-", dir=where) as folder:
        start = time.perf_counter()
        for shard in range(0, samples, 2048):
            path = os.path.join(folder, f"part-{shard:06}.tar")
            with wds.TarWriter(path) as writer:
                for i in range(shard, shard + 2048):
                    # Three times as fast as Generator.bytes.
                    writer.write({"__key__": f"{i:09}", "bin": draws.random_raw(8192).tobytes(), "cls": i % 1000})
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        return samples * 65_536 / (time.perf_counter() - start) / 1e9


def webdataset(quick):
    return webdataset_in(MEMORY, quick)


def webdataset_disk(quick):
    return webdataset_in(DISK, quick)


def minari(quick):
    """Steps a second of sixteen environments (more, or fewer, are slower), each in a DataCollector, with a policy of
    torch; data sets written."""
    os.environ["MINARI_DATASETS_PATH"] = folder = tempfile.mkdtemp(prefix="troupe-bench-", dir=MEMORY)
    import gymnasium
    import minari as library
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    # As large as our expert's. A pole is held up by the sign of where it falls to: its last layer says so.
    policy = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
                                 torch.nn.Linear(64, 2))
    weights = torch.tensor([0.1, 0.5, 1.0, 1.0])
    collectors = []

    def make():
        collectors.append(library.DataCollector(gymnasium.make("CartPole-v1", disable_env_checker=True)))
        return collectors[-1]

    try:
        envs = gymnasium.vector.SyncVectorEnv([make] * 16)
        steps = 500 if quick else 4_000
        start = time.perf_counter()
        obs, _ = envs.reset(seed=1)
        with torch.inference_mode():
            for _ in range(steps):
                seen = torch.from_numpy(obs)
                logits = 0 * policy(seen)
                logits[:, 1] += seen @ weights
                obs, _, _, _, _ = envs.step(logits.argmax(1).numpy())
        for i, collector in enumerate(collectors):
            collector.create_dataset(f"cartpole/peer{i}-v0", algorithm_name="expert", code_permalink="none",
                                     author="none", author_email="none")
        rate = steps * len(collectors) / (time.perf_counter() - start)
        envs.close()
        return rate
    finally:
        shutil.rmtree(folder)


ROWS = [("pyarrow", "datagen/parquet", pyarrow), ("pyarrow, 2 threads", "datagen/parquet", pyarrow_threads),
        ("Ray Data", "datagen/parquet", ray_data), ("pyarrow", "datagen/parquet_disk", pyarrow_disk),
        ("pyarrow, 2 threads", "datagen/parquet_disk", pyarrow_threads_disk),
        ("webdataset", "datagen/webdataset", webdataset),
        ("webdataset", "datagen/webdataset_disk", webdataset_disk), ("Minari", "datagen/trajectories", minari)]


def python(folder, say):
    """One that has PACKAGES, or None: it could not be had."""
    import common
    venv = common.install_venv(os.path.join(folder, "data"), PACKAGES, say)
    return os.path.join(venv, "bin", "python") if venv else None


def measure(interpreter, row, quick, say):
    """{peer: value} of one run each; less where one failed."""
    import common
    out = {}
    for peer, of, _ in ROWS:
        if of != row:
            continue
        command = [interpreter, os.path.abspath(__file__), "--row", row, "--peer", peer]
        for line in common.run_rows(command + (["--quick"] if quick else []), say, peer, timeout=600,
                                    PYTHONWARNINGS="ignore"):
            out[peer] = line["value"]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--peer", required=True, choices=sorted({peer for peer, _, _ in ROWS}))
    parser.add_argument("--row", required=True, choices=sorted({row for _, row, _ in ROWS}))
    parser.add_argument("--quick", action="store_true")
    wish = parser.parse_args()
    for peer, row, run in ROWS:
        if (wish.peer, wish.row) == (peer, row):
            print(json.dumps({"peer": peer, "row": row, "value": run(wish.quick)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
