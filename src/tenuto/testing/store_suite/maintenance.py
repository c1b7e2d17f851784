"""Names, deleting, counting, collecting unused data, and finding damage."""

from __future__ import annotations

from tempfile import NamedTemporaryFile

from tenuto.core.inbox import Cancel
from tenuto.core.journal import RunEnded
from tenuto.errors import SessionInUse, SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.protocol import BLOB, Store
from tenuto.testing.store_suite.helpers import (
    StoreTests,
    add,
    answer,
    expect_error,
    question,
    reply,
    result,
    same,
    start,
    turn,
    write,
)

LARGE = question("rain " * BLOB)
NOT_NAMES = ("a\nb", "a\0", "\ud800", "\x1b[2J", "x" * 201, " a", "\u2028", "last", "~0", "~1", "~123456789012")
"""Text that is not one printable line, and keywords of `find`."""


class MaintenanceTests(StoreTests):
    async def test_name_belongs_to_one_session(self, store: Store) -> None:
        for id in ("a", "b"):
            await write(store, id)
        await expect_error(ValueError, *(store.rename("a", name) for name in NOT_NAMES), match="is not a name")
        for name in ("Ein Spaziergang im Regen", "雨の散歩 ☔", 'it\'s; -- 100% \\ "so"', "x" * 200, "Walk", "walk"):
            await store.rename("a", name)
            assert (await store.session("a")).name == name
            assert await store.find(name) == "a"

        await expect_error(ValueError, store.rename("b", "walk"), match="walk")
        assert (await store.session("b")).name == ""
        await store.rename("a", "")
        await store.rename("b", "walk")
        assert await store.find("walk") == "b"
        await store.delete("b")
        await store.rename("a", "walk")
        assert await store.find("walk") == "a"

    async def test_deleted_session_is_gone(self, store: Store) -> None:
        await write(store, "a", *turn())
        await store.post("a", Cancel())
        lease = await start(store, "b")
        assert len(await store.search("rain")) == 1
        await expect_error(SessionInUse, store.delete("b"))
        await add(store, lease, answer("Snow."))

        assert await store.delete("a") == ("a",)
        await expect_error(SessionNotFound, store.read("a"))
        assert [shown.id for shown in (await store.sessions(archived=None)).sessions] == ["b"]
        assert await store.search("rain") == []
        assert await store.posted() == {}
        drafts = await write(store, "a", question("A new one"))
        assert same(await store.read("a"), drafts)
        assert await store.inbox("a") == []
        assert await store.verify() == []

    async def test_session_with_forks_is_deleted_with_them(self, store: Store) -> None:
        drafts = await write(store, "a", *turn())
        child = await store.fork("a", at=5)
        grandchild = await store.fork(child, at=2)
        assert await store.delete(single := await store.fork("a")) == (single,)
        await expect_error(StoreError, store.delete("a"), store.delete(child))
        lease = await store.lease(grandchild)
        await expect_error(SessionInUse, store.delete("a", children=True))
        for id, count in (("a", 7), (child, 5), (grandchild, 2)):
            assert same(await store.read(id), drafts[:count])
        await store.release(lease)

        assert {*await store.delete("a", children=True)} == {"a", child, grandchild}
        assert (await store.sessions(archived=None)).sessions == ()
        assert (await store.stats()).entries == 0

    async def test_large_bodies_are_stored_once(self, store: Store) -> None:
        """`gc` removes those that no entry has, and no session that a process is about to write."""
        empty = await store.stats()
        lease = await store.lease("empty")
        await write(store, "a", answer(), LARGE, LARGE)
        await write(store, "b", LARGE, question("snow " * BLOB))
        await write(store, await store.fork("a"), question())
        full = await store.stats()

        assert (empty.sessions, empty.entries, empty.blobs, empty.blob_bytes) == (0, 0, 0, 0)
        assert (full.sessions, full.entries, full.blobs) == (3, 6, 2)
        assert min(full.bytes, full.schema, len(full.backend)) > 0
        await store.delete("b")
        await store.gc()
        stats = await store.stats()
        assert stats.blobs == 1
        assert BLOB < stats.blob_bytes < full.blob_bytes
        assert await store.gc() == 0
        assert [entry.payload for entry in await store.read("a")] == [answer(), LARGE, LARGE]
        assert (await add(store, lease, question())).head == 1
        assert await store.verify() == []

    async def test_backup_overwrites_nothing(self, store: Store) -> None:
        await write(store, "s", *turn())
        with NamedTemporaryFile() as existing:
            existing.write(b"precious")
            existing.flush()
            await expect_error(StoreError, store.backup(existing.name))
            existing.seek(0)
            assert existing.read() == b"precious"

    # --- damage ---

    async def test_verify_reports_results_without_calls(self, store: Store) -> None:
        """Calls without results are not a problem."""
        await write(store, "a", question(), result("a", 0))
        await write(store, "b", question(), reply("a"), result("b", 1))
        await write(store, "c", *turn(), RunEnded("completed"))
        await write(store, "d", question(), reply("x", "x"), result("x", 1))
        await write(store, "e", LARGE, reply("x"))
        await write(store, await store.fork("c", at=4), result("a", 0))
        await store.lease("empty")

        assert [(problem.session, problem.seq, bool(problem.what)) for problem in await store.verify()] == [
            ("a", 2, True),
            ("b", 3, True),
        ]
        assert [problem.seq for problem in await store.verify("a")] == [2]
        assert await store.verify("d") == []

    async def test_damaged_entries_are_found(self, store: Store) -> None:
        """By `verify` and by `read`, also in forks that share them."""
        drafts = await write(store, "a", *turn())
        fork = await store.fork("a", at=5)
        await write(store, "b", LARGE, answer())
        for session, seq in (("a", 3), ("b", 1)):
            await self.damage(session, seq)

        damaged = {("a", 3), (fork, 3), ("b", 1)}
        assert {(problem.session, problem.seq) for problem in await store.verify()} == damaged
        for session, seq in damaged:
            assert {problem.seq for problem in await store.verify(session)} == {seq}
            await expect_error(StoreCorrupt, store.read(session), match=f"entry {seq} ")
        assert same(await store.read("a", upto=2), drafts[:2])
        assert same(await store.read("a", after=3), drafts[3:], first=4)
