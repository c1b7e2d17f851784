"""Keeping vectors: what a table, a file of JSON lines and stdout have in common."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from tenuto.cli.embedding.items import Item

__all__ = ["Answered", "Keeper", "Kept", "Shelf", "packed"]

Answered: TypeAlias = tuple[Item, tuple[float, ...]]
"""An item and its vector."""


class Kept(NamedTuple):
    """What all vectors of a place have in common. `asked` dimensions were asked for; 0: the model's own."""

    model: str
    dimensions: int
    asked: int = 0


class Keeper(Protocol):
    """Where vectors go."""

    @property
    def where(self) -> str:
        """The place, as it is told to people."""

    @property
    def ordered(self) -> bool:
        """Whether they have to come in the order of their items."""

    def kept(self) -> Kept | None:
        """What the vectors that are there have in common; None if there are none."""

    def left(self, items: Sequence[Item]) -> list[Item]:
        """Return those of the items that have no vector yet, or whose text has changed."""

    def put(self, batch: Sequence[Answered], kept: Kept) -> None:
        """Keep vectors, all or none of them; when this returns, they outlive whatever happens to the process."""

    def close(self) -> None:
        """Let go of it."""


class Shelf(Protocol):
    """Where vectors are read."""

    def kept(self) -> Kept | None:
        """What they have in common; None if there are none."""

    def vectors(self) -> Iterator[list[tuple[str, bytes]]]:
        """Yield ids and vectors, packed, some at a time."""

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the texts of items."""

    def close(self) -> None:
        """Let go of it."""


def packed(vector: Sequence[float]) -> bytes:
    """Return a vector as floats of four bytes, the low one first."""
    return struct.pack(f"<{len(vector)}f", *vector)
