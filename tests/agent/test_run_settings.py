"""`agent.run`, results, dependencies, instructions and the settings of single runs."""

from __future__ import annotations

import contextvars
import logging
import threading
from decimal import Decimal

import pytest

from agent.helpers import QUICK, add, agent, journal_labels, pay, scene
from tenuto import Agent, AsyncAgent, Hooks, Limits, Result, ToolContext, Usage, tool
from tenuto.audit.journal import REQUEST_CHANGED
from tenuto.core import jsonio
from tenuto.core.journal import Configured
from tenuto.errors import LimitReached, MissingTool, TenutoError
from tenuto.events import ConfigurationChanged
from tenuto.hooks import RunInfo
from tenuto.testing import call, deny, say, think, turn
from tenuto.tools import web_search

PREFIX_BOUND = "anthropic/claude-sonnet-5-5"


class Database:
    def __init__(self, name: str) -> None:
        self.name = name


@tool(effect="pure")
def read(ctx: ToolContext[Database], key: str) -> str:
    """Read a value."""
    return f"{ctx.deps.name}.{key}"


async def configs(session) -> list[Configured]:
    return [entry.payload for entry in await session.entries() if isinstance(entry.payload, Configured)]


async def changed(session) -> list[str]:
    """The requests that the audit does not rebuild byte for byte."""
    return [finding.says for finding in (await session.audit()).findings if finding.rule == REQUEST_CHANGED]


def systems(sim) -> list[str]:
    """The system prompts of the requests, as text."""
    return [str(record.body.get("system", "")) for record in sim.requests]


# --- results ----------------------------------------------------------------------------------------------------------


@scene
async def test_result_of_a_run(tenuto_sim):
    """Usage and cost are those of the run; those of the session include the runs before."""
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn("3."), turn("4."))
    async with agent(add, model=PREFIX_BOUND, store=None) as ai:
        first = await ai.run("Add.", session="s")
        second = await ai.run("And one.", session="s")

        assert (first.output, first.text, first.reply.text) == ("3.", "3.", "3.")
        assert (first.session.id, first.pending, first.losses) == ("s", (), ())
        assert first.usage + second.usage == second.session.usage
        assert first.cost is not None
        assert second.cost is not None
        assert first.cost + second.cost == second.session.cost
        assert first.cost > second.cost > 0
        assert repr(second) == "<Result '4.'>"
    assert isinstance(first, Result)


@scene
async def test_result_counts_failed_attempts(tenuto_sim):
    tenuto_sim.script(turn(deny(529, times=1), say("Hi.")))
    async with agent(store=None) as ai:
        result = await ai.run("Hi.")
        assert result.usage == result.session.usage != Usage()
        assert result.cost == result.session.cost == 0


def test_run_of_the_sync_agent(tenuto_sim):
    tenuto_sim.script(turn(call("pay", {"amount": 1})), turn("Paid."))
    with Agent("sim/anthropic", tools=[pay], store=None) as ai:
        result = ai.run("Pay.")
        assert [one.call.name for one in result.pending] == ["pay"]
        with pytest.raises(TenutoError, match="waits for approval"):
            _ = result.output
        again = result.session.approve()
        assert again is not None
        assert (again.output, again.session is result.session) == ("Paid.", True)
        assert ai.session(result.session.id).status == "completed"


# --- dependencies -----------------------------------------------------------------------------------------------------


@scene
async def test_tools_instructions_and_hooks_receive_dependencies(tenuto_sim):
    dependencies = []

    def name(run: RunInfo[Database]) -> str:
        return f"Use {run.deps.name}."

    class Watch(Hooks):
        async def around_run(self, run, next):
            dependencies.append(run.deps)
            await next()

    tenuto_sim.script(turn(call("read", {"key": "a"})), turn("Done."))
    database = Database("main")
    async with AsyncAgent(
        "sim/anthropic", tools=[read], deps_type=Database, instructions=name, hooks=[Watch()], store=None, retry=QUICK
    ) as ai:
        result = await ai.run("Read.", deps=database)
        assert result.session.transcript[2].results[0].content == "main.a"
    assert dependencies == [database]
    assert "Use main." in systems(tenuto_sim)[0]


