"""Keeping house: names, archives, deleting, counting, collecting, and looking for damage."""

from __future__ import annotations

from tempfile import NamedTemporaryFile

import pytest

from tenuto.core.journal import RunEnded
from tenuto.errors import SessionInUse, SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.protocol import BLOB, Store
from tenuto.testing.chapters.stage import Chapter, answer, draft, question, reply, result, same, turn, write

__all__ = ["Keeping", "Verifying"]


class Keeping(Chapter):
    """Nothing goes but what is deleted, and that goes whole."""

    async def test_names(self, store: Store) -> None:
        for id in ("a", "b"):
            await write(store, id)
        for name in ("Ein Spaziergang im Regen", "雨の散歩 ☔", 'it\'s; -- 100% \\ "so"', "x" * 200, "Walk", "walk"):
            await store.rename("a", name)
            assert (await store.session("a")).name == name
            assert await store.find(name) == "a"

        await store.rename("a", "walk")
        with pytest.raises(ValueError, match="walk"):
            await store.rename("b", "walk")
        assert (await store.session("b")).name == ""
        await store.rename("a", "")
        await store.rename("b", "walk")
        assert await store.find("walk") == "b"
        await store.rename("a", "")
        await store.rename("b", "")

    async def test_a_name_is_one_line_that_can_be_shown(self, store: Store) -> None:
        await write(store, "a")
        for name in ("a\nb", "a\0", "\ud800", "\x1b[2J", "x" * 201, " a", "\u2028"):
            with pytest.raises(ValueError, match="name"):
                await store.rename("a", name)
        assert (await store.session("a")).name == ""

    async def test_keyword_is_no_name(self, store: Store) -> None:
        await write(store, "a")
        await write(store, "b")
        for name in ("last", "~0", "~1", "~123456789012"):
            with pytest.raises(ValueError, match="is not a name"):
                await store.rename("a", name)
        assert await store.find("last") == "b"
        assert (await store.session("a")).name == ""

    async def test_the_name_of_a_deleted_session_is_free(self, store: Store) -> None:
        for id in ("a", "b"):
            await write(store, id)
        await store.rename("a", "walk")
        await store.delete("a")
        await store.rename("b", "walk")

        assert await store.find("walk") == "b"

    async def test_deleting(self, store: Store) -> None:
        await write(store, "a", *turn())
        await write(store, "b")

        assert await store.delete("a") == ("a",)
        with pytest.raises(SessionNotFound):
            await store.read("a")
        assert [shown.id for shown in (await store.sessions(archived=None)).sessions] == ["b"]
        drafts = await write(store, "a", question("A new one"))
        assert same(await store.read("a"), drafts)
        assert await store.verify() == []

    async def test_what_is_held_is_not_deleted(self, store: Store) -> None:
        lease = await store.append(await store.lease("a"), [draft(question())])
        with pytest.raises(SessionInUse):
            await store.delete("a")
        await store.append(lease, [draft(answer())])
        await store.release(lease)

        assert await store.delete("a") == ("a",)

    async def test_forks_keep_what_they_share(self, store: Store) -> None:
        drafts = await write(store, "a", *turn())
        child = await store.fork("a", at=5)
        grandchild = await store.fork(child, at=2)
        for id in ("a", child):
            with pytest.raises(StoreError):
                await store.delete(id)
        assert same(await store.read(grandchild), drafts[:2])
        lease = await store.lease(grandchild)
        with pytest.raises(SessionInUse):
            await store.delete("a", children=True)
        assert same(await store.read(child), drafts[:5])
        await store.release(lease)

        assert {*await store.delete("a", children=True)} == {"a", child, grandchild}
        assert (await store.sessions(archived=None)).sessions == ()
        assert (await store.stats()).entries == 0

    async def test_a_fork_can_go_alone(self, store: Store) -> None:
        drafts = await write(store, "a", *turn())
        child = await store.fork("a", at=5)

        assert await store.delete(child) == (child,)
        assert same(await store.read("a"), drafts)

    async def test_counting(self, store: Store) -> None:
        empty = await store.stats()
        await write(store, "a", *turn())
        await write(store, await store.fork("a", at=2), question("!" * (BLOB + 1)))
        await store.lease("meant")
        stats = await store.stats()

        assert (empty.sessions, empty.entries, empty.blobs, empty.blob_bytes) == (0, 0, 0, 0)
        assert (stats.sessions, stats.entries, stats.blobs) == (2, 8, 1)
        assert stats.blob_bytes > BLOB
        assert stats.bytes > 0
        assert stats.schema >= 1
        assert stats.backend

    async def test_large_bodies_are_there_once(self, store: Store) -> None:
        large = question("rain " * BLOB)
        await write(store, "a", large, answer(), large)
        await write(store, "b", large)
        await store.fork("a")

        assert (await store.stats()).blobs == 1
        await store.delete("b")
        await store.gc()
        assert (await store.stats()).blobs == 1
        assert [entry.payload for entry in await store.read("a")] == [large, answer(), large]
        assert await store.verify() == []

    async def test_collecting_what_nothing_refers_to(self, store: Store) -> None:
        await write(store, "a", question("rain " * BLOB))
        await write(store, "b", question("snow " * BLOB))
        size = (await store.stats()).blob_bytes
        await store.delete("a")
        await store.gc()
        stats = await store.stats()

        assert stats.blobs == 1
        assert 0 < stats.blob_bytes < size
        assert await store.gc() == 0
        assert len(await store.read("b")) == 1

    async def test_collecting_spares_whoever_is_about_to_write(self, store: Store) -> None:
        lease = await store.lease("s")
        await store.gc()

        assert (await store.append(lease, [draft(question())])).head == 1

    async def test_a_copy_overwrites_nothing(self, store: Store) -> None:
        """Where a store can be copied at all."""
        await write(store, "s", *turn())
        with NamedTemporaryFile() as taken:
            taken.write(b"precious")
            taken.flush()
            with pytest.raises(StoreError):
                await store.backup(taken.name)
            taken.seek(0)
            assert taken.read() == b"precious"


