#!/usr/bin/env python3
"""Makes tool_templates.json: the output of jinja2, configured as in HF transformers, for templates that show tools,
tool calls and reasoning in the style of well-known families, and for conversations that have these. Needs: pip install
jinja2"""
import json
import os

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = os.path.dirname(os.path.abspath(__file__))

TEMPLATES = {
    "qwen": """{%- if tools %}{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- "# Tools\\n<tools>" }}
{%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
{{- "\\n</tools><|im_end|>\\n" }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- if ns.searching and message.role == "user" and not message.content.startswith('<tool_response>') %}
        {%- set ns.searching = false %}{%- set ns.last = messages|length - 1 - loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "assistant" %}
        {%- set content = message.content if message.content is string else '' %}
        {%- set thoughts = message.reasoning_content if message.reasoning_content is string else '' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.last and (loop.last or thoughts) %}{{- '<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' }}{%- endif %}
        {{- content }}
        {%- for tool_call in message.tool_calls or [] %}
            {%- if (loop.first and content) or not loop.first %}{{- '\\n' }}{%- endif %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
            {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or messages[loop.index0 - 1].role != "tool" %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != "tool" %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- elif not (message.role == 'system' and loop.first and tools) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}""",
    "llama": """{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{{- bos_token }}
{%- if tools is not none %}{{- "Respond in the format {\\"name\\": function name, \\"parameters\\": dictionary}.\\n" }}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\\n\\n" }}{%- endfor %}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("one call at a time") }}{%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' }}{{- tool_call.arguments | tojson }}{{- "}<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}{%- else %}{{- message.content }}{%- endif %}
    {%- endif %}
{%- endfor %}""",
    "mistral": """{%- set user_messages = messages | selectattr("role", "equalto", "user") | list %}
{%- for message in messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}{{- "[AVAILABLE_TOOLS][" }}
            {%- for tool in tools %}{%- set tool = tool.function %}{{- '{' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}{{- '"' + key + '": "' + val + '"' }}{%- else %}{{- '"' + key + '": ' + val|tojson }}{%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}{{- "}" }}{%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}{{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}{{- "[INST]" + message["content"] + "[/INST]" }}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}{{- "[TOOL_CALLS][" }}
        {%- for tool_call in message.tool_calls %}{%- set out = tool_call.function|tojson %}{{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}{{- raise_exception("ids have nine letters") }}{%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}{%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}{{- message["content"] + eos_token }}
    {%- elif message["role"] == "tool" %}{{- '[TOOL_RESULTS]{"content": ' + message.content|string + ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- endif %}
{%- endfor %}""",
    "glm": """{%- if tools %}{{ '<|system|>' }}{% for tool in tools %}{{ tool | tojson(ensure_ascii=False) }}
{% endfor %}{% endif %}
{%- macro visible_text(content) -%}{%- if content is string -%}{{ content }}{%- elif content is iterable and content is not mapping -%}
{%- for item in content -%}{%- if item is mapping and item.type == 'text' -%}{{- item.text }}{%- endif -%}{%- endfor -%}
{%- else -%}{{ content }}{%- endif -%}{%- endmacro -%}
{%- for m in messages %}
{%- if m.role == 'assistant' -%}<|assistant|>
{%- if m.reasoning_content is string %}{{ '\\n<think>' + m.reasoning_content.strip() + '</think>' }}{% endif %}
{%- if visible_text(m.content).strip() %}{{ '\\n' + visible_text(m.content).strip() }}{% endif %}
{% if m.tool_calls %}{% for tc in m.tool_calls %}{%- if tc.function %}{%- set tc = tc.function %}{%- endif %}
{{ '<tool_call>' + tc.name }}
{% set _args = tc.arguments %}{% for k, v in _args.items() %}<arg_key>{{ k }}</arg_key>
<arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>
{% endfor %}</tool_call>{% endfor %}{% endif %}
{%- else -%}{{ '<|' + m.role + '|>\\n' + visible_text(m.content) }}{%- endif %}
{%- endfor %}""",
    "deepseek": """{%- set ns = namespace(is_tool=false) %}{{ bos_token }}
{%- if tools %}{{ tools | map(attribute='function') | list | tojson(indent=2) }}{% endif %}
{%- for message in messages %}
    {%- if message['role'] == 'assistant' and message['tool_calls'] is defined and message['tool_calls'] %}
        {%- for tool in message['tool_calls'] %}
            {%- if loop.first %}{{ (message['content'] or '') + '<｜tool▁calls▁begin｜>' }}{% else %}{{ '\\n' }}{% endif %}
            {{- '<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + '\\n```json\\n' + tool['function']['arguments'] + '\\n```<｜tool▁call▁end｜>' }}
        {%- endfor %}{{ '<｜tool▁calls▁end｜>' }}
    {%- elif message['role'] == 'tool' %}{{ '<｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>' }}
    {%- else %}{{ '<｜' + message['role'] + '｜>' + (message['content'].split('</think>')|last) }}
    {%- endif %}
{%- endfor %}""",
    "harmony": """{%- macro render_type(spec) -%}{%- if spec.type == "array" -%}{{ render_type(spec['items']) + "[]" }}
{%- elif spec.type is iterable and spec.type is not string -%}{{ spec.type | join(" | ") }}
{%- elif spec.type == "object" -%}{ {%- for name, inner in spec.properties.items() -%}{{ name }}{{ '' if name in (spec.required or []) else '?' }}: {{ render_type(inner) }}{{ '' if loop.last else ', ' }}{%- endfor -%} }
{%- elif spec.enum -%}{{ '"' + spec.enum|join('" | "') + '"' }}{%- else -%}{{ spec.type }}{%- endif -%}{%- endmacro -%}
<|start|>system<|message|>Reasoning: {{ reasoning_effort if reasoning_effort is defined else 'medium' }}<|end|>
{%- if tools -%}<|start|>developer<|message|>namespace functions {
{% for tool in tools %}{% set tool = tool.function %}{{ "// " + tool.description + "\\n" }}type {{ tool.name }} = (_: {{ render_type(tool.parameters) }}) => any;
{% endfor %}}<|end|>{%- endif -%}
{%- set last_tool_call = namespace(name=none) -%}
{%- for message in messages -%}
    {%- if message.role == 'assistant' and message.tool_calls -%}
        {%- if message.thinking -%}{{ '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}{%- endif -%}
        {%- set call = message.tool_calls[0].function -%}
        {{ '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json<|message|>' }}{{ call.arguments|tojson }}{{ '<|call|>' }}
        {%- set last_tool_call.name = call.name -%}
    {%- elif message.role == 'tool' -%}{{ '<|start|>functions.' + last_tool_call.name + '<|message|>' + message.content|tojson + '<|end|>' }}
    {%- else -%}{{ '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}""",
    "granite": """{%- if tools and not available_tools -%}{%- set available_tools = tools -%}{%- endif -%}
{%- if available_tools %}{{ available_tools | tojson(indent=4) }}{%- endif %}
{%- if documents %}{%- for document in documents %}{{ '<doc ' + document['doc_id'] | string + '>' + document['text'] }}{%- endfor %}{%- endif %}
{%- for message in messages %}{{ '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + (message['content'] or '') }}
    {%- if message.tool_calls %}{{ '<|tool_call|>' + (message.tool_calls | map(attribute='function') | list | tojson) }}{%- endif %}
{%- endfor %}
{%- set ns = namespace(keys=[]) %}{%- for key, value in {'b': 1, 'A': 2, 'c': 0}|dictsort %}{{ key ~ '=' ~ value ~ ';' }}{%- endfor %}
{{- [3, 1, 2]|min ~ [3, 1, 2]|max }}""",
}

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a \"city\"\nnow, in é", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "<b> & 'c'"}, "unit": {"type": "string", "enum": ["f", "c"]},
                                         "days": {"type": "integer", "default": 3}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["city"]}}},
    {"type": "function", "function": {"name": "noop", "description": "nothing", "parameters": {"type": "object", "properties": {}}}},
]


