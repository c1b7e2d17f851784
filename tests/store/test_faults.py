"""The tests for each row of the fault table, and faults that need the system.

Real disks that are full, read-only or fail, processes that are killed during a commit, exhausted memory. Tests that
need root or `strace` are skipped without it, and name a test that shows the same.
"""

from __future__ import annotations

import ast
import asyncio
import os
import resource
import shutil
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from store.helpers import run, run_in_child
from tenuto.core.blocks import Opaque, ToolUse
from tenuto.core.journal import ReplyReceived, UnknownPayload
from tenuto.core.jsonio import JsonError
from tenuto.core.messages import AssistantMessage
from tenuto.errors import SessionNotFound, StoreError
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteEngine
from tenuto.testing import StoreConformance
from tenuto.testing.store_suite.helpers import draft, question, same, write

STORES = ("TestMemory", "TestSqlite", "TestPostgres")


def suite(*names):
    """Return the names of tests of the public suite, for each store."""
    return tuple(f"test_conformance.py::{store}::{name}" for name in names for store in STORES)


ROWS = {
    2: (  # killed during a commit
        "test_faults.py::test_kill_during_a_commit_loses_nothing",
        "test_power.py::test_power_failure_at_any_moment_loses_nothing",
    ),
    3: (  # power failure
        "test_power.py::test_power_failure_at_any_moment_loses_nothing",
        "test_power.py::test_power_failure_during_creation_leaves_a_store_or_none",
        "test_power.py::test_power_failure_without_full_sync_loses_entries",
        "test_power.py::test_power_failure_without_sync_damages_the_file",
    ),
    4: (  # disk full, quota
        "test_faults.py::test_full_disk_is_reported",
        "test_faults.py::test_exhausted_quota_is_reported",
        "test_power.py::test_disk_errors_at_any_moment_lose_nothing",
        "test_sqlite.py::test_full_disk_writes_nothing",
    ),
    5: (  # failed sync
        "test_faults.py::test_failed_sync_is_reported",
        "test_power.py::test_disk_errors_at_any_moment_lose_nothing",
        "test_worker.py::test_failed_commit_fails_all_its_jobs",
    ),
    6: (  # read-only
        "test_faults.py::test_read_only_disk_can_be_read",
        "test_sqlite.py::test_read_only_store_can_be_read",
        "test_sqlite.py::test_read_only_store_with_a_log_is_an_error",
        "test_sqlite.py::test_store_that_cannot_be_created_is_an_error",
    ),
    7: (  # damaged, empty or foreign files
        "test_sqlite.py::test_other_files_stay_unchanged",
        "test_sqlite.py::test_truncated_file_is_detected",
        "test_sqlite.py::test_flipped_bit_is_detected_or_harmless",
        "test_sqlite.py::test_invalid_log_is_ignored",
        "test_postgres_opening.py::test_tables_of_another_application_are_refused",
        *suite("test_damaged_entries_are_found"),
    ),
    8: (  # concurrent and returning holders
        "test_stopped_processes.py::test_stopped_processes_cannot_write_after_their_lease",
        "test_locks.py::test_living_holder_refuses_others_and_is_named",
        "test_locks.py::test_takeover_ends_the_lease_of_the_loser",
        "test_locks.py::test_stopped_holder_keeps_its_session_until_it_is_taken",
        "test_locks.py::test_four_processes_race_for_one_session",
        "test_postgres_faults.py::test_four_processes_race_for_a_session",
        *suite("test_takeover_replaces_the_holder"),
    ),
    15: (  # delivered twice
        "test_postgres_faults.py::test_connection_cut_at_the_commit_of_an_append",
        "test_postgres_faults.py::test_server_killed_and_restarted_during_writes",
        *suite(
            "test_append_sent_again_is_stored_once",
            "test_append_at_an_old_head_is_refused",
            "test_takeover_replaces_the_holder",
        ),
    ),
    16: (  # large values
        "test_faults.py::test_append_without_memory_is_an_error",
        *suite("test_very_large_value", "test_bodies_around_the_size_of_a_blob"),
    ),
    17: suite("test_values_are_stored_byte_for_byte"),  # NUL, unpaired surrogates, bytes that are not UTF-8
    18: (  # large JSON
        "test_faults.py::test_very_deep_json_is_refused_before_writing",
        *suite("test_values_are_stored_byte_for_byte"),
    ),
    21: (  # ids with paths
        "test_faults.py::test_ids_cannot_leave_the_directory",
        "test_locks.py::test_lock_files",
        "test_transfer.py::test_invalid_id_is_refused",
        *suite("test_invalid_ids_are_refused"),
    ),
    27: (  # Postgres stops
        "test_postgres_faults.py::test_backends_terminated_during_reads_and_writes",
        "test_postgres_faults.py::test_server_killed_and_restarted_during_writes",
        "test_postgres_faults.py::test_server_that_stays_away_is_an_error",
        "test_postgres.py::test_transaction_leaves_no_locks_or_settings",
    ),
    29: (  # other versions
        "test_sqlite.py::test_other_files_stay_unchanged",
        "test_session_rows.py::test_store_of_another_version_is_refused",
        "test_postgres_opening.py::test_newer_schema_is_refused",
        *suite("test_entries_of_a_later_version_are_stored"),
    ),
    30: (  # forks and threads
        "test_faults.py::test_threads_share_a_store",
        "test_worker.py::test_forked_process_opens_its_own_connections",
        "test_worker.py::test_store_works_on_several_event_loops",
        "test_locks.py::test_child_process_does_not_keep_the_lock_of_a_holder",
        "test_postgres.py::test_forked_child_leaves_the_connection_of_its_parent",
    ),
}
"""The tests for each row of the fault table."""


