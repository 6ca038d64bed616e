"""The classic-control environments of Gymnasium and EnvPool, as bench/rl_env_steps.cc steps ours: 1,024 together,
random actions drawn beforehand. As a program it is run by a Python that has PACKAGES; measure() makes one.

Gymnasium: its own vectorized CartPole. EnvPool: the better of 1 and 2 threads, synchronous and asynchronous (half of
the environments a batch). Prints {"peer": ..., "row": ..., "value": ...} a line, steps a second.
"""
import argparse
import json
import os
import re
import sys
import time

PEERS = ("Gymnasium", "EnvPool")
PACKAGES = ["gymnasium==1.4.0", "numpy==2.4.6", "envpool==1.2.5"]
ENVS, BATCHES = 1024, 64
ROWS = {
    "rl/env_cartpole": "CartPole-v1",
    "rl/env_mountaincar": "MountainCar-v0",
    "rl/env_mountaincar_continuous": "MountainCarContinuous-v0",
    "rl/env_pendulum": "Pendulum-v1",
    "rl/env_acrobot": "Acrobot-v1",
}


def rate(step, seconds):
    """The best of three: step(k) steps all environments once."""
    best = 0.0
    for _ in range(3):
        for k in range(10):
            step(k)
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            for k in range(20):
                step((steps + k) % BATCHES)
            steps += 20
        best = max(best, steps * ENVS / (time.perf_counter() - start))
    return best


def gymnasium_cartpole(seconds):
    import gymnasium
    import numpy
    env = gymnasium.make_vec("CartPole-v1", num_envs=ENVS, vectorization_mode="vector_entry_point")
    env.reset(seed=1)
    random = numpy.random.default_rng(2)
    actions = [random.integers(0, 2, ENVS) for _ in range(BATCHES)]
    return rate(lambda k: env.step(actions[k]), seconds)


def envpool_best(env_id, seconds):
    import envpool
    import numpy
    random, best = numpy.random.default_rng(2), 0.0
    for threads in (1, 2):
        env = envpool.make(env_id, env_type="gymnasium", num_envs=ENVS, num_threads=threads, seed=1)
        space = env.action_space
        if hasattr(space, "n"):
            actions = [random.integers(0, space.n, ENVS).astype(numpy.int32) for _ in range(BATCHES)]
        else:
            actions = [random.uniform(space.low, space.high, (ENVS, 1)).astype(numpy.float32) for _ in range(BATCHES)]
        env.reset()
        best = max(best, rate(lambda k: env.step(actions[k]), seconds))
        halves = envpool.make(env_id, env_type="gymnasium", num_envs=ENVS, batch_size=ENVS // 2, num_threads=threads,
                              seed=1)
        halves.async_reset()

        def step(k):
            for _ in range(2):
                ready = halves.recv()[-1]["env_id"]
                halves.send(actions[k][ready], ready)

        best = max(best, rate(step, seconds))
    return best


def measure(folder, only, quick, say):
    """{peer: {row: value}}; less where it could not be had."""
    import common
    venv = common.install_venv(os.path.join(folder, "envs"), PACKAGES, say)
    if venv is None:
        return {}
    say("Gymnasium, EnvPool")
    flags = (["--only", only] if only else []) + (["--quick"] if quick else [])
    lines = common.run_rows([os.path.join(venv, "bin", "python"), os.path.abspath(__file__), *flags], say,
                            "Gymnasium, EnvPool")
    peers = {}
    for line in lines:
        peers.setdefault(line["peer"], {})[line["row"]] = line["value"]
    return peers


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    wish = parser.parse_args()
    seconds = 0.2 if wish.quick else 2.0
    for row, env_id in ROWS.items():
        if not re.search(wish.only, row):
            continue
        if env_id == "CartPole-v1":
            print(json.dumps({"peer": "Gymnasium", "row": row, "value": gymnasium_cartpole(seconds)}), flush=True)
        print(json.dumps({"peer": "EnvPool", "row": row, "value": envpool_best(env_id, seconds)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
