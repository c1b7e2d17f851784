"""The journal of a session: its entries, and the folds over them.

An `Entry` is a payload with a sequence number, a time, a fence, the id of its draft and the digest of its bytes. Entries
are only appended. Transcript, usage, open calls and the summary of a session are pure functions of the entries; there is
no other state.

An entry of a kind that a later version has added is an `UnknownPayload`: it can be shown and copied, but this version does
not resume its session (`unknown_payloads_in`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from tenuto.core import jsonio
from tenuto.core.blocks import ToolUse, Value
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Message, ToolCallView, ToolResult, ToolResults, Usage, UserMessage
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


class Compacted(_Payload, frozen=True, tag="compacted"):
    """Later requests have `messages` instead of older entries, which stay in the journal."""

    up_to_seq: int
    """The sequence number of the last entry that `messages` replace."""
    messages: tuple[Message, ...] = ()
    reason: str = ""


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
    | ApprovalRequested | ApprovalDecided | SteeringAdded | Compacted | HandedOver | LossRecorded | SubSessionLinked
    | MetadataChanged | RunEnded
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


class TranscriptFold:
    """Builds the transcript from entries, one by one.

    A turn is a reply with the results of its calls. A compaction replaces a turn completely or not at all, so that no
    result loses its call. Each message therefore has the sequence number of the last entry of its turn.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._messages: list[tuple[int, Message]] = []
        self._reply: AssistantMessage | None = None  # the last reply, until another message follows
        self._call_count = 0  # of that reply
        self._results: dict[int, ToolResult] = {}  # by the index of the call
        self._turn_seq = 0  # of the last entry of this turn
        for entry in entries:
            self.apply(entry)

    def apply(self, entry: Entry) -> None:
        """Add an entry. The last result of a call wins; a result without a call is ignored."""
        payload = entry.payload
        if isinstance(payload, ReplyReceived | MessageAdded | SteeringAdded):
            self._messages += [(self._turn_seq, message) for message in self._turn()]
            self._reply = None
            if isinstance(payload, ReplyReceived):
                self._reply = payload.message
                self._call_count = sum([isinstance(block, ToolUse) for block in payload.message.blocks])
                self._results = {}
                self._turn_seq = entry.seq
            else:
                self._messages.append((entry.seq, payload.message))
        elif isinstance(payload, CallFinished):
            if self._reply is not None and 0 <= payload.call_index < self._call_count:
                self._results[payload.call_index] = payload.result
                self._turn_seq = entry.seq
        elif isinstance(payload, Compacted):
            up_to_seq = min(payload.up_to_seq, entry.seq)
            if self._turn_seq <= up_to_seq and not self.open_calls():
                self._reply = None  # a turn with open calls stays: its calls need their results
            later = [(seq, message) for seq, message in self._messages if seq > up_to_seq]
            self._messages = [*((up_to_seq, message) for message in payload.messages), *later]

    def _turn(self) -> tuple[Message, ...]:
        if self._reply is None:
            return ()
        if not self._results:
            return (self._reply,)
        return self._reply, ToolResults(tuple(self._results[index] for index in sorted(self._results)))

    def transcript(self) -> Transcript:
        """Return the transcript so far: results in the order of their calls, compactions applied."""
        return Transcript((*(message for _, message in self._messages), *self._turn()))

    def open_calls(self) -> tuple[ToolCallView, ...]:
        """Return the calls of the last reply without a result; none if another message followed it."""
        calls = self._reply.tool_calls() if self._reply is not None else ()
        return tuple(call for index, call in enumerate(calls) if index not in self._results)

    def __len__(self) -> int:
        return len(self._messages) + len(self._turn())


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
        if isinstance(payload, ReplyReceived | RequestFailed) and payload.usage is not None:
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
