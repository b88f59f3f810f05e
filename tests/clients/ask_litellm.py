"""Tries litellm as a proxy between OpenAI's and Anthropic's clients and Quire: chats, streams, tools, responses, messages, embeddings."""
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from openai import OpenAI

from trials import KEY, QUESTION, Call, Say, Trials, expect

trials = Trials("litellm", "openai")
MASTER_KEY = "sk-" + secrets.token_hex(16)  # litellm's proxy requires a key that begins with sk-
SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}
TOOL = {"name": "weather", "description": "The weather in a city", "parameters": SCHEMA}
ASK = [{"role": "user", "content": QUESTION}]


def start(folder):
    """Starts litellm's proxy with its files in `folder`. Returns the process and its URL once the proxy answers."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    behind = {"model": f"openai/{trials.model}", "api_base": trials.url + "/v1", "api_key": KEY}
    config = {"model_list": [{"model_name": "mine", "litellm_params": behind}], "litellm_settings": {"num_retries": 0, "drop_params": False}}
    path = os.path.join(folder, "config.yaml")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f)
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "LITELLM_MASTER_KEY": MASTER_KEY, "HOME": folder}
    program = os.path.join(os.path.dirname(sys.executable), "litellm")
    process = subprocess.Popen([program, "--config", path, "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"], env=environment,
                               stdin=subprocess.DEVNULL, stdout=open(os.path.join(folder, "log"), "w"), stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(url + "/health/liveliness", timeout=5)
            return process, url
        except (OSError, urllib.error.URLError):
            expect(process.poll() is None, open(os.path.join(folder, "log")).read()[-2000:])
            time.sleep(1)
    raise AssertionError("litellm's proxy did not start")


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", "x-api-key": MASTER_KEY, "anthropic-version": "2023-06-01"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return answer.read().decode()


with tempfile.TemporaryDirectory() as folder:
    process, url = start(folder)
    client = OpenAI(base_url=url + "/v1", api_key=MASTER_KEY, max_retries=0)
    short = {"model": "mine", "temperature": 0, "max_tokens": 24}

    @trials("chat, and a stream that gives the same")
    def _():
        whole = client.chat.completions.create(messages=ASK, **short).choices[0].message.content
        pieces = [piece.choices[0].delta.content or "" for piece in client.chat.completions.create(messages=ASK, stream=True, **short) if piece.choices]
        expect(whole and "".join(pieces) == whole, (whole, pieces))
        return f"{len(pieces)} pieces"

    @trials("chat: a tool, then an answer", Call("weather", city="Paris"), Say("Take an umbrella."))
    def _():
        tools = [{"type": "function", "function": TOOL}]
        first = client.chat.completions.create(messages=ASK, tools=tools, **short).choices[0].message
        call = first.tool_calls[0]
        expect(json.loads(call.function.arguments) == {"city": "Paris"}, call)
        turns = [*ASK, first.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "It rains."}]
        said = client.chat.completions.create(messages=turns, tools=tools, **short).choices[0].message.content
        expect(said == "Take an umbrella.", said)
        return repr(said)

    @trials("chat: response_format")
    def _():
        form = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
        text = client.chat.completions.create(messages=ASK, response_format=form, **short).choices[0].message.content
        expect(json.loads(text)["city"] in ("Paris", "Rome"), text)
        return text

    @trials("responses, and their stream")
    def _():
        ask = {"model": "mine", "input": QUESTION, "temperature": 0, "max_output_tokens": 24}
        whole = client.responses.create(**ask).output_text
        pieces = [event.delta for event in client.responses.create(stream=True, **ask) if event.type == "response.output_text.delta"]
        expect(whole and "".join(pieces) == whole, (whole, pieces))
        return f"{len(pieces)} pieces"

    @trials("messages: a tool", Call("weather", city="Paris"))
    def _():
        tool = {"name": "weather", "description": "The weather in a city", "input_schema": SCHEMA}
        answer = json.loads(post(url + "/v1/messages", {"model": "mine", "max_tokens": 40, "messages": ASK, "tools": [tool]}))
        call = next(block for block in answer["content"] if block["type"] == "tool_use")
        expect(call["input"] == {"city": "Paris"}, answer)
        return f"{call['name']}({call['input']}), {answer['stop_reason']}"

    @trials("messages, streamed")
    def _():
        events = post(url + "/v1/messages", {"model": "mine", "max_tokens": 24, "messages": ASK, "stream": True})
        expect("content_block_delta" in events and "message_stop" in events, events)
        return f"{events.count('content_block_delta') // 2} pieces"

    @trials("embeddings")
    def _():
        vectors = client.embeddings.create(model="mine", input=["rain", "a dry day"], encoding_format="float").data
        expect(len(vectors) == 2, vectors)
        return f"2 of {len(vectors[0].embedding)} numbers"

    process.terminate()
    process.wait()
trials.end()
