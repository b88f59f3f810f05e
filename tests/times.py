#!/usr/bin/env python3
"""times.py BUILD [--all]: shows where the time of a test run went, from the files that Ninja and ctest wrote into the build
folder. Prints the ten slowest sources and tests; with --all every test, as a table in Markdown. Times are wall seconds on a
shared machine."""
import argparse
import os
import sys
import xml.etree.ElementTree

COUNT = 10


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
        print("| test | seconds |\n| --- | ---: |")
        for name, taken in slowest(tests, len(tests)):
            print(f"| {name} | {taken:.1f} |")
        return
    print_slowest("sources", seconds_of_sources(log))
    print_slowest("tests", tests)


if __name__ == "__main__":
    main()
