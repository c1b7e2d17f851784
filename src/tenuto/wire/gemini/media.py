"""Write images, audio and documents as parts: bytes inline, URLs as files."""

from __future__ import annotations

import base64
import re

from tenuto.core.blocks import Audio, Document, Image

_PERCENT_ESCAPE = re.compile(rb"%([0-9a-fA-F]{2})")
_ALIASES = {"image/jpg": "image/jpeg", "audio/mpeg3": "audio/mpeg", "audio/x-wav": "audio/wav"}
_BASE64_PREFIXES = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "JVBERi0": "application/pdf",
    "SUQz": "audio/mpeg",
    "T2dnUw": "audio/ogg",
    "ZkxhQw": "audio/flac",
}
_SUFFIXES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
}
_DEFAULTS: dict[type[Image | Audio | Document], str] = {
    Image: "image/png",
    Audio: "audio/wav",
    Document: "application/pdf",
}


def write_media(block: Image | Audio | Document) -> dict[str, dict[str, str]] | None:
    """Write an image, audio or document as the data of a part; None if it has neither bytes nor a URL.

    Without a media type, the bytes or the suffix of the URL decide; for a URL without a known suffix it is omitted.
    """
    mime = _ALIASES.get(block.mime, block.mime)
    data, url = block.data, block.url
    if not data and url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        if not head.endswith(";base64"):
            data = base64.b64encode(_unquote(data)).decode()
        url_mime = head.partition(";")[0]
        mime = mime or _ALIASES.get(url_mime, url_mime)
    elif not data:
        uri = url or block.file_id
        if not uri:
            return None
        mime = mime or _SUFFIXES.get(uri.partition("?")[0].rpartition(".")[2].lower(), "")
        return {"fileData": {"mimeType": mime, "fileUri": uri} if mime else {"fileUri": uri}}
    return {"inlineData": {"mimeType": mime or _detect_type(data) or _DEFAULTS[type(block)], "data": data}}


def _unquote(data: str) -> bytes:
    return _PERCENT_ESCAPE.sub(lambda escape: bytes.fromhex(escape[1].decode()), data.encode("utf-8", "surrogatepass"))


def _detect_type(data: str) -> str:
    if data.startswith("UklGR"):  # RIFF: the type is eight bytes in
        return {"RUJQ": "image/webp", "QVZF": "audio/wav"}.get(data[12:16], "")
    return next((mime for prefix, mime in _BASE64_PREFIXES.items() if data.startswith(prefix)), "")
