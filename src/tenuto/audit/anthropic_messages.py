"""Messages: who may speak when, what is empty, what is too large, which blocks exist; and marks for the cache."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from tenuto.audit.anthropic_body import (
    CALLS,
    THOUGHTS,
    Place,
    betas,
    blocks,
    dicts,
    in_results,
    kind,
    marks,
    mode,
    natively,
    places,
    said,
    text_of,
    turns,
)
from tenuto.audit.anthropic_given import last_paused, sent_shapes
from tenuto.audit.looking import Broken, Checks, Sent

__all__ = ["CHECKS"]

CHECKS = Checks()

_MEGABYTES_32 = 32 * 1024 * 1024
_LETTERS_A_TOKEN = 6
"""More than any prose has on average: what is too long by this count is too long by any."""
_USUAL = ("type", "cache_control")
_RESULT = (*_USUAL, "tool_use_id", "content")
_KEYS: dict[str, frozenset[str]] = {
    type: frozenset(keys)
    for type, keys in {
        "text": (*_USUAL, "text", "citations"),
        "image": (*_USUAL, "source", "transformations"),
        "document": (*_USUAL, "source", "title", "context", "citations"),
        "search_result": (*_USUAL, "source", "title", "content", "citations"),
        "thinking": (*_USUAL, "thinking", "signature"),
        "redacted_thinking": (*_USUAL, "data"),
        "tool_use": (*_USUAL, "id", "name", "input", "caller", "toolset_name"),
        "tool_result": (*_RESULT, "is_error", "toolset_name"),
        "server_tool_use": (*_USUAL, "id", "name", "input", "caller"),
        "web_search_tool_result": (*_RESULT, "caller"),
        "web_fetch_tool_result": (*_RESULT, "caller"),
        "advisor_tool_result": _RESULT,
        "code_execution_tool_result": _RESULT,
        "bash_code_execution_tool_result": _RESULT,
        "text_editor_code_execution_tool_result": _RESULT,
        "tool_search_tool_result": _RESULT,
        "mcp_tool_use": (*_USUAL, "id", "name", "input", "server_name"),
        "mcp_tool_result": (*_RESULT, "is_error"),
        "mcp_tool_listing": (*_USUAL, "mcp_server_name", "tools"),
        "container_upload": (*_USUAL, "file_id"),
        "compaction": (*_USUAL, "content", "encrypted_content", "signature", "tool_changes"),
        "fallback": (*_USUAL, "from", "to", "trigger"),
        "tool_addition": (*_USUAL, "tool"),
        "tool_removal": (*_USUAL, "tool"),
    }.items()
}
"""The keys of each type of block. That reasoning carries no mark is a rule of its own."""
_NO_KEYS: frozenset[str] = frozenset()
_IN_RESULTS = {type: _KEYS[type] for type in ("text", "image", "document", "search_result")} | {
    "tool_reference": frozenset((*_USUAL, "tool_name")),
    "browser_state": frozenset((*_USUAL, "tabs", "state_changes")),
}
_UNTYPED = "connector_text"
"""A type that documents name and no SDK has: it is sent back as it came."""
_OPAQUE = frozenset(("data", "signature", "encrypted_content", "encrypted_index", "encrypted_stdout"))
"""Fields that are no words of the prompt."""


# --- empty ------------------------------------------------------------------------------------------------------------


@CHECKS.holds("ANT-MSG-01")
def no_empty_texts(sent: Sent) -> Iterator[Broken]:
    """No block of text is empty."""
    for k, block in enumerate(dicts(sent.body.get("system"))):
        if _is_text(block, ""):
            yield Broken("ANT-MSG-01", at=f"/system/{k}/text")
    for pointer, block in blocks(sent):
        if _is_text(block, ""):
            yield Broken("ANT-MSG-01", at=f"{pointer}/text")


@CHECKS.holds("ANT-MSG-02")
def no_blank_messages(sent: Sent) -> Iterator[Broken]:
    """A message says more than space."""
    for message in said(sent):
        if any(part.kind != "text" or text_of(part.block, "text").strip() for part in message.parts):
            continue
        blank = next((part for part in message.parts if text_of(part.block, "text")), None)
        if blank is not None:
            yield Broken("ANT-MSG-02", blank.fields, at=f"/messages/{message.i}/content" if message.plain else "")


@CHECKS.holds("ANT-MSG-03")
def no_empty_messages(sent: Sent) -> Iterator[Broken]:
    """A message has content, unless it is the assistant's and the last."""
    held = said(sent)
    for message in held:
        if message.content in ("", []) and not (message is held[-1] and message.role == "assistant"):
            yield Broken("ANT-MSG-03", {"i": message.i})


