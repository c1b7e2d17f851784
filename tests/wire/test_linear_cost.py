"""Encoding, pairing and decoding run the same number of lines per message; `bench/scaling.py` measures the time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from tenuto import catalog
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.messages import AssistantMessage, Message, Origin, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import Dialect, Target
from tenuto.core.request import ChatRequest
from tenuto.core.transcript import Transcript
from tenuto.wire.adapt import adapt
from tenuto.wire.codec import codec_for
from tenuto.wire.decoder import decode_body, decode_stream
from tenuto.wire.write import write_request

DIALECTS: tuple[Dialect, ...] = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")
SMALL, FACTOR = 100, 8
MANY = 300
"""The smaller size where the quadratic share is small."""
BOUND = 1.2
"""The highest cost of one unit at FACTOR times the size; quadratic work costs up to FACTOR times as much."""

Messages = tuple[Message, ...]
HI = UserMessage("Hi")


def target(dialect: Dialect) -> Target:
    return Target(catalog.provider_or_default(None, dialect), "m", dialect)


def users(count: int) -> Messages:
    return tuple(UserMessage(f"message {at:05}") for at in range(count))


def replies(count: int) -> Messages:
    return (HI, *(AssistantMessage((Text(f"reply {at:05}"),)) for at in range(count)), HI)


def calls(count: int) -> Messages:
    ids = [f"call_{at}" for at in range(count)]
    results = tuple(ToolResult(id, "done") for id in reversed(ids))
    return (HI, AssistantMessage(tuple(ToolUse(id, "f", "{}") for id in ids)), ToolResults(results))


def steps(count: int) -> Messages:
    made: list[Message] = [HI]
    for at in range(count):
        made += [AssistantMessage((ToolUse(f"call_{at}", "f", "{}"),)), ToolResults((ToolResult(f"call_{at}", "a"),))]
    return tuple(made)


def repeated(count: int) -> Messages:
    """Every turn has a call with the same id, and the results come at the end."""
    turns = (AssistantMessage((ToolUse("same", "f", "{}"),)) for _ in range(count))
    return (HI, *turns, *(ToolResults((ToolResult("same", "a"),)) for _ in range(count)))


def executed_lines(work: Callable[[], Any]) -> int:
    """Count the executed lines of Python, which do not depend on the load of the machine."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()  # that of a coverage run
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def assert_linear(make: Callable[[int], Any], work: Callable[[Any], Any], size: int = SMALL) -> None:
    small, big = make(size), make(size * FACTOR)
    work(small)  # loads what is loaded once
    assert executed_lines(lambda: work(big)) < BOUND * FACTOR * executed_lines(lambda: work(small))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("make", [users, replies, calls, steps])
def test_encoding_cost_is_linear(make: Callable[[int], Messages], dialect: Dialect) -> None:
    to = target(dialect)

    assert_linear(make, lambda messages: write_request(ChatRequest(model="m", messages=messages), to))


def test_pairing_results_of_repeated_ids_is_linear() -> None:
    to = target("anthropic-messages")

    assert_linear(repeated, lambda messages: adapt(messages, to), MANY)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_encoding_own_replies_is_linear(dialect: Dialect) -> None:
    to = target(dialect)
    origin = Origin(to.provider.name, dialect, to.model)

    def own(count: int) -> Messages:
        return tuple(replace(m, origin=origin) if isinstance(m, AssistantMessage) else m for m in steps(count))

    assert_linear(own, lambda messages: write_request(ChatRequest(model="m", messages=messages), to))


@pytest.mark.parametrize("make", [users, calls, steps, repeated])
def test_open_calls_cost_is_linear(make: Callable[[int], Messages]) -> None:
    assert_linear(lambda count: Transcript(make(count)), Transcript.open_calls)


# --- decoding many items of a Responses reply -------------------------------------------------------------------------


def items(count: int) -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "id": f"fc_{at}", "call_id": f"call_{at}", "name": "f", "arguments": "{}"}
        for at in range(count)
    ]


def response(count: int) -> dict[str, Any]:
    return {"id": "r", "model": "m", "status": "completed", "output": items(count)}


def stream(count: int, *, indexed: bool, repeated: bool) -> bytes:
    """Return a stream; without `indexed`, items are known by their ids alone."""
    events: list[dict[str, Any]] = []
    for at, item in enumerate(items(count)):
        position = {"output_index": at} if indexed else {}
        events += [
            {"type": "response.output_item.added", **position, "item": {**item, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", **position, "item_id": item["id"], "delta": "{}"},
        ]
        events += [{"type": "response.output_item.done", **position, "item": item}] if repeated else []
    events.append({"type": "response.completed", "response": response(count)})
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


@pytest.mark.parametrize("repeated", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_decoding_many_streamed_items_is_linear(indexed: bool, repeated: bool) -> None:
    to = target("openai-responses")

    assert_linear(
        lambda count: stream(count, indexed=indexed, repeated=repeated),
        lambda body: decode_stream(codec_for("openai-responses").decoder(to, seed="x"), [body]),
        MANY,
    )


def test_decoding_many_items_of_a_body_is_linear() -> None:
    to = target("openai-responses")

    assert_linear(
        lambda count: json.dumps(response(count)).encode(),
        lambda body: decode_body(codec_for("openai-responses").decoder(to, seed="x"), body),
        MANY,
    )


# --- decoding many citations of an Anthropic reply --------------------------------------------------------------------


def cited(count: int) -> bytes:
    """Return a stream with one text block that has `count` citations."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
    citations = [{"type": "page_location", "document_index": at} for at in range(count)]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "citations": []}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": citation}}
            for citation in citations
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    ]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def test_decoding_many_citations_is_linear() -> None:
    def work(body: bytes) -> None:
        decode_stream(codec_for("anthropic-messages").decoder(target("anthropic-messages"), seed="x"), [body])

    assert_linear(cited, work, MANY * 2)
