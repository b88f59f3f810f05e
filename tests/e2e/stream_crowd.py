"""Runs thousands of clients in one process, for streams_test.py: one epoll watches their sockets, and each event costs little work. The
clients have their own process, because client and server together need more descriptors than one process may have."""
import json
import resource
import select
import socket
import sys
import time

SECONDS_TO_OPEN = 240


def request(body):
    data = json.dumps(body).encode()
    return b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data


class Client:
    """Holds one connection: its request, the times of sending and of the first answer, and what is known of the answer."""

    def __init__(self, port, data, kind, receive_buffer=None):
        self.kind, self.data, self.head, self.tail, self.events = kind, data, b"", b"", 0
        self.sent_at = self.answered_at = self.closed_at = None
        self.done = self.cut = False
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)

    def send(self):
        self.sent_at = time.monotonic()
        self.socket.send(self.data)

    def status(self):
        return int(self.head[9:12]) if len(self.head) >= 12 else None

    def read(self):
        """Reads what has arrived. Returns False once the server has closed the connection."""
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            self.closed_at = time.monotonic()
            return False
        if self.answered_at is None:
            self.answered_at = time.monotonic()
        if len(self.head) < 1024:
            self.head += data[:1024]
        data = self.tail + data
        if self.kind == "whole":
            self.tail = data
            return True
        # The stored end of the last piece is shorter than the counted text, so nothing counts twice.
        self.events += data.count(b"\ndata: {")
        self.done = self.done or b"[DONE]" in data
        self.cut = self.cut or b"slowly" in data
        self.tail = data[-7:]
        return True


class Clients:
    def __init__(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        self.epoll, self.by_fd, self.all = select.epoll(), {}, []

    def add(self, client, read=True):
        self.all.append(client)
        self.by_fd[client.socket.fileno()] = client
        if read:
            self.epoll.register(client.socket, select.EPOLLIN)
        return client

    def poll(self, seconds):
        for fd, _ in self.epoll.poll(seconds):
            if not self.by_fd[fd].read():
                self.epoll.unregister(fd)

    def poll_until(self, condition, seconds):
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            self.poll(0.2)
        return condition()

    def kind(self, kind):
        return [client for client in self.all if client.kind == kind]

    def say(self, word, **values):
        print(json.dumps({"now": word, **values}), flush=True)


def streams(port, count, seconds):
    """Opens `count` normal streams, then the misbehaving clients, holds all connections for `seconds`, and closes them. Reports each phase
    to the test."""
    clients = Clients()
    body = {"prompt": [5, 6, 7], "max_tokens": 1900, "stream": True, "ignore_eos": True, "temperature": 0}
    begin = time.monotonic()
    for i in range(count):
        clients.add(Client(port, request(body), "good")).send()
        if i % 50 == 49:
            clients.poll(0)
    good = clients.kind("good")
    opened = clients.poll_until(lambda: all(c.events > 0 for c in good), SECONDS_TO_OPEN)
    clients.say("open", all=opened, seconds=time.monotonic() - begin, done=sum(c.done for c in good))
    sys.stdin.readline()  # waits while the test measures
    few = max(5, count // 100)
    for _ in range(few):
        clients.add(Client(port, request({**body, "n": 4, "logprobs": 20}), "never", receive_buffer=4096), read=False).send()
        half = clients.add(Client(port, request(body), "half"))
        half.send()
        half.socket.shutdown(socket.SHUT_WR)
        clients.add(Client(port, b"POST /v1/completions HTTP/1.1\r\nHost: local", "slow")).send()
    events, begin = sum(c.events for c in good), time.monotonic()
    clients.poll_until(lambda: False, seconds)
    events = sum(c.events for c in good) - events
    clients.say("held", seconds=time.monotonic() - begin, events=events, few=few,
                closed_early=sum(c.closed_at is not None and not c.done for c in good), done=sum(c.done for c in good),
                fewest_events=min(c.events for c in good), bad_status=sum(c.status() != 200 for c in good),
                slow_408=sum(c.status() == 408 and c.closed_at is not None for c in clients.kind("slow")),
                half_closed=sum(c.closed_at is not None and not c.done for c in clients.kind("half")))
    sys.stdin.readline()
    for client in clients.kind("never"):  # reads the bytes that the kernel still has, then the end of file
        clients.epoll.register(client.socket, select.EPOLLIN)
    never = clients.kind("never")
    clients.poll_until(lambda: all(c.closed_at is not None or c.cut or c.done for c in never), 40)
    clients.say("read late", told=sum(c.cut for c in never), closed=sum(c.closed_at is not None and not c.done for c in never),
                served=sum(c.done and not c.cut for c in never))
    sys.stdin.readline()
    for client in clients.all:
        client.socket.close()


def burst(port, count, body):
    """Sends `count` concurrent requests."""
    clients = Clients()
    data = request(json.loads(body))
    for _ in range(count):
        clients.add(Client(port, data, "whole"))
    for i, client in enumerate(clients.all):
        client.send()
        if i % 20 == 19:
            clients.poll(0)
    clients.poll_until(lambda: all(c.answered_at or c.closed_at for c in clients.all), 300)
    refused = [c for c in clients.all if c.status() == 429]
    waits = sorted(c.answered_at - c.sent_at for c in refused) or [0]
    accepted = [c for c in clients.all if c.status() == 200]
    texts = {json.loads(c.tail.split(b"\r\n\r\n", 1)[1])["choices"][0]["text"] for c in accepted}
    clients.say("burst", accepted=len(accepted), refused=len(refused), others=count - len(accepted) - len(refused), texts=sorted(texts),
                retry_after=sum(b"\r\nRetry-After: " in c.head for c in refused), median=waits[len(waits) // 2],
                p99=waits[len(waits) * 99 // 100], longest=waits[-1])


if __name__ == "__main__":
    {"streams": lambda: streams(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])),
     "burst": lambda: burst(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])}[sys.argv[1]]()
