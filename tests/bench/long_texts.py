#!/usr/bin/env python3
"""long_texts.py [LAYERS [HIDDEN [TOKENS]]]: measures how long other clients' short texts wait while an encoder computes a long text. Serves
an XLM-R with made-up weights, sends the long text, and meanwhile texts of 30 tokens with another API key, one after the other. Prints the
times of the long text alone and beside the short texts, the times of the short texts, and the time from the moment when the client of a
long text leaves until the work on this text has ended. QUIRE_TEST_BUILD names the build directory."""
import json
import os
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))

from fairness_test import make_keys
from server import MODELS, Server


def main():
    layers, hidden, tokens = (int(x) for x in (sys.argv[1:] + ["24", "1024", "8190"][len(sys.argv) - 1:])[:3])
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "xlmr")
        shutil.copytree(os.path.join(MODELS, "xlmr"), model)
        with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        config.update({"num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": 4 * hidden, "num_attention_heads": hidden // 64,
                       "max_position_embeddings": tokens + 4})
        with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        path, keys = make_keys(folder, "long", "short")
        with Server("--load-format", "dummy", "--pooling", "mean", "--api-key-file", path, model=model) as server:
            measure(server, keys, tokens)


def embed(server, key, count, token):
    begin = time.monotonic()
    status, answer = server.post("/v1/embeddings", {"input": [[token] * count]}, timeout=900, headers={"Authorization": "Bearer " + key})
    assert status == 200, answer
    return time.monotonic() - begin


def measure(server, keys, tokens):
    for _ in range(5):
        embed(server, keys["short"], 30, 8)
    quiet = statistics.median(embed(server, keys["short"], 30, 8) for _ in range(10))
    alone = embed(server, keys["long"], tokens, 7)
    long_times, short_times = [], []
    thread = threading.Thread(target=lambda: long_times.append(embed(server, keys["long"], tokens, 7)))
    thread.start()
    server.wait_until_running()
    while thread.is_alive():
        short_times.append(embed(server, keys["short"], 30, 8))
    print(f"short text, nothing beside it: {quiet:.3f} s; long text alone: {alone:.1f} s, beside short ones: {long_times[0]:.1f} s")
    print(f"short texts beside it: {len(short_times)}, median {statistics.median(short_times):.3f} s, longest {max(short_times):.3f} s")
    body = json.dumps({"input": [[7] * tokens]}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % (keys["long"].encode(), len(body)) + body)
        server.wait_until_running()
        time.sleep(1)
    begin = time.monotonic()
    embed(server, keys["short"], 30, 8)
    print(f"short text after the client of a long one has left: {time.monotonic() - begin:.3f} s")


if __name__ == "__main__":
    main()
