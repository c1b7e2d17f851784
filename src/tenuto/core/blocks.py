"""The blocks an assistant's turn, a question or a tool's answer is made of, and the tokens that ride on them.

One family serves the stored transcript and the unified response. Every block may carry

* `meta`: the continuity token its provider wants back, typed by who issued it, and never shown, merged or altered;
* `extra`: the text of a JSON object with every other field the provider put on the block. It goes back to the same
  dialect in the same place; empty means none;
* `unread`: stored fields of a later version of this library, kept so that loading and saving loses nothing.

A block is empty only if it has no text and no token.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from tenuto.core.files import FilePath

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

_UNSHOWN = frozenset(
    ("data", "details", "encrypted_content", "extra", "raw", "signature", "thought_signature", "unknown_fields")
)  # fields that hold, or may hold, a token or a file


def shorten_token(token: str) -> str:
    """Show enough of an opaque token to tell two apart, and no more."""
    return token if len(token) <= 16 else f"{token[:8]}…{token[-4:]}({len(token)})"


Unread: TypeAlias = Annotated[str, msgspec.Meta(pattern="(?!)")]
"""A text that no typed decode accepts, since nothing fits the pattern: a stored document that has a field of this name is
read member by member, and all others are not searched for it.
"""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What all stored values share: unknown stored fields survive in `unread`, and `repr` shows no token whole.

    Values cannot be changed and so never refer to themselves: the collector need not look at them.
    """

    unknown_fields: Unread = ""

    def __rich_repr__(self) -> list[tuple[str, object]]:
        held = [(name, getattr(self, name), default) for name, default in _defaults(type(self))]
        return [(name, self._shown(name, value)) for name, value, default in held if value != default]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def _shown(self, name: str, value: object) -> object:
        return shorten_token(value) if name in _UNSHOWN and isinstance(value, str) else value


@functools.cache
def _defaults(kind: type[Value]) -> list[tuple[str, Any]]:
    return [(field.name, field.default) for field in msgspec.structs.fields(kind)]


# --- tokens -----------------------------------------------------------------------------------------------------------


class Meta(Value, frozen=True, tag_field="provider"):
    """A continuity token: opaque, replayed only to its issuer."""


class AnthropicMeta(Meta, frozen=True, tag="anthropic"):
    """The signature of a thinking or compaction block."""

    signature: str


class AnthropicRedactedMeta(Meta, frozen=True, tag="anthropic_redacted"):
    """The ciphertext of a thinking block that is withheld; its block has no text."""

    data: str


class GeminiMeta(Meta, frozen=True, tag="gemini", rename={"thought_signature": "thoughtSignature"}):
    """The signature of one part, base64 as received; it stays on the part it came with."""

    thought_signature: str


class OpenAiMeta(Meta, frozen=True, tag="open_ai"):
    """A Responses item's id and, for reasoning and compaction, its ciphertext. An id may be absent."""

    id: str = ""
    encrypted_content: str | None = None


class ChatMeta(Meta, frozen=True, tag="chat"):
    """How reasoning arrived in the chat dialect.

    `field` names the message field (`reasoning_content`, `reasoning`, ...), `think` for tags inside the text, or
    `content` for a chunk of a content list, whose token is `signature`. `details` is the raw array text of
    `reasoning_details`, in order.
    """

    field: str = ""
    signature: str = ""
    details: str = ""


class OpaqueMeta(Meta, frozen=True, tag="opaque"):
    """A stored token of a kind this version does not know: its JSON text, written back as it was."""

    raw: str


ProviderMeta: TypeAlias = AnthropicMeta | AnthropicRedactedMeta | GeminiMeta | OpenAiMeta | ChatMeta | OpaqueMeta


# --- citations --------------------------------------------------------------------------------------------------------


class _Citation(Value, frozen=True, kw_only=True, tag_field="type"):
    """Where a statement comes from. `raw` is the provider's own object where one stood on the block."""

    raw: str = ""

    @property
    def type(self) -> str:
        """The type of the citation: `url`, `document`, `page` or `other`."""
        return str(self.__struct_config__.tag)


class UrlCitation(_Citation, frozen=True, tag="url"):
    """A web page; indices are positions in the text as the provider counts them."""

    url: str
    title: str | None = None
    cited_text: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class DocumentCitation(_Citation, frozen=True, tag="document"):
    """A span of a document that was sent along: characters, or blocks where the document was a list of blocks."""

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
    """A citation of a kind this version does not read: only `raw` says what it is."""


