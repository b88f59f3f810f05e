"""Tests pipelines (--pipeline-parallel-size): stages of layers, each with its own workers. Answers must have the same bits as those of one
stage with as many workers. Workers of every stage are killed, blocks move to groups of other shapes, and stages are on other nodes."""
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import netns
import verdict
from hybrids_test import Served, body_of, golden
from kv_disk_test import ask, block_files, cached, prompt_of, said
from moves_test import StreamsCase, moves_of, start, status_of, wait_for
from multi_node_test import serve, write_topology
from server import MODELS, QUIRE, TINY, Server, found_as_promised, wait_gone
from stream_client import stream_in_background, text_of

HYBRIDS = ("lfm2", "lfm2moe", "qwen3next", "qwen35", "qwen35moe", "granitehybrid", "granitehybridmoe", "bamba", "nemotronh", "nemotronhmoe",
           "falconh1")
SHAPES = ((1, 3), (1, 2), (2, 2), (2, 3), (3, 2))
FLAGS = ("--threads-per-worker", "1", "--num-kv-blocks", "600")


def answers(server):
    """Sends requests of five kinds. Returns the choices of each answer, without `index`, which only gives their order."""
    asked = [{"prompt": [5, 6, 7], "max_tokens": 40, "temperature": 0, "logprobs": 3},
             {"prompt": prompt_of(90), "max_tokens": 20, "temperature": 0.9, "seed": 7, "n": 3, "logprobs": 2},
             {"prompt": prompt_of(40, 2), "max_tokens": 8, "temperature": 0, "prompt_logprobs": 2},
             {"prompt": [9, 8, 7], "max_tokens": 24, "temperature": 0, "structured_outputs": {"regex": "(ab|cd){3,9}"}},
             {"prompt": [5, 6], "max_tokens": 12, "use_beam_search": True, "n": 2, "temperature": 0}]
    got = []
    for body in asked:
        status, answer = server.post("/v1/completions", body)
        assert status == 200, answer
        got.append([{**choice, "index": None} for choice in sorted(answer["choices"], key=lambda choice: choice["index"])])
    return got


