"""Approve tool calls: ask on the terminal, or answer by `--approve`."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tenuto.agent.call_policy import CallPattern, call_arguments, suggest_pattern
from tenuto.agent.machine import PendingCall
from tenuto.agent.session import AsyncSession
from tenuto.agent.sub_agents import AwaitingApproval
from tenuto.cli.session.approval_store import remember_pattern
from tenuto.cli.session.call_view import MAX_ROWS, Row, display_path, shorten_rows, view_call
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.input import LineReader
from tenuto.cli.terminal.output import ansi_style, window_size
from tenuto.cli.terminal.text import one_line, wrap
from tenuto.core import jsonio
from tenuto.core.messages import ToolCallView

_YES = re.compile(r"(?:y|yes|ok|okay|sure|yep|allow)(?P<more>[ ,].*)?", re.DOTALL)
_POLITE = ("please", "do it")
_NO = re.compile(r"(?:n|no|deny)(?:[ ,:]\s*(?P<reason>.*))?", re.IGNORECASE | re.DOTALL)
_UNCLEAR = "please answer y, n or a (to refuse with a reason: n REASON)"
_SHOWN_PATTERN = 60  # the longest pattern that the question shows; a longer one is that of the command itself
_LEFT_FOR_QUESTION = 6  # rows of the window for the question and its first line


class ApprovalUnavailable(AwaitingApproval):
    """The input ended without an answer: the call stays pending."""


class Approver:
    """Answers every call with True, False, or the reason for a denial."""

    def __init__(self, answer: bool | str = False) -> None:
        self.session: AsyncSession | None = None  # set once it is open: it has the working directories of the tools
        self.waited = 0.0  # the seconds that answers took
        self._fixed = answer

    async def __call__(self, _: ToolCallView) -> bool | str:
        return self._fixed


def create_approver(way: str, display: Display) -> Approver | None:
    """Return the approver; None without a terminal: then calls leave the session waiting."""
    if way != "ask":
        return Approver(way == "auto" or "denied by --approve never")
    terminal = _open_terminal()
    return None if terminal is None else TerminalApprover(display, terminal)


def tool_root(session: AsyncSession | None, name: str) -> str:
    """Return the working directory of a built-in tool; empty for other tools."""
    roots = session.configuration.roots if session is not None else ""
    return str(jsonio.parse(roots).get(name, "")) if roots else ""


def _open_terminal() -> int | None:
    """Open the terminal of the user: stdin may be a pipe, but stderr must show the question."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    if sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty():
        return sys.stdin.fileno()
    try:
        return os.open("CONIN$" if sys.platform == "win32" else os.ttyname(sys.stderr.fileno()), os.O_RDONLY)
    except OSError:
        return None


class TerminalApprover(Approver):
    """Asks on the terminal, one call at a time."""

    def __init__(self, display: Display, terminal: int) -> None:
        super().__init__()
        self._display = display
        self._terminal = terminal
        self._lines = LineReader(terminal)
        self._turn = asyncio.Lock()
        self._allowed: list[CallPattern] = []
        self._allowed_calls: set[tuple[str, str]] = set()

    async def __call__(self, call: ToolCallView) -> bool | str:
        async with self._turn:
            arguments = call_arguments(call)
            is_known = (call.name, call.args) in self._allowed_calls
            if is_known or any(pattern.allows(call.name, arguments) for pattern in self._allowed):
                return True
            began = time.monotonic()
            try:
                return await self._ask(call)
            finally:
                self.waited += time.monotonic() - began

    async def _ask(self, call: ToolCallView) -> bool | str:
        root = tool_root(self.session, call.name)
        directory = root or str(Path.cwd())
        pattern = suggest_pattern(call)
        shown = pattern if pattern and len(pattern) <= _SHOWN_PATTERN else "this call"
        choices = f"[y]es / [n]o [REASON] / [a]lways in this run: {one_line(shown, _SHOWN_PATTERN)}"
        question = f"Allow? {choices}{' / [p]roject' if pattern else ''} / [v]iew:"
        above = self._view(call, root)
        while True:
            answer = await self._answer([*above, *(Row("yellow", line) for line in wrap(question, _columns() + 3))])
            match answer.lower():
                case "v" | "view":
                    above = self._view(call, root, whole=True)
                case "a" | "all" | "always":
                    return self._allow(call, pattern)
                case "p" | "project" if pattern:
                    remember_pattern(directory, pattern)
                    return self._allow(call, pattern)
                case _:
                    decision, problem = parse_answer(answer)
                    if decision is not None:
                        return decision
                    above = [Row("", problem)]

    def _allow(self, call: ToolCallView, pattern: str) -> bool:
        self._allowed += [CallPattern(pattern)] if pattern else []
        self._allowed_calls.add((call.name, call.args))
        return True

    def _view(self, call: ToolCallView, root: str, *, whole: bool = False) -> list[Row]:
        """Return the call as rows: all of them, or as many as the window has with the question."""
        most = min(MAX_ROWS, max(window_size(sys.stderr).lines - _LEFT_FOR_QUESTION, 8))
        rows = shorten_rows(
            view_call(call, root), _columns(), sys.maxsize if whole else most, key=": press v to show them"
        )
        head = Row("bold yellow", f"{one_line(call.name, 60)} in {display_path(root or str(Path.cwd()))}")
        return [head, *(Row(style, f"    {text}") for style, text in rows)]

    async def _answer(self, rows: Sequence[Row]) -> str:
        """Show the rows and read a line. Raise `ApprovalUnavailable` at the end of the input."""
        color = self._display.terminal.err_color
        if sys.platform != "win32":  # earlier input is not an answer
            import termios

            with suppress(termios.error):
                termios.tcflush(self._terminal, termios.TCIFLUSH)
        with self._display.prompt("\n".join(ansi_style(row.text, row.style, color=color) for row in rows) + " "):
            line = await self._lines.line()
        if not line:
            raise ApprovalUnavailable
        return line.decode("utf-8", "replace").strip()


def _columns() -> int:
    return max(window_size(sys.stderr).columns - 4, 10)


def parse_answer(answer: str) -> tuple[bool | str | None, str]:
    """Return the decision for an answer, or None and what to answer instead."""
    if found := _YES.fullmatch(answer.lower()):
        more = (found["more"] or "").strip(" ,.!")
        if not more or more in _POLITE:
            return True, ""
        return None, "answer y to run it as shown, or n REASON"
    if found := _NO.fullmatch(answer):
        return (found["reason"] or "").strip() or False, ""
    return None, _UNCLEAR


def format_pending(session: AsyncSession, pending: Sequence[PendingCall], command: str) -> list[str]:
    """Return the text for calls that wait: each one in full, and how to decide. `command` resumes the session."""
    lines, patterns = [], []
    for one in pending:
        root = tool_root(session, one.call.name)
        lines.append(f"waiting for approval in {display_path(root or str(Path.cwd()))}:")
        first, *rest = shorten_rows(view_call(one.call, root), 10_000, key=": see --json") or [Row("", "")]
        lines += [f"  {one_line(one.call.name, 60)}: {first.text}", *(f"    {row.text}" for row in rest)]
        patterns.append(suggest_pattern(one.call, plain=True))
    if command:
        lines.append(f"decide with:   {command}")
        if all(patterns):
            options = " ".join(f"--allow {shlex.quote(pattern)}" for pattern in dict.fromkeys(patterns))
            lines.append(f"allow it with: {command} {options}")
    return lines
