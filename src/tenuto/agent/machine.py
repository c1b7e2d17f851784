"""Compute the next step of a session from its journal: a state machine with six states. It neither waits nor writes.

`Machine.apply` takes the entries of a session in order, and `next_step` returns the work that is left. The runner does this
work, writes entries and applies them. After a crash, the machine applies the committed entries and returns the same next step
as before.

An entry that cannot follow the entries before it raises `InvalidTransition` and changes nothing.
"""

from __future__ import annotations

import copy
from enum import Enum
from typing import TypeAlias

import msgspec

from tenuto.core import journal
from tenuto.core.messages import ToolCallView
from tenuto.errors import TenutoError

CANCELLING = "cancelling"
CANCELLED = "cancelled"
AGAIN = ("pure", "idempotent", "keyed")
"""The effects of calls that may run again after a crash."""


class State(Enum):
    CALLING_LLM = "calling_llm"
    WAITING_FOR_OPS = "waiting_for_ops"
    DRAINING_EVENTS = "draining_events"
    COMPLETED = "completed"
    CANCELLING = "cancelling"
    ERROR_RECOVERY = "error_recovery"


class Phase(Enum):
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
    outcome: str = ""
    """The outcome of the call; empty until it has a result."""


class PendingCall(msgspec.Struct, frozen=True):
    """A tool call that needs approval."""

    call: ToolCallView
    ordinal: int
    """The index of the call in its reply."""
    session: str = ""
    """The id of the sub-agent session that made the call; empty for the session itself."""
    reply_seq: int = 0
    """The sequence number of the reply with the call."""


# --- next steps -------------------------------------------------------------------------------------------------------


class AskModel(msgspec.Struct, frozen=True):
    """Send a request to the model."""


class RunTools(msgspec.Struct, frozen=True):
    """Run these calls, which have no result yet."""

    calls: tuple[CallState, ...]


class TurnBoundary(msgspec.Struct, frozen=True):
    """A turn is over: add the steering messages, check the limits, and send the next request."""

    paused: bool = False
    """The provider paused its turn. The reply must be sent back unchanged, so no message may be added."""


class RetryRequest(msgspec.Struct, frozen=True):
    """The last request failed: send it again, or hand over to another model."""


class FinishCancel(msgspec.Struct, frozen=True):
    """The run is being cancelled: write a result for each open call, then the end of the run."""


NextStep: TypeAlias = AskModel | RunTools | TurnBoundary | RetryRequest | FinishCancel | None


# --- the table --------------------------------------------------------------------------------------------------------

_REST = (
    "configured",
    "compaction_requested",
    "compacted",
    "compaction_failed",
    "handed_over",
    "loss_recorded",
    "metadata_changed",
)
"""Entries that are allowed in every state and do not change it."""


def _stay(*events: str) -> dict[str, State | None]:
    return dict.fromkeys((*_REST, *events))


TABLE: dict[State, dict[str, State | None]] = {
    State.COMPLETED: {
        **_stay("run_ended"),
        "message_added": State.CALLING_LLM,
        "steering_added": State.CALLING_LLM,
    },
    State.CALLING_LLM: {
        **_stay("message_added", "steering_added", "request_started", "run_ended"),
        "reply_received": State.COMPLETED,
        "reply_received with calls": State.WAITING_FOR_OPS,
        "reply_received and paused": State.DRAINING_EVENTS,
        "request_failed": State.ERROR_RECOVERY,
        "cancelling": State.CANCELLING,
    },
    State.WAITING_FOR_OPS: {
        **_stay(
            "approval_requested", "approval_decided", "sub_session_linked", "call_started", "call_finished", "run_ended"
        ),
        "call_finished last": State.DRAINING_EVENTS,
        "cancelling": State.CANCELLING,
    },
    State.DRAINING_EVENTS: {
        **_stay("steering_added", "run_ended"),
        "message_added": State.CALLING_LLM,
        "request_started": State.CALLING_LLM,
        "run_ended completed": State.COMPLETED,
        "cancelling": State.CANCELLING,
    },
    State.ERROR_RECOVERY: {
        **_stay("run_ended"),
        "message_added": State.CALLING_LLM,
        "request_started": State.CALLING_LLM,
        "cancelling": State.CANCELLING,
    },
    State.CANCELLING: {
        **_stay("call_finished", "call_finished last"),
        "run_ended": State.DRAINING_EVENTS,
        "run_ended with a message": State.CALLING_LLM,
    },
}
"""For each state, the events that may follow and the state that they lead to. None: the state stays.

An event that is not listed is invalid. `run_ended` does not change the next step: the run has ended, its work may not have.
`run_ended completed`: the last reply called the tool that takes the output of the run, so no request follows.
"""


