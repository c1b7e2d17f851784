"""Ids, sealed tokens and random choices, all derived from a seed: the same request gets the same reply in any process.

A sealed token looks like a provider's: opaque bytes of a realistic size. A simulator with the same seed reads from it what
it was issued for, so no list of tokens is needed. A token with one changed bit is invalid.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import random
import re
from collections.abc import Callable, Iterable

import msgspec

from tenuto.rules.body import RequestBody
from tenuto.rules.issued_tokens import IssuedItem, IssuedToken, IssuedTokens, content_digest

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PIECE = re.compile(r"\s*\w{1,7}|\s*[^\w\s]{1,3}|\s+")
_NONCE, _TAG, _LENGTH = 12, 16, 4
_STANDARD = str.maketrans("-_", "+/")
_encode = msgspec.json.Encoder().encode
_decode_token = msgspec.json.Decoder(IssuedToken).decode


def estimate_tokens(text: str) -> int:
    """Return a plausible number of tokens; at least 1 for a text that is not empty."""
    return (len(text) + 3) // 4


class TokenSealer:
    """Seal and open tokens with the key of one seed."""

    def __init__(self, seed: str) -> None:
        self._key = hashlib.blake2b(seed.encode(), person=b"tenuto.sim").digest()

    def seal(self, token: IssuedToken, nonce: bytes, size: int = 0) -> str:
        """Return the token as base64 text of at least `size` bytes."""
        content = _encode(token)
        content = (len(content).to_bytes(_LENGTH, "big") + content).ljust(size - _NONCE - _TAG, b"\0")
        nonce = nonce[:_NONCE].ljust(_NONCE, b"\0")
        sealed = nonce + self._mask(content, nonce)
        return base64.b64encode(sealed + self._tag(sealed)).decode()

    def open(self, text: str) -> IssuedToken | None:
        """Return the token; None if it was not sealed with this seed or was changed.

        Both alphabets of base64 are accepted, with or without padding: clients convert between them.
        """
        plain = text.translate(_STANDARD).rstrip("=")
        try:
            data = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        except (binascii.Error, ValueError):
            return None
        sealed, tag = data[:-_TAG], data[-_TAG:]
        if base64.b64encode(data).decode().rstrip("=") != plain:  # unused bits of the last character
            return None
        if len(sealed) < _NONCE + _LENGTH or not hmac.compare_digest(self._tag(sealed), tag):
            return None
        content = self._mask(sealed[_NONCE:], sealed[:_NONCE])
        try:
            return _decode_token(content[_LENGTH : _LENGTH + int.from_bytes(content[:_LENGTH], "big")])
        except msgspec.DecodeError:
            return None

    def mac(self, *parts: str | bytes) -> str:
        """Return 16 hex digits that only this seed gives for these parts."""
        return self._tag(content_digest(*parts).encode()).hex()[:16]

    def _tag(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, key=self._key, digest_size=_TAG).digest()

    def _mask(self, data: bytes, nonce: bytes) -> bytes:
        stream = hashlib.shake_256(self._key + nonce).digest(len(data))
        return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


class SealedTokens(IssuedTokens):
    """The tokens of earlier replies, read from the tokens themselves."""

    is_known = True

    def __init__(
        self,
        sealer: TokenSealer,
        read_id: Callable[[TokenSealer, str], IssuedItem | None],
        prefix_digests: Callable[[RequestBody, int], tuple[str, ...]],
    ) -> None:
        self._sealer = sealer
        self._read_id = read_id
        self._prefix_digests = prefix_digests

    def find(self, token: str) -> IssuedToken | None:
        return self._sealer.open(token)

    def item(self, id: str) -> IssuedItem | None:
        return self._read_id(self._sealer, id)

    def has_prefix(self, token: IssuedToken, body: RequestBody, turn: int) -> bool:
        """Compare the digests of everything before a turn with that of the token."""
        return not token.prefix or token.prefix in self._prefix_digests(body, turn)


class SeededRandom:
    """The random choices of one reply: the same for the same seed and request."""

    def __init__(self, seed: str, request: str) -> None:
        self.sealer = TokenSealer(seed)
        self.random = random.Random(f"{seed}/{request}")

    def hex(self, length: int) -> str:
        return f"{self.random.getrandbits(length * 4):0{length}x}"

    def word(self, length: int, alphabet: str = BASE62) -> str:
        return "".join(self.random.choices(alphabet, k=length))

    def token(self, token: IssuedToken, size: int = 0) -> str:
        return self.sealer.seal(token, self.random.randbytes(_NONCE), size)

    def pieces(self, text: str | list[str]) -> Iterable[str]:
        """Split a text as a stream would, by words and parts of words. A list is already split."""
        if not isinstance(text, str):
            return text
        parts = _PIECE.findall(text)
        if len(parts) < 3:
            return parts
        pieces: list[str] = []
        start = 0
        for step in self.random.choices((1, 1, 1, 2, 3), k=len(parts)):
            if start >= len(parts):
                break
            pieces.append("".join(parts[start : start + step]) if step > 1 else parts[start])
            start += step
        return pieces
