"""`tenuto.encode` and `tenuto.decode`."""

from __future__ import annotations

import json

import pytest

import tenuto
from tenuto.core.blocks import Text
from tenuto.errors import IncompleteResponse, LLMError, TranscriptError
from wire.anthropic.cases import STREAMS, WHOLE

DIALECTS = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")


def make_request(model: str = "m", **fields) -> tenuto.ChatRequest:
    return tenuto.ChatRequest(model=model, messages=tenuto.Transcript() + "Hi", **fields)


def test_decode_accepts_text_and_bytes():
    assert tenuto.decode("anthropic-messages", WHOLE["plain"].decode()) == tenuto.decode(
        "anthropic-messages", WHOLE["plain"]
    )


def test_decode_reports_unknown_provider_name():
    """The defaults of the dialect apply."""
    reply = tenuto.decode("anthropic-messages", STREAMS["text"], provider="my-gateway", stream=True)

    assert (reply.provider, reply.message.origin.provider) == ("my-gateway", "my-gateway")
    with pytest.raises(IncompleteResponse) as caught:
        tenuto.decode("anthropic-messages", b"", provider="my-gateway", stream=True)
    assert caught.value.provider == "my-gateway"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialect_has_default_provider(dialect):
    """The vendor of the dialect."""
    with pytest.raises(LLMError) as caught:
        tenuto.decode(dialect, b"", stream=True)

    assert caught.value.provider


@pytest.mark.parametrize("model, provider, sent", [
    ("anthropic/claude-opus-4-6", None, "claude-opus-4-6"), ("claude-opus-4-6", None, "claude-opus-4-6"),
    ("claude-opus-4-6", "anthropic", "claude-opus-4-6"), ("mine/some/model", "mine", "some/model"),
    ("some/model", "mine", "some/model"),
])  # fmt: skip
def test_encode_removes_provider_from_model(model, provider, sent):
    """Only a provider name is removed; other slashes belong to the model."""
    wire = tenuto.encode("anthropic-messages", make_request(model), provider=provider)

    assert json.loads(wire.body)["model"] == sent


def test_provider_selects_switches():
    """The same request in the chat dialect for two providers."""
    request = make_request("m", seed=7)
    common = json.loads(tenuto.encode("openai-chat", request, provider="nobody").body)
    renamed = json.loads(tenuto.encode("openai-chat", request, provider="mistral").body)

    assert (common["seed"], renamed["random_seed"]) == (7, 7)


def test_unknown_dialect_error_lists_dialects():
    with pytest.raises(ValueError, match="unknown dialect 'anthropic': use one of anthropic-messages"):
        tenuto.decode("anthropic", b"{}")
    with pytest.raises(ValueError, match="unknown dialect"):
        tenuto.encode("openai", make_request())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_value_without_json_form_is_transcript_error(dialect):
    """NaN, or `extra` that is not the text of an object."""
    with pytest.raises(TranscriptError, match="cannot be written as JSON"):
        tenuto.encode(dialect, make_request(extra_body={"x": float("nan")}))
    with pytest.raises(TranscriptError, match=r"cannot be written as JSON: .*type object"):
        tenuto.encode(dialect, make_request(extra_body={"x": object()}))
    odd = tenuto.AssistantMessage((Text("x", extra="no object"),))
    with pytest.raises(TranscriptError, match="cannot be written as JSON"):
        tenuto.encode(dialect, tenuto.ChatRequest(model="m", messages=(odd, tenuto.user("?"))))


def test_generated_ids_are_deterministic():
    """A generated id depends on the bytes."""
    body = json.dumps(
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}, "finishReason": "STOP"}]}
    ).encode()
    one, two = (tenuto.decode("gemini", body).choices[0].tool_calls[0].id for _ in range(2))

    assert one == two
    assert one.startswith("tnt_")
    assert one != tenuto.decode("gemini", body.replace(b'"f"', b'"g"')).choices[0].tool_calls[0].id
