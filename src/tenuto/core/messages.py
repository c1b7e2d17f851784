"""Messages of a conversation, the origin of their tokens, and usage, which is part of the response."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, Document, Image, Marker, Opaque, OpenAiMeta, Refusal, Text, ToolUse, Value

T = TypeVar("T")

StopReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "error"]
"""Why a turn ended, in one vocabulary; `raw_stop_reason` has the provider's own word."""

Content: TypeAlias = Text | Image | Audio | Document | Opaque
"""The blocks of user messages and tool results."""


class Origin(Value, frozen=True):
    """The scope of the tokens of a message: a token is sent back only inside it. Empty fields are unknown."""

    provider: str
    """The name of the provider row that issued the tokens."""
    dialect: str
    """The dialect of the response."""
    model: str = ""
    """The model of the request."""
    account: str = ""
    """The fingerprint of the key."""
    platform: str = ""
    """The host of the request."""
    prefix: str = ""
    """The digest of the messages before, if the model binds its tokens to them (`tenuto.wire.token_scope`)."""


class ToolCallView(msgspec.Struct, frozen=True):
    """A tool call for the caller to run."""

    id: str
    name: str
    args: str
    """The exact text of the arguments: JSON, or free text if `kind` is `custom`."""
    kind: str = "function"
    broken: str = ""
    """Why `args` is not JSON; empty if it is."""

    def parse(self) -> Any:
        """Return the arguments as plain values; empty text means no arguments."""
        return jsonio.parse(self.args or "{}") if self.kind != "custom" else self.args

    def parse_args(self, kind: type[T]) -> T:
        """Return the arguments as a `kind`; raise `JsonError` if they are not JSON or do not match.

        The free text of a custom call is a string.
        """
        return jsonio.decode_as(jsonio.encode(self.args) if self.kind == "custom" else self.args or "{}", kind)

    def answer(self, content: str | tuple[Content, ...], *, is_error: bool = False) -> ToolResult:
        return ToolResult(self.id, content, is_error=is_error)


class ToolResult(Value, frozen=True):
    """The result of one tool call. It has no token."""

    tool_use_id: str
    content: str | tuple[Content, ...] = ""
    is_error: bool = False
    extra: str = ""
    """Other fields as the text of a JSON object."""


class _Message(Value, frozen=True, tag_field="role"):
    pass


def _content_text(content: str | tuple[Content, ...]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, Text))


class SystemMessage(_Message, frozen=True, tag="system"):
    """Instructions, anywhere in the conversation. The encoder moves them if the dialect needs it."""

    content: str | tuple[Text, ...]

    def __str__(self) -> str:
        return _content_text(self.content)

    @property
    def parts(self) -> tuple[Text, ...]:
        return (Text(self.content),) if isinstance(self.content, str) else self.content


class UserMessage(_Message, frozen=True, tag="user"):
    content: str | tuple[Content, ...]
    name: str = ""

    def __str__(self) -> str:
        return _content_text(self.content)

    @property
    def parts(self) -> tuple[Content, ...]:
        return (Text(self.content),) if isinstance(self.content, str) else self.content


class AssistantMessage(_Message, frozen=True, tag="assistant"):
    """One reply of the model."""

    blocks: tuple[Block, ...]
    """The blocks in the order in which the model produced them."""
    stop_reason: StopReason | None = None
    raw_stop_reason: str | None = None
    """The provider's own word for `stop_reason`."""
    origin: Origin | None = None
    extra: str = ""
    """The message's other fields (container, grounding, ...) as the text of a JSON object."""
    incomplete: bool = False
    """Whether the reply was cut off. Then its blocks have only tokens that were received completely."""

    def __str__(self) -> str:
        """Return the text blocks, joined, without reasoning and calls."""
        return "".join([block.text for block in self.blocks if isinstance(block, Text)])

    def tool_calls(self) -> Iterator[ToolCallView]:
        calls = (block for block in self.blocks if isinstance(block, ToolUse))
        return (ToolCallView(call.id, call.name, call.args, call.kind, call.args_error) for call in calls)

    def has_tool_calls(self) -> bool:
        return any(isinstance(block, ToolUse) for block in self.blocks)

    def get_tool_use(self, id: str) -> ToolCallView | None:
        return next((call for call in self.tool_calls() if call.id == id), None)

    @property
    def paused(self) -> bool:
        """Whether the provider paused its own work. It continues if the turn is sent back unchanged."""
        return self.raw_stop_reason == "pause_turn"

    def text_blocks(self) -> Iterator[str]:
        return (block.text for block in self.blocks if isinstance(block, Text))


