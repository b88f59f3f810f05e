"""Ends a test script like unittest.main(). In addition, a script whose tests were all skipped ends with 77, which ctest shows as
skipped, and every reason goes to the file that QUIRE_SKIP_LOG names (tests/skips.py checks it)."""
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


def run_tests():
    result = unittest.main(exit=False).result
    for _, reason in result.skipped:
        log_skip(reason)
    if not result.wasSuccessful():
        sys.exit(1)
    # A class or module that is skipped as a whole counts as one skip, and not as a test that ran.
    cases = result.testsRun - sum(isinstance(test, unittest.TestCase) for test, _ in result.skipped)
    if cases <= 0 and result.skipped:
        reasons = ", ".join(sorted({reason for _, reason in result.skipped}))
        print(f"skipped: {reasons}")
        sys.exit(SKIPPED)
