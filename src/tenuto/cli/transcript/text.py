"""A session as text for a terminal: messages, thinking, calls, results, losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenuto.cli.session.events import content_text, format_call_lines, format_part
from tenuto.cli.session.result import format_loss
from tenuto.cli.store import format_status, format_time
from tenuto.cli.terminal.output import Style, ansi_style
from tenuto.cli.terminal.text import escape_control, one_line
from tenuto.core.blocks import Block, Reasoning, Refusal, Text, ToolUse
from tenuto.core.journal import (
    CLEARED,
    ApprovalDecided,
    CallFinished,
    Compacted,
    Configured,
    Entry,
    EntryPayload,
    HandedOver,
    LossRecorded,
    MessageAdded,
    ReplyReceived,
    RequestFailed,
    RunEnded,
    SteeringAdded,
    SubSessionLinked,
    TranscriptFold,
    UnknownPayload,
)
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Message, ToolCallView, UserMessage
from tenuto.store.protocol import StoredSession

_RESULT_LINES = 40
"""How many lines of a result are shown."""
_LINE_LENGTH = 400


def format_session(
    stored: StoredSession,
    entries: Sequence[Entry],
    forks: Sequence[str],
    *,
    thinking: bool,
    color: bool,
    full: bool = False,
) -> Iterator[str]:
    """Yield the page, piece by piece, each with its line's end. Nothing in it can be obeyed by a terminal but colors.

    Entries that a summary covers are left out unless `full`. `forks` are the sessions that were forked off it. Messages have the numbers by which a session can be forked.
    """
    held = None if full else TranscriptFold(entries).compacted
    page = _SessionText(held, thinking=thinking)
    for style, text in _format_head(stored, forks):
        yield ansi_style(text, style, color=color) + "\n"
    for entry in entries:
        for style, text in page.entry(entry):
            yield ansi_style(text, style, color=color) + "\n"


Piece = tuple[Style, str]


def _format_head(stored: StoredSession, forks: Sequence[str]) -> Iterator[Piece]:
    meta = stored.meta
    state = format_status(stored.status, stored.holder or stored.reason)
    yield "bold", f"session {stored.id}{f' {one_line(stored.name, 80)}' if stored.name else ''}"
    total = meta.usage.total_tokens
    facts = [state, one_line(meta.model, 80), f"{meta.message_count} messages", f"{total or 0} tokens"]
    facts += [f"begun {format_time(meta.created_at)}"] if meta.created_at else []
    facts += [f"forked off {stored.parent}"] if stored.parent else []
    yield "dim", ", ".join(filter(None, facts))
    if forks:
        yield "dim", f"forked off it: {', '.join(forks)}"


class _SessionText:
    """Follows a journal, since a result names its call only by its place."""

    def __init__(self, held: Compacted | None, *, thinking: bool) -> None:
        self._held = held
        """The compaction whose covered entries are left out."""
        self._thinking = thinking
        self._calls: tuple[ToolCallView, ...] = ()
        self._model = ""
        self._fold = TranscriptFold()

    def entry(self, entry: Entry) -> Iterator[Piece]:
        """Yield what an entry comes to; most of those that only keep the books come to nothing."""
        act = entry.payload
        self._fold.apply(entry)
        held = self._held
        if held is not None and entry.seq <= held.up_to_seq:
            if isinstance(act, ReplyReceived):
                self._calls = tuple(act.message.tool_calls())
            if entry.seq == held.up_to_seq:
                yield from _format_cut(held, "tenuto show --full has them")
        elif isinstance(act, CallFinished) and held is not None and entry.seq in held.cleared:
            yield "dim", f"  < {self._name(act.call_index)}\n    {CLEARED}"
        elif isinstance(act, UnknownPayload):
            yield (
                "yellow",
                f"\n[entry {entry.seq}: {one_line(act.kind, 40)}, of a later version] {one_line(act.raw, _LINE_LENGTH)}",
            )
        elif isinstance(act, ReplyReceived):
            yield from self._reply(act)
        elif isinstance(act, CallFinished):
            yield from self._result(act)
        elif isinstance(act, MessageAdded | SteeringAdded):
            yield from _format_message(act.message, f" ({len(self._fold)})")
        else:
            yield from self._rest(act)

    def _rest(self, act: EntryPayload) -> Iterator[Piece]:
        if isinstance(act, Configured):
            yield from self._configured(act)
        elif isinstance(act, RequestFailed):
            what = "no summary" if act.purpose else "asking failed"
            yield "red", f"\n! {what}: {act.error}: {one_line(act.message, _LINE_LENGTH)}"
        elif isinstance(act, ApprovalDecided):
            why = f": {one_line(act.reason, _LINE_LENGTH)}" if act.reason else ""
            yield "dim", f"  ? {self._name(act.call_index)} {'allowed' if act.allowed else 'denied'}{why}"
        elif isinstance(act, SubSessionLinked):
            yield "dim", f"    answered in session {act.session}"
        elif isinstance(act, HandedOver):
            yield "yellow", f"\n[handed over to {one_line(act.model, 80)}]"
            yield from map(_format_loss, act.losses)
        elif isinstance(act, LossRecorded):
            yield _format_loss(act.loss)
        elif isinstance(act, Compacted):
            if self._held is None:
                yield from _format_cut(act, "from here on")
        elif isinstance(act, RunEnded):
            detail = f": {one_line(act.detail, _LINE_LENGTH)}" if act.detail else ""
            yield "dim", f"\n[{one_line(format_status(act.reason, act.waiting_for), 40)}{detail}]"

    def _configured(self, act: Configured) -> Iterator[Piece]:
        if self._model and self._model != act.model:
            yield "dim", f"\n[asks {one_line(act.model, 80)} from here on]"
        if act.system and not self._model:
            yield "bold", "\nsystem"
            yield "", _indent(act.system)
        self._model = act.model

    def _reply(self, act: ReplyReceived) -> Iterator[Piece]:
        message = act.message
        self._calls = tuple(message.tool_calls())
        yield "bold", f"\n{one_line(self._model, 80) or 'model'} ({len(self._fold)})"
        for block in message.blocks:
            yield from self._block(block)
        if message.stop_reason in ("length", "content_filter", "error"):
            yield "yellow", f"  [ended: {message.stop_reason}]"
        yield from map(_format_loss, act.losses)

    def _block(self, block: Block) -> Iterator[Piece]:
        if isinstance(block, Reasoning):
            if self._thinking:
                yield (
                    "dim",
                    f"  (thinking)\n{_indent(block.text)}" if block.text else "  (thinking, which is withheld)",
                )
        elif isinstance(block, Text | Refusal):
            if block.text:
                yield "", _indent(block.text)
        elif isinstance(block, ToolUse):
            view = ToolCallView(block.id, block.name, block.args, block.kind, block.args_error)
            first, *rest = format_call_lines(view)
            yield "", "\n".join([f"  > {first}", *(f"  {line}" for line in rest)])
        elif (line := format_part(block)) is not None:
            yield "dim", f"  {line}"

    def _name(self, ordinal: int) -> str:
        return one_line(self._calls[ordinal].name, 60) if 0 <= ordinal < len(self._calls) else f"call {ordinal}"

    def _result(self, act: CallFinished) -> Iterator[Piece]:
        lines = escape_control(content_text(act.result.content)).rstrip("\n").split("\n")
        kept = lines[:_RESULT_LINES]
        if len(lines) > _RESULT_LINES:
            kept.append(f"({len(lines) - _RESULT_LINES} more lines: tenuto show --json has them)")
        mark = "!" if act.result.is_error else "<"
        how = "" if act.outcome in ("done", "failed") else f" [{act.outcome}]"
        text = "\n".join(f"    {line}" for line in kept)
        yield ("red" if act.result.is_error else ""), f"  {mark} {self._name(act.call_index)}{how}\n{text}"


def _format_cut(compacted: Compacted, note: str) -> Iterator[Piece]:
    if compacted.is_undo:
        yield "yellow", "\n[the whole conversation is sent again from here on]"
        return
    if compacted.up_to_seq:
        yield "yellow", f"\n[entries up to {compacted.up_to_seq} are summarized; {note}]"
        for message in compacted.messages:
            yield from _format_message(message)
        if not compacted.messages:
            yield "dim", _indent(compacted.summary or "(the summary is readable for its provider only)")
    if compacted.cleared:
        yield "yellow", f"\n[{len(compacted.cleared)} tool results are no longer sent]"


def _format_message(message: Message, number: str = "") -> Iterator[Piece]:
    if isinstance(message, UserMessage):
        who, text = "user", content_text(message.content)
    else:
        who, text = ("model" if isinstance(message, AssistantMessage) else "system"), str(message)
    yield "bold", f"\n{who}{number}"
    yield "", _indent(text)


def _format_loss(loss: Loss) -> Piece:
    return "yellow", f"  lost: {one_line(format_loss(loss), _LINE_LENGTH)}"


def _indent(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in escape_control(text).rstrip("\n").split("\n"))
