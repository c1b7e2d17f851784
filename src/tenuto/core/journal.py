"""The journal: what was said and done in a session, entry by entry, and the folds that make everything else of it.

An `EntryPayload` is what happened. An `Entry` is an act in its place: numbered, timed, fenced, with an id that its writer made and
the digest of its bytes. Entries are only ever added. The transcript, the usage, the open calls and the summary of a
session are pure functions of its entries; there is no other state.

A kind of entry that a later version wrote is a `UnknownPayload` act: it can be shown and copied, and a session that holds one is
not resumed by this version (`unknown_payloads_in`).
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

__all__ = [
    "VERSION",
    "ApprovalDecided",
    "ApprovalRequested",
    "CallFinished",
    "CallStarted",
    "Compacted",
    "Configured",
    "Entry",
    "EntryDraft",
    "EntryPayload",
    "HandedOver",
    "LossRecorded",
    "MessageAdded",
    "ReplyReceived",
    "RequestFailed",
    "RequestStarted",
    "RunEnded",
    "SessionMeta",
    "SessionState",
    "SteeringAdded",
    "SubSessionLinked",
    "TranscriptFold",
    "UnknownPayload",
    "open_calls_of",
    "payload_kind",
    "session_meta_of",
    "sha256_hex",
    "transcript_of",
    "unknown_payloads_in",
    "usage_of",
]

VERSION = 1
"""The version of the entries that this library writes."""


# --- what happens -----------------------------------------------------------------------------------------------------


class _Act(Value, frozen=True, tag_field="entry"):
    pass


class Configured(_Act, frozen=True, tag="configured"):
    """Whom the session asks, and how: once at its beginning, and again whenever it changes.

    `parameters` is the text of a JSON object, `tools` of a JSON array of definitions; `agent` names the agent.
    `continuity` is `declared` where the user vouched for a model of which the tables say nothing good.
    """

    model: str
    system: str = ""
    parameters: str = ""
    tools: str = ""
    agent: str = ""
    continuity: str = ""
    roots: str = ""
    """The working directories of tools, absolute, by the name of the tool: the text of a JSON object."""


class MessageAdded(_Act, frozen=True, tag="message_added"):
    """Somebody other than the model said something: the user, as a rule."""

    message: Message


class RequestStarted(_Act, frozen=True, tag="request_started"):
    """The model is about to be asked: `digest` stands for the request as it goes out, to whichever `account`."""

    model: str
    digest: str = ""
    encoder_version: int = 0
    attempt: int = 1
    account: str = ""


class ReplyReceived(_Act, frozen=True, tag="reply_received"):
    """The model answered, whole. What it used, what was lost on the way, and what it cost (USD, as text)."""

    message: AssistantMessage
    usage: Usage | None = None
    losses: tuple[Loss, ...] = ()
    response_id: str = ""
    request_id: str = ""
    cost: str = ""


class RequestFailed(_Act, frozen=True, tag="request_failed"):
    """An attempt to ask came to nothing; what it used is paid for all the same (`cost` in USD, as text)."""

    error: str
    message: str = ""
    attempt: int = 1
    retryable: bool = False
    usage: Usage | None = None
    cost: str = ""


class CallStarted(_Act, frozen=True, tag="call_started"):
    """A call is about to act. `ordinal` is its place among the calls of the last reply: ids may repeat, places do not.

    `key` is the same for every attempt at this call; `effect` says what may be done if it never returned.
    """

    call_id: str
    call_index: int
    name: str = ""
    idempotency_key: str = ""
    effect: str = ""
    attempt: int = 1
    pid: int = 0
    host: str = ""


class CallFinished(_Act, frozen=True, tag="call_finished"):
    """A call has its result, whether it ran, was denied, or was interrupted and nobody knows what became of it.

    `detail` says in a word what was wrong (`arguments`, `timeout`, ...). `usage` and `cost` are what a sub-agent spent on
    it: its own journal has them entry by entry, and the caller's limits count them.
    """

    result: ToolResult
    call_index: int
    attempt: int = 1
    outcome: Literal["done", "failed", "denied", "interrupted", "cancelled", "unknown"] = "done"
    detail: str = ""
    usage: Usage | None = None
    cost: str = ""


class ApprovalRequested(_Act, frozen=True, tag="approval_requested"):
    """A call waits for somebody's word."""

    call_id: str
    call_index: int
    name: str = ""


