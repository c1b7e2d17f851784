"""The Postgres database of a store, shared by any number of machines.

One writing transaction at a time: `begin` waits for an advisory lock that ends with the transaction, so the store sees
what it sees in SQLite, and a process that looks for an append whose commit is uncertain looks after that commit has
ended. Nothing outlives a transaction on the server, because a connection pool may give each one another connection.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store import schema as tables
from tenuto.store.driver import Arg, CommitUnknown, ConnectionLost, tokenize
from tenuto.store.locks import Locks

try:
    import psycopg
    from psycopg.types.string import StrBinaryDumper
except ImportError as exc:
    raise StoreError(f"Postgres needs psycopg ({exc}): pip install tenuto[postgres]") from exc

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
ESCAPE = "\x1a"  # starts the escape of a character that Postgres does not accept; it is itself escaped, too
UNSUPPORTED = re.compile("[\0\x1a\ud800-\udfff]")  # the characters to escape: NUL, the escape, and surrogates
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")
_WORD = 500  # characters; Postgres accepts 2046 bytes
_WORDS = 900_000  # bytes of words in one text; Postgres accepts 1 MB
_POSITIONS, _POSITION = 255, 16_383  # the limits of Postgres


@lru_cache(maxsize=512)
def numbered(sql: str) -> bytes:
    """Number the arguments as Postgres does: `$1` for the first `?` that is not inside quotes."""
    numbers = itertools.count(1)
    return re.sub(r"""'[^']*'|"[^"]*"|\?""", lambda it: f"${next(numbers)}" if it[0] == "?" else it[0], sql).encode()


def written(args: Sequence[Arg]) -> list[Arg]:
    """Return arguments that Postgres accepts; different ones stay different."""
    if any(isinstance(arg, int) and not -(2**63) <= arg < 2**63 for arg in args):
        raise StoreError("a number has more than 64 bits")
    escape = partial(UNSUPPORTED.sub, lambda match: f"{ESCAPE}{ord(match[0]):04x}")
    return [escape(arg) if isinstance(arg, str) else arg for arg in args]


def readable(text: str | None) -> str | None:
    """Return a text without its escapes."""
    return text and _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def vector_of(text: str) -> str:
    """Return the tsvector of a text: its words with their positions. Words beyond the limits cannot be found."""
    positions: dict[str, list[int]] = {}
    left = _WORDS
    for position, token in enumerate(tokenize(text), 1):
        word = token[:_WORD]
        left -= 2 if word in positions else len(word.encode()) + 8
        if left < 0:
            break
        if len(positions.setdefault(word, [])) < _POSITIONS:
            positions[word].append(min(position, _POSITION))
    return " ".join(f"'{word}':{','.join(map(str, some))}" for word, some in positions.items())


