"""The one place of the core that reads a file: its bytes, its media type, and whether it is text.

What the bytes say counts more than the name of the file: a picture that was saved under the wrong ending is sent as
what it is. A name counts where the bytes do not tell.
"""

from __future__ import annotations

import base64
import binascii
import pathlib
import re
from typing import NamedTuple, Protocol

__all__ = [
    "FileContent",
    "FilePath",
    "checked_url",
    "data_url",
    "encoded",
    "is_text",
    "media_type",
    "plain_text",
    "read",
    "read_audio",
    "read_document",
    "read_image",
    "type_from_name",
]


class FilePath(Protocol):
    """What names a file without being a string: `pathlib.Path` and its like."""

    def __fspath__(self) -> str:
        """Return the path as a string."""


class FileContent(NamedTuple):
    """What a block is made of: base64 `data` or plain `text`, and its media type."""

    data: str
    mime: str
    text: str = ""


# --- telling what it is -----------------------------------------------------------------------------------------------

_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"II*\x00": "image/tiff",
    b"MM\x00*": "image/tiff",
    b"ID3": "audio/mpeg",
    b"OggS": "audio/ogg",
    b"fLaC": "audio/flac",
    b"#!AMR": "audio/amr",
    b"%PDF-": "application/pdf",
    b"{\\rtf": "application/rtf",
    b"PK\x03\x04": "application/zip",
    b"\x1aE\xdf\xa3": "video/webm",
}
_FORMS = {
    (b"RIFF", b"WEBP"): "image/webp",
    (b"RIFF", b"WAVE"): "audio/wav",
    (b"RF64", b"WAVE"): "audio/wav",
    (b"FORM", b"AIFF"): "audio/aiff",
    (b"FORM", b"AIFC"): "audio/aiff",
}
"""Containers that say what they hold eight bytes in."""
_BRANDS = {
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "image/heic"),
    **dict.fromkeys((b"mif1", b"msf1"), "image/heif"),
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"M4A ", b"M4B ", b"M4P "), "audio/mp4"),
    b"qt  ": "video/quicktime",
}
"""What an MP4 container holds, by its brand; any other brand is a film."""
_BITMAP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
_HTML = re.compile(rb"\s*(?:<!doctype html|<html)[\s>]", re.IGNORECASE)

_OFFICE = "application/vnd.openxmlformats-officedocument"
_ENDINGS = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "heic": "image/heic",
    "heif": "image/heif",
    "avif": "image/avif",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "m4a": "audio/mp4",
    "aac": "audio/aac",
    "ogg": "audio/ogg",
    "oga": "audio/ogg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "aiff": "audio/aiff",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "htm": "text/html",
    "json": "application/json",
    "xml": "application/xml",
    "rtf": "application/rtf",
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    "pptx": f"{_OFFICE}.presentationml.presentation",
    "odt": "application/vnd.oasis.opendocument.text",
    "epub": "application/epub+zip",
}
_WRITTEN = ("application/json", "application/xml", "application/yaml", "application/javascript", "application/toml")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def media_type(data: bytes) -> str:
    """Tell the media type by the bytes themselves; empty if they do not tell."""
    for start, mime in _STARTS.items():
        if data.startswith(start):
            return mime
    head = data[:64]
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    if (head[:4], head[8:12]) in _FORMS:
        return _FORMS[head[:4], head[8:12]]
    if head[:2] == b"BM" and head[6:10] == bytes(4) and int.from_bytes(head[14:18], "little") in _BITMAP_HEADERS:
        return "image/bmp"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"%PDF-"):
        return "application/pdf"
    return "text/html" if _HTML.match(head) else _frames(head)


def _frames(head: bytes) -> str:
    """Tell sound that has no header but begins with its first frame: a row of set bits, then fields that must fit."""
    if len(head) < 4 or head[0] != 0xFF:
        return ""
    if head[1] & 0xF6 == 0xF0:
        return "audio/aac"
    third_layer = head[1] & 0xE6 == 0xE2 and head[1] & 0x18 != 0x08
    return "audio/mpeg" if third_layer and head[2] & 0xF0 not in (0, 0xF0) and head[2] & 0x0C != 0x0C else ""


def type_from_name(name: str) -> str:
    """Tell the media type by the ending of a name; empty for an ending that is not known."""
    return _ENDINGS.get(name.rpartition(".")[2].lower(), "") if "." in name else ""


def is_text(mime: str) -> bool:
    """Tell whether a media type is that of something written."""
    return mime.startswith("text/") or mime in _WRITTEN or mime.endswith(("+json", "+xml"))


