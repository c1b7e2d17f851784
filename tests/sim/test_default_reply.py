"""The reply without a script: calls, instances of schemas, repeated text."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tenuto import Client, NamedTool, tool
from tenuto.errors import BadRequest
from tenuto.schema.validate import find_problems
from tenuto.sim import Simulator
from tenuto.sim.default_reply import THINKING, NoInstance, default_reply, smallest_instance
from tenuto.sim.dialects import OfferedTool, PastMessage, TurnRequest
from tenuto.sim.script import CallTool, Say, Think

MODELS = ["anthropic/claude-opus-4-6", "openai/gpt-5.2", "deepseek/deepseek-v4-pro", "gemini/gemini-3-pro-preview"]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (OfferedTool(name="weather", schema=CITY), OfferedTool(name="now"), OfferedTool(name="note", is_custom=True))
CALLS = (CallTool("weather", {"city": ""}), CallTool("now"), CallTool("note", ""))
HELLO = PastMessage(role="user", texts=("Hello",))
CALLED = PastMessage(role="assistant", calls=2)
RESULTS = PastMessage(role="user", results=("12 degrees", ""))


@tool
def weather(city: str) -> str:
    """Current weather."""
    return f"rain in {city!r}"


@tool
def clock() -> str:
    """Current time."""
    return "noon"


class Trip(msgspec.Struct):
    """A trip."""

    city: str
    days: int = msgspec.field(default=3)


@pytest.fixture
def sim():
    with Simulator() as simulator:
        yield simulator
        simulator.assert_clean()


@pytest.fixture
def client(sim):
    with Client(providers={"sim": {"base_url": sim.base_url}}, middleware=[]) as client:
        yield client


# --- in each dialect --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_reply_repeats_last_text_block(client, model):
    from tenuto import Text, UserMessage

    message = UserMessage((Text("A file."), Text("What is in it?")))

    assert client.chat(f"sim/{model}", [message]).text == "What is in it?"


@pytest.mark.parametrize("model", MODELS)
def test_each_tool_is_called_once_for_each_prompt(client, model):
    reply, tools = client.chat(f"sim/{model}", "Weather?", tools=[weather, clock], effort="high"), [weather, clock]

    for _ in range(2):
        assert [(call.name, call.parse()) for call in reply.tool_calls] == [("weather", {"city": ""}), ("clock", {})]
        results = [reply.tool_calls[0].answer("rain"), reply.tool_calls[1].answer("noon")]
        reply = client.chat(f"sim/{model}", reply.transcript + results, tools=tools, effort="high")
        assert (reply.text, reply.tool_calls) == ("rain\nnoon", [])
        assert THINKING in reply.thinking
        reply = client.chat(f"sim/{model}", reply.transcript + "And now?", tools=tools, effort="high")


@pytest.mark.parametrize(
    ("options", "called"),
    [
        ({"tool_choice": "none"}, []),
        ({"tool_choice": "required"}, ["weather", "clock"]),
        ({"tool_choice": NamedTool("clock")}, ["clock"]),
        ({"parallel_tool_calls": False}, ["weather"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("model", ["anthropic/claude-haiku-4-5", "openai/gpt-4o", "chat", "gemini/gemini-2.5-flash"])
def test_options_of_tools_are_read(client, sim, model, options, called):
    if "gemini" in model and "parallel_tool_calls" in options:
        called = ["weather", "clock"]  # it has no such option
    reply = client.chat(f"sim/{model}", "Weather?", system="Be brief.", tools=[weather, clock], **options)
    sim.script("scripted", when="Be brief.")

    assert [call.name for call in reply.tool_calls] == called
    assert client.chat(f"sim/{model}", "Hi", system="Be brief.").text == "scripted"


@pytest.mark.parametrize("model", [model for model in MODELS if "deepseek" not in model])  # it has no schemas
def test_structured_reply_is_smallest_instance(client, model):
    assert client.chat_structured(f"sim/{model}", "Plan a trip", Trip).data.city == ""


def test_schema_without_instance_is_refused():
    schema = {"type": "object", "properties": {"id": {"type": "string", "pattern": "^[a-z]{3}$"}}, "required": ["id"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with Simulator() as sim, Client(providers={"sim": {"base_url": sim.base_url}}, middleware=[]) as client:
        with pytest.raises(BadRequest, match=r"no text for the pattern '\^\[a-z\]\{3\}\$'; script the reply"):
            client.chat("sim/chat", "Hi", extra_body={"response_format": form})
        assert len(sim.refusals) == 1


# --- what is called ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "fields", "expected"),
    [
        ((HELLO,), {}, CALLS),
        ((HELLO,), {"parallel": False}, CALLS[:1]),
        ((HELLO,), {"thinks": True}, (Think(THINKING), *CALLS)),
        ((HELLO,), {"tool_choice": "none"}, (Say("Hello"),)),
        ((HELLO,), {"tool_choice": "now"}, CALLS[1:2]),
        ((HELLO,), {"tools": "none"}, (Say("Hello"),)),
        ((HELLO,), {"tools": "none", "tool_choice": "required"}, CALLS[:1]),
        ((HELLO,), {"schema": CITY}, CALLS),
        ((HELLO, CALLED, RESULTS), {}, (Say("12 degrees\n(no text)"),)),
        ((HELLO, CALLED, RESULTS), {"schema": CITY}, (Say('{"city":""}'),)),
        ((HELLO, CALLED, RESULTS), {"tool_choice": "required"}, CALLS),
        ((HELLO, CALLED, RESULTS, HELLO), {}, CALLS),
        ((HELLO, CALLED, msgspec.structs.replace(RESULTS, texts=("Hurry.",))), {}, (Say("12 degrees\n(no text)"),)),
        ((HELLO, PastMessage(role="assistant", texts=("Well,",))), {}, (Say("Hello"),)),
        ((), {"tools": "none"}, (Say("(no text)"),)),
        ((HELLO,), {"tools": "none", "schema": {}}, (Say("{}"),)),
    ],
)  # fmt: skip
def test_turn_depends_on_tools_and_results(messages, fields, expected):
    tools = fields.pop("tools", "each")
    request = TurnRequest(request=None, turn=0, messages=messages, **{"tools": TOOLS, **fields})

    assert default_reply(request, tools) == expected


@pytest.mark.parametrize("model", MODELS[:2] + MODELS[3:])
def test_server_tools_are_not_called(client, model):
    from tenuto.tools import web_search

    reply = client.chat(f"sim/{model}", "Hello", tools=[web_search()])

    assert (reply.text, reply.tool_calls) == ("Hello", [])


def test_greeting_precedes_only_the_first_text():
    first = TurnRequest(request=None, turn=0, messages=(HELLO,))
    second = TurnRequest(request=None, turn=1, messages=(HELLO, PastMessage(role="assistant", texts=("Hello",)), HELLO))

    assert default_reply(first, greeting="A simulator.") == (Say("A simulator.\n\nHello"),)
    assert default_reply(second, greeting="A simulator.") == (Say("Hello"),)


# --- smallest instances -----------------------------------------------------------------------------------------------

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {"properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"const": "end"}]}}, "required": ["next"]}
    },
}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, ""),
        ({"type": "string", "minLength": 2}, "xx"),
        ({"type": "string", "pattern": "^a", "examples": ["b", "ab"]}, "ab"),
        ({"type": "string", "format": "date"}, "2000-01-01"),
        ({"type": "boolean"}, False),
        ({"type": ["string", "null"]}, None),
        ({"type": "integer", "minimum": 1, "multipleOf": 4}, 4),
        ({"type": "integer", "exclusiveMaximum": -2.5}, -3),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, 1),
        ({"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.2}, pytest.approx(0.15)),
        ({"enum": ["b", "a"]}, "b"),
        ({"const": [1]}, [1]),
        ({"anyOf": [{"type": "string", "pattern": "x"}, {"type": "integer"}]}, 0),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, None),
        ({"allOf": [{"required": ["a"]}, {"properties": {"a": {"type": "integer"}}, "required": ["b"]}]}, {"a": 0, "b": None}),
        ({"type": "object", "properties": {"a": {}}}, {}),
        ({"type": "array", "items": {"type": "string"}}, []),
        ({"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}, "minItems": 3}, [1, 2, 2]),
        (TREE, {"next": "end"}),
    ],
)  # fmt: skip
def test_smallest_instance_is_valid(schema, expected):
    assert smallest_instance(schema) == expected
    assert find_problems(expected if not isinstance(expected, type(pytest.approx(1))) else 0.15, schema) == ()


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "string", "pattern": "^a+$"}, "no text for the pattern '^a+$'"),
        ({"type": "string", "minLength": 10**9}, "minLength is 1000000000"),
        ({"$ref": "#"}, "more than 32 levels"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "more than 32 levels"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2, "uniqueItems": True}, "equals item 0"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no number fits"),
        ({"$ref": "#/$defs/none"}, "invalid schema"),
        ({"type": "number", "minimum": "3"}, "invalid schema"),
        ({"required": 5}, "invalid schema"),
    ],
)
def test_instance_is_refused_with_reason(schema, reason):
    with pytest.raises(NoInstance) as caught:
        smallest_instance(schema)

    assert reason in str(caught.value)


def test_wide_recursive_schema_ends_quickly():
    node = {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]}
    with pytest.raises(NoInstance, match="too large"):
        smallest_instance({"anyOf": [node, node, node]})


def test_server_command_calls_no_tool():
    from tenuto.sim.__main__ import ServerOptions, make_simulator

    async def main():
        async with make_simulator(ServerOptions()) as sim:
            with Client(providers={"sim": {"base_url": sim.base_url}}, middleware=[]) as client:
                return await asyncio.to_thread(client.chat, "sim/openai", "Hello", tools=[clock])

    reply = asyncio.run(main())
    assert (reply.text, reply.tool_calls) == ("Hello", [])
