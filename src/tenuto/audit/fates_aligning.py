"""Which slot of a body holds which block: blocks claim slots by their keys, surest first, in the order of the transcript.

Every step looks at each block and each slot a bounded number of times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tenuto.audit.fates_slots import Key, Slot
from tenuto.audit.fates_units import Unit
from tenuto.core.blocks import Marker, Reasoning, ToolUse
from tenuto.core.messages import ToolResult

__all__ = ["align"]

_AHEAD = 8
"""How many slots, or texts, further on one is looked for."""
_GAPS = ("", "\n\n", "\n")
"""What stands between texts that are joined."""


def align(
    units: Sequence[Unit], slots: Sequence[Slot], doomed: set[int], changed: Mapping[int, str]
) -> list[int | None]:
    """Return the slot of each block, or None.

    `doomed` are the blocks that a loss says are gone: they take only what nobody else claims. `changed` went out in
    another form, in these words as far as they are known: they are looked for by them, and beside their neighbours.
    """
    work = _Alignment(units, slots)
    kinds = [type(unit.held) for unit in units]
    blocks = [at for at, kind in enumerate(kinds) if kind is not ToolResult]
    sure = [at for at in blocks if at not in doomed] if doomed else blocks
    sealed = [at for at in sure if kinds[at] in (Reasoning, Marker)]
    work.claim([at for at in sealed if units[at].token])
    work.claim([at for at in sealed if kinds[at] is Marker])
    same = [at for at in work.missing(sure) if at not in changed]
    work.explain(same)
    work.claim(same)
    if work.missing(sure):
        work.search(sure, changed)
        work.claim(sure)
    work.claim(at for at in doomed if kinds[at] is not ToolResult)
    work.claim_weakly(work.missing(blocks))
    work.claim_results([at for at, kind in enumerate(kinds) if kind is ToolResult], doomed)
    work.between(work.missing(sorted(changed)))
    return work.found


class _Alignment:
    """Claims so far: each slot is claimed once, but for texts that were joined in it."""

    def __init__(self, units: Sequence[Unit], slots: Sequence[Slot]) -> None:
        self._units = units
        self._slots = slots
        self._taken = bytearray(len(slots))
        self._queues: dict[Key, list[int]] = {}
        for at in range(len(slots) - 1, -1, -1):
            for key in slots[at].keys:
                self._queues.setdefault(key, []).append(at)  # the first comes last, where it is taken from
        self.found: list[int | None] = [None] * len(units)

    def missing(self, numbers: Iterable[int]) -> list[int]:
        """Return those blocks that have no slot yet."""
        found = self.found
        return [at for at in numbers if found[at] is None]

    def _take(self, keys: Iterable[Key]) -> int | None:
        for key in keys:
            queue = self._queues.get(key)
            while queue:
                at = queue.pop()
                if not self._taken[at]:
                    self._taken[at] = True
                    return at
        return None

    def claim(self, numbers: Iterable[int]) -> None:
        """Let each block claim the first free slot that has one of its keys."""
        for at in numbers:
            if self.found[at] is None:
                self.found[at] = self._take(self._units[at].keys())

    def explain(self, numbers: Iterable[int]) -> None:
        """Read the texts of each speaker in order: a slot holds one text, or several that follow each other, joined."""
        members: dict[tuple[str, str], list[int]] = {}
        for at in numbers:
            unit = self._units[at]
            if unit.text:
                members.setdefault(unit.channel, []).append(at)
        reached = dict.fromkeys(members, 0)
        for number, slot in enumerate(self._slots):
            waiting = members.get(slot.channel)
            if not waiting or not slot.text or self._taken[number]:
                continue
            first = reached[slot.channel]
            for start in range(first, min(first + _AHEAD, len(waiting))):
                end = self._explained(slot.text, waiting, start)
                if end:
                    self._taken[number] = True
                    for at in waiting[start:end]:
                        self.found[at] = number
                    reached[slot.channel] = end
                    break

    def _explained(self, whole: str, waiting: list[int], start: int) -> int:
        """Return the end of the texts that come to the whole, beginning with this one; 0 if they do not."""
        if self._units[waiting[start]].text == whole:
            return start + 1
        read = 0
        for number in range(start, len(waiting)):
            text = self._units[waiting[number]].text
            gap = next((gap for gap in _GAPS if whole.startswith(gap + text, read)), None)
            if gap is None or (gap and not read):
                return 0
            read += len(gap) + len(text)
            if read == len(whole):
                return number + 1
        return 0

    def search(self, numbers: Sequence[int], changed: Mapping[int, str]) -> None:
        """Look for texts that were joined with others: behind the one before, or in one of the next slots."""
        if not any(self.found[at] is None and (self._units[at].text or changed.get(at)) for at in numbers):
            return
        channels: dict[tuple[str, str], _Channel] = {}
        for at, slot in enumerate(self._slots):
            if slot.channel[1]:
                channels.setdefault(slot.channel, _Channel()).add(at, slot.text)
        for at in numbers:
            unit, number, words = self._units[at], self.found[at], changed.get(at, "")
            channel = channels.get((unit.stream, "text") if words else unit.channel)
            if channel is None:
                continue
            if number is not None:
                channel.go_to(number)
            elif words or unit.text:
                self.found[at] = channel.find(words or unit.text, self._taken)

    def claim_weakly(self, numbers: Iterable[int]) -> None:
        """Align what is still missing by what may be the same elsewhere: calls whose ids were changed by their names."""
        for at in numbers:
            self.found[at] = self._take(self._units[at].weak_keys())

    def claim_results(self, results: Iterable[int], doomed: set[int]) -> None:
        """Align results by the ids under which their calls were sent, then by the names of their calls."""
        calls = _answered(self._units)
        ordered = sorted(results, key=doomed.__contains__)  # those that a loss says are gone come last
        for at in ordered:
            call = self.found[calls[at]] if at in calls else None
            id = self._slots[call].id if call is not None else ""
            named = self._take([("result", "id", id)]) if id else None
            self.found[at] = self._take(self._units[at].keys()) if named is None else named
        last = len(self._units)
        for at in sorted(self.missing(ordered), key=lambda at: (at in doomed, calls.get(at, last))):
            held = self._units[calls.get(at, at)].held
            name = held.name if isinstance(held, ToolUse) else next(iter(self._units[at].keys()))[2]
            self.found[at] = self._take([("result", "name", name)])

    def between(self, numbers: Iterable[int]) -> None:
        """Give blocks that went out in other words the free slot beside their neighbours'."""
        for at in numbers:
            slot = self._noted(at) if isinstance(self._units[at].held, Reasoning) else None
            if slot is None:
                slot = next((place for place in self._beside(at) if self._fits(place, self._units[at])), None)
                if slot is not None:
                    self._taken[slot] = True
            self.found[at] = slot

    def _beside(self, at: int) -> Iterator[int]:
        message = self._units[at].message
        for step in (-1, 1):
            near = at + step
            if 0 <= near < len(self._units) and self._units[near].message == message:
                slot = self.found[near]
                if slot is not None:
                    yield slot - step

    def _fits(self, slot: int, unit: Unit) -> bool:
        free = 0 <= slot < len(self._slots) and not self._taken[slot]
        return free and any(key[0] == unit.stream for key in self._slots[slot].keys)

    def _noted(self, at: int) -> int | None:
        """Find a thought that is told in the user's next words."""
        text = self._units[at].text.strip()
        for unit, slot in zip(self._units[at + 1 : at + 1 + _AHEAD], self.found[at + 1 : at + 1 + _AHEAD], strict=True):
            if unit.stream != "asked" or slot is None:
                continue
            for place in (slot, slot - 1):
                if place >= 0 and text and text in self._slots[place].text:
                    return place
        return None


