#!/usr/bin/env python3
"""schemathesis_run.py SCHEMATHESIS [SECONDS]: lets schemathesis (PyPI, 4.32.5; the argument names its program) make right and wrong
requests from /openapi.json and send them to a server with the tiny model. The run fails on an answer of 500 or above (except 504, which
deadline_seconds causes), on an answer that the document does not describe, and on an answer that takes longer than 20 s. This script is not
part of the test suite, because it takes minutes and its findings depend on random choices. The output has each finding with the command
that repeats it."""
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
    # A short context makes answers short, so that many requests are tried.
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
