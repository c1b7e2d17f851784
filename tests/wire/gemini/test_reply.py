"""Decode replies: finish reasons, candidates, extra fields, grounding, framing."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import (
    Image,
    Reasoning,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.events import (
    CitationDelta,
    ContentDelta,
    ContentDone,
)
from tenuto.wire.decoder import decode_body, decode_stream
from tenuto.wire.gemini.protocol import STOP_NUMBERS, STOP_NUMBERS_VERTEX, STOP_REASONS
from wire.gemini.cases import GROUNDING, IMAGE, array, call, chunk, sse, text, thought, to_json
from wire.gemini.decode_helpers import SIGNED, TARGET, VERTEX, decode_blocks, decode_events, make_decoder, stream, whole

# --- finish reasons ---------------------------------------------------------------------------------------------------

MEANINGS = {
    "stop": ["STOP", "OTHER", "FINISH_REASON_UNSPECIFIED", "SOMETHING_NEW"],
    "length": ["MAX_TOKENS", "CONTINUATION"],
    "content_filter": [
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    ],
    "error": [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "IMAGE_OTHER",
        "NO_IMAGE",
    ],
}


@pytest.mark.parametrize(("reason", "raw"), [(reason, raw) for reason, words in MEANINGS.items() for raw in words])
def test_finish_reason_is_mapped(reason, raw):
    """An unknown reason is `stop`; the message has the provider's reason, too."""
    for message in (whole(chunk(text("Hi"), reason=raw)).message, stream(chunk(text("Hi"), reason=raw)).message):
        assert (message.raw_stop_reason, message.stop_reason) == (raw, reason)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("STOP", "tool_calls"),
        ("OTHER", "tool_calls"),
        ("MAX_TOKENS", "length"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("SAFETY", "content_filter"),
    ],
)
def test_calls_override_only_a_plain_stop(raw, reason):
    assert stream(chunk(call("f", {}), reason=raw)).message.stop_reason == reason


@pytest.mark.parametrize(("target", "numbers"), [(TARGET, STOP_NUMBERS), (VERTEX, STOP_NUMBERS_VERTEX)])
def test_finish_reason_may_be_a_number(target, numbers):
    """Some hosts send the value of the enumeration."""
    for number, raw in enumerate(numbers[1:], 1):
        message = whole(chunk(text("Hi"), reason=number), target).message
        assert (message.raw_stop_reason, message.stop_reason) == (str(number), STOP_REASONS[raw])
    assert whole(chunk(text("Hi"), reason=99), target).message.raw_stop_reason == "99"


def test_finish_reason_zero_is_ignored():
    assert stream(chunk(text("a"), reason=0), chunk(text("b"), reason=1)).message.blocks == (Text("ab"),)


def test_blocked_prompt_gives_reply_without_blocks():
    """There is no candidate; the response has the reason."""
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"trafficType": "ON_DEMAND"}}
    for response in (whole(blocked), stream(blocked)):
        assert (response.message.blocks, response.message.stop_reason) == ((), "content_filter")
        assert response.message.raw_stop_reason is None
        assert response.field("promptFeedback") == {"blockReason": "SAFETY"}
        assert (response.usage, response.raw_usage) == (None, '{"trafficType":"ON_DEMAND"}')


def test_prompt_blocked_in_mid_reply_sets_content_filter():
    response = stream(chunk(text("Hi")), {"promptFeedback": {"blockReason": "OTHER"}})

    assert (response.text, response.message.stop_reason) == ("Hi", "content_filter")


def test_text_after_finish_reason_is_preserved():
    """Some hosts repeat the reason in every chunk."""
    message = stream(chunk(text("a"), reason="STOP"), chunk(text("b"), reason="MAX_TOKENS")).message

    assert (str(message), message.raw_stop_reason) == ("ab", "MAX_TOKENS")


# --- several candidates, other fields ---------------------------------------------------------------------------------


def test_candidates_are_decoded_by_index():
    def candidate(index: int, content: str, **fields: object) -> dict:
        return {"content": {"parts": [{"text": content}], "role": "model"}, "index": index, **fields}

    response = stream(
        {"candidates": [candidate(1, "b1"), candidate(0, "a1")]},
        {"candidates": [candidate(0, "a2", finishReason="STOP")]},
        {"candidates": [candidate(1, "b2", finishReason="MAX_TOKENS", tokenCount=3)]},
    )

    assert [(c.index, c.text, c.raw_finish_reason) for c in response.choices] == [
        (0, "a1a2", "STOP"),
        (1, "b1b2", "MAX_TOKENS"),
    ]
    assert response.choices[1].message.extra == '{"tokenCount":3}'
    assert response.id == ""


