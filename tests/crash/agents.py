"""The agent's part of the sweep: runs with tools, against a simulator that lives on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

import tenuto
from crash import agent_tools
from crash.agent_judge import AgentJudge, Uncut, entries_of
from crash.places import COMMITS, Place
from crash.provider import Provider
from crash.stories import STORIES, session_of
from crash.tracing import EVENT, Marked, Point, Watched
from crash.work import Verdict
from tenuto.agent import tool_calls
from tenuto.agent.session import AsyncSession
from tenuto.agent.session_log import SessionLog
from tenuto.core.journal import CallFinished, CallStarted, Entry, TranscriptFold

SOURCES = Path(tenuto.__file__).parent
TOOLS = "the tools that are run"
PAID = 1 + next(at for at, line in enumerate(Path(agent_tools.__file__).read_text().splitlines()) if "paid {" in line)


# --- ways to break it -------------------------------------------------------------------------------------------------


def _unstarted(goes_on: bool) -> None:
    """Run tools without writing that they are about to run."""
    real = SessionLog.append

    async def append(self, *acts, **how):
        await real(self, *(act for act in acts if not isinstance(act, CallStarted)), **how)

    SessionLog.append = append


def _twice(goes_on: bool) -> None:
    """Run a tool again that may run once."""
    tool_calls.AGAIN = ("pure", "idempotent", "keyed", "once")


def _unordered(goes_on: bool) -> None:
    """Hand results back in the order in which they came."""
    real = TranscriptFold.apply

    def take(self, entry: Entry) -> None:
        real(self, entry)
        if isinstance(entry.payload, CallFinished) and goes_on:
            results = list(self._results.values())
            self._results = dict(zip(sorted(self._results), results[::-1], strict=True))

    TranscriptFold.apply = take


def _forgetful(goes_on: bool) -> None:
    """Write that a call returned, and nothing of what it gave."""
    real = SessionLog.append

    async def append(self, *acts, **how):
        await real(self, *(_emptied(act) if isinstance(act, CallFinished) and goes_on else act for act in acts), **how)

    SessionLog.append = append


def _emptied(act: CallFinished) -> CallFinished:
    return msgspec.structs.replace(act, result=msgspec.structs.replace(act.result, content=""))


class AgentWork:
    """See `crash.work.Work`."""

    name = "agent"
    stories = tuple(STORIES)
    brief = ("plain",)
    packages = ("tenuto.agent", "tenuto.tools", "tenuto.client.transport")
    spoils: dict[str, Callable[[bool], None]] = {
        "unstarted": _unstarted,
        "twice": _twice,
        "unordered": _unordered,
        "forgetful": _forgetful,
    }

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        os.environ["TENUTO_SIM_URL"] = provider.url
        found = [*SOURCES.glob("agent/**/*.py"), *SOURCES.glob("tools/**/*.py"), SOURCES / "client" / "transport.py"]
        files = {path: str(path.relative_to(SOURCES)) for path in sorted(found)}
        self.watched = Watched({**files, Path(agent_tools.__file__): TOOLS}, {})
        self.uncut: dict[tuple[str, str], Uncut] = {}

    def tells(self, point: Point) -> bool:
        """In the tool that may be run once, when it has taken effect."""
        return (point.file, point.line, point.role) == (TOOLS, PAID, "tool-pay")

    def marked(self, kind: str) -> tuple[Marked, ...]:
        return (*COMMITS[kind], (AsyncSession, "_emit", EVENT))

    def play(self, place: Place) -> None:
        STORIES[place.story].begin(place)

    def refer(self, kind: str, place: Place) -> None:
        """Take note of what a run leaves that nobody kills."""
        entries = asyncio.run(_read(place))
        self.uncut[kind, place.story] = Uncut(entries, len(self.provider.heard(place.folder.name)))

    async def judged(self, places: Sequence[Place], to_the_end: Sequence[bool]) -> list[Verdict]:
        judges = [AgentJudge(place, self.provider, self.uncut[place.kind, place.story]) for place in places]
        async with places[0].whole() as store:
            for judge in judges:
                await judge.look(store)
                self.provider.forget(judge.place.folder.name)
            await places[0].leave(store)
        return [Verdict(judge.wrong) for judge in judges]


async def _read(place: Place) -> list[Entry]:
    async with place.whole() as store:
        return await entries_of(store, session_of(place))
