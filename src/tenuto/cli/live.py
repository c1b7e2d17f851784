"""What is seen while it comes, and gives way to what stands for good: a few rows at the end of a terminal.

The rows are drawn again in their place. None of them is ever longer than the window, whatever is in it, so it is known
where they begin; and where that is not known, because the window was made narrower, nothing above them is touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from tenuto.cli.cells import cut, width, wrapped
from tenuto.cli.cells import rows as rows_of
from tenuto.cli.escaping import shown
from tenuto.cli.markdown import Pieces, Splitter

__all__ = ["Answer", "Area", "Coming", "Thought"]

_COLORS = re.compile(r"(\x1b\[[0-9;]*m)")
_MARKS = re.compile(r"[*_`\[\]<>#|~\\&]|^ {0,3}(?:[-+=]|\d{1,9}[.)])|^[ \t]| $", re.MULTILINE)
"""What might mean something in Markdown: text without it is set without a parser."""
_UNCLEAR = re.compile(r"(?:^|(?<=\n))[-=+*#>|`~\d.) ]{0,9}\Z")
"""How a line begins that may still become anything."""
_SEEN = 4
"""So many rows of a thought are seen while it comes."""
_WHOLE = 3
"""A thought of so many rows stays as it is."""
_LEFT = 2
"""So many rows of a longer one are left."""


class Area:
    """Rows at the end of a terminal. Whoever writes something else there takes them away before."""

    def __init__(self, write: Callable[[str], None], window: Callable[[], os.terminal_size], *, reflows: bool) -> None:
        self._write = write
        self._window = window
        self._reflows = reflows
        """Whether this terminal is known to break its lines anew in a narrower window."""
        self._size: os.terminal_size | None = None
        self._rows: Sequence[str] = ()

    def draw(self, rows: Sequence[str]) -> None:
        """Draw rows in the place of those that stand there.

        In a window whose size has just changed nothing is drawn: while somebody drags it, nothing is left behind.
        """
        now = self._window()
        before, self._size = self._size or now, now
        if now != before:
            self._write(self._gone(before))
        elif list(rows) != list(self._rows):
            self._write(self._gone(before) + self._drawn(rows[-max(now.lines - 1, 1) :]))

    def erase(self) -> None:
        """Take the rows away."""
        if gone := self.taken():
            self._write(gone)

    def taken(self) -> str:
        """Return what takes the rows away, for who writes it together with something else; empty if there are none."""
        return self._gone(self._size) if self._size is not None else ""

    def _drawn(self, rows: Sequence[str]) -> str:
        """No row runs over into the next: a terminal may find signs wider than we do."""
        self._rows = rows
        return "\x1b[?7l" + "\n".join(rows) + "\x1b[?7h" if rows else ""

    def _gone(self, drawn: os.terminal_size) -> str:
        rows, self._rows = self._rows, ()
        if not rows:
            return ""
        now = self._window()
        lines = len(rows)
        if now.columns < drawn.columns and self._reflows:
            lines = sum(rows_of(_COLORS.sub("", row), now.columns) for row in rows)
        up = min(lines, now.lines) - 1
        return "\r" + (f"\x1b[{up}A" if up > 0 else "") + "\x1b[J"


def _row(line: str, columns: int) -> str:
    """Return a line as one row: as much of it as there is room for; its colors end as they would."""
    left, parts = columns, []
    for part in _COLORS.split(line.expandtabs()):
        parts.append(part if part.startswith("\x1b") else cut(part, left))
        left -= width(_COLORS.sub("", parts[-1]))
    return "".join(parts)


class Coming(Protocol):
    """What somebody is saying: some of it stands for good, the rest is seen as far as it came."""

    where: Literal["out", "err"]
    """Where it stands for good."""

    def feed(self, piece: str) -> str:
        """Take the next piece; return what stands for good by now, in lines that are ended."""

    def rows(self, columns: int, most: int) -> list[str]:
        """Return the rest, as rows; at most so many."""

    def end(self) -> str:
        """Nothing more comes: return the rest as it stands for good."""


class Answer:
    """What a model says: Markdown, set block by block. What a draw costs does not grow with the answer."""

    where: Literal["out", "err"] = "out"

    def __init__(self, columns: Callable[[], int], *, color: bool) -> None:
        self._columns = columns
        self._color = color
        self._blocks = Splitter()
        self._stands = False
        self._seen: tuple[int, int, list[str]] | None = None
        """What was set last of the block that is coming, and for which window."""

    def feed(self, piece: str) -> str:
        """Take the next piece; return the blocks that are whole by now."""
        self._seen = None
        return "".join(self._set(block) for block in self._blocks.feed(piece))

    def rows(self, columns: int, most: int) -> list[str]:
        """Return how the block that is coming ends."""
        if self._seen is None or self._seen[:2] != (columns, most):
            text = _UNCLEAR.sub("", self._blocks.last(most, columns))
            lines = [_row(line, columns) for line in _lines(text, columns, color=self._color)[-most:]]
            self._seen = columns, most, [""] * (self._stands and bool(lines)) + lines
        return list(self._seen[2])

    def end(self) -> str:
        """Return the last block, whole or not."""
        rest, self._blocks, self._seen = self._blocks.rest, Splitter(), None
        return self._set(rest)

    def _set(self, block: str) -> str:
        lines = _lines(block, self._columns(), color=self._color)
        if not lines:
            return ""
        space, self._stands = "\n" if self._stands else "", True
        return space + "\n".join(lines) + "\n"


def _lines(block: str, columns: int, *, color: bool) -> list[str]:
    text = shown(block.removesuffix("\r")).strip("\n")
    if not text.strip():
        return []
    if not _MARKS.search(text):
        return list(wrapped(text, columns))
    from tenuto.cli.typesetting import typeset  # loads rich, which takes as long as a short answer

    return typeset(text, columns, color=color)


class Thought:
    """What a model thinks: dim; its end is seen while it comes, and its beginning is left of it."""

    where: Literal["out", "err"] = "err"

    def __init__(self, columns: Callable[[], int], paint: Callable[[str], str]) -> None:
        self._columns = columns
        self._paint = paint
        self._said = Pieces()

    def feed(self, piece: str) -> str:
        """Take the next piece; nothing stands for good before it is whole."""
        self._said.add(piece)
        return ""

    def rows(self, columns: int, most: int) -> list[str]:
        """Return how it ends."""
        text = shown(self._said.last(_SEEN * columns).removesuffix("\r")).strip("\n")
        return [self._paint(row) for row in list(wrapped(text, columns))[-min(_SEEN, most) :] if text]

    def end(self) -> str:
        """Return all of it if it is short, else how it begins and how much more there is."""
        text, self._said = shown(self._said.whole()).strip("\n"), Pieces()
        if not text.strip():
            return ""
        rows = list(wrapped(text, self._columns()))
        if len(rows) > _WHOLE:
            rows[_LEFT:] = [f"... {len(rows) - _LEFT} more lines (tenuto show has them)"]
        return "".join(f"{self._paint(row)}\n" for row in rows)
