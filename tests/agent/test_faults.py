"""Rows 9, 20 and 28 of the fault table: clocks that jump, hostile names, signals. Row 1 is in `test_kill.py`."""

from __future__ import annotations

import asyncio
import itertools
import signal

import pytest

from crash import agent_program, programs
from tenuto import Limits, tool
from tenuto.agent.agent import AsyncAgent
from tenuto.agent.events import ApprovalNeeded
from tenuto.core.journal import ApprovalDecided, CallFinished, MessageAdded, RunEnded
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteEngine
from tenuto.testing import call, say, turn
from tenuto.tools.builtin import builtin_tools

TOOLS = turn(call("look"), call("hold"), call("grip"))
DAY = 86_400_000


def _payloads(session, kind):
    return [entry.payload for entry in session.entries() if isinstance(entry.payload, kind)]


# --- 9: clock jumps --------------------------------------------------------------------------------------------------


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


def test_jumping_clock_changes_no_order_and_no_limit(tenuto_sim, tmp_path):
    """The clock jumps a day forward and back with each reading: the order is that of the entries, and no limit in
    seconds is reached.
    """
    tenuto_sim.script(turn(call("look")), turn(call("look")), turn(say("It is done.")))
    jumps = itertools.cycle([0, DAY, -DAY, 3, 10 * DAY, -5])

    def now():
        return 1_700_000_000_000 + next(jumps)

    async def played():
        store = SqlStore(SqliteEngine(tmp_path / "sessions.db"), now=now)
        options = {"tools": [look], "store": store, "now": now, "limits": Limits(seconds=30)}
        async with store, AsyncAgent("sim/anthropic", **options) as agent:
            session = agent.session()
            await session.send("Go.")
            again = await agent.resume()
            return await again.entries(), again.status, await store.verify(), again.transcript.check()

    entries, *rest = asyncio.run(played())

    assert rest == ["completed", [], ()]
    times = [entry.time_ms for entry in entries]
    assert times != sorted(times)
    assert [entry.seq for entry in entries] == [*range(1, len(entries) + 1)]
    tenuto_sim.assert_clean()


def test_lease_from_a_clock_in_the_future_is_free(tenuto_sim, tmp_path):
    """Its dead holder's clock was a day ahead; the session is available at once."""
    tenuto_sim.script(TOOLS, turn(say("It is done.")))
    where = str(tmp_path / "sessions.db")

    with programs.start_program(agent_program, where, "24") as process:
        programs.wait_for(process, "holding", "holding")
        process.send_signal(signal.SIGKILL)

    with agent_program.agent(where) as agent:
        session = agent.resume()
        session.continue_()
        assert (session.status, session.text) == ("completed", "It is done.")
    assert programs.find_problems(where) == []


# --- 20: hostile names ------------------------------------------------------------------------------------------------

HOSTILE = ("a\nb", "a b", "", "x" * 65, "x" * 10_000, "\u202eexe.txt", "sh\u00e9ll", "a\x00b", "\x1b[2J", "../../shell")


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_tool_with_a_hostile_name_is_refused(name):
    """Before a request, for tools from any source."""

    class Dispatcher:
        def definitions(self):
            return [type(look.definition)(name, "Look.", look.parameters)]

        async def dispatch(self, call):
            raise AssertionError("never called")

    with pytest.raises(ValueError, match="name"):
        tool(name=name)(lambda: "seen")
    with pytest.raises(ValueError, match="name"):
        AsyncAgent("sim/anthropic", tools=[Dispatcher()], store=None)


def test_two_tools_of_one_name_are_refused(tmp_path):
    """Custom, built-in and server tools."""
    for name, *others in (("look", look), ("shell", *builtin_tools(tmp_path).values())):
        fake = tool(name=name)(lambda: "mine")
        with pytest.raises(ValueError, match="two tools are called"):
            AsyncAgent("sim/anthropic", tools=[*others, fake], store=None)


def test_call_with_a_hostile_name_is_not_run(tenuto_sim, tmp_path):
    """Each call gets an error result, the session continues, and the journal has the name unchanged."""
    names = [name for name in ("a\nb", "__class__", "x" * 10_000, "\u202eexe.txt", "../../shell", "loook") if name]
    tenuto_sim.script(turn(*(call(name) for name in names)), turn(say("It is done.")))

    async def played():
        async with AsyncAgent("sim/chat", tools=[look], store=tmp_path / "sessions.db") as agent:
            session = agent.session()
            reply = await session.send("Go.")
            return reply.text, session.transcript, await session.entries(), await agent.store.verify()

    text, transcript, entries, faults = asyncio.run(played())

    assert (text, faults) == ("It is done.", [])
    assert [view.name for view in transcript.messages[1].tool_calls()] == names
    returned = [entry.payload for entry in entries if isinstance(entry.payload, CallFinished)]
    assert {(act.outcome, act.detail) for act in returned} == {("failed", "unknown-tool")}
    for result in transcript.messages[2].results:
        assert result.is_error
        assert len(str(result.content)) < 400
        assert not {"\u202e", "\n", "\x1b"} & {*str(result.content)}


