"""The journal of a session: its entries, and the folds over them.

An `Entry` is a payload with a sequence number, a time, a fence, the id of its draft and the digest of its bytes. Entries
are only appended. Transcript, usage, open calls and the summary of a session are pure functions of the entries; there is
no other state.

An entry of a kind that a later version has added is an `UnknownPayload`: it can be shown and copied, but this version does
not resume its session (`unknown_payloads_in`).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from tenuto.core import jsonio
from tenuto.core.blocks import ToolUse, Value
from tenuto.core.loss import Loss
from tenuto.core.messages import (
    AssistantMessage,
    Message,
    Origin,
    ToolCallView,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    summary_block,
)
from tenuto.core.summary import SUMMARY_HEADER
from tenuto.core.transcript import Transcript

VERSION = 4
"""The version of the entries that this library writes. docs/journal.md says when to raise it."""
OLDEST_VERSION = 3
"""The earliest version that this library reads: its entries mean the same in this version. Earlier ones are refused."""


class _Payload(Value, frozen=True, tag_field="entry"):
    pass


class Configured(_Payload, frozen=True, tag="configured"):
    """The configuration of the session: its first entry, written again after each change."""

    model: str
    system: str = ""
    """The system prompt."""
    parameters: str = ""
    """The other fields of `ChatRequest` as the text of a JSON object."""
    tools: str = ""
    """The tool definitions as the text of a JSON array."""
    agent: str = ""
    """The name of the agent."""
    allow_unverified: bool = False
    """Whether the agent may use a model that it would refuse."""
    roots: str = ""
    """The absolute working directories of tools by the name of the tool, as the text of a JSON object."""
    scope: Literal["session", "run"] = "session"
    """`run`: the configuration of one run. The next run has that of the session again, unless it has its own."""
    limits: str = ""
    """The limits of a run that has its own, as the text of a JSON object."""
    output_mode: Literal["", "text", "native", "tool", "prompt"] = ""
    """How the output is requested. Empty: any reply ends the run; otherwise, the run ends after the output was checked."""
    output_schema: str = ""
    """The JSON Schema of the output as text; empty for text."""
    output_request: str = ""
    """The part of the request that asks for it: the `JsonSchema` or the `ToolDefinition` as the text of a JSON object, or the
    text after the system prompt."""


class MessageAdded(_Payload, frozen=True, tag="message_added"):
    """A message that is not from the model, usually from the user."""

    message: Message
    key: str = ""
    """The idempotency key of `send(key=...)`: a message with the same key is added once."""


class RequestStarted(_Payload, frozen=True, tag="request_started"):
    """A request is about to be sent."""

    model: str
    digest: str = ""
    """The SHA-256 of the request body; empty: the request was not encoded."""
    encoder_version: int = 0
    """The version of the encoder. Only requests of the same version can be compared."""
    attempt: int = 1
    account: str = ""
    """The fingerprint of the key."""


class ReplyReceived(_Payload, frozen=True, tag="reply_received"):
    message: AssistantMessage
    usage: Usage | None = None
    losses: tuple[Loss, ...] = ()
    """The parts of the request or the reply that could not be carried."""
    response_id: str = ""
    request_id: str = ""
    cost: str = ""
    """The cost in USD as a decimal number."""
    cache_miss_reason: str = ""
    """Why the provider did not read the prompt from its cache, in its own word; empty without a diagnosis."""


class RequestFailed(_Payload, frozen=True, tag="request_failed"):
    error: str
    """The class name of the error."""
    message: str = ""
    attempt: int = 1
    retryable: bool = False
    usage: Usage | None = None
    """The usage of the failed request, which is charged, too."""
    cost: str = ""
    """The cost in USD as a decimal number."""
    purpose: Literal["", "compaction"] = ""
    """`compaction`: the request asked for a summary, and the conversation continues without one."""


class CallStarted(_Payload, frozen=True, tag="call_started"):
    """A tool call is about to run."""

    call_id: str
    call_index: int
    """The index of the call in the last reply; ids may repeat."""
    name: str = ""
    idempotency_key: str = ""
    """The same for every attempt of this call."""
    effect: str = ""
    """The effect of the tool, which decides whether an interrupted call may run again."""
    attempt: int = 1
    pid: int = 0
    """The process that runs the call."""
    host: str = ""
    """The host of that process."""


class CallFinished(_Payload, frozen=True, tag="call_finished"):
    """The result of a tool call, also of one that was denied or interrupted."""

    result: ToolResult
    call_index: int
    """The index of the call in the last reply."""
    attempt: int = 1
    outcome: Literal["done", "failed", "denied", "interrupted", "cancelled", "unknown"] = "done"
    detail: str = ""
    """The problem in one word: `arguments`, `timeout`, ..."""
    usage: Usage | None = None
    """The usage of a sub-agent for this call. Its journal has the details; the limits of the caller count it."""
    cost: str = ""
    """The cost of a sub-agent in USD as a decimal number."""


class ApprovalRequested(_Payload, frozen=True, tag="approval_requested"):
    call_id: str
    call_index: int
    name: str = ""


class ApprovalDecided(_Payload, frozen=True, tag="approval_decided"):
    call_id: str
    call_index: int
    allowed: bool
    reason: str = ""


class SteeringAdded(_Payload, frozen=True, tag="steering_added"):
    """A message that was added during a run. The model receives it from this entry on, a turn boundary."""

    message: Message
    session: str = ""
    """The session of the background sub-agent whose result this is."""
    usage: Usage | None = None
    """The usage of that sub-agent."""
    cost: str = ""
    """The cost of that sub-agent in USD as a decimal number."""
    repair: bool = False
    """Whether the message asks for another output, because the last one was rejected."""
    instructions: bool = False
    """Whether the message has the agent's instructions for the run."""


