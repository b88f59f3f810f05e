#!/usr/bin/env python3
"""Compares an encoder's speed through HTTP with sentence-transformers in its own process, alternately, on two cores. Also prints the
largest difference between corresponding numbers of the vectors. Needs: pip install sentence-transformers

  encoders.py MODEL [FLAG...]   flags of `quire serve`; QUIRE_TEST_BUILD is the folder of quire and quire-worker"""
import base64
import http.client
import json
import os
import random
import sys
import threading
import time

import numpy
import torch
from sentence_transformers import SentenceTransformer

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from server import ROOT, Server  # noqa: E402

ROUNDS = 3
# For each load: number of texts, words of a text, texts in a call, concurrent calls.
LOADS = {"short texts, 32 a call": (128, (5, 20), 32, 1),
         "long texts, 32 a call": (32, (60, 120), 32, 1),
         "mixed texts, one a call, 8 at once": (32, (3, 120), 1, 8)}


def make_texts(count, words):
    with open(os.path.join(ROOT, "docs", "api.md"), encoding="utf-8") as f:
        known = f.read().split()
    rng = random.Random(count)
    return [" ".join(rng.choice(known) for _ in range(rng.randint(*words))) for _ in range(count)]


class Ours:
    def __init__(self, model, flags):
        self.server = Server("-tp", "1", "--threads-per-worker", "2", "--served-model-name", "m", *flags, model=model)

    def call(self, texts):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=300)
        body = {"input": texts, "truncate_prompt_tokens": self.most, "encoding_format": "base64"}
        connection.request("POST", "/v1/embeddings", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer[:500]
        return [numpy.frombuffer(base64.b64decode(entry["embedding"]), numpy.float32) for entry in json.loads(answer)["data"]]

    def encode(self, texts, size, at_once):
        calls = [texts[i:i + size] for i in range(0, len(texts), size)]
        vectors = [None] * len(calls)

        def run(first):
            for i in range(first, len(calls), at_once):
                vectors[i] = self.call(calls[i])

        threads = [threading.Thread(target=run, args=(first,)) for first in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return numpy.array([vector for call in vectors for vector in call])


def main():
    model, *flags = sys.argv[1:]
    torch.set_num_threads(2)
    theirs, ours = SentenceTransformer(model, device="cpu"), Ours(model, flags)
    ours.most = theirs.max_seq_length
    print("| load | tokens | Quire, s | sentence-transformers, s | ratio | largest difference |\n| --- | --- | --- | --- | --- | --- |")
    for name, (count, words, size, at_once) in LOADS.items():
        texts = make_texts(count, words)
        tokens = sum(min(len(ids), theirs.max_seq_length) for ids in theirs.tokenizer(texts)["input_ids"])
        difference = numpy.abs(ours.encode(texts, size, at_once) - theirs.encode(texts, batch_size=size)).max()
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            ours.encode(texts, size, at_once)
            middle = time.perf_counter()
            theirs.encode(texts, batch_size=size)
            times.append((middle - begin, time.perf_counter() - middle))
        columns = [", ".join(f"{pair[side]:.2f}" for pair in times) for side in (0, 1)]
        ratios = ", ".join(f"{theirs_s / ours_s:.2f}" for ours_s, theirs_s in times)
        print(f"| {name} | {tokens} | {columns[0]} | {columns[1]} | {ratios} | {difference:.1e} |", flush=True)
    ours.server.__exit__()


if __name__ == "__main__":
    main()
