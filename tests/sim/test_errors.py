"""Errors have each provider's own form: recorded and documented examples, and something to say for every status."""

from __future__ import annotations

import json

import pytest

from tenuto.sim.errors import ApiError, error_body, error_event, headers, request_id
from tenuto.sim.providers import all_providers, find

STATUSES = (400, 401, 402, 403, 404, 413, 429, 500, 503, 504, 529)
GOOGLE = "type.googleapis.com/google.rpc."


def style(name, dialect="openai-chat"):
    return find(name, dialect)[0]


ANTHROPIC, GEMINI = style("anthropic", "anthropic-messages"), style("gemini", "gemini")


@pytest.mark.parametrize(
    ("who", "problem", "told"),
    [
        (ANTHROPIC, ApiError(status=401, request_id="req_1"), {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}, "request_id": "req_1"}),
        (ANTHROPIC, ApiError(status=529), {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        (ANTHROPIC, ApiError(status=413, request_id="req_1"), {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
        (ANTHROPIC, ApiError(status=429, message="m", code="ramp_limit_exceeded"), {"type": "error", "error": {"type": "rate_limit_error", "message": "m", "details": {"error_code": "ramp_limit_exceeded"}}}),
        (style("openai"), ApiError(status=400, message="m", type="invalid_request_error", param="p"), {"error": {"message": "m", "type": "invalid_request_error", "param": "p", "code": None}}),
        (style("openai"), ApiError(status=404, message="m"), {"error": {"message": "m", "type": "invalid_request_error", "param": None, "code": "model_not_found"}}),
        (style("azure"), ApiError(status=401), {"error": {"code": "401", "message": "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription and use a correct regional API endpoint for your resource."}}),
        (style("azure"), ApiError(status=404, message="m"), {"error": {"type": "invalid_request_error", "code": "DeploymentNotFound", "message": "m"}}),
        (style("azure"), ApiError(status=429, message="m"), {"error": {"code": "RateLimitReached", "message": "m", "details": "m"}}),
        (style("deepseek"), ApiError(status=400, message="m"), {"error": {"message": "m", "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}}),
        (style("deepseek"), ApiError(status=402), {"error": {"message": "Insufficient Balance", "type": "unknown_error", "param": None, "code": "invalid_request_error"}}),
        (style("moonshot"), ApiError(status=400, message="m"), {"error": {"message": "m", "type": "invalid_request_error"}}),
        (style("mistral"), ApiError(status=401), {"detail": "Invalid API Key"}),
        (style("mistral"), ApiError(status=400, message="m", type="invalid_function_call", code="3280"), {"object": "error", "message": "m", "type": "invalid_function_call", "param": None, "code": "3280"}),
        (style("mistral"), ApiError(status=422, message="m", extra={"loc": ["body", "x"], "input": 3}), {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "x"], "msg": "m", "input": 3}]}, "type": "invalid_request_error", "param": None, "code": None}),
        (style("groq"), ApiError(status=400, message="m", code="tool_use_failed", extra={"failed_generation": "g"}), {"error": {"message": "m", "type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": "g"}}),
        (style("groq"), ApiError(status=404, message="m"), {"error": {"message": "m", "type": "invalid_request_error", "code": "model_not_found"}}),
        (style("xai"), ApiError(status=400, message="m"), {"code": "invalid-argument", "error": "m"}),
        (style("openrouter"), ApiError(status=401), {"error": {"message": "Missing Authentication header", "code": 401}}),
        (style("perplexity"), ApiError(status=401), {"error": {"message": "Invalid API key provided. Ensure your API key is correct and active.", "type": "invalid_api_key", "code": 401}}),
        (style("cohere"), ApiError(status=400, message="m", code="TOO_MANY_TOKENS", request_id="r"), {"id": "r", "message": "m", "error_type": "TOO_MANY_TOKENS"}),
        (style("ollama"), ApiError(status=401), {"error": {"message": "Unauthorized", "type": "api_error", "param": None, "code": None}}),
        (style("zai"), ApiError(status=400, message="m", code="1214"), {"error": {"code": "1214", "message": "m"}}),
        (style("alibaba"), ApiError(status=400, message="m", request_id="r"), {"error": {"message": "m", "type": "invalid_request_error", "param": None, "code": "invalid_parameter_error"}, "id": "chatcmpl-r", "request_id": "r"}),
        (style("fireworks"), ApiError(status=400, message="m"), {"error": {"object": "error", "type": "invalid_request_error", "message": "m"}}),
        (style("minimax"), ApiError(status=429, message="m", request_id="r"), {"type": "error", "error": {"type": "rate_limit_error", "message": "m", "http_code": "429"}, "request_id": "r"}),
        (GEMINI, ApiError(status=503), {"error": {"code": 503, "message": "The model is overloaded. Please try again later.", "status": "UNAVAILABLE"}}),
        (GEMINI, ApiError(status=503, message="m", retry_after=34.4), {"error": {"code": 503, "message": "m", "status": "UNAVAILABLE", "details": [{"@type": f"{GOOGLE}RetryInfo", "retryDelay": "34.4s"}]}}),
        (GEMINI, ApiError(status=400, message="m", type="FAILED_PRECONDITION"), {"error": {"code": 400, "message": "m", "status": "FAILED_PRECONDITION"}}),
        (GEMINI, ApiError(status=400, message="m", code="API_KEY_INVALID"), {"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT", "details": [{"@type": f"{GOOGLE}ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com", "metadata": {"service": "generativelanguage.googleapis.com"}}]}}),
        (GEMINI, ApiError(status=400, message="m", param="tools[0]"), {"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT", "details": [{"@type": f"{GOOGLE}BadRequest", "fieldViolations": [{"field": "tools[0]", "description": "m"}]}]}}),
    ],
)  # fmt: skip
def test_a_body_has_the_providers_form(who, problem, told):
    assert error_body(who, problem) == told


