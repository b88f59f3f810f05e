"""Tries llama-index with OpenAILike: chats, streams, completions, agents with a tool, objects of a given type, and embeddings."""
import asyncio
from typing import Literal

from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel, ConfigDict

from trials import KEY, QUESTION, Call, Say, Trials, expect

trials = Trials("llama-index-core", "llama-index-llms-openai-like", "llama-index-embeddings-openai-like", "openai")
SETTINGS = {"model": trials.model, "api_base": trials.url + "/v1", "api_key": KEY, "temperature": 0, "max_tokens": 40, "context_window": 8192}
llm = OpenAILike(is_chat_model=True, is_function_calling_model=True, **SETTINGS)


class Weather(BaseModel):
    """The weather in a city."""
    model_config = ConfigDict(extra="forbid")
    city: Literal["Paris", "Rome"]
    degrees: Literal[12, 20]


@trials("chat, and a stream that gives the same")
def _():
    messages = [ChatMessage(role="system", content="Answer briefly."), ChatMessage(role="user", content=QUESTION)]
    whole = llm.chat(messages).message.content
    pieces = [piece.delta or "" for piece in llm.stream_chat(messages)]
    expect(whole and "".join(pieces) == whole, (whole, pieces))
    return f"{len(pieces)} pieces"


@trials("completion, and its stream")
def _():
    raw = OpenAILike(is_chat_model=False, **SETTINGS)
    whole = raw.complete("The capital of France is").text
    expect("".join(piece.delta or "" for piece in raw.stream_complete("The capital of France is")) == whole, whole)
    return repr(whole[:40])


@trials("FunctionAgent, streamed", Call("weather", city="Paris"), Say("Take an umbrella."))
def _():
    asked = []

    def weather(city: str) -> str:
        """Returns the weather in a city."""
        asked.append(city)
        return f"It rains in {city}."

    async def loop():
        handler = FunctionAgent(tools=[FunctionTool.from_defaults(weather)], llm=llm).run(QUESTION)
        pieces = [event.delta async for event in handler.stream_events() if isinstance(event, AgentStream)]
        return pieces, str(await handler)

    pieces, answer = asyncio.run(loop())
    expect(asked == ["Paris"] and answer == "Take an umbrella." and "".join(pieces).endswith(answer), (asked, pieces, answer))
    return f"{asked}, {len(pieces)} pieces, {answer!r}"


@trials("structured_predict, by a tool")
def _():
    answer = llm.structured_predict(Weather, PromptTemplate(QUESTION), llm_kwargs={"tool_choice": "required"})
    expect(isinstance(answer, Weather), answer)
    return repr(answer)


@trials("structured_predict, by a schema")
def _():
    answer = OpenAILike(is_chat_model=True, should_use_structured_outputs=True, **SETTINGS).structured_predict(Weather, PromptTemplate(QUESTION))
    expect(isinstance(answer, Weather), answer)
    return repr(answer)


@trials("embeddings")
def _():
    embed = OpenAILikeEmbedding(model_name=trials.model, api_base=trials.url + "/v1", api_key=KEY, embed_batch_size=2)
    vectors = embed.get_text_embedding_batch(["rain", "a dry day", "snow"])
    one = embed.get_query_embedding("rain")
    expect(len(vectors) == 3 and max(abs(a - b) for a, b in zip(one, vectors[0])) < 1e-5, len(vectors))
    return f"3 of {len(one)} numbers"


trials.end()
