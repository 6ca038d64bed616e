"""What is built, what is started, and the rows that it prints.

A measure is a program that takes --json, --only REGEX and --quick. It prints rows, one JSON object a line; every other
line is its own table. One that fails, or does not end in time, says why and gives the rows that it had: their absence
is what counts.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "bench")
PEERS = os.path.join(ROOT, "build", "peers")

sys.path.insert(0, os.path.join(BENCH, "peers"))
import blas_peer  # noqa: E402
import collective_peer  # noqa: E402
import common  # noqa: E402
import data_peer  # noqa: E402
import env_peer  # noqa: E402
import ray_peer  # noqa: E402
import rllib_peer  # noqa: E402
import sb3_peer  # noqa: E402

# Peers of single rows, and the measures that have these rows: ours and theirs run in turns, row by row.
ROW_PEERS = (env_peer, sb3_peer, rllib_peer)
IN_TURNS = {
    "rl_env_steps": [*env_peer.ROWS],
    "rl_steps": [row for row in (*sb3_peer.ROWS, *rllib_peer.ROWS) if row != "rl/rollout_steps"],
    "rl_actors": ["rl/rollout_steps"],
}
# What the commands bench/NAME are: the families of rows, and the measures that print them.
FAMILIES = {
    "collectives": (("collective", "machine"), ("machine", "collectives", "collective_actors")),
    "train": (("train", "machine"), ("machine", "train_gpt")),
    "kernels": (("kernels", "machine"), ("machine", "kernels")),
    "rl": (("rl", "machine"), ("machine", "rl_ppo", "rl_steps", "rl_actors", "rl_env_steps", "rl_gym")),
    "datagen": (("datagen", "machine"), ("machine", "datagen_rows")),
}


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def pattern(family, only):
    """The expression for the rows of a family, in the syntax that Python and ECMAScript share."""
    if not family:
        return only
    names = "|".join(FAMILIES[family][0])
    return f"^(?=(?:{names})/)" + (f".*(?:{only})" if only else "")


def build(preset, only):
    # Formats are in the program only where their libraries were there when it was built.
    data = ["data"] if wants_data(only) else []
    for command in ([os.path.join(ROOT, "cmake", "install-deps"), "build", "test", *data],
                    ["cmake", "--preset", preset],
                    ["cmake", "--build", "--preset", preset, "--target", "troupe_bench"]):
        if subprocess.run(command, cwd=ROOT, stdout=sys.stderr).returncode:
            sys.exit(f"bench/run: {' '.join(command)} failed")


def wants_data(only):
    """Whether rows of data sets are asked for."""
    with open(os.path.join(BENCH, "rows.json"), encoding="utf-8") as file:
        return any(re.search(only, row["row"]) for row in json.load(file) if row["row"].startswith("datagen/"))


def find(folder, name):
    for where, _, names in os.walk(folder):
        if name in names and os.access(os.path.join(where, name), os.X_OK):
            return os.path.join(where, name)
    return None


def torch_python(only, known):
    """The interpreter that has PyTorch, installed before anything is timed; None when no row asks for it or it cannot
    be had."""
    if not any(re.search(only, row) for row in known if row.startswith("train/")):
        return None
    return common.install_torch(PEERS, say)


def gym_python(only, known):
    """The interpreter that has Gymnasium and its games, installed before anything is timed; None when no row asks for
    it or it cannot be had."""
    if not any(re.search(only, row) for row in known if row.startswith("rl/gym_")):
        return None
    command = [os.path.join(ROOT, "cmake", "install-deps"), "rl"]
    if subprocess.run(command, stdout=sys.stderr).returncode:
        say(f"no Gymnasium: {' '.join(command)} failed")
        return None
    return os.path.join(ROOT, "build", "rl-venv", "bin", "python3")


def blas_libraries(only, known):
    """{peer: library} that the kernels' measure runs in turns with ours; empty when no row asks for one."""
    return blas_peer.libraries(say) if any(re.search(only, row) for row in known
                                           if row.startswith("kernels/linear_")) else {}


def commit():
    """The commit that is measured, "+" behind it when the tree has changes."""
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty=+", "--exclude=*"], capture_output=True,
                          text=True)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def data_python(only):
    """The interpreter that has what writes data sets beside us, installed before anything is timed; None when no row
    asks for it or it cannot be had."""
    return data_peer.python(PEERS, say) if wants_data(only) else None


