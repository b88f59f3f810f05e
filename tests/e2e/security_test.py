"""Tests access: unsafe starts that the server refuses, the ports that listen, unauthenticated connections on every port, floods of the
workers' ports, foreign web pages, and secrets in errors and logs. The tests run in a network namespace of their own, with one address
beside loopback."""
import contextlib
import ctypes
import glob
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import unittest.mock

import zmq

import strangers
import verdict
from server import BUILD, QUIRE, TINY, Server, free_port

NETWORK = "10.77.0.1"  # an address of the test's own namespace: unreachable for other hosts, but not loopback
CLONE_NEWNET = 0x40000000


def setUpModule():
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise unittest.SkipTest("network namespaces need root")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", NETWORK + "/32", "dev", "lo"], check=True)


def quire(*arguments, seconds=60):
    return subprocess.run([QUIRE, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)


def keygen(*arguments):
    """Runs quire keygen and returns its output."""
    result = quire("keygen", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, content):
    with open(path, "wb") as f:
        f.write(content)


class Keys:
    """Writes transport keys for two ranks, an API key of alice, and an admin token into a directory."""

    def __init__(self, directory):
        self.transport, self.api_file, self.admin_file = (os.path.join(directory, name) for name in ("transport", "api.keys", "admin.token"))
        keygen("--transport", self.transport, "--ranks", "2")
        self.api = keygen("--api", "alice", "--file", self.api_file)
        self.admin = keygen("--admin", "--file", self.admin_file)

    def read(self, name):
        return read(os.path.join(self.transport, name)).strip()


class WithKeys(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.keys = Keys(directory.name)

    def topology(self, **sections):
        """Writes a topology file with these sections, each given as a YAML flow text. Returns the file's path."""
        path = os.path.join(self.directory, "t.yaml")
        with open(path, "w") as f:
            f.write(f"model: {{path: {TINY}, name: tiny}}\nbackend: cpu\ncache: {{num_blocks: 200}}\n")
            f.writelines(f"{name}: {text}\n" for name, text in sections.items())
        return path


@contextlib.contextmanager
def waiting_server(*flags):
    """Starts a server that binds its ports and waits for workers, which no one starts."""
    with Server(*flags, wait=False) as server:
        deadline = time.monotonic() + 30
        while "waiting for" not in server.text() and server.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        yield server


class StartTest(WithKeys):
    """Tests which settings and key files a server accepts at its start. Workers are never started: a server counts as started when it
    waits for them."""

    def outcome(self, topology, *flags):
        """Returns "starts", or the log of a server that refuses to start."""
        with waiting_server(topology, *flags) as server:
            if server.process.poll() is not None:
                self.assertEqual(server.process.returncode, 2, server.text())
                return server.text()
            server.process.kill()  # a server without workers has nothing to drain
            server.process.wait()
            return "starts"

    def external(self, bind, keys, insecure=False):
        entries = [f"bind: {bind}", f"ports: [{free_port()}, {free_port()}]"]
        entries += [f"keys: {self.keys.transport}"] if keys else []
        entries += ["insecure: true"] if insecure else []
        return {"transport": "{" + ", ".join(entries) + "}", "launch": "{method: external}"}

    def test_server_listens_beyond_loopback_only_with_keys(self):
        rows = 0
        for server_host in ("127.0.0.1", NETWORK, "0.0.0.0"):
            for api_keys in (False, True):
                for transport in ("127.0.0.1", NETWORK, "0.0.0.0"):
                    for curve in (False, True):
                        allowed = (server_host == "127.0.0.1" or api_keys) and (
                            transport == "127.0.0.1" or transport == NETWORK and curve)
                        topology = self.topology(**self.external(transport, curve))
                        flags = ["--host", server_host] + (["--api-key-file", self.keys.api_file] if api_keys else [])
                        with self.subTest(server=server_host, api_keys=api_keys, transport=transport, curve=curve):
                            outcome = self.outcome(topology, *flags)
                            self.assertEqual(outcome == "starts", allowed, outcome)
                            if not allowed:
                                self.assertRegex(outcome, "keygen|every interface")
                            rows += 1
        self.assertEqual(rows, 36)

    def test_insecure_settings_are_allowed_explicitly_and_logged_at_start(self):
        topology = self.topology(**self.external(NETWORK, False, insecure=True),
                                 server=f'{{listen: "{NETWORK}:8000", allow_unauthenticated: true}}')
        with waiting_server(topology) as server:
            self.assertIsNone(server.process.poll(), server.text())
            self.assertIn("transport.insecure", server.text())
            self.assertIn("server.allow_unauthenticated", server.text())
            server.process.kill()
            server.process.wait()

    def test_admin_port_beyond_loopback_needs_a_token(self):
        sections = self.external("127.0.0.1", False)
        self.assertIn("no token", self.outcome(self.topology(**sections, admin=f'{{listen: "{NETWORK}:8001"}}')))
        with_token = self.topology(**sections, admin=f'{{listen: "{NETWORK}:8001", token: {self.keys.admin_file}}}')
        self.assertEqual(self.outcome(with_token), "starts")
        both = self.topology(**sections, server=f"{{api_keys: {self.keys.api_file}}}", admin=f"{{token: {self.keys.api_file}}}")
        self.assertIn("are the same", self.outcome(both))

    def test_key_files_with_unsafe_mode_owner_or_link_are_refused(self):
        def link(path):
            os.rename(path, path + ".real")
            os.symlink(path + ".real", path)

        damages = {"0600": (lambda path: os.chmod(path, 0o600), "starts"), "0644": (lambda path: os.chmod(path, 0o644), "chmod 0600"),
                   "link": (link, "symbolic link"), "missing": (os.remove, "cannot read"),
                   "wrong owner": (lambda path: os.chown(path, 1234, 1234), "belongs to user 1234"),
                   "rubbish": (lambda path: write(path, b"rubbish\n"), "40 characters of Z85|SHA-256")}
        files = {"api.keys": "server", "admin.token": "admin", "transport/coordinator.secret": "transport"}
        for name, section in files.items():
            for damage, (apply, expected) in damages.items():
                with self.subTest(file=name, damage=damage), tempfile.TemporaryDirectory() as directory:
                    self.keys = Keys(directory)
                    apply(os.path.join(directory, name))
                    sections = self.external("127.0.0.1", section == "transport")
                    if section == "server":
                        sections["server"] = f"{{api_keys: {self.keys.api_file}}}"
                    if section == "admin":
                        sections["admin"] = f"{{token: {self.keys.admin_file}}}"
                    self.assertRegex(self.outcome(self.topology(**sections)), expected)

    def test_keygen_refuses_to_overwrite_an_existing_file(self):
        before = {path: read(path) for path in glob.glob(self.keys.transport + "/**/*", recursive=True) if os.path.isfile(path)}
        self.assertEqual(keygen("--transport", self.keys.transport, "--ranks", "3").count("\n"), 1)  # r2.secret, r2.pub
        for path, content in before.items():
            self.assertEqual(read(path), content)
        self.assertEqual(quire("keygen", "--admin", "--file", self.keys.admin_file).returncode, 2)
        second = keygen("--api", "bob", "--file", self.keys.api_file)
        with open(self.keys.api_file) as f:
            lines = f.read().splitlines()
        self.assertEqual([line.split(":")[0] for line in lines], ["alice", "bob"])
        self.assertNotIn(second, "".join(lines))
        for arguments in ((), ("--api", "x"), ("--transport", "d"), ("--admin",), ("--api", "a b", "--file", "f"),
                          ("--api", "a", "--admin", "--file", "f"), ("--admin", "--file", "f", "--ranks", "2")):
            self.assertEqual(quire("keygen", *arguments).returncode, 2, arguments)


def tcp_sockets():
    """Returns the TCP sockets of this namespace: [((address, port), inode)] of listening ones, and (local, remote) of connected
    ones."""
    listening, connected = [], set()
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}") as f:
            for line in f.readlines()[1:]:
                fields = line.split()
                ends = []
                for text in fields[1:3]:
                    host, port = text.split(":")
                    packed = b"".join(struct.pack("=I", int(host[i:i + 8], 16)) for i in range(0, len(host), 8))
                    ends.append((socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed), int(port, 16)))
                if fields[3] == "0A":
                    listening.append((ends[0], fields[9]))
                elif fields[3] in ("01", "02"):  # established, SYN sent
                    connected.add(tuple(ends))
    return listening, connected


