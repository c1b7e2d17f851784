"""What a docstring says of a function and of its parameters, in any of the three common styles.

Google's (`Args:` and an indented list), Sphinx's (`:param name: ...`) and NumPy's (`Parameters` underlined). Whatever
stands before the first of them describes the function; what follows the parameters is for readers of the source.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

__all__ = ["read_docstring"]

_GOOGLE = re.compile(r"(?:Args|Arguments|Parameters|Params)\s*:\s*")
_GOOGLE_ITEM = re.compile(r"\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_FIELD = re.compile(r"\s*:(\w+)([^:]*):\s*(.*)")
_SPHINX = ("param", "parameter", "arg", "argument", "key", "keyword")
_NUMPY_ITEM = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_RULER = re.compile(r"-{3,}\s*")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return what is said of the function, and what is said of each parameter."""
    lines = inspect.cleandoc(text or "").splitlines()
    for at, line in enumerate(lines):
        after = lines[at + 1 :]
        if _GOOGLE.fullmatch(line):
            # Nothing before the list: its indentation was taken for that of the source.
            return _joined(lines[:at]), _told(_google(after if at else [f"    {line}" for line in after]))
        if line.strip() == "Parameters" and after and _RULER.fullmatch(after[0]):
            return _joined(lines[:at]), _told(_numpy(after[1:]))
        field = _FIELD.fullmatch(line)
        if field and field[1] in (*_SPHINX, "type"):
            return _joined(lines[:at]), _told(_sphinx(lines[at:]))
    return _joined(lines), {}


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines).strip()


def _told(pieces: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Join what is said of each name to one paragraph."""
    found: dict[str, list[str]] = {}
    for name, piece in pieces:
        found.setdefault(name, []).append(piece.strip())
    joined = {name: " ".join(filter(None, held)) for name, held in found.items()}
    return {name: said for name, said in joined.items() if name and said}


def _google(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Read an indented list. A line that is indented more than the first one goes on with the item before."""
    name, margin = "", 0
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        if not indent:
            return
        margin = margin or indent
        item = _GOOGLE_ITEM.fullmatch(line) if indent <= margin else None
        name = item[1] if item else name
        yield name, item[2] if item else line


def _numpy(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Read names at the margin, each with an indented text below it, up to the next underlined heading."""
    names: list[str] = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if _RULER.fullmatch(below):
            return
        item = _NUMPY_ITEM.fullmatch(line)
        if item and not line.startswith(" "):
            names = [name.strip() for name in item[1].split(",")]
        else:
            yield from ((name, line) for name in names)


def _sphinx(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Read fields. A parameter's type may stand before its name; indented lines go on with the field before."""
    name = ""
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field:
            words = field[2].split()
            name = words[-1].lstrip("*") if words and field[1] in _SPHINX else ""
            yield name, field[3]
        elif line.strip():
            yield name, line
