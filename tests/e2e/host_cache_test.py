"""Tests cached blocks on the host (--swap-space): conversations that do not fit into the device pool together find their blocks again.
Their answers stay equal bit for bit on one to three workers, when a worker dies, and when the shape changes. When requests move, their
tokens stay equal. quire explain and replay know such blocks."""
import concurrent.futures
import os
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import verdict
from hybrids_test import Served
from kv_disk_test import ask, cached, prompt_of, said
from server import MODELS, QUIRE, Server

BLOCK, LENGTH = 16, 600
POOL = 64    # blocks on the device: one conversation and a half
SPACE = "0.02"  # GiB on the host of each worker: room for all conversations


def conversations(vocabulary=143):
    return [prompt_of(LENGTH, start, vocabulary) for start in (1, 41, 81)]


def words_of(*flags, host=True):
    return ("--block-size", str(BLOCK), "--threads-per-worker", "1", "--num-kv-blocks", str(POOL), "--max-model-len", "900",
            *(("--swap-space", SPACE) if host else ()), *flags)


def serve(*flags, host=True):
    return Server(*words_of(*flags, host=host), model=os.path.join(MODELS, "gqa"))


def number_of(server, name):
    """Returns the sum of a counter over all replicas."""
    return sum(float(value) for value in re.findall(rf"^{name}{{.*}} (\S+)$", server.get("/metrics", admin=True), re.M))


def found(server):
    return number_of(server, "quire:host_cache_found_blocks_total")


def turns_of(firsts, vocabulary=143):
    """Returns the prompts of the second turns: each conversation's first prompt, the answer to it in `firsts`, and 20 more tokens."""
    return [prompt + first["choices"][0]["token_ids"] + prompt_of(20, 5, vocabulary)
            for prompt, first in zip(conversations(vocabulary), firsts)]


class HostCacheTest(unittest.TestCase):
    def answers(self, server, vocabulary=143):
        """Serves two turns of each conversation, one conversation after another. Returns both turns' answers."""
        firsts = [ask(server, prompt, 32) for prompt in conversations(vocabulary)]
        return firsts, [ask(server, turn) for turn in turns_of(firsts, vocabulary)]

    def check_bits(self, *flags):
        with serve(*flags, host=False) as server:
            right = self.answers(server)
            self.assertEqual(sum(map(cached, right[1][:2])), 0, "the device pool is too small for them")
        with serve(*flags) as server:
            firsts, seconds = self.answers(server)
            for got, wanted in zip([*firsts, *seconds], [*right[0], *right[1]]):
                self.assertEqual(said(got), said(wanted))
            # How many blocks are copied depends on measured times, but each step copies one at least.
            self.assertGreater(min(map(cached, seconds)), 0)
            self.assertGreater(found(server), 0)

    def test_conversations_find_their_blocks_on_the_host_of_one_worker(self):
        self.check_bits("-tp", "1")

    def test_conversations_find_their_blocks_on_the_hosts_of_two_workers(self):
        self.check_bits("-tp", "2")

    def test_conversations_find_their_blocks_on_the_hosts_of_three_workers_with_int8_keys_and_values(self):
        self.check_bits("-tp", "3", "--kv-cache-dtype", "int8")

    def test_conversations_find_their_blocks_on_the_hosts_of_two_stages(self):
        self.check_bits("-pp", "2")

    def test_conversations_with_a_hybrid_find_their_blocks_and_states_on_the_hosts_of_two_workers(self):
        with Served("qwen3next", *words_of("-tp", "2", host=False)) as server:
            right = self.answers(server, 131)
        with Served("qwen3next", *words_of("-tp", "2")) as server:
            for got, wanted in zip(self.answers(server, 131), right):
                self.assertEqual([said(answer) for answer in got], [said(answer) for answer in wanted])
            self.assertGreater(found(server), 0)

    def test_answers_keep_their_bits_when_a_worker_dies_or_the_shape_changes(self):
        with serve("-tp", "2", host=False) as server:
            right = self.answers(server)
        with serve("-tp", "2") as server:
            for trouble in ("nothing", "a worker dies", "the shape changes"):
                with self.subTest(trouble):
                    if trouble == "a worker dies":
                        os.kill(server.worker_pids()[1], signal.SIGKILL)
                    if trouble == "the shape changes":
                        for workers in (1, 2):
                            self.assertEqual(server.post("/admin/reshard", {"tensor": workers}, admin=True)[0], 200)
                    before = found(server)
                    got = self.answers(server)
                    for answers, wanted in zip(got, right):
                        self.assertEqual([said(answer) for answer in answers], [said(answer) for answer in wanted])
                    self.assertGreater(found(server), before)

    def test_answers_keep_their_tokens_while_requests_move_and_a_worker_dies(self):
        with serve("-tp", "1", host=False) as server:
            firsts = [ask(server, prompt, 32) for prompt in conversations()]
            prompts = [*conversations(), *turns_of(firsts)]
            right = [said(ask(server, prompt, 32))[0] for prompt in prompts]
        over, problems = threading.Event(), []

        def client(server, seed):
            choice = random.Random(seed)
            for _ in range(12):
                which = choice.randrange(len(prompts))
                tokens = said(ask(server, prompts[which], 32))[0]
                if tokens != right[which]:
                    problems.append((which, tokens))

        def mover(server):
            choice = random.Random(1)
            while not over.wait(0.02):
                requests = server.get("/admin/requests", admin=True)["requests"]
                if requests:
                    server.post("/admin/migrate", {"request": choice.choice(requests)["id"], "replica": choice.randrange(2)}, admin=True)

        with serve("-tp", "1", "--data-parallel-size", "2") as server, concurrent.futures.ThreadPoolExecutor(5) as pool:
            moving = pool.submit(mover, server)
            clients = [pool.submit(client, server, seed) for seed in range(4)]
            time.sleep(0.5)
            os.kill(server.worker_pids()[0], signal.SIGKILL)
            for each in clients:
                each.result(timeout=120)
            over.set()
            moving.result(timeout=60)
            self.assertEqual(problems, [])
            self.assertGreater(found(server), 0)

    def test_explain_and_replay_know_blocks_that_came_back_from_the_host(self):
        with tempfile.TemporaryDirectory() as folder:
            with serve("--journal", folder) as server:
                name = self.answers(server)[1][0]["id"]
                page = server.get("/metrics", admin=True)
                self.assertRegex(page, r'quire:host_blocks{engine="0",model_name="gqa",state="cached"} [1-9]')
                host = server.get("/admin/status", admin=True)["replicas"][0]["blocks"]["host"]
                self.assertGreater(host["cached"], 0)
                self.assertEqual((host["used"], host["free"]), (0, host["total"]))
            words = subprocess.run([QUIRE, "explain", name, "--journal", folder], capture_output=True, text=True, timeout=60).stdout
            self.assertRegex(words, r"\d cached blocks come back from the host")
            replay = subprocess.run([QUIRE, "replay", "--journal", folder], capture_output=True, text=True, timeout=60).stdout
            self.assertIn("every plan is the same", replay)


if __name__ == "__main__":
    verdict.run_tests()
