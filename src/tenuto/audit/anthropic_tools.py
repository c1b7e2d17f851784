"""Tools, calls and results: declarations that are refused, and calls and results that do not find each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tenuto.audit.anthropic_body import (
    Place,
    Turn,
    dicts,
    in_results,
    kind,
    natively,
    places,
    setting,
    text_of,
    tools,
    turns,
)
from tenuto.audit.looking import Broken, Checks, Sent

__all__ = ["CHECKS"]

CHECKS = Checks()

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_COMBINED = ("oneOf", "allOf", "anyOf")
_TYPES = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))
_COUNTED = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_LIMITS = {
    "array": frozenset(("maxItems", "uniqueItems", "minContains", "maxContains")),
    "string": frozenset(("minLength", "maxLength")),
    "number": _COUNTED,
    "integer": _COUNTED,
}
"""What a schema can say and strictness cannot hold, by the type that it is said of."""
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = (*_COMBINED, "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")


# --- calls and results ------------------------------------------------------------------------------------------------


@CHECKS.holds("ANT-TOOL-01")
def every_call_is_answered(sent: Sent) -> Iterator[Broken]:
    """Each call of a turn has its result in the turn behind it."""
    spoken: list[Turn | None] = [*turns(sent), None]
    for turn, after in pairwise(spoken):
        if turn is None or not turn.calls:
            continue
        answered = {text_of(result.block, "tool_use_id") for result in after.results} if after else set()
        lone = [call for call in turn.calls if call.block["id"] not in answered]
        ids = ", ".join(call.block["id"] for call in lone)
        for call in lone:
            yield Broken("ANT-TOOL-01", {**call.fields, "ids": ids})


@CHECKS.holds("ANT-TOOL-02")
def every_result_has_its_call(sent: Sent) -> Iterator[Broken]:
    """Each result answers a call of the turn right before it."""
    asked: set[str] = set()
    for turn in turns(sent):
        for result in turn.results:
            id = result.block.get("tool_use_id")
            if isinstance(id, str) and id not in asked:
                yield Broken("ANT-TOOL-02", {**result.fields, "id": id})
        asked = {call.block["id"] for call in turn.calls}


@CHECKS.holds("ANT-TOOL-03")
def ids_of_a_turn_differ(sent: Sent) -> Iterator[Broken]:
    """No id is used twice in a turn; another turn may use it again."""
    for turn in turns(sent):
        if len(turn.calls) > 1:
            yield from (Broken("ANT-TOOL-03", call.fields) for call in _again(turn.calls, "id"))


@CHECKS.holds("ANT-TOOL-04")
def one_result_a_call(sent: Sent) -> Iterator[Broken]:
    """No call is answered twice."""
    for turn in turns(sent):
        for result in _again(turn.results, "tool_use_id") if len(turn.results) > 1 else ():
            yield Broken("ANT-TOOL-04", {**result.fields, "id": text_of(result.block, "tool_use_id")})


@CHECKS.holds("ANT-TOOL-05")
def letters_of_ids(sent: Sent) -> Iterator[Broken]:
    """Ids are plain."""
    held = (("assistant", "tool_use", "id"), ("user", "tool_result", "tool_use_id"))
    for variant, (role, of, name) in enumerate(held):
        for place in places(sent, of, role=role):
            id = place.block.get(name)
            if isinstance(id, str) and not _ID.fullmatch(id):
                yield Broken("ANT-TOOL-05", place.fields, variant, at=f"{place.pointer}/{name}")


@CHECKS.holds("ANT-TOOL-06")
def results_come_first(sent: Sent) -> Iterator[Broken]:
    """Nothing stands before the results in the turn that answers calls."""
    for before, turn in pairwise(turns(sent)):
        calls, results = len(before.calls), len(turn.results)
        if calls and results and turn.parts[:results] != turn.results:
            yield Broken("ANT-TOOL-06", {"i": turn.parts[0].i, "n": calls})


@CHECKS.holds("ANT-TOOL-12")
def input_is_an_object(sent: Sent) -> Iterator[Broken]:
    """What a tool is called with is an object."""
    for place in places(sent, "tool_use"):
        if not isinstance(place.block.get("input"), dict):
            yield Broken("ANT-TOOL-12", place.fields)


@CHECKS.holds("ANT-TOOL-13")
def results_are_no_empty_lists(sent: Sent) -> Iterator[Broken]:
    """A result that is a list has something in it."""
    for place in places(sent, "tool_result", role="user"):
        if place.block.get("content") == []:
            yield Broken("ANT-TOOL-13", place.fields)


@CHECKS.holds("ANT-TOOL-14")
@natively
def tools_stay_declared(sent: Sent) -> Iterator[Broken]:
    """Where tools were used, they are declared."""
    used = places(sent, "tool_use") or places(sent, "tool_result", role="user")
    if used and not sent.body.get("tools"):
        yield Broken("ANT-TOOL-14")


def _again(held: list[Place], name: str) -> Iterator[Place]:
    seen: set[str] = set()
    for place in held:
        id = place.block.get(name)
        if isinstance(id, str) and id in seen:
            yield place
        elif isinstance(id, str):
            seen.add(id)


# --- declarations -----------------------------------------------------------------------------------------------------


@CHECKS.holds("ANT-TOOL-07")
def names(sent: Sent) -> Iterator[Broken]:
    """A tool's name is plain, and not too long."""
    for k, tool in _custom(sent):
        name = tool.get("name")
        if isinstance(name, str) and not (_ID.fullmatch(name) and len(name) <= 128):
            yield Broken("ANT-TOOL-07", {"k": k}, variant=int(_ID.fullmatch(name) is not None))


