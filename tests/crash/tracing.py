"""Counts how often each line of some files is run, in each thread, and kills the process at one of those times.

A line is run by a role: the main thread, the one that writes, the one that reads, a tool's. A kill comes before the line.
Besides lines there are marks, before and after a method that matters: a commit, an event that is told.
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
"""A method (its class and its name), and which of the marks it is."""


class Point(NamedTuple):
    """A moment: the `nth` time that a line (or a mark, whose line is 0 before and 1 after) is run by a role."""

    story: str
    file: str
    line: int
    role: str
    nth: int
    which: str

    def __str__(self) -> str:
        where = f"{self.which} {self.file}" if self.file in MARKS else f"{self.file}:{self.line} ({self.which} time)"
        return f"{where} [{self.story}, {self.role}, {self.nth}]"


class Watched:
    """Files whose lines are looked at, by their paths, with the names under which they are shown.

    `not_swept` are those at which nobody dies, and why.
    """

    def __init__(self, files: Mapping[Path, str], not_swept: Mapping[str, str]) -> None:
        self.files = {str(path): name for path, name in files.items()}
        self.paths = {name: path for path, name in self.files.items()}
        self.not_swept = not_swept
        self.lines = {name: lines_of(Path(path)) for path, name in self.files.items()}
        """As they were when they were loaded."""


def role() -> str:
    """Return the role of this thread."""
    name = threading.current_thread().name
    if name == "tenuto":
        return "loop"
    return name.removeprefix("tenuto-") if name.startswith("tenuto-") else "main"


def die() -> None:
    """End at once, as by kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


def count(watched: Watched, marked: Iterable[Marked]) -> Counter[tuple[str, int, str]]:
    """Begin to count all lines and marks, in this and all threads that begin from now on."""
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

    around(marked, mark)
    _trace(call)
    return found


def kill_at(point: Point, watched: Watched, marked: Iterable[Marked]) -> list[int]:
    """Arrange for the end. The list holds how often the point was reached."""
    reached = [0]

    def come() -> None:
        reached[0] += 1
        if reached[0] == point.nth:
            die()

    if point.file in MARKS:

        def mark(name: str, after: int) -> None:
            if (name, after, role()) == (point.file, point.line, point.role):
                come()

        around(marked, mark)
        return reached

    path = watched.paths[point.file]
    near: dict[CodeType, bool] = {}

    def line(frame, event, _):
        if event == "line" and frame.f_lineno == point.line:
            come()
        return line

    def call(frame, event, _):
        code = frame.f_code
        if code.co_filename != path:
            return None
        if code not in near:
            near[code] = any(number == point.line for _, number in dis.findlinestarts(code))
        return line if near[code] and role() == point.role else None

    _trace(call)
    return reached


def _trace(call) -> None:
    threading.settrace(call)
    sys.settrace(call)


_over: list[bool] = []


def stop() -> None:
    """Count no more: no lines in this thread and those that begin from now on, and no marks."""
    threading.settrace(None)
    sys.settrace(None)
    _over.append(True)


def around(marked: Iterable[Marked], told: Callable[[str, int], None]) -> None:
    """Have something called before and after each time that a mark is passed."""
    for owner, method, mark in marked:
        setattr(owner, method, _between(getattr(owner, method), mark, told))


def _between(real, mark: str, told):
    def called(*given):
        if _over:
            return real(*given)
        told(mark, 0)
        done = real(*given)
        told(mark, 1)
        return done

    return called


# --- which lines there are --------------------------------------------------------------------------------------------


def lines_of(path: Path) -> set[int]:
    """Return the lines that a call can come to: those of functions that do something, without their heads."""
    source = path.read_text()
    codes = _codes(compile(source, path.name, "exec"))
    found: set[int] = set()
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            left_out |= {*range(first, node.body[0].lineno)}
            said = [part for part in node.body if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)]
            for part in node.body if len(said) == len(node.body) else said:
                left_out |= {*range(part.lineno, (part.end_lineno or part.lineno) + 1)}
    for code in codes:
        if code.co_flags & 0x2:  # of a function: it has fast locals
            found |= {number for _, number in dis.findlinestarts(code) if number}
    return found - left_out


def _codes(code: CodeType) -> list[CodeType]:
    inner = [some for some in code.co_consts if isinstance(some, CodeType)]
    return [code, *(one for some in inner for one in _codes(some))]
