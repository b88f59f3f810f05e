"""Tests many streams at the same time, with misbehaving clients among them, and overload. ctest runs a small case. By hand, streams_test.py
10000 60 holds 10,000 streams for 60 s, and sends 2,000 requests at the same time."""
import json
import os
import subprocess
import sys
import time
import unittest

import verdict
from server import TINY, Server

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stream_crowd.py")
STREAMS, SECONDS, BURST = 1000, 12, 500
MOST_BYTES = 20 << 10  # most bytes of the server's memory for each stream; 14,000 usually, 17,000 on a busy machine


def anonymous_memory(pid):
    """Returns a process's own bytes: heap and stacks."""
    with open(f"/proc/{pid}/status") as f:
        return int(next(line for line in f if line.startswith("RssAnon")).split()[1]) << 10


class Clients:
    """Starts the process with the clients. The process reports each phase in a line (hear), and waits between some phases for a line from
    the test (go_on)."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([sys.executable, CLIENT, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def hear(self, word):
        told = json.loads(self.process.stdout.readline())
        print(told, file=sys.stderr)
        assert told["now"] == word, told
        return told

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()


class StreamsTest(unittest.TestCase):
    def status(self, server):
        return server.get("/admin/status", admin=True)

    def wait_for(self, condition, seconds):
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertTrue(condition())

    def test_a_thousand_streams_stay_open_beside_misbehaving_clients(self):
        blocks = STREAMS * 24
        flags = ("--max-num-seqs", STREAMS + 1000, "--max-num-batched-tokens", STREAMS + 2000, "--num-kv-blocks", blocks)
        with Server("-tp", "1", *map(str, flags), model=TINY) as server:
            ask = {"prompt": [9, 8, 7], "max_tokens": 24, "temperature": 0, "ignore_eos": True}
            alone = server.post("/v1/completions", ask)[1]["choices"][0]["text"]
            before = anonymous_memory(server.process.pid)
            with Clients("streams", server.port, STREAMS, SECONDS) as clients:
                opened = clients.hear("open")
                self.assertTrue(opened["all"], opened)
                self.assertEqual(opened["done"], 0, "they are all open at the same time")
                self.assertEqual(self.status(server)["running"], STREAMS)
                grown = (anonymous_memory(server.process.pid) - before) / STREAMS
                print(f"memory for each stream: {grown:.0f} bytes", file=sys.stderr)
                clients.go_on()
                time.sleep(1)
                self.assertEqual(server.post("/v1/completions", ask)[1]["choices"][0]["text"], alone)
                held = clients.hear("held")
                self.assertEqual((held["closed_early"], held["bad_status"]), (0, 0), held)
                self.assertGreater(held["fewest_events"], 1)
                self.assertEqual(held["slow_408"], held["few"], "slow heads are told so and cut")
                self.assertEqual(held["half_closed"], held["few"], "who half-closes has left")
                running = self.status(server)["running"]
                # A smaller number runs if more streams have ended since they were counted.
                self.assertLessEqual(running, STREAMS - held["done"], "who never reads is not served any more")
                clients.go_on()
                late = clients.hear("read late")
                self.assertEqual((late["told"] + late["closed"], late["served"]), (held["few"], 0), late)
                clients.go_on()
            self.wait_for(lambda: self.status(server)["running"] == 0, 20)
            self.assertEqual(self.status(server)["blocks"]["device"]["free"], blocks)
            self.assertLess(grown, MOST_BYTES)
            self.assertEqual(server.terminate(), 0, server.text())

    def test_burst_beyond_the_queue_is_refused_without_delay_and_accepted_requests_get_correct_answers(self):
        ask = {"prompt": [5, 6], "max_tokens": 300, "temperature": 0, "ignore_eos": True}
        flags = ("--max-num-seqs", "16", "--max-num-queued-reqs", "48", "--num-kv-blocks", "2000")
        with Server("-tp", "1", *flags, model=TINY) as server:
            alone = server.post("/v1/completions", ask)[1]["choices"][0]["text"]
            before = anonymous_memory(server.process.pid)
            with Clients("burst", server.port, BURST, json.dumps(ask)) as clients:
                told = clients.hear("burst")
            self.assertEqual((told["accepted"], told["refused"]), (64, BURST - 64), told)
            self.assertEqual(told["retry_after"], told["refused"])
            self.assertLess(told["p99"], 5)
            self.assertEqual(told["texts"], [alone])
            self.assertLess(anonymous_memory(server.process.pid) - before, 64 << 20)
            self.wait_for(lambda: self.status(server)["running"] == 0, 10)
            self.assertEqual(server.terminate(), 0, server.text())


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1].isdigit():
        STREAMS, SECONDS, BURST = int(sys.argv[1]), float(sys.argv[2]), 2000
        del sys.argv[1:3]
    verdict.run_tests()
