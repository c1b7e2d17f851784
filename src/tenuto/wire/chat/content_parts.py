"""The elements of a content list, and pictures: parts of a message that come as objects of their own."""

from __future__ import annotations

import itertools
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import ChatMeta, Image, Opaque, Reasoning
from tenuto.wire.body_builder import extra_fields
from tenuto.wire.merge import MergedFields, merge_fields

__all__ = ["ContentPart", "ContentPartBuilder", "image_object", "image_of", "read", "thinking_object"]

Fields: TypeAlias = dict[str, Raw]


class ContentPart(msgspec.Struct):
    """One element: its text, its token, and every field that neither holds.

    `inner` is a thought as it came, `parts` what its list holds: texts, and whatever is no plain text.
    """

    kind: Literal["text", "thinking", ""]
    text: str = ""
    signature: str = ""
    fields: Fields = {}
    inner: Raw = Raw(b"[]")
    parts: list[str | Raw] = []


class ContentPartBuilder:
    """What the open text and the open thought of a content list must remember beside their text."""

    def __init__(self, said: MergedFields | None = None) -> None:
        self.said = MergedFields() if said is None else said
        self.signature = ""
        self._fields = MergedFields()
        self._inner: Raw | None = None
        self._parts: list[str | Raw] = []
        self._pieces = 0

    def think(self, chunk: ContentPart) -> None:
        """Note a thought, or the next piece of one."""
        self.signature = chunk.signature or self.signature
        merge_fields(self._fields, chunk.fields.items())
        self._inner = chunk.inner
        self._parts += chunk.parts
        self._pieces += 1

    def thought(self) -> str:
        """Return the fields that the text of the thought does not tell, as the text of an object."""
        inner = self._inner
        if inner is not None and self._pieces > 1:
            inner = self._joined(as_list=bytes(inner)[:1] == b"[")
        if inner is not None and jsonio.parse(inner) != _plain(_text(self._parts)):
            return jsonio.object_text({**self._fields.written(), "thinking": inner})
        return self._fields.text()

    def _joined(self, *, as_list: bool) -> Raw:
        """Put a thought that came in pieces together: neighbouring texts are one."""
        listed: list[object] = []
        for is_text, group in itertools.groupby(self._parts, lambda part: isinstance(part, str)):
            parts = list(group)
            listed += _plain(_text(parts)) if is_text else parts
        return Raw(jsonio.encode(listed if as_list else _text(self._parts)))


def _text(parts: list[str | Raw]) -> str:
    return jsonio.join_surrogates("".join(part for part in parts if isinstance(part, str)))


def _plain(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}] if text else []


class _PlainText(msgspec.Struct, tag="text", tag_field="type", forbid_unknown_fields=True, gc=False):
    text: str


class _PlainThought(msgspec.Struct, tag="thinking", tag_field="type", forbid_unknown_fields=True, gc=False):
    thinking: tuple[_PlainText]
    closed: bool | msgspec.UnsetType = msgspec.UNSET


_plain_thought = msgspec.json.Decoder(_PlainThought).decode
_CLOSED = {True: {"closed": Raw(b"true")}, False: {"closed": Raw(b"false")}, msgspec.UNSET: {}}


def read(raw: Raw) -> ContentPart:
    """Read one element; what is neither text nor thought has no kind."""
    try:
        plain = _plain_thought(raw)  # nearly all of a stream: one piece of one thought
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read(raw)
    text = plain.thinking[0].text
    if not text:
        return _read(raw)  # an empty piece is spelt in more than one way: keep the way it came
    return ContentPart("thinking", text, "", _CLOSED[plain.closed], Raw(jsonio.encode(_plain(text))), [text])


def _read(raw: Raw) -> ContentPart:
    if bytes(raw)[:1] != b"{":
        return ContentPart("")
    fields = jsonio.members(raw)
    kind = bytes(fields.pop("type", b"null"))
    text = fields.get("text")
    if kind == b'"text"' and text is not None and bytes(text)[:1] == b'"':
        del fields["text"]
        return ContentPart("text", jsonio.text_of(text), fields=fields)
    if kind == b'"thinking"' and "thinking" in fields:
        return _thought(fields)
    return ContentPart("")


def _thought(fields: Fields) -> ContentPart:
    """Read a thought: a list, of which the texts can be read, or a text."""
    inner = fields.pop("thinking")
    signature = jsonio.text_of(fields.pop("signature")) if _signed(fields) else ""
    if bytes(inner)[:1] != b"[":
        text = jsonio.text_of(inner) if bytes(inner)[:1] == b'"' else ""
        return ContentPart("thinking", text, signature, fields, inner, [text])
    text, parts = "", list[str | Raw]()
    for element in jsonio.elements(inner):
        part = read(element)
        text += part.text if part.kind == "text" else ""
        parts.append(part.text if part.kind == "text" and not part.fields else element)
    return ContentPart("thinking", text, signature, fields, inner, parts)


def _signed(fields: Fields) -> bool:
    signature = bytes(fields.get("signature", b""))
    return signature[:1] == b'"' and len(signature) > 2


def thinking_object(block: Reasoning) -> dict[str, Any]:
    """Write a thought back as an element of a content list."""
    signature = block.meta.signature if isinstance(block.meta, ChatMeta) else ""
    return {
        "type": "thinking",
        "thinking": _plain(block.text),
        **({"signature": signature} if signature else {}),
        **extra_fields(block.extra),
    }


# --- pictures ---------------------------------------------------------------------------------------------------------


def image_of(raw: Raw) -> Image | Opaque:
    """Read a picture that a model made: an address, or its bytes in a data URI."""
    fields = jsonio.members(raw) if bytes(raw)[:1] == b"{" else {}
    inner = fields.get("image_url")
    found = jsonio.members(inner) if inner is not None and bytes(inner)[:1] == b"{" else {}
    url = jsonio.text_of(found.pop("url")) if bytes(found.get("url", b""))[:1] == b'"' else ""
    if bytes(fields.get("type", b"")) != b'"image_url"' or not url:
        return Opaque("openai-chat", jsonio.as_text(raw), extra='{"in":"images"}')
    del fields["type"], fields["image_url"]
    if found:
        fields["image_url"] = Raw(jsonio.encode(found))
    extra = jsonio.object_text(fields)
    head, _, data = url.partition(";base64,")
    if head.startswith("data:") and data:
        return Image(data=data, mime=head.removeprefix("data:"), extra=extra)
    return Image(url=url, extra=extra)


def image_object(block: Image) -> dict[str, Any]:
    """Write a picture back the way a model's message holds it."""
    fields = extra_fields(block.extra)
    rest = fields.pop("image_url", None)
    inner = jsonio.members(rest) if rest is not None and bytes(rest)[:1] == b"{" else {}
    url = block.url or f"data:{block.mime};base64,{block.data}"
    return {"type": "image_url", "image_url": {"url": url, **inner}, **fields}
