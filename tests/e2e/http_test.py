"""Tests HTTP framing, limits, deadlines, wrong requests and disconnected clients with raw sockets. A request head that a proxy may read
differently must be refused."""
import json
import socket
import time
import unittest

import verdict
from server import TINY, Server

GOOD = b'{"prompt":[5],"max_tokens":1}'


def head(*lines, target=b"/v1/completions", method=b"POST", version=b"HTTP/1.1"):
    return b"\r\n".join([b" ".join([method, target, version]), *lines]) + b"\r\n\r\n"


HOST, LENGTH = b"Host: localhost", b"Content-Length: %d" % len(GOOD)


class HttpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "1", model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def send(self, data, seconds=20):
        """Returns the status codes of all answers until the server closes the connection or sends nothing for `seconds`."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=seconds) as s:
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            reply = b""
            try:
                while chunk := s.recv(65536):
                    reply += chunk
            except OSError:
                pass
        return [int(part[:3]) for part in reply.split(b"HTTP/1.1 ")[1:]]

    def ask(self, data, seconds=20):
        """Returns the status code of the first answer, and leaves the connection open."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=seconds) as s:
            try:
                s.sendall(data)
            except OSError:
                pass
            reply = s.recv(65536)
        return int(reply[9:12]) if reply else None

    def test_http_server_answers_well_formed_requests(self):
        self.assertEqual(self.ask(head(HOST, LENGTH) + GOOD), 200)
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
        self.assertEqual(self.ask(head(HOST, b"Transfer-Encoding: chunked") + chunked), 200)
        self.assertEqual(self.ask(head(HOST, LENGTH, version=b"HTTP/1.0") + GOOD), 200)

    def test_ambiguous_framing_is_refused(self):
        for lines in ([HOST, b"Transfer-Encoding: gzip", LENGTH], [HOST, b"Transfer-Encoding: xchunked", LENGTH],
                      [HOST, b"Transfer-Encoding: gzip, chunked"], [HOST, b"Transfer-Encoding: chunked, chunked"],
                      [HOST, b"Transfer-Encoding: chunked", LENGTH], [HOST, b"Transfer-Encoding: identity"],
                      [HOST, LENGTH, LENGTH], [HOST, b"Content-Length: 5", b"Content-Length: 6"], [HOST, b"Content-Length: +5"],
                      [HOST, b"Content-Length: 05"], [HOST, b"Content-Length: 5,5"], [HOST, b"Content-Length: -1"], [LENGTH],
                      [HOST, HOST, LENGTH], [b"Host: a b", LENGTH], [b"Host:", LENGTH], [HOST, b"A : b", LENGTH], [HOST, b"A: b\x00c", LENGTH],
                      [HOST, b"A: b\x01c", LENGTH], [HOST, b"A\x80: b", LENGTH], [HOST, b"A\t: b", LENGTH], [HOST, b": b", LENGTH],
                      [HOST, b"A", LENGTH], [HOST, b"A b: c", LENGTH], [HOST, b"A: b\rc", LENGTH], [HOST, b"Content-Length: 0x1d"],
                      [HOST, b"Content-Length: 2 9"], [HOST, b"Content-Length: 29, 29"], [HOST, b"Content-Length:"],
                      [HOST, b"Content-Length: 18446744073709551645"], [HOST, b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
                      [HOST, b"Transfer-Encoding: \x0bchunked"], [HOST, b"Transfer-Encoding: \"chunked\""], [HOST, b"Transfer-Encoding: chunked;a=b"],
                      [HOST, b"Transfer-Encoding:"], [b"Host: a,b", LENGTH], [b"Host: a/b", LENGTH], [b"Host: a@b", LENGTH]):
            with self.subTest(lines=lines):
                self.assertEqual(self.send(head(*lines) + GOOD), [400])
        self.assertEqual(self.send(head(HOST, b"Transfer-Encoding: chunked", version=b"HTTP/1.0") + b"0\r\n\r\n"), [400])

    def test_chunk_extensions_end_with_a_whole_line_end(self):
        size = b"%x" % len(GOOD)
        chunked = head(HOST, b"Transfer-Encoding: chunked")
        self.assertEqual(self.ask(chunked + size + b";a=b\r\n" + GOOD + b"\r\n0;c\r\n\r\n"), 200)
        for body in (size + b";a\n" + GOOD + b"\r\n0\r\n\r\n", size + b";a=b\n" + GOOD + b"\r\n0\r\n\r\n", size + b";a=\"b\n\"\r\n" + GOOD + b"\r\n0\r\n\r\n",
                     size + b"\n" + GOOD + b"\r\n0\r\n\r\n", size + b"\r\n" + GOOD + b"\r\n0;a\n\r\n\r\n", size + b";a\x00\r\n" + GOOD + b"\r\n0\r\n\r\n"):
            with self.subTest(body=body):
                self.assertEqual(self.send(chunked + body), [400])

    def test_folded_header_lines_are_refused(self):
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
        for line in (b"Transfer-Encoding:\r\n chunked", b"Transfer-Encoding: chunked\r\n ", b"Transfer-Encoding:\r\n\tchunked", b"A: b\r\n c\r\nTransfer-Encoding: chunked"):
            with self.subTest(line=line):
                self.assertEqual(self.send(head(HOST, line) + chunked), [400])

    def test_request_heads_may_arrive_in_any_pieces(self):
        request = head(HOST, LENGTH, b"Connection: close") + GOOD
        for step in (1, 7, 40):
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for at in range(0, len(request), step):
                    s.sendall(request[at:at + step])
                    time.sleep(0.001)
                self.assertTrue(s.makefile("rb").read().startswith(b"HTTP/1.1 200"))

    def test_unsupported_and_malformed_request_lines_are_refused(self):
        for line in (dict(target=b"http://evil/v1/models"), dict(target=b"*"), dict(target=b"models"), dict(target=b"/a\xff"), dict(method=b"get"),
                     dict(method=b"CONNECT", target=b"/x:1"), dict(version=b"HTTP/1.2"), dict(version=b"HTTP/2.0"), dict(version=b"http/1.1")):
            with self.subTest(line=line):
                self.assertEqual(self.send(head(HOST, **line)), [400])

    def test_trailers_and_malformed_chunks_are_refused(self):
        start = head(HOST, b"Transfer-Encoding: chunked")
        for body in (b"5\r\n{\"a\":\r\n0\r\nHost: evil\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloX\r\n0\r\n\r\n",
                     b"+5\r\nhello\r\n0\r\n\r\n", b" 5\r\nhello\r\n0\r\n\r\n", b"\r\nhello\r\n0\r\n\r\n",
                     b"ffffffffffffffff\r\n", b"10000000000000005\r\nhello\r\n0\r\n\r\n", b"5;" + b"x" * 12000 + b"\r\nhello\r\n0\r\n\r\n", b"5;" + b"x" * 20000 + b"\r\nhello\r\n0\r\n\r\n"):
            with self.subTest(body=body[:30]):
                statuses = self.send(start + body)
                self.assertTrue(statuses and statuses[0] in (400, 413, 431), statuses)
        for body in (b"5\nhello\n0\n\n", b"5\r\nhel"):  # the body's end never comes
            self.assertEqual(self.send(start + body), [])

    def test_each_exceeded_limit_has_its_own_status(self):
        self.assertEqual(self.send(head(HOST, b"A: " + b"x" * 20000)), [431])
        self.assertEqual(self.send(head(HOST, *[b"A%d: x" % i for i in range(200)], LENGTH) + GOOD), [431])
        self.assertEqual(self.send(head(HOST, *[b"a:"] * 3000, LENGTH) + GOOD), [431])
        self.assertEqual(self.send(head(HOST, target=b"/" + b"x" * 9000)), [414])
        self.assertEqual(self.send(head(HOST, b"Content-Length: 3000000")), [413])
        self.assertEqual(self.send(head(HOST, b"Content-Encoding: gzip", LENGTH) + GOOD), [415])
        self.assertEqual(self.send(head(HOST, b"Expect: magic", LENGTH) + GOOD), [417])

    def test_bytes_after_a_refused_request_are_not_answered(self):
        smuggled = head(HOST, method=b"GET", target=b"/v1/models")
        self.assertEqual(self.send(head(HOST, b"Transfer-Encoding: gzip", LENGTH) + GOOD + smuggled), [400])

    def test_keep_alive_connection_serves_several_requests(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            for _ in range(3):
                s.sendall(head(HOST, method=b"GET", target=b"/v1/models"))
                self.assertTrue(s.recv(65536).startswith(b"HTTP/1.1 200"))

    def test_pipelined_requests_are_answered_in_order(self):
        get = head(HOST, method=b"GET", target=b"/version")
        last = head(HOST, b"Connection: close", method=b"GET", target=b"/v1/models")
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            s.sendall(get + get + last)
            reply = b""
            while chunk := s.recv(65536):
                reply += chunk
        self.assertEqual(reply.count(b"HTTP/1.1 200"), 3)
        self.assertLess(reply.rfind(b'"version"'), reply.find(b'"data"'))

    def test_head_request_gets_no_body_and_expect_gets_100_continue(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            s.sendall(head(HOST, b"Connection: close", method=b"HEAD", target=b"/v1/models"))
            reply = s.makefile("rb").read()
        self.assertTrue(reply.startswith(b"HTTP/1.1 200") and reply.endswith(b"\r\n\r\n"), reply)
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            s.sendall(head(HOST, b"Expect: 100-continue", LENGTH))
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 100"))
            s.sendall(GOOD)
            self.assertTrue(s.recv(65536).startswith(b"HTTP/1.1 200"))

    def test_http_10_client_gets_no_100_continue(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            s.sendall(head(HOST, b"Expect: 100-continue", LENGTH, version=b"HTTP/1.0"))
            time.sleep(0.2)
            s.sendall(GOOD)
            self.assertTrue(s.makefile("rb").read().startswith(b"HTTP/1.1 200"))

    def test_slow_request_heads_get_408_while_other_requests_are_served(self):
        slow = [socket.create_connection(("127.0.0.1", self.server.port), timeout=30) for _ in range(50)]
        for s in slow:
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: local")
        begin = time.monotonic()
        self.assertEqual(self.ask(head(HOST, LENGTH) + GOOD), 200)
        self.assertLess(time.monotonic() - begin, 5)
        for s in slow:
            with s, s.makefile("rb") as f:
                self.assertTrue(f.read().startswith(b"HTTP/1.1 408 "), "told why")
        self.assertLess(time.monotonic() - begin, 15)

    def test_bad_json_gets_400_with_a_message(self):
        for body in (b"", b"{", b"[]", b"5", b'{"prompt":"a","prompt":"b"}', b'{"prompt":"\xff"}', b'{"prompt":"\\ud800"}', b'{"prompt":1e999}',
                     b"\xef\xbb\xbf{}", b'{"prompt":"a"}\x00', b"[" * 100000, b'{"a":' * 40 + b"1" + b"}" * 40):
            with self.subTest(body=body[:40]):
                status, answer = self.server.post("/v1/completions", body)
                self.assertEqual(status, 400)
                self.assertTrue(answer["error"]["message"])

    def test_impossible_prompts_get_an_error_that_says_why(self):
        for body, word in (({"prompt": [5] * 3000}, "prompt"), ({"prompt": [5] * 100, "max_tokens": 2000}, "exceed"), ({"prompt": []}, "empty"),
                           ({"prompt": ""}, "empty"), ({"prompt": [257]}, "token ids"), ({"prompt": "a", "model": "x"}, "not served")):
            with self.subTest(body=str(body)[:60]):
                status, answer = self.server.post("/v1/completions", body)
                self.assertIn(status, (400, 404))
                self.assertIn(word, answer["error"]["message"])

    def test_content_types_of_html_forms_are_refused(self):
        for kind, status in ((b"text/plain", 415), (b"application/x-www-form-urlencoded", 415), (b"application/json; charset=utf-8", 200), (b"Application/JSON;charset=UTF-8", 200),
                             (b"application/JSON ; a=b", 200), (b"application/jsonp", 415), (b";application/json", 415)):
            self.assertEqual(self.ask(head(HOST, LENGTH, b"Content-Type: " + kind) + GOOD), status, kind)

    def test_http_10_streams_are_not_chunked(self):
        body = b'{"prompt":[5],"max_tokens":2,"stream":true,"ignore_eos":true}'
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            s.sendall(head(HOST, b"Content-Length: %d" % len(body), version=b"HTTP/1.0") + body)
            reply = s.makefile("rb").read()
        self.assertNotIn(b"chunked", reply)
        self.assertTrue(reply.split(b"\r\n\r\n", 1)[1].startswith(b"data: ") and reply.endswith(b"data: [DONE]\n\n"), reply)

    def test_request_ends_when_a_client_with_surplus_bytes_disconnects(self):
        body = b'{"prompt":[5],"max_tokens":1900,"ignore_eos":true}'
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            s.sendall(head(HOST, b"Content-Length: %d" % len(body)) + body + b"\r\n")
            time.sleep(0.1)
        deadline = time.monotonic() + 2
        while self.server.get("/admin/status", admin=True)["running"] and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(self.server.get("/admin/status", admin=True)["running"], 0)

    def test_unknown_paths_get_404_and_unknown_methods_405(self):
        self.assertEqual(self.ask(head(HOST, method=b"GET", target=b"/nope")), 404)
        self.assertEqual(self.ask(head(HOST, method=b"GET")), 405)
        self.assertEqual(self.ask(head(HOST, LENGTH, method=b"DELETE", target=b"/v1/models") + GOOD), 405)

    def test_admin_port_refuses_other_hosts_and_origins(self):
        for extra, status in ((HOST, 200), (b"Host: evil.example", 403), (b"Host: 127.0.0.1:1\r\nOrigin: http://evil", 403)):
            with socket.create_connection(("127.0.0.1", self.server.admin_port), timeout=20) as s:
                s.sendall(head(extra, method=b"GET", target=b"/admin/status"))
                self.assertEqual(int(s.recv(65536)[9:12]), status)

    def test_blocks_are_freed_when_a_client_disconnects(self):
        for stream in (True, False):
            body = json.dumps({"prompt": [5, 6], "max_tokens": 1500, "stream": stream, "ignore_eos": True, "n": 4}).encode()
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
                s.sendall(head(HOST, b"Content-Length: %d" % len(body)) + body)
                deadline = time.monotonic() + 20
                while self.server.get("/admin/status", admin=True)["running"] == 0:
                    self.assertLess(time.monotonic(), deadline)
                self.server.post("/admin/pause", {}, admin=True)  # so that the request does not end by itself
                self.addCleanup(self.server.post, "/admin/resume", {}, admin=True)
                self.assertEqual(self.server.get("/admin/status", admin=True)["running"], 1)
            while (status := self.server.get("/admin/status", admin=True))["running"]:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            self.assertEqual(status["blocks"]["device"]["used"], 0)
            self.server.post("/admin/resume", {}, admin=True)

    def test_parallel_choices_share_their_prompt(self):
        body = json.dumps({"prompt": [5] * 512, "max_tokens": 1000, "stream": True, "ignore_eos": True, "n": 8}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            s.sendall(head(HOST, b"Content-Length: %d" % len(body)) + body)
            with s.makefile("rb") as f:
                while b'"text"' not in f.readline():
                    pass
                blocks = self.server.get("/admin/blocks", admin=True)
        shared = [b for b in blocks["blocks"] if b["ref_count"] == 8]
        # all 32 blocks of the prompt except the last, into which each choice writes
        self.assertGreaterEqual(len(shared), 31)


if __name__ == "__main__":
    verdict.run_tests()