class CompactionRequested(_Payload, frozen=True, tag="compaction_requested"):
    """A request for a summary is about to be sent. `Compacted` or `RequestFailed` follows, unless the process ends."""

    model: str
    up_to_seq: int
    """The sequence number of the last entry that the summary covers."""
    method: Literal["provider", "endpoint", "model", "function"] = "provider"
    """`provider`: a native compaction; `endpoint`: a native one at its own path; `model`: an ordinary request for a
    summary; `function`: the caller's function."""
    focus: str = ""
    """What the summary should emphasize."""
    budget: int = 0
    """The maximum number of tokens of the conversation in a request of the method `model`."""
    digest: str = ""
    """The SHA-256 of the request body; empty: the request was not encoded."""
    encoder_version: int = 0
    """The version of the encoder. Only requests of the same version can be compared."""
    account: str = ""
    """The fingerprint of the key."""


class Compacted(_Payload, frozen=True, tag="compacted"):
    """Later requests have a shorter form of older entries, which stay in the journal.

    The last such entry holds. One that covers nothing and clears nothing restores the whole conversation.
    """

    up_to_seq: int
    """The sequence number of the last entry that is covered; 0: none."""
    messages: tuple[Message, ...] = ()
    """Messages for any model instead of the covered entries; written by version 3 instead of `summary`."""
    reason: str = ""
    """`threshold`, `context`, `handover`, `refused` or `user`."""
    summary: str = ""
    """The text for any model instead of the covered entries; empty: not written."""
    native: tuple[AssistantMessage, ...] = ()
    """What a provider accepts instead of the covered entries, inside the scope of its `origin`. `origin.prefix` has the
    digests of the messages that it stands for, if the model binds its thinking to them."""
    inline: bool = False
    """Whether the provider made the summary in the reply that follows the covered entries: its first block."""
    cleared: tuple[int, ...] = ()
    """The sequence numbers of tool results whose content is left out of later requests."""
    usage: Usage | None = None
    """The usage of the request for the summary."""
    cost: str = ""
    """The cost of that request in USD as a decimal number."""
    model: str = ""
    """The model that wrote the summary."""

    @property
    def is_undo(self) -> bool:
        return not (self.up_to_seq or self.cleared or self.messages)


class HandedOver(_Payload, frozen=True, tag="handed_over"):
    model: str
    previous_model: str = ""
    losses: tuple[Loss, ...] = ()
    """The content that the new model does not receive."""


class LossRecorded(_Payload, frozen=True, tag="loss_recorded"):
    """A loss, such as a block that its own provider refused.

    Later requests leave out a refused block; if it has content of its own, they leave out only its token.
    """

    loss: Loss
    reply_seq: int = 0
    """The sequence number of the reply with the refused block."""
    block_index: int = 0
    """The index of the block in that reply."""


class SubSessionLinked(_Payload, frozen=True, tag="sub_session_linked"):
    """The session of a sub-agent that runs a call of this session."""

    session: str
    call_id: str = ""
    call_index: int = 0
    background_tool: str = ""
    """The name of the tool if the sub-agent runs in the background: its result arrives as a `SteeringAdded`."""


