"""A reply's reasoning as `reasoning_details`, and back, whatever dialect it was given in.

| in the reply | as items |
|---|---|
| a thought that Anthropic signed | `reasoning.text` with its `signature` |
| one that Anthropic withheld | `reasoning.encrypted` |
| a reasoning item of Responses | `reasoning.summary` if it can be read, `reasoning.encrypted` if it is sealed; both have its `id` |
| a thought of Gemini's | `reasoning.text` if it can be read, `reasoning.encrypted` if it is signed |
| Gemini's signature on a text or a call | `reasoning.encrypted`; its `id` names the call |
| what came as `reasoning_details` | those items, word for word |
| any other thought | `reasoning.text` |

What an item has no field for stands under `x-tenuto` in it: `stood` (the thought's place among the blocks) or `on` (the
place of the block that is signed), and `text`, `meta`, `extra`, `unknown_fields` where they are not what the item itself says.
So for every message `with_details(stripped(message), details_of(message)) == message`, also when the items were JSON text in
between. Items from elsewhere have no such field: they become one thought in front of the rest, or, where all are of the
reply's own dialect, its thoughts; what Gemini signed a call with goes to that call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from tenuto.core.messages import AssistantMessage
from tenuto.wire.reasoning_items import (
    ReasoningEncrypted,
    ReasoningFormat,
    ReasoningItem,
    ReasoningSummary,
    ReasoningText,
    items_of,
)

__all__ = ["HINT", "details_of", "stripped", "with_details"]

HINT = "x-tenuto"
_CLAUDE, _GEMINI = ReasoningFormat.ANTHROPIC_CLAUDE_V1, ReasoningFormat.GOOGLE_GEMINI_V1
_FORMATS = {
    "anthropic-messages": _CLAUDE,
    "openai-responses": ReasoningFormat.OPENAI_RESPONSES_V1,
    "gemini": _GEMINI,
}
"""Whose reasoning it is, by the dialect it was given in."""
_RESPONSES = frozenset(format for format in ReasoningFormat if format.value.endswith("-responses-v1"))
_Fields = dict[str, Any]


def details_of(message: AssistantMessage, *, format: ReasoningFormat | None = None) -> list[ReasoningItem]:
    """Return a reply's reasoning and its signatures as items, in order.

    `format` says whose reasoning the reply's own dialect holds, where it is not that of the dialect's first vendor.
    """
    dialect = message.origin.dialect if message.origin is not None else ""
    own = format or _FORMATS.get(dialect, ReasoningFormat.UNKNOWN)
    found: list[ReasoningItem] = []
    loose = True  # one array may go without hints: the first block's
    for at, block in enumerate(message.blocks):
        if isinstance(block, Reasoning):
            given = _as_given(block, at, loose=loose)
            loose = loose and not given
            found += given or _items(block, at, len(found), own)
        elif isinstance(block.meta, GeminiMeta):
            found.append(_signature(block, block.meta, at, len(found)))
    return found


def stripped(message: AssistantMessage) -> AssistantMessage:
    """Return a reply without its reasoning and without the signatures that `details_of` shows."""
    kept = (block for block in message.blocks if not isinstance(block, Reasoning))
    blocks = tuple(msgspec.structs.replace(b, meta=None) if isinstance(b.meta, GeminiMeta) else b for b in kept)
    return message if blocks == message.blocks else msgspec.structs.replace(message, blocks=blocks)


def with_details(message: AssistantMessage, items: Iterable[ReasoningItem]) -> AssistantMessage:
    """Put reasoning back on a reply that has none: each thought in its place, each signature on its block.

    Nothing is lost where the reply changed meanwhile: a thought whose place is gone stands at the end, a signature whose
    block is gone on an empty thought there.
    """
    loose: list[ReasoningItem] = []
    stood: dict[int, list[tuple[ReasoningItem, _Fields]]] = {}
    signs: list[tuple[int, ReasoningEncrypted, _Fields]] = []
    for item in items:
        hint = _hint(item)
        if _is_place(hint.get("stood")):
            stood.setdefault(hint["stood"], []).append((item, hint))
        elif _is_place(hint.get("on")) and isinstance(item, ReasoningEncrypted):
            signs.append((hint["on"], item, hint))
        elif isinstance(item, ReasoningEncrypted) and _signs_a_call(item, message):
            signs.append((-1, item, {}))
        else:
            loose.append(item)
    thoughts = {at: _thought(group) for at, group in stood.items()}
    if loose:
        thoughts |= _in_front(thoughts, _loose(loose, message))
    blocks = _placed(message.blocks, thoughts)
    for at, item, hint in signs:
        _sign(blocks, at, item, hint)
    return msgspec.structs.replace(message, blocks=tuple(blocks))


# --- to items ---------------------------------------------------------------------------------------------------------


def _as_given(block: Reasoning, at: int, *, loose: bool) -> list[ReasoningItem]:
    """Return the items that a thought came as; none where it came otherwise, or where they cannot say what it was."""
    held = block.meta.details if isinstance(block.meta, ChatMeta) else ""
    elements = jsonio.elements(held) if held.startswith("[") and not jsonio.problem(held) else []
    objects = all(bytes(element)[:1] == b"{" and HINT not in jsonio.members(element) for element in elements)
    if not elements or not objects or _array(elements) != held:
        return []
    items = items_of(elements)
    like = _given(items)
    if loose and at == 0 and like == block:
        return items
    meta = msgspec.structs.replace(block.meta, details="") if isinstance(block.meta, ChatMeta) else None
    same = meta == ChatMeta(field="reasoning")
    hint = {"stood": at, "given": True, **({} if same else {"meta": _dumped(meta)}), **_rest(block, like)}
    return items_of([_hinted(element, hint) for element in elements])


def _items(block: Reasoning, at: int, index: int, own: ReasoningFormat) -> list[ReasoningItem]:
    """Return the items of a thought in its vendor's form; what they do not say is their hint."""
    made = list(_made(block, index, own))
    like = _made_of(made)
    hint: _Fields = {"stood": at, **_rest(block, like)}
    if like.meta != block.meta:
        hint["meta"] = _dumped(block.meta)
    first, *others = made
    return items_of([_hinted(first.to_raw(), hint), *(_hinted(item.to_raw(), {"stood": at}) for item in others)])


