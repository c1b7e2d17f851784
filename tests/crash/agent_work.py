"""The `agent` part of the sweep: runs with tools, with a simulator in another process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

import tenuto
from crash import agent_tools
from crash.agent_check import AgentCheck, Reference, entries_of
from crash.experiments import COMMITS, Experiment
from crash.provider import SimulatorProcess
from crash.scenarios import SCENARIOS, session_of
from crash.tracing import EVENT, Marked, Point, WatchedFiles
from crash.work import Verdict
from tenuto.agent import tool_calls
from tenuto.agent.session import AsyncSession
from tenuto.agent.session_log import SessionLog
from tenuto.core.journal import CallFinished, CallStarted, Entry, TranscriptFold

SOURCES = Path(tenuto.__file__).parent
TOOLS = "the tools that are run"
PAY_LINE = 1 + next(
    at for at, line in enumerate(Path(agent_tools.__file__).read_text().splitlines()) if "paid {" in line
)


# --- breakages -------------------------------------------------------------------------------------------------


def _skip_start(continues: bool) -> None:
    """Run tools without writing `CallStarted`."""
    real = SessionLog.append

    async def append(self, *acts, **how):
        await real(self, *(act for act in acts if not isinstance(act, CallStarted)), **how)

    SessionLog.append = append


def _repeat_calls(continues: bool) -> None:
    """Repeat calls that may run only once."""
    tool_calls.AGAIN = ("pure", "idempotent", "keyed", "once")


def _reverse_results(continues: bool) -> None:
    """Return results in reverse order."""
    real = TranscriptFold.apply

    def take(self, entry: Entry) -> None:
        real(self, entry)
        if isinstance(entry.payload, CallFinished) and continues:
            results = list(self._results.values())
            self._results = dict(zip(sorted(self._results), results[::-1], strict=True))

    TranscriptFold.apply = take


def _empty_results(continues: bool) -> None:
    """Write empty results."""
    real = SessionLog.append

    async def append(self, *acts, **how):
        await real(self, *(_empty(act) if isinstance(act, CallFinished) and continues else act for act in acts), **how)

    SessionLog.append = append


def _empty(act: CallFinished) -> CallFinished:
    return msgspec.structs.replace(act, result=msgspec.structs.replace(act.result, content=""))


class AgentWork:
    """See `crash.work.Work`."""

    name = "agent"
    scenarios = tuple(SCENARIOS)
    brief = ("plain",)
    packages = ("tenuto.agent", "tenuto.tools", "tenuto.client.transport")
    breakages: dict[str, Callable[[bool], None]] = {
        "missing-start": _skip_start,
        "repeated-call": _repeat_calls,
        "reversed-results": _reverse_results,
        "empty-results": _empty_results,
    }

    def __init__(self, provider: SimulatorProcess) -> None:
        self.provider = provider
        os.environ["TENUTO_SIM_URL"] = provider.url
        found = [*SOURCES.glob("agent/**/*.py"), *SOURCES.glob("tools/**/*.py"), SOURCES / "client" / "transport.py"]
        files = {path: str(path.relative_to(SOURCES)) for path in sorted(found)}
        self.watched = WatchedFiles({**files, Path(agent_tools.__file__): TOOLS}, {})
        self.reference: dict[tuple[str, str], Reference] = {}

    def is_revealing(self, point: Point) -> bool:
        """Return True in the tool that may run once, after its effect."""
        return (point.file, point.line, point.role) == (TOOLS, PAY_LINE, "tool-pay")

    def marked(self, kind: str) -> tuple[Marked, ...]:
        return (*COMMITS[kind], (AsyncSession, "_emit", EVENT))

    def play(self, experiment: Experiment) -> None:
        SCENARIOS[experiment.scenario].begin(experiment)

    def record_reference(self, kind: str, experiment: Experiment) -> None:
        """Record the result of a run without a kill."""
        entries = asyncio.run(_read(experiment))
        self.reference[kind, experiment.scenario] = Reference(
            entries, len(self.provider.exchanges(experiment.directory.name))
        )

    async def check_all(self, experiments: Sequence[Experiment], finish: Sequence[bool]) -> list[Verdict]:
        checks = [
            AgentCheck(experiment, self.provider, self.reference[experiment.kind, experiment.scenario])
            for experiment in experiments
        ]
        async with experiments[0].open_database() as store:
            for check in checks:
                await check.look(store)
                self.provider.forget(check.experiment.directory.name)
            await experiments[0].clean_up(store)
        return [Verdict(check.wrong) for check in checks]


async def _read(experiment: Experiment) -> list[Entry]:
    async with experiment.open_database() as store:
        return await entries_of(store, session_of(experiment))
