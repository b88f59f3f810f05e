"""Tries inspect_ai: evaluations with a scorer, of plain questions and of an agent that calls a tool and submits its answer; structured
output."""
import os
import tempfile

from inspect_ai import Task, eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, ResponseSchema, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate
from inspect_ai.tool import tool
from inspect_ai.util import json_schema
from pydantic import BaseModel

from trials import KEY, QUESTION, Call, Say, Trials, expect

trials = Trials("inspect_ai", "openai")
os.environ.update(QUIRE_API_KEY=KEY, QUIRE_BASE_URL=trials.url + "/v1", INSPECT_DISPLAY="none")
NAME = f"openai-api/quire/{trials.model}"


class Weather(BaseModel):
    rains: bool


@tool
def weather():
    async def execute(city: str) -> str:
        """The weather in a city.

        Args:
            city: The city's name.
        """
        return f"It rains in {city}."
    return execute


logs = tempfile.TemporaryDirectory()  # inspect_ai reads samples from its logs when they are asked for


def run(task, **settings):
    log = evaluate(task, model=NAME, log_dir=logs.name, display="none", temperature=0, max_tokens=60, max_retries=0, **settings)[0]
    expect(log.status == "success", log.error)
    return log


@trials("two questions, scored", Say("It rains in Paris."), Say("It rains in Paris."))
def _():
    samples = [Sample(QUESTION, target="rains"), Sample(QUESTION, target="rains")]
    log = run(Task(dataset=samples, solver=generate(), scorer=includes()))
    accuracy = log.results.scores[0].metrics["accuracy"].value
    expect(accuracy == 1, log.results)
    return f"accuracy {accuracy}, {sum(usage.total_tokens for usage in log.stats.model_usage.values())} tokens"


@trials("an agent with a tool", Call("weather", city="Paris"), Call("submit", answer="It rains."))
def _():
    log = run(Task(dataset=[Sample(QUESTION, target="rains")], solver=react(tools=[weather()]), scorer=includes()))
    expect(log.results.scores[0].metrics["accuracy"].value == 1, log.results)
    return f"accuracy 1, {len(log.samples[0].messages)} messages"


@trials("responses in place of chats", Say("It rains in Paris."))
def _():
    log = run(Task(dataset=[Sample(QUESTION, target="rains")], solver=generate(), scorer=includes()), model_args={"responses_api": True})
    expect(log.results.scores[0].metrics["accuracy"].value == 1, log.results)
    return "accuracy 1"


@trials("an answer of a schema, several choices")
def _():
    import asyncio
    config = GenerateConfig(response_schema=ResponseSchema(name="weather", json_schema=json_schema(Weather)), max_tokens=60, num_choices=2, temperature=0)
    output = asyncio.run(get_model(NAME).generate(QUESTION, config=config))
    parsed = [Weather.model_validate_json(choice.message.text) for choice in output.choices]
    expect(len(parsed) == 2, output)
    return repr(parsed[0])


trials.end()
