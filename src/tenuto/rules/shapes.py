"""Check the JSON types of a body against a table, and describe the errors as OpenAI does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tenuto.rules.body import Fields, Violation
from tenuto.rules.book import UnverifiedText

_TYPES: dict[str, tuple[type, ...]] = {"s": (str,), "i": (int,), "n": (int, float), "b": (bool,), "o": (dict,), "a": ()}
_OPENAI_NAMES = {"s": "a string", "i": "an integer", "n": "a decimal", "b": "a boolean"}
_Place: TypeAlias = tuple[Any, ...]
"""The steps to a value: keys, indices, and in brackets tags."""


class _Field(NamedTuple):
    name: str
    kinds: tuple[str, ...]
    by_type: dict[type, str]
    """The kind that a value of a Python type has."""
    is_required: bool


class _Object(NamedTuple):
    fields: tuple[_Field, ...]
    default_tag: str


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
    for heads, fields in table.items():
        for head in heads.split():
            kind, _, tag = head.partition("=")
            objects[kind] = _Object(tuple(map(_read_field, fields.split())), tag)
    return objects


def _read_field(text: str) -> _Field:
    name, _, kinds = text.partition(":")
    names = tuple((kinds or "s").split("|"))
    by_type = {type: kind for kind in names for type in ((list,) if kind[-1] == "*" else _TYPES.get(kind, (dict,)))}
    return _Field(name.removesuffix("!"), names, by_type, name.endswith("!"))


def wrong_values(body: Fields, kind: str, table: Shapes) -> Iterator[MistypedValue]:
    """Yield the wrong values of an object and of the objects in it. A field that is null counts as absent."""
    pending: list[tuple[Fields, str, _Place]] = [(body, kind, ())]
    for value, kind, outside in pending:  # the list grows during the loop
        tag = value.get("type") or table[kind].default_tag
        tagged = table.get(f"{kind}.{tag}")
        place = outside if tagged is None else (*outside, (tag,))
        for name, kinds, by_type, is_required in (tagged or table[kind]).fields:
            item = value.get(name)
            if item is None:
                if is_required and (by_type or name not in value):
                    yield MistypedValue(*_written(*place, name), kinds, item, is_missing=True)
            elif by_type:
                found = by_type.get(type(item), "")
                if found[-1:] == "*":
                    inner = found[:-1]
                    types = _TYPES.get(inner, (dict,))
                    for index, part in enumerate(item):
                        if types and type(part) not in types:
                            yield MistypedValue(*_written(*place, name, index), (inner,), part)
                        elif inner in table:
                            pending.append((part, inner, (*place, name, index)))
                elif found in table:
                    pending.append((item, found, (*place, name)))
                elif not found and not ("i" in kinds and isinstance(item, float) and item.is_integer()):
                    yield MistypedValue(*_written(*place, name), kinds, item)


def _written(*steps: Any) -> tuple[str, str]:
    """Return the pointer of a place, and the path with tags."""
    pointer = "".join(f"/{step}" for step in steps if not isinstance(step, tuple))
    return pointer, ".".join(str(step[0] if isinstance(step, tuple) else step) for step in steps)


# --- the words of OpenAI ----------------------------------------------------------------------------------------------
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
