"""A whole reply as the events that would have told it, and the way back.

Whoever has a response instead of a stream (a cache, a middleware that thinks in responses) hands it out through here, so
that streamed and drained callers see what they always see.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import msgspec

from tenuto.client.pipeline import closing
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
from tenuto.core.response import ChatResponse
from tenuto.errors import IncompleteResponse

__all__ = ["events_of", "response_of"]

_GROWS: dict[type[Block], tuple[str, Callable[[str], Delta]]] = {
    Text: ("text", TextDelta),
    Reasoning: ("text", ThinkingDelta),
    Refusal: ("text", TextDelta),
    ToolUse: ("args", ArgumentsDelta),
    ServerToolUse: ("args", ArgumentsDelta),
    CodeExecution: ("code", CodeDelta),
    Image: ("data", ImageDelta),
    Audio: ("data", AudioDelta),
}
"""The field that grows while a block arrives, and the delta that tells of it."""


def events_of(response: ChatResponse) -> Iterator[StreamEvent]:
    """Yield the events of a reply, choice by choice and block by block; the last is `MessageDone(response)`.

    Each block begins without what grows in it, gets that in one delta (then its citations and its token, if it has any),
    and is done as it stands in the response. Usage is told if it is known.
    """
    yield MessageStart(response.id, response.model)
    for choice in response.choices:
        for index, block in enumerate(choice.message.blocks):
            yield ContentStart(choice.index, index, _bare(block))
            for delta in _deltas(block):
                yield ContentDelta(choice.index, index, delta)
            yield ContentDone(choice.index, index, block)
        yield MessageDelta(choice.index, choice.message.stop_reason, choice.message.raw_stop_reason)
    if response.usage is not None:
        yield UsageUpdate(response.usage)
    yield MessageDone(response)


async def response_of(events: AsyncIterator[StreamEvent]) -> ChatResponse:
    """Drain a stream of events and return the reply it ends with.

    Raise what the stream raises, and `IncompleteResponse` if it ends without `MessageDone`.
    """
    response: ChatResponse | None = None
    async with closing(events):
        async for event in events:
            if isinstance(event, MessageDone):
                response = event.response
    if response is None:
        raise IncompleteResponse("the events ended without message.done")
    return response


def _bare(block: Block) -> Block:
    emptied: dict[str, object] = {"meta": None} if block.meta is not None else {}
    if type(block) in _GROWS:
        emptied[_GROWS[type(block)][0]] = ""
    if isinstance(block, Text) and block.citations:
        emptied["citations"] = ()
    elif isinstance(block, Audio) and block.transcript:
        emptied["transcript"] = None
    return msgspec.structs.replace(block, **emptied) if emptied else block


def _deltas(block: Block) -> Iterator[Delta]:
    if type(block) in _GROWS:
        field, delta = _GROWS[type(block)]
        if grown := getattr(block, field):
            yield delta(grown)
    if isinstance(block, Audio) and block.transcript:
        yield TranscriptDelta(block.transcript)
    elif isinstance(block, Text):
        for citation in block.citations:
            yield CitationDelta(citation)
    if token := _token(block.meta):
        yield SignatureDelta(token)


def _token(meta: ProviderMeta | None) -> str | None:
    """Return what streams tell of a token; ciphertexts that stand for a whole block are in the block alone."""
    match meta:
        case AnthropicMeta(signature=token) | GeminiMeta(thought_signature=token) | ChatMeta(signature=token):
            return token
        case OpenAiMeta(encrypted_content=content):
            return content
        case _:
            return None
