#!/usr/bin/env python3
"""skips.py LOG: prints which tests were skipped and why, and fails if this machine could have run them.

Tests append "WHERE<tab>REASON" to the file that QUIRE_SKIP_LOG names (support/main.cc, e2e/verdict.py). A fact about the machine may excuse
a reason; this script checks the fact again. A reason without such a fact is never excused."""
import os
import re
import shutil
import socket
import subprocess
import sys

# The processor's names of the instructions that a table needs (kernels/cpu/dispatch.cc).
AVX2 = {"avx2", "fma", "f16c"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512vl", "avx512dq"}
TABLES = {"avx2": AVX2, "avxvnni": AVX2 | {"avx_vnni"}, "avx512": AVX512, "avx512vnni": AVX512 | {"avx512_vnni"},
          "avx512amx": AVX512 | {"avx512_vnni", "amx_tile", "amx_int8", "amx_bf16"}}


def instructions():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        found = re.search(r"^flags\s*:(.*)$", f.read(), re.M)
    return set(found.group(1).split()) if found else set()


def lacks_table(found):
    return found.group(1) in TABLES and not TABLES[found.group(1)] <= instructions()


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def no_root(_):
    return os.geteuid() != 0


def lacks_groups(found):
    """Returns whether this machine cannot make control groups of that controller, in v1 or in v2."""
    controller = found.group(1)
    if os.geteuid() != 0 or os.access(f"/sys/fs/cgroup/{controller}", os.W_OK):
        return os.geteuid() != 0
    try:
        with open("/sys/fs/cgroup/cgroup.subtree_control", encoding="utf-8") as f:
            return controller not in f.read().split() or not os.access("/sys/fs/cgroup", os.W_OK)
    except OSError:
        return True


# (reason, function that tells whether it is true)
EXCUSES = [
    (r"this processor has no (\w+)", lacks_table),
    (r"no nvcc in PATH", lambda _: shutil.which("nvcc") is None),
    (r"(\S+) is not installed", lambda found: shutil.which(found.group(1)) is None),
    (r"network namespaces need root", no_root),
    (r"network namespaces are not allowed here: .*", lambda _: subprocess.run(["unshare", "--net", "true"]).returncode != 0),
    (r"no control groups of (\w+) can be made here", lacks_groups),
    (r"no IPv6 here", lambda _: not has_ipv6()),
    (r"only root can give a file away", no_root),
    (r"one processor", lambda _: len(os.sched_getaffinity(0)) < 2),
    (r"built without hardening, for .*", lambda _: True),  # a developer's own build folder, never that of tests/run
]


def excused(reason):
    for pattern, is_true in EXCUSES:
        found = re.fullmatch(pattern, reason)
        if found:
            return is_true(found)
    return False


def main(log):
    entries = []
    if os.path.exists(log):
        with open(log, encoding="utf-8") as f:
            entries = sorted({tuple(line.rstrip("\n").split("\t", 1)) for line in f if "\t" in line})
    unexcused = [entry for entry in entries if not excused(entry[1])]
    for where, reason in entries:
        print(f"skipped: {where}: {reason}{' — but this machine could run it' if (where, reason) in unexcused else ''}")
    return 1 if unexcused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
