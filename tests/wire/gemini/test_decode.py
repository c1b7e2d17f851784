"""Decode replies: parts, signatures, calls."""

from __future__ import annotations

import json

import pytest

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    CodeExecution,
    CodeResult,
    Document,
    GeminiMeta,
    Image,
    Opaque,
    Reasoning,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.events import (
    ArgumentsDelta,
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
    UsageUpdate,
)
from tenuto.wire.decoder import decode_body, decode_stream
from tenuto.wire.gemini.encode import verbatim
from wire.gemini.cases import IMAGE, PARTS, TYPED, call, chunk, sse, text, thought
from wire.gemini.decode_helpers import SIGNED, decode_blocks, decode_events, make_decoder, stream, whole

# --- text -------------------------------------------------------------------------------------------------------------


def test_text_chunks_join_to_one_block():
    """A chunk has the next fragment; an equal fragment is not a duplicate."""
    blocks = decode_blocks(chunk(text("Ha")), chunk(text("Ha")), chunk(text(""), reason="STOP"))

    assert blocks == (Text("HaHa"),)


def test_stream_emits_each_piece_once():
    """Start, deltas, done, then stop reason, usage and the complete message."""
    events = decode_events(
        sse(chunk(text("He")), chunk(text("llo"), reason="STOP", usageMetadata={"totalTokenCount": 3}))
    )
    response = events[-1].response

    assert events[:-1] == [
        MessageStart("resp_1", "gemini-3-pro"),
        ContentStart(0, 0, Text("")),
        ContentDelta(0, 0, TextDelta("He")),
        ContentDelta(0, 0, TextDelta("llo")),
        ContentDone(0, 0, Text("Hello")),
        MessageDelta(0, "stop", "STOP"),
        UsageUpdate(response.usage),
    ]
    assert isinstance(events[-1], MessageDone)
    assert (response.id, response.model, response.provider) == ("resp_1", "gemini-3-pro", "here")
    assert response.message.origin.dialect == "gemini"


def test_thoughts_become_reasoning_blocks():
    """`thought: true` decides, also when text and thoughts alternate."""
    events = decode_events(
        sse(chunk(thought("a"), thought("b")), chunk(text("c")), chunk(thought("d")), chunk(reason="STOP"))
    )

    assert events[-1].response.message.blocks == (Reasoning("ab"), Text("c"), Reasoning("d"))
    assert [e.delta for e in events if isinstance(e, ContentDelta)] == [
        ThinkingDelta("a"),
        ThinkingDelta("b"),
        TextDelta("c"),
        ThinkingDelta("d"),
    ]


def test_signed_text_is_a_block_of_its_own():
    """Signed text is not joined with the text before or after it."""
    blocks = decode_blocks(
        chunk(text("Hel")), chunk(text("lo", thoughtSignature="c2ln")), chunk(text(" you")), chunk(reason="STOP")
    )

    assert blocks == (Text("Hel"), Text("lo", meta=SIGNED), Text(" you"))


def test_signature_on_empty_text_is_preserved():
    """The last chunk of a reply often has only a signature."""
    events = decode_events(sse(chunk(text("Hi")), chunk(text("", thoughtSignature="c2ln"), reason="STOP")))

    assert events[-1].response.message.blocks == (Text("Hi"), Text("", meta=SIGNED))
    assert ContentDelta(0, 1, SignatureDelta("c2ln")) in events


def test_signature_without_data_is_an_empty_text():
    """It is not moved to the call of the next frame."""
    blocks = decode_blocks(chunk({"thoughtSignature": "c2ln"}), chunk(call("f", {})), chunk(reason="STOP"))

    assert blocks[0] == Text("", meta=SIGNED, extra='{"text":null}')
    assert (blocks[1].name, blocks[1].meta) == ("f", None)


def test_signed_text_and_call_keep_their_types():
    blocks = decode_blocks(
        chunk(text("Hi", thoughtSignature="c2ln"), call("f", {}, thoughtSignature="Yg==")), chunk(reason="STOP")
    )

    assert [type(block) for block in blocks] == [Text, ToolUse]


