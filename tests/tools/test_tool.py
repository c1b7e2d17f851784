"""`@tool`: the definition for a model, and a function that can still be called."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import inspect
import typing
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.type_strategies import kinds, with_value
from tenuto.core import jsonio
from tenuto.core.request import ChatRequest, ServerTool, ToolDefinition
from tenuto.oneshot import encode
from tenuto.schema.validate import find_problems
from tenuto.tools import (
    Tool,
    Toolbox,
    ToolContext,
    builtin_tools,
    code_execution,
    tool,
    web_fetch,
    web_search,
)


class Unit(enum.Enum):
    C = "c"
    F = "f"


@dataclasses.dataclass
class Place:
    name: str
    parent: Place | None = None


class Period(TypedDict, total=False):
    days: int


class Filter(pydantic.BaseModel):
    word: str
    inner: list[Filter] = []


@tool
def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """Current weather.

    For one city at a time.

    Args:
        city: name of a city
        unit: of the temperature
    """
    return f"12 {unit} in {city}"


def test_definition_describes_the_function():
    assert weather.definition == ToolDefinition(
        "weather",
        "Current weather.\n\nFor one city at a time.",
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "name of a city"},
                "unit": {"enum": ["C", "F"], "default": "C", "description": "of the temperature"},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    )


def test_tool_is_still_the_function():
    assert weather("Oslo") == "12 C in Oslo"
    assert weather(unit="F", city="Bergen") == "12 F in Bergen"
    assert weather.__name__ == "weather"
    assert weather.__doc__ is not None
    assert weather.__doc__.startswith("Current weather.")
    assert weather.__wrapped__("Oslo") == "12 C in Oslo"
    assert list(inspect.signature(weather).parameters) == ["city", "unit"]
    assert repr(weather) == "Tool('weather')"


def test_name_and_description_can_be_replaced():
    @tool(name="get-weather", description="Ask me.")
    def weather(city: str) -> str:
        """Not this."""
        return city

    assert isinstance(weather, Tool)
    assert (weather.name, weather.description, weather.__name__) == ("get-weather", "Ask me.", "weather")
    assert weather("Oslo") == "Oslo"


def test_signatures_list_the_options():
    options = ["name", "description", "effect", "timeout", "approval", "max_output"]

    assert list(inspect.signature(tool).parameters) == ["function", *options]
    assert set(options) < set(inspect.signature(Tool).parameters)
    for public in (tool, Tool.__init__, ToolContext.__init__, Toolbox.__init__, Toolbox.run, builtin_tools):
        assert typing.get_type_hints(public)


def test_tool_may_be_async():
    @tool
    async def wait(seconds: float) -> float:
        return seconds * 2

    assert wait.parameters["properties"] == {"seconds": {"type": "number"}}
    assert asyncio.run(wait(2.0)) == 4.0


def test_tool_may_have_no_parameters():
    @tool
    def now() -> str:
        return "now"

    assert now.definition == ToolDefinition(
        "now", "", {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    )


def test_schema_of_all_kinds_of_types():
    @tool
    def find(
        place: Place,
        period: Period,
        unit: Unit = Unit.C,
        *,
        most: Annotated[int, msgspec.Meta(ge=1, description="how many")] = 3,
        filter: Filter | None = None,
        anything=None,
        words: tuple[str, ...] = ("a",),
        limit: float = float("inf"),
    ) -> None:
        """Find.

        Params:
            place: where
            most: not this
            anything (optional): whatever
                it may be
            nothing: of that name
            period: (what the type says is enough)
        """

    found = find.parameters["properties"]

    assert found["place"] == {"$ref": "#/$defs/Place", "description": "where"}
    assert found["period"] == {"$ref": "#/$defs/Period", "description": "(what the type says is enough)"}
    assert found["unit"] == {"$ref": "#/$defs/Unit", "default": "c"}
    assert found["most"] == {"type": "integer", "minimum": 1, "description": "how many", "default": 3}
    assert found["filter"]["anyOf"] == [{"$ref": "#/$defs/Filter"}, {"type": "null"}]
    assert found["anything"] == {"description": "whatever it may be", "default": None}
    assert found["words"] == {"type": "array", "items": {"type": "string"}, "default": ["a"]}
    assert found["limit"] == {"type": "number"}
    assert find.parameters["required"] == ["place", "period"]
    assert set(find.parameters["$defs"]) == {"Place", "Period", "Unit", "Filter"}
    assert find_problems({"place": {"name": "x", "parent": {"name": "y"}}, "period": {}}, find.parameters) == ()
    assert find_problems({"place": {"name": 1}, "period": {}, "x": 1}, find.parameters) != ()


@given(st.lists(kinds.flatmap(with_value), min_size=1, max_size=3))
def test_valid_arguments_match_the_schema(drawn):
    def function(**_: Any) -> None: ...

    function.__signature__ = inspect.Signature(
        [
            inspect.Parameter(f"p{at}", inspect.Parameter.KEYWORD_ONLY, annotation=kind)
            for at, (kind, _) in enumerate(drawn)
        ]
    )
    arguments = jsonio.parse(jsonio.encode({f"p{at}": value for at, (_, value) in enumerate(drawn)}))

    assert find_problems(arguments, tool(function).parameters) == ()


# --- functions that cannot be tools ----------------------------------------------------------------------------------


def any_number(*args: int) -> None: ...


def any_name(**kwargs: int) -> None: ...


def by_place(first: int, /) -> None: ...


def number(first: int, second: complex) -> None: ...


def unknown(first: int, second: int) -> None: ...


unknown.__annotations__["second"] = "Nowhere"


def method(self, second: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "name", "why"),
    [
        (any_number, "args", "any number of arguments"),
        (any_name, "kwargs", "any name"),
        (by_place, "first", "positional-only"),
        (number, "second", "complex.* is not supported"),
        (unknown, "second", "'Nowhere' is not defined"),
        (method, "self", r"tool\(object.method\)"),
    ],
)
def test_unsupported_parameter_is_refused_by_name(function, name, why):
    with pytest.raises(TypeError, match=f"'{function.__name__}'.*parameter '{name}'.*{why}"):
        tool(function)


def test_two_types_of_one_name_are_refused():
    other = pydantic.create_model("Filter", x=(int, ...), inner=(list["Filter"], []))
    other.model_rebuild(_types_namespace={"Filter": other})

    def both(one: Filter, two: int) -> None: ...

    both.__annotations__["two"] = other
    with pytest.raises(TypeError, match="two different types have the name 'Filter'"):
        tool(both)


@pytest.mark.parametrize("name", ["", "with space", "x" * 65, "dotted.name", "é"])
def test_invalid_name_is_refused(name):
    with pytest.raises(ValueError, match=r"invalid tool name .*1 to 64 letters.*name="):
        tool(name=name)(weather.__wrapped__)


def test_lambda_and_partial_need_a_name():
    with pytest.raises(ValueError, match="invalid tool name '<lambda>'"):
        tool(lambda: None)
    with pytest.raises(ValueError, match="invalid tool name ''"):
        tool(functools.partial(weather.__wrapped__, "Oslo"))


# --- other callables --------------------------------------------------------------------------------------------------


def test_bound_method_can_be_a_tool():
    class Station:
        def read(self, sensor: str) -> str:
            """Read a sensor."""
            return f"{sensor}: 3"

    read = tool(Station().read)

    assert read.definition.description == "Read a sensor."
    assert list(read.parameters["properties"]) == ["sensor"]
    assert read("a") == "a: 3"


def test_partial_can_be_a_tool():
    """Bound arguments are defaults; the description is that of the wrapped function."""
    fahrenheit = tool(name="fahrenheit")(functools.partial(weather.__wrapped__, unit="F"))

    assert fahrenheit.description.startswith("Current weather.")
    assert fahrenheit.parameters["properties"]["unit"]["default"] == "F"
    assert fahrenheit(city="Oslo") == "12 F in Oslo"


# --- tools of the provider --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [web_search, web_fetch, code_execution])
def test_server_tools(make):
    assert make() == ServerTool(make.__name__)
    assert make(type="exact_1", max_uses=2) == ServerTool(make.__name__, "exact_1", {"max_uses": 2})


@pytest.mark.parametrize("make", [web_search, web_fetch, code_execution])
@pytest.mark.parametrize("dialect", ["anthropic-messages", "gemini"])
def test_dialects_write_server_tools(make, dialect):
    wire = encode(dialect, ChatRequest(model="m", messages=(), tools=(make(),)))

    assert len(jsonio.parse(wire.body)["tools"]) == 1
    assert not any(loss.kind == "unsupported-tool" for loss in wire.losses)
