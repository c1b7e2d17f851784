"""The inbox: items are posted without a lease, once, and taken in the transaction that writes their entries."""

from __future__ import annotations

import asyncio

import pytest

from tenuto.core.inbox import Cancel, Decision, Finished, InboxItem, Prompt, Steer, UnknownItem
from tenuto.core.messages import Usage, UserMessage
from tenuto.errors import InboxNotEmpty, LeaseLost, SessionNotFound, StoreError
from tenuto.store.protocol import BLOB, Store
from tenuto.testing.chapters.stage import Chapter, answer, draft, question, same, write

ITEMS: tuple[InboxItem, ...] = (
    Prompt(UserMessage("And in Bergen?"), key="job-7"),
    Steer(UserMessage("In Celsius.")),
    Decision("call", 1, allowed=False, reason="not today", reply_seq=4),
    Cancel("enough"),
    Finished("child", UserMessage("It is done."), usage=Usage(input_tokens=3), cost="0.25"),
)


class Inbox(Chapter):
    async def test_posted_items_are_read_in_order(self, store: Store) -> None:
        await write(store, "s")
        ids = [await store.post("s", item) for item in ITEMS]
        items = await (await self.another()).inbox("s")

        assert tuple(posted.item for posted in items) == ITEMS
        assert [posted.id for posted in items] == ids
        assert len({*ids}) == len(ITEMS)
        numbers = [posted.number for posted in items]
        assert numbers == sorted({*numbers})
        assert all(posted.time_ms > 0 for posted in items)

    async def test_post_needs_no_lease(self, store: Store) -> None:
        other = await self.another()
        lease = await store.append(await store.lease("s"), [draft(question())])
        await other.post("s", Cancel())

        assert len(await store.inbox("s")) == 1
        assert (await store.append(lease, [draft(answer())])).head == 2

    async def test_post_refuses_unknown_sessions(self, store: Store) -> None:
        await store.lease("empty")
        for session in ("nothing", "empty", "", "../a"):
            with pytest.raises(SessionNotFound):
                await store.post(session, Cancel())
            with pytest.raises(SessionNotFound):
                await store.inbox(session)
        assert await store.posted() == {}

    async def test_same_id_is_posted_once(self, store: Store) -> None:
        await write(store, "s")
        await write(store, "t")
        for _ in range(2):
            assert await store.post("s", Cancel("first"), id="one") == "one"
            assert await store.post("t", Cancel("other"), id="one") == "one"
        await store.post("s", Cancel("second"), id="one")

        assert [posted.item for posted in await store.inbox("s")] == [Cancel("first")]
        assert [posted.item for posted in await store.inbox("t")] == [Cancel("other")]

    async def test_post_refuses_invalid_item_ids(self, store: Store) -> None:
        await write(store, "s")
        for id in ("a\n", "x" * 201):
            with pytest.raises(ValueError, match="id"):
                await store.post("s", Cancel(), id=id)

    async def test_posted_lists_sessions_with_highest_number(self, store: Store) -> None:
        for session in ("a", "b", "c"):
            await write(store, session)
        assert await store.posted() == {}
        for session in ("a", "b", "a"):
            await store.post(session, Cancel())

        expected = {session: (await store.inbox(session))[-1].number for session in ("a", "b")}
        assert await (await self.another()).posted() == expected

    async def test_append_takes_items(self, store: Store) -> None:
        await write(store, "s")
        for _ in range(3):
            await store.post("s", Cancel())
        first, second, third = await store.inbox("s")
        lease = await store.lease("s")
        lease = await store.append(lease, [taken := draft(answer(), id=second.id)], taking=[second.number])

        assert await store.inbox("s") == [first, third]
        assert (await store.read("s"))[-1].id == taken.id
        await store.append(lease, [], taking=[first.number, third.number])
        assert await store.inbox("s") == []
        assert await store.posted() == {}
        assert await store.verify() == []

    async def test_numbers_are_not_used_twice(self, store: Store) -> None:
        """A process that saw number N looks again only for a higher one."""
        await write(store, "s")
        lease = await store.lease("s")
        seen: list[int] = []
        for _ in range(3):
            await store.post("s", Cancel())
            [posted] = await store.inbox("s")
            seen.append(posted.number)
            lease = await store.append(lease, [], taking=seen[-1:])

        assert seen == sorted({*seen})

    async def test_taken_item_is_not_posted_again(self, store: Store) -> None:
        await write(store, "s")
        id = await store.post("s", Steer(UserMessage("Hurry.")), id="job")
        [posted] = await store.inbox("s")
        await store.append(await store.lease("s"), [draft(answer(), id=id)], taking=[posted.number])

        assert await store.post("s", Steer(UserMessage("Hurry.")), id="job") == "job"
        assert await store.inbox("s") == []

    async def test_fork_has_no_inbox(self, store: Store) -> None:
        [shared, later] = await write(store, "s", question(), answer())
        await store.post("s", Cancel(), id="item")
        fork = await store.fork("s", at=1)

        assert await store.inbox(fork) == []
        for id in (shared.id, later.id, "item"):
            await store.post(fork, Cancel(), id=id)
        assert [posted.id for posted in await store.inbox(fork)] == [later.id, "item"]
        assert len(await store.inbox("s")) == 1

    async def test_failed_append_takes_nothing(self, store: Store) -> None:
        drafts = await write(store, "s")
        await store.post("s", Cancel())
        [posted] = await store.inbox("s")
        lease = await store.lease("s")
        with pytest.raises(StoreError):
            await store.append(lease, [draft(answer(), id=drafts[0].id)], taking=[posted.number])
        await store.lease("s", takeover=True)
        with pytest.raises(LeaseLost):
            await store.append(lease, [draft(answer())], taking=[posted.number])

        assert await store.inbox("s") == [posted]

    async def test_append_takes_only_items_of_its_session(self, store: Store) -> None:
        await write(store, "s")
        await write(store, "t")
        await store.post("t", Cancel())
        [posted] = await store.inbox("t")
        await store.append(await store.lease("s"), [draft(answer())], taking=[posted.number])

        assert await store.inbox("t") == [posted]

    async def test_unless_posted_refuses_other_items(self, store: Store) -> None:
        drafts = await write(store, "s")
        lease = await store.lease("s")
        await store.post("s", Cancel())
        await store.post("s", Cancel())
        first, second = await store.inbox("s")
        for taking in ([], [first.number]):
            with pytest.raises(InboxNotEmpty):
                await store.append(lease, [draft(answer())], taking=taking, unless_posted=True, release=True)

        assert same(await store.read("s"), drafts)
        assert await store.inbox("s") == [first, second]
        last = draft(answer())
        await store.append(lease, [last], taking=[first.number, second.number], unless_posted=True, release=True)
        assert same(await store.read("s"), [*drafts, last])
        assert (await store.session("s")).holder == ""

    async def test_append_sent_again_ignores_newer_items(self, store: Store) -> None:
        """The entries are stored, so the items were taken with them."""
        await write(store, "s")
        await store.post("s", Cancel())
        [posted] = await store.inbox("s")
        lease = await store.lease("s")
        drafts = [draft(answer(), id=posted.id)]
        await store.append(lease, drafts, taking=[posted.number], unless_posted=True)
        await store.post("s", Cancel("newer"), id="newer")
        again = await store.append(lease, drafts, taking=[posted.number], unless_posted=True)

        assert again.head == 2
        assert [left.id for left in await store.inbox("s")] == ["newer"]

    async def test_many_posts_at_once(self, store: Store) -> None:
        other = await self.another()
        await write(store, "s")
        posts = [handle.post("s", Cancel(), id=f"item-{n}") for n in range(12) for handle in (store, other)]
        await asyncio.gather(*posts)

        assert {posted.id for posted in await store.inbox("s")} == {f"item-{n}" for n in range(12)}
        assert len(await store.inbox("s")) == 12

    async def test_unknown_items_are_kept(self, store: Store) -> None:
        later = UnknownItem("dream", '{"item":"dream","of":{"electric":"sheep"}}')
        await write(store, "s")
        await store.post("s", later)

        assert [posted.item for posted in await store.inbox("s")] == [later]
        assert await store.verify() == []

    async def test_large_and_odd_items_are_kept(self, store: Store) -> None:
        items = [Steer(UserMessage(text)) for text in ("x" * (BLOB + 1), "a\0b", "\ud800", "\U0001f600\u202e")]
        await write(store, "s")
        for item in items:
            await store.post("s", item)

        assert [posted.item for posted in await store.inbox("s")] == items

    async def test_delete_removes_the_inbox(self, store: Store) -> None:
        await write(store, "s")
        await store.post("s", Cancel())
        await store.delete("s")
        await write(store, "s")

        assert await store.inbox("s") == []
        assert await store.posted() == {}
        assert await store.verify() == []
