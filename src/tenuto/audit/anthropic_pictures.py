"""Pictures: how large, how heavy, and whether they are what they say."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, NamedTuple

from tenuto.audit.anthropic_body import blocks, kind, natively, text_of
from tenuto.audit.looking import Broken, Checks, Sent, once

__all__ = ["CHECKS", "Picture", "seen"]

CHECKS = Checks()

_SEEN = ("image/png", "image/jpeg", "image/gif", "image/webp")
_HEAVY = 5 * 1024 * 1024
_LOOKED_AT = 256 * 1024  # letters of base64: what a picture is stands near its start
_NO_SIZE = frozenset((0xC4, 0xC8, 0xCC))


class Picture(NamedTuple):
    """What the first bytes say: the media type, and the sides as far as they are told there."""

    type: str = ""
    width: int = 0
    height: int = 0


@CHECKS.holds("ANT-MEDIA-01")
@natively
def side(sent: Sent) -> Iterator[Broken]:
    """No side has more than 8000 pixels."""
    for pointer, block, picture in _pictures(sent):
        if max(picture.width, picture.height) > 8000 and not _shrinks(block):
            yield _broken("ANT-MEDIA-01", pointer)


@CHECKS.holds("ANT-MEDIA-02")
@natively
def side_among_many(sent: Sent) -> Iterator[Broken]:
    """Of more than twenty pictures, no side has more than 2000 pixels."""
    if sum(kind(block) == "image" for _, block in blocks(sent)) <= 20:
        return
    for pointer, block, picture in _pictures(sent):
        if max(picture.width, picture.height) > 2000 and not _shrinks(block):
            yield _broken("ANT-MEDIA-02", pointer)


@CHECKS.holds("ANT-MEDIA-03")
@natively
def weight(sent: Sent) -> Iterator[Broken]:
    """A picture has at most 5 MB."""
    for pointer, block in _encoded(sent):
        data = block["source"]["data"]
        size = len(data) * 3 // 4 - data[-2:].count("=")
        if size > _HEAVY:
            yield _broken("ANT-MEDIA-03", pointer, n=size)


@CHECKS.holds("ANT-MEDIA-04")
@natively
def media_type(sent: Sent) -> Iterator[Broken]:
    """A picture is of one of the types that are seen, and of the one it names; models that do not think took any name."""
    modes = sent.target.traits.thinking
    strict = bool(sent.model and modes) and "none" not in modes
    for pointer, block, picture in _pictures(sent):
        told = text_of(block["source"], "media_type")
        if told not in _SEEN or (strict and picture.type not in ("", told)):
            yield Broken("ANT-MEDIA-04", {**_numbers(pointer), "t": told}, at=f"{pointer}/source/media_type")


def _encoded(sent: Sent) -> Iterator[tuple[str, dict[str, Any]]]:
    for pointer, block in blocks(sent):
        if kind(block) != "image":
            continue
        source = block.get("source")
        if kind(source) == "base64" and text_of(source, "data"):
            yield pointer, block


@once
def _pictures(sent: Sent) -> list[tuple[str, dict[str, Any], Picture]]:
    found = []
    for pointer, block in _encoded(sent):
        head = block["source"]["data"][:_LOOKED_AT]
        try:
            data = base64.b64decode(head[: len(head) // 4 * 4])
        except (binascii.Error, ValueError):
            data = b""
        found.append((pointer, block, seen(data)))
    return found


def _shrinks(block: dict[str, Any]) -> bool:
    return text_of(block.get("transformations"), "oversized_image") == "downsize"


def _numbers(pointer: str) -> dict[str, Any]:
    parts = pointer.split("/")
    return {"i": parts[2], "j": parts[4]}


def _broken(rule: str, pointer: str, **fields: Any) -> Broken:
    return Broken(rule, {**_numbers(pointer), **fields}, at=f"{pointer}/source")


# --- what the bytes say -----------------------------------------------------------------------------------------------


def seen(data: bytes) -> Picture:
    """Read what a picture is off its first bytes; nothing is said of what they do not tell."""
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return Picture("image/png", _big(data[16:20]), _big(data[20:24]))
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return Picture("image/gif", _little(data[6:8]), _little(data[8:10]))
    if data[:3] == b"\xff\xd8\xff":
        return Picture("image/jpeg", *_jpeg(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return Picture("image/webp", *_webp(data[12:16], data[20:]))
    return Picture()


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _jpeg(data: bytes) -> tuple[int, int]:
    """Walk from segment to segment up to the frame, which has the size."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_SIZE:
            return _big(data[at + 7 : at + 9]), _big(data[at + 5 : at + 7])
        at += 1 if marker == 0xFF else 2 + _big(data[at + 2 : at + 4])
    return 0, 0


def _webp(form: bytes, data: bytes) -> tuple[int, int]:
    if form == b"VP8X" and len(data) >= 10:
        return _little(data[4:7]) + 1, _little(data[7:10]) + 1
    if form == b"VP8L" and len(data) >= 5:
        bits = _little(data[1:5])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 " and len(data) >= 10:
        return _little(data[6:8]) & 0x3FFF, _little(data[8:10]) & 0x3FFF
    return 0, 0
