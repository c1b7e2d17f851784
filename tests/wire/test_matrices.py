"""The matrices of the specification: outputs, reasoning, citations, finish reasons and usage of each provider."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tenuto
from tenuto.core.blocks import (
    Audio,
    CodeExecution,
    DocumentCitation,
    Image,
    PageCitation,
    Reasoning,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.interop.unified import to_unified

DIALECTS = {"anthropic": "anthropic-messages", "google": "gemini"}
URL = {
    "type": "url_citation",
    "url_citation": {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2},
}
GROUNDED = {
    "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
    "groundingSupports": [{"segment": {"startIndex": 0, "endIndex": 2, "text": "hi"}, "groundingChunkIndices": [0]}],
}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def chat(message: dict[str, Any], finish: str = "stop", **fields: Any) -> dict[str, Any]:
    answer = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return {"id": "r1", "object": "chat.completion", "created": 1, "model": "m", "choices": [answer], **fields}


def anthropic(*blocks: dict[str, Any], stop: str = "end_turn", **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "r1", "type": "message", "role": "assistant", "model": "m", "stop_reason": stop}
    return {**head, "content": list(blocks), "usage": usage, **fields}


def gemini(
    *parts: dict[str, Any], stop: str = "STOP", usage: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": stop, **fields}
    return {"candidates": [candidate], "responseId": "r1", "modelVersion": "m", "usageMetadata": usage or {}}


def read(provider: str, reply: dict[str, Any]) -> tenuto.ChatResponse:
    return tenuto.decode(DIALECTS.get(provider, "openai-chat"), json.dumps(reply), provider=provider)


# --- outputs of each provider ----------------------------------------------------------------------------------------

ANTHROPIC = {
    "text": anthropic({"type": "text", "text": "hi"}),
    "call": anthropic({"type": "tool_use", "id": "c1", "name": "f", "input": {}}, stop="tool_use"),
    "thinking": anthropic({"type": "thinking", "thinking": "hm", "signature": "s"}),
    "citations": anthropic(
        {
            "type": "text",
            "text": "hi",
            "citations": [{"type": "web_search_result_location", "url": "https://a.example", "title": "A"}],
        }
    ),
    "server": anthropic({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}),
    "search": anthropic({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}),
}
GEMINI = {
    "text": gemini({"text": "hi"}),
    "call": gemini({"functionCall": {"name": "f", "args": {}}}),
    "thinking": gemini({"text": "hm", "thought": True}),
    "image": gemini({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
    "audio": gemini({"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}),
    "code": gemini({"executableCode": {"language": "PYTHON", "code": "1"}}),
    "citations": gemini({"text": "hi"}, groundingMetadata=GROUNDED),
    "search": gemini({"text": "hi"}, groundingMetadata=GROUNDED),
}
CHAT = {
    "text": chat({"content": "hi"}),
    "call": chat({"tool_calls": [CALL]}, "tool_calls"),
    "audio": chat({"audio": {"id": "a1", "data": "AAAA", "transcript": "hi", "expires_at": 5}}),
    "citations": chat({"content": "hi", "annotations": [URL]}),
}
SOURCES = chat(
    {"content": "hi [1]"},
    citations=["https://a.example"],
    search_results=[{"title": "A", "url": "https://a.example", "snippet": "..."}],
)
FIELDS = {
    "groq": {"content": "hi", "reasoning": "hm"},
    "together": {"content": "<think>hm</think>hi"},
    "mistral": {"content": "hi", "reasoning_content": "hm"},
    "deepseek": {"content": "hi", "reasoning_content": "hm"},
    "fireworks": {"content": "hi", "reasoning_content": "hm"},
    "ollama": {"content": "hi", "reasoning": "hm"},
}
KINDS = {
    "text": Text,
    "call": ToolUse,
    "thinking": Reasoning,
    "image": Image,
    "audio": Audio,
    "code": CodeExecution,
    "server": ServerToolUse,
    "search": ServerToolResult,
}
MATRIX = {
    "openai": "text call audio citations",
    "anthropic": "text call thinking citations server search",
    "google": "text call thinking image audio code citations search",
    "groq": "text call thinking citations",
    "together": "text call thinking",
    "mistral": "text call thinking",
    "deepseek": "text call thinking",
    "fireworks": "text call thinking",
    "perplexity": "text citations search",
    "ollama": "text call thinking",
    "cohere": "text call",
}


def reply_of(provider: str, output: str) -> dict[str, Any]:
    if provider == "anthropic":
        return ANTHROPIC[output]
    if provider == "google":
        return GEMINI[output]
    if provider == "perplexity" and output != "text":
        return SOURCES
    return chat(FIELDS[provider]) if output == "thinking" else CHAT[output]


@pytest.mark.parametrize("provider, output", [(name, out) for name, row in MATRIX.items() for out in row.split()])
def test_output_of_each_provider_has_its_block_type(provider, output):
    """One block type for each kind of output, without losses."""
    response = read(provider, reply_of(provider, output))
    blocks = response.choices[0].content

    if output == "citations" or (output == "search" and provider != "anthropic"):
        assert [type(c) for c in response.choices[0].citations] == [UrlCitation]
    else:
        assert [b for b in blocks if type(b) is KINDS[output]]
    assert response.losses == ()
    assert response.provider == provider


def test_reasoning_tokens_are_counted_without_reasoning():
    """Chat Completions of OpenAI return no reasoning, only its number of tokens."""
    counts = {"prompt_tokens": 1, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}}
    response = read("openai", chat({"content": "hi"}, usage=counts))

    assert response.usage.reasoning_tokens == 3
    assert [type(block) for block in response.choices[0].content] == [Text]


@pytest.mark.parametrize(
    "provider, message",
    [
        ("openai", {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]}),
        ("deepseek", {"reasoning_content": "hm"}),
        ("mistral", {"reasoning_content": "hm"}),
        ("mistral", {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
        ("fireworks", {"reasoning_content": "hm"}),
        ("fireworks", {"content": "<think>hm</think>"}),
        ("groq", {"reasoning": "hm"}),
        ("together", {"reasoning": "hm"}),
        ("together", {"content": "<think>hm</think>"}),
    ],
)
def test_reasoning_of_any_field_is_a_reasoning_block(provider, message):
    """Every field of the chat dialect's hosts; it is the first block."""
    choice = read(provider, chat({"content": "hi", **message})).choices[0]

    assert choice.thinking == "hm"
    assert isinstance(choice.content[0], Reasoning)


