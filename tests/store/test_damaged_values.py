"""A damaged SQLite file can contain a value of any type in any column; `verify` reports it."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from store.helpers import run
from tenuto.core.inbox import Cancel
from tenuto.errors import StoreCorrupt
from tenuto.store.protocol import BudgetChange
from tenuto.testing.store_suite.helpers import draft, question

COLUMNS = {
    "sessions": {
        "number": [
            "head",
            "fence",
            "until",
            "ttl_ms",
            "generation",
            "pid",
            "forked_at",
            "indexed",
            "archived",
            "created_at",
        ],
        "text": ["owner", "host", "lock_dir_id", "parent", "name"],
        "bytes": ["meta", "budget"],
    },
    "inbox": {"number": ["at"], "text": ["session", "id", "kind", "digest"], "bytes": ["body"]},
    "entries": {"number": ["seq", "at", "fence", "version"], "text": ["id", "kind", "digest"], "bytes": ["body"]},
}
WRONG = {"number": ("'damaged'", "x'00ff'", "17.5"), "text": ("x'00ff'",), "bytes": ("'damaged'", "17.5")}
"""Values that SQLite stores unchanged in a column of that type."""
CASES = [
    (table, column, value)
    for table, types in COLUMNS.items()
    for type_, columns in types.items()
    for column in columns
    for value in WRONG[type_]
]


@pytest.fixture
def path(tmp_path):
    """Return a file with a session of two entries, and its fork."""

    async def write(store):
        lease = await store.lease("parent")
        lease = await store.append(
            lease, [draft(question("One")), draft(question("Two"))], budget=BudgetChange(root="parent")
        )
        await store.post("parent", Cancel())
        await store.release(lease)
        await store.fork("parent", id="fork")
        await store.reindex()

    run(tmp_path / "store.db", write)
    return tmp_path / "store.db"


def damage(path, table, column, value):
    """Change a value in the first row of a table, without the checks of the store."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE {table} SET {column} = {value} WHERE rowid = (SELECT min(rowid) FROM {table})")


@pytest.mark.parametrize(("table", "column", "value"), CASES)
def test_verify_reports_a_value_of_the_wrong_type(path, table, column, value):
    damage(path, table, column, value)

    assert run(path, lambda store: store.verify())


def test_damaged_session_row_is_a_clear_error(path):
    damage(path, "sessions", "forked_at", "'damaged'")

    with pytest.raises(StoreCorrupt, match="'parent' is damaged: its forked_at is 'damaged'; restore a backup"):
        run(path, lambda store: store.read("parent"))


def test_entry_with_a_damaged_version_is_a_clear_error(path):
    damage(path, "entries", "version", "'damaged'")

    with pytest.raises(StoreCorrupt, match="entry 1 of session 'parent' is damaged: its version is 'damaged'"):
        run(path, lambda store: store.read("parent"))
