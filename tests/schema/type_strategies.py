"""Hypothesis strategies for Python types with their values."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import itertools
import uuid
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from hypothesis import strategies as st


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


Kind = tuple[Any, st.SearchStrategy[Any]]
"""A type, and the strategy for its values."""

_small = st.integers(-(2**40), 2**40)
_SIMPLE: list[Kind] = [
    (int, _small),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (str, st.text(max_size=5)),
    (bytes, st.binary(max_size=5)),
    (Literal["a", "b", 3], st.sampled_from(["a", "b", 3])),
    (Literal["a", None], st.sampled_from(["a", None])),
    (Color, st.sampled_from(Color)),
    (Level, st.sampled_from(Level)),
    (uuid.UUID, st.uuids()),
    (dt.date, st.dates()),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Annotated[int, msgspec.Meta(ge=0, le=9, description="a digit")], st.integers(0, 9)),
    (Annotated[str, msgspec.Meta(max_length=3, pattern="^x*$")], st.sampled_from(["", "x", "xx"])),
    (int | None, st.none() | _small),
]
_open: list[Kind] = [(Any, st.none() | st.booleans() | st.lists(_small, max_size=2))]
_count = itertools.count()


def _containers(kind: Kind) -> st.SearchStrategy[Kind]:
    inner, values = kind
    lists: Kind = (list[inner], st.lists(values, max_size=3))
    pairs: Kind = (tuple[inner, str], st.tuples(values, st.text(max_size=3)))
    return st.sampled_from([lists, pairs])


def _mapping(kind: Kind) -> Kind:
    return dict[str, kind[0]], st.dictionaries(st.text(max_size=3), kind[1], max_size=2)


def _make_class(parts: list[tuple[Kind, bool]], form: str) -> Kind:
    """Make a class with one field per part; a part that is not needed has the default `None`."""
    name = f"Class{next(_count)}"
    fields = [(f"f{at}", kind[0] if needed else kind[0] | None, needed) for at, (kind, needed) in enumerate(parts)]
    values = {
        f"f{at}": kind[1] if needed else st.none() | kind[1]
        for at, (kind, needed) in sorted(enumerate(parts), key=lambda part: not part[1][1])
    }
    if form == "typed":
        return TypedDict(name, {field: kind for field, kind, _ in fields}), st.fixed_dictionaries(values)
    ordered = sorted(fields, key=lambda field: not field[2])
    if form == "dataclass":
        arguments = [(field, kind) if needed else (field, kind, None) for field, kind, needed in ordered]
        python_type: Any = dataclasses.make_dataclass(name, arguments)
    else:
        python_type = msgspec.defstruct(name, [(f, kind) if needed else (f, kind, None) for f, kind, needed in ordered])
    return python_type, st.builds(python_type, **values)


def _classes(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    forms = st.sampled_from(["struct", "dataclass", "typed"])
    return st.builds(_make_class, st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3), forms)


simple = st.sampled_from(_SIMPLE)
closed = st.recursive(simple, lambda inner: inner.flatmap(_containers) | _classes(inner), max_leaves=4)
"""Types that the strict subset can express."""
kinds = st.recursive(
    simple | st.sampled_from(_open),
    lambda inner: inner.flatmap(_containers) | inner.map(_mapping) | _classes(inner),
    max_leaves=4,
)
"""Types of all kinds."""


def with_value(kind: Kind) -> st.SearchStrategy[tuple[Any, Any]]:
    """Draw a value; return it with its type."""
    return kind[1].map(lambda value: (kind[0], value))