def names_in(file):
    """Return the names of the tests in a file, with those that a class inherits from the suite."""
    found = set()
    for node in ast.parse((Path(__file__).parent / file).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef) and "StoreConformance" in map(ast.unparse, node.bases):
            found.update(f"{node.name}::{name}" for name in dir(StoreConformance))
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


def test_every_fault_has_its_tests():
    named = [id for ids in ROWS.values() for id in ids]
    there = {f"{file}::{name}" for file in {id.split("::")[0] for id in named} for name in names_in(file)}

    assert sorted(ROWS) == [*range(2, 9), *range(15, 19), 21, 27, 29, 30]
    assert [id for id in named if id not in there] == []


# --- helpers ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.db"


@pytest.fixture
def small(tmp_path):
    """Yield a separate disk of one megabyte."""
    mount_point = tmp_path / "disk"
    mount_point.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", mount_point], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"needs root, to mount a disk: {made.stderr.strip()}; `test_power` shows it without")
    yield mount_point
    subprocess.run(["umount", mount_point], check=True)


def remount(mount_point, how):
    subprocess.run(["mount", "-o", f"remount,{how}", mount_point], check=True)


async def fill(store, lease, stored, message):
    """Append until it fails; return the lease and the entry that failed."""
    error_text = ""
    while not error_text:
        one = draft(question(f"{len(stored)} " + "word " * 4000))
        try:
            lease = await store.append(lease, [one])
            stored.append(one)
        except StoreError as error:
            error_text = str(error)
    assert message in error_text
    return lease, one


async def continue_after_fault(store, lease, stored, one):
    """Check that all acknowledged entries exist and that the failed one can be appended."""
    assert same(await store.read("s"), stored)
    lease = await store.append(lease, [one])
    assert same(await store.read("s"), [*stored, one])
    assert await store.verify() == []
    return "went on"


# --- disks ------------------------------------------------------------------------------------------------------------


def test_full_disk_is_reported(small):
    """The error names the cause, the store is readable, and works with the same lease when there is room."""
    stored = []

    async def check(store):
        lease, one = await fill(store, await store.lease("s"), stored, "the disk is full")
        assert same(await store.read("s"), stored)
        with pytest.raises(StoreError, match="the disk is full"):
            await store.append(lease, [one])
        remount(small, "size=8m")
        return await continue_after_fault(store, lease, stored, one)

    assert run(small / "sessions.db", check) == "went on"
    assert len(stored) > 5
    assert len(run(small / "sessions.db", lambda store: store.read("s"))) == len(stored) + 1


