"""The items of a Responses request, and those that the provider gave before: what the checks of the dialect look at.

A request may have any shape: whatever is no item is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from tenuto.audit.looking import Sent, once
from tenuto.audit.scope import elsewhere
from tenuto.core import jsonio
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
from tenuto.core.messages import AssistantMessage
from tenuto.wire.responses.items import group_by_item, item_type_for
from tenuto.wire.responses.protocol import MARKERS

__all__ = ["CALLS", "Fields", "Given", "Item", "Ledger", "items", "ledger", "named_tools", "stored", "word"]

Fields: TypeAlias = dict[str, Any]
CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
"""The calls that every caller answers, each with the kind of its answer."""


# --- what is sent -----------------------------------------------------------------------------------------------------


class Item(msgspec.Struct, frozen=True):
    """An item of the input: its place, its fields, and what is asked for again and again; empty what is no text.

    A message may leave out its type; `kind` is empty for what is none of either. `role` is who says a message, and empty
    for every other item. `blob` is the ciphertext.
    """

    i: int
    fields: Fields
    kind: str
    role: str
    id: str
    call_id: str
    blob: str


@once
def items(sent: Sent) -> list[Item]:
    """Return the items of the input."""
    listed = sent.body.get("input")
    held = listed if isinstance(listed, list) else []
    return [_item(at, one) for at, one in enumerate(held) if isinstance(one, dict)]


def _item(i: int, fields: Fields) -> Item:
    type, role = fields.get("type"), word(fields, "role")
    if not isinstance(type, str):
        type = "message" if type is None and isinstance(fields.get("role"), str) else ""
    speaker = role if type == "message" else ""
    return Item(
        i, fields, type, speaker, word(fields, "id"), word(fields, "call_id"), word(fields, "encrypted_content")
    )


def word(fields: Fields, key: str) -> str:
    """Return a field that is text; empty if it is anything else."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def stored(sent: Sent) -> bool:
    """Tell whether the request goes on from something that the provider keeps, and that cannot be seen."""
    return any(sent.body.get(name) for name in ("previous_response_id", "conversation"))


@once
def named_tools(sent: Sent) -> list[tuple[str, int, Fields, str]]:
    """Return the tools: where each stands, the place of its outermost one, the tool, and its namespace if it has one."""
    return list(_named(sent))


def _named(sent: Sent) -> Iterator[tuple[str, int, Fields, str]]:
    for place, tools in _lists(sent):
        for k, tool in enumerate(tools):
            if not isinstance(tool, dict):
                continue
            yield f"{place}/{k}", k, tool, ""
            inner = tool.get("tools") if tool.get("type") == "namespace" else None
            for m, one in enumerate(inner if isinstance(inner, list) else ()):
                if isinstance(one, dict):
                    yield f"{place}/{k}/tools/{m}", k, one, word(tool, "name")


def _lists(sent: Sent) -> Iterator[tuple[str, list[Any]]]:
    if isinstance(sent.body.get("tools"), list):
        yield "/tools", sent.body["tools"]
    for item in items(sent):
        if item.kind == "additional_tools" and isinstance(item.fields.get("tools"), list):
            yield f"/input/{item.i}/tools", item.fields["tools"]


# --- what was given ---------------------------------------------------------------------------------------------------


class Given(msgspec.Struct, frozen=True):
    """An item that a provider gave: what it is, its tokens, the first of its blocks, and its place in its reply.

    `foreign` marks one that somebody else gave than the one whom the request goes to.
    """

    type: str
    id: str
    blob: str
    call_id: str
    blocks: tuple[Block, ...]
    reply: int
    at: int
    foreign: bool

    def field(self, name: str) -> str:
        """Return a further field that is text, of a message or of a call; empty if there is none."""
        text = self.blocks[0].extra
        if f'"{name}"' not in text:
            return ""
        fields = jsonio.parse(text)
        held = fields.get("item", fields) if self.type == "message" and isinstance(fields, dict) else fields
        return word(held, name) if isinstance(held, dict) else ""


class Ledger:
    """Every item that was given, found by its id, its ciphertext or its neighbours. `known` tells whether any reply is."""

    def __init__(self, sent: Sent) -> None:
        self.known = bool(sent.given)
        foreign = elsewhere(sent)
        self.replies = [_given(at, message, foreign[at]) for at, message in enumerate(sent.given)]
        every = [one for reply in self.replies for one in reply]
        self.by_id = {one.id: one for one in every if one.id}
        self.by_blob = {one.blob: one for one in every if one.blob}
        self.calls = {one.call_id: one for one in every if one.call_id}

    def own(self, id: str) -> Given | None:
        """Return the item of this id, if it was given by whom the request goes to."""
        one = self.by_id.get(id)
        return None if one is None or one.foreign else one

    def before(self, one: Given) -> Given | None:
        """Return what came directly before it in its reply."""
        return self.replies[one.reply][one.at - 1] if one.at else None

    def after(self, one: Given) -> Given | None:
        """Return what came directly after it in its reply."""
        reply = self.replies[one.reply]
        return reply[one.at + 1] if one.at + 1 < len(reply) else None


@once
def ledger(sent: Sent) -> Ledger:
    """Read the items that were given."""
    return Ledger(sent)


def _given(reply: int, message: AssistantMessage, foreign: bool) -> list[Given]:
    found: list[Given] = []
    for blocks in group_by_item(message.blocks):
        first = blocks[0]
        if not _is_item(first):
            continue
        meta = first.meta if isinstance(first.meta, OpenAiMeta) else OpenAiMeta()
        type, id = _described(first)
        found.append(
            Given(
                type,
                meta.id or id,
                meta.encrypted_content or "",
                first.id if isinstance(first, ToolUse) and not first.id_generated else "",
                tuple(blocks),
                reply,
                len(found),
                foreign,
            )
        )
    return found


def _is_item(block: Block) -> bool:
    """Tell whether a block was an item or begins one: speech belongs to none, and an empty text by itself says nothing."""
    if isinstance(block, Text) and block.meta is None:
        return bool(block.text or block.extra)
    return not isinstance(block, Audio | Document | CodeExecution | CodeResult)


def _described(block: Block) -> tuple[str, str]:
    """Return the type of the item that a block was, and the id that stands on the block itself."""
    if isinstance(block, Reasoning):
        return "reasoning", ""
    if isinstance(block, ToolUse):
        return item_type_for(block), ""
    if isinstance(block, ServerToolUse):
        return block.kind, block.id
    if isinstance(block, ServerToolResult):
        return block.kind, ""
    if isinstance(block, Image):
        return "image_generation_call", ""
    if isinstance(block, Marker) and block.kind in MARKERS:
        return block.kind, ""
    if isinstance(block, Opaque) and block.meta is None:
        fields = {} if jsonio.problem(block.raw) else jsonio.parse(block.raw)
        return (word(fields, "type"), word(fields, "id")) if isinstance(fields, dict) else ("", "")
    return "message", ""
