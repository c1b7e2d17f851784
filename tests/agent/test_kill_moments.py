"""A program that is killed from outside, at the moments that matter most: in the middle of a stream, and while tools run."""

from __future__ import annotations

import signal

from crash import agent_program, programs
from tenuto.core.journal import CallFinished, CallStarted, ReplyReceived, RequestStarted
from tenuto.testing import call, say, stall, think, turn


def _acts(session, kind):
    return [entry.payload for entry in session.entries() if isinstance(entry.payload, kind)]


def test_in_the_middle_of_a_stream(tenuto_sim, tmp_path):
    """Half an answer is no answer: it is asked for again, once, and nothing of the half is kept."""
    tenuto_sim.script(turn(think("Hm."), say("Half "), stall(times=1), say("and half.")))
    where = str(tmp_path / "sessions.db")

    with programs.start_program(agent_program, where) as process:
        programs.wait_for(process, "text")
        process.send_signal(signal.SIGKILL)

    with agent_program.agent(where) as agent:
        session = agent.resume()
        assert (session.status, session.text, session.has_pending_work) == ("interrupted", "", True)
        session.continue_()
        assert (session.status, session.text) == ("completed", "Half and half.")
        assert (len(_acts(session, RequestStarted)), len(_acts(session, ReplyReceived))) == (2, 1)
    assert len(tenuto_sim.requests) == 2
    tenuto_sim.assert_clean()
    assert programs.find_problems(where) == []


def test_while_three_tools_run(tenuto_sim, tmp_path):
    """What may be done again is done again, and of the others it is said that nobody knows; each call has one result."""
    tenuto_sim.script(turn(call("look"), call("hold"), call("grip")), turn(say("It is done.")))
    where = str(tmp_path / "sessions.db")

    with programs.start_program(agent_program, where) as process:
        programs.wait_for(process, "holding", "holding")
        process.send_signal(signal.SIGKILL)

    with agent_program.agent(where) as agent:
        session = agent.resume()
        assert len(_acts(session, CallStarted)) == 3
        session.continue_()
        assert session.text == "It is done."
        results = sorted(_acts(session, CallFinished), key=lambda act: act.call_index)
        assert [act.outcome for act in results] == ["done", "interrupted", "interrupted"]
        assert all("may or may not" in str(act.result.content) for act in results[1:])
    tenuto_sim.assert_clean()
    assert programs.find_problems(where) == []
