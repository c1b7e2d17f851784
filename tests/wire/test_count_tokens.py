"""Counting tokens: the endpoints get the fields of the ordinary request that they accept."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto import catalog
from tenuto.core.messages import SystemMessage, UserMessage
from tenuto.core.request import ChatRequest, JsonSchema, ServerTool, ToolDefinition
from tenuto.errors import BadRequest, LLMError, ProtocolError, UnsupportedModel
from tenuto.wire.count_tokens import decode, encode
from tenuto.wire.write import write_request

WEATHER = ToolDefinition("weather", "Tells it", {"type": "object", "properties": {"city": {"type": "string"}}})
MODELS = {
    "anthropic": "anthropic/claude-sonnet-4-5",
    "responses": "openai/gpt-5.2",
    "gemini": "google/gemini-2.5-flash",
    "vertex": "vertex/gemini-2.5-flash",
}


def request(model, **more):
    full = {
        "messages": (SystemMessage("Be brief."), UserMessage("Weather in Oslo?")),
        "tools": (WEATHER, ServerTool("web_search")),
        "tool_choice": "auto",
        "max_tokens": 500,
        "temperature": 1.0,
        "stop": ("END",),
        "stream": True,
        "user": "u",
    }
    return ChatRequest(model=model, **(full | more))


def count_body(model, **more):
    target = catalog.resolve(model)
    wire = encode(request(model, **more), target)
    return wire, json.loads(wire.body)


def full_body(model):
    return json.loads(write_request(request(model, stream=False), catalog.resolve(model)).body)


def test_anthropic_request_omits_limits_and_sampling():
    wire, body = count_body(MODELS["anthropic"])
    full = full_body(MODELS["anthropic"])

    assert (wire.method, wire.path) == ("POST", "/messages/count_tokens")
    assert wire.headers["anthropic-version"] == "2023-06-01"
    assert set(full) - set(body) == {"max_tokens", "temperature", "stop_sequences", "metadata"}
    assert body == {name: full[name] for name in body}
    assert [tool["name"] for tool in body["tools"]] == ["weather", "web_search"]
    assert body["system"] == "Be brief."


def test_thinking_and_format_are_counted():
    _, body = count_body(MODELS["anthropic"], effort="high", temperature=None)
    _, shaped = count_body(
        "anthropic/claude-opus-4-6", response_format=JsonSchema({"type": "object"}), temperature=None, effort="low"
    )

    assert body["thinking"]["type"] == "enabled"
    assert shaped["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}


def test_responses_request_omits_storage_and_limits():
    wire, body = count_body(MODELS["responses"], temperature=None)

    assert wire.path == "/responses/input_tokens"
    assert set(body) == {"model", "input", "tools", "tool_choice", "reasoning"}
    assert [item["role"] for item in body["input"]] == ["system", "user"]


def test_gemini_request_contains_the_whole_request():
    """Otherwise instructions and tools would not be counted."""
    wire, body = count_body(MODELS["gemini"])
    full = body["generateContentRequest"]

    assert wire.path == "/models/gemini-2.5-flash:countTokens"
    assert set(body) == {"generateContentRequest"}
    assert full == {"model": "models/gemini-2.5-flash", **full_body(MODELS["gemini"])}
    assert {"contents", "systemInstruction", "tools"} <= set(full)


def test_vertex_request_has_only_accepted_fields():
    wire, body = count_body(MODELS["vertex"])

    assert wire.path == "/models/gemini-2.5-flash:countTokens"
    assert set(body) == {"contents", "systemInstruction", "tools", "generationConfig"}


def test_tuned_model_has_its_own_path():
    wire, body = count_body("google/tunedModels/mine:v2")

    assert wire.path == "/tunedModels/mine:v2:countTokens"
    assert body["generateContentRequest"]["model"] == "tunedModels/mine:v2"


@pytest.mark.parametrize("model", ["groq/llama-3.3-70b", "openai-chat/gpt-4o", "mistral/mistral-large-latest"])
def test_chat_dialect_cannot_count_tokens(model):
    with pytest.raises(UnsupportedModel, match="cannot count tokens"):
        count_body(model)


def test_chat_model_is_counted_in_the_provider_dialect():
    """OpenAI's older models: the Responses endpoint accepts them."""
    wire, body = count_body("openai/gpt-4o", tools=())

    assert wire.path == "/responses/input_tokens"
    assert body["model"] == "gpt-4o"
    assert decode(b'{"input_tokens": 9}', catalog.resolve("openai/gpt-4o")) == 9


@pytest.mark.parametrize(
    "model, body, count",
    [
        (MODELS["anthropic"], {"input_tokens": 14}, 14),
        (MODELS["anthropic"], {"input_tokens": 0, "context_management": {"original_input_tokens": 3}}, 0),
        (MODELS["responses"], {"object": "response.input_tokens", "input_tokens": 11}, 11),
        (MODELS["gemini"], {"totalTokens": 31, "promptTokensDetails": []}, 31),
        (MODELS["vertex"], {"totalTokens": 31, "totalBillableCharacters": 96}, 31),
    ],
)
def test_count_is_read(model, body, count):
    assert decode(json.dumps(body).encode(), catalog.resolve(model)) == count


@pytest.mark.parametrize("body", [{}, {"input_tokens": None}, {"input_tokens": "7"}, {"input_tokens": -1}, [], 7])
def test_missing_count_is_an_error(body):
    with pytest.raises(ProtocolError, match="the count cannot be read") as caught:
        decode(json.dumps(body).encode(), catalog.resolve(MODELS["anthropic"]))

    assert caught.value.provider == "anthropic"


def test_error_with_successful_status_is_raised():
    body = b'{"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}'

    with pytest.raises(BadRequest, match="no"):
        decode(body, catalog.resolve(MODELS["anthropic"]))


@given(st.binary(max_size=60))
def test_any_bytes_raise_only_llm_errors(body):
    with pytest.raises(LLMError):
        decode(body, catalog.resolve(MODELS["gemini"]))


def test_claude_on_vertex_has_the_model_in_the_path():
    """As in the official SDK: the model is in the path, the version in the body."""
    target = catalog.resolve("vertex/claude-sonnet-4-5@20250929")
    request = ChatRequest(model="vertex/claude-sonnet-4-5@20250929", messages=(UserMessage("hi"),), stream=True)

    for stream, verb in ((True, "streamRawPredict"), (False, "rawPredict")):
        wire = write_request(msgspec.structs.replace(request, stream=stream), target)
        body = json.loads(wire.body)
        assert f"/models/claude-sonnet-4-5@20250929:{verb}" == wire.path
        assert (None, "vertex-2023-10-16") == (body.get("model"), body["anthropic_version"])
        assert "anthropic-version" not in wire.headers
    count_body = encode(request, target)
    assert "/models/count-tokens:rawPredict" == count_body.path
    assert "claude-sonnet-4-5@20250929" == json.loads(count_body.body)["model"]
