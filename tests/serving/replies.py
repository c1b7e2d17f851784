"""One reply in each of the four dialects, as a stream and as one body: reasoning, text, a call and usage.

All four have the same content. The streams are short, so that a test may cut them at every byte.
"""

from __future__ import annotations

import json

from tenuto.core.provider import Dialect

THOUGHT = "Hm ☃"
TEXT = "Snow: é."
CALL_ID = "call_1"
TOOL = "weather"
ARGUMENTS = {"city": "Røros", "n": 1.5}
INPUT_TOKENS = 12
OUTPUT_TOKENS = 9
"""Three of them are reasoning tokens in dialects that count these."""
SIGNATURE = "c2lnbmVk"
TOOLS = [
    {
        "type": "function",
        "function": {"name": TOOL, "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
]
ASKED: dict[Dialect, str] = {
    "anthropic-messages": "claude-sonnet-4-5",
    "openai-responses": "gpt-5.2",
    "openai-chat": "some-model",
    "gemini": "gemini-3-flash-preview",
}
"""A model for each dialect."""
PATHS: dict[Dialect, str] = {
    "anthropic-messages": "/v1/messages",
    "openai-responses": "/v1/responses",
    "openai-chat": "/v1/chat/completions",
    "gemini": "/v1beta/models/gemini-3-flash-preview:generateContent",
}
"""The paths of requests without streaming."""
BASES: dict[Dialect, str] = {dialect: "/v1beta" if dialect == "gemini" else "/v1" for dialect in PATHS}

_ARGS = json.dumps(ARGUMENTS, ensure_ascii=False, separators=(",", ":"))


def to_json(value: object) -> bytes:
    """Encode JSON without spaces and with raw characters, so that a cut may divide one."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def unnamed_events(*events: object) -> list[bytes]:
    """Encode events without names."""
    return [b"data: " + (event if isinstance(event, bytes) else to_json(event)) + b"\n\n" for event in events]


def named_events(*events: dict[str, object]) -> list[bytes]:
    """Encode events with their type as name."""
    return [b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), to_json(event)) for event in events]


# --- anthropic-messages -----------------------------------------------------------------------------------------------


def _delta(index: int, kind: str, field: str, piece: str) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}}


def _start(index: int, **block: object) -> dict[str, object]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _stop(index: int) -> dict[str, object]:
    return {"type": "content_block_stop", "index": index}


_MESSAGE = {"id": "msg_1", "type": "message", "model": "m"}


def anthropic_events(text: str = TEXT) -> list[bytes]:
    """Return the stream of the Messages dialect, event by event."""
    return named_events(
        {
            "type": "message_start",
            "message": {**_MESSAGE, "content": [], "usage": {"input_tokens": INPUT_TOKENS}},
        },
        _start(0, type="thinking", thinking=THOUGHT),
        _delta(0, "signature_delta", "signature", SIGNATURE),
        _stop(0),
        _start(1, type="text", text=""),
        _delta(1, "text_delta", "text", text),
        _stop(1),
        _start(2, type="tool_use", id=CALL_ID, name=TOOL, input={}),
        _delta(2, "input_json_delta", "partial_json", _ARGS[:12]),
        _delta(2, "input_json_delta", "partial_json", _ARGS[12:]),
        _stop(2),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": OUTPUT_TOKENS}},
        {"type": "message_stop"},
    )


def anthropic_body(text: str = TEXT) -> bytes:
    """Return the body of the Messages dialect."""
    content = [
        {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE},
        {"type": "text", "text": text},
        {"type": "tool_use", "id": CALL_ID, "name": TOOL, "input": ARGUMENTS},
    ]
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    return to_json({**_MESSAGE, "content": content, "stop_reason": "tool_use", "usage": usage})


# --- openai-responses -------------------------------------------------------------------------------------------------

_RESPONSE = {"id": "resp_1", "model": "m"}
_THOUGHT_ITEM = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": THOUGHT}],
    "encrypted_content": SIGNATURE,
}
_CALL_ITEM = {"id": "fc_1", "type": "function_call", "call_id": CALL_ID, "name": TOOL, "arguments": _ARGS}
_RESPONSES_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def _message_item(text: str) -> dict[str, object]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": content}


def responses_events(text: str = TEXT) -> list[bytes]:
    """Return the stream of the Responses dialect: added items, deltas, and the complete response.

    The finished events of the message and the call are omitted: the last event contains both items.
    """
    output = [_THOUGHT_ITEM, _message_item(text), _CALL_ITEM]
    events: list[dict[str, object]] = [
        {"type": "response.created", "response": {**_RESPONSE, "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": _THOUGHT_ITEM},
        {"type": "response.output_item.added", "output_index": 1, "item": {**_message_item(text), "content": []}},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": text},
        {"type": "response.output_item.added", "output_index": 2, "item": {**_CALL_ITEM, "arguments": ""}},
        *(
            {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": piece}
            for piece in (_ARGS[:12], _ARGS[12:])
        ),
        {
            "type": "response.completed",
            "response": {**_RESPONSE, "status": "completed", "output": output, "usage": _RESPONSES_USAGE},
        },
    ]
    return unnamed_events(*events)


def responses_body(text: str = TEXT) -> bytes:
    """Return the body of the Responses dialect."""
    output = [_THOUGHT_ITEM, _message_item(text), _CALL_ITEM]
    return to_json({**_RESPONSE, "status": "completed", "output": output, "usage": _RESPONSES_USAGE})


# --- openai-chat ------------------------------------------------------------------------------------------------------

_CHUNK = {"id": "c1", "object": "chat.completion.chunk", "model": "m"}
_CHAT_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    "completion_tokens_details": {"reasoning_tokens": 3},
}


def _chunk(delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
    return {**_CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def chat_events(text: str = TEXT) -> list[bytes]:
    """Return the stream of the chat dialect, event by event."""
    call = {"index": 0, "id": CALL_ID, "type": "function", "function": {"name": TOOL, "arguments": _ARGS[:12]}}
    return unnamed_events(
        _chunk({"role": "assistant", "reasoning_content": THOUGHT}),
        _chunk({"content": text[:3]}),
        _chunk({"content": text[3:]}),
        _chunk({"tool_calls": [call]}),
        _chunk({"tool_calls": [{"index": 0, "function": {"arguments": _ARGS[12:]}}]}),
        _chunk({}, "tool_calls"),
        {**_CHUNK, "choices": [], "usage": _CHAT_USAGE},
        b"[DONE]",
    )


def chat_body(text: str = TEXT) -> bytes:
    """Return the body of the chat dialect."""
    call = {"id": CALL_ID, "type": "function", "function": {"name": TOOL, "arguments": _ARGS}}
    message = {"role": "assistant", "content": text, "reasoning_content": THOUGHT, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return to_json({**_CHUNK, "object": "chat.completion", "choices": [choice], "usage": _CHAT_USAGE})


# --- gemini -----------------------------------------------------------------------------------------------------------

_GEMINI = {"modelVersion": "m", "responseId": "r1"}
_GEMINI_USAGE = {
    "promptTokenCount": INPUT_TOKENS,
    "candidatesTokenCount": OUTPUT_TOKENS - 3,
    "thoughtsTokenCount": 3,
    "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
}


def _parts(*parts: dict[str, object], **candidate: object) -> dict[str, object]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **candidate}], **_GEMINI}


_GEMINI_CALL = {
    "functionCall": {"id": CALL_ID, "name": TOOL, "args": ARGUMENTS},
    "thoughtSignature": SIGNATURE,
}


def gemini_events(text: str = TEXT) -> list[bytes]:
    """Return the stream of the Gemini dialect, event by event."""
    return unnamed_events(
        _parts({"text": THOUGHT, "thought": True}),
        _parts({"text": text[:3]}),
        _parts({"text": text[3:]}),
        {**_parts(_GEMINI_CALL, finishReason="STOP"), "usageMetadata": _GEMINI_USAGE},
    )


def gemini_body(text: str = TEXT) -> bytes:
    """Return the body of the Gemini dialect."""
    parts = ({"text": THOUGHT, "thought": True}, {"text": text}, _GEMINI_CALL)
    return to_json({**_parts(*parts, finishReason="STOP"), "usageMetadata": _GEMINI_USAGE})


# --- all four ---------------------------------------------------------------------------------------------------------

STREAMED = {
    "anthropic-messages": anthropic_events,
    "openai-responses": responses_events,
    "openai-chat": chat_events,
    "gemini": gemini_events,
}
WHOLE = {
    "anthropic-messages": anthropic_body,
    "openai-responses": responses_body,
    "openai-chat": chat_body,
    "gemini": gemini_body,
}
DIALECTS: tuple[Dialect, ...] = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")


def events(dialect: Dialect, text: str = TEXT) -> list[bytes]:
    """Return the reply as the events of a stream."""
    return STREAMED[dialect](text)


def body(dialect: Dialect, text: str = TEXT) -> bytes:
    """Return the reply as one body."""
    return WHOLE[dialect](text)
