"""Rows at the end of the terminal that are redrawn in place, and the text that streams into them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from tenuto.cli.terminal.text import cell_width, cut_cells, escape_control, wrap
from tenuto.cli.terminal.text import count_rows as rows_of

_COLORS = re.compile(r"(\x1b\[[0-9;]*m)")
_AMBIGUOUS_START = re.compile(r"(?:^|(?<=\n))[-=+*#>|`~\d.) ]{0,9}\Z")
"""How a line begins that may still become anything."""
_THINKING_ROWS = 4
"""The rows of reasoning that are visible while it streams."""
_SHORT_THINKING = 3
"""Reasoning up to this number of rows stays whole."""
_KEPT_ROWS = 2
"""The rows that remain of longer reasoning."""


class LiveArea:
    """Rows at the end of a terminal. Erase them before writing something else."""

    def __init__(self, write: Callable[[str], None], window: Callable[[], os.terminal_size], *, reflows: bool) -> None:
        self._write = write
        self._window = window
        self._reflows = reflows
        """Whether this terminal is known to wrap existing lines again in a narrower window."""
        self._size: os.terminal_size | None = None
        self._rows: Sequence[str] = ()

    def draw(self, rows: Sequence[str]) -> None:
        """Replace the rows.

        Nothing is drawn right after the window changed its size: a drag would leave rows behind.
        """
        now = self._window()
        before, self._size = self._size or now, now
        if now != before:
            self._write(self._erase(before))
        elif list(rows) != list(self._rows):
            self._write(self._erase(before) + self._draw_rows(rows[-max(now.lines - 1, 1) :]))

    def erase(self) -> None:
        if gone := self.erase_sequence():
            self._write(gone)

    def erase_sequence(self) -> str:
        """Return the escape sequence that erases the rows, so that the caller can write it together with new text."""
        return self._erase(self._size) if self._size is not None else ""

    def _draw_rows(self, rows: Sequence[str]) -> str:
        """Turn off line wrapping: a terminal may measure characters wider than we do."""
        self._rows = rows
        return "\x1b[?7l" + "\n".join(rows) + "\x1b[?7h" if rows else ""

    def _erase(self, drawn: os.terminal_size) -> str:
        rows, self._rows = self._rows, ()
        if not rows:
            return ""
        now = self._window()
        lines = len(rows)
        if now.columns < drawn.columns and self._reflows:
            lines = sum(rows_of(_COLORS.sub("", row), now.columns) for row in rows)
        up = min(lines, now.lines) - 1
        return "\r" + (f"\x1b[{up}A" if up > 0 else "") + "\x1b[J"


def _fit_row(line: str, columns: int) -> str:
    """Return the part of a styled line that fits in one row."""
    left, parts = columns, []
    for part in _COLORS.split(line.expandtabs()):
        parts.append(part if part.startswith("\x1b") else cut_cells(part, left))
        left -= cell_width(_COLORS.sub("", parts[-1]))
    return "".join(parts)


class StreamingText(Protocol):
    """Text that is streaming: complete parts are printed, the rest is redrawn."""

    where: Literal["out", "err"]
    """Where it stands for good."""

    def feed(self, piece: str) -> str:
        """Add a piece; return the lines that are complete."""

    def rows(self, columns: int, most: int) -> list[str]:
        """Return at most `most` rows of the rest."""

    def end(self) -> str:
        """Return the rest."""


class StreamingAnswer:
    """Markdown, rendered block by block. The cost of a redraw does not grow with the answer."""

    where: Literal["out", "err"] = "out"

    def __init__(self, columns: Callable[[], int], *, color: bool) -> None:
        self._columns = columns
        self._color = color
        from tenuto.cli.terminal.markdown import BlockSplitter  # imports rich

        self._blocks = BlockSplitter()
        self._has_blocks = False
        self._cached_rows: tuple[int, int, list[str]] | None = None
        """What was set last of the block that is coming, and for which window."""

    def feed(self, piece: str) -> str:
        self._cached_rows = None
        return "".join(self._render(block) for block in self._blocks.feed(piece))

    def rows(self, columns: int, most: int) -> list[str]:
        if self._cached_rows is None or self._cached_rows[:2] != (columns, most):
            text = _AMBIGUOUS_START.sub("", self._blocks.end_of_rest(most, columns))
            lines = [_fit_row(line, columns) for line in _render_lines(text, columns, color=self._color)[-most:]]
            self._cached_rows = columns, most, [""] * (self._has_blocks and bool(lines)) + lines
        return list(self._cached_rows[2])

    def end(self) -> str:
        rest, self._blocks, self._cached_rows = self._blocks.rest, type(self._blocks)(), None
        return self._render(rest)

    def _render(self, block: str) -> str:
        lines = _render_lines(block, self._columns(), color=self._color)
        if not lines:
            return ""
        space, self._has_blocks = "\n" if self._has_blocks else "", True
        return space + "\n".join(lines) + "\n"


def _render_lines(block: str, columns: int, *, color: bool) -> list[str]:
    text = escape_control(block.removesuffix("\r")).strip("\n")
    if not text.strip():
        return []
    from tenuto.cli.terminal.markdown import render_block

    return render_block(text, columns, color=color)


class StreamingThinking:
    """Thinking: its end is visible while it streams, then its start."""

    where: Literal["out", "err"] = "err"

    def __init__(self, columns: Callable[[], int], paint: Callable[[str], str]) -> None:
        self._columns = columns
        self._paint = paint
        self._text = ""

    def feed(self, piece: str) -> str:
        self._text += piece
        return ""

    def rows(self, columns: int, most: int) -> list[str]:
        text = escape_control(self._text[-_THINKING_ROWS * columns :].removesuffix("\r")).strip("\n")
        return [self._paint(row) for row in list(wrap(text, columns))[-min(_THINKING_ROWS, most) :] if text]

    def end(self) -> str:
        text, self._text = escape_control(self._text).strip("\n"), ""
        if not text.strip():
            return ""
        rows = list(wrap(text, self._columns()))
        if len(rows) > _SHORT_THINKING:
            rows[_KEPT_ROWS:] = [f"... {len(rows) - _KEPT_ROWS} more lines (tenuto show has them)"]
        return "".join(f"{self._paint(row)}\n" for row in rows)
