"""Gymnasium's own vector environments at what bench/rl_gym.cc steps: eight environments, actions drawn beforehand. As a
program it is run by the interpreter that ours uses, by bench/rl_gym.py.

  gym_peer.py sync|async ID IMPORT SECONDS      prints environment steps a second
"""
import importlib
import sys
import time

PEER = "Gymnasium"
KINDS = ("sync", "async")
ENVS, BATCHES = 8, 64


def rate(env, actions, seconds):
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        env.step(actions[steps % BATCHES])
        steps += 1
    return steps * ENVS / (time.perf_counter() - start)


def main(kind, env_id, module, seconds):
    import gymnasium
    import numpy
    if module:
        gymnasium.register_envs(importlib.import_module(module))
    env = gymnasium.make_vec(env_id, num_envs=ENVS, vectorization_mode=kind)
    env.reset(seed=1)
    random = numpy.random.default_rng(2)
    actions = [random.integers(0, env.single_action_space.n, ENVS) for _ in range(BATCHES)]
    rate(env, actions, seconds / 4)
    print(f"{rate(env, actions, seconds):.6g}", flush=True)
    env.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
