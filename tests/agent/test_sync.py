"""The synchronous agent: usable from any thread, also while a loop runs."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading

import pytest

from agent.helpers import QUICK, add, pay
from tenuto import Agent, Limits, tool
from tenuto.agent.events import ToolFinished
from tenuto.errors import LimitReached, RunCancelled, TenutoError
from tenuto.store.memory import MemoryStore
from tenuto.testing import call, turn
from tenuto.tools import ToolContext

TWO = (turn(call("add", {"a": 1, "b": 2})), turn("3."))


def agent(*tools, **options) -> Agent:
    return Agent(options.pop("model", "sim/anthropic"), tools=tools, retry=QUICK, **options)


def test_sync_run_and_resume(tenuto_sim, tmp_path):
    tenuto_sim.script(*TWO, turn("More."))
    events = []
    with agent(add, name="adder", store=tmp_path / "s.db") as ai:
        session = ai.session("s")
        forget = session.on_event(events.append)
        assert (session.id, session.status, session.text, session.last, session.pending) == ("s", "new", "", None, ())
        assert session.send("Go.").text == session.text == session.reply.text == "3."
        forget()
        assert (session.status, session.has_pending_work, session.model) == ("completed", False, "sim/anthropic")
        assert session.usage.total_tokens
        assert len(session.entries()) == 9
        assert session.continue_() is None
        assert repr(session) == "<Session s completed>"
        assert repr(ai) == "<Agent sim/anthropic 'adder'>"
        assert session.last is session.transcript[-1]
        session.close()
    with agent(add, name="adder", store=str(tmp_path / "s.db")) as ai, ai.resume() as session:
        with session.stream("And?") as run:
            assert "".join(run.text_deltas()) == "More."
        assert run.reply.text == "More."
        assert len(session.fork(at=2 + 2).transcript) == 4
    assert any(isinstance(event, ToolFinished) for event in events)
    tenuto_sim.assert_clean()


def test_sync_approvals(tenuto_sim):
    tenuto_sim.script(turn(call("pay", {"amount": 5}), call("pay", {"amount": 7})), turn("Done."))
    with agent(pay, store=None) as ai:
        session = ai.session()
        session.send("Pay.")
        first, second = session.pending
        assert session.approve(first) is None
        assert session.deny(second, reason="no").text == "Done."


def test_sync_approval_function_may_block(tenuto_sim):
    """It runs in a thread, so other work continues."""
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Done."))
    threads = []

    def approve(made):
        threads.append(threading.current_thread())
        return True

    with agent(pay, approve=approve, store=None) as ai:
        assert ai.session().send("Pay.").text == "Done."
    assert threads[0].name.startswith("tenuto-tool-")


def test_steering_and_cancel_from_another_thread(tenuto_sim):
    """`send` raises in the thread that runs it."""
    tenuto_sim.script(turn(call("hold")), turn("Heard."), turn(call("hold")), turn("I see."))
    begun, go = threading.Event(), threading.Event()

    @tool
    def hold(context: ToolContext) -> str:
        """Hold on."""
        begun.set()
        while not context.cancelled and not go.wait(0.001):
            pass
        return "held"

    with agent(hold, store=None) as ai:
        session = ai.session()

        def steer():
            begun.wait()
            session.steer("Quick!")
            go.set()

        thread = threading.Thread(target=steer)
        thread.start()
        assert session.send("Go.").text == "Heard."
        thread.join()
        begun.clear()
        go.clear()

        def cancel():
            begun.wait()
            session.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(RunCancelled):
            session.send("Again.")
        thread.join()
        assert session.status == "cancelled"
        assert session.continue_().text == "I see."
    tenuto_sim.assert_clean()


INTERRUPTED = """
import asyncio, os, signal
from tenuto import Agent, tool

@tool
async def interrupt() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()

with Agent("sim/anthropic", tools=[interrupt], store=None) as ai:
    session = ai.session()
    try:
        session.send("Go.")
    except KeyboardInterrupt:
        print("interrupted", session.status, session.continue_().text)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot interrupt itself there")
def test_interrupt_cancels_the_run_and_is_recorded(tenuto_sim):
    """It is raised in the waiting thread when the run has ended; the session can continue."""
    tenuto_sim.script(turn(call("interrupt")), turn("I see."))
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("interrupted cancelled I see.\n", "")
    tenuto_sim.assert_clean()


