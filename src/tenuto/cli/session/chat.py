"""The interactive chat: read a line, send it or run it as a command, repeat.

Lines are read in the main thread. All turns run on one event loop, so connections and the lease stay open between them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager, redirect_stdout, suppress
from functools import partial
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

import click

from tenuto import settings
from tenuto.agent.agent import AsyncAgent
from tenuto.agent.events import AgentEvent, ModelChanged
from tenuto.agent.session import AsyncSession
from tenuto.cli.errors import ExitCode, explain_error
from tenuto.cli.options import RunOptions
from tenuto.cli.session.events import EventPrinter, answer_text, format_call
from tenuto.cli.session.models import default_model
from tenuto.cli.session.open import open_session
from tenuto.cli.session.policy import Policy
from tenuto.cli.session.result import RunResult, format_loss, recorded_losses, report_truncation, report_usage
from tenuto.cli.session.run import handle_signals
from tenuto.cli.session.slash_commands import (
    SlashCommandError,
    SlashInput,
    TypedMessage,
    complete_input,
    parse_input,
    run_slash_command,
)
from tenuto.cli.store import format_status, short_id
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.output import detect_terminal
from tenuto.cli.terminal.prompt import (
    History,
    NotUtf8,
    PromptInput,
    PromptInterrupted,
    Reader,
    open_reader,
    read_message,
)
from tenuto.cli.terminal.text import one_line
from tenuto.core.events import StreamEvent
from tenuto.core.loss import Loss
from tenuto.core.messages import Content, UserMessage, user
from tenuto.errors import RunCancelled, TenutoError
from tenuto.store.memory import forget_memory

T = TypeVar("T")
_RESEND_DELAY = 0.05


class LeaveRequested(Exception):
    """A signal asked to leave while a line was read."""


class LeaveSignals:
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
        with self._resend_signals():
            self._reading, self._again = True, False
            try:
                if self.number:
                    raise LeaveRequested
                return read()
            finally:
                self._reading = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        (reading, again), self._reading, self._again = (self._reading, self._again), False, False
        if number != signal.SIGINT:
            self.number = number
            if reading:
                raise LeaveRequested
        elif reading or not again:
            raise KeyboardInterrupt

    @contextmanager
    def _resend_signals(self) -> Iterator[None]:
        if sys.platform == "win32" or not self._before:
            yield
            return
        events, told = os.pipe()
        os.set_blocking(told, False)
        before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        threading.Thread(target=self._resend, args=(events,), daemon=True, name="signals").start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            os.close(told)

    def _resend(self, events: int) -> None:
        main = threading.main_thread().ident or 0
        while number := os.read(events, 1):
            while self._reading and number[0] in self._before:
                time.sleep(_RESEND_DELAY)
                if self._reading:
                    self._again = True
                    signal.pthread_kill(main, number[0])
        os.close(events)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")):
                before = None if number is None else signal.getsignal(number)
                if number is not None and before not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class ChatState:
    """The session that is talked in, the loop on which it runs, and what the commands may change of both."""

    agent: AsyncAgent
    session: AsyncSession

    def __init__(self, options: RunOptions, display: Display, leave: LeaveSignals, *, live: bool) -> None:
        self.options = options
        self.display = display
        self.leave = leave
        self.attached: list[Content] = []
        self.offered = ""
        self.again = False
        self.is_over = False
        self.stopped = 0
        """The signal that ended what was last done; 0 if it ended by itself."""
        self.runner = asyncio.Runner()
        self._live = live
        self._stack = AsyncExitStack()
        self._lost: set[str] = set()

    def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Run something on the loop. None if a signal ended it."""
        self.stopped = 0
        return self.runner.run(self._run_interruptibly(work))

    async def _run_interruptibly(self, work: Coroutine[Any, Any, T]) -> T | None:
        task = asyncio.current_task()
        assert task is not None  # coroutines are run by tasks

        def stop(number: int) -> None:
            self.stopped = number
            if number != signal.SIGINT or not self._live:
                self.leave.number = number
            else:
                self.display.info("stopping; once more leaves at once", "yellow")
            session: AsyncSession | None = getattr(self, "session", None)
            if session is not None:
                session.cancel_local()
            else:
                task.cancel()

        with handle_signals(stop):
            try:
                return await work
            except asyncio.CancelledError:
                if not self.stopped:
                    raise
                task.uncancel()
                return None

    # --- the session ---

    async def open(self, options: RunOptions) -> None:
        """Open the session that is meant, or begin one."""
        policy = Policy(options.allow, options.deny)
        approve = policy.approver(options.approve, self.display)
        events: list[StreamEvent | AgentEvent] = []
        with redirect_stdout(sys.stderr):  # what a tool of the user's prints is not the answer
            found = await self._stack.enter_async_context(
                open_session(options, approve, tell=events.append, asks=False)
            )
        self.agent, self.session = found
        self.options = self._resume_options(options)
        self._lost |= set(map(format_loss, recorded_losses(await self.session.entries())))
        for event in events:
            if isinstance(event, ModelChanged):
                self.display.info(f"switched to {one_line(event.model, 80)}")
                self.report_losses(event.losses, again=True)

    async def close(self) -> None:
        """Let go of everything."""
        await self._stack.aclose()

    async def switch_to(self, session: AsyncSession) -> None:
        """Go on in another session; this one is let go of."""
        before, self.session = self.session, session
        await before.close()

    async def reopen(self, options: RunOptions) -> None:
        """Open the session anew, with other settings; if that fails, it is open as before."""
        before = self._resume_options(self.options)
        await self.close()
        self.is_over = True  # unless one of the two can be opened
        try:
            await self.open(self._resume_options(options))
        except BaseException:
            await self.open(before)
            raise
        finally:
            self.is_over = self.agent.closed

    def _resume_options(self, options: RunOptions) -> RunOptions:
        """Return what opens the session again, once something was said in it: who is asked, and its name, are its own."""
        if self.session.is_new:
            return options
        return dataclasses.replace(options, session=self.session.id, takeover=False, model=None, name=None)

    async def name(self) -> None:
        """Name a new session as the user has chosen, once it has an entry."""
        name = self.options.name
        if name and not self.options.session and not self.session.is_new:
            self.options = self._resume_options(self.options)
            try:
                await self.agent.store.rename(self.session.id, name)
            except ValueError as exc:  # somebody was quicker
                self.display.message(f"the session has no name: {exc}", "yellow")

    def report_losses(self, losses: Iterable[Loss], *, again: bool = False) -> None:
        """Tell what was lost; what was told before only if it is to be told again."""
        for line in dict.fromkeys(map(format_loss, losses)):
            if again or line not in self._lost:
                self.display.info(f"lost: {line}", "yellow")
            self._lost.add(line)

    def last_user_message(self) -> UserMessage | None:
        """What the user said last."""
        spoken = (one for one in reversed(self.session.transcript.messages) if isinstance(one, UserMessage))
        return next(spoken, None)


