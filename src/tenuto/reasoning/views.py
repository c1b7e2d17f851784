"""The reasoning of any reply as `reasoning_details` items, and back.

| in the reply | as items |
|---|---|
| signed Anthropic thinking | `reasoning.text` with its `signature` |
| redacted Anthropic thinking | `reasoning.encrypted` |
| a Responses reasoning item | `reasoning.summary` if readable, `reasoning.encrypted` if encrypted; both have its `id` |
| Gemini thought | `reasoning.text` if readable, `reasoning.encrypted` if signed |
| Gemini signature on a text or a call | `reasoning.encrypted`; its `id` is that of the call |
| received `reasoning_details` | those items, byte for byte |
| any other reasoning | `reasoning.text` |

Items say neither where in the reply their block was nor every field of it. Items made here say it in a field of their own,
`x-tenuto`:

* `block_index`: the index of the reasoning block that the item belongs to;
* `signed_index`: the index of the block that the item signs;
* `received`: true if the items of the block are the `reasoning_details` that it was received with;
* `meta`, `text`, `extra`, `unknown_fields`: fields of the block that differ from what the items imply.

Items without that field are made into one reasoning block before the others or, if all of them are of the reply's own
dialect, into blocks of that dialect; a Gemini signature goes to the call with its `id`.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from tenuto.core import jsonio, stored
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Block,
    ChatMeta,
    GeminiMeta,
    OpenAiMeta,
    ProviderMeta,
    Reasoning,
    ToolUse,
)
from tenuto.core.jsonio import is_object, raw_list
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.provider import Dialect
from tenuto.reasoning.items import (
    ReasoningCodec,
    ReasoningEncrypted,
    ReasoningFormat,
    ReasoningItem,
    ReasoningSummary,
    ReasoningText,
    parse_items,
)
from tenuto.wire.anthropic.blocks import read_block
from tenuto.wire.codec import codec_for, dialect_names
from tenuto.wire.gemini.parts import read_part
from tenuto.wire.gemini.protocol import PART_FIELDS, to_camel_case
from tenuto.wire.responses.items import read_item

HINT = "x-tenuto"
_CLAUDE, _GEMINI = ReasoningFormat.ANTHROPIC_CLAUDE_V1, ReasoningFormat.GOOGLE_GEMINI_V1
_RESPONSES = frozenset(format for format in ReasoningFormat if format.value.endswith("-responses-v1"))
_Fields = dict[str, Any]


def to_details(message: AssistantMessage, *, format: ReasoningFormat | None = None) -> list[ReasoningItem]:
    """Return the reasoning and the signatures of a reply as items, in order.

    `format` is the vendor format, if it is not that of the dialect's first vendor (Responses at Azure or xAI).
    """
    format = format or _own_format(message) or ReasoningFormat.UNKNOWN
    items: list[ReasoningItem] = []
    for index, block in enumerate(message.blocks):
        if isinstance(block, Reasoning):
            items += _received_items(block, index) or _native_items(block, index, len(items), format)
        elif isinstance(block.meta, GeminiMeta):
            id, data = _call_id(block), block.meta.thought_signature
            item = ReasoningEncrypted(format=_GEMINI, id=id, index=len(items), data=data)
            hint: _Fields = {"signed_index": index}
            if block.meta != GeminiMeta(data):
                hint["meta"] = _dump_meta(block.meta)
            items += parse_items([_add_hint(item.to_raw(), hint)])
    return items


def without_details(message: AssistantMessage) -> AssistantMessage:
    """Return a reply without its reasoning and without the signatures that `to_details` returns."""
    others = (block for block in message.blocks if not isinstance(block, Reasoning))
    blocks = tuple(msgspec.structs.replace(b, meta=None) if isinstance(b.meta, GeminiMeta) else b for b in others)
    return message if blocks == message.blocks else msgspec.structs.replace(message, blocks=blocks)


def with_details(message: AssistantMessage, items: Iterable[ReasoningItem]) -> AssistantMessage:
    """Put reasoning back into a reply that has none: each block at its index, each signature on its block.

    Nothing is lost if the reply has changed: a block beyond the end is appended, and so is an empty reasoning block with
    a signature whose block is missing.
    """
    own = _own_format(message)
    call_ids = {call.id for call in message.tool_calls()}
    unplaced: list[ReasoningItem] = []
    groups: dict[int, list[tuple[ReasoningItem, _Fields]]] = {}
    signatures: list[tuple[int, ReasoningEncrypted, _Fields]] = []
    for item in items:
        hint = _read_hint(item)
        if _is_index(hint.get("block_index")):
            groups.setdefault(hint["block_index"], []).append((item, hint))
        elif isinstance(item, ReasoningEncrypted) and _is_index(hint.get("signed_index")):
            signatures.append((hint["signed_index"], item, hint))
        elif isinstance(item, ReasoningEncrypted) and item.format is own is _GEMINI and item.id in call_ids:
            signatures.append((-1, item, {}))
        else:
            unplaced.append(item)
    reasoning = {index: _block_from_group(group) for index, group in groups.items()}
    free = (index for index in itertools.count() if index not in reasoning)
    for block in _blocks_from_unplaced(unplaced, own):
        reasoning[next(free)] = block
    blocks = list(message.blocks)
    for index in sorted(reasoning):
        blocks.insert(index, reasoning[index])
    for index, signature, hint in signatures:
        _sign_block(blocks, index, signature, hint)
    return msgspec.structs.replace(message, blocks=tuple(blocks))


def _own_format(message: AssistantMessage) -> ReasoningFormat | None:
    """Return the format of the reply's dialect; None if the dialect has none."""
    if message.origin is None or message.origin.dialect not in dialect_names():
        return None
    name = codec_for(message.origin.dialect).reasoning_format
    return ReasoningFormat(name) if name else None