class ApprovalDecided(_Act, frozen=True, tag="approval_decided"):
    """Somebody gave it."""

    call_id: str
    call_index: int
    allowed: bool
    reason: str = ""


class SteeringAdded(_Act, frozen=True, tag="steering_added"):
    """Something was said while the agent was at work; the model hears it at the next turn boundary, which is here."""

    message: Message


class Compacted(_Act, frozen=True, tag="compacted"):
    """From here on, `messages` stand for everything up to and with entry `upto`. Nothing is taken from the journal."""

    up_to_seq: int
    messages: tuple[Message, ...] = ()
    reason: str = ""


class HandedOver(_Act, frozen=True, tag="handed_over"):
    """The session goes on with another model, and this is what cannot go along."""

    model: str
    previous_model: str = ""
    losses: tuple[Loss, ...] = ()


class LossRecorded(_Act, frozen=True, tag="loss_recorded"):
    """Something could not be carried.

    Where the provider refused a block of its own, `reply` is the entry of the reply that had it, and `block` its place
    there: no question asked after this one brings it, or, where it says something by itself, its token.
    """

    loss: Loss
    reply_seq: int = 0
    block_index: int = 0


class SubSessionLinked(_Act, frozen=True, tag="sub_session_linked"):
    """Another session belongs to this one: that of a sub-agent, for the call it answers."""

    session: str
    call_id: str = ""
    call_index: int = 0


class RunEnded(_Act, frozen=True, tag="run_ended"):
    """The run ended or waits: `completed`, `failed`, `cancelled`, `waiting`, `limit`; `detail` says for what."""

    reason: str
    detail: str = ""


class UnknownPayload(msgspec.Struct, frozen=True, gc=False):
    """An act that this version does not know. `raw` is its JSON text."""

    kind: str
    raw: str


EntryPayload: TypeAlias = (
    Configured | MessageAdded | RequestStarted | ReplyReceived | RequestFailed | CallStarted | CallFinished | ApprovalRequested | ApprovalDecided | SteeringAdded | Compacted
    | HandedOver | LossRecorded | SubSessionLinked | RunEnded
)  # fmt: skip