class _Channel:
    """The slots in which the words of one speaker may be joined, and how far they were read."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._texts: list[str] = []
        self._places: dict[int, int] = {}
        self._at = -1
        self._offset = 0

    def add(self, number: int, text: str) -> None:
        self._places[number] = len(self._numbers)
        self._numbers.append(number)
        self._texts.append(text)

    def go_to(self, number: int) -> None:
        if number in self._places and self._places[number] != self._at:
            self._at = self._places[number]
            self._offset = len(self._texts[self._at])

    def find(self, text: str, taken: bytearray) -> int | None:
        if self._at >= 0:
            start = self._texts[self._at].find(text, self._offset)
            if start >= 0:
                self._offset = start + len(text)
                return self._numbers[self._at]
        for at in range(self._at + 1, min(self._at + 1 + _AHEAD, len(self._numbers))):
            start = -1 if taken[self._numbers[at]] else self._texts[at].find(text)
            if start >= 0:
                self._at, self._offset = at, start + len(text)
                taken[self._numbers[at]] = True
                return self._numbers[at]
        return None


def _answered(units: Sequence[Unit]) -> dict[int, int]:
    """Say which call each result answers: the n-th of an id the n-th call of it, in the latest turn that has one."""
    open_calls: dict[str, deque[int]] = {}
    turns: dict[str, int] = {}
    found: dict[int, int] = {}
    for at, unit in enumerate(units):
        held = unit.held
        if type(held) is ToolUse:
            if turns.get(held.id) != unit.message:
                open_calls[held.id] = deque()
            turns[held.id] = unit.message
            open_calls[held.id].append(at)
        elif type(held) is ToolResult:
            waiting = open_calls.get(held.tool_use_id)
            if waiting:
                found[at] = waiting.popleft()
    return found
