"""Reading the chat dialect: nothing is lost, nothing moves, and bad bytes give clear errors."""

from __future__ import annotations

import json

import pytest

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    ChatMeta,
    Image,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.events import (
    AudioDelta,
    CitationDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    Failure,
    MessageDelta,
    MessageDone,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    TranscriptDelta,
    UsageUpdate,
)
from tenuto.core.messages import Origin
from tenuto.core.target import ChatSwitches
from tenuto.errors import BadRequest, ContextTooLong, IncompleteResponse, LLMError, ProtocolError, RateLimited
from tenuto.wire.chat.decode import ChatDecoder
from tenuto.wire.chat.encode import verbatim
from tenuto.wire.codec import read
from wire.chat.cases import (
    ANNOTATION,
    CALLED,
    FIRST,
    HEAD,
    STREAMS,
    USAGE,
    WEATHER,
    WHOLE,
    back,
    body,
    call,
    chunk,
    said,
    sse,
    stream,
    target,
    text,
    whole,
)

TAGS = ChatSwitches(think_tags=True)


def blocks(data: bytes, switches: ChatSwitches | None = None):
    return stream(data, switches).message.blocks


# --- text and the frames around it ------------------------------------------------------------------------------------


def test_text_grows_piece_by_piece_and_the_rest_stands_beside():
    response = stream(STREAMS["text"])

    assert response.message.blocks == (Text("Hello, wörld ☃"),)
    assert (response.id, response.model, response.provider) == ("chatcmpl-1", "gpt-x", "here")
    assert (response.message.stop_reason, response.message.raw_stop) == ("stop", "stop")
    assert response.message.origin == Origin("here", "openai-chat", "gpt-x")
    assert json.loads(response.extra) == {
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "system_fingerprint": "fp_1",
    }
    assert json.loads(response.message.extra) == {"refusal": None}
    assert json.loads(response.choices[0].extra) == {"logprobs": None}
    assert json.loads(response.raw_usage) == USAGE


def test_events_tell_of_each_part_in_turn():
    decoder = ChatDecoder(target())
    events = [*decoder.feed(STREAMS["text"]), *decoder.finish()]

    assert [type(event) for event in events] == [
        MessageStart,
        ContentStart,
        *[ContentDelta] * 3,
        ContentDone,
        MessageDelta,
        UsageUpdate,
        MessageDone,
    ]
    assert events[0] == MessageStart("chatcmpl-1", "gpt-x")
    assert events[6] == MessageDelta(0, "stop", "stop")


@pytest.mark.parametrize("name", STREAMS)
def test_deltas_of_a_part_joined_are_the_part(name):
    decoder = ChatDecoder(target())
    events = [*decoder.feed(STREAMS[name]), *decoder.finish()]
    grown: dict[tuple[int, int], str] = {}
    for event in events:
        if isinstance(event, ContentDelta) and not isinstance(event.delta, TranscriptDelta | CitationDelta):
            key = (event.choice_index, event.part_index)
            grown[key] = grown.get(key, "") + getattr(event.delta, event.delta.__struct_fields__[0])
    done = {(e.choice_index, e.part_index): e.part for e in events if isinstance(e, ContentDone)}
    response = events[-1].response

    assert done == {(c.index, at): part for c in response.choices for at, part in enumerate(c.message.blocks)}
    for key, part in done.items():
        held = part.args if isinstance(part, ToolUse) else part.data if isinstance(part, Audio) else part.text
        assert grown.get(key, "") == held


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_where_the_bytes_are_cut_changes_nothing(name, size, ends):
    data = STREAMS[name].replace(b"\n", ends)

    cut = read(ChatDecoder(target()), [data[at : at + size] for at in range(0, len(data), size)])

    assert cut == stream(STREAMS[name])


@pytest.mark.parametrize("name", STREAMS)
def test_rare_spellings_of_a_frame_are_read_as_the_common_ones(name):
    """An unknown field sends every frame the long way round; it says the same."""
    frames = [json.loads(line[6:]) for line in STREAMS[name].split(b"\n\n") if line and b"[DONE]" not in line]
    odd = stream(sse(*({**frame, "brand_new": 1.10} for frame in frames)))
    plain = stream(STREAMS[name])

    assert [c.message for c in odd.choices] == [c.message for c in plain.choices]
    assert [c.extra for c in odd.choices] == [c.extra for c in plain.choices]
    assert json.loads(odd.extra) == {**json.loads(plain.extra), "brand_new": 1.10}


def test_padding_is_not_kept():
    assert "obfuscation" not in stream(STREAMS["padded"]).extra


def test_empty_frames_say_nothing():
    assert stream(sse(FIRST, "", text("Hi"), " ", chunk({}, "stop"))).text == "Hi"