class Machine:
    def __init__(self) -> None:
        self.state = State.COMPLETED
        self.calls: list[CallState] = []
        """The calls of the last reply."""
        self.halted: journal.RunEnded | None = None
        """The end of the last run, until the next entry that continues the work."""
        self.paused = False
        """Whether the provider paused its turn."""
        self.attempt = 1
        """The number of the next request since the last reply or message."""
        self._open = 0
        """The number of calls without a result."""
        self.failures = 0
        """The failed requests to the current model in this run, since the last reply or message."""
        self.tried: frozenset[str] = frozenset()
        """The models that this run was handed over from, since the last reply or message."""
        self._unanswered = False
        """Whether the last message has no reply yet."""

    def apply(self, entry: journal.EntryPayload | journal.UnknownPayload) -> None:
        """Apply an entry. Raise `InvalidTransition`, and change nothing, if it cannot follow the entries before it."""
        event = self._event(entry)
        transitions = TABLE[self.state]
        if event not in transitions:
            names = ", ".join(f"{call.view.name} ({call.view.id})" for call in self.open_calls)
            raise InvalidTransition(event, self.state, f"calls have no result yet: {names}" if names else "")
        self._update_calls(entry, event)
        self.halted = entry if isinstance(entry, journal.RunEnded) else self.halted if event in _REST else None
        self._count(entry, event)
        self.state = transitions[event] or self.state

    def copy(self) -> Machine:
        other = copy.copy(self)
        other.calls = self.calls.copy()
        return other

    @property
    def open_calls(self) -> tuple[CallState, ...]:
        """The calls of the last reply that have no result yet, in order."""
        return tuple(call for call in self.calls if call.phase is not Phase.RETURNED)

    def next_step(self) -> NextStep:
        """Return the next step; None if no work is left."""
        if self.state is State.CALLING_LLM:
            return AskModel()
        if self.state is State.WAITING_FOR_OPS:
            return RunTools(self.open_calls)
        if self.state is State.DRAINING_EVENTS:
            return TurnBoundary(self.paused)
        if self.state is State.ERROR_RECOVERY:
            return RetryRequest()
        return FinishCancel() if self.state is State.CANCELLING else None

    def _event(self, entry: journal.EntryPayload | journal.UnknownPayload) -> str:
        """Return the name of an entry in `TABLE`."""
        if isinstance(entry, journal.ReplyReceived):
            if entry.message.has_tool_calls():
                return "reply_received with calls"
            return "reply_received and paused" if entry.message.paused else "reply_received"
        if isinstance(entry, journal.CallFinished):
            return "call_finished" if self._open > 1 else "call_finished last"
        if isinstance(entry, journal.RunEnded):
            if entry.reason == CANCELLING:
                return CANCELLING
            if self.state is State.DRAINING_EVENTS and entry.reason == "completed":
                return "run_ended completed"
            if self.state is not State.CANCELLING:
                return "run_ended"
            if self._open:
                return "run_ended with open calls"
            return "run_ended with a message" if self._unanswered else "run_ended"
        if isinstance(entry, journal.RequestFailed) and entry.purpose:
            return "compaction_failed"
        return f"unknown {entry.kind}" if isinstance(entry, journal.UnknownPayload) else journal.payload_kind(entry)

    def _update_calls(self, entry: journal.EntryPayload | journal.UnknownPayload, event: str) -> None:
        """Update the calls. Raise `InvalidTransition`, and change nothing, if an entry does not fit the phase of its call."""
        if isinstance(entry, journal.ReplyReceived):
            self.calls = [CallState(view, ordinal) for ordinal, view in enumerate(entry.message.tool_calls())]
            self._open = len(self.calls)
        elif isinstance(entry, journal.MessageAdded | journal.SteeringAdded):
            self.calls, self._open = [], 0
        elif isinstance(entry, journal.Configured):
            # An approval holds only for the tools that the session had when it was given.
            self.calls = [
                msgspec.structs.replace(call, phase=Phase.PENDING) if call.phase is Phase.ALLOWED else call
                for call in self.calls
            ]
        elif isinstance(
            entry,
            journal.ApprovalRequested
            | journal.ApprovalDecided
            | journal.SubSessionLinked
            | journal.CallStarted
            | journal.CallFinished,
        ):
            index = entry.call_index
            if not 0 <= index < len(self.calls):
                raise InvalidTransition(event, self.state, f"the last reply has no call {index}")
            call = self.calls[index]
            before, after = CALL_STEPS[type(entry)]
            if call.phase not in before:
                detail = f"call {index} ({call.view.name}) is {call.phase.value} already"
                raise InvalidTransition(event, self.state, detail)
            changes: dict[str, object] = {"phase": after or call.phase}
            if isinstance(entry, journal.ApprovalDecided):
                changes = {"phase": Phase.ALLOWED if entry.allowed else Phase.DENIED, "why": entry.reason}
            elif isinstance(entry, journal.SubSessionLinked):
                changes["session"] = entry.session
            elif isinstance(entry, journal.CallFinished):
                changes["outcome"] = entry.outcome
            elif isinstance(entry, journal.CallStarted):
                changes |= {"attempt": entry.attempt, "key": entry.idempotency_key, "effect": entry.effect}
            self.calls[index] = msgspec.structs.replace(call, **changes)
            self._open -= isinstance(entry, journal.CallFinished)

    def _count(self, entry: journal.EntryPayload | journal.UnknownPayload, event: str) -> None:
        if isinstance(entry, journal.RequestStarted):
            self.attempt += 1
        elif isinstance(entry, journal.RequestFailed):
            self.failures += not entry.purpose
        elif isinstance(entry, journal.HandedOver):
            self.failures = 0
            if self.halted is None:
                self.tried |= {entry.previous_model}
        elif isinstance(entry, journal.MessageAdded | journal.SteeringAdded | journal.ReplyReceived):
            self.attempt = 1
            self.failures, self.tried = 0, frozenset()
            self._unanswered = not isinstance(entry, journal.ReplyReceived)
            self.paused = event == "reply_received and paused"
        elif isinstance(entry, journal.RunEnded):
            self.failures, self.tried = 0, frozenset()


CALL_STEPS = {
    journal.ApprovalRequested: ((Phase.PENDING, Phase.STARTED), Phase.WAITING),
    journal.ApprovalDecided: ((Phase.WAITING,), None),
    journal.SubSessionLinked: ((Phase.PENDING, Phase.ALLOWED, Phase.STARTED), None),
    journal.CallStarted: ((Phase.PENDING, Phase.ALLOWED, Phase.STARTED), Phase.STARTED),
    journal.CallFinished: ((Phase.PENDING, Phase.WAITING, Phase.ALLOWED, Phase.DENIED, Phase.STARTED), Phase.RETURNED),
}
"""For each entry about a call: the phases that it may follow, and the phase after it. None: it depends on the entry."""
