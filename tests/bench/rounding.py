#!/usr/bin/env python3
"""Measures what rounding costs, over every token of English texts. Scores the same texts with several ways to serve one
model, and compares each way with the first. Prints a Markdown table. Run by hand; other programs may run at the same time.

  tests/bench/rounding.py [--build build] [--texts 40] "MODEL [OPTION...]"...

The texts are pieces of this repository's own Markdown, cut at random places (accuracy.py). A row of the table has the mean distance
between a token's log-probability and that of the first row; the 99th percentile of these distances; the perplexity; and how much the
mean log-probability differs from the first row's, with its standard error."""
import argparse
import math
import os
import statistics
import sys

from accuracy import ROOT, pieces, post
from peers import quire


def scores(o, way, texts):
    """Returns the log-probabilities of all tokens of every text, except each text's first token."""
    model, *options = way.split()
    found = []
    with quire(o, model, options) as server:
        for text in texts:
            body = {"prompt": text, "max_tokens": 1, "echo": True, "logprobs": 1, "temperature": 0}
            logprobs = post(server.port, "/v1/completions", body)["choices"][0]["logprobs"]["token_logprobs"]
            found.extend(logprobs[1:-1])  # the last token is the answer's
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="+", metavar="MODEL [OPTION...]")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--texts", type=int, default=40)
    o = parser.parse_args()
    texts = [text + word for text, word in pieces(o.texts)]
    print("| | tokens | log-probabilities apart: mean | 99 in 100 within | perplexity | mean log-probability, less the first row's |")
    print("| --- | --- | --- | --- | --- | --- |")
    first = None
    for way in o.ways:
        found = scores(o, way, texts)
        first = first or found
        if len(found) != len(first):
            sys.exit(f"{way}: {len(found)} tokens, and the first way has {len(first)}")
        apart = [b - a for a, b in zip(first, found)]
        distances = sorted(map(abs, apart))
        error = statistics.stdev(apart) / math.sqrt(len(apart))
        model, *options = way.split()
        print(f"| {' '.join([os.path.basename(model), *options])} | {len(found)} | {statistics.fmean(distances):.4f} | "
              f"{distances[len(distances) * 99 // 100]:.3f} | {math.exp(-statistics.fmean(found)):.3f} | "
              f"{statistics.fmean(apart):+.4f} ± {error:.4f} |", flush=True)


if __name__ == "__main__":
    main()
