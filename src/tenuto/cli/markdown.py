"""Where one block of Markdown ends and the next begins, while it is still coming: pure, and no parser is loaded for it.

A block is what stands by itself: a paragraph, a heading, a list with all its items, a table, a quotation, code. Only whole
lines decide, so it does not matter how the text was cut into pieces; and every sign is in one block, or in the rest.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["FENCE", "Pieces", "Splitter"]

FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
"""The line that code begins with."""
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_QUOTE = re.compile(r" {0,3}>")
_ITEM = re.compile(r" {0,3}(?:([-+*])|(\d{1,9})([.)]))(?:([ \t]+)(?=\S)|[ \t]*$)")
_ITEMS = re.compile(r"(?:[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]+)*[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
"""Code that begins inside of a list, perhaps where an item does."""
_SEPARATOR = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-*:?[ \t]*)*$")


class Pieces:
    """Text that comes in pieces: the end of it can be looked at without putting all of it together."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, piece: str) -> None:
        """Take another piece."""
        if piece:
            self._pieces.append(piece)

    def last(self, most: int) -> str:
        """Return the last `most` characters."""
        found, left = [], most
        for piece in reversed(self._pieces):
            if left <= 0:
                break
            found.append(piece[-left:])
            left -= len(piece)
        return "".join(reversed(found))

    def whole(self) -> str:
        """Return all of it."""
        return "".join(self._pieces)


class _List(NamedTuple):
    """The list whose items are coming."""

    mark: str
    """What its items begin with: another mark is another list."""
    inside: int
    """So far something has to be indented to belong to the last item."""


