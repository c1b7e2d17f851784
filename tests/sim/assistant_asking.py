"""Asking the assistant without a server: some tools, and what is said, called and brought."""

from __future__ import annotations

from tenuto.sim.asked import Asked, Offered, Request, Said
from tenuto.sim.assistant import reply
from tenuto.sim.mint import Mint, Seals
from tenuto.sim.script import Call, Say, texts
from tenuto.sim.styles import STYLES

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def fields(*optional, **properties):
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


UNIT = {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}
WEATHER = Offered(
    name="get_weather", description="Get the current weather in a city", schema=fields("unit", city=TEXT, unit=UNIT)
)
CLOCK = Offered(name="get_time", description="Get the current time in a city", schema=fields(city=TEXT))
SEND = Offered(name="send_message", description="Send a message to somebody", schema=fields(to=TEXT, body=TEXT))
MULTIPLY = Offered(name="multiply", description="Multiplies", schema=fields(a=NUMBER, b=NUMBER))
COMPARE = Offered(name="compare", description="Compares cities", schema=fields(cities={"type": "array", "items": TEXT}))
FINAL = Offered(name="final_result", schema=fields(city=TEXT, report=TEXT))
SEARCH = Offered(name="web_search", kind="search")
CODE = Offered(name="code_execution", kind="code")
SHELL = Offered(name="run_query", description="Runs a query", kind="custom")


def ask(*said, request="r", **asked):
    """Let the assistant answer; a text is the user's."""
    style = next(style for style in STYLES if style.name == "anthropic")
    made = Request(
        style=style, model="m", named="anthropic/m", account="a", headers={}, body={}, digest=request, seals=Seals("s")
    )
    messages = tuple(Said(role="user", text=one) if isinstance(one, str) else one for one in said)
    return reply(Asked(request=made, turn=0, said=messages, **asked), Mint("s", request))


def did(*names):
    return Said(role="assistant", calls=tuple((name, "{}") for name in names))


def got(*results):
    return Said(role="user", results=results)


def spoke(text):
    return Said(role="assistant", text=text)


def calls(turn):
    return [(step.name, step.args) for step in turn if isinstance(step, Call)]


def text(turn):
    return "".join(texts(step.text) for step in turn if isinstance(step, Say))
