"""A session as a Markdown document for people; an export as JSONL is lossless.

Text of models, tools and users cannot change the structure of the document: it is quoted or fenced, and HTML is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt

from tenuto.cli.session.events import content_text, format_part
from tenuto.cli.session.result import format_loss
from tenuto.cli.store import format_status, format_time
from tenuto.cli.terminal.text import escape_control, one_line
from tenuto.core.blocks import Block, Reasoning, Refusal, Text, ToolUse
from tenuto.core.journal import (
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
from tenuto.core.messages import AssistantMessage, Message, UserMessage
from tenuto.store.protocol import StoredSession

_LINE = 400
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&!])")
_TICKS = re.compile(r"`+")
_PARSER = MarkdownIt("commonmark")
_PARSER.core.ruler.disable(["inline", "text_join"])


def session_markdown(stored: StoredSession, entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the document, piece by piece."""
    meta = stored.meta
    facts = [
        f"session {inline_code(stored.id)}",
        format_status(stored.status, stored.reason),
        inline_code(meta.model),
        f"{meta.message_count} messages",
    ]
    facts += [f"begun {format_time(meta.created_at)}"] if meta.created_at else []
    facts += [f"forked off {inline_code(stored.parent)}"] if stored.parent else []
    yield f"# {escape_markdown(stored.name or meta.title, 120) or 'A session'}\n\n"
    yield f"{', '.join(fact for fact in facts if fact)}\n"
    page = _MarkdownDocument()
    for entry in entries:
        for piece in page.entry(entry):
            yield f"\n{piece}"


# --- what cannot break out --------------------------------------------------------------------------------------------


def escape_markdown(text: str, most: int = _LINE) -> str:
    """Return a text as one line of the document's own, in which nothing is Markdown."""
    return _SPECIAL.sub(r"\\\1", one_line(text, most))


def inline_code(text: str) -> str:
    """Return a name as code within a line; empty stays empty."""
    line = one_line(text, _LINE)
    if not line:
        return ""
    ticks = "`" * (1 + max(map(len, _TICKS.findall(line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def fence(text: str, kind: str = "text") -> str:
    """Return a text in a fence that nothing in it can end."""
    body = escape_control(text)  # also lone carriage returns, which end a line for some who read Markdown
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


# --- the document -----------------------------------------------------------------------------------------------------


class _MarkdownDocument:
    """Follows a journal, since a result names its call only by its place."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._model = ""
        self._fold = TranscriptFold()

    def entry(self, entry: Entry) -> Iterator[str]:
        """Yield what an entry comes to; most of those that only keep the books come to nothing."""
        act = entry.payload
        self._fold.apply(entry)
        if isinstance(act, UnknownPayload):
            yield f"Entry {entry.seq}, of a later version of tenuto: {inline_code(act.kind)}\n"
            yield fence(act.raw, "json")
        elif isinstance(act, ReplyReceived):
            yield from self._reply(act)
        elif isinstance(act, CallFinished):
            yield from self._result(act)
        elif isinstance(act, MessageAdded | SteeringAdded):
            yield from _format_message(act.message, f" ({len(self._fold)})")
        else:
            yield from self._rest(act)

    def _rest(self, act: EntryPayload) -> Iterator[str]:
        if isinstance(act, Configured):
            yield from self._configured(act)
        elif isinstance(act, RequestFailed):
            what = "No summary" if act.purpose else "Asking failed"
            yield f"{what}: {escape_markdown(f'{act.error}: {act.message}')}\n"
        elif isinstance(act, ApprovalDecided):
            why = f": {escape_markdown(act.reason)}" if act.reason else ""
            yield f"{self._name(act.call_index)} was {'allowed' if act.allowed else 'denied'}{why}\n"
        elif isinstance(act, SubSessionLinked):
            yield f"Answered in session {inline_code(act.session)}\n"
        elif isinstance(act, HandedOver):
            yield f"Handed over to {inline_code(act.model)}\n"
            yield from map(_format_loss, act.losses)
        elif isinstance(act, LossRecorded):
            yield _format_loss(act.loss)
        elif isinstance(act, Compacted):
            yield from _format_cut(act)
        elif isinstance(act, RunEnded):
            reason = format_status(act.reason, act.waiting_for)
            yield f"---\n\nEnded: {escape_markdown(reason)}{f': {escape_markdown(act.detail)}' if act.detail else ''}\n"

    def _configured(self, act: Configured) -> Iterator[str]:
        if self._model and self._model != act.model:
            yield f"Asks {inline_code(act.model)} from here on\n"
        if act.system and not self._model:
            yield "## system\n"
            yield blockquote(act.system)
        self._model = act.model

    def _reply(self, act: ReplyReceived) -> Iterator[str]:
        message = act.message
        self._names = tuple(call.name for call in message.tool_calls())
        yield f"## {inline_code(self._model) or 'model'} ({len(self._fold)})\n"
        for block in message.blocks:
            yield from _format_block(block)
        if message.stop_reason in ("length", "content_filter", "error"):
            yield f"Cut off: {message.stop_reason}\n"
        yield from map(_format_loss, act.losses)

    def _result(self, act: CallFinished) -> Iterator[str]:
        how = "" if act.outcome == "done" else f" ({escape_markdown(act.outcome)})"
        yield f"Result of {self._name(act.call_index)}{how}:\n"
        yield fence(content_text(act.result.content))

    def _name(self, ordinal: int) -> str:
        return inline_code(self._names[ordinal]) if 0 <= ordinal < len(self._names) else f"call {ordinal}"


def _format_block(block: Block) -> Iterator[str]:
    if isinstance(block, Reasoning):
        if block.text:
            yield f"<details>\n<summary>Thinking</summary>\n\n{fence(block.text)}\n</details>\n"
        else:
            yield "Thinking, which is withheld\n"
    elif isinstance(block, Text | Refusal):
        if block.text.strip():
            yield blockquote(block.text)
    elif isinstance(block, ToolUse):
        yield f"Calls {inline_code(block.name)}:\n"
        yield fence(block.args, "json")
    elif (line := format_part(block)) is not None:
        yield f"{escape_markdown(line)}\n"


def _format_cut(compacted: Compacted) -> Iterator[str]:
    if compacted.is_undo:
        yield "The whole conversation is sent again from here on\n"
        return
    if compacted.up_to_seq:
        yield f"Entries up to {compacted.up_to_seq} are summarized from here on:\n"
        for message in compacted.messages:
            yield from _format_message(message)
        if not compacted.messages:
            yield blockquote(compacted.summary or "(the summary is readable for its provider only)")
    if compacted.cleared:
        yield f"{len(compacted.cleared)} tool results are no longer sent\n"


def _format_message(message: Message, number: str = "") -> Iterator[str]:
    if isinstance(message, UserMessage):
        who, text = "user", content_text(message.content)
    else:
        who, text = ("model" if isinstance(message, AssistantMessage) else "system"), str(message)
    yield f"## {who}{number}\n"
    if text.strip():
        yield blockquote(text)


def _format_loss(loss: Loss) -> str:
    return f"- lost: {escape_markdown(format_loss(loss))}\n"
