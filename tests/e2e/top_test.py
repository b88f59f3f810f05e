"""Tests `quire top` with a working server, a vanishing one and hostile ones, in a pipe and on a terminal."""
import fcntl
import http.server
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time
import unittest

import verdict
from batch_client import make_batch
from server import QUIRE, TINY, Server


def top(*words):
    return subprocess.run([QUIRE, "top", *words], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


class Load:
    """Runs clients until the end of the `with` block. Each client asks for long answers, one after the other."""

    def __init__(self, server, clients):
        self.server, self.over = server, threading.Event()
        self.threads = [threading.Thread(target=self.ask) for _ in range(clients)]

    def ask(self):
        while not self.over.is_set():
            self.server.post("/v1/completions", {"prompt": "Once", "max_tokens": 1800, "ignore_eos": True, "temperature": 0})

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


class PipeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "2", "--threads-per-worker", "1", "--max-num-seqs", "2", model=TINY)
        cls.addClassCleanup(cls.server.__exit__)

    def pause_with(self, running, waiting):
        """Pauses the server while this many requests run and wait."""
        deadline = time.monotonic() + 60
        while True:
            self.assertLess(time.monotonic(), deadline)
            self.server.post("/admin/pause", {}, admin=True)
            status = self.server.get("/admin/status", admin=True)
            if (status["running"], status["waiting"]) == (running, waiting):
                return status
            self.server.post("/admin/resume", {}, admin=True)
            time.sleep(0.01)

    def test_top_shows_requests_blocks_and_ranks_of_the_admin_port(self):
        with Load(self.server, 3):
            try:
                status = self.pause_with(2, 1)
                requests = self.server.get("/admin/requests", admin=True)["requests"]
                done = top(self.server.admin_url, "--interval", "0.1")
            finally:
                self.server.post("/admin/resume", {}, admin=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"quire {status['version']}   {status['model']['name']}   {status['state']}   epoch 1", done.stdout)
        self.assertIn("requests 2 running, 1 waiting", done.stdout)
        blocks = status["blocks"]["device"]
        self.assertIn(f"{blocks['used']} used, {blocks['cached']} cached, {blocks['free']} free of {blocks['total']}", done.stdout)
        for rank in status["ranks"]:
            self.assertRegex(done.stdout, rf"(?m)^ +{rank['rank']}  {rank['host'][:20]} .* {rank['pid']} ")
        rows = [line for line in done.stdout.splitlines() if line.startswith("cmpl-")]
        self.assertEqual({row.split()[0] for row in rows}, {one["id"][:26] for one in requests})
        self.assertEqual(rows[2].split()[1], "waiting")
        for one in requests:
            row = next(row for row in rows if row.split()[0] == one["id"][:26])
            self.assertEqual(row.split()[1], one["state"])
            self.assertTrue(row.endswith("  " + (one["why_waiting"] or "")), row)

    def test_top_shows_batches_that_are_not_over(self):
        with tempfile.TemporaryDirectory() as folder, Server("--threads-per-worker", "1", "--batch-dir", os.path.join(folder, "kept"), model=TINY) as server:
            self.assertRegex(top(server.admin_url, "--interval", "0.1").stdout, r"(?m)^batches  0 of their requests run$")
            ended, going = make_batch(server, 1, 1), None
            deadline = time.monotonic() + 60
            while server.get("/admin/batches", admin=True)["batches"][0]["status"] != "completed":
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            server.post("/admin/pause", {}, admin=True)
            going = make_batch(server, 40, 100)
            while server.get("/admin/batches", admin=True)["batches"][0]["running"] != 16:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            shown = top(server.admin_url, "--interval", "0.1").stdout
            server.post("/admin/resume", {}, admin=True)
        self.assertRegex(shown, r"(?m)^batches  1 completed, 1 in_progress, 16 of their requests run$")
        self.assertRegex(shown, rf"(?m)^{going}  +in_progress +0 +0 +40 +16  ")
        self.assertNotIn(ended, shown)

    def test_top_shows_throughput_between_two_samples(self):
        with Load(self.server, 1):
            done = top(self.server.admin_url, "--interval", "0.5")
        self.assertGreater(int(re.search(r"tokens/s (\d+) generated", done.stdout)[1]), 0, done.stdout)

    def test_top_says_when_the_address_is_no_admin_port(self):
        data = top(self.server.url)
        self.assertEqual((data.returncode, data.stdout), (1, ""))
        self.assertIn("is this the admin port?", data.stderr)
        nobody = top("127.0.0.1:1")
        self.assertEqual(nobody.returncode, 1)
        self.assertIn("cannot connect to 127.0.0.1:1", nobody.stderr)
        self.assertEqual(top(self.server.admin_url, "--interval", "0").returncode, 2)


