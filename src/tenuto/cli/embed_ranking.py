"""What is most alike: the cosine of the angle between a vector and each of a collection.

Only the best are held, so a collection may be larger than memory. `math.dist` and `math.hypot` go through a vector in C:
10,000 vectors of 1,536 numbers take half a second, most of which is reading them; numpy would save less than loading it costs.
"""

from __future__ import annotations

import heapq
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import mul
from typing import NamedTuple, TypeAlias

__all__ = ["Ranked", "cosines", "ranked"]

Cosines: TypeAlias = Callable[[Sequence[bytes]], list[float | None]]
_NEAR = 1e3
_DIGITS = 9
"""More of them would be chance, and decide which of two equals comes first."""


class Ranked(NamedTuple):
    """The best, and how many vectors had no direction: all numbers 0, so that nothing is like them."""

    best: list[tuple[float, str]]
    without: int


def ranked(wanted: bytes, pages: Iterable[Sequence[tuple[str, bytes]]], most: int, but: str | None = None) -> Ranked:
    """Return the scores and ids of the vectors that are most like one, the best first, equal ones by their ids.

    Vectors are packed, and all as long as the one that is wanted. `but` is the id of one that does not count.
    """
    without = 0

    def scored() -> Iterator[tuple[float, str]]:
        nonlocal without
        measure = cosines(wanted)
        for page in pages:
            for (id, _), score in zip(page, measure([vector for _, vector in page]), strict=True):
                if score is None:
                    without += 1
                elif id != but:
                    yield score, id

    best = heapq.nsmallest(most, scored(), key=lambda one: (-one[0], one[1]))
    return Ranked(best, without)


def cosines(wanted: bytes) -> Cosines:
    """Return what measures vectors against one; None for those without a direction."""
    unpack = struct.Struct(f"<{len(wanted) // 4}f").unpack
    whole = unpack(wanted)
    length = math.hypot(*whole)
    unit = tuple(number / length for number in whole) if length else whole

    def cosine(vector: bytes) -> float | None:
        numbers = unpack(vector)
        long = math.hypot(*numbers)
        if not (length and long):
            return None
        if 1 / _NEAR < long < _NEAR:  # a * b from a, b and their distance: good as long as the two are about as long
            product = (1 + long * long - math.dist(numbers, unit) ** 2) / 2
        else:
            product = sum(map(mul, numbers, unit))
        return _score(product / long)

    return lambda vectors: [cosine(vector) for vector in vectors]


def _score(cosine: float) -> float:
    return max(-1.0, min(1.0, round(cosine, _DIGITS)))
