"""The end of a reply: finish reasons, usage, errors, invalid bytes."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import Text
from tenuto.core.events import ErrorEvent, MessageDelta, MessageDone
from tenuto.errors import BadRequest, ContextTooLong, IncompleteResponse, LLMError, ProtocolError, RateLimited
from tenuto.wire.chat.decode import ChatDecoder
from wire.chat.cases import FIRST, HEAD, USAGE, assistant, back, body, chunk, sse, stream, target, text, whole

# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "reason"),
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
def test_finish_reasons(raw, reason):
    message = whole(body(assistant(), raw)).message

    assert (message.stop_reason, message.raw_stop_reason) == (reason, raw)


def test_stream_ends_with_done_or_all_finish_reasons():
    assert stream(sse(FIRST, text("Hi"))).text == "Hi"
    assert stream(sse(FIRST, text("Hi"), chunk({}, "stop"), done=False)).text == "Hi"
    both = (FIRST, chunk({"content": "x"}, index=1), chunk({}, "stop"))
    with pytest.raises(IncompleteResponse) as exc_info:
        stream(sse(*both, done=False))
    assert exc_info.value.partial.message.blocks == ()
    assert stream(sse(*both, chunk({}, "stop", index=1), done=False)).choices[1].text == "x"


def test_interrupted_stream_returns_partial_reply():
    with pytest.raises(IncompleteResponse) as exc_info:
        stream(sse(FIRST, chunk({"reasoning": "Look"}), text("It ra"), done=False))
    message = exc_info.value.partial.message

    assert message.incomplete
    assert [b.text for b in message.blocks] == ["Look", "It ra"]
    assert message.raw_stop_reason is None


def test_empty_stream_is_incomplete_but_done_alone_is_empty():
    with pytest.raises(IncompleteResponse):
        stream(b"")
    response = stream(sse())

    assert response.choices == ()
    assert [loss.kind for loss in response.losses] == ["no-choices"]


def test_empty_finish_reason_does_not_end_choice():
    response = stream(
        sse(
            chunk({"role": "assistant"}, ""),
            chunk({"content": "a"}, ""),
            chunk({"content": "b"}, ""),
            chunk({}, "stop"),
        )
    )

    assert response.message.blocks == (Text("ab"),)


def test_changed_finish_reason_is_a_loss_and_last_counts():
    decoder = ChatDecoder(target())
    events = decoder.feed(sse(FIRST, chunk({"content": "a"}, "stop"), chunk({"content": ""}, "length")))
    response = decoder.finish()[-1].response

    assert (response.message.raw_stop_reason, response.text) == ("length", "a")
    assert [e for e in events if isinstance(e, MessageDelta)] == [
        MessageDelta(0, "stop", "stop"),
        MessageDelta(0, "length", "length"),
    ]
    assert [loss.kind for loss in response.losses] == ["changed-field"]


LATE = {
    "content": "b",
    "reasoning_content": "b",
    "reasoning": "b",
    "reasoning_details": [{"type": "reasoning.text", "text": "b"}],
    "tool_calls": [{"index": 0, "id": "b", "type": "function", "function": {"name": "b", "arguments": "{}"}}],
    "function_call": {"name": "b", "arguments": "{}"},
    "refusal": "b",
    "audio": {"id": "b", "data": "AAAA"},
    "images": [{"type": "image_url", "image_url": {"url": "https://b.example"}}],
}


@pytest.mark.parametrize("name", [*LATE, "content list", "content object"])
@pytest.mark.parametrize("finish", [None, "stop"])
def test_content_after_finish_reason_is_a_loss(name, finish):
    field, _, form = name.partition(" ")
    value = {"list": [{"type": "text", "text": "b"}], "object": {"b": 1}}.get(form, LATE[field])
    decoder = ChatDecoder(target())
    before = decoder.feed(sse(FIRST, text("a"), chunk({}, "stop"), done=False))
    after = [*decoder.feed(sse(chunk({field: value}, finish), chunk({field: value}))), *decoder.finish()]
    response = after[-1].response

    assert isinstance(before[-1], MessageDelta)
    assert [type(event) for event in after] == [MessageDone]
    assert response.message.blocks == (Text("a"),)
    (loss,) = response.losses
    assert (loss.kind, str(loss.location)) == ("after-the-end", f"choices[0].message.{field}")
    assert "b" in loss.detail


@pytest.mark.parametrize(
    "delta",
    [
        {"role": "assistant", "content": "", "reasoning": None, "reasoning_details": []},
        {"role": "assistant", "content": "", "token_id": 128009},
        {"content": None, "tool_calls": None, "refusal": None, "function_call": {}},
    ],
)
def test_empty_delta_after_finish_reason_is_not_a_loss(delta):
    response = stream(sse(FIRST, text("a"), chunk({}, "stop"), chunk(delta, "stop"), chunk(delta)))

    assert (response.text, response.losses) == ("a", ())


def test_choice_may_continue_after_another_has_finished():
    frames = (chunk({"content": "a"}, index=0), chunk({}, "stop", index=0), chunk({"content": "b"}, index=1))
    response = stream(sse(*frames, chunk({"content": "c"}, "stop", index=1)))

    assert [choice.text for choice in response.choices] == ["a", "bc"]
    assert response.losses == ()


def test_repeated_finish_reason_gives_one_event():
    decoder = ChatDecoder(target())
    events = decoder.feed(sse(FIRST, chunk({}, "stop"), chunk({"content": ""}, "stop")))

    assert sum(isinstance(e, MessageDelta) for e in events) == 1


def test_unreadable_frame_is_an_error_or_a_loss_after_the_end():
    response = stream(sse(FIRST, text("Hi"), chunk({}, "stop"), "{broken"))

    assert (response.text, response.losses[0].kind) == ("Hi", "after-the-end")
    with pytest.raises(ProtocolError) as exc_info:
        stream(sse(FIRST, text("Hi"), "{broken", chunk({}, "stop")))
    assert exc_info.value.frame == b"{broken"
    assert exc_info.value.partial.text == "Hi"


# --- usage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([chunk({}, "stop"), {**HEAD, "choices": [], "usage": USAGE}], id="after the end"),
        pytest.param([chunk({}, "stop", usage=USAGE)], id="with the end"),
        pytest.param([text("a", usage={"prompt_tokens": 1}), chunk({}, "stop", usage=USAGE)], id="with every frame"),
        pytest.param([chunk({}, "stop", x_groq={"id": "r", "usage": USAGE})], id="in a field of the host"),
        pytest.param([chunk({}, "stop", usage=USAGE), chunk({"content": ""}, usage=None)], id="then null"),
        pytest.param([{**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]}], id="in a choice"),
    ],
)  # fmt: skip
def test_usage_is_found_in_every_field(frames):
    response = stream(sse(FIRST, text("a"), *frames))

    assert json.loads(response.raw_usage) == USAGE
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (10, 5, 15)


def test_raw_usage_keeps_its_bytes():
    data = body(assistant()).replace(b'"prompt_tokens": 10', b'"cost": 1.10, "prompt_tokens": 10')

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
def test_error_in_stream_is_classified_with_partial_reply(event, kind):
    with pytest.raises(kind) as exc_info:
        stream(sse(FIRST, text("It ra"), event, text("ins"), chunk({}, "stop")))

    assert type(exc_info.value) is kind
    assert exc_info.value.partial.text == "It ra"
    assert exc_info.value.partial.message.incomplete


def test_event_named_error_is_an_error():
    decoder = ChatDecoder(target())
    events = decoder.feed(sse(FIRST)[:-14] + b'event: error\ndata: {"message": "gone"}\n\n')

    assert isinstance(events[-1], ErrorEvent)
    with pytest.raises(LLMError, match="gone"):
        decoder.finish()


def test_frame_content_is_read_before_its_error_is_raised():
    event = chunk({"content": "ins"}, "length", error={"code": 400, "message": "limit"}, usage=USAGE)
    with pytest.raises(BadRequest) as exc_info:
        stream(sse(FIRST, text("It ra"), event))
    partial = exc_info.value.partial

    assert (partial.text, partial.message.raw_stop_reason, partial.usage.total_tokens) == ("It rains", "length", 15)


@pytest.mark.parametrize("error", [None, {}, ""])
def test_empty_error_is_ignored(error):
    assert stream(sse(FIRST, text("Hi", error=error), chunk({}, "stop"))).text == "Hi"


def test_error_body_is_classified():
    data = json.dumps({"error": {"message": "no", "type": "invalid_request_error", "param": None}}).encode()
    with pytest.raises(BadRequest) as exc_info:
        whole(data)
    assert exc_info.value.raw == data.decode()
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
def test_invalid_bodies_are_protocol_errors_with_bytes(data):
    with pytest.raises(ProtocolError) as exc_info:
        whole(data)
    assert exc_info.value.frame == data


@pytest.mark.parametrize(
    "message",
    [
        None,
        {},
        {"role": None, "content": "Hi"},
        {"content": "Hi"},
        {"role": "tool", "content": "Hi"},
        assistant("\ud800 \x00 \U0001f600"),
    ],
)
def test_unusual_messages_are_written_back(message):
    response = whole(body(message))

    expected = {k: v for k, v in (message or {}).items() if (k, v) != ("role", None)}
    assert back(response) == expected


def test_surrogates_of_two_frames_are_joined():
    response = stream(sse(FIRST, text("a\ud83d"), text("\ude00 \ud800"), chunk({}, "stop")))

    assert response.text == "a\U0001f600 \ud800"


def test_large_numbers_keep_their_digits():
    data = (
        body(assistant("Hi"))
        .replace(b'"refusal"', b'"x"')
        .replace(b'"created": 1700000000', b'"created": ' + b"9" * 5000)
    )

    assert b"9" * 5000 in whole(data).extra.encode()
