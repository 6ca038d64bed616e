"""Steps k Gymnasium environments for the process that started it: the Python side of gym_env.h.

What crosses, and at which descriptors: apps/rl/envs/gym/host_memory.h, version 1. Needs the standard library, numpy and
gymnasium. It is compiled into the library `rl` as text and run from a memfd, so an installed program needs no file.

It ends when its parent does: the kernel sends SIGKILL to its whole process group when the last writer of the pipe at
LIFELINE is gone. (PR_SET_PDEATHSIG would do so when the parent's *thread* ends that started it.)
"""
import fcntl
import importlib
import json
import mmap
import os
import platform
import random
import select
import signal
import sys
import time
import traceback

PROTOCOL, VERSION = "troupe-gym", 2
MEMORY, FROM_PARENT, TO_PARENT, LIFELINE, PROGRAM = 3, 4, 5, 6, 7
RESET_ALL, RESET_ONE, STEP = 1, 2, 3
REASON_BYTES = 256
SPIN_SECONDS, SKIP_MOST = 50e-6, 63
DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")


class Refused(Exception):
    """Why there will be no environment; `kind` is a name that the parent makes a type of error of."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def tie_to_parent():
    fcntl.fcntl(LIFELINE, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(LIFELINE, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(LIFELINE, fcntl.F_SETFL, fcntl.fcntl(LIFELINE, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(LIFELINE, select.POLLIN)
    if poll.poll(0):  # it was gone before
        sys.exit(1)


def read_exactly(count):
    parts = []
    while count:
        part = os.read(FROM_PARENT, count)
        if not part:
            sys.exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def read_frame():
    return json.loads(read_exactly(int.from_bytes(read_exactly(4), "little")))


def write_frame(value):
    text = json.dumps(value, allow_nan=False).encode()
    view = memoryview(len(text).to_bytes(4, "little") + text)
    while view:
        view = view[os.write(TO_PARENT, view):]


def first_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# ---------------------------------------------------------------------------------------------------------- the start


def choose_path(working_folder):
    if getattr(sys.flags, "safe_path", False):
        return
    if working_folder:
        sys.path[0] = os.getcwd()  # as of `python3 -c`: modules in the current folder can be imported
    else:
        del sys.path[0]  # the folder of this file


def load():
    global numpy, gymnasium
    try:
        import numpy
        import gymnasium
    except ImportError as error:
        raise Refused("python", f"{sys.executable} cannot import what environments need: {first_line(error)}; install "
                      "numpy and gymnasium there, or name another Python") from error


def run_import(text, working_folder):
    name, _, call = text.partition(":")
    try:
        module = importlib.import_module(name)
        if call:
            function = module
            for part in call.split("."):
                function = getattr(function, part)
            function()
        else:
            gymnasium.register_envs(module)
    except Exception as error:
        traceback.print_exc()
        hint = "" if working_folder or not isinstance(error, ModuleNotFoundError) else (
            " (where a file names it, modules of the working folder are found by PYTHONPATH alone)")
        raise Refused("import", f"importing {text} failed: {first_line(error)}{hint}") from error


def make_one(setup):
    arguments = dict(setup["env_kwargs"])
    if setup["max_episode_steps"] is not None:
        arguments["max_episode_steps"] = setup["max_episode_steps"]
    return gymnasium.make(setup["env"], **arguments)


def make_all(setup):
    try:
        return [make_one(setup) for _ in range(setup["num_envs"])]
    except gymnasium.error.UnregisteredEnv as error:
        raise Refused("unknown", f"{first_line(error)} (is there a module to import first, as ale_py for ALE/...?)")
    except gymnasium.error.DependencyNotInstalled as error:
        raise Refused("dependency", first_line(error))
    except Exception as error:
        traceback.print_exc()
        raise Refused("make", f"gymnasium.make failed with arguments {json.dumps(setup['env_kwargs'])}: "
                      f"{first_line(error)}") from error


def bounds(array):
    """One number when all are the same."""
    flat = numpy.asarray(array, dtype=numpy.float64).ravel()
    values = flat[:1] if flat.size and (flat == flat[0]).all() else flat
    return [float(x) if numpy.isfinite(x) else ("inf" if x > 0 else "-inf") for x in values]


def integers(array):
    return [int(x) for x in numpy.asarray(array).ravel()]


def describe(space, role):
    """The JSON of spaces/space.h."""
    kinds = gymnasium.spaces
    if isinstance(space, kinds.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, kinds.MultiDiscrete):
        return {"type": "MultiDiscrete", "nvec": integers(space.nvec), "start": integers(space.start)}
    if isinstance(space, kinds.Box) and str(space.dtype) in DTYPES:
        return {"type": "Box", "dtype": str(space.dtype), "shape": [int(n) for n in space.shape],
                "low": bounds(space.low), "high": bounds(space.high)}
    raise Refused("space", f"the {role} space is {str(space)[:300]}: Discrete, MultiDiscrete and Box of "
                  f"{', '.join(DTYPES)} are supported. Register an id of your own that wraps it "
                  "(gymnasium.wrappers.FlattenObservation makes one Box of a Dict or Tuple) and have its module "
                  "imported first")


def has_lives(env):
    """Of ale-py's games."""
    return hasattr(env.unwrapped, "ale")


