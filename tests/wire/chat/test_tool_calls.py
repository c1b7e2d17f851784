"""Tool calls, in the different forms that servers send."""

from __future__ import annotations

import pytest

from tenuto.core import jsonio
from tenuto.core.blocks import Opaque, Text, ToolUse
from tenuto.core.events import ContentDone, ContentStart
from tenuto.core.messages import UserMessage
from tenuto.wire.chat.decode import ChatDecoder
from tenuto.wire.chat.encode import verbatim
from tenuto.wire.decoder import decode_stream
from wire.chat.cases import (
    CALLED,
    STREAMS,
    WEATHER,
    WHOLE,
    assistant,
    back,
    blocks,
    body,
    call,
    chunk,
    only,
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


def test_calls_keep_the_order_of_their_start():
    assert [(b.id, b.args) for b in blocks(STREAMS["two calls, interleaved"])] == [
        ("call_1", '{"city":"Oslo"}'),
        ("call_2", '{"city":"Bergen"}'),
    ]


def test_call_ends_open_text():
    assert [type(b) for b in blocks(STREAMS["text, then a call"])] == [Text, ToolUse]


def test_text_after_call_is_new_block_and_joined_on_wire():
    response = stream(
        sse(CALLED, text("a"), chunk({"tool_calls": [WEATHER]}), call(0, "{}"), text("b"), chunk({}, "stop"))
    )

    assert [type(b) for b in response.message.blocks] == [Text, ToolUse, Text]
    assert back(response)["content"] == "ab"


def test_calls_finish_with_any_finish_reason():
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
def test_pieces_of_one_call_are_joined(pieces):
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
def test_calls_with_one_index_are_separated_by_id(pieces):
    response = stream(sse(CALLED, *pieces, chunk({}, "tool_calls")))

    assert [(b.id, b.name, b.args) for b in response.message.blocks] == [("a", "f", "{}"), ("b", "g", "[]")]


def test_calls_without_id_and_index_are_separated_by_name():
    pieces = [chunk({"tool_calls": [{"function": {"name": n, "arguments": "{}"}} for n in ("f", "g")]})]
    response = stream(sse(CALLED, *pieces, chunk({}, "tool_calls")))

    assert [(b.name, b.id_generated, b.id[:4]) for b in response.message.blocks] == [
        ("f", True, "tnt_"),
        ("g", True, "tnt_"),
    ]
    assert len({b.id for b in response.message.blocks}) == 2
    assert [c.get("id", c.get("type")) for c in back(response)["tool_calls"]] == [None, None]


def test_repeated_id_without_index_makes_two_calls():
    pieces = [chunk({"tool_calls": [{"id": "null", "function": {"name": n, "arguments": "{}"}}]}) for n in ("f", "g")]

    assert [b.name for b in blocks(sse(CALLED, *pieces, chunk({}, "tool_calls")))] == ["f", "g"]


def test_renamed_call_keeps_first_name_with_a_loss():
    pieces = [call(0, "{", id="a", name="f"), call(0, "}", name="g")]
    response = stream(sse(CALLED, *pieces, chunk({}, "tool_calls")))

    assert response.message.blocks == (ToolUse("a", "f", "{}"),)
    assert [loss.kind for loss in response.losses] == ["renamed-call"]


def test_object_arguments_keep_their_text_and_form():
    raw = b'{"id":"a","type":"function","function":{"name":"f","arguments":{"n": 1.10}}}'
    response = whole(body(assistant(None, tool_calls=["@"]), "tool_calls").replace(b'"@"', raw))
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
def test_missing_arguments_keep_their_form(function):
    message = assistant(None, tool_calls=[{"id": "a", "type": "function", "function": function}])
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
def test_unusual_call_fields_are_written_back(odd):
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, **odd}
    message = assistant(None, tool_calls=[call])

    assert back(whole(body(message, "tool_calls"))) == message


def test_call_without_type_is_written_back_without_type():
    message = assistant(None, tool_calls=[{"id": "a", "function": {"name": "f", "arguments": "{}"}}])
    response = whole(body(message, "tool_calls"))

    assert response.message.blocks[0].kind == "function"
    assert back(response) == message


def test_unknown_call_is_stored_unchanged():
    message = assistant(None, tool_calls=[{"id": "a", "type": "robot", "robot": {"arm": 1}}])
    response = whole(body(message, "tool_calls"))

    assert [type(b) for b in response.message.blocks] == [Opaque]
    assert back(response) == message


def test_call_starts_when_its_inner_object_arrives():
    pieces = [chunk({"tool_calls": [{"index": 0, "id": "a", "type": "function"}]}), call(0, "{}", name="f")]

    assert blocks(sse(CALLED, *pieces, chunk({}, "tool_calls"))) == (ToolUse("a", "f", "{}"),)


def test_call_without_id_gets_generated_id():
    pieces = (call(0, "", id="a", name="f"), call(0, "["), call(1, "{}"), call(0, "]"))
    response = stream(sse(CALLED, *pieces, chunk({}, "stop")))

    assert [(b.name, b.args, b.id_generated) for b in response.message.blocks] == [("f", "[]", False), ("", "{}", True)]