Citation: TypeAlias = UrlCitation | DocumentCitation | PageCitation | OtherCitation


# --- blocks -----------------------------------------------------------------------------------------------------------


class BlockBase(Value, frozen=True, kw_only=True, tag_field="block_type"):
    """What every block may carry besides its own fields."""

    meta: ProviderMeta | None = None
    extra: str = ""

    @property
    def type(self) -> str:
        """The type of the part in the unified response: `text`, `tool_call`, `thinking`, ..."""
        return part_type(type(self))


def part_type(kind: type[BlockBase]) -> str:
    """Return the type of the part that a kind of block is in the unified response."""
    tag = str(kind.__struct_config__.tag)
    return _PART_TYPES.get(tag, tag)


_PART_TYPES = {
    "reasoning": "thinking",
    "refusal": "text",
    "tool_use": "tool_call",
    "server_tool_use": "server_tool_call",
}
"""The types of parts that differ from the tag of the stored block."""


class Text(BlockBase, frozen=True, tag="text"):
    """What the model says, or what is said to it. `cache` (`5m`, `1h`) asks to cache the prompt up to here."""

    text: str
    citations: tuple[Citation, ...] = ()
    cache: str = ""


class Reasoning(BlockBase, frozen=True, tag="reasoning"):
    """What the model let us see of its thinking.

    `text` may be empty while `meta` is not: a withheld thought still has to be handed back. Its stored form always
    has a text.
    """

    text: str = msgspec.field(default_factory=str)

    @property
    def type(self) -> str:
        """The type of the part in the unified response: `thinking`, or `redacted_thinking` without readable text."""
        return "redacted_thinking" if isinstance(self.meta, AnthropicRedactedMeta) else super().type


class Refusal(BlockBase, frozen=True, tag="refusal"):
    """The model's words for why it will not answer; shown as text, replayed as a refusal."""

    text: str


class ToolUse(BlockBase, frozen=True, tag="tool_use"):
    """A call the model wants made.

    `args` is the exact text the model wrote. It is JSON unless `broken` says why not, or `kind` is `custom`, whose
    input is free text. `kind` is `function`, `custom`, or the provider's word for a built-in that the client runs.
    `minted` ids were not received and are left off again; `no_args` tells that the provider sent no arguments at all.
    """

    id: str
    name: str
    args: str
    kind: str = "function"
    args_error: str = ""
    id_generated: bool = False
    args_missing: bool = False


class Image(BlockBase, frozen=True, tag="image"):
    """A picture: base64 `data` with its `mime` type, or a `url`, or a provider's `file_id`."""

    data: str = ""
    mime: str = ""
    url: str = ""
    file_id: str = ""
    detail: str = ""
    cache: str = ""

    @classmethod
    def from_path(cls, path: str | FilePath, *, mime: str = "") -> Image:
        """Read a file. Its type is read off its bytes, then off its name, unless given.

        Raise `ValueError` if it is empty or no picture, `OSError` if it cannot be read.
        """
        from tenuto.core import files

        data, name = files.read(path)
        return cls(*files.read_image(data, mime, name)[:2])

    @classmethod
    def from_bytes(cls, data: bytes, mime: str = "") -> Image:
        """Take bytes. Their type is read off them unless given; raise `ValueError` if they are empty or no picture."""
        from tenuto.core import files

        return cls(*files.read_image(data, mime)[:2])

    @classmethod
    def from_url(cls, url: str, *, mime: str = "") -> Image:
        """Name an address (http, https, gs, s3), which the provider reads, or take what a `data:` URL holds.

        Raise `ValueError` for any other address. Nothing is fetched.
        """
        from tenuto.core import files, media_types

        held = media_types.parse_data_url(url, mime)
        return cls.from_bytes(*held) if held is not None else cls(url=files.check_url(url), mime=mime)