def test_extra_fields_of_candidate_and_response_are_merged():
    """Merged over the chunks; fields next to the parts, too."""
    response = stream(
        chunk(
            text("a"), candidate={"safetyRatings": [{"category": "X"}], "urlContextMetadata": {"a": 1}}, createTime="t1"
        ),
        chunk(text("b"), candidate={"urlContextMetadata": {"b": 2}, "finishMessage": None}, createTime="t2"),
        chunk(
            reason="STOP", candidate={"content": {"role": "robot", "tempo": 2}, "finishMessage": "done"}, modelStatus={}
        ),
    )

    assert json.loads(response.message.extra) == {
        "safetyRatings": [{"category": "X"}],
        "urlContextMetadata": {"a": 1, "b": 2},
        "finishMessage": "done",
        "content": {"role": "robot", "tempo": 2},
    }
    assert json.loads(response.extra) == {"createTime": "t2", "modelStatus": {}}
    assert response.text == "ab"


def test_fast_and_slow_chunks_extend_the_same_block():
    """A chunk with another field takes the slow path."""
    blocks = decode_blocks(
        chunk(text("a")), chunk(text("b"), candidate={"tokenCount": 1}), chunk(text("c")), chunk(reason="STOP")
    )

    assert blocks == (Text("abc"),)


def test_changed_id_or_model_is_a_loss():
    first, second = chunk(text("a")), chunk(text("b"), reason="STOP", responseId="resp_2", modelVersion="other")
    response = stream(first, second)

    assert (response.id, response.model, response.text) == ("resp_1", "gemini-3-pro", "ab")
    assert [loss.kind for loss in response.losses] == ["changed-field", "changed-field"]


# --- grounding --------------------------------------------------------------------------------------------------------

CITED = (
    UrlCitation("https://a.example", "a.example", "Größe", 0, 7),
    UrlCitation("doc://b", "B", "Größe", 0, 7),
    UrlCitation("doc://b", "B", "330m", 8, 12),
)


def test_grounding_adds_citations_to_text():
    """One for each support and chunk; offsets count bytes; the raw object stays."""
    candidate = {"groundingMetadata": GROUNDING}
    responses = (
        whole(chunk(text("Größe 330m"), reason="STOP", candidate=candidate)),
        stream(chunk(text("Größe")), chunk(text(" 330m"), reason="STOP", candidate=candidate)),
        stream(
            chunk(text("Größe 330m"), candidate={"groundingMetadata": {}}),
            chunk(IMAGE, candidate=candidate, reason="STOP"),
        ),
    )
    for response in responses:
        assert response.message.blocks[0] == Text("Größe 330m", CITED)
        assert json.loads(response.message.extra) == candidate
        assert response.losses == ()


def test_citations_are_emitted_before_content_done():
    events = decode_events(
        sse(
            chunk(
                text("Größe 330m"),
                text("", thoughtSignature="c2ln"),
                reason="STOP",
                candidate={"groundingMetadata": GROUNDING},
            )
        )
    )
    final_blocks = [e.part for e in events if isinstance(e, ContentDone)]

    assert [
        e.delta.citation for e in events if isinstance(e, ContentDelta) and isinstance(e.delta, CitationDelta)
    ] == list(CITED)
    assert (
        final_blocks == list(events[-1].response.message.blocks) == [Text("Größe 330m", CITED), Text("", meta=SIGNED)]
    )


def test_grounding_of_a_finished_text_is_a_loss():
    """Its `ContentDone` was emitted; the message has the grounding itself."""
    response = stream(
        chunk(text("Größe 330m")), chunk(IMAGE), chunk(reason="STOP", candidate={"groundingMetadata": GROUNDING})
    )

    assert response.message.blocks[0] == Text("Größe 330m")
    assert [loss.kind for loss in response.losses] == ["late-citations"]
    assert "groundingSupports" in response.message.extra


