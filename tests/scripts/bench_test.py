"""bench/run judges what it should: a missing row is seen, bars scale with the machine in their direction only, ratios
are held against the peer that was run, and a page keeps what a run knows nothing of."""
import argparse
import contextlib
import io
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from types import SimpleNamespace
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "bench")
sys.dont_write_bytecode = True
sys.path[:0] = [BENCH, os.path.join(BENCH, "peers")]
import blas_peer  # noqa: E402
import collective_peer  # noqa: E402
import common  # noqa: E402
import datagen_rows  # noqa: E402
import data_peer  # noqa: E402
import env_peer  # noqa: E402
import gym_peer  # noqa: E402
import minatar_peer  # noqa: E402
import rllib_peer  # noqa: E402
import sb3_peer  # noqa: E402
import train_gpt  # noqa: E402
from runner import main, measures, rows, tables  # noqa: E402

KNOWN = [{"row": "a/high", "unit": "1/s", "better": "higher", "must": 10, "aim": 20, "what": "high"},
         {"row": "a/low", "unit": "us", "better": "lower", "must": 5, "aim": 1, "what": "low"}]


def fixed_rows():
    with open(os.path.join(BENCH, "rows.json"), encoding="utf-8") as file:
        return json.load(file)


def one(fixed, value, peers=None, **seen):
    """The only row of a run."""
    fixed = {"row": "a/row", "unit": "us", "better": "lower", "must": None, "aim": None, **fixed}
    return rows.merge([fixed], [{"row": "a/row", "value": value, **seen}], peers or {}, "")[0][0]


def script(test, text):
    """An executable file with this shell script, until the test is over."""
    with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as file:
        file.write("#!/bin/sh\n" + text)
    test.addCleanup(os.unlink, file.name)
    os.chmod(file.name, stat.S_IRWXU)
    return file.name


class MergeTest(unittest.TestCase):
    def test_a_missing_row_is_seen(self):
        seen = [{"row": "a/high", "value": 12, "spread": 0}]
        self.assertEqual(rows.merge(KNOWN, seen, {}, "")[1], ["a/low"])
        self.assertEqual(rows.merge(KNOWN, seen, {}, "high")[1], [])

    def test_rows_stand_in_the_fixed_order_and_then_the_others(self):
        seen = [{"row": name, "value": 1} for name in ("b/own", "a/low", "a/high")]
        self.assertEqual([row["row"] for row in rows.merge(KNOWN, seen, {}, "")[0]], ["a/high", "a/low", "b/own"])

    def test_what_rows_json_says_of_a_row_holds(self):
        row = rows.merge(KNOWN[:1], [{"row": "a/high", "value": 1, "unit": "ms", "better": "lower"}], {}, "")[0][0]
        self.assertEqual((row["unit"], row["better"]), ("1/s", "higher"))

    def test_musts_are_judged_in_their_direction(self):
        for high, low, met in ((10, 5, [True, True]), (9, 6, [False, False])):
            table, _ = rows.merge(KNOWN, [{"row": "a/high", "value": high}, {"row": "a/low", "value": low}], {}, "")
            self.assertEqual([row["met"] for row in table], met)

    def test_the_peer_is_the_better_one(self):
        seen = [{"row": "a/high", "value": 10}, {"row": "a/low", "value": 5}]
        table, _ = rows.merge(KNOWN, seen, {"X": {"a/high": 1, "a/low": 9}, "Y": {"a/high": 2, "a/low": 7}}, "")
        self.assertEqual([row["peer"] for row in table], [2, 7])

    def test_json_has_the_keys_of_every_row_in_one_order(self):
        row = rows.as_json(one({"must": 5}, 4, round_trip_ns=130.0))
        self.assertEqual(list(row), rows.KEYS + ["round_trip_ns"])


