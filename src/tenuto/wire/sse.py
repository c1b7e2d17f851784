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

_STRUCTURE = re.compile(rb'\\.|\\\Z|["{}\[\]]', re.DOTALL)
_BOM = b"\xef\xbb\xbf"
_NAMED = re.compile(rb"^event: ([^\n]*)\ndata: ([^\n]+)\n\n", re.MULTILINE)
_PLAIN = re.compile(rb"^()data: ([^\n]+)\n\n", re.MULTILINE)


def _too_big(limit: int, start: bytes) -> ProtocolError:
    return ProtocolError(f"one event is larger than {limit} bytes; nothing of it was read", frame=start[:1024])


class SseDecoder:
    """Split a byte stream into frames; the result does not depend on where the pieces were cut.

    LF, CRLF and CR end a line, the space after a colon is optional, comments are skipped, data lines are joined by a
    newline, and the last line counts even without its newline. An event larger than `limit` is a `ProtocolError`.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._tail: list[bytes] = []
        self._size = 0
        self._after_cr = False

    def feed(self, piece: bytes) -> list[Frame]:
        """Take the next piece; return every frame it completes."""
        if self._after_cr or b"\r" in piece:
            piece = self._unix(piece)
        tail = self._tail
        if b"\n" not in piece:  # nothing can end here: do not join what will be joined again
            tail.append(piece)
            self._size += len(piece)
            if self._size > self._limit:
                raise _too_big(self._limit, b"".join(tail))
            return []
        if tail:
            tail.append(piece)
            piece = b"".join(tail)
        end = piece.rfind(b"\n\n") + 2
        rest = piece[end:] if end > 1 else piece
        self._tail = [rest]
        self._size = len(rest)
        if self._size > self._limit:
            raise _too_big(self._limit, rest)
        return self._split(piece[:end]) if end > 1 else []

    def _split(self, head: bytes) -> list[Frame]:
        """Split whole events. Nearly always all have the same lines: then one pass of a pattern takes them apart."""
        lines, named = (3, _NAMED) if head[:7] == b"event: " else (2, _PLAIN)
        frames: list[Frame] = named.findall(head)
        if len(frames) * lines != head.count(b"\n"):  # a line was passed over: read line by line
            frames = [frame for event in head.split(b"\n\n") if (frame := _frame(event))]
        if len(head) > self._limit:
            for _, data in frames:
                if len(data) > self._limit:
                    raise _too_big(self._limit, data)
        return frames

    def close(self) -> list[Frame]:
        """The stream has ended: return the frame that was still open, if any."""
        rest, self._tail, self._size = b"".join(self._tail), [], 0
        return [frame] if (frame := _frame(rest)) else []

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
    """Split an array of objects that arrives in pieces into its objects, each a frame as soon as it is whole."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._open = bytearray()
        self._depth = 0
        self._in_string = False
        self._held = b""

    def feed(self, piece: bytes) -> list[Frame]:
        """Take the next piece; return every object it completes."""
        piece, self._held = self._held + piece, b""
        frames: list[Frame] = []
        start = 0 if self._depth >= 2 else len(piece)
        for mark in _STRUCTURE.finditer(piece):
            sign, at = mark.group(), mark.start()
            if sign == b"\\":  # the character it escapes is in the next piece
                self._held, piece = sign, piece[:at]
            elif self._in_string or sign == b'"':
                self._in_string ^= sign == b'"'
            elif sign in b"{[":
                self._depth += 1
                start = at if self._depth == 2 else start
            elif sign in b"}]":
                self._depth -= 1
                if self._depth == 1:
                    frames.append((b"", bytes(self._open) + piece[start : at + 1]))
                    self._open.clear()
                    start = len(piece)
        if self._depth >= 2:
            self._open += piece[start:]
            if len(self._open) > self._limit:
                raise _too_big(self._limit, bytes(self._open[:1024]))
        return frames

    def close(self) -> list[Frame]:
        """The stream has ended: an object that was still open is handed on as it is, for the decoder to refuse."""
        rest = bytes(self._open) + self._held
        self._open.clear()
        return [(b"", rest)] if rest else []


class FrameReader:
    """Read frames in whichever of the three ways the first byte announces.

    `whole` is set when the body turned out to be one JSON object where a stream was asked for: some servers answer so,
    and most send their errors so. Such a body comes out as one frame at the end.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._reader: SseDecoder | JsonArrayReader | None = None
        self._body = bytearray()
        self.whole = False

    def feed(self, piece: bytes) -> list[Frame]:
        """Take the next piece; return every frame it completes."""
        if self._reader is not None:
            return self._reader.feed(piece)
        self._body += piece
        if not self.whole:
            start = bytes(self._body).removeprefix(_BOM).lstrip()
            if not start:
                return []
            if start[:1] != b"{":
                first, self._body = bytes(self._body), bytearray()
                self._reader = JsonArrayReader(self._limit) if start[:1] == b"[" else SseDecoder(self._limit)
                return self._reader.feed(first)
            self.whole = True
        return []

    def close(self) -> list[Frame]:
        """The stream has ended: return what was still open."""
        if self._reader is not None:
            return self._reader.close()
        return [(b"", bytes(self._body).removeprefix(_BOM))] if self.whole else []
