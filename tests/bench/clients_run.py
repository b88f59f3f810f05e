#!/usr/bin/env python3
"""Runs unmodified clients from PyPI against a Quire server that this script starts.

  clients_run.py langchain MODEL [FLAG...]    langchain-openai: chats, streams, batches, tools, schemas, embeddings
  clients_run.py litellm MODEL [FLAG...]      litellm: the same through its own interface, and raw completions (its tools also need mcp)
  clients_run.py guidellm MODEL TOKENIZER [FLAG...]   guidellm: its load generator at several rates; TOKENIZER: a directory of HF's

Each client needs the package of its name, in a separate environment, because the packages need different versions of others. Prints a line
for each attempt, and ends with status 1 when an attempt fails. MODEL needs a chat template. QUIRE_TEST_BUILD names the build directory."""
import asyncio
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

KEY = "none"
QUESTION = "What is the weather in Paris?"


class Trials:
    """Runs several attempts one after the other, whatever their results."""

    def __init__(self, package):
        print(f"{package} {importlib.metadata.version(package)}, openai {importlib.metadata.version('openai')}")
        self.failed = False

    def __call__(self, name):
        def run(trial):
            try:
                print(f"  {name}: {trial()}")
            except Exception:  # noqa: BLE001: foreign packages may raise any exception
                self.failed = True
                print(f"  {name}: FAILED")
                traceback.print_exc()
        return run


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def langchain(server, name):
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
    from pydantic import BaseModel, Field

    class Weather(BaseModel):
        city: str = Field(max_length=20)
        degrees: int = Field(ge=-50, le=50)

    @tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"It rains in {city}."

    trials = Trials("langchain-openai")
    chat = ChatOpenAI(base_url=server.url + "/v1", api_key=KEY, model=name, temperature=0, max_tokens=40)

    @trials("invoke")
    def _():
        answer = chat.invoke(QUESTION)
        expect(answer.content and answer.usage_metadata["output_tokens"] > 0, answer)
        return f"{answer.usage_metadata['output_tokens']} tokens, {answer.response_metadata['finish_reason']}"

    @trials("stream gives what invoke gives")
    def _():
        parts = [part.content for part in chat.stream(QUESTION)]
        expect("".join(parts) == chat.invoke(QUESTION).content, parts)
        return f"{len(parts)} parts"

    @trials("batch of 8")
    def _():
        answers = chat.batch([f"Count to {i}." for i in range(8)])
        expect(all(answer.content for answer in answers), answers)
        return f"{sum(len(answer.content) for answer in answers)} characters"

    @trials("async stream")
    def _():
        async def collect():
            return [part async for part in chat.astream(QUESTION)]
        return f"{len(asyncio.run(collect()))} parts"

    @trials("with_structured_output, json_schema")
    def _():
        return repr(chat.with_structured_output(Weather, method="json_schema").invoke(QUESTION))

    @trials("bind_tools, any")
    def _():
        call = chat.bind_tools([weather], tool_choice="any").invoke(QUESTION).tool_calls[0]
        expect(call["name"] == "weather" and isinstance(call["args"]["city"], str), call)
        return f"{call['name']}({call['args']}), and then: {weather.invoke(call['args'])}"

    @trials("completions")
    def _():
        raw = OpenAI(base_url=server.url + "/v1", api_key=KEY, model=name, temperature=0, max_tokens=8)
        return repr(raw.invoke("The capital of France is"))

    @trials("embeddings")
    def _():
        # Sends texts instead of tokens. For tokens langchain would choose a tokenizer by the model's name.
        embed = OpenAIEmbeddings(base_url=server.url + "/v1", api_key=KEY, model=name, check_embedding_ctx_length=False)
        vectors = embed.embed_documents(["rain", "a dry day"])
        expect(len(vectors) == 2 and len(vectors[0]) == len(embed.embed_query("rain")), len(vectors))
        return f"2 of {len(vectors[0])} numbers"

    return trials.failed


