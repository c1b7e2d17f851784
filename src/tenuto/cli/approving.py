"""Somebody's word for a call: asked for on the terminal, or given beforehand by `--approve`."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from contextlib import suppress
from typing import Protocol

from tenuto.agent.run_context import AwaitingApproval
from tenuto.cli.escaping import one_line
from tenuto.cli.render import call_lines
from tenuto.cli.screen import Screen
from tenuto.core.messages import ToolCallView

__all__ = ["WAYS", "Approver", "NoWord", "approver"]

WAYS = ("ask", "auto", "never")
"""What `--approve` takes."""
_UNCLEAR = 4
"""A single word of so few letters is no reason: it is more likely a slip."""
_QUESTION = "  allow it? [y]es, [n]o, [a]ll calls of {name} in this run, or say why not: "


class Approver(Protocol):
    """Gives somebody's word for a call: True, False, or why not."""

    async def __call__(self, call: ToolCallView) -> bool | str:
        """Decide."""


class NoWord(AwaitingApproval):
    """There is nobody to ask, or whoever was asked went away without an answer: the call goes on waiting."""


def approver(way: str, screen: Screen) -> Approver | None:
    """Return who decides; None if nobody can be asked, and so calls leave the session waiting."""
    if way == "auto":
        return _always(word=True)
    if way == "never":
        return _always(word="denied by --approve never")
    terminal = _terminal()
    return None if terminal is None else _Asker(screen, terminal)


def _always(*, word: bool | str) -> Approver:
    async def decide(call: ToolCallView) -> bool | str:
        del call
        return word

    return decide


def _terminal() -> int | None:
    """Find the terminal that somebody sits at: stdin may be a pipe, but the question has to be seen."""
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

    def __init__(self, screen: Screen, terminal: int) -> None:
        self._screen = screen
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
        first, *rest = call_lines(call)
        lines = [f"? {first} needs your word:", *(f"  {line}" for line in rest)]
        question = _QUESTION.format(name=one_line(call.name, 60))
        _forget_typed(self._terminal)  # what was typed before the question is no answer to it
        with self._screen.asking("\n".join([*lines, question])):
            answer = await self._line()
        said = answer.strip()
        if said.lower() in ("y", "yes"):
            return True
        if said.lower() in ("n", "no"):
            return False
        if said.lower() in ("a", "all"):
            self._all.add(call.name)
        elif len(said) > _UNCLEAR:
            return said
        return None

    async def _line(self) -> str:
        """Read a line without holding anything up. Raise `NoWord` if there is none.

        Whoever stops waiting leaves what is typed later to others: a chat goes on after a turn that was stopped.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        left, waits = os.pipe()

        def read() -> None:
            line = _read(self._terminal, left)
            os.close(left)
            with suppress(RuntimeError):  # the loop is gone, and so is whoever asked
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
            raise NoWord
        return line.decode("utf-8", "replace")


def _read(terminal: int, left: int) -> bytes:
    """Read a line; nothing at the end, if the terminal is gone, or once the other end of `left` is closed."""
    try:
        if sys.platform != "win32" and terminal not in select.select([terminal, left], [], [])[0]:
            return b""
        return os.read(terminal, 65536)
    except OSError:
        return b""


def _forget_typed(terminal: int) -> None:
    if sys.platform != "win32":
        import termios

        with suppress(termios.error):
            termios.tcflush(terminal, termios.TCIFLUSH)
