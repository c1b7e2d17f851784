"""What came back: the reply as the wire gave it, normalised, with the provider's own words beside."""

from __future__ import annotations

from typing import Any

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, Citation, Image, Reasoning, Text, Value
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, StopReason, ToolCallView, Usage, display_text

__all__ = ["ChatResponse", "Choice"]


class Choice(Value, frozen=True):
    """One answer. `extra` holds what stood beside the message (logprobs, filter results, ...), as JSON object text."""

    message: AssistantMessage
    index: int = 0
    extra: str = ""

    @property
    def content(self) -> tuple[Block, ...]:
        """The blocks, in the order the model produced them."""
        return self.message.blocks

    @property
    def finish_reason(self) -> StopReason | None:
        """Why the answer ended, in our words."""
        return self.message.stop_reason

    @property
    def raw_finish_reason(self) -> str | None:
        """Why the answer ended, in the provider's word."""
        return self.message.raw_stop_reason

    @property
    def text(self) -> str:
        """What was said, refusals included, joined."""
        return "".join(said for block in self.content if (said := display_text(block)) is not None)

    @property
    def thinking(self) -> str:
        """The readable reasoning, joined."""
        return "".join(block.text for block in self.content if isinstance(block, Reasoning))

    @property
    def tool_calls(self) -> list[ToolCallView]:
        """The calls to run, in order."""
        return list(self.message.tool_calls())

    @property
    def images(self) -> list[Image]:
        """The pictures the model made."""
        return [block for block in self.content if isinstance(block, Image)]

    @property
    def audio(self) -> Audio | None:
        """The first sound the model made, if any."""
        return next((block for block in self.content if isinstance(block, Audio)), None)

    @property
    def citations(self) -> list[Citation]:
        """Every citation, in order."""
        return [citation for block in self.content if isinstance(block, Text) for citation in block.citations]


class ChatResponse(Value, frozen=True):
    """One reply.

    `raw_usage` is the provider's own usage object as JSON text, merged where it came in pieces; empty if none came.
    `extra` holds the other fields of the response object, as JSON object text. `losses` says what could not be kept.
    """

    id: str
    provider: str
    model: str
    choices: tuple[Choice, ...]
    usage: Usage | None = None
    raw_usage: str = ""
    extra: str = ""
    losses: tuple[Loss, ...] = ()

    @property
    def message(self) -> AssistantMessage:
        """The first answer's message; an empty one if there is no answer."""
        return self.choices[0].message if self.choices else AssistantMessage(())

    @property
    def text(self) -> str:
        """The first answer's text."""
        return self.choices[0].text if self.choices else ""

    def field(self, name: str) -> Any:
        """Read one of the other fields of the response object; None if it was not there."""
        found = jsonio.members(self.extra).get(name) if self.extra else None
        return None if found is None else jsonio.parse(found)
