"""Tools that read and write files inside one folder."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenuto.core import files, media_types
from tenuto.tools.builtin.confined_dir import ConfinedDir
from tenuto.tools.builtin.edits import replace_text
from tenuto.tools.builtin.walk import path_matcher, shown_path, walk
from tenuto.tools.decorator import MAX_OUTPUT
from tenuto.tools.results import cut

__all__ = ["MAX_FILE", "Files"]

MAX_FILE = 20_000_000
"""How many bytes a file may have to be read or edited."""
_MOST_LISTED = 1000
_ROOM = MAX_OUTPUT - 500
"""How many characters of a file are shown at once: beside them stands what was left out."""


class Files:
    """The tools, as methods; each is made a tool where it is asked for."""

    def __init__(self, root: ConfinedDir) -> None:
        self._root = root

    def read_file(
        self, path: str, offset: Annotated[int, Meta(ge=1)] = 1, limit: Annotated[int, Meta(ge=1)] = 2000
    ) -> str:
        """Read a text file, or a part of it. If lines are left out, the last line in brackets says so.

        Args:
            path: relative to the root folder, as in src/main.py
            offset: the first line to read, counted from 1
            limit: how many lines to read
        """
        text = self._text(path)
        lines = text.split("\n")
        count = len(lines) - (lines[-1] == "")
        if not text:
            return f"[{path} is empty]"
        if offset > count:
            raise ValueError(f"{path} has {count} lines: offset={offset} is beyond its end")
        shown, last = _fitting(lines[offset - 1 : min(count, offset - 1 + limit)], offset)
        if offset == 1 and shown == "\n".join(lines[:count]):
            return text
        more = f"; go on with offset={last + 1}" if last < count else ""
        return f"{shown}\n[lines {offset} to {last} of {count}{more}]"

    def write_file(self, path: str, content: str) -> str:
        """Write a text file, whole; one that is there is replaced. Folders on the way are made.

        Args:
            path: relative to the root folder, as in src/main.py
            content: everything that the file shall hold
        """
        try:
            data = content.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("content holds half a character, which no file can: leave it out") from None
        folder, name = self._root.place(path, make=True)
        with folder:
            existed = folder.write(name, data)
        return f"{'overwrote' if existed else 'created'} {path}: {len(data):,} bytes"

    def edit_file(self, path: str, old: str, new: str, all: bool = False) -> str:
        """Replace a text in a file by another. The text has to be in the file exactly once, or `all` be true.

        Args:
            path: relative to the root folder, as in src/main.py
            old: the text to replace, exactly as it is in the file, with enough around it to be found only once
            new: what shall stand in its place
            all: replace it wherever it stands
        """
        folder, name = self._root.place(path)
        with folder:
            data = folder.read(name, MAX_FILE)
            changed, lines = replace_text(data, old, new, all=all)
            folder.write(name, changed)
        times = "once" if len(lines) == 1 else f"{len(lines)} times"
        listed = ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")
        return f"replaced {times} in {path}, line {listed}"

    def list_files(
        self,
        path: str = ".",
        pattern: str = "*",
        depth: Annotated[int, Meta(ge=1, le=50)] = 3,
        hidden: bool = False,
    ) -> str:
        """List what is in a folder and in those below it, with the sizes of files in bytes; folders end in a slash.

        Args:
            path: the folder, relative to the root folder
            pattern: only files whose name matches, as in *.py; with a slash, whose path does, as in src/**/*.py
            depth: how many levels of folders to go down
            hidden: also list what begins with a dot, and what is inside
        """
        matches = path_matcher(pattern)
        lines: list[str] = []
        left, veiled = 0, 0
        for found, _ in walk(self._root, path, depth=depth, hidden=hidden):
            if found.hidden and not hidden:
                veiled += 1
            elif matches(found.path) and (found.kind != "folder" or pattern == "*"):
                left += len(lines) >= _MOST_LISTED
                if len(lines) < _MOST_LISTED:
                    lines.append(_line(found.path, found.kind, found.size))
        notes = [f"[{left:,} more: name a folder or a narrower pattern]"] if left else []
        notes += [f"[{veiled:,} hidden: hidden=true lists them]"] if veiled else []
        return "\n".join([*(lines or ["[nothing found]"]), *notes])

    def _text(self, path: str) -> str:
        """Read a file as text, without its byte order mark."""
        folder, name = self._root.place(path)
        with folder:
            data = folder.read(name, MAX_FILE)
        text = files.plain_text(data)
        if text is None:
            kind = media_types.detect_type(data) or "bytes that are no UTF-8 text"
            raise ValueError(f"{path} is no text: {len(data):,} bytes, {kind}")
        return text


def _fitting(lines: list[str], first: int) -> tuple[str, int]:
    """Join as many lines as can be shown; return the number of the last. One that is too long by itself is cut."""
    room, count = _ROOM, 0
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        count += 1
    if not count:
        return cut(lines[0], _ROOM), first
    return "\n".join(lines[:count]), first + count - 1


def _line(path: str, kind: str, size: int) -> str:
    shown = shown_path(path)
    return {"file": f"{shown}  {size:,}", "folder": f"{shown}/", "link": f"{shown}  [link, not followed]"}.get(
        kind, f"{shown}  [no ordinary file]"
    )