def call(number, name, arguments):
    return {"id": f"callabcd{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}


def result(number, text):
    return {"role": "tool", "content": text, "tool_call_id": f"callabcd{number}"}


USER = {"role": "user", "content": "How is it?"}
CONVERSATIONS = [
    [USER],
    [{"role": "system", "content": "Be brief."}, USER],
    [USER, {"role": "assistant", "content": "", "tool_calls": [call(0, "get_weather", {"unit": "c", "city": "Zürich \"x\" <|im_end|>", "n": [1, 2.5, True, None]})]}, result(0, '{"t": 5}')],
    [USER, {"role": "assistant", "content": "Let me look.", "tool_calls": [call(0, "get_weather", {"city": "A\nb"}), call(1, "noop", {})]}, result(0, "1"), result(1, "2"),
     {"role": "assistant", "content": "It is 1."}, {"role": "user", "content": "Thanks"}],
    [USER, {"role": "assistant", "content": "", "tool_calls": [call(0, "noop", {})], "reasoning_content": "First\nlook.", "thinking": "First\nlook."}, result(0, "ok")],
]
VARIABLES = [{}, {"enable_thinking": False, "reasoning_effort": "high"}]


def main():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None: json.dumps(x, ensure_ascii=ensure_ascii, indent=indent)

    def raise_exception(message):
        raise RuntimeError(message)

    env.globals["raise_exception"] = raise_exception
    cases = []
    for name, source in TEMPLATES.items():
        template = env.from_string(source)
        for messages in CONVERSATIONS:
            for tools in (None, TOOLS):
                for variables in VARIABLES:
                    given = json.loads(json.dumps(messages))
                    for message in given:
                        for one in message.get("tool_calls", []):
                            if name != "deepseek":  # DeepSeek's template expects text
                                one["function"]["arguments"] = json.loads(one["function"]["arguments"])
                    entry = {"template": name, "messages": messages, "tools": tools is not None, "variables": variables}
                    try:
                        entry["text"] = template.render(messages=given, tools=tools, documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>",
                                                        **variables)
                    except RuntimeError as error:
                        entry["error"] = str(error)
                    cases.append(entry)
    with open(os.path.join(HERE, "tool_templates.json"), "w") as out:
        json.dump({"templates": TEMPLATES, "tools": TOOLS, "cases": cases}, out, separators=(",", ":"), ensure_ascii=False)
        out.write("\n")


if __name__ == "__main__":
    main()
