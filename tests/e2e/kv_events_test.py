"""Tests the events of the prefix cache as a router sees them. The test decodes the events with the types that vLLM publishes, and makes an
index of blocks that tells which replica has a prompt's beginning."""
import contextlib
import os
import signal
import socket
import tempfile
import time
import unittest

import msgspec
import zmq

import verdict
from server import TINY, Server, free_port

BLOCK = 4


class Event(msgspec.Struct, omit_defaults=True, tag=True):
    pass


class BlockStored(Event):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None


class BlockRemoved(Event):
    block_hashes: list[int]
    medium: str | None


class AllBlocksCleared(Event):
    pass


class Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


decode = msgspec.msgpack.Decoder(Batch).decode


class Router:
    """Follows the events of replicas, one endpoint each, and records what their caches hold: {hash: (parent, tokens, name of the
    adapter)}."""

    def __init__(self, *endpoints, topic="", listens=False):
        self.context = zmq.Context()
        self.sockets, self.cached, self.numbers, self.batches = [], [], [], []
        for endpoint in endpoints:
            subscriber = self.context.socket(zmq.SUB)
            subscriber.setsockopt_string(zmq.SUBSCRIBE, topic)
            (subscriber.bind if listens else subscriber.connect)(endpoint)
            self.sockets.append(subscriber)
            self.cached.append({})
            self.numbers.append([])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.destroy(linger=0)

    def follow(self, until, seconds=20):
        """Takes batches of events until until() is true. Fails after `seconds`."""
        deadline = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < deadline, (self.cached, self.numbers)
            for replica, subscriber in enumerate(self.sockets):
                if subscriber.poll(20):
                    topic, number, payload = subscriber.recv_multipart()
                    self.numbers[replica].append(int.from_bytes(number, "big"))
                    self.take(replica, decode(payload))
                    self.topic = topic

    def join(self, server):
        """Waits until the server knows all subscriptions: flushes the caches, which sends a batch, until a batch of each replica has
        arrived."""
        for _ in range(100):
            status, answer = server.post("/admin/flush_cache", {}, admin=True)
            assert status == 200, answer
            try:
                return self.follow(lambda: all(self.numbers), seconds=0.3)
            except AssertionError:
                pass
        raise AssertionError("no batch arrives")

    def take(self, replica, batch):
        assert batch.data_parallel_rank == replica, batch
        self.batches.append(batch)
        cached = self.cached[replica]
        for event in batch.events:
            if isinstance(event, AllBlocksCleared):
                cached.clear()
            elif isinstance(event, BlockRemoved):
                for block in event.block_hashes:
                    del cached[block]
            else:
                parent = event.parent_block_hash
                assert parent is None or parent in cached, event
                assert event.block_size == BLOCK and len(event.token_ids) == BLOCK * len(event.block_hashes), event
                for index, block in enumerate(event.block_hashes):
                    cached[block] = (parent, event.token_ids[index * BLOCK:(index + 1) * BLOCK], event.lora_name)
                    parent = block

    def leading(self, replica, tokens):
        """Returns how many of the prompt's leading tokens the replica has in its cache, in whole blocks without an adapter."""
        children = {(parent, *block): name for name, (parent, block, lora) in self.cached[replica].items() if lora is None}
        parent, found = None, 0
        while (name := children.get((parent, *tokens[found:found + BLOCK]))) is not None:
            parent, found = name, found + BLOCK
        return found


def ask(server, tokens, **fields):
    status, answer = server.post("/v1/completions", {"prompt": tokens, "max_tokens": 1, "temperature": 0, **fields})
    assert status == 200, answer
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def prompt(start, blocks):
    return [(start + i) % 50 + 3 for i in range(blocks * BLOCK)]


