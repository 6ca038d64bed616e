"""Training of two GPTs by the program of apps/train, with two workers and with one of one thread, and by PyTorch beside
it.

Runs alternate: ours, PyTorch in one process (two threads, then one), PyTorch as two DDP ranks, and again. A run
counts with the median of its steps, each timed from the end of the one before, on both sides; a figure is the median
of five runs. Scaling is judged by the mean of the steps, for that is what a user waits for: the median of five ratios
of a run of two workers to the mean of one worker's just before and just after. The table has both by the other, too:
on a virtual machine one step in five or ten meets the host, and two ranks wait for the later. Before and after these
three runs, and PyTorch's, the peak is measured: where two cores gave less than TWO_CORES of one's (a host had both on
one core, or something else ran), or the host took more than STOLEN of the time meanwhile, they are run again,
ATTEMPTS times at most. Steps before the timing are not counted on either side, nor is validation. PyTorch counts with
the better of its two modes. Beside tokens a second: GFLOP/s, and the share of the multiply-add peak measured just
before.

Prints rows as the other measures do; lines that begin with # or a blank are its own table.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import common  # noqa: E402

MODELS = {  # flags of the program; tokens a step; steps before and in the timing, and with --quick
    "gpt_4x128": ("--layers 4 --heads 4 --channels 128 --context 64 --batch 12", 12 * 64, (10, 100), (5, 10)),
    "gpt_6x384": ("--layers 6 --heads 6 --channels 384 --context 256 --batch 8", 8 * 256, (2, 4), (1, 1)),
}
ROWS = {
    "gpt_4x128": ("train/gpt_4x128", "train/gpt_4x128/one_thread", "train/scaling/gpt_4x128"),
    "gpt_6x384": ("train/gpt_6x384", "train/gpt_6x384/one_thread", "train/scaling/gpt_6x384"),
}
SCALING = "train/scaling"
RUNS, RUNS_QUICK = 5, 1
TWO_CORES, STOLEN, ATTEMPTS = 1.8, 0.03, 4


def steps_of(model, quick):
    return MODELS[model][3 if quick else 2]


def ours(program, model, workers, quick):
    """((tokens a second by the median step, by the mean one), operations a token) of the steps after the first ones."""
    flags, tokens, *_ = MODELS[model]
    warm, timed = steps_of(model, quick)
    with tempfile.TemporaryDirectory(prefix="troupe-bench-") as folder:
        result = os.path.join(folder, "result.json")
        command = [
            program, *flags.split(), "--workers",
            str(workers), "--steps",
            str(warm + timed), "--evaluate-every", "0", "--validation-rows", "2", "--no-checkpoint", "--out", folder,
            "--json", result
        ]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
        with open(result, encoding="utf-8") as file:
            outcome = json.load(file)
    seconds = [length for step, length in outcome["step_seconds"] if step > warm]
    rates = (tokens / statistics.median(seconds), tokens / statistics.mean(seconds))
    return rates, outcome["gflops"] * 1e9 / outcome["tokens_per_second"]


def torch_rates(python, models, quick):
    """{(model, mode): (tokens a second by the median step, by the mean one)} of one run in each mode."""
    script = os.path.join(common.HERE, "torch_gpt.py")
    wanted = ",".join(f"{model}:{warm}:{timed}"
                      for model, (warm, timed) in ((model, steps_of(model, quick)) for model in models))
    rates = {}
    for mode in (["--threads", "2,1"], ["--ranks", "2"]):
        lines = common.run_rows([python, script, *mode, "--models", wanted], lambda text: print(f"# {text}"), "PyTorch",
                                timeout=600)
        rates |= {(line["model"], line["mode"]): (line["tokens_per_second"], line["tokens_per_second_mean"])
                  for line in lines}
    return rates


def undisturbed(measure, machine, quick):
    """What measure() returned when two cores were there before and after and all the while; else of the last
    attempt."""
    for attempt in range(1 if quick else ATTEMPTS):
        shares = [sight(machine)]
        before = cpu_ticks()
        measured = measure()
        stolen, passed = (now - then for now, then in zip(cpu_ticks(), before))
        shares.append(sight(machine))
        if min(shares) >= TWO_CORES and stolen <= STOLEN * passed:
            break
        print(
            f"# attempt {attempt + 1}: two cores gave {min(shares):.2f} of one's peak, "
            f"the host took {stolen / max(passed, 1):.1%} of the time",
            flush=True)
    return measured


def cpu_ticks():
    """What a host has taken of the CPUs since the start, and all that has passed (the first line of /proc/stat, see
    proc(5))."""
    with open("/proc/stat", encoding="utf-8") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return ticks[7], sum(ticks)


def sight(machine):
    one_core, all_cores = peaks(machine, True)
    return all_cores / one_core


def alternate(program, models, python, quick, machine):
    """{(model, who): [(tokens a second by the median step, by the mean one)]}, {model: operations a token}"""
    rates, flops = {}, {}
    for _ in range(RUNS_QUICK if quick else RUNS):
        for model in models:
            before, both, after = undisturbed(
                lambda m=model: [ours(program, m, workers, quick) for workers in (1, 2, 1)], machine, quick)
            flops[model] = both[1]
            rates.setdefault((model, "Troupe, 2 workers"), []).append(both[0])
            rates.setdefault((model, "Troupe, 1 worker"),
                             []).append(tuple(statistics.mean(ends) for ends in zip(before[0], after[0])))
        for (model, mode), rate in undisturbed(lambda: torch_rates(python, models, quick), machine,
                                               quick).items() if python else ():
            rates.setdefault((model, f"PyTorch, {mode}"), []).append(rate)
    return rates, flops


def peaks(machine, quick):
    """GFLOP/s of one core, and of all."""
    command = [machine, "--json", "--only", "^machine/peak"] + (["--quick"] if quick else [])
    rows = {row["row"]: row["value"] for row in common.run_rows(command, lambda text: print(f"# {text}"), "machine")}
    return rows["machine/peak_one_core"], rows["machine/peak_all_cores"]


def print_table(rates, flops, one_core, all_cores):
    print(f"# multiply-add peak: {one_core:.1f} GFLOP/s of one core, {all_cores:.1f} of all")
    print(
        f"# {'model':12s} {'who':22s} {'tokens/s':>10s} {'spread':>8s} {'GFLOP/s':>8s} {'of peak':>8s} "
        f"{'by the mean step':>17s}"
    )
    for (model, who), runs in sorted(rates.items()):
        values, means = by_median(runs), [mean for _, mean in runs]
        gflops = statistics.median(values) * flops[model] / 1e9
        share = gflops / (one_core if who.endswith(("1 thread", "1 worker")) else all_cores)
        print(
            f"  {model:12s} {who:22s} {statistics.median(values):10.0f} {spread(values):8.0f} {gflops:8.1f} "
            f"{share:8.1%} {statistics.median(means):17.0f}"
        )
    for model in flops:
        ratios = [statistics.median(scaling(rates, model, which)) for which in (0, 1)]
        print(f"# {model}: two workers over one {ratios[0]:.2f}; by the mean step {ratios[1]:.2f}")
    sys.stdout.flush()


def by_median(runs):
    return [rate for rate, _ in runs]


def scaling(rates, model, which=0):
    """Two workers over one, run by run: one after the other, so that the machine was alike."""
    return [
        many[which] / one[which]
        for many, one in zip(rates[model, "Troupe, 2 workers"], rates[model, "Troupe, 1 worker"])
    ]


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def rows_of(rates, flops, one_core, all_cores):
    """The rows of all models that were run."""
    middle = {key: statistics.median(by_median(runs)) for key, runs in rates.items()}
    rows, scalings = [], []
    for model in flops:
        two, one = middle[model, "Troupe, 2 workers"], middle[model, "Troupe, 1 worker"]
        both = [middle[model, who] for who in ("PyTorch, 2 threads", "PyTorch, 2 ranks") if (model, who) in middle]
        alone = [middle[model, "PyTorch, 1 thread"]] if (model, "PyTorch, 1 thread") in middle else []
        for row, who, value, peers, peak in ((ROWS[model][0], "Troupe, 2 workers", two, both, all_cores),
                                             (ROWS[model][1], "Troupe, 1 worker", one, alone, one_core)):
            rows.append({
                "row": row, "value": value, "spread": spread(by_median(rates[model, who])),
                "floor": peak * 1e9 / flops[model], "unit": "tokens/s", "better": "higher"
            })
            if peers:
                rows[-1]["peers"] = {"PyTorch": max(peers)}
        paired = scaling(rates, model, 1)
        scalings.append(statistics.median(paired))
        rows.append(
            {"row": ROWS[model][2], "value": scalings[-1], "spread": spread(paired), "unit": "x", "better": "higher"})
    return rows + [{"row": SCALING, "value": min(scalings), "spread": 0.0, "unit": "x", "better": "higher"}]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--machine", required=True, help="the measure that knows the peak")
    parser.add_argument("--torch", metavar="PYTHON", help="PyTorch too, by this interpreter, which has it")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    models = [model for model, rows in ROWS.items() if any(re.search(arguments.only, row) for row in (*rows, SCALING))]
    if not models:
        return 0
    one_core, all_cores = peaks(arguments.machine, arguments.quick)
    rates, flops = alternate(arguments.program, models, arguments.torch, arguments.quick, arguments.machine)
    print_table(rates, flops, one_core, all_cores)
    for row in rows_of(rates, flops, one_core, all_cores):
        if re.search(arguments.only, row["row"]):
            print(
                json.dumps(row) if arguments.json else f"{row['row']:36s} {row['value']:14.5g}  +- {row['spread']:.2g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
