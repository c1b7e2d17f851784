"""Limits: where a run stops, what that leaves, and that a kill does not set the count back."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import msgspec
import pytest

from agent import journals as j
from agent.acting import Held, add, agent, results, running, scene, story, until
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
async def test_a_run_stops_at_its_limit_and_goes_on_with_a_higher_one(tenuto_sim, stores, limits, limit):
    """Every call has its result by then."""
    tenuto_sim.script(MORE, MORE, turn("Done."))
    async with stores() as store, agent(add, store=store, limits=limits) as ai:
        session = ai.session("s")
        with pytest.raises(
            LimitReached, match=r"limit reached: .*; the session is saved: continue with a higher limit"
        ) as caught:
            await session.send("Go.")

        assert caught.value.limit == limit
        assert (session.status, session.waiting_for) == ("waiting", "limit")
        assert (await story(session))[-1] == f"waiting(limit: {limit})"
        assert session.has_pending_work
        assert session.reply.tool_calls
        with pytest.raises(LimitReached):  # the count goes on, too
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
async def test_a_sum_of_money_is_kept(tenuto_sim, model, usd, why):
    """By what the replies cost. A model whose price is not known cannot be held to one."""
    tenuto_sim.script(MORE, turn("Done."))
    row = find_provider("anthropic")
    rows = [
        msgspec.structs.replace(row, name=name, base_url=f"{tenuto_sim.base_url}/v1") for name in ("anthropic", "mine")
    ]
    told = dict(providers=rows, keys={"anthropic": "k", "mine": "k"}, store=None)
    async with agent(add, model=model, limits=Limits(usd=usd), **told) as ai:
        session = ai.session()
        with pytest.raises(LimitReached, match=why):
            await session.send("Go.")
        assert (await story(session))[-1] == "waiting(limit: usd)"
    async with agent(add, model=model, **told) as ai:
        assert (await ai.session().send("Go.")).text == "Done."
    tenuto_sim.assert_clean()


@scene
async def test_what_is_said_anew_begins_a_new_run(tenuto_sim):
    """With all of its limits."""
    tenuto_sim.script(MORE, turn("Done."), MORE, turn("Done again."))
    async with agent(add, store=None, limits=Limits(turns=2, tool_calls=1)) as ai:
        session = ai.session()

        assert [(await session.send("Go.")).text for _ in range(2)] == ["Done.", "Done again."]


@scene
async def test_as_many_calls_as_may_be_are_made_and_the_model_may_still_answer(tenuto_sim):
    """Only one that is too many ends the run; it is told the model, and never begun."""
    tenuto_sim.script(turn(*MORE, *MORE, *MORE), turn("Done."))
    async with agent(add, store=None, limits=Limits(tool_calls=2)) as ai:
        session = ai.session()
        with pytest.raises(LimitReached, match="3 tool calls were requested, the limit is 2"):
            await session.send("Go.")

        assert sorted(await results(session)) == ["3", "3", "add was not run: the limit of 2 tool calls is reached."]
        assert [line for line in await story(session) if line.startswith("started")] == ["started 0", "started 1"]
        assert "denied 2 (limit)" in await story(session)
    async with agent(add, store=None, limits=Limits(tool_calls=3)) as ai:
        assert (await ai.session().send("Go.")).text == "Done."


@scene
async def test_a_run_that_takes_too_long_is_ended(tenuto_sim):
    """Its tools are cancelled, and have the result that says so; the session goes on."""
    tenuto_sim.script(turn(call("hold"), *MORE), turn("Done."))
    held = Held()
    async with agent(held.tool, add, store=None, limits=Limits(seconds=0.3)) as ai:
        session = ai.session()
        with pytest.raises(LimitReached, match=r"more than 0\.3 s; the session is saved") as caught:
            await session.send("Go.")

        assert (caught.value.limit, held.ended, session.status) == ("seconds", "cancelled", "waiting")
        assert (await story(session))[-4:] == ["done 1", "cancelling", "interrupted 0", "waiting(limit: seconds)"]
        assert "the limit of 0.3 s is reached" in (await results(session))[-1]
        assert (await session.continue_()).text == "Done."
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("given", [{"turns": 0}, {"usd": -1}, {"seconds": 0.0}, {"tokens": -5}])
def test_a_limit_that_lets_nothing_happen_is_refused(given):
    """With what to give instead."""
    with pytest.raises(ValueError, match="use a number above 0, or None"):
        Limits(**given)


@pytest.mark.parametrize("given", [{"usd": "much"}, {"turns": "5"}, {"seconds": float("nan")}, {"tokens": [1]}])
def test_a_limit_that_is_no_number_is_refused(given):
    """When it is set, not in the middle of a run."""
    with pytest.raises(TypeError, match="use a number"):
        Limits(**given)


def spent(*acts) -> Spent:
    counted = Spent()
    for act in acts:
        counted = counted.after(act)
    return counted


def reply(cost: str) -> ReplyReceived:
    return ReplyReceived(AssistantMessage(()), Usage(10, 5), cost=cost)


def test_what_counts_as_spent():
    """Replies, failed attempts, and what sub-agents spent; calls once, however often they are tried."""
    answer = ToolResult("call_0", "done")
    counted = spent(
        *(
            j.SAID,
            reply("0.10"),
            RequestFailed("Unavailable", usage=Usage(3, 1), cost="0.05"),
            j.started(0),
            j.started(0, 2),
        ),
        *(CallFinished(answer, 0, usage=Usage(100, 1), cost="0.25"), j.returned(0)),
    )

    assert (counted.turns, counted.tool_calls, counted.tokens) == (1, 1, 120)
    assert (counted.usd, counted.unpriced) == (Decimal("0.40"), 0)
    assert spent(reply("1"), j.SAID).usd == 0


def test_a_sub_agent_whose_cost_is_not_known_ends_a_run_that_is_held_to_a_sum():
    """As a reply of one's own does."""
    told = CallFinished(ToolResult("call_0", "done"), 0, usage=Usage(1, 1))

    assert FamilyBudget("s", Limits(usd=1)).exceeded(spent(told)).limit == "usd"
    assert FamilyBudget("s", Limits()).exceeded(spent(told)) is None
    assert FamilyBudget("s", Limits(usd=1)).exceeded(spent(j.returned(0))) is None