def owners_of_sockets(pids):
    """Returns {inode of a socket: names of the programs that hold it}, for these processes."""
    owners = {}
    for pid in pids:
        with open(f"/proc/{pid}/comm") as f:
            program = f.read().strip()
        for path in glob.glob(f"/proc/{pid}/fd/*"):
            with contextlib.suppress(OSError):
                if (match := re.match(r"socket:\[(\d+)\]", os.readlink(path))):
                    owners.setdefault(match[1], set()).add(program)
    return owners


def processes_below(pid):
    """Returns the process and all its descendants."""
    found = [pid]
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(path) as f:
            for child in f.read().split():
                found += processes_below(int(child))
    return found


class RunningTest(WithKeys):
    def test_only_declared_addresses_listen_and_keys_stay_in_their_files(self):
        data, ctrl = free_port(), free_port()
        topology = self.topology(transport=f"{{bind: {NETWORK}, ports: [{data}, {ctrl}], keys: {self.keys.transport}}}", parallel="{tensor: 2}")
        flags = ("--api-key-file", self.keys.api_file, "--admin-token-file", self.keys.admin_file)
        with Server(topology, *flags) as server:
            headers = {"Authorization": "Bearer " + self.keys.api}
            status, answer = server.post("/v1/completions", {"prompt": [3, 4], "max_tokens": 4}, headers=headers)
            self.assertEqual(status, 200, answer)
            listening, connected = tcp_sockets()
            pids = processes_below(server.process.pid)
            owners = owners_of_sockets(pids)
            declared = {("127.0.0.1", server.port), ("127.0.0.1", server.admin_port), (NETWORK, data), (NETWORK, ctrl)}
            self.assertLessEqual(declared, {end for end, _ in listening})
            for end, inode in listening:
                if end not in declared:
                    # mpirun's own sockets
                    self.assertEqual(owners.get(inode), {"mpirun"}, f"{end} listens")
                    self.assertIn(end[0], ("127.0.0.1", "::1"), end)
            for end, inode in listening:
                if end in declared:
                    self.assertEqual(owners.get(inode), {"quire"}, end)
            # The server opens no connection to other hosts: both ends of every connection belong to its processes or to this
            # test.
            ports = {port for (_, port), _ in listening}
            for ends in connected:
                self.assertTrue(ends[0][1] in ports or ends[1][1] in ports, ends)
                self.assertIn(ends[1][0], ("127.0.0.1", NETWORK))
            secrets = [self.keys.read(name) for name in ("coordinator.secret", "workers/r0.secret", "workers/r1.secret")]
            secrets += [self.keys.api.encode(), self.keys.admin.encode()]
            self.assertGreaterEqual(len(pids), 4)  # coordinator, mpirun, two workers
            for pid in pids:
                for name in ("cmdline", "environ"):
                    content = read(f"/proc/{pid}/{name}")
                    self.assertFalse([s for s in secrets if s in content], f"{name} of {pid} holds a secret")
            for pid in [rank["pid"] for rank in server.admin_get("/admin/status", self.keys.admin)["ranks"]] + [server.process.pid]:
                with open(f"/proc/{pid}/status") as f:
                    self.assertIn("NoNewPrivs:\t1", f.read())
                with open(f"/proc/{pid}/limits") as f:
                    self.assertRegex(f.read(), r"Max core file size\s+0\s+0")
            for secret in secrets:
                self.assertNotIn(secret.decode(), server.text())


