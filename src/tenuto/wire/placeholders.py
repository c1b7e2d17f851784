"""Describe blocks that a target does not accept, each in one line.

The text replaces the block in the assistant message. It is short: a long tool output would fill the context window, and
the model would take it for its own text.
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

MAX_TEXT = 200
"""Characters of a call or a result in a placeholder."""
_READABLE = frozenset(("title", "url", "text", "stdout", "stderr", "output", "logs", "error_code", "content", "result"))
_KINDS = {Image: "picture", Audio: "sound", Document: "document"}


def shorten(text: str) -> str:
    """Return a text as one line of at most `MAX_TEXT` characters."""
    line = " ".join(text[: MAX_TEXT * 4].split())
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}…"


def describe_call(block: ServerToolUse) -> str:
    """Describe a server tool call."""
    args = shorten(block.args)
    return f"[{block.name or block.kind}: {args}]" if args else f"[{block.name or block.kind}]"


def describe_code(block: CodeExecution) -> str:
    return f"[Ran: {shorten(block.code)}]"


def describe_result(block: ServerToolResult | CodeResult) -> str:
    if isinstance(block, CodeResult):
        return f"[Gave: {shorten(block.output) or shorten(block.outcome) or 'nothing'}]"
    return f"[Gave: {shorten('; '.join(_words(block.content))) or 'nothing readable'}]"


def describe_media(block: Image | Audio | Document) -> str:
    """Describe media; of audio the transcript, of a document its title or text."""
    if isinstance(block, Audio) and block.transcript:
        return block.transcript
    known = shorten(block.title or block.text) if isinstance(block, Document) else ""
    return f"[A {_KINDS[type(block)]}: {known or block.mime or 'of an unknown kind'}]"


def describe_sources(citations: Iterable[Citation]) -> str:
    """Name the sources of a text; empty if its citations have no names."""
    return f"[Sources: {shorten('; '.join(names))}]" if (names := list(_source_names(citations))) else ""


def _source_names(citations: Iterable[Citation]) -> Iterator[str]:
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
    """Find the readable strings of a result: titles, URLs, texts; no tokens and no files."""
    try:
        yield from _strings(jsonio.parse(content)) if content else ()
    except jsonio.JsonError:
        yield content


def _strings(value: Any, name: str = "text") -> Iterator[str]:
    if isinstance(value, str):
        if name in _READABLE and value:
            yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, name)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner, key)
