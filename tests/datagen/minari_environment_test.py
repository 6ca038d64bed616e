"""minari makes the environment of a data set again: in what recover_environment() gives, the seeds and actions of the
episodes that `datagen run --generator trajectories --format minari` wrote play the same episodes.

minari_environment_test.py DATAGEN PYTHON RL_PYTHON: PYTHON has minari (cmake/install-deps data), RL_PYTHON has
environments with Box2D and ale_py (cmake/install-deps rl). Without PYTHON, or where the build has no HDF5, all is
skipped; without RL_PYTHON what comes through the bridge is; under TROUPE_REQUIRE_DATA and TROUPE_REQUIRE_GYMNASIUM
(.ci/run) that is a failure.
"""
import functools
import os
import subprocess
import sys
import tempfile
import unittest

DATAGEN = PYTHON = RL_PYTHON = None
# What environments by the bridge need; to ask takes a second.
BRIDGED = "gymnasium.envs.box2d, ale_py"


@functools.lru_cache
def has(python, names):
    return os.path.exists(python) and subprocess.run([python, "-c", f"import {names}"], check=False,
                                                     stderr=subprocess.DEVNULL, timeout=60).returncode == 0


class RecoverTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="me-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root
        os.environ["MINARI_DATASETS_PATH"] = f"{self.root}/sets"
        os.mkdir(f"{self.root}/sets")

    def tearDown(self):
        self.temporary.cleanup()

    def bridge(self):
        if not has(RL_PYTHON, BRIDGED):
            missing = f"{RL_PYTHON} has not gymnasium with box2d, and ale_py: cmake/install-deps rl"
            self.assertFalse(os.environ.get("TROUPE_REQUIRE_GYMNASIUM"), missing)
            self.skipTest(missing)
        return "--python", RL_PYTHON

    def played(self, *settings):
        """The data set of some episodes of random actions, as minari opens it."""
        import minari
        done = subprocess.run([DATAGEN, "run", "--generator", "trajectories", *settings, "--mixture", "random",
                               "--samples", "3", "--samples-per-shard", "2", "--seed", "5", "--format", "minari",
                               "--workers", "1", "--out", f"{self.root}/sets/played-v0"],
                              env=self.environment, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=150)
        if "cmake/install-deps data" in done.stderr and not os.environ.get("TROUPE_REQUIRE_DATA"):
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return minari.load_dataset("played-v0")

    def check_recovered(self, dataset, env_id, max_episode_steps):
        import numpy as np
        env = dataset.recover_environment()
        self.assertEqual((env.spec.id, env.spec.max_episode_steps), (env_id, max_episode_steps))
        self.assertEqual((env.observation_space, env.action_space), (dataset.observation_space, dataset.action_space))
        self.assertEqual(dataset.total_episodes, 3)
        words = dataset.storage.get_episode_metadata(range(3))
        for episode, seed in zip(dataset.iterate_episodes(), (int(word["seed"]) for word in words)):
            np.testing.assert_array_equal(env.reset(seed=seed)[0], episode.observations[0])
            self.assertGreater(len(episode.actions), 4)
            for t, action in enumerate(episode.actions):
                observation, reward, terminated, truncated, _ = env.step(action)
                np.testing.assert_array_equal(observation, episode.observations[t + 1])
                self.assertEqual((float(reward), bool(terminated), bool(truncated)),
                                 (episode.rewards[t], episode.terminations[t], episode.truncations[t]))
        env.close()

    def test_ours_that_gymnasium_has_too(self):
        self.check_recovered(self.played("--env", "CartPole-v1", "--max-episode-steps", "30"), "CartPole-v1", 30)

    def test_lunar_lander_by_the_bridge(self):
        settings = ("--env", "gym:LunarLander-v3", "--env-kwargs", '{"gravity": -9.0}', "--max-episode-steps", "60")
        dataset = self.played(*settings, *self.bridge())
        self.assertEqual(dataset.env_spec.kwargs["gravity"], -9.0)
        self.check_recovered(dataset, "LunarLander-v3", 60)

    def test_atari_by_the_bridge(self):
        """Its id is known where ale_py was imported; its entry point says that by itself."""
        settings = ("--env", "gym:ALE/Breakout-v5", "--gym-import", "ale_py", "--max-episode-steps", "8")
        self.check_recovered(self.played(*settings, *self.bridge()), "ALE/Breakout-v5", 8)

    def test_what_gymnasium_has_not(self):
        dataset = self.played("--env", "MinAtar/Breakout-v1", "--max-episode-steps", "20")
        self.assertIsNone(dataset.env_spec)
        self.assertEqual(dataset.storage.metadata["env"], "MinAtar/Breakout-v1")
        with self.assertRaisesRegex(ValueError, "env_spec is None"):
            dataset.recover_environment()


if __name__ == "__main__":
    DATAGEN, PYTHON, RL_PYTHON = sys.argv[1:4]
    RL_PYTHON = os.environ.get("TROUPE_RL_PYTHON") or RL_PYTHON
    if "--here" not in sys.argv:
        if not has(PYTHON, "minari"):
            print(f"skipped: {PYTHON} has no minari (cmake/install-deps data makes one that has)")
            sys.exit(1 if os.environ.get("TROUPE_REQUIRE_DATA") else 77)
        os.execv(PYTHON, [PYTHON, *sys.argv, "--here"])
    if has(RL_PYTHON, BRIDGED):  # minari makes environments whose packages are there: behind its own
        sys.path.append(subprocess.run([RL_PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                                       check=True, capture_output=True, text=True, timeout=60).stdout.strip())
    result = unittest.main(argv=sys.argv[:1], exit=False, warnings="ignore").result
    for case, why in result.skipped:
        print(f"skipped: {case}: {why}")
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
