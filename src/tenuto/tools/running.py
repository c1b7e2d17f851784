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

from tenuto.tools.context import ToolContext

__all__ = ["GRACE", "End", "Ended", "Lane", "perform", "value_of"]

GRACE = 1.0
"""Seconds that an `async` tool has to clean up in when it is cancelled."""

log = logging.getLogger("tenuto")
_left: set[asyncio.Task[Any]] = set()  # a task that nobody holds may vanish before it has ended

End: TypeAlias = Literal["returned", "raised", "cancelled", "late", "left"]


class Ended(msgspec.Struct, frozen=True, eq=False):
    """How a function ended.

    `returned` a value, `raised` an error, was `cancelled` from within; was too `late` and is over, or was too late and
    is `left` behind, perhaps still at work.
    """

    how: End
    value: Any = None
    error: BaseException | None = None


class Lane:
    """Where a call runs: `busy` while a thread is at work for it."""

    def __init__(self) -> None:
        self.busy = False


async def perform(
    work: Callable[[Lane], Coroutine[Any, Any, Any]], context: ToolContext, timeout: float | None
) -> Ended:
    """Run `work` to its end, or to the end of its time; only `CancelledError` is raised, when the caller is cancelled.

    Either way `context` is told, and an `async` function is cancelled and has `GRACE` to clean up in.
    """
    lane = Lane()
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
        return Ended("left" if lane.busy or not task.done() else "late")
    context.close()
    if task.cancelled():
        return Ended("cancelled")
    error = task.exception()
    return Ended("returned", task.result()) if error is None else Ended("raised", error=error)


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    _left.add(task)
    task.add_done_callback(_forget)
    await asyncio.wait({task}, timeout=GRACE)


def _forget(task: asyncio.Task[Any]) -> None:
    _left.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("a tool failed after it was given up", exc_info=error)


async def value_of(work: Callable[..., Any], context: ToolContext, lane: Lane) -> Any:
    """Call a function of any kind, its arguments bound, and return what it gives in the end.

    What a generator yields is progress, if it is text; what it gives is what it returns, or else the last it yielded.
    """
    try:
        if _is_async(work):
            value: Any = work()
        else:
            value = await _in_thread(functools.partial(_called, work, context), context, lane)
        if isinstance(value, AsyncGenerator):
            return await _drained(value, context)
        return await value if isinstance(value, Awaitable) else value
    except SystemExit as exc:  # asyncio would end the whole program with it
        raise RuntimeError(f"the tool wanted to end the program (SystemExit: {exc.code})") from exc


def _is_async(function: Callable[..., Any]) -> bool:
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


async def _in_thread(work: Callable[[], Any], context: ToolContext, lane: Lane) -> Any:
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
