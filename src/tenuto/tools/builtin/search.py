"""A tool that searches the files of one directory for a text or a regular expression.

A regex may backtrack exponentially, and `re` holds the interpreter lock meanwhile. So the regex runs in a subprocess with a
timeout. Files are searched in parts, because decoding, splitting and finding hold the lock as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeAlias

from tenuto.core import files
from tenuto.tools.builtin import matcher
from tenuto.tools.builtin.confined_dir import ConfinedDir, Directory, WalkEntry, printable_path, split_path
from tenuto.tools.builtin.files import MAX_FILE
from tenuto.tools.builtin.globs import path_matcher
from tenuto.tools.execution import ToolContext

_MAX_PER_FILE = 20
_MAX_LINES = 200
_MAX_DEPTH = 50
_MAX_WIDTH = 300
"""Limit for the characters of a line in the result."""
_SECONDS = 20.0
"""Limit for the time of a regular expression on all files together."""
_PART = 1_000_000
"""Bytes of a file that are searched at once: a few milliseconds."""
_MAX_PART = 4 * _PART
"""Limit for a part that is one long line."""

FindLines: TypeAlias = Callable[[str], Awaitable[list[int]]]
"""Return the numbers of the matching lines of a text, starting at 1."""


class FileSearch:
    """The tool as a method."""

    def __init__(self, root: ConfinedDir) -> None:
        self._root = root

    def search_files(
        self,
        text: str,
        path: str = ".",
        pattern: str = "*",
        regex: bool = False,
        hidden: bool = False,
        context: ToolContext | None = None,
    ) -> str:
        """Search text files line by line. Matches are shown as path:line: text. Binary files are skipped.

        Args:
            text: text to find within one line, case-sensitive
            path: directory or file to search, relative to the working directory
            pattern: glob for file names, as in *.py; with a slash for paths, as in src/**/*.py
            regex: `text` is a Python regular expression; (?i) at its start ignores case
            hidden: include entries that start with a dot
            context: the call
        """
        if not text or "\n" in text:
            raise ValueError("text is empty or has a line break: files are searched line by line")
        matches = path_matcher(pattern)
        entries = (
            (entry, directory)
            for entry, directory in self._files(path, hidden=hidden)
            if matches(entry.path) and not (context and context.cancelled)
        )
        return asyncio.run(_search(text, entries, regex=regex))  # the tool runs in a thread

    def _files(self, path: str, *, hidden: bool) -> Iterator[tuple[WalkEntry, Directory]]:
        names = split_path(path)
        if names:
            with self._root.open(names[:-1]) as directory:
                status = directory.stat(names[-1])
                if status is None:
                    raise FileNotFoundError(f"{path} not found; list_files shows the files")
                if not stat.S_ISDIR(status.st_mode):
                    yield WalkEntry(directory.label(names[-1]), "file", status.st_size, hidden=False), directory
                    return
        with self._root.open(names) as directory:
            for entry, parent in directory.walk(_MAX_DEPTH, hidden=hidden):
                if entry.kind == "file" and (hidden or not entry.hidden):
                    yield entry, parent


async def _search(text: str, entries: Iterator[tuple[WalkEntry, Directory]], *, regex: bool) -> str:
    lines: list[str] = []
    searched = skipped = 0
    notes: list[str] = []
    async with _regex_finder(text) if regex else _text_finder(text) as find_lines:
        for entry, directory in entries:
            if len(lines) >= _MAX_LINES:
                notes.append(f"[stopped after {len(lines)} lines: use a directory, a pattern or a longer text]")
                break
            matches = await _search_file(entry, directory, find_lines)
            if matches is None:
                skipped += 1
                continue
            searched += 1
            path = printable_path(entry.path)
            lines += [f"{path}:{number}: {_shorten(line)}" for number, line in matches[:_MAX_PER_FILE]]
            if len(matches) > _MAX_PER_FILE:
                lines.append(f"{path}: [more than {_MAX_PER_FILE} lines, the others are omitted]")
    notes += [f"[{skipped:,} files skipped: binary or too large]"] if skipped else []
    return "\n".join([*(lines or [f"[no matches in {searched:,} files]"]), *notes])


async def _search_file(entry: WalkEntry, directory: Directory, find_lines: FindLines) -> list[tuple[int, str]] | None:
    """Return the matching lines of a file with their numbers; None if it is binary, too large or not readable."""
    if entry.size > MAX_FILE:
        return None
    try:
        data = directory.read(entry.path.rpartition("/")[2], MAX_FILE)
    except OSError:
        return None
    matches: list[tuple[int, str]] = []
    first = 0
    for part in _parts(data):
        text = files.plain_text(part) if len(part) <= _MAX_PART else None
        if text is None:
            return None
        if len(matches) <= _MAX_PER_FILE:
            numbers = await find_lines(text)
            lines = text.split("\n") if numbers else []
            matches += [(first + number, lines[number - 1]) for number in numbers]
        first += text.count("\n")
    return matches


def _parts(data: bytes) -> Iterator[bytes]:
    """Split after a line break about every `_PART` bytes; a longer line is one part."""
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + _PART) + 1 if start + _PART < len(data) else len(data)
        end = end or data.find(b"\n", start + _PART) + 1 or len(data)
        yield data[start:end]
        start = end


def _shorten(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= _MAX_WIDTH else line[:_MAX_WIDTH] + " [...]"


@contextlib.asynccontextmanager
async def _text_finder(wanted: str) -> AsyncIterator[FindLines]:
    async def find_lines(text: str) -> list[int]:
        return [number for number, line in enumerate(text.split("\n"), 1) if wanted in line] if wanted in text else []

    yield find_lines


@contextlib.asynccontextmanager
async def _regex_finder(expression: str) -> AsyncIterator[FindLines]:
    """Run `matcher` as a subprocess and kill it at the end."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", matcher.__file__, stdin=pipe, stdout=pipe, limit=MAX_FILE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def send(value: object) -> Any:
        stdin.write(json.dumps(value).encode() + b"\n")
        with contextlib.suppress(ConnectionError):  # the process has ended, so there is no answer either
            await stdin.drain()
        answer = await stdout.readline()
        if not answer:
            raise ValueError("the regular expression failed: use a simpler one")
        return json.loads(answer)

    try:
        async with asyncio.timeout(_SECONDS):
            error = await send([expression, _MAX_PER_FILE + 1, math.ceil(_SECONDS) + 1])
            if error is not None:
                raise ValueError(f"invalid regular expression: {error}; omit regex=true to search for the text itself")
            yield send
    except TimeoutError:
        raise ValueError(
            f"the regular expression took more than {_SECONDS:g} s: use a simpler one, a directory or a pattern"
        ) from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        stdin.close()
        await process.wait()
