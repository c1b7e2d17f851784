"""`Toolbox`: every call has a result, and no call starts that cannot run."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.core.messages import ToolCallView, ToolResult
from tenuto.core.request import ServerTool, ToolDefinition
from tenuto.tools import (
    Outcome,
    PreparedCall,
    Toolbox,
    ToolContext,
    is_tool_source,
    tool,
    web_search,
)
from tools.calls import answer_of, call, prepare_and_run, run


@tool(effect="pure", timeout=30, approval=lambda a, **_: a > 100)
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


class Foreign:
    """A custom dispatcher."""

    def __init__(self, *names, answer=None):
        self.names, self.answer, self.seen = names, answer, []

    def definitions(self):
        return [*(ToolDefinition(name, kind="custom") for name in self.names), ServerTool("web_fetch")]

    async def dispatch(self, made):
        self.seen.append(made)
        return self.answer if self.answer is not None else ToolResult("other", f"{made.name}: {made.args}")


# --- contents --------------------------------------------------------------------------------------------------------


def test_toolbox_holds_all_kinds_of_tools():
    def plain(x: int) -> int:
        return x

    foreign = Foreign("theirs")
    box = Toolbox([add, plain, web_search(), foreign])

    assert box.names() == ("add", "plain", "theirs")
    assert [getattr(found, "name", "") or found.kind for found in box.definitions()] == [
        "add", "plain", "web_search", "theirs", "web_fetch",
    ]  # fmt: skip
    assert (box.get("add"), box.get("theirs").dispatcher, box.get("web_search")) == (add, foreign, None)


def test_nested_toolbox_preserves_options():
    prepared = Toolbox([Toolbox([add, web_search()])]).prepare(call("add", a=101))

    assert (prepared.effect, prepared.timeout, prepared.needs_approval) == ("pure", 30, True)


@pytest.mark.parametrize(
    "tools, named",
    [
        ([add, tool(name="add")(lambda: 1)], "'add'.*test_toolbox.add and .*lambda"),
        ([add, Foreign("add")], "'add'.*test_toolbox.add and one of Foreign"),
        ([tool(name="web_search")(lambda: 1), web_search()], "'web_search'.*lambda.* and a server tool"),
        ([web_search(), tool(name="web_search")(lambda: 1)], "'web_search'.*a server tool and .*lambda"),
        ([web_search(), web_search()], "'web_search'"),
    ],
)
def test_duplicate_names_are_refused(tools, named):
    with pytest.raises(ValueError, match=f"two tools are called {named}"):
        Toolbox(tools)


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="a definition alone has nothing to run"):
        Toolbox([ToolDefinition("alone")])
    with pytest.raises(ValueError, match="invalid tool name"):
        Toolbox([Foreign("bad\nname")])


# --- before a call runs ----------------------------------------------------------------------------------------------


def test_prepare_returns_options_and_arguments():
    prepared = Toolbox([add]).prepare(call("add", a=5))

    assert isinstance(prepared, PreparedCall)
    assert (prepared.name, prepared.effect, prepared.timeout, prepared.needs_approval) == ("add", "pure", 30, False)
    assert prepared.arguments == {"a": 5}


@pytest.mark.parametrize(
    "made, detail, message",
    [
        (call("ad"), "unknown-tool", "no tool 'ad', and nothing was run. Did you mean add? The tools are: add."),
        (ToolCallView("1", "add", '{"a": 1', broken="cut off"), "arguments", "not JSON: cut off"),
        (ToolCallView("1", "add", "[1]"), "arguments", "one JSON object"),
        (ToolCallView("1", "add", "free", kind="custom"), "arguments", "not as a custom call"),
        (call("add", a="x"), "arguments", 'a: Expected `int`, got `str` (expected {"type":"integer"})'),
        (call("add"), "arguments", "a: missing"),
    ],
)
def test_prepare_explains_why_a_call_cannot_run(made, detail, message):
    refused = Toolbox([add]).prepare(made)

    assert isinstance(refused, Outcome)
    assert (refused.outcome, refused.detail) == ("failed", detail)
    assert (refused.detail, refused.result.is_error, refused.result.tool_use_id) == (detail, True, made.id)
    assert message in refused.result.content
    assert asyncio.run(Toolbox([add]).dispatch(made)) == refused.result


def test_empty_toolbox_reports_that_it_has_no_tools():
    assert "There are no tools." in answer_of([], "add")


@settings(max_examples=50)
@given(st.text(), st.text())
def test_every_call_gets_a_result(name, args):
    box = Toolbox([add])

    for made in (ToolCallView("1", "add", args), ToolCallView("1", name, args)):
        prepared = box.prepare(made)
        assert isinstance(prepared, PreparedCall) or prepared.result.is_error


# --- running ----------------------------------------------------------------------------------------------------------


def test_dispatch_returns_a_result():
    assert asyncio.run(Toolbox([add]).dispatch(call("add", a=1))) == ToolResult("call_1", "3")


class Callable:
    def __call__(self, x: int) -> int:
        return x

    async def later(self, x: int) -> int:
        return x


class Later:
    async def __call__(self, x: int) -> int:
        return x


async def later(x: int, more: int = 0) -> int:
    await asyncio.sleep(0)
    return x + more


@pytest.mark.parametrize(
    "function",
    [
        Callable(),
        Callable().later,
        Later(),
        later,
        functools.partial(later, more=0),
        lambda x: later(x, 0),
        lambda x: x,
    ],
)
def test_any_callable_runs(function):
    assert answer_of([tool(name="it")(function)], "it", x=3) == "3"


def test_blocking_tool_does_not_delay_others():
    """Thirty tools wait for each other: a pool with fewer threads would block."""
    meeting = threading.Barrier(30, timeout=20)

    @tool
    def meet() -> str:
        meeting.wait()
        return "met"

    async def all_of_them():
        box = Toolbox([meet])
        return await asyncio.gather(*(box.dispatch(call("meet")) for _ in range(30)))

    assert {result.content for result in asyncio.run(all_of_them())} == {"met"}


def test_context_variables_reach_a_thread():
    variable = contextvars.ContextVar("word", default="none")

    @tool
    def tell() -> str:
        return f"{variable.get()} {threading.current_thread().daemon}"

    variable.set("heard")

    assert answer_of([tell], "tell") == "heard True"


def test_parameter_receives_the_context():
    @tool(effect="keyed")
    def charge(amount: int, context: ToolContext) -> list:
        return [amount, context.key, context.attempt, context.session, context.call.id, context.cancelled]

    outcome = run([charge], call("charge", amount=3), key="s/1/c", attempt=2, session="s")

    assert outcome.result.content == '[3,"s/1/c",2,"s","call_1",false]'
    assert "context" not in charge.parameters["properties"]
    assert (
        asyncio.run(Toolbox([charge]).dispatch(call("charge", amount=3))).content == '[3,"call_1",1,"","call_1",false]'
    )


# --- progress ---------------------------------------------------------------------------------------------------------


def steps():
    yield "one"
    yield 2
    yield "three"


def returning():
    yield "one"
    return {"x": 1}


async def later_steps():
    yield "one"
    yield "two"


def silent():
    yield from ()


@pytest.mark.parametrize(
    "function, steps_seen, result",
    [
        (steps, ["one", "three"], "three"),
        (returning, ["one"], '{"x":1}'),
        (later_steps, ["one", "two"], "two"),
        (silent, [], "(no output)"),
    ],
)
def test_generator_yields_progress_and_result(function, steps_seen, result):
    progress = []

    outcome = run([tool(function)], call(function.__name__), progress=progress.append)

    assert (progress, outcome.result.content) == (steps_seen, result)


def test_progress_after_the_end_is_ignored():
    progress, contexts = [], []

    @tool
    def keep(context: ToolContext) -> str:
        context.progress("now")
        contexts.append(context)
        return "x"

    run([keep], call("keep"), progress=progress.append)
    contexts[0].progress("late")

    assert (progress, contexts[0].cancelled) == (["now"], False)


def test_exception_in_progress_listener_is_ignored():
    def it(context: ToolContext) -> str:
        context.progress("half")
        return "whole"

    def fail(text):
        raise RuntimeError("closed")

    assert run([it], call("it"), progress=fail).result.content == "whole"


# --- errors ----------------------------------------------------------------------------------------------------------


class Odd(Exception):
    def __str__(self):
        raise RuntimeError


def group():
    return ExceptionGroup("many", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")])])


@pytest.mark.parametrize(
    "error, message",
    [
        (ValueError("no such city"), "no such city"),
        (ValueError(), "ValueError"),
        (Odd(), "Odd"),
        (group(), "a; KeyError: 'b'"),
        (SystemExit(3), "RuntimeError: the tool called sys.exit(3)"),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
def test_exception_is_reported_and_logged(error, message, waits, caplog):
    async def later():
        raise error

    def now():
        raise error

    caplog.set_level(logging.DEBUG, "tenuto")
    outcome = run([tool(name="it")(later if waits else now)], call("it"))

    assert outcome == Outcome(ToolResult("call_1", message, is_error=True), "failed", "exception")
    assert any(record.levelno == logging.DEBUG and record.exc_info for record in caplog.records)


def test_long_exception_message_is_cut():
    def it():
        raise ValueError("x" * 10_000)

    assert len(answer_of([it], "it")) < 2200


def test_tool_that_raises_cancelled_error_is_cancelled():
    async def it():
        raise asyncio.CancelledError

    outcome = run([it], call("it"))

    assert (outcome.outcome, outcome.detail, outcome.result.is_error) == ("cancelled", "cancelled", True)


def test_keyboard_interrupt_is_raised():
    def it():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([it], call("it"))


def test_dispatcher_runs_its_calls():
    foreign = Foreign("theirs")
    made = ToolCallView("c9", "theirs", "free text", kind="custom")

    prepared = Toolbox([foreign]).prepare(made)

    assert (prepared.effect, prepared.needs_approval, prepared.tool.dispatcher) == ("once", False, foreign)
    assert run([foreign], made).result == ToolResult("c9", "theirs: free text")
    assert foreign.seen == [made]


def test_invalid_result_of_a_dispatcher_is_reported():
    assert run([Foreign("theirs", answer=object())], call("theirs")).detail == "result"


class Careful(Foreign):
    """A dispatcher with all optional methods."""

    def effect(self, name):
        return "pure" if name == "look" else "once"

    def approval(self, name):
        return name == "pay"

    async def dispatch(self, made, context):
        return made.answer(f"{made.name} {context.key} {context.attempt}")


def test_dispatcher_may_declare_effect_and_approval():
    box = Toolbox([Careful("look", "pay")])

    assert [(each.effect, each.approval) for each in map(box.get, box.names())] == [("pure", False), ("once", True)]
    assert box.prepare(call("pay")).needs_approval


def test_dispatcher_receives_context_if_it_takes_one():
    assert run([Careful("look")], call("look"), key="s/1/c", attempt=2).result.content == "look s/1/c 2"


def test_invalid_effect_of_a_dispatcher_is_refused():
    class Odd(Foreign):
        def effect(self, name):
            return "twice"

    with pytest.raises(ValueError, match="tool 'look': effect='twice' is not one of pure"):
        Toolbox([Odd("look")])


# --- sources ----------------------------------------------------------------------------------------------------------


class Server:
    async def open(self):
        return [tool(name="remote")(lambda: "from afar")]

    async def close(self):
        pass


def test_source_is_recognized():
    others = [add, web_search(), Foreign("theirs"), Toolbox([add]), add.__wrapped__, Server]

    assert is_tool_source(Server())
    assert not any(map(is_tool_source, others))


def test_source_must_be_open_before_its_tools_are_used():
    source = Server()

    with pytest.raises(TypeError, match=r"not open: pass it to an agent, or pass the tools that its open\(\) returns"):
        Toolbox([source])
    assert answer_of([add, *asyncio.run(source.open())], "remote") == "from afar"


# --- time -------------------------------------------------------------------------------------------------------------


def test_thread_after_timeout_finds_cancelled_set():
    """Its effect is unknown, and its later progress is ignored."""
    reports, go, over = [], threading.Event(), threading.Event()

    @tool(timeout=0.01)
    def slow(context: ToolContext) -> str:
        go.wait(20)
        context.progress("late")
        reports.append(context.cancelled)
        over.set()
        return "late"

    outcome = run([slow], call("slow"), progress=reports.append)
    go.set()  # the loop is closed by now
    assert over.wait(20)

    assert (outcome.outcome, outcome.detail, outcome.result.is_error) == ("unknown", "timeout", True)
    assert "after 0.01 s and may still be running. It may or may not have taken effect" in outcome.result.content
    assert reports == [True]


def test_async_tool_cleans_up_after_timeout():
    cleaned = []

    @tool(timeout=0.01)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    outcome = run([slow], call("slow"))

    assert (outcome.outcome, outcome.detail, cleaned) == ("failed", "timeout", [True])
    assert "may have taken effect in part" in outcome.result.content


def test_async_tool_that_ignores_cancel_is_unknown(monkeypatch):
    monkeypatch.setattr("tenuto.tools.execution.GRACE", 0.01)
    free = asyncio.Event()

    @tool(timeout=0.01)
    async def stubborn() -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    async def go():
        outcome = await prepare_and_run(Toolbox([stubborn]), call("stubborn"))
        free.set()
        return outcome

    assert asyncio.run(go()).outcome == "unknown"


@pytest.mark.parametrize("waits", [False, True])
def test_cancelling_a_run_cancels_the_tool(waits):
    """An async tool ends with the run; one in a thread is notified."""
    contexts, over = [], threading.Event()

    async def go():
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def later():
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                contexts.append("stopped")

        def now(context: ToolContext):
            loop.call_soon_threadsafe(begun.set)
            while not context.cancelled:
                pass
            contexts.append("stopped")
            over.set()

        task = asyncio.create_task(prepare_and_run(Toolbox([tool(name="it")(later if waits else now)]), call("it")))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert waits or over.wait(20)
        return list(contexts)  # when the run has ended, not when the loop has

    assert asyncio.run(go()) == ["stopped"]


def test_generator_stops_at_next_step_after_timeout():
    closed, step = threading.Event(), threading.Event()

    @tool(timeout=0.01)
    def endless():
        try:
            while True:
                step.wait(20)
                yield "again"
        finally:
            closed.set()

    assert run([endless], call("endless")).outcome == "unknown"
    step.set()
    assert closed.wait(20)


def test_blocking_tool_does_not_delay_exit():
    code = """
import asyncio, threading
from tenuto.tools import Toolbox, tool
from tenuto.core.messages import ToolCallView
@tool(timeout=0.01)
def forever(): threading.Event().wait()
print(asyncio.run(Toolbox([forever]).dispatch(ToolCallView("1", "forever", ""))).is_error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)

    assert (done.stdout, done.stderr) == ("True\n", "")
