"""Reading the Anthropic dialect: nothing is lost, nothing moves, and bad bytes give clear errors."""

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


def test_signature_delta_lands_on_the_thinking_block():
    """A signature that arrives as its own delta ends up on the block it belongs to, unchanged; arguments stay exact."""
    thinking, said, call = stream(STREAMS["thinking, call"]).message.blocks

    assert thinking == Reasoning("Look it up.", meta=AnthropicMeta("EqQB=="))
    assert said == Text("A moment.")
    assert call == ToolUse("toolu_1", "weather", '{"city": "Oslo", "n": 1.10}', extra='{"caller":{"type": "direct"}}')


def test_empty_thinking_with_a_signature_is_a_block():
    """A withheld thought has no text and must still be handed back."""
    first, _ = stream(STREAMS["empty thinking with a signature"]).message.blocks

    assert first == Reasoning("", meta=AnthropicMeta("Ev0="))
    assert verbatim(replace(stream(STREAMS["text"]).message, blocks=(first,))) == [
        {"type": "thinking", "thinking": "", "signature": "Ev0="}
    ]


def test_interleaved_thinking_keeps_each_signature():
    """Two thoughts, two tokens, in order; a call without argument deltas has the input of its start frame."""
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
        found = reply.usage
        counts = (found.input_tokens, found.cache_read_tokens, found.cache_write_tokens, found.output_tokens)
        assert counts == expected
        assert json.loads(reply.raw_usage) == usage


def test_usage_of_a_paused_compaction_counts_its_iteration():
    """The totals are zero when the reply stops right after compaction."""
    usage = {"input_tokens": 0, "output_tokens": 0, "iterations": [COMPACTED]}
    reply = stream(sse(start(usage={}), *end(usage=usage)))

    assert reply.usage == Usage(input_tokens=100, cache_read_tokens=55096, output_tokens=83)


def test_usage_overwrites_key_by_key_and_buckets_do_not_overlap():
    """`message_delta` counts are cumulative; what it does not mention keeps its value."""
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
    """Counts that contradict each other do not give a negative bucket, and it is said."""
    usage = {"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 9}}
    reply = stream(sse(start(), *end(usage=usage)))

    assert (reply.usage.output_tokens, reply.usage.reasoning_tokens) == (0, 5)
    assert [loss.kind for loss in reply.losses] == ["contradicting-usage"]


@pytest.mark.parametrize("odd", [None, "many", -1, 1.5, True, [3], {}])
def test_what_is_no_count_leaves_the_others_as_they_are(odd):
    details = {"thinking_tokens": 2, "odd": 1}
    usage = {"input_tokens": odd, "output_tokens": 5.0, "output_tokens_details": details, "service_tier": "standard"}
    told = stream(sse(start(usage={}), *end(usage=usage))).usage

    assert told == Usage(output_tokens=3, reasoning_tokens=2)


def test_server_tools_and_citations_keep_their_tokens():
    """The search, its result with its ciphertext, and the citation with its index, each in place."""
    call, result, said = stream(STREAMS["search, citations"]).message.blocks

    assert call == ServerToolUse("srvtoolu_1", "web_search", '{"query": "rain"}', "server_tool_use")
    assert isinstance(result, ServerToolResult)
    assert json.loads(result.content) == SEARCH["content"]
    assert said.citations[0].url == "https://example.com"
    assert json.loads(said.citations[0].raw) == CITATION


def test_compaction_and_fallback_are_markers():
    """Both are signs in the turn; a fallback says which model served."""
    compaction, _ = stream(STREAMS["compaction"]).message.blocks
    reply = stream(STREAMS["fallback"])

    assert compaction == Marker("compaction", "So far.", extra='{"encrypted_content":"e=="}')
    assert reply.model == "claude-opus-4-8"
    assert reply.message.blocks[0].kind == "fallback"


def test_message_level_fields_survive():
    """Container, context management and stop details stand on the message."""
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


def test_message_start_may_carry_content():
    """A reply whose first frame already holds blocks goes on from there."""
    content = [{"type": "text", "text": "Al"}]
    reply = stream(sse(start(content=content), *block(1, {"type": "text", "text": ""}, text("so")), *end()))

    assert reply.message.blocks == (Text("Al"), Text("so"))


def test_second_message_start_voids_the_first():
    """A provider that begins again means it: nothing of the first try is kept, and it is said."""
    first = [start(), *block(0, {"type": "text", "text": ""}, text("no"))]
    second = [start(id="msg_2"), *block(0, {"type": "text", "text": ""}, text("yes")), *end()]
    reply = stream(sse(*first, *second))

    assert (reply.id, reply.message.blocks) == ("msg_2", (Text("yes"),))
    assert [loss.kind for loss in reply.losses] == ["restarted"]


def test_blocks_may_be_open_at_the_same_time():
    """Each index grows its own block; the order is that of the starts."""
    reply = stream(STREAMS["blocks open at the same time"])

    assert reply.message.blocks == (Text("Aa"), Reasoning("B", meta=AnthropicMeta("sig")))


def test_unknown_block_type_goes_back_verbatim():
    """Next year's block is kept word for word, numbers included."""
    odd = b'{"type":"hologram","depth":1.10,"parts":[1e5]}'
    body = json.dumps(message(content=["HERE"], stop_reason="end_turn")).encode().replace(b'"HERE"', odd)
    reply = decode_body(decoder(), body)

    assert reply.message.blocks == (Opaque("anthropic-messages", odd.decode()),)
    assert bytes(verbatim(reply.message)[0]) == odd


def test_unknown_delta_becomes_a_field_of_its_block():
    """What nobody reads is kept with the block; progress counters are not part of it."""
    deltas = [
        text("a"),
        {"type": "glow_delta", "glow": 1.5},
        {"type": "text_delta", "text": "b", "estimated_tokens": 5},
    ]
    (said,) = stream(sse(start(), *block(0, {"type": "text", "text": ""}, *deltas), *end())).message.blocks

    assert said == Text("ab", extra='{"glow":1.5}')


def test_known_delta_with_an_unknown_field():
    """The piece counts as usual; the field beside it is kept."""
    odd = {"type": "text_delta", "text": "b", "shade": "dark"}
    (said,) = stream(sse(start(), *block(0, {"type": "text", "text": ""}, text("a"), odd), *end())).message.blocks

    assert said == Text("ab", extra='{"shade":"dark"}')


def test_every_known_delta_may_carry_an_unknown_field():
    """Thinking, arguments, and a compaction that came without content."""
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
TAKEN = {
    "text": ("text_delta", "citations_delta"),
    "thinking": ("thinking_delta", "signature_delta"),
    "tool_use": ("input_json_delta",),
    "server_tool_use": ("input_json_delta",),
    "web_search_tool_result": (),
}
STARTED = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
    "tool_use": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    "server_tool_use": {"type": "server_tool_use", "id": "t", "name": "web_search", "input": {}},
    "web_search_tool_result": {"type": "web_search_tool_result", "tool_use_id": "t", "content": []},
}


