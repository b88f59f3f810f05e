#!/usr/bin/env python3
"""Measures the cost of rounding: compares several configurations of one model with the first of them. The next token is predicted after
pieces of English text. Prints a Markdown table. Run by hand; other programs may run at the same time.

  tests/bench/accuracy.py [--build build] [--texts 400] [--llama PATH/llama-server] EXACT-MODEL "MODEL [OPTION...]"...

The text is this repository's own Markdown, cut at random places. A row of the table has three numbers. The first is how often the likeliest
token equals that of the first row. The second is how far log-probabilities differ for tokens that are among the ten likeliest in both rows:
the mean, and the 99th percentile. The third is the perplexity of the first token of the text's own next word, over the places where the ten
likeliest tokens of every row contain this token."""
import argparse
import glob
import json
import math
import os
import random
import re
import sys
import urllib.request

from peers import llama, quire

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIKELIEST = 10


def pieces(count):
    """Returns pairs of a text and the word that follows it."""
    text = "\n".join(open(path).read() for path in sorted(glob.glob(f"{ROOT}/*.md") + glob.glob(f"{ROOT}/*/README.md")))
    words = [m for m in re.finditer(r" [A-Za-z]+", text) if m.start() > 1500]
    return [(text[m.start() - rng.randrange(200, 1500):m.start()], m[0]) for rng in [random.Random(5)] for m in rng.sample(words, count)]


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.load(response)


def ask_quire(port, text):
    body = {"prompt": text, "max_tokens": 1, "temperature": 0, "logprobs": LIKELIEST}
    return post(port, "/v1/completions", body)["choices"][0]["logprobs"]["top_logprobs"][0]


def ask_llama(port, text):
    body = {"prompt": text, "n_predict": 1, "temperature": 0, "n_probs": LIKELIEST}
    top = post(port, "/completion", body)["completion_probabilities"][0]["top_logprobs"]
    return {t["token"]: t["logprob"] for t in top}


def likeliest(o, way, texts):
    """Returns the likeliest tokens with their log-probabilities for each text."""
    model, *options = way.split()
    theirs = options == ["llama.cpp"]
    with llama(o, model) if theirs else quire(o, model, options) as server:
        return [(ask_llama if theirs else ask_quire)(server.port, text) for text, _ in texts]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="+", metavar="MODEL [OPTION...]", help="'MODEL llama.cpp' asks llama.cpp's server")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--llama")
    parser.add_argument("--texts", type=int, default=400)
    o = parser.parse_args()
    texts = pieces(o.texts)
    answers = []
    for way in o.ways:
        print(way, file=sys.stderr)
        answers.append(likeliest(o, way, texts))

    def token_of(word, top):  # the longest token with which the word begins
        return max((t for t in top if len(t) > 1 and word.startswith(t)), key=len, default=None)

    common = [i for i, (_, word) in enumerate(texts) if all(token_of(word, a[i]) == token_of(word, answers[0][i]) is not None for a in answers)]
    print("| | likeliest token equal | log-probabilities apart: mean | 99 in 100 within | perplexity |\n| --- | --- | --- | --- | --- |")
    for way, tops in zip(o.ways, answers):
        same = sum(max(a, key=a.get) == max(b, key=b.get) for a, b in zip(answers[0], tops)) / len(texts)
        apart = sorted(abs(a[t] - b[t]) for a, b in zip(answers[0], tops) for t in a if t in b)
        loss = -sum(tops[i][token_of(texts[i][1], tops[i])] for i in common) / len(common)
        print(f"| {' '.join(map(os.path.basename, way.split()))} | {same:.1%} | {sum(apart) / len(apart):.4f} | {apart[len(apart) * 99 // 100]:.3f} | {math.exp(loss):.3f} |")
    print(f"\n{len(texts)} texts, the next word's token among the ten likeliest of all rows in {len(common)} of them.")


if __name__ == "__main__":
    main()
