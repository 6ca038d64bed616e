"""Runs the GPU tests, each step with its own limit, and writes one JSON and one readable report. See tests/gpu/run.

Exit code: 0 nothing failed, 1 something failed, 2 wrong usage. A step that cannot be done here is a skip with its reason.
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
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env={**os.environ, **(env or {})})
            text, code = done.stdout + done.stderr, done.returncode
        except subprocess.TimeoutExpired as error:
            text, code = (error.stdout or b"").decode(errors="replace"), "time limit"
        except OSError as error:
            return self.add(name, "skipped", str(error), 0)
        state = {0: "passed", 77: "skipped"}.get(code, "failed")
        return self.add(name, state, text, time.monotonic() - began, code)

    def add(self, name, state, text, seconds, code=None):
        self.data["steps"].append({"step": name, "state": state, "exit": code, "seconds": round(seconds, 1), "output": text[-20000:]})
        self.write()
        print(f"{name}: {state} ({seconds:.1f} s)", flush=True)
        return state == "passed"

    def write(self):
        path = os.path.join(self.folder, "report.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.data, file, indent=1)
        os.replace(path + ".new", path)
        with open(os.path.join(self.folder, "report.txt"), "w", encoding="utf-8") as file:
            file.write(f"kernel {self.data['kernel']}, driver {self.data.get('driver')}, cuBLASLt {self.data.get('cublaslt')}, NCCL {self.data.get('nccl')}\n")
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


def program(options, report):
    """The bundle's program if its self-test passes, else one built here."""
    candidates = [os.path.join(options.bundle or os.path.join(HERE, "bundle"), "gpu_test"), os.path.join(options.build, "tests/gpu/gpu_test")]
    for candidate in candidates:
        plugin = next((p for p in (os.path.join(os.path.dirname(candidate), "libtroupe_cuda.so"),
                                   os.path.join(options.build, "kernels/cuda/libtroupe_cuda.so")) if os.path.exists(p)), None)
        if os.path.exists(candidate) and plugin and report.step("selftest " + candidate, [candidate, "--plugin", plugin, "--selftest"], 120):
            return [candidate, "--plugin", plugin]
    return None


# Several ranks on one GPU are correct and slow: the recipe takes time slices (docs/gpu.md).
COLLECTIVES = (
    ("NCCL, one rank", "gpu_collectives", ["one"]),
    ("NCCL, two ranks on one GPU", "gpu_collectives", ["ranks", "2"]),
    ("NCCL, three ranks on one GPU", "gpu_collectives", ["ranks", "3"]),
    ("NCCL, a rank that never comes", "gpu_collectives", ["missing"]),
    ("CUDA IPC between two processes", "gpu_collectives", ["ipc"]),
    ("device arrays between two actors", "gpu_actors", []),
)


def collectives(command, report):
    """NCCL and CUDA IPC, by the programs beside the one whose self-test has passed."""
    for name, program_name, words in COLLECTIVES:
        path = os.path.join(os.path.dirname(command[0]), program_name) if command else None
        if not path or not os.path.exists(path):
            report.add(name, "skipped", f"no {program_name} here", 0)
            continue
        env = {"TROUPE_CUDA_LIB": command[command.index("--plugin") + 1]}
        if report.data["nccl"]:
            env["TROUPE_NCCL_LIB"] = report.data["nccl"]
        report.step(name, [path, *words], 160, env)


def training(command, options, report):
    """The training step of a GPT-2 124M, float and bfloat16."""
    path = os.path.join(os.path.dirname(command[0]), "gpu_gpt") if command else None
    if not path or not os.path.exists(path):
        report.add("GPT-2 124M training step", "skipped", "no gpu_gpt here", 0)
        return
    result = os.path.join(options.out, "gpt.json")
    report.step("GPT-2 124M training step", [path, *command[1:], "--json", result], 180)
    if os.path.exists(result):
        with open(result, encoding="utf-8") as file:
            report.data["gpt"] = json.load(file)
        report.write()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle")
    parser.add_argument("--build", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "cuda"))
    parser.add_argument("--out", default="gpu_report")
    options = parser.parse_args()
    report = Report(options.out)
    smi = shutil.which("nvidia-smi")
    if smi:
        done = subprocess.run([smi, "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True, timeout=60)
        report.data["driver"] = done.stdout.strip()
    report.data["cublaslt"] = os.environ.get("TROUPE_CUBLASLT_LIB") or find_library("libcublasLt.so.1*")
    report.data["nccl"] = os.environ.get("TROUPE_NCCL_LIB") or find_library("libnccl.so.2")
    if report.data["cublaslt"]:
        os.environ["TROUPE_CUBLASLT_LIB"] = report.data["cublaslt"]
    golden = os.path.join(HERE, "golden")
    if os.path.isdir(golden):  # a bundle brings its own
        os.environ.setdefault("TROUPE_GOLDEN_DIR", golden)
    command = program(options, report)
    if command:
        result = os.path.join(options.out, "kernels.json")
        report.step("kernels", [*command, "--json", result], 300)
        if os.path.exists(result):
            with open(result, encoding="utf-8") as file:
                report.data["kernels"] = json.load(file)
            report.write()
    else:
        report.add("kernels", "skipped", "no program whose self-test passes here", 0)
    collectives(command, report)
    training(command, options, report)
    return 1 if any(step["state"] == "failed" for step in report.data["steps"]) else 0


if __name__ == "__main__":
    sys.exit(main())