def test_the_first_frame_may_be_empty_of_everything():
    azure = {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": [{"index": 0}]}
    data = sse(azure, chunk(None), FIRST, text("Hi"), chunk({}, "stop"))
    decoder = ChatDecoder(target())
    events = decoder.feed(data)
    response = decoder.finish()[-1].response

    assert events[0] == MessageStart("chatcmpl-1", "gpt-x")
    assert response.message.blocks == (Text("Hi"),)
    assert json.loads(response.extra)["prompt_filter_results"] == [{"index": 0}]


def test_later_values_of_unknown_fields_count_and_null_never_replaces_one():
    frames = (
        {**FIRST, "system_fingerprint": None, "service_tier": "auto"},
        {**text("a"), "service_tier": None, "created": 1},
        {**text("b"), "service_tier": "default", "created": 2},
        {**text("c"), "service_tier": "default", "created": 3},
        {**text("d"), "service_tier": None, "created": 4, "novel": {"a": 1}},
        {**chunk({}, "stop"), "novel": {"b": 2}, "created": 5},
    )
    extra = json.loads(stream(sse(*frames)).extra)

    assert extra["service_tier"] == "default"
    assert extra["system_fingerprint"] == "fp_1"
    assert extra["novel"] == {"a": 1, "b": 2}
    assert extra["created"] == 5


def test_an_id_for_every_frame_is_taken_once():
    frames = [
        {**FIRST, "id": "a"},
        *({**text(piece), "id": piece} for piece in "xyz"),
        {**chunk({}, "stop"), "id": "b"},
    ]

    assert (stream(sse(*frames)).id, stream(sse(*frames)).text) == ("a", "xyz")


def test_unknown_delta_fields_stay_on_the_message_and_choice_fields_on_the_choice():
    data = sse(
        FIRST,
        chunk({"content": "a", "channel": "final", "executed_tools": [{"index": 0, "arguments": "q"}]}),
        chunk({"content": "b", "executed_tools": [{"index": 0, "output": 1.10}, {"index": 1, "type": "search"}]}),
        {
            **chunk({}, "stop"),
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "native_finish_reason": "end"}],
        },
    )
    response = stream(data.replace(b'"output": 1.1}', b'"output": 1.10}'))

    assert '"output":1.10' in response.message.extra
    assert json.loads(response.message.extra)["executed_tools"] == [
        {"index": 0, "arguments": "q", "output": 1.1},
        {"index": 1, "type": "search"},
    ]
    assert json.loads(response.message.extra)["channel"] == "final"
    assert json.loads(response.choices[0].extra)["native_finish_reason"] == "end"


def test_log_probabilities_go_on_from_frame_to_frame():
    extra = stream(STREAMS["log probabilities"]).choices[0].extra

    assert json.loads(extra)["logprobs"] == {
        "content": [
            {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []},
            {"token": "b", "logprob": -1, "bytes": [98], "top_logprobs": []},
        ],
        "refusal": None,
    }


def test_several_choices_are_kept_apart():
    response = stream(STREAMS["several choices"])

    assert [(c.index, c.text, c.finish_reason) for c in response.choices] == [(0, "one", "length"), (1, "two", "stop")]


def test_a_choice_may_name_its_place_as_text_or_not_at_all():
    response = stream(sse(chunk({"content": "a"}, index="1"), chunk({"content": "b"}, index=None), chunk({}, "stop")))

    assert [(c.index, c.text) for c in response.choices] == [(0, "b"), (1, "a")]


def test_a_message_that_repeats_the_delta_is_not_read_twice():
    deltas = ({"role": "assistant"}, {"content": "Hel"}, {"content": "lo"}, {})
    frames = []
    for delta, so_far in zip(deltas, ("", "Hel", "Hello", "Hello"), strict=True):
        repeated = {"role": "assistant", "content": so_far, "graph_data": {"sources": [so_far]}}
        choice = {"index": 0, "delta": delta, "message": repeated, "text": so_far, "logprobs": None}
        frames.append({**HEAD, "choices": [{**choice, "finish_reason": None if delta else "stop"}]})
    response = stream(sse(*frames))

    assert response.message.blocks == (Text("Hello"),)
    assert json.loads(response.message.extra)["graph_data"] == {"sources": ["Hello"]}
    assert json.loads(response.choices[0].extra) == {"logprobs": None}


def test_a_frame_with_a_message_only_is_read_as_a_delta():
    frame = {**HEAD, "choices": [{"index": 0, "message": said("Hi"), "finish_reason": "stop"}]}

    assert stream(sse(frame)).message.blocks == (Text("Hi"),)


# --- calls ------------------------------------------------------------------------------------------------------------


def test_arguments_are_the_exact_text():
    (block,) = blocks(STREAMS["call"])

    assert block == ToolUse("call_1", "weather", '{"city": "Oslo", "n": 1.10}')
    assert stream(STREAMS["call"]).message.stop_reason == "tool_calls"


def test_calls_stand_in_the_order_in_which_they_began():
    assert [(b.id, b.args) for b in blocks(STREAMS["two calls, interleaved"])] == [
        ("call_1", '{"city":"Oslo"}'),
        ("call_2", '{"city":"Bergen"}'),
    ]


def test_text_ends_where_a_call_begins():
    assert [type(b) for b in blocks(STREAMS["text, then a call"])] == [Text, ToolUse]


