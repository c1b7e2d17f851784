"""The interactive chat: read a message, send it or run it as a command, repeat."""

from __future__ import annotations

import dataclasses
import signal
import sys
from collections.abc import Coroutine, Iterable
from contextlib import AsyncExitStack, redirect_stdout
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenuto.agent.agent import AsyncAgent
from tenuto.agent.session import AsyncSession
from tenuto.cli.errors import ExitCode, explain_error, plural
from tenuto.cli.options import RunOptions
from tenuto.cli.session.approval import Approver, create_approver
from tenuto.cli.session.open import OpenSession, open_session
from tenuto.cli.session.prompt_input import compose_message
from tenuto.cli.session.result import RunResult, report_result
from tenuto.cli.session.run import STOPPING, RunEvents, SignalStop, run_turn
from tenuto.cli.session.slash_commands import LEAVE_WORDS, SlashInput, parse_input, run_slash_command
from tenuto.cli.store import format_status, short_id
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.input import History, NotUtf8, PlainReader, PromptInterrupted
from tenuto.cli.terminal.text import one_line
from tenuto.core.loss import Loss
from tenuto.core.messages import Content, UserMessage
from tenuto.errors import TenutoError
from tenuto.wire.loss_report import summarize_losses

if TYPE_CHECKING:
    from tenuto.cli.terminal.prompt import PromptReader

    Reader = PlainReader | PromptReader

T = TypeVar("T")
_LINE_LENGTH = 160
_ANSWER_LINES = 8  # the lines of an earlier answer that are shown
_HOW_TO_CONTINUE = "press Enter or /retry to continue"


