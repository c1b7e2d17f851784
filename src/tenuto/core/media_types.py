"""Media types: the one table of types by content and by file name, base64, and `data:` URLs."""

import base64
import binascii
import re
from urllib.parse import unquote_to_bytes

_PREFIXES = {
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
_CONTAINERS = {
    (b"RIFF", b"WEBP"): "image/webp",
    (b"RIFF", b"WAVE"): "audio/wav",
    (b"RF64", b"WAVE"): "audio/wav",
    (b"FORM", b"AIFF"): "audio/aiff",
    (b"FORM", b"AIFC"): "audio/aiff",
}
"""Containers that name their content at offset 8."""
_MP4_BRANDS = {
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "image/heic"),
    **dict.fromkeys((b"mif1", b"msf1"), "image/heif"),
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"M4A ", b"M4B ", b"M4P "), "audio/mp4"),
    b"qt  ": "video/quicktime",
}
"""The content of an MP4 container by its brand; any other brand is video."""
_BITMAP_HEADER_SIZES = (12, 40, 52, 56, 64, 108, 124)
_HTML_START = re.compile(rb"\s*(?:<!doctype html|<html)[\s>]", re.IGNORECASE)

_OFFICE = "application/vnd.openxmlformats-officedocument"
_EXTENSIONS = {
    **{name: f"image/{name}" for name in ("png", "jpeg", "gif", "webp", "bmp", "tiff", "heic", "heif", "avif")},
    "jpg": "image/jpeg",
    "tif": "image/tiff",
    **{name: f"audio/{name}" for name in ("wav", "aac", "ogg", "flac", "aiff")},
    "mp3": "audio/mpeg",
    "m4a": "audio/mp4",
    "oga": "audio/ogg",
    "opus": "audio/ogg",
    **{name: f"video/{name}" for name in ("mp4", "webm")},
    "mov": "video/quicktime",
    **{name: f"text/{name}" for name in ("csv", "html")},
    "htm": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
    **{name: f"application/{name}" for name in ("pdf", "json", "xml", "rtf")},
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    "pptx": f"{_OFFICE}.presentationml.presentation",
    "odt": "application/vnd.oasis.opendocument.text",
    "epub": "application/epub+zip",
}
_TEXT_TYPES = ("application/json", "application/xml", "application/yaml", "application/javascript", "application/toml")


def detect_type(data: bytes) -> str:
    """Return the media type that the bytes show; empty if they show none."""
    for prefix, mime in _PREFIXES.items():
        if data.startswith(prefix):
            return mime
    head = data[:64]
    if head[4:8] == b"ftyp":
        return _MP4_BRANDS.get(head[8:12], "video/mp4")
    if (head[:4], head[8:12]) in _CONTAINERS:
        return _CONTAINERS[head[:4], head[8:12]]
    if head[:2] == b"BM" and head[6:10] == bytes(4) and int.from_bytes(head[14:18], "little") in _BITMAP_HEADER_SIZES:
        return "image/bmp"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"%PDF-"):
        return "application/pdf"
    return "text/html" if _HTML_START.match(head) else _audio_frame_type(head)


def _audio_frame_type(head: bytes) -> str:
    """Return the type of audio without a file header, by the sync bits and fields of its first frame."""
    if len(head) < 4 or head[0] != 0xFF:
        return ""
    if head[1] & 0xF6 == 0xF0:
        return "audio/aac"
    is_layer_3 = head[1] & 0xE6 == 0xE2 and head[1] & 0x18 != 0x08
    return "audio/mpeg" if is_layer_3 and head[2] & 0xF0 not in (0, 0xF0) and head[2] & 0x0C != 0x0C else ""


def detect_base64_type(data: str) -> str:
    """Return the media type that bytes in base64 show; empty if they show none."""
    head = data[: min(len(data), 88) // 4 * 4]
    try:
        return detect_type(base64.b64decode(head))
    except ValueError:
        return ""


def type_from_name(name: str) -> str:
    """Return the media type for the extension of a file name; empty for an unknown one."""
    return _EXTENSIONS.get(name.rpartition(".")[2].lower(), "") if "." in name else ""


def extension_for(mime: str) -> str:
    """Return the usual file extension of a media type; empty for an unknown one."""
    return next((extension for extension, known in _EXTENSIONS.items() if known == mime), "")


def is_text(mime: str) -> bool:
    return mime.startswith("text/") or mime in _TEXT_TYPES or mime.endswith(("+json", "+xml"))


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def data_url(mime: str, data: str) -> str:
    """Return the `data:` URL of base64 data."""
    return f"data:{mime};base64,{data}"


def split_data_url(url: str) -> tuple[str, str] | None:
    """Return the media type and the base64 data of a `data:` URL, unchecked; None for any other URL."""
    if url[:5].lower() != "data:":
        return None
    head, _, body = url[5:].partition(",")
    mime, *parameters = head.split(";")
    if "base64" in parameters:
        return mime, body
    return mime, to_base64(unquote_to_bytes(body.encode("utf-8", "replace")))


def parse_data_url(url: str, mime: str = "") -> tuple[bytes, str] | None:
    """Return the bytes and the media type of a `data:` URL; None for any other URL.

    The type is `mime` if that is not empty, else the URL's own, which may be empty. Raise `ValueError` for an invalid URL.
    """
    if url[:5].lower() != "data:":
        return None
    head, comma, body = url[5:].partition(",")
    if not comma:
        raise ValueError("invalid data: URL: it has no comma")
    url_type, *parameters = (word.strip().lower() for word in head.split(";"))
    mime = mime or ("" if url_type == "application/octet-stream" else url_type)
    data = unquote_to_bytes(body.encode("utf-8", "replace"))
    if "base64" not in parameters:
        return data, mime
    packed = b"".join(data.split())
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True), mime
    except binascii.Error as exc:
        raise ValueError(f"invalid base64 in a data: URL: {exc}") from None
