"""Tests /metrics: every family that vLLM's dashboards show, right values, the separate port, and the names in the shipped dashboard and
rules."""
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import verdict
from server import QUIRE, ROOT, TINY, Server, free_port

DASHBOARD = os.path.join(ROOT, "deploy", "grafana", "quire.json")
RULES = os.path.join(ROOT, "deploy", "prometheus", "rules.yaml")
RULES_TEST = os.path.join(ROOT, "tests", "prometheus", "rules_test.yaml")

# The names in the three Grafana dashboards of vLLM's repository (examples/observability), by type.
OF_VLLMS_DASHBOARDS = {
    "gauge": ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:cache_config_info"],
    "counter": ["vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total", "vllm:num_preemptions_total",
                "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"],
    "histogram": ["vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds", "vllm:request_time_per_output_token_seconds",
                  "vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds",
                  "vllm:request_decode_time_seconds", "vllm:request_prompt_tokens", "vllm:request_generation_tokens",
                  "vllm:request_max_num_generation_tokens", "vllm:iteration_tokens_total"],
}


def samples(page):
    """Returns {name: {frozenset of (label, value): number}} of a page."""
    out = {}
    for line in page.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = re.fullmatch(r"([\w:]+)(?:\{(.*)\})? (\S+)", line).groups()
        out.setdefault(name, {})[frozenset(re.findall(r'(\w+)="([^"]*)"', labels or ""))] = float(value)
    return out


def one(page, name, **labels):
    """Returns the value of the only sample of that name that has these labels."""
    found = [value for key, value in samples(page)[name].items() if set(labels.items()) <= key]
    assert len(found) == 1, (name, labels, found)
    return found[0]


