"""Read and write the parts of content lists, images, citations, think tags and `reasoning_details`."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import ChatMeta, Image, Opaque, Reasoning, UrlCitation
from tenuto.core.jsonio import Fields, is_list, is_object, is_text, object_or_empty, take_text, text_or_empty
from tenuto.core.media_types import data_url, split_data_url
from tenuto.wire.assembler import MergedFields, merge_fields
from tenuto.wire.body_builder import extra_fields


class ContentPart(msgspec.Struct):
    kind: Literal["text", "thinking", ""]  # empty: neither text nor thinking
    text: str = ""
    signature: str = ""
    fields: Fields = {}  # all other fields
    thinking: Raw | None = None  # the `thinking` field as received
    thinking_parts: list[str | Raw] = []  # the elements of `thinking`: plain texts, and the JSON of every other element


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


SOURCE_FIELDS = frozenset(("citations", "search_results"))


def read_sources(fields: Mapping[str, Raw]) -> list[UrlCitation]:
    """Read the lists next to the choices: `citations` (URLs by number) and `search_results`."""
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


# --- think tags -------------------------------------------------------------------------------------------------------
#
# Some models write reasoning into their text, between `<think>` and `</think>`. Only a tag at the start of the text counts;
# whitespace may precede it. A later `<think>` is ordinary text. Nothing is trimmed, so the original text can be restored.


OPEN = "<think>"
CLOSE = "</think>"


class ThinkTags:
    """Split text that arrives in pieces into reasoning and answer, as early as possible."""

    def __init__(self) -> None:
        self.has_open_tag = False
        self.has_close_tag = False
        self.is_done = False  # all further text is answer
        self._blanks: list[str] = []  # whitespace before the opening tag
        self._buffer = ""  # the possible start of a tag

    @property
    def is_pending(self) -> bool:
        """Whether text is held back, or the reasoning is open."""
        return not self.is_done and bool(self.has_open_tag or self._buffer or self._blanks)

    def feed(self, piece: str) -> tuple[str, str]:
        """Add a piece of text; return the reasoning and the answer that are certain now."""
        if self.is_done:
            return "", piece
        text, self._buffer = self._buffer + piece, ""
        if not self.has_open_tag:
            rest = text.lstrip()
            if not rest.startswith(OPEN) and not OPEN.startswith(rest):
                self.is_done = True
                return "", "".join(self._blanks) + text
            self._blanks.append(text[: len(text) - len(rest)])
            if not rest.startswith(OPEN):
                self._buffer = rest
                return "", ""
            self.has_open_tag = True
            text = rest[len(OPEN) :]
        end = text.find(CLOSE)
        if end >= 0:
            self.has_close_tag = self.is_done = True
            return text[:end], text[end + len(CLOSE) :]
        size = next((n for n in range(min(len(CLOSE) - 1, len(text)), 0, -1) if CLOSE.startswith(text[-n:])), 0)
        self._buffer = text[len(text) - size :]
        return text[: len(text) - size], ""

    def flush(self) -> tuple[str, str]:
        """Return the text that was held back, at the end of the stream."""
        text, self._buffer = self._buffer, ""
        if self.is_done:
            return "", ""
        self.is_done = True
        return (text, "") if self.has_open_tag else ("", "".join(self._blanks) + text)

    def extra(self) -> str:
        """Return extra fields for the reasoning block: whitespace before the tag, a missing closing tag."""
        fields: dict[str, Raw] = {}
        if before := "".join(self._blanks):
            fields["before"] = Raw(jsonio.encode(before))
        if not self.has_close_tag:
            fields["closed"] = Raw(b"false")
        return jsonio.object_text(fields)


def restore_tags(text: str, extra: str) -> str:
    """Put the tags around reasoning, as they were received."""
    fields = jsonio.members(extra) if extra else {}
    return f"{text_or_empty(fields.get('before'))}{OPEN}{text}{'' if 'closed' in fields else CLOSE}"


# --- reasoning details ------------------------------------------------------------------------------------------------


_CONCATENATED = ("text", "summary", "data")


class _MergedItem:
    __slots__ = ("fields", "is_signed", "pieces")

    def __init__(self) -> None:
        self.fields = MergedFields()
        self.is_signed = False  # a signed item takes no further fragments
        self.pieces: dict[str, list[str]] = {}

    def add(self, fields: Fields) -> None:
        for name, value in fields.items():
            if name in _CONCATENATED and is_text(value):
                self.pieces.setdefault(name, []).append(jsonio.text_of(value))
                if name not in self.fields:
                    self.fields[name] = value
            else:
                merge_fields(self.fields, ((name, value),))
                if name == "signature" and bytes(value) != b"null":
                    self.is_signed = bytes(value) != b'""'

    def merged_fields(self) -> Fields:
        for name, pieces in self.pieces.items():
            if len(pieces) > 1 or bytes(self.fields[name]) == b"null":
                self.pieces[name] = [jsonio.join_surrogates("".join(pieces))]
                self.fields[name] = Raw(jsonio.encode(self.pieces[name][0]))
        return self.fields.written()


class DetailsMerger:
    """Merge fragments into items, in the order of each item's first fragment.

    Fragments with an `index` belong to one item if index and type agree; fragments without one, if they follow each
    other, type and id agree, and the item has no signature yet. `text`, `summary` and `data` are concatenated; of any
    other field the last value that is not null counts.
    """

    def __init__(self) -> None:
        self._items: list[_MergedItem | Raw] = []
        self._by_index: dict[tuple[bytes, bytes], _MergedItem] = {}
        self._last: _MergedItem | None = None
        self._last_key: tuple[bytes, bytes] | None = None  # type and id of the last item, if it has no index

    def add(self, fragments: Iterable[Raw], *, whole: bool = False) -> str:
        """Add the fragments of one frame, or the items of a `whole` array; return their readable text."""
        texts = []
        for fragment in fragments:
            if not is_object(fragment):
                self._items.append(fragment)
                self._last_key = None
                continue
            fields = jsonio.members(fragment)
            if whole:
                self._items.append(fragment)
            else:
                self._find_item(fields).add(fields)
            texts += [text_or_empty(fields.get("text")), text_or_empty(fields.get("summary"))]
        return "".join(texts)

    def _find_item(self, fields: Fields) -> _MergedItem:
        """Return the item that a fragment belongs to; append one if it is new."""
        index, kind, id = (bytes(fields.get(name, b"null")) for name in ("index", "type", "id"))
        has_index = index != b"null"
        key = (index, kind) if has_index else (kind, id)
        item = self._by_index.get(key) if has_index else self._last if key == self._last_key else None
        if item is None or (item.is_signed and not has_index):
            item = _MergedItem()
            self._items.append(item)
        if has_index:
            self._by_index[key] = item
        self._last, self._last_key = item, None if has_index else key
        return item

    def raw(self) -> str:
        """Return the array so far as JSON text."""
        items = [item if isinstance(item, Raw) else item.merged_fields() for item in self._items]
        return jsonio.as_text(jsonio.encode(items))
