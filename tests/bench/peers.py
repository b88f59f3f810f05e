#!/usr/bin/env python3
"""Quire against its peers, one server at a time, in turns. Writes a table of medians and ranges for each model. By hand, on a
machine that does nothing else.

  tests/bench/peers.py [--rounds 3] [--plot FILE.svg] [--build build] [--llama PATH/llama-server] [--vllm PATH/vllm]
                       [--openvino PYTHON] MODEL...

MODEL: FILE[,quire][,quire OPTION...][,llama.cpp][,vllm DIR OPTION...][,openvino DIR]: the first way is what the others are compared
with; without any, Quire and llama.cpp. All serve FILE through HTTP but vLLM, which serves its own copy in DIR, and OpenVINO
GenAI, which runs its own in process (PYTHON has openvino-genai).

Work: one 512-token prompt and 128 tokens after it; 8 and 32 at once with 128-token prompts and 64 tokens each; 16 at once whose
prompts begin with the same 512 tokens, which nobody has seen before, and go on with 16 of their own, 32 tokens each. Greedy, and
the end of a sequence is ignored. Prompts are numbers of tokens that all take, different ones in every round. What the machine
reads and computes at the most is measured in every round."""
import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
import tempfile
import urllib.request

from bars import chart

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ASKED = {"temperature": 0, "stream": True, "ignore_eos": True}
ROWS = ["start, s", "512-token prompt, first token after, s", "one stream, ms a token", "8 at once, output tokens a second",
        "32 at once, output tokens a second", "32 at once, first token after (median), s", "32 at once, first token after (the last), s",
        "16 with one 512-token prefix, all done after, s", "resident memory, MB"]


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


async def ask(port, prompt, tokens, known):
    """When each piece of text came, in seconds from the request; `known`: llama.cpp may use what it knows of the prompt."""
    body = json.dumps({**ASKED, "prompt": prompt, "max_tokens": tokens, "cache_prompt": known}).encode()
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


def prompts_of(rng, count, prompt_tokens, prefix_tokens=0):
    prefix = [rng.randrange(1000, 20000) for _ in range(prefix_tokens)]
    return [prefix + [rng.randrange(1000, 20000) for _ in range(prompt_tokens)] for _ in range(count)]


async def at_once(port, prompts, tokens, known=False):
    begin = time.monotonic()
    all_times = await asyncio.gather(*(ask(port, prompt, tokens, known) for prompt in prompts))
    return all_times, time.monotonic() - begin


def measure_server(server, rng):
    async def work():
        await at_once(server.port, prompts_of(rng, 1, 16), 8)
        (alone,), _ = await at_once(server.port, prompts_of(rng, 1, 512), 128)
        gaps = [b - a for a, b in zip(alone, alone[1:])]
        _, eight = await at_once(server.port, prompts_of(rng, 8, 128), 64)
        many, all_seconds = await at_once(server.port, prompts_of(rng, 32, 128), 64)
        _, sharing = await at_once(server.port, prompts_of(rng, 16, 16, prefix_tokens=512), 32, known=True)
        first = [times[0] for times in many]
        return [server.started, alone[0], 1000 * statistics.median(gaps), 8 * 64 / eight, 32 * 64 / all_seconds,
                statistics.median(first), max(first), sharing, resident(server.process.pid)]

    return asyncio.run(work())


def measure(o, model, way, seed):
    """The numbers of ROWS."""
    name, *options = way.split()
    if name == "openvino":
        done = subprocess.run([o.openvino, os.path.join(os.path.dirname(os.path.abspath(__file__)), "openvino_run.py"), *options, seed],
                              stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout.splitlines()[-1])
    with quire(o, model, options) if name == "quire" else vllm(o, options[0], options[1:]) if name == "vllm" else llama(o, model) as server:
        return measure_server(server, random.Random(seed))


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
        for i, title in list(enumerate(ROWS))[1:-1]:
            speeds = [statistics.median(values[i] for values in found[model, way]) ** (1 if "a second" in title else -1) for way in ways]
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
    parser.add_argument("--plot", metavar="FILE.svg")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    o = parser.parse_args()
    models = {model.split(",")[0]: model.split(",")[1:] or ["quire", "llama.cpp"] for model in o.models}
    found = {(model, way): [] for model, ways in models.items() for way in ways}
    most = []
    for turn in range(o.rounds):
        most.append(ceilings(o))
        for model, way in found:
            found[model, way].append(measure(o, model, way, f"{turn} {model}"))
            print(model, way, [round(x, 3) for x in found[model, way][-1]], file=sys.stderr, flush=True)
    if o.plot:
        plot(o.plot, models, found)
    print("Ceilings: " + ", ".join(f"{cell(values)} {unit}" for values, unit in zip(zip(*most), ("GB/s read", "GFLOP/s fp32", "int16 GOP/s", "int8 GOP/s"))))
    for model, ways in models.items():
        print(f"\n**{os.path.basename(model)}**, {o.rounds} rounds, medians (and ranges): how much better {ways[0]} is\n")
        print("| | " + " | ".join(" ".join(map(os.path.basename, way.split())) for way in ways) + " |\n" + "| --- " * (len(ways) + 1) + "|")
        for i, title in enumerate(ROWS):
            columns = [[values[i] for values in found[model, way]] for way in ways]
            print(row(title, columns[0], columns[1:]))


if __name__ == "__main__":
    main()
