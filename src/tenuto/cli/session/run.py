"""Run one turn of a session: what `tenuto run` and `tenuto resume` share."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

from tenuto.agent.agent import AsyncAgent
from tenuto.agent.events import AgentEvent, ModelChanged, SubAgentEvent, ToolFinished
from tenuto.agent.limits import TOO_MANY
from tenuto.agent.session import AsyncSession
from tenuto.cli.files import OutputFile
from tenuto.cli.options import RunOptions
from tenuto.cli.session.approval import Approver
from tenuto.cli.session.events import EventPrinter
from tenuto.cli.session.jsonl import JsonlWriter
from tenuto.cli.session.models import default_model
from tenuto.cli.session.open import open_session
from tenuto.cli.session.policy import Policy
from tenuto.cli.session.result import RunResult, report_result
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.output import detect_terminal
from tenuto.core.events import ContentDelta, StreamEvent, TextDelta
from tenuto.core.messages import UserMessage, user
from tenuto.errors import RunCancelled, TenutoError

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


@contextmanager
def handle_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` in the event loop at the first signal that ends the process; exit at the second."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can set signal handlers
        return
    loop = asyncio.get_running_loop()
    told: list[int] = []

    def tell(number: int) -> None:
        if told:
            os._exit(128 + number)
        told.append(number)
        stop(number)

    def caught(number: int, _: object) -> None:
        """Windows: the loop has no signal handlers, and this wakes it up."""
        if told:
            os._exit(128 + number)
        loop.call_soon_threadsafe(tell, number)

    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:  # `nohup` and shells may have ignored a signal
        try:
            loop.add_signal_handler(number, tell, number)
        except NotImplementedError:
            signal.signal(number, caught)
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, handler)


_TICK = 0.1


def run_once(options: RunOptions, said: UserMessage | None) -> int:
    """Send a message to a new session or to the one that `options` name; return the exit code."""
    out = OutputFile(named) if (named := options.out or "-") != "-" else None
    quiet = options.quiet or options.json or options.jsonl
    how = detect_terminal(options.color, quiet=quiet)
    display = Display(how if out is None else how._replace(is_out_terminal=False, renders_markdown=False))
    note = ""
    if not options.session:
        model, note = default_model(options.model)
        options = dataclasses.replace(options, model=model, no_key=bool(note))
    with redirect_stdout(sys.stderr):  # what a tool of the user's prints is not the answer
        return asyncio.run(RunCommand(options, said, display, out=out, note=note).execute())


class RunCommand:
    def __init__(
        self, options: RunOptions, said: UserMessage | None, display: Display, *, out: OutputFile | None, note: str
    ) -> None:
        self._options = options
        self._said = said
        self._display = display
        self._out = out
        self._note = note
        self._session: AsyncSession | None = None
        self._task: asyncio.Task[Any] | None = None
        self._signal = 0
        self._approver: Approver | None = None

    async def execute(self) -> int:
        """Run the command and return its exit code."""
        self._task = asyncio.current_task()
        beat = asyncio.create_task(self._tick_display())
        try:
            with handle_signals(self._stop):
                return await self._run()
        except asyncio.CancelledError:
            if not self._signal:
                raise
            return 128 + self._signal
        finally:
            beat.cancel()
            self._display.clear()

    def _stop(self, number: int) -> None:
        """Cancel the run at the first signal; the session records it."""
        self._signal = number
        if number == signal.SIGINT:
            self._display.info("stopping; once more leaves at once", "yellow")
        if self._session is not None:
            self._session.cancel_local()
        elif self._task is not None:
            self._task.cancel()

    async def _tick_display(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._display.tick()

    # --- the way through ---

    async def _run(self) -> int:
        options = self._options
        policy = Policy(options.allow, options.deny)
        self._approver = policy.approver(options.approve, self._display)
        early: list[StreamEvent | AgentEvent] = []
        async with open_session(options, self._approver, tell=early.append, asks=self._said is not None) as (
            agent,
            session,
        ):
            self._session = session
            result = RunResult(session, options, out=self._out, signal=self._signal)
            self._shape(result)
            events = _RunEvents(self._display, result)
            if self._note:  # once nothing else is wrong
                self._display.info(self._note, "dim")
            for event in early:
                events.handle(event)
            if self._said is None and not session.has_pending_work:
                result.is_earlier_answer = True
            elif self._said is None and session.status == "waiting" and session.pending and self._approver is None:
                pass  # without a terminal the calls stay pending
            else:
                begun = time.monotonic()
                result.error = await self._stream_events(agent, session, events)
                result.seconds = time.monotonic() - begun
                result.signal = self._signal
            return await report_result(result, self._display)

    def _shape(self, result: RunResult) -> None:
        """Load the schema; a session that started without it gets instructions in the message."""
        named = self._options.schema
        if not named:
            return
        from tenuto.cli.session.output_schema import OutputSchema  # it loads what checks a schema

        result.schema = OutputSchema(named, result.session._effective_config())
        if result.schema.instructions and self._said is not None:
            self._said = user(*self._said.parts, result.schema.instructions)

    async def _stream_events(self, agent: AsyncAgent, session: AsyncSession, events: _RunEvents) -> TenutoError | None:
        """Run the session; return the error that ended it."""
        unnamed = "" if self._options.session else self._options.name or ""
        try:
            async with session.stream(self._said) as run:
                async for event in run:
                    if unnamed and not session.is_new:  # a session can be named once it has an entry
                        await self._name(agent, session, unnamed)
                        unnamed = ""
                    events.handle(event)
        except TenutoError as exc:
            return exc
        except asyncio.CancelledError:
            if not self._signal or self._task is None:
                raise
            self._task.uncancel()  # the signal came before the run had begun
            return RunCancelled("the run was cancelled before it began")
        finally:
            self._display.status("")
            self._display.end_line()
        return None

    async def _name(self, agent: AsyncAgent, session: AsyncSession, name: str) -> None:
        try:
            await agent.store.rename(session.id, name)
        except ValueError as exc:  # another process took the name
            self._display.message(f"the session has no name: {exc}", "yellow")


class _RunEvents:
    """Prints the events of a run or writes them as JSON lines, and collects denied calls."""

    def __init__(self, display: Display, result: RunResult) -> None:
        options, session = result.options, result.session
        thinking = not options.hide_thinking
        self._result = result
        self._view = EventPrinter(display, session.model, thinking=thinking)
        if options.jsonl:
            result.jsonl = JsonlWriter(display, session.id, thinking=thinking)

    def handle(self, event: StreamEvent | AgentEvent) -> None:
        inner = event
        while isinstance(inner, SubAgentEvent):
            inner = inner.event
        if isinstance(inner, ModelChanged):
            self._result.new_losses.update(inner.losses)
        if isinstance(inner, ToolFinished) and inner.outcome == "denied" and inner.detail != TOO_MANY:
            self._result.denied.append(inner.call)
        if self._result.jsonl is not None:
            self._result.jsonl.handle(event)
        elif self._result.schema is None or not _is_text_delta(event):  # what is to be JSON is shown once it is whole
            self._view.handle(event)


def _is_text_delta(event: StreamEvent | AgentEvent) -> bool:
    return isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta)