# --- to items ---------------------------------------------------------------------------------------------------------


def _received_items(block: Reasoning, index: int) -> list[ReasoningItem]:
    """Return the received `reasoning_details` as items; an empty list if there are none that can be read back."""
    text = block.meta.details if isinstance(block.meta, ChatMeta) else ""
    elements = raw_list(text) or []
    objects = all(bytes(element)[:1] == b"{" and HINT not in jsonio.members(element) for element in elements)
    if not elements or not objects or _array_text(elements) != text:
        return []
    items = parse_items(elements)
    implied = _received_block(items)
    if index == 0 and implied == block:
        return items  # only the array of the first block is recognized without a hint
    hint = {"block_index": index, "received": True, **_different_fields(block, implied)}
    return parse_items([_add_hint(element, hint) for element in elements])


def _native_items(block: Reasoning, index: int, item_index: int, format: ReasoningFormat) -> list[ReasoningItem]:
    """Return the items of a reasoning block in its vendor's form, with a hint of what they do not say."""
    first, *others = _vendor_items(block, item_index, format)
    hint = {"block_index": index, **_different_fields(block, _native_block([first, *others]))}
    hinted = [_add_hint(first.to_raw(), hint), *(_add_hint(item.to_raw(), {"block_index": index}) for item in others)]
    return parse_items(hinted)


def _vendor_items(block: Reasoning, index: int, format: ReasoningFormat) -> Iterator[ReasoningItem]:
    text = block.text
    match block.meta:
        case AnthropicMeta(signature=signature):
            yield ReasoningText(format=_CLAUDE, index=index, text=text, signature=signature)
        case AnthropicRedactedMeta(data=data):
            yield ReasoningEncrypted(format=_CLAUDE, index=index, data=data)
        case GeminiMeta(thought_signature=signature):
            if text:
                yield ReasoningText(format=_GEMINI, index=index, text=text)
            yield ReasoningEncrypted(format=_GEMINI, index=index, data=signature)
        case OpenAiMeta(id=id, encrypted_content=encrypted):
            format = format if format in _RESPONSES else ReasoningFormat.OPENAI_RESPONSES_V1
            if text or encrypted is None:
                yield ReasoningSummary(format=format, id=id or None, index=index, summary=text)
            if encrypted is not None:
                yield ReasoningEncrypted(format=format, id=id or None, index=index, data=encrypted)
        case ChatMeta(signature=signature) if signature:
            yield ReasoningText(index=index, text=text, signature=signature)
        case None:
            yield ReasoningText(format=format, index=index, text=text)
        case _:
            yield ReasoningText(index=index, text=text)


