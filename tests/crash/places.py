"""Where a store is that is about to lose its process: a file, or a schema of a real Postgres; a new one for each time."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from pathlib import Path

from crash.apart import Apart
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
QUIET = search._QUIET


def hasten() -> None:
    """Let the log be copied several times in a short workload."""
    sqlite._LOG_BYTES = 96 * 1024


def set_quiet(seconds: float) -> None:
    """Say how long the thread that writes waits before it indexes by itself."""
    search._QUIET = seconds


def quick_folder() -> str | None:
    """A folder that need not wait for a disk: kill -9 takes nothing from the system's memory, only a loss of power does."""
    quick = Path("/dev/shm")
    return str(quick) if quick.is_dir() and os.access(quick, os.W_OK) else None


MADE = ("sessions", "entries", "inbox", "blobs", "words")
"""The tables that are emptied for the next experiment."""


class Place:
    """One database, the folder of one experiment, and the file in which the workload says what was acknowledged.

    The story `making` finds nothing. For the others there is a store without sessions: `made` is a file that is copied, or
    a schema that several experiments share, each with names of its own.
    """

    def __init__(self, kind: str, base: Path, server: Postgres | None, story: str, made: str) -> None:
        self.kind = kind
        self.story = story
        self.folder = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=base))
        self.said = self.folder / "said"
        self.server = server
        self.schema = made or f"crash_{uuid.uuid4().hex}"
        self.before = f"p{uuid.uuid4().hex[:12]}-" if made and kind == "postgres" else ""
        self.made = made
        if made and kind == "sqlite":
            (self.folder / "home").mkdir()
            shutil.copyfile(made, self.folder / "home" / "sessions.db")

    def whole(self, **given) -> SqlStore:
        """Open the database, as a new process would."""
        if given or self.story != "making":
            return SqlStore(self.engine(), **given)
        return open_store(self.address())

    def address(self) -> str:
        """Say where the database is."""
        if self.kind == "sqlite":
            return str(self.folder / "home" / "sessions.db")
        assert self.server is not None
        tempfile.tempdir = str(self.folder.parent)  # where Postgres's locks are
        return self.server.url(self.schema)

    def part(self, whole: SqlStore) -> SqlStore | Apart:
        """Return what of it is this experiment's."""
        return Apart(whole, self.before) if self.before else whole

    def store(self, **given) -> SqlStore | Apart:
        """Open this experiment's part of it."""
        return self.part(self.whole(**given))

    def engine(self, name: str = "sessions.db"):
        if self.kind == "sqlite":
            return sqlite.SqliteEngine(self.folder / "home" / name)
        return postgres.PostgresEngine(self.address())

    async def leave(self, store: SqlStore) -> None:
        """Empty a schema that is used again; drop one that is not: the server would keep them all."""
        if self.kind == "postgres":
            rid = [f"DELETE FROM {table}" for table in MADE] if self.made else [f"DROP SCHEMA {self.schema} CASCADE"]
            await store._write(lambda driver: [driver.change(words) for words in rid])

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
