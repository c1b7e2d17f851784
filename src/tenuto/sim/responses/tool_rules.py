"""Rules for the tools that are offered, and for calls and their outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from tenuto.core import jsonio
from tenuto.sim.judging import Broken, Checks
from tenuto.sim.responses.opening import Opened, functions_in, kind_of

__all__ = ["OFFERED", "PAIRS"]

Found: TypeAlias = Iterator[Broken | None]
OFFERED, PAIRS = Checks(), Checks()
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_OUTPUTS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}


def _functions(opened: Opened) -> list[tuple[int, dict[str, Any], str]]:
    """The tools that a client calls, each with its place in the list and its namespace."""
    given = opened.body.get("tools") or []
    return [(at, tool, space) for at, outer in enumerate(given) for tool, space in functions_in([outer])]


@OFFERED.holds("OAR-TOOL-06")
def _not_too_many(opened: Opened) -> Found:
    given = opened.body.get("tools")
    if opened.strict and given:
        yield None if len(given) <= 128 else Broken("OAR-TOOL-06", {"n": len(given)})


@OFFERED.holds("OAR-TOOL-04")
def _names_are_plain(opened: Opened) -> Found:
    for at, tool, _ in _functions(opened) if opened.strict else ():
        name = tool["name"]
        if not _NAME.fullmatch(name):
            yield Broken("OAR-TOOL-04", {"k": at})
        else:
            yield None if len(name) <= 64 else Broken("OAR-TOOL-04", {"k": at, "n": len(name)}, 1)


@OFFERED.holds("OAR-TOOL-03")
def _deferred_tools_can_be_found(opened: Opened) -> Found:
    given = opened.body.get("tools") or []
    searched = any(tool.get("type") == "tool_search" for tool in given)
    for at, tool, _ in _functions(opened) if opened.strict else ():
        if tool.get("defer_loading") is True:
            yield None if searched else Broken("OAR-TOOL-03", {"k": at})


@OFFERED.holds("OAR-TOOL-05")
def _strict_schemas_are_closed(opened: Opened) -> Found:
    for at, tool, _ in _functions(opened) if opened.strict else ():
        if tool.get("strict") is not True or tool.get("type") != "function":
            continue
        open_at = next(_loose(tool.get("parameters"), ()), None)
        if open_at is None:
            yield None
            continue
        path, missing = open_at
        fields = {"k": at, "name": tool["name"], "path": repr(path)[1:-1], "p": missing}
        yield Broken("OAR-TOOL-05", fields, 1 if missing else 0)


def _loose(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Find where a schema is not strict: the path, and the property that is not required, if that is what is wrong."""
    if not isinstance(schema, dict):
        return
    inner = schema.get("properties")
    properties = inner if isinstance(inner, dict) else {}
    kind = schema.get("type")
    if kind == "object" or (isinstance(kind, list) and "object" in kind) or properties:
        if schema.get("additionalProperties") is not False:
            yield path, ""
        required = schema.get("required")
        for name in properties:
            if not isinstance(required, list) or name not in required:
                yield path, name
    for step, value in _inside(schema):
        yield from _loose(value, (*path, *step))


def _inside(schema: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key in ("properties", "$defs", "definitions"):
        named = schema.get(key)
        for name, value in named.items() if isinstance(named, dict) else ():
            yield (key, name), value
    yield ("items",), schema.get("items")
    for key in ("anyOf", "oneOf", "allOf"):
        listed = schema.get(key)
        for at, value in enumerate(listed if isinstance(listed, list) else ()):
            yield (key, str(at)), value


def _calls(items: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {item["call_id"]: item for item in items if kind_of(item) in _OUTPUTS.values()}


@PAIRS.holds("OAR-TOOL-08")
def _output_fits_its_call(opened: Opened) -> Found:
    calls = _calls(opened.everything)
    for at, item in enumerate(opened.items if opened.strict else ()):
        call = calls.get(item.get("call_id"))
        if call is None or kind_of(item) not in _OUTPUTS:
            continue
        fits = _OUTPUTS[kind_of(item)] == kind_of(call)
        fields = {"i": at, "call_id": item["call_id"]}
        yield None if fits else Broken("OAR-TOOL-08", fields, kind_of(item) == "custom_tool_call_output")


@PAIRS.holds("OAR-TOOL-02")
def _output_has_its_call(opened: Opened) -> Found:
    if not opened.strict or opened.body.get("conversation") is not None:
        return  # what a conversation holds is stored elsewhere
    called = set(_calls(opened.chain))
    for at, item in enumerate(opened.items):
        if kind_of(item) in _OUTPUTS.values():
            called.add(item["call_id"])
        elif kind_of(item) in _OUTPUTS:
            id = item["call_id"]
            yield None if id in called else Broken("OAR-TOOL-02", {"i": at, "call_id": id})


@PAIRS.holds("OAR-TOOL-01")
def _call_has_its_output(opened: Opened) -> Found:
    if not opened.strict:
        return
    answered = {item["call_id"] for item in opened.everything if kind_of(item) in _OUTPUTS}
    new = len(opened.chain)
    for at, item in enumerate(opened.everything):
        if kind_of(item) not in _OUTPUTS.values() or item.get("async") is True:
            continue
        fields = {"i": at - new, "call_id": item["call_id"]}
        place = "" if at >= new else "/previous_response_id"
        yield None if item["call_id"] in answered else Broken("OAR-TOOL-01", fields, at=place)


@PAIRS.holds("OAR-TOOL-07")
def _output_is_the_json_it_was_said_to_be(opened: Opened) -> Found:
    schemas = {tool["name"] for _, tool, _ in _functions(opened) if isinstance(tool.get("output_schema"), dict)}
    calls = _calls(opened.everything)
    for at, item in enumerate(opened.items if opened.strict and schemas else ()):
        call = calls.get(item.get("call_id"))
        if kind_of(item) == "function_call_output" and call and call.get("name") in schemas:
            output = item.get("output")
            bad = jsonio.problem(output) if isinstance(output, str) else ""
            yield Broken("OAR-TOOL-07", {"i": at}) if bad else None


@PAIRS.holds("OAR-ITEM-08")
def _namespace_is_named(opened: Opened) -> Found:
    spaces: dict[str, set[str]] = {}
    for _, tool, space in _functions(opened):
        spaces.setdefault(tool["name"], set()).add(space)
    for at, item in enumerate(opened.items if opened.strict else ()):
        known = spaces.get(item.get("name", "")) if kind_of(item) == "function_call" else None
        if known and "" not in known:
            yield None if item.get("namespace") else Broken("OAR-ITEM-08", {"i": at})