_TICK = 0.1
_HUNG_UP = int(ExitCode.HUNG_UP) - 128
_LINE_LENGTH = 160
_ANSWER_LINES = 8
"""How much of an earlier answer is shown."""
_HOW_TO_CONTINUE = "an empty line, or /retry, goes on with it"


def run_chat(options: RunOptions) -> int:
    """Talk until somebody leaves; return the exit code."""
    display = Display(detect_terminal(options.color, quiet=options.quiet))
    history = None if options.ephemeral else History(settings.home() / "history")
    if not options.session:
        choice = default_model(options.model)
        options = dataclasses.replace(options, model=choice.model, no_key=bool(choice.note))
        if choice.note:
            display.info(choice.note, "yellow")
    with _in_memory_store(options) as settled:
        return Chat(settled, open_reader(complete_input, history), display).execute()


@contextmanager
def _in_memory_store(options: RunOptions) -> Iterator[RunOptions]:
    """Have what is not to be kept last for as long as the chat does: it may be closed and opened meanwhile."""
    if not options.ephemeral:
        yield options
        return
    name = f"chat-{secrets.token_hex(8)}"
    try:
        explicit = options.explicit | {"store"}
        yield dataclasses.replace(options, ephemeral=False, store=f"memory://{name}", explicit=explicit)
    finally:
        forget_memory(name)


