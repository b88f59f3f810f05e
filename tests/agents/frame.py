"""Runs an unchanged coding agent with Quire: a network namespace without access to the Internet, a server with two workers, a proxy that
leaves the model one possible answer for each turn (a request of the agent and its answer), a worker killed in the middle, and a report. An
agent is a subclass
of Agent (README.md)."""
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

from passing_proxy import PassingProxy

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
INSIDE = "QUIRE_AGENTS_INSIDE"  # set in the process inside the namespace
PACKAGES = os.path.join(ROOT, "build", "agents")


class Call:
    """A turn in which the model calls the agent's own tool with these arguments."""

    def __init__(self, tool, **arguments):
        self.tool, self.arguments = tool, arguments

    @property
    def schema(self):
        properties = {name: {"const": value} for name, value in self.arguments.items()}
        return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


class Say:
    """A turn in which the model answers with this text; then the agent ends."""

    def __init__(self, text):
        self.text = text


class Agent:
    """A coding agent. `turns`: the answers that the model is forced to give, one per turn. `wanted`: the files that the agent must leave,
    by name, with their content."""

    name = None
    package = None      # name in requirements.txt
    path = None         # path of the requests that are turns
    turns = ()
    wanted = {}
    server_flags = ()

    def __init__(self):
        self.calls = {}  # call id -> number of the turn

    def version(self, site):
        raise NotImplementedError

    def start(self, site, home, work, url):
        """Returns (argv, environment) that start the agent on its task. site: folder of packages; home: an empty folder for the
        agent; work: its working folder; url: the server, without a path."""
        raise NotImplementedError

    # Methods for the agent's dialect. A forced call is a call of a tool that exists only for this turn. The tool's schema allows one value.
    # Every request offers the tools of all turns, so that all prompts have the same beginning. The agent sees
    # and sends the tool's usual name.

    def done(self, body):
        """Returns the number of forced calls in this request's conversation."""
        raise NotImplementedError

    def force(self, body, number, turn, token):
        """Changes the request so that only the answer of turn `number` is possible. turn: None after the last turn. token: the first
        token of a Say's text; None for a Call."""
        raise NotImplementedError

    def restore(self, event):
        """Changes an event of the answer so that it names the agent's own tool. Returns True if the event brings a piece of the
        answer."""
        raise NotImplementedError

    def usage(self, event):
        """Returns (tokens of the prompt, cached tokens among them) if the event has these counts; None otherwise."""
        raise NotImplementedError


def stands_for(number):
    """Returns the name of the tool that exists only for turn `number`. The first turn is 1."""
    return f"t{number:02}"


def enter_namespace():
    """Starts this program again in a network namespace that has only its own loopback. In that namespace, brings the loopback up."""
    if os.environ.get(INSIDE):
        _loopback_up()
        names = [name for _, name in socket.if_nameindex()]
        assert names == ["lo"], f"a namespace with {names} may have a way out"
        return
    flags = ["-n"] if os.geteuid() == 0 else ["-r", "-n"]
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.argv])


def _loopback_up():
    get_flags, set_flags, up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, get_flags, request))[1]
        fcntl.ioctl(control, set_flags, struct.pack("16sh14x", b"lo", flags | up))


def install():
    """Returns a folder with the packages that requirements.txt pins by hash. Fills the folder if this file is new or has changed."""
    requirements = os.path.join(ROOT, "tests", "agents", "requirements.txt")
    mark = os.path.join(PACKAGES, "requirements.txt")
    with open(requirements, encoding="utf-8") as f:
        wanted = f.read()
    if not os.path.exists(mark) or open(mark, encoding="utf-8").read() != wanted:
        shutil.rmtree(PACKAGES, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--require-hashes",
                        "--target", PACKAGES, "-r", requirements], check=True)
        shutil.copy(requirements, mark)
    return PACKAGES


class Turns:
    """The requests and answers that the proxy passed on, turn by turn."""

    def __init__(self):
        self.lock = threading.Lock()
        self.rows = []       # one row per turn
        self.failures = []   # (method, path, status, text) of every answer with status 400 or more
        self.others = []     # (method, path) of requests that are no turns


class Proxy(PassingProxy):
    """The proxy between the agent and the server. in_turn(number) is called when the answer to that turn has begun."""

    def __init__(self, agent, server, in_turn):
        super().__init__(f"127.0.0.1:{server.port}")
        self.agent, self.in_turn, self.turns = agent, in_turn, Turns()
        self.tokens = {number: _first_token(server, turn.text) for number, turn in enumerate(agent.turns, 1) if isinstance(turn, Say)}
        self.begin_serving()

    def request(self, method, path, raw):
        """Returns the body to send and a note: the number of the turn and when it began, or None when the request is no turn."""
        if method != "POST" or path != self.agent.path:
            return raw, None
        body = json.loads(raw)
        number = self.agent.done(body) + 1
        self.agent.force(body, number, self.agent.turns[number - 1] if number <= len(self.agent.turns) else None, self.tokens.get(number))
        return json.dumps(body).encode(), (number, time.monotonic())

    def answer(self, method, path, note, response):
        if response.status < 400 and note is not None:
            yield from self.stream(response, *note)
            return
        text = response.read()
        with self.turns.lock:
            self.turns.others.append((method, path))
            if response.status >= 400:
                self.turns.failures.append((method, path, response.status, text.decode(errors="replace")[:500]))
        yield text

    def stream(self, response, number, began):
        first, used = None, (0, 0)
        while line := response.readline():
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                if self.agent.restore(event) and first is None:
                    first = time.monotonic() - began
                    self.in_turn(number)
                used = self.agent.usage(event) or used
                line = b"data: " + json.dumps(event).encode() + b"\n"
            yield line
        with self.turns.lock:
            self.turns.rows.append((number, *used, first or 0.0, time.monotonic() - began))


