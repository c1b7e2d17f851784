"""Codecs for the dialects that attach their tokens to places: a thinking block, a reasoning item, a part.

Each reads the native list of a reply (`content`, `output`, `parts`) into reasoning items, and puts such items back into
the list of a message that has none: a signature on the block or part it stood on, a thought before what followed it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Block
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.target import Dialect
from tenuto.reasoning.items import ReasoningCodec, ReasoningItem
from tenuto.reasoning.views import to_details, with_details
from tenuto.wire.anthropic.blocks import read_block
from tenuto.wire.dialects import VERBATIM
from tenuto.wire.gemini.parts import read_part
from tenuto.wire.gemini.shapes import PART, camel
from tenuto.wire.responses.items import blocks_of

__all__ = ["AnthropicReasoningCodec", "GeminiReasoningCodec", "ResponsesReasoningCodec"]


def _anthropic(raw: Raw, _: Callable[[], str]) -> list[Block]:
    return [read_block(raw)]


def _gemini(raw: Raw, mint: Callable[[], str]) -> list[Block]:
    return [read_part(raw, camel(jsonio.members(raw), PART), mint)]


class _NativeCodec(ReasoningCodec):
    """Reads and writes the list of one dialect."""

    dialect: Dialect
    field: str

    def __init__(self) -> None:
        reads = {"anthropic-messages": _anthropic, "openai-responses": blocks_of, "gemini": _gemini}
        self._read: Callable[[Raw, Callable[[], str]], list[Block]] = reads[self.dialect]

    def parse_response(self, raw: Iterable[object]) -> list[ReasoningItem]:
        """Read the reasoning and the signatures of a reply's own list; what is no object has none."""
        return to_details(self._message(raw))

    def write_assistant(self, message: object, items: Sequence[ReasoningItem]) -> None:
        """Put items into the list of a message; without items, or where there is no list, nothing happens."""
        if not items or not isinstance(message, dict) or not isinstance(message.get(self.field), list):
            return
        full = with_details(self._message(message[self.field]), items)
        written: list[Any] = jsonio.parse(jsonio.encode(VERBATIM[self.dialect](full)))
        message[self.field] = written

    def _message(self, listed: Iterable[object]) -> AssistantMessage:
        numbers = itertools.count()
        blocks: list[Block] = []
        for value in listed:
            raw = value if isinstance(value, Raw) else Raw(jsonio.encode(value))
            if bytes(raw)[:1] == b"{":
                blocks += self._read(raw, lambda: f"call_{next(numbers)}")
        return AssistantMessage(tuple(blocks), origin=Origin("", self.dialect))


class AnthropicReasoningCodec(_NativeCodec):
    """Thinking blocks in `content`: a signature belongs to its block, what is redacted is encrypted."""

    dialect = "anthropic-messages"
    field = "content"


class ResponsesReasoningCodec(_NativeCodec):
    """Reasoning items among the items of `input`, each before what followed it."""

    dialect = "openai-responses"
    field = "input"


class GeminiReasoningCodec(_NativeCodec):
    """Signatures on `parts`: on a call, a text or a thought, and never on another than the one they came with."""

    dialect = "gemini"
    field = "parts"
