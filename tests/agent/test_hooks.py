"""Hooks around runs, requests and tool calls, and their permissions."""

from __future__ import annotations

import contextlib
import contextvars

import pytest

from agent.helpers import HeldTool, add, agent, call_results, journal_labels, pay, running_task, scene
from tenuto import AsyncAgent, tool
from tenuto.agent.events import RunStarted, RunStopped
from tenuto.agent.hooks import Hooks
from tenuto.client.middleware.retry import Retry
from tenuto.core.journal import ApprovalDecided, CallFinished
from tenuto.errors import BadRequest, LLMError, RateLimited, RunCancelled, StoreError, TenutoError, Unavailable
from tenuto.testing import call, deny, turn
from tenuto.tools.execution import Outcome

ADD = turn(call("add", {"a": 1, "b": 2}))
PAY = turn(call("pay", {"amount": 5}))
ASK = turn(call("helper", {"prompt": "Help me."}))
AROUND = ("around_run", "around_request", "around_tool")


class Recorder(Hooks):
    """Records when each method begins and ends."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name = name
        self.lines = lines

    async def _around(self, kind, next):
        self.lines.append(f"{self.name} {kind}")
        try:
            return await next()
        finally:
            self.lines.append(f"{self.name} /{kind}")

    async def around_run(self, run, next):
        return await self._around("run", next)

    async def around_request(self, request, next):
        return await self._around("request", next)

    async def around_tool(self, call, next):
        return await self._around("tool", next)


def hook(method: str, function) -> Hooks:
    """Return a hook with one method, which calls `function(info, next)` or `function(info)`."""
    if method == "permit":
        return type("Policy", (Hooks,), {"permit": lambda self, info: function(info)})()

    async def around(self, info, next):
        return await function(info, next)

    return type("Around", (Hooks,), {method: around})()


def raising(method: str, when: str, error: Exception) -> Hooks:
    """Return a hook that raises an error before or after `next()`."""

    async def around(info, next):
        if when == "after":
            await next()
        raise error

    return hook(method, around)


# --- order and context ---


@scene
async def test_first_hook_is_outermost(tenuto_sim, stores):
    tenuto_sim.script(ADD, turn("Done."))
    lines: list[str] = []
    hooks = [Recorder("a", lines), Recorder("b", lines)]
    async with stores() as store, agent(add, store=store, hooks=hooks) as ai:
        assert (await ai.session().send("Go.")).text == "Done."

    request = ["a request", "b request", "b /request", "a /request"]
    tool_call = ["a tool", "b tool", "b /tool", "a /tool"]
    assert lines == ["a run", "b run", *request, *tool_call, *request, "b /run", "a /run"]


SPAN: contextvars.ContextVar[str] = contextvars.ContextVar("span", default="none")


@tool
async def read_span() -> str:
    """Return the span."""
    return SPAN.get()


@tool
def read_span_in_thread() -> str:
    """Return the span."""
    return SPAN.get()


@scene
async def test_context_variables_reach_tools(tenuto_sim):
    """Also those of tools in threads; parallel calls do not share them."""
    tenuto_sim.script(turn(call("read_span"), call("read_span_in_thread")), turn("Done."))

    async def around(info, next):
        SPAN.set(f"{SPAN.get()}/{info.call.name}")
        return await next()

    async def run(info, next):
        SPAN.set("run")
        await next()

    hooks = [hook("around_run", run), hook("around_tool", around)]
    async with agent(read_span, read_span_in_thread, store=None, hooks=hooks) as ai:
        session = ai.session()
        await session.send("Go.")
        assert sorted(await call_results(session)) == ["run/read_span", "run/read_span_in_thread"]


@scene
async def test_hooks_receive_the_facts(tenuto_sim):
    tenuto_sim.script(PAY, turn("Done."))
    infos = []

    async def around(info, next):
        infos.append(info)
        return await next()

    hooks = [hook(method, around) for method in AROUND]
    async with agent(pay, store=None, name="clerk", hooks=hooks) as ai:
        session = ai.session("s")
        await session.send("Go.")
        await session.approve()
        fences = {entry.fence for entry in await session.entries()}

    assert {info.session_id for info in infos} == {"s"}
    first, request, second, tool_call, _ = infos
    assert (first.agent, first.model, first.resumed, first.parent) == ("clerk", "sim/anthropic", False, "")
    assert second.resumed
    assert (request.attempt, request.request.model, request.target.provider.name) == (1, "sim/anthropic", "sim")
    assert (tool_call.call.name, tool_call.ordinal, tool_call.attempt) == ("pay", 0, 1)
    assert (tool_call.effect, tool_call.needs_approval) == ("once", True)
    assert tool_call.fence in fences
    assert tool_call.key.startswith("s/")


@scene
async def test_request_hook_sees_retries_and_fallback(tenuto_sim, dead):
    tenuto_sim.script(turn(deny(500)), turn("Done."))
    models = []

    async def around(info, next):
        try:
            reply = await next()
        except LLMError:
            models.append((info.target.provider.name, info.attempt, "failed"))
            raise
        models.append((info.target.provider.name, info.attempt, reply.text))
        return reply

    options = {"retry": Retry(1, base=0.0), "fallback": ["sim/gemini"], "hooks": [hook("around_request", around)]}
    async with agent(store=None, model="dead/x", providers=[dead], **options) as ai:
        session = ai.session()
        assert (await session.send("Go.")).text == "Done."
        assert (await journal_labels(session)).count("request_started") == 4

    assert models == [("dead", 1, "failed"), ("dead", 2, "failed"), ("sim", 3, "failed"), ("sim", 4, "Done.")]


# --- exceptions ---


@scene
async def test_run_hook_that_raises_before_next_fails_the_run(tenuto_sim, stores):
    """Nothing is sent; the journal has the end of the run, and the session can be used again."""
    tenuto_sim.script(turn("Done."))
    events = []
    async with stores() as store:
        broken = raising("around_run", "before", LookupError("broken"))
        async with agent(store=store, hooks=[broken], listeners=[events.append]) as ai:
            session = ai.session("s")
            with pytest.raises(LookupError, match="broken"):
                await session.send("Go.")
            assert session.status == (await store.session("s")).status == "failed"
            assert await journal_labels(session) == ["failed(LookupError: broken)"]
        async with agent(store=store) as ai:
            assert (await ai.session("s").send("Go.")).text == "Done."
    assert [type(event) for event in events] == [RunStarted, RunStopped]
    assert (events[-1].reason, events[-1].detail) == ("failed", "LookupError: broken")
    assert len(tenuto_sim.requests) == 1


@scene
async def test_run_hook_that_raises_after_next_keeps_the_run(tenuto_sim, stores):
    """The run has ended by then, and its end is recorded."""
    tenuto_sim.script(turn("Done."))
    broken = raising("around_run", "after", LookupError("broken"))
    async with stores() as store, agent(store=store, hooks=[broken]) as ai:
        session = ai.session()
        with pytest.raises(LookupError):
            await session.send("Go.")
        assert (await journal_labels(session))[-2:] == ["reply_received", "completed"]
        assert (session.status, session.reply.text) == ("completed", "Done.")


@pytest.mark.parametrize("error", [LookupError("broken"), RateLimited("broken")], ids=["bug", "llm-error"])
@scene
async def test_request_hook_that_raises_before_next_sends_nothing(tenuto_sim, stores, error):
    """An error of the hook is not retried, whatever its class."""
    tenuto_sim.script(turn("Done."))
    async with stores() as store:
        async with agent(store=store, hooks=[raising("around_request", "before", error)]) as ai:
            session = ai.session("s")
            with pytest.raises(type(error), match="broken"):
                await session.send("Go.")
            assert session.status == "failed"
            assert await journal_labels(session) == [
                "configured",
                "message_added",
                f"failed({type(error).__name__}: broken)",
            ]
            assert tenuto_sim.requests == []
        async with agent(store=store) as ai:
            assert (await ai.session("s").continue_()).text == "Done."


@scene
async def test_reply_is_recorded_when_the_hook_raises_after_it(tenuto_sim, stores):
    """The reply is paid for: a later run continues with its calls."""
    tenuto_sim.script(ADD, turn("Done."))
    async with stores() as store:
        async with agent(add, store=store, hooks=[raising("around_request", "after", LookupError("broken"))]) as ai:
            session = ai.session("s")
            with pytest.raises(LookupError):
                await session.send("Go.")
            assert session.status == "failed"
            assert (await journal_labels(session))[2:] == [
                "request_started",
                "reply_received",
                "failed(LookupError: broken)",
            ]
        async with agent(add, store=store) as ai:
            assert (await ai.session("s").continue_()).text == "Done."
    assert len(tenuto_sim.requests) == 2
    tenuto_sim.assert_clean()


@scene
async def test_last_reply_completes_the_run_before_its_hook_raises(tenuto_sim, stores):
    tenuto_sim.script(turn("Done."))
    async with (
        stores() as store,
        agent(store=store, hooks=[raising("around_request", "after", LookupError("broken"))]) as ai,
    ):
        session = ai.session()
        with pytest.raises(LookupError):
            await session.send("Go.")
        assert (await journal_labels(session))[-2:] == ["reply_received", "completed"]


@pytest.mark.parametrize("method", ["around_run", "around_request"])
@scene
async def test_hook_cannot_hide_an_error(tenuto_sim, stores, method):
    """The caller gets it, and the end of the run is recorded."""
    tenuto_sim.script(turn(deny(400, times=0)))

    async def around(info, next):
        with contextlib.suppress(LLMError):
            return await next()

    async with stores() as store, agent(store=store, hooks=[hook(method, around)]) as ai:
        session = ai.session()
        with pytest.raises(BadRequest):
            await session.send("Go.")
        assert session.status == "failed"
        assert (await journal_labels(session))[-2:-1] == ["failed BadRequest"]


@scene
async def test_error_of_a_hook_replaces_that_of_the_request(tenuto_sim):
    """The failed request is recorded first. The run ends with the error of the hook."""
    tenuto_sim.script(turn(deny(500, times=0)))

    async def around(info, next):
        try:
            return await next()
        except Unavailable as exc:
            raise LookupError("no other provider") from exc

    async with agent(store=None, hooks=[hook("around_request", around)]) as ai:
        session = ai.session()
        with pytest.raises(LookupError):
            await session.send("Go.")
        assert (await journal_labels(session))[-2:] == ["failed Unavailable", "failed(LookupError: no other provider)"]


@scene
async def test_failed_request_is_retried_when_a_hook_hides_it(tenuto_sim):
    """The value that `around_request` returns is not used."""
    tenuto_sim.script(turn(deny(500)), turn("Done."))

    async def around(info, next):
        try:
            return await next()
        except Unavailable:
            return None

    async with agent(store=None, hooks=[hook("around_request", around)]) as ai:
        assert (await ai.session().send("Go.")).text == "Done."
    assert len(tenuto_sim.requests) == 2


@pytest.mark.parametrize("when", ["before", "after"])
@scene
async def test_tool_hook_that_raises_is_a_failed_call(tenuto_sim, stores, when):
    """The model reads the error, and the run continues. Before `next()`, the tool does not run."""
    tenuto_sim.script(turn(call("hold"), *ADD), turn("Done."))
    held_tool = HeldTool()
    held_tool.go.set()

    async def around(info, next):
        if info.call.name == "add":
            return await next()
        if when == "after":
            await next()
        raise LookupError("broken")

    async with stores() as store, agent(held_tool.tool, add, store=store, hooks=[hook("around_tool", around)]) as ai:
        session = ai.session()
        assert (await session.send("Go.")).text == "Done."
        assert {"failed 0 (hook)", "done 1"} <= set(await journal_labels(session))
        assert "a hook failed: LookupError: broken" in await call_results(session)
    assert held_tool.runs == (when == "after")
    tenuto_sim.assert_clean()


@scene
async def test_store_error_in_a_sub_agent_is_not_a_hook_error(tenuto_sim, stores):
    """It ends the run: the call has no result, and a later run repeats it."""
    tenuto_sim.script(ASK, turn("Done."), when="Go.")
    tenuto_sim.script(turn(call("hold")), turn("Helped."), when="Help me.")
    held_tool = HeldTool(effect="pure")
    lines: list[str] = []
    async with (
        stores() as store,
        stores() as other,
        agent(agent(held_tool.tool).as_tool("helper"), store=store, hooks=[Recorder("a", lines)]) as ai,
    ):
        session = ai.session("s")
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            [child] = [one.id for one in (await store.sessions()).sessions if one.id != "s"]
            await other.release(await other.lease(child, takeover=True))
            held_tool.go.set()
            with pytest.raises(StoreError):
                await run
        assert await call_results(session) == []
        assert (await session.continue_()).text == "Done."
        assert await call_results(session) == ["Helped."]


# --- next() ---


@pytest.mark.parametrize("method", AROUND)
@scene
async def test_next_can_be_called_once(tenuto_sim, method):
    """A second call of `next()` does not run the work again."""
    tenuto_sim.script(ADD, turn("Done."))

    async def around(info, next):
        await next()
        return await next()

    async with agent(add, store=None, hooks=[hook(method, around)]) as ai:
        session = ai.session()
        if method == "around_tool":
            await session.send("Go.")
            assert "called next() twice" in (await call_results(session))[0]
        else:
            with pytest.raises(TenutoError, match=rf"{method} called next\(\) twice"):
                await session.send("Go.")
        journal = await journal_labels(session)
    assert journal.count("message_added") == 1
    assert journal.count("request_started") == len(tenuto_sim.requests)
    assert len(tenuto_sim.requests) == (1 if method == "around_request" else 2)


@pytest.mark.parametrize("method", ["around_run", "around_request"])
@scene
async def test_run_and_request_hooks_must_call_next(tenuto_sim, method):
    async def around(info, next):
        return None

    async with agent(store=None, hooks=[hook(method, around)]) as ai:
        session = ai.session()
        with pytest.raises(TenutoError, match=rf"{method} did not call next\(\)"):
            await session.send("Go.")
        assert session.status == "failed"
    assert tenuto_sim.requests == []


# --- outcomes ---


@pytest.mark.parametrize("run", [True, False], ids=["after-next", "without-next"])
@scene
async def test_tool_hook_replaces_the_outcome(tenuto_sim, stores, run):
    """The journal, the event and the model have the replacement only. The tool need not run."""
    tenuto_sim.script(turn(call("hold", {"x": 7})), turn("Done."))
    held_tool = HeldTool()
    held_tool.go.set()
    events = []

    async def around(info, next):
        if run:
            assert "held 7" in str((await next()).result.content)
        return Outcome(info.call.answer("[redacted]"))

    hooks = [hook("around_tool", around)]
    async with stores() as store, agent(held_tool.tool, store=store, hooks=hooks, listeners=[events.append]) as ai:
        session = ai.session("s")
        await session.send("Go.")
        assert await call_results(session) == ["[redacted]"]
        assert not any(b"held 7" in entry.body for entry in await store.read("s"))
    assert held_tool.runs == run
    assert "held 7" not in str(events)
    assert "held 7" not in str(tenuto_sim.requests[1].body)
    assert "[redacted]" in str(tenuto_sim.requests[1].body)


@pytest.mark.parametrize("other", [None, "text", "other-call"])
@scene
async def test_tool_hook_must_return_the_outcome_of_its_call(tenuto_sim, other):
    tenuto_sim.script(ADD, turn("Done."))

    async def around(info, next):
        outcome = await next()
        if other != "other-call":
            return other
        return Outcome(type(outcome.result)("call_of_another_turn", "7"))

    async with agent(add, store=None, hooks=[hook("around_tool", around)]) as ai:
        session = ai.session()
        await session.send("Go.")
        assert "failed 0 (hook)" in await journal_labels(session)
        assert "expected the Outcome of the call" in (await call_results(session))[0]
    tenuto_sim.assert_clean()


@scene
async def test_usage_of_a_sub_agent_survives_a_replaced_outcome(tenuto_sim):
    tenuto_sim.script(ASK, turn("Done."), when="Go.")
    tenuto_sim.script(turn("Secret."), when="Help me.")

    async def around(info, next):
        await next()
        return Outcome(info.call.answer("[redacted]"))

    async with agent(agent().as_tool("helper"), store=None, hooks=[hook("around_tool", around)]) as ai:
        session = ai.session()
        await session.send("Go.")
        [finished] = [one.payload for one in await session.entries() if isinstance(one.payload, CallFinished)]
    assert finished.result.content == "[redacted]"
    assert finished.usage.total_tokens


@scene
async def test_cancel_passes_through_the_hooks(tenuto_sim):
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool, lines = HeldTool(), []
    async with agent(held_tool.tool, store=None, hooks=[Recorder("a", lines)]) as ai:
        session = ai.session()
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        assert (await journal_labels(session))[-2:] == ["interrupted 0", "cancelled"]
    assert lines == ["a run", "a request", "a /request", "a tool", "a /tool", "a /run"]


# --- permissions ---


def policy(*decisions) -> list[Hooks]:
    """Return one hook with `permit` for each decision."""
    return [hook("permit", lambda info, decision=decision: decision) for decision in decisions]


async def decide_later(decision):
    return decision


@pytest.mark.parametrize(
    "decisions, result",
    [
        ([None], None),
        ([True], "paid 5"),
        ([False], "pay was not run: a policy denies it."),
        (["too expensive"], "pay was not run: too expensive."),
        ([True, "too expensive"], "pay was not run: too expensive."),
        ([False, True], "pay was not run: a policy denies it."),
        ([None, True], "paid 5"),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@scene
async def test_permit_decides_about_a_call(tenuto_sim, stores, decisions, result, is_async):
    """None asks for approval as usual, True replaces it, and a denial wins."""
    tenuto_sim.script(PAY, turn("Done."))
    hooks = [
        hook("permit", lambda info, value=value: decide_later(value) if is_async else value) for value in decisions
    ]
    async with stores() as store, agent(pay, store=store, hooks=hooks) as ai:
        session = ai.session()
        await session.send("Go.")
        assert await call_results(session) == ([result] if result else [])
        assert (session.status, session.waiting_for) == (("completed", "") if result else ("waiting", "approval"))
        if result and result != "paid 5":
            assert "denied 0 (policy)" in await journal_labels(session)
    tenuto_sim.assert_clean()


@scene
async def test_permit_denies_a_tool_that_needs_no_approval(tenuto_sim):
    tenuto_sim.script(turn(*ADD, *ADD), turn("Done."))
    hooks = [hook("permit", lambda info: "one call is enough" if info.ordinal else None)]
    async with agent(add, store=None, hooks=hooks) as ai:
        session = ai.session()
        await session.send("Go.")
        assert sorted(await call_results(session)) == ["3", "add was not run: one call is enough."]


@pytest.mark.parametrize("decision, result", [(True, "paid 5"), ("not today", "pay was not run: not today.")], ids=str)
@scene
async def test_permit_decides_about_a_waiting_call_on_resume(tenuto_sim, stores, decision, result):
    tenuto_sim.script(PAY, turn("Done."))
    async with stores() as store, agent(pay, store=store) as ai:
        await ai.session("s").send("Go.")
    async with stores() as store, agent(pay, store=store, hooks=policy(decision)) as ai:
        session = await ai.resume("s")
        assert session.status == "waiting"
        assert (await session.continue_()).text == "Done."
        assert await call_results(session) == [result]
        decisions = [one.payload for one in await session.entries() if isinstance(one.payload, ApprovalDecided)]
        assert [(one.allowed, one.reason) for one in decisions] == (
            [(True, "permitted by a hook")] if decision is True else []
        )


@scene
async def test_approved_call_needs_no_second_approval(tenuto_sim, stores):
    tenuto_sim.script(PAY, turn("Done."))
    requested = []
    async with stores() as store, agent(pay, store=store, hooks=[hook("permit", requested.append)]) as ai:
        session = ai.session()
        await session.send("Go.")
        await session.approve()
        assert len(requested) == 1
        assert (await call_results(session), session.status) == (["paid 5"], "completed")


@pytest.mark.parametrize("value", [1, b"yes", ["no"]], ids=repr)
@scene
async def test_permit_with_an_invalid_value_ends_the_run(tenuto_sim, value):
    """No call of the turn starts."""
    tenuto_sim.script(turn(*ADD, *PAY))
    async with agent(add, pay, store=None, hooks=policy(None, value)) as ai:
        session = ai.session()
        with pytest.raises(TypeError, match=r"Policy\.permit returned .* expected True, False, a text or None"):
            await session.send("Go.")
        assert session.status == "failed"
        assert not any(line.startswith("started") for line in await journal_labels(session))


# --- sub-agents, construction ---


@pytest.mark.parametrize("background", [False, True], ids=["waits", "background"])
@scene
async def test_hooks_of_the_parent_apply_to_sub_agents(tenuto_sim, background):
    tenuto_sim.script(ASK, turn("Done."), turn("Really done."), when="Go.")
    tenuto_sim.script(PAY, turn("Paid."), when="Help me.")
    runs, permitted, tools, requests = [], [], [], []

    class Everything(Hooks):
        async def around_run(self, run, next):
            runs.append(run)
            await next()

        async def around_request(self, request, next):
            requests.append(request.session_id)
            return await next()

        async def around_tool(self, call, next):
            tools.append((call.session_id, call.call.name))
            return await next()

        def permit(self, call):
            permitted.append((call.session_id, call.call.name))
            return True

    helper = agent(pay).as_tool("helper", background=background)
    async with agent(helper, store=None, hooks=[Everything()]) as ai:
        session = ai.session("s")
        await session.send("Go.")
        assert session.status == "completed"
    below = [run for run in runs if run.parent]
    assert [(run.parent, run.agent) for run in below] == [("s", "helper")]
    child = below[0].session_id
    assert permitted == tools == [("s", "helper"), (child, "pay")]
    assert requests.count(child) == 2


@scene
async def test_hooks_of_the_parent_surround_those_of_a_sub_agent(tenuto_sim):
    tenuto_sim.script(ASK, turn("Done."), when="Go.")
    tenuto_sim.script(turn("Helped."), when="Help me.")
    lines: list[str] = []
    helper = agent(hooks=[Recorder("child", lines)]).as_tool("helper")
    async with agent(helper, store=None, hooks=[Recorder("parent", lines)]) as ai:
        await ai.session().send("Go.")
    assert lines[3:8] == ["parent tool", "parent run", "child run", "parent request", "child request"]
    assert lines.count("parent run") == 2


@pytest.mark.parametrize(
    "value", [Hooks, object(), lambda call: True, None], ids=["class", "object", "function", "None"]
)
def test_wrong_hooks_are_refused_at_construction(value):
    with pytest.raises(TypeError, match="hooks: expected objects of a subclass of Hooks"):
        AsyncAgent("sim/anthropic", hooks=[Hooks(), value], store=None)
