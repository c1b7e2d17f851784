"""Any file or URL as a part of a message: an image, audio, a document, or text in a fence with its name.

The bytes decide the media type before the name does. A URL is passed on: the provider reads it.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from tenuto.core import files, media_types
from tenuto.core.blocks import Audio, Document, Image, Text
from tenuto.core.messages import Content

_MAX_TEXT_BYTES = 20_000_000
"""The limit for the text of one file: some five million tokens."""
_URL_SCHEMES = ("http", "https", "gs", "s3")
_SUPPORTED = "images, audio, video, PDF and office documents, and UTF-8 text"


def part_from_bytes(data: bytes, name: str) -> Content:
    """Return the part for the content of a file. Raise `ValueError`, without the name, for a type that cannot be sent."""
    kind = _media_type(data, name)
    if media := _media_class(kind):
        return media.from_bytes(data, kind)
    text = files.plain_text(data) if kind != "application/pdf" else None
    if text is not None:
        return _text_part(text, name, len(data))
    if not kind or media_types.is_text(kind) or kind == "application/zip":
        what = f"it is {kind}" if kind == "application/zip" else "it is not UTF-8 text, and its type is unknown"
        raise ValueError(f"cannot be attached ({len(data):,} bytes): {what}; supported are {_SUPPORTED}")
    return Document.from_bytes(data, kind, title=name.replace("\\", "/").rpartition("/")[2])


def part_from_url(url: str) -> Content:
    """Return a part with a URL whose suffix names a supported type. Raise `ValueError` for another URL."""
    split = urlsplit(url)
    if split.scheme not in _URL_SCHEMES:
        raise ValueError(f"a URL starts with {', '.join(_URL_SCHEMES)}; a file is named by its path alone")
    checked = files.check_url(url)
    kind = media_types.type_from_name(split.path.rpartition("/")[2])
    if media := _media_class(kind):
        return media.from_url(checked, mime=kind)
    if not kind or media_types.is_text(kind):
        raise ValueError("URL type unknown: it must end in .png, .pdf, ...")
    return Document.from_url(checked, mime=kind)


def _media_class(kind: str) -> type[Image | Audio] | None:
    return Image if kind.startswith("image/") else Audio if kind.startswith("audio/") else None


def _media_type(data: bytes, name: str) -> str:
    """Return the type of the bytes; the name decides for containers and for unknown bytes that are not text."""
    detected, named = media_types.detect_type(data), media_types.type_from_name(name)
    is_audio = detected in ("video/mp4", "video/webm") and named.startswith("audio/")
    if named and (is_audio or detected == "application/zip"):
        return named
    return detected or ("text/plain" if files.plain_text(data) is not None else named)


def _text_part(text: str, name: str, size: int) -> Text:
    if size > _MAX_TEXT_BYTES:
        raise ValueError(f"is too large: {size / 1e6:,.1f} MB of text; the limit is {_MAX_TEXT_BYTES / 1e6:,.0f} MB")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    title = name.replace('"', "'").replace("`", "'")
    return Text(f'File "{title}":\n{fence}\n{text}{"" if text.endswith(chr(10)) else chr(10)}{fence}')
