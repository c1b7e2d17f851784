"""The command as it is called: in this process, as a process of its own, and in a pseudo-terminal."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import select
import struct
import subprocess
import sys
import time
from contextlib import redirect_stdout, suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from cli.virtual_terminal import VirtualTerminal
from tenuto import settings
from tenuto.catalog import PROVIDERS
from tenuto.core.journal import MessageAdded
from tenuto.store.open import open_store

PATIENCE = 30
TOOLS = '''
import asyncio, signal
from pathlib import Path

from tenuto import AsyncAgent, tool

def begun():
    """Report the start of a call to the test that waits for it."""
    if Path("begun").is_fifo() and not Path("go").exists():
        Path("begun").write_text("")

async def wait():
    while not Path("go").exists():
        await asyncio.sleep(0.01)

@tool
def dig(depth: int) -> str:
    """Dig."""
    print("noise")
    return f"{depth} m deep"

again = dig

@tool(approval=True)
def blast(where: str) -> str:
    """Blast."""
    return f"{where} is gone"

@tool(approval=True)
def flood(where: str) -> str:
    """Flood."""
    return f"{where} is wet"

@tool(effect="pure")
async def look(at: str) -> str:
    """Look; wait for the file `go`."""
    begun()
    await wait()
    return f"{at} is there"

@tool
async def act(on: str) -> str:
    """Act; wait for the file `go`."""
    await wait()
    return f"{on} is done"

@tool
async def deaf(on: str) -> str:
    """Ignore a cancellation."""
    begun()
    try:
        await wait()
    except asyncio.CancelledError:
        begun()
        await asyncio.sleep(60)
        raise
    return f"{on} is done"

@tool
async def ring(number: int) -> str:
    """Raise a signal."""
    signal.raise_signal(number)
    await asyncio.sleep(60)
    return "no signal"

helper = AsyncAgent("sim/anthropic", tools=[dig, blast]).as_tool("helper")
'''
"""The module `tools` of the fixture `tools`."""
_ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal the controlling one: for Ctrl-C and /dev/tty."""


class Done(NamedTuple):
    """The result of a call of the command."""

    code: int
    out: str
    err: str


