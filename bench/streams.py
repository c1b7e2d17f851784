"""Make the streams of the benchmark: N text deltas or N calls in each dialect, N unknown fields in two dialects."""

from __future__ import annotations

import json

DIALECTS = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")


def _text(at: int, size: int) -> str:
    return (f"{at} the quick brown fox jumps over the lazy dog, " * 4)[:size]


_encode = json.JSONEncoder(separators=(",", ":")).encode  # one encoder for all: `json.dumps` creates one per call


def _sse(events: list[tuple[str, dict[str, object]]]) -> bytes:
    lines = []
    for name, data in events:
        head = f"event: {name}\n" if name else ""
        lines.append(f"{head}data: {_encode(data)}\n\n")
    return "".join(lines).encode()


def anthropic(count: int, size: int) -> bytes:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": _text(at, size)}}
        for at in range(count)
    ]
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    rest = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": count}},
        {"type": "message_stop"},
    ]
    events = [{"type": "message_start", "message": message}, start, *deltas, *rest]
    return _sse([(str(event["type"]), event) for event in events])


def responses(count: int, size: int) -> bytes:
    text = "".join(_text(at, size) for at in range(count))
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    item = {"id": "msg_1", "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    done = {**item, "status": "completed", "content": [{**part, "text": text}]}
    reply = {"id": "resp_1", "object": "response", "status": "in_progress", "model": "gpt-5.2", "output": []}
    usage = {"input_tokens": 10, "output_tokens": count, "total_tokens": 10 + count}
    at_item = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    deltas = [
        {
            "type": "response.output_text.delta", **at_item, "delta": _text(at, size), "logprobs": [],
            "obfuscation": "aB3dE6", "sequence_number": at + 4,
        }
        for at in range(count)
    ]  # fmt: skip
    events = [
        {"type": "response.created", "response": reply, "sequence_number": 0},
        {"type": "response.output_item.added", "output_index": 0, "item": item, "sequence_number": 2},
        {"type": "response.content_part.added", **at_item, "part": part, "sequence_number": 3},
        *deltas,
        {"type": "response.output_text.done", **at_item, "text": text, "logprobs": [], "sequence_number": count + 4},
        {"type": "response.output_item.done", "output_index": 0, "item": done, "sequence_number": count + 5},
        {
            "type": "response.completed",
            "response": {**reply, "status": "completed", "output": [done], "usage": usage},
            "sequence_number": count + 6,
        },
    ]
    return _sse([(str(event["type"]), event) for event in events])


def chat(count: int, size: int) -> bytes:
    head = {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "gpt-4o-2024-08-06",
        "service_tier": "default", "system_fingerprint": "fp_1",
    }  # fmt: skip

    def chunk(delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    events = [
        chunk({"role": "assistant", "content": "", "refusal": None}),
        *(chunk({"content": _text(at, size)}) for at in range(count)),
        chunk({}, "stop"),
        {**head, "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": count, "total_tokens": 10 + count}},
    ]
    return _sse([("", event) for event in events]) + b"data: [DONE]\n\n"


def gemini(count: int, size: int) -> bytes:
    def chunk(at: int) -> dict[str, object]:
        candidate: dict[str, object] = {"content": {"parts": [{"text": _text(at, size)}], "role": "model"}, "index": 0}
        if at == count - 1:
            candidate["finishReason"] = "STOP"
        usage = {"promptTokenCount": 10, "candidatesTokenCount": at + 1, "totalTokenCount": at + 11}
        return {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": "gemini-3-flash-preview",
            "responseId": "r1",
        }

    return _sse([("", chunk(at)) for at in range(count)])


MAKERS = {
    "anthropic-messages": anthropic,
    "openai-responses": responses,
    "openai-chat": chat,
    "gemini": gemini,
}


def join_text(count: int, size: int) -> str:
    """Return the whole text of a stream."""
    return "".join(_text(at, size) for at in range(count))


# --- unknown fields ---------------------------------------------------------------------------------------------------


def chat_with_lists(count: int) -> bytes:
    """Make N text deltas, each with an element of an indexed list under an unknown key."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "m"}

    def chunk(delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    deltas = [chunk({"content": "a", "zz": [{"index": at, "v": 1}]}) for at in range(count)]
    return _sse([("", event) for event in (*deltas, chunk({}, "stop"))]) + b"data: [DONE]\n\n"


def anthropic_with_fields(count: int) -> bytes:
    """Make N text deltas, each with a field with a new name."""
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a", f"field_{at:05}": at}}
        for at in range(count)
    ]
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    return _anthropic([start, *deltas, {"type": "content_block_stop", "index": 0}])


# --- calls ------------------------------------------------------------------------------------------------------------

_NAME = "get_weather"


def _arguments(at: int) -> dict[str, object]:
    return {"city": "Paris", "day": at}


def _anthropic(blocks: list[dict[str, object]], stop: str = "end_turn") -> bytes:
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }  # fmt: skip
    end = [
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    events = [{"type": "message_start", "message": message}, *blocks, *end]
    return _sse([(str(event["type"]), event) for event in events])


def anthropic_calls(count: int) -> bytes:
    events: list[dict[str, object]] = []
    for at in range(count):
        block = {"type": "tool_use", "id": f"toolu_{at}", "name": _NAME, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": _encode(_arguments(at))}
        events += [
            {"type": "content_block_start", "index": at, "content_block": block},
            {"type": "content_block_delta", "index": at, "delta": delta},
            {"type": "content_block_stop", "index": at},
        ]
    return _anthropic(events, "tool_use")


def responses_calls(count: int, *, indexed: bool = True, same_ids: bool = True) -> bytes:
    """Make N calls, each started, streamed, finished, and repeated in the last event.

    Without `indexed`, events identify their item by its id only; without `same_ids`, the last event has other ids.
    """
    reply = {"id": "resp_1", "object": "response", "status": "in_progress", "model": "m", "output": []}
    events: list[dict[str, object]] = [{"type": "response.created", "response": reply}]
    items = []
    for at in range(count):
        item = {"id": f"fc_{at}", "type": "function_call", "call_id": f"call_{at}", "name": _NAME, "arguments": ""}
        done = {**item, "arguments": _encode(_arguments(at)), "status": "completed"}
        items.append(done if same_ids else {**done, "id": f"other_{at}", "call_id": f"another_{at}"})
        index = {"output_index": at} if indexed else {}
        fields = {**index, "item_id": item["id"]}
        events += [
            {"type": "response.output_item.added", **index, "item": {**item, "status": "in_progress"}},
            {"type": "response.function_call_arguments.delta", **fields, "delta": done["arguments"]},
            {"type": "response.function_call_arguments.done", **fields, "arguments": done["arguments"]},
            {"type": "response.output_item.done", **index, "item": done},
        ]
    whole = {**reply, "status": "completed", "output": items}
    events.append({"type": "response.completed", "response": whole})
    return _sse([(str(event["type"]), event) for event in events])


def chat_calls(count: int) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "m"}

    def chunk(delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    events = []
    for at in range(count):
        started = {"index": at, "id": f"call_{at}", "type": "function", "function": {"name": _NAME, "arguments": ""}}
        events.append(chunk({"tool_calls": [started]}))
        events.append(chunk({"tool_calls": [{"index": at, "function": {"arguments": _encode(_arguments(at))}}]}))
    return _sse([("", event) for event in (*events, chunk({}, "tool_calls"))]) + b"data: [DONE]\n\n"


def gemini_calls(count: int) -> bytes:
    def chunk(at: int) -> dict[str, object]:
        part = {"functionCall": {"id": f"call_{at}", "name": _NAME, "args": _arguments(at)}}
        candidate: dict[str, object] = {"content": {"parts": [part], "role": "model"}, "index": 0}
        if at == count - 1:
            candidate["finishReason"] = "STOP"
        return {"candidates": [candidate], "modelVersion": "m", "responseId": "r1"}

    return _sse([("", chunk(at)) for at in range(count)])


CALL_MAKERS = {
    "anthropic-messages": anthropic_calls,
    "openai-responses": responses_calls,
    "openai-chat": chat_calls,
    "gemini": gemini_calls,
}
