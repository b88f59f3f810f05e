"""Tests that one client's requests and unread answers hold up no other client. Meanwhile /health answers and another client's
stream continues within half a second, and the coordinator's memory grows by no more than docs/limits.md says."""
import contextlib
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import verdict
from server import QUIRE, TINY, Server, altered_tiny, wait_gone

PROMISE = 0.5  # seconds
MIB = 1 << 20
HEAVY = 2 * MIB - 4096  # bytes of text in a body just below the limit of 2 MiB


def request_bytes(path, body, *lines):
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *lines, f"Content-Length: {len(body)}"]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def text_of(size):
    """Returns a text of words and numbers, like those of books and tables."""
    words = " ".join(f"word{i % 977} {i}" for i in range(size // 8))
    return words[:size]


class Watcher(threading.Thread):
    """Calls wait_once() again and again, and records the largest result. wait_once() waits for something and returns the seconds that
    this took."""

    def __init__(self, wait_once):
        super().__init__(daemon=True)
        self.wait_once, self.longest, self.going, self.failure = wait_once, 0.0, True, None
        self.start()

    def run(self):
        try:
            while self.going:
                self.longest = max(self.longest, self.wait_once())
        except Exception as failure:
            self.failure = failure

    def stop(self):
        self.going = False
        self.join(60)
        if self.failure:
            raise self.failure
        return self.longest


class OverloadCase(unittest.TestCase):
    MEMORY = 64 * MIB  # server.limits.memory_bytes
    WORK = 128 * MIB   # docs/limits.md allows this for requests in work, besides MEMORY

    @classmethod
    def start(cls, sections="", flags=(), keys=False, **changes):
        """Starts the server of the tests. `changes`: changes of the model's files, as altered_tiny takes them."""
        cls.files = contextlib.ExitStack()
        directory = cls.files.enter_context(tempfile.TemporaryDirectory())
        model = altered_tiny(directory, **changes) if changes else TINY
        topology = os.path.join(directory, "t.yaml")
        with open(topology, "w", encoding="utf-8") as f:
            f.write(f"model: {{path: {model}}}\nthreads_per_worker: 1\n{sections}server: {{limits: {{memory_bytes: {cls.MEMORY}}}}}\n")
        cls.key = None
        if keys:
            path = os.path.join(directory, "api.keys")
            made = [subprocess.run([QUIRE, "keygen", "--api", name, "--file", path], check=True, capture_output=True, text=True).stdout.split()[0]
                    for name in ("alice", "bob")]
            cls.key, cls.other_key, flags = *made, (*flags, "--api-key-file", path)
        cls.server = cls.files.enter_context(Server(topology, *flags))

    @classmethod
    def tearDownClass(cls):
        cls.files.close()

    def connect(self, receive_buffer=None, port=None):
        s = socket.socket()
        self.addCleanup(s.close)
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(300)
        s.connect(("127.0.0.1", port or self.server.port))
        return s

    def memory(self, what="VmHWM"):
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith(what))

    def cpu_seconds(self):
        with open(f"/proc/{self.server.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def health(self):
        begin = time.monotonic()
        self.server.get("/health")
        waited = time.monotonic() - begin
        time.sleep(0.02)
        return waited

    def gaps_of_a_stream(self):
        """Runs a stream of another client, and starts it again when it ends. Returns a function that waits for the stream's next event
        and returns the seconds that this took."""
        body = json.dumps({"prompt": [5, 6], "max_tokens": 1900, "stream": True, "ignore_eos": True}).encode()
        lines = [f"Authorization: Bearer {self.key}"] if self.key else []
        state = {}

        def wait_once():
            if "file" not in state:
                s = self.connect()
                s.sendall(request_bytes("/v1/completions", body, *lines))
                state["file"] = s.makefile("rb")
                while not state["file"].readline().startswith(b"data: "):
                    pass
            begin = time.monotonic()
            for line in state["file"]:
                if line.startswith(b"data: [DONE]"):
                    del state["file"]
                    return 0.0
                if line.startswith(b"data: "):
                    assert b'"error"' not in line, line
                    break
            return time.monotonic() - begin
        return wait_once

    @contextlib.contextmanager
    def nobody_else_notices(self, stream=True):
        """While the `with` block runs, checks that /health and (with `stream`) another client's stream answer in time. On a busy machine
        all requests wait, so the usual wait is measured first and allowed for. Also checks that the server's memory grows no more than
        allowed."""
        waits = {"health": self.health, **({"stream": self.gaps_of_a_stream()} if stream else {})}
        watchers = {name: Watcher(wait) for name, wait in waits.items()}
        time.sleep(1.5)
        usual = {name: watcher.longest for name, watcher in watchers.items()}
        for watcher in watchers.values():
            watcher.longest = 0.0
        before = self.memory("VmRSS")
        yield
        longest = {name: watcher.stop() for name, watcher in watchers.items()}
        grown = self.memory() - before
        print(f"{self.id().split('.')[-1]}: " + ", ".join(f"{name} {1000 * longest[name]:.0f} ms (before {1000 * usual[name]:.0f})" for name in longest)
              + f", {grown / MIB:.0f} MiB more")
        for name in longest:
            self.assertLess(longest[name], PROMISE + 2 * usual[name], name)
        self.assertLess(grown, self.MEMORY + self.WORK)

    def drain(self, s):
        """Reads the whole answer. Returns its status and the number of bytes after the status line."""
        with s.makefile("rb") as f:
            status, size = int(f.readline().split()[1]), 0
            while chunk := f.read1(1 << 20):
                size += len(chunk)
        return status, size


class AnswerTest(OverloadCase):
    @classmethod
    def setUpClass(cls):
        cls.start("scheduler: {max_running: 256}\n")

    def test_other_clients_are_served_beside_an_answer_with_many_logprobs(self):
        body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "n": 128, "max_tokens": 250, "logprobs": True, "top_logprobs": 20,
                           "ignore_eos": True}).encode()
        with self.nobody_else_notices(stream=False):  # the request takes half of every step; this test does not measure that
            s = self.connect()
            s.sendall(request_bytes("/v1/chat/completions", body, "Connection: close"))
            status, size = self.drain(s)
        self.assertEqual(status, 200)
        self.assertGreater(size, 30 * MIB)

    def test_requests_whose_answer_exceeds_the_memory_limit_are_refused(self):
        status, answer = self.server.post("/v1/completions", {"prompt": [5], "n": 128, "max_tokens": 2000, "logprobs": 20, "min_tokens": 1})
        self.assertEqual(status, 200 if 128 * 2000 * 240 < self.MEMORY else 400)
        status, answer = self.server.post("/v1/completions", {"prompt": [[5]] * 4, "n": 128, "max_tokens": 2000, "logprobs": 20})
        self.assertEqual(status, 400)
        self.assertIn("server.limits.memory_bytes", answer["error"]["message"])
        status, answer = self.server.post("/v1/completions", {"prompt": [[5]] * 16, "n": 128, "max_tokens": 1})
        self.assertEqual(status, 400)
        self.assertIn("16 prompts with 128 choices each are 2048 sequences; at most 1280", answer["error"]["message"])


