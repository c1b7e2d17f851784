"""Decode the Anthropic dialect: every field is read, in order, and bad bytes give clear errors."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    DocumentCitation,
    Marker,
    Opaque,
    OtherCitation,
    PageCitation,
    Reasoning,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.events import ContentDelta, ContentDone, ContentStart, ErrorEvent, MessageStart, SignatureDelta
from tenuto.core.messages import Usage
from tenuto.core.provider import Provider, Target
from tenuto.errors import BadRequest, IncompleteResponse, ProtocolError, RateLimited, Unavailable
from tenuto.wire.anthropic.decode import AnthropicDecoder
from tenuto.wire.anthropic.encode import verbatim
from tenuto.wire.decoder import decode_body, decode_stream
from wire.anthropic.cases import (
    CITATION,
    EDITS,
    SEARCH,
    STREAMS,
    WHOLE,
    args,
    block,
    end,
    message,
    signature,
    sse,
    start,
    text,
    thought,
)

TARGET = Target(Provider("here", "anthropic-messages", ""), "claude-opus-4-6", "anthropic-messages")


def decoder() -> AnthropicDecoder:
    return AnthropicDecoder(TARGET)


def stream(body: bytes):
    return decode_stream(decoder(), [body])


def whole(**fields):
    return decode_body(decoder(), json.dumps(message(**fields)).encode())


def test_signature_delta_sets_token_of_thinking_block():
    """The arguments of the call are the exact text of the deltas."""
    thinking, answer, call = stream(STREAMS["thinking, call"]).message.blocks

    assert thinking == Reasoning("Look it up.", meta=AnthropicMeta("EqQB=="))
    assert answer == Text("A moment.")
    assert call == ToolUse("toolu_1", "weather", '{"city": "Oslo", "n": 1.10}', extra='{"caller":{"type": "direct"}}')


def test_empty_thinking_with_signature_is_a_block():
    """Thinking without text must still be sent back."""
    first, _ = stream(STREAMS["empty thinking with a signature"]).message.blocks

    assert first == Reasoning("", meta=AnthropicMeta("Ev0="))
    assert verbatim(replace(stream(STREAMS["text"]).message, blocks=(first,))) == [
        {"type": "thinking", "thinking": "", "signature": "Ev0="}
    ]


def test_interleaved_thinking_keeps_each_signature():
    """A call without argument deltas has the input of its start frame."""
    redacted, one, call, two, other = stream(STREAMS["redacted, interleaved"]).message.blocks

    assert redacted == Reasoning(meta=AnthropicRedactedMeta("EmwKAhgB"))
    assert (one.meta, two.meta) == (AnthropicMeta("s1"), AnthropicMeta("s2"))
    assert (call.args, other.args) == ("{}", "{}")


COMPACTED = {"type": "compaction", "input_tokens": 100, "output_tokens": 83, "cache_read_input_tokens": 55096}
ADVISED = {"type": "advisor_message", "model": "other", "input_tokens": 50, "output_tokens": 7}
ANSWERED = {"type": "message", "input_tokens": 181, "output_tokens": 8, "cache_read_input_tokens": 0}


@pytest.mark.parametrize(
    ("iterations", "expected"),
    [
        ([ANSWERED], (181, 0, None, 8)),
        ([COMPACTED, ANSWERED], (281, 55096, None, 91)),
        ([COMPACTED, ANSWERED, COMPACTED, ANSWERED], (381, 110192, None, 174)),
        ([ANSWERED, ADVISED, ANSWERED], (231, 0, None, 15)),
        ([{**ANSWERED, "model": "a"}, {**ANSWERED, "type": "fallback_message"}], (181, 0, None, 8)),
        ([{**COMPACTED, "cache_creation_input_tokens": 4}], (281, 55096, 4, 91)),
        ([{**COMPACTED, "input_tokens": "many"}, 7, {"type": ["compaction"]}], (181, 55096, None, 91)),
        ("none", (181, 0, None, 8)),
    ],
)
def test_usage_adds_iterations_that_the_totals_leave_out(iterations, expected):
    totals = {"input_tokens": 181, "output_tokens": 8, "cache_read_input_tokens": 0}
    usage = {**totals, "iterations": iterations}
    streamed = stream(sse(start(usage={"input_tokens": 1, "output_tokens": 1}), *end(usage=usage)))
    whole = decode_body(decoder(), json.dumps(message(usage=usage, stop_reason="end_turn")).encode())

    for reply in (streamed, whole):
        total = reply.usage
        counts = (total.input_tokens, total.cache_read_tokens, total.cache_write_tokens, total.output_tokens)
        assert counts == expected
        assert json.loads(reply.raw_usage) == usage


def test_usage_of_a_paused_compaction_counts_its_iteration():
    """The totals are zero when the reply stops right after compaction."""
    usage = {"input_tokens": 0, "output_tokens": 0, "iterations": [COMPACTED]}
    reply = stream(sse(start(usage={}), *end(usage=usage)))

    assert reply.usage == Usage(input_tokens=100, cache_read_tokens=55096, output_tokens=83)


def test_usage_overwrites_key_by_key_and_buckets_do_not_overlap():
    """The counts of `message_delta` are cumulative; a count that it lacks keeps its value."""
    reply = stream(STREAMS["redacted, interleaved"])

    assert json.loads(reply.raw_usage) == {
        "input_tokens": 10,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "output_tokens": 30,
        "output_tokens_details": {"thinking_tokens": 12},
    }
    assert reply.usage == Usage(
        input_tokens=10, cache_read_tokens=4, cache_write_tokens=0, output_tokens=18, reasoning_tokens=12
    )


def test_more_thinking_than_output_is_clamped_with_a_loss():
    """Counts that contradict each other do not give a negative bucket."""
    usage = {"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 9}}
    reply = stream(sse(start(), *end(usage=usage)))

    assert (reply.usage.output_tokens, reply.usage.reasoning_tokens) == (0, 5)
    assert [loss.kind for loss in reply.losses] == ["contradicting-usage"]


@pytest.mark.parametrize("odd", [None, "many", -1, 1.5, True, [3], {}])
def test_usage_ignores_values_that_are_not_counts(odd):
    details = {"thinking_tokens": 2, "odd": 1}
    usage = {"input_tokens": odd, "output_tokens": 5.0, "output_tokens_details": details, "service_tier": "standard"}
    reply = stream(sse(start(usage={}), *end(usage=usage)))

    assert reply.usage == Usage(output_tokens=3, reasoning_tokens=2)


def test_server_tools_and_citations_keep_their_tokens():
    call, result, answer = stream(STREAMS["search, citations"]).message.blocks

    assert call == ServerToolUse("srvtoolu_1", "web_search", '{"query": "rain"}', "server_tool_use")
    assert isinstance(result, ServerToolResult)
    assert json.loads(result.content) == SEARCH["content"]
    assert answer.citations[0].url == "https://example.com"
    assert json.loads(answer.citations[0].raw) == CITATION


def test_compaction_and_fallback_are_markers():
    """A fallback names the model that answers."""
    compaction, _ = stream(STREAMS["compaction"]).message.blocks
    reply = stream(STREAMS["fallback"])

    assert compaction == Marker("compaction", "So far.", extra='{"encrypted_content":"e=="}')
    assert reply.model == "claude-opus-4-8"
    assert reply.message.blocks[0].kind == "fallback"


def test_compaction_keeps_the_signature_of_its_start():
    signed = {"type": "compaction", "content": None, "signature": "s", "tool_changes": []}
    (marker,) = stream(sse(start(), *block(0, signed, COMPACTED_DELTA), *end())).message.blocks

    assert marker == Marker("compaction", "c", meta=AnthropicMeta("s"), extra='{"tool_changes":[]}')


def test_message_fields_are_in_extra():
    extra = json.loads(stream(STREAMS["compaction"]).message.extra)
    details = {"type": "refusal", "category": "cyber", "recommended_model": "x"}
    delta = {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details, "container": {"id": "c1"}}
    other = stream(sse(start(), {"type": "message_delta", "delta": delta, "usage": {}}, {"type": "message_stop"}))

    assert extra["context_management"] == {"applied_edits": EDITS}
    assert json.loads(other.message.extra) == {
        "stop_sequence": None,
        "stop_details": details,
        "container": {"id": "c1"},
    }
    assert (other.message.raw_stop_reason, other.message.stop_reason) == ("refusal", "content_filter")


def test_message_start_may_contain_content():
    """The frames that follow add blocks to it."""
    content = [{"type": "text", "text": "Al"}]
    reply = stream(sse(start(content=content), *block(1, {"type": "text", "text": ""}, text("so")), *end()))

    assert reply.message.blocks == (Text("Al"), Text("so"))


def test_second_message_start_discards_first_reply():
    first = [start(), *block(0, {"type": "text", "text": ""}, text("no"))]
    second = [start(id="msg_2"), *block(0, {"type": "text", "text": ""}, text("yes")), *end()]
    reply = stream(sse(*first, *second))

    assert (reply.id, reply.message.blocks) == ("msg_2", (Text("yes"),))
    assert [loss.kind for loss in reply.losses] == ["restarted"]


def test_blocks_may_be_open_at_the_same_time():
    """The order of the blocks is that of their start frames."""
    reply = stream(STREAMS["blocks open at the same time"])

    assert reply.message.blocks == (Text("Aa"), Reasoning("B", meta=AnthropicMeta("sig")))


def test_unknown_block_type_is_written_verbatim():
    """The JSON text is unchanged, including numbers."""
    odd = b'{"type":"hologram","depth":1.10,"parts":[1e5]}'
    body = json.dumps(message(content=["HERE"], stop_reason="end_turn")).encode().replace(b'"HERE"', odd)
    reply = decode_body(decoder(), body)

    assert reply.message.blocks == (Opaque("anthropic-messages", odd.decode()),)
    assert bytes(verbatim(reply.message)[0]) == odd


def test_unknown_delta_becomes_extra_field_of_block():
    """Progress counters are not part of the block."""
    deltas = [
        text("a"),
        {"type": "glow_delta", "glow": 1.5},
        {"type": "text_delta", "text": "b", "estimated_tokens": 5},
    ]
    (answer,) = stream(sse(start(), *block(0, {"type": "text", "text": ""}, *deltas), *end())).message.blocks

    assert answer == Text("ab", extra='{"glow":1.5}')


def test_unknown_field_of_delta_becomes_extra_field():
    """The text of the delta is appended as usual."""
    odd = {"type": "text_delta", "text": "b", "shade": "dark"}
    (answer,) = stream(sse(start(), *block(0, {"type": "text", "text": ""}, text("a"), odd), *end())).message.blocks

    assert answer == Text("ab", extra='{"shade":"dark"}')


def test_known_deltas_may_have_unknown_fields():
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    odd = [
        *block(0, {"type": "thinking", "thinking": ""}, {**thought("a"), "x": 1}),
        *block(1, call, {**args("{}"), "x": 2}),
        *block(2, {"type": "compaction", "content": None, "signature": "s"}),
    ]

    assert stream(sse(start(), *odd, *end())).message.blocks == (
        Reasoning("a", extra='{"x":1}'),
        ToolUse("t", "f", "{}", extra='{"x":2}'),
        Marker("compaction", meta=AnthropicMeta("s"), extra='{"content":null}'),
    )


CITED = {"type": "citations_delta", "citation": {"type": "page_location"}}
COMPACTED_DELTA = {"type": "compaction_delta", "content": "c"}
DELTAS = [text("a"), thought("a"), args('{"a":1}'), signature("s"), CITED, COMPACTED_DELTA]
ACCEPTED = {
    "text": ("text_delta", "citations_delta"),
    "thinking": ("thinking_delta", "signature_delta"),
    "tool_use": ("input_json_delta",),
    "server_tool_use": ("input_json_delta",),
    "web_search_tool_result": (),
}
START_CONTENT = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
    "tool_use": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    "server_tool_use": {"type": "server_tool_use", "id": "t", "name": "web_search", "input": {}},
    "web_search_tool_result": {"type": "web_search_tool_result", "tool_use_id": "t", "content": []},
}


@pytest.mark.parametrize("extra", [{}, {"n": 1}])
@pytest.mark.parametrize("delta", DELTAS, ids=lambda delta: delta["type"])
@pytest.mark.parametrize("kind", ACCEPTED)
def test_delta_of_the_wrong_kind_is_a_loss(kind, delta, extra):
    """It would become a field of the block, which Anthropic refuses when the block is sent back."""
    plain = stream(sse(start(), *block(0, START_CONTENT[kind]), *end()))
    reply = stream(sse(start(), *block(0, START_CONTENT[kind], {**delta, **extra}), *end()))

    if delta["type"] in ACCEPTED[kind]:
        assert reply.message.blocks != plain.message.blocks
        assert not reply.losses
    else:
        assert reply.message.blocks == plain.message.blocks
        assert [(loss.kind, str(loss.location)) for loss in reply.losses] == [("misplaced-delta", "blocks[0]")]
        assert delta["type"] in reply.losses[0].detail


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use"])
def test_input_field_of_a_delta_does_not_replace_the_input(kind):
    delta = {**args('{"a":1}'), "input": {"b": 2}}
    reply = stream(sse(start(), *block(0, START_CONTENT[kind], delta), *end()))

    assert json.loads(jsonio.encode(verbatim(reply.message)))[0]["input"] == {"a": 1}
    assert [(loss.kind, str(loss.location)) for loss in reply.losses] == [("misplaced-delta", "blocks[0]")]


def test_delta_for_unknown_block_becomes_extra_field():
    reply = stream(sse(start(), *block(0, {"type": "hologram"}, text("a")), *end()))

    assert reply.message.blocks[0].extra == '{"text":"a"}'
    assert not reply.losses


def test_orphan_frames_are_losses():
    """Deltas and stops without an open block, and second starts, do not change the rest of the reply."""
    odd = [
        {"type": "content_block_delta", "index": 7, "delta": text("lost")},
        {"type": "content_block_delta", "index": 7, "delta": signature("lost")},
        {"type": "content_block_stop", "index": 7},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "surprise", "x": 1},
    ]
    reply = stream(sse(start(), *odd, *end()))

    assert [loss.kind for loss in reply.losses] == [
        "orphan-delta", "orphan-delta", "orphan-stop", "duplicate-start", "unknown-event",
    ]  # fmt: skip
    assert reply.message.blocks == (Text(""),)


def test_broken_arguments_have_args_error():
    """The call is not dropped."""
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    reply = stream(sse(start(), *block(0, call, args('{"city": "Os')), *end("max_tokens")))
    (call_block,) = reply.message.blocks

    assert (call_block.args, bool(call_block.args_error)) == ('{"city": "Os', True)
    assert [loss.kind for loss in reply.losses] == ["broken-arguments"]


@pytest.mark.parametrize("name", sorted(STREAMS))
@pytest.mark.parametrize("size", [1, 2, 7, 64])
@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
def test_chunk_boundaries_do_not_change_the_reply(name, size, eol):
    """Line endings and comments do not change it either."""
    body = STREAMS[name].replace(b"\n\n", b"\n\n: hello\n\n").replace(b"\n", eol)
    pieces = [body[i : i + size] for i in range(0, len(body), size)]

    assert decode_stream(decoder(), pieces) == stream(STREAMS[name])


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_deltas_add_up_to_their_blocks(name):
    """A caller that reads only deltas gets the same text as one that reads the final message."""
    reader = decoder()
    events = reader.feed(STREAMS[name]) + reader.finish()
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, ContentDelta) and not isinstance(event.delta, SignatureDelta):
            piece = next(
                (v for v in (getattr(event.delta, f, None) for f in ("text", "thinking", "arguments")) if v), ""
            )
            texts[event.part_index] = texts.get(event.part_index, "") + piece
    done = {e.part_index: e.part for e in events if isinstance(e, ContentDone)}

    assert isinstance(events[0], MessageStart)
    assert [e.part_index for e in events if isinstance(e, ContentStart)] == sorted(done)
    for index, part in done.items():
        assert texts.get(index, "") == (getattr(part, "text", None) or getattr(part, "args", "") or "")
    assert tuple(done[i] for i in sorted(done)) == events[-1].response.message.blocks


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_body_is_written_as_received(name):
    """Every field of every block is written, including nulls and numbers."""
    reply = decode_body(decoder(), WHOLE[name])

    assert json.loads(jsonio.encode(verbatim(reply.message))) == json.loads(WHOLE[name])["content"]
    assert not any(isinstance(b, Opaque) for b in reply.message.blocks)


def test_citation_types():
    """Each type has its unified form; an unknown or malformed citation has only its JSON text."""
    citations = [
        {"type": "char_location", "document_index": 1, "start_char_index": 2, "end_char_index": 3, "cited_text": "c"},
        {"type": "content_block_location", "document_index": 0, "start_block_index": 1, "end_block_index": 2},
        {"type": "page_location", "document_index": 0, "start_page_number": 1, "end_page_number": 2},
        {"type": "search_result_location", "source": "kb://1", "title": "T"},
        {"type": "star_location"},
        {"type": "char_location", "document_index": "x"},
    ]
    (answer,) = whole(content=[{"type": "text", "text": "t", "citations": citations}]).message.blocks

    kinds = [DocumentCitation, DocumentCitation, PageCitation, UrlCitation, OtherCitation, OtherCitation]
    assert [type(c) for c in answer.citations] == kinds
    assert (answer.citations[0].start_char_index, answer.citations[1].start_block_index) == (2, 1)
    assert (answer.citations[2].end_page, answer.citations[3].url) == (2, "kb://1")
    assert [json.loads(c.raw) for c in answer.citations] == citations


@pytest.mark.parametrize("raw, ours", [
    ("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("tool_use", "tool_calls"),
    ("pause_turn", "stop"), ("refusal", "content_filter"), ("model_context_window_exceeded", "length"),
    ("compaction", "stop"), ("something_new", "stop"),
])  # fmt: skip
def test_stop_reasons(raw, ours):
    reply = whole(stop_reason=raw)

    assert (reply.message.raw_stop_reason, reply.message.stop_reason) == (raw, ours)


def test_error_in_stream_has_partial_reply():
    """The HTTP status is 200, so the type of the error decides. Open blocks have no token."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}
    opened = block(1, {"type": "thinking", "thinking": ""}, thought("half"), signature("s"))[:-1]
    body = sse(start(), *block(0, {"type": "text", "text": ""}, text("so far")), *opened, error)
    reader = decoder()
    events = reader.feed(body)

    assert isinstance(events[-1], ErrorEvent)
    assert any(isinstance(e, ContentDelta) for e in events)
    assert reader.feed(b"data: more\n\n") == []
    with pytest.raises(Unavailable, match="Overloaded") as caught:
        reader.finish()
    assert caught.value.partial.message.blocks == (Text("so far"), Reasoning("half"))
    assert caught.value.partial.message.incomplete
    assert (caught.value.request_id, caught.value.retryable, caught.value.provider) == ("req_1", True, "here")


