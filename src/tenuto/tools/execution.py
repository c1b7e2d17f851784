"""Run a function that may block, be awaited, or take too long.

A function that is not `async` gets its own daemon thread: the threads of a pool are awaited at exit, and a few tools that
block would delay all others. A thread cannot be stopped. After its timeout, its result is ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Generic

from tenuto.core.messages import ToolCallView

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")

GRACE = 1.0
"""Seconds that an `async` tool has for cleaning up when it is cancelled."""

log = logging.getLogger("tenuto")
_stopping: set[asyncio.Task[Any]] = set()  # asyncio has only weak references to tasks


class ToolContext(Generic[Deps]):
    """The call that a tool runs for. A parameter annotated with `ToolContext` or `ToolContext[Deps]` receives it.

    `key`: the same for every attempt of this call, different for every other call. A tool with the effect `keyed` passes
    it to the system that does the work, which does the work for each key once. The default is the id of the call.
    `attempt`: counts from 1.
    `session`: the id of the session, or empty.
    `fence`: grows with each holder of the session. A system that refuses smaller numbers than it has seen is safe from a
    process that has lost the session without noticing.
    `root`: the directory that the tool works in; empty if it needs none. The toolbox sets it.
    `deps`: the dependencies of the run, as the caller of the agent passed them: a database, a client, the user.
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
        deps: Deps | None = None,
    ) -> None:
        self.call = call
        self.key = key or call.id
        self.attempt = attempt
        self.session = session
        self.fence = fence
        self.root = ""
        self.deps: Deps = deps  # type: ignore[assignment]  # None if the run has no dependencies
        self._listener = progress
        self._cancelled = False
        self._in_thread = False

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer awaited. A tool in a thread should check it and stop."""
        return self._cancelled

    def progress(self, text: str) -> None:
        """Report progress, from any thread. The listener is called at once in that thread.

        After the end of the call, progress is ignored. Exceptions in the listener are logged and ignored.
        """
        listener = self._listener
        try:
            if listener is not None:
                listener(text)
        except Exception:
            log.debug("the progress listener of %s raised", self.call.name, exc_info=True)

    def __repr__(self) -> str:
        return f"ToolContext(call={self.call.id!r}, key={self.key!r}, attempt={self.attempt})"


async def stop_task(task: asyncio.Task[Any], context: ToolContext[Any]) -> None:
    """Cancel the task of a tool, tell a tool in a thread, and wait `GRACE` seconds."""
    context._cancelled = True
    context._listener = None
    task.cancel()
    _stopping.add(task)
    task.add_done_callback(_log_late_error)
    await asyncio.wait({task}, timeout=GRACE)


def _log_late_error(task: asyncio.Task[Any]) -> None:
    _stopping.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("a tool raised after its timeout or cancellation", exc_info=error)


async def call_function(function: Callable[[], Any], context: ToolContext[Any]) -> Any:
    """Call a function of any kind and return its result.

    Text that a generator yields is progress. Its result is the value it returns, or else the last value it yielded.
    """
    try:
        value = function() if is_async(function) else await _call_in_thread(function, context)
        if isinstance(value, Awaitable):
            value = await value
        if not isinstance(value, AsyncGenerator):
            return value
        last = None
        async with contextlib.aclosing(value):
            async for last in value:
                if isinstance(last, str):
                    context.progress(last)
        return last
    except SystemExit as exc:  # asyncio would end the whole process
        raise RuntimeError(f"the tool called sys.exit({exc.code!r})") from exc


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if a call of the function only creates a coroutine or an async generator."""
    while isinstance(function, functools.partial):
        function = function.func
    return any(
        test(each)
        for each in (function, type(function).__call__)
        for test in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    )


def _call(function: Callable[[], Any], context: ToolContext[Any]) -> Any:
    """Call a function; iterate over a generator until it ends or the call is cancelled."""
    value = function()
    if not isinstance(value, Generator):
        return value
    last = None
    with contextlib.closing(value):
        while not context.cancelled:
            try:
                last = next(value)
            except StopIteration as end:
                return last if end.value is None else end.value
            if isinstance(last, str):
                context.progress(last)
    return last


async def _call_in_thread(function: Callable[[], Any], context: ToolContext[Any]) -> Any:
    """Call a function in a new thread with the context variables of this task."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def deliver(value: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = _call(function, context)
        except BaseException as exc:
            if context.cancelled:
                log.debug("a tool raised after its timeout or cancellation", exc_info=True)
            error = exc
        context._in_thread = False
        with contextlib.suppress(RuntimeError):  # the loop is closed: the result is no longer awaited
            loop.call_soon_threadsafe(deliver, value, error)

    context._in_thread = True
    name = f"tenuto-tool-{context.call.name}"
    threading.Thread(target=contextvars.copy_context().run, args=(run,), name=name, daemon=True).start()
    value, error = await future
    if error is not None:
        raise error
    return value
