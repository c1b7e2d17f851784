"""The bytes of an answer, bounded: whatever a server sends, no more is held than the limits say.

No compressed answer is asked for. A server that compresses all the same is read if it does so with gzip or deflate,
piece by piece, and what comes out counts against the limits, not what came in.
"""

from __future__ import annotations

import zlib

from tenuto.client.http import HttpReply
from tenuto.client.watch import Watch
from tenuto.errors import ConnectionFailed, ProtocolError

__all__ = ["MAX_ERROR", "MAX_REPLY", "MAX_STREAM", "Body"]

MAX_REPLY = 64 * 1024 * 1024
MAX_STREAM = 256 * 1024 * 1024
MAX_ERROR = 256 * 1024
_PIECE = 256 * 1024


class Body:
    """Reads an answer. More than `limit` bytes are a `ProtocolError`; `watch` is told when it reads."""

    def __init__(self, reply: HttpReply, limit: int, watch: Watch) -> None:
        self._reply = reply
        self._limit = limit
        self._watch = watch
        self._size = 0
        self._inflate = _inflater(reply.headers.get("content-encoding", ""))

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end."""
        self._watch.reads()
        piece = await (self._reply.read() if self._inflate is None else self._inflate.read(self._reply))
        self._size += len(piece)
        self._watch.bytes()
        if self._size > self._limit:
            raise ProtocolError(f"the answer is larger than {self._limit} bytes; the rest was not read")
        return piece

    async def whole(self) -> bytes:
        """Return everything."""
        pieces = []
        while piece := await self.read():
            self._watch.event()  # a body that comes whole has no events: its bytes are its signs of life
            pieces.append(piece)
        return b"".join(pieces)

    async def head(self, size: int) -> tuple[bytes, bool]:
        """Return the first bytes, and whether there are more."""
        pieces: list[bytes] = []
        while self._size < size and (piece := await self.read()):
            pieces.append(piece)
        found = b"".join(pieces)
        return found[:size], len(found) >= size


class _Inflater:
    """Unpacks piece by piece; a piece of input may give many of output, but never more than `_PIECE` bytes at once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._raw = False
        self._z = zlib.decompressobj(zlib.MAX_WBITS + (16 if name == "gzip" else 0))

    async def read(self, reply: HttpReply) -> bytes:
        while not self._z.eof:
            packed = self._z.unconsumed_tail or await reply.read()
            if not packed:
                raise ConnectionFailed(f"the answer ended in the middle of its {self._name} data")
            if piece := self._unpacked(packed):
                return piece
        while await reply.read():  # what stands behind the end belongs to nothing
            pass
        return b""

    def _unpacked(self, packed: bytes) -> bytes:
        try:
            return self._z.decompress(packed, _PIECE)
        except zlib.error as exc:
            if self._name == "deflate" and not self._raw:  # some servers leave off the wrapper
                self._raw, self._z = True, zlib.decompressobj(-zlib.MAX_WBITS)
                return self._unpacked(packed)
            raise ProtocolError(f"the answer's {self._name} data cannot be unpacked: {exc}") from exc


def _inflater(encoding: str) -> _Inflater | None:
    name = encoding.strip().lower().removeprefix("x-")
    if name in ("", "identity"):
        return None
    if name in ("gzip", "deflate"):
        return _Inflater(name)
    raise ProtocolError(f"the answer is compressed with {encoding!r}, which was not asked for and is not read")
