"""Sessions on a Temporal server, with worker processes that are killed and stopped (`make temporal`)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError

import real_postgres
from agent.helpers import scene
from temporal import chaos
from temporal.services import running
from temporal.worker_program import LEASE
from tenuto.core.journal import CallFinished, MessageAdded, RunEnded
from tenuto.temporal import SessionClient

pytestmark = pytest.mark.timeout(300)
HEARTBEAT = 2.0


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    with real_postgres.using(tmp_path_factory.getbasetemp().parent / "postgres-temporal") as server:
        yield server


@pytest.fixture
def services(tmp_path, postgres, request):
    """Return a function that starts the services on a store of this test."""
    name = request.node.name.partition("[")[0].removeprefix("test_")[:40]
    return lambda: running(tmp_path, postgres.url(name))


async def until(holds, *, seconds: float = 30.0):
    """Poll until the result of a function is true, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = await holds()
        if found:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"it does not hold after {seconds} s")


async def outcomes(agent, id: str) -> list[str]:
    entries = await agent.store.read(id)
    return [entry.payload.outcome for entry in entries if isinstance(entry.payload, CallFinished)]


@scene
async def test_approval_works_after_all_workers_were_stopped(services):
    """For longer than the timeouts of heartbeat, sticky queue, workflow task and lease."""
    async with services() as all_, all_.agent("pay") as agent:
        client = SessionClient(all_.client, agent, heartbeat_timeout=HEARTBEAT)
        all_.workers.start(2)
        id = await client.start_session("Pay.")
        pending = await until(lambda: client.pending(id))
        all_.workers.kill()
        await client.approve(id, [pending[0].call])
        await asyncio.sleep(3 * LEASE)
        all_.workers.start(1)
        result = await client.result(id)
        assert (result.progress.status, await outcomes(agent, id)) == ("completed", ["done"])
        assert len(all_.workers.lines("pay")) == 1


@scene
async def test_approval_timer_denies_the_call(services):
    """After 5 seconds without a decision, the call is denied with a reason for the model."""
    async with services() as all_, all_.agent("pay") as agent:
        client = SessionClient(all_.client, agent, approval_timeout=5.0)
        all_.workers.start(1)
        started = time.monotonic()
        result = await client.result(await client.start_session("Pay.", session="s"))
        assert time.monotonic() - started >= 5.0
        assert (result.progress.status, await outcomes(agent, "s")) == ("completed", ["denied"])
        assert "no decision within 5 s" in str((await agent.resume("s")).transcript[2])
        assert all_.workers.lines("pay") == []


@pytest.mark.parametrize("decision", ["approve", "deny"])
@scene
async def test_signal_decides_on_a_call(services, decision):
    async with services() as all_, all_.agent("pay") as agent:
        client = SessionClient(all_.client, agent)
        all_.workers.start(1)
        id = await client.start_session("Pay.")
        await until(lambda: client.pending(id))
        assert await client.status(id) == "waiting"
        for _ in range(3):
            await (client.approve(id, key="d") if decision == "approve" else client.deny(id, reason="No.", key="d"))
        result = await client.result(id)
        assert result.progress.status == "completed"
        assert await outcomes(agent, id) == ["done" if decision == "approve" else "denied"]
        assert len(all_.workers.lines("pay")) == (decision == "approve")
        assert (await client.usage(id))["output_tokens"] > 0


