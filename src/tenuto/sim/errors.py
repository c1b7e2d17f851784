"""Errors in the form of each provider: body, headers, and event in a stream."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from tenuto.core import jsonio
from tenuto.sim.providers import SimulatedProvider

EXTRA_FIELDS = ("details", "raw", "loc", "input")
"""Values of a violation that an error body repeats."""
_INVALID = "invalid_request_error"
_ALGO = "<500> InternalError.Algo: An error occurred in model serving, error message is: [Internal server error!]"


class DefaultError(NamedTuple):
    """Type, code and message of an error without a message of its own. For OpenRouter: the upstream's name and message."""

    type: str
    code: str
    message: str


class ApiError(msgspec.Struct, frozen=True, kw_only=True):
    """An error for the client. Empty fields get the provider's default for the status."""

    status: int
    message: str = ""
    type: str = ""
    param: str | None = None
    code: str | None = None
    retry_after: float | None = None
    details: list[dict[str, Any]] = []
    """Further details of a Google error."""
    request_id: str = ""
    """The id for the body and the headers; empty: none."""
    extra: dict[str, Any] = {}
    """Fields that only this error has, such as `failed_generation`, `metadata`, `loc`."""


def _dashed_id(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


class ErrorForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form of a provider's errors."""

    body: Callable[[ApiError, DefaultError], dict[str, Any]]
    """Write the body of an error with message, type and code filled in."""
    stream_event: Callable[[ApiError, DefaultError], bytes] | None = None
    """Write the error in a stream of the chat dialect; None: its body as one event without a name."""
    request_id: Callable[[str], str] = _dashed_id
    """Make a request id from 32 hexadecimal digits."""
    id_header: str = "x-request-id"
    """The header with the request id; empty: none."""
    retry_headers: tuple[str, ...] = ("retry-after",)
    rate_limit_headers: dict[str, str] = {}
    bad_key: ApiError = ApiError(status=401)


def form_of(provider: SimulatedProvider) -> ErrorForm:
    return _FORMS[provider.error_form]


def request_id(provider: SimulatedProvider, seed: str) -> str:
    return form_of(provider).request_id(hashlib.blake2b(seed.encode(), digest_size=16).hexdigest())


def error_body(provider: SimulatedProvider, error: ApiError) -> Any:
    """Return the body of an error: an object, or a list with one object."""
    body = form_of(provider).body(*_filled(provider, error))
    return [body] if provider.error_list else body


def error_event(provider: SimulatedProvider, error: ApiError) -> bytes:
    """Return the error as an event in a stream of the chat dialect."""
    form = form_of(provider)
    if form.stream_event is not None:
        return form.stream_event(*_filled(provider, error))
    return b"data: " + jsonio.encode(form.body(*_filled(provider, error))) + b"\n\n"


def headers(provider: SimulatedProvider, error: ApiError) -> dict[str, str]:
    """Return the headers of an error: the request id, the time to wait, the rate limits."""
    form = form_of(provider)
    result: dict[str, str] = {}
    if form.id_header and error.request_id:
        result[form.id_header] = error.request_id
    if error.retry_after is not None:
        delays = {"retry-after": f"{error.retry_after:g}", "retry-after-ms": f"{round(error.retry_after * 1000)}"}
        result |= {name: delays[name] for name in form.retry_headers}
    if error.status == 429:
        result |= form.rate_limit_headers
    if provider.error_form == "anthropic" and error.status in (429, 529):
        result["x-should-retry"] = "true"
    elif provider.error_form == "anthropic" and error.status == 400 and "prefill" in error.message:
        result["x-should-retry"] = "false"
    return result


def _filled(provider: SimulatedProvider, error: ApiError) -> tuple[ApiError, DefaultError]:
    """Return the error with the default message, type and code of its status, and the default."""
    own, common = DEFAULT_ERRORS.get(provider.error_form, {}), DEFAULT_ERRORS["openai"]
    near = 400 if error.status < 500 else 503 if error.status > 503 else 500
    default = own.get(error.status) or own.get(near) or common.get(error.status) or common[near]
    if error.message and error.status == 400:
        default = default._replace(code=default.code if provider.error_form in _CODES_WITH_MESSAGE else "")
    message, type, code = (
        error.message or default.message,
        error.type or default.type,
        error.code or default.code or None,
    )
    return msgspec.structs.replace(error, message=message, type=type, code=code), default


def _fields(*names: str, **fixed: str) -> Callable[[ApiError, DefaultError], dict[str, Any]]:
    """Return a body: an object `error` with these fields; those with a `?` are left out if they are empty."""

    def body(error: ApiError, default: DefaultError) -> dict[str, Any]:
        values = {"message": error.message, "type": error.type, "param": error.param, "code": error.code}
        fields = {
            name.rstrip("?"): values[name.rstrip("?")] for name in names if values[name.rstrip("?")] or "?" not in name
        }
        return {"error": {**fixed, **fields, **error.extra}}

    return body


def _openai(error: ApiError, default: DefaultError) -> dict[str, Any]:
    fields = {"message": error.message, "type": error.type or None, "param": error.param, "code": error.code}
    return {"error": {**fields, **error.extra}}


def _anthropic(error: ApiError, default: DefaultError) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": error.type, "message": error.message}
    if error.code:
        fields["details"] = {"error_code": error.code}
    body: dict[str, Any] = {"type": "error", "error": {**fields, **error.extra}}
    if error.request_id and error.status != 413:  # the proxy in front refuses large bodies, before there is an id
        body["request_id"] = error.request_id
    return body


def _azure(error: ApiError, default: DefaultError) -> dict[str, Any]:
    code = error.code
    if code == "content_filter":
        inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": _FILTERED}
        fields = {"message": error.message, "type": None, "param": "prompt", "code": code, "status": 400}
        return {"error": {**fields, "innererror": inner}}
    if error.status == 429:
        return {"error": {"code": code, "message": error.message, "details": error.message}}
    if error.status == 404 and code == default.code:
        return {"error": {"type": default.type, "code": code, "message": error.message}}
    if error.status in (401, 403):
        return {"error": {"code": code, "message": error.message}}
    return _openai(error, default)


_groq = _fields("message", "type", "code?")


def _groq_event(error: ApiError, default: DefaultError) -> bytes:
    body = _groq(error, default)
    body["error"]["status_code"] = error.status
    return b"event: error\ndata: " + jsonio.encode(body) + b"\n\n"


def _common_event(error: ApiError, default: DefaultError) -> bytes:
    """Write the form of OpenAI, whatever the form of the body."""
    body = {"error": {"message": error.message, "type": error.type or error.code or "", "code": error.code or ""}}
    return b"data: " + jsonio.encode(body) + b"\n\n"


def _mistral(error: ApiError, default: DefaultError) -> dict[str, Any]:
    if error.status == 401:
        return {"detail": error.message}
    body: dict[str, Any] = {"object": "error", "message": error.message, "type": error.type, "param": error.param}
    if error.status == 422:
        loc = error.extra.get("loc") or ["body", *(error.param or "messages").split(".")]
        kind, input = error.code or "extra_forbidden", error.extra.get("input")
        detail = {"type": kind, "loc": loc, "msg": error.message, "input": input}
        return {**body, "message": {"detail": [detail]}, "type": _INVALID, "param": None, "code": None}
    return {**body, "code": error.code}


def _openrouter(error: ApiError, default: DefaultError) -> dict[str, Any]:
    """The upstream's error is in `metadata`."""
    metadata = error.extra.get("metadata")
    if "raw" in error.extra:
        upstream = {"message": error.extra["raw"], "type": _INVALID, "param": None, "code": None}
        metadata = {"raw": jsonio.encode({"error": upstream}).decode(), "provider_name": "Upstream"}
    if metadata is None and error.status in (429, 503) and error.message == default.message:
        metadata = {"raw": default.code, "provider_name": default.type}
    fields: dict[str, Any] = {"message": error.message, "code": error.status}
    if metadata is None:
        return {"error": fields}
    return {"error": {**fields, "metadata": metadata}, "user_id": "user_2simulated0000000000000000"}


def _cohere(error: ApiError, default: DefaultError) -> dict[str, Any]:
    body = {"id": error.request_id or "00000000-0000-4000-a000-000000000000", "message": error.message}
    return {**body, "error_type": error.code} if error.code else body


def _alibaba(error: ApiError, default: DefaultError) -> dict[str, Any]:
    id = error.request_id or "00000000-0000-9000-a000-000000000000"
    return {**_openai(error, default), "id": f"chatcmpl-{id}", "request_id": id}


def _minimax(error: ApiError, default: DefaultError) -> dict[str, Any]:
    fields = {"type": default.type, "message": error.message, "http_code": str(error.status)}
    return {"type": "error", "error": fields, "request_id": error.request_id}


def _google(error: ApiError, default: DefaultError) -> dict[str, Any]:
    details = list(error.details)
    if error.param and not details:
        violation = {"field": error.param, "description": error.message}
        details.append({"@type": f"{_GOOGLE}BadRequest", "fieldViolations": [violation]})
    if error.code and error.code.isupper():
        info = {"reason": error.code, "domain": "googleapis.com"}
        service = {"service": "generativelanguage.googleapis.com"}
        details.append({"@type": f"{_GOOGLE}ErrorInfo", **info, "metadata": service})
    if error.retry_after is not None:
        if error.status == 429:
            quota = {"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}
            details.append({"@type": f"{_GOOGLE}QuotaFailure", "violations": [quota]})
        details.append({"@type": f"{_GOOGLE}RetryInfo", "retryDelay": f"{error.retry_after:g}s"})
    status = error.type if error.type.isupper() else default.type
    fields: dict[str, Any] = {"code": error.status, "message": error.message, "status": status}
    return {"error": {**fields, "details": details} if details else fields}


_GOOGLE = "type.googleapis.com/google.rpc."
_SAFE = {"filtered": False, "severity": "safe"}
_FILTERED = {
    **dict.fromkeys(("hate", "self_harm", "sexual"), _SAFE),
    "jailbreak": {"detected": False, "filtered": False},
    "violence": {"filtered": True, "severity": "high"},
}
_CODES_WITH_MESSAGE = ("azure", "deepseek", "mistral", "xai", "zai", "alibaba")
"""The forms whose errors have the default code even if a rule gives the message of a 400."""
_SPENT = {"x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "0"}
_MILLISECONDS = ("retry-after", "retry-after-ms")
_FORMS: dict[str, ErrorForm] = {
    "anthropic": ErrorForm(
        body=_anthropic, request_id=lambda digits: f"req_011C{digits[:20]}", id_header="request-id",
        retry_headers=_MILLISECONDS,
        rate_limit_headers={"anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-requests-remaining": "0"},
    ),
    "openai": ErrorForm(
        body=_openai, request_id=lambda digits: f"req_{digits}", retry_headers=_MILLISECONDS, rate_limit_headers=_SPENT,
    ),
    "azure": ErrorForm(
        body=_azure, id_header="apim-request-id", retry_headers=_MILLISECONDS, rate_limit_headers=_SPENT,
    ),
    "deepseek": ErrorForm(body=_openai, request_id=lambda digits: digits, id_header="x-ds-trace-id"),
    "moonshot": ErrorForm(body=_fields("message", "type")),
    "mistral": ErrorForm(
        body=_mistral, stream_event=_common_event, request_id=lambda digits: digits, id_header="mistral-correlation-id",
    ),
    "groq": ErrorForm(
        body=_groq, stream_event=_groq_event, request_id=lambda digits: f"req_01{digits[:24]}",
        rate_limit_headers=_SPENT,
    ),
    "xai": ErrorForm(
        body=lambda error, _: {"code": error.code or "", "error": error.message}, stream_event=_common_event,
    ),
    "openrouter": ErrorForm(body=_openrouter),
    "perplexity": ErrorForm(
        body=lambda error, _: {"error": {"message": error.message, "type": error.type, "code": error.status}}, id_header="",
    ),
    "cohere": ErrorForm(body=_cohere, stream_event=_common_event),
    "ollama": ErrorForm(body=_openai, id_header=""),
    "zai": ErrorForm(body=lambda error, _: {"error": {"code": error.code or "", "message": error.message}}),
    "alibaba": ErrorForm(body=_alibaba),
    "minimax": ErrorForm(body=_minimax),
    "fireworks": ErrorForm(body=_fields("type", "code?", "message", object="error")),
    "google": ErrorForm(
        body=_google, id_header="", retry_headers=(),
        bad_key=ApiError(status=400, message="API key not valid. Please pass a valid API key.", code="API_KEY_INVALID"),
    ),
}  # fmt: skip

DEFAULT_ERRORS: dict[str, dict[int, DefaultError]] = {
    "anthropic": {
        400: DefaultError(_INVALID, "", "Error"),
        401: DefaultError("authentication_error", "", "invalid x-api-key"),
        402: DefaultError("billing_error", "", "Your credit balance is too low to access the Anthropic API."),
        403: DefaultError("permission_error", "", "Your API key does not have permission to use the specified resource."),
        404: DefaultError("not_found_error", "", "Not found"),
        409: DefaultError("conflict_error", "", "Conflict"),
        413: DefaultError("request_too_large", "", "Request exceeds the maximum size"),
        429: DefaultError("rate_limit_error", "", "This request would exceed your organization's rate limit of 50 requests per minute."),
        500: DefaultError("api_error", "", "Internal server error"),
        503: DefaultError("api_error", "", "Service temporarily unavailable"),
        504: DefaultError("timeout_error", "", "Request timed out"),
        529: DefaultError("overloaded_error", "", "Overloaded"),
    },
    "openai": {
        400: DefaultError(_INVALID, "", "Invalid request."),
        401: DefaultError(_INVALID, "invalid_api_key", "Incorrect API key provided: sim-****-key. You can find your API key at https://platform.openai.com/account/api-keys."),
        402: DefaultError("insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
        403: DefaultError("request_forbidden", "unsupported_country_region_territory", "Country, region, or territory not supported"),
        404: DefaultError(_INVALID, "model_not_found", "The model does not exist or you do not have access to it."),
        409: DefaultError("conflict_error", "", "Conflict"),
        413: DefaultError(_INVALID, "", "Request body too large"),
        429: DefaultError("requests", "rate_limit_exceeded", "Rate limit reached in organization org-sim on requests per min (RPM): Limit 500, Used 500, Requested 1. Please try again in 120ms."),
        500: DefaultError("server_error", "", "The server had an error while processing your request. Sorry about that!"),
        502: DefaultError("server_error", "", "Bad gateway"),
        503: DefaultError("service_unavailable_error", "server_is_overloaded", "Our servers are currently overloaded. Please try again later."),
        504: DefaultError("server_error", "", "The request timed out."),
        529: DefaultError("service_unavailable_error", "server_is_overloaded", "Overloaded"),
    },
    "azure": {
        401: DefaultError("", "401", "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription and use a correct regional API endpoint for your resource."),
        403: DefaultError("", "403", "Access denied due to Virtual Network/Firewall rules."),
        404: DefaultError(_INVALID, "DeploymentNotFound", "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again."),
        429: DefaultError("", "RateLimitReached", "Your requests in westeurope have exceeded rate limit."),
    },
    "deepseek": {
        400: DefaultError(_INVALID, _INVALID, "Invalid request."),
        401: DefaultError("authentication_error", _INVALID, "Authentication Fails, Your api key: ****-key is invalid"),
        402: DefaultError("unknown_error", _INVALID, "Insufficient Balance"),
        404: DefaultError(_INVALID, _INVALID, "Not Found"),
        422: DefaultError(_INVALID, _INVALID, "Invalid Parameters"),
        429: DefaultError("rate_limit_error", "rate_limit_error", "Rate Limit Reached"),
        500: DefaultError("server_error", "internal_error", "Server Error"),
        503: DefaultError("service_unavailable_error", "service_unavailable_error", "Service is too busy. Please try again later."),
    },
    "moonshot": {
        400: DefaultError(_INVALID, "", "Invalid request"),
        401: DefaultError("invalid_authentication_error", "", "Invalid Authentication"),
        402: DefaultError("exceeded_current_quota_error", "", "Your account is suspended, please check your plan and billing"),
        403: DefaultError("permission_denied_error", "", "The API you are accessing is not open"),
        404: DefaultError("resource_not_found_error", "", "Not found the model or Permission denied"),
        429: DefaultError("rate_limit_reached_error", "", "Your account request reached organization max RPM, please try again"),
        500: DefaultError("server_error", "", "Server error"),
        503: DefaultError("engine_overloaded_error", "", "The engine is currently overloaded, please try again later"),
    },
    "mistral": {
        400: DefaultError(_INVALID, "3051", "Invalid request."),
        401: DefaultError("", "", "Invalid API Key"),
        402: DefaultError("invalid_request_payment", "1901", "Payment required"),
        403: DefaultError("forbidden", "1910", "Forbidden"),
        404: DefaultError("invalid_model", "1500", "Invalid model"),
        422: DefaultError("invalid_request_error", "", "Extra inputs are not permitted"),
        429: DefaultError("rate_limited", "1300", "Rate limit exceeded"),
        500: DefaultError("internal_server_error", "1000", "Internal server error"),
        503: DefaultError("service_unavailable", "3505", "Service unavailable."),
        529: DefaultError("service_tier_capacity_exceeded", "3505", "Service tier capacity exceeded for this model."),
    },
    "groq": {
        400: DefaultError(_INVALID, "", "Invalid request."),
        401: DefaultError(_INVALID, "invalid_api_key", "Invalid API Key"),
        404: DefaultError(_INVALID, "model_not_found", "The model does not exist or you do not have access to it."),
        413: DefaultError(_INVALID, "request_too_large", "Request Entity Too Large"),
        429: DefaultError("requests", "rate_limit_exceeded", "Rate limit reached in organization `org_sim` service tier `on_demand` on requests per minute (RPM): Limit 30, Used 30, Requested 1. Please try again in 2s."),
        500: DefaultError("internal_server_error", "", "Internal Server Error"),
        503: DefaultError("internal_server_error", "", "Service Unavailable"),
    },
    "xai": {
        400: DefaultError("", "invalid-argument", "Invalid request."),
        401: DefaultError("", "unauthenticated:bad-credentials", "Incorrect API key provided. Get one at https://console.x.ai."),
        402: DefaultError("", "resource-exhausted", "Your team has run out of credits."),
        403: DefaultError("", "permission-denied", "The caller does not have permission to execute the specified operation"),
        404: DefaultError("", "not-found", "Some requested entity was not found"),
        413: DefaultError("", "invalid-argument", "Request body too large"),
        429: DefaultError("", "resource-exhausted", "Too many requests. Please try again later."),
        500: DefaultError("", "internal", "Internal error"),
        503: DefaultError("", "unavailable", "Service temporarily unavailable. The model is at capacity."),
        504: DefaultError("", "deadline-exceeded", "The deadline expired before the operation could complete"),
    },
    "openrouter": {
        400: DefaultError("", "", "Invalid request."),
        401: DefaultError("", "", "Missing Authentication header"),
        402: DefaultError("", "", "Insufficient credits. Add more using https://openrouter.ai/settings/credits"),
        403: DefaultError("", "", "Your chosen model requires moderation and your input was flagged"),
        404: DefaultError("", "", "No endpoints found."),
        413: DefaultError("", "", "Request entity too large"),
        429: DefaultError("Google", "The model is temporarily rate-limited upstream. Please retry shortly, or add your own key to accumulate your rate limits: https://openrouter.ai/settings/integrations", "Provider returned error"),
        500: DefaultError("", "", "Internal Server Error"),
        502: DefaultError("", "", "Provider returned error"),
        503: DefaultError("Google", "The model is overloaded.", "Provider returned error"),
        504: DefaultError("", "", "The operation was aborted"),
        529: DefaultError("", "", "Provider returned error"),
    },
    "perplexity": {
        400: DefaultError("bad_request", "", "Bad request"),
        401: DefaultError("invalid_api_key", "", "Invalid API key provided. Ensure your API key is correct and active."),
        402: DefaultError("insufficient_quota", "", "You have insufficient credits."),
        404: DefaultError("not_found", "", "Not found"),
        429: DefaultError("request_rate_limit_exceeded", "", "Request rate limit exceeded, please try again later."),
        500: DefaultError("internal_server_error", "", "Internal server error"),
        503: DefaultError("service_unavailable", "", "Service unavailable"),
    },
    "cohere": {
        400: DefaultError("", "", "invalid request"),
        401: DefaultError("", "", "Incorrect API key provided. You can find your API key at https://dashboard.cohere.com/api-keys."),
        402: DefaultError("", "", "payment required"),
        403: DefaultError("", "", "forbidden"),
        404: DefaultError("", "", "model not found, make sure the correct model ID was used and that you have access to the model."),
        413: DefaultError("", "", "request body too large"),
        429: DefaultError("", "", "You are past the per minute request limit, please wait and try again later."),
        500: DefaultError("", "", "internal server error"),
        503: DefaultError("", "", "service unavailable"),
        504: DefaultError("", "", "request timed out"),
    },
    "ollama": {
        400: DefaultError(_INVALID, "", "invalid request"),
        401: DefaultError("api_error", "", "Unauthorized"),
        403: DefaultError("api_error", "", "Forbidden"),
        404: DefaultError("not_found_error", "", "model not found"),
        413: DefaultError("api_error", "", "request body too large"),
        429: DefaultError("api_error", "", "too many concurrent requests"),
        500: DefaultError("api_error", "", "an error was encountered while running the model"),
        503: DefaultError("api_error", "", "server busy, please try again. maximum pending requests exceeded"),
        504: DefaultError("api_error", "", "timed out waiting for the model to load"),
    },
    "zai": {
        400: DefaultError("", "1210", "API Call Parameter Error, please check the documentation."),
        401: DefaultError("", "1001", "Header Authorization Not Received, Unable to Verify Identity."),
        402: DefaultError("", "1113", "Insufficient balance or no resource package. Please recharge."),
        403: DefaultError("", "1220", "You do not have permission to access this model."),
        404: DefaultError("", "1211", "Unknown Model, please check the model code."),
        413: DefaultError("", "1261", "Prompt exceeds max length"),
        429: DefaultError("", "1302", "High concurrency usage of this API, please reduce concurrency or contact customer service."),
        500: DefaultError("", "500", "Internal Error"),
        503: DefaultError("", "1305", "The service is temporarily overloaded, please try again later."),
        504: DefaultError("", "1234", "Network error, please try again later."),
    },
    "alibaba": {
        400: DefaultError(_INVALID, "invalid_parameter_error", "<400> InternalError.Algo.InvalidParameter: Invalid request."),
        401: DefaultError(_INVALID, "invalid_api_key", "Incorrect API key provided."),
        402: DefaultError("Arrearage", "Arrearage", "Access denied, please make sure your account is in good standing."),
        403: DefaultError("access_denied", "access_denied", "Access denied."),
        404: DefaultError(_INVALID, "model_not_found", "The model does not exist or you do not have access to it."),
        413: DefaultError(_INVALID, "invalid_parameter_error", "<413> InternalError.Algo.InvalidParameter: Request too large."),
        429: DefaultError("limit_requests", "limit_requests", "You exceeded your current requests list."),
        500: DefaultError("internal_error", "internal_error", _ALGO),
        503: DefaultError("service_unavailable", "service_unavailable", "Too many requests in route. Please try again later."),
        504: DefaultError("request_timeout", "request_timeout", "Request timed out, please try again later."),
    },
    "minimax": {
        400: DefaultError("bad_request_error", "", "invalid params (2013)"),
        401: DefaultError("authorized_error", "", "login fail: Please carry the API secret key in the header (1004)"),
        402: DefaultError("insufficient_balance_error", "", "insufficient balance (1008)"),
        403: DefaultError("permission_error", "", "no permission (2061)"),
        404: DefaultError("not_found_error", "", "unknown model (2013)"),
        413: DefaultError("bad_request_error", "", "request body too large (2013)"),
        429: DefaultError("rate_limit_error", "", "rate limit exceeded(RPM) (1002)"),
        500: DefaultError("server_error", "", "unknown error (1000)"),
        503: DefaultError("overloaded_error", "", "The server cluster is currently under high load (2064)"),
        504: DefaultError("server_error", "", "timeout (1001)"),
    },
    "fireworks": {
        401: DefaultError("error", "UNAUTHORIZED", "The API key you provided is invalid."),
        402: DefaultError("error", "PAYMENT_REQUIRED", "Account suspended: reached spending limit."),
        403: DefaultError("error", "FORBIDDEN", "unauthorized"),
        404: DefaultError("error", "NOT_FOUND", "Model not found, inaccessible, and/or not deployed"),
        413: DefaultError(_INVALID, "", "Request body too large"),
        429: DefaultError("error", "RATE_LIMIT_EXCEEDED", "Request didn't generate first token before the given deadline"),
        500: DefaultError("internal_server_error", "", "server had an error while processing your request, please retry"),
        503: DefaultError("error", "SERVICE_UNAVAILABLE", "Service is temporarily overloaded, please try again later"),
        504: DefaultError("error", "DEADLINE_EXCEEDED", "The request timed out"),
    },
    "google": {
        400: DefaultError("INVALID_ARGUMENT", "", "Request contains an invalid argument."),
        401: DefaultError("UNAUTHENTICATED", "", "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential."),
        402: DefaultError("FAILED_PRECONDITION", "", "Billing is not enabled for this project."),
        403: DefaultError("PERMISSION_DENIED", "", "The caller does not have permission"),
        404: DefaultError("NOT_FOUND", "", "The model is not found for API version v1beta, or is not supported."),
        409: DefaultError("ABORTED", "", "The operation was aborted."),
        413: DefaultError("INVALID_ARGUMENT", "", "Request payload size exceeds the limit: 20971520 bytes."),
        429: DefaultError("RESOURCE_EXHAUSTED", "", "You exceeded your current quota, please check your plan."),
        499: DefaultError("CANCELLED", "", "The operation was cancelled."),
        500: DefaultError("INTERNAL", "", "An internal error has occurred. Please retry or report in the developer forum."),
        502: DefaultError("UNAVAILABLE", "", "Bad gateway"),
        503: DefaultError("UNAVAILABLE", "", "The model is overloaded. Please try again later."),
        504: DefaultError("DEADLINE_EXCEEDED", "", "Deadline expired before operation could complete."),
    },
}  # fmt: skip
