"""What a session owes, as a function of its journal: six states, one table, and nothing that waits or writes.

The machine is fed the entries of a session in their order. `state` says where it stands and `owed` what has to be done
next; whoever does it writes entries, and feeds them. So going on after a crash is the same as going on: the entries that
were committed are fed, and what is owed is owed.

An entry that cannot follow the ones before it is refused by its name (`InvalidTransition`), and changes nothing.
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

__all__ = [
    "CANCELLED",
    "CANCELLING",
    "TABLE",
    "AskModel",
    "CallState",
    "FinishCancel",
    "InvalidTransition",
    "Machine",
    "NextStep",
    "Phase",
    "RetryRequest",
    "RunTools",
    "State",
    "TurnBoundary",
    "machine_of",
]

CANCELLING = "cancelling"
CANCELLED = "cancelled"


class State(Enum):
    """Where a session stands."""

    CALLING_LLM = "calling_llm"
    WAITING_FOR_OPS = "waiting_for_ops"
    DRAINING_EVENTS = "draining_events"
    COMPLETED = "completed"
    CANCELLING = "cancelling"
    ERROR_RECOVERY = "error_recovery"


class Phase(Enum):
    """How far a call is."""

    PENDING = "pending"
    WAITING = "waiting"
    """For somebody's word."""
    ALLOWED = "allowed"
    DENIED = "denied"
    STARTED = "started"
    RETURNED = "returned"


class InvalidTransition(TenutoError):
    """An entry that cannot follow the ones before it. `event` names it, `state` where the session stood."""

    def __init__(self, event: str, state: State, why: str = "") -> None:
        super().__init__(f"{event!r} cannot happen while the session is {state.value}{f': {why}' if why else ''}")
        self.event = event
        self.state = state


class CallState(msgspec.Struct, frozen=True):
    """A call of the last reply. `attempt` counts how often it was started, `session` is the sub-agent's that answers it."""

    view: ToolCallView
    ordinal: int
    phase: Phase = Phase.PENDING
    attempt: int = 0
    key: str = ""
    effect: str = ""
    why: str = ""
    session: str = ""

    @property
    def open(self) -> bool:
        """Whether it has no result yet."""
        return self.phase is not Phase.RETURNED


# --- what is owed -----------------------------------------------------------------------------------------------------


class AskModel(msgspec.Struct, frozen=True):
    """The model is to be asked, for the `attempt`-th time since it last answered."""

    attempt: int = 1


class RunTools(msgspec.Struct, frozen=True):
    """These calls have no result yet."""

    calls: tuple[CallState, ...]


class TurnBoundary(msgspec.Struct, frozen=True):
    """A turn is over: what was said meanwhile is heard, limits are looked at, and the model is asked.

    `paused`: the provider broke off and gets its turn back as it is, so nothing may be said in between.
    """

    paused: bool = False


class RetryRequest(msgspec.Struct, frozen=True):
    """The last attempt to ask failed; so did `failures` in a row."""

    failed: RequestFailed
    failures: int


class FinishCancel(msgspec.Struct, frozen=True):
    """The run is being cancelled: these calls get the result that says so, and then it has stopped."""

    calls: tuple[CallState, ...]


NextStep: TypeAlias = AskModel | RunTools | TurnBoundary | RetryRequest | FinishCancel | None


# --- the table --------------------------------------------------------------------------------------------------------

_REST = dict.fromkeys(("configured", "compacted", "handed_over", "loss_recorded"))
"""What may be written anywhere, and leads nowhere else."""

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
        "run_ended with a question": State.CALLING_LLM,
    },
}
"""For each state, what may happen and where it leads; None: it stays. What is not named here cannot happen.

What is stopped owes the same as before: `run_ended` says that a run ended, not that nothing is left to do.
"""


