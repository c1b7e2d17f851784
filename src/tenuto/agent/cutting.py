"""Where a conversation can be cut in two without taking a call from its result."""

from __future__ import annotations

from collections.abc import Iterable

from tenuto.core.journal import Compacted, Entry, Fold

__all__ = ["place_of"]


def place_of(entries: Iterable[Entry], count: int) -> int:
    """Return the first entry with which the conversation is its first `count` messages and no call is open.

    Raise `ValueError`, which says where a cut can be made, if there is no such entry.
    """
    fold, least = Fold(), 0
    places: dict[int, int] = {}
    for entry in entries:
        fold.take(entry)
        if isinstance(entry.act, Compacted):  # what was before is not what the conversation begins with any more
            places, least = {}, len(fold)
        if not fold.open_calls():
            places.setdefault(len(fold), entry.seq)
    if 0 < count <= len(fold) and count in places:
        return places[count]
    refused = f"the conversation cannot be cut behind message {count}: "
    if not 0 < count <= len(fold):
        raise ValueError(f"{refused}it has {len(fold)} messages")
    if count < least:
        raise ValueError(f"{refused}what stood there was summed up since")
    near = sorted((place for place in places if place > 0), key=lambda place: abs(place - count))[:2]
    where = f"; it can be cut behind message {' or '.join(map(str, sorted(near)))}" if near else ""
    raise ValueError(f"{refused}calls would be taken from their results{where}")
