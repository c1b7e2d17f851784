"""A session as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenuto.cli.errors import plural
from tenuto.cli.session.call_view import argument_lines
from tenuto.cli.store import format_status, format_time
from tenuto.cli.terminal.output import Style, ansi_style
from tenuto.cli.terminal.text import escape_control, one_line
from tenuto.cli.transcript.items import TranscriptItem, compaction_text, transcript_items
from tenuto.core.journal import Entry, TranscriptFold
from tenuto.store.protocol import StoredSession

_RESULT_LINES = 40
"""The lines of a result that are shown."""
_LINE_LENGTH = 400
_FULL = "; tenuto show --full has them"


def format_session(
    stored: StoredSession,
    entries: Sequence[Entry],
    forks: Sequence[str],
    *,
    thinking: bool,
    color: bool,
    full: bool = False,
) -> Iterator[str]:
    """Yield lines whose only control sequences are colors.

    Entries that a summary covers are omitted unless `full`. `forks` are the sessions that were forked from this one.
    """
    held = None if full else TranscriptFold(entries).compacted
    pieces = list(_head(stored, forks))
    for style, text in pieces:
        yield ansi_style(text, style, color=color) + "\n"
    for item in transcript_items(entries, held):
        if thinking or item.kind != "thinking":
            style, text = _format(item)
            if text:
                yield ansi_style(text, style, color=color) + "\n"


def _head(stored: StoredSession, forks: Sequence[str]) -> Iterator[tuple[Style, str]]:
    meta = stored.meta
    yield "bold", f"session {stored.id}{f' {one_line(stored.name, 80)}' if stored.name else ''}"
    facts = [
        format_status(stored.status, stored.holder or stored.reason),
        one_line(meta.model, 80),
        plural(meta.message_count, "message"),
        plural(meta.usage.total_tokens or 0, "token"),
        f"started {format_time(meta.created_at)}" if meta.created_at else "",
        f"forked from {stored.parent}" if stored.parent else "",
    ]
    yield "dim", ", ".join(filter(None, facts))
    if forks:
        yield "dim", f"forks: {', '.join(forks)}"


def _format(item: TranscriptItem) -> tuple[Style, str]:
    name, line = one_line(item.name, 80), one_line(item.text, _LINE_LENGTH)
    number = f" ({item.number})" if item.number else ""
    reason = f": {line}" if line else ""
    match item.kind:
        case "heading":
            return "bold", f"\n{name}{number}"
        case "text":
            return "", _indent(item.text)
        case "thinking":
            return "dim", f"  (thinking)\n{_indent(item.text)}" if item.text else "  (thinking, hidden by the provider)"
        case "part":
            return "dim", f"  {line}"
        case "call":
            assert item.call is not None
            return "", "\n".join([f"  > {name}", *(f"    {argument}" for argument in argument_lines(item.call))])
        case "result":
            return _result(item, name)
        case "loss":
            return "yellow", f"  lost: {line}"
        case "unknown":
            return "yellow", f"\n[entry {item.number}: {name}, of a later version] {line}"
        case "failure":
            return "red", f"\n! {'no summary' if item.outcome else 'request failed'}: {line}"
        case "approval":
            return "dim", f"  ? {name} {item.outcome}{reason}"
        case "sub-session":
            return "dim", f"    answered in session {name}"
        case "switch":
            return "yellow", f"\n[switched to {name}]"
        case "model":
            return "dim", f"\n[model: {name}]"
        case "metadata":
            return "dim", f"\n[metadata: {line}]"
        case "compaction":
            return "yellow", f"\n[{compaction_text(item)}{_FULL if item.outcome == 'covered' else ''}]"
        case "cut":
            return "yellow", f"  [ended: {line}]"
        case "end":
            return "dim", f"\n[{name}{reason}]"


def _result(item: TranscriptItem, name: str) -> tuple[Style, str]:
    lines = escape_control(item.text).rstrip("\n").split("\n")
    if len(lines) > _RESULT_LINES:
        lines[_RESULT_LINES:] = [f"({plural(len(lines) - _RESULT_LINES, 'more line')}: tenuto show --json has them)"]
    mark = "!" if item.is_error else "<"
    how = "" if item.outcome in ("done", "failed") else f" [{item.outcome}]"
    text = "\n".join(f"    {line}" for line in lines)
    return ("red" if item.is_error else ""), f"  {mark} {name}{how}\n{text}"


def _indent(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in escape_control(text).rstrip("\n").split("\n"))
