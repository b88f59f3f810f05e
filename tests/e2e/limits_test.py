"""Tests every limit of requests and connections in docs/limits.md: most of them at the limit and just beyond it."""
import concurrent.futures
import contextlib
import ctypes
import json
import os
import re
import select
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import tls_test
import verdict
from server import QUIRE, ROOT, TINY, Server, altered_tiny

LOOPBACK, NETWORK = "127.0.0.1", "10.78.0.1"
CLONE_NEWNET = 0x40000000
ESTABLISHED, LEFT = "01", "08"  # states in /proc/net/tcp; LEFT: closed by the client
GOOD = {"prompt": [5], "max_tokens": 1}


def documented_limits():
    """Returns the first table under "Requests and connections" of docs/limits.md: the default of each limit."""
    with open(os.path.join(ROOT, "docs", "limits.md"), encoding="utf-8") as f:
        section = f.read().partition("\n## Requests and connections\n")[2].partition("\n## ")[0]
    table = re.search(r"^\| limit \| default \|.*\n\| -.*\n((?:\|.*\n)+)", section, re.M)[1]
    rows = re.findall(r"^\| (.*?) \| (.*?) \|", table, re.M)
    assert len(dict(rows)) == len(rows), "a limit stands there once"
    return dict(rows)


def post(body, *lines, path="/v1/completions", length=None):
    """Returns the bytes of a POST request with these header lines. length: the Content-Length, if it is not the body's own."""
    head = [f"POST {path} HTTP/1.1", "Host: localhost", *lines, f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def answer_of(s):
    """Returns (status, body) of the next answer on a connection; (None, b"") if the connection was closed instead."""
    with s.makefile("rb") as f:
        line = f.readline()
        if not line:
            return None, b""
        length = 0
        while (header := f.readline()) not in (b"\r\n", b""):
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        return int(line.split()[1]), f.read(length)


def states_of(port, peer=None):
    """Returns the TCP states (ESTABLISHED or LEFT) of the server's connections on a port. peer: only of connections from this port of the
    client."""
    states = []
    with open("/proc/net/tcp", encoding="ascii") as f:
        for line in list(f)[1:]:
            _, local, remote, state = line.split()[:4]
            if int(local.split(":")[1], 16) == port and state in (ESTABLISHED, LEFT) and (peer is None or int(remote.split(":")[1], 16) == peer):
                states.append(state)
    return states


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


class LimitCase(unittest.TestCase):
    @classmethod
    def start(cls, limits="{}", sections="", flags=(), key_limits="{}", **keywords):
        """Starts a server with these limits."""
        cls.files = contextlib.ExitStack()
        directory = cls.files.enter_context(tempfile.TemporaryDirectory())
        topology = os.path.join(directory, "t.yaml")
        with open(topology, "w", encoding="utf-8") as f:
            f.write(f"model: {{path: {TINY}}}\nthreads_per_worker: 1\n{sections}server: {{limits: {limits}, key_limits: {key_limits}}}\n")
        cls.server = cls.files.enter_context(Server(topology, *flags, **keywords))

    @classmethod
    def tearDownClass(cls):
        cls.files.close()

    def connect(self, address=LOOPBACK, receive_buffer=None, source=None, port=None):
        s = socket.socket()
        self.addCleanup(s.close)
        if source:
            s.bind((source, 0))
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(60)
        s.connect((address, port or self.server.port))
        return s

    def ask(self, data):
        """Sends raw bytes, and returns the status and error message."""
        s = self.connect()
        s.sendall(data)
        status, body = answer_of(s)
        return status, json.loads(body).get("error", {}).get("message", "")

    def status(self):
        return self.server.get("/admin/status", admin=True)

    @contextlib.contextmanager
    def paused(self):
        self.server.post("/admin/pause", {}, admin=True)
        try:
            yield
        finally:
            self.server.post("/admin/resume", {}, admin=True)

    def full(self, hold, address=LOOPBACK):
        """Opens `hold` connections, which must be served, and one more, which must be refused for too many connections. Once one of the
        first is closed, another one must be served."""
        wait_until(lambda: not states_of(self.server.port))
        ping = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
        held = [self.connect(address) for _ in range(hold)]
        for s in held:
            s.sendall(ping)
            self.assertEqual(answer_of(s)[0], 200)
        turned_away = self.connect(address)
        with turned_away.makefile("rb") as f:
            self.assertRegex(f.read(), rb"(?s)^HTTP/1.1 503 .*Retry-After: 1\r\n.*too many connections")
        held[0].close()
        wait_until(lambda: len(states_of(self.server.port)) == hold - 1)
        again = self.connect(address)
        again.sendall(ping)
        self.assertEqual(answer_of(again)[0], 200)
        for s in (*held, again):
            s.close()


class SizeTest(LimitCase):
    """Tests the sizes of one request on a server with default settings. Its chat template shows the contents of the messages, and one letter after them."""

    @classmethod
    def setUpClass(cls):
        def short(config):
            config["chat_template"] = "{% for m in messages %}{{ m.content }}{% endfor %}x"
        cls.files = contextlib.ExitStack()
        directory = cls.files.enter_context(tempfile.TemporaryDirectory())
        cls.server = cls.files.enter_context(Server("--threads-per-worker", "1", model=altered_tiny(directory, tokenizer_config=short)))

    def check(self, at, beyond, field, path="/v1/completions", **others):
        """Expects that a request with the fields `at` is served, and that a request with the fields `beyond` is refused for `field`."""
        base = {"messages": [{"role": "user", "content": "hi"}]} if "chat" in path else {"prompt": [5]}
        for fields, want in ((at, 200), (beyond, 400)):
            status, answer = self.server.post(path, {**base, "max_tokens": 1, **others, **fields})
            self.assertEqual(status, want, answer)
        self.assertEqual(answer["error"]["param"], field)

    def test_body_of_2_mib_is_served_and_a_larger_one_refused(self):
        limit = 2 << 20
        empty = len(json.dumps({**GOOD, "user": ""}))
        largest = json.dumps({**GOOD, "user": "x" * (limit - empty)}).encode()
        self.assertEqual(len(largest), limit)
        self.assertEqual(self.ask(post(largest))[0], 200)
        self.assertEqual(self.ask(post(b"", length=limit + 1)), (413, f"the body is larger than {limit} bytes"))
        chunks = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.assertEqual(self.ask(chunks + b"%x\r\n" % limit + largest + b"\r\n0\r\n\r\n")[0], 200)
        self.assertEqual(self.ask(chunks + b"%x\r\n" % (limit + 1))[0], 413)

    def test_head_of_16_kib_is_served_and_a_larger_one_refused(self):
        body = json.dumps(GOOD).encode()
        room = (16 << 10) - (len(post(body, "A: ")) - len(body))
        self.assertEqual(self.ask(post(body, "A: " + "x" * room))[0], 200)
        self.assertEqual(self.ask(post(body, "A: " + "x" * (room + 1))), (431, "the request head is too large"))

    def test_request_target_beyond_8_kib_gets_414(self):
        for size, want in ((8 << 10, 404), ((8 << 10) + 1, 414)):
            self.assertEqual(self.ask(post(b"{}", path="/" + "x" * (size - 1)))[0], want)

    def test_request_with_more_than_100_header_fields_gets_431(self):
        body = json.dumps(GOOD).encode()
        self.assertEqual(self.ask(post(body, *["A: b"] * 98))[0], 200)  # besides Host and Content-Length
        self.assertEqual(self.ask(post(body, *["A: b"] * 99)), (431, "too many header fields"))

    def test_json_deeper_than_32_is_refused(self):
        for depth, want in ((32, 200), (33, 400)):
            body = json.dumps({**GOOD, "user": None})
            self.assertEqual(self.ask(post(body.replace("null", "[" * (depth - 1) + "]" * (depth - 1)).encode()))[0], want)

    def test_object_with_more_than_1024_members_is_refused(self):
        members = {str(i): i for i in range(1024)}
        for more, want in (({}, 200), ({"x": 1}, 400)):
            self.assertEqual(self.ask(post(json.dumps({**GOOD, "user": {**members, **more}}).encode()))[0], want)

    def test_chat_with_more_than_1024_messages_is_refused(self):
        empty = [{"role": "user", "content": ""}]
        self.check({"messages": empty * 1024}, {"messages": empty * 1025}, "messages", path="/v1/chat/completions")

    def test_call_with_more_than_16_prompts_is_refused(self):
        self.check({"prompt": [[5]] * 16}, {"prompt": [[5]] * 17}, "prompt")

    def test_request_with_more_than_128_choices_is_refused(self):
        self.check({"n": 128}, {"n": 129}, "n")
        self.check({"best_of": 128}, {"best_of": 129}, "best_of")

    def test_request_with_more_than_20_beams_is_refused(self):
        self.check({"n": 20}, {"n": 21}, "best_of", use_beam_search=True)
        self.check({"best_of": 20}, {"best_of": 21}, "best_of", use_beam_search=True)

    def test_more_than_16_stop_strings_or_longer_than_1_kib_are_refused(self):
        self.check({"stop": ["x"] * 16}, {"stop": ["x"] * 17}, "stop")
        self.check({"stop": ["x" * 1024]}, {"stop": ["x" * 1025]}, "stop")

    def test_request_with_more_than_300_logit_biases_is_refused(self):
        keys = [f"{token:0{width}}" for width in (3, 4) for token in range(257)]  # more keys than tokens
        self.check({"logit_bias": dict.fromkeys(keys[:300], 1)}, {"logit_bias": dict.fromkeys(keys[:301], 1)}, "logit_bias")

    def test_request_with_more_than_20_logprobs_is_refused(self):
        self.check({"logprobs": 20}, {"logprobs": 21}, "logprobs")
        self.check({"top_logprobs": 20}, {"top_logprobs": 21}, "top_logprobs", path="/v1/chat/completions", logprobs=True)

    def unread_stream(self, tokens):
        """Returns the events of a stream that the client began to read only after the stream had ended."""
        s = self.connect(receive_buffer=4096)
        s.sendall(post(json.dumps({"prompt": [5], "max_tokens": tokens, "logprobs": 20, "stream": True, "ignore_eos": True}).encode()))
        select.select([s], [], [], 60)
        wait_until(lambda: self.status()["running"] == 0)
        with s.makefile("rb") as f:
            events = []
            for line in f:
                if line.startswith(b"data: "):
                    events.append(line[6:].strip())
                if events and events[-1] == b"[DONE]":
                    return [json.loads(event) for event in events[:-1]]
        self.fail("it was cut off")

    def test_stream_ends_with_an_error_when_unread_events_exceed_the_limit(self):
        some = self.unread_stream(300)
        self.assertEqual(sum(len(e["choices"][0]["logprobs"]["tokens"]) for e in some if e["choices"][0]["logprobs"]), 300)
        before = self.status()["generated_tokens"]
        *_, last = self.unread_stream(1900)
        self.assertEqual(last["error"]["message"], "the client reads too slowly")
        self.assertLess(self.status()["generated_tokens"] - before, 1900)

    def test_default_limits_equal_the_documented_ones(self):
        limits = self.status()["settings"]["limits"]
        self.assertLessEqual(limits["connections"], 16384)
        in_force = {
            "time for a head": f"{limits['head_seconds']} s",
            "time for a body": f"{limits['body_seconds']} s",
            "rate of a body, after 10 s": f"{limits['body_bytes_per_second'] >> 10} KiB/s on average",
            "idle connection": f"{limits['idle_seconds']} s",
            "stalled write": f"{limits['write_seconds']} s",
            "rate of reading, after a stalled write's time": f"{limits['write_bytes_per_second'] >> 10} KiB/s on average",
            "connections from one address, loopback excepted": f"{limits['connections_per_address']:,}",
            "waiting requests (choices)": f"{self.status()['settings']['max_num_queued_reqs']:,}",
            "time in the queue": f"{limits['queue_seconds']} s",
            "time in all": f"{limits['request_seconds']} s",
            "memory of requests, from body to answer": f"{limits['memory_bytes'] >> 20} MiB, half of it for one key",
        }
        documented = documented_limits()
        self.assertEqual(in_force, {limit: documented.get(limit) for limit in in_force})


class TimeTest(LimitCase):
    """Tests all time limits together, each limit with a client that stays within it and a client that exceeds it. The order in which these
    clients end also shows which limit ended them."""
    HEAD, BODY, IDLE, WRITE = 2, 5, 5, 3
    LARGE = {"prompt": [5], "n": 128, "max_tokens": 16, "logprobs": 20, "ignore_eos": True}

    @classmethod
    def setUpClass(cls):
        cls.start(f"{{head_seconds: {cls.HEAD}, body_seconds: {cls.BODY}, idle_seconds: {cls.IDLE}, write_seconds: {cls.WRITE}}}")
        cls.pool = concurrent.futures.ThreadPoolExecutor(8)
        cls.case, scenes = cls(), ("slow_head", "slower_head", "slow_body", "slower_body", "idle", "idler", "slow_reader", "no_reader")
        cls.ended = []  # names of the concurrent cases, in the order in which the cases end
        cls.outcome = {scene: cls.pool.submit(cls.play, scene) for scene in scenes}

    @classmethod
    def play(cls, scene):
        try:
            return getattr(cls.case, scene)()
        finally:
            cls.ended.append(scene)

    @classmethod
    def tearDownClass(cls):
        cls.pool.shutdown()
        cls.case.doCleanups()
        super().tearDownClass()

    def in_two(self, data, at, seconds):
        """Sends `data` in two parts, of which the second begins at byte `at` and is sent `seconds` later (None: never). Returns the
        answer's status and error message."""
        s = self.connect()
        s.sendall(data[:at])
        if seconds is not None:
            time.sleep(seconds)
            s.sendall(data[at:])
        status, body = answer_of(s)
        return status, json.loads(body).get("error", {}).get("message")

    def slow_head(self):
        return self.in_two(post(json.dumps(GOOD).encode()), 30, self.HEAD / 2)

    def slower_head(self):
        return self.in_two(post(json.dumps(GOOD).encode()), 30, None)

    def slow_body(self):
        return self.in_two(post(json.dumps(GOOD).encode()), -5, (self.HEAD + self.BODY) / 2)

    def slower_body(self):
        return self.in_two(post(json.dumps(GOOD).encode()), -5, None)

    def idle(self):
        s = self.connect()
        s.sendall(post(json.dumps(GOOD).encode()))
        first = answer_of(s)[0]
        time.sleep((self.HEAD + self.IDLE) / 2)
        s.sendall(post(json.dumps(GOOD).encode()))
        return first, answer_of(s)[0]

    def idler(self):
        s = self.connect()
        s.sendall(post(json.dumps(GOOD).encode()))
        return answer_of(s)[0], answer_of(s)

    def slow_reader(self):
        """Reads an answer for much longer than write_seconds in total, but reads some bytes within each write_seconds. Returns the number
        of finished choices."""
        s = self.connect(receive_buffer=64 << 10)
        s.sendall(post(json.dumps(self.LARGE).encode(), "Connection: close"))
        data = b""
        with s.makefile("rb") as f:
            while chunk := f.read(128 << 10):
                data += chunk
                time.sleep(self.WRITE / 4)
        return data.count(b'"finish_reason":"length"')

    def no_reader(self):
        """Reads nothing until the server gives up. Returns the connection's states before that, and whether a part of the answer is
        missing."""
        s = self.connect(receive_buffer=4096)
        s.sendall(post(json.dumps(self.LARGE).encode(), "Connection: close"))
        select.select([s], [], [], 60)
        port = s.getsockname()[1]
        before = states_of(self.server.port, port)
        wait_until(lambda: states_of(self.server.port, port) != [ESTABLISHED])
        data = b""
        with contextlib.suppress(ConnectionError):
            while chunk := s.recv(65536):
                data += chunk
        return before, data.count(b'"finish_reason":"length"') < 128

    def test_slow_request_head_gets_408(self):
        self.assertEqual(self.outcome["slow_head"].result(), (200, None))
        self.assertEqual(self.outcome["slower_head"].result(), (408, "the request head took too long"))
        self.outcome["slow_body"].result()
        self.assertLess(self.ended.index("slower_head"), self.ended.index("slow_body"), "it has the head's time and no other")

    def test_slow_request_body_gets_408(self):
        self.assertEqual(self.outcome["slow_body"].result(), (200, None))
        self.assertEqual(self.outcome["slower_body"].result(), (408, "the request body took too long"))

    def test_idle_connection_is_closed(self):
        self.assertEqual(self.outcome["idle"].result(), (200, 200))
        self.assertEqual(self.outcome["idler"].result(), (200, (None, b"")))

    def test_connection_is_closed_when_the_client_takes_no_answer(self):
        self.assertEqual(self.outcome["slow_reader"].result(), 128)
        self.assertEqual(self.outcome["no_reader"].result(), ([ESTABLISHED], True))


class WaitingTest(LimitCase):
    """Tests requests that wait while nothing is computed."""

    @classmethod
    def setUpClass(cls):
        cls.start("{connections: 20}", "scheduler: {max_running: 1, max_waiting: 2}\n")

    def sized(self, size):
        empty = len(json.dumps({**GOOD, "user": ""}))
        return json.dumps({**GOOD, "user": "x" * (size - empty)}).encode()

    def wait_with(self, *bodies):
        """Sends each body from a thread of its own. Returns the threads, and a list to which they add the statuses, once the server has
        accepted all requests."""
        answers = []
        threads = [threading.Thread(target=lambda b=body: answers.append(self.server.post("/v1/completions", b)[0])) for body in bodies]
        for number, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda: self.server.get("/load")["server_load"] == number)
        return threads, answers

    def refused(self, body):
        s = self.connect()
        s.sendall(post(body, "Connection: close"))
        with s.makefile("rb") as f:
            self.assertRegex(f.read(), rb"(?s)^HTTP/1.1 429 .*Retry-After: 1\r\n.*too many requests are waiting")

    def test_request_gets_429_when_too_many_requests_wait(self):
        with self.paused():
            threads, answers = self.wait_with(*[self.sized(100)] * 3)  # one request runs and two wait
            self.refused(self.sized(100))
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [200] * 3)

    def test_connection_gets_503_when_too_many_are_open(self):
        self.assertEqual(self.status()["settings"]["limits"]["connections"], 20)
        self.full(20)


