"""Tests that request fields and flags take effect: a setting that is lost on the way to the workers, mistaken for another one, or off by
one, would change tokens or numbers."""
import os
import tempfile
import unittest

import verdict
from server import MODELS, Server

LINEAR = os.path.join(MODELS, "linear")  # one token a byte; BOS before every prompt
BOS, END, A, B = 256, 257, 64, 65       # "a" and "b"


def ids(text):
    """Returns the tokens of letters, after BOS."""
    return [BOS] + [A + ord(letter) - ord("a") for letter in text]


class RequestTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "2", model=LINEAR)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def answer(self, **fields):
        status, answer = self.server.post("/v1/completions", {"prompt": "xyz", "max_tokens": 40, "temperature": 0, "ignore_eos": True, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def text(self, a=80, b=50, **fields):
        """Returns a text of "a" and "b" only. Their biases differ by far more than their logits."""
        return self.answer(logit_bias={str(A): a, str(B): b}, **fields)["choices"][0]["text"]

    def test_prompts_begin_with_bos(self):
        self.assertEqual(self.server.post("/tokenize", {"prompt": "xyz"})[1]["tokens"], ids("xyz"))
        fields = {"logprobs": 5, "max_tokens": 4}
        served = self.answer(**fields)
        self.assertEqual(served["usage"]["prompt_tokens"], 4)
        self.assertEqual(served["choices"], self.answer(prompt=ids("xyz"), **fields)["choices"])
        without = self.answer(add_special_tokens=False, **fields)
        self.assertEqual(without["usage"]["prompt_tokens"], 3)
        self.assertEqual(without["choices"], self.answer(prompt=ids("xyz")[1:], **fields)["choices"])
        self.assertNotEqual(without["choices"], served["choices"])

    def test_chat_prompt_has_the_templates_bos_and_no_second_one(self):
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        _, answer = self.server.post("/v1/chat/completions", body)
        self.assertEqual(answer["usage"]["prompt_tokens"], 1 + len("user: hi") + 1 + len("assistant: "))

    def test_tokenize_reads_added_tokens_in_a_prompt(self):
        _, answer = self.server.post("/tokenize", {"prompt": "a<tool>b<|end|>"})
        self.assertEqual(answer["tokens"], [BOS, A, 258, B, END])

    def test_logit_bias_favours_or_forbids_a_token(self):
        self.assertEqual(self.text(), "a" * 40)
        self.assertEqual(self.text(a=-80, b=50), "b" * 40)

    def test_frequency_penalty_adds_up_and_presence_penalty_does_not(self):
        self.assertEqual(self.text(presence_penalty=2), "a" * 40)
        often = self.text(frequency_penalty=2)
        self.assertEqual((often[0], set(often)), ("a", {"a", "b"}))

    def test_repetition_penalty_counts_the_prompts_tokens(self):
        self.assertEqual(self.text(repetition_penalty=4)[:2], "ab")
        self.assertEqual(self.text(repetition_penalty=4, prompt="xa")[:2], "ba")

    def test_strictest_min_p_top_k_and_top_p_leave_only_the_best_token(self):
        greedy = self.answer()["choices"]
        for restriction in ({"min_p": 1}, {"top_k": 1}, {"top_p": 1e-6}):
            self.assertEqual(self.answer(temperature=2, seed=3, **restriction)["choices"], greedy, restriction)
        self.assertNotEqual(self.answer(temperature=2, seed=3)["choices"], greedy)

    def test_end_token_is_drawn_after_exactly_min_tokens(self):
        for count in range(4):
            answer = self.answer(logit_bias={str(A): 60, str(END): 100}, min_tokens=count, ignore_eos=False)
            choice = answer["choices"][0]
            self.assertEqual((choice["text"], choice["finish_reason"]), ("a" * count, "stop"))
            self.assertEqual(answer["usage"]["completion_tokens"], count + 1)

    def test_best_of_chooses_by_logprob_per_token(self):
        told_apart = 0
        for seed in range(6):
            fields = {"temperature": 0.7, "seed": seed, "logprobs": 0, "max_tokens": 25, "stop": list("abcdefghijklmnop")}
            several = self.answer(n=6, **fields)["choices"]
            best = self.answer(n=1, best_of=6, **fields)["choices"][0]
            logprobs = [choice["logprobs"]["token_logprobs"] for choice in several]
            likeliest = max(range(6), key=lambda i: sum(logprobs[i]) / len(logprobs[i]))
            told_apart += likeliest != max(range(6), key=lambda i: sum(logprobs[i]))
            self.assertEqual(best["logprobs"], several[likeliest]["logprobs"], f"seed {seed}")
        self.assertGreater(told_apart, 0)


class FlagsTest(unittest.TestCase):
    """Tests flags that change how workers round or store numbers. They must change the results, but only slightly."""

    def serve(self, *flags, topology=None):
        """Returns (log-probabilities of the first tokens, each rank's report of its memory)."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            if topology:
                file.write(topology)
                file.flush()
                flags = (file.name, *flags)
            with Server("-tp", "2", "--backend", "cpu", *flags, model=LINEAR) as server:
                status, answer = server.post("/v1/completions", {"prompt": "the quick brown fox jumps", "max_tokens": 1, "temperature": 0, "logprobs": 20})
                self.assertEqual(status, 200, answer)
                ranks = server.get("/admin/status", admin=True)["ranks"]
        self.isa = ranks[0]["isa"]
        top = answer["choices"][0]["logprobs"]["top_logprobs"][0]
        return top, [(rank["weight_bytes"], rank["kv_bytes_per_block"]) for rank in ranks]

    def expect_rounded(self, plain, rounded, at_most):
        # The bytes of a multi-byte character all look the same in print.
        letters = [token for token in plain if token in rounded and token.isascii()]
        differences = [abs(plain[token] - rounded[token]) for token in letters]
        self.assertGreater(len(differences), 4)
        self.assertGreater(max(differences), 0)
        self.assertLess(max(differences), at_most)

    def test_quantization_and_activations_reach_the_workers(self):
        plain, plain_ranks = self.serve("--exact")
        int8, int8_ranks = self.serve("--exact", "--quantization", "int8")
        int4, int4_ranks = self.serve("--exact", "--quantization", "int4")
        self.expect_rounded(plain, int8, 1)
        self.expect_rounded(int8, int4, 3)
        for (more, kv), (less, kv8), (least, kv4) in zip(plain_ranks, int8_ranks, int4_ranks):
            self.assertTrue(more > less > least, (more, less, least))
            self.assertEqual({kv, kv8, kv4}, {kv})
        coarse, coarse_ranks = self.serve("--quantization", "int4", "--activations", "int8", "--kv-cache-dtype", "float32")
        self.assertEqual(coarse_ranks, int4_ranks)
        if self.isa == "baseline":  # baseline multiplies 16-bit integers, whatever the flag says
            self.assertEqual(coarse, int4)
        else:
            self.expect_rounded(int4, coarse, 1)

    def test_kv_cache_dtype_reaches_the_workers(self):
        plain, plain_ranks = self.serve("--exact")
        half, half_ranks = self.serve("--kv-cache-dtype", "float16")
        self.assertEqual(self.serve(), (half, half_ranks), "the default for 16-bit weights")
        self.expect_rounded(plain, half, 0.05)
        self.assertEqual([2 * kv for _, kv in half_ranks], [kv for _, kv in plain_ranks])
        eighth, eighth_ranks = self.serve("--kv-cache-dtype", "int8")
        self.expect_rounded(plain, eighth, 0.5)
        self.assertTrue(all(small < large for (_, small), (_, large) in zip(eighth_ranks, half_ranks)))
        file = "cache: {dtype: float16}\n"
        self.assertEqual(self.serve(topology=file), (half, half_ranks))
        self.assertEqual(self.serve("--kv-cache-dtype", "int8", topology=file), (eighth, eighth_ranks), "the flag overrides")


if __name__ == "__main__":
    verdict.run_tests()
