#!/usr/bin/env python3
"""container_run.py FOLDER [BUILD]: builds deploy/docker/cpu.Dockerfile over a base image made by debootstrap, and runs the image as
deploy/docker/compose.yaml says. podman runs for an ordinary user without rights on this machine. The server answers, survives a
killed worker, and stops cleanly. Run by hand, as root: the script makes the user and removes it. Needs debootstrap, podman, crun,
uidmap, iproute2, PyYAML, the distribution's mirror and PyPI. The base stays in FOLDER for the next run.
With BUILD, the files installed from that build replace the result of the first stage, which compiles for more than half an hour.
If CCACHE_DIR is set, the first stage uses a copy of that folder."""
import contextlib
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

from debian_nodes import MOST_TOKENS, ROOT, Server, Steps, end_cleanly, expect, libraries_of, make_base, run, wait_for

OWNER = f"quire-{os.getpid()}"  # the ordinary user; a name that does not exist yet


class Owner:
    """The user that owns the images and containers, in namespaces of its own. The server has a network with only loopback, and control
    groups of version 2 only, as on Debian, whatever versions this machine mixes."""

    def __init__(self, undo):
        if subprocess.run(["id", OWNER], capture_output=True).returncode == 0:
            sys.exit(f"there is a user {OWNER} already")
        run("useradd", "--create-home", "--shell", "/bin/sh", OWNER)
        undo.callback(subprocess.run, ["userdel", "--remove", "--force", OWNER], capture_output=True)
        entry = pwd.getpwnam(OWNER)
        self.home, self._uid, self._gid = entry.pw_dir, entry.pw_uid, entry.pw_gid
        self._runtime = tempfile.mkdtemp(prefix=OWNER + ".", dir="/run")
        undo.callback(shutil.rmtree, self._runtime, ignore_errors=True)
        self.own(self._runtime)
        holder = subprocess.Popen(["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c",
                                   "umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && mount --make-rshared / && "
                                   "ip link set lo up && exec sleep infinity"], stdin=subprocess.DEVNULL)
        self._holder = holder.pid
        undo.callback(holder.wait)
        undo.callback(holder.kill)
        undo.callback(self._end_all)
        wait_for("the namespaces", lambda: "sleep" in open(f"/proc/{holder.pid}/comm", encoding="utf-8").read())

    def _end_all(self):
        subprocess.run(self.command("podman", "stop", "--all", "--time", "2"), capture_output=True)
        subprocess.run(self.command("podman", "unshare", "rm", "-rf", f"{self.home}/.local"), capture_output=True)
        # podman's pause process, and other processes of this user
        subprocess.run(["pkill", "-KILL", "--uid", str(self._uid)])

    def own(self, path):
        os.chown(path, self._uid, self._gid)
        for folder, folders, files in os.walk(path):
            for name in folders + files:
                os.chown(os.path.join(folder, name), self._uid, self._gid, follow_symlinks=False)

    def command(self, *words, network=False, **environment):
        """Returns a command line that runs the words as the owner. network: with this machine's network, for commands that fetch
        packages."""
        settings = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.home, "XDG_RUNTIME_DIR": self._runtime, "STORAGE_DRIVER": "overlay", **environment}
        spaces = ["--mount"] if network else ["--mount", "--net"]
        return ["nsenter", "--target", str(self._holder), *spaces, "setpriv", "--reuid", OWNER, "--regid", OWNER, "--init-groups",
                "env", "-i", *(f"{k}={v}" for k, v in settings.items()), "sh", "-c", f'cd {self.home} && exec "$@"', "sh", *words]

    def run(self, *words, network=False, **environment):
        return run(*self.command(*words, network=network, **environment))


def tracked_files(folder):
    """Copies the tracked files only, for a build that must not see other files."""
    names = run("git", "-C", ROOT, "ls-files", "-z").split("\0")
    for name in filter(None, names):
        place = os.path.join(folder, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, name), place, follow_symlinks=False)


def installed(owner, compiled):
    """Makes a build context that replaces the first stage: a build of this machine, installed as in /opt/quire."""
    context = os.path.join(owner.home, "compiled")
    place = os.path.join(context, "opt/quire")
    run("cmake", "--install", compiled, "--prefix", place, "--strip")
    with open(os.path.join(place, "runtime-packages"), "w", encoding="utf-8") as f:
        f.write("\n".join(libraries_of([os.path.join(place, "bin", name) for name in ("quire", "quire-worker")])) + "\n")
    with open(os.path.join(place, "sbom.cdx.json"), "w", encoding="utf-8") as f:
        f.write(run(os.path.join(ROOT, "deploy/sbom"), compiled))
    owner.own(context)
    return ["--build-context", f"build={context}"]


def build(owner, base, compiled, step):
    archive, source = os.path.join(owner.home, "base.tar"), os.path.join(owner.home, "source")
    with step("a bare Debian is the base image"):
        run("tar", "-C", base, "-cf", archive, ".")
        owner.own(archive)
        owner.run("podman", "import", "--quiet", archive, "localhost/debian:12-slim")
        digest = owner.run("podman", "image", "inspect", "--format", "{{.Digest}}", "localhost/debian:12-slim").split()[-1]
    tracked_files(source)
    owner.own(source)
    lent = []
    if os.environ.get("CCACHE_DIR"):
        cache = shutil.copytree(os.environ["CCACHE_DIR"], os.path.join(owner.home, "ccache"))
        owner.own(cache)
        lent = ["--volume", f"{cache}:/root/.cache/ccache"]
    arguments = ["build", "--network", "host", "--pull=never", *lent, "--file", f"{source}/deploy/docker/cpu.Dockerfile"]
    with step("a base without a digest is refused"):
        done = subprocess.run(owner.command("podman", *arguments, "--build-arg", "BASE=localhost/debian:12-slim", source, network=True),
                              capture_output=True, text=True)
        expect("the build", (done.returncode != 0, "has no digest" in done.stdout + done.stderr), (True, True))
    if compiled:
        arguments += installed(owner, compiled)
    with step("deploy/docker/cpu.Dockerfile builds" + (", its first stage apart" if compiled else "")):
        owner.run("podman", *arguments, "--build-arg", f"BASE=localhost/debian@{digest}", "--tag", "quire:cpu", source, network=True)


