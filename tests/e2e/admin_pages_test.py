"""Tests the admin port's pages of requests, blocks, the cluster, the settings, events and history, and the files of the web pages."""
import http.client
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import verdict
from server import BUILD, QUIRE, ROOT, TINY, Server
from stream_client import stream_in_background


def ids_of(ranges):
    return [0 if first == 0 else first + i for first, count in ranges for i in range(count)]


class EventReader:
    """Reads /admin/events in the background; found(...) waits for an event."""

    def __init__(self, server, since=None):
        self.events = []
        path = "/admin/events" + ("" if since is None else f"?since={since}")
        self.response = urllib.request.urlopen(server.admin_url + path, timeout=60)
        assert self.response.headers["Content-Type"].startswith("text/event-stream")
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        event = None
        try:
            for line in self.response:
                if line.startswith(b"event: "):
                    event = line[7:].strip().decode()
                if line.startswith(b"data: "):
                    self.events.append((event, json.loads(line[6:])))
        except (OSError, http.client.HTTPException, AttributeError):
            pass  # the server or the test has ended

    def found(self, kind, text="", seconds=20):
        deadline = time.monotonic() + seconds
        while True:
            for event, data in list(self.events):
                if event == kind and text in data["text"]:
                    return data
            assert time.monotonic() < deadline, (kind, text, self.events)
            time.sleep(0.02)


class PagesCase(unittest.TestCase):
    def get(self, path):
        return self.server.get(path, admin=True)

    def order(self, path, body=None, want=200):
        status, answer = self.server.post(path, body or {}, admin=True)
        self.assertEqual(status, want, answer)
        return answer

    def refused(self, path, status, word):
        with self.assertRaises(urllib.error.HTTPError) as refusal:
            self.get(path)
        self.assertEqual(refusal.exception.code, status)
        self.assertIn(word, json.load(refusal.exception)["error"]["message"])

    def paused_with(self, *bodies):
        """Starts streams with these requests and pauses the server. The test's cleanup ends the streams."""
        streams = [stream_in_background(self.server, 1500, body=body) for body in bodies]
        self.order("/admin/pause")
        self.addCleanup(lambda: [thread.join(timeout=60) for thread, _ in streams])
        self.addCleanup(self.order, "/admin/resume")
        self.addCleanup(self.order, "/admin/abort", {"all": True})
        return streams