def test_a_filtered_prompt_says_what_was_found():
    problem = ApiError(status=400, message="The response was filtered", code="content_filter")
    told = error_body(style("azure"), problem)["error"]

    assert (told["code"], told["type"], told["param"], told["status"]) == ("content_filter", None, "prompt", 400)
    assert told["innererror"]["code"] == "ResponsibleAIPolicyViolation"
    assert told["innererror"]["content_filter_result"]["violence"]["filtered"]


def test_openrouter_passes_on_what_the_host_said():
    metadata = {"raw": '{"error":{}}', "provider_name": "Google"}
    problem = ApiError(status=400, message="Provider returned error", extra={"metadata": metadata})
    told = error_body(style("openrouter"), problem)

    assert told["error"] == {"message": "Provider returned error", "code": 400, "metadata": metadata}
    assert told["user_id"]
    assert error_body(style("openrouter"), ApiError(status=429))["error"]["metadata"]["provider_name"] == "Google"


@pytest.mark.parametrize("status", STATUSES)
def test_there_is_something_to_say_for_every_status(status):
    for who in all_providers():
        said = json.dumps(error_body(who, ApiError(status=status, request_id=request_id(who, "x"))))
        assert len(said) > 20
        assert '""' not in said
        assert len(error_event(who, ApiError(status=status))) > 20


@pytest.mark.parametrize(
    ("who", "problem", "told"),
    [
        (ANTHROPIC, ApiError(status=429, retry_after=2, request_id="r"), {"request-id": "r", "retry-after": "2", "retry-after-ms": "2000", "x-should-retry": "true", "anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-requests-remaining": "0"}),
        (ANTHROPIC, ApiError(status=400, message="This model does not support assistant message prefill."), {"x-should-retry": "false"}),
        (ANTHROPIC, ApiError(status=400, message="Other"), {}),
        (style("openai"), ApiError(status=503, retry_after=0.25, request_id="r"), {"x-request-id": "r", "retry-after": "0.25", "retry-after-ms": "250"}),
        (style("deepseek"), ApiError(status=400, request_id="r"), {"x-ds-trace-id": "r"}),
        (style("groq"), ApiError(status=429, retry_after=1), {"retry-after": "1", "x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "0"}),
        (GEMINI, ApiError(status=429, retry_after=1, request_id="r"), {}),
    ],
)  # fmt: skip
def test_headers_say_who_and_how_long(who, problem, told):
    assert headers(who, problem) == told


@pytest.mark.parametrize(
    ("who", "start"),
    [
        (style("openai"), b'data: {"error":{"message":'),
        (style("groq"), b'event: error\ndata: {"error":{'),
        (style("mistral"), b'data: {"error":{"message":'),
    ],
)
def test_an_error_inside_a_chat_stream_is_one_event(who, start):
    told = error_event(who, ApiError(status=529))

    assert told.startswith(start)
    assert told.endswith(b"}\n\n")
    assert told.count(b"data: ") == 1


def test_google_puts_an_error_of_the_chat_dialect_into_a_list():
    (told,) = error_body(style("vertex"), ApiError(status=404, message="m"))

    assert told == {"error": {"code": 404, "message": "m", "status": "NOT_FOUND"}}
    assert error_event(style("vertex"), ApiError(status=404)).startswith(b'data: {"error":{"code":404')


def test_half_a_character_in_an_error_is_written_as_it_is():
    assert b'"\\ud83d"' in error_event(style("groq"), ApiError(status=400, message="\ud83d"))


def test_ids_of_requests_have_the_providers_form():
    assert request_id(ANTHROPIC, "x").startswith("req_011C")
    assert len(request_id(style("openai"), "x")) == 36
    assert request_id(style("xai"), "x").count("-") == 4
    assert request_id(style("xai"), "x") == request_id(style("xai"), "x") != request_id(style("xai"), "y")
