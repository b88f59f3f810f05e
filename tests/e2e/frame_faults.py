"""Puts a proxy between a coordinator and its workers, on the data connection. While `active` is set, the proxy loses, repeats, delays
or damages plans and results at random, from a seed. A wrapper of mpirun makes every worker connect to the proxy, not to the coordinator.

    with FrameFaults(directory, rate, seed) as faults:
        Server(..., env=faults.env())

The proxy runs in threads of the test's process and has ZeroMQ's sockets of both sides: a ROUTER for the workers, and for each worker
a DEALER with the worker's own identity for the coordinator."""
import os
import random
import threading
import time

import zmq

KINDS = {9: "plan", 10: "result"}  # comm/PROTOCOL.md; the handshake is never harmed


def epoch_of(identity):
    """Returns the epoch in a worker's identity, e<epoch>.r<rank>."""
    return int(identity.split(b".")[0][1:])


class FrameFaults:
    def __init__(self, directory, rate, seed):
        self.directory, self.rate, self.random = directory, rate, random.Random(seed)
        self.context = zmq.Context()
        self.front_path = os.path.join(directory, "proxy")
        self.real_path = os.path.join(directory, "coordinator")  # the shim writes the coordinator's address here
        self.stopping = threading.Event()
        self.active = threading.Event()
        self.counts = {"passed": 0, "lost": 0, "repeated": 0, "delayed": 0, "damaged": 0}
        self.thread = threading.Thread(target=self.run, daemon=True)

    def env(self):
        """Returns an environment whose mpirun tells workers the proxy's address, and the proxy the coordinator's address."""
        shim = os.path.join(self.directory, "mpirun")
        with open(shim, "w") as f:
            f.write(f"""#!/usr/bin/env python3
import os, sys
arguments = sys.argv[1:]
at = arguments.index("--coordinator") + 1
with open({self.real_path!r} + ".new", "w") as f:
    f.write(arguments[at])
os.rename({self.real_path!r} + ".new", {self.real_path!r})
arguments[at] = "ipc://" + {self.front_path!r}
os.environ["PATH"] = {os.environ["PATH"]!r}
os.execvp("mpirun", ["mpirun"] + arguments)
""")
        os.chmod(shim, 0o755)
        # Workers find the lease's socket beside the data socket. Workers connect to the coordinator itself on that socket.
        return {"PATH": f"{self.directory}:{os.environ['PATH']}"}

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        self.context.destroy(linger=0)

    def link_ctrl(self, real):
        link = self.front_path + ".ctrl"
        if not os.path.islink(link) or os.readlink(link) != real + ".ctrl":
            if os.path.islink(link):
                os.remove(link)
            os.symlink(real + ".ctrl", link)

    def run(self):
        front = self.context.socket(zmq.ROUTER)
        front.bind("ipc://" + self.front_path)
        backs, late = {}, []
        poller = zmq.Poller()
        poller.register(front, zmq.POLLIN)
        while not self.stopping.is_set():
            ready = dict(poller.poll(5))
            now = time.monotonic()
            for due, send in [entry for entry in late if entry[0] <= now]:
                send()
            late = [entry for entry in late if entry[0] > now]
            if front in ready:
                identity, *parts = front.recv_multipart()
                if identity not in backs:
                    with open(self.real_path) as f:
                        endpoint = f.read()
                    self.link_ctrl(endpoint[len("ipc://"):])
                    back = self.context.socket(zmq.DEALER)
                    back.setsockopt(zmq.IDENTITY, identity)
                    back.connect(endpoint)
                    poller.register(back, zmq.POLLIN)
                    backs[identity] = back
                    # no late frame can belong to so old an epoch
                    for old in [i for i in backs if epoch_of(i) < epoch_of(identity) - 3]:
                        poller.unregister(backs[old])
                        backs.pop(old).close(linger=0)
                self.forward(parts, backs[identity].send_multipart, late)
            for identity, back in list(backs.items()):
                if back in ready:
                    parts = back.recv_multipart()
                    self.forward(parts, lambda p, to=identity: front.send_multipart([to, *p]), late)
        for back in backs.values():
            back.close(linger=0)
        front.close(linger=0)

    def forward(self, parts, send, late):
        kind = int.from_bytes(parts[0][6:8], "little") if len(parts) == 2 else 0
        if kind not in KINDS or not self.active.is_set() or self.random.random() >= self.rate:
            self.counts["passed"] += 1
            send(parts)
            return
        fault = self.random.choice(["lost", "repeated", "delayed", "damaged"])
        self.counts[fault] += 1
        if fault == "repeated":
            send(parts)
            send(parts)
        elif fault == "delayed":  # behind later frames
            late.append((time.monotonic() + self.random.uniform(0.01, 0.5), lambda: send(parts)))
        elif fault == "damaged":
            part = self.random.randrange(2)
            data = bytearray(parts[part])
            at = self.random.randrange(len(data))
            data[at] ^= 1 << self.random.randrange(8)
            send([bytes(data) if i == part else p for i, p in enumerate(parts)])
