"""Budgets: a family of sessions shares one, which is checked in the transaction that appends entries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto.core.inbox import Cancel
from tenuto.errors import BudgetExceeded, SessionNotFound
from tenuto.store.protocol import BudgetChange, BudgetMember, Lease, Store
from tenuto.testing.store_suite.helpers import StoreTests, add, answer, draft, expect_error, outcome, same, start, write


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