@pytest.mark.parametrize("way", ["signal", "workflow"])
@scene
async def test_run_is_cancelled_in_a_tool(services, way):
    """By signal, or as the cancellation of the workflow; the next prompt starts a new run."""
    async with services() as all_, all_.agent("hold") as agent:
        client = SessionClient(all_.client, agent, heartbeat_timeout=HEARTBEAT)
        all_.workers.start(1)
        id = await client.start_session("Hold.")

        async def holding():
            return all_.workers.lines("hold")

        await until(holding)
        if way == "signal":
            await client.cancel(id)
            assert (await client.result(id)).progress.status == "cancelled"
        else:
            handle = all_.client.get_workflow_handle(f"tenuto-{id}")
            await handle.cancel()
            with pytest.raises(WorkflowFailureError) as failed:
                await handle.result()
            assert isinstance(failed.value.cause, CancelledError)
        session = await agent.resume(id)
        assert (session.status, all_.workers.lines("cancelled")) == ("cancelled", all_.workers.lines("hold"))
        await client.send(id, "Never mind.")
        assert (await client.result(id)).progress.status == "completed"
        assert str((await agent.resume(id)).transcript[-2]) == "Never mind."


@scene
async def test_steering_message_reaches_the_running_session(services):
    """The message arrives while a tool runs, three times with one key; the model receives it with its next request."""
    async with services() as all_, all_.agent("hold") as agent:
        client = SessionClient(all_.client, agent)
        all_.workers.start(1)
        id = await client.start_session("Hold.")

        async def holding():
            return all_.workers.lines("hold")

        await until(holding)
        for _ in range(3):
            await client.steer(id, "Hurry.", key="s")

        async def posted():
            return await agent.store.inbox(id)

        assert len(await until(posted)) == 1
        all_.workers.ledger.with_name("ledger.go").touch()
        assert (await client.result(id)).progress.status == "completed"
        texts = [str(message) for message in (await agent.resume(id)).transcript]
        assert texts.count("Hurry.") == 1
        assert 0 < texts.index("Hurry.") < len(texts) - 1


@scene
async def test_prompt_delivered_five_times_is_sent_once(services):
    async with services() as all_, all_.agent("look") as agent:
        client = SessionClient(all_.client, agent)
        await client.start_session("Look.", session="s", key="k")
        for _ in range(2):
            await client.send("s", "Look.", key="k")
        all_.workers.start(2)
        first = await client.result("s")
        for _ in range(2):
            await client.send("s", "Look.", key="k")
        again = await client.result("s")
        assert (first.progress.status, first.text) == (again.progress.status, again.text)
        entries = await agent.store.read("s")
        assert sum(isinstance(entry.payload, MessageAdded) for entry in entries) == 1
        assert sum(isinstance(entry.payload, RunEnded) for entry in entries) == 1


@scene
async def test_replaced_worker_cannot_append(services):
    """It cannot append; the result of its tool reaches the model as a message."""
    async with services() as all_, all_.agent("hold") as agent:
        client = SessionClient(all_.client, agent, heartbeat_timeout=HEARTBEAT)
        (first,) = all_.workers.start(1)
        id = await client.start_session("Hold.")

        async def holding():
            return all_.workers.lines("hold")

        await until(holding)
        all_.workers.stop(first)
        all_.workers.start(1)
        assert (await client.result(id)).progress.status == "completed"
        assert await outcomes(agent, id) == ["interrupted"]
        head = (await agent.resume(id))._log.head
        all_.workers.ledger.with_name("ledger.go").touch()
        all_.workers.wake(first)

        async def posted():
            return await agent.store.inbox(id)

        (late,) = await until(posted)
        assert "was reported as interrupted. It has ended since. Its result: held" in str(late.item.message)
        assert (await agent.resume(id))._log.head == head
        await client.send(id, "And now?")
        assert (await client.result(id)).progress.status == "completed"
        assert sum("It has ended since" in str(message) for message in (await agent.resume(id)).transcript) == 1
        assert Counter(all_.workers.lines("hold")).most_common(1)[0][1] == 1
        assert not await agent.store.verify()


def test_sessions_survive_kills_and_stops(tmp_path, postgres):
    """A short form of `python tests/temporal/chaos.py`."""
    outcome = asyncio.run(chaos.run(tmp_path, postgres.url("chaos"), sessions=60, seed=7))
    assert outcome.problems == []
