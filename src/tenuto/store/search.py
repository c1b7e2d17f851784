"""The search index. The writing thread updates it after the entries, when no caller waits.

An entry is durable when its append returns; it may be found by its words a moment later. Each session row has the number of
the last indexed entry, so that nothing is missing after a crash. A search first indexes the missing entries.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from tenuto.core import jsonio, stored
from tenuto.core.blocks import Block, Reasoning, Refusal, Text, ToolUse
from tenuto.core.journal import CallFinished, EntryPayload, MessageAdded, ReplyReceived, SteeringAdded, UnknownPayload
from tenuto.core.jsonio import JsonError
from tenuto.core.messages import AssistantMessage, ToolResult, ToolResults
from tenuto.store.driver import Driver, tokenize
from tenuto.store.entries import rows_of
from tenuto.store.protocol import SearchHit
from tenuto.store.sessions import clean, row_of

LONGEST = 256 * 1024  # the number of characters of an entry that are indexed
_SNIPPET = 60  # the number of characters of a snippet before the first word
_UNINDEXED = "SELECT id FROM sessions WHERE indexed < head LIMIT ?"
_CLAIM = "UPDATE sessions SET indexed = ? WHERE id = ? AND indexed = ?"
COUNT = "SELECT count(*) FROM words"
_PIECE = 64  # the number of entries that are indexed in one transaction: an append waits for no more
_PIECES = 16
"""The number of pieces in one transaction of a store that is closed: fewer, larger parts of the index cost less."""
_KNOWN = 1024  # the number of pending sessions that are remembered. If there are more, they are looked up.
_QUIET = 0.5  # seconds without an append before the index is updated


def snippet_of(text: str, words: list[str]) -> str:
    """Return a part of the text, in one line, around the first of the words."""
    match = re.search("|".join(rf"\b{re.escape(word)}\b" for word in words), text, re.IGNORECASE) if words else None
    start = max((match.start() if match else 0) - _SNIPPET, 0)
    return " ".join(text[start : start + 2 * _SNIPPET].split())


def text_of(payload: EntryPayload | UnknownPayload) -> str:
    """Return the text of messages, replies, calls and results, without NUL and unpaired surrogates."""
    if isinstance(payload, CallFinished):
        return _join([_result_text(payload.result)])
    if not isinstance(payload, MessageAdded | SteeringAdded | ReplyReceived):
        return ""
    message = payload.message
    if isinstance(message, AssistantMessage):
        return _join([_block_text(block) for block in message.blocks])
    if isinstance(message, ToolResults):
        return _join([_result_text(result) for result in message.results])
    return _join([str(message)])


def _block_text(block: Block) -> str:
    if isinstance(block, Text | Reasoning | Refusal):
        return block.text
    return f"{block.name} {block.args}" if isinstance(block, ToolUse) else ""


def _result_text(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return " ".join(_block_text(part) for part in result.content)


def _join(parts: list[str]) -> str:
    text = "\n".join(part[:LONGEST] for part in parts if part)[:LONGEST]
    return jsonio.printable(text).replace("\0", " ")


def search(driver: Driver, words: str, agent: str | None, limit: int) -> list[SearchHit]:
    tokens = tokenize(words)
    agent = None if agent is None else clean(agent)
    matches = driver.search(tokens, limit, agent) if tokens else []
    return [SearchHit(session, seq, snippet_of(text, tokens)) for session, seq, text in matches]


def clear(driver: Driver) -> None:
    """Remove all texts from the index, so that it is built again."""
    driver.unindex(None)
    driver.change("UPDATE sessions SET indexed = forked_at")


class SearchIndex:
    """The sessions with entries that are not indexed yet, as far as this process knows."""

    def __init__(self) -> None:
        self.pending: dict[str, None] = {}
        self._more = False
        self.next_at: float | None = None  # when the index is updated, by the monotonic clock; None: nothing is pending

    def mark(self, session: str) -> None:
        """Note that a session has new entries."""
        self.next_at = time.monotonic() + _QUIET
        if len(self.pending) < _KNOWN:
            self.pending[session] = None
        elif session not in self.pending:
            self._more = True

    def scan(self, driver: Driver) -> None:
        """Find the sessions with entries that are not indexed, whichever process wrote them."""
        rows = driver.rows(_UNINDEXED, (_KNOWN,))
        new = [id for (id,) in rows if id not in self.pending]
        room = max(_KNOWN - len(self.pending), 0)
        self.pending.update(dict.fromkeys(new[:room]))
        self._more = self._more or len(rows) == _KNOWN or len(new) > room

    def forget(self, sessions: Iterable[str]) -> None:
        for session in sessions:
            self.pending.pop(session, None)

    def run(self, driver: Driver) -> None:
        """Index some entries of a pending session. If no session is pending, look for more."""
        for session in list(self.pending):
            if _index_piece(driver, session):
                self.next_at = time.monotonic()  # it may have more
                return
            self.pending.pop(session, None)
        self.next_at = None
        if self._more:
            self._more = False
            self.scan(driver)
            self.next_at = time.monotonic()

    def catch_up(self, driver: Driver) -> None:
        """Index several pieces, for a store that is closed."""
        for _ in range(_PIECES):
            if self.pending:
                self.run(driver)
        self.next_at = None  # the caller asks for the rest


def _index_piece(driver: Driver, session: str) -> bool:
    """Index the next entries of a session; return whether it had any."""
    row = row_of(driver, session)
    if row is None or row.indexed >= row.head:
        return False
    before, upto = row.indexed, min(row.head, row.indexed + _PIECE)
    if driver.change(_CLAIM, (upto, session, before)):  # otherwise another process indexes it
        own = row._replace(parent="", forked_at=0)
        texts = [(session, values[0], _stored_text(values[5])) for values in rows_of(driver, own, before, upto)]
        driver.index([row for row in texts if row[2]])
    return True


def _stored_text(body: bytes | None) -> str:
    """Return the text of a stored entry. One that cannot be read has none; `verify` reports it."""
    try:
        return text_of(stored.load_payload(body or b""))
    except JsonError:
        return ""
