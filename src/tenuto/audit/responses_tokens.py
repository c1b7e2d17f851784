"""The items and encrypted contents of the replies of a transcript."""

from __future__ import annotations

from functools import cached_property

from tenuto.audit.transcript_tokens import TranscriptTokens, parse_fields
from tenuto.core.blocks import (
    Audio,
    Block,
    CodeExecution,
    CodeResult,
    Document,
    Image,
    Marker,
    Opaque,
    OpenAiMeta,
    Reasoning,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.rules.body import text
from tenuto.rules.issued_tokens import IssuedItem, IssuedToken
from tenuto.wire.responses.items import group_by_item, item_type_for
from tenuto.wire.responses.protocol import MARKERS

_FIELDS = ("phase", "namespace", "async")
"""The fields that a rule asks for."""


class ResponsesTokens(TranscriptTokens):
    """Items by their ids and call ids, encrypted contents by their text."""

    def find(self, token: str) -> IssuedToken | None:
        return self._tokens.get(token)

    def item(self, id: str) -> IssuedItem | None:
        return self._items.get(id)

    @cached_property
    def _items(self) -> dict[str, IssuedItem]:
        items: dict[str, IssuedItem] = {}
        for number, message in enumerate(self.replies):
            blocks = [group[0] for group in group_by_item(message.blocks) if _is_item(group[0])]
            kinds = [_kind(block) for block in blocks]
            reasoning = ""
            for index, block in enumerate(blocks):
                item = IssuedItem(
                    kind=kinds[index],
                    reply=str(number),
                    index=index,
                    after_reasoning=reasoning if kinds[index] != "reasoning" or kinds[index - 1] == "reasoning" else "",
                    next_kind=kinds[index + 1] if index + 1 < len(kinds) else "",
                    foreign=self.foreign[number],
                    fields=_fields(block),
                )
                id = _id(block)
                items |= {key: item for key in (id, _call_id(block)) if key}
                if kinds[index] == "reasoning":
                    reasoning = id
        return items

    @cached_property
    def _tokens(self) -> dict[str, IssuedToken]:
        return {
            block.meta.encrypted_content: IssuedToken(kind=_kind(block), id=block.meta.id, foreign=self.foreign[reply])
            for reply, _, block in self.blocks()
            if isinstance(block.meta, OpenAiMeta) and block.meta.encrypted_content
        }


def _is_item(block: Block) -> bool:
    """Whether a block was an item or starts one: media belong to no item, an empty text alone is none."""
    if isinstance(block, Text) and block.meta is None:
        return bool(block.text or block.extra)
    return not isinstance(block, Audio | Document | CodeExecution | CodeResult)


def _kind(block: Block) -> str:
    match block:
        case Reasoning():
            return "reasoning"
        case ToolUse():
            return item_type_for(block)
        case ServerToolUse() | ServerToolResult():
            return block.kind
        case Image():
            return "image_generation_call"
        case Marker() if block.kind in MARKERS:
            return block.kind
        case Opaque() if block.meta is None:
            return text(parse_fields(block.raw), "type")
        case _:
            return "message"


def _id(block: Block) -> str:
    if isinstance(block.meta, OpenAiMeta) and block.meta.id:
        return block.meta.id
    if isinstance(block, ServerToolUse):
        return block.id
    return text(parse_fields(block.raw), "id") if isinstance(block, Opaque) and block.meta is None else ""


def _call_id(block: Block) -> str:
    return block.id if isinstance(block, ToolUse) and not block.id_generated else ""


def _fields(block: Block) -> tuple[str, ...]:
    """Return which of the fields that rules ask for the item had."""
    if not any(f'"{name}"' in block.extra for name in _FIELDS):
        return ()
    fields = parse_fields(block.extra)
    item = fields.get("item", fields)
    return tuple(name for name in _FIELDS if isinstance(item, dict) and item.get(name))
