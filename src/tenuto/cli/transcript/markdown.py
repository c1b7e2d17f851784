"""A session as a Markdown document for people; an export as JSONL is lossless.

Text of models, tools and users cannot change the structure of the document: it is quoted or fenced, and HTML is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt

from tenuto.cli.errors import plural
from tenuto.cli.store import format_status, format_time
from tenuto.cli.terminal.text import escape_control, one_line
from tenuto.cli.transcript.items import TranscriptItem, compaction_text, transcript_items
from tenuto.core.journal import Entry
from tenuto.store.protocol import StoredSession

_LINE = 400
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&!])")
_TICKS = re.compile(r"`+")
_PARSER = MarkdownIt("commonmark")
_PARSER.core.ruler.disable(["inline", "text_join"])


def session_markdown(stored: StoredSession, entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the pieces of the document."""
    meta = stored.meta
    facts = [
        f"session {inline_code(stored.id)}",
        format_status(stored.status, stored.reason),
        inline_code(meta.model),
        plural(meta.message_count, "message"),
        f"started {format_time(meta.created_at)}" if meta.created_at else "",
        f"forked from {inline_code(stored.parent)}" if stored.parent else "",
    ]
    yield f"# {escape_markdown(stored.name or meta.title, 120) or 'A session'}\n\n"
    yield f"{', '.join(filter(None, facts))}\n"
    for item in transcript_items(entries):
        for piece in _format(item):
            yield f"\n{piece}"


def _format(item: TranscriptItem) -> Iterator[str]:
    code, line = inline_code(item.name), escape_markdown(item.text)
    number = f" ({item.number})" if item.number else ""
    reason = f": {line}" if line else ""
    match item.kind:
        case "heading":
            yield f"## {code if item.outcome == 'reply' and item.name != 'model' else item.name}{number}\n"
        case "text":
            if item.text.strip():
                yield blockquote(item.text)
        case "thinking" if item.text:
            yield f"<details>\n<summary>Thinking</summary>\n\n{fence(item.text)}\n</details>\n"
        case "thinking":
            yield "Thinking, hidden by the provider\n"
        case "part":
            yield f"{line}\n"
        case "call":
            yield f"Calls {code}:\n"
            yield fence(item.text, "json")
        case "result":
            yield f"Result of {code}{'' if item.outcome == 'done' else f' ({escape_markdown(item.outcome)})'}:\n"
            yield fence(item.text)
        case "loss":
            yield f"- lost: {line}\n"
        case "unknown":
            yield f"Entry {item.number}, of a later version of tenuto: {code}\n"
            yield fence(item.text, "json")
        case "failure":
            yield f"{'No summary' if item.outcome else 'Request failed'}: {line}\n"
        case "approval":
            yield f"{code} was {item.outcome}{reason}\n"
        case "sub-session":
            yield f"Answered in session {code}\n"
        case "switch":
            yield f"Switched to {code}\n"
        case "model":
            yield f"Model: {code}\n"
        case "metadata":
            yield f"Metadata: {line}\n"
        case "compaction":
            yield f"{compaction_text(item).capitalize()}:\n"
        case "cut":
            yield f"Cut off: {item.text}\n"
        case "end":
            yield f"---\n\nEnded: {escape_markdown(item.name)}{reason}\n"


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
    """Escape every `<` outside fenced code."""
    escaped = text.replace("<", "&lt;")
    lines, original = escaped.split("\n"), text.split("\n")
    for token in _PARSER.parse(escaped):
        if token.type == "fence" and token.map:
            start, end = token.map
            lines[start + 1 : end] = original[start + 1 : end]
    return "\n".join(lines)
