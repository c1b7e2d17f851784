"""Compare the past requests of a journal with the bytes that were sent.

A conversation grows at its end, so most requests are a prefix of a later one. The last request to a target is written
again. An earlier request was sent with the same bytes if its digest is that of the prefix with its messages. Any other
request is written again by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import Raw

from tenuto.audit.report import Finding
from tenuto.core.cache_misses import CacheMiss
from tenuto.core.journal import (
    Compacted,
    CompactionRequested,
    Configured,
    Entry,
    ReplyReceived,
    RequestStarted,
    Scope,
)
from tenuto.core.loss import Placement
from tenuto.core.next_request import ConfigurationError, NextRequest
from tenuto.core.provider import Target, WireRequest
from tenuto.errors import StoreError, TenutoError
from tenuto.wire.token_scope import issuer_check
from tenuto.wire.write import ENCODER_VERSION, write_request

REQUEST_CHANGED = "request-changed"
"""The rule of a finding for a request that is no longer written with the bytes that were sent."""


class _Series(NamedTuple):
    """What requests have in common of which one may be a prefix of another."""

    model: str
    account: str
    configured: Configured
    view: int
    """The number of the compaction that holds; 0: none."""


class _PastRequest(NamedTuple):
    entry: int
    """The index of its entry."""
    payload: RequestStarted | CompactionRequested
    series: _Series
    messages: int
    """The number of messages before it; -1 for a request for a summary, which is not a prefix of another."""


def compare_requests(entries: Sequence[Entry], find: Callable[[str], Target]) -> list[Finding | None]:
    """Write each past request again: None if the bytes are those that were sent, else a finding.

    A request of another version of the encoder, or without a digest, is not compared.
    """
    findings: list[Finding | None] = []
    prefixes: dict[_Series, PrefixDigests] = {}
    for past in reversed(list(_past_requests(entries, find))):
        known = prefixes.get(past.series)
        if known is not None and past.messages >= 0 and known.digest(past.messages) == past.payload.digest:
            findings.append(None)
            continue
        seq = entries[past.entry].seq
        try:
            wire = _write_again(entries, past, find)
        except (TenutoError, ConfigurationError) as exc:
            findings.append(_changed(seq, f"it cannot be written again: {exc}"))
            continue
        is_same = hashlib.sha256(wire.body).hexdigest() == past.payload.digest
        if (is_same or known is None) and past.messages >= 0:
            prefixes[past.series] = PrefixDigests(wire, past.messages)
        findings.append(
            None if is_same else _changed(seq, "written again, it has other bytes than those that were sent")
        )
    return findings[::-1]


def find_cache_misses(entries: Sequence[Entry]) -> Iterator[CacheMiss]:
    """Yield the replies that read less from the prompt cache than they could."""
    state = NextRequest()
    for entry in entries:
        state.apply(entry)
        if isinstance(entry.payload, ReplyReceived) and state.cache.miss is not None:
            yield state.cache.miss


def _past_requests(entries: Sequence[Entry], find: Callable[[str], Target]) -> Iterator[_PastRequest]:
    """Yield the requests that can be compared."""
    state, view = NextRequest(), 0
    scopes: dict[_Series, Scope | None] = {}
    for index, entry in enumerate(entries):
        payload, configured = entry.payload, state.configured
        if (
            isinstance(payload, RequestStarted | CompactionRequested)
            and payload.digest
            and payload.encoder_version == ENCODER_VERSION
            and configured is not None
        ):
            series = _Series(payload.model, payload.account, configured, view)
            if series not in scopes:
                scopes[series] = _scope(payload, configured, find)
            messages = state.length(scopes[series]) if isinstance(payload, RequestStarted) else -1
            yield _PastRequest(index, payload, series, messages)
        state.apply(entry)
        if isinstance(payload, Compacted):
            view = entry.seq


def _scope(
    payload: RequestStarted | CompactionRequested, configured: Configured, find: Callable[[str], Target]
) -> Scope | None:
    """Return the scope of a past request's tokens; None if its target is not known any more."""
    try:
        return issuer_check(_target(payload, configured, find))
    except TenutoError:
        return None


