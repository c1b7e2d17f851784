"""Events in the form of Chat Completions chunks, and events as documents."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from tenuto.core.blocks import AnthropicMeta, Reasoning, ServerToolUse, Text, ToolUse, UrlCitation
from tenuto.core.events import (
    ArgumentsDelta,
    AudioDelta,
    CitationDelta,
    CodeDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    Delta,
    ErrorEvent,
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
from tenuto.core.messages import AssistantMessage, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.interop import to_delta_events, to_event_document, to_unified

USAGE = Usage(input_tokens=10, cache_read_tokens=5, output_tokens=3)
RESPONSE = ChatResponse("id", "row", "m", (Choice(AssistantMessage((Text("Hi"),))),), USAGE)


EVENTS = [
    (MessageStart("id", "m"), {"type": "message.start", "id": "id", "model": "m"}),
    (
        ContentStart(0, 1, ToolUse("call_1", "weather", "")),
        {
            "type": "content.start",
            "choiceIndex": 0,
            "partIndex": 1,
            "part": {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": ""},
        },
    ),
    (
        ContentDone(0, 0, Reasoning("Hm.", meta=AnthropicMeta("s"))),
        {
            "type": "content.done",
            "choiceIndex": 0,
            "partIndex": 0,
            "part": {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        },
    ),
    (
        MessageDelta(0, "tool_calls", "tool_use"),
        {"type": "message.delta", "choiceIndex": 0, "finishReason": "tool_calls", "rawFinishReason": "tool_use"},
    ),
    (
        UsageUpdate(Usage(input_tokens=1, output_tokens=2, reported_total=3)),
        {"type": "usage", "usage": {"promptTokens": 1, "completionTokens": 2, "totalTokens": 3}},
    ),
    (MessageDone(RESPONSE), {"type": "message.done", "response": to_unified(RESPONSE)}),
    (ErrorEvent("Overloaded", "{}"), {"type": "error", "error": {"message": "Overloaded", "raw": "{}"}}),
]
DELTAS = [
    (TextDelta("a"), {"type": "text", "text": "a"}),
    (ThinkingDelta("a"), {"type": "thinking", "thinking": "a"}),
    (SignatureDelta("a"), {"type": "thinking.signature", "signature": "a"}),
    (ArgumentsDelta("a"), {"type": "tool_call.arguments", "arguments": "a"}),
    (CodeDelta("a"), {"type": "code", "code": "a"}),
    (ImageDelta("a"), {"type": "image", "data": "a"}),
    (AudioDelta("a"), {"type": "audio", "data": "a"}),
    (TranscriptDelta("a"), {"type": "audio.transcript", "transcript": "a"}),
    (
        CitationDelta(UrlCitation("u", cited_text="c")),
        {"type": "citation", "citation": {"type": "url", "url": "u", "citedText": "c"}},
    ),
]


# --- events as documents ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event,document", EVENTS)
def test_event_is_written_as_specified(event, document):
    assert to_event_document(event) == document
    assert json.loads(json.dumps(document)) == document
    assert event.type == document["type"]


@pytest.mark.parametrize("delta,document", DELTAS)
def test_delta_is_written_as_specified(delta, document):
    event = to_event_document(ContentDelta(1, 2, delta))

    assert event == {"type": "content.delta", "choiceIndex": 1, "partIndex": 2, "delta": document}
    assert delta.type == document["type"]


def test_every_event_and_delta_has_a_case():
    assert {type(event) for event, _ in EVENTS} | {ContentDelta} == set(get_args(StreamEvent))
    assert {type(delta) for delta, _ in DELTAS} == set(get_args(Delta))


@pytest.mark.parametrize("value", [MessageStart("id", "m"), TextDelta("a"), Text("a"), UrlCitation("u")])
def test_type_is_read_only(value):
    with pytest.raises(AttributeError):
        value.type = "other"


# --- delta events -----------------------------------------------------------------------------------------------------


def delta(content, finish_reason=None, index=0):
    return {"type": "delta", "index": index, "delta": content, "finish_reason": finish_reason}


def test_delta_events_of_text_and_a_call():
    events = [
        MessageStart("id", "m"),
        ContentStart(0, 0, Reasoning()),
        ContentDelta(0, 0, ThinkingDelta("Hm.")),
        ContentDelta(0, 0, SignatureDelta("s")),
        ContentDone(0, 0, Reasoning("Hm.")),
        ContentStart(0, 1, Text("")),
        ContentDelta(0, 1, TextDelta("Hi")),
        ContentDelta(0, 1, CitationDelta(UrlCitation("u"))),
        ContentDone(0, 1, Text("Hi")),
        ContentStart(0, 2, ToolUse("call_1", "weather", "")),
        ContentDelta(0, 2, ArgumentsDelta('{"city":')),
        ContentDelta(0, 2, ArgumentsDelta('"Oslo"}')),
        ContentDone(0, 2, ToolUse("call_1", "weather", '{"city":"Oslo"}')),
        MessageDelta(0, "tool_calls", "tool_use"),
        UsageUpdate(Usage(input_tokens=10)),
        UsageUpdate(USAGE),
        MessageDone(RESPONSE),
    ]

    assert list(to_delta_events(events)) == [
        delta({"content": "Hi"}),
        delta({"tool_calls": [{"index": 2, "id": "call_1", "type": "function", "function": {"name": "weather"}}]}),
        delta({"tool_calls": [{"index": 2, "function": {"arguments": '{"city":'}}]}),
        delta({"tool_calls": [{"index": 2, "function": {"arguments": '"Oslo"}'}}]}),
        delta({}, "tool_calls"),
        {"type": "usage", "usage": {"prompt_tokens": 15, "completion_tokens": 3, "total_tokens": 18}},
        {"type": "done"},
    ]


def test_delta_events_omit_server_tools():
    events = [ContentStart(0, 0, ServerToolUse("s", "web_search")), ContentDelta(0, 0, ArgumentsDelta("{}"))]

    assert list(to_delta_events(events)) == []


def test_delta_events_separate_choices():
    events = [
        ContentStart(0, 0, ToolUse("a", "f", "")),
        ContentStart(1, 0, ServerToolUse("s", "web_search")),
        ContentDelta(1, 0, ArgumentsDelta("{}")),
        ContentDelta(1, 1, TextDelta("Hi")),
    ]

    assert [event["index"] for event in to_delta_events(events)] == [0, 1]


def test_delta_events_forget_calls_of_a_restarted_reply():
    events = [
        ContentStart(0, 0, ToolUse("a", "f", "")),
        MessageStart("id", "m"),
        ContentStart(0, 0, ServerToolUse("s", "web_search")),
        ContentDelta(0, 0, ArgumentsDelta("{}")),
    ]

    assert len(list(to_delta_events(events))) == 1


def test_delta_events_of_an_error_and_of_unknown_usage():
    done = MessageDone(ChatResponse("id", "row", "m", ()))

    assert list(to_delta_events([ErrorEvent("Overloaded", "{}")])) == [
        {"type": "error", "error": {"message": "Overloaded", "raw": "{}"}}
    ]
    assert list(to_delta_events([done])) == [{"type": "done"}]
