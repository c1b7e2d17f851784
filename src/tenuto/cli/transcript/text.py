"""A session as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenuto.cli.errors import plural
from tenuto.cli.session.call_view import argument_lines
from tenuto.cli.terminal.output import Style, ansi_style
from tenuto.cli.terminal.text import escape_control, one_line
from tenuto.cli.transcript.items import TranscriptItem, session_facts, transcript_items
from tenuto.core.journal import Entry, TranscriptFold
from tenuto.store.protocol import StoredSession

_RESULT_LINES = 40  # the lines of a result that are shown
_LINE_LENGTH = 400
_NOTES: dict[str, tuple[Style, str]] = {
    "part": ("dim", "  {}"),
    "loss": ("yellow", "  {}"),
    "failure": ("red", "\n! {}"),
    "approval": ("dim", "  ? {}"),
    "sub-session": ("dim", "    {}"),
    "change": ("yellow", "\n[{}]"),
    "cut": ("yellow", "  [{}]"),
    "end": ("dim", "\n[{}]"),
}


def format_session(
    stored: StoredSession,
    entries: Sequence[Entry],
    forks: Sequence[str],
    *,
    thinking: bool,
    color: bool,
    full: bool = False,
    columns: int = 0,
) -> Iterator[str]:
    """Yield lines whose only control sequences are colors. `forks` are the sessions that were forked from this one.

    Entries that a summary covers are omitted unless `full`. Markdown is rendered for a window of `columns`, if given.
    """
    held = None if full else TranscriptFold(entries).compacted
    items = (item for item in transcript_items(entries, held) if thinking or item.kind != "thinking")
    head: tuple[tuple[Style, str], ...] = (
        ("bold", f"session {stored.id} {one_line(stored.name, 80)}".rstrip()),
        ("dim", session_facts(stored, lambda name: one_line(name, 80))),
        ("dim", f"forks: {', '.join(forks)}" if forks else ""),
    )
    for style, text in head:
        if text:
            yield f"{ansi_style(text, style, color=color)}\n"
    for item in items:
        if columns and item.kind == "text":
            yield from (f"  {line}".rstrip() + "\n" for line in _render(item.text, columns - 2, color=color))
            continue
        style, text = _format(item)
        if text:
            yield f"{ansi_style(text, style, color=color)}\n"


def _render(text: str, columns: int, *, color: bool) -> Iterator[str]:
    from tenuto.cli.terminal.markdown import render_block, split_blocks  # imports rich

    for number, block in enumerate(filter(str.strip, split_blocks(escape_control(text) + "\n"))):
        yield from ["", *render_block(block, columns, color=color)][number == 0 :]


def _format(item: TranscriptItem) -> tuple[Style, str]:
    name, line = one_line(item.name, 80), one_line(item.text, _LINE_LENGTH)
    match item.kind:
        case "heading":
            return "bold", f"\n{name} ({item.number})" if item.number else f"\n{name}"
        case "text":
            return "", _indent(item.text)
        case "thinking":
            return "dim", f"  (thinking)\n{_indent(item.text)}" if item.text else "  (thinking, hidden by the provider)"
        case "call":
            assert item.call is not None
            return "", "\n".join([f"  > {name}", *(f"    {argument}" for argument in argument_lines(item.call))])
        case "result":
            return _result(item, name)
        case "unknown":
            return "yellow", f"\n[entry {item.number}: {name}, of a later version] {line}"
        case kind:
            style, note = _NOTES[kind]
            return style, note.format(line)


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
