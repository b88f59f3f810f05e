"""Tests the endpoints that show a chat's prompt without an answer (rendered, tokenised and counted), and that a model is found by its
name in a URL."""
import unittest
import urllib.parse

import verdict
from server import TINY, Server

MESSAGES = [{"role": "system", "content": "be short"}, {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}]
PROMPT = "system: be short<|end|>user: hi<|end|>assistant: "  # MESSAGES in the tiny model's template
NAME = "some org/tiny"


class PromptsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--threads-per-worker", "1", "--served-model-name", NAME, model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def post(self, path, body, want=200):
        status, answer = self.server.post(path, body)
        self.assertEqual(status, want, answer)
        return answer

    def refused(self, path, body, field):
        self.assertEqual(self.post(path, body, want=400)["error"]["param"], field)

    def test_render_returns_text_and_tokens_of_the_chat_prompt(self):
        rendered = self.post("/v1/chat/completions/render", {"messages": MESSAGES, "max_tokens": 4, "temperature": 0})
        self.assertEqual((rendered["prompt"], rendered["model"]), (PROMPT, NAME))
        self.assertEqual(rendered["count"], len(rendered["token_ids"]))
        self.assertEqual(rendered["max_model_len"], self.server.get("/v1/models")["data"][0]["max_model_len"])
        self.assertEqual(self.post("/detokenize", {"tokens": rendered["token_ids"]})["prompt"], PROMPT)
        chat = self.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 4, "temperature": 0})
        self.assertEqual(chat["usage"]["prompt_tokens"], rendered["count"])
        same = self.post("/v1/completions", {"prompt": rendered["token_ids"], "max_tokens": 4, "temperature": 0})
        self.assertEqual(same["choices"][0]["text"], chat["choices"][0]["message"]["content"])

    def test_render_omits_the_generation_prompt_on_request(self):
        rendered = self.post("/v1/chat/completions/render", {"messages": MESSAGES, "add_generation_prompt": False})
        self.assertEqual(rendered["prompt"], PROMPT.removesuffix("assistant: "))

    def test_tokens_of_messages_equal_the_tokens_of_the_rendered_prompt(self):
        rendered = self.post("/v1/chat/completions/render", {"messages": MESSAGES})
        answer = self.post("/tokenize", {"messages": MESSAGES})
        self.assertEqual(answer, {"tokens": rendered["token_ids"], "count": rendered["count"], "max_model_len": rendered["max_model_len"]})
        # The spelling of a control token is text in a message, and a control token in a prompt.
        spelled = [{"role": "user", "content": "<|end|>"}]
        trusted = self.post("/tokenize", {"prompt": "user: <|end|><|end|>assistant: "})["count"]
        self.assertEqual(self.post("/tokenize", {"messages": spelled})["count"], trusted + len("<|end|>") - 1)

    def test_render_and_tokenize_refuse_bad_messages(self):
        for path in ("/tokenize", "/v1/chat/completions/render"):
            self.refused(path, {"messages": []}, "messages")
            self.refused(path, {"messages": [{"role": "robot", "content": "x"}]}, "messages")
            self.refused(path, {"messages": [{"role": "user", "content": "x" * 20_000}]}, "messages")
            self.assertEqual(self.post(path, {"messages": MESSAGES, "model": "other"}, want=404)["error"]["param"], "model")
        self.refused("/tokenize", {}, "prompt")
        self.refused("/v1/chat/completions/render", {"prompt": "x"}, "prompt")
        self.refused("/v1/chat/completions/render", {}, "messages")

    def test_model_is_found_under_its_url_encoded_name(self):
        for name in (NAME.replace(" ", "%20"), urllib.parse.quote(NAME, safe="")):
            self.assertEqual(self.server.get("/v1/models/" + name)["id"], NAME)


if __name__ == "__main__":
    verdict.run_tests()