class ToolResults(_Message, frozen=True, tag="tool"):
    """The results of the calls of the message before, in call order."""

    results: tuple[ToolResult, ...]

    def __str__(self) -> str:
        """Return the text of the results, one per line."""
        return "\n".join(_content_text(result.content) for result in self.results)


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResults


def user(*parts: str | Content) -> UserMessage:
    """Make a user message from strings, images, audio and documents.

    Raise `TypeError` for a part of another type, and `ValueError` for data that is not base64.
    """
    if len(parts) == 1 and isinstance(parts[0], str):
        return UserMessage(parts[0])
    message = UserMessage(tuple(Text(part) if isinstance(part, str) else part for part in parts))
    check_parts(message)
    return message


_BASE64 = re.compile(r"[A-Za-z0-9+/_\s-]*={0,2}\s*")
_CHECKED_LENGTH = 256


def check_parts(message: UserMessage) -> None:
    """Raise `TypeError` for a part that cannot be sent, and `ValueError` if the start of the data is not base64."""
    for part in () if isinstance(message.content, str) else message.content:
        if not isinstance(part, Content):
            is_bytes = isinstance(part, bytes | bytearray)
            constructors = "Image.from_bytes, Audio.from_bytes or Document.from_bytes"
            hint = f"use {constructors if is_bytes else 'a string, Image, Audio or Document'}"
            raise TypeError(f"a user message cannot hold {type(part).__name__}: {hint}")
        data = part.data if isinstance(part, Image | Audio | Document) else ""
        kind = type(part).__name__
        if not isinstance(data, str):
            raise TypeError(f"{kind}(data=) is {type(data).__name__}: use {kind}.from_bytes")
        if not _BASE64.fullmatch(data[:_CHECKED_LENGTH]):
            raise ValueError(f"{kind}(data={data[:40]!r}) is not base64: use {kind}.from_path, from_bytes or from_url")


class Usage(Value, frozen=True, rename={"reported_total": "total_tokens"}):
    """The tokens of one reply. The first five fields do not overlap. None: the provider did not report it."""

    input_tokens: int | None = None
    """Input tokens neither read from nor written to a cache."""
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    """Output tokens without `reasoning_tokens`, if those are known."""
    reasoning_tokens: int | None = None
    reported_total: int | None = None
    """The provider's own sum; use `total_tokens`."""
    audio_input_tokens: int | None = None
    """The audio part of the input tokens."""
    audio_output_tokens: int | None = None
    """The audio part of the output tokens."""
    input_by_modality: dict[str, int] | None = None
    """The input tokens by modality."""
    output_by_modality: dict[str, int] | None = None
    """The output tokens by modality."""

    @property
    def prompt_tokens(self) -> int | None:
        """All input tokens, cached or not."""
        return _sum(self.input_tokens, self.cache_read_tokens, self.cache_write_tokens)

    @property
    def completion_tokens(self) -> int | None:
        """All output tokens, including reasoning."""
        return _sum(self.output_tokens, self.reasoning_tokens)

    @property
    def total_tokens(self) -> int | None:
        """The sum of all tokens, or the provider's own sum if that is larger; None if neither is known."""
        totals = (self.reported_total, _sum(self.prompt_tokens, self.completion_tokens))
        return max((total for total in totals if total is not None), default=None)

    def __hash__(self) -> int:
        return hash((self.input_tokens, self.output_tokens, self.reported_total))

    def __add__(self, other: Usage) -> Usage:
        """Add field by field; None plus None is None, None plus a number is the number.

        The sum has a `reported_total` if one side has one, so that its total is not less than the sum of both totals.
        """
        has_total = self.reported_total is not None or other.reported_total is not None
        names = [name for name in self.__struct_fields__ if name not in ("reported_total", "unknown_fields")]
        sums = {name: _add(getattr(self, name), getattr(other, name)) for name in names}
        return Usage(**sums, reported_total=_add(self.total_tokens, other.total_tokens) if has_total else None)


def _add(left: Any, right: Any) -> Any:
    """Add two numbers, or two dictionaries of numbers."""
    if left is None or right is None:
        return left if right is None else right
    if isinstance(left, dict):
        return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}
    return left + right


def _sum(*parts: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def display_text(block: Block) -> str | None:
    """Return the text of a text block or refusal; None for other blocks."""
    return block.text if isinstance(block, Text | Refusal) else None


def summary_block(message: Message | None) -> Marker | None:
    """Return the block of a reply that is the provider's summary of the messages before it, or None."""
    for block in message.blocks if isinstance(message, AssistantMessage) else ():
        if isinstance(block, Marker) and block.kind == "compaction":
            return block if block.text or isinstance(block.meta, OpenAiMeta) else None
    return None
