"""Ends a test script like unittest.main(). In addition, a script whose tests were all skipped ends with 77, which ctest shows as
skipped, and every reason is appended to the file that QUIRE_SKIP_LOG names (tests/skips.py checks it). A script whose first word is
--alone runs only the cases that are marked with `alone`. A script whose first word is --beside runs only the other cases."""
import os
import sys
import unittest

SKIPPED = 77


def log_skip(reason):
    path = os.environ.get("QUIRE_SKIP_LOG")
    if path:
        with open(path, "a", encoding="utf-8") as f:
            f.write(f"{os.path.basename(sys.argv[0])}\t{reason}\n")


def skip_all(reason):
    """Ends a script that can test nothing on this machine."""
    print(f"skipped: {reason}")
    log_skip(reason)
    sys.exit(SKIPPED)


def alone(case):
    """Marks a test method, or a class, that needs idle processors: ctest runs it without neighbours (tests/CMakeLists.txt)."""
    case.runs_alone = True
    return case


class ChosenCases(unittest.TestLoader):
    """Loads only the cases that are marked with `alone` if `marked` is true, and only the other cases otherwise."""

    def __init__(self, marked):
        super().__init__()
        self.marked = marked

    def getTestCaseNames(self, testCaseClass):
        def is_marked(name):
            return any(getattr(thing, "runs_alone", False) for thing in (testCaseClass, getattr(testCaseClass, name)))
        return [name for name in super().getTestCaseNames(testCaseClass) if is_marked(name) == self.marked]


def run_tests():
    loader = unittest.defaultTestLoader
    if sys.argv[1:2] in (["--alone"], ["--beside"]):
        loader = ChosenCases(sys.argv.pop(1) == "--alone")
    result = unittest.main(exit=False, testLoader=loader).result
    for _, reason in result.skipped:
        log_skip(reason)
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun == 0 and not result.skipped:
        sys.exit("no case was run")
    # A class or module that is skipped as a whole counts as one skip, and not as a test that ran.
    cases = result.testsRun - sum(isinstance(test, unittest.TestCase) for test, _ in result.skipped)
    if cases <= 0 and result.skipped:
        reasons = ", ".join(sorted({reason for _, reason in result.skipped}))
        print(f"skipped: {reasons}")
        sys.exit(SKIPPED)
