"""Tests spans of requests at an OpenTelemetry collector, OpenTelemetry's environment variables, and the effect of a slow or missing
collector."""
import http.server
import json
import threading
import time
import unittest

import verdict
from server import TINY, Server, free_port

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector(http.server.ThreadingHTTPServer):
    """Receives spans in OTLP's form. `silent`: accepts connections and never answers."""
    daemon_threads = True

    def __init__(self, silent=False):
        super().__init__(("127.0.0.1", 0), Taker)
        self.silent, self.spans, self.resources, self.paths, self.heads = silent, [], [], set(), []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()

    def found(self, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if spans := [span for span in list(self.spans) if condition(span)]:
                return spans
            time.sleep(0.05)
        raise AssertionError(f"no such span in {self.spans}")


class Taker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        while self.server.silent:
            time.sleep(0.1)
        self.server.heads.append(dict(self.headers.items()))
        self.server.paths.add((self.path, self.headers["Content-Type"]))
        for resource in body["resourceSpans"]:
            self.server.resources.append(attributes(resource["resource"]))
            for scope in resource["scopeSpans"]:
                self.server.spans += scope["spans"]
        try:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
        except BrokenPipeError:
            pass  # the server did not wait for the answer

    def log_message(self, *_):
        pass


def attributes(what):
    return {entry["key"]: next(iter(entry["value"].values())) for entry in what["attributes"]}


class TracesTest(unittest.TestCase):
    BODY = {"prompt": [1, 2, 3], "max_tokens": 5, "ignore_eos": True}

    def start(self, endpoint):
        server = Server("-tp", "1", "--otlp-traces-endpoint", endpoint, model=TINY)
        self.addCleanup(server.__exit__)
        return server

    def test_request_sends_a_span_with_queue_prefill_and_decode_parts(self):
        collector = Collector()
        self.addCleanup(collector.close)
        server = self.start(collector.url)
        before = time.time()
        status, answer = server.post("/v1/completions", self.BODY, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
        self.assertEqual(status, 200, answer)
        whole = collector.found(lambda span: span.get("parentSpanId") == PARENT)[0]
        self.assertEqual((whole["traceId"], whole["name"], whole["kind"]), (TRACE, "POST /v1/completions", 2))
        told = attributes(whole)
        self.assertEqual((told["gen_ai.usage.prompt_tokens"], told["gen_ai.usage.completion_tokens"], told["http.response.status_code"]),
                         ("3", "5", "200"))
        begin, end = (int(whole[key]) / 1e9 for key in ("startTimeUnixNano", "endTimeUnixNano"))
        self.assertTrue(before - 1 < begin < end < time.time() + 1)
        parts = collector.found(lambda span: span.get("parentSpanId") == whole["spanId"])
        self.assertEqual([part["name"] for part in parts], ["queue", "prefill", "decode"])
        for part in parts:
            self.assertEqual(part["traceId"], TRACE)
            self.assertLessEqual(int(whole["startTimeUnixNano"]), int(part["startTimeUnixNano"]))
            self.assertLessEqual(int(part["endTimeUnixNano"]), int(whole["endTimeUnixNano"]))
        self.assertEqual(collector.paths, {("/v1/traces", "application/json")})
        self.assertEqual(collector.resources[0]["service.name"], "quire")

        server.post("/v1/completions", self.BODY, headers={"traceparent": f"00-{TRACE}-{'1' * 16}-00"})
        server.post("/v1/completions", {"prompt": 5.5})
        refused = collector.found(lambda span: attributes(span).get("http.response.status_code") == "400" if "attributes" in span else False)[0]
        self.assertNotIn("parentSpanId", refused)
        self.assertNotEqual(refused["traceId"], TRACE)
        self.assertFalse([span for span in collector.spans if span.get("parentSpanId") == "1" * 16], "nobody records that one")

    def test_variables_of_opentelemetry_name_collector_headers_and_service(self):
        collector = Collector()
        self.addCleanup(collector.close)
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20secret-token",
               "OTEL_SERVICE_NAME": "chat", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test"}
        with Server("-tp", "1", model=TINY, env=env) as server:
            self.assertEqual(server.post("/v1/completions", self.BODY)[0], 200)
            collector.found(lambda span: span["name"] == "POST /v1/completions")
            self.assertEqual(server.get("/admin/status", admin=True)["settings"]["otlp_traces_endpoint"], collector.url + "/v1/traces")
            self.assertNotIn("secret-token", server.text())
        self.assertEqual({path for path, _ in collector.paths}, {"/v1/traces"})
        self.assertEqual({head.get("authorization") for head in collector.heads}, {"Bearer secret-token"})
        told = collector.resources[0]
        self.assertEqual((told["service.name"], told["deployment.environment"]), ("chat", "test"))
        # Tracing is switched off: nothing is sent, although a collector is named.
        sent = len(collector.spans)
        with Server("-tp", "1", "--otlp-traces-endpoint", collector.url, model=TINY, env={"OTEL_SDK_DISABLED": "true"}) as server:
            self.assertEqual(server.post("/v1/completions", self.BODY)[0], 200)
        self.assertEqual(len(collector.spans), sent)

    def test_unknown_paths_send_no_span(self):
        collector = Collector()
        self.addCleanup(collector.close)
        server = self.start(collector.url)
        self.assertEqual(server.post("/v1/" + "x" * 4000, self.BODY, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})[0], 404)
        self.assertEqual(server.post("/v1/completions", self.BODY)[0], 200)
        server.terminate()
        self.assertEqual({span["name"] for span in collector.spans}, {"POST /v1/completions", "queue", "prefill", "decode"})

    def test_waiting_spans_are_sent_when_the_server_ends(self):
        collector = Collector()
        self.addCleanup(collector.close)
        server = self.start(collector.url + "/some/where")
        server.post("/v1/completions", self.BODY)
        server.terminate()
        self.assertGreaterEqual(len(collector.spans), 4)
        self.assertEqual({path for path, _ in collector.paths}, {"/some/where"})

    def test_requests_are_served_when_the_collector_is_gone_or_silent(self):
        silent = Collector(silent=True)
        self.addCleanup(silent.close)
        self.addCleanup(setattr, silent, "silent", False)
        for endpoint in (silent.url, f"http://127.0.0.1:{free_port()}"):
            server = self.start(endpoint)
            for _ in range(20):
                self.assertEqual(server.post("/v1/completions", self.BODY)[0], 200)
            deadline = time.monotonic() + 30
            while "spans lost so far" not in server.text():
                self.assertLess(time.monotonic(), deadline, server.text())
                time.sleep(0.05)
            self.assertEqual(server.post("/v1/completions", self.BODY)[0], 200)


if __name__ == "__main__":
    verdict.run_tests()
