"""The machine: a table that is held whole, and what holds after any journal whatever."""

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
TWO = j.calling(2)
REACHED = {
    REST: [j.SAID, j.ASKED, j.REPLIED],
    CALLING: [j.SAID, j.ASKED],
    WAITING: [j.SAID, j.ASKED, TWO],
    DRAINING: [j.SAID, j.ASKED, TWO, j.returned(0), j.returned(1)],
    RECOVERING: [j.SAID, j.ASKED, j.FAILED],
    CANCELLING: [j.SAID, j.ASKED, TWO, j.CANCELLING],
}
EVENTS = {
    "configured": [j.CONFIGURED],
    "compaction_requested": [j.COMPACTING],
    "compacted": [j.compacted(1)],
    "compaction_failed": [j.NOT_COMPACTED],
    "handed_over": [j.HANDED_OVER],
    "loss_recorded": [j.LOST],
    "metadata_changed": [j.METADATA],
    "message_added": [j.SAID],
    "steering_added": [j.STEERED],
    "request_started": [j.ASKED],
    "reply_received": [j.REPLIED],
    "reply_received with calls": [TWO],
    "reply_received and paused": [j.PAUSED],
    "request_failed": [j.FAILED],
    "approval_requested": [j.approval(0)],
    "approval_decided": [j.decided(0)],
    "sub_session_linked": [j.linked(0)],
    "call_started": [j.started(0)],
    "call_finished": [j.returned(0)],
    "call_finished last": [j.returned(0), j.returned(1)],
    "run_ended": [j.CANCELLED],
    "run_ended completed": [j.COMPLETED],
    "cancelling": [j.CANCELLING],
}
"""Each event as the acts that lead to it, of which the last is it."""
FIRST = {
    (WAITING, "approval_decided"): [j.approval(0)],
    (CANCELLING, "run_ended"): [j.returned(0), j.returned(1)],
}
"""What has to be before an event, in a state, for it to be that event."""
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


def fed(acts) -> Machine:
    machine = Machine()
    for act in acts:
        machine.apply(act)
    return machine


def seen(machine: Machine) -> dict:
    return {**vars(machine)}  # what it holds does not change: it is replaced


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", State)
def test_each_event_leads_where_the_table_says_or_is_refused_by_name(state, event):
    """Every state with every event. What is refused changes nothing."""
    *before, act = EVENTS[event]
    if event == "run_ended completed" and state is not DRAINING:
        event = "run_ended"  # only after the results of a turn does it end the work
    possible = event in LEADS[state]
    machine = fed([*REACHED[state], *FIRST.get((state, event), ()), *(before if possible else ())])
    then = seen(machine)

    if possible:
        machine.apply(act)
        assert machine.state is (LEADS[state][event] or state)
    else:
        with pytest.raises(
            InvalidTransition, match=f"'{event.split()[0]}.*' cannot happen while .* {state.value}"
        ) as caught:
            machine.apply(act)
        assert caught.value.state is state
        assert seen(machine) == then


def test_the_table_names_no_event_that_is_not_tested():
    """Every state is there, and what it knows are the events above; one is for runs that are cancelled before an answer."""
    assert set(TABLE) == set(State) == set(REACHED)
    assert {event for row in TABLE.values() for event in row} == {*EVENTS, "run_ended with a message"}
    assert {state: {*row} - {"run_ended with a message"} for state, row in TABLE.items()} == {
        state: {*row} for state, row in LEADS.items()
    }


def test_an_act_of_a_later_version_is_refused_whatever_it_is_called():
    """Even by a name that is known: nobody knows what it means."""
    for state, acts in REACHED.items():
        for kind in ("message_added", "configured", "dreamt"):
            machine = fed(acts)
            with pytest.raises(InvalidTransition, match=f"'unknown {kind}'"):
                machine.apply(UnknownPayload(kind, "{}"))
            assert machine.state is state


