"""Compares log-probabilities of prompts with HF transformers (tests/golden/make_prompt_golden.py): the requests of lm-eval's
local-completions, echo with log-probabilities, and prompt_logprobs."""
import json
import os
import signal
import threading
import time
import unittest

import verdict
from server import MODELS, ROOT, TINY, Server

TOLERANCE = 1e-3
MODEL = os.path.basename(TINY)


def golden(name="prompt_tiny", model=MODEL):
    with open(os.path.join(ROOT, "tests", "golden", name + ".json"), encoding="utf-8") as f:
        return json.load(f)[model]


def lm_eval_body(prompts):
    """Returns the body that lm-eval 0.4's local-completions posts for log-likelihoods, with prompts as token ids."""
    return {"prompt": prompts, "model": MODEL, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True, "temperature": 0}


def lm_eval_reads(answer, context_lengths):
    """Returns lm-eval's reading of the answer: (log-likelihood, whether the continuation is the greedy one) for each prompt. The first
    `context_lengths` tokens of a prompt are context, and the other tokens are the continuation."""
    read = []
    for choice, length in zip(sorted(answer["choices"], key=lambda c: c["index"]), context_lengths):
        tokens = choice["logprobs"]["token_logprobs"][length:-1]
        top = choice["logprobs"]["top_logprobs"][length:-1]
        read.append((sum(tokens), all(own == max(others.values()) for own, others in zip(tokens, top))))
    return read


class ScoresTest(unittest.TestCase):
    def post(self, server, body, path="/v1/completions", want=200):
        status, answer = server.post(path, body)
        self.assertEqual(status, want, answer)
        return answer

    def expect_equal(self, got, want):
        self.assertEqual(len(got), len(want))
        for index, (a, b) in enumerate(zip(got, want)):
            self.assertAlmostEqual(a, b, delta=TOLERANCE, msg=f"token {index}")