class Audio(BlockBase, frozen=True, tag="audio"):
    """Sound: base64 `data`; a model's own speech has an `id`, a transcript and an expiry (Unix seconds)."""

    data: str = ""
    mime: str = ""
    transcript: str | None = None
    id: str = ""
    expires_at: int | None = None
    url: str = ""
    file_id: str = ""

    @classmethod
    def from_path(cls, path: str | FilePath, *, mime: str = "") -> Audio:
        """Read a file. Its type is read off its bytes, then off its name, unless given.

        Raise `ValueError` if it is empty or no sound, `OSError` if it cannot be read.
        """
        from tenuto.core import files

        data, name = files.read(path)
        return cls(*files.read_audio(data, mime, name)[:2])

    @classmethod
    def from_bytes(cls, data: bytes, mime: str = "") -> Audio:
        """Take bytes. Their type is read off them unless given; raise `ValueError` if they are empty or no sound."""
        from tenuto.core import files

        return cls(*files.read_audio(data, mime)[:2])

    @classmethod
    def from_url(cls, url: str, *, mime: str = "") -> Audio:
        """Name an address (http, https, gs, s3), which the provider reads, or take what a `data:` URL holds.

        Raise `ValueError` for any other address. Nothing is fetched.
        """
        from tenuto.core import files, media_types

        held = media_types.parse_data_url(url, mime)
        return cls.from_bytes(*held) if held is not None else cls(url=files.check_url(url), mime=mime)


class Document(BlockBase, frozen=True, tag="document"):
    """A file to read: base64 `data`, plain `text`, a `url` or a `file_id`. `citations` asks the model to cite it."""

    data: str = ""
    mime: str = ""
    text: str = ""
    url: str = ""
    file_id: str = ""
    title: str = ""
    context: str = ""
    citations: bool = False
    cache: str = ""

    @classmethod
    def from_path(cls, path: str | FilePath, *, mime: str = "", title: str = "") -> Document:
        """Read a file: as text where it is UTF-8, as data where not. Its name is its title unless one is given.

        Its type is read off its bytes, then off its name, unless given. Raise `ValueError` if it is empty, a picture or
        a sound, `OSError` if it cannot be read.
        """
        from tenuto.core import files

        data, name = files.read(path)
        return cls(*files.read_document(data, mime, name), title=title or name)

    @classmethod
    def from_bytes(cls, data: bytes, mime: str = "", *, title: str = "") -> Document:
        """Take bytes: as text where they are UTF-8, as data where not.

        Their type is read off them unless given; raise `ValueError` if they are empty, a picture or a sound.
        """
        from tenuto.core import files

        return cls(*files.read_document(data, mime, title), title=title)

    @classmethod
    def from_url(cls, url: str, *, mime: str = "", title: str = "") -> Document:
        """Name an address (http, https, gs, s3), which the provider reads, or take what a `data:` URL holds.

        Raise `ValueError` for any other address. Nothing is fetched.
        """
        from tenuto.core import files, media_types

        held = media_types.parse_data_url(url, mime)
        if held is not None:
            return cls.from_bytes(*held, title=title)
        return cls(url=files.check_url(url), mime=mime, title=title)


class CodeExecution(BlockBase, frozen=True, tag="code_execution"):
    """Code the provider ran by itself."""

    code: str
    language: str = ""
    id: str = ""


class CodeResult(BlockBase, frozen=True, tag="code_result"):
    """What that code gave. `outcome` is the provider's own word."""

    outcome: str
    output: str = ""
    id: str = ""


class ServerToolUse(BlockBase, frozen=True, tag="server_tool_use"):
    """A call the provider makes by itself. `kind` is the wire's type, `args` the exact text of its input."""

    id: str
    name: str
    args: str = ""
    kind: str = ""


class ServerToolResult(BlockBase, frozen=True, tag="server_tool_result"):
    """What a provider's own tool gave. `kind` is the wire's type, `content` the exact JSON text, tokens and all."""

    tool_use_id: str
    content: str = ""
    kind: str = ""

    def _shown(self, name: str, value: object) -> object:
        return super()._shown("data" if name == "content" else name, value)


class Marker(BlockBase, frozen=True, tag="marker"):
    """A sign in the turn that is neither said nor called: `kind` is `compaction`, `fallback`, `container_upload`, ..."""

    kind: str
    text: str | None = None


class Opaque(BlockBase, frozen=True, tag="opaque"):
    """A block this version cannot read, kept word for word so that it can be replayed to its dialect.

    An empty `dialect` means a stored block of a later version, written back as it was and sent to nobody.
    """

    dialect: str
    raw: str


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
