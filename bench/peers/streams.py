"""Make the replies that all libraries read, as bytes of each dialect.

A reply has reasoning, text and tool calls. Gemini sends a call in one event, so its streams have fewer events. `KINDS`
has the sizes; `join_content` returns the text and the arguments of a reply.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from bench.streams import _sse, _text

SIZE = 20


class Kind(NamedTuple):
    """The number of deltas of a reply; `arguments` is the number per call."""

    thinking: int = 0
    text: int = 0
    calls: int = 0
    arguments: int = 0


KINDS = {
    "std": Kind(thinking=200, text=600, calls=2, arguments=100),
    "text": Kind(text=600),
    "long": Kind(thinking=2_000, text=6_000, calls=2, arguments=1_000),
    "args": Kind(text=1, calls=1, arguments=4_000),
    "concurrent": Kind(text=300),
}
USAGE = {"input_tokens": 10, "output_tokens": 10}


def split_arguments(kind: Kind) -> list[str]:
    """Return the arguments of one call as deltas."""
    middle = [f'"k{at}":"{_text(at, 8)}",' for at in range(kind.arguments - 2)]
    return ["{", *middle, '"end":1}']


def join_content(kind: Kind) -> tuple[str, str]:
    """Return the text of a reply, and the joined arguments of all its calls."""
    return "".join(_text(at, SIZE) for at in range(kind.text)), "".join(split_arguments(kind)) * kind.calls


def anthropic(kind: Kind) -> bytes:
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": USAGE,
    }  # fmt: skip
    events: list[dict] = [{"type": "message_start", "message": message}]
    index = 0

    def block(start: dict, deltas: list[dict]) -> None:
        nonlocal index
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
        index += 1

    if kind.thinking:
        thinking_deltas = [{"type": "thinking_delta", "thinking": _text(at, SIZE)} for at in range(kind.thinking)]
        signature = {"type": "signature_delta", "signature": "c2lnbmVk" * 20}
        block({"type": "thinking", "thinking": "", "signature": ""}, [*thinking_deltas, signature])
    block({"type": "text", "text": ""}, [{"type": "text_delta", "text": _text(at, SIZE)} for at in range(kind.text)])
    for at in range(kind.calls):
        start = {"type": "tool_use", "id": f"toolu_{at}", "name": "look", "input": {}}
        block(start, [{"type": "input_json_delta", "partial_json": piece} for piece in split_arguments(kind)])
    stop = {"stop_reason": "tool_use" if kind.calls else "end_turn", "stop_sequence": None}
    events += [{"type": "message_delta", "delta": stop, "usage": USAGE}, {"type": "message_stop"}]
    return _sse([(event["type"], event) for event in events])


def chat(kind: Kind) -> bytes:
    head = {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "gpt-4o-2024-08-06",
        "service_tier": "default", "system_fingerprint": "fp_1",
    }  # fmt: skip

    def chunk(delta: dict, finish: str | None = None) -> dict:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    events = [chunk({"role": "assistant", "content": "", "refusal": None})]
    events += [chunk({"reasoning_content": _text(at, SIZE)}) for at in range(kind.thinking)]
    events += [chunk({"content": _text(at, SIZE)}) for at in range(kind.text)]
    for at in range(kind.calls):
        first = {"index": at, "id": f"call_{at}", "type": "function", "function": {"name": "look", "arguments": ""}}
        events.append(chunk({"tool_calls": [first]}))
        events += [
            chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}) for piece in split_arguments(kind)
        ]
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    events += [chunk({}, "tool_calls" if kind.calls else "stop"), {**head, "choices": [], "usage": usage}]
    return _sse([("", event) for event in events]) + b"data: [DONE]\n\n"


RESPONSE = {
    "id": "resp_1", "object": "response", "created_at": 1_760_000_000, "status": "in_progress", "model": "gpt-5.2",
    "output": [], "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
    "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
}  # fmt: skip
TOKENS = {
    "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 20,
}  # fmt: skip


class ResponseEvents:
    """Collect the events and the finished items of a reply in the Responses dialect."""

    def __init__(self) -> None:
        self.events: list[dict] = []
        self.items: list[dict] = []

    def add(self, type: str, **fields: object) -> None:
        self.events.append({"type": f"response.{type}", **fields, "sequence_number": len(self.events)})

    def item(self, started: dict, done: dict, parts: list[tuple[str, dict]]) -> None:
        """Add the events of one item."""
        at = {"item_id": started["id"], "output_index": len(self.items)}
        self.add("output_item.added", output_index=len(self.items), item=started)
        for type, fields in parts:
            self.add(type, **at, **fields)
        self.add("output_item.done", output_index=len(self.items), item=done)
        self.items.append(done)


def responses(kind: Kind) -> bytes:
    collector = ResponseEvents()
    collector.add("created", response=RESPONSE)
    if kind.thinking:
        texts = [_text(at, SIZE) for at in range(kind.thinking)]
        summary = {"type": "summary_text", "text": "".join(texts)}
        item = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk" * 20}
        parts = [
            ("reasoning_summary_part.added", {"summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
            *(("reasoning_summary_text.delta", {"summary_index": 0, "delta": word}) for word in texts),
            ("reasoning_summary_text.done", {"summary_index": 0, "text": summary["text"]}),
            ("reasoning_summary_part.done", {"summary_index": 0, "part": summary}),
        ]
        collector.item(item, {**item, "summary": [summary]}, parts)
    texts = [_text(at, SIZE) for at in range(kind.text)]
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    full = {**part, "text": "".join(texts)}
    item = {"id": "msg_1", "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    parts = [
        ("content_part.added", {"content_index": 0, "part": part}),
        *(("output_text.delta", {"content_index": 0, "delta": word, "logprobs": []}) for word in texts),
        ("output_text.done", {"content_index": 0, "text": full["text"], "logprobs": []}),
        ("content_part.done", {"content_index": 0, "part": full}),
    ]
    collector.item(item, {**item, "status": "completed", "content": [full]}, parts)
    for at in range(kind.calls):
        texts = split_arguments(kind)
        item = {"id": f"fc_{at}", "type": "function_call", "status": "in_progress", "call_id": f"call_{at}"}
        item |= {"name": "look", "arguments": ""}
        parts = [("function_call_arguments.delta", {"delta": word}) for word in texts]
        parts.append(("function_call_arguments.done", {"arguments": "".join(texts), "name": "look"}))
        collector.item(item, {**item, "status": "completed", "arguments": "".join(texts)}, parts)
    collector.add("completed", response={**RESPONSE, "status": "completed", "output": collector.items, "usage": TOKENS})
    return _sse([(event["type"], event) for event in collector.events])


def gemini(kind: Kind) -> bytes:
    parts: list[dict] = [{"text": _text(at, SIZE), "thought": True} for at in range(kind.thinking)]
    parts += [{"text": _text(at, SIZE)} for at in range(kind.text)]
    arguments = json.loads("".join(split_arguments(kind))) if kind.calls else {}
    parts += [{"functionCall": {"name": "look", "args": arguments}} for _ in range(kind.calls)]
    events = []
    for at, part in enumerate(parts):
        candidate: dict = {"content": {"parts": [part], "role": "model"}, "index": 0}
        if at == len(parts) - 1:
            candidate["finishReason"] = "STOP"
        usage = {"promptTokenCount": 10, "candidatesTokenCount": at + 1, "totalTokenCount": at + 11}
        rest = {"usageMetadata": usage, "modelVersion": "gemini-3-flash-preview", "responseId": "r1"}
        events.append(("", {"candidates": [candidate], **rest}))
    return _sse(events)


MAKERS = {"anthropic": anthropic, "chat": chat, "responses": responses, "gemini": gemini}

REPLY_TEXT = "The quick brown fox jumps over the lazy dog. " * 10
WHOLE = {
    "anthropic": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": REPLY_TEXT}], "stop_reason": "end_turn", "stop_sequence": None, "usage": USAGE,
    },
    "chat": {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_760_000_000, "model": "gpt-4o-2024-08-06",
        "choices": [{
            "index": 0, "message": {"role": "assistant", "content": REPLY_TEXT, "refusal": None}, "logprobs": None,
            "finish_reason": "stop",
        }],
        "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
    },
    "responses": {
        **RESPONSE, "status": "completed", "usage": TOKENS,
        "output": [{
            "id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": REPLY_TEXT, "annotations": [], "logprobs": []}],
        }],
    },
    "gemini": {
        "candidates": [{"content": {"parts": [{"text": REPLY_TEXT}], "role": "model"}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20},
        "modelVersion": "gemini-3-flash-preview", "responseId": "r1",
    },
}  # fmt: skip
