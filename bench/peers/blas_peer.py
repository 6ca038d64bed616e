"""OpenBLAS (Debian's serial flavour) and oneDNN beside our matrix products: the kernels' measure loads both, checks
what they compute, and runs them in turns with ours."""
import os

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
