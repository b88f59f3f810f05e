#!/usr/bin/env python3
"""drafts.py QUIRE MODEL [--draft SMALL] [--ids] [--rounds N] [--flags "..."] [--only WORDS] [--tokens PERCENT]: measures what speculation
gains. Starts a server on MODEL for each method, and sends all servers the same requests in turns. No two turns have the same requests. The
methods are: no drafts, ngram, suffix and auto; with --draft: no drafts, and the draft model SMALL. With --ids the requests are token ids,
for models whose weights mean nothing (--load-format dummy): answers that repeat themselves, and answers that do not. --only runs only the
loads whose names contain WORDS, and --tokens scales the length of the answers (in percent; default 100). Prints a table in Markdown: the
tokens per second without drafts, and for each method the ratio to them (the median of the rounds). From the last round the table also has,
for each method, the number of steps as a share of the steps without drafts, the number of draft tokens, and the number of accepted ones.
Other programs disturb these numbers less than the speeds. Fails unless all answers, with their log-probabilities, are equal."""
import argparse
import concurrent.futures
import json
import os
import re
import shlex
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = os.path.join(ROOT, "coordinator", "core", "schedule", "draft_proposer.cc")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, quire, model, flags):
        self.port, self.admin = free_port(), free_port()
        self.process = subprocess.Popen([quire, "serve", model, "--port", str(self.port), "--admin-port", str(self.admin), *flags],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                self.model = json.load(self.open("/v1/models"))["data"][0]["id"]
                return
            except OSError:
                time.sleep(0.1)
        sys.exit("a server did not start")

    def open(self, path, body=None, admin=False):
        url = f"http://127.0.0.1:{self.admin if admin else self.port}{path}"
        data = None if body is None else json.dumps({"model": self.model, **body}).encode()
        return urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"}), timeout=600)

    def counts(self):
        """Returns the numbers of draft tokens, accepted draft tokens and steps since the server's start."""
        text = self.open("/metrics", admin=True).read().decode()
        steps = json.load(self.open("/admin/status", admin=True))["steps"]
        return [*(sum(float(v) for v in re.findall(rf"vllm:spec_decode_num_{name}_total\{{\S+ (\S+)", text))
                  for name in ("draft_tokens", "accepted_tokens")), steps]

    def ask(self, bodies):
        """Sends all bodies at the same time. Returns their choices, the number of generated tokens and the seconds."""
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            path = "/v1/completions" if "prompt" in bodies[0] else "/v1/chat/completions"
            answers = list(pool.map(lambda body: json.load(self.open(path, body)), bodies))
        seconds = time.monotonic() - begin
        return [a["choices"] for a in answers], sum(a["usage"]["completion_tokens"] for a in answers), seconds


def chat(text, **more):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "logprobs": True, **more}


def edited(name, **more):
    with open(SOURCE, encoding="utf-8") as f:
        code = f.read()
    question = f"```cpp\n{code}\n```\nRepeat this file word for word, with `common` renamed to `{name}`."
    return chat(question, **more), "```cpp\n" + code.replace("common", name) + "\n```"


def predicted(name, **more):
    body, text = edited(name, **more)
    return {**body, "prediction": {"type": "content", "content": text}}


