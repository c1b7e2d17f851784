"""A look at a file without an event loop: it sees what the store shows, and loads next to nothing."""

from __future__ import annotations

import ast
import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.core import jsonio
from tenuto.core.blocks import Text
from tenuto.core.journal import Configured, MessageAdded, ReplyReceived, RunEnded, SessionMeta
from tenuto.core.messages import AssistantMessage, Usage, UserMessage
from tenuto.core.stored import make_draft
from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store.open import file_of, open_store
from tenuto.store.sessions import (
    TTL,
    ListQuery,
    SessionLine,
    SessionRow,
    _read_summary,
    is_held,
    list_lines,
    list_page,
    read_line,
)
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteEngine


def written(store, id, *acts, at=1_000):
    async def write():
        lease = await store.lease(id)
        drafts = [make_draft(act, id=f"{id}{n}", time_ms=at + n) for n, act in enumerate(acts)]
        await store.release(await store.append(lease, drafts))

    return write()


REPLY = ReplyReceived(AssistantMessage((Text("Yes."),)), usage=Usage(input_tokens=3, output_tokens=4))


async def filled(store):
    """Sessions of many kinds: named, put away, forked, of agents, with odd words in them."""
    await written(
        store, "one", Configured("sim/anthropic"), MessageAdded(UserMessage("Hello")), REPLY, RunEnded("completed")
    )
    await written(store, "two", Configured("sim/古\ud800"), MessageAdded(UserMessage('古い "\x1b" \udc00')), at=5_000)
    await written(store, "three", Configured("sim/openai", agent="helper"), MessageAdded(UserMessage("Help")), at=3_000)
    await written(store, "four", Configured("sim/openai"), RunEnded("failed"), at=4_000)
    await store.rename("one", "trip to 東京")
    await store.archive("four")
    await store.fork("one", at=2, id="fork")


ASKED = [
    ListQuery(None, None, None, "updated", 50, ""),
    ListQuery("", None, False, "updated", 20, ""),
    ListQuery("", None, True, "updated", 20, ""),
    ListQuery("helper", None, None, "updated", 20, ""),
    ListQuery(None, "completed", None, "created", 20, ""),
    ListQuery(None, None, None, "created", 2, ""),
    ListQuery("nobody", None, False, "updated", 20, ""),
]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "sessions.db"


def seen(store, wanted):
    return store.sessions(**wanted._asdict())


def test_it_sees_what_the_store_shows(file):
    """Whoever holds a session, and whatever is asked for; page by page."""

    async def play():
        async with open_store(file) as store:
            await filled(store)
            lease = await store.lease("three")
            for at, act in enumerate(
                (MessageAdded(UserMessage("Again")), REPLY, MessageAdded(UserMessage("And now?")))
            ):
                lease = await store.append(lease, [make_draft(act, id=f"more{at}", time_ms=4_500 + at)])
            for wanted in ASKED:
                theirs = await seen(store, wanted)
                assert list_page(file, wanted) == theirs
                assert list_lines(file, wanted) == [read_line(one) for one in theirs.sessions]
                after = theirs.next
                while after:
                    theirs = await seen(store, wanted._replace(after=after))
                    assert list_page(file, wanted._replace(after=after)) == theirs
                    assert list_lines(file, wanted._replace(after=after)) == list(map(read_line, theirs.sessions))
                    after = theirs.next
            return list_lines(file, ASKED[0])

    found = {one.id: one for one in asyncio.run(play())}

    assert {"one", "two", "three", "four", "fork"} == set(found)
    assert found["three"].holder
    assert (found["three"].message_count, found["three"].updated_at) == (4, 4_502)
    assert SessionLine("one", "trip to 東京", "Hello", "completed", "", "sim/anthropic", 2, 1_003, "") == found["one"]


def test_dead_holder_is_not_listed(file):
    async def play():
        store = SqlStore(SqliteEngine(file))
        lease = await store.lease("one")
        await store.append(lease, [make_draft(MessageAdded(UserMessage("Hi")), id="a", time_ms=1)])
        for held in store._process.leases.held.values():
            held.lock.close()  # as the end of the process does
        store._process.leases.held.clear()
        await store.close()

    asyncio.run(play())

    assert "" == list_lines(file, ASKED[0])[0].holder == list_page(file, ASKED[0]).sessions[0].holder


def test_time_decides_without_a_lock(file):
    row = SessionRow(*[0] * len(SessionRow._fields))._replace(owner="x", ttl_ms=TTL, lock_dir_id="")
    held = [is_held(row._replace(until=until), 100, SqliteEngine(file)) for until in (100, 101, 100 + TTL, 10**9)]

    assert held == [False, True, True, False]
    assert not is_held(row._replace(owner="", until=101), 100, SqliteEngine(file))


def test_looking_writes_nothing(file):
    async def play():
        async with open_store(file) as store:
            await filled(store)

    asyncio.run(play())
    before = {path: path.read_bytes() for path in file.parent.iterdir() if path.is_file()}
    list_lines(file, ASKED[0])
    list_page(file, ASKED[0])

    assert before == {path: path.read_bytes() for path in file.parent.iterdir() if path.is_file()}


