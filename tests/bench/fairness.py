#!/usr/bin/env python3
"""Measures one client's waiting time while another client floods the server: docs/benchmarks/2026-11-22-fairness.md.

  fairness.py MODEL [BUILD_DIR] [FLOOD ...]    FLOOD: choices, requests, prompts, beams, long; all of them if none is named

For every flood of client A, serves MODEL (two ranks, one thread each, otherwise default settings) and waits until the flood is being
computed. Then sends ten requests of 5 tokens as client B, one after the other. Prints for each flood how many seconds B's answers took and
how many steps were planned meanwhile; 503 counts as an answer. """
import json
import os
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
if len(sys.argv) > 2:
    os.environ["QUIRE_TEST_BUILD"] = os.path.abspath(sys.argv[2])
from server import Server  # noqa: E402

LONG = "one two three four five six seven eight nine ten " * 780  # about 8,000 tokens


def call(n=1, prompts=1, prompt="Tell me a story.", max_tokens=1000):
    texts = [f"{i}. {prompt}" for i in range(prompts)]
    return {"prompt": texts if prompts > 1 else texts[0], "n": n, "max_tokens": max_tokens, "ignore_eos": True, "seed": 1}


FLOODS = {
    "choices": [call(n=128)] * 2,
    "requests": [call() for _ in range(256)],
    "prompts": [call(n=16, prompts=16)],
    "beams": [{**call(n=16, prompts=8, max_tokens=200), "use_beam_search": True}] * 4,
    "long": [{**call(prompt=LONG, max_tokens=16), "prompt": f"{i} " + LONG} for i in range(20)],
}


def send(server, body, key):
    try:
        return server.post("/v1/completions", body, timeout=600, headers={"Authorization": f"Bearer {key}"})
    except OSError:
        return None, None  # the server has ended


def wait_until_busy(server, flood):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        status = server.get("/admin/status", admin=True)
        if status["running"] and (flood == "long" or status["generated_tokens"] > 1000):
            return
        time.sleep(0.2)
    raise SystemExit("the flood does not run")


def measure(model, flood, count):
    with Server("-tp", "2", "--threads-per-worker", "1", model=model) as server:
        for body in FLOODS[flood]:
            threading.Thread(target=send, args=(server, body, "a"), daemon=True).start()
        wait_until_busy(server, flood)
        time.sleep(3)
        rows = []
        for i in range(count):
            steps = server.get("/admin/status", admin=True)["steps"]
            begin = time.monotonic()
            status, answer = send(server, call(prompt=f"What is {i} and {i}?", max_tokens=5), "b")
            seconds = time.monotonic() - begin
            after = server.get("/admin/status", admin=True)
            rows.append((seconds, after["steps"] - steps, status))
            print(f"  {flood}: {status} after {seconds:.2f} s and {rows[-1][1]} steps", flush=True)
            if status != 200:
                break
            time.sleep(1.5)
        seconds = [row[0] for row in rows]
        print(f"{flood}: median {statistics.median(seconds):.2f} s, most {max(seconds):.2f} s, most steps "
              f"{max(row[1] for row in rows)}, preemptions {after['preemptions']}, "
              f"{after['generated_tokens']} tokens generated in all", flush=True)


if __name__ == "__main__":
    for name in sys.argv[3:] or FLOODS:
        measure(sys.argv[1], name, 10)
