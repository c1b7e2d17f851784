"""Ids, sealed tokens and chance, all from a seed: the same request gets the same reply, in this process or the next.

A sealed token looks like a provider's: opaque bytes of a realistic size. It says, to whoever holds the seed, what it was
given for, so that no list of tokens has to be kept; and one changed bit makes it say nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import random
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from tenuto.core import jsonio

__all__ = ["BASE62", "Mint", "Seals", "digest", "tokens"]

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PIECE = re.compile(r"\s*\w{1,7}|\s*[^\w\s]{1,3}|\s+")
_NONCE, _TAG = 12, 16
_encode = msgspec.json.Encoder().encode


def digest(*parts: str | bytes) -> str:
    """Return 16 hex digits that stand for these parts, in their order."""
    told = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        told.update(len(data).to_bytes(8, "big"))
        told.update(data)
    return told.hexdigest()


def tokens(text: str) -> int:
    """Return a plausible number of tokens; at least 1 for any text at all."""
    return (len(text) + 3) // 4


class Seals:
    """Makes and opens tokens that only this seed's simulator can read."""

    def __init__(self, seed: str) -> None:
        self._key = hashlib.blake2b(seed.encode(), person=b"tenuto.sim").digest()

    def seal(self, claims: dict[str, Any], nonce: bytes, size: int = 0) -> bytes:
        """Return a token of at least `size` bytes that holds these claims."""
        told = _encode(claims)
        body = len(told).to_bytes(4, "big") + told
        body = body.ljust(size - _NONCE - _TAG, b"\0")
        nonce = nonce[:_NONCE].ljust(_NONCE, b"\0")
        hidden = self._mixed(body, nonce)
        return nonce + hidden + self._tag(nonce + hidden)

    def open(self, token: bytes) -> dict[str, Any] | None:
        """Return what a token claims; None if it was not made here, or is not as it was made."""
        inside, tag = token[:-_TAG], token[-_TAG:]
        if len(inside) < _NONCE + 4 or not hmac.compare_digest(self._tag(inside), tag):
            return None
        body = self._mixed(inside[_NONCE:], inside[:_NONCE])
        claims = jsonio.parse(body[4 : 4 + int.from_bytes(body[:4], "big")])
        return claims if isinstance(claims, dict) else None

    def mac(self, *parts: str | bytes) -> str:
        """Return 16 hex digits that only this seed gives for these parts."""
        return self._tag(digest(*parts).encode()).hex()[:16]

    def _tag(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, key=self._key, digest_size=_TAG).digest()

    def _mixed(self, data: bytes, nonce: bytes) -> bytes:
        stream = hashlib.shake_256(self._key + nonce).digest(len(data))
        return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


class Mint:
    """Everything that looks like chance in one reply: the same for the same seed and request."""

    def __init__(self, seed: str, request: str) -> None:
        self.seals = Seals(seed)
        self.random = random.Random(f"{seed}/{request}")
        self.request = request

    def hex(self, length: int) -> str:
        """Return so many hex digits."""
        return f"{self.random.getrandbits(length * 4):0{length}x}"

    def word(self, length: int, alphabet: str = BASE62) -> str:
        """Return so many letters of an alphabet."""
        return "".join(self.random.choices(alphabet, k=length))

    def seal(self, claims: dict[str, Any], size: int = 0) -> bytes:
        """Return a token of at least `size` bytes that holds these claims."""
        return self.seals.seal(claims, self.random.randbytes(_NONCE), size)

    def pieces(self, text: str | list[str]) -> Iterable[str]:
        """Cut a text as a stream would: by words and parts of words, a few at a time. A list is cut already."""
        if not isinstance(text, str):
            return text
        parts = _PIECE.findall(text)
        if len(parts) < 3:
            return parts
        cut: list[str] = []
        at = 0
        steps = self.random.choices((1, 1, 1, 2, 3), k=len(parts))
        for step in steps:
            if at >= len(parts):
                break
            cut.append("".join(parts[at : at + step]) if step > 1 else parts[at])
            at += step
        return cut
