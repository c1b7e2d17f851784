"""Sessions in Postgres, shared by as many machines as there are.

What holds here, and why:

* One transaction that writes at a time in a store: `begin` waits for a lock that ends with the transaction. So the logic
  above sees what it sees in SQLite, two groups of appends never lock each other out, and whoever looks for an append of
  which the commit is unsure looks after that commit came to its end, even if its line is long gone.
* Nothing outlives a transaction on the server: no setting, lock, prepared statement or temporary table. A pool that gives
  each transaction another connection is none the wiser.
* Text may hold what Postgres does not take, NUL and half characters: it is written with escapes and read back without.
* A line that broke before a transaction begins is replaced without a word, for `patience` seconds if need be.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store import schema as tables
from tenuto.store.driver import Arg, CommitUnknown, ConnectionLost, FileLock
from tenuto.store.locks import Locks
from tenuto.store.words import snippet_of, tokenize

if TYPE_CHECKING:
    import psycopg

    Line: TypeAlias = psycopg.Connection[tuple[Any, ...]]

__all__ = [
    "ESCAPE",
    "UNTAKEN",
    "PostgresDriver",
    "PostgresEngine",
    "numbered",
    "query_of",
    "readable",
    "vector_of",
    "written",
]

ESCAPE = "\x1a"
"""Begins what stands for a sign that Postgres does not take; the sign itself is written so, too."""
UNTAKEN = re.compile("[\0\x1a\ud800-\udfff]")
"""What has to be escaped: NUL, the escape, and halves of characters."""
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")
_WORD = 500  # characters; Postgres takes 2046 bytes
_WORDS = 900_000  # bytes of words in one text; Postgres takes 1 MB
_PLACES, _PLACE = 255, 16_383  # as many and as far as Postgres keeps them


@functools.lru_cache(maxsize=512)
def numbered(sql: str) -> bytes:
    """Number the arguments as Postgres does: `$1` for the first `?` that is not inside quotes."""
    numbers = itertools.count(1)
    return re.sub(r"""'[^']*'|"[^"]*"|\?""", lambda it: f"${next(numbers)}" if it[0] == "?" else it[0], sql).encode()


def written(args: Sequence[Arg]) -> list[Arg]:
    """Return arguments that Postgres takes; different ones stay different."""
    return [_escaped(arg) if isinstance(arg, str) else _within(arg) if isinstance(arg, int) else arg for arg in args]


def readable(text: str | None) -> str | None:
    """Return a text as it was before it was written."""
    return text and _ESCAPED.sub(lambda sign: chr(int(sign[1], 16)), text)


def query_of(words: list[str]) -> str:
    """Write that all of these words are wanted."""
    return " & ".join(f"'{word[:_WORD]}'" for word in dict.fromkeys(words))


def vector_of(text: str) -> str:
    """Write the words of a text with their places. What does not fit is not found."""
    places: dict[str, list[int]] = {}
    left = _WORDS
    for place, whole in enumerate(tokenize(text), 1):
        word = whole[:_WORD]
        left -= 2 if word in places else len(word.encode()) + 8
        if left < 0:
            break
        if len(places.setdefault(word, [])) < _PLACES:
            places[word].append(min(place, _PLACE))
    return " ".join(f"'{word}':{','.join(map(str, at))}" for word, at in places.items())


def _escaped(text: str) -> str:
    return UNTAKEN.sub(lambda sign: f"{ESCAPE}{ord(sign[0]):04x}", text)


