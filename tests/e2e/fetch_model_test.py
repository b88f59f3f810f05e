"""Tests deploy/fetch-model ORG/NAME with a hub of the test's own, and quire serve ORG/NAME with the fetched model."""
import contextlib
import hashlib
import http.server
import json
import os
import pty
import re
import subprocess
import tempfile
import threading
import unittest

import verdict
from server import QUIRE, ROOT, TINY, Server

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NOT_SERVED = {"pytorch_model.bin": b"weights of another form", "README.md": b"words"}


class Hub(http.server.ThreadingHTTPServer):
    """A hub with one repository, Org/Tiny, in the form that the client library reads."""

    def __init__(self):
        self.files = dict(NOT_SERVED)
        for name in os.listdir(TINY):
            with open(os.path.join(TINY, name), "rb") as file:
                self.files[name] = file.read()
        self.sent = []  # files whose contents were requested
        self.cut = set()  # files of which the next answer ends in the middle
        self.begun = []  # offsets of answers to requests for a later part of a file
        self.damaged = set()  # files that are sent with other bytes than their hash says
        self.commit = COMMIT  # the commit that the hub names
        self.headers = {}  # headers of every file in place of its true headers
        super().__init__(("127.0.0.1", 0), Answer)
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.server_address[1]

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        path, files = self.path.split("?")[0], self.server.files
        if path in ("/api/models/Org/Tiny/revision/main", "/api/models/Org/Tiny"):
            page = {"id": "Org/Tiny", "modelId": "Org/Tiny", "sha": self.server.commit, "siblings": [{"rfilename": name} for name in files]}
            return self.reply(200, json.dumps(page).encode(), Content_Type="application/json")
        if path.startswith("/api/models/Org/Tiny/tree/"):
            page = [{"type": "file", "path": name, "size": len(data), "oid": "0" * 40} for name, data in files.items()]
            return self.reply(200, json.dumps(page).encode(), Content_Type="application/json")
        name = path.rpartition("/")[2]
        if path in (f"/Org/Tiny/resolve/{COMMIT}/{name}", f"/Org/Tiny/resolve/main/{name}") and name in files:
            if self.command == "GET":
                self.server.sent.append(name)
            return self.send_file(name, files[name])
        return self.reply(404, b"{}", X_Error_Code="RepoNotFound")

    def send_file(self, name, data):
        large = name.endswith((".safetensors", ".gguf"))  # the hub names large files by another hash
        tag = hashlib.sha256(data).hexdigest() if large else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        if name in self.server.damaged:
            data = data[:-1] + bytes([data[-1] ^ 1])
        headers = {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT, **self.server.headers}
        first = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if first and int(first[1]) < len(data) and self.command == "GET":
            begin = int(first[1])
            if begin > 0:
                self.server.begun.append(begin)
            return self.reply(206, data[begin:], **headers, Content_Range=f"bytes {begin}-{len(data) - 1}/{len(data)}")
        if name in self.server.cut and self.command == "GET":
            self.server.cut.remove(name)
            self.close_connection = True
            return self.reply(200, data[:len(data) // 2], **{**headers, "Content-Length": str(len(data))})
        return self.reply(200, data, **headers)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class FetchModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hub, cls.home = Hub(), tempfile.TemporaryDirectory(prefix="quire-test-")
        cls.env = {"HF_ENDPOINT": cls.hub.url, "HF_HOME": cls.home.name, "HF_HUB_DISABLE_XET": "1"}

    @classmethod
    def tearDownClass(cls):
        cls.hub.close()
        cls.home.cleanup()

    def fetch(self, *arguments):
        return subprocess.run([os.path.join(ROOT, "deploy", "fetch-model"), *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=300, env={**os.environ, **self.env})

    def setUp(self):
        self.cache = tempfile.TemporaryDirectory(prefix="quire-test-", dir=self.home.name)
        self.addCleanup(self.cache.cleanup)
        self.env = {**self.env, "HF_HOME": self.cache.name}

    def refused(self, *arguments):
        return subprocess.run([QUIRE, "serve", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                              env={**os.environ, **self.env})

    def test_fetch_model_fetches_a_model_once_and_quire_serves_it(self):
        refused = self.refused("Org/Tiny")
        self.assertEqual(refused.returncode, 2)
        self.assertRegex(refused.stdout + refused.stderr, rf"add --fetch to fetch it from {self.hub.url}, or run /\S+/fetch-model Org/Tiny\n")

        fetched = self.fetch("Org/Tiny")
        self.assertEqual(fetched.returncode, 0, fetched.stderr)
        folder = fetched.stdout.strip()
        self.assertEqual(sorted(os.listdir(folder)), sorted(name for name in os.listdir(TINY) if name.endswith((".json", ".safetensors"))))
        with Server("Org/Tiny", "-tp=2", env=self.env) as server:
            status, answer = server.post("/v1/completions", {"model": "Org/Tiny", "prompt": [5, 6, 7], "max_tokens": 4})
            self.assertEqual((status, answer["model"]), (200, "Org/Tiny"), answer)

        sent = len(self.hub.sent)
        self.assertEqual(self.fetch("Org/Tiny").stdout.strip(), folder)
        self.assertEqual(len(self.hub.sent), sent, "everything was there already")

    def test_fetch_flag_fetches_a_model_and_continues_an_interrupted_fetch(self):
        self.hub.files["more.safetensors"] = bytes(24 << 20)  # the client stores arrived parts in pieces of 10 MB
        self.addCleanup(self.hub.files.pop, "more.safetensors")
        self.hub.cut.add("more.safetensors")
        with Server("Org/Tiny", "--fetch", env=self.env, wait=False) as server:
            server.wait_until_ready(300)
            self.assertEqual(server.post("/v1/completions", {"model": "Org/Tiny", "prompt": [5, 6, 7], "max_tokens": 4})[0], 200)
        self.assertEqual(self.hub.begun, [10 << 20])
        # A complete model needs no hub, with the flag or without it.
        sent = len(self.hub.sent)
        for flags in ([], ["--fetch"]):
            with Server("Org/Tiny", *flags, env={**self.env, "HF_ENDPOINT": "http://127.0.0.1:9"}) as server:
                self.assertEqual(server.get("/v1/models")["data"][0]["id"], "Org/Tiny")
        self.assertEqual(len(self.hub.sent), sent)
        # A snapshot without weights is fetched completely.
        snapshot = os.path.join(self.cache.name, "hub", "models--Org--Tiny", "snapshots", COMMIT)
        weights = os.path.join(snapshot, "model.safetensors")
        os.remove(os.path.realpath(weights))
        os.remove(weights)
        with Server("Org/Tiny", "--fetch", env=self.env, wait=False) as server:
            server.wait_until_ready(300)
            self.assertEqual(server.get("/v1/models")["data"][0]["id"], "Org/Tiny")

    def test_fetch_flag_ends_with_status_1_when_the_hub_fails(self):
        self.env["HF_ENDPOINT"] = "http://127.0.0.1:9"
        gone = self.refused("Org/Tiny", "--fetch")
        self.assertEqual(gone.returncode, 1, gone.stderr)
        self.assertIn("Org/Tiny: could not be fetched from http://127.0.0.1:9", gone.stderr)

    def test_fetch_model_removes_a_damaged_file(self):
        for name in ("model.safetensors", "config.json"):
            self.hub.damaged.add(name)
            damaged = self.fetch("Org/Tiny")
            self.hub.damaged.clear()
            self.assertEqual((damaged.returncode, damaged.stdout), (1, ""), damaged.stderr)
            self.assertRegex(damaged.stderr, f"{name} is damaged: its hash is [0-9a-f]+, not [0-9a-f]+; it was removed")
            whole = self.fetch("Org/Tiny")
            self.assertEqual(whole.returncode, 0, whole.stderr)
            with open(os.path.join(whole.stdout.strip(), name), "rb") as file:
                self.assertEqual(file.read(), self.hub.files[name])
            self.cache.cleanup()

    def test_fetch_model_writes_nothing_where_a_hub_names_paths_instead_of_hashes(self):
        outside = os.path.join(self.home.name, "planted")
        upwards = os.path.relpath(outside, os.path.join(self.cache.name, "hub", "models--Org--Tiny", "blobs"))
        for headers, commit in (({"ETag": f'"{outside}"'}, COMMIT), ({"X-Linked-Etag": f'"{upwards}"'}, COMMIT), ({"X-Repo-Commit": upwards}, COMMIT), ({}, upwards)):
            self.hub.headers, self.hub.commit = headers, commit
            try:
                refused = self.fetch("Org/Tiny")
            finally:
                self.hub.headers, self.hub.commit = {}, COMMIT
            self.assertEqual((refused.returncode, refused.stdout), (1, ""), refused.stderr)
            self.assertRegex(refused.stderr, "the hub (gave no hash|named no commit)")
            self.assertEqual([name for name in os.listdir(self.home.name) if name.startswith("planted")], [])

    def test_fetch_model_spells_out_control_characters_of_names(self):
        files, self.hub.files = self.hub.files, {"a.gguf": b"a", "b\x1b]0;x\x07.gguf": b"b"}
        try:
            several = self.fetch("Org/Tiny")
        finally:
            self.hub.files = files
        self.assertIn(r"a.gguf, b\x1b]0;x\x07.gguf", several.stderr)

    def test_fetch_model_takes_the_only_gguf_model_and_lists_several(self):
        files, self.hub.files = self.hub.files, {"README.md": b"words", "m-Q4-00001-of-00002.gguf": b"a", "m-Q4-00002-of-00002.gguf": b"b", "mmproj.gguf": b"c"}
        try:
            fetched = self.fetch("Org/Tiny")
            self.assertEqual(fetched.returncode, 0, fetched.stderr)
            self.assertEqual(sorted(os.listdir(fetched.stdout.strip())), ["m-Q4-00001-of-00002.gguf", "m-Q4-00002-of-00002.gguf"])
            self.hub.files["m-Q8.gguf"] = b"d"
            several = self.fetch("Org/Tiny")
            self.assertEqual(several.returncode, 1)
            self.assertIn("several GGUF models; fetch one of them: fetch-model Org/Tiny FILE, of m-Q4-00001-of-00002.gguf", several.stderr)
        finally:
            self.hub.files = files

    def test_fetch_model_takes_the_gguf_model_of_a_kind(self):
        files = {"m-Q4_K_M.gguf": b"a", "m-Q8_0-00001-of-00002.gguf": b"b", "m-Q8_0-00002-of-00002.gguf": b"c", "mmproj-Q8_0.gguf": b"d"}
        files, self.hub.files = self.hub.files, files
        try:
            fetched = self.fetch("Org/Tiny:q8_0")
            self.assertEqual(fetched.returncode, 0, fetched.stderr)
            self.assertLessEqual({"m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"}, set(os.listdir(fetched.stdout.strip())))
            missing = self.fetch("Org/Tiny:Q2_K")
            self.assertEqual(missing.returncode, 1)
            self.assertIn("no GGUF models of Q2_K; give one of: m-Q4_K_M.gguf, m-Q8_0-00001-of-00002.gguf", missing.stderr)
        finally:
            self.hub.files = files

    def test_user_at_a_terminal_is_asked_before_a_model_is_fetched(self):
        for answer, status in (("n", 2), ("y", 0)):
            parent, child = pty.openpty()
            asked = subprocess.Popen([QUIRE, "plan", "Org/Tiny", "--no-speed"], stdin=child, stdout=subprocess.DEVNULL, stderr=child,
                                     env={**os.environ, **self.env}, start_new_session=True)
            os.close(child)
            said = b""
            while b"[y/N]" not in said:
                said += os.read(parent, 4096)
            os.write(parent, answer.encode() + b"\n")
            with contextlib.suppress(OSError):  # the terminal's end
                while more := os.read(parent, 4096):
                    said += more
            os.close(parent)
            self.assertEqual(asked.wait(300), status, said)
            self.assertIn(f"Org/Tiny is not here. Fetch it from {self.hub.url} into {self.cache.name}".encode(), said)

    def test_fetch_model_fetches_one_file_of_a_repository(self):
        fetched = self.fetch("Org/Tiny", "README.md")
        self.assertEqual(fetched.returncode, 0, fetched.stderr)
        with open(fetched.stdout.strip(), "rb") as file:
            self.assertEqual(file.read(), NOT_SERVED["README.md"])

    def test_fetch_model_reports_a_missing_repository_in_one_line(self):
        missing = self.fetch("Org/Missing")
        self.assertEqual((missing.returncode, missing.stdout), (1, ""))
        self.assertRegex(missing.stderr.strip().splitlines()[-1], "^fetch-model: Org/Missing: .*404")
        for arguments in (["--nonsense"], ["/a/path"], ["a/b/c"], ["Org/Tiny", "a", "b"]):
            self.assertEqual(self.fetch(*arguments).returncode, 2, arguments)


if __name__ == "__main__":
    verdict.run_tests()
