"""Build the tool calls of one choice, from whole lists or from the pieces of a stream.

The `index` of a piece names its call. Hosts differ: some repeat the id and the name with every piece, omit the index,
give every call the index 0, send whole calls, or send arguments as an object or as null. A call stays open until its
choice ends, whatever the finish reason is.

The start event of a call is emitted when its id and name are known, or with the first piece of its arguments. An id or
a name that comes later is only in the finished block.
"""

from collections import deque
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Opaque, ToolUse
from tenuto.wire.assembler import BlockSlot, ChoiceBuilder
from tenuto.wire.chat.protocol import CallPiece, parse_index
from tenuto.wire.merge import MergedFields, merge_fields
from tenuto.wire.rawjson import NULL, Fields, is_object, text_or_json

_OBJECT = Raw(b"{}")
_EMPTY = (b"null", b'""')
_PAYLOADS = ("function", "custom")
"""The inner objects of a call. If a host sends both, the `type` of the call decides."""


class ToolCallBuilder(msgspec.Struct, eq=False):
    """The fields of one call so far; its arguments are in the slot."""

    ordinal: int
    payload: str
    """The name of the inner object: `function`, `custom` or `function_call`."""
    slot: BlockSlot | None = None
    """None until the start event is emitted."""
    is_waiting: bool = False
    """Set if the call had to wait for its id or its name."""
    id: str = ""
    name: str = ""
    args_form: bytes = b""
    """The first byte of the arguments' JSON; empty if there were none."""
    fields: MergedFields = msgspec.field(default_factory=MergedFields)
    """Other fields of the call."""
    payload_fields: MergedFields = msgspec.field(default_factory=MergedFields)
    """Other fields of the inner object."""

    @property
    def kind(self) -> str:
        kind = self.fields.get("type", NULL)
        return self.payload if bytes(kind) in _EMPTY else jsonio.text_of(kind)

    def append_args(self, piece: str, parts: ChoiceBuilder) -> None:
        if piece and self.slot is not None:
            parts.append(self.slot, piece)
        self.args_form = b'"'

    def build(self, args: str, make_id: Callable[[int], str]) -> ToolUse:
        """Make the finished call. Facts that its typed fields cannot hold are in `extra`."""
        payload_fields, extra = self.payload_fields.written(), self.fields.written()
        if self.args_form not in (b"", b'"'):
            payload_fields["input" if self.payload == "custom" else "arguments"] = (
                NULL if self.args_form == b"n" else _OBJECT
            )
        if bytes(extra.setdefault("type", NULL)) not in _EMPTY:
            del extra["type"]
        if payload_fields:
            extra[self.payload] = Raw(jsonio.encode(payload_fields))
        if self.payload == "function_call":
            extra = {"function_call": _OBJECT, **extra}
        return ToolUse(
            self.id or make_id(self.ordinal),
            self.name,
            args,
            self.kind,
            id_generated=not self.id,
            args_missing=self.args_form in (b"", b"n"),
            extra=jsonio.object_text(extra),
        )


