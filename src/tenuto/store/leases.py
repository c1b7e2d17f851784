"""The leases of a store: acquiring and renewing them, and the leases that this process holds.

A session is free if it has no holder or a dead one (`sessions.is_held`). The fence grows with every holder, and every write
names it. Every append renews its lease; the writing thread renews the others.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable

import msgspec

from tenuto.core import jsonio
from tenuto.core.journal import SessionMeta
from tenuto.errors import LeaseLost, SessionInUse
from tenuto.store.driver import Driver, Engine
from tenuto.store.ids import check_entry_id
from tenuto.store.locks import SessionLock
from tenuto.store.protocol import Lease
from tenuto.store.sessions import SessionRow, is_held, meta_of, row_of

_NEW = """
INSERT INTO sessions (
    id, head, fence, until, ttl_ms, owner, generation, pid, host, lock_dir_id, parent, forked_at, indexed, archived,
    created_at, updated_at, status, agent, name, meta
) VALUES (?, 0, 0, 0, 0, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, ?, '', '', ?)
"""
_ACQUIRE = """
UPDATE sessions SET fence = ?, until = ?, ttl_ms = ?, owner = ?, generation = ?, pid = ?, host = ?, lock_dir_id = ?
WHERE id = ?
"""
_RENEW = "UPDATE sessions SET until = ?, lock_dir_id = ? WHERE id = ? AND owner = ? AND fence = ?"
_RELEASE = """
UPDATE sessions SET until = 0, owner = '', pid = 0, host = '', lock_dir_id = '' WHERE id = ? AND owner = ? AND fence = ?
"""


class HeldLease:
    """A lease that this process holds, with the row number of its session and the summary at `head`.

    An append uses the summary only if the database confirms head, fence and owner.
    """

    __slots__ = ("fence", "head", "lock", "meta", "n", "owner", "session", "ttl_ms")

    def __init__(self, lease: Lease, row: SessionRow, lock: SessionLock | None, ttl_ms: int) -> None:
        self.n = row.n
        self.session = lease.session
        self.owner = lease.owner
        self.fence = lease.fence
        self.head = lease.head
        self.meta = meta_of(row.meta)
        self.lock = lock
        self.ttl_ms = ttl_ms


class Leases:
    """The leases of one store in one process. Methods with a driver run in the writing thread."""

    def __init__(self, engine: Engine, *, now: Callable[[], int] | None, ttl_ms: int, pid: int, host: str) -> None:
        self._engine = engine
        self._now = now
        self._ttl_ms = ttl_ms
        self._holder = (pid, host)
        self.held: dict[tuple[str, str], HeldLease] = {}
        """By session and owner."""
        self.renew_at = time.monotonic() + ttl_ms / 3000
        """When the leases are renewed next, by the monotonic clock: two renewals may fail before a lease ends."""

    def now(self, driver: Driver) -> int:
        """Return the time that leases are compared with: milliseconds since 1970."""
        return driver.clock() if self._now is None else self._now()

    def get(self, lease: Lease | HeldLease) -> HeldLease | None:
        """Return what this process knows of a lease; None if it does not hold it."""
        held = self.held.get((lease.session, lease.owner))
        return held if held is not None and held.fence == lease.fence else None

    def acquire(
        self, driver: Driver, session: str, owner: str, *, takeover: bool, generation: int, ttl_ms: int | None
    ) -> Lease:
        """Acquire a lease as `Store.lease` describes. If `owner` holds it with this `generation`, return it again."""
        key, ttl_ms = (session, owner), ttl_ms or self._ttl_ms
        row = row_of(driver, session)
        if row is None:
            meta = SessionMeta(id=session)
            driver.change(_NEW, (session, meta.status, jsonio.encode(meta)))
            row = row_of(driver, session)
            assert row is not None
        known = self.held.get(key)
        if known is not None and (row.owner, row.fence) != (owner, known.fence):
            self._drop(known)  # the commit of an earlier attempt failed, or another holder has replaced this one
            known = None
        fence = row.fence + 1
        if self.is_held(row, self.now(driver)):
            if row.owner != owner and not takeover:
                raise SessionInUse(session, pid=row.pid, host=row.host, own=(row.pid, row.host) == self._holder)
            if row.owner == owner and generation < row.generation:
                raise LeaseLost(
                    f"session {session!r} is held by generation {row.generation} of owner {owner!r}: generation "
                    f"{generation} is out of date; stop its work"
                )
            if row.owner == owner and generation == row.generation:
                fence = row.fence
        until = self.now(driver) + ttl_ms
        lease = Lease(session=session, owner=owner, fence=fence, head=row.head, until=until)
        held = HeldLease(lease, row, known.lock if known is not None else None, ttl_ms)
        if held.lock is None:  # after a takeover, the previous holder may still have it: each renewal tries again
            held.lock = self._engine.locks.acquire(session)
        self.held[key] = held
        try:
            lock_dir_id = self._lock_dir_id(held.lock)
            driver.change(_ACQUIRE, (fence, until, ttl_ms, owner, generation, *self._holder, lock_dir_id, session))
        except BaseException:
            self._drop(held)
            raise
        self.renew_at = min(self.renew_at, time.monotonic() + ttl_ms / 3000)
        return lease

    def require_free(self, driver: Driver, row: SessionRow) -> None:
        """Raise `SessionInUse` if a live process holds a session."""
        if self.is_held(row, self.now(driver)):
            raise SessionInUse(row.id, pid=row.pid, host=row.host, own=(row.pid, row.host) == self._holder)

    def is_held(self, row: SessionRow, now: int) -> bool:
        """Return whether a live process holds a session."""
        return is_held(row, now, self._engine)

    def _lock_dir_id(self, lock: SessionLock | None) -> str:
        return "" if lock is None else self._engine.locks.directory_id(create=True)

    def renew(self, driver: Driver, lease: Lease) -> Lease:
        """Renew a lease; return it with the head of its session. Raise `LeaseLost`."""
        held = self.get(lease)
        until = self._renew(driver, held) if held is not None else 0
        if held is None or not until:
            raise lease_lost(lease.session)
        row = row_of(driver, lease.session)
        assert row is not None
        held.head, held.meta = row.head, meta_of(row.meta)
        return msgspec.structs.replace(lease, head=row.head, until=until)

    def renew_all(self, driver: Driver) -> None:
        """Renew every lease. A lost one is dropped; its holder gets `LeaseLost` from its next write."""
        for held in list(self.held.values()):
            self._renew(driver, held)

    def _renew(self, driver: Driver, held: HeldLease) -> int:
        """Renew a lease; return when it ends, or drop it and return 0 if it is lost."""
        if held.lock is None:
            held.lock = self._engine.locks.acquire(held.session)
        until = self.now(driver) + held.ttl_ms
        if driver.change(_RENEW, (until, self._lock_dir_id(held.lock), held.session, held.owner, held.fence)):
            return until
        self._drop(held)
        return 0

    def next_at(self) -> float | None:
        """Return when the leases are renewed, by the monotonic clock; None: this process holds none."""
        return self.renew_at if self.held else None

    def due(self, now: float) -> Callable[[Driver], None] | None:
        """Return the renewal if it is due."""
        if not self.held or now < self.renew_at:
            return None
        self.renew_at = now + min(held.ttl_ms for held in self.held.values()) / 3000
        return self.renew_all

    def release(self, driver: Driver, lease: Lease | HeldLease) -> None:
        """Release a lease that this process holds in the database. A lost one is not an error."""
        if self.get(lease) is not None:
            driver.change(_RELEASE, (lease.session, lease.owner, lease.fence))

    def release_all(self, driver: Driver) -> None:
        for held in list(self.held.values()):
            self.release(driver, held)

    def abandon(self, driver: Driver, leases: Iterable[Lease]) -> None:
        """Release and forget leases that were acquired for a caller that does not wait for them any more."""
        for lease in leases:
            self.release(driver, lease)
            self.drop(lease)

    def drop(self, lease: Lease) -> None:
        """Forget a lease that is released or lost, and release its lock."""
        held = self.get(lease)
        if held is not None:
            self._drop(held)

    def drop_all(self) -> None:
        for held in list(self.held.values()):
            self._drop(held)

    def _drop(self, held: HeldLease) -> None:
        self.held.pop((held.session, held.owner), None)
        if held.lock is not None:
            held.lock.release()


def check_lease_options(owner: str, generation: int, ttl: float | None) -> tuple[str, int | None]:
    """Return the owner, a random one if it is empty, and the time in milliseconds. Raise `ValueError`."""
    if generation < 0 or generation >= 2**63:
        raise ValueError(f"generation is {generation}: use 0 or a higher number")
    if ttl is not None and not 0 < ttl < 10**9:
        raise ValueError(f"ttl is {ttl} s: use a positive number of seconds")
    ttl_ms = None if ttl is None else max(int(ttl * 1000), 1)
    return (check_entry_id(owner, "owner") if owner else secrets.token_hex(8)), ttl_ms


def lease_lost(session: str) -> LeaseLost:
    """Return the error for a write under a lease that this process does not hold."""
    return LeaseLost(
        f"session {session!r} is not held here any more: it was taken over by another process, or released, or this process "
        "was forked from its holder; nothing was written: stop the work on it here"
    )
