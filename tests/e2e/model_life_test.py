"""Tests when models are loaded and unloaded: loaded on request, unloaded after idle time, to make room for another model, or by operators.
Also tests requests that wait, fail or end meanwhile."""
import concurrent.futures
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import openai

import verdict
from models_test import NAMES, body_of, cases, patch, path_of
from server import QUIRE, TINY, Server, alive, grammar_compilers, wait_gone

BLOCKS = 150  # KV blocks of each model: enough for several golden answers at the same time


def listed(names, **more):
    """Returns the settings of these models, each loaded on request and with BLOCKS blocks."""
    return [{"name": name, "path": path_of(NAMES[name]), "load": "request", "cache": {"num_blocks": BLOCKS}, **more} for name in names]


def sizes(models):
    """Returns the bytes that each model takes, by name, as `quire plan` predicts them."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        json.dump({"models": models, "exact": True}, f)
        f.flush()
        done = subprocess.run([QUIRE, "plan", f.name, "--json"], capture_output=True, text=True, timeout=120, check=True)
    plan = json.loads(done.stdout)
    return {m["name"]: sum(rank["total_bytes"] for rank in m["ranks"]) for m in plan["models"]}


def serve(models, **settings):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        json.dump({"models": models, "exact": True, "seed": 1, **settings}, f)
        f.flush()
        return Server(f.name)


def workers_of(server):
    """Returns the ids of all worker processes below the server, of whichever model."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as f:
                name, rest = f.read().rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(entry)] = (int(rest.split()[1]), name.split("(", 1)[1])

    def below(pid):
        while pid in parents and pid != server.process.pid:
            pid = parents[pid][0]
        return pid == server.process.pid
    return [pid for pid, (_, name) in parents.items() if name.startswith("quire-worker") and below(pid)]


class LifeCase(unittest.TestCase):
    def models(self, server):
        return {model["name"]: model for model in server.get("/admin/models", admin=True)["models"]}

    def wait_for(self, server, name, state, seconds=30):
        deadline = time.monotonic() + seconds
        while (now := self.models(server)[name]["state"]) != state:
            self.assertLess(time.monotonic(), deadline, f"{name} is {now}, not {state}:\n{server.text()}")
            time.sleep(0.02)

    def expect_golden(self, server, name, number=0, **fields):
        case = cases(NAMES[name], number + 1)[number]
        status, answer = server.post("/v1/completions", body_of(name, case, **fields))
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["choices"][0]["token_ids"], case["tokens"], name)
        return answer


