#!/usr/bin/env python3
"""schemathesis_run.py SCHEMATHESIS [SECONDS]: has schemathesis (PyPI, 4.32.5; its program is named) make requests of
/openapi.json, right and wrong ones, and send them to a server with the tiny model. It fails on an answer of 500 or above
(but for 504, which deadline_seconds asks for), on one that the document does not describe, and on one that takes longer than 20 s. Not a part of the test suite: it takes minutes, and
its findings depend on its draws; those of a run are printed with what repeats them."""
import os
import subprocess
import sys
import tempfile

from server import TINY, Server

CONFIG = """[checks]
not_a_server_error.expected-statuses = ["2xx", "4xx", 504]
"""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def main():
    program = sys.argv[1]
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    # A short context keeps answers short: what is tried is requests, and many of them.
    with Server("--threads-per-worker", "1", "--max-model-len", "64", model=TINY) as server, tempfile.TemporaryDirectory() as directory:
        config = os.path.join(directory, "schemathesis.toml")
        with open(config, "w", encoding="utf-8") as f:
            f.write(CONFIG)
        command = [program, "--config-file", config, "run", server.url + "/openapi.json", "--checks", CHECKS, "--phases", "examples,coverage,fuzzing,stateful", "--max-time", str(seconds),
                   "--request-timeout", "20", "--continue-on-failure", "--no-color"]
        status = subprocess.run(command, check=False).returncode
        answering = server.get("/health") == {}
    sys.exit(status if answering else 1)


if __name__ == "__main__":
    main()
