"""The summary in a session's row, and the entries behind it.

An append writes its entries and nothing else, if it can (`entries`): that is a third of the pages it would otherwise write.
So a row tells of the entries up to `told`, and only of these are the ids kept in order. While somebody holds the session
there may be `TAIL` more, which whoever wants to know adds up; status and agent are never behind. Who takes a session or
lets go of it has its row tell of all.
"""

from __future__ import annotations

from typing import Any

from tenuto.core import jsonio, stored
from tenuto.core.journal import Act, SessionMeta, Strange
from tenuto.errors import StoreCorrupt
from tenuto.store.driver import Driver
from tenuto.store.schema import place_of
from tenuto.store.shelf import ONE, Row

__all__ = ["TAIL", "act_of", "caught_up", "clean", "meta_of", "row_of", "summary", "tell"]

TAIL = 32
"""How many entries there may be of which the row does not tell."""
_BEHIND = "SELECT kind, at, body FROM entries WHERE place > ? AND place <= ? ORDER BY place"
_NAME = """
INSERT INTO ids (session, id) SELECT ?, id FROM entries WHERE place > ? AND place <= ? ON CONFLICT DO NOTHING
"""
_TELL = """
UPDATE sessions SET told = ?, created_at = ?, updated_at = ?, status = ?, agent = ?, meta = ? WHERE n = ?
"""


def row_of(driver: Driver, session: str) -> Row | None:
    """Look a session up."""
    rows = driver.rows(ONE, (session,))
    return Row(*rows[0]) if rows else None


def summary(driver: Driver, row: Row) -> SessionMeta:
    """Return what all entries come to, those of which the row does not tell included. Raise `StoreCorrupt` if the row's own
    summary cannot be read. An entry that cannot be read counts as one of a kind that nobody knows: `verify` tells of it.
    """
    meta, head = meta_of(row.meta), row.head
    if head > row.told:
        for kind, at, body in driver.rows(_BEHIND, (place_of(row.n, row.told), place_of(row.n, head))):
            meta = meta.after(act_of(kind, body), at)
    return meta


def caught_up(driver: Driver, row: Row) -> SessionMeta:
    """Let a row tell of all entries that there are; return what they come to. That one has the id of another, which only
    damage can bring about, is for `verify` to say.
    """
    meta = summary(driver, row)
    if row.told < row.head:
        tell(driver, row, row.head, meta)
    return meta


def tell(driver: Driver, row: Row, head: int, meta: SessionMeta) -> bool:
    """Let a row tell of all entries: there are `head`, and this is what they come to. False: one has the id of another."""
    n, status, agent = row.n, meta.status, meta.agent
    driver.change(
        _TELL,
        (
            head,
            meta.created_at,
            meta.updated_at,
            status if status.isprintable() else clean(status),
            agent if agent.isprintable() else clean(agent),
            bytearray(jsonio.encode(meta)),
            n,
        ),
    )
    return driver.change(_NAME, (n, place_of(n, row.told), place_of(n, head))) == head - row.told


def meta_of(kept: bytes) -> SessionMeta:
    """Read the summary of a session."""
    try:
        return jsonio.typed(kept, SessionMeta)
    except jsonio.JsonError as exc:
        raise StoreCorrupt(f"the summary of a session cannot be read: {exc}") from exc


def act_of(kind: str, body: Any) -> Act | Strange:
    """Read an entry's body, whatever it is."""
    try:
        return stored.load_act(body if isinstance(body, bytes) else b"")
    except jsonio.JsonError:
        return Strange(kind, "")


def clean(text: str) -> str:
    """Return a text that every database takes: for what is listed or looked for, and kept elsewhere as it was."""
    return jsonio.printable(text).replace("\0", "\ufffd")
