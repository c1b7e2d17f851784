"""Compare the start of the command with `python -c "import click"`: CPU of new processes, in turns.

Both the installed command and `python -m tenuto` are measured; the store has 1,000 sessions. `chat` runs in a terminal until
it is ready for input, and so does a prompt of prompt_toolkit without tenuto: the least that `chat` can use.
"""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.results import Board
from bench.turns import measure_in_turns
from tenuto.core.journal import Configured, MessageAdded, RunEnded
from tenuto.core.messages import UserMessage
from tenuto.core.stored import make_draft
from tenuto.store.open import open_store

REPEAT = 2
SESSIONS = 1000
GOALS = {"tenuto --help": 1.3, "tenuto sessions": 1.6}
_READY = b"\x1b[?2004h"
"""What a terminal gets when the prompt of `chat` accepts input: bracketed paste is switched on."""
_PROMPT = """
import asyncio, click
from prompt_toolkit.shortcuts import PromptSession
async def prompt():
    await PromptSession("you> ").prompt_async()
asyncio.run(prompt())
"""
CLICK = 'python -c "import click"'
_FORBIDDEN = ("asyncio", "aiohttp", "rich")


async def _fill_store(path: Path) -> None:
    async with open_store(path) as store:
        for at in range(SESSIONS):
            entries = (Configured("sim/anthropic"), MessageAdded(UserMessage(f"Question {at}")), RunEnded("completed"))
            lease = await store.lease(f"session-{at}")
            drafts = [make_draft(entry, id=str(n), time_ms=1_700_000_000_000 + at) for n, entry in enumerate(entries)]
            await store.release(await store.append(lease, drafts))


def _commands() -> dict[str, list[str]]:
    script = Path(sys.executable).with_name("tenuto")
    installed = [str(script)] if script.exists() else [sys.executable, "-m", "tenuto"]
    commands = {CLICK: [sys.executable, "-c", "import click"]}
    for prefix, start in (("", installed), ("python -m ", [sys.executable, "-m", "tenuto"])):
        commands |= {f"{prefix}tenuto {word}": [*start, word] for word in ("--help", "sessions")}
    commands["tenuto chat"] = [*installed, "chat", "-m", "sim/anthropic"]
    commands["prompt_toolkit"] = [sys.executable, "-c", _PROMPT, "chat"]
    return commands


def run_program(command: list[str], environment: dict[str, str]) -> float:
    """Run a program; return its CPU seconds."""
    if "chat" in command:
        master, terminal = pty.openpty()
        process = subprocess.Popen(command, env=environment, stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        shown = b""
        while _READY not in shown:
            shown += os.read(master, 4096)
        process.kill()  # what it uses after this is not part of its start
        os.close(master)
    else:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"{command} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def _check_imports(arguments: list[str], environment: dict[str, str]) -> None:
    """Check that the command does not import the forbidden modules."""
    code = f"import sys; from tenuto.cli.main import main; main({arguments}); sys.exit(str({{*{_FORBIDDEN}}} & {{*sys.modules}} or ''))"
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    if process.stderr.strip():
        raise SystemExit(f"tenuto {' '.join(arguments)} loads {process.stderr.strip()}")


def run(board: Board) -> None:
    """Measure this section and add its rows."""
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(_fill_store(Path(name) / "sessions.db"))
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TENUTO_"))}
        environment |= {"TENUTO_HOME": name, "TENUTO_STORE": str(Path(name) / "sessions.db"), "TERM": "xterm"}
        for arguments in (["--help"], ["sessions"]):
            _check_imports(arguments, environment)
        functions = {name: partial(run_program, command, environment) for name, command in _commands().items()}
        for function in functions.values():
            function()  # the first run writes the compiled files
        turns = measure_in_turns(functions, REPEAT)
    for command in functions:
        if command != CLICK:
            name = f"{command}: tenuto / {CLICK}"
            board.add(turns.make_result(name, command, CLICK, goal=GOALS.get(command), unit="ms CPU"))
