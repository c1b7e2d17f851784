"""How a reply ends: words, usage, errors, and bytes that break the dialect."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import (
    Text,
)
from tenuto.core.events import ErrorEvent, MessageDelta, MessageDone
from tenuto.errors import BadRequest, ContextTooLong, IncompleteResponse, LLMError, ProtocolError, RateLimited
from tenuto.wire.chat.decode import ChatDecoder
from wire.chat.cases import (
    FIRST,
    HEAD,
    USAGE,
    back,
    body,
    chunk,
    said,
    sse,
    stream,
    target,
    text,
    whole,
)

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

    assert (message.stop_reason, message.raw_stop_reason) == (reason, word)


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
    assert message.raw_stop_reason is None


def test_nothing_at_all_is_incomplete_and_done_alone_is_an_empty_answer():
    with pytest.raises(IncompleteResponse):
        stream(b"")
    response = stream(sse())

    assert response.choices == ()
    assert [loss.kind for loss in response.losses] == ["no-choices"]


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


def test_finish_reason_that_changes_is_a_loss_and_the_last_counts():
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
    assert (loss.kind, loss.place) == ("after-the-end", f"choices[0].message.{field}")
    assert "b" in loss.detail


@pytest.mark.parametrize(
    "delta",
    [
        {"role": "assistant", "content": "", "reasoning": None, "reasoning_details": []},
        {"role": "assistant", "content": "", "token_id": 128009},
        {"content": None, "tool_calls": None, "refusal": None, "function_call": {}},
    ],
)
def test_empty_delta_after_finish_reason_is_no_loss(delta):
    response = stream(sse(FIRST, text("a"), chunk({}, "stop"), chunk(delta, "stop"), chunk(delta)))

    assert (response.text, response.losses) == ("a", ())


def test_choice_may_go_on_after_another_has_finished():
    frames = (chunk({"content": "a"}, index=0), chunk({}, "stop", index=0), chunk({"content": "b"}, index=1))
    response = stream(sse(*frames, chunk({"content": "c"}, "stop", index=1)))

    assert [choice.text for choice in response.choices] == ["a", "bc"]
    assert response.losses == ()


def test_a_word_that_comes_twice_is_told_once():
    decoder = ChatDecoder(target())
    events = decoder.feed(sse(FIRST, chunk({}, "stop"), chunk({"content": ""}, "stop")))

    assert sum(isinstance(e, MessageDelta) for e in events) == 1


def test_an_unreadable_frame_behind_the_end_is_a_loss_and_before_it_an_error():
    response = stream(sse(FIRST, text("Hi"), chunk({}, "stop"), "{broken"))

    assert (response.text, response.losses[0].kind) == ("Hi", "after-the-end")
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
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (10, 5, 15)


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

    assert isinstance(events[-1], ErrorEvent)
    with pytest.raises(LLMError, match="gone"):
        decoder.finish()


def test_a_frame_with_an_error_is_read_before_it_is_told():
    event = chunk({"content": "ins"}, "length", error={"code": 400, "message": "limit"}, usage=USAGE)
    with pytest.raises(BadRequest) as caught:
        stream(sse(FIRST, text("It ra"), event))
    partial = caught.value.partial

    assert (partial.text, partial.message.raw_stop_reason, partial.usage.total_tokens) == ("It rains", "length", 15)


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
