"""Compute the next step of a session from its journal: a state machine with six states. It neither waits nor writes.

`Machine.apply` takes the entries of a session in order, and `next_step` returns the work that is left. The runner does this
work, writes entries and applies them. After a crash, the machine applies the committed entries and returns the same next step
as before.

An entry that cannot follow the entries before it raises `InvalidTransition` and changes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from enum import Enum
from typing import TypeAlias

import msgspec

from tenuto.core.journal import (
    ApprovalDecided,
    ApprovalRequested,
    CallFinished,
    CallStarted,
    Configured,
    Entry,
    EntryPayload,
    HandedOver,
    MessageAdded,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    RunEnded,
    SteeringAdded,
    SubSessionLinked,
    UnknownPayload,
    payload_kind,
)
from tenuto.core.messages import ToolCallView
from tenuto.errors import TenutoError

CANCELLING = "cancelling"
CANCELLED = "cancelled"


class State(Enum):
    """The state of a session."""

    CALLING_LLM = "calling_llm"
    WAITING_FOR_OPS = "waiting_for_ops"
    DRAINING_EVENTS = "draining_events"
    COMPLETED = "completed"
    CANCELLING = "cancelling"
    ERROR_RECOVERY = "error_recovery"


class Phase(Enum):
    """The progress of a tool call."""

    PENDING = "pending"
    WAITING = "waiting"
    """It needs approval."""
    ALLOWED = "allowed"
    DENIED = "denied"
    STARTED = "started"
    RETURNED = "returned"


class InvalidTransition(TenutoError):
    """An entry cannot follow the entries before it. `event`: its name in `TABLE`. `state`: the state before it."""

    def __init__(self, event: str, state: State, detail: str = "") -> None:
        super().__init__(f"{event!r} cannot happen while the session is {state.value}{f': {detail}' if detail else ''}")
        self.event = event
        self.state = state


class CallState(msgspec.Struct, frozen=True):
    """A tool call of the last reply."""

    view: ToolCallView
    ordinal: int
    """The index of the call in its reply."""
    phase: Phase = Phase.PENDING
    attempt: int = 0
    """How often the call was started."""
    key: str = ""
    """The idempotency key."""
    effect: str = ""
    why: str = ""
    """The reason of the approval or denial."""
    session: str = ""
    """The session of the sub-agent that runs the call."""

    @property
    def open(self) -> bool:
        """Whether it has no result yet."""
        return self.phase is not Phase.RETURNED


# --- next steps -------------------------------------------------------------------------------------------------------


class AskModel(msgspec.Struct, frozen=True):
    """Send a request to the model."""

    attempt: int = 1
    """The number of the attempt since the last reply."""


class RunTools(msgspec.Struct, frozen=True):
    """Run these calls, which have no result yet."""

    calls: tuple[CallState, ...]


class TurnBoundary(msgspec.Struct, frozen=True):
    """A turn is over: add the steering messages, check the limits, and send the next request."""

    paused: bool = False
    """The provider paused its turn. The reply must be sent back unchanged, so no message may be added."""


class RetryRequest(msgspec.Struct, frozen=True):
    """The last request failed."""

    failed: RequestFailed
    failures: int
    """The number of failures in a row."""


class FinishCancel(msgspec.Struct, frozen=True):
    """The run is being cancelled: write a result for these calls, then the end of the run."""

    calls: tuple[CallState, ...]


NextStep: TypeAlias = AskModel | RunTools | TurnBoundary | RetryRequest | FinishCancel | None


# --- the table --------------------------------------------------------------------------------------------------------

_REST = dict.fromkeys(("configured", "compacted", "handed_over", "loss_recorded"))
"""Entries that are allowed in every state and do not change it."""

TABLE: dict[State, dict[str, State | None]] = {
    State.COMPLETED: {
        **_REST,
        "message_added": State.CALLING_LLM,
        "steering_added": State.CALLING_LLM,
        "run_ended": None,
    },
    State.CALLING_LLM: {
        **_REST,
        "message_added": None,
        "steering_added": None,
        "request_started": None,
        "reply_received": State.COMPLETED,
        "reply_received with calls": State.WAITING_FOR_OPS,
        "reply_received and paused": State.DRAINING_EVENTS,
        "request_failed": State.ERROR_RECOVERY,
        "run_ended": None,
        "cancelling": State.CANCELLING,
    },
    State.WAITING_FOR_OPS: {
        **_REST,
        "approval_requested": None,
        "approval_decided": None,
        "sub_session_linked": None,
        "call_started": None,
        "call_finished": None,
        "call_finished last": State.DRAINING_EVENTS,
        "run_ended": None,
        "cancelling": State.CANCELLING,
    },
    State.DRAINING_EVENTS: {
        **_REST,
        "message_added": State.CALLING_LLM,
        "steering_added": None,
        "request_started": State.CALLING_LLM,
        "run_ended": None,
        "cancelling": State.CANCELLING,
    },
    State.ERROR_RECOVERY: {
        **_REST,
        "message_added": State.CALLING_LLM,
        "request_started": State.CALLING_LLM,
        "run_ended": None,
        "cancelling": State.CANCELLING,
    },
    State.CANCELLING: {
        **_REST,
        "call_finished": None,
        "call_finished last": None,
        "run_ended": State.DRAINING_EVENTS,
        "run_ended with a message": State.CALLING_LLM,
    },
}
"""For each state, the events that may follow and the state that they lead to. None: the state stays.

