"""deploy/fetch-model ORG/NAME against a hub of the test's own, and quire serve ORG/NAME of what it fetched."""
import hashlib
import http.server
import json
import os
import subprocess
import tempfile
import threading
import unittest

import verdict
from server import QUIRE, ROOT, TINY, Server

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NOT_SERVED = {"pytorch_model.bin": b"weights of another form", "README.md": b"words"}


class Hub(http.server.ThreadingHTTPServer):
    """One repository, Org/Tiny, as the client library asks for it."""

    def __init__(self):
        self.files = dict(NOT_SERVED)
        for name in os.listdir(TINY):
            with open(os.path.join(TINY, name), "rb") as file:
                self.files[name] = file.read()
        self.sent = []  # files whose content was asked for
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
            page = {"id": "Org/Tiny", "modelId": "Org/Tiny", "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
            return self.reply(200, json.dumps(page).encode(), Content_Type="application/json")
        if path.startswith("/api/models/Org/Tiny/tree/"):
            page = [{"type": "file", "path": name, "size": len(data), "oid": "0" * 40} for name, data in files.items()]
            return self.reply(200, json.dumps(page).encode(), Content_Type="application/json")
        name = path.rpartition("/")[2]
        if path in (f"/Org/Tiny/resolve/{COMMIT}/{name}", f"/Org/Tiny/resolve/main/{name}") and name in files:
            if self.command == "GET":
                self.server.sent.append(name)
            tag = hashlib.sha1(files[name]).hexdigest()
            return self.reply(200, files[name], ETag=f'"{tag}"', X_Repo_Commit=COMMIT)
        return self.reply(404, b"{}", X_Error_Code="RepoNotFound")

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

    def test_fetch_model_fetches_a_model_once_and_quire_serves_it(self):
        refused = subprocess.run([QUIRE, "serve", "Org/Tiny"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                                 env={**os.environ, **self.env})
        self.assertEqual(refused.returncode, 2)
        self.assertIn("deploy/fetch-model Org/Tiny fetches it", refused.stdout + refused.stderr)

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
