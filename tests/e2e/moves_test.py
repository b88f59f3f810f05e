"""Tests moves of requests with their KV blocks to groups on other hosts, and to groups that divide the heads differently. Network
namespaces play the hosts. Links break and workers die during moves, but every stream must continue unchanged."""
import contextlib
import operator
import os
import random
import signal
import socket
import threading
import time
import unittest

import netns
import strangers
import verdict
from multi_node_test import named, serve, write_topology
from replicas_test import PROMPTS, name_of, status_of
from server import TINY, Server, wait_gone
from stream_client import stream_in_background, text_of

TOKENS = 1700  # takes a second or two


def start(server, count, tokens=TOKENS):
    return [stream_in_background(server, tokens, body={"prompt": PROMPTS[i % len(PROMPTS)]}) for i in range(count)]


def used(server, replica):
    blocks = status_of(server)["replicas"][replica]["blocks"]
    return blocks["device"]["used"] + blocks["host"]["used"]


def moves_of(server):
    return status_of(server)["migrations"]


def move(server, lines, replica):
    status, answer = server.post("/admin/migrate", {"request": name_of(lines), "replica": replica}, admin=True)
    assert status == 200, answer


def wait_for(condition, what, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(what() if callable(what) else what)
        time.sleep(0.02)


def resident_mib(pids):
    """Returns the resident memory of each process in MiB; 0 for a process that has ended."""
    def of(pid):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/status") as f:
            return next((int(line.split()[1]) for line in f if line.startswith("VmRSS:")), 0) / 1024
        return 0

    return [of(pid) for pid in pids]


class StreamsCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Server("-tp", "1", model=TINY) as server:
            cls.right = []
            for thread, lines in start(server, len(PROMPTS)):
                thread.join(timeout=120)
                cls.right.append(text_of(lines))

    def expect_right(self, streams, first=0):
        for i, (thread, lines) in enumerate(streams, first):
            thread.join(timeout=60)
            self.assertFalse(thread.is_alive(), f"stream {i} hangs")
            self.assertEqual(text_of(lines), self.right[i % len(PROMPTS)], f"stream {i}")

    def expect_rest(self, server):
        """Waits until no replica uses a block on its device or host, once no request is left."""
        def held():
            return [r["blocks"]["device"]["used"] + r["blocks"]["host"]["used"] for r in status_of(server)["replicas"]]
        wait_for(lambda: not any(held()), lambda: f"{held()} blocks are held")

    def shuffle(self, server, streams):
        """Moves random streams between the two replicas until all streams have ended, and expects the right texts."""
        dice = random.Random(1)
        while any(thread.is_alive() for thread, _ in streams):
            _, lines = dice.choice(streams)
            move(server, lines, dice.randrange(2))
        self.expect_right(streams)


class MovesBetweenShapesTest(StreamsCase):
    """Tests moves between groups of two ranks, of three ranks, of one rank, and of ranks with uneven shares. The model has nine query
    heads and three KV heads, which ranks partly share."""

    def test_streams_are_unchanged_when_unequal_groups_move_blocks_from_pool_to_pool(self):
        self.expect_right_answers_of({"tensor": 3}, {"tensor": 1}, {"tensor": 2, "shares": [1, 3]}, flags=("--swap-space", "0"))

    def test_streams_are_unchanged_when_unequal_groups_move_blocks_by_host_memory(self):
        self.expect_right_answers_of({"tensor": 3}, flags=("--swap-space", "0.05", "--no-enable-prefix-caching"))

    def expect_right_answers_of(self, *shapes, flags):
        with Server("-tp", "2", "--data-parallel-size", "2", "--num-kv-blocks", "4000", *flags, model=TINY) as server:
            so_far = 0
            for shape in shapes:
                status, answer = server.post("/admin/reshard", {**shape, "replica": 1}, admin=True)
                self.assertEqual(status, 200, answer)
                wait_for(lambda: [r["state"] for r in status_of(server)["replicas"]] == ["serving"] * 2, "the workers do not come")
                self.shuffle(server, start(server, 6))
                moved = moves_of(server)
                self.assertGreater(moved["with_blocks"], so_far + 4, (shape, moved, server.text()))
                self.assertNotIn("did not go", server.text())
                so_far = moved["with_blocks"]
            self.expect_rest(server)


@unittest.skipIf(netns.unavailable(), netns.unavailable())
class MovesBetweenHostsTest(StreamsCase):
    def serve(self, network, tensor=2, ahead=True):
        """Starts a server: the first node runs the coordinator, and each other node is a replica. `ahead`: blocks go from pool to pool;
        otherwise they go through host memory."""
        nodes = [{"host": node.address, "interface": "eth0", "slots": tensor} for node in network.nodes[1:]]
        path = write_topology(network, nodes=nodes, tensor=tensor)
        with open(path) as f:
            text = f.read().replace(f"{{tensor: {tensor}}}", f"{{tensor: {tensor}, replicas: 2}}")
        with open(path, "w") as f:
            f.write(text.replace("memory_bytes: 64MiB", f"num_blocks: 4000, host_swap: 50MiB, prefix_caching: {str(ahead).lower()}"))
        return serve(network, path)

    def test_streams_are_unchanged_when_blocks_move_between_hosts(self):
        with netns.Network("a", "b", "c") as network, network.nodes[0].inside():
            with self.serve(network) as server:
                self.shuffle(server, start(server, 8))
                moved = moves_of(server)
                self.assertGreater(moved["with_blocks"], 10, server.text())
                self.assertGreater(moved["bytes"], 0)
                self.assertGreater(moved["seconds"], 0)
                # on a slow machine, some requests grow faster than they move, and therefore move without blocks
                self.assertNotIn("did not go", server.text())
                self.expect_rest(server)
                self.assertEqual(server.terminate(), 0)

    @staticmethod
    def ports_for_blocks(network):
        """Returns (node, port) of every port at which workers receive blocks. Such a port sends ZeroMQ's greeting to every connection."""
        found = []
        for node in network.nodes[1:]:
            for port in range(46000, 46100):
                with contextlib.suppress(OSError), socket.create_connection((node.address, port), timeout=1) as peer:
                    peer.settimeout(0.1)
                    if peer.recv(64)[:1] == b"\xff":
                        found.append((node, port))
        return found

    @verdict.alone
    def test_moves_continue_when_the_block_ports_are_flooded(self):
        with netns.Network("a", "b", "c") as network, network.nodes[0].inside():
            with self.serve(network) as server:
                self.shuffle(server, start(server, 8))
                ports = self.ports_for_blocks(network)
                self.assertGreaterEqual(len(ports), 2)
                workers = [pid for node in network.nodes for pid in named(node.pids(), "quire-worker")]
                before, moved = resident_mib(workers), moves_of(server)["with_blocks"]
                streams, most = start(server, 4), before
                with contextlib.ExitStack() as floods:
                    for node, port in ports:
                        floods.enter_context(strangers.crowd(node.address, port))
                    shuffling = threading.Thread(target=self.shuffle, args=(server, streams))
                    shuffling.start()
                    while shuffling.is_alive():
                        most = list(map(max, most, resident_mib(workers)))
                        time.sleep(0.05)
                self.assertNotIn("is lost", server.text())
                self.expect_right(streams)
                self.assertLess(max(map(operator.sub, most, before)), 150)  # MiB; moved blocks touch less memory than this
                self.assertGreater(moves_of(server)["with_blocks"], moved)
                self.expect_rest(server)
                self.assertEqual(server.terminate(), 0)

    def cut_in_the_middle(self, act, leaves=False, ahead=False):
        """Moves a request from one host to the other while their link drops all packets in that direction; the coordinator hears both
        hosts. act(server, nodes, replicas) runs while the blocks are stuck. With `ahead` the blocks go from pool to pool while the request
        is computed at its source; otherwise the blocks go by the hosts' memory, and the request pauses. `nodes` and `replicas` begin with
        the source. `leaves`: act also gets the client's socket, which it may close. Returns the counts of moves."""
        with netns.Network("a", "b", "c") as network, network.nodes[0].inside():
            with self.serve(network, ahead=ahead) as server:
                client = []
                streams = [stream_in_background(server, TOKENS, body={"prompt": PROMPTS[0]}, sockets=client)]
                lines = self.lines = streams[0][1]
                wait_for(lambda: len(lines) > 20, "no tokens come")
                source = next(r["replica"] for r in server.get("/admin/requests", admin=True)["requests"] if r["id"] == name_of(lines))
                replicas = [source, 1 - source]
                nodes = [network.nodes[1 + replica] for replica in replicas]
                nodes[0].mute(nodes[1])
                move(server, lines, replicas[1])
                if ahead:
                    wait_for(lambda: used(server, replicas[1]) > 0, "no room is set aside")
                else:
                    wait_for(lambda: server.get("/admin/requests", admin=True)["requests"] == [], "it does not leave")
                act(server, nodes, replicas, *client[:leaves])
                if not leaves:
                    nodes[0].unmute(nodes[1])
                    self.expect_right(streams)
                self.expect_rest(server)
                epochs = [status_of(server)["replicas"][replica]["epoch"] for replica in replicas]
                return moves_of(server), epochs

    def test_stream_is_recomputed_when_the_link_is_cut_during_a_move(self):
        def act(server, _, replicas):
            wait_for(lambda: moves_of(server)["bare"] > 0, lambda: "the move goes on:\n" + server.text(), 12)
            # The server does not soon try the broken link again, so this move does not wait for five seconds.
            move(server, self.lines, replicas[0])
            wait_for(lambda: moves_of(server)["bare"] > 1, "a broken way is tried again", 3)
        moved, epochs = self.cut_in_the_middle(act)
        self.assertEqual((moved["with_blocks"], moved["bare"], moved["failed"]), (0, 2, 1))
        self.assertEqual(epochs, [1, 1])

    def test_stream_stays_at_its_replica_when_the_link_is_cut_while_blocks_are_copied_ahead(self):
        def act(server, _, replicas):
            wait_for(lambda: any(b"[DONE]" in line for line in self.lines[-3:]), "the stream waits for the link")
            wait_for(lambda: used(server, replicas[1]) == 0, "room is kept for what has ended")
            self.assertIn("called off", server.text())  # a link without progress is given up after 5 s, with other words
        moved, epochs = self.cut_in_the_middle(act, ahead=True)
        self.assertEqual((moved["with_blocks"], moved["bare"], moved["failed"]), (0, 0, 0))
        self.assertEqual(epochs, [1, 1])

    def leave(self, ahead):
        def act(server, _, replicas, client):
            client.shutdown(socket.SHUT_RDWR)
            wait_for(lambda: used(server, replicas[1]) == 0, "its blocks are kept")
            self.assertIn("called off", server.text())  # a link without progress is given up after 5 s, with other words
        _, epochs = self.cut_in_the_middle(act, leaves=True, ahead=ahead)
        self.assertEqual(epochs, [1, 1])

    def test_move_is_called_off_when_the_client_disconnects(self):
        self.leave(ahead=False)

    def test_move_is_called_off_when_the_client_disconnects_while_blocks_are_copied_ahead(self):
        self.leave(ahead=True)

    def lose(self, side, ahead=False):
        def act(server, nodes, replicas):
            old = named(nodes[side].pids(), "quire-worker")
            self.assertEqual(len(old), 2)
            os.kill(old[1], signal.SIGKILL)
            wait_for(lambda: status_of(server)["replicas"][replicas[side]]["epoch"] == 2, lambda: "the loss is not noticed:\n" + server.text())
            self.assertEqual(wait_gone(old, 6), [])
        moved, epochs = self.cut_in_the_middle(act, ahead=ahead)
        # A request that meanwhile continues at the source stays at the source.
        self.assertEqual((moved["with_blocks"], moved["failed"]), (0, 0 if ahead else 1))
        self.assertEqual(epochs, [2, 1] if side == 0 else [1, 2])

    def test_stream_is_unchanged_when_a_worker_of_the_source_dies_during_a_move(self):
        self.lose(0)

    def test_stream_is_unchanged_when_a_worker_of_the_target_dies_during_a_move(self):
        self.lose(1)

    def test_stream_is_unchanged_when_a_worker_of_the_source_dies_while_blocks_are_copied_ahead(self):
        self.lose(0, ahead=True)

    def test_stream_is_unchanged_when_a_worker_of_the_target_dies_while_blocks_are_copied_ahead(self):
        self.lose(1, ahead=True)


if __name__ == "__main__":
    verdict.run_tests()
