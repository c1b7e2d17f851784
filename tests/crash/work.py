"""What a sweep needs to know of the work that is swept: the stores' and the agent's are each one of these."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from crash.places import Place
from crash.tracing import Marked, Point, Watched


class Verdict(NamedTuple):
    """What is wrong with what one of the dead left, and how many leases of its were not to be had."""

    wrong: list[str]
    waiting: int = 0


class Work(Protocol):
    """Something that is done in a child and dies there, and how to judge what is left.

    `stories` are told one after the other, `brief` is how many of them are told where time is short. `packages` are those
    whose memories are wiped before a story, so that all of their lines are come to. `spoils` break the product, so that
    something is found: they are told whether they are in the process that goes on, or in the one that dies.
    """

    name: str
    stories: tuple[str, ...]
    brief: tuple[str, ...]
    packages: tuple[str, ...]
    watched: Watched
    spoils: dict[str, Callable[[bool], None]]

    def tells(self, point: Point) -> bool:
        """Whether a product that is spoilt is sure to be found out if it dies here, at one of these points at least."""

    def marked(self, kind: str) -> tuple[Marked, ...]:
        """Say which methods are marks."""

    def play(self, place: Place) -> None:
        """Do it, from the beginning to the end."""

    def refer(self, kind: str, place: Place) -> None:
        """Take note of what was left by one that nobody killed; called where all who judge come from."""

    async def judged(self, places: Sequence[Place], to_the_end: Sequence[bool]) -> list[Verdict]:
        """Judge places that share a database, or one that has its own."""


async def opened(place: Place) -> None:
    """Make the tables."""
    async with place.whole() as store:
        await store.gc()


def run_opened(place: Place) -> None:
    asyncio.run(opened(place))
