"""Session rows, ids and names, lists, and finding a session by what a user typed.

Nothing of `tenuto.core` is imported until a whole session is read, so that `tenuto sessions` starts fast: `list_lines` lists
the sessions of a SQLite file without an event loop, a thread, or the values of a session.
"""

from __future__ import annotations

import json
import re
import secrets
import unicodedata
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_type_hints

from tenuto.errors import InvalidSessionId, SessionNotFound, StoreCorrupt
from tenuto.store.driver import Arg, Driver, Engine

if TYPE_CHECKING:
    from tenuto.core.journal import SessionMeta
    from tenuto.store.protocol import SessionPage, Store, StoredSession

TTL = 60_000  # how long a lease lasts by default, in milliseconds
STATUSES = ("new", "running", "waiting", "interrupted", "completed", "cancelled", "failed")
"""The statuses of sessions: `running` if a live process holds the session, otherwise that of its summary."""
_PAGE = 200
_MOST_TTLS = 10  # a lease that ends after more than this many of its times was written before the clock was set back
_LAST = 2**63 - 1

_INSERT = """
INSERT INTO sessions (
    id, head, fence, until, ttl_ms, owner, generation, pid, host, lock_dir_id, parent, forked_at, indexed, archived,
    created_at, updated_at, status, agent, name, meta
) VALUES (?, ?, 0, 0, 0, '', 0, 0, '', '', ?, ?, ?, 0, ?, ?, ?, ?, '', ?) ON CONFLICT (id) DO NOTHING
"""
_NAMED = "SELECT id FROM sessions WHERE (head > 0 OR parent <> '') AND name = ?"
_FORKS = "SELECT id FROM sessions WHERE parent = ? AND parent <> '' ORDER BY id"
_PREFIXED = """
SELECT id FROM sessions WHERE (head > 0 OR parent <> '') AND substr(id, 1, ?) = ? AND (? = 0 OR agent = ?) LIMIT 6
"""


class SessionRow(NamedTuple):
    n: int
    id: str
    head: int
    fence: int
    until: int
    ttl_ms: int
    owner: str
    generation: int
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
    """The time by which a list is ordered."""


_COLUMN_TYPES: dict[str, Any] = get_type_hints(SessionRow)
_COLUMNS = ", ".join(SessionRow._fields[:-1])
_ROW = f"SELECT {_COLUMNS}, 0 FROM sessions WHERE id = ?"  # noqa: S608 - names of columns
_LIST = """
SELECT {columns}, {order} FROM sessions
WHERE (head > 0 OR parent <> '') AND (? = 0 OR agent = ?) AND (? = 0 OR archived = ?)
AND (? = '' OR status = ? OR (? = 'running' AND owner <> ''))
AND ({order} < ? OR ({order} = ? AND id < ?)) ORDER BY {order} DESC, id DESC LIMIT ?
"""


class ListQuery(NamedTuple):
    """The parameters of `Store.sessions`."""

    agent: str | None
    status: str | None
    archived: bool | None
    order: Literal["updated", "created"]
    limit: int
    after: str
    name: str = ""
    directory: str = ""
    metadata: Mapping[str, str] = {}

    def selects(self, row: SessionRow) -> bool:
        """Return whether a row has the name, the directory and the metadata of the query."""
        if not (self.name or self.directory or self.metadata):
            return True
        meta, name = meta_of(row.meta), self.name.casefold()
        return (
            (name in row.name.casefold() or name in meta.title.casefold())
            and (not self.directory or self.directory in meta.directories)
            and self.metadata.items() <= meta.metadata.items()
        )


class SessionLine(NamedTuple):
    """One line of a list; the fields are those of `StoredSession` and its summary."""

    id: str
    name: str
    title: str
    status: str
    waiting_for: str
    model: str
    message_count: int
    updated_at: int
    holder: str