# --- order ------------------------------------------------------------------------------------------------------------


@CHECKS.holds("ANT-MSG-04")
@natively
def no_prefill(sent: Sent) -> Iterator[Broken]:
    """The assistant does not have the last word, where the model takes none in its mouth. A paused turn goes on."""
    last = _last_word(sent)
    if sent.target.traits.prefill == "rejected" and last is not None and not _goes_on(sent, last):
        yield Broken("ANT-MSG-04", at=f"/messages/{last.i}/role")


@CHECKS.holds("ANT-MSG-05")
def prefill(sent: Sent) -> Iterator[Broken]:
    """What is put in the assistant's mouth ends in no space, and is not thought about."""
    last = _last_word(sent)
    if last is None or sent.target.traits.prefill == "rejected" or _goes_on(sent, last):
        return
    text = text_of(last.block, "text") if last.kind == "text" else ""
    thinks = mode(sent) in ("enabled", "adaptive")
    if thinks or text != text.rstrip():
        yield Broken("ANT-MSG-05", variant=int(thinks), at=f"/messages/{last.i}/content")


@CHECKS.holds("ANT-MSG-06")
def the_user_speaks_first(sent: Sent) -> Iterator[Broken]:
    """The first message is the user's, or a compaction of what came before."""
    first = next(iter(said(sent)), None)
    if first is not None and first.role == "assistant" and not _is_compaction(first.parts[:1]):
        yield Broken("ANT-MSG-06")


@CHECKS.holds("ANT-MSG-07")
def neighbours(sent: Sent) -> Iterator[Broken]:
    """Two messages of one role stand together."""
    for before, message in pairwise(said(sent)):
        if message.role == before.role and message.role in ("user", "assistant"):
            yield Broken("ANT-MSG-07", {"i": message.i})


@CHECKS.holds("ANT-MSG-08")
@natively
def no_system_role(sent: Sent) -> Iterator[Broken]:
    """No message is the system's, where the model does not know that role."""
    if sent.target.traits.system_mid == "rejected":
        yield from (Broken("ANT-MSG-08", {"i": message.i}) for message in said(sent) if message.role == "system")


@CHECKS.holds("ANT-MSG-09")
@natively
def system_behind_the_user(sent: Sent) -> Iterator[Broken]:
    """A system message stands behind what the user said."""
    if sent.target.traits.system_mid not in ("native", "unverified"):
        return
    before = ""
    for message in said(sent):
        if message.role != "system":
            before = message.role
        elif before in ("user", "system behind user"):
            before = "system behind user"
        else:
            yield Broken("ANT-MSG-09", {"i": message.i})


def _is_compaction(parts: list[Place]) -> bool:
    return any(part.kind == "compaction" for part in parts)


def _last_word(sent: Sent) -> Place | None:
    """Return the last block of a last turn that is the assistant's; an empty one for a turn without any."""
    message = next(reversed(said(sent)), None)
    if message is None or message.role != "assistant":
        return None
    parts = turns(sent)[-1].parts
    return replace(parts[-1], i=message.i) if parts else Place(message.i, 0, {}, "")


def _goes_on(sent: Sent, last: Place) -> bool:
    """Tell whether the provider stopped there by itself: in its own work, or after making room."""
    at_work = last.kind in (*CALLS, "compaction") or last.kind.endswith("_tool_result")
    return at_work or last_paused(sent)


# --- size -------------------------------------------------------------------------------------------------------------


@CHECKS.holds("ANT-MSG-10")
@natively
def too_long(sent: Sent) -> Iterator[Broken]:
    """The prompt fits the window. Words are counted so that nothing that fits is told not to."""
    window = sent.target.traits.context_window
    if window is None or not sent.may_have(window * _LETTERS_A_TOKEN) or "context-1m-" in betas(sent):
        return
    asked = {name: sent.body.get(name) for name in ("system", "tools", "messages")}
    least = _letters(asked, _OPAQUE) // _LETTERS_A_TOKEN
    if least > window:
        yield Broken("ANT-MSG-10", {"n": least, "max": window})


