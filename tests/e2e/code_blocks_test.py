"""Runs every code block of README, tutorial, serving, api and questions, in the order of the page and in one folder, with models
and servers of this machine. ELSEWHERE lists the lines that do not run here, with the place where they run."""
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import verdict
from server import QUIRE, REAL, ROOT, TINY, Server

PAGES = ("README.md", "docs/tutorial.md", "docs/serving.md", "docs/api.md", "docs/questions.md")

# Lines that this test does not run, with the reason.
ELSEWHERE = [
    (r"deploy/quickstart\b", "QuickstartTest below, with programs that are built already"),
    (r"tests/run\b", "it runs this test"),
    (r"curl .*load_lora_adapter\b.*", "e2e/live_adapters_test"),
    (r"deploy/fetch-model \S+", "e2e/fetch_model_test, with a hub of its own"),
    (r"pip install openai", "tests/requirements.txt has it"),
    (r"kill -9 \$\(pgrep -n quire-worker\)", "e2e/faults_test; here it might end the worker of another server"),
    (r"mpirun -np 2 quire-worker .*", "e2e/faults_test starts workers by hand"),
    (r"build/quire bench kernels .*", "needs a GPU: tests/gpu"),
    (r"build/quire serve .*\"mtp\".*", "needs a model with such layers: e2e/drafts_test"),
    (r"build/quire serve (two|deploy/topologies/two_nodes)\.yaml", "needs two hosts: e2e/multi_node_test"),
    (r"build/quire serve MODEL --lora-modules NAME=DIR", "needs an adapter: e2e/adapters_test"),
]
# Replacements for files named on pages. Longer words come first.
MODEL_WORDS = ("~/.cache/quire/SmolLM2-135M-Instruct.Q4_1.gguf", "DIR|FILE.gguf", "Qwen/Qwen3-0.6B", "ORG/NAME", "--model FILE", "--model DIR", "serve MODEL")