class PrivateNetworkTest(unittest.TestCase):
    """Tests where mpirun listens when all workers are on this host and use Unix sockets."""

    def mpirun_and_its_ports(self, server):
        """Returns (process id, TCP ports on which mpirun listens)."""
        pids = [pid for pid in processes_below(server.process.pid) if read(f"/proc/{pid}/comm").strip() == b"mpirun"]
        self.assertEqual(len(pids), 1)
        inodes = owners_of_sockets(pids)
        ports = set()
        for name in ("tcp", "tcp6"):
            for line in read(f"/proc/{pids[0]}/net/{name}").decode().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    ports.add(int(fields[1].split(":")[1], 16))
        return pids[0], ports

    def reachable(self, ports):
        def connects(port):
            with contextlib.suppress(OSError), socket.create_connection((NETWORK, port), timeout=5):
                return True
            return False
        return {port for port in ports if connects(port)}

    def start(self, network, *flags, **named):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        topology = os.path.join(directory.name, "t.yaml")
        write(topology, f"model: {{path: {TINY}, name: tiny}}\nbackend: cpu\ntransport: {{private_network: {network}}}\nparallel: {{tensor: 2}}\n".encode())
        os.chmod(directory.name, 0o755)
        return Server(topology, *flags, **named)

    def serves(self, server):
        status, answer = server.post("/v1/completions", {"prompt": [3, 4], "max_tokens": 4})
        self.assertEqual(status, 200, answer)

    def test_mpirun_is_unreachable_in_a_private_network(self):
        with self.start("on") as server:
            self.serves(server)
            pid, ports = self.mpirun_and_its_ports(server)
            self.assertTrue(ports)
            self.assertEqual(self.reachable(ports), set())
            self.assertNotEqual(os.readlink(f"/proc/{pid}/ns/net"), os.readlink("/proc/self/ns/net"))
            listening = {end for end, _ in tcp_sockets()[0]}
            self.assertEqual(listening & {end for end in listening if end[1] in ports}, set())
            # The worker that replaces a lost worker has a private network, too.
            lost = server.worker_pids()[1]
            os.kill(lost, signal.SIGKILL)
            deadline = time.monotonic() + 60
            while lost in server.worker_pids() or server.get("/admin/status", admin=True)["state"] != "serving":
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)
            self.serves(server)
            self.assertEqual(self.reachable(self.mpirun_and_its_ports(server)[1]), set())

    def test_mpirun_listens_on_loopback_alone_without_a_private_network(self):
        with self.start("off") as server:
            self.serves(server)
            _, ports = self.mpirun_and_its_ports(server)
            self.assertTrue(ports)
            self.assertEqual(self.reachable(ports), set())
            self.assertEqual({end[0] for end, _ in tcp_sockets()[0] if end[1] in ports} - {"127.0.0.1", "::1"}, set())
            self.assertIn("mpirun listens on loopback alone", server.text())
            for pid in server.worker_pids():  # only mpirun loads the library that confines it to the private network
                self.assertNotIn(b"quire-loopback", read(f"/proc/{pid}/environ") + read(f"/proc/{pid}/maps"))

    # This test shows that the two tests before it are able to fail.
    def test_mpirun_is_reachable_when_the_library_that_confines_it_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("quire", "quire-worker"):
                shutil.copy2(os.path.join(os.path.dirname(QUIRE), name), folder)
            os.chmod(folder, 0o755)
            topology = os.path.join(folder, "t.yaml")
            write(topology, f"model: {{path: {TINY}, name: tiny}}\nbackend: cpu\ntransport: {{private_network: off}}\nparallel: {{tensor: 2}}\n".encode())
            with unittest.mock.patch("server.QUIRE", os.path.join(folder, "quire")), Server(topology) as server:
                _, ports = self.mpirun_and_its_ports(server)
                self.assertTrue(self.reachable(ports))
                self.assertIn("listens on all interfaces", server.text())

    def test_mpirun_of_an_ordinary_user_is_unreachable_in_a_private_network(self):
        try:
            subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "-Urn", "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("ordinary users may not make network namespaces here")
        home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, home, True)
        os.chown(home, 65534, 65534)
        prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        for path in (QUIRE, TINY):
            if subprocess.run([*prefix, "test", "-r", path], check=False).returncode != 0:
                self.skipTest("user nobody may not read the build folder")
        with self.start("on", prefix=prefix, env={"HOME": home, "TMPDIR": home, "XDG_RUNTIME_DIR": home}) as server:
            self.serves(server)
            pid, ports = self.mpirun_and_its_ports(server)
            self.assertEqual(os.stat(f"/proc/{pid}").st_uid, 65534)
            self.assertTrue(ports)
            self.assertEqual(self.reachable(ports), set())

    def test_check_reports_whether_mpirun_has_a_private_network(self):
        for network, expected in (("auto", "mpirun runs in a network of its own"), ("off", "mpirun listens on loopback alone")):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
                f.write(f"model: {{path: {TINY}}}\nbackend: cpu\ntransport: {{private_network: {network}}}\n")
                f.flush()
                result = quire("check", f.name, "--port", str(free_port()), "--admin-port", str(free_port()))
            self.assertRegex(result.stdout, f"ok +network +this host +{expected}")


