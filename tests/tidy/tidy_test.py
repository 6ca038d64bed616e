"""Proves that tidy can fail: each rule is broken once in a small tree of its own, and held once."""
import contextlib
import io
import os
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402


class TidyTest(unittest.TestCase):
    def problems(self, files, compiled=False, every=True):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            tree = tidy.Tree(root)
            found = [*tidy.check_arrows(tree), *tidy.check_public(tree), *tidy.check_banned(tree),
                     *tidy.check_columns(tree), *tidy.check_names(tree), *tidy.check_promises(tree),
                     *tidy.check_patches(tree)]
            if compiled:
                cache = os.path.join(root, "cache.json")
                with contextlib.redirect_stdout(io.StringIO()):
                    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]
                    found += tidy.check_alone(tree, "g++", flags, cache, 1, every)
                    again = tidy.check_alone(tree, "g++", flags, cache, 1, every)
                self.assertEqual(len(again), sum("alone" in line for line in found), "the cache forgets a failure")
            return found

    def assert_one(self, found, *words):
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_an_arrow_that_points_up_is_found(self):
        self.assert_one(self.problems({"core/base/a.cc": '#include "core/node/roles/roles.h"\n'}), "core/base/a.cc:1",
                        "core/node/roles/roles.h")

    def test_an_arrow_that_points_down_is_fine(self):
        self.assertEqual(
            self.problems({"core/node/base/a.cc": '#include "core/base/ids.h"\n#include <troupe/result.h>\n'}), [])

    def test_a_sub_folder_with_a_line_of_its_own_is_a_layer(self):
        layers = {"base": [], "net": ["base"], "net/ring": ["base"], "net/link": ["base", "net/ring"], "node": ["net"]}
        with unittest.mock.patch.object(tidy.rules, "LAYERS", layers):
            down, below = '#include "core/net/ring/a.h"\n', '#include "core/net/link/a.h"\n'
            self.assertEqual(
                self.problems({"core/net/link/b.cc": down, "core/node/b.cc": below, "core/net/b.cc": below}), [])
            self.assert_one(self.problems({"core/net/ring/b.cc": below}), "net/ring may not include core/net/link/a.h")
            self.assert_one(self.problems({"core/net/ring/deep/b.cc": below}), "net/ring may not include")
            self.assert_one(self.problems({"core/net/link/b.cc": '#include "core/net/data/a.h"\n'}),
                            "net/link may not include core/net/data/a.h")

    def test_an_app_that_reaches_behind_the_public_headers_is_found(self):
        self.assert_one(self.problems({"apps/rl/a.cc": '#include "core/runtime/runtime.h"\n'}),
                        "apps/rl may not include")

    def test_a_mutation_that_does_not_apply_any_more_is_found(self):
        code = {"core/base/a.cc": "int a() {\n  return 1;\n}\n"}
        head = "# undoes: X\n--- a/core/base/a.cc\n+++ b/core/base/a.cc\n@@ -1,3 +1,3 @@\n int a() {\n"
        fits, stale = head + "-  return 1;\n+  return 2;\n }\n", head + "-  return 0;\n+  return 2;\n }\n"
        self.assertEqual(self.problems(code | {"tests/sim/mutations/a.patch": fits}), [])
        self.assert_one(self.problems(code | {"tests/sim/mutations/a.patch": stale}), "a.patch", "core/base/a.cc")
        self.assert_one(self.problems({"tests/sim/mutations/a.patch": fits}), "core/base/a.cc, which is not there")

    def test_a_folder_outside_of_the_table_is_found(self):
        self.assert_one(self.problems({"core/misc/a.cc": "\n"}), "table of layers")

    def test_a_public_header_with_a_foreign_include_is_found(self):
        self.assert_one(self.problems({"core/include/troupe/a.h": "#include <vector>\n#include <boost/json.hpp>\n"}),
                        "boost/json.hpp")

    def test_a_banned_call_is_found_with_its_replacement(self):
        self.assert_one(self.problems({"core/net/a.cc": "void f() { std::this_thread::sleep_for(x); }\n"}), "sleep",
                        "instead:")

    def test_a_banned_call_in_a_comment_or_string_is_none(self):
        text = '// std::this_thread::sleep_for\n/* getenv( */ const char* s = "printf(";\n'
        self.assertEqual(self.problems({"core/net/a.cc": text}), [])

    def test_a_banned_call_where_it_has_a_reason_is_fine(self):
        self.assertEqual(self.problems({"core/exec/a.cc": "void f() { boost::this_fiber::yield(); }\n"}), [])

    def test_every_ban_matches_its_own_example(self):
        examples = {
            "sleep": "usleep(3);",
            "boost fiber": "boost::this_fiber::yield();",
            "boost fiber pools": "work_stealing x;",
            "getenv": 'std::getenv("A");',
            "subranges of std::ranges": "v.erase(std::ranges::unique(v).begin(), v.end());",
            "atomic wait": "a.wait(0, std::memory_order_acquire);",
            "fork": "int p = fork();",
            "stdout in a library": 'printf("x");',
            "using namespace in a header": "using namespace std;",
            "parent-death signal": "prctl(PR_SET_PDEATHSIG, 9);",
            "named shared memory": 'shm_open("/a", 0, 0);',
            "clock in a pure layer": "auto t = std::chrono::steady_clock::now();",
            "randomness in a pure layer": "std::random_device d;",
            "detached thread": "t.detach();",
            "gRPC and protobuf": "#include <grpcpp/grpcpp.h>",
            "unsafe temporary name": "mktemp(a);",
        }
        self.assertEqual(set(examples), {ban.name for ban in tidy.rules.BANS})
        for ban in tidy.rules.BANS:
            found = self.problems({"scheduler/a.h": examples[ban.name] + "\n"})
            self.assertTrue(any(f"({ban.name})" in line for line in found), ban.name)

    def test_a_comment_that_names_a_file_that_is_not_there_is_found(self):
        files = {"core/net/a.h": "// See net/a.h and fmt/core.h.\n// And net/b.h.\n"}
        self.assert_one(self.problems(files), "core/net/a.h:2", "net/b.h")

    def test_a_long_line_is_found(self):
        self.assert_one(self.problems({"bench/a.py": "x = 1  # " + "x" * 112 + "\n"}), "bench/a.py:1", "121 columns")
        self.assertEqual(self.problems({"kernels/a.cc": "// " + "x" * 117 + "\n"}), [])

    def test_an_identifier_that_is_declared_twice_is_found(self):
        files = {"core/base/a.h": "//   AB-1  It holds.\n", "core/net/b.h": "//   AB-1  Another thing holds.\n"}
        self.assert_one(self.problems(files), "AB-1", "core/base/a.h:1", "core/net/b.h:1")

    def test_a_pointer_to_another_contract_declares_nothing(self):
        files = {"core/base/a.h": "//   AB-1  It holds.\n", "core/base/b.h": "//   AB-1  (a.h)\n// By AB-1; AVX-512.\n"}
        self.assertEqual(self.problems(files), [])

    def test_an_identifier_that_nobody_declares_is_found(self):
        files = {
            "core/base/a.h": "//   AB-1  It holds.\n", "tests/base/a_test.cc": "// AB-1\nTEST(A, AB2_ItHolds) {}\n"
        }
        self.assert_one(self.problems(files), "tests/base/a_test.cc:2", "AB-2")
        self.assert_one(self.problems({"docs/a.md": "as AC-3 says\n"}), "docs/a.md:1", "AC-3")

    def test_a_header_that_needs_another_is_found(self):
        self.assert_one(self.problems({"core/base/a.h": "#pragma once\nstd::string f();\n"}, compiled=True),
                        "core/base/a.h", "alone")

    def test_a_header_that_compiles_alone_is_fine(self):
        self.assertEqual(
            self.problems({"core/base/a.h": "#pragma once\n#include <string>\nstd::string f();\n"}, compiled=True), [])

    def test_a_header_that_a_file_includes_first_is_left_to_that_files_compilation(self):
        header = {"core/base/a.h": "#pragma once\nstd::string f();\n"}
        for first in ('#include "core/base/a.h"\n', '// a.cc\n#include "a.h"\n'):
            files = {**header, "core/base/a.cc": first + "#include <string>\n"}
            self.assertEqual(self.problems(files, compiled=True, every=False), [])
            self.assert_one(self.problems(files, compiled=True), "core/base/a.h", "alone")
        second = {**header, "core/base/a.cc": '#include <string>\n#include "core/base/a.h"\n'}
        self.assert_one(self.problems(second, compiled=True, every=False), "core/base/a.h", "alone")
        public = {"core/include/troupe/a.h": "#pragma once\nstd::string f();\n"}
        files = {**public, "core/base/a.cc": "#include <troupe/a.h>\n"}
        self.assertEqual(self.problems(files, compiled=True, every=False), [])

    def test_functions_are_measured(self):
        code = ("namespace a {\nstruct B {\n  int f() const {\n    if (x) {\n      y();\n    }\n    return 1;\n  }\n"
                "};\nint g() { return 2; }\n}\n")
        self.assertEqual([(lines, first) for lines, first, _ in tidy.functions(code)], [(6, 3), (1, 10)])


if __name__ == "__main__":
    unittest.main()
