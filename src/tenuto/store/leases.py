"""Who may write a session, and what this store holds of that.

A lease is free if nobody has it, if its time is over, or if it ends later than any lease could (the clock was set back).
It is free, too, if its holder is dead: that can be told by a lock in a folder that holder and asker share. The fence grows
with every holder, and every write names it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tenuto.core import jsonio
from tenuto.core.journal import SessionMeta
from tenuto.errors import LeaseLost, SessionInUse, StoreCorrupt, StoreError
from tenuto.store.driver import Driver, Engine, Held
from tenuto.store.protocol import Lease
from tenuto.store.shelf import is_live

__all__ = ["Holding", "Leases", "lost", "meta_of"]

_ROW = "SELECT n, head, fence, until, owner, pid, host, place, meta FROM sessions WHERE id = ?"
_NEW = """
INSERT INTO sessions (
    id, head, fence, until, owner, pid, host, place, parent, forked_at, indexed, archived, created_at, updated_at, status,
    agent, name, meta
) VALUES (?, 0, 0, 0, '', 0, '', '', '', 0, 0, 0, 0, 0, 'open', '', '', ?) ON CONFLICT (id) DO NOTHING
"""
_TAKE = """
UPDATE sessions SET fence = fence + 1, until = ?, owner = ?, pid = ?, host = ?, place = ? WHERE id = ? AND fence = ?
"""
_RENEW = "UPDATE sessions SET until = ?, place = ? WHERE id = ? AND owner = ? AND fence = ?"
_HEAD = "SELECT head FROM sessions WHERE id = ?"
_RELEASE = """
UPDATE sessions SET until = 0, owner = '', pid = 0, host = '', place = '' WHERE id = ? AND owner = ? AND fence = ?
"""
_TRIES = 5


class _Row(NamedTuple):
    n: int
    head: int
    fence: int
    until: int
    owner: str
    pid: int
    host: str
    place: str
    meta: bytes


class Holding:
    """A lease that this store holds, with what its next append would otherwise have to look up.

    `head` and `meta` are what this store last wrote. They are believed only as far as the database agrees: each write names
    head, fence and owner in its condition.
    """

    __slots__ = ("fence", "head", "held", "meta", "n", "owner", "session")

    def __init__(self, lease: Lease, n: int, meta: SessionMeta, held: Held | None) -> None:
        self.n = n
        self.session = lease.session
        self.owner = lease.owner
        self.fence = lease.fence
        self.head = lease.head
        self.meta = meta
        self.held = held


class Leases:
    """The leases of one store. Everything that takes a driver is done by the thread that writes."""

    def __init__(self, engine: Engine, *, now: Callable[[], int] | None, ttl_ms: int, pid: int, host: str) -> None:
        self._engine = engine
        self._now = now
        self._ttl = ttl_ms
        self._me = (pid, host)
        self.held: dict[str, Holding] = {}
        """By owner."""
        self.at = time.monotonic() + ttl_ms / 3000
        """When what is held is to be renewed, twice before it would lapse, by the clock that is never set."""

    def now(self, driver: Driver) -> int:
        """Return the time by which leases lapse."""
        return driver.clock() if self._now is None else self._now()

    def until(self, driver: Driver) -> int:
        """Return when a lease lapses that is used now."""
        return (driver.clock() if self._now is None else self._now()) + self._ttl

    # --- taking ---

    def take(self, driver: Driver, session: str, owner: str, force: bool) -> Lease:
        """Take a lease for `owner`, who is new: if it is the owner's already, this was done before."""
        for _ in range(_TRIES):
            row = _row(driver, session)
            if row is None:
                driver.change(_NEW, (session, jsonio.encode(SessionMeta(id=session))))
                continue
            if row.owner == owner:
                return Lease(session=session, owner=owner, fence=row.fence, head=row.head, until=row.until)
            self.forget(owner)  # it was taken before, and the commit failed
            lease = self._taken(driver, row, session, owner, force=force)
            if lease is not None:
                return lease
        raise StoreError(f"session {session!r} changes hands faster than it can be taken: try again")

    def _taken(self, driver: Driver, row: _Row, session: str, owner: str, *, force: bool) -> Lease | None:
        """Take it, if it may be taken; None if somebody was quicker."""
        now = self.now(driver)
        held = self._of_the_dead(row, session) if self.is_live(row.owner, row.until, now) else None
        if held is None:
            if self.is_live(row.owner, row.until, now) and not force:
                raise SessionInUse(session, pid=row.pid, host=row.host)
            # Who is being replaced may still have the lock. It is asked for again with every renewal.
            held = self._engine.hold(session)
        try:
            until = now + self._ttl
            changed = driver.change(_TAKE, (until, owner, *self._me, self._place(held), session, row.fence))
            if changed:
                lease = Lease(session=session, owner=owner, fence=row.fence + 1, head=row.head, until=until)
                self.held[owner] = Holding(lease, row.n, meta_of(row.meta), held)
                held = None
                return lease
        finally:
            if held is not None:
                held.free()
        return None

    def is_live(self, owner: str, until: int, now: int) -> bool:
        """Tell whether a lease is held, as far as its time says."""
        return is_live(owner, until, now, self._ttl)

    def is_free(self, driver: Driver, session: str) -> None:
        """Raise `SessionInUse` if somebody holds a session."""
        row = _row(driver, session)
        if row is not None and self.is_live(row.owner, row.until, self.now(driver)):
            held = self._of_the_dead(row, session)
            if held is None:
                raise SessionInUse(session, pid=row.pid, host=row.host)
            held.free()

    def _of_the_dead(self, row: _Row, session: str) -> Held | None:
        """Return the lock that a holder had, and has no more: it is dead. A holder without a lock cannot be told dead."""
        if not row.place or row.place != self._engine.place:
            return None
        return self._engine.hold(session)

    def _place(self, held: Held | None) -> str:
        return self._engine.place if held is not None and self._engine.locks else ""

    # --- keeping and giving back ---

    def renew(self, driver: Driver, lease: Lease) -> Lease:
        """Hold on to a lease."""
        until = self.until(driver)
        if not driver.change(_RENEW, (until, self._kept(lease.owner), lease.session, lease.owner, lease.fence)):
            self.forget(lease.owner)
            raise lost(lease.session)
        [[head]] = driver.rows(_HEAD, (lease.session,))
        return Lease(session=lease.session, owner=lease.owner, fence=lease.fence, head=head, until=until)

    def renew_all(self, driver: Driver) -> None:
        """Hold on to everything that is held. What was lost is let go of; its holder hears of it by the next write."""
        until = self.until(driver)
        for holding in list(self.held.values()):
            place = self._kept(holding.owner)
            if not driver.change(_RENEW, (until, place, holding.session, holding.owner, holding.fence)):
                self.forget(holding.owner)

    def _kept(self, owner: str) -> str:
        """Return where the lock of a holding is, having asked for it once more if it could not be had before."""
        holding = self.held.get(owner)
        if holding is None:
            return ""
        if holding.held is None:
            holding.held = self._engine.hold(holding.session)
        return self._place(holding.held)

    def release(self, driver: Driver, session: str, owner: str, fence: int) -> None:
        """Let go of a lease, if it is still held."""
        driver.change(_RELEASE, (session, owner, fence))

    def release_all(self, driver: Driver) -> None:
        """Let go of everything."""
        for holding in list(self.held.values()):
            self.release(driver, holding.session, holding.owner, holding.fence)

    def give_up(self, driver: Driver, owner: str) -> None:
        """Let go of a lease that nobody waited for to the end, if it was taken at all."""
        holding = self.held.get(owner)
        if holding is not None:
            self.release(driver, holding.session, owner, holding.fence)
            self.forget(owner)

    def forget(self, owner: str) -> None:
        """Free the lock of a lease that is held no more."""
        holding = self.held.pop(owner, None)
        if holding is not None and holding.held is not None:
            holding.held.free()

    # --- a duty ---

    def due(self, now: float) -> Callable[[Driver], None] | None:
        """Return the renewal, if it is due."""
        if not self.held or now < self.at:
            return None
        self.at = now + self._ttl / 3000
        return self.renew_all


def lost(session: str) -> LeaseLost:
    """Make the error for a write under a lease that is another's now."""
    return LeaseLost(
        f"session {session!r} was taken over by somebody else, and this write was refused: stop what runs for it here"
    )


def meta_of(stored: bytes) -> SessionMeta:
    """Read the summary of a session."""
    try:
        return jsonio.typed(stored, SessionMeta)
    except jsonio.JsonError as exc:
        raise StoreCorrupt(f"the summary of a session cannot be read: {exc}") from exc


def _row(driver: Driver, session: str) -> _Row | None:
    rows: list[tuple[Any, ...]] = driver.rows(_ROW, (session,))
    return _Row(*rows[0]) if rows else None
