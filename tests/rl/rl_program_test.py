"""rl as a user meets it: any environment, settings from flags and files, going on, playing, and its messages."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RL = None


class ProgramTest(unittest.TestCase):
    """Runs the program in a session folder of the test's own."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tr-")
        self.root = self.temporary.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.temporary.cleanup()

    def run_rl(self, code, *arguments, **more):
        done = subprocess.run([RL, *arguments], env=self.environment | more.pop("environment", {}), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=240, **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def train(self, code, folder, *arguments, **more):
        return self.run_rl(code, "train", "--out", f"{self.root}/{folder}", *arguments, **more)

    def result(self, folder):
        with open(f"{self.root}/{folder}/result.json", encoding="utf-8") as file:
            return json.load(file)

    def parameters(self, folder):
        """All bytes behind the header of the policy's safetensors file."""
        with open(f"{self.root}/{folder}/policy.bin", "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            return json.loads(file.read(size)), file.read()


    def arrays(self, folder):
        """Those of the checkpoint but for the log's, in which there are times."""
        with open(f"{self.root}/{folder}/checkpoint.bin", "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            data = file.read()
        return {name: data[slice(*about["data_offsets"])] for name, about in header.items()
                if name != "__metadata__" and not name.startswith("log/")}


class RlTest(ProgramTest):
    PENDULUM = ("--env", "Pendulum-v1", "--normalize-observation", "--normalize-reward", "--num-envs", "4", "--horizon",
                "32", "--steps", "1024", "--hidden", "32,16", "--activation", "relu", "--initial-log-std", "-0.5")

    def test_an_environment_of_numbers_without_a_threshold_is_trained_and_played(self):
        out, err = self.train(0, "p", *self.PENDULUM)
        self.assertTrue(err.startswith("settings: algo=ppo env=Pendulum-v1 "), err)
        self.assertIn(" learning_rate=0.002\n", err)
        self.assertIn("trained: 1024 steps", out)
        self.assertIn("without exploration: no copy was played", out)
        result = self.result("p")
        self.assertIsNone(result["threshold"])
        self.assertEqual(result["config"]["hidden"], [32, 16])
        header, _ = self.parameters("p")
        self.assertEqual(header["policy/hidden0/weight"]["shape"], [32, 3])
        self.assertEqual(header["log_std"]["shape"], [1])
        self.assertEqual(header["moments/0"]["shape"], [7])  # count, three means, three squared deviations
        out, _ = self.run_rl(0, "evaluate", f"{self.root}/p/policy.bin", "--episodes", "2")
        self.assertIn("Pendulum-v1: mean return -", out)

    def test_the_kept_configuration_makes_the_same_run_again(self):
        self.train(0, "one", *self.PENDULUM)
        self.train(0, "two", "--config", f"{self.root}/one/config.yaml")
        self.assertEqual(self.parameters("one")[1], self.parameters("two")[1])
        self.train(0, "three", "--config", f"{self.root}/one/config.yaml", "--seed", "2")
        self.assertNotEqual(self.parameters("one")[1], self.parameters("three")[1])

    def test_progress_and_report_tell_returns_lengths_and_losses(self):
        for code, algo in ((0, "ppo"), (3, "a2c"), (3, "impala"), (3, "dqn")):
            with self.subTest(algo=algo):
                threshold = ("--stop-when-solved",) if algo == "ppo" else ("--steps", "4096")
                out, err = self.train(code, algo, "--algo", algo, *threshold)
                self.assertRegex(err, r"return ([\d.]+)  length \1 .* loss -?[\d.e-]+ .* ETA")  # a reward of 1 a step
                result = self.result(algo)
                self.assertEqual(result["mean_length"], result["mean_return"])
                line = self.lines(algo)[-1]
                self.assertEqual(line["mean_length"], line["mean_return"])
                # Once solved, too.
                self.assertRegex(out, rf"last \d+ episodes: mean return {result['mean_return']:.1f}, interquartile "
                                      rf"mean {result['interquartile_mean_return']:.1f}, mean length ")
                self.assertIn("solved: " if code == 0 else "not solved: ", out)

    def test_a_run_goes_on_with_its_moments_and_settings(self):
        self.train(0, "p", *self.PENDULUM)
        self.train(0, "q", "--resume", f"{self.root}/p/checkpoint.bin", "--steps", "2048")
        result = self.result("q")
        self.assertEqual(result["steps"], 2048)
        self.assertEqual(result["resumed_from_steps"], 1024)
        self.assertEqual(result["config"]["activation"], "relu")
        _, err = self.train(1, "r", "--resume", f"{self.root}/p/checkpoint.bin", "--hidden", "8")
        self.assertIn("another environment or network", err)

    def test_a_resumed_run_of_another_setup_begins_new_episodes_or_is_refused_and_keeps_its_checkpoint(self):
        short = ("--num-workers", "1", "--num-envs", "2", "--horizon", "16", "--keep-going")
        runs = {"ppo": ((*short, "--steps", "64"), ("--clip-reward", "0.5")),
                "dqn": ((*short, "--algo", "dqn", "--steps", "64", "--learning-starts", "32"), ("--n-step", "3")),
                "sac": ((*short, "--algo", "sac", "--env", "Pendulum-v1", "--steps", "64", "--learning-starts", "32"),
                        ("--noise", "colored"))}
        for algo, (settings, other) in runs.items():
            with self.subTest(algo):
                self.train(0 if algo == "sac" else 3, algo, *settings)
                checkpoint = f"{self.root}/{algo}/checkpoint.bin"
                with open(checkpoint, "rb") as file:
                    before = file.read()
                for flag in ("--normalize-reward", "--normalize-observation"):
                    _, err = self.train(1, algo, "--resume", checkpoint, flag, "--steps", "128")
                    self.assertIn(f"the checkpoint was made without {flag}", err)
                with open(checkpoint, "rb") as file:
                    self.assertEqual(file.read(), before)
                _, err = self.train(0 if algo == "sac" else 3, algo, "--resume", checkpoint, *other, "--steps", "128")
                self.assertIn(f"with another {other[0][2:].replace('-', '_')}, environments begin new episodes", err)
                self.assertEqual(self.result(algo)["steps"], 128)

    def test_a_first_round_that_fails_leaves_the_checkpoint_that_it_went_on_from(self):
        self.train(3, "p", "--num-workers", "1", "--num-envs", "2", "--horizon", "16", "--steps", "64")
        checkpoint = f"{self.root}/p/checkpoint.bin"
        with open(checkpoint, "rb") as file:
            before = file.read()
        _, err = self.train(1, "p", "--resume", checkpoint, "--learning-rate", "1e30", "--max-grad-norm", "1e30",
                            "--steps", "128")
        self.assertIn("after 64 steps", err)
        with open(checkpoint, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_a_python_that_was_typed_is_not_asked_about_and_one_that_a_file_names_is(self):
        os.mkdir(f"{self.root}/shared")
        os.chmod(f"{self.root}/shared", 0o777)
        python = f"{self.root}/shared/python3"
        shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_gym_host.py"), python)
        short = ("--num-workers", "1", "--num-envs", "2", "--horizon", "16")
        self.train(3, "p", "--env", "gym:count", "--python", python, *short, "--steps", "64")
        self.assertTrue(os.path.exists(f"{self.root}/p/policy.bin"))
        resumed = ("--resume", f"{self.root}/p/checkpoint.bin", "--steps", "128")
        _, err = self.train(1, "q", *resumed)
        self.assertRegex(err, "a file names the program .* or name one with --python")
        self.train(3, "q", *resumed, "--python", python)
        self.assertEqual(self.result("q")["resumed_from_steps"], 64)
        for file in ("policy.bin", "checkpoint.bin"):
            _, err = self.run_rl(1, "evaluate", f"{self.root}/p/{file}", "--episodes", "1")
            self.assertIn("a file names the program", err)

    def test_a_file_has_nothing_run_that_lies_in_the_working_folder(self):
        os.makedirs(f"{self.root}/bin"), os.makedirs(f"{self.root}/work")
        host = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_gym_host.py")
        with open(f"{self.root}/bin/python3", "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec '{sys.executable}' '{host}'\n")
        os.chmod(f"{self.root}/bin/python3", 0o755)
        settings = ("--env", "gym:count", "--num-workers", "1", "--num-envs", "2", "--horizon", "16")
        path = {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        self.train(3, "p", *settings, "--steps", "64", environment=path)
        with open(f"{self.root}/work/numpy.py", "w", encoding="utf-8") as file:
            file.write("open('ran', 'w').close()\n")
        here = {"cwd": f"{self.root}/work", "environment": {"PYTHONDONTWRITEBYTECODE": "1"}}
        for file in ("policy.bin", "checkpoint.bin"):  # no Gymnasium, or no such environment
            self.run_rl(1, "evaluate", f"{self.root}/p/{file}", "--episodes", "1", **here)
        self.train(1, "q", "--resume", f"{self.root}/p/checkpoint.bin", "--steps", "128", **here)
        self.assertEqual(os.listdir(f"{self.root}/work"), ["numpy.py"])
        self.train(1, "q", *settings, **here)  # typed: as any module of a user's
        self.assertIn("ran", os.listdir(f"{self.root}/work"))

    def test_faults_are_counted_by_their_kind(self):
        self.train(3, "f", "--env", "throw:CartPole-v1", "--env-kwargs", '{"p": 0.02}', "--steps", "4096")
        faults = self.result("f")["faults"]
        self.assertGreater(faults["threw"], 20)
        self.assertEqual((faults["exited"], faults["stalled"]), (0, 0))
        # The process of a runner ends with one of its environments, and breaks off the episodes of all (PA-3).
        self.train(3, "x", "--env", "exit:CartPole-v1", "--env-kwargs", '{"p": 0.0005}', "--steps", "4096",
                   "--num-workers", "2", "--num-envs", "8", "--keep-going")
        result = self.result("x")
        self.assertEqual(result["steps"], 4096)
        self.assertGreater(result["faults"]["exited"], 0)
        self.assertEqual(result["faults"]["exited"] % 8, 0)

    def test_a_device_that_learners_do_not_have_is_refused(self):
        _, err = self.train(2, "gpu", "--algo", "ars", "--device", "cuda")
        self.assertIn("device cuda: the learner of ars calculates on the CPU only", err)

    def test_faulted_episodes_are_dropped_on_demand(self):
        for algo, more in {"ppo": (), "a2c": (), "impala": (), "dqn": ("--n-step", "3")}.items():
            with self.subTest(algo):
                for prefix in ("bootstrap", "drop"):
                    # Short batches and frequent faults: with drop some updates have nothing to learn from.
                    self.train(3, f"{algo}-{prefix}", "--algo", algo, "--env", "throw:CartPole-v1", "--env-kwargs",
                               '{"p": 0.1}', "--fault-prefix", prefix, "--num-workers", "1", "--num-envs", "1",
                               "--horizon", "8", "--steps", "1024", "--keep-going")
                    result = self.result(f"{algo}-{prefix}")
                    self.assertEqual(result["steps"], 1024)
                    self.assertEqual(result["config"]["fault_prefix"], prefix)
                    self.assertGreater(result["faults"]["threw"], 20)
        _, err = self.train(2, "no", "--algo", "ars", "--fault-prefix", "drop")
        self.assertIn("'fault_prefix' means nothing to ars", err)
        for algo in ("ars", "bc"):  # their learners see no rewards, or raw ones
            for flag in (("--clip-reward", "1"), ("--normalize-reward",)):
                _, err = self.train(2, "no", "--algo", algo, *flag)
                self.assertIn(f"'{flag[0][2:].replace('-', '_')}' means nothing to {algo}", err)

    def curve(self, folder):
        return self.result(folder)["curve"]

    def interrupted(self, folder, *arguments):
        """A run that Ctrl-C ends after a few rounds, wherever it is then. One that was nearly over by then is made
        again: nothing was interrupted."""
        total = int(arguments[arguments.index("--steps") + 1])
        for _ in range(5):
            code, reached, said = self.interrupt_after_a_few_rounds(folder, *arguments)
            if reached < 0.8 * total:
                self.assertEqual(code, 130, said)
                return self.result(folder)["steps"]
            shutil.rmtree(f"{self.root}/{folder}")
        return self.fail("five runs were over before they were interrupted")

    def interrupt_after_a_few_rounds(self, folder, *arguments):
        """(Its exit code, the steps that it had told of at the signal, what it said.)"""
        running = subprocess.Popen([RL, "train", "--out", f"{self.root}/{folder}", *arguments], env=self.environment,
                                   text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        progress = f"{self.root}/{folder}/progress.jsonl"
        deadline = time.monotonic() + 60
        while not (os.path.exists(progress) and os.path.getsize(progress) > 1000):
            self.assertLess(time.monotonic(), deadline, "no progress")
            time.sleep(0.01)
        running.send_signal(signal.SIGSTOP)  # so that it tells of no more rounds before it has the other signal
        with open(progress, encoding="utf-8") as file:
            reached = json.loads(file.read().rsplit("\n", 2)[-2])["steps"]
        running.send_signal(signal.SIGINT)
        running.send_signal(signal.SIGCONT)
        out, err = running.communicate(timeout=60)
        return running.returncode, reached, out + err

    EXACT = {
        "ppo": ("--env", "CartPole-v1", "--num-envs", "4", "--steps", "400000", "--normalize-observation"),
        "a2c": ("--env", "CartPole-v1", "--steps", "250000"),
        "dqn": ("--env", "CartPole-v1", "--hidden", "32,32", "--horizon", "32", "--updates", "8", "--steps", "40000",
                "--prioritized-replay", "--n-step", "3"),
        "sac": ("--env", "Pendulum-v1", "--hidden", "16,16", "--minibatch", "32", "--steps", "3000", "--noise",
                "ornstein-uhlenbeck"),
    }

    def test_a_long_round_is_finished_for_its_checkpoint(self):
        host, played = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_gym_host.py"), f"{self.root}/step"
        running = subprocess.Popen([RL, "train", "--out", f"{self.root}/long", "--env", "gym:slow", "--env-kwargs",
                                    json.dumps({"played": played}), "--python", host, "--num-workers", "1",
                                    "--num-envs", "1", "--horizon", "128"], env=self.environment, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not os.path.exists(played):  # before its first step no round is open (LGR-3)
            self.assertLess(time.monotonic(), deadline, "it did not begin")
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)  # of 12.8 s; the runtime's own grace is 10 s
        out, err = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, out + err)
        self.assertIn("this round is finished for the checkpoint", err)
        self.assertEqual(self.result("long")["steps"], 128)
        self.assertTrue(os.path.exists(f"{self.root}/long/checkpoint.bin"))

    def test_a_run_that_was_interrupted_goes_on_bit_for_bit(self):
        for algo, arguments in self.EXACT.items():
            with self.subTest(algo):
                arguments = ("--algo", algo, *arguments, "--keep-going", "--no-tensorboard")
                code = 0 if algo == "sac" else 3  # Pendulum has no threshold
                stopped = self.interrupted(f"{algo}-half", *arguments)
                whole = subprocess.run([RL, "train", "--out", f"{self.root}/{algo}-whole", *arguments],
                                       env=self.environment, capture_output=True, text=True, timeout=240, check=False)
                self.assertIn(whole.returncode, (0, code), whole.stderr)
                self.assertLess(stopped, self.result(f"{algo}-whole")["steps"], "it was not interrupted in the middle")
                _, err = self.run_rl(whole.returncode, "train", "--out", f"{self.root}/{algo}-half", "--resume",
                                     f"{self.root}/{algo}-half/checkpoint.bin", "--no-tensorboard")
                self.assertNotIn("resumed:", err)
                self.assertEqual(self.parameters(f"{algo}-half")[1], self.parameters(f"{algo}-whole")[1])
                self.assertEqual(self.curve(f"{algo}-half"), self.curve(f"{algo}-whole"))

    def test_rounds_that_begin_early_change_nothing(self):
        """ALG-3: none begins early where what it learns may end the run."""
        for folder, learners in (("one", "1"), ("two", "2")):
            with self.subTest(folder):
                arguments = ("--algo", "dqn", "--env", "CartPole-v1", "--hidden", "32,32", "--horizon", "8",
                             "--updates", "2", "--learning-starts", "500", "--steps", "2048", "--learners", learners)
                self.train(3, f"{folder}-each", *arguments)
                self.train(3, f"{folder}-early", *arguments, "--keep-going")
                self.assertEqual(self.parameters(f"{folder}-each")[1], self.parameters(f"{folder}-early")[1])
                self.assertEqual(self.curve(f"{folder}-each"), self.curve(f"{folder}-early"))

    def test_an_update_that_fails_ends_what_began_early_behind_it(self):
        """ALG-3: the checkpoint of the failure has no round more than its log."""
        arguments = ("--algo", "dqn", "--env", "CartPole-v1", "--hidden", "32,32", "--horizon", "8", "--updates", "2",
                     "--learning-starts", "500", "--steps", "2048", "--learning-rate", "1e30", "--max-grad-norm",
                     "1e30")
        _, err = self.train(1, "each", *arguments)
        self.assertIn("DQN's loss is", err)
        self.train(1, "early", *arguments, "--keep-going")
        each, early = self.arrays("each"), self.arrays("early")
        self.assertEqual(each.keys(), early.keys())
        self.assertEqual([name for name in each if each[name] != early[name]], [])

    def test_what_is_not_exact_after_going_on_is_said(self):
        dqn = ("--algo", "dqn", "--hidden", "32,32", "--steps", "4096", "--no-replay")
        self.train(3, "d", *dqn)
        _, err = self.train(3, "d", "--resume", f"{self.root}/d/checkpoint.bin", "--steps", "8192")
        self.assertIn("resumed: the checkpoint has no replay: it fills anew; the checkpoint has no states of", err)
        self.train(3, "p", "--num-envs", "4", "--steps", "2048")
        _, err = self.train(3, "p", "--resume", f"{self.root}/p/checkpoint.bin", "--steps", "4096", "--num-envs", "8")
        self.assertIn("resumed: it was 2 runners of 4 environments: those of now begin new episodes", err)

    ARS = ("--algo", "ars", "--directions", "4", "--seed", "3", "--keep-going")

    def test_a_search_does_not_depend_on_its_runners_and_goes_on_bit_for_bit(self):
        self.train(3, "whole", *self.ARS, "--steps", "30000")
        self.train(3, "three", *self.ARS, "--steps", "30000", "--num-workers", "3")
        self.assertEqual(self.parameters("whole")[1], self.parameters("three")[1])
        self.train(3, "half", *self.ARS, "--steps", "3000")
        self.train(3, "half", "--resume", f"{self.root}/half/checkpoint.bin", "--steps", "30000")
        self.assertEqual(self.parameters("whole")[1], self.parameters("half")[1])
        _, err = self.train(2, "e", "--algo", "ars", "--num-envs", "4")
        self.assertIn("'num_envs' means nothing to ars", err)

    def test_demonstrations_are_collected_and_imitated(self):
        self.train(0, "expert", "--seed", "7", "--keep-going", "--steps", "100000", "--evaluate-every", "0.1")
        out, _ = self.run_rl(0, "collect", f"{self.root}/expert/best.bin", "--episodes", "5", "--out",
                             f"{self.root}/demonstrations")
        self.assertIn("CartPole-v1: 5 episodes, 2500 steps, mean return 500.0", out)
        imitate, data = ("--algo", "bc", "--demonstrations"), f"{self.root}/demonstrations"
        clone = (*imitate, data)
        out, _ = self.train(0, "whole", *clone, "--steps", "200000")
        self.assertIn("gate 475: passed", out)
        self.assertIn("trained: 200704 steps\n", out, "it has played nothing itself")
        self.assertNotIn("last 100 episodes", out)
        self.train(0, "half", *clone, "--steps", "100000")
        self.train(0, "half", "--resume", f"{self.root}/half/checkpoint.bin", "--steps", "200000")
        self.assertEqual(self.parameters("whole")[1], self.parameters("half")[1])
        for arguments, wrong in (((data, "--demonstration-episodes", "6"), "has 5 episodes, not 6"),
                                 ((data, "--env", "Acrobot-v1"), "was played on CartPole-v1"),
                                 ((f"{self.root}/none",), "none"),
                                 ((f"{self.root}/whole/policy.bin",), "not a file of demonstrations")):
            _, err = self.train(1, "e", *imitate, *arguments)
            self.assertIn(wrong, err)
        for flag in ("--stop-when-solved", "--keep-going"):  # it plays no episodes while it learns
            self.assertIn("'stop_when_solved' means nothing to bc", self.train(2, "e", *imitate, "x", flag)[1])
        _, err = self.train(1, "e", "--algo", "bc")
        self.assertIn("rl collect", err)

    DQN = ("--algo", "dqn", "--hidden", "32,32", "--horizon", "32", "--updates", "8", "--learning-starts", "200",
           "--steps", "1600", "--target-interval", "50")
    SHARDS = ("--replay-shards", "3", "--prioritized-replay", "--n-step", "3", "--num-workers", "2", "--num-envs", "2")
    SAC = ("--algo", "sac", "--hidden", "16,16", "--minibatch", "32", "--steps", "400", "--learning-starts", "50")

    def lines(self, folder):
        with open(f"{self.root}/{folder}/progress.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_off_policy_runs_are_the_same_again_and_their_policies_play(self):
        for name, arguments in (("dqn", self.DQN), ("sac", self.SAC)):
            out = {}
            for number, extra in (("1", ()), ("2", ()), ("3", ("--seed", "2"))):
                self.train(3 if name == "dqn" else 0, name + number, *arguments, *extra)
                out[number] = self.parameters(name + number)[1]
            self.assertEqual(out["1"], out["2"])
            self.assertNotEqual(out["1"], out["3"])
            played, _ = self.run_rl(0, "evaluate", f"{self.root}/{name}1/policy.bin", "--episodes", "3")
            self.assertIn("over 3 episodes", played)
        self.assertIn("q/hidden0/weight", self.parameters("dqn1")[0])
        self.assertIn("actor/hidden0/weight", self.parameters("sac1")[0])

    def test_a2c_is_the_same_again_and_impala_counts_what_it_consumed(self):
        for run in "ab":
            self.train(3, run, "--algo", "a2c", "--steps", "2000")
        self.assertEqual(self.parameters("a")[1], self.parameters("b")[1])
        # Each fragment waits behind three of its own runner: there are two updates before its turn, whether the other
        # runner gives any in time or not, and it is too old.
        self.train(3, "i", "--algo", "impala", "--steps", "20000", "--num-envs", "4", "--horizon", "20",
                   "--fragments-per-update", "2", "--max-outstanding", "4", "--max-staleness", "1")
        result, last = self.result("i"), self.lines("i")[-1]
        self.assertEqual(result["steps"], 160 * result["updates"])  # two fragments an update, whatever was thrown away
        self.assertGreater(last["thrown_away"], 0)
        self.assertLessEqual(last["staleness"], 1)
        self.train(3, "j", "--resume", f"{self.root}/i/checkpoint.bin", "--steps", "30000", "--surrogate-clip", "0.2")
        self.assertEqual(self.result("j")["resumed_from_steps"], result["steps"])

    LEARNERS = {
        "ppo": ("--algo", "ppo", "--num-envs", "4", "--horizon", "32", "--steps", "2048"),
        "dqn": DQN,
        "sac": SAC,
    }

    def test_several_learners_are_the_same_again_and_another_number_goes_on(self):
        for algo, arguments in self.LEARNERS.items():
            with self.subTest(algo):
                code = 0 if algo == "sac" else 3
                for run in "ab":
                    self.train(code, algo + run, *arguments, "--learners", "2")
                self.assertEqual(self.parameters(algo + "a")[1], self.parameters(algo + "b")[1])
                self.assertEqual(self.result(algo + "a")["config"]["learners"], 2)
                steps = self.result(algo + "a")["steps"]
                self.train(code, algo + "c", "--resume", f"{self.root}/{algo}a/checkpoint.bin", "--learners", "1",
                           "--steps", str(2 * steps))
                self.assertEqual(self.result(algo + "c")["resumed_from_steps"], steps)
                self.assertEqual(self.result(algo + "c")["steps"], 2 * steps)
        _, err = self.train(2, "e", "--algo", "a2c", "--learners", "2")
        self.assertIn("'learners'", err)

    def test_the_replay_in_shards_with_priorities_and_several_runners(self):
        self.train(3, "p", *self.DQN, *self.SHARDS, "--dueling")
        result = self.result("p")
        self.assertEqual(result["steps"], 1664)  # whole rounds of 2 x 2 x 32
        self.assertEqual(result["steps"], self.lines("p")[-1]["steps"])
        self.train(3, "q", *self.DQN, *self.SHARDS, "--dueling")
        self.assertEqual(self.parameters("p")[1], self.parameters("q")[1])

    def test_more_shards_than_runners_are_all_filled(self):
        self.train(3, "p", *self.DQN, "--replay-shards", "3", "--num-workers", "1", "--num-envs", "1")
        arrays = self.arrays("p")
        observations = [len(arrays[f"parts/replay/{i}/buffer/column/obs"]) for i in range(3)]
        rounds = 1600 // 32
        self.assertEqual(observations, [(rounds + 2 - i) // 3 * 32 * 16 for i in range(3)])  # four floats

    def test_an_off_policy_run_goes_on_with_its_replay_or_says_that_it_has_none(self):
        self.train(3, "p", *self.DQN)
        self.train(3, "q", "--resume", f"{self.root}/p/checkpoint.bin", "--steps", "3200")
        self.assertEqual(self.result("q")["resumed_from_steps"], 1600)
        self.assertGreater(self.result("q")["updates"], self.result("p")["updates"])
        self.train(3, "r", *self.DQN, "--no-replay")
        size = {run: os.path.getsize(f"{self.root}/{run}/checkpoint.bin") for run in "pr"}
        self.assertGreater(size["p"] - size["r"], 1600 * 40)  # two observations of four floats, and more, a step
        self.train(3, "s", "--resume", f"{self.root}/r/checkpoint.bin", "--steps", "3200")
        _, err = self.train(2, "t", "--resume", f"{self.root}/p/checkpoint.bin", "--algo", "sac")
        self.assertIn("the checkpoint is one of dqn, not of sac", err)
        _, err = self.train(2, "t", "--resume", f"{self.root}/p/checkpoint.bin", "--clip", "0.1")
        self.assertIn("there is no setting 'clip'", err)

    def test_copies_are_played_while_training_goes_on_and_the_best_is_kept(self):
        out, _ = self.train(0, "p", "--steps", "8192", "--evaluate-every", "0.25", "--evaluation-episodes", "4",
                            "--evaluation-threshold", "9")
        self.assertIn("gate 9: passed by the copy of 2048 steps", out)
        result = self.result("p")
        self.assertEqual([steps for steps, _, _ in result["evaluations"]], [2048, 4096, 6144, 8192])
        self.assertEqual(result["gate"]["state"], "passed")
        best = max(mean for _, mean, _ in result["evaluations"])
        self.assertEqual(result["final_return"]["mean"], result["evaluations"][-1][1], "the same policy and seeds")
        self.assertIn("the last policy, without exploration: mean return", out)
        played, _ = self.run_rl(0, "evaluate", result["best_policy"], "--episodes", "4", "--seed", "1500000000")
        self.assertIn(f"mean return {best:.1f}", played)
        longer = ("--resume", f"{self.root}/p/checkpoint.bin", "--steps", "8256", "--evaluate-every", "0")
        # In another folder it goes on with the best of this one; without it the best of those to come is kept.
        self.train(0, "o", *longer)
        self.assertEqual(self.result("o")["best_policy"], f"{self.root}/o/best.bin")
        with open(f"{self.root}/p/best.bin", "rb") as one, open(f"{self.root}/o/best.bin", "rb") as other:
            self.assertEqual(one.read(), other.read())
        os.remove(f"{self.root}/p/best.bin")
        out, _ = self.train(0, "n", *longer)
        self.assertIn(f"without exploration: best copy {best:.1f}", out)
        self.assertIsNone(self.result("n")["best_policy"])
        self.assertIsNone(self.result("n")["final_return"])
        told = [line for line in self.lines("p") if "evaluation" in line]
        self.assertEqual(len(told), 5)  # four copies, one of them twice
        self.assertEqual(sum(line["again"] for line in told), 1)
        self.assertEqual(len(os.listdir(f"{self.root}/p/tensorboard")), 1)
        # With a gate to pass, that decides.
        pendulum = ("--env", "Pendulum-v1", "--steps", "4096", "--evaluate-every", "0.5", "--evaluation-episodes", "4")
        self.train(0, "q", *pendulum, "--evaluation-threshold", "-100000", "--no-tensorboard")
        self.assertFalse(os.path.exists(f"{self.root}/q/tensorboard"))
        self.train(3, "r", *pendulum, "--evaluation-threshold", "0")

    def test_what_would_mean_nothing_is_refused(self):
        for arguments, wrong in ((("--stop-at-gate",), "'stop_at_gate' means nothing while no copy is played"),
                                 (("--evaluation-threshold", "9"), "'evaluation_threshold' means nothing"),
                                 (("--preset", "ppo-cartpole", "--evaluate-every", "0", "--evaluation-episodes", "9"),
                                  "'evaluation_episodes' means nothing"),
                                 (("--stop-deadline", "3"), "--stop-deadline is for --seeds"),
                                 (("--recurrent",), "--recurrent: there are no recurrent policies yet"),
                                 (("--multi-agent",), "there are no environments of several agents yet")):
            self.assertIn(wrong, self.train(2, "n", *arguments)[1])
        self.assertFalse(os.path.exists(f"{self.root}/n"))

    def test_what_is_not_finite_ends_the_run_with_a_checkpoint(self):
        _, err = self.train(1, "p", "--learning-rate", "1e30", "--steps", "20000", "--max-grad-norm", "1e30")
        self.assertRegex(err, r"after \d+ steps of seed 1: .*PPO's")
        self.assertTrue(os.path.exists(f"{self.root}/p/checkpoint.bin"))

    def test_a_policy_is_recorded(self):
        self.train(3, "p", "--steps", "2048")
        out, _ = self.run_rl(0, "record", f"{self.root}/p/policy.bin", "--out", f"{self.root}/frames", "--seed", "3")
        steps = float(out.split("return ")[1].split()[0])
        self.assertEqual(len(os.listdir(f"{self.root}/frames")), steps + 1)  # a reward of 1 a step
        _, err = self.run_rl(1, "record", f"{self.root}/p/policy.bin", "--out", f"{self.root}/few", "--frames", "3")
        self.assertIn("--frames allows more", err)
        self.run_rl(1, "record", f"{self.root}/nothing.bin")

    def test_presets_are_below_files_and_flags(self):
        self.train(3, "p", "--preset", "dqn-cartpole", "--hidden", "16", "--steps", "600", "--evaluate-every", "0")
        config = self.result("p")["config"]
        self.assertEqual((config["algo"], config["hidden"], config["updates"]), ("dqn", [16], 128))
        self.assertIn("did you mean 'dqn-cartpole'?", self.train(2, "x", "--preset", "dqn-cartpol")[1])
        self.assertIn("'clip' is a setting of ppo, not of dqn", self.train(2, "x", "--algo", "dqn", "--clip", "1")[1])
        self.assertIn("a Q-network chooses from a Discrete space",
                      self.train(1, "x", "--algo", "dqn", "--env", "Pendulum-v1")[1])
        self.assertIn("sac on CartPole-v1", self.train(1, "x", "--algo", "sac", "--env", "CartPole-v1")[1])

    def test_list_and_mistakes(self):
        out, _ = self.run_rl(0, "list")
        for name in ("ppo", "dqn", "sac", "CartPole-v1", "Pendulum-v1", "gym:", "stall:", "dqn-cartpole"):
            self.assertIn(name, out)
        self.assertIn("did you mean --horizon?", self.train(2, "x", "--horizn", "3")[1])
        self.assertIn("learning_rate is a number from 0 on", self.train(2, "x", "--learning-rate", "-1")[1])
        self.assertIn("one of ppo", self.train(2, "x", "--algo", "dreamer")[1])
        self.assertIn('is "CartPole-v1" meant?', self.train(1, "x", "--env", "CartPol-v1")[1])
        with open(f"{self.root}/bad.yaml", "w", encoding="utf-8") as file:
            file.write("gama: 0.9\n")
        self.assertIn("did you mean 'gamma'?", self.train(2, "x", "--config", f"{self.root}/bad.yaml")[1])
        self.run_rl(2)


if __name__ == "__main__":
    RL = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
