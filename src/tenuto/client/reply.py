"""The result of a chat."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

import tenuto  # annotations load `tenuto.ReasoningItem` when they are evaluated
from tenuto.core.blocks import Audio, Block, Citation, Image
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, StopReason, ToolCallView, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a chat. The properties `text`, `thinking`, `tool_calls`, ... are those of choice 0."""

    response: ChatResponse
    transcript: Transcript
    """The messages of the request and the answer; add a message to it to continue."""
    asked_at: float | None = None
    """The time of the request in Unix seconds; None without a request, as for a reply from a cache."""
    request_id: str | None = None
    """The provider's id of the request."""
    headers: Mapping[str, str] = {}
    """The headers of the HTTP response."""
    raw: bytes | None = None
    """The body of the HTTP response; None if it was streamed."""

    def __repr__(self) -> str:
        name = "/".join(filter(None, (self.provider, self.model)))
        text = f"{self.text[:60]!r}{'...' if len(self.text) > 60 else ''}"
        calls = f", calls {', '.join(call.name for call in self.tool_calls)}" if self.tool_calls else ""
        tokens = f", {self.usage.total_tokens} tokens" if self.usage is not None else ""
        losses = f", {len(self.losses)} losses" if self.losses else ""
        return f"<{type(self).__name__} {name}: {text}, {self.stop_reason}{calls}{tokens}{losses}>"

    def __str__(self) -> str:
        """Return the text, with refusals."""
        return self.text

    @property
    def cost(self) -> Decimal | None:
        """The cost in USD; None if the price or the usage is unknown, 0 without a request, as for a reply from a cache."""
        from tenuto.client.prices import cost

        if self.asked_at is None:
            return Decimal(0)
        origin, usage = self.message.origin, self.usage
        if origin is None or usage is None:
            return None
        return cost(usage, origin.provider, origin.model, datetime.fromtimestamp(self.asked_at, UTC).date())

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All choices."""
        return self.response.choices

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The parts of the request and the response that could not be carried, with the reasons."""
        return self.response.losses

    @property
    def message(self) -> AssistantMessage:
        """The answer as a message."""
        return self.response.message

    @property
    def content(self) -> tuple[Block, ...]:
        """The blocks, in the order the model produced them."""
        return self.response.message.blocks

    @property
    def text(self) -> str:
        """The text, with refusals."""
        return self.response.text

    @property
    def thinking(self) -> str:
        """The readable reasoning."""
        return self._first_choice.thinking

    @property
    def tool_calls(self) -> list[ToolCallView]:
        """The tool calls to run, in order."""
        return self._first_choice.tool_calls

    @property
    def images(self) -> list[Image]:
        """The images that the model made."""
        return self._first_choice.images

    @property
    def audio(self) -> Audio | None:
        """The first audio that the model made."""
        return self._first_choice.audio

    @property
    def citations(self) -> list[Citation]:
        """All citations, in order."""
        return self._first_choice.citations

    @property
    def usage(self) -> Usage | None:
        """The tokens used; None if unknown."""
        return self.response.usage

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the answer ended."""
        return self.response.message.stop_reason

    @property
    def provider(self) -> str:
        """The provider that answered, by its name in the catalog."""
        return self.response.provider

    @property
    def model(self) -> str:
        """The model that answered, as the provider reported it."""
        return self.response.model

    @property
    def _first_choice(self) -> Choice:
        return self.choices[0] if self.choices else Choice(AssistantMessage(()))

    def to_message(self) -> dict[str, Any]:
        """Return the answer as a message in the form of Chat Completions, with its blocks: sent again, it is the same."""
        from tenuto.client.chat_dicts import to_message

        return to_message(self.message)

    def to_unified(self) -> dict[str, Any]:
        """Return the reply as the unified response document; `tenuto.interop.from_unified` reads it."""
        from tenuto.interop.unified import to_unified

        return to_unified(self.response)

    def reasoning_details(self) -> list[tenuto.ReasoningItem]:
        """Return the reasoning and the signatures of the first choice as items of `reasoning_details`."""
        from tenuto.reasoning.views import to_details

        return to_details(self.message)
