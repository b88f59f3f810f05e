"""Tests tools and reasoning. The tiny model has random weights and one token per byte. Its text is determined by logit_bias and greedy
sampling where it must be exact, and by a grammar in the request elsewhere."""
import json
import os
import signal
import tempfile
import threading
import unittest
import urllib.request

import jsonschema
import openai

import verdict
from server import Server, altered_tiny

END = 256
TEMPLATE = """{%- if tools %}{{ 'tools: ' }}{%- for tool in tools %}{{ tool | tojson }}{%- endfor %}{{ '<|end|>' }}{%- endif %}
{%- for m in messages %}
    {%- if m.role == 'tool' %}{{ 'tool ' + m.tool_call_id + ': ' + m.content + '<|end|>' }}
    {%- else %}{{ m.role + ': ' + (m.content or '') }}
        {%- for call in m.tool_calls or [] %}{{ '<tool_call>' + ({'name': call.function.name, 'arguments': call.function.arguments} | tojson) + '</tool_call>' }}{%- endfor %}
        {{- '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'assistant: ' }}{%- endif %}"""
THINKING = """{%- for m in messages %}{{ m.role + ': ' + m.content + '<|end|>' }}{%- endfor %}
{%- if documents %}{{ documents | tojson }}{%- endif %}
{{- 'effort ' + (reasoning_effort or 'usual') + ' assistant: ' }}
{%- if enable_thinking is defined and enable_thinking %}{{ '<think>' }}{%- else %}{{ '<think></think>' if enable_thinking is defined else '' }}{%- endif %}"""
PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}assistant: "
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
           "required": ["city", "days"], "additionalProperties": False}
UNIT = {"type": "object", "properties": {"unit": {"enum": ["c", "f"]}}, "required": ["unit"], "additionalProperties": False}
SCHEMAS = {"get_weather": WEATHER, "set_unit": UNIT}
TOOLS = [{"type": "function", "function": {"name": name, "description": "d", "parameters": schema}} for name, schema in SCHEMAS.items()]
STRICT = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in TOOLS]
ASK = [{"role": "user", "content": "hi"}]


def endless(config):
    config["eos_token_id"] = END


def with_template(text):
    def change(config):
        config["chat_template"] = text
    return change


def saying(text):
    """Returns fields that force this text: a grammar that allows nothing else."""
    return {"guided_choice": [text], "temperature": 0, "max_tokens": len(text.encode()) + 2}


