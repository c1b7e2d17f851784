"""A stream: every kind of event, distinguished by its type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never, assert_type

from tenuto import ChatResponse, Client, Reply, Usage
from tenuto.blocks import Block
from tenuto.events import (
    ContentDelta,
    ContentDone,
    ContentStart,
    ErrorEvent,
    MessageDelta,
    MessageDone,
    MessageStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)


def describe(event: StreamEvent) -> str:
    match event:
        case ContentDelta(delta=TextDelta(text=text)):
            assert_type(text, str)
            return text
        case ContentDelta(delta=ThinkingDelta(thinking=thought)):
            return thought
        case ContentStart(part=part) | ContentDone(part=part):
            assert_type(part, Block)
            return repr(part)
        case UsageUpdate(usage=usage):
            assert_type(usage, Usage)
            return str(usage.total_tokens)
        case MessageDone(response=response):
            assert_type(response, ChatResponse)
            return response.text
        case MessageStart() | MessageDelta() | ContentDelta():
            return ""
        case ErrorEvent(message=message):
            return message
        case _:
            assert_never(event)


with Client() as ai:
    with ai.stream("google/gemini-3-flash-preview", "Write a haiku.", effort="low") as stream:
        for event in stream:
            assert_type(event, StreamEvent)
            print(describe(event), end="")
        assert_type(stream.reply, Reply)
        assert_type(stream.headers, Mapping[str, str])

    with ai.stream("google/gemini-3-flash-preview", "And another.") as stream:
        for piece in stream.text_deltas():
            assert_type(piece, str)
            if len(piece) > 100:
                partial = stream.cancel()
                assert_type(partial, Reply)
                break

    assert_type(ai.stream("google/gemini-3-flash-preview", "A third.").drain(), Reply)
