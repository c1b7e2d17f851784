"""From the arguments of a model to the arguments of a function."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import uuid
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schema.type_strategies import kinds, with_value
from tenuto.core import jsonio
from tenuto.core.messages import ToolCallView
from tenuto.tools import PreparedCall, Toolbox, ToolContext, tool
from tenuto.tools.signature import BadArguments, parse_arguments


class Unit(enum.Enum):
    C = "c"


@dataclasses.dataclass
class Place:
    name: str
    floor: int = 0


class Period(TypedDict):
    days: int


class Filter(pydantic.BaseModel):
    word: str
    most: int = 3


@tool
def find(
    place: Place,
    *,
    unit: Unit = Unit.C,
    period: Period | None = None,
    filter: Filter | None = None,
    filters: list[Filter] | None = None,
    when: dt.datetime | None = None,
    at: dt.time = dt.time(1),
    id: uuid.UUID | None = None,
    price: decimal.Decimal = decimal.Decimal(0),
    kind: Literal["a", "b"] = "a",
    most: Annotated[int, msgspec.Meta(ge=1)] = 1,
    said: Annotated[str, "the text"] = "",
    count: int = 7,
) -> None:
    """Find.

    :param said: not this
    """


def parse(text, function=find):
    return parse_arguments(function.signature, text, function.parameters)


def test_arguments_have_the_types_of_the_parameters():
    found = parse(
        '{"place": {"name": "x"}, "unit": "c", "period": {"days": 2}, "filter": {"word": "w"}, "filters": [{"word": "v"}],'
        '"when": "2026-01-02T03:04:05Z", "at": "02:00:00", "id": "12345678-1234-5678-1234-567812345678", "price": "1.10"}'
    )

    assert found == {
        "place": Place("x"),
        "unit": Unit.C,
        "period": {"days": 2},
        "filter": Filter(word="w"),
        "filters": [Filter(word="v")],
        "when": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        "at": dt.time(2),
        "id": uuid.UUID("12345678-1234-5678-1234-567812345678"),
        "price": decimal.Decimal("1.10"),
    }


def test_schema_has_formats_and_descriptions():
    properties = find.parameters["properties"]

    assert properties["when"]["anyOf"] == [{"type": "string", "format": "date-time"}, {"type": "null"}]
    assert (properties["at"]["format"], properties["said"]["description"]) == ("time", "the text")


@pytest.mark.parametrize("text", ["", "  ", "{}", "null"])
def test_empty_text_means_no_arguments(text):
    assert parse(text, tool(name="now")(lambda: 1)) == {}


def test_null_means_default():
    """If null is a valid value, it is passed."""
    assert parse('{"place": {"name": "x"}, "count": null, "when": null}') == {"place": Place("x"), "when": None}


def test_whole_float_is_an_integer():
    """As in JSON Schema; some dialects have no integers."""
    assert parse('{"place": {"name": "x", "floor": 2.0}, "count": 1e3}') == {"place": Place("x", 2), "count": 1000}


@pytest.mark.parametrize(
    "text, message",
    [
        ("[]", "expected one JSON object"),
        ('{"place"', "expected one JSON object"),
        ("{}", 'place: missing (expected {"title":"Place"'),
        ('{"place": {"name": 1}}', "place.name: Expected `str`, got `int`"),
        ('{"place": {"name": "x"}, "count": 1.5}', 'count: Expected `int`, got `float` (expected {"type":"integer"})'),
        ('{"place": {"name": "x"}, "most": 0}', "most: Expected `int` >= 1"),
        ('{"place": {"name": "x"}, "kind": "c"}', "kind: Invalid enum value 'c'"),
        (
            '{"place": {"name": "x"}, "filter": {"most": "x"}}',
            "filter.word: Field required, filter.most: Input should be",
        ),
        ('{"place": {"name": "x"}, "filters": [{}]}', "filters.word: Field required"),
        ('{"place": {"name": "x"}, "other": 1}', "other: no such argument (there are: place, unit,"),
        ('{"place": null}', "place: Expected `object`, got `null`"),
    ],
)
def test_invalid_argument_is_explained(text, message):
    with pytest.raises(BadArguments) as caught:
        parse(text)

    assert message in str(caught.value)
    assert "pydantic.dev" not in str(caught.value)


def test_all_invalid_arguments_are_reported_at_once():
    with pytest.raises(BadArguments, match=r"place: missing.*count: Expected.*nothing: no such"):
        parse('{"count": "x", "nothing": 1}')


@settings(max_examples=40)
@given(st.lists(kinds.flatmap(with_value), min_size=1, max_size=3))
def test_valid_arguments_are_parsed(drawn):
    def function(**_: Any) -> None: ...

    function.__signature__ = inspect.Signature(
        [
            inspect.Parameter(f"p{at}", inspect.Parameter.KEYWORD_ONLY, annotation=kind)
            for at, (kind, _) in enumerate(drawn)
        ]
    )
    text = jsonio.as_text(jsonio.encode({f"p{at}": value for at, (_, value) in enumerate(drawn)}))

    assert parse(text, tool(function)).keys() == {f"p{at}" for at in range(len(drawn))}


class Fussy(pydantic.BaseModel):
    x: int

    @pydantic.field_validator("x")
    @classmethod
    def refuse(cls, x):
        raise KeyError("fussy")


def test_exception_in_argument_type_is_reported():
    def it(fussy: Fussy) -> None: ...

    refused = Toolbox([it]).prepare(ToolCallView("1", "it", '{"fussy": {"x": 1}}'))

    assert refused.detail == "arguments"
    assert "cannot be read, and it was not run. KeyError: 'fussy'" in refused.result.content


# --- options ---------------------------------------------------------------------------------------------------------


def test_default_options():
    assert (find.effect, find.timeout, find.approval, find.max_output) == ("once", None, False, 50_000)


def test_context_is_not_part_of_the_schema():
    @tool(effect="keyed")
    def pay(amount: int, context: ToolContext | None = None) -> str:
        return f"{amount} {context}"

    assert list(pay.parameters["properties"]) == ["amount"]
    assert pay(3) == "3 None"


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"effect": "keyed"}, TypeError, "add a parameter annotated ToolContext"),
        ({"effect": "twice"}, ValueError, "not one of pure, idempotent, keyed, once"),
        ({"timeout": 0}, ValueError, "not a positive number of seconds"),
        ({"timeout": float("nan")}, ValueError, "not a positive number of seconds"),
        ({"approval": "yes"}, TypeError, "not True, False or a function"),
        ({"max_output": 0}, ValueError, "not a positive number of characters"),
        ({"colour": "red"}, TypeError, "colour"),
    ],
)
def test_invalid_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        tool(name="it", **options)(lambda: 1)


def test_async_approval_is_refused():
    async def ask(**_):
        return False

    with pytest.raises(TypeError, match="not awaited"):
        tool(name="it", approval=ask)(lambda: 1)


@pytest.mark.parametrize(
    "approval, needed",
    [
        (True, True),
        (False, False),
        (lambda amount, **_: amount > 100, False),
        (lambda currency, **_: currency != "USD", False),  # left to its default, but listed
        (lambda other: False, True),
        (lambda **_: 1 / 0, True),
    ],
)
def test_approval_function_decides(approval, needed):
    @tool(approval=approval)
    def pay(amount: int, context: ToolContext, currency: str = "USD") -> None: ...

    prepared = Toolbox([pay]).prepare(ToolCallView("1", "pay", '{"amount": 5}'))

    assert isinstance(prepared, PreparedCall)
    assert prepared.needs_approval is needed
