"""Tests OpenAI's Responses API: answers of the tiny model, whose samples a bias or a grammar determines; stored answers, and which clients
may read them; and the unchanged official client with the quickstart model."""
import asyncio
import http.client
import json
import tempfile
import threading
import unittest

import openai
import pydantic

import verdict
from security_test import Keys, keygen
from server import REAL, TINY, Server, altered_tiny
from structured_output_test import END, endless
from tools_test import TEMPLATE, THINKING, with_template

A = ord("A") - 33  # a token of the tiny model
ONLY_A = {str(A): 60.0}


def request(server, method, path, key=None):
    """Sends a request and returns (status, parsed body)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, headers={"Authorization": "Bearer " + key} if key else {})
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response.status, body


class ResponsesCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        model = altered_tiny(cls.folder.name, config=endless, generation_config=endless)
        cls.server = Server("--threads-per-worker", "1", "--max-model-len", "512", model=model)
        cls.addClassCleanup(cls.server.__exit__)

    def ask(self, want=200, **fields):
        body = {"input": "hi", "max_output_tokens": 4, "temperature": 0, **fields}
        status, answer = self.server.post("/v1/responses", {name: value for name, value in body.items() if value is not None})
        self.assertEqual(status, want, answer)
        return answer

    def refused(self, message, param, want=400, **fields):
        error = self.ask(want=want, **fields)["error"]
        self.assertTrue(error["message"].startswith(message), error)
        self.assertEqual(error["param"], param)

    def events(self, **fields):
        body = {"input": "hi", "max_output_tokens": 4, "temperature": 0, "stream": True, **fields}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        connection.request("POST", "/v1/responses", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        self.assertEqual(response.status, 200, text)
        events = []
        for block in text.strip().split("\n\n"):
            name, data = block.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            self.assertEqual(name, "event: " + events[-1]["type"])
        return events

    def rendered(self, *messages):
        """Returns the number of tokens in the chat prompt of these messages."""
        return self.server.post("/v1/chat/completions/render", {"messages": [{"role": role, "content": content} for role, content in messages]})[1]["count"]


class FormTest(ResponsesCase):
    def test_responses_answer_has_the_form_of_a_response(self):
        answer = self.ask(logit_bias=ONLY_A, instructions="be short", metadata={"a": "b"}, user="u")
        self.assertRegex(answer["id"], "^resp_[0-9a-f]{16}$")
        self.assertEqual((answer["object"], answer["model"], answer["error"]), ("response", "tiny", None))
        self.assertEqual((answer["status"], answer["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))
        [item] = answer["output"]
        self.assertEqual((item["type"], item["role"], item["status"]), ("message", "assistant", "incomplete"))
        self.assertEqual(item["content"], [{"type": "output_text", "text": "AAAA", "annotations": [], "logprobs": []}])
        self.assertEqual({name: answer[name] for name in ("instructions", "metadata", "user", "temperature", "max_output_tokens", "store", "previous_response_id", "tools")},
                         {"instructions": "be short", "metadata": {"a": "b"}, "user": "u", "temperature": 0, "max_output_tokens": 4, "store": True,
                          "previous_response_id": None, "tools": []})
        usage = answer["usage"]
        self.assertEqual((usage["input_tokens"], usage["output_tokens"]), (self.rendered(("system", "be short"), ("user", "hi")), 4))
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + 4)
        ended = self.ask(logit_bias={str(END): 100})
        self.assertEqual((ended["status"], ended["incomplete_details"], ended["output"][0]["content"][0]["text"]), ("completed", None, ""))

    def test_responses_stream_equals_the_whole_answer_in_openais_events(self):
        whole = self.ask(logit_bias=ONLY_A)
        events = self.events(logit_bias=ONLY_A)
        names = [event["type"].removeprefix("response.") for event in events]
        self.assertEqual(names[:4], ["created", "in_progress", "output_item.added", "content_part.added"])
        self.assertEqual(names[-4:], ["output_text.done", "content_part.done", "output_item.done", "incomplete"])
        self.assertEqual(set(names[4:-4]), {"output_text.delta"})
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        self.assertEqual((events[0]["response"]["status"], events[0]["response"]["output"]), ("in_progress", []))
        item_id = events[2]["item"]["id"]
        self.assertEqual({event["item_id"] for event in events if "item_id" in event}, {item_id})
        self.assertEqual("".join(event["delta"] for event in events if "delta" in event), "AAAA")
        self.assertEqual(events[-4]["text"], "AAAA")
        self.assertEqual(events[-3]["part"], whole["output"][0]["content"][0])
        last = events[-1]["response"]
        self.assertEqual(events[-2]["item"], last["output"][0])
        own = ("id", "created_at", "output", "usage")  # usage differs, because the prompt is cached by now
        self.assertEqual({name: value for name, value in last.items() if name not in own}, {name: value for name, value in whole.items() if name not in own})
        self.assertEqual(last["output"][0]["content"], whole["output"][0]["content"])
        self.assertEqual(request(self.server, "GET", "/v1/responses/" + last["id"]), (200, last))
        lengths = []
        for method in ("GET", "HEAD"):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            connection.request(method, "/v1/responses/" + last["id"])
            response = connection.getresponse()
            lengths.append((response.status, response.getheader("Content-Length"), len(response.read()) > 0))
            connection.close()
        self.assertEqual(lengths, [(200, lengths[0][1], True), (200, lengths[0][1], False)])

    def test_responses_stream_without_text_has_all_events_but_deltas(self):
        names = [event["type"].removeprefix("response.") for event in self.events(logit_bias={str(END): 100})]
        self.assertEqual(names, ["created", "in_progress", "output_item.added", "content_part.added", "output_text.done", "content_part.done",
                                 "output_item.done", "completed"])

    def test_input_items_render_as_chat_messages(self):
        items = [{"role": "developer", "content": "d"}, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "o"}, {"type": "input_text", "text": "ne"}]},
                 {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "two", "annotations": []}]},
                 {"role": "user", "content": "three"}]
        counted = self.ask(input=items)["usage"]["input_tokens"]
        self.assertEqual(counted, self.rendered(("system", "d"), ("user", "one"), ("assistant", "two"), ("user", "three")))

    def test_responses_answer_keeps_to_a_json_schema(self):
        schema = {"type": "object", "properties": {"zeta": {"type": "boolean"}, "alpha": {"enum": ["x", "y"]}}, "required": ["zeta", "alpha"], "additionalProperties": False}
        shape = {"type": "json_schema", "name": "pair", "schema": schema, "strict": True}
        answer = self.ask(max_output_tokens=300, temperature=8, seed=1, text={"format": shape})
        self.assertEqual(answer["status"], "completed", answer)
        self.assertEqual(list(json.loads(answer["output"][0]["content"][0]["text"])), ["zeta", "alpha"])
        self.assertEqual(answer["text"], {"format": shape})

    def test_unsupported_responses_fields_are_refused_by_name(self):
        self.refused("input is missing", "input", input=None)
        self.refused("input is empty", "input", input=[])
        self.refused("input[0] must be an object", "input", input=[5])
        self.refused("input[0].role must be", "input", input=[{"role": "robot", "content": "x"}])
        self.refused("input[0].content[0].type is input_image;", "input", input=[{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}])
        self.refused("no item x is kept", "input", want=404, input=[{"type": "item_reference", "id": "x"}])
        self.refused("input[0].type is compaction: it holds", "input", input=[{"type": "compaction", "encrypted_content": "x"}])
        self.refused("input[0].type is hologram, which", "input", input=[{"type": "hologram"}])
        self.refused("max_output_tokens must be", "max_output_tokens", max_output_tokens=0)
        self.refused("This model's maximum context length is 512 tokens; max_output_tokens", "max_output_tokens", max_output_tokens=512)
        self.refused("This model's maximum context length", "input", input="x" * 5000)
        # The template shows no tools, but the server describes them.
        self.ask(want=200, tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}}])
        self.refused("tools[0].type is teleport;", "tools", tools=[{"type": "teleport"}])
        self.refused("tool_choice.type asks for web_search,", "tool_choice", tools=[{"type": "web_search"}], tool_choice={"type": "web_search"})
        self.refused("tool_choice asks for a call, but there are no tools", "tool_choice", tools=[{"type": "web_search"}], tool_choice="required")
        self.refused("text.format.type must be", "text", text={"format": {"type": "xml"}})
        self.refused("text.format.schema is missing", "text.format.schema", text={"format": {"type": "json_schema", "name": "x"}})
        self.refused("text.verbosity must be", "text", text={"verbosity": "loud"})
        for field, value in {"background": True, "conversation": "conv_1", "prompt": {"id": "x"}, "truncation": "half", "top_logprobs": 3, "nonsense": 1, "moderation": {}}.items():
            self.refused(field + " is not supported", field, **{field: value})
        self.refused("include[0] is message.output_text.logprobs, which", "include", include=["message.output_text.logprobs"])
        self.assertEqual(self.ask(reasoning={"effort": "high"})["status"], self.ask()["status"])  # the template reads no effort
        self.refused("reasoning.summary must be", "reasoning", reasoning={"summary": "long"})
        for field in ("user", "safety_identifier", "prompt_cache_key"):
            self.refused(field + " takes at most 512 bytes", field, **{field: 513 * "x"})
        self.refused("metadata takes at most 16 members", "metadata", metadata={str(i): "" for i in range(17)})
        self.refused(f"metadata.{65 * 'n'} is a name of more than 64 bytes", "metadata", metadata={65 * "n": ""})
        self.refused("metadata.n takes at most 512 bytes", "metadata", metadata={"n": 513 * "x"})
        self.refused("no response resp_0 is kept", "previous_response_id", want=404, previous_response_id="resp_0")

    def test_responses_fields_that_change_nothing_are_accepted(self):
        self.ask(background=False, truncation="disabled", include=["reasoning.encrypted_content"], reasoning={"effort": None}, top_logprobs=0, tools=[], tool_choice="auto",
                 service_tier="auto", safety_identifier="s", prompt_cache_key="k", parallel_tool_calls=True, text={"format": {"type": "text"}, "verbosity": "low"})
        self.ask(truncation="auto", include=["web_search_call.action.sources"], reasoning={"summary": "auto", "context": "all_turns"}, client_metadata={"session_id": "s"},
                 tools=[{"type": "web_search", "external_web_access": True}, {"type": "mcp", "server_url": "u"}])
        self.ask(tools=[{"type": "web_search"}])
        self.assertEqual(self.server.text().count("tools of the type web_search are left out"), 1)


class StoreTest(ResponsesCase):
    def test_response_continues_the_previous_one_without_the_earlier_instructions(self):
        first = self.ask(instructions="be short", logit_bias=ONLY_A)
        for stream in (False, True):
            fields = {"input": "more", "instructions": "be long", "previous_response_id": first["id"], "logit_bias": ONLY_A}
            second = self.events(**fields)[-1]["response"] if stream else self.ask(**fields)
            self.assertEqual(second["usage"]["input_tokens"], self.rendered(("system", "be long"), ("user", "hi"), ("assistant", "AAAA"), ("user", "more")))
            self.assertEqual(second["previous_response_id"], first["id"])
            third = self.ask(input="end", previous_response_id=second["id"])
            self.assertEqual(third["usage"]["input_tokens"],
                             self.rendered(("user", "hi"), ("assistant", "AAAA"), ("user", "more"), ("assistant", "AAAA"), ("user", "end")))

    def test_responses_are_stored_until_deleted(self):
        answer = self.ask()
        path = "/v1/responses/" + answer["id"]
        self.assertEqual(request(self.server, "GET", path), (200, answer))
        self.assertEqual(request(self.server, "DELETE", path), (200, {"id": answer["id"], "object": "response", "deleted": True}))
        for method in ("GET", "DELETE"):
            self.assertEqual(request(self.server, method, path)[0], 404)
        self.refused("no response", "previous_response_id", want=404, previous_response_id=answer["id"])
        self.assertEqual(request(self.server, "GET", path + "?stream=true")[0], 400)

    def test_input_can_refer_to_items_of_stored_responses(self):
        first = self.ask(logit_bias=ONLY_A)
        [item] = first["output"]
        refer = {"type": "item_reference", "id": item["id"]}
        again = self.ask(input=[{"role": "user", "content": "hi"}, refer, {"role": "user", "content": "more"}])
        self.assertEqual(again["usage"]["input_tokens"], self.rendered(("user", "hi"), ("assistant", "AAAA"), ("user", "more")))
        self.refused("input[2].id is referred to twice", "input", input=[{"role": "user", "content": "hi"}, refer, refer])
        self.refused("no item msg_", "input", want=404, input=[{**refer, "id": item["id"][:-2] + "77"}])
        request(self.server, "DELETE", "/v1/responses/" + first["id"])
        self.refused("no item " + item["id"], "input", want=404, input=[refer])

    def test_responses_are_not_stored_with_store_false(self):
        for answer in (self.ask(store=False), self.events(store=False)[-1]["response"]):
            self.assertFalse(answer["store"])
            self.assertEqual(request(self.server, "GET", "/v1/responses/" + answer["id"])[0], 404)

    def test_stored_conversations_count_as_request_memory_while_grammars_compile(self):
        thoughts = "\x01" * 150_000  # the template does not show thoughts
        first = self.ask(input=[{"type": "reasoning", "content": [{"type": "reasoning_text", "text": thoughts}]},
                                {"role": "assistant", "content": "y"}, {"role": "user", "content": "x"}])
        def go_on(number):
            self.server.post("/v1/responses", {"input": "z", "previous_response_id": first["id"], "max_output_tokens": 1, "store": False,
                                               "structured_outputs": {"regex": f".{{1,5000}}y{{{number}}}"}})
        clients = [threading.Thread(target=go_on, args=(number,), daemon=True) for number in range(1, 25)]
        for client in clients:
            client.start()
        most = 0
        while any(client.is_alive() for client in clients):
            most = max(most, self.server.get("/admin/status", admin=True)["request_memory"]["taken_bytes"])
        self.assertGreater(most, 4 * len(thoughts), "at least two of them at once, in the request and in the answer")

    def test_responses_of_another_key_are_not_found(self):
        with tempfile.TemporaryDirectory() as directory:
            keys = Keys(directory)
            bob = keygen("--api", "bob", "--file", keys.api_file)
            with Server("--threads-per-worker", "1", "--api-key-file", keys.api_file, model=TINY) as server:
                body = {"input": "hi", "max_output_tokens": 2}
                _, answer = server.post("/v1/responses", body, headers={"Authorization": "Bearer " + keys.api})
                path = "/v1/responses/" + answer["id"]
                self.assertEqual(request(server, "GET", path + "/input_items", bob)[0], 404)
                self.assertEqual(request(server, "GET", path + "/input_items")[0], 401)
                self.assertEqual(len(request(server, "GET", path + "/input_items", keys.api)[1]["data"]), 1)
                for method in ("GET", "DELETE"):
                    status, error = request(server, method, path, bob)
                    _, never = request(server, method, "/v1/responses/resp_0123456789abcdef", bob)
                    self.assertEqual(status, 404)
                    self.assertEqual(error["error"]["message"].replace(answer["id"], ""), never["error"]["message"].replace("resp_0123456789abcdef", ""))
                    self.assertEqual(request(server, method, path)[0], 401)
                self.assertEqual(server.post("/v1/responses", {**body, "previous_response_id": answer["id"]}, headers={"Authorization": "Bearer " + bob})[0], 404)
                self.assertEqual(request(server, "GET", path, keys.api)[0], 200)


class ToolsCase(ResponsesCase):
    INPUT = {"days": 3, "city": "Rome"}
    # The tool allows only one call, so the model makes this call whatever it prefers.
    CERTAIN = [{"type": "function", "name": "get_weather", "strict": True,
                "parameters": {"type": "object", "properties": {name: {"const": value} for name, value in INPUT.items()}, "required": list(INPUT), "additionalProperties": False}}]
    TEMPLATE = TEMPLATE

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        model = altered_tiny(cls.folder.name, config=endless, generation_config=endless, tokenizer_config=with_template(cls.TEMPLATE))
        cls.server = Server("--threads-per-worker", "1", model=model)
        cls.addClassCleanup(cls.server.__exit__)

    def both(self, **fields):
        """Asks for the same answer whole and as a stream, and expects equal output items but for ids. Returns the stream's last response
        and its events."""
        whole = self.ask(**fields)
        events = self.events(**fields)
        last = events[-1]["response"]
        without = [[{name: value for name, value in item.items() if name not in ("id", "call_id")} for item in answer["output"]] for answer in (whole, last)]
        self.assertEqual(without[0], without[1])
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        self.assertEqual([event["item"] for event in events if event["type"] == "response.output_item.done"], last["output"])
        return last, events

    def said(self, events, kind):
        self.assertEqual(sum(event["type"] == f"response.{kind}.done" for event in events), 1)
        return "".join(event["delta"] for event in events if event["type"] == f"response.{kind}.delta")


class CallsTest(ToolsCase):
    def test_tool_calls_are_items_and_their_outputs_render_as_tool_messages(self):
        answer, events = self.both(max_output_tokens=900, temperature=4, seed=1, tools=self.CERTAIN, tool_choice={"type": "function", "name": "get_weather"},
                                   parallel_tool_calls=False)
        [call] = answer["output"]
        self.assertEqual((answer["status"], call["type"], call["name"], call["status"]), ("completed", "function_call", "get_weather", "completed"))
        self.assertEqual(json.loads(call["arguments"]), self.INPUT)
        self.assertEqual(self.said(events, "function_call_arguments"), call["arguments"])
        output = [{"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}]
        again = self.ask(input=output, previous_response_id=answer["id"], tools=self.CERTAIN)
        chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls": [
            {"id": call["call_id"], "type": "function", "function": {"name": "get_weather", "arguments": call["arguments"]}}]},
            {"role": "tool", "tool_call_id": call["call_id"], "content": "sunny"}]
        tools = [{"type": "function", "function": {name: value for name, value in self.CERTAIN[0].items() if name != "type"}}]
        rendered = self.server.post("/v1/chat/completions/render", {"messages": chat, "tools": tools})[1]
        self.assertEqual(again["usage"]["input_tokens"], rendered["count"])


class AgentsToolsTest(ToolsCase):
    """Tests tools that are not plain functions: functions in namespaces, custom tools and tool search. Their grammar leaves the tiny
    model only one text."""

    SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds tools.",
              "parameters": {"type": "object", "properties": {"query": {"const": "notes"}}, "required": ["query"], "additionalProperties": False}}

    def test_functions_of_a_namespace_are_called_under_their_own_names(self):
        tools = [{"type": "namespace", "name": "mcp__sky", "description": "", "tools": self.CERTAIN}, {"type": "web_search"}]
        answer, events = self.both(max_output_tokens=900, temperature=4, seed=1, tools=tools, parallel_tool_calls=False,
                                   tool_choice={"type": "function", "namespace": "mcp__sky", "name": "get_weather"})
        [call] = answer["output"]
        self.assertEqual((call["type"], call["namespace"], call["name"]), ("function_call", "mcp__sky", "get_weather"))
        self.assertEqual(json.loads(call["arguments"]), self.INPUT)
        self.assertEqual([event["name"] for event in events if event["type"] == "response.function_call_arguments.done"], ["get_weather"])
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        sent = self.ask(input=[{"role": "user", "content": "hi"}, call, output], tools=tools)
        kept = self.ask(input=[output], previous_response_id=answer["id"], tools=tools)
        self.assertEqual(sent["usage"]["input_tokens"], kept["usage"]["input_tokens"])

    def test_custom_tools_get_text_that_matches_their_grammar(self):
        text = '*** Begin\n+say "hi"\\n\n*** End'
        lark = 'start: "*** Begin" LF "+say " /"hi"\\\\n/ LF "*** End"\n%import common.LF'
        for syntax, definition in (("lark", lark), ("regex", r'\*\*\* Begin\n\+say "hi"\\n\n\*\*\* End')):
            tools = [{"type": "custom", "name": "apply_patch", "description": "Edits.", "format": {"type": "grammar", "syntax": syntax, "definition": definition}}]
            answer, events = self.both(max_output_tokens=900, temperature=4, seed=1, tools=tools, tool_choice={"type": "custom", "name": "apply_patch"},
                                       parallel_tool_calls=False)
            [call] = answer["output"]
            self.assertEqual((call["type"], call["name"], call["input"]), ("custom_tool_call", "apply_patch", text))
            self.assertEqual(self.said(events, "custom_tool_call_input"), text)
            output = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "Done."}
            self.assertEqual(self.ask(input=[{"role": "user", "content": "hi"}, call, output], tools=tools)["usage"]["input_tokens"],
                             self.ask(input=[output], previous_response_id=answer["id"], tools=tools)["usage"]["input_tokens"])
        endless = {"type": "custom", "name": "f", "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "(" start ")" | "x"'}}
        self.refused("tools[0].format.definition has the rule start, which refers to itself", "tools", tools=[endless])

    def test_tools_that_a_search_of_the_client_found_can_be_called(self):
        answer, _ = self.both(max_output_tokens=900, temperature=4, seed=1, tools=[self.SEARCH], tool_choice="required", parallel_tool_calls=False)
        [call] = answer["output"]
        self.assertEqual((call["type"], call["execution"], call["arguments"]), ("tool_search_call", "client", {"query": "notes"}))
        found = {"type": "tool_search_output", "call_id": call["call_id"], "status": "completed", "execution": "client",
                 "tools": [{"type": "namespace", "name": "mcp__sky", "description": "", "tools": [{**self.CERTAIN[0], "defer_loading": True}]}]}
        after = self.ask(max_output_tokens=900, temperature=4, seed=1, input=[{"role": "user", "content": "hi"}, call, found], tools=[self.SEARCH],
                         tool_choice={"type": "function", "namespace": "mcp__sky", "name": "get_weather"}, parallel_tool_calls=False)
        self.assertEqual([(item["namespace"], item["name"]) for item in after["output"]], [("mcp__sky", "get_weather")])


class ThoughtsTest(ToolsCase):
    TEMPLATE = THINKING.replace("enable_thinking is defined and enable_thinking", "true")

    def test_thoughts_are_reasoning_items(self):
        answer, events = self.both(logit_bias=ONLY_A)
        [item] = answer["output"]
        self.assertEqual((item["type"], item["summary"], item["content"]), ("reasoning", [], [{"type": "reasoning_text", "text": "AAAA"}]))
        self.assertEqual(self.said(events, "reasoning_text"), "AAAA")
        self.assertEqual(answer["usage"]["output_tokens_details"]["reasoning_tokens"], 4)
        self.assertNotIn("encrypted_content", item)


class EncryptedThoughtsTest(ToolsCase):
    TEMPLATE = "{%- for m in messages %}{{ m.role + ': ' + (m.reasoning_content or '') + m.content + '<|end|>' }}{%- endfor %}{{- 'assistant: <think>' }}{# </think> #}"

    def test_encrypted_thoughts_are_rendered_like_plain_thoughts_when_a_client_sends_them_back(self):
        answer, _ = self.both(logit_bias=ONLY_A, include=["reasoning.encrypted_content"], store=False)
        [item] = answer["output"]
        self.assertEqual(item["content"], [{"type": "reasoning_text", "text": "AAAA"}])
        sealed = {"type": "reasoning", "summary": [], "encrypted_content": item["encrypted_content"]}
        foreign = {**sealed, "encrypted_content": "gAAAA of another server"}
        opened, unsealed, passed_over, none = (
            self.ask(input=[{"role": "user", "content": "hi"}, *thoughts, {"role": "assistant", "content": "y"}, {"role": "user", "content": "more"}])["usage"]["input_tokens"]
            for thoughts in ([item], [sealed], [foreign], []))
        self.assertEqual((opened, unsealed, passed_over), (none + 4, none + 4, none))


@unittest.skipUnless(REAL, "QUIRE_TEST_MODEL is not set")
class OpenAiResponsesTest(unittest.TestCase):
    ASK = dict(model="smol", temperature=0, max_output_tokens=30, input="What is the capital of France?")

    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "2", "--served-model-name", "smol", model=REAL)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__()

    def test_openai_client_creates_continues_and_deletes_responses(self):
        first = self.client.responses.create(**self.ASK)
        self.assertIn("Paris", first.output_text)
        self.assertEqual(first.status, "completed")
        self.assertEqual(self.client.responses.retrieve(first.id).output_text, first.output_text)
        second = self.client.responses.create(**{**self.ASK, "input": "And of which country is it the capital?"}, previous_response_id=first.id)
        self.assertIn("France", second.output_text)
        self.client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(first.id)

    def test_openai_client_lists_the_input_items_of_a_response(self):
        first = self.client.responses.create(**self.ASK)
        item, = self.client.responses.input_items.list(first.id)
        self.assertEqual((item.type, item.role, item.status, item.content[0].type, item.content[0].text), ("message", "user", "completed", "input_text", self.ASK["input"]))
        texts = [f"number {i}" for i in range(5)]
        second = self.client.responses.create(**{**self.ASK, "input": [{"role": "user", "content": text} for text in texts]}, previous_response_id=first.id)
        # the client asks for page after page
        for order, want in (("asc", texts), ("desc", texts[::-1])):
            listed = list(self.client.responses.input_items.list(second.id, order=order, limit=2, include=["reasoning.encrypted_content"]))
            self.assertEqual([item.content[0].text for item in listed], want)
        page = self.client.responses.input_items.list(second.id, limit=2, after=listed[2].id)
        self.assertEqual(([item.id for item in page.data], page.has_more), ([item.id for item in listed[3:]], False))
        with self.assertRaises(openai.BadRequestError):
            self.client.responses.input_items.list(second.id, after="msg_none")
        self.client.responses.delete(second.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.input_items.list(second.id)

    def test_openai_client_streams_the_whole_response(self):
        whole = self.client.responses.create(**self.ASK)
        events = list(self.client.responses.create(**self.ASK, stream=True))
        self.assertEqual("".join(event.delta for event in events if event.type == "response.output_text.delta"), whole.output_text)
        self.assertEqual(events[-1].type, "response.completed")
        self.assertEqual(events[-1].response.output_text, whole.output_text)
        with self.client.responses.stream(**self.ASK) as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            self.assertEqual(stream.get_final_response().output_text, text)
        self.assertEqual(text, whole.output_text)

    def test_openai_client_parses_responses_into_pydantic_models(self):
        class City(pydantic.BaseModel):
            name: str
            country: str

        answer = self.client.responses.parse(model="smol", temperature=0, max_output_tokens=100, text_format=City, input="Describe Paris as JSON.")
        self.assertIsInstance(answer.output_parsed, City)
        self.assertIn("Paris", answer.output_parsed.name)

    def test_async_openai_client_gets_answers_and_error_classes(self):
        async def ask():
            async with openai.AsyncOpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0) as client:
                answers = await asyncio.gather(*[client.responses.create(**self.ASK) for _ in range(4)])
                return {answer.output_text for answer in answers}

        self.assertEqual(len(asyncio.run(ask())), 1)
        with self.assertRaises(openai.BadRequestError) as refused:
            self.client.responses.create(**{**self.ASK, "temperature": -1})
        self.assertEqual(refused.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.create(**{**self.ASK, "model": "other"})


if __name__ == "__main__":
    verdict.run_tests()
