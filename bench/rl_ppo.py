"""PPO on CartPole until the mean return of 100 episodes reaches 475: the program of apps/rl, once for each of ten
seeds.

Prints rows as the other measures do. A run that does not solve the task counts as its whole time, and at least 1000 s.
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

ROWS = ["rl/ppo_cartpole_seconds", "rl/ppo_cartpole_worst_of_9", "rl/ppo_cartpole_program_seconds"]


def one(program, seed):
    """Seconds until solved, and of the whole program."""
    with tempfile.TemporaryDirectory(prefix="troupe-bench-") as folder:
        result = os.path.join(folder, "result.json")
        start = time.monotonic()
        done = subprocess.run([program, "--seed", str(seed), "--out", folder, "--json", result],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600)
        wall = time.monotonic() - start
        if done.returncode not in (0, 1) or not os.path.exists(result):
            raise RuntimeError(f"{program} --seed {seed} ended with {done.returncode}: {done.stderr[-500:]}")
        with open(result, encoding="utf-8") as file:
            outcome = json.load(file)
    solved = outcome.get("solved_seconds")
    return (solved if outcome.get("solved") and solved is not None else max(wall, 1000.0)), wall


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not any(re.search(arguments.only, row) for row in ROWS):
        return 0
    seeds = range(1, 4 if arguments.quick else 11)
    times, walls = zip(*(one(arguments.program, seed) for seed in seeds))
    kept = sorted(times)[:-1]  # the nine best of ten
    spread = statistics.stdev(times)
    values = zip(ROWS, (statistics.median(times), kept[-1], statistics.median(walls)))
    for row, value in values:
        if not re.search(arguments.only, row):
            continue
        fields = {"row": row, "value": value, "spread": spread}
        if row == ROWS[2]:
            fields |= {"unit": "s", "better": "lower"}
        print(json.dumps(fields) if arguments.json else f"{row:36s} {value:14.5g}  +- {spread:.2g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
