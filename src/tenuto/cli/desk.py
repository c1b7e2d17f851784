"""The session that a chat talks in, the loop on which it runs, and the signals that ask to leave."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager, redirect_stdout
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

from tenuto.agent.agent import AsyncAgent
from tenuto.agent.events import AgentEvent, ModelChanged
from tenuto.agent.session import AsyncSession
from tenuto.cli.escaping import one_line
from tenuto.cli.losing import loss_line, losses_of
from tenuto.cli.opening import opened
from tenuto.cli.options import Given
from tenuto.cli.policy import Policy
from tenuto.cli.screen import Screen
from tenuto.cli.signals import heeded
from tenuto.core.events import StreamEvent
from tenuto.core.loss import Loss
from tenuto.core.messages import Content, UserMessage

__all__ = ["Desk", "Leave", "Left"]

T = TypeVar("T")
_GRACE = 0.05


class Left(Exception):
    """A signal asked to leave while a line was read."""


class Leave:
    """The signals that ask to leave where no loop hears them: they break off the reading of a line, and nothing else.

    `number` is the one that came; 0 if none did. Ctrl-C is none of them: it breaks off, too, as `KeyboardInterrupt`.

    A signal that comes when a key is about to be waited for would be noticed only with the key: it is sent again, until it
    is noticed.
    """

    def __init__(self) -> None:
        self.number = 0
        self._reading = False
        self._again = False
        self._before: dict[int, Any] = {}

    def read(self, read: Callable[[], T]) -> T:
        """Read a line. Raise `Left` if a signal came, or comes meanwhile."""
        with self._insisting():
            self._reading, self._again = True, False
            try:
                if self.number:
                    raise Left
                return read()
            finally:
                self._reading = False

    def _caught(self, number: int, frame: FrameType | None) -> None:
        del frame
        (reading, again), self._reading, self._again = (self._reading, self._again), False, False
        if number != signal.SIGINT:
            self.number = number
            if reading:
                raise Left
        elif reading or not again:
            raise KeyboardInterrupt

    @contextmanager
    def _insisting(self) -> Iterator[None]:
        if sys.platform == "win32" or not self._before:
            yield
            return
        heard, told = os.pipe()
        os.set_blocking(told, False)
        before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        threading.Thread(target=self._insist, args=(heard,), daemon=True, name="signals").start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            os.close(told)

    def _insist(self, heard: int) -> None:
        main = threading.main_thread().ident or 0
        while number := os.read(heard, 1):
            while self._reading and number[0] in self._before:
                time.sleep(_GRACE)
                if self._reading:
                    self._again = True
                    signal.pthread_kill(main, number[0])
        os.close(heard)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")):
                before = None if number is None else signal.getsignal(number)
                if number is not None and before not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Desk:
    """The session that is talked in, the loop on which it runs, and what the commands may change of both."""

    agent: AsyncAgent
    session: AsyncSession

    def __init__(self, given: Given, screen: Screen, leave: Leave, *, live: bool) -> None:
        self.given = given
        self.screen = screen
        self.leave = leave
        self.attached: list[Content] = []
        self.offered = ""
        self.again = False
        self.over = False
        self.stopped = 0
        """The signal that ended what was last done; 0 if it ended by itself."""
        self.runner = asyncio.Runner()
        self._live = live
        self._stack = AsyncExitStack()
        self._lost: set[str] = set()

    def do(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Run something on the loop. None if a signal ended it."""
        self.stopped = 0
        return self.runner.run(self._heeding(work))

    async def _heeding(self, work: Coroutine[Any, Any, T]) -> T | None:
        task = asyncio.current_task()
        assert task is not None  # coroutines are run by tasks

        def stop(number: int) -> None:
            self.stopped = number
            if number != signal.SIGINT or not self._live:
                self.leave.number = number
            else:
                self.screen.note("stopping; once more leaves at once", "yellow")
            session: AsyncSession | None = getattr(self, "session", None)
            if session is not None:
                session.cancel_local()
            else:
                task.cancel()

        with heeded(stop):
            try:
                return await work
            except asyncio.CancelledError:
                if not self.stopped:
                    raise
                task.uncancel()
                return None

    # --- the session ---

    async def open(self, given: Given) -> None:
        """Open the session that is meant, or begin one."""
        policy = Policy(given.get("allow", ()), given.get("deny", ()))
        approve = policy.approver(given.get("approve", "ask"), self.screen)
        heard: list[StreamEvent | AgentEvent] = []
        with redirect_stdout(sys.stderr):  # what a tool of the user's prints is not the answer
            found = await self._stack.enter_async_context(opened(given, approve, tell=heard.append, asks=False))
        self.agent, self.session = found
        self.given = self._going_on(given)
        self._lost |= set(map(loss_line, losses_of(await self.session.entries())))
        for event in heard:
            if isinstance(event, ModelChanged):
                self.screen.note(f"goes on with {one_line(event.model, 80)}")
                self.tell_lost(event.losses, again=True)

    async def close(self) -> None:
        """Let go of everything."""
        await self._stack.aclose()

    async def moved(self, session: AsyncSession) -> None:
        """Go on in another session; this one is let go of."""
        before, self.session = self.session, session
        await before.close()

    async def reopened(self, given: Given) -> None:
        """Open the session anew, with other settings; if that fails, it is open as before."""
        before = self._going_on(self.given)
        await self.close()
        self.over = True  # unless one of the two can be opened
        try:
            await self.open(self._going_on(given))
        except BaseException:
            await self.open(before)
            raise
        finally:
            self.over = self.agent.closed

    def _going_on(self, given: Given) -> Given:
        """Return what opens the session again, once something was said in it: who is asked, and its name, are its own."""
        if self.session.is_new:
            return given
        return {**given, "session": self.session.id, "take": False, "model": None, "name": None}

    async def name(self) -> None:
        """Name a new session as the user has chosen, once it has an entry."""
        name = self.given.get("name")
        if name and not self.given.get("session") and not self.session.is_new:
            self.given = self._going_on(self.given)
            try:
                await self.agent.store.rename(self.session.id, name)
            except ValueError as exc:  # somebody was quicker
                self.screen.say(f"the session has no name: {exc}", "yellow")

    def tell_lost(self, losses: Iterable[Loss], *, again: bool = False) -> None:
        """Tell what was lost; what was told before only if it is to be told again."""
        for line in dict.fromkeys(map(loss_line, losses)):
            if again or line not in self._lost:
                self.screen.note(f"lost: {line}", "yellow")
            self._lost.add(line)

    def said_last(self) -> UserMessage | None:
        """What the user said last."""
        spoken = (one for one in reversed(self.session.transcript.messages) if isinstance(one, UserMessage))
        return next(spoken, None)
