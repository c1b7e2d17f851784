"""The same stream in other chunks, with other line ends and with comments."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["cut", "variants"]

_EVENT = re.compile(rb"(?<=\n\n)")
_BYTES = [bytes([value]) for value in range(256)]
_DATA = re.compile(rb"^data:", re.MULTILINE)


def cut(data: bytes, size: int) -> Iterator[bytes]:
    """Cut into pieces of `size` bytes. Single bytes come from a table: there are millions of them."""
    if size == 1:
        return map(_BYTES.__getitem__, data)
    return (data[at : at + size] for at in range(0, len(data), size))


def variants(data: bytes, transport: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield each way to divide and write a stream, with its name. A JSON array has no line ends to change."""
    yield "cut at 1 byte", cut(data, 1)
    yield "cut at 2 bytes", cut(data, 2)
    yield "cut at 7 bytes", cut(data, 7)
    if transport != "sse":
        return
    unix = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    yield "cut at every event", iter(_EVENT.split(unix))
    yield "CRLF, cut at 7 bytes", cut(unix.replace(b"\n", b"\r\n"), 7)
    yield "CR, cut at 7 bytes", cut(unix.replace(b"\n", b"\r"), 7)
    yield "comments in between", iter(_commented(unix))


def _commented(unix: bytes) -> list[bytes]:
    """Put comments before the first event, between the lines of each, and between events."""
    pieces = [b": keep-alive\n\n"]
    for event in _EVENT.split(unix):
        pieces.append(_DATA.sub(b": keep-alive\ndata:", event))
        if event.endswith(b"\n\n"):
            pieces.append(b":\n\n")
    return pieces
