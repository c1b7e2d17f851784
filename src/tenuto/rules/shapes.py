"""Check the JSON types of a body against a table, and describe the errors as OpenAI does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tenuto.rules.body import Fields, Violation
from tenuto.rules.book import UnverifiedText

_TYPES: dict[str, tuple[type, ...]] = {"s": (str,), "i": (int,), "n": (int, float), "b": (bool,), "o": (dict,), "a": ()}
_Place: TypeAlias = tuple[Any, ...]
"""The steps to a value: keys, indices, and in brackets tags."""
_OPENAI_NAMES = {"s": "a string", "i": "an integer", "n": "a decimal", "b": "a boolean"}


class _Field(NamedTuple):
    name: str
    kinds: tuple[str, ...]
    by_type: dict[type, str]
    """The kind that a value of a Python type has; empty if nothing inside it is checked."""
    is_required: bool


class _Object(NamedTuple):
    fields: tuple[_Field, ...]
    default_tag: str
    tagged: dict[str, tuple[_Field, ...]]
    """The fields of an object with this tag."""


Shapes: TypeAlias = Mapping[str, _Object]


class MistypedValue(NamedTuple):
    """A value that is missing or has another type."""

    pointer: str
    path: str
    """The place in dots, with the tags of the objects around it: `messages.0.content.1.tool_use.id`."""
    kinds: tuple[str, ...]
    value: Any
    is_missing: bool = False


def shapes(table: Mapping[str, str]) -> Shapes:
    """Read a table: the fields of kinds of objects, separated by spaces.

    `name`: a string. `name:i`, `:n`, `:b`, `:o`, `:a`: an integer, number, boolean, object, anything. `:Kind`: an object of
    the table, `:Kind*` a list of them, `:s|Kind*` one of several. `!` after the name: required. The fields of
    `Kind.tag` are those of an object whose `type` is the tag; `Kind=tag` names the tag of an object without a type.
    """
    objects: dict[str, _Object] = {}
    for head, fields in ((head, fields) for heads, fields in table.items() for head in heads.split()):
        name, _, default_tag = head.partition("=")
        kind, _, tag = name.partition(".")
        read = tuple(map(_read_field, fields.split()))
        if tag:
            objects[kind].tagged[tag] = read
        else:
            objects[kind] = _Object(read, default_tag, {})
    return objects


def _read_field(text: str) -> _Field:
    name, _, kinds = text.partition(":")
    names = tuple((kinds or "s").split("|"))
    by_type: dict[type, str] = {}
    for kind in names:
        by_type |= {list if kind[-1] == "*" else dict: kind} if kind not in _TYPES else dict.fromkeys(_TYPES[kind], "")
    return _Field(name.removesuffix("!"), names, by_type, name.endswith("!"))


def wrong_values(body: Fields, kind: str, table: Shapes) -> Iterator[MistypedValue]:
    """Yield the wrong values of an object and of the objects in it. A field that is null counts as absent."""
    pending: list[tuple[Any, _Object, _Place, bool]] = [([body], table[kind], (), False)]
    for values, known, outside, has_indices in pending:  # the list grows during the loop
        for number, value in enumerate(values):
            if type(value) is not dict:
                continue
            tag = tagged = None
            if known.tagged:
                tag = value.get("type") or known.default_tag
                tagged = known.tagged.get(tag) if type(tag) is str else None
            for name, kinds, by_type, is_required in known.fields if tagged is None else tagged:
                item: Any = value.get(name)
                inner = by_type.get(type(item))
                if not inner and (inner is not None or (item is not None and not by_type)):
                    continue
                if item is None and not (is_required and (by_type or name not in value)):
                    continue
                place = (*outside, number) if has_indices else outside
                place = (*place, name) if tagged is None else (*place, (tag,), name)
                if inner is None:
                    if not ("i" in kinds and isinstance(item, float) and item.is_integer()):
                        yield MistypedValue(*_written(place), kinds, item, is_missing=item is None)
                    continue
                is_list, inner = inner[-1] == "*", inner.removesuffix("*")
                types, below = _TYPES.get(inner, (dict,)), table.get(inner)
                for index, part in enumerate(item) if is_list and types else ():
                    if type(part) not in types:
                        yield MistypedValue(*_written((*place, index)), (inner,), part)
                if below is not None and (below.fields or below.tagged):
                    pending.append((item if is_list else [item], below, place, is_list))


def _written(place: _Place) -> tuple[str, str]:
    """Return the pointer of a place, and the path with tags."""
    pointer = "".join(f"/{step}" for step in place if not isinstance(step, tuple))
    return pointer, ".".join(str(step[0] if isinstance(step, tuple) else step) for step in place)


OPENAI_MISSING = UnverifiedText("Missing required parameter: '{field}'.")
OPENAI_WRONG_TYPE = UnverifiedText("Invalid type for '{field}': expected {wanted}, but got {got} instead.")


def openai_violation(wrong: MistypedValue) -> Violation:
    """Return the violation of a rule whose first messages are `OPENAI_MISSING` and `OPENAI_WRONG_TYPE`."""
    if wrong.is_missing:
        return openai_missing(wrong.pointer)
    first, *others = [_kind_name(kind) for kind in wrong.kinds]
    wanted = " or ".join([f"one of {first}" if others else first, *(name.partition(" ")[2] for name in others)])
    field, got = openai_path(wrong.pointer), openai_type(wrong.value)
    return Violation(wrong.pointer, {"field": field, "wanted": wanted, "got": got, "code": "invalid_type"}, 1)


def openai_missing(pointer: str) -> Violation:
    return Violation(pointer, {"field": openai_path(pointer), "code": "missing_required_parameter"})


def _kind_name(kind: str) -> str:
    if kind[-1] == "*":
        return "an array" if kind == "a*" else "an array of objects"
    return _OPENAI_NAMES.get(kind, "an object")


def openai_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return "an array"
    return _kind_name(next((kind for kind in "bins" if isinstance(value, _TYPES[kind])), "o"))


def openai_path(pointer: str) -> str:
    """Write a pointer as `messages[0].content`."""
    steps = pointer.split("/")[1:]
    return "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps).removeprefix(".")


def quote_names(names: Sequence[str]) -> str:
    """List values as `'a', 'b', and 'c'`."""
    *most, last = [f"'{name}'" for name in names]
    if not most:
        return last
    return f"{most[0]} and {last}" if len(most) == 1 else f"{', '.join(most)}, and {last}"
