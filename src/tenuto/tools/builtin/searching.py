"""A tool that searches files for a text or for a regular expression, inside one folder.

Somebody else's expression may take longer than the world lasts, and while it is tried nothing else runs in the process.
So it is tried in another one, which is ended when its time is up. A plain text is looked for here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from tenuto.core import files
from tenuto.tools.builtin import matcher
from tenuto.tools.builtin.files import MAX_FILE
from tenuto.tools.builtin.root import Folder, Root, names_of
from tenuto.tools.builtin.walking import Found, matcher_of, shown_path, walk
from tenuto.tools.context import ToolContext

__all__ = ["Search"]

_MOST_IN_FILE = 20
_MOST = 200
_DEPTH = 50
_SHOWN = 300
"""How many characters of a line are shown."""
_SECONDS = 20.0
"""How long a regular expression may be tried, on all files together."""

Lines: TypeAlias = Callable[[str], Awaitable[list[int]]]
"""Tells which lines of a text match."""


class Search:
    """The tool, as a method."""

    def __init__(self, root: Root) -> None:
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
        matches = matcher_of(pattern)
        chosen = (
            (found, folder)
            for found, folder in _files(self._root, path, hidden=hidden)
            if matches.fullmatch(found.path) and not (context and context.cancelled)
        )
        return asyncio.run(_searched(text, chosen, regex=regex))  # in the thread of this call, on a loop of its own


def _files(root: Root, path: str, *, hidden: bool) -> Iterator[tuple[Found, Folder]]:
    names = names_of(path)
    if names:
        with root.open(names[:-1]) as folder:
            entry = dict(folder.entries()).get(names[-1])
            if entry is None:
                raise FileNotFoundError(f"there is no {path}; list_files shows what there is")
            if not stat.S_ISDIR(entry.st_mode):
                yield Found(folder.shown(names[-1]), "file", entry.st_size, 1, hidden=False), folder
                return
    for found, folder in walk(root, path, depth=_DEPTH, hidden=hidden):
        if found.kind == "file" and (hidden or not found.hidden):
            yield found, folder


async def _searched(wanted: str, chosen: Iterator[tuple[Found, Folder]], *, regex: bool) -> str:
    lines: list[str] = []
    searched, skipped, more = 0, 0, False
    async with _tried(wanted) if regex else _plain(wanted) as look:
        for found, folder in chosen:
            if len(lines) >= _MOST:
                more = True
                break
            text = _text(found, folder)
            if text is None:
                skipped += 1
                continue
            searched += 1
            numbers = await look(text)
            whole = text.split("\n")
            lines += [_line(found.path, at, whole[at - 1]) for at in numbers[:_MOST_IN_FILE]]
            if len(numbers) > _MOST_IN_FILE:
                lines.append(f"{shown_path(found.path)}: [more than {_MOST_IN_FILE} lines, the rest left out]")
    notes = [f"[stopped after {len(lines)} lines: name a folder, a pattern or a longer text]"] if more else []
    notes += [f"[{skipped:,} files skipped: no text, or too large]"] if skipped else []
    return "\n".join([*(lines or [f"[nothing found in {searched:,} files]"]), *notes])


def _text(found: Found, folder: Folder) -> str | None:
    if found.size > MAX_FILE:
        return None
    try:
        return files.plain_text(folder.read(found.path.rpartition("/")[2], MAX_FILE))
    except OSError:  # gone by now, or not ours to read: counted as skipped
        return None


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
    """Start the program that tries the expression, and end it whatever happens."""
    try:
        re.compile(expression)
    except (re.error, OverflowError, RecursionError) as exc:
        raise ValueError(
            f"text is no regular expression: {exc}; leave regex=true out to look for it as it is"
        ) from None
    pipe = asyncio.subprocess.PIPE
    where = str(Path(matcher.__file__))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", where, stdin=pipe, stdout=pipe, limit=MAX_FILE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    to, back = process.stdin, process.stdout
    to.write(json.dumps([expression, _MOST_IN_FILE + 1, math.ceil(_SECONDS) + 1]).encode() + b"\n")

    async def look(text: str) -> list[int]:
        to.write(json.dumps(text).encode() + b"\n")
        with contextlib.suppress(ConnectionError):  # it has ended: so it does not answer, either
            await to.drain()
        answer = await back.readline()
        if not answer:
            raise ValueError("the expression could not be tried: write a simpler one")
        found: list[int] = json.loads(answer)
        return found

    try:
        async with asyncio.timeout(_SECONDS):
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
