"""A reply that decodes can be stored, loaded and sent back, whatever JSON types its fields have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenuto
from tenuto.core.messages import UserMessage
from tenuto.core.provider import Dialect
from tenuto.core.request import ChatRequest
from tenuto.core.stored import dump_response, load_response
from tenuto.errors import TenutoError

Path = tuple[str | int, ...]
ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-6",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "hidden"},
        {"type": "text", "text": "a", "citations": [{"type": "page_location", "document_index": 0, "cited_text": "b"}]},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "web_search_result"}]},
        {"type": "compaction", "content": "so far", "signature": "sig"},
        {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}},
    ],
    "stop_reason": "tool_use",
    "container": {"id": "container_1"},
    "usage": {"input_tokens": 1, "output_tokens": 2, "iterations": [{"type": "compaction", "input_tokens": 5}]},
}
RESPONSES = {
    "id": "resp_1",
    "model": "gpt-5.2",
    "status": "completed",
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "s"}],
            "encrypted_content": "e",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {
                    "type": "output_text",
                    "text": "x",
                    "annotations": [
                        {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
                    ],
                },
                {"type": "refusal", "refusal": "no"},
            ],
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "image_generation_call", "id": "ig_1", "result": "iVBORw==", "output_format": "png"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "e"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"},
        {"type": "shell_call", "id": "sh_1", "call_id": "call_2", "action": {"commands": ["ls"]}},
        {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_3", "name": "c", "input": "free"},
        {"type": "function_call_output", "id": "fo_1", "call_id": "call_1", "output": "done"},
    ],
    "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
}
CHAT = {
    "id": "c",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "x",
                "reasoning_content": "hm",
                "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "hm", "signature": "s"}],
                "annotations": [{"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}],
                "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}
GEMINI = {
    "responseId": "r",
    "modelVersion": "gemini-3-pro",
    "candidates": [
        {
            "index": 0,
            "finishReason": "STOP",
            "content": {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
                    {"text": "x"},
                    {"executableCode": {"language": "PYTHON", "code": "1"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                    {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
                    {"functionCall": {"id": "f1", "name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"},
                ],
            },
            "groundingMetadata": {"groundingChunks": [{"web": {"uri": "u", "title": "t"}}]},
        }
    ],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3},
}
REPLIES: dict[Dialect, dict[str, Any]] = {
    "anthropic-messages": ANTHROPIC,
    "openai-responses": RESPONSES,
    "openai-chat": CHAT,
    "gemini": GEMINI,
}
VALUES: list[Any] = [None, True, 7, 1.5, "", "word", [], ["x"], {}, {"type": "x"}, [{"a": 1}]]


def paths(value: Any, above: Path = ()) -> Iterator[Path]:
    """Yield the path of every value inside `value`."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*above, key)
        yield from paths(child, (*above, key))


def mutated(reply: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return a copy of `reply` with `value` at `path`; an unchanged copy where an earlier change removed the path."""
    copy = json.loads(json.dumps(reply))
    inner = copy
    for key in path[:-1]:
        if not isinstance(inner, dict | list) or (isinstance(inner, dict) != isinstance(key, str)):
            return copy
        if key not in (inner if isinstance(inner, dict) else range(len(inner))):
            return copy
        inner = inner[key]
    if isinstance(inner, dict | list) and isinstance(inner, dict) == isinstance(path[-1], str):
        inner[path[-1]] = value
    return copy


def send_back(dialect: Dialect, reply: dict[str, Any]) -> None:
    """Decode, store, load and encode a reply; only decoding may fail, and only with an error of this library."""
    try:
        response = tenuto.decode(dialect, json.dumps(reply))
    except TenutoError:
        return
    loaded = load_response(dump_response(response))
    assert loaded == response
    messages = (UserMessage("q"), loaded.message, UserMessage("go"))
    origin = loaded.message.origin
    model = (origin.model if origin is not None else "") or "m"
    json.loads(tenuto.encode(dialect, ChatRequest(model=model, messages=messages)).body)


@pytest.mark.parametrize("dialect", REPLIES)
def test_any_decoded_reply_can_be_sent_back(dialect: Dialect) -> None:
    for path in paths(REPLIES[dialect]):
        for value in VALUES:
            try:
                send_back(dialect, mutated(REPLIES[dialect], path, value))
            except Exception as exc:
                raise AssertionError(f"{dialect}: {path} = {value!r}") from exc


@given(data=st.data(), dialect=st.sampled_from(list(REPLIES)))
def test_reply_with_several_changes_can_be_sent_back(data: st.DataObject, dialect: Dialect) -> None:
    reply = REPLIES[dialect]
    for _ in range(data.draw(st.integers(2, 4))):
        reply = mutated(reply, data.draw(st.sampled_from(list(paths(reply)))), data.draw(st.sampled_from(VALUES)))
        if not reply:
            return
    send_back(dialect, reply)
