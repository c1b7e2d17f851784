"""How much room there is on a terminal, and how much text takes: a sign has one cell, or two, or none of its own.

What is counted here is the most that a terminal may take: signs that some join into one are counted one by one.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from typing import TextIO

__all__ = ["clipped", "cut", "rows", "size", "width", "wrapped"]

_TAB = 8


class _Cells(dict[str, int]):
    """Looks each sign up once."""

    def __missing__(self, sign: str) -> int:
        if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
            cells = 0
        else:
            cells = 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        self[sign] = cells
        return cells


_CELLS = _Cells()


def size(stream: TextIO | None) -> os.terminal_size:
    """Return how wide and high the window is at the moment; what is usual, where nobody knows."""
    try:
        found = os.get_terminal_size(stream.fileno()) if stream is not None else None
    except (OSError, ValueError):
        found = None
    return os.terminal_size(((found and found.columns) or 80, (found and found.lines) or 24))


def width(text: str) -> int:
    """Return how many cells a text without ends of lines and tabs takes."""
    return len(text) if text.isascii() else sum(_CELLS[sign] for sign in text)


def clipped(text: str, most: int) -> str:
    """Return how a text begins, as far as it has room in `most` cells; what is cut ends in dots."""
    if width(text) <= most:
        return text
    dots = "..."[: max(most, 0)]
    return cut(text, most - len(dots)) + dots


def cut(text: str, most: int) -> str:
    """Return as much of a text as has room in `most` cells."""
    return text[: _fitting(text, 0, most)]


def rows(text: str, columns: int) -> int:
    """Return how many rows a text without ends of lines takes in a window of so many columns."""
    at, count = _fitting(text, 0, columns), 1
    while at < len(text):
        at, count = max(_fitting(text, at, columns), at + 1), count + 1
    return count


def _fitting(text: str, at: int, most: int) -> int:
    """Return up to where a text, from a place on, has room in `most` cells."""
    if text.isascii():
        return min(at + max(most, 0), len(text))
    left = most
    for end in range(at, len(text)):
        left -= _CELLS[text[end]]
        if left < 0:
            return end
    return len(text)


def wrapped(text: str, columns: int) -> Iterator[str]:
    """Yield the lines of a text as a screen of so many columns shows them: cut between words where that can be done."""
    for line in text.split("\n"):
        yield from _wrapped(line.expandtabs(_TAB), max(columns, 1))


def _wrapped(line: str, columns: int) -> Iterator[str]:
    at = 0
    while (end := _fitting(line, at, columns)) < len(line):
        end = max(end, at + 1)  # a sign that is wider than all there is
        space = line.rfind(" ", at + 1, end + 1)
        cut = space if space > 0 and not line[at:space].isspace() else end
        yield line[at:cut].rstrip()
        at = cut
        while line[at : at + 1] == " ":
            at += 1
    yield line[at:]
