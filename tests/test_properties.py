"""Properties of any input in every dialect: encoding never fails, bytes raise only errors of this library, no token is
lost.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import strategies as say
from conformance.corpus import exchanges
from tenuto import catalog, oneshot
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    ChatMeta,
    GeminiMeta,
    Opaque,
    OpenAiMeta,
    Reasoning,
    Text,
    ToolUse,
)
from tenuto.core.events import ErrorEvent, MessageStart, StreamEvent
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Origin, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import Target
from tenuto.core.request import ChatRequest
from tenuto.errors import LLMError
from tenuto.wire.adapt import adapt
from tenuto.wire.codec import codec_for, dialect_names
from tenuto.wire.decoder import decode_body
from tenuto.wire.write import write_request
from wire.anthropic.cases import STREAMS as ANTHROPIC
from wire.chat.cases import STREAMS as CHAT
from wire.chat.cases import USAGE
from wire.responses.cases import STREAMS as RESPONSES

DIALECTS = dialect_names()
PHASES = (Phase.explicit, Phase.generate)
QUICK = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
THOROUGH = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
MODELS = {
    "anthropic-messages": ("anthropic/claude-opus-4-6", "anthropic/claude-sonnet-4-5", "anthropic/claude-fable-5-1"),
    "openai-responses": ("openai/gpt-5.2", "xai/grok-4.5", "openai/gpt-6.1-sol"),
    "openai-chat": ("mistral/mistral-large-4", "deepseek/deepseek-v4-pro", "groq/qwen/qwen3-32b", "perplexity/sonar"),
    "gemini": ("google/gemini-3-pro-preview", "google/gemini-2.5-flash", "vertex/gemini-3-flash-preview"),
}
TARGETS = [
    *(pytest.param(oneshot.target_of(dialect, "m", "custom"), id=f"{dialect}-unknown") for dialect in DIALECTS),
    *(pytest.param(catalog.resolve(model), id=model) for models in MODELS.values() for model in models),
]


@pytest.mark.parametrize("target", TARGETS)
@QUICK
@given(messages=say.transcripts_of(say.words) | say.conversations(), request=say.requests())
def test_any_transcript_adapts_and_encodes(target, messages, request):
    """For any transcript and parameters; the same request gives the same bytes."""
    chat_request = replace(request, messages=messages)
    written = write_request(chat_request, target)

    assert isinstance(json.loads(written.body), dict)
    assert all(isinstance(loss, Loss) for loss in written.losses)
    assert write_request(chat_request, target) == written


@pytest.mark.parametrize("dialect", DIALECTS)
@QUICK
@given(messages=say.transcripts_of(say.broken_words))
def test_lone_surrogates_never_reach_a_provider(dialect, messages):
    """The body is UTF-8 without half characters, also for NUL and similar characters."""
    body = write_request(ChatRequest(model="m", messages=messages), oneshot.target_of(dialect, "m", "custom")).body

    json.dumps(json.loads(body), ensure_ascii=False).encode("utf-8")


# --- tokens -----------------------------------------------------------------------------------------------------------

OWN = {
    "anthropic-messages": lambda n: AnthropicMeta(f"token{n}") if n % 2 else AnthropicRedactedMeta(f"token{n}"),
    "openai-responses": lambda n: OpenAiMeta(f"rs_{n}", f"token{n}"),
    "openai-chat": lambda n: ChatMeta("reasoning_details", details=f'[{{"type":"reasoning.text","text":"","signature":"token{n}"}}]'),
    "gemini": lambda n: GeminiMeta(f"token{n}"),
}  # fmt: skip


@st.composite
def signed_turns(draw, dialect: str):
    """Draw a turn of reasoning, text and calls with results; each reasoning block has a token of this dialect."""
    kinds = draw(st.lists(st.sampled_from("rtc"), min_size=1, max_size=6))
    blocks = []
    for at, kind in enumerate(kinds):
        if kind == "r":
            meta = OWN[dialect](at)
            hidden = isinstance(meta, AnthropicRedactedMeta)
            blocks.append(Reasoning("" if hidden else f"thought {at}", meta=meta))
        elif kind == "t":
            blocks.append(Text(f"words {at}"))
        else:
            blocks.append(ToolUse(f"call_{at}", "f", draw(say.objects)))
    calls = tuple(ToolResult(block.id, "ok") for block in blocks if isinstance(block, ToolUse))
    turn = AssistantMessage(tuple(blocks), origin=Origin("custom", dialect, "m"))
    return (UserMessage("?"), turn, ToolResults(calls) if calls else UserMessage("go on"))


@pytest.mark.parametrize("to", DIALECTS)
@pytest.mark.parametrize("home", DIALECTS)
@QUICK
@given(data=st.data())
def test_each_token_is_sent_or_a_loss(home, to, data):
    messages = data.draw(signed_turns(home))
    written = write_request(ChatRequest(model="m", messages=messages), oneshot.target_of(to, "m", "custom"))
    given_tokens = [f"token{at}" for at, block in enumerate(messages[1].blocks) if isinstance(block, Reasoning)]
    sent = [token for token in given_tokens if written.body.decode().count(f'{token}"') == 1]
    rules = (
        "foreign-token",
        "unsigned-reasoning",
        "reasoning-without-follower",
        "unpaired-reasoning",
        "lost-reasoning",
    )
    lost = [loss for loss in written.losses if loss.kind in rules or "reasoning" in loss.kind]

    if home != to:
        assert sent == []
        assert len([loss for loss in lost if loss.kind == "foreign-token"]) == len(given_tokens)
    else:
        assert len(sent) + len(lost) == len(given_tokens)


@pytest.mark.parametrize("dialect", DIALECTS)
@THOROUGH
@given(data=st.data())
def test_handover_and_return_restores_every_token(dialect, data):
    """Adapting a transcript does not change it."""
    messages = data.draw(signed_turns(dialect))
    for other in DIALECTS:
        adapt(messages, oneshot.target_of(other, "m", "custom"))
    back = adapt(messages, oneshot.target_of(dialect, "m", "custom"))

    assert back.messages is messages
    assert back.losses == ()


# --- decode(encode) ---------------------------------------------------------------------------------------------------


def _answer(dialect: str, body: dict) -> bytes:
    """Convert the assistant's turn of a request to a reply of the same dialect."""
    match dialect:
        case "anthropic-messages":
            turn = [m for m in body["messages"] if m["role"] == "assistant"]
            return json.dumps({"id": "i", "model": "m", "content": turn[0]["content"] if turn else []}).encode()
        case "openai-responses":
            turn = [i for i in body["input"] if i.get("role") != "user" and not i["type"].endswith("_output")]
            return json.dumps({"id": "i", "model": "m", "status": "completed", "output": turn}).encode()
        case "openai-chat":
            turn = [m for m in body["messages"] if m["role"] == "assistant"]
            choices = [{"index": 0, "message": m, "finish_reason": "stop"} for m in turn[:1]]
            return json.dumps({"id": "i", "model": "m", "choices": choices}).encode()
        case _:
            turn = [c for c in body["contents"] if c["role"] == "model"]
            candidates = [{"content": c, "finishReason": "STOP"} for c in turn[:1]]
            return json.dumps({"responseId": "i", "modelVersion": "m", "candidates": candidates}).encode()


