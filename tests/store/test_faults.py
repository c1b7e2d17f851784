"""The faults a store has to stand, by their numbers in the table of faults; and those that need a system to make them.

Real disks that are full, read-only or fail, processes that are killed inside a commit, memory that ends. What needs root or
`strace` says so if it cannot be done, and names the test that shows the same without.
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
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

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
    """Name tests of the public suite, which is run over every store."""
    return tuple(f"test_conformance.py::{store}::{name}" for name in names for store in STORES)


ROWS = {
    2: (  # killed inside of a commit
        "test_faults.py::test_a_kill_inside_of_a_commit",
        "test_power.py::test_power_that_goes_at_any_moment",
    ),
    3: (  # power
        "test_power.py::test_power_that_goes_at_any_moment",
        "test_power.py::test_power_that_goes_while_a_store_is_made",
        "test_power.py::test_with_less_than_full_something_would_be_lost",
        "test_power.py::test_without_sync_something_would_be_damaged",
    ),
    4: (  # no room, a quota
        "test_faults.py::test_a_disk_without_room",
        "test_faults.py::test_a_quota_that_is_used_up",
        "test_power.py::test_a_disk_that_fails_at_any_moment",
        "test_sqlite.py::test_a_full_disk",
    ),
    5: (  # a sync that fails
        "test_faults.py::test_a_sync_that_fails",
        "test_power.py::test_a_disk_that_fails_at_any_moment",
        "test_worker.py::test_a_commit_that_fails_fails_all_who_shared_it",
    ),
    6: (  # nothing can be written
        "test_faults.py::test_a_disk_that_can_only_be_read",
        "test_sqlite.py::test_a_read_only_place_can_be_read",
        "test_sqlite.py::test_a_read_only_place_with_a_log_says_what_to_do",
        "test_sqlite.py::test_a_place_that_cannot_be_made_says_so",
    ),
    7: (  # damaged, empty, somebody else's
        "test_sqlite.py::test_what_is_not_ours_is_left_alone",
        "test_sqlite.py::test_a_truncated_file_is_never_taken_for_a_whole_one",
        "test_sqlite.py::test_a_flipped_bit_is_told_or_does_no_harm",
        "test_sqlite.py::test_a_log_of_garbage_is_passed_over",
        "test_postgres_opening.py::test_tables_of_somebody_else",
        *suite("test_damaged_entries_are_found"),
    ),
    8: (  # two at once, and those who come back
        "test_race.py::test_four_who_race_and_are_stopped",
        "test_locks.py::test_a_live_holder_refuses_others_and_is_named",
        "test_locks.py::test_taking_over_tells_the_loser",
        "test_locks.py::test_stopped_holder_keeps_its_session_until_it_is_taken",
        "test_locks.py::test_four_who_race_for_one_session",
        "test_postgres_faults.py::test_four_processes_race_for_a_session",
        *suite("test_takeover_replaces_the_holder"),
    ),
    15: (  # delivered twice
        "test_postgres_faults.py::test_a_line_that_is_cut_during_the_commit_of_an_append",
        "test_postgres_faults.py::test_the_server_is_killed_and_started_while_many_write",
        *suite(
            "test_append_sent_again_is_stored_once",
            "test_append_at_an_old_head_is_refused",
            "test_takeover_replaces_the_holder",
        ),
    ),
    16: (  # large values
        "test_faults.py::test_memory_that_ends",
        *suite("test_very_large_value", "test_bodies_around_the_size_of_a_blob"),
    ),
    17: suite("test_values_are_stored_byte_for_byte"),  # NUL, unpaired surrogates, bytes that are not UTF-8
    18: (  # JSON that bursts
        "test_faults.py::test_json_that_bursts_is_refused_before_it_is_written",
        *suite("test_values_are_stored_byte_for_byte"),
    ),
    21: (  # ids that lead elsewhere
        "test_faults.py::test_no_id_leads_out_of_its_folder",
        "test_locks.py::test_the_files_of_locks",
        "test_transfer.py::test_what_is_no_id_is_refused",
        *suite("test_invalid_ids_are_refused"),
    ),
    27: (  # Postgres goes
        "test_postgres_faults.py::test_backends_that_are_ended_while_many_write_and_read",
        "test_postgres_faults.py::test_the_server_is_killed_and_started_while_many_write",
        "test_postgres_faults.py::test_a_server_that_stays_away",
        "test_postgres.py::test_nothing_outlives_a_transaction",
    ),
    29: (  # versions that differ
        "test_sqlite.py::test_what_is_not_ours_is_left_alone",
        "test_session_rows.py::test_store_of_another_version_is_refused",
        "test_postgres_opening.py::test_a_newer_schema",
        *suite("test_entries_of_a_later_version_are_stored"),
    ),
    30: (  # forks and threads
        "test_faults.py::test_threads_share_a_store",
        "test_worker.py::test_a_fork_of_the_process_opens_everything_anew",
        "test_worker.py::test_a_store_outlives_event_loops",
        "test_locks.py::test_a_child_that_lives_on_does_not_keep_the_lock",
        "test_postgres.py::test_a_forked_child_leaves_the_line_to_its_parent",
    ),
}
"""Which tests show that a store stands a fault."""


def names_in(file):
    """Return the names of the tests in a file; those of the suite that a class takes over included."""
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


# --- what they share --------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.db"


@pytest.fixture
def small(tmp_path):
    """A disk of its own, of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"needs root, to mount a disk: {made.stderr.strip()}; `test_power` shows it without")
    yield place
    subprocess.run(["umount", place], check=True)