class EntryDraft(msgspec.Struct, frozen=True, gc=False):
    """An entry before it has its place. `id` is its writer's: the same draft sent twice is one entry.

    `at` is milliseconds since 1970, `body` the act's stored bytes and `act` what they say: `stored.drafted` makes both.
    """

    id: str
    time_ms: int
    kind: str
    body: bytes
    payload: EntryPayload | UnknownPayload
    version: int = VERSION

    @property
    def digest(self) -> str:
        """The sha-256 of the body, in hex."""
        return sha256_hex(self.body)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An act in its place. `digest` was computed when it was written; `verify` compares it with the body."""

    seq: int
    id: str
    time_ms: int
    fence: int
    kind: str
    body: bytes
    digest: str
    payload: EntryPayload | UnknownPayload
    version: int = VERSION


def sha256_hex(body: bytes) -> str:
    """Return the sha-256 of a body, in hex."""
    return hashlib.sha256(body).hexdigest()


def payload_kind(act: EntryPayload | UnknownPayload) -> str:
    """Return what kind of act it is, in a word: what stands under `entry` in its stored form."""
    return act.kind if isinstance(act, UnknownPayload) else str(act.__struct_config__.tag)


# --- folds ------------------------------------------------------------------------------------------------------------


class _Turn:
    """A reply, the results that came for its calls so far, and the number of the last entry that belongs to it."""

    __slots__ = ("_count", "_reply", "_results", "last")

    def __init__(self, reply: AssistantMessage, seq: int) -> None:
        self.last = seq
        self._reply = reply
        self._count = -1
        self._results: dict[int, ToolResult] = {}

    def take(self, returned: CallFinished, seq: int) -> None:
        """Of several results for one call, the last counts. One for a call that was never made counts for nothing."""
        if self._count < 0:
            self._count = _calls_in(self._reply)
        if 0 <= returned.call_index < self._count:
            self._results[returned.call_index] = returned.result
            self.last = seq

    def messages(self) -> tuple[Message, ...]:
        """The reply and, in the order of the calls, what came back."""
        if not self._results:
            return (self._reply,)
        return self._reply, ToolResults(tuple(self._results[at] for at in sorted(self._results)))

    def open(self) -> tuple[ToolCallView, ...]:
        return tuple(call for at, call in enumerate(self._reply.tool_calls()) if at not in self._results)


def _calls_in(reply: AssistantMessage) -> int:
    return sum([isinstance(block, ToolUse) for block in reply.blocks])


_SPOKEN = (MessageAdded, SteeringAdded)


class TranscriptFold:
    """Makes the conversation of the entries, one by one as they come.

    A message is held with the number of the last entry of its turn: a compaction covers a turn as a whole or not at all,
    or results would be left without their calls.
    """

    def __init__(self) -> None:
        self._settled: list[tuple[int, Message]] = []
        self._turn: _Turn | None = None

    def apply(self, entry: Entry) -> None:
        """Add an entry."""
        act = entry.payload
        if isinstance(act, ReplyReceived):
            self._settle()
            self._turn = _Turn(act.message, entry.seq)
        elif isinstance(act, CallFinished):
            if self._turn is not None:
                self._turn.take(act, entry.seq)
        elif isinstance(act, _SPOKEN):
            self._settle()
            self._settled.append((entry.seq, act.message))
        elif isinstance(act, Compacted):
            self._compact(act, min(act.up_to_seq, entry.seq))

    def _settle(self) -> None:
        """The turn is over: nothing that returns belongs to it any more."""
        turn, self._turn = self._turn, None
        if turn is not None:
            for message in turn.messages():
                self._settled.append((turn.last, message))

    def _compact(self, act: Compacted, upto: int) -> None:
        """A turn that waits for results is not covered: its calls are owed an answer, whatever was summed up."""
        if self._turn is not None and self._turn.last <= upto and not self._turn.open():
            self._turn = None
        kept = [(at, message) for at, message in self._settled if at > upto]
        self._settled = [*((upto, message) for message in act.messages), *kept]

    def transcript(self) -> Transcript:
        """The conversation so far."""
        turn = self._turn.messages() if self._turn else ()
        return Transcript((*(message for _, message in self._settled), *turn))

    def open_calls(self) -> tuple[ToolCallView, ...]:
        """The calls of the last reply that have no result yet."""
        return self._turn.open() if self._turn else ()

    def __len__(self) -> int:
        return len(self._settled) + (len(self._turn.messages()) if self._turn else 0)


def _folded(entries: Iterable[Entry]) -> TranscriptFold:
    fold = TranscriptFold()
    for entry in entries:
        fold.apply(entry)
    return fold


def transcript_of(entries: Iterable[Entry]) -> Transcript:
    """Return the conversation as the model is to see it: results in the order of their calls, compaction applied."""
    return _folded(entries).transcript()


def open_calls_of(entries: Iterable[Entry]) -> tuple[ToolCallView, ...]:
    """Return the calls of the last reply that have no result yet, in order. Whatever was said since has closed them."""
    return _folded(entries).open_calls()


def usage_of(entries: Iterable[Entry]) -> Usage:
    """Return what the session used so far: replies, and attempts that failed and were paid for."""
    total = Usage()
    for entry in entries:
        act = entry.payload
        if isinstance(act, _PAID) and act.usage is not None:
            total += act.usage
    return total


_PAID = (ReplyReceived, RequestFailed)


def unknown_payloads_in(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries that this version cannot read: of an unknown kind, or of a later version."""
    return (entry for entry in entries if isinstance(entry.payload, UnknownPayload) or entry.version > VERSION)