def fires(env):
    """Of ale-py's games those that wait for FIRE."""
    return has_lives(env) and list(env.unwrapped.get_action_meanings()[1:2]) == ["FIRE"]


def env_spec_text(spec):
    """Of which Gymnasium makes the environment again; None where JSON cannot hold it: a callable, an infinity."""
    try:
        return json.dumps(json.loads(spec.to_json()), allow_nan=False) if spec else None
    except (TypeError, ValueError):
        return None


def make_hello(setup, env):
    spec = env.spec
    return {
        "protocol": PROTOCOL, "version": VERSION,
        "observation_space": describe(env.observation_space, "observation"),
        "action_space": describe(env.action_space, "action"),
        "spec": {"id": spec.id if spec else setup["env"],
                 "max_episode_steps": spec.max_episode_steps if spec else None,
                 "reward_threshold": spec.reward_threshold if spec else None},
        "env_spec": env_spec_text(spec),
        "versions": {"python": platform.python_version(), "gymnasium": gymnasium.__version__,
                     "numpy": numpy.__version__},
        "lives": has_lives(env),
        "fires": fires(env),
    }


# ----------------------------------------------------------------------------------------------------------- stepping


class FaultOnPurpose(Exception):
    pass


class Faults:
    """Faults on purpose (the prefixes throw:, exit: and stall:), a draw a step, from the environment's seed."""

    def __init__(self, rates, seed):
        self.threw = rates["threw"]
        self.exited = self.threw + rates["exited"]
        self.stalled = self.exited + rates["stalled"]
        self.seconds = rates["stall_ms"] / 1000
        self.random = random.Random(seed ^ 0xFA17).random

    def before_step(self):
        draw = self.random()
        if draw >= self.stalled:
            return
        if draw < self.threw:
            raise FaultOnPurpose("of the prefix throw:")
        if draw < self.exited:
            os._exit(70)
        time.sleep(self.seconds)


