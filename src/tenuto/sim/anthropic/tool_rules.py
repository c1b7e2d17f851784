"""Rules of tools: how they are declared, and how calls and results find each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tenuto.sim.anthropic.opened import Message, Opened
from tenuto.sim.anthropic.request_rules import Found
from tenuto.sim.anthropic.sealing import id_kind
from tenuto.sim.judging import Broken, Checks

__all__ = ["DECLARING", "PAIRING"]

DECLARING = Checks()
PAIRING = Checks()
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_UNSUPPORTED = {
    "array": ("maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "object": ("minProperties", "maxProperties"),
}
_SCHEMA_PARTS = {"properties": dict, "required": list, "$defs": dict, "description": str}


def _custom(opened: Opened) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((at, tool) for at, tool in enumerate(opened.tools) if (tool.get("type") or "custom") == "custom")


@DECLARING.holds("ANT-TOOL-07")
def names_are_plain(opened: Opened) -> Found:
    """A tool's name is made of letters, digits, _ and -, 128 at most."""
    for at, tool in _custom(opened):
        long = len(tool["name"]) > 128
        yield None if _NAME.fullmatch(tool["name"]) else Broken("ANT-TOOL-07", {"k": at}, variant=int(long))


@DECLARING.holds("ANT-TOOL-08")
def names_are_unique(opened: Opened) -> Found:
    """No two tools have one name."""
    seen: set[str] = set()
    for at, tool in enumerate(opened.tools):
        name = tool.get("name")
        if isinstance(name, str):
            yield Broken("ANT-TOOL-08", {"k": at}) if name in seen else None
            seen.add(name)


@DECLARING.holds("ANT-TOOL-09")
def schemas_have_one_form(opened: Opened) -> Found:
    """A schema is no choice of schemas."""
    for at, tool in _custom(opened):
        mixed = any(name in tool["input_schema"] for name in ("oneOf", "allOf", "anyOf"))
        yield Broken("ANT-TOOL-09", {"k": at}) if mixed else None


@DECLARING.holds("ANT-TOOL-10")
def schemas_are_objects(opened: Opened) -> Found:
    """A schema describes an object, and is a schema."""
    for at, tool in _custom(opened):
        schema = tool["input_schema"]
        if "type" not in schema:
            yield Broken("ANT-TOOL-10", {"k": at})
        elif schema["type"] != "object" or any(
            not isinstance(schema.get(name, kind()), kind) for name, kind in _SCHEMA_PARTS.items()
        ):
            yield Broken("ANT-TOOL-10", {"k": at}, variant=1)
        else:
            yield None


@DECLARING.holds("ANT-TOOL-11")
def strict_schemas_are_simple(opened: Opened) -> Found:
    """A strict schema uses only what can be enforced."""
    for at, tool in _custom(opened):
        if tool.get("strict") is True:
            found = next(_unsupported(tool["input_schema"]), None)
            fields: dict[str, Any] = {"k": at, "kind": found[0], "keyword": found[1]} if found else {}
            variant = int(fields.get("kind") != "array")
            yield Broken("ANT-TOOL-11", fields, variant=variant) if found else None


