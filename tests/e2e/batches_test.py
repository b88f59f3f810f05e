"""Tests /v1/files and /v1/batches with the official, unchanged openai client, and a server that is killed in the middle of a batch."""
import io
import json
import os
import pathlib
import signal
import tempfile
import time
import unittest

import openai

import verdict
from fairness_test import make_keys
from server import TINY, Server, altered_tiny
from structured_output_test import endless
from tools_test import PLAIN, with_template


def line(custom_id, url="/v1/completions", **body):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": {"temperature": 0, **body}})


def prompt_of(number):
    return [5 + number % 40, 6 + number % 7, 7]


def generations(count, max_tokens, **more):
    return "".join(line(f"line-{i}", prompt=prompt_of(i), max_tokens=max_tokens, **more) + "\n" for i in range(count))


class BatchCase(unittest.TestCase):
    """Tests of a server with a batch directory, which each test may stop and start again."""
    FLAGS, CONFIG = (), {}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.directory = self.folder / "batches"
        self.model = altered_tiny(folder.name, config=endless, generation_config=endless, **self.CONFIG)
        self.server = None
        self.addCleanup(lambda: self.server and self.server.__exit__())
        self.start()

    def start(self, *flags):
        self.server = Server("--threads-per-worker", "1", "--served-model-name", "tiny", "--batch-dir", str(self.directory), *self.FLAGS, *flags, model=self.model)
        self.client = self.client_of("none")

    def client_of(self, key):
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key=key, max_retries=0)
        self.addCleanup(client.close)
        return client

    def kill(self):
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait()
        self.server.__exit__()

    def upload(self, content, client=None, **more):
        return (client or self.client).files.create(file=("in.jsonl", content.encode()), purpose="batch", **more)

    def create(self, content, client=None, endpoint="/v1/completions", window="24h", **more):
        client = client or self.client
        return client.batches.create(input_file_id=self.upload(content, client).id, endpoint=endpoint, completion_window=window, **more)

    def wait(self, batch, *statuses, client=None, seconds=120):
        deadline = time.monotonic() + seconds
        while True:
            now = (client or self.client).batches.retrieve(batch.id)
            if now.status in statuses:
                return now
            self.assertNotIn(now.status, ("failed", "completed", "expired", "cancelled"), now)
            self.assertLess(time.monotonic(), deadline, (now, self.server.text()[-3000:]))
            time.sleep(0.02)

    def lines(self, file_id, client=None):
        """Returns the lines of a file by custom_id. Expects that no custom_id occurs twice."""
        lines = [json.loads(text) for text in (client or self.client).files.content(file_id).text.splitlines()]
        by_id = {one["custom_id"]: one for one in lines}
        self.assertEqual(len(by_id), len(lines), "a line stands there once")
        return by_id

    def recorded(self, batch):
        """Returns the number of lines whose result is on the disk."""
        path = self.directory / f"{batch.id}.output"
        return path.read_text().count("\n") if path.exists() else 0