class SwitchingTest(LifeCase):
    def test_random_switching_of_models_keeps_answers_right_and_memory_within_the_limit(self):
        models = listed(NAMES)
        taken = sizes(models).values()
        limit = int(max(max(taken), 0.6 * sum(taken)))
        with serve(models, models_memory=str(limit)) as server:
            over, watched = threading.Event(), []

            def watch():
                while not over.is_set():
                    page = server.get("/admin/models", admin=True)
                    loaded = [m for m in page["models"] if m["state"] != "unloaded"]
                    watched.append((page["memory"]["taken_bytes"], sum(m["weight_bytes"] + m["working_bytes"] + m["kv_bytes"] for m in loaded),
                                    len(loaded)))
                    time.sleep(0.02)

            def ask(seed):
                choice = random.Random(seed)
                for _ in range(5):
                    name = choice.choice(list(NAMES))
                    case = choice.choice(cases(NAMES[name]))
                    if choice.random() < 0.5:
                        events = server.stream("/v1/completions", body_of(name, case))
                        tokens = [t for event in events for t in event["choices"][0].get("token_ids") or []]
                    else:
                        status, answer = server.post("/v1/completions", body_of(name, case))
                        self.assertEqual(status, 200, answer)
                        tokens = answer["choices"][0]["token_ids"]
                    self.assertEqual(tokens, case["tokens"], name)
                return 5

            watcher = threading.Thread(target=watch)
            watcher.start()
            try:
                with concurrent.futures.ThreadPoolExecutor(6) as pool:
                    self.assertEqual(sum(pool.map(ask, range(6))), 30)
            finally:
                over.set()
                watcher.join()
            self.assertLessEqual(max(taken for taken, _, _ in watched), limit)
            self.assertLessEqual(max(loaded for _, loaded, _ in watched), limit)
            self.assertLess(max(number for _, _, number in watched), len(NAMES))
            self.assertGreater(sum(model["loads"] for model in self.models(server).values()), len(NAMES))
            page = server.get("/metrics", admin=True)
            for name in NAMES:
                self.assertIn(f'quire:model_state{{model_name="{name}",state="ready"}}', page)
                self.assertIn(f'quire:model_loads_total{{model_name="{name}"}}', page)
            self.assertEqual(server.terminate(), 0)

    def test_models_memory_flag_refuses_a_model_that_does_not_fit(self):
        flags = ("--load", "request", "--models-memory", "100KiB", "--model", TINY)
        ended = subprocess.run([QUIRE, "serve", "--port", "0", "--admin-port", "0", *flags], capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 2, ended)
        self.assertIn("are there for all models", ended.stderr)

    def test_models_that_fit_only_one_after_another_pass_plan_and_check(self):
        models = listed(NAMES)
        room = int(max(sizes(models).values()) * 1.1)
        for model in models:
            del model["cache"]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            json.dump({"models": models, "models_memory": str(room)}, f)
            f.flush()
            plan = subprocess.run([QUIRE, "plan", f.name, "--json"], capture_output=True, text=True, timeout=120)
            check = subprocess.run([QUIRE, "check", f.name], capture_output=True, text=True, timeout=120)
        self.assertEqual(plan.returncode, 0, plan.stdout + plan.stderr)
        plan = json.loads(plan.stdout)
        self.assertEqual((plan["fits"], plan["at_once"]), (True, False))
        for model in plan["models"]:
            self.assertLessEqual(sum(rank["total_bytes"] for rank in model["ranks"]), room)
        self.assertIn("unloaded for others", check.stdout)
        self.assertEqual(check.returncode, 0, check.stdout)


