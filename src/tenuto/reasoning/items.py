"""The items of `reasoning_details`: formats, replay contracts, a typed view of each element, the codec, the audit.

An item keeps the JSON text of the object it was read from (`raw`). Reading an object and writing the item is the
identity, whatever the object contains. A changed copy (`item.replace(...)`) keeps the fields this module does not know.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.jsonio import is_text, object_or_empty, to_raw

_Self = TypeVar("_Self", bound="_Item")


class ReplayContract(enum.Enum):
    """When a vendor requires signed reasoning in the next request. The order is from lenient to strict."""

    STATELESS = "stateless"
    REQUIRED_WITH_TOOLS = "required_with_tools"
    ALWAYS_REQUIRED = "always_required"


class ReasoningFormat(enum.Enum):
    """The vendor format of an item. The replay contract belongs to the format, not to the codec."""

    ANTHROPIC_CLAUDE_V1 = "anthropic-claude-v1"
    GOOGLE_GEMINI_V1 = "google-gemini-v1"
    OPENAI_RESPONSES_V1 = "openai-responses-v1"
    AZURE_OPENAI_RESPONSES_V1 = "azure-openai-responses-v1"
    BEDROCK_OPENAI_RESPONSES_V1 = "bedrock-openai-responses-v1"
    META_RESPONSES_V1 = "meta-responses-v1"
    XAI_RESPONSES_V1 = "xai-responses-v1"
    BEDROCK_XAI_RESPONSES_V1 = "bedrock-xai-responses-v1"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, _: object) -> ReasoningFormat:
        """Decode a format that this version does not know as `UNKNOWN`, here and in msgspec."""
        return cls.UNKNOWN

    @classmethod
    def from_wire(cls, value: object) -> ReasoningFormat:
        return cls(value)

    def as_wire(self) -> str:
        return self.value

    def replay_contract(self) -> ReplayContract:
        """Return when the vendor requires signed reasoning back."""
        return ReplayContract.STATELESS if self in _STATELESS else ReplayContract.REQUIRED_WITH_TOOLS


_STATELESS = (ReasoningFormat.XAI_RESPONSES_V1, ReasoningFormat.BEDROCK_XAI_RESPONSES_V1, ReasoningFormat.UNKNOWN)


class _Item(msgspec.Struct, frozen=True, kw_only=True, dict=True, tag_field="type", omit_defaults=True):
    """One item; the order of the fields is their order on the wire."""

    id: str | None = None
    """The id of the reasoning item or of the tool call that the item belongs to."""
    format: ReasoningFormat = ReasoningFormat.UNKNOWN
    index: int | None = None
    """The position of the item in the reply."""

    @property
    def raw(self) -> str:
        """The JSON text of the object the item was read from; empty for an item made by hand.

        It is not a field: msgspec writes an item without it.
        """
        return self.__dict__.get("raw", "")  # type: ignore[no-any-return]  # __dict__ has values of type Any

    def replace(self: _Self, **changes: Any) -> _Self:
        """Return a copy with other field values that keeps `raw`, and so the fields that have no attribute."""
        return _rebuild(type(self), {**msgspec.structs.asdict(self), **changes}, self.raw)

    __copy__ = __replace__ = replace

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), msgspec.structs.asdict(self), self.raw)

    def carries_signed_payload(self) -> bool:
        """Return True if the vendor can verify that it wrote this item."""
        return False

    def to_openrouter_value(self) -> Any:
        """Return the object for `reasoning_details`: the one that was read, or one with its keys in wire order."""
        return jsonio.parse(self.to_raw())

    def to_raw(self) -> Raw:
        """Return the JSON text of `to_openrouter_value`: byte for byte as read, unless the item was changed."""
        if not self.raw:
            return Raw(jsonio.encode(self.wire_fields()))
        raw = to_raw(self.raw)
        original = from_openrouter_value(raw)
        if original is None or original == self:
            return raw
        fields, before = self.wire_fields(), original.wire_fields()
        changed = {name: value for name, value in fields.items() if before.get(name, ...) != value}
        unchanged = {name: text for name, text in jsonio.members(raw).items() if name not in before or name in fields}
        return Raw(jsonio.encode({**unchanged, **changed}))

    def wire_fields(self) -> dict[str, Any]:
        """Return the fields that have an attribute, in wire order; optional ones only if they have a value."""
        fields = msgspec.structs.asdict(self).items()
        present = {name: value for name, value in fields if value is not None or name not in _OPTIONAL}
        return {"type": self.__struct_config__.tag, **present, "format": self.format.value}


_OPTIONAL = ("id", "index", "signature", "tool_call_id")


def _rebuild(kind: type[_Self], fields: dict[str, Any], raw: str) -> _Self:
    item = kind(**fields)
    if raw:
        item.__dict__["raw"] = raw
    return item


class ReasoningText(_Item, frozen=True, kw_only=True, tag="reasoning.text"):
    text: str = ""
    signature: str | None = None
    """The vendor's signature, if the vendor signs."""

    def carries_signed_payload(self) -> bool:
        return self.signature is not None