class FilesTest(BatchCase):
    def test_files_are_uploaded_listed_read_and_deleted(self):
        content = "".join(f"line {i}\n" for i in range(250_000)) + "end"  # longer than other bodies may be, and sent in several pieces
        file = self.upload(content)
        self.assertEqual((file.object, file.bytes, file.filename, file.purpose, file.status), ("file", len(content), "in.jsonl", "batch", "processed"))
        self.assertEqual(self.client.files.retrieve(file.id), file)
        self.assertEqual(self.client.files.content(file.id).text, content)
        others = [self.upload(str(i)) for i in range(3)]
        self.assertEqual([one.id for one in self.client.files.list()], [one.id for one in reversed([file, *others])])
        self.assertEqual([one.id for one in self.client.files.list(limit=2, order="asc")], [file.id] + [one.id for one in others])
        page = self.client.files.list(limit=2, after=others[2].id)
        self.assertEqual(([one.id for one in page.data], page.has_more), ([others[1].id, others[0].id], True))
        self.assertTrue(self.client.files.delete(file.id).deleted)
        with self.assertRaises(openai.NotFoundError):
            self.client.files.retrieve(file.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.files.content(file.id)

    def test_files_expire_at_the_time_that_expires_after_asks_for(self):
        file = self.upload("x", expires_after={"anchor": "created_at", "seconds": 3600})
        self.assertEqual(file.expires_at, file.created_at + 3600)

    def test_uploads_with_an_invalid_field_are_refused_with_the_fields_name(self):
        for more, param in (({"purpose": "assistants"}, "purpose"), ({"purpose": "batch", "expires_after": {"anchor": "created_at", "seconds": 5}}, "expires_after")):
            with self.assertRaises(openai.BadRequestError) as refused:
                self.client.files.create(file=io.BytesIO(b"x"), **more)
            self.assertEqual(refused.exception.param, param)
        deadline = time.monotonic() + 20
        while os.listdir(self.directory) != ["lock"]:
            self.assertLess(time.monotonic(), deadline, "something is left of them")
            time.sleep(0.02)
        status, answer = self.server.post("/v1/files", {"purpose": "batch"})
        self.assertEqual((status, "multipart/form-data" in answer["error"]["message"]), (415, True), answer)

    def test_pages_of_other_origins_cannot_post_files(self):
        form = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--x--\r\n'
        for origin, allowed in (("", True), ("http://evil.example", False)):
            headers = {"Content-Type": "multipart/form-data; boundary=x", **({"Origin": origin} if origin else {})}
            status, answer = self.server.post("/v1/files", form, headers=headers)
            self.assertEqual(answer["error"].get("param") == "purpose", allowed, (status, answer))

    def test_files_survive_a_killed_server(self):
        file = self.upload("kept\n")
        self.kill()
        self.start()
        self.assertEqual(self.client.files.retrieve(file.id), file)
        self.assertEqual(self.client.files.content(file.id).text, "kept\n")
        for name in os.listdir(self.directory):
            self.assertEqual((self.directory / name).stat().st_mode & 0o7777, 0o600, name)
        self.assertEqual(self.directory.stat().st_mode & 0o7777, 0o700)


class BatchesTest(BatchCase):
    def test_batch_results_equal_answers_to_single_requests(self):
        batch = self.create(generations(6, 5), metadata={"for": "a test"})
        self.assertEqual((batch.object, batch.status, batch.completion_window, batch.metadata), ("batch", "validating", "24h", {"for": "a test"}))
        self.assertEqual(batch.expires_at, batch.created_at + 24 * 3600)
        done = self.wait(batch, "completed")
        self.assertEqual((done.request_counts.total, done.request_counts.completed, done.request_counts.failed), (6, 6, 0))
        self.assertLessEqual(batch.created_at, done.in_progress_at)
        self.assertLessEqual(done.in_progress_at, done.finalizing_at)
        self.assertLessEqual(done.finalizing_at, done.completed_at)
        self.assertIsNone(done.error_file_id)
        lines = self.lines(done.output_file_id)
        for i in range(6):
            got = lines[f"line-{i}"]
            self.assertEqual((set(got), got["error"], got["response"]["status_code"]), ({"id", "custom_id", "response", "error"}, None, 200))
            self.assertTrue(got["response"]["request_id"])
            alone = self.client.completions.create(model="tiny", prompt=prompt_of(i), max_tokens=5, temperature=0)
            self.assertEqual(got["response"]["body"]["choices"][0]["text"], alone.choices[0].text)
        output = self.client.files.retrieve(done.output_file_id)
        self.assertEqual(output.purpose, "batch_output")

    def test_refused_requests_go_to_the_error_file(self):
        done = self.wait(self.create(line("good", prompt=[5], max_tokens=1) + "\n" + line("bad", prompt=[5], max_tokens="many")), "completed")
        self.assertEqual((done.request_counts.total, done.request_counts.completed, done.request_counts.failed), (2, 1, 1))
        self.assertEqual(set(self.lines(done.output_file_id)), {"good"})
        bad = self.lines(done.error_file_id)["bad"]
        self.assertEqual(bad["response"]["status_code"], 400)
        self.assertIn("max_tokens", bad["response"]["body"]["error"]["message"])

    def test_batch_with_faulty_lines_fails_and_lists_each_of_them(self):
        batch = self.create(line("a", prompt=[5]) + "\n{oops\n" + line("a", prompt=[5]) + "\n" + line("b", "/v1/embeddings", input="x"))
        deadline = time.monotonic() + 30
        while (failed := self.client.batches.retrieve(batch.id)).status == "validating":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertEqual(failed.status, "failed")
        self.assertEqual([(fault.line, fault.code) for fault in failed.errors.data], [(2, "invalid_json_line"), (3, "duplicate_custom_id"), (4, "mismatched_endpoint")])
        self.assertIsNotNone(failed.failed_at)
        self.assertIsNone(failed.output_file_id)

    def test_batches_with_an_invalid_field_are_refused_with_the_fields_name(self):
        file = self.upload(line("a", prompt=[5]))
        good = {"input_file_id": file.id, "endpoint": "/v1/completions", "completion_window": "24h"}
        for field, value in (("input_file_id", "file-0"), ("endpoint", "/v1/rerank"), ("completion_window", "soon"), ("completion_window", "0h"), ("completion_window", "0" * 100 + "24h"),
                             ("metadata", {"a": 5}), ("nonsense", 1), ("output_expires_after", {"anchor": "created_at", "seconds": 1})):
            status, answer = self.server.post("/v1/batches", {**good, field: value}, headers={"Authorization": "Bearer none"})
            self.assertEqual((status, answer["error"]["param"]), (400, field), answer)

    def test_restarted_server_runs_only_batch_lines_without_a_result(self):
        """Every line gets a result, and no line with a recorded result runs again, however often the server is killed."""
        count, length = 40, 200
        batch = self.create(generations(count, length))
        seen = {}
        for kill in range(2):
            deadline = time.monotonic() + 120
            while self.recorded(batch) < 5 * (kill + 1):
                self.assertLess(time.monotonic(), deadline, self.server.text()[-3000:])
                time.sleep(0.01)
            self.kill()
            text = (self.directory / f"{batch.id}.output").read_text()
            self.assertLess(text.count("\n"), count, "it was killed in the midst")
            for one in text.split("\n")[:-1]:
                seen[json.loads(one)["custom_id"]] = one
            self.start()
        done = self.wait(batch, "completed")
        self.assertEqual((done.request_counts.total, done.request_counts.completed, done.request_counts.failed), (count, count, 0))
        lines = self.lines(done.output_file_id)
        self.assertEqual(set(lines), {f"line-{i}" for i in range(count)})
        for custom_id, before in seen.items():
            self.assertEqual(lines[custom_id], json.loads(before), "a result that was recorded stays as it is")
        for i in range(0, count, 7):
            alone = self.client.completions.create(model="tiny", prompt=prompt_of(i), max_tokens=length, temperature=0)
            self.assertEqual(lines[f"line-{i}"]["response"]["body"]["choices"][0]["text"], alone.choices[0].text)

    def test_cancelled_batch_keeps_its_results_and_runs_no_more(self):
        batch = self.create(generations(200, 200))
        deadline = time.monotonic() + 60
        while self.recorded(batch) < 2:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        cancelled = self.client.batches.cancel(batch.id)
        self.assertIn(cancelled.status, ("cancelling", "cancelled"))
        done = self.wait(batch, "cancelled")
        self.assertIsNotNone(done.cancelling_at)
        self.assertIsNotNone(done.cancelled_at)
        self.assertEqual(len(self.lines(done.output_file_id)), done.request_counts.completed)
        self.assertLess(done.request_counts.completed, 200)
        with self.assertRaises(openai.ConflictError):
            self.client.batches.cancel(batch.id)
        deadline = time.monotonic() + 30
        while self.server.get("/load")["server_load"]:
            self.assertLess(time.monotonic(), deadline, "its requests end")
            time.sleep(0.02)

    def test_expired_batch_lists_unexecuted_requests_as_errors(self):
        done = self.wait(self.create(generations(2000, 400), window="2s"), "expired")
        self.assertEqual(done.request_counts.total, 2000)
        self.assertEqual(done.request_counts.completed + done.request_counts.failed, 2000)
        errors = self.lines(done.error_file_id)
        self.assertEqual(len(errors), done.request_counts.failed)
        self.assertEqual({one["error"]["code"] for one in errors.values()}, {"batch_expired"})
        self.assertIsNotNone(done.expired_at)
        finished = self.lines(done.output_file_id) if done.output_file_id else {}
        self.assertEqual(len(finished) + len(errors), 2000)
        self.assertFalse(set(finished) & set(errors))

    def test_batches_are_listed_page_by_page(self):
        batches = [self.create(line("a", prompt=[5], max_tokens=1)) for _ in range(3)]
        self.assertEqual([one.id for one in self.client.batches.list()], [one.id for one in reversed(batches)])
        page = self.client.batches.list(limit=2)
        self.assertEqual(([one.id for one in page.data], page.has_more), ([batches[2].id, batches[1].id], True))
        self.assertEqual([one.id for one in self.client.batches.list(limit=1)], [one.id for one in reversed(batches)])
        with self.assertRaises(openai.NotFoundError):
            self.client.batches.retrieve("batch_0")

    def test_input_file_of_an_unfinished_batch_cannot_be_deleted(self):
        batch = self.create(generations(200, 200))
        with self.assertRaises(openai.BadRequestError):
            self.client.files.delete(batch.input_file_id)
        self.client.batches.cancel(batch.id)
        self.wait(batch, "cancelled")
        self.assertTrue(self.client.files.delete(batch.input_file_id).deleted)

    def test_other_requests_are_answered_while_a_batch_could_fill_the_server(self):
        """Other requests are answered soon while a batch that could fill the server is running."""
        batch = self.create(generations(400, 400))
        deadline = time.monotonic() + 60
        while self.recorded(batch) < 1:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        for i in range(20):
            self.client.completions.create(model="tiny", prompt=prompt_of(i), max_tokens=20)
        self.assertEqual(self.client.batches.retrieve(batch.id).status, "in_progress")
        self.client.batches.cancel(batch.id)

    def test_metrics_status_and_settings_report_batches(self):
        self.wait(self.create(generations(3, 2)), "completed")
        page = self.server.get("/metrics", admin=True)
        for what in ('quire:batches{status="completed"} 1', "quire:batch_files 2", 'quire:batch_requests_total{result="completed"} 3', "quire:batch_requests_running 0"):
            self.assertIn(what, page)
        told = self.server.get("/admin/status", admin=True)["batches"]
        self.assertEqual((told["batches"]["completed"], told["files"], told["completed_requests"], told["failed_requests"], told["running_requests"]), (1, 2, 3, 0, 0))
        settings = self.server.get("/admin/config", admin=True)
        settings = settings.get("settings", settings)
        self.assertEqual((settings["batch_dir"], settings["batch_max_bytes"], settings["batch_concurrency"]), (str(self.directory), 4 << 30, 16))

    def test_second_server_cannot_use_the_batch_directory(self):
        with self.assertRaises(AssertionError) as refused:
            Server("--threads-per-worker", "1", "--batch-dir", str(self.directory), model=self.model)
        self.assertIn("another server uses it", str(refused.exception))


class EndpointsTest(BatchCase):
    FLAGS = ("--pooling", "mean")
    CONFIG = {"tokenizer_config": with_template(PLAIN)}
    ASKS = {
        "/v1/completions": {"prompt": [5], "max_tokens": 3, "temperature": 0},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "temperature": 0},
        "/v1/responses": {"input": "hi", "max_output_tokens": 3, "temperature": 0},
        "/v1/embeddings": {"input": ["hi", "ho"]},
    }

    @staticmethod
    def said(endpoint, answer):
        """Returns the part of an answer that the model made: texts or vectors."""
        if endpoint == "/v1/responses":
            return [content["text"] for item in answer["output"] for content in item["content"]]
        if endpoint == "/v1/embeddings":
            return [one["embedding"] for one in answer["data"]]
        return [choice.get("text") or choice["message"]["content"] for choice in answer["choices"]]

    def test_every_endpoint_answers_batches_as_it_answers_requests(self):
        for endpoint, body in self.ASKS.items():
            with self.subTest(endpoint=endpoint):
                content = json.dumps({"custom_id": "a", "method": "POST", "url": endpoint, "body": body})
                done = self.wait(self.create(content, endpoint=endpoint), "completed")
                self.assertEqual((done.request_counts.completed, done.request_counts.failed), (1, 0), done)
                response = self.lines(done.output_file_id)["a"]["response"]
                status, alone = self.server.post(endpoint, body)
                self.assertEqual((response["status_code"], status), (200, 200), (response, alone))
                self.assertEqual(self.said(endpoint, response["body"]), self.said(endpoint, alone))
                self.assertTrue(self.said(endpoint, alone)[0])


