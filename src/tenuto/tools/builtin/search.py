"""A tool that searches files for a text or for a regular expression, inside one directory.

A regular expression that a model wrote may take hours, and `re` holds the interpreter's lock meanwhile. So a subprocess
compiles and runs it, and is killed when its time is up. Files are read in parts, because every call of the interpreter's
own functions (decoding, splitting, finding) holds the lock as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from tenuto.core import files
from tenuto.tools.builtin import matcher
from tenuto.tools.builtin.confined_dir import ConfinedDir, Directory, names_of
from tenuto.tools.builtin.files import MAX_FILE
from tenuto.tools.builtin.walk import WalkEntry, path_matcher, shown_path, walk
from tenuto.tools.execution import ToolContext

__all__ = ["FileSearch"]

_MOST_IN_FILE = 20
_MOST = 200
_DEPTH = 50
_SHOWN = 300
"""How many characters of a line are shown."""
_SECONDS = 20.0
"""How long a regular expression may be tried, on all files together."""

_PART = 1_000_000
"""How many bytes of a file are searched at once: a few milliseconds."""
_LONGEST_LINE = 4 * _PART

Lines: TypeAlias = Callable[[str], Awaitable[list[int]]]
"""Return the numbers of the lines of a text that match, from 1."""


class FileSearch:
    """The tool, as a method."""

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
        """Search text files line by line; each line found is shown as path:line: text. Files that are no text are skipped.

        Args:
            text: what to look for, within one line; upper and lower case are different
            path: the folder to search, or a single file, relative to the root folder
            pattern: only files whose name matches, as in *.py; with a slash, whose path does, as in src/**/*.py
            regex: `text` is a regular expression of Python's; (?i) at its start ignores case
            hidden: also search what begins with a dot
            context: filled in
        """
        if not text or "\n" in text:
            raise ValueError("text is looked for line by line: give some text without a line break")
        matches = path_matcher(pattern)
        chosen = (
            (found, folder)
            for found, folder in _files(self._root, path, hidden=hidden)
            if matches(found.path) and not (context and context.cancelled)
        )
        return asyncio.run(_searched(text, chosen, regex=regex))  # in the thread of this call, on a loop of its own


def _files(root: ConfinedDir, path: str, *, hidden: bool) -> Iterator[tuple[WalkEntry, Directory]]:
    names = names_of(path)
    if names:
        with root.open(names[:-1]) as folder:
            entry = dict(folder.entries()).get(names[-1])
            if entry is None:
                raise FileNotFoundError(f"there is no {path}; list_files shows what there is")
            if not stat.S_ISDIR(entry.st_mode):
                yield WalkEntry(folder.shown(names[-1]), "file", entry.st_size, 1, hidden=False), folder
                return
    for found, folder in walk(root, path, depth=_DEPTH, hidden=hidden):
        if found.kind == "file" and (hidden or not found.hidden):
            yield found, folder


async def _searched(wanted: str, chosen: Iterator[tuple[WalkEntry, Directory]], *, regex: bool) -> str:
    lines: list[str] = []
    searched, skipped, more = 0, 0, False
    async with _tried(wanted) if regex else _plain(wanted) as look:
        for found, folder in chosen:
            if len(lines) >= _MOST:
                more = True
                break
            hits = await _hits(found, folder, look)
            if hits is None:
                skipped += 1
                continue
            searched += 1
            lines += [_line(found.path, number, text) for number, text in hits[:_MOST_IN_FILE]]
            if len(hits) > _MOST_IN_FILE:
                lines.append(f"{shown_path(found.path)}: [more than {_MOST_IN_FILE} lines, the rest left out]")
    notes = [f"[stopped after {len(lines)} lines: name a folder, a pattern or a longer text]"] if more else []
    notes += [f"[{skipped:,} files skipped: no text, or too large]"] if skipped else []
    return "\n".join([*(lines or [f"[nothing found in {searched:,} files]"]), *notes])


async def _hits(found: WalkEntry, folder: Directory, look: Lines) -> list[tuple[int, str]] | None:
    """Return the matching lines of a file with their numbers; None if it is no text, too large, or cannot be read."""
    if found.size > MAX_FILE:
        return None
    try:
        data = folder.read(found.path.rpartition("/")[2], MAX_FILE)
    except OSError:
        return None
    hits: list[tuple[int, str]] = []
    before = 0
    for part in _parts(data):
        text = files.plain_text(part) if len(part) <= _LONGEST_LINE else None
        if text is None:
            return None
        if len(hits) <= _MOST_IN_FILE:
            numbers = await look(text)
            held = text.split("\n") if numbers else []
            hits += [(before + number, held[number - 1]) for number in numbers]
        before += text.count("\n")
    return hits


def _parts(data: bytes) -> Iterator[bytes]:
    """Split after a line break about every `_PART` bytes; a longer line is one part."""
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + _PART) + 1 if start + _PART < len(data) else len(data)
        end = end or data.find(b"\n", start + _PART) + 1 or len(data)
        yield data[start:end]
        start = end


def _line(path: str, number: int, text: str) -> str:
    text = text.removesuffix("\r")
    return f"{shown_path(path)}:{number}: {text if len(text) <= _SHOWN else text[:_SHOWN] + ' [...]'}"


@contextlib.asynccontextmanager
async def _plain(wanted: str) -> AsyncIterator[Lines]:
    async def look(text: str) -> list[int]:
        return [at for at, line in enumerate(text.split("\n"), 1) if wanted in line] if wanted in text else []

    yield look


@contextlib.asynccontextmanager
async def _tried(expression: str) -> AsyncIterator[Lines]:
    """Start the program that runs the expression, and kill it at the end."""
    pipe = asyncio.subprocess.PIPE
    where = str(Path(matcher.__file__))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", where, stdin=pipe, stdout=pipe, limit=MAX_FILE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    to, back = process.stdin, process.stdout

    async def ask(value: object) -> Any:
        to.write(json.dumps(value).encode() + b"\n")
        with contextlib.suppress(ConnectionError):  # the program has ended, and gives no answer either
            await to.drain()
        answer = await back.readline()
        if not answer:
            raise ValueError("the expression could not be tried: write a simpler one")
        return json.loads(answer)

    async def look(text: str) -> list[int]:
        found: list[int] = await ask(text)
        return found

    try:
        async with asyncio.timeout(_SECONDS):
            fault = await ask([expression, _MOST_IN_FILE + 1, math.ceil(_SECONDS) + 1])
            if fault is not None:
                raise ValueError(
                    f"text is no regular expression: {fault}; leave regex=true out to look for it as it is"
                )
            yield look
    except TimeoutError:
        raise ValueError(
            f"the expression takes too long (over {_SECONDS:g} s): write a simpler one, or name a folder or a pattern"
        ) from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        to.close()
        await process.wait()