def _content(message: AssistantMessage) -> tuple[str, list, list]:
    calls = [(c.name, json.loads(c.args or "{}")) for c in message.tool_calls()]
    thoughts = [(b.text, b.meta) for b in message.blocks if isinstance(b, Reasoning)]
    return str(message), calls, thoughts


@pytest.mark.parametrize("dialect", DIALECTS)
@THOROUGH
@given(data=st.data())
def test_decoded_request_equals_the_message(dialect, data):
    """Text, calls and reasoning are equal, except for recorded losses."""
    messages = data.draw(signed_turns(dialect))
    target = oneshot.target_of(dialect, "m", "custom")
    written = write_request(ChatRequest(model="m", messages=messages), target)
    answer = _answer(dialect, json.loads(written.body))
    back = decode_body(codec_for(dialect).decoder(target), answer).message
    text, calls, thoughts = _content(messages[1])

    assert _content(back)[:2] == (text, calls)
    if not written.losses:
        tokens = [_token(meta) for _, meta in thoughts]
        assert _listed(_token(meta) for _, meta in _content(back)[2]) == _listed(tokens)


def _token(meta: object) -> str:
    fields = ("signature", "data", "encrypted_content", "thought_signature", "details")
    found = [value for name in fields if (value := getattr(meta, name, None))]
    return found[0] if found else ""


