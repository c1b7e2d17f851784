"""Replies in the chat dialect, written for these tests: one feature each."""

from __future__ import annotations

import json

from tenuto.core import jsonio
from tenuto.core.blocks import Block
from tenuto.core.messages import Message
from tenuto.core.provider import ChatSwitches, ModelTraits, Provider, Target
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.chat.decode import ChatDecoder
from tenuto.wire.chat.encode import encode, verbatim
from tenuto.wire.decoder import decode_body, decode_stream

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "gpt-x"}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def target(switches: ChatSwitches | None = None, *, model: str = "gpt-x", **traits: object) -> Target:
    row = Provider("here", "openai-chat", "", chat=switches or ChatSwitches())
    return Target(row, model, "openai-chat", ModelTraits(**traits))


def chunk(delta: dict | None, finish: str | None = None, index: object = 0, **top: object) -> dict:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {**HEAD, "system_fingerprint": "fp_1", "choices": [choice], **top}


def text(piece: str, **top: object) -> dict:
    return chunk({"content": piece}, **top)


def call(index: object, arguments: object, *, id: object = None, name: str | None = None, **fields: object) -> dict:
    function = {**({"name": name} if name is not None else {}), "arguments": arguments}
    piece = {"index": index, **({"id": id, "type": "function"} if id is not None else {}), "function": function}
    return chunk({"tool_calls": [{**piece, **fields}]})


FIRST = chunk({"role": "assistant", "content": "", "refusal": None})
CALLED = chunk({"role": "assistant", "content": None})


def sse(*events: dict | str | bytes, done: bool = True) -> bytes:
    lines = [e if isinstance(e, bytes) else (e if isinstance(e, str) else json.dumps(e)).encode() for e in events]
    return b"".join(b"data: " + line + b"\n\n" for line in (*lines, *([b"[DONE]"] if done else [])))


def body(message: dict | None, finish: str | None = "stop", **top: object) -> bytes:
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    head = {**HEAD, "object": "chat.completion"}
    return json.dumps({**head, "choices": [choice], "usage": USAGE, **top}).encode()


def assistant(content: object = "Hello.", **fields: object) -> dict:
    return {"role": "assistant", "content": content, **fields}


def stream(data: bytes, switches: ChatSwitches | None = None) -> ChatResponse:
    return decode_stream(ChatDecoder(target(switches)), [data])


def whole(data: bytes, switches: ChatSwitches | None = None) -> ChatResponse:
    return decode_body(ChatDecoder(target(switches)), data)


def back(response: ChatResponse, choice: int = 0) -> dict:
    """Return the message as it was received, as a wire object."""
    return json.loads(jsonio.encode(verbatim(response.choices[choice].message)))[0]


def blocks(data: bytes, switches: ChatSwitches | None = None) -> tuple[Block, ...]:
    return stream(data, switches).message.blocks


def encode_messages(
    *messages: Message, switches: ChatSwitches | None = None, request: dict | None = None, **traits: object
) -> tuple[list[dict], list[tuple[str, str]]]:
    """Return the messages on the wire, and the losses."""
    wire = encode(
        BodyBuilder(ChatRequest(model="gpt-x", messages=messages, **request or {}), target(switches, **traits))
    )
    return json.loads(wire.body)["messages"], [(loss.kind, str(loss.location)) for loss in wire.losses]


def only(*messages: Message, **options) -> list[dict]:
    """Return the messages on the wire; assert that there are no losses."""
    wire_messages, losses = encode_messages(*messages, **options)
    assert losses == []
    return wire_messages


WEATHER = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}

