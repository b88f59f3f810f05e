"""What answers tell programs beside their text: whether to try again, what was wrong, and which request it was."""
import contextlib
import json
import threading
import time
import unittest
import urllib.error
import urllib.request

import openai

import verdict
from server import TINY, Server


class SignsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "1", model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def ask(self, path, body=None, method=None, headers=None):
        """(status, headers, parsed body)."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server.url + path, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.headers, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, json.load(error)

    @contextlib.contextmanager
    def paused(self):
        self.server.post("/admin/pause", {}, admin=True)
        try:
            yield
        finally:
            self.server.post("/admin/resume", {}, admin=True)

    # --- whether to try again ---

    def test_a_deadline_is_not_for_retrying(self):
        with self.paused():
            status, headers, answer = self.ask("/v1/completions", {"prompt": [5], "deadline_seconds": 0.1})
        self.assertEqual((status, headers["x-should-retry"], headers["Retry-After"]), (504, "false", None), answer)

    def test_what_an_operator_ended_is_not_for_retrying(self):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.ask("/v1/completions", {"prompt": [5], "max_tokens": 1900, "ignore_eos": True})))
        with self.paused():
            thread.start()
            deadline = time.monotonic() + 20
            while self.server.post("/admin/abort", {"all": True}, admin=True)[1]["aborted"] == 0:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            thread.join()
        status, headers, answer = answers[0]
        self.assertEqual((status, headers["x-should-retry"], headers["Retry-After"]), (410, "false", None))
        self.assertEqual((answer["error"]["type"], answer["error"]["message"]), ("RequestAbortedError", "aborted by the operator"))

    def test_the_official_client_repeats_no_work(self):
        sent = []
        http = openai.DefaultHttpxClient(event_hooks={"request": [sent.append]})
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=2, http_client=http) as client, self.paused():
            with self.assertRaises(openai.APIStatusError) as ended:
                client.completions.create(model="gqa", prompt="a", extra_body={"deadline_seconds": 0.1})
            self.assertEqual(ended.exception.status_code, 504)
            self.assertEqual(len(sent), 1)

    def test_overload_is_for_retrying(self):
        self.server.post("/admin/drain", {}, admin=True)
        try:
            status, headers, _ = self.ask("/v1/completions", {"prompt": [5]})
        finally:
            self.server.post("/admin/resume", {}, admin=True)
        self.assertEqual((status, headers["x-should-retry"], headers["Retry-After"]), (503, None, "1"))

    # --- what was wrong ---

    def test_what_is_too_long_has_the_code_and_the_words_that_clients_look_for(self):
        for body, param in (({"prompt": [5] * 3000}, "prompt"), ({"prompt": [5] * 2048}, "prompt"), ({"prompt": [5] * 100, "max_tokens": 2000}, "max_tokens"),
                            ({"prompt": [5], "max_tokens": 5000}, "max_tokens"), ({"prompt": "word " * 9000}, "prompt")):
            with self.subTest(body=str(body)[:40]):
                status, _, answer = self.ask("/v1/completions", body)
                error = answer["error"]
                self.assertEqual((status, error["code"], error["param"]), (400, "context_length_exceeded", param))
                self.assertIn("maximum context length is 2048 tokens", error["message"])


if __name__ == "__main__":
    verdict.run_tests()
