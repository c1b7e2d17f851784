"""What is read of a session's row, what a list of sessions asks of a database, and what tells that a session is held.

It stands apart from the values: who only wants to list sessions loads nothing of what they are made of.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_type_hints

from tenuto.errors import StoreCorrupt
from tenuto.store.driver import Arg, Driver

__all__ = ["TTL", "ListQuery", "SessionRow", "is_live", "list_sql", "row_of"]

_COLUMNS = """
n, id, head, fence, until, owner, pid, host, lock_dir_id, parent, forked_at, indexed, archived, name, created_at, meta
"""
_ONE = "SELECT {columns}, 0 FROM sessions WHERE id = ?".replace("{columns}", _COLUMNS)
TTL = 60_000
"""For how many milliseconds a lease is held, unless it is renewed."""
_TIMES = 10
"""A lease that ends after as many of its lengths was written before the clock was set back."""
_LIST = (
    "SELECT {columns}, {order} FROM sessions "
    "WHERE (head > 0 OR parent <> '') AND (? = 0 OR agent = ?) AND (? = 0 OR status = ?) AND (? = 0 OR archived = ?) "
    "AND ({order} < ? OR ({order} = ? AND id < ?)) ORDER BY {order} DESC, id DESC LIMIT ?"
)
_LAST = 2**63 - 1


class SessionRow(NamedTuple):
    """The row of a session. `at` is the time by which a list is ordered."""

    n: int
    id: str
    head: int
    fence: int
    until: int
    owner: str
    pid: int
    host: str
    lock_dir_id: str
    parent: str
    forked_at: int
    indexed: int
    archived: int
    name: str
    created_at: int
    meta: bytes
    at: int

    def holder(self, now: int, ttl: int = TTL) -> str:
        """Return who holds it, as `pid@host`; empty if nobody does, as far as the time says."""
        return f"{self.pid}@{self.host}" if is_live(self.owner, self.until, now, ttl) else ""


_COLUMN_TYPES: dict[str, Any] = get_type_hints(SessionRow)


class ListQuery(NamedTuple):
    """What a list is to show, and how."""

    agent: str | None
    status: str | None
    archived: bool | None
    order: Literal["updated", "created"]
    limit: int
    after: str


def row_of(driver: Driver, session: str) -> SessionRow | None:
    """Return the row of a session, or None. Raise `StoreCorrupt` if a damaged file gives a value of another type."""
    rows = driver.rows(_ONE, (session,))
    if not rows:
        return None
    row = SessionRow(*rows[0])
    for column, value in row._asdict().items():
        if type(value) is not _COLUMN_TYPES[column]:
            raise StoreCorrupt(f"session {session!r} is damaged: its {column} is {value!r:.40}; restore a backup")
    return row


def list_sql(wanted: ListQuery) -> tuple[str, tuple[Arg, ...]]:
    """Return the question for the `SessionRow`s of a page, newest first, and its arguments. One row more is asked for than is
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
    sql = _LIST.format(columns=_COLUMNS, order="updated_at" if wanted.order == "updated" else "created_at")
    return sql, (*filters, when, when, id, max(wanted.limit, 1) + 1)


def _filter(text: str | None) -> tuple[int, str]:
    return int(text is not None), text or ""


def is_live(owner: str, until: int, now: int, ttl: int = TTL) -> bool:
    """Tell whether a lease is held, as far as its time says."""
    return bool(owner) and now < until <= now + _TIMES * ttl
