"""Writing: entries in their order, one writer at a time."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tenuto.core.journal import (
    VERSION,
    Configured,
    EntryPayload,
    RunEnded,
    UnknownPayload,
    session_meta_of,
    unknown_payloads_in,
)
from tenuto.errors import LeaseLost, SessionInUse, SessionNotFound, StoreError
from tenuto.store.protocol import Store
from tenuto.testing.chapters.forking import as_fork
from tenuto.testing.chapters.stage import Chapter, answer, draft, outcome, question, same, turn, write

__all__ = ["Appending", "Leasing"]

BAD_IDS = ("", "-a", "_a", "a b", "a/b", "../a", "a\n", "a\0", "ä", "a" * 65, ".", "~1", "a.b", "\ud800", "last")


class Appending(Chapter):
    """All of an append or nothing, at the head, once."""

    async def test_entries_get_their_place(self, store: Store) -> None:
        drafts = [draft(act) for act in turn()]
        lease = await store.lease("s")
        after = await store.append(lease, drafts)
        entries = await store.read("s")

        assert same(entries, drafts)
        assert after.head == len(drafts)
        assert (after.session, after.owner, after.fence) == ("s", lease.owner, lease.fence)
        assert {entry.fence for entry in entries} == {lease.fence}

    async def test_appends_follow_one_another(self, store: Store) -> None:
        lease = await store.lease("s")
        drafts = [draft(act) for act in turn()]
        for one in drafts:
            lease = await store.append(lease, [one])

        assert same(await store.read("s"), drafts)
        assert lease.head == len(drafts)

    async def test_an_append_sent_again_is_the_same(self, store: Store) -> None:
        before = await store.lease("s")
        drafts = [draft(question()), draft(answer())]
        await store.append(before, drafts)
        again = await store.append(before, drafts)

        assert again.head == 2
        last = draft(question("And now?"))
        await store.append(again, [last])
        assert same(await store.read("s"), [*drafts, last])

    async def test_nothing_is_there_twice(self, store: Store) -> None:
        """Whoever sends it again with the newer lease may be told so or not; the entry is one entry."""
        lease = await store.lease("s")
        drafts = [draft(question())]
        lease = await store.append(lease, drafts)
        with contextlib.suppress(StoreError):
            await store.append(lease, drafts)

        assert same(await store.read("s"), drafts)

    async def test_other_entries_at_an_old_head_are_refused(self, store: Store) -> None:
        before = await store.lease("s")
        first = draft(question())
        await store.append(before, [first])
        for others in ([draft(answer())], [first, draft(answer())], [draft(answer(), id=first.id)]):
            with pytest.raises(StoreError):
                await store.append(before, others)

        assert same(await store.read("s"), [first])

    async def test_an_append_is_written_whole_or_not_at_all(self, store: Store) -> None:
        lease = await store.lease("s")
        first = draft(question())
        lease = await store.append(lease, [first])
        twice = draft(answer())
        for drafts in ([twice, twice], [draft(answer()), draft(question(), id=first.id)]):
            with pytest.raises(StoreError):
                await store.append(lease, drafts)

        assert same(await store.read("s"), [first])
        good = draft(answer())
        await store.append(lease, [good])
        assert same(await store.read("s"), [first, good])

    async def test_appending_nothing_changes_nothing(self, store: Store) -> None:
        lease = await store.append(await store.lease("s"), [])

        assert lease.head == 0
        with pytest.raises(SessionNotFound):
            await store.session("s")

    async def test_the_summary_keeps_up(self, store: Store) -> None:
        lease = await store.lease("s")
        for act in turn():
            lease = await store.append(lease, [draft(act)])
        entries = await store.read("s")
        shown = await store.session("s")

        assert shown.meta == session_meta_of("s", entries)
        assert shown.meta.message_count == 4
        assert shown.meta.usage.total_tokens == 17
        assert (shown.id, shown.head, shown.meta.title) == ("s", 7, "What is the weather in Oslo?")

    async def test_everybody_sees_what_a_holder_has_written_so_far(self, store: Store) -> None:
        """Entry by entry, in a list, by itself, by its words, as the last, and as what a fork begins with."""
        other = await self.another()
        await write(store, "older", question())
        lease = await store.lease("s")
        told: list[EntryPayload] = [
            Configured("sim/one", agent="helper"),
            *turn(),
            RunEnded("completed"),
            *turn(),
            *turn(),
        ]
        for act in told:
            lease = await store.append(lease, [draft(act)])
            entries = await other.read("s")
            shown = (await other.sessions()).sessions[0]

            assert shown == await other.session("s")
            assert (shown.id, shown.head, shown.meta) == ("s", lease.head, session_meta_of("s", entries))
            assert [found.id for found in (await other.sessions(status="running", agent="helper")).sessions] == ["s"]
        assert await other.find("last") == "s"
        assert {hit.seq for hit in await other.search("rain")} == {e.seq for e in entries if e.payload == answer()}
        fork = await other.session(await other.fork("s"))
        assert fork.meta == as_fork(shown.meta, fork)
        await store.append(lease, [draft(question("Is this a heron?"))])
        assert [hit.session for hit in await other.search("heron")] == ["s"]
        assert await other.verify() == []

    async def test_of_those_who_write_the_last_is_the_newest(self, store: Store) -> None:
        other = await self.another()
        leases = {id: await store.lease(id) for id in ("a", "b", "c")}
        for id in "abcbacaabbccab":
            leases[id] = await store.append(leases[id], [draft(question())])

            assert (await other.sessions()).sessions[0].id == id
            assert await other.find("last") == id
        pages = [await other.sessions(limit=1)]
        while pages[-1].next:
            pages.append(await other.sessions(limit=1, after=pages[-1].next))
        assert [page.sessions[0].id for page in pages] == ["b", "a", "c"]

    async def test_no_id_is_there_twice_however_far_back(self, store: Store) -> None:
        """Not of an entry that was written long ago, nor just now; nor by who takes the session over."""
        other = await self.another()
        drafts = [draft(question(str(at))) for at in range(40)]
        lease = await store.lease("s")
        for one in drafts:
            lease = await store.append(lease, [one])
        for _ in range(2):
            for old in (drafts[0], drafts[20], drafts[38], drafts[39]):
                for again in ([draft(answer(), id=old.id)], [draft(answer()), draft(answer(), id=old.id)]):
                    with pytest.raises(StoreError):
                        await store.append(lease, again)
            store, lease = other, await other.lease("s", takeover=True)

        await store.append(lease, [draft(answer())])
        assert same((await store.read("s"))[:40], drafts)
        assert (await store.session("s")).head == 41
        assert await store.verify() == []

    async def test_of_two_appends_at_once_one_is_refused(self, store: Store) -> None:
        lease = await store.lease("s")
        pairs = [[draft(question()), draft(answer())] for _ in range(2)]
        done, failed = outcome(
            await asyncio.gather(*(store.append(lease, pair) for pair in pairs), return_exceptions=True)
        )

        assert done == 1
        assert [isinstance(error, StoreError) for error in failed] == [True]
        entries = await store.read("s")
        assert any(same(entries, pair) for pair in pairs)

    async def test_many_sessions_at_once(self, store: Store) -> None:
        async def tell(session: str) -> bool:
            drafts = [draft(question(session)) for _ in range(4)]
            lease = await store.lease(session)
            for one in drafts:
                lease = await store.append(lease, [one])
            return same(await store.read(session), drafts)

        assert all(await asyncio.gather(*(tell(f"s{number}") for number in range(12))))
        assert await store.verify() == []

    async def test_an_append_nobody_waits_for_any_more_is_whole_or_not_there(self, store: Store) -> None:
        lease = await store.lease("s")
        drafts = [draft(act) for act in turn()]
        task = asyncio.ensure_future(store.append(lease, drafts))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        after = await store.append(lease, drafts)  # whatever became of it, this settles it

        assert after.head == len(drafts)
        assert same(await store.read("s"), drafts)

    async def test_what_was_written_is_there_after_closing(self, store: Store) -> None:
        other = await self.another()
        drafts = await write(store, "s", *turn())
        await store.close()

        assert same(await other.read("s"), drafts)

    async def test_what_a_later_version_wrote_is_kept(self, store: Store) -> None:
        later = UnknownPayload("dreamt", '{"entry":"dreamt","of":{"electric":"sheep"}}')
        drafts = [draft(question()), draft(later), draft(answer(), version=VERSION + 1)]
        await store.append(await store.lease("s"), drafts)
        entries = await store.read("s")

        assert same(entries, drafts)
        assert [entry.seq for entry in unknown_payloads_in(entries)] == [2, 3]
        assert await store.verify("s") == []

    async def test_entries_of_an_earlier_version_are_refused(self, store: Store) -> None:
        earlier = UnknownPayload("said", '{"entry":"said","message":{"role":"user","content":"Hi"}}')
        await store.append(await store.lease("s"), [draft(question()), draft(earlier, version=VERSION - 1)])

        assert len(await store.read("s", upto=1)) == 1
        with pytest.raises(StoreError, match=f"entry 2 of session 's'.*earlier version.*{VERSION - 1}.*{VERSION}"):
            await store.read("s")
        assert [(fault.seq, "earlier version" in fault.what) for fault in await store.verify("s")] == [(2, True)]


class Leasing(Chapter):
    """One writer at a time, and whoever lost the right to write is told."""

    async def test_a_session_comes_into_being_with_its_first_entry(self, store: Store) -> None:
        lease = await store.lease("s")

        assert lease.head == 0
        for reading in (store.session, store.read, store.find, store.verify):
            with pytest.raises(SessionNotFound):
                await reading("s")
        assert (await store.sessions()).sessions == ()
        await store.append(lease, [draft(question())])
        assert (await store.session("s")).head == 1

    async def test_a_lease_knows_the_head(self, store: Store) -> None:
        await write(store, "s", *turn())

        assert (await store.lease("s")).head == 7

    async def test_a_held_session_is_refused_to_others(self, store: Store) -> None:
        other = await self.another()
        lease = await store.lease("s")
        for asking in (other, store):
            with pytest.raises(SessionInUse) as told:
                await asking.lease("s")
            assert told.value.session == "s"
            assert told.value.pid > 0
            assert told.value.host
        await store.append(lease, [draft(question())])
        assert (await other.session("s")).holder == f"{told.value.pid}@{told.value.host}"

    async def test_a_released_session_is_free(self, store: Store) -> None:
        other = await self.another()
        first = await store.lease("s")
        await store.append(first, [draft(question())])
        await store.release(first)

        assert (await store.session("s")).holder == ""
        second = await other.lease("s")
        assert second.fence > first.fence
        assert second.owner != first.owner
        with pytest.raises(LeaseLost):
            await store.append(first, [draft(answer())])

    async def test_who_let_go_writes_no_more(self, store: Store) -> None:
        before = await store.lease("s")
        drafts = [draft(question())]
        lease = await store.append(before, drafts)
        await store.release(lease)
        await store.release(lease)

        for late in (before, lease):
            with pytest.raises(LeaseLost):
                await store.append(late, drafts if late is before else [draft(answer())])
            with pytest.raises(LeaseLost):
                await store.renew(late)
        assert same(await store.read("s"), drafts)

    async def test_a_lease_is_released_with_the_last_entries(self, store: Store) -> None:
        other = await self.another()
        lease = await store.lease("s")
        last = await store.append(lease, [first := draft(question()), second := draft(answer())], release=True)

        assert (await store.session("s")).holder == ""
        assert same(await store.read("s"), [first, second])
        for late in (lease, last):
            with pytest.raises(LeaseLost):
                await store.append(late, [draft(answer("too late"))])
        assert (await other.lease("s")).fence > lease.fence

    async def test_closing_a_store_frees_what_it_held(self, store: Store) -> None:
        other = await self.another()
        first = await store.lease("s")
        await store.close()

        assert (await other.lease("s")).fence > first.fence

    async def test_taking_over_tells_the_loser_at_its_next_write(self, store: Store) -> None:
        other = await self.another()
        lost = await store.lease("s")
        lost = await store.append(lost, [first := draft(question())])
        taken = await other.lease("s", takeover=True)

        assert taken.fence > lost.fence
        assert taken.head == 1
        with pytest.raises(LeaseLost):
            await store.append(lost, [draft(answer("from a zombie"))])
        with pytest.raises(LeaseLost):
            await store.renew(lost)
        await store.release(lost)  # no error, and the other still has it
        with pytest.raises(SessionInUse):
            await store.lease("s")
        await other.append(taken, [second := draft(answer())])
        entries = await other.read("s")
        assert same(entries, [first, second])
        assert [entry.fence for entry in entries] == [lost.fence, taken.fence]

    async def test_a_zombie_cannot_send_again_what_it_sent(self, store: Store) -> None:
        """The lease is gone, whether or not the entries are there: the zombie has to stop."""
        lost = await store.lease("s")
        drafts = [draft(question())]
        await store.append(lost, drafts)
        taken = await store.lease("s", takeover=True)

        with pytest.raises(LeaseLost):
            await store.append(lost, drafts)
        assert taken.head == 1

    async def test_renewing_holds_on(self, store: Store) -> None:
        lease = await store.lease("s")
        again = await store.renew(lease)

        assert (again.fence, again.owner, again.head) == (lease.fence, lease.owner, lease.head)
        assert again.until >= lease.until
        assert (await store.append(again, [draft(question())])).head == 1

    async def test_nothing_but_writing_needs_a_lease(self, store: Store) -> None:
        other = await self.another()
        drafts = [draft(question())]
        lease = await store.append(await store.lease("s"), drafts)

        assert same(await other.read("s"), drafts)
        await other.rename("s", "mine")
        await other.archive("s")
        await other.fork("s")
        assert (await store.append(lease, [draft(answer())])).head == 2

    async def test_what_is_no_id_is_refused(self, store: Store) -> None:
        for id in BAD_IDS:
            with pytest.raises(ValueError, match="id"):
                await store.lease(id)
        assert (await store.sessions()).sessions == ()

    async def test_every_id_can_be_used(self, store: Store) -> None:
        ids = ("a", "Z" * 64, "0", "con", "CON", "a-_", "LAST", "9" * 64)
        for id in ids:
            await write(store, id)

        assert {shown.id for shown in (await store.sessions()).sessions} == {*ids}

    async def test_a_lease_lapses(self, store: Store) -> None:
        """On another machine nobody can tell whether the holder is alive: there the time decides."""
        other = await self._elsewhere()
        lost = await store.lease("s")
        self.clock.move(self.ttl_ms - 1)
        with pytest.raises(SessionInUse):
            await other.lease("s")
        self.clock.move(2)
        taken = await other.lease("s")

        assert taken.fence > lost.fence
        with pytest.raises(LeaseLost):
            await store.append(lost, [draft(question())])
        await other.append(taken, [draft(question())])

    async def test_using_a_lease_renews_it(self, store: Store) -> None:
        other = await self._elsewhere()
        lease = await store.lease("s")
        for _ in range(3):
            self.clock.move(self.ttl_ms - 1)
            lease = await store.append(lease, [draft(question())])
        self.clock.move(self.ttl_ms - 1)
        lease = await store.renew(lease)
        self.clock.move(self.ttl_ms - 1)

        with pytest.raises(SessionInUse):
            await other.lease("s")

    async def test_a_lapsed_lease_that_nobody_took_still_writes(self, store: Store) -> None:
        await self._timed()
        lease = await store.lease("s")
        self.clock.move(self.ttl_ms * 3)

        assert (await store.append(lease, [draft(question())])).head == 1

    async def test_a_clock_that_was_set_back_locks_nobody_out(self, store: Store) -> None:
        other = await self._elsewhere()
        lost = await store.lease("s")
        self.clock.move(-1000 * self.ttl_ms)

        assert (await other.lease("s")).fence > lost.fence

    async def test_clock_step_takes_no_session_from_its_holder(self, store: Store) -> None:
        other = await self._timed()
        lease = await store.append(await store.lease("s"), [draft(question())])
        await store.lease("empty")
        for step in (100, -2000, 5000, 10**6, -(10**6)):
            self.clock.move(step * self.ttl_ms)
            with pytest.raises(SessionInUse):
                await other.lease("s")
            with pytest.raises(SessionInUse):
                await other.delete("s")
            await other.gc()
            with pytest.raises(SessionInUse):
                await other.lease("empty")
            lease = await store.append(lease, [draft(question())])

    async def test_higher_generation_replaces_the_holder(self, store: Store) -> None:
        other = await self.another()
        first = await store.lease("s", owner="job", generation=1)
        second = await other.lease("s", owner="job", generation=2)
        third = await other.lease("s", owner="job", generation=3)

        assert first.fence < second.fence < third.fence
        for lost, handle in ((first, store), (second, other)):
            with pytest.raises(LeaseLost):
                await handle.append(lost, [draft(question("from an earlier attempt"))])
            await handle.release(lost)
        assert (await other.append(third, [draft(question())])).head == 1

    async def test_lower_generation_is_refused(self, store: Store) -> None:
        other = await self.another()
        lease = await store.lease("s", owner="job", generation=2)
        for handle in (store, other):
            for takeover in (False, True):
                with pytest.raises(LeaseLost):
                    await handle.lease("s", owner="job", generation=1, takeover=takeover)

        assert (await store.append(lease, [draft(question())])).head == 1

    async def test_same_generation_gets_the_same_lease(self, store: Store) -> None:
        other = await self.another()
        first = await store.lease("s", owner="job", generation=2)
        first = await store.append(first, [draft(question())])
        again = await store.lease("s", owner="job", generation=2)
        elsewhere = await other.lease("s", owner="job", generation=2)

        for lease in (again, elsewhere):
            assert (lease.owner, lease.fence, lease.head) == ("job", first.fence, 1)
        await store.append(again, [draft(answer())])
        assert (await other.append(await other.renew(elsewhere), [draft(question())])).head == 3
        assert await store.verify() == []

    async def test_one_owner_holds_several_sessions(self, store: Store) -> None:
        leases = [await store.lease(id, owner="job", generation=1) for id in ("a", "b")]
        for lease in leases:
            await store.append(lease, [draft(question())])
        await store.release(leases[0])

        assert (await store.session("a")).holder == ""
        assert (await store.append(await store.renew(leases[1]), [draft(answer())])).head == 2

    async def test_generation_counts_only_for_its_owner(self, store: Store) -> None:
        lease = await store.lease("s", owner="job", generation=1)
        with pytest.raises(SessionInUse):
            await store.lease("s", owner="other", generation=9)
        taken = await store.lease("s", owner="other", takeover=True)

        assert taken.fence > lease.fence
        await store.release(taken)
        assert (await store.lease("s", owner="job", generation=0)).fence > taken.fence

    async def test_lapsed_holder_is_replaced_by_any_generation(self, store: Store) -> None:
        for generation in (1, 2, 3):
            other = await self._elsewhere()
            session = f"s{generation}"
            lost = await store.lease(session, owner="job", generation=2)
            self.clock.move(self.ttl_ms + 1)
            taken = await other.lease(session, owner="job", generation=generation)

            assert taken.fence > lost.fence
            with pytest.raises(LeaseLost):
                await store.append(lost, [draft(question())])

    async def test_lease_has_its_own_time(self, store: Store) -> None:
        other = await self._elsewhere()
        short = await store.lease("short", ttl=self.ttl_ms / 4000)
        long = await store.lease("long", ttl=self.ttl_ms / 50)
        assert long.until - short.until == self.ttl_ms * 20 - self.ttl_ms // 4
        self.clock.move(self.ttl_ms // 2)
        assert (await other.lease("short")).fence > short.fence
        with pytest.raises(SessionInUse):
            await other.lease("long")
        self.clock.move(self.ttl_ms * 15)
        with pytest.raises(SessionInUse):
            await other.lease("long")
        long = await store.append(long, [draft(question())])
        self.clock.move(self.ttl_ms * 15)
        with pytest.raises(SessionInUse):
            await other.lease("long")
        self.clock.move(self.ttl_ms * 6)
        assert (await other.lease("long")).fence > long.fence

    async def test_invalid_lease_options_are_refused(self, store: Store) -> None:
        for owner, generation, ttl in (("a\n", 0, None), ("x" * 201, 0, None), ("a", -1, None), ("a", 0, 0.0)):
            with pytest.raises(ValueError, match=r"owner|generation|ttl"):
                await store.lease("s", owner=owner, generation=generation, ttl=ttl)

    async def _elsewhere(self) -> Store:
        if not self.timed:
            pytest.skip("the store has a clock of its own")
        return await self._stack.enter_async_context(await self.open_elsewhere())

    async def _timed(self) -> Store:
        if not self.timed:
            pytest.skip("the store has a clock of its own")
        return await self.another()
