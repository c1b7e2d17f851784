"""Convert a complete response to stream events and back.

A cache and a middleware over responses use it, so that streamed and drained callers get the usual events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeAlias

import msgspec

from tenuto.client.middleware.base import Middleware, Next, closing
from tenuto.core import blocks, events
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.errors import IncompleteResponse
from tenuto.wire.assembler import DELTAS, GROWS

NextResponse: TypeAlias = Callable[[ChatRequest], Awaitable[ChatResponse]]


def replay_events(response: ChatResponse) -> Iterator[events.StreamEvent]:
    """Yield the events of a response, choice by choice and block by block; the last is `MessageDone(response)`.

    The streamed field of each block comes in one delta, then its citations and its token. `UsageUpdate` comes if the usage
    is known.
    """
    yield events.MessageStart(response.id, response.model)
    for choice in response.choices:
        for index, block in enumerate(choice.message.blocks):
            yield events.ContentStart(choice.index, index, _without_streamed_fields(block))
            for delta in _deltas(block):
                yield events.ContentDelta(choice.index, index, delta)
            yield events.ContentDone(choice.index, index, block)
        yield events.MessageDelta(choice.index, choice.message.stop_reason, choice.message.raw_stop_reason)
    if response.usage is not None:
        yield events.UsageUpdate(response.usage)
    yield events.MessageDone(response)


async def collect_response(stream: AsyncIterator[events.StreamEvent]) -> ChatResponse:
    """Read all events and return the response. Raise `IncompleteResponse` if they end without `MessageDone`."""
    response: ChatResponse | None = None
    async with closing(stream):
        async for event in stream:
            if isinstance(event, events.MessageDone):
                response = event.response
    if response is None:
        raise IncompleteResponse("the events ended without message.done")
    return response


def response_middleware(function: Callable[[ChatRequest, NextResponse], Awaitable[ChatResponse]]) -> Middleware:
    """Make a middleware from `async (request, next) -> ChatResponse`, where `await next(request)` gives the response.

    A streamed chat is read to its end first; then all its events come at once. May be used as a decorator.
    """

    async def adapter(request: ChatRequest, next: Next) -> AsyncIterator[events.StreamEvent]:
        async def next_response(request: ChatRequest) -> ChatResponse:
            return await collect_response(next(request))

        for event in replay_events(await function(request, next_response)):
            yield event

    return adapter


def _without_streamed_fields(block: blocks.Block) -> blocks.Block:
    changes: dict[str, object] = {"meta": None} if block.meta is not None else {}
    if type(block) in GROWS:
        changes[GROWS[type(block)]] = ""
    if isinstance(block, blocks.Text) and block.citations:
        changes["citations"] = ()
    elif isinstance(block, blocks.Audio) and block.transcript:
        changes["transcript"] = None
    return msgspec.structs.replace(block, **changes) if changes else block


def _deltas(block: blocks.Block) -> Iterator[events.Delta]:
    if type(block) in GROWS and (value := getattr(block, GROWS[type(block)])):
        yield DELTAS[type(block)](value)
    if isinstance(block, blocks.Audio) and block.transcript:
        yield events.TranscriptDelta(block.transcript)
    elif isinstance(block, blocks.Text):
        for citation in block.citations:
            yield events.CitationDelta(citation)
    if token := _token(block.meta):
        yield events.SignatureDelta(token)


def _token(meta: blocks.ProviderMeta | None) -> str | None:
    """Return the token that streams send as a delta; the ciphertext of a redacted block is only in the block."""
    match meta:
        case (
            blocks.AnthropicMeta(signature=token)
            | blocks.GeminiMeta(thought_signature=token)
            | blocks.ChatMeta(signature=token)
        ):
            return token
        case blocks.OpenAiMeta(encrypted_content=content):
            return content
        case _:
            return None
