"""Every status of a session: in the process that runs it, in another one, and in the list of the store."""

from __future__ import annotations

import pytest

from agent.helpers import HeldTool, add, agent, pay, running_task, scene
from agent.journals import CONFIGURED, MESSAGE_ADDED, REQUEST_STARTED, call_started, reply_with_calls
from tenuto import Limits
from tenuto.core.journal import RunEnded
from tenuto.core.stored import make_draft
from tenuto.errors import LeaseLost, TenutoError
from tenuto.store.sessions import STATUSES
from tenuto.testing import call, deny, turn

ADD = turn(call("add", {"a": 1, "b": 2}))
TOO_LONG = deny(400, message="prompt is too long: 200001 tokens > 200000 maximum", times=0)

ENDS = {
    "completed": ([turn("Done.")], ("completed", "")),
    "approval": ([turn(call("pay", {"amount": 5}))], ("waiting", "approval")),
    "limit": ([ADD, ADD, ADD], ("waiting", "limit")),
    "context": ([turn(TOO_LONG)], ("waiting", "context")),
    "failed": ([turn(deny(400, times=0))], ("failed", "")),
}
"""Scripts, each with the status at its end."""


async def statuses_in(store, session: str) -> list[tuple[str, str]]:
    """Return the status of a session as the store shows it: alone, in the whole list, and in the list of its status."""
    one = await store.session(session)
    listed = [row for row in (await store.sessions()).sessions if row.id == session]
    for status in STATUSES:
        selected = [row.id for row in (await store.sessions(status=status)).sessions]
        assert (session in selected) == (status == one.status), (status, selected)
    return [(row.status, row.reason) for row in (one, *listed)]


@pytest.mark.parametrize("script, status", ENDS.values(), ids=ENDS)
@scene
async def test_status_after_the_end_of_a_run(tenuto_sim, stores, script, status):
    tenuto_sim.script(*script)
    async with stores() as store:
        async with agent(add, pay, store=store, limits=Limits(turns=2)) as ai:
            session = ai.session("s")
            assert (session.status, session.waiting_for) == ("new", "")
            try:
                await session.send("Go.")
            except TenutoError:
                assert status[0] != "completed"
            assert (session.status, session.waiting_for) == status
        async with stores() as other, agent(add, pay, store=other) as ai:
            resumed = await ai.resume("s")
            assert (resumed.status, resumed.waiting_for) == status
            assert await statuses_in(other, "s") == [status] * 2


@scene
async def test_status_of_a_run_that_is_active(tenuto_sim, stores):
    """`running`; then `cancelled`."""
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool = HeldTool()
    async with stores() as store, stores() as other, agent(held_tool.tool, store=store) as ai:
        session = ai.session("s")
        async with running_task(session.send("Go.")):
            await held_tool.begun.wait()
            assert (session.status, session.waiting_for) == ("running", "")
            assert await statuses_in(other, "s") == [("running", "")] * 2
            await session.cancel()
        assert (session.status, session.waiting_for) == ("cancelled", "")
        assert await statuses_in(other, "s") == [("cancelled", "")] * 2


@scene
async def test_status_of_a_run_whose_process_is_gone(tenuto_sim, stores):
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool = HeldTool()
    async with stores() as store, stores() as other, agent(held_tool.tool, store=store) as ai:
        session = ai.session("s")
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            await other.release(await other.lease("s", takeover=True))
            held_tool.go.set()
            with pytest.raises(LeaseLost):
                await run
        assert session.status == "interrupted"
        assert await statuses_in(other, "s") == [("interrupted", "")] * 2
        assert (await session.continue_()).text == "Done."
        assert await statuses_in(other, "s") == [("completed", "")] * 2


@scene
async def test_status_of_a_fork_is_new_in_the_list(tenuto_sim, stores):
    """Nothing was written to it yet."""
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("s")
        await session.send("Go.")
        fork = await session.fork()
        assert await statuses_in(store, fork.id) == [("new", "")] * 2
        await fork.send("More.")
        assert await statuses_in(store, fork.id) == [("completed", "")] * 2


@pytest.mark.parametrize(
    "end, status",
    [
        (RunEnded("limit", "turns"), ("waiting", "limit")),
        (RunEnded("waiting", "approval"), ("waiting", "approval")),
        (RunEnded("cancelling"), ("interrupted", "")),
        (RunEnded("of a later version"), ("failed", "")),
    ],
    ids=["limit", "detail", "cancelling", "unknown"],
)
@scene
async def test_session_and_list_agree_about_other_endings(stores, end, status):
    """Journals of earlier and later versions have other reasons."""
    payloads = (CONFIGURED, MESSAGE_ADDED, REQUEST_STARTED, reply_with_calls(1), call_started(0), end)
    async with stores() as store, agent(store=store) as ai:
        drafts = [make_draft(one, id=f"e{number}", time_ms=number) for number, one in enumerate(payloads, 1)]
        await store.append(await store.lease("s"), drafts, release=True)
        session = await ai.resume("s")
        assert (session.status, session.waiting_for) == status
        assert await statuses_in(store, "s") == [status] * 2