USELESS = {
    "missing": None,
    "zero": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    "negative": {"prompt_tokens": -5, "completion_tokens": -5, "total_tokens": -10},
    "inconsistent": {"prompt_tokens": 10**15, "completion_tokens": 1, "total_tokens": 1},
}


@pytest.mark.parametrize("usage", USELESS.values(), ids=USELESS)
def test_token_limit_holds_without_usable_counts(usage):
    """A reply without token counts ends a run that is limited in tokens."""

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
    """The limit is exceeded by at most one reply."""
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
    held = Held()
    ai = agent(agent(held.tool).as_tool("ask"), store=None, limits=Limits(tokens=10**7))
    async with ai, running(ai.session().send("go")) as run:
        await until(lambda: held.runs == 2)
        held.go.set()
        await run


@scene
async def test_calls_above_the_limit_per_reply_are_denied(tenuto_sim):
    tenuto_sim.script(turn(*[call("add", {"a": 1, "b": 2})] * 5), turn("Done."))
    async with agent(add, store=None, limits=Limits(calls_per_reply=3)) as ai:
        session = ai.session()
        assert (await session.send("Go.")).text == "Done."
        found = await results(session)
    assert sorted(found) == ["3"] * 3 + ["add was not run: a reply may make at most 3 tool calls."] * 2


@scene
async def test_parallel_calls_are_bounded(tenuto_sim):
    tenuto_sim.script(turn(*[call("hold", {"x": at}) for at in range(5)]), turn("Done."))
    held = Held()
    ai = agent(held.tool, store=None, limits=Limits(parallel_calls=2))
    async with ai, running(ai.session().send("Go.")) as run:
        await until(lambda: held.runs == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert held.runs == 2
        held.go.set()
        assert (await run).text == "Done."
    assert held.runs == 5