def test_text_joins_only_with_same_extra_fields():
    speaker = {"speechMetadata": {"speaker": "a"}}
    blocks = decode_blocks(
        chunk(text("a", **speaker)),
        chunk(text("b", **speaker)),
        chunk(text("c")),
        chunk(text("d", thought=False)),
        chunk(text("e", thought=False)),
        chunk(thought("f", **speaker)),
        chunk(thought("g", **speaker)),
        chunk(reason="STOP"),
    )

    assert [block.text for block in blocks] == ["ab", "c", "de", "fg"]
    assert [block.extra for block in blocks] == [
        '{"speechMetadata":{"speaker":"a"}}',
        "",
        '{"thought":false}',
        '{"speechMetadata":{"speaker":"a"}}',
    ]


def test_body_parts_are_not_joined():
    assert whole(chunk(text("one"), text("two"), reason="STOP")).message.blocks == (Text("one"), Text("two"))
    assert decode_blocks(chunk(text("one"), text("two"), reason="STOP")) == (Text("onetwo"),)


# --- every part, decoded and written back -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PARTS))
def test_verbatim_returns_body_parts_unchanged(name):
    """All fields, null included."""
    message = whole(chunk(*PARTS[name], reason="STOP")).message

    assert json.loads(jsonio.encode(verbatim(message))) == PARTS[name]


@pytest.mark.parametrize("name", sorted(PARTS))
def test_verbatim_returns_streamed_parts_joined(name):
    """One part per chunk: the same parts, with plain neighboring texts joined."""
    message = stream(*(chunk(part) for part in PARTS[name]), chunk(reason="STOP")).message
    expected = [text("onetwo")] if name == "several_texts" else PARTS[name]

    assert json.loads(jsonio.encode(verbatim(message))) == expected


@pytest.mark.parametrize("name", sorted(TYPED))
def test_known_parts_are_not_opaque(name):
    assert not any(isinstance(block, Opaque) for block in whole(chunk(*PARTS[name], reason="STOP")).message.blocks)


@pytest.mark.parametrize("name", sorted(PARTS))
def test_deltas_add_up_to_the_block(name):
    """Joined, they are its text, arguments, code or data; `ContentDone` has the block of the reply."""
    events = decode_events(sse(*(chunk(part) for part in PARTS[name]), chunk(reason="STOP")))
    fields = {Text: "text", Reasoning: "text", ToolUse: "args", ServerToolUse: "args", CodeExecution: "code"}
    fields |= {Image: "data", Audio: "data"}
    for at, block in enumerate(events[-1].response.message.blocks):
        deltas = [e.delta for e in events if isinstance(e, ContentDelta) and e.part_index == at]
        pieces = [getattr(d, d.__struct_fields__[0]) for d in deltas if not isinstance(d, SignatureDelta)]
        if type(block) in fields:
            assert "".join(pieces) == getattr(block, fields[type(block)])
        assert [e.part for e in events if isinstance(e, ContentDone) and e.part_index == at] == [block]


def test_number_literals_are_preserved():
    """`1.10` stays `1.10`, in arguments, in other fields and in usage."""
    part = b'{"functionCall":{"name":"f","args":{"a": 1.10}},"partMetadata":{"k":1e2}}'
    body = (
        b'{"candidates":[{"content":{"parts":[%s],"role":"model"},"finishReason":"STOP","avgLogprobs":-0.50}],' % part
    )
    response = decode_body(make_decoder(), body + b'"usageMetadata":{"totalTokenCount":1.0}}')
    (block,) = response.message.blocks

    assert (block.args, block.extra) == ('{"a": 1.10}', '{"partMetadata":{"k":1e2}}')
    assert (response.message.extra, response.raw_usage) == ('{"avgLogprobs":-0.50}', '{"totalTokenCount":1.0}')