class MetadataChanged(_Payload, frozen=True, tag="metadata_changed"):
    """The keys and values that the user has given the session. They replace earlier ones."""

    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class RunEnded(_Payload, frozen=True, tag="run_ended"):
    """The run ended or waits."""

    reason: str
    """`completed`, `failed`, `cancelled` or `waiting`; `cancelling` while open calls get their results."""
    detail: str = ""
    """The limit or the error that ended the run."""
    waiting_for: Literal["", "approval", "input", "limit", "context"] = ""
    """What the run waits for, if `reason` is `waiting`."""


class UnknownPayload(msgspec.Struct, frozen=True, gc=False):
    kind: str
    raw: str
    """The exact JSON text."""


EntryPayload: TypeAlias = (
    Configured | MessageAdded | RequestStarted | ReplyReceived | RequestFailed | CallStarted | CallFinished
    | ApprovalRequested | ApprovalDecided | SteeringAdded | CompactionRequested | Compacted | HandedOver | LossRecorded
    | SubSessionLinked | MetadataChanged | RunEnded
)  # fmt: skip


class EntryDraft(msgspec.Struct, frozen=True, gc=False):
    """An entry to append; `stored.make_draft` makes it."""

    id: str
    """The writer's id of the entry: a draft that is sent twice is appended once."""
    time_ms: int
    """Milliseconds since 1970."""
    kind: str
    body: bytes
    """The stored bytes of `payload`."""
    payload: EntryPayload | UnknownPayload
    version: int = VERSION

    @property
    def digest(self) -> str:
        return sha256_hex(self.body)


class Entry(msgspec.Struct, frozen=True, gc=False):
    seq: int
    """The sequence number in the session, from 1."""
    id: str
    """The writer's id of the entry."""
    time_ms: int
    """Milliseconds since 1970."""
    fence: int
    """The number of the lease under which the entry was written."""
    kind: str
    body: bytes
    """The stored bytes of `payload`."""
    digest: str
    """The SHA-256 of `body`, computed when it was written; `verify` compares both."""
    payload: EntryPayload | UnknownPayload
    version: int = VERSION


