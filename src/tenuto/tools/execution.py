"""Running a function that may block, or may be awaited, or may take too long.

A function that is not `async` gets a thread of its own, which keeps nobody from leaving: a pool's threads are waited for
when the program ends, and a few tools that block would keep all the others waiting. A thread cannot be stopped from
without. When its time is up it is left behind, and what it still gives goes nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core.messages import ToolCallView, ToolResult

__all__ = [
    "GRACE",
    "Detail",
    "End",
    "ExecutionResult",
    "Outcome",
    "ThreadSlot",
    "ToolContext",
    "ToolRefused",
    "call_function",
    "failure",
    "is_async",
    "run_tool",
]

Detail: TypeAlias = Literal["", "unknown-tool", "arguments", "exception", "timeout", "oversize", "result", "cancelled"]
"""What went wrong; empty if nothing did.

`unknown-tool` and `arguments`: nothing was begun. `exception`: the tool raised. `timeout`: it took too long. `oversize`:
it gave more than is kept; text is cut and stays a result. `result`: what it gave cannot be shown to a model.
`cancelled`: it was ended from within.
"""


class Outcome(msgspec.Struct, frozen=True):
    """How a call ended, and the result that answers it.

    `done`: it ran. `failed`: it ran and did not succeed, or was never begun; `detail` tells. `cancelled`: it was ended
    before it was through. `unknown`: it may still be running, and nobody can say whether it took effect.
    """

    result: ToolResult
    outcome: Literal["done", "failed", "cancelled", "unknown"] = "done"
    detail: Detail = ""


class ToolRefused(msgspec.Struct, frozen=True):
    """A call that cannot be run: `result` tells the model why, and what to do. Nothing was begun."""

    call: ToolCallView
    result: ToolResult
    detail: Detail

    @property
    def outcome(self) -> Outcome:
        """The same, as the outcome of a call."""
        return Outcome(self.result, "failed", self.detail)


def failure(call: ToolCallView, text: str, detail: Detail) -> Outcome:
    """Make the outcome of a call that did not succeed."""
    return Outcome(call.answer(text, is_error=True), "failed", detail)


class ToolContext:
    """The call that a tool answers: annotate a parameter with this class, and it is filled in.

    `key` is the same for every attempt at this call, and different for every other call: a tool whose `effect` is
    `keyed` passes it on to whatever does the work, which then does it once. `attempt` counts from 1. `session` is
    empty where there is none. `fence` grows with each holder of the session; a system that refuses smaller numbers than it
    has seen is safe from a process that lost the session and does not know it yet. Made by hand, without a key, the call's id stands for it.
    """

    def __init__(
        self,
        call: ToolCallView,
        *,
        key: str = "",
        attempt: int = 1,
        session: str = "",
        fence: int = 0,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.call = call
        self.key = key or call.id
        self.attempt = attempt
        self.session = session
        self.fence = fence
        self.root = ""
        """The directory that the tool works in; empty if it needs none."""
        self._hear = progress
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits any more: a tool that runs in a thread may look now and then, and leave off."""
        return self._cancelled

    def progress(self, text: str) -> None:
        """Say how far the work is. From any thread; whoever listens is called in that thread, and at once.

        What is said when nobody waits any more, or when the call has its result, goes nowhere. A listener that raises
        does not disturb the work: that is logged.
        """
        hear = self._hear
        if hear is None:
            return
        try:
            hear(text)
        except Exception:
            log.debug("nobody could be told of the progress of %s", self.call.name, exc_info=True)

    def cancel(self) -> None:
        """Tell the tool that nobody waits any more."""
        self._cancelled = True
        self.close()

    def close(self) -> None:
        """Stop listening: the call has its result."""
        self._hear = None

    def __repr__(self) -> str:
        return f"ToolContext(call={self.call.id!r}, key={self.key!r}, attempt={self.attempt})"


GRACE = 1.0
"""Seconds that an `async` tool has to clean up in when it is cancelled."""

log = logging.getLogger("tenuto")
_left: set[asyncio.Task[Any]] = set()  # a task that nobody holds may vanish before it has ended

