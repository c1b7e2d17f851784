"""Short texts for what a target cannot hold: what was done, shown or found, in a line.

They stand in the assistant's turn in place of the block, so they are cut: a dump of what another provider's tool gave
would fill the window, and would be taken for the model's own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Citation,
    CodeExecution,
    CodeResult,
    Document,
    DocumentCitation,
    Image,
    PageCitation,
    ServerToolResult,
    ServerToolUse,
    UrlCitation,
)

__all__ = [
    "MAX_TEXT",
    "describe_call",
    "describe_code",
    "describe_media",
    "describe_result",
    "describe_sources",
    "shorten",
]

MAX_TEXT = 200
"""How many characters of what was done or found are told."""
_TOLD = frozenset(("title", "url", "text", "stdout", "stderr", "output", "logs", "error_code", "content", "result"))
_KINDS = {Image: "picture", Audio: "sound", Document: "document"}


def shorten(text: str) -> str:
    """Return a text in one line, cut where it is long."""
    line = " ".join(text[: MAX_TEXT * 4].split())
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}…"


def describe_call(block: ServerToolUse) -> str:
    """Tell which tool of its own a provider used, and with what."""
    what = shorten(block.args)
    return f"[{block.name or block.kind}: {what}]" if what else f"[{block.name or block.kind}]"


def describe_code(block: CodeExecution) -> str:
    """Tell which code a provider ran."""
    return f"[Ran: {shorten(block.code)}]"


def describe_result(block: ServerToolResult | CodeResult) -> str:
    """Tell what such a tool gave."""
    if isinstance(block, CodeResult):
        return f"[Gave: {shorten(block.output) or shorten(block.outcome) or 'nothing'}]"
    return f"[Gave: {shorten('; '.join(_words(block.content))) or 'nothing that can be told'}]"


def describe_media(block: Image | Audio | Document) -> str:
    """Tell what was shown; what was spoken, and a short document, is told in its own words."""
    if isinstance(block, Audio) and block.transcript:
        return block.transcript
    known = shorten(block.title or block.text) if isinstance(block, Document) else ""
    return f"[A {_KINDS[type(block)]}: {known or block.mime or 'of an unknown kind'}]"


def describe_sources(citations: Iterable[Citation]) -> str:
    """Tell where a text comes from; empty if none of its citations says so."""
    return f"[Sources: {shorten('; '.join(named))}]" if (named := list(_named(citations))) else ""


def _named(citations: Iterable[Citation]) -> Iterator[str]:
    seen: set[str] = set()
    for citation in citations:
        name = ""
        if isinstance(citation, UrlCitation):
            name = f"{citation.title} {citation.url}" if citation.title else citation.url
        elif isinstance(citation, DocumentCitation | PageCitation):
            name = citation.document_title or ""
        if name and name not in seen:
            seen.add(name)
            yield name


def _words(content: str) -> Iterator[str]:
    """Find what can be told of a result: titles, addresses, texts; no tokens and no files."""
    try:
        yield from _strings(jsonio.parse(content)) if content else ()
    except jsonio.JsonError:
        yield content


def _strings(value: Any, name: str = "text") -> Iterator[str]:
    if isinstance(value, str):
        if name in _TOLD and value:
            yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, name)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner, key)
