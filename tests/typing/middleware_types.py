"""Middleware: the built-in ones, and custom ones over events and over responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import assert_type

import msgspec

from tenuto import ChatRequest, ChatResponse, Client
from tenuto.events import ContentDelta, StreamEvent
from tenuto.middleware import (
    LogEntry,
    Middleware,
    Next,
    NextResponse,
    budget,
    cache,
    compose,
    fallback,
    logger,
    rate_limit,
    response_middleware,
    retry,
    timeout,
)


async def counted(request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
    pieces = 0
    async for event in next(request):
        pieces += isinstance(event, ContentDelta)
        yield event
    print(pieces)


class Cooler:
    def __init__(self, temperature: float) -> None:
        self.temperature = temperature

    def __call__(self, request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        return next(msgspec.structs.replace(request, temperature=self.temperature))


@response_middleware
async def checked(request: ChatRequest, next: NextResponse) -> ChatResponse:
    response = await next(request)
    return response if response.text else await next(request)


def log(entry: LogEntry) -> None:
    print(entry.model, entry.latency_ms, entry.status == "ok", entry.usage)


layers: list[Middleware] = [counted, Cooler(0.2), checked]
limit = budget(usd="0.50", tokens=10_000)
with Client(middleware=[logger(log), retry(2, base=0.5), cache("kept.db", ttl=60), limit, *layers]) as ai:
    ai.use(fallback(["openai/gpt-5.2", "groq/llama-3.3-70b-versatile"]), timeout(30))
    ai.use(rate_limit(requests=60, concurrent=4))
    print(ai.chat("openai/gpt-5.2", "Hello").text)
    assert_type(limit.remaining_usd, Decimal | None)


def around(handler: Next) -> Next:
    return compose([counted, Cooler(1)], handler)