def _unsupported(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield the type and the keyword that a strict schema cannot hold, wherever they stand."""
    if isinstance(schema, list):
        for inner in schema:
            yield from _unsupported(inner)
    if not isinstance(schema, dict):
        return
    given = schema.get("type")
    for kind in given if isinstance(given, list) else [given]:
        for keyword in _UNSUPPORTED.get(kind, ()) if isinstance(kind, str) else ():
            if keyword in schema:
                yield str(kind), keyword
    for name in ("properties", "$defs", "definitions"):
        for inner in schema[name].values() if isinstance(schema.get(name), dict) else ():
            yield from _unsupported(inner)
    for name in ("items", "anyOf", "oneOf", "allOf", "prefixItems"):
        yield from _unsupported(schema.get(name))


@DECLARING.holds("ANT-TOOL-15")
def named_tools_are_declared(opened: Opened) -> Found:
    """A tool that is forced or referred to is one of the tools."""
    if any("toolset" in str(tool.get("type")) for tool in opened.tools):
        return
    names = {tool.get("name") for tool in opened.tools}
    if opened.choice == "tool":
        name = opened.body["tool_choice"]["name"]
        yield None if name in names else Broken("ANT-TOOL-15", {"name": name})
    for block in opened.blocks("tool_addition", "tool_result", "tool_search_tool_result"):
        for name in _references(block.raw):
            yield None if name in names else Broken("ANT-TOOL-15", {"name": name}, at=block.place)


def _references(block: dict[str, Any]) -> Iterator[Any]:
    """Yield the names of the tools that a block refers to."""
    content = block.get("content")
    held = [block.get("tool")] if block["type"] == "tool_addition" else content
    if isinstance(content, dict):
        held = content.get("tool_references")
    for inner in held if isinstance(held, list) else []:
        if isinstance(inner, dict) and inner.get("type") == "tool_reference":
            name = inner.get("name") or inner.get("tool_name")
            yield name if isinstance(name, str) else None


@DECLARING.holds("ANT-TOOL-16")
def deferred_tools_are_not_marked(opened: Opened) -> Found:
    """A tool that is loaded later carries no cache mark."""
    for at, tool in enumerate(opened.tools):
        if tool.get("defer_loading") is True:
            told = f"tools.{at}: cache_control cannot be set on a tool with defer_loading"
            yield Broken("ANT-TOOL-16", {"k": at}, says=told) if tool.get("cache_control") is not None else None


@DECLARING.holds("ANT-TOOL-17")
def old_computer_is_gone(opened: Opened) -> Found:
    """Opus 5.5 uses a computer only as a set of tools."""
    if "claude-opus-5-5" not in opened.request.model:
        return
    for at, tool in enumerate(opened.tools):
        told = f"tools.{at}.type: 'computer_20251124' is not supported for this model."
        yield Broken("ANT-TOOL-17", {"k": at}, says=told) if tool.get("type") == "computer_20251124" else None


@DECLARING.holds("ANT-TOOL-14")
def tools_stay_declared(opened: Opened) -> Found:
    """A history with calls keeps its tools."""
    if next(opened.blocks("tool_use", "tool_result"), None):
        yield None if opened.tools else Broken("ANT-TOOL-14")


@PAIRING.holds("ANT-TOOL-05")
def ids_are_plain(opened: Opened) -> Found:
    """An id of a call is made of letters, digits, _ and -."""
    for block in opened.blocks("tool_use", "tool_result"):
        key = "id" if block.type == "tool_use" else "tool_use_id"
        plain = _ID.fullmatch(block.raw[key])
        yield None if plain else Broken("ANT-TOOL-05", block.at, variant=int(key != "id"), at=f"{block.place}/{key}")


@PAIRING.holds("ANT-TOOL-12")
def input_is_an_object(opened: Opened) -> Found:
    """The input of a call is an object."""
    for block in opened.blocks("tool_use"):
        yield None if isinstance(block.raw.get("input"), dict) else Broken("ANT-TOOL-12", block.at)


@PAIRING.holds("ANT-TOOL-13")
def results_are_not_empty_lists(opened: Opened) -> Found:
    """A result says something, or has no content at all."""
    for block in opened.blocks("tool_result"):
        told = f"messages.{block.i}.content.{block.j}.tool_result.content: List should have at least 1 item"
        yield Broken("ANT-TOOL-13", block.at, says=told) if block.raw.get("content") == [] else None


@PAIRING.holds("ANT-TOOL-03")
def call_ids_are_unique(opened: Opened) -> Found:
    """No two calls of one message have one id."""
    for _, message in opened.assistants():
        seen: set[str] = set()
        for block in message.of("tool_use"):
            yield Broken("ANT-TOOL-03", block.at) if block.raw["id"] in seen else None
            seen.add(block.raw["id"])


@PAIRING.holds("ANT-TOOL-01")
def calls_are_answered(opened: Opened) -> Found:
    """Every call has its result in the next message."""
    for at, message in opened.assistants():
        answered = {block.raw["tool_use_id"] for block in _behind(opened, at).of("tool_result")}
        calls = message.of("tool_use")
        open_calls = [block for block in calls if block.raw["id"] not in answered]
        if open_calls:
            ids = ", ".join(block.raw["id"] for block in open_calls)
            yield Broken("ANT-TOOL-01", {**open_calls[0].at, "ids": ids})
        elif calls:
            yield None


def _behind(opened: Opened, at: int) -> Message:
    following = opened.merged[at + 1 : at + 2]
    return following[0] if following and following[0].role == "user" else Message("user", at, ())


@PAIRING.holds("ANT-TOOL-02")
def results_answer_calls(opened: Opened) -> Found:
    """Every result answers a call of the message before."""
    for at, message in enumerate(opened.merged):
        before = opened.merged[at - 1] if at else None
        calls = {block.raw["id"] for block in before.of("tool_use")} if before else set()
        for block in message.of("tool_result"):
            id = block.raw["tool_use_id"]
            yield None if id in calls else Broken("ANT-TOOL-02", {**block.at, "id": id})


@PAIRING.holds("ANT-TOOL-04")
def calls_are_answered_once(opened: Opened) -> Found:
    """No call has two results."""
    for message in opened.merged:
        seen: set[str] = set()
        for block in message.of("tool_result"):
            id = block.raw["tool_use_id"]
            yield Broken("ANT-TOOL-04", {**block.at, "id": id}) if id in seen else None
            seen.add(id)


@PAIRING.holds("ANT-TOOL-06")
def results_come_first(opened: Opened) -> Found:
    """Nothing stands before the results in the message that answers calls."""
    for at, message in opened.assistants():
        calls, answer = message.of("tool_use"), _behind(opened, at)
        if calls and answer.blocks:
            first = answer.blocks[: len(answer.of("tool_result"))]
            late = any(block.type != "tool_result" for block in first)
            yield Broken("ANT-TOOL-06", {"i": answer.i, "n": len(calls)}) if late else None


@PAIRING.holds("ANT-TOOL-18")
def callers_come_back(opened: Opened) -> Found:
    """A call that came with its caller goes back with it."""
    for block in opened.blocks("tool_use"):
        if id_kind(opened.request.seals, block.raw["id"]):
            yield None if "caller" in block.raw else Broken("ANT-TOOL-18", block.at)