class KvEventsTest(unittest.TestCase):
    def test_router_follows_cached_evicted_lost_and_flushed_blocks_of_a_replica(self):
        port, replay = free_port(), free_port()
        config = f'{{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://127.0.0.1:{port}", "bind": true, ' \
                 f'"replay_endpoint": "tcp://127.0.0.1:{replay}", "topic": "kv@here"}}'
        with Router(f"tcp://127.0.0.1:{port}", topic="kv@here") as router, \
             Server("--kv-events-config", config, "--block-size", str(BLOCK), "--num-kv-blocks", "40", model=TINY) as server:
            told = server.get("/admin/status", admin=True)["settings"]["kv_events_config"]
            self.assertEqual((told["endpoint"], told["topic"], told["buffer_steps"]), (f"tcp://127.0.0.1:{port}", "kv@here", 10_000))
            router.join(server)
            first = prompt(0, 10)
            ask(server, first)
            router.follow(lambda: router.leading(0, first) == 40)
            self.assertEqual(router.topic, b"kv@here")
            self.assertEqual(ask(server, [*first, 3]), 40)
            for start in range(7, 13):  # the pool has no room for all of them
                ask(server, prompt(start, 9))
            router.follow(lambda: router.leading(0, prompt(12, 9)) == 36)
            expected = router.leading(0, [*first, 3])
            self.assertLess(expected, 40)
            self.assertEqual(ask(server, [*first, 3]), expected)
            router.follow(lambda: router.leading(0, first) == 40)

            status, answer = server.post("/admin/flush_cache", {}, admin=True)
            self.assertEqual(status, 200, answer)
            router.follow(lambda: not router.cached[0])
            ask(server, first)
            router.follow(lambda: router.leading(0, first) == 40)
            os.kill(server.worker_pids()[0], signal.SIGKILL)
            router.follow(lambda: not router.cached[0])
            self.assertEqual(ask(server, first), 0)
            router.follow(lambda: router.leading(0, first) == 40)
            self.assertEqual(router.numbers[0], list(range(router.numbers[0][0], router.numbers[0][-1] + 1)))
            self.check_replay(f"tcp://127.0.0.1:{replay}", router)

    def check_replay(self, endpoint, router):
        socket = router.context.socket(zmq.DEALER)
        self.addCleanup(socket.close, 0)
        socket.connect(endpoint)
        socket.send_multipart([b"", b"1"])  # the number has no 8 bytes, so there is no answer
        socket.send_multipart([b"", (1).to_bytes(8, "big")])
        batches = {}
        while True:
            self.assertTrue(socket.poll(5000))
            _, number, payload = socket.recv_multipart()
            if number == (-1).to_bytes(8, "big", signed=True):
                break
            batches[int.from_bytes(number, "big")] = decode(payload)
        self.assertEqual(list(batches), list(range(1, router.numbers[0][-1] + 1)))
        for number, batch in zip(router.numbers[0], router.batches):
            if number > 0:
                self.assertEqual(batches[number], batch)

    def test_router_finds_the_replica_of_a_prompt_and_the_server_connects_to_a_listening_router(self):
        with tempfile.TemporaryDirectory(prefix="quire-events-") as folder:
            path = f"ipc://{folder}/e"
            config = f'{{"endpoint": "{path}"}}'
            with Router(path, path + ".1") as router, \
                 Server("--kv-events-config", config, "--block-size", str(BLOCK), "-dp", "2", model=TINY) as server:
                router.join(server)
                prompts = [prompt(start, 6) for start in range(6)]
                for tokens in prompts:
                    ask(server, tokens)
                router.follow(lambda: all(max(router.leading(r, tokens) for r in (0, 1)) == 24 for tokens in prompts))
        endpoint = f"tcp://127.0.0.1:{free_port()}"
        with Router(endpoint, listens=True) as router, \
             Server("--kv-events-config", f'{{"endpoint": "{endpoint}"}}', "--block-size", str(BLOCK), model=TINY) as server:
            router.join(server)
            ask(server, prompt(0, 3))
            router.follow(lambda: router.leading(0, prompt(0, 3)) == 12)

    def test_router_can_connect_though_strangers_hold_all_connections(self):
        port = free_port()
        config = f'{{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://127.0.0.1:{port}", "bind": true}}'
        ready = b"\x05READY\x0bSocket-Type\0\0\0\3SUB\x08Identity\0\0\0\0"
        greeting = b"\xff" + bytes(8) + b"\x7f\3\0NULL" + bytes(48)
        with Server("--kv-events-config", config, "--block-size", str(BLOCK), "--num-kv-blocks", "40", model=TINY) as server, contextlib.ExitStack() as strangers:
            for _ in range(64):  # these clients subscribe to a topic that is never published, and stay
                stranger = strangers.enter_context(socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)))
                stranger.sendall(greeting + bytes([4, len(ready)]) + ready + b"\0\5\1none")
            with Router(f"tcp://127.0.0.1:{port}") as router:
                router.join(server)
                ask(server, prompt(0, 3))
                router.follow(lambda: router.leading(0, prompt(0, 3)) == 12)

    def test_event_endpoint_beyond_loopback_needs_explicit_permission(self):
        with Server("--kv-events-config", '{"endpoint": "tcp://*:5557"}', model=TINY, wait=False) as server:
            self.assertEqual(server.process.wait(timeout=20), 2)
            self.assertIn("kv_events.endpoint tcp://*:5557 shows the tokens of prompts", server.text())


if __name__ == "__main__":
    verdict.run_tests()