class StreamTest(OverloadCase):
    """Tests streams with large events, or with many events in one step: the I/O thread must yield between them."""

    @classmethod
    def setUpClass(cls):
        cls.start("scheduler: {max_running: 256}\n")

    def stream(self, times=1, **body):
        """Runs `times` concurrent streams, and returns the number of bytes of each."""
        raw = request_bytes("/v1/completions", json.dumps({**body, "stream": True, "ignore_eos": True}).encode(), "Connection: close")
        done = []

        def one():
            s = self.connect()
            s.sendall(raw)
            size, end = 0, b""
            while piece := s.recv(1 << 20):
                size, end = size + len(piece), (end + piece)[-300:]
            done.append((size, end))
        threads = [threading.Thread(target=one) for _ in range(times)]
        with self.nobody_else_notices(stream=False):  # the requests share steps; this test does not measure that
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for _, end in done:
            self.assertIn(b"[DONE]", end)
            self.assertNotIn(b'"error"', end, "whoever reads at once is not told to read faster")
        return [size for size, _ in done]

    def test_other_clients_are_served_beside_streams_of_tokens_without_text(self):
        """The only allowed token is hidden: it has log-probabilities, but no text that would be sent immediately."""
        sizes = self.stream(prompt=[5], n=128, max_tokens=250, logprobs=20, allowed_token_ids=[256])
        self.assertGreater(min(sizes), 4 * MIB)

    def test_other_clients_are_served_beside_streams_that_echo_prompts_with_logprobs(self):
        sizes = self.stream(prompt=[5 + i % 200 for i in range(1900)], n=64, max_tokens=1, logprobs=20, echo=True)
        self.assertGreater(min(sizes), 4 * MIB)

    def test_other_clients_are_served_beside_beams_that_end_together(self):
        options = {"include_usage": True, "continuous_usage_stats": True}
        sizes = self.stream(2, prompt=[5], n=20, best_of=20, use_beam_search=True, max_tokens=1000, stream_options=options)
        self.assertGreater(min(sizes), 20 * 1000)


