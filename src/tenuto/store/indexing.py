"""What searches look into: made after the entries, by the thread that writes, when it has nothing better to do.

An entry is durable when its append returns; that it can be found by its words may come a moment later. How far each session
is indexed stands in its row, so that nothing is forgotten when a process dies in between. Whoever searches has what is
missing put in first.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tenuto.core import stored
from tenuto.core.jsonio import JsonError
from tenuto.store.driver import Driver
from tenuto.store.entries import Branch, rows_of
from tenuto.store.leases import meta_of
from tenuto.store.texts import text_of

__all__ = ["Index"]

_LATE = "SELECT id FROM sessions WHERE indexed < head"
_STATE = "SELECT n, head, indexed, meta FROM sessions WHERE id = ?"
_CLAIM = "UPDATE sessions SET indexed = ? WHERE id = ? AND indexed = ?"
_PIECE = 64
"""How many entries are indexed in one transaction: whoever appends meanwhile waits for no more."""
_QUIET = 1.0
"""How many seconds nobody wrote before it is time to index."""


class Index:
    """Which sessions are behind, as far as this store knows."""

    def __init__(self) -> None:
        self.late: dict[str, None] = {}
        self._last = 0.0

    def behind(self, session: str) -> None:
        """Note that a session has new entries."""
        self.late[session] = None
        self._last = time.monotonic()

    def look(self, driver: Driver) -> None:
        """Find the sessions that are behind, whoever wrote them."""
        self.late.update(dict.fromkeys(id for (id,) in driver.rows(_LATE)))

    def advance(self, driver: Driver) -> int:
        """Index some entries of a session that is behind; return how many have words. Without one, do nothing."""
        for session in list(self.late):
            done = _indexed(driver, session)
            if done is not None:
                self._last = 0.0  # there may be more of it
                return done
            self.late.pop(session, None)
        return 0

    def wait(self, now: float) -> float | None:
        """Return in how many seconds it would be time to index."""
        return max(self._last + _QUIET - now, 0) if self.late else None

    def due(self, now: float) -> Callable[[Driver], int] | None:
        """Return what is to be done, if it is time. Should it fail, it is tried again after a while."""
        if self.wait(now) != 0:
            return None
        self._last = now
        return self.advance


def _indexed(driver: Driver, session: str) -> int | None:
    """Index the next entries of one session; None if there are none."""
    state = driver.rows(_STATE, (session,))
    if not state or state[0][2] >= state[0][1]:
        return None
    n, head, before, meta = state[0]
    upto = min(head, before + _PIECE)
    if not driver.change(_CLAIM, (upto, session, before)):
        return 0  # somebody else is at it
    own = Branch(n, session, head, "", 0, meta_of(meta))
    texts = [(session, row[0], _text(row[5])) for row in rows_of(driver, own, before, upto)]
    found = [row for row in texts if row[2]]
    driver.index(found)
    return len(found)


def _text(body: bytes | None) -> str:
    """An entry that cannot be read has no words; `verify` tells of it."""
    try:
        return text_of(stored.load_act(body or b""))
    except JsonError:
        return ""
