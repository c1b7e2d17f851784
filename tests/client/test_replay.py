from __future__ import annotations

import asyncio
from itertools import groupby

import msgspec
import pytest
from hypothesis import given

from strategies import broken_words, responses, responses_of
from tenuto.client.middleware.replay import collect_response, replay_events
from tenuto.core.blocks import (
    AnthropicMeta,
    Audio,
    CodeExecution,
    Image,
    Reasoning,
    Refusal,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.events import (
    ArgumentsDelta,
    AudioDelta,
    CitationDelta,
    CodeDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    ImageDelta,
    MessageDelta,
    MessageDone,
    MessageStart,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    TranscriptDelta,
    UsageUpdate,
)
from tenuto.core.messages import AssistantMessage, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import IncompleteResponse
from tenuto.wire.assembler import GROWS


def test_reply_becomes_events():
    cited = UrlCitation("u")
    blocks = (
        Reasoning("Hm.", meta=AnthropicMeta("sig")),
        Text("Hi", citations=(cited,)),
        ToolUse("call_1", "weather", '{"city": "Oslo"}'),
    )
    usage = Usage(input_tokens=1)
    response = ChatResponse("id", "row", "m", (Choice(AssistantMessage(blocks, "tool_calls", "tool_use")),), usage)

    assert list(replay_events(response)) == [
        MessageStart("id", "m"),
        ContentStart(0, 0, Reasoning()),
        ContentDelta(0, 0, ThinkingDelta("Hm.")),
        ContentDelta(0, 0, SignatureDelta("sig")),
        ContentDone(0, 0, blocks[0]),
        ContentStart(0, 1, Text("")),
        ContentDelta(0, 1, TextDelta("Hi")),
        ContentDelta(0, 1, CitationDelta(cited)),
        ContentDone(0, 1, blocks[1]),
        ContentStart(0, 2, ToolUse("call_1", "weather", "")),
        ContentDelta(0, 2, ArgumentsDelta('{"city": "Oslo"}')),
        ContentDone(0, 2, blocks[2]),
        MessageDelta(0, "tool_calls", "tool_use"),
        UsageUpdate(usage),
        MessageDone(response),
    ]


@pytest.mark.parametrize(
    "block, deltas",
    [
        (Refusal("No."), [TextDelta("No.")]),
        (CodeExecution("1+1"), [CodeDelta("1+1")]),
        (Image(data="aGk=", mime="image/png"), [ImageDelta("aGk=")]),
        (Image(url="https://example.org/a.png"), []),
        (Audio(data="aGk=", transcript="hi"), [AudioDelta("aGk="), TranscriptDelta("hi")]),
        (Text(""), []),
    ],
)
def test_content_becomes_one_delta(block, deltas):
    events = list(replay_events(ChatResponse("", "", "", (Choice(AssistantMessage((block,))),))))

    assert [event.delta for event in events if isinstance(event, ContentDelta)] == deltas
    assert not any(getattr(events[1].part, _only(delta), "") for delta in deltas)


@given(responses_of(broken_words))
def test_folding_the_events_gives_the_reply(response):
    """Blocks are in order per choice, and equal to their deltas and to their last event; the response is last."""
    events = list(replay_events(response))
    done = [event for event in events if isinstance(event, ContentDone)]
    parts = [(choice, index) for choice in response.choices for index in range(len(choice.content))]

    assert events[0] == MessageStart(response.id, response.model)
    assert events[-1] == MessageDone(response)
    assert [event.part for event in done] == [choice.content[index] for choice, index in parts]
    assert [(event.choice_index, event.part_index) for event in done] == [(c.index, index) for c, index in parts]
    for _, group in groupby((e for e in events if hasattr(e, "part_index")), key=_PartIndex()):
        start, *deltas, end = group
        assert _fold(start.part, deltas) == end.part


class _PartIndex:
    """Return the part that an event belongs to: a start begins a new one."""

    def __init__(self):
        self.count = 0

    def __call__(self, event):
        self.count += isinstance(event, ContentStart)
        return self.count


def _fold(block, deltas):
    """Fold a part as a reader would; only the finished block has the type of its token."""
    for event in deltas:
        match event.delta:
            case CitationDelta(citation=citation):
                block = msgspec.structs.replace(block, citations=(*block.citations, citation))
            case TranscriptDelta(transcript=transcript):
                block = msgspec.structs.replace(block, transcript=transcript)
            case SignatureDelta():
                pass
            case delta:
                field = GROWS[type(block)]
                block = msgspec.structs.replace(block, **{field: getattr(block, field) + getattr(delta, _only(delta))})
    return _EqualWithoutToken(block)


def _only(delta):
    return delta.__struct_fields__[0]


class _EqualWithoutToken:
    """Equal to a block that differs only in its token."""

    def __init__(self, block):
        self._block = block

    def __eq__(self, other):
        return msgspec.structs.replace(self._block, meta=other.meta) == other

    __hash__ = None


async def _stream(events):
    for event in events:
        yield event


@given(responses)
def test_draining_returns_the_response(response):
    assert asyncio.run(collect_response(_stream(replay_events(response)))) == response


def test_stream_without_an_end_is_incomplete():
    with pytest.raises(IncompleteResponse, match=r"without message\.done"):
        asyncio.run(collect_response(_stream([MessageStart("id", "m")])))
