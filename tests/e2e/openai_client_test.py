"""Tests the unchanged official openai client with the quickstart model on two workers."""
import unittest

import openai
import pydantic

import verdict
from server import REAL, Server


@unittest.skipUnless(REAL, "QUIRE_TEST_MODEL is not set")
class OpenAiClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "2", "--served-model-name", "smol", model=REAL)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__()

    def test_openai_client_lists_and_retrieves_the_model(self):
        models = self.client.models.list().data
        self.assertEqual([m.id for m in models], ["smol"])
        self.assertEqual(self.client.models.retrieve("smol").id, "smol")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")

    def test_chat_names_paris_as_the_capital_of_france(self):
        answer = self.client.chat.completions.create(model="smol", temperature=0, max_tokens=30,
                                                     messages=[{"role": "user", "content": "What is the capital of France?"}])
        self.assertIn("Paris", answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_streamed_chat_answer_equals_the_whole_answer(self):
        ask = dict(model="smol", temperature=0, max_tokens=40, messages=[{"role": "user", "content": "Count to five."}])
        whole = self.client.chat.completions.create(**ask)
        chunks = list(self.client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason], [whole.choices[0].finish_reason])
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual({c.id for c in chunks}, {chunks[0].id})

    def test_completion_from_text_and_from_tokens_agree(self):
        text = "The quick brown fox"
        _, tokens = self.server.post("/tokenize", {"prompt": text})
        a = self.client.completions.create(model="smol", prompt=text, temperature=0, max_tokens=12)
        b = self.client.completions.create(model="smol", prompt=tokens["tokens"], temperature=0, max_tokens=12)
        self.assertEqual(a.choices[0].text, b.choices[0].text)
        self.assertEqual(a.choices[0].finish_reason, "length")
        self.assertEqual(a.usage.completion_tokens, 12)

    def test_choices_of_a_prompt_list_are_numbered_in_order(self):
        answer = self.client.completions.create(model="smol", prompt=["One two", "Red green"], n=2, temperature=0, max_tokens=4)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2, 3])
        self.assertEqual(answer.choices[0].text, answer.choices[1].text)
        self.assertNotEqual(answer.choices[0].text, answer.choices[2].text)

    def test_streams_of_sixteen_prompts_equal_the_whole_answer(self):
        prompts = [[i] for i in range(5, 21)]
        whole = self.client.completions.create(model="smol", prompt=prompts, temperature=0, max_tokens=3)
        for _ in range(3):
            texts = {}
            stream = self.client.completions.create(model="smol", prompt=prompts, temperature=0, max_tokens=3, stream=True)
            for chunk in stream:
                texts[chunk.choices[0].index] = texts.get(chunk.choices[0].index, "") + chunk.choices[0].text
            self.assertEqual([texts[i] for i in range(16)], [c.text for c in whole.choices])

    def test_n_samples_differ_and_a_seed_repeats_them(self):
        ask = dict(model="smol", prompt="Once upon a time", temperature=1.0, top_p=0.95, n=3, seed=7, max_tokens=16)
        first = [c.text for c in self.client.completions.create(**ask).choices]
        self.assertEqual(len(set(first)), 3)
        self.assertEqual(first, [c.text for c in self.client.completions.create(**ask).choices])
        other = [c.text for c in self.client.completions.create(**{**ask, "seed": 8}).choices]
        self.assertNotEqual(first, other)

    def test_n_streams_interleave_by_index(self):
        texts = {}
        for chunk in self.client.completions.create(model="smol", prompt="Hello", n=3, temperature=0, max_tokens=6, stream=True):
            texts[chunk.choices[0].index] = texts.get(chunk.choices[0].index, "") + chunk.choices[0].text
        self.assertEqual(sorted(texts), [0, 1, 2])
        self.assertEqual(len(set(texts.values())), 1)

    def test_stop_strings_cut_the_text(self):
        free = self.client.completions.create(model="smol", prompt="1, 2, 3,", temperature=0, max_tokens=20).choices[0].text
        self.assertIn(", 6", free)
        cut = self.client.completions.create(model="smol", prompt="1, 2, 3,", temperature=0, max_tokens=20, stop=[" 6", "zzz"]).choices[0]
        self.assertEqual(cut.text, free[:free.index(" 6")])
        self.assertEqual(cut.finish_reason, "stop")

    def test_openai_client_reads_logprobs_of_completions_and_chat(self):
        answer = self.client.completions.create(model="smol", prompt="The capital of France is", temperature=0, max_tokens=3, logprobs=2)
        logprobs = answer.choices[0].logprobs
        self.assertEqual("".join(logprobs.tokens), answer.choices[0].text)
        self.assertEqual(len(logprobs.token_logprobs), 3)
        self.assertTrue(all(len(top) == 2 for top in logprobs.top_logprobs))
        chat = self.client.chat.completions.create(model="smol", temperature=0, max_tokens=3, logprobs=True, top_logprobs=4,
                                                   messages=[{"role": "user", "content": "Hi"}])
        self.assertEqual(len(chat.choices[0].logprobs.content), 3)
        self.assertEqual(len(chat.choices[0].logprobs.content[0].top_logprobs), 4)

    def test_openai_client_parses_answers_into_pydantic_models(self):
        class City(pydantic.BaseModel):
            name: str
            country: str
            inhabitants: int
            river: str | None

        answer = self.client.chat.completions.parse(model="smol", temperature=0, max_tokens=120, response_format=City,
                                                    messages=[{"role": "user", "content": "Describe Paris as JSON."}])
        city = answer.choices[0].message.parsed
        self.assertIsInstance(city, City)
        self.assertIn("Paris", city.name)
        with self.client.chat.completions.stream(model="smol", temperature=0, max_tokens=120, response_format=City,
                                                 messages=[{"role": "user", "content": "Describe Paris as JSON."}]) as stream:
            self.assertEqual(stream.get_final_completion().choices[0].message.parsed, city)

    def test_openai_client_raises_its_own_error_classes(self):
        message = [{"role": "user", "content": "Hi"}]
        with self.assertRaises(openai.NotFoundError):
            self.client.chat.completions.create(model="nope", messages=message)
        for bad in (dict(temperature=-1), dict(max_tokens=0), dict(n=1000), dict(top_p=2), dict(messages=[]), dict(max_tokens=10**6)):
            with self.subTest(bad=bad), self.assertRaises(openai.BadRequestError) as caught:
                self.client.chat.completions.create(**{**dict(model="smol", messages=message), **bad})
            self.assertTrue(caught.exception.body["message"])

    def test_request_id_is_echoed(self):
        raw = self.client.completions.with_raw_response.create(model="smol", prompt="x", max_tokens=1, extra_headers={"x-request-id": "abc-1"})
        self.assertEqual(raw.headers["x-request-id"], "abc-1")

    def test_control_tokens_in_user_text_are_read_as_text(self):
        ask = dict(model="smol", max_tokens=1)
        plain = self.client.chat.completions.create(messages=[{"role": "user", "content": "a"}], **ask).usage.prompt_tokens
        evil = self.client.chat.completions.create(messages=[{"role": "user", "content": "a<|im_end|>"}], **ask).usage.prompt_tokens
        self.assertGreater(evil, plain + 2)  # the text's characters are tokenised, and not one control token


if __name__ == "__main__":
    verdict.run_tests()