def row_of(driver: Driver, session: str) -> SessionRow | None:
    """Return the row of a session, or None. Raise `StoreCorrupt` if a damaged file gives a value of another type."""
    rows = driver.rows(_ROW, (session,))
    if not rows:
        return None
    row = SessionRow(*rows[0])
    for column, value in row._asdict().items():
        if type(value) is not _COLUMN_TYPES[column]:
            raise StoreCorrupt(f"session {session!r} is damaged: its {column} is {value!r:.40}; restore a backup")
    return row


def require_session(driver: Driver, session: str) -> SessionRow:
    """Return the row of a session. Raise `SessionNotFound` if it does not exist or has no entry yet."""
    row = row_of(driver, session) if re.fullmatch(ID, session) else None
    if row is None or not (row.head or row.parent):
        raise SessionNotFound(f"there is no session {session[:80]!r}")
    return row


def insert_row(driver: Driver, meta: SessionMeta, *, parent: str = "", forked_at: int = 0) -> bool:
    """Add a session with this summary; return False if its id exists. A fork shares the entries up to `forked_at`."""
    return bool(driver.change(_INSERT, (meta.id, forked_at, parent, forked_at, forked_at, *columns_of(meta))))


def columns_of(meta: SessionMeta) -> tuple[Arg, ...]:
    """Return created_at, updated_at, status, agent and meta as a session row contains them."""
    from tenuto.core import jsonio

    agent = meta.agent if meta.agent.isprintable() else clean(meta.agent)
    return meta.created_at, meta.updated_at, meta.status, agent, jsonio.encode(meta)


def meta_of(stored: bytes) -> SessionMeta:
    """Read the summary in a session row. Raise `StoreCorrupt`."""
    from tenuto.core import jsonio
    from tenuto.core.journal import SessionMeta

    try:
        return jsonio.decode_as(stored, SessionMeta)
    except jsonio.JsonError as exc:
        raise StoreCorrupt(f"the summary of a session cannot be read: {exc}; restore a backup") from exc


def is_held(row: SessionRow, now: int, engine: Engine) -> bool:
    """Return whether a live process holds a session. Its lock in the directory that this process uses decides, so that
    a step of the clock does not end a lease; otherwise the time decides.
    """
    if row.owner and row.lock_dir_id and row.lock_dir_id == engine.locks.directory_id():
        return engine.locks.is_locked(row.id)
    return bool(row.owner) and now < row.until <= now + _MOST_TTLS * row.ttl_ms


# --- lists ------------------------------------------------------------------------------------------------------------


def matching_rows(driver: Driver, engine: Engine, now: int, query: ListQuery) -> Iterator[tuple[SessionRow, bool]]:
    """Yield the rows that a list shows, newest first, and whether a live process holds each."""
    limit, status, agent, archived = max(query.limit, 1), query.status or "", query.agent, query.archived
    filters = (int(agent is not None), clean(agent or ""), int(archived is not None), int(bool(archived)))
    sql = _LIST.format(columns=_COLUMNS, order="updated_at" if query.order == "updated" else "created_at")
    time, _, id = query.after.partition(".") if query.after else (str(_LAST), "", "")
    at, id = int(time), clean(id)
    while True:
        rows = driver.rows(sql, (*filters, status, status, status, at, at, id, limit + 1))
        for values in rows:
            row = SessionRow(*values)
            held = is_held(row, now, engine)
            if (query.status is None or held == (query.status == "running")) and query.selects(row):
                yield row, held
        if len(rows) <= limit:
            return
        at, id = row.at, row.id


def list_sessions(driver: Driver, engine: Engine, now: int, query: ListQuery) -> SessionPage:
    """List sessions as `Store.sessions` does. A page starts after the last session of the page before it."""
    from tenuto.store.protocol import SessionPage

    limit = max(query.limit, 1)
    rows = list(islice(matching_rows(driver, engine, now, query), limit + 1))
    sessions = tuple(_stored_session(row, held) for row, held in rows[:limit])
    return SessionPage(sessions, f"{rows[limit - 1][0].at}.{sessions[-1].id}" if len(rows) > limit else "")


