"""Pictures, sounds and documents as parts: bytes inline, addresses as files."""

from __future__ import annotations

import base64
import re

from tenuto.core.blocks import Audio, Document, Image

__all__ = ["media_part"]

_QUOTED = re.compile(rb"%([0-9a-fA-F]{2})")
_SPELT = {"image/jpg": "image/jpeg", "audio/mpeg3": "audio/mpeg", "audio/x-wav": "audio/wav"}
_STARTS = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "JVBERi0": "application/pdf",
    "SUQz": "audio/mpeg",
    "T2dnUw": "audio/ogg",
    "ZkxhQw": "audio/flac",
}
"""What base64 of each kind begins with."""
_ENDINGS = {
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


def media_part(block: Image | Audio | Document) -> dict[str, dict[str, str]] | None:
    """Write a picture, sound or document as the data of a part; None if it holds none.

    A type that was not given is read off the bytes or the address; an address that does not tell goes without one.
    """
    if block.data:
        return _inline(block, block.mime, block.data)
    if block.url.startswith("data:"):
        head, _, data = block.url[5:].partition(",")
        if not head.endswith(";base64"):
            data = base64.b64encode(_unquoted(data)).decode()
        return _inline(block, block.mime or head.partition(";")[0], data)
    address = block.url or block.file_id
    if not address:
        return None
    mime = _spelt(block.mime) or _ENDINGS.get(address.partition("?")[0].rpartition(".")[2].lower(), "")
    return {"fileData": {"mimeType": mime, "fileUri": address} if mime else {"fileUri": address}}


def _inline(block: Image | Audio | Document, mime: str, data: str) -> dict[str, dict[str, str]]:
    mime = _spelt(mime) or _sniffed(data) or _DEFAULTS[type(block)]
    return {"inlineData": {"mimeType": mime, "data": data}}


def _unquoted(data: str) -> bytes:
    return _QUOTED.sub(lambda quoted: bytes.fromhex(quoted[1].decode()), data.encode("utf-8", "surrogatepass"))


def _spelt(mime: str) -> str:
    return _SPELT.get(mime, mime)


def _sniffed(data: str) -> str:
    if data.startswith("UklGR"):  # RIFF: the type stands eight bytes in
        return {"RUJQ": "image/webp", "QVZF": "audio/wav"}.get(data[12:16], "")
    return next((mime for start, mime in _STARTS.items() if data.startswith(start)), "")
