"""Tables of text: columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Sequence

from tenuto.cli.cells import width

__all__ = ["columns"]


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines, each with its end; what is in the last column is as long as it is.

    A cell is one line, and holds nothing that a terminal would obey: who gives it sees to that (`escaping.one_line`).
    """
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)][:-1]
    return "".join(f"{_line(row, widths)}\n" for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=False)]
    return "  ".join([*cells, row[-1]]).rstrip()
