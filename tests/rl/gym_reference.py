"""Plays an environment with Gymnasium's own SyncVectorEnv and writes all that it gives to a file, for gym_real_test.cc:
the first observations, then for each step: observations, rewards, terminated, truncated, the number of final
observations, and of each its environment and itself; plain bytes.

usage: gym_reference.py ID K MODE STEPS SEED FILE [MODULE]
"""
import importlib
import sys

import gymnasium
import numpy

MODES = {"next": gymnasium.vector.AutoresetMode.NEXT_STEP, "same": gymnasium.vector.AutoresetMode.SAME_STEP}


def action_of(space, t, i):
    """The same as in gym_real_test.cc."""
    turn = 7 * t + 3 * i + t // 5
    if isinstance(space, gymnasium.spaces.Discrete):
        return space.start + turn % space.n
    return numpy.full(space.shape, (turn % 11 - 5) / 5, dtype=space.dtype)


def main():
    name, k, mode, steps, seed, path = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(
        sys.argv[5]), sys.argv[6]
    if len(sys.argv) > 7:
        gymnasium.register_envs(importlib.import_module(sys.argv[7]))
    envs = gymnasium.make_vec(name, num_envs=k, vectorization_mode="sync",
                              vector_kwargs={"autoreset_mode": MODES[mode]})
    space = envs.single_action_space
    with open(path, "wb") as file:
        obs, _ = envs.reset(seed=[seed + i for i in range(k)])
        file.write(obs.tobytes())
        for t in range(steps):
            actions = numpy.array([action_of(space, t, i) for i in range(k)], dtype=space.dtype)
            obs, reward, terminated, truncated, infos = envs.step(actions)
            for array in (obs, reward, terminated, truncated):
                file.write(array.tobytes())
            ended = numpy.flatnonzero(infos["_final_obs"]) if "final_obs" in infos else []
            file.write(numpy.uint32(len(ended)).tobytes())
            for i in ended:
                last = numpy.asarray(infos["final_obs"][i], envs.single_observation_space.dtype)
                file.write(numpy.uint32(i).tobytes() + last.tobytes())


main()
