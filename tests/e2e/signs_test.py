"""Tests the parts of answers that programs read besides the text: whether to retry, which field was wrong, to which request the answer
belongs, and whether a web page may read the answer."""
import contextlib
import json
import socket
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
        """Returns (status, headers, parsed body)."""
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

    # --- whether to retry ---

    def test_exceeded_deadline_is_marked_as_not_to_be_retried(self):
        with self.paused():
            status, headers, answer = self.ask("/v1/completions", {"prompt": [5], "deadline_seconds": 0.1})
        self.assertEqual((status, headers["x-should-retry"], headers["Retry-After"]), (504, "false", None), answer)

    def test_aborted_request_is_marked_as_not_to_be_retried(self):
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

    def test_openai_client_does_not_retry_an_exceeded_deadline(self):
        sent = []
        http = openai.DefaultHttpxClient(event_hooks={"request": [sent.append]})
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=2, http_client=http) as client, self.paused():
            with self.assertRaises(openai.APIStatusError) as ended:
                client.completions.create(model="gqa", prompt="a", extra_body={"deadline_seconds": 0.1})
            self.assertEqual(ended.exception.status_code, 504)
            self.assertEqual(len(sent), 1)

    def test_refusal_while_draining_is_marked_as_to_be_retried(self):
        self.server.post("/admin/drain", {}, admin=True)
        try:
            status, headers, _ = self.ask("/v1/completions", {"prompt": [5]})
        finally:
            self.server.post("/admin/resume", {}, admin=True)
        self.assertEqual((status, headers["x-should-retry"], headers["Retry-After"]), (503, None, "1"))

    # --- the field that was wrong ---

    def test_too_long_prompts_have_the_error_code_and_words_of_openai(self):
        for body, param in (({"prompt": [5] * 3000}, "prompt"), ({"prompt": [5] * 2048}, "prompt"), ({"prompt": [5] * 100, "max_tokens": 2000}, "max_tokens"),
                            ({"prompt": [5], "max_tokens": 5000}, "max_tokens"), ({"prompt": "word " * 9000}, "prompt")):
            with self.subTest(body=str(body)[:40]):
                status, _, answer = self.ask("/v1/completions", body)
                error = answer["error"]
                self.assertEqual((status, error["code"], error["param"]), (400, "context_length_exceeded", param))
                self.assertRegex(error["message"], "maximum context length is 2048 tokens; .*: (shorten it|lower)")

    def test_wrong_method_gets_405_with_the_allowed_methods(self):
        for method, path, allow in (("GET", "/v1/completions", "POST"), ("DELETE", "/v1/models", "GET, HEAD"), ("OPTIONS", "/tokenize", "POST"),
                                    ("POST", "/v1/models/x", "GET, HEAD"), ("PUT", "/health", "GET, HEAD")):
            status, headers, answer = self.ask(path, method=method)
            self.assertEqual((status, headers["Allow"], answer["error"]["code"]), (405, allow, 405))
        for path, allow in (("/admin/pause", "POST"), ("/metrics", "GET, HEAD")):
            request = urllib.request.Request(self.server.admin_url + path, method="DELETE")
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=20)
            self.assertEqual((refused.exception.code, refused.exception.headers["Allow"]), (405, allow))
            refused.exception.close()
        self.assertEqual(self.ask("/nope", {})[0], 404)

    # --- which request it was ---

    def test_every_answer_has_a_request_id(self):
        ids = {self.ask(path, body, method)[1]["x-request-id"] for path, body, method in
               (("/health", None, None), ("/nope", None, None), ("/v1/models", {}, "DELETE"), ("/v1/completions", {"prompt": 5}, None),
                ("/v1/completions", {"prompt": [5], "max_tokens": 1}, None))}
        self.assertEqual(len(ids), 5)
        for one in ids:
            self.assertRegex(one, "^req-[0-9a-f]{32}$")
        self.assertEqual(self.ask("/nope", headers={"x-request-id": "mine"})[1]["x-request-id"], "mine")
        for broken in (b"GET /\xff HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
                s.sendall(broken)
                self.assertRegex(s.makefile("rb").read(), b"(?s)^HTTP/1.1 400 .*\r\nx-request-id: req-")


class BrowserTest(unittest.TestCase):
    """Tests a server that allows the web pages of one other site, and requests to the host name models.example."""
    PAGE = "https://chat.example"

    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "1", "--allowed-origins", cls.PAGE, "--allowed-hosts", "models.example", model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def ask(self, method, path, origin, body=b"", *lines, host="models.example"):
        """Returns (status, headers, body)."""
        head = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}", *lines]
        head += [f"Origin: {origin}"] if origin else []
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as s:
            s.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
            reply = s.makefile("rb").read().decode()
        head, _, body = reply.partition("\r\n\r\n")
        lines = head.split("\r\n")
        return int(lines[0].split()[1]), dict(line.split(": ", 1) for line in lines[1:]), body

    def test_preflight_of_an_allowed_origin_is_answered(self):
        status, headers, body = self.ask("OPTIONS", "/v1/chat/completions", self.PAGE, b"", "Access-Control-Request-Method: POST",
                                         "Access-Control-Request-Headers: authorization,content-type,x-stainless-os")
        self.assertEqual((status, body), (204, ""))
        self.assertNotIn("Content-Length", headers)
        self.assertEqual(headers["Access-Control-Allow-Origin"], self.PAGE)
        self.assertEqual(headers["Access-Control-Allow-Headers"], "authorization,content-type,x-stainless-os")
        self.assertIn("POST", headers["Access-Control-Allow-Methods"])

    def test_allowed_origin_may_read_answers_streams_and_errors(self):
        stream = json.dumps({"prompt": [5], "max_tokens": 2, "stream": True}).encode()
        for method, path, body, expected in (("GET", "/v1/models", b"", 200), ("POST", "/v1/completions", stream, 200), ("GET", "/nope", b"", 404),
                                             ("POST", "/v1/completions", b"{", 400)):
            status, headers, _ = self.ask(method, path, self.PAGE, body)
            self.assertEqual((status, headers["Access-Control-Allow-Origin"], headers["Vary"]), (expected, self.PAGE, "Origin"))
            self.assertIn("x-request-id", headers["Access-Control-Expose-Headers"])

    def test_other_origins_and_hosts_are_refused(self):
        for origin in ("https://evil.example", "http://chat.example", "https://chat.example:444", "null"):
            status, headers, _ = self.ask("GET", "/v1/models", origin)
            self.assertEqual(status, 403)
            self.assertFalse([name for name in headers if name.startswith("Access-Control")])
            self.assertEqual(self.ask("OPTIONS", "/v1/models", origin, b"", "Access-Control-Request-Method: GET")[0], 403)
        self.assertEqual(self.ask("GET", "/v1/models", "")[0], 200)
        self.assertEqual(self.ask("GET", "/v1/models", "", host="evil.example")[0], 403)


if __name__ == "__main__":
    verdict.run_tests()
