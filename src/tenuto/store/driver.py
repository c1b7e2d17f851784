"""The interface of the store to a database. SQL has `?` for arguments; where databases differ, a method."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from tenuto.errors import StoreError
from tenuto.store.locks import Locks

Arg: TypeAlias = str | int | bytes | bytearray | None


def tokenize(text: str) -> list[str]:
    """Return the words of a text in lower case. All databases get the same words for their search index."""
    return re.findall(r"\w+", text.casefold())


class CommitUnknown(StoreError):
    """The connection broke during a commit, so it is unknown whether the transaction was stored. Read, or send it again."""


class ConnectionLost(StoreError):
    """The connection broke before the commit, so the transaction was not stored. Try again."""


class Driver(Protocol):
    """One connection of one thread. Methods raise `StoreError`, `commit` also `CommitUnknown`, all `ConnectionLost`."""

    now: int
    """The time of the database when the transaction began: milliseconds since 1970."""

    def begin(self, *, write: bool) -> None:
        """Begin a transaction. A writing one waits for its turn; a reading one sees one state of the database."""

    def commit(self) -> None:
        """Commit. The changes are durable when this returns."""

    def rollback(self) -> None:
        """Roll back; never raise. If it fails, the next `begin` opens another connection."""

    def savepoint(self) -> None:
        """Set the savepoint of the transaction; it replaces the one before."""

    def rollback_to(self) -> None:
        """Roll back to the savepoint."""

    def rows(self, sql: str, args: Sequence[Arg] = ()) -> list[tuple[Any, ...]]:
        """Run a query and return all rows."""

    def change(self, sql: str, args: Sequence[Arg] = ()) -> int:
        """Run a statement and return the number of changed rows."""

    def insert(self, sql: str, rows: Iterable[Sequence[Arg]]) -> int:
        """Run an INSERT for several rows and return the number of inserted rows."""

    def index(self, rows: Iterable[tuple[str, int, str]]) -> None:
        """Add texts to the search index: session, entry number and text, without NUL and unpaired surrogates."""

    def unindex(self, session: str | None) -> None:
        """Remove the texts of a session, or all texts, from the search index."""

    def search(self, words: list[str], limit: int, agent: str | None = None) -> list[tuple[str, int, str]]:
        """Return session, entry number and text of the entries that contain all words, best matches first.

        `agent`: only of the sessions of this agent.
        """

    def check(self) -> list[str]:
        """Return the problems that the database finds in its own files."""

    def size(self) -> int:
        """Return the size on disk in bytes."""

    def backup(self, to: str) -> None:
        """Write a consistent copy to a file that does not exist."""

    def checkpoint(self) -> None:
        """Copy the log into the database if it is long. Called outside of a transaction."""

    def close(self) -> None:
        """Close the connection; never raise."""


class Engine(Protocol):
    """Opens connections to one database."""

    name: str
    """The database with its version: `SQLite 3.40.1`."""

    def open(self, *, write: bool) -> Driver:
        """Open a connection; the first one creates the tables of an empty database.

        Raise `StoreError` for a database of another version or program, or one that cannot be opened, and `StoreCorrupt`
        for a damaged one. None of these is changed.
        """

    @property
    def locks(self) -> Locks:
        """The session locks of this machine."""
