"""A budget: no further call once so much is spent. What cannot be counted is refused, because it would never be spent."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Literal

import msgspec

from tenuto.catalog import find_provider, is_known_provider
from tenuto.client.pipeline import Next, closing
from tenuto.client.prices import cost, price_of
from tenuto.core.events import ContentDelta, MessageDone, MessageStart, StreamEvent, UsageUpdate
from tenuto.core.messages import Origin, Usage
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.errors import LimitReached, LLMError, UnsupportedModel

__all__ = ["AttemptUsage", "Budget", "UsageMeter", "budget"]


class AttemptUsage(msgspec.Struct, frozen=True):
    """What an attempt used; `usage` is None if nobody said, `origin` if it did not get far enough to tell.

    `whole` replies have told all they will; of others, it is what was known when they broke off.
    """

    usage: Usage | None
    origin: Origin | None = None
    whole: bool = False


class UsageMeter:
    """Follows one call. An attempt that was broken off, and the reply that follows it, count each for itself."""

    def __init__(self) -> None:
        self._settled: list[AttemptUsage] = []
        self._told: Usage | None = None
        self._begun = False

    def hear(self, event: StreamEvent) -> None:
        """Take note of an event."""
        if isinstance(event, UsageUpdate):
            self._told = event.usage
        elif isinstance(event, MessageStart):
            if self._begun:
                self._break_off()
            self._begun = True
        elif isinstance(event, MessageDone):
            self._told = None
            self._settled.append(_used(event.response, whole=True))

    def broke(self, error: LLMError) -> None:
        """Take note of how the call ended."""
        if error.partial is not None and error.partial.usage is not None:
            self._told = None
            self._settled.append(_used(error.partial, whole=False))

    def take(self) -> list[AttemptUsage]:
        """Hand out what was not handed out before."""
        self._break_off()
        taken, self._settled = self._settled, []
        return taken

    def _break_off(self) -> None:
        if self._told is not None:
            self._settled.append(AttemptUsage(self._told))
            self._told = None


def _used(response: ChatResponse, *, whole: bool) -> AttemptUsage:
    return AttemptUsage(response.usage, response.message.origin, whole)


class Budget:
    """Counts what its calls cost, and lets none begin once a limit is reached. Use `budget`.

    `spent` (USD) and `tokens` are what is known to have been used so far; `unknown` counts the replies whose cost or
    usage nobody told.
    """

    def __init__(
        self,
        usd: Decimal | None,
        tokens: int | None,
        unpriced: Literal["refuse", "allow"],
        now: Callable[[], float],
    ) -> None:
        self._usd = usd
        self._most = tokens
        self._strict = unpriced == "refuse"
        self._now = now
        self._lock = threading.Lock()
        self._gap = ""
        self.spent = Decimal(0)
        self.tokens = 0
        self.unknown = 0

    def __repr__(self) -> str:
        return f"budget(usd={self._usd}, tokens={self._most}, spent={self.spent}, used={self.tokens})"

    @property
    def remaining_usd(self) -> Decimal | None:
        """USD left; None if money is not limited."""
        return None if self._usd is None else max(Decimal(0), self._usd - self.spent)

    @property
    def remaining_tokens(self) -> int | None:
        """Tokens left; None if they are not limited."""
        return None if self._most is None else max(0, self._most - self.tokens)

    async def __call__(self, request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        """Stand around a call."""
        self._admit(request)
        meter = UsageMeter()
        try:
            async with closing(next(request)) as events:
                async for event in events:
                    if not isinstance(event, ContentDelta):
                        meter.hear(event)
                        if isinstance(event, MessageDone):
                            self._book(request, meter)
                    yield event
        except LLMError as error:
            meter.broke(error)
            raise
        finally:
            self._book(request, meter)

    def _admit(self, request: ChatRequest) -> None:
        if self._usd is not None and self.spent >= self._usd:
            raise LimitReached("usd", f"the budget of {self._usd} USD is spent: {self.spent} USD so far")
        if self._most is not None and self.tokens >= self._most:
            raise LimitReached("tokens", f"the budget of {self._most} tokens is spent: {self.tokens} so far")
        if not self._strict:
            return
        if self._gap:
            limit = "tokens" if self._usd is None else "usd"
            raise LimitReached(
                limit, f'{self._gap}, so the budget cannot be kept; make a new one, or pass unpriced="allow"'
            )
        if self._usd is not None and not price_of(*_named(request.model), self._today()):
            reason = 'its price is not known, so a budget in USD cannot be kept; pass unpriced="allow" to ask it anyway'
            raise UnsupportedModel(request.model, reason)

    def _book(self, request: ChatRequest, meter: UsageMeter) -> None:
        for used in meter.take():
            row, model = (used.origin.provider, used.origin.model) if used.origin else _named(request.model)
            usage = used.usage if used.whole else _at_least(used)
            total = usage.total_tokens if usage is not None else None
            price = cost(usage, row, model, self._today()) if usage is not None else None
            with self._lock:
                self.tokens += total or 0
                self.spent += price or 0
                if (self._usd is not None and price is None) or (self._most is not None and total is None):
                    self.unknown += 1
                    self._gap = f"{row}/{model} did not tell what it used" if total is None else _unpriced(row, model)

    def _today(self) -> date:
        return datetime.fromtimestamp(self._now(), UTC).date()


def budget(
    usd: Decimal | float | str | None = None,
    tokens: int | None = None,
    *,
    unpriced: Literal["refuse", "allow"] = "refuse",
    now: Callable[[], float] = time.time,
) -> Budget:
    """Let no call begin (`LimitReached`) once so much money, or so many tokens, are spent.

    A call that has begun runs to its end, so the last one may go over; so may calls that run side by side. A failed
    attempt counts as far as its usage was told. Put it inside `retry` and `cache`, as in `[retry(), cache(), budget(1)]`:
    there it sees every attempt, and nothing that was free.

    With a limit in USD, a model without a known price is refused (`UnsupportedModel`); after a reply that did not tell
    what it used, or whose cost is not known, so is every further call. `unpriced="allow"` lets both pass, uncounted.
    """
    if usd is None and tokens is None:
        raise ValueError("budget takes usd, tokens or both")
    if unpriced not in ("refuse", "allow"):
        raise ValueError(f'unpriced is "refuse" or "allow", not {unpriced!r}')
    return Budget(None if usd is None else Decimal(str(usd)), tokens, unpriced, now)


def _named(model: str) -> tuple[str, str]:
    name, _, rest = model.partition("/")
    return (find_provider(name).name if is_known_provider(name) else name), rest


def _at_least(used: AttemptUsage) -> Usage | None:
    """What was not told before a reply broke off counts as nothing: else every broken line would end the budget."""
    usage = used.usage
    if usage is None:
        return None
    return msgspec.structs.replace(usage, input_tokens=usage.input_tokens or 0, output_tokens=usage.output_tokens or 0)


def _unpriced(row: str, model: str) -> str:
    return f"what a reply of {row}/{model} cost is not known"
