"""Sessions as text (JSON lines): a line for the session, one for each entry, then one for each pending inbox item.

The bytes of an entry are under `body`, or as base64 under `body64`, with their digest. An imported session has the same
numbers, ids, times, kinds, versions, bytes and digests, but no fences: they count the holders of one store. Lines are
read twice, to check them and to write them, and only some are in memory.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from tenuto.core import jsonio, stored
from tenuto.core.inbox import PostedItem, item_kind
from tenuto.core.journal import OLDEST_VERSION, EntryDraft, payload_kind, sha256_hex
from tenuto.core.jsonio import JsonError
from tenuto.errors import SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.entries import earlier_version
from tenuto.store.protocol import Lease, Store
from tenuto.store.schema import EXPORT_FORMAT, export_version_error
from tenuto.store.sessions import check_entry_id, check_id, check_name, is_keyword

T = TypeVar("T")
Lines: TypeAlias = Iterable[bytes | str]

_BATCH = 8 * 1024 * 1024  # the most bytes that are read or written at once, unless one entry has more
_WINDOW = 128  # the most entries that are read at once
_CLOCK_SKEW = 24 * 60 * 60 * 1000  # milliseconds by which the clock of an exporting machine may be ahead
_LATEST_VERSION = 255
"""The highest version of an entry that an import accepts: entries of later versions are stored and shown."""


class Imported(msgspec.Struct, frozen=True):
    session: str
    entries: int
    left_out: tuple[str, ...] = ()
    """The properties of the session that could not be imported."""


class ExportedSession(msgspec.Struct, frozen=True):
    """A session of an export that was checked."""

    session: str
    entries: int
    name: str
    first: tuple[str, str]
    """The id and the digest of its first entry, which tell it from another session of the same id."""


class _Head(msgspec.Struct, frozen=True):
    session: str
    head: int
    name: str = ""
    parent: str = ""
    archived: bool = False
    inbox: int = 0


_Part: TypeAlias = tuple[int, _Head, EntryDraft | PostedItem]
"""The number of the session in the lines, from 1; its first line; and one of its entries or inbox items."""


# --- export -----------------------------------------------------------------------------------------------------------


async def export_session(store: Store, session: str) -> AsyncIterator[bytes]:
    """Yield the lines of a session, each with its end. Entries that are written meanwhile are not included."""
    items = await store.inbox(session)  # before the entries: an item that is taken meanwhile is in both, not in neither
    shown = await store.session(session)
    first: dict[str, Any] = {"tenuto": "session", "format": EXPORT_FORMAT, "session": shown.id, "head": shown.head}
    optional = {"name": shown.name, "parent": shown.parent, "forked_at": shown.forked_at, "archived": shown.archived}
    optional["inbox"] = len(items)
    yield jsonio.encode({**first, **{key: value for key, value in optional.items() if value}}) + b"\n"
    done, window = 0, 4
    while done < shown.head:
        entries = await store.read(session, after=done, upto=min(done + window, shown.head))
        for entry in entries:
            fields = {"seq": entry.seq, "id": entry.id, "time_ms": entry.time_ms, "fence": entry.fence}
            yield _line({**fields, "version": entry.version, "kind": entry.kind}, entry.body, entry.digest)
        done += window
        size = sum(len(entry.body) for entry in entries)
        window = max(window // 4, 1) if size > _BATCH else min(window * 2, _WINDOW)
    for number, posted in enumerate(items, 1):
        body = stored.dump_item(posted.item)
        fields = {"item": number, "id": posted.id, "time_ms": posted.time_ms, "kind": item_kind(posted.item)}
        yield _line(fields, body, sha256_hex(body))


def _line(fields: dict[str, Any], body: bytes, digest: str) -> bytes:
    """Return a line. The body is plain if it is one line of text and reading the line returns its very bytes."""
    fields = {**fields, "digest": digest}
    with suppress(UnicodeDecodeError, JsonError):
        body.decode()
        line = jsonio.encode({**fields, "body": Raw(body)})
        if not re.search(rb"[\r\n]", line) and bytes(jsonio.members(line)["body"]) == body:
            return line + b"\n"
    return jsonio.encode({**fields, "body64": base64.b64encode(body).decode()}) + b"\n"


# --- import -----------------------------------------------------------------------------------------------------------


async def import_session(store: Store, lines: Lines, *, id: str = "") -> Imported:
    """Write an exported session to a store, under its own id or another.

    All lines are checked before anything is written: raise `StoreCorrupt` for lines that are damaged, missing or out of
    order, `StoreError` for text that is not an export, or of another version, or if the store has another session of that
    id. An import that was interrupted continues if it is called again.

    Lines that can be read only once are stored in memory.
    """
    lines = list(lines) if isinstance(lines, Iterator) else lines
    check_export(lines, several=False)
    [imported] = [one async for one in import_sessions(store, lines, id=id)]
    return imported


def check_export(lines: Lines, *, several: bool = True) -> list[ExportedSession]:
    """Check that lines are complete sessions; nothing is written. Raise as `import_session` does."""
    sessions: list[ExportedSession] = []
    for (_, head), parts in groupby(_parse(lines, several=several), key=lambda part: part[:2]):
        first = next(parts)[2]  # groupby reads the other lines, which checks them
        assert isinstance(first, EntryDraft)
        sessions.append(ExportedSession(head.session, head.head, head.name, (first.id, first.digest)))
    if not sessions:
        raise StoreError("this is not an exported session: it is empty")
    return sessions


async def check_no_other_session(store: Store, exported: ExportedSession, *, id: str = "") -> None:
    """Raise `StoreError` if the store has a session of that id with another first entry."""
    session = check_id(id or exported.session)
    try:
        entries = await store.read(session, upto=1)
    except SessionNotFound:
        return
    if entries and (entries[0].id, entries[0].digest) != exported.first:
        raise _other_session(session)


async def import_sessions(
    store: Store, lines: Lines, *, id: str = "", name: str | None = None
) -> AsyncIterator[Imported]:
    """Write the sessions of lines that `check_export` has checked; yield each that is done.

    With an `id` the lines must have one session. `name` replaces the exported names. Lines that have changed since the check
    are refused when they are read; the sessions before them are written then.
    """
    for (_, head), parts in groupby(_parse(lines, several=not id), key=lambda part: part[:2]):
        session = check_id(id or head.session)
        items: list[PostedItem] = []
        lease = await store.lease(session)
        try:
            count = await _write(store, lease, _batches(parts, items))
        finally:
            await store.release(lease)
        for posted in items:
            await store.post(session, posted.item, id=posted.id)
        name_here, left_out = head.name if name is None else name, list[str]()
        if name_here:
            try:
                await store.rename(session, check_name(name_here))
            except ValueError as exc:
                left_out.append(f"its name {name_here!r}: {exc}")
        if head.archived:
            await store.archive(session)
        if head.parent:
            left_out.append(f"its parent {head.parent!r}: the session is not a fork here and has all of its entries")
        yield Imported(session, count, tuple(left_out))


async def _write(store: Store, lease: Lease, batches: Iterator[list[EntryDraft]]) -> int:
    """Write the entries that are missing, if the others are the same; return the number of all entries."""
    session, head, count = lease.session, lease.head, 0
    for batch in batches:
        known = await store.read(session, after=count, upto=min(head, count + len(batch))) if count < head else []
        if [(entry.id, entry.digest) for entry in known] != [(one.id, one.digest) for one in batch[: len(known)]]:
            raise _other_session(session)
        count += len(batch)
        if count > head:
            lease = await store.append(lease, batch[len(known) :])
    if count < head:
        raise _other_session(session)
    return count


def _other_session(session: str) -> StoreError:
    return StoreError(f"there is already another session {session!r}: import this one under another id")


def _batches(parts: Iterator[_Part], items: list[PostedItem]) -> Iterator[list[EntryDraft]]:
    """Yield the entries of a session in batches; append its inbox items to `items`."""
    batch: list[EntryDraft] = []
    size = 0
    for _, _, part in parts:
        if isinstance(part, PostedItem):
            items.append(part)
            continue
        if batch and size + len(part.body) > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += len(part.body)
    if batch:
        yield batch


# --- lines ------------------------------------------------------------------------------------------------------------


_NO_EXPORT = 'this is not an exported session: the first line is not {"tenuto": "session", ...}'


def _parse(lines: Lines, *, several: bool) -> Iterator[_Part]:
    """Yield the entries and items of the lines. Without `several`, a second session is an error."""
    head: _Head | None = None
    entries = items = sessions = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            members = jsonio.members(line.rstrip(b"\r\n") if isinstance(line, bytes) else line.rstrip("\r\n"))
            if head is None or (several and "tenuto" in members):
                _check_complete(head, entries, items)
                head, entries, items, sessions = _parse_head(members), 0, 0, sessions + 1
            elif "item" in members:
                items += 1
                if entries != head.head:
                    raise JsonError(f"inbox item {items} is in the place of entry {entries + 1}")
                yield sessions, head, _parse_item(members, items)
            else:
                entries += 1
                yield sessions, head, _parse_entry(members, head.session, entries)
        except JsonError as exc:
            if head is None and '"tenuto"' not in (line if isinstance(line, str) else line.decode("utf-8", "replace")):
                raise StoreError(_NO_EXPORT) from None
            raise StoreCorrupt(f"line {number}: {exc}") from None
    _check_complete(head, entries, items)


def _check_complete(head: _Head | None, entries: int, items: int) -> None:
    if head is None:
        return
    for what, expected, count in (("entries", head.head, entries), ("inbox items", head.inbox, items)):
        if count != expected:
            raise StoreCorrupt(f"session {head.session!r} had {expected} {what}, but the export has {count}")
    if not head.head:
        raise StoreError(f"this is not an exported session: {head.session!r} has no entries")


def _parse_head(members: dict[str, Raw]) -> _Head:
    if bytes(members.get("tenuto", b"")) != b'"session"':
        raise StoreError(_NO_EXPORT)
    version = _field(members, "format", int)
    if version != EXPORT_FORMAT:
        raise export_version_error(version)
    optional: dict[str, Any] = {"name": "", "parent": "", "archived": False, "inbox": 0}
    given = {name: _field(members, name, type(default)) for name, default in optional.items() if name in members}
    head = _Head(_field(members, "session", str), _field(members, "head", int), **given)
    if is_keyword(head.name):
        raise JsonError(f"the session has the name {head.name[:80]!r}, which means a session by its position")
    return head


def _parse_entry(members: dict[str, Raw], session: str, expected: int) -> EntryDraft:
    id, body, kind = _parse_common(members, "seq", "entry", expected)
    payload, time_ms = stored.load_payload(body), _field(members, "time_ms", int)
    version = _field(members, "version", int)
    if kind != payload_kind(payload):
        raise JsonError(f"entry {expected} has the kind {kind!r}, but its body has {payload_kind(payload)!r}")
    if not 0 <= time_ms <= time.time_ns() // 1_000_000 + _CLOCK_SKEW:
        raise JsonError(f"entry {expected} has the time {time_ms}, which is not between 1970 and now")
    if not 1 <= version <= _LATEST_VERSION:
        raise JsonError(f"entry {expected} has the version {version}; versions are 1 to {_LATEST_VERSION}")
    if version < OLDEST_VERSION:
        raise earlier_version(session, expected, version)
    return EntryDraft(id, time_ms, kind, body, payload, version)


def _parse_item(members: dict[str, Raw], expected: int) -> PostedItem:
    id, body, kind = _parse_common(members, "item", "inbox item", expected)
    item = stored.load_item(body)
    if kind != item_kind(item):
        raise JsonError(f"inbox item {expected} has the kind {kind!r}, but its body has {item_kind(item)!r}")
    return PostedItem(expected, id, _field(members, "time_ms", int), item)


def _parse_common(members: dict[str, Raw], number_field: str, what: str, expected: int) -> tuple[str, bytes, str]:
    """Return id, body and kind of an entry or an item; check its number, digest and id."""
    number, body = _field(members, number_field, int), _body(members)
    if number != expected:
        raise JsonError(f"{what} {number} is in the place of {what} {expected}")
    if sha256_hex(body) != _field(members, "digest", str):
        raise JsonError(f"{what} {number} does not match its digest: it was changed after the export")
    try:
        return check_entry_id(_field(members, "id", str)), body, _field(members, "kind", str)
    except ValueError as exc:
        raise JsonError(f"{what} {number}: {exc}") from None


def _body(members: dict[str, Raw]) -> bytes:
    if "body" in members:
        return bytes(members["body"])
    try:
        return base64.b64decode(_field(members, "body64", str), validate=True)
    except ValueError as exc:
        raise JsonError(f"body64: {exc}") from None


def _field(members: dict[str, Raw], name: str, kind: type[T]) -> T:
    if name not in members:
        raise JsonError(f"there is no {name!r}")
    return jsonio.decode_as(members[name], kind)
