#!/usr/bin/env python3
"""Measures sums over ranks on two "nodes" (network namespaces of this machine): host by host, by a flat gather, and by
MPI_Allreduce. Run it by hand, as root: tests/bench/allreduce_nodes.py [RANKS_ON_A RANKS_ON_B]"""
import json
import os
import subprocess
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "e2e"))
import netns  # noqa: E402
from server import BUILD  # noqa: E402


def main():
    counts = [int(word) for word in sys.argv[1:]] or [2, 2]
    with netns.Network("a", "b") as network:
        results = os.path.join(network.directory, "results.json")
        command = ["mpirun", "--bind-to", "none", "--map-by", "slot"]
        for key, value in {"plm_rsh_agent": network.agent, "oob_tcp_if_include": "eth0", "btl_tcp_if_include": "eth0", "pml": "ob1",
                           "btl": "self,tcp", "mpi_yield_when_idle": "1"}.items():
            command += ["--mca", key, value]
        for node, count in zip(network.nodes, counts):
            command += [":"] if node is not network.nodes[0] else []
            command += ["-np", str(count), "--host", f"{node.address}:{count}", os.path.join(BUILD, "quire-worker")]
            command += ["--bench-allreduce", results, "--bench-max-bytes", str(1 << 20), "--bench-rounds", "300"]
        subprocess.run(network["a"].command(*command), check=True, env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        with open(results) as f:
            report = json.load(f)
    print(f"{counts[0]} + {counts[1]} ranks; microseconds, median and p99")
    for row in report["results"]:
        print(f"{row['bytes']:>9} {row['method']:<14} {row['median_micros']:>10.1f} {row['p99_micros']:>10.1f}")


main()
