"""One planted mistake."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Mutant:
    what: str    # the mistake, in words
    file: str
    old: str     # the text as it stands, once in the file
    new: str
    tests: list  # of ctest's names; "e2e/http_test:HttpTest.test_x" and "comm/json_test:Filter*" run a part of one
