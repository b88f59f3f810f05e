"""Tests `quire chat` through pipes, and on a terminal with a keyboard."""
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import verdict  # noqa: E402
from server import QUIRE, TINY, Server  # noqa: E402


class PipeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--threads-per-worker", "1", model=TINY)
        cls.addClassCleanup(cls.server.__exit__)

    def chat(self, lines, *flags, url=None):
        return subprocess.run([QUIRE, "chat", url or self.server.url, *flags], input="".join(line + "\n" for line in lines),
                              capture_output=True, text=True, timeout=60, check=False)

    def answer_to(self, messages, **fields):
        status, answer = self.server.post("/v1/chat/completions", {"messages": messages, **fields})
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["message"]["content"]

    def saved(self, lines, *flags):
        """Types these lines and then `/save`. Returns the saved conversation and the ended process."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "chat.json")
            done = self.chat([*lines, f"/save {path}"], *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as f:
                return json.load(f), done

    def test_chat_sends_the_whole_conversation_and_prints_the_apis_answers(self):
        flags = ("--temperature", "0", "--max-tokens", "12", "--system", "Be brief.")
        messages, done = self.saved(["Hello", "And now?"], *flags)
        self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant", "user", "assistant"])
        self.assertEqual((messages[0]["content"], messages[1]["content"], messages[3]["content"]), ("Be brief.", "Hello", "And now?"))
        for end in (2, 4):
            self.assertEqual(messages[end]["content"], self.answer_to(messages[:end], temperature=0, max_tokens=12))
        self.assertEqual(done.stdout, messages[2]["content"] + "\n" + messages[4]["content"] + "\n")

    def test_save_overwrites_only_a_saved_conversation(self):
        with tempfile.TemporaryDirectory() as folder:
            path, link = os.path.join(folder, "file"), os.path.join(folder, "link")
            os.symlink(path, link)
            for name, text in ((path, "my diary\n"), (path, '{"a": 1}'), (path, '[{"a": 1}]'), (path, ""), (link, None), (link, "[]")):
                if os.path.exists(path):
                    os.remove(path)
                if text is not None:
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)
                done = self.chat([f"/save {name}"])
                self.assertIn(f"{name} is there, and is no conversation: it stays as it is", done.stderr)
                self.assertEqual(os.path.exists(path), text is not None)
                if text is not None:
                    with open(path, encoding="utf-8") as file:
                        self.assertEqual(file.read(), text)
            os.remove(path)
            for _ in range(2):
                self.assertIn(f"written to {path}", self.chat(["/system Be brief.", f"/save {path}"]).stderr)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file), [{"role": "system", "content": "Be brief."}])

    def test_set_and_system_commands_change_the_request(self):
        messages, done = self.saved(["/set temperature 0", "/set max_tokens 3", "/set stop [\"zz\"]", "/set", "One", "/set max_tokens 9",
                                     "/system Be kind.", "/retry"])
        self.assertIn('"max_tokens":3', done.stderr)
        self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant"])
        self.assertEqual(messages[2]["content"], self.answer_to(messages[:2], temperature=0, max_tokens=9))
        first = self.answer_to([messages[1]], temperature=0, max_tokens=3)
        self.assertEqual(done.stdout, first + "\n" + messages[2]["content"] + "\n")

    def test_undo_and_reset_remove_messages(self):
        few = ("--temperature", "0", "--max-tokens", "2")
        self.assertEqual([m["content"] for m in self.saved(["One", "Two", "/undo"], *few)[0][::2]], ["One"])
        self.assertEqual(self.saved(["One", "/reset"], *few)[0], [])
        self.assertIn("nothing was said yet", self.saved(["/undo", "/retry"], *few)[1].stderr)

    def test_chat_prints_the_error_and_drops_the_message_when_a_request_fails(self):
        refused = self.chat(["/set max_tokens 0", "Hello"])
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertIn("status 400", refused.stderr)
        self.assertIn("max_tokens", refused.stderr)
        messages, done = self.saved(["/set temperature 0", "/set max_tokens 0", "Hello", "/set max_tokens 2", "Again"])
        self.assertEqual([m["content"] for m in messages if m["role"] == "user"], ["Again"], "the refused one is gone")
        nobody = self.chat(["Hello"], url="127.0.0.1:1")
        self.assertEqual(nobody.returncode, 1)
        self.assertIn("cannot connect to 127.0.0.1:1", nobody.stderr)
        self.assertIn("/bogus is no command", self.chat(["/bogus"]).stderr)

    def test_chat_accepts_urls_with_and_without_scheme_and_refuses_others(self):
        for url in (self.server.url + "/", self.server.url + "/v1", self.server.url.removeprefix("http://")):
            self.assertEqual(self.chat(["Hello"], "--max-tokens", "2", url=url).returncode, 0, url)
        for url in ("http://", "ftp://host:1/x", "host:port"):
            wrong = self.chat([], url=url)
            self.assertEqual(wrong.returncode, 2, url)
            self.assertIn("is not http://HOST:PORT", wrong.stderr)


class Stranger:
    """A server that answers every request with the same bytes."""

    def __init__(self, answer):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.answer = answer
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        try:
            connection, _ = self.socket.accept()
            with connection:
                connection.recv(1 << 16)
                for part in self.answer:
                    connection.sendall(part)
        except OSError:
            pass  # the client closed the connection

    def close(self):
        self.socket.close()
        self.thread.join(timeout=60)


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"


def event(text):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


class StrangerTest(unittest.TestCase):
    """Tests servers and models that send hostile or malformed answers."""
    HOSTILE = "\x1b]0;pwned\x07\x1b[2J\x9b31mhi\tthere\n"

    def chat(self, *answer, terminal=False):
        stranger = Stranger(answer)
        self.addCleanup(stranger.close)
        command = [QUIRE, "chat", stranger.url]
        if not terminal:
            return subprocess.run(command, input="Hello\n", capture_output=True, text=True, timeout=60, check=False)
        leader, follower = pty.openpty()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=follower, stderr=follower) as process:
            os.close(follower)
            process.communicate(b"Hello\n", timeout=60)
        seen = b""
        while select.select([leader], [], [], 0.2)[0]:
            try:
                seen += os.read(leader, 65536)
            except OSError:  # no more output
                break
        os.close(leader)
        return seen.decode()

    def test_chat_escapes_control_characters_of_answers_on_a_terminal(self):
        shown = self.chat(EVENTS, event(self.HOSTILE), b"data: [DONE]\n\n", terminal=True)
        self.assertIn(r"\x1b]0;pwned\x07\x1b[2J\u009b31mhi", shown)
        self.assertIn("hi\tthere", shown)
        refused = self.chat(REFUSED, json.dumps({"error": {"message": self.HOSTILE}}).encode(), terminal=True)
        plain = self.chat(REFUSED, self.HOSTILE.encode(), terminal=True)
        for text in (shown, refused, plain):
            self.assertIn("pwned", text)
            self.assertEqual([c for c in text if (ord(c) < 32 and c not in "\r\n\t") or 0x7f <= ord(c) < 0xa0], [])

    def test_chat_writes_answers_unchanged_into_a_pipe(self):
        self.assertEqual(self.chat(EVENTS, event(self.HOSTILE), b"data: [DONE]\n\n").stdout, self.HOSTILE + "\n")

    def test_chat_ends_with_1_when_an_error_body_has_any_form(self):
        for body in (b'{"error":{"message":5}}', b'{"error":5}', b"[]", b"5", b"", b"{", b'{"error":{"message":null}}'):
            done = self.chat(REFUSED, body)
            self.assertEqual(done.returncode, 1, body)
            self.assertIn("status 400", done.stderr)
        self.assertEqual(self.chat(EVENTS, b'data: {"choices":{"a":1},"usage":{"completion_tokens":"x"}}\n\n').returncode, 1)

    def test_chat_ends_when_an_answer_passes_the_body_limit(self):
        done = self.chat(EVENTS, *[event("A" * 4000) * 256] * 80)
        self.assertEqual(done.returncode, 1)
        self.assertIn("body limit", done.stderr)
        self.assertLess(len(done.stdout), 64 << 20)
        done = self.chat(EVENTS, b'data: {"choices":[', *[b"1," * (1 << 19)] * 70)
        self.assertEqual(done.returncode, 1)
        self.assertIn("body limit", done.stderr)


class TerminalTest(unittest.TestCase):
    """Tests the keys and the screen on a pseudo-terminal."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--threads-per-worker", "1", model=TINY)
        cls.addClassCleanup(cls.server.__exit__)

    def setUp(self):
        leader, follower = pty.openpty()
        self.addCleanup(os.close, leader)
        self.terminal, self.seen = leader, b""
        self.process = subprocess.Popen([QUIRE, "chat", self.server.url, "--temperature", "0", "--max-tokens", "20"], stdin=follower,
                                        stdout=follower, stderr=follower, start_new_session=True, env={**os.environ, "TERM": "xterm"})
        os.close(follower)
        self.addCleanup(self.end)
        self.wait_for_prompt(b"/help\r\n")

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def read_until(self, reached):
        deadline = time.monotonic() + 60
        while not reached():
            self.assertLess(time.monotonic(), deadline, self.seen)
            if select.select([self.terminal], [], [], 0.2)[0]:
                self.seen += os.read(self.terminal, 65536)

    def wait_for(self, text):
        self.read_until(lambda: text in self.seen)

    def wait_for_prompt(self, after):
        """Waits until a prompt follows this text, and until the line editor has the terminal: before that, the kernel handles
        Ctrl-D. Then forgets the output read until now."""
        self.read_until(lambda: b"> " in self.seen.partition(after)[2] and not termios.tcgetattr(self.terminal)[3] & termios.ICANON)
        self.seen = b""

    def type(self, keys):
        os.write(self.terminal, keys)

    def test_chat_on_a_terminal_answers_repeats_history_and_ends_with_ctrl_d(self):
        self.type(b"Hello\r")
        self.wait_for_prompt(b"20 tokens, first after")
        self.type(b"\x1b[A\r")  # arrow up recalls the last message
        self.wait_for_prompt(b"20 tokens, first after")
        self.type(b"\x04")  # Ctrl-D
        self.assertEqual(self.process.wait(timeout=20), 0)

    def saved(self):
        """Returns the present conversation, as `/save` writes it."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "chat.json")
            self.type(f"/save {path}\r".encode())
            self.wait_for_prompt(b"written to")
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def test_pasted_lines_are_one_message(self):
        self.assertEqual(self.process.poll(), None)
        self.type(b"Read: \x1b[200~def f():\r\treturn 1\n\n  # \xc3\xa9\xe2\x82\xac\x01\x1b[A\x1b[201~ please\r")
        self.wait_for_prompt(b"20 tokens, first after")
        self.type(b"caf\xc3\xa9\r")
        self.wait_for_prompt(b"20 tokens, first after")
        messages = [message["content"] for message in self.saved() if message["role"] == "user"]
        self.assertEqual(messages, ["Read: def f():\n\treturn 1\n\n  # é€[A please", "café"])
        self.type(b"\x1b[200~never sent\n\x1b[201~")
        self.wait_for(b"never sent")
        self.type(b"\x15/quit\r")  # Ctrl-U
        self.process.wait(timeout=20)
        self.read_rest()
        self.assertIn(b"\x1b[?2004l", self.seen)

    def read_rest(self):
        while select.select([self.terminal], [], [], 0.2)[0]:
            try:
                self.seen += os.read(self.terminal, 65536)
            except OSError:  # the program has closed the terminal
                return

    def test_sigint_stops_an_answer_and_the_chat_continues(self):
        self.type(b"/set max_tokens 1900\r/set ignore_eos true\rHello\r")
        self.wait_for(b"Hello")
        deadline = time.monotonic() + 30
        while self.server.get("/admin/status", admin=True)["running"] == 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.server.post("/admin/pause", {}, admin=True)  # without tokens the answer cannot end by itself
        self.addCleanup(self.server.post, "/admin/resume", {}, admin=True)
        self.process.send_signal(signal.SIGINT)
        self.wait_for_prompt(b", stopped")
        while self.server.get("/admin/status", admin=True)["running"] > 0:
            self.assertLess(time.monotonic(), deadline, "the server goes on")
            time.sleep(0.02)
        self.server.post("/admin/resume", {}, admin=True)
        self.type(b"/set max_tokens 2\rOnce more\r")
        self.wait_for_prompt(b"2 tokens, first after")
        self.type(b"/quit\r")
        self.process.wait(timeout=20)


class NobodyTest(unittest.TestCase):
    def test_chat_on_a_terminal_ends_before_the_first_message_when_no_server_answers(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        leader, follower = pty.openpty()
        self.addCleanup(os.close, leader)
        with subprocess.Popen([QUIRE, "chat", f"127.0.0.1:{port}"], stdin=follower, stdout=follower, stderr=follower, start_new_session=True) as process:
            os.close(follower)
            self.assertEqual(process.wait(timeout=20), 1)  # the user typed no message
        seen = b""
        while select.select([leader], [], [], 0.2)[0]:
            try:
                seen += os.read(leader, 65536)
            except OSError:
                break
        self.assertIn(f"cannot connect to 127.0.0.1:{port}".encode(), seen)
        self.assertIn(b"`quire serve` starts a server", seen)
        self.assertNotIn(b"/help", seen)


if __name__ == "__main__":
    verdict.run_tests()
