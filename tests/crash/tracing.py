"""Count how often each thread runs each line of some files, and kill the process at one of these moments.

A thread has a role: main, writer, reader, tool. A kill happens before the line. Marks are points before and after certain
methods: a commit, the emission of an event.
"""

from __future__ import annotations

import ast
import dis
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import CodeType
from typing import NamedTuple, TypeAlias

COMMIT = "commit"
EVENT = "event"
MARKS = (COMMIT, EVENT)
Marked: TypeAlias = tuple[type, str, str]
"""A method (its class and its name), and the kind of its mark."""


class Point(NamedTuple):
    """The `nth` time that a role runs a line, or a mark, whose line is 0 before and 1 after the method."""

    scenario: str
    file: str
    line: int
    role: str
    nth: int
    which: str

    def __str__(self) -> str:
        where = f"{self.which} {self.file}" if self.file in MARKS else f"{self.file}:{self.line} ({self.which} time)"
        return f"{where} [{self.scenario}, {self.role}, {self.nth}]"


class WatchedFiles:
    """The files whose lines are counted, by path, with their printed names.

    `not_swept` has the files without kills and the reasons.
    """

    def __init__(self, files: Mapping[Path, str], excluded: Mapping[str, str]) -> None:
        self.files = {str(path): name for path, name in files.items()}
        self.paths = {name: path for path, name in self.files.items()}
        self.excluded = excluded
        self.lines = {name: list_code_lines(Path(path)) for path, name in self.files.items()}
        """The line numbers of the code as it was loaded."""


def role() -> str:
    """Return the role of this thread."""
    name = threading.current_thread().name
    if name == "tenuto":
        return "loop"
    return name.removeprefix("tenuto-") if name.startswith("tenuto-") else "main"


def kill_self() -> None:
    """Kill this process with SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)


def count(watched: WatchedFiles, marked: Iterable[Marked]) -> Counter[tuple[str, int, str]]:
    """Start counting lines and marks, in this thread and in all new ones."""
    found: Counter[tuple[str, int, str]] = Counter()
    files = watched.files

    def line(frame, event, _):
        if event == "line":
            found[files[frame.f_code.co_filename], frame.f_lineno, role()] += 1
        return line

    def call(frame, event, _):
        return line if frame.f_code.co_filename in files else None

    def mark(name: str, after: int) -> None:
        found[name, after, role()] += 1

    wrap_marks(marked, mark)
    _trace(call)
    return found


def kill_at(point: Point, watched: WatchedFiles, marked: Iterable[Marked]) -> list[int]:
    """Kill this process at a point. The returned list has the number of times that the point was reached."""
    reached = [0]

    def count_down() -> None:
        reached[0] += 1
        if reached[0] == point.nth:
            kill_self()

    if point.file in MARKS:

        def mark(name: str, after: int) -> None:
            if (name, after, role()) == (point.file, point.line, point.role):
                count_down()

        wrap_marks(marked, mark)
        return reached

    path = watched.paths[point.file]
    has_line: dict[CodeType, bool] = {}

    def line(frame, event, _):
        if event == "line" and frame.f_lineno == point.line:
            count_down()
        return line

    def call(frame, event, _):
        code = frame.f_code
        if code.co_filename != path:
            return None
        if code not in has_line:
            has_line[code] = any(number == point.line for _, number in dis.findlinestarts(code))
        return line if has_line[code] and role() == point.role else None

    _trace(call)
    return reached


def _trace(call) -> None:
    threading.settrace(call)
    sys.settrace(call)


_over: list[bool] = []


def stop() -> None:
    """Stop counting lines and marks."""
    threading.settrace(None)
    sys.settrace(None)
    _over.append(True)


def wrap_marks(marked: Iterable[Marked], callback: Callable[[str, int], None]) -> None:
    """Call a function before and after each marked method."""
    for owner, method, mark in marked:
        setattr(owner, method, _wrap(getattr(owner, method), mark, callback))


def _wrap(real, mark: str, callback):
    def called(*options):
        if _over:
            return real(*options)
        callback(mark, 0)
        done = real(*options)
        callback(mark, 1)
        return done

    return called


# --- lines of a file --------------------------------------------------------------------------------------------


def list_code_lines(path: Path) -> set[int]:
    """Return the lines that a call can run: those in the bodies of functions."""
    source = path.read_text()
    codes = _codes(compile(source, path.name, "exec"))
    found: set[int] = set()
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            left_out |= {*range(first, node.body[0].lineno)}
            docstrings = [
                part for part in node.body if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
            ]
            for part in node.body if len(docstrings) == len(node.body) else docstrings:
                left_out |= {*range(part.lineno, (part.end_lineno or part.lineno) + 1)}
    for code in codes:
        if code.co_flags & 0x2:  # of a function: it has fast locals
            found |= {number for _, number in dis.findlinestarts(code) if number}
    return found - left_out


def _codes(code: CodeType) -> list[CodeType]:
    inner = [some for some in code.co_consts if isinstance(some, CodeType)]
    return [code, *(one for some in inner for one in _codes(some))]
