#!/usr/bin/env python3
"""constrained_load.py MODEL [ROUNDS]: measures how much a grammar slows answers. Runs 32 concurrent chats of 96 tokens on two ranks with
one thread each, alternately without a grammar and with a JSON schema. Prints the tokens per second of every round, and the medians.
QUIRE_TEST_BUILD names the build directory."""
import json
import os
import statistics
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))

from server import Server

SCHEMA = {"type": "object", "required": ["name", "kind", "count", "texts"], "additionalProperties": False,
          "properties": {"name": {"type": "string"}, "kind": {"enum": ["a", "b", "c"]}, "count": {"type": "integer"},
                         "texts": {"type": "array", "items": {"type": "string", "minLength": 100, "maxLength": 128}, "minItems": 4}}}
PLAIN = {"ignore_eos": True}
CONSTRAINED = {"response_format": {"type": "json_schema", "json_schema": {"name": "facts", "schema": SCHEMA, "strict": True}}}


def tokens_per_second(url, fields):
    tokens = []

    def ask(number):
        body = {"messages": [{"role": "user", "content": f"Tell me about number {number}, please, in some words."}], "max_tokens": 96, "temperature": 0, **fields}
        request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as response:
            tokens.append(json.load(response)["usage"]["completion_tokens"])

    begin = time.monotonic()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(tokens) < len(threads):
        sys.exit("a request failed")
    return sum(tokens) / (time.monotonic() - begin)


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with Server("-tp", "2", "--threads-per-worker", "1", model=sys.argv[1]) as server:
        ways = {"plain": PLAIN, "constrained": CONSTRAINED}
        speeds = {name: [] for name in ways}
        for i in range(rounds + 1):  # the first round compiles and caches
            for name, fields in ways.items():
                speed = tokens_per_second(server.url, fields)
                if i > 0:
                    speeds[name].append(speed)
                    print(f"{name}: {speed:.0f} tokens a second", flush=True)
        for name, all_rounds in speeds.items():
            print(f"median, {name}: {statistics.median(all_rounds):.1f}")


if __name__ == "__main__":
    main()