def _different_fields(block: Reasoning, implied: Reasoning) -> _Fields:
    """Return the fields of a block that its items do not imply; `details` of the metadata are always implied."""
    names = (name for name in ("text", "extra", "unknown_fields") if getattr(block, name) != getattr(implied, name))
    fields = {name: getattr(block, name) for name in names}
    if block.meta != implied.meta:
        meta = block.meta
        if isinstance(meta, ChatMeta) and isinstance(implied.meta, ChatMeta) and implied.meta.details:
            meta = msgspec.structs.replace(meta, details="")
        fields["meta"] = _dump_meta(meta)
    return fields


def _dump_meta(meta: ProviderMeta | None) -> str | None:
    return None if meta is None else jsonio.as_text(stored.dump_meta(meta))


def _add_hint(element: Raw, hint: _Fields) -> Raw:
    """Append the hint to an object; the text before it does not change."""
    comma = b"," if jsonio.members(element) else b""
    return Raw(b"%b%b%b:%b}" % (bytes(element).rstrip()[:-1], comma, jsonio.encode(HINT), jsonio.encode(hint)))


def _array_text(elements: Sequence[Raw]) -> str:
    return f"[{','.join(jsonio.as_text(element) for element in elements)}]"


# --- from items -------------------------------------------------------------------------------------------------------


def _read_hint(item: ReasoningItem) -> _Fields:
    if HINT not in item.raw or not item.raw.startswith("{"):
        return {}
    raw = jsonio.members(item.raw).get(HINT)
    hint = jsonio.parse(raw) if raw is not None and bytes(raw)[:1] == b"{" else {}
    return hint if isinstance(hint, dict) else {}


def _remove_hint(item: ReasoningItem) -> Raw:
    raw = bytes(item.to_raw())
    fields = jsonio.members(raw)
    end = b"%b:%b}" % (jsonio.encode(HINT), bytes(fields.pop(HINT)))
    if not raw.endswith(end):
        return Raw(jsonio.encode(fields))
    return Raw(raw.removesuffix(end).removesuffix(b",") + b"}")


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _block_from_group(group: Sequence[tuple[ReasoningItem, _Fields]]) -> Reasoning:
    """Make a reasoning block of its items; the first hint has the fields that they do not imply."""
    items, hint = [item for item, _ in group], group[0][1]
    received = hint.get("received") is True
    block = _received_block(parse_items(map(_remove_hint, items))) if received else _native_block(items)
    fields = {name: hint[name] for name in ("text", "extra", "unknown_fields") if isinstance(hint.get(name), str)}
    if "meta" in hint:
        meta = _load_meta(hint)
        if isinstance(meta, ChatMeta) and isinstance(block.meta, ChatMeta) and received:
            meta = msgspec.structs.replace(meta, details=block.meta.details)
        fields["meta"] = meta
    return msgspec.structs.replace(block, **fields)


def _load_meta(hint: _Fields) -> ProviderMeta | None:
    return stored.load_meta(hint["meta"]) if isinstance(hint["meta"], str) else None


def _received_block(items: Sequence[ReasoningItem]) -> Reasoning:
    """Return the block that the chat decoder makes of these `reasoning_details`."""
    meta = ChatMeta(field="reasoning", details=_array_text([item.to_raw() for item in items]))
    return Reasoning("".join(map(_readable_text, items)), meta=meta)


def _readable_text(item: ReasoningItem) -> str:
    if isinstance(item, ReasoningText):
        return item.text
    return item.summary if isinstance(item, ReasoningSummary) else ""


def _native_block(items: Sequence[ReasoningItem]) -> Reasoning:
    """Return the block whose vendor items these are."""
    encrypted = next((item.data for item in items if isinstance(item, ReasoningEncrypted)), None)
    signature = next((item.signature for item in items if isinstance(item, ReasoningText)), None)
    first = items[0]
    meta: ProviderMeta | None = None
    if first.format is _CLAUDE and encrypted is not None:
        meta = AnthropicRedactedMeta(encrypted)
    elif first.format is _CLAUDE:
        meta = AnthropicMeta(signature) if signature else None
    elif first.format is _GEMINI:
        meta = GeminiMeta(encrypted) if encrypted is not None else None
    elif first.format in _RESPONSES:
        meta = OpenAiMeta(first.id or "", encrypted)
    elif signature:
        meta = ChatMeta(signature=signature)
    return Reasoning("".join(map(_readable_text, items)), meta=meta)


