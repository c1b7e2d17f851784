"""Leases: one writer at a time, and a lost lease cannot write. Budgets: a family of sessions shares one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto.core.inbox import Cancel
from tenuto.errors import BudgetExceeded, LeaseLost, SessionInUse, SessionNotFound, StoreError
from tenuto.store.protocol import BudgetChange, BudgetMember, Lease, Store
from tenuto.testing.store_suite.helpers import (
    StoreTests,
    add,
    answer,
    draft,
    expect_error,
    outcome,
    question,
    same,
    start,
    turn,
    write,
)

BAD_IDS = ("", "-a", "_a", "a b", "a/b", "../a", "a\n", "a\0", "ä", "a" * 65, ".", "~1", "a.b", "\ud800", "last")
GOOD_IDS = ("a", "Z" * 64, "0", "con", "CON", "a-_", "LAST", "9" * 64)


async def check_lost(store: Store, *leases: Lease) -> None:
    """Check that leases can neither write nor be renewed, and that releasing them is not an error."""
    for lease in leases:
        await expect_error(LeaseLost, add(store, lease, answer("too late")), store.renew(lease))
        await store.release(lease)


class LeaseTests(StoreTests):
    async def test_session_exists_from_its_first_entry(self, store: Store) -> None:
        lease = await store.append(await store.lease("s"), [])

        assert lease.head == 0
        await expect_error(SessionNotFound, store.session("s"), store.read("s"), store.find("s"), store.verify("s"))
        assert (await store.sessions()).sessions == ()
        await add(store, lease, question())
        assert (await store.session("s")).head == 1

    async def test_held_session_is_in_use_for_others(self, store: Store, other: Store) -> None:
        await write(store, "s", *turn())
        lease = await store.lease("s")
        error = await expect_error(SessionInUse, other.lease("s"), store.lease("s"))

        assert lease.head == 7
        assert (error.session, error.pid > 0, error.host != "") == ("s", True, True)
        await add(store, lease, question())
        assert (await other.session("s")).holder == f"{error.pid}@{error.host}"

    async def test_released_session_is_free(self, store: Store, other: Store) -> None:
        """Released by itself, or in the transaction of the last entries."""
        for session, with_append in (("a", False), ("b", True)):
            first = await store.lease(session)
            last = await store.append(first, drafts := [draft(question()), draft(answer())], release=with_append)
            if not with_append:
                await store.release(last)

            assert (await other.session(session)).holder == ""
            await check_lost(store, first, last)
            second = await other.lease(session)
            assert second.fence > first.fence
            assert second.owner != first.owner
            await check_lost(store, first, last)
            assert same(await store.read(session), drafts)

    async def test_closing_releases_leases(self, store: Store, other: Store) -> None:
        lease = await store.lease("s")
        drafts = await write(store, "t", *turn())
        await store.close()
        await store.close()

        await expect_error(StoreError, store.read("s"), add(store, lease, question()))
        assert (await other.lease("s")).fence > lease.fence
        assert same(await other.read("t"), drafts)

    async def test_takeover_replaces_the_holder(self, store: Store, other: Store) -> None:
        before = await store.lease("s")
        lost = await store.append(before, first := [draft(question())])
        taken = await other.lease("s", takeover=True)

        assert taken.fence > lost.fence
        assert taken.head == 1
        await expect_error(
            LeaseLost, store.append(before, first)
        )  # they are stored, but the previous holder has to stop
        await check_lost(store, lost)
        await expect_error(SessionInUse, store.lease("s"))
        await other.append(taken, [second := draft(answer())])
        entries = await other.read("s")
        assert same(entries, [*first, second])
        assert [entry.fence for entry in entries] == [lost.fence, taken.fence]

    async def test_renewed_lease_is_the_same(self, store: Store) -> None:
        lease = await store.lease("s")
        again = await store.renew(lease)

        assert (again.fence, again.owner, again.head) == (lease.fence, lease.owner, lease.head)
        assert again.until >= lease.until
        assert (await add(store, again, question())).head == 1

    async def test_only_writing_needs_a_lease(self, store: Store, other: Store) -> None:
        lease = await start(store, "s")

        assert len(await other.read("s")) == 1
        await other.rename("s", "mine")
        await other.archive("s")
        await other.post("s", Cancel())
        await write(other, await other.fork("s"), answer())
        assert len(await store.inbox("s")) == 1
        assert (await add(store, lease, answer())).head == 2

    async def test_invalid_ids_are_refused(self, store: Store) -> None:
        await expect_error(ValueError, *(store.lease(id) for id in BAD_IDS), match="id")
        for owner, generation, ttl in (("a\n", 0, None), ("x" * 201, 0, None), ("a", -1, None), ("a", 0, 0.0)):
            lease = store.lease("s", owner=owner, generation=generation, ttl=ttl)
            await expect_error(ValueError, lease, match=r"owner|generation|ttl")
        for id in GOOD_IDS:
            await write(store, id)

        assert {shown.id for shown in (await store.sessions()).sessions} == {*GOOD_IDS}

    # --- time ---

    async def test_lease_of_another_machine_lapses(self, store: Store, elsewhere: Store) -> None:
        lost = await store.lease("s")
        self.clock.move(self.ttl_ms - 1)
        await expect_error(SessionInUse, elsewhere.lease("s"))
        self.clock.move(2)
        taken = await elsewhere.lease("s")

        assert taken.fence > lost.fence
        await check_lost(store, lost)
        await add(elsewhere, taken, question(), release=True)
        last = await store.lease("s")
        assert last.fence > taken.fence
        self.clock.move(-1000 * self.ttl_ms)  # the clock is set back: such a lease does not last for years
        assert (await elsewhere.lease("s")).fence > last.fence

    async def test_using_a_lease_renews_it(self, store: Store, elsewhere: Store) -> None:
        lease = await store.lease("s")
        for _ in range(3):
            self.clock.move(self.ttl_ms - 1)
            lease = await add(store, lease, question())
        self.clock.move(self.ttl_ms - 1)
        await store.renew(lease)
        self.clock.move(self.ttl_ms - 1)

        await expect_error(SessionInUse, elsewhere.lease("s"))

    async def test_clock_step_ends_no_lease_on_the_same_machine(self, store: Store, other: Store) -> None:
        self.require_clock()
        lease = await start(store, "s")
        await store.lease("empty")
        for step in (100, -2000, 5000, 10**6, -(10**6)):
            self.clock.move(step * self.ttl_ms)
            await expect_error(SessionInUse, other.lease("s"), other.delete("s"))
            await other.gc()
            await expect_error(SessionInUse, other.lease("empty"))
            lease = await add(store, lease, question())

    async def test_lease_has_its_own_time(self, store: Store, elsewhere: Store) -> None:
        short = await store.lease("short", ttl=self.ttl_ms / 4000)
        long = await store.lease("long", ttl=self.ttl_ms / 50)
        assert long.until - short.until == self.ttl_ms * 20 - self.ttl_ms // 4
        self.clock.move(self.ttl_ms // 2)
        assert (await elsewhere.lease("short")).fence > short.fence
        self.clock.move(self.ttl_ms * 15)
        await expect_error(SessionInUse, elsewhere.lease("long"))
        long = await add(store, long, question())
        self.clock.move(self.ttl_ms * 15)
        await expect_error(SessionInUse, elsewhere.lease("long"))
        self.clock.move(self.ttl_ms * 6)
        assert (await elsewhere.lease("long")).fence > long.fence

    # --- owners and generations ---

    async def test_higher_generation_replaces_the_holder(self, store: Store, other: Store) -> None:
        first = await store.lease("s", owner="job", generation=1)
        second = await other.lease("s", owner="job", generation=2)
        third = await other.lease("s", owner="job", generation=3)

        assert first.fence < second.fence < third.fence
        await check_lost(store, first)
        await check_lost(other, second)
        for handle in (store, other):
            for takeover in (False, True):
                await expect_error(LeaseLost, handle.lease("s", owner="job", generation=2, takeover=takeover))
        assert (await add(other, third, question())).head == 1

    async def test_same_generation_gets_the_same_lease(self, store: Store, other: Store) -> None:
        first = await start(store, "s", owner="job", generation=2)
        again = await store.lease("s", owner="job", generation=2)
        process = await other.lease("s", owner="job", generation=2)

        for lease in (again, process):
            assert (lease.owner, lease.fence, lease.head) == ("job", first.fence, 1)
        await add(store, again, answer())
        assert (await add(other, await other.renew(process), question())).head == 3
        assert await store.verify() == []

    async def test_generation_counts_only_for_its_owner_and_session(self, store: Store) -> None:
        first, second = [await start(store, id, owner="job", generation=1) for id in ("a", "b")]
        await expect_error(SessionInUse, store.lease("a", owner="other", generation=9))
        await store.release(first)

        assert (await store.session("a")).holder == ""
        assert (await add(store, await store.renew(second), answer())).head == 2
        taken = await store.lease("b", owner="other", takeover=True)
        assert taken.fence > second.fence
        await store.release(taken)
        assert (await store.lease("b", owner="job", generation=0)).fence > taken.fence

    async def test_lapsed_holder_is_replaced_by_any_generation(self, store: Store, elsewhere: Store) -> None:
        for generation in (1, 2, 3):
            lost = await store.lease(f"s{generation}", owner="job", generation=2)
            self.clock.move(self.ttl_ms + 1)

            assert (await elsewhere.lease(f"s{generation}", owner="job", generation=generation)).fence > lost.fence
            await check_lost(store, lost)


def spend(spent: int = 0, reserved: int = 0, *, limit: int | None = 100, **options: Any) -> BudgetChange:
    """Return a change of the budget of session `root`: in tokens, and in USD (100 tokens are 1 USD)."""
    return BudgetChange(
        root="root",
        spent_tokens=spent,
        spent_usd=f"{spent / 100:.2f}",
        reserved_tokens=reserved,
        reserved_usd=f"{reserved / 100:.2f}",
        limit_tokens=limit,
        limit_usd=None if limit is None else f"{limit / 100:.2f}",
        **options,
    )


async def change(store: Store, lease: Lease, budget: BudgetChange, **options: Any) -> Lease:
    return await add(store, lease, answer(), budget=budget, **options)


async def start_family(store: Store) -> tuple[Lease, Lease]:
    return await start(store, "root"), await start(store, "child")


class BudgetTests(StoreTests):
    async def test_members_have_their_own_totals(self, store: Store, other: Store) -> None:
        root, child = await start_family(store)
        root = await change(store, root, spend(10, 20))
        await change(store, child, spend(5, 30))
        drafts = [draft(answer())]
        for _ in range(2):  # an append that is sent again counts once
            again = await store.append(root, drafts, budget=spend(15))

        second, first = await other.budget("root")
        assert first == BudgetMember(
            session="root", fence=root.fence, spent_tokens=15, spent_usd="0.15", reserved_usd="0.00", live=True
        )
        assert (second.session, second.spent_tokens, second.reserved_usd, second.live) == ("child", 5, "0.30", True)
        assert await store.verify() == []
        await change(store, again, spend(reset=True))
        assert [member.session for member in await store.budget("root")] == ["root"]

    async def test_limits_count_the_whole_family(self, store: Store) -> None:
        root, child = await start_family(store)
        await change(store, root, spend(10, 40))
        child = await change(store, child, spend(20, 30))
        for budget, limit_name, total in (
            (spend(20, 31), "tokens", "101"),
            (spend(20, 31, single_may_exceed=True), "tokens", "101"),
            (BudgetChange(root="root", spent_usd="0.501", limit_usd="1"), "usd", "1.001"),
            (BudgetChange(root="root", spent_tokens=51, limit_tokens=100), "tokens", "101"),
        ):
            error = await expect_error(BudgetExceeded, change(store, child, budget))
            assert (error.limit_name, error.total) == (limit_name, total)
        assert (await store.session("child")).head == 2
        child = await change(store, child, spend(500, limit=None))
        await expect_error(BudgetExceeded, change(store, child, spend(500, single_may_exceed=True)))

    async def test_refused_append_writes_nothing(self, store: Store) -> None:
        root = await start(store, "root")
        before = await store.read("root")
        await store.post("root", Cancel())
        [posted] = await store.inbox("root")
        budget = spend(reserved=101)
        await expect_error(BudgetExceeded, change(store, root, budget, release=True, taking=[posted.number]))

        assert await store.read("root") == before
        assert await store.inbox("root") == [posted]
        assert await store.budget("root") == []
        root = await change(store, root, spend(reserved=100))
        assert (await change(store, root, spend(reserved=101, single_may_exceed=True))).head == 3

    async def test_reservation_ends_with_its_lease(self, store: Store) -> None:
        """Whether the lease is released or taken over: the new holder has not reserved anything yet."""
        for end in ("release", "takeover"):
            root, child = await start_family(store)
            child = await change(store, child, spend(10, 80))
            await expect_error(BudgetExceeded, change(store, root, spend(reserved=90)))
            if end == "release":
                await store.release(child)
            else:
                child = await store.lease("child", takeover=True)

            root = await change(store, root, spend(reserved=90))
            await expect_error(BudgetExceeded, change(store, root, spend(reserved=91)))
            assert [member.live for member in await store.budget("root")] == [False, True]
            for lease in (root, child):
                await store.release(lease)
                await store.delete(lease.session)

    async def test_reservation_lapses_with_the_lease(self, store: Store, elsewhere: Store) -> None:
        child, root = await start(elsewhere, "child"), await start(store, "root")
        await change(elsewhere, child, spend(10, 80))
        await expect_error(BudgetExceeded, change(store, root, spend(reserved=90)))
        self.clock.move(self.ttl_ms + 1)

        await change(store, root, spend(reserved=90))

    async def test_deleted_member_has_spent_its_part(self, store: Store) -> None:
        root, child = await start_family(store)
        await change(store, child, spend(60), release=True)
        await store.delete("child")
        await expect_error(BudgetExceeded, change(store, root, spend(41)))

        await change(store, root, spend(100, forget=("child",)))
        assert [member.session for member in await store.budget("root")] == ["root"]
        assert await store.budget(await store.fork("root")) == []

    async def test_unknown_root_and_invalid_amounts_are_refused(self, store: Store) -> None:
        drafts = await write(store, "child")
        await expect_error(SessionNotFound, change(store, await store.lease("child"), spend(1)), store.budget("root"))
        for usd in ("much", "NaN", "-1"):
            with pytest.raises(ValueError, match="spent_usd"):
                BudgetChange(root="root", spent_usd=usd)

        assert same(await store.read("child"), drafts)

    async def test_members_at_once_stay_below_the_limit(self, store: Store, other: Store) -> None:
        await start(store, "root")
        leases = [(handle, await start(handle, f"c{n}")) for n, handle in enumerate((store, other) * 4)]
        appends = [change(handle, lease, spend(reserved=30)) for handle, lease in leases]
        done, errors = outcome(await asyncio.gather(*appends, return_exceptions=True))

        assert done == 3
        assert {type(error) for error in errors} == {BudgetExceeded}
        assert sum(member.reserved_tokens for member in await store.budget("root")) == 90
