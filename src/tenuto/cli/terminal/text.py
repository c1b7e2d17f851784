"""Text for a terminal: control characters made visible, widths in cells, wrapping."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

_UNUSUAL = re.compile(r"[^ -~\n\t]")
_JOINERS = "\u200c\u200d"  # invisible, and parts of words and emoji: they stay
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control characters, invisible signs, halves of characters, odd ends of lines


def escape_control(text: str) -> str:
    """Return the text with control and other invisible characters escaped as in Python; newlines and tabs stay."""
    return _UNUSUAL.sub(lambda found: _escape(found[0], ascii), text.replace("\r\n", "\n"))


def escape_json(document: str) -> str:
    """Return an equal JSON document without characters that a terminal interprets."""
    import json  # few commands need it

    return _UNUSUAL.sub(lambda found: _escape(found[0], json.dumps).replace("\x7f", "\\u007f"), document)


def _escape(sign: str, quote: Callable[[str], str]) -> str:
    return quote(sign)[1:-1] if unicodedata.category(sign) in _HIDDEN and sign not in _JOINERS else sign


def one_line(text: str, most: int) -> str:
    """Return the text as one escaped line of at most `most` characters."""
    line = escape_control(" ".join(text[: 4 * most + 100].split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def cell_width(text: str) -> int:
    """Return the number of cells of a text without newlines and tabs."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # `tenuto --help` does not need rich

    return cell_len(text)


def truncate(text: str, most: int) -> str:
    """Return the start of a text in at most `most` cells, with `...` if it is cut."""
    if cell_width(text) <= most:
        return text
    dots = "..."[: max(most, 0)]
    return cut_cells(text, most - len(dots)) + dots


def cut_cells(text: str, most: int) -> str:
    return fold_cells(text, most)[0] if most > 0 else ""


def fold_cells(line: str, columns: int) -> list[str]:
    """Return the rows of a line in a window of `columns`."""
    if line.isascii():
        return [line[at : at + columns] for at in range(0, len(line), columns)] or [""]
    from rich.cells import chop_cells

    return chop_cells(line, columns) or [line]


def wrap(text: str, columns: int) -> Iterator[str]:
    """Yield the lines of a text wrapped at `columns`, between words if possible."""
    columns = max(columns, 1)
    for line in text.split("\n"):
        rest = line.expandtabs()
        while len(rest) > len(head := rest[: 4 * columns]) or cell_width(head) > columns:
            end = max(len(cut_cells(head, columns)), 1)  # a character may be wider than a row
            space = rest.rfind(" ", 1, end + 1)
            cut = end if space < 0 or rest[:space].isspace() else space
            yield rest[:cut].rstrip()
            rest = rest[cut:].lstrip(" ")
        yield rest


def similar_names(name: str, names: Iterable[str], n: int = 2) -> list[str]:
    """Return up to `n` names that may be meant, the most similar first."""
    import difflib  # only errors need it

    by_lower = {one.lower(): one for one in names}
    return [by_lower[one] for one in difflib.get_close_matches(name.lower(), by_lower, n, cutoff=0.65)]


def closest_names(name: str, names: Iterable[str]) -> str:
    """Return which name is meant, or which names are valid, for an error message."""
    if close := similar_names(name, known := list(names)):
        return f"did you mean {' or '.join(close)}?"
    return f"use one of {', '.join(known)}" if known else "none are defined"
