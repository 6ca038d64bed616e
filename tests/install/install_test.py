"""A staged install works for a project that knows nothing of Troupe but the package: it compiles without a warning,
with no include path beside the prefix, and its program runs, with workers, from the prefix alone.

The consumer's program is the one of the README, word for word.
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

OPTIONS = None


def run(*command, **keywords):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **keywords)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="install-test-")
        cls.consumer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "consumer")
        # Installed to one place and then moved: nothing in the package may remember where it was.
        first, cls.prefix = os.path.join(cls.folder, "first"), os.path.join(cls.folder, "prefix")
        run("cmake", "--install", OPTIONS.build, "--prefix", first)
        os.rename(first, cls.prefix)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def configure(self, name, *arguments):
        build = os.path.join(self.folder, name)
        run("cmake", "-G", "Ninja", "-S", self.consumer, "-B", build, f"-DCMAKE_CXX_COMPILER={OPTIONS.compiler}",
            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *arguments)
        return build

    def test_a_project_that_finds_the_package_builds_and_runs(self):
        build = self.configure("found", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
            includes = re.findall(r"(?:-I|-isystem)\s*(\S+)", file.read())
        self.assertEqual(set(includes), {os.path.join(self.prefix, "include")})
        temporary = os.path.join(self.folder, "tmp")
        os.makedirs(temporary, exist_ok=True)
        clean = {
            key: value
            for key, value in os.environ.items() if not key.startswith("TROUPE_") and key != "LD_LIBRARY_PATH"
        }
        output = run(os.path.join(build, "consumer"), env={**clean, "TMPDIR": temporary}, timeout=100)
        self.assertIn("10 6 1048576", output)

    def test_the_program_needs_no_library_of_troupes_dependencies(self):
        build = self.configure("found", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        needed = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", run("readelf", "-d", os.path.join(build, "consumer"))))
        self.assertLessEqual({name.split(".so")[0]
                              for name in needed}, {
                                  "libstdc++", "libgcc_s", "libc", "libm", "libpthread", "libdl", "librt",
                                  "ld-linux-x86-64", "ld-linux-aarch64"
                              }, needed)

    def test_a_project_may_add_the_source_folder(self):
        self.configure("added", f"-DTROUPE_SOURCE={OPTIONS.source}")

    def test_the_command_is_installed_and_runs(self):
        output = run(os.path.join(self.prefix, "bin", "troupe"), "--help")
        self.assertIn("doctor", output)

    def test_the_installed_measures_run(self):
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("TROUPE_", "LD_LIBRARY_PATH"))}
        output = run(os.path.join(self.prefix, "bin", "troupe"), "bench", "--quick", "--json", "--only",
                     "^(put/store_1KiB_filled|actor/sync_us|node/transfer_256MiB_ms)$", env=clean, timeout=200)
        rows = {json.loads(line)["row"]: json.loads(line)["value"] for line in output.splitlines() if line[:1] == "{"}
        self.assertEqual(set(rows), {"put/store_1KiB_filled", "actor/sync_us", "node/transfer_256MiB_ms"}, output)
        self.assertTrue(all(value > 0 for value in rows.values()), rows)

    def test_the_program_is_the_one_of_the_readme(self):
        with open(os.path.join(OPTIONS.source, "README.md"), encoding="utf-8") as file:
            blocks = re.findall(r"```cpp\n(.*?)```", file.read(), re.S)
        with open(os.path.join(self.consumer, "main.cc"), encoding="utf-8") as file:
            self.assertIn(file.read(), blocks)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--compiler", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