def remount(place, how):
    subprocess.run(["mount", "-o", f"remount,{how}", place], check=True)


def run(path, story):
    async def told():
        async with SqlStore(SqliteEngine(path)) as store:
            return await story(store)

    return asyncio.run(told())


def aside(story):
    """Do something in a process of its own; return what it says."""
    here, there = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a child of a process with threads does only this
        child = os.fork()
    if not child:
        said = "something else went wrong"
        try:
            said = str(story())
        except Exception as error:
            said = repr(error)
            raise
        finally:
            os.write(there, said.encode())
            os._exit(0)
    os.close(there)
    said = b"".join(iter(lambda: os.read(here, 4096), b"")).decode()
    os.close(here)
    os.waitpid(child, 0)
    return said


async def fill(store, lease, kept, says):
    """Append until that fails; return the lease, and what could not be written."""
    told = ""
    while not told:
        one = draft(question(f"{len(kept)} " + "word " * 4000))
        try:
            lease = await store.append(lease, [one])
            kept.append(one)
        except StoreError as error:
            told = str(error)
    assert says in told
    return lease, one


async def goes_on(store, lease, kept, one):
    """All that was acknowledged is there; what failed is written now; the store is whole."""
    assert same(await store.read("s"), kept)
    lease = await store.append(lease, [one])
    assert same(await store.read("s"), [*kept, one])
    assert await store.verify() == []
    return "went on"


# --- disks ------------------------------------------------------------------------------------------------------------


def test_a_disk_without_room(small):
    """Said so; what is there can be read; and with room, the same store goes on under the same lease."""
    kept = []

    async def tell(store):
        lease, one = await fill(store, await store.lease("s"), kept, "the disk is full")
        assert same(await store.read("s"), kept)
        with pytest.raises(StoreError, match="the disk is full"):
            await store.append(lease, [one])
        remount(small, "size=8m")
        return await goes_on(store, lease, kept, one)

    assert run(small / "sessions.db", tell) == "went on"
    assert len(kept) > 5
    assert len(run(small / "sessions.db", lambda store: store.read("s"))) == len(kept) + 1


def test_a_quota_that_is_used_up(path):
    """A file may not grow any more: SQLite calls that an error of the disk, and the store says that it may be a quota."""

    async def tell(store):
        kept = []
        lease = await store.lease("s")
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, most))
        lease, one = await fill(store, lease, kept, "quota")
        assert kept
        assert same(await store.read("s"), kept)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        return await goes_on(store, lease, kept, one)

    assert aside(lambda: run(path, tell)) == "went on"
    assert run(path, lambda store: store.verify()) == []


