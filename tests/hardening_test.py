#!/usr/bin/env python3
"""Tests the hardening of a release build's programs, read from the programs themselves: position independence, read-only
relocations bound at start, no executable stack or writable code, stack protectors, libc calls checked at the compiler's highest
level, and, on x86-64, landing pads for indirect jumps. Skipped for builds that leave these out on purpose."""
import json
import os
import platform
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import verdict  # noqa: E402

BUILD = sys.argv[1]
PROGRAMS = ("quire", "quire-worker")


def readelf(flags, path):
    return subprocess.run(["readelf", flags, "--wide", path], check=True, capture_output=True, text=True).stdout


def fortify_level(compiler):
    """Returns the highest level of libc's checks that this compiler and these headers support."""
    probe = subprocess.run([compiler, "-x", "c++", "-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-E", "-P", "-"], input="#include <features.h>\nlevel=__USE_FORTIFY_LEVEL\n",
                           check=True, capture_output=True, text=True)
    return max(2, int(re.search(r"level=\s*(\d)", probe.stdout)[1]))


def problems_of(path):
    header, segments, dynamic, symbols = (readelf(flag, path) for flag in ("-h", "-l", "-d", "--dyn-syms"))
    with open(path, "rb") as f:
        landing_pads = f.read().count(b"\xf3\x0f\x1e\xfa")  # endbr64
    checks = {
        "is not position independent": "DYN" in header and "INTERP" in segments,
        "has no read-only relocations": "GNU_RELRO" in segments,
        "binds symbols late": re.search(r"BIND_NOW|FLAGS_1.*NOW", dynamic),
        "has an executable stack": re.search(r"GNU_STACK\s.*\sRW\s", segments),
        "has a segment that is writable and executable": not re.search(r"LOAD\s.*\sRWE\s", segments),
        "has no stack protector": "__stack_chk_fail" in symbols,
        "calls libc unchecked": re.search(r"__(memcpy|memmove|read|snprintf|vsnprintf)_chk", symbols),
        "has no landing pads": landing_pads > 1000 or platform.machine() != "x86_64",
    }
    return [what for what, good in checks.items() if not good]


def main():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as f:
        cache = f.read()
    if "CMAKE_BUILD_TYPE:STRING=Release" not in cache or re.search(r"QUIRE_SANITIZE:STRING=.", cache):
        verdict.skip_all("built without hardening, for debugging or sanitizers")
    failed = False
    for name in PROGRAMS:
        path = os.path.join(BUILD, name)
        problems = problems_of(path)
        failed |= bool(problems)
        print(f"{name}: {', '.join(problems) or 'hardened'}")
    # Probes of large stack frames and the level of libc's checks leave no trace in the program, so the compile commands
    # are checked.
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as f:
        ours = [c for c in json.load(f) if re.search(rf"^{re.escape(ROOT)}/(comm|coordinator|worker)/.*\.cc$", c["file"])]
    level = fortify_level(re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", cache, re.M)[1])
    for flag in ("-fstack-clash-protection", f"-D_FORTIFY_SOURCE={level}"):
        bare = [c["file"] for c in ours if flag not in c["command"].split()]
        if bare or not ours:
            failed = True
            print(f"without {flag}:", *bare)
    sys.exit(failed)


main()