@pytest.mark.parametrize(
    "acts, why",
    [
        ([j.started(2)], "no call 2"),
        ([j.started(-1)], "no call -1"),
        ([j.returned(0), j.returned(0)], "returned already"),
        ([j.approval(0), j.started(0)], "waiting already"),
        ([j.decided(0)], "pending already"),
        ([j.approval(0), j.approval(0)], "waiting already"),
        ([j.approval(0), j.decided(0, allowed=False), j.started(0)], "denied already"),
        ([j.returned(0), j.linked(0)], "returned already"),
    ],
)
def test_a_call_takes_its_steps_in_order(acts, why):
    """None twice that happens once, and none for a call that was not made."""
    *before, last = acts
    machine = fed([*REACHED[WAITING], *before])
    then = seen(machine)

    with pytest.raises(InvalidTransition, match=why):
        machine.apply(last)
    assert seen(machine) == then


def test_what_is_said_over_open_calls_is_refused_and_they_are_named():
    """Who reads it knows which calls have to be answered first."""
    with pytest.raises(InvalidTransition, match=r"no result yet: act \(call_0\), act \(call_1\)"):
        fed([*REACHED[WAITING], j.SAID])
    with pytest.raises(
        InvalidTransition, match=r"'run_ended with open calls'.*no result yet: act \(call_0\), act \(call_1\)"
    ):
        fed([*REACHED[CANCELLING], j.CANCELLED])


def test_what_a_cancelled_run_owes_is_what_it_owed():
    """A question that had no answer is asked again; a turn that was over goes on."""
    asked = fed([j.SAID, j.ASKED, j.CANCELLING, j.CANCELLED])
    failed = fed([j.SAID, j.ASKED, j.FAILED, j.CANCELLING, j.CANCELLED])
    worked = fed([*REACHED[CANCELLING], j.returned(0), j.returned(1), j.CANCELLED])
    paused = fed([j.SAID, j.ASKED, j.PAUSED, j.ASKED, j.CANCELLING, j.CANCELLED])

    assert (asked.next_step(), asked.attempt) == (AskModel(), 2)
    assert (failed.next_step(), failed.attempt) == (AskModel(), 2)
    assert worked.next_step() == TurnBoundary()
    assert paused.next_step() == TurnBoundary(paused=True)


def test_a_turn_with_calls_is_not_paused_once_they_are_answered():
    """Its results go back, not the turn as it is: so something may be said with them."""
    assert fed(
        [j.SAID, j.ASKED, j.calling(1, raw_stop_reason="pause_turn"), j.returned(0)]
    ).next_step() == TurnBoundary(paused=False)
    assert fed([j.SAID, j.ASKED, j.PAUSED]).next_step() == TurnBoundary(paused=True)
    assert fed([j.SAID, j.ASKED, j.PAUSED, j.STEERED]).next_step() == TurnBoundary(paused=False)


def test_attempts_and_failures_count_from_the_last_answer():
    """So that who goes on after a kill knows that he asks again."""
    twice = fed([j.SAID, j.ASKED, j.FAILED, j.ASKED, j.FAILED])

    assert twice.next_step() == RetryRequest()
    assert (twice.attempt, twice.failures) == (3, 2)
    assert fed([j.SAID, j.ASKED, TWO]).attempt == 1
    assert fed([j.SAID, j.ASKED, j.SAID]).attempt == 1


def test_why_a_run_stopped_is_known_until_the_work_goes_on():
    """What changes nothing keeps it."""
    waiting = RunEnded("waiting", "approval")
    machine = fed([*REACHED[WAITING], j.approval(0), waiting, j.CONFIGURED, j.LOST])

    assert machine.halted == waiting
    machine.apply(j.decided(0))
    assert machine.halted is None


# --- any journal ------------------------------------------------------------------------------------------------------

