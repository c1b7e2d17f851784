"""Who may write a session, and what this store holds of that.

A lease is free if nobody has it, if its time is over, or if it ends later than any lease could (the clock was set back).
It is free, too, if its holder is dead: that can be told by a lock in a folder that holder and asker share. The fence grows
with every holder, and every write names it.

An append does not write a session's row if it need not: what is held is renewed by the thread that writes, and by an append
once a third of the lease's time is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from tenuto.core import jsonio
from tenuto.core.journal import Draft, SessionMeta
from tenuto.errors import LeaseLost, SessionInUse, StoreError
from tenuto.store.driver import Driver, Engine, Held
from tenuto.store.protocol import Lease
from tenuto.store.schema import place_of
from tenuto.store.shelf import Row, is_live
from tenuto.store.summaries import caught_up, row_of

__all__ = ["Holding", "Leases", "lost"]

_NEW = """
INSERT INTO sessions (
    id, told, fence, until, owner, pid, host, place, parent, forked_at, indexed, archived, created_at, updated_at, status,
    agent, name, meta
) VALUES (?, 0, 0, 0, '', 0, '', '', '', 0, 0, 0, 0, 0, 'open', '', '', ?) ON CONFLICT (id) DO NOTHING
"""
_TAKE = """
UPDATE sessions SET fence = fence + 1, until = ?, owner = ?, pid = ?, host = ?, place = ? WHERE id = ? AND fence = ?
"""
_RENEW = "UPDATE sessions SET until = ?, place = ? WHERE id = ? AND owner = ? AND fence = ?"
_EXTEND = "UPDATE sessions SET until = ? WHERE n = ?"
_RELEASE = """
UPDATE sessions SET until = 0, owner = '', pid = 0, host = '', place = '' WHERE id = ? AND owner = ? AND fence = ?
"""
_TRIES = 5


class Holding:
    """A lease that this store holds, with what its next append would otherwise have to look up.

    `meta` is what its row tells, `behind` the entries of which it does not, by their ids, and `head` the last of these, as
    far as this store knows; `key` is what an append names of the session. They are believed only as far as the database
    agrees: each append asks it for head, fence and owner.
    """

    __slots__ = ("behind", "fence", "head", "held", "key", "meta", "n", "owner", "session", "until")

    def __init__(self, lease: Lease, row: Row, meta: SessionMeta, held: Held | None) -> None:
        self.n = row.n
        self.behind: dict[str, Draft] = {}
        self.key = (row.n, lease.session, lease.fence, lease.owner, place_of(row.n + 1, 0))
        self.until = lease.until
        self.session = lease.session
        self.owner = lease.owner
        self.fence = lease.fence
        self.head = lease.head
        self.meta = meta
        self.held = held

    def summary(self) -> SessionMeta:
        """Return what all entries come to."""
        meta = self.meta
        for draft in self.behind.values():
            meta = meta.after(draft.act, draft.at)
        return meta


class Leases:
    """The leases of one store. Everything that takes a driver is done by the thread that writes."""

    def __init__(self, engine: Engine, *, now: Callable[[], int] | None, ttl_ms: int, pid: int, host: str) -> None:
        self._engine = engine
        self._now = now
        self._ttl = ttl_ms
        self._fresh = ttl_ms * 2 // 3
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
        return self.now(driver) + self._ttl

    def is_fresh(self, driver: Driver, holding: Holding) -> bool:
        """Tell whether what is held needs no renewal: less than a third of its time is gone."""
        return holding.until - self.now(driver) > self._fresh

    def extend(self, driver: Driver, n: int, until: int) -> None:
        """Let a lease last longer. The caller has seen that it is held."""
        driver.change(_EXTEND, (until, n))

    def note(self, owner: str, head: int, meta: SessionMeta, until: int) -> None:
        """Take down what a row tells: all there is."""
        holding = self.held.get(owner)
        if holding is not None:
            holding.head, holding.meta, holding.until, holding.behind = head, meta, until, {}

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
            self.forget(owner)  # it was taken before, and the commit failed
            lease = self._taken(driver, row, session, owner, force=force)
            if lease is not None:
                return lease
        raise StoreError(f"session {session!r} changes hands faster than it can be taken: try again")

    def _taken(self, driver: Driver, row: Row, session: str, owner: str, *, force: bool) -> Lease | None:
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
                self.held[owner] = Holding(lease, row, caught_up(driver, row), held)
                held = None
                return lease
        finally:
            if held is not None:
                held.free()
        return None

    def is_live(self, owner: str, until: int, now: int) -> bool:
        """Tell whether a lease is held, as far as its time says."""
        return is_live(owner, until, now, self._ttl)

    def holder(self, row: Row, now: int) -> str:
        """Return who holds a session, as `pid@host`; empty if nobody does, as far as the time says."""
        return row.holder(now, self._ttl)

    def is_free(self, driver: Driver, session: str) -> None:
        """Raise `SessionInUse` if somebody holds a session."""
        row = row_of(driver, session)
        if row is not None and self.is_live(row.owner, row.until, self.now(driver)):
            held = self._of_the_dead(row, session)
            if held is None:
                raise SessionInUse(session, pid=row.pid, host=row.host)
            held.free()

    def _of_the_dead(self, row: Row, session: str) -> Held | None:
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
        return msgspec.structs.replace(lease, head=self._told(driver, lease.session, lease.owner, until), until=until)

    def renew_all(self, driver: Driver) -> None:
        """Hold on to everything that is held. What was lost is let go of; its holder hears of it by the next write."""
        until = self.until(driver)
        for holding in list(self.held.values()):
            place = self._kept(holding.owner)
            if not driver.change(_RENEW, (until, place, holding.session, holding.owner, holding.fence)):
                self.forget(holding.owner)
                continue
            self._told(driver, holding.session, holding.owner, until)

    def _told(self, driver: Driver, session: str, owner: str, until: int) -> int:
        """Have a row tell of all entries, since it is written anyway; return the head."""
        row = row_of(driver, session)
        assert row is not None
        self.note(owner, row.head, caught_up(driver, row), until)
        return row.head

    def _kept(self, owner: str) -> str:
        """Return where the lock of a holding is, having asked for it once more if it could not be had before."""
        holding = self.held.get(owner)
        if holding is None:
            return ""
        if holding.held is None:
            holding.held = self._engine.hold(holding.session)
        return self._place(holding.held)

    def release(self, driver: Driver, session: str, owner: str, fence: int) -> None:
        """Let go of a lease, if it is still held. Of what nobody holds, the row tells all."""
        if driver.change(_RELEASE, (session, owner, fence)):
            self._told(driver, session, owner, 0)

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
