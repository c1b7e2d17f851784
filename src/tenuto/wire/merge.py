"""Merge wire fields that arrive in several frames and that no code here interprets.

One rule for all dialects: null never replaces a value; objects merge key by key; lists whose elements are all objects
with an `index` merge by that index; any other value is replaced by the later one.
"""

from collections import UserDict
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.wire.rawjson import NULL, Fields, is_list, is_object


class MergedFields(UserDict[str, Raw]):
    """A mapping from field names to JSON texts, into which `merge_fields` merges the fields of each frame.

    A value that is merged is split once and stays split. Reading it writes it as JSON, which costs as much as the value
    is large: read a value once, at the end, or the cost of a stream becomes quadratic.
    """

    data: dict[str, Any]
    """Each value is a `_Value`."""

    def __init__(self, fields: Mapping[str, Raw] | None = None) -> None:
        self.data = dict(fields) if fields else {}

    def __getitem__(self, name: str) -> Raw:
        value: _Value = self.data[name]
        return value if type(value) is Raw else Raw(jsonio.encode(_plain(value)))

    def scalar(self, name: str) -> Raw | None:
        """Return a value that is neither an object nor a list; None for any other, without writing it."""
        value: _Value | None = self.data.get(name)
        return value if type(value) is Raw and bytes(value)[:1] not in (b"{", b"[") else None

    def written(self) -> Fields:
        return {name: self[name] for name in self.data}

    def text(self) -> str:
        """Return the fields as the text of an object; empty without fields."""
        return jsonio.object_text(self.written()) if self.data else ""


_Value: TypeAlias = Raw | MergedFields | dict[bytes, MergedFields]
"""A dict has the elements of a list, by the JSON text of their `index`."""


def merge_fields(merged: MergedFields, fields: Iterable[tuple[str, Raw]]) -> None:
    """Merge the fields of one frame by the rule of this module. The cost is linear in the new fields."""
    values = merged.data
    for name, value in fields:
        old: _Value | None = values.get(name)
        if old is None or (type(old) is Raw and old == NULL):
            values[name] = value
        elif value != NULL and not (type(old) is Raw and old == value):
            values[name] = _merge_value(old, value)


def _merge_value(old: _Value, new: Raw) -> _Value:
    if is_object(new):
        if type(old) is Raw and is_object(old):
            old = MergedFields(jsonio.members(old))
        if type(old) is MergedFields:
            merge_fields(old, jsonio.members(new).items())
            return old
    elif is_list(new) and (added := _split_indexed(new)):
        elements = _split_indexed(old) if type(old) is Raw and is_list(old) else []
        if elements or type(old) is dict:
            by_index = old if type(old) is dict else {}
            for fields in (*elements, *added):
                merge_fields(by_index.setdefault(bytes(fields["index"]), MergedFields()), fields.items())
            return by_index
    return new


def _split_indexed(raw: Raw) -> list[Fields]:
    """Split a list into the fields of its elements; empty unless each of them is an object with an `index`."""
    elements = []
    for element in jsonio.elements(raw):
        fields = jsonio.members(element) if is_object(element) else {}
        if "index" not in fields:
            return []
        elements.append(fields)
    return elements


def _plain(value: _Value) -> object:
    """Return split values as dicts and lists."""
    if type(value) is MergedFields:
        return {name: _plain(inner) for name, inner in value.data.items()}
    if type(value) is dict:
        return [_plain(element) for element in value.values()]
    return value
