from __future__ import annotations

import copy

from hypothesis import given, settings

from strategies import broken_words, responses_of
from tenuto.core.blocks import (
    AnthropicMeta,
    Audio,
    Image,
    Reasoning,
    Refusal,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.messages import AssistantMessage, ToolCallView
from tenuto.core.response import ChatResponse, Choice

PICTURE = Image("aGk=", "image/png")
SOUND = Audio("aGk=", "audio/wav")
CHOICE = Choice(
    AssistantMessage(
        (
            Reasoning("First ", meta=AnthropicMeta("s")),
            Text("Hello ", (UrlCitation("a"),)),
            Reasoning("then."),
            ToolUse("1", "weather", "{}"),
            ServerToolUse("2", "web_search", "{}"),
            PICTURE,
            SOUND,
            Audio("bm8="),
            Refusal("No."),
            Text("world", (UrlCitation("b"), UrlCitation("c"))),
        ),
        "stop",
        "end_turn",
    )
)


def test_choice_gives_parts_by_kind():
    assert CHOICE.text == "Hello No.world"
    assert CHOICE.thinking == "First then."
    assert CHOICE.tool_calls == [ToolCallView("1", "weather", "{}")]
    assert CHOICE.images == [PICTURE]
    assert CHOICE.audio == SOUND
    assert CHOICE.citations == [UrlCitation("a"), UrlCitation("b"), UrlCitation("c")]
    assert CHOICE.content == CHOICE.message.blocks
    assert CHOICE.finish_reason == "stop"
    assert CHOICE.raw_finish_reason == "end_turn"


def test_empty_choice_has_no_parts():
    empty = Choice(AssistantMessage(()))

    assert (empty.text, empty.thinking, empty.tool_calls, empty.images, empty.audio) == ("", "", [], [], None)
    assert empty.citations == []


def test_response_uses_its_first_choice():
    response = ChatResponse("id", "row", "m", (CHOICE,), extra='{"service_tier":"default","n":null}')

    assert response.text == CHOICE.text
    assert response.message == CHOICE.message
    assert response.field("service_tier") == "default"
    assert response.field("n") is None
    assert response.field("other") is None


def test_response_without_choices_is_empty():
    response = ChatResponse("id", "row", "m", ())

    assert response.text == ""
    assert response.message == AssistantMessage(())
    assert response.field("any") is None


@settings(max_examples=25)
@given(responses_of(broken_words))
def test_response_equals_its_copy_and_hashes_alike(response):
    assert copy.deepcopy(response) == response
    assert hash(copy.deepcopy(response)) == hash(response)
    assert isinstance(repr(response), str)
