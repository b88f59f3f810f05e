"""Tests, as a client sees it, how KV blocks are shared: parallel samples, beams, the prefix cache, pins and swapping."""
import concurrent.futures
import random
import threading
import time
import unittest

import verdict
from server import TINY, Server

VOCAB = 257
BLOCK = 16


def prompt(length, seed):
    return [random.Random(seed * 1000 + i).randrange(2, VOCAB) for i in range(length)]


def completion(tokens, **fields):
    return {"prompt": tokens, "max_tokens": 8, "temperature": 0, "ignore_eos": True, **fields}


def together(server, bodies):
    """Sends all requests at the same time; returns the answers in order."""
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        answers = list(pool.map(lambda body: server.post("/v1/completions", body), bodies))
    assert all(status == 200 for status, _ in answers), answers
    return [answer for _, answer in answers]


class SharingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "2", "--num-kv-blocks", "400", model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def setUp(self):
        self.server.post("/admin/flush_cache", {}, admin=True)

    def status(self):
        return self.server.get("/admin/status", admin=True)

    def test_eight_choices_share_the_blocks_of_their_prompt(self):
        body = completion(prompt(512, 1), n=8, temperature=1.0, seed=5, max_tokens=200)
        client = threading.Thread(target=self.server.post, args=("/v1/completions", body))
        client.start()
        blocks = {}
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            blocks = self.server.get("/admin/blocks", admin=True)
            shared = [b for b in blocks["blocks"] if b["ref_count"] == 8]
            if shared:
                break
            time.sleep(0.005)
        # 511 tokens are shared: 31 full blocks, and the last block until a choice writes into it.
        self.assertIn(len(shared), (31, 32))
        self.assertEqual({len(b["owners"]) for b in shared}, {8})
        self.assertTrue(all(b["filled"] == BLOCK for b in shared[:31]))
        self.assertEqual(len(set(b["hash"] for b in shared[:31])), 31)
        alone = [b for b in blocks["blocks"] if b["ref_count"] == 1]
        self.assertLessEqual(len(alone), 8 * (200 // BLOCK + 2))
        self.assertEqual(blocks["used"], len(shared) + len(alone))
        client.join()

    def test_sixteen_requests_with_one_prefix_compute_the_prefix_once(self):
        prefix = prompt(512, 2)
        before = self.status()["computed_tokens"]
        answers = together(self.server, [completion(prefix + prompt(16, 10 + i)) for i in range(16)])
        computed = self.status()["computed_tokens"] - before
        # Each choice computes its own 16 tokens and 7 decodes. The last sampled token is not computed.
        self.assertEqual(computed, 512 + 16 * (16 + 7))
        cached = sorted(a["usage"]["prompt_tokens_details"]["cached_tokens"] for a in answers)
        self.assertEqual(cached, [0] + [512] * 15)

    def test_repeated_prompt_is_taken_from_the_prefix_cache(self):
        first = completion(prompt(100, 3), max_tokens=60, logprobs=0)
        answer = together(self.server, [first])[0]
        self.assertEqual(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        again = together(self.server, [first])[0]
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], 96)
        self.assertEqual(again["choices"], answer["choices"])

    def test_prefixes_are_not_shared_across_salts_and_clients(self):
        body = completion(prompt(64, 4))
        cached = []
        for fields, key in (({}, ""), ({"cache_salt": "a"}, ""), ({"cache_salt": "a"}, ""), ({}, "k1"), ({}, "k2"), ({}, "k1")):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            _, answer = self.server.post("/v1/completions", {**body, **fields}, headers=headers)
            cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
        self.assertEqual(cached, [0, 0, 48, 0, 0, 48])

    def test_admin_port_pins_unpins_and_flushes_cached_blocks(self):
        tokens = prompt(64, 5)
        _, answer = self.server.post("/admin/pin", {"prompt": tokens}, admin=True)
        self.assertEqual(answer, {"pin": None, "pinned_tokens": 0})
        together(self.server, [completion(tokens)])
        _, answer = self.server.post("/admin/pin", {"prompt": tokens, "ttl_seconds": 60}, admin=True)
        self.assertEqual(answer["pinned_tokens"], 64)
        blocks = self.server.get("/admin/blocks", admin=True)
        self.assertEqual([b["owners"] for b in blocks["blocks"] if b["ref_count"] > 0], [[{"pin": answer["pin"]}]] * 4)
        pins = self.server.get("/admin/pins", admin=True)["pins"]
        self.assertEqual([(pin["pin"], pin["replica"], pin["blocks"]) for pin in pins], [(answer["pin"], 0, 4)])
        self.assertTrue(0 < pins[0]["seconds_left"] <= 60, pins)
        status, unpinned = self.server.post("/admin/unpin", {"pin": answer["pin"]}, admin=True)
        self.assertEqual((status, unpinned), (200, {"unpinned": True}))
        _, flushed = self.server.post("/admin/flush_cache", {}, admin=True)
        self.assertGreaterEqual(flushed["flushed_blocks"], 4)
        blocks = self.server.get("/admin/blocks", admin=True)
        self.assertEqual((blocks["used"], blocks["cached"], blocks["blocks"]), (0, 0, []))
        self.server.post("/v1/completions", completion(tokens), headers={"Authorization": "Bearer k"})
        _, answer = self.server.post("/admin/pin", {"prompt": tokens, "api_key": "k"}, admin=True)
        self.assertEqual(answer["pinned_tokens"], 64)
        _, flushed = self.server.post("/admin/flush_cache", {}, admin=True)
        self.assertEqual(flushed["dropped_pins"], 1)
        for bad in ({}, {"prompt": 5}, {"prompt": ["x"]}, {"prompt": "x", "ttl_seconds": -1}):
            self.assertEqual(self.server.post("/admin/pin", bad, admin=True)[0], 400, bad)
        self.assertEqual(self.server.post("/admin/unpin", {}, admin=True)[0], 400)

    def test_deadline_ends_a_request_and_frees_its_blocks(self):
        # 1,500 steps take longer than 50 ms on any machine.
        body = completion(prompt(100, 9), max_tokens=1500, deadline_seconds=0.05)
        status, answer = self.server.post("/v1/completions", body)
        self.assertEqual(status, 504, answer)
        self.assertIn("0.05", answer["error"]["message"])
        self.assertEqual(self.server.get("/admin/blocks", admin=True)["used"], 0)

    def test_best_of_returns_the_likeliest_choices(self):
        body = completion(prompt(20, 6), temperature=1.5, seed=3, logprobs=0)
        _, several = self.server.post("/v1/completions", {**body, "n": 6})
        _, best = self.server.post("/v1/completions", {**body, "n": 2, "best_of": 6})
        def mean(choice):
            values = choice["logprobs"]["token_logprobs"]
            return sum(values) / len(values)
        ranked = sorted(several["choices"], key=mean, reverse=True)
        self.assertEqual([c["text"] for c in best["choices"]], [c["text"] for c in ranked[:2]])
        self.assertEqual(best["usage"]["completion_tokens"], 6 * 8)
        self.assertEqual(self.server.post("/v1/completions", {**body, "n": 1, "best_of": 2, "stream": True})[0], 400)

    def test_best_of_ranks_by_mean_logprob_and_not_by_sum(self):
        body = completion(prompt(20, 6), temperature=1.5, seed=1, logprobs=0, max_tokens=60, stop=["a", "e", "t", "s"])
        _, several = self.server.post("/v1/completions", {**body, "n": 12})
        _, best = self.server.post("/v1/completions", {**body, "n": 1, "best_of": 12})
        scores = [choice["logprobs"]["token_logprobs"] for choice in several["choices"]]
        by_mean = max(range(12), key=lambda i: sum(scores[i]) / len(scores[i]))
        by_sum = max(range(12), key=lambda i: sum(scores[i]))
        self.assertNotEqual(by_mean, by_sum, "these choices cannot tell")
        self.assertEqual(best["choices"][0]["text"], several["choices"][by_mean]["text"])

    def test_beams_are_returned_best_first_and_share_blocks(self):
        body = completion(prompt(200, 7), use_beam_search=True, n=4, max_tokens=64, logprobs=0)
        most = {}
        stop = threading.Event()

        def watch():
            while not stop.is_set():
                blocks = self.server.get("/admin/blocks", admin=True)
                table_entries = sum(b["ref_count"] for b in blocks["blocks"])
                if table_entries > most.get("entries", 0):
                    most.update(entries=table_entries, used=blocks["used"])

        watcher = threading.Thread(target=watch)
        watcher.start()
        answer = together(self.server, [body])[0]
        stop.set()
        watcher.join()
        scores = [sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["token_logprobs"]) for c in answer["choices"]]
        self.assertEqual(len(scores), 4)
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual(len({c["text"] for c in answer["choices"]}), 4)
        self.assertLess(most["used"], most["entries"] / 2)
        for bad in ({"n": 21}, {"logit_bias": {"5": 1}}, {"early_stopping": "later"}, {"length_penalty": "x"}):
            self.assertEqual(self.server.post("/v1/completions", {**body, **bad})[0], 400, bad)


