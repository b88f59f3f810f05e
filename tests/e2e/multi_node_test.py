"""Tests several nodes from one topology file. Network namespaces play the hosts; everything else is as in a real deployment, from mpirun's
daemons to the tokens. The tests need root and are skipped without it."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time
import unittest

import netns
import strangers
import verdict
from server import QUIRE, REAL, TINY, Server, found_as_promised, wait_gone
from stream_client import stream_in_background, text_of

# The length of a stream that must still run when its node goes away.
TOKENS = 800
PROMPTS = [[5, 6, 7], [9, 8, 7, 6, 5, 4], list(range(3, 60))]


def write_topology(network, model=TINY, nodes=None, tensor=None, extra=""):
    """Writes transport keys, and a topology file with these nodes (None: all nodes of the network). The coordinator runs on the network's
    first node. Returns the file's path."""
    nodes = nodes or [{"host": node.address, "interface": "eth0"} for node in network.nodes]
    tensor = tensor or len(nodes)
    keys = os.path.join(network.directory, "keys")  # the nodes share their files
    if not os.path.exists(keys):
        subprocess.run([QUIRE, "keygen", "--transport", keys, "--ranks", "8"], check=True, stdout=subprocess.DEVNULL)
    lines = [
        f"model: {{path: {model}}}",
        "backend: cpu",
        "threads_per_worker: 1",
        f"parallel: {{tensor: {tensor}}}",
        "cache: {memory_bytes: 64MiB}",
        "nodes:",
        *("  - " + json.dumps(node) for node in nodes),
        f"transport: {{bind: {network.nodes[0].address}, ports: [5570, 5571], keys: {keys}}}",
        f"launch: {{method: mpirun, agent: {network.agent}}}",
        extra,
    ]
    path = os.path.join(network.directory, "topology.yaml")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return path


def serve(network, path, **options):
    """Starts a server on the network's first node. The calling thread must be inside that node."""
    return Server(path, prefix=network.nodes[0].command(), **options)


