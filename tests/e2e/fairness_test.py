"""Tests the service of one client while another client floods the server (coordinator/README.md, Fairness), and the reports of
each client in status and metrics."""
import http.client
import json
import os
import re
import selectors
import statistics
import subprocess
import tempfile
import threading
import time
import unittest

import verdict
from server import QUIRE, TINY, Server

REQUESTS = 10  # requests of the patient client beside the flood
MOST_SECONDS = 10  # limit for each request; without fairness the server refuses it after 60 s for lack of room
# The most steps of the typical request. It needs 7 or 8, and some are planned while the test reads the count. A flood
# needs several times as many steps before any of its requests ends, so a client that waits for the flood takes more.
TYPICAL_STEPS = 40
STEP_TOKENS, LONG = 256, 2000
FLOODS = {
    "two requests of 128 choices": [{"n": 128}] * 2,
    "256 requests": [{}] * 256,
    "one call of 16 prompts of 16 choices": [{"n": 16, "prompt": [[3 + i] for i in range(16)]}],
    "20 long prompts": [{"prompt": [2 + (7 * i + k * (i + 1)) % 250 for k in range(LONG)], "max_tokens": 16} for i in range(20)],
}


def make_keys(directory, *names):
    """Makes an API key for each name. Returns the path of the key file, and the keys by name."""
    path = os.path.join(directory, "api.keys")
    keys = {}
    for name in names:
        made = subprocess.run([QUIRE, "keygen", "--api", name, "--file", path], check=True, capture_output=True, text=True)
        keys[name] = made.stdout.split()[0]
    return path, keys


class Flood:
    """Sends calls again whenever they are answered, until the end of the `with` block, and then cancels the calls."""

    def __init__(self, server, key, calls):
        self.port, self.key, self.waiting = server.port, key, selectors.DefaultSelector()
        self.statuses = set()  # statuses of the flood's answers
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(calls,))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def send(self, call):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = {"prompt": [5], "max_tokens": 1000, "ignore_eos": True, **call}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", "Authorization": "Bearer " + self.key})
        self.waiting.register(connection.sock, selectors.EVENT_READ, (connection, call))

    def run(self, calls):
        for call in calls:
            self.send(call)
        while not self.over.is_set():
            for ready, _ in self.waiting.select(0.1):
                self.waiting.unregister(ready.fileobj)
                self.statuses.add(ready.data[0].getresponse().status)
                ready.data[0].close()
                self.send(ready.data[1])
        for waiting in list(self.waiting.get_map().values()):
            waiting.data[0].close()
        self.waiting.close()


class FloodTest(unittest.TestCase):
    FLAGS = ("--num-kv-blocks", "20000")

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        path, cls.keys = make_keys(cls.directory.name, "flooder", "patient")
        flags = ("-tp", "2", "--threads-per-worker", "1", "--max-num-batched-tokens", str(STEP_TOKENS), "--no-enable-prefix-caching")
        cls.server = cls.enterClassContext(Server(*flags, "--api-key-file", path, *cls.FLAGS, model=TINY))

    def status(self):
        return self.server.get("/admin/status", admin=True)

    def wait_until(self, condition):
        deadline = time.monotonic() + 60
        while not condition(self.status()):
            self.assertLess(time.monotonic(), deadline, self.status())
            time.sleep(0.05)

    def ask(self):
        """Sends a request of the client that waits while the other floods the server. Returns how many steps were planned meanwhile."""
        before, begin = self.status()["steps"], time.monotonic()
        body = {"prompt": [7, 8, 9], "max_tokens": 5, "ignore_eos": True}
        status, answer = self.server.post("/v1/completions", body, headers={"Authorization": "Bearer " + self.keys["patient"]})
        seconds = time.monotonic() - begin
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["usage"]["completion_tokens"], 5)
        self.assertLess(seconds, MOST_SECONDS)
        return self.status()["steps"] - before

    def flood(self, name, is_full):
        with Flood(self.server, self.keys["flooder"], FLOODS[name]) as flood:
            self.wait_until(lambda status: status["steps"] > 0 and is_full(status["clients"].get("flooder")))
            steps = []
            for _ in range(REQUESTS):
                self.wait_until(lambda status: status["clients"]["flooder"]["running"] > 0)
                before = self.status()
                steps.append(self.ask())
                after = self.status()
                self.assertGreater(after["computed_tokens"], before["computed_tokens"] + 7, "the flood does not stand still")
            self.assertLess(statistics.median(steps), TYPICAL_STEPS, steps)
        self.assertNotIn(400, flood.statuses, "it asks for more than there ever is")
        self.wait_until(lambda status: status["running"] + status["waiting"] == 0)

    def test_client_gets_its_tokens_beside_a_flood_of_choices(self):
        self.flood("two requests of 128 choices", lambda client: client and client["running_seqs"] >= 128)

    def test_client_gets_its_tokens_beside_a_flood_of_requests(self):
        self.flood("256 requests", lambda client: client and client["running"] + client["waiting"] == 256)

    def test_client_gets_its_tokens_beside_a_flood_of_prompts_in_one_call(self):
        self.flood("one call of 16 prompts of 16 choices", lambda client: client and client["running"] + client["waiting"] == 16)

    def test_client_gets_its_tokens_beside_a_flood_of_long_prompts(self):
        self.flood("20 long prompts", lambda client: client and client["running"] + client["waiting"] >= 15)


