"""A policy is a safetensors file and JSON, and nothing else is needed to act by it: NumPy alone, from policy.bin, does
what `rl collect` did.

policy_files_test.py RL PYTHON: PYTHON is the one that has numpy, unless TROUPE_RL_PYTHON names another one. Without it
the test is skipped (77); under TROUPE_REQUIRE_GYMNASIUM it fails.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

RL = None
DTYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "U8": "u1"}


def read(path):
    """The words and the arrays of a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    words = header.pop("__metadata__")
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        arrays[name] = numpy.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return words, arrays


def forward(arrays, network, name, x):
    """Layers are [out][in]."""
    activate = {"tanh": numpy.tanh, "relu": lambda x: numpy.maximum(x, 0)}[network["activation"]]
    layers = [f"{name}/hidden{i}" for i in range(len(network["hidden"]))]
    for layer in layers:
        x = activate(x @ arrays[f"{layer}/weight"].T + arrays[f"{layer}/bias"])
    return x @ arrays[f"{name}/output/weight"].T + arrays[f"{name}/output/bias"]


def normalized(arrays, obs):
    """By the moments that the policy was trained with: count, means, squared deviations."""
    moments, columns = arrays["moments/0"], obs.shape[1]
    count, mean, squares = moments[0], moments[1:1 + columns], moments[1 + columns:]
    return numpy.clip((obs - mean) / numpy.sqrt(squares / count + 1e-8), -10, 10)


class PolicyFilesTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tf-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.temporary.cleanup()

    def run_rl(self, codes, *arguments):
        done = subprocess.run([RL, *arguments], env=self.environment, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=100, check=False)
        self.assertIn(done.returncode, codes, done.stdout + done.stderr)

    def trained_and_played(self, episodes, *arguments):
        """What policy.bin says of the policy, its arrays, and the observations and actions of some episodes."""
        self.run_rl((0, 3), "train", "--out", f"{self.root}/p", "--no-tensorboard", *arguments)
        self.run_rl((0,), "collect", f"{self.root}/p/policy.bin", "--episodes", str(episodes), "--out",
                    f"{self.root}/played")
        words, arrays = read(f"{self.root}/p/policy.bin")
        _, played = read(f"{self.root}/played")
        return json.loads(words["policy"]), arrays, played["obs"].astype(float), played["action"]

    def check_choices(self, scores, start, actions):
        """The best score's. Ours are float32: where two are as good but for rounding, either may be chosen."""
        order = numpy.sort(scores, axis=1)
        clear = order[:, -1] - order[:, -2] > 1e-5
        self.assertGreater(clear.mean(), 0.99)
        numpy.testing.assert_array_equal(start + scores.argmax(axis=1)[clear], actions[clear])
        self.assertEqual(len(set(actions.tolist())), scores.shape[1], "each action was chosen somewhere")

    def test_ppo_with_normalized_observations_on_choices(self):
        policy, arrays, obs, actions = self.trained_and_played(
            5, "--env", "CartPole-v1", "--normalize-observation", "--num-envs", "4", "--horizon", "128", "--hidden",
            "32,16", "--steps", "8192")
        self.assertTrue(policy["env"]["normalize_observation"])
        network = policy["policy"]["networks"]["policy"]
        self.assertEqual((network["hidden"], network["activation"]), ([32, 16], "tanh"))
        self.check_choices(forward(arrays, network, "policy", normalized(arrays, obs)),
                           policy["policy"]["action_space"]["start"], actions)

    def test_ppo_on_numbers_acts_by_its_mean(self):
        policy, arrays, obs, actions = self.trained_and_played(
            2, "--env", "Pendulum-v1", "--normalize-observation", "--normalize-reward", "--num-envs", "4",
            "--horizon", "64", "--steps", "4096", "--activation", "relu")
        mean = forward(arrays, policy["policy"]["networks"]["policy"], "policy", normalized(arrays, obs))
        # As the network gives them: before the environment clips them.
        numpy.testing.assert_allclose(mean, actions, rtol=1e-5, atol=1e-5)
        self.assertGreater(actions.std(), 0)

    def test_dqn(self):
        policy, arrays, obs, actions = self.trained_and_played(
            5, "--algo", "dqn", "--env", "CartPole-v1", "--hidden", "32,32", "--horizon", "32", "--updates", "8",
            "--learning-starts", "200", "--steps", "4000")
        self.check_choices(forward(arrays, policy["policy"]["network"], "q", obs),
                           policy["policy"]["action_space"]["start"], actions)

    def test_sac_presses_its_mean_into_the_bounds(self):
        policy, arrays, obs, actions = self.trained_and_played(
            2, "--algo", "sac", "--env", "Pendulum-v1", "--hidden", "32,32", "--minibatch", "64", "--steps", "1000")
        space, network = policy["policy"]["action_space"], policy["policy"]["network"]
        outputs = forward(arrays, network, "actor", obs)  # means, then the logarithms of deviations
        low, high = numpy.array(space["low"]), numpy.array(space["high"])
        unit = numpy.tanh(outputs[:, :outputs.shape[1] // 2])
        numpy.testing.assert_allclose(low + (unit + 1) / 2 * (high - low), actions, rtol=1e-5, atol=1e-5)
        self.assertGreater(actions.std(), 0)


def has_numpy(python):
    return os.path.exists(python) and subprocess.run([python, "-c", "import numpy"], check=False,
                                                     stderr=subprocess.DEVNULL, timeout=60).returncode == 0


if __name__ == "__main__":
    RL, PYTHON = sys.argv[1:3]
    PYTHON = os.environ.get("TROUPE_RL_PYTHON") or PYTHON
    if "--here" not in sys.argv:
        if not has_numpy(PYTHON):
            print(f"skipped: {PYTHON} has no numpy (cmake/install-deps rl makes one that has)")
            sys.exit(1 if os.environ.get("TROUPE_REQUIRE_GYMNASIUM") else 77)
        os.execv(PYTHON, [PYTHON, __file__, RL, PYTHON, "--here"])
    import numpy
    unittest.main(argv=sys.argv[:1])
