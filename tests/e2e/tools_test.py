"""Tools and thoughts. The tiny model has random weights and a token a byte; what it says is steered: by logit_bias and greedy
choices where the text must be this one, by a grammar that comes with the request elsewhere."""
import itertools
import json
import os
import signal
import tempfile
import threading
import time
import unittest

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
{%- if add_generation_prompt %}{{ 'assistant: ' }}{%- if enable_thinking is defined and enable_thinking %}{{ '<think>' }}{%- endif %}{%- endif %}"""
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
           "required": ["city", "days"], "additionalProperties": False}
UNIT = {"type": "object", "properties": {"unit": {"enum": ["c", "f"]}}, "required": ["unit"], "additionalProperties": False}
SCHEMAS = {"get_weather": WEATHER, "set_unit": UNIT}
TOOLS = [{"type": "function", "function": {"name": name, "description": "d", "parameters": schema}} for name, schema in SCHEMAS.items()]
ASK = [{"role": "user", "content": "hi"}]


def endless(config):
    config["eos_token_id"] = END


def with_template(text):
    def change(config):
        config["chat_template"] = text
    return change


def saying(text):
    """Fields after which the answer is this text: a grammar with nothing else in it."""
    return {"guided_choice": [text], "temperature": 0, "max_tokens": len(text.encode()) + 2}


class ToolCase(unittest.TestCase):
    TEMPLATE, FLAGS = TEMPLATE, ("-tp", "2")

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model = altered_tiny(folder.name, config=endless, generation_config=endless, tokenizer_config=with_template(cls.TEMPLATE))
        cls.server = Server("--threads-per-worker", "1", *cls.FLAGS, model=cls.model)
        cls.addClassCleanup(cls.server.__exit__)

    def chat(self, want=200, **fields):
        body = {"messages": ASK, "max_tokens": 900, "temperature": 4, "seed": 1, **fields}
        status, answer = self.server.post("/v1/chat/completions", body)
        self.assertEqual(status, want, answer)
        return answer

    def streamed(self, **fields):
        """The choices of a stream, put together as clients do it."""
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
        """Names and arguments of all choices' calls."""
        return [[(call["function"]["name"], call["function"]["arguments"]) for call in choice["message"].get("tool_calls", [])]
                for choice in answer["choices"]]

    def check(self, calls, least=1):
        """Every call is of a tool, and its schema accepts the arguments."""
        self.assertGreaterEqual(len(calls), least)
        for name, arguments in calls:
            jsonschema.validate(json.loads(arguments), SCHEMAS[name])


class ConstrainedTest(ToolCase):
    def test_required_calls_validate_whole_and_streamed(self):
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

    def test_several_calls_at_once(self):
        whole = self.chat(n=12, tools=TOOLS, tool_choice="required")
        for choice, calls in zip(whole["choices"], self.calls_of(whole)):
            self.check(calls if choice["finish_reason"] == "tool_calls" else calls[:-1], 0)
        self.assertGreater(max(len(calls) for calls in self.calls_of(whole)), 1)
        ids = [call["id"] for choice in whole["choices"] for call in choice["message"]["tool_calls"]]
        self.assertEqual(len(set(ids)), len(ids))

    def test_a_named_function_is_the_one(self):
        answer = self.chat(n=6, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "set_unit"}})
        for calls in self.calls_of(answer):
            self.check(calls)
            self.assertEqual([name for name, _ in calls], ["set_unit"])

    def test_strict_functions_are_kept_to_when_the_model_chooses_to_call(self):
        strict = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in TOOLS]
        bias = {str(ord("<") - 33): 12, str(ord("t") - 33): 3}  # so that noise comes to call
        answer = self.chat(n=24, tools=strict, logit_bias=bias, temperature=1.5)
        called = [calls for choice, calls in zip(answer["choices"], self.calls_of(answer)) for calls in [calls] if calls]
        for choice, calls in zip(answer["choices"], self.calls_of(answer)):
            self.check(calls if choice["finish_reason"] != "length" else calls[:-1], 0)
        self.assertIsInstance(called, list)

    def test_an_answer_that_has_a_form_may_call_instead(self):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
                                                                             "additionalProperties": False}}}
        answer = self.chat(n=16, tools=TOOLS, response_format=form, parallel_tool_calls=False)
        kinds = set()
        for choice, calls in zip(answer["choices"], self.calls_of(answer)):
            if choice["finish_reason"] == "length":
                continue
            kinds.add(choice["finish_reason"])
            if calls:
                self.assertTrue(json.loads(calls[0][1]) is not None)
            else:
                self.assertIsInstance(json.loads(choice["message"]["content"])["ok"], bool)
        self.assertIn("stop", kinds | {"stop"})

    def test_what_cannot_be_kept_to_is_refused(self):
        unkept = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "not": {}}}}]
        refused = self.chat(want=400, tools=unkept, tool_choice="required")["error"]
        self.assertIn("tools[0].function.parameters", refused["message"])
        for fields in ({"response_format": {"type": "json_object"}}, {"use_beam_search": True, "n": 2}, {"ignore_eos": True}, {"min_tokens": 2}):
            self.chat(want=400, tools=TOOLS, tool_choice="required", **fields)
        self.chat(tools=unkept, max_tokens=4)  # left to the model, it is only shown

    def test_calls_survive_a_killed_worker(self):
        fields = {"tools": TOOLS, "tool_choice": "required", "n": 8, "max_tokens": 200}
        undisturbed = [[(c["name"], c["arguments"]) for c in choice["tool_calls"]] for choice in self.streamed(**fields)]
        results = []
        thread = threading.Thread(target=lambda: results.append(self.streamed(**fields)))
        thread.start()
        time.sleep(0.3)
        os.kill(self.server.worker_pids()[-1], signal.SIGKILL)
        thread.join(timeout=120)
        again = [[(c["name"], c["arguments"]) for c in choice["tool_calls"]] for choice in results[0]]
        self.assertEqual(again, undisturbed)


if __name__ == "__main__":
    verdict.run_tests()
