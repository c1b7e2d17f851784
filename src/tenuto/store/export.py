"""Sessions as text: a line that says which session it is, then one line for each entry, all of them JSON objects.

An entry's bytes stand in its line as they are, under `body`, so that the file can be read and searched; where that would
change a byte, or break the line, they stand under `body64` instead. Each line has the digest of the bytes. What comes out
of a store and into another has the same entries: numbers, ids, times, kinds, versions, bytes and digests. Fences are not
carried over: they count the writers of one store.

Several sessions may stand one after another. Neither way is more of them held in memory than is read or written at once,
as long as lines can be read twice: once to see that they are whole, and once to write them.
"""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import groupby
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from tenuto.core import jsonio, stored
from tenuto.core.journal import VERSION, Entry, EntryDraft, payload_kind, sha256_hex
from tenuto.core.jsonio import JsonError
from tenuto.errors import SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.checks import earlier_version
from tenuto.store.ids import check_entry_id, check_id, check_name, is_keyword
from tenuto.store.protocol import Lease, Store

__all__ = [
    "FORMAT",
    "ExportedSession",
    "Imported",
    "check_export",
    "check_header",
    "check_no_other_session",
    "export_session",
    "import_session",
    "import_sessions",
]

T = TypeVar("T")
Lines: TypeAlias = Iterable[bytes | str]

FORMAT = 3
"""The version of the text. It is raised with that of the entries."""
_BATCH = 8 * 1024 * 1024
"""So many bytes, or one entry, are written in one transaction."""
_WINDOW = 128
"""So many entries at most are read at once; fewer, if they are large."""
_HELD = 8 * 1024 * 1024
_CLOCK_SKEW = 24 * 60 * 60 * 1000
"""Milliseconds by which the clock of an exporting machine may be ahead."""
_LATEST_VERSION = 255
"""The highest version of an entry that an import accepts: entries of later versions are stored and shown."""


class Imported(msgspec.Struct, frozen=True):
    """What became of an import: under which id the session is, and what of it could not be taken along."""

    session: str
    entries: int
    left_out: tuple[str, ...] = ()


