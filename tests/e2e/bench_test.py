"""Tests that each `quire bench` command finishes and reports plausible numbers. How large the numbers are is not
tested."""
import json
import os
import subprocess
import unittest

import verdict
from server import QUIRE, TINY, Server, free_port


def bench(*words, status=0):
    done = subprocess.run([QUIRE, "bench", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200)
    if done.returncode != status:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def bench_json(*words, status=0):
    return json.loads(bench(*words, "--json", status=status).stdout)


class BenchTest(unittest.TestCase):
    def test_bench_throughput_reports_consistent_numbers(self):
        result = bench_json("throughput", "--model", TINY, "-tp", "2", "--num-prompts", "4", "--input-len", "20", "--output-len", "8")
        self.assertAlmostEqual(result["output_tokens_per_second"] * result["seconds"], 4 * 8, delta=0.01)
        self.assertAlmostEqual(result["total_tokens_per_second"] * result["seconds"], 4 * 28, delta=0.01)
        self.assertLessEqual(result["ttft_p50"], result["ttft_p99"])

    def test_bench_latency_reports_ceilings_of_the_same_run(self):
        words = ("latency", "--model", TINY, "-tp", "2", "--batch-size", "2", "--input-len", "40", "--output-len", "10", "--num-iters", "2")
        result = bench_json(*words)
        ceilings = result["ceilings"]
        self.assertEqual(ceilings["ranks"], 2)
        for name in ("read_bytes", "multiply_add", "int16"):
            self.assertGreater(ceilings[name], 1e8, name)
        self.assertGreater(result["weight_bytes"], 0)
        self.assertEqual(result["step_read_bytes"], result["weight_bytes"])
        for name in ("prefill_seconds", "step_seconds"):
            self.assertLessEqual(result[name]["least"], result[name]["median"], name)
            self.assertLessEqual(result[name]["median"], result[name]["most"], name)
        self.assertLess(result["prefill_operations_per_second"], ceilings["multiply_add"])
        self.assertIn("ceilings of the machine: ", bench(*words).stdout)

    def test_bench_latency_reports_no_step_time_for_a_single_output_token(self):
        result = bench_json("latency", "--model", TINY, "--input-len", "8", "--output-len", "1", "--num-iters", "1")
        self.assertIsNone(result["step_seconds"])

    def test_bench_allreduce_reports_every_size_and_method(self):
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"quire-allreduce-{os.getpid()}.json")
        try:
            bench("allreduce", "-tp", "2", "--max-bytes", "4096", "--rounds", "20", "--json", path)
            with open(path) as f:
                result = json.load(f)
        finally:
            os.unlink(path)
        self.assertEqual({r["bytes"] for r in result["results"]}, {1024, 4096})
        self.assertIn("MPI_Allreduce", {r["method"] for r in result["results"]})

    def test_bench_tokenizer_round_trips_its_text(self):
        for words in ((), ("--text", __file__, "--kilobytes", "5")):
            result = bench_json("tokenizer", "--model", TINY, "--num-iters", "2", *words)
            self.assertTrue(result["same_text"])
            self.assertLessEqual(result["tokens"], result["bytes"])
        self.assertAlmostEqual(result["bytes"], 5 * 1024, delta=3)
        self.assertIn("decode ", bench("tokenizer", "--model", TINY, "--kilobytes", "1").stdout)
        self.assertIn("/nowhere", bench("tokenizer", "--model", TINY, "--text", "/nowhere", status=1).stderr)


class ServeBenchTest(unittest.TestCase):
    SMALL = ("--num-prompts", "6", "--input-len", "10", "--output-len", "5", "--vocab-size", "100")

    def test_bench_serve_counts_streams_and_their_tokens(self):
        with Server(model=TINY) as server:
            for more in ((), ("--max-concurrency", "2"), ("--request-rate", "200")):
                result = bench_json("serve", "--base-url", server.url, *self.SMALL, *more)
                self.assertEqual((result["completed"], result["failed"]), (6, 0))
                self.assertAlmostEqual(result["output_tokens_per_second"] * result["seconds"], 6 * 5, delta=0.01)
                self.assertLessEqual(result["first_token_seconds"]["p50"], result["request_seconds"]["p50"])
                self.assertEqual(len(result["requests"]), 6)
                self.assertGreaterEqual(max(one["seconds"] for one in result["requests"]), result["request_seconds"]["p50"])
            self.assertIn("each token after it", bench("serve", "--base-url", server.url, *self.SMALL).stdout)

    def test_bench_serve_reports_refused_requests(self):
        with Server(model=TINY) as server:
            done = bench("serve", "--base-url", server.url, *self.SMALL, "--model", "another", "--json", status=1)
            self.assertEqual(json.loads(done.stdout)["failed"], 6)
            self.assertIn("status 404", done.stderr)

    def test_bench_serve_says_when_no_server_listens(self):
        done = bench("serve", "--base-url", f"http://127.0.0.1:{free_port()}", *self.SMALL, status=1)
        self.assertIn("cannot connect", done.stderr)

    def test_bench_serve_refuses_a_malformed_address(self):
        done = bench("serve", "--base-url", "ftp://example/v1", status=2)
        self.assertIn("is not http://HOST:PORT", done.stderr)


if __name__ == "__main__":
    verdict.run_tests()
