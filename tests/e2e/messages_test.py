"""Tests Anthropic's Messages API: with answers of the tiny model, whose samples a bias or a grammar determines, and with the unchanged
official client and the quickstart model."""
import http.client
import json
import os
import re
import tempfile
import time
import unittest

import anthropic
import pydantic

import verdict
from security_test import Keys
from server import REAL, ROOT, TINY, Server, altered_tiny
from structured_output_test import END, endless
from tools_test import TEMPLATE, THINKING, TOOLS, WEATHER, with_template

A, B = (ord(c) - 33 for c in "AB")  # tokens of "A" and "B" in the tiny model
ONLY_A = {str(A): 60.0}
HI = [{"role": "user", "content": "hi"}]

with open(os.path.join(ROOT, "docs", "messages.md"), encoding="utf-8") as f:
    _, FIELDS, PASSED, _ = f.read().split("\n## ", 3)
LISTED = [name for line in FIELDS.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split("|")[1])]
PASSED = re.findall(r"`(\w+)`", PASSED.split("\n\n")[1])


def events_of(server, body, headers=None):
    """Returns [(event, data)] of a stream."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v1/messages", json.dumps({**body, "stream": True}), {"Content-Type": "application/json", **(headers or {})})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    assert response.status == 200, text
    events = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


class MessagesCase(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        model = altered_tiny(cls.folder.name, config=endless, generation_config=endless)
        cls.server = Server("--threads-per-worker", "1", *cls.FLAGS, model=model)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def ask(self, want=200, path="/v1/messages", **fields):
        body = {"messages": HI, "max_tokens": 4, "temperature": 0, **fields}
        status, answer = self.server.post(path, {name: value for name, value in body.items() if value is not None})
        self.assertEqual(status, want, answer)
        return answer

    def refused(self, message, kind="invalid_request_error", want=400, **fields):
        """Expects an error in Anthropic's form, with a message that begins with this text."""
        answer = self.ask(want=want, **fields)
        self.assertEqual((answer["type"], answer["error"]["type"]), ("error", kind))
        self.assertTrue(answer["error"]["message"].startswith(message), answer)
        self.assertTrue(answer["request_id"])

    def rendered(self, **fields):
        """Returns the number of tokens in the prompt of a chat request with these fields."""
        return self.server.post("/v1/chat/completions/render", fields)[1]["count"]


