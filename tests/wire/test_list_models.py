"""Lists of models: the requests for pages, and the forms of the responses."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenuto import catalog
from tenuto.core.provider import ModelInfo, Provider
from tenuto.errors import AuthenticationFailed, LLMError, ProtocolError, UnsupportedModel
from tenuto.wire.list_models import decode, encode

MINE = Provider("mine", "openai-chat", "http://localhost/v1")


def read(name, body):
    row = catalog.find_provider(name) if catalog.is_known_provider(name) else MINE
    return decode(json.dumps(body).encode(), row)


def without_raw(info):
    return replace(info, raw="")


# --- to the wire ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, page, path",
    [
        ("openai", "", "/models"),
        ("perplexity", "", "/v1/models"),
        ("anthropic", "", "/models?limit=1000"),
        ("anthropic", "claude-1", "/models?limit=1000&after_id=claude-1"),
        ("google", "", "/models?pageSize=1000"),
        ("google", "a b/c=", "/models?pageSize=1000&pageToken=a%20b%2Fc%3D"),
    ],
)
def test_request_names_the_page(name, page, path):
    wire = encode(catalog.find_provider(name), page)

    assert (wire.method, wire.path, wire.body) == ("GET", path, b"")


def test_request_has_the_headers_of_the_provider():
    """Anthropic requires its version here, too; a provider row can have another one."""
    assert encode(catalog.find_provider("anthropic")).headers == {"anthropic-version": "2023-06-01"}
    own = Provider("mine", "anthropic-messages", "http://localhost", headers={"anthropic-version": "2099-01-01"})
    assert encode(own).headers == {"anthropic-version": "2099-01-01"}
    assert encode(replace(own, headers={})).headers == {"anthropic-version": "2023-06-01"}
    assert encode(MINE).headers == {}


@pytest.mark.parametrize("name", ["zai", "minimax", "cohere", "vertex", "github"])
def test_provider_without_list_is_an_error(name):
    with pytest.raises(UnsupportedModel, match="no list of its models"):
        encode(catalog.find_provider(name))


# --- from the wire ----------------------------------------------------------------------------------------------------


def test_common_list_is_read():
    entry = {"id": "gpt-5.2", "object": "model", "created": 1765324800, "owned_by": "openai"}
    (found,), page = read("openai", {"object": "list", "data": [entry]})

    assert without_raw(found) == ModelInfo("gpt-5.2", created="2025-12-10")
    assert json.loads(found.raw) == entry
    assert page == ""


def test_anthropic_list_is_read():
    """The last id is the name of the next page."""
    entry = {
        "type": "model",
        "id": "claude-opus-4-6",
        "display_name": "Claude Opus 4.6",
        "created_at": "2026-02-04T00:00:00Z",
        "max_input_tokens": 200000,
        "max_tokens": 64000,
        "capabilities": {"thinking": {"supported": True}},
    }
    body = {"data": [entry], "has_more": True, "first_id": "claude-opus-4-6", "last_id": "claude-opus-4-6"}
    (found,), page = read("anthropic", body)

    assert without_raw(found) == ModelInfo("claude-opus-4-6", "Claude Opus 4.6", "2026-02-04", 200000, 64000)
    assert "capabilities" in found.raw
    assert page == "claude-opus-4-6"
    assert read("anthropic", body | {"has_more": False})[1] == ""


def test_gemini_list_is_read():
    """An empty page has no list."""
    entry = {
        "name": "models/gemini-3-pro",
        "displayName": "Gemini 3 Pro",
        "inputTokenLimit": 1048576,
        "outputTokenLimit": 65536,
        "supportedGenerationMethods": ["generateContent"],
    }
    (found,), page = read("google", {"models": [entry], "nextPageToken": "next"})

    assert without_raw(found) == ModelInfo("gemini-3-pro", "Gemini 3 Pro", "", 1048576, 65536)
    assert page == "next"
    assert read("google", {}) == ((), "")


@pytest.mark.parametrize(
    "entry, found",
    [
        ({"id": "a", "context_window": 8192, "max_completion_tokens": 4096}, ModelInfo("a", "", "", 8192, 4096)),
        ({"id": "a", "max_model_len": 4096}, ModelInfo("a", context_window=4096)),
        ({"id": "a", "max_context_length": 32768, "name": "a"}, ModelInfo("a", context_window=32768)),
        (
            {"id": "v/a", "name": "Vendor: A", "context_length": 5, "top_provider": {"max_completion_tokens": 3}},
            ModelInfo("v/a", "Vendor: A", "", 5, 3),
        ),
        ({"id": "a", "context_length": 0, "top_provider": None, "created": None}, ModelInfo("a")),
        ({"id": "a", "context_length": "8k", "name": ["a"]}, ModelInfo("a")),
        ({"id": "a", "created": 0}, ModelInfo("a")),
        ({"id": "a", "created_at": "1970-01-01T00:00:00Z"}, ModelInfo("a")),
        ({"id": "a", "created_at": "soon"}, ModelInfo("a")),
        ("a", ModelInfo("a")),
    ],
)
def test_fields_have_several_names(entry, found):
    assert tuple(map(without_raw, read("mine", {"data": [entry]})[0])) == (found,)
    assert tuple(map(without_raw, read("mine", [entry])[0])) == (found,)


def test_empty_list_is_read():
    assert read("ollama", {"object": "list", "data": None}) == ((), "")
    assert read("ollama", {"object": "list", "data": []}) == ((), "")
    assert read("ollama", []) == ((), "")


@pytest.mark.parametrize(
    "body, why",
    [
        ({}, "neither of data and models"),
        ({"data": {}}, "Expected `array`"),
        ({"data": [{"object": "model"}]}, "a model without a name"),
        ({"data": [7]}, "Expected `object`"),
        ({"data": [{"id": 7}]}, "Expected `str`"),
        (None, "Expected `object`"),
    ],
)
def test_malformed_list_is_an_error(body, why):
    with pytest.raises(ProtocolError, match=why) as caught:
        read("openai", body)

    assert (caught.value.provider, json.loads(caught.value.frame)) == ("openai", body)


def test_error_with_successful_status_is_raised():
    with pytest.raises(AuthenticationFailed, match="wrong key"):
        read("openai", {"error": {"message": "wrong key", "code": "invalid_api_key"}})


@given(st.integers(-(10**6), 260_000_000_000) | st.floats(0, 4e9))
def test_created_is_a_day(seconds):
    """From the second day of 1970 to the end of 9999; otherwise empty."""
    (found,), _ = read("openai", {"data": [{"id": "a", "created": seconds}]})

    if 86_400 <= seconds < 253_402_300_800:
        day = dt.date(1970, 1, 1) + dt.timedelta(days=int(seconds) // 86_400)
        assert found.created == day.isoformat()
    else:
        assert found.created == ""


@given(st.binary(max_size=60))
def test_any_bytes_raise_only_llm_errors(body):
    with pytest.raises(LLMError) as caught:
        decode(b"{" + body, MINE)

    assert caught.value.provider == "mine"
