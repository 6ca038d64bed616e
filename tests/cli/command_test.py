"""The `troupe` command as a user meets it: help, wrong usage, and the life of a cluster, in a session folder of its own."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TROUPE = None


def alive(pid):
    """A zombie whose parent has not looked yet is not alive."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def runs(pid):
    """A zombie does not: when it goes is its new parent's affair."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tc-")
        self.root = self.temporary.name
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("TROUPE_")}
        self.environment["TROUPE_SESSION_ROOT"] = self.root

    def tearDown(self):
        self.troupe("stop")
        self.temporary.cleanup()

    def troupe(self, *arguments, code=None, **environment):
        done = subprocess.run([TROUPE, *arguments], env={**self.environment, **environment}, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=120)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{arguments}:\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *more):
        return json.loads(self.troupe("start", "--head", "--cpus", "2", "--object-store-memory", "128MB", "--json", *more, code=0).stdout)

    def test_every_verb_has_help(self):
        for verb in ("start", "stop", "status", "run", "list", "logs", "doctor", "bench", "submit", "top"):
            self.assertIn("Usage", self.troupe(verb, "--help", code=0).stdout)

    def test_wrong_usage_is_2(self):
        for arguments in ([], ["fly"], ["start"], ["start", "--head", "--address", "a:1"], ["start", "--head", "--cpus", "-1"],
                          ["start", "--head", "--resources", "gold"], ["start", "--head", "--object-store-memory", "2XB"], ["list"],
                          ["list", "dreams"], ["list", "nodes", "--filter", "state"], ["logs", "--session", "none", "--tail", "x"],
                          ["run"], ["start", "--head", "--port", "99999"], ["stop", "--wings"]):
            self.assertEqual(self.troupe(*arguments).returncode, 2, arguments)

    def test_verbs_to_come_say_so(self):
        done = self.troupe("top", code=2)
        self.assertIn("not available yet", done.stderr)

    def test_without_a_cluster_it_is_3(self):
        for arguments in (["status"], ["list", "nodes"], ["status", "--address", "127.0.0.1:1"], ["run", "--address", "127.0.0.1:1", "--", "true"]):
            done = self.troupe(*arguments, code=3)
            self.assertTrue(done.stderr.strip(), arguments)

    def test_stop_without_a_cluster_is_done(self):
        self.assertIn("nothing", self.troupe("stop", code=0).stdout)

    def test_doctor_names_every_check_and_what_to_do(self):
        rows = json.loads(self.troupe("doctor", "--json").stdout)
        names = {row["check"] for row in rows}
        self.assertLessEqual({"cores", "memory", "store memory", "processes", "open files", "session folder", "libtroupe_rpc", "GPU", "token file"}, names)
        for row in rows:
            self.assertEqual(row["level"] == "ok", row["advice"] == "", row)

    def test_doctor_fails_for_a_session_folder_that_cannot_be_used(self):
        blocked = os.path.join(self.root, "blocked")
        with open(blocked, "w", encoding="utf-8"):
            pass
        done = self.troupe("doctor", "--session-root", blocked, code=1)
        self.assertIn("TROUPE_SESSION_ROOT", done.stdout)

    def test_the_life_of_a_cluster(self):
        started = self.start("--labels", "zone=b", "--resources", "gold=3")
        nodes = json.loads(self.troupe("list", "nodes", "--json", code=0).stdout)
        self.assertEqual([(node["state"], node["is_head"], node["labels"].get("zone")) for node in nodes], [("ALIVE", True, "b")])
        self.assertEqual((nodes[0]["resources"]["CPU"], nodes[0]["resources"]["gold"]), (2, 3))
        second = json.loads(self.troupe("start", "--address", started["address"], "--cpus", "1", "--object-store-memory", "128MB", "--json", code=0).stdout)
        self.assertNotEqual(second["node_id"], started["node_id"])
        self.assertEqual(json.loads(self.troupe("status", "--json", code=0).stdout)["nodes_alive"], 2)
        self.assertEqual(json.loads(self.troupe("list", "nodes", "--json", "--filter", "is_head=true", code=0).stdout)[0]["node_id"], started["node_id"])
        self.troupe("list", "nodes", "--filter", "wings=2", code=2)
        seen = self.troupe("run", "--", "sh", "-c", "echo $TROUPE_ADDRESS; exit 7", code=7).stdout.strip()
        self.assertEqual(seen, started["address"])
        self.troupe("stop", code=0)
        self.troupe("status", code=3)
        self.assertFalse(alive(started["pid"]))
        self.assertIn("ENDED", self.troupe("logs", "--list", code=0).stdout)
        self.troupe("logs", code=0)

    def test_an_address_file_is_written_when_the_cluster_is_ready(self):
        path = os.path.join(self.root, "address")
        started = self.start("--address-file", path)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read().strip(), started["address"])
        self.troupe("status", "--address", path, code=0)

    def test_a_port_in_use_is_an_error_that_names_it(self):
        port = self.start()["address"].rsplit(":", 1)[1]
        with tempfile.TemporaryDirectory(prefix="tc-") as other:
            done = self.troupe("start", "--head", "--port", port, TROUPE_SESSION_ROOT=other)
        self.assertIn(done.returncode, (1, 2))
        self.assertIn(port, done.stderr)

    def test_run_with_nodes_of_its_own_leaves_none(self):
        done = self.troupe("run", "-n", "2", "--", TROUPE, "status", "--json", code=0)
        self.assertEqual(json.loads(done.stdout)["nodes_alive"], 2)
        self.troupe("status", code=3)

    def test_run_says_what_it_cannot_start(self):
        self.assertIn("no-such-program", self.troupe("run", "--", "./no-such-program", code=2).stderr)


if __name__ == "__main__":
    TROUPE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
