#!/usr/bin/env python3
"""Tests `quire batch run` with a real server, and with servers that are full, give wrong answers or are gone. Also tests its input and
output files, and `quire warm`."""
import http.server
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import verdict
from server import QUIRE, TINY, Server, altered_tiny
from structured_output_test import endless


def line(custom_id, body, url="/v1/completions"):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


class EchoServer:
    """A server that answers each request with the request's body."""

    def __init__(self):
        self.bodies = bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                bodies.append(body.decode())
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Batch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.input = pathlib.Path(folder.name) / "work.jsonl"
        self.output = pathlib.Path(folder.name) / "work.answers.jsonl"

    def write(self, *lines):
        self.input.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))

    def run_batch(self, url, *flags, timeout=120):
        return subprocess.run([QUIRE, "batch", "run", self.input, "--url", url, *flags], capture_output=True, text=True,
                              timeout=timeout)

    def answers(self):
        lines = [json.loads(text) for text in self.output.read_text().splitlines()]
        self.assertEqual(len({one["custom_id"] for one in lines}), len(lines), "one line a request")
        return {one["custom_id"]: one for one in lines}


class ServedTest(Batch):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "2", "--threads-per-worker", "1", model=TINY)
        cls.addClassCleanup(cls.server.__exit__)

    def test_batch_keeps_the_order_of_members_and_the_digits_of_numbers_in_bodies(self):
        """The order of JSON members and the digits of numbers do not change on the way to the server and back."""
        names = ["zebra", "mango", "apple"]
        schema = {"type": "object", "properties": {name: {"enum": [1]} for name in names}, "required": names, "additionalProperties": False}
        no_space = {str(token): -100 for token in (197, 198, 201, 220)}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # a model whose token for the quotation mark does not end an answer
        model = altered_tiny(folder.name, config=endless, generation_config=endless)
        server = Server("-tp", "1", "--threads-per-worker", "1", model=model)
        self.addCleanup(server.__exit__)
        body = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 80, "logit_bias": no_space,
                "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}
        echo = EchoServer()
        self.addCleanup(echo.close)
        text = '{"zebra": 18446744073709551616, "mango": [1.50, {"z": 1, "a": 1e2}], "apple": "}"}'
        self.write('{"body" : ' + text + ' , "custom_id": "1", "method": "POST", "url": "/v1/any"}')
        self.assertEqual(self.run_batch(echo.url).returncode, 0)
        self.assertEqual(echo.bodies, [text])
        self.assertIn('"body":' + text + "}", self.output.read_text())
        self.output.unlink()
        self.write(line("1", body, "/v1/chat/completions"))
        self.assertEqual(self.run_batch(server.url).returncode, 0)
        status, direct = server.post("/v1/chat/completions", body)
        self.assertEqual(status, 200, direct)
        content = self.answers()["1"]["response"]["body"]["choices"][0]["message"]["content"]
        self.assertEqual((content, list(json.loads(content))), (direct["choices"][0]["message"]["content"], names))

    def test_batch_writes_one_answer_for_every_request(self):
        asked = {f"sum-{i}": {"prompt": f"{i} and {i} are", "max_tokens": 4, "temperature": 0} for i in range(40)}
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, "temperature": 0}
        self.write(*(line(name, body) for name, body in asked.items()), "", line("chat", chat, "/v1/chat/completions"),
                   line("wrong", {"prompt": "x", "max_tokens": -2}))
        result = self.run_batch(self.server.url, "--max-concurrency", "8")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("41 of 42 requests answered", result.stderr)
        answers = self.answers()
        self.assertEqual(set(answers), {*asked, "chat", "wrong"})
        for name, body in asked.items():
            response = answers[name]["response"]
            self.assertEqual(response["status_code"], 200)
            self.assertIsNone(answers[name]["error"])
            self.assertTrue(response["request_id"])
            status, alone = self.server.post("/v1/completions", body)
            self.assertEqual(status, 200)
            self.assertEqual(response["body"]["choices"][0]["text"], alone["choices"][0]["text"])
        self.assertEqual(answers["chat"]["response"]["body"]["object"], "chat.completion")
        refused = answers["wrong"]["response"]
        self.assertEqual(refused["status_code"], 400)
        self.assertIn("max_tokens", refused["body"]["error"]["message"])


