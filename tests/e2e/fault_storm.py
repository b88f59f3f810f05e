#!/usr/bin/env python3
"""Hits a serving group again and again while streams run. Every stream must equal the fault-free one, and nothing may leak: no
block, no process, no file in shared memory. Run it by hand; ctest runs the short cases of faults_test.py and operations_test.py.

  fault_storm.py KIND COUNT [--streams 32] [--tokens 1500] [--seed 1] [--ranks 2]
    kill     SIGKILL for a random worker        stop     SIGSTOP for a random worker
    mpirun   SIGKILL for mpirun                 reshard  another number of workers: 1, 2, 3, 1, ...
    link     the second of two nodes (netns.py) is cut off for 1 to 10 seconds
  fault_storm.py frames SECONDS [--rate 0.01]   frames lost, repeated, delayed, damaged (frame_faults.py)"""
import argparse
import os
import random
import signal
import sys
import threading
import time

from server import TINY, Server, wait_gone
from stream_client import stream_in_background, text_of

PROMPTS = [[5, 6, 7], [9, 3], [4] * 40, [8, 1, 2, 3, 4, 5, 6, 7], [11] * 100, [2, 9, 2, 9]]

def bodies(count):
    """Returns requests with different prompts and sampling settings; request i is the same in every round."""
    for i in range(count):
        sampled = {"temperature": 0.8, "seed": i, "top_p": 0.9} if i % 3 == 2 else {}
        yield {"prompt": PROMPTS[i % len(PROMPTS)], **sampled}


