"""Records games of the real MinAtar (package minatar 1.0.15, with numpy) with every random draw that it made.

    python3 record_minatar.py OUTPUT_FOLDER

Its RandomState is replaced by one that keeps what it gives. Uniform draws are thousandths, so that three digits hold
one. README.md, section 12, says what the files contain.
"""
import copy
import json
import os
import sys

import numpy
from minatar import Environment

ACTIONS = "nlurdf"


class KeptDraws:
    """The two methods that these games and the package around them use."""

    def __init__(self, seed):
        self.source = numpy.random.RandomState(seed)
        self.uniform, self.choices = [], []

    def rand(self):
        self.uniform.append(int(self.source.randint(1000)))
        return self.uniform[-1] / 1000

    def randint(self, bound):
        assert bound == 2
        self.choices.append(int(self.source.randint(bound)))
        return self.choices[-1]

    def __deepcopy__(self, memo):
        return self  # games are copied to look ahead; what they do there draws nothing


def digest(state):
    """FNV-1a over the bytes of the observation in C order, 32 bits folded into 16."""
    value = 2166136261
    for byte in state.astype(numpy.uint8).tobytes():
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return (value >> 16) ^ (value & 0xFFFF)


def breakout_policy(game, chooser):
    """Goes where the ball will come down, and seldom strolls while it goes up."""
    if game.ball_dir in (0, 1) and chooser.rand() < 0.02:
        return chooser.choice(list("nlr"))
    ahead = copy.deepcopy(game)
    for _ in range(40):
        if ahead.ball_dir in (2, 3) and ahead.ball_y == 8:
            target = ahead.ball_x
            break
        if ahead.act(0)[1]:
            target = ahead.ball_x
            break
    else:
        target = game.ball_x
    return "n" if target == game.pos else "l" if target < game.pos else "r"


HORIZON = 12


def outlook(game, plan):
    """Steps that are survived, and aliens shot, if this is done and then nothing."""
    ahead, shot = copy.deepcopy(game), 0
    for step in range(HORIZON):
        reward, terminal = ahead.act(ACTIONS.index(plan[step]) if step < len(plan) else 0)
        shot += reward
        if terminal:
            return step, shot
    return HORIZON, shot


def invaders_policy(game, chooser):
    """Of going some way and shooting there, and where that ends the game of going aside then: what is survived longest,
    then what hits most, then the shortest way."""

    def best(plans):
        return max((*outlook(game, plan), -len(plan), chooser.rand(), plan) for plan in plans)

    shots = [("l" if way < 0 else "r") * abs(way) + "f" for way in range(-9, 10)]
    first = best(shots + ["lfl", "rfr", "n"])
    if first[0] < HORIZON:
        first = max(first, best([shot + then for shot in shots for then in ("lll", "rrr")]))
    return first[-1][0]


GAMES = {"breakout": ("nlr", breakout_policy), "space_invaders": ("nlrf", invaders_policy)}


def play(name, seed, policy, ramping, sticky, step_max):
    environment = Environment(name, sticky_action_prob=sticky, difficulty_ramping=ramping)
    draws = KeptDraws(seed)
    environment.random = environment.env.random = draws
    chooser = numpy.random.RandomState(seed + 1_000_000)
    minimal, scripted = GAMES[name]
    environment.reset()
    first = digest(environment.state())
    actions, rewards, digests, terminal = [], [], [], False
    while not terminal and len(actions) < step_max:
        if policy == "random":
            action = chooser.choice(list(minimal))
        elif policy == "random6":
            action = chooser.choice(list(ACTIONS))
        else:
            action = scripted(environment.env, chooser)
        actions.append(ACTIONS.index(action))
        reward, terminal = environment.act(actions[-1])
        rewards.append(int(reward))
        digests.append(digest(environment.state()))
    assert len(draws.uniform) == len(actions) and max(rewards) < 10
    return {
        "policy": policy, "seed": seed, "steps": len(actions), "sticky_action_prob": sticky,
        "difficulty_ramping": ramping, "return": sum(rewards), "terminal": bool(terminal),
        "ramp_index": environment.env.difficulty_ramp(),
        "choices": draws.choices,
        "uniform": "".join(f"{draw:03d}" for draw in draws.uniform),
        "action": "".join(map(str, actions)),
        "reward": "".join(map(str, rewards)),
        "obs": f"{first:04x}" + "".join(f"{value:04x}" for value in digests),
    }


def main():
    for name in GAMES:
        episodes = [play(name, 100 + i, "random", True, 0.1, 3000) for i in range(24)]
        episodes += [play(name, 200 + i, "random6", True, 0.25, 3000) for i in range(4)]
        episodes += [play(name, 300 + i, "scripted", True, 0.1, 300) for i in range(20)]
        episodes += [play(name, 400, "scripted", True, 0.0, 1500)]
        episodes += [play(name, 500, "scripted", False, 0.0, 300)]
        content = {
            "format": "rl-golden-1",
            "versions": {"minatar": "1.0.15", "numpy": numpy.__version__,
                         "python": ".".join(map(str, sys.version_info[:3]))},
            "game": name,
            "episodes": episodes,
        }
        with open(os.path.join(sys.argv[1], f"minatar_{name}.json"), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.write("\n")
        print(name, len(episodes), "episodes,", sum(e["steps"] for e in episodes), "steps; returns",
              [e["return"] for e in episodes], "ramp", max(e["ramp_index"] or 0 for e in episodes))


if __name__ == "__main__":
    main()
