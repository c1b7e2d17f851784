"""What is most alike: the cosine of the angle between the vector of a text and each that is kept.

Only the best are held, so there may be more than memory holds. `math.dist` and `math.hypot` go through a vector in C: 10,000
vectors of 1,536 numbers take half a second, most of which is reading them; numpy would save less than loading it costs.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from operator import mul
from typing import NamedTuple, TypeAlias

import click

from tenuto.cli.columns import columns
from tenuto.cli.embedding.asking import asked, client, complained, said, vector_of
from tenuto.cli.embedding.keeping import Kept, Shelf, packed
from tenuto.cli.embedding.options import Wanted
from tenuto.cli.embedding.places import place, shelf
from tenuto.cli.escaping import one_line
from tenuto.cli.exits import Exit
from tenuto.cli.progress import progress
from tenuto.cli.screen import write_document, write_text
from tenuto.core import jsonio
from tenuto.errors import TenutoError

__all__ = ["Ranked", "cosines", "ranked", "similar"]

Cosines: TypeAlias = Callable[[Sequence[bytes]], list[float | None]]
_ID, _PIECE = 60, 70
_NEAR = 1e3
_DIGITS = 9
"""More of them would be chance, and decide which of two equals comes first."""


def similar(wanted: Wanted) -> int:
    """Print what is most like a text."""
    with closing(shelf(place(wanted["into"]))) as shelved:
        try:
            return _similar(wanted, shelved)
        except TenutoError as exc:
            return complained(exc)


def _similar(wanted: Wanted, shelved: Shelf) -> int:
    kept = shelved.kept()
    if kept is None:
        raise click.UsageError("nothing is embedded there yet: begin with tenuto embed FOLDER")
    vector = _vector_of(wanted, kept)
    if not any(vector):
        raise TenutoError("all numbers of that vector are 0, so nothing is like it: say something else")
    with progress("ranking", quiet=wanted["quiet"]) as bar:

        def pages() -> Iterator[list[tuple[str, bytes]]]:
            for page in shelved.vectors():
                yield page
                bar.advance(len(page))

        found = ranked(vector, pages(), wanted["number"])
    texts = shelved.texts([id for _, id in found.best])
    if wanted["json"]:
        rows = [{"score": score, "id": id, "text": texts[id]} for score, id in found.best]
        write_document(jsonio.encode(rows))
    elif found.best:
        lines = [(f"{score:.3f}", one_line(id, _ID), one_line(texts[id], _PIECE)) for score, id in found.best]
        write_text(columns([("SCORE", "ID", "TEXT"), *lines]))
    if found.without and not wanted["quiet"]:
        click.echo(f"{found.without} left out: all their numbers are 0, so nothing is like them", err=True)
    return Exit.DONE


def _vector_of(wanted: Wanted, kept: Kept) -> bytes:
    """Ask for the vector of what was said, of the model that made the others."""
    text = said(wanted["similar"] or "", "--similar")

    async def act() -> tuple[float, ...]:
        async with client() as ai:
            who = asked(ai, kept, wanted["model"], wanted["dimensions"], "what is there")
            return (await vector_of(ai, who, text)).embeddings[0]

    vector = asyncio.run(act())
    if len(vector) != kept.dimensions:
        raise TenutoError(
            f"{kept.model} gave a vector of {len(vector)} numbers, where {kept.dimensions} are kept: give --dimensions "
            f"{kept.dimensions}"
        )
    return packed(vector)


# --- ranking ----------------------------------------------------------------------------------------------------------


class Ranked(NamedTuple):
    """The best, and how many vectors had no direction: all numbers 0, so that nothing is like them."""

    best: list[tuple[float, str]]
    without: int


def ranked(wanted: bytes, pages: Iterable[Sequence[tuple[str, bytes]]], most: int) -> Ranked:
    """Return the scores and ids of the vectors that are most like one, the best first, equal ones by their ids.

    Vectors are packed, and all as long as the one that is wanted.
    """
    without = 0

    def scored() -> Iterator[tuple[float, str]]:
        nonlocal without
        measure = cosines(wanted)
        for page in pages:
            for (id, _), score in zip(page, measure([vector for _, vector in page]), strict=True):
                if score is None:
                    without += 1
                else:
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