class RequestsTest(PagesCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "1", "--max-num-seqs", "2", "--num-kv-blocks", "400", model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def test_requests_page_lists_running_and_waiting_requests_with_the_reason(self):
        streams = self.paused_with({"prompt": [5] * 40}, {"prompt": [6] * 20})
        waiting = threading.Thread(target=self.server.post, args=("/v1/completions", {"prompt": [7] * 30, "max_tokens": 4}), daemon=True)
        waiting.start()
        while (page := self.get("/admin/requests"))["waiting"] < 1:
            time.sleep(0.02)
        self.assertEqual((page["running"], page["waiting"], page["matching"], page["not_listed"]), (2, 1, 3, 0))
        names = [json.loads(lines[0])["id"] for _, lines in streams]
        self.assertEqual([r["id"] for r in page["requests"]][:2], names)
        first, _, third = page["requests"]
        self.assertEqual((first["state"], first["prompt_tokens"], first["max_tokens"], first["choices"]), ("generating", 40, 1500, 1))
        self.assertGreater(first["generated_tokens"], 0)
        self.assertGreaterEqual(first["blocks"] * 16, first["computed_tokens"])
        self.assertEqual((third["state"], third["blocks"], third["generated_tokens"]), ("waiting", 0, 0))
        self.assertEqual({r["why_waiting"] for r in page["requests"]}, {"the server is paused"})
        for query, ids in (("state=generating", names), ("state=waiting", [third["id"]]), (f"id={names[1]}", names[1:]), ("state=preempted", []), ("client=nobody", [])):
            found = self.get("/admin/requests?" + query)
            self.assertEqual([r["id"] for r in found["requests"]], ids, query)
        short = self.get("/admin/requests?limit=1")
        self.assertEqual((len(short["requests"]), short["not_listed"]), (1, 2))
        self.order("/admin/resume")
        why = ""
        while "2 of at most 2 sequences run" not in why and waiting.is_alive():
            found = self.get("/admin/requests?state=waiting")["requests"]
            why = found[0]["why_waiting"] if found else why
        self.assertIn("2 of at most 2 sequences run", why)

    def test_request_page_shows_blocks_and_events_until_the_request_is_aborted(self):
        (_, lines), _ = self.paused_with({"prompt": [9] * 50}, {"prompt": [3] * 5})
        name = json.loads(lines[0])["id"]
        page = self.get("/admin/requests/" + name)
        self.assertEqual((page["id"], page["ended"], len(page["requests"])), (name, False, 1))
        choice = page["requests"][0]["choices"][0]
        computed = choice["computed_tokens"]
        self.assertIn(len(ids_of(choice["blocks"])), {-(-tokens // 16) for tokens in (computed, computed + 1)}, "a step that was made before the pause")
        self.assertIsNone(choice["finish_reason"])
        self.assertIn("queued: 50 prompt tokens", page["events"][0]["text"])
        self.order("/admin/abort", {"request": name})
        gone = self.get("/admin/requests/" + name)
        self.assertEqual((gone["ended"], gone["requests"]), (True, []))
        self.assertEqual(gone["events"][-1]["event"], "request_ended")

    def test_admin_pages_refuse_unknown_requests_and_bad_queries(self):
        self.refused("/admin/requests/cmpl-nobody", 404, "no such request")
        self.refused("/admin/requests/", 404, "no such request")
        self.refused("/admin/requests/%zz", 404, "no such request")
        self.refused("/admin/requests?state=lost", 400, "state must be one of waiting, preempted")
        self.refused("/admin/requests?limit=100000", 400, "limit must be from 0 to 1000")
        self.refused("/admin/requests?colour=red", 400, "the query takes state")
        self.refused("/admin/requests?limit=1&limit=2", 400, "is there twice")
        self.refused("/admin/requests?client=%f", 400, "malformed")
        self.refused("/admin/block_map?replica=1", 400, "replica must be from 0 to 0")
        self.refused("/admin/batches", 404, "--batch-dir")
        self.refused("/admin/batches?status=lost", 400, "status must be one of validating, failed")
        self.refused("/admin/batches?limit=-1", 400, "limit must be from 0 to 1000")
        self.refused("/admin/events?since=-1", 400, "since must be from 0")

    def test_block_map_agrees_with_the_list_of_blocks(self):
        shared = [4] * 64
        for prompt in (shared, [6] * 50):  # the second prompt stays cached and no request holds its blocks
            self.assertEqual(self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})[0], 200)
        pin = self.order("/admin/pin", {"prompt": shared, "ttl_seconds": 60})
        self.addCleanup(self.order, "/admin/unpin", {"pin": pin["pin"]})
        self.paused_with({"prompt": shared + [1] * 9}, {"prompt": shared + [2] * 30})
        listed, drawn = self.get("/admin/blocks"), self.get("/admin/block_map")
        self.assertEqual((drawn["total"], drawn["free"], drawn["block_size"]), (listed["total"], listed["free"], 16))
        owners = {block["id"]: {(o["request"], o["choice"], o["index"]) for o in block["owners"] if "request" in o} for block in listed["blocks"]}
        seen = {}
        for request in drawn["requests"]:
            for table in request["tables"]:
                for index, block in enumerate(ids_of(table["blocks"])):
                    seen.setdefault(block, set()).add((request["request"], table["choice"], index))
        self.assertEqual(seen, {block: held for block, held in owners.items() if held})
        self.assertEqual([max(len(held) for held in seen.values()), len(drawn["pins"])], [2, 1])
        self.assertGreaterEqual(len(ids_of(drawn["cached"])), 3)
        self.assertEqual(sorted(ids_of(drawn["cached"])), sorted(block["id"] for block in listed["blocks"] if block["ref_count"] == 0))

    def test_help_names_every_documented_endpoint(self):
        paths = {entry["path"] for entry in self.get("/admin/help")["endpoints"]}
        with open(os.path.join(ROOT, "docs", "api.md"), encoding="utf-8") as f:
            row = next(line for line in f if line.startswith("| 8001"))
        told = {word.partition("NAME")[0] for word in row.split("`") if word.startswith("/")}
        self.assertEqual({path.removesuffix("*") for path in paths} - {"/reset_prefix_cache"}, told)

    def test_config_and_topology_pages_agree_with_status(self):
        config, status, topology = self.get("/admin/config"), self.get("/admin/status"), self.get("/admin/topology")
        self.assertLessEqual({"logs.level", "server.key_limits"}, set(config.pop("live")))
        self.assertEqual(config, {"version": status["version"], "settings": status["settings"]})
        self.assertEqual([rank["pid"] for rank in topology["replicas"][0]["ranks"]], self.server.worker_pids())
        self.assertEqual((topology["replicas"][0]["state"], topology["replicas"][0]["ranks"][0]["health"]), ("serving", "ok"))
        self.assertEqual(topology["nodes"], [{"host": status["ranks"][0]["host"], "ranks": [
            {"replica": 0, "rank": 0, "pid": self.server.worker_pids()[0], "health": "ok"}]}])


class LargeTest(PagesCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "1", "--num-kv-blocks", "100000", "--max-num-seqs", "64", model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def test_admin_pages_answer_with_100000_blocks_and_800_requests(self):
        self.order("/admin/pause")
        prompts = [[1 + i % 50] * 20 for i in range(16)]
        clients = [threading.Thread(target=self.server.post, args=("/v1/completions", {"prompt": prompts, "max_tokens": 4}), daemon=True) for _ in range(50)]
        for client in clients:
            client.start()
        while (page := self.get("/admin/requests?limit=1000"))["matching"] < 800:
            time.sleep(0.02)
        self.assertEqual((len(page["requests"]), page["not_listed"]), (800, 0))
        self.assertEqual(len(self.get("/admin/requests")["requests"]), 200)
        self.assertEqual(len(self.get("/admin/requests/" + page["requests"][0]["id"])["requests"]), 16)
        self.order("/admin/resume")
        for client in clients:
            client.join(timeout=60)
        with urllib.request.urlopen(self.server.admin_url + "/admin/block_map", timeout=30) as response:
            body = response.read()
        drawn = json.loads(body)
        self.assertEqual(drawn["total"], 100000)
        self.assertLess(len(body), 200_000)


class EventsTest(PagesCase):
    def setUp(self):
        self.server = Server("-tp", "1", "--max-num-seqs", "4", model=TINY)
        self.addCleanup(self.server.__exit__)

    def test_events_tell_of_requests_pauses_losses_and_restarts_in_order(self):
        with urllib.request.urlopen(urllib.request.Request(self.server.admin_url + "/admin/events", method="HEAD"), timeout=20) as head:
            self.assertEqual((head.status, head.read()), (200, b""))
        reader = EventReader(self.server)
        thread, lines = stream_in_background(self.server, 1800)
        name = json.loads(lines[0])["id"]
        self.assertEqual(reader.found("request_queued")["id"], name)
        self.assertEqual(reader.found("request_started")["replica"], 0)
        self.order("/admin/pause")
        self.assertIsNone(reader.found("paused")["replica"])
        self.order("/admin/resume")
        reader.found("serving")
        os.kill(self.server.worker_pids()[0], signal.SIGKILL)
        reader.found("workers_lost")
        reader.found("epoch", "epoch 2 begins with 1 workers")
        self.order("/admin/restart_workers")
        reader.found("workers_replaced", "by an operator")
        reader.found("epoch", "epoch 3")
        thread.join(timeout=60)
        self.assertIn("max_tokens", reader.found("request_ended")["text"])
        numbers = [data["number"] for _, data in reader.events]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        again = EventReader(self.server, since=0)
        again.found("request_ended")
        self.assertEqual(again.events[0][1]["number"], 1)
        self.assertEqual([event for event in again.events if event in reader.events], reader.events)

    def test_events_are_left_out_and_counted_when_640_requests_end_together(self):
        self.order("/admin/pause")
        reader = EventReader(self.server)
        body = {"prompt": [[1]] * 16, "max_tokens": 1}
        clients = [threading.Thread(target=self.server.post, args=("/v1/completions", body), daemon=True) for _ in range(40)]
        for client in clients:
            client.start()
        while self.get("/admin/requests")["matching"] < 640:
            time.sleep(0.05)
        self.order("/admin/abort", {"all": True})  # 640 requests end at one moment
        deadline = time.monotonic() + 60
        while not any(event == "left_out" for event, _ in reader.events):
            self.assertLess(time.monotonic(), deadline, len(reader.events))
            time.sleep(0.05)
        self.assertLess(sum(event == "request_ended" for event, _ in reader.events), 640)
        for client in clients:
            client.join(timeout=60)

    def test_event_readers_are_limited_to_16_and_block_no_request_when_they_do_not_read(self):
        readers = [urllib.request.urlopen(self.server.admin_url + "/admin/events?since=0", timeout=20) for _ in range(16)]
        self.refused("/admin/events", 429, "16 others read the events already")
        status, answer = self.server.post("/v1/completions", {"prompt": [5], "max_tokens": 200, "ignore_eos": True})
        self.assertEqual((status, answer["usage"]["completion_tokens"]), (200, 200))
        for reader in readers:
            reader.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(self.server.admin_url + "/admin/events", timeout=20).close()
                return
            except urllib.error.HTTPError:
                time.sleep(0.05)
        self.fail("places of readers that left are not given back")


class MigrationEventsTest(PagesCase):
    def test_events_tell_of_migrations_between_replicas(self):
        with Server("-tp", "1", "--data-parallel-size", "2", "--swap-space", "0.01", "--num-kv-blocks", "300", model=TINY) as server:
            self.server = server
            reader = EventReader(server)
            thread, lines = stream_in_background(server, 1900)
            name = json.loads(lines[0])["id"]
            here = self.get("/admin/requests?id=" + name)["requests"][0]["replica"]
            self.assertEqual(self.get(f"/admin/requests?replica={1 - here}")["requests"], [])
            self.order("/admin/migrate", {"request": name, "replica": 1 - here})
            self.assertEqual(reader.found("migrated", "leaves for another replica")["replica"], here)
            self.assertEqual(reader.found("migrated", "comes from another replica")["replica"], 1 - here)
            self.order("/admin/abort", {"all": True})
            thread.join(timeout=30)
            self.assertEqual([replica["replica"] for replica in self.get("/admin/topology")["replicas"]], [0, 1])
            self.assertEqual(self.get("/admin/block_map?replica=1")["replica"], 1)


class HistoryTest(unittest.TestCase):
    def test_history_page_keeps_rows_and_returns_the_rows_after_a_given_time(self):
        with Server("-tp", "1", model=TINY) as server:
            self.assertEqual(server.post("/v1/completions", {"prompt": [1], "max_tokens": 50, "ignore_eos": True})[0], 200)
            self.assertEqual(server.post("/v1/completions", {"prompt": [1], "max_tokens": -2})[0], 400)
            rows, deadline = [], time.monotonic() + 60
            while len(rows) < 2:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.2)
                page = server.get("/admin/history", admin=True)
                rows = [dict(zip(page["columns"], row, strict=True)) for row in page["rows"]]
            self.assertEqual(page["period_seconds"], 5)
            times = [row["time"] for row in rows]
            self.assertLess(abs(times[1] - times[0] - 5), 4)
            self.assertLess(abs(times[-1] - time.time()), 10)
            status = server.get("/admin/status", admin=True)
            for row in rows:
                self.assertEqual(row["blocks"], status["blocks"]["device"]["total"])
                self.assertGreater(row["resident_bytes"], 1 << 20)
                self.assertLess(0, row["host_used_bytes"])
                self.assertLess(row["host_used_bytes"], row["host_bytes"])
                self.assertTrue(0 <= row["host_busy"] <= 1, row)
                self.assertGreaterEqual(row["cores"], 0)
            later = server.get(f"/admin/history?since={round(times[0] * 1000) + 1}", admin=True)["rows"]
            self.assertEqual([row[0] for row in later][:1], [times[1]])
            with self.assertRaises(urllib.error.HTTPError) as refused:
                server.get("/admin/history?since=-1", admin=True)
            self.assertEqual(refused.exception.code, 400)


class FilesTest(unittest.TestCase):
    """The pages' own files need no key, but the data that the pages show needs one."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.keys, cls.tokens = (os.path.join(cls.directory.name, name) for name in ("api.keys", "admin.tokens"))
        made = [subprocess.run([QUIRE, "keygen", *words], capture_output=True, text=True, check=True).stdout
                for words in (("--api", "ann", "--file", cls.keys), ("--admin", "--file", cls.tokens))]
        cls.key, cls.token = (next(word for word in text.split() if len(word) > 40) for text in made)
        cls.server = Server("--api-key-file", cls.keys, "--admin-token-file", cls.tokens, model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.directory.cleanup()

    def fetch(self, url, key=None):
        request = urllib.request.Request(url, headers={"Authorization": "Bearer " + key} if key else {})
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.status, response.headers, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def test_page_files_need_no_key_and_admin_data_does(self):
        for url, page in ((self.server.admin_url, "dashboard"), (self.server.url, "chat")):
            status, headers, body = self.fetch(url + "/")
            self.assertEqual(status, 200)
            self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
            policy = headers["Content-Security-Policy"]
            self.assertTrue(policy.startswith("default-src 'none'; script-src 'self';"), policy)
            self.assertNotIn("unsafe", policy)
            self.assertTrue(policy.endswith("require-trusted-types-for 'script'; trusted-types 'none'"), policy)
            self.assertEqual((headers["X-Content-Type-Options"], headers["X-Frame-Options"]), ("nosniff", "DENY"))
            self.assertNotIn("http", body.replace("http-equiv", ""))  # no resource comes from another site
            self.assertNotIn("gqa", body)
            for file in [word for word in body.split('"') if word.startswith("/web/")]:
                self.assertEqual(self.fetch(url + file)[0], 200, file)
            self.assertEqual(self.fetch(url + f"/web/{page}/none.js")[0], 401)
        self.assertEqual(self.fetch(self.server.url + "/web/dashboard/main.js", self.key)[0], 404)
        for path in ("/admin/requests", "/admin/config", "/admin/topology", "/admin/block_map", "/admin/batches", "/admin/history", "/admin/events", "/admin/help", "/admin/requests/x"):
            self.assertEqual(self.fetch(self.server.admin_url + path)[0], 401, path)
            self.assertEqual(self.fetch(self.server.admin_url + path, self.key)[0], 401, path)

    def test_server_sends_the_chat_pages_libraries_unchanged(self):
        for name in ("marked.js", "katex.js", "licences.txt"):
            status, headers, body = self.fetch(self.server.url + "/web/chat/libraries/" + name)
            self.assertEqual((status, headers["Content-Type"].split("/")[0]), (200, "text"))
            with open(os.path.join(BUILD, "web_libraries", "chat", "libraries", name), encoding="utf-8", newline="") as file:
                self.assertEqual(body, file.read(), name)
        self.assertIn("=== katex, from libjs-katex ===", body)
        self.assertIn("Permission is hereby granted", body)

    def test_admin_pages_contain_no_key_or_token(self):
        for path in ("/admin/config", "/admin/topology", "/admin/requests", "/admin/help"):
            status, _, body = self.fetch(self.server.admin_url + path, self.token)
            self.assertEqual(status, 200)
            with open(self.keys, encoding="utf-8") as keys, open(self.tokens, encoding="utf-8") as tokens:
                secrets = [word for line in (*keys, *tokens) for word in line.split() if len(word) > 30]
            self.assertGreaterEqual(len(secrets), 2)
            for secret in (self.key, self.token, *secrets):
                self.assertNotIn(secret, body)

    def test_requests_page_filters_by_the_name_of_the_key(self):
        body = json.dumps({"prompt": [5], "max_tokens": 1900, "ignore_eos": True, "stream": True}).encode()
        request = urllib.request.Request(self.server.url + "/v1/completions", body, {"Authorization": "Bearer " + self.key, "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20):
            found = self.server.admin_get("/admin/requests?client=ann", self.token)["requests"]
            self.assertEqual([r["client"] for r in found], ["ann"])


if __name__ == "__main__":
    verdict.run_tests()