class Chat:
    """One chat."""

    def __init__(self, options: RunOptions, reader: Reader, display: Display) -> None:
        self._options = options
        self._reader = reader
        self._display = display
        self._leave = LeaveSignals()
        self._state = ChatState(options, display, self._leave, live=reader.live)
        self._turns = _TurnRunner(self._state, live=reader.live)
        self._pressed = False
        self._forgets = False
        self._code = 0

    def execute(self) -> int:
        """Do all of it, and return the exit code."""
        state = self._state
        with self._leave, state.runner:
            try:
                state.run(state.open(self._options))
                if state.stopped:
                    return 128 + state.stopped
                self._start()
                self._read_loop()
            finally:
                state.run(state.close())
            self._print_hint()
        if self._leave.number:
            return 128 + self._leave.number
        return 0 if self._reader.live else self._code

    # --- the way through ---

    def _start(self) -> None:
        """Say who is there and what was last said, and do what an earlier run left undone."""
        session, display = self._state.session, self._display
        if not session.is_new:
            self._show_last_exchange()
        if self._reader.live:
            display.info(f"{one_line(session.model, 80)}: /help lists commands, Ctrl-D leaves", "dim")
        if not session.has_pending_work:
            return
        if session.status == "cancelled" or session.waiting_for == "limit":  # do not continue without the user
            status = format_status(session.status, session.waiting_for)
            display.info(f"the last turn has not ended ({status}): {_HOW_TO_CONTINUE}", "yellow")
        else:
            display.info("the last turn has not ended: going on with it", "yellow")
            self._turn(None)

    def _show_last_exchange(self) -> None:
        """Show the last exchange, briefly."""
        session, display = self._state.session, self._display
        said, count = self._state.last_user_message(), len(session.transcript.messages)
        display.info(f"session {short_id(session.id)}, {count} message{'' if count == 1 else 's'}", "dim")
        if said is not None:
            display.info(f"you> {one_line(str(said), _LINE_LENGTH)}", "dim")
        if session.status == "completed":
            lines = answer_text(session.last).strip().splitlines()
            more = f"({len(lines) - _ANSWER_LINES} more lines: /show has them)" if len(lines) > _ANSWER_LINES else ""
            display.info("\n".join(filter(None, [*lines[:_ANSWER_LINES], more])), "dim")

    def _read_loop(self) -> None:
        state = self._state
        while not state.is_over and not self._leave.number:
            offered, state.offered = state.offered, ""
            if offered and not self._reader.offers:
                self._display.info(f"unsaid: {one_line(offered, _LINE_LENGTH)}", "dim")
            try:
                self._handle_input(self._leave.read(partial(read_message, self._reader, offered)))
            except EOFError:
                return
            except LeaveRequested:
                self._display.message("")  # the prompt stands there
            except KeyboardInterrupt:  # while nothing goes on; where nobody sits, nobody can be asked again
                self._leave.number = self._leave.number or (0 if self._reader.live else signal.SIGINT)
            except PromptInterrupted as cleared:
                self._clear(empty=cleared.empty)
            except NotUtf8:
                self._refuse("that is no text in UTF-8, and was not said")

    def _clear(self, *, empty: bool) -> None:
        """Ctrl-C at the prompt: the line is given up; the second time, if nothing stands there, the chat is."""
        if empty and self._pressed:
            self._leave.number = signal.SIGINT
            return
        self._pressed = True
        if empty:
            self._display.info("Ctrl-C once more, or Ctrl-D, leaves", "dim")

    def _handle_input(self, typed: PromptInput) -> None:
        """Say or obey what was typed."""
        state, what = self._state, parse_input(typed)
        self._pressed = False
        self._remember(typed.text)
        if isinstance(what, SlashInput):
            self._run_slash_command(what)
        elif what.text.strip():
            self._send(what)
        elif self._reader.live and state.session.has_pending_work:
            state.again = True
        if state.again and not self._leave.number:
            state.again = False
            self._turn(None)

    def _remember(self, text: str) -> None:
        try:
            self._reader.keep(text)
        except OSError as exc:
            if not self._forgets:
                self._display.info(f"what is typed cannot be remembered: {exc.strerror or exc}", "yellow")
            self._forgets = True

    def _send(self, words: TypedMessage) -> None:
        """Say something, with what goes along. What could not be written is there to be said again."""
        state = self._state
        parts, state.attached = state.attached, []
        said = user(words.text, *parts)
        self._turn(said)
        if state.last_user_message() != said:
            state.offered, state.attached = words.text, parts

    def _turn(self, said: UserMessage | None) -> None:
        self._code = self._turns.run(said) or self._code

    def _run_slash_command(self, slash: SlashInput) -> None:
        try:
            self._state.run(run_slash_command(slash, self._state))
        except SlashCommandError as exc:
            self._refuse(str(exc))
        except click.ClickException as exc:
            self._refuse(exc.format_message())
        except (TenutoError, OSError) as exc:
            told = explain_error(exc)
            self._display.error(told, exc)
            self._code = int(told.code)

    def _refuse(self, why: str) -> None:
        self._display.message(f"! {why}", "red")
        self._code = int(ExitCode.USAGE)

    def _print_hint(self) -> None:
        """Say how to come back."""
        result = RunResult(self._state.session, self._state.options)
        if result.is_saved and (self._code or not result.options.quiet):
            self._display.message(
                f"resume with: tenuto chat {result.resume_command.removeprefix('tenuto resume ')}", "dim"
            )


