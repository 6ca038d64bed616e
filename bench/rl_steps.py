"""Training by `rl train`, two learners where the algorithm has several: environment steps a second once learning has
begun, one row an algorithm; and the time from the start of the process to a CartPole that is solved, the median of ten
seeds.

Prints rows as the other measures do.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

# What is trained, steps of the run, and how many of them are warm-up.
STEPS = {
    # Names and numbers of the zoo's preset for DQN on CartPole, as the peer runs it; the peer has no double DQN.
    "rl/dqn_cartpole_steps": (["--preset", "dqn-cartpole", "--no-double-q", "--learners", "2"], 40_000, 5_000),
    # Stable-Baselines3's own numbers: 256 x 256, minibatches of 256, an update a step.
    "rl/sac_pendulum_steps": (["--algo", "sac", "--env", "Pendulum-v1", "--learners", "2"], 4_000, 500),
    "rl/impala_cartpole_steps": (["--algo", "impala", "--env", "CartPole-v1"], 1_000_000, 100_000),
}
WALL = "rl/ppo_cartpole_wall"
TRIALS, SEEDS = 3, 10


def train(program, arguments, seed):
    """(seconds of the whole process, the lines of its progress)."""
    with tempfile.TemporaryDirectory(prefix="troupe-bench-") as folder:
        start = time.monotonic()
        done = subprocess.run([program, "train", *arguments, "--seed", str(seed), "--out", folder, "--no-tensorboard"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600, check=False)
        wall = time.monotonic() - start
        if done.returncode not in (0, 3):
            raise RuntimeError(f"{program} {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-500:]}")
        with open(os.path.join(folder, "progress.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
            return wall, lines, json.load(file)["solved"]


def steady(lines, warm_up):
    """Steps a second after the warm-up."""
    first = next(line for line in lines if line["steps"] >= warm_up)
    return (lines[-1]["steps"] - first["steps"]) / (lines[-1]["seconds"] - first["seconds"])


def rates(program, row, quick):
    arguments, total, warm_up = STEPS[row]
    total = total // 4 if quick else total
    flags = ["--keep-going", "--evaluate-every", "0", "--total-steps", str(total)]
    seeds = range(1, 2 if quick else 1 + TRIALS)
    return [steady(train(program, arguments + flags, seed)[1], warm_up) for seed in seeds]


def walls(program, quick):
    times = []
    for seed in range(2001, 2001 + (3 if quick else SEEDS)):
        wall, _, solved = train(program, ["--preset", "ppo-cartpole", "--evaluate-every", "0", "--learners", "2"], seed)
        times.append(wall if solved else max(wall, 1000.0))  # who does not solve it has not ended
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    wish = parser.parse_args()
    for row in [*STEPS, WALL]:
        if not re.search(wish.only, row):
            continue
        seen = walls(wish.program, wish.quick) if row == WALL else rates(wish.program, row, wish.quick)
        spread = statistics.stdev(seen) if len(seen) > 1 else 0
        fields = {"row": row, "value": statistics.median(seen), "spread": spread}
        print(json.dumps(fields) if wish.json else f"{row:36s} {fields['value']:14.5g}  +- {fields['spread']:.2g}",
              flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
