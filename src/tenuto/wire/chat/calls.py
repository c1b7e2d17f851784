"""Tool calls of one choice, from whole lists and from pieces.

Pieces are told apart by their `index`. Servers differ: some repeat the id and the name with every piece, some leave the
index off, some give every call the index 0, some send whole calls, some send arguments as an object or as null. A call
stays open until its choice ends, whatever the word that ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Opaque, ToolUse
from tenuto.core.events import ArgumentsDelta
from tenuto.core.target import Loss
from tenuto.wire.assembler import Slot
from tenuto.wire.chat.shapes import CallPiece
from tenuto.wire.codec import Parts, merge_fields

__all__ = ["CallDraft", "Calls"]

Fields: TypeAlias = dict[str, Raw]
_NULL = Raw(b"null")
_OBJECT = Raw(b"{}")
_TEXT = Raw(b'""')
_EMPTY = (b"null", b'""')


class CallDraft:
    """One call on its way. `slot` is None until it is certain to be a call of a kind that can be read."""

    __slots__ = ("args", "at", "fields", "id", "name", "payload", "rest", "slot")

    def __init__(self, at: int) -> None:
        self.at = at
        self.slot: Slot | None = None
        self.id = ""
        self.name = ""
        self.payload = "function"
        self.fields: Fields = {}
        self.rest: Fields = {}
        self.args: Raw | None = None

    @property
    def word(self) -> str:
        """What the inner object calls the arguments."""
        return "input" if self.payload == "custom" else "arguments"

    @property
    def place(self) -> int:
        """The place of its block."""
        return self.slot.index if self.slot is not None else -1

    def grow(self, piece: str) -> None:
        """Take a piece of the arguments that has been told of."""
        if self.slot is not None and piece:
            self.slot.pieces.append(piece)
        self.args = _TEXT

    def take(self, payload: Fields, parts: Parts) -> None:
        """Take the fields of the inner object: a name counts once, arguments grow."""
        name = payload.pop("name", None)
        args = payload.pop(self.word, None)
        merge_fields(self.rest, payload.items())
        if name is not None:
            self._call_it(name, parts)
        if args is not None:
            self._grow(args, parts)

    def _call_it(self, raw: Raw, parts: Parts) -> None:
        name = jsonio.text_of(raw)
        if not self.name:
            self.name = name
            if name:
                self.rest.pop("name", None)
            else:
                merge_fields(self.rest, (("name", raw),))
        elif name not in ("", self.name):
            parts.losses.append(Loss("renamed-call", f"choices[{parts.choice}]", f"{self.name} came again as {name}"))

    def _grow(self, raw: Raw, parts: Parts) -> None:
        sign = bytes(raw)[:1]
        if sign == b"n":
            self.args = self.args or raw
            return
        self.args = raw
        piece = jsonio.text_of(raw) if sign == b'"' else jsonio.as_text(raw)
        if piece and self.slot is not None:
            parts.grow(self.slot, piece, ArgumentsDelta(piece))

    def block(self, minted: str) -> ToolUse:
        """Return the call as it stands, without its arguments."""
        return ToolUse(self.id or minted, self.name, "", self._kind(), minted=not self.id)

    def _kind(self) -> str:
        kind = self.fields.get("type", _NULL)
        return self.payload if bytes(kind) in _EMPTY else jsonio.text_of(kind)

    def finished(self, minted: str) -> ToolUse:
        """Return the whole call, with whatever cannot be told from its typed fields in `extra`."""
        assert self.slot is not None
        rest, extra = dict(self.rest), dict(self.fields)
        sign = bytes(self.args)[:1] if self.args is not None else b""
        if sign == b"n":
            rest[self.word] = _NULL
        elif sign not in (b"", b'"'):
            rest[self.word] = _OBJECT
        kind = self._kind()
        if bytes(extra.setdefault("type", _NULL)) not in _EMPTY:
            del extra["type"]
        if rest:
            extra[self.payload] = Raw(jsonio.encode(rest))
        return ToolUse(
            self.id or minted,
            self.name,
            jsonio.whole("".join(self.slot.pieces)),
            kind,
            minted=not self.id,
            no_args=sign in (b"", b"n"),
            extra=jsonio.object_text(extra),
        )


class Calls:
    """The calls of one choice, in the order in which they began.

    `before` is called before a call begins, so that what was being said can be closed; `mint` names a call by its place.
    """

    def __init__(self, parts: Parts, mint: Callable[[int], str], before: Callable[[], None]) -> None:
        self._parts = parts
        self._mint = mint
        self._before = before
        self._all: list[CallDraft] = []
        self._open: list[CallDraft] = []
        self._legacy: CallDraft | None = None
        self.by_index: dict[int | bytes, CallDraft] = {}
        self._by_pair: dict[tuple[int | bytes | None, str], CallDraft] = {}

    def all_open(self, pieces: Iterable[CallPiece]) -> bool:
        """Tell whether each piece only goes on with a call that has begun."""
        for piece in pieces:
            call = self.by_index.get(piece.index)
            if call is None or call.slot is None:
                return False
        return True

    def take(self, fields: Fields, *, whole: bool) -> None:
        """Take one element of a list of calls: a whole call, or a piece of one."""
        key = None if whole else _key(fields.pop("index", None))
        raw_id = fields.pop("id", None)
        id = jsonio.text_of(raw_id)
        payload = _payload(fields)
        inner = jsonio.members(fields.pop(payload)) if payload in _objects(fields) else None
        draft = None if whole else self._find(key, id, "" if inner is None else jsonio.text_of(inner.get("name")))
        if draft is None:
            draft = self._new()
        if key is not None:
            self.by_index[key] = draft
        if raw_id is not None and not id and not draft.id:
            merge_fields(draft.fields, (("id", raw_id),))
        elif id:
            draft.id = draft.id or id
            draft.fields.pop("id", None)
            self._by_pair[key, id] = draft
        merge_fields(draft.fields, fields.items())
        if inner is not None:
            draft.payload = payload
            self._begin(draft, inner)

    def _find(self, key: int | bytes | None, id: str, name: str) -> CallDraft | None:
        """Find the call that a piece belongs to; None for one that begins a call."""
        if key is None and not id:
            last = self._all[-1] if self._all else None
            return None if last is not None and name and last.name else last
        if key is None:
            same = self._by_pair.get((None, id))
            return None if same is not None and name and same.args is not None else same
        draft = self.by_index.get(key)
        if draft is None or not id or draft.id in ("", id):
            return draft
        return self._by_pair.get((key, id))

    def _new(self) -> CallDraft:
        draft = CallDraft(len(self._all))
        self._all.append(draft)
        self._open.append(draft)
        return draft

    def _begin(self, draft: CallDraft, inner: Fields) -> None:
        if draft.slot is not None:
            draft.take(inner, self._parts)
            return
        self._before()
        draft.name = jsonio.text_of(inner.get("name"))
        draft.slot = self._parts.start(draft.block(self._mint(draft.at)))
        draft.take(inner, self._parts)

    def function_call(self, fields: Fields) -> bool:
        """Take a call of the older form, whole or a piece; tell whether there is one: an empty object is none."""
        draft = self._legacy
        if draft is None:
            if not any(bytes(fields.get(name, b'""')) not in _EMPTY for name in ("name", "arguments")):
                return False
            draft = self._legacy = self._new()
            draft.payload = "function_call"
            draft.fields["type"] = Raw(b'"function"')
        self._begin(draft, fields)
        return True

    def close(self) -> None:
        """Finish every call that is open."""
        if not self._open:
            return
        opened, self._open, self._legacy = self._open, [], None
        self.by_index.clear()
        self._by_pair.clear()
        for draft in opened:
            if draft.slot is None:
                self._unread(draft)
                continue
            block = draft.finished(self._mint(draft.at))
            if draft.payload == "function_call":
                rest = jsonio.members(block.extra) if block.extra else {}
                block = msgspec.structs.replace(block, extra=jsonio.object_text({"function_call": _OBJECT, **rest}))
            self._parts.done(draft.slot, block)

    def _unread(self, draft: CallDraft) -> None:
        """A call without an object that could be read is kept as it is."""
        fields = {**({"id": Raw(jsonio.encode(draft.id))} if draft.id else {}), **draft.fields}
        self._before()
        self._parts.add(Opaque("openai-chat", jsonio.as_text(jsonio.encode(fields)), extra='{"in":"tool_calls"}'))


def _objects(fields: Fields) -> list[str]:
    """Return the names of the inner objects that a call or a fragment of one has."""
    return [name for name in ("function", "custom") if bytes(fields.get(name, b""))[:1] == b"{"]


def _payload(fields: Fields) -> str:
    """Return the name of the inner object to read. A host may send both: the call's `type` decides, then `function`."""
    objects = _objects(fields)
    is_custom = "custom" in objects and ("function" not in objects or bytes(fields.get("type", b"")) == b'"custom"')
    return "custom" if is_custom else "function"


def _key(raw: Raw | None) -> int | bytes | None:
    spelt = bytes(raw).strip(b'"') if raw is not None else b"null"
    if spelt == b"null":
        return None
    return int(spelt) if spelt.isdigit() and len(spelt) < 10 else spelt