class Played(Batch):
    """Base class of tests that play the server themselves."""

    def serve(self, answer):
        """Calls answer(handler, body) for every request. Returns the server's URL."""

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None  # ignores errors of interrupted clients
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(lambda: (server.shutdown(), thread.join(), server.server_close()))
        return f"http://127.0.0.1:{server.server_address[1]}"

    @staticmethod
    def reply(handler, status, body, **headers):
        text = json.dumps(body).encode()
        handler.send_response(status)
        for name, value in {"Content-Length": len(text), **headers}.items():
            handler.send_header(name.replace("_", "-"), str(value))
        handler.end_headers()
        handler.wfile.write(text)


class StrangerTest(Played):
    def test_batch_accepts_answers_whose_usage_is_missing_or_malformed(self):
        usages = [None, {}, {"completion_tokens": None}, {"completion_tokens": "x"}, {"completion_tokens": 3}]
        self.write(*(line(str(n), {"n": n}) for n in range(len(usages))))
        result = self.run_batch(self.serve(lambda handler, body: self.reply(handler, 200, {"usage": usages[body["n"]]})))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({name: one["response"]["body"]["usage"] for name, one in self.answers().items()},
                         {str(n): usage for n, usage in enumerate(usages)})

    def test_batch_sends_only_unanswered_requests_when_run_again_after_an_interrupt(self):
        held = threading.Event()
        self.addCleanup(held.set)
        seen = []

        def answer(handler, body):
            seen.append(body["n"])
            if body["n"] >= 3:
                held.wait(60)
            self.reply(handler, 200, {"n": body["n"]})

        self.write(*(line(str(n), {"n": n}) for n in range(12)))
        url = self.serve(answer)
        run = subprocess.Popen([QUIRE, "batch", "run", self.input, "--url", url, "--max-concurrency", "2"],
                               stderr=subprocess.PIPE, text=True)
        while not (self.output.exists() and self.output.read_text().count("\n") == 3):
            self.assertIsNone(run.poll(), "it ended before it could be interrupted")
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn("3 of 12 requests answered", errors)
        self.assertIn("interrupted with 9 left", errors)
        with self.output.open("a") as output:
            output.write('{"id":"batch_req_11","custom_id":"11","response":{"status_co')  # a line that a crash cut off
        held.set()
        seen.clear()
        result = self.run_batch(url)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("3 of 12 requests were answered before", result.stderr)
        self.assertEqual(set(seen), set(range(3, 12)), "what was answered is not asked again")
        self.assertEqual(len(self.answers()), 12)
        self.assertFalse(pathlib.Path(f"{self.output}.kept").exists())

    def test_batch_draws_a_progress_bar_on_a_terminal(self):
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def answer(handler, _):
            go_on.wait(60)
            self.reply(handler, 200, {"usage": {"completion_tokens": 5}})

        self.write(*(line(str(n), {}) for n in range(4)))
        terminal, side = pty.openpty()
        run = subprocess.Popen([QUIRE, "batch", "run", self.input, "--url", self.serve(answer)], stderr=side)
        os.close(side)
        shown = b""
        while True:
            try:
                shown += os.read(terminal, 4096)
            except OSError:  # the program closed its side
                break
            if b"4 under way" in shown:
                go_on.set()
        os.close(terminal)
        self.assertEqual(run.wait(60), 0)
        self.assertIn(b"\r[....", shown)
        self.assertIn(b"0 of 4 requests answered, 4 under way", shown)
        self.assertIn(b"4 of 4 requests answered, in ", shown)

    def test_batch_retries_requests_after_503_and_lost_connections(self):
        seen = {}

        def answer(handler, body):
            seen[body["n"]] = seen.get(body["n"], 0) + 1
            if body["n"] == 0 and seen[0] < 3:
                return self.reply(handler, 503, {}, Retry_After=0)
            if body["n"] == 1:
                return self.reply(handler, 429, {"error": {"message": "never"}}, Retry_After=0, x_should_retry="false")
            if body["n"] == 2 and seen[2] == 1:
                handler.close_connection = True
                return handler.connection.close()
            if body["n"] == 3:
                return self.reply(handler, 503, {"error": {"message": "full"}}, Retry_After=0)
            self.reply(handler, 200, {"usage": {"completion_tokens": 7}})

        self.write(*(line(str(n), {"n": n}) for n in range(4)))
        result = self.run_batch(self.serve(answer), "--retries", "4")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(seen, {0: 3, 1: 1, 2: 2, 3: 5})
        answers = self.answers()
        self.assertEqual({name: answers[name]["response"]["status_code"] for name in answers},
                         {"0": 200, "1": 429, "2": 200, "3": 503})

    def test_batch_sends_refused_requests_again_in_the_next_run(self):
        refuses = [True]

        def answer(handler, _):
            self.reply(handler, 400 if refuses[0] else 200, {})

        self.write(line("a", {}))
        url = self.serve(answer)
        self.assertEqual(self.run_batch(url).returncode, 1)
        refuses[0] = False
        self.assertEqual(self.run_batch(url).returncode, 0)
        self.assertEqual(self.answers()["a"]["response"]["status_code"], 200)

    def test_batch_writes_a_connection_error_for_each_request_when_no_server_listens(self):
        self.write(line("a", {}), line("b", {}))
        result = self.run_batch("http://127.0.0.1:1", "--retries", "0")
        self.assertEqual(result.returncode, 1)
        for answer in self.answers().values():
            self.assertIsNone(answer["response"])
            self.assertEqual(answer["error"]["code"], "connection_error")
            self.assertIn("cannot connect", answer["error"]["message"])

    def test_batch_refuses_an_output_file_that_another_run_writes_to(self):
        self.write(line("a", {}))
        asked, go_on = threading.Event(), threading.Event()
        self.addCleanup(go_on.set)

        def answer(handler, _):
            asked.set()
            go_on.wait(60)
            self.reply(handler, 200, {})

        url = self.serve(answer)
        first = subprocess.Popen([QUIRE, "batch", "run", self.input, "--url", url], stderr=subprocess.DEVNULL)
        self.assertTrue(asked.wait(60))
        second = self.run_batch(url)
        self.assertEqual(second.returncode, 1)
        self.assertIn("another run writes to it", second.stderr)
        go_on.set()
        self.assertEqual(first.wait(60), 0)

    def test_batch_names_the_line_and_the_problem_of_a_bad_request(self):
        good = line("a", {})
        for bad, what in (("{", "line 2"), ([1], "not a JSON object"), ({**good, "custom_id": "a"}, "comes twice"),
                          ({**good, "custom_id": 7}, '"custom_id" must be a string'),
                          ({**good, "custom_id": "b", "url": "v1/completions"}, '"url" must be a path'),
                          ({**good, "custom_id": "b", "url": "/v1 x"}, '"url" must be a path'),
                          ({**good, "custom_id": "b", "url": "/v1\tx"}, '"url" must be a path'),
                          ({**good, "custom_id": "b", "url": "/v1\x00x"}, '"url" must be a path'),
                          ({**good, "custom_id": "b", "method": "GET"}, '"method" must be "POST"'),
                          ({**good, "custom_id": "b", "body": "x"}, '"body" must be an object'),
                          (line("b", {"stream": True}), "cannot be streamed")):
            self.write(good, bad if isinstance(bad, str) else json.dumps(bad))
            result = self.run_batch("http://127.0.0.1:1")
            self.assertEqual(result.returncode, 2)
            self.assertIn("line 2", result.stderr)
            self.assertIn(what, result.stderr)
            self.assertFalse(self.output.exists(), "nothing was sent")
        self.write("", "")
        self.assertIn("no requests", self.run_batch("http://127.0.0.1:1").stderr)
        result = self.run_batch("http://127.0.0.1:1", "--output", str(self.input))
        self.assertEqual(result.returncode, 2)
        self.assertIn("the file of the requests", result.stderr)