def run_quire(*words):
    return subprocess.run([QUIRE, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


class PipelineTest(StreamsCase):
    def test_answers_of_every_kind_have_the_bits_of_one_stage(self):
        with Server("-tp", "2", *FLAGS, model=TINY) as server:
            right = answers(server)
        with Server("-tp", "2", "-pp", "3", *FLAGS, model=TINY) as server:
            self.assertEqual(answers(server), right)
            status = server.get("/admin/status", admin=True)
            self.assertEqual(len(status["ranks"]), 6)
            settings = server.get("/admin/config", admin=True)["settings"]
            self.assertEqual((settings["tensor_parallel_size"], settings["pipeline_parallel_size"], settings["stages"]), (2, 3, [1, 1, 1]))
            self.assertEqual(server.terminate(), 0)

    def test_streams_survive_a_killed_worker_of_each_stage(self):
        """With two stages of two workers, ranks 0 and 1 are the last stage, ranks 2 and 3 the first one."""
        with Server("-tp", "2", "-pp", "2", *FLAGS, model=TINY) as server:
            thread, right = stream_in_background(server)
            thread.join(timeout=60)
            streams = [stream_in_background(server) for _ in range(3)]
            for epoch, rank in enumerate((3, 0, 2), 2):
                pids = server.worker_pids()
                os.kill(pids[rank], signal.SIGKILL)
                wait_for(lambda: server.get("/admin/status", admin=True)["epoch"] == epoch, "the workers do not come back", 60)
                self.assertEqual(wait_gone(pids, 5), [])
            for thread, lines in streams:
                thread.join(timeout=60)
                self.assertFalse(thread.is_alive(), "a stream hangs")
                self.assertEqual(text_of(lines), text_of(right))
            status = server.get("/admin/status", admin=True)
            self.assertEqual((status["state"], status["recoveries"]), ("serving", 3))
            self.assertEqual(status["blocks"]["device"]["free"], status["blocks"]["device"]["total"])
            found_as_promised(self, server.text())
            self.assertEqual(server.terminate(), 0)

    def test_hybrids_answers_are_unchanged_when_a_worker_of_each_stage_is_killed(self):
        """One layer of four has attention, so the other stages store only states. QUIRE_TEST_ALL_SHAPES tests all families with states."""
        for model in HYBRIDS if os.environ.get("QUIRE_TEST_ALL_SHAPES") else HYBRIDS[:1]:
            cases = golden(model)[:8]
            for tensor, pipeline in SHAPES if os.environ.get("QUIRE_TEST_ALL_SHAPES") else SHAPES[:1]:
                with self.subTest(model=model, tensor=tensor, pipeline=pipeline), \
                        Served(model, "-tp", str(tensor), "-pp", str(pipeline), "--threads-per-worker", "1", "--num-kv-blocks", "600") as server:
                    self.assertEqual(server.get("/admin/config", admin=True)["settings"]["pipeline_parallel_size"], pipeline)
                    for epoch in range(pipeline):
                        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
                            answered = [pool.submit(server.post, "/v1/completions", body_of(case)) for case in cases]
                            os.kill(server.worker_pids()[tensor * epoch], signal.SIGKILL)
                        for case, answer in zip(cases, answered):
                            status, body = answer.result()
                            self.assertEqual((status, body["choices"][0]["token_ids"]), (200, case["tokens"]))
                        wait_for(lambda: server.get("/admin/status", admin=True)["epoch"] == epoch + 2, "the workers do not come back", 60)
                        wait_for(lambda: server.get("/admin/status", admin=True)["state"] == "serving", "the workers do not serve", 60)
                    self.assertEqual(server.terminate(), 0)

    def test_streams_survive_a_stopped_worker_of_the_first_stage(self):
        with Server("-pp", "2", *FLAGS, model=TINY) as server:
            thread, right = stream_in_background(server)
            thread.join(timeout=60)
            thread, lines = stream_in_background(server)
            pids = server.worker_pids()
            os.kill(pids[1], signal.SIGSTOP)
            thread.join(timeout=60)
            self.assertEqual(text_of(lines), text_of(right))
            self.assertRegex(server.text(), "rank 1 .* is silent")
            self.assertEqual(wait_gone(pids, 5), [])

    def test_streams_are_unchanged_when_blocks_move_between_pipelines_of_other_shapes(self):
        with Server("-tp", "2", "-pp", "2", "--data-parallel-size", "2", *FLAGS, model=TINY) as server:
            moved = 0
            for shape in ({"tensor": 3}, {"tensor": 1, "pipeline": 3}):
                status, answer = server.post("/admin/reshard", {**shape, "replica": 1}, admin=True)
                self.assertEqual(status, 200, answer)
                wait_for(lambda: [r["state"] for r in status_of(server)["replicas"]] == ["serving"] * 2, "the workers do not come", 60)
                self.shuffle(server, start(server, 4))
                self.assertGreater(moves_of(server)["with_blocks"], moved, server.text())
                self.assertNotIn("did not go", server.text())
                moved = moves_of(server)["with_blocks"]
            status, answer = server.post("/admin/reshard", {"tensor": 1, "pipeline": 4, "replica": 1}, admin=True)
            self.assertIn("cut into 1 to 3 stages", json.dumps(answer))
            self.assertEqual(status, 400)
            self.expect_rest(server)

    def test_stored_blocks_of_a_pipeline_serve_a_group_of_another_shape(self):
        folder = tempfile.mkdtemp(prefix="quire-kv-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        disk, prompt = os.path.join(folder, "kv"), prompt_of(800)
        with Server("-tp", "2", "-pp", "2", *FLAGS, "--kv-disk", disk, model=TINY) as server:
            first = ask(server, prompt)
            wait_for(lambda: len(block_files(disk)) >= 50, "blocks are not stored")
        turn = prompt + first["choices"][0]["token_ids"]
        with Server("-tp", "1", *FLAGS, model=TINY) as server:
            right = ask(server, turn)
        for shape in (("-tp", "1"), ("-pp", "3")):
            with Server(*shape, *FLAGS, "--kv-disk", disk, model=TINY) as server:
                answer = ask(server, turn)
                self.assertGreaterEqual(cached(answer), 780)
                self.assertEqual(said(answer)[0], said(right)[0])

    def test_layers_of_the_stages_follow_the_setting_and_swapped_streams_are_unchanged(self):
        with Server("-pp", "2", "--set", "parallel.stages=[1, 2]", "--threads-per-worker", "1", "--num-kv-blocks", "130", "--swap-space", "16MiB",
                    "--preemption-mode", "swap", "--max-model-len", "2000", model=TINY) as server:
            self.assertEqual(server.get("/admin/config", admin=True)["settings"]["stages"], [1, 2])
            self.expect_right(start(server, 3))
            status = server.get("/admin/status", admin=True)
            self.assertGreater(status["preemptions"], 0)

    def test_impossible_pipelines_are_refused_at_the_start(self):
        ports = ("--port", "0", "--admin-port", "0")
        for words, reason in ((("-pp", "4"), "pipeline parallel size 4 is impossible: the model can be cut into 1 to 3 stages"),
                              (("-pp", "2", "--backend", "cuda"), "--pipeline-parallel-size 2 is for the CPU backend: use --backend cpu"),
                              (("-pp", "2", "--set", "parallel.stages=[3]"), "lists 1 stages for pipeline parallel size 2"),
                              (("-pp", "2", "--set", "parallel.stages=[1, 1]"), "do not make the model's 3")):
            done = run_quire("serve", "--model", TINY, *ports, *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(reason, done.stderr)
        # Later layers use the keys and values of the first one.
        done = run_quire("plan", "--model", os.path.join(MODELS, "gemma4whole"), "-pp", "2", "--no-speed")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("cut into 1 to 1 stages", done.stderr)

    def test_plan_and_check_show_the_stages_and_each_ranks_memory(self):
        done = run_quire("plan", "--model", TINY, "-tp", "2", "-pp", "2", "--no-speed")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"rank 0 .*: stage 2 of 2 \(layers 2 to 2\), .* of weights")
        self.assertRegex(done.stdout, r"rank 3 .*: stage 1 of 2 \(layers 0 to 1\), .* of weights")
        self.assertIn("7 sums and 2 hand-overs a step with -tp 2 -pp 2", done.stdout)
        self.assertIn("7 sums and 0 hand-overs a step with -tp 4 -pp 1", done.stdout)
        plan = json.loads(run_quire("plan", "--model", TINY, "-pp", "3", "--no-speed", "--json").stdout)
        self.assertEqual([(rank["stage"], rank["layers"]) for rank in plan["ranks"]], [(2, [2, 3]), (1, [1, 2]), (0, [0, 1])])
        whole = json.loads(run_quire("plan", "--model", TINY, "-tp", "1", "--no-speed", "--json").stdout)
        for size in ("weight_bytes", "block_bytes"):
            self.assertEqual(sum(rank[size] for rank in plan["ranks"]), whole["ranks"][0][size], size)
        steps = [json.loads(run_quire("plan", "--model", TINY, *shape, "--peaks", "1", "1000", "--json").stdout)["steps"][0]["seconds"]
                 for shape in (("-tp", "1"), ("-pp", "3"))]
        self.assertAlmostEqual(steps[1], 3 * steps[0], delta=0.01 * steps[1], msg="one of three stages computes at a time")
        done = run_quire("check", "--model", TINY, "-pp", "3", "--port", "0", "--admin-port", "0")
        self.assertIn("3 ranks agree on the sums", done.stdout)
        self.assertRegex(done.stdout, "3 stages of 1, 1, 1 layers")


@verdict.alone
@unittest.skipIf(netns.unavailable(), netns.unavailable())
class PipelineOverNodesTest(unittest.TestCase):
    def test_stages_on_two_nodes_give_the_bits_of_one_node_and_outlive_a_lost_worker(self):
        for tensor in (1, 2):
            with Server("-tp", str(tensor), *FLAGS, model=TINY) as server:
                right = answers(server)
                thread, stream = stream_in_background(server)
                thread.join(timeout=60)
            with netns.Network("a", "b") as network, network.nodes[0].inside():
                path = write_topology(network, tensor=f"{tensor}, pipeline: 2")
                with serve(network, path) as server:
                    self.assertEqual(answers(server), right)
                    thread, lines = stream_in_background(server)
                    os.kill(server.worker_pids()[-1], signal.SIGKILL)
                    thread.join(timeout=100)
                    self.assertEqual(text_of(lines), text_of(stream))
                    self.assertEqual(server.terminate(), 0)

    def test_stage_that_spans_two_nodes_gives_the_bits_of_one_node(self):
        with Server("-tp", "2", *FLAGS, model=TINY) as server:
            right = answers(server)
        with netns.Network("a", "b") as network, network.nodes[0].inside():
            # Ranks 0 to 2 are on the first node: the last stage, and one rank of the first stage.
            nodes = [{"host": node.address, "interface": "eth0", "slots": slots} for node, slots in zip(network.nodes, (3, 1))]
            with serve(network, write_topology(network, nodes=nodes, tensor="2, pipeline: 2")) as server:
                self.assertEqual(answers(server), right)
                self.assertEqual(server.terminate(), 0)


if __name__ == "__main__":
    verdict.run_tests()
