"""What the peers share: an environment of their own, packages from PyPI in virtual environments, programs compiled when
asked for."""
import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def environment(**more):
    """Ours, without what would bind a numeric library to an older processor than this one."""
    return {
        **{name: value
           for name, value in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}, **more
    }


def install_packages(say):
    """The Debian packages of the group peers. False, after saying why: there is no peer then, which is no failure of
    ours."""
    command = [os.path.join(ROOT, "cmake", "install-deps"), "peers"]
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
        say(f"no peer: {' '.join(command)} failed")
        return False
    return True


def install_venv(folder, packages, say):
    """A virtual environment with these packages: its folder, or None after saying why."""
    mark = os.path.join(folder, "installed")
    if os.path.exists(mark):
        with open(mark, encoding="utf-8") as file:
            if file.read().split() == packages:
                return folder
    say(f"installing {' '.join(packages)}")
    if not install_packages(say):
        return None
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    for command in (["python3", "-m", "venv", folder], [os.path.join(folder, "bin", "pip"), "install", "-q",
                                                        *packages]):
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
            say(f"no peer: {' '.join(command)} failed")
            return None
    with open(mark, "w", encoding="utf-8") as file:
        file.write("\n".join(packages) + "\n")
    return folder


def install_torch(folder, say):
    """The Python of an environment with PyTorch, or None."""
    venv = install_venv(os.path.join(folder, "torch"), ["torch==2.15.0", "numpy"], say)
    return os.path.join(venv, "bin", "python") if venv else None


def compile_program(folder, source, name, command, say):
    """Compiles a source of this folder when it is newer than the program: its path, or None after saying why.
    `command`: from the compiler to the flags; after the source come those that name libraries."""
    source, program = os.path.join(HERE, source), os.path.join(folder, name)
    if os.path.exists(program) and os.path.getmtime(program) > os.path.getmtime(source):
        return program
    os.makedirs(folder, exist_ok=True)
    libraries = [flag for flag in command if flag.startswith(("-l", "-L", "-Wl"))]
    rest = [flag for flag in command if flag not in libraries]
    done = subprocess.run([*rest, source, "-o", program, *libraries], capture_output=True, text=True,
                          check=False) if which(rest[0]) else None
    if done is None or done.returncode:
        say(f"no peer {name}: {done.stderr[-800:] if done else rest[0] + ' is not installed'}")
        return None
    return program


def which(program):
    return any(os.access(os.path.join(folder, program), os.X_OK) for folder in os.environ["PATH"].split(os.pathsep))


def run_rows(command, say, name, timeout=300, **more):
    """The JSON lines that a peer prints; those it had until it failed."""
    try:
        done = subprocess.run(command, env=environment(**more), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=timeout)
        output, errors, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        output, errors, code = (late.stdout or b"").decode(errors="replace"), "", f"a timeout of {timeout} s"
    if code:
        say(f"{name} ended with {code}: {errors[-800:]}")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]
