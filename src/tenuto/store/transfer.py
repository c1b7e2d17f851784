"""Sessions as text: a line that says which session it is, then one line for each entry, all of them JSON objects.

An entry's bytes stand in its line as they are, under `body`, so that the file can be read and searched; where that would
change a byte, or break the line, they stand under `body64` instead. Each line has the digest of the bytes. What comes out
of a store and into another has the same entries: numbers, ids, times, kinds, versions, bytes and digests. Fences are not
carried over: they count the writers of one store.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from tenuto.core import jsonio, stored
from tenuto.core.journal import Draft, Entry, digest_of, kind_of
from tenuto.core.jsonio import JsonError
from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store.ids import check_id, check_name
from tenuto.store.protocol import Lease, Store

__all__ = ["FORMAT", "Imported", "export_session", "import_session"]

T = TypeVar("T")

FORMAT = 1
"""The version of the text."""
_BATCH = 8 * 1024 * 1024
"""So many bytes, or one entry, are written in one transaction."""


class Imported(msgspec.Struct, frozen=True):
    """What became of an import: under which id the session is, and what of it could not be taken along."""

    session: str
    entries: int
    left_out: tuple[str, ...] = ()


class _Head(msgspec.Struct, frozen=True):
    session: str
    head: int
    name: str = ""
    parent: str = ""
    archived: bool = False


# --- out --------------------------------------------------------------------------------------------------------------


async def export_session(store: Store, session: str) -> AsyncIterator[bytes]:
    """Yield the lines of a session, each with its end. What is written meanwhile is not in it."""
    shown = await store.session(session)
    first: dict[str, Any] = {"tenuto": "session", "format": FORMAT, "session": shown.id, "head": shown.head}
    optional = {"name": shown.name, "parent": shown.parent, "forked_at": shown.forked_at, "archived": shown.archived}
    yield jsonio.encode({**first, **{key: value for key, value in optional.items() if value}}) + b"\n"
    for entry in await store.read(session, upto=shown.head):
        yield _line(entry)


def _line(entry: Entry) -> bytes:
    fields: dict[str, Any] = {"seq": entry.seq, "id": entry.id, "at": entry.at, "fence": entry.fence}
    fields |= {"version": entry.version, "kind": entry.kind, "digest": entry.digest}
    if _is_plain(entry.body):
        line = jsonio.encode({**fields, "body": Raw(entry.body)})
        if _body_in(line) == entry.body:
            return line + b"\n"
    return jsonio.encode({**fields, "body64": base64.b64encode(entry.body).decode()}) + b"\n"


def _is_plain(body: bytes) -> bool:
    """Tell whether bytes are text, on one line, and a whole JSON document with nothing around it."""
    try:
        return b"\n" not in body and b"\r" not in body and body.decode() != "" and bytes(jsonio.check(body)) == body
    except (UnicodeDecodeError, JsonError):
        return False


def _body_in(line: bytes) -> bytes | None:
    """What stands one level down in a line may be nested too deeply to be read there."""
    try:
        return bytes(jsonio.members(line)["body"])
    except JsonError:
        return None


# --- in ---------------------------------------------------------------------------------------------------------------


async def import_session(store: Store, lines: Iterable[bytes | str], *, id: str = "") -> Imported:
    """Bring an exported session in, under its own id or another.

    Everything is checked before anything is written: raise `StoreCorrupt` for lines that are damaged, missing or out of
    order, `StoreError` for text that is no export, comes from a later version, or if the store has another session of
    that id. One that was cut off while it was written is taken up where it ended: just import it again.
    """
    head, drafts = _read(lines)
    session = check_id(id or head.session)
    lease = await store.lease(session)
    try:
        await _write(store, lease, drafts)
    finally:
        await store.release(lease)
    return Imported(session, len(drafts), tuple([note async for note in _finish(store, session, head)]))


async def _write(store: Store, lease: Lease, drafts: list[Draft]) -> None:
    there = await store.read(lease.session) if lease.head else []
    same = [(entry.id, entry.digest) for entry in there] == [(draft.id, draft.digest) for draft in drafts[: len(there)]]
    if not same:
        raise StoreError(f"there is another session {lease.session!r} already: import this one under another id")
    for batch in _batches(drafts[len(there) :]):
        lease = await store.append(lease, batch)


def _batches(drafts: list[Draft]) -> Iterator[list[Draft]]:
    batch: list[Draft] = []
    size = 0
    for draft in drafts:
        if batch and size + len(draft.body) > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(draft)
        size += len(draft.body)
    if batch:
        yield batch


async def _finish(store: Store, session: str, head: _Head) -> AsyncIterator[str]:
    """Restore what is not an entry; yield what cannot be."""
    if head.name:
        try:
            await store.rename(session, check_name(head.name))
        except ValueError as exc:
            yield f"its name {head.name!r}: {exc}"
    if head.archived:
        await store.archive(session)
    if head.parent:
        yield f"that it was forked off {head.parent!r}: it stands for itself now, with all of its entries"


def _read(lines: Iterable[bytes | str]) -> tuple[_Head, list[Draft]]:
    head: _Head | None = None
    drafts: list[Draft] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            members = jsonio.members(line.rstrip(b"\r\n") if isinstance(line, bytes) else line.rstrip("\r\n"))
            if head is None:
                head = _head(members)
            else:
                drafts.append(_draft(members, len(drafts) + 1))
        except JsonError as exc:
            raise StoreCorrupt(f"line {number}: {exc}") from None
    if head is None or not head.head:
        raise StoreError("this is no exported session: there is nothing in it")
    if len(drafts) != head.head:
        raise StoreCorrupt(
            f"session {head.session!r} had {head.head} entries, and here are {len(drafts)}: some are lost"
        )
    return head, drafts


def _head(members: dict[str, Raw]) -> _Head:
    if bytes(members.get("tenuto", b"")) != b'"session"':
        raise StoreError('this is no exported session: the first line does not say {"tenuto": "session", ...}')
    version = _field(members, "format", int)
    if version > FORMAT:
        raise StoreError(
            f"this session was exported by a later version (format {version}); this one reads up to {FORMAT}"
        )
    return _Head(
        _field(members, "session", str),
        _field(members, "head", int),
        _field(members, "name", str, ""),
        _field(members, "parent", str, ""),
        _field(members, "archived", bool, False),
    )


def _draft(members: dict[str, Raw], expected: int) -> Draft:
    seq = _field(members, "seq", int)
    if seq != expected:
        raise JsonError(f"entry {seq} stands where entry {expected} should be")
    body = _body(members)
    if digest_of(body) != _field(members, "digest", str):
        raise JsonError(f"the bytes of entry {seq} are not those that were exported: their digest differs")
    act, kind = stored.load_act(body), _field(members, "kind", str)
    if kind != kind_of(act):
        raise JsonError(f"entry {seq} is called {kind!r} and is {kind_of(act)!r}")
    id, at, version = _field(members, "id", str), _field(members, "at", int), _field(members, "version", int)
    return Draft(id, at, kind, body, act, version)


def _body(members: dict[str, Raw]) -> bytes:
    if "body" in members:
        return bytes(members["body"])
    try:
        return base64.b64decode(_field(members, "body64", str), validate=True)
    except ValueError as exc:
        raise JsonError(f"body64: {exc}") from None


def _field(members: dict[str, Raw], name: str, kind: type[T], default: T | None = None) -> T:
    if name in members:
        return jsonio.typed(members[name], kind)
    if default is None:
        raise JsonError(f"there is no {name!r}")
    return default
