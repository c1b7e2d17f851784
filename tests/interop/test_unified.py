"""The unified response document."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings

from strategies import blocks_of, broken_words, responses_of, usages_of
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Audio,
    Block,
    ChatMeta,
    CodeExecution,
    CodeResult,
    Document,
    DocumentCitation,
    GeminiMeta,
    Image,
    Marker,
    Opaque,
    OpenAiMeta,
    OtherCitation,
    PageCitation,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.jsonio import JsonError
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Origin, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.interop.unified import from_part, from_unified, to_part, to_unified

PARTS = [
    (Text("Hi"), {"type": "text", "text": "Hi"}),
    (Text("Hi", (UrlCitation("u"),)), {"type": "text", "text": "Hi", "citations": [{"type": "url", "url": "u"}]}),
    (Refusal("No."), {"type": "text", "text": "No.", "refusal": True}),
    (ToolUse("c", "f", '{"n": 1.10}'), {"type": "tool_call", "id": "c", "name": "f", "arguments": '{"n": 1.10}'}),
    (ToolUse("c", "f", "", id_generated=True, args_missing=True, meta=GeminiMeta("s")),
     {"type": "tool_call", "id": "c", "name": "f", "arguments": "", "idGenerated": True, "argsMissing": True,
      "meta": {"provider": "gemini", "thoughtSignature": "s"}}),
    (Reasoning("Hm."), {"type": "thinking", "thinking": "Hm."}),
    (Reasoning("Hm.", meta=AnthropicMeta("s")), {"type": "thinking", "thinking": "Hm.", "signature": "s"}),
    (Reasoning("Hm.", meta=GeminiMeta("s")),
     {"type": "thinking", "thinking": "Hm.", "signature": "s", "meta": {"provider": "gemini"}}),
    (Reasoning(meta=OpenAiMeta("rs", "enc")),
     {"type": "thinking", "thinking": "", "meta": {"provider": "open_ai", "id": "rs", "encryptedContent": "enc"}}),
    (Reasoning("Hm.", meta=ChatMeta("content", "s")),
     {"type": "thinking", "thinking": "Hm.", "meta": {"provider": "chat", "field": "content", "signature": "s"}}),
    (Reasoning(meta=AnthropicRedactedMeta("d")), {"type": "redacted_thinking", "data": "d"}),
    (Reasoning("?", meta=AnthropicRedactedMeta("d", unknown_fields='{"n":1}')),
     {"type": "redacted_thinking", "thinking": "?", "data": "d",
      "meta": {"provider": "anthropic_redacted", "unknownFields": '{"n":1}'}}),
    (Image("aGk=", "image/png"), {"type": "image", "mimeType": "image/png", "data": "aGk="}),
    (Image(url="u"), {"type": "image", "mimeType": "", "data": "", "url": "u"}),
    (Audio("aGk=", "audio/wav", "hi", "audio_1", 99),
     {"type": "audio", "mimeType": "audio/wav", "data": "aGk=", "transcript": "hi", "id": "audio_1", "expiresAt": 99}),
    (CodeExecution("1+1", "python"), {"type": "code_execution", "code": "1+1", "language": "python"}),
    (CodeExecution("1+1", "PYTHON"),
     {"type": "code_execution", "code": "1+1", "language": "python", "rawLanguage": "PYTHON"}),
    (CodeResult("OUTCOME_OK", "2"),
     {"type": "code_result", "outcome": "ok", "output": "2", "rawOutcome": "OUTCOME_OK"}),
    (CodeResult("OUTCOME_FAILED"),
     {"type": "code_result", "outcome": "error", "output": "", "rawOutcome": "OUTCOME_FAILED"}),
    (CodeResult("OUTCOME_DEADLINE_EXCEEDED"),
     {"type": "code_result", "outcome": "timeout", "output": "", "rawOutcome": "OUTCOME_DEADLINE_EXCEEDED"}),
    (ServerToolUse("srv", "search", '{"query":"x"}'),
     {"type": "server_tool_call", "id": "srv", "name": "search", "arguments": {"query": "x"}}),
    (ServerToolUse("srv", "search", '{"n": 1.10}'),
     {"type": "server_tool_call", "id": "srv", "name": "search", "arguments": {"n": 1.1}, "argumentsText": '{"n": 1.10}'}),
    (ServerToolUse("srv", "search", '{"query'),
     {"type": "server_tool_call", "id": "srv", "name": "search", "arguments": {}, "argumentsText": '{"query'}),
    (ServerToolResult("srv", '[{"url":"u"}]', "web_search_tool_result"),
     {"type": "server_tool_result", "toolCallId": "srv", "content": [{"url": "u"}], "kind": "web_search_tool_result"}),
    (ServerToolResult("srv"), {"type": "server_tool_result", "toolCallId": "srv", "content": None, "contentText": ""}),
    (Document("aGk=", "application/pdf", citations=True),
     {"type": "document", "mimeType": "application/pdf", "data": "aGk=", "citations": True}),
    (Marker("compaction", "sum"), {"type": "marker", "kind": "compaction", "text": "sum"}),
    (Opaque("gemini", "{}"), {"type": "opaque", "dialect": "gemini", "raw": "{}"}),
]  # fmt: skip
CITATIONS = [
    (UrlCitation("u", "t", "c", 0, 2),
     {"type": "url", "url": "u", "title": "t", "citedText": "c", "startIndex": 0, "endIndex": 2}),
    (DocumentCitation(0, "t", "c", 1, 2, 3, 4),
     {"type": "document", "documentIndex": 0, "documentTitle": "t", "citedText": "c",
      "startCharIndex": 1, "endCharIndex": 2, "startBlockIndex": 3, "endBlockIndex": 4}),
    (DocumentCitation(0, start_block_index=0, end_block_index=4),
     {"type": "document", "documentIndex": 0, "startCharIndex": 0, "endCharIndex": 4,
      "startBlockIndex": 0, "endBlockIndex": 4, "charIndexUnit": "block"}),
    (PageCitation(0, start_page=1, end_page=3), {"type": "page", "documentIndex": 0, "startPage": 1, "endPage": 3}),
    (OtherCitation(raw="{}"), {"type": "other", "raw": "{}"}),
]  # fmt: skip


def response(*blocks, **fields):
    message = AssistantMessage(blocks, "stop", "end_turn")
    return msgspec.structs.replace(ChatResponse("msg_1", "row", "model-1", (Choice(message),)), **fields)


# --- round trip -------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(responses_of(broken_words))
def test_document_round_trips(reply):
    document = to_unified(reply)

    assert from_unified(document) == reply
    assert from_unified(json.loads(json.dumps(document))) == reply


@given(blocks_of(broken_words))
def test_part_round_trips(block):
    assert from_part(to_part(block)) == block


@given(usages_of(broken_words))
def test_usage_round_trips(usage):
    assert from_unified(to_unified(response(usage=usage))).usage == usage


# --- the document -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block,part", PARTS)
def test_parts_are_written_as_specified(block, part):
    assert to_part(block) == part
    assert from_part(part) == block


@pytest.mark.parametrize("block,part", PARTS)
def test_block_has_the_type_of_its_part(block, part):
    assert block.type == part["type"]


@pytest.mark.parametrize("citation,document", CITATIONS)
def test_citations_are_written_as_specified(citation, document):
    assert citation.type == document["type"]
    assert to_part(Text("Hi", (citation,)))["citations"] == [document]
    assert from_part({"type": "text", "text": "Hi", "citations": [document]}) == Text("Hi", (citation,))


def test_every_kind_of_block_has_a_case():
    assert {type(block) for block, _ in PARTS} == set(get_args(Block))


def test_response_is_written_as_specified():
    assert to_unified(response(Text("Hi"), usage=Usage(input_tokens=3, output_tokens=2, reported_total=5))) == {
        "id": "msg_1",
        "provider": "row",
        "model": "model-1",
        "choices": [
            {
                "index": 0,
                "content": [{"type": "text", "text": "Hi"}],
                "finishReason": "stop",
                "rawFinishReason": "end_turn",
            }
        ],
        "usage": {"promptTokens": 3, "completionTokens": 2, "totalTokens": 5},
    }


def test_usage_is_written_as_specified():
    usage = Usage(
        input_tokens=10,
        cache_read_tokens=100,
        cache_write_tokens=20,
        output_tokens=7,
        reasoning_tokens=30,
        reported_total=167,
        audio_input_tokens=1,
        audio_output_tokens=2,
        input_by_modality={"TEXT": 130},
        output_by_modality={"TEXT": 37},
    )

    assert to_unified(response(usage=usage))["usage"] == {
        "promptTokens": 130,
        "completionTokens": 37,
        "totalTokens": 167,
        "details": {
            "reasoningTokens": 30,
            "cachedTokens": 100,
            "cacheWriteTokens": 20,
            "audioPromptTokens": 1,
            "audioCompletionTokens": 2,
            "promptTokensByModality": {"TEXT": 130},
            "completionTokensByModality": {"TEXT": 37},
        },
    }


def test_modality_maps_are_those_of_gemini():
    """OpenAI reports some shares only, in lower case: they do not add up to the prompt."""
    usage = Usage(input_tokens=10, reported_total=10, audio_input_tokens=2, input_by_modality={"audio": 2})
    document = to_unified(response(usage=usage))["usage"]

    assert document["details"] == {"audioPromptTokens": 2}
    assert document["promptTokenShares"] == {"audio": 2}
    assert from_unified({**to_unified(response()), "usage": document}).usage == usage


def test_total_is_a_sum_if_it_was_not_reported():
    usage = Usage(input_tokens=3, output_tokens=2)
    document = to_unified(response(usage=usage))["usage"]

    assert document["totalTokens"] == 5
    assert document["buckets"] == {"inputTokens": 3, "outputTokens": 2}


def test_unspecified_fields_have_keys():
    reply = response(
        losses=(Loss("r", Location(path="p"), "w"),), raw_usage='{"n": 1.10}', unknown_fields='{"later":1}'
    )
    message = AssistantMessage(
        (), origin=Origin("row", "gemini", "m", "acc"), extra='{"a":1}', incomplete=True, unknown_fields='{"b":1}'
    )
    document = to_unified(
        msgspec.structs.replace(reply, choices=(Choice(message, 1, '{"logprobs":null}', unknown_fields='{"c":1}'),))
    )

    assert document["rawUsage"] == '{"n": 1.10}'
    assert document["losses"] == [{"kind": "r", "location": {"path": "p"}, "detail": "w"}]
    assert document["unknownFields"] == '{"later":1}'
    assert document["choices"][0] == {
        "index": 1,
        "content": [],
        "finishReason": None,
        "origin": {"provider": "row", "dialect": "gemini", "model": "m", "account": "acc"},
        "incomplete": True,
        "extra": '{"logprobs":null}',
        "unknownFields": '{"c":1}',
        "messageExtra": '{"a":1}',
        "messageUnknownFields": '{"b":1}',
    }


# --- provider metadata ------------------------------------------------------------------------------------------------


def metadata(**fields):
    return to_unified(response(**fields)).get("providerMetadata")


def test_metadata_has_fingerprint_and_tier():
    extra = '{"object":"chat.completion","created":1,"system_fingerprint":"fp_44","service_tier":"default","x":null}'

    assert metadata(extra=extra) == {"systemFingerprint": "fp_44", "serviceTier": "default"}
    assert metadata() is None


def test_metadata_omits_annotations_that_are_citations():
    cited = '{"type":"url_citation","url_citation":{"url":"u"}}'
    choice = Choice(AssistantMessage((Text("Hi"),), extra=f'{{"annotations":[{cited}]}}'))
    mixed = Choice(AssistantMessage((Text("Hi"),), extra=f'{{"annotations":[{cited},{{"type":"file"}}]}}'))

    assert metadata(choices=(choice,)) is None
    assert metadata(choices=(mixed,)) == {"annotations": [{"type": "file"}]}


def test_metadata_omits_fingerprint_of_the_provider():
    reply = response(extra='{"system_fingerprint":"fp_row"}')
    document = to_unified(reply)

    assert "providerMetadata" not in document
    assert from_unified(document) == reply


def test_metadata_has_fields_of_the_first_choice():
    message = AssistantMessage((), extra='{"groundingMetadata":{"a":[1]},"safety_ratings":[]}')
    other = AssistantMessage((), extra='{"groundingMetadata":{"b":[2]}}')
    choices = (Choice(message, extra='{"avgLogprobs":-0.5}'), Choice(other, 1))

    assert metadata(choices=choices) == {"groundingMetadata": {"a": [1]}, "safetyRatings": [], "avgLogprobs": -0.5}


def test_metadata_omits_technical_fields():
    extra = '{"x_groq":{"id":"r"},"usage_breakdown":{},"perf_metrics":{},"related_questions":["?"]}'
    usage = '{"prompt_tokens":1,"citation_tokens":5,"num_search_queries":2,"prompt_tokens_details":{"audio":1}}'

    assert metadata(extra=extra, raw_usage=usage) == {
        "relatedQuestions": ["?"],
        "citationTokens": 5,
        "numSearchQueries": 2,
    }


def test_metadata_omits_numbers_out_of_range():
    """`extra` keeps the exact text."""
    reply = response(extra='{"big":1e999,"small":1.10}')

    assert metadata(extra='{"big":1e999,"small":1.10}') == {"small": 1.1}
    assert from_unified(to_unified(reply)) == reply
    assert metadata(extra="words") is None


# --- reading ----------------------------------------------------------------------------------------------------------


def test_document_with_specified_keys_only_is_read():
    document = {
        "id": "msg_1",
        "provider": "row",
        "model": "m",
        "choices": [{"index": 0, "content": [{"type": "text", "text": "Hi"}], "finishReason": "stop"}],
        "usage": {
            "promptTokens": 130,
            "completionTokens": 37,
            "totalTokens": 167,
            "details": {"cachedTokens": 100, "reasoningTokens": 30},
        },
        "providerMetadata": {"systemFingerprint": "fp"},
    }

    assert from_unified(document) == ChatResponse(
        "msg_1",
        "row",
        "m",
        (Choice(AssistantMessage((Text("Hi"),), "stop")),),
        Usage(input_tokens=30, cache_read_tokens=100, output_tokens=7, reasoning_tokens=30, reported_total=167),
        extra='{"systemFingerprint":"fp"}',
    )


def test_prompt_tokens_without_cached_tokens_are_unchanged():
    usage = {"promptTokens": 12, "completionTokens": 1, "totalTokens": 13, "details": {"cachedTokens": 100}}
    document = {**to_unified(response()), "usage": usage}

    assert from_unified(document).usage == Usage(
        input_tokens=12, cache_read_tokens=100, output_tokens=1, reported_total=13
    )


def test_unknown_keys_survive():
    document = to_unified(response(Text("Hi", unknown_fields='{"a":1}'), usage=Usage(input_tokens=1)))
    document["later"] = 1
    document["choices"][0]["later"] = 2
    document["choices"][0]["content"][0]["later"] = 3
    document["usage"]["later"] = 4
    document["usage"]["details"] = {"laterTokens": 5}
    read = from_unified(document)

    assert read.unknown_fields == '{"later":1}'
    assert read.choices[0].unknown_fields == '{"later":2}'
    assert read.message.blocks == (Text("Hi", unknown_fields='{"a":1,"later":3}'),)
    assert read.usage.unknown_fields == '{"later":4,"details":{"laterTokens":5}}'
    assert from_unified(to_unified(read)) == read


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"id": 1, "provider": "", "model": "", "choices": []},
        {"id": "", "provider": "", "model": "", "choices": 5},
        {"id": "", "provider": "", "model": "", "choices": [5]},
        {"id": "", "provider": "", "model": "", "choices": [{"content": [{}]}]},
        {"id": "", "provider": "", "model": "", "choices": [{"content": [], "finishReason": "tired"}]},
        {"id": "", "provider": "", "model": "", "choices": [{"content": [], "index": "\ud800"}]},
        {"id": "", "provider": "", "model": "", "choices": [], "usage": {"promptTokens": "many"}},
        {"id": "", "provider": "", "model": "", "choices": [], "losses": [{}]},
        {"id": "", "provider": "", "model": "", "choices": [], "unknownFields": 5},
    ],
)
def test_invalid_document_is_a_json_error(document):
    with pytest.raises(JsonError):
        from_unified(document)


@pytest.mark.parametrize(
    "part,message",
    [
        ({"type": "video"}, "unknown part type 'video'"),
        ({"type": 5}, "unknown part type 5"),
        ({"type": "text"}, "Text has no text"),
        ({"type": "text", "text": 5}, "text: Expected `str`"),
        ({"type": "text", "text": "", "citations": [{"type": "video"}]}, "citations: 'video'"),
        ({"type": "thinking", "thinking": "", "meta": {"provider": "later"}}, "meta: 'later'"),
        ({"type": "redacted_thinking"}, "data: Expected `str`"),
    ],
)
def test_invalid_part_is_a_json_error(part, message):
    with pytest.raises(JsonError, match=message):
        from_part(part)


def test_part_without_optional_keys_is_read():
    assert from_part({"type": "server_tool_result", "toolCallId": "s"}) == ServerToolResult("s")
    assert from_part({"type": "text", "text": "", "meta": None}) == Text("")
    assert from_part(
        {"type": "thinking", "thinking": "Hm.", "meta": {"provider": "chat"}, "signature": "s"}
    ) == Reasoning("Hm.", meta=ChatMeta(signature="s"))