def ids(seed, /, **more):
    """Returns a request whose prompt is the ids of 200 tokens that do not repeat themselves."""
    return {"prompt": [3 + (i * i + 31 * seed + i // 7) % 90 for i in range(200)], "max_tokens": 300, "temperature": 0, "logprobs": 1,
            "ignore_eos": True, "detokenize": False, "return_token_ids": True, **more}


def loads_of_ids():
    """Returns other loads in the form of loads(), for models whose weights mean nothing."""
    repeats = lambda seed: ids(seed, allowed_token_ids=[9, 10, 11])
    varied = lambda seed: ids(seed, temperature=1, seed=seed)
    half = lambda seed: ids(seed, temperature=0.7, seed=seed, allowed_token_ids=[9, 10, 11, 12])
    return {"one stream that repeats itself": lambda turn: [repeats(turn)],
            "one stream that repeats itself in part": lambda turn: [half(turn)],
            "one stream that does not": lambda turn: [varied(turn)],
            "4 streams that repeat themselves": lambda turn: [repeats(4 * turn + i) for i in range(4)],
            "8 streams that do not": lambda turn: [varied(8 * turn + i) for i in range(8)],
            "32 streams that do not": lambda turn: [{**varied(32 * turn + i), "max_tokens": 64} for i in range(32)]}


def loads():
    """Returns, for each load by its name, a function that returns the requests of a turn."""
    facts = {"type": "object", "properties": {"people": {"type": "array", "minItems": 6, "maxItems": 6, "items": {
        "type": "object", "properties": {"first_name": {"type": "string", "maxLength": 12}, "family_name": {"type": "string", "maxLength": 12},
                                         "age": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["first_name", "family_name", "age"]}}}, "required": ["people"]}
    form = {"type": "json_schema", "json_schema": {"name": "people", "schema": facts, "strict": True}}
    names, trades = ["shared", "equal", "alike", "same_part", "matching"], ["painters", "sailors", "bakers", "judges", "pilots"]
    name, trade = lambda turn: names[turn % 5], lambda turn: trades[turn % 5]
    return {"one stream, a file repeated with an edit": lambda turn: [edited(name(turn), max_tokens=400)[0]],
            "the same, and the client predicts it": lambda turn: [predicted(name(turn), max_tokens=400)],
            "one stream, JSON of six people by a schema": lambda turn: [chat(f"List six {trade(turn)}.", max_tokens=400, response_format=form)],
            "one stream, prose": lambda turn: [chat(f"Write a long story about {trade(turn)}.", max_tokens=300)],
            "one stream, prose, and the client predicts something else": lambda turn: [
                {**chat(f"Write a long story about {trade(turn)}.", max_tokens=300), "prediction": {"type": "content", "content": edited("x")[1]}}],
            "4 streams, a file repeated with an edit": lambda turn: [edited(name(turn) + str(i), max_tokens=200)[0] for i in range(4)],
            "one stream, prose at temperature 0.8": lambda turn: [
                {**chat(f"Write a long story about {trade(turn)}.", max_tokens=300), "temperature": 0.8, "top_p": 0.95, "seed": turn}],
            "32 streams, prose": lambda turn: [chat(f"Write a story about {i} {trade(turn)}.", max_tokens=64) for i in range(32)],
            "32 streams, prose, all with a prediction": lambda turn: [
                {**chat(f"Write a story about {i} {trade(turn)}.", max_tokens=64), "prediction": {"type": "content", "content": "Once upon a time"}}
                for i in range(32)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quire")
    parser.add_argument("model")
    parser.add_argument("--draft")
    parser.add_argument("--ids", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flags", default="-tp 1")
    parser.add_argument("--only", default="")
    parser.add_argument("--tokens", type=int, default=100, help="tokens of each answer, in percent")
    options = parser.parse_args()
    flags = shlex.split(options.flags)
    by_model = {"method": "draft_model", "model": options.draft, "num_speculative_tokens": 4}
    configs = [{"method": "off"}, by_model] if options.draft else [{"method": method} for method in ("off", "ngram", "suffix", "auto")]
    servers = [Server(options.quire, options.model, [*flags, "--speculative-config", json.dumps(config)]) for config in configs]
    print("| load | tokens/s without | " + " | ".join(f"{config['method']}, ratio | steps | drafts | right" for config in configs[1:]) + " |")
    print("| --- | ---: |" + " ---: | ---: | ---: | ---: |" * (len(configs) - 1))
    try:
        for name, requests in (loads_of_ids() if options.ids else loads()).items():
            if options.only not in name:
                continue
            rates, counts = [[] for _ in servers], [None for _ in servers]
            for turn in range(options.rounds + 1):  # the first turn fills the caches
                got = []
                for i, server in enumerate(servers):
                    before = server.counts()
                    bodies = [{**body, "max_tokens": body["max_tokens"] * options.tokens // 100} for body in requests(turn)]
                    choices, tokens, seconds = server.ask(bodies)
                    got.append(choices)
                    counts[i] = [now - then for now, then in zip(server.counts(), before)]
                    if turn > 0:
                        rates[i].append(tokens / seconds)
                if any(other != got[0] for other in got):
                    sys.exit(f"{name}: the answers differ")
            plain = statistics.median(rates[0])
            cells = " | ".join(f"{statistics.median(r / p for r, p in zip(rate, rates[0])):.2f} | {steps / counts[0][2]:.2f} | {drafts:.0f} | {right:.0f}"
                               for rate, (drafts, right, steps) in list(zip(rates, counts))[1:])
            print(f"| {name} | {plain:.1f} | {cells} |", flush=True)
    finally:
        for server in servers:
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    main()
