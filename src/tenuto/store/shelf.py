"""What a list of sessions asks of a database, and what tells that a session is held.

It stands apart from the values: who only wants to list sessions loads nothing of what they are made of.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tenuto.store.driver import Arg

__all__ = ["COLUMNS", "TTL", "Wanted", "asked", "is_live"]

COLUMNS = "id, head, name, parent, forked_at, archived, owner, until, pid, host, meta, {order}"
"""What is read of a session: `{order}` is what the list is ordered by."""
TTL = 60_000
"""For how many milliseconds a lease is held, unless it is renewed."""
_TIMES = 10
"""A lease that ends after as many of its lengths was written before the clock was set back."""
_LIST = """
SELECT {columns} FROM sessions
WHERE (head > 0 OR parent <> '') AND (? = 0 OR agent = ?) AND (? = 0 OR status = ?) AND (? = 0 OR archived = ?)
AND ({order} < ? OR ({order} = ? AND id < ?))
ORDER BY {order} DESC, id DESC LIMIT ?
""".replace("{columns}", COLUMNS)
_LAST = 2**63 - 1


class Wanted(NamedTuple):
    """What a list is to show, and how."""

    agent: str | None
    status: str | None
    archived: bool | None
    order: Literal["updated", "created"]
    limit: int
    after: str


def asked(wanted: Wanted) -> tuple[str, tuple[Arg, ...]]:
    """Return the question for a page, newest first, and its arguments. One row more is asked for than is wanted: if it
    is there, there is a next page. Texts are to be such as a database takes.
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
    sql = _LIST.replace("{order}", "updated_at" if wanted.order == "updated" else "created_at")
    return sql, (*filters, when, when, id, max(wanted.limit, 1) + 1)


def _filter(text: str | None) -> tuple[int, str]:
    return int(text is not None), text or ""


def is_live(owner: str, until: int, now: int, ttl: int = TTL) -> bool:
    """Tell whether a lease is held, as far as its time says."""
    return bool(owner) and now < until <= now + _TIMES * ttl