class ToolCallsBuilder:
    """Collect the calls of one choice, in the order in which they began."""

    def __init__(self, parts: ChoiceBuilder, make_id: Callable[[int], str], end_text: Callable[[], None]) -> None:
        """`make_id` makes an id from the ordinal of a call; `end_text` ends the open text before a call starts."""
        self._parts = parts
        self._make_id = make_id
        self._end_text = end_text
        self.count = 0
        self._open: list[ToolCallBuilder] = []
        self._waiting: deque[ToolCallBuilder] | None = None  # an empty deque takes 760 bytes, and few replies need one
        self._function_call: ToolCallBuilder | None = None
        self.by_index: dict[int | bytes, ToolCallBuilder] = {}
        self._by_index_and_id: dict[tuple[int | bytes | None, str], ToolCallBuilder] = {}

    def are_started(self, pieces: Iterable[CallPiece]) -> bool:
        """Return whether each piece continues a call whose start event was emitted."""
        for piece in pieces:
            call = self.by_index.get(piece.index)
            if call is None or call.slot is None:
                return False
        return True

    def take(self, fields: Fields, *, whole: bool) -> None:
        """Read one element of a list of calls: a `whole` call, or a piece of one."""
        index = None if whole else parse_index(fields.pop("index", None))
        raw_id = fields.pop("id", None)
        id = jsonio.text_of(raw_id)
        payloads = {name: jsonio.members(fields[name]) for name in _PAYLOADS if is_object(fields.get(name))}
        is_custom = len(payloads) == 1 or bytes(fields.get("type", b"")) == b'"custom"'
        payload = "custom" if "custom" in payloads and is_custom else "function"
        call = None
        if not whole:
            call = self._find(index, id, jsonio.text_of(payloads.get(payload, {}).get("name")))
        if call is None:
            call = self._open_call("function")
        elif call.payload in payloads and (call.is_waiting or call.slot is not None):
            payload = call.payload
        if index is not None:
            self.by_index[index] = call
        if id:
            call.id = call.id or id
            call.fields.pop("id", None)
            self._by_index_and_id[index, id] = call
        elif raw_id is not None and not call.id:
            merge_fields(call.fields, (("id", raw_id),))
        if payload in payloads:
            del fields[payload]
            call.payload = payload
        merge_fields(call.fields, fields.items())
        if payload in payloads:
            self._take_payload(call, payloads[payload], whole=whole)

    def _find(self, index: int | bytes | None, id: str, name: str) -> ToolCallBuilder | None:
        """Find the call that a piece belongs to; None if the piece begins a call."""
        if index is None and not id:
            last = self._open[-1] if self._open else None
            return None if last is not None and name and last.name else last
        if index is None:
            same = self._by_index_and_id.get((None, id))
            return None if same is not None and name and same.args_form else same
        call = self.by_index.get(index)
        if call is None or not id or call.id in ("", id):
            return call
        return self._by_index_and_id.get((index, id))

    def _open_call(self, payload: str) -> ToolCallBuilder:
        call = ToolCallBuilder(self.count, payload)
        self.count += 1
        self._open.append(call)
        return call

    def take_function_call(self, fields: Fields) -> bool:
        """Read the older `function_call`, whole or a piece. Return False if its fields are empty."""
        call = self._function_call
        if call is None:
            if all(bytes(fields.get(name, b'""')) in _EMPTY for name in ("name", "arguments")):
                return False
            call = self._function_call = self._open_call("function_call")
            call.fields["type"] = Raw(b'"function"')
        self._take_payload(call, fields, whole=False)
        return True

    def _take_payload(self, call: ToolCallBuilder, payload: Fields, *, whole: bool) -> None:
        """Read the inner object of a call, or a piece of it. Start the call as soon as enough is known."""
        args_field = "input" if call.payload == "custom" else "arguments"
        raw_name, args = payload.pop("name", None), payload.pop(args_field, None)
        merge_fields(call.payload_fields, payload.items())
        name = jsonio.text_of(raw_name)
        if call.name and name not in ("", call.name):
            place = f"choices[{self._parts.choice}]"
            self._parts.record_loss("renamed-call", place, f"{call.name} became {name}")
        elif name:
            call.name = name
            call.payload_fields.pop("name", None)
        elif raw_name is not None and not call.name:
            merge_fields(call.payload_fields, (("name", raw_name),))
        if call.slot is None:
            has_args = args is not None and bytes(args) not in _EMPTY
            is_known = call.name and (call.id or call.payload == "function_call")
            if whole or has_args or is_known:
                self._start(call)
            elif not call.is_waiting:
                call.is_waiting = True
                self._waiting = self._waiting or deque()
                self._waiting.append(call)
        if args is None:
            return
        form = bytes(args)[:1]
        if form == b"n":
            call.args_form = call.args_form or form
        else:
            call.append_args(text_or_json(args), self._parts)
            call.args_form = form

    def _start(self, call: ToolCallBuilder) -> None:
        """Emit the start of a call, after the starts of the waiting calls before it."""
        self._end_text()
        while call.slot is None:
            first = self._waiting.popleft() if self._waiting else call
            id = first.id or self._make_id(first.ordinal)
            first.slot = self._parts.start(ToolUse(id, first.name, "", first.kind, id_generated=not first.id))

    def close(self) -> None:
        if self._waiting:
            self._start(self._waiting[-1])
        calls, self._open, self._function_call = self._open, [], None
        self.by_index.clear()
        self._by_index_and_id.clear()
        for call in calls:
            if call.slot is not None:
                args = "".join(call.slot.pieces)
                if not args.isascii():
                    args = jsonio.join_surrogates(args)
                self._parts.finish(call.slot, call.build(args, self._make_id))
                continue
            # a call without a readable inner object is stored as it came
            fields = {**({"id": Raw(jsonio.encode(call.id))} if call.id else {}), **call.fields.written()}
            self._end_text()
            self._parts.add(Opaque("openai-chat", jsonio.as_text(jsonio.encode(fields)), extra='{"in":"tool_calls"}'))
