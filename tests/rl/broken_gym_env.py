"""An environment of Gymnasium that throws, for gym_real_test.cc: imported by its name, as a user's module is."""
import gymnasium
import numpy


class Broken(gymnasium.Env):
    """Shows (seed modulo 1000, steps); throws when its action is 1, where `how` says."""

    observation_space = gymnasium.spaces.Box(0, numpy.inf, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, how):
        self.how, self.first, self.steps = how, 0, 0

    def obs(self):
        return numpy.array([self.first, self.steps], numpy.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.how == "reset":
            raise ValueError("the simulator diverged")
        self.first, self.steps = (seed or 0) % 1000, 0
        return self.obs(), {}

    def step(self, action):
        self.steps += 1
        if action == 1 and self.steps == {"first step": 1, "third step": 3}[self.how]:
            raise ValueError("the simulator diverged")
        return self.obs(), 1.0, False, False, {}


gymnasium.register("Broken-v0", Broken)
