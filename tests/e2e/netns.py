"""Makes nodes on one machine, for tests: network namespaces that a bridge joins, each with a host name of its own. Links can be cut, cut
in one direction, and restored. This needs root. Everything is made inside namespaces of this process: tests do not meet each other's
networks, and all of it disappears with the process."""
import contextlib
import ctypes
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_NOBODY = "02:00:00:00:00:99"
_NUMBERS = itertools.count()
# Sets the host name to the first argument, then executes the other arguments.
_ENTER = 'hostname "$0" && exec "$@"'


def _enter(namespace):
    """Returns words that, put before a command, run it in a namespace. `ip` is not used, because it would also mount /sys anew, which a
    container or a chroot may not allow."""
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def ip(*arguments, inside=None):
    before = _enter(inside) if inside else []
    done = subprocess.run([*before, "ip", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join([*before, 'ip', *arguments])}: {done.stderr.strip()}")


def unavailable():
    """Returns why this machine cannot make namespaces; None if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "nsenter", "unshare", "hostname"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    name = f"quire-{os.getpid()}-0-probe"
    try:
        ip("netns", "add", name)
        ip("link", "add", "bridge", "type", "bridge", inside=name)
    except OSError as error:
        return f"network namespaces are not allowed here: {error}"
    finally:
        _remove(name)
    return None


class Node:
    """Stands for a host: a network namespace. `address` is its address on the bridge's network, on the interface eth0."""

    def __init__(self, network, name, address):
        self.network, self.name, self.address = network, name, address
        self.host = f"{name}.{network.name}"  # the host name that its processes see
        self.namespace = f"{network.name}-{name}"
        self.port = f"to-{name}"  # the bridge's side of its link

    def command(self, *argv):
        """Returns the command line that runs argv on this node. The process that it starts becomes argv's program, with the same process
        id."""
        return [*_enter(self.namespace), "unshare", "--uts", "sh", "-c", _ENTER, self.host, *argv]

    @contextlib.contextmanager
    def inside(self):
        """Moves this thread into the node while the `with` block runs: sockets and processes that the thread makes belong to the node."""
        home = os.open(f"/proc/self/task/{_LIBC.gettid()}/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.namespace}", os.O_RDONLY)
        try:
            _setns(there)
            yield
        finally:
            _setns(home)
            os.close(home)
            os.close(there)

    def pids(self):
        """Returns the processes in this node's network, except this process."""
        return _pids_in(self.namespace)

    def link(self, up):
        """Cuts or restores the node's link."""
        ip("link", "set", self.port, "up" if up else "down", inside=self.network.switch)

    def mute(self, *others):
        """Makes frames from this node get lost on their way to `others` (without others: to all nodes), while the node still receives
        frames. The lost frames go to a hardware address that no node has."""
        for other in others or self.network.nodes:
            ip("neighbor", "replace", other.address, "lladdr", _NOBODY, "dev", "eth0", "nud", "permanent", inside=self.namespace)

    def unmute(self, *others):
        for other in others or self.network.nodes:
            ip("neighbor", "delete", other.address, "dev", "eth0", inside=self.namespace)


def _pids_in(namespace):
    wanted = os.stat(f"/run/netns/{namespace}").st_ino
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}/ns/net").st_ino == wanted and int(pid) != os.getpid():
                found.append(int(pid))
    return found


def _remove(namespace):
    """Removes a namespace, with every process in it. Only a test starts processes in such a namespace."""
    if not os.path.exists(f"/run/netns/{namespace}"):
        return
    for pid in _pids_in(namespace):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


def _abandoned():
    """Returns the names of namespaces whose tests were killed. A namespace's name contains the process id of its test."""
    names = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
    owned = [(name, re.match(r"quire-(\d+)-\d+-", name)) for name in names]
    return [name for name, match in owned if match and not os.path.exists(f"/proc/{match[1]}")]


def _setns(fd):
    if _LIBC.setns(fd, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Network:
    """Makes a network of nodes: with Network("a", "b") as net: net["a"].command(...). `agent` is the path of a program for the setting
    launch.agent, which is called as: agent HOST COMMAND..."""

    def __init__(self, *names):
        self.name = f"quire-{os.getpid()}-{next(_NUMBERS)}"
        self.switch = f"{self.name}-switch"
        self.nodes = [Node(self, name, f"10.77.0.{i}") for i, name in enumerate(names, 1)]
        self.directory = tempfile.mkdtemp(prefix=self.name + ".")
        self.agent = os.path.join(self.directory, "agent")

    def __getitem__(self, name):
        return next(node for node in self.nodes if node.name == name)

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *_):
        for namespace in [node.namespace for node in self.nodes] + [self.switch]:
            _remove(namespace)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _make(self):
        for namespace in _abandoned():
            _remove(namespace)
        ip("netns", "add", self.switch)
        ip("link", "add", "bridge", "up", "type", "bridge", "forward_delay", "0", inside=self.switch)
        for node in self.nodes:
            ip("netns", "add", node.namespace)
            ip("link", "set", "lo", "up", inside=node.namespace)
            ip("link", "add", "eth0", "type", "veth", "peer", "name", node.port, "netns", self.switch, inside=node.namespace)
            ip("address", "add", node.address + "/24", "dev", "eth0", inside=node.namespace)
            ip("link", "set", "eth0", "up", inside=node.namespace)
            ip("link", "set", node.port, "master", "bridge", "up", inside=self.switch)
        self._write_agent()

    def _write_agent(self):
        """Writes an agent that acts like ssh: it joins its arguments and gives them to a shell on the node. The shell gets only PATH and
        HOME of the agent's environment."""
        lines = ["#!/bin/sh", "host=$1; shift", 'case "$host" in']
        for node in self.nodes:
            enter = " ".join(shlex.quote(word) for word in node.command("sh", "-c"))
            lines.append(f'  {node.address}|{node.host}) exec env -i PATH="$PATH" HOME="$HOME" {enter} "$*" ;;')
        lines += ["esac", 'echo "agent: no node $host" >&2', "exit 255"]
        with open(self.agent, "w") as f:
            f.write("\n".join(lines) + "\n")
        os.chmod(self.agent, 0o700)
