"""JSON values that are not parsed yet: `msgspec.Raw` and the fields of an object."""

from typing import TypeAlias

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Citation

Fields: TypeAlias = dict[str, Raw]
NULL = Raw(b"null")


def is_object(raw: Raw | None) -> bool:
    return raw is not None and bytes(raw)[:1] == b"{"


def is_list(raw: Raw | None) -> bool:
    return raw is not None and bytes(raw)[:1] == b"["


def is_text(raw: Raw | None) -> bool:
    return raw is not None and bytes(raw)[:1] == b'"'


def is_null(raw: Raw | None) -> bool:
    return raw is None or bytes(raw) == b"null"


def is_empty(raw: Raw | None) -> bool:
    """Return whether a value is missing, null, false, 0, or without content."""
    return raw is None or bytes(raw) in (b"null", b"false", b"0", b'""', b"[]", b"{}")


def object_or_empty(raw: Raw | None) -> Fields:
    """Return the fields of an object; none for any other value."""
    return jsonio.members(raw) if raw is not None and bytes(raw)[:1] == b"{" else {}


def list_or_empty(raw: Raw | None) -> list[Raw]:
    """Return the elements of a list; none for any other value."""
    return jsonio.elements(raw) if raw is not None and bytes(raw)[:1] == b"[" else []


def read_optional_list(raw: Raw | None) -> list[Raw]:
    """Return the elements of a list; none if it is null or missing. Raise `JsonError` for any other value."""
    return [] if raw is None or is_null(raw) else jsonio.elements(raw)


def text_or_empty(raw: Raw | None) -> str:
    """Return a string; empty for any other value."""
    return jsonio.text_of(raw) if raw is not None and bytes(raw)[:1] == b'"' else ""


def text_or_json(raw: Raw) -> str:
    """Return a string; the JSON text of any other value."""
    return jsonio.text_of(raw) if bytes(raw)[:1] == b'"' else jsonio.as_text(raw)


def to_raw(text: str) -> Raw:
    """Return JSON text as `Raw`, unchecked."""
    return Raw(text.encode("utf-8", "surrogatepass"))


def raw_object(text: str) -> Raw | None:
    """Return `text` as a JSON object to splice in; None if it is something else."""
    stripped = text.strip()
    if not stripped.startswith("{") or jsonio.problem(stripped):
        return None
    return to_raw(stripped)


def raw_list(text: str) -> list[Raw] | None:
    """Return the elements of `text` as a JSON list; None if it is something else."""
    stripped = text.strip()
    return None if not stripped.startswith("[") or jsonio.problem(stripped) else jsonio.elements(stripped)


def splice_json(text: str) -> Raw | str:
    """Return JSON text as `Raw`; text that is not JSON stays a string."""
    return text if jsonio.problem(text) else to_raw(text)


def take_text(fields: Fields, name: str) -> str:
    """Remove a string from the fields and return it. An empty string, and any other value, stays."""
    text = text_or_empty(fields.get(name))
    if text:
        del fields[name]
    return text


def whole_number(raw: Raw | None) -> int | None:
    """Return an integer; None for any other value."""
    if raw is None:
        return None
    try:
        return jsonio.decode_as(raw, int)
    except jsonio.JsonError:
        return None


def extra_fields_or_empty(extra: str) -> Fields:
    """Return the extra fields of a block; none if a caller wrote a text that is not an object."""
    try:
        return jsonio.members(extra) if extra else {}
    except jsonio.JsonError:
        return {}


def citation_type(citation: Citation) -> str:
    """Return the provider's type of a citation; empty if it has none."""
    return text_or_empty(extra_fields_or_empty(citation.raw).get("type"))