def composed(model):
    """Translates deploy/docker/compose.yaml into arguments of podman. podman-compose of Debian 12 would add a network besides the host's.
    An unknown key is an error."""
    with open(os.path.join(ROOT, "deploy/docker/compose.yaml"), encoding="utf-8") as f:
        service = yaml.safe_load(f)["services"]["quire"]
    command, image = service.pop("command"), service.pop("image")
    words = {"network_mode": "--network", "volumes": "--volume", "tmpfs": "--tmpfs", "shm_size": "--shm-size", "cap_drop": "--cap-drop",
             "security_opt": "--security-opt", "restart": "--restart", "read_only": "--read-only", "stop_grace_period": "--stop-timeout"}
    del service["build"]
    arguments = []
    for key, value in service.items():
        for each in value if isinstance(value, list) else [value]:
            each = str(each).lower() if isinstance(each, bool) else re.sub(r"\$\{MODEL:\?[^}]*\}", model, str(each))
            arguments.append(f"{words[key]}={each.removesuffix('s') if key == 'stop_grace_period' else each}")
    return [*arguments, image, *command]


def in_container(owner, *words):
    return owner.run("podman", "exec", owner.container, *words)


def workers(owner):
    """Returns the workers' process ids inside the container; the image has no pgrep."""
    found = in_container(owner, "sh", "-c", "grep -lx quire-worker /proc/[0-9]*/comm || true")
    return re.findall(r"/proc/(\d+)/", found)


def main():
    if len(sys.argv) not in (2, 3) or os.geteuid() != 0:
        sys.exit("as root: container_run.py FOLDER [BUILD]")
    end_cleanly()
    step = Steps()
    with contextlib.ExitStack() as undo:
        base = os.path.join(sys.argv[1], "base")
        if not os.path.exists(os.path.join(base, "etc/os-release")):
            make_base(base)
        owner = Owner(undo)
        build(owner, base, sys.argv[2] if len(sys.argv) == 3 else None, step)
        print("  " + owner.run("podman", "--version").strip() + ", " +
              owner.run("podman", "info", "--format", "storage {{.Store.GraphDriverName}}, rootless {{.Host.Security.Rootless}}").splitlines()[-1])
        serve(owner, step)
    print(f"{step.done} steps")


def serve(owner, step):
    with step("  the image runs as a user of its own, and says what it is made of"):
        expect("the user", owner.run("podman", "run", "--rm", "--network", "none", "--entrypoint", "id", "quire:cpu", "-u").split()[-1], "10001")
        bill = json.loads(owner.run("podman", "run", "--rm", "--network", "none", "--entrypoint", "cat", "quire:cpu", "/opt/quire/sbom.cdx.json"))
        expect("the bill of materials", bill["bomFormat"], "CycloneDX")
    size = int(owner.run("podman", "image", "inspect", "--format", "{{.Size}}", "quire:cpu").split()[-1])
    print(f"  {size / 2**20:.0f} MiB, {owner.run('podman', 'run', '--rm', '--network', 'none', 'quire:cpu', '--version').split(chr(10))[0]}")
    model = shutil.copytree(os.path.join(ROOT, "tests/golden/models/gqa"), os.path.join(owner.home, "model"))
    owner.own(model)
    with step("deploy/docker/compose.yaml starts it, for a user without rights, with a root that is read only"):
        owner.container = "served"
        owner.run("podman", "run", "--detach", "--name", owner.container, *composed(model))
        server = Server(owner)
        server.wait_until_ready(120)
    with step("  two workers share the model; it answers"):
        right = server.ask(MOST_TOKENS)
        expect("an answer", bool(right), True)
        expect("workers", len(workers(owner)), 2)
        state = in_container(owner, "sh", "-c", "id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status; touch /x 2>&1 || true")
        expect("rights", re.sub(r"\s+", " ", state).strip(), "10001 CapEff: 0000000000000000 NoNewPrivs: 1 touch: cannot touch '/x': Read-only file system")
    with step("a worker is killed in it while a request runs: same answer"):
        server.survive(lambda: in_container(owner, "sh", "-c", f"kill -KILL {workers(owner)[0]}"), right)
        wait_for("two workers", lambda: len(workers(owner)) == 2)
    with step("a request that runs is answered while the container stops"):
        asked = server.hold()
        stop = subprocess.Popen(owner.command("podman", "stop", owner.container), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_for("no more requests", lambda: not server.is_ready())
        server.admin("/admin/resume", {})
        answer = asked.answer()
        expect("the answer", answer, right[:len(answer)])
        expect("the stop", stop.wait(60), 0)
        expect("the status", owner.run("podman", "inspect", "--format", "{{.State.ExitCode}} {{.State.Status}}", owner.container).split()[-2:], ["0", "exited"])
    with step("  nothing of it is left"):
        left = subprocess.run(["pgrep", "--uid", str(pwd.getpwnam(OWNER).pw_uid), "-x", "quire|quire-worker|tini"], capture_output=True, text=True).stdout
        expect("processes", left, "")
        owner.run("podman", "rm", owner.container)


if __name__ == "__main__":
    main()
