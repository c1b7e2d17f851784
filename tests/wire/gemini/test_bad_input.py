"""Invalid input, and errors inside of a stream."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.core import jsonio
from tenuto.core.blocks import Text
from tenuto.core.events import ErrorEvent
from tenuto.errors import BadRequest, IncompleteResponse, LLMError, ProtocolError, RateLimited, Unavailable
from tenuto.wire.decoder import decode_body, decode_stream
from tenuto.wire.gemini.encode import verbatim
from wire.gemini.cases import PARTS, array, call, chunk, sse, text, to_json
from wire.gemini.decode_helpers import SIGNED, make_decoder, stream, whole

BUSY = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
QUOTA = {
    "error": {
        "code": 429,
        "message": "slow down",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "15s"}],
    }
}


@pytest.mark.parametrize("body", [sse(chunk(text("Hi")), BUSY), array(chunk(text("Hi")), BUSY)], ids=["sse", "array"])
def test_stream_error_is_typed_and_has_partial_reply(body):
    decoder = make_decoder()
    events = decoder.feed(body)
    with pytest.raises(Unavailable) as exc_info:
        decoder.finish()

    assert isinstance(events[-1], ErrorEvent)
    assert exc_info.value.message == "overloaded"
    assert exc_info.value.provider == "here"
    assert exc_info.value.partial.message.blocks == (Text("Hi"),)


@pytest.mark.parametrize(
    "body", [to_json(QUOTA), b"[" + to_json(QUOTA) + b"]", sse(QUOTA)], ids=["body", "array", "sse"]
)
def test_error_is_the_same_in_each_framing(body):
    with pytest.raises(RateLimited) as exc_info:
        decode_stream(make_decoder(), [body])

    assert exc_info.value.retry_after == 15.0


@pytest.mark.parametrize("body", [to_json(QUOTA), b"[" + to_json(QUOTA) + b"]"], ids=["body", "array"])
def test_error_body_raises(body):
    with pytest.raises(RateLimited):
        decode_body(make_decoder(), body)


def test_refused_request_raises():
    with pytest.raises(BadRequest):
        whole({"error": {"code": 400, "message": "Unknown name", "status": "INVALID_ARGUMENT"}})


@pytest.mark.parametrize("body", [sse(chunk(text("Hi"))), sse(), b"", array(chunk(text("Hi"))), sse({"foo": 1})])
def test_stream_without_finish_reason_is_incomplete(body):
    with pytest.raises(IncompleteResponse) as exc_info:
        decode_stream(make_decoder(), [body])

    assert exc_info.value.partial.text == ("Hi" if b"Hi" in body else "")


def test_body_without_finish_reason_is_incomplete():
    with pytest.raises(IncompleteResponse):
        whole(chunk(text("Hi")))


def test_finished_block_keeps_signature_when_stream_breaks():
    with pytest.raises(IncompleteResponse) as exc_info:
        decode_stream(make_decoder(), [sse(chunk(call("f", {}, thoughtSignature="c2ln"), text("and th")))])
    finished_block, open_block = exc_info.value.partial.message.blocks

    assert (finished_block.meta, open_block) == (SIGNED, Text("and th"))
    assert exc_info.value.partial.message.incomplete


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"nonsense",
        b"3",
        b'"text"',
        b"null",
        b'{"candidates":3}',
        b'{"candidates":[3]}',
        b'{"candidates":[{"index":"0"}]}',
        b'{"candidates":[{"index":true}]}',
        b'{"candidates":[{"content":3}]}',
        b'{"candidates":[{"content":{"parts":3}}]}',
        b'{"candidates":[{"content":{"parts":["Hi"]}}]}',
        b'{"candidates":[{"content":{"parts":[{"text":3}]}}]}',
        b'{"candidates":[{"finishReason":["STOP"]}]}',
        b'{"candidates":[{"content":{"parts":[{"text":"\xff"}]}}]}',
        b'{"responseId":3}',
        b'{"modelVersion":{}}',
        b'{"usageMetadata":[],"candidates":[{"finishReason":"STOP"}]}',
        b'{"a":' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":3,"willContinue":true}}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","partialArgs":3}}]}}]}',
    ],
)
def test_invalid_frame_raises_protocol_error_with_frame(data):
    with pytest.raises(ProtocolError) as exc_info:
        decode_stream(make_decoder(), [b"data: " + data + b"\n\n"])

    assert exc_info.value.frame in (data, b"")


def test_surrogates_and_nul_are_preserved():
    for escape in ("\\ud83d", "\\u0000", "\\udc00x"):
        body = b'data: {"candidates":[{"content":{"parts":[{"text":"a%s"}],"role":"model"},"finishReason":"STOP"}]}\n\n'
        block = decode_stream(make_decoder(), [body % escape.encode()]).message.blocks[0]
        assert block.text == "a" + json.loads(f'"{escape}"')


def test_huge_number_in_arguments_is_preserved():
    digits = b"9" * 5000
    body = (
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"n":%s}}}]},"finishReason":"STOP"}]}'
    )
    response = decode_body(make_decoder(), body % digits)

    assert response.message.blocks[0].args == f'{{"n":{digits.decode()}}}'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
NAMES = [
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "inlineData",
    "toolCall",
    "executableCode",
    "name",
    "args",
]
NAMES += ["partialArgs", "willContinue", "jsonPath", "stringValue", "data", "mimeType", "id", "code"]
PART = st.dictionaries(
    st.sampled_from(NAMES), JSON | st.dictionaries(st.sampled_from(NAMES), JSON, max_size=3), max_size=3
)


def test_surrogates_as_bytes_are_decoded():
    body = to_json(chunk(text("a?b"), reason="STOP")).replace(b"?", "\ud800".encode("utf-8", "surrogatepass"))

    assert decode_body(make_decoder(), body).message.blocks == (Text("a\ud800b"),)
    assert decode_stream(make_decoder(), [b"data: " + body + b"\n\n"]).message.blocks == (Text("a\ud800b"),)


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_arbitrary_bytes_raise_llm_error(pieces):
    with pytest.raises(LLMError):
        decode_stream(make_decoder(), pieces)


@given(st.lists(PART | st.sampled_from([part for parts in PARTS.values() for part in parts]), max_size=5), JSON)
def test_arbitrary_parts_round_trip_or_raise_llm_error(parts, field):
    """No other exception; decoded parts are written back unchanged."""
    with contextlib.suppress(LLMError):
        message = whole(
            chunk(*parts, reason="STOP", candidate={"groundingMetadata": field}, usageMetadata=field)
        ).message
        parts_back = json.loads(jsonio.encode(verbatim(message)))
        assert [_drop_nulls(part) for part in parts_back] == [_drop_nulls(part) for part in parts]
    with contextlib.suppress(LLMError):
        stream(*map(chunk, parts), chunk(reason="STOP", candidate={"groundingMetadata": field}, usageMetadata=field))


def _drop_nulls(value):
    if isinstance(value, dict):
        return {name: _drop_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_drop_nulls(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("index", [True, "7", 1.5, None])
def test_citation_offset_is_none_unless_integer(index):
    grounding = {
        "groundingChunks": [{"web": {"uri": "https://a.example"}}],
        "groundingSupports": [{"segment": {"endIndex": index, "text": "Hi"}, "groundingChunkIndices": [0]}],
    }
    response = stream(chunk(text("Hi"), reason="STOP", candidate={"groundingMetadata": grounding}))
    (citation,) = response.message.blocks[0].citations

    assert citation.end_index is None