def test_error_body_raises_typed_error():
    body = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'

    with pytest.raises(RateLimited, match="slow down"):
        decode_body(decoder(), body)
    with pytest.raises(RateLimited, match="slow down"):
        stream(body)
    with pytest.raises(BadRequest):
        stream(b'event: error\ndata: {"error":{"type":"invalid_request_error","message":"x"}}\n\n')


def test_stream_without_message_stop_is_incomplete():
    """The error has the partial reply."""
    cut = STREAMS["thinking, call"].partition(b'data: {"type": "content_block_stop", "index": 2')[0]
    with pytest.raises(IncompleteResponse) as caught:
        stream(cut)

    *_, call = caught.value.partial.message.blocks
    assert call.args == '{"city": "Oslo", "n": 1.10}'
    assert caught.value.retryable


def test_stream_decoder_reads_whole_body():
    """Some servers answer a streaming request with a body that is not a stream."""
    assert stream(WHOLE["everything"]) == decode_body(decoder(), WHOLE["everything"])


@pytest.mark.parametrize("bad", [
    b"data: {\n\n", b"data: []\n\n", b'data: {"type":"message_start"}\n\n', b'data: {"type":"content_block_stop","index":0}\n\n',
    b'data: {"type":"message_start","message":{"id":5}}\n\n', b'data: {"type":"message_start","message":[]}\n\n',
    b'data: {"type":"message_start","message":{"content":[1]}}\n\n', b'data: {"type":5}\n\n', b"data: \xff\n\n",
    b'data: {"type":"ping","x":"\xff"}\n\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff"}}\n\n',
    b"data: " + b"[" * 100_000 + b"\n\n", b"{}", b"{", b'{"type":"message"}', b'{"content":5}',
])  # fmt: skip
def test_bad_bytes_raise_protocol_error_with_frame(bad):
    with pytest.raises(ProtocolError) as caught:
        stream(bad)

    assert caught.value.frame


def test_lone_surrogates_and_nul_are_text():
    body = sse(start(), *block(0, {"type": "text", "text": ""}, text("a\ud800b\x00")), *end())

    assert stream(body).message.blocks == (Text("a\ud800b\x00"),)


def test_lone_surrogates_in_utf8_bytes_are_read():
    half = "\ud800".encode("utf-8", "surrogatepass")
    body = sse(start(), *block(0, {"type": "text", "text": ""}, text("a?b")), *end()).replace(b"?", half)

    assert stream(body).message.blocks == (Text("a\ud800b"),)
