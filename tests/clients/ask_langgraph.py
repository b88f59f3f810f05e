"""Tries langgraph with langchain-openai: a graph of a model and a tool, whole and streamed, with chats and responses, and with state that
is stored between questions."""
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from pydantic import BaseModel, ConfigDict
from typing import Literal

from trials import KEY, QUESTION, Call, Say, Trials, expect

trials = Trials("langgraph", "langchain-openai", "openai")


class Weather(BaseModel):
    model_config = ConfigDict(extra="forbid")  # a small model would add members without end
    city: Literal["Paris", "Rome"]
    rains: bool


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


def model(responses):
    return ChatOpenAI(base_url=trials.url + "/v1", api_key=KEY, model=trials.model, temperature=0, max_tokens=60, use_responses_api=responses)


def words(message):
    return message.content if isinstance(message.content, str) else "".join(block.get("text", "") for block in message.content)


STEPS = (Call("weather", city="Paris"), Say("Take an umbrella."))
for responses in (False, True):
    over = "responses" if responses else "chat"

    @trials(f"{over}: a tool, then an answer", *STEPS)
    def _(responses=responses):
        messages = create_react_agent(model(responses), [weather]).invoke({"messages": [("user", QUESTION)]})["messages"]
        expect([message.type for message in messages] == ["human", "ai", "tool", "ai"], messages)
        expect(messages[2].content == "It rains in Paris." and words(messages[3]) == "Take an umbrella.", messages)
        return f"{len(messages)} messages, {words(messages[3])!r}"

    @trials(f"{over}: streamed token by token", *STEPS)
    def _(responses=responses):
        pieces = [piece for piece, _ in create_react_agent(model(responses), [weather]).stream({"messages": [("user", QUESTION)]}, stream_mode="messages")]
        said = "".join(words(piece) for piece in pieces if piece.type == "AIMessageChunk")
        expect(said == "Take an umbrella.", said)
        return f"{len(pieces)} pieces"

    @trials(f"{over}: a second question in the same thread", *STEPS, Say("Yes."))
    def _(responses=responses):
        graph, thread = create_react_agent(model(responses), [weather], checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
        graph.invoke({"messages": [("user", QUESTION)]}, thread)
        messages = graph.invoke({"messages": [("user", "Sure?")]}, thread)["messages"]
        expect(len(messages) == 6 and words(messages[-1]) == "Yes.", messages)
        return f"{len(messages)} messages"


@trials("chat: an answer of a type behind the tool", *STEPS)
def _():
    answer = create_react_agent(model(False), [weather], response_format=Weather).invoke({"messages": [("user", QUESTION)]})["structured_response"]
    expect(isinstance(answer, Weather), answer)
    return repr(answer)


trials.end()
