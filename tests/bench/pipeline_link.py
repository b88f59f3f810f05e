#!/usr/bin/env python3
"""Compares tensor and pipeline parallelism over a slow link: two nodes (network namespaces) joined by a link with a rate and a
delay. Prints a row for each shape and number of streams: the median speed over rounds in which the shapes take turns, and the
speed that `quire plan` predicted. `quire plan` measures the link anew before the first round and after every round.

    tests/bench/pipeline_link.py MODEL [--gbit 1] [--delay-ms 1] [--rounds 5] [--tokens 24] [--streams 1,32] [--launch-args WORDS]

Needs root, iproute2 and /dev/net/tun. Each packet is delayed on its way to the other node. A separate process carries the packets, because
not every kernel has tc netem; it has precedence over other processes. Nodes share this machine's cores, with one thread for each worker."""
import argparse
import collections
import concurrent.futures
import contextlib
import fcntl
import json
import multiprocessing
import os
import select
import statistics
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "e2e"))
import netns
from server import QUIRE, Server

SHAPES = {"one node, -tp 1": (1, 1), "two nodes, -tp 2": (2, 1), "two nodes, -pp 2": (1, 2)}


MTU = 60_000  # bytes; large, as if the network card cut long segments


def open_tun(node):
    """Gives the node's address to a device whose packets this process carries."""
    with node.inside():
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH", b"slow0", 0x0001 | 0x1000))  # TUNSETIFF: IFF_TUN, IFF_NO_PI
    netns.ip("address", "del", node.address + "/24", "dev", "eth0", inside=node.namespace)
    netns.ip("address", "add", node.address + "/24", "dev", "slow0", inside=node.namespace)
    netns.ip("link", "set", "slow0", "mtu", str(MTU), "txqueuelen", "1000", "up", inside=node.namespace)
    return tun


def carry(tuns, gbit, delay):
    """Carries packets between two devices. Each direction sends at most `gbit` Gbit/s, and each packet arrives `delay` seconds after it
    was sent."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    queues = {tun: collections.deque() for tun in tuns}  # for each sending device: (time of arrival in seconds, packet)
    free = dict.fromkeys(tuns, 0.0)  # the time in seconds at which each device has sent its last packet
    other = {tuns[0]: tuns[1], tuns[1]: tuns[0]}
    while True:
        now = time.monotonic()
        due = min((queue[0][0] for queue in queues.values() if queue), default=now + 1)
        for tun in select.select(tuns, [], [], max(0, due - now))[0]:
            packet, now = os.read(tun, MTU + 100), time.monotonic()
            free[tun] = max(free[tun], now) + len(packet) * 8 / (gbit * 1e9)
            queues[tun].append((free[tun] + delay, packet))
        now = time.monotonic()
        for tun, queue in queues.items():
            while queue and queue[0][0] <= now:
                os.write(other[tun], queue.popleft()[1])


def topology(network, model, tensor, pipeline, launch_args=()):
    """Writes a topology and returns its path. Each shape has its own ports."""
    nodes, first = network.nodes[:tensor * pipeline], 20_000 + 1000 * (10 * tensor + pipeline)
    lines = [f"model: {{path: {model}}}", "backend: cpu", "threads_per_worker: 1", f"parallel: {{tensor: {tensor}, pipeline: {pipeline}}}",
             "cache: {num_blocks: 400}", "speculation: {method: 'off'}", "nodes:", *(f"  - {{host: {node.address}, interface: slow0}}" for node in nodes),
             f"transport: {{bind: {network.nodes[0].address}, ports: [{first}, {first + 1}], mpi_ports: [{first + 10}, {first + 900}], insecure: true}}",
             f"launch: {{agent: {network.agent}, args: {json.dumps(list(launch_args))}}}"]
    path = os.path.join(network.directory, f"{tensor}.{pipeline}.yaml")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return path


def predict(network, path, streams):
    """Returns the tokens per second that `quire plan` predicts, by shape and number of streams."""
    command = network.nodes[0].command(QUIRE, "plan", path, "--best", "--json", "--streams", *map(str, streams))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cuts = json.loads(done.stdout)["cuts"]
    print(json.dumps(cuts["cuts"]), *cuts["take"], sep="\n", file=sys.stderr, flush=True)
    names = {(2, 1, False): "two nodes, -tp 2", (1, 2, False): "two nodes, -pp 2", (1, 1, True): "one node, -tp 1"}
    return {(names[cut["tensor"], cut["pipeline"], cut["one_host"]], cut["streams"]): cut["tokens_a_second"] for cut in cuts["cuts"]}


def measure(server, streams, tokens):
    """Returns the tokens per second of this many concurrent streams. The time includes that of the prompts, of 4 tokens each."""
    def ask(i):
        status, answer = server.post("/v1/completions", {"prompt": [50 + i, 60, 70, 80], "max_tokens": tokens, "temperature": 0, "ignore_eos": True}, timeout=600)
        assert status == 200, answer

    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        begin = time.monotonic()
        list(pool.map(ask, range(streams)))
        return streams * tokens / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--gbit", type=float, default=1)
    parser.add_argument("--delay-ms", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--launch-args", default="", help="further words for mpirun")
    parser.add_argument("--streams", default="1,32")
    asked = parser.parse_args()
    streams = [int(count) for count in asked.streams.split(",")]
    results, predicted = {}, {}
    with netns.Network("a", "b") as network, network.nodes[0].inside():
        tuns = [open_tun(node) for node in network.nodes]
        carrier = multiprocessing.get_context("fork").Process(target=carry, args=(tuns, asked.gbit, asked.delay_ms / 1000), daemon=True)
        carrier.start()
        with contextlib.ExitStack() as servers:
            running = {name: servers.enter_context(Server(topology(network, asked.model, *shape, asked.launch_args.split()), prefix=network.nodes[0].command()))
                       for name, shape in SHAPES.items()}
            for server in running.values():
                measure(server, max(streams), 4)  # a warm-up: opens connections, touches memory and makes the first all-reduces
            path = topology(network, asked.model, 2, 1, asked.launch_args.split())
            with open(path) as f:
                text = f.read()
            with open(path := path + ".plan.yaml", "w") as f:  # with other ports than the running server of this shape
                f.write(text.replace("[41010, 41900]", "[51010, 51900]"))
            plans = [predict(network, path, streams)]
            for _ in range(asked.rounds):
                for name, server in running.items():
                    for count in streams:
                        results.setdefault((name, count), []).append(measure(server, count, asked.tokens))
                        print(f"{name}, {count} streams: {results[name, count][-1]:.1f} tokens a second", file=sys.stderr, flush=True)
                plans.append(predict(network, path, streams))
                for case in plans[0]:
                    predicted.setdefault(case, []).append(statistics.mean(plan[case] for plan in plans[-2:]))
    print("| shape | streams | tokens a second: median (range) | ms a step | predicted | predicted / measured (range) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for count in streams:
        for name in SHAPES:
            rates = results[name, count]
            median = statistics.median(rates)
            ratios = [plan / rate for plan, rate in zip(predicted[name, count], rates)]
            print(f"| {name} | {count} | {median:.1f} ({min(rates):.1f} to {max(rates):.1f}) | {1000 * count / median:.1f} "
                  f"| {statistics.median(predicted[name, count]):.1f} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")


if __name__ == "__main__":
    main()