def _made(block: Reasoning, index: int, own: ReasoningFormat) -> Iterator[ReasoningItem]:
    text, meta = block.text, block.meta
    match meta:
        case AnthropicMeta(signature=signature):
            yield ReasoningText(format=_CLAUDE, index=index, text=text, signature=signature)
        case AnthropicRedactedMeta(data=data):
            yield ReasoningEncrypted(format=_CLAUDE, index=index, data=data)
        case GeminiMeta(thought_signature=signature):
            if text:
                yield ReasoningText(format=_GEMINI, index=index, text=text)
            yield ReasoningEncrypted(format=_GEMINI, index=index, data=signature)
        case OpenAiMeta(id=id, encrypted_content=sealed):
            format = own if own in _RESPONSES else ReasoningFormat.OPENAI_RESPONSES_V1
            if text or sealed is None:
                yield ReasoningSummary(format=format, id=id or None, index=index, summary=text)
            if sealed is not None:
                yield ReasoningEncrypted(format=format, id=id or None, index=index, data=sealed)
        case ChatMeta(signature=signature) if signature:
            yield ReasoningText(index=index, text=text, signature=signature)
        case None:
            yield ReasoningText(format=own, index=index, text=text)
        case _:
            yield ReasoningText(index=index, text=text)


def _signature(block: Block, meta: GeminiMeta, at: int, index: int) -> ReasoningItem:
    id = block.id if isinstance(block, ToolUse) else None
    item = ReasoningEncrypted(format=_GEMINI, id=id, index=index, data=meta.thought_signature)
    hint: _Fields = {"on": at}
    if meta != GeminiMeta(meta.thought_signature):
        hint["meta"] = _dumped(meta)
    return items_of([_hinted(item.to_raw(), hint)])[0]


def _rest(block: Reasoning, like: Reasoning) -> _Fields:
    """Return the fields of a thought that its items do not say."""
    names = (name for name in ("text", "extra", "unknown_fields") if getattr(block, name) != getattr(like, name))
    return {name: getattr(block, name) for name in names}


def _dumped(meta: ProviderMeta | None) -> str | None:
    return None if meta is None else jsonio.as_text(stored.dump_meta(meta))


def _hinted(element: Raw, hint: _Fields) -> Raw:
    """Write a hint behind the last field of an object, whose own text stays as it is."""
    text = bytes(element).rstrip()
    empty = not jsonio.members(element)
    said = jsonio.encode(hint)
    return Raw(b"%b%b%b:%b}" % (text[:-1], b"" if empty else b",", jsonio.encode(HINT), said))


def _array(elements: Sequence[Raw]) -> str:
    return f"[{','.join(jsonio.as_text(element) for element in elements)}]"


# --- from items -------------------------------------------------------------------------------------------------------


def _hint(item: ReasoningItem) -> _Fields:
    """Return what we wrote beside an item; nothing for one from elsewhere."""
    if HINT not in item.raw or not item.raw.startswith("{"):
        return {}
    held = jsonio.members(item.raw).get(HINT)
    found = jsonio.parse(held) if held is not None and bytes(held)[:1] == b"{" else {}
    return found if isinstance(found, dict) else {}


