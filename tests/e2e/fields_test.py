"""Tests every request field by its effect and by the exact usage. The tiny model has one token per byte; "!" to "~" are tokens 0 to 93.
logit_bias determines its samples, so that expectations are computed and not recorded."""
import codecs
import collections
import json
import math
import os
import re
import tempfile
import threading
import time
import unittest

import model_life_test
import prompt_scores_test
import structured_output_test
import tools_test
import verdict
from server import ROOT, TINY, Server, altered_tiny

PROMPT = [5, 6, 7]
EOS, END = 1, 256  # EOS of the model's configuration; the special token "<|end|>"
A, B, C, D = (ord(c) - 33 for c in "ABCD")
FIRM = 60.0  # a bias that outweighs all logits of the model
ASCII = {str(token): -100 for token in range(94, 257)}
CHAT_PROMPT = "user: hi<|end|>assistant: "  # the template's text for the message "hi"


def only(*tokens, **more):
    """Returns a logit_bias with which only these tokens and the letters in `more` are ever sampled. `more`: an additional bias of each
    letter."""
    extra = {ord(letter) - 33: bias for letter, bias in more.items()}
    return {str(token): FIRM + extra.get(token, 0) for token in [*tokens, *(t for t in extra if t not in tokens)]}


def text_of(tokens):
    return "".join(chr(token + 33) for token in tokens)


class FieldCase(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        # By default, drafts also come from earlier answers, so counts of drafts would depend on the order of the tests.
        cls.server = Server("--threads-per-worker", "1", "--speculative-config", '{"method": "prediction"}', *cls.FLAGS, model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def setUp(self):
        self.server.post("/admin/flush_cache", {}, admin=True)

    def post(self, path, body, want=200):
        status, answer = self.server.post(path, body)
        self.assertEqual(status, want, answer)
        return answer

    def complete(self, want=200, **fields):
        body = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, **fields}
        return self.post("/v1/completions", {name: value for name, value in body.items() if value is not None}, want)

    def chat(self, want=200, **fields):
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8, "temperature": 0, **fields}
        return self.post("/v1/chat/completions", {name: value for name, value in body.items() if value is not None}, want)

    def refused(self, field, path="/v1/completions", **fields):
        """Returns the error message for a request with these fields; the error must name the field."""
        answer = (self.chat if "chat" in path else self.complete)(want=400, **fields)
        self.assertEqual(answer["error"]["param"], field)
        return answer["error"]["message"]

    def events(self, path="/v1/completions", **fields):
        """Returns the parsed events of a stream, without [DONE]."""
        base = {"prompt": PROMPT} if path == "/v1/completions" else {"messages": [{"role": "user", "content": "hi"}]}
        return self.server.stream(path, {**base, "max_tokens": 8, "temperature": 0, **fields})

    def usage(self, answer, prompt, completion, cached=0):
        usage = answer["usage"]
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]), (prompt, completion, prompt + completion))
        self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], cached)

    def ends(self, answer, *expected):
        """Compares text and finish_reason of every choice."""
        self.assertEqual([(choice["text"], choice["finish_reason"]) for choice in answer["choices"]], list(expected))

    def sample(self, name, **labels):
        """Returns a value of /metrics."""
        for line in self.server.get("/metrics", admin=True).splitlines():
            found = re.fullmatch(re.escape(name) + r"\{(.*)\} (\S+)", line)
            if found and all(f'{key}="{value}"' in found[1] for key, value in labels.items()):
                return float(found[2])
        raise AssertionError(f"no {name} with {labels}")

    def raw_logprobs(self, prompt, tokens):
        """Returns the model's own log-probabilities of these tokens after the prompt."""
        out = {}
        for token in tokens:
            answer = self.complete(prompt=prompt, max_tokens=1, logprobs=0, logit_bias={str(token): 100}, ignore_eos=True)
            out[token] = answer["choices"][0]["logprobs"]["token_logprobs"][0]
        return out

    def reference(self, tokens, bias, steps, presence=0.0, frequency=0.0):
        """Returns the result of greedy decoding among `tokens`, computed step by step from the model's own log-probabilities."""
        drawn = []
        for _ in range(steps):
            raw = self.raw_logprobs(PROMPT + drawn, tokens)
            value = {t: raw[t] + bias.get(str(t), 0) - presence * (t in drawn) - frequency * drawn.count(t) for t in tokens}
            drawn.append(max(tokens, key=value.get))
        return text_of(drawn)

    def shares(self, probabilities):
        """Returns a logit_bias with which these tokens have these probabilities ({token: probability}) as the first token of an answer."""
        raw = self.raw_logprobs(PROMPT, probabilities)
        return {str(token): FIRM + math.log(p) - raw[token] for token, p in probabilities.items()}

    def draws(self, probabilities, count=128, **fields):
        """Samples `count` times with these probabilities, and returns how often each letter came first."""
        bias = self.shares(probabilities)
        answer = self.complete(n=count, max_tokens=1, temperature=fields.pop("temperature", 1), seed=11, logit_bias=bias, ignore_eos=True, **fields)
        return collections.Counter(choice["text"] for choice in answer["choices"])


