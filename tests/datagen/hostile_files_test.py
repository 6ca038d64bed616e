"""Data sets that somebody else made to do harm: each is refused with a typed error, at once and in little memory; none
crashes, hangs, or is read beyond its own folder (RDM-2, RDM-3).

hostile_files_test.py READER PYTHON: PYTHON has h5py and pyarrow (cmake/install-deps data). Without it the test is
skipped; under TROUPE_REQUIRE_DATA it fails. A format whose library the build has not is skipped in the same way.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest

READER = None
STEPS = 4
BOX = {"type": "Box", "dtype": "float32", "shape": [2], "low": [-9, -9], "high": [9, 9]}
DISCRETE = {"type": "Discrete", "dtype": "int64", "n": 2, "start": 0}
MEMORY = 4 << 30


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


class HostileCase(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="hf-")
        self.folder = self.temporary.name + "/set"
        os.mkdir(self.folder)
        self.addCleanup(self.temporary.cleanup)

    def read(self, cwd=None):
        """What the reader says; an exit by a signal is a failure of its own."""
        done = subprocess.run([READER, self.folder], cwd=cwd or self.temporary.name, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=60, preexec_fn=limit_memory, check=False)
        if "cmake/install-deps data" in done.stdout and not os.environ.get("TROUPE_REQUIRE_DATA"):
            self.skipTest(done.stdout)
        self.assertIn(done.returncode, (0, 1), f"{done.stdout}\n{done.stderr}")
        return done.stdout.strip()

    def refused(self, name, words, cwd=None):
        said = self.read(cwd)
        self.assertRegex(said, f"^{name}: ", said)
        self.assertIn(words, said)


class MinariTest(HostileCase):
    """Minari's own files: `main_data.hdf5` and `metadata.json`."""

    def write(self, change=lambda file: None, words=None, episodes=2):
        import h5py
        import numpy as np
        with h5py.File(f"{self.folder}/main_data.hdf5", "w") as file:
            for episode in range(episodes):
                group = file.create_group(f"episode_{episode}")
                group["observations"] = np.zeros((STEPS + 1, 2), np.float32)
                group["actions"] = np.zeros(STEPS, np.int64)
                group["rewards"] = np.ones(STEPS)
                group["terminations"] = np.arange(STEPS) == STEPS - 1
                group["truncations"] = np.zeros(STEPS, bool)
            change(file)
        metadata = {"data_format": "hdf5", "total_episodes": episodes, "dataset_id": "some-v0",
                    "observation_space": json.dumps(BOX), "action_space": json.dumps(DISCRETE)}
        with open(f"{self.folder}/metadata.json", "w", encoding="utf-8") as file:
            json.dump(metadata | (words or {}), file)

    def replace(self, name, **how):
        """In the first episode."""
        def change(file):
            del file["episode_0"][name]
            file["episode_0"].create_dataset(name, **how)
        self.write(change)

    def test_a_good_one_is_read(self):
        self.write()
        self.assertEqual(self.read(), f"episodes 2 steps {2 * STEPS}")

    def test_chunks_and_compression_are_read(self):
        import numpy as np
        self.replace("observations", data=np.zeros((STEPS + 1, 2), np.float32), chunks=(2, 2), compression="gzip")
        self.assertEqual(self.read(), f"episodes 2 steps {2 * STEPS}")

    def test_extents_that_no_file_has(self):
        import numpy as np
        # Of some the bytes are little in 64 bits: 2^33 x 2^31 floats are 2^66 bytes.
        for shape in ((1 << 33, 1 << 31), (STEPS + 1, 1 << 62), (STEPS + 1, 1 << 31, 1 << 31), (1 << 33, 1 << 4),
                      (1 << 40, 2)):
            def change(file, shape=shape):
                del file["episode_0"]["observations"]
                made = file["episode_0"].create_dataset("observations", shape=(2,) * len(shape), dtype=np.float32,
                                                        chunks=(2,) * len(shape), maxshape=(None,) * len(shape))
                made[...] = 1
                made.resize(shape)
            self.write(change)
            self.refused("SerializationError", "more than its file")

    def test_arrays_whose_bytes_lie_in_other_files(self):
        import numpy as np
        secret = f"{self.temporary.name}/secret"
        with open(secret, "wb") as file:
            file.write(b"\0" * 1000)
        self.replace("observations", shape=(STEPS + 1, 2), dtype=np.float32, external=[(secret, 0, 1000)])
        self.refused("SerializationError", "other files")

    def test_virtual_arrays(self):
        import h5py
        import numpy as np
        with h5py.File(f"{self.temporary.name}/outside.hdf5", "w") as file:
            file["secret"] = np.zeros((STEPS + 1, 2), np.float32)
        def change(file):
            del file["episode_0"]["observations"]
            layout = h5py.VirtualLayout(shape=(STEPS + 1, 2), dtype=np.float32)
            layout[...] = h5py.VirtualSource("../outside.hdf5", "secret", shape=(STEPS + 1, 2))
            file["episode_0"].create_virtual_dataset("observations", layout)
        self.write(change)
        self.refused("SerializationError", "other files")

    def test_links_out_of_the_folder(self):
        import h5py
        os.mkdir(f"{self.temporary.name}/elsewhere")
        inside = self.folder
        self.folder = f"{self.temporary.name}/elsewhere"
        self.write()
        self.folder = inside
        for target in ("../elsewhere/main_data.hdf5", f"{self.temporary.name}/elsewhere/main_data.hdf5",
                       "main_data.hdf5/../../elsewhere/main_data.hdf5"):
            def change(file, target=target):
                del file["episode_0"]
                file["episode_0"] = h5py.ExternalLink(target, "/episode_0")
            self.write(change)
            self.refused("SerializationError", "episode_0")

    def test_a_link_that_is_found_in_the_working_folder_alone(self):
        import h5py
        elsewhere = f"{self.temporary.name}/elsewhere"
        os.mkdir(elsewhere)
        inside, self.folder = self.folder, elsewhere
        self.write()
        os.rename(f"{elsewhere}/main_data.hdf5", f"{elsewhere}/more.hdf5")
        self.folder = inside
        def change(file):
            del file["episode_0"]
            file["episode_0"] = h5py.ExternalLink("more.hdf5", "/episode_0")
        self.write(change)
        self.refused("SerializationError", "episode_0", cwd=elsewhere)
        os.rename(f"{elsewhere}/more.hdf5", f"{self.folder}/more.hdf5")  # beside it, it is its own
        self.assertEqual(self.read(), f"episodes 2 steps {2 * STEPS}")

    def test_links_in_circles(self):
        import h5py
        def change(file):
            del file["episode_0"], file["episode_1"]
            file["episode_0"] = h5py.SoftLink("/episode_1")
            file["episode_1"] = h5py.SoftLink("/episode_0")
        self.write(change)
        self.refused("SerializationError", "episode_0")

    def test_other_kinds_of_arrays(self):
        import numpy as np
        for name, how in (("rewards", {"data": np.float64(1)}), ("rewards", {"data": np.ones((STEPS, 3))}),
                          ("rewards", {"data": np.ones(STEPS, np.complex128)}), ("actions", {"data": [b"a"] * STEPS}),
                          ("actions", {"data": np.zeros(STEPS - 1, np.int64)}),
                          ("actions", {"data": np.full(STEPS, 2)}),
                          ("rewards", {"data": np.full(STEPS, np.nan)}),
                          ("observations", {"data": np.zeros((0, 2), np.float32)}),
                          ("observations", {"data": np.zeros((STEPS + 1, 0), np.float32)}),
                          ("rewards", {"data": np.zeros(0)})):
            with self.subTest(name=name, how=how):
                self.replace(name, **how)
                self.refused("SerializationError", "")

    def test_many_names_of_one_array(self):
        import numpy as np
        episodes = 3000
        def change(file):
            file.create_dataset("big", data=np.zeros((100_001, 2), np.float32), chunks=(100_001, 2),
                                compression="gzip")
            group = file["episode_0"]
            for name, array in (("actions", np.zeros(100_000, np.int64)), ("rewards", np.ones(100_000)),
                                ("terminations", np.arange(100_000) == 99_999),
                                ("truncations", np.zeros(100_000, bool))):
                del group[name]
                group.create_dataset(name, data=array, chunks=array.shape, compression="gzip")
            del group["observations"]
            group["observations"] = file["big"]
            for episode in range(1, episodes):
                file[f"episode_{episode}"] = group
        self.write(change, {"total_episodes": episodes}, episodes=1)
        self.refused("SerializationError", "more steps than files of this size hold")

    def test_every_cut_file(self):
        self.write()
        with open(f"{self.folder}/main_data.hdf5", "rb") as file:
            whole = file.read()
        for size in range(0, len(whole) - 1, 997):
            with open(f"{self.folder}/main_data.hdf5", "wb") as file:
                file.write(whole[:size])
            self.refused("SerializationError", "")

    def test_words_that_are_none(self):
        for words, name in (({"total_episodes": 1 << 62}, "SerializationError"), ({"total_episodes": -1}, ""),
                            ({"total_episodes": 1e300}, ""), ({"total_episodes": 0}, ""),
                            ({"data_format": "arrow"}, "InvalidArgumentError"), ({"data_format": ["hdf5"]}, ""),
                            ({"observation_space": "{"}, ""), ({"observation_space": "[" * 100_000}, ""),
                            ({"observation_space": json.dumps(BOX | {"shape": [1 << 40, 1 << 40]})}, ""),
                            ({"observation_space": json.dumps(BOX | {"low": [float("nan")] * 2})}, ""),
                            ({"observation_space": json.dumps({"type": "Dict", "subspaces": {}})}, ""),
                            ({"action_space": json.dumps(DISCRETE | {"n": 0})}, ""),
                            ({"action_space": json.dumps(DISCRETE | {"n": 1 << 62, "start": 1 << 62})}, ""),
                            ({"action_space": json.dumps({"type": "MultiDiscrete", "nvec": [2, 2], "start": [0]})},
                             "")):
            with self.subTest(words=str(words)[:100]):
                self.write(words=words)
                said = self.read()
                self.assertRegex(said, f"^{name or '(SerializationError|InvalidArgumentError)'}: ")
                self.assertIn(self.folder, said)
                self.assertLess(len(said), 500)

    def test_pipes_instead_of_files(self):
        for name in ("main_data.hdf5", "metadata.json"):
            self.write()
            os.remove(f"{self.folder}/{name}")
            os.mkfifo(f"{self.folder}/{name}")
            self.refused("(SerializationError|InvalidArgumentError|NotFoundError|RuntimeEnvError)", name)
            os.remove(f"{self.folder}/{name}")


