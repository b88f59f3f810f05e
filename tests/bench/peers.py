#!/usr/bin/env python3
"""Quire against llama.cpp's server: the same GGUF files, both through HTTP, one server at a time, in turns. Writes a table of
medians and ranges. By hand, on a machine that does nothing else.

  tests/bench/peers.py --llama PATH/llama-server [--rounds 3] [--build build] FILE.gguf...

Work: one 512-token prompt and 128 tokens after it; 8 and 32 at once with 128-token prompts and 64 tokens each. Greedy, and the
end of a sequence is ignored. Prompts are numbers of tokens that both take, different ones in every round, so that nobody has
seen them before."""
import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ASKED = {"temperature": 0, "stream": True, "ignore_eos": True, "cache_prompt": False}
ROWS = ["start, s", "512-token prompt, first token after, s", "one stream, ms a token", "8 at once, output tokens a second",
        "32 at once, output tokens a second", "32 at once, first token after (median), s", "resident memory, MB"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def resident(pid):
    """MB of a process and all that it started."""
    total, pids = 0, [pid]
    while pids:
        pid = pids.pop()
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                total += int(next(line for line in f if line.startswith("Pss:")).split()[1])
            with open(f"/proc/{pid}/task/{pid}/children") as f:
                pids += map(int, f.read().split())
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total / 1000


class Server:
    """One server from its start to its end; `started` is the time until it serves."""

    def __init__(self, command, port, ready, env):
        begin = time.monotonic()
        self.port = port
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, **env})
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=2).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > begin + 120:
                    sys.exit(f"{command[0]} does not serve")
                time.sleep(0.02)
        self.started = time.monotonic() - begin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def quire(o, model):
    port = free_port()
    command = [os.path.join(o.build, "quire"), "serve", "--model", model, "--port", str(port), "--admin-port", str(free_port()), "-tp", "2"]
    return Server(command, port, "/ready", {})


def llama(o, model):
    port = free_port()
    command = [o.llama, "-m", model, "--port", str(port), "-t", "2", "-c", "65536", "-np", "32"]
    return Server(command, port, "/health", {"LD_LIBRARY_PATH": os.path.dirname(o.llama)})


async def ask(port, prompt, tokens):
    """When each piece of text came, in seconds from the request."""
    body = json.dumps({**ASKED, "prompt": prompt, "max_tokens": tokens}).encode()
    begin = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
    times = []
    async for line in reader:
        if line.startswith(b"data: {"):
            times.append(time.monotonic() - begin)
    writer.close()
    if len(times) < tokens // 2:
        sys.exit(f"{len(times)} pieces of text for {tokens} tokens")
    return times


async def at_once(port, rng, count, prompt_tokens, tokens):
    begin = time.monotonic()
    prompts = [[rng.randrange(1000, 20000) for _ in range(prompt_tokens)] for _ in range(count)]
    all_times = await asyncio.gather(*(ask(port, prompt, tokens) for prompt in prompts))
    return all_times, time.monotonic() - begin


def measure(server, rng):
    async def work():
        await at_once(server.port, rng, 1, 16, 8)
        (alone,), _ = await at_once(server.port, rng, 1, 512, 128)
        gaps = [b - a for a, b in zip(alone, alone[1:])]
        _, eight = await at_once(server.port, rng, 8, 128, 64)
        many, all_seconds = await at_once(server.port, rng, 32, 128, 64)
        return [server.started, alone[0], 1000 * statistics.median(gaps), 8 * 64 / eight, 32 * 64 / all_seconds,
                statistics.median(times[0] for times in many), resident(server.process.pid)]

    return asyncio.run(work())


def cell(values):
    middle = statistics.median(values)
    digits = 2 if middle < 10 else 1 if middle < 100 else 0
    return f"{middle:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--llama", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    o = parser.parse_args()
    found = {(model, name): [] for model in o.models for name in ("Quire", "llama.cpp")}
    for turn in range(o.rounds):
        for model in o.models:
            for name, start in (("Quire", quire), ("llama.cpp", llama)):
                with start(o, model) as server:
                    found[model, name].append(measure(server, random.Random(f"{turn} {model}")))
                print(model, name, [round(x, 3) for x in found[model, name][-1]], file=sys.stderr, flush=True)
    for model in o.models:
        print(f"\n**{os.path.basename(model)}**, {o.rounds} rounds, medians (and ranges)\n\n| | Quire | llama.cpp | ratio |\n| --- | --- | --- | --- |")
        for row, title in enumerate(ROWS):
            ours, theirs = ([values[row] for values in found[model, name]] for name in ("Quire", "llama.cpp"))
            more_is_better = "a second" in title
            ratio = statistics.median(ours) / statistics.median(theirs)
            print(f"| {title} | {cell(ours)} | {cell(theirs)} | {ratio if more_is_better else 1 / ratio:.2f} x |")


if __name__ == "__main__":
    main()