@CHECKS.holds("ANT-TOOL-08")
def names_differ(sent: Sent) -> Iterator[Broken]:
    """No two tools have one name."""
    seen: set[str] = set()
    for k, tool in enumerate(tools(sent)):
        name = text_of(tool, "name")
        if name and name in seen:
            yield Broken("ANT-TOOL-08", {"k": k})
        seen.add(name)


@CHECKS.holds("ANT-TOOL-09")
def one_object(sent: Sent) -> Iterator[Broken]:
    """A tool's schema is one object, not one of several."""
    for k, tool in _custom(sent):
        schema = tool.get("input_schema")
        if isinstance(schema, dict) and any(word in schema for word in _COMBINED):
            yield Broken("ANT-TOOL-09", {"k": k})


@CHECKS.holds("ANT-TOOL-10")
def schemas(sent: Sent) -> Iterator[Broken]:
    """A tool's schema says that it is an object, and is a schema."""
    for k, tool in _custom(sent):
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or (any(word in schema for word in _COMBINED) and "type" not in schema):
            continue
        if schema.get("type") != "object":
            yield Broken("ANT-TOOL-10", {"k": k}, variant=int("type" in schema))
        elif not all(_sound(part) for part in _parts(schema)):
            yield Broken("ANT-TOOL-10", {"k": k}, variant=1)


@CHECKS.holds("ANT-TOOL-11")
def strict_schemas(sent: Sent) -> Iterator[Broken]:
    """A strict schema sets no limits that cannot be enforced."""
    for k, tool in _custom(sent):
        found = next(_limits(tool.get("input_schema")), None) if tool.get("strict") is True else None
        if found is not None:
            type, keyword = found
            fields = {"k": k, "kind": type, "keyword": keyword}
            yield Broken("ANT-TOOL-11", fields, variant=int(type != "array"))


