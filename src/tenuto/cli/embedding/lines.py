"""Vectors as JSON lines: `{"id", "model", "digest", "embedding", "text"}`, one line for each, in a file or on stdout.

A file only grows. If an id occurs twice, since its text has changed, the last line counts. Each batch is one write that
waits for the disk; a line that a crash tore off is cut away when the file is written next, and until then not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

import msgspec

from tenuto.cli.embedding.items import Item
from tenuto.cli.embedding.keeping import Answered, Kept, packed
from tenuto.cli.screen import write_text
from tenuto.core import jsonio
from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store.locks import Guard

__all__ = ["LinesFile", "LinesShelf", "Printed"]

_BEGIN = b'{"id":"'
_PAGE = 256
_AGAIN = "type the same command again"


class _Known(msgspec.Struct):
    id: str
    model: str
    digest: str
    embedding: msgspec.Raw


class _Line(msgspec.Struct):
    id: str
    embedding: tuple[float, ...]
    text: str


_known = msgspec.json.Decoder(_Known)
_line = msgspec.json.Decoder(_Line)
_floats = msgspec.json.Decoder(tuple[float, ...])


def _written(batch: Sequence[Answered], kept: Kept) -> bytes:
    lines = []
    for item, vector in batch:
        line = {"id": item.id, "model": kept.model, "digest": item.digest, "embedding": vector, "text": item.text}
        lines.append(jsonio.encode(line) + b"\n")
    return b"".join(lines)


class Printed:
    """Lines on stdout, in the order of their items; nothing is kept."""

    ordered = True
    where = "stdout"

    def kept(self) -> Kept | None:
        """Nothing."""
        return None

    def left(self, items: Sequence[Item]) -> list[Item]:
        """All of them."""
        return list(items)

    def put(self, batch: Sequence[Answered], kept: Kept) -> None:
        """Print. Raise `Unread` if nobody reads."""
        write_text(_written(batch, kept).decode())

    def close(self) -> None:
        """There is nothing to let go of."""


class LinesFile:
    """A file that is being written: what is in it already is known by its digests. Only one process may write at a time.

    It is made when the first vectors are put into it.
    """

    ordered = False

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._digests: dict[str, bytes] = {}
        self._kept: Kept | None = None
        self._path = path.absolute()
        self._guard = Guard(self._path)  # the file itself is the lock: nothing is left beside it
        self._file: FileIO | None = None
        if self._path.exists():
            self._file = self._opened()

    def _opened(self) -> FileIO:
        """Open the file, or make it; read what is in it, and cut off what was torn."""
        with _spoken(self._path), ExitStack() as undo:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            undo.callback(self._guard.close)
            if not self._guard.lock_exclusive():
                raise StoreError(f"{self.where!r} is being written by another process: wait for its end")
            opened = undo.enter_context(self._path.open("ab", buffering=0))
            end = self._read()
            if os.fstat(opened.fileno()).st_size > end:
                _cut(opened, end)
            undo.pop_all()
            return opened

    def _read(self) -> int:
        """Read what is there; return where it ends."""
        end = 0
        with self._path.open("rb") as file:
            for known, start, size in _known_lines(file, self.where):
                end = start + size
                self._digests[known.id] = bytes.fromhex(known.digest)
                self._kept = self._kept or Kept(known.model, len(_floats.decode(known.embedding)))
        return end

    def kept(self) -> Kept | None:
        """What the vectors in the file have in common."""
        return self._kept

    def left(self, items: Sequence[Item]) -> list[Item]:
        """Return what is not in the file, or was another text when it was written."""
        return [item for item in items if self._digests.get(item.id) != bytes.fromhex(item.digest)]

    def put(self, batch: Sequence[Answered], kept: Kept) -> None:
        """Add lines, and wait until the disk has them."""
        left = memoryview(_written(batch, kept))
        if self._file is None:
            self._file = self._opened()
            if self._digests:
                raise StoreError(f"{self.where!r} was begun by somebody else meanwhile: {_AGAIN}")
        with _spoken(self._path):
            end = os.fstat(self._file.fileno()).st_size
            try:
                while left:
                    left = left[self._file.write(left) :]
                os.fsync(self._file.fileno())
            except OSError:
                with suppress(OSError):  # what is torn is cut away by who writes next
                    _cut(self._file, end)
                raise
        self._digests |= {item.id: bytes.fromhex(item.digest) for item, _ in batch}
        self._kept = kept

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._guard.close()


class LinesShelf:
    """A file that is read: where the last line of each id stands."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, int] = {}
        self._kept: Kept | None = None
        with _spoken(path), ExitStack() as undo:
            self._file = undo.enter_context(path.open("rb"))
            for known, start, _ in _known_lines(self._file, str(path)):
                self._places[known.id] = start
                self._kept = self._kept or Kept(known.model, len(_floats.decode(known.embedding)))
            undo.pop_all()

    def kept(self) -> Kept | None:
        """What the vectors in the file have in common."""
        return self._kept

    def vectors(self) -> Iterator[list[tuple[str, bytes]]]:
        """Yield ids and vectors, in the order of the lines that count."""
        ids = sorted(self._places, key=self._places.__getitem__)
        for at in range(0, len(ids), _PAGE):
            yield [(id, packed(self._line(id).embedding)) for id in ids[at : at + _PAGE]]

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the texts of items."""
        return {id: self._line(id).text for id in ids}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _line(self, id: str) -> _Line:
        with _spoken(self._path):
            self._file.seek(self._places[id])
            try:
                return _line.decode(self._file.readline())
            except (msgspec.DecodeError, OverflowError) as exc:
                raise StoreCorrupt(f"{str(self._path)!r}: the line of {id!r} cannot be read: {exc}") from exc


def _cut(file: FileIO, end: int) -> None:
    os.ftruncate(file.fileno(), end)
    os.fsync(file.fileno())


def _known_lines(file: BinaryIO, where: str) -> Iterator[tuple[_Known, int, int]]:
    """Yield the lines, where each begins, and how long it is; one that has no end was torn off, and does not count.

    Raise `StoreCorrupt` for a line that is none of ours, or was made otherwise than the first: nothing is changed then.
    """
    start, model = 0, ""
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):
            if not line.startswith(_BEGIN[: len(line)]) and line.strip(b"\0"):
                raise StoreCorrupt(f"{where!r} does not end as a file of embeddings does: name another file")
            return
        if line.strip():
            known = _decoded(line, number, where)
            model = model or known.model
            if known.model != model:
                raise StoreCorrupt(f"line {number} of {where!r} was made by {known.model}, the first one by {model}")
            yield known, start, len(line)
        start += len(line)


def _decoded(line: bytes, number: int, where: str) -> _Known:
    try:
        known = _known.decode(line)
        bytes.fromhex(known.digest)
    except (msgspec.DecodeError, ValueError) as exc:
        raise StoreCorrupt(
            f"line {number} of {where!r} is no embedding: {exc}. Name another file; or, if it was damaged, cut it off "
            f"before that line"
        ) from None
    return known


@contextmanager
def _spoken(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise StoreError(f"{str(path)!r} cannot be used: {exc.strerror or exc}") from exc
