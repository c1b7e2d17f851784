"""The `store` part of the sweep: leases, appends, forks and all other operations of a store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

import tenuto.store
from crash.experiments import COMMITS, Experiment
from crash.store_check import StoreCheck
from crash.tracing import COMMIT, Marked, Point, WatchedFiles
from crash.work import Verdict
from crash.workload import ProgressLog, play_again
from tenuto.store import entries
from tenuto.store.sql_store import SqlStore

FOLDER = Path(tenuto.store.__file__).parent


def _acknowledge_early(continues: bool) -> None:
    """Acknowledge an append before its commit."""
    if continues:
        return
    logged, log, real_append = threading.Event(), ProgressLog.__call__, SqlStore.append

    def log_and_set(self, what, **facts):
        log(self, what, **facts)
        logged.set()

    async def append(self, lease, drafts, **how):
        crew = self._state()
        if how or crew.leases.get(lease) is None:
            return await real_append(self, lease, drafts, **how)
        logged.clear()

        def work(driver):
            entries.append(driver, crew.leases, lease, tuple(drafts))
            logged.wait(0.2)  # not every write is logged

        crew.writer.submit_nowait(work)
        return msgspec.structs.replace(lease, head=lease.head + len(drafts))

    ProgressLog.__call__ = log_and_set
    SqlStore.append = append


class StoreWork:
    """See `crash.work.Work`."""

    name = "store"
    scenarios = ("writing", "keeping", "making")
    brief = ("writing", "making")
    packages = ("tenuto.store",)
    breakages: dict[str, Callable[[bool], None]] = {"early-acknowledgement": _acknowledge_early}

    def __init__(self) -> None:
        files = {path: path.name for path in sorted(FOLDER.glob("*.py"))}
        self.watched = WatchedFiles(files, {"memory.py": "keeps nothing when its process ends"})

    def is_revealing(self, point: Point) -> bool:
        return (point.file, point.role, point.which) == (COMMIT, "writer", "before")

    def marked(self, kind: str) -> tuple[Marked, ...]:
        return COMMITS[kind]

    def play(self, experiment: Experiment) -> None:
        asyncio.run(play_again(experiment, ProgressLog(str(experiment.log_path))))

    def record_reference(self, kind: str, experiment: Experiment) -> None:
        """The expected result is fixed."""

    async def check_all(self, experiments: Sequence[Experiment], finish: Sequence[bool]) -> list[Verdict]:
        checks = [StoreCheck(experiment) for experiment in experiments]
        async with experiments[0].open_database() as store, experiments[0].open_database() as other:
            for check, so_far in zip(checks, finish, strict=True):
                await check.look(check.experiment.open_view(store), check.experiment.open_view(other), so_far)
            checks[-1].wrong += [f"verify after all experiments: {fault}" for fault in await store.verify()]
            await experiments[0].clean_up(store)
        return [Verdict(check.wrong, check.waiting) for check in checks]