def test_sync_agent_in_threads_and_in_a_running_loop(tenuto_sim):
    """One agent with several sessions at once."""
    with agent(store=None) as ai:
        texts = []

        def work():
            with ai.session() as session:
                texts.append(session.send("Hi").text)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        async def inside():
            return ai.session().send("Hi").text

        assert asyncio.run(inside())
    assert len(texts) == 4
    assert all(texts)


def test_tool_may_use_a_sync_agent(tenuto_sim):
    """In a thread, where a blocking tool runs. On the loop of the agent, the error has the alternative."""
    tenuto_sim.script(turn(call("ask")), turn("Done."), when="Go.")
    tenuto_sim.script(turn("Helped."), when="Help.")
    texts = []

    @tool
    def ask() -> str:
        """Ask."""
        with agent(store=None) as helper:
            return ai.session().send("Help.").text + helper.session().send("Help.").text

    @tool(name="ask")
    async def wrong() -> str:
        """Ask."""
        with pytest.raises(RuntimeError, match="use AsyncAgent") as caught:
            ai.session().send("Help.")
        texts.append(str(caught.value))
        return "no"

    with agent(ask, store=None) as ai:
        session = ai.session()
        assert session.send("Go.").text == "Done."
        assert session.transcript[2].results[0].content == "Helped.Helped."
    with agent(wrong, store=None) as ai:
        ai.session().send("Go.")
    assert texts


def test_sync_agent_as_a_tool(tenuto_sim):
    tenuto_sim.script(turn(call("helper", {"prompt": "Help."})), turn("Done."), when="Go.")
    tenuto_sim.script(turn("Helped."), when="Help.")
    with agent(agent(name="h").as_tool("helper"), store=None) as ai:
        session = ai.session()
        assert session.send("Go.").text == "Done."
        assert session.transcript[2].results[0].content == "Helped."


def test_sync_errors_are_raised(tenuto_sim):
    tenuto_sim.script(*TWO)
    with agent(add, limits=Limits(turns=1), store=None) as ai:
        session = ai.session()
        with pytest.raises(LimitReached):
            session.send("Go.")
        with pytest.raises(TypeError, match="expected a user message"):
            session.send({"role": "assistant", "content": "Hi"})
        with pytest.raises(ValueError, match="no message"):
            session.stream([])


def test_leaving_a_sync_stream_cancels_the_run(tenuto_sim):
    """continue_() continues it."""
    tenuto_sim.script(*TWO)
    with agent(add, store=None) as ai:
        session = ai.session()
        with session.stream("Go.") as run:
            for _ in run:
                break
        assert session.status == "cancelled"
        assert session.continue_().text == "3."


def test_closed_objects_refuse_work(tenuto_sim):
    """They can be closed twice."""
    ai = agent(store=None)
    session = ai.session()
    session.send("Hi")
    ai.close()
    ai.close()
    session.close()
    with pytest.raises(RuntimeError, match="the agent is closed"):
        session.send("Hi")
    with pytest.raises((RuntimeError, TenutoError), match="closed"):
        ai.session()


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("tenuto")} - {"tenuto.sim"}


@pytest.mark.parametrize("forget", [True, False], ids=["forgotten", "closed"])
def test_closed_or_collected_agent_leaves_nothing(tenuto_sim, tmp_path, forget):
    """No thread, no lease, no warning."""
    before = threads()
    ai = agent(add, store=tmp_path / "s.db")
    session = ai.session("s")
    session.send("Hi")
    with session.stream("And?") as run:
        next(run)
    if not forget:
        ai.close()
    del session, run, ai
    gc.collect()

    assert threads() == before
    with agent(add, store=tmp_path / "s.db") as ai:
        assert ai.resume("s", takeover=False).send("Still there?").text


def test_passed_store_and_client_stay_open(tenuto_sim):
    """The caller closes them."""
    store = MemoryStore()
    with agent(store=store) as ai:
        ai.session("s").send("Hi")
    assert asyncio.run(store.session("s")).holder == ""

    async def shared():
        from tenuto import AsyncAgent, AsyncClient

        async with AsyncClient() as client:
            for _ in range(2):
                async with AsyncAgent("sim/anthropic", client=client, store=None) as ai:
                    assert (await ai.session().send("Hi")).text

    asyncio.run(shared())


def test_collected_async_agent_leaves_no_memory(tenuto_sim):
    """Closed sessions and agents are not referenced."""
    import weakref

    from tenuto import AsyncAgent

    async def work():
        async with AsyncAgent("sim/anthropic", store=None) as ai:
            session = ai.session()
            await session.send("Hi")
            return weakref.ref(ai), weakref.ref(session)

    found = asyncio.run(work())
    gc.collect()
    assert [ref() for ref in found] == [None, None]
