"""The items of a session for people, in the order of the journal: `show` prints them as text, `export` as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from tenuto.cli.errors import plural
from tenuto.cli.session.events import content_text, format_part
from tenuto.cli.store import format_status, format_time
from tenuto.core import journal
from tenuto.core.blocks import Block, Reasoning, Refusal, Text, ToolUse
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Message, ToolCallView, UserMessage
from tenuto.store.protocol import StoredSession

Kind = Literal[
    "heading", "text", "thinking", "call", "result", "unknown",
    "part", "loss", "failure", "approval", "sub-session", "change", "cut", "end",
]  # fmt: skip


class TranscriptItem(NamedTuple):
    kind: Kind
    text: str = ""
    name: str = ""  # a role, a model, a tool or an entry type
    number: int = 0  # the number of a message, by which a session can be forked, or of an entry
    outcome: str = ""
    is_error: bool = False
    call: ToolCallView | None = None


def session_facts(stored: StoredSession, quote: Callable[[str], str]) -> str:
    """Return what is known of a session as one line; `quote` is applied to names."""
    meta = stored.meta
    facts = (
        format_status(stored.status, stored.holder or stored.reason, meta.message_count),
        quote(meta.model),
        plural(meta.message_count, "message"),
        plural(meta.usage.total_tokens or 0, "token"),
        f"started {format_time(meta.created_at)}" if meta.created_at else "",
        f"forked from {quote(stored.parent)}" if stored.parent else "",
    )
    return ", ".join(filter(None, facts))


def transcript_items(
    entries: Iterable[journal.Entry], held: journal.Compacted | None = None
) -> Iterator[TranscriptItem]:
    """Yield the items. Those that the compaction `held` covers are replaced by its summary."""
    calls: tuple[ToolCallView, ...] = ()
    model = ""
    fold = journal.TranscriptFold()

    def call_name(index: int) -> str:
        return calls[index].name if 0 <= index < len(calls) else f"call {index}"

    for entry in entries:
        fold.apply(entry)
        covered = held is not None and entry.seq <= held.up_to_seq
        match entry.payload:
            case journal.ReplyReceived(message=message) if covered:
                calls = tuple(message.tool_calls())
            case journal.Configured() as config if covered:
                model = config.model
            case _ if covered:
                pass
            case journal.CallFinished() as done if held is not None and entry.seq in held.cleared:
                yield TranscriptItem("result", journal.CLEARED, call_name(done.call_index), outcome="done")
            case journal.UnknownPayload() as unknown:
                yield TranscriptItem("unknown", unknown.raw, unknown.kind, entry.seq)
            case journal.Configured() as config:
                if model and model != config.model:
                    yield TranscriptItem("change", f"model: {config.model}")
                if config.system and not model:
                    yield TranscriptItem("heading", name="system")
                    yield TranscriptItem("text", config.system)
                model = config.model
            case journal.MessageAdded(message=message) | journal.SteeringAdded(message=message):
                yield from _message_items(message, len(fold))
            case journal.ReplyReceived(message=message, losses=losses):
                calls = tuple(message.tool_calls())
                yield TranscriptItem("heading", name=model or "model", number=len(fold), outcome="reply")
                for block in message.blocks:
                    yield from _block_items(block)
                if message.stop_reason in ("length", "content_filter", "error"):
                    yield TranscriptItem("cut", f"ended: {message.stop_reason}")
                yield from map(_loss_item, losses)
            case journal.CallFinished(result=result) as done:
                text, name = content_text(result.content), call_name(done.call_index)
                yield TranscriptItem("result", text, name, outcome=done.outcome, is_error=result.is_error)
            case journal.RequestFailed() as failed:
                what = "no summary" if failed.purpose else "request failed"
                yield TranscriptItem("failure", f"{what}: {failed.error}: {failed.message}")
            case journal.MetadataChanged(metadata=metadata):
                pairs = ", ".join(f"{key}={value}" for key, value in metadata.items())
                yield TranscriptItem("change", f"metadata: {pairs}")
            case journal.ApprovalDecided() as decided:
                text = f"{call_name(decided.call_index)} {'allowed' if decided.allowed else 'denied'}"
                yield TranscriptItem("approval", f"{text}: {decided.reason}" if decided.reason else text)
            case journal.SubSessionLinked(session=session):
                yield TranscriptItem("sub-session", f"answered in session {session}")
            case journal.HandedOver(losses=losses) as handover:
                yield TranscriptItem("change", f"switched to {handover.model}")
                yield from map(_loss_item, losses)
            case journal.LossRecorded(loss=loss):
                yield _loss_item(loss)
            case journal.Compacted() as compacted if held is None:
                yield from _compaction_items(compacted)
            case journal.RunEnded() as ended:
                status = format_status(ended.reason, ended.waiting_for)
                yield TranscriptItem("end", f"{status}: {ended.detail}" if ended.detail else status)
        if held is not None and entry.seq == held.up_to_seq:
            yield from _compaction_items(held, "; tenuto show --full has them")


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


def _compaction_items(compacted: journal.Compacted, hint: str = "") -> Iterator[TranscriptItem]:
    if compacted.is_undo:
        yield TranscriptItem("change", "the whole conversation is sent again from here on")
        return
    if compacted.up_to_seq:
        yield TranscriptItem("change", f"summary of the entries up to {compacted.up_to_seq}{hint}")
        for message in compacted.messages:
            yield from _message_items(message)
        if not compacted.messages:
            yield TranscriptItem("text", compacted.summary or "(only its provider can read the summary)")
    if compacted.cleared:
        yield TranscriptItem("change", f"{plural(len(compacted.cleared), 'tool result')} not sent any more")


def _loss_item(loss: Loss) -> TranscriptItem:
    return TranscriptItem("loss", f"lost: {loss.detail} ({loss.location}){f'; {loss.remedy}' if loss.remedy else ''}")
