"""The two plain functions: bytes in, bytes out, and clear words for what cannot be."""

from __future__ import annotations

import json

import pytest

import tenuto
from tenuto.core.blocks import Text
from tenuto.errors import IncompleteResponse, LLMError, TranscriptError
from wire.anthropic.cases import STREAMS, WHOLE

DIALECTS = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")


def asked(model: str = "m", **fields) -> tenuto.ChatRequest:
    return tenuto.ChatRequest(model=model, messages=tenuto.Transcript() + "Hi", **fields)


def test_decode_accepts_text_and_bytes():
    """Whoever holds a decoded body need not encode it first."""
    assert tenuto.decode("anthropic-messages", WHOLE["plain"].decode()) == tenuto.decode(
        "anthropic-messages", WHOLE["plain"]
    )


def test_decode_reports_unknown_provider_name():
    """Its replies belong to it; the dialect's defaults read them."""
    reply = tenuto.decode("anthropic-messages", STREAMS["text"], provider="my-gateway", stream=True)

    assert (reply.provider, reply.message.origin.provider) == ("my-gateway", "my-gateway")
    with pytest.raises(IncompleteResponse) as caught:
        tenuto.decode("anthropic-messages", b"", provider="my-gateway", stream=True)
    assert caught.value.provider == "my-gateway"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialect_has_default_provider(dialect):
    """Without a provider the dialect's own maker is meant."""
    with pytest.raises(LLMError) as caught:
        tenuto.decode(dialect, b"", stream=True)

    assert caught.value.provider


@pytest.mark.parametrize("model, provider, sent", [
    ("anthropic/claude-opus-4-6", None, "claude-opus-4-6"), ("claude-opus-4-6", None, "claude-opus-4-6"),
    ("claude-opus-4-6", "anthropic", "claude-opus-4-6"), ("mine/some/model", "mine", "some/model"),
    ("some/model", "mine", "some/model"),
])  # fmt: skip
def test_encode_removes_provider_from_model(model, provider, sent):
    """The name in front is taken off where it is a provider's; other slashes belong to the model."""
    wire = tenuto.encode("anthropic-messages", asked(model), provider=provider)

    assert json.loads(wire.body)["model"] == sent


def test_provider_selects_switches():
    """One question in the chat dialect, for two rows."""
    question = asked("m", seed=7)
    common = json.loads(tenuto.encode("openai-chat", question, provider="nobody").body)
    renamed = json.loads(tenuto.encode("openai-chat", question, provider="mistral").body)

    assert (common["seed"], renamed["random_seed"]) == (7, 7)


def test_unknown_dialect_error_lists_dialects():
    """A slip of the pen is told at once."""
    with pytest.raises(ValueError, match="unknown dialect 'anthropic': use one of anthropic-messages"):
        tenuto.decode("anthropic", b"{}")
    with pytest.raises(ValueError, match="unknown dialect"):
        tenuto.encode("openai", asked())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_value_without_json_form_is_transcript_error(dialect):
    """Not a number, or fields that were made by hand and are no object: nothing goes out."""
    with pytest.raises(TranscriptError, match="cannot be written as JSON"):
        tenuto.encode(dialect, asked(extra_body={"x": float("nan")}))
    with pytest.raises(TranscriptError, match=r"cannot be written as JSON: .*type object"):
        tenuto.encode(dialect, asked(extra_body={"x": object()}))
    odd = tenuto.AssistantMessage((Text("x", extra="no object"),))
    with pytest.raises(TranscriptError, match="cannot be written as JSON"):
        tenuto.encode(dialect, tenuto.ChatRequest(model="m", messages=(odd, tenuto.user("?"))))


def test_generated_ids_are_deterministic():
    """An id that was not received is made from what was."""
    body = json.dumps(
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}, "finishReason": "STOP"}]}
    ).encode()
    one, two = (tenuto.decode("gemini", body).choices[0].tool_calls[0].id for _ in range(2))

    assert one == two
    assert one.startswith("tnt_")
    assert one != tenuto.decode("gemini", body.replace(b'"f"', b'"g"')).choices[0].tool_calls[0].id
