"""Store the sessions of an agent and resume them in another process."""

import tempfile

from tenuto import Agent, Limits, tool
from tenuto.events import ToolFinished


@tool(effect="pure")
def weather(city: str = "Oslo") -> str:
    """Current weather.

    Args:
        city: name of a city
    """
    return f"12 degrees in {city}"


with tempfile.TemporaryDirectory() as directory:
    store = f"{directory}/sessions.db"  # by default a file in the user's data directory
    with Agent("sim/anthropic", system="Be brief.", tools=[weather], store=store, limits=Limits(turns=20)) as agent:
        session = agent.session()
        result = session.send("Weather in Oslo?")
        print(result.output)

    with Agent("sim/anthropic", tools=[weather], store=store) as agent:  # in another process
        session = agent.resume("last")
        print(len(session.transcript), "messages,", session.status)
        for event in session.stream("And now?"):
            if isinstance(event, ToolFinished):
                print("->", event.result.content)
        print(session.text)
        earlier = session.fork(at=1)  # only the first message, for another answer
        print(len(earlier.transcript), len(session.transcript))
