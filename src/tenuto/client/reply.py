"""What an answered question gives: the response, the transcript to go on from, and what it took to get it."""

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
    """An answer. The shortcuts (`text`, `thinking`, ...) look at choice 0.

    `transcript` holds the question and the answer: add to it to go on. `losses` says what could not be carried, there
    or back. `headers` and `request_id` are the provider's, and `raw` is the body as it came, unless it streamed; a
    reply that no provider was asked for (from a cache) has none of them. `asked_at` is when it was asked, in Unix seconds.
    """

    response: ChatResponse
    transcript: Transcript
    asked_at: float | None = None
    request_id: str | None = None
    headers: Mapping[str, str] = {}
    raw: bytes | None = None

    @property
    def cost(self) -> Decimal | None:
        """What the reply cost, in USD; None where the price or the usage is not known, 0 if nobody was asked."""
        from tenuto.client.prices import cost

        if self.asked_at is None:
            return Decimal(0)
        origin, usage = self.message.origin, self.usage
        if origin is None or usage is None:
            return None
        return cost(usage, origin.provider, origin.model, datetime.fromtimestamp(self.asked_at, UTC).date())

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All the answers."""
        return self.response.choices

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be carried, and why."""
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
        """What was said, refusals included, joined."""
        return self.response.text

    @property
    def thinking(self) -> str:
        """The readable reasoning, joined."""
        return _first(self).thinking

    @property
    def tool_calls(self) -> list[ToolCallView]:
        """The calls to run, in order."""
        return _first(self).tool_calls

    @property
    def images(self) -> list[Image]:
        """The pictures the model made."""
        return _first(self).images

    @property
    def audio(self) -> Audio | None:
        """The first sound the model made, if any."""
        return _first(self).audio

    @property
    def citations(self) -> list[Citation]:
        """Every citation, in order."""
        return _first(self).citations

    def to_message(self) -> dict[str, Any]:
        """Write the answer as a message in the shape of Chat Completions, its blocks beside: given back, nothing is lost."""
        from tenuto.client.chat_dicts import to_message

        return to_message(self.message)

    def to_unified(self) -> dict[str, Any]:
        """Write the reply as the unified response document; `tenuto.interop.from_unified` reads it."""
        from tenuto.interop.unified import to_unified

        return to_unified(self.response)

    def reasoning_details(self) -> list[tenuto.ReasoningItem]:
        """Return the reasoning and the signatures of the first choice as items of `reasoning_details`."""
        from tenuto.reasoning.views import to_details

        return to_details(self.message)

    @property
    def usage(self) -> Usage | None:
        """What was used, in tokens; None if nobody said."""
        return self.response.usage

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the answer ended, in our words."""
        return self.response.message.stop_reason

    @property
    def provider(self) -> str:
        """The row that answered."""
        return self.response.provider

    @property
    def model(self) -> str:
        """The model that answered, by its own word."""
        return self.response.model


def _first(reply: Reply) -> Choice:
    return reply.choices[0] if reply.choices else Choice(AssistantMessage(()))