def plain_text(data: bytes) -> str | None:
    """Read UTF-8, without its byte order mark; None for anything else, and for bytes that no text holds."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if _CONTROLS.search(text) else text


# --- making a block ---------------------------------------------------------------------------------------------------


def read(path: str | FilePath) -> tuple[bytes, str]:
    """Return a file's bytes and its name. What the system says of a file that cannot be read is raised as it is."""
    where = pathlib.Path(path)
    return where.read_bytes(), where.name


def read_image(data: bytes, mime: str = "", name: str = "") -> FileContent:
    """Make a picture's content; raise `ValueError` if it is none, or if nothing tells what it is."""
    return _as("image", data, mime, name)


def read_audio(data: bytes, mime: str = "", name: str = "") -> FileContent:
    """Make a sound's content; raise `ValueError` if it is none, or if nothing tells what it is.

    A container that may also hold a film counts as sound here.
    """
    return _as("audio", data, mime, name)


def read_document(data: bytes, mime: str = "", name: str = "") -> FileContent:
    """Make a document's content: text where it is UTF-8, base64 otherwise.

    Raise `ValueError` if it is a picture or a sound, or if nothing tells what it is.
    """
    _refuse_empty(data, name)
    found = _type_of(data, mime, name)
    text = plain_text(data) if is_text(found) or not found else None
    if text is not None and not text:
        raise ValueError(f"{_called(name)} is empty")
    if text is not None:
        return FileContent("", mime or "text/plain", text)
    if not found:
        raise _unknown_type(name)
    if found.startswith(("image/", "audio/")):
        kind = "Image" if found.startswith("image/") else "Audio"
        raise ValueError(f"{_called(name)} is no document but {found}: use {kind}")
    return FileContent(encoded(data), found)


def _as(kind: str, data: bytes, mime: str, name: str) -> FileContent:
    _refuse_empty(data, name)
    found = _type_of(data, mime, name)
    if not found:
        raise _unknown_type(name)
    if kind == "audio" and found in ("video/mp4", "video/webm"):
        found = found.replace("video", "audio")
    if not found.startswith(f"{kind}/"):
        raise ValueError(f"{_called(name)} is no {kind} but {found}")
    return FileContent(encoded(data), found)


def _type_of(data: bytes, mime: str, name: str) -> str:
    if mime:
        if not re.fullmatch(r"[\w.+-]+/[\w.+-]+", mime):
            raise ValueError(f"mime={mime!r} is no media type: write it as in image/png")
        return mime
    told, named = media_type(data), type_from_name(name)
    return named or told if told == "application/zip" else told or named


def _refuse_empty(data: bytes, name: str) -> None:
    if not data:
        raise ValueError(f"{_called(name)} is empty")


def _unknown_type(name: str) -> ValueError:
    return ValueError(f"cannot tell what {_called(name)} is: pass mime=, as in mime='image/png'")


def _called(name: str) -> str:
    return name or "this"


def encoded(data: bytes) -> str:
    """Return bytes as base64, in one line."""
    return base64.b64encode(data).decode("ascii")


# --- addresses --------------------------------------------------------------------------------------------------------

_PASSED_ON = ("http", "https", "gs", "s3")
_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(?://)?[^\s\x00-\x1f\x7f]+")
_QUOTED = re.compile(rb"%([0-9a-fA-F]{2})")


def checked_url(url: str) -> str:
    """Return an address that a provider may be told; raise `ValueError` for any other."""
    found = _ADDRESS.fullmatch(url)
    scheme = found[1].lower() if found else ""
    if scheme not in _PASSED_ON or not re.match(r"\w+://[^/?#]", url):
        shown = url if len(url) <= 80 else f"{url[:80]}…"
        raise ValueError(f"{shown!r} is no address of the kinds {', '.join(_PASSED_ON)} or data: from_path reads files")
    return url


def data_url(url: str, mime: str = "") -> tuple[bytes, str] | None:
    """Take a `data:` URL apart into bytes and media type; None for any other URL.

    The type is empty where the URL does not say, and `mime` where that is given. Raise `ValueError` if it is broken.
    """
    if url[:5].lower() != "data:":
        return None
    head, comma, body = url[5:].partition(",")
    if not comma:
        raise ValueError("a data: URL without a comma holds nothing")
    told, *parameters = (word.strip().lower() for word in head.split(";"))
    mime = mime or ("" if told == "application/octet-stream" else told)
    quoted = body.encode("utf-8", "replace")
    data = _QUOTED.sub(lambda found: bytes.fromhex(found[1].decode()), quoted) if b"%" in quoted else quoted
    if "base64" not in parameters:
        return data, mime
    packed = b"".join(data.split())
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True), mime
    except binascii.Error as exc:
        raise ValueError(f"a data: URL that is no base64: {exc}") from None
