"""Stable-Baselines3 at what bench/rl_steps.py and bench/rl_actors.cc measure. As a program it is run by a Python that
has PACKAGES; measure() makes one.

Each row at the better of one and two threads of torch. Steps a second are those after the warm-up, with as many updates
a step as ours. Hyper-parameters of PPO and DQN are those that the zoo has for CartPole. Prints
{"peer": ..., "row": ..., "value": ...} a line.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

PEER = "SB3"
PACKAGES = ["stable_baselines3==2.9.2", "gymnasium==1.2.2", "numpy==2.4.6", "torch==2.15.0"]
UNITS_LOWER = {"rl/ppo_cartpole_wall"}


def timed(callback_base, warm_up):
    """A callback that knows when the warm-up was over."""

    class Timed(callback_base):
        def __init__(self):
            super().__init__()
            self.begin = None

        def _on_step(self):
            if self.begin is None and self.num_timesteps >= warm_up:
                self.begin = (self.num_timesteps, time.perf_counter())
            return True

        def rate(self):
            return (self.num_timesteps - self.begin[0]) / (time.perf_counter() - self.begin[1])

    return Timed()


def dqn(quick):
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import BaseCallback
    timer = timed(BaseCallback, 2_000)
    DQN("MlpPolicy", "CartPole-v1", learning_rate=2.3e-3, batch_size=64, buffer_size=100_000, learning_starts=1_000,
        gamma=0.99, target_update_interval=10, train_freq=256, gradient_steps=128, exploration_fraction=0.16,
        exploration_final_eps=0.04, policy_kwargs={"net_arch": [256, 256]},
        device="cpu", seed=1).learn(4_000 if quick else 10_000, callback=timer)
    return timer.rate()


def sac(quick):
    from stable_baselines3 import SAC
    from stable_baselines3.common.callbacks import BaseCallback
    timer = timed(BaseCallback, 300)
    SAC("MlpPolicy", "Pendulum-v1", device="cpu", seed=1).learn(600 if quick else 1_500, callback=timer)
    return timer.rate()


def rollout(quick):
    """Collection alone: what model.collect_rollouts does, 64 environments."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 64, seed=1), n_steps=128, device="cpu", seed=1)
    _, callback = model._setup_learn(10**9, timed(BaseCallback, 0))
    steps, start, seconds = 0, None, 2.0 if quick else 8.0
    while start is None or time.perf_counter() - start < seconds:
        model.collect_rollouts(model.env, callback, model.rollout_buffer, 128)
        if start is None:
            start = time.perf_counter()  # the first one warms up
        else:
            steps += 64 * 128
    return steps / (time.perf_counter() - start)


def solve(seed):
    """Whether PPO brings the mean of 100 episodes to 475."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    class Solved(BaseCallback):
        def _on_step(self):
            recent = self.model.ep_info_buffer
            return len(recent) < 100 or statistics.fmean(one["r"] for one in recent) < 475

    solved = Solved()
    PPO("MlpPolicy", make_vec_env("CartPole-v1", 8, seed=seed), n_steps=32, batch_size=256, n_epochs=20, gamma=0.98,
        gae_lambda=0.8, ent_coef=0.0, learning_rate=lambda left: left * 1e-3, clip_range=lambda left: left * 0.2,
        device="cpu", seed=seed).learn(300_000, callback=solved)
    return solved.num_timesteps < 300_000


def wall(quick):
    """Seconds from the start of a process to its end, as ours: the median of the first five of its ten seeds."""
    import torch
    times = []
    for seed in range(2001, 2003 if quick else 2006):
        start = time.perf_counter()
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--solve", str(seed), "--threads",
                               str(torch.get_num_threads())], check=False)
        taken = time.perf_counter() - start
        times.append(taken if done.returncode == 0 else max(taken, 1000.0))
    return statistics.median(times)


ROWS = {
    "rl/dqn_cartpole_steps": dqn,
    "rl/sac_pendulum_steps": sac,
    "rl/rollout_steps": rollout,
    "rl/ppo_cartpole_wall": wall,
}


def measure(folder, only, quick, say):
    """{peer: {row: value}}; less where it could not be had."""
    import common
    venv = common.install_venv(os.path.join(folder, "sb3"), PACKAGES, say)
    if venv is None:
        return {}
    say("Stable-Baselines3")
    flags = (["--only", only] if only else []) + (["--quick"] if quick else [])
    lines = common.run_rows([os.path.join(venv, "bin", "python"), os.path.abspath(__file__), *flags], say,
                            "Stable-Baselines3", timeout=1800)  # some minutes a row: half a minute a seed
    return {PEER: {line["row"]: line["value"] for line in lines}} if lines else {}


def main():
    import torch
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--solve", type=int, metavar="SEED", help="only this: PPO on CartPole; 0 when it is solved")
    parser.add_argument("--threads", type=int, default=1)
    wish = parser.parse_args()
    if wish.solve is not None:
        torch.set_num_threads(wish.threads)
        return 0 if solve(wish.solve) else 1
    for row, run in ROWS.items():
        if not re.search(wish.only, row):
            continue
        values = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            values.append(run(wish.quick))
        best = min(values) if row in UNITS_LOWER else max(values)
        print(json.dumps({"peer": PEER, "row": row, "value": best}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
