"""Blocks: the content of messages, with their citations and continuity tokens.

The stored transcript and the unified response use the same blocks. A block is empty if it has neither text nor token.
"""

import builtins
from os import PathLike
from typing import Annotated, Any, Self, TypeAlias

import msgspec

__all__ = [
    "AnthropicMeta",
    "AnthropicRedactedMeta",
    "Audio",
    "Block",
    "ChatMeta",
    "Citation",
    "CodeExecution",
    "CodeResult",
    "Document",
    "DocumentCitation",
    "GeminiMeta",
    "Image",
    "Marker",
    "Opaque",
    "OpaqueMeta",
    "OpenAiMeta",
    "OtherCitation",
    "PageCitation",
    "ProviderMeta",
    "Reasoning",
    "Refusal",
    "ServerToolResult",
    "ServerToolUse",
    "Text",
    "ToolUse",
    "UrlCitation",
    "Value",
]

_SECRET_FIELDS = [
    "data",
    "details",
    "encrypted_content",
    "extra",
    "raw",
    "signature",
    "thought_signature",
    "unknown_fields",
]
"""Fields that may hold a token or a file: `repr` shortens them."""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Base of all stored values. `repr` shortens tokens.

    Values are immutable and cannot contain themselves, so the garbage collector can skip them.
    """

    unknown_fields: Annotated[str, msgspec.Meta(pattern="(?!)")] = ""
    """Stored fields of a later version, as the text of a JSON object. They are written back unchanged.

    The pattern never matches: typed decoding fails on a document with this key, and the slow path of `stored` keeps it.
    """

    def __rich_repr__(self) -> list[tuple[str, object]]:
        fields = [(field.name, getattr(self, field.name), field.default) for field in msgspec.structs.fields(self)]
        return [(name, self._display(name, value)) for name, value, default in fields if value != default]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def _display(self, name: str, value: object) -> object:
        if name not in _SECRET_FIELDS or not isinstance(value, str) or len(value) <= 16:
            return value
        return f"{value[:8]}…{value[-4:]}({len(value)})"  # distinguishes it from others


class Meta(Value, frozen=True, tag_field="provider"):
    """A continuity token: opaque, sent back unchanged and only to its issuer."""


class AnthropicMeta(Meta, frozen=True, tag="anthropic"):
    """The signature of a thinking or compaction block."""

    signature: str


class AnthropicRedactedMeta(Meta, frozen=True, tag="anthropic_redacted"):
    """The encrypted content of a redacted thinking block, which has no text."""

    data: str


class GeminiMeta(Meta, frozen=True, tag="gemini", rename={"thought_signature": "thoughtSignature"}):
    """The signature of one part, as received (base64). It stays on its part."""

    thought_signature: str


class OpenAiMeta(Meta, frozen=True, tag="open_ai"):
    """The token of a Responses item."""

    id: str = ""
    """The id of the item; empty if it had none."""
    encrypted_content: str | None = None
    """The encrypted content of a reasoning or compaction item."""


class ChatMeta(Meta, frozen=True, tag="chat"):
    """The form in which reasoning arrived in the chat dialect."""

    field: str = ""
    """The message field (`reasoning_content`, ...), `think` for tags in the text, `content` for a chunk of a list."""
    signature: str = ""
    """The token of a chunk of a content list."""
    details: str = ""
    """The `reasoning_details` as the text of a JSON array, in order."""


class OpaqueMeta(Meta, frozen=True, tag="opaque"):
    """A stored token that this version does not know: its JSON text, written back unchanged."""

    raw: str


ProviderMeta: TypeAlias = AnthropicMeta | AnthropicRedactedMeta | GeminiMeta | OpenAiMeta | ChatMeta | OpaqueMeta


class _Citation(Value, frozen=True, kw_only=True, tag_field="type"):
    raw: str = ""
    """The provider's citation object as JSON text, if the block had one."""

    @property
    def type(self) -> str:
        """The type of the citation: `url`, `document`, `page` or `other`."""
        return str(self.__struct_config__.tag)


