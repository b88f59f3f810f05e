"""Tests operations on a running server: a changed number of workers under load, restarts, pauses, draining, aborting, profiles and log
levels. Also tests the reports of lost workers, and workers that a supervisor restarts."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error

import verdict
from server import BUILD, TINY, Server, free_port, wait_gone
from stream_client import stream_in_background, text_of

STREAMS = 8
PROMPTS = [[5, 6, 7], [9, 3], [4] * 40, [8, 1, 2, 3, 4, 5, 6, 7]]


def mpirun_shim(directory, before):
    """Returns an environment in which the shell command `before` runs before every mpirun."""
    shim = os.path.join(directory, "mpirun")
    with open(shim, "w") as f:
        f.write(f"#!/bin/sh\n{before}\nPATH={os.environ['PATH']} exec mpirun \"$@\"\n")
    os.chmod(shim, 0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


def expected_texts(server, tokens):
    """Streams an answer to each prompt while nothing happens to the workers. Returns the texts."""
    texts = []
    for prompt in PROMPTS:
        thread, lines = stream_in_background(server, tokens, body={"prompt": prompt})
        thread.join(timeout=120)
        texts.append(text_of(lines))
    return texts


class ReshardTest(unittest.TestCase):
    def test_streams_are_unchanged_when_the_number_of_workers_changes(self):
        with Server("-tp", "1", model=TINY) as server:
            expected = expected_texts(server, 1500)
            streams = [stream_in_background(server, 1500, body={"prompt": PROMPTS[i % len(PROMPTS)]}) for i in range(STREAMS)]
            for epoch, shape in enumerate([{"tensor": 2}, {"tensor": 3, "shares": [2, 1, 1]}, {"tensor": 1}], 2):
                old = server.worker_pids()
                status, answer = server.post("/admin/reshard", shape, admin=True)
                self.assertEqual((status, answer.get("replaced")), (200, True), answer)
                self.assertEqual(wait_gone(old, 5), [])
                status = server.get("/admin/status", admin=True)
                self.assertEqual((status["epoch"], len(status["ranks"]), status["recoveries"]), (epoch, shape["tensor"], 0))
            self.assertTrue(any(thread.is_alive() for thread, _ in streams), "the streams ended before the last change")
            for i, (thread, lines) in enumerate(streams):
                thread.join(timeout=120)
                self.assertEqual(text_of(lines), expected[i % len(PROMPTS)])
            blocks = server.get("/admin/status", admin=True)["blocks"]["device"]
            self.assertEqual(blocks["free"], blocks["total"])

    def test_reshard_refuses_impossible_shapes_and_keeps_the_workers(self):
        with Server("-tp", "2", model=TINY) as server:
            pids = server.worker_pids()
            for shape, word in [({"tensor": 10}, "1 to 9 workers"), ({"tensor": 0}, "tensor"), ({}, "missing"),
                                ({"tensor": 2, "shares": [1]}, "1 shares for 2 workers"), ({"tensor": 2, "shares": [1, -1]}, "1e-6 to 1e6"),
                                ({"tensor": 2, "shares": [1, 1e308]}, "1e-6 to 1e6")]:
                status, answer = server.post("/admin/reshard", shape, admin=True)
                self.assertEqual(status, 400, answer)
                self.assertIn(word, answer["error"]["message"])
            self.assertEqual(server.worker_pids(), pids)

    def test_reshard_restores_the_old_workers_when_the_new_ones_fail_to_start(self):
        with tempfile.TemporaryDirectory() as d:
            with Server("-tp", "2", model=TINY, env=mpirun_shim(d, 'if [ "$2" = 3 ]; then exit 7; fi')) as server:
                expected = expected_texts(server, 800)[0]
                thread, lines = stream_in_background(server, 800)
                status, answer = server.post("/admin/reshard", {"tensor": 3}, admin=True)
                self.assertEqual(status, 500, answer)
                self.assertIn("mpirun exited with status 7", answer["error"]["message"])
                thread.join(timeout=60)
                self.assertEqual(text_of(lines), expected)
                self.assertEqual(len(server.worker_pids()), 2)

    def test_restart_happens_after_the_recovery_when_a_worker_was_just_lost(self):
        with Server("-tp", "2", model=TINY) as server:
            thread, lines = stream_in_background(server)
            os.kill(server.worker_pids()[0], signal.SIGKILL)
            status, answer = server.post("/admin/restart_workers", {}, admin=True)
            self.assertEqual((status, answer.get("replaced")), (200, True), answer)
            thread.join(timeout=60)
            self.assertEqual(lines[-1], b"[DONE]")


class OperationsTest(unittest.TestCase):
    def test_streams_are_unchanged_when_workers_are_restarted(self):
        with Server("-tp", "2", model=TINY) as server:
            expected = expected_texts(server, 1500)[0]
            thread, lines = stream_in_background(server)
            old = server.worker_pids()
            status, answer = server.post("/admin/restart_workers", b"", admin=True)
            self.assertEqual(status, 200, answer)
            self.assertFalse(set(old) & set(server.worker_pids()))
            thread.join(timeout=60)
            self.assertEqual(text_of(lines), expected)

    def test_pause_holds_requests_and_resume_releases_them(self):
        with Server("-tp", "1", model=TINY) as server:
            self.assertEqual(server.post("/admin/pause", b"", admin=True)[1]["paused"], True)
            answers = []
            thread = threading.Thread(target=lambda: answers.append(server.post("/v1/completions", {"prompt": [3, 4], "max_tokens": 4})))
            thread.start()
            deadline = time.monotonic() + 10
            while server.get("/admin/status", admin=True)["waiting"] == 0 and time.monotonic() < deadline:
                time.sleep(0.02)
            status = server.get("/admin/status", admin=True)
            self.assertEqual((status["state"], status["waiting"], status["running"]), ("paused", 1, 0))
            with self.assertRaises(urllib.error.HTTPError) as refused:
                server.get("/ready")
            self.assertEqual(refused.exception.code, 503)
            self.assertEqual(server.get("/health"), {})
            server.post("/admin/resume", b"", admin=True)
            self.assertEqual(server.get("/ready"), {})
            thread.join(timeout=20)
            self.assertEqual(answers[0][0], 200)

    def test_draining_refuses_new_requests_and_finishes_old_ones(self):
        with Server("-tp", "1", model=TINY) as server:
            thread, lines = stream_in_background(server, 300)
            self.assertEqual(server.post("/admin/drain", b"", admin=True)[1]["draining"], True)
            status, answer = server.post("/v1/completions", {"prompt": [3, 4], "max_tokens": 4})
            self.assertEqual(status, 503, answer)
            thread.join(timeout=30)
            self.assertEqual(lines[-1], b"[DONE]")
            server.post("/admin/resume", b"", admin=True)
            self.assertEqual(server.post("/v1/completions", {"prompt": [3, 4], "max_tokens": 4})[0], 200)

    def test_stream_ends_with_an_error_when_an_operator_aborts_it(self):
        with Server("-tp", "1", model=TINY) as server:
            thread, lines = stream_in_background(server, 1900)
            name = json.loads(lines[0])["id"]
            self.assertEqual(server.post("/admin/abort", {"request": "nobody"}, admin=True)[1]["aborted"], 0)
            self.assertEqual(server.post("/admin/abort", {}, admin=True)[0], 400)
            self.assertEqual(server.post("/admin/abort", {"request": name}, admin=True)[1]["aborted"], 1)
            thread.join(timeout=20)
            self.assertIn("aborted by the operator", json.loads(lines[-2])["error"]["message"])
            blocks = server.get("/admin/status", admin=True)["blocks"]["device"]
            self.assertEqual(blocks["free"], blocks["total"])

    def test_profile_shows_spans_of_the_engine_and_every_rank(self):
        with Server("-tp", "2", "--data-parallel-size", "2", model=TINY) as server:
            threads = [stream_in_background(server, 1900)[0] for _ in range(4)]
            answers = []

            def profile(seconds):
                while (answer := server.post("/admin/profile", {"seconds": seconds}, admin=True))[0] == 409:
                    pass  # one of the short profiles below was answered before
                answers.append(answer)

            first = threading.Thread(target=profile, args=(1,))
            first.start()
            deadline = time.monotonic() + 10
            while (refused := server.post("/admin/profile", {"seconds": 0.01}, admin=True))[0] != 409:
                self.assertLess(time.monotonic(), deadline, refused)
            first.join()
            for seconds in (0, 61, "x"):
                self.assertEqual(server.post("/admin/profile", {"seconds": seconds}, admin=True)[0], 400)
            for thread in threads:
                thread.join(timeout=60)
            profile(0.05)
        (status, trace), (_, idle) = answers
        self.assertEqual(status, 200)
        events = trace["traceEvents"]
        names = {(event["pid"], event["args"]["name"]) for event in events if event["name"] == "thread_name"}
        self.assertEqual(names, {(replica, name) for replica in (0, 1) for name in ("engine", "rank 0", "rank 1")})
        spans = [event for event in events if event["ph"] == "X"]
        self.assertEqual({span["name"] for span in spans}, {"tasks", "plan", "send", "wait", "commit", "step"})
        for span in spans:
            self.assertGreaterEqual(span["ts"], 0)
        for replica in (0, 1):
            steps = [[span["args"]["step"] for span in spans if (span["pid"], span["tid"]) == (replica, 1 + rank)] for rank in (0, 1)]
            self.assertGreater(len(steps[0]), 20)
            for of_rank in steps:
                self.assertEqual(of_rank, list(range(of_rank[0], of_rank[-1] + 1)), "every step, in order")
            engine = sorted((span["ts"], span["dur"]) for span in spans if (span["pid"], span["tid"]) == (replica, 0))
            for (begin, length), (after, _) in zip(engine, engine[1:]):
                self.assertLessEqual(begin + length, after + 2, "one thread does one thing at a time")
        self.assertNotIn("step", {event["name"] for event in idle["traceEvents"]})

    def test_admin_log_level_accepts_known_levels_only(self):
        with Server("-tp", "1", model=TINY) as server:
            self.assertEqual(server.post("/admin/log_level", {"level": "debug"}, admin=True)[0], 200)
            self.assertEqual(server.post("/admin/log_level", {"level": "loud"}, admin=True)[0], 400)


class LossReportTest(unittest.TestCase):
    def test_status_and_metrics_name_the_lost_rank_and_the_cause(self):
        with Server("-tp", "3", model=TINY) as server:
            comments = []
            thread, lines = stream_in_background(server, 1900, comments)
            ranks = server.get("/admin/status", admin=True)["ranks"]
            os.kill(ranks[2]["pid"], signal.SIGSTOP)
            while server.get("/admin/status", admin=True)["recoveries"] == 0:
                time.sleep(0.02)
            loss = server.get("/admin/status", admin=True)["losses"][-1]
            self.assertEqual((loss["epoch"], loss["cause"], loss["rank"], loss["host"]), (1, "silent", 2, ranks[2]["host"]))
            self.assertGreater(loss["stall_seconds"], 0)
            metrics = server.get("/metrics", admin=True)
            self.assertRegex(metrics, r'quire:worker_group_losses_total\{.*cause="silent".*\} 1')
            self.assertRegex(metrics, r"quire:epoch\{.*\} 2")
            thread.join(timeout=60)
            self.assertEqual(lines[-1], b"[DONE]")
            self.assertEqual(wait_gone([rank["pid"] for rank in ranks], 5), [])

    def test_status_is_recovering_and_streams_get_comments_while_workers_start(self):
        with tempfile.TemporaryDirectory() as d:
            slow_again = f"if [ -e {d}/launched ]; then sleep 4; fi; touch {d}/launched"
            with Server("-tp", "2", model=TINY, env=mpirun_shim(d, slow_again)) as server:
                comments = []
                thread, lines = stream_in_background(server, 1900, comments)
                os.kill(server.worker_pids()[0], signal.SIGKILL)
                time.sleep(1)
                status = server.get("/admin/status", admin=True)
                self.assertEqual((status["state"], status["epoch"], status["recoveries"]), ("recovering", 1, 0))
                self.assertIsNone(status["losses"][-1]["stall_seconds"])
                thread.join(timeout=60)
                self.assertEqual(lines[-1], b"[DONE]")
                self.assertIn("recovering", comments)


class ExternalLaunchTest(unittest.TestCase):
    def test_workers_that_a_supervisor_restarts_join_the_next_epoch(self):
        data, ctrl = free_port(), free_port()
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(f"model: {{path: {TINY}}}\nparallel: {{tensor: 2}}\ntransport: {{bind: 127.0.0.1, ports: [{data}, {ctrl}]}}\n"
                    "launch: {method: external}\n")
            f.flush()
            command = ["mpirun", "-np", "2", "--oversubscribe", os.path.join(BUILD, "quire-worker"), "--coordinator", f"tcp://127.0.0.1:{data}"]
            # Acts as a supervisor: starts the server, waits for its end, and starts it again.
            loop = "import subprocess, sys\nwhile subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode != 0: pass\n"
            supervisor = subprocess.Popen([sys.executable, "-c", loop, *command], stdin=subprocess.DEVNULL,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                with Server(f.name) as server:
                    expected = expected_texts(server, 800)[0]
                    thread, lines = stream_in_background(server, 800)
                    os.kill(server.worker_pids()[1], signal.SIGKILL)
                    thread.join(timeout=60)
                    self.assertEqual(text_of(lines), expected)
                    self.assertEqual(server.get("/admin/status", admin=True)["epoch"], 2)
                    self.assertEqual(server.terminate(), 0)
                    self.assertEqual(supervisor.wait(timeout=20), 0)
            finally:
                supervisor.kill()
                supervisor.wait()


if __name__ == "__main__":
    verdict.run_tests()
