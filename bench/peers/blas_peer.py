"""OpenBLAS (Debian's serial flavour) and oneDNN beside our matrix products: blas_rows.cc, compiled once for each, in a process of
its own, which also checks what the library computes."""
import re

import common

FAMILIES = ("kernels",)
SHAPES = [(768, 128, 384), (768, 128, 512), (768, 512, 128), (2048, 384, 1152), (2048, 384, 1536), (2048, 1536, 384)]
SERIAL = "/usr/lib/x86_64-linux-gnu/openblas-serial"
LIBRARIES = {"OpenBLAS": ["-DOPENBLAS", f"-L{SERIAL}", f"-Wl,-rpath,{SERIAL}", "-lopenblas"], "oneDNN": ["-DONEDNN", "-ldnnl"]}


def measure(folder, only, quick, say):
    """({peer: {row: GFLOP/s}}, "")"""
    rows = {f"kernels/linear_forward_{m}x{k}x{n}": (m, k, n) for m, k, n in SHAPES}
    wanted = {row: shape for row, shape in rows.items() if re.search(only, row)}
    if not wanted or not common.install_packages(say):
        return {}, ""
    values = {}
    for name, flags in LIBRARIES.items():
        program = common.compile_program(folder, "blas_rows.cc", name.lower() + "_rows", ["g++", "-O2", "-std=c++17", *flags], say)
        if program is None:
            continue
        say(name)
        seconds = "0.02" if quick else "0.3"
        sizes = [",".join(map(str, shape)) for shape in wanted.values()]
        lines = common.run_rows([program, seconds, *sizes], say, name, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        values[name] = {f"kernels/linear_forward_{line['shape'].replace(',', 'x')}": line["gflops"] for line in lines}
    return values, ""