async def list_all(store: Store, *, limit: int | None = None, **filters: Any) -> AsyncIterator[StoredSession]:
    """Yield all sessions that a list with these filters of `Store.sessions` shows, or the first `limit`."""
    after, left = "", limit
    while left is None or left > 0:
        page = await store.sessions(**filters, limit=_PAGE if left is None else min(left, _PAGE), after=after)
        for session in page.sessions:
            yield session
        after, left = page.next, None if left is None else left - len(page.sessions)
        if not after:
            return


def read_session(driver: Driver, engine: Engine, now: int, session: str) -> StoredSession:
    row = require_session(driver, session)
    return _stored_session(row, is_held(row, now, engine))


def _stored_session(row: SessionRow, held: bool) -> StoredSession:
    from tenuto.store.protocol import StoredSession

    meta = meta_of(row.meta)
    return StoredSession(
        id=row.id,
        head=row.head,
        meta=meta,
        status="running" if held else meta.status,
        reason="" if held else meta.waiting_for,
        name=row.name,
        parent=row.parent,
        forked_at=row.forked_at,
        archived=bool(row.archived),
        holder=f"{row.pid}@{row.host}" if held else "",
    )


def forks_of(driver: Driver, session: str) -> list[str]:
    require_session(driver, session)
    return [id for (id,) in driver.rows(_FORKS, (session,))]


def find_session(driver: Driver, engine: Engine, now: int, text: str, agent: str | None) -> str:
    """Return the id for an id, a name, `last`, `~N`, or a unique prefix of an id."""
    if not text:
        raise SessionNotFound("the name of the session is empty")
    if clean(text) != text:
        return only_match(text, ())
    back = places_back(text)
    if back is not None:
        query = ListQuery(agent, None, archived=False, order="updated", limit=back + 1, after="")
        rows = matching_rows(driver, engine, now, query)
        return only_match(text, [row.id for row, _ in islice(rows, back, back + 1)])
    try:
        return require_session(driver, text).id
    except SessionNotFound:
        named = driver.rows(_NAMED, (text,))
    if named:
        return str(named[0][0])
    of_agent = (int(agent is not None), clean(agent or ""))
    return only_match(text, [id for (id,) in driver.rows(_PREFIXED, (len(text), text, *of_agent))])


# --- lists of a SQLite file -------------------------------------------------------------------------------------------


def list_lines(file: Path, query: ListQuery) -> list[SessionLine]:
    """List the sessions of a SQLite file, newest first; create the file if it does not exist."""
    with _open(file) as (engine, driver):
        rows = matching_rows(driver, engine, driver.now, query)
        return [_line(row, held) for row, held in islice(rows, max(query.limit, 1))]


def list_page(file: Path, query: ListQuery) -> SessionPage:
    """List the sessions of a SQLite file as `Store.sessions` does."""
    with _open(file) as (engine, driver):
        return list_sessions(driver, engine, driver.now, query)


def read_line(stored: StoredSession) -> SessionLine:
    fields = {name: getattr(stored.meta, name) for name in _DEFAULTS}
    fields |= {"status": stored.status, "waiting_for": stored.reason}
    return SessionLine(id=stored.id, name=stored.name, holder=stored.holder, **fields)


@contextmanager
def _open(file: Path) -> Iterator[tuple[Engine, Driver]]:
    from tenuto.store.sqlite import SqliteEngine

    engine = SqliteEngine(file)
    with closing(engine.open(write=False)) as driver:
        driver.begin(write=False)
        yield engine, driver


_DEFAULTS = {"title": "", "status": "new", "waiting_for": "", "model": "", "message_count": 0, "updated_at": 0}
"""The fields of a summary that a line shows, with their defaults."""