class ParquetTest(HostileCase):
    """A data set of datagen whose one shard is Parquet: what pyarrow writes, committed as it is."""

    def columns(self):
        import pyarrow as pa
        return {"obs": pa.FixedSizeListArray.from_arrays(pa.array([0.5] * 2 * STEPS, pa.float32()), 2),
                "action": pa.array([1] * STEPS, pa.int64()), "reward": pa.array([1.0] * STEPS, pa.float64()),
                "terminated": pa.array([False] * (STEPS - 1) + [True]), "truncated": pa.array([False] * STEPS)}

    def write(self, columns, words=None):
        import pyarrow as pa
        import pyarrow.parquet as pq
        metadata = {"observation_space": json.dumps(BOX), "action_space": json.dumps(DISCRETE)} | (words or {})
        table = pa.table(columns).replace_schema_metadata(metadata)
        self.path = f"{self.folder}/part.parquet"
        pq.write_table(table, self.path)

    def read(self, cwd=None):
        done = subprocess.run([READER, "--parquet", self.path], cwd=cwd or self.temporary.name, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=60, preexec_fn=limit_memory,
                              check=False)
        if "cmake/install-deps data" in done.stdout and not os.environ.get("TROUPE_REQUIRE_DATA"):
            self.skipTest(done.stdout)
        self.assertIn(done.returncode, (0, 1), f"{done.stdout}\n{done.stderr}")
        return done.stdout.strip()

    def test_a_good_one_is_read(self):
        self.write(self.columns())
        self.assertEqual(self.read(), f"episodes 1 steps {STEPS}")

    def test_rows_and_numbers_that_are_not_there(self):
        import pyarrow as pa
        for name, array in (("reward", pa.array([1.0, None, 1.0, 1.0])),
                            ("action", pa.array([None] * STEPS, pa.int64())),
                            ("obs", pa.array([[1, 2], None, [1, 2], [1, 2]], pa.list_(pa.float32(), 2))),
                            ("obs", pa.array([[1, 2], [1, None], [1, 2], [1, 2]], pa.list_(pa.float32(), 2))),
                            ("obs", pa.array([[1, 2, 3]] * STEPS, pa.list_(pa.float32(), 3))),
                            ("obs", pa.array([[1, 2]] * STEPS, pa.list_(pa.float32()))),
                            ("obs", pa.array([1.0] * STEPS)), ("reward", pa.array(["1"] * STEPS)),
                            ("reward", pa.array([float("nan")] * STEPS)),
                            ("terminated", pa.array([1] * STEPS)), ("action", pa.array([7] * STEPS))):
            with self.subTest(name=name, array=str(array)):
                self.write(self.columns() | {name: array})
                self.refused("(SerializationError|InvalidArgumentError)", "")
        without = self.columns()
        del without["reward"]
        self.write(without)
        self.refused("InvalidArgumentError", "'reward'")

    def test_columns_that_repeat_themselves(self):
        import pyarrow as pa
        steps, width = 20_000, 2000
        space = {"observation_space": json.dumps(BOX | {"shape": [width], "low": [-9], "high": [9]})}
        flat = pa.array([0.5] * width * 1000, pa.float32())
        some = {"obs": pa.FixedSizeListArray.from_arrays(flat, width), "action": pa.array([1] * 1000, pa.int64()),
                "reward": pa.array([1.0] * 1000, pa.float64()), "terminated": pa.array([True] * 1000),
                "truncated": pa.array([False] * 1000)}
        self.write({name: pa.chunked_array([array] * (steps // 1000)) for name, array in some.items()}, space)
        self.refused("SerializationError", "more steps than files of this size hold")

    def test_a_tensor_whose_words_say_another_shape(self):
        import pyarrow as pa
        import pyarrow.parquet as pq
        space = {"observation_space": json.dumps(BOX | {"shape": [2, 2], "low": [-9], "high": [9]})}
        kind = pa.fixed_shape_tensor(pa.float32(), [2, 2])
        storage = pa.FixedSizeListArray.from_arrays(pa.array([0.5] * 4 * STEPS, pa.float32()), 4)
        self.write(self.columns() | {"obs": pa.ExtensionArray.from_storage(kind, storage)}, space)
        self.assertEqual(self.read(), f"episodes 1 steps {STEPS}")
        with open(self.path, "rb") as file:
            whole = file.read()
        # The schema that Arrow keeps beside Parquet's own is Base64: the same length, another shape.
        found = 0
        for shape in (b"[2,9]", b"[9,9]", b"[0,2]", b"[-1,"):
            for shift in range(3):
                def encoded(text, shift=shift):
                    import base64
                    return base64.b64encode(b"x" * shift + b'{"shape":' + text)[4:-4]
                changed = whole.replace(encoded(b"[2,2]"), encoded(shape))
                if changed == whole or len(changed) != len(whole):
                    continue
                found += 1
                with open(self.path, "wb") as file:
                    file.write(changed)
                self.refused("SerializationError", "")
        self.assertGreater(found, 0)

    def test_every_cut_or_changed_file(self):
        self.write(self.columns())
        with open(self.path, "rb") as file:
            whole = file.read()
        for size in range(0, len(whole) - 1, 97):
            with open(self.path, "wb") as file:
                file.write(whole[:size])
            self.refused("SerializationError", "")
        for at in range(0, len(whole), 23):  # whatever comes of it, no crash and no other error
            with open(self.path, "wb") as file:
                file.write(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:])
            self.assertRegex(self.read(), "^(episodes|SerializationError|InvalidArgumentError)")


def has_packages(python):
    return os.path.exists(python) and subprocess.run([python, "-c", "import h5py, pyarrow"], check=False,
                                                     stderr=subprocess.DEVNULL, timeout=60).returncode == 0


if __name__ == "__main__":
    READER, PYTHON = sys.argv[1:3]
    if "--here" not in sys.argv:
        if not has_packages(PYTHON):
            print(f"{PYTHON} has no h5py or no pyarrow (cmake/install-deps data makes one that has)")
            sys.exit(1 if os.environ.get("TROUPE_REQUIRE_DATA") else 77)
        os.execv(PYTHON, [PYTHON, *sys.argv, "--here"])
    result = unittest.main(argv=sys.argv[:1], exit=False, warnings="ignore").result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