class Host:
    def __init__(self, setup, envs):
        self.setup, self.envs, self.k = setup, envs, len(envs)
        self.same_step = setup["auto_reset"] == "same_step"
        self.next_step = setup["auto_reset"] == "next_step"
        self.pending = [False] * self.k  # kNextStep: it ended in the step before
        self.fresh = [True] * self.k     # no step of its episode is done yet
        self.rates = setup["faults"]
        self.faults = [None] * self.k
        self.has_lives = has_lives(envs[0])

    def map(self, layout):
        memory = mmap.mmap(MEMORY, layout["bytes"])
        view, at, k = memoryview(memory), layout["offsets"], self.k
        self.words, self.quads = view[:64].cast("I"), view[:64].cast("Q")

        def numbers(name, code, size):
            return view[at[name]:at[name] + k * size].cast(code)

        def rows(name, space):
            """An array of all, and one view a row, of the space's shape."""
            dtype = space.dtype if isinstance(space, gymnasium.spaces.Box) else numpy.int64
            count = k * int(numpy.prod(space.shape, dtype=numpy.int64))
            flat = numpy.frombuffer(memory, dtype, count, at[name])
            every = flat.reshape((k, *space.shape))
            return every, [every[i:i + 1].reshape(space.shape) for i in range(k)]

        self.seeds, self.spare_seeds = numbers("seeds", "Q", 8), numbers("spare_seeds", "Q", 8)
        self.reward, self.ended = numbers("reward", "d", 8), numbers("ended", "I", 4)
        self.terminated, self.truncated = numbers("terminated", "B", 1), numbers("truncated", "B", 1)
        self.is_reset, self.threw = numbers("is_reset", "B", 1), numbers("threw", "B", 1)
        self.lives = numbers("lives", "i", 4)
        self.zeros = bytes(k)
        self.reasons = view[at["reasons"]:at["reasons"] + k * REASON_BYTES]
        self.action_type = self.envs[0].action_space.dtype
        self.actions, _ = rows("actions", self.envs[0].action_space)
        _, self.obs = rows("obs", self.envs[0].observation_space)
        _, self.final_obs = rows("final_obs", self.envs[0].observation_space)

    def begin(self, i, seed=None):
        obs, _ = self.envs[i].reset(seed=seed)
        if seed is not None and self.rates:
            self.faults[i] = Faults(self.rates, seed)
        self.obs[i][...] = obs
        self.pending[i], self.fresh[i] = False, True
        if self.has_lives:
            self.lives[i] = self.envs[i].unwrapped.ale.lives()

    def make_anew(self, i, error):
        """Environment i threw: its state is unknown, so it is made again, with a seed that was not used before. One
        that throws in an episode's first step is not: the process ends, which is counted (restart_counter.h)."""
        if self.fresh[i] and not isinstance(error, FaultOnPurpose):
            raise error
        traceback.print_exception(error)
        reason = first_line(error).encode()[:REASON_BYTES - 1].decode(errors="ignore").encode()  # no half letter
        self.reasons[i * REASON_BYTES:i * REASON_BYTES + len(reason) + 1] = reason + b"\0"
        try:
            self.envs[i].close()
        except Exception:
            traceback.print_exc()
        self.envs[i] = make_one(self.setup)
        self.begin(i, self.spare_seeds[i])
        self.reward[i] = 0.0
        self.terminated[i] = self.truncated[i] = 0
        self.is_reset[i] = self.threw[i] = 1

    def step(self):
        actions = self.actions.astype(self.action_type)  # a copy: an environment may keep its action
        reward, terminated, truncated, rows = self.reward, self.terminated, self.truncated, self.obs
        pending, faults, fresh = self.pending, self.faults, self.fresh
        self.is_reset[:] = self.threw[:] = self.zeros
        num_ended = 0
        for i, env in enumerate(self.envs):
            if pending[i]:
                self.begin(i)
                reward[i] = 0.0
                terminated[i] = truncated[i] = 0
                self.is_reset[i] = 1
                continue
            try:
                if faults[i]:
                    faults[i].before_step()
                obs, reward[i], over, cut, _ = env.step(actions[i])
                if not (over or cut):
                    rows[i][...] = obs
            except Exception as error:
                self.make_anew(i, error)
                continue
            fresh[i] = False
            if self.has_lives:
                self.lives[i] = env.unwrapped.ale.lives()
            terminated[i] = 1 if over else 0
            truncated[i] = 1 if cut else 0
            if over or cut:
                self.ended[num_ended] = i
                self.end(i, num_ended, obs)
                num_ended += 1
        self.words[8] = num_ended

    def end(self, i, row, obs):
        if self.same_step:
            self.final_obs[row][...] = obs
            self.begin(i)
        else:
            self.obs[i][...] = obs
            self.pending[i] = self.next_step

    def spin(self):
        """short_spin.h: whether the next command came before it was time to sleep for it."""
        quads, now, let_others_run = self.quads, time.perf_counter, os.sched_yield
        end = now() + SPIN_SECONDS
        while quads[2] == quads[3]:
            if now() >= end:
                return False
            let_others_run()
        return True

    def serve(self):
        quads, bell, read, write = self.quads, b"\1", os.read, os.write
        skip = missed = 0
        while True:
            if skip:
                skip -= 1
            else:
                missed = 0 if self.spin() else min(2 * missed + 1, SKIP_MOST)
                skip = missed
            if not read(FROM_PARENT, 1):
                break
            command = self.words[2]
            if command == STEP:
                self.step()
            elif command == RESET_ALL:
                for i in range(self.k):
                    self.begin(i, self.seeds[i])
            elif command == RESET_ONE:
                self.begin(self.words[3])
            quads[3] = quads[2]
            write(TO_PARENT, bell)
        for env in self.envs:
            env.close()


def main():
    tie_to_parent()
    for descriptor in (MEMORY, FROM_PARENT, TO_PARENT, LIFELINE, PROGRAM):
        os.set_inheritable(descriptor, False)  # of what an environment may start
    sys.stdout.reconfigure(line_buffering=True)
    setup = read_frame()
    try:
        if setup["version"] != VERSION:
            raise Refused("version", f"this is version {VERSION}, not {setup['version']}")
        choose_path(setup["working_folder"])
        load()
        if setup["import"]:
            run_import(setup["import"], setup["working_folder"])
        envs = make_all(setup)
        hello = make_hello(setup, envs[0])
    except Refused as error:
        write_frame({"protocol": PROTOCOL, "version": VERSION, "error": {"kind": error.kind, "message": str(error)}})
        return
    host = Host(setup, envs)
    write_frame(hello)
    host.map(read_frame())
    host.serve()


if __name__ == "__main__":
    main()