class TextTest(OverloadCase):
    @classmethod
    def setUpClass(cls):
        cls.start()
        cls.text = text_of(HEAVY)

    def ask_all(self, *requests, times=4):
        """Sends each request `times` times in a row, on one thread for each request, and returns the statuses. The answers are not
        parsed, because that would hold up the watcher."""
        done = []

        def one(path, body, admin):
            for _ in range(times):
                s = self.connect(port=self.server.admin_port if admin else None)
                s.sendall(request_bytes(path, body, "Connection: close"))
                done.append(self.drain(s)[0])
        threads = [threading.Thread(target=one, args=request) for request in requests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return done

    def test_other_clients_are_served_beside_long_texts_to_tokenize_and_pin(self):
        body = json.dumps({"prompt": self.text}).encode()
        with self.nobody_else_notices():
            done = self.ask_all(("/tokenize", body, False), ("/tokenize", body, False), *[("/admin/pin", body, True)] * 8)
        self.assertEqual(done, [200] * len(done))

    def test_other_clients_are_served_beside_long_lists_to_detokenize(self):
        body = json.dumps({"tokens": [5] * 190_000}).encode()
        with self.nobody_else_notices():
            done = self.ask_all(*[("/detokenize", body, False)] * 3)
        self.assertEqual(done, [200] * len(done))

    def test_prompts_that_cannot_fit_are_refused_without_delaying_others(self):
        body = json.dumps({"prompt": self.text}).encode()
        before = self.cpu_seconds()
        with self.nobody_else_notices():
            done = self.ask_all(*[("/v1/completions", body, False)] * 4, times=10)
        self.assertEqual(done, [400] * 40)
        status, answer = self.server.post("/v1/completions", body)
        self.assertEqual((status, answer["error"]["param"]), (400, "prompt"))
        self.assertIn("maximum context length is 2048 tokens", answer["error"]["message"])
        print(f"40 prompts of {len(body)} bytes: {self.cpu_seconds() - before:.2f} s of the coordinator")

    def test_texts_of_disconnected_clients_are_not_tokenized(self):
        """The server may read the bodies but must not process them. The test measures the server's processor time, which other load on the
        machine does not change."""
        body = json.dumps({"prompt": self.text}).encode()
        before = self.cpu_seconds()
        self.assertEqual(self.server.post("/tokenize", body)[0], 200)
        alone = self.cpu_seconds() - before
        with self.nobody_else_notices(stream=False):  # a stream would use the processor, too
            before = self.cpu_seconds()
            for _ in range(160):
                s = self.connect()
                with contextlib.suppress(OSError):  # the server may refuse before the whole body is sent
                    s.sendall(request_bytes("/tokenize", body))
                s.close()
            deadline, last = time.monotonic() + 120, before
            while time.monotonic() < deadline:  # runs until the server only answers /health
                time.sleep(2)
                now = self.cpu_seconds()
                if now - last < 0.15:
                    break
                last = now
            used = self.cpu_seconds() - before
        print(f"160 abandoned texts: {used:.1f} s of the coordinator; one that is waited for: {alone:.2f} s")
        self.assertLess(used, 40 * alone)


class PatternTest(OverloadCase):
    """Tests a pre-tokenizer's pattern that takes more time than a text's length suggests, also for short texts."""

    @classmethod
    def setUpClass(cls):
        def cut_slowly(config):
            slow = "|".join(["(?=.*.*=)a"] * 8)  # all eight are tried at every letter
            split = {"type": "Split", "pattern": {"Regex": slow}, "behavior": "Isolated", "invert": False}
            config["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, {"type": "ByteLevel", "add_prefix_space": False}]}
        cls.start(tokenizer=cut_slowly)

    def test_short_texts_with_slow_patterns_are_refused_without_delaying_others(self):
        text = "a" * 1200
        with self.nobody_else_notices():
            for path in ("/v1/completions", "/tokenize"):
                status, answer = self.server.post(path, {"prompt": text})
                self.assertEqual(status, 400)
                self.assertIn("s to split", answer["error"]["message"])

    def test_bad_words_share_one_time_bound_for_splitting(self):
        """Splitting one of these bad words takes far less time than the bound on a request's splitting; splitting all of them takes
        more."""
        with self.nobody_else_notices():
            status, answer = self.server.post("/v1/completions", {"prompt": [5], "max_tokens": 1, "bad_words": ["a" * 256] * 64})
        self.assertEqual(status, 400, answer)
        self.assertIn("s to split", answer["error"]["message"])


class PlacesTest(OverloadCase):
    @classmethod
    def setUpClass(cls):
        cls.start("scheduler: {max_running: 4, max_waiting: 4}\n", keys=True)

    def load(self):
        request = urllib.request.Request(self.server.url + "/load", headers={"Authorization": "Bearer " + self.key})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["server_load"]

    def test_other_clients_are_served_when_one_client_fills_the_batch_and_the_queue(self):
        def headers(key):
            return {"Authorization": "Bearer " + key}
        long = json.dumps({"prompt": [5], "n": 4, "max_tokens": 2000, "ignore_eos": True}).encode()
        for _ in range(2):
            self.connect().sendall(request_bytes("/v1/completions", long, f"Authorization: Bearer {self.key}"))
        deadline = time.monotonic() + 20
        while self.load() < 8:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        for _ in range(3):
            self.assertEqual(self.server.post("/v1/completions", {"prompt": [5], "max_tokens": 2}, headers=headers(self.key))[0], 429)
            status, answer = self.server.post("/v1/completions", {"prompt": [5], "n": 2, "max_tokens": 2}, headers=headers(self.other_key))
            self.assertEqual(status, 200, answer)


class KeylessTest(OverloadCase):
    @classmethod
    def setUpClass(cls):
        cls.start(keys=True)

    def test_bodies_of_requests_without_a_key_take_no_memory(self):
        body = b"x" * HEAVY
        before = self.memory("VmRSS")
        with self.nobody_else_notices():
            connections = [self.connect() for _ in range(400)]
            data = request_bytes("/v1/completions", body)[:-1]
            for s in connections:
                s.setblocking(False)
            sent = [0] * len(connections)
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline and min(sent) < len(data):
                for i, s in enumerate(connections):
                    try:
                        sent[i] += s.send(data[sent[i]:sent[i] + (256 << 10)])
                    except BlockingIOError:
                        pass
                    except OSError:
                        sent[i] = len(data)
            statuses = set()
            for s in connections:
                s.settimeout(20)
                with contextlib.suppress(OSError):
                    statuses.add(s.recv(12))
        self.assertLessEqual(statuses, {b"HTTP/1.1 401", b"HTTP/1.1 429"})
        self.assertTrue(statuses)
        self.assertLess(self.memory() - before, 64 * MIB)


class SlowReaderTest(OverloadCase):
    LARGE = {"prompt": [5], "n": 4, "max_tokens": 1000, "logprobs": 20, "ignore_eos": True}

    @classmethod
    def setUpClass(cls):
        cls.start("scheduler: {max_running: 4, max_waiting: 0}\n")

    def begin_to_read(self, port):
        """Starts a client whose socket takes few bytes at a time. Returns the socket and the beginning of the answer, which this function
        has read."""
        s = self.connect(receive_buffer=4096, port=port)
        s.sendall(request_bytes("/v1/completions", json.dumps(self.LARGE).encode(), "Connection: close"))
        beginning = s.recv(100)
        self.assertTrue(beginning.startswith(b"HTTP/1.1 200"), beginning)
        return s, beginning

    def read_to_the_end(self, s, beginning):
        with s.makefile("rb") as f:
            self.assertEqual((beginning + f.read()).count(b'"finish_reason":"length"'), 4, "all of the answer")

    def test_finished_answers_to_slow_readers_do_not_count_as_running_or_waiting(self):
        readers = [self.begin_to_read(self.server.port) for _ in range(3)]
        for _ in range(5):  # readers take 4 KB a second
            self.assertEqual(self.server.post("/v1/completions", {"prompt": [5], "n": 4, "max_tokens": 1})[0], 200)
            readers = [(s, data + s.recv(4096)) for s, data in readers]
            time.sleep(1)
        self.assertEqual(self.server.get("/load")["server_load"], 0)
        memory = self.server.get("/admin/status", admin=True)["request_memory"]
        self.assertGreater(memory["taken_bytes"], 3 * 100_000, "three answers of 4,000 tokens with 20 log-probabilities each")
        self.assertEqual(memory["most_bytes"], 64 * MIB)
        self.assertEqual(self.server.post("/admin/drain", {}, admin=True)[1]["pending"], 3, "they are still waited for at an end")
        self.server.post("/admin/resume", {}, admin=True)
        for s, data in readers:
            self.read_to_the_end(s, data)
            s.close()
        deadline = time.monotonic() + 10
        while self.server.get("/admin/status", admin=True)["request_memory"]["taken_bytes"] > 0:
            self.assertLess(time.monotonic(), deadline, "nothing is held any more")
            time.sleep(0.05)

    def test_slow_reader_gets_the_whole_answer_when_the_server_ends(self):
        with Server("--threads-per-worker", "1", model=TINY) as server:
            s, beginning = self.begin_to_read(server.port)
            ended = threading.Thread(target=server.terminate)
            ended.start()
            time.sleep(0.5)
            self.read_to_the_end(s, beginning)
            ended.join()
            self.assertEqual(wait_gone([server.process.pid], 10), [])


class RepeatedAnswerTest(OverloadCase):
    """Tests answers that repeat much of their request, to clients that read only the status. The memory of these answers must be charged as
    request memory until the clients disconnect."""
    DESCRIPTION = 1_900_000  # bytes that every answer of /v1/responses repeats, and a stream twice
    CLIENTS = 40

    @classmethod
    def setUpClass(cls):
        cls.start("scheduler: {max_running: 4}\n", flags=("--pooling", "last", "--scoring", "cosine"))

    def hold(self, path, body):
        """Starts clients that send this request and read only the status. Their answers must be charged as request memory until they
        disconnect."""
        raw = request_bytes(path, json.dumps(body).encode())
        statuses = []
        before = self.memory("VmRSS")
        for _ in range(self.CLIENTS):
            s = self.connect(receive_buffer=4096)
            s.sendall(raw)
            statuses.append(s.recv(13)[9:12])
        memory = self.server.get("/admin/status", admin=True)["request_memory"]
        grown = self.memory("VmRSS") - before
        print(f"{self.id().split('.')[-1]}: {statuses.count(b'200')} of {self.CLIENTS}, {memory['taken_bytes'] / MIB:.0f} MiB charged, {grown / MIB:.0f} MiB more")
        self.assertEqual(set(statuses), {b"200", b"429"})
        self.assertGreater(memory["taken_bytes"], statuses.count(b"200") * self.DESCRIPTION)
        self.assertLess(grown, self.MEMORY + self.WORK)
        self.doCleanups()
        deadline = time.monotonic() + 20
        while self.server.get("/admin/status", admin=True)["request_memory"]["taken_bytes"] > 0:
            self.assertLess(time.monotonic(), deadline, "nothing is held any more")
            time.sleep(0.05)

    def response(self, stream):
        form = {"type": "json_schema", "name": "x", "description": "t" * self.DESCRIPTION, "schema": {"type": "integer"}}
        return {"input": "hi", "max_output_tokens": 1, "store": False, "stream": stream, "text": {"format": form}}

    def test_unread_responses_are_charged_to_the_request_memory(self):
        self.hold("/v1/responses", self.response(False))

    def test_unread_streamed_responses_are_charged_to_the_request_memory(self):
        self.hold("/v1/responses", self.response(True))

    def test_unread_rerank_answers_are_charged_to_the_request_memory(self):
        self.hold("/v1/rerank", {"query": "q", "documents": ["t " * (self.DESCRIPTION // 2)], "return_documents": True, "truncate_prompt_tokens": 2})


if __name__ == "__main__":
    verdict.run_tests()
