"""Classify the errors of providers, in HTTP responses, inside streams and in responses with a successful status.

The HTTP status selects the error class, and whether a retry can help. The codes in the body (type, code, status, reason)
select a more specific class: a 429 that a retry cannot fix, a 400 that means "too long" or "invalid key". An error inside
a stream has no HTTP status: its codes decide, or the status that the error object contains.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tenuto import errors
from tenuto.core import jsonio
from tenuto.core.jsonio import Fields, is_empty, object_or_empty
from tenuto.errors import BadRequest, CompactionRefused, LLMError, ProtocolError, RateLimited, Unavailable

_CODES_BY_CLASS: dict[type[LLMError], str] = {
    BadRequest: (
        "invalid_request_error request_too_large string_above_max_length invalid_prompt "
        "data_residency_mismatch bio_policy misalignment_policy_violation invalid_encrypted_content "
        "tool_use_failed content_filter INVALID_ARGUMENT FAILED_PRECONDITION OUT_OF_RANGE"
    ),
    errors.ContextTooLong: "context_length_exceeded too_many_prompt_tokens exceed_context_size_error TOO_MANY_TOKENS",
    errors.AuthenticationFailed: (
        "authentication_error permission_error invalid_api_key request_forbidden UNAUTHENTICATED "
        "PERMISSION_DENIED API_KEY_INVALID"
    ),
    errors.NotFound: "not_found_error model_not_found invalid_model DeploymentNotFound NOT_FOUND",
    errors.QuotaExceeded: (
        "billing_error enforced_spend_limit_reached ramp_limit_exceeded insufficient_quota "
        "billing_hard_limit_reached credit_balance_exhausted"
    ),
    RateLimited: (
        "rate_limit_error rate_limit_exceeded tokens_exceeded_error slow_down rate_limit_reached_error "
        "RateLimitReached RESOURCE_EXHAUSTED"
    ),
    errors.TimedOut: "timeout_error DEADLINE_EXCEEDED",
    Unavailable: (
        "api_error overloaded_error compaction_unavailable conflict_error server_error internal_error "
        "vector_store_timeout service_unavailable_error server_is_overloaded engine_overloaded_error INTERNAL "
        "UNAVAILABLE CANCELLED"
    ),
}
"""The error codes of all providers, by the class that they select."""
_CODES = {code: error_class for error_class, codes in _CODES_BY_CLASS.items() for code in codes.split()}
_STATUSES: dict[int, type[LLMError]] = {
    **dict.fromkeys((400, 412, 413, 422), BadRequest),
    **dict.fromkeys((401, 403), errors.AuthenticationFailed),
    **dict.fromkeys((408, 504), errors.TimedOut),
    402: errors.QuotaExceeded,
    404: errors.NotFound,
    409: Unavailable,
    429: RateLimited,
}
_TOO_LONG_PATTERN = (
    r"prompt is too long|maximum (?:context|prompt) length|context (?:window|limit)|context_length|input is too long"
    r"|exceeds the maximum number of tokens|too many tokens|prompt too long|exceeds the available context size"
    r"|input tokens exceeds maximum length"
)
_OUT_OF_CREDIT_PATTERN = r"credit balance|insufficient (?:balance|funds|credits|quota)"
_UNKNOWN_MODEL_PATTERN = (
    r"\A(?:invalid model: |model not found: |the supported api model names are |the provided model identifier is "
    r"invalid|\S+ is not a valid model id\Z|model \S+ is not supported\. supported models are)"
)
_MESSAGE_PATTERNS: tuple[tuple[type[LLMError], tuple[type[LLMError], ...], str], ...] = (
    (errors.ContextTooLong, (BadRequest,), _TOO_LONG_PATTERN),
    (errors.QuotaExceeded, (BadRequest, RateLimited), _OUT_OF_CREDIT_PATTERN),
    (errors.AuthenticationFailed, (BadRequest,), r"\Aincorrect api key provided"),
    (errors.NotFound, (BadRequest,), _UNKNOWN_MODEL_PATTERN),
)
"""Error classes that the message selects: the class, the classes that it replaces, and the pattern of the message. A
pattern that could match a value quoted in the message starts with `\\A`.
"""
_GENERAL = (BadRequest, RateLimited, Unavailable)
_MORE_SPECIFIC: dict[type[LLMError], tuple[type[LLMError], ...]] = {
    LLMError: (errors.QuotaExceeded, errors.ContextTooLong, errors.AuthenticationFailed, errors.NotFound, BadRequest),
    BadRequest: (errors.QuotaExceeded, errors.ContextTooLong, errors.AuthenticationFailed, errors.NotFound),
    RateLimited: (errors.QuotaExceeded,),
    errors.AuthenticationFailed: (errors.QuotaExceeded,),
    Unavailable: (errors.TimedOut,),
}
"""For the error class of an HTTP status, the more specific classes that a code in the body may select."""


def classify_error(
    raw: bytes | str, *, provider: str = "", status: int | None = None, headers: Mapping[str, str] | None = None
) -> LLMError:
    """Make the exception for an error body, or for an error object inside a stream.

    `status` is the HTTP status, or None inside a stream. A body that is not an error object becomes the message. Lone
    surrogates in the message are replaced, so that it can be printed; `raw` of the exception has the original text.
    """
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    try:
        body = jsonio.parse(text)
    except jsonio.JsonError:
        body = text
    fields = _error_fields(body)
    status = _find_status(fields, status)
    message = jsonio.printable(extract_message(body)) or f"HTTP {status}"
    lower_headers = {name.lower(): value for name, value in (headers or {}).items()}
    error_class = _select_class(fields, message, status)
    error = error_class(message, provider=provider, status=status, raw=text)
    body_id = body.get("request_id") if isinstance(body, dict) else None
    header_id = lower_headers.get("request-id") or lower_headers.get("x-request-id")
    error.request_id = header_id or (body_id if isinstance(body_id, str) else None)
    error.retry_after = _find_retry_after(fields, lower_headers)
    if error_class is LLMError:
        error.retryable = status is None  # an unknown error inside a stream may be temporary
    if lower_headers.get("x-should-retry") in ("true", "false"):
        error.retryable = lower_headers["x-should-retry"] == "true"
    return error


@contextmanager
def protocol_errors(what: str, body: bytes, provider: str) -> Iterator[None]:
    """Raise `ProtocolError`, which contains the body, if reading a malformed response fails."""
    try:
        yield
    except LLMError as exc:
        exc.provider = exc.provider or provider
        raise
    except ValueError as exc:
        raise ProtocolError(f"{what} cannot be read: {exc}", provider=provider, frame=body) from exc


def reply_fields(body: bytes, provider: str) -> Fields:
    """Return the fields of a response. Raise its error, if a response with a successful status contains one."""
    fields = jsonio.members(body)
    if error := find_error(fields, body):
        error.provider = provider
        raise error
    return fields


ERROR_FIELDS = frozenset(("error", "x_groq", "base_resp"))


def find_error(fields: Fields, body: bytes) -> LLMError | None:
    """Return the error of a response with a successful status, from any field where hosts put one."""
    if not is_empty(fields.get("error")):
        return classify_error(body)
    error = object_or_empty(fields.get("x_groq")).get("error")
    if not is_empty(error):
        return classify_error(jsonio.encode({"error": error}))
    status = fields.get("base_resp")
    if status is not None and not is_empty(object_or_empty(status).get("status_code")):
        return classify_error(jsonio.encode({"error": {"message": jsonio.as_text(status)}}))
    return None


def extract_message(body: Any) -> str:
    """Return the message of an error body; the JSON text of the error, or of the body, if it has none."""
    if isinstance(body, list) and body:
        body = body[0]  # some hosts answer an array stream with an array of errors
    if not isinstance(body, dict):
        return body if isinstance(body, str) else _to_json(body)
    for name in ("error", "message", "detail"):
        value = body.get(name)
        if isinstance(value, dict):
            message = value.get("message")
            return message if isinstance(message, str) and message else _to_json(value)
        if value is not None:
            return value if isinstance(value, str) else _to_json(value)
    return extract_message(body["response"]) if isinstance(body.get("response"), dict) else _to_json(body)


def _to_json(value: Any) -> str:
    return jsonio.as_text(jsonio.encode(value))


def _error_fields(body: Any) -> dict[str, Any]:
    """Return the error object of a body; the body itself, if it has none."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return {}
    error = body.get("error")
    if error is None and isinstance(body.get("response"), dict):
        return _error_fields(body["response"])
    return error if isinstance(error, dict) else body