class RoomTest(LifeCase):
    """Tests two models of which only one at a time fits into the memory limit."""

    @classmethod
    def setUpClass(cls):
        models = listed(("second", "third"))
        cls.server = serve(models, models_memory=str(int(max(sizes(models).values()) * 1.2)), server={"limits": {"queue_seconds": 5}})
        cls.addClassCleanup(cls.server.__exit__)

    def long_stream(self, name, tokens):
        body = {"model": name, "prompt": [5, 6], "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "detokenize": False, "return_token_ids": True}
        events = self.server.stream("/v1/completions", body)
        return sum(len(e["choices"][0].get("token_ids") or []) for e in events)

    def test_a_busy_model_stays_loaded_and_clients_of_another_model_learn_its_name(self):
        server = self.server
        self.expect_golden(server, "second")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.long_stream, "second", 1900)
            server.wait_until_running(1)
            server.post("/admin/pause", {}, admin=True)  # the stream lasts as long as the pause
            try:
                request = urllib.request.Request(server.url + "/v1/completions", json.dumps({"model": "third", "prompt": [5]}).encode(),
                                                 {"Content-Type": "application/json"})
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(request, timeout=30)
                self.assertEqual(refused.exception.code, 503)
                self.assertEqual(refused.exception.headers["Retry-After"], "1")
                self.assertIn("second has 1 request", json.load(refused.exception)["error"]["message"])
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
                connection.request("POST", "/v1/completions", json.dumps({"model": "third", "prompt": [5], "stream": True}),
                                   {"Content-Type": "application/json"})
                text = connection.getresponse().read().decode()
                self.assertIn(": loading\n\n", text)
                self.assertIn("second has 1 request", text)
            finally:
                server.post("/admin/resume", {}, admin=True)
            self.assertEqual(running.result(timeout=60), 1900)
        self.expect_golden(server, "third")
        self.assertEqual(self.models(server)["second"]["state"], "unloaded")

    def test_a_client_that_disconnects_stops_waiting_for_its_model(self):
        server = self.server
        self.expect_golden(server, "second")
        server.post("/admin/pause", {}, admin=True)
        try:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                running = pool.submit(self.long_stream, "second", 20)
                while self.models(server)["second"]["requests"] == 0:
                    time.sleep(0.01)
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
                connection.request("POST", "/v1/completions", json.dumps({"model": "third", "prompt": [5]}), {"Content-Type": "application/json"})
                while self.models(server)["third"]["waiting"] == 0:
                    time.sleep(0.01)
                connection.close()
                deadline = time.monotonic() + 4
                while self.models(server)["third"]["waiting"] > 0:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)
                server.post("/admin/resume", {}, admin=True)
                self.assertEqual(running.result(timeout=60), 20)
        finally:
            server.post("/admin/resume", {}, admin=True)

    def test_a_refused_request_loads_no_model(self):
        server = self.server
        server.post("/admin/models/third/unload", {}, admin=True)
        self.assertEqual(server.post("/v1/completions", {"model": "third", "prompt": [5], "max_tokens": -2})[0], 400)
        self.assertEqual(server.post("/tokenize", {"model": "third", "prompt": "Hi"})[0], 200)
        self.assertEqual(self.models(server)["third"]["state"], "unloaded")

    def test_operators_load_and_unload_models(self):
        server = self.server
        self.assertEqual(server.post("/admin/models/second/load", {}, admin=True), (200, {"model": "second", "state": "ready"}))
        pids = workers_of(server)
        self.assertEqual(len(pids), 1)
        answer = server.post("/v1/completions", {"model": "second", "prompt": [5], "max_tokens": 4, "guided_regex": "[a-z]+"})
        self.assertEqual(answer[0], 200, answer)
        self.assertEqual(len(grammar_compilers(server)), 1)
        self.assertEqual(server.post("/admin/models/second/unload", {}, admin=True), (200, {"model": "second", "state": "unloaded"}))
        self.assertEqual(wait_gone(pids, 5), [])
        self.assertEqual(grammar_compilers(server), [])
        self.assertEqual(server.get("/v1/models/second")["state"], "unloaded")
        for path in ("/admin/blocks", "/admin/block_map", "/admin/topology", "/admin/config"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                server.get(path + "?model=second", admin=True)
            self.assertEqual(refused.exception.code, 409)
        status = server.get("/admin/status?model=second", admin=True)
        self.assertEqual((status["state"], status["replicas"]), ("unloaded", []))
        self.assertEqual(server.get("/admin/requests?model=second", admin=True)["requests"], [])
        for path, want in (("/admin/models/fourth/load", 404), ("/admin/models/second/sing", 404), ("/admin/models/second", 404)):
            self.assertEqual(server.post(path, {}, admin=True)[0], want, path)
        done = subprocess.run([QUIRE, "top", server.admin_url, "--interval", "0.1"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"second +unloaded")

    def test_unload_waits_for_requests_or_ends_them_by_force(self):
        server = self.server
        for force in (False, True):
            self.assertEqual(server.post("/admin/models/second/load", {}, admin=True)[0], 200)
            server.post("/admin/pause", {}, admin=True)
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                try:
                    running = pool.submit(server.post, "/v1/completions", {"model": "second", "prompt": [5], "max_tokens": 20, "ignore_eos": True})
                    while self.models(server)["second"]["requests"] == 0:
                        time.sleep(0.01)
                    unloading = pool.submit(server.post, "/admin/models/second/unload", {"force": force}, admin=True)
                    if not force:
                        time.sleep(0.3)
                        self.assertEqual(self.models(server)["second"]["state"], "ready")
                        server.post("/admin/resume", {}, admin=True)
                    status, answer = running.result(timeout=30)
                    self.assertEqual(status, 410 if force else 200, answer)
                    self.assertEqual(unloading.result(timeout=30)[1]["state"], "unloaded")
                finally:
                    server.post("/admin/resume", {}, admin=True)

    def test_settings_and_pauses_reach_a_model_that_is_loaded_later(self):
        server = self.server
        server.post("/admin/models/third/unload", {}, admin=True)
        self.assertEqual(patch(server, {"cache.prefix_caching": False}), 200)
        server.post("/admin/models/third/load", {}, admin=True)
        self.assertFalse(server.get("/admin/config?model=third", admin=True)["settings"]["enable_prefix_caching"])
        self.assertEqual(patch(server, {"cache.prefix_caching": None}), 200)
        server.post("/admin/models/third/unload", {}, admin=True)
        server.post("/admin/pause", {}, admin=True)
        try:
            server.post("/admin/models/third/load", {}, admin=True)
            self.assertEqual(server.get("/admin/status?model=third", admin=True)["state"], "paused")
        finally:
            server.post("/admin/resume", {}, admin=True)
        self.expect_golden(server, "third")


class TurnsTest(LifeCase):
    """Tests a batch with two models of which only one at a time fits into the memory limit."""

    def test_a_batch_request_is_paused_for_another_model_and_continues_without_repeated_tokens(self):
        models = listed(("second", "third"))
        body = {"model": "second", "prompt": [5, 6], "max_tokens": 1900, "temperature": 0, "ignore_eos": True, "detokenize": False, "return_token_ids": True}
        with tempfile.TemporaryDirectory() as folder, \
                serve(models, models_memory=str(int(max(sizes(models).values()) * 1.2)), batches={"dir": folder + "/b"}) as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
            self.addCleanup(client.close)
            line = json.dumps({"custom_id": "line", "method": "POST", "url": "/v1/completions", "body": body}) + "\n"
            file = client.files.create(file=("in.jsonl", line.encode()), purpose="batch")
            batch = client.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h")
            self.wait_for(server, "second", "ready")
            server.wait_until_running(1)
            # The batch's model has room again immediately, because keep_alive 0 unloads the other model after its request.
            self.expect_golden(server, "third", keep_alive=0)
            deadline = time.monotonic() + 60
            while (now := client.batches.retrieve(batch.id)).status != "completed":
                self.assertLess(time.monotonic(), deadline, (now, server.text()))
                time.sleep(0.05)
            result = json.loads(client.files.content(now.output_file_id).text)["response"]["body"]
            self.assertEqual({name: model["loads"] for name, model in self.models(server).items()}, {"second": 2, "third": 1})
            whole = server.post("/v1/completions", body)[1]
            self.assertEqual(result["choices"][0]["token_ids"], whole["choices"][0]["token_ids"])
            self.assertEqual(result["usage"]["completion_tokens"], 1900)


class IdleTest(LifeCase):
    def test_idle_models_are_unloaded_after_the_keep_alive_which_requests_can_change(self):
        with tempfile.TemporaryDirectory() as disk, \
                Server("--load", "request", "--keep-alive", "500ms", "--exact", "--num-kv-blocks", "150", "--kv-disk", disk, model=TINY) as server:
            self.assertEqual(workers_of(server), [])
            self.assertEqual(server.get("/v1/models")["data"][0]["state"], "unloaded")
            name = server.get("/v1/models")["data"][0]["id"]
            case = cases("gqa", 1)[0]
            body = {**body_of(name, case), "prompt": (case["prompt"] * 40)[:200]}
            first = server.post("/v1/completions", body)[1]
            pids = workers_of(server)
            self.assertEqual(len(pids), 1)
            self.wait_for(server, name, "unloaded")
            self.assertEqual(wait_gone(pids, 5), [])
            # Blocks of the prefix cache are found on disk again if fetching is quicker than computing.
            again = server.post("/v1/completions", {**body, "keep_alive": -1})[1]
            self.assertEqual(again["choices"][0]["token_ids"], first["choices"][0]["token_ids"])
            self.assertGreater(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            time.sleep(1)
            self.assertEqual(self.models(server)[name]["state"], "ready")
            self.assertEqual(server.post("/v1/completions", {**body, "keep_alive": 0})[0], 200)
            self.wait_for(server, name, "unloaded", 10)
            self.assertEqual(server.post("/v1/completions", {**body, "keep_alive": "soon"})[0], 400)
            self.assertEqual(server.get("/admin/models", admin=True)["models"][0]["loads"], 2)
            self.assertEqual(server.terminate(), 0)

    def test_a_model_loaded_at_the_start_ignores_the_keep_alive_of_clients(self):
        with Server(model=TINY) as server:
            self.assertEqual(server.post("/v1/completions", {"prompt": [5], "max_tokens": 2, "keep_alive": 0})[0], 200)
            time.sleep(0.3)
            name = server.get("/v1/models")["data"][0]["id"]
            self.assertEqual(self.models(server)[name]["state"], "ready")
            # An operator unloads the model, and it comes back with the same blocks.
            blocks = server.get("/admin/status", admin=True)["blocks"]["device"]["total"]
            self.assertEqual(server.post(f"/admin/models/{name}/unload", {}, admin=True)[0], 200)
            self.assertEqual(server.post("/v1/completions", {"prompt": [5], "max_tokens": 2})[0], 200)
            self.assertEqual(server.get("/admin/status", admin=True)["blocks"]["device"]["total"], blocks)


class FailureTest(LifeCase):
    def test_a_failed_start_of_a_model_is_reported_and_tried_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            shutil.copytree(path_of("mha"), path)
            models = listed(("second", "third"))
            models[0]["path"] = path
            with serve(models) as server:
                self.expect_golden(server, "third")
                weights = os.path.join(path, "model.safetensors")
                os.rename(weights, weights + ".away")
                with concurrent.futures.ThreadPoolExecutor(4) as pool:
                    answers = list(pool.map(lambda _: server.post("/v1/completions", {"model": "second", "prompt": [5]}), range(4)))
                for status, answer in answers:
                    self.assertEqual(status, 503, answer)
                    self.assertIn("could not be loaded", answer["error"]["message"])
                    self.assertNotIn(folder, answer["error"]["message"])
                self.assertIn("model.safetensors", self.models(server)["second"]["problem"])
                self.expect_golden(server, "third")
                os.rename(weights + ".away", weights)
                deadline = time.monotonic() + 20
                while server.post("/v1/completions", {"model": "second", "prompt": [5], "max_tokens": 1})[0] != 200:
                    self.assertLess(time.monotonic(), deadline, server.text())
                    time.sleep(0.1)
                self.expect_golden(server, "second")
                self.assertEqual(self.models(server)["third"]["loads"], 1)

    def kill_while_loading(self, server, name):
        """Kills the workers of a model while a request loads the model. Returns the status of the request."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(server.post, "/v1/completions", {"model": name, "prompt": [5], "max_tokens": 1})
            before = set(workers_of(server))
            deadline = time.monotonic() + 20
            while not (new := set(workers_of(server)) - before):
                self.assertLess(time.monotonic(), deadline)
            for pid in new:
                os.kill(pid, signal.SIGKILL)
            return asked.result(timeout=60)[0]

    def test_a_worker_killed_while_its_model_loads_counts_as_one_failed_start(self):
        with serve(listed(("second", "third"))) as server:
            self.expect_golden(server, "third")
            self.assertIn(self.kill_while_loading(server, "second"), (200, 503))
            self.expect_golden(server, "third")
            deadline = time.monotonic() + 20
            while server.post("/v1/completions", {"model": "second", "prompt": [5], "max_tokens": 1})[0] != 200:
                self.assertLess(time.monotonic(), deadline, server.text())
                time.sleep(0.1)
            self.expect_golden(server, "second")

    def test_sigterm_while_loading_ends_the_server(self):
        with serve(listed(("second", "third"))) as server:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                asked = pool.submit(server.post, "/v1/completions", {"model": "second", "prompt": [5], "max_tokens": 1})
                while self.models(server)["second"]["state"] != "loading" and not asked.done():
                    time.sleep(0.005)
                workers = workers_of(server)
                self.assertEqual(server.terminate(20), 0)
                self.assertIn(asked.result(timeout=5)[0], (200, 503))
            self.assertEqual([pid for pid in workers if alive(pid)], [])


if __name__ == "__main__":
    verdict.run_tests()