def sha256_hex(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def payload_kind(payload: EntryPayload | UnknownPayload) -> str:
    """Return the kind of a payload: the value of `entry` in its stored form."""
    return payload.kind if isinstance(payload, UnknownPayload) else str(payload.__struct_config__.tag)


CLEARED = "(This result was removed to save space.)"
"""The content of a tool result that a compaction clears."""
Scope: TypeAlias = Callable[[Origin], bool]
"""Whether a target accepts the tokens of an origin."""


class _Row(NamedTuple):
    seq: int
    """The sequence number of the last entry of the message's turn."""
    message: Message
    result_seqs: tuple[int, ...] = ()
    """The sequence numbers of the tool results in the message."""


class TranscriptFold:
    """Builds the transcript from entries, one by one, and the form of it that a target receives.

    A turn is a reply with the results of its calls. A compaction covers a turn completely or not at all, so that no
    result loses its call. Each message therefore has the sequence number of the last entry of its turn.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.compacted: Compacted | None = None
        """The compaction that holds."""
        self._rows: list[_Row] = []
        self._expects_summary = False  # whether the next reply starts with a summary
        self._reply: AssistantMessage | None = None  # the last reply, until another message follows
        self._call_count = 0  # of that reply
        self._results: dict[int, tuple[int, ToolResult]] = {}  # by the index of the call: seq and result
        self._turn_seq = 0  # of the last entry of this turn
        self._inline: list[AssistantMessage] = []  # replies that start with a summary
        for entry in entries:
            self.apply(entry)

    def apply(self, entry: Entry) -> None:
        """Add an entry. The last result of a call wins; a result without a call is ignored."""
        payload = entry.payload
        if isinstance(payload, ReplyReceived | MessageAdded | SteeringAdded):
            self._rows += self._turn()
            self._reply = None
            if isinstance(payload, ReplyReceived):
                self._reply = payload.message
                self._call_count = sum([isinstance(block, ToolUse) for block in payload.message.blocks])
                self._results = {}
                self._turn_seq = entry.seq
                if self._expects_summary:
                    self._inline.append(payload.message)
                self._expects_summary = False
            else:
                self._rows.append(_Row(entry.seq, payload.message))
        elif isinstance(payload, CallFinished):
            if self._reply is not None and 0 <= payload.call_index < self._call_count:
                self._results[payload.call_index] = entry.seq, payload.result
                self._turn_seq = entry.seq
        elif isinstance(payload, Compacted):
            covered = min(payload.up_to_seq, entry.seq)
            self._expects_summary = payload.inline
            self.compacted = None if payload.is_undo else msgspec.structs.replace(payload, up_to_seq=covered)

    def _turn(self) -> tuple[_Row, ...]:
        if self._reply is None:
            return ()
        reply = _Row(self._turn_seq, self._reply)
        if not self._results:
            return (reply,)
        seqs, results = zip(*(self._results[index] for index in sorted(self._results)), strict=True)
        return reply, _Row(self._turn_seq, ToolResults(results), seqs)

    def transcript(self) -> Transcript:
        """Return the whole conversation so far, with results in the order of their calls."""
        return Transcript(tuple(row.message for row in (*self._rows, *self._turn())))

    def view(self, in_scope: Scope | None = None, up_to_seq: int | None = None) -> tuple[Message, ...]:
        """Return the messages for a target: what a provider made in its scope, else the summary, else everything.

        `in_scope` tells the target's own tokens; without it there are none. With `up_to_seq`, later entries are left out.
        """
        rows: list[_Row] = [*self._rows, *self._turn()]
        if up_to_seq is not None:
            del rows[bisect_right(rows, up_to_seq, key=_seq_of) :]
        compacted, head = self.compacted, None
        if compacted is not None:
            head = self._head(in_scope)
            if head is not None:
                rows = rows[self._covered_count() :]
            if compacted.cleared:
                cleared = frozenset(compacted.cleared)
                rows = [_clear(row, cleared) for row in rows]
        messages = [row.message for row in rows]
        if self._inline and head != ():
            messages = [self._without_summary(message) for message in messages]
        return (*(head or ()), *messages)

    def view_length(self, in_scope: Scope | None = None) -> int:
        """Return the number of messages of the view."""
        head = self._head(in_scope) if self.compacted is not None else None
        return len(self) if head is None else len(head) + len(self) - self._covered_count()

    def _without_summary(self, message: Message) -> Message:
        """Remove the provider's summary from a reply: it would hide the messages before the reply from the model."""
        if not any(message is reply for reply in self._inline):
            return message
        assert isinstance(message, AssistantMessage)
        summary = summary_block(message)
        return msgspec.structs.replace(message, blocks=tuple([b for b in message.blocks if b is not summary]))

    def _covered_count(self) -> int:
        """Return the number of messages that the compaction covers. A turn with open calls stays: they need results."""
        assert self.compacted is not None
        count = bisect_right(self._rows, self.compacted.up_to_seq, key=_seq_of)
        is_turn_covered = self._turn_seq <= self.compacted.up_to_seq and not self.open_calls()
        return count + (len(self._turn()) if is_turn_covered else 0)

    def _head(self, in_scope: Scope | None) -> tuple[Message, ...] | None:
        """Return the messages in place of the covered ones; None if the whole conversation has to be sent."""
        compacted = self.compacted
        assert compacted is not None
        if compacted.messages or not compacted.up_to_seq:
            return compacted.messages
        if in_scope is not None:
            for message in compacted.native:
                if message.origin is not None and in_scope(message.origin):
                    return (message,)
            if compacted.inline:
                first = next(
                    (row.message for row in (*self._rows, *self._turn()) if row.seq > compacted.up_to_seq), None
                )
                if isinstance(first, AssistantMessage) and first.origin is not None and in_scope(first.origin):
                    return ()
        return (UserMessage(f"{SUMMARY_HEADER}\n\n{compacted.summary}"),) if compacted.summary else None

    def result_seqs(self) -> list[int]:
        """Return the sequence numbers of the tool results of the conversation, in order."""
        return [seq for row in (*self._rows, *self._turn()) for seq in row.result_seqs]

    def open_calls(self) -> tuple[ToolCallView, ...]:
        """Return the calls of the last reply without a result; none if another message followed it."""
        calls = self._reply.tool_calls() if self._reply is not None else ()
        return tuple(call for index, call in enumerate(calls) if index not in self._results)

    def __len__(self) -> int:
        return len(self._rows) + len(self._turn())


_seq_of = attrgetter("seq")


def _clear(row: _Row, cleared: frozenset[int]) -> _Row:
    """Replace the content of some results."""
    if cleared.isdisjoint(row.result_seqs):
        return row
    assert isinstance(row.message, ToolResults)
    results = (
        msgspec.structs.replace(result, content=CLEARED) if seq in cleared else result
        for seq, result in zip(row.result_seqs, row.message.results, strict=True)
    )
    return row._replace(message=ToolResults(tuple(results)))


def transcript_of(entries: Iterable[Entry]) -> Transcript:
    return TranscriptFold(entries).transcript()


def unknown_payloads_in(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries that this version cannot read: of an unknown kind, or of a later version."""
    return (entry for entry in entries if isinstance(entry.payload, UnknownPayload) or entry.version > VERSION)


class SessionState(msgspec.Struct, frozen=True):
    """A session as an immutable value: its messages and its usage."""

    id: str
    messages: tuple[Message, ...] = ()
    usage: Usage = Usage()

    def push(self, message: Message) -> SessionState:
        return msgspec.structs.replace(self, messages=(*self.messages, message))

    def record_usage(self, turn: Usage) -> SessionState:
        return msgspec.structs.replace(self, usage=self.usage + turn)

    def total_usage(self) -> Usage:
        return self.usage

    def total_tokens(self) -> int:
        """Return all input and output tokens, including cached and reasoning tokens."""
        return (self.usage.prompt_tokens or 0) + (self.usage.completion_tokens or 0)


class SessionMeta(msgspec.Struct, frozen=True, omit_defaults=True):
    """The summary of a session for lists."""

    id: str = ""
    created_at: int = 0
    """Milliseconds since 1970."""
    updated_at: int = 0
    """Milliseconds since 1970."""
    message_count: int = 0
    """The number of messages, including those that a compaction replaces."""
    usage: Usage = Usage()
    model: str = ""
    agent: str = ""
    title: str = ""
    """The start of the first user message."""
    status: Literal["new", "interrupted", "waiting", "completed", "cancelled", "failed"] = "new"
    """The status while no process holds the session; `interrupted`: a run has begun and has no `RunEnded`."""
    waiting_for: str = ""
    """What a run with the status `waiting` waits for: `approval`, `input`, `limit` or `context`."""
    waiting: int = 0
    """The number of calls of the last reply until the first of them has a result, which adds a message."""
    metadata: dict[str, str] = {}
    """The keys and values that the user has given the session."""
    directories: tuple[str, ...] = ()
    """The working directories of its tools."""

    def after(self, payload: EntryPayload | UnknownPayload, time_ms: int) -> SessionMeta:
        changes: dict[str, object] = {"updated_at": max(self.updated_at, time_ms)}
        if not self.created_at:
            changes["created_at"] = time_ms
        if isinstance(payload, ReplyReceived | RequestFailed | Compacted) and payload.usage is not None:
            changes["usage"] = self.usage + payload.usage
        if isinstance(payload, ReplyReceived | MessageAdded | SteeringAdded):
            changes |= _INTERRUPTED
            changes["message_count"] = self.message_count + 1
            blocks = payload.message.blocks if isinstance(payload, ReplyReceived) else ()
            changes["waiting"] = sum([isinstance(block, ToolUse) for block in blocks])
            if not self.title and isinstance(payload, MessageAdded) and isinstance(payload.message, UserMessage):
                start = str(payload.message).lstrip()[:400]  # a message may have 100 MB
                changes["title"] = jsonio.printable(" ".join(start.split())[:80])
        elif isinstance(payload, RequestStarted | CallStarted):
            changes |= _INTERRUPTED
        elif isinstance(payload, CallFinished):
            if 0 <= payload.call_index < self.waiting:
                changes["message_count"] = self.message_count + 1
                changes["waiting"] = 0
        elif isinstance(payload, Configured):
            changes["model"] = payload.model
            changes["agent"] = payload.agent or self.agent
            if payload.scope == "session":
                roots = jsonio.parse(payload.roots).values() if payload.roots else ()
                changes["directories"] = tuple(sorted(set(roots)))
        elif isinstance(payload, MetadataChanged):
            changes["metadata"] = payload.metadata
        elif isinstance(payload, HandedOver):
            changes["model"] = payload.model
        elif isinstance(payload, RunEnded):
            changes["status"], changes["waiting_for"] = status_after(payload)
        return msgspec.structs.replace(self, **changes)


_INTERRUPTED = {"status": "interrupted", "waiting_for": ""}


def status_after(end: RunEnded) -> tuple[str, str]:
    """Return the status of a session after the end of a run, and what it waits for.

    A reason of a later version is `failed`; `limit`, and a detail instead of `waiting_for`, are of an earlier version.
    """
    if end.reason == "limit":
        return "waiting", "limit"
    if end.reason == "waiting":
        reasons = ("approval", "input", "limit", "context")
        return "waiting", end.waiting_for or (end.detail if end.detail in reasons else "")
    if end.reason == "cancelling":  # the results of the open calls and the last entry follow
        return "interrupted", ""
    return (end.reason if end.reason in ("completed", "cancelled") else "failed"), ""


def session_meta_of(id: str, entries: Iterable[Entry]) -> SessionMeta:
    meta = SessionMeta(id=id)
    for entry in entries:
        meta = meta.after(entry.payload, entry.time_ms)
    return meta
