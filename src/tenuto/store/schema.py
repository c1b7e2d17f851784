"""The tables, and how they came to be what they are: one text for both databases, in numbered steps that only go forward.

A step is never changed once it was released. Each is run in one transaction with the record of it, and adds: tables,
columns, indexes. Bodies are bytes and are never rewritten; `entries.version` says how to read them.

There is no index on what changes with every entry (`updated_at`, `head`): it would be written with every entry, too, and
a list of sessions is short enough to be looked through.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from tenuto.errors import StoreError
from tenuto.store.driver import Driver

__all__ = ["APPLICATION", "MARKER", "VERSION", "Dialect", "bring_up", "newer", "steps_for"]

Dialect: TypeAlias = Literal["sqlite", "postgres"]
MARKER = "tenuto"
"""What stands in `meta` under `store`: by this, a database is known as ours."""
APPLICATION = 0x74_65_6E_75
"""The same in the header of a SQLite file."""

# TEXT is ordered by its bytes everywhere. A session's `place` names the folder of locks in which its holder has one:
# whoever sees the same folder can tell from the lock alone that the holder is dead. `indexed` is how far a search looks.
_FIRST = """
CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) {keyed};
CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    head BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    until BIGINT NOT NULL,
    owner TEXT NOT NULL,
    pid BIGINT NOT NULL,
    host TEXT NOT NULL,
    place TEXT NOT NULL,
    parent TEXT NOT NULL,
    forked_at BIGINT NOT NULL,
    indexed BIGINT NOT NULL,
    archived BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    status TEXT NOT NULL,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    meta {bytes} NOT NULL
) {keyed};
CREATE UNIQUE INDEX sessions_name ON sessions (name) WHERE name <> '';
CREATE INDEX sessions_parent ON sessions (parent) WHERE parent <> '';
CREATE TABLE entries (
    session TEXT NOT NULL,
    seq BIGINT NOT NULL,
    id TEXT NOT NULL,
    at BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    version BIGINT NOT NULL,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,
    body {bytes},
    PRIMARY KEY (session, seq)
) {keyed};
CREATE UNIQUE INDEX entries_id ON entries (session, id);
CREATE INDEX entries_blob ON entries (digest) WHERE body IS NULL;
CREATE TABLE blobs (
    digest TEXT NOT NULL PRIMARY KEY,
    size BIGINT NOT NULL,
    data {bytes} NOT NULL
);
"""
_FIRST_SQLITE = """
CREATE TABLE words (n INTEGER PRIMARY KEY, session TEXT NOT NULL, seq BIGINT NOT NULL, text TEXT NOT NULL);
CREATE INDEX words_session ON words (session);
CREATE VIRTUAL TABLE found USING fts5 (
    text, content='words', content_rowid='n', tokenize="unicode61 remove_diacritics 0 tokenchars '_'"
);
"""
_FIRST_POSTGRES = """
CREATE TABLE words (
    session TEXT NOT NULL,
    seq BIGINT NOT NULL,
    text TEXT NOT NULL,
    found TSVECTOR NOT NULL,
    PRIMARY KEY (session, seq)
);
CREATE INDEX words_found ON words USING gin (found);
"""
_STEPS: dict[Dialect, tuple[str, ...]] = {
    "sqlite": (_FIRST + _FIRST_SQLITE,),
    "postgres": (_FIRST + _FIRST_POSTGRES,),
}
_SPELLED: dict[Dialect, tuple[tuple[str, str], ...]] = {
    "sqlite": (("{bytes}", "BLOB"), ("{keyed}", "WITHOUT ROWID")),
    "postgres": (("{bytes}", "BYTEA"), ("{keyed}", ""), (" TEXT NOT NULL", ' TEXT COLLATE "C" NOT NULL')),
}
VERSION = len(_STEPS["sqlite"])
"""The version of the schema that this library reads and writes."""


def steps_for(dialect: Dialect) -> tuple[tuple[str, ...], ...]:
    """Return the statements of each step: the first makes version 1 of nothing, the next version 2 of that."""
    return tuple(_statements(step, dialect) for step in _STEPS[dialect])


def _statements(text: str, dialect: Dialect) -> tuple[str, ...]:
    for sign, word in _SPELLED[dialect]:
        text = text.replace(sign, word)
    return tuple(statement.strip() for statement in text.split(";") if statement.strip())


def bring_up(driver: Driver, found: int, steps: tuple[tuple[str, ...], ...]) -> None:
    """Run the steps behind version `found` (0: an empty database) and record the last. The caller has begun a transaction
    that writes, has seen that nobody else is at it, and commits.
    """
    for statements in steps[found:]:
        for statement in statements:
            driver.change(statement)
    if not found:
        now = str(driver.clock())
        driver.insert("INSERT INTO meta (key, value) VALUES (?, ?)", [("store", MARKER), ("created", now)])
        driver.change("INSERT INTO meta (key, value) VALUES ('schema', ?)", (str(len(steps)),))
    driver.change("UPDATE meta SET value = ? WHERE key = 'schema'", (str(len(steps)),))


def newer(what: str, found: int, known: int) -> StoreError:
    """Make the error for a database that a later version of this library wrote; `what` says where it is."""
    return StoreError(
        f"{what} was written by a newer version of tenuto (schema {found}, and this version knows {known}): "
        "upgrade tenuto; nothing was changed"
    )