def test_exhausted_quota_is_reported(path):
    """SQLite reports a disk error for a file that may not grow; the store mentions the quota."""

    async def check(store):
        stored = []
        lease = await store.lease("s")
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, most))
        lease, one = await fill(store, lease, stored, "quota")
        assert stored
        assert same(await store.read("s"), stored)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        return await continue_after_fault(store, lease, stored, one)

    assert run_in_child(lambda: run(path, check)) == "went on"
    assert run(path, lambda store: store.verify()) == []


def test_read_only_disk_can_be_read(small):
    """Reading, searching and exporting work; writing is a clear error; nothing changes."""
    path = small / "sessions.db"
    drafts = run(path, lambda store: write(store, "s", question("umbrella")))
    remount(small, "ro")
    before = {file.name: file.read_bytes() for file in small.iterdir() if file.is_file()}

    async def check(store):
        assert same(await store.read("s"), drafts)
        assert [hit.seq for hit in await store.search("umbrella")] == [1]
        assert await store.verify() == []
        for action in (store.lease, store.delete, lambda name: store.rename(name, "mine"), lambda _: store.gc()):
            with pytest.raises(StoreError, match="written"):
                await action("s")

    run(path, check)
    with pytest.raises(StoreError, match="Read-only"):
        run(small / "another.db", lambda store: store.lease("s"))
    assert {file.name: file.read_bytes() for file in small.iterdir() if file.is_file()} == before


# --- during a commit -------------------------------------------------------------------------------------------------

WRITER = """
    import asyncio, sys
    from tenuto.errors import StoreError
    from tenuto.store.sql_store import SqlStore
    from tenuto.store.sqlite import SqliteEngine
    from tenuto.testing.store_suite.helpers import draft, question

    async def write():
        async with SqlStore(SqliteEngine(sys.argv[1])) as store:
            lease = await store.lease("s")
            for number in range(int(sys.argv[2])):
                one = draft(question("word " * 500), id=str(number))
                while True:
                    try:
                        lease = await store.append(lease, [one])
                        break
                    except StoreError as error:
                        print("told", error, flush=True)
                print("head", lease.head, flush=True)

    asyncio.run(write())
"""


def run_traced(path, inject, times=12):
    """Write in a process in which a system call fails; return its output and how it ended."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace; `test_power` shows the same without")
    files = [argument for ending in ("", "-wal") for argument in ("-P", f"{path}{ending}")]
    calls = inject.split(":")[0]
    command = [strace, "-f", "-qqq", "-o", os.devnull, *files, "-e", f"trace={calls}", "-e", f"inject={inject}"]
    done = subprocess.run(
        [*command, sys.executable, "-c", textwrap.dedent(WRITER), path, str(times)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if "ptrace" in done.stderr or "PTRACE" in done.stderr:
        pytest.skip(f"needs ptrace: {done.stderr.strip()}; `test_power` shows the same without")
    return done


def test_kill_during_a_commit_loses_nothing(tmp_path):
    """A kill at a write or a sync: all acknowledged entries exist, and at most the one that was not acknowledged."""

    def killed(call, when):
        path = tmp_path / f"{call}-{when}.db"
        run(path, lambda store: store.stats())
        done = run_traced(path, f"{call}:signal=SIGKILL:when={when}")
        heads = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("head")]
        return path, done, max(heads, default=0)

    points = [*(("pwrite64", when) for when in (1, 4, 30, 90)), *(("fdatasync", when) for when in (2, 5, 9))]
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda point: killed(*point), points))

    async def look(store):
        faults = await store.verify()
        try:
            head = len(await store.read("s"))
        except SessionNotFound:
            head = 0
        lease = await store.lease("s")
        assert (await store.append(lease, [draft(question())])).head == head + 1
        return faults, head

    for path, done, head in ended:
        assert done.returncode, (path, "was not killed", done.stderr)
        faults, found = run(path, look)
        assert faults == []
        assert head <= found <= head + 1, path
    assert len({head for *_, head in ended}) > 2  # some positions


def test_failed_sync_is_reported(path):
    """The entries do not count as written; sending them again stores them once."""
    run(path, lambda store: store.stats())
    done = run_traced(path, "fdatasync:error=EIO:when=4..5", times=6)
    lines = done.stdout.splitlines()
    entries = run(path, lambda store: store.read("s"))

    assert [line for line in lines if line.startswith("head")] == [f"head {head}" for head in range(1, 7)]
    assert [line for line in lines if line.startswith("told") and "disk reports an error" in line]
    assert [entry.id for entry in entries] == list("012345")
    assert run(path, lambda store: store.verify()) == []


# --- values ----------------------------------------------------------------------------------------------------------


def address_space():
    """Return the size of this process's address space in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def test_append_without_memory_is_an_error(path):
    """Only the caller that appends too much gets the error; the store and the lease stay usable."""
    large, small = draft(question("x" * 120_000_000)), draft(question())

    async def check(store):
        lease = await store.append(await store.lease("s"), [small])
        await store.read("s")
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (address_space() + 100_000_000, most))
        with pytest.raises((MemoryError, StoreError)):
            await store.append(lease, [large])
        assert (await store.append(await store.lease("t"), [small])).head == 1
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        return (await store.append(lease, [large])).head

    assert run_in_child(lambda: run(path, check)) == "2"


