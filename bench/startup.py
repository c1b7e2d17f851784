"""What it costs to start the command, beside `python -c "import click"` of the same interpreter: CPU of fresh processes,
measured in turns; a figure is the median of the ratios of the turns.

The command is measured as it is installed, and as `python -m tenuto`; the store has 50 sessions.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tenuto.core.journal import Configured, Said, Stopped
from tenuto.core.messages import UserMessage
from tenuto.core.stored import drafted
from tenuto.store.opening import open_store

ROUNDS = 15
SESSIONS = 50
GOALS = {"tenuto --help": 1.3, "tenuto sessions": 1.6}
FLOOR = 'python -c "import click"'
_NEVER = ("asyncio", "aiohttp", "rich")


async def _filled(place: Path) -> None:
    async with open_store(place) as store:
        for at in range(SESSIONS):
            acts = (Configured("sim/anthropic"), Said(UserMessage(f"Question {at}")), Stopped("completed"))
            lease = await store.lease(f"session-{at}")
            drafts = [drafted(act, id=str(n), at=1_700_000_000_000 + at) for n, act in enumerate(acts)]
            await store.release(await store.append(lease, drafts))


def _commands() -> dict[str, list[str]]:
    script = Path(sys.executable).with_name("tenuto")
    installed = [str(script)] if script.exists() else [sys.executable, "-m", "tenuto"]
    found = {FLOOR: [sys.executable, "-c", "import click"]}
    for way, start in (("", installed), ("python -m ", [sys.executable, "-m", "tenuto"])):
        found |= {f"{way}tenuto {word}": [*start, word] for word in ("--help", "sessions")}
    return found


def _spent(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Run a program; return its CPU and wall seconds."""
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, wall


def _loaded(arguments: list[str], environment: dict[str, str]) -> None:
    """Make sure that what is not to be loaded is not."""
    code = f"import sys; from tenuto.cli.main import main; main({arguments}); sys.exit(str({{*{_NEVER}}} & {{*sys.modules}} or ''))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    if done.stderr.strip():
        raise SystemExit(f"tenuto {' '.join(arguments)} loads {done.stderr.strip()}")


def run(row) -> None:
    """Measure, and hand each figure to `row(name, ratio, goal, detail)`."""
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(_filled(Path(name) / "sessions.db"))
        environment = {key: held for key, held in os.environ.items() if not key.startswith(("PYTHON", "TENUTO_"))}
        environment |= {"TENUTO_HOME": name, "TENUTO_STORE": str(Path(name) / "sessions.db")}
        commands = _commands()
        for arguments in (["--help"], ["sessions"]):
            _loaded(arguments, environment)
        turns = [{name: _spent(command, environment) for name, command in commands.items()} for _ in range(ROUNDS + 1)][
            1:
        ]  # the first turn writes the compiled files
    for name in commands:
        if name == FLOOR:
            continue
        cpu, wall = (statistics.median(turn[name][at] / turn[FLOOR][at] for turn in turns) for at in (0, 1))
        ours, floor = (min(turn[which][0] for turn in turns) * 1e3 for which in (name, FLOOR))
        detail = f"{ours:.0f} against {floor:.0f} ms CPU for {FLOOR}; wall {wall:.2f}"
        row(name, cpu, GOALS.get(name), detail)


if __name__ == "__main__":
    run(lambda name, ratio, goal, detail: print(f"{name:42} {ratio:6.2f}  {goal}  {detail}"))