def _write_again(entries: Sequence[Entry], past: _PastRequest, find: Callable[[str], Target]) -> WireRequest:
    state = NextRequest()
    for entry in entries[: past.entry]:
        state.apply(entry)
    payload = past.payload
    target = _target(payload, past.series.configured, find)
    try:
        if isinstance(payload, CompactionRequested):
            request = state.compaction_request(payload, in_scope=issuer_check(target))
        else:
            request = msgspec.structs.replace(state.request(in_scope=issuer_check(target)), model=payload.model)
    except ValueError as exc:
        raise StoreError(str(exc)) from None
    return write_request(request, target, trace=True)


def _target(
    payload: RequestStarted | CompactionRequested, configured: Configured, find: Callable[[str], Target]
) -> Target:
    """Find the target by the session's name for it, which may select a dialect; else by the name in the entry."""
    with suppress(TenutoError):
        target = find(configured.model)
        if f"{target.provider.name}/{target.model}" == payload.model:
            return msgspec.structs.replace(target, account=payload.account)
    return msgspec.structs.replace(find(payload.model), account=payload.account)


def _changed(seq: int, reason: str) -> Finding:
    return Finding(
        rule=REQUEST_CHANGED, severity="changed", entry=seq, says=reason,
        remedy="look for middleware or a provider row that changed since; tokens bound to these bytes may be refused",
    )  # fmt: skip


class PrefixDigests:
    """The digests of a body that ends earlier: the same fields with only the first messages."""

    def __init__(self, wire: WireRequest, messages: int) -> None:
        self._wire = wire
        self._messages = messages
        self._digests: list[str] | None = None
        self._ends: list[int] = []

    def digest(self, messages: int) -> str:
        """Return the digest of the body with the first messages; empty if their end in the body is not known."""
        if self._digests is None:
            name = _conversation_field(self._wire.placements)
            self._digests = _prefix_digests(self._wire.body, name)
            self._ends = _ends(self._wire.placements, name, self._messages)
        end = self._ends[messages] if messages < len(self._ends) else 0
        return self._digests[end] if 0 < end < len(self._digests) else ""


def _conversation_field(placements: Sequence[Placement]) -> str:
    """Return the field of the body with the messages: that of the last block with an index after the field."""
    for placement in reversed(placements):
        steps = placement.pointer.split("/")
        if len(steps) > 2 and steps[2].isdigit():
            return steps[1]
    return ""


def _prefix_digests(body: bytes, name: str) -> list[str]:
    """Return the digests of a body with none, one, two, ... elements of a list; nothing if there is no such list."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, Raw])
        elements = msgspec.json.decode(fields[name], type=list[Raw])
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError):
        return []
    whole = bytes(fields[name])
    head, _, tail = body.partition(whole)
    if whole != b"[%b]" % b",".join(elements) or body.count(whole) != 1:
        return []
    state = hashlib.sha256(head + b"[")
    digests = []
    for index in range(len(elements) + 1):
        end = state.copy()
        end.update(b"]" + tail)
        digests.append(end.hexdigest())
        if index < len(elements):
            state.update(b"," if index else b"")
            state.update(elements[index])
    return digests


def _ends(placements: Sequence[Placement], name: str, messages: int) -> list[int]:
    """Return for none, one, two, ... messages the number of elements of the body's list that they take."""
    prefix = f"/{name}/"
    counts = [0] * (messages + 1)
    for placement in placements:
        message = placement.location.message
        if message is not None and message < messages and placement.pointer.startswith(prefix):
            counts[message + 1] = max(counts[message + 1], 1 + int(placement.pointer.split("/")[2]))
    for index in range(1, len(counts)):
        counts[index] = max(counts[index], counts[index - 1])
    return counts
