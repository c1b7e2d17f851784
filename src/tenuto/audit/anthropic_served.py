"""What the provider runs and keeps by itself: its tools' results, containers, compactions, threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenuto.audit.anthropic_body import (
    CALLS,
    Place,
    betas,
    dicts,
    kind,
    kinds,
    marks,
    places,
    said,
    text_of,
    tools,
    turns,
)
from tenuto.audit.anthropic_given import fields_of, given_calls, lined, own, parsed
from tenuto.audit.looking import Broken, Checks, Sent, given_blocks, once
from tenuto.core.blocks import AnthropicMeta, Marker, ServerToolResult, Text, ToolUse

__all__ = ["CHECKS"]

CHECKS = Checks()

_TOKENS = ("encrypted_content", "encrypted_index", "encrypted_stdout")
_SEALED = {"web_search_result": "encrypted_content", "web_search_result_location": "encrypted_index"}
"""What never comes without its token."""
_AS_GIVEN = ("caller", "toolset_name")


@CHECKS.holds("ANT-SRV-01")
def results_have_their_use(sent: Sent) -> Iterator[Broken]:
    """A result of the provider's own tool stands behind what asked for it, in one turn of its work."""
    for work in _works(sent) if _is_served(sent) else ():
        asked: set[tuple[str, str]] = set()
        for place in work:
            of = place.kind
            if of in CALLS:
                asked.add((of, text_of(place.block, "id")))
            elif _is_result(of):
                use = "mcp_tool_use" if of == "mcp_tool_result" else "server_tool_use"
                id = text_of(place.block, "tool_use_id")
                if (use, id) not in asked:
                    yield Broken("ANT-SRV-01", {**place.fields, "type": of, "use": use, "id": id})


@CHECKS.holds("ANT-SRV-02")
def uses_have_their_result(sent: Sent) -> Iterator[Broken]:
    """What the provider began, in a turn that is over, has come to a result."""
    for work in _works(sent)[:-1] if _is_served(sent) else ():
        answered = {text_of(place.block, "tool_use_id") for place in work if _is_result(place.kind)}
        for place in work:
            id = text_of(place.block, "id")
            if place.kind in CALLS and id not in answered:
                yield Broken("ANT-SRV-02", {**place.fields, "name": text_of(place.block, "name"), "id": id})


@CHECKS.holds("ANT-SRV-03")
def advisor(sent: Sent) -> Iterator[Broken]:
    """Where an advisor was asked, it is declared."""
    if any(kind(tool).startswith("advisor_") for tool in tools(sent)):
        return
    for place in places(sent, "server_tool_use", "advisor_tool_result"):
        if place.kind == "advisor_tool_result" or place.block.get("name") == "advisor":
            yield Broken("ANT-SRV-03", place.fields)


@CHECKS.holds("ANT-SRV-04")
def sealed(sent: Sent) -> Iterator[Broken]:
    """What the provider sealed comes back sealed, and for what it was sealed for."""
    found = [part for work in _works(sent) for part in work if _is_result(part.kind) or "citations" in part.block]
    if not found:
        return
    served = [
        (block.tool_use_id, list(_tokens(parsed(block.content)))) for _, block in given_blocks(sent, ServerToolResult)
    ]
    cited = [parsed(citation.raw) for _, block in given_blocks(sent, Text) for citation in block.citations]
    known = {token for _, tokens in served for token in tokens}.union(*map(_tokens, cited))
    held = {id: len(tokens) for id, tokens in served}
    for place in found:
        content = place.block.get("citations" if place.kind == "text" else "content")
        tokens = list(_tokens(content))
        fewer = len(tokens) < held.get(text_of(place.block, "tool_use_id"), 0)
        strange = bool(sent.given) and any(token not in known for token in tokens)
        if fewer or strange or _unsealed(content):
            yield Broken("ANT-SRV-04", place.fields)


