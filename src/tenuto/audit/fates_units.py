"""The blocks of a transcript, each with its place, and the keys under which it can be found in a body."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from tenuto.audit.fates_slots import Key, Stream, media, raw_key, read_raw, sent
from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Audio,
    Block,
    ChatMeta,
    CodeExecution,
    CodeResult,
    Document,
    GeminiMeta,
    Image,
    Marker,
    Opaque,
    OpenAiMeta,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, Message, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import Dialect

__all__ = ["Unit", "token_of", "units_of"]

Held: TypeAlias = "Block | ToolResult"
Sorts: TypeAlias = Iterable[tuple[str, str]]
"""What a block is found by, each with the sort that it is of."""


class Unit(msgspec.Struct, frozen=True):
    """One block: the message it stands in and its number there, who speaks, and in which dialect it goes out.

    `token` is the token that it carries. `text` is what it says, as it would be sent, and `channel` where its words may
    be joined with others.
    """

    message: int
    at: int
    place: str
    stream: Stream
    held: Held
    dialect: Dialect
    token: str = ""
    channel: tuple[str, str] = ("", "")
    text: str = ""

    def keys(self) -> Iterable[Key]:
        """Give what it is found by, surest first. Most are found by the first, or by their text before anybody asks."""
        if isinstance(self.held, ToolResult):
            return (("result", "id", sent(self.held.tool_use_id)),)
        return _keys(self.held, self.stream, self.dialect, self.token)

    def weak_keys(self) -> tuple[Key, ...]:
        """Return what it is found by once all others had their choice: its signature, and a call by its name."""
        return () if isinstance(self.held, ToolResult) else _weak(self.held, self.stream, self.token)

    @property
    def kind(self) -> str:
        """What it is, in a word."""
        return "tool_result" if type(self.held) is ToolResult else str(self.held.__struct_config__.tag)

    @property
    def says_nothing(self) -> bool:
        """Whether it is a text or thought that is empty and carries no token: thoughts do, and what Gemini signed."""
        if not isinstance(self.held, Text | Refusal | Reasoning) or self.held.text:
            return False
        signed = isinstance(self.held, Reasoning) or (isinstance(self.held, Text) and _by_gemini(self.held))
        return self.stream != "said" or not signed or not self.token


def _by_gemini(block: Block) -> bool:
    return type(block.meta) is GeminiMeta


def units_of(messages: tuple[Message, ...], dialect: Dialect) -> Iterator[Unit]:
    """Yield every block of every message, in order."""
    for no, message in enumerate(messages):
        stream, field, held = _held(message)
        for at, one in enumerate(held):
            place = f"messages[{no}].{field}[{at}]"
            if isinstance(one, ToolResult):
                yield Unit(no, at, place, stream, one, dialect)
            else:
                channel, text = _words(one, stream)
                yield Unit(no, at, place, stream, one, dialect, sent(token_of(one)), channel, text)


def _held(message: Message) -> tuple[Stream, str, tuple[Held, ...]]:
    match message:
        case AssistantMessage():
            return "said", "blocks", message.blocks
        case ToolResults():
            return "result", "results", message.results
        case UserMessage():
            return "asked", "content", message.parts
        case SystemMessage():
            told = message.content
            return "system", "content", (Text(told),) if isinstance(told, str) else told


def token_of(block: Block) -> str:
    """Return the token that a block carries; empty if it has none."""
    meta = block.meta
    if meta is None:
        return ""
    if type(meta) is ChatMeta:
        return meta.details or meta.signature
    token: str | None = getattr(meta, _TOKENS[type(meta)]) if type(meta) in _TOKENS else ""
    return token or ""


_TOKENS: dict[type, str] = {
    AnthropicMeta: "signature",
    AnthropicRedactedMeta: "data",
    GeminiMeta: "thought_signature",
    OpenAiMeta: "encrypted_content",
}


def _words(block: Block, stream: Stream) -> tuple[tuple[str, str], str]:
    """Return where a block's words may be joined with others, and the words."""
    kind = type(block)
    if kind not in _SPEAKING:
        return ("", ""), ""
    assert isinstance(block, Text | Refusal | Reasoning | Document)
    if kind is Document and not block.text:
        return ("", ""), ""
    tagged = isinstance(block.meta, ChatMeta) and block.meta.field == "think"
    thought = kind is Reasoning and not tagged
    return (stream, "thought" if thought else "text"), sent(block.text)


