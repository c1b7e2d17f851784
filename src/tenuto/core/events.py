"""What happens while a reply arrives.

Each part goes start, delta*, done; the last event carries the assembled response. Events are frozen and hold only their
own piece: keeping one never shows a later state. They are transient and have no stored form.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tenuto.core.blocks import Block, Citation
from tenuto.core.messages import StopReason, Usage
from tenuto.core.response import ChatResponse

__all__ = [
    "ArgumentsDelta",
    "AudioDelta",
    "CitationDelta",
    "CodeDelta",
    "ContentDelta",
    "ContentDone",
    "ContentStart",
    "Delta",
    "ErrorEvent",
    "ImageDelta",
    "MessageDelta",
    "MessageDone",
    "MessageStart",
    "SignatureDelta",
    "StreamEvent",
    "TextDelta",
    "ThinkingDelta",
    "TranscriptDelta",
    "UsageUpdate",
]


class _Delta(msgspec.Struct, frozen=True, tag_field="type", gc=False):
    @property
    def type(self) -> str:
        """The type of the delta, as in its JSON form: `text`, `tool_call.arguments`, ..."""
        return str(self.__struct_config__.tag)


class TextDelta(_Delta, frozen=True, tag="text", gc=False):
    """More text, or more of a refusal."""

    text: str


class ThinkingDelta(_Delta, frozen=True, tag="thinking", gc=False):
    """More reasoning."""

    thinking: str


class SignatureDelta(_Delta, frozen=True, tag="thinking.signature", gc=False):
    """The token of the open part."""

    signature: str


class ArgumentsDelta(_Delta, frozen=True, tag="tool_call.arguments", gc=False):
    """More of a call's arguments, as text."""

    arguments: str


class CodeDelta(_Delta, frozen=True, tag="code", gc=False):
    """More of the code a provider runs."""

    code: str


class ImageDelta(_Delta, frozen=True, tag="image", gc=False):
    """More base64 of a picture."""

    data: str


class AudioDelta(_Delta, frozen=True, tag="audio", gc=False):
    """More base64 of a sound."""

    data: str


class TranscriptDelta(_Delta, frozen=True, tag="audio.transcript", gc=False):
    """More of what a sound says."""

    transcript: str


class CitationDelta(_Delta, frozen=True, tag="citation"):
    """A citation for the open text."""

    citation: Citation


Delta: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | SignatureDelta
    | ArgumentsDelta
    | CodeDelta
    | ImageDelta
    | AudioDelta
    | TranscriptDelta
    | CitationDelta
)


class _Event(msgspec.Struct, frozen=True, tag_field="type"):
    @property
    def type(self) -> str:
        """The type of the event, as in its JSON form: `message.start`, `content.delta`, ..."""
        return str(self.__struct_config__.tag)


class MessageStart(_Event, frozen=True, tag="message.start"):
    """A reply begins. A second one means that the provider started over: what was assembled so far is void."""

    id: str
    model: str


class ContentStart(_Event, frozen=True, tag="content.start"):
    """A part begins; `part` is the block as far as it is known.

    A chat server may send a call's arguments before its id or its name. Then `part` has an empty name or an id that we
    made, and only the `part` of `ContentDone` has the provider's: identify a part by `choice_index` and `part_index`.
    """

    choice_index: int
    part_index: int
    part: Block


class ContentDelta(_Event, frozen=True, tag="content.delta", gc=False):
    """A part grows."""

    choice_index: int
    part_index: int
    delta: Delta


class ContentDone(_Event, frozen=True, tag="content.done"):
    """A part is whole."""

    choice_index: int
    part_index: int
    part: Block


class MessageDelta(_Event, frozen=True, tag="message.delta"):
    """A choice ended, and why."""

    choice_index: int
    finish_reason: StopReason | None
    raw_finish_reason: str | None = None


class UsageUpdate(_Event, frozen=True, tag="usage"):
    """What the reply has used so far; the last one counts."""

    usage: Usage


class MessageDone(_Event, frozen=True, tag="message.done"):
    """The whole reply, equal to what an unstreamed call gives."""

    response: ChatResponse


class ErrorEvent(_Event, frozen=True, tag="error"):
    """The provider reported an error inside the stream; `raw` is its own words. The matching exception follows."""

    message: str
    raw: str = ""


StreamEvent: TypeAlias = (
    MessageStart | ContentStart | ContentDelta | ContentDone | MessageDelta | UsageUpdate | MessageDone | ErrorEvent
)
