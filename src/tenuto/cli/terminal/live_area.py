"""Rows at the end of the terminal that are redrawn in place, and the text that streams into them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Literal, TextIO

from tenuto.cli.terminal.output import window_size, write_encoded
from tenuto.cli.terminal.text import cell_width, cut_cells, escape_control, fold_cells, wrap

Where = Literal["out", "err"]
_COLORS = re.compile(r"(\x1b\[[0-9;]*m)")
_AMBIGUOUS_START = re.compile(r"(?:^|(?<=\n))[-=+*#>|`~\d.) ]{0,9}\Z")  # a line that may still become anything
_LIVE_THINKING = 4  # the rows of thinking that are visible while it streams
_SHORT_THINKING = 3  # the rows of finished thinking: all of it, or its start and a count


class LiveArea:
    """Rows at the end of a terminal. Erase them before writing something else."""

    def __init__(self, stream: TextIO | None, *, reflows: bool) -> None:
        self._stream = stream
        self._reflows = reflows  # whether the terminal wraps existing lines again in a narrower window
        self._size: os.terminal_size | None = None  # the window when the rows were drawn
        self._rows: list[str] = []

    def draw(self, rows: Sequence[str]) -> None:
        """Replace the rows; draw none right after the window changed its size: a drag would leave rows behind."""
        now = window_size(self._stream)
        if self._size not in (None, now):
            rows = ()
        rows = list(rows[-max(now.lines - 1, 1) :])
        if rows != self._rows:
            gone, self._rows = self.erase_sequence(), rows
            # without wrapping: a terminal may measure characters wider than we do
            self._write(gone + ("\x1b[?7l" + "\n".join(rows) + "\x1b[?7h" if rows else ""))
        self._size = now

    def erase(self) -> None:
        self._write(self.erase_sequence())

    def _write(self, text: str) -> None:
        if text and self._stream is not None:
            with suppress(OSError, ValueError):  # it is temporary
                write_encoded(self._stream, text)

    def erase_sequence(self) -> str:
        """Return the escape sequence that erases the rows, so that the caller can write it together with new text."""
        rows, self._rows = self._rows, []
        if not rows or self._size is None:
            return ""
        now = window_size(self._stream)
        lines = len(rows)
        if now.columns < self._size.columns and self._reflows:
            lines = sum(len(fold_cells(_COLORS.sub("", row), now.columns)) for row in rows)
        up = min(lines, now.lines) - 1
        return "\r" + (f"\x1b[{up}A" if up > 0 else "") + "\x1b[J"


class StreamingText:
    """Text that streams. It is printed as it comes; subclasses redraw what is incomplete."""

    is_live = False  # whether the text has rows that are redrawn

    def __init__(self, where: Where, columns: Callable[[], int], paint: Callable[[str], str]) -> None:
        self.where = where
        self._columns = columns
        self._paint = paint
        self._pieces: list[str] = []
        self._ends_line = True

    def feed(self, piece: str) -> None:
        self._pieces.append(piece)

    def take(self) -> str:
        """Return the part that is complete: it is printed and not redrawn again."""
        text = escape_control(self._take_all())
        self._ends_line = text.endswith("\n")
        return self._paint(text)

    def rows(self, _columns: int, _most: int) -> list[str]:
        return []

    def end(self) -> str:
        """Return the rest."""
        return "" if self._ends_line else "\n"

    def _take_all(self) -> str:
        text, self._pieces = "".join(self._pieces), []
        return text


class StreamingAnswer(StreamingText):
    """Markdown, rendered block by block."""

    is_live = True

    def __init__(self, columns: Callable[[], int], *, color: bool) -> None:
        super().__init__("out", columns, str)
        from tenuto.cli.terminal import markdown  # imports rich

        self._markdown = markdown
        self._color = color
        self._has_blocks = False

    def take(self) -> str:
        text, newline, line = self._take_all().rpartition("\n")
        *blocks, rest = self._markdown.split_blocks(escape_control(text + newline))
        self._pieces = [rest, line]
        return self._print(blocks)

    def rows(self, columns: int, most: int) -> list[str]:
        text = _AMBIGUOUS_START.sub("", escape_control("".join(self._pieces).removesuffix("\r")).strip("\n"))
        blocks = self._markdown.split_blocks(self._markdown.end_of_block(text, columns, most) + "\n")
        return [_fit_row(line, columns) for line in self._render(blocks, columns)[-most:]]

    def end(self) -> str:
        text = escape_control(self._take_all().removesuffix("\r"))
        return self._print(self._markdown.split_blocks(text + "\n"))

    def _print(self, blocks: Iterable[str]) -> str:
        lines = self._render(blocks, self._columns())
        self._has_blocks = self._has_blocks or bool(lines)
        return "".join(f"{line}\n" for line in lines)

    def _render(self, blocks: Iterable[str], columns: int) -> list[str]:
        lines: list[str] = []
        for block in blocks:
            if rendered := self._markdown.render_block(block, columns, color=self._color):
                lines += [""] * (self._has_blocks or bool(lines)) + rendered
        return lines


def _fit_row(line: str, columns: int) -> str:
    left, parts = columns, []
    for part in _COLORS.split(line.expandtabs()):
        parts.append(part if part.startswith("\x1b") else cut_cells(part, left))
        left -= cell_width(_COLORS.sub("", parts[-1]))
    return "".join(parts)


class StreamingThinking(StreamingText):
    """Thinking: its end is visible while it streams, then its start."""

    is_live = True

    def take(self) -> str:
        return ""

    def rows(self, columns: int, most: int) -> list[str]:
        text = "".join(self._pieces)[-_LIVE_THINKING * columns :].removesuffix("\r")
        return self._wrap(text, columns)[-min(_LIVE_THINKING, most) :]

    def end(self) -> str:
        rows = self._wrap(self._take_all(), self._columns())
        if len(rows) > _SHORT_THINKING:
            kept = _SHORT_THINKING - 1
            rows[kept:] = [self._paint(f"... {len(rows) - kept} more lines (tenuto show has them)")]
        return "".join(f"{row}\n" for row in rows)

    def _wrap(self, text: str, columns: int) -> list[str]:
        shown = escape_control(text).strip("\n")
        return [self._paint(row) for row in wrap(shown, columns)] if shown.strip() else []
