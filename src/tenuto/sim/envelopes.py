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

__all__ = ["Problem", "body", "headers", "refusal", "request_id", "stream"]

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


def request_id(style: Style, chance: str) -> str:
    """Return the id of a request in the form of a provider; the same for the same chance."""
    word = hashlib.blake2b(chance.encode(), digest_size=16).hexdigest()
    if style.envelope == "anthropic":
        return f"req_011C{word[:20]}"
    if style.envelope in ("openai", "groq"):
        return f"req_{word}" if style.envelope == "openai" else f"req_01{word[:24]}"
    if style.envelope in ("mistral", "deepseek"):
        return word
    return f"{word[:8]}-{word[8:12]}-4{word[13:16]}-a{word[17:20]}-{word[20:32]}"


def body(style: Style, problem: Problem) -> Any:
    """Return the body of an error: an object, in a list where Google speaks the chat dialect."""
    told = _body(style, problem)
    return [told] if style.envelope == "gemini" and style.dialect == "openai-chat" else told


def _body(style: Style, problem: Problem) -> dict[str, Any]:
    return _SHAPES.get(style.envelope, _openai)(problem, _words(style, problem))


def headers(style: Style, problem: Problem) -> dict[str, str]:
    """Return the headers of an error: the request's id, how long to wait, whether to try again."""
    told: dict[str, str] = {}
    name = _ID_HEADERS.get(style.envelope, "x-request-id")
    if name and problem.request_id:
        told[name] = problem.request_id
    if problem.retry_after is not None and style.envelope != "gemini":
        told["retry-after"] = f"{problem.retry_after:g}"
        if style.envelope in ("openai", "azure", "anthropic"):
            told["retry-after-ms"] = f"{round(problem.retry_after * 1000)}"
    if problem.status == 429:
        told |= _LIMITS.get(style.envelope, {})
    if style.envelope == "anthropic":
        told |= _should_retry(problem)
    return told


def stream(style: Style, problem: Problem) -> bytes:
    """Return the error as one event of a stream that has begun."""
    told = _body(style, problem)
    if style.dialect == "anthropic-messages":
        told = told if told.get("type") == "error" else {"type": "error", **told}
        return b"event: error\ndata: " + _encode(told) + b"\n\n"
    if style.dialect == "gemini":
        return b"data: " + _encode(told) + b"\r\n\r\n"
    if style.envelope == "groq":
        told["error"]["status_code"] = problem.status
        return b"event: error\ndata: " + _encode(told) + b"\n\n"
    if style.envelope in ("cohere", "mistral", "xai"):
        words = _words(style, problem)
        message, code = problem.message or words.message, problem.code or words.code
        told = {"error": {"message": message, "type": problem.type or words.type or code, "code": code}}
    return b"data: " + _encode(told) + b"\n\n"


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


def _gemini(problem: Problem, words: Words) -> dict[str, Any]:
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
_SHAPES: dict[str, Callable[[Problem, Words], dict[str, Any]]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "azure": _azure,
    "deepseek": _deepseek,
    "moonshot": _typed,
    "mistral": _mistral,
    "groq": _groq,
    "xai": _xai,
    "openrouter": _openrouter,
    "perplexity": _perplexity,
    "cohere": _cohere,
    "ollama": _openai,
    "zai": _zai,
    "alibaba": _alibaba,
    "minimax": _minimax,
    "fireworks": _fireworks,
    "gemini": _gemini,
}
_ID_HEADERS = {
    "anthropic": "request-id",
    "azure": "apim-request-id",
    "deepseek": "x-ds-trace-id",
    "mistral": "mistral-correlation-id",
    "perplexity": "",
    "ollama": "",
    "gemini": "",
}
_SPENT = {"x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "0"}
_LIMITS = {
    "anthropic": {"anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-requests-remaining": "0"},
    "openai": _SPENT,
    "azure": _SPENT,
    "groq": _SPENT,
}
