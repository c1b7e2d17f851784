"""A tool that runs commands in one directory.

A command is not confined: it can do everything its user can. So it needs approval by default, and its environment is
limited to an allow-list. Its process group is killed on timeout, on cancellation, and when this process dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta

from tenuto.core.messages import ToolResult
from tenuto.tools.builtin.confined_dir import ConfinedDir
from tenuto.tools.execution import ToolContext

ALLOWED_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "HOSTNAME"),
    *("LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"),
    *("TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("XDG_RUNTIME_DIR", "EDITOR", "VISUAL", "PAGER", "CI"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "PYTHONPATH", "NVM_DIR", "NODE_PATH", "GOPATH", "GOROOT"),
    *("CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "GEM_HOME", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CC", "CXX"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    # Windows
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "USERNAME", "HOMEDRIVE", "HOMEPATH"),
    *("APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "NUMBER_OF_PROCESSORS"),
    *("PROCESSOR_ARCHITECTURE",),
)
"""Names, and globs of names, of the variables that every command receives."""
_GRACE = 0.4
"""Seconds between SIGTERM and SIGKILL; twice this is less than the time that a cancelled tool has to clean up."""
_LINGER = 0.3  # seconds to wait for output of background jobs after the command has ended
_SUPERVISED = """
exec 3<&0 </dev/null
( (read -r line <&3 || kill -KILL 0) >/dev/null 2>&1 & )
exec 3<&-
exec /bin/sh -c "$1"
"""
"""Runs `$1` in this process group. Standard input is a pipe from this process: a line on it ends the supervisor in the
background, and the end of the pipe without one (this process was killed) makes it kill the whole group.
"""
_ROOM = 20_000  # number of bytes that are stored of the beginning of the output, and again of its end


def command_environment(environment: Mapping[str, str], pass_env: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables for a command: those of `ALLOWED_VARIABLES` and `pass_env`, and always a `PATH`.

    `pass_env` has names and globs, as in `CARGO_*`. Raise `TypeError` if it is a single string.
    """
    if isinstance(pass_env, str):
        raise TypeError(f"pass_env={pass_env!r} is a single string: pass a list of names")
    patterns = [os.path.normcase(pattern) for pattern in (*ALLOWED_VARIABLES, *pass_env)]
    allowed = {
        name: value
        for name, value in environment.items()
        if any(fnmatchcase(os.path.normcase(name), pattern) for pattern in patterns)
    }
    return {"PATH": os.defpath, **allowed}


class CapturedOutput:
    """The beginning and the end of an output of any length."""

    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    def add(self, data: bytes) -> None:
        self._size += len(data)
        split = max(self._room - len(self._head), 0)
        self._head += data[:split]
        self._tail += data[split:]
        del self._tail[: -self._room]

    def text(self) -> str:
        """Return the stored output with a note about the omitted bytes."""
        missing = self._size - len(self._head) - len(self._tail)
        if not missing:
            return (self._head + self._tail).decode("utf-8", "replace")
        note = f"[{missing:,} of {self._size:,} bytes omitted: write the output to a file and read parts of it]"
        return f"{self._head.decode('utf-8', 'replace')}\n{note}\n{self._tail.decode('utf-8', 'replace')}"


class _ProcessWatch(asyncio.SubprocessProtocol):
    """Receives the output of a command and its end; background jobs may write after that."""

    def __init__(self, output: CapturedOutput) -> None:
        loop = asyncio.get_running_loop()
        self._output = output
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, _fd: int, data: bytes) -> None:
        self._output.add(data)

    def pipe_connection_lost(self, fd: int, _exc: Exception | None) -> None:
        if fd == 1 and not self.closed.done():
            self.closed.set_result(None)

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)


class Shell:
    """The tool as a method. `environment` is that of commands; `seconds` is their timeout."""

    def __init__(self, root: ConfinedDir, environment: Mapping[str, str], seconds: float) -> None:
        self._root = root
        self._environment = dict(environment)
        self._seconds = seconds

    async def shell(
        self, command: str, context: ToolContext, timeout: Annotated[int, Meta(ge=1)] | None = None
    ) -> str | ToolResult:
        """Run a shell command in the working directory. Return its output and exit code. It has no standard input.

        Args:
            command: for /bin/sh, or for cmd on Windows
            context: the call
            timeout: timeout in seconds (capped by the user)
        """
        if "\0" in command or not command.strip():
            raise ValueError("command is empty or contains a NUL character")
        seconds = min(self._seconds, timeout or self._seconds)
        captured = CapturedOutput()
        start = asyncio.create_task(self._start(command, captured))
        try:
            # A cancelled start would kill the shell, but not the processes that the shell has started.
            transport, watch = await asyncio.shield(start)
            exited, _ = await asyncio.wait({watch.exited}, timeout=seconds)
            if exited:
                await asyncio.wait({watch.closed}, timeout=_LINGER)
            is_closed = watch.closed.done()
            stdin = transport.get_pipe_transport(0)
            if exited and is_closed:
                if isinstance(stdin, asyncio.WriteTransport):
                    stdin.write(b"\n")  # ends the supervisor; background jobs continue
            else:
                await _kill(transport, watch)
            code = transport.get_returncode()
        except asyncio.CancelledError:
            await _kill(*await start)
            raise
        finally:
            if start.done() and not start.cancelled() and start.exception() is None:
                start.result()[0].close()
        output = captured.text()
        output += "\n" if output and not output.endswith("\n") else ""
        if not exited:
            note = f"[timed out after {seconds:g} s and was killed; it may have taken effect in part]"
            return ToolResult(context.call.id, output + note, is_error=True)
        if not is_closed:
            output += "[its background jobs were killed: redirect their output to keep them running]\n"
        return f"{output}[{_describe_exit(code)}]"

    async def _start(self, command: str, output: CapturedOutput) -> tuple[asyncio.SubprocessTransport, _ProcessWatch]:
        windows = sys.platform == "win32"
        return await asyncio.get_running_loop().subprocess_exec(
            lambda: _ProcessWatch(output),
            *(("cmd", "/d", "/c", command) if windows else ("/bin/sh", "-c", _SUPERVISED, "/bin/sh", command)),
            stdin=subprocess.DEVNULL if windows else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._root.path,
            env=self._environment,
            start_new_session=not windows,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )


async def _kill(transport: asyncio.SubprocessTransport, watch: _ProcessWatch) -> None:
    """End all processes in the group of a command, first with SIGTERM, then with SIGKILL."""
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(transport.get_pid(), number)
            else:
                transport.kill()
        await asyncio.wait({watch.exited, watch.closed}, timeout=_GRACE)


def _describe_exit(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"