class _TurnRunner:
    """The turns of a chat: each is run and shown, and whatever ends one, the chat goes on."""

    def __init__(self, state: ChatState, *, live: bool) -> None:
        self._state = state
        self._display = state.display
        self._live = live

    def run(self, said: UserMessage | None) -> int:
        """Say something, or go on without; tell how it ended, and return the exit code that it would have."""
        state, since = self._state, time.monotonic()
        result = RunResult(state.session, state.options)
        with redirect_stdout(sys.stderr):  # what a tool of the user's prints is not the answer
            result.error = state.run(self._stream_events(said))
        result.signal, result.seconds = state.stopped, time.monotonic() - since
        self._report(result)
        return result.code

    async def _stream_events(self, said: UserMessage | None) -> TenutoError | None:
        """Run the session, and show what happens; return what ended it, unless it ended by itself."""
        state, display = self._state, self._display
        view = EventPrinter(display, state.session.model, thinking=not state.options.hide_thinking)
        beat = asyncio.create_task(self._tick_display())
        try:
            async with state.session.stream(said) as run:
                async for event in run:
                    await state.name()
                    view.handle(event)
        except TenutoError as exc:
            return exc
        except asyncio.CancelledError:
            if not state.stopped:
                raise
            return RunCancelled("the run was cancelled before it began")
        except OSError as exc:
            if exc.errno != errno.EIO:
                raise
            state.leave.number = state.stopped = _HUNG_UP  # the terminal is gone, and whoever sat there
            return None
        finally:
            beat.cancel()
            display.status("")
            with suppress(OSError):  # the terminal is gone
                display.end_line()
        return None

    async def _tick_display(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._display.tick()

    def _report(self, result: RunResult) -> None:
        display, session = self._display, self._state.session
        display.finish(result.answer)
        if result.error is None and session.reply is not None:
            self._state.report_losses(session.reply.losses)
        report_truncation(result, display)
        if result.explanation is not None:
            display.error(result.explanation, result.error)
        elif result.signal:
            display.message("stopped; session saved", "yellow")
        for pending in session.pending:
            display.message(f"waits for approval: {format_call(pending.call)}", "yellow")
        report_usage(result, display)
        if session.has_pending_work and self._live and not self._state.leave.number:
            display.info(f"the turn has not ended: {_HOW_TO_CONTINUE}", "dim")
