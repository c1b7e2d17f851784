"""Read and write parts of a message: elements of a content list, images, citations."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import ChatMeta, Image, Opaque, Reasoning, UrlCitation
from tenuto.core.media_types import data_url, split_data_url
from tenuto.wire.body_builder import extra_fields
from tenuto.wire.merge import MergedFields, merge_fields
from tenuto.wire.rawjson import Fields, is_list, is_text, object_or_empty, take_text, text_or_empty


class ContentPart(msgspec.Struct):
    kind: Literal["text", "thinking", ""]
    """Empty: neither text nor thinking."""
    text: str = ""
    signature: str = ""
    fields: Fields = {}
    """All other fields."""
    thinking: Raw | None = None
    """The `thinking` field as received."""
    thinking_parts: list[str | Raw] = []
    """The elements of `thinking`: plain texts, and the JSON of every other element."""


class ContentPartBuilder(msgspec.Struct, eq=False):
    """Join the pieces of one thinking element of a content list."""

    signature: str = ""
    fields: MergedFields = msgspec.field(default_factory=MergedFields)
    thinking: Raw | None = None
    parts: list[str | Raw] = []
    count: int = 0

    def add(self, part: ContentPart) -> None:
        self.signature = part.signature or self.signature
        merge_fields(self.fields, part.fields.items())
        self.thinking = part.thinking
        self.parts += part.thinking_parts
        self.count += 1

    def extra(self) -> str:
        """Return the fields that cannot be derived from the text, as the text of an object."""
        thinking, text = self.thinking, _join_texts(self.parts)
        if self.count > 1 and thinking is not None and not is_list(thinking):
            thinking = Raw(jsonio.encode(text))
        elif self.count > 1:
            elements: list[object] = []
            for is_plain, group in itertools.groupby(self.parts, lambda part: isinstance(part, str)):
                parts = list(group)
                elements += _text_list(_join_texts(parts)) if is_plain else parts
            thinking = Raw(jsonio.encode(elements))
        if thinking is None or jsonio.parse(thinking) == _text_list(text):
            return self.fields.text()
        return jsonio.object_text({**self.fields.written(), "thinking": thinking})


def _join_texts(parts: Iterable[str | Raw]) -> str:
    return jsonio.join_surrogates("".join(part for part in parts if isinstance(part, str)))


def _text_list(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}] if text else []


def read_part(raw: Raw) -> ContentPart:
    fields = object_or_empty(raw)
    kind = bytes(fields.pop("type", b"null"))
    if kind == b'"text"' and is_text(fields.get("text")):
        return ContentPart("text", jsonio.text_of(fields.pop("text")), fields=fields)
    if kind != b'"thinking"' or "thinking" not in fields:
        return ContentPart("")
    thinking = fields.pop("thinking")
    signature = take_text(fields, "signature")
    if not is_list(thinking):
        text = text_or_empty(thinking)
        return ContentPart("thinking", text, signature, fields, thinking, [text])
    text, parts = "", list[str | Raw]()
    for element in jsonio.elements(thinking):
        part = read_part(element)
        text += part.text if part.kind == "text" else ""
        parts.append(part.text if part.kind == "text" and not part.fields else element)
    return ContentPart("thinking", text, signature, fields, thinking, parts)


def write_thinking(block: Reasoning) -> dict[str, Any]:
    signature = block.meta.signature if isinstance(block.meta, ChatMeta) else ""
    fields = {"type": "thinking", "thinking": _text_list(block.text)}
    if signature:
        fields["signature"] = signature
    return fields | extra_fields(block.extra)


def read_image(raw: Raw) -> Image | Opaque:
    """Read a generated image: a URL, or its bytes in a data URI."""
    fields = object_or_empty(raw)
    inner = object_or_empty(fields.get("image_url"))
    url = take_text(inner, "url")
    if bytes(fields.get("type", b"")) != b'"image_url"' or not url:
        return Opaque("openai-chat", jsonio.as_text(raw), extra='{"in":"images"}')
    del fields["type"], fields["image_url"]
    if inner:
        fields["image_url"] = Raw(jsonio.encode(inner))
    extra = jsonio.object_text(fields)
    mime, data = split_data_url(url) or ("", "")
    if data and data_url(mime, data) == url:  # with media type parameters, for example, it stays a URL
        return Image(data=data, mime=mime, extra=extra)
    return Image(url=url, extra=extra)


def write_image(block: Image) -> dict[str, Any]:
    """Write an image as an element of `images`."""
    fields = extra_fields(block.extra)
    inner = object_or_empty(fields.pop("image_url", None))
    url = block.url or data_url(block.mime, block.data)
    return {"type": "image_url", "image_url": {"url": url, **inner}, **fields}


# --- citations --------------------------------------------------------------------------------------------------------


def read_annotations(annotations: Iterable[Raw]) -> list[UrlCitation]:
    """Read the `url_citation` annotations of a message; skip the others."""
    citations = []
    for raw in annotations:
        value = jsonio.parse(raw)
        source = value.get("url_citation") if isinstance(value, dict) else None
        if isinstance(source, dict) and isinstance(source.get("url"), str):
            indexes = (source.get("start_index"), source.get("end_index"))
            start, end = (index if type(index) is int else None for index in indexes)
            title, content = _text_or_none(source.get("title")), _text_or_none(source.get("content"))
            citations.append(UrlCitation(source["url"], title, content, start, end))
    return citations


def read_sources(fields: Mapping[str, Raw]) -> list[UrlCitation]:
    """Read the lists next to the choices: `citations` (URLs by number) and `search_results`."""
    if "citations" not in fields and "search_results" not in fields:
        return []
    results: dict[str, dict[str, Any]] = {
        item["url"]: item
        for item in _parse_list(fields.get("search_results"))
        if isinstance(item, dict) and isinstance(item.get("url"), str)
    }
    urls = [url for url in _parse_list(fields.get("citations")) if isinstance(url, str)]
    citations = []
    for url in (*urls, *(url for url in results if url not in urls)):
        result = results.get(url, {})
        citations.append(UrlCitation(url, _text_or_none(result.get("title")), _text_or_none(result.get("snippet"))))
    return citations


def _parse_list(raw: Raw | None) -> list[Any]:
    return jsonio.parse(raw) if raw is not None and is_list(raw) else []


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