class Splitter:
    """Pieces in, whole blocks out: what was fed is the blocks that were returned, and then the rest."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        """The whole lines of the block that is coming."""
        self._start = 0
        """Which of them is the first that is not empty, or the first of a table."""
        self._table = False
        self._begun = Pieces()
        """The line that is coming."""
        self._done: list[str] = []
        self._state = self._at_start
        self._fence = ""
        self._list = _List("", 0)
        self._apart = False
        """Whether what is not indented is no part of the list any more: behind an empty line, or behind code."""

    def feed(self, piece: str) -> list[str]:
        """Take the next piece; return every block that is whole now, with the empty lines around it."""
        first, *more = piece.split("\n")
        if not more:
            self._begun.add(first)
            return []
        self._begun.add(first)
        ends, rest = [self._begun.whole(), *more[:-1]], more[-1]
        for line in ends:
            self._state(line.rstrip("\r"), f"{line}\n")
        self._begun = Pieces()
        self._begun.add(rest)
        done, self._done = self._done, []
        return done

    @property
    def rest(self) -> str:
        """What has not become a block so far."""
        return "".join(self._lines) + self._begun.whole()

    def last(self, lines: int, columns: int) -> str:
        """Return how the rest ends, for who has so many lines of so many columns; what tells the kind of it stays with it.

        What it takes to do that does not grow with the rest.
        """
        head = [line[: 2 * columns] for line in self._lines[self._start : self._head()]]
        room = lines * columns
        begun = self._begun.last(room)
        found = [begun] if begun else []
        for line in reversed(self._lines[max(self._head(), len(self._lines) - lines) :]):
            room -= len(found[-1]) if found else 0
            if room <= 0:
                break
            found.append(line[-room:])
        return "".join([*head, *reversed(found)])

    def _head(self) -> int:
        """How many lines at the beginning say what it is: those of code and of a table do."""
        if self._state == self._in_code:
            return self._start + 1
        return self._start + 2 if self._table else 0

    # --- line by line: what it looks like, and what it is ---

    def _end(self) -> None:
        """What has come is a block."""
        if self._lines:
            self._done.append("".join(self._lines))
        self._lines = []
        self._state = self._at_start

    def _begin(self, bare: str, line: str) -> None:
        """What came before is a block, and this begins another."""
        self._end()
        self._at_start(bare, line)

    def _at_start(self, bare: str, line: str) -> None:
        self._lines.append(line)
        if not bare.strip(" \t"):
            return
        self._start, self._table = len(self._lines) - 1, False
        if fence := FENCE.match(bare):
            self._fence = fence[1]
            self._state = self._in_code
        elif _HEADING.match(bare) or _RULE.match(bare):
            self._end()
        elif item := _item(bare):
            self._list, self._fence = item, _opened(bare)
            self._apart = bool(self._fence)
            self._state = self._in_list
        else:
            self._state = self._in_indented if _indent(bare) >= 4 else self._in_run

    def _in_run(self, bare: str, line: str) -> None:
        """A paragraph, a quotation or a table: it goes on to an empty line, or to what cannot be part of it."""
        if not bare.strip(" \t") or (self._is_words() and _UNDERLINE.match(bare)):
            self._lines.append(line)
            self._end()
        elif _interrupts(bare) or self._is_other(bare):
            self._begin(bare, line)
        else:
            if "|" in self._lines[-1] and self._is_words() and _SEPARATOR.match(bare):
                self._start, self._table = len(self._lines) - 1, True
            self._lines.append(line)

    def _is_other(self, bare: str) -> bool:
        """Whether a quotation begins; or a list, at any number, where it is no words that are coming."""
        if not self._is_words() and _item(bare) is not None:
            return True
        return bool(_QUOTE.match(bare)) and not _QUOTE.match(self._lines[self._start])

    def _is_words(self) -> bool:
        """Whether it is a paragraph, which a line below it makes a heading."""
        return not _QUOTE.match(self._lines[self._start]) and not self._table

    def _in_code(self, bare: str, line: str) -> None:
        self._lines.append(line)
        if _closes(self._fence, bare) and _indent(bare) < 4:
            self._end()

    def _in_indented(self, bare: str, line: str) -> None:
        if not bare.strip(" \t") or _indent(bare) >= 4:
            self._lines.append(line)
        else:
            self._begin(bare, line)

    def _in_list(self, bare: str, line: str) -> None:
        apart, self._apart = self._apart, False
        if not bare.strip(" \t"):
            self._apart = True
            self._lines.append(line)
            return
        if _indent(bare) >= self._list.inside:
            before, self._fence = self._fence, _after(self._fence, bare)
            self._apart = bool(before or self._fence)
            self._lines.append(line)
            return
        self._fence = ""  # code ends with its item
        item = None if _RULE.match(bare) else _item(bare)
        if item is not None and item.mark == self._list.mark:
            self._list, self._fence = item, _opened(bare)
            self._apart = bool(self._fence)
            self._lines.append(line)
        elif item is not None or apart or _interrupts(bare) or _QUOTE.match(bare):
            self._begin(bare, line)
        else:
            self._lines.append(line)


def _indent(bare: str) -> int:
    """So many columns stand before the first sign."""
    expanded = bare.expandtabs(4)
    return len(expanded) - len(expanded.lstrip(" "))


def _item(bare: str) -> _List | None:
    """The list that a line is an item of."""
    found = _ITEM.match(bare)
    if found is None:
        return None
    gap = len(found[4].expandtabs(4)) if found[4] else 1
    marked = len(found[0]) - len(found[4] or "")
    return _List(found[1] or found[3], marked + (gap if gap < 5 else 1))


def _interrupts(bare: str) -> bool:
    """Whether a line begins something of its own where words were coming."""
    if FENCE.match(bare) or _HEADING.match(bare) or _RULE.match(bare):
        return True
    item = _ITEM.match(bare)
    return item is not None and bool(item[4]) and item[2] in (None, "1")


def _opened(bare: str) -> str:
    found = _ITEMS.match(bare)
    return found[1] if found else ""


def _closes(fence: str, bare: str) -> bool:
    end = bare.strip(" \t")
    return end.startswith(fence) and not end.strip(fence[0])


def _after(fence: str, bare: str) -> str:
    """The code that is open inside of a list after a line."""
    if fence:
        return "" if _closes(fence, bare) else fence
    return _opened(bare)
