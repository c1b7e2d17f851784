"""Comparison with the official SDK: it reads the same replies, and its types accept our requests."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParams
from pydantic import TypeAdapter

from tenuto.core.blocks import Audio, Document, Image, Text, ToolUse
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage, user
from tenuto.core.provider import ChatSwitches
from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, ToolDefinition
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.chat.encode import encode
from wire.chat.cases import STREAMS, WHOLE, back, stream, target, whole

PARAMS = TypeAdapter(CompletionCreateParams)


def validated(body: dict) -> dict:
    """Return the fields that the SDK's types accept: unknown keys are dropped, invalid values are an error."""
    found = drained(PARAMS.validate_python(body))
    assert isinstance(found, dict)
    return found


def drained(value: object) -> object:
    """Validate lists, which the SDK does only when they are read."""
    if isinstance(value, dict):
        return {name: drained(item) for name, item in value.items()}
    return [drained(item) for item in value] if isinstance(value, Iterable) and not isinstance(value, str) else value


def accumulated(data: bytes) -> ChatCompletion:
    """Return the message that the SDK makes of a stream."""
    state = ChatCompletionStreamState()
    for line in data.decode().splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            state.handle_chunk(ChatCompletionChunk.model_validate_json(line[6:]))
    return state.current_completion_snapshot


def plain(message: dict) -> dict:
    """Normalize a message: null equals absent; the SDK adds parsed values and indexes, and writes empty text as null."""

    def clean(value):
        if isinstance(value, dict):
            dropped = ("parsed", "parsed_arguments", "index")
            return {k: clean(v) for k, v in value.items() if v not in (None, "", []) and k not in dropped}
        return [clean(v) for v in value] if isinstance(value, list) else value

    return clean(message)


# The SDK has no types for custom calls in a stream; test_sdk_reads_the_same_body has a body with one.
SEEN = sorted(set(STREAMS) - {"custom call"})


@pytest.mark.parametrize("name", SEEN)
def test_sdk_accumulates_the_same_message(name):
    theirs = accumulated(STREAMS[name])
    ours = stream(STREAMS[name])

    for at, choice in enumerate(theirs.choices):
        assert plain(back(ours, at)) == plain(json.loads(choice.message.to_json()))
        assert ours.choices[at].raw_finish_reason == choice.finish_reason
        if choice.logprobs is not None:
            assert json.loads(ours.choices[at].extra)["logprobs"]["content"] == [
                json.loads(p.to_json()) for p in choice.logprobs.content
            ]
    assert (ours.id, ours.model) == (theirs.id, theirs.model)
    assert plain(json.loads(ours.raw_usage or "{}")) == plain(
        json.loads(theirs.usage.to_json()) if theirs.usage else {}
    )


@pytest.mark.parametrize("name", WHOLE)
def test_sdk_reads_the_same_body(name):
    theirs = ChatCompletion.model_validate_json(WHOLE[name])
    ours = whole(WHOLE[name])

    for at, choice in enumerate(theirs.choices):
        assert plain(back(ours, at)) == plain(json.loads(choice.message.to_json()))
        assert ours.choices[at].raw_finish_reason == choice.finish_reason
    assert ours.usage.total_tokens == theirs.usage.total_tokens


CALLS = (
    ToolUse("call_1", "weather", '{"city": "Oslo"}'),
    ToolUse("call_2", "sql", "select 1", "custom"),
)
TALK = (
    SystemMessage("Be brief."),
    user(
        "See:",
        Image(url="https://a.example/b.png", detail="low"),
        Image(data="AAAA", mime="image/png"),
        Audio(data="AAAA", mime="audio/wav"),
        Document(data="AAAA", mime="application/pdf", title="a.pdf"),
        Document(file_id="file-1"),
    ),
    AssistantMessage((Text("A moment."), *CALLS)),
    ToolResults((ToolResult("call_1", "rain"), ToolResult("call_2", (Text("1"),), is_error=True))),
    UserMessage("Go on.", name="Kim"),
)
TOOLS = (
    ToolDefinition(
        "weather", "Tells the weather.", {"type": "object", "properties": {"city": {"type": "string"}}}, strict=True
    ),
    ToolDefinition("sql", kind="custom", options={"custom": {"format": {"type": "text"}}}),
)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
        {"tools": TOOLS, "tool_choice": NamedTool("weather")},
        {"tools": TOOLS, "tool_choice": NamedTool("sql")},
        {"response_format": JsonSchema({"type": "object"}, strict=True, description="x")},
        {"response_format": "json_object"},
        {"response_format": "text"},
        {"effort": "low", "verbosity": "low", "service_tier": "flex", "store": False},
        {"max_tokens": 5, "stop": ("a", "b"), "n": 2, "seed": 1, "user": "me"},
        {"temperature": 0.5, "top_p": 0.5, "frequency_penalty": 0.5, "presence_penalty": 0.5, "logit_bias": {"1": 5}},
        {"logprobs": True, "top_logprobs": 2, "modalities": ("text", "audio"), "audio": {"voice": "alloy", "format": "wav"}},
        {"stream": True},
    ],
)  # fmt: skip
def test_sdk_types_accept_the_request(fields):
    switches = ChatSwitches(max_tokens_field="max_completion_tokens")
    wire = encode(BodyBuilder(ChatRequest(model="gpt-x", messages=TALK, **fields), target(switches)))
    body = json.loads(wire.body)

    assert validated(body) == body
    assert wire.losses == ()


@pytest.mark.parametrize("name", sorted({*STREAMS, *WHOLE}))
def test_sdk_types_accept_every_reply(name):
    response = stream(STREAMS[name]) if name in STREAMS else whole(WHOLE[name])
    for choice in response.choices:
        if not choice.message.blocks:
            continue
        answers = ToolResults(tuple(call.answer("ok") for call in choice.message.tool_calls()))
        messages = (UserMessage("Hi"), choice.message, *((answers,) if answers.results else ()))
        body = json.loads(encode(BodyBuilder(ChatRequest(model="gpt-x", messages=messages), target())).body)
        body["messages"][1].pop("reasoning_content", None)  # not a field of OpenAI

        assert validated(body) == body


def test_sdk_types_refuse_invalid_messages():
    """Otherwise the tests above could not fail."""
    body = {"model": "gpt-x", "messages": [{"role": "tool", "content": "x"}]}

    with pytest.raises(ValueError, match="tool_call_id"):
        validated(body)
    assert validated({"model": "gpt-x", "messages": [{"role": "user", "content": "x", "odd": 1}]})["messages"] == [
        {"role": "user", "content": "x"}
    ]