class ScaleTest(unittest.TestCase):
    def test_a_slower_machine_moves_the_bar_and_a_faster_one_does_not(self):
        for scaled_by, measured, value, met in (("round_trip_ns", 270, 9.9, True), ("round_trip_ns", 270, 10.1, False),
                                                ("round_trip_ns", 100, 5.1, False), ("copy_gb_s", 27.5, 9.9, True),
                                                ("copy_gb_s", 27.5, 10.1, False), ("copy_gb_s", 80, 5.1, False)):
            row = one({"must": 5, "scaled_by": scaled_by}, value, **{scaled_by: measured})
            self.assertEqual(row["met"], met, (scaled_by, measured, value))
            self.assertEqual(row["must"], 5)

    def test_a_bar_that_must_be_passed_upwards_comes_down(self):
        self.assertTrue(one({"better": "higher", "must": 10, "scaled_by": "copy_gb_s"}, 5.1, copy_gb_s=27.5)["met"])
        self.assertFalse(one({"better": "higher", "must": 10, "scaled_by": "copy_gb_s"}, 4.9, copy_gb_s=27.5)["met"])

    def test_the_table_says_by_how_much(self):
        self.assertIn("x 2.00: line round trip 270 ns",
                      tables.text_table([one({"must": 5, "scaled_by": "round_trip_ns"}, 9, round_trip_ns=270)]))
        self.assertNotIn("scaled",
                         tables.text_table([one({"must": 5, "scaled_by": "round_trip_ns"}, 4, round_trip_ns=135)]))

    def test_a_row_without_the_machine_beside_it_is_held_to_the_bar_as_it_is(self):
        self.assertFalse(one({"must": 5, "scaled_by": "round_trip_ns"}, 6)["met"])

    def test_ratios_do_not_scale(self):
        row = one({"must": 5, "scaled_by": "round_trip_ns", "ratios": {"X": [2, None]}}, 9, {"X": {"a/row": 17}},
                  round_trip_ns=270)
        self.assertFalse(row["met"])


class RatioTest(unittest.TestCase):
    def test_a_ratio_is_judged_only_where_its_peer_was_run(self):
        fixed = {"ratios": {"X": [2, 3]}}
        self.assertIsNone(one(fixed, 5)["met"])
        self.assertIsNone(one(fixed, 5, {"Y": {"a/row": 1}})["met"])
        self.assertTrue(one(fixed, 5, {"X": {"a/row": 10}})["met"])
        self.assertFalse(one(fixed, 5, {"X": {"a/row": 9}})["met"])

    def test_a_ratio_that_is_missed_fails_a_row_whose_must_is_met(self):
        self.assertFalse(one({"must": 6, "ratios": {"X": [2, None]}}, 5, {"X": {"a/row": 9}})["met"])

    def test_faster_is_larger_where_larger_is_better(self):
        row = one({"better": "higher", "ratios": {"X": [1.4, None]}}, 150, {"X": {"a/row": 100}})
        self.assertAlmostEqual(row["ratios"]["X"]["value"], 1.5)
        self.assertTrue(row["met"])

    def test_a_measure_may_bring_its_own_peer(self):
        known = {**KNOWN[0], "must": None, "ratios": {"X": [1.4, None]}}
        row = rows.merge([known], [{"row": "a/high", "value": 130, "peers": {"X": 100}}], {}, "")[0][0]
        self.assertEqual((row["met"], row["peer"]), (False, 100))

    def test_a_row_is_held_against_another_row_of_the_run(self):
        known = [
            *KNOWN, {
                "row": "a/other", "unit": "us", "better": "lower", "must": None, "aim": None,
                "over": {"a/low": [0.9, None]}
            }
        ]
        for other, met in ((5.5, True), (5.6, False)):
            seen = [{"row": "a/high", "value": 10}, {"row": "a/low", "value": 5}, {"row": "a/other", "value": other}]
            self.assertEqual(rows.merge(known, seen, {}, "")[0][2]["met"], met)
        self.assertIsNone(rows.merge(known, [{"row": "a/other", "value": 9}], {}, "other")[0][0]["met"])


