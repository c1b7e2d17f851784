"""The items of a session for people, in the order of the journal: `show` prints them as text, `export` as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from tenuto.cli.errors import plural
from tenuto.cli.session.events import content_text, format_part
from tenuto.cli.session.losses import format_loss
from tenuto.cli.store import format_status
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
    MetadataChanged,
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

Kind = Literal[
    "heading", "text", "thinking", "part", "call", "result", "loss", "unknown",
    "failure", "approval", "sub-session", "switch", "model", "metadata", "compaction", "cut", "end",
]  # fmt: skip


class TranscriptItem(NamedTuple):
    kind: Kind
    text: str = ""
    name: str = ""
    """A tool, a model, a session or an entry type."""
    number: int = 0
    """The number of a message, by which a session can be forked, or of an entry."""
    outcome: str = ""
    is_error: bool = False
    call: ToolCallView | None = None


def transcript_items(entries: Iterable[Entry], held: Compacted | None = None) -> Iterator[TranscriptItem]:
    """Yield the items. Those that the compaction `held` covers are replaced by its summary."""
    walk = _Walk(held)
    for entry in entries:
        yield from walk.items(entry)


class _Walk:
    """Follows a journal: a result names its call only by its index."""

    def __init__(self, held: Compacted | None) -> None:
        self._held = held
        self._calls: tuple[ToolCallView, ...] = ()
        self._model = ""
        self._fold = TranscriptFold()

    def items(self, entry: Entry) -> Iterator[TranscriptItem]:
        payload = entry.payload
        self._fold.apply(entry)
        held = self._held
        if held is not None and entry.seq <= held.up_to_seq:
            if isinstance(payload, ReplyReceived):
                self._calls = tuple(payload.message.tool_calls())
            elif isinstance(payload, Configured):
                self._model = payload.model
            if entry.seq == held.up_to_seq:
                yield from _compaction_items(held, "covered")
            return
        match payload:
            case CallFinished() if held is not None and entry.seq in held.cleared:
                yield TranscriptItem("result", CLEARED, self._name(payload.call_index), outcome="done")
            case UnknownPayload():
                yield TranscriptItem("unknown", payload.raw, payload.kind, entry.seq)
            case ReplyReceived():
                yield from self._reply(payload)
            case CallFinished():
                text, name = content_text(payload.result.content), self._name(payload.call_index)
                yield TranscriptItem("result", text, name, outcome=payload.outcome, is_error=payload.result.is_error)
            case MessageAdded() | SteeringAdded():
                yield from _message_items(payload.message, len(self._fold))
            case _:
                yield from self._other(payload)

    def _other(self, payload: EntryPayload) -> Iterator[TranscriptItem]:
        match payload:
            case Configured():
                if self._model and self._model != payload.model:
                    yield TranscriptItem("model", name=payload.model)
                if payload.system and not self._model:
                    yield TranscriptItem("heading", name="system")
                    yield TranscriptItem("text", payload.system)
                self._model = payload.model
            case RequestFailed():
                yield TranscriptItem("failure", f"{payload.error}: {payload.message}", outcome=payload.purpose)
            case ApprovalDecided():
                outcome = "allowed" if payload.allowed else "denied"
                yield TranscriptItem("approval", payload.reason, self._name(payload.call_index), outcome=outcome)
            case SubSessionLinked():
                yield TranscriptItem("sub-session", name=payload.session)
            case MetadataChanged():
                pairs = ", ".join(f"{key}={value}" for key, value in payload.metadata.items())
                yield TranscriptItem("metadata", pairs)
            case HandedOver():
                yield TranscriptItem("switch", name=payload.model)
                yield from map(_loss_item, payload.losses)
            case LossRecorded():
                yield _loss_item(payload.loss)
            case Compacted():
                if self._held is None:
                    yield from _compaction_items(payload)
            case RunEnded():
                yield TranscriptItem("end", payload.detail, format_status(payload.reason, payload.waiting_for))

    def _reply(self, payload: ReplyReceived) -> Iterator[TranscriptItem]:
        message = payload.message
        self._calls = tuple(message.tool_calls())
        yield TranscriptItem("heading", name=self._model or "model", number=len(self._fold), outcome="reply")
        for block in message.blocks:
            yield from _block_items(block)
        if message.stop_reason in ("length", "content_filter", "error"):
            yield TranscriptItem("cut", message.stop_reason)
        yield from map(_loss_item, payload.losses)

    def _name(self, ordinal: int) -> str:
        return self._calls[ordinal].name if 0 <= ordinal < len(self._calls) else f"call {ordinal}"


def _block_items(block: Block) -> Iterator[TranscriptItem]:
    if isinstance(block, Reasoning):
        yield TranscriptItem("thinking", block.text)
    elif isinstance(block, Text | Refusal):
        if block.text.strip():
            yield TranscriptItem("text", block.text)
    elif isinstance(block, ToolUse):
        view = ToolCallView(block.id, block.name, block.args, block.kind, block.args_error)
        yield TranscriptItem("call", block.args, block.name, call=view)
    elif (line := format_part(block)) is not None:
        yield TranscriptItem("part", line)


def _message_items(message: Message, number: int = 0) -> Iterator[TranscriptItem]:
    if isinstance(message, UserMessage):
        role, text = "user", content_text(message.content)
    else:
        role, text = ("model" if isinstance(message, AssistantMessage) else "system"), str(message)
    yield TranscriptItem("heading", name=role, number=number)
    yield TranscriptItem("text", text)


def _compaction_items(payload: Compacted, outcome: str = "") -> Iterator[TranscriptItem]:
    if payload.is_undo:
        yield TranscriptItem("compaction", outcome="undone")
        return
    if payload.up_to_seq:
        yield TranscriptItem("compaction", number=payload.up_to_seq, outcome=outcome)
        for message in payload.messages:
            yield from _message_items(message)
        if not payload.messages:
            yield TranscriptItem("text", payload.summary or "(only its provider can read the summary)")
    if payload.cleared:
        yield TranscriptItem("compaction", number=len(payload.cleared), outcome="cleared")


def compaction_text(item: TranscriptItem) -> str:
    if item.outcome == "undone":
        return "the whole conversation is sent again from here on"
    if item.outcome == "cleared":
        return f"{plural(item.number, 'tool result')} not sent any more"
    return f"summary of the entries up to {item.number}"


def _loss_item(loss: Loss) -> TranscriptItem:
    return TranscriptItem("loss", format_loss(loss))