_OLDEST = 12  # version of the server
_IDLE_MS = 30_000  # the longest that others wait for a process that was stopped inside a transaction
_ATTEMPTS = 5  # new connections may break at once: a server that shuts down takes a moment to refuse them
_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_TEXT, _NUMERIC = 25, 1700  # type ids of the server
_DEFAULTS = {
    "application_name": "tenuto",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""Connection parameters that the URL may change: a server that does not answer is given up within a minute."""
_REFUSALS = {
    "25006": "this Postgres is read-only",
    "42501": "this user has no permission for that in Postgres",
    "53100": "the disk of the Postgres server is full",
    "55P03": "another process has been writing for too long; try again",
}


class PostgresEngine:
    """Opens connections to the store at a URL: `postgresql://user:password@host:port/database?schema=name`.

    All tables are in one schema (default: `tenuto`), which is created if needed. A writing transaction waits `busy_ms` for its
    turn; a server that was reachable before may be gone for `patience` seconds.
    """

    def __init__(self, url: str, *, busy_ms: int = 10_000, patience: float = 10.0) -> None:
        self.name = "PostgreSQL"
        self.schema, self._parameters = _parse_url(url)
        quoted = '"' + self.schema.replace('"', '""') + '"'
        within = f"SET LOCAL search_path = {quoted}, pg_temp; SET LOCAL lock_timeout = {busy_ms:d}; "
        within += f"SET LOCAL idle_in_transaction_session_timeout = {_IDLE_MS}"
        number = int.from_bytes(hashlib.sha256(f"tenuto {self.schema}".encode()).digest()[:8], signed=True)
        turn = f"SET LOCAL synchronous_commit = on; SELECT pg_advisory_xact_lock({number})"
        self.to_read = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {within}; {_NOW}"
        self.to_write = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {within}; {turn}; {_NOW}"
        self._create = f"CREATE SCHEMA {quoted}"
        self._patience = patience
        self._was_reachable = False
        self._id = ""
        self.inherited: list[Connection] = []
        """Connections of the parent process: closing them would close the parent's."""

    @property
    def safe_url(self) -> str:
        """The URL without its secrets."""
        parameters = self._parameters
        user = f"{parameters['user']}@" if parameters.get("user") else ""
        port = f":{parameters['port']}" if parameters.get("port") else ""
        host = parameters.get("host") or parameters.get("hostaddr") or ""
        return f"postgresql://{user}{host}{port}/{parameters.get('dbname', '')}?schema={self.schema}"

    def open(self, *, write: bool) -> PostgresDriver:
        del write  # a connection does both
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

    @cached_property
    def locks(self) -> Locks:
        """The session locks of this machine. The store has its own id, because one server has many names."""
        if not self._id:
            self.open(write=False).close()
        return Locks(_lock_directory() / hashlib.sha256(self._id.encode()).hexdigest()[:32])

    def connect(self) -> Connection:
        """Connect. If the server was reachable before, it may be restarting: try again with growing pauses."""
        until = time.monotonic() + (self._patience if self._was_reachable else 0)
        pause = 0.02
        while True:
            try:
                conninfo = psycopg.conninfo.make_conninfo(**self._parameters)
                connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
            except psycopg.OperationalError as exc:
                if time.monotonic() + pause > until:
                    raise StoreError(f"cannot open {self.safe_url}: {_one_line(exc)}") from exc
            else:
                self._configure(connection)
                return connection
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def _configure(self, connection: Connection) -> None:
        version = connection.info.parameter_status("server_version") or ""
        encoding = connection.info.parameter_status("server_encoding")
        if connection.info.server_version < _OLDEST * 10_000 or encoding != "UTF8":
            connection.close()
            raise StoreError(
                f"{self.safe_url} is PostgreSQL {version} with the encoding {encoding}: "
                f"tenuto needs version {_OLDEST} or later, and UTF8"
            )
        # Otherwise large values are copied in memory for each part that is sent: 12 times the work.
        connection.pgconn.nonblocking = 0
        connection.cursor_factory = psycopg.RawCursor
        connection.adapters.register_dumper(str, StrBinaryDumper)  # as text, whatever it is compared with
        self.name = f"PostgreSQL {version.split(' ')[0]}"
        self._was_reachable = True

    # --- the tables ---

    def _has_tables(self, driver: PostgresDriver) -> bool:
        """Return whether the tables exist. Raise `StoreError` if they are another program's or of another version."""
        columns = driver.rows(  # the views of information_schema are slow
            "SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
            "WHERE n.nspname = ? AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            (self.schema,),
        )
        if not columns:
            return False
        has_facts = {("meta", "key"), ("meta", "value")} <= {*columns}
        facts: dict[str, str] = dict(driver.rows("SELECT key, value FROM meta")) if has_facts else {}
        if facts.get("store") != tables.MARKER or not facts.get("schema", "").isdecimal():
            raise StoreError(
                f"{self.safe_url} has tables of another program; nothing was changed: choose another schema with ?schema="
            )
        if int(facts["schema"]) != tables.VERSION:
            raise tables.version_error(self.safe_url, int(facts["schema"]))
        self._id = facts.get("id", "")
        return True

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
    """One connection to Postgres, which is replaced when it breaks."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._pid = 0
        self.now = 0
        self._has_savepoint = False

    # --- transactions ---

    def begin(self, *, write: bool) -> None:
        """Begin a transaction; replace a connection that broke since the last one."""
        left = _ATTEMPTS
        while True:
            if self._pid != os.getpid():
                self.close()
            if self._connection is None:
                self._connection, self._pid = self._engine.connect(), os.getpid()
            try:
                results = self._connection.execute(self._engine.to_write if write else self._engine.to_read)
                while results.nextset():
                    pass  # the last result is the time
                [self.now] = results.fetchone() or (0,)
            except psycopg.Error as exc:
                error = self._translate_error(exc)
                self.rollback()
                left -= 1
                if not left or not isinstance(error, ConnectionLost):
                    raise error from exc
            else:
                self._has_savepoint = False
                return

    def commit(self) -> None:
        try:
            status = self._live().execute("COMMIT").statusmessage
        except psycopg.Error as exc:
            error = self._translate_error(exc)
            self.rollback()
            if isinstance(error, ConnectionLost):
                raise CommitUnknown(
                    f"the connection to {self._engine.safe_url} broke during a commit, so it is unknown whether the "
                    f"transaction was stored: {_one_line(exc)}"
                ) from exc
            raise error from exc
        if status != "COMMIT":  # the server answers ROLLBACK if a statement has failed
            raise StoreError(f"nothing was stored: a statement of the transaction had failed before ({status})")

    def rollback(self) -> None:
        connection = self._connection
        try:
            if connection is not None and not connection.closed and self._pid == os.getpid():
                connection.execute("ROLLBACK")
        except psycopg.Error:
            self.close()
        if connection is not None and connection.closed:
            self.close()

    def savepoint(self) -> None:
        # The savepoint before is released: the server would keep them all.
        with self._translating_errors():
            self._live().execute("RELEASE SAVEPOINT mark; SAVEPOINT mark" if self._has_savepoint else "SAVEPOINT mark")
        self._has_savepoint = True

    def rollback_to(self) -> None:
        with self._translating_errors():
            self._live().execute("ROLLBACK TO SAVEPOINT mark")

    def close(self) -> None:
        """Close the connection. One that was inherited from the parent process stays open."""
        connection, self._connection = self._connection, None
        if connection is not None and self._pid != os.getpid():
            self._engine.inherited.append(connection)
        elif connection is not None:
            connection.close()

    # --- statements ---

    def rows(self, sql: str, args: Sequence[Arg] = ()) -> list[tuple[Any, ...]]:
        with self._translating_errors():
            cursor = self._live().cursor(binary=True)
            rows = cursor.execute(numbered(sql), written(args)).fetchall()
        for at, column in enumerate(cursor.description or ()):
            if column.type_code == _TEXT and any(row[at] and ESCAPE in row[at] for row in rows):
                rows = [(*row[:at], readable(row[at]), *row[at + 1 :]) for row in rows]
            elif column.type_code == _NUMERIC:  # a sum
                rows = [(*row[:at], None if row[at] is None else int(row[at]), *row[at + 1 :]) for row in rows]
        return rows

    def change(self, sql: str, args: Sequence[Arg] = ()) -> int:
        with self._translating_errors():
            return max(self._live().cursor().execute(numbered(sql), written(args)).rowcount, 0)

    def insert(self, sql: str, rows: Iterable[Sequence[Arg]]) -> int:
        with self._translating_errors():
            cursor = self._live().cursor()
            cursor.executemany(numbered(sql), [written(row) for row in rows])
            return max(cursor.rowcount, 0)

    def _live(self) -> Connection:
        if self._connection is None:
            raise ConnectionLost(f"the connection to {self._engine.safe_url} is closed")
        return self._connection

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as exc:
            raise self._translate_error(exc) from exc

    def _translate_error(self, exc: psycopg.Error) -> StoreError:
        """Return the error of the store for an error of the server."""
        url, state = self._engine.safe_url, exc.sqlstate or ""
        if self._connection is None or self._connection.closed:
            return ConnectionLost(f"the connection to {url} broke: {_one_line(exc)}")
        kind = StoreCorrupt if state in ("XX001", "XX002") else StoreError
        return kind(f"{_REFUSALS.get(state, 'Postgres refused')}: {_one_line(exc)} [{state} at {url}]")

    def index(self, rows: Iterable[tuple[str, int, str]]) -> None:
        self.insert(
            "INSERT INTO words (session, seq, text, found) VALUES (?, ?, ?, ?::tsvector) "
            "ON CONFLICT (session, seq) DO UPDATE SET text = excluded.text, found = excluded.found",
            [(session, seq, text, vector_of(text)) for session, seq, text in rows],
        )

    def unindex(self, session: str | None) -> None:
        if session is None:
            self.change("DELETE FROM words")
        else:
            self.change("DELETE FROM words WHERE session = ?", (session,))

    def search(self, words: list[str], limit: int, agent: str | None = None) -> list[tuple[str, int, str]]:
        query = " & ".join(f"'{word[:_WORD]}'" for word in dict.fromkeys(words))
        return self.rows(
            "SELECT session, seq, text FROM words, CAST(? AS tsquery) AS query WHERE found @@ query "
            "AND (? = 1 OR session IN (SELECT id FROM sessions WHERE agent = ?)) "
            "ORDER BY ts_rank(found, query) DESC, session, seq LIMIT ?",
            (query, int(agent is None), agent or "", limit),
        )

    def check(self) -> list[str]:
        """Return nothing: the server has its own checks."""
        return []

    def size(self) -> int:
        """Return the size of the tables and their indexes on the server."""
        sizes = self.rows(
            "SELECT pg_total_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relkind = 'r'",
            (self._engine.schema,),
        )
        return sum(size for (size,) in sizes)

    def backup(self, to: str) -> None:
        name = self._engine.schema
        raise StoreError(f"use the command of Postgres for a backup: pg_dump --schema={name} --file={to} ...")

    def checkpoint(self) -> None:
        """Do nothing: the server does it."""


def _parse_url(url: str) -> tuple[str, dict[str, str]]:
    """Return the schema and the connection parameters of a URL. A URL has a secret, which errors must not contain."""
    address, _, query = url.partition("?")
    options = [part for part in query.split("&") if part]
    schemas = [unquote(part.removeprefix("schema=")) for part in options if part.startswith("schema=")]
    rest = "&".join(part for part in options if not part.startswith("schema="))
    schema = schemas[-1] if schemas else "tenuto"
    if not 0 < len(schema.encode("utf-8", "replace")) < 64 or UNSUPPORTED.search(schema):
        raise StoreError(f"{schema[:80]!r} is not a name for a schema in Postgres: use 1 to 63 bytes")
    try:
        parameters = psycopg.conninfo.conninfo_to_dict(address + ("?" if rest else "") + rest)
    except psycopg.Error:
        raise StoreError(
            "Postgres does not understand the URL: "
            "use postgresql://user:password@host:port/database?schema=name, with %XX for special characters"
        ) from None
    texts = {name: str(value) for name, value in parameters.items() if value is not None}
    return schema, {**_DEFAULTS, **texts, "client_encoding": "UTF8"}


def _lock_directory() -> Path:
    """Return the lock directory of this user. If other users could write it, they could lock our sessions."""
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    directory = Path(tempfile.gettempdir()) / f"tenuto-{user}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
    except OSError as exc:
        raise StoreError(f"the lock directory {str(directory)!r} cannot be created: {exc}; set TMPDIR") from exc
    if hasattr(os, "geteuid") and (status.st_uid != user or status.st_mode & 0o022):
        raise StoreError(f"the lock directory {str(directory)!r} is open to others: remove it, or set TMPDIR")
    return directory


def _one_line(exc: Exception) -> str:
    return " ".join(str(exc).split())
