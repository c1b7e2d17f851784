"""Codecs for the dialects that attach tokens to a position: a thinking block, a reasoning item, a part.

Each codec reads the native list of a reply (`content`, `input`, `parts`) and puts items back into the list of a message
that has no reasoning: a signature on its block or part, reasoning before the block that followed it.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Block
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.provider import Dialect
from tenuto.reasoning.items import ReasoningCodec, ReasoningItem
from tenuto.reasoning.views import to_details, with_details
from tenuto.wire.anthropic.blocks import read_block
from tenuto.wire.codec import codec_for
from tenuto.wire.gemini.parts import read_part
from tenuto.wire.gemini.protocol import PART_FIELDS, to_camel_case
from tenuto.wire.rawjson import is_object
from tenuto.wire.responses.items import read_item


class _NativeCodec(ReasoningCodec):
    dialect: Dialect
    field: str
    """The field of a message that has the native list."""
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