@CHECKS.holds("ANT-SRV-05")
def container(sent: Sent) -> Iterator[Broken]:
    """A conversation goes on in its container, which is named by its id."""
    named = sent.body.get("container")
    last = next(reversed(said(sent)), None)
    paused = last is not None and last.role == "assistant"
    if isinstance(named, dict) and named.get("id") is not None and paused:
        yield Broken("ANT-SRV-05")
        return
    if named is not None:
        return
    for line in lined(sent) if any('"container"' in message.extra for message in sent.given) else ():
        given = [sent.given[at] for at in line.replies if own(sent, at)]
        if any(text_of(fields_of(message.extra).get("container"), "id") for message in given):
            yield Broken("ANT-SRV-05")
            return


@CHECKS.holds("ANT-SRV-06")
def compactions(sent: Sent) -> Iterator[Broken]:
    """A compaction says something, and comes back as it came; a signed one is the first of all, and the only one."""
    markers = [block for _, block in given_blocks(sent, Marker)]
    given = {block.meta.signature: block.text for block in markers if isinstance(block.meta, AnthropicMeta)}
    held = [*places(sent, "compaction", role="user"), *places(sent, "compaction")]
    for place in held:
        signature, content = text_of(place.block, "signature"), place.block.get("content")
        first = signature or "compact-2026-09-04" in betas(sent)
        misplaced = first and ((place.i, place.j) != (0, 0) or len(held) > 1)
        altered = bool(signature and sent.given) and (signature not in given or given[signature] != content)
        if content == "" or misplaced or altered:
            yield Broken("ANT-SRV-06", place.fields)


@CHECKS.holds("ANT-SRV-07")
def thread(sent: Sent) -> Iterator[Broken]:
    """A thread goes without marks for the cache, edits of the context and fallbacks. That it goes on once only cannot be seen."""
    if sent.body.get("thread") is None:
        return
    beside = [name for name in ("cache_control", "context_management", "fallbacks") if sent.body.get(name) is not None]
    if beside or marks(sent):
        yield Broken("ANT-SRV-07")


@CHECKS.holds("ANT-TOOL-18")
def callers(sent: Sent) -> Iterator[Broken]:
    """A call says who made it, as it did when it came."""
    extras = [block.extra for _, block in given_blocks(sent, ToolUse)]
    given = [name for name in _AS_GIVEN if any(f'"{name}"' in extra for extra in extras)]
    bare = [(place, name) for place in places(sent, "tool_use") for name in given if place.block.get(name) is None]
    known = given_calls(sent) if bare else {}
    for place, name in bare:
        call = known.get(text_of(place.block, "id"))
        if call is not None and fields_of(call.extra).get(name) is not None:
            yield Broken("ANT-TOOL-18", place.fields, at=f"{place.pointer}/{name}")


@once
def _works(sent: Sent) -> list[list[Place]]:
    """Return the assistant's blocks, parted where the user says more than results: what a turn of its work is."""
    found: list[list[Place]] = [[]]
    for turn in turns(sent):
        if turn.role == "assistant":
            found[-1].extend(turn.parts)
        elif len(turn.results) < len(turn.parts):
            found.append([])
    return found


def _is_served(sent: Sent) -> bool:
    """Tell whether the assistant used a tool that the provider runs."""
    return any(of in CALLS or _is_result(of) for of in kinds(sent))


def _is_result(of: str) -> bool:
    return of.endswith("_tool_result")


def _tokens(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the tokens in a value, each with the address it was given for."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            yield from ((text_of(item, name), text_of(item, "url")) for name in _TOKENS if text_of(item, name))
            left.extend(inner for inner in item.values() if isinstance(inner, dict | list))
        elif isinstance(item, list):
            left.extend(item)


def _unsealed(content: Any) -> bool:
    return any(kind(item) in _SEALED and not text_of(item, _SEALED[kind(item)]) for item in dicts(content))
