"""Budgets: a family of sessions shares one, which is checked in the transaction that appends entries."""

from __future__ import annotations

import asyncio

import pytest

from tenuto.core.inbox import Cancel
from tenuto.errors import BudgetExceeded, SessionNotFound
from tenuto.store.protocol import BudgetChange, BudgetMember, Lease, Store
from tenuto.testing.chapters.stage import Chapter, answer, draft, outcome, question, same, write


def spend(spent: int = 0, reserved: int = 0, *, limit: int | None = 100, forget: tuple[str, ...] = ()) -> BudgetChange:
    """Return a change of the budget of session `root`, in tokens and, 100 for one, in USD."""
    return BudgetChange(
        root="root",
        spent_tokens=spent,
        spent_usd=f"{spent / 100:.2f}",
        reserved_tokens=reserved,
        reserved_usd=f"{reserved / 100:.2f}",
        limit_tokens=limit,
        limit_usd=None if limit is None else f"{limit / 100:.2f}",
        forget=forget,
    )


class Budgets(Chapter):
    async def test_members_have_their_own_totals(self, store: Store) -> None:
        root = await self._start(store, "root")
        child = await self._start(store, "child")
        root = await store.append(root, [draft(answer())], budget=spend(10, 20))
        child = await store.append(child, [draft(answer())], budget=spend(5, 30))
        root = await store.append(root, [draft(answer())], budget=spend(15))

        members = {member.session: member for member in await (await self.another()).budget("root")}
        assert list(members) == ["child", "root"]
        assert members["root"] == BudgetMember(
            session="root",
            fence=root.fence,
            spent_tokens=15,
            spent_usd="0.15",
            reserved_usd="0.00",
            live=True,
        )
        assert (members["child"].spent_tokens, members["child"].reserved_usd, members["child"].live) == (
            5,
            "0.30",
            True,
        )
        assert await store.verify() == []

    async def test_limits_count_the_whole_family(self, store: Store) -> None:
        root = await self._start(store, "root")
        child = await self._start(store, "child")
        await store.append(root, [draft(answer())], budget=spend(10, 40))
        child = await store.append(child, [draft(answer())], budget=spend(20, 30))
        for change, limit_name, total in (
            (spend(20, 31), "tokens", "101"),
            (BudgetChange(root="root", spent_usd="0.501", limit_usd="1"), "usd", "1.001"),
            (BudgetChange(root="root", spent_tokens=51, limit_tokens=100), "tokens", "101"),
        ):
            with pytest.raises(BudgetExceeded) as refused:
                await store.append(child, [draft(answer())], budget=change)
            assert (refused.value.limit_name, refused.value.total) == (limit_name, total)
        assert (await store.session("child")).head == 2
        await store.append(child, [draft(answer())], budget=spend(500, limit=None))

    async def test_refused_append_writes_nothing(self, store: Store) -> None:
        root = await self._start(store, "root")
        before = await store.read("root")
        await store.post("root", Cancel())
        [posted] = await store.inbox("root")
        with pytest.raises(BudgetExceeded):
            await store.append(
                root, [draft(answer())], release=True, taking=[posted.number], budget=spend(reserved=101)
            )

        assert await store.read("root") == before
        assert await store.inbox("root") == [posted]
        assert await store.budget("root") == []
        assert (await store.append(root, [draft(answer())], budget=spend(reserved=100))).head == 2

    async def test_released_reservation_lapses(self, store: Store) -> None:
        root = await self._start(store, "root")
        child = await self._start(store, "child")
        child = await store.append(child, [draft(answer())], budget=spend(10, 80))
        with pytest.raises(BudgetExceeded):
            await store.append(root, [draft(answer())], budget=spend(reserved=90))
        await store.release(child)

        root = await store.append(root, [draft(answer())], budget=spend(reserved=90))
        with pytest.raises(BudgetExceeded):
            await store.append(root, [draft(answer())], budget=spend(reserved=91))
        assert [member.live for member in await store.budget("root")] == [False, True]

    async def test_new_fence_ends_a_reservation(self, store: Store) -> None:
        """The holder that took over has not reserved anything yet."""
        root = await self._start(store, "root")
        child = await self._start(store, "child")
        await store.append(child, [draft(answer())], budget=spend(10, 80))
        await store.lease("child", takeover=True)

        await store.append(root, [draft(answer())], budget=spend(reserved=90))

    async def test_reservation_lapses_with_the_lease(self, store: Store) -> None:
        if not self.timed:
            pytest.skip("the store has its own clock")
        elsewhere = await self._stack.enter_async_context(await self.open_elsewhere())
        child = await self._start(elsewhere, "child")
        root = await self._start(store, "root")
        await elsewhere.append(child, [draft(answer())], budget=spend(10, 80))
        with pytest.raises(BudgetExceeded):
            await store.append(root, [draft(answer())], budget=spend(reserved=90))
        self.clock.move(self.ttl_ms + 1)

        await store.append(root, [draft(answer())], budget=spend(reserved=90))

    async def test_deleted_member_has_spent_its_part(self, store: Store) -> None:
        root = await self._start(store, "root")
        child = await self._start(store, "child")
        await store.append(child, [draft(answer())], release=True, budget=spend(60))
        await store.delete("child")
        with pytest.raises(BudgetExceeded):
            await store.append(root, [draft(answer())], budget=spend(41))

        await store.append(root, [draft(answer())], budget=spend(100, forget=("child",)))
        assert [member.session for member in await store.budget("root")] == ["root"]

    async def test_append_sent_again_changes_the_budget_once(self, store: Store) -> None:
        root = await self._start(store, "root")
        drafts = [draft(answer())]
        for _ in range(2):
            lease = await store.append(root, drafts, budget=spend(60))
        [member] = await store.budget("root")

        assert (lease.head, member.spent_tokens) == (2, 60)

    async def test_unknown_root_is_refused(self, store: Store) -> None:
        drafts = await write(store, "child")
        lease = await store.lease("child")
        with pytest.raises(SessionNotFound):
            await store.append(lease, [draft(answer())], budget=spend(1))
        with pytest.raises(SessionNotFound):
            await store.budget("root")

        assert same(await store.read("child"), drafts)

    async def test_fork_has_no_budget(self, store: Store) -> None:
        root = await self._start(store, "root")
        await store.append(root, [draft(answer())], budget=spend(60))
        fork = await store.fork("root")

        assert await store.budget(fork) == []

    async def test_invalid_amounts_are_refused(self, store: Store) -> None:
        await self._start(store, "root")
        for usd in ("much", "NaN", "-1"):
            with pytest.raises(ValueError, match="spent_usd"):
                BudgetChange(root="root", spent_usd=usd)

    async def test_members_at_once_stay_below_the_limit(self, store: Store) -> None:
        other = await self.another()
        await self._start(store, "root")
        leases = [(handle, await self._start(handle, f"c{n}")) for n, handle in enumerate((store, other) * 4)]
        appends = [handle.append(lease, [draft(answer())], budget=spend(reserved=30)) for handle, lease in leases]
        done, failed = outcome(await asyncio.gather(*appends, return_exceptions=True))

        assert done == 3
        assert {type(error) for error in failed} == {BudgetExceeded}
        assert sum(member.reserved_tokens for member in await store.budget("root")) == 90

    async def _start(self, store: Store, session: str) -> Lease:
        return await store.append(await store.lease(session), [draft(question())])
