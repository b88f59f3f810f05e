#!/usr/bin/env python3
"""drafts_llama.py QUIRE LLAMA_SERVER MODEL.gguf [--rounds N] [--tokens PERCENT]: compares speculation with llama.cpp's on one GGUF file.
Starts one server for each method: Quire without drafts, with ngram and with suffix; llama-server with each of its methods that need no
second model. One stream asks every server, in turns, to repeat a source file with an edit; each turn asks for another edit. --tokens
scales the length of the answers (in percent; default 100). Prints a table in Markdown: the tokens per second (the median of the rounds),
and their ratio to Quire's best method."""
import argparse
import json
import statistics
import subprocess
import sys
import time
import urllib.request

import drafts


class LlamaServer(drafts.Server):
    """A llama-server. Its answers have the form of Quire's."""

    def __init__(self, binary, model, flags):
        self.port, self.model = drafts.free_port(), "any"
        self.process = subprocess.Popen([binary, "-m", model, "--host", "127.0.0.1", "--port", str(self.port), "-c", "8192", "-np", "1", *flags],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=10).read()
                return
            except OSError:
                time.sleep(0.1)
        sys.exit("llama-server did not start")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quire")
    parser.add_argument("llama_server")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=100, help="tokens of each answer, in percent")
    options = parser.parse_args()
    servers, rates = {}, {}
    try:
        for method in ("off", "ngram", "suffix"):
            config = json.dumps({"method": method})
            servers[f"Quire, {method}"] = drafts.Server(options.quire, options.model, ["-tp", "1", "--speculative-config", config])
        for kind in ("none", "ngram-simple", "ngram-mod", "ngram-map-k", "ngram-map-k4v", "ngram-cache"):
            servers[f"llama.cpp, {kind}"] = LlamaServer(options.llama_server, options.model, ["--spec-type", kind])
        for turn in range(options.rounds + 1):  # the first turn fills the caches
            for name, server in servers.items():
                body, _ = drafts.edited(("shared", "equal", "alike", "same_part", "matching")[turn % 5], max_tokens=400 * options.tokens // 100, logprobs=False)
                _, tokens, seconds = server.ask([body])
                if turn > 0:
                    rates.setdefault(name, []).append(tokens / seconds)
    finally:
        for server in servers.values():
            server.process.terminate()
            server.process.wait()
    medians = {name: statistics.median(rate) for name, rate in rates.items()}
    best = max(rate for name, rate in medians.items() if name.startswith("Quire"))
    print("| server, method | tokens/s | Quire's best is |\n| --- | ---: | ---: |")
    for name, rate in medians.items():
        print(f"| {name} | {rate:.1f} | {best / rate:.2f} x |")


if __name__ == "__main__":
    main()
