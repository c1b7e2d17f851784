"""What is read of a session's row, what a list of sessions asks of a database, and what tells that a session is held.

It stands apart from the values: who only wants to list sessions loads nothing of what they are made of.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tenuto.store.driver import Arg
from tenuto.store.schema import LAST, UPDATED, place_of

__all__ = ["ONE", "TTL", "Row", "Wanted", "asked", "is_live"]

_COLUMNS = """
n, id, told, {last}, fence, until, owner, pid, host, place, parent, forked_at, indexed, archived, name, meta, {order}
"""
ONE = "SELECT {columns} FROM sessions s WHERE id = ?".replace(
    "{columns}", _COLUMNS.replace("{last}", LAST).replace("{order}", "0")
)
"""Asks for the `Row` of one session."""
TTL = 60_000
"""For how many milliseconds a lease is held, unless it is renewed."""
_TIMES = 10
"""A lease that ends after as many of its lengths was written before the clock was set back."""
_LIST = """
SELECT {columns} FROM sessions s
WHERE (told > 0 OR parent <> '') AND (? = 0 OR agent = ?) AND (? = 0 OR status = ?) AND (? = 0 OR archived = ?)
AND ({order} < ? OR ({order} = ? AND id < ?))
ORDER BY {order} DESC, id DESC LIMIT ?
""".replace(
    "{columns}", _COLUMNS.replace("{last}", "CASE WHEN owner = '' THEN 0 ELSE {last} END").replace("{last}", LAST)
)
_LAST = 2**63 - 1


class Row(NamedTuple):
    """A session's row, and where its entries end: `last` is the place of its last entry, 0 or None if it has none of its
    own (and, in a list, if nobody holds it). `meta` counts the entries up to `told`; `at` is what a list is ordered by.
    """

    n: int
    id: str
    told: int
    last: int | None
    fence: int
    until: int
    owner: str
    pid: int
    host: str
    place: str
    parent: str
    forked_at: int
    indexed: int
    archived: int
    name: str
    meta: bytes
    at: int

    @property
    def head(self) -> int:
        """The number of the last entry."""
        return max(self.told, (self.last or 0) - place_of(self.n, 0))

    def holder(self, now: int, ttl: int = TTL) -> str:
        """Return who holds it, as `pid@host`; empty if nobody does, as far as the time says."""
        return f"{self.pid}@{self.host}" if is_live(self.owner, self.until, now, ttl) else ""


class Wanted(NamedTuple):
    """What a list is to show, and how."""

    agent: str | None
    status: str | None
    archived: bool | None
    order: Literal["updated", "created"]
    limit: int
    after: str


def asked(wanted: Wanted) -> tuple[str, tuple[Arg, ...]]:
    """Return the question for the `Row`s of a page, newest first, and its arguments. One row more is asked for than is
    wanted: if it is there, there is a next page. Texts are to be such as a database takes.
    """
    when, id = _LAST, ""
    if wanted.after:
        said, _, id = wanted.after.partition(".")
        when = int(said)
    filters = (
        *_filter(wanted.agent),
        *_filter(wanted.status),
        int(wanted.archived is not None),
        int(bool(wanted.archived)),
    )
    sql = _LIST.replace("{order}", UPDATED if wanted.order == "updated" else "created_at")
    return sql, (*filters, when, when, id, max(wanted.limit, 1) + 1)


def _filter(text: str | None) -> tuple[int, str]:
    return int(text is not None), text or ""


def is_live(owner: str, until: int, now: int, ttl: int = TTL) -> bool:
    """Tell whether a lease is held, as far as its time says."""
    return bool(owner) and now < until <= now + _TIMES * ttl
