"""A loop in the background, for code that does not await.

Any thread may run coroutines on it, also one whose own loop is running. It ends with its client: closed, forgotten, or at
the end of the program. A process that was forked off gets a loop of its own.
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

__all__ = ["CANCEL_GRACE", "POLL", "BackgroundLoop", "Submitted", "waited"]

T = TypeVar("T")
POLL = 0.2 if sys.platform == "win32" else None
"""A wait without end cannot be interrupted by Ctrl-C on Windows: there, waits are cut into pieces."""
CANCEL_GRACE = 5.0
"""How long a cancelled coroutine may take to let go of its line."""
_OWN_END = 1.0
"""How long a call may take to fail by itself when its client is closed."""


class _ExitCarrier(Exception):
    """Carries what would end the loop's thread to whoever called: it is meant for him."""

    def __init__(self, left: BaseException) -> None:
        self.left = left


async def _wrap_exit(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as exc:
        raise _ExitCarrier(exc) from None


class Submitted(Generic[T]):
    """A coroutine that runs on the loop. Its future is done when the coroutine has really ended, cancelled or not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self.future: Future[T] = Future()
        loop.call_soon_threadsafe(self._begin, copy_context())

    def cancel(self) -> None:
        """Ask it to end."""
        with suppress(RuntimeError):  # the loop is closed, and so it has ended
            self._loop.call_soon_threadsafe(self._cancel)

    def drop(self) -> None:
        """Its loop has ended: nothing will come of it any more."""
        with suppress(InvalidStateError):
            self.future.set_exception(CancelledError())
        if self._task is None:
            self._coroutine.close()

    def _begin(self, context: Context) -> None:
        if self.future.done():
            self._coroutine.close()
            return
        self._task = self._loop.create_task(_wrap_exit(self._coroutine), context=context)
        self._task.add_done_callback(self._ended)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        error = CancelledError() if task.cancelled() else task.exception()
        with suppress(InvalidStateError):  # nobody waits for it any more
            if error is None:
                self.future.set_result(task.result())
            else:
                self.future.set_exception(error.left if isinstance(error, _ExitCarrier) else error)


class BackgroundLoop:
    """A loop in a thread, started by the first coroutine that is run on it. `last` is what is to be run at its end.

    `whose` names who has it in what is said of it. `strict`: to forget to close it is worth a warning.
    """

    def __init__(
        self, last: Callable[[], Coroutine[Any, Any, None]], *, whose: str = "Client", strict: bool = True
    ) -> None:
        self._last = last
        self._whose = whose
        self._strict = strict
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._forgotten: weakref.finalize[Any, Any] | None = None
        self._live: dict[int, Submitted[Any]] = {}
        self._trouble: list[BaseException] = []
        self.closed = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return what it gives.

        An interrupt cancels it, and is raised when it has ended; a second one is raised at once.
        """
        running = self.start(coroutine)
        try:
            return waited(running.future)
        except CancelledError:
            if self.closed:
                raise self.gone() from None
            raise
        except BaseException:
            if not running.future.done():
                running.cancel()
                wait((running.future,), CANCEL_GRACE)
            raise

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Submitted[T]:
        """Run a coroutine in the background."""
        if self._thread is threading.current_thread():
            coroutine.close()
            whose = self._whose
            raise RuntimeError(f"the {whose.lower()} was called from inside its own work: use Async{whose} there")
        with self._lock:
            if self.closed:
                coroutine.close()
                raise ClosedError(f"the {self._whose.lower()} is closed")
            running = Submitted(self._running_loop(), coroutine)
            self._live[id(running)] = running
        live, key = self._live, id(running)  # and nothing else, so that who forgets the client forgets all of it
        running.future.add_done_callback(lambda _: live.pop(key, None))
        return running

    def is_own_thread(self) -> bool:
        """Whether the caller runs in the loop's thread, which must not wait for the loop."""
        return self._thread is threading.current_thread()

    def soon(self, act: Callable[[], object]) -> None:
        """Have something done on the loop."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(act)

    def gone(self) -> ConnectionFailed:
        """Say why a call ended that nobody cancelled."""
        return ConnectionFailed(f"the {self._whose.lower()} was closed", retryable=False)

    def close(self) -> None:
        """Run the last coroutine, stop the loop and wait for its thread. Calls that are under way fail.

        Raise what the last coroutine raised.
        """
        with self._lock:
            self.closed = True
        if self._forgotten is not None and self._forgotten.detach() is not None:
            _stop(self._loop)  # once: a second time would stop what is done at the end
        thread = self._thread
        if thread is None or self._pid != os.getpid() or thread is threading.current_thread():
            return
        thread.join(CANCEL_GRACE)
        if not thread.is_alive():
            for running in tuple(self._live.values()):
                running.drop()
        if self._trouble:
            raise self._trouble.pop()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop; it is made anew in a process that was forked off, where no thread survives."""
        if self._loop is None or self._pid != os.getpid():
            loop = asyncio.new_event_loop()
            work = (loop, self._last, self._trouble)
            thread = threading.Thread(target=_serve, args=work, name="tenuto", daemon=True)
            thread.start()
            self._loop, self._thread, self._pid = loop, thread, os.getpid()
            self._live.clear()
            self._forgotten = weakref.finalize(
                self, _forgot, loop, thread, os.getpid(), self._whose if self._strict else ""
            )
        return self._loop


def waited(future: Future[T]) -> T:
    """Wait for a future, in a way that an interrupt can end."""
    while True:
        try:
            return future.result(POLL)
        except TimeoutError:
            if future.done():
                raise


def _serve(
    loop: asyncio.AbstractEventLoop, last: Callable[[], Coroutine[Any, Any, None]], trouble: list[BaseException]
) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        trouble += loop.run_until_complete(_wound_up(last))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _wound_up(last: Callable[[], Coroutine[Any, Any, None]]) -> list[BaseException]:
    """Run the last coroutine; then what is under way may end by itself, and is cancelled if it does not.

    Return what the last coroutine raised.
    """
    ended = await asyncio.gather(last(), return_exceptions=True)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=_OWN_END)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return [error for error in ended if isinstance(error, BaseException)]


def _stop(loop: asyncio.AbstractEventLoop | None) -> None:
    if loop is not None:
        with suppress(RuntimeError):  # it is closed
            loop.call_soon_threadsafe(loop.stop)


def _forgot(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int, whose: str) -> None:
    if pid != os.getpid():
        return
    try:
        if whose:
            warnings.warn(f"a {whose} was not closed", ResourceWarning, stacklevel=2)
    finally:
        _stop(loop)
        if thread is not threading.current_thread():
            thread.join(CANCEL_GRACE)
