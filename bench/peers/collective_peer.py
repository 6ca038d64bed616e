"""OpenMPI and Gloo beside our collectives: all-reduces counted as ours are (bench/collective_ranks.h): a barrier before
each, the slowest rank, the median; back to back as a second column. Ranks are pinned to cores, and buffers are touched
first.

OpenMPI twice: as Debian ships it, and with its shared-memory collectives (coll/sm), which it has switched off. Gloo
comes with PyTorch. It knows no shared memory: the same figures stand beside ours in shared memory and over TCP.

Up to 1 MiB a peer runs RUNS times and counts with its fastest run: it does not tell whether the host let it alone
meanwhile.
"""
import os
import re
import tempfile

import common

FAMILIES = ("collective",)
SIZES = {"8B": 8, "1KiB": 1 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20, "64MiB": 64 << 20, "256MiB": 256 << 20}
ROWS = [f"collective/all_reduce/{size}/2"
        for size in ("8B", "64KiB", "1MiB", "64MiB", "256MiB")] + ["collective/all_reduce/256MiB/4"]
GLOO_ROWS = ROWS + ["collective/tcp/1KiB/2", "collective/tcp/64MiB/2"]
SMALL = 1 << 20
RUNS = 5
MPI = {"OpenMPI": [], "OpenMPI coll/sm": ["--mca", "pml", "ob1", "--mca", "coll_sm_priority", "100"]}


def shape_of(row):
    """(bytes, ranks)"""
    size, ranks = row.split("/")[-2:]
    return SIZES[size], int(ranks)


def iterations(size, quick, slow):
    """As many as ours; fewer for a peer that takes a quarter of a millisecond for eight bytes."""
    if size >= 64 << 20:
        return 5 if quick else 15
    if size >= 1 << 20:
        return 50 if quick else 200
    return (200 if quick else 1000) if slow else (2000 if quick else 20000)


def in_unit(row, seconds):
    """The value of the row, in its unit."""
    size, ranks = shape_of(row)
    if row == "collective/tcp/64MiB/2":
        return size / seconds / 1e9 * 2 * (ranks - 1) / ranks
    return seconds * (1e3 if size >= 64 << 20 else 1e6)


def runs_of(rows, quick, slow):
    """[(ranks, "bytes:iterations,...")]: all sizes once, then the small ones again."""

    def of_sizes(most):
        sizes = {}
        for size, ranks in sorted({shape_of(row) for row in rows}):
            if size <= most:
                sizes.setdefault(ranks, []).append(f"{size}:{iterations(size, quick, slow)}")
        return [(ranks, ",".join(spelled)) for ranks, spelled in sizes.items()]

    return of_sizes(max(SIZES.values())) + of_sizes(SMALL) * (0 if quick else RUNS - 1)


def keep_fastest(times, line, ranks):
    """`times`: {(bytes, ranks): (median, back to back)}; `line`: what a run says of one size."""
    key, time = (line["bytes"], ranks), (line["median"], line["back_to_back"])
    times[key] = min(times.get(key, time), time)


def mpi_times(program, flags, rows, quick, say, name):
    """{(bytes, ranks): (median, back to back)}"""
    times = {}
    for ranks, sizes in runs_of(rows, quick, slow=False):
        fits = ranks <= len(os.sched_getaffinity(0))
        binding = ["--bind-to", "core"
                   ] if fits else ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        command = ["mpirun", "-n", str(ranks), *binding, *flags, program, sizes]
        for line in common.run_rows(command, say, f"{name}, {ranks} ranks", OMPI_ALLOW_RUN_AS_ROOT="1",
                                    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"):
            keep_fastest(times, line, ranks)
    return times


def gloo_times(python, rows, quick, say):
    times = {}
    for ranks, sizes in runs_of(rows, quick, slow=True):
        with tempfile.TemporaryDirectory(prefix="gp-") as folder:
            command = [
                python,
                os.path.join(common.HERE, "gloo_rows.py"), "--ranks",
                str(ranks), "--sizes", sizes, "--meet",
                os.path.join(folder, "meet")
            ]
            for line in common.run_rows(command, say, f"Gloo, {ranks} ranks", OMP_NUM_THREADS="1"):
                keep_fastest(times, line, ranks)
    return times


def measure(folder, only, quick, say):
    """({peer: {row: value}}, its table)"""
    all_times = {}
    wanted = {
        rows: [row for row in names if re.search(only, row)]
        for rows, names in (("mpi", ROWS), ("gloo", GLOO_ROWS))
    }
    if wanted["mpi"] and common.install_packages(say):
        program = common.compile_program(folder, "mpi_rows.cc", "mpi_rows", ["mpicxx", "-O3", "-std=c++17"], say)
        for name, flags in MPI.items() if program else ():
            say(name)
            all_times[name] = mpi_times(program, flags, wanted["mpi"], quick, say, name)
    python = common.install_torch(folder, say) if wanted["gloo"] else None
    if python:
        say("Gloo")
        all_times["Gloo"] = gloo_times(python, wanted["gloo"], quick, say)
    values = {
        name: {
            row: in_unit(row, times[shape_of(row)][0])
            for row in wanted["gloo" if name == "Gloo" else "mpi"] if shape_of(row) in times
        }
        for name, times in all_times.items()
    }
    return values, table(all_times)


def table(all_times):
    lines = [f"# {'peer':16s} {'size(B)':>12s} {'ranks':>5s} {'time(us)':>12s} {'b2b(us)':>12s}\n"]
    lines += [
        f"  {name:16s} {size:12d} {ranks:5d} {median * 1e6:12.2f} {b2b * 1e6:12.2f}\n"
        for name, times in all_times.items()
        for (size, ranks), (median, b2b) in sorted(times.items(), key=lambda item: (item[0][1], item[0][0]))
    ]
    return "".join(lines) if len(lines) > 1 else ""
