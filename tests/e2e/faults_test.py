"""Tests faults: every fault gives a clear error, no request hangs, and nothing is left behind."""
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import verdict
from server import BUILD, QUIRE, ROOT, TINY, Server, alive, found_as_promised, free_port, wait_gone
from stream_client import stream_in_background, text_of


def run_quire(*arguments, env=None, seconds=60):
    return subprocess.run([QUIRE, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
                          env={**os.environ, **(env or {})})


def copy_of_tiny(case):
    """Returns the folder of a copy of the tiny model, which lasts as long as the test case."""
    folder = tempfile.TemporaryDirectory()
    case.addCleanup(folder.cleanup)
    return shutil.copytree(TINY, os.path.join(folder.name, "model"))


class BrokenWeightsTest(unittest.TestCase):
    BROKEN = 33  # the token whose embedding is NaN; the stream does not use this token

    def setUp(self):
        self.model = copy_of_tiny(self)
        path = os.path.join(self.model, "model.safetensors")
        with open(path, "r+b") as f:
            length = int.from_bytes(f.read(8), "little")
            table = json.loads(f.read(length))["model.embed_tokens.weight"]
            row_bytes = (table["data_offsets"][1] - table["data_offsets"][0]) // table["shape"][0]
            f.seek(8 + length + table["data_offsets"][0] + self.BROKEN * row_bytes)
            f.write(b"\xc0\x7f" * (row_bytes // 2))  # NaN in bf16

    def test_broken_weights_fail_only_the_request_that_reads_them(self):
        with Server("-tp", "2", model=self.model) as server:
            thread, alone = stream_in_background(server)
            thread.join(timeout=60)
            thread, lines = stream_in_background(server)
            for body in ({"temperature": 0}, {"temperature": 1, "logprobs": 3}, {"n": 2}):
                status, answer = server.post("/v1/completions", {"prompt": [5, self.BROKEN, 7], "max_tokens": 5, **body})
                self.assertEqual(status, 500)
                self.assertIn("no numbers", answer["error"]["message"])
            thread.join(timeout=60)
            self.assertEqual(text_of(lines), text_of(alone))
            status = server.get("/admin/status", admin=True)
            self.assertEqual(status["recoveries"], 0)
            self.assertEqual(status["blocks"]["device"]["free"], status["blocks"]["device"]["total"])


class LargeValuesTest(unittest.TestCase):
    """Tests a bf16 model whose values exceed the range of float16, the default type of the KV cache."""

    def setUp(self):
        self.model = copy_of_tiny(self)
        path = os.path.join(self.model, "model.safetensors")
        with open(path, "r+b") as f:
            length = int.from_bytes(f.read(8), "little")
            begin, end = json.loads(f.read(length))["model.layers.0.self_attn.v_proj.weight"]["data_offsets"]
            f.seek(8 + length + begin)
            numbers = struct.unpack(f"<{(end - begin) // 2}H", f.read(end - begin))
            grown = [number + (30 << 7) if number & 0x7fff else number for number in numbers]  # bf16: times 2^30
            f.seek(8 + length + begin)
            f.write(struct.pack(f"<{len(grown)}H", *grown))

    def answer(self, *flags):
        with Server(*flags, model=self.model) as server:
            return server.post("/v1/completions", {"prompt": [5, 6, 7], "max_tokens": 8, "temperature": 0, "ignore_eos": True, "logprobs": 1})

    def test_values_beyond_float16_fail_the_request_unless_the_cache_has_another_type(self):
        status, answer = self.answer()
        self.assertEqual(status, 500)
        self.assertIn("no numbers", answer["error"]["message"])
        self.assertIn("--exact", answer["error"]["message"])
        for flags in (("--exact",), ("--kv-cache-dtype", "float32"), ("--kv-cache-dtype", "int8")):
            status, answer = self.answer(*flags)
            self.assertEqual(status, 200, answer)
            self.assertEqual(len(answer["choices"][0]["logprobs"]["token_logprobs"]), 8)


class WorkerLossTest(unittest.TestCase):
    def survive(self, hits, expect):
        """Sends the signals of `hits`, (signal, rank), to one group of workers after another while streams run."""
        with Server("-tp", "2", model=TINY) as server:
            thread, fault_free = stream_in_background(server)
            thread.join(timeout=60)
            streams = [stream_in_background(server) for _ in range(3)]
            for epoch, (signal_number, rank) in enumerate(hits, 2):
                pids = server.worker_pids()
                deadline = time.monotonic() + 60
                os.kill(pids[rank], signal_number)
                while server.get("/admin/status", admin=True)["epoch"] != epoch:
                    self.assertLess(time.monotonic(), deadline, "the workers do not come back")
                    time.sleep(0.02)
                self.assertEqual(wait_gone(pids, 5), [])
            for thread, lines in streams:
                thread.join(timeout=60)
                self.assertFalse(thread.is_alive(), "a stream hangs")
                self.assertEqual(text_of(lines), text_of(fault_free))
            status = server.get("/admin/status", admin=True)
            self.assertEqual((status["state"], status["recoveries"]), ("serving", len(hits)))
            self.assertEqual(status["blocks"]["device"]["free"], status["blocks"]["device"]["total"])
            self.assertRegex(server.text(), expect)
            found_as_promised(self, server.text())
            pids = server.worker_pids()
            self.assertEqual(server.terminate(), 0)
            self.assertEqual(wait_gone(pids, 5), [])

    def test_streams_continue_when_workers_are_killed(self):
        self.survive([(signal.SIGKILL, 1), (signal.SIGKILL, 0)], r"the worker group is lost: rank 1 on \S+ was killed by signal 9")

    def test_streams_continue_when_a_worker_is_stopped(self):
        self.survive([(signal.SIGSTOP, 1)], "rank 1 .* is silent")

    def test_streams_continue_when_mpirun_is_killed(self):
        with Server("-tp", "2", model=TINY) as server:
            thread, fault_free = stream_in_background(server)
            thread.join(timeout=60)
            thread, lines = stream_in_background(server)
            pids = server.worker_pids()
            with open(f"/proc/{pids[0]}/stat") as f:
                mpirun = int(f.read().rsplit(")", 1)[1].split()[1])
            os.kill(mpirun, signal.SIGKILL)
            self.assertEqual(wait_gone(pids, 2), [])
            thread.join(timeout=60)
            self.assertEqual(text_of(lines), text_of(fault_free))
            self.assertEqual(server.get("/admin/status", admin=True)["epoch"], 2)

    def test_streams_get_no_end_marker_when_the_coordinator_is_killed(self):
        with Server("-tp", "2", model=TINY) as server:
            streams = [stream_in_background(server, 1900) for _ in range(4)]
            self.assertFalse(any(b"[DONE]" in lines for _, lines in streams))
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait()
            for thread, lines in streams:
                thread.join(timeout=10)
                self.assertFalse(thread.is_alive())
                self.assertNotIn(b"[DONE]", lines)
                self.assertFalse([line for line in lines if b'"finish_reason":"' in line])

    def test_an_idle_server_replaces_a_dead_worker(self):
        with Server("-tp", "2", model=TINY) as server:
            pids = server.worker_pids()
            os.kill(pids[1], signal.SIGKILL)
            self.assertEqual(wait_gone(pids, 5), [])
            status, answer = server.post("/v1/completions", {"prompt": [3, 4], "max_tokens": 4, "temperature": 0})
            self.assertEqual(status, 200, answer)

    def test_server_ends_with_an_error_when_workers_cannot_restart(self):
        with tempfile.TemporaryDirectory() as d:
            model = os.path.join(d, "m")
            shutil.copytree(TINY, model)
            with Server("-tp", "2", model=model) as server:
                thread, lines = stream_in_background(server)
                os.remove(os.path.join(model, "model.safetensors"))
                os.kill(server.worker_pids()[0], signal.SIGKILL)
                thread.join(timeout=30)
                self.assertIn("error", json.loads(lines[-2] if lines[-1] == b"[DONE]" else lines[-1]))
                self.assertNotEqual(server.process.wait(timeout=15), 0)
                self.assertIn("holds neither model.safetensors", server.text())

    def test_workers_end_when_the_coordinator_is_killed(self):
        with tempfile.TemporaryDirectory() as base:
            env = {"XDG_RUNTIME_DIR": base}
            with Server("-tp", "2", model=TINY, env=env) as server:
                pids = server.worker_pids()
                os.kill(server.process.pid, signal.SIGKILL)
                server.process.wait()
                self.assertEqual(wait_gone(pids, 6), [])
            self.assertEqual(len(os.listdir(base)), 1)
            with Server("-tp", "1", model=TINY, env=env):  # the next server removes what the killed one left
                self.assertEqual(len(os.listdir(base)), 1)
            self.assertEqual(os.listdir(base), [])

    def test_sigterm_drains_the_server_and_a_second_sigterm_stops_it_immediately(self):
        with Server("-tp", "2", model=TINY) as server:
            pids = server.worker_pids()
            thread, lines = stream_in_background(server, 300)
            self.assertEqual(server.terminate(), 0)
            thread.join(timeout=10)
            self.assertEqual(lines[-1], b"[DONE]")
            self.assertEqual(sum(b'"text":"' in line and b'"finish_reason":null' in line for line in lines) > 10, True)
            self.assertEqual([p for p in pids if alive(p)], [])
        # glibc fills freed memory with garbage, which reveals a use after free.
        with Server("-tp", "2", model=TINY, env={"MALLOC_PERTURB_": "165"}) as server:
            streams = [stream_in_background(server, 1900) for _ in range(4)]
            server.process.send_signal(signal.SIGTERM)
            while self.is_ready(server):
                time.sleep(0.005)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=10), 0)
            for thread, lines in streams:
                thread.join(timeout=5)
                # With the first signal alone the stream would have reached its end.
                self.assertLess(sum(b'"text":"' in line for line in lines), 1900)
                self.assertFalse([line for line in lines if b'"finish_reason":"length"' in line])

    def test_data_port_stays_open_during_shutdown_while_running_requests_end(self):
        with Server("-tp", "1", model=TINY) as server:
            kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            kept.request("GET", "/health")
            self.assertEqual(kept.getresponse().read(), b"{}")
            thread, lines = stream_in_background(server, 1900)
            server.process.send_signal(signal.SIGTERM)
            while self.is_ready(server):
                time.sleep(0.005)
            for _ in range(3):
                self.assertEqual(server.get("/health"), {})
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    server.get("/ready")
                self.assertEqual((refused.exception.code, refused.exception.headers["Retry-After"]), (503, "1"))
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(urllib.request.Request(server.url + "/v1/completions", b'{"prompt": [3]}', {"Content-Type": "application/json"}))
                self.assertEqual((refused.exception.code, refused.exception.headers["Retry-After"]), (503, "1"))
            kept.request("GET", "/ready")
            answer = kept.getresponse()
            self.assertEqual((answer.status, answer.headers["Connection"]), (503, "close"), "its client finds another server")
            thread.join(timeout=60)
            self.assertEqual(lines[-1], b"[DONE]")
            self.assertEqual(server.process.wait(timeout=20), 0)

    def test_running_requests_end_after_drain_seconds(self):
        with Server("-tp", "1", "--set", "server.limits.drain_seconds=1", model=TINY) as server:
            streams = [stream_in_background(server, 1900) for _ in range(8)]
            begin = time.monotonic()
            self.assertEqual(server.terminate(), 0)
            self.assertLess(time.monotonic() - begin, 20)
            self.assertIn("may finish within 1 s", server.text())
            for thread, lines in streams:
                thread.join(timeout=10)
                self.assertNotEqual(lines[-1:], [b"[DONE]"])

    @staticmethod
    def is_ready(server):
        try:
            urllib.request.urlopen(server.url + "/ready", timeout=5).close()
            return True
        except OSError:  # 503 while the server drains; afterwards there is no connection
            return False


class StartFaultTest(unittest.TestCase):
    def expect(self, result, status, text):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertIn(text, result.stderr)

    def test_serve_names_the_problem_of_a_missing_or_broken_model(self):
        self.expect(run_quire("serve", "--model", "/nonexistent"), 2, "no such model")
        with tempfile.TemporaryDirectory() as d:
            copy = os.path.join(d, "m")
            shutil.copytree(TINY, copy)
            with open(os.path.join(copy, "model.safetensors"), "r+b") as f:
                f.truncate(100000)
            self.expect(run_quire("serve", "--model", copy), 2, "truncated download?")
            os.remove(os.path.join(copy, "model.safetensors"))
            self.expect(run_quire("serve", "--model", copy), 2, "holds neither model.safetensors")
            with open(os.path.join(copy, "config.json"), "w") as f:
                f.write("{\"model_type\": \"mamba\"")
            self.expect(run_quire("serve", "--model", copy), 2, "config.json")
            for config, said in (({"model_type": "mamba"}, "mamba"), ({"model_type": "gpt_oss", "hidden_act": "tanh"}, ""), ({}, "is not supported")):
                with open(os.path.join(copy, "config.json"), "w") as f:
                    json.dump(config, f)
                for command in ("serve", "plan", "bench latency"):
                    self.expect(run_quire(*command.split(), "--model", copy), 2, said)

    def test_settings_that_the_model_or_the_machine_contradicts_exit_with_2(self):
        """Another start would fail, too, so a supervisor must not try it."""
        for flags, said in ((("--max-model-len", "1000000"), "max_model_len 1000000 exceeds"), (("--enable-expert-parallel",), "mixtures of experts"),
                            (("--set", "parallel.shares=[1, 2]", "-tp", "3"), "shares"), (("--tool-call-parser", "nonsense"), "tool-call-parser"),
                            (("--swap-space", "90000"), "lower --swap-space"),
                            (("--set", "launch.worker=/no/such/worker"), "/no/such/worker")):
            self.expect(run_quire("serve", "--model", TINY, "--port", "0", "--admin-port", "0", *flags), 2, said)

    def test_serve_refuses_more_workers_than_heads(self):
        self.expect(run_quire("serve", "--model", TINY, "-tp", "10", "--port", "0", "--admin-port", "0"), 2, "1 to 9 workers")

    def test_serve_names_a_port_that_is_taken(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = str(s.getsockname()[1])
            self.expect(run_quire("serve", "--model", TINY, "--port", port, "--admin-port", "0"), 1, "127.0.0.1:" + port)

    def test_serve_says_when_mpirun_is_missing(self):
        result = run_quire("serve", "--model", TINY, "--port", "0", "--admin-port", "0", env={"PATH": "/nowhere"})
        self.expect(result, 2, "mpirun is not installed")

    def test_commands_except_check_exit_with_2_on_wrong_files_flags_or_arguments(self):
        with tempfile.TemporaryDirectory() as folder:
            file, gone = os.path.join(folder, "file"), os.path.join(folder, "gone")
            open(file, "w").close()
            requests, prompts = os.path.join(folder, "requests.jsonl"), os.path.join(folder, "prompts")
            for path, line in ((requests, '{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "a"}}'), (prompts, '"a"')):
                with open(path, "w") as lines:
                    lines.write(line + "\n")
            serve = ["serve", "--model", TINY, "--port", "0", "--admin-port", "0"]
            below = os.path.join(file, "x")
            commands = [["serve", "--model", gone], ["serve", gone + ".yaml"], *([*serve, flag, below] for flag in ("--journal", "--kv-disk", "--batch-dir")),
                        [*serve, "--journal", os.path.join(gone, "x")], [*serve, "--api-key-file", gone], [*serve, "--chat-template", gone], [*serve, "--lora-modules", f"a={gone}"],
                        [*serve, "--lora-dir", gone], [*serve, "--ssl-certfile", gone, "--ssl-keyfile", gone], ["plan", "--model", gone], ["plan", gone], ["bench", "throughput", "--model", gone],
                        ["explain", gone], ["replay", gone], ["batch", "run"], *(["batch", "run", *words] for words in ([gone], [file], [requests, "--key-file", gone],
                        [requests, "--output", requests], [requests, "--output", folder], [requests, "--output", below], [requests, "--url", "no://where"], [requests, "--retries", "-1"])),
                        ["warm"], *(["warm", *words] for words in ([gone], [file], [prompts, "--key-file", gone], [prompts, "--url", "no://where"])), ["chat", "no://where"], ["top", "no://where"],
                        ["chat", "--key-file", gone], ["top", "--key-file", gone],
                        *(["keygen", *words] for words in ([], ["--admin", "--file", file], ["--admin", "--file", below], ["--api", "a", "--file", below], ["--api", "a", "--file", folder],
                        ["--transport", below, "--ranks", "2"], ["--transport", os.path.join(gone, "x"), "--ranks", "2"])),
                        *([command, "--nosuch"] for command in ("serve", "plan", "check", "chat", "top", "warm", "keygen", "explain", "replay")), ["nosuch"]]
            for command in commands:
                with self.subTest(command):
                    done = run_quire(*command)
                    self.assertEqual(done.returncode, 2, done.stderr)
            for command in (["batch", "run", requests, "--url", "http://127.0.0.1:1", "--retries", "0"], ["warm", prompts, "--url", "http://127.0.0.1:1"]):
                with self.subTest(command):
                    self.assertEqual(run_quire(*command).returncode, 1, "a later run may find the server")
            # An operator may repair what a check finds before the next check, so the status is 1.
            for command in (["check", "--model", gone], ["check", gone + ".yaml"], ["check", "--model", TINY, "--api-key-file", gone]):
                with self.subTest(command):
                    done = run_quire(*command)
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertIn("FAILED", done.stdout)
                    self.assertIn(gone, done.stdout)

    def test_serve_exits_with_2_on_bad_flags(self):
        self.assertEqual(run_quire("serve", "--no-such-flag").returncode, 2)
        self.assertEqual(run_quire("serve", "--model", TINY, "-tp", "0").returncode, 2)
        self.expect(run_quire("serve"), 2, "no model")
        self.expect(run_quire("serve", "--model", TINY, "--host", "0.0.0.0"), 2, "reachable from other machines")
        self.expect(run_quire("serve", "--model", TINY, "--quantization", "int3"), 2, "none, int8, int4, fp8")
        for flag in ("--activations", "--kv-cache-dtype"):
            self.expect(run_quire("serve", "--model", TINY, "--backend", "cuda", flag, "int8"), 2, f"{flag} int8 is for the CPU")
        self.expect(run_quire("serve", "--model", TINY, "--backend", "cuda", "--dtype", "float32", "--quantization", "int8"), 2,
                    "needs --dtype bfloat16, float16 or auto")
        self.expect(run_quire("serve", "--model", TINY, "--backend", "cpu", "--kv-cache-dtype", "fp8"), 2, "needs a GPU")
        self.expect(run_quire("serve", "--model", TINY, "--backend", "cuda", "--kv-cache-dtype", "float16"), 2, "is for the CPU")
        self.expect(run_quire("serve", "--model", TINY, "--kv-cache-dtype", "int4"), 2, "auto, fp8, float32, float16, int8")

    def test_topology_errors_name_file_and_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write("model: {path: /m}\nparallel:\n  tensor: two\n")
            f.flush()
            self.expect(run_quire("serve", f.name), 2, f"{f.name}:3: parallel: tensor must be an integer")

    def test_serve_says_how_much_kv_memory_is_needed_when_memory_does_not_suffice(self):
        result = run_quire("serve", "--model", TINY, "--port", "0", "--admin-port", "0", "--kv-cache-memory-bytes", "1000")
        self.expect(result, 2, "needs at least")

    def test_serve_reads_all_settings_from_a_topology_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(f"model: {{path: {TINY}, name: tiny}}\nparallel: {{tensor: 3, shares: [2, 1, 1]}}\ncache: {{num_blocks: 50}}\n")
            f.flush()
            with Server(f.name) as server:
                status = server.get("/admin/status", admin=True)
                self.assertEqual(len(status["ranks"]), 3)
                self.assertEqual(status["blocks"]["device"]["total"], 50)
                self.assertEqual(server.get("/v1/models")["data"][0]["id"], "tiny")

    def test_server_accepts_workers_that_mpirun_started_by_hand(self):
        data, ctrl = free_port(), free_port()
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(f"model: {{path: {TINY}}}\nparallel: {{tensor: 2}}\ntransport: {{bind: 127.0.0.1, ports: [{data}, {ctrl}]}}\n"
                    "launch: {method: external}\n")
            f.flush()
            with Server(f.name, wait=False) as server:
                mpirun = subprocess.Popen(["mpirun", "-np", "2", "--oversubscribe", os.path.join(BUILD, "quire-worker"), "--coordinator", f"tcp://127.0.0.1:{data}"],
                                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                try:
                    server.wait_until_ready()
                    status, answer = server.post("/v1/completions", {"prompt": [3, 4], "max_tokens": 4, "temperature": 0})
                    self.assertEqual(status, 200, answer)
                    self.assertEqual(server.terminate(), 0)
                    self.assertEqual(mpirun.wait(timeout=15), 0)
                finally:
                    mpirun.kill()
                    mpirun.wait()


if __name__ == "__main__":
    verdict.run_tests()