class UrlCitation(_Citation, frozen=True, tag="url"):
    """A web page. Indices are offsets in the text as the provider counts them."""

    url: str
    title: str | None = None
    cited_text: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class DocumentCitation(_Citation, frozen=True, tag="document"):
    """A range of a document of the request: characters, or blocks if the document is a list of blocks."""

    document_index: int
    document_title: str | None = None
    cited_text: str | None = None
    start_char_index: int | None = None
    end_char_index: int | None = None
    start_block_index: int | None = None
    end_block_index: int | None = None


class PageCitation(_Citation, frozen=True, tag="page"):
    """Pages of a document: the first counts from 1, the last is exclusive."""

    document_index: int
    document_title: str | None = None
    cited_text: str | None = None
    start_page: int | None = None
    end_page: int | None = None


class OtherCitation(_Citation, frozen=True, tag="other"):
    """A citation of an unknown type; see `raw`."""


Citation: TypeAlias = UrlCitation | DocumentCitation | PageCitation | OtherCitation


class BlockBase(Value, frozen=True, kw_only=True, tag_field="block_type"):
    meta: ProviderMeta | None = None
    """The continuity token to send back to the provider. Never shown, merged or changed."""
    extra: str = ""
    """The provider's other fields as the text of a JSON object, sent back to the same dialect; empty: none."""

    @property
    def type(self) -> str:
        """The type of the part in the unified response: `text`, `tool_call`, `thinking`, ..."""
        return part_type(type(self))


def part_type(kind: type[BlockBase]) -> str:
    tag = str(kind.__struct_config__.tag)
    return _PART_TYPES.get(tag, tag)


_PART_TYPES = {
    "reasoning": "thinking",
    "refusal": "text",
    "tool_use": "tool_call",
    "server_tool_use": "server_tool_call",
}
"""Types of parts that differ from the stored tag of the block."""


class Text(BlockBase, frozen=True, tag="text"):
    text: str
    citations: tuple[Citation, ...] = ()
    cache: str = ""
    """The time (`5m`, `1h`) to cache the prompt up to this block; empty: no cache marker."""


class Reasoning(BlockBase, frozen=True, tag="reasoning"):
    text: str = msgspec.field(default_factory=str)
    """The readable reasoning. May be empty while `meta` is not. The stored form always has it."""

    @property
    def type(self) -> str:
        """The type of the part in the unified response: `thinking`, or `redacted_thinking` without readable text."""
        return "redacted_thinking" if isinstance(self.meta, AnthropicRedactedMeta) else super().type


class Refusal(BlockBase, frozen=True, tag="refusal"):
    """The reason why the model does not answer: shown as text, sent back as a refusal."""

    text: str


class ToolUse(BlockBase, frozen=True, tag="tool_use"):
    id: str
    name: str
    args: str
    """The exact text of the arguments: JSON, or free text if `kind` is `custom`."""
    kind: str = "function"
    """`function`, `custom`, or the provider's type of a built-in tool that the client runs."""
    args_error: str = ""
    """Why `args` is not JSON; empty if it is."""
    id_generated: bool = False
    """Whether `id` was generated here; then it is not sent back."""
    args_missing: bool = False
    """Whether the provider sent no arguments at all."""


