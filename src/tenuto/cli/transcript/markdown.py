"""A session as a Markdown document for people; an export as JSONL is lossless.

Text of models, tools and users cannot change the structure of the document: it is quoted or fenced, and HTML is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tenuto.cli.terminal.text import escape_control, one_line
from tenuto.cli.transcript.items import TranscriptItem, session_facts, transcript_items
from tenuto.core.journal import Entry
from tenuto.store.protocol import StoredSession

_LINE = 400
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&!])")
_TICKS = re.compile(r"`+")
_PARSER = MarkdownIt("commonmark")


def session_markdown(stored: StoredSession, entries: Iterable[Entry]) -> Iterator[str]:
    title = escape_markdown(stored.name or stored.meta.title, 120) or "A session"
    yield f"# {title}\n\nsession {inline_code(stored.id)}, {session_facts(stored, inline_code)}\n"
    yield from (f"\n{piece}" for piece in map(_format, transcript_items(entries)) if piece)


def _format(item: TranscriptItem) -> str:
    code, line = inline_code(item.name), escape_markdown(item.text)
    match item.kind:
        case "heading":
            name = code if item.outcome == "reply" and item.name != "model" else item.name
            return f"## {name} ({item.number})\n" if item.number else f"## {name}\n"
        case "text":
            return blockquote(item.text) if item.text.strip() else ""
        case "thinking" if item.text:
            return f"<details>\n<summary>Thinking</summary>\n\n{fence(item.text)}\n</details>\n"
        case "thinking":
            return "Thinking, hidden by the provider\n"
        case "call":
            return f"Calls {code}:\n\n{fence(item.text, 'json')}"
        case "result":
            how = "" if item.outcome == "done" else f" ({escape_markdown(item.outcome)})"
            return f"Result of {code}{how}:\n\n{fence(item.text)}"
        case "unknown":
            return f"Entry {item.number}, of a later version of tenuto: {code}\n\n{fence(item.text, 'json')}"
        case "loss":
            return f"- {line}\n"
        case "end":
            return f"---\n\nEnded: {line}\n"
        case _:
            return f"{line[:1].upper()}{line[1:]}\n"


def escape_markdown(text: str, most: int = _LINE) -> str:
    """Return a text as one line without Markdown."""
    return _SPECIAL.sub(r"\\\1", one_line(text, most))


def inline_code(text: str) -> str:
    """Return a name as code in a line; empty stays empty."""
    line = one_line(text, _LINE)
    if not line:
        return ""
    ticks = "`" * (1 + max(map(len, _TICKS.findall(line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def fence(text: str, kind: str = "text") -> str:
    """Return a text in a fence that is longer than any in it."""
    body = escape_control(text)  # also lone carriage returns, which end a line in some Markdown readers
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(body)), default=0))
    return f"{fence}{kind}\n{body}{'' if not body or body.endswith(chr(10)) else chr(10)}{fence}\n"


def blockquote(text: str) -> str:
    """Return a text as a quote. Its Markdown stays; HTML is escaped."""
    lines = escape_html(escape_control(text).strip("\n")).split("\n")
    return "".join(f"> {line}\n" if line else ">\n" for line in lines)


def escape_html(text: str) -> str:
    escaped = text.replace("<", "&lt;")
    lines, original = escaped.split("\n"), text.split("\n")
    tokens: list[Token] = []
    _PARSER.block.parse(escaped, _PARSER, {}, tokens)
    for token in tokens:
        if token.type == "fence" and token.map:
            start, end = token.map
            lines[start + 1 : end] = original[start + 1 : end]
    return "\n".join(lines)