class MetricsCase(unittest.TestCase):
    FLAGS = ()

    def setUp(self):
        self.collectors = free_port()
        self.server = Server("--metrics-listen", f"127.0.0.1:{self.collectors}", *self.FLAGS, model=TINY)
        self.addCleanup(self.server.__exit__)

    def page(self):
        return self.server.get("/metrics", admin=True)

    def complete(self, **fields):
        status, answer = self.server.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 6, "temperature": 0, "ignore_eos": True, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def ask_collectors_port(self, path="/metrics", method="GET", host="localhost"):
        connection = http.client.HTTPConnection("127.0.0.1", self.collectors, timeout=30)
        self.addCleanup(connection.close)
        connection.request(method, path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


class CallTest(MetricsCase):
    def test_metrics_page_has_every_family_before_the_first_request(self):
        page = self.page()
        for kind, names in OF_VLLMS_DASHBOARDS.items():
            for name in names:
                self.assertIn(f"# TYPE {name} {kind}", page)
                self.assertIn('model_name="gqa"', next(line for line in page.splitlines() if line.startswith(name)))
        for reason in ("stop", "length", "abort", "error"):
            self.assertEqual(one(page, "vllm:request_success_total", finished_reason=reason), 0)
        for reason in ("max_num_queued_reqs", "memory_bytes", "key_limits"):
            self.assertEqual(one(page, "vllm:admission_rejections_total", reason=reason), 0)

    def test_time_metrics_of_a_call_add_up(self):
        self.complete()
        page = self.page()
        value = {name: one(page, f"vllm:{name}_sum") for name in (
            "time_to_first_token_seconds", "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
            "request_inference_time_seconds", "request_time_per_output_token_seconds", "e2e_request_latency_seconds")}
        first, decode = value["time_to_first_token_seconds"], value["request_decode_time_seconds"]
        self.assertAlmostEqual(value["request_queue_time_seconds"] + value["request_prefill_time_seconds"], first, places=6)
        self.assertAlmostEqual(value["request_prefill_time_seconds"] + decode, value["request_inference_time_seconds"], places=6)
        self.assertAlmostEqual(value["request_time_per_output_token_seconds"], decode / 5, places=6)
        self.assertGreater(decode, 0)
        self.assertGreaterEqual(value["e2e_request_latency_seconds"], first + decode)

    def test_max_generation_tokens_metric_counts_the_longest_choice(self):
        text = self.complete(max_tokens=4, ignore_eos=True)["choices"][0]["text"]
        self.complete(n=3, seed=3, temperature=1.0, max_tokens=20, ignore_eos=False, stop=[text[:1]] if text else None)
        answer = self.complete(n=2, max_tokens=7)
        self.assertEqual(answer["usage"]["completion_tokens"], 14)
        page = self.page()
        choices, longest = one(page, "vllm:request_params_n_sum"), one(page, "vllm:request_max_num_generation_tokens_sum")
        self.assertEqual(choices, 1 + 3 + 2)
        self.assertEqual(one(page, "vllm:request_params_max_tokens_sum"), 4 + 20 + 7)
        together = one(page, "vllm:request_generation_tokens_sum")
        self.assertEqual(together, one(page, "vllm:generation_tokens_total"))
        self.assertGreaterEqual(longest, 4 + 1 + 7)
        self.assertLessEqual(longest, together - 7)

    def test_metrics_count_steps_tokens_and_blocks(self):
        self.complete(prompt=[5] * 40, max_tokens=3)
        self.complete(prompt=[5] * 40, max_tokens=3)
        page = self.page()
        self.assertEqual(one(page, "vllm:iteration_tokens_total_sum"), one(page, "quire:computed_tokens_total"))
        self.assertEqual(one(page, "vllm:iteration_tokens_total_count"), one(page, "quire:steps_total"))
        self.assertEqual(one(page, "quire:step_seconds_count"), one(page, "quire:steps_total"))
        self.assertEqual(one(page, "vllm:prompt_tokens_by_source_total", source="local_cache_hit"), 32)
        self.assertEqual(one(page, "vllm:prompt_tokens_by_source_total", source="local_compute"), 48)
        blocks = self.server.get("/admin/status", admin=True)["blocks"]["device"]
        self.assertEqual(one(page, "quire:blocks", state="cached"), blocks["cached"])
        self.assertEqual(sum(samples(page)["quire:blocks"].values()), blocks["total"])
        self.assertEqual(one(page, "vllm:cache_config_info", num_gpu_blocks=str(blocks["total"])), 1)

    def test_metrics_count_http_requests_and_process_resources(self):
        self.complete()
        for _ in range(3):
            self.server.post("/no/such/" + os.urandom(4).hex(), {})
        self.server.post("/v1/completions", {"prompt": []})
        page = self.page()
        completions = {"handler": "/v1/completions", "method": "POST"}
        self.assertEqual(one(page, "http_requests_total", status="2xx", **completions), 1)
        self.assertEqual(one(page, "http_requests_total", status="4xx", **completions), 1)
        self.assertEqual(one(page, "http_request_duration_seconds_count", **completions), 2)
        self.assertEqual(one(page, "http_requests_total", handler="none", status="4xx"), 3)
        self.assertNotIn("no/such", page)
        pid = self.server.process.pid
        # One of the open descriptors is the test's own connection.
        self.assertAlmostEqual(one(page, "process_open_fds"), len(os.listdir(f"/proc/{pid}/fd")), delta=2)
        self.assertGreater(one(page, "process_resident_memory_bytes"), 1 << 20)
        self.assertGreater(one(page, "process_cpu_seconds_total"), 0)


class CollectorsTest(MetricsCase):
    def test_metrics_port_serves_the_metrics_page_only(self):
        status, page = self.ask_collectors_port()
        self.assertEqual(status, 200)
        self.assertIn("vllm:num_requests_running", page)
        for path in ("/", "/admin/status", "/v1/models", "/metrics/", "/health"):
            self.assertEqual(self.ask_collectors_port(path)[0], 404, path)
        self.assertEqual(self.ask_collectors_port(method="POST")[0], 405)
        self.assertEqual(self.ask_collectors_port(host="rebound.example")[0], 403)

    def test_metrics_port_answers_a_flood_with_the_same_page(self):
        pages = {self.ask_collectors_port()[1] for _ in range(4)}
        self.assertLessEqual(len(pages), 2)  # the page is renewed every second


class DataPortTest(unittest.TestCase):
    def test_data_port_serves_metrics_without_a_key_only_with_the_flag(self):
        with tempfile.TemporaryDirectory() as directory:
            keys = os.path.join(directory, "api.keys")
            key = subprocess.run([QUIRE, "keygen", "--api", "alice", "--file", keys], check=True, capture_output=True, text=True, timeout=60).stdout.strip()
            for switch, statuses in (((), (401, 404)), (("--metrics-on-data-port",), (200, 200))):
                with Server("--threads-per-worker", "1", "--api-key-file", keys, *switch, model=TINY) as server:
                    for token, status in zip(("", key), statuses, strict=True):
                        request = urllib.request.Request(server.url + "/metrics", headers={"Authorization": "Bearer " + token} if token else {})
                        try:
                            with urllib.request.urlopen(request, timeout=20) as response:
                                got, page = response.status, response.read().decode()
                        except urllib.error.HTTPError as error:
                            got, page = error.code, ""
                        self.assertEqual((got, "vllm:num_requests_running" in page), (status, status == 200), (switch, token))


class ShippedTest(unittest.TestCase):
    """Tests deploy/grafana and deploy/prometheus: they query only existing metrics, alerts have severities and fire, and promtool accepts
    all."""

    def names(self, text):
        return set(re.findall(r"\b(?:vllm:|quire:|http_|process_)[\w:]+", text))

    def test_grafana_dashboard_and_rules_query_existing_metrics(self):
        with Server(model=TINY) as server:
            server.post("/v1/completions", {"prompt": [1], "max_tokens": 1})
            page = server.get("/metrics", admin=True)
        there = set(samples(page))
        with open(DASHBOARD) as f:
            dashboard = json.load(f)
        queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
        self.assertGreaterEqual(len(queries), 20)
        with open(RULES) as f:
            rules = f.read()
        there |= set(re.findall(r"record: (\S+)", rules))
        for text in [*queries, *re.findall(r"expr: (.*)", rules)]:
            names = self.names(text)
            self.assertTrue(names, text)
            self.assertLessEqual(names, there, text)

    def test_every_alert_has_a_severity(self):
        with open(RULES) as f:
            alerts = f.read().split("- alert: ")[1:]
        self.assertGreater(len(alerts), 8)
        for alert in alerts:
            self.assertRegex(alert, r"labels: \{severity: (info|warning|critical)\}", alert.split("\n")[0])

    def test_metrics_page_has_the_version_as_a_label(self):
        version = subprocess.run([QUIRE, "version"], capture_output=True, text=True, check=True).stdout.split()[1]
        with Server(model=TINY) as server:
            self.assertRegex(server.get("/metrics", admin=True), rf'quire:build_info\{{protocol="\d+",version="{version}"\}} 1')

    def test_alert_for_a_gone_server_fires_and_stays(self):
        promtool = os.environ.get("QUIRE_TEST_PROMTOOL")
        if not promtool:
            self.skipTest("QUIRE_TEST_PROMTOOL names no promtool (tests/run fetches one)")
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for path in (RULES, RULES_TEST):
            shutil.copy(path, folder)
        command = [promtool, "test", "rules", os.path.basename(RULES_TEST)]
        run = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(run.returncode, 0, run.stdout)

    def test_promtool_accepts_page_rules_and_queries(self):
        promtool = os.environ.get("QUIRE_TEST_PROMTOOL")
        if not promtool:
            self.skipTest("QUIRE_TEST_PROMTOOL names no promtool (tests/run fetches one)")
        subprocess.run([promtool, "check", "rules", RULES], check=True, stdout=subprocess.DEVNULL)
        with Server(model=TINY) as server:
            page = server.get("/metrics", admin=True)
        with open(DASHBOARD) as f:
            queries = [target["expr"] for panel in json.load(f)["panels"] for target in panel.get("targets", [])]
        # Makes every query of the dashboard a rule of its own, so that promtool parses it.
        made = "groups: [{name: g, rules: [%s]}]" % ", ".join(
            json.dumps({"record": f"a:q{i}", "expr": query.replace("$__rate_interval", "5m").replace("$model", "gqa")})
            for i, query in enumerate(queries))
        path = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "queries.yaml")
        with open(path, "w") as f:
            f.write(made)
        subprocess.run([promtool, "check", "rules", path], check=True, stdout=subprocess.DEVNULL)
        linted = subprocess.run([promtool, "check", "metrics"], input=page, text=True, capture_output=True)
        # promtool wants units in names and no colons, but vLLM's names differ. Any other complaint is a fault of the
        # page.
        known = re.compile(r"vllm:|quire:\S+ metric names should not contain ':'|iteration_tokens_total")
        self.assertNotEqual(linted.returncode, 1, linted.stderr)
        self.assertEqual([line for line in linted.stderr.splitlines() if line and not known.search(line)], [])


if __name__ == "__main__":
    verdict.run_tests()
