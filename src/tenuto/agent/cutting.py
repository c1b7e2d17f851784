"""Where a conversation can be cut in two without taking a call from its result."""

from __future__ import annotations

from collections.abc import Iterable

from tenuto.core.journal import Compacted, Entry, TranscriptFold

__all__ = ["place_of"]


def place_of(entries: Iterable[Entry], count: int) -> int:
    """Return the first entry with which the conversation is its first `count` messages and no call is open.

    Raise `ValueError`, which says where a cut can be made, if there is no such entry.
    """
    fold, least = TranscriptFold(), 0
    places: dict[int, int] = {}
    for entry in entries:
        fold.apply(entry)
        if isinstance(entry.payload, Compacted):  # what was before is not what the conversation begins with any more
            places, least = {}, len(fold)
        if not fold.open_calls():
            places.setdefault(len(fold), entry.seq)
    if 0 < count <= len(fold) and count in places:
        return places[count]
    if not 0 < count <= len(fold):
        raise ValueError(f"cannot fork after message {count}: choose 1 to {len(fold)}")
    if count < least:
        raise ValueError(f"cannot fork after message {count}: it was compacted since")
    near = sorted((place for place in places if place > 0), key=lambda place: abs(place - count))[:2]
    where = f"; choose {' or '.join(map(str, sorted(near)))}" if near else ""
    raise ValueError(f"cannot fork after message {count}: a tool call would lose its result{where}")
