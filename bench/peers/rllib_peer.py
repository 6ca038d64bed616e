"""RLlib's IMPALA at what bench/rl_steps.py measures: CartPole, two env-runners and a learner. As a program it is run by
a Python that has PACKAGES; measure() makes one.

Steps a second are those that were learned from, after the warm-up, as ours. The better of one and sixteen environments
a runner, the fragments and the numbers of its own example for CartPole. Prints {"row": ..., "value": ...} a line.
"""
import argparse
import json
import os
import re
import sys
import time

PEER = "RLlib"
PACKAGES = ["ray[rllib]==2.60.0", "torch==2.15.0", "numpy==2.4.6"]
ENVS = (1, 16)


def impala(envs, seconds):
    """Steps learned from a second."""
    from ray.rllib.algorithms.impala import IMPALAConfig
    config = (IMPALAConfig()
              .environment("CartPole-v1")
              .env_runners(num_env_runners=2, num_envs_per_env_runner=envs, rollout_fragment_length=50)
              .learners(num_learners=0)
              .training(train_batch_size_per_learner=500, grad_clip=40.0, lr=0.0005, vf_loss_coeff=0.05,
                        entropy_coeff=0.0)
              .reporting(min_time_s_per_iteration=2)
              .debugging(seed=1))
    algorithm = config.build_algo()

    def learned(result):
        return result["learners"]["__all_modules__"]["num_env_steps_trained_lifetime"]

    start = time.perf_counter()
    while True:  # the warm-up: its processes come up, its queues fill
        first = algorithm.train()
        if time.perf_counter() - start > seconds and "__all_modules__" in first.get("learners", {}):
            break
    begin, last = time.perf_counter(), first
    while time.perf_counter() - begin < seconds:
        last = algorithm.train()
    value = (learned(last) - learned(first)) / (time.perf_counter() - begin)
    algorithm.stop()
    return value


ROWS = {"rl/impala_cartpole_steps": impala}


def measure(folder, only, quick, say):
    """{peer: {row: value}}; less where it could not be had."""
    import common
    import ray_peer
    venv = common.install_venv(os.path.join(folder, "rllib"), PACKAGES, say)
    if venv is None:
        return {}
    say("RLlib")
    flags = (["--only", only] if only else []) + (["--quick"] if quick else [])
    environment = {**{key: value for key, value in common.environment().items() if not key.startswith("RAY_")},
                   **ray_peer.ENVIRONMENT, "PATH": os.path.join(venv, "bin") + ":" + os.environ["PATH"]}
    found = ray_peer.rows([os.path.join(venv, "bin", "python"), os.path.abspath(__file__), *flags], environment, say,
                          "RLlib", 900)
    return {PEER: found} if found else {}


def main():
    import ray
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    wish = parser.parse_args()
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)  # its actors ask for a core each
    for row, run in ROWS.items():
        if re.search(wish.only, row):
            value = max(run(envs, 6 if wish.quick else 30) for envs in ENVS)
            print(json.dumps({"row": row, "value": value}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
