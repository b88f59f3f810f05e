#!/usr/bin/env python3
"""Measures what KV on disk saves: the time to the first token of a conversation's next turn after kill -9 and a restart, on another number
of workers, alternately with --kv-disk and without it. Prints a line for each round and the medians.

  tests/bench/kv_disk.py MODEL [TOKENS [ROUNDS [flags of quire serve ...]]]"""
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
from server import Server, wait_gone  # noqa: E402


def first_token(server, prompt):
    """Returns the seconds to the first token, that token, and how many tokens were cached."""
    body = {"prompt": prompt, "max_tokens": 1, "temperature": 0, "ignore_eos": True, "stream": True, "return_token_ids": True,
            "stream_options": {"include_usage": True}}
    request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    begin, seconds, token, cached = time.monotonic(), None, None, 0
    with urllib.request.urlopen(request, timeout=600) as response:
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("choices") and event["choices"][0].get("token_ids") and seconds is None:  # the first event has no token yet
                seconds, token = time.monotonic() - begin, event["choices"][0].get("token_ids")
            cached = ((event.get("usage") or {}).get("prompt_tokens_details") or {}).get("cached_tokens", cached)
    return seconds, token, cached


def files_in(directory):
    return sum(len(name) == 40 for _, _, names in os.walk(directory) for name in names)


def main():
    model, tokens = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 6000
    rounds, flags = int(sys.argv[3]) if len(sys.argv) > 3 else 3, sys.argv[4:]
    folder = tempfile.mkdtemp(prefix="quire-kv-bench-")
    disk = os.path.join(folder, "kv")
    prompt = [100 + (i * 7919 + i // 89) % 30000 for i in range(tokens)]
    times = {"with": [], "without": []}
    try:
        with Server("-tp", "1", "--kv-disk", disk, *flags, model=model) as server:
            seconds, *_ = first_token(server, prompt)
            while files_in(disk) < tokens // 16:
                time.sleep(0.1)
            pids = server.worker_pids()
            for pid in [server.process.pid, *pids]:
                os.kill(pid, signal.SIGKILL)
            server.process.wait()
            wait_gone(pids, 10)
        print(f"computed at first: {seconds:.2f} s, {files_in(disk)} blocks stored", flush=True)
        turn = prompt + prompt[:40]
        for number in range(rounds):
            for way, words in (("with", ("--kv-disk", disk)), ("without", ())):
                with Server("-tp", "2", *words, *flags, model=model) as server:
                    first_token(server, [5, 6, 7])
                    seconds, token, cached = first_token(server, turn)
                    times[way].append(seconds)
                    print(f"round {number + 1}, {way:7}: {seconds:.3f} s, {cached} of {len(turn)} tokens cached, token {token}", flush=True)
        with_disk, without = statistics.median(times["with"]), statistics.median(times["without"])
        print(f"medians: {with_disk:.3f} s with, {without:.3f} s without: {100 * with_disk / without:.1f} %")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
