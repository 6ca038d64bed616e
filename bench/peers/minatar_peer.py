"""Stable-Baselines3's PPO on MinAtar/Breakout-v1: the package's own environment, and the numbers and the network of the
preset ppo-minatar-breakout, so that what is learned may be compared. As a program it is run by a Python that has
PACKAGES; measure() makes one, and trains the seeds that its file has not yet.

A seed's score is that of its last policy: the mean return of 100 episodes of their own seeds, the most likely action.
Prints {"seed": ..., "score": ..., "training": ..., "seconds": ...}: `training` is the mean of its last 100 episodes.
"""
import argparse
import json
import os
import statistics
import sys
import time

PEER = "SB3"
PACKAGES = ["stable_baselines3==2.9.2", "gymnasium==1.2.2", "numpy==2.4.6", "torch==2.15.0", "minatar==1.0.15"]
ENV, ENVS = "MinAtar/Breakout-v1", 16
LEARNING_RATE = 2.5e-3  # falls to 0
NUMBERS = {"n_steps": 128, "batch_size": 256, "n_epochs": 4, "gamma": 0.99, "gae_lambda": 0.95, "ent_coef": 0.04,
           "vf_coef": 0.5, "max_grad_norm": 0.5, "clip_range": 0.2}
EPISODES, FIRST_EPISODE_SEED = 100, 1_500_000_000
NEEDED = 0.9  # of the peer's interquartile mean
LONGEST = 100_000  # steps of an episode: nothing ends one whose ball is never lost


def game():
    """The package's, its planes first and as floats, as torch's convolutions want them."""
    import gymnasium
    import numpy
    from minatar.gym import register_envs

    if ENV not in gymnasium.registry:
        register_envs()

    class PlanesFirst(gymnasium.ObservationWrapper):
        def __init__(self, env):
            super().__init__(env)
            rows, columns, planes = env.observation_space.shape
            self.observation_space = gymnasium.spaces.Box(0, 1, (planes, rows, columns), numpy.float32)

        def observation(self, observation):
            return observation.transpose(2, 0, 1).astype(numpy.float32)

    return PlanesFirst(gymnasium.make(ENV, sticky_action_prob=0.1))


def network():
    """One convolution of 16 3 x 3 and a layer of 128, both ReLU, which policy and value share."""
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Network(BaseFeaturesExtractor):
        def __init__(self, observation_space):
            super().__init__(observation_space, 128)
            planes, rows, columns = observation_space.shape
            self.layers = torch.nn.Sequential(torch.nn.Conv2d(planes, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                              torch.nn.Linear(16 * (rows - 2) * (columns - 2), 128), torch.nn.ReLU())

        def forward(self, observations):
            return self.layers(observations)

    return {"features_extractor_class": Network, "net_arch": [], "normalize_images": False}


def play(model):
    """The mean return of EPISODES episodes without exploration."""
    returns = []
    env = game()
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=FIRST_EPISODE_SEED + episode)
        total = 0.0
        for _ in range(LONGEST):
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            total += float(reward)
            if terminated or truncated:
                break
        returns.append(total)
    return statistics.fmean(returns)


def train(seed, steps):
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    torch.set_num_threads(1)
    start = time.perf_counter()
    model = PPO("CnnPolicy", make_vec_env(game, ENVS, seed=seed), learning_rate=lambda left: left * LEARNING_RATE,
                policy_kwargs=network(), device="cpu", seed=seed, **NUMBERS).learn(steps)
    seconds = time.perf_counter() - start
    return {"seed": seed, "score": play(model), "seconds": seconds,
            "training": statistics.fmean(one["r"] for one in model.ep_info_buffer)}


def interquartile_mean(scores):
    """As rliable's and training/statistics.h: without floor(n / 4) scores at each end."""
    leave = len(scores) // 4
    return statistics.fmean(sorted(scores)[leave:len(scores) - leave])


def met(ours, scores):
    """Whether what `rl` says of its seeds ({interquartile_mean, low, high}) is as good as these scores of the peer: 0.9
    of their interquartile mean, which our interval reaches."""
    theirs = interquartile_mean(scores)
    return ours["interquartile_mean"] >= NEEDED * theirs and ours["high"] >= theirs


def measure(folder, path, seeds, steps, say):
    """What these seeds have come to, in their order, from the file at `path` or trained now; less where that could not
    be had. No `steps`: nothing is trained."""
    import common
    known = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = {line["seed"]: line for line in json.load(file)}
    left = [seed for seed in seeds if seed not in known] if steps else []
    venv = common.install_venv(os.path.join(folder, "sb3-minatar"), PACKAGES, say) if left else None
    for seed in left if venv else []:
        say(f"Stable-Baselines3 on {ENV}, seed {seed}")
        for line in common.run_rows([os.path.join(venv, "bin", "python"), os.path.abspath(__file__), "--seed",
                                     str(seed), "--steps", str(steps)], say, "Stable-Baselines3", timeout=7200):
            known[seed] = line
        with open(path, "w", encoding="utf-8") as file:
            json.dump(list(known.values()), file, indent=1)
            file.write("\n")
    return [known[seed] for seed in seeds if seed in known]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, default=1_000_000)
    wish = parser.parse_args()
    print(json.dumps(train(wish.seed, wish.steps)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
