"""Opens many connections of strangers to a port for workers. They send data that no worker sends. From a test:

    with strangers.crowd("127.0.0.1", port, [before a command...]) as crowd: ...

or by hand: strangers.py ADDRESS PORT SECONDS [CONNECTIONS [KEY_FILE [FROM,...]]]. With KEY_FILE, the server's public key, every
stranger sends a HELLO that the server can open. FROM lists the strangers' own addresses."""
import contextlib
import ctypes
import itertools
import os
import selectors
import socket
import subprocess
import sys
import time

GREETING = b"\xff" + b"\0" * 7 + b"\x01\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + b"\0" * 32
HELLO = b"\x04\xc8\x05HELLO\x01\x00" + b"\0" * 72
LARGEST = (64 << 20) - 1  # the most that authenticated peers may send
BODY = b"\0" * (1 << 20)  # sent again and again to every port that takes it


def announcement(flags, size=LARGEST):
    return bytes([flags]) + size.to_bytes(8, "big")


def decode_z85(text):
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    numbers = (sum(digits.index(sign) * 85 ** (4 - i) for i, sign in enumerate(text[at:at + 5])) for at in range(0, len(text), 5))
    return b"".join(number.to_bytes(4, "big") for number in numbers)


def known_hello(server_key):
    """Returns a HELLO like that of any client that knows the server's public key."""
    sodium = ctypes.CDLL("libsodium.so.23")
    own, secret, box = (ctypes.create_string_buffer(size) for size in (32, 32, 80))
    sodium.crypto_box_keypair(own, secret)
    nonce = b"\0" * 7 + b"\x01"
    sodium.crypto_box_easy(box, b"\0" * 64, ctypes.c_ulonglong(64), b"CurveZMQHELLO---" + nonce, server_key, secret)
    return HELLO + own.raw + nonce + box.raw


def words(server_key=None):
    """Returns pairs (a stranger's first bytes, whether BODY follows them)."""
    if server_key:
        return [(GREETING + known_hello(server_key), False)]
    hello = HELLO + os.urandom(32) + b"\0" * 7 + b"\x01" + os.urandom(80)
    return [
        (b"", False),
        (GREETING[:10], False),
        (GREETING, False),
        (GREETING + announcement(6), True),  # a command of 64 MiB instead of a HELLO
        (GREETING + announcement(2), True),  # a message
        (GREETING + announcement(6, 1 << 40), True),
        (GREETING + hello[:100], False),
        (GREETING + hello, False),
        (GREETING + hello + announcement(6), True),  # a long frame instead of an INITIATE
        (GREETING.replace(b"CURVE", b"NULL\0") + b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x06DEALER" + announcement(2), True),
        (b"GET / HTTP/1.1\r\n\r\n", True),
        (b"\x16\x03\x01\x02\x00", True),
        (b"\xff" * 5000, True),
    ]


class Crowd:
    """Holds `size` connections. A connection that the server closes is opened again, and then sends the next entry of words()."""

    def __init__(self, address, port, size, server_key=None, own_addresses=()):
        self.address, self.port, self.size = address, port, size
        self.words = words(server_key)
        self.own_addresses = itertools.cycle(own_addresses) if own_addresses else None
        self.kinds = itertools.count()
        self.selector = selectors.DefaultSelector()
        self.hung_up_on = 0

    def come(self):
        first, goes_on = self.words[next(self.kinds) % len(self.words)]
        one = socket.socket()
        one.setblocking(False)
        if self.own_addresses:
            one.bind((next(self.own_addresses), 0))
        with contextlib.suppress(BlockingIOError):
            one.connect((self.address, self.port))
        self.selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE, (first, goes_on))

    def say(self, key):
        """Sends a stranger's first bytes once it is connected. Then sends BODY again and again if BODY follows these bytes (see
        words())."""
        first, goes_on = key.data
        key.fileobj.send(first or (BODY if goes_on else b""))
        if first:
            self.selector.modify(key.fileobj, selectors.EVENT_READ | (selectors.EVENT_WRITE if goes_on else 0), (b"", goes_on))
        elif not goes_on:
            self.selector.modify(key.fileobj, selectors.EVENT_READ, key.data)

    def leave(self, one):
        self.selector.unregister(one)
        one.close()
        self.hung_up_on += 1

    def flood(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                while len(self.selector.get_map()) < self.size and time.monotonic() < end:
                    self.come()
            for key, events in self.selector.select(0.02):
                try:
                    if events & selectors.EVENT_READ and not key.fileobj.recv(4096):
                        self.leave(key.fileobj)
                    elif events & selectors.EVENT_WRITE:
                        self.say(key)
                except BlockingIOError:
                    pass
                except OSError:
                    self.leave(key.fileobj)


@contextlib.contextmanager
def crowd(address, port, before=(), seconds=60, size=300, key_file="", own_addresses=()):
    """Starts a process that floods the port during the block."""
    command = [*before, sys.executable, os.path.abspath(__file__), address, str(port), str(seconds), str(size), key_file, ",".join(own_addresses)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()  # the process has begun
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    os.nice(15)  # in practice attackers use processors of their own; in this test they run at low priority
    size, key_file, addresses = [*sys.argv[4:], *("300", "", "")[len(sys.argv) - 4:]]
    server_key = None
    if key_file:
        with open(key_file, encoding="ascii") as file:
            server_key = decode_z85(file.read().strip())
    there = Crowd(sys.argv[1], int(sys.argv[2]), int(size), server_key, [one for one in addresses.split(",") if one])
    print("begun", flush=True)
    there.flood(float(sys.argv[3]))
    print(f"{there.hung_up_on} were hung up on", flush=True)
