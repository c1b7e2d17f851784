"""`reasoning_details`: the array in which a router hands on the reasoning of many vendors, and wants it handed back.

The raw array is what is kept and replayed, in order and word for word. The items here are a typed view of it: they
remember their raw object, so reading one and writing it again is the identity, whatever the object holds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.wire.codec import merge_fields

__all__ = [
    "Details",
    "MissingSignaturesForStrictProvider",
    "OpenRouterReasoningCodec",
    "ReasoningCodec",
    "ReasoningEncrypted",
    "ReasoningFormat",
    "ReasoningItem",
    "ReasoningServerToolCall",
    "ReasoningSummary",
    "ReasoningText",
    "ReplayAudit",
    "ReplayContract",
    "ReplayViolation",
    "audit_replay",
    "from_openrouter_value",
]


class ReplayContract(enum.Enum):
    """What a vendor demands of the next request: nothing, signed reasoning if it carries tools, always."""

    STATELESS = "stateless"
    REQUIRED_WITH_TOOLS = "required_with_tools"
    ALWAYS_REQUIRED = "always_required"


class ReasoningFormat(enum.Enum):
    """Whose reasoning an item holds. The contract belongs to the format, not to the codec that moves it."""

    ANTHROPIC_CLAUDE_V1 = "anthropic-claude-v1"
    GOOGLE_GEMINI_V1 = "google-gemini-v1"
    OPENAI_RESPONSES_V1 = "openai-responses-v1"
    AZURE_OPENAI_RESPONSES_V1 = "azure-openai-responses-v1"
    BEDROCK_OPENAI_RESPONSES_V1 = "bedrock-openai-responses-v1"
    META_RESPONSES_V1 = "meta-responses-v1"
    XAI_RESPONSES_V1 = "xai-responses-v1"
    BEDROCK_XAI_RESPONSES_V1 = "bedrock-xai-responses-v1"
    UNKNOWN = "unknown"

    def as_wire(self) -> str:
        """Return the word on the wire."""
        return self.value

    @classmethod
    def _missing_(cls, _: object) -> ReasoningFormat:
        return cls.UNKNOWN

    @classmethod
    def from_wire(cls, word: object) -> ReasoningFormat:
        """Read the word on the wire; whatever is not known is `UNKNOWN`."""
        return _FORMATS.get(word, cls.UNKNOWN) if isinstance(word, str) else cls.UNKNOWN

    @property
    def replay_contract(self) -> ReplayContract:
        """What the vendor demands of the next request."""
        return ReplayContract.STATELESS if self in _STATELESS else ReplayContract.REQUIRED_WITH_TOOLS


_FORMATS = {format.value: format for format in ReasoningFormat}
_STATELESS = (ReasoningFormat.XAI_RESPONSES_V1, ReasoningFormat.BEDROCK_XAI_RESPONSES_V1, ReasoningFormat.UNKNOWN)


class _Item(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """What every item has. `raw` is the object as it came, empty for an item made by hand."""

    format: ReasoningFormat = ReasoningFormat.UNKNOWN
    id: str | None = None
    index: int | None = None
    raw: str = ""

    def carries_signed_payload(self) -> bool:
        """Tell whether the vendor can verify that it wrote this."""
        return False

    def to_openrouter_value(self) -> dict[str, Any]:
        """Return the object for the wire: the one that came, or one in the wire's order of keys."""
        if self.raw:
            found = jsonio.parse(self.raw)
            assert isinstance(found, dict)
            return found
        value: dict[str, Any] = {"type": self.__struct_config__.tag}
        if self.id is not None:
            value["id"] = self.id
        value["format"] = self.format.value
        if self.index is not None:
            value["index"] = self.index
        return {**value, **self._payload()}

    def to_raw(self) -> Raw:
        """Return the object's JSON text, word for word where it came from the wire."""
        if self.raw:
            return Raw(self.raw.encode("utf-8", "surrogatepass"))
        return Raw(jsonio.encode(self.to_openrouter_value()))

    def _payload(self) -> dict[str, Any]:
        raise NotImplementedError