def _is_place(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _unhinted(item: ReasoningItem) -> Raw:
    """Return an item's object without our hint, and with its own text where the hint was written by us."""
    raw = bytes(item.to_raw())
    fields = jsonio.members(raw)
    hint = fields.pop(HINT)
    end = b"%b:%b}" % (jsonio.encode(HINT), bytes(hint))
    if not raw.endswith(end):
        return Raw(jsonio.encode(fields))
    return Raw(raw.removesuffix(end).removesuffix(b",") + b"}")


def _thought(group: Sequence[tuple[ReasoningItem, _Fields]]) -> Reasoning:
    """Make a thought of its items; its hint says what they do not."""
    items, hint = [item for item, _ in group], group[0][1]
    if hint.get("given") is True:
        raws = [_unhinted(item) for item in items]
        like = _given(items_of(raws))
        if "meta" in hint:
            like = msgspec.structs.replace(like, meta=_with_array(_loaded(hint), _array(raws)))
    else:
        like = _made_of(items)
        if "meta" in hint:
            like = msgspec.structs.replace(like, meta=_loaded(hint))
    rest = {name: hint[name] for name in ("text", "extra", "unknown_fields") if isinstance(hint.get(name), str)}
    return msgspec.structs.replace(like, **rest)


def _with_array(meta: ProviderMeta | None, array: str) -> ProviderMeta | None:
    return msgspec.structs.replace(meta, details=array) if isinstance(meta, ChatMeta) else meta


def _loaded(hint: _Fields) -> ProviderMeta | None:
    return stored.load_meta(hint["meta"]) if isinstance(hint["meta"], str) else None


def _given(items: Sequence[ReasoningItem]) -> Reasoning:
    """Make the thought that an array from elsewhere stands for."""
    array = _array([item.to_raw() for item in items])
    return Reasoning("".join(map(_readable, items)), meta=ChatMeta(field="reasoning", details=array))


def _readable(item: ReasoningItem) -> str:
    if isinstance(item, ReasoningText):
        return item.text
    return item.summary if isinstance(item, ReasoningSummary) else ""


def _made_of(items: Sequence[ReasoningItem]) -> Reasoning:
    """Make a thought of the items of one vendor's form."""
    text = "".join(map(_readable, items))
    sealed = next((item.data for item in items if isinstance(item, ReasoningEncrypted)), None)
    signed = next((item.signature for item in items if isinstance(item, ReasoningText)), None)
    first = items[0]
    meta: ProviderMeta | None = None
    if first.format is _CLAUDE:
        meta = AnthropicRedactedMeta(sealed) if sealed is not None else AnthropicMeta(signed) if signed else None
    elif first.format is _GEMINI:
        meta = GeminiMeta(sealed) if sealed is not None else None
    elif first.format in _RESPONSES:
        meta = OpenAiMeta(first.id or "", sealed)
    elif signed:
        meta = ChatMeta(signature=signed)
    return Reasoning(text, meta=meta)


def _loose(items: list[ReasoningItem], message: AssistantMessage) -> list[Reasoning]:
    """Make thoughts of items from elsewhere: in the form of the reply's own dialect if all are of that, else as given."""
    dialect = message.origin.dialect if message.origin is not None else ""
    own = _RESPONSES if dialect == "openai-responses" else {_FORMATS.get(dialect)}
    kinds = ReasoningText | ReasoningSummary | ReasoningEncrypted
    if not all(isinstance(item, kinds) and item.format in own for item in items):
        return [_given(items)]
    groups: list[list[ReasoningItem]] = []
    for item in items:
        if groups and dialect != "anthropic-messages" and _belongs(groups[-1], item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return [_made_of(group) for group in groups]


def _belongs(group: list[ReasoningItem], item: ReasoningItem) -> bool:
    """Tell whether an item is the rest of the thought before it."""
    sealed = any(isinstance(one, ReasoningEncrypted) for one in group)
    return not sealed and group[0].id == item.id


def _in_front(thoughts: dict[int, Reasoning], front: list[Reasoning]) -> dict[int, Reasoning]:
    """Find the first places that no other thought has."""
    found: dict[int, Reasoning] = {}
    at = 0
    for thought in front:
        while at in thoughts or at in found:
            at += 1
        found[at] = thought
    return found


def _placed(blocks: Sequence[Block], thoughts: dict[int, Reasoning]) -> list[Block]:
    """Put each thought in its place; those beyond the end stand at the end, in order."""
    found: list[Block] = []
    others = iter(blocks)
    for _ in range(len(blocks) + len(thoughts)):
        thought = thoughts.get(len(found))
        block = thought if thought is not None else next(others, None)
        if block is None:
            break
        found.append(block)
    done = len(found)
    return [*found, *others, *(thoughts[at] for at in sorted(thoughts) if at >= done)]


def _sign(blocks: list[Block], at: int, item: ReasoningEncrypted, hint: _Fields) -> None:
    """Put a signature on its block: the one at its place, or the call that it names."""
    meta = _loaded(hint) if "meta" in hint else GeminiMeta(item.data)
    fits = 0 <= at < len(blocks) and not isinstance(blocks[at], Reasoning) and _named(blocks[at]) == item.id
    if not fits and item.id is not None:
        at = next((place for place, block in enumerate(blocks) if _named(block) == item.id), -1)
        fits = at >= 0
    if fits:
        blocks[at] = msgspec.structs.replace(blocks[at], meta=meta)
    else:
        blocks.append(Reasoning(meta=meta))


def _signs_a_call(item: ReasoningEncrypted, message: AssistantMessage) -> bool:
    """Tell whether an item from elsewhere is the signature of a call: only Gemini signs those, and names the call."""
    own = message.origin is not None and message.origin.dialect == "gemini"
    return own and item.format is _GEMINI and item.id is not None and message.get_tool_use(item.id) is not None


def _named(block: Block) -> str | None:
    return block.id if isinstance(block, ToolUse) else None