def _within(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        raise StoreError("a number is too large to be kept beside an entry")
    return number


_OLDEST = 12  # the first version of the server that will do
_IDLE_MS = 30_000  # a process that was stopped in mid-transaction does not keep all others waiting for longer
_TRIES = 5  # lines that may break as soon as they are there: a server that goes down takes a moment to refuse them
_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_TEXT, _NUMERIC = 25, 1700  # the server's numbers for its types
_GIVEN = {
    "application_name": "tenuto",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""What the address may say otherwise: that a server which says nothing is given up within a minute."""
_REFUSALS = {
    "25006": "this Postgres may only be read",
    "42501": "this user may not do that in Postgres",
    "53100": "the disk of the Postgres server is full",
    "55P03": "another process has been writing for too long; try again",
}


class PostgresEngine:
    """Opens connections to the store at an address: `postgresql://user:password@host:port/database?schema=name`.

    All its tables live in one schema, `tenuto` unless the address names another; it is created if it is not there.
    `busy_ms` is how long a transaction that writes waits for its turn, `patience` how many seconds a server that was
    there before may be gone.
    """

    def __init__(self, url: str, *, busy_ms: int = 10_000, patience: float = 10.0) -> None:
        self.name = "PostgreSQL"
        self.schema, self._given = _understood(url)
        quoted = '"' + self.schema.replace('"', '""') + '"'
        within = f"SET LOCAL search_path = {quoted}, pg_temp; SET LOCAL lock_timeout = {busy_ms:d}; "
        within += f"SET LOCAL idle_in_transaction_session_timeout = {_IDLE_MS}"
        turn = f"SET LOCAL synchronous_commit = on; SELECT pg_advisory_xact_lock({_turn(self.schema)})"
        self.to_read = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {within}; {_NOW}"
        self.to_write = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {within}; {turn}; {_NOW}"
        self._create = f"CREATE SCHEMA {quoted}"
        self._patience = patience
        self._met = False
        self._id = ""
        self._kept: Locks | None = None
        self._inherited: list[Line] = []

    def __repr__(self) -> str:
        return f"PostgresEngine({self.shown!r})"

    @property
    def shown(self) -> str:
        """The address without its secrets."""
        of = self._given
        user = f"{of['user']}@" if of.get("user") else ""
        port = f":{of['port']}" if of.get("port") else ""
        host = of.get("host") or of.get("hostaddr") or ""
        return f"postgresql://{user}{host}{port}/{of.get('dbname', '')}?schema={self.schema}"

    def open(self, *, write: bool) -> PostgresDriver:
        """Open a connection; the first one creates the tables."""
        del write  # a line does both
        driver = PostgresDriver(self)
        try:
            driver.begin(write=False)
            exists = self._has_tables(driver)
            driver.rollback()
            if not exists:
                self._create_tables(driver)
        except StoreError:
            driver.close()
            raise
        return driver

    @property
    def locks(self) -> bool:
        """Whether this system has locks that end with their holder."""
        return self._folder().real

    @property
    def place(self) -> str:
        """The name of the folder in which this machine's locks for this store are."""
        return self._folder().place

    def hold(self, session: str) -> FileLock | None:
        """Take this machine's lock on a session; None if a live process has it."""
        return self._folder().hold(session)

    def _folder(self) -> Locks:
        """The locks of this store. It is known by an id of its own, since one server has many names."""
        if self._kept is None:
            if not self._id:
                self.open(write=False).close()
            self._kept = Locks(_lock_folder() / hashlib.sha256(self._id.encode()).hexdigest()[:32])
        return self._kept

    # --- for its drivers ---

    def connect(self) -> Line:
        """Connect. A server that was there before may be on its way back: ask again, ever more slowly, for a while."""
        import psycopg

        until = time.monotonic() + (self._patience if self._met else 0)
        pause = 0.02
        while True:
            try:
                wanted = psycopg.conninfo.make_conninfo(**self._given)
                line = psycopg.connect(wanted, autocommit=True, prepare_threshold=None)
            except psycopg.OperationalError as exc:
                if time.monotonic() + pause > until:
                    raise StoreError(f"cannot open {self.shown}: {_words_of(exc)}") from exc
            else:
                self._configure(line)
                return line
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def abandon_inherited(self, line: Line) -> None:
        """Keep a line that is a parent's, and that this process inherited: to close it would close the parent's."""
        self._inherited.append(line)

    def fault(self, exc: psycopg.Error) -> StoreError:
        """Say in our words what the server refused."""
        state = exc.sqlstate or ""
        kind = StoreCorrupt if state in ("XX001", "XX002") else StoreError
        return kind(f"{_REFUSALS.get(state, 'Postgres refused')}: {_words_of(exc)} [{state} at {self.shown}]")

    def _configure(self, line: Line) -> None:
        from psycopg import RawCursor
        from psycopg.types.string import StrBinaryDumper

        version = line.info.parameter_status("server_version") or ""
        encoding = line.info.parameter_status("server_encoding")
        if line.info.server_version < _OLDEST * 10_000 or encoding != "UTF8":
            line.close()
            raise StoreError(
                f"{self.shown} is PostgreSQL {version} with the encoding {encoding}: "
                f"tenuto needs version {_OLDEST} or later, and UTF8"
            )
        line.pgconn.nonblocking = (
            0  # or large values are moved in memory for each piece that is sent: 12 times the work
        )
        line.cursor_factory = RawCursor
        line.adapters.register_dumper(str, StrBinaryDumper)  # as text, which it is whatever it is compared with
        self.name = f"PostgreSQL {version.split(' ')[0]}"
        self._met = True

    # --- the tables ---

    def _has_tables(self, driver: PostgresDriver) -> bool:
        """Tell whether the tables exist. Raise `StoreError` if they are another program's or of another version."""
        named = driver.rows(
            "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            (self.schema,),
        )
        if not named:
            return False
        facts = self._facts(driver) if ("meta",) in named else {}
        if facts.get("store") != tables.MARKER or not facts.get("schema", "").isdecimal():
            raise StoreError(
                f"{self.shown} holds tables that are not tenuto's: nothing was changed; name another schema by ?schema="
            )
        if int(facts["schema"]) != tables.VERSION:
            raise tables.version_error(self.shown, int(facts["schema"]))
        self._id = facts.get("id", "")
        return True

    def _facts(self, driver: PostgresDriver) -> dict[str, str]:
        columns = driver.rows(  # not from information_schema, whose views cost more than all else in opening
            "SELECT a.attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relname = 'meta' AND a.attnum > 0 AND NOT a.attisdropped",
            (self.schema,),
        )
        return dict(driver.rows("SELECT key, value FROM meta")) if {("key",), ("value",)} <= {*columns} else {}

    def _create_tables(self, driver: PostgresDriver) -> None:
        driver.begin(write=True)
        try:
            if not self._has_tables(driver):  # another process may have created them meanwhile
                if not driver.rows("SELECT 1 FROM pg_namespace WHERE nspname = ?", (self.schema,)):
                    driver.change(self._create)
                tables.create_tables(driver, "postgres")
                driver.change("INSERT INTO meta (key, value) VALUES ('id', ?)", (secrets.token_hex(16),))
                self._has_tables(driver)
            driver.commit()
        except StoreError:
            driver.rollback()
            raise


class PostgresDriver:
    """One connection to Postgres, which is replaced when it broke."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine
        self._line: Line | None = None
        self._pid = 0
        self._now = 0
        self._marked = False

    # --- transactions ---

    def begin(self, *, write: bool) -> None:
        """Begin; wait for our turn if it is to write. A line that broke since the last time is replaced."""
        import psycopg

        left = _TRIES
        while True:
            if self._pid != os.getpid():
                self.close()
            if self._line is None:
                self._line, self._pid = self._engine.connect(), os.getpid()
            try:
                answers = self._line.execute(self._engine.to_write if write else self._engine.to_read)
                while answers.nextset():
                    pass  # the last one is the time
                [self._now] = answers.fetchone() or (0,)
            except psycopg.Error as exc:
                error = self._failed(exc)
                self.rollback()
                left -= 1
                if not left or not isinstance(error, ConnectionLost):
                    raise error from exc
            else:
                self._marked = False
                return

    def commit(self) -> None:
        """End it; what was written is on the server's disk then. Raise `CommitUnknown` if the line broke meanwhile."""
        import psycopg

        try:
            done = self._live().execute("COMMIT").statusmessage
        except psycopg.Error as exc:
            error = self._failed(exc)
            self.rollback()
            if isinstance(error, ConnectionLost):
                raise CommitUnknown(
                    f"the line to {self._engine.shown} broke during a commit, and nobody knows whether it came to be: "
                    f"{_words_of(exc)}"
                ) from exc
            raise error from exc
        if done != "COMMIT":  # the server's word for a transaction in which something failed
            raise StoreError(f"nothing was stored: the transaction had failed before its end ({done})")

    def rollback(self) -> None:
        """Undo it. A line on which that fails is given up."""
        import psycopg

        line = self._line
        try:
            if line is not None and not line.closed and self._pid == os.getpid():
                line.execute("ROLLBACK")
        except psycopg.Error:
            self.close()
        if line is not None and line.closed:
            self.close()

    def save(self) -> None:
        """Set a mark; the one before it is forgotten, or the server would keep them all."""
        self._tell("RELEASE SAVEPOINT mark; SAVEPOINT mark" if self._marked else "SAVEPOINT mark")
        self._marked = True

    def undo(self) -> None:
        """Go back to the mark."""
        self._tell("ROLLBACK TO SAVEPOINT mark")

    def close(self) -> None:
        """Close the line. One that a forked child inherited is still its parent's."""
        line, self._line = self._line, None
        if line is not None and self._pid != os.getpid():
            self._engine.abandon_inherited(line)
        elif line is not None:
            line.close()

    # --- statements ---

    def rows(self, sql: str, args: Sequence[Arg] = ()) -> list[tuple[Any, ...]]:
        """Ask; return everything."""
        import psycopg

        try:
            cursor = self._live().cursor(binary=True)
            found = cursor.execute(numbered(sql), written(args)).fetchall()
        except psycopg.Error as exc:
            raise self._failed(exc) from exc
        for at, column in enumerate(cursor.description or ()):
            if column.type_code == _TEXT and any(row[at] and ESCAPE in row[at] for row in found):
                found = [(*row[:at], readable(row[at]), *row[at + 1 :]) for row in found]
            elif column.type_code == _NUMERIC:  # a sum of numbers
                found = [(*row[:at], None if row[at] is None else int(row[at]), *row[at + 1 :]) for row in found]
        return found

    def change(self, sql: str, args: Sequence[Arg] = ()) -> int:
        """Change something; return how many rows that touched."""
        import psycopg

        try:
            return max(self._live().cursor().execute(numbered(sql), written(args)).rowcount, 0)
        except psycopg.Error as exc:
            raise self._failed(exc) from exc

    def insert(self, sql: str, rows: Iterable[Sequence[Arg]]) -> int:
        """Insert several rows by one statement, without waiting for each; return how many were inserted."""
        import psycopg

        try:
            cursor = self._live().cursor()
            cursor.executemany(numbered(sql), [written(row) for row in rows])
            return max(cursor.rowcount, 0)
        except psycopg.Error as exc:
            raise self._failed(exc) from exc

    def clock(self) -> int:
        """Return what the server's time was when the transaction began and had its turn, in milliseconds since 1970."""
        return self._now

    def _tell(self, words: str) -> None:
        import psycopg

        try:
            self._live().execute(words)
        except psycopg.Error as exc:
            raise self._failed(exc) from exc

    def _live(self) -> Line:
        if self._line is None:
            raise ConnectionLost(f"the line to {self._engine.shown} is gone")
        return self._line

    def _failed(self, exc: psycopg.Error) -> StoreError:
        if self._line is not None and not self._line.closed:
            return self._engine.fault(exc)
        return ConnectionLost(f"the line to {self._engine.shown} broke: {_words_of(exc)}")

    # --- searching ---

    def index(self, rows: Iterable[tuple[str, int, str]]) -> None:
        """Let these texts be found."""
        self.insert(
            "INSERT INTO words (session, seq, text, found) VALUES (?, ?, ?, ?::tsvector) "
            "ON CONFLICT (session, seq) DO UPDATE SET text = excluded.text, found = excluded.found",
            [(session, seq, text, vector_of(text)) for session, seq, text in rows],
        )

    def unindex(self, session: str | None) -> None:
        """Forget the texts of a session, or of all."""
        if session is None:
            self.change("DELETE FROM words")
        else:
            self.change("DELETE FROM words WHERE session = ?", (session,))

    def search(self, words: str, limit: int) -> list[tuple[str, int, str]]:
        """Find the texts in which all the words occur. The words are told apart here, not by the server's language."""
        wanted = tokenize(words)
        if not wanted:
            return []
        found = self.rows(
            "SELECT session, seq, text FROM words, CAST(? AS tsquery) AS wanted WHERE found @@ wanted "
            "ORDER BY ts_rank(found, wanted) DESC, session, seq LIMIT ?",
            (query_of(wanted), limit),
        )
        return [(session, seq, snippet_of(text, wanted)) for session, seq, text in found]

    # --- keeping house ---

    def size(self) -> int:
        """Return how many bytes the tables and their indexes take on the server's disk."""
        sizes = self.rows(
            "SELECT pg_total_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relkind = 'r'",
            (self._engine.schema,),
        )
        return sum(size for (size,) in sizes)

    def backup(self, to: str) -> None:
        """Postgres has a command of its own for that, which writes from anywhere: this only names it."""
        name = self._engine.schema
        raise StoreError(f"a store in Postgres is copied by its own command: pg_dump --schema={name} --file={to} ...")

    def checkpoint(self) -> None:
        """Do nothing: the server does it."""


# --- addresses --------------------------------------------------------------------------------------------------------


def _understood(url: str) -> tuple[str, dict[str, str]]:
    """Return the schema that an address names, and all else that it says. An address holds a secret: errors do not."""
    try:
        import psycopg
    except ImportError as exc:
        raise StoreError(f"Postgres needs psycopg ({exc}): pip install tenuto[postgres]") from exc
    address, _, query = url.partition("?")
    said = [part for part in query.split("&") if part]
    named = [unquote(part.removeprefix("schema=")) for part in said if part.startswith("schema=")]
    rest = "&".join(part for part in said if not part.startswith("schema="))
    schema = named[-1] if named else "tenuto"
    if not 0 < len(schema.encode("utf-8", "replace")) < 64 or UNTAKEN.search(schema):
        raise StoreError(f"{schema[:80]!r} is no name for a schema in Postgres: 1 to 63 bytes")
    try:
        found = psycopg.conninfo.conninfo_to_dict(address + ("?" if rest else "") + rest)
    except psycopg.Error:
        raise StoreError(
            "that is no address that Postgres understands: "
            "write postgresql://user:password@host:port/database?schema=name, with %XX for special characters"
        ) from None
    given = {name: str(value) for name, value in found.items() if value is not None}
    return schema, {**_GIVEN, **given, "client_encoding": "UTF8"}


def _turn(schema: str) -> int:
    """Return the number of the lock that writers to a store in this schema take in turn."""
    return int.from_bytes(hashlib.sha256(f"tenuto {schema}".encode()).digest()[:8], signed=True)


def _lock_folder() -> Path:
    """Return this user's folder for locks. Nobody else may have made it: that would let them lock our sessions."""
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    folder = Path(tempfile.gettempdir()) / f"tenuto-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        seen = folder.lstat()
    except OSError as exc:
        raise StoreError(f"the folder for locks {str(folder)!r} cannot be made: {exc}") from exc
    if hasattr(os, "geteuid") and (seen.st_uid != user or seen.st_mode & 0o022):
        raise StoreError(f"the folder for locks {str(folder)!r} is open to others: remove it, or set TMPDIR")
    return folder


def _words_of(exc: Exception) -> str:
    return " ".join(str(exc).split())
