"""Replies in the Anthropic dialect, one feature each."""

from __future__ import annotations

import json


def sse(*events: dict) -> bytes:
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def message(**fields: object) -> dict:
    base = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 4,
            "output_tokens": 1,
        },
    }
    return {**base, **fields}


def start(**fields: object) -> dict:
    return {"type": "message_start", "message": message(**fields)}


def block(index: int, content: dict, *deltas: dict) -> list[dict]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(piece: str) -> dict:
    return {"type": "text_delta", "text": piece}


def thought(piece: str) -> dict:
    return {"type": "thinking_delta", "thinking": piece}


def signature(token: str) -> dict:
    return {"type": "signature_delta", "signature": token}


def args(piece: str) -> dict:
    return {"type": "input_json_delta", "partial_json": piece}


def end(reason: str = "end_turn", usage: dict | None = None, **fields: object) -> list[dict]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": usage or {"output_tokens": 20}, **fields},
        {"type": "message_stop"},
    ]


TRIGGER = {"type": "refusal", "category": "cyber"}
EDITS = [{"type": "clear_tool_uses_20250919", "cleared_input_tokens": 50, "cleared_tool_uses": 2}]
CITATION = {
    "type": "web_search_result_location",
    "cited_text": "It rains.",
    "url": "https://example.com",
    "title": "Weather",
    "encrypted_index": "Eo8BCioIAhgB",
}
SEARCH = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "caller": {"type": "direct"},
    "content": [
        {
            "type": "web_search_result",
            "url": "https://example.com",
            "title": "Weather",
            "encrypted_content": "EpkOCioIAhgCIiQ",
            "page_age": None,
        }
    ],
}

STREAMS: dict[str, bytes] = {
    "text": sse(
        start(),
        *block(0, {"type": "text", "text": ""}, text("Hel"), text("lo, "), text("wörld ☃")),
        {"type": "ping"},
        *end(),
    ),
    "thinking, call": sse(
        start(),
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            thought("Look "),
            thought("it up."),
            signature("EqQB=="),
        ),
        *block(1, {"type": "text", "text": ""}, text("A moment.")),
        *block(
            2,
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}, "caller": {"type": "direct"}},
            args(""),
            args('{"city":'),
            args(' "Oslo", "n": 1.10}'),
        ),
        *end("tool_use"),
    ),
    "empty thinking with a signature": sse(
        start(),
        *block(0, {"type": "thinking", "thinking": "", "signature": ""}, thought(""), signature("Ev0=")),
        *block(1, {"type": "text", "text": ""}, text("Done.")),
        *end(),
    ),
    "redacted, interleaved": sse(
        start(),
        *block(0, {"type": "redacted_thinking", "data": "EmwKAhgB"}),
        *block(1, {"type": "thinking", "thinking": "", "signature": ""}, thought("One."), signature("s1")),
        *block(2, {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}, args("")),
        *block(3, {"type": "thinking", "thinking": "", "signature": ""}, thought("Two."), signature("s2")),
        *block(4, {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}),
        *end("tool_use", usage={"output_tokens": 30, "output_tokens_details": {"thinking_tokens": 12}}),
    ),
    "search, citations": sse(
        start(),
        *block(
            0,
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            args('{"query": "rain"}'),
        ),
        *block(1, SEARCH),
        *block(
            2,
            {"type": "text", "text": "", "citations": []},
            {"type": "citations_delta", "citation": CITATION},
            text("Rain."),
        ),
        *end(),
    ),
    "compaction": sse(
        start(),
        *block(
            0,
            {"type": "compaction", "content": None},
            {"type": "compaction_delta", "content": "So far.", "encrypted_content": "e=="},
        ),
        *block(1, {"type": "text", "text": ""}, text("Going on.")),
        *end(context_management={"applied_edits": EDITS}),
    ),
    "fallback": sse(
        start(model="claude-fable-5"),
        *block(
            0,
            {
                "type": "fallback",
                "from": {"model": "claude-fable-5"},
                "to": {"model": "claude-opus-4-8"},
                "trigger": TRIGGER,
            },
        ),
        *block(1, {"type": "text", "text": ""}, text("Hello.")),
        *end(),
    ),
    "blocks open at the same time": sse(
        start(),
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "content_block_delta", "index": 1, "delta": thought("B")},
        {"type": "content_block_delta", "index": 0, "delta": text("A")},
        {"type": "content_block_delta", "index": 1, "delta": signature("sig")},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_delta", "index": 0, "delta": text("a")},
        {"type": "content_block_stop", "index": 0},
        *end(),
    ),
    "refusal without content": sse(start(), *end("refusal")),
}

WHOLE: dict[str, bytes] = {
    "plain": json.dumps(
        message(content=[{"type": "text", "text": "Hi", "citations": None}], stop_reason="end_turn")
    ).encode(),
    "everything": json.dumps(
        message(
            content=[
                {"type": "thinking", "thinking": "Hm.", "signature": "EqQB=="},
                {"type": "redacted_thinking", "data": "EmwK"},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}},
                SEARCH,
                {"type": "text", "text": "Rain.", "citations": [CITATION]},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
                {"type": "container_upload", "file_id": "file_1"},
                {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "x", "input": {}, "server_name": "s"},
                {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []},
            ],
            stop_reason="tool_use",
            container={"id": "container_1", "expires_at": "2026-12-01T00:00:00Z"},
        )
    ).encode(),
}
