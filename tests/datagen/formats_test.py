"""Every format, read back by its original and compared with the known tables (known_tables.cc), value by value.

formats_test.py DRIVER PYTHON: PYTHON has pyarrow, minari, webdataset, safetensors, zstandard, numpy and Pillow
(cmake/install-deps data). Without it the test is skipped; under TROUPE_REQUIRE_DATA it fails. A format whose
library the build has not is skipped in the same way.
"""
import hashlib
import io
import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

DRIVER = None
SHARDS, OF_A_SHARD = 3, 7
SAMPLES = SHARDS * OF_A_SHARD
NAMES = ["flag", "small", "count", "big", "x", "y", "vector", "matrix", "mask", "picture", "label", "caption", "boxes",
         "blob"]


def known_row(i):
    import numpy as np
    special = [np.float32(0.1), np.float32(-0.0), np.float32(1.401298464324817e-45), np.finfo(np.float32).max,
               np.float32(-np.inf), np.float32(np.nan)]
    return {
        "flag": i % 3 == 0,
        "small": i * 37 % 256,
        "count": i * 1000 - 5,
        "big": 1 << (i % 63),
        "x": special[i] if i < 6 else np.float32(i) / np.float32(3),
        "y": None if i % 4 == 1 else 1.0 / (i + 3),
        "vector": None if i % 5 == 2 else (np.float32(i) + np.arange(3, dtype=np.float32) * np.float32(0.25)),
        "matrix": (10 * i + np.arange(6)).reshape(2, 3),
        "mask": np.array([(i + k) % 2 == 0 for k in range(5)]),
        "picture": ((i * 61 + np.arange(60) * 7) % 256).astype(np.uint8).reshape(4, 5, 3),
        "label": i % 10,
        "caption": None if i % 6 == 5 else f'caption {i} "é"\n\t\\ 漢字',
        "boxes": f'[{{"x": {i}.5}},\n {i}]',
        "blob": bytes((k * 31 + i) % 256 for k in range(i)),
    }


def known_episode(episode):
    import numpy as np
    steps = episode % 3 + 1
    numbers = [[episode * 100 + t * 10 + k for k in range(4)] for t in range(steps + 1)]
    obs = np.array(numbers, np.float32) / np.float32(7)
    last = np.arange(steps) == steps - 1
    return {
        "obs": obs,
        "action": np.array([(episode + t) % 2 for t in range(steps)]),
        "reward": np.array([0.1 * float(t + 1) + float(episode) for t in range(steps)]),
        "terminated": last & (episode % 2 == 0),
        "truncated": last & (episode % 2 == 1),
        "logp": None if episode % 3 == 1 else np.float32(-0.5) * np.arange(1, steps + 1, dtype=np.float32),
    }


def files_below(folder):
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(where, name), "rb") as file:
                found[os.path.relpath(file.name, folder)] = file.read()
    return found


class FormatsTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="formats-")
        self.addCleanup(self.temporary.cleanup)

    def write(self, kind, table, *settings, name="set-v0"):
        """Twice, by two processes: the same bytes (FMT-1)."""
        written = []
        for attempt in ("first", "second"):
            out = os.path.join(self.temporary.name, attempt, name)
            done = subprocess.run([DRIVER, kind, table, out, *settings], capture_output=True, text=True, timeout=60)
            if done.returncode == 77 and not os.environ.get("TROUPE_REQUIRE_DATA"):
                self.skipTest(done.stderr)
            self.assertEqual(done.returncode, 0, done.stderr)
            written.append({name: hashlib.sha256(data).hexdigest() for name, data in files_below(out).items()})
        self.assertEqual(written[0], written[1])
        return out

    def check_value(self, found, wanted, what):
        """The same value, to the bit where it is a number."""
        import numpy as np
        if wanted is None:
            self.assertIsNone(found, what)
        elif isinstance(wanted, np.ndarray):
            np.testing.assert_array_equal(np.asarray(found), wanted, str(what))
        elif isinstance(wanted, np.float32):
            self.assertEqual(np.float32(found).tobytes().hex() if not math.isnan(wanted) else math.isnan(found),
                             wanted.tobytes().hex() if not math.isnan(wanted) else True, what)
        else:
            self.assertEqual(found, wanted, what)

    def check_json_row(self, found, i):
        import base64
        self.assertEqual(list(found), NAMES)
        for key, wanted in known_row(i).items():
            value = found[key]
            if key == "blob":
                value = base64.b64decode(value)
            if key == "boxes":
                wanted = json.loads(wanted)
            self.check_value(value, wanted, (i, key))

    def test_jsonl_by_json(self):
        out = self.write("jsonl", "rows")
        rows = []
        for shard in range(SHARDS):
            with open(f"{out}/data/part-{shard:05}-of-{SHARDS:05}.jsonl", encoding="utf-8") as file:
                rows += [json.loads(line) for line in file]
        self.assertEqual(len(rows), SAMPLES)
        for i, row in enumerate(rows):
            self.check_json_row(row, i)

    def test_jsonl_zst_by_zstandard(self):
        import zstandard
        out = self.write("jsonl", "rows", "compression=zstd", "compression_level=7")
        rows = []
        for shard in range(SHARDS):
            with open(f"{out}/data/part-{shard:05}-of-{SHARDS:05}.jsonl.zst", "rb") as file:
                text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
            rows += [json.loads(line) for line in text.splitlines()]
        self.assertEqual(len(rows), SAMPLES)
        for i, row in enumerate(rows):
            self.check_json_row(row, i)

    def test_safetensors_by_safetensors(self):
        import numpy as np
        from safetensors import safe_open
        out = self.write("safetensors", "rows")
        for shard in range(SHARDS):
            with safe_open(f"{out}/data/part-{shard:05}-of-{SHARDS:05}.safetensors", "np") as file:
                self.assertEqual(file.metadata(), {"made_by": "a test", "words": 'é "quoted"'})
                arrays = {key: file.get_tensor(key) for key in file.keys()}
            self.assertEqual(set(arrays), {*NAMES, "y.valid", "vector.valid", "caption.valid", "caption.offsets",
                                           "boxes.offsets", "blob.offsets", "sample_ends"})
            np.testing.assert_array_equal(arrays["sample_ends"], np.arange(1, OF_A_SHARD + 1))
            types = {"flag": "bool", "small": "uint8", "count": "int32", "big": "int64", "x": "float32", "y": "float64"}
            for key, dtype in types.items():
                self.assertEqual(str(arrays[key].dtype), dtype)
            for row in range(OF_A_SHARD):
                i = shard * OF_A_SHARD + row
                for key, wanted in known_row(i).items():
                    if f"{key}.valid" in arrays:
                        self.assertEqual(bool(arrays[f"{key}.valid"][row]), wanted is not None)
                        if wanted is None and f"{key}.offsets" not in arrays:
                            self.assertFalse(arrays[key][row].any())
                            continue
                    if f"{key}.offsets" in arrays:
                        begin, end = arrays[f"{key}.offsets"][row:row + 2]
                        found = arrays[key][begin:end].tobytes()
                        wanted = b"" if wanted is None else wanted.encode() if isinstance(wanted, str) else wanted
                        self.assertEqual(found, wanted, (i, key))
                    else:
                        self.check_value(arrays[key][row], wanted, (i, key))

    def check_sample(self, sample, i):
        import numpy as np
        from PIL import Image
        known = known_row(i)
        self.assertEqual(sample["__key__"], f"{i:09}")
        numbers = json.loads(sample["numbers.json"])
        self.assertEqual(list(numbers), ["flag", "small", "count", "big", "x", "y"])
        for key, value in numbers.items():
            self.check_value(value, known[key], (i, key))
        self.assertEqual(int(sample["cls"]), known["label"])
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(sample["png"]))), known["picture"])
        self.assertEqual(sample.get("txt"), known["caption"] and known["caption"].encode())
        self.assertEqual(json.loads(sample["boxes.json"]), json.loads(known["boxes"]))
        self.assertEqual(sample["bin"], known["blob"])
        for key in ("vector", "matrix", "mask"):
            member = sample.get(f"{key}.npy")
            if known[key] is None:
                self.assertIsNone(member)
            else:
                found = np.load(io.BytesIO(member))
                self.assertEqual(found.dtype, known[key].dtype)
                np.testing.assert_array_equal(found, known[key])

    def test_webdataset_by_webdataset(self):
        import webdataset
        out = self.write("webdataset", "rows")
        paths = [f"{out}/data/shard-{shard:05}-of-{SHARDS:05}.tar" for shard in range(SHARDS)]
        samples = list(webdataset.WebDataset(paths, shardshuffle=False))
        self.assertEqual(len(samples), SAMPLES)
        for i, sample in enumerate(samples):
            self.check_sample(sample, i)
        with tarfile.open(paths[0]) as tar:
            names = tar.getnames()
            for member in tar:
                self.assertEqual((member.mtime, member.uid, member.gid, member.mode), (0, 0, 0, 0o644))
        self.assertEqual(names, sorted(names))

    def test_webdataset_decodes_by_the_names_of_files(self):
        import numpy as np
        import webdataset
        out = self.write("webdataset", "rows")
        dataset = webdataset.WebDataset([f"{out}/data/shard-00001-of-00003.tar"], shardshuffle=False).decode("rgb8")
        sample = next(iter(dataset))
        self.assertEqual(sample["cls"], 7)
        np.testing.assert_array_equal(sample["matrix.npy"], known_row(7)["matrix"])
        np.testing.assert_array_equal(sample["png"], known_row(7)["picture"])

    def test_steps_of_episodes_are_samples_of_a_webdataset(self):
        import webdataset
        out = self.write("webdataset", "episodes")
        samples = list(webdataset.WebDataset([f"{out}/data/shard-00000-of-00003.tar"], shardshuffle=False))
        self.assertEqual([sample["__key__"] for sample in samples[:4]],
                         ["000000000", "000000001-000000", "000000001-000001", "000000002-000000"])

    def test_parquet_by_pyarrow(self):
        import numpy as np
        import pyarrow.parquet
        out = self.write("parquet", "rows", "row_group_rows=5")
        for shard in range(SHARDS):
            path = f"{out}/data/part-{shard:05}-of-{SHARDS:05}.parquet"
            facts = pyarrow.parquet.ParquetFile(path).metadata
            self.assertEqual((facts.num_rows, facts.num_row_groups), (OF_A_SHARD, 2))
            self.assertEqual(facts.created_by, "troupe-datagen version 1")
            self.assertEqual(facts.row_group(0).column(0).compression, "ZSTD")
            self.assertNotIn("RLE_DICTIONARY", facts.row_group(0).column(4).encodings)
            table = pyarrow.parquet.read_table(path)
            self.assertEqual(table.schema.names, NAMES)
            words = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
            self.assertEqual(words, {"made_by": "a test", "words": 'é "quoted"'})
            self.assertEqual(table.schema.field("x").type, pyarrow.float32())
            self.assertEqual([table.schema.field(n).nullable for n in ("x", "y")], [False, True])
            tensors = {name: table[name].combine_chunks().to_numpy_ndarray() for name in ("matrix", "picture")}
            for row in range(OF_A_SHARD):
                i = shard * OF_A_SHARD + row
                for key, wanted in known_row(i).items():
                    found = tensors[key][row] if key in tensors else table[key][row].as_py()
                    if isinstance(wanted, np.ndarray) and found is not None:
                        found = np.asarray(found, wanted.dtype)
                    self.check_value(found, wanted, (i, key))

    def test_parquet_of_other_properties(self):
        import pyarrow.parquet
        for compression in ("none", "snappy", "lz4"):
            out = self.write("parquet", "episodes", f"compression={compression}", "dictionary=true", "statistics=false",
                             name=compression)
            facts = pyarrow.parquet.ParquetFile(f"{out}/data/part-00000-of-00003.parquet").metadata
            column = facts.row_group(0).column(0)
            self.assertEqual(column.compression, {"none": "UNCOMPRESSED"}.get(compression, compression.upper()))
            self.assertIn("RLE_DICTIONARY", column.encodings)
            self.assertFalse(column.is_stats_set)

    def test_episodes_in_parquet(self):
        import numpy as np
        import pyarrow.parquet
        out = self.write("parquet", "episodes")
        table = pyarrow.parquet.read_table(f"{out}/data/part-00001-of-00003.parquet")
        self.assertEqual(json.loads(table.schema.metadata[b"env_spec"])["id"], "CartPole-v1")
        self.assertEqual(table.schema.metadata[b"policy_sha256"], b"00ff")
        rows, row = table.to_pylist(), 0
        for episode in range(OF_A_SHARD, 2 * OF_A_SHARD):
            known = known_episode(episode)
            for t in range(len(known["action"])):
                found = rows[row]
                self.assertEqual((found["episode_id"], found["t"], found["seed"]), (episode, t, 1000 + episode))
                np.testing.assert_array_equal(np.float32(found["obs"]), known["obs"][t])
                last = t + 1 == len(known["action"])
                self.assertEqual(found["final_obs"] is not None, last)
                if last:
                    np.testing.assert_array_equal(np.float32(found["final_obs"]), known["obs"][t + 1])
                for key in ("action", "reward", "terminated", "truncated"):
                    self.assertEqual(found[key], known[key][t])
                self.assertEqual(found["logp"], None if known["logp"] is None else known["logp"][t])
                row += 1
        self.assertEqual(row, len(rows))

    def test_minari_by_minari(self):
        import numpy as np
        out = self.write("minari", "episodes", "algorithm_name=by hand", name="known/set-v0")
        self.assertEqual(sorted(files_below(out)), sorted(
            [f"data/shard-{i:05}-of-00003.hdf5" for i in range(3)] + ["data/main_data.hdf5", "data/metadata.json"]))
        os.environ["MINARI_DATASETS_PATH"] = os.path.dirname(os.path.dirname(out))
        import gymnasium
        import minari
        # The id is of the folder's last part; the folder above it is the namespace, which minari has from the path.
        dataset = minari.load_dataset("known/set-v0")
        self.assertEqual(dataset.spec.dataset_id, "set-v0")
        self.assertEqual((dataset.total_episodes, dataset.total_steps), (SAMPLES, 42))
        high = np.array([4.8, np.inf, 0.41887903, np.inf], np.float32)
        self.assertEqual(dataset.observation_space, gymnasium.spaces.Box(-high, high, (4,), np.float32))
        self.assertEqual(dataset.action_space, gymnasium.spaces.Discrete(2))
        self.assertEqual(dataset.env_spec.id, "CartPole-v1")
        self.assertEqual(dataset.recover_environment().spec.id, "CartPole-v1")
        self.assertEqual(dataset.storage.metadata["algorithm_name"], "by hand")
        self.assertFalse(dataset.storage.jpeg_encoding)
        for episode, words in zip(dataset.iterate_episodes(), dataset.storage.get_episode_metadata(range(SAMPLES))):
            known = known_episode(episode.id)
            for found, wanted in ((episode.observations, known["obs"]), (episode.actions, known["action"]),
                                  (episode.rewards, known["reward"]), (episode.terminations, known["terminated"]),
                                  (episode.truncations, known["truncated"])):
                self.assertEqual(found.dtype, wanted.dtype)
                np.testing.assert_array_equal(found, wanted)
            self.assertEqual((words["id"], words["seed"], words["total_steps"]),
                             (episode.id, 1000 + episode.id, len(known["action"])))
            for key in ("sum", "mean", "std", "max", "min"):
                self.assertAlmostEqual(words[f"rewards_{key}"], getattr(known["reward"], key)(), places=12)


def has_packages(python):
    names = "h5py, minari, numpy, PIL, pyarrow, safetensors, webdataset, zstandard"
    return os.path.exists(python) and subprocess.run([python, "-c", f"import {names}"], check=False,
                                                     stderr=subprocess.DEVNULL, timeout=60).returncode == 0


if __name__ == "__main__":
    DRIVER, PYTHON = sys.argv[1:3]
    if "--here" not in sys.argv:
        if not has_packages(PYTHON):
            print(f"{PYTHON} has not what reads data sets (cmake/install-deps data makes one that has)")
            sys.exit(1 if os.environ.get("TROUPE_REQUIRE_DATA") else 77)
        os.execv(PYTHON, [PYTHON, *sys.argv, "--here"])
    result = unittest.main(argv=sys.argv[:1], exit=False, warnings="ignore").result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
