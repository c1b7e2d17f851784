"""Streamed responses of the four dialects, written by hand: the scripts of the agent runs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["DIALECTS", "Call", "Dialect", "Say", "Think"]


class Say(NamedTuple):
    """A text, sent in two deltas."""

    text: str


class Think(NamedTuple):
    """A signed piece of reasoning."""

    text: str


class Call(NamedTuple):
    """A tool call; the arguments are sent as they are."""

    name: str
    args: str


Part = Say | Think | Call


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _sse(documents: Iterable[dict[str, Any]], *, named: bool = False) -> bytes:
    written = []
    for document in documents:
        head = f"event: {document['type']}\n" if named else ""
        written.append(f"{head}data: {json.dumps(document)}\n\n")
    return "".join(written).encode()


# --- anthropic-messages -----------------------------------------------------------------------------------------------


def _anthropic(parts: tuple[Part, ...], number: int, model: str) -> bytes:
    return _sse(_anthropic_events(parts, number, model), named=True)


def _anthropic_events(parts: tuple[Part, ...], number: int, model: str) -> Iterator[dict[str, Any]]:
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": []}
    usage = {"input_tokens": 10 + number, "output_tokens": 1}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
    for at, part in enumerate(parts):
        block, deltas = _anthropic_block(part, f"{number}_{at}")
        yield {"type": "content_block_start", "index": at, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    reason = "tool_use" if any(isinstance(part, Call) for part in parts) else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 20 + number}}
    yield {"type": "message_stop"}


def _anthropic_block(part: Part, id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if isinstance(part, Say):
        deltas = [{"type": "text_delta", "text": half} for half in _halves(part.text)]
        return {"type": "text", "text": ""}, deltas
    if isinstance(part, Think):
        deltas = [{"type": "thinking_delta", "thinking": half} for half in _halves(part.text)]
        signed = {"type": "signature_delta", "signature": f"signature-{id}"}
        return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    deltas = [{"type": "input_json_delta", "partial_json": half} for half in _halves(part.args)]
    return {"type": "tool_use", "id": f"toolu_{id}", "name": part.name, "input": {}}, deltas


# --- openai-responses -------------------------------------------------------------------------------------------------


def _responses(parts: tuple[Part, ...], number: int, model: str) -> bytes:
    return _sse(_responses_events(parts, number, model), named=True)


def _responses_events(parts: tuple[Part, ...], number: int, model: str) -> Iterator[dict[str, Any]]:
    response = {"id": f"resp_{number}", "object": "response", "model": model, "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    items = [_responses_item(part, f"{number}_{at}") for at, part in enumerate(parts)]
    for at, (part, item) in enumerate(zip(parts, items, strict=True)):
        yield from _responses_item_events(part, item, at)
    usage = {"input_tokens": 10 + number, "output_tokens": 20 + number, "total_tokens": 30 + 2 * number}
    yield {
        "type": "response.completed",
        "response": {**response, "status": "completed", "output": items, "usage": usage},
    }


def _responses_item(part: Part, id: str) -> dict[str, Any]:
    if isinstance(part, Say):
        content = [{"type": "output_text", "text": part.text, "annotations": []}]
        return {"type": "message", "id": f"m_{id}", "role": "assistant", "status": "completed", "content": content}
    if isinstance(part, Think):
        summary = [{"type": "summary_text", "text": part.text}]
        return {"type": "reasoning", "id": f"rs_{id}", "summary": summary, "encrypted_content": f"sealed-{id}"}
    call = {"id": f"fc_{id}", "call_id": f"call_{id}", "name": part.name, "arguments": part.args}
    return {"type": "function_call", **call, "status": "completed"}


def _responses_item_events(part: Part, item: dict[str, Any], at: int) -> Iterator[dict[str, Any]]:
    position = {"item_id": item["id"], "output_index": at}
    if isinstance(part, Say):
        yield {"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}}
        empty = {"type": "output_text", "text": "", "annotations": []}
        yield {"type": "response.content_part.added", **position, "content_index": 0, "part": empty}
        for half in _halves(part.text):
            yield {"type": "response.output_text.delta", **position, "content_index": 0, "delta": half}
    elif isinstance(part, Think):
        yield {"type": "response.output_item.added", "output_index": at, "item": {**item, "summary": []}}
        empty = {"type": "summary_text", "text": ""}
        yield {"type": "response.reasoning_summary_part.added", **position, "summary_index": 0, "part": empty}
        for half in _halves(part.text):
            yield {"type": "response.reasoning_summary_text.delta", **position, "summary_index": 0, "delta": half}
    else:
        yield {"type": "response.output_item.added", "output_index": at, "item": {**item, "arguments": ""}}
        for half in _halves(part.args):
            yield {"type": "response.function_call_arguments.delta", **position, "delta": half}
    yield {"type": "response.output_item.done", "output_index": at, "item": item}


# --- openai-chat ------------------------------------------------------------------------------------------------------


def _chat(parts: tuple[Part, ...], number: int, model: str) -> bytes:
    return _sse(_chat_chunks(parts, number, model)) + b"data: [DONE]\n\n"


def _chat_chunks(parts: tuple[Part, ...], number: int, model: str) -> Iterator[dict[str, Any]]:
    chunk = {"id": f"chat_{number}", "object": "chat.completion.chunk", "model": model}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    calls = 0
    for part in parts:
        if isinstance(part, Call):
            function = {"name": part.name, "arguments": ""}
            start = {"index": calls, "id": f"call_{number}_{calls}", "type": "function", "function": function}
            deltas.append({"tool_calls": [start]})
            for half in _halves(part.args):
                deltas.append({"tool_calls": [{"index": calls, "function": {"arguments": half}}]})
            calls += 1
        else:
            field = "content" if isinstance(part, Say) else "reasoning_content"
            deltas += [{field: half} for half in _halves(part.text)]
    for delta in deltas:
        yield {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 10 + number, "completion_tokens": 20 + number, "total_tokens": 30 + 2 * number}
    yield {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}


# --- gemini -----------------------------------------------------------------------------------------------------------


def _gemini(parts: tuple[Part, ...], number: int, model: str) -> bytes:
    return _sse(_gemini_chunks(parts, number, model))


def _gemini_chunks(parts: tuple[Part, ...], number: int, model: str) -> Iterator[dict[str, Any]]:
    chunk = {"modelVersion": model, "responseId": f"gem_{number}"}
    found: list[dict[str, Any]] = []
    for at, part in enumerate(parts):
        if isinstance(part, Call):
            signature = base64.b64encode(f"signature-{number}-{at}".encode()).decode()
            found.append({"functionCall": _gemini_call(part), "thoughtSignature": signature})
        elif isinstance(part, Think):
            found += [{"text": half, "thought": True} for half in _halves(part.text)]
        else:
            found += [{"text": half} for half in _halves(part.text)]
    usage = {"promptTokenCount": 10 + number, "candidatesTokenCount": 20 + number, "totalTokenCount": 30 + 2 * number}
    for at, one in enumerate(found):
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": [one]}, "index": 0}
        last = at == len(found) - 1
        yield {
            "candidates": [{**candidate, "finishReason": "STOP"} if last else candidate],
            **({"usageMetadata": usage} if last else {}),
            **chunk,
        }


def _gemini_call(part: Call) -> dict[str, Any]:
    try:
        args = json.loads(part.args)
    except ValueError:
        args = {"unreadable": part.args}
    return {"name": part.name, "args": args}


# --- all --------------------------------------------------------------------------------------------------------------


class Dialect(NamedTuple):
    """A dialect, a model of it, and the writer of its streams."""

    name: str
    model: str
    write: Any

    def reply(self, number: int, *parts: Part) -> bytes:
        """Write a whole stream. `number` distinguishes the ids and tokens of a run's replies."""
        return bytes(self.write(parts, number, self.model.partition("/")[2]))


DIALECTS = (
    Dialect("anthropic-messages", "anthropic/claude-sonnet-5-5", _anthropic),
    Dialect("openai-responses", "openai/gpt-5.2", _responses),
    Dialect("openai-chat", "deepseek/deepseek-v4-pro", _chat),
    Dialect("gemini", "google/gemini-3.1-pro-preview", _gemini),
)