An event that is not listed is invalid. `run_ended` does not change the next step: the run has ended, its work may not have.
"""


class Machine:
    """The state of one session."""

    def __init__(self) -> None:
        self.state = State.COMPLETED
        self.calls: list[CallState] = []
        """The calls of the last reply."""
        self.halted: RunEnded | None = None
        """The end of the last run, until the next entry that continues the work."""
        self.paused = False
        """Whether the provider paused its turn."""
        self._open = 0
        self._requests = 0
        self._failures: tuple[RequestFailed, ...] = ()
        self.failures = 0
        """The failed requests to the current model in this run, since the last reply or message."""
        self.tried: frozenset[str] = frozenset()
        """The models that this run was handed over from, since the last reply or message."""
        self._unanswered = False
        """Whether the last message has no reply yet."""

    def apply(self, entry: EntryPayload | UnknownPayload) -> None:
        """Apply an entry. Raise `InvalidTransition`, and change nothing, if it cannot follow the entries before it."""
        event = self._event(entry)
        transitions = TABLE[self.state]
        if event not in transitions:
            raise InvalidTransition(event, self.state, self._open_call_names(event))
        self._update_calls(entry, event)
        self.halted = entry if isinstance(entry, RunEnded) else self.halted if event in _REST else None
        self._count(entry, event)
        self.state = transitions[event] or self.state

    def copy(self) -> Machine:
        """Return an independent machine in the same state."""
        other = copy.copy(self)
        other.calls = self.calls.copy()
        return other

    @property
    def attempt(self) -> int:
        """The number of the next request since the last reply or message, from 1."""
        return self._requests + 1

    @property
    def open_calls(self) -> tuple[CallState, ...]:
        """The calls of the last reply that have no result yet, in order."""
        return tuple(call for call in self.calls if call.open)

    def next_step(self) -> NextStep:
        """Return the next step; None if no work is left."""
        if self.state is State.CALLING_LLM:
            return AskModel(self.attempt)
        if self.state is State.WAITING_FOR_OPS:
            return RunTools(self.open_calls)
        if self.state is State.DRAINING_EVENTS:
            return TurnBoundary(self.paused)
        if self.state is State.ERROR_RECOVERY:
            return RetryRequest(self._failures[-1], len(self._failures))
        return FinishCancel(self.open_calls) if self.state is State.CANCELLING else None

    def _event(self, entry: EntryPayload | UnknownPayload) -> str:
        """Return the name of an entry in `TABLE`."""
        if isinstance(entry, ReplyReceived):
            if entry.message.has_tool_calls():
                return "reply_received with calls"
            return "reply_received and paused" if entry.message.paused else "reply_received"
        if isinstance(entry, CallFinished):
            return "call_finished" if self._open > 1 else "call_finished last"
        if isinstance(entry, RunEnded):
            if entry.reason == CANCELLING:
                return CANCELLING
            if self.state is not State.CANCELLING:
                return "run_ended"
            if self._open:
                return "run_ended with open calls"
            return "run_ended with a message" if self._unanswered else "run_ended"
        return f"unknown {entry.kind}" if isinstance(entry, UnknownPayload) else payload_kind(entry)

    def _open_call_names(self, event: str) -> str:
        """Name the open calls if they are the reason that an event is invalid."""
        events = ("message_added", "steering_added", "request_started", "run_ended with open calls")
        if event not in events or not self.open_calls:
            return ""
        names = ", ".join(f"{call.view.name} ({call.view.id})" for call in self.open_calls)
        return f"calls have no result yet: {names}"

    def _update_calls(self, entry: EntryPayload | UnknownPayload, event: str) -> None:
        """Update the calls. Raise `InvalidTransition`, and change nothing, if an entry does not fit the phase of its call."""
        if isinstance(entry, ReplyReceived):
            self.calls = [CallState(view, ordinal) for ordinal, view in enumerate(entry.message.tool_calls())]
            self._open = len(self.calls)
        elif isinstance(entry, MessageAdded | SteeringAdded):
            self.calls, self._open = [], 0
        elif isinstance(entry, Configured):
            self.calls = [*map(_without_approval, self.calls)]
        elif isinstance(entry, ApprovalRequested | ApprovalDecided | SubSessionLinked | CallStarted | CallFinished):
            if not 0 <= entry.call_index < len(self.calls):
                raise InvalidTransition(event, self.state, f"the last reply has no call {entry.call_index}")
            before = self.calls[entry.call_index]
            after = _next_call_state(before, entry)
            if after is None:
                detail = f"call {entry.call_index} ({before.view.name}) is {before.phase.value} already"
                raise InvalidTransition(event, self.state, detail)
            self.calls[entry.call_index] = after
            self._open -= isinstance(entry, CallFinished)

    def _count(self, entry: EntryPayload | UnknownPayload, event: str) -> None:
        if isinstance(entry, RequestStarted):
            self._requests += 1
        elif isinstance(entry, RequestFailed):
            self._failures = (*self._failures, entry)
            self.failures += 1
        elif isinstance(entry, HandedOver):
            self.failures = 0
            if self.halted is None:
                self.tried |= {entry.previous_model}
        elif isinstance(entry, MessageAdded | SteeringAdded | ReplyReceived):
            self._requests = 0
            self._failures = ()
            self.failures, self.tried = 0, frozenset()
            self._unanswered = not isinstance(entry, ReplyReceived)
            self.paused = event == "reply_received and paused"
        elif isinstance(entry, RunEnded):
            self.failures, self.tried = 0, frozenset()


CALL_STEPS = {
    ApprovalRequested: ((Phase.PENDING, Phase.STARTED), Phase.WAITING),
    SubSessionLinked: ((Phase.PENDING, Phase.ALLOWED, Phase.STARTED), None),
    CallStarted: ((Phase.PENDING, Phase.ALLOWED, Phase.STARTED), Phase.STARTED),
    CallFinished: ((Phase.PENDING, Phase.WAITING, Phase.ALLOWED, Phase.DENIED, Phase.STARTED), Phase.RETURNED),
}
"""For each entry about a call: the phases that it may follow, and the phase after it. None: the phase stays."""


def _next_call_state(
    call: CallState, entry: ApprovalRequested | ApprovalDecided | SubSessionLinked | CallStarted | CallFinished
) -> CallState | None:
    """Return the call after an entry; None if the entry does not fit its phase."""
    if isinstance(entry, ApprovalDecided):
        phase = Phase.ALLOWED if entry.allowed else Phase.DENIED
        return msgspec.structs.replace(call, phase=phase, why=entry.reason) if call.phase is Phase.WAITING else None
    before, after = CALL_STEPS[type(entry)]
    if call.phase not in before:
        return None
    if isinstance(entry, SubSessionLinked):
        return msgspec.structs.replace(call, session=entry.session)
    if isinstance(entry, CallStarted):
        return msgspec.structs.replace(
            call, phase=after, attempt=entry.attempt, key=entry.idempotency_key, effect=entry.effect
        )
    return msgspec.structs.replace(call, phase=after)


def _without_approval(call: CallState) -> CallState:
    """Revoke an approval. It holds only for the tools that the session had when it was given."""
    return msgspec.structs.replace(call, phase=Phase.PENDING) if call.phase is Phase.ALLOWED else call


def machine_of(entries: Iterable[Entry]) -> Machine:
    """Apply the entries of a session to a new machine. Raise `InvalidTransition` with a note that names the entry."""
    machine = Machine()
    for entry in entries:
        try:
            machine.apply(entry.payload)
        except InvalidTransition as exc:
            exc.add_note(f"entry {entry.seq}")
            raise
    return machine
