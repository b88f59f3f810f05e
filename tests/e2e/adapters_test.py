"""Tests LoRA adapters of a running server: names, answers, caches, journals, killed workers, and adapters that are refused at the start."""
import concurrent.futures
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import verdict
from server import MODELS, QUIRE, ROOT, TINY, Server

GOLDEN = os.path.join(ROOT, "tests", "golden")
ADAPTERS = ("gqa_all", "gqa_layers", "gqa_patterns")


def path_of(adapter):
    return os.path.join(GOLDEN, "adapters", adapter)


def named(*adapters):
    return ["--lora-modules", *(f"{adapter}={path_of(adapter)}" for adapter in adapters)]


def cases():
    """Yields (model, case) for each adapter of the golden model gqa, and for gqa itself."""
    with open(os.path.join(GOLDEN, "adapters.json")) as f:
        known = json.load(f)
    for adapter in ADAPTERS:
        for case in known[adapter]["cases"]:
            yield adapter, case
    with open(os.path.join(GOLDEN, "tiny_gqa.json")) as f:
        for case in json.load(f)["cases"][:6]:
            yield "gqa", case


def body_of(model, case, **fields):
    return {"model": model, "prompt": case["prompt"], "max_tokens": len(case["tokens"]), "temperature": 0, "ignore_eos": True,
            "detokenize": False, "return_token_ids": True, **fields}


def start(*flags):
    """Starts a server that must refuse to start. Returns its exit status and error output."""
    ended = subprocess.run([QUIRE, "serve", "--model", TINY, "--port", "0", "--admin-port", "0", *flags], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, timeout=120)
    return ended.returncode, ended.stderr


class AdaptersTest(unittest.TestCase):
    def expect_all(self, server):
        def ask(pair):
            status, answer = server.post("/v1/completions", body_of(*pair))
            return pair, status, answer
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            for (model, case), status, answer in pool.map(ask, list(cases())):
                self.assertEqual(status, 200, answer)
                self.assertEqual(answer["model"], model)
                self.assertEqual(answer["choices"][0]["token_ids"], case["tokens"], model)

    def test_lora_modules_flag_serves_adapters_beside_their_base_on_uneven_workers(self):
        shares = ("--set", "parallel.shares=[1, 2]")
        with Server("--exact", "-tp", "2", *shares, *named(*ADAPTERS[:2]), *named(ADAPTERS[2]), model=TINY) as server:
            models = server.get("/v1/models")["data"]
            self.assertEqual([(model["id"], model["parent"], model["root"]) for model in models],
                             [("gqa", None, "gqa"), *((adapter, "gqa", "gqa") for adapter in ADAPTERS)])
            self.assertEqual(server.get("/v1/models/gqa_all")["parent"], "gqa")
            self.assertEqual(server.get("/admin/status", admin=True)["settings"]["lora_modules"],
                             [{"name": adapter, "path": path_of(adapter)} for adapter in ADAPTERS])
            self.expect_all(server)
            status, answer = server.post("/v1/completions", {"model": "other", "prompt": [5], "max_tokens": 1})
            self.assertEqual(status, 404, answer)

    def test_every_endpoint_takes_an_adapter_in_model(self):
        with Server("--exact", *named("gqa_all"), model=TINY) as server:
            message = {"max_tokens": 4, "messages": [{"role": "user", "content": "a"}]}
            for path, body in (("/v1/chat/completions", message), ("/v1/messages", message), ("/v1/responses", {"input": "a", "max_output_tokens": 4})):
                status, answer = server.post(path, {"model": "gqa_all", **body})
                if status == 400 and "cannot chat" in str(answer):
                    continue  # the model has no chat template
                self.assertEqual((status, answer["model"]), (200, "gqa_all"), answer)

    def test_adapters_may_be_named_as_json_and_in_a_topology_file(self):
        as_json = json.dumps({"name": "a", "path": path_of("gqa_all")})
        with tempfile.TemporaryDirectory() as folder:
            topology = os.path.join(folder, "t.yaml")
            with open(topology, "w") as f:
                f.write(f"model: {{path: {TINY}}}\nadapters:\n- {{name: a, path: {path_of('gqa_all')}}}\n")
            for flags, model in ((["--lora-modules", as_json], TINY), ([topology], None)):
                with Server(*flags, model=model) as server:
                    self.assertEqual([m["id"] for m in server.get("/v1/models")["data"]], ["gqa", "a"])

    def test_cached_prompts_belong_to_one_adapter(self):
        case = max((case for model, case in cases() if model == "gqa_all"), key=lambda case: len(case["prompt"]))
        with Server("--exact", *named(*ADAPTERS), model=TINY) as server:
            def cached(model):
                status, answer = server.post("/v1/completions", body_of(model, case))
                self.assertEqual(status, 200, answer)
                return answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            for model in ("gqa", *ADAPTERS):
                self.assertEqual(cached(model), 0, model)
            for model in ("gqa", *ADAPTERS):
                self.assertGreater(cached(model), 0, model)

    def test_answers_continue_when_a_worker_is_killed_and_the_journal_replays(self):
        with tempfile.TemporaryDirectory() as folder:
            journal = os.path.join(folder, "journal")
            with Server("--exact", "-tp", "2", "--journal", journal, *named(*ADAPTERS), model=TINY) as server:
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    done = pool.submit(self.expect_all, server)
                    time.sleep(0.1)
                    os.kill(server.worker_pids()[0], signal.SIGKILL)
                    done.result()
                self.expect_all(server)
            replay = subprocess.run([QUIRE, "replay", "--journal", journal], capture_output=True, text=True, timeout=120)
            self.assertEqual(replay.returncode, 0, replay)
            self.assertIn("every plan is the same", replay.stdout)

    def test_server_does_not_start_with_bad_adapters_and_names_the_error(self):
        for flags, words in ((["--lora-modules", "a=/none"], "/none"),
                             (["--lora-modules", "a"], "give NAME=PATH"),
                             (named("qwen2_all"), "tensor base_model.model."),
                             ([*named("gqa_all"), *named("gqa_all")], 'two models are called "gqa_all"'),
                             (["--served-model-name", "m", "--lora-modules", f"m={path_of('gqa_all')}"], 'two models are called "m"')):
            status, errors = start(*flags)
            self.assertIn(status, (1, 2), errors)
            self.assertIn(words, errors)


if __name__ == "__main__":
    verdict.run_tests()