def answers(server, max_tokens=48):
    """Returns (text, tokens as text) of the greedy answer to every prompt, one after another."""
    results = []
    for prompt in PROMPTS:
        status, body = server.post("/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "logprobs": 1})
        assert status == 200, body
        results.append((body["choices"][0]["text"], body["choices"][0]["logprobs"]["tokens"]))
    return results


def named(pids, word):
    found = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                if os.path.basename(f.read().split("\0")[0]) == word:
                    found.append(pid)
        except OSError:
            pass
    return found


def shared_memory():
    return {name for name in os.listdir("/dev/shm") if name.startswith(("quire", "vader"))}


@unittest.skipIf(netns.unavailable(), netns.unavailable())
class MultiNodeTest(unittest.TestCase):
    def assert_nothing_left(self, network, seconds=5):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(node.pids() for node in network.nodes):
            time.sleep(0.05)
        self.assertEqual([node.pids() for node in network.nodes], [[] for _ in network.nodes])

    def serve_and_compare(self, names, model, tensor, max_tokens=48):
        with Server("-tp", "1", "--backend", "cpu", model=model) as alone:
            expected = answers(alone, max_tokens)
        before = shared_memory()
        with netns.Network(*names) as network, network.nodes[0].inside():
            with serve(network, write_topology(network, model, tensor=tensor)) as server:
                self.assertEqual(answers(server, max_tokens), expected)
                status = server.get("/admin/status", admin=True)
                self.assertTrue(status["transport"]["encrypted"])
                ranks = status["ranks"]
                hosts = [rank["host"] for rank in ranks]
                self.assertEqual(hosts, sorted(hosts))
                self.assertEqual(set(hosts), {node.address for node in network.nodes})
                for rank in ranks:  # the process is in that node's namespace
                    node = next(node for node in network.nodes if node.address == rank["host"])
                    self.assertIn(rank["pid"], node.pids())
                self.assertEqual(server.terminate(), 0)
            self.assert_nothing_left(network)
        self.assertEqual(shared_memory() - before, set())

    def test_two_nodes_give_the_tokens_of_one_node(self):
        self.serve_and_compare(["a", "b"], TINY, 2)

    def test_three_nodes_give_the_tokens_of_one_node(self):
        self.serve_and_compare(["a", "b", "c"], TINY, 3)

    def test_nodes_with_several_ranks_give_the_tokens_of_one_node(self):
        self.serve_and_compare(["a", "b"], TINY, 3)

    @unittest.skipUnless(REAL, "QUIRE_TEST_MODEL is not set")
    def test_quickstart_model_gives_equal_tokens_on_two_and_three_nodes(self):
        self.serve_and_compare(["a", "b"], REAL, 2, max_tokens=16)
        self.serve_and_compare(["a", "b", "c"], REAL, 3, max_tokens=16)


@verdict.alone
@unittest.skipIf(netns.unavailable(), netns.unavailable())
class StrangeNodeTest(unittest.TestCase):
    def test_floods_from_another_node_end_no_worker_group(self):
        nodes = ["a", "b", "c"]
        with netns.Network(*nodes) as network, network["a"].inside():
            path = write_topology(network, nodes=[{"host": network[name].address, "interface": "eth0"} for name in ("a", "b")])
            with serve(network, path) as server:
                thread, lines = stream_in_background(server, TOKENS)
                thread.join(timeout=60)
                with contextlib.ExitStack() as floods:
                    for port in (5570, 5571):
                        for _ in range(2):
                            floods.enter_context(strangers.crowd(network["a"].address, port, network["c"].command()))
                    end = time.monotonic() + 8
                    while time.monotonic() < end:
                        thread, flooded = stream_in_background(server, TOKENS)
                        thread.join(timeout=100)
                        self.assertEqual(text_of(flooded), text_of(lines))
                self.assertNotIn("is lost", server.text())
                self.assertIn(f"turned away {network['c'].address} from the workers' port", server.text())
                self.assertEqual(server.terminate(), 0)

    def test_workers_join_again_while_a_node_floods_with_the_servers_public_key(self):
        """The strangers use 60 addresses. Their HELLOs look like those of workers."""
        with netns.Network("a", "b", "c") as network, network["a"].inside():
            addresses = [f"10.77.0.{last}" for last in range(100, 160)]
            for address in addresses:
                netns.ip("address", "add", address + "/24", "dev", "eth0", inside=network["c"].namespace)
            path = write_topology(network, nodes=[{"host": network[name].address, "interface": "eth0"} for name in ("a", "b")])
            public_key = os.path.join(network.directory, "keys", "coordinator.pub")
            with serve(network, path) as server, contextlib.ExitStack() as floods:
                for port in (5570, 5571):
                    floods.enter_context(strangers.crowd(network["a"].address, port, network["c"].command(), size=1000, key_file=public_key,
                                                         own_addresses=addresses))
                for _ in range(3):
                    self.assertEqual(server.post("/admin/restart_workers", b"", admin=True)[0], 200)
                    self.assertEqual(server.post("/v1/completions", {"prompt": [5], "max_tokens": 2})[0], 200)
                self.assertNotIn("is lost", server.text())
                self.assertEqual(server.terminate(), 0)


@unittest.skipIf(netns.unavailable(), netns.unavailable())
class NodeLossTest(unittest.TestCase):
    def survive(self, act, heal, expect, seconds):
        """Runs a stream. act(network) makes the coordinator lose the worker on node b, and heal(network) undoes this. Within `seconds`
        after that, the stream must end as it would without the fault, and the log must match `expect`."""
        with netns.Network("a", "b") as network, network.nodes[0].inside():
            with serve(network, write_topology(network)) as server:
                thread, fault_free = stream_in_background(server, TOKENS)
                thread.join(timeout=60)
                thread, lines = stream_in_background(server, TOKENS)
                old = [pid for node in network.nodes for pid in named(node.pids(), "quire-worker")]
                self.assertEqual(len(old), 2)
                deadline = time.monotonic() + 60
                act(network)
                while "is lost" not in server.text():
                    self.assertLess(time.monotonic(), deadline, "not noticed:\n" + server.text())
                    time.sleep(0.02)
                found_as_promised(self, server.text())
                self.assertEqual(wait_gone(old, 6), [], "the workers of the lost epoch live on")
                heal(network)
                thread.join(timeout=seconds)
                self.assertFalse(thread.is_alive(), "the stream hangs:\n" + server.text())
                self.assertEqual(text_of(lines), text_of(fault_free))
                self.assertRegex(server.text(), expect.format(b=re.escape(network["b"].address)))
                self.assertEqual(server.terminate(), 0)
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline and any(node.pids() for node in network.nodes):
                time.sleep(0.05)
            self.assertEqual([node.pids() for node in network.nodes], [[], []])

    def test_stream_is_unchanged_when_the_mpi_daemon_of_a_node_is_killed(self):
        def kill(network):
            os.kill(named(network["b"].pids(), "orted")[0], signal.SIGKILL)
        self.survive(kill, lambda network: None, "is lost: host {b} lost ", 60)

    def test_stream_is_unchanged_and_the_host_named_when_a_link_is_cut(self):
        self.survive(lambda network: network["b"].link(False), lambda network: network["b"].link(True),
                     r"is lost: rank 1 \(pid \d+ on {b}\) is silent", 60)

    def test_stream_is_unchanged_and_the_host_named_when_a_link_fails_in_one_direction(self):
        self.survive(lambda network: network["b"].mute(), lambda network: network["b"].unmute(),
                     r"is lost: rank 1 \(pid \d+ on {b}\) is silent", 60)


    def go_on_without_b(self, names, nodes, hosts, expect):
        """Cuts node b off for good. The stream must continue on `hosts`, and the log must match `expect`."""
        with netns.Network(*names) as network, network.nodes[0].inside():
            address = {name: network[name].address for name in names}
            entries = [{"host": address[name], "interface": "eth0", **extra} for name, extra in nodes]
            with serve(network, write_topology(network, nodes=entries, tensor=2)) as server:
                thread, fault_free = stream_in_background(server)
                thread.join(timeout=60)
                thread, lines = stream_in_background(server)
                server.post("/admin/pause", b"", admin=True)  # the stream must not end before the link does
                self.assertNotEqual(lines[-1], b"[DONE]")
                network["b"].link(False)
                server.post("/admin/resume", b"", admin=True)
                thread.join(timeout=90)
                self.assertFalse(thread.is_alive(), "the stream hangs:\n" + server.text())
                self.assertEqual(text_of(lines), text_of(fault_free))
                ranks = server.get("/admin/status", admin=True)["ranks"]
                self.assertEqual([rank["host"] for rank in ranks], [address[name] for name in hosts], server.text())
                self.assertRegex(server.text(), expect)
                self.assertEqual(server.terminate(), 0)

    def test_spare_host_replaces_a_host_that_is_cut_off(self):
        self.go_on_without_b(["a", "b", "c"], [("a", {}), ("b", {}), ("c", {"spare": True})], ["a", "c"], "left out for now: 10.77.0.2")

    def test_hosts_that_are_lost_together_are_left_out_together(self):
        with netns.Network(*"abcde") as network, network.nodes[0].inside():
            with serve(network, write_topology(network)) as server:
                thread, fault_free = stream_in_background(server)
                thread.join(timeout=60)
                thread, lines = stream_in_background(server)
                for name in "cde":
                    network[name].link(False)
                thread.join(timeout=60)
                self.assertFalse(thread.is_alive(), "the stream hangs:\n" + server.text())
                self.assertEqual(text_of(lines), text_of(fault_free))
                self.assertIn("left out for now: " + ", ".join(network[name].address for name in "cde"), server.text())
                hosts = {rank["host"] for rank in server.get("/admin/status", admin=True)["ranks"]}
                self.assertEqual(hosts, {network["a"].address, network["b"].address})
                self.assertEqual(server.terminate(), 0)

    def test_fewer_workers_serve_when_a_host_is_cut_off_and_none_is_spare(self):
        self.go_on_without_b(["a", "b"], [("a", {"slots": 1}), ("b", {"slots": 1})], ["a"], "room for 1 workers instead of 2")


@unittest.skipIf(netns.unavailable(), netns.unavailable())
class StartTest(unittest.TestCase):
    def fail_to_start(self, network, path, status, expect):
        done = subprocess.run(network.nodes[0].command(QUIRE, "serve", path, "--port", "0", "--admin-port", "0"), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=90)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, expect)

    def test_serve_says_why_a_start_on_several_nodes_fails(self):
        with netns.Network("a", "b") as network:
            a, b = ({"host": node.address, "interface": "eth0"} for node in network.nodes)
            path = write_topology(network, nodes=[dict(a, slots=1), dict(b, slots=1)], tensor=3)
            self.fail_to_start(network, path, 2, r"3 ranks do not fit on the nodes \(10.77.0.1 takes 1, 10.77.0.2 takes 1\)")
            path = write_topology(network, nodes=[a, dict(b, host="10.77.0.9")])
            self.fail_to_start(network, path, 1, "no node 10.77.0.9")
            path = write_topology(network, nodes=[a, a])
            self.fail_to_start(network, path, 2, "10.77.0.1 is listed twice")


if __name__ == "__main__":
    if netns.unavailable():
        verdict.skip_all(netns.unavailable())
    verdict.run_tests()
