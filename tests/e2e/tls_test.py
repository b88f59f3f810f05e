"""Tests TLS on both ports: versions, certificates, failing handshakes, hostile client hellos, and that requests work as they do in clear
text."""
import contextlib
import json
import os
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

import openai

import verdict
from server import QUIRE, TINY, Server

BODY = json.dumps({"prompt": [5], "max_tokens": 4, "ignore_eos": True}).encode()


def make_certificate(directory, name, *more):
    """Makes a self-signed certificate for localhost with the subject `name`. Returns the paths of the certificate and of its key."""
    certificate, key = (os.path.join(directory, name + end) for end in (".pem", ".key"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate, *more],
                   check=True, capture_output=True, stdin=subprocess.DEVNULL)
    os.chmod(key, 0o600)
    return certificate, key


def make_key(directory, kind, *options):
    """Makes a private key of the type `kind`, a word of `openssl genpkey`. Returns its path."""
    key = os.path.join(directory, kind + ".key")
    subprocess.run(["openssl", "genpkey", "-algorithm", kind, *options, "-out", key], check=True, capture_output=True, stdin=subprocess.DEVNULL)
    os.chmod(key, 0o600)
    return key


def head(method, path, *lines, body=b""):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *lines]).encode() + b"\r\n\r\n" + body


