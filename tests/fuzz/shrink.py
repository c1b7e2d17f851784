"""Find a shorter reply that breaks the same property at the same position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fuzz.document import Literal, copied, slots
from fuzz.stream import Stream, parse

__all__ = ["shrink"]

Broken = Callable[[bytes], bool]
ATTEMPTS = 400


class _Budget:
    def __init__(self, broken: Broken, attempts: int) -> None:
        self._broken = broken
        self._left = attempts

    def still_broken(self, body: bytes) -> bool:
        """Tell whether a candidate breaks the same property; False once all attempts are used."""
        self._left -= 1
        return self._left >= 0 and self._broken(body)


def shrink(body: bytes, transport: str, broken: Broken, attempts: int = ATTEMPTS) -> bytes:
    """Return the shortest body found for which `broken` holds: fewer frames, fewer values, shorter strings."""
    budget = _Budget(broken, attempts)
    stream = parse(body, transport)
    if stream.body != body and not budget.still_broken(stream.body):
        return _fewer_bytes(body, budget)
    before = -1
    while before != len(stream.body):
        before = len(stream.body)
        _fewer_frames(stream, budget)
        _fewer_values(stream, budget)
    return _fewer_bytes(stream.body, budget)


def _halves(count: int) -> Iterator[tuple[int, int]]:
    """Yield ranges to leave out: large ones first, the last element first."""
    size = max(1, count // 2)
    while True:
        for end in range(count, 0, -size):
            yield max(0, end - size), end
        if size == 1:
            return
        size //= 2


def _fewer_frames(stream: Stream, budget: _Budget) -> None:
    for start, end in _halves(len(stream.frames)):
        fewer = Stream(stream.transport, stream.frames[:start] + stream.frames[end:])
        if len(fewer.frames) < len(stream.frames) and budget.still_broken(fewer.body):
            stream.frames[:] = fewer.frames


def _fewer_values(stream: Stream, budget: _Budget) -> None:
    for at in reversed(range(len(stream.frames))):
        try:
            root = [stream.document(at)]
        except ValueError:
            continue
        paths = [slot.path for slot in slots(root)]
        for path in paths:
            for change in (_deleted, _shorter):
                candidate = copied(root)
                if not change(candidate, path):
                    continue
                trial = Stream(stream.transport, list(stream.frames))
                trial.put(at, candidate[0])
                if len(trial.body) < len(stream.body) and budget.still_broken(trial.body):
                    root, stream.frames[at] = candidate, trial.frames[at]
                    break


def _deleted(root: list[Any], path: str) -> bool:
    slot = next((slot for slot in slots(root) if slot.path == path and path), None)
    if slot is None:
        return False
    del slot.holder[slot.at]
    return True


def _shorter(root: list[Any], path: str) -> bool:
    slot = next((slot for slot in slots(root) if slot.path == path), None)
    if slot is None or not isinstance(slot.value, str) or len(slot.value) < 2 or isinstance(slot.value, Literal):
        return False
    slot.put(slot.value[:1])
    return True


def _fewer_bytes(body: bytes, budget: _Budget) -> bytes:
    if len(body) > 4_000:
        return body
    for start, end in _halves(len(body)):
        fewer = body[:start] + body[end:]
        if len(fewer) < len(body) and budget.still_broken(fewer):
            body = fewer
    return body