class MemoryTest(LimitCase):
    """Tests bodies that are announced and never sent: each is charged with its whole length before it is read."""
    BODY, OF_ONE = 2 << 20, 16  # OF_ONE: the number of bodies that one key may have at the same time

    @classmethod
    def setUpClass(cls):
        cls.keys = tempfile.TemporaryDirectory()
        keys = os.path.join(cls.keys.name, "api.keys")
        cls.key = {name: subprocess.run([QUIRE, "keygen", "--api", name, "--file", keys], check=True, capture_output=True, text=True).stdout.split()[0]
                   for name in ("alice", "bob", "carol", "dave")}
        cls.start(f"{{memory_bytes: {2 * cls.OF_ONE * cls.BODY}}}", flags=("--api-key-file", keys))

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.keys.cleanup()

    def promise(self, name):
        """Sends only the head of a request with the key of this name. Returns the connection, and the status of the first answer; 100:
        the body may come."""
        s = self.connect()
        s.sendall(post(b"", "Authorization: Bearer " + self.key[name], "Expect: 100-continue", length=self.BODY))
        return s, int(s.recv(65536)[9:12])

    def test_request_gets_429_when_the_request_memory_of_its_key_is_full(self):
        self.assertEqual(self.status()["settings"]["limits"]["memory_bytes_per_client"], self.OF_ONE * self.BODY)
        held = {}
        # Each client may take as much memory as the clients before it have left.
        for name, bodies in (("alice", self.OF_ONE), ("bob", self.OF_ONE // 2), ("carol", self.OF_ONE // 4)):
            held[name] = [self.promise(name) for _ in range(bodies)]
            self.assertEqual([status for _, status in held[name]], [100] * bodies)
            self.assertEqual(self.probe(name), 429, "its part is full")
            wait_until(lambda: self.probe("dave") == 100)  # the memory of a closed connection is free a moment later
        for connection, _ in held["alice"][:2]:
            connection.close()
        wait_until(lambda: self.probe("carol") == 100)

    def probe(self, name):
        s, status = self.promise(name)
        s.close()
        return status


class KeyTest(LimitCase):
    """Tests the limits of single keys. LIMITS has the limits of each key by its name; those of "default" apply to keys that have no
    limits of their own."""
    LIMITS = {"seqs": "{max_running_seqs: 2}", "queue": "{max_running_seqs: 1, max_queued_reqs: 1}",
              "tokens": "{tokens_per_minute: 60}", "blocks": "{max_blocks: 10}", "default": "{max_queued_reqs: 3}"}

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        keys = os.path.join(cls.directory.name, "api.keys")
        cls.key = {name: subprocess.run([QUIRE, "keygen", "--api", name, "--file", keys], check=True, capture_output=True, text=True).stdout.split()[0]
                   for name in ("seqs", "queue", "tokens", "blocks", "other")}
        limits = ", ".join(f"{name}: {limit}" for name, limit in cls.LIMITS.items())
        cls.start(key_limits="{" + limits + "}", sections="scheduler: {max_running: 4}\ncache: {num_blocks: 200}\n", flags=("--api-key-file", keys))

    def ask_as(self, name, **fields):
        """Sends a request with the key of this name. Returns (status, error message or "", Retry-After or None)."""
        body = json.dumps({"prompt": [5], "max_tokens": 1, "ignore_eos": True, **fields}).encode()
        s = self.connect()
        s.sendall(post(body, "Authorization: Bearer " + self.key[name], "Connection: close"))
        with s.makefile("rb") as f:
            head, _, body = f.read().partition(b"\r\n\r\n")
        retry = re.search(rb"\r\nRetry-After: (\d+)", head)
        return int(head[9:12]), json.loads(body).get("error", {}).get("message", ""), retry and int(retry[1])

    def together(self, name, count, **fields):
        pool = concurrent.futures.ThreadPoolExecutor(count)
        self.addCleanup(pool.shutdown)
        return [pool.submit(self.ask_as, name, **fields) for _ in range(count)]

    def client(self, name):
        return self.status()["clients"].get(name, {"running": 0, "waiting": 0, "running_seqs": 0})

    def test_key_runs_no_more_than_max_running_seqs(self):
        self.assertEqual(self.ask_as("seqs", n=2)[0], 200)
        self.assertEqual(self.ask_as("seqs", n=3), (400, "3 sequences at a time are more than the max_running_seqs of this API key, 2", None))
        answers, most = self.together("seqs", 4, max_tokens=300), 0
        while not all(answer.done() for answer in answers):
            client = self.client("seqs")
            most = max(most, client["running_seqs"])
            if client["running_seqs"] == 2 and client["waiting"] > 0:
                self.assertEqual(self.ask_as("other")[0], 200, "it holds up nobody")
        self.assertEqual((most, [answer.result()[0] for answer in answers]), (2, [200] * 4))

    def test_key_is_refused_a_request_beyond_max_blocks(self):
        self.assertEqual(self.ask_as("blocks", max_tokens=160)[0], 200)  # the last token's keys and values are never stored
        status, message, _ = self.ask_as("blocks", max_tokens=161)
        self.assertEqual((status, message), (400, "1 x (1 + 161) tokens take 11 blocks, more than the max_blocks of this API key, 10"))
        self.assertEqual(self.ask_as("other", max_tokens=161)[0], 200)

    def test_key_gets_429_when_its_queue_is_full(self):
        with self.paused():
            answers = self.together("queue", 2)
            wait_until(lambda: self.client("queue")["waiting"] == 2)
            status, message, retry = self.ask_as("queue")
            self.assertEqual((status, retry), (429, 1))
            self.assertRegex(message, "^max_queued_reqs of this API key, 1 beside 1 that may run, would be exceeded by 3")
            rejections = self.server.get("/metrics", admin=True)
            self.assertRegex(rejections, r'vllm:admission_rejections_total\{[^}]*reason="key_limits"[^}]*\} [1-9]')
            others = self.together("other", 2)
            wait_until(lambda: self.client("other")["waiting"] == 2)
        self.assertEqual([answer.result()[0] for answer in answers + others], [200] * 4)
        self.assertEqual(self.ask_as("queue")[0], 200, "the places are free again")
        status, message, retry = self.ask_as("queue", prompt=[[5]] * 3)
        self.assertEqual((status, retry), (400, None))
        self.assertRegex(message, "^3 choices are more than max_queued_reqs of this API key, 1, beside 1 that may run")

    def test_key_without_own_limits_has_the_default_queue(self):
        self.assertEqual(self.ask_as("other", prompt=[[5]] * 7)[0], 200)
        status, message, _ = self.ask_as("other", prompt=[[5]] * 8)
        self.assertEqual(status, 400)
        self.assertRegex(message, "^8 choices are more than max_queued_reqs of this API key, 3, beside 4 that may run")

    def test_key_gets_429_when_its_tokens_per_minute_are_used_up(self):
        self.assertEqual(self.ask_as("tokens", max_tokens=600)[0], 200, "what is begun is finished")
        status, message, retry = self.ask_as("tokens")
        self.assertEqual(status, 429)
        self.assertRegex(message, "^tokens_per_minute of this API key, 60, are used up; try again in [0-9]+ s$")
        self.assertTrue(60 < retry <= 542, retry)  # 541 tokens too many, at one per second, less the tokens that came back meanwhile
        self.assertEqual(self.ask_as("other")[0], 200)

    def test_status_reports_key_limits(self):
        limits = self.status()["settings"]["key_limits"]
        self.assertEqual(limits["queue"], {"max_running_seqs": 1, "max_queued_reqs": 1, "tokens_per_minute": None, "max_blocks": None})
        self.assertEqual(set(limits), set(self.LIMITS))


class RateTest(LimitCase):
    """Tests minimum rates of bytes. The rates are far above the defaults. body_seconds is far longer than the slow body takes, so that
    only the rate can end it."""

    @classmethod
    def setUpClass(cls):
        cls.start(f"{{body_seconds: 600, body_bytes_per_second: {1 << 20}, write_seconds: 2, write_bytes_per_second: {1 << 20}}}")

    def test_body_slower_than_the_rate_gets_408(self):
        body = json.dumps({**GOOD, "user": "x" * 1000}).encode()
        s = self.connect()
        begin = time.monotonic()
        s.sendall(post(body[:5], length=len(body)))
        answered = False
        for i in range(5, 305):  # ten bytes a second
            answered = bool(select.select([s], [], [], 0.1)[0])
            if answered:
                break
            s.sendall(body[i:i + 1])
        self.assertTrue(answered, "it was never cut")
        self.assertGreater(time.monotonic() - begin, 9)
        status, answer = answer_of(s)
        self.assertEqual((status, json.loads(answer)["error"]["message"]), (408, "the request body took too long"))

    def test_client_that_reads_slower_than_the_rate_is_cut_off(self):
        s = self.connect(receive_buffer=64 << 10)
        s.sendall(post(json.dumps(TimeTest.LARGE).encode(), "Connection: close"))
        data, pause = b"", 0.3  # reads at least once a second, but at a fifth of the least rate that the server allows
        with contextlib.suppress(ConnectionError):
            while chunk := s.recv(64 << 10):
                data += chunk
                time.sleep(pause)
        self.assertLess(data.count(b'"finish_reason":"length"'), 128, "it got all of it")


class PatienceTest(LimitCase):
    @classmethod
    def setUpClass(cls):
        cls.start("{queue_seconds: 2, request_seconds: 3}")

    def test_request_gets_503_after_queue_seconds(self):
        with self.paused():
            status, answer = self.server.post("/v1/completions", GOOD)
            self.assertEqual((status, answer["error"]["message"]), (503, "no room within 2 s in the queue; try again later"))
        answers = []
        with self.paused():
            thread = threading.Thread(target=lambda: answers.append(self.server.post("/v1/completions", GOOD)[0]))
            thread.start()
            wait_until(lambda: self.status()["waiting"] == 1)
        thread.join()
        self.assertEqual(answers, [200])

    def test_request_gets_504_after_request_seconds(self):
        for fields in ({}, {"deadline_seconds": 100}):  # a client's own deadline does not prolong the limit
            body = {"prompt": [5], "n": 4, "max_tokens": 1900, "ignore_eos": True, "stream": True, **fields}
            s = self.connect()
            s.sendall(post(json.dumps(body).encode()))
            with s.makefile("rb") as f:
                while not f.readline().startswith(b"data: "):
                    pass
                with self.paused():
                    events, deadline = [], time.monotonic() + 60
                    for line in iter(f.readline, b"data: [DONE]\n"):
                        self.assertLess(time.monotonic(), deadline, "the request has no end")
                        if line.startswith(b"data: "):
                            events.append(json.loads(line[6:]))
            self.assertEqual((events[-1]["error"]["code"], events[-1]["error"]["message"]), (504, "not done within 3 s"))


class DescriptorTest(LimitCase):
    def test_connection_limit_leaves_512_descriptors(self):
        self.start("{}", prefix=("prlimit", "--nofile=600:600"))
        self.assertEqual(self.status()["settings"]["limits"]["connections"], 88)
        self.full(88)


class AdminPortTest(LimitCase):
    @classmethod
    def setUpClass(cls):
        cls.start()

    def test_admin_port_serves_128_connections(self):
        for i in range(129):
            s = self.connect(port=self.server.admin_port)
            s.sendall(b"GET /admin/help HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(answer_of(s)[0], 200 if i < 128 else 503, i)


class AddressTest(LimitCase):
    """Tests limits of connections per client address. The server runs in its own network namespace. No other host reaches the addresses in
    it."""
    OTHERS = [f"10.78.0.{i}" for i in range(2, 7)]

    @classmethod
    def setUpClass(cls):
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net", encoding="ascii") as outside:
            if libc.unshare(CLONE_NEWNET) != 0:
                raise unittest.SkipTest("network namespaces need root")
            cls.outside = os.dup(outside.fileno())
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for address in (NETWORK, *cls.OTHERS):
            subprocess.run(["ip", "address", "add", address + "/32", "dev", "lo"], check=True)
        cls.keys = tempfile.TemporaryDirectory()
        keys = os.path.join(cls.keys.name, "api.keys")
        made = subprocess.run([QUIRE, "keygen", "--api", "alice", "--file", keys], check=True, capture_output=True, text=True)
        cls.key = made.stdout.strip()
        cls.start("{connections: 12, connections_per_address: 3}", flags=("--host", "0.0.0.0", "--api-key-file", keys))

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.keys.cleanup()
        ctypes.CDLL(None, use_errno=True).setns(cls.outside, CLONE_NEWNET)
        os.close(cls.outside)

    def test_connections_from_one_address_are_limited(self):
        self.full(3, NETWORK)
        for _ in range(6):
            s = self.connect(LOOPBACK)
            s.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(answer_of(s)[0], 200)

    def hold(self, ask, **keywords):
        """Opens three connections from each of four addresses, as many as the server allows, and calls `ask` with each."""
        wait_until(lambda: not states_of(self.server.port))
        held = []
        for address in self.OTHERS[:4]:
            for _ in range(3):
                held.append(self.connect(NETWORK, source=address, **keywords))
                ask(held[-1])
        return held

    def test_newcomer_is_served_when_silent_connections_from_many_addresses_fill_the_server(self):
        def say_half(s):
            s.sendall(b"GET /ping HTTP/1.1\r\n")
            time.sleep(0.01)  # so that the order of the connections is known
        held = self.hold(say_half)
        newcomers = [self.connect(NETWORK, source=self.OTHERS[4]) for _ in range(2)]
        for s in newcomers:
            s.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(answer_of(s)[0], 200)
        for i, s in enumerate(held):
            s.sendall(b"Host: localhost\r\n\r\n")
            try:
                status = answer_of(s)[0]
            except ConnectionResetError:
                status = None
            # Among addresses with equally many connections, the address that became silent last loses its longest silent connection.
            self.assertEqual(status, None if i in (6, 9) else 200, i)

    def test_connection_that_reads_no_answers_gives_way_to_a_newcomer(self):
        """A client asks for a file of the chat page, which needs no key, again and again, and never reads the answers."""
        asked = b"GET /web/chat/main.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
        held = self.hold(lambda s: s.sendall(asked), receive_buffer=4096)
        time.sleep(0.5)  # waits until the kernel's buffers are full
        newcomer = self.connect(NETWORK, source=self.OTHERS[4])
        newcomer.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(answer_of(newcomer)[0], 200)
        self.assertEqual(len(states_of(self.server.port)), len(held))

    def test_connection_that_waits_for_its_answer_is_not_closed_for_a_newcomer(self):
        request = post(json.dumps(GOOD).encode(), f"Authorization: Bearer {self.key}")
        with self.paused():
            held = self.hold(lambda s: s.sendall(request))
            wait_until(lambda: self.status()["waiting"] == len(held))
            turned_away = self.connect(NETWORK, source=self.OTHERS[4])
            self.assertEqual(answer_of(turned_away)[0], 503)
        self.assertEqual([answer_of(s)[0] for s in held], [200] * len(held))


# The limits in docs/limits.md with their defaults, and the test of each limit.
TESTS = {
    "body": ("2 MiB", SizeTest.test_body_of_2_mib_is_served_and_a_larger_one_refused),
    "head": ("16 KiB", SizeTest.test_head_of_16_kib_is_served_and_a_larger_one_refused),
    "pieces that a head comes in": ("512", tls_test.TlsTest.test_request_head_in_too_many_tls_records_is_refused),
    "request target": ("8 KiB", SizeTest.test_request_target_beyond_8_kib_gets_414),
    "header fields": ("100", SizeTest.test_request_with_more_than_100_header_fields_gets_431),
    "depth of JSON": ("32", SizeTest.test_json_deeper_than_32_is_refused),
    "members of a JSON object": ("1,024", SizeTest.test_object_with_more_than_1024_members_is_refused),
    "messages": ("1,024", SizeTest.test_chat_with_more_than_1024_messages_is_refused),
    "prompts": ("16", SizeTest.test_call_with_more_than_16_prompts_is_refused),
    "`n` and `best_of`": ("128", SizeTest.test_request_with_more_than_128_choices_is_refused),
    "beams": ("20", SizeTest.test_request_with_more_than_20_beams_is_refused),
    "stop strings": ("16 of 1 KiB", SizeTest.test_more_than_16_stop_strings_or_longer_than_1_kib_are_refused),
    "logit biases": ("300", SizeTest.test_request_with_more_than_300_logit_biases_is_refused),
    "log-probabilities of a token": ("20", SizeTest.test_request_with_more_than_20_logprobs_is_refused),
    "time for a head": ("10 s", TimeTest.test_slow_request_head_gets_408),
    "time for a body": ("30 s", TimeTest.test_slow_request_body_gets_408),
    "rate of a body, after 10 s": ("4 KiB/s on average", RateTest.test_body_slower_than_the_rate_gets_408),
    "idle connection": ("75 s", TimeTest.test_idle_connection_is_closed),
    "stalled write": ("30 s", TimeTest.test_connection_is_closed_when_the_client_takes_no_answer),
    "events that wait for a client": ("256 KiB", SizeTest.test_stream_ends_with_an_error_when_unread_events_exceed_the_limit),
    "rate of reading, after a stalled write's time": ("1 KiB/s on average", RateTest.test_client_that_reads_slower_than_the_rate_is_cut_off),
    "connections": ("16,384", WaitingTest.test_connection_gets_503_when_too_many_are_open),
    "descriptors that connections leave free": ("512", DescriptorTest.test_connection_limit_leaves_512_descriptors),
    "connections from one address, loopback excepted": ("1,024", AddressTest.test_connections_from_one_address_are_limited),
    "waiting requests (choices)": ("1,024", WaitingTest.test_request_gets_429_when_too_many_requests_wait),
    "time in the queue": ("60 s", PatienceTest.test_request_gets_503_after_queue_seconds),
    "time in all": ("600 s", PatienceTest.test_request_gets_504_after_request_seconds),
    "memory of requests, from body to answer": ("512 MiB, half of it for one key", MemoryTest.test_request_gets_429_when_the_request_memory_of_its_key_is_full),
}


class CoverageTest(unittest.TestCase):
    def test_every_documented_limit_has_a_test_here(self):
        self.assertEqual({limit: default for limit, (default, _) in TESTS.items()}, documented_limits())


if __name__ == "__main__":
    verdict.run_tests()
