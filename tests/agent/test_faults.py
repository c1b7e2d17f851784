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


def _acts(session, kind):
    return [entry.payload for entry in session.entries() if isinstance(entry.payload, kind)]


# --- 9: the clock jumps -----------------------------------------------------------------------------------------------


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


def test_a_clock_that_jumps(tenuto_sim, tmp_path):
    """A day forth, a day back, at every glance: the order is that of the entries, and no limit in seconds is reached."""
    tenuto_sim.script(turn(call("look")), turn(call("look")), turn(say("It is done.")))
    jumps = itertools.cycle([0, DAY, -DAY, 3, 10 * DAY, -5])

    def now():
        return 1_700_000_000_000 + next(jumps)

    async def played():
        store = SqlStore(SqliteEngine(tmp_path / "sessions.db"), now=now)
        told = {"tools": [look], "store": store, "now": now, "limits": Limits(seconds=30)}
        async with store, AsyncAgent("sim/anthropic", **told) as agent:
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


def test_a_lease_of_another_day(tenuto_sim, tmp_path):
    """Whoever held a session and died wrote as if it were tomorrow: it is to be had at once, today."""
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
def test_a_tool_of_a_hostile_name_is_refused(name):
    """Before anything is asked, wherever the tool comes from."""

    class Dispatcher:
        def definitions(self):
            return [type(look.definition)(name, "Look.", look.parameters)]

        async def dispatch(self, call):
            raise AssertionError("never called")

    with pytest.raises(ValueError, match="name"):
        tool(name=name)(lambda: "seen")
    with pytest.raises(ValueError, match="name"):
        AsyncAgent("sim/anthropic", tools=[Dispatcher()], store=None)


def test_no_tool_stands_in_for_another(tmp_path):
    """One's own, a builtin one, or one that the provider runs: two of one name are an error."""
    for name, *others in (("look", look), ("shell", *builtin_tools(tmp_path).values())):
        fake = tool(name=name)(lambda: "mine")
        with pytest.raises(ValueError, match="two tools are called"):
            AsyncAgent("sim/anthropic", tools=[*others, fake], store=None)


def test_a_model_that_calls_hostile_names(tenuto_sim, tmp_path):
    """Nothing is run, each call gets a result that says so, and the session goes on; what stands in it is what came."""
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


def test_a_word_is_given_for_one_call(tenuto_sim, tmp_path):
    """What was approved of one call is not approved of the next."""
    tenuto_sim.script(turn(call("act")), turn(call("act")), turn(say("It is done.")))
    asked = []

    def acting(description):
        return tool(name="act", description=description, approval=True)(lambda: "acted")

    async def played():
        where = tmp_path / "sessions.db"
        async with AsyncAgent("sim/anthropic", tools=[acting("Harmless.")], store=where) as agent:
            session = agent.session()
            await session.send("Go.")
            await session.approve()
            assert len(session.pending) == 1
        async with AsyncAgent("sim/anthropic", tools=[acting("Not so.")], store=where, approve=asked.append) as agent:
            session = await agent.resume()
            assert len(session.pending) == 1
            with pytest.raises(TypeError, match="approve"):
                await session.continue_()

    asyncio.run(played())

    assert len(asked) == 1


@pytest.mark.parametrize("now, asked", [("Harmless.", 0), ("Not so.", 1)])
def test_a_word_given_before_the_description_changed_is_asked_for_again(tenuto_sim, tmp_path, now, asked):
    """The process dies when the word is written, and before the call begins; the one that goes on has another tool."""
    tenuto_sim.script(turn(call("act")), turn(say("It is done.")))
    told = []

    def acting(description):
        return tool(name="act", description=description, approval=True)(lambda: "acted")

    async def played():
        where = tmp_path / "sessions.db"
        before = AsyncAgent("sim/anthropic", tools=[acting("Harmless.")], store=where)
        async with before, before.session() as session:
            await session.send("Go.")
            [waiting] = session.pending
            await session._log.append(ApprovalDecided(waiting.call.id, waiting.ordinal, allowed=True))
        async with AsyncAgent("sim/anthropic", tools=[acting(now)], store=where, listeners=[told.append]) as agent:
            session = await agent.resume()
            await session.continue_()
            assert len(session.pending) == asked
            if asked:
                await session.approve()
            assert session.text == "It is done."

    asyncio.run(played())

    assert asked == sum(isinstance(event, ApprovalNeeded) for event in told)
    tenuto_sim.assert_clean()


# --- 28: signals ------------------------------------------------------------------------------------------------------


def _ended(where, *signals):
    """Let a program run until its tools do, and signal it; return how it ended."""
    with programs.start_program(agent_program, where) as process:
        programs.wait_for(process, "returned", "holding", "holding")
        for at, sent in enumerate(signals):
            if at:
                programs.wait_for(process, "cancelled")
            process.send_signal(sent)
        return process.wait(20)


def _gone_on(where):
    """Resume, and go on; return how each call ended."""
    with agent_program.agent(where) as agent:
        session = agent.resume()
        before = [act.reason for act in _acts(session, RunEnded)]
        session.continue_()
        assert (session.status, session.text) == ("completed", "It is done.")
        outcomes = {act.call_index: act.outcome for act in _acts(session, CallFinished)}
        assert len(_acts(session, CallFinished)) == 3
        assert len(_acts(session, MessageAdded)) == 1
    assert programs.find_problems(where) == []
    return before, [outcomes[at] for at in range(3)]


def test_ctrl_c_once(tenuto_sim, tmp_path):
    """The run is cancelled, and that is written: what ran is interrupted, and continue_() continues it."""
    tenuto_sim.script(TOOLS, turn(say("It is done.")))
    where = str(tmp_path / "sessions.db")

    assert _ended(where, signal.SIGINT) != 0

    before, outcomes = _gone_on(where)
    assert before == ["cancelling", "cancelled"]
    assert outcomes == ["done", "interrupted", "interrupted"]
    tenuto_sim.assert_clean()


def test_ctrl_c_twice(tenuto_sim, tmp_path):
    """The second one does not wait for tools that clean up; whether the first was written or not, it goes on."""
    tenuto_sim.script(TOOLS, turn(say("It is done.")))
    where = str(tmp_path / "sessions.db")

    assert _ended(where, signal.SIGINT, signal.SIGINT) != 0

    _, outcomes = _gone_on(where)
    assert outcomes == ["done", "interrupted", "interrupted"]
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_ended_at_once(tenuto_sim, tmp_path, sent):
    """Told to end, or left by its terminal: as after kill -9 nothing is written, and it goes on."""
    tenuto_sim.script(TOOLS, turn(say("It is done.")))
    where = str(tmp_path / "sessions.db")

    assert _ended(where, sent) == -sent

    before, outcomes = _gone_on(where)
    assert before == []
    assert outcomes == ["done", "interrupted", "interrupted"]
    tenuto_sim.assert_clean()


def test_nobody_reads_any_more(tenuto_sim, tmp_path):
    """A program whose output nobody takes ends with an error of its own; its session goes on."""
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
