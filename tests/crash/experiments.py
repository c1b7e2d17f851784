"""Create the database of each experiment: a file, or a schema of a real Postgres."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from pathlib import Path

from crash.prefixed_store import PrefixedStore
from crash.tracing import COMMIT, Marked
from real_postgres import Postgres
from tenuto.store import postgres, search, sqlite
from tenuto.store.open import open_store
from tenuto.store.sql_store import SqlStore

DRIVERS = {"sqlite": sqlite.SqliteDriver, "postgres": postgres.PostgresDriver}
KINDS = tuple(DRIVERS)
COMMITS: dict[str, tuple[Marked, ...]] = {
    "sqlite": ((sqlite.SqliteDriver, "commit", COMMIT),),
    "postgres": ((postgres.PostgresDriver, "commit", COMMIT),),
}
"""The methods that commit a transaction."""
INDEX_DELAY = search._QUIET


def shrink_log_limit() -> None:
    """Reduce the size of the WAL, so that a short workload checkpoints it several times."""
    sqlite._LOG_BYTES = 96 * 1024


def set_index_delay(seconds: float) -> None:
    """Set how long the writer thread waits before it indexes entries."""
    search._QUIET = seconds


def find_memory_directory() -> str | None:
    """Return a directory in memory, which is faster: SIGKILL loses no data of the operating system, only power loss does."""
    quick = Path("/dev/shm")
    return str(quick) if quick.is_dir() and os.access(quick, os.W_OK) else None


TABLES = ("sessions", "entries", "inbox", "blobs", "words")
"""The tables to empty for the next experiment."""


class Experiment:
    """The directory, the database and the progress log of one experiment.

    The scenario `making` starts without a database. The others start with a store without sessions: `template` is a file that
    is copied, or a schema that several experiments share, each with its own prefix.
    """

    def __init__(self, kind: str, base: Path, server: Postgres | None, scenario: str, template: str) -> None:
        self.kind = kind
        self.scenario = scenario
        self.directory = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=base))
        self.log_path = self.directory / "progress"
        self.server = server
        self.schema = template or f"crash_{uuid.uuid4().hex}"
        self.prefix = f"p{uuid.uuid4().hex[:12]}-" if template and kind == "postgres" else ""
        self.template = template
        if template and kind == "sqlite":
            (self.directory / "home").mkdir()
            shutil.copyfile(template, self.directory / "home" / "sessions.db")

    def open_database(self, **options) -> SqlStore:
        """Open the whole database."""
        if options or self.scenario != "making":
            return SqlStore(self.engine(), **options)
        return open_store(self.address())

    def address(self) -> str:
        """Return the path or the URL of the database."""
        if self.kind == "sqlite":
            return str(self.directory / "home" / "sessions.db")
        assert self.server is not None
        tempfile.tempdir = str(self.directory.parent)  # the directory of the Postgres lock files
        return self.server.url(self.schema)

    def open_view(self, open_database: SqlStore) -> SqlStore | PrefixedStore:
        """Return the view of this experiment on the database."""
        return PrefixedStore(open_database, self.prefix) if self.prefix else open_database

    def store(self, **options) -> SqlStore | PrefixedStore:
        """Open the view of this experiment."""
        return self.open_view(self.open_database(**options))

    def engine(self, name: str = "sessions.db"):
        if self.kind == "sqlite":
            return sqlite.SqliteEngine(self.directory / "home" / name)
        return postgres.PostgresEngine(self.address())

    async def clean_up(self, store: SqlStore) -> None:
        """Empty a shared schema, drop any other."""
        if self.kind == "postgres":
            statements = (
                [f"DELETE FROM {table}" for table in TABLES]
                if self.template
                else [f"DROP SCHEMA {self.schema} CASCADE"]
            )
            await store._write(lambda driver: [driver.change(sql) for sql in statements])

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