def test_invalid_arguments_are_stored_with_the_reason():
    response = stream(sse(CALLED, call(0, '{"a":', id="a", name="f"), chunk({}, "length")))
    (block,) = response.message.blocks

    assert (block.args, bool(block.args_error)) == ('{"a":', True)
    assert [loss.kind for loss in response.losses] == ["broken-arguments"]
    assert back(response)["tool_calls"][0]["function"]["arguments"] == '{"a":'


def test_custom_call_has_text_input():
    response = stream(STREAMS["custom call"])

    assert response.message.blocks == (ToolUse("call_1", "sql", "select 1", "custom"),)
    assert back(response)["tool_calls"] == [
        {"id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    ]


@pytest.mark.parametrize(
    "response", [stream(STREAMS["function call"]), whole(WHOLE["function call"])], ids=["sse", "json"]
)
def test_function_call_gets_generated_id(response):
    (block,) = response.message.blocks

    assert (block.name, block.id_generated, response.message.stop_reason) == ("weather", True, "tool_calls")
    assert back(response)["function_call"] == {"name": "weather", "arguments": block.args}
    assert "tool_calls" not in back(response)


def test_empty_function_call_is_ignored():
    message = assistant(
        "Hi", function_call={"name": "", "arguments": ""}, tool_calls=None, refusal="", audio={"id": "", "data": ""}
    )
    response = whole(body(message))

    assert response.message.blocks == (Text("Hi"),)
    assert back(response) == message


def test_generated_ids_depend_on_bytes_and_seed():
    def id_of(seed: str) -> str:
        decoder = ChatDecoder(target(), seed=seed)
        return decode_stream(decoder, [STREAMS["function call"]]).message.blocks[0].id

    assert id_of("a") == id_of("a") != id_of("b")


# --- payloads ---------------------------------------------------------------------------------------------------------

FUNCTION = {"name": "weather", "arguments": '{"city": "Mexico City"}'}


@pytest.mark.parametrize("custom", [{"input": "", "name": ""}, {}, None])
def test_function_keeps_arguments_next_to_empty_custom(custom):
    message = assistant(None, tool_calls=[{"id": "a", "type": "function", "custom": custom, "function": FUNCTION}])
    response = whole(body(message, "tool_calls"))
    (block,) = response.message.blocks

    assert (block.id, block.name, block.args, block.kind) == ("a", *FUNCTION.values(), "function")
    assert back(response) == message
    (wire_call,) = only(UserMessage("q"), response.message)[1]["tool_calls"]
    assert wire_call["function"] == FUNCTION


@pytest.mark.parametrize("function", [{"name": "", "arguments": ""}, None])
def test_custom_keeps_input_next_to_empty_function(function):
    custom = {"name": "sql", "input": "select 1"}
    message = assistant(None, tool_calls=[{"id": "a", "type": "custom", "function": function, "custom": custom}])
    response = whole(body(message, "tool_calls"))
    (block,) = response.message.blocks

    assert (block.name, block.args, block.kind) == ("sql", "select 1", "custom")
    assert back(response) == message


def test_streamed_function_ignores_empty_custom():
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


def part_events(*frames):
    """Return the start and done events of every part, and the losses."""
    decoder = ChatDecoder(target())
    events = [*decoder.feed(sse(CALLED, *frames)), *decoder.finish()]
    parts = [event for event in events if isinstance(event, ContentStart | ContentDone)]
    return parts, events[-1].response.losses


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
def test_call_start_waits_for_id_and_name(pieces):
    (start, done), losses = part_events(*pieces, chunk({}, "tool_calls"))

    assert start == ContentStart(0, 0, ToolUse("a", "f", ""))
    assert done == ContentDone(0, 0, ToolUse("a", "f", "{}"))
    assert losses == ()


def test_call_start_does_not_wait_after_arguments():
    (start, done), _ = part_events(call(0, "{", name="f"), call(0, "}", id="a"), chunk({}, "tool_calls"))

    assert (start.part.name, start.part.id_generated, done.part) == ("f", True, ToolUse("a", "f", "{}"))


def test_waiting_calls_keep_their_order():
    first, second = call(0, "", name="f"), call(1, "{}", id="b", name="g")
    parts, _ = part_events(first, second, call(0, "{}", id="a"), chunk({}, "tool_calls"))

    assert [(event.part_index, event.part.name) for event in parts[:2]] == [(0, "f"), (1, "g")]
    assert [event.part.id for event in parts[2:]] == ["a", "b"]


def test_call_without_id_and_arguments_starts_at_the_end():
    (start, done), _ = part_events(call(0, "", name="f"), chunk({}, "tool_calls"))

    assert (start.part.name, start.part.id_generated) == ("f", True)
    assert (done.part.name, done.part.id, done.part.args) == ("f", start.part.id, "")


@pytest.mark.parametrize("late", [call(None, "garbage"), call(0, "garbage")], ids=["no index", "index"])
def test_late_piece_does_not_change_finished_call(late):
    parts, losses = part_events(call(0, '{"a":1}', id="a", name="f"), chunk({}, "tool_calls"), late)

    assert [type(event) for event in parts] == [ContentStart, ContentDone]
    assert parts[-1].part == ToolUse("a", "f", '{"a":1}')
    assert [(loss.kind, str(loss.location)) for loss in losses] == [("late-piece", "choices[0].message.tool_calls")]
    assert "garbage" in losses[0].detail
