"""Several Debian machines on one host, for tests outside the suite: a bare Debian made by debootstrap, which systemd-nspawn runs as
several nodes. Each node has its own processes, mounts, network and host name; a bridge joins the nodes. Run by hand, as root.
Needs debootstrap, systemd-container, iproute2 and the distribution's mirror."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import netns  # noqa: E402

RELEASE = "bookworm"
# The packages of every node. Scripts add further packages, and ldd finds the libraries of the programs.
BASE = ["ca-certificates", "iproute2", "procps", "curl"]
USER = "serving"  # an ordinary user; all nodes share its home, as on most clusters
MOST_TOKENS = 400  # most tokens of one answer
_PATH = "/opt/quire/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(*command, **options):
    """Runs a command that must succeed; returns its output."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def wait_for(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(RuntimeError, OSError, ValueError):
            if condition():
                return
        time.sleep(0.2)
    raise RuntimeError(f"not within {seconds} s: {what}")


def mirror():
    return run("apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {RELEASE}").splitlines()[0]


def libraries_of(programs):
    """Returns the packages of the libraries that these programs load."""
    paths = {os.path.realpath(path) for path in re.findall(r"=> (/\S+)", run("ldd", *programs))}
    owners = subprocess.run(["dpkg", "-S", *sorted(paths)], capture_output=True, text=True).stdout
    return sorted({line.split(":")[0] for line in owners.splitlines()})


def make_base(folder):
    """Makes a bare Debian with this machine's package source and trusted certificates."""
    run("debootstrap", "--variant=minbase", "--include=" + ",".join(BASE), RELEASE, folder, mirror())
    shutil.copy("/etc/resolv.conf", os.path.join(folder, "etc/resolv.conf"))
    for shared in ("/etc/apt/apt.conf.d", "/usr/local/share/ca-certificates"):
        if os.path.isdir(shared):
            shutil.copytree(shared, os.path.join(folder, shared[1:]), dirs_exist_ok=True)
    run("chroot", folder, "update-ca-certificates", env={"PATH": _PATH})


