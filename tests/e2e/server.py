"""Runs a Quire server as a child process for tests: finds free ports, waits for readiness, and leaves nothing behind."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("QUIRE_TEST_BUILD", os.path.join(ROOT, "build"))
QUIRE = os.path.join(BUILD, "quire")
MODELS = os.path.join(ROOT, "tests", "golden", "models")
TINY = os.path.join(MODELS, "gqa")
REAL = os.environ.get("QUIRE_TEST_MODEL")


given_ports = set()


def free_port():
    """Returns a port on which no program listens. Each call returns another port, because the system may return the same one twice."""
    while True:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        if port not in given_ports:
            given_ports.add(port)
            return port


def distinct(pairs):
    """Checks that an object of parsed JSON has no equal keys. Python would take the last one; other parsers refuse them."""
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


class Server:
    """Runs `quire serve` with these flags. with Server("--model", ...) as s: requests go to s.url, admin requests to s.admin_url. prefix:
    words before the command."""

    def __init__(self, *flags, model=None, env=None, wait=True, prefix=()):
        self.port, self.admin_port = free_port(), free_port()
        self.url, self.admin_url = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.admin_port}"
        self.log = tempfile.NamedTemporaryFile("w+", prefix="quire-test-", suffix=".log")
        command = [*prefix, QUIRE, "serve", "--port", str(self.port), "--admin-port", str(self.admin_port), *flags]
        if model:
            command += ["--model", model]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env={**os.environ, **(env or {})})
        if wait:
            try:
                self.wait_until_ready()
            except BaseException:
                self.__exit__()  # no caller can clean up: there is no object yet
                raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def text(self):
        with open(self.log.name) as f:
            return f.read()

    def reload(self, expect):
        """Sends SIGHUP, and waits until the log contains `expect` once more."""
        before = self.text().count(expect)
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while self.text().count(expect) == before:
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.02)

    def wait_until_ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.text()}")
            try:
                urllib.request.urlopen(self.url + "/ready", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.02)
        raise AssertionError(f"not ready in {seconds} s:\n{self.text()}")

    def wait_until_running(self, count=1, seconds=60):
        """Waits until this many requests run, so that later requests come while they run."""
        deadline = time.monotonic() + seconds
        while (running := self.get("/admin/status", admin=True)["running"]) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{running} of {count} requests run after {seconds} s:\n{self.text()}")

    def get(self, path, admin=False):
        with urllib.request.urlopen((self.admin_url if admin else self.url) + path, timeout=30) as response:
            body = response.read()
        return json.loads(body) if path != "/metrics" else body.decode()

    def post(self, path, body, timeout=120, admin=False, headers=None):
        """Sends a POST request. Returns (status, parsed answer). `body` may be raw bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = (self.admin_url if admin else self.url) + path
        request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, json.load(response, object_pairs_hook=distinct)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def stream(self, path, body, timeout=120):
        """Returns the parsed events of a whole stream, without [DONE]."""
        data = json.dumps({**body, "stream": True}).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=timeout) as response:
            lines = [line[6:] for line in response.read().split(b"\n") if line.startswith(b"data: ")]
        assert lines[-1] == b"[DONE]", lines[-1]
        return [json.loads(line) for line in lines[:-1]]

    def worker_pids(self):
        return [rank["pid"] for rank in self.get("/admin/status", admin=True)["ranks"]]

    def admin_get(self, path, token):
        """Returns an answer of an admin port that needs a token."""
        request = urllib.request.Request(self.admin_url + path, headers={"Authorization": "Bearer " + token})
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def terminate(self, seconds=40):
        """Sends SIGTERM and returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)


def altered_tiny(directory, **changes):
    """Copies the tiny model and returns the path. tokenizer=f: f changes the content of tokenizer.json in place."""
    path = os.path.join(directory, "tiny")
    shutil.copytree(TINY, path)
    for name, change in changes.items():
        with open(os.path.join(path, name + ".json"), "r+", encoding="utf-8") as f:
            content = json.load(f)
            change(content)
            f.seek(0)
            f.truncate()
            json.dump(content, f)
    return path


def alive(pid):
    """Returns True while the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def grammar_compilers(server):
    """Returns the ids of the server's processes that compile grammars."""
    found, tasks = [], f"/proc/{server.process.pid}/task"
    children = set()
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/children", encoding="utf-8") as f:
            children |= set(f.read().split())
    for child in children:
        with open(f"/proc/{child}/cmdline", "rb") as f:
            if b"compile-grammars" in f.read():
                found.append(int(child))
    return found


def wait_gone(pids, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(alive(pid) for pid in pids):
        time.sleep(0.02)
    return [pid for pid in pids if alive(pid)]


def found_as_promised(test, log):
    """Expects that every silent rank in the log was found in time: at most 2 s after its last heartbeat, plus 4 ms and four times the
    longest delay with which the machine woke threads."""
    for silent, late in re.findall(r"is silent for (\d+) ms.*woke threads up to (\d+) ms late", log):
        test.assertLessEqual(int(silent), 2000 + 4 * (int(late) + 1))