class TlsServer(Server):
    """Runs a server with TLS. It waits until the log says "ready after", because the base class would send requests in clear text."""

    def __init__(self, *flags, **named):
        super().__init__(*flags, wait=False, **named)
        self.url, self.admin_url = self.url.replace("http:", "https:"), self.admin_url.replace("http:", "https:")
        deadline = time.monotonic() + 60
        while "ready after" not in self.text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                text = self.text()
                self.__exit__()
                raise AssertionError(text)
            time.sleep(0.02)


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.certificate, cls.key = make_certificate(cls.directory.name, "first")
        topology = os.path.join(cls.directory.name, "t.yaml")
        with open(topology, "w", encoding="utf-8") as f:
            f.write(f"model: {{path: {TINY}}}\nserver: {{limits: {{head_seconds: 2, connections: 40}}}}\nadmin: {{tls: {{certificate: {cls.certificate}, key: {cls.key}}}}}\n")
        cls.server = TlsServer(topology, "-tp", "1", "--ssl-certfile", cls.certificate, "--ssl-keyfile", cls.key)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.directory.cleanup()

    def plain(self):
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=20)

    def connect(self, certificate=None, port=None, **settings):
        """Returns a connection that trusts only this certificate."""
        context = ssl.create_default_context(cafile=certificate or self.certificate)
        for name, value in settings.items():
            setattr(context, name, value)
        raw = socket.create_connection(("127.0.0.1", port or self.server.port), timeout=20)
        try:
            return context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False)
        except BaseException:
            raw.close()
            raise

    def admin(self, method, path):
        with self.connect(port=self.server.admin_port) as s:
            s.sendall(head(method, path, "Connection: close"))
            return json.loads(s.makefile("rb").read().partition(b"\r\n\r\n")[2])

    @contextlib.contextmanager
    def paused(self):
        self.admin("POST", "/admin/pause")
        try:
            yield
        finally:
            self.admin("POST", "/admin/resume")

    def await_requests(self, number):
        deadline = time.monotonic() + 20
        while (status := self.admin("GET", "/admin/status"))["running"] + status["waiting"] != number:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_openai_client_gets_answers_and_streams_over_tls(self):
        http = openai.DefaultHttpxClient(verify=ssl.create_default_context(cafile=self.certificate))
        with openai.OpenAI(base_url=f"https://localhost:{self.server.port}/v1", api_key="none", max_retries=0, http_client=http) as client:
            ask = dict(model="gqa", prompt=[5, 6, 7], max_tokens=200, temperature=0, extra_body={"ignore_eos": True})
            whole = client.completions.create(**ask).choices[0].text
            self.assertEqual("".join(chunk.choices[0].text for chunk in client.completions.create(**ask, stream=True)), whole)
            large = client.completions.create(model="gqa", prompt=[5] * 1500, max_tokens=100, logprobs=5, n=8)  # many records each way
            self.assertEqual(len(large.choices), 8)

    def test_admin_port_answers_over_tls(self):
        self.assertEqual(self.admin("GET", "/admin/status")["running"], 0)

    def test_tls_12_and_13_are_accepted_and_older_versions_refused(self):
        for version, spoken in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
            with self.connect(minimum_version=version, maximum_version=version) as s:
                self.assertEqual(s.version(), spoken)
                self.assertRegex(s.cipher()[0], "GCM|CHACHA20")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")  # lifts the client's own ban of old versions
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with self.plain() as raw, self.assertRaisesRegex(ssl.SSLError, "(?i)protocol"):
            old.wrap_socket(raw)

    def test_handshake_refuses_alpn_protocols_other_than_http_11(self):
        def connect(*protocols):
            context = ssl.create_default_context(cafile=self.certificate)
            context.set_alpn_protocols(protocols)
            with self.plain() as raw, context.wrap_socket(raw, server_hostname="localhost") as s:
                return s.selected_alpn_protocol()

        self.assertEqual(connect("h2", "http/1.1"), "http/1.1")
        with self.assertRaises(ssl.SSLError):
            connect("h2")

    def test_clear_text_request_gets_400_that_names_https(self):
        with self.plain() as s:
            s.sendall(head("POST", "/v1/completions", "Authorization: Bearer k", body=BODY))
            reply = s.makefile("rb").read()
        self.assertTrue(reply.startswith(b"HTTP/1.1 400 "), reply)
        self.assertIn(b"https://", reply)
        with self.plain() as s:  # these bytes are neither TLS nor HTTP
            s.sendall(b"\x00\x01\x02\x03")
            self.assertEqual(s.recv(100), b"")

    def test_slow_tls_handshakes_are_closed_and_count_as_connections(self):
        slow = [self.plain() for _ in range(40)]
        try:
            for s in slow[:20]:
                s.sendall(b"\x16\x03\x01\x02\x00\x01")
            begin = time.monotonic()
            with self.assertRaises((ssl.SSLError, OSError)):  # all 40 connections that the server allows are open
                self.connect().close()
            for s in slow:
                with contextlib.suppress(ConnectionResetError):
                    while s.recv(4096):
                        pass
            self.assertLess(time.monotonic() - begin, 15)  # head_seconds is 2
        finally:
            for s in slow:
                s.close()
        deadline = time.monotonic() + 10
        while True:
            try:
                self.connect().close()
                break
            except (ssl.SSLError, OSError):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)

    def test_tls_connection_serves_pipelined_requests(self):
        with self.connect() as s, s.makefile("rb") as f:
            for _ in range(3):
                s.sendall(head("POST", "/v1/completions", body=BODY))
                self.assertEqual(self.read_answer(f)[0], 200)
            s.sendall(head("POST", "/v1/completions", body=BODY) * 5 + head("GET", "/version", "Connection: close"))
            statuses = [self.read_answer(f)[0] for _ in range(6)]
            self.assertEqual(statuses, [200] * 6)
            self.assertEqual(f.read(), b"")  # the server ends TLS properly (close_notify), or this would raise

    def test_request_head_in_too_many_tls_records_is_refused(self):
        for padding, status in ((200, 200), (600, 400)):
            with self.connect() as s, s.makefile("rb") as f:
                with contextlib.suppress(ssl.SSLError, ConnectionError):
                    for byte in head("GET", "/version", "X-Padding: " + padding * "x"):
                        s.sendall(bytes([byte]))
                self.assertEqual(self.read_answer(f)[0], status)

    def read_answer(self, f):
        status = int(f.readline().split()[1])
        length = 0
        while (line := f.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, f.read(length)

    def test_request_sent_while_another_runs_is_answered_after_it_over_tls(self):
        long = json.dumps({"prompt": [5], "max_tokens": 300, "ignore_eos": True}).encode()
        with self.connect() as s, s.makefile("rb") as f:
            s.sendall(head("POST", "/v1/completions", body=long))
            time.sleep(0.05)
            s.sendall(head("GET", "/version"))
            self.assertIn(b"choices", self.read_answer(f)[1])
            self.assertIn(b"version", self.read_answer(f)[1])

    def test_tls_requests_end_when_the_client_disconnects(self):
        def goodbye(s):
            with contextlib.suppress(OSError):
                s.unwrap()  # the socket stays open: only TLS has ended

        body = json.dumps({"prompt": [5, 6], "max_tokens": 2000, "ignore_eos": True, "n": 4, "stream": True}).encode()
        for leave in (goodbye, lambda s: s.shutdown(socket.SHUT_WR), lambda s: s.close()):
            with self.connect() as s, self.paused():  # the request can end only if the client leaves
                s.settimeout(2)
                s.sendall(head("POST", "/v1/completions", body=body))
                self.await_requests(1)
                leave(s)
                self.await_requests(0)

    def test_sighup_loads_a_new_certificate_and_keeps_the_old_one_when_it_is_bad(self):
        def subject(trusted):
            with self.connect(trusted) as s:
                return dict(pair[0] for pair in s.getpeercert()["subject"])["commonName"]

        def put(path, content):
            with open(path, "wb") as f:
                f.write(content)

        def get(path):
            with open(path, "rb") as f:
                return f.read()

        second, second_key = make_certificate(self.directory.name, "second")
        first_pair = get(self.certificate), get(self.key)
        with self.connect() as open_before:
            put(self.certificate, get(second))
            self.server.reload("kept the certificate as it was")  # the key still belongs to the first certificate
            put(self.certificate, first_pair[0])
            self.assertEqual(subject(self.certificate), "first")
            # A renewal may change the type of the key. The server may read the files when only one of them is new.
            for kind in ("RSA", "ED25519"):
                put(self.key, get(make_key(self.directory.name, kind)))
                self.server.reload("kept the certificate as it was")
                self.assertEqual(subject(self.certificate), "first")
            put(self.certificate, get(second))
            put(self.key, get(second_key))
            self.server.reload("read the certificate again")
            self.assertEqual(subject(second), "second")
            with self.assertRaises(ssl.SSLCertVerificationError):
                put(os.path.join(self.directory.name, "old.pem"), first_pair[0])
                subject(os.path.join(self.directory.name, "old.pem"))
            open_before.sendall(head("GET", "/version", "Connection: close"))
            self.assertIn(b"version", open_before.makefile("rb").read())
        os.chmod(self.key, 0o644)
        self.server.reload("kept the certificate as it was")
        os.chmod(self.key, 0o600)
        put(self.certificate, first_pair[0])
        put(self.key, first_pair[1])
        self.server.reload("read the certificate again")


class HelloTest(unittest.TestCase):
    """Tests hellos of clients: unfinished, malformed and oversized ones, and more than the server handles in one moment (400 a second,
    with bursts of 100)."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        certificate, key = make_certificate(folder.name, "first")
        self.context = ssl.create_default_context(cafile=certificate)
        self.server = TlsServer("--threads-per-worker", "1", "--ssl-certfile", certificate, "--ssl-keyfile", key, "--set",
                                "server.limits.head_seconds=2", "--set", "server.limits.connections=4096", model=TINY)
        self.addCleanup(self.server.__exit__)

    def hello(self):
        outgoing = ssl.MemoryBIO()
        client = self.context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            client.do_handshake()
        return outgoing.read()

    def send(self, count, data):
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", self.server.port), timeout=60)
            self.addCleanup(one.close)
            one.sendall(data)
            yield one

    def test_unfinished_client_hellos_are_closed(self):
        for one in list(self.send(1200, self.hello()[:-1])):
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(one.recv(1), b"")

    def test_connections_silent_after_the_client_hello_are_closed(self):
        for one in list(self.send(50, self.hello())):
            with contextlib.suppress(ConnectionResetError):
                while one.recv(4096):  # the server's answer to the hello
                    pass

    def resident_mib(self):
        with open(f"/proc/{self.server.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024

    def test_memory_of_unfinished_client_hellos_is_bounded_and_freed(self):
        # Hellos with only a record header, with a record that has begun, with one byte missing, and whole hellos after
        # which nothing comes.
        hello = self.hello()
        before = self.resident_mib()
        for data in (hello[:9], hello[:200], hello[:-1], hello):
            for _ in range(2):
                crowd = list(self.send(1500, data))
                self.assertLess(self.resident_mib() - before, 180, len(data))
                for one in crowd:
                    one.close()
        deadline = time.monotonic() + 20
        while self.resident_mib() - before > 120:
            self.assertLess(time.monotonic(), deadline, self.resident_mib() - before)
            time.sleep(0.2)

    def test_malformed_and_oversized_client_hellos_are_closed(self):
        hello = self.hello()
        room = b"\x01\x01\xff\xb8"  # the head of a hello of 131,000 bytes
        pieces = b"".join(hello[:3] + b"\x00\x01" + hello[i:i + 1] for i in range(5, len(hello)))
        for data in (pieces, hello[:5] + room, hello[:3] + b"\x00\x03" + hello[5:9], hello[:5] + b"\x02" + hello[6:]):
            one, = self.send(1, data)
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(one.recv(1), b"")

    def test_client_hello_in_pieces_is_answered(self):
        hello = self.hello()
        one, = self.send(1, hello[:3])
        for piece in (hello[3:7], hello[7:20], hello[20:]):
            time.sleep(0.05)
            one.sendall(piece)
        self.assertEqual(one.recv(1), b"\x16")

    def test_client_hello_with_oversized_lists_is_refused(self):
        def listed(numbers):
            return (2 * len(numbers)).to_bytes(2, "big") + b"".join(number.to_bytes(2, "big") for number in numbers)

        def first_byte(ciphers, groups, *more):
            extensions = [(10, listed(groups)), (11, b"\x01\x00"), (13, listed([0x0403, 0x0804, 0x0401])), *more]
            tail = b"".join(kind.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data for kind, data in extensions)
            body = b"\x03\x03" + bytes(32) + b"\x00" + listed(ciphers) + b"\x01\x00" + len(tail).to_bytes(2, "big") + tail
            message = b"\x01" + len(body).to_bytes(3, "big") + body
            one, = self.send(1, b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message)
            return one.recv(1)

        ciphers, groups, nobodys = [0xC02B, 0xC02F], [0x001D, 0x0017], 0x7F00
        self.assertEqual(first_byte(ciphers, groups), b"\x16")
        self.assertEqual(first_byte(ciphers, [nobodys] * 4000 + groups), b"\x15")
        self.assertEqual(first_byte(ciphers * 2000, groups), b"\x15")
        name = b"\x30\x00"
        authorities = 80 * (len(name).to_bytes(2, "big") + name)
        self.assertEqual(first_byte(ciphers, groups, (47, len(authorities).to_bytes(2, "big") + authorities)), b"\x15")
        self.assertEqual(first_byte(ciphers, groups, (nobodys, bytes(2000))), b"\x16", "what is not known is not read")

    def test_slow_key_exchange_groups_are_not_accepted(self):
        def agree(groups):
            return subprocess.run(["openssl", "s_client", "-groups", groups, "-connect", f"127.0.0.1:{self.server.port}"], stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=60).returncode == 0

        for groups, agreed in (("X25519", True), ("P-256", True), ("P-384", False), ("ffdhe2048", False), ("ffdhe8192", False), ("P-384:P-256", True)):
            with self.subTest(groups=groups):
                self.assertEqual(agree(groups), agreed)

    def test_too_many_records_after_the_client_hello_close_the_connection(self):
        change = b"\x14\x03\x03\x00\x01\x01"  # TLS 1.3 ignores this record
        one, = self.send(1, self.hello())
        self.assertEqual(one.recv(1), b"\x16")
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            for _ in range(10000):
                one.sendall(change)
                time.sleep(0.001)

    def test_tls_key_updates_are_limited(self):
        request = head("GET", "/v1/models", "Connection: close").replace(b"\r\n", b"\n")
        for changes, answered in ((5, True), (60, False)):
            client = subprocess.Popen(["openssl", "s_client", "-tls1_3", "-crlf", "-connect", f"127.0.0.1:{self.server.port}"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for end in (client.wait, client.kill, client.stdout.close):
                self.addCleanup(end)
            seen = b""

            def read_until(text, times):
                nonlocal seen
                while seen.count(text) < times and (more := os.read(client.stdout.fileno(), 4096)):
                    seen += more

            read_until(b"Verify return code", 1)
            with contextlib.suppress(BrokenPipeError):
                for change in range(changes):
                    client.stdin.write(b"k\n")  # openssl takes a line "k" as a command
                    client.stdin.flush()
                    read_until(b"KEYUPDATE", change + 1)
                client.stdin.write(request)
                client.stdin.flush()
                read_until(b"HTTP/1.1 200", 1)
            with contextlib.suppress(BrokenPipeError):
                client.stdin.close()
            self.assertEqual(b"HTTP/1.1 200" in seen, answered, seen)

    def test_600_simultaneous_client_hellos_are_all_answered(self):
        for one in list(self.send(600, self.hello())):
            self.assertEqual(one.recv(1), b"\x16")

    def test_client_hello_with_an_unknown_group_gets_a_retry_request(self):
        x25519, p256, x448, nobodys = b"\x00\x1d", b"\x00\x17", b"\x00\x1e", b"\x7f\x00"
        # the client's groups, and the group and length of the key that it sends
        groups, key = x25519 + p256 + x448, x25519 + b"\x00\x20"
        hello = self.hello()
        self.assertEqual((hello.count(groups), hello.count(key)), (1, 1))
        hello = hello.replace(groups, x25519 + p256 + nobodys).replace(key, nobodys + b"\x00\x20")
        one, = self.send(1, hello)
        retry = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")  # RFC 8446, 4.1.3
        self.assertIn(retry, one.recv(4096))
        large = b"\x01\x01\xff\xb8" + bytes(131000)  # OpenSSL would wait for the whole message
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for i in range(0, len(large), 16000):
                one.sendall(hello[:3] + len(large[i:i + 16000]).to_bytes(2, "big") + large[i:i + 16000])
        with contextlib.suppress(ConnectionResetError):
            while one.recv(4096):  # the server's answer to the first hello
                pass


class StartTest(unittest.TestCase):
    def test_bad_certificates_and_keys_are_refused_with_the_remedy(self):
        with tempfile.TemporaryDirectory() as directory:
            certificate, key = make_certificate(directory, "good")
            _, other_key = make_certificate(directory, "other")
            rubbish, locked, shown = (os.path.join(directory, name) for name in ("rubbish", "locked", "shown"))
            with open(rubbish, "w", encoding="utf-8") as f:
                f.write("rubbish\n")
            os.chmod(rubbish, 0o600)
            subprocess.run(["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:x", "-out", locked], check=True, capture_output=True)
            os.chmod(locked, 0o600)
            subprocess.run(["cp", key, shown], check=True)
            os.chmod(shown, 0o644)
            slow = os.path.join(directory, "slow")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:4104", "-nodes", "-subj", "/CN=localhost", "-keyout", slow + ".key", "-out", slow],
                           check=True, capture_output=True)
            for flags, expected in (((certificate, other_key), "is not the private key"), ((rubbish, key), "no certificate chain"),
                                    ((certificate, make_key(directory, "RSA")), "is not the private key"),
                                    ((certificate, make_key(directory, "ED25519")), "is not the private key"),
                                    ((certificate, make_key(directory, "ED448")), "is not the private key"),
                                    ((certificate, make_key(directory, "X25519")), "is not the private key"),
                                    ((slow, key), "is not the private key"),
                                    ((certificate, rubbish), "is not the private key"), ((certificate, locked), "passphrase"),
                                    ((certificate, shown), "chmod 0600"), ((directory + "/none", key), "none"), ((certificate, directory + "/none"), "none"),
                                    ((slow, slow + ".key"), "4104 bits"),
                                    ((certificate, None), "both a certificate and its key")):
                words = ["--ssl-certfile", flags[0]] + (["--ssl-keyfile", flags[1]] if flags[1] else [])
                result = subprocess.run([QUIRE, "serve", "--model", TINY, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
                with self.subTest(flags=flags):
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertIn(expected, result.stderr)


if __name__ == "__main__":
    verdict.run_tests()
