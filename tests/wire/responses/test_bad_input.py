"""Errors in a stream, truncated streams, malformed bytes, and unknown events and fields."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import Opaque, Text, ToolUse
from tenuto.core.events import ErrorEvent
from tenuto.errors import (
    BadRequest,
    ContextTooLong,
    IncompleteResponse,
    LLMError,
    ProtocolError,
    QuotaExceeded,
    RateLimited,
    Unavailable,
)
from tenuto.wire.decoder import decode_body, decode_stream
from tenuto.wire.responses.protocol import PROGRESS
from wire.responses.cases import (
    added,
    body,
    call,
    completed,
    created,
    delta,
    done,
    message,
    reasoning,
    response,
    sse,
    text,
    text_delta,
)
from wire.responses.replies import decoder, loss_kinds, stream

QUOTA = {
    "type": "insufficient_quota",
    "code": "insufficient_quota",
    "message": "You exceeded your current quota",
    "param": None,
}


def failed(**error: object) -> dict:
    return {"type": "response.failed", "response": response(status="failed", error=error or None)}


@pytest.mark.parametrize(
    "event, kind",
    [
        ({"type": "error", "sequence_number": 2, "error": QUOTA}, QuotaExceeded),
        ({"type": "error", **{k: v for k, v in QUOTA.items() if k != "type"}}, QuotaExceeded),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None}, RateLimited),
        ({"type": "error", "error": {"code": "context_length_exceeded", "message": "too long"}}, ContextTooLong),
        (failed(code="server_error", message="oops"), Unavailable),
        (failed(code="rate_limit_exceeded", message="slow"), RateLimited),
        (failed(code="invalid_prompt", message="no"), BadRequest),
        (failed(code="bio_policy", message="no"), BadRequest),
        (failed(code="vector_store_timeout", message="later"), Unavailable),
        (failed(), LLMError),
    ],
)
def test_stream_error_has_type_of_http_error(event, kind):
    with pytest.raises(kind) as caught:
        stream(created(), event)

    assert type(caught.value) is kind
    assert caught.value.provider == "here"


def test_error_and_failed_event_raise_once_with_partial_reply():
    reader = decoder()
    events = reader.feed(
        sse(
            created(),
            done(0, message(text("One."))),
            added(1, message(id="msg_2")),
            text_delta(1, "Tw"),
            {"type": "error", "error": QUOTA},
            failed(**QUOTA),
        )
    )
    with pytest.raises(QuotaExceeded) as caught:
        reader.finish()
    finished, cut = caught.value.partial.message.blocks

    assert [type(event) for event in events].count(ErrorEvent) == 1
    assert (finished.text, finished.meta.id) == ("One.", "msg_1")
    assert (cut.text, cut.meta) == ("Tw", None)
    assert caught.value.partial.message.incomplete


def test_failed_event_keeps_its_output_as_partial():
    event = failed(code="server_error", message="oops")
    event["response"]["output"] = [message(text("One."))]
    with pytest.raises(Unavailable) as caught:
        stream(created(), event)

    assert caught.value.message == "oops"
    assert caught.value.partial.text == "One."
    assert (caught.value.partial.message.raw_stop_reason, caught.value.partial.message.stop_reason) == (
        "failed",
        "error",
    )
    assert caught.value.partial.usage is not None
    assert json.loads(caught.value.raw)["status"] == "failed"


def test_failed_body_raises_provider_error():
    with pytest.raises(RateLimited, match="slow"):
        decode_body(decoder(), body(status="failed", error={"code": "rate_limit_exceeded", "message": "slow"}))


@pytest.mark.parametrize("data", [{"error": QUOTA}, {"type": None, "error": QUOTA}])
def test_error_object_raises_in_body_and_stream(data):
    with pytest.raises(QuotaExceeded):
        decode_body(decoder(), json.dumps(data).encode())
    with pytest.raises(QuotaExceeded):
        decode_stream(decoder(), [f"data: {json.dumps(data)}\n\n".encode()])
    with pytest.raises(QuotaExceeded):
        decode_stream(decoder(), [f"event: error\ndata: {json.dumps(data)}\n\n".encode()])


# --- truncated streams ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [b"", b"data: [DONE]\n\n", b"data: \n\n", b": end\n\n"])
def test_stream_is_incomplete_without_last_event(last):
    """`[DONE]` is not the last event."""
    data = (
        sse(created(), done(0, reasoning("Hm.")), added(1, message()), text_delta(1, "Hi"), added(2, call(""))) + last
    )
    with pytest.raises(IncompleteResponse) as caught:
        decode_stream(decoder(), [data])
    reasoning_block, text_block, call_block = caught.value.partial.message.blocks

    assert reasoning_block.meta.encrypted_content == "gAAA-done"
    assert (text_block, call_block) == (Text("Hi"), ToolUse("call_1", "weather", ""))


def test_empty_stream_is_incomplete():
    with pytest.raises(IncompleteResponse):
        decode_stream(decoder(), [])


def test_done_marker_after_last_event_is_ignored():
    assert (
        decode_stream(decoder(), [sse(created(), completed()) + b"data: [DONE]\n\n"]).message.raw_stop_reason
        == "completed"
    )


# --- malformed bytes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        b"{",
        b"nonsense",
        b"[1]",
        b'"text"',
        b"null",
        b'{"type":7}',
        b'{"type":"response.output_item.added","output_index":0}',
        b'{"type":"response.output_item.added","output_index":0,"item":[]}',
        b'{"type":"response.output_item.done","output_index":0,"item":null}',
        b'{"type":"response.output_item.done","output_index":1,"item":{"type":"message","role":7,"content":[{}]}}',
        b'{"type":"response.content_part.added","output_index":0}',
        b'{"type":"response.output_text.delta","output_index":0,"delta":7}',
        b'{"type":"response.output_text.delta","output_index":0,"delta":"\xff"}',
        b'{"type":"response.completed"}',
        b'{"type":"response.completed","response":null}',
        b'{"type":"response.completed","response":{"output":{}}}',
        b'{"type":"response.completed","response":{"output":[7]}}',
        b'{"type":"response.created","response":{"id":7}}',
        b'{"type":"x","deep":' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"type":"response.output_text.delta","output_index":0,"delta":"a","logprobs":' + b"[" * 9999 + b"}",
    ],
)
def test_malformed_frame_is_protocol_error_with_frame(frame):
    with pytest.raises(ProtocolError) as caught:
        decode_stream(decoder(), [sse(created(), done(0, message(text("One.")))) + b"data: " + frame + b"\n\n"])

    assert caught.value.frame == frame
    assert caught.value.partial.text == "One."


@pytest.mark.parametrize("data", [b"{}", b"[]", b"", b"{", b'{"id":"resp_1"}', b"\xff\xfe", b'{"output":7}'])
def test_malformed_body_is_protocol_error(data):
    with pytest.raises(ProtocolError):
        decode_body(decoder(), data)


def test_deltas_keep_lone_surrogates_and_nul():
    data = (
        b'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a\\ud83d\\u0000"}\n\n'
    )

    assert decode_stream(decoder(), [data + sse(completed())]).text == "a\ud83d\x00"


def test_unknown_fields_keep_huge_numbers():
    data = b'{"status":"completed","output":[],"odd":1e999,"odder":' + b"9" * 5000 + b"}"

    assert ("9" * 5000) in decode_body(decoder(), data).extra


# --- unknown events and fields ----------------------------------------------------------------------------------------


def test_unknown_event_is_recorded_once_per_type():
    odd = {"type": "response.dream.delta", "delta": "sheep", "sequence_number": 7}
    reply = stream(created(), odd, odd, {"type": "response.dream.done"}, completed())

    assert [(loss.kind, str(loss.location)) for loss in reply.losses] == [
        ("unknown-event", "response.dream.delta"),
        ("unknown-event", "response.dream.done"),
    ]
    assert "sheep" in reply.losses[0].detail


def test_delta_with_unknown_field_is_read_and_recorded():
    new = text_delta(0, "Hi") | {"mood": "blue"}
    reply = stream(created(), added(0, message()), new, new, completed())

    assert reply.text == "Hi" * 2
    assert [str(loss.location) for loss in reply.losses if loss.kind == "unknown-field"] == ["mood"]


@pytest.mark.parametrize("kind", sorted(PROGRESS))
def test_progress_event_has_no_loss(kind):
    event = {"type": kind, "sequence_number": 4, "item_id": "x", "output_index": 0, "delta": "x", "command_index": 0}

    assert stream(created(), event, completed()).losses == ()


def test_event_name_replaces_missing_type():
    data = b'event: response.output_text.delta\ndata: {"output_index":0,"delta":"Hi"}\n\n'
    last = b'event: response.completed\ndata: {"response":{"output":[]}}\n\n'
    reply = decode_stream(decoder(), [data + last])

    assert (reply.text, reply.message.raw_stop_reason) == ("Hi", "completed")


def test_broken_arguments_keep_their_text_and_error():
    reply = stream(
        created(), added(0, call("")), delta("function_call_arguments", 0, '{"a'), done(0, call('{"a')), completed()
    )

    assert (reply.message.blocks[0].args, bool(reply.message.blocks[0].args_error)) == ('{"a', True)
    assert loss_kinds(reply) == ["broken-arguments"]


def test_deltas_of_unknown_item_type_are_accepted():
    reader = decoder()
    new = {"type": "hologram", "id": "h_1"}
    reader.feed(sse(created(), added(0, new), text_delta(0, "Hi"), text_delta(0, " there")))
    partial = reader.partial()

    assert [type(block) for block in partial.message.blocks] == [Opaque]
    assert partial.message.incomplete
    assert not [loss for loss in partial.losses if loss.kind == "unassembled"]
    reader.feed(sse(done(0, {**new, "shape": "round"}), completed()))
    assert "round" in reader.finish()[-1].response.message.blocks[0].raw


@pytest.mark.parametrize("index", [1001, 10**9, 2**62, 10**30])
def test_summary_index_that_skips_far_is_protocol_error(index):
    event = {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": index, "delta": "x"}
    with pytest.raises(ProtocolError, match=f"{index}"):
        stream(created(), event)


@pytest.mark.parametrize("kind", ["response.audio.delta", "response.audio.transcript.delta"])
def test_speech_after_last_event_is_loss(kind):
    speech = {"type": kind, "delta": "AAAA"}
    reply = stream(created(), speech, completed(), speech)

    assert len(reply.message.blocks) == 1
    assert loss_kinds(reply) == ["after-the-end"]


@pytest.mark.parametrize("event", [done(1 << 31, message()), text_delta(1 << 31, "x")])
def test_output_index_out_of_range_is_protocol_error(event):
    speech = {"type": "response.audio.transcript.delta", "delta": "x"}
    with pytest.raises(ProtocolError, match="index 2147483648 is out of range"):
        stream(created(), speech, event, completed())