class KeysTest(BatchCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path, self.keys = make_keys(folder.name, "anna", "bert")
        self.FLAGS = ("--api-key-file", path)
        super().setUp()

    def start(self, *flags):
        super().start(*flags)
        self.anna, self.bert = self.client_of(self.keys["anna"]), self.client_of(self.keys["bert"])

    def test_files_and_batches_are_hidden_from_other_keys(self):
        batch = self.create(generations(2, 2), self.anna)
        done = self.wait(batch, "completed", client=self.anna)
        for refused in (lambda: self.bert.batches.retrieve(batch.id), lambda: self.bert.batches.cancel(batch.id),
                        lambda: self.bert.files.retrieve(batch.input_file_id), lambda: self.bert.files.content(done.output_file_id),
                        lambda: self.bert.files.delete(batch.input_file_id)):
            with self.assertRaises(openai.NotFoundError):
                refused()
        with self.assertRaises(openai.BadRequestError):
            self.bert.batches.create(input_file_id=batch.input_file_id, endpoint="/v1/completions", completion_window="24h")
        self.assertEqual((self.bert.batches.list().data, self.bert.files.list().data), ([], []))
        self.kill()
        self.start()
        with self.assertRaises(openai.NotFoundError):
            self.bert.files.content(done.output_file_id)
        self.assertEqual(len(self.lines(done.output_file_id, self.anna)), 2)


class NarrowTest(BatchCase):
    FLAGS = ("--batch-max-bytes", "600KiB")  # one client may use half of this

    def test_expired_batch_says_how_many_lines_the_byte_limit_left_out(self):
        count = 500
        content = "".join(line(f"{'x' * 300}-{i}", prompt=prompt_of(i), max_tokens=400) + "\n" for i in range(count))
        self.assertLess(len(content), 290 << 10, "it can be uploaded")
        done = self.wait(self.create(content, window="1s"), "expired")
        self.assertEqual((done.request_counts.total, done.request_counts.completed + done.request_counts.failed), (count, count))
        told = done.errors.data
        self.assertEqual([one.code for one in told], ["batch_expired"])
        errors = self.lines(done.error_file_id) if done.error_file_id else {}
        self.assertEqual(int(told[0].message.split()[0]), done.request_counts.failed - len(errors))
        self.assertLess(len(errors), done.request_counts.failed)
        self.assertEqual({one["error"]["code"] for one in errors.values()} - {"batch_expired"}, set())

    def test_expired_batches_end_one_after_another_although_an_older_batch_runs(self):
        older = self.create(generations(200, 400, best_of=8, temperature=1))
        batches = [self.create(line("a", prompt=[5], max_tokens=400), window="1s") for _ in range(5)]
        for batch in batches:
            self.wait(batch, "expired")
        self.assertIn(self.client.batches.cancel(older.id).status, ("cancelling", "cancelled"))
        self.wait(older, "cancelled")


class WithoutDirectoryTest(unittest.TestCase):
    def test_file_and_batch_endpoints_name_the_missing_flag(self):
        with Server("--threads-per-worker", "1", model=TINY) as server, openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
            for ask in (lambda: client.files.create(file=b"x" * (3 << 20), purpose="batch"), client.files.list, client.batches.list, lambda: client.batches.retrieve("batch_0"),
                        lambda: client.batches.create(input_file_id="file-0", endpoint="/v1/completions", completion_window="24h")):
                with self.assertRaises(openai.NotFoundError) as refused:
                    ask()
                self.assertIn("--batch-dir", str(refused.exception))


if __name__ == "__main__":
    verdict.run_tests()
