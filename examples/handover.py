"""Switch a session to another provider and back; audit it before anything is sent."""

from tenuto import Agent, tool


@tool(effect="pure")
def weather(city: str = "Oslo") -> str:
    """Current weather.

    Args:
        city: name of a city
    """
    return f"12 degrees in {city}"


with Agent("sim/anthropic", tools=[weather], store=None) as agent:
    session = agent.session()
    print(session.send("Weather in Oslo?").text)

    report = session.audit("sim/openai")  # nothing is sent
    print(report.clean, report.outcomes())

    for loss in session.handover("sim/openai"):
        print(loss.location, loss.kind)
    print(session.send("And now?").text)

    session.handover("sim/anthropic")
    print(session.send("And again?").text)
    print(session.audit().clean, session.audit().compared, "requests reproduced")