def parent(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


class Storm:
    def __init__(self, server, o, rng):
        self.server, self.rng, self.tokens = server, rng, o.tokens
        self.bodies = list(bodies(o.streams))
        self.last_line, self.longest_gap = time.monotonic(), 0
        self.stalls = []
        self.rounds = 0
        self.expected = [self.run_one(body) for body in self.bodies]

    def run_one(self, body):
        thread, lines = stream_in_background(self.server, self.tokens, body=body)
        thread.join(timeout=120)
        return text_of(lines)

    def note_line(self):
        now = time.monotonic()
        self.longest_gap = max(self.longest_gap, now - self.last_line)
        self.last_line = now

    def status(self):
        return self.server.get("/admin/status", admin=True)

    def hit(self, strike):
        """Calls strike(), and waits until tokens flow again. Returns the longest time without a token in any stream. If the fault may cause
        no new epoch, strike() returns the seconds to wait."""
        before = self.status()
        pids = [rank["pid"] for rank in before["ranks"]]
        begin = self.last_line = time.monotonic()
        self.longest_gap = 0
        patience = strike(before) or 120
        while self.status()["epoch"] == before["epoch"] and time.monotonic() < begin + patience:
            time.sleep(0.01)
        if time.monotonic() > begin + 120:
            sys.exit("no epoch followed")
        ready = time.monotonic()
        while self.last_line < ready and any(thread.is_alive() for thread, _ in self.streams) and time.monotonic() < ready + 30:
            time.sleep(0.005)
        self.stalls.append(self.longest_gap)
        left = wait_gone(pids, 7) if self.status()["epoch"] != before["epoch"] else []
        if left:
            sys.exit(f"workers {left} of epoch {before['epoch']} live on")

    def run(self, more, strike):
        while more():
            self.rounds += 1
            self.streams = [stream_in_background(self.server, self.tokens, body=body, on_line=self.note_line) for body in self.bodies]
            while more() and any(thread.is_alive() for thread, _ in self.streams):
                time.sleep(self.rng.random() * 0.5)
                if strike:
                    self.hit(strike)
            for (thread, lines), expected in zip(self.streams, self.expected):
                thread.join(timeout=120)
                if thread.is_alive() or text_of(lines) != expected:
                    sys.exit("a stream hangs or differs")
        blocks = self.status()["blocks"]["device"]
        if blocks["free"] != blocks["total"]:
            sys.exit(f"blocks leak: {blocks}")

    def report(self, what):
        stalls = sorted(self.stalls)
        percentile = lambda p: stalls[min(len(stalls) - 1, int(p * len(stalls)))]
        print(f"{what}: {self.rounds * len(self.bodies)} streams of {self.tokens} tokens, {len(self.bodies)} at once, each equal to the "
              f"fault-free one; without a token: median {percentile(0.5):.2f} s, p99 {percentile(0.99):.2f} s, "
              f"at most {stalls[-1]:.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["kill", "stop", "mpirun", "reshard", "link", "frames"])
    parser.add_argument("count", type=int)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rate", type=float, default=0.01)
    o = parser.parse_args()
    rng = random.Random(o.seed)
    shared_before = set(os.listdir("/dev/shm"))
    if o.kind == "frames":
        storm_of_frames(o, rng)
    elif o.kind == "link":
        storm_of_links(o, rng)
    else:
        with Server("-tp", "1" if o.kind == "reshard" else str(o.ranks), model=TINY) as server:
            storm = Storm(server, o, rng)
            sizes = [2, 3, 1]

            def strike(status):
                if o.kind == "reshard":
                    code, answer = server.post("/admin/reshard", {"tensor": sizes[len(storm.stalls) % 3]}, admin=True)
                    if code != 200:
                        sys.exit(f"re-sharding failed: {answer}")
                    return
                victim = rng.choice(status["ranks"])["pid"]
                if o.kind == "mpirun":
                    victim = parent(victim)
                os.kill(victim, signal.SIGSTOP if o.kind == "stop" else signal.SIGKILL)

            storm.run(lambda: len(storm.stalls) < o.count, strike)
            storm.report(f"{o.kind} x {len(storm.stalls)}, seed {o.seed}")
    if left := set(os.listdir("/dev/shm")) - shared_before:
        sys.exit(f"left in /dev/shm: {left}")


def storm_of_links(o, rng):
    import netns
    from multi_node_test import serve, write_topology
    with netns.Network("a", "b") as network, network.nodes[0].inside():
        with serve(network, write_topology(network, tensor=2)) as server:
            storm = Storm(server, o, rng)

            healing = []

            def cut(status):
                for timer in healing:
                    timer.join()
                if network["b"].address not in [rank["host"] for rank in status["ranks"]]:  # the host was left out; the operator brings it back
                    code, answer = server.post("/admin/reshard", {"tensor": 2}, admin=True)
                    if code != 200:
                        sys.exit(f"b does not come back: {answer}")
                    returns.append(1)
                    return None
                seconds = rng.choice([1, 3, 10])
                network["b"].link(False)
                healing.append(threading.Timer(seconds, network["b"].link, [True]))
                healing[-1].start()
                cuts.append(seconds)
                return 4  # a second without the link may have no effect

            cuts, returns = [], []
            storm.run(lambda: len(cuts) < o.count, cut)
            for timer in healing:
                timer.join()
            storm.report(f"link x {len(cuts)} and {len(returns)} returns of the node, seed {o.seed}")


def storm_of_frames(o, rng):
    import tempfile

    from frame_faults import FrameFaults
    with tempfile.TemporaryDirectory() as directory, FrameFaults(directory, o.rate, o.seed) as faults:
        with Server("-tp", str(o.ranks), model=TINY, env=faults.env()) as server:
            storm = Storm(server, o, rng)
            faults.active.set()
            end = time.monotonic() + o.count
            seen = {}

            def more():
                for loss in storm.status()["losses"]:
                    if loss["stall_seconds"] is not None:
                        seen[loss["epoch"]] = loss["stall_seconds"]
                if time.monotonic() >= end:
                    faults.active.clear()
                return time.monotonic() < end

            storm.run(more, None)
            storm.stalls = list(seen.values())
            storm.report(f"frames at {o.rate:.1%} for {o.count} s, seed {o.seed}: {faults.counts}; {len(seen)} groups lost, "
                         "stalls from the detection on")


if __name__ == "__main__":
    main()