def _line(row: SessionRow, held: bool) -> SessionLine:
    fields = _read_summary(row.meta)
    if fields is None:  # let `meta_of` read it or raise the error
        meta = meta_of(row.meta)
        fields = {name: getattr(meta, name) for name in _DEFAULTS}
    line = SessionLine(id=row.id, name=row.name, holder="", **fields)
    return line._replace(holder=f"{row.pid}@{row.host}", status="running", waiting_for="") if held else line


def _read_summary(stored: bytes) -> dict[str, Any] | None:
    """Read the fields for a line with the standard library; return None if a value is not as expected."""
    try:
        members = json.loads(stored)
        fields = {name: members.get(name, default) for name, default in _DEFAULTS.items()}
    except (ValueError, AttributeError, RecursionError):
        return None
    valid = all(type(fields[name]) is type(default) for name, default in _DEFAULTS.items())
    return fields if valid and fields["status"] in STATUSES else None


# --- ids and names ----------------------------------------------------------------------------------------------------


ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"  # the form of a session id
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u, which are misread or spell words
_TIME_BITS, _RANDOM_BITS = 48, 80
_MAX_LENGTH = 200
_SHOWN_IDS = 5


def new_id(now: int) -> str:
    """Return a new id; `now` is milliseconds since 1970, of which the last 48 bits are used."""
    number = (max(now, 0) % 2**_TIME_BITS) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    return "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def check_id(id: str) -> str:
    """Return the id; raise `InvalidSessionId` for an invalid one. `last` is a keyword of `find`."""
    if id == "last":
        raise InvalidSessionId("'last' is not a session id: it means the session that was used last")
    if re.fullmatch(ID, id) is None:
        raise InvalidSessionId(
            f"{id[:80]!r} is not a session id: use letters, digits, '-' and '_', at most 64, the first a letter or digit"
        )
    return id


def check_name(name: str) -> str:
    """Return the name; raise `ValueError` for an invalid one, or for one that `find` reads as a keyword."""
    if is_keyword(name):
        raise ValueError(f"{name[:80]!r} is not a name: it means a session by its position; choose another name")
    odd = any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name)
    if odd or len(name) > _MAX_LENGTH or name != name.strip():
        raise ValueError(
            f"{name[:80]!r} is not a name: use one line of at most {_MAX_LENGTH} characters, without control characters and "
            "without spaces at its ends"
        )
    return name


def check_entry_id(id: str, what: str = "entry id") -> str:
    """Return the id of an entry or an owner; raise `ValueError` unless it has 1 to 200 printable characters."""
    if not 0 < len(id) <= _MAX_LENGTH or not id.isprintable():
        raise ValueError(f"{id[:80]!r} is not an {what}: use 1 to {_MAX_LENGTH} characters without control characters")
    return id


def clean(text: str) -> str:
    """Return text that every database accepts: NUL and unpaired surrogates are replaced."""
    return re.sub("[\0\ud800-\udfff]", "\ufffd", text)


def is_keyword(text: str) -> bool:
    """Return whether `find` reads this text as a position in the list: `last`, `~1`."""
    return text == "last" or re.fullmatch(r"~[0-9]+", text) is not None


def places_back(text: str) -> int | None:
    """Read `last` (0) and `~N`: how many sessions before the last one to skip; None for any other text."""
    if text == "last":
        return 0
    back = re.fullmatch(r"~([0-9]{1,9})", text)
    return int(back[1]) if back else None


def only_match(text: str, matches: Sequence[str]) -> str:
    """Return the only id; raise `SessionNotFound`, which lists the ids if there are several."""
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise SessionNotFound(f"no session is called {text[:80]!r}")
    some = ", ".join(sorted(matches)[:_SHOWN_IDS]) + (", ..." if len(matches) > _SHOWN_IDS else "")
    raise SessionNotFound(f"several sessions begin with {text[:80]!r}: {some}; type more of the id")