class Machine:
    """Follows one session. `halted` is why the last run stopped, until the work goes on."""

    def __init__(self) -> None:
        self.state = State.COMPLETED
        self.calls: list[CallState] = []
        self._open = 0
        self.halted: RunEnded | None = None
        self.paused = False
        self._asked = 0
        self._failures: tuple[RequestFailed, ...] = ()
        self._question = False

    def apply(self, act: EntryPayload | UnknownPayload) -> None:
        """Take note of what happened. Raise `InvalidTransition`, and stay as it was, if it cannot have happened now."""
        event = self._event(act)
        follows = TABLE[self.state]
        if event not in follows:
            raise InvalidTransition(event, self.state, self._why(event))
        self._move_calls(act, event)
        self.halted = act if isinstance(act, RunEnded) else self.halted if event in _REST else None
        self._count(act, event)
        self.state = follows[event] or self.state

    def copy(self) -> Machine:
        """Return an independent machine in the same state."""
        other = copy.copy(self)
        other.calls = self.calls.copy()
        return other

    @property
    def attempt(self) -> int:
        """Which attempt the next one is, since the model last answered or something was said."""
        return self._asked + 1

    @property
    def open_calls(self) -> tuple[CallState, ...]:
        """The calls of the last reply that have no result yet, in order."""
        return tuple(call for call in self.calls if call.open)

    def next_step(self) -> NextStep:
        """Say what is to be done next; None if nothing is."""
        if self.state is State.CALLING_LLM:
            return AskModel(self.attempt)
        if self.state is State.WAITING_FOR_OPS:
            return RunTools(self.open_calls)
        if self.state is State.DRAINING_EVENTS:
            return TurnBoundary(self.paused)
        if self.state is State.ERROR_RECOVERY:
            return RetryRequest(self._failures[-1], len(self._failures))
        return FinishCancel(self.open_calls) if self.state is State.CANCELLING else None

    # --- what happened, in the table's words ---

    def _event(self, act: EntryPayload | UnknownPayload) -> str:
        if isinstance(act, ReplyReceived):
            if act.message.has_tool_calls():
                return "reply_received with calls"
            return "reply_received and paused" if act.message.paused else "reply_received"
        if isinstance(act, CallFinished):
            return "call_finished" if self._open > 1 else "call_finished last"
        if isinstance(act, RunEnded):
            if act.reason == CANCELLING:
                return CANCELLING
            if self.state is not State.CANCELLING:
                return "run_ended"
            if self._open:
                return "run_ended with open calls"
            return "run_ended with a question" if self._question else "run_ended"
        return f"strange {act.kind}" if isinstance(act, UnknownPayload) else payload_kind(act)

    def _why(self, event: str) -> str:
        if (
            event in ("message_added", "steering_added", "request_started", "run_ended with open calls")
            and self.open_calls
        ):
            named = ", ".join(f"{call.view.name} ({call.view.id})" for call in self.open_calls)
            return f"calls have no result yet: {named}"
        return ""

    def _move_calls(self, act: EntryPayload | UnknownPayload, event: str) -> None:
        """Update the calls. Raise `InvalidTransition`, before anything changes, if a call cannot take the step."""
        if isinstance(act, ReplyReceived):
            self.calls = [CallState(view, ordinal) for ordinal, view in enumerate(act.message.tool_calls())]
            self._open = len(self.calls)
        elif isinstance(act, MessageAdded | SteeringAdded):
            self.calls, self._open = [], 0
        elif isinstance(act, Configured):
            self.calls = [*map(_reconsidered, self.calls)]
        elif isinstance(act, ApprovalRequested | ApprovalDecided | SubSessionLinked | CallStarted | CallFinished):
            if not 0 <= act.call_index < len(self.calls):
                raise InvalidTransition(event, self.state, f"the last reply has no call {act.call_index}")
            before = self.calls[act.call_index]
            after = _moved(before, act)
            if after is None:
                why = f"call {act.call_index} ({before.view.name}) is {before.phase.value} already"
                raise InvalidTransition(event, self.state, why)
            self.calls[act.call_index] = after
            self._open -= isinstance(act, CallFinished)

    def _count(self, act: EntryPayload | UnknownPayload, event: str) -> None:
        if isinstance(act, RequestStarted):
            self._asked += 1
        elif isinstance(act, RequestFailed):
            self._failures = (*self._failures, act)
        elif isinstance(act, MessageAdded | SteeringAdded | ReplyReceived):
            self._asked = 0
            self._failures = ()
            self._question = not isinstance(act, ReplyReceived)
            self.paused = event == "reply_received and paused"


CALL_STEPS = {
    ApprovalRequested: ((Phase.PENDING, Phase.STARTED), Phase.WAITING),
    SubSessionLinked: ((Phase.PENDING, Phase.ALLOWED, Phase.STARTED), None),
    CallStarted: ((Phase.PENDING, Phase.ALLOWED, Phase.STARTED), Phase.STARTED),
    CallFinished: ((Phase.PENDING, Phase.WAITING, Phase.ALLOWED, Phase.DENIED, Phase.STARTED), Phase.RETURNED),
}


def _moved(
    call: CallState, act: ApprovalRequested | ApprovalDecided | SubSessionLinked | CallStarted | CallFinished
) -> CallState | None:
    """Return the call one step further; None if it cannot take this step."""
    if isinstance(act, ApprovalDecided):
        phase = Phase.ALLOWED if act.allowed else Phase.DENIED
        return msgspec.structs.replace(call, phase=phase, why=act.reason) if call.phase is Phase.WAITING else None
    before, after = CALL_STEPS[type(act)]
    if call.phase not in before:
        return None
    if isinstance(act, SubSessionLinked):
        return msgspec.structs.replace(call, session=act.session)
    if isinstance(act, CallStarted):
        return msgspec.structs.replace(
            call, phase=after, attempt=act.attempt, key=act.idempotency_key, effect=act.effect
        )
    return msgspec.structs.replace(call, phase=after)


def _reconsidered(call: CallState) -> CallState:
    """What was allowed was allowed of the tools as they were; once they changed, it is asked for again."""
    return msgspec.structs.replace(call, phase=Phase.PENDING) if call.phase is Phase.ALLOWED else call


def machine_of(entries: Iterable[Entry]) -> Machine:
    """Feed a session's entries. Raise `InvalidTransition`, naming the entry, if one cannot follow those before it."""
    machine = Machine()
    for entry in entries:
        try:
            machine.apply(entry.payload)
        except InvalidTransition as exc:
            exc.add_note(f"entry {entry.seq}")
            raise
    return machine