class SwappingFloodTest(FloodTest):
    """Tests fairness with too few blocks: preempted requests are swapped out."""
    FLAGS = ("--num-kv-blocks", "9000", "--swap-space", "1", "--preemption-mode", "swap")


LIMITED = ("dave", "dora", "dirk", "dana")


class UsageTest(unittest.TestCase):
    """Tests the reports of single clients and their limits in status, metrics and the log."""

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.path, cls.keys = make_keys(directory.name, "alice", "bob", "carol", *LIMITED)
        topology = os.path.join(directory.name, "t.yaml")
        with open(topology, "w", encoding="utf-8") as f:
            f.write(f"model: {{path: {TINY}}}\nserver: {{key_limits: {{default: {{max_queued_reqs: 99}}, alice: {{max_blocks: 999}}, "
                    "ghost: {max_blocks: 5}" + "".join(f", {name}: {{tokens_per_minute: 600}}" for name in LIMITED) + "}}\n")
        cls.server = cls.enterClassContext(Server(topology, "--threads-per-worker", "1", "--api-key-file", cls.path))

    def ask(self, name, **fields):
        body = {"prompt": [5] * 10, "max_tokens": 6, "ignore_eos": True, **fields}
        return self.server.post("/v1/completions", body, headers={"Authorization": "Bearer " + self.keys[name]})

    def metrics(self, client):
        """Returns the client's values of quire:client_*, by the part of the metric's name after quire:client_."""
        page = self.server.get("/metrics", admin=True)
        return {what: float(value) for what, labels, value in re.findall(r"^quire:client_(\w+)\{(.*)\} (\S+)$", page, re.M)
                if f'client="{client}"' in labels}

    def of(self, client):
        return self.server.get("/admin/status", admin=True)["clients"].get(client)

    def wait_until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, self.server.text())
            time.sleep(0.02)

    def test_status_and_metrics_count_the_tokens_of_each_client(self):
        self.assertEqual(self.ask("alice", n=2)[0], 200)
        self.assertEqual(self.ask("bob")[0], 200)
        idle = {"running": 0, "waiting": 0, "running_seqs": 0, "blocks": 0}
        self.assertEqual(self.of("alice"), {**idle, "prompt_tokens": 10, "generated_tokens": 12})
        self.assertEqual(self.of("bob"), {**idle, "prompt_tokens": 10, "generated_tokens": 6})
        self.assertEqual(self.metrics("alice"), {"running_seqs": 0, "waiting_requests": 0, "blocks": 0, "tokens": 22})
        self.assertEqual(self.metrics("bob")["tokens"], 16)
        self.assertEqual(self.metrics("erin"), {})

    def test_status_and_metrics_count_waiting_and_running_requests_of_a_client(self):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.ask("carol", n=3, max_tokens=1200)[0]))
        self.server.post("/admin/pause", {}, admin=True)
        thread.start()
        self.wait_until(lambda: (self.of("carol") or {}).get("waiting") == 1)
        self.assertEqual(self.metrics("carol")["waiting_requests"], 1)
        self.server.post("/admin/resume", {}, admin=True)
        self.wait_until(lambda: self.of("carol")["running_seqs"] == 3)
        self.server.post("/admin/pause", {}, admin=True)  # pauses while the request runs
        now, told = self.of("carol"), self.metrics("carol")
        self.assertEqual((now["running"], now["running_seqs"], told["running_seqs"], told["blocks"]), (1, 3, 3, now["blocks"]))
        self.assertGreaterEqual(now["blocks"], 3)
        self.server.post("/admin/resume", {}, admin=True)
        thread.join()
        self.assertEqual(answers, [200])

    def test_texts_and_refused_bodies_count_towards_tokens_per_minute(self):
        text, cheap = {"prompt": "a" * 4000}, {"prompt": [5], "max_tokens": 1}  # text costs 1,000 tokens, of 600 allowed a minute; cheap costs 2
        for name, path, body, expected in (("dora", "/tokenize", text, 200), ("dirk", "/detokenize", {"tokens": [5] * 2000}, 200),
                                           ("dana", "/v1/completions", {**text, "max_tokens": -2}, 400),
                                           ("dave", "/v1/chat/completions", {"messages": text["prompt"]}, 400)):
            with self.subTest(path=path):
                def post(path, body, key=self.keys[name]):
                    return self.server.post(path, body, headers={"Authorization": "Bearer " + key})[0]

                for _ in range(20):  # an answer is charged only its tokens: 40 in all
                    self.assertEqual(post("/v1/completions", {**cheap, "user": "u" * 400}), 200)
                self.assertEqual(post(path, body), expected)
                self.assertEqual(post(path, body), 429)
                self.assertEqual(post("/v1/completions", cheap), 429)

    def test_key_limits_of_unknown_names_are_warned_of_once_per_change(self):
        def reload(times):
            self.server.reload("API keys again")
            for _ in range(20):  # after this many answers, the I/O thread has handled the signal
                self.server.get("/health")
            self.assertEqual(self.server.text().count(warning), times, self.server.text())

        warning = "server.key_limits limits nobody under ghost: no API key has such a name"
        self.assertEqual(self.server.text().count(warning), 1)
        with open(self.path, encoding="utf-8") as f:
            keys = f.read()
        make_keys(os.path.dirname(self.path), "ghost")
        reload(1)
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(keys)
        reload(2)


if __name__ == "__main__":
    verdict.run_tests()
