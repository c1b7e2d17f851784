"""The leases of a store, and the budgets that depend on them.

The fence grows with every holder, and every write names it. Every append renews its lease; the writing thread renews
the others. A budget is in the row of the root session of a family and changes in the transaction that appends entries;
its values are absolute, so it can be sent again. A reservation counts as long as the lease is held under which it was
made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal

import msgspec

from tenuto.core import jsonio
from tenuto.core.journal import SessionMeta
from tenuto.errors import BudgetExceeded, LeaseLost, SessionInUse, StoreCorrupt
from tenuto.store.driver import Driver, Engine
from tenuto.store.locks import FileLock
from tenuto.store.protocol import BudgetChange, BudgetMember, Lease
from tenuto.store.sessions import SessionRow, insert_row, is_held, meta_of, require_session, row_of

_ACQUIRE = """
UPDATE sessions SET fence = ?, until = ?, ttl_ms = ?, owner = ?, generation = ?, pid = ?, host = ?, lock_dir_id = ?
WHERE id = ?
"""
_RENEW = "UPDATE sessions SET until = ?, lock_dir_id = ? WHERE id = ? AND owner = ? AND fence = ?"
_RELEASE = """
UPDATE sessions SET until = 0, owner = '', pid = 0, host = '', lock_dir_id = '' WHERE id = ? AND owner = ? AND fence = ?
"""
_BUDGET = "SELECT budget FROM sessions WHERE id = ?"
_AMOUNTS = ("spent_tokens", "spent_usd", "reserved_tokens", "reserved_usd")
_WRITE_BUDGET = "UPDATE sessions SET budget = ? WHERE id = ?"


@dataclass(slots=True, eq=False)
class HeldLease:
    """A lease that this process holds. An append uses `meta` only if the database confirms head, fence and owner."""

    session: str
    owner: str
    fence: int
    head: int
    n: int
    """The row number of the session."""
    meta: SessionMeta
    """The summary of the session at `head`."""
    lock: FileLock | None
    """None after a takeover, as long as the previous holder has it: each renewal tries again."""
    ttl_ms: int


class Leases:
    """The leases of one store in one process. Methods with a driver run in the writing thread."""

    def __init__(self, engine: Engine, *, now: Callable[[], int] | None, ttl_ms: int, pid: int, host: str) -> None:
        self._engine = engine
        self._now = now
        self._ttl_ms = ttl_ms
        self._holder = (pid, host)
        self.held: dict[tuple[str, str], HeldLease] = {}  # by session and owner
        self.next_at: float | None = None
        """When the leases are renewed next, by the monotonic clock: two renewals may fail before a lease ends."""

    def now(self, driver: Driver) -> int:
        """Return the time that leases are compared with: milliseconds since 1970."""
        return driver.now if self._now is None else self._now()

    def get(self, lease: Lease | HeldLease) -> HeldLease | None:
        """Return what this process knows of a lease; None if it does not hold it."""
        held = self.held.get((lease.session, lease.owner))
        return held if held is not None and held.fence == lease.fence else None

    def acquire(
        self, driver: Driver, session: str, owner: str, *, takeover: bool, generation: int, ttl_ms: int | None
    ) -> Lease:
        """Acquire a lease as `Store.lease` describes. If `owner` holds it with this `generation`, return it again."""
        row = row_of(driver, session)
        if row is None:
            insert_row(driver, SessionMeta(id=session))
            row = row_of(driver, session)
            assert row is not None
        known = self.held.get((session, owner))
        if known is not None and (row.owner, row.fence) != (owner, known.fence):
            self.drop(known)  # the commit of an earlier attempt failed, or another holder has replaced this one
            known = None
        now, fence, ttl_ms = self.now(driver), row.fence + 1, ttl_ms or self._ttl_ms
        if is_held(row, now, self._engine):
            if row.owner != owner and not takeover:
                raise self.in_use(row)
            if row.owner == owner and generation < row.generation:
                raise LeaseLost(
                    f"session {session!r} is held by generation {row.generation} of owner {owner!r}: generation "
                    f"{generation} is out of date; stop its work"
                )
            if row.owner == owner and generation == row.generation:
                fence = row.fence
        locks = self._engine.locks
        lock = known.lock if known is not None and known.lock is not None else locks.acquire(session)
        held = HeldLease(session, owner, fence, row.head, row.n, meta_of(row.meta), lock, ttl_ms)
        self.held[session, owner] = held
        try:
            lock_dir_id = "" if lock is None else locks.directory_id(create=True)
            driver.change(
                _ACQUIRE, (fence, now + ttl_ms, ttl_ms, owner, generation, *self._holder, lock_dir_id, session)
            )
        except BaseException:
            self.drop(held)
            raise
        renew_at = time.monotonic() + ttl_ms / 3000
        self.next_at = renew_at if self.next_at is None else min(self.next_at, renew_at)
        return Lease(session=session, owner=owner, fence=fence, head=row.head, until=now + ttl_ms)

    def is_held(self, driver: Driver, row: SessionRow) -> bool:
        return is_held(row, self.now(driver), self._engine)

    def in_use(self, row: SessionRow) -> SessionInUse:
        return SessionInUse(row.id, pid=row.pid, host=row.host, own=(row.pid, row.host) == self._holder)

    def renew(self, driver: Driver, lease: Lease) -> Lease:
        """Renew a lease; return it with the head of its session. Raise `LeaseLost`."""
        held = self.get(lease)
        until = self._renew(driver, held) if held is not None else 0
        row = row_of(driver, lease.session)
        if held is None or not until or row is None:
            raise lease_lost(lease.session)
        held.head, held.meta = row.head, meta_of(row.meta)
        return msgspec.structs.replace(lease, head=row.head, until=until)

    def run(self, driver: Driver) -> None:
        """Renew every lease. A lost one is dropped; its holder gets `LeaseLost` from its next write."""
        for held in list(self.held.values()):
            self._renew(driver, held)
        times = [held.ttl_ms for held in list(self.held.values())]
        self.next_at = time.monotonic() + min(times) / 3000 if times else None

    def _renew(self, driver: Driver, held: HeldLease) -> int:
        """Renew a lease; return when it ends, or drop it and return 0 if it is lost."""
        locks = self._engine.locks
        if held.lock is None:
            held.lock = locks.acquire(held.session)
        until = self.now(driver) + held.ttl_ms
        lock_dir_id = "" if held.lock is None else locks.directory_id(create=True)
        if driver.change(_RENEW, (until, lock_dir_id, held.session, held.owner, held.fence)):
            return until
        self.drop(held)
        return 0

    def release(self, driver: Driver, lease: Lease | HeldLease) -> None:
        """Release a lease that this process holds in the database. A lost one is not an error."""
        if self.get(lease) is not None:
            driver.change(_RELEASE, (lease.session, lease.owner, lease.fence))

    def abandon(self, driver: Driver, leases: Iterable[Lease | HeldLease]) -> None:
        """Release and forget leases that no caller uses any more."""
        for lease in leases:
            self.release(driver, lease)
            self.drop(lease)

    def drop(self, lease: Lease | HeldLease) -> None:
        """Forget a lease that is released or lost, and release its lock."""
        held = self.get(lease)
        if held is not None:
            self.held.pop((held.session, held.owner), None)
            if held.lock is not None:
                held.lock.remove()

    # --- budgets ---

    def change_budget(self, driver: Driver, lease: Lease, budget: BudgetChange) -> None:
        """Write the values of the lease's session to the root session. Raise `BudgetExceeded`."""
        amounts = {name: getattr(budget, name) for name in _AMOUNTS}
        own = BudgetMember(session=lease.session, fence=lease.fence, **amounts)
        members = self.read_budget(driver, budget.root)
        left_out = (lease.session, *budget.forget)
        others = [one for one in members if not budget.reset and one.session not in left_out]
        reserving = [one for one in others if one.live and (one.reserved_tokens or Decimal(one.reserved_usd))]
        for name, limit in (("tokens", budget.limit_tokens), ("usd", budget.limit_usd)):
            if limit is None:
                continue
            spent = sum((Decimal(getattr(one, f"spent_{name}")) for one in (own, *others)), Decimal(0))
            reserved = sum((Decimal(getattr(one, f"reserved_{name}")) for one in (own, *reserving)), Decimal(0))
            single = budget.single_may_exceed and not reserving and spent < Decimal(limit)
            if spent + reserved > Decimal(limit) and not single:
                raise BudgetExceeded(budget.root, name, str(spent + reserved), str(limit), str(spent))
        stored = sorted(
            (own, *(msgspec.structs.replace(one, live=False) for one in others)), key=lambda one: one.session
        )
        driver.change(_WRITE_BUDGET, (jsonio.encode(stored), budget.root))

    def read_budget(self, driver: Driver, root: str) -> list[BudgetMember]:
        """Return the members of a family, in order of their ids."""
        members = []
        for member in stored_budget(driver, root):
            row = row_of(driver, member.session)
            live = row is not None and row.fence == member.fence and self.is_held(driver, row)
            members.append(msgspec.structs.replace(member, live=live))
        return members


def stored_budget(driver: Driver, root: str) -> list[BudgetMember]:
    """Return the members of a family as they are stored. Raise `SessionNotFound` or `StoreCorrupt`."""
    require_session(driver, root)
    [[stored]] = driver.rows(_BUDGET, (root,))
    try:
        return jsonio.decode_as(stored, list[BudgetMember]) if stored else []
    except (jsonio.JsonError, TypeError) as exc:
        raise StoreCorrupt(f"the budget of session {root!r} cannot be read: {exc}; restore a backup") from exc


def lease_lost(session: str) -> LeaseLost:
    """Return the error for a write under a lease that this process does not hold."""
    return LeaseLost(
        f"session {session!r} is not held here any more: it was taken over by another process, or released, or this process "
        "was forked from its holder; nothing was written: stop the work on it here"
    )