class FormTest(MessagesCase):
    FLAGS = ("--max-model-len", "512")

    def setUp(self):
        self.server.post("/admin/flush_cache", {}, admin=True)

    def test_messages_answer_has_the_form_of_a_message(self):
        answer = self.ask(logit_bias=ONLY_A)
        self.assertRegex(answer["id"], "^msg_[0-9a-f]{16}$")
        self.assertEqual((answer["type"], answer["role"], answer["model"]), ("message", "assistant", "tiny"))
        self.assertEqual([(block["type"], block["text"]) for block in answer["content"]], [("text", "AAAA")])
        self.assertEqual((answer["stop_reason"], answer["stop_sequence"]), ("max_tokens", None))
        self.assertEqual((answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]), (self.rendered(messages=HI), 4))

    def test_stop_reason_names_sequence_end_or_context_limit(self):
        stopped = self.ask(logit_bias={str(A): 60.0, str(B): 60.0}, stop_sequences=["AA", "BB"], max_tokens=60, temperature=1, seed=3)
        self.assertEqual(stopped["stop_reason"], "stop_sequence")
        self.assertIn(stopped["stop_sequence"], ("AA", "BB"))
        self.assertNotIn(stopped["stop_sequence"], stopped["content"][0]["text"] if stopped["content"] else "")
        ended = self.ask(logit_bias={str(END): 100})
        self.assertEqual((ended["stop_reason"], ended["stop_sequence"], ended["content"]), ("end_turn", None, []))
        self.assertEqual(ended["usage"]["output_tokens"], 1)
        full = self.ask(logit_bias=ONLY_A, max_tokens=100_000)
        self.assertEqual(full["stop_reason"], "model_context_window_exceeded")
        usage = full["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["output_tokens"], 512)

    def test_messages_stream_equals_the_whole_answer_in_anthropics_events(self):
        whole = self.ask(logit_bias=ONLY_A)
        events = events_of(self.server, {"messages": HI, "max_tokens": 4, "temperature": 0, "logit_bias": ONLY_A})
        names = [name for name, _ in events]
        self.assertEqual(names[:3], ["message_start", "ping", "content_block_start"])
        self.assertEqual(names[-3:], ["content_block_stop", "message_delta", "message_stop"])
        self.assertEqual(set(names[3:-3]), {"content_block_delta"})
        self.assertTrue(all(name == data["type"] for name, data in events))
        start = events[0][1]["message"]
        self.assertEqual((start["content"], start["stop_reason"], start["usage"]["output_tokens"]), ([], None, 0))
        self.assertEqual("".join(data["delta"]["text"] for name, data in events if name == "content_block_delta"), whole["content"][0]["text"])
        ending = events[-2][1]
        self.assertEqual(ending["delta"], {"stop_reason": whole["stop_reason"], "stop_sequence": None, "stop_details": None})
        self.assertEqual(ending["usage"]["output_tokens"], whole["usage"]["output_tokens"])

    def test_messages_stream_without_text_has_no_content_block(self):
        events = events_of(self.server, {"messages": HI, "max_tokens": 4, "temperature": 0, "logit_bias": {str(END): 100}})
        self.assertEqual([name for name, _ in events], ["message_start", "ping", "message_delta", "message_stop"])
        self.assertEqual(events[2][1]["delta"]["stop_reason"], "end_turn")

    def test_messages_conversations_render_like_chat_conversations(self):
        def count(**fields):
            return self.ask(path="/v1/messages/count_tokens", max_tokens=None, temperature=None, **fields)["input_tokens"]

        def text(*texts):
            return [{"type": "text", "text": one, "cache_control": {"type": "ephemeral"}} for one in texts]

        self.assertEqual(count(), self.rendered(messages=HI))
        chat = [{"role": "system", "content": "be short"}, {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}]
        for system in ("be short", text("be ", "short")):
            for one in ("one", text("o", "ne")):
                turns = [{"role": "user", "content": one}, {"role": "assistant", "content": text("two")}, {"role": "user", "content": "three"}]
                self.assertEqual(count(system=system, messages=turns), self.rendered(messages=chat))
        # Neighbouring turns of the same role count as one turn.
        self.assertEqual(count(messages=[*HI, *HI]), self.rendered(messages=[{"role": "user", "content": "hi\nhi"}]))
        self.assertEqual(self.ask(messages=[*HI, *HI])["usage"]["input_tokens"], count(messages=[*HI, *HI]))

    def test_usage_counts_cached_tokens_separately(self):
        long = [{"role": "user", "content": "x" * 64}]
        first, second = (self.ask(messages=long)["usage"] for _ in range(2))
        self.assertEqual((first["cache_read_input_tokens"], first["cache_creation_input_tokens"]), (0, 0))
        self.assertGreater(second["cache_read_input_tokens"], 0)
        self.assertEqual(second["input_tokens"] + second["cache_read_input_tokens"], first["input_tokens"])
        last = events_of(self.server, {"messages": long, "max_tokens": 4, "temperature": 0})[-2][1]["usage"]
        self.assertEqual(last["cache_read_input_tokens"], second["cache_read_input_tokens"])

    def test_messages_answer_keeps_to_a_json_schema(self):
        schema = {"type": "object", "properties": {"zeta": {"type": "boolean"}, "alpha": {"enum": ["x", "y"]}}, "required": ["zeta", "alpha"], "additionalProperties": False}
        shape = {"type": "json_schema", "schema": schema}
        for fields in ({"output_config": {"format": shape}}, {"output_format": shape}):
            answer = self.ask(max_tokens=300, temperature=8, seed=1, **fields)
            self.assertEqual(answer["stop_reason"], "end_turn", answer)
            self.assertEqual(list(json.loads(answer["content"][0]["text"])), ["zeta", "alpha"])

    def test_unsupported_messages_fields_are_refused_by_name(self):
        def turn(block, role="user"):
            return [{"role": role, "content": [block]}]

        self.refused("max_tokens is missing", max_tokens=None)
        self.refused("max_tokens must be", max_tokens=0)
        self.refused("messages is missing", messages=None)
        self.refused("messages must be a list", messages={})
        self.refused("messages must end with a turn of the user, or with the first words", messages=[*HI, {"role": "assistant", "content": []}])
        self.refused("messages[0].role must be", messages=[{"role": "robot", "content": "x"}])
        self.refused("messages[0].content is missing", messages=[{"role": "user"}])
        self.refused("messages[0].content[0].type is image, which", messages=turn({"type": "image", "source": {}}))
        self.refused("messages[0].content[0].source.type is base64; this server takes documents of", messages=turn({"type": "document", "source": {"type": "base64"}}))
        self.refused("messages[0].content[0].text must be a string", messages=turn({"type": "text", "text": 5}))
        self.refused("messages[0].content[0].citations", messages=turn({"type": "text", "text": "x", "citations": [{}]}))
        self.refused("system[0].type is image, which", system=[{"type": "image"}])
        self.refused("stop_sequences", stop_sequences="x")
        self.refused("stop_sequences must be strings", stop_sequences=[""])
        self.refused("temperature", temperature=-1)
        self.ask(want=200, tools=[{"name": "f", "input_schema": {"type": "object"}}])  # the template shows none, but the server describes them
        self.refused("tools[0].type is computer_20251124, whose results are images", tools=[{"type": "computer_20251124", "name": "computer"}])
        self.refused("tool_choice.name is that of a tool that a provider would run", tools=[{"type": "web_search_20250305", "name": "web_search"}],
                     tool_choice={"type": "tool", "name": "web_search"})
        self.refused("thinking.budget_tokens is for thinking that is enabled", thinking={"type": "adaptive", "budget_tokens": 1024})
        self.refused("thinking.budget_tokens must be", thinking={"type": "enabled", "budget_tokens": "many"})
        self.refused("thinking is not read by this model", thinking={"type": "enabled"})
        self.refused("container must have no skills", container={"skills": [{}]})
        self.refused("mcp_servers must be a list", mcp_servers={})
        self.refused("output_config.effort must be none, minimal", output_config={"effort": "much"})
        self.refused("context_managment is no field of this request; is context_management meant?", context_managment={})
        self.refused("context_management.edits[0].type must be", context_management={"edits": [{"type": "x"}]})
        self.refused("output_config.format.schema cannot be kept to exactly",
                     output_config={"format": {"type": "json_schema", "schema": {"type": "array", "uniqueItems": True}}})
        self.refused('the model "other"', kind="not_found_error", want=404, model="other")
        self.refused("This model's maximum context length", messages=[{"role": "user", "content": "x" * 5000}])
        self.refused("no such endpoint", kind="not_found_error", want=404, path="/v1/messages/batches")
        self.refused("body: ", path="/v1/messages/count_tokens", messages="\ud800")

    def test_messages_fields_that_change_nothing_are_accepted(self):
        plain = self.ask(logit_bias=ONLY_A)["content"]
        for fields in ({"metadata": {"user_id": "u"}, "service_tier": "auto", "top_k": 4, "top_p": 0.9, "system": [], "stop_sequences": []}, {"thinking": {"type": "disabled"}},
                       {"thinking": {"type": "adaptive"}}, {"output_config": {"effort": "low"}}, {"mcp_servers": [{"name": "x"}]}, {"container": "x"},
                       {"tools": [{"type": "web_search_20250305", "name": "web_search"}], "tool_choice": {"type": "auto"}},
                       {"context_management": {"edits": []}}, *({name: "x"} for name in PASSED)):
            if "metadata" in fields and fields["metadata"] == "x":
                continue
            self.assertEqual(self.ask(logit_bias=ONLY_A, **fields)["content"], plain, fields)

    def test_messages_page_lists_the_fields_of_the_code(self):
        with open(os.path.join(ROOT, "coordinator", "api", "requests", "messages_fields.cc"), encoding="utf-8") as f:
            source = f.read()
        passed, read = (set(re.findall(r'"(\w+)"', re.search(name + r"\[\] = \{(.*?)\};", source, re.S)[1])) for name in ("kPassedOverHere", "kReadHere"))
        with open(os.path.join(ROOT, "coordinator", "api", "requests", "passed_fields.cc"), encoding="utf-8") as f:
            chat = set(re.findall(r'"(\w+)"', f.read()))
        self.assertEqual(passed, set(PASSED))
        self.assertEqual(read | chat, set(LISTED))

    def test_prompts_are_equal_when_only_the_billing_header_line_differs(self):
        def system(line):
            return [{"type": "text", "text": "x-anthropic-billing-header: " + line}, {"type": "text", "text": "Be short. " * 4}]

        self.ask(system=system("cc_version=1.a; cch=00000;"))
        again = self.ask(system=system("cc_version=1.b; cch=12345; cc_is_subagent=true;"))["usage"]
        self.assertGreater(again["cache_read_input_tokens"], 0.6 * (again["input_tokens"] + again["cache_read_input_tokens"]))

    def test_answer_continues_the_words_of_a_last_assistant_message(self):
        begun = [*HI, {"role": "assistant", "content": "B"}]
        counted = self.ask(path="/v1/messages/count_tokens", max_tokens=None, temperature=None, messages=begun)["input_tokens"]
        self.assertEqual(counted, self.rendered(messages=HI) + 1)
        self.assertEqual(self.ask(messages=begun, logit_bias=ONLY_A)["content"][0]["text"], "AAAA")

    def test_models_are_listed_in_anthropics_form_for_anthropics_clients(self):
        def get(path, method="GET", **headers):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            text = response.read()
            connection.close()
            return response.status, json.loads(text) if text else None

        version = {"anthropic-version": "2023-06-01"}
        status, models = get("/v1/models?limit=1000", **version)
        self.assertEqual((status, models["has_more"], models["first_id"], models["last_id"]), (200, False, "tiny", "tiny"))
        [model] = models["data"]
        self.assertEqual((model["type"], model["id"], model["max_input_tokens"]), ("model", "tiny", 512))
        self.assertRegex(model["created_at"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(get("/v1/models/tiny", **version), (200, model))
        self.assertEqual(get("/v1/models")[1]["object"], "list")
        for path in ("/", "/api/hello", "/v1/models"):
            self.assertEqual(get(path, method="HEAD"), (200, None))

    def test_messages_answers_echo_the_request_id(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        for body in ({"messages": HI, "max_tokens": 2}, {"messages": HI, "max_tokens": 2, "stream": True}, {}):
            connection.request("POST", "/v1/messages", json.dumps(body), {"Content-Type": "application/json", "x-request-id": "mine", "anthropic-version": "2023-06-01"})
            response = connection.getresponse()
            response.read()
            self.assertEqual(response.headers["request-id"], "mine")
        connection.close()

    def test_messages_generation_ends_when_the_client_disconnects(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        self.server.post("/admin/pause", {}, admin=True)
        try:
            body = json.dumps({"messages": HI, "max_tokens": 50, "stream": True})
            connection.request("POST", "/v1/messages", body, {"Content-Type": "application/json"})
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
            deadline = time.monotonic() + 30
            while self.server.get("/load")["server_load"] > 0:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
        finally:
            self.server.post("/admin/resume", {}, admin=True)


class ToolsCase(unittest.TestCase):
    TEMPLATE = TEMPLATE
    INPUT = {"days": 3, "city": "Rome"}
    TOOLS = [{"name": "get_weather", "description": "d", "input_schema": WEATHER}]
    # The tool allows only one call, so the model makes this call whatever it prefers.
    CERTAIN = [{"name": "get_weather", "strict": True, "input_schema": {"type": "object", "properties": {name: {"const": value} for name, value in INPUT.items()},
                                                                        "required": list(INPUT), "additionalProperties": False}}]

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        model = altered_tiny(cls.folder.name, config=endless, generation_config=endless, tokenizer_config=with_template(cls.TEMPLATE))
        cls.server = Server("--threads-per-worker", "1", model=model)
        cls.addClassCleanup(cls.server.__exit__)

    def ask(self, **fields):
        status, answer = self.server.post("/v1/messages", {"messages": HI, "temperature": 4, "seed": 1, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def streamed(self, **fields):
        """Streams an answer. Returns its content blocks, each with its text or JSON put together in `said`, and the last message_delta."""
        blocks, ending = [], None
        for name, data in events_of(self.server, {"messages": HI, "temperature": 4, "seed": 1, **fields}):
            if name == "content_block_start":
                self.assertEqual(data["index"], len(blocks))
                blocks.append({**data["content_block"], "said": ""})
            elif name == "content_block_delta":
                self.assertEqual(data["index"], len(blocks) - 1)
                delta = data["delta"]
                blocks[-1]["said"] += delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
            elif name == "message_delta":
                ending = data["delta"]
        return blocks, ending


class CallsTest(ToolsCase):
    def test_tool_calls_are_tool_use_blocks_whole_and_streamed(self):
        fields = {"max_tokens": 900, "tools": self.CERTAIN, "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
        whole = self.ask(**fields)
        self.assertEqual((whole["stop_reason"], [block["type"] for block in whole["content"]]), ("tool_use", ["tool_use"]))
        [call] = whole["content"]
        self.assertEqual((call["name"], list(call["input"].items())), ("get_weather", list(self.INPUT.items())))
        self.assertRegex(call["id"], "^toolu_[0-9a-f]{20}$")
        [block], ending = self.streamed(**fields)
        self.assertEqual((ending["stop_reason"], block["type"], block["name"], block["input"]), ("tool_use", "tool_use", "get_weather", {}))
        self.assertEqual(json.loads(block["said"]), self.INPUT)

    def test_tool_call_that_was_cut_is_marked_as_invalid_json(self):
        whole = self.ask(max_tokens=60, tools=self.CERTAIN, tool_choice={"type": "tool", "name": "get_weather"})
        self.assertEqual((whole["stop_reason"], list(whole["content"][0]["input"])), ("max_tokens", ["INVALID_JSON"]))

    def test_tool_results_render_as_tool_messages(self):
        call = {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Rome", "days": 3}}
        turns = [*HI, {"role": "assistant", "content": [{"type": "text", "text": "Well."}, call]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}, {"type": "text", "text": "so?"}]}]
        chat = [*HI, {"role": "assistant", "content": "Well.", "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "get_weather", "arguments": json.dumps(call["input"])}}]},
                {"role": "tool", "tool_call_id": "t1", "content": "sunny"}, {"role": "user", "content": "so?"}]
        counted = self.server.post("/v1/messages/count_tokens", {"messages": turns, "tools": self.TOOLS})[1]["input_tokens"]
        rendered = self.server.post("/v1/chat/completions/render", {"messages": chat, "tools": TOOLS[:1]})[1]
        self.assertEqual(counted, rendered["count"])
        self.assertIn('"name":"get_weather"', rendered["prompt"].replace(" ", ""))


class AgentsTest(ToolsCase):
    """Tests the requests of coding agents."""
    CALL = {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Rome", "days": 3}}
    TURNS = [*HI, {"role": "system", "content": [{"type": "text", "text": "Where you are.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}], "output_config": {"effort": "medium"}},
             {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, CALL]},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "r" * 40, "is_error": False}]}]
    LATE = {"name": "late", "description": "d", "defer_loading": True, "eager_input_streaming": True, "input_schema": {"type": "object", "properties": {}}}
    FIELDS = {"thinking": {"type": "adaptive", "display": "omitted"}, "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
              "output_config": {"effort": "medium"}, "metadata": {"user_id": "{}"}}

    def count(self, **fields):
        status, answer = self.server.post("/v1/messages/count_tokens", {"messages": self.TURNS, "tools": self.TOOLS, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def test_request_with_tools_deferral_and_all_agent_fields_is_answered(self):
        fields = {"messages": self.TURNS, "tools": [*self.CERTAIN, self.LATE], "max_tokens": 900, "tool_choice": {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}, **self.FIELDS}
        whole = self.ask(**fields)
        self.assertEqual((whole["stop_reason"], whole["stop_details"], whole["content"][0]["input"]), ("tool_use", None, self.INPUT))
        self.assertEqual(whole["context_management"], {"applied_edits": []})
        events = events_of(self.server, {"temperature": 4, "seed": 1, **fields}, {"anthropic-beta": "claude-code-20250219,context-management-2025-06-27", "anthropic-version": "2023-06-01"})
        self.assertEqual(events[-2][1]["context_management"], {"applied_edits": []})
        self.assertEqual(events[-2][1]["delta"]["stop_reason"], "tool_use")

    def test_deferred_tools_add_no_prompt_tokens_until_they_are_found(self):
        self.assertEqual(self.count(tools=[*self.TOOLS, self.LATE]), self.count())
        found = [*self.TURNS, {"role": "assistant", "content": [{**self.CALL, "id": "t2"}]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "tool_reference", "tool_name": "late"}]}]}]
        self.assertGreater(self.count(messages=found, tools=[*self.TOOLS, self.LATE])["input_tokens"], self.count(messages=found)["input_tokens"] + 40)
        self.ask(messages=self.TURNS, tools=[*self.TOOLS, self.LATE], max_tokens=1)
        usage = self.ask(messages=found, tools=[*self.TOOLS, self.LATE], max_tokens=1)["usage"]
        self.assertGreater(usage["cache_read_input_tokens"], 0.8 * self.count()["input_tokens"])

    def test_context_edits_are_applied_and_reported(self):
        edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 10}, "keep": {"type": "tool_uses", "value": 0}}
        plain, fields = self.count()["input_tokens"], {"context_management": {"edits": [edit]}}
        edited = self.count(**fields)
        cleared = plain - edited["input_tokens"]
        self.assertEqual((cleared, edited["context_management"]), (40 - len("[Old tool result content cleared]"), {"original_input_tokens": plain}))
        whole = self.ask(messages=self.TURNS, tools=self.TOOLS, max_tokens=1, **fields)
        self.assertEqual(whole["context_management"], {"applied_edits": [{"type": edit["type"], "cleared_tool_uses": 1, "cleared_input_tokens": cleared}]})
        usage = whole["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], edited["input_tokens"])
        far = {**edit, "trigger": {"type": "input_tokens", "value": 100_000}}
        self.assertEqual(self.ask(messages=self.TURNS, tools=self.TOOLS, max_tokens=1, context_management={"edits": [far]})["context_management"], {"applied_edits": []})


class ThoughtsTest(ToolsCase):
    TEMPLATE = THINKING.replace("m.content +", "(m.reasoning_content or '') + m.content +", 1)

    def test_thoughts_are_thinking_blocks_and_can_be_omitted(self):
        for thinking, blocks in (({"type": "enabled"}, [("thinking", "AAAA")]), ({"type": "adaptive", "display": "omitted"}, [("thinking", "")]), ({"type": "disabled"}, [("text", "AAAA")])):
            fields = {"thinking": thinking, "max_tokens": 4, "logit_bias": ONLY_A, "temperature": 0}
            whole = self.ask(**fields)
            self.assertEqual([(block["type"], block[block["type"]]) for block in whole["content"]], blocks)
            streamed, ending = self.streamed(**fields)
            self.assertEqual([(block["type"], block["said"]) for block in streamed], blocks)
            self.assertEqual(ending["stop_reason"], "max_tokens")

    def test_omitted_thoughts_can_be_sent_back_in_their_signature(self):
        fields = {"thinking": {"type": "adaptive", "display": "omitted"}, "max_tokens": 4, "logit_bias": ONLY_A, "temperature": 0}
        [block] = self.ask(**fields)["content"]
        events = [data for name, data in events_of(self.server, {"messages": HI, **fields}) if name.startswith("content_block")]
        self.assertEqual([event["type"] for event in events], ["content_block_start", "content_block_delta", "content_block_stop"])
        self.assertEqual(events[0]["content_block"], {"type": "thinking", "thinking": "", "signature": ""})
        self.assertEqual(events[1]["delta"], {"type": "signature_delta", "signature": block["signature"]})

        def counted(block):
            turns = [*HI, {"role": "assistant", "content": [block, {"type": "text", "text": "b"}]}, *HI]
            return self.server.post("/v1/messages/count_tokens", {"messages": turns})[1]["input_tokens"]

        none = counted({"type": "thinking", "thinking": "", "signature": "another server's"})
        self.assertEqual(counted(block), counted({"type": "thinking", "thinking": "AAAA", "signature": ""}))
        self.assertGreater(counted(block), none)


class KeysTest(unittest.TestCase):
    def test_messages_key_is_accepted_in_either_header(self):
        with tempfile.TemporaryDirectory() as directory:
            keys = Keys(directory)
            with Server("--threads-per-worker", "1", "--api-key-file", keys.api_file, "--admin-token-file", keys.admin_file, model=TINY) as server:
                body = {"messages": HI, "max_tokens": 1}
                for headers in ({"x-api-key": keys.api}, {"Authorization": "Bearer " + keys.api}):
                    self.assertEqual(server.post("/v1/messages", body, headers=headers)[0], 200)
                for headers in ({}, {"x-api-key": "wrong"}, {"x-api-key": keys.admin}, {"Authorization": "Bearer wrong", "x-api-key": keys.api}):
                    status, answer = server.post("/v1/messages", body, headers=headers)
                    self.assertEqual((status, answer["type"], answer["error"]["type"]), (401, "error", "authentication_error"))
                # The admin port takes its token in the Authorization header only.
                self.assertEqual(server.post("/admin/pause", {}, admin=True, headers={"x-api-key": keys.admin})[0], 401)


@unittest.skipUnless(REAL, "QUIRE_TEST_MODEL is not set")
class AnthropicClientTest(unittest.TestCase):
    ASK = dict(model="smol", max_tokens=30, messages=[{"role": "user", "content": "What is the capital of France?"}], extra_body={"temperature": 0})

    @classmethod
    def setUpClass(cls):
        cls.server = Server("-tp", "2", "--served-model-name", "smol", model=REAL)
        cls.client = anthropic.Anthropic(base_url=cls.server.url, api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__()

    def test_anthropic_client_gets_an_answer_and_its_token_count(self):
        answer = self.client.messages.create(**self.ASK)
        self.assertIn("Paris", answer.content[0].text)
        self.assertEqual((answer.stop_reason, answer.role, answer.type), ("end_turn", "assistant", "message"))
        self.assertTrue(answer._request_id)
        counted = self.client.messages.count_tokens(model="smol", messages=self.ASK["messages"])
        self.assertEqual(counted.input_tokens, answer.usage.input_tokens + answer.usage.cache_read_input_tokens)

    def test_anthropic_client_streams_the_whole_answer(self):
        whole = self.client.messages.create(**self.ASK)
        with self.client.messages.stream(**self.ASK) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual((final.content[0].text, final.stop_reason, final.usage.output_tokens), (text, whole.stop_reason, whole.usage.output_tokens))

    def test_anthropic_client_sends_turns_system_and_stop_sequences(self):
        answer = self.client.messages.create(model="smol", max_tokens=40, system="You count.", stop_sequences=[" 4", ", 4"], extra_body={"temperature": 0},
                                             messages=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"},
                                                       {"role": "user", "content": [{"type": "text", "text": "Repeat exactly: 1, 2, 3, 4, 5"}]}])
        self.assertEqual(answer.stop_reason, "stop_sequence")
        self.assertIn(answer.stop_sequence, (" 4", ", 4"))
        self.assertNotIn("4", answer.content[0].text)

    def test_anthropic_client_parses_answers_into_pydantic_models(self):
        class City(pydantic.BaseModel):
            name: str
            country: str

        answer = self.client.messages.parse(model="smol", max_tokens=100, output_format=City, extra_body={"temperature": 0},
                                            messages=[{"role": "user", "content": "Describe Paris as JSON."}])
        self.assertIsInstance(answer.parsed_output, City)
        self.assertIn("Paris", answer.parsed_output.name)

    def test_anthropic_client_lists_models_and_uses_betas(self):
        [model] = self.client.models.list()
        self.assertEqual((model.id, model.lifecycle), ("smol", "active"))
        self.assertEqual(self.client.models.retrieve("smol"), model)
        answer = self.client.beta.messages.create(**self.ASK, betas=["context-management-2025-06-27", "effort-2025-11-24"], thinking={"type": "adaptive"}, output_config={"effort": "low"},
                                                  context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]})
        self.assertIn("Paris", answer.content[0].text)
        self.assertEqual((answer.context_management.applied_edits, answer.stop_details, answer.usage.output_tokens_details.thinking_tokens), ([], None, 0))

    def test_answer_continues_the_words_of_a_last_assistant_message(self):
        begun = [*self.ASK["messages"], {"role": "assistant", "content": "The capital of France is"}]
        with self.client.messages.stream(**{**self.ASK, "messages": begun}) as stream:
            self.assertRegex("".join(stream.text_stream), r"^ ?Paris")

    def test_anthropic_client_raises_its_own_error_classes(self):
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(**{**self.ASK, "model": "other"})
        with self.assertRaises(anthropic.BadRequestError) as refused:
            self.client.messages.create(**{**self.ASK, "max_tokens": -1})
        self.assertEqual(refused.exception.body["error"]["type"], "invalid_request_error")
        self.assertTrue(refused.exception.request_id)
        with self.assertRaises(anthropic.BadRequestError):
            self.client.messages.create(**{**self.ASK, "messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]}]})


if __name__ == "__main__":
    verdict.run_tests()
