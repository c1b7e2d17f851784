"""An event loop in a background thread, for code that does not await.

Any thread may run coroutines on it, also a thread with a running loop. It ends when its owner is closed or garbage
collected, or at the end of the program. A forked process gets its own loop.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, InvalidStateError, wait
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Generic, TypeVar

from tenuto.errors import ClosedError, ConnectionFailed

T = TypeVar("T")
POLL = 0.2 if sys.platform == "win32" else None
"""Windows: Ctrl-C does not interrupt a wait without a timeout, so waits are repeated."""
CANCEL_GRACE = 5.0
"""Seconds that a cancelled coroutine may take to close its connection."""
_CLOSE_GRACE = 1.0
"""Seconds that a call may take to end by itself when its client is closed."""


class _ExitCarrier(Exception):
    """Wrap SystemExit or KeyboardInterrupt, so that it reaches the calling thread and does not end the loop."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def _wrap_exit(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as exc:
        raise _ExitCarrier(exc) from None


class Submitted(Generic[T]):
    """A coroutine on the loop. Its future is done when the coroutine has really ended, also if it was cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self.future: Future[T] = Future()
        loop.call_soon_threadsafe(self._start, copy_context())

    def cancel(self) -> None:
        """Cancel the coroutine. Do not wait for its end."""
        with suppress(RuntimeError):  # the loop is closed, so the coroutine has ended
            self._loop.call_soon_threadsafe(lambda: self._task is not None and self._task.cancel())

    def abandon(self) -> None:
        """End the future of a coroutine whose loop has ended."""
        with suppress(InvalidStateError):
            self.future.set_exception(CancelledError())
        if self._task is None:
            self._coroutine.close()

    def _start(self, context: Context) -> None:
        if self.future.done():
            self._coroutine.close()
            return
        self._task = self._loop.create_task(_wrap_exit(self._coroutine), context=context)
        self._task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[T]) -> None:
        error = CancelledError() if task.cancelled() else task.exception()
        with suppress(InvalidStateError):  # abandoned
            if error is None:
                self.future.set_result(task.result())
            else:
                self.future.set_exception(error.error if isinstance(error, _ExitCarrier) else error)


class BackgroundLoop:
    """An event loop in a thread, which the first coroutine starts.

    `close_owner` is the last coroutine on the loop. `owner` is the class name in messages. `warn`: warn if the owner was
    not closed.
    """

    def __init__(
        self, close_owner: Callable[[], Coroutine[Any, Any, None]], *, owner: str = "Client", warn: bool = True
    ) -> None:
        self._close_owner = close_owner
        self._owner = owner
        self._warn = warn
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self._live: dict[int, Submitted[Any]] = {}
        self._close_errors: list[BaseException] = []
        self.closed = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result.

        An interrupt cancels the coroutine and is raised after it has ended; a second interrupt is raised at once.
        """
        submitted = self.submit(coroutine)
        try:
            return wait_for_result(submitted.future)
        except CancelledError:
            if self.closed:
                raise self.closed_error() from None
            raise
        except BaseException:
            if not submitted.future.done():
                submitted.cancel()
                wait((submitted.future,), CANCEL_GRACE)
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Submitted[T]:
        """Run a coroutine in the background."""
        owner = self._owner
        if self.is_own_thread():
            coroutine.close()
            raise RuntimeError(f"this code runs on the loop of the {owner.lower()}: use Async{owner} in it")
        with self._lock:
            if self.closed:
                coroutine.close()
                raise ClosedError(f"the {owner.lower()} is closed")
            submitted = Submitted(self._running_loop(), coroutine)
            self._live[id(submitted)] = submitted
        live, key = self._live, id(submitted)  # the callback must not refer to self, which is closed when collected
        submitted.future.add_done_callback(lambda _: live.pop(key, None))
        return submitted

    def is_own_thread(self) -> bool:
        """Tell whether the caller runs in the thread of the loop, which must not wait for the loop."""
        return self._thread is threading.current_thread()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop, if it runs."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(function)

    def closed_error(self) -> ConnectionFailed:
        """Return the error of a call that ended because the owner was closed."""
        return ConnectionFailed(f"the {self._owner.lower()} was closed", retryable=False)

    def close(self) -> None:
        """Close the owner, stop the loop and wait for its thread. Running calls fail.

        Raise the error of the close.
        """
        with self._lock:
            self.closed = True
        if self._finalizer is not None and self._finalizer.detach() is not None:
            _stop(self._loop)  # only once: a second stop would interrupt the close
        thread = self._thread
        if thread is None or self._pid != os.getpid() or self.is_own_thread():
            return
        thread.join(CANCEL_GRACE)
        if not thread.is_alive():
            for submitted in tuple(self._live.values()):
                submitted.abandon()
        if self._close_errors:
            raise self._close_errors.pop()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop. A forked process has no threads of its parent and starts a new loop."""
        pid = os.getpid()
        if self._loop is None or self._pid != pid:
            loop = asyncio.new_event_loop()
            arguments = (loop, self._close_owner, self._close_errors)
            thread = threading.Thread(target=_run_loop, args=arguments, name="tenuto", daemon=True)
            thread.start()
            self._loop, self._thread, self._pid = loop, thread, pid
            self._live.clear()
            self._finalizer = weakref.finalize(
                self, _on_collected, loop, thread, pid, self._owner if self._warn else ""
            )
        return self._loop


def wait_for_result(future: Future[T]) -> T:
    """Wait for a future in a way that Ctrl-C can interrupt."""
    while True:
        try:
            return future.result(POLL)
        except TimeoutError:
            if future.done():
                raise


def _run_loop(
    loop: asyncio.AbstractEventLoop, close_owner: Callable[[], Coroutine[Any, Any, None]], errors: list[BaseException]
) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_close_all(close_owner, errors))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _close_all(close_owner: Callable[[], Coroutine[Any, Any, None]], errors: list[BaseException]) -> None:
    """Close the owner and add its error to `errors`. Running tasks may then end by themselves, or are cancelled."""
    results = await asyncio.gather(close_owner(), return_exceptions=True)
    errors += [result for result in results if isinstance(result, BaseException)]
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        _, tasks = await asyncio.wait(tasks, timeout=_CLOSE_GRACE)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _stop(loop: asyncio.AbstractEventLoop | None) -> None:
    if loop is not None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(loop.stop)


def _on_collected(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int, owner: str) -> None:
    """Stop the loop of an owner that was not closed. `owner` is empty if no warning is wanted."""
    if pid != os.getpid():
        return
    try:
        if owner:
            warnings.warn(f"a {owner} was not closed", ResourceWarning, stacklevel=2)
    finally:
        _stop(loop)
        if thread is not threading.current_thread():
            thread.join(CANCEL_GRACE)
