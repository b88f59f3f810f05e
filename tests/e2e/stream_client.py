"""Runs streams beside a test, and reads them line by line."""
import json
import socket
import threading
import time


def stream_in_background(server, tokens=1500, comments=None, body=None, on_line=lambda: None, sockets=None):
    """Starts a long stream. Returns (thread, list that collects the data lines). Comment lines go to the list `comments`, fields
    of `body` into the request. `on_line` is called for every data line. The connection goes to the list `sockets`."""
    lines = []

    def read():
        try:
            read_lines()
        except ConnectionError:  # the server is gone
            pass

    def read_lines():
        fields = {"prompt": [5, 6, 7], "max_tokens": tokens, "temperature": 0, "stream": True, "ignore_eos": True, **(body or {})}
        data = json.dumps(fields).encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
            if sockets is not None:
                sockets.append(s)
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
            with s.makefile("rb") as f:
                for line in f:
                    if line.startswith(b"data: "):
                        lines.append(line[6:].strip())
                        on_line()
                    if comments is not None and line.startswith(b":"):
                        comments.append(line[1:].strip().decode())
                    if line.startswith(b"data: [DONE]"):
                        return

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while len(lines) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(lines) >= 3, server.text()
    return thread, lines


def start_streams(server, count, tokens):
    """Starts streams with different prompts. Returns (thread, lines) of each."""
    return [stream_in_background(server, tokens, body={"prompt": [5 + i, 6, 7]}) for i in range(count)]


def finish_streams(streams, seconds=600):
    """Waits for the ends of streams, and returns their texts."""
    for thread, _ in streams:
        thread.join(timeout=seconds)
        assert not thread.is_alive(), "a stream hangs"
    return [text_of(lines) for _, lines in streams]


def text_of(lines):
    """Returns the text that a stream delivered."""
    assert lines[-1] == b"[DONE]", lines[-1]
    return "".join(json.loads(line)["choices"][0]["text"] for line in lines[:-1])
