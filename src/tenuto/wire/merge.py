"""Wire fields that arrive in several frames and that no code here interprets.

One rule for all dialects: null never replaces a value; objects merge key by key; lists whose elements are all objects
with an `index` merge by that index; any other value is replaced by the later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TypeAlias

from msgspec import Raw

from tenuto.core import jsonio

_NULL = Raw(b"null")


class MergedFields(MutableMapping[str, Raw]):
    """A mapping from field names to JSON texts, into which `merge_fields` merges the fields of each frame.

    A value that is merged is split once and stays split. Reading it writes it as JSON, which costs as much as the value
    is large: read a value once, at the end, or the cost of a stream becomes quadratic.
    """

    __slots__ = ("entries",)

    def __init__(self, fields: Mapping[str, Raw] | None = None) -> None:
        self.entries: dict[str, _Value] = dict(fields) if fields else {}

    def __getitem__(self, name: str) -> Raw:
        return _written(self.entries[name])

    def __setitem__(self, name: str, value: Raw) -> None:
        self.entries[name] = value

    def __delitem__(self, name: str) -> None:
        del self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def scalar(self, name: str) -> Raw | None:
        """Return a value that is neither an object nor a list; None for any other, without writing it."""
        value = self.entries.get(name)
        return value if type(value) is Raw and bytes(value)[:1] not in (b"{", b"[") else None

    def written(self) -> dict[str, Raw]:
        """Return all fields, each written as JSON."""
        return {name: _written(value) for name, value in self.entries.items()}

    def text(self) -> str:
        """Return the fields as the text of an object; empty without fields."""
        return jsonio.object_text(self.written())


class _IndexedList:
    """A list whose elements are objects, by the JSON text of their `index`."""

    __slots__ = ("elements",)

    def __init__(self, elements: Iterable[dict[str, Raw]]) -> None:
        self.elements: dict[bytes, MergedFields] = {}
        self.merge(elements)

    def merge(self, elements: Iterable[dict[str, Raw]]) -> None:
        for fields in elements:
            merge_fields(self.elements.setdefault(bytes(fields["index"]), MergedFields()), fields.items())


_Value: TypeAlias = Raw | MergedFields | _IndexedList


def merge_fields(kept: MergedFields, fields: Iterable[tuple[str, Raw]]) -> None:
    """Merge the fields of one frame into `kept`, by the rule of this module. The cost is linear in the new fields."""
    values = kept.entries
    for name, value in fields:
        old = values.get(name)
        if old is None or (type(old) is Raw and old == _NULL):
            values[name] = value
        elif value != _NULL and not (type(old) is Raw and old == value):
            values[name] = _merged(old, value)


def _merged(old: _Value, new: Raw) -> _Value:
    first = bytes(new)[:1]
    if first == b"{":
        opened = _open_object(old)
        if opened is not None:
            merge_fields(opened, jsonio.members(new).items())
            return opened
    elif first == b"[":
        elements = _indexed(new)
        listed = _open_list(old) if elements is not None else None
        if elements is not None and listed is not None:
            listed.merge(elements)
            return listed
    return new


def _open_object(value: _Value) -> MergedFields | None:
    if type(value) is Raw and bytes(value)[:1] == b"{":
        return MergedFields(jsonio.members(value))
    return value if type(value) is MergedFields else None


def _open_list(value: _Value) -> _IndexedList | None:
    if type(value) is Raw and bytes(value)[:1] == b"[":
        elements = _indexed(value)
        return _IndexedList(elements) if elements is not None else None
    return value if isinstance(value, _IndexedList) else None


def _indexed(value: Raw) -> list[dict[str, Raw]] | None:
    """Split a list into the fields of its elements; None unless each of them is an object with an `index`."""
    found: list[dict[str, Raw]] = []
    for element in jsonio.elements(value):
        fields = jsonio.members(element) if bytes(element)[:1] == b"{" else {}
        if "index" not in fields:
            return None
        found.append(fields)
    return found or None


def _written(value: _Value) -> Raw:
    return value if type(value) is Raw else Raw(jsonio.encode(_plain(value)))


def _plain(value: _Value) -> object:
    """Return split values as dicts and lists."""
    if type(value) is MergedFields:  # isinstance is slow for an abstract base class
        return {name: _plain(inner) for name, inner in value.entries.items()}
    if isinstance(value, _IndexedList):
        return [_plain(element) for element in value.elements.values()]
    return value