@CHECKS.holds("ANT-MSG-12")
def too_large(sent: Sent) -> Iterator[Broken]:
    """The body has at most 32 MB."""
    told = sent.headers.get("content-length", "")
    if told.isascii() and told.isdigit() and len(told) < 20:
        size = int(told)
    else:
        size = _letters(sent.body) if sent.may_have(_MEGABYTES_32) else 0
    if size > _MEGABYTES_32:
        yield Broken("ANT-MSG-12")


def _letters(value: Any, but: frozenset[str] = frozenset()) -> int:
    """Count the letters of every string in a value, those of some fields aside."""
    count, left = 0, [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            count += len(item)
        elif isinstance(item, dict):
            left.extend(inner for name, inner in item.items() if name not in but)
        elif isinstance(item, list):
            left.extend(item)
    return count


# --- shape ------------------------------------------------------------------------------------------------------------


@CHECKS.holds("ANT-MSG-11")
def known_blocks(sent: Sent) -> Iterator[Broken]:
    """A block has a type that exists, and only its keys; or the provider itself sent it so."""
    came = sent_shapes(sent)
    known = {**_KEYS, **came} if came else _KEYS
    inside = in_results(sent)
    for message in said(sent):
        for place in message.parts:
            if not place.block.keys() <= known.get(place.kind, _NO_KEYS):
                yield from _strange(place, place.pointer, place.block, known)
            for pointer, inner in inside.get((place.i, place.j), ()) if inside else ():
                yield from _strange(place, pointer, inner, _IN_RESULTS)


def _strange(place: Place, pointer: str, block: dict[str, Any], known: dict[str, frozenset[str]]) -> Iterator[Broken]:
    of = kind(block)
    if not of or of == _UNTYPED:
        return
    keys = known.get(of)
    if keys is None:
        yield Broken("ANT-MSG-11", {**place.fields, "type": of}, at=pointer)
        return
    key = next((key for key in block if key not in keys), None)
    if key is not None:
        yield Broken("ANT-MSG-11", {**place.fields, "type": of, "key": key}, variant=1, at=pointer)


# --- marks for the cache ----------------------------------------------------------------------------------------------


@CHECKS.holds("ANT-CACHE-01")
@natively
def four_marks(sent: Sent) -> Iterator[Broken]:
    """There are at most four marks, the automatic one included."""
    count = len(marks(sent)) + isinstance(sent.body.get("cache_control"), dict)
    if count > 4:
        yield Broken("ANT-CACHE-01", {"n": count})


@CHECKS.holds("ANT-CACHE-02")
@natively
def long_marks_first(sent: Sent) -> Iterator[Broken]:
    """No mark of an hour comes after one of five minutes."""
    short = False
    for pointer, block in marks(sent):
        lasting = block["cache_control"].get("ttl")
        if lasting == "1h" and short:
            yield Broken("ANT-CACHE-02", _numbers(pointer), at=f"{pointer}/cache_control/ttl")
        short = short or lasting != "1h"


@CHECKS.holds("ANT-CACHE-03")
@natively
def no_mark_on_nothing(sent: Sent) -> Iterator[Broken]:
    """An empty text carries no mark."""
    for pointer, block in marks(sent):
        if _is_text(block, ""):
            yield Broken("ANT-CACHE-03", _numbers(pointer), at=pointer)


@CHECKS.holds("ANT-THINK-18")
@natively
def no_mark_on_thoughts(sent: Sent) -> Iterator[Broken]:
    """Reasoning carries no mark."""
    for place in places(sent, *THOUGHTS):
        if "cache_control" in place.block:
            yield Broken("ANT-THINK-18", {**place.fields, "type": place.kind})


def _numbers(pointer: str) -> dict[str, str]:
    """Return message and block of a pointer, if it points into a message."""
    parts = pointer.split("/")
    return {"i": parts[2], "j": parts[4]} if parts[1] == "messages" else {}


def _is_text(block: dict[str, Any], text: str) -> bool:
    return kind(block) == "text" and block.get("text") == text
