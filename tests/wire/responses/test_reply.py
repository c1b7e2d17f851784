"""The fields of a reply other than its blocks: stop reason, usage and extra fields."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.core.events import ContentDone, MessageDelta, MessageDone, MessageStart
from tenuto.core.messages import Usage
from tenuto.wire.decoder import decode_body, decode_stream
from wire.responses.cases import added, body, call, completed, created, done, message, response, sse, text, text_delta
from wire.responses.replies import decode_events, decode_items, decoder, loss_kinds, stream, write_items


@pytest.mark.parametrize(
    "status, details, items, reason",
    [
        ("completed", None, [message(text("Hi."))], "stop"),
        ("completed", None, [message(text("Hi.")), call()], "tool_calls"),
        ("completed", None, [message({"type": "refusal", "refusal": "No."}), call()], "content_filter"),
        ("incomplete", {"reason": "max_output_tokens"}, [call()], "length"),
        ("incomplete", {"reason": "max_messages"}, [], "length"),
        ("incomplete", {"reason": "content_filter"}, [], "content_filter"),
        ("incomplete", {"reason": "steered"}, [], "stop"),
        ("incomplete", {"reason": "a new one"}, [], "error"),
        ("incomplete", None, [], "error"),
        ("cancelled", None, [], "error"),
        ("complete", None, [], "stop"),
    ],
)
def test_stop_reason(status, details, items, reason):
    reply = decode_items(*items, status=status, incomplete_details=details)

    assert (reply.message.stop_reason, reply.message.raw_stop_reason) == (reason, status)
    assert json.loads(reply.message.extra or "{}") == ({"incomplete_details": details} if details else {})


def test_incomplete_event_ends_reply():
    last = {
        "type": "response.incomplete",
        "response": response(status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    }
    reply = stream(created(), done(0, message(text("Hi"), status="incomplete")), last)

    assert (reply.message.stop_reason, reply.message.raw_stop_reason, reply.text) == ("length", "incomplete", "Hi")
    assert not reply.message.incomplete


def test_reply_ends_once():
    kinds = [type(event) for event in decode_events(sse(created(), completed(call()), completed(call())))]

    assert (kinds.count(MessageDelta), kinds.count(MessageDone), kinds.count(ContentDone)) == (1, 1, 1)


def test_last_event_name_replaces_missing_status():
    last = completed()
    del last["response"]["status"]

    assert stream(created(), last).message.raw_stop_reason == "completed"


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_pending_body_is_marked_incomplete(status):
    """In background mode, the reply is fetched later."""
    reply = decode_items(status=status)

    assert (reply.message.stop_reason, reply.message.raw_stop_reason, reply.message.incomplete) == (None, status, True)
    assert reply.usage is None


def test_compacted_history_is_reply_without_status():
    data = {"id": "resp_1", "object": "response.compaction", "created_at": 1, "usage": {"input_tokens": 5}}
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
    reply = decode_body(decoder(), json.dumps(data | {"output": [item]}).encode())

    assert (reply.message.raw_stop_reason, reply.message.stop_reason) == (None, "stop")
    assert (reply.model, write_items(reply)) == ("gpt-5.6-sol", [item])


def test_other_fields_are_response_extra():
    reply = decode_items(tool_usage={"web_search": {"num_requests": 2}}, service_tier="flex", temperature=1.0)

    assert (reply.id, reply.model, reply.provider) == ("resp_1", "gpt-5.6-sol", "here")
    assert reply.field("tool_usage") == {"web_search": {"num_requests": 2}}
    assert '"temperature":1.0' in reply.extra
    assert not {"id", "model", "output", "usage", "status"} & json.loads(reply.extra).keys()


def test_response_fields_merge_across_events():
    first = created()
    first["response"] |= {"early": 1, "service_tier": "auto"}
    reply = stream({**first, "type": "response.queued"}, completed(service_tier="default", early=None))

    assert (reply.field("early"), reply.field("service_tier")) == (1, "default")


def test_stream_may_start_in_the_middle():
    """A background stream can be resumed in the middle."""
    events = decode_events(sse(added(0, message()), text_delta(0, "Hi."), done(0, message(text("Hi."))), completed()))

    assert events[0] == MessageStart("", "gpt-5.6-sol")
    assert (events[-1].response.text, events[-1].response.id) == ("Hi.", "resp_1")


def test_body_is_read_in_place_of_stream():
    assert decode_stream(decoder(), [body(call())]) == decode_items(call())


# --- usage ------------------------------------------------------------------------------------------------------------


def test_usage_buckets_do_not_overlap():
    reply = decode_items()

    assert reply.usage == Usage(
        input_tokens=10,
        cache_read_tokens=60,
        cache_write_tokens=30,
        output_tokens=30,
        reasoning_tokens=20,
        reported_total=150,
    )
    assert json.loads(reply.raw_usage)["input_tokens"] == 100


def test_raw_usage_is_unchanged():
    raw = b'{"status":"completed","output":[],"usage":{"input_tokens": 1, "cost":1.10e-5}}'

    assert decode_body(decoder(), raw).raw_usage == '{"input_tokens": 1, "cost":1.10e-5}'


def test_contradictory_usage_is_clamped_with_loss():
    usage = {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 9, "audio_tokens": 2, "text_tokens": 3},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 1},
    }
    reply = decode_items(usage=usage)

    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (0, 0)
    assert (reply.usage.audio_input_tokens, reply.usage.audio_output_tokens) == (2, 1)
    assert reply.usage.input_by_modality == {"text": 3, "audio": 2}
    assert loss_kinds(reply) == ["usage-contradiction"] * 2


SHARES = ("cached_tokens", "cache_write_tokens", "reasoning_tokens", "audio_tokens", "text_tokens")
COUNT = st.none() | st.integers(-1, 9)
COUNTS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), COUNT)
    | {
        name: st.dictionaries(st.sampled_from(SHARES), COUNT)
        for name in ("input_tokens_details", "output_tokens_details")
    },
)


@given(COUNTS)
def test_unknown_usage_field_changes_no_count(counts):
    plain, odd = decode_items(usage=counts), decode_items(usage={**counts, "odd": "x"})

    assert (plain.usage, plain.losses) == (odd.usage, odd.losses)


@pytest.mark.parametrize("usage", [None, [], "odd", {}, {"input_tokens": "many", "input_tokens_details": None}])
def test_unreadable_usage_is_unknown(usage):
    reply = decode_items(usage=usage)

    assert (reply.usage or Usage()) == Usage()
    assert bool(reply.raw_usage) == isinstance(usage, dict)