def test_text_behind_a_call_is_a_block_of_its_own_and_one_text_on_the_wire():
    response = stream(
        sse(CALLED, text("a"), chunk({"tool_calls": [WEATHER]}), call(0, "{}"), text("b"), chunk({}, "stop"))
    )

    assert [type(b) for b in response.message.blocks] == [Text, ToolUse, Text]
    assert back(response)["content"] == "ab"


def test_calls_are_whole_whatever_the_word_that_ends_them():
    response = stream(sse(CALLED, chunk({"tool_calls": [WEATHER]}), call(0, "{}"), chunk({}, "stop")))

    assert response.message.blocks == (ToolUse("call_1", "weather", "{}"),)
    assert response.message.stop_reason == "stop"


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([call(0, "{", id="a", name="f"), call(0, "}", id="a", name="f")], id="id and name repeated"),
        pytest.param([call(0, "{", id="a", name="f"), call(0, "}", id="", name="")], id="then empty"),
        pytest.param([call(0, None, id="a", name="f"), call(0, "{}")], id="null, then text"),
        pytest.param([call(None, "{", id="a", name="f"), call(None, "}")], id="no index"),
        pytest.param([call(None, "{", id="a", name="f"), call(None, "}", id="a")], id="no index, id repeated"),
        pytest.param([call(0, "{}", id="a", name="f"), call(0, "")], id="whole, then nothing"),
        pytest.param([call("0", "{", id="a", name="f"), call("0", "}")], id="index as text"),
    ],
)
def test_pieces_of_one_call_find_each_other(pieces):
    response = stream(sse(CALLED, *pieces, chunk({}, "tool_calls")))

    assert [(b.id, b.name, b.args) for b in response.message.blocks] == [("a", "f", "{}")]
    assert response.losses == ()


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([call(0, "{}", id="a", name="f"), call(0, "[]", id="b", name="g")], id="all at index 0"),
        pytest.param(
            [call(0, "{", id="a", name="f"), call(0, "[", id="b", name="g"), call(0, "}", id="a"), call(0, "]", id="b")],
            id="all at index 0, in pieces",
        ),
        pytest.param([call(None, "{}", id="a", name="f"), call(None, "[]", id="b", name="g")], id="no index"),
        pytest.param(
            [
                chunk({"tool_calls": [{"id": i, "function": {"name": n, "arguments": a}} for i, n, a in ("af{", "bg[")]}),
                call(None, "}", id="a"),
                call(None, "]", id="b"),
            ],
            id="no index, in pieces",
        ),
    ],
)  # fmt: skip
def test_calls_that_share_a_place_are_told_apart_by_their_ids(pieces):
    response = stream(sse(CALLED, *pieces, chunk({}, "tool_calls")))

    assert [(b.id, b.name, b.args) for b in response.message.blocks] == [("a", "f", "{}"), ("b", "g", "[]")]


def test_calls_with_neither_id_nor_index_are_told_apart_by_their_names():
    pieces = [chunk({"tool_calls": [{"function": {"name": n, "arguments": "{}"}} for n in ("f", "g")]})]
    response = stream(sse(CALLED, *pieces, chunk({}, "tool_calls")))

    assert [(b.name, b.minted, b.id[:4]) for b in response.message.blocks] == [("f", True, "tnt_"), ("g", True, "tnt_")]
    assert len({b.id for b in response.message.blocks}) == 2
    assert [c.get("id", c.get("type")) for c in back(response)["tool_calls"]] == [None, None]


def test_the_same_id_twice_without_an_index_is_two_calls():
    pieces = [chunk({"tool_calls": [{"id": "null", "function": {"name": n, "arguments": "{}"}}]}) for n in ("f", "g")]

    assert [b.name for b in blocks(sse(CALLED, *pieces, chunk({}, "tool_calls")))] == ["f", "g"]


def test_a_call_that_is_renamed_on_its_way_keeps_its_first_name_and_says_so():
    pieces = [call(0, "{", id="a", name="f"), call(0, "}", name="g")]
    response = stream(sse(CALLED, *pieces, chunk({}, "tool_calls")))

    assert response.message.blocks == (ToolUse("a", "f", "{}"),)
    assert [loss.rule for loss in response.losses] == ["renamed-call"]


def test_arguments_that_come_as_an_object_keep_their_text_and_go_back_as_an_object():
    raw = b'{"id":"a","type":"function","function":{"name":"f","arguments":{"n": 1.10}}}'
    response = whole(body(said(None, tool_calls=["@"]), "tool_calls").replace(b'"@"', raw))
    (block,) = response.message.blocks

    assert block.args == '{"n": 1.10}'
    assert b'"arguments":{"n": 1.10}' in jsonio.encode(verbatim(response.message))


@pytest.mark.parametrize(
    "function",
    [
        {"name": "f", "arguments": None},
        {"name": "f"},
        {"name": "f", "arguments": ""},
        {"name": None, "arguments": "{}"},
    ],
)
def test_arguments_that_are_null_absent_or_empty_go_back_as_they_came(function):
    message = said(None, tool_calls=[{"id": "a", "type": "function", "function": function}])
    response = whole(body(message, "tool_calls"))
    (block,) = response.message.blocks

    assert block.no_args == (function.get("arguments") is None)
    assert back(response) == message


