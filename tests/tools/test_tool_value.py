"""`Tool` as a value: a name, a schema and a function, without a Python signature."""

from __future__ import annotations

import threading

import pytest

from tenuto import Client
from tenuto.core.messages import ToolCallView
from tenuto.core.request import ToolDefinition
from tenuto.testing import Simulator, call, turn
from tenuto.tools import Tool, Toolbox, tool
from tools.calls import call as make_call
from tools.calls import run

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"anyOf": [{"$ref": "#/$defs/unit"}, {"type": "null"}]},
        "label": {"$ref": "#/$defs/unit"},
    },
    "required": ["city"],
    "$defs": {"unit": {"enum": ["C", "F"]}},
}


def echo(arguments, context):
    return {"arguments": arguments, "key": context.key}


def make_tool(call=echo, **options):
    return Tool("lookup", "Look up a city.", SCHEMA, call, **options)


def test_value_has_a_definition():
    lookup = make_tool(effect="pure", timeout=3)

    assert lookup.definition == ToolDefinition("lookup", "Look up a city.", SCHEMA)
    assert (lookup.effect, lookup.approval, lookup.timeout, lookup.root) == ("pure", False, 3, "")


def test_call_receives_plain_values_and_context():
    outcome = run([make_tool()], make_call("lookup", city="Oslo", days=2), key="s/1/c")

    assert outcome.result.content == '{"arguments":{"city":"Oslo","days":2},"key":"s/1/c"}'


async def later(arguments, context):
    return threading.current_thread() is threading.main_thread()


def now(arguments, context):
    return threading.current_thread() is threading.main_thread()


async def steps(arguments, context):
    yield "one"
    yield "two"


@pytest.mark.parametrize(("function", "content"), [(later, "true"), (now, "false"), (steps, "two")])
def test_call_may_be_async_or_blocking_or_a_generator(function, content):
    assert run([make_tool(function)], make_call("lookup", city="Oslo")).result.content == content


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, 'property "city" is missing'),
        ({"city": 3}, "/city: expected string, got number 3"),
        ({"city": "Oslo", "unit": "K"}, "/unit: "),
        ({"city": None}, "/city: expected string, got null"),
    ],
)
def test_arguments_are_validated_with_the_schema(arguments, text):
    outcome = run([make_tool()], make_call("lookup", **arguments))

    assert (outcome.outcome, outcome.detail) == ("failed", "arguments")
    assert outcome.result.content.startswith("The arguments for lookup do not fit, and it was not run. ")
    assert text in outcome.result.content


@pytest.mark.parametrize("text", ["[1]", '{"city"'])
def test_arguments_must_be_an_object(text):
    assert "expected one JSON object" in run([make_tool()], ToolCallView("1", "lookup", text)).result.content


def test_null_for_an_optional_argument_is_omitted():
    """A strict schema makes a model write null for a value that it omits. Where null is allowed, it is a value."""
    arguments = {"city": "Oslo", "days": None, "unit": None, "label": None}

    assert make_tool().read_arguments(make_call("lookup", **arguments)) == {"city": "Oslo", "unit": None}


def test_check_replaces_the_validation():
    def check(arguments):
        if "town" not in arguments:
            raise ValueError("town is missing")
        return {"city": arguments["town"]}

    box = Toolbox([make_tool(check=check)])

    assert box.prepare(make_call("lookup", town="Oslo")).arguments == {"city": "Oslo"}
    assert "do not fit, and it was not run. town is missing." in box.prepare(make_call("lookup")).result.content


def test_approval_may_depend_on_the_arguments():
    box = Toolbox([make_tool(approval=lambda days=0, **_: days > 3)])

    assert [box.prepare(make_call("lookup", city="Oslo", days=days)).needs_approval for days in (3, 4)] == [False, True]


def test_root_of_the_session_is_in_the_context(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    here = make_tool(lambda arguments, context: context.root, root=str(tmp_path))
    box = Toolbox([here])

    assert box.roots == {"lookup": str(tmp_path)}
    assert box.at_roots({"lookup": str(tmp_path)}) is box
    for moved, root in ((box, tmp_path), (box.at_roots({"lookup": str(there)}), there)):
        assert run([moved], make_call("lookup", city="Oslo")).result.content == str(root)
    with pytest.raises(NotADirectoryError, match="'lookup'"):
        box.at_roots({"lookup": str(tmp_path / "nowhere")})


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"name": "two words"}, ValueError, "invalid tool name 'two words': use 1 to 64 letters"),
        ({"name": 3}, ValueError, "invalid tool name 3"),
        ({"description": None}, TypeError, "description=None is not a string"),
        ({"parameters": None}, TypeError, "parameters=None is not a JSON Schema: use a dictionary"),
        ({"parameters": {}}, ValueError, "parameters must have the type 'object', as in {'type': 'object'"),
        ({"parameters": {"type": "object", "x": object()}}, ValueError, "parameters cannot be written as JSON"),
        ({"parameters": {"type": "object", "properties": []}}, ValueError, "properties cannot be \\[\\]"),
        ({"parameters": {"type": "object", "properties": {"a": 1}}}, ValueError, "/properties/a: 1 is not a schema"),
        ({"call": None}, TypeError, "call=None is not a function of the arguments and the context"),
        ({"effect": "twice"}, ValueError, "effect='twice' is not one of pure, idempotent, keyed, once"),
        ({"root": "src"}, ValueError, "root='src' is not an absolute path"),
    ],
)
def test_invalid_value_is_refused(options, error, text):
    with pytest.raises(error, match=text):
        Tool(**{"name": "it", "description": "", "parameters": {"type": "object"}, "call": echo, **options})


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"two tools are called 'lookup': .*test_tool_value\.echo and .*\.later"):
        Toolbox([make_tool(), make_tool(later)])


def test_function_tool_is_a_tool_with_a_call():
    @tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    assert isinstance(add, Tool)
    assert add.call({"a": 1}, None) == 3


def test_client_sends_the_definition():
    script = (turn(call("lookup", {"city": "Oslo"})),)
    with Simulator(script=script) as sim, Client(providers={"sim": {"base_url": sim.base_url}}) as client:
        reply = client.chat("sim/anthropic", "Weather?", tools=[make_tool()])

    assert [(view.name, view.args) for view in reply.tool_calls] == [("lookup", '{"city":"Oslo"}')]
