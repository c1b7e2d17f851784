"""Reasoning: in fields, with details, between tags, in content lists."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import ChatMeta, Opaque, Reasoning, Text, ToolUse
from tenuto.core.events import ContentDelta, TextDelta, ThinkingDelta
from tenuto.core.provider import ChatSwitches
from tenuto.wire.chat.decode import ChatDecoder
from wire.chat.cases import (
    CALLED,
    FIRST,
    STREAMS,
    assistant,
    back,
    blocks,
    body,
    call,
    chunk,
    sse,
    stream,
    target,
    text,
    whole,
)

TAGS = ChatSwitches(think_tags=True)


# --- reasoning --------------------------------------------------------------------------------------------------------


def test_reasoning_precedes_text_and_has_its_field():
    response = stream(STREAMS["reasoning"])

    assert response.message.blocks == (
        Reasoning("Look up.", meta=ChatMeta(field="reasoning_content")),
        Text("It rains."),
    )
    assert back(response) == {"role": "assistant", "content": "It rains.", "reasoning_content": "Look up."}


def test_reasoning_precedes_text_within_one_frame():
    data = sse(FIRST, chunk({"content": "It rains.", "reasoning": "Look."}), chunk({}, "stop"))
    decoder = ChatDecoder(target())
    deltas = [e.delta for e in decoder.feed(data) if isinstance(e, ContentDelta)]

    assert deltas == [ThinkingDelta("Look."), TextDelta("It rains.")]


def test_reasoning_after_text_is_a_new_block():
    data = sse(
        FIRST,
        *(chunk(d) for d in ({"reasoning": "a"}, {"content": "b"}, {"reasoning": "c"}, {"content": "d"})),
        chunk({}, "stop"),
    )
    response = stream(data)

    assert [(type(b), b.text) for b in response.message.blocks] == [
        (Reasoning, "a"),
        (Text, "b"),
        (Reasoning, "c"),
        (Text, "d"),
    ]
    assert (back(response)["reasoning"], back(response)["content"]) == ("ac", "bd")


def test_reasoning_in_two_fields_is_shown_once_stored_twice():
    frames = [chunk({"reasoning": piece, "reasoning_content": piece}) for piece in ("Lo", "ok")]
    response = stream(sse(FIRST, *frames, text("Hi"), chunk({}, "stop")))
    message = assistant("Hi", reasoning="Look", reasoning_content="Look", refusal=None)

    assert response.choices[0].thinking == "Look"
    assert back(response) == message
    assert back(whole(body(message))) == message


def test_changed_reasoning_field_starts_new_block():
    response = stream(
        sse(FIRST, chunk({"reasoning": "a"}), chunk({"reasoning_content": "b"}), text("c"), chunk({}, "stop"))
    )

    assert [b.meta.field for b in response.message.blocks[:2]] == ["reasoning", "reasoning_content"]
    assert back(response)["reasoning"] == "a"
    assert back(response)["reasoning_content"] == "b"


@pytest.mark.parametrize(
    "odd", [{"reasoning": None}, {"reasoning_content": ""}, {"reasoning_details": []}, {"reasoning": {"a": 1}}]
)
def test_empty_reasoning_is_stored_without_a_block(odd):
    message = assistant("Hi", **odd)
    from_stream = stream(sse(FIRST, text("Hi"), chunk(odd), chunk({}, "stop")))

    assert whole(body(message)).message.blocks == (Text("Hi"),)
    assert back(whole(body(message))) == message
    assert back(from_stream) == {**message, "refusal": None}


DETAIL = {"type": "reasoning.text", "text": "Look.", "format": "anthropic-claude-v1", "index": 0}


def test_details_are_stored_raw_with_their_copy():
    details = [{**DETAIL, "signature": "Er=", "cost": 1.5}, {"type": "reasoning.encrypted", "data": "x", "id": None}]
    message = assistant("Hi", reasoning="Look.", reasoning_details=details)
    response = whole(body(message))
    thought = response.message.blocks[0]

    assert (thought.text, thought.meta.field, json.loads(thought.meta.details)) == ("Look.", "reasoning", details)
    assert back(response) == message


def test_streamed_details_are_joined_and_text_shown_once():
    frames = [
        chunk({"content": "", "reasoning": "Lo", "reasoning_details": [{**DETAIL, "text": "Lo"}]}),
        chunk({"content": "", "reasoning": "ok.", "reasoning_details": [{**DETAIL, "text": "ok."}]}),
        chunk({"content": "", "reasoning": None, "reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "Er="}]}),
        chunk({"content": "Hi", "reasoning": None, "reasoning_details": []}),
    ]  # fmt: skip
    response = stream(sse(FIRST, *frames, chunk({}, "stop")))
    thought, answer = response.message.blocks

    assert (thought.text, answer) == ("Look.", Text("Hi"))
    assert json.loads(thought.meta.details) == [{**DETAIL, "signature": "Er="}]
    assert back(response)["reasoning_details"] == [{**DETAIL, "signature": "Er="}]


def test_details_without_copy_give_the_text():
    frames = [chunk({"reasoning_details": [{**DETAIL, "text": piece}]}) for piece in ("Lo", "ok.")]
    response = stream(sse(FIRST, *frames, text("Hi"), chunk({}, "stop")))
    thought = response.message.blocks[0]

    assert (thought.text, thought.meta.field) == ("Look.", "reasoning_details")
    assert "reasoning" not in back(response)


def test_reasoning_copy_after_details_is_not_shown():
    frames = [chunk({"reasoning_details": [DETAIL]}), chunk({"reasoning": "Look."})]
    response = stream(sse(FIRST, *frames, text("Hi"), chunk({}, "stop")))

    assert response.choices[0].thinking == "Look."
    assert back(response)["reasoning"] == "Look."


def test_encrypted_reasoning_is_a_block_without_text():
    details = [{"type": "reasoning.encrypted", "data": "B7oH", "id": "rs_1", "format": "xai-responses-v1", "index": 0}]
    message = assistant("Hi", reasoning=None, reasoning_details=details)
    response = whole(body(message))

    assert response.message.blocks[0].text == ""
    assert json.loads(response.message.blocks[0].meta.details) == details
    assert back(response) == message


def test_details_after_text_belong_to_open_reasoning():
    frames = [
        chunk({"reasoning": "Look.", "reasoning_details": [DETAIL]}),
        text("Hi"),
        chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "Er="}]}),
        text(" there"),
    ]
    response = stream(sse(FIRST, *frames, chunk({}, "stop")))

    assert [type(b) for b in response.message.blocks] == [Reasoning, Text]
    assert json.loads(response.message.blocks[0].meta.details) == [{**DETAIL, "signature": "Er="}]
    assert response.text == "Hi there"


# --- think tags -------------------------------------------------------------------------------------------------------

TAGGED = "\n<think>Look </thinking> up.</think>\n\nWrite <think> yourself."


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_think_tags_across_frames_are_written_back(size):
    frames = [text(TAGGED[at : at + size]) for at in range(0, len(TAGGED), size)]
    response = stream(sse(FIRST, *frames, chunk({}, "stop")), TAGS)

    assert [(type(b), b.text) for b in response.message.blocks] == [
        (Reasoning, "Look </thinking> up."),
        (Text, "\n\nWrite <think> yourself."),
    ]
    assert response.message.blocks[0].meta == ChatMeta(field="think")
    assert back(response)["content"] == TAGGED


def test_think_tags_are_text_without_switch():
    assert blocks(sse(FIRST, text(TAGGED), chunk({}, "stop"))) == (Text(TAGGED),)


def test_think_tags_in_body():
    response = whole(body(assistant(TAGGED)), TAGS)

    assert [type(b) for b in response.message.blocks] == [Reasoning, Text]
    assert back(response) == assistant(TAGGED)


@pytest.mark.parametrize("content", ["<think>never closed", "<think></think>", "<thi", "  ", "<think>a</think>"])
def test_unusual_think_tags_are_written_back(content):
    frames = [text(piece) for piece in content]
    response = stream(sse(chunk({"role": "assistant"}), *frames, chunk({}, "stop")), TAGS)

    assert back(response) == assistant(content)


def test_call_ends_unclosed_think_tag():
    response = stream(sse(CALLED, text("<think>Look"), call(0, "{}", id="a", name="f"), chunk({}, "stop")), TAGS)

    assert [type(b) for b in response.message.blocks] == [Reasoning, ToolUse]
    assert back(response)["content"] == "<think>Look"


def test_think_tags_are_text_after_reasoning_field():
    response = stream(sse(FIRST, chunk({"reasoning": "a"}), text("<think>b</think>c"), chunk({}, "stop")), TAGS)

    assert [(type(b), b.text) for b in response.message.blocks] == [(Reasoning, "a"), (Text, "<think>b</think>c")]


def test_possible_tag_is_text_when_reasoning_field_follows():
    response = stream(sse(FIRST, text("<thi"), chunk({"reasoning": "a"}), text("s"), chunk({}, "stop")), TAGS)

    assert [(type(b), b.text) for b in response.message.blocks] == [(Text, "<thi"), (Reasoning, "a"), (Text, "s")]


# --- content lists ----------------------------------------------------------------------------------------------------


def thinking(piece: str, **fields: object) -> dict:
    return {"type": "thinking", "thinking": [{"type": "text", "text": piece}], **fields}


def test_content_list_is_written_back_unchanged():
    content = [
        thinking("Look.", signature="Er=", closed=True),
        thinking("Again."),
        {"type": "text", "text": "It rains.", "n": 1},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": ""},
        "odd",
        {"type": "thinking", "thinking": [{"type": "text", "text": "a"}, {"type": "reference", "ids": [2]}]},
        {"type": "thinking", "thinking": []},
        {"type": "thinking", "thinking": "plain"},
    ]
    response = whole(body(assistant(content)))

    assert [type(b) for b in response.message.blocks] == [
        Reasoning, Reasoning, Text, Opaque, Text, Opaque, Reasoning, Reasoning, Reasoning,
    ]  # fmt: skip
    assert response.message.blocks[0].meta == ChatMeta(field="content", signature="Er=")
    assert [b.text for b in response.message.blocks if isinstance(b, Reasoning)] == [
        "Look.",
        "Again.",
        "a",
        "",
        "plain",
    ]
    assert back(response) == assistant(content)


def test_stream_may_mix_text_and_content_lists():
    frames = [
        chunk({"content": ""}),
        chunk({"content": [thinking("Lo")]}),
        chunk({"content": [thinking("ok.", closed=True)]}),
        chunk({"content": [{"type": "thinking", "thinking": [], "signature": "Er="}]}),
        chunk({"content": [{"type": "text", "text": "It "}]}),
        text("rains."),
    ]
    response = stream(sse(FIRST, *frames, chunk({}, "stop")))

    assert response.message.blocks == (
        Reasoning("Look.", meta=ChatMeta(field="content", signature="Er="), extra='{"closed":true}'),
        Text("It rains."),
    )
    assert back(response)["content"] == [
        thinking("Look.", signature="Er=", closed=True),
        {"type": "text", "text": "It rains."},
    ]


def test_signed_thinking_is_not_extended():
    frames = [chunk({"content": [thinking("a", signature="Er=")]}), chunk({"content": [thinking("b")]})]

    assert [b.text for b in blocks(sse(FIRST, *frames, chunk({}, "stop")))] == ["a", "b"]


def test_streamed_thinking_keeps_unknown_elements():
    odd = {"type": "reference", "ids": [1]}
    pieces = (
        [{"type": "text", "text": "Lo"}],
        [],
        [{"type": "text", "text": "ok"}, odd],
        [{"type": "text", "text": "."}],
    )
    frames = [chunk({"content": [{"type": "thinking", "thinking": piece}]}) for piece in pieces]
    response = stream(sse(FIRST, *frames, chunk({}, "stop")))
    inner = [{"type": "text", "text": "Look"}, odd, {"type": "text", "text": "."}]

    assert response.choices[0].thinking == "Look."
    assert back(response)["content"] == [{"type": "thinking", "thinking": inner}]


def test_thinking_may_be_a_string():
    frames = [chunk({"content": [{"type": "thinking", "thinking": piece}]}) for piece in ("Lo", "ok.")]
    response = stream(sse(FIRST, *frames, chunk({}, "stop")))

    assert response.choices[0].thinking == "Look."
    assert back(response)["content"] == [{"type": "thinking", "thinking": "Look."}]


def test_unknown_content_elements_keep_their_position():
    frames = [text("a"), chunk({"content": [{"type": "reference", "ids": [1]}]}), text("b")]

    assert [type(b) for b in blocks(sse(FIRST, *frames, chunk({}, "stop")))] == [Text, Opaque, Text]


@pytest.mark.parametrize("content", [None, "", [], 5])
def test_empty_content_is_written_back_unchanged(content):
    response = whole(body(assistant(content)))

    assert response.message.blocks == ()
    assert back(response) == assistant(content)
    assert bool(response.losses) == (content in ({"odd": 1}, 5))


@pytest.mark.parametrize("piece", ["", "Hm."])
@pytest.mark.parametrize("more", [{}, {"closed": True}, {"closed": False}, {"closed": None}])
def test_single_thinking_element_is_written_back(piece, more):
    """The fast and the slow path give the same result, also for an empty text."""
    element = {"type": "thinking", "thinking": [{"type": "text", "text": piece}], **more}
    from_stream = stream(sse(FIRST, chunk({"content": [element]}), chunk({}, "stop")))

    assert back(from_stream)["content"] == [element]
    assert back(whole(body(assistant([element]))))["content"] == [element]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_details_next_to_text_field_keep_every_fragment(field):
    def thought(piece):
        return chunk({field: piece, "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": piece}]})

    pieces = ("The", " answer", " is", " 4.")
    response = stream(sse(FIRST, *map(thought, pieces), text("4"), chunk({}, "stop")))
    block = response.message.blocks[0]

    assert (block.text, block.meta.field) == ("The answer is 4.", field)
    assert json.loads(block.meta.details) == [{"type": "reasoning.text", "index": 0, "text": "The answer is 4."}]