@pytest.mark.parametrize(
    "provider, reply, kinds",
    [
        ("openai", chat({"content": "hi", "annotations": [URL]}), [UrlCitation]),
        (
            "anthropic",
            anthropic(
                {
                    "type": "text",
                    "text": "hi",
                    "citations": [
                        {"type": "char_location", "document_index": 0, "start_char_index": 0, "end_char_index": 2},
                        {"type": "page_location", "document_index": 0, "start_page_number": 1, "end_page_number": 2},
                        {
                            "type": "content_block_location",
                            "document_index": 0,
                            "start_block_index": 0,
                            "end_block_index": 1,
                        },
                        {"type": "web_search_result_location", "url": "https://a.example"},
                    ],
                }
            ),
            [DocumentCitation, PageCitation, DocumentCitation, UrlCitation],
        ),
        ("google", GEMINI["citations"], [UrlCitation]),
        ("perplexity", SOURCES, [UrlCitation]),
    ],
)
def test_citations_are_read_from_any_field(provider, reply, kinds):
    """On the message, the block, the candidate or the response. Cohere has them only in its native API."""
    assert [type(c) for c in read(provider, reply).choices[0].citations] == kinds


# --- finish reasons and usage ----------------------------------------------------------------------------------------

WORDS = """
openai stop stop | together eos stop | openai length length | openai tool_calls tool_calls
openai function_call tool_calls | openai content_filter content_filter | deepseek insufficient_system_resource error
anthropic end_turn stop | anthropic stop_sequence stop | anthropic max_tokens length | anthropic tool_use tool_calls
anthropic pause_turn stop | anthropic refusal content_filter | anthropic model_context_window_exceeded length
google STOP stop | google MAX_TOKENS length | google SAFETY content_filter | google RECITATION content_filter
google LANGUAGE content_filter | google BLOCKLIST content_filter | google PROHIBITED_CONTENT content_filter
google SPII content_filter | google MALFORMED_FUNCTION_CALL error | google OTHER stop
openai never_heard_of stop | anthropic never_heard_of stop | google NEVER_HEARD_OF stop
"""


@pytest.mark.parametrize("line", [line.strip() for line in WORDS.replace("\n", "|").split("|") if line.strip()])
def test_finish_reason_is_mapped(line):
    """The 24 of the specification; an unknown one is `stop`. `raw_finish_reason` has the provider's value."""
    provider, raw, ours = line.split()
    if provider == "anthropic":
        reply = anthropic({"type": "text", "text": "hi"}, stop=raw)
    elif provider == "google":
        reply = gemini({"text": "hi"}, stop=raw)
    else:
        reply = chat({"content": "hi"}, raw)
    choice = read(provider, reply).choices[0]

    assert (choice.finish_reason, choice.raw_finish_reason) == (ours, raw)


CHAT_USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 9,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 1},
}
GEMINI_USAGE = {
    "promptTokenCount": 20,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 4,
    "totalTokenCount": 29,
    "cachedContentTokenCount": 8,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 20}],
    "candidatesTokensDetails": [{"modality": "TEXT", "tokenCount": 5}],
}
ANTHROPIC_USAGE = {
    "input_tokens": 9,
    "output_tokens": 9,
    "cache_read_input_tokens": 8,
    "cache_creation_input_tokens": 3,
}


@pytest.mark.parametrize(
    "provider, reply, totals, details",
    [
        (
            "openai",
            chat({"content": "hi"}, usage=CHAT_USAGE),
            (20, 9, 29),
            {"reasoningTokens": 4, "cachedTokens": 8, "audioPromptTokens": 2, "audioCompletionTokens": 1},
        ),
        (
            "deepseek",
            chat({"content": "hi"}, usage={"prompt_tokens": 20, "completion_tokens": 9, "prompt_cache_hit_tokens": 8}),
            (20, 9, 29),
            {"cachedTokens": 8},
        ),
        (
            "anthropic",
            anthropic({"type": "text", "text": "hi"}, usage=ANTHROPIC_USAGE),
            (20, 9, 29),
            {"cachedTokens": 8, "cacheWriteTokens": 3},
        ),
        (
            "google",
            gemini({"text": "hi"}, usage=GEMINI_USAGE),
            (20, 9, 29),
            {
                "reasoningTokens": 4,
                "cachedTokens": 8,
                "promptTokensByModality": {"TEXT": 20},
                "completionTokensByModality": {"TEXT": 5},
            },
        ),
    ],
)
def test_usage_has_totals_and_details(provider, reply, totals, details):
    """`raw_usage` has the provider's object."""
    response = read(provider, reply)
    usage = to_unified(response)["usage"]

    assert (usage["promptTokens"], usage["completionTokens"], usage["totalTokens"]) == totals
    assert details.items() <= usage["details"].items()
    assert json.loads(response.raw_usage) == (reply.get("usage") or reply.get("usageMetadata"))