End: TypeAlias = Literal["returned", "raised", "cancelled", "late", "left"]


class ExecutionResult(msgspec.Struct, frozen=True, eq=False):
    """How a function ended.

    `returned` a value, `raised` an error, was `cancelled` from within; was too `late` and is over, or was too late and
    is `left` behind, perhaps still at work.
    """

    how: End
    value: Any = None
    error: BaseException | None = None


class ThreadSlot:
    """Where a call runs: `busy` while a thread is at work for it."""

    def __init__(self) -> None:
        self.busy = False


async def run_tool(
    work: Callable[[ThreadSlot], Coroutine[Any, Any, Any]], context: ToolContext, timeout: float | None
) -> ExecutionResult:
    """Run `work` to its end, or to the end of its time; only `CancelledError` is raised, when the caller is cancelled.

    Either way `context` is told, and an `async` function is cancelled and has `GRACE` to clean up in.
    """
    lane = ThreadSlot()
    task = asyncio.create_task(work(lane))
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        context.cancel()
        await _stop(task)
        raise
    if not done:
        context.cancel()
        await _stop(task)
        return ExecutionResult("left" if lane.busy or not task.done() else "late")
    context.close()
    if task.cancelled():
        return ExecutionResult("cancelled")
    error = task.exception()
    return ExecutionResult("returned", task.result()) if error is None else ExecutionResult("raised", error=error)


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    _left.add(task)
    task.add_done_callback(_forget)
    await asyncio.wait({task}, timeout=GRACE)


def _forget(task: asyncio.Task[Any]) -> None:
    _left.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("a tool failed after it was given up", exc_info=error)


async def call_function(work: Callable[..., Any], context: ToolContext, lane: ThreadSlot) -> Any:
    """Call a function of any kind, its arguments bound, and return what it gives in the end.

    What a generator yields is progress, if it is text; what it gives is what it returns, or else the last it yielded.
    """
    try:
        if is_async(work):
            value: Any = work()
        else:
            value = await _in_thread(functools.partial(_called, work, context), context, lane)
        if isinstance(value, Awaitable):
            value = await value
        return await _drained(value, context) if isinstance(value, AsyncGenerator) else value
    except SystemExit as exc:  # asyncio would end the whole program with it
        raise RuntimeError(f"the tool wanted to end the program (SystemExit: {exc.code})") from exc


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if calling a function runs nothing yet: it returns a coroutine or an async generator."""
    while isinstance(function, functools.partial):
        function = function.func
    return any(
        test(found)
        for found in (function, type(function).__call__)
        for test in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    )


async def _drained(items: AsyncGenerator[Any, None], context: ToolContext) -> Any:
    last = None
    async with contextlib.aclosing(items):
        async for last in items:
            _tell(last, context)
    return last


def _tell(item: Any, context: ToolContext) -> None:
    if isinstance(item, str):
        context.progress(item)


# --- threads ----------------------------------------------------------------------------------------------------------


def _called(work: Callable[[], Any], context: ToolContext) -> Any:
    value = work()
    return _exhausted(value, context) if isinstance(value, Generator) else value


def _exhausted(items: Generator[Any, None, Any], context: ToolContext) -> Any:
    last = None
    with contextlib.closing(items):
        while not context.cancelled:
            try:
                last = next(items)
            except StopIteration as end:
                return last if end.value is None else end.value
            _tell(last, context)
    return last


async def _in_thread(work: Callable[[], Any], context: ToolContext, lane: ThreadSlot) -> Any:
    """Run `work` in a thread of its own, with the caller's context variables."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def deliver(value: Any, error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result((value, error))

    def body() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as exc:
            if context.cancelled:
                log.debug("a tool failed after it was given up", exc_info=True)
            error = exc
        lane.busy = False
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now: then nobody waits
            loop.call_soon_threadsafe(deliver, value, error)

    lane.busy = True
    name = f"tenuto-tool-{context.call.name}"
    threading.Thread(target=contextvars.copy_context().run, args=(body,), name=name, daemon=True).start()
    value, error = await ended
    if error is not None:
        raise error
    return value
