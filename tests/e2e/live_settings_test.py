"""Tests the settings that operators change while the server runs: the effects of changes, settings that are refused, and the access that a
change requires."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import verdict
from logs_test import keygen, lines_of
from server import ROOT, TINY, Server

PROMPT = list(range(3, 67))  # four blocks


def patch(server, changes, token=None, request_id="-"):
    """Sends PATCH /admin/config and returns (status, parsed body); `changes` may be raw bytes."""
    data = changes if isinstance(changes, bytes) else json.dumps(changes).encode()
    headers = {"Content-Type": "application/json", "x-request-id": request_id, **({"Authorization": "Bearer " + token} if token else {})}
    request = urllib.request.Request(server.admin_url + "/admin/config", data, headers, method="PATCH")
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def settings(server):
    return server.get("/admin/config", admin=True)["settings"]


class ReadAgainTest(unittest.TestCase):
    """Tests that SIGHUP makes the server read the topology file again."""

    def write(self, **limits):
        text = json.dumps({"model": {"path": TINY}, "logs": {"level": self.level}, "cache": {"num_blocks": self.blocks, "prefix_caching": self.caching},
                           "server": {"limits": limits}})
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(self.broken or text)
        self.server.process.send_signal(signal.SIGHUP) if self.server else None

    def soon(self, condition, seconds=20):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, self.server.text())
            time.sleep(0.05)

    def test_sighup_applies_changeable_settings_and_logs_the_others(self):
        with tempfile.TemporaryDirectory() as folder:
            self.path, self.server, self.broken = os.path.join(folder, "topology.yaml"), None, ""
            self.level, self.blocks, self.caching = "info", 100, True
            self.write(queue_seconds=50)
            with Server(self.path, "--set", "server.limits.idle_seconds=33") as self.server:
                self.assertEqual(patch(self.server, {"server.limits.write_seconds": 7})[0], 200)
                self.level, self.caching = "debug", False
                self.write(queue_seconds=51, idle_seconds=1)
                self.soon(lambda: "settings changed by SIGHUP: cache.prefix_caching, logs.level, server.limits.queue_seconds" in self.server.text())
                now = settings(self.server)
                self.assertEqual((now["log_level"], now["limits"]["queue_seconds"]), ("debug", 51))
                self.assertEqual((now["limits"]["idle_seconds"], now["limits"]["write_seconds"]), (33, 7), "a flag's, and an operator's")
                for _ in range(2):  # the engine drops cached prompts and caches no new ones
                    status, answer = self.server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1})
                self.assertEqual((status, answer["usage"]["prompt_tokens_details"]["cached_tokens"]), (200, 0))
                # null restores the file's present value, not the value at the start.
                self.assertEqual(patch(self.server, {"server.limits.queue_seconds": 9})[0], 200)
                self.assertEqual(patch(self.server, {"server.limits.queue_seconds": None})[0], 200)
                self.assertEqual(settings(self.server)["limits"]["queue_seconds"], 51)
                self.blocks = 200
                self.write(queue_seconds=51, idle_seconds=1)
                self.soon(lambda: "settings that need a restart have changed" in self.server.text())
                self.broken = "server: {limits: {queue_seconds: never}}\n"
                self.write()
                self.soon(lambda: "kept the settings as they were" in self.server.text())
                self.assertIn(f"{self.path}:1", self.server.text())
                self.assertEqual(settings(self.server)["limits"]["queue_seconds"], 51)


class LiveSettingsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "1", "--data-parallel-size", "2", "--num-kv-blocks", "300", model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def change(self, **changes):
        status, answer = patch(self.server, {name.replace("__", "."): value for name, value in changes.items()})
        self.assertEqual(status, 200, answer)
        return answer["changed"]

    @contextlib.contextmanager
    def changed(self, changes):
        """Changes settings for the `with` block, and afterwards restores the values that they had when the server started."""
        status, answer = patch(self.server, changes)
        self.assertEqual((status, answer), (200, {"changed": sorted(changes)}))
        try:
            yield
        finally:
            before = patch(self.server, dict.fromkeys(changes))
            self.assertEqual(before[0], 200, before)

    def cached(self, salt):
        """Sends the same prompt twice with this salt. Returns how many tokens of the second prompt come from the cache."""
        body = {"prompt": PROMPT, "max_tokens": 2, "cache_salt": salt}
        for _ in range(2):
            status, answer = self.server.post("/v1/completions", body)
            self.assertEqual(status, 200, answer)
        return (answer["usage"]["prompt_tokens_details"] or {}).get("cached_tokens", 0)

    def test_settings_page_and_server_list_the_same_live_settings(self):
        with open(os.path.join(ROOT, "docs", "settings.md"), encoding="utf-8") as f:
            text = f.read()
        section = text[text.index("## While the server runs"):]
        documented = set(re.findall(r"^- `([\w.]+)`: ", section, re.M))
        self.assertEqual(documented, set(self.server.get("/admin/config", admin=True)["live"]))
        for key in documented:
            self.assertIn(f"| `{key}` |", text[:text.index(section)])

    def test_log_level_changes_while_the_server_runs(self):
        with self.changed({"logs.level": "error"}):
            self.assertEqual(settings(self.server)["log_level"], "error")
            said = self.server.text().count(" info ")
            self.assertEqual(self.server.post("/admin/pause", b"", admin=True)[0], 200)
            self.assertEqual(self.server.post("/admin/resume", b"", admin=True)[0], 200)
            self.assertEqual(self.server.text().count(" info "), said)
        self.assertEqual(settings(self.server)["log_level"], "info")
        self.assertEqual(self.server.text().count(" info "), said + 1, "the change back is told")

    def test_target_inter_token_ms_changes_while_the_server_runs(self):
        with self.changed({"scheduler.target_inter_token_ms": 40}):
            self.assertEqual(settings(self.server)["target_inter_token_ms"], 40)
        self.assertEqual(settings(self.server)["target_inter_token_ms"], 0)

    def test_prefix_caching_turns_off_and_on_while_the_server_runs(self):
        self.assertEqual(self.cached("a"), 48)
        with self.changed({"cache.prefix_caching": False}):
            self.assertFalse(settings(self.server)["enable_prefix_caching"])
            self.assertEqual(self.cached("a"), 0)
            for replica in (0, 1):
                blocks = self.server.get(f"/admin/blocks?replica={replica}", admin=True)
                self.assertEqual([block for block in blocks["blocks"] if block["hash"]], [])
        self.assertEqual(self.cached("a"), 48)

    def test_prefix_caching_stays_off_when_workers_are_replaced(self):
        with self.changed({"cache.prefix_caching": False}):
            ranks = [rank["pid"] for replica in self.server.get("/admin/status", admin=True)["replicas"] for rank in replica["ranks"]]
            for pid in ranks:
                os.kill(pid, signal.SIGKILL)
            self.assertEqual(self.cached("b"), 0)
            self.assertFalse(settings(self.server)["enable_prefix_caching"])

    def wait_and_end(self, change, words):
        """Pauses the server, and lets requests wait on both replicas. The change must end these requests with an error that contains
        `words`."""
        self.server.post("/admin/pause", b"", admin=True)
        answers = []
        prompts = [[10 + i] * 600 for i in range(4)]
        threads = [threading.Thread(target=lambda p=p: answers.append(self.server.post("/v1/completions", {"prompt": p, "max_tokens": 4}))) for p in prompts]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 20
        while not all(waiting := [replica["waiting"] for replica in self.server.get("/admin/status", admin=True)["replicas"]]) or sum(waiting) < len(threads):
            self.assertLess(time.monotonic(), deadline, waiting)
            time.sleep(0.02)
        with self.changed(change):
            for thread in threads:
                thread.join(timeout=30)
            self.assertEqual(len(answers), len(threads), "they wait still")
            for status, answer in answers:
                self.assertIn(status, (408, 503, 504))
                self.assertIn(words, answer["error"]["message"])
        self.server.post("/admin/resume", b"", admin=True)
        self.assertEqual(self.server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 4})[0], 200)

    def test_new_queue_seconds_ends_requests_that_already_wait(self):
        self.wait_and_end({"server.limits.queue_seconds": 1}, "no room within 1 s")

    def test_new_request_seconds_ends_requests_that_already_wait(self):
        self.wait_and_end({"server.limits.request_seconds": 1}, "not done within 1 s")

    def promise(self, size, held):
        """Returns the status of the first answer to a request whose body is not sent; 100: the client may send the body."""
        s = held.enter_context(socket.create_connection(("127.0.0.1", self.server.port), timeout=30))
        s.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {size}\r\n\r\n".encode())
        return int(s.recv(65536)[9:12])

    def test_request_memory_limits_change_while_the_server_runs(self):
        memory = self.server.get("/admin/status", admin=True)["request_memory"]
        with self.changed({"server.limits.memory_bytes": "64MiB"}):
            less = self.server.get("/admin/status", admin=True)["request_memory"]
            self.assertEqual((less["most_bytes"], less["most_bytes_per_client"]), (64 << 20, 32 << 20))
            with self.changed({"server.limits.memory_bytes_per_client": 48 << 20}):
                self.assertEqual(settings(self.server)["limits"]["memory_bytes_per_client"], 48 << 20)
            with self.changed({"server.limits.memory_bytes": "32MiB"}):
                with contextlib.ExitStack() as held:
                    answers = [self.promise(2 << 20, held) for _ in range(17)]
                self.assertEqual(answers, [100] * 16 + [429])
        deadline = time.monotonic() + 20
        while (now := self.server.get("/admin/status", admin=True)["request_memory"]) != memory:
            self.assertLess(time.monotonic(), deadline, now)
            time.sleep(0.02)

    def seconds_until_closed(self, sent):
        """Returns how long a connection that sent these bytes, and then nothing, stays open after the last answer."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as s:
            s.sendall(sent)
            begin = time.monotonic()
            while s.recv(65536):
                pass
            return time.monotonic() - begin

    def test_connection_timeouts_change_while_the_server_runs(self):
        whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        body = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
        for key, sent, otherwise in (("idle_seconds", whole, 75), ("head_seconds", whole[:20], 10), ("body_seconds", body, 30)):
            with self.changed({f"server.limits.{key}": 1}):
                self.assertEqual(settings(self.server)["limits"][key], 1)
                self.assertLess(self.seconds_until_closed(sent), otherwise / 2)
            self.assertEqual(settings(self.server)["limits"][key], otherwise)

    def test_write_rate_change_ends_a_client_that_reads_nothing(self):
        """A client that stops reading a long answer must be cut off after the new time; with the old time it would stay for 30 s."""
        changes = {"server.limits.write_seconds": 1, "server.limits.write_bytes_per_second": 1 << 20, "server.limits.body_bytes_per_second": 1 << 20}
        with self.changed(changes):
            limits = settings(self.server)["limits"]
            self.assertEqual({f"server.limits.{name}": limits[name] for name in ("write_seconds", "write_bytes_per_second", "body_bytes_per_second")}, changes)
            body = json.dumps({"prompt": [[5]] * 16, "max_tokens": 1000, "logprobs": 5, "ignore_eos": True}).encode()
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.settimeout(60)
                s.connect(("127.0.0.1", self.server.port))
                s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                self.assertTrue(s.recv(1))
                deadline = time.monotonic() + 20
                while self.server.get("/load")["server_load"] or self.server.get("/admin/status", admin=True)["request_memory"]["taken_bytes"]:
                    self.assertLess(time.monotonic(), deadline, "the answer is held still")
                    time.sleep(0.05)

    def test_patch_refuses_other_settings_by_name_and_changes_nothing(self):
        for changes, words in (({"cache.block_size": 32}, "cache.block_size cannot change while the server runs"),
                               ({"parallel.tensor": 2}, "restart. What can: cache.prefix_caching, logs.level"),
                               ({"admin.token": "other.token"}, "admin.token cannot change"),
                               ({"backend": None}, "backend cannot change"),
                               ({"logs": {"level": "debug"}}, "logs cannot change"),
                               ({"cache.prefix_cachin": False}, 'unknown key "prefix_cachin"; known: block_size'),
                               ({"nonsense": 1}, 'unknown key "nonsense"'),
                               ({"logs.level": "loud"}, "level must be one of trace, debug"),
                               ({"server.limits.queue_seconds": 0}, "queue_seconds must be an integer from 1"),
                               ({"server.limits.queue_seconds": "soon"}, "queue_seconds must be an integer"),
                               ({"server.limits.queue_seconds": {"a": 1}}, "queue_seconds must be a single value"),
                               ({"server.limits.memory_bytes": "1MiB"}, "memory_bytes must be at least"),
                               ({"server.key_limits": {"alice": {"max_blocks": 5}}}, "server.key_limits are for clients with keys"),
                               ({"server.key_limits": 5}, "expected a mapping"),
                               ([], "an object of keys"), (b"{", "body"), (b"", "body"), ({"": 1}, "no key of a topology file")):
            before = settings(self.server)
            if isinstance(changes, dict) and "logs" not in changes:
                changes = {"logs.level": "debug", **changes}
            status, answer = patch(self.server, changes)
            self.assertEqual(status, 400, answer)
            self.assertIn(words, answer["error"]["message"])
            self.assertEqual(settings(self.server), before)
        self.assertEqual(patch(self.server, {"logs.level": "x" * 5000})[0], 413)
        self.assertEqual(patch(self.server, {}), (200, {"changed": []}))

    def test_events_tell_of_changed_settings(self):
        with urllib.request.urlopen(self.server.admin_url + "/admin/events", timeout=30) as events:
            self.change(server__limits__idle_seconds=70, logs__level="info")
            for line in events:
                if line.startswith(b"data: ") and "server.limits.idle_seconds" in line.decode():
                    break
        self.assertEqual(json.loads(line[6:])["event"], "settings_changed")
        self.assertEqual(json.loads(line[6:])["text"], "logs.level, server.limits.idle_seconds, by an operator")
        self.change(server__limits__idle_seconds=None, logs__level=None)

    def test_config_endpoint_takes_get_and_patch_only(self):
        for method, path in (("DELETE", "/admin/config"), ("PATCH", "/admin/status"), ("PATCH", "/v1/completions")):
            admin = path.startswith("/admin")
            connection = http.client.HTTPConnection("127.0.0.1", self.server.admin_port if admin else self.server.port, timeout=30)
            connection.request(method, path, body=b"{}", headers={"Content-Type": "application/json"})
            self.assertEqual(connection.getresponse().status, 405)
            connection.close()
        endpoints = self.server.get("/admin/help", admin=True)["endpoints"]
        self.assertEqual([e["method"] for e in endpoints if e["path"] == "/admin/config"], ["GET", "PATCH"])