class ScaleTest(unittest.TestCase):
    ROW = {"row": "a/row", "unit": "us", "better": "lower", "must": 8, "aim": 4, "scaled_by": "ping_pong_us"}

    def judged(self, ping_pong):
        seen = [{"row": "a/row", "value": 12}, {"row": "machine/ping_pong", "value": ping_pong}]
        return rows.merge([self.ROW], seen, {}, "")[0][0]

    def test_bars_move_with_the_ping_pong_of_the_same_run(self):
        self.assertEqual((self.judged(0.5)["met"], self.judged(0.5)["scale"]), (True, 2))
        self.assertFalse(self.judged(0.2)["met"])
        self.assertIn("ring ping-pong 0.5 us", tables.scale_text(self.judged(0.5)))

    def test_it_is_measured_when_a_row_needs_it(self):
        self.assertEqual(rows.needed_of_the_run([self.ROW], "a/"), ["machine/ping_pong"])
        self.assertEqual(rows.needed_of_the_run([self.ROW], "b/"), [])
        self.assertEqual(rows.needed_of_the_run(KNOWN, ""), [])


class RowsJsonTest(unittest.TestCase):
    def test_every_fixed_row_has_a_measure(self):
        text = ""
        for name in os.listdir(BENCH):
            if name.endswith((".cc", ".py")):
                with open(os.path.join(BENCH, name), encoding="utf-8") as file:
                    text += file.read()
        named = [row["row"] for row in fixed_rows() if not row["row"].startswith("kernels/")]
        self.assertEqual([name for name in named if f'"{name}"' not in text], [])
        for row in fixed_rows():
            if row["row"].startswith("kernels/"):
                shape = row["row"].rsplit("_", 1)[1].split("x")
                self.assertIn(f"add_linear(cases, {', '.join(shape)});", text)

    def test_what_rows_refer_to_exists(self):
        names = {row["row"] for row in fixed_rows()}
        for row in fixed_rows():
            self.assertLessEqual(set(row.get("over", {})), names)
            self.assertLessEqual(set(row.get("ratios", {})),
                                 {*collective_peer.MPI, "Gloo", "PyTorch", *blas_peer.LIBRARIES, *env_peer.PEERS,
                                   gym_peer.PEER, rllib_peer.PEER, sb3_peer.PEER,
                                   *(peer for peer, _, _ in data_peer.ROWS)})
            self.assertIn(row.get("scaled_by", "copy_gb_s"), rows.STANDARD)

    def test_peers_measure_fixed_rows(self):
        names = {row["row"] for row in fixed_rows()}
        self.assertLessEqual(set(collective_peer.GLOO_ROWS), names)
        self.assertLessEqual(set(env_peer.ROWS), names)
        self.assertLessEqual(set(rllib_peer.ROWS), names)
        self.assertLessEqual(set(sb3_peer.ROWS), names)
        self.assertLessEqual({row for _, row, _ in data_peer.ROWS}, names)

    def test_a_learner_is_held_against_the_middle_of_the_peers_seeds_and_its_interval(self):
        scores = [20, 0, 10, 100, 12]  # the interquartile mean is that of 10, 12 and 20
        self.assertEqual(minatar_peer.interquartile_mean(scores), 14)
        for middle, high, is_met in ((14, 14, True), (12.7, 14, True), (12.7, 13.9, False), (12.5, 15, False)):
            self.assertEqual(minatar_peer.met({"interquartile_mean": middle, "high": high}, scores), is_met)

    def test_the_peer_of_minatar_has_the_numbers_of_the_preset(self):
        with open(os.path.join(ROOT, "apps", "rl", "presets", "ppo-minatar-breakout.yaml"), encoding="utf-8") as file:
            preset = dict(line.rstrip().split(": ", 1) for line in file if not line.startswith("#"))
        self.assertEqual((preset["env"], preset["learning_rate_last"], preset["clip_last"], preset["convolutions"],
                          preset["hidden"]), (minatar_peer.ENV, "0", preset["clip"], "16x3x1", "[128]"))
        self.assertEqual(int(preset["num_workers"]) * int(preset["num_envs"]), minatar_peer.ENVS)
        self.assertEqual(float(preset["learning_rate"]), minatar_peer.LEARNING_RATE)
        for ours, theirs in (("horizon", "n_steps"), ("minibatch", "batch_size"), ("epochs", "n_epochs"),
                             ("gamma", "gamma"), ("gae_lambda", "gae_lambda"), ("entropy_coefficient", "ent_coef"),
                             ("clip", "clip_range")):
            self.assertEqual(float(preset[ours]), minatar_peer.NUMBERS[theirs], ours)

    def test_of_a_peers_runs_the_fastest_calm_one_counts(self):
        choose, calm, restless = collective_peer.choose, collective_peer.CALM, 2 * collective_peer.CALM
        self.assertEqual(choose([((3, 1), calm), ((1, 1), restless), ((2, 1), calm)], 5), (2, 1))
        self.assertEqual(choose([((3, 1), calm), ((2, 1), calm)], 1), (3, 1))  # as many as ours, and no more
        self.assertEqual(choose([((1, 1), 3 * calm), ((2, 1), restless)], 5), (2, 1))

    def test_a_restless_run_of_a_peer_is_made_again_and_one_that_fails_ends_it(self):
        shares = iter([2 * collective_peer.CALM, 0.0, 0.0])
        with mock.patch.object(collective_peer, "share_of_others", lambda run: (run(), next(shares))):
            self.assertEqual(collective_peer.measure_calmly(iter([(1, 1), (3, 3), (2, 2)]).__next__, 2, 5), (2, 2))
            self.assertEqual(list(shares), [])
        with mock.patch.object(collective_peer, "share_of_others", lambda run: (run(), 0.0)):
            self.assertIsNone(collective_peer.measure_calmly(lambda: None, 2, 5))

    def test_own_work_is_not_the_others(self):
        def burn():
            until = time.process_time() + 0.3
            while time.process_time() < until:
                pass

        _, idle = collective_peer.share_of_others(lambda: time.sleep(0.3))
        self.assertGreaterEqual(idle, 0)
        busy, own = collective_peer.busy_seconds(), collective_peer.own_seconds()
        burn()
        self.assertGreaterEqual(collective_peer.own_seconds() - own, 0.3)
        self.assertGreaterEqual(collective_peer.busy_seconds() - busy, 0.25)  # in ticks

    def test_collectives_run_row_by_row_beside_their_peers(self):
        order = []

        def run_measure(_, __, wish, ___=()):
            order.append("ours")
            names = [row for row in (*collective_peer.GLOO_ROWS, "collective/hier/1KiB/4") if re.search(wish.only, row)]
            return [{"row": row} for row in names], f"# head\n# head\n{names}\n# Avg 1\n"

        class Peers:
            times = {}

            def __init__(self, _, rows, *__):
                self.rows = rows

            def of_row(self, row):
                order.append(row)
                return {"Gloo": 1.0} if row in self.rows else {}

        with mock.patch.object(measures, "run_measure", run_measure), \
                mock.patch.object(collective_peer, "Peers", Peers):
            seen, lines, _ = measures.run_beside_peers(["x"], argparse.Namespace(only="", quick=False, shows=False))
        self.assertEqual([row["row"] for row in seen], [*collective_peer.GLOO_ROWS, "collective/hier/1KiB/4"])
        self.assertEqual(order[:4], ["ours", collective_peer.GLOO_ROWS[0], "ours", collective_peer.GLOO_ROWS[1]])
        self.assertEqual({"Gloo": 1.0}, seen[0]["peers"])
        self.assertNotIn("peers", seen[-1])
        self.assertEqual(lines.count("# head"), 2)
        self.assertNotIn("Avg", lines)

    def test_rows_of_reinforcement_learning_run_in_turns_with_their_peers(self):
        order = []

        def run_measure(name, _, wish, floors=()):
            rows = [row for row in ("rl/env_cartpole", "rl/env_pendulum", "rl/cartpole_steps")
                    if re.search("|".join([wish.only, *floors]), row)]
            order.extend((name, row) for row in rows)
            return [{"row": row} for row in rows], f"# head\n{rows}\n"

        def measure(_, only, *__):
            order.append(("peer", only))
            return {"EnvPool": {only.strip("^$"): 2.0}}

        with mock.patch.object(measures, "run_measure", run_measure), mock.patch.object(env_peer, "measure", measure):
            wish = argparse.Namespace(only="^rl/(env_(cart|pend)|cart)", quick=False, shows=False)
            seen, lines = measures.run_in_turns("rl_env_steps", ["x"], wish)
        ours = "rl_env_steps"
        self.assertEqual(order, [(ours, "rl/env_cartpole"), ("peer", "^rl/env_cartpole$"), (ours, "rl/env_pendulum"),
                                 ("peer", "^rl/env_pendulum$"), (ours, "rl/cartpole_steps")])
        self.assertEqual([row.get("peers") for row in seen], [{"EnvPool": 2.0}, {"EnvPool": 2.0}, None])
        self.assertEqual(lines.count("# head"), 1)

    def test_each_row_of_these_peers_is_in_one_measures_turns(self):
        rows_in_turns = [row for some in measures.IN_TURNS.values() for row in some]
        self.assertEqual(sorted(rows_in_turns), sorted(row for peer in measures.ROW_PEERS for row in peer.ROWS))


