"""Tries instructor: an object of a given type, in every mode for OpenAI's and Anthropic's endpoints, whole and in parts."""
import json
from typing import Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel, ConfigDict

from trials import KEY, QUESTION, Call, Say, Trials, expect


class Weather(BaseModel):
    model_config = ConfigDict(extra="forbid")  # a small model would add members without end
    city: Literal["Paris", "Rome"]
    degrees: Literal[12, 20]


trials = Trials("instructor", "openai")
client = OpenAI(base_url=trials.url + "/v1", api_key=KEY)
ASK = {"model": trials.model, "messages": [{"role": "user", "content": QUESTION}], "response_model": Weather, "temperature": 0, "max_retries": 0}
WRITTEN = '{"city": "Rome", "degrees": 20}'
MODES = {
    "TOOLS": (), "TOOLS_STRICT": (), "JSON_SCHEMA": (), "RESPONSES_TOOLS": (),
    "JSON": (Say(WRITTEN),), "MD_JSON": (Say(f"```json\n{WRITTEN}\n```"),),
}

for mode, steps in MODES.items():
    @trials(mode, *steps)
    def _(mode=mode):
        answer = instructor.from_openai(client, mode=instructor.Mode[mode]).create(**ASK)
        expect(isinstance(answer, Weather), answer)
        return repr(answer)

# A small model would make a list as long as it may, and write other members around the list.
TWO = [{"city": "Rome", "degrees": 20}, {"city": "Paris", "degrees": 12}]
LISTS = {"TOOLS": Call("IterableWeather", tasks=TWO), "JSON_SCHEMA": Say(json.dumps({"tasks": TWO}))}
for mode in LISTS:
    @trials(f"{mode}, partial objects as they come")
    def _(mode=mode):
        parts = list(instructor.from_openai(client, mode=instructor.Mode[mode]).create_partial(**ASK))
        expect(len(parts) > 1 and parts[-1].city in ("Paris", "Rome"), parts)
        return f"{len(parts)} parts, {parts[-1]!r}"

    @trials(f"{mode}, a list as its items come", LISTS[mode])
    def _(mode=mode):
        found = list(instructor.from_openai(client, mode=instructor.Mode[mode]).create_iterable(**ASK))
        expect([item.model_dump() for item in found] == TWO, found)
        return f"{len(found)} items"

trials.end()