def with_tokens(tokens):
    """Returns a change of tokenizer.json (altered_tiny) that replaces tokens by control tokens. `tokens`: {id: text of the control
    token}."""
    def change(content):
        names = {number: name for name, number in content["model"]["vocab"].items()}
        for number, text in tokens.items():
            del content["model"]["vocab"][names[number]]
            content["model"]["vocab"][text] = number
            content["added_tokens"].append({"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                                            "normalized": False, "special": True})
    return change


class ToolCase(unittest.TestCase):
    TEMPLATE, FLAGS, TOKENS = TEMPLATE, ("-tp", "2"), {}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model = altered_tiny(folder.name, config=endless, generation_config=endless, tokenizer_config=with_template(cls.TEMPLATE),
                                 tokenizer=with_tokens(cls.TOKENS))
        cls.server = Server("--threads-per-worker", "1", *cls.FLAGS, model=cls.model)
        cls.addClassCleanup(cls.server.__exit__)

    def chat(self, want=200, **fields):
        body = {"messages": ASK, "max_tokens": 900, "temperature": 4, "seed": 1, **fields}
        status, answer = self.server.post("/v1/chat/completions", body)
        self.assertEqual(status, want, answer)
        return answer

    def streamed(self, **fields):
        """Returns the choices of a stream, put together as clients do it."""
        events = self.server.stream("/v1/chat/completions", {"messages": ASK, "max_tokens": 900, "temperature": 4, "seed": 1, **fields})
        choices = {}
        for event in events:
            for choice in event["choices"]:
                held = choices.setdefault(choice["index"], {"content": "", "reasoning_content": "", "tool_calls": [], "finish_reason": None})
                delta = choice["delta"]
                held["finish_reason"] = choice["finish_reason"] or held["finish_reason"]
                for name in ("content", "reasoning_content"):
                    held[name] += delta.get(name) or ""
                for call in delta.get("tool_calls", []):
                    if call["index"] == len(held["tool_calls"]):
                        self.assertEqual((call["type"], call["function"]["arguments"]), ("function", ""))
                        held["tool_calls"].append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
                    else:
                        self.assertNotIn("id", call)
                        held["tool_calls"][call["index"]]["arguments"] += call["function"]["arguments"]
        return [choices[i] for i in sorted(choices)]

    def calls_of(self, answer):
        """Returns, for each choice, the name and arguments of each of its calls."""
        return [[(call["function"]["name"], call["function"]["arguments"]) for call in choice["message"].get("tool_calls", [])]
                for choice in answer["choices"]]

    def check(self, calls, least=1):
        """Checks that there are at least `least` calls, and that the arguments of every call satisfy the schema of the tool that it
        names."""
        self.assertGreaterEqual(len(calls), least)
        for name, arguments in calls:
            jsonschema.validate(json.loads(arguments), SCHEMAS[name])


class ConstrainedTest(ToolCase):
    def test_required_tool_calls_validate_whole_and_streamed(self):
        whole = self.chat(n=16, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
        names = set()
        ended = 0
        for choice, calls in zip(whole["choices"], self.calls_of(whole)):
            if choice["finish_reason"] == "length":
                continue
            ended += 1
            self.assertEqual(choice["finish_reason"], "tool_calls")
            self.assertIsNone(choice["message"]["content"])
            self.assertEqual(len(calls), 1)
            self.check(calls)
            names |= {name for name, _ in calls}
        self.assertGreater(ended, 8)
        self.assertEqual(names, set(SCHEMAS))
        streams = self.streamed(n=16, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
        self.assertEqual([[(call["name"], call["arguments"]) for call in choice["tool_calls"]] for choice in streams], self.calls_of(whole))
        self.assertEqual([choice["finish_reason"] for choice in streams], [choice["finish_reason"] for choice in whole["choices"]])

    def test_answer_may_hold_several_tool_calls(self):
        whole = self.chat(n=12, tools=TOOLS, tool_choice="required")
        for choice, calls in zip(whole["choices"], self.calls_of(whole)):
            self.check(calls if choice["finish_reason"] == "tool_calls" else calls[:-1], 0)
        self.assertGreater(max(len(calls) for calls in self.calls_of(whole)), 1)
        ids = [call["id"] for choice in whole["choices"] for call in choice["message"].get("tool_calls", [])]
        self.assertEqual(len(set(ids)), len(ids))

    def test_tool_choice_of_a_function_calls_that_function(self):
        answer = self.chat(n=6, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "set_unit"}})
        for calls in self.calls_of(answer):
            self.check(calls)
            self.assertEqual([name for name, _ in calls], ["set_unit"])

    def test_answer_with_a_response_format_may_call_a_tool_instead(self):
        shape = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": shape}}
        for first, reason in (("<", "tool_calls"), ("{", "stop")):
            answer = self.chat(n=6, tools=STRICT, response_format=form, parallel_tool_calls=False, logit_bias={str(ord(first) - 33): 60})
            ended = [choice for choice in answer["choices"] if choice["finish_reason"] != "length"]
            self.assertGreater(len(ended), 2)
            for choice in ended:
                self.assertEqual(choice["finish_reason"], reason)
                if reason == "stop":
                    jsonschema.validate(json.loads(choice["message"]["content"]), shape)
                else:
                    self.check([(call["function"]["name"], call["function"]["arguments"]) for call in choice["message"]["tool_calls"]])

    def test_strict_tools_with_unsupported_schemas_are_refused(self):
        unkept = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "not": {}}}}]
        strict = [{"type": "function", "function": {**unkept[0]["function"], "strict": True}}]
        refused = self.chat(want=400, tools=strict, tool_choice="required")["error"]
        self.assertIn("tools[0].function.parameters", refused["message"])
        for fields in ({"guided_choice": ["a"]}, {"use_beam_search": True, "n": 2}, {"ignore_eos": True}, {"min_tokens": 2}):
            self.assertIn("leave out", self.chat(want=400, tools=TOOLS, tool_choice="required", **fields)["error"]["message"])
        self.chat(tools=unkept, max_tokens=4)  # calls are optional: the schema is only shown to the model
        self.chat(tools=unkept, tool_choice="required", max_tokens=4)  # the schema is not enforced, and the log says so

    def test_required_tool_calls_are_unchanged_beside_a_response_format(self):
        plain = self.chat(n=6, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
        shape = {"type": "object", "properties": {"never": {"type": "integer"}}, "required": ["never"], "additionalProperties": False}
        for form in ({"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": shape}}):
            beside = self.chat(n=6, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, response_format=form)
            self.assertEqual(self.calls_of(beside), self.calls_of(plain))
        self.check([call for calls in self.calls_of(plain) for call in calls])

    def test_allowed_tools_are_all_that_the_model_is_shown(self):
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "set_unit"}}]}}
        answer = self.chat(n=6, tools=TOOLS, tool_choice=allowed, parallel_tool_calls=False)
        named = [name for calls in self.calls_of(answer) for name, _ in calls]
        self.assertTrue(named)
        self.assertEqual(set(named), {"set_unit"})
        only = [tool for tool in TOOLS if tool["function"]["name"] == "set_unit"]
        shown = [self.chat(max_tokens=1, **fields)["usage"]["prompt_tokens"]
                 for fields in ({"tools": only}, {"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "set_unit"}]}})]
        self.assertEqual(*shown)
        for bad in ({"mode": "sometimes", "tools": []}, {"mode": "auto", "tools": []}, {"mode": "auto", "tools": [{"type": "function", "function": {"name": "other"}}]}, 3):
            error = self.chat(want=400, tools=TOOLS, tool_choice={"type": "allowed_tools", "allowed_tools": bad})["error"]
            self.assertEqual((error["param"], "allowed_tools" in error["message"]), ("tool_choice", True), error)

    def test_tool_calls_are_unchanged_when_a_worker_is_killed(self):
        fields = {"tools": TOOLS, "tool_choice": "required", "n": 8, "max_tokens": 200}
        undisturbed = [[(c["name"], c["arguments"]) for c in choice["tool_calls"]] for choice in self.streamed(**fields)]
        results = []
        thread = threading.Thread(target=lambda: results.append(self.streamed(**fields)))
        thread.start()
        self.server.wait_until_running()
        os.kill(self.server.worker_pids()[-1], signal.SIGKILL)
        thread.join(timeout=120)
        self.assertEqual(self.server.get("/admin/status", admin=True)["recoveries"], 1)
        again = [[(c["name"], c["arguments"]) for c in choice["tool_calls"]] for choice in results[0]]
        self.assertEqual(again, undisturbed)


class ShownTest(ToolCase):
    """Tests what the template writes into the prompt, by the number of the prompt's tokens. Each token is a byte."""

    def prompt_bytes(self, **fields):
        return self.chat(**{"max_tokens": 1, **fields})["usage"]["prompt_tokens"]

    def test_prompt_contains_tools_as_they_were_sent(self):
        plain = self.prompt_bytes()
        shown = "tools: " + "".join(json.dumps(tool) for tool in TOOLS)
        self.assertEqual(self.prompt_bytes(tools=TOOLS) - plain, len(shown) + 1)
        self.assertEqual(self.prompt_bytes(tools=TOOLS, tool_choice="none"), plain)
        self.assertEqual(self.prompt_bytes(tools=[], tool_choice="auto", parallel_tool_calls=False), plain)

    def test_prompt_contains_calls_and_results_of_the_history(self):
        history = [*ASK, {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Rome"}'}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "5"}]
        text = 'assistant: <tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>#tool c1: 5#'
        self.assertEqual(self.prompt_bytes(messages=history) - self.prompt_bytes(), len(text))

    def test_fields_that_the_template_does_not_read_are_refused(self):
        for field, value in (("documents", [{"text": "x"}]), ("enable_thinking", True), ("chat_template_kwargs", {"mood": 1})):
            refused = self.chat(want=400, **{field: value})["error"]
            self.assertEqual(refused["param"], field)
            self.assertIn("chat template", refused["message"])
        plain = self.prompt_bytes()
        for fields in ({"reasoning_effort": "none"}, {"reasoning_effort": "high"}, {"thinking": {"type": "disabled"}}, {"enable_thinking": False}, {"documents": []}, {"chat_template_kwargs": {"enable_thinking": False}}):
            self.assertEqual(self.prompt_bytes(**fields), plain)


class FreeTest(ToolCase):
    """Tests answers in which no grammar forces calls."""

    def said(self, text, **fields):
        """Returns the parsed answer for this text. Because of the tools, the grammar allows a call or the text at the beginning; the bias
        against "<" excludes the call."""
        return self.chat(tools=TOOLS, **saying(text), logit_bias={str(ord("<") - 33): -100}, **fields)["choices"][0]

    def test_parser_reads_tool_calls_and_leaves_malformed_ones_as_content(self):
        call = '<tool_call>{"name": "set_unit", "arguments": {"unit": "c"}}</tool_call>'
        choice = self.said("Now: " + call)
        self.assertEqual((choice["message"]["content"], choice["finish_reason"]), ("Now:", "tool_calls"))
        self.assertEqual(choice["message"]["tool_calls"][0]["function"], {"name": "set_unit", "arguments": '{"unit": "c"}'})
        for broken in ("It is <tool_call>nothing</tool_call>", 'No: <tool_call>{"name": "rm", "arguments": {}}</tool_call>',
                       'No: <tool_call>{"name": "set_unit", "arguments": {"unit": }}</tool_call>'):
            choice = self.said(broken)
            self.assertEqual((choice["message"]["content"], choice["finish_reason"]), (broken, "stop"))
            self.assertNotIn("tool_calls", choice["message"])

    def test_parser_returns_one_call_when_parallel_tool_calls_is_false(self):
        call = '<tool_call>{"name": "set_unit", "arguments": {"unit": "c"}}</tool_call>'
        self.assertEqual(len(self.said("! " + call + call)["message"]["tool_calls"]), 2)
        self.assertEqual(len(self.said("! " + call + call, parallel_tool_calls=False)["message"]["tool_calls"]), 1)


class ThoughtTest(ToolCase):
    TEMPLATE = THINKING

    def test_thoughts_are_separated_from_content_whole_and_streamed(self):
        for start, fields in (("<think>", {}), ("", {"enable_thinking": True}), ("", {"chat_template_kwargs": {"enable_thinking": True}})):
            text = start + "Hm, 3 < 4.\n</think>\n\nYes."
            said = saying(text) if not fields else {**saying("Yes."), "max_tokens": 300, "logit_bias": {}}
            if fields:  # the grammar applies to the answer; thoughts that the prompt opened come first
                said["temperature"] = 1.0
            answer = self.chat(**said, **fields)
            message = answer["choices"][0]["message"]
            if not fields:
                self.assertEqual((message["content"], message["reasoning_content"], message["reasoning"]), ("Yes.", "Hm, 3 < 4.", "Hm, 3 < 4."))
                # The tokens are counted from the token at which reasoning is recognised.
                self.assertEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], len(">Hm, 3 < 4.\n</think>"))
            else:
                self.assertIn(message["content"], ("Yes.", None))
                self.assertTrue(message["reasoning_content"])
            streamed = self.streamed(**said, **fields)[0]
            self.assertEqual((streamed["content"], streamed["reasoning_content"]), (message["content"] or "", message["reasoning_content"]))

    def test_include_reasoning_false_omits_thoughts(self):
        said = saying("<think>Hm</think>Yes.")
        message = self.chat(**said, include_reasoning=False)["choices"][0]["message"]
        self.assertEqual(message["content"], "Yes.")
        self.assertNotIn("reasoning_content", message)
        self.assertEqual(self.streamed(**said, include_reasoning=False)[0]["reasoning_content"], "")

    def test_answer_is_content_when_the_prompt_closed_thoughts(self):
        for fields in ({"enable_thinking": False}, {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": False}}):
            message = self.chat(**saying("<think>Hm</think>Yes."), **fields)["choices"][0]["message"]
            self.assertEqual(message["content"], "<think>Hm</think>Yes.")

    def test_thinking_field_opens_and_closes_thoughts_as_enable_thinking_does(self):
        for thinking, flag in (({"type": "enabled"}, True), ({"type": "disabled"}, False), (True, True), (False, False)):
            sizes = [self.chat(max_tokens=1, **fields)["usage"]["prompt_tokens"] for fields in ({"thinking": thinking}, {"enable_thinking": flag}, {})]
            self.assertEqual(sizes[0], sizes[1])
            self.assertNotEqual(sizes[0], sizes[2])
            self.assertEqual(self.chat(max_tokens=1, think=thinking)["usage"]["prompt_tokens"], sizes[0])
        for bad in ({"type": "sometimes"}, 5, "much", []):
            self.assertEqual(self.chat(want=400, thinking=bad)["error"]["param"], "thinking")
            self.assertEqual(self.chat(want=400, think=bad)["error"]["param"], "think")

    def test_reasoning_effort_and_documents_reach_the_template(self):
        def prompt_bytes(**fields):
            return self.chat(max_tokens=1, **fields)["usage"]["prompt_tokens"]
        plain = prompt_bytes()
        self.assertEqual(prompt_bytes(reasoning_effort="high") - plain, len("high") - len("usual"))
        documents = [{"title": "t", "text": "x"}]
        self.assertEqual(prompt_bytes(documents=documents) - plain, len(json.dumps(documents)))

    def test_thinking_budget_is_refused_without_tokens_that_delimit_thoughts(self):
        refused = self.chat(want=400, thinking_token_budget=5)["error"]
        self.assertEqual(refused["param"], "thinking_token_budget")
        self.assertIn("no tokens for where thoughts begin", refused["message"])


class ThoughtBudgetTest(ToolCase):
    """Tests reasoning between control tokens, which the model by itself hardly ever samples."""
    TEMPLATE, TOKENS = THINKING, {188: "<think>", 189: "</think>"}
    OPEN, CLOSE, A = 188, 189, 32

    def thoughts(self, **fields):
        """Asks for an answer of 12 tokens. Returns the numbers of tokens in its reasoning and in its content. A control token that ends
        the reasoning counts in neither."""
        body = {"max_tokens": 12, "temperature": 0, "logit_bias": {str(self.A): 60, str(self.CLOSE): -60}, "return_token_ids": True, **fields}
        answer = self.chat(**body)
        message, streamed = answer["choices"][0]["message"], self.streamed(**body)[0]
        self.assertEqual((streamed["content"], streamed["reasoning_content"]), (message["content"] or "", message.get("reasoning_content") or ""))
        ids = answer["choices"][0]["token_ids"]
        self.assertLessEqual(ids.count(self.CLOSE), 1)
        return len(message.get("reasoning_content") or ""), len(message["content"] or "")

    def test_thinking_budget_ends_thoughts_that_the_prompt_opened(self):
        self.assertEqual(self.thoughts(enable_thinking=True), (12, 0))
        for budget in (0, 1, 5, 11):
            self.assertEqual(self.thoughts(enable_thinking=True, thinking_token_budget=budget), (budget, 12 - 1 - budget))
        self.assertEqual(self.thoughts(enable_thinking=True, thinking_token_budget=12), (12, 0))
        self.assertEqual(self.thoughts(enable_thinking=False, thinking_token_budget=3), (0, 12), "the prompt has ended them")

    def test_thinking_budget_ends_thoughts_that_the_answer_opened(self):
        fields = {"max_tokens": 8, "temperature": 0, "logit_bias": {str(self.OPEN): 60}, "return_token_ids": True}
        self.assertEqual(self.chat(**fields)["choices"][0]["token_ids"], 8 * [self.OPEN])
        limited = self.chat(**fields, thinking_token_budget=4)["choices"][0]["token_ids"]
        self.assertEqual(limited, [self.OPEN] + 4 * [self.OPEN] + [self.CLOSE] + 2 * [self.OPEN])

    def test_grammars_apply_to_the_answer_after_thoughts(self):
        """Tests reasoning that the answer opens, and reasoning that the prompt opens. Without reasoning, the grammar applies to the whole
        answer."""
        schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": 7}}}
        for form, text in (({"guided_choice": ["7x"]}, "7x"), ({"response_format": schema}, "7"), ({"guided_regex": "7+x"}, "7x")):
            for fields, thoughts in (({"logit_bias": {str(self.OPEN): 100, str(self.A): 60, str(ord("x") - 33): 90}}, "AAAA"),
                                     ({"enable_thinking": True, "logit_bias": {str(self.A): 60, str(ord("x") - 33): 50}}, "AAAA"),
                                     ({"enable_thinking": False, "logit_bias": {str(self.A): 60, str(ord("x") - 33): 50}}, None)):
                body = {"temperature": 0, "max_tokens": 40, "thinking_token_budget": 4 + ("enable_thinking" not in fields), **form, **fields}
                message = self.chat(**body)["choices"][0]["message"]
                if "enable_thinking" not in fields:  # the opening token is sampled again and again
                    self.assertEqual((message["content"], bool(message["reasoning_content"])), (text, True), body)
                else:
                    self.assertEqual((message["content"], message.get("reasoning_content")), (text, thoughts), body)
                streamed = self.streamed(**body)[0]
                self.assertEqual((streamed["content"], streamed["reasoning_content"]), (text, message.get("reasoning_content") or ""))

    def test_stop_strings_end_the_answer_but_not_thoughts(self):
        body = {"max_tokens": 40, "temperature": 0, "logit_bias": {str(self.A): 60}, "enable_thinking": True, "thinking_token_budget": 5,
                "guided_choice": ["xxABA"], "return_token_ids": True}
        for stop, words in ((["A"], "xx"), (["AA", "xA"], "x"), (["BA"], "xxA"), (["AAA"], "xxABA"), (["</think>", "q"], "xxABA")):
            choice = self.chat(**body, stop=stop)["choices"][0]
            self.assertEqual((choice["message"]["content"], choice["message"]["reasoning_content"], choice["finish_reason"]), (words, "AAAAA", "stop"), stop)
            streamed = self.streamed(**body, stop=stop)[0]
            self.assertEqual((streamed["content"], streamed["reasoning_content"], streamed["finish_reason"]), (words, "AAAAA", "stop"), stop)
        choice = self.chat(**body, stop=["A"], include_stop_str_in_output=True)["choices"][0]
        self.assertEqual(choice["message"]["content"], "xxA")
        cut = self.chat(**{**body, "thinking_token_budget": None, "max_tokens": 6}, stop=["A"])["choices"][0]
        self.assertEqual((cut["message"]["content"], cut["message"]["reasoning_content"], cut["finish_reason"]), (None, 6 * "A", "length"))

    def test_messages_stop_sequences_apply_after_thoughts(self):
        body = {"messages": ASK, "max_tokens": 12, "temperature": 0, "logit_bias": {str(self.A): 60}, "thinking": {"type": "enabled", "budget_tokens": 5},
                "structured_outputs": {"choice": ["xxAB"]}, "stop_sequences": ["A"]}
        status, answer = self.server.post("/v1/messages", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual([(block["type"], block[block["type"]]) for block in answer["content"]], [("thinking", 5 * "A"), ("text", "xx")])
        self.assertEqual((answer["stop_reason"], answer["stop_sequence"]), ("stop_sequence", "A"))

    def test_thinking_budget_applies_in_every_choice_and_beside_a_grammar(self):
        answer = self.chat(n=4, temperature=2, enable_thinking=True, thinking_token_budget=6, return_token_ids=True, guided_choice=["Yes."], max_tokens=40)
        for choice in answer["choices"]:
            self.assertEqual(choice["message"]["content"], "Yes.")
            self.assertLessEqual(choice["token_ids"].index(self.CLOSE), 6)

    def test_thinking_budget_is_refused_where_it_cannot_apply(self):
        for fields, param in (({"thinking_token_budget": -1}, "thinking_token_budget"), ({"thinking_token_budget": 3, "use_beam_search": True, "n": 2, "temperature": 0}, "thinking_token_budget")):
            self.assertEqual(self.chat(want=400, **fields)["error"]["param"], param)
        status, answer = self.server.post("/v1/completions", {"prompt": "x", "thinking_token_budget": 3})
        self.assertEqual((status, answer["error"]["param"]), (400, "thinking_token_budget"))

    def test_messages_budget_tokens_end_thoughts(self):
        body = {"messages": ASK, "max_tokens": 12, "temperature": 0, "logit_bias": {str(self.A): 60}, "thinking": {"type": "enabled", "budget_tokens": 5}}
        status, answer = self.server.post("/v1/messages", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual([(block["type"], block[block["type"]]) for block in answer["content"]], [("thinking", 5 * "A"), ("text", 6 * "A")])


class ChosenParserTest(ToolCase):
    """Tests a template that does not show tools, with a parser chosen by a flag."""
    TEMPLATE, FLAGS = PLAIN, ("--tool-call-parser", "llama3_json", "--reasoning-parser", "deepseek_r1")

    def test_tools_are_described_in_the_system_message_when_the_template_has_none(self):
        settings = self.server.get("/admin/status", admin=True)["settings"]
        self.assertEqual((settings["tool_call_parser"], settings["reasoning_parser"]), ("llama3_json", "deepseek_r1"))
        plain = self.chat(max_tokens=1)["usage"]["prompt_tokens"]
        self.assertGreater(self.chat(max_tokens=1, tools=TOOLS)["usage"]["prompt_tokens"], plain + sum(len(json.dumps(tool)) for tool in TOOLS) - 40)

    def test_deepseek_r1_parser_reads_thoughts_from_the_start(self):
        message = self.chat(max_tokens=8, temperature=0)["choices"][0]["message"]
        self.assertIsNone(message["content"])
        self.assertTrue(message["reasoning_content"])


class GenericTest(ToolCase):
    """Tests a template that shows no tools, no system messages and no results of tools, and in which users and assistants must
    alternate."""
    TEMPLATE, FLAGS = ("{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns must alternate') }}{% endif %}"
                       + PLAIN.removeprefix("{% for m in messages %}")), ()

    def test_generic_tool_call_format_is_chosen_and_logged_once(self):
        self.chat(max_tokens=1, tools=TOOLS)
        self.chat(max_tokens=1, tools=TOOLS)
        self.assertEqual(self.server.get("/admin/status", admin=True)["settings"]["tool_call_parser"], "generic")
        self.assertEqual(self.server.text().count("the chat template shows no tools"), 1)

    def test_generic_tool_calls_validate_whole_and_streamed(self):
        fields = {"n": 8, "tools": TOOLS, "tool_choice": "required"}
        whole, streams = self.chat(**fields), self.streamed(**fields)
        for choice, calls in zip(whole["choices"], self.calls_of(whole)):
            self.check(calls if choice["finish_reason"] == "tool_calls" else calls[:-1], 0)
        self.assertGreater(sum(map(len, self.calls_of(whole))), 7)
        self.assertEqual([[(call["name"], call["arguments"]) for call in choice["tool_calls"]] for choice in streams], self.calls_of(whole))
        named = self.chat(n=4, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "set_unit"}})
        for calls in self.calls_of(named):
            self.check(calls)
            self.assertEqual([name for name, _ in calls], ["set_unit"])

    def test_generic_tool_call_format_reads_calls_in_code_blocks(self):
        call = '{"name": "set_unit", "arguments": {"unit": "c"}}'
        for text, words in (("Now:\n```json\n" + call + "\n```", "Now:"), (call, None), ("[" + call + "]", None)):
            choice = self.chat(tools=TOOLS, **saying(text), logit_bias={str(ord("<") - 33): -100})["choices"][0]
            self.assertEqual((choice["message"]["content"], choice["finish_reason"]), (words, "tool_calls"))
            self.assertEqual(choice["message"]["tool_calls"][0]["function"], {"name": "set_unit", "arguments": '{"unit": "c"}'})

    def test_generic_tool_call_format_shows_earlier_calls_and_results_as_text(self):
        call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}}
        history = [*ASK, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "5"}]

        def prompt_bytes(**fields):
            return self.chat(max_tokens=1, **fields)["usage"]["prompt_tokens"]
        shown = ('assistant: <tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>#'
                 "user: <tool_response>\nget_weather:\n5\n</tool_response>#")
        self.assertEqual(prompt_bytes(messages=history) - prompt_bytes(), len(shown))
        self.assertEqual(prompt_bytes(messages=history, tools=TOOLS) - prompt_bytes(tools=TOOLS), len(shown))
        self.assertGreater(prompt_bytes(tools=TOOLS) - prompt_bytes(), sum(len(json.dumps(tool)) for tool in TOOLS) - 60)

    def test_tools_are_refused_when_the_chosen_tool_call_format_has_no_description(self):
        with Server("--threads-per-worker", "1", "--tool-call-parser", "qwen3_coder", model=self.model) as server:
            status, refused = server.post("/v1/chat/completions", {"messages": ASK, "tools": TOOLS, "max_tokens": 1})
            self.assertEqual((status, refused["error"]["param"]), (400, "tools"))
            self.assertIn("--tool-call-parser generic", refused["error"]["message"])


class ControlTokenTest(ToolCase):
    """Tests a model whose calls begin with control tokens, which no text shows."""
    TEMPLATE = TEMPLATE.replace("'<tool_call>' + ", "'[TOOL_CALLS]' + call.function.name + '[ARGS]' + ").replace("<tool_call>", "[TOOL_CALLS]")

    TOKENS = {188: "[TOOL_CALLS]", 189: "[ARGS]"}

    def test_mistral_tool_calls_use_control_tokens_and_ids_of_nine_characters(self):
        answer = self.chat(n=8, tools=TOOLS, tool_choice="required", logprobs=True, parallel_tool_calls=False)
        for choice, calls in zip(answer["choices"], self.calls_of(answer)):
            if choice["finish_reason"] != "length":
                self.check(calls)
            self.assertRegex(choice["message"]["tool_calls"][0]["id"], r"\A[0-9A-Za-z]{9}\Z")
            self.assertIsNone(choice["message"]["content"])
            tokens = [token["token"] for token in choice["logprobs"]["content"]]
            self.assertEqual((tokens[0], tokens.count("[ARGS]")), ("[TOOL_CALLS]", 1))


    def test_optional_strict_tool_calls_keep_to_their_schemas(self):
        for fields in ({"tools": STRICT, "parallel_tool_calls": False}, {"tools": STRICT}):
            answer = self.chat(n=8, logit_bias={"188": 40, str(END): 30}, **fields)
            for choice, calls in zip(answer["choices"], self.calls_of(answer)):
                self.check(calls if choice["finish_reason"] == "tool_calls" else calls[:-1], 0)
            self.assertGreater(sum(map(len, self.calls_of(answer))), 4)


class FormatTest(ToolCase):
    """Tests every format of calls that supports tool_choice "required": arguments satisfy their schemas."""
    FLAGS = ()

    FORMS = ("generic", "hermes", "llama3_json", "pythonic", "mistral", "deepseek_v3", "deepseek_v31", "openai", "glm45", "granite", "qwen3_coder", "nemotron_json", "kimi_k2", "minimax_m2", "deepseek_v32", "lfm2", "olmo3", "gemma4", "glm47", "phi4_mini_json", "cohere_command3", "command_r")

    def served(self, name, *bodies):
        """Returns the answers of a server with this format."""
        with Server("--threads-per-worker", "1", "--tool-call-parser", name, model=self.model) as server:
            return [server.post("/v1/chat/completions", {"messages": ASK, "max_tokens": 900, "temperature": 4, "seed": 1, "n": 8, **body}) for body in bodies]

    def check_all(self, answer):
        for choice, calls in zip(answer["choices"], self.calls_of(answer)):
            self.check(calls if choice["finish_reason"] == "tool_calls" else calls[:-1], 0)

    def test_tool_calls_match_their_schemas_with_every_parser(self):
        for name in self.FORMS:
            (status, required), (left_status, left_answer) = self.served(name, {"tools": TOOLS, "tool_choice": "required"}, {"tools": STRICT, "max_tokens": 200})
            self.assertEqual((status, left_status), (200, 200), required)
            self.check_all(required)
            self.assertGreater(sum(map(len, self.calls_of(required))), 7, name)
            self.check_all(left_answer)

    def test_pythonic_parser_refuses_schemas_that_it_cannot_express(self):
        for schema, keyword in (({**WEATHER, "minProperties": 1}, "of their number"), ({"type": "object", "properties": {"a b": {}}}, "a b")):
            tool = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}
            [(status, answer)] = self.served("pythonic", {"tools": [tool]})
            self.assertEqual((status, answer["error"]["param"]), (400, "tools[0].function.parameters"))
            self.assertIn(keyword, answer["error"]["message"])


class KeptSchemasTest(ToolCase):
    """Tests formats of calls whose arguments have no JSON types, such as glm45. For these formats the server holds the tools' schemas in
    memory until the answer's end."""
    TEMPLATE, FLAGS = PLAIN.replace("assistant: ", "{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}assistant: "), ()

    def taken(self, parser, tools):
        with Server("--threads-per-worker", "1", "--tool-call-parser", parser, model=self.model) as server:
            body = {"messages": ASK, "max_tokens": 400, "ignore_eos": True, "stream": True, "tools": tools}
            request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                answer.readline()
                return server.get("/admin/status", admin=True)["request_memory"]["taken_bytes"]

    def test_schemas_of_untyped_calls_count_as_request_memory(self):
        properties = {f"name{i}": {"type": "string"} for i in range(200)}
        tools = [{"type": "function", "function": {"name": f"f{i}", "parameters": {"type": "object", "properties": properties}}} for i in range(40)]
        schemas = sum(len(json.dumps(tool["function"]["parameters"])) for tool in tools)
        self.assertGreater(self.taken("glm45", tools), 4 * schemas)
        self.assertLess(self.taken("hermes", tools), schemas)


class ClientTest(ToolCase):
    """Tests the unchanged openai client."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)
        cls.addClassCleanup(cls.client.close)

    def ask(self, **fields):
        return {"model": "tiny", "messages": ASK, "tools": TOOLS, "max_tokens": 900, "temperature": 4, "seed": 3, **fields}

    def test_openai_client_runs_a_loop_of_tool_calls_and_results(self):
        messages = list(ASK)
        for turn in range(3):
            choice = self.client.chat.completions.create(**self.ask(messages=messages, tool_choice="required", parallel_tool_calls=False, seed=turn)).choices[0]
            self.assertEqual(choice.finish_reason, "tool_calls")
            messages.append(choice.message.model_dump(exclude_none=True))
            for call in choice.message.tool_calls:
                self.check([(call.function.name, call.function.arguments)])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": "done"})
        last = self.client.chat.completions.create(**self.ask(messages=messages, tool_choice="none", max_tokens=5)).choices[0]
        self.assertIsNone(last.message.tool_calls)

    def test_openai_streaming_helper_assembles_tool_calls(self):
        fields = self.ask(tool_choice="required", parallel_tool_calls=False)
        whole = self.client.chat.completions.create(**fields).choices[0]
        names = []
        with self.client.chat.completions.stream(**fields) as stream:
            for event in stream:
                if event.type == "tool_calls.function.arguments.done":
                    names.append(event.name)
            final = stream.get_final_completion().choices[0]
        self.assertEqual(final.finish_reason, whole.finish_reason)
        self.assertEqual([(c.function.name, c.function.arguments) for c in final.message.tool_calls],
                         [(c.function.name, c.function.arguments) for c in whole.message.tool_calls])
        self.assertEqual(names, [c.function.name for c in whole.message.tool_calls])


if __name__ == "__main__":
    verdict.run_tests()