class PageTest(unittest.TestCase):
    PAGE = ("# Page\n<!-- bench ^a/ -->\nold a\n<!-- /bench -->\nbetween\n<!-- bench ^b/ -->\nold b\n<!-- /bench -->\n"
            "<!-- bench-output tool -->\n<!-- /bench -->\n<!-- bench-about -->\nold\n<!-- /bench -->\nend\n")

    def run_of(self, seen, missing=None):
        return tables.Run(rows.merge(KNOWN, seen, {}, "")[0], missing or [], {"tool": "# own table\n"}, ["Made by x."])

    def test_figures_stand_between_their_marks_and_the_rest_stays(self):
        run = self.run_of([{"row": "a/high", "value": 12}, {"row": "a/low", "value": 6}])
        text, left = tables.fill_page(self.PAGE, run)
        self.assertEqual(left, ["<!-- bench ^b/ -->"])
        self.assertIn("| high (`a/high`) | 12 1/s | 10 | 20 | yes |", text)
        self.assertIn("| low (`a/low`) | 6 us | 5 | 1 | no |", text)
        self.assertIn("```\n# own table\n```\n<!-- /bench -->", text)
        self.assertIn("<!-- bench-about -->\nMade by x.\n<!-- /bench -->", text)
        self.assertIn("\nbetween\n<!-- bench ^b/ -->\nold b\n<!-- /bench -->", text)
        self.assertTrue(text.startswith("# Page\n") and text.endswith("end\n"))
        self.assertEqual(tables.fill_page(text, run)[0], text)

    def test_a_part_of_a_page_tells_of_the_run_that_it_is_from(self):
        page = "<!-- bench-about ^a/ -->\nold a\n<!-- /bench -->\n<!-- bench-about ^b/ -->\nold b\n<!-- /bench -->\n"
        text, left = tables.fill_page(page, self.run_of([{"row": "a/high", "value": 12}]))
        self.assertEqual(text, page.replace("old a", "Made by x."))
        self.assertEqual(left, ["<!-- bench-about ^b/ -->"])

    def test_a_table_with_a_missing_row_is_not_written(self):
        text, left = tables.fill_page(self.PAGE, self.run_of([{"row": "a/high", "value": 12}], ["a/low"]))
        self.assertIn("old a", text)
        self.assertIn("<!-- bench ^a/ -->", left)

    def test_the_pages_of_this_project_have_marks_that_find_rows(self):
        names, shown = [row["row"] for row in fixed_rows()], {}
        for page in ("README.md", *(os.path.join("docs", name) for name in ("performance.md", "datagen.md"))):
            with open(os.path.join(ROOT, page), encoding="utf-8") as file:
                marks = [match["what"] for match in tables.MARK.finditer(file.read()) if match["kind"] == ""]
            self.assertTrue(marks, page)
            for what in marks:
                self.assertTrue(any(re.search(what, name) for name in names), f"{page}: {what}")
            shown[page] = {name for name in names if any(re.search(what, name) for what in marks)}
        self.assertEqual(shown["README.md"] & shown[os.path.join("docs", "datagen.md")], set())


