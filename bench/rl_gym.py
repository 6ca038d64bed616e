"""Environments of Gymnasium: eight of them in two Python processes, stepped from C++ (rl_gym.cc), and with --peer, in
turns with it, in Gymnasium's own vector environments, the better of the synchronous and the asynchronous one, by the
same interpreter.

Prints rows as the other measures do, with the peer's value in them.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import gym_peer  # noqa: E402

TURNS = 5
# The environment, and the module that registers it.
ROWS = {
    "rl/gym_bridge_cartpole": ("CartPole-v1", ""),
    "rl/gym_bridge_lunarlander": ("LunarLander-v3", ""),
    "rl/gym_bridge_pong": ("ALE/Pong-v5", "ale_py"),
}


def number_of(command):
    """What a program prints: steps a second."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
    return float(done.stdout.split()[-1])


def measure(row, wish):
    """Its fields: medians of the turns; of the peer's two kinds, the better median."""
    env_id, module = ROWS[row]
    seconds = "0.4" if wish.quick else "2"
    ours, peers = [], {kind: [] for kind in gym_peer.KINDS}
    for _ in range(1 if wish.quick else TURNS):
        ours.append(number_of([wish.program, wish.python, env_id, module, seconds]))
        for kind, rates in peers.items() if wish.peer else []:
            rates.append(number_of([wish.python, gym_peer.__file__, kind, env_id, module, seconds]))
    fields = {"row": row, "value": statistics.median(ours), "spread": statistics.stdev(ours) if len(ours) > 1 else 0}
    if wish.peer:
        fields["peers"] = {gym_peer.PEER: max(statistics.median(rates) for rates in peers.values())}
    return fields


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--python", required=True, help="an interpreter that has gymnasium")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    wish = parser.parse_args()
    for row in ROWS:
        if not re.search(wish.only, row):
            continue
        fields = measure(row, wish)
        peers = "".join(f"  {name} {value:.5g}" for name, value in fields.get("peers", {}).items())
        print(json.dumps(fields) if wish.json else
              f"{row:36s} {fields['value']:14.5g}  +- {fields['spread']:.2g}{peers}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
