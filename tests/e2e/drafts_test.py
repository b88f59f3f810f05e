"""Tests speculation as clients see it: every answer is, bit for bit, the one of a server without it, also when a worker is
killed in the middle; and a replay of the journal plans the same drafts."""
import concurrent.futures
import os
import re
import signal
import subprocess
import tempfile
import unittest

import verdict
from server import QUIRE, TINY, Server

REPEATS = [7, 8, 9, 10, 11, 12, 13] * 6
BODIES = [
    {"prompt": REPEATS, "max_tokens": 120, "temperature": 0, "logprobs": 2, "ignore_eos": True},
    {"prompt": REPEATS[:20], "max_tokens": 90, "temperature": 0.6, "seed": 3, "n": 2, "logprobs": 1, "ignore_eos": True},
    {"prompt": list(range(3, 60)), "max_tokens": 90, "temperature": 0, "repetition_penalty": 1.1, "frequency_penalty": 0.2,
     "logprobs": 1, "ignore_eos": True},
    {"prompt": [5] * 30, "max_tokens": 100, "temperature": 0, "stop": ["zz", "b"], "logprobs": 1},
    {"prompt": REPEATS, "max_tokens": 40, "temperature": 0, "min_tokens": 10, "logit_bias": {"9": 3.0}},
    {"prompt": REPEATS, "max_tokens": 20, "temperature": 0, "use_beam_search": True, "n": 2},
    {"prompt": REPEATS, "max_tokens": 60, "temperature": 0, "structured_outputs": {"regex": "(ab|cd){1,20}"}},
    {"prompt": REPEATS, "max_tokens": 30, "temperature": 0, "prompt_logprobs": 1},
    # A choice of few tokens soon repeats itself.
    {"prompt": REPEATS, "max_tokens": 150, "temperature": 0, "allowed_token_ids": [9, 10], "logprobs": 1, "ignore_eos": True},
    {"prompt": REPEATS, "max_tokens": 150, "temperature": 0.4, "seed": 5, "allowed_token_ids": [9, 10, 11], "logprobs": 1,
     "ignore_eos": True},
]


def answers(server, bodies=BODIES):
    def ask(body):
        status, answer = server.post("/v1/completions", body, timeout=120)
        assert status == 200, answer
        return answer["choices"]
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(ask, bodies))


def counts(server):
    """Returns the guesses, their tokens and the right ones, over all replicas."""
    text = server.get("/metrics", admin=True)
    return [sum(float(value) for value in re.findall(rf"vllm:spec_decode_num_{name}_total\{{\S+ (\S+)", text))
            for name in ("drafts", "draft_tokens", "accepted_tokens")]


class DraftsTest(unittest.TestCase):
    def test_answers_keep_their_bits_with_drafts_a_killed_worker_and_a_replay(self):
        with Server("-tp", "2", model=TINY) as plain:
            right = answers(plain)
            self.assertEqual(counts(plain), [0, 0, 0])
        with tempfile.TemporaryDirectory(prefix="quire-drafts-") as journal:
            speculation = '{"method": "ngram", "num_speculative_tokens": 6, "disable_by_batch_size": 16}'
            with Server("-tp", "2", "--speculative-config", speculation, "--journal", os.path.join(journal, "j"), model=TINY) as server:
                for body, got, wanted in zip(BODIES, answers(server), right):
                    self.assertEqual(got, wanted, body)
                drafts, tokens, accepted = counts(server)
                self.assertGreater(accepted, 50, (drafts, tokens))
                self.assertGreaterEqual(tokens, accepted)
                told = server.get("/admin/status", admin=True)["settings"]["speculative_config"]
                self.assertEqual((told["method"], told["num_speculative_tokens"]), ("ngram", 6))
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    again = pool.submit(answers, server)
                    while counts(server)[0] == drafts:
                        pass  # the answers are on their way
                    os.kill(server.worker_pids()[1], signal.SIGKILL)
                    for body, got, wanted in zip(BODIES, again.result(), right):
                        self.assertEqual(got, wanted, body)
                self.assertEqual(server.get("/admin/status", admin=True)["epoch"], 2)
            replay = subprocess.run([QUIRE, "replay", "--journal", os.path.join(journal, "j")], capture_output=True, text=True,
                                    stdin=subprocess.DEVNULL, timeout=120)
            self.assertEqual(replay.returncode, 0, replay)
            self.assertIn("every plan is the same", replay.stdout)


if __name__ == "__main__":
    verdict.run_tests()
