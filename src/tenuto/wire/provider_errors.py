"""What a provider's error means: one classification for HTTP answers and for errors inside a stream.

An HTTP status says what kind of failure it is and whether waiting helps. The error's own words (type, code, status,
reason) only make it more exact: a 429 that no waiting cures, a 400 that means "too long" or "no such key". Inside a
stream there is no such status, so the words decide, or the status that the error names itself.
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

__all__ = ["classify_error", "extract_message"]

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
    "conflict_error": Unavailable,
    # OpenAI and its kin
    "insufficient_quota": QuotaExceeded,
    "billing_hard_limit_reached": QuotaExceeded,
    "rate_limit_exceeded": RateLimited,
    "tokens_exceeded_error": RateLimited,
    "context_length_exceeded": ContextTooLong,
    "too_many_prompt_tokens": ContextTooLong,
    "exceed_context_size_error": ContextTooLong,
    "string_above_max_length": BadRequest,
    "invalid_api_key": AuthenticationFailed,
    "model_not_found": NotFound,
    "invalid_model": NotFound,
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
    "credit_balance_exhausted": QuotaExceeded,
    "slow_down": RateLimited,
    "service_unavailable_error": Unavailable,
    "server_is_overloaded": Unavailable,
    "request_forbidden": AuthenticationFailed,
    "rate_limit_reached_error": RateLimited,
    "engine_overloaded_error": Unavailable,
    "RateLimitReached": RateLimited,
    "DeploymentNotFound": NotFound,
    "TOO_MANY_TOKENS": ContextTooLong,
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
    "API_KEY_INVALID": AuthenticationFailed,
}
_STATUS: dict[int, type[LLMError]] = {
    400: BadRequest,
    401: AuthenticationFailed,
    402: QuotaExceeded,
    403: AuthenticationFailed,
    404: NotFound,
    408: TimedOut,
    409: Unavailable,
    412: BadRequest,
    413: BadRequest,
    422: BadRequest,
    429: RateLimited,
    504: TimedOut,
}
_TOO_LONG = (
    r"prompt is too long|maximum (?:context|prompt) length|context (?:window|limit)|context_length|input is too long"
    r"|exceeds the maximum number of tokens|too many tokens|prompt too long|exceeds the available context size"
    r"|input tokens exceeds maximum length"
)
_OUT_OF_MONEY = r"credit balance|insufficient (?:balance|funds|credits|quota)"
_NO_SUCH_MODEL = (
    r"\A(?:invalid model: |model not found: |the supported api model names are |the provided model identifier is "
    r"invalid|\S+ is not a valid model id\Z|model \S+ is not supported\. supported models are)"
)
_TEXTS: tuple[tuple[type[LLMError], tuple[type[LLMError], ...], str], ...] = (
    (ContextTooLong, (BadRequest,), _TOO_LONG),
    (QuotaExceeded, (BadRequest, RateLimited), _OUT_OF_MONEY),
    (AuthenticationFailed, (BadRequest,), r"\Aincorrect api key provided"),
    (NotFound, (BadRequest,), _NO_SUCH_MODEL),
)
"""What an error becomes by its text: the class, the classes that it refines, and the pattern of the text.

