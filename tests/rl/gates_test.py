"""PPO, DQN and SAC learn: the presets of docs/rl.md, one of its seeds each, until the gate decides.

A gate (GAT-1 to GAT-3 of training/gate.h): the first copy of the policy whose mean over 100 episodes without
exploration reaches the threshold reaches it again on 100 other seeds.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

RL = None


class GatesTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tg-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.temporary.cleanup()

    def check(self, preset, seed, threshold):
        folder = f"{self.root}/{preset}"
        done = subprocess.run([RL, "train", "--preset", preset, "--seed", str(seed), "--stop-at-gate",
                               "--no-tensorboard", "--out", folder], env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=400, check=False)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        self.assertIn(f"gate {threshold}: passed by the copy of ", done.stdout, said)
        with open(f"{folder}/result.json", encoding="utf-8") as file:
            result = json.load(file)
        gate, copies = result["gate"], result["evaluations"]
        self.assertEqual((gate["state"], gate["threshold"]), ("passed", threshold))
        self.assertGreaterEqual(gate["again"], threshold)
        # The first copy that reached it is the one that decided; none before it did.
        reached = next(steps for steps, mean, _ in copies if mean >= threshold)
        self.assertEqual(gate["steps"], reached)
        # It ended with the gate, within the preset's steps.
        self.assertTrue(result["config"]["stop_at_gate"])
        self.assertEqual(result["config"]["seed"], seed)
        self.assertGreaterEqual(result["steps"], gate["steps"])
        self.assertLess(result["steps"], result["config"]["total_steps"])
        self.assertFalse(result["interrupted"])
        self.assertEqual(result["faults"], {"threw": 0, "exited": 0, "stalled": 0})
        for file in ("policy.bin", "best.bin", "checkpoint.bin"):
            self.assertTrue(os.path.exists(f"{folder}/{file}"), file)

    def test_ppo_on_cartpole(self):
        self.check("ppo-cartpole", 1001, 475)

    def test_dqn_on_cartpole(self):
        self.check("dqn-cartpole", 1001, 475)

    def test_sac_on_pendulum(self):
        self.check("sac-pendulum", 1004, -180)


if __name__ == "__main__":
    RL = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