class EqualityTest(unittest.TestCase):
    """Tests that answers are equal, whatever the server does to fit requests into its blocks."""

    def answers(self, *flags):
        bodies = []
        for i in range(24):
            body = completion(prompt(20 + 9 * i, i % 5), max_tokens=40 + i, seed=i, logprobs=1)
            if i % 3 == 1:
                body.update(temperature=0.9, n=3)
            if i % 6 == 2:
                body.update(use_beam_search=True, n=3, logprobs=0)
            bodies.append(body)
        with Server("-tp", "2", *flags, model=TINY) as server:
            out = [[(c["text"], c["logprobs"]) for c in answer["choices"]] for answer in together(server, bodies)]
            return out, server.get("/admin/status", admin=True)

    def test_answers_are_equal_with_caching_swapping_and_recomputation(self):
        ample, status = self.answers("--num-kv-blocks", "2000", "--no-enable-prefix-caching")
        self.assertEqual(status["preemptions"], 0)
        cached, status = self.answers("--num-kv-blocks", "2000")
        self.assertGreater(status["cached_tokens"], 0)
        self.assertEqual(cached, ample)
        swapped, status = self.answers("--num-kv-blocks", "100", "--preemption-mode", "swap", "--swap-space", "1")
        self.assertGreater(status["swapped_out"], 0)
        self.assertEqual(swapped, ample)
        recomputed, status = self.answers("--num-kv-blocks", "100", "--preemption-mode", "recompute")
        self.assertGreater(status["preemptions"], 0)
        self.assertEqual(status["swapped_out"], 0)
        self.assertEqual(recomputed, ample)


if __name__ == "__main__":
    verdict.run_tests()
