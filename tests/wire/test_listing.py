"""Lists of models: the pages that are asked for, and the shapes that come."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from hypothesis import example, given
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


def told(info):
    """What is known of a model, without its raw entry."""
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
def test_a_page_is_asked_for(name, page, path):
    """As many to a page as the provider gives; what names the next page is quoted."""
    wire = encode(catalog.find_provider(name), page)

    assert (wire.method, wire.path, wire.body) == ("GET", path, b"")


def test_headers_of_the_row_go_along():
    """Anthropic's version is wanted here too, also of a row of one's own."""
    assert encode(catalog.find_provider("anthropic")).headers == {"anthropic-version": "2023-06-01"}
    own = Provider("mine", "anthropic-messages", "http://localhost", headers={"anthropic-version": "2099-01-01"})
    assert encode(own).headers == {"anthropic-version": "2099-01-01"}
    assert encode(replace(own, headers={})).headers == {"anthropic-version": "2023-06-01"}
    assert encode(MINE).headers == {}


@pytest.mark.parametrize("name", ["zai", "minimax", "cohere", "vertex", "github"])
def test_where_there_is_no_list_one_is_told(name):
    """Before anything goes out."""
    with pytest.raises(UnsupportedModel, match="no list of its models"):
        encode(catalog.find_provider(name))


# --- from the wire ----------------------------------------------------------------------------------------------------


def test_the_common_shape():
    """An id and a time are all that most say."""
    entry = {"id": "gpt-5.2", "object": "model", "created": 1765324800, "owned_by": "openai"}
    (found,), page = read("openai", {"object": "list", "data": [entry]})

    assert told(found) == ModelInfo("gpt-5.2", created="2025-12-10")
    assert json.loads(found.raw) == entry
    assert page == ""


def test_anthropic():
    """Names, days and sizes; the last id names the next page."""
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

    assert told(found) == ModelInfo("claude-opus-4-6", "Claude Opus 4.6", "2026-02-04", 200000, 64000)
    assert "capabilities" in found.raw
    assert page == "claude-opus-4-6"
    assert read("anthropic", body | {"has_more": False})[1] == ""


def test_gemini():
    """Names stand below `models/`; an empty page has no list at all."""
    entry = {
        "name": "models/gemini-3-pro",
        "displayName": "Gemini 3 Pro",
        "inputTokenLimit": 1048576,
        "outputTokenLimit": 65536,
        "supportedGenerationMethods": ["generateContent"],
    }
    (found,), page = read("google", {"models": [entry], "nextPageToken": "next"})

    assert told(found) == ModelInfo("gemini-3-pro", "Gemini 3 Pro", "", 1048576, 65536)
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
def test_hosts_have_many_words(entry, found):
    """What is said is read; what nobody said, or what says nothing, is unknown."""
    assert tuple(map(told, read("mine", {"data": [entry]})[0])) == (found,)
    assert tuple(map(told, read("mine", [entry])[0])) == (found,)


def test_no_models_are_no_models():
    """One's own server may have none yet, and says null."""
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
def test_a_list_that_cannot_be_read(body, why):
    """Is an error that holds it."""
    with pytest.raises(ProtocolError, match=why) as caught:
        read("openai", body)

    assert (caught.value.provider, json.loads(caught.value.frame)) == ("openai", body)


def test_a_refusal_with_a_good_status():
    """Is the provider's own error."""
    with pytest.raises(AuthenticationFailed, match="wrong key"):
        read("openai", {"error": {"message": "wrong key", "code": "invalid_api_key"}})


@given(st.integers(-(10**6), 260_000_000_000) | st.floats(0, 4e9))
def test_days(seconds):
    """As the calendar has them, from the second day of 1970 to the end of 9999; else nothing."""
    (found,), _ = read("openai", {"data": [{"id": "a", "created": seconds}]})

    if 86_400 <= seconds < 253_402_300_800:
        day = dt.date(1970, 1, 1) + dt.timedelta(days=int(seconds) // 86_400)
        assert found.created == day.isoformat()
    else:
        assert found.created == ""


@example(dt.date(2000, 2, 29))
@example(dt.date(2000, 3, 1))
@example(dt.date(2100, 2, 28))
@example(dt.date(2100, 3, 1))
@example(dt.date(2400, 12, 31))
@given(st.dates(dt.date(1970, 1, 2)))
def test_every_day(day):
    """Leap years and centuries too."""
    seconds = (day - dt.date(1970, 1, 1)).days * 86_400
    (found,), _ = read("openai", {"data": [{"id": "a", "created": seconds}]})

    assert found.created == day.isoformat()


@given(st.binary(max_size=60))
def test_any_other_bytes_are_one_kind_of_error(body):
    """No exception of a library gets through."""
    with pytest.raises(LLMError) as caught:
        decode(b"{" + body, MINE)

    assert caught.value.provider == "mine"