@pytest.mark.parametrize(
    "odd",
    [
        {"index": 0},
        {"index": None, "caller": {"n": 1}},
        {"type": ""},
        {"type": "builtin_function"},
        {"id": ""},
        {"id": None},
        {"extra_content": {"google": {"thought_signature": "Eg=="}}},
        {"function": {"name": "f", "arguments": "{}", "strict": True}},
    ],
)
def test_every_field_of_a_call_goes_back_as_it_came(odd):
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, **odd}
    message = said(None, tool_calls=[call])

    assert back(whole(body(message, "tool_calls"))) == message


def test_a_call_without_a_type_goes_back_without_one():
    message = said(None, tool_calls=[{"id": "a", "function": {"name": "f", "arguments": "{}"}}])
    response = whole(body(message, "tool_calls"))

    assert response.message.blocks[0].kind == "function"
    assert back(response) == message


def test_a_call_of_an_unknown_shape_is_kept_as_it_is():
    message = said(None, tool_calls=[{"id": "a", "type": "robot", "robot": {"arm": 1}}])
    response = whole(body(message, "tool_calls"))

    assert [type(b) for b in response.message.blocks] == [Opaque]
    assert back(response) == message


def test_a_call_whose_object_comes_later_begins_then():
    pieces = [chunk({"tool_calls": [{"index": 0, "id": "a", "type": "function"}]}), call(0, "{}", name="f")]

    assert blocks(sse(CALLED, *pieces, chunk({}, "tool_calls"))) == (ToolUse("a", "f", "{}"),)


def test_a_call_that_begins_without_an_id_is_named():
    response = stream(sse(CALLED, call(0, "", id="a", name="f"), call(1, "{}"), call(0, "[]"), chunk({}, "stop")))

    assert [(b.name, b.args, b.minted) for b in response.message.blocks] == [("f", "[]", False), ("", "{}", True)]


def test_broken_arguments_are_kept_with_the_reason():
    response = stream(sse(CALLED, call(0, '{"a":', id="a", name="f"), chunk({}, "length")))
    (block,) = response.message.blocks

    assert (block.args, bool(block.broken)) == ('{"a":', True)
    assert [loss.rule for loss in response.losses] == ["broken-arguments"]
    assert back(response)["tool_calls"][0]["function"]["arguments"] == '{"a":'