class MeasureTest(unittest.TestCase):
    def test_rows_and_the_measures_own_table_are_told_apart(self):
        found, table = measures.read_lines(iter(['# head\n', '{"row": "a/low", "value": 1}\n', '  12 us\n']), False)
        self.assertEqual(([row["row"] for row in found], table), (["a/low"], "# head\n  12 us\n"))

    def wish(self, timeout=60):
        return SimpleNamespace(only="", quick=False, timeout=timeout, shows=False)

    def test_a_measure_that_fails_keeps_the_rows_it_had(self):
        found, _ = measures.run_measure("fails", [script(self, 'echo \'{"row": "a/low", "value": 1}\'\nexit 3\n')],
                                        self.wish())
        self.assertEqual([row["row"] for row in found], ["a/low"])

    def test_a_measure_that_does_not_end_is_ended(self):
        self.assertEqual(
            measures.run_measure("hangs", [sys.executable, "-c", "import signal; signal.pause()"],
                                 self.wish(timeout=0.5)), ([], ""))

    def test_a_family_takes_its_rows_only(self):
        for family, names in (("collectives", ["collective/tcp/1KiB/2", "machine/copy"]), ("train", ["train/scaling"]),
                              ("kernels", ["kernels/adamw_10000000"])):
            found = measures.pattern(family, "")
            self.assertTrue(all(re.search(found, name) for name in names))
            self.assertFalse(re.search(found, "task/sync") or re.search(found, "x/collective/train/kernels/machine/"))
        self.assertTrue(re.search(measures.pattern("collectives", "^collective/tcp|8B"), "collective/tcp/1KiB/2"))
        self.assertFalse(re.search(measures.pattern("collectives", "^collective/tcp"), "collective/all_reduce/8B/2"))
        self.assertTrue(measures.FAMILIES.keys() == main.FAMILY_ABOUT.keys())


