"""Tests models that sleep: their workers hold the weights, and with --kv-disk the memory of their cache goes back to the system. A
request or an operator wakes them. Also tests vLLM's /sleep, /wake_up and /is_sleeping."""
import concurrent.futures
import os
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import verdict
from kv_disk_test import ask, cached, prompt_of, said
from model_life_test import LifeCase, listed, serve, sizes, workers_of
from server import QUIRE, TINY, Server

TOKENS = 1500


def private_bytes(pids):
    """Returns how many bytes of these processes' memory no file backs."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            total += sum(int(line.split()[1]) << 10 for line in f if line.startswith("Anonymous:"))
    return total


def post(server, path, admin=True, headers=None):
    """Returns the status of a POST without a body. The answer may be empty."""
    request = urllib.request.Request((server.admin_url if admin else server.url) + path, b"", {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


class SleepTest(LifeCase):
    def check_cycle(self, *flags, keeps):
        """Caches prompts, puts the model to sleep, and wakes it by /wake_up, by a request and by /admin/models. keeps: true if cached
        blocks stay in memory."""
        prompts = [prompt_of(TOKENS, start) for start in range(1, 9)]
        with Server("--block-size", "16", "--num-kv-blocks", "2000", "--threads-per-worker", "1", "-tp", "2", *flags, model=TINY) as server:
            name = server.get("/v1/models")["data"][0]["id"]
            pids = sorted(workers_of(server))
            before = private_bytes(pids)
            answers = [ask(server, prompt, 4) for prompt in prompts]
            filled = private_bytes(pids)
            self.assertEqual(server.get("/is_sleeping", admin=True), {"is_sleeping": False})
            self.assertEqual(post(server, "/sleep?level=1"), 200)
            self.assertEqual(server.get("/is_sleeping", admin=True), {"is_sleeping": True})
            self.assertEqual(server.get(f"/v1/models/{name}")["state"], "asleep")
            self.assertIn('state="asleep"} 1', server.get("/metrics", admin=True))
            self.assertEqual(sorted(workers_of(server)), pids)
            asleep = private_bytes(pids)
            if keeps:
                self.assertGreater(asleep - before, 0.4 * (filled - before))
            else:
                self.assertLess(asleep - before, 0.3 * (filled - before))
            begin = time.monotonic()
            self.assertEqual(post(server, "/wake_up"), 200)
            self.assertLess(time.monotonic() - begin, 0.5)
            self.assertEqual(self.models(server)[name]["state"], "ready")
            for number, (prompt, answer) in enumerate(zip(prompts, answers)):
                again = ask(server, prompt, 4)
                self.assertEqual(said(again), said(answer))
                if keeps or number == 0:  # after the first fetch from disk, whose time is measured, the server may compute instead
                    self.assertEqual(cached(again), (TOKENS - 1) // 16 * 16)
            self.assertEqual(server.post(f"/admin/models/{name}/sleep", {}, admin=True), (200, {"model": name, "state": "asleep"}))
            self.assertEqual(said(ask(server, prompts[3], 4)), said(answers[3]))
            self.assertEqual(self.models(server)[name]["loads"], 1)
            self.assertEqual(sorted(workers_of(server)), pids)
            self.assertEqual(server.post(f"/admin/models/{name}/sleep", {}, admin=True)[0], 200)
            self.assertEqual(server.post(f"/admin/models/{name}/wake", {}, admin=True), (200, {"model": name, "state": "ready"}))
            self.assertEqual(server.post(f"/admin/models/{name}/sleep", {}, admin=True)[0], 200)
            server.process.terminate()
            self.assertEqual(server.process.wait(timeout=40), 0)

    def test_cache_of_a_sleeping_model_is_on_the_disk_and_its_memory_goes_back_to_the_system(self):
        with tempfile.TemporaryDirectory() as disk:
            self.check_cycle("--kv-disk", disk, keeps=False)

    def test_cache_of_a_sleeping_model_stays_in_memory_without_a_disk(self):
        self.check_cycle(keeps=True)

    def test_pinned_prompts_stay_cached_while_a_model_sleeps(self):
        with tempfile.TemporaryDirectory() as disk, \
                Server("--block-size", "16", "--num-kv-blocks", "300", "--kv-disk", disk, model=TINY) as server:
            prompt = prompt_of(200)
            ask(server, prompt, 1)
            self.assertEqual(server.post("/admin/pin", {"prompt": prompt, "ttl_seconds": 600}, admin=True)[0], 200)
            self.assertEqual(post(server, "/sleep"), 200)
            answer = ask(server, prompt, 1)
            self.assertGreater(cached(answer), 0)
            self.assertEqual(len(server.get("/admin/block_map", admin=True)["pins"]), 1)

    def test_sleep_of_level_2_unloads_and_bad_levels_are_refused(self):
        with Server("--num-kv-blocks", "100", model=TINY) as server:
            name = server.get("/v1/models")["data"][0]["id"]
            pids = workers_of(server)
            for query in ("level=0", "level=3", "level=deep", "tags=weights", "mode=now"):
                self.assertEqual(post(server, "/sleep?" + query), 400, query)
            self.assertEqual(post(server, "/wake_up?tags=weights"), 400)
            self.assertEqual(post(server, "/sleep?level=2"), 200)
            self.assertEqual(self.models(server)[name]["state"], "unloaded")
            self.assertTrue(server.get("/is_sleeping", admin=True)["is_sleeping"])
            self.assertFalse(any(map(lambda pid: os.path.exists(f"/proc/{pid}"), pids)))
            for verb in ("sleep", "wake"):
                status, answer = server.post(f"/admin/models/{name}/{verb}", {}, admin=True)
                self.assertEqual(status, 409, answer)
                self.assertIn("is unloaded", answer["error"]["message"])
            self.assertEqual(post(server, "/wake_up"), 200)
            self.assertEqual(self.models(server)[name]["state"], "ready")
            self.assertEqual(server.post("/v1/completions", {"prompt": [5], "max_tokens": 2})[0], 200)

    def test_sleep_on_the_data_port_is_for_operators(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = os.path.join(folder, "admin.token")
            made = subprocess.run([QUIRE, "keygen", "--admin", "--file", keys], check=True, capture_output=True, text=True)
            token = {"Authorization": "Bearer " + made.stdout.split()[-1]}
            with Server("--num-kv-blocks", "100", "--admin-token-file", keys, model=TINY) as server:
                for path in ("/sleep", "/wake_up"):
                    self.assertEqual(post(server, path, admin=False), 401, path)
                self.assertEqual(post(server, "/sleep", admin=False, headers=token), 200)
                request = urllib.request.Request(server.url + "/is_sleeping", headers=token)
                with urllib.request.urlopen(request, timeout=30) as response:
                    self.assertEqual(response.read(), b'{"is_sleeping":true}')
                self.assertEqual(post(server, "/wake_up", admin=False, headers=token), 200)
        with Server("--num-kv-blocks", "100", model=TINY) as server:
            self.assertEqual(post(server, "/sleep", admin=False), 403)

    def test_sleep_waits_for_requests_or_ends_them_by_force(self):
        with Server("--num-kv-blocks", "100", model=TINY) as server, concurrent.futures.ThreadPoolExecutor(2) as pool:
            name = server.get("/v1/models")["data"][0]["id"]
            for force in (False, True):
                server.post("/admin/pause", {}, admin=True)
                running = pool.submit(server.post, "/v1/completions", {"prompt": [5], "max_tokens": 20, "ignore_eos": True})
                while self.models(server)[name]["requests"] == 0:
                    time.sleep(0.01)
                sleeping = pool.submit(post, server, "/sleep" + ("?mode=abort" if force else ""))
                if not force:
                    time.sleep(0.3)
                    self.assertEqual(self.models(server)[name]["state"], "ready")
                    server.post("/admin/resume", {}, admin=True)
                status, answer = running.result(timeout=30)
                self.assertEqual(status, 410 if force else 200, answer)
                self.assertEqual(sleeping.result(timeout=30), 200)
                self.assertEqual(self.models(server)[name]["state"], "asleep")
                server.post("/admin/resume", {}, admin=True)
                self.assertEqual(server.post("/v1/completions", {"prompt": [5], "max_tokens": 2})[0], 200)

    def test_killed_worker_of_a_sleeping_model_is_replaced_and_the_model_wakes(self):
        with Server("-tp", "2", "--num-kv-blocks", "100", model=TINY) as server:
            name = server.get("/v1/models")["data"][0]["id"]
            right = ask(server, prompt_of(50), 4)
            self.assertEqual(post(server, "/sleep"), 200)
            os.kill(workers_of(server)[0], 9)
            self.assertEqual(said(ask(server, prompt_of(50), 4)), said(right))
            self.assertEqual(self.models(server)[name]["state"], "ready")

    def test_sleeping_models_leave_memory_to_others_and_wake_again(self):
        models = listed(("first", "second"))
        for model in models:
            model["cache"]["num_blocks"] = 20000  # the caches take most of the memory
        size = sizes(models)
        with serve(models, models_memory=max(size.values()) * 7 // 5) as server:
            self.expect_golden(server, "first")
            pids = workers_of(server)
            self.assertEqual(server.post("/admin/models/first/sleep", {}, admin=True)[0], 200)
            self.expect_golden(server, "second")
            page = server.get("/admin/models", admin=True)
            states = {model["name"]: model for model in page["models"]}
            self.assertEqual({name: model["state"] for name, model in states.items()}, {"first": "asleep", "second": "ready"})
            self.assertLess(states["first"]["taken_bytes"], size["first"] // 2)
            self.assertLessEqual(page["memory"]["taken_bytes"], page["memory"]["most_bytes"])
            self.assertTrue(set(pids) <= set(workers_of(server)))
            self.expect_golden(server, "first")  # there is no room for both caches
            self.assertEqual(self.models(server)["first"]["loads"], 1)
            self.assertEqual(self.models(server)["second"]["state"], "unloaded")
            done = subprocess.run([QUIRE, "top", server.admin_url, "--interval", "0.1"], capture_output=True, text=True, timeout=60)
            self.assertRegex(done.stdout, r"second +unloaded")


if __name__ == "__main__":
    verdict.run_tests()
