"""What a provider's error means: one classification for HTTP answers and for errors inside a stream.

Inside a stream the status is 200 and says nothing, so the error's own type, code and status words decide; they also
decide where they are more exact than an HTTP status (a 429 that no waiting cures, a 400 that means "too long").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tenuto.core import jsonio
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

__all__ = ["failure", "message_of"]

_WORDS: dict[str, type[LLMError]] = {
    # Anthropic
    "invalid_request_error": BadRequest,
    "authentication_error": AuthenticationFailed,
    "billing_error": QuotaExceeded,
    "permission_error": AuthenticationFailed,
    "not_found_error": NotFound,
    "request_too_large": BadRequest,
    "rate_limit_error": RateLimited,
    "api_error": Unavailable,
    "timeout_error": TimedOut,
    "overloaded_error": Unavailable,
    "enforced_spend_limit_reached": QuotaExceeded,
    "ramp_limit_exceeded": QuotaExceeded,
    "compaction_unavailable": Unavailable,
    # OpenAI and its kin
    "insufficient_quota": QuotaExceeded,
    "billing_hard_limit_reached": QuotaExceeded,
    "rate_limit_exceeded": RateLimited,
    "tokens_exceeded_error": RateLimited,
    "context_length_exceeded": ContextTooLong,
    "string_above_max_length": BadRequest,
    "invalid_api_key": AuthenticationFailed,
    "model_not_found": NotFound,
    "server_error": Unavailable,
    "internal_error": Unavailable,
    "vector_store_timeout": Unavailable,
    "invalid_prompt": BadRequest,
    "data_residency_mismatch": BadRequest,
    "bio_policy": BadRequest,
    "misalignment_policy_violation": BadRequest,
    "invalid_encrypted_content": BadRequest,
    "tool_use_failed": BadRequest,
    "content_filter": BadRequest,
    # Google
    "INVALID_ARGUMENT": BadRequest,
    "FAILED_PRECONDITION": BadRequest,
    "OUT_OF_RANGE": BadRequest,
    "UNAUTHENTICATED": AuthenticationFailed,
    "PERMISSION_DENIED": AuthenticationFailed,
    "NOT_FOUND": NotFound,
    "RESOURCE_EXHAUSTED": RateLimited,
    "INTERNAL": Unavailable,
    "UNAVAILABLE": Unavailable,
    "DEADLINE_EXCEEDED": TimedOut,
    "CANCELLED": Unavailable,
}
_STATUS: dict[int, type[LLMError]] = {
    400: BadRequest,
    401: AuthenticationFailed,
    402: QuotaExceeded,
    403: AuthenticationFailed,
    404: NotFound,
    408: TimedOut,
    409: Unavailable,
    413: BadRequest,
    422: BadRequest,
    429: RateLimited,
    504: TimedOut,
}
_TOO_LONG = re.compile(
    r"prompt is too long|maximum context length|context window|context_length|input is too long"
    r"|exceeds the maximum number of tokens|too many tokens in the prompt",
    re.IGNORECASE,
)
_OUT_OF_MONEY = re.compile(
    r"credit balance|insufficient (?:balance|funds|credits|quota)|exceeded your current quota", re.IGNORECASE
)
_GENERAL = (BadRequest, RateLimited)


def failure(
    raw: bytes | str, *, provider: str, status: int | None = None, headers: Mapping[str, str] | None = None
) -> LLMError:
    """Turn an error body, or an error object out of a stream, into its exception.

    `status` is the HTTP status, or None for an error inside a stream. The body may be anything: what cannot be read as
    an error object becomes the message as it stands.
    """
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    try:
        body = jsonio.parse(text)
    except jsonio.JsonError:
        body = text
    inner = _inner(body)
    message = message_of(body) or f"HTTP {status}"
    kind = _kind(inner, message, status)
    error = kind(message, provider=provider, status=_status(inner, status), raw=text)
    error.request_id = _request_id(body, headers)
    error.retry_after = _retry_after(inner, headers)
    if kind is LLMError:
        error.retryable = status is None or status >= 500  # an unknown failure inside a stream may pass
    return error


def message_of(body: Any) -> str:
    """Find the sentence a person should read: the error's text, its message, else the error or body itself."""
    if isinstance(body, list) and body:
        body = body[0]  # some hosts answer an array stream with an array of errors
    if isinstance(body, dict):
        error = body.get("error", body.get("message", body.get("detail")))
        if isinstance(error, dict):
            inner = error.get("message")
            return inner if isinstance(inner, str) and inner else jsonio.as_text(jsonio.encode(error))
        if isinstance(error, str):
            return error
        return jsonio.as_text(jsonio.encode(body if error is None else error))
    return body if isinstance(body, str) else jsonio.as_text(jsonio.encode(body))


def _inner(body: Any) -> dict[str, Any]:
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return {}
    error = body.get("error")
    return error if isinstance(error, dict) else body


def _kind(inner: dict[str, Any], message: str, status: int | None) -> type[LLMError]:
    named = [_WORDS[word] for word in _words(inner) if word in _WORDS]
    exact = [kind for kind in named if kind not in _GENERAL]
    kind = (exact or named or [_by_status(_status(inner, status))])[0]
    if kind is BadRequest and _TOO_LONG.search(message):
        return ContextTooLong
    if kind in (BadRequest, RateLimited) and _OUT_OF_MONEY.search(message):
        return QuotaExceeded
    return kind


def _words(inner: dict[str, Any]) -> list[str]:
    details = inner.get("details")
    coded = details.get("error_code") if isinstance(details, dict) else None
    metadata = inner.get("metadata")
    typed = metadata.get("error_type") if isinstance(metadata, dict) else None
    found = (coded, inner.get("code"), inner.get("type"), inner.get("status"), typed)
    return [word for word in found if isinstance(word, str)]


def _status(inner: dict[str, Any], status: int | None) -> int | None:
    if status is not None:
        return status
    for word in (inner.get("code"), inner.get("status_code"), inner.get("status")):
        if isinstance(word, int) and 100 <= word < 600:
            return word
        if isinstance(word, str) and word.isdecimal() and 100 <= int(word[:4]) < 600:
            return int(word[:4])
    return None


def _by_status(status: int | None) -> type[LLMError]:
    if status is None:
        return LLMError
    return _STATUS.get(status) or (Unavailable if status >= 500 else BadRequest if status == 412 else LLMError)


def _request_id(body: Any, headers: Mapping[str, str] | None) -> str | None:
    held = {name.lower(): value for name, value in (headers or {}).items()}
    named = body.get("request_id") if isinstance(body, dict) else None
    return held.get("request-id") or held.get("x-request-id") or (named if isinstance(named, str) else None)


def _retry_after(inner: dict[str, Any], headers: Mapping[str, str] | None) -> float | None:
    held = {name.lower(): value for name, value in (headers or {}).items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (seconds := _number(held.get(name))) is not None:
            return seconds * unit
    details = inner.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (seconds := _number(delay.removesuffix("s"))) is not None:
            return seconds
    return None


def _number(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
