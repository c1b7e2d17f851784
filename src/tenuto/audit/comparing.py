"""A journal compared with itself: each question that says what it was sent as is made again.

A conversation grows at its end, so most questions are how a later one begins. The last question to a target is written;
an earlier one whose digest is that of the beginning of those bytes, as far as its own messages go, was sent with just
these bytes. Any other is written by itself, and those before it may be how that one begins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import Raw

from tenuto.audit.dialects import dialect_for
from tenuto.audit.fates import fates
from tenuto.audit.report import Finding
from tenuto.core import jsonio
from tenuto.core.journal import Configured, Entry, RequestStarted
from tenuto.core.next_request import ConfigurationError, NextRequest
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import StoreError, TenutoError
from tenuto.wire.write import ENCODER_VERSION, write_request

__all__ = ["CHANGED", "compared"]

CHANGED = "request-changed"
"""The rule of a finding that a request cannot be made again as it was sent."""


class _Alike(NamedTuple):
    """What questions have in common of which one may be how another begins."""

    model: str
    account: str
    configured: Configured


class _Question(NamedTuple):
    """A question of the journal, at a place in it, and how many messages it has."""

    at: int
    act: RequestStarted
    alike: _Alike
    messages: int


def compared(entries: Sequence[Entry], find: Callable[[str], Target]) -> list[Finding | None]:
    """Make each question of a journal again: None if its bytes are those that were sent, and what is wrong if not.

    A question of another version of the encoder, or that was never sent as bytes, cannot be compared.
    """
    found: list[Finding | None] = []
    begun: dict[_Alike, _Beginnings] = {}
    for question in reversed(list(_questions(entries))):
        known = begun.get(question.alike)
        if known is not None and known.digest(question.messages) == question.act.digest:
            found.append(None)
            continue
        try:
            body, beginnings = _again(entries, question, find)
        except (TenutoError, ConfigurationError) as exc:
            found.append(_changed(entries[question.at].seq, f"it cannot be made again: {exc}"))
            continue
        same = hashlib.sha256(body).hexdigest() == question.act.digest
        if same or known is None:
            begun[question.alike] = beginnings
        why = "made again, it has other bytes than those that were sent"
        found.append(None if same else _changed(entries[question.at].seq, why))
    return found[::-1]


def _questions(entries: Sequence[Entry]) -> Iterator[_Question]:
    """Yield what can be compared."""
    asking = NextRequest()
    for at, entry in enumerate(entries):
        act, kept = entry.payload, asking.configured
        if (
            isinstance(act, RequestStarted)
            and act.digest
            and act.encoder_version == ENCODER_VERSION
            and kept is not None
        ):
            yield _Question(at, act, _Alike(act.model, act.account, kept), len(asking))
        asking.apply(entry)


def _again(entries: Sequence[Entry], question: _Question, find: Callable[[str], Target]) -> tuple[bytes, _Beginnings]:
    asking = NextRequest()
    for entry in entries[: question.at]:
        asking.apply(entry)
    act = question.act
    target = msgspec.structs.replace(_whom(question, find), account=act.account)
    try:
        request = msgspec.structs.replace(asking.request(), model=act.model)
    except ValueError as exc:
        raise StoreError(str(exc)) from None
    wire = write_request(request, target)
    return wire.body, _Beginnings(request, target, wire)


def _whom(question: _Question, find: Callable[[str], Target]) -> Target:
    """Find who was asked: as the session names them, if it was they. A name may nail down a dialect, which a row does not."""
    with suppress(TenutoError):
        named = find(question.alike.configured.model)
        if f"{named.provider.name}/{named.model}" == question.act.model:
            return named
    return find(question.act.model)


def _changed(seq: int, why: str) -> Finding:
    return Finding(
        rule=CHANGED,
        severity="changed",
        place=f"entry {seq}",
        says=why,
        remedy="look for middleware or a provider's row that changed since; what is bound to those bytes may be refused",
    )


class _Beginnings:
    """The digests of a body that ends earlier: the same fields, and only the first of its messages."""

    def __init__(self, request: ChatRequest, target: Target, wire: WireRequest) -> None:
        self._made = request, target, wire
        self._digests: list[str] | None = None
        self._ends: list[int] = []

    def digest(self, messages: int) -> str:
        """Return that of the first so many messages of the question; empty if there is no telling where they end."""
        if self._digests is None:
            self._digests = _digests(self._made[2].body, dialect_for(self._made[1].dialect).conversation)
            self._ends = _ends(*self._made)
        end = self._ends[messages] if messages < len(self._ends) else 0
        return self._digests[end] if 0 < end < len(self._digests) else ""


def _digests(body: bytes, name: str) -> list[str]:
    """Return the digest of a body with none, one, two... of the things in a list; nothing if it is no such body."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, Raw])
        listed = msgspec.json.decode(fields[name], type=list[Raw])
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError):
        return []
    whole = bytes(fields[name])
    head, _, tail = body.partition(whole)
    if whole != b"[%b]" % b",".join(listed) or body.count(whole) != 1:
        return []
    so_far = hashlib.sha256(head + b"[")
    found = [_ended(so_far, tail)]
    for number, thing in enumerate(listed):
        so_far.update(b"," if number else b"")
        so_far.update(thing)
        found.append(_ended(so_far, tail))
    return found


def _ended(so_far: hashlib._Hash, tail: bytes) -> str:
    whole = so_far.copy()
    whole.update(b"]" + tail)
    return whole.hexdigest()


def _ends(request: ChatRequest, target: Target, wire: WireRequest) -> list[int]:
    """Return for none, one, two... messages of a question how many things in the body's list they come to."""
    within = f"/{dialect_for(target.dialect).conversation}/"
    counts = [0] * (len(request.transcript) + 1)
    for fate in fates(request.transcript, jsonio.parse(wire.body), target.dialect, wire.losses):
        if fate.pointer.startswith(within):
            message = int(fate.place.removeprefix("messages[").partition("]")[0])
            counts[message + 1] = max(counts[message + 1], 1 + int(fate.pointer.split("/")[2]))
    for number in range(1, len(counts)):
        counts[number] = max(counts[number], counts[number - 1])
    return counts
