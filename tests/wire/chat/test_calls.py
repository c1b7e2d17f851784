"""Calls, in the many ways servers cut, number and name them."""

from __future__ import annotations

import pytest

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Opaque,
    Text,
    ToolUse,
)
from tenuto.core.events import ContentDone, ContentStart
from tenuto.core.messages import UserMessage
from tenuto.wire.chat.decode import ChatDecoder
from tenuto.wire.chat.assistant import verbatim
from tenuto.wire.decoder import decode_stream
from wire.chat.cases import (
    CALLED,
    STREAMS,
    WEATHER,
    WHOLE,
    back,
    blocks,
    body,
    call,
    chunk,
    only,
    said,
    sse,
    stream,
    target,
    text,
    whole,
)


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
        pytest.param([call(0, None, id="a", name="f"), text(""), call(0, "{}")], id="null, then text, later"),
        pytest.param([call(None, "{", id="a", name="f"), call(None, "}")], id="no index"),
        pytest.param([call(None, "{", id="a", name="f"), call(None, "}", id="a")], id="no index, id repeated"),
        pytest.param([call(0, "{}", id="a", name="f"), call(0, "")], id="whole, then nothing"),
        pytest.param([call("0", "{", id="a", name="f"), call("0", "}")], id="index as text"),
        pytest.param([call(0, "{", id="a"), call(0, "}", name="f")], id="name later"),
    ],
)
def test_pieces_of_one_call_find_each_other(pieces):
    response = stream(sse(CALLED, *pieces, chunk({}, "tool_calls")))

    assert response.message.blocks == (ToolUse("a", "f", "{}"),)
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

    assert [(b.name, b.id_generated, b.id[:4]) for b in response.message.blocks] == [
        ("f", True, "tnt_"),
        ("g", True, "tnt_"),
    ]
    assert len({b.id for b in response.message.blocks}) == 2
    assert [c.get("id", c.get("type")) for c in back(response)["tool_calls"]] == [None, None]


def test_the_same_id_twice_without_an_index_is_two_calls():
    pieces = [chunk({"tool_calls": [{"id": "null", "function": {"name": n, "arguments": "{}"}}]}) for n in ("f", "g")]

    assert [b.name for b in blocks(sse(CALLED, *pieces, chunk({}, "tool_calls")))] == ["f", "g"]


def test_a_call_that_is_renamed_on_its_way_keeps_its_first_name_and_says_so():
    pieces = [call(0, "{", id="a", name="f"), call(0, "}", name="g")]
    response = stream(sse(CALLED, *pieces, chunk({}, "tool_calls")))

    assert response.message.blocks == (ToolUse("a", "f", "{}"),)
    assert [loss.kind for loss in response.losses] == ["renamed-call"]


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

    assert block.args_missing == (function.get("arguments") is None)
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
    pieces = (call(0, "", id="a", name="f"), call(0, "["), call(1, "{}"), call(0, "]"))
    response = stream(sse(CALLED, *pieces, chunk({}, "stop")))

    assert [(b.name, b.args, b.id_generated) for b in response.message.blocks] == [("f", "[]", False), ("", "{}", True)]


def test_broken_arguments_are_kept_with_the_reason():
    response = stream(sse(CALLED, call(0, '{"a":', id="a", name="f"), chunk({}, "length")))
    (block,) = response.message.blocks

    assert (block.args, bool(block.args_error)) == ('{"a":', True)
    assert [loss.kind for loss in response.losses] == ["broken-arguments"]
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

    assert (block.name, block.id_generated, response.message.stop_reason) == ("weather", True, "tool_calls")
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
        return decode_stream(decoder, [STREAMS["function call"]]).message.blocks[0].id

    assert id_of("a") == id_of("a") != id_of("b")


# --- payloads ---------------------------------------------------------------------------------------------------------

FUNCTION = {"name": "weather", "arguments": '{"city": "Mexico City"}'}


@pytest.mark.parametrize("custom", [{"input": "", "name": ""}, {}, None])
def test_function_call_keeps_arguments_beside_an_empty_custom(custom):
    message = said(None, tool_calls=[{"id": "a", "type": "function", "custom": custom, "function": FUNCTION}])
    response = whole(body(message, "tool_calls"))
    (block,) = response.message.blocks

    assert (block.id, block.name, block.args, block.kind) == ("a", *FUNCTION.values(), "function")
    assert back(response) == message
    (sent_back,) = only(UserMessage("q"), response.message)[1]["tool_calls"]
    assert sent_back["function"] == FUNCTION


