"""OpenMPI and Gloo beside our collectives: all-reduces counted as ours are (bench/collective_ranks.h): a barrier before
each, the slowest rank, the median; back to back as a second column. Buffers are touched first.

A row's peers run right after ours, row by row, as many times as ours: up to 1 MiB RUNS times, the fastest counts,
larger ones once. A run during which others had more than CALM of the CPUs is made again, AGAIN times at most, as ours
is; where none was calm, the calmest counts.

OpenMPI twice: as Debian ships it, and with its shared-memory collectives (coll/sm), which it has switched off; its
ranks are bound to cores, and its malloc keeps the pages of temporary buffers. Gloo comes with PyTorch; its ranks are
not bound, for each has a second thread. It knows no shared memory: the same figures stand beside ours in shared memory
and over TCP.
"""
import os
import resource
import tempfile
import time

import common

SIZES = {"8B": 8, "1KiB": 1 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20, "64MiB": 64 << 20, "256MiB": 256 << 20}
ROWS = [f"collective/all_reduce/{size}/2"
        for size in ("8B", "64KiB", "1MiB", "64MiB", "256MiB")] + ["collective/all_reduce/256MiB/4"]
GLOO_ROWS = ROWS + ["collective/tcp/1KiB/2", "collective/tcp/64MiB/2"]
SMALL = 1 << 20
RUNS = 5
AGAIN = 5
CALM = 0.05
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 20)
}
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


def busy_seconds():
    """CPU time of everybody on this machine so far; what its host took from it counts as somebody's."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, soft, stolen = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + soft + stolen) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """CPU time of this process and of those of its children that have ended."""
    return sum(used.ru_utime + used.ru_stime
               for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def share_of_others(run):
    """(what run() returns, the share of the CPUs that others had meanwhile)"""
    since, busy, own = time.monotonic(), busy_seconds(), own_seconds()
    result = run()
    others = (busy_seconds() - busy) - (own_seconds() - own)
    return result, max(0.0, others) / ((time.monotonic() - since) * os.cpu_count())


def choose(runs, wanted):
    """Of [(median, back to back), share of others] the fastest of those that were calm, at most `wanted` of them; the
    calmest where none was."""
    calm = [seconds for seconds, others in runs if others <= CALM][:wanted]
    return min(calm) if calm else min(runs, key=lambda run: run[1])[0]


def measure_calmly(run, wanted, again):
    """run() -> (median, back to back) or None, `wanted` times and at most `again` times more."""
    runs = []
    for _ in range(wanted + again):
        seconds, others = share_of_others(run)
        if seconds is None:
            return None
        runs.append((seconds, others))
        if sum(others <= CALM for _, others in runs) >= wanted:
            break
    return choose(runs, wanted)


class Peers:
    """Those that this machine can have, ready to run."""

    def __init__(self, folder, rows, quick, say):
        self.quick, self.say = quick, say
        self.times = {}  # {peer: {(bytes, ranks): (median, back to back)}}
        self.program = self.python = None
        if any(row in ROWS for row in rows) and common.install_packages(say):
            self.program = common.compile_program(folder, "mpi_rows.cc", "mpi_rows", ["mpicxx", "-O3", "-std=c++17"],
                                                  say)
        if any(row in GLOO_ROWS for row in rows):
            self.python = common.install_torch(folder, say)

    def of_row(self, row):
        """{peer: value in the row's unit}"""
        runs = {name: lambda flags=flags, name=name: self.run_mpi(row, name, flags)
                for name, flags in MPI.items()} if self.program and row in ROWS else {}
        if self.python and row in GLOO_ROWS:
            runs["Gloo"] = lambda: self.run_gloo(row)
        return {name: value for name, run in runs.items() if (value := self.value(row, name, run)) is not None}

    def value(self, row, name, run):
        size, ranks = shape_of(row)
        times = self.times.setdefault(name, {})
        if (size, ranks) not in times:  # a row over TCP may ask for what one in shared memory has had
            seconds = measure_calmly(run, 1 if self.quick or size > SMALL else RUNS, 0 if self.quick else AGAIN)
            if seconds is None:
                return None
            times[size, ranks] = seconds
        return in_unit(row, times[size, ranks][0])

    def run_mpi(self, row, name, flags):
        size, ranks = shape_of(row)
        fits = ranks <= len(os.sched_getaffinity(0))
        binding = ["--bind-to", "core"
                   ] if fits else ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        return only_line(common.run_rows(
            ["mpirun", "-n", str(ranks), *binding, *flags, self.program,
             f"{size}:{iterations(size, self.quick, False)}"],
            self.say, f"{name}, {ranks} ranks", **MPI_ENVIRONMENT))

    def run_gloo(self, row):
        size, ranks = shape_of(row)
        with tempfile.TemporaryDirectory(prefix="gp-") as folder:
            return only_line(common.run_rows(
                [self.python, os.path.join(common.HERE, "gloo_rows.py"), "--ranks", str(ranks), "--sizes",
                 f"{size}:{iterations(size, self.quick, True)}", "--meet", os.path.join(folder, "meet")],
                self.say, f"Gloo, {ranks} ranks", OMP_NUM_THREADS="1"))


def only_line(lines):
    return (lines[0]["median"], lines[0]["back_to_back"]) if lines else None


def table(all_times):
    lines = [f"# {'peer':16s} {'size(B)':>12s} {'ranks':>5s} {'time(us)':>12s} {'b2b(us)':>12s}\n"]
    lines += [
        f"  {name:16s} {size:12d} {ranks:5d} {median * 1e6:12.2f} {b2b * 1e6:12.2f}\n"
        for name, times in all_times.items()
        for (size, ranks), (median, b2b) in sorted(times.items(), key=lambda item: (item[0][1], item[0][0]))
    ]
    return "".join(lines) if len(lines) > 1 else ""