class PeerTest(unittest.TestCase):
    def test_peers_do_not_inherit_the_choice_of_an_older_processor(self):
        os.environ["OPENBLAS_CORETYPE"] = "Haswell"
        self.addCleanup(os.environ.pop, "OPENBLAS_CORETYPE")
        self.assertNotIn("OPENBLAS_CORETYPE", common.environment())

    def test_values_are_in_the_unit_of_their_row(self):
        units = {row["row"]: row["unit"] for row in fixed_rows()}
        for row in collective_peer.GLOO_ROWS:
            size, _ = collective_peer.shape_of(row)
            self.assertAlmostEqual(collective_peer.in_unit(row, 0.5),
                                   {"us": 0.5e6, "ms": 500, "GB/s": size / 0.5 / 1e9}[units[row]])

    def test_the_peer_of_training_is_the_better_of_its_modes_and_scaling_is_of_neighbours(self):
        rates = {("gpt_4x128", who): [(value, value / 2) for value in values]
                 for who, values in (("Troupe, 2 workers", [30, 32, 31]), ("Troupe, 1 worker", [17, 16, 15]),
                                     ("PyTorch, 2 threads", [10, 30, 20]), ("PyTorch, 2 ranks",
                                                                            [22, 21, 23]), ("PyTorch, 1 thread", [12]))}
        found = {row["row"]: row for row in train_gpt.rows_of(rates, {"gpt_4x128": 2e6}, 100.0, 200.0)}
        self.assertEqual((found["train/gpt_4x128"]["value"], found["train/gpt_4x128"]["peers"]), (31, {"PyTorch": 22}))
        self.assertEqual(found["train/gpt_4x128/one_thread"]["peers"], {"PyTorch": 12})
        self.assertEqual(found["train/gpt_4x128"]["floor"], 1e5)
        self.assertAlmostEqual(found["train/scaling"]["value"], 32 / 16)  # of 30 / 17, 32 / 16, 31 / 15


