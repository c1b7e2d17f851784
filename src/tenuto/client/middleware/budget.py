"""A budget in money or tokens. A call whose cost is unknown is refused, because the budget would not count it."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal

import msgspec

from tenuto.catalog import find_provider, is_known_provider
from tenuto.client.middleware.base import (
    ALL_OPERATIONS,
    AnyNext,
    AnyRequest,
    OperationCall,
    OperationDone,
    closing,
    handles,
    split_model,
)
from tenuto.client.reply import cost
from tenuto.core.events import MessageDone, MessageStart, UsageUpdate
from tenuto.core.messages import Origin, Usage
from tenuto.errors import LimitReached, LLMError, UnsupportedModel


class AttemptUsage(msgspec.Struct, frozen=True):
    usage: Usage | None
    """None: the provider reported none."""
    origin: Origin | None = None
    """None: the attempt ended before the model was known."""
    complete: bool = False
    """False: the attempt was interrupted, and the usage is the last one reported before."""


async def meter_events(events: AsyncIterator[Any], add: Callable[[AttemptUsage], None]) -> AsyncIterator[Any]:
    """Yield the events of one call, and pass `add` the usage of each attempt; of the last one before its last event.

    An interrupted attempt and the retry after it count separately.
    """
    reported: Usage | None = None
    started = False
    try:
        async with closing(events):
            async for event in events:
                if isinstance(event, UsageUpdate):
                    reported = event.usage
                elif isinstance(event, MessageStart):
                    if started and reported is not None:
                        add(AttemptUsage(reported))
                        reported = None
                    started = True
                elif isinstance(event, MessageDone):
                    reported = None
                    add(AttemptUsage(event.response.usage, event.response.message.origin, complete=True))
                elif isinstance(event, OperationDone) and event.usage is not None:
                    add(AttemptUsage(event.usage, complete=True))
                yield event
    except LLMError as error:
        if error.partial is not None and error.partial.usage is not None:
            reported = None
            add(AttemptUsage(error.partial.usage, error.partial.message.origin))
        raise
    finally:
        if reported is not None:
            add(AttemptUsage(reported))


@handles(*ALL_OPERATIONS)
class Budget:
    """Refuse every call (`LimitReached`) once this much money, or this many tokens, are spent.

    A call that has started runs to its end, so the last one, and calls that run at the same time, may exceed the limit. A
    failed attempt counts with the usage that was reported. Put it inside `retry` and `cache`, as in
    `[retry(), cache(), budget(1)]`: there it counts every attempt, and no reply from the cache.

    With a limit in USD, a chat or an embedding of a model without a known price is refused (`UnsupportedModel`). After a
    reply of unknown usage or cost, every further chat and embedding is refused. `unpriced="allow"` accepts both and does
    not count them.
    """

    spent: Decimal
    """The known cost so far, in USD."""
    tokens: int
    """The known tokens so far."""
    unknown: int
    """The number of replies whose cost or usage is unknown."""

    def __init__(
        self,
        usd: Decimal | float | str | None = None,
        tokens: int | None = None,
        *,
        unpriced: Literal["refuse", "allow"] = "refuse",
        now: Callable[[], float] = time.time,
    ) -> None:
        if usd is None and tokens is None:
            raise ValueError("budget takes usd, tokens or both")
        if unpriced not in ("refuse", "allow"):
            raise ValueError(f'unpriced: expected "refuse" or "allow", got {unpriced!r}')
        self._usd = None if usd is None else Decimal(str(usd))
        self._max_tokens = tokens
        self._strict = unpriced == "refuse"
        self._now = now
        self._lock = threading.Lock()
        self._gap = ""
        self.spent = Decimal(0)
        self.tokens = 0
        self.unknown = 0

    def __repr__(self) -> str:
        return f"budget(usd={self._usd}, tokens={self._max_tokens}, spent={self.spent}, used={self.tokens})"

    @property
    def remaining_usd(self) -> Decimal | None:
        """The remaining money in USD; None without a limit."""
        return None if self._usd is None else max(Decimal(0), self._usd - self.spent)

    @property
    def remaining_tokens(self) -> int | None:
        """The remaining tokens; None without a limit."""
        return None if self._max_tokens is None else max(0, self._max_tokens - self.tokens)

    async def __call__(self, request: AnyRequest, next: AnyNext) -> AsyncIterator[Any]:
        self._check(request)
        async with closing(meter_events(next(request), lambda attempt: self._add(request, attempt))) as events:
            async for event in events:
                yield event

    def _check(self, request: AnyRequest) -> None:
        """Raise an error if a limit is reached, or if the cost of the request could not be counted."""
        if self._usd is not None and self.spent >= self._usd:
            raise LimitReached("usd", f"the budget of {self._usd} USD is spent: {self.spent} USD so far")
        if self._max_tokens is not None and self.tokens >= self._max_tokens:
            raise LimitReached("tokens", f"the budget of {self._max_tokens} tokens is spent: {self.tokens} so far")
        operation = request.operation if isinstance(request, OperationCall) else "chat"
        if not self._strict or operation not in ("chat", "embed"):  # the other operations use no tokens
            return
        if self._gap:
            limit = "tokens" if self._usd is None else "usd"
            message = f'{self._gap}, so the budget cannot be enforced; make a new one, or pass unpriced="allow"'
            raise LimitReached(limit, message)
        sample = Usage(input_tokens=1, output_tokens=1 if operation == "chat" else 0)
        if self._usd is not None and cost(sample, *_catalog_name(request.model), self._today()) is None:
            reason = (
                'its price is unknown, so a budget in USD cannot be enforced; pass unpriced="allow" to use it anyway'
            )
            raise UnsupportedModel(request.model, reason)

    def _add(self, request: AnyRequest, attempt: AttemptUsage) -> None:
        origin, usage = attempt.origin, attempt.usage
        provider, model = (origin.provider, origin.model) if origin else _catalog_name(request.model)
        if usage is not None and not attempt.complete:  # else every interrupted reply would end the budget
            known = {"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0}
            usage = msgspec.structs.replace(usage, **known)
        total = usage.total_tokens if usage is not None else None
        price = cost(usage, provider, model, self._today()) if usage is not None else None
        with self._lock:
            self.tokens += total or 0
            self.spent += price or 0
            if (self._usd is not None and price is None) or (self._max_tokens is not None and total is None):
                self.unknown += 1
                problem = "reported no usage" if total is None else "sent a reply of unknown cost"
                self._gap = f"{provider}/{model} {problem}"

    def _today(self) -> date:
        return datetime.fromtimestamp(self._now(), UTC).date()


budget = Budget
"""The name for use in a list of middleware: `budget(1.5)`, `budget(tokens=100_000)`."""


def _catalog_name(model: str) -> tuple[str, str]:
    """Return the provider and the model of a name, the provider by its name in the catalog."""
    provider, name = split_model(model)
    return (find_provider(provider).name if is_known_provider(provider) else provider), name
