"""Tool calls of one choice, from whole lists and from pieces.

Pieces are told apart by their `index`. Servers differ: some repeat the id and the name with every piece, some leave the
index off, some give every call the index 0, some send whole calls, some send arguments as an object or as null. A call
stays open until its choice ends, whatever the word that ends it.

The start of a call is told when its id and its name are known, or with the first piece of its arguments. If an id or a
name comes after that, only the end of the call has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Opaque, ToolUse
from tenuto.core.events import ArgumentsDelta
from tenuto.core.loss import Loss
from tenuto.wire.assembler import BlockSlot
from tenuto.wire.chat.protocol import CallPiece
from tenuto.wire.decoder import ChoiceBuilder
from tenuto.wire.merge import MergedFields, merge_fields

__all__ = ["ToolCallBuilder", "ToolCallsBuilder"]

Fields: TypeAlias = dict[str, Raw]
_NULL = Raw(b"null")
_OBJECT = Raw(b"{}")
_TEXT = Raw(b'""')
_EMPTY = (b"null", b'""')
_OBJECTS = ("function", "custom")
"""The inner objects of a call. A host may send both: the call's `type` says which one counts."""


class ToolCallBuilder:
    """One call on its way. `slot` is None until its start is told.

    `is_held` is set while a call that can be read waits for its id or its name.
    """

    __slots__ = ("args", "at", "fields", "id", "is_held", "name", "payload", "rest", "slot")

    def __init__(self, at: int) -> None:
        self.at = at
        self.slot: BlockSlot | None = None
        self.is_held = False
        self.id = ""
        self.name = ""
        self.payload = "function"
        self.fields = MergedFields()
        self.rest = MergedFields()
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

    def take(self, payload: Fields, parts: ChoiceBuilder) -> Raw | None:
        """Take the fields of the inner object, of which a name counts once; return the arguments."""
        name = payload.pop("name", None)
        args = payload.pop(self.word, None)
        merge_fields(self.rest, payload.items())
        if name is not None:
            self._call_it(name, parts)
        return args

    def can_start(self, args: Raw | None) -> bool:
        """Tell whether the start can be told: id and name are known, or `args` are the first of the arguments."""
        if args is not None and bytes(args) not in _EMPTY:
            return True
        return bool(self.name and (self.id or self.payload == "function_call"))

    def _call_it(self, raw: Raw, parts: ChoiceBuilder) -> None:
        name = jsonio.text_of(raw)
        if not self.name:
            self.name = name
            if name:
                self.rest.pop("name", None)
            else:
                merge_fields(self.rest, (("name", raw),))
        elif name not in ("", self.name):
            parts.losses.append(Loss("renamed-call", f"choices[{parts.choice}]", f"{self.name} came again as {name}"))

    def take_args(self, raw: Raw, parts: ChoiceBuilder) -> None:
        """Take arguments, or a piece of them, and tell of them."""
        sign = bytes(raw)[:1]
        if sign == b"n":
            self.args = self.args or raw
            return
        self.args = raw
        piece = jsonio.text_of(raw) if sign == b'"' else jsonio.as_text(raw)
        if piece and self.slot is not None:
            parts.append(self.slot, piece, ArgumentsDelta(piece))

    def block(self, minted: str) -> ToolUse:
        """Return the call as it stands, without its arguments."""
        return ToolUse(self.id or minted, self.name, "", self._kind(), id_generated=not self.id)

    def _kind(self) -> str:
        kind = self.fields.get("type", _NULL)
        return self.payload if bytes(kind) in _EMPTY else jsonio.text_of(kind)

    def finished(self, minted: str) -> ToolUse:
        """Return the whole call, with whatever cannot be told from its typed fields in `extra`."""
        assert self.slot is not None
        rest, extra = self.rest.written(), self.fields.written()
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
            jsonio.join_surrogates("".join(self.slot.pieces)),
            kind,
            id_generated=not self.id,
            args_missing=sign in (b"", b"n"),
            extra=jsonio.object_text(extra),
        )


