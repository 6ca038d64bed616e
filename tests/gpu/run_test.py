"""tests/gpu/run without a GPU: which programs it takes, and that it builds what the bundle lacks. Programs and CMake
are stand-ins."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
NAMES = ("gpu_test", "gpu_collectives", "gpu_actors", "gpu_gpt", "gpu_rl")


def script(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


class RunTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tg-")
        self.root = self.temporary.name

    def tearDown(self):
        self.temporary.cleanup()

    def path(self, *names):
        return os.path.join(self.root, *names)

    def bundle(self, names, code=0):
        for name in names:
            script(self.path("bundle", name), f"exit {code}\n")
        script(self.path("bundle", "libtroupe_cuda.so"), "")

    def cmake(self, code=0):
        """A CMake that notes what it is asked for, and builds programs that pass."""
        lines = [
            f'echo "$@" >> {self.path("asked")}', f'case "$1" in --build) ;; *) exit {code};; esac',
            f'mkdir -p {self.path("build", "tests", "gpu")}', f'mkdir -p {self.path("build", "kernels", "cuda")}',
            f'touch {self.path("build", "kernels", "cuda", "libtroupe_cuda.so")}'
        ]
        for name in NAMES:
            built = self.path("build", "tests", "gpu", name)
            lines.append(f"printf '#!/bin/sh\\nexit 0\\n' > {built}; chmod +x {built}")
        script(self.path("cmake"), "\n".join(lines) + "\n")

    def run_it(self):
        done = subprocess.run([
            sys.executable,
            os.path.join(HERE, "run.py"), "--bundle",
            self.path("bundle"), "--build",
            self.path("build"), "--out",
            self.path("out"), "--cmake",
            self.path("cmake")
        ], text=True, capture_output=True, timeout=120)
        with open(self.path("out", "report.json"), encoding="utf-8") as file:
            return done.returncode, {step["step"]: step["state"] for step in json.load(file)["steps"]}

    def asked(self):
        try:
            with open(self.path("asked"), encoding="utf-8") as file:
                return file.read().splitlines()
        except OSError:
            return []

    def test_a_whole_bundle_is_taken_as_it_is(self):
        self.bundle(NAMES)
        self.cmake()
        code, steps = self.run_it()
        self.assertEqual((code, set(steps.values()), self.asked()), (0, {"passed"}, []))

    def test_a_bundle_that_does_not_pass_is_built_anew(self):
        self.bundle(NAMES, code=1)
        self.cmake()
        _, steps = self.run_it()
        self.assertEqual(steps["kernels"], "passed")
        self.assertEqual(len(self.asked()), 2)
        self.assertIn("gpu_test", self.asked()[1])

    def test_what_the_bundle_lacks_is_built(self):
        self.bundle(("gpu_test",))
        self.cmake()
        code, steps = self.run_it()
        self.assertEqual((code, set(steps.values())), (0, {"passed"}))
        self.assertEqual(len(self.asked()), 2, "once for all of them")

    def test_where_it_cannot_be_built_the_steps_are_skipped(self):
        self.cmake(code=1)
        code, steps = self.run_it()
        self.assertEqual((code, steps["configure"], steps["kernels"]), (1, "failed", "skipped"))


if __name__ == "__main__":
    unittest.main()