@pytest.mark.parametrize("extra", [{}, {"n": 1}])
@pytest.mark.parametrize("delta", DELTAS, ids=lambda delta: delta["type"])
@pytest.mark.parametrize("kind", TAKEN)
def test_delta_of_the_wrong_kind_is_a_loss(kind, delta, extra):
    """It would become a field of the block, which Anthropic refuses when the block is sent back."""
    plain = stream(sse(start(), *block(0, STARTED[kind]), *end()))
    reply = stream(sse(start(), *block(0, STARTED[kind], {**delta, **extra}), *end()))

    if delta["type"] in TAKEN[kind]:
        assert reply.message.blocks != plain.message.blocks
        assert not reply.losses
    else:
        assert reply.message.blocks == plain.message.blocks
        assert [(loss.kind, loss.place) for loss in reply.losses] == [("misplaced-delta", "blocks[0]")]
        assert delta["type"] in reply.losses[0].detail


def test_delta_for_an_unknown_block_is_kept():
    reply = stream(sse(start(), *block(0, {"type": "hologram"}, text("a")), *end()))

    assert reply.message.blocks[0].extra == '{"text":"a"}'
    assert not reply.losses


def test_orphans_are_recorded():
    """Deltas, stops and second starts that fit nowhere are losses; the rest of the reply stands."""
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


def test_broken_arguments_are_kept_with_the_reason():
    """The model can be told what it wrote; the call is not dropped."""
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    reply = stream(sse(start(), *block(0, call, args('{"city": "Os')), *end("max_tokens")))
    (kept,) = reply.message.blocks

    assert (kept.args, bool(kept.args_error)) == ('{"city": "Os', True)
    assert [loss.kind for loss in reply.losses] == ["broken-arguments"]


@pytest.mark.parametrize("name", sorted(STREAMS))
@pytest.mark.parametrize("size", [1, 2, 7, 64])
@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
def test_where_the_bytes_are_cut_does_not_matter(name, size, eol):
    """The same reply in any chunking, with any line ending, with comments in between."""
    body = STREAMS[name].replace(b"\n\n", b"\n\n: hello\n\n").replace(b"\n", eol)
    pieces = [body[i : i + size] for i in range(0, len(body), size)]

    assert decode_stream(decoder(), pieces) == stream(STREAMS[name])


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_deltas_add_up_to_their_blocks(name):
    """Whoever only listens hears the same as whoever reads the end."""
    reader = decoder()
    events = reader.feed(STREAMS[name]) + reader.finish()
    heard: dict[int, str] = {}
    for event in events:
        if isinstance(event, ContentDelta) and not isinstance(event.delta, SignatureDelta):
            piece = next(
                (v for v in (getattr(event.delta, f, None) for f in ("text", "thinking", "arguments")) if v), ""
            )
            heard[event.part_index] = heard.get(event.part_index, "") + piece
    done = {e.part_index: e.part for e in events if isinstance(e, ContentDone)}

    assert isinstance(events[0], MessageStart)
    assert [e.part_index for e in events if isinstance(e, ContentStart)] == sorted(done)
    for index, part in done.items():
        assert heard.get(index, "") == (getattr(part, "text", None) or getattr(part, "args", "") or "")
    assert tuple(done[i] for i in sorted(done)) == events[-1].response.message.blocks


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_whole_bodies_go_back_as_they_came(name):
    """Every field of every block is written back, nulls and numbers included."""
    reply = decode_body(decoder(), WHOLE[name])

    assert json.loads(jsonio.encode(verbatim(reply.message))) == json.loads(WHOLE[name])["content"]
    assert not any(isinstance(b, Opaque) for b in reply.message.blocks)


