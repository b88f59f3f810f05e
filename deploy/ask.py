"""ask.py QUIRE MODEL QUESTION: starts a server on free ports, asks it one question, prints the answer, and stops it.
The exit status is 0 only when there was an answer and the server ended cleanly."""
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

START_SECONDS = 120


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until_ready(server, port):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit("the server did not start (see above)")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    sys.exit(f"the server was not ready within {START_SECONDS} s")


def ask(port, question):
    body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 256}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as response:
            return json.load(response)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        sys.exit(json.load(error)["error"]["message"])


def main():
    quire, model, question = sys.argv[1:]
    port = free_port()
    server = subprocess.Popen([quire, "serve", "--model", model, "--tensor-parallel-size", "2", "--port", str(port),
                               "--admin-port", str(free_port())], stdin=subprocess.DEVNULL, stdout=sys.stderr)
    try:
        wait_until_ready(server, port)
        answer = ask(port, question)
    finally:
        server.send_signal(signal.SIGTERM)
        status = server.wait(timeout=60)
    if status != 0:
        sys.exit(f"the server ended with status {status}")
    print(answer)


main()
