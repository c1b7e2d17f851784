"""Forks: they share the entries before them, and have times of their own."""

from __future__ import annotations

import msgspec
import pytest

from tenuto.core.journal import RunEnded, SessionMeta, session_meta_of
from tenuto.errors import SessionNotFound, StoreError
from tenuto.store.protocol import Store, StoredSession
from tenuto.testing.chapters.stage import Chapter, answer, draft, question, same, turn, write

__all__ = ["Forking", "as_fork"]


def as_fork(meta: SessionMeta, fork: StoredSession) -> SessionMeta:
    """Return the summary of a session as its new fork has it: with times of its own, and new."""
    times = {"created_at": fork.meta.created_at, "updated_at": fork.meta.updated_at}
    return msgspec.structs.replace(meta, id=fork.id, status="new", **times)


class Forking(Chapter):
    """Branches share what came before them, and nothing that comes after."""

    async def test_fork_has_times_of_its_own_and_is_last(self, store: Store) -> None:
        await write(store, "one", *turn(), RunEnded("completed"))
        await write(store, "two", *turn())
        old = (await store.session("two")).meta.updated_at
        self.clock.now = old + 1000
        for at in (0, 3, None):
            fork = await store.fork("one", at=at)
            meta = (await store.session(fork)).meta

            assert meta.created_at == meta.updated_at > old
            assert meta.status == "new"
            assert await store.find("last") == fork
            assert [shown.id for shown in (await store.sessions(status="new", limit=1)).sessions] == [fork]
            await store.archive(fork)
        await write(store, fork, question())
        shown = await store.session(fork)
        assert shown.meta.created_at == meta.created_at
        assert shown.meta.status == "interrupted"
        assert await store.verify() == []

    async def test_forks_lists_the_children_of_a_session(self, store: Store) -> None:
        await write(store, "s", *turn())
        for id, parent in (("c", "s"), ("a", "s"), ("b", "a")):
            await store.fork(parent, at=2, id=id)
        await store.archive("a")

        assert await store.forks("s") == ["a", "c"]
        assert await store.forks("a") == ["b"]
        assert await store.forks("b") == []
        with pytest.raises(SessionNotFound):
            await store.forks("nobody")

    async def test_a_fork_shares_what_came_before(self, store: Store) -> None:
        drafts = await write(store, "s", *turn())
        before = await store.read("s")
        for at in (0, 1, 4, 7):
            fork = await store.fork("s", at=at)
            shown = await store.session(fork)
            assert await store.read(fork) == before[:at]
            assert (shown.id, shown.parent, shown.forked_at, shown.head) == (fork, "s", at, at)
            assert shown.meta == as_fork(session_meta_of(fork, before[:at]), shown)
        whole = await store.fork("s")

        assert same(await store.read(whole), drafts)
        assert (await store.stats()).entries == len(drafts)
        assert await store.verify() == []

    async def test_branches_go_their_own_ways(self, store: Store) -> None:
        drafts = await write(store, "s", *turn())
        fork = await store.fork("s", at=3)
        there = await write(store, fork, question("Instead?"), answer("Snow."))
        here = await write(store, "s", question("And then?"))

        assert same(await store.read(fork), [*drafts[:3], *there])
        assert same(await store.read("s"), [*drafts, *here])
        shown, expected = await store.session(fork), session_meta_of(fork, await store.read(fork))
        assert shown.meta == msgspec.structs.replace(as_fork(expected, shown), status=expected.status)
        assert await store.verify() == []

    async def test_a_fork_of_a_fork_below_its_own_beginning(self, store: Store) -> None:
        """It shows what its grandparent had there, and no more of it than was asked for."""
        drafts = await write(store, "s", *turn())
        child = await store.fork("s", at=5)
        mine = await write(store, child, question(), answer())
        for at in range(8):
            grandchild = await store.fork(child, at=at)
            assert same(await store.read(grandchild), [*drafts[:5], *mine][:at]), at
            last = await write(store, grandchild, question("Last."))
            assert same(await store.read(grandchild), [*drafts[:5], *mine][:at] + last), at
            assert same(await store.read(grandchild, after=2, upto=4), ([*drafts[:5], *mine][:at] + last)[2:4], first=3)
        assert await store.verify() == []

    async def test_a_fork_gets_the_id_it_is_given(self, store: Store) -> None:
        await write(store, "s")

        assert await store.fork("s", id="branch-1") == "branch-1"
        assert await store.fork("s") != await store.fork("s")
        for taken in ("s", "branch-1"):
            with pytest.raises((StoreError, ValueError)):
                await store.fork("s", id=taken)
        for bad in ("a b", "../a", "a\n", "-"):
            with pytest.raises(ValueError, match="id"):
                await store.fork("s", id=bad)

    async def test_what_cannot_be_forked(self, store: Store) -> None:
        await write(store, "s", *turn())
        for at in (-1, 8):
            with pytest.raises((StoreError, ValueError)):
                await store.fork("s", at=at)
        with pytest.raises(SessionNotFound):
            await store.fork("nobody")
        await store.lease("meant")
        with pytest.raises(SessionNotFound):
            await store.fork("meant")
        assert len((await store.sessions()).sessions) == 1

    async def test_a_held_session_can_be_forked(self, store: Store) -> None:
        lease = await store.append(await store.lease("s"), [draft(question())])
        fork = await store.fork("s")
        await write(store, fork, answer())

        assert (await store.append(lease, [draft(answer())])).head == 2
