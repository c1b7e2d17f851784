"""Convert a complete response to stream events and back.

A cache and a middleware over responses use it, so that streamed and drained callers get the usual events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeAlias

import msgspec

from tenuto.client.middleware.base import Middleware, Next, closing
from tenuto.core.blocks import (
    AnthropicMeta,
    Audio,
    Block,
    ChatMeta,
    CodeExecution,
    GeminiMeta,
    Image,
    OpenAiMeta,
    ProviderMeta,
    Reasoning,
    Refusal,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.events import (
    ArgumentsDelta,
    AudioDelta,
    CitationDelta,
    CodeDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    Delta,
    ImageDelta,
    MessageDelta,
    MessageDone,
    MessageStart,
    SignatureDelta,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    TranscriptDelta,
    UsageUpdate,
)
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.errors import IncompleteResponse

NextResponse: TypeAlias = Callable[[ChatRequest], Awaitable[ChatResponse]]

_STREAMED_FIELDS: dict[type[Block], tuple[str, Callable[[str], Delta]]] = {
    Text: ("text", TextDelta),
    Reasoning: ("text", ThinkingDelta),
    Refusal: ("text", TextDelta),
    ToolUse: ("args", ArgumentsDelta),
    ServerToolUse: ("args", ArgumentsDelta),
    CodeExecution: ("code", CodeDelta),
    Image: ("data", ImageDelta),
    Audio: ("data", AudioDelta),
}
"""The field of a block that is streamed, and its delta."""


def replay_events(response: ChatResponse) -> Iterator[StreamEvent]:
    """Yield the events of a response, choice by choice and block by block; the last is `MessageDone(response)`.

    The streamed field of each block comes in one delta, then its citations and its token. `UsageUpdate` comes if the usage
    is known.
    """
    yield MessageStart(response.id, response.model)
    for choice in response.choices:
        for index, block in enumerate(choice.message.blocks):
            yield ContentStart(choice.index, index, _without_streamed_fields(block))
            for delta in _deltas(block):
                yield ContentDelta(choice.index, index, delta)
            yield ContentDone(choice.index, index, block)
        yield MessageDelta(choice.index, choice.message.stop_reason, choice.message.raw_stop_reason)
    if response.usage is not None:
        yield UsageUpdate(response.usage)
    yield MessageDone(response)


async def collect_response(events: AsyncIterator[StreamEvent]) -> ChatResponse:
    """Read all events and return the response. Raise `IncompleteResponse` if they end without `MessageDone`."""
    response: ChatResponse | None = None
    async with closing(events):
        async for event in events:
            if isinstance(event, MessageDone):
                response = event.response
    if response is None:
        raise IncompleteResponse("the events ended without message.done")
    return response


def response_middleware(function: Callable[[ChatRequest, NextResponse], Awaitable[ChatResponse]]) -> Middleware:
    """Make a middleware from `async (request, next) -> ChatResponse`, where `await next(request)` gives the response.

    A streamed chat is read to its end first; then all its events come at once. May be used as a decorator.
    """

    async def adapter(request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        async def next_response(request: ChatRequest) -> ChatResponse:
            return await collect_response(next(request))

        for event in replay_events(await function(request, next_response)):
            yield event

    return adapter


def _without_streamed_fields(block: Block) -> Block:
    changes: dict[str, object] = {"meta": None} if block.meta is not None else {}
    if type(block) in _STREAMED_FIELDS:
        changes[_STREAMED_FIELDS[type(block)][0]] = ""
    if isinstance(block, Text) and block.citations:
        changes["citations"] = ()
    elif isinstance(block, Audio) and block.transcript:
        changes["transcript"] = None
    return msgspec.structs.replace(block, **changes) if changes else block


def _deltas(block: Block) -> Iterator[Delta]:
    if type(block) in _STREAMED_FIELDS:
        field, delta = _STREAMED_FIELDS[type(block)]
        if value := getattr(block, field):
            yield delta(value)
    if isinstance(block, Audio) and block.transcript:
        yield TranscriptDelta(block.transcript)
    elif isinstance(block, Text):
        for citation in block.citations:
            yield CitationDelta(citation)
    if token := _token(block.meta):
        yield SignatureDelta(token)


def _token(meta: ProviderMeta | None) -> str | None:
    """Return the token that streams send as a delta; the ciphertext of a redacted block is only in the block."""
    match meta:
        case AnthropicMeta(signature=token) | GeminiMeta(thought_signature=token) | ChatMeta(signature=token):
            return token
        case OpenAiMeta(encrypted_content=content):
            return content
        case _:
            return None