@scene
async def test_session_keeps_its_dependencies(tenuto_sim, stores):
    """Until others are passed; a resumed session needs new ones, or the factory."""
    tenuto_sim.script(*[turn(call("read", {"key": "a"})), turn("Done.")] * 4)

    def read_values(session) -> list[str]:
        return [message.results[0].content for message in session.transcript if hasattr(message, "results")]

    async with stores() as store, agent(read, deps_type=Database, store=store) as ai:
        session = ai.session("s", deps=Database("one"))
        await session.send("Read.")
        await session.send("Read.", deps=Database("two"))
        await session.send("Read.")
        assert read_values(session) == ["one.a", "two.a", "two.a"]
        resumed = await ai.resume("s")
        with pytest.raises(TypeError, match="needs dependencies of the type Database: pass deps="):
            await resumed.send("Read.")
        assert len(await resumed.entries()) == len(await session.entries())
    made = []

    def factory(session) -> Database:
        made.append(session.id)
        return Database("three")

    async with stores() as store, agent(read, deps_factory=factory, store=store) as ai:
        resumed = await ai.resume("s")
        await resumed.send("Read.")
        assert (read_values(resumed)[-1], made) == ("three.a", ["s"])
    tenuto_sim.assert_clean()


@scene
async def test_sub_agent_has_the_dependencies_of_its_caller(tenuto_sim):
    tenuto_sim.script(turn(call("helper", {"prompt": "Read."})), turn("Done."), when="Go.")
    tenuto_sim.script(turn(call("read", {"key": "a"})), turn("It is read."), when="Read.")
    async with agent(read, store=None) as helper, agent(helper.as_tool("helper"), store=None) as ai:
        result = await ai.run("Go.", deps=Database("main"))
        assert result.output == "Done."
    assert "main.a" in str([record.body for record in tenuto_sim.requests])


# --- instructions -----------------------------------------------------------------------------------------------------

tone: contextvars.ContextVar[str] = contextvars.ContextVar("tone", default="calm")


@scene
async def test_instructions_are_evaluated_once_for_each_run(tenuto_sim):
    count, threads = 0, set()

    def counter() -> str:
        nonlocal count
        count += 1
        threads.add(threading.current_thread())
        return f"Run {count}."

    async def feeling(run: RunInfo[None]) -> str | None:
        return f"Be {tone.get()}." if run.agent == "me" else None

    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn("3."), turn("Hi."))
    async with agent(add, name="me", system="Static.", instructions=["Always.", counter, feeling], store=None) as ai:
        session = ai.session()
        await session.send("Add.")
        await session.send("Hi.")
        assert [config.system for config in await configs(session)] == [
            f"Static.\n\nAlways.\n\nRun {number}.\n\nBe calm." for number in (1, 2)
        ]
        assert await changed(session) == []
    assert threading.current_thread() not in threads
    assert ["Run 1." in text for text in systems(tenuto_sim)] == [True, True, False]


@scene
async def test_run_continues_with_the_instructions_of_its_start(tenuto_sim, stores):
    texts = iter(["First.", "Second."])
    tenuto_sim.script(turn(call("pay", {"amount": 1})), turn("Paid."), turn("Hi."))
    async with stores() as store, agent(pay, store=store, instructions=lambda: next(texts)) as ai:
        await ai.run("Pay.", session="s")
    async with stores() as store, agent(pay, store=store, instructions=lambda: next(texts)) as ai:
        session = await ai.resume("s")
        await session.approve()
        assert [config.system for config in await configs(session)] == ["First."]
        await session.send("Hi.")
        assert [config.system for config in await configs(session)] == ["First.", "Second."]
        assert await changed(session) == []


@pytest.mark.parametrize("value", [3, [3], lambda: 3])
@scene
async def test_invalid_instructions_are_refused(tenuto_sim, value):
    with pytest.raises(
        TypeError, match=r"instructions: .*(expected texts and functions|expected a text or None)|not iterable"
    ):
        async with agent(store=None, instructions=value) as ai:
            await ai.run("Hi.")
    assert not tenuto_sim.requests