@pytest.mark.parametrize("function", [{"name": "", "arguments": ""}, None])
def test_custom_call_keeps_input_beside_an_empty_function(function):
    custom = {"name": "sql", "input": "select 1"}
    message = said(None, tool_calls=[{"id": "a", "type": "custom", "function": function, "custom": custom}])
    response = whole(body(message, "tool_calls"))
    (block,) = response.message.blocks

    assert (block.name, block.args, block.kind) == ("sql", "select 1", "custom")
    assert back(response) == message


def test_streamed_call_keeps_arguments_beside_an_empty_custom():
    first = {"index": 0, "id": "a", "type": "function", "custom": {"name": ""}, "function": {"name": "f"}}
    pieces = [
        chunk({"tool_calls": [first]}),
        *(
            chunk({"tool_calls": [{"index": 0, "custom": {"input": ""}, "function": {"arguments": piece}}]})
            for piece in ('{"a":', "1}")
        ),
    ]
    (block,) = blocks(sse(CALLED, *pieces, chunk({}, "tool_calls")))

    assert (block.name, block.args) == ("f", '{"a":1}')


@pytest.mark.parametrize("other", [{"function": {"arguments": ""}}, {}])
def test_streamed_custom_call_keeps_its_kind(other):
    first = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "sql"}, "function": {"name": ""}}
    pieces = [{"index": 0, "custom": {"input": piece}, **other} for piece in ("select ", "1")]
    frames = [chunk({"tool_calls": [piece]}) for piece in (first, *pieces)]
    (block,) = blocks(sse(CALLED, *frames, chunk({}, "tool_calls")))

    assert (block.name, block.args, block.kind) == ("sql", "select 1", "custom")


# --- events -----------------------------------------------------------------------------------------------------------


def told(*frames):
    """The start and done events of every part, and the losses."""
    decoder = ChatDecoder(target())
    events = [*decoder.feed(sse(CALLED, *frames)), *decoder.finish()]
    found = [event for event in events if isinstance(event, ContentStart | ContentDone)]
    return found, events[-1].response.losses


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([call(0, "", name="f"), call(0, "", id="a"), call(0, "{}")], id="id later"),
        pytest.param([call(0, None, id="a"), call(0, "", name="f"), call(0, "{}")], id="name later"),
        pytest.param([call(0, "", name=""), call(0, "", id="a", name="f"), call(0, "{}")], id="both later"),
        pytest.param([call(0, "", id="a"), call(0, "{}", name="f")], id="name with the arguments"),
        pytest.param([call(None, "", id="a"), call(None, "{}", name="f")], id="no index"),
    ],
)
def test_start_of_a_call_waits_for_id_and_name(pieces):
    (start, done), losses = told(*pieces, chunk({}, "tool_calls"))

    assert start == ContentStart(0, 0, ToolUse("a", "f", ""))
    assert done == ContentDone(0, 0, ToolUse("a", "f", "{}"))
    assert losses == ()


def test_start_of_a_call_does_not_wait_after_its_arguments():
    (start, done), _ = told(call(0, "{", name="f"), call(0, "}", id="a"), chunk({}, "tool_calls"))

    assert (start.part.name, start.part.id_generated, done.part) == ("f", True, ToolUse("a", "f", "{}"))


def test_calls_that_wait_keep_their_order():
    first, second = call(0, "", name="f"), call(1, "{}", id="b", name="g")
    found, _ = told(first, second, call(0, "{}", id="a"), chunk({}, "tool_calls"))

    assert [(event.part_index, event.part.name) for event in found[:2]] == [(0, "f"), (1, "g")]
    assert [event.part.id for event in found[2:]] == ["a", "b"]


def test_call_that_gets_neither_id_nor_arguments_is_told_at_the_end():
    (start, done), _ = told(call(0, "", name="f"), chunk({}, "tool_calls"))

    assert (start.part.name, start.part.id_generated) == ("f", True)
    assert (done.part.name, done.part.id, done.part.args) == ("f", start.part.id, "")


@pytest.mark.parametrize("late", [call(None, "garbage"), call(0, "garbage")], ids=["no index", "index"])
def test_late_piece_leaves_a_finished_call_alone(late):
    found, losses = told(call(0, '{"a":1}', id="a", name="f"), chunk({}, "tool_calls"), late)

    assert [type(event) for event in found] == [ContentStart, ContentDone]
    assert found[-1].part == ToolUse("a", "f", '{"a":1}')
    assert [(loss.kind, loss.place) for loss in losses] == [("late-piece", "choices[0].message.tool_calls")]
    assert "garbage" in losses[0].detail