class FilesTest(Played):
    """Tests the output file: no other file is damaged, and no answer is lost."""

    def setUp(self):
        super().setUp()
        self.folder = self.input.parent
        self.asked = []

        def answer(handler, body):
            self.asked.append(body)
            self.reply(handler, 200, {})
        self.url = self.serve(answer)
        self.write(line("a", {}), line("b", {}))
        self.before = self.input.read_bytes()

    def run_into(self, output, **more):
        return subprocess.run([QUIRE, "batch", "run", self.input.name, "--url", self.url, "--retries", "0", "--output", output],
                              capture_output=True, text=True, timeout=60, cwd=self.folder, **more)

    def refused(self, output, reason):
        result = self.run_into(output)
        self.assertEqual(result.returncode, 2, output)
        self.assertIn(reason, result.stderr, output)
        self.assertEqual(self.asked, [], "nothing is sent for a file that is not written")
        self.assertEqual(self.input.read_bytes(), self.before)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(f"{output}.")], [], "nothing is left behind")

    def answered(self, custom_id, status=200, end="\n"):
        return json.dumps({"id": "batch_req_" + custom_id, "custom_id": custom_id, "error": None,
                           "response": {"status_code": status, "request_id": "", "body": {}}}) + end

    def test_batch_refuses_the_input_file_as_output_under_any_name(self):
        os.mkdir(self.folder / "sub")
        os.link(self.input, self.folder / "hard")
        for name in ("work.jsonl", "./work.jsonl", "sub/../work.jsonl", str(self.input), "hard"):
            self.refused(name, "that is the file of the requests")
        os.symlink("work.jsonl", self.folder / "soft")
        self.refused("soft", "that is a link, which is not followed; give another file to --output")
        self.assertTrue((self.folder / "soft").is_symlink())

    def test_batch_refuses_an_input_that_is_no_regular_file(self):
        os.unlink(self.input)
        os.mkfifo(self.input)
        result = self.run_batch("http://127.0.0.1:1")
        self.assertEqual(result.returncode, 2)
        self.assertIn("is not a regular file", result.stderr)

    def test_batch_follows_no_links_to_its_output(self):
        precious = self.folder / "precious"
        precious.write_text(self.answered("x"))
        for target in ("precious", "nothing", "loop"):
            os.symlink(target, self.folder / "loop" if target == "loop" else self.folder / f"to-{target}")
            self.refused("loop" if target == "loop" else f"to-{target}", "that is a link")
        self.assertEqual(precious.read_text(), self.answered("x"))
        self.assertFalse((self.folder / "nothing").exists())
        os.link(precious, self.folder / "second")
        self.refused("second", "the file has other names, too (hard links)")

    def test_batch_touches_no_files_beside_its_output(self):
        precious = self.folder / "precious"
        precious.write_text("precious\n")
        output = self.folder / "out.jsonl"
        for suffix in (".kept", ".tmp", ".new", "~"):
            os.symlink(precious, f"{output}{suffix}")
        output.write_text(self.answered("a", 500))
        self.assertEqual(self.run_into("out.jsonl").returncode, 0)
        self.assertEqual(precious.read_text(), "precious\n")
        self.assertEqual(len(os.listdir(self.folder)), 7, "all links are there, and nothing else")

    def test_batch_refuses_an_output_file_whose_lines_are_no_answers(self):
        for text, place in (("my diary\nline two\n", 1), ("one line\n", 1), ("no end", 1), ('{"a": 1}\n', 1), ("[]\n", 1), ("7\n", 1),
                            (self.before.decode(), 1), (self.answered("a") + "my diary\n", 2), (self.answered("a") + "{half\n" + self.answered("b"), 2),
                            ('{"custom_id": "a", "response": 7, "error": null}\n', 1), ("\xff\xfe\n", 1), ("{{ messages }}\n", 1), ("{{ messages }}", 1),
                            ('{"a": 1, "a": 2}\n', 1), ('{"a": 1, "a": 2}', 1), ('{"a": ' + "[" * 100 + "]" * 100 + "}", 1), ("{\n", 1),
                            ('{"id":"batch_req_a","cust\n', 1), (self.answered("a") + '{"id":"batch_re\n', 2), (self.answered("a") + '{"id":"other', 2)):
            output = self.folder / "diary"
            output.write_bytes(text.encode("latin-1"))
            self.refused("diary", f"line {place} is no answer of a batch, and would be lost; give another file to --output")
            self.assertEqual(output.read_bytes(), text.encode("latin-1"))
        for name, make in (("folder", os.mkdir), ("pipe", os.mkfifo)):
            make(self.folder / name)
            self.refused(name, "directory" if name == "folder" else "no ordinary file")
        self.refused("/dev/null", "no ordinary file")

    def test_batch_refuses_an_output_file_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give a file away")
        output = self.folder / "theirs"
        output.write_text(self.answered("a"))
        os.chown(output, 65534, 65534)
        self.refused("theirs", "it belongs to another user")

    def test_continued_batch_keeps_the_mode_and_answers_of_the_output_file(self):
        output = self.folder / "out.jsonl"
        for mode in (0o600, 0o640, 0o444 if os.geteuid() == 0 else 0o644):
            for rest in ("", "{", '{"id":"batch', '{"id":"batch_req_b","custom_id":"b","resp', self.answered("x", 500), "\n\n"):
                for end in ("\n", "") if rest == "" else ("\n",):
                    output.unlink(missing_ok=True)
                    output.write_text(self.answered("a") + self.answered("c", end=end) + rest)
                    output.chmod(mode)
                    self.asked.clear()
                    result = self.run_into("out.jsonl", umask=0o022)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertEqual(len(self.asked), 1, "b is left")
                    self.assertEqual(output.stat().st_mode & 0o777, mode)
                    lines = output.read_text().splitlines(keepends=True)
                    self.assertEqual(lines[:2], [self.answered("a"), self.answered("c")])
                    self.assertEqual(json.loads(lines[2])["custom_id"], "b")
        self.assertEqual(sorted(os.listdir(self.folder)), ["out.jsonl", "work.jsonl"])

    def test_batch_syncs_the_new_file_before_it_replaces_the_old_one(self):
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        (self.folder / "out.jsonl").write_text(self.answered("a") + self.answered("b") + '{"id":"batch_req_c')
        log = self.folder / "calls"
        subprocess.run(["strace", "-f", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2", "-o", log, QUIRE, "batch", "run", self.input.name,
                        "--output", "out.jsonl", "--url", self.url], cwd=self.folder, check=True, capture_output=True, timeout=120)
        calls = [name for name in re.findall(r"(f(?:data)?sync|rename)(?:at2?)?\(", log.read_text())]
        self.assertEqual(calls, ["fsync", "rename", "fsync"])

    def test_batch_continues_when_its_output_was_cut_off_at_any_byte(self):
        output = self.folder / "out.jsonl"
        self.assertEqual(self.run_into("out.jsonl").returncode, 0)
        whole = sorted(output.read_bytes().splitlines(keepends=True))
        for size in (1, 2, 5, 16, 17, 18, 19, 40, len(whole[1]) - 2):
            output.write_bytes(whole[0] + whole[1][:size])
            result = self.run_into("out.jsonl")
            self.assertEqual(result.returncode, 0, (size, result.stderr))
            self.assertEqual(output.read_bytes(), b"".join(whole), size)

    def test_batch_recognises_its_own_answers_of_any_nesting_depth(self):
        for depth in (63, 64, 65, 66, 100):
            body = json.loads('{"a":' * (depth - 1) + "{}" + "}" * (depth - 1))
            url = self.serve(lambda handler, _, body=body: self.reply(handler, 200, body))
            output = self.folder / "deep.jsonl"
            output.unlink(missing_ok=True)
            for _ in range(2):
                result = subprocess.run([QUIRE, "batch", "run", self.input.name, "--url", url, "--output", output.name], cwd=self.folder,
                                        capture_output=True, text=True, timeout=60)
                self.assertEqual(result.returncode, 0, (depth, result.stderr))
                kept = [json.loads(one)["response"]["body"] for one in output.read_text().splitlines()]
                self.assertEqual([json.loads(one) if isinstance(one, str) else one for one in kept], [body] * 2)

    def under_strace(self, inject):
        """Starts a run whose system calls strace changes as `inject` says."""
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        return subprocess.Popen(["strace", "-f", "-o", os.devnull, "-e", "trace=" + inject.split(":")[0], "-e", "inject=" + inject, QUIRE, "batch", "run",
                                 self.input.name, "--output", "out.jsonl", "--url", self.url], cwd=self.folder, stderr=subprocess.PIPE, text=True)

    def test_batch_reads_answers_written_before_the_lock_was_free(self):
        output = self.folder / "out.jsonl"
        run = self.under_strace("flock:delay_enter=2000000:when=1")
        end = time.monotonic() + 30
        while not output.exists() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.5)
        output.write_text('{"id":"batch_req_a","cus')
        error = run.communicate(timeout=60)[1]
        self.assertEqual(run.returncode, 0, error)
        self.assertEqual(sorted(json.loads(one)["custom_id"] for one in output.read_text().splitlines()), ["a", "b"])

    def test_batch_drops_group_permissions_when_the_group_cannot_be_kept(self):
        output = self.folder / "out.jsonl"
        output.write_text(self.answered("a", 500))
        for mode, wanted in ((0o664, 0o604), (0o640, 0o600)):
            output.write_text(self.answered("a", 500))
            output.chmod(mode)
            run = self.under_strace("fchown:error=EPERM")
            error = run.communicate(timeout=60)[1]
            self.assertEqual(run.returncode, 0, error)
            self.assertEqual(output.stat().st_mode & 0o777, wanted)

    def test_batch_lets_only_one_of_several_simultaneous_runs_write(self):
        output = self.folder / "out.jsonl"
        for _ in range(5):
            output.write_text(self.answered("a", 500) * 200)
            runs = [subprocess.Popen([QUIRE, "batch", "run", self.input.name, "--url", self.url, "--output", "out.jsonl"], cwd=self.folder,
                                     stderr=subprocess.PIPE, text=True) for _ in range(4)]
            errors = [(run.communicate(timeout=60)[1], run.returncode) for run in runs]
            for error, status in errors:
                self.assertTrue(status == 0 or "another run writes to it" in error, error)
            self.assertEqual(sorted(json.loads(one)["custom_id"] for one in output.read_text().splitlines()), ["a", "b"])
            output.unlink()