def install(folder, packages):
    policy = os.path.join(folder, "usr/sbin/policy-rc.d")  # so that no service starts while packages are installed
    with open(policy, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\nexit 101\n")
    os.chmod(policy, 0o755)
    environment = {"PATH": _PATH, "DEBIAN_FRONTEND": "noninteractive"}
    run("chroot", folder, "apt-get", "update", env=environment)
    run("chroot", folder, "apt-get", "install", "--yes", "--no-install-recommends", *packages, env=environment)
    os.remove(policy)


def install_quire(folder, build):
    """Installs the programs of a build of this distribution into /opt/quire/bin; returns the packages that they need."""
    programs = [os.path.join(build, name) for name in ("quire", "quire-worker")]
    place = os.path.join(folder, "opt/quire/bin")
    os.makedirs(place, exist_ok=True)
    for program in programs:
        run("strip", "-o", os.path.join(place, os.path.basename(program)), program)
    return libraries_of(programs)


def end_cleanly():
    """Makes SIGTERM end this script with its clean-up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@contextlib.contextmanager
def prepared(arguments, packages):
    """Yields the root file system of the nodes: a bare Debian with BUILD's programs and these packages. The file system stays in FOLDER for
    the next run; without FOLDER it is temporary."""
    if len(arguments) not in (1, 2) or os.geteuid() != 0:
        sys.exit(f"as root: {os.path.basename(sys.argv[0])} BUILD [FOLDER]")
    end_cleanly()
    with contextlib.ExitStack() as undo:
        folder = arguments[1] if len(arguments) == 2 else undo.enter_context(tempfile.TemporaryDirectory(prefix="quire-debian.", dir="/var/tmp"))
        root = os.path.join(folder, "root")
        if not os.path.exists(os.path.join(root, "etc/os-release")):
            make_base(root)
        install(root, [*install_quire(root, arguments[0]), *packages])
        if subprocess.run(["chroot", root, "id", USER], capture_output=True).returncode != 0:
            run("chroot", root, "useradd", "--no-create-home", "--shell", "/bin/sh", USER)
        yield root


class Node:
    """A node. Its first process is that of systemd-nspawn, and both end together."""

    def __init__(self, root, node, shared):
        self.name, self.address = node.name, node.address
        self._nspawn = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--volatile=overlay", f"--directory={root}",
             f"--machine={node.name}", f"--hostname={node.name}", f"--network-namespace-path=/run/netns/{node.namespace}",
             f"--bind={shared}:/home/{USER}", "--as-pid2", "/bin/sleep", "infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(f"node {self.name}", self._find_leader)

    def _find_leader(self):
        children = subprocess.run(["pgrep", "--parent", str(self._nspawn.pid), "--oldest"], capture_output=True, text=True).stdout.split()
        self._leader = children[0] if children else None
        return self._leader and self.run("hostname").strip() == self.name

    def command(self, *words, user="root", **environment):
        """Returns a command line that runs the words inside the node, without this machine's environment."""
        home = "/root" if user == "root" else f"/home/{user}"
        settings = {"PATH": _PATH, "HOME": home, "USER": user, "LANG": "C.UTF-8", **environment}
        become = [] if user == "root" else ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
        return ["nsenter", "--target", self._leader, "--all", "/usr/bin/env", "-i", *(f"{k}={v}" for k, v in settings.items()),
                *become, "sh", "-c", f'cd {home} && exec "$@"', "sh", *words]

    def run(self, *words, user="root", **environment):
        return run(*self.command(*words, user=user, **environment))

    def start(self, *words, log, user="root", **environment):
        return subprocess.Popen(self.command(*words, user=user, **environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def pids(self, program):
        """Returns the process ids of this program inside the node."""
        return subprocess.run(self.command("pgrep", "-x", program[:15]), capture_output=True, text=True).stdout.split()

    def stop(self):
        self._nspawn.terminate()
        self._nspawn.wait()


class Nodes:
    """with Nodes(root, "node1", "node2") as nodes: nodes[0].run("true"). `home` is the shared home of USER."""

    def __init__(self, root, *names):
        self._root, self._network = root, netns.Network(*names)
        self._up = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as up:
            network = up.enter_context(self._network)
            self.home = up.enter_context(tempfile.TemporaryDirectory(prefix="quire-nodes."))
            with open(os.path.join(self._root, "etc/hosts"), "w", encoding="utf-8") as f:
                f.write("127.0.0.1 localhost\n" + "".join(f"{node.address} {node.name}\n" for node in network.nodes))
            entry = re.search(rf"^{USER}:x:(\d+):(\d+):", open(os.path.join(self._root, "etc/passwd"), encoding="utf-8").read(), re.M)
            os.chmod(self.home, 0o755)
            os.chown(self.home, int(entry[1]), int(entry[2]))
            self._nodes = []
            for node in network.nodes:
                self._nodes.append(Node(self._root, node, self.home))
                up.callback(self._nodes[-1].stop)
            self._up = up.pop_all()
        return self

    def __exit__(self, *_):
        self._up.close()

    def __getitem__(self, index):
        return self._nodes[index]

    def __len__(self):
        return len(self._nodes)

    def power_off(self, index):
        """Ends a node as a loss of power does: cuts its network first, so that no other node notices the end of its processes."""
        self._network.nodes[index].link(False)
        self[index].stop()


class Steps:
    """Prints one line for each step, and ends the run at the first failure."""

    def __init__(self):
        self.done = 0

    @contextlib.contextmanager
    def __call__(self, what):
        print(f"{what:<96}", end="", flush=True)
        try:
            yield
        except Exception as error:
            print(f"FAILED\n{error}", flush=True)  # printed before the clean-up
            raise
        self.done += 1
        print("ok", flush=True)


class Server:
    """A server on a node; requests are sent from that node."""

    def __init__(self, node, port=8000, admin_port=8001):
        self._node, self._port, self._admin = node, port, admin_port

    def _curl(self, port, path, body):
        data = [] if body is None else ["--data", json.dumps(body), "--header", "Content-Type: application/json"]
        return self._node.command("curl", "--silent", "--show-error", "--fail-with-body", *data, f"http://127.0.0.1:{port}{path}")

    def admin(self, path, body=None):
        return json.loads(run(*self._curl(self._admin, path, body)))

    def ask(self, max_tokens):
        """Returns the tokens of a greedy answer: the same question always has the same answer."""
        return self.begin(max_tokens).answer()

    def begin(self, max_tokens):
        body = {"prompt": [5, 6, 7], "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        return Asked(self._curl(self._port, "/v1/completions", body))

    def tokens_in(self, seconds):
        """Estimates how many tokens take this many seconds, on a fast machine or a busy one."""
        few = 30
        begin = time.monotonic()
        self.ask(few)
        return max(few, min(MOST_TOKENS, int(few * seconds / (time.monotonic() - begin))))

    def wait_until_ready(self, seconds=60):
        wait_for("an answer", self.is_ready, seconds)

    def hosts(self):
        return [rank["host"] for rank in self.admin("/admin/status")["ranks"]]

    def is_ready(self):
        try:
            run(*self._curl(self._port, "/ready", None))
        except RuntimeError:
            return False
        return True

    def hold(self):
        """Starts a request and pauses planning while it runs. A fast machine may finish the request first: then tries again."""
        for _ in range(20):
            asked = self.begin(self.tokens_in(4))
            self.admin("/admin/pause", {})
            if self.admin("/admin/status")["running"] == 1:
                return asked
            self.admin("/admin/resume", {})
            asked.answer()
        raise RuntimeError("no request could be held while it ran")

    def survive(self, act, right):
        """Pauses planning during a request, calls act(), which ends a worker or node, and resumes planning. The answer must equal the beginning of
        `right`, which is long enough."""
        epoch = self.admin("/admin/status")["epoch"]
        asked = self.hold()
        act()
        wait_for("the loss to be noticed", lambda: self.admin("/admin/status")["epoch"] > epoch)
        self.admin("/admin/resume", {})
        answer = asked.answer()
        expect("the answer", answer, right[:len(answer)])


def right_answer(node, step, log):
    """Returns the answer that one worker gives on a node, for comparison, with the model in the shared home; and a Server of that node."""
    with step("one worker on one node answers, for comparison"):
        alone = node.start("quire", "serve", "model", "-tp", "1", "--threads-per-worker", "1", "--backend", "cpu", user=USER, log=log)
        server = Server(node)
        server.wait_until_ready()
        right = server.ask(MOST_TOKENS)
        node.run("kill", *node.pids("quire"))
        alone.wait(timeout=60)
    return right, server


class Asked:
    """A request that has been sent."""

    def __init__(self, command):
        self._curl = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def answer(self):
        out = self._curl.communicate(timeout=300)[0]
        if self._curl.returncode != 0:
            raise RuntimeError(f"no answer: {out}")
        return json.loads(out)["choices"][0]["token_ids"]


def expect(what, found, wanted):
    if found != wanted:
        raise RuntimeError(f"{what}: {found!r} instead of {wanted!r}")