class ReasoningText(_Item, frozen=True, kw_only=True, tag="reasoning.text"):
    """Readable reasoning; signed where its vendor signs."""

    text: str = ""
    signature: str | None = None

    def carries_signed_payload(self) -> bool:
        return self.signature is not None

    def _payload(self) -> dict[str, Any]:
        signed = {} if self.signature is None else {"signature": self.signature}
        return {"text": self.text, **signed}


class ReasoningSummary(_Item, frozen=True, kw_only=True, tag="reasoning.summary"):
    """A readable summary of reasoning that is withheld."""

    summary: str = ""

    def _payload(self) -> dict[str, Any]:
        return {"summary": self.summary}


class ReasoningEncrypted(_Item, frozen=True, kw_only=True, tag="reasoning.encrypted"):
    """Reasoning only its vendor can read; a redacted thought is one too."""

    data: str = ""

    def carries_signed_payload(self) -> bool:
        return True

    def _payload(self) -> dict[str, Any]:
        return {"data": self.data}


class ReasoningServerToolCall(_Item, frozen=True, kw_only=True, tag="reasoning.server_tool_call"):
    """A tool the vendor called while it thought."""

    tool_name: str = ""
    arguments: Any = None
    result: Any = None
    tool_call_id: str | None = None

    def _payload(self) -> dict[str, Any]:
        named = {} if self.tool_call_id is None else {"tool_call_id": self.tool_call_id}
        return {"tool_name": self.tool_name, "arguments": self.arguments, "result": self.result, **named}


ReasoningItem: TypeAlias = ReasoningText | ReasoningSummary | ReasoningEncrypted | ReasoningServerToolCall

_KINDS: dict[str, type[ReasoningItem]] = {
    "reasoning.text": ReasoningText,
    "reasoning.summary": ReasoningSummary,
    "reasoning.encrypted": ReasoningEncrypted,
    "reasoning.server_tool_call": ReasoningServerToolCall,
}
_STRINGS = {"text": "", "signature": None, "summary": "", "data": "", "tool_name": "", "tool_call_id": None}
_ANY = ("arguments", "result")


def from_openrouter_value(value: object) -> ReasoningItem | None:
    """Read one element of the array (a plain value or `Raw`); None for what is no object or of no known type."""
    raw = jsonio.as_text(value if isinstance(value, Raw) else jsonio.encode(value))
    fields = jsonio.parse(raw)
    kind = _KINDS.get(str(fields.get("type"))) if isinstance(fields, dict) else None
    if kind is None:
        return None
    found: dict[str, Any] = {name: fields.get(name) for name in _ANY if name in kind.__struct_fields__}
    for name, default in _STRINGS.items():
        if name in kind.__struct_fields__:
            held = fields.get(name)
            found[name] = held if isinstance(held, str) else default
    id, index = fields.get("id"), fields.get("index")
    return kind(
        format=ReasoningFormat.from_wire(fields.get("format")),
        id=id if isinstance(id, str) else None,
        index=index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else None,
        raw=raw,
        **found,
    )


class ReasoningCodec:
    """Between the wire's array and the items. It holds no state; whoever attaches tokens elsewhere overrides `write`."""

    def parse_response(self, raw: Iterable[object]) -> list[ReasoningItem]:
        """Read what is known; the rest is missing from this view only, for the raw array stays on the message."""
        return [item for value in raw if (item := from_openrouter_value(value)) is not None]

    def write_assistant(self, message: object, items: Sequence[ReasoningItem]) -> None:
        """Put items on a message that is about to be sent; without items, or for no object, nothing happens."""
        if items and isinstance(message, dict):
            message["reasoning_details"] = [item.to_openrouter_value() for item in items]


class OpenRouterReasoningCodec(ReasoningCodec):
    """The array under `reasoning_details`, whichever vendor stands behind the router."""


# --- streams ----------------------------------------------------------------------------------------------------------

_GROWING = ("text", "summary", "data")