def test_a_custom_call_has_free_text_for_its_input():
    response = stream(STREAMS["custom call"])

    assert response.message.blocks == (ToolUse("call_1", "sql", "select 1", "custom"),)
    assert back(response)["tool_calls"] == [
        {"id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    ]


@pytest.mark.parametrize(
    "response", [stream(STREAMS["function call"]), whole(WHOLE["function call"])], ids=["sse", "json"]
)
def test_the_older_function_call_is_a_call_with_a_made_up_id(response):
    (block,) = response.message.blocks

    assert (block.name, block.minted, response.message.stop_reason) == ("weather", True, "tool_calls")
    assert back(response)["function_call"] == {"name": "weather", "arguments": block.args}
    assert "tool_calls" not in back(response)


def test_an_empty_function_call_is_none():
    message = said(
        "Hi", function_call={"name": "", "arguments": ""}, tool_calls=None, refusal="", audio={"id": "", "data": ""}
    )
    response = whole(body(message))

    assert response.message.blocks == (Text("Hi"),)
    assert back(response) == message


def test_minted_ids_are_the_same_for_the_same_bytes_and_differ_by_seed():
    def id_of(seed: str) -> str:
        decoder = ChatDecoder(target(), seed=seed)
        return read(decoder, [STREAMS["function call"]]).message.blocks[0].id

    assert id_of("a") == id_of("a") != id_of("b")


# --- reasoning --------------------------------------------------------------------------------------------------------


def test_reasoning_comes_before_text_and_remembers_its_field():
    response = stream(STREAMS["reasoning"])

    assert response.message.blocks == (
        Reasoning("Look up.", meta=ChatMeta(field="reasoning_content")),
        Text("It rains."),
    )
    assert back(response) == {"role": "assistant", "content": "It rains.", "reasoning_content": "Look up."}


def test_reasoning_and_text_in_one_frame_are_told_in_that_order():
    data = sse(FIRST, chunk({"content": "It rains.", "reasoning": "Look."}), chunk({}, "stop"))
    decoder = ChatDecoder(target())
    deltas = [e.delta for e in decoder.feed(data) if isinstance(e, ContentDelta)]

    assert deltas == [ThinkingDelta("Look."), TextDelta("It rains.")]


def test_reasoning_that_goes_on_after_text_is_a_block_of_its_own():
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


def test_reasoning_in_two_fields_is_shown_once_and_kept_twice():
    frames = [chunk({"reasoning": piece, "reasoning_content": piece}) for piece in ("Lo", "ok")]
    response = stream(sse(FIRST, *frames, text("Hi"), chunk({}, "stop")))
    message = said("Hi", reasoning="Look", reasoning_content="Look", refusal=None)

    assert response.choices[0].thinking == "Look"
    assert back(response) == message
    assert back(whole(body(message))) == message


def test_a_field_that_changes_in_the_middle_begins_a_block():
    response = stream(
        sse(FIRST, chunk({"reasoning": "a"}), chunk({"reasoning_content": "b"}), text("c"), chunk({}, "stop"))
    )

    assert [b.meta.field for b in response.message.blocks[:2]] == ["reasoning", "reasoning_content"]
    assert back(response)["reasoning"] == "a"
    assert back(response)["reasoning_content"] == "b"


@pytest.mark.parametrize(
    "odd", [{"reasoning": None}, {"reasoning_content": ""}, {"reasoning_details": []}, {"reasoning": {"a": 1}}]
)
def test_reasoning_that_says_nothing_is_no_block_and_goes_back_as_it_came(odd):
    message = said("Hi", **odd)
    streamed = stream(sse(FIRST, text("Hi"), chunk(odd), chunk({}, "stop")))

    assert whole(body(message)).message.blocks == (Text("Hi"),)
    assert back(whole(body(message))) == message
    assert back(streamed) == {**message, "refusal": None}


DETAIL = {"type": "reasoning.text", "text": "Look.", "format": "anthropic-claude-v1", "index": 0}


def test_details_are_kept_raw_in_order_and_beside_their_copy():
    details = [{**DETAIL, "signature": "Er=", "cost": 1.5}, {"type": "reasoning.encrypted", "data": "x", "id": None}]
    message = said("Hi", reasoning="Look.", reasoning_details=details)
    response = whole(body(message))
    thought = response.message.blocks[0]

    assert (thought.text, thought.meta.field, json.loads(thought.meta.details)) == ("Look.", "reasoning", details)
    assert back(response) == message


def test_streamed_details_are_joined_and_the_text_told_once():
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


def test_details_without_a_copy_are_read_themselves():
    frames = [chunk({"reasoning_details": [{**DETAIL, "text": piece}]}) for piece in ("Lo", "ok.")]
    response = stream(sse(FIRST, *frames, text("Hi"), chunk({}, "stop")))
    thought = response.message.blocks[0]

    assert (thought.text, thought.meta.field) == ("Look.", "reasoning_details")
    assert "reasoning" not in back(response)


def test_a_copy_that_comes_after_details_were_read_is_kept_and_not_told_again():
    frames = [chunk({"reasoning_details": [DETAIL]}), chunk({"reasoning": "Look."})]
    response = stream(sse(FIRST, *frames, text("Hi"), chunk({}, "stop")))

    assert response.choices[0].thinking == "Look."
    assert back(response)["reasoning"] == "Look."


def test_withheld_reasoning_is_a_block_without_text():
    details = [{"type": "reasoning.encrypted", "data": "B7oH", "id": "rs_1", "format": "xai-responses-v1", "index": 0}]
    message = said("Hi", reasoning=None, reasoning_details=details)
    response = whole(body(message))

    assert response.message.blocks[0].text == ""
    assert json.loads(response.message.blocks[0].meta.details) == details
    assert back(response) == message


def test_details_may_come_after_text_began_and_still_belong_to_the_same_thought():
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


# --- thought in tags --------------------------------------------------------------------------------------------------

TAGGED = "\n<think>Look </thinking> up.</think>\n\nWrite <think> yourself."


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_tags_are_found_across_frames_and_the_text_goes_back_as_it_was(size):
    frames = [text(TAGGED[at : at + size]) for at in range(0, len(TAGGED), size)]
    response = stream(sse(FIRST, *frames, chunk({}, "stop")), TAGS)

    assert [(type(b), b.text) for b in response.message.blocks] == [
        (Reasoning, "Look </thinking> up."),
        (Text, "\n\nWrite <think> yourself."),
    ]
    assert response.message.blocks[0].meta == ChatMeta(field="think")
    assert back(response)["content"] == TAGGED


def test_tags_are_text_where_the_row_does_not_say_so():
    assert blocks(sse(FIRST, text(TAGGED), chunk({}, "stop"))) == (Text(TAGGED),)


def test_tags_are_read_in_a_body_too():
    response = whole(body(said(TAGGED)), TAGS)

    assert [type(b) for b in response.message.blocks] == [Reasoning, Text]
    assert back(response) == said(TAGGED)


@pytest.mark.parametrize("content", ["<think>never closed", "<think></think>", "<thi", "  ", "<think>a</think>"])
def test_odd_tags_go_back_as_they_were(content):
    frames = [text(piece) for piece in content]
    response = stream(sse(chunk({"role": "assistant"}), *frames, chunk({}, "stop")), TAGS)

    assert back(response) == said(content)


def test_a_call_ends_a_thought_that_was_never_closed():
    response = stream(sse(CALLED, text("<think>Look"), call(0, "{}", id="a", name="f"), chunk({}, "stop")), TAGS)

    assert [type(b) for b in response.message.blocks] == [Reasoning, ToolUse]
    assert back(response)["content"] == "<think>Look"


def test_a_model_that_thinks_in_a_field_does_not_think_in_tags():
    response = stream(sse(FIRST, chunk({"reasoning": "a"}), text("<think>b</think>c"), chunk({}, "stop")), TAGS)

    assert [(type(b), b.text) for b in response.message.blocks] == [(Reasoning, "a"), (Text, "<think>b</think>c")]


def test_what_was_held_back_for_a_tag_is_not_lost_to_reasoning_in_a_field():
    response = stream(sse(FIRST, text("<thi"), chunk({"reasoning": "a"}), text("s"), chunk({}, "stop")), TAGS)

    assert [(type(b), b.text) for b in response.message.blocks] == [(Text, "<thi"), (Reasoning, "a"), (Text, "s")]


# --- content lists ----------------------------------------------------------------------------------------------------


def thinking(piece: str, **fields: object) -> dict:
    return {"type": "thinking", "thinking": [{"type": "text", "text": piece}], **fields}


def test_content_lists_are_read_element_by_element_and_go_back_the_same():
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
    response = whole(body(said(content)))

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
    assert back(response) == said(content)


def test_a_stream_may_switch_between_text_and_lists():
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


def test_a_signed_thought_does_not_grow():
    frames = [chunk({"content": [thinking("a", signature="Er=")]}), chunk({"content": [thinking("b")]})]

    assert [b.text for b in blocks(sse(FIRST, *frames, chunk({}, "stop")))] == ["a", "b"]


def test_a_thought_that_comes_in_pieces_keeps_what_is_no_text_in_it():
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


def test_a_thought_may_be_a_text():
    frames = [chunk({"content": [{"type": "thinking", "thinking": piece}]}) for piece in ("Lo", "ok.")]
    response = stream(sse(FIRST, *frames, chunk({}, "stop")))

    assert response.choices[0].thinking == "Look."
    assert back(response)["content"] == [{"type": "thinking", "thinking": "Look."}]


def test_unknown_elements_of_a_streamed_list_stay_in_their_place():
    frames = [text("a"), chunk({"content": [{"type": "reference", "ids": [1]}]}), text("b")]

    assert [type(b) for b in blocks(sse(FIRST, *frames, chunk({}, "stop")))] == [Text, Opaque, Text]


@pytest.mark.parametrize("content", [None, "", [], {"odd": 1}, 5])
def test_content_that_says_nothing_goes_back_as_it_came(content):
    response = whole(body(said(content)))

    assert response.message.blocks == ()
    assert back(response) == said(content)
    assert bool(response.losses) == (content in ({"odd": 1}, 5))


# --- refusals, speech, pictures, citations ----------------------------------------------------------------------------


@pytest.mark.parametrize("response", [stream(STREAMS["refusal"]), whole(WHOLE["refusal"])], ids=["sse", "json"])
def test_a_refusal_is_a_block_and_counts_as_filtered(response):
    assert response.message.blocks == (Refusal("I will not."),)
    assert (response.message.stop_reason, response.message.raw_stop) == ("content_filter", "stop")
    assert back(response) == said(None, refusal="I will not.")


def test_speech_has_an_id_words_and_an_expiry():
    decoder = ChatDecoder(target(), audio_format="pcm16")
    events = [*decoder.feed(STREAMS["speech"]), *decoder.finish()]
    response = events[-1].response
    deltas = [e.delta for e in events if isinstance(e, ContentDelta)]

    assert response.message.blocks == (
        Audio(data="AAAABBBB", mime="audio/pcm16", transcript="Hello", id="audio_1", expires_at=1700003600),
    )
    assert deltas == [TranscriptDelta("Hel"), TranscriptDelta("lo"), AudioDelta("AAAA"), AudioDelta("BBBB")]
    assert back(response)["audio"] == {
        "id": "audio_1",
        "data": "AAAABBBB",
        "transcript": "Hello",
        "expires_at": 1700003600,
    }


@pytest.mark.parametrize(
    "audio", [None, {"id": "a", "data": "", "transcript": None, "speed": 1.5}, {"id": "", "expires_at": 0}]
)
def test_odd_speech_goes_back_as_it_came(audio):
    assert back(whole(body(said("Hi", audio=audio)))) == said("Hi", audio=audio)


def test_pictures_are_blocks():
    images = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}, "index": 0},
        {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
        {"type": "hologram", "data": 1},
    ]
    response = whole(body(said("Hi", images=images)))

    assert [type(b) for b in response.message.blocks] == [Text, Image, Image, Opaque]
    assert response.choices[0].images[0].data == "AAAA"
    assert response.choices[0].images[1].url == "https://a.example/b.png"
    assert back(response) == said("Hi", images=images)
    assert back(stream(sse(FIRST, chunk({"images": images}), chunk({}, "stop"))))["images"] == images


