"""Merge the streamed fragments of `reasoning_details` into the array that is sent back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.wire.merge import MergedFields, merge_fields

_GROWING = ("text", "summary", "data")


class _MergedItem:
    __slots__ = ("fields", "pieces", "signed")

    def __init__(self) -> None:
        self.fields = MergedFields()
        self.signed = False  # a signed item does not grow
        self.pieces: dict[str, list[str]] = {}

    def add(self, fields: Mapping[str, Raw]) -> None:
        for name, value in fields.items():
            if name in _GROWING and bytes(value)[:1] == b'"':
                self.pieces.setdefault(name, []).append(jsonio.text_of(value))
                if name not in self.fields:
                    self.fields[name] = value
            else:
                merge_fields(self.fields, ((name, value),))
                if name == "signature":
                    self.signed = self.signed if bytes(value) == b"null" else bytes(value) != b'""'

    def merged_fields(self) -> dict[str, Raw]:
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
        self._keyed: dict[tuple[bytes, bytes], _MergedItem] = {}
        self._last: tuple[bytes, bytes] | None = None

    def add(self, fragments: Iterable[Raw], *, whole: bool = False) -> str:
        """Add the fragments of one frame, or the items of a `whole` array; return their readable text."""
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
            item = self._keyed.get((index, kind)) or self._keyed.setdefault((index, kind), self._new())
        else:
            key = (kind, bytes(fields.get("id", b"null")))
            last = self._items[-1] if self._items else None
            if self._last == key and isinstance(last, _MergedItem) and not last.signed:
                item = last
            else:
                item = self._new()
            self._last = key
        item.add(fields)

    def _new(self) -> _MergedItem:
        item = _MergedItem()
        self._items.append(item)
        return item

    def raw(self) -> str:
        """Return the array so far as JSON text."""
        items = [item if isinstance(item, Raw) else item.merged_fields() for item in self._items]
        return jsonio.as_text(jsonio.encode(items))
