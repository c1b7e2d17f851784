"""Messages: who said what, in order, and on whose behalf a token was issued.

A conversation is a sequence of four kinds of message. An assistant's message holds ordered blocks and no usage: what a
reply cost is billing, and stands on the response.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Block,
    Document,
    Image,
    Opaque,
    Refusal,
    Text,
    ToolUse,
    Value,
)

__all__ = [
    "AssistantMessage",
    "Content",
    "Message",
    "Origin",
    "StopReason",
    "SystemMessage",
    "ToolCallView",
    "ToolResult",
    "ToolResults",
    "Usage",
    "UserMessage",
    "user",
]

T = TypeVar("T")

StopReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "error"]
"""Why a turn ended, in one vocabulary; the provider's own word stands beside it as `raw_stop`."""

Content: TypeAlias = Text | Image | Audio | Document | Opaque
"""What may be said to a model."""


class Origin(Value, frozen=True):
    """Who issued a message's tokens, and for what they are good: a token is sent back only inside this scope.

    The issuer is the provider's row; `platform` is the host that was asked, `account` the fingerprint of the key, `model`
    the model asked for. `prefix` is the digest of what the tokens are bound to, where the model binds them to everything
    that stood before (`tenuto.wire.prefix_binding`). Empty means: not known, or not bound.
    """

    provider: str
    dialect: str
    model: str = ""
    account: str = ""
    platform: str = ""
    prefix: str = ""


class ToolCallView(msgspec.Struct, frozen=True):
    """A read-only look at one call, for whoever runs it."""

    id: str
    name: str
    args: str
    kind: str = "function"
    broken: str = ""

    def parse(self) -> Any:
        """Return the arguments as plain values; no text at all counts as no arguments."""
        return jsonio.parse(self.args or "{}") if self.kind != "custom" else self.args

    def parse_args(self, kind: type[T]) -> T:
        """Return the arguments as a `kind`; raise `JsonError` if they are no JSON or do not fit.

        A custom call's free text is a string.
        """
        return jsonio.decode_as(jsonio.encode(self.args) if self.kind == "custom" else self.args or "{}", kind)

    def answer(self, content: str | tuple[Content, ...], *, is_error: bool = False) -> ToolResult:
        """Make the result that answers this call."""
        return ToolResult(self.id, content, is_error=is_error)


class ToolResult(Value, frozen=True):
    """What a tool gave back. It answers one call and carries no token."""

    tool_use_id: str
    content: str | tuple[Content, ...] = ""
    is_error: bool = False
    extra: str = ""


class _Message(Value, frozen=True, tag_field="role"):
    pass


def _content_text(content: str | tuple[Content, ...]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, Text))


class SystemMessage(_Message, frozen=True, tag="system"):
    """Instructions. They may stand anywhere; where a dialect wants them elsewhere, the encoder moves them."""

    content: str | tuple[Text, ...]

    def __str__(self) -> str:
        return _content_text(self.content)


class UserMessage(_Message, frozen=True, tag="user"):
    """What the user says and shows."""

    content: str | tuple[Content, ...]
    name: str = ""

    def __str__(self) -> str:
        return _content_text(self.content)

    @property
    def parts(self) -> tuple[Content, ...]:
        """The content as parts, whichever way it was given."""
        return (Text(self.content),) if isinstance(self.content, str) else self.content


