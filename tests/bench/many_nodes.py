#!/usr/bin/env python3
"""Serves a tiny model on many simulated nodes. A node is a network namespace of this machine with one worker; groups of nodes are replicas of
one server. Measures the start, the traffic and the processor time of an idle server and of a busy one. Also measures the loss of a rack: the
links of many nodes are cut at once, while streams run.

    tests/bench/many_nodes.py [--nodes 64] [--tensor 2] [--pipeline 2] [--rack 16] [--streams 32] [--tokens 200] [--idle 10]
    tests/bench/many_nodes.py --pipeline 64 --tensor 1 --layers 64      # one group over all nodes, with random weights

Needs root and iproute2. Prints a line for each measurement. Fails when a stream's tokens change or a stream ends early."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "e2e"))
import netns
from server import QUIRE, TINY, Server
from stream_client import finish_streams, start_streams

START_SECONDS = 600


def made_up_model(network, layers):
    """Writes the description of a tiny model with this many layers. Its weights are random."""
    folder = os.path.join(network.directory, "model")
    os.mkdir(folder)
    for name in os.listdir(TINY):
        if name.endswith(".json"):
            shutil.copy(os.path.join(TINY, name), folder)
    with open(os.path.join(TINY, "config.json")) as f:
        config = json.load(f)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({**config, "num_hidden_layers": layers}, f)
    return f"{{path: {folder}, load_format: dummy}}"


def write_topology(network, tensor, pipeline, layers):
    nodes = network.nodes
    keys = os.path.join(network.directory, "keys")
    subprocess.run([QUIRE, "keygen", "--transport", keys, "--ranks", str(len(nodes))], check=True, stdout=subprocess.DEVNULL)
    lines = [f"model: {made_up_model(network, layers) if layers else f'{{path: {TINY}}}'}", "backend: cpu", "threads_per_worker: 1",
             f"parallel: {{tensor: {tensor}, pipeline: {pipeline}, replicas: {len(nodes) // (tensor * pipeline)}}}",
             "cache: {memory_bytes: 16MiB}", "nodes:",
             *(f"  - {{host: {node.address}, interface: eth0}}" for node in nodes),
             f"transport: {{bind: {nodes[0].address}, ports: [15570, 15571], mpi_ports: [20000, 40000], keys: {keys}}}",
             f"launch: {{agent: {network.agent}}}"]
    path = os.path.join(network.directory, "topology.yaml")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return path


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid):
    """Returns the memory that only this process has, and its part of the memory that it shares, in MiB."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss:")) / 1024


def bytes_of(network, node):
    """Returns the bytes that a node has sent and received on its link."""
    done = subprocess.run(["nsenter", f"--net=/run/netns/{node.namespace}", "cat", "/proc/net/dev"], capture_output=True, text=True, check=True)
    fields = next(line for line in done.stdout.splitlines() if line.strip().startswith("eth0:")).split(":")[1].split()
    return int(fields[0]) + int(fields[8])


def states(server):
    return [replica["state"] for replica in server.get("/admin/status", admin=True)["replicas"]]


class Report:
    def __init__(self):
        self.begin = time.monotonic()

    def say(self, what):
        print(f"{what} (after {time.monotonic() - self.begin:.1f} s; load {os.getloadavg()[0]:.1f})", flush=True)


def memory_of(server):
    pids = [rank["pid"] for replica in server.get("/admin/status", admin=True)["replicas"] for rank in replica["ranks"]]
    return len(pids), sum(map(resident_mib, pids)) / len(pids), resident_mib(server.process.pid)


def measure_traffic(network, server, seconds):
    before, cpu, begin = [bytes_of(network, node) for node in network.nodes], cpu_seconds(server.process.pid), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begin
    rates = [(after - first) / took for first, after in zip(before, (bytes_of(network, node) for node in network.nodes))]
    return rates[0], sum(rates[1:]) / len(rates[1:]), (cpu_seconds(server.process.pid) - cpu) / took


def wait_for(condition, seconds, server):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, server.text()[-4000:]
        time.sleep(0.1)


