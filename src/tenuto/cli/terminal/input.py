"""Read lines and messages from a pipe, a file or a plain terminal, and remember messages."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tenuto.cli.terminal.output import print_stderr
from tenuto.errors import TenutoError

if TYPE_CHECKING:
    from tenuto.cli.terminal.display import Display

PROMPT, CONTINUATION_PROMPT = "you> ", "...> "
_FENCE = '"""'
_MAX_MESSAGES = 1_000
_MAX_LENGTH = 10_000  # the longest message, in characters, that the history stores
_CHUNK = 65536


@dataclass(eq=False)
class PromptInterrupted(Exception):
    """Ctrl-C at the prompt, without input if `empty`."""

    empty: bool


class NotUtf8(Exception): ...


class LineReader:
    """Reads lines of a file descriptor. The event loop keeps running, and a canceled read takes no input."""

    def __init__(self, descriptor: int, buffered: bytes = b"") -> None:
        self._descriptor = descriptor
        self._buffer = buffered

    async def line(self) -> bytes:
        """Return the next line with its newline, if it has one; empty at the end of the input."""
        while b"\n" not in self._buffer and (chunk := await self._read()):
            self._buffer += chunk
        line, newline, self._buffer = self._buffer.partition(b"\n")
        return line + newline

    async def _read(self) -> bytes:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except NotImplementedError:  # Windows
            chunks: list[bytes] = []

            def read() -> None:
                chunks.append(self._read_now())
                with suppress(RuntimeError):  # the event loop is closed
                    loop.call_soon_threadsafe(ready.set)

            threading.Thread(target=read, daemon=True).start()  # it does not keep the process from ending
            await ready.wait()
            return chunks[0]
        except (PermissionError, ValueError):  # a file never blocks; epoll refuses it
            return self._read_now()
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)
        return self._read_now()

    def _read_now(self) -> bytes:
        try:
            return os.read(self._descriptor, _CHUNK)
        except OSError:  # the terminal is gone
            return b""


class PlainReader:
    """Reads messages line by line; on a terminal, the prompt is written to stderr because stdout may be a file.

    A backslash at the end of a line continues the message. The lines between two lines of three double quotes are one message.
    """

    can_edit = False  # whether a text can be offered for editing

    def __init__(self) -> None:
        stdin = sys.stdin
        self._lines = LineReader(-1)  # a closed stdin: no input
        self.is_interactive = False
        if stdin is not None and not stdin.closed:
            self.is_interactive = stdin.isatty()
            try:
                self._lines = LineReader(stdin.fileno())
            except OSError:  # a stream in memory
                self._lines = LineReader(-1, stdin.buffer.read())
        self._encoding = "utf-8-sig"

    async def draw(self) -> None:
        """Draw the first prompt; nothing without line editing."""

    @asynccontextmanager
    async def hold_output(self, _: Display) -> AsyncIterator[None]:
        """Print the output of the block above a prompt that is drawn."""
        yield

    async def read(self, offered: str = "") -> str:
        """Return the next message. Raise `EOFError`, or `NotUtf8`."""
        lines = [await self._line(PROMPT)]
        with suppress(EOFError):  # the message ends with the input
            if lines[0].strip() == _FENCE:
                lines.pop()
                while (line := await self._line(CONTINUATION_PROMPT)).strip() != _FENCE:
                    lines.append(line)
            while lines and (len(lines[-1]) - len(lines[-1].rstrip("\\"))) % 2:  # two backslashes are text
                lines[-1] = lines[-1][:-1]
                lines.append(await self._line(CONTINUATION_PROMPT))
        return "\n".join(lines)

    async def _line(self, prompt: str) -> str:
        if self.is_interactive:
            print_stderr(prompt)
        line = await self._lines.line()
        if not line:
            if self.is_interactive:
                print_stderr("\n")
            raise EOFError
        encoding, self._encoding = self._encoding, "utf-8"
        try:
            return line.decode(encoding).removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise NotUtf8 from None


class History:
    """The last 1,000 messages, in a file with mode 0600: one per line, with escaped newlines.

    Messages that start with a space, very long ones and repetitions are not stored.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = ""

    def read(self) -> list[str]:
        """Return the messages, oldest first; none if the file cannot be read. Cut the file if it has too many."""
        try:
            lines = self._lines()
            if len(lines) > _MAX_MESSAGES:
                from tenuto.cli.files import file_lock, write_private

                with suppress(TenutoError), file_lock(self._path):
                    lines = self._lines()[-_MAX_MESSAGES:]  # another chat may have added one
                    write_private(self._path, "".join(f"{line}\n" for line in lines))
        except OSError:
            return []
        messages = [re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], line) for line in lines]
        self._last = messages[-1] if messages else ""
        return messages

    def _lines(self) -> list[str]:
        return [line for line in self._path.read_bytes().decode("utf-8", "replace").split("\n") if line]

    def add(self, message: str) -> None:
        """Append a message. Raise `OSError` if the file cannot be written."""
        if message.startswith(" ") or not message.strip() or len(message) > _MAX_LENGTH or message == self._last:
            return
        self._last = message
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = message.replace("\\", "\\\\").replace("\n", "\\n")
        with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as file:
            if sys.platform != "win32":
                os.fchmod(file.fileno(), 0o600)  # the file may be older
            file.write(f"{line}\n".encode("utf-8", "replace"))
