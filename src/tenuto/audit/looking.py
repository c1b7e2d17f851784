"""Looking at a request as it would go out: rules are tried on its body, and each that is broken is a finding.

A check is a small generator over what is sent; it yields a `Broken` for each place where its rule is broken, and nothing
where it is kept or does not apply. The simulator has checks of its own for the same book: neither looks at the other's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, TypeVar

import msgspec

from tenuto.audit.report import Finding
from tenuto.core.blocks import BlockBase
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Target
from tenuto.core.rules import Rule, rule

__all__ = ["Broken", "Check", "Checks", "Sent", "given_blocks", "look", "once"]

T = TypeVar("T")
B = TypeVar("B", bound=BlockBase)


class Sent(msgspec.Struct, frozen=True):
    """A request as it would go out.

    `body` is the parsed body, `headers` have lower-case names. `given` are the replies of the conversation, in order,
    as they were received and by whomever: what the body sends back can be compared with them. It is empty where nothing
    is known of them. `size` is the length of the body in bytes, as far as it was seen as bytes.
    """

    target: Target
    body: dict[str, Any]
    headers: dict[str, str] = {}
    given: tuple[AssistantMessage, ...] = ()
    size: int | None = None
    memory: dict[object, Any] = {}
    """What was read of it already: see `once`."""

    @property
    def row(self) -> str:
        """Whose rules hold: the provider's row, or the one whose part a simulator plays."""
        return self.target.provider.plays[0] if self.target.provider.plays else self.target.provider.name

    @property
    def model(self) -> str:
        """The model, without the part that a simulator plays; empty if only that part is known."""
        if not self.target.provider.plays:
            return self.target.model
        return self.target.model.partition("/")[2]

    def concerns(self, row: Rule) -> bool:
        """Tell whether a rule holds for this target: for all of its dialect, or for those that its patterns name."""
        return not row.holds or _named(f"{self.row}/{self.model}", row.holds)

    def may_have(self, letters: int) -> bool:
        """Tell whether all texts of the body together may have more letters than that: each is a byte at least."""
        return self.size is None or self.size > letters


@functools.lru_cache(1024)  # the same few targets are asked for again and again, each by every rule
def _named(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def once(read: Callable[[Sent], T]) -> Callable[[Sent], T]:
    """Have something that several checks need read once for each request."""

    @functools.wraps(read)
    def known(sent: Sent) -> T:
        if read not in sent.memory:
            sent.memory[read] = read(sent)
        found: T = sent.memory[read]
        return found

    return known


def given_blocks(sent: Sent, kind: type[B]) -> list[tuple[int, B]]:
    """Return the blocks of one kind that were given, in order, each with the number of its reply."""
    return _by_type(sent).get(kind, [])


@once
def _by_type(sent: Sent) -> dict[type, list[Any]]:
    """Sort the blocks once: to ask each whether it is of a kind costs 0.2 microseconds if it is not."""
    found: dict[type, list[Any]] = {}
    for at, message in enumerate(sent.given):
        for block in message.blocks:
            found.setdefault(type(block), []).append((at, block))
    return found


class Broken(msgspec.Struct, frozen=True):
    """A rule that is broken. `fields` fill the names in the rule's text and place; `variant` picks one of its texts.

    `at` is the JSON pointer where the rule's own does not fit.
    """

    rule: str
    fields: dict[str, Any] = {}
    variant: int = 0
    at: str = ""

    def finding(self) -> Finding:
        """Say it as a finding."""
        row = rule(self.rule)
        return Finding(
            rule=row.id,
            severity=row.severity,
            pointer=self.at or row.pointer(**self.fields),
            says=row.text(self.variant, **self.fields),
            remedy=row.remedy,
            source=row.source,
        )


Check: TypeAlias = Callable[[Sent], Iterable[Broken]]


class Checks(dict[str, Check]):
    """The checks of a dialect, by the rule they look at."""

    def holds(self, id: str) -> Callable[[Check], Check]:
        """Enter a check for a rule of the book. It is asked only where the rule concerns the target."""
        rule(id)

        def enter(check: Check) -> Check:
            if id in self:
                raise ValueError(f"{id} is checked twice")
            self[id] = check
            return check

        return enter


def look(sent: Sent, checks: Checks) -> tuple[Finding, ...]:
    """Try every check; return everything that was found, in the order of the checks."""
    return tuple(broken.finding() for id, check in checks.items() if sent.concerns(rule(id)) for broken in check(sent))