def lose_rack(network, server, asked, right, report):
    """Measures the loss of a rack. The rack is the last nodes; the server runs on the first node, which is not lost."""
    rack = network.nodes[-asked.rack:]
    streams = start_streams(server, asked.streams, asked.tokens)
    cut = time.monotonic()
    for node in rack:
        node.link(up=False)
    report.say(f"cut {len(rack)} nodes within {time.monotonic() - cut:.2f} s, with {asked.streams} streams under way")
    groups = len({i // (asked.tensor * asked.pipeline) for i in range(asked.nodes - asked.rack, asked.nodes)})
    wait_for(lambda: len(re.findall("the worker group is lost", server.text())) >= groups, 120, server)
    report.say(f"{groups} groups of workers are known to be lost after {time.monotonic() - cut:.1f} s")
    assert finish_streams(streams) == right, "a stream changed"
    report.say(f"all streams ended {time.monotonic() - cut:.1f} s after the cut, unharmed; states {summary(states(server))}")
    assert finish_streams(start_streams(server, asked.streams, asked.tokens)) == right, "a stream changed"
    report.say(f"as many streams on the rest ended unharmed; states {summary(states(server))}")
    for node in rack:
        node.link(up=True)
    healed = time.monotonic()
    wait_for(lambda: all(state == "serving" for state in states(server)), START_SECONDS, server)
    report.say(f"all replicas serve {time.monotonic() - healed:.1f} s after the links were healed")


def summary(found):
    return ", ".join(f"{found.count(state)} {state}" for state in sorted(set(found)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--tensor", type=int, default=2)
    parser.add_argument("--pipeline", type=int, default=2)
    parser.add_argument("--layers", type=int, default=0, help="0: the golden model with its own")
    parser.add_argument("--rack", type=int, default=16)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--idle", type=float, default=10)
    asked = parser.parse_args()
    report = Report()
    with netns.Network(*(f"n{i}" for i in range(asked.nodes))) as network, network.nodes[0].inside():
        report.say(f"made {asked.nodes} nodes")
        path, begin = write_topology(network, asked.tensor, asked.pipeline, asked.layers), time.monotonic()
        server = Server(path, prefix=network.nodes[0].command(), wait=False)
        try:
            server.wait_until_ready(START_SECONDS)
            report.say(f"the first replica serves {time.monotonic() - begin:.1f} s after the start")
            wait_for(lambda: all(state == "serving" for state in states(server)), START_SECONDS, server)
            report.say(f"all {len(states(server))} replicas serve {time.monotonic() - begin:.1f} s after the start")
            workers, each, coordinator = memory_of(server)
            report.say(f"{workers} workers of {each:.0f} MiB; coordinator {coordinator:.0f} MiB, "
                       f"{len(os.listdir(f'/proc/{server.process.pid}/fd'))} descriptors, "
                       f"{len(os.listdir(f'/proc/{server.process.pid}/task'))} threads")
            leader, node, cpu = measure_traffic(network, server, asked.idle)
            report.say(f"idle: {leader / 1000:.1f} KB/s at the leader, {node / 1000:.2f} KB/s at any other node, coordinator {100 * cpu:.1f} % of a core")
            begin, cpu, sent = time.monotonic(), cpu_seconds(server.process.pid), bytes_of(network, network.nodes[0])
            right = finish_streams(start_streams(server, asked.streams, asked.tokens))
            took = time.monotonic() - begin
            report.say(f"busy: {asked.streams} streams of {asked.tokens} tokens in {took:.1f} s, {asked.streams * asked.tokens / took:.0f} tokens a second; "
                       f"{(bytes_of(network, network.nodes[0]) - sent) / took / 1000:.0f} KB/s at the leader, "
                       f"coordinator {100 * (cpu_seconds(server.process.pid) - cpu) / took:.0f} % of a core")
            lose_rack(network, server, asked, right, report)
            begin = time.monotonic()
            assert server.terminate(300) == 0, server.text()[-4000:]
            report.say(f"ended in order within {time.monotonic() - begin:.1f} s")
        except BaseException:
            print(server.text()[-6000:], file=sys.stderr)
            raise
        finally:
            server.__exit__()


if __name__ == "__main__":
    main()
