"""Limits: where a run stops, its state afterwards, and counts that survive a kill."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import msgspec
import pytest

from agent import journals as j
from agent.helpers import HeldTool, add, agent, call_results, journal_labels, running_task, scene, until
from tenuto import Agent, Limits, Usage
from tenuto.agent.events import SubAgentEvent
from tenuto.agent.limits import FamilyBudget, Spent
from tenuto.catalog import find_provider
from tenuto.core.events import MessageDone
from tenuto.core.journal import CallFinished, ReplyReceived, RequestFailed
from tenuto.core.messages import AssistantMessage, ToolResult
from tenuto.errors import LimitReached
from tenuto.testing import ScriptedTransport, call, turn

MORE = turn(call("add", {"a": 1, "b": 2}))


@pytest.mark.parametrize(
    "limits, limit",
    [
        (Limits(turns=2), "turns"),
        (Limits(tokens=1), "tokens"),
        (Limits(tool_calls=1), "tool_calls"),
    ],
)
@scene
async def test_run_stops_at_its_limit_and_continues_with_a_higher_one(tenuto_sim, stores, limits, limit):
    """Every call has a result."""
    tenuto_sim.script(MORE, MORE, turn("Done."))
    async with stores() as store, agent(add, store=store, limits=limits) as ai:
        session = ai.session("s")
        with pytest.raises(
            LimitReached, match=r"limit reached: .*; the session is saved: continue with a higher limit"
        ) as caught:
            await session.send("Go.")

        assert caught.value.limit == limit
        assert (session.status, session.waiting_for) == ("waiting", "limit")
        assert (await journal_labels(session))[-1] == f"waiting(limit: {limit})"
        assert session.has_pending_work
        assert session.reply.tool_calls
        with pytest.raises(LimitReached):  # the count continues, too
            await session.continue_()
    async with stores() as store, agent(add, store=store) as ai:
        session = await ai.resume("s")
        assert (await session.continue_()).text == "Done."
        assert not await store.verify()
    tenuto_sim.assert_clean()


@pytest.mark.parametrize(
    "model, usd, why",
    [
        ("anthropic/claude-opus-4-6", "0.000001", "USD of 0.000001 are used"),
        ("mine/claude-opus-4-6", 5, "the cost of a reply is unknown, so 5 USD cannot be enforced"),
    ],
)
@scene
async def test_limit_in_usd_ends_the_run(tenuto_sim, model, usd, why):
    """A model without a known price cannot have such a limit."""
    tenuto_sim.script(MORE, turn("Done."))
    row = find_provider("anthropic")
    rows = [
        msgspec.structs.replace(row, name=name, base_url=f"{tenuto_sim.base_url}/v1") for name in ("anthropic", "mine")
    ]
    options = dict(providers=rows, keys={"anthropic": "k", "mine": "k"}, store=None)
    async with agent(add, model=model, limits=Limits(usd=usd), **options) as ai:
        session = ai.session()
        with pytest.raises(LimitReached, match=why):
            await session.send("Go.")
        assert (await journal_labels(session))[-1] == "waiting(limit: usd)"
    async with agent(add, model=model, **options) as ai:
        assert (await ai.session().send("Go.")).text == "Done."
    tenuto_sim.assert_clean()


@scene
async def test_new_message_starts_a_new_run_with_all_limits(tenuto_sim):
    tenuto_sim.script(MORE, turn("Done."), MORE, turn("Done again."))
    async with agent(add, store=None, limits=Limits(turns=2, tool_calls=1)) as ai:
        session = ai.session()

        assert [(await session.send("Go.")).text for _ in range(2)] == ["Done.", "Done again."]


@scene
async def test_call_limit_denies_calls_above_it(tenuto_sim):
    """Only a call above the limit ends the run; it has a result and is not started. The model may answer after the
    last allowed one.
    """
    tenuto_sim.script(turn(*MORE, *MORE, *MORE), turn("Done."))
    async with agent(add, store=None, limits=Limits(tool_calls=2)) as ai:
        session = ai.session()
        with pytest.raises(LimitReached, match="3 tool calls were requested, the limit is 2"):
            await session.send("Go.")

        assert sorted(await call_results(session)) == [
            "3",
            "3",
            "add was not run: the limit of 2 tool calls is reached.",
        ]
        assert [line for line in await journal_labels(session) if line.startswith("started")] == [
            "started 0",
            "started 1",
        ]
        assert "denied 2 (limit)" in await journal_labels(session)
    async with agent(add, store=None, limits=Limits(tool_calls=3)) as ai:
        assert (await ai.session().send("Go.")).text == "Done."


@scene
async def test_time_limit_ends_the_run(tenuto_sim):
    """Its tools are cancelled with results that say so; the session can continue."""
    tenuto_sim.script(turn(call("hold"), *MORE), turn("Done."))
    held_tool = HeldTool()
    async with agent(held_tool.tool, add, store=None, limits=Limits(seconds=0.3)) as ai:
        session = ai.session()
        with pytest.raises(LimitReached, match=r"more than 0\.3 s; the session is saved") as caught:
            await session.send("Go.")

        assert (caught.value.limit, held_tool.ended, session.status) == ("seconds", "cancelled", "waiting")
        assert (await journal_labels(session))[-4:] == [
            "done 1",
            "cancelling",
            "interrupted 0",
            "waiting(limit: seconds)",
        ]
        assert "the limit of 0.3 s is reached" in (await call_results(session))[-1]
        assert (await session.continue_()).text == "Done."
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("limits", [{"turns": 0}, {"usd": -1}, {"seconds": 0.0}, {"tokens": -5}])
def test_limit_that_is_not_positive_is_refused(limits):
    """The error has the alternative."""
    with pytest.raises(ValueError, match="use a number above 0, or None"):
        Limits(**limits)


@pytest.mark.parametrize("limits", [{"usd": "much"}, {"turns": "5"}, {"seconds": float("nan")}, {"tokens": [1]}])
def test_limit_that_is_not_a_number_is_refused(limits):
    """At construction, not during a run."""
    with pytest.raises(TypeError, match="use a number"):
        Limits(**limits)


def spent(*acts) -> Spent:
    spent_sum = Spent()
    for act in acts:
        spent_sum = spent_sum.after(act)
    return spent_sum


def reply(cost: str) -> ReplyReceived:
    return ReplyReceived(AssistantMessage(()), Usage(10, 5), cost=cost)


def test_spending_includes_failures_and_sub_agents():
    """Calls are counted once, also with several attempts."""
    answer = ToolResult("call_0", "done")
    spent_sum = spent(
        *(
            j.MESSAGE_ADDED,
            reply("0.10"),
            RequestFailed("Unavailable", usage=Usage(3, 1), cost="0.05"),
            j.call_started(0),
            j.call_started(0, 2),
        ),
        *(CallFinished(answer, 0, usage=Usage(100, 1), cost="0.25"), j.call_finished(0)),
    )

    assert (spent_sum.turns, spent_sum.tool_calls, spent_sum.tokens) == (1, 1, 120)
    assert (spent_sum.usd, spent_sum.unpriced) == (Decimal("0.40"), 0)
    assert spent(reply("1"), j.MESSAGE_ADDED).usd == 0


def test_unknown_cost_of_a_sub_agent_ends_a_limited_run():
    """As the unknown cost of a reply does."""
    call_finished = CallFinished(ToolResult("call_0", "done"), 0, usage=Usage(1, 1))

    assert FamilyBudget("s", Limits(usd=1)).exceeded(spent(call_finished)).limit == "usd"
    assert FamilyBudget("s", Limits()).exceeded(spent(call_finished)) is None
    assert FamilyBudget("s", Limits(usd=1)).exceeded(spent(j.call_finished(0))) is None


USELESS = {
    "missing": None,
    "zero": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    "negative": {"prompt_tokens": -5, "completion_tokens": -5, "total_tokens": -10},
    "inconsistent": {"prompt_tokens": 10**15, "completion_tokens": 1, "total_tokens": 1},
}


@pytest.mark.parametrize("usage", USELESS.values(), ids=USELESS)
def test_token_limit_holds_without_usable_counts(usage):
    def body(at):
        made = {"id": f"c{at}", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
        message = {"role": "assistant", "content": None, "tool_calls": [made]}
        choices = [{"index": 0, "finish_reason": "tool_calls", "message": message}]
        return {"id": f"m{at}", "model": "m", "choices": choices, **({"usage": usage} if usage else {})}

    transport = ScriptedTransport(*map(body, range(5)))
    mine = {"mine": {"base_url": "http://127.0.0.1:9/v1", "api_key": "k"}}
    options = {"providers": mine, "transport": transport, "limits": Limits(tokens=1000)}
    with Agent("mine/m", tools=[add], store=None, **options) as ai, pytest.raises(LimitReached) as caught:
        ai.session().send("hi")
    assert caught.value.limit == "tokens"
    assert len(transport.requests) == 1


@pytest.mark.parametrize("children", [2, 8])
@scene
async def test_parallel_sub_agents_share_one_token_limit(tenuto_sim, children):
    tenuto_sim.script(turn(*[call("ask", {"prompt": "p"})] * children), turn("done"), when="go")
    limit = 600
    async with agent(agent(system="word " * 300).as_tool("ask"), store=None, limits=Limits(tokens=limit)) as ai:
        session = ai.session()
        events = []
        session.on_event(events.append)
        with pytest.raises(LimitReached):
            await session.send("go")
        replies = [
            event.event.response.usage.total_tokens
            for event in events
            if isinstance(event, SubAgentEvent) and isinstance(event.event, MessageDone)
        ]
        assert replies
        assert session._log.spent.tokens <= limit + max(replies)


@scene
async def test_sub_agents_run_in_parallel_while_the_limit_is_far(tenuto_sim):
    tenuto_sim.script(turn(*[call("ask", {"prompt": "p"})] * 2), turn("done"), when="go")
    tenuto_sim.script(turn(call("hold")), turn("ok"), turn(call("hold")), turn("ok"), when="p")
    held_tool = HeldTool()
    ai = agent(agent(held_tool.tool).as_tool("ask"), store=None, limits=Limits(tokens=10**7))
    async with ai, running_task(ai.session().send("go")) as run:
        await until(lambda: held_tool.runs == 2)
        held_tool.go.set()
        await run


@scene
async def test_calls_above_the_limit_per_reply_are_denied(tenuto_sim):
    tenuto_sim.script(turn(*[call("add", {"a": 1, "b": 2})] * 5), turn("Done."))
    async with agent(add, store=None, limits=Limits(calls_per_reply=3)) as ai:
        session = ai.session()
        assert (await session.send("Go.")).text == "Done."
        found = await call_results(session)
    assert sorted(found) == ["3"] * 3 + ["add was not run: a reply may make at most 3 tool calls."] * 2


@scene
async def test_parallel_calls_are_bounded(tenuto_sim):
    tenuto_sim.script(turn(*[call("hold", {"x": at}) for at in range(5)]), turn("Done."))
    held_tool = HeldTool()
    ai = agent(held_tool.tool, store=None, limits=Limits(parallel_calls=2))
    async with ai, running_task(ai.session().send("Go.")) as run:
        await until(lambda: held_tool.runs == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert held_tool.runs == 2
        held_tool.go.set()
        assert (await run).text == "Done."
    assert held_tool.runs == 5
