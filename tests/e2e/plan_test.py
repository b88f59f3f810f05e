"""Tests that `quire plan` predicts the bytes and blocks of every rank, and the speed from given or measured rates and links. Also tests
that it names flags with which a model would fit, simulates a trace, and names wrong models and flags."""
import concurrent.futures
import json
import os
import random
import subprocess
import tempfile
import unittest

import verdict
from model_mix_test import OWN_MEMORY, memory_of
from server import MODELS, QUIRE, REAL, TINY, Server


def plan(*words):
    """Returns (exit status, parsed answer)."""
    done = subprocess.run([QUIRE, "plan", *words, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


# Models and flags: rows and columns of every kind of shard, packed and plain, and each way to size the pool.
CASES = [
    ("gqa", "-tp", "1"),
    ("gqa", "-tp", "3", "--max-model-len", "64", "--max-num-seqs", "7"),
    ("gpt2", "-tp", "3", "--block-size", "32"),
    ("mixtral", "-tp", "2", "--quantization", "int8"),
    ("qwen2moe", "-tp", "2", "--kv-cache-dtype", "int8"),
    ("gptoss", "-tp", "3", "--enable-expert-parallel"),
    ("gemma2", "-tp", "2", "--kv-cache-dtype", "float16", "--kv-cache-memory-bytes", "300000"),
    ("swa", "-tp", "2", "--quantization", "int4", "--swap-space", "0.01"),
    ("kquants.gguf", "-tp", "1", "--set", "cache.num_blocks=11"),
    ("gptoss.mxfp4", "-tp", "2"),
    ("bloom", "-tp", "2", "--set", "parallel.shares=[3, 1]"),
    ("gemma4", "-tp", "3", "--kv-cache-dtype", "int8"),
    ("gqa", "-tp", "2", "--set", "parallel.shares=[1, 2]", "--lora-modules", *(f"{name}={MODELS}/../adapters/{name}" for name in
                                                                               ("gqa_all", "gqa_layers"))),
]


class PlanTest(unittest.TestCase):
    def assert_equal_to_what_workers_take(self, model, *flags):
        status, said = plan("--model", model, *flags, "--no-speed")
        self.assertEqual((status, said["fits"]), (0, True), said)
        few = ("--input-len", "4", "--output-len", "2", "--batch-size", "1", "--num-iters", "1", "--json")
        done = subprocess.run([QUIRE, "bench", "latency", "--model", model, *flags, *few], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        taken = json.loads(done.stdout.splitlines()[-1])
        sizes = [(rank["weight_bytes"], rank["block_bytes"]) for rank in said["ranks"]]
        self.assertEqual(sizes, [(rank["weight_bytes"], rank["block_bytes"]) for rank in taken["ranks"]])
        self.assertTrue(all(weights > 0 and block > 0 for weights, block in sizes), sizes)
        for field in ("blocks", "host_blocks", "max_model_len"):
            self.assertEqual(said[field], taken[field], field)

    def test_plan_predicts_the_memory_that_workers_take_for_all_models(self):
        for model, *flags in CASES:
            with self.subTest(model=model, flags=flags):
                self.assert_equal_to_what_workers_take(os.path.join(MODELS, model), *flags)

    @unittest.skipUnless(REAL, "QUIRE_TEST_MODEL is not set")
    def test_plan_equals_the_memory_that_workers_take_for_the_quickstart_model(self):
        self.assert_equal_to_what_workers_take(REAL, "-tp", "2")
        with Server("-tp", "2", model=REAL) as server:
            taken = server.get("/admin/status", admin=True)
            blocks = server.get("/admin/block_map", admin=True)["total"]
        _, said = plan("--model", REAL, "-tp", "2", "--no-speed")
        parts = ("process_bytes", "step_bytes", "file_bytes")
        self.assertEqual([(rank["weight_bytes"], rank["block_bytes"], *(rank[part] for part in parts)) for rank in said["ranks"]],
                         [(rank["weight_bytes"], rank["kv_bytes_per_block"], *(rank[part] for part in parts)) for rank in taken["ranks"]])
        for rank in said["ranks"]:
            self.assertEqual(rank["total_bytes"], sum(rank[part] for part in ("weight_bytes", "kv_bytes", "swap_bytes", *parts)))
            self.assertGreater(min(rank[part] for part in parts), 1 << 20)
        self.assertEqual(said["blocks"], blocks)

    @unittest.skipUnless(REAL, "QUIRE_TEST_MODEL is not set")
    def test_workers_of_the_quickstart_model_take_no_more_memory_than_planned(self):
        """Prompts with tokens from all of the vocabulary read rows all over the model's file, and fill the cache."""
        choice = random.Random(1)
        for ranks in ("1", "2"):
            flags = ("-tp", ranks, "--num-kv-blocks", "200", "--max-num-batched-tokens", "256")
            _, said = plan("--model", REAL, *flags, "--no-speed")
            with self.subTest(ranks=ranks), Server(*flags, model=REAL) as server:
                def ask(prompt):
                    body = {"prompt": prompt, "max_tokens": 4, "temperature": 0.8, "ignore_eos": True}
                    self.assertEqual(server.post("/v1/completions", body)[0], 200)
                prompts = [[choice.randrange(17, 49000) for _ in range(400)] for _ in range(8)]
                with concurrent.futures.ThreadPoolExecutor(8) as pool:
                    list(pool.map(ask, prompts))
                taken = memory_of(server.worker_pids())
            weights, total = (sum(rank[part] for rank in said["ranks"]) for part in ("weight_bytes", "total_bytes"))
            self.assertGreater(taken, weights)
            if OWN_MEMORY:
                self.assertLessEqual(taken, 1.05 * total)

    def test_plan_reports_the_types_that_a_server_chooses(self):
        for model, flags, types in (("gqa", (), "KV cache float16 (auto), activations int16"),
                                    ("gqa", ("--exact",), "KV cache float32 (--exact), activations int16"),
                                    ("swa", (), "KV cache float32 (auto), activations int16"),
                                    ("gptq", ("--kv-cache-dtype", "int8", "--activations", "auto"), "KV cache int8 (asked for), activations int8 (auto)")):
            done = subprocess.run([QUIRE, "plan", "--model", os.path.join(MODELS, model), "--backend", "cpu", "--no-speed", *flags],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            self.assertIn(f"numbers  {types}", done.stdout, done.stderr)

    def test_plan_reports_how_many_sequences_the_blocks_hold(self):
        _, said = plan("--model", TINY, "-tp", "1", "--set", "cache.num_blocks=11", "--max-model-len", "64", "--no-speed")
        # a sequence takes 4 blocks of 16 tokens
        self.assertEqual(said["concurrency"], [{"tokens": 64, "sequences": 2}])

    def test_plan_derives_the_speed_from_the_given_peaks(self):
        """Twice the rate halves the time of work that is bound by reading. With given peak rates nothing is measured."""
        _, slow = plan("--model", TINY, "-tp", "1", "--peaks", "1", "1000")
        _, fast = plan("--model", TINY, "-tp", "1", "--peaks", "2", "1000")
        self.assertTrue(slow["steps"])
        for a, b in zip(slow["steps"], fast["steps"], strict=True):
            self.assertRegex(a["bound"], "^reading")
            self.assertAlmostEqual(a["seconds"] / b["seconds"], 2, 4, "but for the little that is computed")
            self.assertLess(a["roofline_seconds"], a["seconds"])

    def test_plan_adds_the_waits_of_a_stated_link_to_the_given_peaks(self):
        """Over a link of 1 Gbit/s and 1 ms, a sum of 60 floats takes about as long as the delay alone. A transfer between stages takes as
        long."""
        peaks = ("--peaks", "1", "1000")
        _, said = plan("--model", TINY, "-tp", "2", *peaks, "--best", "--link", "1", "1")
        cuts = {(cut["tensor"], cut["pipeline"], cut["one_host"], cut["streams"]): cut for cut in said["cuts"]["cuts"]}
        self.assertEqual(set(cuts), {(2, 1, False, 1), (2, 1, False, 32), (1, 2, False, 1), (1, 2, False, 32), (1, 1, True, 1), (1, 1, True, 32)})
        tensor, stages, alone = cuts[2, 1, False, 1], cuts[1, 2, False, 1], cuts[1, 1, True, 1]
        self.assertEqual((tensor["sums"], stages["sums"], alone["sums"]), (7, 0, 0))
        self.assertAlmostEqual(tensor["seconds"], tensor["compute_seconds"] + 7e-3, delta=1e-4)
        self.assertAlmostEqual(stages["seconds"], stages["compute_seconds"] + 2e-3, delta=1e-4)
        self.assertAlmostEqual(alone["seconds"], alone["compute_seconds"])
        self.assertAlmostEqual(alone["compute_seconds"] / tensor["compute_seconds"], 2, delta=0.1, msg="two hosts read twice as fast")
        self.assertEqual(len(said["cuts"]["take"]), 2)
        self.assertRegex(said["cuts"]["take"][0], "^-tp 1 on one host for 1 stream: .* times as fast as -tp 2 -pp 1")
        _, said = plan("--model", TINY, "-tp", "2", *peaks, "--link", "1", "1", "--streams", "4")
        self.assertEqual([(cut["tensor"], cut["streams"]) for cut in said["cuts"]["cuts"]], [(2, 4)])
        for words, problem in ((("--best", "-tp", "1"), "give -tp N"), (("--best", "-tp", "2", "--no-speed"), "no-speed"),
                               (("--link", "1", "0", "-tp", "2"), "link"), (("--best", "-tp", "2", "--streams", "0"), "streams")):
            done = subprocess.run([QUIRE, "plan", "--model", TINY, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(problem, done.stderr)

    def test_plan_compares_parallel_shapes_by_the_models_steps_and_the_links_of_this_host(self):
        done = subprocess.run([QUIRE, "plan", "--model", TINY, "-tp", "4", "--threads-per-worker", "1", "--best", "--streams", "2"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "compute  measured with the model on this host.*; links measured\n")
        for shape in ("-tp 4 -pp 1", "-tp 2 -pp 2"):
            self.assertRegex(done.stdout, rf"cut      {shape} at 2 streams: [0-9.]+ tok/s, [0-9.]+ ms a token; [0-9.]+ to compute, 0 sums")
        self.assertRegex(done.stdout, "not      -tp 1 -pp 4: .*cut into 1 to 3 stages")
        self.assertRegex(done.stdout, "take     -tp ")

    def test_plan_names_flags_that_would_fit_when_a_model_does_not(self):
        """Memory for int8 weights and two blocks does not hold the weights in the model's own type."""
        _, said = plan("--model", TINY, "-tp", "1", "--num-kv-blocks", "2", "--quantization", "int8", "--no-speed")
        small = ("--rank-memory", str(said["ranks"][0]["total_bytes"] / 2**30), "--no-speed")
        status, said = plan("--model", TINY, "-tp", "1", *small)
        self.assertEqual((status, said["fits"]), (1, False))
        self.assertRegex(said["problem"], r"1 worker on .* would take .* of weights \+ .*, and --rank-memory allows .* MiB in all")
        self.assertTrue(said["would_fit"], said)
        flag, value = said["would_fit"][0].split(":")[0].split()
        status, said = plan("--model", TINY, flag, value, *small)
        self.assertEqual((status, said["fits"]), (0, True), said)

    def test_plan_prints_memory_speed_and_the_mpirun_command(self):
        done = subprocess.run([QUIRE, "plan", "--model", TINY, "-tp", "2"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in (r"backend  cpu, 2 ranks", r"rank 1 .* of weights \+ .* of KV cache \+ .* beside them \(process .*, steps .*, pages of files .*\) = ", r"blocks   \d+ of 16 tokens",
                     r"at once  \d+ sequences of \d+ tokens", r"ceilings .* GB/s read", r"step     of 1 at .*bound by ", r"mpirun   mpirun -np 2 .*quire-worker"):
            self.assertRegex(done.stdout, line)

    def test_plan_reports_memory_when_speed_cannot_be_measured(self):
        """Without mpirun workers cannot be started, but their sizes are known."""
        bare = {**os.environ, "PATH": "/nowhere"}
        done = subprocess.run([QUIRE, "plan", "--model", TINY, "-tp", "1", "--json"], env=bare, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertGreater(said["blocks"], 0)
        self.assertRegex(said["ceilings"], "^not measured: ")

    def test_plan_simulates_a_trace_at_several_rates(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "trace.jsonl")
            with open(path, "w", encoding="utf-8") as f:
                for i in range(40):
                    f.write(json.dumps({"timestamp": 100 * i, "input_length": 60, "output_length": 20, "hash_ids": [i % 2]}) + "\n")
            words = ("--model", TINY, "-tp", "2", "--peaks", "0.05", "1000", "--simulate", path)
            status, said = plan(*words, "--rates", "0.1", "1", "100")
            self.assertEqual(status, 0)
            slow, _, fast = loads = said["loads"]
            self.assertEqual([load["rate"] for load in loads], [0.1, 1, 100])
            self.assertEqual([load["answered"] for load in loads], [40, 40, 40])
            self.assertEqual(slow["cached_tokens"], 38 * 48)  # whole blocks of 16, without the last token
            self.assertGreater(fast["tokens_a_second"], 5 * slow["tokens_a_second"])
            self.assertGreater(fast["first_token_seconds"]["0.99"], slow["first_token_seconds"]["0.99"])
            done = subprocess.run([QUIRE, "plan", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"rate +req/s +tok/s")
            self.assertEqual(len([line for line in done.stdout.splitlines() if line.endswith("#")]), 5)
            with open(path, "a", encoding="utf-8") as f:
                f.write("{}\n")
            for words, said in (((*words,), path + ":41: timestamp is missing"), (("--model", TINY, "--no-speed", "--simulate", path), "--simulate needs")):
                done = subprocess.run([QUIRE, "plan", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(said, done.stderr)

    def test_plan_names_bad_models_and_flags(self):
        with tempfile.TemporaryDirectory() as directory:
            for words, status, said in ((("--model", directory), 2, "config.json"), (("--model", TINY, "--rank-memory", "-1"), 2, "rank-memory"),
                                        (("--model", TINY, "-tp", "10"), 2, "has 9 query heads")):
                done = subprocess.run([QUIRE, "plan", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                self.assertIn(said, done.stdout + done.stderr)


if __name__ == "__main__":
    verdict.run_tests()