def _select_class(fields: dict[str, Any], message: str, status: int | None) -> type[LLMError]:
    """Select the class by status, then by the codes, specific ones first, then by the message."""
    selected: type[LLMError] = LLMError
    if status is not None:
        selected = _STATUSES.get(status) or (Unavailable if status >= 500 else LLMError)
    by_code = [_CODES[code] for code in _find_codes(fields) if code in _CODES]
    by_code.sort(key=lambda error_class: error_class in _GENERAL)
    allowed = _MORE_SPECIFIC.get(selected, ())
    selected = next((by for by in by_code if status is None or by in allowed), selected)
    if selected is BadRequest and any(code.startswith("compaction_") for code in _find_codes(fields)):
        return CompactionRefused
    for by_message, replaceable, pattern in _MESSAGE_PATTERNS:
        if selected in replaceable and re.search(pattern, message, re.IGNORECASE):
            return by_message
    return selected


def _find_codes(fields: dict[str, Any]) -> list[str]:
    details, metadata = fields.get("details"), fields.get("metadata")
    values = [
        details.get("error_code") if isinstance(details, dict) else None,
        *(detail.get("reason") for detail in _objects(details)),
        fields.get("code"),
        fields.get("type"),
        fields.get("status"),
        fields.get("error_type"),
        metadata.get("error_type") if isinstance(metadata, dict) else None,
    ]
    codes = [value for value in values if isinstance(value, str)]
    # Google: only the id of the quota shows that it is a daily one, where waiting a minute does not help.
    violations = (violation for detail in _objects(details) for violation in _objects(detail.get("violations")))
    if any("PerDay" in str(violation.get("quotaId")) for violation in violations):
        codes.insert(0, "insufficient_quota")
    return codes


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _find_status(fields: dict[str, Any], status: int | None) -> int | None:
    """Return the HTTP status, or the one that the error object contains if the response was successful."""
    if status is not None and status >= 300:
        return status
    for value in (fields.get("code"), fields.get("status_code"), fields.get("status")):
        number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
        if isinstance(number, int) and 300 <= number < 600:
            return number
    return None


def _find_retry_after(fields: dict[str, Any], headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, from a header or from the details of the error."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (seconds := _parse_seconds(headers.get(name))) is not None:
            return seconds * unit
    for detail in _objects(fields.get("details")):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (seconds := _parse_seconds(delay.removesuffix("s"))) is not None:
            return seconds
    return None


def _parse_seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
