#!/usr/bin/env python3
"""Plays the Python side of the Gymnasium bridge with the standard library alone, for tests of the protocol and its
faults: the program that a test names as its Python. What it does wrong is the environment's name; with {"once": FILE}
it does so only until FILE is there, which it makes, and is {"then": ...} after that, or good.

Its environments count: the observation is (the seed modulo 1000, steps), each reward 1, and an episode
ends after {"length": n} steps, default 5.
"""
import fcntl
import json
import mmap
import os
import signal
import struct
import sys
import time


def read_exactly(count):
    data = b""
    while len(data) < count:
        part = os.read(4, count - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


def read_frame():
    return json.loads(read_exactly(struct.unpack("<I", read_exactly(4))[0]))


def write_frame(value):
    text = json.dumps(value).encode()
    os.write(5, struct.pack("<I", len(text)) + text)


def tie_to_parent():
    fcntl.fcntl(6, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(6, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(6, fcntl.F_SETFL, fcntl.fcntl(6, fcntl.F_GETFL) | os.O_ASYNC)


def ignore_term_in_group():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    companion = os.fork()
    if companion == 0:
        time.sleep(600)
    return companion


tie_to_parent()
setup = read_frame()
name, kwargs, k = setup["env"], setup["env_kwargs"], setup["num_envs"]
if "once" in kwargs:
    try:
        os.close(os.open(kwargs["once"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        name = kwargs.get("then", "count")

if name == "crash-at-start":
    print("no license found", file=sys.stderr)
    sys.exit(3)
if name == "silent":
    time.sleep(600)
if name == "garbage":
    os.write(5, b"Python 2.7.18 (default)\n")
    time.sleep(600)
if name == "not-json":
    os.write(5, struct.pack("<I", 9) + b"{\"hello\":")
    time.sleep(600)
if name == "flood":
    for _ in range(200):
        print("x" * 10000, file=sys.stderr)
hello = {
    "protocol": "troupe-gym", "version": 3 if name == "version" else 2,
    "observation_space": {"type": "Box", "dtype": "float32", "shape": [2], "low": [0], "high": ["inf"]},
    "action_space": {"type": "Discrete", "n": 2, "start": 0},
    "spec": {"id": name, "max_episode_steps": None, "reward_threshold": 4.5},
    "versions": {"python": "fake"},
    "lives": False,
}
if name == "huge":
    hello["observation_space"]["shape"] = [1 << 16, 1 << 15]
if name == "other-spaces":
    hello["action_space"]["n"] = 3
if name == "dict":
    hello["observation_space"] = {"type": "Dict"}
if name == "env-spec":
    hello["env_spec"] = "{\"id\": \"env-spec\", \"entry_point\": \"a:B\"}"
if name == "torn-env-spec":
    hello["env_spec"] = "{\"id\": "
if name == "no-spec":
    del hello["spec"]
if name == "term-is-ignored":
    companion = ignore_term_in_group()
write_frame(hello)

layout = read_frame()
memory, at = mmap.mmap(3, layout["bytes"]), layout["offsets"]
view = memoryview(memory)
words, quads = view[:64].cast("I"), view[:64].cast("Q")


def array(what, code, count=k):
    return view[at[what]:at[what] + struct.calcsize(code) * count].cast(code)


seeds, reward, obs = array("seeds", "Q"), array("reward", "d"), array("obs", "f", 2 * k)
flags = {what: array(what, "B") for what in ("terminated", "truncated", "is_reset", "threw")}
ended, final_obs = array("ended", "I"), array("final_obs", "f", 2 * k)
first, done, pending = [0] * k, [0] * k, [False] * k
commands = 0


def show(i):
    obs[2 * i], obs[2 * i + 1] = first[i], done[i]


def begin(i):
    done[i], pending[i] = 0, False
    show(i)


def misbehave():
    if name == "slow" and commands > 1:  # a step
        if commands == 2:
            with open(kwargs["played"], "a", encoding="utf-8") as file:  # a line of each process
                file.write(f"{os.getpid()}\n")
        while commands > 2 and "gate" in kwargs and not os.path.exists(kwargs["gate"]):
            time.sleep(0.01)
        time.sleep(0.1)
    if name == "flood":
        for _ in range(200):
            print("y" * 10000, file=sys.stderr)
    if name == "descriptors":
        open_now = sorted(int(x) for x in os.listdir("/proc/self/fd"))
        obs[0], obs[1] = len(open_now) - 1, open_now[-2]  # without that of listdir itself
    if name == "term-is-ignored":
        obs[0] = companion
    if commands < 4:  # a reset, two steps
        return
    if name in ("stall", "term-is-ignored"):
        time.sleep(600)
    if name == "flood-and-stall":
        while True:
            print("z" * 1000, file=sys.stderr)
    if name == "exit":
        print("the simulator ran out of licenses", file=sys.stderr, flush=True)
        os._exit(7)
    if name == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if name == "many-ended":
        words[8] = 1000
    if name == "foreign-ended":
        words[8], ended[0] = 1, k
    if name == "unanswered":
        quads[3] = 0


while os.read(4, 1):
    commands += 1
    command, words[8] = words[2], 0
    if command == 1:
        for i in range(k):
            first[i] = seeds[i] % 1000
            begin(i)
    elif command == 2:
        if name == "exit-in-reset-one":
            os._exit(7)
        begin(words[3])
    else:
        for i in range(k):
            for what in flags.values():
                what[i] = 0
            if pending[i]:
                begin(i)
                reward[i], flags["is_reset"][i] = 0, 1
                continue
            done[i] += 1
            reward[i] = 1
            show(i)
            if done[i] < kwargs.get("length", 5):
                continue
            flags["terminated"][i] = 1
            j = words[8]
            ended[j], final_obs[2 * j], final_obs[2 * j + 1] = i, first[i], done[i]
            words[8] = j + 1
            if setup["auto_reset"] == "same_step":
                begin(i)
            else:
                pending[i] = setup["auto_reset"] == "next_step"
    quads[3] = quads[2]
    misbehave()
    os.write(5, b"\1")