class CompletionTest(FieldCase):
    def test_usage_counts_the_tokens_of_every_form_of_prompt(self):
        one = self.complete(prompt="&'(", logit_bias=ASCII, ignore_eos=True)
        self.assertEqual(one["choices"][0]["text"], self.complete(prompt=[5, 6, 7], logit_bias=ASCII, ignore_eos=True)["choices"][0]["text"])
        self.usage(one, 3, 8)
        self.usage(self.complete(prompt=["&'(", "&'"], ignore_eos=True), 5, 16)
        self.usage(self.complete(prompt=[[5, 6, 7], [5], [9, 9]], ignore_eos=True), 6, 24)

    def test_max_tokens_sets_the_length_with_a_default_of_16(self):
        for asked, length in ((1, 1), (5, 5), (None, 16)):
            answer = self.complete(max_tokens=asked, logit_bias=only(A))
            self.ends(answer, ("A" * length, "length"))
            self.usage(answer, 3, length)

    def test_max_completion_tokens_overrides_max_tokens(self):
        self.usage(self.complete(max_completion_tokens=3, max_tokens=6, ignore_eos=True), 3, 3)
        self.usage(self.chat(max_completion_tokens=3, max_tokens=6, ignore_eos=True), 20, 3)

    def test_request_for_a_model_that_is_not_served_is_refused(self):
        self.assertEqual(self.complete(model="gqa")["model"], "gqa")
        self.assertEqual(self.complete(want=404, model="gqa2")["error"]["param"], "model")

    def test_usage_counts_all_n_choices_and_their_prompt_once(self):
        prompt = [9] * 40  # the prompt fills two blocks
        self.usage(self.complete(prompt=prompt, logit_bias=only(A)), 40, 8, cached=0)
        self.usage(self.complete(prompt=prompt, logit_bias=only(A)), 40, 8, cached=32)
        answer = self.complete(prompt=prompt, n=3, logit_bias=only(A))
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2])
        self.usage(answer, 40, 24, cached=32)
        self.usage(self.complete(prompt=[prompt, prompt], n=3, logit_bias=only(A)), 80, 48, cached=64)
        events = self.events(prompt=prompt, n=3, logit_bias=only(A), stream_options={"include_usage": True})
        self.usage(events[-1], 40, 24, cached=32)

    def test_best_of_returns_the_likeliest_choices_and_counts_dropped_choices(self):
        ask = {"temperature": 1.5, "seed": 3, "ignore_eos": True, "logprobs": 0}
        all_five = self.complete(n=5, **ask)["choices"]
        answer = self.complete(n=2, best_of=5, **ask)
        likeliest = sorted(all_five, key=lambda choice: -sum(choice["logprobs"]["token_logprobs"]))
        self.assertEqual([choice["text"] for choice in answer["choices"]], [choice["text"] for choice in likeliest[:2]])
        self.usage(answer, 3, 40)
        self.refused("best_of", n=3, best_of=2)
        self.assertIn("streamed", self.refused("best_of", n=1, best_of=2, stream=True))

    def test_eos_ends_the_text_and_counts_as_a_token(self):
        answer = self.complete(logit_bias=only(EOS))
        self.ends(answer, ("", "stop"))
        self.usage(answer, 3, 1)

    def test_ignore_eos_turns_eos_into_text(self):
        answer = self.complete(logit_bias=only(EOS), ignore_eos=True, max_tokens=3)
        self.ends(answer, ('"""', "length"))
        self.usage(answer, 3, 3)

    def test_eos_and_stop_tokens_are_not_drawn_before_min_tokens(self):
        bias = {str(EOS): 100, str(B): 90, str(A): FIRM}
        for least in (0, 1, 3):
            answer = self.complete(min_tokens=least, logit_bias=bias, stop_token_ids=[B])
            self.ends(answer, ("A" * least, "stop"))
            self.usage(answer, 3, least + 1)
        self.ends(self.complete(min_tokens=2, logit_bias={str(EOS): 100}, ignore_eos=True, max_tokens=3), ('"""', "length"))

    def test_stop_token_ids_end_the_text_and_count_as_tokens(self):
        answer = self.complete(logit_bias=only(B), stop_token_ids=[A, B])
        self.ends(answer, ("", "stop"))
        self.usage(answer, 3, 1)
        self.ends(self.complete(logit_bias=only(B), stop_token_ids=[A], max_tokens=2), ("BB", "length"))

    def test_stop_strings_cut_the_text_where_they_begin(self):
        free = self.complete(logit_bias=ASCII, ignore_eos=True, max_tokens=30)["choices"][0]["text"]
        stop = free[9:13]
        at = free.index(stop)
        for wanted in (stop, [stop], ["never there", stop]):
            answer = self.complete(logit_bias=ASCII, ignore_eos=True, max_tokens=30, stop=wanted)
            self.ends(answer, (free[:at], "stop"))
            self.usage(answer, 3, at + 4)
        events = self.events(logit_bias=ASCII, ignore_eos=True, max_tokens=30, stop=stop, stream_options={"include_usage": True})
        self.assertEqual("".join(e["choices"][0]["text"] for e in events[:-1]), free[:at])
        self.usage(events[-1], 3, at + 4)

    def test_include_stop_str_in_output_keeps_the_stop_string(self):
        free = self.complete(logit_bias=ASCII, ignore_eos=True, max_tokens=30)["choices"][0]["text"]
        stop = free[9:13]
        answer = self.complete(logit_bias=ASCII, ignore_eos=True, max_tokens=30, stop=stop, include_stop_str_in_output=True)
        end = free.index(stop) + 4
        self.ends(answer, (free[:end], "stop"))
        self.usage(answer, 3, end)

    def test_skip_special_tokens_hides_special_tokens_but_counts_them(self):
        for skip, text in ((None, ""), (True, ""), (False, "<|end|><|end|>")):
            answer = self.complete(logit_bias={str(END): 100}, max_tokens=2, skip_special_tokens=skip)
            self.ends(answer, (text, "length"))
            self.usage(answer, 3, 2)

    def test_only_allowed_token_ids_are_drawn(self):
        answer = self.complete(allowed_token_ids=[A, B, C], temperature=3, seed=5, n=8, ignore_eos=True)
        self.assertLessEqual(set("".join(choice["text"] for choice in answer["choices"])), set("ABC"))
        self.ends(self.complete(allowed_token_ids=[B], logit_bias=only(A)), ("B" * 8, "length"))
        self.ends(self.complete(allowed_token_ids=[A, EOS], logit_bias={str(EOS): 50}, min_tokens=3), ("AAA", "stop"))
        self.assertIn("nothing to draw", self.refused("allowed_token_ids", allowed_token_ids=[EOS], min_tokens=3))
        self.assertIn("nothing to draw", self.refused("allowed_token_ids", allowed_token_ids=[A], bad_words=["A"]))
        for bad in ([257], [-1], "A", list(range(100)) * 11):
            self.refused("allowed_token_ids", allowed_token_ids=bad)

    def test_bad_words_never_appear_in_the_text(self):
        bias = only(A=20, B=0, C=-20)
        self.ends(self.complete(logit_bias=bias, bad_words=["A"]), ("B" * 8, "length"))
        self.ends(self.complete(logit_bias=bias, bad_words="A"), ("B" * 8, "length"))
        self.ends(self.complete(logit_bias=bias, bad_words=["AAA"]), ("AABAABAA", "length"))
        self.ends(self.complete(logit_bias=bias, bad_words=["AAA", "B"]), ("AACAACAA", "length"))
        # the prompt's tokens do not count
        self.ends(self.complete(prompt="AA", logit_bias=bias, bad_words=["AAA"], max_tokens=3), ("AAB", "length"))
        self.refused("bad_words", bad_words=["  "])
        self.refused("bad_words", bad_words=["a" * 200] * 6)

    def test_truncate_prompt_tokens_keeps_the_last_tokens(self):
        whole = self.complete(prompt=[6, 7], ignore_eos=True)["choices"]
        for prompt in ([5, 6, 7], "&'("):
            answer = self.complete(prompt=prompt, truncate_prompt_tokens=2, ignore_eos=True)
            self.usage(answer, 2, 8)
            self.assertEqual(answer["choices"], whole)
        self.usage(self.complete(prompt=[5, 6, 7], truncate_prompt_tokens=9, ignore_eos=True), 3, 8)
        self.complete(prompt=[5] * 5000, want=400)
        self.usage(self.complete(prompt=[5] * 5000, truncate_prompt_tokens=-1, ignore_eos=True), 2048 - 8, 8)
        self.usage(self.complete(prompt="'" * 5000, truncate_prompt_tokens=-1, ignore_eos=True), 2048 - 8, 8)
        for bad in (0, -2, 1.5):
            self.refused("truncate_prompt_tokens", truncate_prompt_tokens=bad)

    def test_return_token_ids_lists_prompt_and_answer(self):
        choices = self.complete(prompt=[[5, 6, 7], [5]], n=2, logit_bias=only(A), max_tokens=2, return_token_ids=True)["choices"]
        self.assertEqual([choice["prompt_token_ids"] for choice in choices], [[5, 6, 7]] * 2 + [[5]] * 2)
        self.assertEqual([choice["token_ids"] for choice in choices], [[A, A]] * 4)
        self.assertEqual([choice["logprobs"] for choice in choices], [None] * 4)
        first, *others = self.events(n=1, logit_bias=only(A), max_tokens=2, return_token_ids=True)
        self.assertEqual(first["choices"][0]["prompt_token_ids"], PROMPT)
        self.assertEqual([token for e in others for token in e["choices"][0]["token_ids"]], [A, A])
        chat = self.chat(logit_bias=only(A), max_tokens=2, return_token_ids=True)
        self.assertEqual((len(chat["prompt_token_ids"]), chat["choices"][0]["token_ids"]), (20, [A, A]))
        self.assertNotIn("token_ids", self.complete(logit_bias=only(A))["choices"][0])

    def test_detokenize_false_leaves_the_text_out(self):
        ask = {"logit_bias": only(A), "max_tokens": 3, "detokenize": False}
        choice = self.complete(return_token_ids=True, **ask)["choices"][0]
        self.assertEqual((choice["text"], choice["token_ids"], choice["finish_reason"]), ("", [A, A, A], "length"))
        self.usage(self.complete(**ask), 3, 3)
        first, *others = self.events(return_token_ids=True, **ask)
        self.assertEqual([token for e in others for token in e["choices"][0]["token_ids"]], [A, A, A])
        self.assertEqual("".join(e["choices"][0]["text"] for e in (first, *others)), "")
        self.assertLess(max(len(e["choices"][0]["token_ids"]) for e in others), 3)  # tokens are sent as soon as they are sampled
        chat = self.chat(return_token_ids=True, **ask)["choices"][0]
        self.assertEqual((chat["message"]["content"], chat["token_ids"]), ("", [A, A, A]))
        self.refused("stop", stop="x", **ask)
        self.refused("echo", echo=True, **ask)
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        self.assertEqual(self.chat(400, tools=[tool], detokenize=False)["error"]["param"], "tools")

    def test_return_tokens_as_token_ids_names_tokens_by_id_in_logprobs(self):
        plain = self.complete(logprobs=2, max_tokens=2)["choices"][0]["logprobs"]
        named = self.complete(logprobs=2, max_tokens=2, return_tokens_as_token_ids=True, return_token_ids=True)["choices"][0]
        self.assertEqual(named["logprobs"]["tokens"], [f"token_id:{token}" for token in named["token_ids"]])
        self.assertEqual(named["logprobs"]["token_logprobs"], plain["token_logprobs"])
        for top, other in zip(named["logprobs"]["top_logprobs"], plain["top_logprobs"], strict=True):
            self.assertEqual(sorted(top.values()), sorted(other.values()))
        chat = self.chat(logprobs=True, top_logprobs=1, max_tokens=1, return_tokens_as_token_ids=True)["choices"][0]["logprobs"]["content"][0]
        self.assertRegex(chat["token"], r"^token_id:\d+$")
        self.assertEqual(chat["top_logprobs"][0]["token"], chat["token"])

    def test_logprobs_name_parts_of_characters_by_their_bytes(self):
        """Tokens 94 to 255 are single bytes. Alternatives with the same text must all stay."""
        ask = {"logprobs": 20, "max_tokens": 1}
        top = self.complete(**ask)["choices"][0]["logprobs"]["top_logprobs"][0]
        self.assertEqual(len(top), 20)
        parts = [name for name in top if name.startswith("bytes:")]
        self.assertTrue(parts)
        for name in parts:
            self.assertRegex(name, r"^bytes:(\\x[0-9a-f]{2})+$")
        self.assertFalse(any("\ufffd" in name for name in top))

    def test_text_ends_before_a_character_that_is_cut(self):
        part = next(token for token in range(94, 256)
                    if len(self.post("/detokenize", {"tokens": [token]})["prompt"].encode()) == 3 and self.leads(token))
        self.ends(self.complete(logit_bias=only(part), max_tokens=1), ("", "length"))
        events = self.events(logit_bias=only(part), max_tokens=1)
        self.assertEqual("".join(e["choices"][0]["text"] for e in events), "")

    def leads(self, token):
        """Returns whether the token is a byte that begins a character of several bytes."""
        name = self.complete(logit_bias=only(token), max_tokens=1, logprobs=0)["choices"][0]["logprobs"]["tokens"][0]
        return name.startswith("bytes:") and 0xC2 <= int(name[-2:], 16) <= 0xF4

    def test_stop_strings_count_after_min_tokens(self):
        self.ends(self.complete(logit_bias=only(A), stop="A", min_tokens=3), ("AAA", "stop"))
        self.ends(self.complete(logit_bias=only(A), stop="AA", min_tokens=3, include_stop_str_in_output=True), ("AAAAA", "stop"))

    def test_integer_fields_accept_floats_without_a_fraction(self):
        self.usage(self.complete(max_tokens=5.0, n=2.0, prompt=[5.0, 6], logit_bias=only(A)), 2, 10)
        self.refused("max_tokens", max_tokens=5.5)

    def test_server_accepts_a_trailing_slash_and_a_posted_ping(self):
        self.assertEqual(self.post("/v1/completions/", {"prompt": [5], "max_tokens": 1})["usage"]["prompt_tokens"], 1)
        self.assertEqual(self.server.get("/v1/models/")["object"], "list")
        self.assertEqual(self.post("/ping", {}), {})

    def test_echo_puts_the_prompt_before_the_text(self):
        answer = self.complete(prompt="&'(", echo=True, logit_bias=only(A), n=2, max_tokens=3)
        self.ends(answer, ("&'(AAA", "length"), ("&'(AAA", "length"))
        self.usage(answer, 3, 6)
        events = self.events(prompt="&'(", echo=True, logit_bias=only(A), max_tokens=3)
        self.assertEqual("".join(e["choices"][0]["text"] for e in events), "&'(AAA")
        self.ends(self.complete(prompt=[[5], [6, 7]], echo=True, logit_bias=only(A), max_tokens=1), ("&A", "length"), ("'(A", "length"))
        logprobs = self.complete(prompt="&'(", echo=True, logprobs=1, logit_bias=only(A), max_tokens=1)["choices"][0]["logprobs"]
        self.assertEqual((logprobs["tokens"], logprobs["text_offset"]), (["&", "'", "(", "A"], [0, 1, 2, 3]))

    def test_temperature_0_takes_the_likeliest_token(self):
        logprobs = self.complete(logprobs=1, ignore_eos=True, max_tokens=20)["choices"][0]["logprobs"]
        for chosen, top in zip(logprobs["token_logprobs"], logprobs["top_logprobs"]):
            self.assertEqual([chosen], list(top.values()))

    def test_temperature_flattens_and_sharpens_the_distribution(self):
        quarters = {A: 0.5, B: 0.3, C: 0.15, D: 0.05}
        plain, flat, sharp = (self.draws(quarters, temperature=t, top_p=1) for t in (1, 4, 0.2))  # top_p 1: the default 0.95 could exclude D
        # Expected counts in 128 samples at temperatures 1, 4 and 0.2: D is sampled 6, 20 and 0 times, A 64, 41 and 119
        # times.
        self.assertEqual(set(plain), set("ABCD"))
        self.assertGreater(flat["D"], 11)
        self.assertLess(plain["D"], 12)
        self.assertGreater(sharp["A"], 100)
        self.assertLess(plain["A"], 85)

    def test_top_k_keeps_the_k_likeliest_tokens(self):
        quarters = {A: 0.4, B: 0.3, C: 0.2, D: 0.1}
        for k, letters in ((1, "A"), (2, "AB"), (3, "ABC"), (0, "ABCD"), (-1, "ABCD")):
            self.assertEqual(set(self.draws(quarters, top_k=k)), set(letters), k)

    def test_top_p_keeps_the_fewest_tokens_that_reach_p(self):
        quarters = {A: 0.4, B: 0.3, C: 0.2, D: 0.1}
        for p, letters in ((0.1, "A"), (0.39, "A"), (0.41, "AB"), (0.69, "AB"), (0.71, "ABC"), (0.91, "ABCD"), (1, "ABCD")):
            self.assertEqual(set(self.draws(quarters, top_p=p)), set(letters), p)

    def test_min_p_keeps_tokens_with_that_fraction_of_the_best(self):
        quarters = {A: 0.4, B: 0.3, C: 0.2, D: 0.1}
        for p, letters in ((0, "ABCD"), (0.24, "ABCD"), (0.26, "ABC"), (0.49, "ABC"), (0.51, "AB"), (0.76, "A"), (1, "A")):
            self.assertEqual(set(self.draws(quarters, min_p=p)), set(letters), p)

    def test_seed_makes_draws_repeatable(self):
        def texts(**fields):
            return [c["text"] for c in self.complete(temperature=1, n=2, ignore_eos=True, **fields)["choices"]]
        self.assertEqual(texts(seed=7), texts(seed=7))
        self.assertEqual(texts(seed=-7), texts(seed=-7))
        self.assertEqual(len({*texts(seed=7), *texts(seed=8), *texts(seed=-7), *texts(), *texts()}), 10)

    def test_logit_bias_raises_and_lowers_a_token(self):
        raw = self.raw_logprobs(PROMPT, [A, B])
        lead = raw[A] - raw[B]  # difference of the logits of A and B
        for bias, letter in ((lead + 0.5, "B"), (lead - 0.5, "A")):
            self.assertEqual(self.complete(max_tokens=1, logit_bias=only(A, B=bias))["choices"][0]["text"], letter)
        for bias, letter in ((-lead - 0.5, "B"), (-lead + 0.5, "A")):
            self.assertEqual(self.complete(max_tokens=1, logit_bias=only(B, A=bias))["choices"][0]["text"], letter)

    def test_presence_penalty_applies_once_per_token(self):
        bias = only(A, B, A=1.5)
        for penalty in (0, 1.7, -2):
            text = self.complete(logit_bias=bias, max_tokens=12, presence_penalty=penalty)["choices"][0]["text"]
            self.assertEqual(text, self.reference([A, B], bias, 12, presence=penalty), penalty)
        steep = self.complete(logit_bias=only(A, A=30, B=0), max_tokens=40, presence_penalty=2)
        self.ends(steep, ("A" * 40, "length"))

    def test_frequency_penalty_applies_at_every_occurrence(self):
        bias = only(A, B, A=1.5)
        for penalty in (0.7, 2, -0.4):
            text = self.complete(logit_bias=bias, max_tokens=12, frequency_penalty=penalty)["choices"][0]["text"]
            self.assertEqual(text, self.reference([A, B], bias, 12, frequency=penalty), penalty)
        steep = self.complete(logit_bias=only(A, A=30, B=0), max_tokens=40, frequency_penalty=2)["choices"][0]["text"]
        self.assertIn("B", steep)

    def test_repetition_penalty_applies_to_tokens_of_prompt_and_text(self):
        # The letters A and B have logits far above 0. The penalty makes a letter of the prompt rare, and also a letter
        # that was sampled.
        bias = only(A, B, C, A=20, B=12, C=-12)
        self.ends(self.complete(prompt=[9, A], logit_bias=bias, max_tokens=3), ("AAA", "length"))
        self.ends(self.complete(prompt=[9, 9], logit_bias=bias, max_tokens=3, repetition_penalty=2), ("ABC", "length"))
        self.ends(self.complete(prompt=[9, A], logit_bias=bias, max_tokens=2, repetition_penalty=2), ("BC", "length"))
        for penalty in ({"presence_penalty": 2}, {"frequency_penalty": 2}):  # these penalties count only the answer's text
            self.ends(self.complete(prompt=[A] * 9, logit_bias=bias, max_tokens=2, **penalty), ("AA", "length"))

    def test_logprobs_are_the_models_own_and_have_text_offsets(self):
        for count in (0, 1, 20):
            ask = {"logit_bias": ASCII, "ignore_eos": True}
            logprobs = self.complete(prompt=CHAT_PROMPT, logprobs=count, **ask)["choices"][0]["logprobs"]
            self.assertEqual(logprobs["text_offset"], list(range(8)))
            for index, token in enumerate(self.chat(logprobs=True, top_logprobs=count, **ask)["choices"][0]["logprobs"]["content"]):
                self.assertEqual((logprobs["tokens"][index], logprobs["token_logprobs"][index]), (token["token"], token["logprob"]))
                self.assertEqual(sorted(logprobs["top_logprobs"][index].values()), sorted(top["logprob"] for top in token["top_logprobs"]))
                self.assertEqual(len(token["top_logprobs"]), count)
        self.assertIsNone(self.complete()["choices"][0]["logprobs"])
        forced = self.complete(logit_bias=only(B), max_tokens=1, logprobs=2, temperature=0.5, top_k=1)["choices"][0]["logprobs"]
        free = self.complete(max_tokens=1, logprobs=2)["choices"][0]["logprobs"]
        self.assertEqual(forced["top_logprobs"], free["top_logprobs"])
        self.assertLess(forced["token_logprobs"][0], free["token_logprobs"][0])

    def test_text_offset_counts_characters_whole_and_streamed(self):
        """The chat's answer to the same prompt has the bytes of every token. The offset of a token is the number of characters that were
        readable before it."""
        ask = {"max_tokens": 60, "ignore_eos": True, "skip_special_tokens": False, "stop": ["\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"]}
        chat = self.chat(logprobs=True, **ask)["choices"][0]
        decoder, offsets, length = codecs.getincrementaldecoder("utf-8")("replace"), [], 0
        for token in chat["logprobs"]["content"]:
            offsets.append(length)
            length += len(decoder.decode(bytes(token["bytes"])))
        self.assertNotEqual(offsets, list(range(len(offsets))), "some tokens are no characters")
        whole = self.complete(prompt=CHAT_PROMPT, logprobs=0, **ask)["choices"][0]
        self.assertEqual(whole["text"], chat["message"]["content"])
        self.assertEqual(whole["logprobs"]["text_offset"], offsets)
        events = self.events(prompt=CHAT_PROMPT, logprobs=0, **ask)
        streamed = [offset for e in events if e["choices"][0]["logprobs"] for offset in e["choices"][0]["logprobs"]["text_offset"]]
        self.assertEqual(streamed, offsets)

    def test_cache_salt_separates_cached_prefixes(self):
        prompt = [8] * 40
        for salt, cached in (("a", 0), ("a", 32), ("b", 0), (None, 0), (None, 32), ("", 32), ("b", 32)):
            self.usage(self.complete(prompt=prompt, cache_salt=salt, logit_bias=only(A)), 40, 8, cached)

    def test_deadline_seconds_ends_a_request_with_504(self):
        self.server.post("/admin/pause", {}, admin=True)
        try:
            answer = self.complete(want=504, deadline_seconds=0.125)
        finally:
            self.server.post("/admin/resume", {}, admin=True)
        self.assertIn("0.125", answer["error"]["message"])
        self.complete(deadline_seconds=600)

    def test_stream_equals_the_whole_answer(self):
        fields = {"n": 2, "temperature": 1, "seed": 4, "ignore_eos": True, "logit_bias": ASCII}
        whole, events = self.complete(**fields), self.events(**fields)
        for choice in whole["choices"]:
            mine = [e["choices"][0] for e in events if e["choices"][0]["index"] == choice["index"]]
            self.assertEqual("".join(c["text"] for c in mine), choice["text"])
            self.assertEqual([c["finish_reason"] for c in mine], [None] * (len(mine) - 1) + ["length"])
        self.assertTrue(all("usage" not in e for e in events))
        self.assertEqual({(e["object"], e["id"]) for e in events}, {("text_completion", events[0]["id"])})

    def test_stream_options_add_usage(self):
        *chunks, last = self.events(logit_bias=only(A), stream_options={"include_usage": True})
        self.assertEqual({json.dumps(e["usage"]) for e in chunks}, {"null"})
        self.assertEqual(last["choices"], [])
        self.usage(last, 3, 8)
        fields = {"logit_bias": only(A), "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        *chunks, last = self.events(**fields)
        written = 0
        for e in chunks:
            written += len(e["choices"][0]["text"])
            self.usage(e, 3, written)
        self.usage(last, 3, 8)
        self.refused("stream_options", stream_options={"include_usage": True})

    def test_prediction_gives_the_same_answer_in_fewer_steps_and_is_counted(self):
        fields = {"logit_bias": ASCII, "max_tokens": 40, "ignore_eos": True, "logprobs": 1}
        steps = lambda: self.server.get("/admin/status", admin=True)["steps"]
        drafts = lambda answer: tuple(answer["usage"]["completion_tokens_details"][f"{kind}_prediction_tokens"] for kind in ("accepted", "rejected"))
        before = steps()
        plain = self.complete(**fields)
        alone = steps() - before
        text = plain["choices"][0]["text"]
        self.assertEqual(drafts(plain), (0, 0))

        def until(enough, ask, content, **given):
            """Sends requests with the fields `given` and the prediction `content` until `enough` returns True for the numbers of accepted
            and
            rejected tokens. A server makes fewer drafts where its steps take unsteady times, so one answer may have few drafts."""
            for _ in range(20):
                answer = ask(prediction={"type": "content", "content": content}, **given)
                if enough(*drafts(answer[-1] if isinstance(answer, list) else answer)):
                    return answer
            self.fail(f"too few guesses in 20 answers: {drafts(answer)}")

        def predicted(content, enough):
            answer = until(enough, self.complete, content, **fields)
            self.assertEqual(answer["choices"], plain["choices"])
            return answer
        before = [steps()]
        predicted(text + " and more", lambda accepted, rejected: before.append(steps()) or before[-1] - before[-2] < alone / 2)
        accepted, rejected = drafts(predicted(text + " and more", lambda accepted, rejected: accepted >= 25))
        self.assertTrue(accepted <= 39 and rejected <= 2, (accepted, rejected))
        # The prediction is a list of parts. The answer leaves the prediction and comes back to it.
        parts = [{"type": "text", "text": text[:10]}, {"type": "text", "text": "!?" + text[11:]}]
        predicted(parts, lambda accepted, rejected: accepted > 15 and rejected > 0)
        wrong = predicted("~" * 40, lambda accepted, rejected: True)
        self.assertEqual(drafts(wrong)[0], 0)
        # Right draft tokens after the answer's end do not belong to the answer.
        stopped = until(lambda accepted, rejected: accepted > 0, self.complete, text, stop=text[20:24], **fields)
        end = text.index(text[20:24])
        self.assertEqual(stopped["choices"][0]["text"], text[:end])
        self.assertLessEqual(drafts(stopped)[0], stopped["usage"]["completion_tokens"])
        self.assertEqual(stopped["usage"]["completion_tokens"], end + 4)
        two = until(lambda accepted, rejected: accepted > 50, self.complete, text, n=2, **fields)
        self.assertEqual([choice["text"] for choice in two["choices"]], [text, text])
        events = until(lambda accepted, rejected: accepted > 25, self.events, text, stream=True, stream_options={"include_usage": True}, **fields)
        self.assertEqual("".join(event["choices"][0]["text"] for event in events[:-1]), text)
        chat = {"logit_bias": ASCII, "max_tokens": 30, "ignore_eos": True}
        said = self.chat(**chat)["choices"][0]["message"]["content"]
        again = until(lambda accepted, rejected: accepted > 15, self.chat, said, **chat)
        self.assertEqual(again["choices"][0]["message"]["content"], said)
        for value in ("x", {}, {"type": "content"}, {"type": "text", "content": "x"}, {"type": "content", "content": 5}, {"type": "content", "content": ["x"]},
                      {"type": "content", "content": [{"type": "image_url", "image_url": {}}]}, {"type": "content", "content": "x", "more": 1}):
            self.assertIn('must be {"type": "content"', self.refused("prediction", prediction=value))
        self.assertEqual(self.complete(prediction={"type": "content", "content": ""}, **fields)["choices"], plain["choices"])

    def test_fields_that_do_not_change_the_answer_are_accepted(self):
        plain = self.complete(logit_bias=ASCII)["choices"]
        with open(os.path.join(ROOT, "docs", "fields.md"), encoding="utf-8") as f:
            passed = re.findall(r"`(\w+)`", f.read().split("\n# ")[0].split("## Passed over")[1])
        off = ({"mm_processor_kwargs": {}}, {"separate_reasoning": True}, {"return_hidden_states": False}, {"timings_per_token": False},
               {"reasoning_format": "auto"}, {"think": False}, {"safe_prompt": False}, {"do_sample": True}, {"options": {}}, {"num_beams": 1},
               {"guided_decoding_backend": "xgrammar:no-fallback"}, {"extra_body": {}}, {"models": []})
        for fields in (*({name: "x"} for name in passed), *off, {"metadata": {"a": 1}}, {"suffix": ""}, {"tool_choice": "none"}, {"tools": []}):
            self.assertEqual(self.complete(logit_bias=ASCII, **fields)["choices"], plain, fields)

    def test_unsupported_fields_that_would_change_the_answer_are_refused(self):
        for field, value in (("guided_whitespace_pattern", " "), ("json_schema", {}), ("suffix", "x"), ("logits_processors", ["x"]), ("chat_template", "x")):
            self.assertRegex(self.refused(field, **{field: value}), "is not supported by this server; (use|put|serve|leave)")
        for fields in ({"guided_decoding_backend": "xgrammar"}, {"truncation": "auto"}, {"verbosity": "low"}, {"thinking": {"type": "disabled"}}):
            self.complete(**fields)
        for field, value in (("tools", [{}]), ("tool_choice", "required"), ("enable_thinking", True), ("documents", [{}]), ("include_reasoning", False)):
            self.assertIn("is for /v1/chat/completions", self.refused(field, **{field: value}))


class BeamTest(FieldCase):
    FLAGS = ("--exact",)

    def test_beam_search_equals_transformers(self):
        """Compares use_beam_search, n, length_penalty, early_stopping and stop_token_ids with HF's generate, on the shorter cases
        of worker/beam_golden_test."""
        with open(os.path.join(ROOT, "tests", "golden", "beams_gqa.json"), encoding="utf-8") as f:
            cases = [case for case in json.load(f)["cases"] if case["max_new_tokens"] <= 20]
        for case in cases:
            stops = [case["eos_token_id"]] if case["eos_token_id"] is not None else []
            answer = self.complete(prompt=case["prompt"], use_beam_search=True, n=case["num_beams"], max_tokens=case["max_new_tokens"],
                                   length_penalty=case["length_penalty"], early_stopping=case["early_stopping"], stop_token_ids=stops,
                                   ignore_eos=True, skip_special_tokens=False)
            expected = [hypothesis["tokens"] for hypothesis in case["hypotheses"]]
            shown = [tokens[:-1] if stops and tokens[-1] == stops[0] else tokens for tokens in expected]
            texts = [self.post("/detokenize", {"tokens": tokens})["prompt"] for tokens in shown]
            reasons = ["stop" if stops and tokens[-1] == stops[0] else "length" for tokens in expected]
            # An answer that ends inside a character stops before it. /detokenize shows a replacement character instead.
            got = [(choice["text"].rstrip("\ufffd"), choice["finish_reason"]) for choice in answer["choices"]]
            self.assertEqual(got, list(zip((text.rstrip("\ufffd") for text in texts), reasons)))
            self.usage(answer, len(case["prompt"]), sum(map(len, expected)))

    def test_best_of_sets_the_beam_width(self):
        ask = {"use_beam_search": True, "ignore_eos": True, "prompt": [250, 9]}
        wide = self.complete(n=4, **ask)
        best = self.complete(n=2, best_of=4, **ask)
        self.assertEqual([c["text"] for c in best["choices"]], [c["text"] for c in wide["choices"][:2]])
        self.usage(best, 2, 16)
        for bad in ({"presence_penalty": 1}, {"repetition_penalty": 1.1}, {"logit_bias": {"5": 1}}, {"min_tokens": 1}):
            self.refused("use_beam_search", n=2, **ask, **bad)


class ChatTest(FieldCase):
    FLAGS = ("--max-model-len", "128")

    def test_chat_messages_become_the_templates_text(self):
        answer = self.chat(logit_bias=ASCII, ignore_eos=True)
        self.usage(answer, 20, 8)  # every byte is one token, and <|end|> is one token, too
        same = self.complete(prompt=CHAT_PROMPT, logit_bias=ASCII, ignore_eos=True)
        self.assertEqual(answer["choices"][0]["message"]["content"], same["choices"][0]["text"])
        self.assertEqual((answer["object"], answer["choices"][0]["message"]["role"]), ("chat.completion", "assistant"))
        parts = self.chat(messages=[{"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}],
                          logit_bias=ASCII, ignore_eos=True)
        self.assertEqual(parts["choices"], answer["choices"])
        system, developer = (self.chat(messages=[{"role": role, "content": "x"}], logit_bias=ASCII) for role in ("system", "developer"))
        self.assertEqual(system["choices"], developer["choices"])
        self.assertEqual(system["usage"]["prompt_tokens"], developer["usage"]["prompt_tokens"])

    def test_add_generation_prompt_opens_the_answer(self):
        with_it, without = self.chat(add_generation_prompt=True), self.chat(add_generation_prompt=False)
        self.assertEqual((with_it["usage"]["prompt_tokens"], without["usage"]["prompt_tokens"]), (20, 9))
        same = self.complete(prompt="user: hi<|end|>")
        self.assertEqual(without["choices"][0]["message"]["content"], same["choices"][0]["text"])

    def test_continue_final_message_continues_the_last_message(self):
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well, "}]
        answer = self.chat(messages=messages, continue_final_message=True, logit_bias=ASCII, ignore_eos=True)
        same = self.complete(prompt="user: hi<|end|>assistant: Well, ", logit_bias=ASCII, ignore_eos=True)
        self.assertEqual(answer["usage"]["prompt_tokens"], same["usage"]["prompt_tokens"])
        self.assertEqual(answer["choices"][0]["message"]["content"], same["choices"][0]["text"])
        self.assertIn("add_generation_prompt", self.refused("continue_final_message", path="chat", continue_final_message=True, add_generation_prompt=True))
        self.refused("continue_final_message", path="chat", messages=[{"role": "assistant", "content": " "}], continue_final_message=True)

    def test_continue_final_message_finds_the_message_when_the_template_repeats_its_words(self):
        """The words of the last message also occur in the template's own text, or in another message."""
        for words in ("<", ">", "end", "<|end|>", "|", "assistant: ", "e", " \n{", "THE_ANSWER_GOES_ON_0_", "THE_ANSWER_GOES_ON_18446744073709551615_", "hi"):
            messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": words}]
            status, shown = self.server.post("/v1/chat/completions/render", {"messages": messages, "continue_final_message": True})
            self.assertEqual((status, shown["prompt"]), (200, "user: hi<|end|>assistant: " + words), shown)

    def test_chat_max_tokens_defaults_to_the_rest_of_the_context(self):
        answer = self.chat(max_tokens=None, logit_bias=only(A))
        self.usage(answer, 20, 128 - 20)

    def test_top_logprobs_list_bytes(self):
        for count in (0, 3, 20):
            content = self.chat(logprobs=True, top_logprobs=count)["choices"][0]["logprobs"]["content"]
            self.assertEqual({len(token["top_logprobs"]) for token in content}, {count})
            if count:
                self.assertEqual([token["bytes"] for token in content], [token["top_logprobs"][0]["bytes"] for token in content])
        self.assertIsNone(self.chat()["choices"][0]["logprobs"])
        self.refused("top_logprobs", path="chat", top_logprobs=1)

    def test_chat_streams_begin_with_the_role(self):
        *chunks, last = self.events(path="/v1/chat/completions", n=2, logit_bias=only(A), stream_options={"include_usage": True})
        self.assertEqual([e["choices"][0]["delta"].get("role") for e in chunks][:3], ["assistant", "assistant", None])
        for index in (0, 1):
            deltas = [e["choices"][0]["delta"] for e in chunks if e["choices"][0]["index"] == index]
            self.assertEqual("".join(delta.get("content", "") for delta in deltas), "A" * 8)
        self.usage(last, 20, 16)


class SpecialTokenTest(FieldCase):
    """A tokenizer that puts <|end|> before every prompt."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()

        def begin_with_end(tokenizer):
            tokenizer["post_processor"] = {
                "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [], "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [END], "tokens": ["<|end|>"]}}}
        cls.server = Server("--threads-per-worker", "1", model=altered_tiny(cls.directory.name, tokenizer=begin_with_end))

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.directory.cleanup()

    def test_add_special_tokens_applies_to_text_prompts_only(self):
        for fields, count, same in (({}, 4, [END, 5, 6, 7]), ({"add_special_tokens": True}, 4, [END, 5, 6, 7]),
                                    ({"add_special_tokens": False}, 3, [5, 6, 7])):
            answer = self.complete(prompt="&'(", ignore_eos=True, **fields)
            self.usage(answer, count, 8)
            self.assertEqual(answer["choices"][0]["text"], self.complete(prompt=same, ignore_eos=True)["choices"][0]["text"])
        self.usage(self.complete(prompt=[5, 6, 7], ignore_eos=True), 3, 8)


class PriorityTest(FieldCase):
    FLAGS = ("--max-num-seqs", "1")

    def test_priority_serves_lower_numbers_first(self):
        """One request runs at a time. The number of cached tokens of a common prompt tells which requests came before."""
        answers = {}

        def ask(priority, length):
            answers[priority] = self.complete(prompt=[8] * length, max_tokens=1, priority=priority)

        self.server.post("/admin/pause", {}, admin=True)
        threads = []
        for priority, length in ((7, 112), (None, 80), (-7, 48)):
            threads.append(threading.Thread(target=ask, args=(priority, length)))
            threads[-1].start()
            while self.server.get("/admin/status", admin=True)["waiting"] < len(threads):
                time.sleep(0.005)
        self.server.post("/admin/resume", {}, admin=True)
        for thread in threads:
            thread.join(timeout=60)
        for priority, length, cached in ((-7, 48, 0), (None, 80, 48), (7, 112, 80)):
            self.usage(answers[priority], length, 1, cached)


class MetricsTest(FieldCase):
    def test_metrics_count_the_tokens_that_usage_reports(self):
        usages = [self.complete(logit_bias=only(A))["usage"],                                           # 3 + 8
                  self.complete(logit_bias=only(EOS))["usage"],                                         # 3 + 1
                  self.complete(prompt=[9] * 40, n=3, logit_bias=only(A))["usage"],                     # 40 + 24
                  self.complete(prompt=[[9] * 40, [8]], logit_bias=only(A))["usage"],                   # 41 + 16 prompt tokens, 32 of them cached
                  self.complete(prompt="&'(", echo=True, stop="AAA", logit_bias=only(A))["usage"],      # 3 + 3
                  self.complete(n=1, best_of=2, logit_bias=only(A))["usage"],                           # 3 + 16
                  self.events(logit_bias=only(A), stream_options={"include_usage": True})[-1]["usage"],  # 3 + 8
                  self.chat(max_tokens=200, logit_bias=only(A))["usage"]]                               # 20 prompt tokens and 200 generated tokens
        prompts = [u["prompt_tokens"] for u in usages]
        completions = [u["completion_tokens"] for u in usages]
        self.assertEqual((prompts, completions), ([3, 3, 40, 41, 3, 3, 3, 20], [8, 1, 24, 16, 3, 16, 8, 200]))
        self.assertEqual(self.sample("vllm:prompt_tokens_total"), sum(prompts))
        self.assertEqual(self.sample("vllm:generation_tokens_total"), sum(completions))
        self.assertEqual(self.sample("vllm:prefix_cache_queries_total"), sum(prompts))
        cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)
        self.assertEqual((cached, self.sample("vllm:prefix_cache_hits_total")), (32, 32))
        for name, values in (("vllm:request_prompt_tokens", prompts), ("vllm:request_generation_tokens", completions)):
            self.assertEqual(self.sample(name + "_sum"), sum(values))
            self.assertEqual(self.sample(name + "_count"), len(values))
            for bound in (1, 2, 5, 10, 20, 50, 100, 200, 500):
                self.assertEqual(self.sample(name + "_bucket", le=bound), sum(value <= bound for value in values), (name, bound))
        self.assertEqual(self.sample("vllm:request_success_total", finished_reason="stop"), 2)
        self.assertEqual(self.sample("vllm:request_success_total", finished_reason="length"), 6)
        self.assertEqual(self.sample("vllm:request_success_total", finished_reason="error"), 0)
        self.assertEqual(self.sample("vllm:time_to_first_token_seconds_count"), len(usages))
        self.assertEqual(self.sample("vllm:e2e_request_latency_seconds_count"), len(usages))


class RefusalMetricsTest(FieldCase):
    FLAGS = ("--num-kv-blocks", "20")

    def test_metrics_count_a_request_that_exceeds_the_pool_as_an_error(self):
        for stream in (False, True):
            self.assertIn("do not fit", self.complete(want=400, n=20, max_tokens=30, stream=stream)["error"]["message"])
        self.assertEqual(self.sample("vllm:request_success_total", finished_reason="error"), 2)
        self.assertEqual(self.sample("vllm:request_success_total", finished_reason="abort"), 0)
        self.assertEqual(self.sample("vllm:prompt_tokens_total"), 0)


# For each field, the test that shows its effect.
TESTS = {
    "prompt": CompletionTest.test_usage_counts_the_tokens_of_every_form_of_prompt,
    "messages": ChatTest.test_chat_messages_become_the_templates_text,
    "model": CompletionTest.test_request_for_a_model_that_is_not_served_is_refused,
    "max_tokens": CompletionTest.test_max_tokens_sets_the_length_with_a_default_of_16,
    "max_completion_tokens": CompletionTest.test_max_completion_tokens_overrides_max_tokens,
    "n": CompletionTest.test_usage_counts_all_n_choices_and_their_prompt_once,
    "best_of": CompletionTest.test_best_of_returns_the_likeliest_choices_and_counts_dropped_choices,
    "temperature": CompletionTest.test_temperature_flattens_and_sharpens_the_distribution,
    "top_k": CompletionTest.test_top_k_keeps_the_k_likeliest_tokens,
    "top_p": CompletionTest.test_top_p_keeps_the_fewest_tokens_that_reach_p,
    "min_p": CompletionTest.test_min_p_keeps_tokens_with_that_fraction_of_the_best,
    "seed": CompletionTest.test_seed_makes_draws_repeatable,
    "logit_bias": CompletionTest.test_logit_bias_raises_and_lowers_a_token,
    "presence_penalty": CompletionTest.test_presence_penalty_applies_once_per_token,
    "frequency_penalty": CompletionTest.test_frequency_penalty_applies_at_every_occurrence,
    "repetition_penalty": CompletionTest.test_repetition_penalty_applies_to_tokens_of_prompt_and_text,
    "min_tokens": CompletionTest.test_eos_and_stop_tokens_are_not_drawn_before_min_tokens,
    "stop": CompletionTest.test_stop_strings_cut_the_text_where_they_begin,
    "allowed_token_ids": CompletionTest.test_only_allowed_token_ids_are_drawn,
    "bad_words": CompletionTest.test_bad_words_never_appear_in_the_text,
    "truncate_prompt_tokens": CompletionTest.test_truncate_prompt_tokens_keeps_the_last_tokens,
    "detokenize": CompletionTest.test_detokenize_false_leaves_the_text_out,
    "return_token_ids": CompletionTest.test_return_token_ids_lists_prompt_and_answer,
    "return_tokens_as_token_ids": CompletionTest.test_return_tokens_as_token_ids_names_tokens_by_id_in_logprobs,
    "continue_final_message": ChatTest.test_continue_final_message_continues_the_last_message,
    "stop_token_ids": CompletionTest.test_stop_token_ids_end_the_text_and_count_as_tokens,
    "include_stop_str_in_output": CompletionTest.test_include_stop_str_in_output_keeps_the_stop_string,
    "ignore_eos": CompletionTest.test_ignore_eos_turns_eos_into_text,
    "skip_special_tokens": CompletionTest.test_skip_special_tokens_hides_special_tokens_but_counts_them,
    "add_special_tokens": SpecialTokenTest.test_add_special_tokens_applies_to_text_prompts_only,
    "add_generation_prompt": ChatTest.test_add_generation_prompt_opens_the_answer,
    "echo": CompletionTest.test_echo_puts_the_prompt_before_the_text,
    "prompt_logprobs": prompt_scores_test.FormsTest.test_prompt_logprobs_equal_the_logprobs_of_echo_and_have_ranks,
    "logprobs": CompletionTest.test_logprobs_are_the_models_own_and_have_text_offsets,
    "top_logprobs": ChatTest.test_top_logprobs_list_bytes,
    "cache_salt": CompletionTest.test_cache_salt_separates_cached_prefixes,
    "priority": PriorityTest.test_priority_serves_lower_numbers_first,
    "deadline_seconds": CompletionTest.test_deadline_seconds_ends_a_request_with_504,
    "keep_alive": model_life_test.IdleTest.test_idle_models_are_unloaded_after_the_keep_alive_which_requests_can_change,
    "prediction": CompletionTest.test_prediction_gives_the_same_answer_in_fewer_steps_and_is_counted,
    "stream": CompletionTest.test_stream_equals_the_whole_answer,
    "stream_options": CompletionTest.test_stream_options_add_usage,
    "include_usage": CompletionTest.test_stream_options_add_usage,
    "continuous_usage_stats": CompletionTest.test_stream_options_add_usage,
    "use_beam_search": BeamTest.test_beam_search_equals_transformers,
    "length_penalty": BeamTest.test_beam_search_equals_transformers,
    "early_stopping": BeamTest.test_beam_search_equals_transformers,
    "response_format": structured_output_test.FormTest.test_whole_and_streamed_chat_answers_match_the_response_format,
    "structured_outputs": structured_output_test.FormTest.test_structural_tag_answers_match_the_tag_and_its_schema,
    "guided_json": structured_output_test.ValidityTest.test_guided_json_answers_validate_on_one_to_three_workers,
    "guided_regex": structured_output_test.FormTest.test_guided_regex_answers_match_the_pattern,
    "guided_choice": structured_output_test.FormTest.test_guided_choice_gives_every_choice_and_nothing_else,
    "guided_grammar": structured_output_test.FormTest.test_guided_grammar_answers_match_the_rules,
    "tools": tools_test.ShownTest.test_prompt_contains_tools_as_they_were_sent,
    "tool_choice": tools_test.ConstrainedTest.test_tool_choice_of_a_function_calls_that_function,
    "parallel_tool_calls": tools_test.FreeTest.test_parser_returns_one_call_when_parallel_tool_calls_is_false,
    "thinking_token_budget": tools_test.ThoughtBudgetTest.test_thinking_budget_ends_thoughts_that_the_prompt_opened,
    "include_reasoning": tools_test.ThoughtTest.test_include_reasoning_false_omits_thoughts,
    "chat_template_kwargs": tools_test.ThoughtTest.test_answer_is_content_when_the_prompt_closed_thoughts,
    "enable_thinking": tools_test.ThoughtTest.test_answer_is_content_when_the_prompt_closed_thoughts,
    "think": tools_test.ThoughtTest.test_thinking_field_opens_and_closes_thoughts_as_enable_thinking_does,
    "thinking": tools_test.ThoughtTest.test_thinking_field_opens_and_closes_thoughts_as_enable_thinking_does,
    "reasoning_effort": tools_test.ThoughtTest.test_reasoning_effort_and_documents_reach_the_template,
    "documents": tools_test.ThoughtTest.test_reasoning_effort_and_documents_reach_the_template,
}


class CoverageTest(unittest.TestCase):
    def test_every_field_that_is_read_has_a_test_here(self):
        source = ""
        for name in ("openai_request", "chat_tools", "template_fields", "token_fields", "prediction"):
            with open(os.path.join(ROOT, "coordinator", "api", "requests", name + ".cc"), encoding="utf-8") as f:
                source += f.read()
        read = set(re.findall(r'(?:Find|Has|Number|Integer|Flag|Texts?|real|ReadIds)\((?:fields, )?"(\w+)"', source))
        read |= set(re.findall(r'"(\w+)"', re.search(r"name : \{(.*?)\}", source)[1]))  # two names of one setting
        # fields that ask for a grammar
        read |= set(re.findall(r'"(\w+)"', re.search(r"kFields\[\] = \{(.*?)\}", source, re.S)[1]))
        self.assertEqual(read, set(TESTS))

    def test_fields_page_lists_the_fields_that_the_code_reads_and_refuses(self):
        with open(os.path.join(ROOT, "docs", "fields.md"), encoding="utf-8") as f:
            _, supported, refused, _ = f.read().split("\n# ")[0].split("\n## ")
        rows = [line.split("|") for line in supported.splitlines() if line.startswith("| `")]
        listed = [name for row in rows for name in re.findall(r"`(\w+)`", row[1])]
        self.assertEqual(len(listed), len(set(listed)))
        # these are members of stream_options
        self.assertEqual(set(listed), set(TESTS) - {"include_usage", "continuous_usage_stats"})
        with open(os.path.join(ROOT, "coordinator", "api", "requests", "unsupported_fields.cc"), encoding="utf-8") as f:
            table = set(re.findall(r'^    \{"(\w+)",', f.read().split("kOfChat = ")[0], re.M))
        self.assertEqual(set(re.findall(r"`(\w+)`", refused.split("\nOn ")[0])), table)

    def test_known_fields_in_the_code_equal_the_fields_page(self):
        with open(os.path.join(ROOT, "coordinator", "api", "requests", "known_fields.cc"), encoding="utf-8") as f:
            source = f.read()
        known, passed = (set(re.findall(r'"(\w+)"', re.search(name + r"\[\] = \{(.*?)\};", source, re.S)[1])) for name in ("kOfGenerating", "kPassedOver"))
        self.assertEqual(known, set(TESTS) - {"messages", "prompt", "include_usage", "continuous_usage_stats"})
        with open(os.path.join(ROOT, "docs", "fields.md"), encoding="utf-8") as f:
            self.assertEqual(passed, set(re.findall(r"`(\w+)`", f.read().split("\n# ")[0].split("## Passed over")[1])))


    def test_fields_page_lists_the_fields_that_responses_read_and_refuse(self):
        with open(os.path.join(ROOT, "docs", "fields.md"), encoding="utf-8") as f:
            fields, tools, items = re.findall(r"\| (field|tool|item of `input`) \|.*?\n((?:\|.*\n)+)", f.read().split("# Fields of /v1/responses")[1])
        firsts = [set(re.findall(r"`([\w]+)`", "\n".join(row.split("|")[1] for row in table.splitlines()))) for _, table in (fields, tools, items)]
        source = {}
        for name in ("../responses_fields", "response_tools", "response_items"):
            with open(os.path.join(ROOT, "coordinator", "api", "requests", "responses", name + ".cc"), encoding="utf-8") as f:
                source[os.path.basename(name)] = f.read()
        listed = {name: set(re.findall(r'"(\w+)"', re.search(name + r"(?:\[\])? = \{(.*?)\};", text, re.S)[1]))
                  for text, names in ((source["responses_fields"], ("kHarmless", "kTranslated")), (source["response_tools"], ("kOfProviders",)), (source["response_items"], ("kOutputs",)))
                  for name in names}
        for_nothing = set(re.findall(r'name == "(\w+)"', source["responses_fields"]))
        self.assertEqual(firsts[0], listed["kHarmless"] | listed["kTranslated"] | for_nothing)
        self.assertEqual(firsts[1], listed["kOfProviders"] | {"function", "namespace", "custom", "tool_search"})
        first_of_rows = set(re.findall(r'^ *(?:const [^=]*= )?\{+"(\w+)", *(?:"|k\w+|\n)', source["response_items"], re.M)) - {"role"}  # of messages
        compared = set(re.findall(r'type == "(\w+)"', source["response_items"])) - {"input_image", "refusal"}  # types of parts
        self.assertEqual(firsts[2], listed["kOutputs"] | first_of_rows | compared)


class UnknownFieldTest(FieldCase):
    def test_each_endpoint_names_the_field_that_was_sent_and_the_one_to_use(self):
        chat = {"messages": [{"role": "user", "content": "hi"}]}
        for path, body, sent, here in (
                ("/v1/responses", {"input": "hi"}, "max_tokens", "max_output_tokens"), ("/v1/responses", {"input": "hi"}, "reasoning_effort", "reasoning.effort"),
                ("/v1/responses", {"input": "hi"}, "messages", "input"), ("/v1/responses", {"input": "hi"}, "response_format", "text.format"),
                ("/v1/messages", chat | {"max_tokens": 1}, "stop", "stop_sequences"), ("/v1/messages", chat | {"max_tokens": 1}, "reasoning_effort", "output_config.effort"),
                ("/v1/chat/completions", chat, "max_output_tokens", "max_tokens"), ("/v1/completions", {"prompt": "hi"}, "num_predict", "max_tokens"),
                ("/v1/chat/completions", chat, "prompt", "messages, or prompt of /v1/completions"),
                ("/v1/completions", {"prompt": "hi"}, "messages", "prompt, or messages of /v1/chat/completions")):
            status, answer = self.server.post(path, body | {sent: 3})
            self.assertEqual(status, 400, (path, sent, answer))
            self.assertRegex(answer["error"]["message"], f"^{sent} is .*; use {re.escape(here)}$")
            self.assertEqual(answer["error"].get("param", sent), sent)

    def test_fields_without_effect_are_accepted_on_every_endpoint(self):
        chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        off = {"verbosity": "low", "guided_decoding_backend": "xgrammar", "rid": "x", "prompt_cache_options": {}, "separate_reasoning": True,
               "return_hidden_states": False, "timings_per_token": False, "spaces_between_special_tokens": False, "mm_processor_kwargs": {}}
        for path, body in (("/v1/chat/completions", chat), ("/v1/completions", {"prompt": "hi", "max_tokens": 1}), ("/v1/messages", chat),
                           ("/v1/responses", {"input": "hi", "max_output_tokens": 1})):
            for name, value in off.items():
                status, answer = self.server.post(path, body | {name: value})
                self.assertEqual(status, 200, (path, name, answer))

    def test_refusals_of_unknown_fields_name_a_remedy_on_every_endpoint(self):
        for path, body in (("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}), ("/v1/completions", {"prompt": "hi"}),
                           ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}), ("/v1/responses", {"input": "hi"})):
            status, answer = self.server.post(path, body | {"xqzwvkj": 1})
            self.assertEqual(status, 400, answer)
            self.assertRegex(answer["error"]["message"], "^xqzwvkj is .*; leave it out$")

    def test_messages_with_max_tokens_0_are_refused_with_a_message_of_their_own(self):
        status, answer = self.server.post("/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 0})
        self.assertEqual((status, answer["error"]["message"]), (400, "max_tokens must be an integer of at least 1"))

    def test_max_tokens_of_minus_one_lets_the_answer_fill_the_context(self):
        answer = self.complete(max_tokens=-1, ignore_eos=True)
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertGreater(answer["usage"]["completion_tokens"], 16)

    def test_unknown_fields_are_refused_with_the_name_probably_meant(self):
        for given, meant in (("temprature", "temperature"), ("max_token", "max_tokens"), ("Stop", "stop"), ("logit_biases", "logit_bias")):
            error = self.complete(400, **{given: 1})["error"]
            self.assertEqual(error["param"], given)
            self.assertIn(f"is {meant} meant?", error["message"])
        self.assertNotIn("meant", self.complete(400, xqzwvkj=1)["error"]["message"])
        self.assertEqual(self.chat(400, max_new_token=5)["error"]["param"], "max_new_token")
        # A null value counts as absent, whatever the field's name.
        status, _ = self.server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1, "temprature": None})
        self.assertEqual(status, 200)

    def test_unknown_fields_are_ignored_and_warned_of_once_with_the_flag(self):
        with Server("--threads-per-worker", "1", "--ignore-unknown-fields", model=TINY) as server:
            for _ in range(3):
                status, answer = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1, "temprature": 0, "xqzwvkj": [1]})
                self.assertEqual(status, 200, answer)
            self.assertEqual(server.text().count('"temprature" is no field of this request; is temperature meant?'), 1)
            self.assertEqual(server.text().count('"xqzwvkj" is no field of this request'), 1)
            status, answer = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1, "mirostat": 2})
            self.assertEqual((status, answer["error"]["param"]), (400, "mirostat"))


class ModelDefaultsTest(unittest.TestCase):
    """Tests the sampling defaults from generation_config.json."""

    def serve(self, config, *flags):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = altered_tiny(directory.name)
        with open(os.path.join(path, "generation_config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        return Server("--threads-per-worker", "1", *flags, model=path)

    def answers(self, server, **fields):
        status, answer = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 12, "n": 4, "seed": 5, "ignore_eos": True, **fields})
        self.assertEqual(status, 200, answer)
        return [choice["text"] for choice in answer["choices"]]

    def default_sampling(self, server):
        return server.get("/v1/models")["data"][0]["default_sampling"]

    def source(self, server):
        return server.get("/admin/status", admin=True)["settings"]["generation_config"]

    def test_generation_config_applies_when_a_request_sets_nothing(self):
        with self.serve({"temperature": 0.5, "top_k": 1, "eos_token_id": EOS}) as server:
            self.assertEqual(len(set(self.answers(server))), 1)  # top_k 1 leaves one token to sample
            self.assertEqual(self.answers(server), self.answers(server, temperature=0))
            self.assertGreater(len(set(self.answers(server, top_k=0, temperature=1))), 1)
            self.assertEqual(self.source(server), "model")
            self.assertIn("requests that say nothing draw with temperature 0.5, top_k 1, top_p 1, min_p 0 (the model's files, --generation-config)\n", server.text())
            self.assertEqual(self.default_sampling(server), {"temperature": 0.5, "top_k": 1, "top_p": 1, "min_p": 0, "repetition_penalty": 1})
            status, _ = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 2, "use_beam_search": True, "n": 2})
            self.assertEqual(status, 200)

    def test_generation_config_equals_the_fields_of_the_same_names(self):
        config = {"temperature": 0.8, "top_k": 9, "top_p": 0.7, "min_p": 0.05, "repetition_penalty": 1.3}
        with self.serve(config) as one, self.serve(config, "--generation-config", "none") as other:
            self.assertEqual(self.answers(one), self.answers(other, **config))
            self.assertNotEqual(self.answers(one), self.answers(other))
            self.assertEqual(self.source(other), "none")

    def test_quires_sampling_defaults_apply_when_the_models_files_have_none(self):
        own = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
        openai = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}
        penalty = {"eos_token_id": EOS, "repetition_penalty": 1.3}  # a penalty alone does not say how to sample
        with self.serve(penalty) as bare, self.serve(penalty, "--generation-config", "model") as strict:
            self.assertEqual((self.source(bare), self.source(strict)), ("quire", "model"))
            self.assertEqual(self.default_sampling(bare), {**own, "repetition_penalty": 1.3})
            self.assertEqual(self.default_sampling(strict), {**openai, "repetition_penalty": 1.3})
            self.assertEqual(self.answers(bare), self.answers(strict, **own))
            self.assertEqual(self.answers(bare, **openai), self.answers(strict))
            self.assertNotEqual(self.answers(bare), self.answers(strict))
            logprobs = [server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1, "logprobs": 20})[1]["choices"][0]["logprobs"]["top_logprobs"]
                        for server in (bare, strict)]
            self.assertEqual(*logprobs)  # these values are the defaults, with which the reported values do not change

    def test_generation_config_flag_quire_ignores_the_files_of_the_model(self):
        with self.serve({"temperature": 7}, "--generation-config", "quire") as server:
            self.assertEqual(self.source(server), "quire")
            self.assertEqual(self.default_sampling(server), {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repetition_penalty": 1})

    def test_server_refuses_a_generation_config_out_of_range(self):
        with self.assertRaises(AssertionError) as raised, self.serve({"top_p": 7}):
            pass
        self.assertIn("--generation-config quire or none", str(raised.exception))


if __name__ == "__main__":
    verdict.run_tests()
