"""Errors in the form in which each provider sends them: the body, the headers, and the same inside a stream."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.sim.asked import Style
from tenuto.sim.envelope_words import WORDS, Words
from tenuto.sim.judging import Broken

_encode = jsonio.encode
_GOOGLE = "type.googleapis.com/google.rpc."


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error to be told. What is empty or None is filled in as the provider would for this status.

    `details` is for Gemini. `request_id` names the request in the body and the headers; empty, neither does. `extra` are
    fields of the error that only this one has (`failed_generation`, `metadata`, `loc`).
    """

    status: int
    message: str = ""
    type: str = ""
    param: str | None = None
    code: str | None = None
    retry_after: float | None = None
    details: list[dict[str, Any]] = []
    request_id: str = ""
    extra: dict[str, Any] = {}


def refusal(broken: Broken, request_id: str = "") -> Problem:
    """Say a broken rule as an error. The check's field `extra` becomes the error's."""
    row = broken.row
    return Problem(
        status=row.status,
        message=broken.message,
        type=row.type,
        param=broken.parameter,
        code=broken.fields.get("code", row.code),
        request_id=request_id,
        extra=broken.fields.get("extra", {}),
    )


def _dashed_id(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The form of a provider's errors."""

    body: Callable[[Problem, Words], dict[str, Any]]
    stream_event: Callable[[Problem, Words], bytes] | None = None
    """Write the error inside a stream of the chat dialect; None: its body as one event without a name."""
    request_id: Callable[[str], str] = _dashed_id
    """Make the id of a request from 32 hexadecimal digits."""
    id_header: str = "x-request-id"
    """The header with the id of the request; empty: none."""
    retry_headers: tuple[str, ...] = ("retry-after",)
    rate_limit_headers: dict[str, str] = {}
    should_retry: Callable[[Problem], dict[str, str]] = lambda problem: {}
    """Make the headers that say whether to retry."""
    bad_key: Problem = Problem(status=401)


def envelope_of(style: Style) -> Envelope:
    return _ENVELOPES[style.envelope]


def request_id(style: Style, chance: str) -> str:
    """Return the id of a request in the form of a provider; the same for the same chance."""
    return envelope_of(style).request_id(hashlib.blake2b(chance.encode(), digest_size=16).hexdigest())


def body(style: Style, problem: Problem) -> Any:
    """Return the body of an error: an object, or a list with one where the style has `error_list`."""
    error = error_object(style, problem)
    return [error] if style.error_list else error


def error_object(style: Style, problem: Problem) -> dict[str, Any]:
    return envelope_of(style).body(problem, _words(style, problem))


def headers(style: Style, problem: Problem) -> dict[str, str]:
    """Return the headers of an error: the request's id, how long to wait, whether to try again."""
    envelope = envelope_of(style)
    told: dict[str, str] = {}
    if envelope.id_header and problem.request_id:
        told[envelope.id_header] = problem.request_id
    if problem.retry_after is not None:
        delays = {"retry-after": f"{problem.retry_after:g}", "retry-after-ms": f"{round(problem.retry_after * 1000)}"}
        told |= {name: delays[name] for name in envelope.retry_headers}
    if problem.status == 429:
        told |= envelope.rate_limit_headers
    return told | envelope.should_retry(problem)


def chat_stream_event(style: Style, problem: Problem) -> bytes:
    """Return the error as one event of a stream of the chat dialect that has begun."""
    write = envelope_of(style).stream_event
    if write is not None:
        return write(problem, _words(style, problem))
    return b"data: " + _encode(error_object(style, problem)) + b"\n\n"


def _words(style: Style, problem: Problem) -> Words:
    own, common = WORDS.get(style.envelope, {}), WORDS["openai"]
    near = 400 if problem.status < 500 else 503 if problem.status > 503 else 500
    return own.get(problem.status) or own.get(near) or common.get(problem.status) or common[near]


def _should_retry(problem: Problem) -> dict[str, str]:
    if problem.status in (429, 529):
        return {"x-should-retry": "true"}
    return {"x-should-retry": "false"} if problem.status == 400 and "prefill" in problem.message else {}


def _openai(problem: Problem, words: Words) -> dict[str, Any]:
    return {
        "error": {
            "message": problem.message or words.message,
            "type": problem.type or words.type or None,
            "param": problem.param,
            "code": problem.code or (None if problem.message and problem.status == 400 else words.code or None),
            **problem.extra,
        }
    }


def _anthropic(problem: Problem, words: Words) -> dict[str, Any]:
    error: dict[str, Any] = {"type": problem.type or words.type, "message": problem.message or words.message}
    if problem.code:
        error["details"] = {"error_code": problem.code}
    told: dict[str, Any] = {"type": "error", "error": {**error, **problem.extra}}
    if problem.request_id and problem.status != 413:  # that one comes from the edge, before there is an id
        told["request_id"] = problem.request_id
    return told


def _azure(problem: Problem, words: Words) -> dict[str, Any]:
    message, code = problem.message or words.message, problem.code or words.code
    if code == "content_filter":
        inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": _FILTERED}
        told = {"message": message, "type": None, "param": "prompt", "code": code, "status": 400, "innererror": inner}
        return {"error": told}
    if problem.status == 429:
        return {"error": {"code": code, "message": message, "details": message}}
    if problem.status == 404 and code == words.code:
        return {"error": {"type": words.type, "code": code, "message": message}}
    if problem.status in (401, 403):
        return {"error": {"code": code, "message": message}}
    return _openai(problem, words)


def _deepseek(problem: Problem, words: Words) -> dict[str, Any]:
    error = {
        "message": problem.message or words.message,
        "type": problem.type or words.type,
        "param": problem.param,
        "code": problem.code or words.code or None,
    }
    return {"error": {**error, **problem.extra}}


def _typed(problem: Problem, words: Words) -> dict[str, Any]:
    error = {"message": problem.message or words.message, "type": problem.type or words.type}
    return {"error": {**error, **problem.extra}}


def _groq(problem: Problem, words: Words) -> dict[str, Any]:
    error = {"message": problem.message or words.message, "type": problem.type or words.type}
    code = problem.code or ("" if problem.message and problem.status == 400 else words.code)
    return {"error": {**error, **({"code": code} if code else {}), **problem.extra}}


def _groq_event(problem: Problem, words: Words) -> bytes:
    told = _groq(problem, words)
    told["error"]["status_code"] = problem.status
    return b"event: error\ndata: " + _encode(told) + b"\n\n"


def _common_event(problem: Problem, words: Words) -> bytes:
    """Write the form of OpenAI, whatever the form of the whole body."""
    message, code = problem.message or words.message, problem.code or words.code
    told = {"error": {"message": message, "type": problem.type or words.type or code, "code": code}}
    return b"data: " + _encode(told) + b"\n\n"


def _mistral(problem: Problem, words: Words) -> dict[str, Any]:
    message = problem.message or words.message
    if problem.status == 401:
        return {"detail": message}
    if problem.status == 422:
        loc = problem.extra.get("loc") or ["body", *(problem.param or "messages").split(".")]
        detail = {
            "type": problem.code or "extra_forbidden",
            "loc": loc,
            "msg": message,
            "input": problem.extra.get("input"),
        }
        told: dict[str, Any] = {"object": "error", "message": {"detail": [detail]}}
        return {**told, "type": "invalid_request_error", "param": None, "code": None}
    told = {"object": "error", "message": message, "type": problem.type or words.type}
    return {**told, "param": problem.param, "code": problem.code or words.code or None}


def _xai(problem: Problem, words: Words) -> dict[str, Any]:
    return {"code": problem.code or words.code, "error": problem.message or words.message}


def _openrouter(problem: Problem, words: Words) -> dict[str, Any]:
    """An upstream's refusal, or a full upstream, stands as it was in `metadata`; the rest is OpenRouter's own."""
    error: dict[str, Any] = {"message": problem.message or words.message, "code": problem.status}
    metadata = problem.extra.get("metadata")
    if metadata is None and problem.status in (429, 503) and not problem.message:
        metadata = {"raw": words.code, "provider_name": words.type}
    if metadata is None:
        return {"error": error}
    return {"error": {**error, "metadata": metadata}, "user_id": "user_2simulated0000000000000000"}


def _perplexity(problem: Problem, words: Words) -> dict[str, Any]:
    error = {"message": problem.message or words.message, "type": problem.type or words.type}
    return {"error": {**error, **problem.extra, "code": problem.status}}


def _cohere(problem: Problem, words: Words) -> dict[str, Any]:
    told = {"id": problem.request_id or "00000000-0000-4000-a000-000000000000"}
    told["message"] = problem.message or words.message
    return {**told, "error_type": problem.code} if problem.code else told


def _zai(problem: Problem, words: Words) -> dict[str, Any]:
    return {"error": {"code": problem.code or words.code, "message": problem.message or words.message}}


def _alibaba(problem: Problem, words: Words) -> dict[str, Any]:
    id = problem.request_id or "00000000-0000-9000-a000-000000000000"
    error = {
        "message": problem.message or words.message,
        "type": problem.type or words.type,
        "param": problem.param,
        "code": problem.code or words.code,
    }
    return {"error": {**error, **problem.extra}, "id": f"chatcmpl-{id}", "request_id": id}


def _minimax(problem: Problem, words: Words) -> dict[str, Any]:
    error = {"type": words.type, "message": problem.message or words.message, "http_code": str(problem.status)}
    return {"type": "error", "error": error, "request_id": problem.request_id}


def _fireworks(problem: Problem, words: Words) -> dict[str, Any]:
    error = {"object": "error", "type": problem.type or words.type}
    code = problem.code or ("" if problem.message and problem.status == 400 else words.code)
    return {"error": {**error, **({"code": code} if code else {}), "message": problem.message or words.message}}


def _google(problem: Problem, words: Words) -> dict[str, Any]:
    message = problem.message or words.message
    error: dict[str, Any] = {"code": problem.status, "message": message}
    error["status"] = problem.type if problem.type.isupper() else words.type
    details = [*problem.details, *_google_details(problem, message)]
    return {"error": {**error, "details": details} if details else error}


def _google_details(problem: Problem, message: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    if problem.param and not problem.details:
        told.append(
            {"@type": f"{_GOOGLE}BadRequest", "fieldViolations": [{"field": problem.param, "description": message}]}
        )
    if problem.code and problem.code.isupper():
        reason = {"reason": problem.code, "domain": "googleapis.com"}
        service = {"service": "generativelanguage.googleapis.com"}
        told.append({"@type": f"{_GOOGLE}ErrorInfo", **reason, "metadata": service})
    if problem.status == 429 and problem.retry_after is not None:
        quota = {"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}
        told.append({"@type": f"{_GOOGLE}QuotaFailure", "violations": [quota]})
    if problem.retry_after is not None:
        told.append({"@type": f"{_GOOGLE}RetryInfo", "retryDelay": f"{problem.retry_after:g}s"})
    return told


_SAFE = {"filtered": False, "severity": "safe"}
_FILTERED = {
    "hate": _SAFE,
    "jailbreak": {"detected": False, "filtered": False},
    "self_harm": _SAFE,
    "sexual": _SAFE,
    "violence": {"filtered": True, "severity": "high"},
}
_SPENT = {"x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "0"}
_WITH_MILLISECONDS = ("retry-after", "retry-after-ms")
_ENVELOPES: dict[str, Envelope] = {
    "anthropic": Envelope(
        body=_anthropic,
        request_id=lambda digits: f"req_011C{digits[:20]}",
        id_header="request-id",
        retry_headers=_WITH_MILLISECONDS,
        rate_limit_headers={
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "0",
        },
        should_retry=_should_retry,
    ),
    "openai": Envelope(
        body=_openai,
        request_id=lambda digits: f"req_{digits}",
        retry_headers=_WITH_MILLISECONDS,
        rate_limit_headers=_SPENT,
    ),
    "azure": Envelope(
        body=_azure, id_header="apim-request-id", retry_headers=_WITH_MILLISECONDS, rate_limit_headers=_SPENT
    ),
    "deepseek": Envelope(body=_deepseek, request_id=lambda digits: digits, id_header="x-ds-trace-id"),
    "moonshot": Envelope(body=_typed),
    "mistral": Envelope(
        body=_mistral,
        stream_event=_common_event,
        request_id=lambda digits: digits,
        id_header="mistral-correlation-id",
    ),
    "groq": Envelope(
        body=_groq,
        stream_event=_groq_event,
        request_id=lambda digits: f"req_01{digits[:24]}",
        rate_limit_headers=_SPENT,
    ),
    "xai": Envelope(body=_xai, stream_event=_common_event),
    "openrouter": Envelope(body=_openrouter),
    "perplexity": Envelope(body=_perplexity, id_header=""),
    "cohere": Envelope(body=_cohere, stream_event=_common_event),
    "ollama": Envelope(body=_openai, id_header=""),
    "zai": Envelope(body=_zai),
    "alibaba": Envelope(body=_alibaba),
    "minimax": Envelope(body=_minimax),
    "fireworks": Envelope(body=_fireworks),
    "google": Envelope(
        body=_google,
        id_header="",
        retry_headers=(),
        bad_key=Problem(status=400, message="API key not valid. Please pass a valid API key.", code="API_KEY_INVALID"),
    ),
}
