"""The stores' part of the sweep: leases, appends, forks and all else that a store does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

import tenuto.store
from crash.judge import Judge
from crash.places import COMMITS, Place
from crash.tracing import COMMIT, Marked, Point, Watched
from crash.work import Verdict
from crash.workload import Voice, played
from tenuto.store import entries
from tenuto.store.sql_store import SqlStore

FOLDER = Path(tenuto.store.__file__).parent


def _hurry(goes_on: bool) -> None:
    """Make a store that acknowledges an append before it is committed, and commits when that was said."""
    if goes_on:
        return
    said, speak, honest = threading.Event(), Voice.__call__, SqlStore.append

    def spoken(self, what, **facts):
        speak(self, what, **facts)
        said.set()

    async def append(self, lease, drafts, **how):
        crew = self._state()
        if how or crew.leases.get(lease) is None:
            return await honest(self, lease, drafts, **how)
        said.clear()

        def work(driver):
            entries.append(driver, crew.leases, lease, tuple(drafts))
            said.wait(0.2)  # not everything that is written is said

        crew.writer.submit_nowait(work)
        return msgspec.structs.replace(lease, head=lease.head + len(drafts))

    Voice.__call__ = spoken
    SqlStore.append = append


class StoreWork:
    """See `crash.work.Work`."""

    name = "store"
    stories = ("writing", "keeping", "making")
    brief = ("writing", "making")
    packages = ("tenuto.store",)
    spoils: dict[str, Callable[[bool], None]] = {"hurry": _hurry}

    def __init__(self) -> None:
        files = {path: path.name for path in sorted(FOLDER.glob("*.py"))}
        self.watched = Watched(files, {"memory.py": "keeps nothing when its process ends"})

    def tells(self, point: Point) -> bool:
        return (point.file, point.role, point.which) == (COMMIT, "writer", "before")

    def marked(self, kind: str) -> tuple[Marked, ...]:
        return COMMITS[kind]

    def play(self, place: Place) -> None:
        asyncio.run(played(place, Voice(str(place.said))))

    def refer(self, kind: str, place: Place) -> None:
        """What is to be there in the end is known beforehand."""

    async def judged(self, places: Sequence[Place], to_the_end: Sequence[bool]) -> list[Verdict]:
        judges = [Judge(place) for place in places]
        async with places[0].whole() as store, places[0].whole() as other:
            for judge, so_far in zip(judges, to_the_end, strict=True):
                await judge.look(judge.place.part(store), judge.place.part(other), so_far)
            judges[-1].wrong += [f"in the end, verify: {fault}" for fault in await store.verify()]
            await places[0].leave(store)
        return [Verdict(judge.wrong, judge.waiting) for judge in judges]