PLACES = (-1, 0, 0, 1, 1, 2, 3)
ALL = [
    *(j.SAID, j.SAID, j.ASKED, j.ASKED, j.ASKED, j.REPLIED, j.PAUSED, j.FAILED, j.STEERED),
    *(j.CONFIGURED, j.LOST, j.METADATA, j.HANDED_OVER, UnknownPayload("message_added", "{}")),
    *(j.COMPLETED, j.CANCELLED, j.CANCELLED, j.CANCELLING, RunEnded("limit", "turns")),
    *(j.calling(count, raw_stop_reason=stop) for count in (1, 2, 3) for stop in ("tool_use", "tool_use", "pause_turn")),
    *(j.started(at, attempt, "once") for at in PLACES for attempt in (1, 2)),
    *(j.returned(at) for at in (*PLACES, *PLACES)),
    *(act(at) for at in PLACES for act in (j.approval, j.decided, j.linked)),
    *(j.decided(at, allowed=False) for at in PLACES),
    *(j.compacted(upto) for upto in (0, 3, 7, 20)),
]
JOURNALS = st.binary(min_size=40, max_size=120).map(lambda picks: [ALL[pick % len(ALL)] for pick in picks])
"""Any acts in any order: a byte picks one, which costs Hypothesis less than anything else would."""


class Sketch:
    """The same machine, written another way: what may follow, by what is known of the conversation. It has no table."""

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
                stays = (
                    self.waits and not self.asking and isinstance(act, SteeringAdded)
                )  # heard at the boundary, where it is
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
            case Configured():  # what was allowed of other tools is to be allowed anew
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
def test_any_journal_moves_the_machine_or_leaves_it_as_it_was(acts):
    """And the machine agrees with a sketch of it, act by act: what may follow, and where it leads."""
    machine, sketch = Machine(), Sketch()
    for act in acts:
        then, possible = seen(machine), sketch.takes(act)
        try:
            machine.apply(act)
        except InvalidTransition:
            assert not possible, act
            assert seen(machine) == then
        else:
            assert possible, act
        assert machine.state is sketch.state
        assert [call.phase.value for call in machine.calls] == sketch.calls


def legal(acts) -> list:
    """What of a journal can happen, in its order."""
    machine, kept = Machine(), []
    for act in acts:
        try:
            machine.apply(act)
        except InvalidTransition:
            continue
        kept.append(act)
    return kept


WALKS = JOURNALS.map(legal)


@settings(max_examples=200)
@given(WALKS, st.integers(0, 60))
def test_going_on_after_a_crash_is_going_on(acts, cut):
    """Fed at once or in pieces, by hand or from entries: the same machine."""
    whole = j.machine_of(j.entries_of(acts))
    pieces = j.machine_of(j.entries_of(acts[:cut]))
    for act in acts[cut:]:
        pieces = copy.copy(pieces)
        pieces.apply(act)

    assert seen(whole) == seen(pieces) == seen(fed(acts))


@settings(max_examples=200)
@given(WALKS)
def test_what_is_owed_is_always_known(acts):
    """One answer for each state, and nothing that is owed cannot be done."""
    machine = fed(acts)
    owed = machine.next_step()

    kinds = {
        REST: type(None),
        CALLING: AskModel,
        WAITING: RunTools,
        DRAINING: TurnBoundary,
        RECOVERING: RetryRequest,
        CANCELLING: FinishCancel,
    }
    assert type(owed) is kinds[machine.state]
    if isinstance(owed, RunTools):
        assert owed.calls
        assert all(call.phase is not Phase.RETURNED for call in owed.calls)


@settings(max_examples=200)
@given(WALKS)
def test_whatever_happened_a_run_can_be_ended_and_something_new_be_said(acts):
    """What ends a run, and what is written before something new is said, can follow anything."""
    ended, machine = fed(acts), fed(acts)

    for act in cancel_entries(ended, j.CANCELLED, "the run was cancelled"):
        ended.apply(act)
    for act in (j.CONFIGURED, *entries_before_message(machine), j.SAID):
        machine.apply(act)

    assert not ended.open_calls
    assert ended.state in (REST, CALLING, DRAINING)
    assert machine.next_step() == AskModel()


@settings(max_examples=200)
@given(WALKS)
def test_a_model_that_is_asked_finds_every_call_answered(acts):
    """No result without its call, and none missing where the model is to be asked, compaction or not."""
    entries = j.entries_of(acts)
    machine, transcript = j.machine_of(entries), transcript_of(entries)
    faults = transcript.check()

    assert not [fault for fault in faults if "answers no open call" in fault]
    assert [call.view for call in machine.open_calls] == list(TranscriptFold(entries).open_calls())
    if isinstance(machine.next_step(), AskModel | TurnBoundary | RetryRequest):
        assert not faults
