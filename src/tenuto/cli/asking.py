"""What `run` and `resume` share: an agent is made, its session runs, and the end is told."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import redirect_stdout
from typing import Any

from tenuto.agent.agent import AsyncAgent
from tenuto.agent.events import AgentEvent, ModelChanged, SubAgentEvent, ToolFinished
from tenuto.agent.limits import TOO_MANY
from tenuto.agent.session import AsyncSession
from tenuto.cli.approving import Approver
from tenuto.cli.choosing import chosen
from tenuto.cli.ending import Ending, ended
from tenuto.cli.opening import opened
from tenuto.cli.options import Given
from tenuto.cli.out_file import OutFile
from tenuto.cli.policy import Policy
from tenuto.cli.render import View
from tenuto.cli.screen import Screen, looks
from tenuto.cli.signals import heeded
from tenuto.cli.streaming import Lines
from tenuto.core.events import ContentDelta, StreamEvent, TextDelta
from tenuto.core.messages import UserMessage, user
from tenuto.errors import RunCancelled, TenutoError

__all__ = ["conduct"]

_BEAT = 0.1


def conduct(given: Given, said: UserMessage | None) -> int:
    """Begin a session, or go on with one if `given` names it; return the exit code."""
    out = OutFile(named) if (named := given.get("out") or "-") != "-" else None
    quiet = given.get("quiet", False) or given.get("json", False) or given.get("jsonl", False)
    how = looks(given.get("color", "auto"), quiet=quiet)
    screen = Screen(how if out is None else how._replace(out_live=False, out_drawn=False))
    note = ""
    if not given.get("session"):
        given["model"], note = chosen(given.get("model"))
    with redirect_stdout(sys.stderr):  # what a tool of the user's prints is not the answer
        return asyncio.run(_Run(given, said, screen, out=out, note=note).whole())


class _Run:
    """One call of the command."""

    def __init__(
        self, given: Given, said: UserMessage | None, screen: Screen, *, out: OutFile | None, note: str
    ) -> None:
        self._given = given
        self._said = said
        self._screen = screen
        self._out = out
        self._note = note
        self._session: AsyncSession | None = None
        self._task: asyncio.Task[Any] | None = None
        self._signal = 0
        self._approver: Approver | None = None

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
        if self._session is not None:
            self._session.cancel_local()
        elif self._task is not None:
            self._task.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            self._screen.tick()

    # --- the way through ---

    async def _worked(self) -> int:
        given = self._given
        policy = Policy(given.get("allow", ()), given.get("deny", ()))
        self._approver = policy.approver(given.get("approve", "ask"), self._screen)
        early: list[StreamEvent | AgentEvent] = []
        async with opened(given, self._approver, tell=early.append, asks=self._said is not None) as (agent, session):
            self._session = session
            ending = Ending(session, given, out=self._out, signal=self._signal)
            self._shape(ending)
            heard = _Heard(self._screen, ending)
            if self._note:  # once nothing else is wrong
                self._screen.note(self._note, "dim")
            for event in early:
                heard.hear(event)
            if self._said is None and not session.has_pending_work:
                ending.said_before = True
            elif self._said is None and session.status == "waiting" and session.pending and self._approver is None:
                pass  # nobody can be asked, so nothing would come of it
            else:
                begun = time.monotonic()
                ending.error = await self._went_on(agent, session, heard)
                ending.seconds = time.monotonic() - begun
                ending.signal = self._signal
            return await ended(ending, self._screen)

    def _shape(self, ending: Ending) -> None:
        """Find out what shape the answer is to have; a session that was begun without it is told in words."""
        named = self._given.get("schema")
        if not named:
            return
        from tenuto.cli.schema_file import Shape  # it loads what checks a schema

        ending.shape = Shape(named, ending.session._effective_config())
        if ending.shape.words and self._said is not None:
            self._said = user(*self._said.parts, ending.shape.words)

    async def _went_on(self, agent: AsyncAgent, session: AsyncSession, heard: _Heard) -> TenutoError | None:
        """Run the session; return what ended it, unless it ended by itself."""
        unnamed = "" if self._given.get("session") else self._given.get("name") or ""
        try:
            async with session.stream(self._said) as run:
                async for event in run:
                    if unnamed and not session.is_new:  # a session can be named once it has an entry
                        await self._name(agent, session, unnamed)
                        unnamed = ""
                    heard.hear(event)
        except TenutoError as exc:
            return exc
        except asyncio.CancelledError:
            if not self._signal or self._task is None:
                raise
            self._task.uncancel()  # the signal came before the run had begun
            return RunCancelled("the run was cancelled before it began")
        finally:
            self._screen.status("")
            self._screen.end_line()
        return None

    async def _name(self, agent: AsyncAgent, session: AsyncSession, name: str) -> None:
        try:
            await agent.store.rename(session.id, name)
        except ValueError as exc:  # somebody was quicker
            self._screen.say(f"the session has no name: {exc}", "yellow")


class _Heard:
    """Everything that happens in a run: shown, or written as lines; and what was denied is remembered."""

    def __init__(self, screen: Screen, ending: Ending) -> None:
        given, session = ending.given, ending.session
        thinking = not given.get("hide_thinking", False)
        self._ending = ending
        self._view = View(screen, session.model, thinking=thinking)
        if given.get("jsonl"):
            ending.lines = Lines(screen, session.id, thinking=thinking)

    def hear(self, event: StreamEvent | AgentEvent) -> None:
        """Take note of an event."""
        inner = event
        while isinstance(inner, SubAgentEvent):
            inner = inner.event
        if isinstance(inner, ModelChanged):
            self._ending.fresh.update(inner.losses)
        if isinstance(inner, ToolFinished) and inner.outcome == "denied" and inner.detail != TOO_MANY:
            self._ending.denied.append(inner.call)
        if self._ending.lines is not None:
            self._ending.lines.hear(event)
        elif self._ending.shape is None or not _is_text(event):  # what is to be JSON is shown once it is whole
            self._view.hear(event)


def _is_text(event: StreamEvent | AgentEvent) -> bool:
    return isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta)
