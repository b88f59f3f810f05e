"""Tests smaller attacks: control characters in model files, folder names and output of workers, ids that reveal the number of requests,
forms from other sites, shares of a model that are out of range, and clients that take all descriptors of a process."""
import http.client
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import verdict
from server import BUILD, QUIRE, TINY, Server

ESCAPE = "\x1b]0;owned\x07\x1b[31m"


def text_of(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def gguf(path, architecture, tensor=None):
    """Writes a GGUF file that names an architecture and, if given, one tensor. Zeros fill the file after them."""
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 1 if tensor else 0, 1) + text_of("general.architecture") + struct.pack("<I", 8) + text_of(architecture))
        if tensor:
            file.write(text_of(tensor) + struct.pack("<IQIQ", 1, 32, 99, 0))
        file.write(bytes(4096))


class TerminalTest(unittest.TestCase):
    """Tests that programs print no control characters from model files, folder names and workers."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quire-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def said(self, *command):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        self.assertNotEqual(done.returncode, 0, command)
        return done.stdout

    def assert_spelled_out(self, said, command):
        self.assertNotIn(ESCAPE[:3].encode(), said, command)
        self.assertIn(b"\\x1b]0;", said, command)
        for line in said.splitlines():
            self.assertNotRegex(line, rb"[\x00-\x08\x0b-\x1f\x7f]", command)

    def test_commands_escape_control_characters_of_model_files(self):
        model = os.path.join(self.folder, "m.gguf")
        topology = os.path.join(self.folder, "t.yaml")
        with open(topology, "w", encoding="utf-8") as file:
            file.write(f"model: {{path: {model}}}\n")
        for architecture, tensor in ((ESCAPE, None), ("llama", ESCAPE)):
            gguf(model, architecture, tensor)
            for command in (("plan", "--no-speed", "--model", model), ("serve", "--model", model, "--port", "0", "--admin-port", "0"),
                            ("bench", "tokenizer", "--model", model), ("check", topology)):
                with self.subTest(command=command[0], tensor=tensor):
                    self.assert_spelled_out(self.said(QUIRE, *command), command)

    def test_coordinator_and_workers_escape_control_characters_of_a_folder_name(self):
        model = os.path.join(self.folder, ESCAPE)
        shutil.copytree(TINY, model)
        with Server("-tp", "2", model=model) as server:
            said = server.text().encode()
        self.assertNotIn(b"\x1b]0", said)
        os.remove(os.path.join(model, "config.json"))
        for command in ((os.path.join(BUILD, "quire-worker"), "--plan-memory", os.path.join(self.folder, ESCAPE, "missing")),
                        (QUIRE, "plan", "--no-speed", "--model", model), (QUIRE, "bench", "latency", "--model", model)):
            self.assert_spelled_out(self.said(*command), command)

    def test_server_escapes_control_characters_of_worker_output(self):
        """Uses a worker that prints control characters."""
        worker = os.path.join(self.folder, "worker")
        with open(worker, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nprintf '\\033]0;owned\\007\\033[31m \\302\\233 h\\303\\251\\n' >&2; exit 3\n")
        os.chmod(worker, 0o755)
        topology = os.path.join(self.folder, "t.yaml")
        with open(topology, "w", encoding="utf-8") as file:
            file.write(f"model: {{path: {TINY}}}\nlaunch: {{worker: {worker}}}\n")
        said = self.said(QUIRE, "serve", topology, "--port", "0", "--admin-port", "0")
        self.assertIn(b"\\x1b]0;owned\\x07\\x1b[31m \\u009b h\xc3\xa9\n", said)
        self.assertNotIn(b"\x1b]0", said)


class ServedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "1", model=TINY)
        cls.addClassCleanup(cls.server.__exit__)

    def test_request_ids_do_not_reveal_the_number_of_requests(self):
        numbers = []
        for _ in range(24):
            status, answer = self.server.post("/v1/completions", {"prompt": [5], "max_tokens": 1})
            self.assertEqual(status, 200)
            self.assertRegex(answer["id"], "^cmpl-[0-9a-f]{16}$")
            numbers.append(int(answer["id"][5:], 16))
        for bits in (8, 16, 20, 32, 48):  # low and high bits: no difference between neighbours may repeat often
            for ends in ([n % 2**bits for n in numbers], [n >> (64 - bits) for n in numbers]):
                steps = [(b - a) % 2**bits for a, b in zip(ends, ends[1:])]
                self.assertLess(max(map(steps.count, steps)), 8, bits)

    def test_both_ports_refuse_content_types_of_html_forms(self):
        for port in (self.server.port, self.server.admin_port):
            path = "/v1/completions" if port == self.server.port else "/admin/pause"
            for kind, status in (("text/plain", 415), ("application/x-www-form-urlencoded", 415), ("multipart/form-data; boundary=x", 415),
                                 ("TEXT/PLAIN;charset=UTF-8", 415)):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request("POST", path, b'{"prompt": [5], "max_tokens": 1}', {"Content-Type": kind})
                self.assertEqual(connection.getresponse().status, status, (path, kind))
                connection.close()
        self.assertEqual(self.server.post("/v1/completions", {"prompt": [5], "max_tokens": 1}, timeout=30)[0], 200, "nothing is paused")
        for headers in ({}, {"Content-Type": "application/json"}):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.admin_port, timeout=30)
            connection.request("POST", "/admin/resume", headers=headers)
            self.assertEqual(connection.getresponse().status, 200, headers)
            connection.close()

    def test_reshard_refuses_shares_out_of_range(self):
        for share in (1e308, 1e7, 1e-7, 5e-324, 0, -1):
            status, answer = self.server.post("/admin/reshard", {"tensor": 2, "shares": [1, share]}, admin=True)
            self.assertEqual(status, 400, share)
            self.assertIn("must be numbers from 1e-6 to 1e6", str(answer))
        self.assertEqual(self.server.post("/v1/completions", {"prompt": [5], "max_tokens": 1})[0], 200)


class DescriptorTest(unittest.TestCase):
    """Tests a process with few descriptors, and clients that hold all of them."""

    def test_both_ports_answer_when_idle_connections_hold_all_descriptors(self):
        for descriptors in (64, 100):
            with self.subTest(descriptors=descriptors), Server("-tp", "1", model=TINY, prefix=("prlimit", f"--nofile={descriptors}:{descriptors}")) as server:
                idle = []
                try:
                    for _ in range(3 * descriptors):
                        one = socket.create_connection(("127.0.0.1", server.port), timeout=20)
                        idle.append(one)
                    time.sleep(1)
                    for _ in range(3):
                        for url in (server.url + "/health", server.admin_url + "/admin/status"):
                            self.answered(url)
                finally:
                    for one in idle:
                        one.close()
                self.answered(server.url + "/health")

    def answered(self, url):
        """Expects an answer within 15 s, by one of the first few tries: connections in the kernel's queue come first."""
        host = url.split("/")[2].split(":")
        end = time.monotonic() + 15
        said = []
        while time.monotonic() < end:
            connection = http.client.HTTPConnection(host[0], int(host[1]), timeout=15)
            try:
                connection.request("GET", "/" + url.split("/", 3)[3])
                said.append(connection.getresponse().status)
                if said[-1] == 200:
                    return
            except OSError as error:
                said.append(repr(error))
            finally:
                connection.close()
        self.fail(f"{url}: {said[-5:]}")


if __name__ == "__main__":
    verdict.run_tests()