def _listed(tokens) -> list[str]:
    """Return the tokens in order; the chat dialect has one list of details per message, whose items are counted."""
    found = []
    for token in filter(None, tokens):
        found += [json.dumps(item) for item in json.loads(token)] if token.startswith("[") else [token]
    return found


# --- events -----------------------------------------------------------------------------------------------------------

OWN_CASES = list(exchanges(Path(__file__).parent / "conformance" / "own"))
RECORDED: dict[str, dict[str, bytes]] = {
    dialect: {case.name: case.body for case in OWN_CASES if case.dialect == dialect} for dialect in DIALECTS
}
for held, more in (("anthropic-messages", ANTHROPIC), ("openai-responses", RESPONSES), ("openai-chat", CHAT)):
    RECORDED[held] |= more
WORDS = (
    *("type", "choices", "candidates", "message", "delta", "index", "item", "output", "response", "content", "parts"),
    *("usage", "error", "object", "output_index", "tool_calls", "finish_reason", "content_block", "usageMetadata"),
    *("status", "id", "model", "responseId", "role", "x_groq", "text", "annotation"),
)
USED = json.dumps({"usage": USAGE}).encode()
BODIES = st.lists(
    (say.json_values | st.dictionaries(st.sampled_from(WORDS), say.json_values, max_size=5)).map(json.dumps), max_size=4
)


def _events_of(dialect: str, body: bytes, *, stream: bool) -> list[StreamEvent]:
    decoder = codec_for(dialect).decoder(oneshot.target_of(dialect, "m", "custom"))
    events = decoder.feed(body) if stream else decoder.feed_body(body)
    with contextlib.suppress(LLMError):
        events += decoder.finish()
    return events


def _begins(events: list[StreamEvent]) -> bool:
    """Return whether the first event is a start; a reply that cannot be read at all is only an error."""
    return not events or isinstance(events[0], MessageStart) or (len(events) == 1 and isinstance(events[0], ErrorEvent))


@pytest.mark.parametrize("dialect", DIALECTS)
@THOROUGH
@given(data=st.data())
def test_first_event_of_a_recorded_reply_is_its_start(dialect, data):
    """Also of a reply that was damaged."""
    for name, body in RECORDED[dialect].items():
        for stream in (True, False):
            assert _begins(_events_of(dialect, body, stream=stream)), name
    assert _begins(_events_of(dialect, data.draw(damaged(RECORDED[dialect])), stream=True))


@pytest.mark.parametrize("dialect", DIALECTS)
@THOROUGH
@given(events=BODIES)
@example(events=['{"usage":{"total_tokens":3}}', '{"id":"a","choices":[{"delta":{"content":"x"}}]}'])
@example(events=['{"choices":[],"usage":{"total_tokens":3}}'])
@example(events=["[DONE]"])
def test_first_event_of_random_frames_is_a_start(dialect, events):
    """Frames with valid words at invalid positions."""
    assert _begins(_events_of(dialect, _frames(events), stream=True))
    for event in events:
        assert _begins(_events_of(dialect, event.encode(), stream=False))


def _frames(events: list[str]) -> bytes:
    return b"".join(f"data: {event}\n\n".encode() for event in events)