def _blocks_from_unplaced(items: list[ReasoningItem], own: ReasoningFormat | None) -> list[Reasoning]:
    """Make blocks of items without a hint: of the reply's own format if all items are of it, else one as received."""
    formats = _RESPONSES if own in _RESPONSES else {own}
    kinds = ReasoningText | ReasoningSummary | ReasoningEncrypted
    if not all(isinstance(item, kinds) and item.format in formats for item in items):
        return [_received_block(items)]
    groups: list[list[ReasoningItem]] = []
    for item in items:
        last = groups[-1][-1] if groups and own is not _CLAUDE else None
        if last is not None and last.id == item.id and not isinstance(last, ReasoningEncrypted):
            groups[-1].append(item)
        else:
            groups.append([item])
    return [_native_block(group) for group in groups]


def _sign_block(blocks: list[Block], index: int, item: ReasoningEncrypted, hint: _Fields) -> None:
    """Set the signature of the block at `index`, or of the call with the item's id; else append an empty block."""
    meta = _load_meta(hint) if "meta" in hint else GeminiMeta(item.data)
    is_other = 0 <= index < len(blocks) and not isinstance(blocks[index], Reasoning)
    if not is_other or _call_id(blocks[index]) != item.id:
        index = next((at for at, block in enumerate(blocks) if item.id is not None and _call_id(block) == item.id), -1)
    if index >= 0:
        blocks[index] = msgspec.structs.replace(blocks[index], meta=meta)
    else:
        blocks.append(Reasoning(meta=meta))


def _call_id(block: Block) -> str | None:
    return block.id if isinstance(block, ToolUse) else None


class _NativeCodec(ReasoningCodec):
    dialect: Dialect
    field: str  # the field of a message that has the native list
    read: Callable[[Raw, Callable[[], str]], list[Block]]
    """Read an element of that list. The second argument makes an id for a call without one."""

    def parse_response(self, raw: Iterable[object]) -> list[ReasoningItem]:
        """Read the reasoning and the signatures of a native list; elements that are not objects have none."""
        return to_details(self._message(raw))

    def write_assistant(self, message: object, items: Sequence[ReasoningItem]) -> None:
        """Put items into the native list of a message; do nothing without items or without such a list."""
        if items and isinstance(message, dict) and isinstance(message.get(self.field), list):
            full = with_details(self._message(message[self.field]), items)
            native: list[Any] = jsonio.parse(jsonio.encode(codec_for(self.dialect).verbatim(full)))
            message[self.field] = native

    def _message(self, native: Iterable[object]) -> AssistantMessage:
        numbers = itertools.count()
        blocks: list[Block] = []
        for value in native:
            raw = value if isinstance(value, Raw) else Raw(jsonio.encode(value))
            if is_object(raw):
                blocks += self.read(raw, lambda: f"call_{next(numbers)}")
        return AssistantMessage(tuple(blocks), origin=Origin("", self.dialect))


class AnthropicReasoningCodec(_NativeCodec):
    """Thinking blocks in `content`: a signature belongs to its block; redacted thinking is encrypted."""

    dialect = "anthropic-messages"
    field = "content"
    read = staticmethod(lambda raw, _: [read_block(raw)])


class ResponsesReasoningCodec(_NativeCodec):
    """Reasoning items in `input`, each before the item that followed it."""

    dialect = "openai-responses"
    field = "input"
    read = staticmethod(read_item)


class GeminiReasoningCodec(_NativeCodec):
    """Signatures on `parts`: each on the call, text or thought that it was received with."""

    dialect = "gemini"
    field = "parts"
    read = staticmethod(lambda raw, new_id: [read_part(raw, to_camel_case(jsonio.members(raw), PART_FIELDS), new_id)])
