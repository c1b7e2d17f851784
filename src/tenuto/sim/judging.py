"""Judging a request: rules are tried in the order in which the real provider would, and the first that is broken ends it.

A check is a small generator over an opened request. For each place it looks at, it yields None if the rule is kept there
and a `Broken` if not; a check that finds nothing to look at yields nothing. So a verdict also tells which rules were put
to the test at all. A rule whose severity is `lost` or `warned` is written down and refuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from tenuto.core.rules import Rule, rule

__all__ = ["Broken", "Check", "Checks", "Verdict", "judge"]

B = TypeVar("B")


class Broken(msgspec.Struct, frozen=True):
    """A rule that is broken. `fields` fill the names in the rule's text and place; `variant` picks one of its texts.

    `says`, `at` and `param` stand in for the rule's own where it has none that fits.
    """

    rule: str
    fields: dict[str, Any] = {}
    variant: int = 0
    says: str = ""
    at: str = ""
    param: str = ""

    @property
    def row(self) -> Rule:
        """The rule's row in the book."""
        return rule(self.rule)

    @property
    def message(self) -> str:
        """What the provider says."""
        return self.says or self.row.text(self.variant, **self.fields)

    @property
    def place(self) -> str:
        """Where, as a JSON pointer into the request."""
        return self.at or self.row.pointer(**self.fields)

    @property
    def parameter(self) -> str | None:
        """The `param` of the refusal."""
        return self.param or self.row.parameter(**self.fields)


Check: TypeAlias = Callable[[B], Iterable[Broken | None]]


class Checks(dict[str, Check[Any]]):
    """The checks of a dialect, by the rule they hold, in the order in which they are tried."""

    def holds(self, id: str) -> Callable[[Check[B]], Check[B]]:
        """Enter a check for a rule of the book. A rule is checked in one place."""
        rule(id)

        def enter(check: Check[B]) -> Check[B]:
            if id in self:
                raise ValueError(f"{id} is checked twice")
            self[id] = check
            return check

        return enter


class Verdict(msgspec.Struct, frozen=True):
    """What a request deserves: the first refusal, if any; what was spoilt or warned of; the rules put to the test."""

    refusal: Broken | None = None
    noted: tuple[Broken, ...] = ()
    tried: tuple[str, ...] = ()


def judge(opened: object, checks: Checks, order: Sequence[str] | None = None) -> Verdict:
    """Try every check on an opened request, in order, up to the first refusal."""
    noted: list[Broken] = []
    tried: list[str] = []
    for id in order or checks:
        for found in _found(checks[id], opened):
            if not tried or tried[-1] != id:
                tried.append(id)
            if found is None:
                continue
            if found.row.severity == "refused":
                return Verdict(found, tuple(noted), tuple(tried))
            noted.append(found)
    return Verdict(None, tuple(noted), tuple(tried))


def _found(check: Check[Any], opened: object) -> Iterator[Broken | None]:
    yield from check(opened)