class ToolCallsBuilder:
    """The calls of one choice, in the order in which they began.

    `before` is called before a call begins, so that what was being said can be closed; `mint` names a call by its place.
    """

    def __init__(self, parts: ChoiceBuilder, mint: Callable[[int], str], before: Callable[[], None]) -> None:
        self._parts = parts
        self._mint = mint
        self._before = before
        self.count = 0
        self._open: list[ToolCallBuilder] = []
        self._held: deque[ToolCallBuilder] | None = None  # an empty deque takes 760 bytes, and few replies need one
        self._legacy: ToolCallBuilder | None = None
        self.by_index: dict[int | bytes, ToolCallBuilder] = {}
        self._by_pair: dict[tuple[int | bytes | None, str], ToolCallBuilder] = {}

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
        inner = {name: jsonio.members(fields[name]) for name in _OBJECTS if bytes(fields.get(name, b""))[:1] == b"{"}
        payload = "custom" if "custom" in inner else "function"
        if len(inner) > 1 and bytes(fields.get("type", b"")) != b'"custom"':
            payload = "function"
        draft = None if whole else self._find(key, id, jsonio.text_of(inner.get(payload, {}).get("name")))
        if draft is None:
            draft = self._new()
        elif draft.payload in inner and (draft.is_held or draft.slot is not None):
            payload = draft.payload
        if key is not None:
            self.by_index[key] = draft
        if raw_id is not None and not id and not draft.id:
            merge_fields(draft.fields, (("id", raw_id),))
        elif id:
            draft.id = draft.id or id
            draft.fields.pop("id", None)
            self._by_pair[key, id] = draft
        if payload in inner:
            del fields[payload]
            draft.payload = payload
        merge_fields(draft.fields, fields.items())
        if payload in inner:
            self._fill(draft, inner[payload], whole=whole)

    def _find(self, key: int | bytes | None, id: str, name: str) -> ToolCallBuilder | None:
        """Find the call that a piece belongs to; None for one that begins a call."""
        if key is None and not id:
            last = self._open[-1] if self._open else None
            return None if last is not None and name and last.name else last
        if key is None:
            same = self._by_pair.get((None, id))
            return None if same is not None and name and same.args is not None else same
        draft = self.by_index.get(key)
        if draft is None or not id or draft.id in ("", id):
            return draft
        return self._by_pair.get((key, id))

    def _new(self) -> ToolCallBuilder:
        draft = ToolCallBuilder(self.count)
        self.count += 1
        self._open.append(draft)
        return draft

    def _fill(self, draft: ToolCallBuilder, inner: Fields, *, whole: bool) -> None:
        """Take the inner object of a call, or a piece of it; tell the start as soon as enough is known."""
        args = draft.take(inner, self._parts)
        if draft.slot is None and (whole or draft.can_start(args)):
            self._start(draft)
        elif draft.slot is None and not draft.is_held:
            draft.is_held = True
            self._held = self._held or deque()
            self._held.append(draft)
        if args is not None:
            draft.take_args(args, self._parts)

    def _start(self, draft: ToolCallBuilder) -> None:
        """Tell the start of a call, after the starts of the calls before it: they keep their order."""
        self._before()
        while draft.slot is None:
            first = self._held.popleft() if self._held else draft
            first.slot = self._parts.start(first.block(self._mint(first.at)))

    def function_call(self, fields: Fields) -> bool:
        """Take a call of the older form, whole or a piece; tell whether there is one: an empty object is none."""
        draft = self._legacy
        if draft is None:
            if not any(bytes(fields.get(name, b'""')) not in _EMPTY for name in ("name", "arguments")):
                return False
            draft = self._legacy = self._new()
            draft.payload = "function_call"
            draft.fields["type"] = Raw(b'"function"')
        self._fill(draft, fields, whole=False)
        return True

    def close(self) -> None:
        """Finish every call that is open."""
        if not self._open:
            return
        if self._held:
            self._start(self._held[-1])
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
            self._parts.finish(draft.slot, block)

    def _unread(self, draft: ToolCallBuilder) -> None:
        """A call without an object that could be read is kept as it is."""
        fields = {**({"id": Raw(jsonio.encode(draft.id))} if draft.id else {}), **draft.fields.written()}
        self._before()
        self._parts.add(Opaque("openai-chat", jsonio.as_text(jsonio.encode(fields)), extra='{"in":"tool_calls"}'))


def _key(raw: Raw | None) -> int | bytes | None:
    spelt = bytes(raw).strip(b'"') if raw is not None else b"null"
    if spelt == b"null":
        return None
    return int(spelt) if spelt.isdigit() and len(spelt) < 10 else spelt
