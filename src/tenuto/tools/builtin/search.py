"""A tool that searches the files of one directory for a text or a regular expression.

A regex may backtrack exponentially, and `re` holds the interpreter lock meanwhile. So the regex runs in a subprocess with a
timeout. Files are searched in parts, because decoding, splitting and finding hold the lock as well.
"""

from __future__ import annotations

import contextlib
import json
import math
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
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

FindLines: TypeAlias = Callable[[str], list[int]]
"""Return the numbers of the matching lines of a text, starting at 1."""


class FileSearch:
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
        if not regex:
            return _search(entries, lambda part: _lines_with(text, part))
        with _regex_finder(text) as find_lines:
            return _search(entries, find_lines)

    def _files(self, path: str, *, hidden: bool) -> Iterator[tuple[WalkEntry, Directory]]:
        names = split_path(path)
        if names:
            with self._root.open(names[:-1]) as directory:
                status = directory.stat_existing(names[-1])
                if not stat.S_ISDIR(status.st_mode):
                    yield WalkEntry(directory.label(names[-1]), "file", status.st_size, hidden=False), directory
                    return
        with self._root.open(names) as directory:
            for entry, parent in directory.walk(_MAX_DEPTH, hidden=hidden):
                if entry.kind == "file" and (hidden or not entry.hidden):
                    yield entry, parent


def _search(entries: Iterator[tuple[WalkEntry, Directory]], find_lines: FindLines) -> str:
    lines: list[str] = []
    searched = skipped = 0
    notes: list[str] = []
    for entry, directory in entries:
        if len(lines) >= _MAX_LINES:
            notes.append(f"[stopped after {len(lines)} lines: use a directory, a pattern or a longer text]")
            break
        matches = _search_file(entry, directory, find_lines)
        if matches is None:
            skipped += 1
            continue
        searched += 1
        path = printable_path(entry.path)
        for number, line in matches[:_MAX_PER_FILE]:
            text = line.removesuffix("\r")
            lines.append(f"{path}:{number}: {text if len(text) <= _MAX_WIDTH else text[:_MAX_WIDTH] + ' [...]'}")
        if len(matches) > _MAX_PER_FILE:
            lines.append(f"{path}: [more than {_MAX_PER_FILE} lines, the others are omitted]")
    notes += [f"[{skipped:,} files skipped: binary or too large]"] if skipped else []
    return "\n".join([*(lines or [f"[no matches in {searched:,} files]"]), *notes])


def _search_file(entry: WalkEntry, directory: Directory, find_lines: FindLines) -> list[tuple[int, str]] | None:
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
            numbers = find_lines(text)
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


def _lines_with(wanted: str, text: str) -> list[int]:
    return [number for number, line in enumerate(text.split("\n"), 1) if wanted in line] if wanted in text else []


@contextlib.contextmanager
def _regex_finder(expression: str) -> Iterator[FindLines]:
    """Run `matcher` as a subprocess; kill it at the end, or after the time limit."""
    command = [sys.executable, "-I", "-S", matcher.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout, seconds = process.stdin, process.stdout, _SECONDS
        deadline, timer = time.monotonic() + seconds, threading.Timer(seconds, process.kill)
        timer.start()

        def send(value: object) -> Any:
            with contextlib.suppress(OSError):  # the process has ended, so there is no answer either
                stdin.write(json.dumps(value).encode() + b"\n")
                stdin.flush()
            answer = stdout.readline()
            if not answer:
                what = "failed" if time.monotonic() < deadline else f"took more than {seconds:g} s"
                raise ValueError(f"the regular expression {what}: use a simpler one, a directory or a pattern")
            return json.loads(answer)

        try:
            error = send([expression, _MAX_PER_FILE + 1, math.ceil(seconds) + 1])
            if error is not None:
                raise ValueError(f"invalid regular expression: {error}; omit regex=true to search for the text itself")
            yield send
        finally:
            timer.cancel()
            process.kill()
            with contextlib.suppress(OSError):
                stdin.close()