def test_annotations_become_citations_and_stay_on_the_message():
    other = {"type": "file", "file": {"hash": "x"}}
    message = said("Hello.", annotations=[ANNOTATION, other])
    response = whole(body(message))

    assert response.choices[0].citations == [UrlCitation("https://a.example", "A", None, 0, 5)]
    assert back(response) == message


def test_streamed_annotations_are_collected_before_and_after_the_text():
    later = {"type": "url_citation", "url_citation": {"url": "https://b.example", "content": "It rains."}}
    data = sse(
        FIRST, chunk({"annotations": [ANNOTATION]}), text("Hello."), chunk({"annotations": [later]}), chunk({}, "stop")
    )
    response = stream(data)

    assert [c.url for c in response.choices[0].citations] == ["https://a.example", "https://b.example"]
    assert response.choices[0].citations[1].cited_text == "It rains."
    assert back(response)["annotations"] == [ANNOTATION, later]


def test_sources_beside_the_choices_become_citations_and_stay_beside():
    sources = {
        "citations": ["https://a.example", "https://b.example"],
        "search_results": [
            {"url": "https://b.example", "title": "B", "snippet": "It rains."},
            {"url": "https://c.example", "title": "C"},
            {"title": "no address"},
        ],
    }
    streamed = stream(sse(FIRST, text("Hi [1]", citations=["old"]), chunk({}, "stop", **sources)))

    for response in (whole(body(said("Hi [1]"), **sources)), streamed):
        assert response.choices[0].citations == [
            UrlCitation("https://a.example"),
            UrlCitation("https://b.example", "B", "It rains."),
            UrlCitation("https://c.example", "C"),
        ]
        assert response.field("citations") == sources["citations"]
        assert response.field("search_results") == sources["search_results"]


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("sensitive", "content_filter"),
        ("insufficient_system_resource", "error"),
        ("error", "error"),
        ("network_error", "error"),
        ("MAX_TOKENS", "length"),
        ("never heard of", "stop"),
        ("", None),
        (None, None),
    ],
)
def test_words_that_end_a_choice(word, reason):
    message = whole(body(said(), word)).message

    assert (message.stop_reason, message.raw_stop) == (reason, word)


