"""Steering, approvals and cancellation from another process, also if the holder is killed before it notices them."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from agent import holder
from crash import programs
from tenuto.core.journal import ApprovalDecided, CallFinished, MessageAdded, RunEnded, SteeringAdded
from tenuto.errors import RunCancelled
from tenuto.testing import call, say, turn

PAY, HOLD = call("pay", {"amount": 5}), call("hold")


@pytest.fixture
def paths(tmp_path):
    return str(tmp_path / "sessions.db"), str(tmp_path / "ledger")


def payments(paths) -> list[str]:
    ledger = Path(paths[1])
    return ledger.read_text().split() if ledger.exists() else []


def payloads(session, kind):
    return [entry.payload for entry in session.entries() if isinstance(entry.payload, kind)]


def results(session) -> list[str]:
    finished = sorted(payloads(session, CallFinished), key=lambda payload: payload.call_index)
    return [str(payload.result.content) for payload in finished]


def test_steering_survives_the_kill_of_the_holder(tenuto_sim, paths):
    tenuto_sim.script(turn(HOLD), turn("In Celsius."))
    with holder.make_agent(*paths) as agent:
        with programs.start_program(holder, *paths, "deaf") as process:
            programs.wait_for(process, "holding")
            agent.session("run").steer("Only Celsius.")
            process.send_signal(signal.SIGKILL)
        for _ in range(2):
            session = agent.resume("run")
            session.continue_()

        assert [str(entry.message) for entry in payloads(session, SteeringAdded)] == ["Only Celsius."]
        assert (session.status, session.text) == ("completed", "In Celsius.")
    assert len(tenuto_sim.requests) == 2
    tenuto_sim.assert_clean()
    assert programs.find_problems(paths[0]) == []


@pytest.mark.parametrize("deaf", [True, False], ids=["killed", "heard"])
def test_approval_from_another_process_runs_the_call_once(tenuto_sim, paths, deaf):
    tenuto_sim.script(turn(PAY, HOLD), turn("Paid."))
    with holder.make_agent(*paths) as agent:
        with programs.start_program(holder, *paths, *(["deaf"] if deaf else [])) as process:
            programs.wait_for(process, "holding")
            session = agent.session("run")
            assert [one.call.name for one in session.pending] == ["pay"]
            assert session.approve() is None  # the holder runs it
            if not deaf:
                programs.wait_for(process, "paid")
            process.send_signal(signal.SIGKILL)
        for _ in range(2):
            session = agent.resume("run")
            session.continue_()

        assert [entry.allowed for entry in payloads(session, ApprovalDecided)] == [True]
        assert (session.status, session.text) == ("completed", "Paid.")
        assert len(results(session)) == 2
    assert payments(paths) == ["5"]  # "heard": a payment without a recorded result is not repeated
    assert programs.find_problems(paths[0]) == []


@pytest.mark.parametrize("deaf", [True, False], ids=["killed", "heard"])
def test_denial_from_another_process_reaches_the_model(tenuto_sim, paths, deaf):
    tenuto_sim.script(turn(PAY, HOLD), turn("I see."))
    with holder.make_agent(*paths) as agent:
        with programs.start_program(holder, *paths, *(["deaf"] if deaf else [])) as process:
            programs.wait_for(process, "holding")
            session = agent.session("run")
            assert session.deny(reason="too much") is None
            if not deaf:
                _wait_until(lambda: session.load() or not session.pending)
            process.send_signal(signal.SIGKILL)
        session = agent.resume("run")
        session.continue_()

        assert [entry.allowed for entry in payloads(session, ApprovalDecided)] == [False]
        assert "pay was not run: too much" in results(session)[0]
        assert (session.status, session.text) == ("completed", "I see.")
    assert payments(paths) == []
    assert programs.find_problems(paths[0]) == []


def test_cancel_survives_the_kill_of_the_holder(tenuto_sim, paths):
    tenuto_sim.script(turn(HOLD), turn("Never sent."))
    with holder.make_agent(*paths) as agent:
        with programs.start_program(holder, *paths, "deaf") as process:
            programs.wait_for(process, "holding")
            agent.session("run").cancel()
            process.send_signal(signal.SIGKILL)
        session = agent.resume("run")
        assert session.status == "interrupted"
        with pytest.raises(RunCancelled):
            session.continue_()

        assert session.status == "cancelled"
        assert [entry.reason for entry in payloads(session, RunEnded)] == ["cancelling", "cancelled"]
        assert len(tenuto_sim.requests) == 1
        assert agent.resume("run").continue_().text  # the cancel is consumed: the session can continue
    assert programs.find_problems(paths[0]) == []


def test_cancel_ends_the_run_of_another_process(tenuto_sim, paths):
    tenuto_sim.script(turn(HOLD), turn("Never sent."))
    with programs.start_program(holder, *paths) as process, holder.make_agent(*paths) as agent:
        programs.wait_for(process, "holding")
        agent.session("run").cancel()
        programs.wait_for(process, "cancelled")
        assert process.wait(20) == 0
        session = agent.resume("run")
        assert session.status == "cancelled"
        assert [entry.reason for entry in payloads(session, RunEnded)] == ["cancelling", "cancelled"]
    assert len(tenuto_sim.requests) == 1


def test_cancel_of_a_dead_holder_takes_effect_at_once(tenuto_sim, paths):
    tenuto_sim.script(turn(HOLD), turn("Never sent."))
    with programs.start_program(holder, *paths) as process:
        programs.wait_for(process, "holding")
        process.send_signal(signal.SIGKILL)
    with holder.make_agent(*paths) as agent:
        session = agent.session("run")
        assert session.status == "interrupted"
        session.cancel()
        assert session.status == "cancelled"
        assert "hold was interrupted: the run was cancelled" in results(session)[0]


def test_message_with_a_key_is_sent_once(tenuto_sim, paths):
    """A job that is delivered three times, the first time to a process that dies."""
    tenuto_sim.script(turn(HOLD), turn(say("Done.")), turn(say("Other.")))
    with programs.start_program(holder, *paths) as process:
        programs.wait_for(process, "holding")
        process.send_signal(signal.SIGKILL)
    replies = []
    with holder.make_agent(*paths) as agent:
        for _ in range(2):
            replies.append(agent.session("run").send("Go.", key=holder.KEY))
        session = agent.session("run")
        with pytest.raises(ValueError, match="another message with the key 'job-7'"):
            session.send("Stop.", key=holder.KEY)
        assert session.send("And?").text == "Other."
        replies.append(session.send("Go.", key=holder.KEY))

        assert [str(entry.message) for entry in payloads(session, MessageAdded)] == ["Go.", "And?"]
    assert [reply.text for reply in replies] == ["Done."] * 3
    assert len({reply.reply.message for reply in replies}) == 1
    assert [len(reply.reply.transcript) for reply in replies] == [4, 4, 4]
    assert len({reply.cost for reply in replies}) == 1
    assert len(tenuto_sim.requests) == 3
    tenuto_sim.assert_clean()


def _wait_until(condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
