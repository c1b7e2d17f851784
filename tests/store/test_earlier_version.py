"""Stores, exports and entries of earlier versions: read if their meaning is the same, refused by version otherwise.

`old/` was written by those versions: `sessions-3` with store format 3, `session-1` with export format 1 and entry format 1,
`session-3` with entry format 3.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tenuto import AsyncAgent, tool
from tenuto.audit.journal import REQUEST_CHANGED
from tenuto.core.journal import VERSION as ENTRY_VERSION
from tenuto.core.journal import MessageAdded, RunEnded
from tenuto.core.messages import UserMessage
from tenuto.core.stored import make_draft
from tenuto.errors import StoreError
from tenuto.store.export import export_session, import_session
from tenuto.store.memory import MemoryStore
from tenuto.store.open import open_store
from tenuto.store.schema import EXPORT_FORMAT, VERSION

OLD = Path(__file__).parent / "old"
OLD_EXPORT = OLD / "session-1.jsonl"
SESSION_EXIT = 7
"""The exit code of the command for an error of the store."""
EARLIER = "was written by an earlier version of tenuto (format {}; this version reads {})"
COMMANDS = {
    "show": ["show", "old"],
    "show json": ["show", "old", "--json"],
    "resume": ["resume", "old", "Go on.", "-m", "sim/anthropic"],
    "run": ["run", "Hello.", "-m", "sim/anthropic"],
    "sessions": ["sessions"],
    "import": ["import", "new.jsonl"],
}


@pytest.fixture
def old_file(tmp_path):
    """A SQLite file of the version before."""
    path = tmp_path / "sessions.db"
    path.write_bytes(gzip.decompress((OLD / "sessions-3.db.gz").read_bytes()))
    return path


@pytest.fixture
def old_export(tmp_path):
    """A copy of an export of the version before."""
    return Path(shutil.copy(OLD_EXPORT, tmp_path))


@pytest.fixture
def old_schema(postgres_url):
    """The URL, with a password, of a Postgres schema as the version before wrote it."""

    async def fill() -> None:
        async with open_store(postgres_url) as store:
            await store.append(await store.lease("old"), [make_draft(RunEnded("completed"), id="e1", time_ms=1)])

    asyncio.run(fill())
    body = b'{"entry":"stopped","reason":"completed"}'
    name = postgres_url.rpartition("=")[2]
    with psycopg.connect(postgres_url.partition("&schema=")[0], autocommit=True) as connection:
        connection.execute(f"UPDATE {name}.meta SET value = '3' WHERE key = 'schema'")
        connection.execute(
            f"UPDATE {name}.entries SET version = 1, kind = 'stopped', body = %s, digest = %s",
            (body, hashlib.sha256(body).hexdigest()),
        )
    return postgres_url.replace("postgres@", "postgres:secret@", 1)


@pytest.fixture
def command(tmp_path):
    """Runs the command on a store, in a directory with an export of this version."""

    async def export() -> bytes:
        async with open_store(None) as store:
            await store.append(
                await store.lease("new"), [make_draft(MessageAdded(UserMessage("Hi")), id="e1", time_ms=1)]
            )
            return b"".join([line async for line in export_session(store, "new")])

    (tmp_path / "new.jsonl").write_bytes(asyncio.run(export()))
    home = {"TENUTO_HOME": str(tmp_path / "home"), "COLUMNS": "1000", "PATH": os.environ["PATH"]}

    def run(store, *arguments):
        return subprocess.run(
            [sys.executable, "-m", "tenuto", *arguments],
            cwd=tmp_path,
            env={**home, "TENUTO_STORE": str(store)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_command_refuses_a_sqlite_file(command, old_file, arguments):
    before = old_file.read_bytes()
    done = command(old_file, *arguments)

    assert (done.returncode, done.stdout) == (SESSION_EXIT, "")
    assert f"'{old_file}' {EARLIER.format(3, VERSION)}: use that version to show or export it" in done.stderr
    assert old_file.read_bytes() == before


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_command_refuses_a_postgres_schema(command, old_schema, arguments):
    done = command(old_schema, *arguments)

    assert (done.returncode, done.stdout) == (SESSION_EXIT, "")
    assert f"{EARLIER.format(3, VERSION)}: use that version to show or export it" in done.stderr
    assert "postgresql://" in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_command_refuses_an_export_as_its_store(command, old_export, arguments):
    done = command(old_export, *arguments)

    assert (done.returncode, done.stdout) == (SESSION_EXIT, "")
    assert f"'{old_export}': the export {EARLIER.format(1, EXPORT_FORMAT)}: use that version" in done.stderr


def test_export_of_this_version_is_not_a_store(command, tmp_path):
    done = command(tmp_path / "new.jsonl", "sessions")

    assert (done.returncode, done.stdout) == (SESSION_EXIT, "")
    assert "is an exported session, not a store: import it with `tenuto import" in done.stderr


def test_doctor_reports_an_export_as_its_store(command, old_export):
    done = command(old_export, "doctor")

    assert done.returncode != 0
    assert f"the export {EARLIER.format(1, EXPORT_FORMAT)}" in done.stdout


def test_doctor_reports_a_sqlite_file(command, old_file):
    done = command(old_file, "doctor")

    assert done.returncode != 0
    assert f"'{old_file}' {EARLIER.format(3, VERSION)}" in done.stdout


def test_doctor_reports_a_postgres_schema(command, old_schema):
    done = command(old_schema, "doctor")

    assert done.returncode != 0
    assert EARLIER.format(3, VERSION) in done.stdout
    assert "secret" not in done.stdout + done.stderr


def test_import_refuses_an_export(command, tmp_path):
    store = tmp_path / "sessions.db"
    done = command(store, "import", "new.jsonl", str(OLD_EXPORT))

    assert (done.returncode, done.stdout) == (SESSION_EXIT, "")
    assert f"{OLD_EXPORT}: the export {EARLIER.format(1, EXPORT_FORMAT)}: use that version" in done.stderr
    assert "nothing was imported" in done.stderr
    assert not store.exists()


def test_import_refuses_entries_of_the_version_before():
    """An old export whose first line claims the current format."""
    first, *lines = OLD_EXPORT.read_text("utf-8").replace('"at":', '"time_ms":').splitlines()
    changed = [first.replace('"format":1', f'"format":{EXPORT_FORMAT}'), *lines]

    async def play() -> None:
        async with MemoryStore() as store:
            with pytest.raises(StoreError) as error:
                await import_session(store, changed)
            assert f"entry 1 of session 'old' {EARLIER.format(1, ENTRY_VERSION)}" in str(error.value)
            assert (await store.sessions(archived=None)).sessions == ()

    asyncio.run(play())


def test_session_of_entry_version_3_is_resumed(tenuto_sim):
    """Its requests are rebuilt byte for byte, and the calls of its last reply are not run again."""
    tenuto_sim.script("", "", "", "7.")
    runs = []

    @tool(effect="pure")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        runs.append((a, b))
        return a + b

    async def play() -> None:
        async with AsyncAgent("sim/anthropic", tools=[add], name="old", store=None) as agent:
            await import_session(agent.store, (OLD / "session-3.jsonl").read_text("utf-8").splitlines())
            session = await agent.resume("recorded-3")
            assert (session.status, session.waiting_for) == ("waiting", "limit")
            assert {entry.version for entry in await session.entries()} == {3}
            await session.continue_()
            assert (session.status, session.text, runs) == ("completed", "7.", [])
            assert [entry.version for entry in await session.entries()][-3:] == [ENTRY_VERSION] * 3
            assert not [each for each in (await session.audit()).findings if each.rule == REQUEST_CHANGED]

    asyncio.run(play())
