"""Tests a rolling update of two servers behind a balancer that follows /ready. The update is killed half-way and repeated, while clients
send requests. No connection may be dropped: every stream that began ends with [DONE]. Every other request gets an answer or a 503 that says
when to try again."""
import http.client
import json
import os
import signal
import tempfile
import threading
import time
import unittest

import verdict
from balancer import Balancer
from server import TINY, Server
from stream_client import stream_in_background

THREADS = 6
FLAGS = ("-tp", "1", "--threads-per-worker", "1", "--set", "server.limits.drain_seconds=100")


class Clients:
    """Runs clients that send requests through the balancer without a pause. Each client uses its connection until the server closes it, and
    repeats a request that got 503."""

    def __init__(self, balancer, threads):
        self.balancer = balancer
        self.answers, self.refusals, self.dropped = [], [], []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask_until_over, args=(bool(i % 2),), daemon=True) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def _ask_until_over(self, stream):
        connection = http.client.HTTPConnection("127.0.0.1", self.balancer.port, timeout=120)
        while not self._over.is_set():
            try:
                self._ask(connection, stream)
            except (OSError, http.client.HTTPException) as error:
                self.dropped.append(repr(error))
                connection.close()
        connection.close()

    def _ask(self, connection, stream):
        body = {"prompt": [5, 6, 7], "max_tokens": 20, "temperature": 0, "ignore_eos": True, "stream": stream}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status == 503:
            self.refusals.append((answer.headers["Retry-After"], answer.headers["Connection"]))
        elif answer.status != 200 or (stream and not text.endswith(b"data: [DONE]\n\n")):
            self.dropped.append(f"{answer.status}: {text[-200:]}")
        else:
            self.answers.append(stream)

    def wait_for_more(self, count):
        """Waits until this many more streamed answers have come, and this many more that are not streamed."""
        wanted = {stream: self.answers.count(stream) + count for stream in (False, True)}
        while any(self.answers.count(stream) < number for stream, number in wanted.items()):
            assert all(thread.is_alive() for thread in self._threads) and not self.dropped, self.dropped
            time.sleep(0.01)

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=120)
            assert not thread.is_alive(), "a client hangs"


class RollingUpdateTest(unittest.TestCase):
    def drain(self, server, balancer, clients):
        """Ends a server by SIGTERM while it streams. The balancer must learn this from /ready and send no more connections, and the
        streams must end whole."""
        streams = [stream_in_background(server, 500) for _ in range(2)]
        server.process.send_signal(signal.SIGTERM)
        while server in balancer.ready:
            self.assertIsNone(server.process.poll(), server.text())
            time.sleep(0.005)
        before = len(balancer.routed)
        clients.wait_for_more(10)
        self.assertNotIn(server, balancer.routed[before + THREADS:], "but for connections that came while /ready was read")
        for thread, lines in streams:
            thread.join(timeout=120)
            self.assertEqual(lines[-1], b"[DONE]")
        self.assertEqual(server.process.wait(timeout=60), 0)

    def test_rolling_update_that_is_killed_and_repeated_drops_no_connection(self):
        with tempfile.TemporaryDirectory() as folder, Server(*FLAGS, model=TINY) as first, Server(*FLAGS, model=TINY) as second, Balancer([first, second]) as balancer:
            clients = Clients(balancer, THREADS)
            self.addCleanup(clients.end)
            clients.wait_for_more(10)
            self.assertEqual(set(balancer.routed), {first, second})
            self.drain(first, balancer, clients)

            # The update is killed: the server that replaces the first server ends while it waits for its worker, and the update goes no further.
            worker = os.path.join(folder, "worker")
            with open(worker, "w", encoding="utf-8") as script:
                script.write("#!/bin/sh\nexec sleep 5\n")
            os.chmod(worker, 0o700)
            with Server(*FLAGS, "--set", f"launch.worker={worker}", model=TINY, wait=False) as killed:
                balancer.servers = [second, killed]
                while not self.is_alive(killed):
                    self.assertIsNone(killed.process.poll(), killed.text())
                clients.wait_for_more(5)
                killed.process.kill()
                killed.process.wait()
                clients.wait_for_more(5)
            self.assertNotIn(killed, balancer.routed)

            with Server(*FLAGS, model=TINY) as third:
                balancer.servers = [second, third]
                while third not in balancer.ready:
                    time.sleep(0.005)
                self.drain(second, balancer, clients)
                clients.end()
                self.assertEqual((clients.dropped, balancer.unreachable), ([], []))
                self.assertLessEqual(set(clients.refusals), {("1", "close")})

    @staticmethod
    def is_alive(server):
        try:
            return server.get("/health") == {}
        except OSError:  # the port is not open yet
            time.sleep(0.01)
            return False


if __name__ == "__main__":
    verdict.run_tests()