class Chat:
    """The session of the chat, and the state that slash commands change."""

    agent: AsyncAgent
    session: AsyncSession

    def __init__(self, options: RunOptions, reader: Reader, display: Display, history: History | None) -> None:
        self.options = options
        self.display = display
        self.attached: list[Content] = []
        self.offered = ""  # a text to edit at the next prompt
        self.retries = False  # whether a command asked to continue pending work
        self.is_over = False
        self._reader = reader
        self._history = history
        self._stack = AsyncExitStack()
        self._approver: Approver | None = None
        self._stop = SignalStop(self._notify)
        self._leave_signal = 0
        self._was_interrupted = False
        self._code = 0
        self._notices: set[str] = set()  # those that were shown

    async def execute(self) -> int:
        try:
            async with self._reader.hold_output(self.display):
                opened = await self._run(self.open(self.options))
                if opened is None or self._stop.signal:
                    return 128 + self._stop.signal
                await self._start()
            await self._read_loop()
        finally:
            await self._run(self._stack.aclose())
        result = RunResult(self.agent, self.session, self.options)
        if result.is_saved and (self._code or not self.options.quiet):
            command = result.resume_command.replace("tenuto resume", "tenuto chat", 1)
            self.display.message(f"resume with: {command}", "dim")
        if self._leave_signal:
            return 128 + self._leave_signal
        return 0 if self._reader.is_interactive else self._code

    async def _run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Run work that a signal may stop; None if one did. Only Ctrl-C on a terminal does not end the chat."""
        result = await self._stop.run(work)
        if self._stop.signal and not (self._stop.signal == signal.SIGINT and self._reader.is_interactive):
            self._leave_signal = self._stop.signal
        return result

    def _notify(self, number: int) -> None:
        if number == signal.SIGINT and self._reader.is_interactive and self._stop.session is not None:
            self.display.info(STOPPING, "yellow")

    async def open(self, options: RunOptions) -> OpenSession:
        self._approver = self._approver or create_approver(options.approve, self.display)  # it keeps a terminal open
        with redirect_stdout(sys.stderr):  # output of the user's tools is not the answer
            opened = await self._stack.enter_async_context(open_session(options, self._approver, asks=False))
        self.agent, self.session = opened.agent, opened.session
        self.options = self._resume_options(options)
        for notice in opened.notices:
            if notice not in self._notices:  # it may be opened again with other tools
                self.display.info(notice, "yellow")
        self._notices |= {*opened.notices}
        if opened.note:
            self.display.message(opened.note, "yellow")
        if opened.switch is not None:
            self.display.info(f"switched to {one_line(opened.switch.model, 80)}")
            self.report_losses(opened.switch.losses)
        return opened

    async def switch_to(self, session: AsyncSession) -> None:
        before, self.session = self.session, session
        if self._approver is not None:
            self._approver.session = session
        await before.close()

    async def reopen(self, options: RunOptions) -> None:
        """Open the session again with other options; if that fails, with the same ones."""
        before = self._resume_options(self.options)
        await self._stack.aclose()
        self.is_over = True  # unless one of the two opens
        try:
            await self.open(self._resume_options(options))
        except BaseException:
            await self.open(before)
            raise
        finally:
            self.is_over = self.agent.closed

    def _resume_options(self, options: RunOptions) -> RunOptions:
        """Return the options that open the session again. A session with entries has its own model and name."""
        if self.session.is_new:
            return options
        return dataclasses.replace(options, session=self.session.id, takeover=False, model=None, name=None)

    def report_losses(self, losses: Iterable[Loss]) -> None:
        if line := summarize_losses(losses):
            self.display.info(line, "yellow")

    def last_user_message(self) -> UserMessage | None:
        messages = reversed(self.session.transcript.messages)
        return next((message for message in messages if isinstance(message, UserMessage)), None)

    async def _start(self) -> None:
        session, display = self.session, self.display
        if not session.is_new:
            self._show_last_exchange()
        if self._reader.is_interactive:
            display.info(f"{one_line(session.model, 80)}. /help for commands, Ctrl-D to quit", "dim")
        if not session.has_pending_work:
            return
        if session.status == "cancelled" or session.waiting_for == "limit":  # do not continue without the user
            status = format_status(session.status, session.waiting_for)
            display.info(f"turn interrupted ({status}): {_HOW_TO_CONTINUE}", "yellow")
        else:
            display.info("continuing the interrupted turn", "yellow")
            await self._turn(None)

    def _show_last_exchange(self) -> None:
        session, display = self.session, self.display
        message, count = self.last_user_message(), len(session.transcript.messages)
        display.info(f"session {short_id(session.id)}, {plural(count, 'message')}", "dim")
        if message is not None:
            display.info(f"you> {one_line(str(message), _LINE_LENGTH)}", "dim")
        lines = session.text.strip().splitlines() if session.status == "completed" else []
        if (more := len(lines) - _ANSWER_LINES) > 0:
            lines[_ANSWER_LINES:] = [f"({plural(more, 'more line')}: /show prints them)"]
        if lines:
            display.info("\n".join(lines), "dim")

    async def _read_loop(self) -> None:
        while not self.is_over and not self._leave_signal:
            offered, self.offered = self.offered, ""
            if offered and not self._reader.can_edit:
                self.display.info(f"not sent: {one_line(offered, _LINE_LENGTH)}", "dim")
            try:
                typed = await self._run(self._reader.read(offered))
            except EOFError:
                return
            except PromptInterrupted as exc:
                self._clear(is_empty=exc.empty)
            except NotUtf8:
                self._refuse("not sent: invalid UTF-8")
            else:
                if typed is not None:
                    await self._handle(typed)
                    continue
                self.display.message("")  # end the line of the prompt
                if not self._leave_signal:
                    self._clear(is_empty=True)

    def _clear(self, *, is_empty: bool) -> None:
        """Ctrl-C at the prompt clears the line; the second time, if it is empty, it leaves."""
        if is_empty and self._was_interrupted:
            self._leave_signal = signal.SIGINT
            return
        self._was_interrupted = True
        if is_empty:
            self.display.info("press Ctrl-C again or Ctrl-D to quit", "dim")

    async def _handle(self, typed: str) -> None:
        what = parse_input(typed)
        self._was_interrupted = False
        self._remember(typed)
        if isinstance(what, SlashInput):
            await self._run(self._run_slash_command(what))
        elif what.strip().lower() in LEAVE_WORDS:
            self.is_over = True
        elif what.strip():
            await self._send(what)
        elif self._reader.is_interactive and self.session.has_pending_work:
            self.retries = True
        if self.retries and not self._leave_signal:
            self.retries = False
            await self._turn(None)

    def _remember(self, text: str) -> None:
        if self._history is None or not self._reader.is_interactive:
            return
        try:
            self._history.add(text)
        except OSError as exc:
            self._history = None
            self.display.info(f"cannot save history: {exc.strerror or exc}", "yellow")

    async def _send(self, text: str) -> None:
        """Send a message with the attachments. If it could not be stored, offer it again."""
        parts, self.attached = self.attached, []
        message = compose_message(text, parts)
        await self._turn(message)
        if self.last_user_message() != message:
            self.offered, self.attached = text, parts

    async def _run_slash_command(self, slash: SlashInput) -> None:
        try:
            await run_slash_command(slash, self)
        except click.ClickException as exc:
            self._refuse(exc.format_message())
        except (TenutoError, OSError) as exc:
            explanation = explain_error(exc)
            self.display.error(explanation, exc)
            self._code = int(explanation.code)

    def _refuse(self, why: str) -> None:
        self.display.message(f"! {why}", "red")
        self._code = int(ExitCode.USAGE)

    async def _turn(self, message: UserMessage | None) -> None:
        display, session = self.display, self.session
        result = RunResult(self.agent, session, self.options)
        events = RunEvents(display, result)
        with redirect_stdout(sys.stderr):  # output of the user's tools is not the answer
            await self._run(run_turn(events, message, self._stop, self._approver))
        self.options = self._resume_options(self.options)
        self._code = await report_result(result, display, is_chat=True) or self._code
        if not self._reader.is_interactive:
            return
        if session.has_pending_work and not self._leave_signal:
            display.info(f"turn interrupted: {_HOW_TO_CONTINUE}", "dim")
        if display.terminal.is_err_live:
            display.info("")