def test_a_disk_that_can_only_be_read(small):
    """It is read, searched and exported; whoever wants to write is told so; nothing is changed."""
    path = small / "sessions.db"
    drafts = run(path, lambda store: write(store, "s", question("umbrella")))
    remount(small, "ro")
    before = {file.name: file.read_bytes() for file in small.iterdir() if file.is_file()}

    async def tell(store):
        assert same(await store.read("s"), drafts)
        assert [hit.seq for hit in await store.search("umbrella")] == [1]
        assert await store.verify() == []
        for story in (store.lease, store.delete, lambda name: store.rename(name, "mine"), lambda _: store.gc()):
            with pytest.raises(StoreError, match="written"):
                await story("s")

    run(path, tell)
    with pytest.raises(StoreError, match="Read-only"):
        run(small / "another.db", lambda store: store.lease("s"))
    assert {file.name: file.read_bytes() for file in small.iterdir() if file.is_file()} == before


# --- inside of a commit -----------------------------------------------------------------------------------------------

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


def traced(path, inject, times=12):
    """Write in a process for which a call of the system goes wrong; return what it printed and how it ended."""
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


def test_a_kill_inside_of_a_commit(tmp_path):
    """At a write, or at a sync: what was acknowledged is there, and at most the one entry that was not."""

    def killed(call, when):
        path = tmp_path / f"{call}-{when}.db"
        run(path, lambda store: store.stats())
        done = traced(path, f"{call}:signal=SIGKILL:when={when}")
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
    assert len({head for *_, head in ended}) > 2  # here and there


def test_a_sync_that_fails(path):
    """It is told, not taken for written; the same sent again is there once."""
    run(path, lambda store: store.stats())
    done = traced(path, "fdatasync:error=EIO:when=4..5", times=6)
    lines = done.stdout.splitlines()
    entries = run(path, lambda store: store.read("s"))

    assert [line for line in lines if line.startswith("head")] == [f"head {head}" for head in range(1, 7)]
    assert [line for line in lines if line.startswith("told") and "disk reports an error" in line]
    assert [entry.id for entry in entries] == list("012345")
    assert run(path, lambda store: store.verify()) == []


# --- values -----------------------------------------------------------------------------------------------------------


def taken():
    """Return how many bytes of addresses this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def test_memory_that_ends(path):
    """Who appends too much is told; the store, the lease and everybody else go on."""
    large, small = draft(question("x" * 120_000_000)), draft(question())

    async def tell(store):
        lease = await store.append(await store.lease("s"), [small])
        await store.read("s")
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (taken() + 100_000_000, most))
        with pytest.raises((MemoryError, StoreError)):
            await store.append(lease, [large])
        assert (await store.append(await store.lease("t"), [small])).head == 1
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        return (await store.append(lease, [large])).head

    assert aside(lambda: run(path, tell)) == "2"


BOMB = "[" * 100_000 + "]" * 100_000


def test_json_that_bursts_is_refused_before_it_is_written(path):
    """As an entry it is refused when it is made; as the text that a model wrote it is text, and kept."""
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


def test_no_id_leads_out_of_its_folder(path):
    """Not one that is asked for, either: it is just not there. No file is made for it."""
    odd = ("../s", "/etc/passwd", "a/b", "a\0b", "-rf", "s" * 300, "s\n", "", ".", "s\ud800", "é", "~")
    run(path, lambda store: write(store, "s"))
    before = sorted(each.name for each in path.parent.rglob("*"))

    async def tell(store):
        for id in odd:
            for story in (store.lease(id), store.fork("s", id=id or "../x")):
                with pytest.raises(ValueError, match="id"):
                    await story
            for story in (
                store.read(id),
                store.session(id),
                store.rename(id, "n"),
                store.archive(id),
                store.delete(id),
            ):
                with pytest.raises(SessionNotFound):
                    await story

    run(path, tell)
    assert sorted(each.name for each in path.parent.rglob("*")) == before


# --- threads ----------------------------------------------------------------------------------------------------------


def test_threads_share_a_store(path):
    """Each with an event loop of its own, all at once."""
    store = SqlStore(SqliteEngine(path))
    heads, start = {}, threading.Barrier(4)

    async def tell(name):
        lease = await store.lease(name)
        for _ in range(10):
            lease = await store.append(lease, [draft(question(name))])
            assert len(await store.read(name)) == lease.head
        heads[name] = lease.head

    def thread(name):
        start.wait()
        asyncio.run(tell(name))

    threads = [threading.Thread(target=thread, args=(name,)) for name in "abcd"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert heads == dict.fromkeys("abcd", 10)
    assert asyncio.run(store.verify()) == []
    asyncio.run(store.close())