class _Detail:
    __slots__ = ("fields", "pieces")

    def __init__(self) -> None:
        self.fields: dict[str, Raw] = {}
        self.pieces: dict[str, list[str]] = {}

    def take(self, fields: Mapping[str, Raw]) -> None:
        for name, value in fields.items():
            if name in _GROWING and bytes(value)[:1] == b'"':
                self.pieces.setdefault(name, []).append(jsonio.text_of(value))
                self.fields.setdefault(name, value)
            else:
                merge_fields(self.fields, ((name, value),))

    @property
    def signed(self) -> bool:
        """What is signed does not grow."""
        return bytes(self.fields.get("signature", b"null")) not in (b"null", b'""')

    def whole(self) -> dict[str, Raw]:
        for name, pieces in self.pieces.items():
            if len(pieces) > 1 or bytes(self.fields[name]) == b"null":
                self.pieces[name] = [jsonio.whole("".join(pieces))]
                self.fields[name] = Raw(jsonio.encode(self.pieces[name][0]))
        return self.fields


class Details:
    """The array on its way: fragments that belong together are joined, in the order in which each item first came.

    Fragments with an `index` belong together when index and type agree; without one, when they follow each other and
    type and id agree and no signature stands between. `text`, `summary` and `data` grow; of everything else the last value that is not null counts.
    """

    def __init__(self) -> None:
        self._items: list[_Detail | Raw] = []
        self._keyed: dict[tuple[bytes, bytes], _Detail] = {}
        self._last: tuple[bytes, bytes] | None = None

    def add(self, fragments: Iterable[Raw], *, whole: bool = False) -> str:
        """Take the fragments of one frame, or the items of a whole array; return what of them can be read."""
        return "".join([self._add(fragment, whole=whole) for fragment in fragments])

    def _add(self, fragment: Raw, *, whole: bool) -> str:
        if bytes(fragment)[:1] != b"{":
            self._items.append(fragment)
            self._last = None
            return ""
        fields = jsonio.members(fragment)
        if whole:
            self._items.append(fragment)
        else:
            self._merge(fields)
        return "".join(jsonio.text_of(fields[n]) for n in ("text", "summary") if bytes(fields.get(n, b""))[:1] == b'"')

    def _merge(self, fields: dict[str, Raw]) -> None:
        index, kind = bytes(fields.get("index", b"null")), bytes(fields.get("type", b"null"))
        if index != b"null":
            self._last = None
            detail = self._keyed.get((index, kind)) or self._keyed.setdefault((index, kind), self._new())
        else:
            key = (kind, bytes(fields.get("id", b"null")))
            last = self._items[-1] if self._items else None
            follows = self._last == key and isinstance(last, _Detail) and not last.signed
            detail = last if follows and isinstance(last, _Detail) else self._new()
            self._last = key
        detail.take(fields)

    def _new(self) -> _Detail:
        detail = _Detail()
        self._items.append(detail)
        return detail

    def raw(self) -> str:
        """Return the array so far as JSON text."""
        held = [item if isinstance(item, Raw) else item.whole() for item in self._items]
        return jsonio.as_text(jsonio.encode(held))


# --- before the request goes out --------------------------------------------------------------------------------------


class MissingSignaturesForStrictProvider(msgspec.Struct, frozen=True):
    """Reasoning goes back without a single signature, to a vendor that will refuse it."""

    contract: ReplayContract
    formats: tuple[ReasoningFormat, ...]


ReplayViolation: TypeAlias = MissingSignaturesForStrictProvider


class ReplayAudit(msgspec.Struct, frozen=True):
    """What a turn's reasoning would look like to its vendor. `formats` are sorted by their word, each once."""

    item_count: int
    signed_count: int
    formats: tuple[ReasoningFormat, ...]
    violation: ReplayViolation | None = None


def audit_replay(
    items: Sequence[ReasoningItem], contract: ReplayContract, *, next_turn_carries_tools: bool
) -> ReplayAudit:
    """Say what is about to go back, and whether the contract is kept: one signed item is enough."""
    formats = tuple(sorted({item.format for item in items}, key=ReasoningFormat.as_wire))
    signed = sum(item.carries_signed_payload() for item in items)
    demanded = contract is ReplayContract.ALWAYS_REQUIRED or (
        contract is ReplayContract.REQUIRED_WITH_TOOLS and next_turn_carries_tools
    )
    violation = MissingSignaturesForStrictProvider(contract, formats) if demanded and signed == 0 else None
    return ReplayAudit(len(items), signed, formats, violation)
