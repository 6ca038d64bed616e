"""A tool that comes or goes later changes no command of a build folder that is there: nothing is compiled again."""
import argparse
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = None


def configure(folder, *flags):
    subprocess.run(["cmake", "-S", str(SOURCE), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DTROUPE_BUILD_TESTS=OFF", "-DTROUPE_BUILD_BENCH=OFF", "-DTROUPE_CUDA=OFF", *flags],
                   check=True, stdout=subprocess.DEVNULL, timeout=300)
    commands = subprocess.run(["ninja", "-C", str(folder), "-t", "commands", "troupe"], check=True, capture_output=True,
                              text=True)
    return commands.stdout


class Tools(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.root = pathlib.Path(self.place.name)
        tools = self.root / "tools"
        tools.mkdir()
        self.ccache = tools / "ccache"
        self.ccache.write_text('#!/bin/sh\nexec "$@"\n')
        self.ccache.chmod(0o755)
        self.with_tools = f"-DCMAKE_PROGRAM_PATH={tools}"

    def test_a_launcher_that_is_found_later_is_not_used(self):
        before = configure(self.root / "build", "-DTROUPE_TOOLS=")
        after = configure(self.root / "build", self.with_tools)
        self.assertNotIn(str(self.ccache), after)
        self.assertEqual(before, after)

    def test_a_launcher_is_found_once(self):
        before = configure(self.root / "build", self.with_tools)
        self.assertIn(str(self.ccache), before)
        self.assertEqual(before, configure(self.root / "build", "-UTROUPE_FOUND_CCACHE", "-UCMAKE_PROGRAM_PATH"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    arguments, rest = parser.parse_known_args()
    SOURCE = arguments.source
    unittest.main(argv=["tools_test", *rest])
