#!/usr/bin/env python3
"""Kills (and now and then stops) a random worker again and again while streams run, and demands that every stream equals
the fault-free one and that no block leaks. By hand: kill_storm.py KILLS [SEED]; ctest runs the short cases of
faults_test.py."""
import os
import random
import signal
import sys
import time

from server import TINY, Server
from stream_client import stream_in_background, text_of

STREAMS = 8


def main():
    kills, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = random.Random(seed)
    pauses = []
    with Server("-tp", "2", model=TINY) as server:
        thread, fault_free = stream_in_background(server)
        thread.join(timeout=60)
        while len(pauses) < kills:
            streams = [stream_in_background(server) for _ in range(STREAMS)]
            while any(thread.is_alive() for thread, _ in streams) and len(pauses) < kills:
                status = server.get("/admin/status", admin=True)
                begin = time.monotonic()
                how = signal.SIGSTOP if rng.random() < 0.1 else signal.SIGKILL
                os.kill(rng.choice(status["ranks"])["pid"], how)
                while server.get("/admin/status", admin=True)["epoch"] == status["epoch"]:
                    time.sleep(0.01)
                pauses.append(time.monotonic() - begin)
                time.sleep(rng.random() * 0.3)
            for thread, lines in streams:
                thread.join(timeout=60)
                if thread.is_alive() or text_of(lines) != text_of(fault_free):
                    sys.exit("a stream hangs or differs")
        blocks = server.get("/admin/status", admin=True)["blocks"]["device"]
        if blocks["free"] != blocks["total"]:
            sys.exit(f"blocks leak: {blocks}")
    pauses.sort()
    print(f"{kills} workers lost, seed {seed}: every stream equals the fault-free one; from the signal to the next epoch: "
          f"median {pauses[len(pauses) // 2]:.2f} s, at most {pauses[-1]:.2f} s")


if __name__ == "__main__":
    main()
