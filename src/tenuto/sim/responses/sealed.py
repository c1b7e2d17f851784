"""Encrypted content: a blob that says, to whoever made it, which reasoning item it is and for whom.

The summary is no part of it: clients that kept the blob alone send an empty one, and that is taken.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from tenuto.sim.asked import Request
from tenuto.sim.mint import Mint, Seals

__all__ = ["claims_of", "seal"]

_VERSION = b"\x80"
_HEAD = 9
_SMALLEST, _LARGEST = 600, 4000


def seal(mint: Mint, request: Request, claims: dict[str, Any], made: int, thought: int) -> str:
    """Return the blob for a reasoning item: the longer the thought, the larger, within what is seen in traffic."""
    told = claims | {"account": request.account, "style": request.style.name, "model": request.model, "made": made}
    letters = min(max(_SMALLEST, int(thought * 1.4) + mint.random.randrange(_SMALLEST, 1600)), _LARGEST - 8)
    token = mint.seal(told, letters * 3 // 4 - _HEAD)
    if request.style.name == "xai":
        return base64.b64encode(token).decode().rstrip("=")
    return base64.urlsafe_b64encode(_VERSION + made.to_bytes(8, "big") + token).decode()


def claims_of(seals: Seals, blob: Any) -> dict[str, Any] | None:
    """Return what a blob claims; None if it was not made here or is not, to the letter, as it was made."""
    return (_unpadded(seals, blob) or _padded(seals, blob)) if isinstance(blob, str) else None


def _padded(seals: Seals, blob: str) -> dict[str, Any] | None:
    data = _decoded(blob, b"-_")
    if data is None or base64.urlsafe_b64encode(data).decode() != blob or data[:1] != _VERSION:
        return None
    claims = seals.open(data[_HEAD:])
    return claims if claims and claims.get("made") == int.from_bytes(data[1:_HEAD], "big") else None


def _unpadded(seals: Seals, blob: str) -> dict[str, Any] | None:
    data = _decoded(blob + "=" * (-len(blob) % 4), b"+/")
    if data is None or base64.b64encode(data).decode().rstrip("=") != blob:
        return None
    return seals.open(data)


def _decoded(text: str, alphabet: bytes) -> bytes | None:
    try:
        return base64.b64decode(text.encode("ascii", "replace"), alphabet, validate=True)
    except binascii.Error:
        return None