STREAMS: dict[str, bytes] = {
    "text": sse(FIRST, text("Hel"), text("lo, "), text("wörld ☃"), chunk({}, "stop"), {**HEAD, "choices": [], "usage": USAGE}),
    "padded": sse(
        chunk({"role": "assistant", "content": ""}, usage=None, obfuscation="abc"),
        chunk({"content": "Hi"}, usage=None, obfuscation="x"),
        chunk({}, "length", usage=None, obfuscation=""),
    ),
    "call": sse(
        CALLED,
        chunk({"tool_calls": [WEATHER]}),
        call(0, '{"city":'),
        call(0, ' "Oslo", "n": 1.10}'),
        chunk({}, "tool_calls"),
    ),
    "two calls, interleaved": sse(
        CALLED,
        chunk({"tool_calls": [WEATHER, {**WEATHER, "index": 1, "id": "call_2"}]}),
        call(1, '{"city":"Bergen"}'),
        call(0, '{"city":"Oslo"}'),
        chunk({}, "tool_calls"),
    ),
    "text, then a call": sse(FIRST, text("A moment."), chunk({"tool_calls": [WEATHER]}), call(0, "{}"), chunk({}, "tool_calls")),
    "custom call": sse(
        CALLED,
        chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "sql", "input": ""}}]}),
        chunk({"tool_calls": [{"index": 0, "custom": {"input": "select "}}]}),
        chunk({"tool_calls": [{"index": 0, "custom": {"input": "1"}}]}),
        chunk({}, "tool_calls"),
    ),
    "function call": sse(
        CALLED,
        chunk({"function_call": {"name": "weather", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"city":"Oslo"}'}}),
        chunk({}, "function_call"),
    ),
    "refusal": sse(
        chunk({"role": "assistant", "content": None, "refusal": ""}),
        chunk({"refusal": "I will "}),
        chunk({"refusal": "not."}),
        chunk({}, "stop"),
    ),
    "reasoning": sse(
        chunk({"role": "assistant", "content": None, "reasoning_content": ""}),
        chunk({"content": None, "reasoning_content": "Look "}),
        chunk({"content": None, "reasoning_content": "up."}),
        chunk({"content": "It ", "reasoning_content": None}),
        chunk({"content": "rains."}),
        chunk({"content": ""}, "stop"),
    ),
    "several choices": sse(
        FIRST,
        chunk({"role": "assistant", "content": ""}, index=1),
        text("one", index=0),
        text("two", index=1),
        chunk({}, "stop", index=1),
        chunk({}, "length", index=0),
    ),
    "log probabilities": sse(
        FIRST,
        {**HEAD, "choices": [{"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [{"token": "a", "logprob": -0.10, "bytes": [97], "top_logprobs": []}], "refusal": None}, "finish_reason": None}]},
        {**HEAD, "choices": [{"index": 0, "delta": {"content": "b"}, "logprobs": {"content": [{"token": "b", "logprob": -1, "bytes": [98], "top_logprobs": []}], "refusal": None}, "finish_reason": None}]},
        chunk({}, "stop"),
    ),
    "speech": sse(
        chunk({"role": "assistant", "content": None, "refusal": None}),
        chunk({"audio": {"id": "audio_1", "transcript": "Hel"}}),
        chunk({"audio": {"transcript": "lo"}}),
        chunk({"audio": {"data": "AAAA"}}),
        chunk({"audio": {"data": "BBBB"}}),
        chunk({"audio": {"expires_at": 1700003600}}),
        chunk({}, "stop"),
    ),
}  # fmt: skip

ANNOTATION = {
    "type": "url_citation",
    "url_citation": {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 5},
}

WHOLE: dict[str, bytes] = {
    "text": body(assistant(refusal=None, annotations=[])),
    "empty text": body(assistant("")),
    "calls": body(
        assistant(
            None,
            tool_calls=[
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}},
                {"id": "call_2", "type": "custom", "custom": {"name": "sql", "input": "select 1"}},
            ],
        ),
        "tool_calls",
    ),
    "function call": body(assistant(None, function_call={"name": "weather", "arguments": "{}"}), "function_call"),
    "refusal": body(assistant(None, refusal="I will not.")),
    "citations": body(assistant(annotations=[ANNOTATION])),
    "speech": body(
        assistant(
            None, audio={"id": "audio_1", "data": "AAAA", "transcript": "Hello", "expires_at": 1700003600}, refusal=None
        )
    ),
    "several choices": json.dumps(
        {
            **HEAD,
            "object": "chat.completion",
            "choices": [
                {"index": 0, "message": assistant("one"), "finish_reason": "stop", "logprobs": None},
                {"index": 1, "message": assistant("two"), "finish_reason": "length", "logprobs": None},
            ],
            "usage": USAGE,
        }
    ).encode(),
}
