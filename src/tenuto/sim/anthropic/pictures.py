"""Looks at the first bytes of a picture: what it is, and how large."""

from __future__ import annotations

__all__ = ["look"]

_NO_SIZE = frozenset((0xC4, 0xC8, 0xCC))


def look(data: bytes) -> tuple[str, int, int]:
    """Return media type, width and height; empty and 0 for what cannot be told."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png", _number(data[16:20]), _number(data[20:24])
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif", _little(data[6:8]), _little(data[8:10])
    if data.startswith(b"\xff\xd8"):
        return "image/jpeg", *_jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp", *_webp(data)
    return "", 0, 0


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_SIZE:
            return _number(data[at + 7 : at + 9]), _number(data[at + 5 : at + 7])
        at += 2 + _number(data[at + 2 : at + 4])
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return _little(data[24:27]) + 1, _little(data[27:30]) + 1
        case b"VP8L":
            bits = _little(data[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
    return 0, 0
