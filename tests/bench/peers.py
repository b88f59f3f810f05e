#!/usr/bin/env python3
"""Compares Quire with other engines, one server at a time, alternately. Writes a table of medians and ranges for each model. With --json,
also writes the numbers of every round, how the other engines were built and what failed; plot.py draws charts from this file. Run by hand,
on a machine that does nothing else.

  tests/bench/peers.py [--rounds 3] [--loads alone,2048,4096,8,32,prefix] [--json FILE] [--build build] [--llama PATH/llama-server]
                       [--vllm PATH/vllm] [--openvino PYTHON] MODEL...

MODEL is FILE[,quire][,quire OPTION...][,llama.cpp][,vllm DIR OPTION...][,openvino DIR]. The first engine named is the one with which the
others are compared; if none is named, Quire and llama.cpp run. All engines serve FILE through HTTP, with two exceptions: vLLM serves its
own copy in DIR, and OpenVINO GenAI runs its own copy in DIR without HTTP, in openvino_run.py (PYTHON has openvino-genai).

workloads.py describes the loads. Tokens are counted by the servers' usage. All KV pools hold the same number of tokens. Memory is the
proportional share of resident pages after the loads. If an engine fails, the failure is reported, and the other engines continue. Every
round also measures the most that the machine can read and compute."""
import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
import tempfile
import urllib.request

import workloads

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ASKED = {"temperature": 0, "stream": True, "ignore_eos": True, "stream_options": {"include_usage": True}}
CEILINGS = ("GB/s read", "GFLOP/s fp32", "int16 GOP/s", "int8 GOP/s")