class AssistantMessage(_Message, frozen=True, tag="assistant"):
    """One reply: its blocks in the order the model produced them.

    `extra` is the text of a JSON object with the fields that stood beside the blocks (container, grounding, ...).
    `incomplete` marks a reply that was cut off: its blocks carry no tokens that were not confirmed.
    """

    blocks: tuple[Block, ...]
    stop_reason: StopReason | None = None
    raw_stop_reason: str | None = None
    origin: Origin | None = None
    extra: str = ""
    incomplete: bool = False

    def __str__(self) -> str:
        """The text blocks, joined; neither reasoning nor calls."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    def tool_calls(self) -> Iterator[ToolCallView]:
        """Yield the calls in block order."""
        return (_view(block) for block in self.blocks if isinstance(block, ToolUse))

    def has_tool_calls(self) -> bool:
        """Tell whether anything is to be run."""
        return any(isinstance(block, ToolUse) for block in self.blocks)

    def get_tool_use(self, id: str) -> ToolCallView | None:
        """Return the call with this id, or None."""
        return next((call for call in self.tool_calls() if call.id == id), None)

    @property
    def paused(self) -> bool:
        """Whether the provider broke off in the midst of its own work, and goes on when it gets the turn back as it is."""
        return self.raw_stop_reason == "pause_turn"

    def text_blocks(self) -> Iterator[str]:
        """Yield the text of each text block."""
        return (block.text for block in self.blocks if isinstance(block, Text))


class ToolResults(_Message, frozen=True, tag="tool"):
    """The answers to the calls of the message before, in call order."""

    results: tuple[ToolResult, ...]

    def __str__(self) -> str:
        """What the tools said, one result a line."""
        return "\n".join(_content_text(result.content) for result in self.results)


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResults


def _view(block: ToolUse) -> ToolCallView:
    return ToolCallView(block.id, block.name, block.args, block.kind, block.args_error)


def user(*parts: str | Content) -> UserMessage:
    """Make a user message of strings, images, audio and documents.

    Raise `TypeError` for a part of another type, and `ValueError` for data that is not base64.
    """
    if len(parts) == 1 and isinstance(parts[0], str):
        return UserMessage(parts[0])
    message = UserMessage(tuple(Text(part) if isinstance(part, str) else part for part in parts))
    check_parts(message)
    return message


_BASE64 = re.compile(r"[A-Za-z0-9+/_\s-]*={0,2}\s*")
_LOOKED_AT = 256


def check_parts(message: UserMessage) -> None:
    """Raise `TypeError` for a part that cannot be sent, and `ValueError` for data that does not begin as base64."""
    for part in () if isinstance(message.content, str) else message.content:
        if not isinstance(part, Content):
            known = "Image.from_bytes, Audio.from_bytes or Document.from_bytes"
            hint = f"use {known}" if isinstance(part, bytes | bytearray) else "use a string, Image, Audio or Document"
            raise TypeError(f"a user message cannot hold {type(part).__name__}: {hint}")
        data = part.data if isinstance(part, Image | Audio | Document) else ""
        kind = type(part).__name__
        if not isinstance(data, str):
            raise TypeError(f"{kind}(data=) is {type(data).__name__}: use {kind}.from_bytes")
        if not _BASE64.fullmatch(data[:_LOOKED_AT]):
            raise ValueError(f"{kind}(data={data[:40]!r}) is not base64: use {kind}.from_path, from_bytes or from_url")


class Usage(Value, frozen=True, rename={"reported_total": "total_tokens"}):
    """The tokens that one reply used. The buckets do not overlap; None means that the provider did not report it.

    `input_tokens` were neither read from nor written to a cache; `output_tokens` exclude `reasoning_tokens` where those
    are known. `reported_total` is the provider's own sum, if it gave one: use `total_tokens`. The other fields are shares
    of the buckets.
    """

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    reported_total: int | None = None
    audio_input_tokens: int | None = None
    audio_output_tokens: int | None = None
    input_by_modality: dict[str, int] | None = None
    output_by_modality: dict[str, int] | None = None

    @property
    def prompt_tokens(self) -> int | None:
        """Everything that went in, cached or not."""
        return _sum(self.input_tokens, self.cache_read_tokens, self.cache_write_tokens)

    @property
    def completion_tokens(self) -> int | None:
        """Everything that came out, thought or said."""
        return _sum(self.output_tokens, self.reasoning_tokens)

    @property
    def total_tokens(self) -> int | None:
        """The sum of the buckets, or the provider's own sum if that is larger; None if neither is known."""
        totals = (self.reported_total, _sum(self.prompt_tokens, self.completion_tokens))
        return max((total for total in totals if total is not None), default=None)

    def __hash__(self) -> int:
        return hash((self.input_tokens, self.output_tokens, self.reported_total))

    def __add__(self, other: Usage) -> Usage:
        """Add bucket by bucket. None stays None only where both sides do not know.

        Where one side has a total of its own, the sum has one, so that it never falls short of its parts.
        """
        own = self.reported_total is not None or other.reported_total is not None
        return Usage(
            _plus(self.input_tokens, other.input_tokens),
            _plus(self.cache_read_tokens, other.cache_read_tokens),
            _plus(self.cache_write_tokens, other.cache_write_tokens),
            _plus(self.output_tokens, other.output_tokens),
            _plus(self.reasoning_tokens, other.reasoning_tokens),
            _plus(self.total_tokens, other.total_tokens) if own else None,
            _plus(self.audio_input_tokens, other.audio_input_tokens),
            _plus(self.audio_output_tokens, other.audio_output_tokens),
            _sums(self.input_by_modality, other.input_by_modality),
            _sums(self.output_by_modality, other.output_by_modality),
        )


def _plus(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return left if right is None else right
    return left + right


def _sums(left: dict[str, int] | None, right: dict[str, int] | None) -> dict[str, int] | None:
    if left is None or right is None:
        return left if right is None else right
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


def _sum(*parts: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def display_text(block: Block) -> str | None:
    """Return what a block says out loud: text and refusals."""
    return block.text if isinstance(block, Text | Refusal) else None
