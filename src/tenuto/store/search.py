"""What searches look into: made after the entries, by the thread that writes, when it has nothing better to do.

An entry is durable when its append returns; that it can be found by its words may come a moment later. How far each session
is indexed stands in its row, so that nothing is forgotten when a process dies in between. Whoever searches has what is
missing put in first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tenuto.core import jsonio, stored
from tenuto.core.blocks import Block, Reasoning, Refusal, Text, ToolUse
from tenuto.core.journal import CallFinished, EntryPayload, MessageAdded, ReplyReceived, SteeringAdded, UnknownPayload
from tenuto.core.jsonio import JsonError
from tenuto.core.messages import AssistantMessage, ToolResult, ToolResults
from tenuto.store.driver import Driver
from tenuto.store.entries import rows_of
from tenuto.store.sessions import row_of

__all__ = ["LONGEST", "SearchIndex", "text_of"]


LONGEST = 256 * 1024
"""How many characters of an entry are looked into."""


def text_of(act: EntryPayload | UnknownPayload) -> str:
    """Return what was said in an entry: questions, replies, calls and their results. NUL and half characters are out."""
    if isinstance(act, MessageAdded | SteeringAdded):
        message = act.message
        if isinstance(message, AssistantMessage):
            return _joined([_of_block(block) for block in message.blocks])
        if isinstance(message, ToolResults):
            return _joined([_of_result(result) for result in message.results])
        return _joined([str(message)])
    if isinstance(act, ReplyReceived):
        return _joined([_of_block(block) for block in act.message.blocks])
    if isinstance(act, CallFinished):
        return _joined([_of_result(act.result)])
    return ""


def _of_block(block: Block) -> str:
    if isinstance(block, Text | Reasoning | Refusal):
        return block.text
    return f"{block.name} {block.args}" if isinstance(block, ToolUse) else ""


def _of_result(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return " ".join(_of_block(part) for part in result.content)


def _joined(pieces: list[str]) -> str:
    text = "\n".join(piece[:LONGEST] for piece in pieces if piece)[:LONGEST]
    return jsonio.printable(text).replace("\0", " ")


_LATE = "SELECT id FROM sessions WHERE indexed < head LIMIT ?"
_CLAIM = "UPDATE sessions SET indexed = ? WHERE id = ? AND indexed = ?"
_PIECE = 64
"""How many entries are indexed in one transaction: whoever appends meanwhile waits for no more."""
_PIECES = 16
"""How many such pieces share a transaction where nobody appends any more: what searches look into is then put together
from fewer parts, which costs less. A piece is read at a time: entries may be large.
"""
_KNOWN = 1024
"""How many sessions are remembered as being behind. Of more, it is remembered that there are some: they are looked up."""
_QUIET = 0.5
"""How many seconds nobody wrote before it is time to index, from when the thread that writes first asks."""


class SearchIndex:
    """Which sessions are behind, as far as this store knows: some of them, if there are many."""

    def __init__(self) -> None:
        self.late: dict[str, None] = {}
        self._more = False
        self._fresh = False
        self._at = 0.0

    def behind(self, session: str) -> None:
        """Note that a session has new entries. This is called for every append: it looks at no clock."""
        self._fresh = True
        if session not in self.late:
            if len(self.late) < _KNOWN:
                self.late[session] = None
            else:
                self._more = True

    def at(self, now: float) -> float:
        """Return when it is time to index, by the clock that is never set; of no meaning while nothing is late."""
        if self._fresh:
            self._fresh = False
            self._at = now + _QUIET
        return self._at

    def look(self, driver: Driver) -> None:
        """Find the sessions that are behind, whoever wrote them."""
        found = driver.rows(_LATE, (_KNOWN,))
        new = [id for (id,) in found if id not in self.late]
        room = max(_KNOWN - len(self.late), 0)
        self.late.update(dict.fromkeys(new[:room]))
        if len(found) == _KNOWN or len(new) > room:
            self._more = True

    def gone(self, sessions: Iterable[str]) -> None:
        """Forget sessions that were deleted."""
        for session in sessions:
            self.late.pop(session, None)

    def advance(self, driver: Driver) -> int:
        """Index some entries of a session that is behind; return how many have words. Without one, do nothing, but for
        finding more that are.
        """
        for session in list(self.late):
            done = _indexed(driver, session)
            if done is not None:
                self._at = 0.0  # there may be more of it
                return done
            self.late.pop(session, None)
        if self._more:
            self.look(driver)
            self._more = len(self.late) >= _KNOWN
            self._at = 0.0
        return 0

    def catch_up(self, driver: Driver) -> None:
        """Index several pieces: for a store that is being closed."""
        for _ in range(_PIECES):
            if self.late:
                self.advance(driver)
        self._at = time.monotonic() + _QUIET  # the rest is asked for, and not to be done in small pieces meanwhile

    def due(self, now: float) -> Callable[[Driver], int] | None:
        """Return what is to be done, if it is time. Should it fail, it is tried again after a while."""
        if not self.late or now < self.at(now):
            return None
        self._at = now + _QUIET
        return self.advance


def _indexed(driver: Driver, session: str) -> int | None:
    """Index the next entries of one session; None if there are none."""
    row = row_of(driver, session)
    if row is None or row.indexed >= row.head:
        return None
    before, upto = row.indexed, min(row.head, row.indexed + _PIECE)
    if not driver.change(_CLAIM, (upto, session, before)):
        return 0  # somebody else is at it
    own = row._replace(parent="", forked_at=0)
    texts = [(session, kept[0], _text(kept[5])) for kept in rows_of(driver, own, before, upto)]
    found = [row for row in texts if row[2]]
    driver.index(found)
    return len(found)


def _text(body: bytes | None) -> str:
    """An entry that cannot be read has no words; `verify` tells of it."""
    try:
        return text_of(stored.load_payload(body or b""))
    except JsonError:
        return ""