def test_approval_applies_to_one_call(tenuto_sim, tmp_path):
    """The next call needs another approval."""
    tenuto_sim.script(turn(call("act")), turn(call("act")), turn(say("It is done.")))
    requested = []

    def make_tool(description):
        return tool(name="act", description=description, approval=True)(lambda: "acted")

    async def played():
        where = tmp_path / "sessions.db"
        async with AsyncAgent("sim/anthropic", tools=[make_tool("Harmless.")], store=where) as agent:
            session = agent.session()
            await session.send("Go.")
            await session.approve()
            assert len(session.pending) == 1
        async with AsyncAgent(
            "sim/anthropic", tools=[make_tool("Not so.")], store=where, approve=requested.append
        ) as agent:
            session = await agent.resume()
            assert len(session.pending) == 1
            with pytest.raises(TypeError, match="approve"):
                await session.continue_()

    asyncio.run(played())

    assert len(requested) == 1


@pytest.mark.parametrize("now, requested", [("Harmless.", 0), ("Not so.", 1)])
def test_approval_expires_when_the_description_changes(tenuto_sim, tmp_path, now, requested):
    """The process dies after the approval and before the call; the next process has another tool."""
    tenuto_sim.script(turn(call("act")), turn(say("It is done.")))
    events = []

    def make_tool(description):
        return tool(name="act", description=description, approval=True)(lambda: "acted")

    async def played():
        where = tmp_path / "sessions.db"
        before = AsyncAgent("sim/anthropic", tools=[make_tool("Harmless.")], store=where)
        async with before, before.session() as session:
            await session.send("Go.")
            [waiting] = session.pending
            await session._log.append(ApprovalDecided(waiting.call.id, waiting.ordinal, allowed=True))
        async with AsyncAgent("sim/anthropic", tools=[make_tool(now)], store=where, listeners=[events.append]) as agent:
            session = await agent.resume()
            await session.continue_()
            assert len(session.pending) == requested
            if requested:
                await session.approve()
            assert session.text == "It is done."

    asyncio.run(played())

    assert requested == sum(isinstance(event, ApprovalNeeded) for event in events)
    tenuto_sim.assert_clean()


# --- 28: signals ------------------------------------------------------------------------------------------------------


def _ended(where, *signals):
    """Run a program until its tools run, send it a signal, and return how it ended."""
    with programs.start_program(agent_program, where) as process:
        programs.wait_for(process, "returned", "holding", "holding")
        for at, sent in enumerate(signals):
            if at:
                programs.wait_for(process, "cancelled")
            process.send_signal(sent)
        return process.wait(20)


def _resume(where):
    """Resume and continue the session; return the outcome of each call."""
    with agent_program.agent(where) as agent:
        session = agent.resume()
        before = [act.reason for act in _payloads(session, RunEnded)]
        session.continue_()
        assert (session.status, session.text) == ("completed", "It is done.")
        outcomes = {act.call_index: act.outcome for act in _payloads(session, CallFinished)}
        assert len(_payloads(session, CallFinished)) == 3
        assert len(_payloads(session, MessageAdded)) == 1
    assert programs.find_problems(where) == []
    return before, [outcomes[at] for at in range(3)]


def test_ctrl_c_cancels_the_run(tenuto_sim, tmp_path):
    """It is recorded: the calls are interrupted, and continue_() continues."""
    tenuto_sim.script(TOOLS, turn(say("It is done.")))
    where = str(tmp_path / "sessions.db")

    assert _ended(where, signal.SIGINT) != 0

    before, outcomes = _resume(where)
    assert before == ["cancelling", "cancelled"]
    assert outcomes == ["done", "interrupted", "interrupted"]
    tenuto_sim.assert_clean()


def test_second_ctrl_c_ends_the_process(tenuto_sim, tmp_path):
    """It does not wait for tools that clean up; the session continues, whether or not the first one was recorded."""
    tenuto_sim.script(TOOLS, turn(say("It is done.")))
    where = str(tmp_path / "sessions.db")

    assert _ended(where, signal.SIGINT, signal.SIGINT) != 0

    _, outcomes = _resume(where)
    assert outcomes == ["done", "interrupted", "interrupted"]
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_end_the_process(tenuto_sim, tmp_path, sent):
    """Nothing is written, as after a kill, and the session continues."""
    tenuto_sim.script(TOOLS, turn(say("It is done.")))
    where = str(tmp_path / "sessions.db")

    assert _ended(where, sent) == -sent

    before, outcomes = _resume(where)
    assert before == []
    assert outcomes == ["done", "interrupted", "interrupted"]
    tenuto_sim.assert_clean()


def test_broken_pipe_ends_the_process(tenuto_sim, tmp_path):
    """A program whose output is closed ends with an error; its session continues."""
    tenuto_sim.script(turn(*TOOLS[:1]), turn(say("It is done.")))
    where = str(tmp_path / "sessions.db")

    with programs.start_program(agent_program, where) as process:
        process.stdout.close()
        assert process.wait(20) != 0

    with agent_program.agent(where) as agent:
        session = agent.resume()
        session.continue_()
        assert (session.status, session.text) == ("completed", "It is done.")
    assert programs.find_problems(where) == []
    tenuto_sim.assert_clean()


# --- errors of the program itself -------------------------------------------------------------------------------------


async def _failing_middleware(request, next):
    raise ValueError("a bug in a middleware")
    yield


def test_run_is_recorded_as_failed_after_a_bug(tenuto_sim):
    async def played():
        async with AsyncAgent("sim/anthropic", store=None, middleware=[_failing_middleware]) as agent:
            session = agent.session()
            with pytest.raises(ValueError, match="a bug in a middleware"):
                await session.send("Go.")
            return session.status, (await session.entries())[-1].payload

    status, last = asyncio.run(played())

    assert status == "failed"
    assert last == RunEnded("failed", "ValueError: a bug in a middleware")