def _first_token(server, text):
    status, answer = server.post("/tokenize", {"prompt": text, "add_special_tokens": False})
    assert status == 200, answer
    return answer["tokens"][0]


class Run:
    """The result of one run of an agent."""

    def __init__(self, agent, version, turns, status, output, files, killed, seconds, losses):
        self.agent, self.version, self.rows = agent, version, sorted(turns.rows)
        self.failures, self.others = turns.failures, turns.others
        self.status, self.output, self.files, self.killed, self.seconds, self.losses = status, output, files, killed, seconds, losses

    def shares(self):
        """Returns the cached share of the prompt for each turn from 2 on."""
        return [cached / prompt for number, prompt, cached, *_ in self.rows if number > 1 and prompt]

    def faults(self, least_share=0.95):
        """Returns the faults of the run, in words."""
        faults = []
        if self.status != 0:
            faults.append(f"exit status {self.status}")
        if self.failures:
            faults.append(f"answers of 400 or more: {self.failures}")
        if [row[0] for row in self.rows] != list(range(1, len(self.agent.turns) + 1)):
            faults.append(f"turns {[row[0] for row in self.rows]}, wanted 1 to {len(self.agent.turns)}")
        if self.files != self.agent.wanted:
            faults.append(f"files {self.files}, wanted {self.agent.wanted}")
        if not self.killed or not self.losses:
            faults.append("no worker was killed")
        low = [f"{share:.3f}" for share in self.shares() if share < least_share]
        if low:
            faults.append(f"shares of cached tokens below {least_share}: {low}")
        return faults

    def table(self):
        lines = ["| turn | prompt tokens | from the cache | share | first piece, s | whole, s |", "| --- | --- | --- | --- | --- | --- |"]
        for number, prompt, cached, first, whole in self.rows:
            share = f"{100 * cached / prompt:.1f} %" if prompt else ""
            mark = " (a worker killed)" if number == self.killed else ""
            lines.append(f"| {number}{mark} | {prompt} | {cached} | {share} | {first:.2f} | {whole:.2f} |")
        return "\n".join(lines)

    def report(self):
        shares = self.shares()
        faults = self.faults()
        least = f"{100 * min(shares):.1f} %" if shares else "none"
        middle = f"{statistics.median(row[3] for row in self.rows[1:]):.2f} s" if len(self.rows) > 1 else "none"
        return "\n".join([
            f"## {self.agent.name} {self.version}", "",
            f"{len(self.rows)} of {len(self.agent.turns)} turns, exit status {self.status}, {len(self.failures)} answers of 400 or more, "
            f"workers lost and replaced {self.losses} times, files {'as wanted' if self.files == self.agent.wanted else 'NOT as wanted'}; "
            f"{self.seconds:.0f} s. Least share from the cache from turn 2 on: {least}. Median time to the first piece from turn 2 on: {middle}.", "",
            self.table(), "", "Faults: " + ("; ".join(faults) if faults else "none") + "."])


def run(agent, model, *, kill_in=10, seconds=3600):
    """Runs the agent on its task. Call it in the namespace (enter_namespace), with packages installed. kill_in: the turn in which a
    worker is killed. seconds: the longest time of the run."""
    from server import Server
    site = PACKAGES
    killed = []

    with tempfile.TemporaryDirectory(prefix="quire-agent-") as folder, Server(*agent.server_flags, model=model) as server:
        def in_turn(number):
            if number == kill_in and not killed:
                killed.append(number)
                os.kill(server.worker_pids()[1], signal.SIGKILL)

        home, work = os.path.join(folder, "home"), os.path.join(folder, "work")
        os.mkdir(home)
        os.mkdir(work)
        proxy = Proxy(agent, server, in_turn)
        argv, env = agent.start(site, home, work, proxy.url)
        began = time.monotonic()
        process = subprocess.Popen(argv, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=_die_with_parent)
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        took = time.monotonic() - began
        losses = len(server.get("/admin/status", admin=True)["losses"])
        proxy.shutdown()
        return Run(agent, agent.version(site), proxy.turns, process.returncode, output, _files(work), killed[0] if killed else None, took, losses)


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _files(folder):
    """Returns the files in the folder and below by name with their content, without files whose names begin with a dot: such files belong
    to the agent."""
    found = {}
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                path = os.path.join(base, name)
                with open(path, encoding="utf-8", errors="replace") as f:
                    found[os.path.relpath(path, folder)] = f.read()
    return found
