#!/usr/bin/env python3
"""Runs users of all kinds for a given time, while a random worker is killed again and again. At the end the coordinator's memory must not
have grown, its number of open files must be that of the beginning, and every block must be free. Run it by hand.

  soak.py [--minutes 30] [--users 12] [--kill-every 20] [--ranks 2] [--seed 1] [--model FILE]

Users stream to the end, hang up half-way, ask for several answers, send requests that are refused, and share prefixes. An answer
other than 200, 400, 404 or 429 ends the run."""
import argparse
import collections
import http.client
import json
import os
import random
import signal
import statistics
import sys
import threading
import time

from server import TINY, Server, wait_gone

WELCOME = {200, 400, 404, 429}
PREFIXES = [[k] * 64 for k in range(1, 5)]


def usage(pid):
    """Returns (resident MB, open files) of a process."""
    with open(f"/proc/{pid}/statm") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return resident, len(os.listdir(f"/proc/{pid}/fd"))


def slope(points):
    """Returns the growth in MB per ten minutes, by least squares over pairs (seconds, MB)."""
    return 600 * statistics.linear_regression(*zip(*points)).slope


class Users:
    def __init__(self, server, o):
        self.server, self.answers, self.failures = server, collections.Counter(), []
        self.end = threading.Event()
        self.threads = [threading.Thread(target=self.live, args=(random.Random(o.seed * 1000 + i),)) for i in range(o.users)]

    def live(self, rng):
        while not self.end.is_set():
            try:
                status = rng.choice([self.stream, self.stream, self.hang_up, self.several, self.nonsense])(rng)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.failures.append(repr(error))
                continue
            self.answers[status] += 1
            if status not in WELCOME:
                self.failures.append(f"status {status}")

    def prompt(self, rng):
        return (rng.choice(PREFIXES) if rng.random() < 0.5 else []) + [rng.randrange(1, 100) for _ in range(rng.randrange(1, 60))]

    def open(self, body, path="/v1/completions"):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def stream(self, rng, lines=None):
        body = {"prompt": self.prompt(rng), "max_tokens": rng.randrange(1, 200), "stream": True, "ignore_eos": True,
                "temperature": rng.choice([0, 0.8]), "seed": rng.randrange(99)}
        connection, response = self.open(body)
        done = False
        for line in response:
            done = done or line.startswith(b"data: [DONE]")
            if lines is not None and (lines := lines - 1) < 0:
                break
        connection.close()
        if response.status == 200 and lines is None and not done:
            raise ValueError("a stream ended before its end")
        return response.status

    def hang_up(self, rng):
        return self.stream(rng, lines=rng.randrange(20))

    def several(self, rng):
        connection, response = self.open({"prompt": self.prompt(rng), "max_tokens": rng.randrange(1, 40), "n": 3, "temperature": 1, "logprobs": 2})
        response.read()
        connection.close()
        return response.status

    def nonsense(self, rng):
        path, body = rng.choice([("/v1/completions", b"{"), ("/v1/completions", {"prompt": [1] * 100000}), ("/v1/nothing", {}),
                                 ("/v1/completions", {"prompt": [1], "max_tokens": -2}), ("/v1/chat/completions", {"messages": 7})])
        connection, response = self.open(body, path)
        response.read()
        connection.close()
        return response.status

    def run(self, seconds, each_second):
        for thread in self.threads:
            thread.start()
        begin = time.monotonic()
        while (now := time.monotonic() - begin) < seconds and not self.failures:
            each_second(now)
            time.sleep(1)
        self.end.set()
        for thread in self.threads:
            thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--users", type=int, default=12)
    parser.add_argument("--kill-every", type=float, default=20, metavar="SECONDS")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default=TINY)
    o = parser.parse_args()
    rng, points, kills = random.Random(o.seed), [], []
    with Server("-tp", str(o.ranks), "--num-kv-blocks", "200", model=o.model) as server:
        users = Users(server, o)
        _, files_before = usage(server.process.pid)

        def each_second(now):
            points.append((now, usage(server.process.pid)[0]))
            if now > (len(kills) + 1) * o.kill_every:
                kills.append(rng.choice(server.worker_pids() or [0]))
                if kills[-1]:
                    os.kill(kills[-1], signal.SIGKILL)

        users.run(60 * o.minutes, each_second)
        wait_gone(kills, 10)
        server.wait_until_ready()
        time.sleep(3)
        status = server.get("/admin/status", admin=True)
        resident, files = usage(server.process.pid)
        blocks = status["blocks"]["device"]
    later = points[len(points) // 3 :]
    print(f"{o.minutes:g} minutes, {o.users} users, {len(kills)} workers killed, answers {dict(sorted(users.answers.items()))}\n"
          f"coordinator: {points[0][1]:.1f} MB at first, {later[0][1]:.1f} MB after a third, {resident:.1f} MB in the end, "
          f"{slope(later):+.2f} MB in ten minutes; {files_before} files at first, {files} in the end\n"
          f"blocks: {blocks['free']} of {blocks['total']} free")
    wrong = users.failures[:3]
    wrong += ["files leak"] * (files > files_before) + ["blocks leak"] * (blocks["free"] != blocks["total"])
    wrong += ["memory grows"] * (o.minutes >= 10 and slope(later) > 1)
    sys.exit("; ".join(wrong) or 0)


if __name__ == "__main__":
    main()
