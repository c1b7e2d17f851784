"""The state machine: its table, and properties for any journal."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import journals as j
from tenuto.agent.machine import (
    TABLE,
    AskModel,
    FinishCancel,
    InvalidTransition,
    Machine,
    Phase,
    RetryRequest,
    RunTools,
    State,
    TurnBoundary,
)
from tenuto.agent.runner import cancel_entries, entries_before_message
from tenuto.core.journal import (
    ApprovalDecided,
    ApprovalRequested,
    CallFinished,
    CallStarted,
    Configured,
    MessageAdded,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    RunEnded,
    SteeringAdded,
    SubSessionLinked,
    TranscriptFold,
    UnknownPayload,
    transcript_of,
)

REST, CALLING, WAITING, DRAINING, RECOVERING, CANCELLING = (
    State.COMPLETED,
    State.CALLING_LLM,
    State.WAITING_FOR_OPS,
    State.DRAINING_EVENTS,
    State.ERROR_RECOVERY,
    State.CANCELLING,
)
TWO = j.reply_with_calls(2)
REACHED = {
    REST: [j.MESSAGE_ADDED, j.REQUEST_STARTED, j.REPLY_RECEIVED],
    CALLING: [j.MESSAGE_ADDED, j.REQUEST_STARTED],
    WAITING: [j.MESSAGE_ADDED, j.REQUEST_STARTED, TWO],
    DRAINING: [j.MESSAGE_ADDED, j.REQUEST_STARTED, TWO, j.call_finished(0), j.call_finished(1)],
    RECOVERING: [j.MESSAGE_ADDED, j.REQUEST_STARTED, j.REQUEST_FAILED],
    CANCELLING: [j.MESSAGE_ADDED, j.REQUEST_STARTED, TWO, j.CANCELLING],
}
EVENTS = {
    "configured": [j.CONFIGURED],
    "compaction_requested": [j.COMPACTING],
    "compacted": [j.compacted_up_to(1)],
    "compaction_failed": [j.NOT_COMPACTED],
    "handed_over": [j.HANDED_OVER],
    "loss_recorded": [j.LOSS_RECORDED],
    "metadata_changed": [j.METADATA],
    "message_added": [j.MESSAGE_ADDED],
    "steering_added": [j.STEERING_ADDED],
    "request_started": [j.REQUEST_STARTED],
    "reply_received": [j.REPLY_RECEIVED],
    "reply_received with calls": [TWO],
    "reply_received and paused": [j.PAUSED_REPLY],
    "request_failed": [j.REQUEST_FAILED],
    "approval_requested": [j.approval_requested(0)],
    "approval_decided": [j.approval_decided(0)],
    "sub_session_linked": [j.sub_session_linked(0)],
    "call_started": [j.call_started(0)],
    "call_finished": [j.call_finished(0)],
    "call_finished last": [j.call_finished(0), j.call_finished(1)],
    "run_ended": [j.CANCELLED],
    "run_ended completed": [j.COMPLETED],
    "cancelling": [j.CANCELLING],
}
"""The payloads that lead to each event; the last one is the event."""
FIRST = {
    (WAITING, "approval_decided"): [j.approval_requested(0)],
    (CANCELLING, "run_ended"): [j.call_finished(0), j.call_finished(1)],
}
"""The payloads that must precede an event in a state."""
ANYWHERE = dict.fromkeys(
    (
        "configured",
        "compaction_requested",
        "compacted",
        "compaction_failed",
        "handed_over",
        "loss_recorded",
        "metadata_changed",
    ),
    "",
)
LEADS = {
    REST: ANYWHERE | {"message_added": CALLING, "steering_added": CALLING, "run_ended": ""},
    CALLING: ANYWHERE
    | {"message_added": "", "steering_added": "", "request_started": "", "run_ended": ""}
    | {"reply_received": REST, "reply_received with calls": WAITING, "reply_received and paused": DRAINING}
    | {"request_failed": RECOVERING, "cancelling": CANCELLING},
    WAITING: ANYWHERE
    | dict.fromkeys(
        ("approval_requested", "approval_decided", "sub_session_linked", "call_started", "call_finished", "run_ended"),
        "",
    )
    | {"call_finished last": DRAINING, "cancelling": CANCELLING},
    DRAINING: ANYWHERE
    | {
        "message_added": CALLING,
        "steering_added": "",
        "request_started": CALLING,
        "run_ended": "",
        "run_ended completed": REST,
        "cancelling": CANCELLING,
    },
    RECOVERING: ANYWHERE
    | {"message_added": CALLING, "request_started": CALLING, "run_ended": "", "cancelling": CANCELLING},
    CANCELLING: ANYWHERE | {"call_finished": "", "call_finished last": "", "run_ended": DRAINING},
}


def machine_with(acts) -> Machine:
    machine = Machine()
    for act in acts:
        machine.apply(act)
    return machine


def snapshot(machine: Machine) -> dict:
    return {**vars(machine)}  # its values are immutable and replaced


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", State)
def test_each_event_has_the_transition_of_the_table(state, event):
    """For every state and event. A refused event changes nothing."""
    *before, act = EVENTS[event]
    if event == "run_ended completed" and state is not DRAINING:
        event = "run_ended"  # this ends the work only after the results of a turn
    possible = event in LEADS[state]
    machine = machine_with([*REACHED[state], *FIRST.get((state, event), ()), *(before if possible else ())])
    then = snapshot(machine)

    if possible:
        machine.apply(act)
        assert machine.state is (LEADS[state][event] or state)
    else:
        with pytest.raises(
            InvalidTransition, match=f"'{event.split()[0]}.*' cannot happen while .* {state.value}"
        ) as caught:
            machine.apply(act)
        assert caught.value.state is state
        assert snapshot(machine) == then


def test_table_has_only_tested_events():
    """Every state is in the table; one event is for runs that are cancelled before a reply."""
    assert set(TABLE) == set(State) == set(REACHED)
    assert {event for row in TABLE.values() for event in row} == {*EVENTS, "run_ended with a message"}
    assert {state: {*row} - {"run_ended with a message"} for state, row in TABLE.items()} == {
        state: {*row} for state, row in LEADS.items()
    }


def test_payload_of_a_later_version_is_refused():
    """Even with a known kind."""
    for state, acts in REACHED.items():
        for kind in ("message_added", "configured", "dreamt"):
            machine = machine_with(acts)
            with pytest.raises(InvalidTransition, match=f"'unknown {kind}'"):
                machine.apply(UnknownPayload(kind, "{}"))
            assert machine.state is state


@pytest.mark.parametrize(
    "acts, why",
    [
        ([j.call_started(2)], "no call 2"),
        ([j.call_started(-1)], "no call -1"),
        ([j.call_finished(0), j.call_finished(0)], "returned already"),
        ([j.approval_requested(0), j.call_started(0)], "waiting already"),
        ([j.approval_decided(0)], "pending already"),
        ([j.approval_requested(0), j.approval_requested(0)], "waiting already"),
        ([j.approval_requested(0), j.approval_decided(0, allowed=False), j.call_started(0)], "denied already"),
        ([j.call_finished(0), j.sub_session_linked(0)], "returned already"),
    ],
)
def test_call_takes_its_steps_in_order(acts, why):
    """Each step at most once, and only for a call that exists."""
    *before, last = acts
    machine = machine_with([*REACHED[WAITING], *before])
    then = snapshot(machine)

    with pytest.raises(InvalidTransition, match=why):
        machine.apply(last)
    assert snapshot(machine) == then


def test_message_over_open_calls_is_refused():
    """The error names the calls that need results."""
    with pytest.raises(InvalidTransition, match=r"no result yet: act \(call_0\), act \(call_1\)"):
        machine_with([*REACHED[WAITING], j.MESSAGE_ADDED])
    with pytest.raises(
        InvalidTransition, match=r"'run_ended with open calls'.*no result yet: act \(call_0\), act \(call_1\)"
    ):
        machine_with([*REACHED[CANCELLING], j.CANCELLED])


def test_cancelled_run_keeps_its_pending_work():
    """A request without a reply is sent again; a finished turn continues."""
    machine = machine_with([j.MESSAGE_ADDED, j.REQUEST_STARTED, j.CANCELLING, j.CANCELLED])
    failed = machine_with([j.MESSAGE_ADDED, j.REQUEST_STARTED, j.REQUEST_FAILED, j.CANCELLING, j.CANCELLED])
    worked = machine_with([*REACHED[CANCELLING], j.call_finished(0), j.call_finished(1), j.CANCELLED])
    paused = machine_with(
        [j.MESSAGE_ADDED, j.REQUEST_STARTED, j.PAUSED_REPLY, j.REQUEST_STARTED, j.CANCELLING, j.CANCELLED]
    )

    assert (machine.next_step(), machine.attempt) == (AskModel(), 2)
    assert (failed.next_step(), failed.attempt) == (AskModel(), 2)
    assert worked.next_step() == TurnBoundary()
    assert paused.next_step() == TurnBoundary(paused=True)


def test_turn_with_answered_calls_is_not_paused():
    """Its results are sent, not the turn alone, so a message may follow."""
    assert machine_with(
        [j.MESSAGE_ADDED, j.REQUEST_STARTED, j.reply_with_calls(1, raw_stop_reason="pause_turn"), j.call_finished(0)]
    ).next_step() == TurnBoundary(paused=False)
    assert machine_with([j.MESSAGE_ADDED, j.REQUEST_STARTED, j.PAUSED_REPLY]).next_step() == TurnBoundary(paused=True)
    assert machine_with(
        [j.MESSAGE_ADDED, j.REQUEST_STARTED, j.PAUSED_REPLY, j.STEERING_ADDED]
    ).next_step() == TurnBoundary(paused=False)


def test_attempts_and_failures_count_from_the_last_reply():
    """Also after a kill."""
    twice = machine_with([j.MESSAGE_ADDED, j.REQUEST_STARTED, j.REQUEST_FAILED, j.REQUEST_STARTED, j.REQUEST_FAILED])

    assert twice.next_step() == RetryRequest()
    assert (twice.attempt, twice.failures) == (3, 2)
    assert machine_with([j.MESSAGE_ADDED, j.REQUEST_STARTED, TWO]).attempt == 1
    assert machine_with([j.MESSAGE_ADDED, j.REQUEST_STARTED, j.MESSAGE_ADDED]).attempt == 1


def test_stop_reason_is_known_until_the_work_continues():
    """Payloads that change nothing preserve it."""
    waiting = RunEnded("waiting", "approval")
    machine = machine_with([*REACHED[WAITING], j.approval_requested(0), waiting, j.CONFIGURED, j.LOSS_RECORDED])

    assert machine.halted == waiting
    machine.apply(j.approval_decided(0))
    assert machine.halted is None


# --- any journal ------------------------------------------------------------------------------------------------------

PLACES = (-1, 0, 0, 1, 1, 2, 3)
ALL = [
    *(
        j.MESSAGE_ADDED,
        j.MESSAGE_ADDED,
        j.REQUEST_STARTED,
        j.REQUEST_STARTED,
        j.REQUEST_STARTED,
        j.REPLY_RECEIVED,
        j.PAUSED_REPLY,
        j.REQUEST_FAILED,
        j.STEERING_ADDED,
    ),
    *(j.CONFIGURED, j.LOSS_RECORDED, j.METADATA, j.HANDED_OVER, UnknownPayload("message_added", "{}")),
    *(j.COMPLETED, j.CANCELLED, j.CANCELLED, j.CANCELLING, RunEnded("limit", "turns")),
    *(
        j.reply_with_calls(count, raw_stop_reason=stop)
        for count in (1, 2, 3)
        for stop in ("tool_use", "tool_use", "pause_turn")
    ),
    *(j.call_started(at, attempt, "once") for at in PLACES for attempt in (1, 2)),
    *(j.call_finished(at) for at in (*PLACES, *PLACES)),
    *(act(at) for at in PLACES for act in (j.approval_requested, j.approval_decided, j.sub_session_linked)),
    *(j.approval_decided(at, allowed=False) for at in PLACES),
    *(j.compacted_up_to(upto) for upto in (0, 3, 7, 20)),
]
JOURNALS = st.binary(min_size=40, max_size=120).map(lambda picks: [ALL[pick % len(ALL)] for pick in picks])
"""Any payloads in any order: one byte selects one, the cheapest form for Hypothesis."""


class MachineSketch:
    """A second implementation without a table: the transitions follow from the conversation."""

    def __init__(self):
        self.asking = self.cancelling = self.failed = self.waits = self.question = False
        self.calls = []

    @property
    def open(self):
        return any(phase != "returned" for phase in self.calls)

    def takes(self, act) -> bool:
        match act:
            case MessageAdded() | SteeringAdded():
                ok = not self.open and not self.cancelling and not (self.failed and isinstance(act, SteeringAdded))
                stays = self.waits and not self.asking and isinstance(act, SteeringAdded)  # received at this boundary
                if ok:
                    self.calls, self.failed, self.question = [], False, True
                    self.asking, self.waits = not stays, stays
                return ok
            case RequestStarted():
                ok = (self.asking or self.waits or self.failed) and not self.open and not self.cancelling
                if ok:
                    self.asking, self.waits, self.failed = True, False, False
                return ok
            case ReplyReceived(message):
                ok = self.asking and not self.cancelling
                if ok:
                    self.calls = ["pending" for _ in message.tool_calls()]
                    self.asking, self.question = False, False
                    self.waits = not self.calls and message.paused
                return ok
            case RequestFailed():
                ok = self.asking and not self.cancelling
                if ok:
                    self.asking, self.failed = False, True
                return ok
            case RunEnded("cancelling"):
                ok = (self.asking or self.waits or self.failed or self.open) and not self.cancelling
                self.cancelling = self.cancelling or ok
                return ok
            case RunEnded():
                ok = not (self.cancelling and self.open)
                if ok and self.cancelling:
                    self.cancelling, self.asking, self.failed = False, self.question, False
                    self.waits = not self.question
                elif ok and act.reason == "completed":
                    self.waits = False
                return ok
            case CallStarted() | CallFinished() | ApprovalRequested() | ApprovalDecided() | SubSessionLinked():
                return self.moves(act)
            case Configured():  # approvals for other tools expire
                self.calls = ["pending" if phase == "allowed" else phase for phase in self.calls]
            case UnknownPayload():
                return False
        return True

    def moves(self, act) -> bool:
        if not (self.open or (self.cancelling and self.calls)) or not 0 <= act.call_index < len(self.calls):
            return False
        phase, working = self.calls[act.call_index], not self.cancelling
        unbegun = phase in ("pending", "allowed", "started")
        ok, then = {
            CallStarted: (unbegun and working, "started"),
            CallFinished: (phase != "returned", "returned"),
            ApprovalRequested: (phase in ("pending", "started") and working, "waiting"),
            ApprovalDecided: (phase == "waiting" and working, "allowed" if getattr(act, "allowed", 0) else "denied"),
            SubSessionLinked: (unbegun and working, phase),
        }[type(act)]
        if ok:
            self.calls[act.call_index] = then
            self.waits = not self.open and not self.cancelling
        return ok

    @property
    def state(self):
        if self.cancelling:
            return CANCELLING
        if self.open:
            return WAITING
        for state, holds in ((CALLING, self.asking), (RECOVERING, self.failed), (DRAINING, self.waits)):
            if holds:
                return state
        return REST


@settings(max_examples=300)
@given(JOURNALS)
def test_any_journal_moves_the_machine_or_is_refused(acts):
    """The sketch agrees with each step."""
    machine, sketch = Machine(), MachineSketch()
    for act in acts:
        then, possible = snapshot(machine), sketch.takes(act)
        try:
            machine.apply(act)
        except InvalidTransition:
            assert not possible, act
            assert snapshot(machine) == then
        else:
            assert possible, act
        assert machine.state is sketch.state
        assert [call.phase.value for call in machine.calls] == sketch.calls


def accepted_payloads(acts) -> list:
    """Return the payloads that the machine accepts, in order."""
    machine, accepted = Machine(), []
    for act in acts:
        try:
            machine.apply(act)
        except InvalidTransition:
            continue
        accepted.append(act)
    return accepted


WALKS = JOURNALS.map(accepted_payloads)


@settings(max_examples=200)
@given(WALKS, st.integers(0, 60))
def test_machine_after_a_crash_is_the_same(acts, cut):
    """Entries applied at once, in parts, as payloads or as entries."""
    complete = j.machine_of(j.entries_of(acts))
    pieces = j.machine_of(j.entries_of(acts[:cut]))
    for act in acts[cut:]:
        pieces = copy.copy(pieces)
        pieces.apply(act)

    assert snapshot(complete) == snapshot(pieces) == snapshot(machine_with(acts))


@settings(max_examples=200)
@given(WALKS)
def test_next_step_is_always_known(acts):
    """One step per state, which can be done."""
    machine = machine_with(acts)
    step = machine.next_step()

    kinds = {
        REST: type(None),
        CALLING: AskModel,
        WAITING: RunTools,
        DRAINING: TurnBoundary,
        RECOVERING: RetryRequest,
        CANCELLING: FinishCancel,
    }
    assert type(step) is kinds[machine.state]
    if isinstance(step, RunTools):
        assert step.calls
        assert all(call.phase is not Phase.RETURNED for call in step.calls)


@settings(max_examples=200)
@given(WALKS)
def test_any_run_can_be_ended_and_followed_by_a_message(acts):
    """The entries that end a run and precede a message are accepted in every state."""
    ended, machine = machine_with(acts), machine_with(acts)

    for act in cancel_entries(ended, j.CANCELLED, "the run was cancelled"):
        ended.apply(act)
    for act in (j.CONFIGURED, *entries_before_message(machine), j.MESSAGE_ADDED):
        machine.apply(act)

    assert not ended.open_calls
    assert ended.state in (REST, CALLING, DRAINING)
    assert machine.next_step() == AskModel()


@settings(max_examples=200)
@given(WALKS)
def test_request_has_a_result_for_every_call(acts):
    """No result without its call, and none missing, with or without a compaction."""
    entries = j.entries_of(acts)
    machine, transcript = j.machine_of(entries), transcript_of(entries)
    faults = transcript.check()

    assert not [fault for fault in faults if "answers no open call" in fault]
    assert [call.view for call in machine.open_calls] == list(TranscriptFold(entries).open_calls())
    if isinstance(machine.next_step(), AskModel | TurnBoundary | RetryRequest):
        assert not faults
