"""Tries pydantic-ai: agents with a tool, outputs of a given type, and streams, with chats, responses and messages."""
import asyncio
from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from trials import KEY, QUESTION, Call, Say, Trials, expect


class Weather(BaseModel):
    model_config = ConfigDict(extra="forbid")  # a small model would add members without end
    city: Literal["Paris", "Rome"]
    degrees: Literal[12, 20]


trials = Trials("pydantic-ai-slim", "openai", "anthropic")
openai = OpenAIProvider(base_url=trials.url + "/v1", api_key=KEY)
models = {
    "chat": OpenAIChatModel(trials.model, provider=openai),
    "responses": OpenAIResponsesModel(trials.model, provider=openai),
    "messages": AnthropicModel(trials.model, provider=AnthropicProvider(base_url=trials.url, api_key=KEY)),
}
SETTINGS = {"temperature": 0, "max_tokens": 60}


def agent_with_tool(kind):
    asked = []
    agent = Agent(models[kind], instructions="Answer briefly.", model_settings=SETTINGS)

    @agent.tool_plain
    def weather(city: str) -> str:
        """The weather in a city."""
        asked.append(city)
        return f"It rains in {city}."

    return agent, asked


for kind in models:
    @trials(f"{kind}: a tool, then an answer", Call("weather", city="Paris"), Say("Take an umbrella."))
    def _(kind=kind):
        agent, asked = agent_with_tool(kind)
        result = agent.run_sync(QUESTION)
        expect(asked == ["Paris"] and result.output == "Take an umbrella.", (asked, result))
        return f"{asked}, {result.output!r}, {result.usage.input_tokens} and {result.usage.output_tokens} tokens"

    @trials(f"{kind}: the same, streamed", Call("weather", city="Paris"), Say("Take an umbrella."))
    def _(kind=kind):
        agent, asked = agent_with_tool(kind)

        async def stream():
            async with agent.run_stream(QUESTION) as result:
                return [text async for text in result.stream_text(delta=True, debounce_by=None)]

        pieces = asyncio.run(stream())
        expect(asked == ["Paris"] and "".join(pieces) == "Take an umbrella." and len(pieces) > 1, (asked, pieces))
        return f"{asked}, {len(pieces)} pieces"

    for output in (NativeOutput, ToolOutput, PromptedOutput):
        # pydantic-ai sends a schema to models of Anthropic's that it knows, and to no others.
        if (output is PromptedOutput and kind != "chat") or (output is NativeOutput and kind == "messages"):
            continue
        steps = [Say('{"city": "Rome", "degrees": 20}')] if output is PromptedOutput else []

        @trials(f"{kind}: {output.__name__}", *steps)
        def _(kind=kind, output=output):
            agent = Agent(models[kind], output_type=output(Weather), model_settings=SETTINGS)
            answer = agent.run_sync(QUESTION).output
            expect(isinstance(answer, Weather), answer)
            return repr(answer)

trials.end()