class KeysTest(unittest.TestCase):
    """Tests servers with keys for clients and operators."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        api, admin, cls.audit = (os.path.join(cls.directory.name, name) for name in ("api.keys", "admin.token", "audit.log"))
        cls.keys = {name: keygen("--api", name, "--file", api) for name in ("alice", "bob")}
        cls.watch = keygen("--admin", "watch", "--scopes", "read", "--file", admin)
        cls.ops = keygen("--admin", "ops", "--scopes", "read,control", "--file", admin)
        topology = os.path.join(cls.directory.name, "t.yaml")
        with open(topology, "w", encoding="utf-8") as f:
            f.write(f"model: {{path: {TINY}}}\nserver: {{api_keys: {api}, key_limits: {{bob: {{max_blocks: 100}}}}}}\n"
                    f"admin: {{token: {admin}}}\nlogs: {{audit_file: {cls.audit}}}\n")
        cls.server = Server(topology)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.directory.cleanup()

    def ask(self, name, max_tokens=4):
        return self.server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": max_tokens}, headers={"Authorization": "Bearer " + self.keys[name]})

    def patch(self, limits, request_id="-"):
        status, answer = patch(self.server, {"server.key_limits": limits}, self.ops, request_id)
        self.assertEqual(status, 200, answer)
        return self.server.admin_get("/admin/config", self.watch)["settings"]["key_limits"]

    def test_key_limits_change_while_the_server_runs(self):
        self.assertEqual(self.ask("alice")[0], 200)
        limits = self.patch({"alice": {"tokens_per_minute": 60}})
        self.assertEqual((limits["alice"]["tokens_per_minute"], limits["bob"]["max_blocks"]), (60, 100))
        self.assertEqual(self.ask("alice")[0], 200)
        status, answer = self.ask("alice")
        self.assertEqual((status, "tokens_per_minute of this API key, 60" in answer["error"]["message"]), (429, True), answer)
        limits = self.patch({"alice": {"max_blocks": 3}})  # the new entry replaces the whole old one
        self.assertEqual((limits["alice"]["tokens_per_minute"], limits["alice"]["max_blocks"]), (None, 3))
        status, answer = self.ask("alice")
        self.assertEqual((status, "max_blocks of this API key, 3" in answer["error"]["message"]), (400, True), answer)
        self.assertEqual(self.ask("bob")[0], 200)
        self.assertEqual(set(self.patch({"alice": None, "bob": None})), set())
        self.assertEqual(self.ask("alice")[0], 200)
        status, answer = patch(self.server, {"server.key_limits": None}, self.ops)
        self.assertEqual(status, 200, answer)
        self.assertEqual(set(self.server.admin_get("/admin/config", self.watch)["settings"]["key_limits"]), {"bob"})

    def test_server_warns_of_a_limit_for_an_unknown_key(self):
        self.patch({"carol": {"max_blocks": 3}})
        self.assertIn("server.key_limits limits nobody under carol", self.server.text())
        self.patch({"carol": None})

    def test_patch_needs_the_control_scope_and_is_audited(self):
        for token, status in ((None, 401), (self.watch, 403), (self.keys["alice"], 401)):
            self.assertEqual(patch(self.server, {"logs.level": "debug"}, token)[0], status)
        self.assertEqual(self.server.admin_get("/admin/config", self.watch)["settings"]["log_level"], "info")
        self.patch({"alice": {"max_blocks": 90}}, "changed")
        self.assertEqual(patch(self.server, {"cache.block_size": 4, "secret": "x"}, self.ops, "refused")[0], 400)
        self.patch({"alice": None})
        deadline = time.monotonic() + 20
        found = {}
        while len(found) < 2:
            found = {line["request_id"]: line for line in map(json.loads, lines_of(self.audit, 1)) if line["request_id"] in ("changed", "refused")}
            self.assertLess(time.monotonic(), deadline)
        done, refused = found["changed"], found["refused"]
        self.assertEqual((done["audit"], done["token"], done["outcome"], done["parameters"]),
                         ("/admin/config", "ops", "done", {"server.key_limits": {"alice": {"max_blocks": 90}}}))
        self.assertEqual((refused["outcome"], refused["parameters"]), ("refused", {"cache.block_size": 4, "secret": "(not shown)"}))


if __name__ == "__main__":
    verdict.run_tests()