@scene
async def test_change_that_costs_reasoning_is_reported_first(tenuto_sim, caplog):
    """The model is bound to the instructions before its reasoning."""
    texts = iter(["First.", "First.", "Second.", "Second.", "Third."])
    tenuto_sim.script(*[turn(think("Hm."), say("Hi."))] * 5)
    reports = []

    def listen(event) -> None:
        if isinstance(event, ConfigurationChanged):
            reports.append((event.losses, len(session._log.next.transcript()), session._log.head))

    async with agent(model=PREFIX_BOUND, instructions=lambda: next(texts), listeners=[listen], store=None) as ai:
        session = ai.session()
        await session.send("Hi.")
        await session.send("Hi.")
        assert reports == []
        with caplog.at_level(logging.WARNING):
            result = await session.send("Hi.")
        assert (await journal_labels(session)).count("configured") == 2
        [(losses, messages, head)] = reports
        assert (messages, head) == (4, 9)  # nothing of the third run is written yet
        assert [loss.kind for loss in losses] == ["stale-prefix"] * 2
        assert set(losses) <= set(result.losses)
        assert "the model loses 2 blocks of its reasoning" in caplog.text
        await session.send("Hi.")
        assert len(reports) == 1
        await session.send("Hi.")
        assert len(reports[1][0]) == 2  # those of the first two replies were lost before
        assert await changed(session) == []
    tenuto_sim.assert_clean()


# --- settings of one run ---------------------------------------------------------------------------------------------


@scene
async def test_settings_of_one_run_are_journalled(tenuto_sim):
    """Tools, effort, parameters, instructions: the next run has those of the agent again, and the audit rebuilds all."""
    tenuto_sim.script(turn("1."), turn(call("add", {"a": 1, "b": 2})), turn("3."), turn("4."))
    async with agent(add, pay, store=None, system="Be brief.", max_tokens=1000) as ai:
        session = ai.session()
        await session.send("One.")
        await session.send(
            "Two.",
            tools=["add"],
            effort="high",
            max_tokens=2000,
            instructions="Be careful.",
            metadata={"anthropic": {}},
        )
        await session.send("Three.")
        normal, own, after = await configs(session)

        assert (normal.scope, own.scope, after) == ("session", "run", normal)
        assert (own.system, normal.system) == ("Be brief.\n\nBe careful.", "Be brief.")
        assert [each["name"] for each in jsonio.parse(own.tools)] == ["add"]
        options = {"effort": "high", "max_tokens": 2000, "metadata": {"anthropic": {}}}
        assert jsonio.parse(own.parameters) == {"cache": "auto", **options}
        assert await changed(session) == []
        assert (await session.continue_()) is None
    bodies = [record.body for record in tenuto_sim.requests]
    assert [len(body["tools"]) for body in bodies] == [2, 1, 1, 2]
    assert [body["max_tokens"] for body in bodies] == [1000, 2000, 2000, 1000]
    tenuto_sim.assert_clean()


@scene
async def test_first_run_may_have_its_own_settings(tenuto_sim):
    tenuto_sim.script(turn("1."), turn("2."))
    async with agent(add, store=None) as ai:
        result = await ai.run("One.", tools=[], effort="high")
        await result.session.send("Two.")
        assert [config.scope for config in await configs(result.session)] == ["session", "run", "session"]
        assert await changed(result.session) == []
    assert [len(record.body.get("tools", ())) for record in tenuto_sim.requests] == [0, 1]


@scene
async def test_limits_of_one_run(tenuto_sim, stores):
    """They hold also after a crash, in another process."""
    tenuto_sim.script(*[turn(call("add", {"a": 1, "b": 2}))] * 3, turn("3."))
    async with stores() as store, agent(add, store=store) as ai:
        session = ai.session("s")
        with pytest.raises(LimitReached, match="1 turns of 1"):
            await session.send("Go.", limits=Limits(turns=1, usd=Decimal(2)), effort="low")
    async with stores() as store, agent(add, pay, store=store) as ai:
        session = await ai.resume("s")
        with pytest.raises(LimitReached, match="1 turns of 1"):
            await session.continue_()
        assert [config.scope for config in await configs(session)] == ["session", "run"]
        result = await session.send("Go.")
        assert result.output == "3."
    tenuto_sim.assert_clean()


