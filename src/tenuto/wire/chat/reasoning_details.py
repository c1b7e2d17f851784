"""Merge the streamed fragments of `reasoning_details` into the array that is sent back."""

from collections.abc import Iterable

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.wire.merge import MergedFields, merge_fields
from tenuto.wire.rawjson import Fields, is_object, is_text, text_or_empty

_CONCATENATED = ("text", "summary", "data")


class _MergedItem:
    __slots__ = ("fields", "is_signed", "pieces")

    def __init__(self) -> None:
        self.fields = MergedFields()
        self.is_signed = False  # a signed item takes no further fragments
        self.pieces: dict[str, list[str]] = {}

    def add(self, fields: Fields) -> None:
        for name, value in fields.items():
            if name in _CONCATENATED and is_text(value):
                self.pieces.setdefault(name, []).append(jsonio.text_of(value))
                if name not in self.fields:
                    self.fields[name] = value
            else:
                merge_fields(self.fields, ((name, value),))
                if name == "signature" and bytes(value) != b"null":
                    self.is_signed = bytes(value) != b'""'

    def merged_fields(self) -> Fields:
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
        self._by_index: dict[tuple[bytes, bytes], _MergedItem] = {}
        self._last: _MergedItem | None = None
        self._last_key: tuple[bytes, bytes] | None = None  # type and id of the last item, if it has no index

    def add(self, fragments: Iterable[Raw], *, whole: bool = False) -> str:
        """Add the fragments of one frame, or the items of a `whole` array; return their readable text."""
        texts = []
        for fragment in fragments:
            if not is_object(fragment):
                self._items.append(fragment)
                self._last_key = None
                continue
            fields = jsonio.members(fragment)
            if whole:
                self._items.append(fragment)
            else:
                self._find_item(fields).add(fields)
            texts += [text_or_empty(fields.get("text")), text_or_empty(fields.get("summary"))]
        return "".join(texts)

    def _find_item(self, fields: Fields) -> _MergedItem:
        """Return the item that a fragment belongs to; append one if it is new."""
        index, kind, id = (bytes(fields.get(name, b"null")) for name in ("index", "type", "id"))
        has_index = index != b"null"
        key = (index, kind) if has_index else (kind, id)
        item = self._by_index.get(key) if has_index else self._last if key == self._last_key else None
        if item is None or (item.is_signed and not has_index):
            item = _MergedItem()
            self._items.append(item)
        if has_index:
            self._by_index[key] = item
        self._last, self._last_key = item, None if has_index else key
        return item

    def raw(self) -> str:
        """Return the array so far as JSON text."""
        items = [item if isinstance(item, Raw) else item.merged_fields() for item in self._items]
        return jsonio.as_text(jsonio.encode(items))
