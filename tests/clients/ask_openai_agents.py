"""Tries openai-agents: loops with a tool, whole and streamed, with chats and with responses; outputs of a given type; a second question in
a session; and an agent that hands over to another."""
import asyncio
from typing import Literal

from agents import (Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, SQLiteSession, function_tool,
                    set_tracing_disabled)
from openai import AsyncOpenAI
from pydantic import BaseModel, ConfigDict

from trials import KEY, QUESTION, Call, Say, Trials, expect


class Weather(BaseModel):
    model_config = ConfigDict(extra="forbid")  # a small model would add members without end
    city: Literal["Paris", "Rome"]
    degrees: Literal[12, 20]


set_tracing_disabled(True)
trials = Trials("openai-agents", "openai")
SETTINGS = ModelSettings(temperature=0, max_tokens=60)
asked = []


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    asked.append(city)
    return f"It rains in {city}."


def agent_of(kind, **more):
    asked.clear()
    client = AsyncOpenAI(base_url=trials.url + "/v1", api_key=KEY, max_retries=0)
    return Agent(**{"name": "Helper", "instructions": "Answer briefly.", "model": kind(trials.model, client), "model_settings": SETTINGS, **more})


LOOP = (Call("weather", city="Paris"), Say("Take an umbrella."))
for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
    over = "chat" if kind is OpenAIChatCompletionsModel else "responses"

    @trials(f"{over}: a tool, then an answer", *LOOP)
    def _(kind=kind):
        result = asyncio.run(Runner.run(agent_of(kind, tools=[weather]), QUESTION))
        expect(asked == ["Paris"] and result.final_output == "Take an umbrella.", (asked, result))
        usage = result.context_wrapper.usage
        expect(usage.requests == 2 and usage.input_tokens > 0, usage)
        return f"{asked}, {result.final_output!r}, {usage.input_tokens} and {usage.output_tokens} tokens"

    @trials(f"{over}: the same, streamed", *LOOP)
    def _(kind=kind):
        async def stream():
            result = Runner.run_streamed(agent_of(kind, tools=[weather]), QUESTION)
            events = [event async for event in result.stream_events()]
            return result.final_output, [event.data.delta for event in events if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]

        answer, pieces = asyncio.run(stream())
        expect(asked == ["Paris"] and answer == "Take an umbrella." and "".join(pieces) == answer and len(pieces) > 1, (asked, answer, pieces))
        return f"{asked}, {len(pieces)} pieces"

    @trials(f"{over}: an output of a type")
    def _(kind=kind):
        answer = asyncio.run(Runner.run(agent_of(kind, output_type=Weather), QUESTION)).final_output
        expect(isinstance(answer, Weather), answer)
        return repr(answer)

    @trials(f"{over}: a second question in a session", *LOOP, Say("Yes, all day."))
    def _(kind=kind):
        async def talk():
            agent, session = agent_of(kind, tools=[weather]), SQLiteSession("one")
            await Runner.run(agent, QUESTION, session=session)
            answer = (await Runner.run(agent, "All day?", session=session)).final_output
            return answer, await session.get_items()

        answer, items = asyncio.run(talk())
        expect(answer == "Yes, all day." and len(items) >= 6, (answer, items))
        return f"{len(items)} items, {answer!r}"

    @trials(f"{over}: an agent hands over to another", Call("transfer_to_forecaster"), Say("It rains."))
    def _(kind=kind):
        forecaster = agent_of(kind, name="Forecaster")
        result = asyncio.run(Runner.run(agent_of(kind, handoffs=[forecaster]), QUESTION))
        expect(result.last_agent.name == "Forecaster" and result.final_output == "It rains.", result)
        return f"{result.last_agent.name} says {result.final_output!r}"

trials.end()
