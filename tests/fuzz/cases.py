"""The recorded replies that are mutated, and the choice of one by a seed."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from conformance.corpus import DIALECTS, Exchange, exchanges
from conformance.subject import target_for
from fuzz.mutations import mutate
from fuzz.stream import Stream, parse
from tenuto.core.provider import Target

__all__ = ["OWN", "RECORDED", "Mutant", "mutant", "recorded"]

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "tests" / "conformance" / "own"
RECORDED = (ROOT.parent / "shared" / "corpus", ROOT.parent / "shared" / "corpus-more")


class Mutant(NamedTuple):
    """A mutated reply: where it comes from, what was done to it, and its bytes."""

    case: str
    dialect: str
    transport: str
    body: bytes
    mutations: list[str]
    target: Target

    @property
    def streamed(self) -> bool:
        """Whether the reply came in frames."""
        return self.transport != "json"


@functools.cache
def _groups(roots: tuple[Path, ...]) -> dict[tuple[str, bool], list[Exchange]]:
    found: dict[tuple[str, bool], list[Exchange]] = {}
    for root in roots:
        for exchange in exchanges(root):
            found.setdefault((exchange.dialect, exchange.streamed), []).append(exchange)
    return found


def recorded(roots: Sequence[Path]) -> tuple[Path, ...]:
    """Return the directories that exist; the project's own cases if none does."""
    return tuple(root for root in roots if root.is_dir()) or (OWN,)


def mutant(roots: tuple[Path, ...], seed: int, number: int) -> Mutant:
    """Return the mutated reply of a run: the same seed, number and directories give the same bytes."""
    rng = random.Random(f"{seed}/{number}")
    groups = _groups(roots)
    dialect, streamed = rng.choice(DIALECTS), rng.random() < 0.7
    cases = groups.get((dialect, streamed)) or groups[dialect, not streamed]
    case, other = rng.choice(cases), rng.choice(cases)
    stream, donor = (_short(one, rng) for one in (case, other))
    body, mutations = mutate(rng, stream, donor)
    return Mutant(case.name, dialect, stream.transport, body, mutations, target_for(case))


def _short(exchange: Exchange, rng: random.Random) -> Stream:
    body = exchange.body
    vars(exchange).pop("body", None)  # a worker meets thousands of replies
    return parse(body, exchange.transport, rng)
