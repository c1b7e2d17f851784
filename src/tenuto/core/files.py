"""Read the content of media blocks from files and bytes. The type that the bytes show wins over the file name."""

from __future__ import annotations

import base64
import pathlib
import re
from typing import TYPE_CHECKING, Any

from tenuto.core.media_types import detect_type, is_text, to_base64, type_from_name

if TYPE_CHECKING:
    from os import PathLike

_URL_SCHEMES = ("http", "https", "gs", "s3")
_URL = re.compile(rf"(?i:{'|'.join(_URL_SCHEMES)})://[^/?#\s\x00-\x1f\x7f][^\s\x00-\x1f\x7f]*")
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def read(path: str | PathLike[str]) -> tuple[bytes, str]:
    """Return the bytes and the name of a file; raise the `OSError` of the system as it is."""
    file = pathlib.Path(path)
    return file.read_bytes(), file.name


def write(path: str | PathLike[str], data: bytes) -> None:
    pathlib.Path(path).write_bytes(data)


def content_of(block: Any) -> bytes:
    """Return the bytes of an image, audio or document; raise `ValueError` if it only refers to them."""
    if block.data:
        return base64.b64decode(block.data)
    if getattr(block, "text", ""):
        return str(block.text).encode()
    kind = type(block).__name__
    if block.url:
        raise ValueError(f"the {kind} has no content, only the URL {block.url[:200]!r}: client.fetch(block) reads it")
    raise ValueError(f"the {kind} has no content, only the file id {block.file_id!r} of its provider")


def read_content(kind: str, data: bytes, mime: str = "", name: str = "") -> dict[str, Any]:
    """Return the fields of an `image`, `audio` or `document` block: `data` and `mime`, and the `text` of a document.

    A document is text if it is UTF-8. Containers for audio and video (MP4, WebM) count as audio. Raise `ValueError` if
    the data is empty, or if its type is unknown or of another kind.
    """
    source = name or "the data"
    if mime and not re.fullmatch(r"[\w.+-]+/[\w.+-]+", mime):
        raise ValueError(f"mime={mime!r} is not a media type: write it as in image/png")
    by_content, by_name = detect_type(data), type_from_name(name)
    file_type = mime or (by_name or by_content if by_content == "application/zip" else by_content or by_name)
    text = plain_text(data) if kind == "document" and (is_text(file_type) or not file_type) else None
    if not data or text == "":
        raise ValueError(f"{source} is empty")
    if text is not None:
        return {"data": "", "mime": mime or "text/plain", "text": text}
    if not file_type:
        raise ValueError(f"unknown media type of {source}: pass mime=, as in mime='image/png'")
    if kind == "audio" and file_type in ("video/mp4", "video/webm"):
        file_type = file_type.replace("video", "audio")
    file_kind = file_type.partition("/")[0]
    if kind == "document":
        if file_kind in ("image", "audio"):
            raise ValueError(f"{source} is {file_type}, not a document: use {file_kind.title()}")
        return {"data": to_base64(data), "mime": file_type, "text": ""}
    if file_kind != kind:
        raise ValueError(f"{source} is {file_type}, not {'an image' if kind == 'image' else 'audio'}")
    return {"data": to_base64(data), "mime": file_type}


def plain_text(data: bytes) -> str | None:
    """Decode UTF-8 without its byte order mark; None for other bytes and for control characters."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if _CONTROL_CHARACTERS.search(text) else text


def check_url(url: str) -> str:
    """Return a URL that a provider can fetch; raise `ValueError` for any other."""
    if not _URL.fullmatch(url):
        shown = url if len(url) <= 80 else f"{url[:80]}…"
        raise ValueError(f"{shown!r} is not a URL of {', '.join(_URL_SCHEMES)} or data: use from_path for files")
    return url
