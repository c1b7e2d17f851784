"""Who may write a session, and what this store holds of that.

A lease is free if nobody has it or if its holder is dead. If holder and asker share a directory of locks, the lock says
whether the holder is alive, whatever the clock says. Otherwise the lease is free when its time is over, or if it ends later
than any lease could (the clock was set back). The fence grows with every holder, and every write names it.

Every append renews its lease; the thread that writes renews the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from tenuto.core import jsonio
from tenuto.core.journal import SessionMeta
from tenuto.errors import LeaseLost, SessionInUse, StoreCorrupt, StoreError
from tenuto.store.driver import Driver, Engine, FileLock
from tenuto.store.protocol import Lease
from tenuto.store.sessions import SessionRow, is_live, row_of

__all__ = ["HeldLease", "Leases", "lost", "meta_of"]

_NEW = """
INSERT INTO sessions (
    id, head, fence, until, owner, pid, host, lock_dir_id, parent, forked_at, indexed, archived, created_at, updated_at,
    status, agent, name, meta
) VALUES (?, 0, 0, 0, '', 0, '', '', '', 0, 0, 0, 0, 0, 'open', '', '', ?) ON CONFLICT (id) DO NOTHING
"""
_TAKE = """
UPDATE sessions SET fence = fence + 1, until = ?, owner = ?, pid = ?, host = ?, lock_dir_id = ? WHERE id = ? AND fence = ?
"""
_RENEW = "UPDATE sessions SET until = ?, lock_dir_id = ? WHERE id = ? AND owner = ? AND fence = ?"
_RELEASE = """
UPDATE sessions SET until = 0, owner = '', pid = 0, host = '', lock_dir_id = '' WHERE id = ? AND owner = ? AND fence = ?
"""
_TRIES = 5


class HeldLease:
    """A lease that this process holds, with the number of its session and the summary at `head`.

    An append uses the summary only if the database confirms head, fence and owner.
    """

    __slots__ = ("fence", "head", "lock", "meta", "n", "owner", "session")

    def __init__(self, lease: Lease, row: SessionRow, lock: FileLock | None) -> None:
        self.n = row.n
        self.session = lease.session
        self.owner = lease.owner
        self.fence = lease.fence
        self.head = lease.head
        self.meta = meta_of(row.meta)
        self.lock = lock


class Leases:
    """The leases of one store. Everything that takes a driver is done by the thread that writes."""

    def __init__(self, engine: Engine, *, now: Callable[[], int] | None, ttl_ms: int, pid: int, host: str) -> None:
        self._engine = engine
        self._now = now
        self._ttl = ttl_ms
        self._me = (pid, host)
        self.held: dict[str, HeldLease] = {}
        """By owner."""
        self.at = time.monotonic() + ttl_ms / 3000
        """When what is held is to be renewed, twice before it would lapse, by the clock that is never set."""

    def now(self, driver: Driver) -> int:
        """Return the time by which leases lapse."""
        return driver.clock() if self._now is None else self._now()

    def until(self, driver: Driver) -> int:
        """Return when a lease lapses that is used now."""
        return self.now(driver) + self._ttl

    # --- taking ---

    def take(self, driver: Driver, session: str, owner: str, force: bool) -> Lease:
        """Take a lease for `owner`, who is new: if it is the owner's already, this was done before."""
        for _ in range(_TRIES):
            row = row_of(driver, session)
            if row is None:
                driver.change(_NEW, (session, jsonio.encode(SessionMeta(id=session))))
                continue
            if row.owner == owner:
                return Lease(session=session, owner=owner, fence=row.fence, head=row.head, until=row.until)
            self.drop(owner)  # it was taken before, and the commit failed
            lease = self._taken(driver, row, session, owner, force=force)
            if lease is not None:
                return lease
        raise StoreError(f"session {session!r} changes hands faster than it can be taken: try again")

    def _taken(self, driver: Driver, row: SessionRow, session: str, owner: str, *, force: bool) -> Lease | None:
        """Take it, if it may be taken; None if somebody was quicker."""
        now = self.now(driver)
        live, held = self._holder(row, now)
        if live and not force:
            raise SessionInUse(session, pid=row.pid, host=row.host, own=(row.pid, row.host) == self._me)
        if held is None:
            # The replaced holder may still have the lock. Each renewal tries to get it.
            held = self._engine.hold(session)
        try:
            until = now + self._ttl
            changed = driver.change(_TAKE, (until, owner, *self._me, self._place(held), session, row.fence))
            if changed:
                lease = Lease(session=session, owner=owner, fence=row.fence + 1, head=row.head, until=until)
                self.held[owner] = HeldLease(lease, row, held)
                held = None
                return lease
        finally:
            if held is not None:
                held.free()
        return None

    def holder(self, row: SessionRow, now: int) -> str:
        """Return who holds a session, as `pid@host`; empty if nobody does, as far as the time says."""
        return row.holder(now, self._ttl)

    def is_free(self, driver: Driver, session: str) -> None:
        """Raise `SessionInUse` if somebody holds a session."""
        row = row_of(driver, session)
        if row is not None and self.is_held(driver, row):
            raise SessionInUse(session, pid=row.pid, host=row.host, own=(row.pid, row.host) == self._me)

    def is_held(self, driver: Driver, row: SessionRow) -> bool:
        """Return whether a live process holds a session."""
        live, lock = self._holder(row, self.now(driver))
        if lock is not None:
            lock.free()
        return live

    def _holder(self, row: SessionRow, now: int) -> tuple[bool, FileLock | None]:
        """Return whether a live process holds a session, and the session's lock if its holder is dead.

        If the holder has its lock in the directory that this process uses, the lock alone decides: a step of the clock
        does not end a lease. Otherwise the time decides.
        """
        if row.owner and row.lock_dir_id and row.lock_dir_id == self._engine.place:
            lock = self._engine.hold(row.id)
            return lock is None, lock
        return is_live(row.owner, row.until, now, self._ttl), None

    def _place(self, held: FileLock | None) -> str:
        return self._engine.place if held is not None and self._engine.locks else ""

    # --- keeping and giving back ---

    def renew(self, driver: Driver, lease: Lease) -> Lease:
        """Renew a lease; return it with the head of its session. Raise `LeaseLost`."""
        until = self.until(driver)
        held = self.held.get(lease.owner)
        place = self._kept(lease.owner)
        if held is None or not driver.change(_RENEW, (until, place, lease.session, lease.owner, lease.fence)):
            self.drop(lease.owner)
            raise lost(lease.session)
        row = row_of(driver, lease.session)
        assert row is not None
        held.head, held.meta = row.head, meta_of(row.meta)
        return msgspec.structs.replace(lease, head=row.head, until=until)

    def renew_all(self, driver: Driver) -> None:
        """Renew every lease. One that is lost is dropped; its holder gets `LeaseLost` from its next write."""
        until = self.until(driver)
        for held in list(self.held.values()):
            place = self._kept(held.owner)
            if not driver.change(_RENEW, (until, place, held.session, held.owner, held.fence)):
                self.drop(held.owner)

    def _kept(self, owner: str) -> str:
        """Return the directory of a lease's lock, and try to get the lock if it was not free before."""
        held = self.held.get(owner)
        if held is None:
            return ""
        if held.lock is None:
            held.lock = self._engine.hold(held.session)
        return self._place(held.lock)

    def release(self, driver: Driver, session: str, owner: str, fence: int) -> None:
        """Release a lease that this process holds; a lost one is no error."""
        if owner in self.held:
            driver.change(_RELEASE, (session, owner, fence))

    def release_all(self, driver: Driver) -> None:
        """Let go of everything."""
        for holding in list(self.held.values()):
            self.release(driver, holding.session, holding.owner, holding.fence)

    def abandon(self, driver: Driver, owner: str) -> None:
        """Let go of a lease that nobody waited for to the end, if it was taken at all."""
        holding = self.held.get(owner)
        if holding is not None:
            self.release(driver, holding.session, owner, holding.fence)
            self.drop(owner)

    def drop(self, owner: str) -> None:
        """Free the lock of a lease that is held no more."""
        held = self.held.pop(owner, None)
        if held is not None and held.lock is not None:
            held.lock.free()

    # --- a duty ---

    def due(self, now: float) -> Callable[[Driver], None] | None:
        """Return the renewal, if it is due."""
        if not self.held or now < self.at:
            return None
        self.at = now + self._ttl / 3000
        return self.renew_all


def meta_of(stored: bytes) -> SessionMeta:
    """Read the summary in a session row. Raise `StoreCorrupt`."""
    try:
        return jsonio.decode_as(stored, SessionMeta)
    except jsonio.JsonError as exc:
        raise StoreCorrupt(f"the summary of a session cannot be read: {exc}") from exc


def lost(session: str) -> LeaseLost:
    """Return the error for a write under a lease that this process does not hold."""
    return LeaseLost(
        f"session {session!r} is not held here any more: it was taken over by another process, or released, or this process "
        "was forked from its holder; the write was refused: stop the work on it here"
    )
