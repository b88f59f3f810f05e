"""Tests models in which most layers have a recurrent state: whole answers, stored and shared states, and killed workers."""
import concurrent.futures
import json
import os
import shutil
import signal
import tempfile
import threading
import time
import unittest

import verdict
from server import MODELS, ROOT, TINY, Server


def golden(model):
    with open(os.path.join(ROOT, "tests", "golden", f"tiny_{model}.json")) as f:
        return json.load(f)["cases"]


def copy_with_tokenizer(model, folder):
    """Copies a golden model into the folder, with the tiny model's tokenizer. The tokenizer loses its merges, and the tokens with ids
    that the golden model's vocabulary does not have."""
    for name in os.listdir(os.path.join(MODELS, model)):
        shutil.copy(os.path.join(MODELS, model, name), folder)
    with open(os.path.join(folder, "config.json")) as f:
        size = json.load(f)["vocab_size"]
    with open(os.path.join(TINY, "tokenizer.json")) as f:
        tokenizer = json.load(f)
    tokenizer["model"]["vocab"] = {token: i for token, i in tokenizer["model"]["vocab"].items() if i < size}
    tokenizer["model"]["merges"] = []
    tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["id"] < size]
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump(tokenizer, f)


class Served(Server):
    """Serves a golden model with another model's tokenizer. Prompts and answers are token ids."""

    def __init__(self, model, *flags):
        self.folder = tempfile.TemporaryDirectory()
        copy_with_tokenizer(model, self.folder.name)
        super().__init__("--exact", *flags, model=self.folder.name)  # answers are compared with transformers

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.folder.cleanup()


def body_of(case, **fields):
    return {"prompt": case["prompt"], "max_tokens": len(case["tokens"]), "temperature": 0, "ignore_eos": True, "detokenize": False,
            "return_token_ids": True, **fields}


class HybridsTest(unittest.TestCase):
    def expect(self, server, case, cached=None, **fields):
        status, answer = server.post("/v1/completions", body_of(case, **fields))
        self.assertEqual(status, 200, answer)
        for choice in answer["choices"]:
            self.assertEqual(choice["token_ids"], case["tokens"])
        if cached is not None:
            self.assertEqual(answer["usage"]["prompt_tokens_details"]["cached_tokens"], cached)

    def test_hybrid_answers_equal_transformers_batched_cached_and_with_choices(self):
        for model in ("lfm2", "qwen3next", "granitehybridmoe"):
            with self.subTest(model), Served(model, "-tp", "2", "--num-kv-blocks", "400") as server:
                cases = golden(model)
                with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
                    list(pool.map(lambda case: self.expect(server, case), cases))
                long = max(cases, key=lambda case: len(case["prompt"]))
                server.post("/admin/flush_cache", {}, admin=True)
                self.expect(server, long, cached=0)
                self.expect(server, long, cached=(len(long["prompt"]) - 1) // 16 * 16)
                self.expect(server, long, n=3)
                blocks = server.get("/admin/status", admin=True)["blocks"]
                self.assertGreater(blocks["blocks_per_state"], 0)
                self.assertEqual(blocks["device"]["free"], blocks["device"]["total"])

    def test_hybrid_answers_are_unchanged_when_a_worker_is_killed(self):
        with Served("qwen35", "-tp", "3") as server:
            cases = golden("qwen35")
            threads, failed = [], []

            def run(case):
                try:
                    self.expect(server, case)
                except AssertionError as error:
                    failed.append(error)

            for case in cases:
                threads.append(threading.Thread(target=run, args=(case,)))
                threads[-1].start()
            deadline = time.monotonic() + 60
            while server.get("/admin/status", admin=True)["running"] == 0:
                self.assertLess(time.monotonic(), deadline)
                self.assertTrue(any(thread.is_alive() for thread in threads), "all is done before the blow")
            os.kill(server.worker_pids()[1], signal.SIGKILL)
            for thread in threads:
                thread.join(timeout=120)
                self.assertFalse(thread.is_alive(), "a request hangs")
            self.assertEqual(failed, [])
            self.assertEqual(server.get("/admin/status", admin=True)["recoveries"], 1)


if __name__ == "__main__":
    verdict.run_tests()
