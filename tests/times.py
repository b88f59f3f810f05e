#!/usr/bin/env python3
"""times.py BUILD [--all]: shows where the time of a test run went, from the files that Ninja and ctest wrote into the build
folder. Prints the ten slowest sources and tests. With --all it prints a page in Markdown with every test, for
docs/benchmarks, and fails if a test that takes long has no reason in REASONS. Times are wall seconds on a shared machine."""
import argparse
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

COUNT = 10
LONG = 60  # seconds; a longer test is split, or this file has its reason
REASONS = {
    "e2e/dashboard_test": "a browser looks at the page through the half minutes that its charts show",
    "e2e/code_blocks_test": "every block of five pages, with servers of their own",
    "e2e/faults_test": "workers, mpirun and servers are killed or stopped, one after another, and start anew",
    "e2e/frame_faults_test": "every lost frame ends an epoch, and the workers start anew",
    "e2e/moves_test": "several hosts for every case, and links that are cut until the coordinator finds out",
    "e2e/operations_test": "drains, pauses and reshards, which have times of their own",
    "e2e/overload_test": "crowds at limits of memory and of time, one after another",
    "e2e/model_life_test": "models are loaded, idle, in each other's way and lost, with times of their own",
    "e2e/pipeline_test": "a rank is lost in each stage, and workers start in several shapes",
    "e2e/replicas_test": "two worker groups for every case, and losses of both",
    "e2e/security_test": "servers and worker groups with every wrong key, mode and address",
    "e2e/structured_output_test": "answers to many schemas are validated, on one and two ranks and over killed workers",
    "e2e/tools_test": "a server for every parser of tool calls, whole and streamed answers validated",
    "sim/planted_bugs": "searches 6,000 lives for each planted bug whose recorded seed finds it no more",
    "worker/cuda/cuda_engine_test": "every form of model on the emulated device, each against the CPU engine, in the processors' idle time",
    "worker/cuda/device_golden_test": "models of every family on the emulated device, in the processors' idle time",
    "kernels/cuda/prefill_bugs_test": "a run of the emulator for every planted bug, in the processors' idle time",
    "worker/cuda/cuda_hybrid_test": "hybrids on the emulated device, each against the CPU engine, in the processors' idle time",
    "worker/golden_test": "every model against transformers, on up to four ranks, which outnumber two cores, in the processors' idle time",
    "worker/golden_test.real_model": "the quickstart model against transformers, on one to four ranks, in the processors' idle time",
}


def seconds_of_sources(log):
    """Returns {object file: seconds} of the last compilation of each object. A line of Ninja's log has start and end in
    milliseconds, the file's time, its name and a hash, separated by tabs; later lines replace earlier ones."""
    seconds = {}
    with open(log, encoding="utf-8") as f:
        for line in f:
            fields = line.rstrip("\n").split("\t")
            if len(fields) == 5 and fields[3].endswith(".o"):
                seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return seconds


def seconds_of_tests(report):
    """Returns {test: seconds} from ctest's report in JUnit's form."""
    cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    return {case.get("name"): float(case.get("time")) for case in cases}


def slowest(seconds, count):
    return sorted(seconds.items(), key=lambda item: -item[1])[:count]


def print_slowest(what, seconds):
    print(f"the slowest {what}, of {sum(seconds.values()):.0f} s in all:")
    for name, taken in slowest(seconds, COUNT):
        print(f"  {taken:7.1f} s  {name}")


def machine():
    """Returns the processor and the number of cores, in words."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        name = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
    return f"{os.cpu_count()} cores of {name[1] if name else 'an unknown processor'}"


def print_page(tests):
    head = subprocess.run(["git", "log", "-1", "--format=%h of %cs"], cwd=os.path.dirname(os.path.abspath(__file__)), capture_output=True, text=True)
    print(f"""# Seconds per test
Written by `tests/times.py build --all` after `tests/run`: commit {head.stdout.strip() or "unknown"}, {machine()}. Tests run four at
once (tests/CMakeLists.txt), so the {len(tests)} tests of {sum(tests.values()):.0f} s in all take less. A test above {LONG} s has its reason beside it.

| test | seconds | why so long |
| --- | ---: | --- |""")
    for name, taken in slowest(tests, len(tests)):
        print(f"| `{name}` | {taken:.1f} | {REASONS.get(name, '') if taken > LONG else ''} |")
    if unexplained := [name for name, taken in tests.items() if taken > LONG and name not in REASONS]:
        sys.exit(f"above {LONG} s without a reason in {os.path.basename(__file__)}: {', '.join(sorted(unexplained))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    log, report = os.path.join(options.build, ".ninja_log"), os.path.join(options.build, "tests.xml")
    missing = [path for path in (log, report) if not os.path.exists(path)]
    if missing:
        sys.exit(f"{', '.join(missing)}: not there; tests/run builds and tests, and leaves it")
    tests = seconds_of_tests(report)
    if options.all:
        return print_page(tests)
    print_slowest("sources", seconds_of_sources(log))
    print_slowest("tests", tests)


if __name__ == "__main__":
    main()