class Verifying(Chapter):
    """Damage is found, and nothing else is called damage."""

    async def test_a_good_store_has_no_faults(self, store: Store) -> None:
        await write(store, "a", *turn(), RunEnded("completed"))
        await write(store, "b", question(), reply("x", "x"), result("x", 1))
        await write(store, "c", question("rain " * BLOB), reply("x"))
        await write(store, await store.fork("a", at=4), result("a", 0))
        await store.lease("meant")

        assert await store.verify() == []
        assert await store.verify("b") == []

    async def test_a_result_without_its_call_is_a_fault(self, store: Store) -> None:
        await write(store, "a", question(), result("a", 0))
        await write(store, "b", question(), reply("a"), result("b", 1))
        await write(store, "c", *turn())

        assert [(fault.session, fault.seq) for fault in await store.verify()] == [("a", 2), ("b", 3)]
        assert [fault.seq for fault in await store.verify("a")] == [2]
        assert all(fault.what for fault in await store.verify())

    async def test_changed_bytes_are_found(self, store: Store) -> None:
        await write(store, "a", *turn())
        await write(store, "b", question("rain " * BLOB), answer())
        for session, seq in (("a", 3), ("b", 1)):
            await self.damage(session, seq)

        assert {(fault.session, fault.seq) for fault in await store.verify()} == {("a", 3), ("b", 1)}
        assert {fault.seq for fault in await store.verify("b")} == {1}

    async def test_read_refuses_damaged_entries(self, store: Store) -> None:
        drafts = await write(store, "a", *turn())
        fork = await store.fork("a", at=5)
        await write(store, "b", question("rain " * BLOB), answer())
        for session, seq in (("a", 3), ("b", 1)):
            await self.damage(session, seq)

        for session, seq in (("a", 3), (fork, 3), ("b", 1)):
            with pytest.raises(StoreCorrupt, match=f"entry {seq} "):
                await store.read(session)
        assert same(await store.read("a", upto=2), drafts[:2])
        assert same(await store.read("a", after=3), drafts[3:], first=4)

    async def test_changed_bytes_are_found_through_forks(self, store: Store) -> None:
        await write(store, "a", *turn())
        fork = await store.fork("a", at=5)
        await self.damage("a", 3)

        assert {fault.seq for fault in await store.verify(fork)} == {3}