def test_citation_places():
    """Each kind of citation has its unified form; an unknown or unreadable one keeps its raw object."""
    places = [
        {"type": "char_location", "document_index": 1, "start_char_index": 2, "end_char_index": 3, "cited_text": "c"},
        {"type": "content_block_location", "document_index": 0, "start_block_index": 1, "end_block_index": 2},
        {"type": "page_location", "document_index": 0, "start_page_number": 1, "end_page_number": 2},
        {"type": "search_result_location", "source": "kb://1", "title": "T"},
        {"type": "star_location"},
        {"type": "char_location", "document_index": "x"},
    ]
    (said,) = whole(content=[{"type": "text", "text": "t", "citations": places}]).message.blocks

    kinds = [DocumentCitation, DocumentCitation, PageCitation, UrlCitation, OtherCitation, OtherCitation]
    assert [type(c) for c in said.citations] == kinds
    assert (said.citations[0].start_char_index, said.citations[1].start_block_index) == (2, 1)
    assert (said.citations[2].end_page, said.citations[3].url) == (2, "kb://1")
    assert [json.loads(c.raw) for c in said.citations] == places


@pytest.mark.parametrize("raw, ours", [
    ("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("tool_use", "tool_calls"),
    ("pause_turn", "stop"), ("refusal", "content_filter"), ("model_context_window_exceeded", "length"),
    ("compaction", "stop"), ("something_new", "stop"),
])  # fmt: skip
def test_stop_reasons(raw, ours):
    """Every word has its meaning; the word itself is kept."""
    reply = whole(stop_reason=raw)

    assert (reply.message.raw_stop_reason, reply.message.stop_reason) == (raw, ours)


def test_error_inside_a_stream_is_the_typed_error_with_what_came():
    """HTTP says 200; the error's own type decides. What was assembled is on it, with open tokens taken off."""
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


def test_error_as_a_body():
    """A body that holds an error is that error, streamed or not."""
    body = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'

    with pytest.raises(RateLimited, match="slow down"):
        decode_body(decoder(), body)
    with pytest.raises(RateLimited, match="slow down"):
        stream(body)
    with pytest.raises(BadRequest):
        stream(b'event: error\ndata: {"error":{"type":"invalid_request_error","message":"x"}}\n\n')


def test_cut_off_stream_is_incomplete():
    """Without `message_stop` nothing is called a success, and what came is on the error."""
    cut = STREAMS["thinking, call"].partition(b'data: {"type": "content_block_stop", "index": 2')[0]
    with pytest.raises(IncompleteResponse) as caught:
        stream(cut)

    *_, call = caught.value.partial.message.blocks
    assert call.args == '{"city": "Oslo", "n": 1.10}'
    assert caught.value.retryable


def test_whole_body_where_a_stream_was_asked_for():
    """Some servers answer a streaming request with a plain body: it reads the same."""
    assert stream(WHOLE["everything"]) == decode_body(decoder(), WHOLE["everything"])


@pytest.mark.parametrize("bad", [
    b"data: {\n\n", b"data: []\n\n", b'data: {"type":"message_start"}\n\n', b'data: {"type":"content_block_stop","index":0}\n\n',
    b'data: {"type":"message_start","message":{"id":5}}\n\n', b'data: {"type":"message_start","message":[]}\n\n',
    b'data: {"type":"message_start","message":{"content":[1]}}\n\n', b'data: {"type":5}\n\n', b"data: \xff\n\n",
    b'data: {"type":"ping","x":"\xff"}\n\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff"}}\n\n',
    b"data: " + b"[" * 100_000 + b"\n\n", b"{}", b"{", b'{"type":"message"}', b'{"content":5}',
])  # fmt: skip
def test_bad_bytes_are_a_protocol_error_with_the_frame(bad):
    """Whatever breaks the dialect is told as such, with the evidence."""
    with pytest.raises(ProtocolError) as caught:
        stream(bad)

    assert caught.value.frame


def test_lone_surrogates_and_nul_are_kept():
    """Half a character and NUL are text like any other."""
    body = sse(start(), *block(0, {"type": "text", "text": ""}, text("a\ud800b\x00")), *end())

    assert stream(body).message.blocks == (Text("a\ud800b\x00"),)


def test_half_characters_that_came_as_bytes_are_read():
    half = "\ud800".encode("utf-8", "surrogatepass")
    body = sse(start(), *block(0, {"type": "text", "text": ""}, text("a?b")), *end()).replace(b"?", half)

    assert stream(body).message.blocks == (Text("a\ud800b"),)
