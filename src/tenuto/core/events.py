"""Stream events: the parts of a reply as they arrive.

Each part has a start, deltas and a done event; the last event has the assembled response. Events are immutable, hold only
their own delta, and have no stored form.
"""

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


class _Event(msgspec.Struct, frozen=True, tag_field="type"):
    @property
    def type(self) -> str:
        """The type of the event or delta, as in its JSON form: `message.start`, `tool_call.arguments`, ..."""
        return str(self.__struct_config__.tag)


class _StreamEvent(_Event, frozen=True, kw_only=True):
    session_id: str = ""
    """The session that the event belongs to; empty outside of a session."""


class TextDelta(_Event, frozen=True, tag="text", gc=False):
    """More text, or more of a refusal."""

    text: str


class ThinkingDelta(_Event, frozen=True, tag="thinking", gc=False):
    thinking: str


class SignatureDelta(_Event, frozen=True, tag="thinking.signature", gc=False):
    """The token of the open part."""

    signature: str


class ArgumentsDelta(_Event, frozen=True, tag="tool_call.arguments", gc=False):
    """More of the arguments of a call, as text."""

    arguments: str


class CodeDelta(_Event, frozen=True, tag="code", gc=False):
    code: str


class ImageDelta(_Event, frozen=True, tag="image", gc=False):
    """More base64 of an image."""

    data: str


class AudioDelta(_Event, frozen=True, tag="audio", gc=False):
    """More base64 of audio."""

    data: str


class TranscriptDelta(_Event, frozen=True, tag="audio.transcript", gc=False):
    transcript: str


class CitationDelta(_Event, frozen=True, tag="citation", gc=False):
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


class MessageStart(_StreamEvent, frozen=True, tag="message.start"):
    """A reply starts. A second one means that the provider restarted the reply: discard the earlier events."""

    id: str
    model: str


class ContentStart(_StreamEvent, frozen=True, tag="content.start"):
    """A part starts. `choice_index` and `part_index` identify it."""

    choice_index: int
    part_index: int
    part: Block
    """The block as far as it is known.

    A chat server may send the arguments of a call before its id or name: then the name is empty or the id is generated,
    and the `part` of `ContentDone` has the provider's.
    """


class ContentDelta(_StreamEvent, frozen=True, tag="content.delta", gc=False):
    choice_index: int
    part_index: int
    delta: Delta


class ContentDone(_StreamEvent, frozen=True, tag="content.done"):
    choice_index: int
    part_index: int
    part: Block


class MessageDelta(_StreamEvent, frozen=True, tag="message.delta"):
    """A choice ended."""

    choice_index: int
    finish_reason: StopReason | None
    raw_finish_reason: str | None = None


class UsageUpdate(_StreamEvent, frozen=True, tag="usage"):
    """The usage of the reply so far; the last event has the total."""

    usage: Usage


class MessageDone(_StreamEvent, frozen=True, tag="message.done"):
    """The complete reply, equal to the response of a call without a stream."""

    response: ChatResponse


class ErrorEvent(_StreamEvent, frozen=True, tag="error"):
    """The provider reported an error in the stream. The stream then raises the matching exception."""

    message: str
    raw: str = ""
    """The error as the provider sent it."""


StreamEvent: TypeAlias = (
    MessageStart | ContentStart | ContentDelta | ContentDone | MessageDelta | UsageUpdate | MessageDone | ErrorEvent
)
