"""Tests of known pitfalls that concern several dialects, or that no other test covers.

`docs/pitfalls.md` names the test of each. Most of them show only in the second request, so these tests decode a reply
and check the bytes of the next request.
"""

from __future__ import annotations

import json
from typing import get_args

import pytest

import tenuto
from tenuto import oneshot
from tenuto.core.blocks import (
    AnthropicMeta,
    Audio,
    Block,
    CodeExecution,
    CodeResult,
    Document,
    Image,
    Marker,
    Opaque,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, ToolResults, UserMessage
from tenuto.core.request import ChatRequest
from tenuto.errors import IncompleteResponse
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.codec import codec_for
from wire.anthropic import cases as anthropic
from wire.chat import cases as chat
from wire.gemini import cases as gemini
from wire.responses import cases as responses

ROWS = {"anthropic-messages": "anthropic", "openai-responses": "openai", "openai-chat": "deepseek", "gemini": "google"}
MODELS = {
    "anthropic-messages": "claude-opus-4-6",
    "openai-responses": "gpt-5.6-sol",
    "openai-chat": "deepseek-v4.1-flash",
    "gemini": "gemini-3-pro",
}
DIALECTS = list(ROWS)

THINKING = {"type": "thinking", "thinking": "", "signature": "tok-1"}
REDACTED = {"type": "redacted_thinking", "data": "tok-2"}
ASKED = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}
SEALED = responses.reasoning(token="tok-1")
CALLED = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
SIGNED = gemini.call("weather", {"city": "Oslo"}, thoughtSignature="tok-1")
STREAMS = {
    "anthropic-messages": anthropic.sse(
        anthropic.start(),
        *anthropic.block(0, {**THINKING, "signature": ""}, anthropic.thought(""), anthropic.signature("tok-1")),
        *anthropic.block(1, REDACTED),
        *anthropic.block(2, {**ASKED, "input": {}}, anthropic.args('{"city":'), anthropic.args(' "Oslo"}')),
        *anthropic.end("tool_use"),
    ),
    "openai-responses": responses.sse(
        responses.created(),
        responses.done(0, SEALED),
        responses.done(1, responses.call()),
        responses.completed(SEALED, responses.call()),
    ),
    "openai-chat": chat.sse(
        chat.chunk({"role": "assistant", "content": "", "reasoning_content": "tok-1"}),
        chat.call(0, '{"city":', id="call_1", name="weather"),
        chat.call(0, ' "Oslo"}'),
        chat.chunk({}, "tool_calls"),
    ).replace(b"gpt-x", b"deepseek-v4.1-flash"),
    "gemini": gemini.sse(gemini.chunk(gemini.thought("Hm.")), gemini.chunk(SIGNED), gemini.chunk(reason="STOP")),
}
"""One reply with a thought, its token and a call, in each dialect."""
TURNS = {
    "anthropic-messages": [THINKING, REDACTED, ASKED],
    "openai-responses": [SEALED, responses.call()],
    "openai-chat": [{"role": "assistant", "content": None, "reasoning_content": "tok-1", "tool_calls": [CALLED]}],
    "gemini": [gemini.thought("Hm."), SIGNED],
}
"""The turn in the next request."""


def decode(dialect: str, data: bytes | None = None) -> AssistantMessage:
    return tenuto.decode(
        dialect, STREAMS[dialect] if data is None else data, provider=ROWS[dialect], stream=True
    ).message


def next_request(message: AssistantMessage, dialect: str) -> tenuto.WireRequest:
    """Return the next request: the question, the reply, the results of its calls, and another question."""
    answers = tuple(call.answer("12 C") for call in message.tool_calls())
    transcript = (
        UserMessage("Weather?"),
        message,
        *((ToolResults(answers),) if answers else ()),
        UserMessage("And now?"),
    )
    return tenuto.encode(dialect, ChatRequest(model=MODELS[dialect], messages=transcript), provider=ROWS[dialect])


def turn_in(dialect: str, body: bytes) -> list:
    """The assistant's turn in a request."""
    sent = json.loads(body)
    match dialect:
        case "anthropic-messages":
            return next(m["content"] for m in sent["messages"] if m["role"] == "assistant")
        case "openai-responses":
            return [i for i in sent["input"] if i.get("role") != "user" and not i["type"].endswith("_output")]
        case "openai-chat":
            return [m for m in sent["messages"] if m["role"] == "assistant"]
        case _:
            return next(c["parts"] for c in sent["contents"] if c["role"] == "model")


