"""The peers of bench/datagen_rows.py: pyarrow and Ray Data write the table of `tabular` made in numpy, webdataset
writes tars of samples of 64 KiB, Minari collects CartPole. As a program it is run by a Python that has PACKAGES;
measure() makes one.

Writer properties are ours: no dictionary, zstd of level 1, row groups of 131,072 rows. Start-up is excluded, generation
is included; each runs three times, and the fastest counts. Prints {"peer": ..., "row": ..., "value": ...} a line.
"""
import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time

PACKAGES = ["pyarrow==26.0.1", "numpy==2.4.6", "webdataset==1.0.2", "ray[data]==2.60.0", "minari[create]==0.5.4",
            "gymnasium==1.4.0", "h5py==3.16.0", "pillow==13.0.0", "torch==2.15.0"]
MEMORY = "/dev/shm"
DISK = os.path.dirname(os.path.abspath(__file__))  # as for our rows: that of the checkout
COLUMNS, CLUSTERS, CLASSES = 64, 8, 4
ROW_BYTES = 4 * (COLUMNS + 2)
ROW_GROUP, COMPRESSION, LEVEL = 131_072, "zstd", 1
GIB = 1 << 30


def tabular(rng, centres, rows):
    """A batch: triangular noise around a centre, column by column."""
    import numpy as np
    cluster = rng.integers(0, CLUSTERS, rows, dtype=np.int32)
    out = {}
    for column in range(COLUMNS):
        noise = rng.random(rows, dtype=np.float32)
        noise += rng.random(rows, dtype=np.float32)
        noise -= 1
        noise *= 6 ** 0.5
        noise += centres[cluster, column]
        out[f"f{column:02}"] = noise
    out["label"], out["cluster"] = cluster % CLASSES, cluster
    return out


def centres_of(seed):
    import numpy as np
    return np.random.default_rng(seed).uniform(-4, 4, (CLUSTERS, COLUMNS)).astype(np.float32)


def pyarrow(quick):
    """GB of columns a second, one process."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    rows, batch = (GIB // 8 if quick else 2 * GIB) // ROW_BYTES, ROW_GROUP
    rng, centres = np.random.Generator(np.random.SFC64(1)), centres_of(0)
    schema = pa.table(tabular(rng, centres, 1)).schema
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        start = time.perf_counter()
        with pq.ParquetWriter(os.path.join(folder, "part"), schema, compression=COMPRESSION, compression_level=LEVEL,
                              use_dictionary=False, write_statistics=True) as writer:
            for begin in range(0, rows, batch):
                table = pa.table(tabular(rng, centres, min(batch, rows - begin)), schema=schema)
                writer.write_table(table, row_group_size=ROW_GROUP)
        with open(os.path.join(folder, "part"), "rb") as file:
            os.fsync(file.fileno())
        return rows * ROW_BYTES / (time.perf_counter() - start) / 1e9


def ray_data(quick):
    """GB of columns a second, all cores."""
    import numpy as np
    import ray
    rows = (GIB // 16 if quick else GIB // 2) // ROW_BYTES
    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False

    def generate(batch):
        rng = np.random.Generator(np.random.SFC64(int(batch["id"][0])))
        return tabular(rng, centres_of(0), len(batch["id"]))

    def write(count, folder):
        data = ray.data.range(count, override_num_blocks=8).map_batches(generate, batch_size=ROW_GROUP)
        data.write_parquet(folder, compression=COMPRESSION, compression_level=LEVEL, use_dictionary=False)

    try:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
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
    samples, rng = (2_048 if quick else 16_384), np.random.Generator(np.random.SFC64(1))
    with tempfile.TemporaryDirectory(dir=where) as folder:
        start = time.perf_counter()
        for shard in range(0, samples, 2048):
            path = os.path.join(folder, f"part-{shard:06}.tar")
            with wds.TarWriter(path) as writer:
                for i in range(shard, min(samples, shard + 2048)):
                    writer.write({"__key__": f"{i:09}", "bin": rng.bytes(65_536), "cls": i % 1000})
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        return samples * 65_536 / (time.perf_counter() - start) / 1e9


def webdataset(quick):
    return webdataset_in(MEMORY, quick)


def webdataset_disk(quick):
    return webdataset_in(DISK, quick)


def minari(quick):
    """Steps a second of sixteen environments, each in a DataCollector, with a policy of torch; data sets written."""
    os.environ["MINARI_DATASETS_PATH"] = folder = tempfile.mkdtemp(dir=MEMORY)
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
        collectors.append(library.DataCollector(gymnasium.make("CartPole-v1")))
        return collectors[-1]

    try:
        envs = gymnasium.vector.SyncVectorEnv([make] * 16)
        steps = 500 if quick else 4_000
        start = time.perf_counter()
        obs, _ = envs.reset(seed=1)
        with torch.no_grad():
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


ROWS = [("pyarrow", "datagen/parquet", pyarrow), ("Ray Data", "datagen/parquet", ray_data),
        ("webdataset", "datagen/webdataset", webdataset),
        ("webdataset", "datagen/webdataset_disk", webdataset_disk), ("Minari", "datagen/trajectories", minari)]


def measure(folder, only, quick, say):
    """{peer: {row: value}}; less where it could not be had."""
    import common
    venv = common.install_venv(os.path.join(folder, "data"), PACKAGES, say)
    if venv is None:
        return {}
    say("pyarrow, Ray Data, webdataset, Minari")
    out = {}
    for peer, row, _ in ROWS:
        if not re.search(only, row):
            continue
        command = [os.path.join(venv, "bin", "python"), os.path.abspath(__file__), "--row", row, "--peer", peer]
        for _ in range(1 if quick else 3):
            for line in common.run_rows(command + (["--quick"] if quick else []), say, peer, timeout=900,
                                        PYTHONWARNINGS="ignore"):
                rows = out.setdefault(peer, {})
                rows[row] = max(rows.get(row, 0), line["value"])
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--peer", default="", choices=sorted({"", *(peer for peer, _, _ in ROWS)}))
    parser.add_argument("--row", default="")
    parser.add_argument("--quick", action="store_true")
    wish = parser.parse_args()
    for peer, row, run in ROWS:
        if wish.peer in ("", peer) and wish.row in ("", row):
            print(json.dumps({"peer": peer, "row": row, "value": run(wish.quick)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
