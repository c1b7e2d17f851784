"""Counting tokens: what the endpoints take is what would go out, and no more."""

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


def asked(model, **more):
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


def counted(model, **more):
    target = catalog.resolve(model)
    wire = encode(asked(model, **more), target)
    return wire, json.loads(wire.body)


def sent(model):
    return json.loads(write_request(asked(model, stream=False), catalog.resolve(model)).body)


def test_anthropic():
    """Without limits and sampling, which the endpoint refuses; all else as it would go out, server tools too."""
    wire, body = counted(MODELS["anthropic"])
    question = sent(MODELS["anthropic"])

    assert (wire.method, wire.path) == ("POST", "/messages/count_tokens")
    assert wire.headers["anthropic-version"] == "2023-06-01"
    assert set(question) - set(body) == {"max_tokens", "temperature", "stop_sequences", "metadata"}
    assert body == {name: question[name] for name in body}
    assert [tool["name"] for tool in body["tools"]] == ["weather", "web_search"]
    assert body["system"] == "Be brief."


def test_thinking_counts():
    """Its mode and the form of the answer are part of what is counted."""
    _, body = counted(MODELS["anthropic"], effort="high", temperature=None)
    _, shaped = counted(
        "anthropic/claude-opus-4-6", response_format=JsonSchema({"type": "object"}), temperature=None, effort="low"
    )

    assert body["thinking"]["type"] == "enabled"
    assert shaped["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}


def test_responses():
    """Without storage, limits and sampling."""
    wire, body = counted(MODELS["responses"], temperature=None)

    assert wire.path == "/responses/input_tokens"
    assert set(body) == {"model", "input", "tools", "tool_choice", "reasoning"}
    assert [item["role"] for item in body["input"]] == ["system", "user"]


def test_gemini():
    """The whole question, so that instructions and tools are counted; it names the model once more."""
    wire, body = counted(MODELS["gemini"])
    question = body["generateContentRequest"]

    assert wire.path == "/models/gemini-2.5-flash:countTokens"
    assert set(body) == {"generateContentRequest"}
    assert question == {"model": "models/gemini-2.5-flash", **sent(MODELS["gemini"])}
    assert {"contents", "systemInstruction", "tools"} <= set(question)


def test_google_cloud():
    """Takes the fields themselves, and not all of them."""
    wire, body = counted(MODELS["vertex"])

    assert wire.path == "/models/gemini-2.5-flash:countTokens"
    assert set(body) == {"contents", "systemInstruction", "tools", "generationConfig"}


def test_a_tuned_model_keeps_its_place():
    """Also with a colon in its name."""
    wire, body = counted("google/tunedModels/mine:v2")

    assert wire.path == "/tunedModels/mine:v2:countTokens"
    assert body["generateContentRequest"]["model"] == "tunedModels/mine:v2"


@pytest.mark.parametrize("model", ["groq/llama-3.3-70b", "openai-chat/gpt-4o", "mistral/mistral-large-latest"])
def test_the_chat_dialect_cannot_count(model):
    """And says so before anything goes out."""
    with pytest.raises(UnsupportedModel, match="cannot count tokens"):
        counted(model)


def test_a_model_that_is_asked_in_chat_is_counted_in_its_rows_dialect():
    """OpenAI's older models: the other endpoint knows them."""
    wire, body = counted("openai/gpt-4o", tools=())

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
def test_the_count_is_read(model, body, count):
    """By the name that each has for it."""
    assert decode(json.dumps(body).encode(), catalog.resolve(model)) == count


@pytest.mark.parametrize("body", [{}, {"input_tokens": None}, {"input_tokens": "7"}, {"input_tokens": -1}, [], 7])
def test_no_count_is_an_error(body):
    """Not a 0."""
    with pytest.raises(ProtocolError, match="the count cannot be read") as caught:
        decode(json.dumps(body).encode(), catalog.resolve(MODELS["anthropic"]))

    assert caught.value.provider == "anthropic"


def test_a_refusal_with_a_good_status():
    """Is the provider's own error."""
    body = b'{"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}'

    with pytest.raises(BadRequest, match="no"):
        decode(body, catalog.resolve(MODELS["anthropic"]))


@given(st.binary(max_size=60))
def test_any_other_bytes_are_one_kind_of_error(body):
    """No exception of a library gets through."""
    with pytest.raises(LLMError):
        decode(body, catalog.resolve(MODELS["gemini"]))


def test_claude_on_vertex_has_its_model_in_the_path():
    """As the vendor's own SDK writes it: the model stands in the path, the version in the body."""
    target = catalog.resolve("vertex/claude-sonnet-4-5@20250929")
    request = ChatRequest(model="vertex/claude-sonnet-4-5@20250929", messages=(UserMessage("hi"),), stream=True)

    for stream, verb in ((True, "streamRawPredict"), (False, "rawPredict")):
        wire = write_request(msgspec.structs.replace(request, stream=stream), target)
        body = json.loads(wire.body)
        assert f"/models/claude-sonnet-4-5@20250929:{verb}" == wire.path
        assert (None, "vertex-2023-10-16") == (body.get("model"), body["anthropic_version"])
        assert "anthropic-version" not in wire.headers
    counted = encode(request, target)
    assert "/models/count-tokens:rawPredict" == counted.path
    assert "claude-sonnet-4-5@20250929" == json.loads(counted.body)["model"]