def measures(preset, family, torch=None, libraries=None, gym=None, data=None):
    """{name: command}, in the order in which they run. The machine comes first: the others are read beside it. `gym`:
    more arguments of the measure that steps Gymnasium's environments; None: there is none. `data`: the Python of the
    peers of data sets, which their measure runs in turns with ours."""
    out = os.path.join(ROOT, "build", preset)
    folder = os.path.join(out, "bench", "measures")
    names = sorted(os.listdir(folder), key=lambda name: (name != "machine", name)) if os.path.isdir(folder) else []
    commands = {name: [os.path.join(folder, name)] for name in names}
    rl = find(os.path.join(out, "apps"), "rl")
    for name, program, more in (("rl_ppo", "ppo", []), ("rl_steps", "rl", []),
                                ("datagen_rows", "datagen",
                                 ["--rl", rl or "rl", *(["--peers", data] if data else [])]),
                                ("train_gpt", "gpt", ["--machine", os.path.join(folder, "machine")] +
                                 (["--torch", torch] if torch else []))):
        path = find(os.path.join(out, "apps"), program)
        if path:
            commands[name] = [sys.executable, os.path.join(BENCH, f"{name}.py"), "--program", path, *more]
    path = find(os.path.join(out, "bench"), "bench_rl_gym")
    if path and gym:
        commands["rl_gym"] = [sys.executable, os.path.join(BENCH, "rl_gym.py"), "--program", path, *gym]
    if "kernels" in commands:
        settings = [f"{name}={value}" for name, value in blas_peer.environment(libraries or {}).items()]
        commands["kernels"] = (["env", *settings] if settings else []) + commands["kernels"]
        for peer, library in (libraries or {}).items():
            commands["kernels"] += ["--peer", f"{peer}={library}"]
    if not family:
        return commands
    return {name: commands[name] for name in FAMILIES[family][1] if name in commands}


def read_lines(stream, shows):
    """The rows and the other lines of a measure's output; these are shown as they come, where `shows`."""
    rows, lines = [], []
    for line in stream:
        if line.startswith("{"):
            rows.append(json.loads(line))
            continue
        lines.append(line)
        if shows:
            print(line, end="", flush=True)
    return rows, "".join(lines)


def run_measure(name, command, wish, floors=()):
    """(rows, the measure's own table). `wish`: only, quick, timeout, and whether tables are shown. `floors`: rows that
    are measured in any case."""
    only = "|".join([f"(?:{wish.only})", *(f"^{floor}$" for floor in floors)]) if wish.only else ""
    full = command + ["--json"] + (["--only", only] if only else []) + (["--quick"] if wish.quick else [])
    say(name)
    with subprocess.Popen(full, stdout=subprocess.PIPE, text=True, env=common.environment()) as process:
        late = threading.Timer(wish.timeout, process.kill)
        late.start()
        try:
            rows, output = read_lines(process.stdout, wish.shows)
            code = process.wait()
        finally:
            late.cancel()
    if code:
        say(f"{name}: ended after its {wish.timeout:g} s" if code == -9 else f"{name} ended with code {code}")
    return rows, output


def run_beside_peers(command, wish):
    """The collectives' measure row by row, each row's peers right after it: (rows, its table, the peers' table)."""
    with_peers = [row for row in collective_peer.GLOO_ROWS if re.search(wish.only, row)]
    peers = collective_peer.Peers(PEERS, with_peers, wish.quick, say)
    seen, lines = [], []
    without = "".join(f"(?!{row}(_efficiency)?$)" for row in with_peers)
    for only in [f"^{row}(_efficiency)?$" for row in with_peers] + [f"^{without}(?=.*(?:{wish.only}))"]:
        rows, output = run_measure("collectives", command, argparse.Namespace(**{**vars(wish), "only": only}))
        seen += rows
        head = not lines  # of the first run, not its sums: they are of one row
        lines += [
            line for line in output.splitlines(keepends=True)
            if not line.startswith(("# Out", "# Avg") if head else "#")
        ]
        for row in rows:
            found = peers.of_row(row["row"])
            if found:
                row["peers"] = found
    return seen, "".join(lines), collective_peer.table(peers.times)


def run_in_turns(name, command, wish, floors=()):
    """A measure of IN_TURNS, row by row: ours, then the row's peers; then its other rows. (Rows, the table.)"""
    in_turns = [row for row in IN_TURNS[name] if re.search(wish.only, row)]
    seen, lines = [], []
    others = "".join(f"(?!{row}$)" for row in in_turns)
    for row, only in [(row, f"^{row}$") for row in in_turns] + [(None, f"^{others}(?=.*(?:{wish.only}))")]:
        rows, output = run_measure(name, command, argparse.Namespace(**{**vars(wish), "only": only}),
                                   () if row else floors)
        lines += [line for line in output.splitlines(keepends=True) if not lines or not line.startswith("#")]
        for found in rows:
            peers = peers_of_row(row, wish.quick) if row and found["row"] == row else {}
            if peers:
                found["peers"] = peers
        seen += rows
    return seen, "".join(lines)


def peers_of_row(row, quick):
    """{peer: value}"""
    found = {}
    for module in ROW_PEERS:
        if row in module.ROWS:
            for peer, values in module.measure(PEERS, f"^{row}$", quick, say).items():
                found.update({peer: values[row]} if row in values else {})
    return found


def all_peers(only, wish, known):
    """{peer: {row: value}} of the peers that run after ours; others come with a measure, or run in turns with it."""
    wanted, peers = [row for row in known if re.search(only, row)], {}
    if {row.split("/")[0] for row in wanted} & set(ray_peer.FAMILIES):
        peers.update(ray_peer.measure(PEERS, only, wish.quick, say)[0])
    return peers