HOSTILE = "\x1b]0;pwned\x07\x1b[2J"


class Stranger(http.server.BaseHTTPRequestHandler):
    """Answers each path with the text that the test has set for it, instead of Quire's server."""
    answers = {}

    def do_GET(self):
        answer = self.answers[self.path.partition("?")[0]].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class StrangerTest(unittest.TestCase):
    def watch(self, status, requests):
        handler = type("Handler", (Stranger,), {"answers": {"/admin/status": status, "/admin/requests": requests}})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.addCleanup(server.server_close)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return top(f"127.0.0.1:{server.server_address[1]}", "--interval", "0.1")

    def status(self, counts):
        rank = {"rank": 0, "host": HOSTILE, "pid": 1, "isa": HOSTILE, "last_step_micros": 1, "heartbeat_age_millis": 1}
        replica = {"replica": 0, "state": HOSTILE, "epoch": 1, "running": 0, "waiting": 0, "ranks": [rank],
                   "blocks": {"device": counts, "host": counts}}
        return {"version": HOSTILE, "model": {"name": HOSTILE}, "state": HOSTILE, "epoch": 1, "recoveries": 0, "running": 1, "waiting": 0,
                "swapped_out": 0, "preemptions": 0, "generated_tokens": 5, "computed_tokens": 5, "cached_tokens": 0, "steps": 5,
                "replicas": [replica, replica]}

    def test_top_draws_bars_when_block_counts_are_inconsistent(self):
        for used, cached, total in ((7, 0, 5), (-3, 2, 5), (2**62, 2**62, 1), (0, 9, 5), (1, 1, -1)):
            status = json.dumps(self.status({"total": total, "used": used, "cached": cached, "free": 0}))
            done = self.watch(status, '{"requests": [], "not_listed": 0}')
            self.assertEqual(done.returncode, 0, done.stderr)
            for bar in re.findall(r"(?m)^blocks +\[(.*?)\]", done.stdout):
                self.assertRegex(bar, r"^#*\+*\.*$")
                self.assertEqual(len(bar), 30)

    def test_top_shows_guessed_tokens_by_method_and_position(self):
        status = self.status({"total": 5, "used": 1, "cached": 0, "free": 4})
        methods = {"prediction": {"drafts": 1, "tokens": 4, "accepted": 3}, "ngram": {"drafts": 0, "tokens": 0, "accepted": 0}, HOSTILE: {"drafts": 3, "tokens": 6, "accepted": 3}}
        status["speculation"] = {"drafts": 4, "tokens": 10, "accepted": 6, "accepted_by_position": [4, 2, 0], "methods": methods}
        done = self.watch(json.dumps(status), '{"requests": [], "not_listed": 0}')
        self.assertEqual(done.returncode, 0, done.stderr)
        line = next(line for line in done.stdout.splitlines() if line.startswith("drafts"))
        for words in ("6 of 10 guessed tokens right", "prediction 75 %", "; by position 100 % 50 % 0 %"):
            self.assertIn(words, line)
        self.assertNotIn("ngram", line)
        self.assertNotIn("\x1b", line)

    def test_top_escapes_control_characters_of_names(self):
        status = self.status({"total": 0, "used": 0, "cached": 0, "free": 0})
        request = {"id": HOSTILE, "state": HOSTILE, "age_seconds": 1, "prompt_tokens": 1, "generated_tokens": 1, "blocks": 1,
                   "client": HOSTILE, "why_waiting": HOSTILE}
        done = self.watch(json.dumps(status), json.dumps({"requests": [request], "not_listed": 0}))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pwned", done.stdout)
        self.assertEqual([c for c in done.stdout if (ord(c) < 32 and c != "\n") or 0x7f <= ord(c) < 0xa0], [])

    def test_top_exits_with_status_1_when_answers_are_malformed(self):
        for status in ("", "[]", "5", "{", "{}", '{"version":5}', "[" * 1000):
            done = self.watch(status, '{"requests": [], "not_listed": 0}')
            self.assertEqual((done.returncode, done.stdout), (1, ""), status)
            self.assertNotEqual(done.stderr, "")


