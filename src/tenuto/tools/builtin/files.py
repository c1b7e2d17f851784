"""Tools that read, write, edit and list files inside one directory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from tenuto.core import files, media_types
from tenuto.tools.builtin.confined_dir import ConfinedDir, printable_path, split_path
from tenuto.tools.builtin.globs import path_matcher
from tenuto.tools.decorator import MAX_OUTPUT
from tenuto.tools.execution import cut

MAX_FILE = 20_000_000
"""Limit for the bytes of a file that is read or edited."""
_MAX_ENTRIES = 1000
_MAX_TEXT = MAX_OUTPUT - 500
"""Limit for the characters of a file in one result; the rest of `MAX_OUTPUT` is for the note about omitted lines."""
_MAX_LINES = 10
"""Limit for the line numbers in a message."""
_BOM = b"\xef\xbb\xbf"


class Files:
    def __init__(self, root: ConfinedDir) -> None:
        self._root = root

    def read_file(
        self, path: str, offset: Annotated[int, Meta(ge=1)] = 1, limit: Annotated[int, Meta(ge=1)] = 2000
    ) -> str:
        """Read a text file or part of it. If lines are omitted, the last line says so in brackets.

        Args:
            path: relative to the working directory, as in src/main.py
            offset: first line to read, starting at 1
            limit: maximum number of lines
        """
        directory, name = self._root.open_parent(path)
        with directory:
            data = directory.read(name, MAX_FILE)
        text = files.plain_text(data)
        if text is None:
            kind = media_types.detect_type(data) or "not UTF-8"
            raise ValueError(f"{path} is not a text file: {len(data):,} bytes, {kind}")
        if not text:
            return f"[{path} is empty]"
        lines = text.split("\n")
        count = len(lines) - (lines[-1] == "")
        if offset > count:
            raise ValueError(f"{path} has {count} lines: offset={offset} is after the last one")
        part, last = _join_lines(lines[offset - 1 : min(count, offset - 1 + limit)], offset)
        if offset == 1 and part == "\n".join(lines[:count]):
            return text
        more = f"; continue with offset={last + 1}" if last < count else ""
        return f"{part}\n[lines {offset} to {last} of {count}{more}]"

    def write_file(self, path: str, content: str) -> str:
        """Create or overwrite a text file; parent directories are created.

        Args:
            path: relative to the working directory, as in src/main.py
            content: full file contents
        """
        data = _encode(content, "content")
        directory, name = self._root.open_parent(path, create=True)
        with directory:
            existed = directory.write(name, data)
        return f"{'overwrote' if existed else 'created'} {path}: {len(data):,} bytes"

    def edit_file(self, path: str, old: str, new: str, all: bool = False) -> str:
        """Replace `old` with `new` in a text file. `old` must occur exactly once unless `all` is true.

        Args:
            path: relative to the working directory, as in src/main.py
            old: exact text to replace, with enough context to be unique
            new: replacement text
            all: replace every occurrence
        """
        directory, name = self._root.open_parent(path)
        with directory:
            changed, lines = replace_text(directory.read(name, MAX_FILE), old, new, all=all)
            directory.write(name, changed)
        times = "once" if len(lines) == 1 else f"{len(lines)} times"
        return f"replaced {times} in {path}, line {_list_lines(lines)}"

    def list_files(
        self,
        path: str = ".",
        pattern: str = "*",
        depth: Annotated[int, Meta(ge=1, le=50)] = 3,
        hidden: bool = False,
    ) -> str:
        """List a directory recursively, with file sizes in bytes. Directories end with a slash.

        Args:
            path: directory to list, relative to the working directory
            pattern: glob for file names, as in *.py; with a slash for paths, as in src/**/*.py
            depth: number of directory levels
            hidden: include entries that start with a dot, and their contents
        """
        matches = path_matcher(pattern)
        lines: list[str] = []
        omitted = hidden_count = 0
        with self._root.open(split_path(path)) as directory:
            for entry, _ in directory.walk(depth, hidden=hidden):
                if entry.hidden and not hidden:
                    hidden_count += 1
                elif not matches(entry.path) or (entry.kind == "directory" and pattern != "*"):
                    continue
                elif len(lines) < _MAX_ENTRIES:
                    ends = {"file": f"  {entry.size:,}", "directory": "/", "link": "  [link, not followed]"}
                    lines.append(printable_path(entry.path) + ends.get(entry.kind, "  [not a regular file]"))
                else:
                    omitted += 1
        notes = [f"[{omitted:,} more: choose a directory or a narrower pattern]"] if omitted else []
        notes += [f"[{hidden_count:,} hidden: hidden=true lists them]"] if hidden_count else []
        return "\n".join([*(lines or ["[no files found]"]), *notes])


def replace_text(data: bytes, old: str, new: str, *, all: bool = False) -> tuple[bytes, list[int]]:
    """Return the bytes of a file with `new` in place of `old`, and the numbers of the changed lines.

    A byte order mark stays. If the lines of the file end with CR LF, so do those of `old` and `new`. Raise `ValueError`
    with a remedy if the file is not UTF-8, if `old` does not occur, or if it occurs several times and `all` is false.
    """
    if not old:
        raise ValueError("old is empty: pass the exact text to replace, or use write_file")
    mark = _BOM if data.startswith(_BOM) else b""
    try:
        text = data.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ValueError(f"the file is not UTF-8 ({exc.reason} at byte {exc.start}) and was not changed") from None
    old, new = _match_line_ends(text, old, new)
    if old == new:
        raise ValueError("old and new are the same: nothing to change")
    lines = list(_find_lines(text, old, overlapping=not all))
    if not lines:
        raise ValueError(
            f"old is not in the file{_whitespace_hint(text, old)}; read the file and copy the text exactly"
        )
    if len(lines) > 1 and not all:
        raise ValueError(
            f"old occurs {len(lines)} times (lines {_list_lines(lines)}): include more of the surrounding text, or set "
            "all=true to replace every occurrence"
        )
    return mark + _encode(text.replace(old, new), "new"), lines


def _encode(text: str, parameter: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{parameter} contains half a surrogate pair: remove it, files cannot store it") from None


def _match_line_ends(text: str, old: str, new: str) -> tuple[str, str]:
    """Write the line ends of `old` and `new` as the file does, if it uses one kind or only the other kind matches."""
    crlf_count = text.count("\r\n")
    crlf_old, crlf_new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    if crlf_count and (crlf_count == text.count("\n") or (old not in text and crlf_old in text)):
        return crlf_old, crlf_new
    return old, new


def _find_lines(text: str, old: str, *, overlapping: bool) -> Iterator[int]:
    """Yield the line of each occurrence. Overlapping ones count if only one may be replaced: it would be ambiguous."""
    line, start, offset = 1, 0, text.find(old)
    while offset >= 0:
        line += text.count("\n", start, offset)
        yield line
        start, offset = offset, text.find(old, offset + (1 if overlapping else len(old)))


def _whitespace_hint(text: str, old: str) -> str:
    """Name the line where the text occurs with other white space."""
    wanted = [" ".join(line.split()) for line in old.strip().splitlines()]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for index in range(len(lines) - len(wanted) + 1) if any(wanted) else ():
        if lines[index : index + len(wanted)] == wanted:
            return f", but line {index + 1} differs from it only in white space"
    return ""


def _list_lines(lines: list[int]) -> str:
    return ", ".join(map(str, lines[:_MAX_LINES])) + (", ..." if len(lines) > _MAX_LINES else "")


def _join_lines(lines: list[str], first: int) -> tuple[str, int]:
    """Join as many lines as fit into a result. Return the text and the number of the last line."""
    room, count = _MAX_TEXT, 0
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        count += 1
    if not count:
        return cut(lines[0], _MAX_TEXT), first
    return "\n".join(lines[:count]), first + count - 1
