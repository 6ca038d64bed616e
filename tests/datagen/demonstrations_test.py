"""The loop closes: bc learns CartPole from data sets that datagen wrote (Minari and Parquet) and from one that
minari itself wrote.

demonstrations_test.py RL DATAGEN PYTHON: PYTHON has minari (cmake/install-deps data). Without it the case of minari's
own data set is skipped; under TROUPE_REQUIRE_DATA it fails. So are the others where the build has no Arrow or no HDF5.
"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

RL = DATAGEN = PYTHON = None

# 50 episodes of a controller that balances the pole, by Gymnasium, into minari's own files.
COLLECT = """
import gymnasium, minari, numpy as np
from minari.data_collector import EpisodeBuffer
env, episodes = gymnasium.make("CartPole-v1"), []
for seed in range(50):
    observations, actions, rewards, terminations, truncations = [env.reset(seed=seed)[0]], [], [], [False], [False]
    while not (terminations[-1] or truncations[-1]):
        x, speed, angle, turning = observations[-1]
        actions.append(np.int64(angle + 0.5 * turning + 0.05 * x + 0.1 * speed > 0))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        observations.append(observation)
        rewards.append(reward)
        terminations.append(terminated)
        truncations.append(truncated)
    episodes.append(EpisodeBuffer(id=None, seed=seed, observations=np.array(observations), actions=np.array(actions),
                                  rewards=rewards, terminations=terminations[1:], truncations=truncations[1:]))
minari.create_dataset_from_buffers("cartpole/by-hand-v0", episodes, env=env, algorithm_name="a line")
"""


class DemonstrationsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="dd-")
        cls.root = cls.temporary.name
        cls.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        cls.environment["TROUPE_SESSION_ROOT"] = cls.root
        cls.environment["MINARI_DATASETS_PATH"] = cls.root + "/minari"

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def run_program(self, program, *arguments, code=0):
        done = subprocess.run([program, *map(str, arguments)], env=self.environment, text=True, cwd=self.root,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=200)
        if "cmake/install-deps data" in done.stderr and not os.environ.get("TROUPE_REQUIRE_DATA"):
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, code, f"{arguments}:\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def expert(self):
        policy = f"{self.root}/expert/best.bin"
        if not os.path.exists(policy):
            self.run_program(RL, "train", "--out", "expert", "--env", "CartPole-v1", "--seed", 7, "--keep-going",
                             "--steps", 100000, "--evaluate-every", 0.1)
        return policy

    def imitate(self, data, *more, env="CartPole-v1", code=0):
        return self.run_program(RL, "train", "--algo", "bc", "--env", env, "--data", data, "--out", "clone", "--steps",
                                200000, *more, code=code)

    def play(self, kind):
        self.run_program(DATAGEN, "run", "--generator", "trajectories", "--policy", self.expert(), "--samples", 50,
                         "--samples-per-shard", 20, "--format", kind, "--workers", 2, "--out", f"played-{kind}")
        return f"{self.root}/played-{kind}"

    def test_of_parquet_that_datagen_wrote(self):
        data = self.play("parquet")
        self.assertIn("gate 475: passed", self.imitate(data))
        self.assertIn("has 50 episodes, not 51", self.imitate(data, "--demonstration-episodes", 51, code=1))
        self.assertIn("was played on CartPole-v1", self.imitate(data, env="Acrobot-v1", code=1))
        # RDM-1: the manifest's shards alone, and with the bytes that were committed.
        stranger = f"{data}/data/part-00003-of-00003.parquet"
        with open(stranger, "wb") as file:
            file.write(b"no Parquet")
        shard = sorted(glob.glob(f"{data}/data/part-*-of-00003.parquet"))[0]
        with open(shard, "r+b") as file:
            file.seek(100)
            byte = file.read(1)
            file.seek(100)
            file.write(bytes([byte[0] ^ 1]))
        self.assertIn("other bytes than were committed", self.imitate(data, code=1))

    def test_of_minari_that_datagen_wrote(self):
        self.assertIn("gate 475: passed", self.imitate(self.play("minari")))

    def test_of_minari_that_minari_wrote(self):
        if not os.path.exists(PYTHON) and not os.environ.get("TROUPE_REQUIRE_DATA"):
            self.skipTest(f"there is no {PYTHON} (cmake/install-deps data makes one)")
        os.makedirs(f"{self.root}/minari")
        subprocess.run([PYTHON, "-W", "ignore", "-c", COLLECT], env=self.environment, check=True, timeout=120)
        self.assertIn("gate 475: passed", self.imitate(f"{self.root}/minari/cartpole/by-hand-v0"))

    def test_what_is_no_data_set_is_refused(self):
        self.assertIn("is no data set", self.imitate(self.root, code=1))
        self.assertIn("--data DIR", self.run_program(RL, "train", "--algo", "bc", "--out", "clone", code=1))
        self.run_program(DATAGEN, "run", "--generator", "tabular", "--samples", 10, "--format", "jsonl", "--out",
                         "rows")
        self.assertIn("'parquet' and 'minari'", self.imitate("rows", code=1))


if __name__ == "__main__":
    RL, DATAGEN, PYTHON = sys.argv[1:4]
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
