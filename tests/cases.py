#!/usr/bin/env python3
"""cases.py BUILD: prints every test case of a build, one per line, sorted: cases of gtest's programs, methods of Python's tests,
and ctest's entries. To check a change of how tests are built, compare the lists before and after it with diff."""
import ast
import glob
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def gtest_cases(program):
    """Yields the names Suite.Case of a program's tests; none if it is not a gtest program."""
    with open(program, "rb") as f:
        content = f.read()
    if not content.startswith(b"\x7fELF") or b"gtest_list_tests" not in content:
        return
    suite = ""
    for line in subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout.splitlines():
        name = line.split("#")[0].rstrip()
        if line.startswith(" "):
            yield suite + name.strip()
        elif name.endswith("."):
            suite = name


def python_cases(path):
    """Yields the test methods of a script, each as File: Class.method."""
    with open(path, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    for node in tree.body:
        for method in getattr(node, "body", []) if isinstance(node, ast.ClassDef) else []:
            if isinstance(method, ast.FunctionDef) and method.name.startswith("test"):
                yield f"{os.path.relpath(path, HERE)}: {node.name}.{method.name}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = sys.argv[1]
    # Several programs may contain the cases of one source file; the programs of the kernels do. Such cases count once for each program.
    cases = [f"gtest: {case}" for program in glob.glob(os.path.join(build, "tests", "**", "*"), recursive=True) if os.path.isfile(program)
             for case in gtest_cases(program)]
    for path in glob.glob(os.path.join(HERE, "**", "*_test.py"), recursive=True):
        cases += python_cases(path)
    entries = json.loads(subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout)
    cases += [f"ctest: {test['name']}" for test in entries["tests"]]
    print("\n".join(sorted(cases)))


main()