@scene
async def test_run_with_its_own_tools_continues_after_a_crash(tenuto_sim, stores):
    tenuto_sim.script(turn(call("pay", {"amount": 1})), turn("Paid."))
    async with stores() as store, agent(add, pay, store=store) as ai:
        await ai.run("Pay.", session="s", tools=["pay"], effort="high")
    async with stores() as store, agent(add, pay, store=store, system="Other.") as ai:
        session = await ai.resume("s")
        result = await session.approve()
        assert result is not None
        assert result.output == "Paid."
        assert await changed(session) == []
    first, second = (record.body for record in tenuto_sim.requests)
    assert first["tools"] == second["tools"]
    assert "system" not in second
    tenuto_sim.assert_clean()


@scene
async def test_run_with_server_tools_continues_after_a_crash(tenuto_sim, stores):
    tenuto_sim.script(turn(call("pay", {"amount": 1})), turn("Paid."))
    async with stores() as store, agent(pay, web_search(), store=store) as ai:
        await ai.run("Pay.", session="s", effort="high")
    async with stores() as store, agent(pay, web_search(), store=store) as ai:
        await (await ai.resume("s")).approve()
    first, second = (record.body["tools"] for record in tenuto_sim.requests)
    assert (len(first), first) == (2, second)
    tenuto_sim.assert_clean()


@scene
async def test_tool_of_one_run_is_missing_for_the_agent(tenuto_sim):
    @tool(effect="pure")
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    tenuto_sim.script(turn(call("shout", {"text": "hi"})), turn("HI."))
    async with agent(add, store=None) as ai:
        result = await ai.run("Shout.", tools=["add", shout])
        assert result.session.transcript[2].results[0].content == "HI"
    tenuto_sim.assert_clean()


@scene
async def test_approval_of_a_tool_of_one_run(tenuto_sim):
    """The session has it as long as its object lives."""

    @tool(approval=True)
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    tenuto_sim.script(turn(call("shout", {"text": "hi"})), turn("HI."))
    async with agent(add, store=None) as ai:
        result = await ai.run("Shout.", tools=["add", shout])
        other = await ai.resume(result.session.id)
        with pytest.raises(MissingTool, match="shout"):
            await other.approve()
        approved = await result.session.continue_()
        assert approved is not None
        assert approved.output == "HI."
        assert await changed(result.session) == []
    tenuto_sim.assert_clean()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tools": ["sub"]}, "the agent has no tool 'sub'; it has add"),
        ({"limits": 3}, "limits: expected Limits, got int"),
        ({"efort": "high"}, "efort"),
        ({"effort": "huge"}, "effort"),
        ({"output": complex}, "output type complex is not supported"),
    ],
)
@scene
async def test_invalid_settings_are_refused(tenuto_sim, options, error):
    async with agent(add, store=None) as ai:
        session = ai.session()
        with pytest.raises((TypeError, ValueError), match=error):
            await session.send("Go.", **options)
        assert session.is_new
        with pytest.raises(TypeError, match="need a message"):
            session.stream(effort="high")
    assert not tenuto_sim.requests


@scene
async def test_prompt_from_the_inbox_has_the_settings_of_the_agent(tenuto_sim):
    tenuto_sim.script(turn("1."), turn("2."))
    async with agent(add, store=None) as ai:
        session = ai.session()
        await session.enqueue("Two.")
        await session.send("One.", tools=[], effort="high")
        assert [config.scope for config in await configs(session)] == ["session", "run", "session"]
        assert session.text == "2."
        assert await changed(session) == []
    tenuto_sim.assert_clean()


@scene
async def test_handover_keeps_the_settings_of_a_run_that_waits(tenuto_sim):
    tenuto_sim.script(turn(call("pay", {"amount": 1})), turn("Paid."), turn("Hi."))
    async with agent(add, pay, store=None) as ai:
        result = await ai.run("Pay.", tools=["pay"], effort="high")
        await result.session.handover("sim/openai")
        await result.session.approve()
        await result.session.send("Hi.")
        assert [(config.scope, config.model) for config in await configs(result.session)] == [
            ("session", "sim/anthropic"),
            ("run", "sim/anthropic"),
            ("session", "sim/openai"),
        ]
        assert await changed(result.session) == []
    assert [len(record.body["tools"]) for record in tenuto_sim.requests] == [1, 1, 2]
    tenuto_sim.assert_clean()
