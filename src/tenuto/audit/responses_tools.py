"""Tools of a Responses request, and the pairs of call and output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from tenuto.audit.looking import Broken, Checks, Sent
from tenuto.audit.responses_ledger import CALLS, Fields, Item, items, ledger, named_tools, stored, word
from tenuto.core import jsonio

__all__ = ["CHECKS"]

CHECKS = Checks()

_MOST_TOOLS = 128
_LONGEST_NAME = 64
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_OUTPUTS = {output: call for call, output in CALLS.items()}
_UNIONS = ("anyOf", "oneOf", "allOf", "prefixItems")
_TABLES = ("properties", "$defs", "definitions")
_Path: TypeAlias = tuple[str, ...]


# --- definitions ------------------------------------------------------------------------------------------------------


@CHECKS.holds("OAR-TOOL-06")
def too_many(sent: Sent) -> Iterator[Broken]:
    """A request has 128 tools at most."""
    tools = sent.body.get("tools")
    if isinstance(tools, list) and len(tools) > _MOST_TOOLS:
        yield Broken("OAR-TOOL-06", {"n": len(tools)})


@CHECKS.holds("OAR-TOOL-04")
def names(sent: Sent) -> Iterator[Broken]:
    """A tool's name is of letters, digits, `_` and `-`, and not too long."""
    for place, k, tool, _ in named_tools(sent):
        name = word(tool, "name")
        if tool.get("type") not in ("function", "custom") or not name:
            continue
        if not _NAME.fullmatch(name):
            yield Broken("OAR-TOOL-04", {"k": k}, at=f"{place}/name")
        elif len(name) > _LONGEST_NAME:
            yield Broken("OAR-TOOL-04", {"k": k, "n": len(name)}, variant=1, at=f"{place}/name")


@CHECKS.holds("OAR-TOOL-03")
def nothing_finds_it(sent: Sent) -> Iterator[Broken]:
    """What is loaded later has to be found by a search."""
    every = named_tools(sent)
    if any(tool.get("type") == "tool_search" for _, _, tool, _ in every):
        return
    for place, k, tool, _ in every:
        if tool.get("defer_loading") is True:
            yield Broken("OAR-TOOL-03", {"k": k}, at=f"{place}/defer_loading")


@CHECKS.holds("OAR-TOOL-05")
def strict_schemas(sent: Sent) -> Iterator[Broken]:
    """Each object of a strict schema is closed and requires all that it has; the first that is not is told."""
    for place, k, tool, _ in named_tools(sent):
        if tool.get("type") != "function" or tool.get("strict") is not True:
            continue
        open_at = next(_open(tool.get("parameters")), None)
        if open_at is not None:
            path, missing = open_at
            told = {"k": k, "name": word(tool, "name"), "path": ", ".join(f"'{step}'" for step in path), "p": missing}
            yield Broken("OAR-TOOL-05", told, variant=int(missing is not None), at=f"{place}/parameters")


def _open(schema: Any) -> Iterator[tuple[_Path, str | None]]:
    """Yield where an object allows more than it names (None), or does not require what it names (that name)."""
    left: list[tuple[_Path, Any]] = [((), schema)]
    while left:
        path, one = left.pop()
        if not isinstance(one, dict):
            continue
        if _is_object(one):
            if one.get("additionalProperties") is not False:
                yield path, None
            held, required = one.get("properties"), one.get("required")
            if isinstance(held, dict):
                needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
                yield from ((path, name) for name in held if name not in needed)
        left += reversed([((*path, *steps), inner) for steps, inner in _inner(one)])


def _is_object(schema: Fields) -> bool:
    named = schema.get("type")
    return (
        named == "object"
        or (isinstance(named, list) and "object" in named)
        or (named is None and "properties" in schema)
    )


def _inner(schema: Fields) -> Iterator[tuple[_Path, Any]]:
    for key in _TABLES:
        if isinstance(schema.get(key), dict):
            yield from (((key, name), inner) for name, inner in schema[key].items())
    for key in _UNIONS:
        if isinstance(schema.get(key), list):
            yield from (((key, str(at)), inner) for at, inner in enumerate(schema[key]))
    yield ("items",), schema.get("items")


# --- calls and outputs ------------------------------------------------------------------------------------------------


def _call_ids(sent: Sent, kinds: dict[str, str]) -> dict[str, Item]:
    return {item.call_id: item for item in items(sent) if item.kind in kinds and item.call_id}


@CHECKS.holds("OAR-TOOL-01")
def open_calls(sent: Sent) -> Iterator[Broken]:
    """Every call has its output, but for those that may wait. The last stored reply may have calls, too."""
    answered = {item.call_id for item in items(sent) if item.kind.endswith("_output")}
    for item in items(sent):
        id = item.call_id
        if item.kind in CALLS and id and id not in answered and item.fields.get("async") is not True:
            yield Broken("OAR-TOOL-01", {"i": item.i, "call_id": id})
    if sent.given and sent.body.get("previous_response_id"):
        for one in ledger(sent).replies[-1]:
            waits = one.type not in CALLS or one.foreign or '"async"' in one.blocks[0].extra
            if one.call_id and one.call_id not in answered and not waits:
                yield Broken("OAR-TOOL-01", {"call_id": one.call_id}, at="/previous_response_id")


@CHECKS.holds("OAR-TOOL-02")
def orphans(sent: Sent) -> Iterator[Broken]:
    """An output answers a call that stands before it, in full. What is stored can be known from what was given."""
    if sent.body.get("conversation") or (stored(sent) and not sent.given):
        return
    made = set(ledger(sent).calls) if stored(sent) else set()
    for item in items(sent):
        id = item.call_id
        if item.kind in _OUTPUTS and id and id not in made:
            yield Broken("OAR-TOOL-02", {"i": item.i, "call_id": id})
        elif item.kind.endswith("_call"):
            made.add(id)


@CHECKS.holds("OAR-TOOL-08")
def wrong_kind(sent: Sent) -> Iterator[Broken]:
    """The kind of the call decides the kind of its output."""
    calls = _call_ids(sent, CALLS)
    for item in items(sent):
        call = calls.get(item.call_id)
        if call is not None and item.kind in _OUTPUTS and call.kind != _OUTPUTS[item.kind]:
            custom = item.kind == CALLS["custom_tool_call"]
            yield Broken("OAR-TOOL-08", {"i": item.i, "call_id": item.call_id}, variant=int(custom))


@CHECKS.holds("OAR-TOOL-07")
def no_json(sent: Sent) -> Iterator[Broken]:
    """A tool that says what JSON it gives, gives JSON."""
    typed = {word(tool, "name") for _, _, tool, _ in named_tools(sent) if isinstance(tool.get("output_schema"), dict)}
    calls = _call_ids(sent, CALLS) if typed else {}
    for item in items(sent):
        call = calls.get(item.call_id)
        if call is None or item.kind not in _OUTPUTS or word(call.fields, "name") not in typed:
            continue
        if isinstance(item.fields.get("output"), str) and jsonio.problem(item.fields["output"]):
            yield Broken("OAR-TOOL-07", {"i": item.i})
