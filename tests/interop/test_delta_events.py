"""Events in the form of Chat Completions chunks, and events as documents."""

from __future__ import annotations

from tenuto.core.blocks import Reasoning, ServerToolUse, Text, ToolUse, UrlCitation
from tenuto.core.events import (
    ArgumentsDelta,
    CitationDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    Failure,
    MessageDelta,
    MessageDone,
    MessageStart,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from tenuto.core.messages import AssistantMessage, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.interop.delta_events import to_delta_events

USAGE = Usage(input_tokens=10, cache_read_tokens=5, output_tokens=3)
RESPONSE = ChatResponse("id", "row", "m", (Choice(AssistantMessage((Text("Hi"),))),), USAGE)


def delta(content, finish_reason=None, index=0):
    return {"type": "delta", "index": index, "delta": content, "finish_reason": finish_reason}


def test_the_older_events_of_a_reply_with_text_and_a_call():
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


def test_the_older_events_know_no_server_tools():
    events = [ContentStart(0, 0, ServerToolUse("s", "web_search")), ContentDelta(0, 0, ArgumentsDelta("{}"))]

    assert list(to_delta_events(events)) == []


def test_the_older_events_keep_choices_apart():
    events = [
        ContentStart(0, 0, ToolUse("a", "f", "")),
        ContentStart(1, 0, ServerToolUse("s", "web_search")),
        ContentDelta(1, 0, ArgumentsDelta("{}")),
        ContentDelta(1, 1, TextDelta("Hi")),
    ]

    assert [event["index"] for event in to_delta_events(events)] == [0, 1]


def test_a_reply_that_starts_over_forgets_its_calls():
    events = [
        ContentStart(0, 0, ToolUse("a", "f", "")),
        MessageStart("id", "m"),
        ContentStart(0, 0, ServerToolUse("s", "web_search")),
        ContentDelta(0, 0, ArgumentsDelta("{}")),
    ]

    assert len(list(to_delta_events(events))) == 1


def test_the_older_events_tell_of_errors_and_of_unknown_usage():
    done = MessageDone(ChatResponse("id", "row", "m", ()))

    assert list(to_delta_events([Failure("Overloaded", "{}")])) == [
        {"type": "error", "error": {"message": "Overloaded", "raw": "{}"}}
    ]
    assert list(to_delta_events([done])) == [{"type": "done"}]
