from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import documents, json_values
from tenuto import errors
from tenuto.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextTooLong,
    LLMError,
    NotFound,
    QuotaExceeded,
    RateLimited,
    TimedOut,
    Unavailable,
)
from tenuto.wire.provider_errors import classify_error, extract_message


@pytest.mark.parametrize(
    "raw, message",
    [
        ('{"error":{"message":"half \\ud800 of it"}}', "half \ufffd of it"),
        ('{"error":{"message":"\\ud83d\\ude00"}}', "\U0001f600"),
        ('{"error":"\\udc00"}', "\ufffd"),
        ("half \ud800", "half \ufffd"),
    ],
)
def test_error_message_is_printable(raw, message):
    """Lone surrogates are replaced; `raw` has the original text."""
    error = classify_error(raw, provider="row", status=400)

    assert (
        str(error).encode() == str(classify_error(json.dumps({"error": message}), provider="row", status=400)).encode()
    )
    assert error.raw == raw


def anthropic(type, message="said", **more):
    return {"type": "error", "error": {"type": type, "message": message, **more}, "request_id": "req_1"}


def openai(message="said", type=None, code=None, param=None):
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


def google(code, status, message="said", *details):
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}
BAD_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
PER_DAY = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
}
CASES = [
    # Anthropic
    (400, anthropic("invalid_request_error"), BadRequest),
    (400, anthropic("invalid_request_error", "prompt is too long: 3333404 tokens > 200000 maximum"), ContextTooLong),
    (400, anthropic("invalid_request_error", "Your credit balance is too low"), QuotaExceeded),
    (401, anthropic("authentication_error", "invalid x-api-key"), AuthenticationFailed),
    (402, anthropic("billing_error"), QuotaExceeded),
    (403, anthropic("permission_error"), AuthenticationFailed),
    (404, anthropic("not_found_error", "model: there-is-no-such-model"), NotFound),
    (408, anthropic("timeout_error"), TimedOut),
    (409, anthropic("conflict_error"), Unavailable),
    (412, anthropic("invalid_request_error"), BadRequest),
    (413, anthropic("request_too_large", "Request exceeds the maximum size"), BadRequest),
    (429, anthropic("rate_limit_error"), RateLimited),
    (429, anthropic("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}), QuotaExceeded),
    (429, anthropic("rate_limit_error", details={"error_code": "ramp_limit_exceeded"}), QuotaExceeded),
    (500, anthropic("api_error"), Unavailable),
    (500, anthropic("timeout_error"), TimedOut),
    (500, anthropic("invalid_request_error"), Unavailable),
    (504, anthropic("timeout_error"), TimedOut),
    (529, anthropic("overloaded_error"), Unavailable),
    # OpenAI, both dialects
    (400, openai(type="invalid_request_error", code="context_length_exceeded"), ContextTooLong),
    (400, openai(type="too_many_prompt_tokens", code=400), ContextTooLong),
    (400, openai("Your input exceeds the context window of this model."), ContextTooLong),
    (400, openai("The requested model 'x' does not exist.", "invalid_request_error", "model_not_found"), NotFound),
    (401, openai("Incorrect API key", "invalid_request_error", "invalid_api_key"), AuthenticationFailed),
    (403, openai(type="request_forbidden", code="unsupported_country_region_territory"), AuthenticationFailed),
    (404, openai(type="invalid_request_error", code="model_not_found"), NotFound),
    (429, openai(type="tokens", code="rate_limit_exceeded"), RateLimited),
    (429, openai(type="insufficient_quota", code="insufficient_quota"), QuotaExceeded),
    (429, openai(type="rate_limit_error", code="slow_down"), RateLimited),
    (500, openai(type="server_error"), Unavailable),
    (503, openai(type="service_unavailable_error", code="server_is_overloaded"), Unavailable),
    # similar APIs
    (
        401,
        {"error": {"message": "Unauthorized", "type": "api_error", "param": None, "code": None}},
        AuthenticationFailed,
    ),
    (401, {"error": {"code": "401", "message": "Access denied"}}, AuthenticationFailed),
    (404, {"error": {"code": "DeploymentNotFound", "message": "said"}}, NotFound),
    (429, {"error": {"code": "RateLimitReached", "message": "said", "details": "later"}}, RateLimited),
    (402, {"error": {"message": "Insufficient Balance", "type": "unknown_error"}}, QuotaExceeded),
    (400, {"error": {"message": "insufficient credits", "code": 400}}, QuotaExceeded),
    (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, BadRequest),
    (401, {"detail": "Invalid API Key"}, AuthenticationFailed),
    (400, {"object": "error", "message": "said", "type": "invalid_request_message_order", "code": "3230"}, BadRequest),
    (400, {"code": "invalid-argument", "error": "This model's maximum prompt length is 131072"}, ContextTooLong),
    (400, {"id": "1", "message": "said", "error_type": "TOO_MANY_TOKENS"}, ContextTooLong),
    (429, {"error": {"message": "said", "type": "engine_overloaded_error"}}, RateLimited),
    (400, {"error": {"message": "said", "type": "invalid_request_error", "code": "tool_use_failed"}}, BadRequest),
    # errors that only their text identifies
    (400, {"error": "prompt too long; exceeded max context length by 65590 tokens"}, ContextTooLong),
    (400, openai("request (2009 tokens) exceeds the available context size (512 tokens), try it"), ContextTooLong),
    (400, openai(type="exceed_context_size_error", code=400), ContextTooLong),
    (400, {"message": "Input Tokens Exceeded: Number of input tokens exceeds maximum length."}, ContextTooLong),
    (400, {"code": "invalid-argument", "error": "Incorrect API key provided: xa***45."}, AuthenticationFailed),
    (400, openai("The supported API model names are a or b, but you passed c.", "invalid_request_error"), NotFound),
    (400, {"object": "error", "message": "Invalid model: x", "type": "invalid_model", "code": "1500"}, NotFound),
    (400, {"type": "bad_request", "message": "invalid model: x/y"}, NotFound),
    (400, {"error": {"message": "x/y is not a valid model ID", "code": 400}}, NotFound),
    (400, {"code": "invalid-argument", "error": "Model not found: grok-9"}, NotFound),
    (400, {"message": "The provided model identifier is invalid."}, NotFound),
    (400, {"detail": "Model x is not supported. Supported models are ['y', 'z']."}, NotFound),
    # errors that quote such a text
    (400, openai("Invalid schema: enum value 'Invalid model: x' is not allowed"), BadRequest),
    (400, openai("tools.0.name: 'a is not a valid model ID' does not match the pattern"), BadRequest),
    (400, openai("Tool output 'Incorrect API key provided' cannot be parsed"), BadRequest),
    (400, openai("Unsupported value: 'minimal' is not supported with the 'o4-mini' model."), BadRequest),
    (400, openai("Web search options not supported with this model."), BadRequest),
    # Google
    (400, google(400, "INVALID_ARGUMENT"), BadRequest),
    (400, google(400, "INVALID_ARGUMENT", "API key not valid.", BAD_KEY), AuthenticationFailed),
    (
        400,
        google(400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens"),
        ContextTooLong,
    ),
    (400, google(400, "FAILED_PRECONDITION"), BadRequest),
    (403, google(403, "PERMISSION_DENIED"), AuthenticationFailed),
    (404, google(404, "NOT_FOUND"), NotFound),
    (429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", RETRY_INFO), RateLimited),
    (429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", PER_DAY, RETRY_INFO), QuotaExceeded),
    (500, google(500, "INTERNAL"), Unavailable),
    (503, google(503, "UNAVAILABLE"), Unavailable),
    (504, google(504, "DEADLINE_EXCEEDED"), TimedOut),
    (400, [google(400, "INVALID_ARGUMENT")], BadRequest),
]
IN_STREAM = [
    (anthropic("overloaded_error"), Unavailable, None),
    (anthropic("rate_limit_error"), RateLimited, None),
    (anthropic("invalid_request_error", "prompt is too long: 9 > 8"), ContextTooLong, None),
    ({"type": "error", "code": "server_error", "message": "said", "param": None}, Unavailable, None),
    ({"type": "error", "error": {"type": "insufficient_quota", "code": "insufficient_quota"}}, QuotaExceeded, None),
    (
        {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded", "message": "said"}}},
        RateLimited,
        None,
    ),
    ({"type": "response.failed", "response": {"error": {"code": "invalid_prompt"}}}, BadRequest, None),
    ({"error": {"message": "said", "code": 502, "metadata": {"error_type": "provider_unavailable"}}}, Unavailable, 502),
    ({"error": {"message": "Token limit reached", "code": 400}}, BadRequest, 400),
    ({"error": {"message": "said", "code": "429"}}, RateLimited, 429),
    ({"error": {"message": "said", "code": "tool_use_failed", "status_code": 400}}, BadRequest, 400),
    ({"error": {"message": "said", "metadata": {"error_type": "timeout_error"}}}, TimedOut, None),
    (google(503, "UNAVAILABLE"), Unavailable, 503),
    (google(429, "RESOURCE_EXHAUSTED"), RateLimited, 429),
    ({"error": {"code": "1214", "message": "said"}}, LLMError, None),
    ({"error": "words"}, LLMError, None),
]
RETRYABLE = {RateLimited, Unavailable, TimedOut}


@pytest.mark.parametrize("status,body,kind", CASES)
def test_http_error_has_its_class(status, body, kind):
    error = classify_error(json.dumps(body).encode(), provider="row", status=status)

    assert type(error) is kind
    assert error.retryable == (kind in RETRYABLE)
    assert (error.provider, error.status) == ("row", status)
    assert json.loads(error.raw) == body


@pytest.mark.parametrize("body,kind,status", IN_STREAM)
def test_error_in_stream_has_its_class(body, kind, status):
    """The HTTP status is 200: the codes of the error decide, or the status that it contains."""
    for http_status in (None, 200):
        error = classify_error(json.dumps(body), provider="row", status=http_status)

        assert type(error) is kind
        assert error.status == status
        assert error.retryable == (kind in RETRYABLE or kind is LLMError)


@pytest.mark.parametrize(
    "status,retryable",
    [
        *[(status, False) for status in (400, 401, 403, 404, 422, 418, 431, 451, 499)],
        *[(status, True) for status in (429, 500, 502, 503, 520, 599)],
    ],
)
@pytest.mark.parametrize("body", ["", "<html>Bad gateway</html>", "{}", "[]", "null", '{"error":{"type":"odd"}}'])
def test_retryable_depends_on_status(status, retryable, body):
    assert classify_error(body, provider="row", status=status).retryable == retryable


@pytest.mark.parametrize("code", ["api_error", "overloaded_error", "timeout_error", "rate_limit_error"])
def test_codes_do_not_make_final_status_retryable(code):
    for status in (400, 401, 403, 404, 418, 422, 499):
        assert not classify_error(json.dumps(anthropic(code)), provider="row", status=status).retryable


@pytest.mark.parametrize(
    "body,message",
    [
        ({"error": "words"}, "words"),
        ({"error": {"message": "words", "code": 1}}, "words"),
        ({"error": {"code": 1}}, '{"code":1}'),
        ({"error": {"message": "", "code": 1}}, '{"message":"","code":1}'),
        ({"error": {"message": 5}}, '{"message":5}'),
        ({"error": None, "message": "words"}, "words"),
        ({"error": ["a"]}, '["a"]'),
        ({"message": "words"}, "words"),
        ({"detail": "words"}, "words"),
        ({"detail": [{"msg": "a"}]}, '[{"msg":"a"}]'),
        ({"response": {"error": {"message": "words"}}}, "words"),
        ({"other": 1}, '{"other":1}'),
        ([{"error": {"message": "words"}}], "words"),
        ([], "[]"),
        ("words", "words"),
        (5, "5"),
        (None, "null"),
    ],
)
def test_extract_message(body, message):
    assert extract_message(body) == message


def test_message_of_empty_body_is_the_status():
    assert classify_error(b"", provider="row", status=503).message == "HTTP 503"


def test_message_of_other_body_is_its_text():
    error = classify_error(b"<html>\xff</html>", provider="row", status=502)

    assert error.message == error.raw == "<html>\ufffd</html>"
    assert isinstance(error, Unavailable)


@pytest.mark.parametrize(
    "headers,body,seconds",
    [
        ({"Retry-After": "7"}, {}, 7.0),
        ({"retry-after": "0.5"}, {}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "7"}, {}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, None),
        ({"retry-after": "-1"}, {}, None),
        ({"retry-after": "nan"}, {}, None),
        ({"retry-after": "inf"}, {}, None),
        ({}, google(429, "RESOURCE_EXHAUSTED", "said", BAD_KEY, RETRY_INFO), 34.4),
        ({}, google(429, "RESOURCE_EXHAUSTED", "said", {"retryDelay": "soon"}), None),
        ({"retry-after": "2"}, google(429, "RESOURCE_EXHAUSTED", "said", RETRY_INFO), 2.0),
        (None, {}, None),
    ],
)
def test_retry_after_is_in_seconds(headers, body, seconds):
    assert classify_error(json.dumps(body), provider="row", status=429, headers=headers).retry_after == seconds


@pytest.mark.parametrize(
    "headers,body,id",
    [
        ({"request-id": "req_h"}, anthropic("api_error"), "req_h"),
        ({"X-Request-Id": "req_h"}, {}, "req_h"),
        ({}, anthropic("api_error"), "req_1"),
        ({}, {"request_id": 5}, None),
        ({}, [], None),
    ],
)
def test_request_id_is_read(headers, body, id):
    assert classify_error(json.dumps(body), provider="row", status=500, headers=headers).request_id == id


@pytest.mark.parametrize("value,retryable", [("true", True), ("false", False)])
def test_should_retry_header_takes_precedence(value, retryable):
    for status in (400, 500):
        error = classify_error("{}", provider="row", status=status, headers={"X-Should-Retry": value})

        assert error.retryable is retryable
    assert classify_error("{}", provider="row", status=500, headers={"x-should-retry": "maybe"}).retryable


@given(st.binary(max_size=30) | documents | json_values.map(json.dumps), st.none() | st.integers(100, 599))
def test_any_body_is_classified(body, status):
    error = classify_error(body, provider="row", status=status, headers={"retry-after": "x"})

    assert isinstance(error, LLMError)
    assert error.message


@given(st.dictionaries(st.sampled_from(("error", "message", "detail", "response", "request_id")), json_values))
def test_any_error_object_is_classified(body):
    assert classify_error(json.dumps({**body, "error": {"details": [body], "code": body}}), provider="row").message
    assert classify_error(json.dumps(body), provider="row").message


# --- the tree ---------------------------------------------------------------------------------------------------------


def test_errors_docstring_names_every_error():
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    for kind in classes:
        assert kind.__name__ in errors.__doc__
        assert issubclass(kind, errors.TenutoError)


def test_llm_error_has_fields():
    error = LLMError("said", provider="row", status=500, raw="{}", retryable=True)

    assert (str(error), error.message, error.provider, error.status, error.raw) == (
        "row: HTTP 500: said",
        "said",
        "row",
        500,
        "{}",
    )
    assert error.retryable
    assert (error.request_id, error.retry_after, error.partial) == (None, None, None)
    assert not LLMError("said").retryable


@pytest.mark.parametrize(
    "error,text",
    [
        (errors.UnsupportedModel("m", "no thinking"), "unsupported model 'm': no thinking"),
        (errors.UnknownProvider("opnai", ("one", "two")), "unknown provider 'opnai'; did you mean 'one' or 'two'?"),
        (errors.UnknownProvider("x"), "unknown provider 'x'"),
        (errors.MissingKey("row", ("ROW_KEY",)), "no API key for 'row': set ROW_KEY, or pass keys={'row': ...}"),
        (errors.MissingKey("row"), "no API key for 'row'"),
        (errors.MissingTool("f"), "no tool named 'f'"),
        (errors.LimitReached("turns"), "limit reached: turns"),
        (errors.SchemaMismatch("does not fit", text="x"), "does not fit"),
    ],
)
def test_error_texts(error, text):
    assert str(error) == text
