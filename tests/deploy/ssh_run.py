#!/usr/bin/env python3
"""ssh_run.py BUILD [FOLDER]: serves a model on three nodes that reach each other only by ssh. Each node has its own sshd, network,
processes, mounts and host name; an ordinary user has a key and a home that the nodes share. Two nodes answer as one worker does,
and survive a killed worker and a node that loses power. Run by hand, as root; debian_nodes.py lists what it needs. The nodes' Debian stays
in FOLDER for the next run."""
import os
import shutil
import sys

from debian_nodes import ROOT, USER, Nodes, Steps, expect, prepared, right_answer, wait_for

PACKAGES = ["openssh-server", "openssh-client", "openmpi-bin"]


def topology(nodes, names):
    entries = ", ".join(f"{{host: {name}, interface: eth0, slots: 1}}" for name in names)
    return f"""\
model: {{path: /home/{USER}/model, name: tiny}}
backend: cpu
threads_per_worker: 1
parallel: {{tensor: 2}}
nodes: [{entries}, {{host: node3, interface: eth0, slots: 1, spare: true}}]
transport: {{bind: {nodes[0].address}, ports: [5570, 5571], keys: /home/{USER}/keys}}
launch: {{method: mpirun, agent: ssh}}
"""


def main():
    step = Steps()
    with prepared(sys.argv[1:], PACKAGES) as root, Nodes(root, "node1", "node2", "node3") as nodes:
        with open(os.path.join(nodes.home, "serve.log"), "w", encoding="utf-8") as log:
            try:
                serve_over_ssh(nodes, step, log)
            except Exception:
                print(open(log.name, encoding="utf-8").read()[-8000:], file=sys.stderr)
                raise
    print(f"{step.done} steps")


def serve_over_ssh(nodes, step, log):
    first, second = nodes[0], nodes[1]
    with step("three nodes with a sshd each; the user's key opens them without a question"):
        shutil.copytree(os.path.join(ROOT, "tests/golden/models/gqa"), os.path.join(nodes.home, "model"))
        for node in nodes:
            node.run("install", "-d", "-m", "0755", "/run/sshd")
            node.start("/usr/sbin/sshd", "-D", "-e", log=log)
        first.run("sh", "-c", "umask 077 && mkdir .ssh && ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519 && "
                  "cp .ssh/id_ed25519.pub .ssh/authorized_keys", user=USER)
        names = [node.name for node in nodes]
        for name in names:
            wait_for(f"sshd on {name}", lambda name=name: name in first.run("ssh-keyscan", name))
        first.run("sh", "-c", f"ssh-keyscan {' '.join(names)} > .ssh/known_hosts", user=USER)
        for name in names:
            expect("the host", first.run("ssh", name, "hostname", user=USER).strip(), name)
    print("  " + first.run("ssh", "-V").strip() + ", " + first.run("mpirun", "--version", user=USER).splitlines()[0])
    right, server = right_answer(first, step, log)
    first.run("quire", "keygen", "--transport", "keys", "--ranks", "2", user=USER)
    with open(os.path.join(nodes.home, "topology.yaml"), "w", encoding="utf-8") as f:
        f.write(topology(nodes, ["node1", "node2"]))
    with step("quire check finds nothing to object to"):
        first.run("quire", "check", "topology.yaml", user=USER)
    with step("quire serve starts a worker on each of two nodes"):
        serving = first.start("quire", "serve", "topology.yaml", user=USER, log=log)
        server.wait_until_ready(120)
        expect("the ranks' hosts", server.hosts(), ["node1", "node2"])
        expect("workers' processes", [len(node.pids("quire-worker")) for node in nodes], [1, 1, 0])
        expect("whose they are", second.run("sh", "-c", "ps -o user= -C quire-worker").split(), [USER])
    with step("  they answer as one worker does"):
        expect("the answer", server.ask(60), right[:60])
        expect("encryption", server.admin("/admin/status")["transport"]["encrypted"], True)
    with step("a worker is killed on the second node while a request runs: same answer"):
        server.survive(lambda: second.run("kill", "-KILL", *second.pids("quire-worker")), right)
        expect("the ranks' hosts", server.hosts(), ["node1", "node2"])
    with step("the second node loses power: same answer, and the spare node has its place"):
        server.survive(lambda: nodes.power_off(1), right)
        expect("the ranks' hosts", server.hosts(), ["node1", "node3"])
    with step("a signal ends the server, with status 0"):
        first.run("kill", *first.pids("quire"))
        expect("the status", serving.wait(timeout=60), 0)
    with step("  nothing of it is left on the nodes that live"):
        left = [nodes[0], nodes[2]]
        wait_for("no process", lambda: [node.pids("quire") + node.pids("quire-worker") + node.pids("orted") for node in left] == [[], []], 15)
        for node in left:
            expect("shared memory", node.run("sh", "-c", "ls /dev/shm | grep -E 'quire|vader' || true"), "")


if __name__ == "__main__":
    main()