def test_a_stream_is_whole_after_done_or_a_reason_for_every_choice():
    assert stream(sse(FIRST, text("Hi"))).text == "Hi"
    assert stream(sse(FIRST, text("Hi"), chunk({}, "stop"), done=False)).text == "Hi"
    both = (FIRST, chunk({"content": "x"}, index=1), chunk({}, "stop"))
    with pytest.raises(IncompleteResponse) as caught:
        stream(sse(*both, done=False))
    assert caught.value.partial.message.blocks == ()
    assert stream(sse(*both, chunk({}, "stop", index=1), done=False)).choices[1].text == "x"


def test_a_stream_that_breaks_off_keeps_what_came():
    with pytest.raises(IncompleteResponse) as caught:
        stream(sse(FIRST, chunk({"reasoning": "Look"}), text("It ra"), done=False))
    message = caught.value.partial.message

    assert message.incomplete
    assert [b.text for b in message.blocks] == ["Look", "It ra"]
    assert message.raw_stop is None


def test_nothing_at_all_is_incomplete_and_done_alone_is_an_empty_answer():
    with pytest.raises(IncompleteResponse):
        stream(b"")
    response = stream(sse())

    assert response.choices == ()
    assert [loss.rule for loss in response.losses] == ["no-choices"]


def test_an_empty_word_with_every_frame_ends_nothing():
    response = stream(
        sse(
            chunk({"role": "assistant"}, ""),
            chunk({"content": "a"}, ""),
            chunk({"content": "b"}, ""),
            chunk({}, "stop"),
        )
    )

    assert response.message.blocks == (Text("ab"),)


def test_the_last_word_counts_and_what_comes_behind_it_is_read():
    data = sse(FIRST, chunk({"content": "a"}, "stop"), chunk({"content": "b"}, "length"), chunk({"content": ""}))
    decoder = ChatDecoder(target())
    told = [e for e in decoder.feed(data) if isinstance(e, MessageDelta)]
    response = decoder.finish()[-1].response

    assert response.message.raw_stop == "length"
    assert response.text == "ab"
    assert told == [MessageDelta(0, "stop", "stop"), MessageDelta(0, "length", "length")]


def test_a_word_that_comes_twice_is_told_once():
    decoder = ChatDecoder(target())
    events = decoder.feed(sse(FIRST, chunk({}, "stop"), chunk({"content": ""}, "stop")))

    assert sum(isinstance(e, MessageDelta) for e in events) == 1


def test_an_unreadable_frame_behind_the_end_is_a_loss_and_before_it_an_error():
    response = stream(sse(FIRST, text("Hi"), chunk({}, "stop"), "{broken"))

    assert (response.text, response.losses[0].rule) == ("Hi", "after-the-end")
    with pytest.raises(ProtocolError) as caught:
        stream(sse(FIRST, text("Hi"), "{broken", chunk({}, "stop")))
    assert caught.value.frame == b"{broken"
    assert caught.value.partial.text == "Hi"


