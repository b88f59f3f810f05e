"""Tests `quire check`. It must find faults, name the host and the remedy, and exit with status 1; it exits with 0 if it
finds no fault."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import unittest

import netns
import verdict
from multi_node_test import write_topology
from server import BUILD, QUIRE, TINY


@unittest.skipIf(netns.unavailable(), netns.unavailable())
class CheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.network = cls.stack.enter_context(netns.Network("a", "b"))

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def nodes(self, **changes_of_b):
        a, b = ({"host": node.address, "interface": "eth0"} for node in self.network.nodes)
        return [a, {**b, **changes_of_b}]

    def check(self, path, *flags, env=None):
        """Returns (exit status, lines by (check, host))."""
        done = subprocess.run(self.network["a"].command(QUIRE, "check", path, "--json", *flags), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120, env={**os.environ, **(env or {})})
        result = json.loads(done.stdout)
        self.assertEqual(result["ok"], done.returncode == 0)
        return done.returncode, {(line["check"], line["host"]): line for line in result["checks"]}

    @staticmethod
    def use_worker(path, worker):
        """Makes the topology start another program as its workers."""
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(text.replace("method: mpirun", f"method: mpirun, worker: {worker}"))

    def assert_broken(self, path, check, host, found, remedy, *flags, env=None):
        status, lines = self.check(path, *flags, env=env)
        self.assertEqual(status, 1, lines)
        broken = {key: line for key, line in lines.items() if line["status"] == "FAILED"}
        self.assertEqual(list(broken), [(check, host)], broken)
        self.assertRegex(broken[check, host]["found"], found)
        self.assertRegex(broken[check, host]["remedy"], remedy)
        self.assertEqual(lines.get(("sums", ""), {"status": "skipped"})["status"], "skipped")

    def test_check_passes_a_sound_deployment(self):
        status, lines = self.check(write_topology(self.network, nodes=self.nodes()))
        self.assertEqual(status, 0, lines)
        self.assertEqual({line["status"] for line in lines.values()}, {"ok"})
        for node in self.network.nodes:
            for check in ("worker", "host name", "interface", "ports", "/dev/shm", "memory", "keys", "model"):
                self.assertIn((check, node.address), lines)
        self.assertRegex(lines["sums", ""]["found"], "2 ranks agree")
        self.assertRegex(lines["placement", ""]["found"], "1 on 10.77.0.1, 1 on 10.77.0.2")
        self.assertEqual([node.pids() for node in self.network.nodes], [[], []])

    def test_check_passes_one_host_without_a_network(self):
        done = subprocess.run([QUIRE, "check", "--model", TINY, "-tp", "2", "--port", "0", "--admin-port", "0"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"ok +sums +this host +2 ranks agree")

    def test_check_names_a_mistake_in_the_topology_file(self):
        path = write_topology(self.network, nodes=self.nodes(interfase="eth0"))
        self.assert_broken(path, "topology", "", r"topology.yaml:8: nodes: unknown key", "examples")

    def test_check_names_an_unreachable_host(self):
        b = self.network["b"].address
        path = write_topology(self.network, nodes=self.nodes(host="10.77.0.9"))
        self.assert_broken(path, "reachable", "10.77.0.9", "no node 10.77.0.9", "try: .*agent 10.77.0.9 true")
        silent = os.path.join(self.network.directory, "silent")
        with open(silent, "w") as f:
            f.write("#!/bin/sh\nexec sleep 60\n")
        os.chmod(silent, 0o700)
        path = write_topology(self.network, nodes=self.nodes())
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(text.replace(self.network.agent, silent))
        self.assert_broken(path, "reachable", b, "no answer within 10 s", "try: ")
        with open(path, "w") as f:
            f.write(text.replace(self.network.agent, "no-such-agent"))
        self.assert_broken(path, "reachable", b, "cannot be run", "launch.agent")

    def test_check_names_a_missing_network_interface(self):
        path = write_topology(self.network, nodes=self.nodes(interface="ib7"))
        self.assert_broken(path, "interface", self.network["b"].address, "ib7: missing; there are: eth0", "interface")

    def test_check_names_a_missing_worker_program_or_another_version(self):
        path = write_topology(self.network, nodes=self.nodes())
        self.use_worker(path, "/nowhere/quire-worker")
        status, lines = self.check(path)
        self.assertEqual(status, 1)
        self.assertEqual(lines["worker", self.network["b"].address]["status"], "FAILED")
        other = os.path.join(self.network.directory, "other-worker")
        with open(other, "w") as f:
            f.write("#!/bin/sh\necho version 0.0.9 protocol 1\n")
        os.chmod(other, 0o700)
        path = write_topology(self.network, nodes=self.nodes())
        self.use_worker(path, other)
        status, lines = self.check(path)
        self.assertEqual(status, 1)
        self.assertRegex(lines["worker", self.network["b"].address]["found"], "version 0.0.9 protocol 1, here ")

    def test_check_names_two_nodes_with_the_same_host_name(self):
        path = write_topology(self.network, nodes=self.nodes())
        twin = os.path.join(self.network.directory, "twin")
        with open(twin, "w") as f:
            f.write(f'#!/bin/sh\nhostname twin\nexec {os.path.join(BUILD, "quire-worker")} "$@"\n')
        os.chmod(twin, 0o700)
        self.use_worker(path, twin)
        a, b = (node.address for node in self.network.nodes)
        self.assert_broken(path, "host name", b, f"twin, as {a} calls itself, too", "a host name of its own")

    def test_check_names_ports_in_use(self):
        path = write_topology(self.network, nodes=self.nodes())
        with self.network["b"].inside(), socket.socket() as taken:
            taken.bind(("0.0.0.0", 46000))
            taken.listen()
            self.assert_broken(path, "ports", self.network["b"].address, "in use: 46000", "mpi_ports")
        with self.network["a"].inside(), socket.socket() as taken:
            taken.bind((self.network["a"].address, 5571))
            taken.listen()
            self.assert_broken(path, "listen", "", "transport.bind 10.77.0.1:5571: Address already in use", "port")

    def test_check_names_key_files_that_others_can_read(self):
        path = write_topology(self.network, nodes=self.nodes())
        keys = os.path.join(self.network.directory, "keys")
        os.chmod(keys, 0o755)
        try:
            status, lines = self.check(path)
        finally:
            os.chmod(keys, 0o700)
        self.assertEqual(status, 1)
        for node in self.network.nodes:
            self.assertRegex(lines["keys", node.address]["found"], r"open to others \(mode 755\)")

    def test_check_names_a_node_with_another_model(self):
        # The agent gives node b another PATH, as if its disk held another model.
        here = os.path.join(self.network.directory, "model")
        other = os.path.join(self.network.directory, "other")
        shutil.copytree(TINY, here)
        shutil.copytree(os.path.join(os.path.dirname(TINY), "mha"), other)
        path = write_topology(self.network, nodes=self.nodes(), model=here)
        agent = os.path.join(self.network.directory, "lending")
        with open(agent, "w") as f:
            f.write(f'#!/bin/sh\nhost=$1; shift\nexec {self.network.agent} "$host" "$(echo "$*" | sed "s#{here}#$(cat {agent}.from)#g")"\n')
        os.chmod(agent, 0o700)
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(text.replace(self.network.agent, agent))
        with open(agent + ".from", "w") as f:
            f.write(other)
        self.assert_broken(path, "model", self.network["b"].address, "not that of the coordinator's", "copy")
        empty = os.path.join(self.network.directory, "empty")
        os.mkdir(empty)
        with open(agent + ".from", "w") as f:
            f.write(empty)
        self.assert_broken(path, "model", self.network["b"].address, "unreadable", "copy the model to " + here)

    def test_check_says_when_ranks_do_not_fit_on_the_nodes(self):
        path = write_topology(self.network, nodes=self.nodes(slots=1), tensor=2)
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(text.replace('"interface": "eth0"}', '"interface": "eth0", "slots": 1}', 1).replace("tensor: 2", "tensor: 3"))
        self.assert_broken(path, "placement", "", "3 ranks do not fit on the nodes", "parallel.tensor")

    def test_check_finds_a_cut_link_between_nodes(self):
        # The agent does not use the link that is cut, but the ranks do.
        path = write_topology(self.network, nodes=self.nodes())
        self.network["b"].link(False)
        try:
            status, lines = self.check(path)
        finally:
            self.network["b"].link(True)
        self.assertEqual(status, 1, lines)
        self.assertTrue(any(line["status"] == "FAILED" for key, line in lines.items() if key[0] in ("sums", "interface")), lines)

    def test_check_says_when_mpirun_refuses_to_run_as_root(self):
        path = write_topology(self.network, nodes=self.nodes())
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OMPI_ALLOW")}
        done = subprocess.run(self.network["a"].command(QUIRE, "check", path), capture_output=True, text=True, timeout=60, env=environment)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, "FAILED  mpirun .*refuses to run as root")


if __name__ == "__main__":
    if netns.unavailable():
        verdict.skip_all(netns.unavailable())
    verdict.run_tests()