class Terminal:
    """A command in a pseudo-terminal. `seen` is its output; `end` and `display` return the text on the screen."""

    def __init__(self, command, env, cwd, stdin=None, stdout=None, *, columns=200, rows=50):
        self._master, slave = os.openpty()
        self.seen = ""
        self._sizes = []
        self.resize(columns, rows)
        wrapped = [sys.executable, "-S", "-c", _ON_TERMINAL, *command]
        if stdin is not None:  # a pipe in its place, while the terminal stays the terminal
            wrapped[3] = _ON_TERMINAL.replace("ioctl(0", "ioctl(2")
        self.process = subprocess.Popen(
            wrapped,
            stdin=slave if stdin is None else stdin,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        os.close(slave)

    def expect(self, pattern):
        """Read until the output matches, control sequences included; return it."""
        return self._read_until(pattern, lambda: self.seen)

    def expect_screen(self, pattern):
        """Read until the text on the screen matches; return it."""
        return self._read_until(pattern, lambda: self.display().text)

    def _read_until(self, pattern, text):
        until = time.monotonic() + PATIENCE
        while not re.search(pattern, text()):
            assert time.monotonic() < until, f"{pattern!r} was not seen in\n{text()}"
            assert self._read(), f"{pattern!r} was not seen in\n{text()}"
        return text()

    def type(self, text):
        os.write(self._master, text.encode())

    def answer(self, *pairs):
        """Type each text when its pattern is on the screen."""
        for pattern, text in pairs:
            self.expect_screen(pattern)
            self.type(text)

    def interrupt(self):
        """Type Ctrl-C until the command ends.

        Python handles a signal that arrives just before `readline` blocks only after the next key.
        """
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            self.type("\x03")
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(1)

    def end(self):
        """Read to the end; return the exit code and the text on the screen."""
        while self._read():
            pass
        return self.process.wait(PATIENCE), self.display().text

    def resize(self, columns, rows):
        """Resize the window; the command gets a signal."""
        import fcntl
        import termios

        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._sizes.append((len(self.seen), columns, rows))

    def display(self):
        """Return the screen."""
        (_, *first), *later = self._sizes
        display, at = VirtualTerminal(*first), 0
        for end, *size in later:
            display.feed(self.seen[at:end]).resize(*size)
            at = end
        return display.feed(self.seen[at:])

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _read(self):
        ready, _, _ = select.select([self._master], [], [], PATIENCE)
        assert ready, f"nothing more was seen after {self.seen!r}"
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += piece.decode("utf-8", "replace")
        return bool(piece)


class Tenuto:
    """Calls the command as a process, in one directory and with one store."""

    def __init__(self, folder, env):
        self.folder = folder
        self.store = str(folder / "sessions.db")
        self.env = {name: value for name, value in env.items() if not name.startswith(("TENUTO_", "PYTHON"))}
        self.env |= {"TENUTO_SIM_URL": env["TENUTO_SIM_URL"], "TENUTO_MODEL": "sim/anthropic", "TERM": "xterm"}
        self.env |= {"TENUTO_STORE": self.store, "TENUTO_HOME": str(folder / "home"), "PYTHONWARNINGS": "error"}
        plain = folder / "plain"  # without the extra `prices`, which loads slowly
        plain.mkdir()
        (plain / "genai_prices.py").write_text("raise ImportError")
        self.env["PYTHONPATH"] = str(plain)
        self._left = []

    def look(self, *arguments):
        """Call a command that only reads, in this process, which is faster; return its output."""
        from tenuto.cli.main import main

        with redirect_stdout(io.StringIO()) as out:
            assert 0 == main([*arguments, "--store", self.store])
        return out.getvalue()

    def command(self, *arguments):
        return [sys.executable, "-m", "tenuto", *arguments]

    def start(self, *arguments, **rest):
        """Start the command; nothing is a terminal."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | rest
        process = subprocess.Popen(
            self.command(*arguments), env=self.env, cwd=self.folder, start_new_session=True, text=True, **options
        )
        self._left.append(process)
        return process

    def run(self, *arguments, **rest):
        """Run the command to its end."""
        process = self.start(*arguments, **rest)
        out, err = process.communicate(timeout=PATIENCE)
        return Done(process.returncode, out or "", err or "")

    def terminal(self, *arguments, **rest):
        """Run the command in a terminal."""
        terminal = Terminal(self.command(*arguments), self.env, self.folder, **rest)
        self._left.append(terminal)
        return terminal

    def close(self):
        for one in self._left:
            if isinstance(one, Terminal):
                one.close()
                continue
            if one.poll() is None:
                one.kill()
            one.wait()
            for stream in (one.stdout, one.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture
def tenuto(tenuto_sim, tmp_path):
    """The command as a process, with a simulator and a store in a file."""
    calls = Tenuto(tmp_path, dict(os.environ))
    yield calls
    calls.close()


@pytest.fixture
def real_providers(tenuto_sim):
    """The simulator answers `sim/...` only: providers need their keys, and are at the URL of their settings."""
    from tenuto.testing import override

    hosts = [urlsplit(row.base_url).hostname or "" for row in PROVIDERS.values()]
    with override(tenuto_sim, network=["127.0.0.1", "nowhere.invalid", *hosts]):
        yield


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    """Hide the keys of the developer: no provider gets a request."""
    for row in PROVIDERS.values():
        for name in (*row.key_env, *row.bearer_env):
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def here(tenuto_sim, monkeypatch, capfd, tmp_path):
    """Call the command in this process; its sessions are in memory."""
    from tenuto.cli.main import main

    monkeypatch.setenv("TENUTO_MODEL", "sim/anthropic")
    monkeypatch.setenv("TENUTO_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TENUTO_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)

    def call(*arguments, stdin=None):
        with monkeypatch.context() as patched:
            if stdin is not None:
                file = tmp_path / "stdin"
                file.write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
                patched.setattr(sys, "stdin", io.TextIOWrapper(file.open("rb"), "utf-8"))
            capfd.readouterr()
            try:
                code = main(arguments)
            except SystemExit as exc:
                code = exc.code
            if stdin is not None:
                sys.stdin.close()
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return call


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The directory of settings, keys and history."""
    monkeypatch.setenv("TENUTO_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir(mode=0o700)
    return tmp_path / "home"


@pytest.fixture
def config(home):
    """Write the config file; return its path."""

    def write(text=""):
        (home / "config.toml").write_bytes(text.encode())
        return home / "config.toml"

    return write


@pytest.fixture
def keys(home):
    """Write the key file; return its path."""

    def write(stored, mode=0o600):
        file = home / "keys.json"
        file.write_text(stored if isinstance(stored, str) else json.dumps(stored), "utf-8")
        file.chmod(mode)
        return file

    return write


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Write the module `tools` into the directory of the command."""
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tools", raising=False)


@pytest.fixture
def calls(tools, tmp_path):
    """Wait until a call of the module `tools` has started."""
    os.mkfifo(tmp_path / "begun")
    return (tmp_path / "begun").read_text  # opens when the tool does


def with_store(act):
    """Call a function with the store that the command in this process uses; return its result."""

    async def play():
        async with open_store(settings.store()) as store:
            return await act(store)

    return asyncio.run(play())


def stored_sessions():
    """Return the sessions, the newest first, each with its entries."""

    async def read(store):
        return [(one, await store.read(one.id)) for one in (await store.sessions(archived=None)).sessions]

    return with_store(read)


def user_messages(entries):
    return [str(entry.payload.message) for entry in entries if isinstance(entry.payload, MessageAdded)]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module into the folder of the command, with a name of its own for each test; return the name."""

    def write(text):
        name = f"module_of_{abs(hash(tmp_path))}"
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        return name

    return write


@pytest.fixture
def unset(here, monkeypatch):
    """Remove model and simulator of the tests: each call of `here` starts its own simulator, as for a user."""
    for name in ("TENUTO_MODEL", "TENUTO_SIM_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setattr("tenuto.client.routing.overrides", [])
