"""Tests servers with faulty models: files that are truncated, are links or pipes, or do not fit each other; templates that cost too much;
tokenizers with unsupported patterns. Also tests a model's checksums."""
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import verdict
from server import QUIRE, TINY, Server, altered_tiny


def quire(*arguments):
    return subprocess.run([QUIRE, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


class ModelCase(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.model = os.path.join(self.directory, "model")
        shutil.copytree(TINY, self.model)

    def path(self, name):
        return os.path.join(self.model, name)


class TruncationTest(ModelCase):
    def test_coordinator_survives_when_its_model_files_are_truncated(self):
        """Truncates every file of the model in place, then sends a request. A worker must end and name the file."""
        with Server("--backend", "cpu", "--tensor-parallel-size", "2", "--threads-per-worker", "1", model=self.model) as server:
            with open(f"/proc/{server.process.pid}/maps", encoding="utf-8") as maps:
                self.assertNotIn(self.model, maps.read())
            for name in os.listdir(self.model):
                os.truncate(self.path(name), 0)
            tokens = server.post("/tokenize", {"prompt": "Hello there"})[1]["tokens"]
            self.assertTrue(tokens)
            try:
                server.post("/v1/completions", {"prompt": tokens, "max_tokens": 4}, timeout=60)
            except OSError:
                pass  # the server may have ended meanwhile
            deadline = time.monotonic() + 60
            while "cut short while it was in use" not in server.text() and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertRegex(server.text(), r"quire-worker: rank \d on [^ ]+: " + self.path("model.safetensors") + ": the file was cut short")
            # Without a model there are no new workers: the server ends with a reason and an exit status, not by a
            # signal.
            self.assertEqual(server.process.wait(timeout=120), 1, server.text()[-2000:])


class TemplateTest(unittest.TestCase):
    """Tests the cost of a model's template for the server; tests/coordinator/template_bounds_test.cc has many more templates."""

    def test_chat_template_beyond_its_bounds_gives_400(self):
        deep = "{% macro m(n) %}{{ ((m(n - 1) | int) if n else 0)" + 490 * " + 1" + " }}{% endmacro %}{{ m(30) }}"
        long = "{% set l = range(1000) %}{% for i in range(100000) %}{{ -1 in l }}{% endfor %}"
        large = "{% set n = namespace(t='') %}{% for i in range(100000) %}{% set n.t = n.t ~ messages[0].content %}{% endfor %}"
        source = "".join("{% if messages[0].content[0] == '" + word[0] + "' %}" + text + "{% endif %}"
                         for word, text in (("deep", deep), ("long", long), ("growing", large))) + "{{ messages[0].content }}"
        with tempfile.TemporaryDirectory() as directory:
            model = altered_tiny(directory, tokenizer_config=lambda config: config.update(chat_template=source))
            with Server("--backend", "cpu", "--threads-per-worker", "1", model=model) as server:
                def chat(content):
                    return server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 2})

                for content, bound in (("deep", "too deep: more than 600 levels"), ("long", "units of work"), ("growing" * 1000, "bytes of values")):
                    begin = time.monotonic()
                    status, answer = chat(content)
                    self.assertEqual(status, 400, answer)
                    self.assertIn(bound, answer["error"]["message"])
                    self.assertLess(time.monotonic() - begin, 20)
                self.assertEqual(chat("hello")[0], 200)

    def test_server_names_an_unsupported_tokenizer_pattern_at_start(self):
        def add(config):
            split = {"type": "Split", "pattern": {"Regex": r"(?(DEFINE)(?<k>a\K))(?=(?&k))"}, "behavior": "Isolated", "invert": False}
            config["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, {"type": "ByteLevel", "add_prefix_space": False}]}

        with tempfile.TemporaryDirectory() as directory:
            with Server("--backend", "cpu", model=altered_tiny(directory, tokenizer=add), wait=False) as server:
                self.assertEqual(server.process.wait(timeout=60), 2)
                self.assertRegex(server.text(), r"tokenizer: pattern 1 of 2, .*: at character 16: .K is not supported")


class StartTest(ModelCase):
    def refusal(self, *flags):
        """Starts a server that must fail while it starts. Returns its output."""
        with Server("--backend", "cpu", *flags, model=self.model, wait=False) as server:
            self.assertEqual(server.process.wait(timeout=30), 2)
            return server.text()

    def test_server_refuses_a_template_that_links_out_of_the_models_directory(self):
        secret = os.path.join(self.directory, "secret")
        with open(secret, "w", encoding="utf-8") as f:
            f.write("hush")
        os.symlink(secret, self.path("chat_template.jinja"))
        text = self.refusal()
        self.assertIn(f"{self.path('chat_template.jinja')} leads out of the model's directory, to {secret}", text)
        self.assertNotIn("hush", text)

    def test_server_refuses_a_pipe_as_a_model_file(self):
        for name in ("chat_template.jinja", "tokenizer.json", "config.json", "model.safetensors"):
            with self.subTest(name=name):
                shutil.rmtree(self.model)
                shutil.copytree(TINY, self.model)
                if os.path.exists(self.path(name)):
                    os.remove(self.path(name))
                os.mkfifo(self.path(name))
                self.assertIn(f"{self.path(name)} is not a regular file", self.refusal())

    def test_server_refuses_a_pipe_as_topology_or_key_file(self):
        pipe = os.path.join(self.directory, "pipe")
        os.mkfifo(pipe, 0o600)
        for flags in ([pipe], ["--model", self.model, "--api-key-file", pipe], ["--model", self.model, "--admin-token-file", pipe]):
            refused = quire("serve", "--backend", "cpu", "--port", "0", "--admin-port", "0", *flags)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("not a regular file", refused.stdout + refused.stderr)

    def test_server_serves_a_snapshot_of_the_hugging_face_cache(self):
        repository = os.path.join(self.directory, "models--quire--gqa")
        snapshot = os.path.join(repository, "snapshots", "abc")
        os.makedirs(snapshot)
        os.rename(self.model, os.path.join(repository, "blobs"))
        for name in os.listdir(os.path.join(repository, "blobs")):
            os.symlink(os.path.join("..", "..", "blobs", name), os.path.join(snapshot, name))
        with Server("--backend", "cpu", "--threads-per-worker", "1", model=snapshot) as server:
            status, answer = server.post("/v1/completions", {"prompt": [5, 6], "max_tokens": 2})
            self.assertEqual(status, 200, answer)

    def test_added_tokens_without_an_embedding_are_refused_in_prompts_only(self):
        with tempfile.TemporaryDirectory() as directory:
            model = altered_tiny(directory)
            with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
                known = json.load(f)["vocab_size"]
            with open(os.path.join(model, "tokenizer.json"), "r+", encoding="utf-8") as f:
                content = json.load(f)
                image = dict(content["added_tokens"][0], id=known, content="<image_soft_token>", special=False)
                content["added_tokens"].append(image)
                f.seek(0)
                f.truncate()
                json.dump(content, f)
            with Server("--threads-per-worker", "1", model=model) as server:
                self.assertIn(f"no embedding for tokens {known}", server.text())
                self.assertEqual(server.post("/v1/completions", {"prompt": "Hello", "max_tokens": 2})[0], 200)
                for body in ({"prompt": "look: <image_soft_token>"}, {"prompt": [known]}):
                    status, answer = server.post("/v1/completions", {**body, "max_tokens": 1})
                    self.assertEqual((status, str(known) in answer["error"]["message"] or f"to {known - 1}" in answer["error"]["message"]), (400, True), answer)
                # Grammars and bad words are not affected.
                for fields in ({"bad_words": ["<image_soft_token>"]}, {"guided_choice": ["yes", "no"]}):
                    status, answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 2, **fields})
                    self.assertEqual(status, 200, answer)
            image["content"] = "plain"
            content["added_tokens"].pop()
            content["model"]["vocab"]["plain"] = known
            with open(os.path.join(model, "tokenizer.json"), "w", encoding="utf-8") as f:
                json.dump(content, f)
            done = quire("serve", model, "--port", "0")
            self.assertEqual((done.returncode, "are they files of one model?" in done.stderr), (2, True), done.stderr)

    def test_check_compares_checksums_of_the_model(self):
        sums = os.path.join(self.directory, "sums")
        with open(sums, "w", encoding="utf-8") as f:
            subprocess.run(["sha256sum", *sorted(os.listdir(self.model))], cwd=self.model, stdout=f, check=True)
        flags = ("check", "--backend", "cpu", "--model", self.model, "--verify-checksum", sums)
        self.assertRegex(quire(*flags).stdout, r"ok +checksums .*MiB as listed")
        with open(self.path("model.safetensors"), "r+b") as f:
            f.seek(-1, os.SEEK_END)
            last = f.read(1)[0]
            f.seek(-1, os.SEEK_END)
            f.write(bytes([last ^ 1]))
        damaged = quire(*flags)
        self.assertEqual(damaged.returncode, 1)
        self.assertRegex(damaged.stdout, r"FAILED +checksums .*model.safetensors is not the file that .*; remedy: fetch")


if __name__ == "__main__":
    verdict.run_tests()
