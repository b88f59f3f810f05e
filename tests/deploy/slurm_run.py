#!/usr/bin/env python3
"""slurm_run.py BUILD [FOLDER]: runs deploy/slurm/quire.sbatch on Debian's Slurm: munge, slurmctld and two nodes with a slurmd each.
Two workers on two nodes share a model, answer as one worker does, survive a killed worker, and end with their job. Run by hand, as
root; debian_nodes.py lists what it needs. The nodes' Debian stays in FOLDER for the next run."""
import os
import shutil
import sys

from debian_nodes import ROOT, USER, Nodes, Steps, expect, prepared, right_answer, wait_for

# Slurm's MPI plugin loads libpmix.so, a name that only libpmix-dev provides.
PACKAGES = ["slurmctld", "slurmd", "slurm-client", "munge", "openmpi-bin", "libpmix-dev"]
SLURM = """\
ClusterName=quire
SlurmctldHost=node1
AuthType=auth/munge
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
MailProg=/bin/true
NodeName=node[1-2] CPUs=2 RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def start_slurm(nodes, log):
    daemons = []
    for node in nodes:
        node.run("install", "-d", "-o", "munge", "/run/munge")
        node.run("setpriv", "--reuid", "munge", "--regid", "munge", "--init-groups", "munged")
        node.run("install", "-d", "-o", "slurm", "/var/lib/slurm/slurmctld")
        if node is nodes[0]:
            daemons.append(node.start("slurmctld", "-D", log=log))
        daemons.append(node.start("slurmd", "-D", log=log))
    return daemons


def state_of(node, job):
    shown = node.run("scontrol", "--oneliner", "show", "job", job)
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)


def main():
    step = Steps()
    with prepared(sys.argv[1:], PACKAGES) as root:
        with open(os.path.join(root, "etc/slurm/slurm.conf"), "w", encoding="utf-8") as f:
            f.write(SLURM)
        with Nodes(root, "node1", "node2") as nodes, open(os.path.join(nodes.home, "slurm.log"), "w", encoding="utf-8") as log:
            try:
                serve_in_a_job(nodes, step, log)
            except Exception:
                for name in ("slurm.log", "job.log"):
                    path = os.path.join(nodes.home, name)
                    if os.path.exists(path):
                        print(f"--- {name}\n{open(path, encoding='utf-8').read()[-6000:]}", file=sys.stderr)
                raise
    print(f"{step.done} steps")


def serve_in_a_job(nodes, step, log):
    first, second = nodes
    home = f"/home/{USER}"
    shutil.copytree(os.path.join(ROOT, "tests/golden/models/gqa"), os.path.join(nodes.home, "model"))
    shutil.copy(os.path.join(ROOT, "deploy/slurm/quire.sbatch"), nodes.home)
    with step("munge, slurmctld and two slurmd start; both nodes are idle"):
        start_slurm(nodes, log)
        wait_for("two idle nodes", lambda: first.run("sinfo", "-h", "-o", "%D %t").split() == ["2", "idle"])
    print("  " + first.run("sinfo", "--version").strip() + ", " + first.run("mpirun", "--version", user=USER).splitlines()[0])
    right, server = right_answer(first, step, log)
    with step("without keys a job on two nodes is refused, and the remedy is named"):
        done = first.run("sh", "-c", "sbatch --wait --nodes 2 --ntasks-per-node 1 -o refused.log quire.sbatch model || cat refused.log", user=USER)
        if "quire keygen --transport" not in done:
            raise RuntimeError(done)
    with step("an ordinary user submits the job: two nodes, a worker on each"):
        first.run("quire", "keygen", "--transport", "keys", "--ranks", "2", user=USER)
        job = first.run("sbatch", "--parsable", "--nodes", "2", "--ntasks-per-node", "1", "-o", "job.log", "quire.sbatch", f"{home}/model",
                        f"{home}/keys", user=USER).strip()
        server.wait_until_ready(120)
        expect("the job's nodes", state_of(first, job)["NodeList"], "node[1-2]")
        expect("workers' processes", [len(node.pids("quire-worker")) for node in nodes], [1, 1])
    with step("  it answers as one worker does"):
        expect("the answer", server.ask(60), right[:60])
        expect("encryption", server.admin("/admin/status")["transport"]["encrypted"], True)
    with step("a worker is killed on the second node while a request runs: same answer"):
        server.survive(lambda: second.run("kill", "-KILL", *second.pids("quire-worker")), right)
        expect("the job's state", state_of(first, job)["JobState"], "RUNNING")
    with step("so is the one on the first node: same answer"):
        server.survive(lambda: first.run("kill", "-KILL", *first.pids("quire-worker")), right)
    with step("  the step that Slurm started is another one, with a worker on each node"):
        wait_for("two workers", lambda: [len(node.pids("quire-worker")) for node in nodes] == [1, 1])
        expect("steps", int(server.admin("/admin/status")["epoch"]) >= 3, True)
    with step("a signal ends the job; it is complete, with status 0"):
        first.run("scancel", "--batch", "--signal=TERM", job, user=USER)
        wait_for("the job's end", lambda: state_of(first, job)["JobState"] not in ("RUNNING", "COMPLETING"))
        state = state_of(first, job)
        expect("the job", (state["JobState"], state["ExitCode"]), ("COMPLETED", "0:0"))
    with step("  nothing of it is left on either node"):
        wait_for("no process", lambda: [node.pids("quire") + node.pids("quire-worker") for node in nodes] == [[], []], 15)
        for node in nodes:
            expect("shared memory", node.run("sh", "-c", "ls /dev/shm | grep -E 'quire|vader' || true"), "")


if __name__ == "__main__":
    main()
