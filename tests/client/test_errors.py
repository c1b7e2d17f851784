"""Errors name the provider, the model and the HTTP status."""

from __future__ import annotations

import copy
import pickle

import pytest

from tenuto import Client
from tenuto.errors import AuthenticationFailed, LLMError, NotFound, Unavailable
from tenuto.middleware import retry
from tenuto.testing import ScriptedResponse, ScriptedTransport


def _refuse(status: int, message: str, model: str = "openai/gpt-5.2", **options: object) -> LLMError:
    transport = ScriptedTransport(ScriptedResponse({"error": {"message": message}}, status))
    with (
        Client(keys={"openai": "sk-test"}, transport=transport, middleware=[], **options) as client,
        pytest.raises(LLMError) as caught,
    ):
        client.chat(model, "x")
    return caught.value


def test_error_names_provider_model_and_status() -> None:
    error = _refuse(503, "overloaded")

    assert isinstance(error, Unavailable)
    assert str(error) == "openai/gpt-5.2: HTTP 503: overloaded"
    assert (error.message, error.model) == ("overloaded", "gpt-5.2")
    assert str(pickle.loads(pickle.dumps(error))) == str(copy.copy(error)) == str(error)


def test_wrong_key_names_provider_and_model() -> None:
    error = _refuse(401, "invalid x-api-key")

    assert isinstance(error, AuthenticationFailed)
    assert str(error).startswith("openai/gpt-5.2: HTTP 401: ")


def test_not_found_names_the_requested_url_without_its_query() -> None:
    providers = {"openai": {"base_url": "http://user:secret@localhost:1/api?token=secret"}}
    error = _refuse(404, "File Not Found", providers=providers)

    assert isinstance(error, NotFound)
    assert error.url.startswith("http://localhost:1/")
    assert str(error) == f"openai/gpt-5.2: HTTP 404: File Not Found (requested: {error.url})"
    assert "secret" not in str(error)


def test_error_without_provider_is_its_message() -> None:
    assert str(LLMError("oops")) == "oops"


def test_retry_is_logged_with_its_target(caplog: pytest.LogCaptureFixture) -> None:
    transport = ScriptedTransport(*(ScriptedResponse({"error": {"message": "busy"}}, 503) for _ in range(2)))
    middleware = [retry(1, base=0)]
    with (
        caplog.at_level("INFO", "tenuto"),
        Client(keys={"openai": "sk-test"}, transport=transport, middleware=middleware) as client,
        pytest.raises(Unavailable),
    ):
        client.chat("openai/gpt-5.2", "x")

    assert "after Unavailable (503) of openai/gpt-5.2" in caplog.text
