"""What is the same for every store: problems in the entries of a session, versions, and the summary of a new fork."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tenuto.core import stored
from tenuto.core.journal import (
    VERSION,
    CallFinished,
    Entry,
    MessageAdded,
    ReplyReceived,
    SessionMeta,
    SteeringAdded,
    payload_kind,
    sha256_hex,
)
from tenuto.core.jsonio import JsonError
from tenuto.errors import StoreError
from tenuto.store.protocol import VerifyProblem

__all__ = ["earlier_version", "faults_in", "forked_meta"]


def earlier_version(session: str, seq: int, version: int) -> StoreError:
    """Return the error for an entry of an earlier version, whose kind and fields may have had other names."""
    return StoreError(f"entry {seq} of session {session!r} {_earlier(version)}: use that version to show or export it")


def _earlier(version: int) -> str:
    return f"was written by an earlier version of tenuto (format {version}; this version reads {VERSION})"


def forked_meta(meta: SessionMeta, id: str, now: int) -> SessionMeta:
    """Return the summary of a new fork, from the summary of its shared entries. It has times of its own."""
    return msgspec.structs.replace(meta, id=id, created_at=now, updated_at=now, status="new")


def faults_in(session: str, head: int, entries: Iterable[Entry]) -> list[VerifyProblem]:
    """Check the entries of a session, oldest first: numbers, digests, what the bodies say, results for calls.

    A call that has no result is no fault: the process may have died, and the next run says so. A result that answers no
    call is one, since no provider would take it.
    """
    return [VerifyProblem(session, seq, what) for seq, what in _faults(head, list(entries))]


def _faults(head: int, entries: list[Entry]) -> Iterator[tuple[int, str]]:
    calls: list[str] = []
    ids: set[str] = set()
    for expected, entry in enumerate(entries, 1):
        if entry.seq != expected:
            yield entry.seq, f"stands where entry {expected} should be"
        if entry.id in ids:
            yield entry.seq, f"has the id {entry.id!r} of an entry before it"
        ids.add(entry.id)
        yield from ((entry.seq, what) for what in _damage(entry))
        act = entry.payload
        if isinstance(act, ReplyReceived):
            calls = [call.id for call in act.message.tool_calls()]
        elif isinstance(act, MessageAdded | SteeringAdded):
            calls = []
        elif isinstance(act, CallFinished) and (act.call_index, act.result.tool_use_id) not in enumerate(calls):
            yield (
                entry.seq,
                f"is a result for call {act.call_index}, {act.result.tool_use_id!r}: the last reply made no such",
            )
    if len(entries) != head:
        yield 0, f"says that it has {head} entries, and has {len(entries)}"


def _damage(entry: Entry) -> Iterator[str]:
    digest = sha256_hex(entry.body)
    if digest != entry.digest:
        yield f"its bytes have the digest {digest[:12]}... and had {str(entry.digest)[:12]}... when they were written"
        return
    if entry.version < VERSION:
        yield _earlier(entry.version)
        return
    try:
        act = stored.load_payload(entry.body)
    except JsonError as exc:
        yield f"cannot be read: {exc}"
        return
    if act != entry.payload or payload_kind(act) != entry.kind:
        yield f"is called {entry.kind!r}, and its bytes say something else"