class Failed(Exception):
    """Raised with the reason if an engine cannot be measured."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One server from its start to its end; `started` is the time until it serves."""

    def __init__(self, command, port, ready, env):
        begin = time.monotonic()
        self.port = port
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env={**os.environ, **env})
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=2).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > begin + 600:
                    self.__exit__()
                    raise Failed(f"{os.path.basename(command[0])} does not serve")
                time.sleep(0.02)
        self.started = time.monotonic() - begin

    def __enter__(self):
        return self

    def said(self, word):
        """Returns the first line of the server's output that contains the word; an empty string if there is none."""
        self.log.seek(0)
        return next((line.strip() for line in self.log if word in line), "")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def quire(o, model, options):
    port = free_port()
    command = [os.path.join(o.build, "quire"), "serve", "--model", model, "--port", str(port), "--admin-port", str(free_port()),
               "--num-kv-blocks", str(workloads.POOL_TOKENS // 16)]
    ranks = [] if "-tp" in options else ["-tp", "2"]
    return Server(command + ranks + options, port, "/ready", {})


def llama(o, model):
    port = free_port()
    command = [o.llama, "-m", model, "--port", str(port), "-t", "2", "-c", str(workloads.POOL_TOKENS), "-np", "32", "--kv-unified"]
    return Server(command, port, "/health", {"LD_LIBRARY_PATH": os.path.dirname(o.llama)})


def vllm(o, folder, options):
    port = free_port()
    command = [o.vllm, "serve", folder, "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "8192", "--max-num-seqs", "32"]
    env = {"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_CPU_OMP_THREADS_BIND": "0,1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return Server(command + options, port, "/health", env)


def ceilings(o):
    """Returns the instruction set, and the present ceilings of reading and computing for two ranks of one thread, as CEILINGS
    describes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ceilings.json")
        command = ["mpirun", "-n", "2", "--oversubscribe", os.path.join(o.build, "quire-worker"), "--bench-ceilings", path, "--bench-threads", "1"]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        with open(path) as f:
            found = json.load(f)
    return found["isa"], [found["read_bytes"] / 1e9, found["multiply_add"] / 1e9, found["int16"] / 1e9, found["int8"] / 1e9]


async def ask(port, prompt, tokens):
    """Returns when each piece of text arrived, in seconds after the request."""
    body = json.dumps({**ASKED, "prompt": prompt, "max_tokens": tokens}).encode()
    begin = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
    times, usage = [], {}
    async for line in reader:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        usage = event.get("usage") or usage
        if event.get("choices"):
            times.append(time.monotonic() - begin)
    writer.close()
    # The prompt's tokens are checked, because a server that cut the prompt would look fast.
    if (usage.get("prompt_tokens"), usage.get("completion_tokens")) != (len(prompt), tokens) or not times:
        raise Failed(f"usage {usage} for a prompt of {len(prompt)} and {tokens} tokens")
    return times


def at_once(port, prompts, tokens):
    async def all_of_them():
        begin = time.monotonic()
        times = await asyncio.gather(*(ask(port, prompt, tokens) for prompt in prompts))
        return times, time.monotonic() - begin

    return asyncio.run(all_of_them())


def serve(o, model, name, options):
    if name == "quire":
        return quire(o, model, options)
    if name == "vllm":
        return vllm(o, options[0], options[1:])
    return llama(o, model)


def measure(o, model, way, seed):
    """Returns the measured numbers by title, among them START and MEMORY."""
    name, *options = way.split()
    if name == "openvino":
        run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "openvino_run.py")
        done = subprocess.run([o.openvino, run, *options, seed, *o.loads], stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise Failed(f"exit status {done.returncode}")
        return json.loads(done.stdout.splitlines()[-1])
    with serve(o, model, name, options) as server:
        if name == "llama.cpp":
            o.builds["llama.cpp"] = " | ".join(filter(None, [server.said("build"), server.said("system_info")]))
        found = workloads.measure(lambda prompts, tokens: at_once(server.port, prompts, tokens), o.loads, seed)
        return {workloads.START: server.started, **found, workloads.MEMORY: workloads.resident(server.process.pid)}


def cell(values):
    if not values:
        return "failed"
    middle = statistics.median(values)
    digits = 2 if middle < 10 else 1 if middle < 100 else 0
    return f"{middle:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def row(title, first, others):
    """Returns a row of the table. The cells of the other engines end with the factor by which the first engine is better."""
    def ratio(values):
        if not first or not values:
            return ""
        of_first = statistics.median(first) / statistics.median(values)
        return f": {of_first if 'a second' in title else 1 / of_first:.2f} x"

    return f"| {title} | " + " | ".join([cell(first)] + [cell(values) + ratio(values) for values in others]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--llama", metavar="PATH/llama-server")
    parser.add_argument("--vllm", metavar="PATH/vllm")
    parser.add_argument("--openvino", metavar="PYTHON")
    parser.add_argument("--loads", type=lambda text: text.split(","), default=list(workloads.LOADS))
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    o = parser.parse_args()
    if unknown := set(o.loads) - set(workloads.LOADS):
        parser.error(f"--loads: {', '.join(unknown)}: known are {', '.join(workloads.LOADS)}")
    models = {model.split(",")[0]: model.split(",")[1:] or ["quire", "llama.cpp"] for model in o.models}
    found = {(model, way): [] for model, ways in models.items() for way in ways}
    o.builds, failures, most, rounds = {}, [], [], []
    for turn in range(o.rounds):
        isa, numbers = ceilings(o)
        most.append(numbers)
        for model, way in found:
            case = {"round": turn, "model": os.path.basename(model), "way": " ".join(map(os.path.basename, way.split()))}
            try:
                found[model, way].append(measure(o, model, way, f"{turn} {model}"))
                rounds.append({**case, "found": found[model, way][-1]})
            except (Failed, OSError) as failure:
                failures.append({**case, "failure": str(failure)})
                rounds.append(failures[-1])
            print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f:
            json.dump({"isa": isa, "ceilings": [dict(zip(CEILINGS, values)) for values in most], "builds": o.builds, "rounds": rounds}, f, indent=1)
    print(f"Ceilings ({isa}): " + ", ".join(f"{cell(values)} {unit}" for values, unit in zip(zip(*most), CEILINGS)))
    for name, build in o.builds.items():
        print(f"\n{name}: {build}")
    for model, ways in models.items():
        print(f"\n**{os.path.basename(model)}**, {o.rounds} rounds, medians (and ranges): how much better {ways[0]} is\n")
        print("| | " + " | ".join(" ".join(map(os.path.basename, way.split())) for way in ways) + " |\n" + "| --- " * (len(ways) + 1) + "|")
        for title in next((found[model, way][0] for way in ways if found[model, way]), {}):
            columns = [[numbers[title] for numbers in found[model, way]] for way in ways]
            print(row(title, columns[0], columns[1:]))
    for failure in failures:
        print(f"\nFailed: round {failure['round']}, {failure['model']}, {failure['way']}: {failure['failure']}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
