"""What every client's script here shares: a proxy between the client and the server, which counts the statuses of answers and may
force an answer, and trials that print a line each. Uses only Python's own library, because it runs in the clients' environments."""
import collections
import http.client
import http.server
import importlib.metadata
import json
import sys
import threading
import time
import traceback

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
        body.pop("response_format", None)  # it would be a second form of the answer
        body["structured_outputs"] = {"choice": [self.text]}


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on unchanged, but those of a trial with steps: its first request must be answered with the first step, and so
    on. A small model does not do a client's task by itself."""

    daemon_threads = True

    def __init__(self, server_url):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server_at = server_url.removeprefix("http://")
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.lock = threading.Lock()
        self.begin(())
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def begin(self, steps):
        self.steps, self.faults, self.statuses = list(steps), [], collections.Counter()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.forward()

    do_HEAD = do_DELETE = do_POST = do_GET

    def forward(self):
        proxy, path = self.server, self.path.split("?")[0]
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            with proxy.lock:
                if self.command == "POST" and path in ENDPOINTS and proxy.steps:
                    body = json.loads(raw)
                    proxy.steps.pop(0).force(path, body)
                    raw = json.dumps(body).encode()
        except Exception as error:  # noqa: BLE001: the trial reports what is wrong with a request
            proxy.faults.append(f"{path}: {error!r}")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "content-length", "connection", "accept-encoding")}
        upstream = http.client.HTTPConnection(proxy.server_at, timeout=600)
        upstream.request(self.command, self.path, raw or None, headers)
        response = upstream.getresponse()
        with proxy.lock:
            proxy.statuses[response.status] += 1
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        seen = b""
        while piece := response.read1(65536):
            seen = (seen + piece)[:1000]
            self.wfile.write(piece)
            self.wfile.flush()
        if response.status >= 400:
            proxy.faults.append(f"{self.command} {path}: {response.status} {seen.decode(errors='replace')}")
        upstream.close()


class Trials:
    """Tries several things one after the other, whatever the result of each. A trial fails when it raises, when an answer had a
    status of 400 or more, and when a step was not asked for."""

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
