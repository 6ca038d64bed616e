"""Event files, read back by TensorBoard's own readers.

tensorboard_test.py DRIVER PYTHON: PYTHON is the one that has tensorboard, unless TROUPE_RL_PYTHON names another one.
Without it all is skipped, and under TROUPE_REQUIRE_GYMNASIUM (.ci/run) that is a failure.
"""
import glob
import math
import os
import subprocess
import sys
import tempfile
import unittest

DRIVER = None
SCALE = 1_000_000_000


class EventFilesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="tb-")
        cls.folder = cls.temporary.name
        subprocess.run([DRIVER, cls.folder], check=True, timeout=60)
        cls.files = sorted(glob.glob(cls.folder + "/*"))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_the_loader_reads_every_record_of_both_files(self):
        from tensorboard.backend.event_processing import event_file_loader
        self.assertEqual(len(self.files), 2)
        for path, first, last in zip(self.files, (0, 10), (20, 15)):
            events = list(event_file_loader.LegacyEventFileLoader(path).Load())
            self.assertEqual(events[0].file_version, "brain.Event:2")
            self.assertEqual((events[1].session_log.status, events[1].step), (1, SCALE * first))
            self.assertEqual([event.step for event in events[2:]], [SCALE * step for step in range(first, last + 1)])
            self.assertEqual(len(os.path.basename(path).split(".tfevents.")), 2)

    def check(self, scalars):
        """What a reader of the folder has: the second file replaces the first one from step 10 on."""
        returns = scalars("rollout/mean_return")
        self.assertEqual([(step, value) for _, step, value in returns],
                         [(SCALE * step, float(step if step < 10 else 2 * step)) for step in range(15)])
        self.assertEqual(returns[3][0], 1_700_000_003.0)
        self.assertEqual(returns[12][0], 1_700_000_112.0)
        for step, (_, _, value) in enumerate(scalars("train/kl")):
            self.assertAlmostEqual(value, 0.5 / (step + 1), places=6)
        losses = scalars("train/loss")
        self.assertEqual([step for _, step, _ in losses], [SCALE * 15])
        self.assertTrue(math.isnan(losses[0][2]))

    def test_the_accumulator_has_the_scalars_and_forgets_what_was_done_again(self):
        from tensorboard.backend.event_processing import event_accumulator
        accumulator = event_accumulator.EventAccumulator(self.folder, size_guidance={"scalars": 0})
        accumulator.Reload()
        self.assertEqual(accumulator.Tags()["scalars"], ["rollout/mean_return", "train/kl", "train/loss"])
        self.check(lambda tag: [(e.wall_time, e.step, e.value) for e in accumulator.Scalars(tag)])

    def test_so_does_the_reader_behind_the_page(self):
        from tensorboard.backend.event_processing import plugin_event_accumulator
        from tensorboard.util import tensor_util
        accumulator = plugin_event_accumulator.EventAccumulator(self.folder, size_guidance={"tensors": 0})
        accumulator.Reload()
        self.assertEqual(set(accumulator.PluginTagToContent("scalars")),
                         {"rollout/mean_return", "train/kl", "train/loss"})
        self.check(lambda tag: [(e.wall_time, e.step, float(tensor_util.make_ndarray(e.tensor_proto)))
                                for e in accumulator.Tensors(tag)])


def has_tensorboard(python):
    return os.path.exists(python) and subprocess.run([python, "-c", "import tensorboard"], check=False,
                                                     stderr=subprocess.DEVNULL, timeout=60).returncode == 0


if __name__ == "__main__":
    DRIVER, PYTHON = sys.argv[1:3]
    PYTHON = os.environ.get("TROUPE_RL_PYTHON") or PYTHON
    if "--here" not in sys.argv:
        if not has_tensorboard(PYTHON):
            print(f"skipped: {PYTHON} has no tensorboard (cmake/install-deps rl makes one that has)")
            sys.exit(1 if os.environ.get("TROUPE_REQUIRE_GYMNASIUM") else 77)
        os.execv(PYTHON, [PYTHON, __file__, DRIVER, PYTHON, "--here"])
    unittest.main(argv=sys.argv[:1])
