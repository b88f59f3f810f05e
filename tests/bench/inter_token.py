#!/usr/bin/env python3
"""Measures the time between two tokens of streams while long prompts arrive, for each of several targets. Run by hand, on a machine that
does nothing else.

  tests/bench/inter_token.py [--build build] [--streams 4] [--prompt 4096] [--seconds 30] [--targets 0,200,100,50] MODEL [OPTION...]

Starts a server for each target (--target-inter-token-latency; 0: none), with OPTIONS of `quire serve`. Each stream has 16 prompt tokens and
256 answer tokens, and is followed by another stream. Meanwhile different prompts of --prompt tokens come one after another, and each
samples a single token. Prints a table: the times between the tokens of all streams, and how fast the long prompts were computed."""
import argparse
import asyncio
import json
import os
import random
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))


async def ask(port, prompt, tokens, gaps):
    """Appends the times between neighbouring events of the stream to `gaps`."""
    body = json.dumps({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
    last, events = None, 0
    async for line in reader:
        if not line.startswith(b"data: {"):
            continue
        now = time.monotonic()
        if last is not None:
            gaps.append(now - last)
        last, events = now, events + 1
    writer.close()
    if events == 0:
        raise RuntimeError("no answer")


async def load(port, o):
    rng, gaps, prompts = random.Random(1), [], 0
    end = time.monotonic() + o.seconds

    def tokens(count):
        return [rng.randrange(1000, 20000) for _ in range(count)]

    async def stream():
        while time.monotonic() < end:
            await ask(port, tokens(16), 256, gaps)

    async def long_prompts():
        nonlocal prompts
        while time.monotonic() < end:
            await ask(port, tokens(o.prompt), 1, [])
            prompts += 1

    begin = time.monotonic()
    await asyncio.gather(long_prompts(), *(stream() for _ in range(o.streams)))
    return sorted(gaps), prompts * o.prompt / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--targets", type=lambda text: [int(word) for word in text.split(",")], default=[0, 200, 100, 50])
    o, options = parser.parse_known_args()
    os.environ["QUIRE_TEST_BUILD"] = os.path.abspath(o.build)
    from server import Server  # reads the variable
    print("| target, ms | gaps: median, ms | 99 in 100 within | longest | tokens of long prompts a second |\n| --- | --- | --- | --- | --- |")
    for target in o.targets:
        with Server("--target-inter-token-latency", str(target), *options, model=o.model) as server:
            asyncio.run(ask(server.port, [5] * 16, 8, []))
            gaps, speed = asyncio.run(load(server.port, o))
        at = [1000 * gaps[int(part * (len(gaps) - 1))] for part in (0.5, 0.99, 1)]
        print(f"| {target or 'none'} | {at[0]:.1f} | {at[1]:.1f} | {at[2]:.1f} | {speed:.0f} |", flush=True)


if __name__ == "__main__":
    main()
