"""Describes one mutant: a small bug that is planted on purpose."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Mutant:
    what: str    # describes the bug
    file: str
    old: str     # the text to replace; occurs exactly once in the file
    new: str
    tests: list  # ctest names; "e2e/http_test:HttpTest.test_x" and "comm/json_test:Filter*" run some cases only
