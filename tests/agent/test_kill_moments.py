"""Kill a program in the middle of a stream and while tools run."""

from __future__ import annotations

import signal

from crash import agent_program, programs
from tenuto.core.journal import CallFinished, CallStarted, ReplyReceived, RequestStarted
from tenuto.testing import call, say, stall, think, turn


def _payloads(session, kind):
    return [entry.payload for entry in session.entries() if isinstance(entry.payload, kind)]


def test_kill_in_a_stream_repeats_the_request_once(tenuto_sim, tmp_path):
    """Nothing of the partial reply is stored."""
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
        assert (len(_payloads(session, RequestStarted)), len(_payloads(session, ReplyReceived))) == (2, 1)
    assert len(tenuto_sim.requests) == 2
    tenuto_sim.assert_clean()
    assert programs.find_problems(where) == []


def test_kill_during_tools_gives_each_call_one_result(tenuto_sim, tmp_path):
    """Repeatable calls run again; the outcome of the others is unknown."""
    tenuto_sim.script(turn(call("look"), call("hold"), call("grip")), turn(say("It is done.")))
    where = str(tmp_path / "sessions.db")

    with programs.start_program(agent_program, where) as process:
        programs.wait_for(process, "holding", "holding")
        process.send_signal(signal.SIGKILL)

    with agent_program.agent(where) as agent:
        session = agent.resume()
        assert len(_payloads(session, CallStarted)) == 3
        session.continue_()
        assert session.text == "It is done."
        results = sorted(_payloads(session, CallFinished), key=lambda act: act.call_index)
        assert [act.outcome for act in results] == ["done", "interrupted", "interrupted"]
        assert all("may or may not" in str(act.result.content) for act in results[1:])
    tenuto_sim.assert_clean()
    assert programs.find_problems(where) == []
