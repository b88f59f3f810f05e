"""Tries smolagents: agents that call tools, and agents that write code, whole and streamed."""
import contextlib
import io

from smolagents import CodeAgent, LogLevel, OpenAIModel, ToolCallingAgent, tool

from trials import KEY, QUESTION, Call, Say, Trials, expect

trials = Trials("smolagents", "openai")
model = OpenAIModel(trials.model, api_base=trials.url + "/v1", api_key=KEY, temperature=0, max_tokens=120)
asked = []


@tool
def weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: the city's name
    """
    asked.append(city)
    return f"It rains in {city}."


CALLS = (Call("weather", city="Paris"), Call("final_answer", answer="It rains."))
CODE = (Say("Thought: I look.\n<code>\nseen = weather(city='Paris')\nprint(seen)\n</code>"), Say("Thought: I know.\n<code>\nfinal_answer(seen)\n</code>"))


def ask(agent, wanted):
    asked.clear()
    with contextlib.redirect_stdout(io.StringIO()):  # streamed answers would be printed among the trials
        answer = agent.run(QUESTION)
    expect(asked == ["Paris"] and answer == wanted, (asked, answer))
    return f"{asked}, {answer!r}"


for streamed in (False, True):
    how = ", streamed" if streamed else ""

    @trials(f"ToolCallingAgent{how}", *CALLS)
    def _(streamed=streamed):
        return ask(ToolCallingAgent([weather], model, stream_outputs=streamed, verbosity_level=LogLevel.OFF, max_steps=3), "It rains.")

    @trials(f"CodeAgent{how}", *CODE)
    def _(streamed=streamed):
        return ask(CodeAgent([weather], model, stream_outputs=streamed, verbosity_level=LogLevel.OFF, max_steps=3), "It rains in Paris.")

trials.end()