_SPEAKING = frozenset((Text, Refusal, Reasoning, Document))
"""Kinds that say something; where documents are not taken, their words are."""


def _keys(block: Block, stream: Stream, dialect: Dialect, token: str) -> Iterator[Key]:
    kind = type(block)
    plain = [(stream, sort, sent(value)) for sort, value in _SORTS[kind](block)]
    if token and kind is not Refusal:
        yield from ((*key, token) for key in plain)
    if kind is Reasoning:
        yield from _details(block)
    if token and kind in (Reasoning, Marker):
        yield (stream, "token", token)
    if isinstance(block, Marker):
        yield from plain
        yield from ((other, "text", sent(block.text)) for other in ("asked", "system") if block.text)
    if type(block.meta) is OpenAiMeta and block.meta.id and kind not in (Text, Refusal):
        yield (stream, "item", sent(block.meta.id))
    yield from plain
    if isinstance(block, Opaque):
        value = block.raw if jsonio.problem(block.raw) else jsonio.parse(block.raw)
        yield from reversed(read_raw(value, stream, dialect))


def _weak(block: Block, stream: Stream, token: str) -> tuple[Key, ...]:
    signed = _by_gemini(block) and type(block) not in (Refusal, Opaque)
    named = [(stream, "named", sent(block.name))] if type(block) is ToolUse else []
    return ((stream, "token", token), *named) if signed else tuple(named)


def _details(block: Block) -> Iterator[Key]:
    held = block.meta.details if type(block.meta) is ChatMeta else ""
    if held.startswith("[") and not jsonio.problem(held):
        yield from (("said", "detail", raw_key("", detail)[2]) for detail in jsonio.parse(held)[:1])


# --- what a block is found by, by its kind ----------------------------------------------------------------------------


def _thought(block: Reasoning) -> Sorts:
    return [("thought", block.text)] if block.text or block.meta is None else []


def _result(block: CodeResult) -> Sorts:
    return [("output", f"{block.outcome}\n{block.output}"), ("output", f"\n{block.output}")]


def _shown(block: Image | Audio | Document) -> Iterator[tuple[str, str]]:
    kind = str(block.__struct_config__.tag)
    for value in (block.data, block.url, block.file_id):
        if value:
            yield kind, media(value)
    if isinstance(block, Audio):
        yield from (("speech", block.id), ("text", block.transcript or ""))
    elif isinstance(block, Document) and block.text:
        yield from ((kind, block.text), ("text", block.text))
        yield kind, base64.b64encode(block.text.encode("utf-8", "replace")).decode()
    elif isinstance(block, Image) and isinstance(block.meta, OpenAiMeta):
        yield "mark", "image_generation_call"


_SORTS: dict[type, Callable[[Any], Sorts]] = {
    Text: lambda block: [("text", block.text)],
    Refusal: lambda block: [("text", block.text)],
    Reasoning: _thought,
    ToolUse: lambda block: [("call", block.id)],
    Image: _shown,
    Audio: _shown,
    Document: _shown,
    CodeExecution: lambda block: [("code", f"{block.code}\n")],
    CodeResult: _result,
    ServerToolUse: lambda block: [("server", block.id), ("mark", block.kind)],
    ServerToolResult: lambda block: [("served", block.tool_use_id), ("mark", block.kind)],
    Marker: lambda block: [("mark", block.kind), ("text", block.text or "")],
    Opaque: lambda _: [],
}
"""Found by its type at once: to be tried against a dozen others takes 2 microseconds a block."""