A pattern that could occur in a value that the error quotes is bound to the beginning of the text.
"""
_GENERAL = (BadRequest, RateLimited, Unavailable)
_MORE_EXACT: dict[type[LLMError], tuple[type[LLMError], ...]] = {
    LLMError: (QuotaExceeded, ContextTooLong, AuthenticationFailed, NotFound, BadRequest),
    BadRequest: (QuotaExceeded, ContextTooLong, AuthenticationFailed, NotFound),
    RateLimited: (QuotaExceeded,),
    AuthenticationFailed: (QuotaExceeded,),
    Unavailable: (TimedOut,),
}
"""Which words are heard where a status has said its part: those that do not contradict it."""


def classify_error(
    raw: bytes | str, *, provider: str, status: int | None = None, headers: Mapping[str, str] | None = None
) -> LLMError:
    """Turn an error body, or an error object out of a stream, into its exception.

    `status` is the HTTP status, or None for an error inside a stream. The body may be anything: what cannot be read as
    an error object becomes the message as it stands. The message can be printed; `raw` is what came.
    """
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    try:
        body = jsonio.parse(text)
    except jsonio.JsonError:
        body = text
    inner = _inner(body)
    status = _status(inner, status)
    message = jsonio.printable(extract_message(body)) or f"HTTP {status}"
    held = {name.lower(): value for name, value in (headers or {}).items()}
    kind = _kind(inner, message, status)
    error = kind(message, provider=provider, status=status, raw=text)
    error.request_id = _request_id(body, held)
    error.retry_after = _retry_after(inner, held)
    if kind is LLMError:
        error.retryable = status is None  # an unknown failure inside a stream may pass
    if held.get("x-should-retry") in ("true", "false"):
        error.retryable = held["x-should-retry"] == "true"
    return error


def extract_message(body: Any) -> str:
    """Find the sentence a person should read: the error's text, its message, else the error or body itself."""
    if isinstance(body, list) and body:
        body = body[0]  # some hosts answer an array stream with an array of errors
    if not isinstance(body, dict):
        return body if isinstance(body, str) else _written(body)
    for name in ("error", "message", "detail"):
        told = body.get(name)
        if isinstance(told, dict):
            inner = told.get("message")
            return inner if isinstance(inner, str) and inner else _written(told)
        if told is not None:
            return told if isinstance(told, str) else _written(told)
    return extract_message(body["response"]) if isinstance(body.get("response"), dict) else _written(body)


def _written(body: Any) -> str:
    return jsonio.as_text(jsonio.encode(body))


def _inner(body: Any) -> dict[str, Any]:
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return {}
    error = body.get("error")
    if error is None and isinstance(body.get("response"), dict):
        return _inner(body["response"])
    return error if isinstance(error, dict) else body


def _kind(inner: dict[str, Any], message: str, status: int | None) -> type[LLMError]:
    named = [_WORDS[word] for word in _words(inner) if word in _WORDS]
    exact = [kind for kind in named if kind not in _GENERAL]
    kind = _by_status(status)
    heard = _MORE_EXACT.get(kind, ())
    kind = next((word for word in (*exact, *named) if status is None or word in heard), kind)
    refined = (by for by, kinds, text in _TEXTS if kind in kinds and re.search(text, message, re.IGNORECASE))
    return next(refined, kind)


def _words(inner: dict[str, Any]) -> list[str]:
    details = inner.get("details")
    metadata = inner.get("metadata")
    found = [
        details.get("error_code") if isinstance(details, dict) else None,
        *(detail.get("reason") for detail in _list(details)),
        inner.get("code"),
        inner.get("type"),
        inner.get("status"),
        inner.get("error_type"),
        metadata.get("error_type") if isinstance(metadata, dict) else None,
    ]
    words = [word for word in found if isinstance(word, str)]
    return ["insufficient_quota", *words] if _out_for_the_day(details) else words


def _out_for_the_day(details: Any) -> bool:
    """Google's quotas of a day look like any other, but for their names; waiting a minute does not help."""
    violations = [found for detail in _list(details) for found in _list(detail.get("violations"))]
    return any("PerDay" in str(found.get("quotaId")) for found in violations)


def _list(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _status(inner: dict[str, Any], status: int | None) -> int | None:
    if status is not None and status >= 300:
        return status
    for word in (inner.get("code"), inner.get("status_code"), inner.get("status")):
        number = int(word) if isinstance(word, str) and word.isdecimal() and len(word) == 3 else word
        if isinstance(number, int) and 300 <= number < 600:
            return number
    return None


def _by_status(status: int | None) -> type[LLMError]:
    if status is None:
        return LLMError
    return _STATUS.get(status) or (Unavailable if status >= 500 else LLMError)


def _request_id(body: Any, held: Mapping[str, str]) -> str | None:
    named = body.get("request_id") if isinstance(body, dict) else None
    return held.get("request-id") or held.get("x-request-id") or (named if isinstance(named, str) else None)


def _retry_after(inner: dict[str, Any], held: Mapping[str, str]) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (seconds := _number(held.get(name))) is not None:
            return seconds * unit
    for detail in _list(inner.get("details")):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (seconds := _number(delay.removesuffix("s"))) is not None:
            return seconds
    return None


def _number(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
