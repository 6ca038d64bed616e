"""Runs the GPU tests, each step with its own limit, and writes one JSON and one readable report. See tests/gpu/run.

Exit code: 0 nothing failed, 1 something failed, 2 wrong usage. A step that cannot be done here is a skip with its
reason.
"""
import argparse
import glob
import json
import os
import platform
import shutil
import site
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
LIMIT_S = 530


class Report:
    """Steps so far; on disk after each one."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.start, self.data = folder, time.monotonic(), {"kernel": platform.release(), "steps": []}

    def left(self):
        return LIMIT_S - (time.monotonic() - self.start)

    def step(self, name, command, limit, env=None):
        limit = min(limit, self.left())
        if limit < 5:
            return self.add(name, "skipped", "no time left", 0)
        began = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit,
                                  env={**os.environ, **(env or {})})
            text, code = done.stdout + done.stderr, done.returncode
        except subprocess.TimeoutExpired as error:
            text, code = (error.stdout or b"").decode(errors="replace"), "time limit"
        except OSError as error:
            return self.add(name, "skipped", str(error), 0)
        state = {0: "passed", 77: "skipped"}.get(code, "failed")
        return self.add(name, state, text, time.monotonic() - began, code)

    def add(self, name, state, text, seconds, code=None):
        self.data["steps"].append(
            {"step": name, "state": state, "exit": code, "seconds": round(seconds, 1), "output": text[-20000:]})
        self.write()
        print(f"{name}: {state} ({seconds:.1f} s)", flush=True)
        return state == "passed"

    def write(self):
        path = os.path.join(self.folder, "report.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.data, file, indent=1)
        os.replace(path + ".new", path)
        with open(os.path.join(self.folder, "report.txt"), "w", encoding="utf-8") as file:
            file.write(
                f"kernel {self.data['kernel']}, driver {self.data.get('driver')}, "
                f"cuBLASLt {self.data.get('cublaslt')}, NCCL {self.data.get('nccl')}\n"
            )
            for step in self.data["steps"]:
                file.write(f"\n== {step['step']}: {step['state']} ({step['seconds']} s)\n{step['output']}\n")


def find_library(pattern):
    """The first file of Python's nvidia packages that fits, or of the toolkit."""
    roots = [path for path in {*site.getsitepackages(), site.getusersitepackages(), *sys.path} if os.path.isdir(path)]
    for root in roots:
        found = sorted(glob.glob(os.path.join(root, "nvidia", "**", pattern), recursive=True))
        if found:
            return found[0]
    found = sorted(glob.glob("/usr/local/cuda/lib64/" + pattern))
    return found[0] if found else None


class Programs:
    """The programs of the GPU tests: the bundle's, where they run here, else those of the build folder, which are built
    when they are lacking."""

    NAMES = ("gpu_test", "gpu_collectives", "gpu_actors", "gpu_gpt", "gpu_rl")

    def __init__(self, options, report):
        self.options, self.report, self.tried = options, report, False
        self.folders = [options.bundle or os.path.join(HERE, "bundle"), os.path.join(options.build, "tests", "gpu")]
        self.works = {}  # folder -> whether its self-test passes

    def plugin(self, folder):
        places = (os.path.join(folder, "libtroupe_cuda.so"),
                  os.path.join(self.options.build, "kernels", "cuda", "libtroupe_cuda.so"))
        return next((place for place in places if os.path.exists(place)), None)

    def usable(self, folder):
        """Its self-test passes with its plug-in."""
        if folder not in self.works:
            test, plugin = os.path.join(folder, "gpu_test"), self.plugin(folder)
            self.works[folder] = bool(
                os.path.exists(test) and plugin
                and self.report.step("selftest " + test, [test, "--plugin", plugin, "--selftest"], 120))
        return self.works[folder]

    def build(self):
        """Once, from the sources beside this file. False: there are none, no compiler, or it failed."""
        if self.tried:
            return False
        self.tried = True
        root = os.path.dirname(os.path.dirname(HERE))
        cmake = shutil.which(self.options.cmake)
        if not cmake or not os.path.exists(os.path.join(root, "CMakePresets.json")):
            self.report.add("build", "skipped", "no CMake, or no sources beside this program", 0)
            return False
        configured = self.report.step("configure", [cmake, "-S", root, "--preset", "cuda", "-B", self.options.build],
                                      120)
        if not configured or not self.report.step("build", [
                cmake, "--build", self.options.build, "-j",
                str(os.cpu_count() or 1), "--target", *self.NAMES, "troupe_cuda"
        ], 400):
            return False
        self.works.pop(self.folders[1], None)
        return True

    def find(self, name):
        """[path, plug-in] of a program that runs here, or None."""
        for attempt in range(2):
            for folder in self.folders:
                path = os.path.join(folder, name)
                if os.path.exists(path) and self.usable(folder):
                    return [path, self.plugin(folder)]
            if attempt == 0 and not self.build():
                return None
        return None


