"""Rules of pictures: how large they may be, and that they are what they say they are."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from tenuto.sim.anthropic.opened import Opened
from tenuto.sim.anthropic.pictures import look
from tenuto.sim.anthropic.request_rules import Found
from tenuto.sim.judging import Broken, Checks

__all__ = ["CHECKS"]

CHECKS = Checks()
_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MAX_BYTES = 5 * 1024 * 1024
_HEAD = 1 << 20
"""As much of a picture as is looked at, in letters."""


def _pictures(opened: Opened) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """Yield every picture with its place, those in results too, and the names of a rule's text."""
    for block in opened.blocks("image", "tool_result"):
        if block.type == "image":
            yield block.raw, block.place, block.at
            continue
        inner = block.raw.get("content")
        for at, found in enumerate(inner if isinstance(inner, list) else []):
            if found["type"] == "image":
                yield found, f"{block.place}/content/{at}", block.at


def _data(picture: dict[str, Any]) -> str:
    source = picture["source"]
    data = source.get("data")
    return data if source.get("type") == "base64" and isinstance(data, str) else ""


def _head(picture: dict[str, Any]) -> bytes:
    letters = _data(picture)[:_HEAD]
    try:
        return base64.b64decode(letters[: len(letters) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def _side(picture: dict[str, Any]) -> int:
    shrinks = picture.get("transformations")
    if isinstance(shrinks, dict) and shrinks.get("oversized_image") == "downsize":
        return 0
    return max(look(_head(picture))[1:])


@CHECKS.holds("ANT-MEDIA-04")
def pictures_are_what_they_say(opened: Opened) -> Found:
    """A picture is of a type that can be seen, and of the type that it names."""
    for picture, place, at in _pictures(opened):
        if _data(picture):
            named, found = picture["source"].get("media_type"), look(_head(picture))[0]
            wrong = named not in _TYPES or (opened.model.looks and found not in ("", named))
            fields = {**at, "t": named}
            yield Broken("ANT-MEDIA-04", fields, at=f"{place}/source/media_type") if wrong else None


@CHECKS.holds("ANT-MEDIA-03")
def pictures_are_light(opened: Opened) -> Found:
    """A picture has 5 MB at most."""
    for picture, place, at in _pictures(opened):
        size = len(_data(picture)) * 3 // 4
        if size:
            yield Broken("ANT-MEDIA-03", {**at, "n": size}, at=f"{place}/source") if size > _MAX_BYTES else None


@CHECKS.holds("ANT-MEDIA-01")
def pictures_are_small(opened: Opened) -> Found:
    """A picture has 8000 pixels a side at most."""
    for picture, place, at in _pictures(opened):
        if _data(picture):
            yield Broken("ANT-MEDIA-01", at, at=f"{place}/source") if _side(picture) > 8000 else None


@CHECKS.holds("ANT-MEDIA-02")
def many_pictures_are_smaller(opened: Opened) -> Found:
    """Of more than twenty pictures, each has 2000 pixels a side at most."""
    found = list(_pictures(opened))
    if len(found) > 20:
        for picture, place, at in found:
            yield Broken("ANT-MEDIA-02", at, at=f"{place}/source") if _side(picture) > 2000 else None