@CHECKS.holds("ANT-TOOL-15")
def declared(sent: Sent) -> Iterator[Broken]:
    """A tool that is forced, or referred to, is among those declared."""
    known, open_ended = _declared(sent)
    choice = setting(sent, "tool_choice")
    if open_ended:
        return
    if kind(choice) == "tool" and isinstance(choice.get("name"), str) and choice["name"] not in known:
        yield Broken("ANT-TOOL-15", {"name": choice["name"]})
    inside = in_results(sent)
    results = [place for place in places(sent, "tool_result", role="user") if (place.i, place.j) in inside]
    for place in (*places(sent, "tool_search_tool_result"), *results):
        held = [inner for _, inner in inside.get((place.i, place.j), ())]
        missing = next((name for name in _referred(place, held) if name not in known), None)
        if missing is not None:
            yield Broken("ANT-TOOL-15", {"name": missing}, at=place.pointer)


@CHECKS.holds("ANT-TOOL-16")
def deferred_tools_carry_no_mark(sent: Sent) -> Iterator[Broken]:
    """A tool that is loaded later is not cached."""
    for k, tool in enumerate(tools(sent)):
        if tool.get("defer_loading") is True and tool.get("cache_control") is not None:
            yield Broken("ANT-TOOL-16", {"k": k})


@CHECKS.holds("ANT-TOOL-17")
def old_computer(sent: Sent) -> Iterator[Broken]:
    """The computer tool of November 2025, where there is a toolset instead."""
    for k, tool in enumerate(tools(sent)):
        if kind(tool) == "computer_20251124":
            yield Broken("ANT-TOOL-17", {"k": k})


def _custom(sent: Sent) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the tools that the user describes; the provider's own have a type."""
    for k, tool in enumerate(tools(sent)):
        if tool.get("type") in (None, "custom"):
            yield k, tool


def _declared(sent: Sent) -> tuple[set[str], bool]:
    """Return the names of the tools, and whether there are more than are named here."""
    added = [place.block.get("tool") for place in places(sent, "tool_addition", role="system")]
    held = [*tools(sent), *(tool for tool in added if isinstance(tool, dict))]
    open_ended = any("toolset" in kind(tool) for tool in held) or bool(sent.body.get("mcp_servers"))
    return {text_of(tool, name) for tool in held for name in ("name", "tool_name")}, open_ended


def _referred(place: Place, found: list[dict[str, Any]]) -> Iterator[str]:
    if place.kind == "tool_search_tool_result":
        content = place.block.get("content")
        found = dicts(content.get("tool_references")) if isinstance(content, dict) else []
    for item in found:
        if kind(item) == "tool_reference" and isinstance(item.get("tool_name"), str):
            yield item["tool_name"]


# --- schemas ----------------------------------------------------------------------------------------------------------


def _parts(schema: Any) -> Iterator[Any]:
    """Yield a schema and every schema in it, whatever stands there."""
    left = [schema]
    while left:
        part = left.pop()
        yield part
        if isinstance(part, dict):
            left.extend(part[name] for name in _SINGLE if name in part)
            left.extend(item for name in _LISTED if isinstance(part.get(name), list) for item in part[name])
            left.extend(item for name in _NAMED if isinstance(part.get(name), dict) for item in part[name].values())


def _sound(schema: Any) -> bool:
    """Tell whether a schema is one, as far as its own words go."""
    if not isinstance(schema, dict):
        return isinstance(schema, bool)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    required = schema.get("required", [])
    return (
        isinstance(types, list)
        and all(isinstance(type, str) and type in _TYPES for type in types)
        and isinstance(required, list)
        and all(isinstance(name, str) for name in required)
        and all(isinstance(schema.get(name, {}), dict) for name in _NAMED)
        and all(isinstance(schema.get(name, []), list) for name in (*_LISTED, "enum"))
    )


def _limits(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield the limits, each with the type it is set for."""
    for part in _parts(schema):
        if not isinstance(part, dict):
            continue
        types = part.get("type")
        for type in types if isinstance(types, list) else [types]:
            if not isinstance(type, str):
                continue
            yield from ((type, word) for word in part if word in _LIMITS.get(type, ()))
            if type == "array" and part.get("minItems", 0) not in (0, 1):
                yield type, "minItems"
