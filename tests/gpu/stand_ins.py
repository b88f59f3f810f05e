"""Makes fake programs for report_test.py, instead of programs that need a GPU: scripts that print the same text as the real programs."""
import json
import os
import sys

GTEST = """#!{python}
# Tests do what their names say; a filter is names with colons between, or has a star, which means all of them.
import os, signal, sys
names = {names}
flags = dict(a.split("=", 1) if "=" in a else (a, "") for a in sys.argv[1:])
chosen = flags.get("--gtest_filter", "*")
if "*" not in chosen: names = [n for n in names if n in chosen.split(":")]
if "--gtest_list_tests" in flags:
    print("Running main() from somewhere")
    suite = None
    for name in names:
        if name.rsplit(".", 1)[0] != suite:
            suite = name.rsplit(".", 1)[0]
            print(suite + ".  # TypeParam = x")
        print("  " + name.rsplit(".", 1)[1] + "  # GetParam() = (1, 2)")
    sys.exit(0)
bad = []
for name in names:
    print("[ RUN      ] " + name, flush=True)
    if "Crashes" in name:
        print("about to fall")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
    if "LosesTheDevice" in name:
        print(name + " lost the device: an illegal memory access was encountered", flush=True)
        os._exit(4)
    if "Hangs" in name: signal.pause()
    outcome = "FAILED  " if "Fails" in name else "SKIPPED " if "Skips" in name else "     OK "
    if "Fails" in name: bad.append(name)
    print("[  " + outcome + "] " + name + ("" if "Fails" not in name else ", where GetParam() = 3") + " (1 ms)", flush=True)
print("[  PASSED  ] %d tests." % (len(names) - len(bad)))
for name in bad: print("[  FAILED  ] " + name)
sys.exit(1 if bad else 0)
"""

BENCH = """#!{python}
import json, sys
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
section = flags.get("--only")
if section is None:
    print("the same answers")
    sys.exit(0)
with open(flags["--json"], "w") as f:
    json.dump({{"device": {{"name": "Some GPU"}}, "rules": "fair", "ceilings": {ceilings}, "results": {results}.get(section, []),
               "checks": {checks}.get(section, [])}}, f)
print("1 results checked, 0 of them wrong")
"""

NVIDIA_SMI = """#!{python}
import sys, time
known = {{"name": "Some GPU", "driver_version": "1.2", "memory.total": "81559", "clocks.max.sm": "1980", "clocks.max.mem": "2619",
         "clocks.sm": "1755", "clocks.mem": "2619", "temperature.gpu": "61", "power.draw": "640.5",
         "clocks_event_reasons.active": "0x0000000000000004"}}
fields = [a for a in sys.argv if a.startswith("--query-gpu=")][0].split("=")[1].split(",")
if not set(fields) <= set(known): sys.exit(2)
print(", ".join(known[field] for field in fields), flush=True)
if any(a.startswith("--loop-ms") for a in sys.argv): time.sleep(600)
"""


def write(path, template, **values):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(template.format(python=sys.executable, **values))
    os.chmod(path, 0o755)
    return path


def gtest(path, names):
    return write(path, GTEST, names=json.dumps(names))


def bench(path, ceilings, results, checks):
    """Writes a fake benchmark. `results` and `checks` have an entry for each section."""
    return write(path, BENCH, ceilings=json.dumps(ceilings), results=json.dumps(results),
                 checks=json.dumps(checks).replace("true", "True").replace("false", "False"))


def pack(folder, names, ceilings, results, checks):
    """Makes a folder like a pack, but without its scripts."""
    for name in ("gpu_kernel_tests", "gpu_one_shot_test", "gpu_engine_tests"):
        gtest(os.path.join(folder, "bin", name), names)
    bench(os.path.join(folder, "bin", "quire-bench-kernels"), ceilings, results, checks)
    os.makedirs(os.path.join(folder, "openmpi"), exist_ok=True)
    for name, word in (("needs", "libnccl.so.2"), ("commit", "abc"), ("arch", "sm_90a"), ("openmpi/plugins", "lib/openmpi")):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(word + "\n")
