#!/usr/bin/env python3
"""Serves a tiny model on two nodes (network namespaces) whose link has faults: packets are late, lost or out of order, or pass in only one
direction or not at all. Every answer must equal the answer of one node. Where the link is cut, prints after how long the loss was found.

    tests/bench/lying_link.py [--shapes 2x1,1x2] [--tokens 200] [--streams 4]

Needs root, iproute2 and /dev/net/tun. A process of its own carries the packets, because not every kernel has tc netem."""
import argparse
import multiprocessing
import os
import random
import select
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "e2e"))
import netns
from pipeline_link import MTU, open_tun, topology
from server import TINY, Server
from stream_client import finish_streams, start_streams

# For each link: Gbit/s, ms one way, share of packets lost, share of packets that arrive later than the next ones.
LINKS = {
    "10 Gbit/s, 0.1 ms": (10, 0.1, 0, 0),
    "1 Gbit/s, 1 ms": (1, 1, 0, 0),
    "10 Mbit/s, 5 ms": (0.01, 5, 0, 0),
    "1 Gbit/s, 20 ms": (1, 20, 0, 0),
    "1 ms, 1 % lost": (1, 1, 0.01, 0),
    "1 ms, 5 % lost": (1, 1, 0.05, 0),
    "1 ms, 10 % out of order": (1, 1, 0, 0.1),
    "5 ms, 2 % lost, 10 % out of order": (1, 5, 0.02, 0.1),
}
# name: whether packets pass from the first node, and from the second one
CUTS = {"both ways": (False, False), "from the leader's node": (False, True), "to the leader's node": (True, False)}
SLOWLY = 5  # a packet that arrives out of order takes this many times the link's delay
PROMISED = 2.0  # seconds in which a loss is found, on a machine that is not busy


def carry(tuns, settings):
    """Carries packets between the two devices. settings: [rate in Gbit/s, delay in ms, fraction of lost packets, fraction of packets that
    arrive late and out of order, then for each device 1 if its packets pass and 0 if not]."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    queues = {tun: [] for tun in tuns}  # for each sending device: (time of arrival in seconds, packet)
    free = dict.fromkeys(tuns, 0.0)
    other = {tuns[0]: tuns[1], tuns[1]: tuns[0]}
    dice = random.Random(5)
    while True:
        now = time.monotonic()
        due = min((queue[0][0] for queue in queues.values() if queue), default=now + 0.2)
        ready = select.select(tuns, [], [], max(0, due - now))[0]
        gbit, ms, lost, late, *passes = settings[:]
        for tun in ready:
            packet, now = os.read(tun, MTU + 100), time.monotonic()
            free[tun] = max(free[tun], now) + len(packet) * 8 / (gbit * 1e9)
            if not passes[tuns.index(tun)] or dice.random() < lost:
                continue
            delay = ms / 1000 * (SLOWLY if dice.random() < late else 1)
            queues[tun].append((free[tun] + delay, packet))
            queues[tun].sort(key=lambda entry: entry[0])
        now = time.monotonic()
        for tun, queue in queues.items():
            while queue and queue[0][0] <= now:
                os.write(other[tun], queue.pop(0)[1])


def loss_found(server, seconds):
    deadline = time.monotonic() + seconds
    while "the worker group is lost" not in server.text():
        assert time.monotonic() < deadline, server.text()
        time.sleep(0.01)


def try_links(server, shape, settings, asked, right):
    for name, link in LINKS.items():
        settings[:] = [*link, 1, 1]
        begin = time.monotonic()
        got = finish_streams(start_streams(server, asked.streams, asked.tokens))
        took = time.monotonic() - begin
        epoch = server.get("/admin/status", admin=True)["epoch"]
        assert got == right, f"{name}: a stream changed"
        print(f"| {shape} | {name} | {asked.streams * asked.tokens / took:.0f} tokens a second, {1000 * took / asked.tokens:.1f} ms a step "
              f"| {epoch - 1} losses of the group so far |", flush=True)
    settings[:] = [1, 0.1, 0, 0, 1, 1]


def try_cut(network, shape, settings, asked, right, name, passes):
    settings[:] = [1, 0.1, 0, 0, 1, 1]
    with Server(topology(network, TINY, *shape), prefix=network.nodes[0].command()) as server:
        streams = start_streams(server, asked.streams, 4 * asked.tokens)
        settings[4:] = [int(way) for way in passes]
        begin = time.monotonic()
        loss_found(server, 60)
        found = time.monotonic() - begin
        assert finish_streams(streams) == right, f"{name}: a stream changed"
        load = os.getloadavg()[0]
        verdict = "as promised" if found <= PROMISED else "later than on an idle machine"
        print(f"| {shape} | cut {name} | found after {found:.1f} s ({verdict}; load {load:.1f}) | streams ended {time.monotonic() - begin:.1f} s after the cut |",
              flush=True)
    settings[4:] = [1, 1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", default="2x1,1x2")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--streams", type=int, default=4)
    asked = parser.parse_args()
    with Server("-tp", "1", "--threads-per-worker", "1", model=TINY) as server:
        right = [finish_streams(start_streams(server, asked.streams, tokens)) for tokens in (asked.tokens, 4 * asked.tokens)]
    with netns.Network("a", "b") as network, network.nodes[0].inside():
        tuns = [open_tun(node) for node in network.nodes]
        settings = multiprocessing.Array("d", [1, 0.1, 0, 0, 1, 1])
        carrier = multiprocessing.get_context("fork").Process(target=carry, args=(tuns, settings), daemon=True)
        carrier.start()
        print("| shape | link | speed, or time to find the loss | |\n| --- | --- | --- | --- |")
        for words in asked.shapes.split(","):
            shape = tuple(int(word) for word in words.split("x"))
            with Server(topology(network, TINY, *shape), prefix=network.nodes[0].command()) as server:
                try_links(server, shape, settings, asked, right[0])
            for name, passes in CUTS.items():
                try_cut(network, shape, settings, asked, right[1], name, passes)


if __name__ == "__main__":
    main()
