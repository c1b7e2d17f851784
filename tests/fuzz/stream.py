"""A reply as frames that can be mutated one by one, and written as bytes again."""

from __future__ import annotations

import dataclasses
import random
import re
from typing import Any

from fuzz.document import read, write

__all__ = ["Stream", "parse"]

MAX_FRAMES = 45
"""The number of frames of a longer stream that are used: its start, its end and a part between. 100,000 runs must end.
"""
_BLANK = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2,}")
_DATA = re.compile(rb"^data:[ ]?([^\r\n]*)", re.MULTILINE)


@dataclasses.dataclass
class Stream:
    """Frames of one reply. `transport` is `sse`, `json-array` or `json`; a `json` reply has one frame, its body."""

    transport: str
    frames: list[bytes]

    @property
    def body(self) -> bytes:
        """The bytes of the reply."""
        if self.transport == "sse":
            return b"".join(frame + b"\n\n" for frame in self.frames)
        if self.transport == "json-array":
            return b"[" + b",\n".join(self.frames) + b"]"
        return b"".join(self.frames)

    def document(self, at: int) -> Any:
        """Return the JSON of a frame; raise `ValueError` if it has none."""
        frame = self.frames[at]
        if self.transport != "sse":
            return read(frame)
        if (found := _DATA.search(frame)) is None:
            raise ValueError("no data")
        return read(found[1])

    def put(self, at: int, document: Any) -> None:
        """Replace the JSON of a frame."""
        text = write(document).encode()
        if self.transport == "sse" and (found := _DATA.search(self.frames[at])):
            text = self.frames[at][: found.start(1)] + text + self.frames[at][found.end(1) :]
        self.frames[at] = text


def parse(body: bytes, transport: str, rng: random.Random | None = None) -> Stream:
    """Split a reply into frames. With `rng`, a stream longer than `MAX_FRAMES` is shortened."""
    if transport == "sse":
        frames = [frame for frame in _BLANK.split(body.removeprefix(b"\xef\xbb\xbf")) if frame]
    elif transport == "json-array":
        try:
            frames = [write(item).encode() for item in read(body)]
        except (ValueError, TypeError):
            return Stream("json", [body])
    else:
        return Stream("json", [body])
    if rng is not None and len(frames) > MAX_FRAMES:
        third = MAX_FRAMES // 3
        start = rng.randrange(third, len(frames) - 2 * third + 1)
        frames = frames[:third] + frames[start : start + third] + frames[-third:]
    return Stream(transport, frames)
