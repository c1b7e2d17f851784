"""Write images, audio and documents as parts: bytes inline, URLs as files."""

from __future__ import annotations

from tenuto.core.blocks import Audio, Document, Image
from tenuto.core.media_types import detect_base64_type, split_data_url, type_from_name

_ALIASES = {"image/jpg": "image/jpeg", "audio/mpeg3": "audio/mpeg", "audio/x-wav": "audio/wav"}
_DEFAULTS: dict[type[Image | Audio | Document], str] = {
    Image: "image/png",
    Audio: "audio/wav",
    Document: "application/pdf",
}


def write_media(block: Image | Audio | Document) -> dict[str, dict[str, str]] | None:
    """Write an image, audio or document as the data of a part; None if it has neither bytes nor a URL.

    Without a media type, the bytes or the suffix of the URL decide; for a URL without a known suffix it is omitted.
    """
    mime, data = block.mime, block.data
    if not data and (url := split_data_url(block.url)):
        mime, data = mime or url[0], url[1]
    elif not data:
        uri = block.url or block.file_id
        mime = _ALIASES.get(mime, mime) or type_from_name(uri.partition("?")[0])
        return {"fileData": {"mimeType": mime, "fileUri": uri} if mime else {"fileUri": uri}} if uri else None
    mime = _ALIASES.get(mime, mime) or detect_base64_type(data) or _DEFAULTS[type(block)]
    return {"inlineData": {"mimeType": mime, "data": data}}