class ReasoningSummary(_Item, frozen=True, kw_only=True, tag="reasoning.summary"):
    """A readable summary of reasoning that the vendor withholds."""

    summary: str = ""


class ReasoningEncrypted(_Item, frozen=True, kw_only=True, tag="reasoning.encrypted"):
    """Reasoning that only its vendor can read; redacted thinking is one too."""

    data: str = ""

    def carries_signed_payload(self) -> bool:
        return True


class ReasoningServerToolCall(_Item, frozen=True, kw_only=True, tag="reasoning.server_tool_call"):
    """A tool call that the vendor made during reasoning."""

    tool_name: str = ""
    arguments: Any = None
    result: Any = None
    tool_call_id: str | None = None


class ReasoningOther(_Item, frozen=True, kw_only=True, tag="reasoning.other"):
    """An element of an unknown type, or one that is not an object."""

    raw: str = ""
    """The JSON text of the element: its only content."""
    kind: str = ""
    """The `type` of the element; empty if it has none."""

    def to_raw(self) -> Raw:
        return to_raw(self.raw)


ReasoningItem: TypeAlias = (
    ReasoningText | ReasoningSummary | ReasoningEncrypted | ReasoningServerToolCall | ReasoningOther
)
_KINDS = {kind.__struct_config__.tag: kind for kind in get_args(ReasoningItem) if kind is not ReasoningOther}


def from_openrouter_value(value: object) -> ReasoningItem | None:
    """Read one element of `reasoning_details`, a plain value or `Raw`; return None for an unknown type.

    A field of the wrong type counts as missing; it stays in `raw`.
    """
    item = _read(value)
    return None if isinstance(item, ReasoningOther) else item


def parse_items(raw: Iterable[object]) -> list[ReasoningItem]:
    """Read every element of `reasoning_details`. An element of an unknown type becomes a `ReasoningOther`."""
    return [_read(value) for value in raw]


def _read(value: object) -> ReasoningItem:
    raw = jsonio.check(value if isinstance(value, Raw) else jsonio.encode(value))
    fields = object_or_empty(raw)
    index = bytes(fields.get("index", b""))
    values: dict[str, Any] = {
        "format": ReasoningFormat.from_wire(_text(fields, "format")),
        "id": _text(fields, "id"),
        "index": int(index) if index.isdigit() and len(index) < 16 else None,
    }
    type_name = _text(fields, "type") or ""
    kind = _KINDS.get(type_name)
    if kind is None:
        return ReasoningOther(raw=jsonio.as_text(raw), kind=type_name, **values)
    for name in kind.__struct_fields__:
        if name in ("arguments", "result"):
            values[name] = _any(fields[name]) if name in fields else None
        elif name not in values and (text := _text(fields, name)) is not None:
            values[name] = text
    item: ReasoningItem = _rebuild(kind, values, jsonio.as_text(raw))
    return item


def _text(fields: dict[str, Raw], name: str) -> str | None:
    value = fields.get(name)
    return jsonio.text_of(value) if is_text(value) else None