BOMB = "[" * 100_000 + "]" * 100_000


def test_very_deep_json_is_refused_before_writing(path):
    """As a payload it is refused when the entry is made; as text of a model it is stored as text."""
    for raw in (
        f'{{"entry":"x","deep":{BOMB}}}',
        '{"entry":"x","n":NaN}',
        '{"entry":"x","n":-Infinity}',
        '{"entry":"x"',
    ):
        with pytest.raises(JsonError):
            draft(UnknownPayload("x", raw))
    texts = (BOMB, "[" * 100_000, '{"n": NaN, "n": -Infinity, "m": 1e400}', '{"a"')
    acts = [ReplyReceived(AssistantMessage((ToolUse("a", "t", text), Opaque("gemini", text)))) for text in texts]
    drafts = run(path, lambda store: write(store, "s", *acts))

    assert same(run(path, lambda store: store.read("s")), drafts)


def test_ids_cannot_leave_the_directory(path):
    """Reading such an id is "not found", and no file is created."""
    odd = ("../s", "/etc/passwd", "a/b", "a\0b", "-rf", "s" * 300, "s\n", "", ".", "s\ud800", "é", "~")
    run(path, lambda store: write(store, "s"))
    before = sorted(each.name for each in path.parent.rglob("*"))

    async def check(store):
        for id in odd:
            for action in (store.lease(id), store.fork("s", id=id or "../x")):
                with pytest.raises(ValueError, match="id"):
                    await action
            for action in (
                store.read(id),
                store.session(id),
                store.rename(id, "n"),
                store.archive(id),
                store.delete(id),
            ):
                with pytest.raises(SessionNotFound):
                    await action

    run(path, check)
    assert sorted(each.name for each in path.parent.rglob("*")) == before


# --- threads ----------------------------------------------------------------------------------------------------------


def test_threads_share_a_store(path):
    """Each thread has its own event loop; all run at the same time."""
    store = SqlStore(SqliteEngine(path))
    heads, start = {}, threading.Barrier(4)

    async def check(name):
        lease = await store.lease(name)
        for _ in range(10):
            lease = await store.append(lease, [draft(question(name))])
            assert len(await store.read(name)) == lease.head
        heads[name] = lease.head

    def thread(name):
        start.wait()
        asyncio.run(check(name))

    threads = [threading.Thread(target=thread, args=(name,)) for name in "abcd"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert heads == dict.fromkeys("abcd", 10)
    assert asyncio.run(store.verify()) == []
    asyncio.run(store.close())
