"""A tool that runs commands in one directory.

A command is not confined: it can do whatever its user can. So it needs approval by default, and its environment is
limited to an allow-list. Its process group is killed on timeout, on cancellation, and when this process dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Annotated

from msgspec import Meta

from tenuto.core.messages import ToolResult
from tenuto.tools.builtin.confined_dir import ConfinedDir
from tenuto.tools.execution import ToolContext

__all__ = ["CapturedOutput", "Shell"]

_GRACE = 0.4
"""Seconds between asking a command to end and ending it; twice that is less than a cancelled tool has to clean up in."""
_LINGER = 0.3
"""Seconds that output may still come after the command has ended, from what it left in the background."""
_SUPERVISED = """
exec 3<&0 </dev/null
( (read -r line <&3 || kill -KILL 0) >/dev/null 2>&1 & )
exec 3<&-
exec /bin/sh -c "$1"
"""
"""Runs `$1` in this process group. Standard input is a pipe from this process: a line on it ends the supervisor in the
background, and the end of the pipe without one (this process was killed) makes it kill the whole group.
"""
_ROOM = 20_000
"""How many bytes are kept of the beginning, and as many of the end."""


class CapturedOutput:
    """The beginning and the end of what was written, whatever its length."""

    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take a piece."""
        self.size += len(data)
        first = self._room - len(self._head)
        self._head += data[:first]
        self._tail += data[max(first, 0) :]
        del self._tail[: -self._room]

    def text(self) -> str:
        """Return what is kept, with a line that says what is missing."""
        missing = self.size - len(self._head) - len(self._tail)
        if not missing:
            return (self._head + self._tail).decode("utf-8", "replace")
        said = (
            f"\n[{missing:,} of {self.size:,} bytes left out here: write the output to a file, and read a part of it]\n"
        )
        return self._head.decode("utf-8", "replace") + said + self._tail.decode("utf-8", "replace")


class _ProcessWatch(asyncio.SubprocessProtocol):
    """Hears what a command writes, and when it ends; what it left behind may write on."""

    def __init__(self, kept: CapturedOutput) -> None:
        loop = asyncio.get_running_loop()
        self._kept = kept
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, _fd: int, data: bytes) -> None:
        self._kept.add(data)

    def pipe_connection_lost(self, fd: int, _exc: Exception | None) -> None:
        if fd == 1 and not self.closed.done():
            self.closed.set_result(None)

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)


class Shell:
    """The tool, as a method. `environment` is what commands see; `seconds` is how long one may take."""

    def __init__(self, root: ConfinedDir, environment: Mapping[str, str], seconds: float) -> None:
        self._root = root
        self._environment = dict(environment)
        self._seconds = seconds

    async def shell(
        self, command: str, context: ToolContext, timeout: Annotated[int, Meta(ge=1)] | None = None
    ) -> str | ToolResult:
        """Run a command in the root folder, and show what it writes and its exit code. It gets no input.

        Args:
            command: for /bin/sh, or for cmd on Windows
            context: filled in
            timeout: how many seconds it may take; the user's limit holds as well
        """
        if "\0" in command or not command.strip():
            raise ValueError("command is empty, or holds a NUL")
        seconds = min(self._seconds, timeout or self._seconds)
        kept = CapturedOutput()
        async with self._running(command, kept) as (transport, watch):
            late, left = await _waited(watch, seconds)
            if late or left:
                await _end(transport, watch)
            else:
                _release(transport)
            code = transport.get_returncode()
        return _told(kept, code, seconds if late else None, context, left=left)

    @contextlib.asynccontextmanager
    async def _running(
        self, command: str, kept: CapturedOutput
    ) -> AsyncIterator[tuple[asyncio.SubprocessTransport, _ProcessWatch]]:
        """Start a command, and end it if nobody waits any more.

        That may be while it is being started, and then asyncio would end the shell alone, and nothing it has started:
        so the start is not cancelled.
        """
        starting = asyncio.create_task(self._started(command, kept))
        try:
            await asyncio.wait({starting})
            yield starting.result()
        except asyncio.CancelledError:
            await _end(*await starting)
            raise
        finally:
            if starting.done() and not starting.cancelled() and starting.exception() is None:
                starting.result()[0].close()

    async def _started(self, command: str, kept: CapturedOutput) -> tuple[asyncio.SubprocessTransport, _ProcessWatch]:
        windows = sys.platform == "win32"
        return await asyncio.get_running_loop().subprocess_exec(
            lambda: _ProcessWatch(kept),
            *(("cmd", "/d", "/c", command) if windows else ("/bin/sh", "-c", _SUPERVISED, "/bin/sh", command)),
            stdin=subprocess.DEVNULL if windows else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._root.path,
            env=self._environment,
            start_new_session=not windows,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )


async def _waited(watch: _ProcessWatch, seconds: float) -> tuple[bool, bool]:
    """Wait for a command; tell whether it took too long, and whether it left something that still could write."""
    ended, _ = await asyncio.wait({watch.exited}, timeout=seconds)
    if not ended:
        return True, False
    closed, _ = await asyncio.wait({watch.closed}, timeout=_LINGER)
    return False, not closed


def _release(transport: asyncio.SubprocessTransport) -> None:
    """End the supervisor of a command that has ended: its background jobs, if any, may run on."""
    pipe = transport.get_pipe_transport(0)
    if isinstance(pipe, asyncio.WriteTransport):
        pipe.write(b"\n")


async def _end(transport: asyncio.SubprocessTransport, watch: _ProcessWatch) -> None:
    """End a command and everything it started that is still in its group: ask first, then insist."""
    _signal(transport, signal.SIGTERM)
    await asyncio.wait({watch.exited, watch.closed}, timeout=_GRACE)
    _signal(transport, getattr(signal, "SIGKILL", signal.SIGTERM))
    await asyncio.wait({watch.exited, watch.closed}, timeout=_GRACE)  # closed: nobody is left who could write


def _signal(transport: asyncio.SubprocessTransport, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(transport.get_pid(), number)
        else:
            transport.kill()


def _told(
    kept: CapturedOutput, code: int | None, late: float | None, context: ToolContext, *, left: bool
) -> str | ToolResult:
    output = kept.text()
    output += "\n" if output and not output.endswith("\n") else ""
    if late is not None:
        said = f"{output}[timed out after {late:g} s, and was ended; it may have taken effect in part]"
        return ToolResult(context.call.id, said, is_error=True)
    if left:
        output += "[what it left in the background was ended: send its output elsewhere to keep it running]\n"
    return f"{output}[{_ending(code)}]"


def _ending(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"
