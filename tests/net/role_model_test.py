#!/usr/bin/env python3
"""Has spin try every order of the steps of the consumer role, as role.pml has them: none loses a message or leaves a
thread to wait without a holder (NEP-2, NEP-6, NRO-1 to NRO-3). Without any one of the looks that these invariants ask
for, an order is found that does; otherwise the model proves nothing.

exit codes: 0 proved, 1 not, 77 skipped: no spin, or no C compiler
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "role.pml")
ALONE = ["-DMESSAGES=3", "-DROUNDS=1"]
BESIDE_A_BLOCKER = ["-DMESSAGES=1", "-DROUNDS=1", "-DBLOCKER_BLOCKS"]
LOST = "(ended==2)&&(head=="
NO_HOLDER = "!(queued[2])||(holder!=0)"
REFUTED = [  # without what, where, which assertion fails
    ("THE_LAST_LOOK", ALONE, LOST),
    ("A_LOOK_AT_THE_QUEUE", BESIDE_A_BLOCKER, NO_HOLDER),
    ("A_LOOK_AT_ATTENDANCE", ALONE, LOST),
    ("A_LOOK_AT_THE_HOLDER", ALONE, LOST),
    ("A_LOOK_AT_THE_DOORBELL", ALONE, LOST),
]


def search(compiler, options):
    """What the search printed."""
    with tempfile.TemporaryDirectory(prefix="troupe-role-model-") as folder:
        subprocess.run(["spin", *options, "-a", MODEL], cwd=folder, check=True, stdin=subprocess.DEVNULL)
        subprocess.run([compiler, "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=4096", "-o", "pan", "pan.c"],
                       cwd=folder, check=True, stdin=subprocess.DEVNULL)
        return subprocess.run(["./pan", "-m1000000"], cwd=folder, check=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def proved(compiler, options):
    text = search(compiler, options)
    states = re.search(r"(\d\S*) states, stored", text)
    fine = states and "errors: 0" in text and "not completed" not in text and "too small" not in text
    print(f"proved {' '.join(options)}: {states[1]} states" if fine else f"NOT proved {' '.join(options)}:\n{text}")
    return bool(fine)


def refuted(compiler, without, options, assertion):
    text = search(compiler, options + [f"-DWITHOUT_{without}"])
    fine = re.search(r"assertion violated.*" + re.escape(assertion), text) and "errors: 1" in text
    print(f"refuted without {without}" if fine else f"NOT refuted without {without}:\n{text}")
    return bool(fine)


def main():
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not shutil.which("spin") or not compiler:
        print("skipped: " + ("no C compiler" if shutil.which("spin") else "no spin"))
        return 77
    outcomes = [proved(compiler, ALONE), proved(compiler, BESIDE_A_BLOCKER)]
    outcomes += [refuted(compiler, *case) for case in REFUTED]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
