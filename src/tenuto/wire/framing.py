"""Bytes to frames, for all dialects: server-sent events, a JSON array sent in pieces, or a body that did not stream.

Lines are split as bytes, before any text is decoded, so a character cut in two between reads stays whole. Where the
bytes are cut never matters.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from tenuto.errors import ProtocolError

__all__ = ["MAX_EVENT", "Frame", "FrameReader", "JsonArrayReader", "SseDecoder"]

Frame: TypeAlias = tuple[bytes, bytes]
"""The name of an event (often empty) and its data."""

MAX_EVENT = 16 * 1024 * 1024

_STRUCTURE = rb'(?s)\\.|["{}\[\]]'  # compiled when an array comes
_BOM = b"\xef\xbb\xbf"
_GAP = b" \t\r\n,[]"
_NAMED = re.compile(rb"^event: ([^\n]*)\ndata: ([^\n]+)\n\n", re.MULTILINE)
_PLAIN = re.compile(rb"^()data: ([^\n]+)\n\n", re.MULTILINE)


def _too_big(limit: int, start: bytes) -> ProtocolError:
    return ProtocolError(f"one event is larger than {limit} bytes; nothing of it was read", frame=start[:1024])


class SseDecoder:
    """Split a byte stream into frames; the result does not depend on where the pieces were cut.

    LF, CRLF and CR end a line, the space after a colon is optional, comments are skipped, data lines are joined by a
    newline, and the last line counts even without its newline. An event larger than `limit` is a `ProtocolError`, told
    after the frames before it.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._tail: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._after_lf = False
        self._error: ProtocolError | None = None

    def feed(self, piece: bytes) -> list[Frame]:
        """Take the next piece; return every frame it completes."""
        if self._error is not None:
            raise self._error
        if self._after_cr or b"\r" in piece:
            piece = self._unix(piece)
        if b"\n\n" not in piece and not (self._after_lf and piece[:1] == b"\n"):
            self._wait(piece)  # nothing can end here: do not join what will be joined again
            frames: list[Frame] = []
        else:
            piece = b"".join((*self._tail, piece))
            end = piece.rfind(b"\n\n") + 2
            self._tail, self._size, self._after_lf = [], 0, False
            frames = self._split(piece[:end] if end <= self._limit else self._within_limit(piece[:end]))
            self._wait(piece[end:])
        if self._error is not None and not frames:
            raise self._error
        return frames

    def close(self) -> list[Frame]:
        """The stream has ended: return the frame that was still open, if any."""
        rest, self._tail = b"".join(self._tail), []
        if self._error is None and len(rest.removesuffix(b"\n")) > self._limit:
            self._error = _too_big(self._limit, rest)
        if self._error is not None:
            raise self._error
        return [frame] if (frame := _frame(rest)) else []

    def _wait(self, piece: bytes) -> None:
        self._tail.append(piece)
        self._size += len(piece)
        self._after_lf = piece[-1:] == b"\n" if piece else self._after_lf
        if self._size > self._limit + 1 and self._error is None:  # one more, for the newline that may end its last line
            self._error = _too_big(self._limit, b"".join(self._tail))

    def _split(self, head: bytes) -> list[Frame]:
        """Split whole events. Nearly always all have the same lines: then one pass of a pattern takes them apart."""
        lines, pattern = (3, _NAMED) if head[:7] == b"event: " else (2, _PLAIN)
        frames: list[Frame] = pattern.findall(head)
        if len(frames) * lines != head.count(b"\n"):  # a line was passed over: read line by line
            frames = [frame for event in head.split(b"\n\n") if (frame := _frame(event))]
        return frames

    def _within_limit(self, head: bytes) -> bytes:
        """Cut off what follows the first event that is too large."""
        at = 0
        for event in head.split(b"\n\n"):
            if len(event) > self._limit:
                self._error = _too_big(self._limit, event)
                return head[:at]
            at += len(event) + 2
        return head

    def _unix(self, piece: bytes) -> bytes:
        if self._after_cr and piece[:1] == b"\n":  # the second half of a CRLF that was cut in two
            piece = piece[1:]
            self._after_cr = False
        if piece:
            self._after_cr = piece[-1:] == b"\r"
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _frame(event: bytes) -> Frame | None:
    name = b""
    lines: list[bytes] = []
    for line in event.removeprefix(_BOM).split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value
    data = b"\n".join(lines)
    return (name, data) if data else None