class WarmTest(Batch):
    """Tests `quire warm`, which caches the prompts of a file before clients send requests."""

    def warm(self, *words):
        done = subprocess.run([QUIRE, "warm", *words], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def test_warm_command_caches_prompts_given_as_texts_tokens_and_request_bodies(self):
        tokens = [3 + i * 7 % 140 for i in range(200)]
        chat = {"messages": [{"role": "user", "content": "Hello " * 60}]}
        lines = ["a text " * 40, tokens, {**chat, "stream": True, "n": 2, "max_tokens": 500}, {"prompt": tokens[:100], "cache_salt": "s"}]
        self.input.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
        with Server(model=TINY) as server:
            status, out, error = self.warm(str(self.input), "--url", server.url)
            self.assertEqual((status, error), (0, ""))
            self.assertRegex(out, r"^4 of 4 prompts are cached: \d+ tokens, of which 0 were cached before, in [\d.]+ s\n$")
            computed = int(re.search(r"(\d+) tokens", out)[1])
            for path, body, least in (("/v1/completions", {"prompt": tokens}, 192), ("/v1/chat/completions", chat, 16),
                                      ("/v1/completions", {"prompt": lines[0]}, 16), ("/v1/completions", {"prompt": tokens[:100], "cache_salt": "s"}, 96)):
                status, answer = server.post(path, {**body, "max_tokens": 2})
                self.assertEqual(status, 200, answer)
                self.assertGreaterEqual(answer["usage"]["prompt_tokens_details"]["cached_tokens"], least, body)
            again = self.warm(str(self.input), "--url", server.url)[1]
            self.assertEqual(int(re.search(r"(\d+) tokens", again)[1]), computed)
            self.assertGreater(int(re.search(r"which (\d+)", again)[1]), 0.8 * computed - 64)

    def test_warm_command_names_the_prompts_that_are_wrong_or_refused(self):
        with Server("--max-model-len", "64", model=TINY) as server:
            self.input.write_text(json.dumps([5] * 20) + "\n" + json.dumps([5] * 100) + "\n" + json.dumps({"prompt": [5], "model": "nobody"}))
            status, out, error = self.warm(str(self.input), "--url", server.url)
            self.assertEqual(status, 1)
            self.assertIn("1 of 3 prompts are cached", out)
            self.assertRegex(error, r"prompt 2: .*64")
            self.assertRegex(error, r"prompt 3: .*nobody")
        for text in ("5", "{}", "[]", "[1.5]", '{"messages": [}', "null"):
            self.input.write_text('"first"\n' + text)
            status, _, error = self.warm(str(self.input), "--url", server.url)
            self.assertEqual(status, 2, text)
            self.assertIn("line 2", error, text)
        self.input.write_text("\n \n")
        self.assertIn("no prompts", self.warm(str(self.input))[2])


if __name__ == "__main__":
    verdict.run_tests()
