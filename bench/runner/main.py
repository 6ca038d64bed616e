"""The command line of bench/run, and of the commands for one family of rows."""
import argparse
import datetime
import json
import os
import platform
import re
import shlex

from runner import measures, rows, tables

ABOUT = """Builds the release preset, runs every measure of bench/, and prints one table: value, spread, the machine's
own floor and the peers' value measured in the same run, what must be reached and what is aimed at.

Exit code: 0 all rows of rows.json are there, 1 one is missing (or, with --strict, a "must" is not met), 2 wrong usage.
"""
FAMILY_ABOUT = {
    "collectives": "All-reduce between processes, in the table of nccl-tests for every backend, beside what the "
                   "machine itself could do.",
    "train": "Training of two GPTs, in tokens and GFLOP/s, beside the machine's multiply-add peak and, with --peers, "
             "PyTorch.",
    "kernels": "The CPU kernels, in GB/s and GFLOP/s, beside the machine's ceilings and, with --peers, OpenBLAS and "
               "oneDNN.",
    "rl": "Reinforcement learning: environments, rollouts and training, in steps a second, and, with --peers, "
          "Gymnasium, EnvPool, Stable-Baselines3 and RLlib.",
    "datagen": "Data sets: bytes, steps and shards a second, on tmpfs and on the disk, and, with --peers, pyarrow, Ray "
               "Data, webdataset and Minari.",
}


def parse(arguments):
    outer = argparse.ArgumentParser(add_help=False)
    outer.add_argument("--family", choices=sorted(measures.FAMILIES),
                       help="only its rows, with the tables of its measures")
    family = outer.parse_known_args(arguments)[0].family
    parser = argparse.ArgumentParser(prog=f"bench/{family or 'run'}", parents=[outer],
                                     description=FAMILY_ABOUT.get(family,
                                                                  ABOUT.split("\n\n", maxsplit=1)[0]))
    parser.add_argument("--only", metavar="REGEX", default="", help="only rows whose name matches")
    parser.add_argument(
        "--peers", action="store_true",
        help="also the peers: Ray and its RLlib, OpenMPI, Gloo, PyTorch, OpenBLAS, oneDNN, EnvPool, Gymnasium, "
             "Stable-Baselines3, pyarrow, webdataset, Minari (installed under build/peers)")
    parser.add_argument("--json", metavar="FILE", help="write the rows as a JSON array")
    parser.add_argument("--quick", action="store_true", help="a tenth of the time, for a look")
    parser.add_argument("--strict", action="store_true", help="a 'must' that is not met is a failure")
    parser.add_argument("--page", metavar="FILE", action="append", default=[],
                        help="put the figures of this run between the marks of a Markdown page")
    parser.add_argument("--readme", action="append_const", dest="page", const=os.path.join(measures.ROOT, "README.md"),
                        help="the same for README.md")
    parser.add_argument("--preset", default="release", help="what is built and measured (default: release)")
    parser.add_argument("--timeout", type=float, default=1200, metavar="S", help="for each measure (default: 1200)")
    wish = parser.parse_args(arguments)
    try:
        re.compile(wish.only)
    except re.error as error:
        parser.error(f"--only: {error}")
    for page in wish.page:
        if not os.path.exists(page):
            parser.error(f"--page: there is no {page}")
    wish.shows = family is not None
    wish.only = measures.pattern(wish.family, wish.only)
    return wish


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
    return found.group(1) if found else platform.machine()


def command_of(wish, arguments):
    """As one would type it again; where the rows went is nobody's business."""
    rest = [argument for argument in arguments if argument not in ("--family", wish.family)]
    rest = [
        argument for before, argument in zip([None, *rest], rest)
        if "--json" not in (before, argument) and not argument.startswith("--json=")
    ]
    return ["bench/" + (wish.family or "run"), *rest]


def about(command, table):
    """Command, day and machine, as lines of Markdown."""
    values = {
        row["row"]: f"{tables.number(row['value'])} {row['unit']}"
        for row in table if row["row"].startswith("machine/")
    }
    known = [("machine/round_trip", "cache-line round trip"), ("machine/ping_pong", "ring ping-pong of two processes"),
             ("machine/copy", "streaming copy, all cores"), ("machine/peak_one_core", "multiply-add peak of one core"),
             ("machine/peak_all_cores", "of all cores")]
    facts = [f"{what} {values[name]}" for name, what in known if name in values]
    return [
        f"Made by `{shlex.join(command)}`, {datetime.date.today()}, commit {measures.commit()}.", "",
        f"{len(os.sched_getaffinity(0))} cores, {processor()}, Linux {platform.release()}" +
        "".join(f"; {fact}" for fact in facts) + "."
    ]


def write(wish, run):
    if wish.json:
        with open(wish.json, "w", encoding="utf-8") as file:
            json.dump([rows.as_json(row) for row in run.table], file, indent=1)
            file.write("\n")
    for path in wish.page:
        with open(path, encoding="utf-8") as file:
            text, left = tables.fill_page(file.read(), run)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        for mark in left:
            measures.say(f"{path}: nothing in this run for {mark}")


def main(arguments):
    wish = parse(arguments)
    measures.build(wish.preset, wish.only)
    with open(os.path.join(measures.BENCH, "rows.json"), encoding="utf-8") as file:
        known = json.load(file)
    seen, outputs, peers = [], {}, {}
    names = [row["row"] for row in known]
    torch = measures.torch_python(wish.only, names) if wish.peers else None
    libraries = measures.blas_libraries(wish.only, names) if wish.peers else {}
    floors = rows.needed_of_the_run(known, wish.only)
    data = measures.data_python(wish.only) if wish.peers else None
    python = measures.gym_python(wish.only, names)
    gym = ["--python", python, *(["--peer"] if wish.peers else [])] if python else None
    for name, command in measures.measures(wish.preset, wish.family, torch, libraries, gym, data).items():
        if wish.peers and name == "collectives":
            more, outputs[name], outputs["collective_peer"] = measures.run_beside_peers(command, wish)
        elif wish.peers and name in measures.IN_TURNS:
            more, outputs[name] = measures.run_in_turns(name, command, wish, floors)
        else:
            more, outputs[name] = measures.run_measure(name, command, wish, floors)
        seen += more
    if wish.peers:
        peers = measures.all_peers(wish.only, wish, [row["row"] for row in known + seen])
    table, missing = rows.merge(known, seen, peers, wish.only)
    print(tables.text_table(table), end="")
    write(wish, tables.Run(table, missing, outputs, about(command_of(wish, arguments), table)))
    musts = [row for row in table if row["met"] is not None]
    unmet = [row["row"] for row in musts if not row["met"]]
    print(f"{len(musts) - len(unmet)} of {len(musts)} musts met" + (f"; not met: {', '.join(unmet)}" if unmet else ""))
    for name in missing:
        print(f"MISSING: {name}")
    print(f"{len(os.sched_getaffinity(0))} cores")
    return 1 if missing or (wish.strict and unmet) else 0