def blocks(page):
    """Returns (line, text) of each code block."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        lines = f.read().split("\n")
    fences = [i for i, line in enumerate(lines) if line.startswith("```")]
    assert len(fences) % 2 == 0, page
    return [(begin + 2, "\n".join(lines[begin + 1:end])) for begin, end in zip(fences[::2], fences[1::2])]


def commands(text):
    """Returns the commands of a block of shell. Comments are removed, continued lines are joined, and a here-document belongs to
    its command."""
    text = re.sub(r"\\\n\s*", "", text)
    found, document = [], None
    for line in text.split("\n"):
        if document is not None:
            found[-1] += "\n" + line
            document = None if line == document else document
            continue
        line = re.sub(r"(?:^|\s+)#(?: .*)?$", "", line)
        if line:
            found.append(line)
        if mark := re.search(r"<< '?(\w+)'?$", line):
            document = mark[1]
    return found


class CodeBlocksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kept = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.server = Server("-tp", "1", "--max-model-len", "300", "--batch-dir", os.path.join(kept, "batches"), model=TINY)  # short answers end soon
        cls.addClassCleanup(cls.server.__exit__)

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(self.folder, 0o700)
        for word in ("build", "deploy"):
            os.symlink(os.path.dirname(QUIRE) if word == "build" else os.path.join(ROOT, word), self.path(word))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-keyout", self.path("key.pem"), "-out", self.path("chain.pem")], check=True, capture_output=True)
        for copy, name in (("cert.pem", "chain.pem"), ("cert.key", "key.pem")):
            shutil.copy(self.path(name), self.path(copy))
        with open(self.path("SHA256SUMS"), "w", encoding="utf-8") as f:
            subprocess.run(["sha256sum", *sorted(os.listdir(TINY))], cwd=TINY, stdout=f, check=True)
        self.write("FILE.jsonl", json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Hi", "max_tokens": 2}}) + "\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def test_every_code_block_of_the_documents_runs(self):
        count = 0
        self.waiting = []  # (command, future) of commands that wait long for hosts that do not exist
        self.pool = self.enterContext(concurrent.futures.ThreadPoolExecutor())
        for page in PAGES:
            self.journal = None
            for line, text in blocks(page):
                with self.subTest(page=page, line=line):
                    count += self.run_block(text)
        for command, done in self.waiting:
            with self.subTest(command=command):
                self.assertRegex(done.result().stdout, r"(?m)^ok +topology ", command)
        self.assertGreater(count, 30)

    def run_block(self, text):
        """Runs a block and returns the number of commands that ran."""
        if re.match(r"from openai import", text):
            self.check("python", [sys.executable, "-c", self.here(text)])
            return 1
        if name := re.match(r"# (\w+\.yaml)$", text.split("\n")[0]):
            self.write(name[1], self.here(text))
            return 0
        if text.startswith("{"):
            # Lines of a file of requests: the first one is sent unchanged.
            self.write("work.jsonl", text.split("\n")[0] + "\n")
            self.check("batch", [QUIRE, "batch", "run", "work.jsonl", "--url", self.server.url])
            return 1
        if text.lstrip().startswith("clients ──"):
            return 0
        ran = 0
        for command in commands(text):
            if not any(re.fullmatch(pattern, command) for pattern, _ in ELSEWHERE):
                self.run_command(command)
                ran += 1
        return ran

    def here(self, text):
        """Replaces files and ports in the text by those of this machine."""
        for word in MODEL_WORDS:
            text = re.sub(re.escape(word) + r"(?![\w/])", word.split()[0] + " " + TINY if " " in word else TINY, text)
        text = re.sub(r"(?<!\w)/models/[\w.-]+", TINY, text).replace("/etc/quire/api.keys", self.path("api.keys"))
        text = text.replace("DIR/SHA256SUMS", self.path("SHA256SUMS")).replace("--file api.keys", f"--file {self.path('api.keys')}")
        text = re.sub(r"(localhost|127\.0\.0\.1):8000", f"127.0.0.1:{self.server.port}", text)
        text = re.sub(r"(localhost|127\.0\.0\.1):8001", f"127.0.0.1:{self.server.admin_port}", text)
        text = re.sub(r"\bMODEL_[AB]\b|(?<==)DIR\b", TINY, text).replace("/var/lib/quire/kv", self.path("kv")).replace("/srv/adapters", self.folder)
        text = re.sub(r"tcp://\*:(\d+)", lambda port: f"ipc://{self.path(port[1])}", text)  # listens on all interfaces
        return text.replace("http://HOST:PORT", self.server.url).replace("--api NAME", "--api somebody")

    def run_command(self, command):
        name = " ".join(command.split()[:3])
        run = re.sub(r"\bpython3\b", sys.executable, self.here(command))
        run = re.sub(r"(^|[|;&] *)curl ", r"\1curl --fail-with-body ", run)  # curl ends with status 0 after a refusal
        verb = run.split()[1] if run.startswith("build/quire ") else ""
        if verb == "serve":
            return self.serve(name, run)
        if verb in ("chat", "top") and len(run.split()) == 2:
            run += " " + (self.server.url if verb == "chat" else self.server.admin_url)
        if verb == "batch":
            run += f" --url {self.server.url}"
        if verb in ("explain", "replay"):
            run = run.replace("DIR", self.served_with_journal()).replace("REQUEST_ID", self.request)
        if verb == "bench":
            run = run.replace("--json FILE", f"--json {self.path('bench.json')}")
            few = {"allreduce": " --max-bytes 64kb --rounds 20",
                   "latency": " --input-len 8 --output-len 4 --batch-size 1 --num-iters 1",
                   "serve": " --num-prompts 2 --input-len 8 --output-len 4 --vocab-size 257"}
            run += few.get(run.split()[2], "")
        words = ["bash", "-o", "pipefail", "-c", run.replace("TOPOLOGY.yaml", "deploy/topologies/cpu.yaml")]
        # The hosts of examples do not exist on this machine. An error in the file itself would be reported earlier.
        if verb == "check" and re.search(r"two(_nodes)?\.yaml", run):
            place = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "folder")
            shutil.copytree(self.folder, place, symlinks=True)  # the next blocks may change the files
            self.waiting.append((command, self.pool.submit(self.check, name, words, allowed=(0, 1), folder=place)))
            return
        self.check(name, words, allowed=(0, 1) if verb == "check" else (0,), text="Say hello.\n" if verb == "chat" else "")

    def check(self, name, command, allowed=(0,), text="", folder=None):
        done = subprocess.run(command, cwd=folder or self.folder, input=text, capture_output=True, text=True, timeout=240)
        self.assertIn(done.returncode, allowed, f"{name}: {done.stdout}{done.stderr}")
        return done

    @contextlib.contextmanager
    def served(self, run):
        """Starts a server by this command, but on other ports."""
        more = "" if "server.yaml" in run else " --port 0"
        if "cpu.yaml" in run:
            more += f" --model {TINY}"
        with open(self.path("log"), "w+", encoding="utf-8") as log:
            process = subprocess.Popen(["bash", "-c", f"exec {run}{more} --admin-port 0"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                deadline = time.monotonic() + 120
                while " ready after " not in self.log():
                    self.assertIsNone(process.poll(), self.log())
                    self.assertLess(time.monotonic(), deadline, self.log())
                    time.sleep(0.05)
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(timeout=60), 0, self.log())

    def log(self):
        with open(self.path("log"), encoding="utf-8") as f:
            return f.read()

    def serve(self, name, run):
        with self.served(run):
            self.assertIn(" ready after ", self.log(), name)

    def served_with_journal(self):
        """Returns the directory of a journal with one request."""
        if self.journal is None:
            self.journal = self.path("journal")
            with Server("-tp", "1", "--journal", self.journal, model=TINY) as server:
                self.request = server.post("/v1/completions", {"prompt": [5], "max_tokens": 2})[1]["id"]
        return self.journal

    def test_code_block_fails_when_the_server_refuses_a_curl_request(self):
        self.run_command("curl -s localhost:8000/v1/models | cat")
        with self.assertRaisesRegex(AssertionError, "no such path|not found|Not Found"):
            self.run_command("curl -s localhost:8000/v1/nowhere | cat")

    def test_pages_say_at_their_first_mention_of_gpus_that_the_code_ran_on_an_emulator_only(self):
        for page in ("README.md", "docs/tutorial.md", "docs/questions.md"):
            with open(os.path.join(ROOT, page), encoding="utf-8") as f:
                first = next(part for part in f.read().split("\n\n") if re.search(r"\bGPUs?\b", part))
            self.assertIn("an emulator only, not yet on a GPU", first.replace("\n", " "), page)

    def test_readme_says_how_much_time_disk_and_memory_the_first_command_takes(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
            section = f.read().split("## Two commands")[1].split("\n## ")[0]
        for word in (r"\d+ minutes", r"\d+ GB of disk", r"\d+ GB of memory"):
            self.assertRegex(section, word)

    def test_pages_show_no_tp_flag_where_a_command_serves_dir_org_or_qwen(self):
        """The pages recommend one worker for each socket or GPU, so examples that serve DIR, ORG/NAME or Qwen leave -tp out."""
        for page in PAGES:
            for _, text in blocks(page):
                for command in commands(text):
                    if re.match(r"build/quire serve (DIR|ORG|Qwen)", command):
                        self.assertNotIn("-tp", command, page)


class QuickstartTest(unittest.TestCase):
    @unittest.skipUnless(REAL, "QUIRE_TEST_MODEL names no model (tests/run fetches one)")
    def test_quickstart_answers_a_question(self):
        """Runs all of deploy/quickstart except the compiler: `cmake` only records that it was called, and the programs
        already exist."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        shutil.copytree(os.path.join(ROOT, "deploy"), os.path.join(folder, "deploy"), symlinks=True)
        for name in ("build", "bin"):
            os.mkdir(os.path.join(folder, name))
        for program in ("quire", "quire-worker"):
            os.symlink(os.path.join(os.path.dirname(QUIRE), program), os.path.join(folder, "build", program))
        calls, cmake = os.path.join(folder, "calls"), os.path.join(folder, "bin", "cmake")
        with open(cmake, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\necho "$@" >> {calls}\n')
        os.chmod(cmake, 0o755)
        env = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}")
        done = subprocess.run([os.path.join(folder, "deploy", "quickstart"), "--ask", "What is the capital of France?"], env=env,
                              capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Paris", done.stdout)
        with open(calls, encoding="utf-8") as f:
            configure, build = f.read().splitlines()
        self.assertIn("--preset release", configure)
        self.assertEqual(build, "--build build --target quire quire-worker")


if __name__ == "__main__":
    verdict.run_tests()
