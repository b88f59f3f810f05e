#!/usr/bin/env python3
"""Renders the chat templates of released models with Quire and with HF transformers, and compares the texts. Each
template is one Jinja file. The conversations come with and without system messages, tools, tool calls, reasoning,
documents and settings. PyPI's source distribution of llama-cpp-python has 70 such files
(vendor/llama.cpp/models/templates). Needs: pip install transformers jinja2

  compare_templates.py TEST FOLDER [CASES]   TEST: build/tests/coordinator_chat_template_test; CASES: a file to which the cases are written
"""
import copy
import glob
import json
import os
import subprocess
import sys
import tempfile

from jinja2.exceptions import SecurityError
from transformers.utils.chat_template_utils import _compile_jinja_template

from make_tool_template_golden import CONVERSATIONS, TOOLS, USER, call, result

NESTED = [{"type": "function", "function": {
    "name": "search", "description": "Looks \"things\" up.\nSlowly.", "parameters": {
        "type": "object", "required": ["query", "where"], "additionalProperties": False, "$defs": {"kind": {"type": "string"}},
        "properties": {
            "query": {"type": ["string", "null"], "minLength": 1}, "where": {"$ref": "#/$defs/kind"},
            "range": {"type": "object", "properties": {"from": {"type": "number", "default": 0.5}, "to": {"type": "number"}}, "required": ["from"]},
            "either": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "integer"}]}, "one": {"oneOf": [{"type": "boolean"}, {"const": 3}]},
            "pairs": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}, "nullable": True},
            "maps": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}},
    "return": {"type": "string"}}}, TOOLS[1]]
MORE = [
    [USER, {"role": "assistant", "content": "<think>\nold thoughts\n</think>\n\nFine."}, USER],
    [{"role": "system", "content": " /no_think Be brief. "}, USER, {"role": "assistant", "content": "Fine.", "reasoning_content": "thoughts"}, USER,
     {"role": "assistant", "content": "", "tool_calls": [call(0, "search", {"query": None, "range": {"from": 1.5e30, "to": -0.0}, "pairs": [[1], []],
                                                                          "text": "a\n<b>&\"\u00e9\u2028"})]}, result(0, "found\nit")],
    [{"role": "developer", "content": "Be kind."}, USER],
    [{"role": "system", "content": ""}, USER, {"role": "assistant", "content": "  spaces  "}],
    [{"role": "user", "content": "caf\u00e9 \U0001f600 <|im_end|> {{ x }}\n\n"}, {"role": "assistant", "content": "a"}, USER, {"role": "assistant", "content": "b"}, USER],
]
SETTINGS = [{}, {"add_generation_prompt": False}, {"enable_thinking": False, "thinking": False, "reasoning_effort": "low"},
            {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
            {"documents": [{"title": "One", "text": "first\ntext"}, {"title": "Two", "text": "second", "doc_id": 7}]}]
# The forms of tool-call arguments and of the content beside calls that a template may expect. The test uses ChatTemplate::Traits.
WAYS = [(null_content, text_arguments) for null_content in (False, True) for text_arguments in (False, True)]


def adapted(messages, null_content, text_arguments):
    out = copy.deepcopy(messages)
    for message in out:
        for one in message.get("tool_calls", []):
            if not text_arguments:
                one["function"]["arguments"] = json.loads(one["function"]["arguments"])
        if null_content and "tool_calls" in message and not message["content"]:
            message["content"] = None
    return out


class Beyond(Exception):
    """Says that a template uses a feature that Quire supports and HF refuses: a change of a list, llama.cpp's filter from_json, or JSON
    of a generator, such as the result of select."""


def rendered(template, messages, tools, settings):
    given = {"documents": None, "add_generation_prompt": True, **settings}
    try:
        return template.render(messages=messages, tools=copy.deepcopy(tools), bos_token="<s>", eos_token="</s>", pad_token="", **copy.deepcopy(given))
    except Exception as error:  # any exception of Python or of the template: Quire must refuse the template, too
        text = str(error)
        if isinstance(error, SecurityError) or "No filter named 'from_json'" in text or "generator is not JSON serializable" in text:
            raise Beyond from error
        return None


def main():
    test, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    templates, cases = {}, []
    for path in sorted(glob.glob(os.path.join(folder, "*.jinja"))):
        name = os.path.basename(path).removesuffix(".jinja")
        with open(path, encoding="utf-8") as file:
            templates[name] = file.read()
        template = _compile_jinja_template(templates[name])
        for messages in CONVERSATIONS + MORE:
            for tools in (None, TOOLS, NESTED):
                for settings in SETTINGS:
                    try:
                        texts = [rendered(template, adapted(messages, *way), tools, settings) for way in WAYS]
                    except Beyond:
                        continue
                    sent = copy.deepcopy(messages)
                    for message in sent:
                        if "tool_calls" in message and not message["content"]:
                            message["content"] = None
                    cases.append({"template": name, "messages": sent, "tools": tools, "settings": settings, "texts": texts})
    with tempfile.TemporaryDirectory() as scratch:
        target = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else os.path.join(scratch, "cases.json")
        with open(target, "w", encoding="utf-8") as out:
            json.dump({"templates": templates, "cases": cases}, out, ensure_ascii=False)
        environment = {**os.environ, "QUIRE_TEST_TEMPLATES": target}
        sys.exit(subprocess.run([test, "--gtest_filter=*ReleasedTemplate*"], env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
