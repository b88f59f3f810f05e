"""Tests LoRA adapters that operators load and unload while serving: vLLM's endpoints, answers while adapters come and go, and what is refused."""
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import verdict
from adapter_loop import LOAD, UNLOAD, operate
from adapters_test import ADAPTERS, body_of, cases, path_of
from server import QUIRE, TINY, Server

OF = {name: [case for model, case in cases() if model == name] for name in (*ADAPTERS, "gqa")}


def resized(source, target, rank):
    """Writes to `target` an adapter of this rank, with matrices for the same modules as the adapter `source`. All its numbers are
    zero."""
    with open(os.path.join(source, "adapter_model.safetensors"), "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
    data, at = b"", {}
    for name, tensor in head.items():
        if name == "__metadata__":
            continue
        shape = [rank, tensor["shape"][1]] if "lora_A" in name else [tensor["shape"][0], rank]
        size = shape[0] * shape[1] * {"F32": 4, "F16": 2, "BF16": 2}[tensor["dtype"]]
        at[name] = {"dtype": tensor["dtype"], "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes(size)
    os.mkdir(target)
    text = json.dumps(at).encode()
    with open(os.path.join(target, "adapter_model.safetensors"), "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)
    with open(os.path.join(source, "adapter_config.json")) as f:
        config = json.load(f)
    config.update(r=rank, rank_pattern={}, alpha_pattern={})
    with open(os.path.join(target, "adapter_config.json"), "w") as f:
        json.dump(config, f)


class Directory:
    """Makes a directory with copies of the golden adapters, for --lora-dir, inside a temporary folder."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = os.path.join(self.folder.name, "adapters")
        os.mkdir(self.root)
        for name in ADAPTERS:
            shutil.copytree(path_of(name), self.path(name))

    def path(self, name):
        return os.path.join(self.root, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()


class LiveAdaptersTest(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(Directory())

    def serve(self, *flags, model=TINY):
        return Server("--exact", "--lora-dir", self.directory.root, *flags, model=model)

    def load(self, server, name, adapter=None, expect=200, **fields):
        body = {"lora_name": name, "lora_path": self.directory.path(adapter or name), **fields}
        status, answer = operate(server.admin_url, LOAD, body)
        self.assertEqual(status, expect, answer)
        return answer

    def unload(self, server, name, expect=200):
        status, answer = operate(server.admin_url, UNLOAD, {"lora_name": name})
        self.assertEqual(status, expect, answer)

    def ask(self, server, name, case, **fields):
        status, answer = server.post("/v1/completions", body_of(name, case, **fields))
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["model"], name)
        return answer

    def expect(self, server, name, adapter):
        """Expects that requests with this name get the adapter's golden answers."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for case, answer in zip(OF[adapter], pool.map(lambda case: self.ask(server, name, case), OF[adapter])):
                self.assertEqual(answer["choices"][0]["token_ids"], case["tokens"], (name, adapter))

    def adapters(self, server):
        return server.get("/admin/status", admin=True)["adapters"]

    def wait_for_memory(self, server, most=0):
        deadline = time.time() + 20
        while self.adapters(server)["used_bytes"] > most:
            self.assertLess(time.time(), deadline, self.adapters(server))
            time.sleep(0.02)

    def names(self, server):
        return [model["id"] for model in server.get("/v1/models")["data"]]

    def test_lora_dir_flag_lets_operators_load_and_unload_adapters_on_uneven_workers(self):
        with self.serve("-tp", "2", "--set", "parallel.shares=[1, 2]") as server:
            self.assertEqual(server.get("/admin/status", admin=True)["settings"]["lora_dir"], [self.directory.root])
            self.assertEqual(self.load(server, "gqa_all"), "Success: LoRA adapter 'gqa_all' added successfully.")
            self.load(server, "other", "gqa_layers")
            self.assertEqual([(m["id"], m["parent"]) for m in server.get("/v1/models")["data"]],
                             [("gqa", None), ("gqa_all", "gqa"), ("other", "gqa")])
            self.expect(server, "gqa_all", "gqa_all")
            self.expect(server, "other", "gqa_layers")
            self.expect(server, "gqa", "gqa")
            self.unload(server, "gqa_all")
            self.unload(server, "gqa_all", expect=404)
            self.assertEqual(self.names(server), ["gqa", "other"])
            status, answer = server.post("/v1/completions", body_of("gqa_all", OF["gqa_all"][0]))
            self.assertEqual(status, 404, answer)
            self.expect(server, "other", "gqa_layers")
            self.unload(server, "other")
            self.wait_for_memory(server)
            self.expect(server, "gqa", "gqa")

    def test_a_name_that_is_reloaded_with_other_weights_finds_no_old_blocks(self):
        case = max(OF["gqa_all"], key=lambda case: len(case["prompt"]))

        def cached():
            return self.ask(server, "x", case)["usage"]["prompt_tokens_details"]["cached_tokens"]
        with self.serve() as server:
            self.load(server, "x", "gqa_all")
            self.load(server, "x", "gqa_all", expect=400)
            self.assertEqual(cached(), 0)
            self.assertGreater(cached(), 0)
            self.load(server, "x", "gqa_layers", load_inplace=True)
            self.assertEqual(cached(), 0)
            self.expect(server, "x", "gqa_layers")
            self.unload(server, "x")
            self.load(server, "x", "gqa_all")
            self.assertGreater(cached(), 0, "the same contents are the same adapter")
            self.expect(server, "x", "gqa_all")

    def test_blocks_on_disk_belong_to_the_contents_of_an_adapter(self):
        case = max(OF["gqa_all"], key=lambda case: len(case["prompt"]))
        disk = os.path.join(self.directory.folder.name, "kv")
        found = []
        for adapter in ("gqa_all", "gqa_layers", "gqa_all"):
            with self.serve("--kv-disk", disk) as server:
                self.load(server, "x", adapter)
                found.append(self.ask(server, "x", case)["usage"]["prompt_tokens_details"]["cached_tokens"])
                self.expect(server, "x", adapter)
                time.sleep(0.5)  # blocks are written to disk after the answers
        self.assertEqual(found[:2], [0, 0])
        self.assertGreater(found[2], 0)

    def test_running_requests_keep_their_adapter_when_its_name_is_reloaded_or_unloaded(self):
        case = dict(OF["gqa_all"][0], tokens=[0] * 400)
        with self.serve() as server:
            self.load(server, "x", "gqa_all")
            want = self.ask(server, "x", case)["choices"][0]["token_ids"]
            for change in (lambda: self.load(server, "x", "gqa_layers", load_inplace=True), lambda: self.unload(server, "x")):
                with concurrent.futures.ThreadPoolExecutor(4) as pool:
                    running = [pool.submit(self.ask, server, "x", case, cache_salt=str(i)) for i in range(4)]
                    server.wait_until_running(4)
                    change()
                    for answer in running:
                        self.assertEqual(answer.result()["choices"][0]["token_ids"], want)
                if "x" in self.names(server):
                    self.expect(server, "x", "gqa_layers")
                    self.load(server, "x", "gqa_all", load_inplace=True)
            self.wait_for_memory(server)

    def test_adapters_are_loaded_again_by_restarted_and_by_resharded_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            journal = os.path.join(folder, "journal")
            with self.serve("-tp", "2", "--journal", journal) as server:
                for name in ADAPTERS:
                    self.load(server, name)
                with concurrent.futures.ThreadPoolExecutor(3) as pool:
                    asked = [pool.submit(self.expect, server, name, name) for name in ADAPTERS]
                    time.sleep(0.05)
                    os.kill(server.worker_pids()[0], signal.SIGKILL)
                    for one in asked:
                        one.result()
                status, answer = server.post("/admin/reshard", {"tensor": 3}, admin=True)
                self.assertEqual(status, 200, answer)
                for name in ADAPTERS:
                    self.expect(server, name, name)
            replay = subprocess.run([QUIRE, "replay", "--journal", journal], capture_output=True, text=True, timeout=120)
            self.assertEqual(replay.returncode, 0, replay)
            self.assertIn("every plan is the same", replay.stdout)

    def test_an_adapter_that_new_workers_cannot_read_ends_its_requests_alone(self):
        with self.serve("-tp", "2") as server:
            for name in ADAPTERS[:2]:
                self.load(server, name)
            os.remove(os.path.join(self.directory.path("gqa_all"), "adapter_model.safetensors"))
            os.kill(server.worker_pids()[1], signal.SIGKILL)
            self.expect(server, "gqa_layers", "gqa_layers")
            deadline = time.time() + 30
            while "gqa_all" in self.names(server):
                self.assertLess(time.time(), deadline)
                time.sleep(0.05)
            self.assertIn("gqa_all", server.text())
            self.expect(server, "gqa", "gqa")

    def test_an_adapter_that_a_model_cannot_read_when_it_is_loaded_again_is_dropped(self):
        settings = os.path.join(self.directory.folder.name, "settings.yaml")
        with open(settings, "w", encoding="utf-8") as file:
            json.dump({"model": {"path": TINY}, "exact": True, "load": "request", "keep_alive": -1,
                       "lora": {"dirs": [self.directory.root]}}, file)
        with Server(settings) as server:
            self.expect(server, "gqa", "gqa")
            for name in ADAPTERS[:2]:
                self.load(server, name)
            self.assertEqual(server.post("/admin/models/gqa/unload", {}, admin=True)[0], 200)
            shutil.rmtree(self.directory.path("gqa_all"))
            status, answer = server.post("/v1/completions", body_of("gqa_all", OF["gqa_all"][0]))
            self.assertEqual(status, 500, answer)
            self.assertIn("the adapter gqa_all is lost", answer["error"]["message"])
            deadline = time.time() + 30
            while "gqa_all" in self.names(server):
                self.assertLess(time.time(), deadline)
                time.sleep(0.05)
            self.assertIn("adapter gqa_all is not served any more", server.text())
            self.expect(server, "gqa_layers", "gqa_layers")
            shutil.copytree(path_of("gqa_all"), self.directory.path("gqa_all"))
            self.load(server, "gqa_all")
            self.expect(server, "gqa_all", "gqa_all")

    def test_replicas_and_several_models_have_adapters_of_their_own(self):
        with self.serve("--data-parallel-size", "2") as server:
            self.load(server, "gqa_all")
            for _ in range(2):
                self.expect(server, "gqa_all", "gqa_all")
        with self.serve("--model", f"one={TINY}", "--model", f"two={TINY}", model=None) as server:
            self.load(server, "x", "gqa_all")
            self.load(server, "y", "gqa_layers", base_model_name="two")
            self.assertEqual([(m["id"], m["parent"]) for m in server.get("/v1/models")["data"]],
                             [("one", None), ("x", "one"), ("two", None), ("y", "two")])
            self.expect(server, "x", "gqa_all")
            self.expect(server, "y", "gqa_layers")
            self.load(server, "x", "gqa_layers", load_inplace=True, base_model_name="two", expect=400)
            self.load(server, "two", "gqa_layers", expect=400)
            self.load(server, "z", "gqa_layers", base_model_name="three", expect=404)

    def test_hostile_adapters_are_refused_by_name_and_harm_nobody(self):
        root, path = self.directory.root, self.directory.path
        beside = os.path.join(self.directory.folder.name, "beside")
        shutil.copytree(path_of("gqa_all"), beside)
        os.symlink(beside, path("link"))
        shutil.copytree(path_of("qwen2_all"), path("foreign"))
        for name in ("cut", "empty", "linked_file", "bad_config", "rank"):
            shutil.copytree(path_of("gqa_all"), path(name))
        tensors = "adapter_model.safetensors"
        with open(os.path.join(path("cut"), tensors), "r+b") as f:
            f.truncate(os.path.getsize(f.name) - 100)
        with open(os.path.join(path("empty"), tensors), "w"):
            pass
        os.remove(os.path.join(path("linked_file"), tensors))
        os.symlink(os.path.join(beside, tensors), os.path.join(path("linked_file"), tensors))
        for name, key, value in (("bad_config", "use_dora", True), ("rank", "r", 9)):
            with open(os.path.join(path(name), "adapter_config.json"), "r+") as f:
                config = json.load(f)
                config[key] = value
                f.seek(0)
                f.truncate()
                json.dump(config, f)
        with self.serve("--lora-modules", f"listed={path_of('gqa_all')}") as server:
            def refuse(words, name="a", lora_path=None, status=400, **fields):
                got, answer = operate(server.admin_url, LOAD, {"lora_name": name, "lora_path": lora_path or path("gqa_all"), **fields})
                self.assertEqual(got, status, answer)
                self.assertIn(words, json.loads(answer)["error"]["message"])
            for outside in (beside, path("link"), "/etc", f"{root}/../beside", "/none", "gqa_all"):
                refuse("--lora-dir", lora_path=outside)
            refuse(tensors, lora_path=root)
            refuse("tensor base_model.model.", lora_path=path("foreign"))
            refuse(tensors, lora_path=path("cut"))
            refuse(tensors, lora_path=path("empty"))
            refuse(tensors, lora_path=path("linked_file"))
            refuse("use_dora", lora_path=path("bad_config"))
            refuse("instead of [9", lora_path=path("rank"))
            refuse("name of a model", name="gqa")
            refuse("listed for the start", name="listed", load_inplace=True)
            refuse("lora_name", name="a\n")
            refuse("lora_name", name="a" * 300)
            refuse("--lora-dir", lora_path="a" * 3000)
            refuse("is not known", is_3d_lora_weight=True)
            refuse("load_inplace", load_inplace="yes")
            for body in ({"lora_name": "a"}, {"lora_path": "a"}, {}, [], {"lora_name": 5, "lora_path": "a"}):
                self.assertEqual(server.post(LOAD, body, admin=True)[0], 400, body)
            for name in ("listed", ""):
                self.assertEqual(server.post(UNLOAD, {"lora_name": name}, admin=True)[0], 400, name)
            self.unload(server, "gqa", expect=404)
            self.assertEqual(self.adapters(server), {"loaded": [], "used_bytes": 0})
            self.expect(server, "listed", "gqa_all")

    def test_max_cpu_loras_max_lora_rank_and_lora_memory_flags_bound_the_loaded_adapters(self):
        for name, rank in (("larger", 9), ("middle", 85), ("large", 200)):
            resized(path_of("gqa_all"), self.directory.path(name), rank)
        with self.serve("--max-cpu-loras", "1", "--max-lora-rank", "8") as server:
            self.load(server, "x", "gqa_all")
            self.assertIn("--max-lora-rank", self.load(server, "x", "larger", expect=400, load_inplace=True))
            self.assertIn("--max-cpu-loras", self.load(server, "y", "gqa_all", expect=400))
            self.unload(server, "x")
            self.load(server, "y", "gqa_all")
        with self.serve("--lora-memory", "0.001") as server:  # GiB: little more than 1 MiB
            self.assertIn("at most", self.load(server, "large", expect=400))
            self.load(server, "x", "gqa_all")
            self.assertIn("--lora-memory", self.load(server, "y", "middle", expect=400))
            self.unload(server, "x")
            self.wait_for_memory(server)
            self.load(server, "y", "middle")
        ended = subprocess.run([QUIRE, "serve", "--model", TINY, "--port", "0", "--lora-dir", "/none"], capture_output=True, text=True,
                               stdin=subprocess.DEVNULL, timeout=120)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("--lora-dir", ended.stderr)
        ended = subprocess.run([QUIRE, "serve", "--model", TINY, "--port", "0", "--max-lora-rank", "1", "--lora-modules",
                                f"a={path_of('gqa_all')}"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("--max-lora-rank", ended.stderr)

    def test_loading_an_adapter_on_the_data_port_needs_an_admin_token(self):
        body = {"lora_name": "x", "lora_path": self.directory.path("gqa_all")}
        with Server(model=TINY) as server:
            self.assertEqual(server.post(LOAD, body)[0], 403, "there are no admin tokens")
            status, answer = operate(server.admin_url, LOAD, body)
            self.assertEqual(status, 400)
            self.assertIn("--lora-dir", answer)
        keys = {}
        for kind, words in (("api", ["--api", "ann"]), ("admin", ["--admin"])):
            keys[kind] = os.path.join(self.directory.folder.name, kind)
            made = subprocess.run([QUIRE, "keygen", *words, "--file", keys[kind]], capture_output=True, text=True, check=True)
            keys[kind + "_key"] = made.stdout.strip()
        with self.serve("--api-key-file", keys["api"], "--admin-token-file", keys["admin"]) as server:
            def post(path, key=None):
                return operate(server.url, path, body, {"Authorization": "Bearer " + keys[key]} if key else None)[0]
            self.assertEqual([post(LOAD), post(LOAD, "api_key"), post(UNLOAD), post(UNLOAD, "api_key")], [401] * 4)
            self.assertEqual(post("/v1/completions", "admin_key"), 401)
            self.assertEqual(post(LOAD, "admin_key"), 200)
            self.assertEqual(operate(server.url, UNLOAD, {"lora_name": "x"}, {"Authorization": "Bearer " + keys["admin_key"]})[0], 200)

    def test_adapters_loaded_and_unloaded_in_a_loop_leak_nothing(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "adapter_loop.py")
        ended = subprocess.run([sys.executable, script, "4"], capture_output=True, text=True, timeout=120)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)


if __name__ == "__main__":
    verdict.run_tests()
