"""What a database is to the store: a connection that one thread uses, and whoever opens them.

The store's own logic is written once, against this; SQLite and Postgres are two drivers. SQL is written with `?` for
arguments, in words that both understand; what they say differently is a method here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from tenuto.errors import StoreError

__all__ = ["Arg", "CommitUnknown", "ConnectionLost", "Driver", "Engine", "FileLock"]

Arg: TypeAlias = str | int | bytes | bytearray | None


class CommitUnknown(StoreError):
    """The line broke while a commit was under way: nobody knows whether it happened. Look, or send it again."""


class ConnectionLost(StoreError):
    """The line broke before the commit: nothing of the transaction happened. The same may be tried again."""


class FileLock(Protocol):
    """A lock on a session that the operating system frees when its holder dies."""

    def free(self) -> None:
        """Let go of it."""


class Driver(Protocol):
    """One connection. Every method may raise `StoreError`: `StoreCorrupt` for damage, `CommitUnknown` from `commit`, `ConnectionLost` from
    whatever comes between `begin` and `commit`, where there is a line that can break.
    """

    def begin(self, *, write: bool) -> None:
        """Begin a transaction. One that writes waits for its turn; one that reads sees one state of things."""

    def commit(self) -> None:
        """End it. What was written is durable when this returns."""

    def rollback(self) -> None:
        """Undo it. Never raises: a connection that cannot even do that is broken, and the next `begin` opens another."""

    def save(self) -> None:
        """Set a mark inside the transaction."""

    def undo(self) -> None:
        """Go back to the mark."""

    def rows(self, sql: str, args: Sequence[Arg] = ()) -> list[tuple[Any, ...]]:
        """Ask; return everything."""

    def change(self, sql: str, args: Sequence[Arg] = ()) -> int:
        """Change something; return how many rows that touched."""

    def insert(self, sql: str, rows: Iterable[Sequence[Arg]]) -> int:
        """Insert several rows by one statement; return how many were inserted."""

    def clock(self) -> int:
        """Return the store's own time, in milliseconds since 1970: the server's, where there is one."""

    def index(self, rows: Iterable[tuple[str, int, str]]) -> None:
        """Let these texts be found: session, number, words. NUL and half characters are not words."""

    def unindex(self, session: str | None) -> None:
        """Forget the texts of a session, or of all."""

    def search(self, words: str, limit: int) -> list[tuple[str, int, str]]:
        """Find texts; return session, number and a snippet, the most fitting first. Any words will do: none is syntax."""

    def size(self) -> int:
        """Return how many bytes it all takes on disk."""

    def backup(self, to: str) -> None:
        """Write a consistent copy to a file that does not exist yet."""

    def checkpoint(self) -> None:
        """Copy the log into the database if it is long; called outside of a transaction."""

    def close(self) -> None:
        """Close it. Never raises."""


class Engine(Protocol):
    """Opens connections to one database, and knows its locks."""

    name: str
    """What it is, with its version: `SQLite 3.40.1`."""

    def open(self, *, write: bool) -> Driver:
        """Open a connection; the first creates the tables of an empty database.

        Raise `StoreError` for a database of another version, of another program, or one that cannot be opened,
        `StoreCorrupt` for a damaged one; and never change any of those.
        """

    def hold(self, session: str) -> FileLock | None:
        """Take this machine's lock on a session; None if a live process has it. Where there are no such locks (Windows),
        always give one that does nothing: the lease's time alone holds then.
        """

    @property
    def locks(self) -> bool:
        """Whether `hold` means anything here."""

    @property
    def place(self) -> str:
        """The name of the folder in which the locks are, made by chance: who finds the same name looks at the same locks.
        Empty where there are no locks.
        """