def test_media_type_decides_block_type():
    """Images, audio, and documents for every other type."""
    response = whole(chunk(*PARTS["image"], *PARTS["audio"], *PARTS["video"], *PARTS["image_file"], reason="STOP"))

    assert response.message.blocks[1:] == (
        Image("iVBORw0KGgo=", "image/png", meta=SIGNED),
        Audio("AAAA", "audio/L16;rate=24000"),
        Document("AAAA", "video/mp4", extra='{"videoMetadata":{"fps":2}}'),
        Image(mime="image/webp", url="https://a.example/x"),
    )


def test_image_is_one_delta():
    events = decode_events(sse(chunk(IMAGE, reason="STOP")))

    assert events[1:4] == [
        ContentStart(0, 0, Image("", "image/png")),
        ContentDelta(0, 0, ImageDelta("iVBORw0KGgo=")),
        ContentDone(0, 0, Image("iVBORw0KGgo=", "image/png")),
    ]


def test_code_and_server_tools_keep_provider_values():
    blocks = whole(chunk(*PARTS["code"], *PARTS["server_tool"], reason="STOP")).message.blocks

    assert blocks == (
        CodeExecution("print(1)", "PYTHON", "c1", meta=SIGNED),
        CodeResult("OUTCOME_OK", "1\n", "c1"),
        ServerToolUse("t1", "GOOGLE_SEARCH_WEB", '{"queries":["x"]}', "toolCall", meta=GeminiMeta("YQ==")),
        ServerToolResult(
            "t1",
            '{"n":1.1}',
            "toolResponse",
            meta=GeminiMeta("Yg=="),
            extra='{"toolResponse":{"toolType":"GOOGLE_SEARCH_WEB"}}',
        ),
    )


# --- calls ------------------------------------------------------------------------------------------------------------


def test_parallel_calls_keep_their_own_signatures():
    """Usually only the first call has one; the others get none."""
    blocks = decode_blocks(*(chunk(part) for part in PARTS["parallel_calls"]), chunk(reason="STOP"))

    assert [block.meta for block in blocks] == [SIGNED, None, None]
    assert stream(chunk(*PARTS["parallel_calls"], reason="STOP")).message.stop_reason == "tool_calls"


def test_complete_call_emits_one_arguments_delta():
    events = decode_events(sse(chunk(call("f", {"a": 1}, thoughtSignature="c2ln"), reason="STOP")))
    (block,) = events[-1].response.message.blocks

    assert events[2:5] == [
        ContentDelta(0, 0, ArgumentsDelta('{"a":1}')),
        ContentDelta(0, 0, SignatureDelta("c2ln")),
        ContentDone(0, 0, block),
    ]


def test_missing_arguments_differ_from_empty_ones():
    blocks = whole(chunk(call("f"), call("f", {}), reason="STOP")).message.blocks

    assert [(block.args, block.args_missing) for block in blocks] == [("", True), ("{}", False)]


def test_generated_ids_are_unique_and_repeatable():
    """Same bytes and seed, same ids; different calls and replies have different ids."""
    body = sse(chunk(call("f", {}), call("f", {})), chunk(call("f", {}), reason="STOP"))
    other = sse(chunk(call("f", {}), reason="STOP", candidate={"index": 1}))
    ids = [block.id for block in decode_stream(make_decoder(seed="s"), [body]).message.blocks]

    assert ids == [block.id for block in decode_stream(make_decoder(seed="s"), [body]).message.blocks]
    assert len({*ids, *(b.id for b in decode_stream(make_decoder(seed="t"), [body]).message.blocks)}) == 6
    assert decode_stream(make_decoder(seed="s"), [other]).message.blocks[0].id not in ids
    assert all(block.id_generated for block in decode_stream(make_decoder(), [body]).message.blocks)


def test_received_call_id_is_preserved():
    (block,) = whole(chunk(*PARTS["call_with_id"], reason="STOP")).message.blocks

    assert (block.id, block.id_generated) == ("fc_1", False)


def test_create_time_of_last_chunk_counts():
    """Some hosts send `createTime` in every chunk."""
    chunks = [chunk(text(time), createTime=time) for time in ("a", "b")]

    assert decode_stream(make_decoder(), [sse(*chunks, chunk(text("c"), reason="STOP"))]).field("createTime") == "b"
