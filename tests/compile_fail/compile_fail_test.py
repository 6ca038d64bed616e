"""Programs that must not compile: each file of this folder fails without RIGHT, compiles with it, and the compiler's
first error points at the user's own file, at or under the wrong call, not only into Troupe's headers.

Verdicts are remembered by the text of the file and of all public headers.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
OPTIONS = None
CASES = sorted(name[:-3] for name in os.listdir(HERE) if name.endswith(".cc"))


def compile_case(name, right):
    command = [
        OPTIONS.compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror=unused-result", "-fsyntax-only", "-I",
        os.path.join(OPTIONS.source, "core/include"), *(["-DRIGHT"] if right else []),
        os.path.join(HERE, f"{name}.cc")
    ]
    done = subprocess.run(command, text=True, capture_output=True, env={**os.environ, "LC_ALL": "C"})
    return done.returncode, done.stderr


def fingerprint(name):
    total = hashlib.sha256(OPTIONS.compiler.encode())
    paths = [os.path.join(HERE, f"{name}.cc")]
    for folder, _, names in os.walk(os.path.join(OPTIONS.source, "core/include")):
        paths += [os.path.join(folder, each) for each in names]
    for path in sorted(paths):
        with open(path, "rb") as file:
            total.update(hashlib.sha256(file.read()).digest())
    return total.hexdigest()


def judge(name):
    """None, or what is wrong with this case."""
    code, errors = compile_case(name, right=True)
    if code:
        return f"its right form does not compile:\n{errors[:2000]}"
    code, errors = compile_case(name, right=False)
    if not code:
        return "it compiles"
    if "internal compiler error" in errors:
        return "the compiler crashed"
    if not re.search(rf"{name}\.cc:\d+:\d+:", errors):
        return f"no line of the message points into the user's file:\n{errors[:2000]}"
    count = len(re.findall(r": (?:fatal )?error:", errors))
    if count > 4:
        return f"{count} errors where one would do:\n{errors[:3000]}"
    return None


class CompileFailTest(unittest.TestCase):
    def test_wrong_calls_do_not_compile(self):
        cache = {}
        if OPTIONS.cache and os.path.exists(OPTIONS.cache):
            with open(OPTIONS.cache, encoding="utf-8") as file:
                cache = json.load(file)
        marks = {name: fingerprint(name) for name in CASES}
        todo = [name for name in CASES if cache.get(name) != marks[name]]
        with concurrent.futures.ThreadPoolExecutor(min(os.cpu_count() or 2, 8)) as pool:
            verdicts = dict(zip(todo, pool.map(judge, todo)))
        if OPTIONS.cache:
            with open(OPTIONS.cache, "w", encoding="utf-8") as file:
                json.dump({name: marks[name] for name in CASES if verdicts.get(name) is None}, file)
        print(f"{len(CASES)} cases, {len(todo)} compiled")
        for name, verdict in verdicts.items():
            with self.subTest(name):
                self.assertIsNone(verdict, verdict)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--cache")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
