"""What is embedded: files, their lines, or pieces of them, each with an id; and what of it is no text to embed.

Everything is read when it is its turn, so that what is waiting needs little room.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

import click

from tenuto.core import jsonio

__all__ = ["LARGEST", "Found", "How", "Item", "Passed", "Source", "Trouble", "found_in", "item_of", "pieces", "sources"]

LARGEST = 16 * 1024 * 1024
"""No model reads so much at once: what is longer is not even read whole."""
STDIN = "-"
_LOOK = 8192
_SEAMS = ("\n\n", "\n", ". ", " ")
"""Where a text is cut, the best first."""
_CONTROLS = bytes((*range(8), *range(14, 27), *range(28, 32)))


class Item(NamedTuple):
    """A text to embed. The digest (SHA-256) tells whether it has changed."""

    id: str
    text: str
    digest: str


class Trouble(NamedTuple):
    """What should have been embedded and was not, and why."""

    id: str
    why: str


class Passed(NamedTuple):
    """What lies in a folder and is nothing to embed."""

    id: str
    what: Literal["binary", "empty"]


Found: TypeAlias = Item | Trouble | Passed


class How(NamedTuple):
    """How files become items: whole, or by their lines. `chunk` is how many characters a piece has at most; 0: any."""

    lines: bool = False
    chunk: int = 0


class Source(NamedTuple):
    """A file, or stdin; `named` if it was typed, and not found in a folder."""

    path: Path
    id: str
    named: bool


def item_of(id: str, text: str) -> Item:
    """Make an item of a text that UTF-8 can hold."""
    return Item(id, text, hashlib.sha256(text.encode()).hexdigest())


# --- which files ------------------------------------------------------------------------------------------------------


def sources(names: Sequence[str], but: Path | None = None) -> list[Source | Trouble]:
    """Return the files that are meant, each once, those of a folder in the order of their names.

    What is hidden in a folder (`.git`, `.env`) is left alone, and so is `but`, into which is written, and what lies beside
    it. Raise `click.UsageError` for a name that is nothing.
    """
    out = _id(but) if but is not None else ""
    every: dict[str, Source | Trouble] = {}
    for name in names:
        for one in _meant(name):
            if not (out and one.id.startswith(out)):
                every.setdefault(one.id, one)
    return list(every.values())


def _meant(name: str) -> Iterator[Source | Trouble]:
    path = Path(name)
    if name == STDIN:
        yield Source(path, name, named=True)
    elif path.is_dir():
        yield from _walked(path)
    elif os.path.lexists(path):
        yield _source(path, named=True)
    else:
        raise click.UsageError(f"there is no file {name!r}; a text is given with --text, or piped in for -")


def _walked(folder: Path) -> Iterator[Source | Trouble]:
    shut: list[Trouble] = []

    def refused(exc: OSError) -> None:
        shut.append(Trouble(_id(Path(exc.filename or folder)), f"cannot be read: {exc.strerror}"))

    for at, folders, files in os.walk(folder, onerror=refused):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for name in sorted(files):
            path = Path(at, name)
            if not _is_hidden(name) and _is_file(path):
                yield _source(path, named=False)
    yield from shut


def _is_hidden(name: str) -> bool:
    return name.startswith(".") and name not in (".", "..")


def _is_file(path: Path) -> bool:
    """Tell whether it is a file: a pipe in a folder would be waited for."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return True  # that it cannot be read is told where it is read


def _source(path: Path, *, named: bool) -> Source | Trouble:
    id = _id(path)
    if jsonio.lone_surrogates(id):
        return Trouble(id.encode("utf-8", "backslashreplace").decode(), "has a name that is no UTF-8: rename it")
    return Source(path, id, named)


def _id(path: Path) -> str:
    """Return a path as it is from here, the same on every platform."""
    try:
        id = Path(os.path.relpath(path)).as_posix()
        return f"./{id}" if id == STDIN else id
    except ValueError:  # on another drive
        return path.absolute().as_posix()


