"""Read the media type and the size of an image from its first bytes."""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import NamedTuple

_HEAD_CHARACTERS = 256 * 1024
"""The number of base64 characters to decode: the size is near the start."""
_NO_SIZE = frozenset((0xC4, 0xC8, 0xCC))
"""JPEG markers in the range of frame headers that are none."""

_big = partial(int.from_bytes, byteorder="big")
_little = partial(int.from_bytes, byteorder="little")


class ImageHead(NamedTuple):
    """The facts in the first bytes of an image; empty or 0 if they are missing."""

    media_type: str = ""
    width: int = 0
    height: int = 0


def decode_head(data: str) -> bytes:
    """Decode the start of base64 text; empty if it is not base64."""
    head = data[:_HEAD_CHARACTERS]
    try:
        return base64.b64decode(head[: len(head) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def decoded_size(data: str) -> int:
    """Return the number of bytes that base64 text stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def read_head(data: bytes) -> ImageHead:
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return ImageHead("image/png", _big(data[16:20]), _big(data[20:24]))
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return ImageHead("image/gif", _little(data[6:8]), _little(data[8:10]))
    if data[:3] == b"\xff\xd8\xff":
        return ImageHead("image/jpeg", *_jpeg_size(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ImageHead("image/webp", *_webp_size(data[12:16], data[20:]))
    return ImageHead()


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Go from segment to segment up to the frame header, which has the size. Fill bytes (0xFF) may precede a marker."""
    offset = 2
    while offset + 9 <= len(data) and data[offset] == 0xFF:
        marker = data[offset + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_SIZE:
            return _big(data[offset + 7 : offset + 9]), _big(data[offset + 5 : offset + 7])
        offset += 1 if marker == 0xFF else 2 + _big(data[offset + 2 : offset + 4])
    return 0, 0


def _webp_size(kind: bytes, data: bytes) -> tuple[int, int]:
    if kind == b"VP8X" and len(data) >= 10:
        return _little(data[4:7]) + 1, _little(data[7:10]) + 1
    if kind == b"VP8L" and len(data) >= 5:
        bits = _little(data[1:5])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and len(data) >= 10:
        return _little(data[6:8]) & 0x3FFF, _little(data[8:10]) & 0x3FFF
    return 0, 0