# --- what a session comes to ------------------------------------------------------------------------------------------


class SessionState(msgspec.Struct, frozen=True):
    """A session as a value: its messages and what they used so far. Each change makes a new one."""

    id: str
    messages: tuple[Message, ...] = ()
    usage: Usage = Usage()

    def push(self, message: Message) -> SessionState:
        """Return the session with one message more."""
        return msgspec.structs.replace(self, messages=(*self.messages, message))

    def record_usage(self, turn: Usage) -> SessionState:
        """Return the session with what a turn used added to its sum."""
        return msgspec.structs.replace(self, usage=self.usage + turn)

    def total_usage(self) -> Usage:
        """Return what the session used, which no message says."""
        return self.usage

    def total_tokens(self) -> int:
        """Return tokens in and out, cached and thought ones included."""
        return (self.usage.prompt_tokens or 0) + (self.usage.completion_tokens or 0)


class SessionMeta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a list of sessions shows of one; times are milliseconds since 1970.

    `title` is how the first thing said begins; `status` the last word of `RunEnded`, or `open` if the work went on since.
    `message_count` counts what a compaction covers, too.
    """

    id: str = ""
    created_at: int = 0
    updated_at: int = 0
    message_count: int = 0
    usage: Usage = Usage()
    model: str = ""
    agent: str = ""
    title: str = ""
    status: str = "open"
    waiting: int = 0
    """How many calls the last reply made, as long as none of them has its result: the first one makes a message."""

    def after(self, act: EntryPayload | UnknownPayload, at: int) -> SessionMeta:
        """Return what one more entry makes of it. Adding up is all it takes: no earlier entry is looked at."""
        changed: dict[str, object] = {"updated_at": max(self.updated_at, at)}
        if not self.created_at:
            changed["created_at"] = at
        if isinstance(act, ReplyReceived):
            changed["status"] = "open"
            changed["message_count"] = self.message_count + 1
            changed["waiting"] = _calls_in(act.message)
            if act.usage is not None:
                changed["usage"] = self.usage + act.usage
        elif isinstance(act, _SPOKEN):
            changed["status"] = "open"
            changed["message_count"] = self.message_count + 1
            changed["waiting"] = 0
            if not self.title and isinstance(act, MessageAdded) and isinstance(act.message, UserMessage):
                changed["title"] = _title(str(act.message))
        else:
            changed |= self._changed_by(act)
        return msgspec.structs.replace(self, **changed)

    def _changed_by(self, act: EntryPayload | UnknownPayload) -> dict[str, object]:
        """Return what an act changes that is no message."""
        if isinstance(act, RequestStarted | CallStarted):
            return {"status": "open"}
        if isinstance(act, CallFinished) and 0 <= act.call_index < self.waiting:
            return {"message_count": self.message_count + 1, "waiting": 0}
        if isinstance(act, RequestFailed) and act.usage is not None:
            return {"usage": self.usage + act.usage}
        if isinstance(act, Configured):
            return {"model": act.model, "agent": act.agent or self.agent}
        if isinstance(act, HandedOver):
            return {"model": act.model}
        return {"status": act.reason} if isinstance(act, RunEnded) else {}


def _title(said: str) -> str:
    return jsonio.printable(" ".join(said.lstrip()[:400].split())[:80])  # what is said may be a hundred megabytes


def session_meta_of(id: str, entries: Iterable[Entry]) -> SessionMeta:
    """Return what a list shows of a session."""
    meta = SessionMeta(id=id)
    for entry in entries:
        meta = meta.after(entry.payload, entry.time_ms)
    return meta