class _Media(BlockBase, frozen=True):
    data: str = ""
    """The content as base64; then `mime` is its type."""
    mime: str = ""

    @classmethod
    def from_path(cls, path: str | PathLike[str], *, mime: str = "") -> Self:
        """Read a file. Its type is `mime`, or the type of its bytes, or of its name.

        Raise `ValueError` if it is empty or of another kind, `OSError` if it cannot be read.
        """
        from tenuto.core import files

        return cls._from_data(*files.read(path), mime)

    @property
    def bytes(self) -> builtins.bytes:
        """The content. Raise `ValueError` for a block that only refers to it, by a URL or a file id."""
        from tenuto.core import files

        return files.content_of(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the content to a file, replacing it. Raise as `bytes` does, and `OSError`."""
        from tenuto.core import files

        files.write(path, self.bytes)

    @classmethod
    def from_bytes(cls, data: builtins.bytes, mime: str = "") -> Self:
        """Encode bytes, detecting their type unless `mime` is passed.

        Raise `ValueError` if they are empty or of another kind.
        """
        return cls._from_data(data, "", mime)

    @classmethod
    def from_url(cls, url: str, *, mime: str = "") -> Self:
        """Refer to a URL (http, https, gs, s3) that the provider fetches, or decode a `data:` URL.

        Raise `ValueError` for any other URL. Nothing is fetched.
        """
        from tenuto.core import files, media_types

        content = media_types.parse_data_url(url, mime)
        if content:
            return cls.from_bytes(*content)
        reference: dict[str, Any] = {"url": files.check_url(url), "mime": mime}
        return cls(**reference)

    @classmethod
    def _from_data(cls, data: builtins.bytes, name: str, mime: str) -> Self:
        from tenuto.core import files

        return cls(**files.read_content(str(cls.__struct_config__.tag), data, mime, name))


class Image(_Media, frozen=True, tag="image"):
    """An image: base64 `data` with its `mime` type, or a `url`, or a provider's `file_id`."""

    url: str = ""
    file_id: str = ""
    detail: str = ""
    cache: str = ""


class Audio(_Media, frozen=True, tag="audio"):
    """Audio: base64 `data` with its `mime` type, or a `url`, or a provider's `file_id`."""

    transcript: str | None = None
    """The text of the model's own speech."""
    id: str = ""
    """The id of the model's own speech."""
    expires_at: int | None = None
    """The time (Unix seconds) until which the provider knows `id`."""
    url: str = ""
    file_id: str = ""


class Document(_Media, frozen=True, tag="document"):
    """A document: base64 `data`, plain `text`, a `url` or a provider's `file_id`."""

    text: str = ""
    url: str = ""
    file_id: str = ""
    title: str = ""
    context: str = ""
    """Information about the document for the model, which it does not cite."""
    citations: bool = False
    """Whether the model may cite the document."""
    cache: str = ""
    """The time (`5m`, `1h`) to cache the prompt up to this block; empty: no cache marker."""

    @classmethod
    def from_path(cls, path: str | PathLike[str], *, mime: str = "", title: str = "") -> Self:
        """Read a file: as text if it is UTF-8, else as data. The default title is the file name.

        Raise `ValueError` if it is empty, an image or audio, `OSError` if it cannot be read.
        """
        from tenuto.core import files

        data, name = files.read(path)
        return msgspec.structs.replace(cls._from_data(data, name, mime), title=title or name)

    @classmethod
    def from_bytes(cls, data: builtins.bytes, mime: str = "", *, title: str = "") -> Self:
        """Make a document from bytes: text if they are UTF-8, else data.

        Raise `ValueError` if they are empty, an image or audio.
        """
        return msgspec.structs.replace(cls._from_data(data, title, mime), title=title)

    @classmethod
    def from_url(cls, url: str, *, mime: str = "", title: str = "") -> Self:
        return msgspec.structs.replace(super().from_url(url, mime=mime), title=title)


class CodeExecution(BlockBase, frozen=True, tag="code_execution"):
    """Code that the provider ran."""

    code: str
    language: str = ""
    id: str = ""


class CodeResult(BlockBase, frozen=True, tag="code_result"):
    outcome: str
    """The provider's own word for the outcome."""
    output: str = ""
    id: str = ""


class ServerToolUse(BlockBase, frozen=True, tag="server_tool_use"):
    """A call of a server tool, made by the provider."""

    id: str
    name: str
    args: str = ""
    """The exact text of the input."""
    kind: str = ""
    """The type of the block on the wire."""


class ServerToolResult(BlockBase, frozen=True, tag="server_tool_result"):
    tool_use_id: str
    content: str = ""
    """The exact JSON text, including tokens."""
    kind: str = ""
    """The type of the block on the wire."""

    def _display(self, name: str, value: object) -> object:
        return super()._display("data" if name == "content" else name, value)


class Marker(BlockBase, frozen=True, tag="marker"):
    """A block without content for the user."""

    kind: str
    """The provider's type: `compaction`, `fallback`, `container_upload`, ..."""
    text: str | None = None


class Opaque(BlockBase, frozen=True, tag="opaque"):
    """A block that this version cannot read."""

    dialect: str
    """The dialect that the block is sent back to. Empty: a stored block of a later version, never sent."""
    raw: str
    """The exact JSON text of the block."""


Block: TypeAlias = (
    Text
    | Reasoning
    | Refusal
    | ToolUse
    | Image
    | Audio
    | Document
    | CodeExecution
    | CodeResult
    | ServerToolUse
    | ServerToolResult
    | Marker
    | Opaque
)