# --- the workers' port ---

KIND_JOIN, KIND_BEAT = 1, 7


def frame(kind, body=b"", magic=0x52495551, version=3, epoch=1, body_hash=0):
    return [struct.pack("<IHHQQQ", magic, version, kind, epoch, 0, body_hash), body]


class TransportTest(WithKeys):
    def setUp(self):
        super().setUp()
        self.data, self.ctrl = free_port(), free_port()
        self.file = self.topology(transport=f"{{bind: 127.0.0.1, ports: [{self.data}, {self.ctrl}], keys: {self.keys.transport}}}",
                                  parallel="{tensor: 2}", launch="{method: external}")
        self.context = zmq.Context()
        self.addCleanup(self.context.destroy, 0)

    def peer(self, identity, key=None, port=None):
        """Returns a DEALER socket, which connects to `port` (None: the data port). key: "r0" or "r1" for the key of that worker,
        "unknown" for a new key, "plain" for a user name and password, or None for no security."""
        s = self.context.socket(zmq.DEALER)
        s.linger, s.routing_id = 0, identity
        if key == "plain":
            s.plain_username, s.plain_password = b"admin", b"admin"
        elif key is not None:
            s.curve_serverkey = self.keys.read("coordinator.pub")
            if key == "unknown":
                s.curve_publickey, s.curve_secretkey = zmq.curve_keypair()
            else:
                s.curve_publickey, s.curve_secretkey = self.keys.read(f"workers/{key}.pub"), self.keys.read(f"workers/{key}.secret")
        s.connect(f"tcp://127.0.0.1:{port or self.data}")
        return s

    def workers(self, stderr=subprocess.DEVNULL):
        return subprocess.Popen(["mpirun", "-np", "2", "--oversubscribe", "--mca", "btl", "self,vader", "--mca", "oob_tcp_if_include", "lo",
                                 os.path.join(BUILD, "quire-worker"), "--coordinator", f"tcp://127.0.0.1:{self.data}", "--keys", self.keys.transport],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, text=True)

    def test_strangers_on_the_workers_ports_do_not_disturb_serving(self):
        with waiting_server(self.file, "--admin-token-file", self.keys.admin_file) as server:
            self.bother()
            mpirun = self.workers()
            try:
                server.wait_until_ready()
                self.bother()
                for _ in range(3):
                    status, answer = server.post("/v1/completions", {"prompt": [3, 4], "max_tokens": 8})
                    self.assertEqual(status, 200, answer)
                transport = server.admin_get("/admin/status", self.keys.admin)["transport"]
                self.assertTrue(transport["encrypted"])
                self.assertGreaterEqual(transport["refused_peers"], 2)
                self.assertGreaterEqual(transport["foreign_frames"], 1)
                self.assertEqual(server.terminate(), 0)
                self.assertEqual(mpirun.wait(timeout=15), 0)
            finally:
                mpirun.kill()
                mpirun.wait()

    def bother(self):
        """Connects to both ports with rubbish, with idle connections, without a known key, and with a worker's key under another rank's
        name. The server must ignore all these connections."""
        peers = []
        for port in (self.data, self.ctrl):
            for rubbish in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 5000, b"\x16\x03\x01\x02\x00" + os.urandom(500), b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f"):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as s:
                    s.sendall(rubbish)
            idle = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(50)]
            peers += [self.peer(b"e1.r0", key, port) for key in (None, "plain", "unknown")]
            # A connection with the worker's own key and another rank's name. The gate closes it before that rank
            # connects.
            peers.append(self.peer(b"e1.r0", "r1", port))
            for peer in peers:
                with contextlib.suppress(zmq.Again):
                    for message in (frame(KIND_JOIN), frame(KIND_BEAT), [b"x"], [b""] * 5):
                        peer.send_multipart(message, zmq.DONTWAIT)
            time.sleep(0.3)
            for peer in idle:
                peer.close()
        for peer in peers:
            peer.close()
        time.sleep(0.1)

    def test_malformed_frames_of_a_worker_end_the_server_with_an_error(self):
        rubbish = {"magic": frame(KIND_JOIN, epoch=0, magic=1), "version": frame(KIND_JOIN, epoch=0, version=99),
                   "hash": frame(KIND_JOIN, b"abcd", epoch=0), "body": frame(KIND_JOIN, random.Random(1).randbytes(200), epoch=0)}
        for what, message in rubbish.items():
            with self.subTest(what=what), waiting_server(self.file) as server:
                peer = self.peer(b"e0.r0.00000001", "r0")
                for ignored in (frame(77, epoch=0), frame(10, epoch=0), frame(KIND_JOIN, epoch=9), [b"x"], [b""] * 5):  # none is a Join
                    peer.send_multipart(ignored)
                peer.send_multipart(message)
                self.assertEqual(server.process.wait(timeout=20), 1, server.text())  # an error with a message, and no crash
                self.assertRegex(server.text(), "frame|version|rank 0")
                peer.close()

    def test_workers_refuse_a_key_file_that_others_can_read(self):
        os.chmod(os.path.join(self.keys.transport, "workers/r1.secret"), 0o644)
        with waiting_server(self.file):
            mpirun = self.workers(stderr=subprocess.PIPE)
            _, said = mpirun.communicate(timeout=30)
            self.assertNotEqual(mpirun.returncode, 0)
            self.assertRegex(said, "rank 1 .*r1.secret has mode 0644.*chmod 0600")


