"""Read the content of image, audio and document blocks from files and bytes.

The type that the bytes show wins over the file name, so that an image with a wrong extension is sent with its real type.
"""

from __future__ import annotations

import functools
import pathlib
import re
from typing import TYPE_CHECKING, NamedTuple

from tenuto.core.media_types import detect_type, is_text, to_base64, type_from_name

if TYPE_CHECKING:
    from os import PathLike

_URL_SCHEMES = ("http", "https", "gs", "s3")
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(?://)?[^\s\x00-\x1f\x7f]+")
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class FileContent(NamedTuple):
    """The content of a block: base64 `data` or plain `text`."""

    data: str
    mime: str
    text: str = ""


def read(path: str | PathLike[str]) -> tuple[bytes, str]:
    """Return the bytes and the name of a file; raise the `OSError` of the system as it is."""
    file = pathlib.Path(path)
    return file.read_bytes(), file.name


def read_media(kind: str, data: bytes, mime: str = "", name: str = "") -> FileContent:
    """Return the content of an `image` or `audio`; raise `ValueError` if the type is unknown or of another kind.

    Containers for audio and video (MP4, WebM) count as audio.
    """
    file_type = _type_of(data, mime, name)
    if not file_type:
        raise _unknown_type(name)
    if kind == "audio" and file_type in ("video/mp4", "video/webm"):
        file_type = file_type.replace("video", "audio")
    if not file_type.startswith(f"{kind}/"):
        expected = "an image" if kind == "image" else "audio"
        raise ValueError(f"{name or 'the data'} is {file_type}, not {expected}")
    return FileContent(to_base64(data), file_type)


read_image = functools.partial(read_media, "image")
read_audio = functools.partial(read_media, "audio")


def read_document(data: bytes, mime: str = "", name: str = "") -> FileContent:
    """Return the content of a document: text if it is UTF-8, else base64.

    Raise `ValueError` if the type is unknown, an image or audio.
    """
    file_type = _type_of(data, mime, name)
    text = plain_text(data) if is_text(file_type) or not file_type else None
    if text is not None:
        if not text:
            raise ValueError(f"{name or 'the data'} is empty")
        return FileContent("", mime or "text/plain", text)
    if not file_type:
        raise _unknown_type(name)
    if file_type.startswith(("image/", "audio/")):
        kind = "Image" if file_type.startswith("image/") else "Audio"
        raise ValueError(f"{name or 'the data'} is {file_type}, not a document: use {kind}")
    return FileContent(to_base64(data), file_type)


def _type_of(data: bytes, mime: str, name: str) -> str:
    if not data:
        raise ValueError(f"{name or 'the data'} is empty")
    if mime:
        if not re.fullmatch(r"[\w.+-]+/[\w.+-]+", mime):
            raise ValueError(f"mime={mime!r} is not a media type: write it as in image/png")
        return mime
    by_content, by_name = detect_type(data), type_from_name(name)
    return by_name or by_content if by_content == "application/zip" else by_content or by_name


def _unknown_type(name: str) -> ValueError:
    return ValueError(f"unknown media type of {name or 'the data'}: pass mime=, as in mime='image/png'")


def plain_text(data: bytes) -> str | None:
    """Decode UTF-8 without its byte order mark; None for other bytes and for control characters."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if _CONTROL_CHARACTERS.search(text) else text


def check_url(url: str) -> str:
    """Return a URL that a provider can fetch; raise `ValueError` for any other."""
    match = _URL.fullmatch(url)
    scheme = match[1].lower() if match else ""
    if scheme not in _URL_SCHEMES or not re.match(r"\w+://[^/?#]", url):
        shown = url if len(url) <= 80 else f"{url[:80]}…"
        raise ValueError(f"{shown!r} is not a URL of {', '.join(_URL_SCHEMES)} or data: use from_path for files")
    return url
