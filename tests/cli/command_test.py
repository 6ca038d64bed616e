"""The `troupe` command as a user meets it: help, wrong usage, and the life of a cluster, in a session folder of its
own."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

TROUPE = DRIVER = None
VERBS = ("start", "stop", "status", "run", "list", "logs", "doctor", "bench")


def alive(pid):
    """A zombie whose parent has not looked yet is not alive."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
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
        self.troupe("stop", "--all")
        self.temporary.cleanup()

    def troupe(self, *arguments, code=None, **environment):
        done = subprocess.run([TROUPE, *arguments], env={**self.environment, **environment}, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{arguments}:\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *more):
        return json.loads(
            self.troupe("start", "--head", "--cpus", "2", "--object-store-memory", "128MB", "--json", *more,
                        code=0).stdout)

    def test_every_verb_has_help(self):
        for verb in VERBS:
            self.assertIn("Usage", self.troupe(verb, "--help", code=0).stdout)
        self.assertIn("the program's own, 128 + the signal", self.troupe("run", "--help", code=0).stdout)

    def test_wrong_usage_is_2(self):
        for arguments in ([], ["fly"], ["start"], ["start", "--head", "--address",
                                                   "a:1"], ["start", "--head", "--cpus",
                                                            "-1"], ["start", "--head", "--resources", "gold"],
                          ["start", "--head", "--object-store-memory",
                           "2XB"], ["list"], ["list", "dreams"], ["list", "nodes", "--filter", "state"],
                          ["logs", "--session", "none", "--tail", "x"], ["run"], ["start", "--head", "--port",
                                                                                  "99999"], ["stop", "--wings"]):
            self.assertEqual(self.troupe(*arguments).returncode, 2, arguments)

    def test_help_names_what_there_is_and_nothing_else(self):
        text = self.troupe("--help", code=0).stdout
        self.assertEqual(
            re.findall(r"^  ([a-z]+) {2,}", text, re.M)[-len(VERBS):],
            ["start", "stop", "status", "run", "list", "logs", "doctor", "bench"])
        self.assertNotIn("not available", text)
        self.troupe("submit", "--", "true", code=2)

    def test_without_a_cluster_it_is_3(self):
        for arguments in (["status"], ["list",
                                       "nodes"], ["status", "--address",
                                                  "127.0.0.1:1"], ["run", "--address", "127.0.0.1:1", "--", "true"]):
            done = self.troupe(*arguments, code=3)
            self.assertTrue(done.stderr.strip(), arguments)

    def test_stop_without_a_cluster_is_done(self):
        self.assertIn("nothing", self.troupe("stop", code=0).stdout)

    def test_doctor_names_every_check_and_what_to_do(self):
        rows = json.loads(self.troupe("doctor", "--json").stdout)
        names = {row["check"] for row in rows}
        self.assertLessEqual(
            {
                "cores", "memory", "store memory", "processes", "open files", "session folder", "libtroupe_rpc", "GPU",
                "token file"
            }, names)
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
        self.assertEqual([(node["state"], node["is_head"], node["labels"].get("zone")) for node in nodes],
                         [("ALIVE", True, "b")])
        self.assertEqual((nodes[0]["resources"]["CPU"], nodes[0]["resources"]["gold"]), (2, 3))
        second = json.loads(
            self.troupe("start", "--address", started["address"], "--cpus", "1", "--object-store-memory", "128MB",
                        "--json", code=0).stdout)
        self.assertNotEqual(second["node_id"], started["node_id"])
        self.assertEqual(json.loads(self.troupe("status", "--json", code=0).stdout)["nodes_alive"], 2)
        self.assertEqual(
            json.loads(self.troupe("list", "nodes", "--json", "--filter", "is_head=true", code=0).stdout)[0]["node_id"],
            started["node_id"])
        self.troupe("list", "nodes", "--filter", "wings=2", code=2)
        seen = self.troupe("run", "--", "sh", "-c", "echo $TROUPE_ADDRESS; exit 7", code=7).stdout.strip()
        self.assertEqual(seen, started["address"])
        self.troupe("stop", code=0)
        self.troupe("status", code=3)
        self.assertFalse(alive(started["pid"]))
        self.assertIn("ENDED", self.troupe("logs", "--list", code=0).stdout)
        self.troupe("logs", code=0)
        nodes = self.rows("nodes", "--session", min(self.sessions()))  # the head's is the older one
        self.assertEqual({node["node_id"] for node in nodes}, {started["node_id"], second["node_id"]})
        self.assertEqual([node["node_id"] for node in nodes if node["is_head"]], [started["node_id"]])

    # REVIEW F.1: nothing but logs was left of a cluster that has ended.
    def test_what_an_ended_cluster_knew_is_listed(self):
        self.start()
        session = max(self.sessions())
        self.assertIn("runs", self.troupe("list", "nodes", "--session", session, code=1).stderr)
        self.troupe("stop", code=0)
        for arguments, code, words in ((["tasks"], 1, "not kept"), (["nodes", "--filter", "wings=2"], 2, "wings")):
            done = self.troupe("list", *arguments, "--session", session, code=code)
            self.assertIn(words, done.stderr)
        self.troupe("list", "nodes", "--session", "none-of-that-name", code=2)
        self.assertEqual(self.rows("nodes", "--session", session, "--filter", "is_head=false"), [])
        self.assertEqual(len(self.rows("nodes", "--session", session, "--filter", "is_head=true")), 1)

    def sessions(self):
        return [row["session"] for row in json.loads(self.troupe("logs", "--list", "--json", code=0).stdout)]

    # REVIEW H.9: at f0736ec each query was a job, and started workers.
    def test_a_query_is_no_job_and_starts_nothing(self):
        self.start()
        for arguments in (["status"], ["list", "nodes"], ["list", "tasks"], ["list", "actors"]):
            self.troupe(*arguments, code=0)
        for kind in ("jobs", "workers"):
            self.assertEqual(json.loads(self.troupe("list", kind, "--json", code=0).stdout), [], kind)

    # REVIEW F.1: at f0736ec a query needed a node of the cluster on its own machine.
    def test_a_query_needs_address_and_token_and_no_node_of_its_own(self):
        started = self.start()
        token = os.path.join(started["session"], "token")
        with tempfile.TemporaryDirectory(prefix="tc-") as elsewhere:
            refused = self.troupe("status", "--address", started["address"], code=3, TROUPE_SESSION_ROOT=elsewhere)
            self.assertIn("--token-file", refused.stderr)
            for arguments in (["status", "--json"], ["list", "nodes", "--json"]):
                by_flags = self.troupe(*arguments, "--address", started["address"], "--token-file", token, code=0,
                                       TROUPE_SESSION_ROOT=elsewhere)
                by_environment = self.troupe(*arguments, code=0, TROUPE_SESSION_ROOT=elsewhere,
                                             TROUPE_ADDRESS=started["address"], TROUPE_TOKEN_FILE=token)
                self.assertEqual(by_flags.stdout, by_environment.stdout)
                self.assertTrue(json.loads(by_flags.stdout))
            joined = self.troupe("start", "--address", started["address"], "--token-file", token, "--cpus", "1",
                                 "--object-store-memory", "64MB", code=0, TROUPE_SESSION_ROOT=elsewhere)
            self.assertIn("node", joined.stdout)
            self.assertEqual(json.loads(self.troupe("status", "--json", code=0).stdout)["nodes_alive"], 2)
            self.troupe("stop", code=0, TROUPE_SESSION_ROOT=elsewhere)

    # REVIEW F.1: at f0736ec every cluster of the user was ended.
    def test_stop_ends_the_cluster_that_is_named(self):
        first, second = self.start(), self.start()
        asked = self.troupe("stop", code=2)
        for one in (first, second):
            self.assertIn(one["address"], asked.stderr)
            self.assertTrue(alive(one["pid"]))
        self.troupe("stop", "--address", first["address"], code=0)
        self.assertFalse(alive(first["pid"]))
        self.assertTrue(alive(second["pid"]))
        self.troupe("stop", "--all", "--address", second["address"], code=2)
        self.troupe("stop", code=0)
        self.assertFalse(alive(second["pid"]))

    def test_stop_all_ends_every_cluster(self):
        first, second = self.start(), self.start()
        self.troupe("stop", "--all", code=0)
        self.assertFalse(alive(first["pid"]) or alive(second["pid"]))

    # REVIEW H.17: at f0736ec the session of the start that failed was taken.
    def test_logs_are_of_the_newest_session_that_started(self):
        started = self.start()
        port = started["address"].rsplit(":", 1)[1]
        self.troupe("start", "--head", "--port", port)
        states = [row["state"] for row in json.loads(self.troupe("logs", "--list", "--json", code=0).stdout)]
        self.assertEqual(states, ["FAILED", "ALIVE"])
        for where in ("while it runs", "post mortem"):
            shown = self.troupe("logs", "--file", "daemon", code=0)
            self.assertIn(started["node_id"], shown.stdout, where)
            self.assertIn("no node came up", shown.stderr, where)
            self.troupe("logs", "--address", started["address"], code=0)
            self.troupe("stop", code=0)
        self.troupe("logs", "--address", "127.0.0.1:1", code=3)

    # REVIEW E.2: nothing listed tasks, actors and objects; A.20: metrics were thrown away; H.12: short ids were all the
    # same.
    def test_what_a_program_has_is_listed(self):
        environment = {**self.environment, "TROUPE_CPUS": "3", "TROUPE_OBJECT_STORE_MEMORY": "64MB"}
        with subprocess.Popen([DRIVER, "rows"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as driver:
            try:
                self.assertEqual(driver.stdout.readline(), "ready\n")
                self.check_rows()
                self.check_metrics()
            finally:
                driver.stdin.close()
        self.assertEqual(driver.returncode, 0)
        session = max(self.sessions())
        self.assertEqual({row["name"] for row in self.rows("actors", "--session", session)}, {"front", "back"})
        self.assertEqual([row["state"] for row in self.rows("jobs", "--session", session)], ["SUCCEEDED"])
        self.assertEqual([row["value"] for row in self.rows("metrics", "--session", session) if row["name"] == "hits"],
                         [4])

    # REVIEW E.2
    def test_the_stack_of_a_fiber_is_as_large_as_was_asked_for(self):
        for size, code in (("8MiB", 0), ("1MiB", 1)):
            done = subprocess.run(
                [DRIVER, "dive", "2000", f"--troupe-stack-size={size}", "--troupe-object-store-memory=64MB"],
                env=self.environment, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn("stack", done.stderr)

    def rows(self, *arguments):
        return json.loads(self.troupe("list", *arguments, "--json", code=0).stdout)

    def check_rows(self):
        actors = self.rows("actors")
        self.assertEqual({(row["name"], row["class_name"].rsplit(":", 1)[-1], row["state"])
                          for row in actors}, {("front", "Counter", "ALIVE"), ("back", "Counter", "ALIVE")})
        tasks = {(row["name"].rsplit(":", 1)[-1], row["state"]) for row in self.rows("tasks")}
        self.assertLessEqual(
            {("square", "FINISHED"), ("fail", "FAILED"), ("long one", "RUNNING"), ("square", "PENDING_ARGUMENTS")},
            tasks)
        failed = self.rows("tasks", "--filter", "state=FAILED")
        self.assertEqual(len(failed), 1)
        self.assertIn("as it should", failed[0]["error"])
        objects = self.rows("objects", "--filter", "state=READY")
        self.assertTrue(any(row["size"] >= 1000 and row["refs"] >= 1 for row in objects), objects)
        self.assertEqual([row["state"] for row in self.rows("jobs")], ["RUNNING"])
        cut = self.troupe("list", "tasks", "--limit", "1", code=0)
        self.assertRegex(cut.stderr, r"1 of \d rows")
        for kind, column in (("actors", 0), ("tasks", 0), ("objects", 0)):
            ids = [line.split()[column] for line in self.troupe("list", kind, code=0).stdout.splitlines()[1:]]
            self.assertEqual(len(ids), len(set(ids)), kind)
            self.assertEqual(len(ids), len(self.rows(kind)), kind)

    def check_metrics(self):
        def by_name():
            return {row["name"]: row for row in json.loads(self.troupe("status", "--metrics", "--json", code=0).stdout)}
        end = time.monotonic() + 30
        while len(by_name()) < 3 or by_name()["hits"]["value"] < 4:  # they are told once a second
            self.assertLess(time.monotonic(), end, by_name())
        seen = by_name()
        self.assertEqual((seen["hits"]["kind"], seen["hits"]["value"], seen["hits"]["processes"]), ("counter", 4, 2))
        self.assertEqual((seen["load"]["kind"], seen["load"]["value"]), ("gauge", 0.5))
        self.assertEqual((seen["times"]["count"], seen["times"]["buckets"]), (4, "<=0.1: 2, <=1: 0, more: 2"))

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

    # REVIEW F.1: at f0736ec -n was ignored when a cluster ran.
    def test_run_with_nodes_of_its_own_beside_a_running_cluster(self):
        started = self.start()
        done = self.troupe("run", "-n", "2", "--", TROUPE, "status", "--json", code=0)
        self.assertEqual(json.loads(done.stdout)["nodes_alive"], 2)
        for named in ({"TROUPE_ADDRESS": started["address"]}, {}):
            flags = [] if named else ["--address", started["address"]]
            self.assertIn("-n", self.troupe("run", "-n", "2", *flags, "--", "true", code=2, **named).stderr)
        self.assertEqual(json.loads(self.troupe("status", "--json", code=0).stdout)["nodes_alive"], 1)

    def test_run_says_what_it_cannot_start(self):
        self.assertIn("no-such-program", self.troupe("run", "--", "./no-such-program", code=2).stderr)


if __name__ == "__main__":
    TROUPE, DRIVER = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
