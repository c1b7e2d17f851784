"""Tool sources: opened before the first run, closed with the agent."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import add, agent, call_results, pay, scene
from tenuto import tool
from tenuto.agent.config import tool_names
from tenuto.core.journal import Configured
from tenuto.testing import call, turn


class Source:
    """A tool source that counts how often it is opened and closed."""

    def __init__(self, *tools, error: Exception | None = None) -> None:
        self.tools = tools
        self.error = error
        self.opened = 0
        self.closed = 0

    async def open(self):
        self.opened += 1
        await asyncio.sleep(0)  # concurrent runs may arrive here
        if self.error is not None:
            raise self.error
        return self.tools

    async def close(self):
        self.closed += 1


async def configured_tools(session) -> list[list[str]]:
    """Return the names of the tools in each `Configured` of the journal."""
    return [
        sorted(tool_names(entry.payload)) for entry in await session.entries() if isinstance(entry.payload, Configured)
    ]


@scene
async def test_source_is_opened_before_the_first_run(tenuto_sim, stores):
    """The session is older than the connection. The tools are in the journal and in the request."""
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn("Done."))
    source = Source(add)
    async with stores() as store, agent(pay, source, store=store) as ai:
        session = ai.session("s")
        assert source.opened == 0
        await session.send("Go.")
        assert await call_results(session) == ["3"]
        assert await configured_tools(session) == [["add", "pay"]]
        await ai.session().send("Again.")
        assert (source.opened, source.closed) == (1, 0)
    assert (source.opened, source.closed) == (1, 1)
    assert sorted(one["name"] for one in tenuto_sim.requests[0].body["tools"]) == ["add", "pay"]


@scene
async def test_concurrent_runs_open_a_source_once(tenuto_sim):
    source = Source(add)
    async with agent(source, store=None) as ai:
        sessions = [ai.session() for _ in range(5)]
        await asyncio.gather(*(session.send("Go.") for session in sessions))
        assert [await configured_tools(session) for session in sessions] == [[["add"]]] * 5
    assert (source.opened, source.closed) == (1, 1)


@scene
async def test_resume_opens_the_sources(tenuto_sim, stores):
    """A changed set of tools is recorded."""
    tenuto_sim.script(turn("One."), turn(call("double", {"x": 4})), turn("Done."))

    @tool
    def double(x: int) -> int:
        """Double a number."""
        return 2 * x

    async with stores() as store, agent(Source(add), store=store) as ai:
        await ai.session("s").send("Go.")
    async with stores() as store, agent(Source(double), store=store) as ai:
        session = await ai.resume("s")
        await session.send("More.")
        assert await call_results(session) == ["8"]
        assert await configured_tools(session) == [["add"], ["double"]]


@scene
async def test_unused_source_is_not_opened(tenuto_sim):
    source = Source(add)
    async with agent(source, store=None) as ai:
        ai.session()
    assert (source.opened, source.closed) == (0, 0)


@scene
async def test_source_that_fails_closes_those_before_it(tenuto_sim):
    """The run raises the error and sends nothing. The next run tries again."""
    first, broken = Source(add), Source(pay, error=ConnectionError("no server"))
    async with agent(first, broken, store=None) as ai:
        session = ai.session()
        with pytest.raises(ConnectionError, match="no server"):
            await session.send("Go.")
        assert (first.opened, first.closed, session.status) == (1, 1, "new")
        assert tenuto_sim.requests == []
        broken.error = None
        await session.send("Go.")
        assert await configured_tools(session) == [["add", "pay"]]
    assert (first.opened, first.closed, broken.opened, broken.closed) == (2, 2, 2, 1)


@scene
async def test_sub_agent_opens_its_own_sources(tenuto_sim):
    tenuto_sim.script(turn(call("helper", {"prompt": "Help me."})), turn("Done."), when="Go.")
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn("It is 3."), when="Help me.")
    source = Source(add)
    async with agent(source, store=None) as child, agent(child.as_tool("helper"), store=None) as ai:
        session = ai.session()
        await session.send("Go.")
        assert await call_results(session) == ["It is 3."]
    assert (source.opened, source.closed) == (1, 1)