@verdict.alone
class FloodTest(WithKeys):
    """Tests strangers that send, or hold, as much as they can at the ports of workers."""

    def setUp(self):
        super().setUp()
        self.ports = free_port(), free_port()
        self.file = self.topology(transport=f"{{bind: 127.0.0.1, ports: [{self.ports[0]}, {self.ports[1]}], keys: {self.keys.transport}}}",
                                  parallel="{tensor: 2}", threads_per_worker="1")

    def status(self, server):
        return server.get("/admin/status", admin=True)

    @staticmethod
    def resident_mib(server):
        with open(f"/proc/{server.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024

    def test_floods_of_the_workers_ports_cost_neither_memory_nor_workers(self):
        answers = []
        with Server(self.file) as server:
            stream = threading.Thread(target=lambda: answers.append(server.post("/v1/completions", {"prompt": [5, 6, 7], "max_tokens": 1500, "ignore_eos": True})))
            stream.start()
            before, most = self.resident_mib(server), 0
            with contextlib.ExitStack() as floods:
                for port in self.ports:
                    floods.enter_context(strangers.crowd("127.0.0.1", port))
                end = time.monotonic() + 6
                while time.monotonic() < end:
                    most = max(most, self.resident_mib(server))
                    self.assertEqual(server.post("/v1/completions", {"prompt": [5], "max_tokens": 2})[0], 200)
            stream.join()
            self.assertLess(most - before, 64)
            self.assertEqual(answers[0][0], 200, answers)
            self.assertEqual(answers[0][1]["usage"]["completion_tokens"], 1500)
            self.assertNotIn("is lost", server.text())
            self.assertGreater(self.status(server)["transport"]["refused_peers"], 100)
            self.assertRegex(server.text(), r"turned away 127.0.0.1 from the workers' port")
            self.assertEqual(server.terminate(), 0)

    def test_workers_join_during_a_flood_of_their_ports(self):
        with contextlib.ExitStack() as floods, waiting_server(self.file) as server:
            for port in self.ports:
                floods.enter_context(strangers.crowd("127.0.0.1", port))
            server.wait_until_ready()
            self.assertEqual(server.post("/v1/completions", {"prompt": [5], "max_tokens": 2})[0], 200)

    def test_clients_are_served_when_silent_peers_fill_the_workers_ports(self):
        with Server(self.file, prefix=("prlimit", "--nofile=1024:1024")) as server, contextlib.ExitStack() as peers:
            for i in range(2000):
                peers.enter_context(socket.create_connection(("127.0.0.1", self.ports[i % 2]), timeout=5))
            for _ in range(100):
                self.assertEqual(server.post("/v1/completions", {"prompt": [5], "max_tokens": 1})[0], 200)
            self.assertLess(len(os.listdir(f"/proc/{server.process.pid}/fd")), 700)
            self.assertNotIn("is lost", server.text())


# --- the HTTP ports ---

DATA_ROUTES = ("/v1/models", "/v1/models/tiny", "/v1/completions", "/v1/chat/completions", "/v1/chat/completions/render", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/responses/resp_1", "/v1/embeddings", "/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score", "/classify", "/v1/classify", "/pooling", "/v1/pooling", "/openapi.json", "/tokenize", "/detokenize", "/tokenizer_info",
               "/version", "/load", "//", "/chat/", "/web", "/web/", "/web/chat/", "/web/dashboard/main.js", "/web/shared/../chat/main.js", "/metrics", "/docs", "/admin/status", "/v1", "/health/", "/health%2f", "//health", "/health;x")
ADMIN_ROUTES = ("/admin/status", "/admin/blocks", "/metrics", "/admin/flush_cache", "/admin/pin", "/admin/unpin", "/admin/pins", "/reset_prefix_cache",
                "/admin/reshard", "/admin/restart_workers", "/health", "/nope", "/admin/requests", "/admin/requests/x", "/admin/config",
                "/sleep", "/wake_up", "/is_sleeping", "/admin/topology", "/admin/block_map", "/admin/batches", "/admin/events", "/admin/help", "//", "/chat", "/web/", "/web/chat/main.js")
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
# What an error must not contain: paths of files, shared memory, addresses in memory.
LEAK = re.compile(r"/(dev|proc|tmp|home|root|usr|var|run|etc|work)/|0x[0-9a-f]{6,}|\.cc:|\.safetensors|quire\.[A-Za-z0-9]{6}")


class HttpKeysTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.keys = Keys(cls.directory.name)
        cls.server = Server("-tp", "1", "--api-key-file", cls.keys.api_file, "--admin-token-file", cls.keys.admin_file, model=TINY)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.directory.cleanup()

    def ask(self, path, key=None, method="GET", admin=False, body=None, lines=()):
        """Returns (status, headers, body) of one request on a connection of its own."""
        data = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(data)}", *lines]
        if key is not None:
            head.append("Authorization: Bearer " + key)
        with socket.create_connection(("127.0.0.1", self.server.admin_port if admin else self.server.port), timeout=30) as s:
            s.sendall("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + data)
            reply = b""
            while chunk := s.recv(65536):
                reply += chunk
        text = reply.decode("latin-1")
        status, _, rest = text.partition("\r\n")
        headers, _, body = rest.partition("\r\n\r\n")
        return int(status.split()[1]), headers, body

    def refused(self, *arguments, **named):
        """Sends a request without a valid key, again and again while the answer is 429 (too many such requests). Returns the other
        answer: (status, headers, body)."""
        while (answer := self.ask(*arguments, **named))[0] == 429:
            self.assertIn("Retry-After: 1", answer[1])
            time.sleep(0.2)
        return answer

    def test_no_route_answers_without_a_key(self):
        for admin, routes, other in ((False, DATA_ROUTES, self.keys.admin), (True, ADMIN_ROUTES, self.keys.api)):
            for path in routes:
                for method in METHODS:
                    key = other if method == "POST" else None  # the other port's key is not valid at this port
                    status, headers, body = self.refused(path, key, method, admin)
                    self.assertEqual(status, 401, (path, method))
                    self.assertIn("WWW-Authenticate: Bearer", headers)
                    if method != "HEAD":
                        error = json.loads(body)["error"]
                        kind = ("authentication_error", None) if path.startswith("/v1/messages") else ("AuthenticationError", 401)
                        self.assertEqual((error["type"], error.get("code")), kind)

    def test_public_paths_need_no_key(self):
        for path in ("/health", "/ready", "/ping"):
            self.assertEqual(self.ask(path)[0], 200)
        for path, admin in (("/", False), ("/chat", False), ("/web/chat/main.js", False), ("/", True), ("/web/dashboard/main.js", True)):
            self.assertEqual([self.ask(path, method=method, admin=admin)[0] for method in ("GET", "HEAD", "POST")], [200, 200, 401], path)

    def test_each_key_opens_only_its_own_port(self):
        self.assertEqual(self.ask("/v1/models", self.keys.api)[0], 200)
        self.assertEqual(self.ask("/v1/completions", self.keys.api, "POST", body={"prompt": [3], "max_tokens": 1})[0], 200)
        self.assertEqual(self.ask("/admin/status", self.keys.admin, admin=True)[0], 200)
        # two headers give different keys, and which one counts is ambiguous
        self.assertEqual(self.ask("/v1/models", self.keys.api, lines=("Authorization: Bearer x",))[0], 400)

    def test_a_server_that_holds_keys_leaves_no_core_dump(self):
        with open(f"/proc/{self.server.process.pid}/limits", encoding="ascii") as f:
            self.assertRegex(f.read(), r"Max core file size\s+0\s+0")

    def test_wrong_keys_are_rate_limited(self):
        statuses = [self.ask("/v1/models", "guess")[0] for _ in range(60)]
        self.assertEqual(set(statuses), {401, 429})
        self.assertEqual(self.ask("/v1/models", self.keys.api)[0], 200)

    def test_sighup_loads_new_keys_and_keeps_the_old_ones_when_the_file_is_bad(self):
        bob = keygen("--api", "bob", "--file", self.keys.api_file)
        self.assertEqual(self.refused("/v1/models", bob)[0], 401)
        self.server.reload("API keys again")
        self.assertEqual(self.ask("/v1/models", bob)[0], 200)
        os.chmod(self.keys.api_file, 0o644)
        self.server.reload("kept the API keys as they were")
        self.assertEqual(self.ask("/v1/models", bob)[0], 200)
        os.chmod(self.keys.api_file, 0o600)
        # An admin token is not an API key, even if its hash is in the file of API keys.
        before, token = read(self.keys.api_file), read(self.keys.admin_file)
        write(self.keys.api_file, before + b"dave" + token[token.index(b":"):])
        self.server.reload("are the same; make another")
        self.assertEqual(self.refused("/v1/models", self.keys.admin)[0], 401)
        self.assertEqual(self.ask("/v1/models", bob)[0], 200)
        write(self.keys.api_file, before)

    def test_clients_of_different_keys_share_no_prefix(self):
        carol = keygen("--api", "carol", "--file", self.keys.api_file)
        self.server.process.send_signal(signal.SIGHUP)
        while self.refused("/v1/models", carol)[0] != 200:
            time.sleep(0.02)

        def cached(key):
            _, _, body = self.ask("/v1/completions", key, "POST", body={"prompt": list(range(1, 101)), "max_tokens": 1})
            return json.loads(body)["usage"]["prompt_tokens_details"]["cached_tokens"]

        self.assertEqual((cached(self.keys.api), cached(carol)), (0, 0))
        self.assertGreater(cached(self.keys.api), 0)
        body = {"prompt": list(range(101, 201)), "api_key": carol}
        self.assertEqual(self.ask("/admin/pin", self.keys.admin, "POST", admin=True, body=body)[0], 200)

    def test_errors_contain_no_paths_addresses_or_host_names(self):
        bodies = [self.ask(path, self.keys.api, method, body=body)[2] for path in DATA_ROUTES for method in METHODS
                  for body in (None, {"prompt": "../../etc/passwd", "model": "/etc/passwd"}, {"messages": [{"role": "user", "content": 5}]})]
        bodies += [self.ask(path, self.keys.admin, method, admin=True)[2] for path in ADMIN_ROUTES for method in ("POST", "PUT", "DELETE")]
        bodies += [self.ask("/v1/completions", self.keys.api, "POST", body=body)[2] for body in
                   ({"prompt": [10**9]}, {"prompt": []}, {"prompt": [1] * 5000}, {"prompt": "x", "stop": 7}, {"prompt": "x", "chat_template": "{{ x }}"},
                    {"prompt_embeds": "/dev/shm/x"})]
        errors = [body for body in bodies if '"error"' in body]
        self.assertGreater(len(errors), 100)
        host = socket.gethostname()
        for body in errors:
            # words of the request may appear in the error
            echo_free = body.replace("/etc/passwd", "").replace("../..", "")
            self.assertIsNone(LEAK.search(echo_free), body)
            self.assertNotIn(f'"{host}"', body)

    def test_clients_cannot_inject_text_into_the_log(self):
        nasty = "x\x1b[2J\rFAKE\tlog"
        for field in ("User-Agent", "X-Request-Id", "Origin", "Cookie", "X-Forwarded-For"):
            self.ask("/v1/models", self.keys.api, lines=(f"{field}: {nasty.replace(chr(27), '').replace(chr(13), '')}",))
            self.ask("/v1/models", self.keys.api, lines=(f"{field}: {nasty}",))
        for body in ({"prompt": nasty, "max_tokens": 1, "user": nasty}, {"prompt": [3], "model": nasty}, {"prompt": [3], "request_id": nasty}):
            self.ask("/v1/completions", self.keys.api, "POST", body=body)
        self.ask("/v1/models/%0aFAKE", self.keys.api)
        text = self.server.text()
        self.assertNotIn("FAKE", text)
        self.assertFalse(set(text) & {chr(c) for c in range(32) if chr(c) != "\n"}, text)
        for secret in (self.keys.api, self.keys.admin, "Bearer"):
            self.assertNotIn(secret, text)


class WithoutKeysTest(unittest.TestCase):
    def test_sighup_does_not_end_a_server_without_keys(self):
        with Server("-tp", "1", model=TINY) as server:
            server.process.send_signal(signal.SIGHUP)
            for _ in range(20):  # once the I/O thread has answered so often, it has handled the signal
                self.assertEqual(server.get("/health"), {})
            self.assertIsNone(server.process.poll())


class BrowserTest(unittest.TestCase):
    """Sends requests that a foreign web page can make a browser send, to a server on loopback without keys."""

    def test_requests_from_pages_of_other_sites_are_refused(self):
        rows = ((b"localhost:1", b"", b"application/json", 200), (b"127.0.0.1", b"", b"application/json", 200), (b"evil.example", b"", b"application/json", 403),
                (b"localhost.evil.example", b"", b"application/json", 403), (NETWORK.encode(), b"", b"application/json", 403),
                (b"localhost", b"http://evil.example", b"application/json", 403), (b"localhost", b"null", b"", 403), (b"localhost", b"", b"text/plain", 415),
                (b"localhost", b"http://localhost", b"application/json", 200))
        body = b'{"prompt":[5],"max_tokens":1}'
        with Server("-tp", "1", model=TINY) as server:
            for host, origin, kind, expected in rows:
                lines = [b"Host: " + host, b"Content-Length: %d" % len(body)]
                lines += [b"Origin: " + origin] if origin else []
                lines += [b"Content-Type: " + kind] if kind else []
                with self.subTest(lines=lines), socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
                    s.sendall(b"POST /v1/completions HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body)
                    reply = s.recv(65536)
                    self.assertEqual(int(reply[9:12]), expected)
                    self.assertNotIn(b"Access-Control", reply)
            # A page whose host name is rebound to loopback cannot read anything either.
            with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
                s.sendall(b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n")
                self.assertEqual(int(s.recv(65536)[9:12]), 403)


if __name__ == "__main__":
    verdict.run_tests()
