"""Tests several groups of workers under one coordinator (replicas): the choice of a replica, moves, the loss of a group, and a replica
that only computes prompts."""
import json
import os
import random
import shutil
import signal
import tempfile
import time
import unittest

import verdict
from server import TINY, Server, wait_gone
from stream_client import stream_in_background, text_of

PROMPTS = [[5, 6, 7], [9, 3], [4] * 40, [8, 1, 2, 3, 4, 5, 6, 7]]
NO_SWAP = ("-tp", "2", "--data-parallel-size", "2", "--num-kv-blocks", "4000")
TWO = NO_SWAP + ("--swap-space", "0.05")


def status_of(server):
    return server.get("/admin/status", admin=True)


def pids_of(server, replica=None):
    replicas = status_of(server)["replicas"]
    return [rank["pid"] for r in replicas if replica in (None, r["replica"]) for rank in r["ranks"]]


def name_of(lines):
    return json.loads(lines[0])["id"]


def start(server, count, tokens, **fields):
    return [stream_in_background(server, tokens, body={"prompt": PROMPTS[i % len(PROMPTS)], **fields}) for i in range(count)]


def wait_until(condition, server, seconds=40):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, server.text()
        time.sleep(0.05)


class ReplicasTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.right = {}
        with Server("-tp", "2", model=TINY) as server:
            for tokens in (400, 800, 1500):
                for i, (thread, lines) in enumerate(start(server, len(PROMPTS), tokens)):
                    thread.join(timeout=120)
                    cls.right[tokens, i] = text_of(lines)

    def expect_right(self, streams, tokens):
        for i, (thread, lines) in enumerate(streams):
            thread.join(timeout=120)
            self.assertFalse(thread.is_alive(), f"stream {i} hangs")
            self.assertEqual(text_of(lines), self.right[tokens, i % len(PROMPTS)], f"stream {i}")

    def expect_rest(self, server):
        """Waits until no replica uses a block on its device or host, once no request is left."""
        deadline = time.monotonic() + 8  # a broken transfer ends after 5 s
        while True:
            replicas = status_of(server)["replicas"]
            held = [r["blocks"]["device"]["used"] + r["blocks"]["host"]["used"] for r in replicas]
            if not any(held) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self.assertEqual(held, [0] * len(replicas))

    def test_two_replicas_give_the_answers_of_one_replica(self):
        with tempfile.TemporaryDirectory() as base, Server(*TWO, model=TINY, env={"XDG_RUNTIME_DIR": base}) as server:
            streams = start(server, 8, 400)
            self.expect_right(streams, 400)
            status = status_of(server)
            self.assertEqual([r["state"] for r in status["replicas"]], ["serving", "serving"])
            self.assertEqual([len(r["ranks"]) for r in status["replicas"]], [2, 2])
            self.assertEqual(len({pid for pid in pids_of(server)}), 4)
            self.assertTrue(all(r["generated_tokens"] > 0 for r in status["replicas"]), "one replica did everything")
            self.assertEqual(status["epoch"], status["replicas"][0]["epoch"])
            self.assertEqual(server.get("/admin/blocks?replica=1", admin=True)["total"], 4000)
            for query in ("replica=2", "replica=-1", "replica=x", "other=1"):
                with self.assertRaises(Exception):
                    server.get("/admin/blocks?" + query, admin=True)
            metrics = server.get("/metrics", admin=True)
            for engine in "01":
                self.assertRegex(metrics, rf'vllm:num_requests_running{{engine="{engine}",model_name="gqa"}} 0')
            self.assertIn("quire:migrated_with_blocks_total", metrics)
            self.expect_rest(server)
            pids = pids_of(server)
            self.assertEqual(server.terminate(), 0)
            self.assertEqual(wait_gone(pids, 5), [])
            self.assertEqual(os.listdir(base), [])

    def test_streams_are_unchanged_when_they_move_from_pool_to_pool(self):
        self.expect_that_moves_are_not_noticed(*NO_SWAP)

    def test_streams_are_unchanged_when_they_move_by_host_memory(self):
        self.expect_that_moves_are_not_noticed(*TWO, "--no-enable-prefix-caching")

    def expect_that_moves_are_not_noticed(self, *flags):
        with Server(*flags, model=TINY) as server:
            streams = start(server, 32, 800)
            dice = random.Random(1)
            while any(thread.is_alive() for thread, _ in streams):
                thread, lines = dice.choice(streams)
                status, answer = server.post("/admin/migrate", {"request": name_of(lines), "replica": dice.randrange(2)}, admin=True)
                self.assertEqual(status, 200, answer)
            self.expect_right(streams, 800)
            moved = status_of(server)["migrations"]
            self.assertGreater(moved["with_blocks"], 10, moved)
            self.assertGreater(moved["bytes"], 0)
            self.assertLess(moved["failed"], moved["with_blocks"], server.text())
            self.expect_rest(server)
            self.assertEqual(server.post("/admin/migrate", {"request": "nobody", "replica": 0}, admin=True)[1], {"moving": 0})
            self.assertEqual(server.post("/admin/migrate", {"request": "nobody", "replica": 7}, admin=True)[0], 400)

    def test_moved_request_is_recomputed_without_host_memory_and_prefix_cache(self):
        with Server(*NO_SWAP, "--no-enable-prefix-caching", model=TINY) as server:
            streams = start(server, 4, 1500)
            for _, lines in streams:
                for replica in (0, 1):
                    server.post("/admin/migrate", {"request": name_of(lines), "replica": replica}, admin=True)
            self.expect_right(streams, 1500)
            moved = status_of(server)["migrations"]
            self.assertGreaterEqual(moved["bare"], 4, moved)
            self.assertEqual((moved["with_blocks"], moved["failed"]), (0, 0), moved)
            self.expect_rest(server)

    def test_log_lines_name_the_replica_when_there_are_several(self):
        with Server("-tp", "1", "--data-parallel-size", "2", model=TINY) as server:
            for replica in (0, 1):
                self.assertRegex(server.text(), rf"(?m)^.*info replica {replica}: rank 0 \(pid \d+ on [^)]+\) joined$")
                self.assertRegex(server.text(), rf"(?m)^.*info replica {replica}: KV cache: ")
            pid = next(rank["pid"] for rank in server.get("/admin/status", admin=True)["replicas"][1]["ranks"])
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + 30
            while "replica 1: the worker group is lost" not in server.text():
                self.assertLess(time.monotonic(), deadline, server.text())
                time.sleep(0.02)
            self.assertNotIn("replica 0: the worker group is lost", server.text())
        with Server("-tp", "1", model=TINY) as server:
            self.assertNotIn("replica", server.text())

    def test_lost_worker_stops_only_its_replica(self):
        with Server(*TWO, model=TINY) as server:
            streams = start(server, 8, 1500)
            old = pids_of(server, 1)
            # Some streams are moving when the worker is killed.
            for _, lines in streams:
                server.post("/admin/migrate", {"request": name_of(lines), "replica": 1}, admin=True)
            os.kill(old[1], signal.SIGKILL)
            while status_of(server)["replicas"][1]["epoch"] == 1:
                time.sleep(0.02)
            self.expect_right(streams, 1500)
            replicas = status_of(server)["replicas"]
            self.assertEqual([r["epoch"] for r in replicas], [1, 2])
            self.assertEqual([r["recoveries"] for r in replicas], [0, 1])
            self.assertEqual(wait_gone(old, 5), [])
            self.expect_rest(server)

    def test_requests_of_a_failed_replica_continue_on_the_other_and_it_returns_when_its_workers_start(self):
        with tempfile.TemporaryDirectory() as d:
            model = os.path.join(d, "m")
            shutil.copytree(TINY, model)
            with Server(*TWO, model=model) as server:
                streams = start(server, 8, 1500)
                weights, away = os.path.join(model, "model.safetensors"), os.path.join(d, "away")
                os.rename(weights, away)
                os.kill(pids_of(server, 1)[0], signal.SIGKILL)
                self.expect_right(streams, 1500)
                wait_until(lambda: status_of(server)["replicas"][1]["state"] == "failed", server)
                self.assertIn("its workers are started again later", server.text())
                self.assertEqual(status_of(server)["state"], "serving")
                self.expect_right(start(server, 4, 400), 400)
                os.rename(away, weights)
                wait_until(lambda: status_of(server)["replicas"][1]["state"] == "serving", server)
                self.expect_right(start(server, 8, 400), 400)
                self.assertGreater(status_of(server)["replicas"][1]["epoch"], 1)
                self.expect_rest(server)
                self.assertEqual(server.terminate(), 0)

    def test_requests_move_away_from_a_replica_that_is_short_of_blocks(self):
        with Server("-tp", "1", "--data-parallel-size", "2", "--swap-space", "0.05", "--num-kv-blocks", "120", model=TINY) as server:
            # Three requests that need about 97 blocks each. The second and the third are routed to the replica that has cached the first
            # one's blocks, unless that replica is too busy when they come; then the test tries once more.
            for _ in range(5):
                streams = start(server, 3, 1500, prompt=PROMPTS[2])
                for thread, lines in streams:
                    thread.join(timeout=120)
                    self.assertEqual(text_of(lines), self.right[1500, 2])
                status = status_of(server)
                moved = status["migrations"]["with_blocks"] + status["migrations"]["bare"]
                if moved > 0:
                    break
            self.assertGreater(moved, 0, status)
            self.assertTrue(all(r["generated_tokens"] > 0 for r in status["replicas"]))
            self.expect_rest(server)

    def test_prefill_replica_computes_prompts_and_the_other_replica_generates_answers(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(f"model: {{path: {TINY}}}\nparallel: {{tensor: 2, replicas: 2, prefill_replicas: 1}}\n"
                    "cache: {num_blocks: 4000, host_swap: 50MiB}\n")
            f.flush()
            with Server(f.name) as server:
                streams = start(server, 8, 400)
                self.expect_right(streams, 400)
                status = status_of(server)
                # A request that grows by too many blocks before the link is open moves without them.
                moved = status["migrations"]
                self.assertGreaterEqual(moved["with_blocks"] + moved["bare"], 8, moved)
                self.assertGreater(moved["with_blocks"], 0, moved)
                prefill, decode = status["replicas"]
                self.assertGreater(decode["generated_tokens"], 5 * prefill["generated_tokens"])
                self.expect_rest(server)


if __name__ == "__main__":
    verdict.run_tests()
