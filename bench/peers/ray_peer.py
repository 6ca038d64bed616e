"""Ray beside us: installs it into a virtual environment under the build folder and runs its Python and its C++ rows.

Known pitfalls of its C++ API in 2.60: the driver works only when it starts its own cluster, with
RAY_AUTH_MODE=disabled; the library is built with the old string ABI.
"""
import contextlib
import ctypes
import glob
import json
import os
import signal
import subprocess
import tempfile

import common

FAMILIES = ("task", "actor", "put", "get", "wait", "refs", "node")
PACKAGES = ["ray[cpp]==2.60.0", "numpy"]
ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}


def build_cpp(folder, venv, say):
    """Driver and library of ray_rows.cc, or None."""
    found = glob.glob(os.path.join(venv, "lib", "python3*", "site-packages", "ray", "cpp"))
    if not found:
        say("no C++ peer: the package has no ray/cpp")
        return None
    source, driver, library = os.path.join(common.HERE, "ray_rows.cc"), os.path.join(folder, "ray_rows"), os.path.join(
        folder, "libray_rows.so")
    if os.path.exists(driver) and os.path.getmtime(driver) > os.path.getmtime(source):
        return driver, library
    compiler = [
        "g++", "-std=c++17", "-O2", "-w", "-D_GLIBCXX_USE_CXX11_ABI=0", f"-I{found[0]}/include",
        f"-I{found[0]}/include/ray/thirdparty", source
    ]
    link = ["-Wl,--no-as-needed", f"-L{found[0]}/lib", "-lray_api", f"-Wl,-rpath,{found[0]}/lib", "-lpthread", "-ldl"]
    for command in ([*compiler, "-fPIC", "-shared", "-o", library, *link], [*compiler, "-DDRIVER", "-o", driver,
                                                                            *link]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            say(f"no C++ peer: {done.stderr[-800:]}")
            return None
    return driver, library


def descendants():
    """Pids of everything below this process."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                children.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
    found, todo = [], [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


@contextlib.contextmanager
def nothing_left():
    """Whatever was started inside is gone afterwards: Ray leaves its daemons when its driver crashes."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)
    before = set(descendants())
    try:
        yield
    finally:
        for pid in set(descendants()) - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0):
                pass


def rows(command, environment, say, name, timeout):
    # Files, not pipes: Ray's daemons inherit them and would keep a pipe open. A folder of its own, or it finds the last
    # cluster.
    with tempfile.TemporaryDirectory(prefix="rp-", ignore_cleanup_errors=True) as folder:
        environment = {**environment, "RAY_TMPDIR": folder}
        with nothing_left(), tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile(
                "w+", errors="replace") as err:
            try:
                code = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                      timeout=timeout).returncode
            except subprocess.TimeoutExpired:
                code = "a timeout"
            out.seek(0)
            err.seek(0)
            output, errors = out.read(), err.read()
    found = {}
    for line in output.splitlines():
        if line.startswith('{"row"'):
            row = json.loads(line)
            found[row["row"]] = row["value"]
    if code:
        say(f"{name} ended with {code}: {errors[-800:]}")
    return found


def measure(folder, only, quick, say, timeout=900):
    """({"Ray Python": {row: value}, "Ray C++": {row: value}}, ""); less where it could not be had."""
    venv = common.install_venv(os.path.join(folder, "venv"), PACKAGES, say)
    if venv is None:
        return {}, ""
    flags = (["--only", only] if only else []) + (["--quick"] if quick else [])
    environment = {
        **{key: value
           for key, value in common.environment().items() if not key.startswith("RAY_")},
        **ENVIRONMENT, "PATH": os.path.join(venv, "bin") + ":" + os.environ["PATH"]
    }
    say("Ray, Python")
    peers = {
        "Ray Python": rows([os.path.join(venv, "bin", "python"),
                            os.path.join(common.HERE, "ray_rows.py"), *flags], environment, say, "Ray, Python", timeout)
    }
    built = build_cpp(folder, venv, say)
    if built:
        say("Ray, C++")
        command = [built[0], *flags, built[1]]
        peers["Ray C++"] = rows(command, environment, say, "Ray, C++", timeout) or rows(
            command, environment, say, "Ray, C++, again", timeout)
    return peers, ""
