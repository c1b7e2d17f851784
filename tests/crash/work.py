"""The interface of a sweep to its work: the workload of the stores, or the runs of the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from crash.experiments import Experiment
from crash.tracing import Marked, Point, WatchedFiles


class Verdict(NamedTuple):
    """The violations in one experiment, and the number of leases that could not be acquired."""

    wrong: list[str]
    waiting: int = 0


class Work(Protocol):
    """Scenarios that run in a child until it is killed, and the checks of what is left.

    `stories` are run one after the other, `brief` are those of a sample. The caches of `packages` are cleared before each
    scenario. `spoils` are functions that break tenuto, to see that the checks fail; their argument is False in the process
    that is killed and True in the one that continues.
    """

    name: str
    scenarios: tuple[str, ...]
    brief: tuple[str, ...]
    packages: tuple[str, ...]
    watched: WatchedFiles
    breakages: dict[str, Callable[[bool], None]]

    def is_revealing(self, point: Point) -> bool:
        """Return True if a kill at such a point reveals a breakage at least once."""

    def marked(self, kind: str) -> tuple[Marked, ...]:
        """Return the methods that are marks."""

    def play(self, experiment: Experiment) -> None:
        """Run a scenario from the beginning to the end."""

    def record_reference(self, kind: str, experiment: Experiment) -> None:
        """Record the result of a run without a kill; called in the parent of the checking processes."""

    async def check_all(self, experiments: Sequence[Experiment], finish: Sequence[bool]) -> list[Verdict]:
        """Check experiments that share a database, or one with its own."""


async def create_tables(experiment: Experiment) -> None:
    """Create the tables."""
    async with experiment.open_database() as store:
        await store.gc()


def run_create_tables(experiment: Experiment) -> None:
    asyncio.run(create_tables(experiment))
