"""Common parts of the scripts of all clients: a proxy between the client and the server, which counts the statuses of answers and may
force an answer, and trials that print a line each. It uses only Python's own library, because it runs in the clients' environments."""
import collections
import importlib.metadata
import json
import os
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "agents"))
from passing_proxy import PassingProxy  # noqa: E402

KEY = "none"
QUESTION = "What is the weather in Paris?"
ENDPOINTS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")


class Call:
    """A step in which the model calls the client's tool with these arguments."""

    def __init__(self, tool, **arguments):
        self.tool, self.arguments = tool, arguments

    def force(self, path, body):
        for tool in body["tools"]:
            function = tool.get("function", tool)
            if function.get("name") != self.tool:
                continue
            key = "input_schema" if path == "/v1/messages" else "parameters"
            function[key] = {"type": "object", "properties": {name: {"const": value} for name, value in self.arguments.items()},
                             "required": list(self.arguments), "additionalProperties": False}
            break
        else:
            raise AssertionError(f"{self.tool} is not among the offered tools {body['tools']}")
        kind = {"/v1/messages": {"type": "tool", "name": self.tool}, "/v1/responses": {"type": "function", "name": self.tool}}
        body["tool_choice"] = kind.get(path, {"type": "function", "function": {"name": self.tool}})


class Say:
    """A step in which the model answers with this text."""

    def __init__(self, text):
        self.text = text

    def force(self, path, body):
        if body.get("tools"):
            body["tool_choice"] = {"type": "none"} if path == "/v1/messages" else "none"
        body.pop("response_format", None)  # response_format would constrain the answer a second time
        body["structured_outputs"] = {"choice": [self.text]}


class Proxy(PassingProxy):
    """Passes requests on unchanged, except in a trial with steps. There the model must answer the n-th request with the n-th step, because a small
    model cannot do a client's task by itself."""

    def __init__(self, server_url):
        super().__init__(server_url.removeprefix("http://"))
        self.begin(())
        self.begin_serving()

    def begin(self, steps):
        self.steps, self.faults, self.statuses = list(steps), [], collections.Counter()

    def request(self, method, path, raw):
        try:
            with self.lock:
                if method == "POST" and path in ENDPOINTS and self.steps:
                    body = json.loads(raw)
                    self.steps.pop(0).force(path, body)
                    raw = json.dumps(body).encode()
        except Exception as error:  # noqa: BLE001: the trial reports what is wrong with a request
            self.faults.append(f"{path}: {error!r}")
        return raw, None

    def answer(self, method, path, note, response):
        with self.lock:
            self.statuses[response.status] += 1
        seen = b""
        for piece in super().answer(method, path, note, response):
            seen = (seen + piece)[:1000]
            yield piece
        if response.status >= 400:
            self.faults.append(f"{method} {path}: {response.status} {seen.decode(errors='replace')}")


class Trials:
    """Runs several trials one after the other, whatever the result of each. A trial fails when it raises, or when an answer had a status of
    400 or more. A trial with steps also fails when a request offered no tool for its step, or when the client sent fewer requests than the
    trial has steps."""

    def __init__(self, *packages):
        self.proxy = Proxy(sys.argv[1])
        self.model = sys.argv[2]
        self.url, self.failed = self.proxy.url, 0
        print("## " + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages) + "\n")
        print("| tried | result | answers by status |\n| --- | --- | --- |", flush=True)

    def __call__(self, name, *steps):
        def run(trial):
            self.proxy.begin(steps)
            try:
                result = trial()
                expect(not self.proxy.faults, self.proxy.faults)
                expect(not self.proxy.steps, f"{len(self.proxy.steps)} steps were not asked for")
            except BaseException:  # noqa: BLE001: other people's packages may raise anything
                self.failed += 1
                result = "FAILED"
                traceback.print_exc()
                print(self.proxy.faults, file=sys.stderr)
            statuses = ", ".join(f"{count} x {status}" for status, count in sorted(self.proxy.statuses.items()))
            text = str(result).replace("|", "\\|").replace("\n", " ")
            print(f"| {name} | {text} | {statuses or 'none'} |", flush=True)
        return run

    def end(self):
        time.sleep(0.1)
        sys.exit(1 if self.failed else 0)


def expect(holds, what):
    if not holds:
        raise AssertionError(what)
