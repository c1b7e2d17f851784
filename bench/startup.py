"""What it costs to start the command, beside `python -c "import click"` of the same interpreter: CPU of fresh processes,
measured in turns.

The command is measured as it is installed, and as `python -m tenuto`; the store has 50 sessions.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.results import Board
from bench.turns import in_turns
from tenuto.core.journal import Configured, MessageAdded, RunEnded
from tenuto.core.messages import UserMessage
from tenuto.core.stored import make_draft
from tenuto.store.open import open_store

REPEAT = 2
SESSIONS = 50
GOALS = {"tenuto --help": 1.3, "tenuto sessions": 1.6}
FLOOR = 'python -c "import click"'
_NEVER = ("asyncio", "aiohttp", "rich")


async def _filled(place: Path) -> None:
    async with open_store(place) as store:
        for at in range(SESSIONS):
            acts = (Configured("sim/anthropic"), MessageAdded(UserMessage(f"Question {at}")), RunEnded("completed"))
            lease = await store.lease(f"session-{at}")
            drafts = [make_draft(act, id=str(n), time_ms=1_700_000_000_000 + at) for n, act in enumerate(acts)]
            await store.release(await store.append(lease, drafts))


def _commands() -> dict[str, list[str]]:
    script = Path(sys.executable).with_name("tenuto")
    installed = [str(script)] if script.exists() else [sys.executable, "-m", "tenuto"]
    found = {FLOOR: [sys.executable, "-c", "import click"]}
    for way, start in (("", installed), ("python -m ", [sys.executable, "-m", "tenuto"])):
        found |= {f"{way}tenuto {word}": [*start, word] for word in ("--help", "sessions")}
    return found


def spent(command: list[str], environment: dict[str, str]) -> float:
    """Run a program; return its CPU seconds."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def _loaded(arguments: list[str], environment: dict[str, str]) -> None:
    """Make sure that what is not to be loaded is not."""
    code = f"import sys; from tenuto.cli.main import main; main({arguments}); sys.exit(str({{*{_NEVER}}} & {{*sys.modules}} or ''))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    if done.stderr.strip():
        raise SystemExit(f"tenuto {' '.join(arguments)} loads {done.stderr.strip()}")


def run(board: Board) -> None:
    """Measure, and add the rows."""
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(_filled(Path(name) / "sessions.db"))
        environment = {key: held for key, held in os.environ.items() if not key.startswith(("PYTHON", "TENUTO_"))}
        environment |= {"TENUTO_HOME": name, "TENUTO_STORE": str(Path(name) / "sessions.db")}
        for arguments in (["--help"], ["sessions"]):
            _loaded(arguments, environment)
        acts = {name: partial(spent, command, environment) for name, command in _commands().items()}
        for act in acts.values():
            act()  # the first writes the compiled files
        turns = in_turns(acts, REPEAT)
    for command in acts:
        if command != FLOOR:
            name = f"{command}: ours / {FLOOR}"
            board.add(turns.judged(name, command, FLOOR, goal=GOALS.get(command), unit="ms CPU"))
