"""gym_host.py's half of the short spin, whose rule is short_spin.h's: clock and system calls are the test's own,
so that what is counted is exact, and a spin without an end is a failure and no hang.

gym_host_test.py GYM_HOST SHORT_SPIN: the two files. Needs no package.
"""
import importlib.util
import pathlib
import re
import sys
import unittest
from unittest import mock

SHORT_SPIN = gym_host = None
TICK = 8e-6          # of the test's clock, which each yield moves on by one
YIELDS_MOST = 7      # 48 us are less than 50, 56 are more
LATE = None          # a command that comes when the host sleeps for it
CALLS_MOST = 100000  # more than any of these tests needs


class World:
    """A parent and a system: command n comes after as many yields as commands[n] says, then the parent is gone."""

    def __init__(self, commands):
        self.commands = [*commands, LATE]
        self.calls = self.ticks = 0
        self.yields = []  # of each wait
        self.quads = [0, 0, 0, 0]
        self.begin_wait()

    def begin_wait(self):
        self.yields.append(0)
        self.come_if_due()

    def come_if_due(self):
        if self.commands[len(self.yields) - 1] == self.yields[-1]:
            self.quads[2] += 1

    def called(self):
        self.calls += 1
        if self.calls > CALLS_MOST:
            raise AssertionError("it spins for ever")

    def __getitem__(self, at):
        self.called()
        return self.quads[at]

    def __setitem__(self, at, value):
        self.quads[at] = value

    def perf_counter(self):
        self.called()
        return self.ticks * TICK

    def sched_yield(self):
        self.called()
        self.ticks += 1
        self.yields[-1] += 1
        self.come_if_due()

    def read(self, descriptor, count):
        self.called()
        assert (descriptor, count) == (gym_host.FROM_PARENT, 1)
        if len(self.yields) == len(self.commands):
            return b""
        if self.quads[2] == self.quads[3]:
            self.quads[2] += 1
        return b"\1"

    def write(self, descriptor, data):
        self.called()
        assert (descriptor, data) == (gym_host.TO_PARENT, b"\1") and self.quads[2] == self.quads[3]
        self.begin_wait()


class ShortSpinTest(unittest.TestCase):
    def yields_of(self, *commands):
        """How often the host yielded before each command, and before it slept for the end."""
        world = World(commands)
        with mock.patch.multiple(gym_host, os=world, time=world):
            host = gym_host.Host.__new__(gym_host.Host)
            host.envs, host.words, host.quads, steps = [], [0, 0, gym_host.STEP], world, []
            host.step = lambda: steps.append(1)
            host.serve()
        self.assertEqual(len(steps), len(commands), "one step a command, whenever it comes")
        return world.yields

    def test_it_yields_for_50_us_and_sleeps_then(self):
        self.assertEqual(self.yields_of(), [YIELDS_MOST])

    def test_a_command_within_them_is_taken_when_it_comes(self):
        self.assertEqual(self.yields_of(0, 1, 3, 6, YIELDS_MOST, 0), [0, 1, 3, 6, YIELDS_MOST, 0, YIELDS_MOST])

    def test_ssp_1_after_a_long_wait_the_next_ones_sleep_at_once(self):
        expected = []
        for skipped in (1, 3, 7, 15, 31, 63, 63):
            expected += [YIELDS_MOST] + skipped * [0]
        expected.append(YIELDS_MOST)
        self.assertEqual(self.yields_of(*(len(expected) - 1) * [LATE]), expected)

    def test_ssp_1_a_short_wait_ends_that(self):
        most, missed = YIELDS_MOST, 6 * [LATE]  # a spin, one without, a spin, three without
        self.assertEqual(self.yields_of(*missed, 2, LATE, LATE), [most, 0, most, 0, 0, 0, 2, most, 0, most])

    def test_both_halves_have_the_same_numbers(self):
        text = pathlib.Path(SHORT_SPIN).read_text(encoding="utf-8")
        self.assertEqual(gym_host.SPIN_SECONDS, float(re.search(r"microseconds kMost\{(\d+)\}", text)[1] + "e-6"))
        self.assertEqual(gym_host.SKIP_MOST, int(re.search(r"int kSkipMost = (\d+);", text)[1]))


def load(path):
    spec = importlib.util.spec_from_file_location("gym_host", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    SHORT_SPIN = sys.argv.pop()
    gym_host = load(sys.argv.pop())
    unittest.main()