# Several ranks on one GPU are correct and slow: it gives them time slices.
COLLECTIVES = (
    ("NCCL, one rank", "gpu_collectives", ["one"]),
    ("NCCL, two ranks on one GPU", "gpu_collectives", ["ranks", "2"]),
    ("NCCL, three ranks on one GPU", "gpu_collectives", ["ranks", "3"]),
    ("NCCL, a rank that never comes", "gpu_collectives", ["missing"]),
    ("CUDA IPC between two processes", "gpu_collectives", ["ipc"]),
    ("device arrays between two actors", "gpu_actors", []),
)


def collectives(programs, report):
    """NCCL and CUDA IPC."""
    for name, program_name, words in COLLECTIVES:
        found = programs.find(program_name)
        if not found:
            report.add(name, "skipped", f"no {program_name} here", 0)
            continue
        env = {"TROUPE_CUDA_LIB": found[1]}
        if report.data["nccl"]:
            env["TROUPE_NCCL_LIB"] = report.data["nccl"]
        report.step(name, [found[0], *words], 160, env)


def measured(programs, options, report, name, step):
    """A step whose program, gpu_NAME, writes what it has measured as JSON."""
    found = programs.find("gpu_" + name)
    if not found:
        report.add(step, "skipped", f"no gpu_{name} here", 0)
        return
    result = os.path.join(options.out, name + ".json")
    report.step(step, [found[0], "--plugin", found[1], "--json", result], 180)
    if os.path.exists(result):
        with open(result, encoding="utf-8") as file:
            report.data[name] = json.load(file)
        report.write()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle")
    parser.add_argument("--build", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "cuda"))
    parser.add_argument("--out", default="gpu_report")
    parser.add_argument("--cmake", default="cmake", help="builds what the bundle lacks")
    options = parser.parse_args()
    report = Report(options.out)
    smi = shutil.which("nvidia-smi")
    if smi:
        done = subprocess.run([smi, "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=60)
        report.data["driver"] = done.stdout.strip()
    report.data["cublaslt"] = os.environ.get("TROUPE_CUBLASLT_LIB") or find_library("libcublasLt.so.1*")
    report.data["nccl"] = os.environ.get("TROUPE_NCCL_LIB") or find_library("libnccl.so.2")
    if report.data["cublaslt"]:
        os.environ["TROUPE_CUBLASLT_LIB"] = report.data["cublaslt"]
    golden = os.path.join(HERE, "golden")
    if os.path.isdir(golden):  # a bundle brings its own
        os.environ.setdefault("TROUPE_GOLDEN_DIR", golden)
    programs = Programs(options, report)
    found = programs.find("gpu_test")
    if found:
        result = os.path.join(options.out, "kernels.json")
        report.step("kernels", [found[0], "--plugin", found[1], "--json", result], 300)
        if os.path.exists(result):
            with open(result, encoding="utf-8") as file:
                report.data["kernels"] = json.load(file)
            report.write()
    else:
        report.add("kernels", "skipped", "no program whose self-test passes here", 0)
    collectives(programs, report)
    measured(programs, options, report, "gpt", "GPT-2 124M training step")
    measured(programs, options, report, "rl", "networks of reinforcement learning")
    return 1 if any(step["state"] == "failed" for step in report.data["steps"]) else 0


if __name__ == "__main__":
    sys.exit(main())