class ExportedSession(msgspec.Struct, frozen=True):
    """A session of an export that was looked through and is whole; `first` tells it from others of the same id."""

    session: str
    entries: int
    name: str
    first: tuple[str, str]


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
    done, window = 0, 4
    while done < shown.head:
        entries = await store.read(session, after=done, upto=min(done + window, shown.head))
        for entry in entries:
            yield _line(entry)
        done += window
        size = sum(len(entry.body) for entry in entries)
        window = max(window // 4, 1) if size > _HELD else min(window * 2, _WINDOW)


def _line(entry: Entry) -> bytes:
    fields: dict[str, Any] = {"seq": entry.seq, "id": entry.id, "time_ms": entry.time_ms, "fence": entry.fence}
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


async def import_session(store: Store, lines: Lines, *, id: str = "") -> Imported:
    """Write an exported session to a store, under its own id or another.

    Everything is checked before anything is written: raise `StoreCorrupt` for lines that are damaged, missing or out of
    order, `StoreError` for text that is no export, comes from another version, or if the store has another session of
    that id. One that was cut off while it was written is taken up where it ended: just import it again.

    Lines that can be gone through only once are held in memory.
    """
    again = list(lines) if isinstance(lines, Iterator) else lines
    check_export(again, several=False)
    [done] = [one async for one in import_sessions(store, again, id=id)]
    return done


def check_export(lines: Lines, *, several: bool = True) -> list[ExportedSession]:
    """Look whether lines are whole sessions, one after another; nothing is written. Raise as `import_session` does."""
    found: list[ExportedSession] = []
    for (_, head), pieces in groupby(_parsed(lines, several=several), key=_of_which):
        first = next(pieces)[2]  # the others are looked at as the loop goes on
        found.append(ExportedSession(head.session, head.head, head.name, (first.id, first.digest)))
    if not found:
        raise StoreError("this is no exported session: there is nothing in it")
    return found


async def check_no_other_session(store: Store, whole: ExportedSession, *, id: str = "") -> None:
    """Raise `StoreError` if the store has another session of that id, as far as its first entry tells."""
    session = check_id(id or whole.session)
    try:
        there = await store.read(session, upto=1)
    except SessionNotFound:
        return
    if there and (there[0].id, there[0].digest) != whole.first:
        raise _another(session)


async def import_sessions(
    store: Store, lines: Lines, *, id: str = "", name: str | None = None
) -> AsyncIterator[Imported]:
    """Write the sessions of lines that were examined; yield each that is done. With an `id` there is to be one only.

    They are called what they were called, unless `name` says otherwise.

    Lines that have changed since are refused when it is their turn: what stands before them is written then.
    """
    for (_, head), pieces in groupby(_parsed(lines, several=not id), key=_of_which):
        session = check_id(id or head.session)
        lease = await store.lease(session)
        try:
            count = await _write(store, lease, (draft for _, _, draft in pieces))
        finally:
            await store.release(lease)
        yield Imported(
            session,
            count,
            tuple([note async for note in _finish(store, session, head, head.name if name is None else name)]),
        )


async def _write(store: Store, lease: Lease, drafts: Iterator[EntryDraft]) -> int:
    """Write what is not there yet, once it is clear that what is there is the same; return how many entries it has."""
    session, there, count = lease.session, lease.head, 0
    for batch in _batches(drafts):
        known = await store.read(session, after=count, upto=min(there, count + len(batch))) if count < there else []
        if [(entry.id, entry.digest) for entry in known] != [(one.id, one.digest) for one in batch[: len(known)]]:
            raise _another(session)
        count += len(batch)
        if count > there:
            lease = await store.append(lease, batch[len(known) :])
    if count < there:
        raise _another(session)
    return count


def _another(session: str) -> StoreError:
    return StoreError(f"there is another session {session!r} already: import this one under another id")


def _batches(drafts: Iterator[EntryDraft]) -> Iterator[list[EntryDraft]]:
    batch: list[EntryDraft] = []
    size = 0
    for draft in drafts:
        if batch and size + len(draft.body) > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(draft)
        size += len(draft.body)
    if batch:
        yield batch


async def _finish(store: Store, session: str, head: _Head, name: str) -> AsyncIterator[str]:
    """Restore what is not an entry; yield what cannot be."""
    if name:
        try:
            await store.rename(session, check_name(name))
        except ValueError as exc:
            yield f"its name {name!r}: {exc}"
    if head.archived:
        await store.archive(session)
    if head.parent:
        yield f"that it was forked off {head.parent!r}: it stands for itself now, with all of its entries"


_Piece: TypeAlias = tuple[int, _Head, EntryDraft]
"""Which session of the lines it is, counted from 1; what is said of it; and one of its entries."""


def _of_which(piece: _Piece) -> tuple[int, _Head]:
    return piece[:2]


def _parsed(lines: Lines, *, several: bool) -> Iterator[_Piece]:
    """Yield the entries. `several`: a line that says so begins another session; else it is an entry that is none."""
    head: _Head | None = None
    count = sessions = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            members = jsonio.members(line.rstrip(b"\r\n") if isinstance(line, bytes) else line.rstrip("\r\n"))
            if head is None or (several and "tenuto" in members):
                _ended(head, count)
                head, count, sessions = _head(members), 0, sessions + 1
            else:
                count += 1
                yield sessions, head, _draft(members, head.session, count)
        except JsonError as exc:
            raise StoreCorrupt(f"line {number}: {exc}") from None
    _ended(head, count)


def _ended(head: _Head | None, count: int) -> None:
    """Make sure that all of a session's entries were there."""
    if head is not None and count != head.head:
        raise StoreCorrupt(f"session {head.session!r} had {head.head} entries, and here are {count}: some are lost")
    if head is not None and not head.head:
        raise StoreError(f"this is no exported session: there is nothing in it ({head.session!r})")


def check_header(line: bytes) -> None:
    """Check the first line of an export. Raise `StoreError` if it has another version, `JsonError` if it is damaged."""
    _head(jsonio.members(line))


def _head(members: dict[str, Raw]) -> _Head:
    if bytes(members.get("tenuto", b"")) != b'"session"':
        raise StoreError('this is no exported session: the first line does not say {"tenuto": "session", ...}')
    version = _field(members, "format", int)
    if version != FORMAT:
        by, todo = (
            ("a later", "upgrade tenuto")
            if version > FORMAT
            else ("an earlier", "use that version to import and show it")
        )
        raise StoreError(
            f"the export was written by {by} version of tenuto (format {version}; this version reads {FORMAT}): {todo}"
        )
    name = _field(members, "name", str, "")
    if is_keyword(name):
        raise JsonError(f"the session has the name {name[:80]!r}, which means a session by its position")
    return _Head(
        _field(members, "session", str),
        _field(members, "head", int),
        name,
        _field(members, "parent", str, ""),
        _field(members, "archived", bool, False),
    )


def _draft(members: dict[str, Raw], session: str, expected: int) -> EntryDraft:
    seq = _field(members, "seq", int)
    if seq != expected:
        raise JsonError(f"entry {seq} stands where entry {expected} should be")
    body = _body(members)
    if sha256_hex(body) != _field(members, "digest", str):
        raise JsonError(f"the bytes of entry {seq} are not those that were exported: their digest differs")
    act, kind = stored.load_payload(body), _field(members, "kind", str)
    if kind != payload_kind(act):
        raise JsonError(f"entry {seq} is called {kind!r} and is {payload_kind(act)!r}")
    id, at, version = _field(members, "id", str), _field(members, "time_ms", int), _field(members, "version", int)
    try:
        check_entry_id(id)
    except ValueError as exc:
        raise JsonError(f"entry {seq}: {exc}") from None
    if not 0 <= at <= time.time_ns() // 1_000_000 + _CLOCK_SKEW:
        raise JsonError(f"entry {seq} has the time {at}, which is not between 1970 and now")
    if not 1 <= version <= _LATEST_VERSION:
        raise JsonError(f"entry {seq} has the version {version}; versions are 1 to {_LATEST_VERSION}")
    if version < VERSION:
        raise earlier_version(session, seq, version)
    return EntryDraft(id, at, kind, body, act, version)


def _body(members: dict[str, Raw]) -> bytes:
    if "body" in members:
        return bytes(members["body"])
    try:
        return base64.b64decode(_field(members, "body64", str), validate=True)
    except ValueError as exc:
        raise JsonError(f"body64: {exc}") from None


def _field(members: dict[str, Raw], name: str, kind: type[T], default: T | None = None) -> T:
    if name in members:
        return jsonio.decode_as(members[name], kind)
    if default is None:
        raise JsonError(f"there is no {name!r}")
    return default
