"""Run a turn of a session: `tenuto run`, `tenuto resume` and each message of a chat."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TypeVar

from tenuto.agent.events import AgentEvent, ModelChanged, SubAgentEvent, ToolFinished
from tenuto.agent.limits import TOO_MANY
from tenuto.agent.session import AsyncSession
from tenuto.cli.errors import ExitCode
from tenuto.cli.files import OutputFile
from tenuto.cli.options import RunOptions
from tenuto.cli.session.approval import Approver, create_approver
from tenuto.cli.session.events import EventPrinter
from tenuto.cli.session.jsonl import JsonlWriter
from tenuto.cli.session.open import open_session
from tenuto.cli.session.result import RunResult, report_result
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.output import detect_terminal
from tenuto.core.events import ContentDelta, StreamEvent, TextDelta
from tenuto.core.messages import UserMessage, user
from tenuto.errors import RunCancelled, TenutoError

T = TypeVar("T")
Event = StreamEvent | AgentEvent
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
_TICK = 0.1
STOPPING = "stopping (Ctrl-C again to quit now)"


class SignalStop:
    """Work that a signal stops. The run of a session is stopped by the session, which records it."""

    def __init__(self, notify: Callable[[int], None]) -> None:
        self.signal = 0  # the signal that stopped the last work; 0 if none did
        self.session: AsyncSession | None = None  # the session whose run a signal stops
        self._notify = notify

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Await the work; None if a signal stopped it. The second signal exits."""
        self.signal = 0
        task = asyncio.ensure_future(work)
        with self._handle_signals(task):
            try:
                return await task
            except asyncio.CancelledError:
                if not self.signal:
                    raise
                return None

    @contextmanager
    def _handle_signals(self, task: asyncio.Task[Any]) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread can set signal handlers
            return
        loop = asyncio.get_running_loop()
        received: list[int] = []

        def handle(number: int, _: object = None) -> None:
            if received:
                os._exit(128 + number)
            received.append(number)
            loop.call_soon_threadsafe(self._stop, task, number)

        numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
        before = {number: signal.getsignal(number) for number in numbers}
        before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
        for number in before:  # `nohup` and shells may have ignored a signal
            try:
                loop.add_signal_handler(number, handle, number)
            except NotImplementedError:  # Windows
                signal.signal(number, handle)
        try:
            yield
        finally:
            for number, handler in before.items():
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(number)
                signal.signal(number, handler)

    def _stop(self, task: asyncio.Task[Any], number: int) -> None:
        self.signal = number
        self._notify(number)
        if self.session is not None:
            self.session.cancel_local()
        else:
            task.cancel()


class RunEvents:
    """Prints the events of a run or writes them as JSON lines, and collects denied calls."""

    def __init__(self, display: Display, result: RunResult) -> None:
        options, session = result.options, result.session
        is_shown = display.terminal.is_err_terminal or options.show_thinking
        thinking = not options.hide_thinking and (is_shown or options.jsonl)
        self.display = display
        self.result = result
        self._printer = EventPrinter(display, session.model, thinking=thinking)
        if options.jsonl:
            result.jsonl = JsonlWriter(display, session.id, thinking=thinking)

    def handle(self, event: Event) -> None:
        result, inner = self.result, event
        while isinstance(inner, SubAgentEvent):
            inner = inner.event
        if isinstance(inner, ModelChanged):
            result.new_losses.update(inner.losses)
        if isinstance(inner, ToolFinished) and inner.outcome == "denied" and inner.detail != TOO_MANY:
            result.denied.append(inner.call)
        is_text = isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta)
        if result.jsonl is not None:
            result.jsonl.handle(event)
        elif result.schema is None or not is_text:  # JSON is shown once it is complete
            self._printer.handle(event)


async def run_turn(events: RunEvents, message: UserMessage | None, stop: SignalStop, approver: Approver | None) -> None:
    """Run the session, and store in the result how that ended. A new session gets its name after its first entry."""
    result, display = events.result, events.display
    session, began = result.session, _active_time(approver)
    name = "" if result.options.session else result.options.name
    beat = asyncio.create_task(_tick(display))
    stop.session = session
    try:
        async with session.stream(message) as run:
            async for event in run:
                if name and not session.is_new:
                    try:
                        await result.agent.rename(session, name)
                    except ValueError as exc:  # another process took the name
                        display.message(f"the session has no name: {exc}", "yellow")
                    name = ""
                events.handle(event)
    except TenutoError as exc:
        result.error = exc
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not stop.signal or task is None:
            raise
        task.uncancel()  # the signal came before the run had begun
        result.error = RunCancelled("the run was cancelled before it began")
    except OSError as exc:
        if exc.errno != errno.EIO:
            raise
        stop.signal = ExitCode.HUNG_UP - 128  # the terminal is gone
    finally:
        stop.session = None
        beat.cancel()
        with suppress(OSError):  # the terminal is gone
            display.status("")
            display.end_line()
    result.seconds = _active_time(approver) - began
    result.signal = stop.signal


def _active_time(approver: Approver | None) -> float:
    """Return a time that stands still at approval questions."""
    return time.monotonic() - (approver.waited if approver is not None else 0.0)


async def _tick(display: Display) -> None:
    while True:
        await asyncio.sleep(_TICK)
        display.tick()


def run_once(options: RunOptions, message: UserMessage | None) -> int:
    """Send a message to a new session or to the one that `options` name; return the exit code."""
    out = OutputFile(named) if (named := options.out or "-") != "-" else None
    terminal = detect_terminal(options.color, quiet=options.quiet or options.json or options.jsonl)
    terminal = terminal._replace(streams=options.stream)
    if out is not None:
        terminal = terminal._replace(is_out_terminal=False, renders_markdown=False)
    display = Display(terminal)

    def notify(number: int) -> None:
        if number == signal.SIGINT:
            display.info(STOPPING, "yellow")

    async def run() -> int:
        stop = SignalStop(notify)
        try:
            code = await stop.run(_run(options, message, display, stop, out))
        finally:
            display.clear()
        return 128 + stop.signal if code is None else code

    with redirect_stdout(sys.stderr):  # output of the user's tools is not the answer
        return asyncio.run(run())


async def _run(
    options: RunOptions, message: UserMessage | None, display: Display, stop: SignalStop, out: OutputFile | None
) -> int:
    approver = create_approver(options.approve, display)
    async with open_session(options, approver, asks=message is not None) as opened:
        session = opened.session
        result = RunResult(opened.agent, session, options, out)
        if options.schema:
            from tenuto.cli.session.output_schema import OutputSchema  # imports the schema validator

            result.schema = OutputSchema(options.schema, session.configuration)
            if message is not None and result.schema.instructions:
                message = user(*message.parts, result.schema.instructions)
        events = RunEvents(display, result)
        for notice in opened.notices:
            display.info(notice, "yellow")
        if opened.continued and display.terminal.is_err_live:
            display.info(opened.continued, "dim")
        if opened.note:
            display.message(opened.note, "yellow")
        if opened.switch is not None:
            events.handle(opened.switch)
        can_decide = approver is not None or opened.policy.allow or opened.policy.deny
        if message is None and not session.has_pending_work:
            result.is_earlier_answer = True
        elif message is not None or not session.pending or session.status != "waiting" or can_decide:
            await run_turn(events, message, stop, approver)
        return await report_result(result, display)
