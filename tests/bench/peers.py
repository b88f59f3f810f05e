#!/usr/bin/env python3
"""Quire against its peers, one server at a time, in turns. Writes a table of medians and ranges for each model. By hand, on a
machine that does nothing else.

  tests/bench/peers.py [--rounds 3] [--loads alone,8,32,prefix] [--plot FILE.svg] [--build build] [--llama PATH/llama-server]
                       [--vllm PATH/vllm] [--openvino PYTHON] MODEL...

MODEL: FILE[,quire][,quire OPTION...][,llama.cpp][,vllm DIR OPTION...][,openvino DIR]: the first way is what the others are compared
with; without any, Quire and llama.cpp. All serve FILE through HTTP but vLLM, which serves its own copy in DIR, and OpenVINO
GenAI, which runs its own in process (PYTHON has openvino-genai).

The loads are described in workloads.py. What the machine reads and computes at the most is measured in every round."""
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
from bars import chart

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ASKED = {"temperature": 0, "stream": True, "ignore_eos": True}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def resident(pid):
    """MB of a process and all that it started."""
    total, pids = 0, [pid]
    while pids:
        pid = pids.pop()
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                total += int(next(line for line in f if line.startswith("Pss:")).split()[1])
            with open(f"/proc/{pid}/task/{pid}/children") as f:
                pids += map(int, f.read().split())
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total / 1000


class Server:
    """One server from its start to its end; `started` is the time until it serves."""

    def __init__(self, command, port, ready, env):
        begin = time.monotonic()
        self.port = port
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, **env})
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=2).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > begin + 600:
                    sys.exit(f"{command[0]} does not serve")
                time.sleep(0.02)
        self.started = time.monotonic() - begin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def quire(o, model, options):
    port = free_port()
    command = [os.path.join(o.build, "quire"), "serve", "--model", model, "--port", str(port), "--admin-port", str(free_port()), "-tp", "2"]
    return Server(command + options, port, "/ready", {})


def llama(o, model):
    port = free_port()
    command = [o.llama, "-m", model, "--port", str(port), "-t", "2", "-c", "65536", "-np", "32"]
    return Server(command, port, "/health", {"LD_LIBRARY_PATH": os.path.dirname(o.llama)})


def vllm(o, folder, options):
    port = free_port()
    command = [o.vllm, "serve", folder, "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "2048", "--max-num-seqs", "32"]
    env = {"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_CPU_OMP_THREADS_BIND": "0,1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return Server(command + options, port, "/health", env)


def ceilings(o):
    """What two ranks of one thread read and compute at the most, now."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ceilings.json")
        command = ["mpirun", "-n", "2", "--oversubscribe", os.path.join(o.build, "quire-worker"), "--bench-ceilings", path, "--bench-threads", "1"]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        with open(path) as f:
            found = json.load(f)
    return [found["read_bytes"] / 1e9, found["multiply_add"] / 1e9, found["int16"] / 1e9, found["int8"] / 1e9]


async def ask(port, prompt, tokens):
    """When each piece of text came, in seconds from the request on."""
    body = json.dumps({**ASKED, "prompt": prompt, "max_tokens": tokens}).encode()
    begin = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
    times = []
    async for line in reader:
        if line.startswith(b"data: {"):
            times.append(time.monotonic() - begin)
    writer.close()
    if len(times) < tokens // 2:
        sys.exit(f"{len(times)} pieces of text for {tokens} tokens")
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
    """Numbers by title, START and MEMORY among them."""
    name, *options = way.split()
    if name == "openvino":
        run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "openvino_run.py")
        done = subprocess.run([o.openvino, run, *options, seed, *o.loads], stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout.splitlines()[-1])
    with serve(o, model, name, options) as server:
        found = workloads.measure(lambda prompts, tokens: at_once(server.port, prompts, tokens), o.loads, seed)
        return {workloads.START: server.started, **found, workloads.MEMORY: resident(server.process.pid)}


def cell(values):
    middle = statistics.median(values)
    digits = 2 if middle < 10 else 1 if middle < 100 else 0
    return f"{middle:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def row(title, first, others):
    """The others' cells end with how much better the first is."""
    def ratio(values):
        of_first = statistics.median(first) / statistics.median(values)
        return of_first if "a second" in title else 1 / of_first

    return f"| {title} | " + " | ".join([cell(first)] + [f"{cell(values)}: {ratio(values):.2f} x" for values in others]) + " |"


def plot(path, models, found):
    """Speeds against the last way's, medians; start and memory are left to the table."""
    panels = []
    for model, ways in models.items():
        groups = []
        for title in list(found[model, ways[0]][0])[1:-1]:
            speeds = [statistics.median(numbers[title] for numbers in found[model, way]) ** (1 if "a second" in title else -1) for way in ways]
            label = title.split(",")[0] + (", last first token" if "the last" in title else ", first token" if "first token" in title else "")
            groups.append((label, [speed / speeds[-1] for speed in speeds]))
        panels.append((os.path.basename(model), groups, [" ".join(map(os.path.basename, way.split())) for way in ways]))
    with open(path, "w") as f:
        f.write(chart("Speed, the last of each group = 1 (longer is faster)", panels))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--llama", metavar="PATH/llama-server")
    parser.add_argument("--vllm", metavar="PATH/vllm")
    parser.add_argument("--openvino", metavar="PYTHON")
    parser.add_argument("--loads", type=lambda text: text.split(","), default=list(workloads.LOADS))
    parser.add_argument("--plot", metavar="FILE.svg")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    o = parser.parse_args()
    if unknown := set(o.loads) - set(workloads.LOADS):
        parser.error(f"--loads: {', '.join(unknown)}: known are {', '.join(workloads.LOADS)}")
    models = {model.split(",")[0]: model.split(",")[1:] or ["quire", "llama.cpp"] for model in o.models}
    found = {(model, way): [] for model, ways in models.items() for way in ways}
    most = []
    for turn in range(o.rounds):
        most.append(ceilings(o))
        for model, way in found:
            found[model, way].append(measure(o, model, way, f"{turn} {model}"))
            print(model, way, [round(x, 3) for x in found[model, way][-1].values()], file=sys.stderr, flush=True)
    if o.plot:
        plot(o.plot, models, found)
    print("Ceilings: " + ", ".join(f"{cell(values)} {unit}" for values, unit in zip(zip(*most), ("GB/s read", "GFLOP/s fp32", "int16 GOP/s", "int8 GOP/s"))))
    for model, ways in models.items():
        print(f"\n**{os.path.basename(model)}**, {o.rounds} rounds, medians (and ranges): how much better {ways[0]} is\n")
        print("| | " + " | ".join(" ".join(map(os.path.basename, way.split())) for way in ways) + " |\n" + "| --- " * (len(ways) + 1) + "|")
        for title in found[model, ways[0]][0]:
            columns = [[numbers[title] for numbers in found[model, way]] for way in ways]
            print(row(title, columns[0], columns[1:]))


if __name__ == "__main__":
    main()
