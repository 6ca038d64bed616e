"""Troupe as a part of other projects, each built from nothing: by add_subdirectory, as a shared library, and in a
program that has another Boost. Heavy: labelled deep.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from install_test import run

OPTIONS = None
HERE = os.path.dirname(os.path.abspath(__file__))


def symbols(*flags):
    return run("nm", "-C", *flags)


class DependencyTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="dependency-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def configure(self, project, name, *arguments):
        build = os.path.join(self.folder, name)
        launcher = shutil.which("ccache")  # given by the project around Troupe, as a user would
        run("cmake", "-G", "Ninja", "-S", os.path.join(HERE, project), "-B", build,
            f"-DCMAKE_CXX_COMPILER={OPTIONS.compiler}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DTROUPE_CUDA=OFF",
            *([f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"] if launcher else []), *arguments)
        return build

    def build(self, folder, *targets):
        run("cmake", "--build", folder, *[word for target in targets for word in ("--target", target)],
            env={**os.environ, "CCACHE_BASEDIR": OPTIONS.source, "CCACHE_NOHASHDIR": "true"})

    def program(self, path):
        temporary = os.path.join(self.folder, "tmp")
        os.makedirs(temporary, exist_ok=True)
        clean = {key: value for key, value in os.environ.items()
                 if not key.startswith("TROUPE_") and key != "LD_LIBRARY_PATH"}
        return run(path, env={**clean, "TMPDIR": temporary}, timeout=100)

    def test_a_project_that_adds_the_source_folder_keeps_its_own_settings(self):
        build = self.configure("consumer", "added", f"-DTROUPE_SOURCE={OPTIONS.source}",
                               "-DCMAKE_POSITION_INDEPENDENT_CODE=OFF")
        with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"(?m)^CMAKE_BUILD_TYPE:STRING=$")
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
            commands = [entry["command"] for entry in json.load(file) if entry["file"].startswith(OPTIONS.source)
                        and not entry["file"].startswith(HERE)]
        self.assertTrue(commands)
        for command in commands:
            self.assertNotIn("-Werror", command)
            self.assertNotRegex(command, r"\s-(O[123s]|g1|DNDEBUG)\s")
        self.assertFalse([command for command in commands if " -fPIC " in command and "/core/rpc/" not in command
                          and "troupe_rpc" not in command and "troupe_cuda" not in command])
        self.build(build, "consumer", "troupe_rpc")
        self.assertIn("10 6 1048576", self.program(os.path.join(build, "consumer")))

    def test_a_shared_library_shows_nothing_but_troupe(self):
        build = self.configure("consumer", "shared", f"-DTROUPE_SOURCE={OPTIONS.source}", "-DBUILD_SHARED_LIBS=ON",
                               "-DTROUPE_INSTALL=ON")
        self.build(build)
        self.assertIn("10 6 1048576", self.program(os.path.join(build, "consumer")))

        prefix = os.path.join(self.folder, "prefix")
        run("cmake", "--install", build, "--prefix", prefix)
        library = os.path.join(prefix, "lib", "libtroupe.so")
        shown = symbols("-D", "--defined-only", library).splitlines()
        self.assertTrue(any("troupe::" in line for line in shown))
        self.assertEqual([line for line in shown if "troupe" not in line], [])
        needed = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", run("readelf", "-d", library)))
        self.assertFalse([name for name in needed if "fmt" in name or "spdlog" in name or "grpc" in name], needed)

        found = self.configure("consumer", "found", f"-DCMAKE_PREFIX_PATH={prefix}")
        self.build(found)
        self.assertIn("10 6 1048576", self.program(os.path.join(found, "consumer")))

    def test_the_installed_archive_has_its_own_boost(self):
        prefix = os.path.join(self.folder, "prefix")
        run("cmake", "--install", OPTIONS.build, "--prefix", prefix)
        text = symbols("--defined-only", os.path.join(prefix, "lib", "libtroupe.a"))
        self.assertIn("troupe_boost::", text)
        self.assertFalse(re.search(r"(?m)\s[TDBRVWu] (boost::|make_fcontext|jump_fcontext|ontop_fcontext)", text))
        build = self.configure("other_boost", "other", f"-DCMAKE_PREFIX_PATH={prefix}")
        self.build(build)
        self.assertIn("3 met", self.program(os.path.join(build, "other_boost")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--compiler", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