@pytest.mark.parametrize(("part", "cited_part"), [(2, 2), (None, 0), (9, 0)])
def test_segment_text_decides_the_part(part, cited_part):
    """Offsets and part indices may be missing or wrong."""
    segment = {"text": "same", "startIndex": 1} | ({} if part is None else {"partIndex": part})
    grounding = {
        "groundingChunks": [{"web": {"uri": "u"}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
    }
    blocks = whole(
        chunk(text("<same>"), thought("?"), text("(same)"), reason="STOP", candidate={"groundingMetadata": grounding})
    ).message.blocks

    assert [at for at, block in enumerate(blocks) if isinstance(block, Text) and block.citations] == [cited_part]


def test_segment_offset_decides_when_text_is_ambiguous():
    """The first text has the segment text at another offset."""
    support = {"segment": {"endIndex": 4, "text": "same"}, "groundingChunkIndices": [0]}
    grounding = {"groundingChunks": [{"web": {"uri": "u"}}], "groundingSupports": [support]}
    response = whole(chunk(text("the same"), text("same"), reason="STOP", candidate={"groundingMetadata": grounding}))

    assert [bool(block.citations) for block in response.message.blocks] == [False, True]


@pytest.mark.parametrize(
    "grounding",
    [
        [],
        "x",
        {"groundingSupports": 3},
        {
            "groundingSupports": [
                3,
                {"segment": 3},
                {"segment": {"text": 1, "endIndex": "x"}, "groundingChunkIndices": [0]},
            ]
        },
        {
            "groundingSupports": [{"segment": {"text": "zzz"}, "groundingChunkIndices": [0, "1", 7]}],
            "groundingChunks": [3],
        },
    ],
)
def test_invalid_grounding_is_preserved_without_citations(grounding):
    response = whole(chunk(text("Hi"), reason="STOP", candidate={"groundingMetadata": grounding}))

    assert response.message.blocks == (Text("Hi"),)
    assert json.loads(response.message.extra) == {"groundingMetadata": grounding}


def test_last_text_is_cited_when_segment_is_not_found():
    grounding = {
        "grounding_chunks": [{"retrievedContext": {"fileSearchStore": "stores/1"}}],
        "grounding_supports": [{"segment": {"part_index": 5, "end_index": 2}, "grounding_chunk_indices": [0]}],
    }
    blocks = whole(
        chunk(text("a"), text("b"), reason="STOP", candidate={"groundingMetadata": grounding})
    ).message.blocks

    assert blocks == (Text("a"), Text("b", (UrlCitation("stores/1", None, None, 0, 2),)))


# --- framing ----------------------------------------------------------------------------------------------------------

REPLY = (
    chunk(thought("Hm."), usageMetadata={"trafficType": "ON_DEMAND"}),
    chunk(text("Grüße, ")),
    chunk(text("Welt 🌍"), usageMetadata={"totalTokenCount": 3}),
    chunk(call("f", {"q": "a\nb"}, thoughtSignature="c2ln"), reason="STOP", usageMetadata={"trafficType": "X"}),
)


@pytest.mark.parametrize("body", [sse(*REPLY), array(*REPLY)], ids=["sse", "array"])
@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_chunk_boundaries_do_not_matter(body, size):
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    response = decode_stream(make_decoder(), pieces)

    assert response == decode_stream(make_decoder(), [body])
    assert response.message.blocks[:2] == (Reasoning("Hm."), Text("Grüße, Welt 🌍"))
    assert json.loads(response.raw_usage) == {"totalTokenCount": 3}


@pytest.mark.parametrize("eol", [b"\r\n", b"\r"])
def test_line_ends_and_comments_do_not_matter(eol):
    body = b": hello\n\n" + sse(*REPLY).replace(b"\n\n", b"\n\n: ping\n\n") + b"data: [DONE]\n\ndata:\n\n"

    assert decode_stream(make_decoder(), [body.replace(b"\n", eol)]) == decode_stream(make_decoder(), [sse(*REPLY)])


def test_body_is_decoded_when_stream_was_requested():
    assert decode_stream(make_decoder(), [to_json(REPLY[3])]).message.blocks[0].name == "f"


def test_array_body_is_decoded_as_stream():
    assert decode_body(make_decoder(), array(chunk(text("a")), chunk(text("b"), reason="STOP"))).message.blocks == (
        Text("ab"),
    )


def test_snake_case_fields_are_decoded():
    """Dumps of Google's SDKs and some proxies write it, with nulls."""
    body = {
        "response_id": "r",
        "model_version": "m",
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "Hm.", "thought": True, "function_call": None},
                        {
                            "function_call": {"name": "f", "args": {}, "id": None},
                            "thought_signature": "c2ln",
                            "text": None,
                        },
                        {"inline_data": {"mime_type": "image/png", "data": "AAAA"}},
                    ],
                    "role": "model",
                },
                "finish_reason": "STOP",
                "grounding_metadata": {"x": 1},
            }
        ],
        "usage_metadata": {"prompt_token_count": 3, "total_token_count": 4, "candidates_token_count": 1},
    }
    response = whole(body)

    assert [type(block) for block in response.message.blocks] == [Reasoning, ToolUse, Image]
    assert (response.id, response.model, response.message.raw_stop_reason) == ("r", "m", "STOP")
    assert response.message.blocks[1].meta == SIGNED
    assert json.loads(response.message.extra) == {"groundingMetadata": {"x": 1}}
    assert (response.usage.input_tokens, response.usage.total_tokens) == (3, 4)


def test_unknown_malformed_reason_is_error():
    """A reason with the prefix of the known ones is mapped like them."""
    response = whole({"candidates": [{"content": {"parts": []}, "finishReason": "MALFORMED_SONNET"}]})

    assert (response.message.raw_stop_reason, response.message.stop_reason) == ("MALFORMED_SONNET", "error")
