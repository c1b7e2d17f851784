"""The items of `reasoning_details`: formats, contracts, a typed view of each element, and the codec between both.

An item remembers the object it came as. Reading one and writing it again is the identity, whatever the object holds;
an item whose fields were changed is written anew, and what the object held beside them stays.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from tenuto.core import jsonio

__all__ = [
    "OpenRouterReasoningCodec",
    "ReasoningCodec",
    "ReasoningEncrypted",
    "ReasoningFormat",
    "ReasoningItem",
    "ReasoningOther",
    "ReasoningServerToolCall",
    "ReasoningSummary",
    "ReasoningText",
    "ReplayContract",
    "contract_for",
    "from_openrouter_value",
    "parse_items",
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
_RANKS = tuple(ReplayContract)


class _Item(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """What every item has. `raw` is the object as it came, empty for an item made by hand."""

    format: ReasoningFormat = ReasoningFormat.UNKNOWN
    id: str | None = None
    index: int | None = None
    raw: str = ""

    def carries_signed_payload(self) -> bool:
        """Tell whether the vendor can verify that it wrote this."""
        return False

    def to_openrouter_value(self) -> Any:
        """Return the object for the wire: the one that came, or one in the wire's order of keys."""
        return jsonio.parse(self.to_raw())

    def to_raw(self) -> Raw:
        """Return the object's JSON text, word for word where it came from the wire and nothing was changed since."""
        text = self.raw
        if not text:
            return Raw(jsonio.encode(self._fields()))
        came = from_openrouter_value(Raw(text.encode("utf-8", "surrogatepass")))
        if came is not None and came != self:
            own, before = self._fields(), came._fields()
            changed = {name: value for name, value in own.items() if before.get(name, ...) != value}
            left = {name: raw for name, raw in jsonio.members(text).items() if name not in before or name in own}
            return Raw(jsonio.encode({**left, **changed}))
        return Raw(text.encode("utf-8", "surrogatepass"))

    def _fields(self) -> dict[str, Any]:
        value: dict[str, Any] = {"type": self.__struct_config__.tag}
        if self.id is not None:
            value["id"] = self.id
        value["format"] = self.format.value
        if self.index is not None:
            value["index"] = self.index
        return {**value, **self._payload()}

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


class ReasoningOther(_Item, frozen=True, kw_only=True, tag="reasoning.other"):
    """An element of a type that nobody knows, or that is no object at all: only `raw` says what it is.

    `kind` is the type as the element names it; empty if it names none.
    """

    kind: str = ""

    def to_raw(self) -> Raw:
        """Return the element's JSON text."""
        return Raw(self.raw.encode("utf-8", "surrogatepass"))


ReasoningItem: TypeAlias = (
    ReasoningText | ReasoningSummary | ReasoningEncrypted | ReasoningServerToolCall | ReasoningOther
)

_KINDS: dict[str, type[ReasoningItem]] = {
    "reasoning.text": ReasoningText,
    "reasoning.summary": ReasoningSummary,
    "reasoning.encrypted": ReasoningEncrypted,
    "reasoning.server_tool_call": ReasoningServerToolCall,
}
_STRINGS = {"text": "", "signature": None, "summary": "", "data": "", "tool_name": "", "tool_call_id": None}
_ANY = ("arguments", "result")


def from_openrouter_value(value: object) -> ReasoningItem | None:
    """Read one element of the array (a plain value or `Raw`); None for what is no object or of no known type.

    A field of another type than its own counts as missing here, and stays in `raw`.
    """
    raw = jsonio.check(value if isinstance(value, Raw) else jsonio.encode(value))
    fields = jsonio.members(raw) if bytes(raw)[:1] == b"{" else {}
    kind = _KINDS.get(_text(fields, "type") or "")
    if kind is None:
        return None
    known = kind.__struct_fields__
    found: dict[str, Any] = {name: _any(fields.get(name)) for name in _ANY if name in known}
    for name, default in _STRINGS.items():
        if name in known:
            held = _text(fields, name)
            found[name] = default if held is None else held
    return kind(raw=jsonio.as_text(raw), **_common(fields), **found)


def _common(fields: dict[str, Raw]) -> dict[str, Any]:
    index = bytes(fields.get("index", b""))
    return {
        "format": ReasoningFormat.from_wire(_text(fields, "format")),
        "id": _text(fields, "id"),
        "index": int(index) if index.isdigit() and len(index) < 16 else None,
    }


def _text(fields: dict[str, Raw], name: str) -> str | None:
    held = fields.get(name)
    return jsonio.text_of(held) if held is not None and bytes(held)[:1] == b'"' else None


def _any(value: Raw | None) -> Any:
    try:
        return None if value is None else jsonio.parse(value)
    except jsonio.JsonError:  # a number beyond all bounds: its text is all that can be had of it
        return jsonio.as_text(value) if value is not None else None


def parse_items(raw: Iterable[object]) -> list[ReasoningItem]:
    """Read every element of the array; none is left out, and each is written back as it came.

    What `from_openrouter_value` does not know is a `ReasoningOther`.
    """
    return [from_openrouter_value(value) or _other(value) for value in raw]


def _other(value: object) -> ReasoningOther:
    raw = jsonio.check(value if isinstance(value, Raw) else jsonio.encode(value))
    fields = jsonio.members(raw) if bytes(raw)[:1] == b"{" else {}
    return ReasoningOther(raw=jsonio.as_text(raw), kind=_text(fields, "type") or "", **_common(fields))


def contract_for(
    held: Iterable[ReasoningItem | ReasoningFormat], override: ReplayContract | None = None
) -> ReplayContract:
    """Return the strictest of what the formats demand and what the model is known to demand (`override`).

    Where there is no reasoning at all, no format demands any: only the model can.
    """
    formats = (one if isinstance(one, ReasoningFormat) else one.format for one in held)
    demanded = {format.replay_contract for format in formats} | {override or ReplayContract.STATELESS}
    return max(demanded, key=_RANKS.index)


class ReasoningCodec:
    """Between the wire's array and the items. It holds no state; whoever attaches tokens elsewhere overrides `write`."""

    def parse_response(self, raw: Iterable[object]) -> list[ReasoningItem]:
        """Read what is known; the rest is missing from this view only, for the raw array stays on the message.

        `parse_items` reads all of it, and `write_assistant` takes what that gives.
        """
        return [item for value in raw if (item := from_openrouter_value(value)) is not None]

    def write_assistant(self, message: object, items: Sequence[ReasoningItem]) -> None:
        """Put items on a message that is about to be sent; without items, or for no object, nothing happens."""
        if items and isinstance(message, dict):
            message["reasoning_details"] = [item.to_openrouter_value() for item in items]


class OpenRouterReasoningCodec(ReasoningCodec):
    """The array under `reasoning_details`, whichever vendor stands behind the router."""