# --- what is damaged --------------------------------------------------------------------------------------------------


def said_by(act):
    with pytest.raises(StoreError) as caught:
        act()
    return type(caught.value), str(caught.value)


def foreign(file):
    db = sqlite3.connect(file)
    db.execute("CREATE TABLE t (x)")
    db.commit()
    db.close()


def newer(file):
    asyncio.run(open_and_fill(file))
    db = sqlite3.connect(file)
    db.execute("PRAGMA user_version=99")
    db.commit()
    db.close()


def damaged(file):
    asyncio.run(open_and_fill(file))
    db = sqlite3.connect(file)
    db.execute("UPDATE sessions SET meta = ? WHERE id = 'one'", (b'{"title":7}',))
    db.commit()
    db.close()


async def open_and_fill(file):
    async with open_store(file) as store:
        await filled(store)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.touch(),
        lambda file: file.mkdir(),
        lambda file: file.write_bytes(b"x" * 9000),
        foreign,
        newer,
        damaged,
    ],
    ids=["empty", "folder", "noise", "foreign", "newer", "damaged"],
)
def test_what_cannot_be_read_is_told_as_the_store_tells_it(file, spoil):
    spoil(file)

    def theirs():
        async def play():
            async with open_store(file) as store:
                await seen(store, ASKED[0])

        asyncio.run(play())

    told = said_by(theirs)

    assert told == said_by(lambda: list_lines(file, ASKED[0])) == said_by(lambda: list_page(file, ASKED[0]))


metas = st.builds(
    SessionMeta,
    id=st.text(max_size=5),
    updated_at=st.integers(-(2**63), 2**63 - 1),
    message_count=st.integers(0, 2**63 - 1),
    model=st.text(max_size=8),
    title=st.text(st.characters(), max_size=8),
    status=st.sampled_from(["new", "interrupted", "completed"]),
    usage=st.builds(Usage, input_tokens=st.none() | st.integers(0, 9)),
)


@settings(max_examples=60)
@given(metas)
def test_a_summary_is_read_as_its_writer_meant_it(meta):
    found = _read_summary(jsonio.encode(meta))

    assert found is not None
    assert found == {name: getattr(meta, name) for name in found}
    assert {"title", "status", "waiting_for", "model", "message_count", "updated_at"} == set(found)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"7",
        b"{",
        b'{"title":null}',
        b'{"status":1}',
        b'{"status":"open"}',
        b'{"updated_at":true}',
        b"[" * 5000,
        b"\xff",
    ],
)
def test_a_summary_that_is_none_is_refused(file, raw):
    asyncio.run(open_and_fill(file))
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE sessions SET meta = ? WHERE id = 'two'", (raw,))
    for look in (list_lines, list_page):
        with pytest.raises(StoreCorrupt, match="the summary of a session cannot be read"):
            look(file, ASKED[0])


# --- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more, heavy", [([], {"msgspec"}), (["--json"], set())], ids=["table", "json"])
def test_the_command_loads_no_loop(file, more, heavy):
    """Neither with a session that somebody holds nor without; the plain list does without the values, too."""

    async def play():
        async with open_store(file) as store:
            await filled(store)
            await store.lease("two")
            code = (
                "import sys; from tenuto.cli.main import main; "
                f"main(['sessions', *{more}, '--store', {str(file)!r}]); print(sorted(sys.modules), file=sys.stderr)"
            )
            done = await asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=True
            )
            return done.stdout, set(ast.literal_eval(done.stderr))

    out, loaded = asyncio.run(play())

    assert set() == loaded & ({"asyncio", "aiohttp", "rich.console", "ssl", "socket", "difflib"} | heavy)
    listed = [one["status"] for one in json.loads(out)] if more else [line.split()[3] for line in out.splitlines()[1:]]
    assert ["forked", "running", "completed"] == listed


def test_places_that_are_files(tmp_path):
    """The same as those that a store is opened at."""
    assert tmp_path / "x" == file_of(str(tmp_path / "x")) == file_of(f"sqlite:///{tmp_path / 'x'}")
    assert [None] * 4 == [file_of(place) for place in ("memory://x", "postgresql://h/d", "sqlite://x", "sqlite:///")]
    for place in ("", "a\0b", "sqlite:///a\0b"):
        with pytest.raises(ValueError, match="name of a file"):
            file_of(place)


# --- how far it is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["file", None])
def test_verify_tells_how_far_it_is(file, where):
    told = []

    async def play():
        async with open_store(file if where else None) as store:
            await filled(store)
            return await store.verify(tell=lambda done, total: told.append((done, total)))

    assert [] == asyncio.run(play())
    assert [(n, 5) for n in range(1, 6)] == told


def test_reindexing_counts_all_that_can_be_found(file):
    """Also what the thread that writes put in by itself meanwhile."""

    async def play():
        async with open_store(file) as store:
            await filled(store)
            return await store.reindex(), len(await store.search("hello")), len(await store.search("yes"))

    assert (4, 1, 1) == asyncio.run(play())
