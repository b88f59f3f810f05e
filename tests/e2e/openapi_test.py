"""Tests that /openapi.json matches the server: it names exactly the endpoints of the data port, the requests that it allows are accepted,
and answers match its schemas."""
import json
import os
import re
import tempfile
import unittest
import urllib.error
import urllib.request

import jsonschema

import verdict
from messages_test import HI, ToolsCase
from server import MODELS, ROOT, TINY, Server, altered_tiny, distinct
from structured_output_test import endless
from tools_test import TEMPLATE, THINKING, with_template

PAGES = {"/", "/chat", "/web/*"}  # pages for browsers, which are not part of the API
SOURCES = ("openai/data_port.cc", "openai/page_api.cc", "openai/response_pages.cc", "batches/file_pages.cc", "batches/batch_pages.cc")


def routes_of_code():
    """Returns the set of (method, path) that the sources list; "*" stands for the text after a prefix."""
    routes = set()
    for name in SOURCES:
        with open(os.path.join(ROOT, "coordinator", "api", name), encoding="utf-8") as f:
            source = f.read()
        constants = dict(re.findall(r'(k\w+) = "(/[^"]*)"', source))
        for method, literal, constant in re.findall(r'\{"(GET|POST|DELETE)", (?:"(/[^"]*)"|(k\w+)),', source):
            routes.add((method, literal or constants[constant]))
    return routes