# --- what is in them --------------------------------------------------------------------------------------------------


def found_in(places: Iterable[Source | Trouble], how: How) -> Iterator[Found]:
    """Yield the items of each file in its order; instead of one that is none, why."""
    for place in places:
        if isinstance(place, Trouble):
            yield place
            continue
        try:
            with _opened(place) as file:
                yield from _cut(_read(file, place, how), how.chunk)
        except OSError as exc:
            yield Trouble(place.id, f"cannot be read: {exc.strerror or exc}")


def _opened(place: Source) -> BinaryIO:
    if place.id != STDIN:
        return place.path.open("rb")
    if sys.stdin is None or sys.stdin.closed:
        raise OSError(errno.EBADF, "stdin is closed")
    # A file of our own: the interpreter's could not be closed at the end while a thread still waits for it.
    return os.fdopen(os.dup(sys.stdin.fileno()), "rb")


def _read(file: BinaryIO, place: Source, how: How) -> Iterator[Found]:
    if not how.lines:
        yield _whole(file.read(LARGEST + 1), place)
        return
    for number, raw in enumerate(_lines(file), 1):
        if number == 1 and _is_binary(raw):
            yield _binary(place)
            return
        id = f"{place.id}:{number}"
        if len(raw) > LARGEST:
            yield Trouble(id, f"is longer than {LARGEST // 2**20} MB")
            continue
        text = _text(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw, id)
        if isinstance(text, Trouble):
            yield text
        elif text.strip():
            yield item_of(id, text.rstrip("\r\n"))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines; of one that is far too long only its beginning, which is still too long."""
    while line := file.readline(LARGEST + 1):
        rest = line
        while len(rest) > LARGEST and not rest.endswith(b"\n"):
            rest = file.readline(LARGEST + 1)
        yield line


def _whole(data: bytes, place: Source) -> Found:
    if _is_binary(data):
        return _binary(place)
    if len(data) > LARGEST:
        return Trouble(place.id, f"is longer than {LARGEST // 2**20} MB: embed its --lines")
    text = _text(data.removeprefix(b"\xef\xbb\xbf"), place.id)
    if isinstance(text, Trouble):
        return text
    if text.strip():
        return item_of(place.id, text)
    return Trouble(place.id, "is empty") if place.named else Passed(place.id, "empty")


def _is_binary(data: bytes) -> bool:
    head = data[:_LOOK]
    return len(head.translate(None, _CONTROLS)) < len(head)


def _binary(place: Source) -> Found:
    return Trouble(place.id, "is no text, but binary data") if place.named else Passed(place.id, "binary")


def _text(data: bytes, id: str) -> str | Trouble:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        return Trouble(id, f"is no UTF-8 text (byte {exc.start + 1}): convert it")


# --- pieces -----------------------------------------------------------------------------------------------------------


def _cut(every: Iterable[Found], most: int) -> Iterator[Found]:
    """Cut items into pieces, which are numbered from 1."""
    for found in every:
        if not (most and isinstance(found, Item)):
            yield found
            continue
        for number, piece in enumerate(pieces(found.text, most), 1):
            if piece.strip():
                yield item_of(f"{found.id}#{number}", piece)


def pieces(text: str, most: int) -> Iterator[str]:
    """Cut a text into pieces of at most `most` characters, which together are the text.

    It is cut between paragraphs if that leaves a piece at least half as long as it may be; else between lines, sentences,
    words; else anywhere.
    """
    at = 0
    while at < len(text):
        end = at + most
        if end < len(text):
            end = _seam(text, at + (most + 1) // 2, end)
        yield text[at:end]
        at = end


def _seam(text: str, low: int, high: int) -> int:
    for seam in _SEAMS:
        found = text.rfind(seam, low, high)
        if found >= 0:
            return found + len(seam)
    return high