class BlasTest(unittest.TestCase):
    """A processor that is newer than OpenBLAS gets the kernels that it could have."""
    AVX2 = {"sse2", "avx2", "fma"}
    AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}

    def test_its_own_choice_stands_where_it_knows_the_processor(self):
        self.assertIsNone(blas_peer.core_to_name("SkylakeX", self.AVX512))
        self.assertIsNone(blas_peer.core_to_name("Zen", self.AVX512))

    def test_a_processor_that_it_takes_for_an_old_one_is_named(self):
        self.assertEqual(blas_peer.core_to_name("Prescott", self.AVX512), "SkylakeX")
        self.assertEqual(blas_peer.core_to_name("Prescott", self.AVX2), "Haswell")
        self.assertIsNone(blas_peer.core_to_name("Prescott", {"sse2"}))

    def test_without_the_library_nothing_is_set(self):
        self.assertEqual(blas_peer.environment({}), {})


class TrainTest(unittest.TestCase):
    def test_a_run_counts_with_the_median_of_the_steps_after_the_first_ones(self):
        warm, _ = train_gpt.steps_of("gpt_4x128", True)
        seconds = [[step, 99] for step in range(1, warm + 1)] + [[warm + 1, 2], [warm + 2, 1], [warm + 3, 9]]
        result = json.dumps({"step_seconds": seconds, "gflops": 6, "tokens_per_second": 3})
        program = script(self, f"while [ \"$1\" != --json ]; do shift; done\nprintf '%s' '{result}' > \"$2\"\n")
        self.assertEqual(train_gpt.ours(program, "gpt_4x128", 2, True), ((768 / 2, 768 / 4), 2e9))

    def test_runs_are_made_again_while_the_host_takes_the_cpus(self):
        ticks = iter([(0, 0), (20, 100), (20, 100), (22, 200)])
        runs = iter(["stolen from", "quiet"])
        with mock.patch.object(train_gpt, "sight", return_value=2.0), \
                mock.patch.object(train_gpt, "cpu_ticks", lambda: next(ticks)), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(train_gpt.undisturbed(lambda: next(runs), "", False), "quiet")
        self.assertIn("the host took 20.0% of the time", out.getvalue())

    def test_a_program_that_fails_says_why(self):
        with self.assertRaisesRegex(RuntimeError, "ended with 3: no such data"):
            train_gpt.ours(script(self, "echo no such data >&2\nexit 3\n"), "gpt_4x128", 2, True)