class OpenApiCase(unittest.TestCase):
    MODEL, FLAGS = TINY, ("--max-model-len", "512", "--pooling", "last")

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.server = Server("--threads-per-worker", "1", "--batch-dir", folder.name, *cls.FLAGS, model=cls.MODEL)
        cls.addClassCleanup(cls.server.__exit__)
        cls.document = cls.server.get("/openapi.json")
        jsonschema.Draft202012Validator.check_schema({"$defs": cls.document["components"]["schemas"]})

    def check(self, value, schema, what):
        """Checks a value against a schema of the document."""
        whole = {**schema, "components": self.document["components"]}
        errors = [f"{error.json_path}: {error.message}" for error in jsonschema.Draft202012Validator(whole).iter_errors(value)]
        self.assertEqual(errors, [], f"{what}: {json.dumps(value)[:600]}")

    def operations(self):
        """Returns (path, method, operation) of all operations."""
        return [(path, method, operation) for path, methods in self.document["paths"].items() for method, operation in methods.items()]

    def response(self, operation, status):
        """Returns {content type: its description in the document} of an answer with this status."""
        found = operation["responses"].get(str(status)) or operation["responses"][f"{status // 100}XX"]
        if "$ref" in found:
            found = self.document["components"]["responses"][found["$ref"].rsplit("/", 1)[1]]
        return found["content"]

    def ask(self, method, path, body=None):
        """Returns (status, content type, text)."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server.url + path, data, {"Content-Type": "application/json"}, method=method.upper())
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, response.headers.get_content_type(), response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers.get_content_type(), error.read().decode()

    def expect(self, operation, method, path, body=None, status=200):
        """Sends a request, and checks the answer, or every event of a streamed answer, against the document. Returns the answer, or None
        for a stream."""
        got, kind, text = self.ask(method, path, body)
        self.assertEqual(got, status, text)
        content = self.response(operation, status)[kind]
        if kind == "application/json":
            answer = json.loads(text, object_pairs_hook=distinct)
            self.check(answer, content["schema"], f"{method} {path}")
            return answer
        if kind == "application/octet-stream":
            return text
        events = [line[6:] for line in text.split("\n") if line.startswith("data: ") and line != "data: [DONE]"]
        self.assertGreater(len(events), 2)
        data = content["schema"]["properties"]["data"]
        schema = data.get("anyOf", [data])[-1]["contentSchema"]  # an event may be [DONE] instead
        for event in events:
            self.check(json.loads(event, object_pairs_hook=distinct), schema, f"{method} {path}")
        return None


class OpenApiTest(OpenApiCase):
    def test_openapi_document_names_every_endpoint_and_no_other(self):
        of_code = {route for route in routes_of_code() if route[1] not in PAGES}
        of_document = {(method.upper(), re.sub(r"\{\w+\}.*$", "*", path)) for path, method, _ in self.operations()}
        self.assertEqual(of_document, of_code)
        names = [operation["operationId"] for _, _, operation in self.operations()]
        self.assertEqual(len(set(names)), len(names))
        links = self.document["paths"]["/v1/responses"]["post"]["responses"]["200"]["links"]
        self.assertLessEqual({link["operationId"] for link in links.values()}, set(names))

    def test_openapi_references_have_targets(self):
        text = json.dumps(self.document)
        for section, name in set(re.findall(r'"#/components/(\w+)/(\w+)"', text)):
            self.assertIn(name, self.document["components"][section])
        for name in self.document["components"]["schemas"]:
            self.assertIn(f'"#/components/schemas/{name}"', text)

    def test_openapi_examples_are_valid_and_get_valid_answers(self):
        count = 0
        for path, method, operation in self.operations():
            if path.endswith("/classify"):  # this model has no classes; see OpenApiClassesTest
                continue
            content = operation.get("requestBody", {"content": {}})["content"].get("application/json")
            if content is None:  # the content of a file, which another test covers
                continue
            self.assertGreater(len(content["examples"]), 0)
            kinds = set()
            for example in content["examples"].values():
                self.check(example["value"], content["schema"], path)
                file = {"input_file_id": self.upload(1)} if path == "/v1/batches" else {}
                self.expect(operation, method, path, {**example["value"], **file})
                kinds.add(bool(example["value"].get("stream")))
                count += 1
            self.assertEqual(kinds, {False, True} if "text/event-stream" in self.response(operation, 200) else {False}, path)
        self.assertGreater(count, 15)

    def upload(self, lines):
        """Uploads a file with `lines` requests and returns its id."""
        text = "\n".join(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": {"prompt": [5], "max_tokens": 500, "ignore_eos": True}})
                         for i in range(lines))
        parts = {'name="purpose"': "batch", 'name="file"; filename="in.jsonl"': text}
        form = "".join(f"--x\r\nContent-Disposition: form-data; {name}\r\n\r\n{value}\r\n" for name, value in parts.items()) + "--x--\r\n"
        request = urllib.request.Request(self.server.url + "/v1/files", form.encode(), {"Content-Type": "multipart/form-data; boundary=x"})
        with urllib.request.urlopen(request, timeout=60) as response:
            file = json.load(response)
        operation = self.document["paths"]["/v1/files"]["post"]
        self.check(file, self.response(operation, 200)["application/json"]["schema"], "post /v1/files")
        return file["id"]

    def test_answers_with_token_ids_and_prompt_logprobs_match_the_openapi_document(self):
        for path, body in (("/v1/completions", {"prompt": "hi there"}), ("/v1/chat/completions", {"messages": HI})):
            operation = self.document["paths"][path]["post"]
            body = {**body, "max_tokens": 4, "n": 2, "ignore_eos": True, "return_token_ids": True, "logprobs": 1 if path == "/v1/completions" else True}
            whole = self.expect(operation, "post", path, {**body, "prompt_logprobs": 2})
            place = whole["choices"][1] if path == "/v1/completions" else whole
            self.assertEqual(len(place["prompt_logprobs"]), len(place["prompt_token_ids"]))
            self.assertEqual(len(whole["choices"][1]["token_ids"]), 4)
            self.expect(operation, "post", path, {**body, "stream": True})

    def test_endpoints_without_a_body_match_the_openapi_document(self):
        _, _, text = self.ask("post", "/v1/responses", {"input": "hi", "max_output_tokens": 2})
        names = {"{model}": self.server.get("/v1/models")["data"][0]["id"], "{response_id}": json.loads(text)["id"], "{file_id}": self.upload(1)}
        _, _, text = self.ask("post", "/v1/batches", {"input_file_id": self.upload(500), "endpoint": "/v1/completions", "completion_window": "24h"})
        names["{batch_id}"] = json.loads(text)["id"]
        for path, method, operation in sorted(self.operations(), key=lambda one: one[1] == "delete"):
            if "requestBody" not in operation:
                self.expect(operation, method, re.sub(r"\{\w+\}", lambda found: names[found[0]], path))

    def test_errors_match_the_openapi_document(self):
        for path, method, operation in self.operations():
            if path == "/v1/files" and method == "post":
                self.expect(operation, method, path, {}, status=415)
            elif "requestBody" in operation:
                for body in ({}, [], "x", {"model": "other", "messages": 5, "prompt": 5, "tokens": "x", "input": 5}):
                    self.expect(operation, method, path, body, status=400)
            elif re.search(r"\{(response|file|batch)_id\}", path):
                self.expect(operation, method, re.sub(r"\{\w+\}", "none_0", path), status=404)

    def test_server_refuses_requests_that_the_openapi_document_forbids(self):
        """Sends fields and values that the document forbids: unknown fields, wrong types, and values beyond their bounds."""
        for path, schema, base in (("/v1/messages", "MessagesRequest", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}),
                                   ("/v1/responses", "ResponsesRequest", {"input": "hi", "max_output_tokens": 1})):
            operation = self.document["paths"][path]["post"]
            validator = jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{schema}", "components": self.document["components"]})
            for field, value in {"nonsense": 1, "temperature": -1, "top_p": 0, "seed": "x", "logit_bias": {"1": 1000}, "stream": "yes", "top_k": -2, "min_p": 2,
                                 "deadline_seconds": 0, "priority": 5000, "stop_token_ids": 5, "tools": [5], "tool_choice": {"type": 5}, "cache_salt": "x" * 300}.items():
                self.assertFalse(validator.is_valid({**base, field: value}), field)
                self.expect(operation, "post", path, {**base, field: value}, status=400)


class OpenApiClassesTest(OpenApiCase):
    MODEL, FLAGS = os.path.join(MODELS, "modernbert_classes"), ()

    def test_examples_of_classes_get_valid_answers_from_a_classifier(self):
        for path in ("/classify", "/v1/classify", "/pooling", "/v1/pooling"):
            operation = self.document["paths"][path]["post"]
            for example in operation["requestBody"]["content"]["application/json"]["examples"].values():
                self.expect(operation, "post", path, example["value"])
        rows = self.expect(self.document["paths"]["/pooling"]["post"], "post", "/pooling", {"input": [[5, 6, 7]], "task": "token_embed"})["data"][0]["data"]
        self.assertEqual(len(rows), 3)


class TemplateCase(OpenApiCase):
    """Serves the tiny model with the chat template TEMPLATE, by default one that shows tools."""
    TEMPLATE, FLAGS = TEMPLATE, ()

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.MODEL = altered_tiny(folder.name, config=endless, generation_config=endless, tokenizer_config=with_template(cls.TEMPLATE))
        super().setUpClass()

    def answers(self, path, **fields):
        """Returns the whole answer to a request that the document allows; also checks the same answer as a stream."""
        operation = self.document["paths"][path]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        for stream in (True, False):
            body = {**fields, "temperature": 4, "seed": 1, "stream": stream}
            self.check(body, schema, path)
            answer = self.expect(operation, "post", path, body)
        return answer


class CallsTest(TemplateCase):
    def test_tool_calls_match_the_openapi_document(self):
        function = {"name": "get_weather", "description": "d", "strict": True}
        schema = ToolsCase.CERTAIN[0]["input_schema"]
        chat = self.answers("/v1/chat/completions", messages=HI, max_tokens=900, tools=[{"type": "function", "function": {**function, "parameters": schema}}], tool_choice="required")
        self.assertEqual(chat["choices"][0]["finish_reason"], "tool_calls")
        message = self.answers("/v1/messages", messages=HI, max_tokens=900, tools=[{**function, "input_schema": schema}], tool_choice={"type": "any"})
        self.assertEqual(message["stop_reason"], "tool_use")
        response = self.answers("/v1/responses", input="hi", max_output_tokens=900, tools=[{"type": "function", **function, "parameters": schema}], tool_choice="required")
        self.assertEqual(response["output"][0]["type"], "function_call")


class ThoughtsTest(TemplateCase):
    TEMPLATE = THINKING.replace("enable_thinking is defined and enable_thinking", "true")

    def test_thoughts_match_the_openapi_document(self):
        bias = {"32": 60}
        self.assertIn("reasoning_content", self.answers("/v1/chat/completions", messages=HI, max_tokens=4, logit_bias=bias)["choices"][0]["message"])
        self.assertEqual(self.answers("/v1/messages", messages=HI, max_tokens=4, logit_bias=bias)["content"][0]["type"], "thinking")
        self.assertEqual(self.answers("/v1/responses", input="hi", max_output_tokens=4, logit_bias=bias)["output"][0]["type"], "reasoning")


if __name__ == "__main__":
    verdict.run_tests()
