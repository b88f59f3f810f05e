"""Tests several models behind one server: choice by name, answers equal to those of a model served alone, killed workers of one model
during streams of another model, and lists that are refused at the start."""
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

import verdict
from hybrids_test import copy_with_tokenizer
from server import QUIRE, ROOT, TINY, Server

GOLDEN = os.path.join(ROOT, "tests", "golden")
NAMES = {"first": "gqa", "second": "mha", "third": "mqa"}  # name in this test: golden model
FOLDER = tempfile.TemporaryDirectory(prefix="quire-models-")


def path_of(model):
    """Returns the path of a golden model with a tokenizer."""
    path = os.path.join(FOLDER.name, model)
    if model == "gqa":
        return TINY
    if not os.path.exists(path):
        os.mkdir(path)
        copy_with_tokenizer(model, path)
        shutil.copy(os.path.join(TINY, "tokenizer_config.json"), path)
    return path


# Golden answers come from transformers, so the server computes with `exact`.
LIST = f"""
seed: 1
exact: true
models:
  - name: [first, main]
    path: {path_of("gqa")}
    parallel: {{tensor: 2}}
    adapters: [{{name: first-adapter, path: {GOLDEN}/adapters/gqa_all}}]
  - name: second
    path: {path_of("mha")}
    scheduler: {{max_model_len: 128}}
    cache: {{num_blocks: 100}}
  - name: third
    path: {path_of("mqa")}
"""


def cases(model, count=6):
    with open(os.path.join(GOLDEN, f"tiny_{model}.json")) as f:
        return json.load(f)["cases"][:count]


def body_of(name, case, **fields):
    return {"model": name, "prompt": case["prompt"], "max_tokens": len(case["tokens"]), "temperature": 0, "ignore_eos": True,
            "detokenize": False, "return_token_ids": True, **fields}


