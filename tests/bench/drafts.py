#!/usr/bin/env python3
"""drafts.py QUIRE MODEL [--rounds N] [--flags "..."]: measures what speculation gains. Starts two servers on MODEL, with and without drafts,
and sends both the same requests in turns. Prints a table in Markdown: tokens a second of both, their ratio, drafts and right drafts.
Fails unless all answers, with their log-probabilities, are equal."""
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
        text = self.open("/metrics", admin=True).read().decode()
        return [sum(float(v) for v in re.findall(rf"vllm:spec_decode_num_{name}_total\{{\S+ (\S+)", text))
                for name in ("draft_tokens", "accepted_tokens")]

    def ask(self, bodies):
        """Sends all bodies at once. Returns their choices, the generated tokens and the seconds."""
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            answers = list(pool.map(lambda body: json.load(self.open("/v1/chat/completions", body)), bodies))
        seconds = time.monotonic() - begin
        return [a["choices"] for a in answers], sum(a["usage"]["completion_tokens"] for a in answers), seconds


def chat(text, **more):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "logprobs": True, **more}


def loads():
    with open(SOURCE, encoding="utf-8") as f:
        code = f.read()
    edit = "Repeat this file word for word, with `common` renamed to `shared`:\n```cpp\n" + code + "\n```"
    facts = {"type": "object", "properties": {"people": {"type": "array", "minItems": 6, "maxItems": 6, "items": {
        "type": "object", "properties": {"first_name": {"type": "string", "maxLength": 12}, "family_name": {"type": "string", "maxLength": 12},
                                         "age": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["first_name", "family_name", "age"]}}}, "required": ["people"]}
    form = {"type": "json_schema", "json_schema": {"name": "people", "schema": facts, "strict": True}}
    return {"one stream, a file repeated with an edit": [chat(edit, max_tokens=400)],
            "one stream, JSON of six people by a schema": [chat("List six people.", max_tokens=400, response_format=form)],
            "one stream, prose": [chat("Write a long story about a lighthouse keeper.", max_tokens=300)],
            "one stream, prose at temperature 0.8": [chat("Write a poem about the sea.", max_tokens=300, temperature=0.8, seed=4)],
            "4 streams, a file repeated with an edit": [chat(edit + "\n" * i, max_tokens=200) for i in range(4)],
            "32 streams, prose": [chat(f"Write a story about the number {i}.", max_tokens=64) for i in range(32)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quire")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flags", default="-tp 1")
    parser.add_argument("--config", default='{"method": "ngram"}')
    options = parser.parse_args()
    flags = shlex.split(options.flags)
    servers = [Server(options.quire, options.model, flags), Server(options.quire, options.model, [*flags, "--speculative-config", options.config])]
    try:
        print("| load | without, tokens/s | with, tokens/s | ratio | drafts | right |\n| --- | ---: | ---: | ---: | ---: | ---: |")
        for name, bodies in loads().items():
            rates, before = ([], []), None
            for turn in range(options.rounds + 1):  # the first one fills the caches
                got = []
                for server, rate in zip(servers, rates):
                    before = server.counts()
                    choices, tokens, seconds = server.ask(bodies)
                    got.append(choices)
                    if turn > 0:
                        rate.append(tokens / seconds)
                if got[0] != got[1]:
                    sys.exit(f"{name}: the answers differ")
            drafts, right = (now - then for now, then in zip(servers[1].counts(), before))
            plain, drafted = (statistics.median(rate) for rate in rates)
            print(f"| {name} | {plain:.1f} | {drafted:.1f} | {drafted / plain:.2f} | {drafts:.0f} | {right:.0f} |", flush=True)
    finally:
        for server in servers:
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    main()