def _any(value: Raw) -> Any:
    try:
        return jsonio.parse(value)
    except jsonio.JsonError:  # a number that Python cannot represent: return its text
        return jsonio.as_text(value)


def contract_for(
    items: Iterable[ReasoningItem | ReasoningFormat], override: ReplayContract | None = None
) -> ReplayContract:
    """Return the strictest contract of the items' formats and of the model (`override`, else `STATELESS`)."""
    formats = (item if isinstance(item, ReasoningFormat) else item.format for item in items)
    contracts = {override or ReplayContract.STATELESS, *(format.replay_contract() for format in formats)}
    return max(contracts, key=tuple(ReplayContract).index)


class ReasoningCodec:
    """Read items from a reply and write them to the next request. Stateless; override `write_assistant` to attach
    tokens elsewhere than under `reasoning_details`.
    """

    def parse_response(self, raw: Iterable[object]) -> list[ReasoningItem]:
        """Read the elements of known types. `parse_items` reads the unknown ones too."""
        return [item for value in raw if (item := from_openrouter_value(value)) is not None]

    def write_assistant(self, message: object, items: Sequence[ReasoningItem]) -> None:
        """Set `reasoning_details` of a message; do nothing without items or if the message is not an object."""
        if items and isinstance(message, dict):
            message["reasoning_details"] = [item.to_openrouter_value() for item in items]


class OpenRouterReasoningCodec(ReasoningCodec):
    """The codec for every vendor reached through OpenRouter: items under `reasoning_details`."""


# --- the audit of items that are about to be sent back ----------------------------------------------------------------


class MissingSignaturesForStrictProvider(msgspec.Struct, frozen=True):
    """The contract requires signed reasoning, and no item is signed: the vendor will refuse the request."""

    contract: ReplayContract
    formats: tuple[ReasoningFormat, ...]


ReplayViolation: TypeAlias = MissingSignaturesForStrictProvider


class ReplayAudit(msgspec.Struct, frozen=True):
    item_count: int
    signed_count: int
    formats: tuple[ReasoningFormat, ...]
    """The formats of the items, each once, sorted by wire name."""
    violation: ReplayViolation | None = None
    """Set if the contract requires signed reasoning and no item is signed."""
    unsigned: tuple[int, ...] = ()
    """The indices of items without the signature that other items of their format have."""


def audit_replay(
    items: Sequence[ReasoningItem], contract: ReplayContract, next_turn_carries_tools: bool
) -> ReplayAudit:
    """Check items against a contract. One signed item is enough to satisfy it.

    A contract that requires signed reasoning is violated by an empty list, too. `contract_for(items)` returns a contract
    that requires nothing of an empty list.
    """
    formats = tuple(sorted({item.format for item in items}, key=ReasoningFormat.as_wire))
    signed = sum(item.carries_signed_payload() for item in items)
    required = contract is ReplayContract.ALWAYS_REQUIRED or (
        contract is ReplayContract.REQUIRED_WITH_TOOLS and next_turn_carries_tools
    )
    violation = MissingSignaturesForStrictProvider(contract, formats) if required and signed == 0 else None
    return ReplayAudit(len(items), signed, formats, violation, _unsigned(items))


def _unsigned(items: Sequence[ReasoningItem]) -> tuple[int, ...]:
    """Return the indices of items that lost their signature: unsigned texts of a format that has signed ones, and
    readable items without the encrypted item of the same id, of a format that has such pairs.
    """
    signed_formats = {item.format for item in items if isinstance(item, ReasoningText) and item.signature is not None}
    encrypted = {
        (item.format, item.id) for item in items if isinstance(item, ReasoningEncrypted) and item.id is not None
    }
    encrypted_formats = {format for format, _ in encrypted}
    indices = []
    for index, item in enumerate(items):
        if isinstance(item, ReasoningText) and item.format in signed_formats:
            unsigned = item.signature is None
        else:
            readable = isinstance(item, ReasoningText | ReasoningSummary) and item.id is not None
            unsigned = readable and item.format in encrypted_formats and (item.format, item.id) not in encrypted
        if unsigned:
            indices.append(index)
    return tuple(indices)