class DatagenTest(unittest.TestCase):
    def test_peers_run_in_turns_with_ours_and_the_best_of_each_counts(self):
        order, rates = [], iter([3.0, 1.0, 2.0])

        def measure(_, row, quick, __):
            order.append(row)
            return {"X": next(rates)}

        def ours(_):
            order.append("ours")
            return float(len(order))

        bench = datagen_rows.Bench(SimpleNamespace(program="", rl="", quick=False, peers="python"))
        with mock.patch.object(data_peer, "measure", measure), tempfile.TemporaryDirectory() as folder:
            self.assertEqual(bench.times(folder, ours, "a/row"), [1.0, 3.0, 5.0])
        self.assertEqual(order, 3 * ["ours", "a/row"])
        self.assertEqual(bench.peer_values, {"a/row": {"X": [3.0, 1.0, 2.0]}})

    def test_ours_and_the_peers_write_the_same(self):
        self.assertEqual((datagen_rows.FLOAT_COLUMNS, datagen_rows.ROW_BYTES), (data_peer.COLUMNS, data_peer.ROW_BYTES))
        self.assertEqual(data_peer.table_rows(False), datagen_rows.table_rows(False))
        self.assertEqual(datagen_rows.tars_of(SimpleNamespace(quick=False)), 2 << 30)

    def test_formats_are_installed_before_they_are_built(self):
        commands = []
        with mock.patch.object(subprocess, "run", lambda command, **_: commands.append(command) or
                               SimpleNamespace(returncode=0)):
            measures.build("release", measures.pattern("datagen", ""))
            measures.build("release", measures.pattern("train", ""))
        self.assertEqual(["data" in command for command in commands], [True, *5 * [False]])


class WholeTest(unittest.TestCase):
    """bench/run from the command line to its files, with a measure of ours and nothing built."""

    def run_main(self, printed, *arguments):
        fake = script(self, f"cat <<'END'\n{printed}\nEND\n")
        with mock.patch.object(measures, "build"), \
                mock.patch.object(measures, "measures", return_value={"fake": [fake]}), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            return main.main(list(arguments)), out.getvalue()

    def test_rows_go_into_table_json_and_page(self):
        with tempfile.TemporaryDirectory() as folder:
            page, rows_file = os.path.join(folder, "page.md"), os.path.join(folder, "rows.json")
            with open(page, "w", encoding="utf-8") as file:
                file.write("<!-- bench ^wait/ -->\n<!-- /bench -->\n<!-- bench-output fake -->\n<!-- /bench -->\n")
            code, out = self.run_main('# own\n{"row": "wait/1k_shrinking_ms", "value": 2, "spread": 0}', "--only",
                                      "^wait/", "--json", rows_file, "--page", page)
            with open(rows_file, encoding="utf-8") as file:
                found = json.load(file)
            with open(page, encoding="utf-8") as file:
                text = file.read()
        self.assertEqual((code, [(row["row"], row["met"]) for row in found]), (0, [("wait/1k_shrinking_ms", True)]))
        self.assertIn("1 of 1 musts met", out)
        self.assertIn("| 2 ms |", text)
        self.assertIn("# own", text)

    def test_a_missing_row_and_with_strict_an_unmet_must_are_failures(self):
        self.assertEqual(self.run_main("", "--only", "^wait/")[0], 1)
        slow = '{"row": "wait/1k_shrinking_ms", "value": 99, "spread": 0}'
        self.assertEqual([self.run_main(slow, "--only", "^wait/", *strict)[0] for strict in ((), ("--strict", ))],
                         [0, 1])


class CommandTest(unittest.TestCase):
    COMMANDS = ("run", "collectives", "train", "kernels", "rl", "datagen")

    def command(self, name, *arguments):
        return subprocess.run([os.path.join(BENCH, name), *arguments], capture_output=True, text=True)

    def test_help_names_the_command_and_its_flags(self):
        for name in self.COMMANDS:
            done = self.command(name, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
            for word in (f"usage: bench/{name} ", "--peers", "--json", "--only", "--quick", "--page"):
                self.assertIn(word, done.stdout)

    def test_wrong_usage_ends_before_anything_is_built(self):
        for name in self.COMMANDS:
            for wrong in (["--pears"], ["--only", "("], ["--page", "/nowhere/page.md"], ["--timeout", "soon"]):
                self.assertEqual(self.command(name, *wrong).returncode, 2, (name, wrong))
        self.assertEqual(self.command("run", "--family", "nothing").returncode, 2)


if __name__ == "__main__":
    unittest.main()
