"""Thought signatures: what they are given for is sealed inside them, and can be told when they come back."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

import msgspec

from tenuto.sim.asked import Request
from tenuto.sim.gemini.models import facts
from tenuto.sim.mint import Mint, Seals, digest

__all__ = ["Claims", "claims", "is_sentinel", "kind", "sealed", "substance"]

_KINDS = (
    "functionCall", "text", "inlineData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse",
    "functionResponse", "fileData",
)  # fmt: skip
_SENTINELS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_ACCEPTED = {
    *_SENTINELS,
    *(base64.b64encode(word.encode()).decode() for word in _SENTINELS),
    *(base64.b64encode(word.encode()).decode().rstrip("=") for word in _SENTINELS),
}
_INNER, _OUTER = b"\x0a", b"\x12"
_FREE = {"id"}


class Claims(msgspec.Struct, frozen=True):
    """What a signature was given for: by whom and to whom, for which reply and which part of it.

    `texts` are the digests of what the part may hold: a text that was streamed is signed in its last piece, and whole
    where it was not.
    """

    family: str
    style: str
    account: str
    reply: str
    order: int
    kind: str
    texts: list[str]
    id: str = ""


def is_sentinel(signature: str) -> bool:
    """Tell whether this is one of the words that stand in for the signature of a foreign history."""
    return signature in _ACCEPTED


def kind(part: dict[str, Any]) -> str:
    """Return which data field a part has; empty if none."""
    return next((name for name in _KINDS if name in part), "")


def substance(part: dict[str, Any]) -> str:
    """Return a digest of what a part says, however its JSON is written. Ids of calls do not count."""
    name = kind(part)
    value = part.get(name)
    name = "thought" if part.get("thought") else name
    if isinstance(value, dict):
        value = {key: inner for key, inner in value.items() if key not in _FREE and inner not in ({}, None)}
    return digest(name, value if isinstance(value, str) else json.dumps(_plain(value), sort_keys=True))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def sealed(mint: Mint, request: Request, claims: Claims, size: int) -> str:
    """Return the signature for a part, of about so many bytes."""
    token = mint.seal(msgspec.to_builtins(claims), size)
    return base64.b64encode(_wrapped(token, new=facts(request).generation >= 3)).decode()


def claims(signature: str, seals: Seals) -> Claims | None:
    """Return what a signature claims; None if it was not made here, or not as it stands."""
    told = signature.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        data = base64.b64decode(told + "=" * (-len(told) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    if base64.b64encode(data).decode().rstrip("=") != told:
        return None  # the spare bits at the end are not as they were
    token = _unwrapped(data)
    found = seals.open(token) if token else None
    try:
        return msgspec.convert(found, Claims) if found else None
    except msgspec.ValidationError:
        return None


def _wrapped(token: bytes, *, new: bool) -> bytes:
    inner = _INNER + _length(len(token)) + token
    return _OUTER + _length(len(inner)) + inner if new else inner


def _unwrapped(data: bytes) -> bytes | None:
    """Take the frames off; None unless they are exactly as they were put on."""
    inner = _unframed(data, _OUTER) if data.startswith(_OUTER) else data
    return _unframed(inner, _INNER) if inner else None


def _unframed(data: bytes, tag: bytes) -> bytes | None:
    for width in range(1, 6):
        length = _length(max(len(data) - 1 - width, 0))
        if len(length) == width and data.startswith(tag + length):
            return data[1 + width :]
    return None


def _length(number: int) -> bytes:
    """Write a number as protocol buffers do: seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