# --- the second request -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_reply_is_replayed_once_and_unchanged(dialect):
    """P1, P2, P12, P20, P21, P27, P30, P52, P56, P61, R2, R4: fields have their own names, empty thinking too."""
    wire = next_request(decode(dialect), dialect)

    assert turn_in(dialect, wire.body) == TURNS[dialect]
    assert wire.body.count(b"tok-1") == 1
    assert b"previous_response_id" not in wire.body


@pytest.mark.parametrize("home", DIALECTS)
@pytest.mark.parametrize("to", DIALECTS)
def test_reasoning_is_not_sent_to_another_provider(home, to):
    """P57, R6, R13, R14: neither token nor text; each is a loss, and the first provider gets the same bytes again."""
    message = decode(home)
    before = next_request(message, home).body
    if home != to:
        away = next_request(message, to)

        assert not any(text in away.body for text in (b"tok-1", b"tok-2", b"Hm.", b"Reasoning"))
        thoughts = sum(isinstance(block, Reasoning) for block in message.blocks)
        assert [loss.kind for loss in away.losses].count("foreign-reasoning") == thoughts
    assert next_request(message, home).body == before


@pytest.mark.parametrize("to", DIALECTS)
def test_generated_ids_of_equal_replies_differ(to):
    """P33, P51, R12: equal bytes give equal ids; in one request they differ, with their results."""
    message = decode("gemini", gemini.sse(gemini.chunk(gemini.call("f", {}), gemini.call("f", {}), reason="STOP")))
    turn = (message, ToolResults(tuple(call.answer("ok") for call in message.tool_calls())))
    request = ChatRequest(model=MODELS[to], messages=(UserMessage("?"), *turn, *turn))
    body = json.loads(tenuto.encode(to, request, provider=ROWS[to]).body)
    calls, answers = [], []
    match to:
        case "anthropic-messages":
            parts = [part for m in body["messages"] for part in m["content"]]
            calls = [p["id"] for p in parts if p["type"] == "tool_use"]
            answers = [p["tool_use_id"] for p in parts if p["type"] == "tool_result"]
        case "openai-responses":
            calls = [i["call_id"] for i in body["input"] if i["type"] == "function_call"]
            answers = [i["call_id"] for i in body["input"] if i["type"] == "function_call_output"]
        case "openai-chat":
            calls = [c["id"] for m in body["messages"] for c in m.get("tool_calls", ())]
            answers = [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"]
        case _:
            assert "tnt_" not in json.dumps(body), "ids that the decoder generated are not sent"
            return

    assert calls == answers
    assert len(set(calls)) == 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_incomplete_turn_is_not_sent(dialect):
    """P6, P17, R5, R18, XP-07: neither text nor token, and a loss says so; the transcript keeps both."""
    cut = {
        "anthropic-messages": anthropic.sse(
            anthropic.start(),
            *anthropic.block(0, {"type": "text", "text": ""}, anthropic.text("Well.")),
            *anthropic.block(1, {**THINKING, "signature": ""}, anthropic.thought("half"), anthropic.signature("tok-1"))[
                :-1
            ],
        ),
        "openai-responses": responses.sse(
            responses.created(),
            responses.done(0, responses.message(responses.text("Well."))),
            responses.done(1, SEALED),
        ),
        "openai-chat": chat.sse(chat.FIRST, chat.text("Well."), chat.chunk({"reasoning_content": "half"}), done=False),
        "gemini": gemini.sse(gemini.chunk(gemini.text("Well."), gemini.start_call("f", thoughtSignature="tok-1"))),
    }[dialect]
    with pytest.raises(IncompleteResponse) as caught:
        decode(dialect, cut)
    message = caught.value.partial.message

    assert message.incomplete
    wire = next_request(message, dialect)
    assert b"Well." not in wire.body
    assert b"tok-1" not in wire.body
    assert {loss.kind for loss in wire.losses} == {"incomplete-turn"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_reply_may_contain_only_reasoning(dialect):
    """P25: the conversation can continue."""
    only = {
        "anthropic-messages": anthropic.sse(
            anthropic.start(), *anthropic.block(0, THINKING, anthropic.thought("Hm.")), *anthropic.end()
        ),
        "openai-responses": responses.sse(responses.created(), responses.done(0, SEALED), responses.completed(SEALED)),
        "openai-chat": chat.sse(chat.chunk({"role": "assistant", "reasoning_content": "Hm."}), chat.chunk({}, "stop")),
        "gemini": gemini.sse(gemini.chunk(gemini.thought("Hm."), reason="STOP")),
    }[dialect]
    message = decode(dialect, only)

    assert [type(block) for block in message.blocks] == [Reasoning]
    assert message.stop_reason == "stop"
    assert b"And now?" in next_request(message, dialect).body


# --- the end of a stream ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("rest", [b"data: {broken\n\n", b"data: {", b"data: 7\n\n", b"data: [DONE]\n\n", b"data:\n\n"])
def test_unreadable_data_after_end_keeps_the_reply(dialect, rest):
    """P40: it is a loss at most."""
    data = STREAMS[dialect].removesuffix(b"data: [DONE]\n\n")
    reply = tenuto.decode(dialect, data + rest, provider=ROWS[dialect], stream=True)

    assert turn_in(dialect, next_request(reply.message, dialect).body) == TURNS[dialect]
    assert reply.message.stop_reason == "tool_calls"
    assert [loss.kind for loss in reply.losses] == (
        [] if rest in (b"data: [DONE]\n\n", b"data:\n\n") else ["after-the-end"]
    )


def test_cancelled_stream_has_stop_reason_error():
    """P23: the content up to there is in the reply."""
    item = responses.message(responses.text("Well."))
    last = {"type": "response.cancelled", "response": responses.response(item, status="cancelled")}
    message = decode("openai-responses", responses.sse(responses.created(), responses.done(0, item), last))

    assert (message.stop_reason, message.raw_stop_reason, str(message)) == ("error", "cancelled", "Well.")


def test_last_signature_of_a_block_is_used():
    """P13: as in the official SDK; another one before it is a loss. Without deltas, the start frame has it."""
    start = {**THINKING, "signature": "s0"}

    def read(*deltas):
        data = anthropic.sse(anthropic.start(), *anthropic.block(0, start, *deltas), *anthropic.end())
        return tenuto.decode("anthropic-messages", data, stream=True)

    assert read(anthropic.thought("Hm.")).message.blocks[0].meta == AnthropicMeta("s0")
    assert read(anthropic.signature("s0")).losses == ()
    replaced = read(anthropic.signature("s1"))
    assert replaced.message.blocks[0].meta == AnthropicMeta("s1")
    assert [loss.kind for loss in replaced.losses] == ["signature-replaced"]


# --- no silent losses ------------------------------------------------------------------------------------------------

MADE = {
    Text: Text("word-x"),
    Reasoning: Reasoning("word-x"),
    ToolUse: ToolUse("call_1", "f", '{"a":"word-x"}'),
    ServerToolUse: ServerToolUse("srv_1", "search", '{"q":"word-x"}'),
    ServerToolResult: ServerToolResult("srv_1", '"word-x"'),
    Refusal: Refusal("word-x"),
    Image: Image(data="word-x"),
    Audio: Audio(data="word-x"),
    Document: Document(text="word-x"),
    CodeExecution: CodeExecution("word-x"),
    CodeResult: CodeResult("OK", "word-x"),
    Marker: Marker("compaction", "word-x"),
    Opaque: Opaque("elsewhere", '{"type":"word-x"}'),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", get_args(Block), ids=lambda kind: kind.__name__)
def test_every_block_is_sent_or_lost(dialect, kind):
    """P58, R21: a block that the dialect does not have is a loss."""
    transcript = (UserMessage("?"), AssistantMessage((MADE[kind], Text("so"))), UserMessage("And now?"))
    to = oneshot.target_of(dialect, "model-x", "custom")
    for wire in (
        codec_for(dialect).encode(BodyBuilder(ChatRequest(model="model-x", messages=transcript), to)),
        tenuto.encode(dialect, ChatRequest(model="model-x", messages=transcript), provider="custom"),
    ):
        assert (b"word-x" in wire.body) or any(str(loss.location).startswith("messages[1]") for loss in wire.losses)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_model_id_is_sent_as_given(dialect):
    """P99: the readable names of the catalog are never sent."""
    target = oneshot.target_of(dialect, MODELS[dialect], ROWS[dialect])
    wire = next_request(decode(dialect), dialect)

    assert target.traits.known
    assert (
        (f"/{MODELS[dialect]}:" in wire.path)
        if dialect == "gemini"
        else json.loads(wire.body)["model"] == MODELS[dialect]
    )


@pytest.mark.parametrize(
    ("model", "header"),
    [
        ("claude-sonnet-4-5", "interleaved-thinking-2025-05-14,mine"),
        ("claude-3-7-sonnet-latest", "mine"),
        ("claude-opus-4-7", "mine"),
    ],
)
def test_beta_header_is_sent_once_and_if_supported(model, header):
    """P11: interleaved thinking needs a budget and a model that has both."""
    request = ChatRequest(
        model=model, messages=(UserMessage("?"),), effort="high", extra_headers={"Anthropic-Beta": "mine"}
    )
    wire = tenuto.encode("anthropic-messages", request, provider="anthropic")

    assert [value for name, value in wire.headers.items() if name.lower() == "anthropic-beta"] == [header]
    assert "thinking" in json.loads(wire.body)