@pytest.mark.parametrize("dialect", DIALECTS)
@THOROUGH
@given(data=st.data(), events=BODIES)
def test_partial_reply_is_always_available(dialect, data, events):
    """After any bytes: no exception, at least one message, and all messages are incomplete."""
    for body in (_frames(events), data.draw(damaged(RECORDED[dialect]))):
        decoder = codec_for(dialect).decoder(oneshot.target_of(dialect, "m", "custom"))
        for at in range(0, len(body), 200):
            decoder.feed(body[at : at + 200])
            partial = decoder.partial()
            assert [choice.message.incomplete for choice in partial.choices] == [True] * max(1, len(partial.choices))
        assert decoder.error is None or decoder.error.partial is not None


# --- bytes ------------------------------------------------------------------------------------------------------------


def _only_ours(dialect: str, body: bytes, *, stream: bool) -> None:
    with contextlib.suppress(LLMError):
        assert oneshot.decode(dialect, body, stream=stream, provider="custom").provider == "custom"


@pytest.mark.parametrize("dialect", DIALECTS)
@THOROUGH
@given(body=st.binary(max_size=200), stream=st.booleans())
@example(body=b"", stream=True)
@example(body=b"", stream=False)
@example(body=b"\xef\xbb\xbf", stream=True)
@example(body=b"[" * 50_000, stream=True)
@example(body=b'{"a":' * 50_000, stream=False)
@example(body=b"data: " + b"9" * 10_000 + b"\n\n", stream=True)
@example(body=b"null", stream=False)
@example(body=b'"\\ud800"', stream=False)
def test_any_bytes_raise_only_errors_of_this_library(dialect, body, stream):
    """Random bytes are a `ProtocolError` or an `IncompleteResponse`."""
    _only_ours(dialect, body, stream=stream)


@pytest.mark.parametrize("dialect", DIALECTS)
@THOROUGH
@given(events=st.lists(say.json_values | st.dictionaries(st.sampled_from(
    ("type", "choices", "candidates", "message", "delta", "index", "item", "output", "response", "content", "parts", "usage",
     "error", "object", "output_index", "tool_calls", "finish_reason", "content_block", "usageMetadata", "status")), say.json_values,
    max_size=5), max_size=4), named=st.booleans())  # fmt: skip
def test_any_frames_raise_only_errors_of_this_library(dialect, events, named):
    """Frames with valid words at invalid positions."""
    lines = [f"{'event: x' + chr(10) if named else ''}data: {json.dumps(event)}\n\n".encode() for event in events]
    _only_ours(dialect, b"".join(lines), stream=True)
    for event in events:
        _only_ours(dialect, json.dumps(event).encode(), stream=False)


@st.composite
def damaged(draw, bodies):
    """Draw a valid stream with one fault: a changed byte, a missing part, or a value of another type."""
    body = draw(st.sampled_from(sorted(bodies.values())))
    at = draw(st.integers(0, len(body) - 1))
    how = draw(st.sampled_from(("byte", "cut", "swap", "end")))
    if how == "byte":
        return body[:at] + bytes([draw(st.integers(0, 255))]) + body[at + 1 :]
    if how == "cut":
        return body[:at] + body[at + draw(st.integers(1, 60)) :]
    if how == "end":
        return body[:at]
    old = draw(st.sampled_from((b'"', b"{}", b"0", b"null", b"[", b"text")))
    return body.replace(old, draw(st.sampled_from((b"5", b"null", b"[]", b'"x"', b"{}"))), 1)


@THOROUGH
@given(body=damaged(ANTHROPIC))
def test_damaged_streams_raise_only_errors_of_this_library(body):
    _only_ours("anthropic-messages", body, stream=True)


@QUICK
@given(message=say.assistant_messages_of(say.words))
def test_block_of_another_dialect_is_never_sent(message):
    """An opaque block is sent to its own dialect only."""
    opaque = [b.raw for b in message.blocks if isinstance(b, Opaque) and b.dialect == "gemini" and len(b.raw) > 8]
    body = write_request(
        ChatRequest(model="m", messages=(UserMessage("?"), message)),
        Target(catalog.provider_or_default("custom", "anthropic-messages"), "m", "anthropic-messages"),
    ).body.decode()

    assert not any(raw in body for raw in opaque)