class TerminalTest(unittest.TestCase):
    COLUMNS = 60

    def setUp(self):
        self.server = Server("--threads-per-worker", "1", model=TINY)
        self.addCleanup(self.server.__exit__)
        self.leader, follower = pty.openpty()
        self.addCleanup(os.close, self.leader)
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, self.COLUMNS, 0, 0))
        self.before = termios.tcgetattr(follower)
        self.follower, self.seen = follower, ""
        self.addCleanup(os.close, follower)
        self.process = subprocess.Popen([QUIRE, "top", self.server.admin_url, "--interval", "0.2"], stdin=follower, stdout=follower,
                                        stderr=follower, start_new_session=True)
        self.addCleanup(self.end)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def wait_for(self, text):
        deadline = time.monotonic() + 60
        while text not in self.seen:
            self.assertLess(time.monotonic(), deadline, self.seen[-2000:])
            if select.select([self.leader], [], [], 0.2)[0]:
                self.seen += os.read(self.leader, 65536).decode()

    def exit_status(self):
        """Reads on until the program ends, as a terminal does, so that the program never waits to write. Returns the program's exit
        status."""
        deadline = time.monotonic() + 20
        while self.process.poll() is None:
            self.assertLess(time.monotonic(), deadline, self.seen[-2000:])
            if select.select([self.leader], [], [], 0.2)[0]:
                self.seen += os.read(self.leader, 65536).decode()
        return self.process.returncode

    def restored(self):
        self.wait_for("\x1b[?25h\x1b[?1049l")
        self.assertEqual(termios.tcgetattr(self.follower), self.before)

    def test_top_on_a_terminal_updates_until_q_is_pressed(self):
        self.wait_for("requests 0 running")
        with Load(self.server, 1):
            self.wait_for("requests 1 running")
            self.wait_for("cmpl-")
        for line in re.split(r"\r\n|\x1b\[H", self.seen):
            self.assertLessEqual(len(re.sub(r"\x1b\[[?0-9]*[A-Za-z]|\r", "", line)), self.COLUMNS, line)
        os.write(self.leader, b"q")
        self.assertEqual(self.exit_status(), 0)
        self.restored()

    def rows(self, text):
        """Returns the request ids on the last whole screen."""
        picture = text.split("\x1b[H")[-2]
        return [line.split()[0] for line in re.split(r"\r\n", re.sub(r"\x1b\[[?0-9]*[A-Za-z]", "", picture)) if line.startswith("cmpl-")]

    def until_rows(self, wanted):
        deadline = time.monotonic() + 30
        while not (self.seen.count("\x1b[H") > 1 and wanted(self.rows(self.seen))):
            self.assertLess(time.monotonic(), deadline, self.seen[-2000:])
            if select.select([self.leader], [], [], 0.2)[0]:
                self.seen += os.read(self.leader, 65536).decode()
        return self.rows(self.seen)

    def test_top_on_a_terminal_sorts_and_scrolls_requests(self):
        with Load(self.server, 4):
            self.wait_for("requests 4 running")
            self.server.post("/admin/pause", {}, admin=True)
            try:
                requests = self.server.get("/admin/requests", admin=True)["requests"]
                by_age = [one["id"][:26] for one in sorted(requests, key=lambda one: -one["age_seconds"])]
                self.wait_for("s sorts: by state")
                os.write(self.leader, b"s")
                self.wait_for("s sorts: by age")
                self.assertEqual(self.until_rows(lambda rows: rows == by_age), by_age)
                for keys, left in ((b"\x1b[B", 3), (b"jj", 1), (b"\x1b[F", 1), (b"\x1b[A", 2), (b"\x1b[H", 4), (b"\x1b[6~\x1b[5~k", 4), (b"\x1b[6~", 1)):
                    os.write(self.leader, keys)
                    self.assertEqual(self.until_rows(lambda rows, n=left: len(rows) == n), by_age[4 - left:], keys)
                self.wait_for("scroll: 4 of 4")
                os.write(self.leader, b"s" * 4)
                self.wait_for("s sorts: by client")
                self.assertIsNone(self.process.poll())
            finally:
                self.server.post("/admin/resume", {}, admin=True)
        os.write(self.leader, b"q")
        self.assertEqual(self.exit_status(), 0)

    def test_top_on_a_terminal_waits_when_the_server_goes_away(self):
        self.wait_for("requests 0 running")
        self.server.terminate()
        self.wait_for("the server does not answer")
        self.assertIsNone(self.process.poll())
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.exit_status(), 0)
        self.restored()


if __name__ == "__main__":
    verdict.run_tests()