def litellm(server, name):
    import litellm as package

    package.telemetry = False
    trials = Trials("litellm")
    to = {"model": f"openai/{name}", "api_base": server.url + "/v1", "api_key": KEY}
    short = {"temperature": 0, "max_tokens": 24}
    messages = [{"role": "user", "content": QUESTION}]
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"], "additionalProperties": False}
    weather = {"type": "function", "function": {"name": "weather", "description": "The weather in a city", "parameters": schema}}

    @trials("completion")
    def _():
        answer = package.completion(messages=messages, **to, **short)
        expect(answer.choices[0].message.content and answer.usage.completion_tokens > 0, answer)
        return f"{answer.usage.completion_tokens} tokens, {answer.choices[0].finish_reason}"

    @trials("stream gives what completion gives")
    def _():
        parts = [part.choices[0].delta.content or "" for part in package.completion(messages=messages, stream=True, **to, **short)]
        expect("".join(parts) == package.completion(messages=messages, **to, **short).choices[0].message.content, parts)
        return f"{len(parts)} parts"

    @trials("acompletion, 8 at once")
    def _():
        async def collect():
            return await asyncio.gather(*(package.acompletion(messages=messages, **to, **short) for _ in range(8)))
        answers = {answer.choices[0].message.content for answer in asyncio.run(collect())}
        expect(len(answers) == 1, answers)
        return "all alike"

    @trials("response_format")
    def _():
        form = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": True}}
        text = package.completion(messages=messages, response_format=form, temperature=0, max_tokens=80, **to).choices[0].message.content
        expect(isinstance(json.loads(text)["city"], str), text)
        return text

    @trials("tools, required")
    def _():
        answer = package.completion(messages=messages, tools=[weather], tool_choice="required", temperature=0, max_tokens=80, **to)
        call = answer.choices[0].message.tool_calls[0].function
        expect(isinstance(json.loads(call.arguments)["city"], str), call)
        return f"{call.name}({call.arguments})"

    @trials("text_completion")
    def _():
        answer = package.text_completion(**{**to, "model": f"text-completion-openai/{name}"}, prompt="The capital of France is", **short)
        return repr(answer.choices[0].text)

    @trials("embedding")
    def _():
        answer = package.embedding(input=["rain", "a dry day"], encoding_format="float", **to)
        return f"{len(answer.data)} of {len(answer.data[0]['embedding'])} numbers"

    return trials.failed


def guidellm(server, name, tokenizer):
    trials = Trials("guidellm")
    tool = os.path.join(os.path.dirname(sys.executable), "guidellm")
    for profile in ("kind=synchronous", "kind=concurrent,streams=8", "kind=constant,rate=4"):
        @trials(profile)
        def _(profile=profile):
            with tempfile.TemporaryDirectory() as folder:
                out = os.path.join(folder, "out.json")
                command = [tool, "run", "--backend", f"kind=openai_http,target={server.url},model={name}", "--profile", profile,
                           "--tokenizer", f"kind=huggingface_auto,model={tokenizer}", "--data", "kind=synthetic_text,prompt_tokens=64,output_tokens=32",
                           "--constraint", "kind=max_requests,count=24", "--output", f"kind=json,path={out}", "--disable-console-interactive"]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "HF_HUB_OFFLINE": "1"})
                expect(done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:])
                with open(out, encoding="utf-8") as f:
                    requests = json.load(f)["benchmarks"][0]["requests"]
            expect(len(requests["successful"]) >= 20 and not requests["errored"], requests["errored"][:1])
            lengths = {request["output_metrics"]["total_tokens"] for request in requests["successful"]}
            expect(lengths == {32}, lengths)
            return f"{len(requests['successful'])} answered, none failed"
    return trials.failed


def main():
    which, model, *rest = sys.argv[1:]
    trial = {"langchain": langchain, "litellm": litellm, "guidellm": guidellm}[which]
    arguments = [rest.pop(0)] if which == "guidellm" else []
    from server import Server

    with Server(*rest, model=model) as server:
        failed = trial(server, server.get("/v1/models")["data"][0]["id"], *arguments)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
