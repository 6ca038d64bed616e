"""OpenBLAS (Debian's serial flavour) and oneDNN beside our matrix products: the kernels' measure loads both, checks
what they compute, and runs them in turns with ours."""
import os
import subprocess
import sys

import common

LIBRARIES = {"OpenBLAS": "openblas-serial/libopenblas.so.0", "oneDNN": "libdnnl.so.2"}
FOLDER = "/usr/lib/x86_64-linux-gnu"


def libraries(say):
    """{peer: file}; less where one could not be had."""
    if not common.install_packages(say):
        return {}
    found = {
        name: os.path.join(FOLDER, file)
        for name, file in LIBRARIES.items() if os.path.exists(os.path.join(FOLDER, file))
    }
    for name in LIBRARIES.keys() - found.keys():
        say(f"no {name}: no {LIBRARIES[name]} under {FOLDER}")
    return found


# What OpenBLAS names the cores for which it has no vectors wider than SSE: it takes them for a processor that is newer
# than itself, and says nothing.
OLD_CORES = ("Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Generic")
ASKS_CORE = """import ctypes, sys
name = ctypes.CDLL(sys.argv[1]).openblas_get_corename
name.restype = ctypes.c_char_p
print(name().decode())"""


def core_to_name(chosen, flags):
    """The core that OpenBLAS has to be told, for a processor with these flags; None where its own choice has kernels
    as wide as the processor."""
    if chosen not in OLD_CORES:
        return None
    wide = {"SkylakeX": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}, "Haswell": {"avx2", "fma"}}
    return next((core for core, needed in wide.items() if needed <= flags), None)


def environment(found):
    """What the measure needs in its environment, so that these libraries run at their better setting: {name: value}."""
    if "OpenBLAS" not in found:
        return {}
    asked = subprocess.run([sys.executable, "-c", ASKS_CORE, found["OpenBLAS"]], env=common.environment(), text=True,
                           capture_output=True)
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((set(line.split(":")[1].split()) for line in file if line.startswith("flags")), set())
    core = core_to_name(asked.stdout.strip(), flags)
    return {"OPENBLAS_CORETYPE": core} if core else {}
