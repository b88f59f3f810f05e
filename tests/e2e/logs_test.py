"""Tests the access log, the audit log, admin tokens of several operators, and the form of log lines (JSON and text)."""
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import verdict
from server import QUIRE, TINY, Server


def keygen(*arguments):
    """Runs quire keygen and returns its output: the key."""
    return subprocess.run([QUIRE, "keygen", *arguments], check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def lines_of(path, number, seconds=20):
    """Returns the file's lines once it has this many; another thread writes them."""
    deadline = time.monotonic() + seconds
    while True:
        text = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                text = f.read()
        if text.count("\n") >= number:
            return text.splitlines()
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


class JsonFormatTest(unittest.TestCase):
    def test_every_line_on_standard_error_is_a_json_object(self):
        """Checks the lines of coordinator, workers, mpirun, access log and audit log, while a worker is lost and until the server has
        ended."""
        with Server("-tp", "2", "--log-format", "json", "--access-log", "json", model=TINY) as server:
            self.assertEqual(server.get("/admin/config", admin=True)["settings"]["log_format"], "json")
            server.post("/v1/completions", {"prompt": [3, 4], "max_tokens": 2}, headers={"x-request-id": "mine"})
            server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "web_search_options": {}}, headers={"x-request-id": "searcher"})
            server.post("/admin/pause", {}, admin=True)
            server.post("/admin/resume", {}, admin=True)
            before = server.worker_pids()
            os.kill(before[1], signal.SIGKILL)
            deadline = time.monotonic() + 60
            while before[1] in server.worker_pids() or server.get("/admin/status", admin=True)["state"] != "serving":
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(timeout=40)
            entries = [json.loads(line) for line in server.text().splitlines()]
        for entry in entries:
            self.assertLessEqual({"time", "level", "message"}, set(entry), entry)
            self.assertRegex(entry["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(entry["level"], ("info", "warn", "error"))
        self.assertIn(("access", "mine"), {(entry["message"], entry.get("request_id")) for entry in entries})
        self.assertIn("/admin/pause", {entry.get("audit") for entry in entries if entry["message"] == "audit"})
        self.assertEqual({entry["rank"] for entry in entries if entry["message"].endswith(" joined")}, {0, 1})
        self.assertTrue([entry for entry in entries if entry["message"].startswith("web_search_options") and entry["request_id"] == "searcher"])
        self.assertTrue([entry for entry in entries if "mpirun noticed" in entry["message"] and entry["level"] == "warn"])
        self.assertTrue([entry for entry in entries if entry["message"].startswith("ready after")])

    def test_an_access_log_of_text_needs_a_file(self):
        done = subprocess.run([QUIRE, "serve", "--model", TINY, "--log-format", "json", "--access-log", "text"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--access-log-file FILE", done.stderr)

    def test_workers_started_by_hand_write_json_lines_with_the_flag(self):
        worker = os.path.join(os.path.dirname(QUIRE), "quire-worker")
        command = [worker, "--coordinator", "nowhere", "--log-format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        entry = json.loads(done.stderr.splitlines()[0])
        self.assertEqual((entry["level"], entry["program"], entry["rank"]), ("error", "quire-worker", 0))
        self.assertEqual(subprocess.run([*command[:-1], "xml"], capture_output=True, timeout=60).returncode, 2)


class LogsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        api, admin, cls.access, cls.audit = (os.path.join(cls.directory.name, name) for name in ("api.keys", "admin.token", "access.log", "audit.log"))
        cls.key = keygen("--api", "alice", "--file", api)
        cls.root = keygen("--admin", "--file", admin)
        cls.watch = keygen("--admin", "watch", "--scopes", "read", "--file", admin)
        cls.ops = keygen("--admin", "ops", "--scopes", "read,control", "--file", admin)
        cls.server = Server("-tp", "1", "--api-key-file", api, "--admin-token-file", admin, "--access-log", "json", "--access-log-file", cls.access,
                            "--audit-log-file", cls.audit, model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.directory.cleanup()

    def entries(self, path, request_id):
        """Returns the entries about this request, once there is one."""
        deadline = time.monotonic() + 20
        while True:
            found = [line for line in map(json.loads, lines_of(path, 1)) if line["request_id"] == request_id]
            if found:
                return found
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def admin(self, token, path, body, request_id="-"):
        return self.server.post(path, body, admin=True, headers={"Authorization": "Bearer " + token, "x-request-id": request_id})

    def test_access_log_has_one_line_per_request(self):
        for request_id, more in (("whole", {}), ("stream", {"stream": True})):
            headers = {"Authorization": "Bearer " + self.key, "x-request-id": request_id}
            body = json.dumps({"prompt": "the prompt is nobody's business", "max_tokens": 7, "ignore_eos": True, **more}).encode()
            begin = time.monotonic()
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as s:
                lines = ["POST /v1/completions?secret=1 HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(body)}"]
                s.sendall("\r\n".join(lines + [f"{name}: {value}" for name, value in headers.items()]).encode() + b"\r\n\r\n" + body)
                sent = len(s.makefile("rb").read())
            took = time.monotonic() - begin
            entry, = self.entries(self.access, request_id)
            told = {name: entry[name] for name in ("port", "client", "peer", "method", "path", "status", "completion_tokens", "bytes")}
            self.assertEqual(told, {"port": "data", "client": "alice", "peer": "127.0.0.1", "method": "POST", "path": "/v1/completions", "status": 200,
                                    "completion_tokens": 7, "bytes": sent})
            self.assertGreater(entry["prompt_tokens"], 5)
            self.assertLess(0, entry["first_token_seconds"])
            self.assertLessEqual(entry["queue_seconds"], entry["first_token_seconds"])
            self.assertLessEqual(entry["first_token_seconds"], entry["total_seconds"])
            self.assertLessEqual(entry["total_seconds"], took + 0.1)

    def test_access_log_has_refusals_and_disconnected_clients(self):
        for request_id, key, path, status in (("unknown", "guess", "/v1/completions", 401), ("nowhere", self.key, "/nope", 404)):
            self.assertEqual(self.server.post(path, {}, headers={"Authorization": "Bearer " + key, "x-request-id": request_id})[0], status)
            entry, = self.entries(self.access, request_id)
            self.assertEqual((entry["status"], entry["client"]), (status, "" if status == 401 else "alice"))
        body = json.dumps({"prompt": [5], "max_tokens": 2000, "ignore_eos": True}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as s:
            s.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nx-request-id: left\r\nAuthorization: Bearer {self.key}\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(0.1)
        entry, = self.entries(self.access, "left")
        self.assertEqual((entry["status"], entry["bytes"]), (0, 0))

    def test_audit_log_names_the_operator_and_the_parameters(self):
        self.assertEqual(self.admin(self.ops, "/admin/log_level", {"level": "info"}, "one")[0], 200)
        entry, = self.entries(self.audit, "one")
        self.assertEqual({name: entry[name] for name in ("audit", "token", "peer", "parameters", "outcome", "status")},
                         {"audit": "/admin/log_level", "token": "ops", "peer": "127.0.0.1", "parameters": {"level": "info"}, "outcome": "done", "status": 200})
        self.assertEqual(self.admin(self.root, "/admin/abort", {}, "two")[0], 400)
        entry, = self.entries(self.audit, "two")
        self.assertEqual((entry["token"], entry["outcome"], entry["status"]), ("admin", "refused", 400))
        self.assertEqual(self.admin(self.root, "/admin/pin", {"prompt": "hush hush", "api_key": self.key}, "three")[0], 200)
        entry, = self.entries(self.audit, "three")
        self.assertEqual(entry["parameters"], {"prompt": "(not shown)", "api_key": "(not shown)"})

    def test_admin_token_without_the_scope_gets_403_that_names_the_scope(self):
        self.assertEqual(self.server.admin_get("/admin/status", self.watch)["running"], 0)
        status, answer = self.admin(self.watch, "/admin/pause", {}, "four")
        self.assertEqual((status, answer["error"]["message"]), (403, "the key of watch lacks the scope control"))
        entry, = self.entries(self.audit, "four")
        self.assertEqual((entry["token"], entry["audit"], entry["status"]), ("watch", "/admin/pause", 403))
        self.assertEqual(self.server.admin_get("/admin/status", self.ops)["state"], "serving")

    def test_sighup_reopens_the_log_files(self):
        # Other tests read the log at its path, which the server creates again.
        os.rename(self.access, self.access + ".1")
        self.server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 20
        while not os.path.exists(self.access):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.server.get("/health")
        self.assertEqual(json.loads(lines_of(self.access, 1)[0])["path"], "/health")
        self.assertEqual(os.stat(self.access).st_mode & 0o777, 0o600)

    def test_logs_contain_no_keys_and_no_prompts(self):
        self.server.post("/v1/completions", {"prompt": "nobody's business", "max_tokens": 1}, headers={"Authorization": "Bearer " + self.key, "x-request-id": "last"})
        self.entries(self.access, "last")
        texts = [self.server.text()]
        for name in os.listdir(self.directory.name):
            if ".log" in name:
                with open(os.path.join(self.directory.name, name), encoding="utf-8") as f:
                    texts.append(f.read())
        for text in texts:
            for secret in (self.key, self.root, self.ops, self.watch, "business", "hush hush", "secret=1"):
                self.assertNotIn(secret, text)


class PlainTextTest(unittest.TestCase):
    def test_access_log_in_text_goes_to_standard_error(self):
        with Server("-tp", "1", "--access-log", "text", model=TINY) as server:
            server.post("/v1/completions", {"prompt": [5], "max_tokens": 1})
            deadline = time.monotonic() + 20
            while 'POST "/v1/completions" status=200 prompt_tokens=1 completion_tokens=1 queue=' not in server.text():
                self.assertLess(time.monotonic(), deadline, server.text())
                time.sleep(0.02)

    def test_log_lines_begin_with_date_time_and_zone(self):
        with Server("-tp", "1", model=TINY) as server:
            ready = next(line for line in server.text().splitlines() if " ready after " in line)
        self.assertRegex(ready, r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d info ready after ")

    def test_server_does_not_start_when_a_log_cannot_be_written(self):
        with tempfile.NamedTemporaryFile() as f:
            result = subprocess.run([QUIRE, "serve", "--model", TINY, "--audit-log-file", f.name + "/x"], stdin=subprocess.DEVNULL, capture_output=True,
                                    text=True, timeout=60)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("cannot write the log", result.stderr)


if __name__ == "__main__":
    verdict.run_tests()
