"""Approve tool calls: ask on the terminal, or answer by `--approve`."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from contextlib import suppress
from typing import Protocol

from tenuto.agent.sub_agents import AwaitingApproval
from tenuto.cli.session.events import format_call_lines
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.text import one_line
from tenuto.core.messages import ToolCallView

WAYS = ("ask", "auto", "never")
"""The values of `--approve`."""
_SHORTEST_REASON = 4
"""Shorter answers are typing errors, not reasons."""
_QUESTION = "  allow it? [y]es, [n]o, [a]ll calls of {name} in this run, or a reason: "


class Approver(Protocol):
    """Decides about a call: True, False, or the reason for a denial."""

    async def __call__(self, call: ToolCallView) -> bool | str: ...


class ApprovalUnavailable(AwaitingApproval):
    """No terminal, or no answer on it: the call stays pending."""


def create_approver(way: str, display: Display) -> Approver | None:
    """Return the approver; None without a terminal: then calls leave the session waiting."""
    if way == "auto":
        return _fixed_answer(answer=True)
    if way == "never":
        return _fixed_answer(answer="denied by --approve never")
    terminal = _open_terminal()
    return None if terminal is None else _Asker(display, terminal)


def _fixed_answer(*, answer: bool | str) -> Approver:
    async def decide(call: ToolCallView) -> bool | str:
        del call
        return answer

    return decide


def _open_terminal() -> int | None:
    """Open the terminal of the user: stdin may be a pipe, but stderr must show the question."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    if sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty():
        return sys.stdin.fileno()
    try:
        return os.open("CONIN$" if sys.platform == "win32" else "/dev/tty", os.O_RDONLY)
    except OSError:
        return None


class _Asker:
    """Asks on the terminal, one call at a time."""

    def __init__(self, display: Display, terminal: int) -> None:
        self._display = display
        self._terminal = terminal
        self._turn = asyncio.Lock()
        self._all: set[str] = set()

    async def __call__(self, call: ToolCallView) -> bool | str:
        async with self._turn:
            while call.name not in self._all:
                word = await self._asked(call)
                if word is not None:
                    return word
            return True

    async def _asked(self, call: ToolCallView) -> bool | str | None:
        """Ask once; None if the answer is not clear, or was for all calls of this tool."""
        first, *rest = format_call_lines(call)
        lines = [f"? {first} needs approval:", *(f"  {line}" for line in rest)]
        question = _QUESTION.format(name=one_line(call.name, 60))
        _discard_typeahead(self._terminal)  # earlier input is not an answer
        with self._display.prompt("\n".join([*lines, question])):
            answer = await self._line()
        said = answer.strip()
        if said.lower() in ("y", "yes"):
            return True
        if said.lower() in ("n", "no"):
            return False
        if said.lower() in ("a", "all"):
            self._all.add(call.name)
        elif len(said) > _SHORTEST_REASON:
            return said
        return None

    async def _line(self) -> str:
        """Read a line in a thread. Raise `ApprovalUnavailable` at the end of input.

        A canceled call stops reading: the next line belongs to the chat.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        left, waits = os.pipe()

        def read() -> None:
            line = _read_line(self._terminal, left)
            os.close(left)
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(give, line)

        def give(line: bytes) -> None:
            if not answer.done():
                answer.set_result(line)

        threading.Thread(target=read, daemon=True, name="approval").start()
        try:
            line = await answer
        finally:
            os.close(waits)
        if not line:
            raise ApprovalUnavailable
        return line.decode("utf-8", "replace")


def _read_line(terminal: int, left: int) -> bytes:
    """Read a line; empty at the end of input, without a terminal, or once the other end of `left` is closed."""
    try:
        if sys.platform != "win32" and terminal not in select.select([terminal, left], [], [])[0]:
            return b""
        return os.read(terminal, 65536)
    except OSError:
        return b""


def _discard_typeahead(terminal: int) -> None:
    if sys.platform != "win32":
        import termios

        with suppress(termios.error):
            termios.tcflush(terminal, termios.TCIFLUSH)
