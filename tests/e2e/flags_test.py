"""Tests every flag of `quire serve`: its effect, and that /admin/status reports the setting in force. Also tests wrong arguments, --help,
the manual page and completions."""
import functools
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import openai

import adapters_test
import embeddings_test
import fetch_model_test
import fields_test
import kv_disk_test
import kv_events_test
import live_adapters_test
import logs_test
import model_life_test
import models_test
import tls_test

import verdict
from server import QUIRE, ROOT, TINY, Server, free_port


def quire(*arguments):
    return subprocess.run([QUIRE, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def num_threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


class FlagCase(unittest.TestCase):
    KEY = {}  # headers that all requests have

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def status(self):
        return self.server.get("/admin/status", admin=True)

    def setting(self, name):
        return self.status()["settings"][name]

    def complete(self, want=200, **fields):
        body = {"prompt": [5, 6, 7], "max_tokens": 8, "temperature": 0, "ignore_eos": True, **fields}
        status, answer = self.server.post("/v1/completions", body, headers=self.KEY)
        self.assertEqual(status, want, answer)
        return answer

    def cached_again(self, length):
        """Returns how many tokens of a prompt are cached when it is sent a second time."""
        for _ in range(2):
            answer = self.complete(prompt=[8] * length, max_tokens=1)
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def kv_bytes(self):
        return [rank["kv_bytes_per_block"] for rank in self.status()["ranks"]]

    def fill(self, sequences):
        """Runs `sequences` concurrent sequences of the longest allowed length."""
        longest = self.setting("max_model_len")
        self.together([{"prompt": [i], "max_tokens": longest - 1} for i in range(sequences)])

    def together(self, requests, meanwhile=lambda: None):
        """Sends requests at the same time. Calls `meanwhile` once all requests wait. Then lets the server compute all of them."""
        clients = [threading.Thread(target=self.complete, kwargs=fields) for fields in requests]
        self.server.post("/admin/pause", {}, admin=True)
        try:
            for client in clients:
                client.start()
            while self.server.get("/load")["server_load"] < sum(fields.get("n", 1) for fields in requests):
                time.sleep(0.005)
            meanwhile()
        finally:
            self.server.post("/admin/resume", {}, admin=True)
        for client in clients:
            client.join()


class PlainTest(FlagCase):
    """Tests a server with only the flags that every server of this file has."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--backend", "cpu", model=TINY)

    def test_model_port_and_admin_port_flags_set_model_and_addresses(self):
        settings = self.status()["settings"]  # /admin/status is read from --admin-port; readiness was read from --port
        self.assertEqual(settings["model"], TINY)
        self.assertEqual(settings["listen"], f"127.0.0.1:{self.server.port}")
        self.assertEqual(settings["admin_listen"], f"127.0.0.1:{self.server.admin_port}")

    def test_speculative_config_flag_is_reported_by_status_and_refused_on_gpus(self):
        config = '{"method": "ngram", "num_speculative_tokens": 5}'
        with Server("--speculative-config", config, model=TINY) as server:
            self.assertEqual(server.get("/admin/status", admin=True)["settings"]["speculative_config"],
                             {"method": "ngram", "model": None, "num_speculative_tokens": 5, "prompt_lookup_min": 2, "prompt_lookup_max": 8, "disable_by_batch_size": 8})
        for method, more in (("ngram", ""), ("suffix", ""), ("mtp", ""), ("draft_model", f', "model": "{TINY}"')):
            refused = quire("serve", "--model", TINY, "--backend", "cuda", "--speculative-config", f'{{"method": "{method}"{more}}}')
            self.assertEqual(refused.returncode, 2, refused)
            self.assertIn(f"--speculative-config, method {method} is for the CPU", refused.stderr)
        with Server("--speculative-config", '{"method": "off"}', model=TINY) as server:
            self.assertIsNone(server.get("/admin/status", admin=True)["settings"]["speculative_config"])
            answer = server.post("/v1/completions", {"prompt": [5], "max_tokens": 20, "prediction": {"type": "content", "content": "a" * 20}})[1]
            self.assertEqual(answer["usage"]["completion_tokens_details"]["rejected_prediction_tokens"], 0)

    def test_backend_flag_chooses_cpu_or_cuda(self):
        self.assertEqual(self.setting("backend"), "cpu")
        with Server("--backend", "cuda", model=TINY, wait=False) as server:
            try:
                server.wait_until_ready()
                self.assertEqual(server.get("/admin/status", admin=True)["settings"]["backend"], "cuda")
            except AssertionError:  # this machine has no GPU, or the build has no CUDA
                self.assertEqual(server.process.poll(), 2)
                self.assertIn("--backend cuda is impossible", server.text())

    def test_status_reports_documented_defaults_when_no_flags_are_given(self):
        settings = self.status()["settings"]
        cores = len(os.sched_getaffinity(0))
        self.assertIn(settings.pop("threads_per_worker"), range(1, cores + 1))
        self.assertEqual(settings.pop("num_kv_blocks"), self.status()["blocks"]["device"]["total"])
        limits = {"head_seconds": 10, "body_seconds": 30, "idle_seconds": 75, "write_seconds": 30, "connections_per_address": 1024,
                  "memory_bytes": 512 << 20, "memory_bytes_per_client": 256 << 20, "body_bytes_per_second": 4096, "write_bytes_per_second": 1024,
                  "queue_seconds": 60, "request_seconds": 600, "drain_seconds": 30}
        self.assertLessEqual(settings["limits"].pop("connections"), 16384)
        for name in ("listen", "admin_listen", "model"):
            settings.pop(name)
        self.assertEqual(settings, {
            "served_model_name": "gqa", "served_model_aliases": [], "backend": "cpu", "dtype": "float32", "quantization": "none", "activations": "int16",
            "attention_backend": "auto", "load": "start", "keep_alive": -1, "models_memory": None,
            "exact": False, "kv_cache_dtype": "float16", "tensor_parallel_size": 1, "shares": [1], "pipeline_parallel_size": 1, "stages": None, "expert_parallel": False, "data_parallel_size": 1, "prefill_replicas": 0,
            "max_model_len": 2048, "max_num_seqs": 256, "max_num_queued_reqs": 1024, "max_num_batched_tokens": 512, "target_inter_token_ms": 0, "block_size": 16,
            "ssl_certfile": None, "ssl_keyfile": None, "admin_ssl_certfile": None, "admin_ssl_keyfile": None, "allowed_origins": [], "allowed_hosts": [],
            "chat_page": True, "access_log": "off", "access_log_file": None, "audit_log_file": None, "metrics_listen": None,
            "metrics_on_data_port": False, "log_format": "text",
            "otlp_traces_endpoint": None, "private_network": "auto",
            "num_swap_blocks": 0, "kv_cache_memory_bytes": None, "gpu_memory_utilization": 0.9, "swap_space_bytes": 0, "watermark": 0.01, "kv_disk": None, "kv_disk_bytes": 16 << 30, "kv_disk_days": 30,
            "enable_prefix_caching": True, "preemption_mode": "recompute", "plan_ahead": True, "speculative_config": {"method": "auto", "model": None, "num_speculative_tokens": 8, "prompt_lookup_min": 2, "prompt_lookup_max": 8, "disable_by_batch_size": 8}, "seed": None, "journal": None, "kv_events_config": None, "batch_dir": None, "batch_max_bytes": 4 << 30, "batch_concurrency": 16,
            "load_format": "auto", "verify_checksum": None, "chat_template": None, "tool_call_parser": "generic", "reasoning_parser": "none",
            "pooling": "none", "scoring": "none", "generation_config": "quire", "lora_modules": [], "lora_dir": [], "max_cpu_loras": 16, "max_lora_rank": None, "lora_memory_bytes": 1 << 30, "ignore_unknown_fields": False,
            "log_level": "info", "api_key_file": None, "admin_token_file": None, "limits": limits, "key_limits": {}})

    def test_exact_flag_keeps_float32_and_contradicts_coarser_types(self):
        with Server("--exact", "--quantization", "int4", "--threads-per-worker", "1", model=TINY) as server:
            settings = server.get("/admin/config", admin=True)["settings"]
            self.assertEqual([settings[key] for key in ("exact", "kv_cache_dtype", "activations")], [True, "float32", "int16"])
            self.assertIn("numbers: KV cache float32 (--exact), activations int16", server.text())
        self.assertIn("numbers: KV cache float16 (auto), activations int16; ", self.server.text())
        self.assertIn("--exact rounds least", self.server.text())
        for coarser in (("--kv-cache-dtype", "float16"), ("--activations", "int8")):
            refused = quire("serve", "--model", TINY, "--backend", "cpu", "--exact", *coarser)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("--exact contradicts " + " ".join(coarser), refused.stderr)

    def test_attention_backend_flag_is_refused_without_a_gpu(self):
        self.assertEqual(self.setting("attention_backend"), "auto")
        for name in ("v1", "v2", "wgmma"):
            refused = quire("serve", "--model", TINY, "--backend", "cpu", "--attention-backend", name)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f"--attention-backend {name} needs a GPU", refused.stderr)
        self.assertEqual(quire("serve", "--model", TINY, "--attention-backend", "v3").returncode, 2)

    def test_parser_flags_accept_known_names_only(self):
        for flag in ("--tool-call-parser", "--reasoning-parser"):
            refused = quire("serve", "--model", TINY, flag, "hermess")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("mistral", refused.stderr)
        self.assertIn("generic", quire("serve", "--model", TINY, "--tool-call-parser", "hermess").stderr)
        with Server("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3", model=TINY) as server:
            settings = server.get("/admin/status", admin=True)["settings"]
            self.assertEqual((settings["tool_call_parser"], settings["reasoning_parser"]), ("hermes", "qwen3"))
            tools = [{"type": "function", "function": {"name": "f"}}]
            ask = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
            plain, described = (server.post("/v1/chat/completions", {**ask, **fields})[1]["usage"]["prompt_tokens"] for fields in ({}, {"tools": tools}))
            self.assertGreater(described, plain + len(json.dumps(tools[0])) - 10)

    def test_chat_template_flag_replaces_the_template_of_the_model(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "chat.jinja")

            def write(source):
                with open(path, "w", encoding="utf-8") as f:
                    f.write(source)
            write("{% for m in messages %}<{{ m.content }}>{% endfor %}{{ tools | tojson if tools }}<tool_call>")
            with Server("--chat-template", path, "--backend", "cpu", "--threads-per-worker", "1", model=TINY) as server:
                settings = server.get("/admin/status", admin=True)["settings"]
                self.assertEqual((settings["chat_template"], settings["tool_call_parser"]), (path, "hermes"))
                answer = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1})[1]
                self.assertEqual(answer["usage"]["prompt_tokens"], len("<hi><tool_call>"))
            self.assertRegex(quire("check", "--backend", "cpu", "--model", TINY, "--chat-template", path).stdout, r"ok +template +this host +/")
            for source, place in (("{{ 1 }}\n\n{% for %}", f"{path}:3: "), ("{{ messages | nonsense }}", f"{path}:1: "), ("", f"{path}: ")):
                write(source)
                refused = quire("serve", "--model", TINY, "--chat-template", path)
                self.assertEqual(refused.returncode, 2)
                self.assertIn(place, refused.stderr)
                checked = quire("check", "--backend", "cpu", "--model", TINY, "--chat-template", path)
                self.assertEqual(checked.returncode, 1)
                self.assertRegex(checked.stdout, r"FAILED +template +this host +" + place)

    def test_scoring_flag_none_refuses_scores(self):
        with Server("--pooling", "mean", "--scoring", "none", model=TINY) as server:
            settings = server.get("/admin/status", admin=True)["settings"]
            self.assertEqual((settings["pooling"], settings["scoring"]), ("mean", "none"))
            status, answer = server.post("/v1/score", {"text_1": "a", "text_2": "b"})
            self.assertEqual((status, "--scoring none" in answer["error"]["message"]), (400, True))
        refused = quire("serve", "--model", TINY, "--scoring", "cosine")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--pooling last, mean or cls", refused.stderr)

    def test_status_reports_the_log_level_that_an_operator_set(self):
        self.assertNotIn("launching: ", self.server.text())
        self.server.post("/admin/log_level", {"level": "warn"}, admin=True)
        self.assertEqual(self.setting("log_level"), "warn")
        self.server.post("/admin/log_level", {"level": "info"}, admin=True)

    def test_dtype_flag_bfloat16_is_refused_on_the_cpu(self):
        refused = quire("serve", "--model", TINY, "--backend", "cpu", "--dtype", "bfloat16")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--dtype bfloat16 needs a GPU", refused.stdout + refused.stderr)

    def test_verify_checksum_flag_refuses_a_model_with_other_checksums(self):
        with tempfile.TemporaryDirectory() as directory:
            sums = os.path.join(directory, "sums")
            with open(sums, "w", encoding="utf-8") as f:
                subprocess.run(["sha256sum", *os.listdir(TINY)], cwd=TINY, stdout=f, check=True)
            with Server("--backend", "cpu", "--threads-per-worker", "1", "--verify-checksum", sums, model=TINY) as server:
                self.assertEqual(server.get("/admin/status", admin=True)["settings"]["verify_checksum"], sums)
                self.assertRegex(server.text(), f"MiB are what {sums} says")
            with open(sums, "r+", encoding="utf-8") as f:
                first = f.read(1)
                f.seek(0)
                f.write("1" if first == "0" else "0")
            with Server("--backend", "cpu", "--verify-checksum", sums, model=TINY, wait=False) as server:
                self.assertEqual(server.process.wait(timeout=60), 2)
                self.assertIn("is not the file that", server.text())

    def test_gpu_memory_utilization_flag_zero_leaves_no_kv_memory(self):
        with Server("--backend", "cpu", "--gpu-memory-utilization", "0", model=TINY, wait=False) as server:
            self.assertEqual(server.process.wait(timeout=60), 2)
            self.assertRegex(server.text(), r"needs at least \d+ bytes per worker .* 0 are there.*--gpu-memory-utilization")


class BatchTest(FlagCase):
    """Tests a server with a batch directory, with small limits."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.server = Server("--threads-per-worker", "1", "--batch-dir", cls.directory.name, "--batch-max-bytes", "20000", "--batch-concurrency", "1", model=TINY)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        super().tearDownClass()
        cls.directory.cleanup()

    def upload(self, text):
        return self.client.files.create(file=("in.jsonl", text.encode()), purpose="batch")

    def test_batch_dir_flag_sets_the_directory_of_files(self):
        self.assertEqual(self.setting("batch_dir"), self.directory.name)
        file = self.upload("hello")
        with open(os.path.join(self.directory.name, file.id), encoding="utf-8") as f:
            self.assertEqual(f.read(), "hello")
        self.client.files.delete(file.id)

    def test_batch_max_bytes_flag_bounds_the_stored_bytes(self):
        self.assertEqual(self.setting("batch_max_bytes"), 20000)
        for file in self.client.files.list():
            self.client.files.delete(file.id)
        file = self.upload("x" * 7000)  # a client with a name has half; records of files and batches count, too
        with self.assertRaises(openai.BadRequestError) as refused:
            self.upload("x" * 3000)
        self.assertIn("--batch-max-bytes", str(refused.exception))
        self.client.files.delete(file.id)

    def test_batch_concurrency_flag_bounds_the_requests_that_run_together(self):
        self.assertEqual(self.setting("batch_concurrency"), 1)
        body = {"prompt": [5], "max_tokens": 300, "ignore_eos": True}
        file = self.upload("\n".join(json.dumps({"custom_id": str(i), "url": "/v1/completions", "body": body}) for i in range(4)))
        batch = self.client.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h")
        seen = set()
        while self.client.batches.retrieve(batch.id).status in ("validating", "in_progress", "finalizing"):
            seen.add(self.status()["running"])
        self.assertLessEqual(seen, {0, 1})
        self.assertIn(1, seen)


class SmallTest(FlagCase):
    """Tests a server with small sizes, each different from the others."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.server = Server("--backend", "cpu", "--tensor-parallel-size", "3", "--threads-per-worker", "1", "--block-size", "8",
                            "--num-kv-blocks", "20", "--max-model-len", "64", "--max-num-seqs", "4", "--max-num-queued-reqs", "3",
                            "--max-num-batched-tokens", "16", "--served-model-name", "small", "--journal", cls.directory.name,
                            "--log-level", "debug", "--swap-space", "1MiB", "--preemption-mode", "swap", "--kv-cache-dtype", "float16",
                            "--quantization", "int8", "--activations", "int8", "--gpu-memory-utilization", "0.5", model=TINY)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.directory.cleanup()

    def setUp(self):
        self.server.post("/admin/flush_cache", {}, admin=True)

    def test_tensor_parallel_size_flag_sets_the_number_of_workers(self):
        self.assertEqual(len(self.status()["ranks"]), 3)
        self.assertEqual((self.setting("tensor_parallel_size"), self.setting("shares")), (3, [1, 1, 1]))
        self.server.post("/admin/reshard", {"tensor": 2, "shares": [2, 1]}, admin=True)
        self.assertEqual((self.setting("tensor_parallel_size"), self.setting("shares")), (2, [2, 1]))
        self.server.post("/admin/reshard", {"tensor": 3}, admin=True)

    def test_pipeline_parallel_size_flag_sets_the_number_of_stages(self):
        with Server("--pipeline-parallel-size", "3", "--threads-per-worker", "1", model=TINY) as server:
            self.assertEqual(len(server.get("/admin/status", admin=True)["ranks"]), 3)
            settings = server.get("/admin/config", admin=True)["settings"]
            self.assertEqual((settings["tensor_parallel_size"], settings["pipeline_parallel_size"], settings["stages"]), (1, 3, [1, 1, 1]))

    def test_block_size_flag_sets_the_tokens_of_a_block(self):
        self.assertEqual(self.setting("block_size"), 8)
        self.assertEqual(self.cached_again(30), 24)

    def test_num_kv_blocks_flag_sets_the_number_of_blocks(self):
        self.assertEqual(self.setting("num_kv_blocks"), 20)
        self.assertEqual(self.status()["blocks"]["device"]["total"], 20)

    def test_max_model_len_flag_bounds_prompt_and_answer(self):
        self.assertEqual(self.setting("max_model_len"), 64)
        self.assertEqual(self.server.get("/v1/models")["data"][0]["max_model_len"], 64)
        self.complete(prompt=[5] * 60, max_tokens=4)
        self.complete(prompt=[5] * 60, max_tokens=5, want=400)

    def test_max_num_seqs_flag_bounds_choices(self):
        self.assertEqual(self.setting("max_num_seqs"), 4)
        self.complete(n=4)
        self.assertIn("from 1 to 4", self.complete(n=5, want=400)["error"]["message"])

    def test_max_num_queued_reqs_flag_bounds_waiting_requests(self):
        self.assertEqual(self.setting("max_num_queued_reqs"), 3)
        self.together([{"n": 4}, {"n": 3}], lambda: self.assertIn("waiting", self.complete(want=429)["error"]["message"]))
        self.complete()

    def test_max_num_batched_tokens_flag_bounds_the_tokens_of_a_step(self):
        self.assertEqual(self.setting("max_num_batched_tokens"), 16)
        before = self.status()["steps"]
        self.complete(prompt=[5] * 49, max_tokens=1)
        self.assertEqual(self.status()["steps"] - before, 4)

    def test_served_model_name_flag_names_the_model(self):
        self.assertEqual(self.setting("served_model_name"), "small")
        self.assertEqual([model["id"] for model in self.server.get("/v1/models")["data"]], ["small"])
        self.complete(model="small")
        self.complete(model="gqa", want=404)

    def test_journal_flag_writes_a_journal(self):
        self.assertEqual(self.setting("journal"), self.directory.name)
        self.assertTrue(any(name.startswith("segment-") for name in os.listdir(self.directory.name)))

    def test_log_level_flag_debug_writes_more_lines(self):
        self.assertEqual(self.setting("log_level"), "debug")
        self.assertIn("launching: ", self.server.text())  # the default level does not write this line: PlainTest

    def test_swap_space_flag_sets_the_host_blocks(self):
        self.assertEqual(self.setting("swap_space_bytes"), 1 << 20)
        blocks = (1 << 20) // max(self.kv_bytes())
        self.assertEqual((self.setting("num_swap_blocks"), self.status()["blocks"]["host"]["total"]), (blocks, blocks))

    def test_preemption_mode_flag_swap_swaps_sequences_out(self):
        self.assertEqual(self.setting("preemption_mode"), "swap")
        before = self.status()["swapped_out"]
        self.fill(4)  # four sequences of 8 blocks each; there are 20 blocks
        self.assertGreater(self.status()["swapped_out"], before)

    def test_kv_cache_dtype_flag_sets_the_bytes_of_a_block(self):
        self.assertEqual(self.setting("kv_cache_dtype"), "float16")
        layers, heads, head_dim, keys_and_values = 3, 1, 8, 2
        self.assertEqual(self.kv_bytes(), [8 * layers * heads * head_dim * keys_and_values * 2] * 3)

    def test_quantization_flag_is_reported_by_status(self):
        self.assertEqual(self.setting("quantization"), "int8")

    def test_activations_flag_auto_follows_the_quantization(self):
        self.assertEqual(self.setting("activations"), "int8")
        for quantization, chosen in (("int4", "int8"), ("none", "int16")):
            with Server("--activations", "auto", "--quantization", quantization, model=TINY) as server:
                self.assertEqual(server.get("/admin/config", admin=True)["settings"]["activations"], chosen)
                self.assertIn(f"activations {chosen} (auto)", server.text())

    def test_status_reports_gpu_memory_utilization(self):
        self.assertEqual(self.setting("gpu_memory_utilization"), 0.5)


class OtherTest(FlagCase):
    """Tests flags that cannot be combined with the flags of SmallTest."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--backend", "cpu", "--threads-per-worker", "2", "--kv-cache-memory-bytes", "100KiB", "--no-enable-prefix-caching",
                            "--preemption-mode", "recompute", "--swap-space", "1MiB", "--dtype", "float32", "--kv-cache-dtype", "int8",
                            "--max-model-len", "64", "--seed", "7", model=TINY)
        cls.drawn = [cls.draw(), cls.draw()]

    @classmethod
    def draw(cls, **fields):
        return cls.server.post("/v1/completions", {"prompt": [5], "max_tokens": 20, "ignore_eos": True, **fields})[1]["choices"][0]["text"]

    def test_seed_flag_makes_draws_repeatable_across_requests(self):
        self.assertEqual(self.setting("seed"), 7)
        self.assertNotEqual(*self.drawn)
        self.assertEqual(self.drawn, [self.draw(seed=8), self.draw(seed=9)], "the first and the second after the server's seed")

    def test_threads_per_worker_flag_sets_the_threads_of_a_worker(self):
        self.assertEqual(self.setting("threads_per_worker"), 2)
        with Server("--backend", "cpu", "--threads-per-worker", "1", model=TINY) as one:
            self.assertEqual(num_threads(self.server.worker_pids()[0]) - num_threads(one.worker_pids()[0]), 1)

    def test_kv_cache_memory_bytes_flag_sets_the_number_of_blocks(self):
        self.assertEqual(self.setting("kv_cache_memory_bytes"), 100 << 10)
        # one block is the null block
        self.assertEqual(self.setting("num_kv_blocks"), (100 << 10) // self.kv_bytes()[0] - 1)

    def test_no_enable_prefix_caching_flag_turns_the_cache_off(self):
        self.assertEqual(self.setting("enable_prefix_caching"), False)
        self.assertEqual(self.cached_again(40), 0)

    def test_preemption_mode_flag_recompute_swaps_nothing_out(self):
        self.assertEqual(self.setting("preemption_mode"), "recompute")
        self.fill(2 * self.setting("num_kv_blocks") * 16 // 64)
        self.assertGreater(self.status()["preemptions"], 0)
        self.assertEqual(self.status()["swapped_out"], 0)

    def test_status_reports_dtype_float32_and_kv_cache_dtype_int8(self):
        self.assertEqual((self.setting("dtype"), self.setting("kv_cache_dtype")), ("float32", "int8"))


class FileTest(FlagCase):
    """Tests a server with a topology file, flags that override the file, another address, and keys."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        api, admin, topology = (os.path.join(cls.directory.name, name) for name in ("api.keys", "admin.token", "t.yaml"))
        key = quire("keygen", "--api", "alice", "--file", api).stdout.strip()
        cls.token = quire("keygen", "--admin", "--file", admin).stdout.strip()
        cls.KEY = {"Authorization": "Bearer " + key}
        with open(topology, "w", encoding="utf-8") as f:
            f.write(f"model: {{path: {TINY}, name: from-file}}\nbackend: cpu\nscheduler: {{max_running: 5, plan_ahead: false}}\n"
                    "cache: {prefix_caching: false, block_size: 32}\nparallel: {replicas: 1}\n")
        cls.server = Server(topology, "--threads-per-worker", "1", "--host", "127.0.0.2", "--api-key-file", api, "--admin-token-file", admin, "--data-parallel-size", "2",
                            "--enable-prefix-caching", "--block-size", "4", wait=False)
        cls.server.url = cls.server.url.replace("127.0.0.1", "127.0.0.2")
        cls.server.wait_until_ready()
        cls.files = {"api_key_file": api, "admin_token_file": admin}

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.directory.cleanup()

    def status(self):
        return self.server.admin_get("/admin/status", self.token)

    def test_topology_file_applies_where_no_flag_overrides_it(self):
        settings = self.status()["settings"]
        told = [settings[name] for name in ("served_model_name", "max_num_seqs", "plan_ahead", "block_size")]
        self.assertEqual(told, ["from-file", 5, False, 4])
        self.complete(n=6, want=400)

    def test_host_flag_sets_the_address(self):
        self.assertEqual(self.setting("listen"), f"127.0.0.2:{self.server.port}")
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", self.server.port), timeout=10)

    def test_api_key_file_flag_demands_a_key(self):
        self.assertEqual(self.setting("api_key_file"), self.files["api_key_file"])
        self.assertEqual(self.server.post("/v1/completions", {"prompt": [5]})[0], 401)
        self.complete()

    def test_admin_token_file_flag_demands_a_token(self):
        self.assertEqual(self.setting("admin_token_file"), self.files["admin_token_file"])
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.server.get("/admin/status", admin=True)
        self.assertEqual(refused.exception.code, 401)

    def test_data_parallel_size_flag_sets_the_number_of_replicas(self):
        self.assertEqual(self.setting("data_parallel_size"), 2)
        self.assertEqual(len(self.status()["replicas"]), 2)

    def test_enable_prefix_caching_flag_overrides_the_topology_file(self):
        self.assertEqual(self.setting("enable_prefix_caching"), True)
        self.assertEqual(self.cached_again(11), 8)


class DoorsTest(FlagCase):
    """Tests flags of access and logs briefly; signs_test, tls_test and logs_test test their effects in full."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.logs = [os.path.join(cls.directory.name, name) for name in ("access.log", "audit.log")]
        cls.collectors = free_port()
        cls.server = Server("--metrics-listen", f"127.0.0.1:{cls.collectors}", "--metrics-on-data-port", "--allowed-origins", '["https://a.example", "https://b.example"]', "--allowed-hosts", "one.example,two.example",
                            "--access-log", "text", "--access-log-file", cls.logs[0], "--audit-log-file", cls.logs[1], model=TINY)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.directory.cleanup()

    def headers_of(self, **headers):
        request = urllib.request.Request(self.server.url + "/v1/models", headers=headers)
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.headers

    def test_allowed_origins_flag_allows_listed_origins_only(self):
        self.assertEqual(self.setting("allowed_origins"), ["https://a.example", "https://b.example"])
        self.assertEqual(self.headers_of(Origin="https://b.example")["Access-Control-Allow-Origin"], "https://b.example")
        for origins in ("*", "chat.example", "https://chat.example/x", '["https://chat.example"'):
            self.assertEqual(quire("serve", "--model", TINY, "--allowed-origins", origins).returncode, 2, origins)

    def test_allowed_hosts_flag_allows_listed_hosts_only(self):
        self.assertEqual(self.setting("allowed_hosts"), ["one.example", "two.example"])
        self.headers_of(Host="two.example")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.headers_of(Host="three.example")
        self.assertEqual(refused.exception.code, 403)
        self.assertEqual(quire("serve", "--model", TINY, "--allowed-hosts", "a/b").returncode, 2)

    def test_no_chat_page_flag_removes_the_page(self):
        with urllib.request.urlopen(self.server.url + "/chat", timeout=20) as response:
            self.assertIn("text/html", response.headers["Content-Type"])
        with Server("--no-chat-page", model=TINY) as server:
            self.assertIs(server.get("/admin/status", admin=True)["settings"]["chat_page"], False)
            self.assertEqual(server.get("/"), {})  # agents request it to see whether the server runs
            for path in ("/chat", "/web/chat/main.js", "/web/shared/base.css"):
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(server.url + path, timeout=20)
                self.assertEqual(refused.exception.code, 404)

    def written(self, path, text):
        deadline = time.monotonic() + 20
        while True:
            with open(path, encoding="utf-8") as f:
                if text in f.read():
                    return
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_access_log_flags_write_a_line_per_request(self):
        self.assertEqual((self.setting("access_log"), self.setting("access_log_file")), ("text", self.logs[0]))
        self.complete()
        self.written(self.logs[0], 'POST "/v1/completions" status=200 ')
        # no kind of access log is given
        self.assertEqual(quire("serve", "--model", TINY, "--access-log-file", self.logs[0]).returncode, 2)

    def test_audit_log_file_flag_writes_admin_actions(self):
        self.assertEqual(self.setting("audit_log_file"), self.logs[1])
        self.server.post("/admin/resume", {}, admin=True)
        self.written(self.logs[1], '"audit":"/admin/resume"')

    def test_metrics_listen_flag_serves_metrics_on_another_address(self):
        self.assertEqual(self.setting("metrics_listen"), f"127.0.0.1:{self.collectors}")
        with urllib.request.urlopen(f"http://127.0.0.1:{self.collectors}/metrics", timeout=20) as response:
            self.assertIn(b"vllm:num_requests_running", response.read())
        self.assertIn("every interface", quire("serve", "--model", TINY, "--metrics-listen", "0.0.0.0:9100").stderr)

    def test_metrics_on_data_port_flag_serves_metrics_on_the_data_port(self):
        """No key is needed for metrics on the data port, even on a server with keys, as metrics_test.py tests."""
        self.assertIs(self.setting("metrics_on_data_port"), True)
        with urllib.request.urlopen(self.server.url + "/metrics", timeout=20) as response:
            self.assertIn(b"vllm:num_requests_running", response.read())

    def test_otlp_traces_endpoint_flag_refuses_malformed_urls(self):
        """traces_test.py tests the flag's effect."""
        for wrong in ("nowhere", "ftp://127.0.0.1:4318", "http://127.0.0.1:x/v1/traces"):
            refused = quire("serve", "--model", TINY, "--otlp-traces-endpoint", wrong)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("traces.endpoint", refused.stderr)

    def test_ssl_flags_set_the_certificates_of_both_ports(self):
        first, second = (tls_test.make_certificate(self.directory.name, name) for name in ("data", "admin"))
        with tls_test.TlsServer("--ssl-certfile", first[0], "--ssl-keyfile", first[1], "--admin-ssl-certfile", second[0], "--admin-ssl-keyfile", second[1],
                                model=TINY) as server:
            for port, (certificate, _), path in ((server.port, first, "/v1/models"), (server.admin_port, second, "/admin/status")):
                context = ssl.create_default_context(cafile=certificate)
                with urllib.request.urlopen(f"https://localhost:{port}{path}", timeout=20, context=context) as response:
                    answer = json.load(response)
            settings = answer["settings"]
            self.assertEqual([settings[name] for name in ("ssl_certfile", "ssl_keyfile", "admin_ssl_certfile", "admin_ssl_keyfile")], [*first, *second])


class FormatTest(FlagCase):
    """A model with random weights."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(TINY, name), cls.folder.name)
        cls.server = Server("--backend", "cpu", "-tp", "2", "--load-format", "dummy", model=cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_load_format_flag_dummy_serves_made_up_weights(self):
        self.assertEqual(self.setting("load_format"), "dummy")
        answers = [self.complete(prompt=[5], max_tokens=8, ignore_eos=True, logprobs=1) for _ in range(2)]
        self.assertEqual(answers[0]["usage"]["completion_tokens"], 8)
        self.assertEqual(*(answer["choices"][0]["logprobs"]["token_logprobs"] for answer in answers))
        refused = quire("serve", "--model", self.folder.name)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("holds neither model.safetensors", refused.stderr)


class MixtureTest(FlagCase):
    """Tests a mixture of experts with --enable-expert-parallel, where each worker has whole experts, and with a target for the time
    between tokens."""

    @classmethod
    def setUpClass(cls):
        models = os.path.join(ROOT, "tests", "golden", "models")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        with open(os.path.join(models, "mixtral", "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        with open(os.path.join(folder.name, "config.json"), "w", encoding="utf-8") as f:
            json.dump({**config, "vocab_size": 257}, f)
        shutil.copy(os.path.join(models, "gqa", "tokenizer.json"), folder.name)
        cls.start = functools.partial(Server, "-tp", "2", "--load-format", "dummy", "--no-enable-prefix-caching", model=folder.name)
        cls.server = cls.start("--enable-expert-parallel", "--max-num-batched-tokens", "auto", "--target-inter-token-latency", "1")

    def test_enable_expert_parallel_flag_keeps_the_tokens(self):
        """worker/golden_test compares the tokens with HF's. This test compares them with those of workers that have columns of every
        expert."""
        self.assertTrue(self.setting("expert_parallel"))
        ask = {"prompt": [5, 6, 7], "max_tokens": 30, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        tokens = self.complete(**ask)["choices"][0]["token_ids"]
        with self.start() as other:
            self.assertEqual(other.post("/v1/completions", ask)[1]["choices"][0]["token_ids"], tokens)
        refused = subprocess.run([QUIRE, "serve", "--model", TINY, "-tp", "2", "--enable-expert-parallel"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--enable-expert-parallel is for mixtures of experts", refused.stderr)

    def test_target_inter_token_latency_flag_shortens_prompt_chunks_beside_streams(self):
        """While a stream runs, steps compute as few tokens of a prompt as the server allows. Otherwise they compute up to
        max_num_batched_tokens."""
        self.assertEqual(self.setting("max_num_batched_tokens"), 512)
        self.assertEqual(self.setting("target_inter_token_ms"), 1)
        self.complete(prompt=[5] * 1500, max_tokens=1)  # the server learns that its steps exceed a millisecond
        steps = self.status()["steps"]
        self.complete(prompt=[5] * 1500, max_tokens=1)
        self.assertEqual(self.status()["steps"] - steps, 3)
        beside = []

        def stream():
            beside.append(self.complete(prompt=[5], max_tokens=400, ignore_eos=True)["usage"]["completion_tokens"])

        thread = threading.Thread(target=stream)
        thread.start()
        while self.status()["running"] == 0:
            time.sleep(0.001)
        steps = self.status()["steps"]
        self.complete(prompt=[5] * 1500, max_tokens=1)
        self.assertGreater(self.status()["steps"] - steps, 10)
        thread.join()
        self.assertEqual(beside, [400])


# For each flag, the test that shows its effect.
TESTS = {
    "--enable-expert-parallel": MixtureTest.test_enable_expert_parallel_flag_keeps_the_tokens,
    "--target-inter-token-latency": MixtureTest.test_target_inter_token_latency_flag_shortens_prompt_chunks_beside_streams,
    "model_or_topology": FileTest.test_topology_file_applies_where_no_flag_overrides_it,
    "--model": PlainTest.test_model_port_and_admin_port_flags_set_model_and_addresses,
    "--tensor-parallel-size": SmallTest.test_tensor_parallel_size_flag_sets_the_number_of_workers,
    "--pipeline-parallel-size": SmallTest.test_pipeline_parallel_size_flag_sets_the_number_of_stages,
    "--data-parallel-size": FileTest.test_data_parallel_size_flag_sets_the_number_of_replicas,
    "--backend": PlainTest.test_backend_flag_chooses_cpu_or_cuda,
    "--threads-per-worker": OtherTest.test_threads_per_worker_flag_sets_the_threads_of_a_worker,
    "--host": FileTest.test_host_flag_sets_the_address,
    "--port": PlainTest.test_model_port_and_admin_port_flags_set_model_and_addresses,
    "--admin-port": PlainTest.test_model_port_and_admin_port_flags_set_model_and_addresses,
    "--api-key-file": FileTest.test_api_key_file_flag_demands_a_key,
    "--admin-token-file": FileTest.test_admin_token_file_flag_demands_a_token,
    "--ssl-certfile": DoorsTest.test_ssl_flags_set_the_certificates_of_both_ports,
    "--ssl-keyfile": DoorsTest.test_ssl_flags_set_the_certificates_of_both_ports,
    "--admin-ssl-certfile": DoorsTest.test_ssl_flags_set_the_certificates_of_both_ports,
    "--admin-ssl-keyfile": DoorsTest.test_ssl_flags_set_the_certificates_of_both_ports,
    "--allowed-origins": DoorsTest.test_allowed_origins_flag_allows_listed_origins_only,
    "--allowed-hosts": DoorsTest.test_allowed_hosts_flag_allows_listed_hosts_only,
    "--no-chat-page": DoorsTest.test_no_chat_page_flag_removes_the_page,
    "--access-log": DoorsTest.test_access_log_flags_write_a_line_per_request,
    "--access-log-file": DoorsTest.test_access_log_flags_write_a_line_per_request,
    "--audit-log-file": DoorsTest.test_audit_log_file_flag_writes_admin_actions,
    "--metrics-listen": DoorsTest.test_metrics_listen_flag_serves_metrics_on_another_address,
    "--otlp-traces-endpoint": DoorsTest.test_otlp_traces_endpoint_flag_refuses_malformed_urls,
    "--model-dir": models_test.FlagsTest.test_model_dir_flag_serves_the_models_of_a_directory_and_loads_each_at_its_first_request,
    "--fetch": fetch_model_test.FetchModelTest.test_fetch_flag_fetches_a_model_and_continues_an_interrupted_fetch,
    "--served-model-name": SmallTest.test_served_model_name_flag_names_the_model,
    "--chat-template": PlainTest.test_chat_template_flag_replaces_the_template_of_the_model,
    "--tool-call-parser": PlainTest.test_parser_flags_accept_known_names_only,
    "--reasoning-parser": PlainTest.test_parser_flags_accept_known_names_only,
    "--pooling": embeddings_test.LastTokenTest.test_embeddings_equal_transformers,
    "--scoring": PlainTest.test_scoring_flag_none_refuses_scores,
    "--generation-config": fields_test.ModelDefaultsTest.test_generation_config_equals_the_fields_of_the_same_names,
    "--lora-dir": live_adapters_test.LiveAdaptersTest.test_lora_dir_flag_lets_operators_load_and_unload_adapters_on_uneven_workers,
    "--max-cpu-loras": live_adapters_test.LiveAdaptersTest.test_max_cpu_loras_max_lora_rank_and_lora_memory_flags_bound_the_loaded_adapters,
    "--max-lora-rank": live_adapters_test.LiveAdaptersTest.test_max_cpu_loras_max_lora_rank_and_lora_memory_flags_bound_the_loaded_adapters,
    "--lora-memory": live_adapters_test.LiveAdaptersTest.test_max_cpu_loras_max_lora_rank_and_lora_memory_flags_bound_the_loaded_adapters,
    "--lora-modules": adapters_test.AdaptersTest.test_lora_modules_flag_serves_adapters_beside_their_base_on_uneven_workers,
    "--ignore-unknown-fields": fields_test.UnknownFieldTest.test_unknown_fields_are_ignored_and_warned_of_once_with_the_flag,
    "--max-model-len": SmallTest.test_max_model_len_flag_bounds_prompt_and_answer,
    "--max-num-seqs": SmallTest.test_max_num_seqs_flag_bounds_choices,
    "--max-num-queued-reqs": SmallTest.test_max_num_queued_reqs_flag_bounds_waiting_requests,
    "--max-num-batched-tokens": SmallTest.test_max_num_batched_tokens_flag_bounds_the_tokens_of_a_step,
    "--block-size": SmallTest.test_block_size_flag_sets_the_tokens_of_a_block,
    "--num-kv-blocks": SmallTest.test_num_kv_blocks_flag_sets_the_number_of_blocks,
    "--kv-cache-memory-bytes": OtherTest.test_kv_cache_memory_bytes_flag_sets_the_number_of_blocks,
    "--gpu-memory-utilization": PlainTest.test_gpu_memory_utilization_flag_zero_leaves_no_kv_memory,
    "--swap-space": SmallTest.test_swap_space_flag_sets_the_host_blocks,
    "--load": model_life_test.IdleTest.test_idle_models_are_unloaded_after_the_keep_alive_which_requests_can_change,
    "--keep-alive": model_life_test.IdleTest.test_idle_models_are_unloaded_after_the_keep_alive_which_requests_can_change,
    "--models-memory": model_life_test.SwitchingTest.test_models_memory_flag_refuses_a_model_that_does_not_fit,
    "--kv-disk": kv_disk_test.KvDiskTest.test_next_turn_finds_its_blocks_after_a_kill_on_more_workers,
    "--kv-disk-size": kv_disk_test.KvDiskTest.test_kv_disk_size_and_days_flags_bound_the_stored_files,
    "--kv-disk-days": kv_disk_test.KvDiskTest.test_kv_disk_size_and_days_flags_bound_the_stored_files,
    "--kv-cache-dtype": SmallTest.test_kv_cache_dtype_flag_sets_the_bytes_of_a_block,
    "--exact": PlainTest.test_exact_flag_keeps_float32_and_contradicts_coarser_types,
    "--dtype": PlainTest.test_dtype_flag_bfloat16_is_refused_on_the_cpu,
    "--attention-backend": PlainTest.test_attention_backend_flag_is_refused_without_a_gpu,
    "--quantization": SmallTest.test_quantization_flag_is_reported_by_status,
    "--enable-prefix-caching": FileTest.test_enable_prefix_caching_flag_overrides_the_topology_file,
    "--no-enable-prefix-caching": OtherTest.test_no_enable_prefix_caching_flag_turns_the_cache_off,
    "--speculative-config": PlainTest.test_speculative_config_flag_is_reported_by_status_and_refused_on_gpus,
    "--kv-events-config": kv_events_test.KvEventsTest.test_router_follows_cached_evicted_lost_and_flushed_blocks_of_a_replica,
    "--preemption-mode": SmallTest.test_preemption_mode_flag_swap_swaps_sequences_out,
    "--seed": OtherTest.test_seed_flag_makes_draws_repeatable_across_requests,
    "--journal": SmallTest.test_journal_flag_writes_a_journal,
    "--batch-dir": BatchTest.test_batch_dir_flag_sets_the_directory_of_files,
    "--batch-max-bytes": BatchTest.test_batch_max_bytes_flag_bounds_the_stored_bytes,
    "--batch-concurrency": BatchTest.test_batch_concurrency_flag_bounds_the_requests_that_run_together,
    "--load-format": FormatTest.test_load_format_flag_dummy_serves_made_up_weights,
    "--verify-checksum": PlainTest.test_verify_checksum_flag_refuses_a_model_with_other_checksums,
    "--log-level": SmallTest.test_log_level_flag_debug_writes_more_lines,
    "--log-format": logs_test.JsonFormatTest.test_every_line_on_standard_error_is_a_json_object,
    "--metrics-on-data-port": DoorsTest.test_metrics_on_data_port_flag_serves_metrics_on_the_data_port,
}
# Flags whose effect a client cannot see, each with the reason.
EXCEPTIONS = {
    "--help": "prints the list that is read here",
    "--set": "says any key; coordinator/options_test tries every one of them",
    "--activations": "rounds differently, if the processor has the instructions; what it does to numbers is tested where they are computed",
}


class CommandLineTest(unittest.TestCase):
    """Tests the program's messages about unknown words, other engines' flags and itself."""

    def test_unknown_arguments_end_the_program_with_status_2_and_a_message_of_one_line(self):
        for arguments, said in ((("serve", "-xyz", TINY), "quire serve has no flag -xyz"),
                                (("-hf", "ORG/REPO"), "quire has no flag -hf"),
                                (("serve", TINY, "left"), 'quire serve takes no further "left"'),
                                (("serve", TINY, "left", "over"), 'quire serve takes no further "left over"'),
                                (("top", "http://127.0.0.1:1", "left"), 'quire top takes no further "left"'),
                                (("pull", "ORG/REPO"), "use quire serve ORG/NAME --fetch"),
                                (("serve", TINY, "--api-key", "secret"), "quire keygen --api NAME"),
                                (("serve", "-hf", "ORG/NO-SUCH-MODEL"), "deploy/fetch-model ORG/NO-SUCH-MODEL"),
                                (("chat", "--api-key-file", "f"), "--key-file FILE"),
                                (("serve", "--port"), "--port"), ((), "quire")):
            ended = quire(*arguments)
            self.assertEqual(ended.returncode, 2, ended)
            self.assertIn(said, ended.stderr)
            self.assertEqual((ended.stdout, ended.stderr.count("\n")), ("", 1), ended)
            self.assertNotIn("secret", ended.stderr)

    def test_flags_of_other_engines_take_effect_or_are_explained_in_the_log(self):
        with Server("-c", "64", "--enforce-eager", "--dtype=float", "--served-model-name", "first", "second", model=TINY) as server:
            self.assertIn("--enforce-eager is not needed", server.text())
            models = server.get("/v1/models")["data"]
            self.assertEqual([(model["id"], model["max_model_len"]) for model in models], [("first", 64), ("second", 64)])
            self.assertEqual(server.get("/v1/models/second")["id"], "second")
            for name, expected in (("first", 200), ("second", 200), ("third", 404)):
                status, answer = server.post("/v1/completions", {"model": name, "prompt": [5], "max_tokens": 1})
                self.assertEqual(status, expected, answer)
            self.assertEqual(server.get("/admin/status", admin=True)["settings"]["served_model_aliases"], ["second"])

    def test_help_has_groups_and_examples_and_manual_has_its_sections(self):
        shown = quire("serve", "--help").stdout
        for heading in ("Model:", "Computing:", "KV cache:", "Scheduling:", "Serving:", "Watching:", "Examples:"):
            self.assertIn("\n" + heading, shown)
        manual = quire("manual").stdout
        for heading in ("EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES"):
            self.assertIn(f"\n.SH {heading}\n.TP\n.B ", manual)

    def test_manual_fits_a_terminal_of_80_columns_without_a_warning_of_groff(self):
        formatted = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-rLL=78n"], input=quire("manual").stdout, capture_output=True, text=True, check=True)
        self.assertEqual(formatted.stderr, "")
        self.assertGreater(formatted.stdout.count("\n"), 500)
        self.assertIn('quire chat --system "Be brief." --temperature 0.2', re.sub(r"\x1b\[\d*m|.\x08", "", formatted.stdout))

    def test_completions_offer_the_values_of_flags(self):
        self.assertIn('"quire serve --backend") COMPREPLY=($(compgen -W "auto cpu cuda" ', quire("completion", "bash").stdout)
        self.assertIn('"quire cache") commands="ls verify prune export import"', quire("completion", "bash").stdout)
        self.assertIn("-l generation-config -x -a 'auto model quire none'", quire("completion", "fish").stdout)


class CoverageTest(unittest.TestCase):
    def test_every_flag_has_a_test_here(self):
        shown = quire("serve", "--help").stdout
        flags = set(re.findall(r"^ +(?:-\w,)?(--[a-z][\w-]*)", shown, re.M)) | set(re.findall(r"^  (\w+) TEXT", shown, re.M))
        self.assertEqual(flags, set(TESTS) | set(EXCEPTIONS))


if __name__ == "__main__":
    verdict.run_tests()