# --- usage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([chunk({}, "stop"), {**HEAD, "choices": [], "usage": USAGE}], id="behind the end"),
        pytest.param([chunk({}, "stop", usage=USAGE)], id="with the end"),
        pytest.param([text("a", usage={"prompt_tokens": 1}), chunk({}, "stop", usage=USAGE)], id="with every frame"),
        pytest.param([chunk({}, "stop", x_groq={"id": "r", "usage": USAGE})], id="in a field of the host"),
        pytest.param([chunk({}, "stop", usage=USAGE), chunk({"content": ""}, usage=None)], id="then null"),
        pytest.param([{**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]}], id="in a choice"),
    ],
)  # fmt: skip
def test_usage_is_taken_wherever_it_stands(frames):
    response = stream(sse(FIRST, text("a"), *frames))

    assert json.loads(response.raw_usage) == USAGE
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total) == (10, 5, 15)


def test_usage_keeps_its_spelling():
    data = body(said()).replace(b'"prompt_tokens": 10', b'"cost": 1.10, "prompt_tokens": 10')

    assert '"cost": 1.10' in whole(data).raw_usage


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"error": {"message": "slow down", "type": "rate_limit_exceeded"}}, RateLimited),
        ({"error": {"message": "too long", "code": "context_length_exceeded"}, "choices": []}, ContextTooLong),
        ({"error": "plain words"}, LLMError),
        (chunk({"content": ""}, "error", error={"code": 429, "message": "upstream"}), RateLimited),
        (chunk({}, x_groq={"error": {"message": "no", "type": "invalid_request_error"}}), BadRequest),
        ({**HEAD, "choices": [{"index": 0, "delta": {}, "error": {"code": 400, "message": "no"}}]}, BadRequest),
        ({**HEAD, "choices": None, "base_resp": {"status_code": 1004, "status_msg": "no key"}}, LLMError),
    ],
)
def test_an_error_inside_a_stream_is_the_error_it_names_with_what_came_before(event, kind):
    with pytest.raises(kind) as caught:
        stream(sse(FIRST, text("It ra"), event, text("ins"), chunk({}, "stop")))

    assert type(caught.value) is kind
    assert caught.value.partial.text == "It ra"
    assert caught.value.partial.message.incomplete


def test_an_error_event_by_name_is_an_error():
    decoder = ChatDecoder(target())
    events = decoder.feed(sse(FIRST)[:-14] + b'event: error\ndata: {"message": "gone"}\n\n')

    assert isinstance(events[-1], Failure)
    with pytest.raises(LLMError, match="gone"):
        decoder.finish()


def test_a_frame_with_an_error_is_read_before_it_is_told():
    event = chunk({"content": "ins"}, "length", error={"code": 400, "message": "limit"}, usage=USAGE)
    with pytest.raises(BadRequest) as caught:
        stream(sse(FIRST, text("It ra"), event))
    partial = caught.value.partial

    assert (partial.text, partial.message.raw_stop, partial.usage.total) == ("It rains", "length", 15)


@pytest.mark.parametrize("error", [None, {}, ""])
def test_an_empty_error_is_none(error):
    assert stream(sse(FIRST, text("Hi", error=error), chunk({}, "stop"))).text == "Hi"


def test_an_error_instead_of_an_answer():
    data = json.dumps({"error": {"message": "no", "type": "invalid_request_error", "param": None}}).encode()
    with pytest.raises(BadRequest) as caught:
        whole(data)
    assert caught.value.raw == data.decode()
    with pytest.raises(BadRequest):
        stream(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        b"[]",
        b'{"choices":null}',
        b'{"choices":{}}',
        b'{"choices":[5]}',
        b'{"choices":[{"message":{"tool_calls":[5]}}]}',
        b'{"choices":[{"message":{"tool_calls":[{"id":5,"function":{}}]}}]}',
        b'{"choices":[{"message":{"content":"\xff"}}]}',
        b'{"choices":' + b"[" * 300 + b"]" * 300 + b"}",
    ],
)
def test_bodies_that_break_the_dialect_are_protocol_errors_with_their_bytes(data):
    with pytest.raises(ProtocolError) as caught:
        whole(data)
    assert caught.value.frame == data


@pytest.mark.parametrize(
    "message",
    [
        None,
        {},
        {"role": None, "content": "Hi"},
        {"content": "Hi"},
        {"role": "tool", "content": "Hi"},
        said("\ud800 \x00 \U0001f600"),
    ],
)
def test_odd_messages_go_back_as_they_came(message):
    response = whole(body(message))

    held = {k: v for k, v in (message or {}).items() if (k, v) != ("role", None)}
    assert back(response) == held


def test_half_characters_survive_and_halves_cut_in_two_frames_are_joined():
    response = stream(sse(FIRST, text("a\ud83d"), text("\ude00 \ud800"), chunk({}, "stop")))

    assert response.text == "a\U0001f600 \ud800"


def test_huge_numbers_keep_their_digits():
    data = (
        body(said("Hi")).replace(b'"refusal"', b'"x"').replace(b'"created": 1700000000', b'"created": ' + b"9" * 5000)
    )

    assert b"9" * 5000 in whole(data).extra.encode()
