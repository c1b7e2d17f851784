"""What `run` and `resume` share: an agent is made, its session runs, and the end is told."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from typing import Any

import click

from tenuto import settings
from tenuto.agent.agent import AsyncAgent
from tenuto.agent.limits import Limits
from tenuto.agent.session import AsyncSession
from tenuto.asking import configured_after
from tenuto.cli.approving import Approver, NoWord, approver
from tenuto.cli.belt import kept_tools, tools_of
from tenuto.cli.ending import Ending, ended
from tenuto.cli.options import Given
from tenuto.cli.reading import found, is_missing
from tenuto.cli.render import View
from tenuto.cli.screen import Screen, looks
from tenuto.cli.signals import heeded
from tenuto.core.journal import Configured, Entry
from tenuto.core.messages import UserMessage
from tenuto.errors import LLMError, RunCancelled, SessionNotFound, TenutoError
from tenuto.store.opening import open_store
from tenuto.store.protocol import Store
from tenuto.tools.toolbox import AnyTool

__all__ = ["conduct"]

_BEAT = 0.1


def conduct(given: Given, said: UserMessage | None) -> int:
    """Begin a session, or go on with one if `given` names it; return the exit code."""
    screen = Screen(looks(given.get("color", "auto"), quiet=given.get("quiet", False) or given.get("json", False)))
    with redirect_stdout(sys.stderr):  # what a tool of the user's prints is not the answer
        return asyncio.run(_Run(given, said, screen).whole())


class _Run:
    """One call of the command."""

    def __init__(self, given: Given, said: UserMessage | None, screen: Screen) -> None:
        self._given = given
        self._said = said
        self._screen = screen
        self._session: AsyncSession | None = None
        self._task: asyncio.Task[Any] | None = None
        self._signal = 0
        self._approver: Approver | None = None
        self._place = given.get("store") or settings.store()

    async def whole(self) -> int:
        """Do all of it, and return the exit code."""
        self._task = asyncio.current_task()
        beat = asyncio.create_task(self._beat())
        try:
            with heeded(self._stop):
                return await self._worked()
        except asyncio.CancelledError:
            if not self._signal:
                raise
            return 128 + self._signal
        finally:
            beat.cancel()
            self._screen.clear()

    def _stop(self, number: int) -> None:
        """The first signal: end the run and write that down."""
        self._signal = number
        if number == signal.SIGINT:
            self._screen.note("stopping; once more leaves at once", "yellow")
        if self._session is not None and not self._session.idle:
            self._session.cancel()
        elif self._task is not None:
            self._task.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            self._screen.tick()

    # --- the way through ---

    async def _worked(self) -> int:
        self._approver = approver(self._given.get("approve", "ask"), self._screen)
        try:
            store = open_store(self._place)
        except ValueError as exc:
            raise click.UsageError(f"--store: {exc}") from None
        async with store, self._opened(store) as session:
            self._session = session
            ending = Ending(session, self._given, signal=self._signal)
            if self._said is None and not session.owes:
                ending.said_before = True
            elif self._said is None and session.status == "waiting" and session.pending and self._approver is None:
                pass  # nobody can be asked, so nothing would come of it
            else:
                ending.error = await self._went_on(session)
                ending.signal = self._signal
            return await ended(ending, self._screen)

    async def _went_on(self, session: AsyncSession) -> TenutoError | None:
        """Run the session; return what ended it, unless it ended by itself."""
        view = View(self._screen, session.model, thinking=not self._given.get("hide_thinking", False))
        try:
            async with session.stream(self._said) as run:
                async for event in run:
                    view.hear(event)
        except TenutoError as exc:
            return exc
        except NoWord:  # whoever was asked is gone: the call waits
            return None
        except asyncio.CancelledError:
            if not self._signal or self._task is None:
                raise
            self._task.uncancel()  # the signal came before the run had begun
            return RunCancelled("the run was cancelled before it began")
        finally:
            self._screen.status("")
            self._screen.end_line()
        return None

    # --- who is asked ---

    @asynccontextmanager
    async def _opened(self, store: Store) -> AsyncIterator[AsyncSession]:
        named = self._given.get("session", "")
        given = tools_of(self._given.get("tool", ()), self._given.get("root", "."))
        if not named:
            async with self._agent(store, None, given) as agent:
                yield agent.session()
            return
        if is_missing(self._place):  # nothing is made where there is nothing to find
            raise SessionNotFound(f"no session is called {named[:80]!r}: there are none yet")
        id = await found(store, named)
        kept = _kept(await store.read(id))
        tools = kept_tools(kept, given, self._given.get("root", "."))
        async with self._agent(store, kept, tools) as agent:
            yield await agent.resume(id, take=self._given.get("take", False))

    def _agent(self, store: Store, kept: Configured | None, tools: Sequence[AnyTool]) -> AsyncAgent:
        """Make the agent; what it does not take was typed, and so it is a matter of usage."""
        asked: dict[str, Any] = {
            "system": self._given.get("system") or "",
            "effort": self._given.get("effort"),
            "max_tokens": self._given.get("max_tokens"),
        }
        model = self._given.get("model") or ""
        if kept is not None:
            asked, model = {"continuity": kept.continuity, "name": kept.agent}, kept.model
        options = {name: value for name, value in asked.items() if value}
        try:
            return AsyncAgent(model, store=store, tools=tools, limits=self._limits(), approve=self._approver, **options)
        except (TypeError, ValueError) as exc:
            raise click.UsageError(str(exc)) from None
        except LLMError as exc:
            raise click.UsageError(f"{exc}, such as sim/anthropic") from None

    def _limits(self) -> Limits:
        given = self._given
        bounds: dict[str, Any] = {
            "turns": given.get("max_turns"),
            "tokens": given.get("max_tokens_total"),
            "usd": given.get("max_usd"),
            "seconds": given.get("timeout"),
        }
        return Limits(**{name: value for name, value in bounds.items() if value is not None})


def _kept(entries: Sequence[Entry]) -> Configured | None:
    """What a session asks with, as far as it is written."""
    kept: Configured | None = None
    for entry in entries:
        kept = configured_after(kept, entry.act)
    return kept