def start(*flags, yaml=None):
    """Starts a server that must refuse to start. Returns its exit status and error output."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(yaml or "{}")
        f.flush()
        ended = subprocess.run([QUIRE, "serve", *([f.name] if yaml else []), "--port", "0", "--admin-port", "0", *flags], capture_output=True,
                               text=True, stdin=subprocess.DEVNULL, timeout=120)
    return ended.returncode, ended.stderr


def patch(server, changes):
    """Sends PATCH /admin/config and returns the HTTP status."""
    request = urllib.request.Request(server.admin_url + "/admin/config", json.dumps(changes).encode(), {"Content-Type": "application/json"},
                                     method="PATCH")
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.status


class ListedModelsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(LIST)
            f.flush()
            cls.server = Server(f.name)
        cls.addClassCleanup(cls.server.__exit__)

    def expect_golden(self, names):
        def ask(pair):
            name, case = pair
            return name, case, *self.server.post("/v1/completions", body_of(name, case))
        asked = [(name, case) for name in names for case in cases(NAMES[name])]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for name, case, status, answer in pool.map(ask, asked):
                self.assertEqual(status, 200, answer)
                self.assertEqual(answer["model"], name)
                self.assertEqual(answer["choices"][0]["token_ids"], case["tokens"], name)

    def workers(self, name):
        return [rank["pid"] for rank in self.server.get(f"/admin/status?model={name}", admin=True)["ranks"]]

    def test_each_model_answers_as_if_served_alone(self):
        self.expect_golden(NAMES)

    def test_streams_answer_as_if_served_alone(self):
        for name, model in NAMES.items():
            case = cases(model, 1)[0]
            events = self.server.stream("/v1/completions", body_of(name, case))
            self.assertEqual([token for event in events for token in event["choices"][0].get("token_ids") or []], case["tokens"], name)
            self.assertEqual({event["model"] for event in events}, {name})

    def test_requests_without_a_name_go_to_the_first_model(self):
        case = cases("gqa", 1)[0]
        body = body_of("", case)
        del body["model"]
        for asked in (body, body_of("main", case)):
            status, answer = self.server.post("/v1/completions", asked)
            self.assertEqual((status, answer["model"]), (200, "first"), answer)
            self.assertEqual(answer["choices"][0]["token_ids"], case["tokens"])

    def test_request_with_an_adapters_name_is_answered_by_the_model_that_has_the_adapter(self):
        with open(os.path.join(GOLDEN, "adapters.json")) as f:
            case = json.load(f)["gqa_all"]["cases"][0]
        status, answer = self.server.post("/v1/completions", body_of("first-adapter", case))
        self.assertEqual((status, answer["model"]), (200, "first-adapter"), answer)
        self.assertEqual(answer["choices"][0]["token_ids"], case["tokens"])

    def test_every_endpoint_refuses_unknown_names(self):
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        bodies = {"/v1/completions": {"prompt": [3], "max_tokens": 1}, "/v1/chat/completions": chat, "/v1/messages": chat,
                  "/v1/responses": {"input": "Hi"}, "/v1/embeddings": {"input": "Hi"}, "/tokenize": {"prompt": "Hi"},
                  "/detokenize": {"tokens": [3]}, "/v1/messages/count_tokens": chat, "/v1/chat/completions/render": chat}
        for path, body in bodies.items():
            # The model's name is found even after a long text.
            for more in ({}, {"user": "x" * 9000}):
                status, answer = self.server.post(path, {**more, **body, "model": "fourth"})
                self.assertEqual(status, 404, (path, answer))
                self.assertIn('the model "fourth" is not served here', answer["error"]["message"])
        self.assertEqual(self.server.post("/v1/models/fourth", {})[0], 405)

    def test_model_name_inside_another_field_chooses_no_model(self):
        case = cases("mha", 1)[0]
        status, answer = self.server.post("/v1/completions", {"user": '"model": "third"', **body_of("second", case)})
        self.assertEqual((status, answer["model"]), (200, "second"), answer)
        self.assertEqual(answer["choices"][0]["token_ids"], case["tokens"])
        for broken in (b'{"model": "second"', b'["model", "second"]', b'{"model": 5, "prompt": [3]}', b"\xff"):
            self.assertEqual(self.server.post("/v1/completions", broken)[0], 400, broken)

    def test_chats_embeddings_and_pages_use_the_named_model(self):
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "temperature": 0}
        answered = []
        for name in NAMES:
            for path, body in (("/v1/chat/completions", chat), ("/v1/messages", chat), ("/v1/responses", {"input": "Hi", "max_output_tokens": 2}),
                               ("/v1/embeddings", {"input": "Hi"})):
                status, answer = self.server.post(path, {**body, "model": name})
                if status == 400:  # this model's files have no template, or no pooling
                    continue
                self.assertEqual((status, answer["model"]), (200, name), (path, answer))
                answered.append((name, path))
        self.assertLessEqual({("first", "/v1/chat/completions"), ("second", "/v1/messages"), ("third", "/v1/responses")}, set(answered))
        lengths = {name: self.server.post("/tokenize", {"model": name, "prompt": "Hi"})[1]["max_model_len"] for name in NAMES}
        self.assertEqual(lengths["second"], 128)
        self.assertNotEqual(lengths["first"], 128)
        status, answer = self.server.post("/v1/completions", {"model": "second", "prompt": [3] * 200, "max_tokens": 1})
        self.assertEqual(status, 400)
        self.assertIn("128", answer["error"]["message"])
        self.assertIn("chat_template", self.server.get("/tokenizer_info?model=third"))

    def test_models_are_listed_with_state_and_sizes(self):
        listed = {model["id"]: model for model in self.server.get("/v1/models")["data"]}
        self.assertEqual(list(listed), ["first", "main", "first-adapter", "second", "third"])
        self.assertEqual((listed["first-adapter"]["parent"], listed["first-adapter"]["root"]), ("first", "first"))
        for model in listed.values():
            self.assertEqual(model["state"], "ready")
            self.assertGreater(model["memory"]["weight_bytes"], 0)
            self.assertGreater(model["memory"]["kv_bytes"], 0)
        self.assertEqual(self.server.get("/v1/models/third")["root"], "third")
        status = self.server.get("/admin/status?model=second", admin=True)
        self.assertEqual((status["model"]["name"], status["blocks"]["device"]["total"]), ("second", 100))
        self.assertEqual([model["name"] for model in status["models"]], list(NAMES))
        self.assertEqual(self.server.get("/admin/status", admin=True)["model"]["name"], "first")
        self.assertEqual(self.server.get("/admin/config?model=second", admin=True)["settings"]["max_model_len"], 128)
        self.assertEqual(self.server.post("/admin/restart_workers?model=fourth", {}, admin=True)[0], 404)

    def test_metrics_carry_the_name_of_the_model(self):
        self.expect_golden(["second"])
        page = self.server.get("/metrics", admin=True)
        for name in NAMES:
            self.assertIn(f'vllm:num_requests_running{{engine="0",model_name="{name}"}}', page)
        done = [line for line in page.splitlines() if line.startswith("vllm:request_success_total") and 'model_name="second"' in line]
        self.assertGreaterEqual(sum(float(line.split()[-1]) for line in done), 6)

    def test_a_killed_worker_of_one_model_leaves_other_streams_alone(self):
        events = {}

        def stream(name):
            body = {"model": name, "prompt": [5, 6], "max_tokens": 1500, "temperature": 0, "ignore_eos": True, "detokenize": False,
                    "return_token_ids": True}
            events[name].append([t for e in self.server.stream("/v1/completions", body) for t in e["choices"][0].get("token_ids") or []])

        before = {name: self.workers(name) for name in NAMES}
        for name in ("first", "third"):
            events[name] = []
            stream(name)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            running = [pool.submit(stream, name) for name in ("first", "third") for _ in range(2)]
            self.server.wait_until_running(1)
            os.kill(before["first"][1], signal.SIGKILL)
            for one in running:
                one.result(timeout=60)
        for name, streams in events.items():
            self.assertEqual([len(tokens) for tokens in streams], [1500] * 3, name)
            self.assertEqual(streams[1:], streams[:1] * 2, name)
        deadline = time.monotonic() + 30
        while self.workers("first") == before["first"]:
            self.assertLess(time.monotonic(), deadline, "the workers do not come back")
            time.sleep(0.02)
        self.assertEqual(self.workers("third"), before["third"])
        self.assertEqual(self.server.get("/admin/status?model=third", admin=True)["recoveries"], 0)

    def test_settings_change_for_all_models(self):
        self.assertEqual(patch(self.server, {"cache.prefix_caching": False}), 200)
        for name in NAMES:
            self.assertFalse(self.server.get(f"/admin/config?model={name}", admin=True)["settings"]["enable_prefix_caching"], name)
        self.assertEqual(patch(self.server, {"cache.prefix_caching": None}), 200)


class FlagsTest(unittest.TestCase):
    def test_flags_name_several_models(self):
        flags = [word for name, model in NAMES.items() for word in ("--model", f"{name}={path_of(model)}")][:4]
        with Server(*flags, "--exact", "--max-model-len", "256") as server:
            self.assertEqual([(m["id"], m["max_model_len"]) for m in server.get("/v1/models")["data"]], [("first", 256), ("second", 256)])
            for name in ("first", "second"):
                case = next(c for c in cases(NAMES[name], 20) if len(c["prompt"]) + len(c["tokens"]) <= 256)
                status, answer = server.post("/v1/completions", body_of(name, case))
                self.assertEqual((status, answer["choices"][0]["token_ids"]), (200, case["tokens"]))
            self.assertEqual(server.terminate(), 0)

    def test_model_dir_flag_serves_the_models_of_a_directory_and_loads_each_at_its_first_request(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "empty"))
            for name in ("first", "second"):
                os.symlink(path_of(NAMES[name]), os.path.join(folder, name))
            with Server("--model-dir", folder, "--exact") as server:
                def states():
                    return {model["name"]: model["state"] for model in server.get("/admin/models", admin=True)["models"]}
                self.assertEqual(states(), {"first": "unloaded", "second": "unloaded"})
                case = cases("mha")[0]
                status, answer = server.post("/v1/completions", body_of("second", case))
                self.assertEqual((status, answer["choices"][0]["token_ids"]), (200, case["tokens"]))
                self.assertEqual(states(), {"first": "unloaded", "second": "ready"})
            with Server("--model-dir", folder, "--exact", "--load", "start") as server:
                self.assertEqual({model["state"] for model in server.get("/v1/models")["data"]}, {"ready"})

    def test_contradictory_lists_of_models_are_refused(self):
        gqa, mha = path_of("gqa"), path_of("mha")
        with tempfile.TemporaryDirectory() as folder:
            for flags in (("--model-dir", folder), ("--model-dir", folder + "/nowhere"), ("--model-dir", folder, "--model", gqa)):
                status, errors = start(*flags)
                self.assertEqual(status, 2, (flags, errors))
                self.assertIn("--model-dir", errors)
        for flags, reason in ((("--model", f"a={gqa}", "--model", mha), "--model NAME=PATH"),
                              (("--model", f"a={gqa}", "--model", f"a={mha}"), 'two models are called "a"'),
                              (("--model", f"a={gqa}", "--model", f"b={mha}", "--served-model-name", "c"), "--served-model-name"),
                              (("--model", f"a={gqa}", "--model", "b=/nowhere"), "/nowhere"),
                              (("--model", f"a={gqa}", "--model", f"b={mha}", "--set", "models_memory=1MiB"), "models_memory")):
            status, errors = start(*flags)
            self.assertEqual(status, 2, (flags, errors))
            self.assertIn(reason, errors)
        for yaml, reason in (("models: []", "a list with a model or more"), ("models: {a: b}", "a list with a model or more"),
                             ("models: [{name: a}]", "every model needs a path"),
                             (f"model: {{path: {gqa}}}\nmodels: [{{path: {mha}}}]", "leave model.path"),
                             (f"models: [{{path: {mha}, logs: {{}}}}]", 'unknown key "logs"'),
                             (f"models: [{{path: {gqa}}}, {{name: b, path: {mha}, adapters: [{{name: gqa, path: x}}]}}]", 'two models are called "gqa"')):
            status, errors = start(yaml=yaml)
            self.assertEqual(status, 2, (yaml, errors))
            self.assertIn(reason, errors)


if __name__ == "__main__":
    verdict.run_tests()