class LmEvalTest(ScoresTest):
    def test_log_likelihoods_equal_hf_on_one_to_three_workers(self):
        cases = golden()
        prompts = [case["prompt"] for case in cases]
        contexts = [max(1, len(prompt) // 2) for prompt in prompts]
        for ranks in ("1", "2", "3"):
            with Server("--exact", "-tp", ranks, "--max-num-batched-tokens", "64", "--max-num-seqs", "16", model=TINY) as server:
                first, again = (self.post(server, lm_eval_body(prompts)) for _ in range(2))
                for case, choice in zip(cases, first["choices"]):
                    logprobs = choice["logprobs"]["token_logprobs"]
                    self.assertIsNone(logprobs[0])
                    self.assertIsNone(choice["logprobs"]["top_logprobs"][0])
                    self.expect_equal(logprobs[1:-1], case["logprobs"])
                    self.expect_equal([max(top.values()) for top in choice["logprobs"]["top_logprobs"][1:-1]], case["best"])
                for case, context, (total, greedy) in zip(cases, contexts, lm_eval_reads(first, contexts)):
                    own, best = case["logprobs"][context - 1:], case["best"][context - 1:]
                    self.assertAlmostEqual(total, sum(own), delta=TOLERANCE * max(1, len(own)))
                    self.assertEqual(greedy, own == best)
                # The prompts are in the prefix cache now, but must be computed again, with the same bits.
                self.assertEqual(again["choices"], first["choices"])
                self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_lm_eval_recognises_a_greedy_continuation(self):
        with Server("--exact", "-tp", "2", model=TINY) as server:
            prompt = [5, 6, 7]
            drawn = self.post(server, {"prompt": prompt, "max_tokens": 6, "temperature": 0, "ignore_eos": True, "prompt_logprobs": 0,
                                       "logprobs": 0, "skip_special_tokens": False})["choices"][0]["logprobs"]["token_logprobs"]
            tokens = list(prompt)
            for _ in range(6):  # finds the sampled tokens one by one: each has rank 1 in the prompt's scores
                top = self.post(server, {"prompt": [*tokens, 0], "max_tokens": 0, "prompt_logprobs": 1})["choices"][0]["prompt_logprobs"][-1]
                tokens.append(next(int(token) for token, entry in top.items() if entry["rank"] == 1))
            answer = self.post(server, lm_eval_body([tokens, [*tokens[:-1], tokens[-1] ^ 1]]))
            (total, greedy), (_, other) = lm_eval_reads(answer, [3, 3])
            self.assertEqual((greedy, other), (True, False))
            self.assertAlmostEqual(total, sum(drawn), delta=1e-4)

    def test_text_prompts_are_scored_as_their_tokens(self):
        with Server("--exact", model=TINY) as server:
            ids = self.post(server, lm_eval_body([[5, 6, 7], [64, 65, 66, 67]]))
            texts = self.post(server, lm_eval_body(["&'(", "abcd"]))
            self.assertEqual(texts["choices"], ids["choices"])


class FormsTest(ScoresTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--exact", "-tp", "2", "--max-num-batched-tokens", "48", "--max-num-seqs", "16", model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def ask(self, want=200, **fields):
        return self.post(self.server, {"temperature": 0, "max_tokens": 3, "ignore_eos": True, **fields}, want=want)

    def test_prompt_logprobs_equal_the_logprobs_of_echo_and_have_ranks(self):
        prompt = golden()[4]["prompt"]
        echoed = self.ask(prompt=prompt, echo=True, logprobs=4)["choices"][0]
        answer = self.ask(prompt=prompt, prompt_logprobs=4)["choices"][0]
        self.assertTrue(echoed["text"].endswith(answer["text"]))
        self.assertIsNone(answer["logprobs"])
        listed = answer["prompt_logprobs"]
        self.assertEqual(len(listed), len(prompt))
        self.assertIsNone(listed[0])
        for token, entries, own in zip(prompt[1:], listed[1:], echoed["logprobs"]["token_logprobs"][1:]):
            self.assertEqual(entries[str(token)]["logprob"], own)
            ranks = sorted(entry["rank"] for entry in entries.values())
            self.assertEqual(ranks[:4], [1, 2, 3, 4])
            self.assertEqual(len(ranks), 4 if entries[str(token)]["rank"] <= 4 else 5)
            by_rank = sorted(entries.values(), key=lambda entry: entry["rank"])
            self.assertEqual(by_rank, sorted(by_rank, key=lambda entry: -entry["logprob"]))

    def test_every_choice_and_prompt_has_its_own_scores(self):
        answer = self.ask(prompt=[[5, 6, 7], [9, 8]], n=2, echo=True, logprobs=1, prompt_logprobs=0)["choices"]
        self.assertEqual([len(choice["prompt_logprobs"]) for choice in answer], [3, 3, 2, 2])
        self.assertEqual([len(choice["logprobs"]["tokens"]) for choice in answer], [6, 6, 5, 5])
        self.assertEqual(answer[0]["prompt_logprobs"], answer[1]["prompt_logprobs"])
        self.assertEqual([set(entry) for entry in answer[2]["prompt_logprobs"][1:]], [{"8"}])
        for choice, count in zip(answer, (3, 3, 2, 2)):
            alone = self.ask(prompt=[[5, 6, 7], [9, 8]][choice["index"] // 2], logprobs=1)["choices"][0]
            self.assertEqual(choice["text"][count:], alone["text"])
            self.assertEqual(choice["logprobs"]["token_logprobs"][count:], alone["logprobs"]["token_logprobs"])
            self.assertEqual(choice["logprobs"]["text_offset"][count:], [at + count for at in alone["logprobs"]["text_offset"]])

    def test_max_tokens_0_scores_the_prompt_without_generating(self):
        for fields in ({"echo": True, "logprobs": 2}, {"echo": True}, {"prompt_logprobs": 2}):
            answer = self.ask(prompt=[5, 6, 7], max_tokens=0, **fields)
            longer = self.ask(prompt=[5, 6, 7], max_tokens=1, **fields)["choices"][0]
            choice = answer["choices"][0]
            self.assertEqual((choice["text"], choice["finish_reason"]), ("&'(" if "echo" in fields else "", "length"))
            self.assertEqual((answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]), (3, 0))
            self.assertEqual(choice.get("prompt_logprobs"), longer.get("prompt_logprobs"))
            if choice["logprobs"]:
                self.assertEqual(choice["logprobs"], {name: entries[:3] for name, entries in longer["logprobs"].items()})
        self.assertIn("at least 1", self.ask(want=400, prompt=[5], max_tokens=0)["error"]["message"])

    def test_prompt_of_one_token_has_no_scores(self):
        choice = self.ask(prompt=[5], echo=True, logprobs=1, prompt_logprobs=1, max_tokens=0)["choices"][0]
        self.assertEqual((choice["logprobs"]["token_logprobs"], choice["prompt_logprobs"], choice["text"]), ([None], [None], "&"))

    def test_streams_send_the_prompt_first_and_equal_the_whole_answer(self):
        prompt = [token for token in golden()[6]["prompt"] if token < 94]
        fields = {"prompt": [prompt, [5]], "n": 2, "echo": True, "logprobs": 2, "max_tokens": 3, "temperature": 0, "ignore_eos": True}
        whole = self.post(self.server, fields)["choices"]
        events = self.server.stream("/v1/completions", fields)
        for choice in whole:
            mine = [e["choices"][0] for e in events if e["choices"][0]["index"] == choice["index"]]
            self.assertEqual("".join(part["text"] for part in mine), choice["text"])
            for name, entries in choice["logprobs"].items():
                self.assertEqual([entry for part in mine if part["logprobs"] for entry in part["logprobs"][name]], entries, name)
        error = self.post(self.server, {**fields, "prompt_logprobs": 1, "stream": True}, want=400)["error"]
        self.assertEqual(error["param"], "prompt_logprobs")

    def test_chat_prompt_logprobs_equal_the_logprobs_of_the_rendered_template(self):
        fields = {"prompt_logprobs": 1, "max_tokens": 2, "temperature": 0}
        chat = self.post(self.server, {"messages": [{"role": "user", "content": "hi"}], **fields}, "/v1/chat/completions")
        text = self.post(self.server, {"prompt": "user: hi<|end|>assistant: ", **fields})["choices"][0]
        self.assertEqual(chat["prompt_logprobs"], text["prompt_logprobs"])

    def test_prompt_logprobs_are_equal_with_beams_and_best_of(self):
        plain = self.ask(prompt=[5, 6, 7], prompt_logprobs=1)["choices"][0]["prompt_logprobs"]
        for fields in ({"use_beam_search": True, "n": 2}, {"n": 1, "best_of": 3, "temperature": 1, "seed": 1}):
            answer = self.ask(prompt=[5, 6, 7], prompt_logprobs=1, **fields)
            self.assertEqual({json.dumps(choice["prompt_logprobs"]) for choice in answer["choices"]}, {json.dumps(plain)})

    def test_prompt_logprobs_out_of_range_are_refused(self):
        for value in (21, -1, "1", True):
            self.assertEqual(self.ask(want=400, prompt=[5], prompt_logprobs=value)["error"]["param"], "prompt_logprobs")


class WorkerLossTest(ScoresTest):
    def test_scores_survive_a_killed_worker_to_the_last_bit(self):
        prompt = [(7 * i + i // 11) % 94 for i in range(800)]
        body = {"prompt": [prompt, prompt[5:]], "echo": True, "logprobs": 2, "prompt_logprobs": 3, "max_tokens": 8, "temperature": 0, "ignore_eos": True}
        with Server("--exact", "-tp", "2", "--max-num-batched-tokens", "4", "--max-num-seqs", "4", model=TINY) as server:
            undisturbed = self.post(server, body)["choices"]
            answers = []
            thread = threading.Thread(target=lambda: answers.append(server.post("/v1/completions", body)))
            before = server.get("/admin/status", admin=True)["steps"]
            thread.start()
            while server.get("/admin/status", admin=True)["steps"] < before + 60:
                time.sleep(0.005)
            os.kill(server.worker_pids()[1], signal.SIGKILL)
            thread.join(timeout=100)
            (status, answer), = answers
            self.assertEqual(status, 200, answer)
            self.assertEqual(server.get("/admin/status", admin=True)["recoveries"], 1)
            self.assertEqual(answer["choices"], undisturbed)


if __name__ == "__main__":
    verdict.run_tests()
