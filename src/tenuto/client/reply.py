"""The result of a chat, and its cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec

import tenuto  # annotations load `tenuto.ReasoningItem` when they are evaluated
from tenuto import catalog
from tenuto.core.blocks import Audio, Block, Citation, Image
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, StopReason, ToolCallView, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript
from tenuto.wire.codec import codec_for


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
        from tenuto.client.reply import cost

        if self.asked_at is None:
            return Decimal(0)
        origin, usage = self.response.message.origin, self.response.usage
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
    def cache_miss_reason(self) -> str:
        """Why the provider did not read the prompt from its cache, in its own word; empty if it was not asked, or can tell
        no difference. `pending`: it was not ready with the reply."""
        origin = self.message.origin
        return "" if origin is None else codec_for(origin.dialect).cache_miss_reason(self.response)

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


# --- cost -------------------------------------------------------------------------------------------------------------


FIRST_TIER = 100_000
"""The number of prompt tokens from which a tiered price may be higher. The catalog has only the lowest tier."""


def cost(usage: Usage, provider: str, model: str, on: date) -> Decimal | None:
    """Return the cost in USD of a usage on a day at `provider` (its name in the catalog); None, never 0, if it is unknown.

    These are list prices of the standard tier, without discounts, premiums for speed and the prices of server tools (a
    search, a container). A cache write has the price of the shortest cache time.

    The cost is unknown if input or output tokens are unknown, or if a used kind of token has no price; with the catalog's prices
    also if a long prompt may cost more, or for audio and images, which have other prices. Reasoning is billed as output.
    Prices of the extra `prices` win; they are not updated, and those of noon (UTC) are used.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    if provider in catalog.PROVIDERS:  # the library matches similar names, but a custom server has its own prices
        listed = _from_library(usage, provider, model, on)
        if listed is not None:
            return listed
    price = catalog.price_on(provider, model, on)
    return None if price is None else _from_table(usage, price)


def _from_table(usage: Usage, price: catalog.Price) -> Decimal | None:
    if price.input is None:
        return None
    if price.input == price.output == 0:
        return Decimal(0)  # cached tokens are free, too
    output = usage.output_by_modality or {}
    has_media = any(count for kind, count in output.items() if kind.lower() != "text")
    if usage.audio_input_tokens or usage.audio_output_tokens or has_media:
        return None  # the catalog has only the prices of text
    if price.tiered and (usage.prompt_tokens or 0) >= FIRST_TIER:
        return None
    total = Decimal(0)
    for count, each in (
        (usage.input_tokens, price.input),
        (usage.cache_read_tokens, price.cache_read),
        (usage.cache_write_tokens, price.cache_write),
        (usage.completion_tokens, price.output),
    ):
        if count:
            if each is None:
                return None
            total += count * each
    return total / 1_000_000


def _from_library(usage: Usage, provider: str, model: str, on: date) -> Decimal | None:
    try:
        from genai_prices import Usage as Counts
        from genai_prices import calc_price
    except ImportError:
        return None
    noon = datetime.combine(on, time(12), tzinfo=UTC)
    counts = {
        "input_tokens": usage.prompt_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.completion_tokens,
        "input_audio_tokens": usage.audio_input_tokens,
        "output_audio_tokens": usage.audio_output_tokens,
    }
    try:
        result = calc_price(
            Counts(**{name: count for name, count in counts.items() if count}),
            model,
            provider_id=provider,
            genai_request_timestamp=noon,
        )
    except (LookupError, ValueError):  # unknown model, or not enough counts
        return None
    price = result.model_price
    needed = (
        (True, price.input_mtok),
        (usage.completion_tokens, price.output_mtok),
        (usage.cache_read_tokens, price.cache_read_mtok),
        (usage.cache_write_tokens, price.cache_write_mtok),
    )
    return None if any(count and each is None for count, each in needed) else result.total_price