class JsonArrayReader:
    """Split an array of objects that arrives in pieces into its objects, each a frame as soon as it is whole.

    Whatever stands between the objects, besides commas and space, is a frame too: it is for the decoder to refuse.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._held: list[bytes] = []
        self._size = 0
        self._depth = 0
        self._in_string = False
        self._escape = b""
        self._error: ProtocolError | None = None
        self._marks = re.compile(_STRUCTURE).finditer

    def feed(self, piece: bytes) -> list[Frame]:
        """Take the next piece; return every object it completes."""
        if self._error is not None:
            raise self._error
        piece = self._escape + piece
        self._escape = b"\\" if _cut_escape(piece) else b""
        piece = piece[:-1] if self._escape else piece
        frames: list[Frame] = []
        start = 0
        for mark in self._marks(piece):
            sign = mark.group()
            if self._in_string or sign == b'"':
                self._in_string ^= sign == b'"'
            elif sign in b"{[":
                self._depth += 1
                if self._depth == 2:
                    self._add(piece[start : mark.start()], frames)
                    start = mark.start()
            elif sign in b"}]":
                self._depth -= 1
                if self._depth == 1:
                    self._add(piece[start : mark.end()], frames)
                    start = mark.end()
        self._keep(piece[start:])
        if self._error is not None and not frames:
            raise self._error
        return frames

    def close(self) -> list[Frame]:
        """The stream has ended: what was still open is handed on as it is, for the decoder to refuse."""
        frames: list[Frame] = []
        if self._error is None:
            self._add(self._escape, frames)
        if self._error is not None:
            raise self._error
        return frames

    def _keep(self, piece: bytes) -> None:
        self._held.append(piece)
        self._size += len(piece)
        if self._size > self._limit and self._error is None:
            self._error = _too_big(self._limit, b"".join(self._held))

    def _add(self, end: bytes, frames: list[Frame]) -> None:
        self._keep(end)
        whole = b"".join(self._held)
        self._held, self._size = [], 0
        if self._error is None and whole.strip(_GAP):
            frames.append((b"", whole))


def _cut_escape(piece: bytes) -> bool:
    """Tell whether the piece ends in a backslash whose character is in the next one."""
    return (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1


class FrameReader:
    """Read frames in whichever of the three ways the first byte announces.

    `whole` is set when the body turned out to be one JSON object where a stream was asked for: some servers answer so,
    and most send their errors so. Such a body comes out as one frame at the end; it may not be larger than `limit`.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._reader: SseDecoder | JsonArrayReader | None = None
        self._body: list[bytes] = []
        self._size = 0
        self.whole = False

    def feed(self, piece: bytes) -> list[Frame]:
        """Take the next piece; return every frame it completes."""
        if self._reader is not None:
            return self._reader.feed(piece)
        self._body.append(piece)
        self._size += len(piece)
        if self.whole or not piece.strip():
            if self._size > self._limit:
                raise _too_big(self._limit, b"".join(self._body))
            return []
        first = b"".join(self._body)
        self._body = [first]
        start = first.removeprefix(_BOM).lstrip()
        if not start or _BOM.startswith(start):  # a mark of which more may follow
            return []
        if start[:1] == b"{":
            self.whole = True
            return self.feed(b"")
        self._body = []  # it is the reader's now
        self._reader = JsonArrayReader(self._limit) if start[:1] == b"[" else SseDecoder(self._limit)
        return self._reader.feed(start if start[:1] == b"[" else first)

    def close(self) -> list[Frame]:
        """The stream has ended: return what was still open."""
        if self._reader is not None:
            return self._reader.close()
        return [(b"", b"".join(self._body).removeprefix(_BOM))] if self.whole else []
