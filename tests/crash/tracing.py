"""Counts how often each line of the stores is run, in each thread, and kills the process at one of those times.

A line is run by a role: the main thread, the one that writes, the one that reads. A kill comes before the line.
"""

from __future__ import annotations

import ast
import dis
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import tenuto.store

FOLDER = Path(tenuto.store.__file__).parent
FILES = {str(path): path.name for path in sorted(FOLDER.glob("*.py"))}
NOT_SWEPT = {"memory.py": "keeps nothing when its process ends"}
COMMIT = "commit"


class Point(NamedTuple):
    """A moment: the `nth` time that a line (or a commit, whose line is 0 before and 1 after) is run by a role."""

    story: str
    file: str
    line: int
    role: str
    nth: int
    which: str

    def __str__(self) -> str:
        where = f"{self.which} {COMMIT}" if self.file == COMMIT else f"{self.file}:{self.line} ({self.which} time)"
        return f"{where} [{self.story}, {self.role}, {self.nth}]"


def role() -> str:
    """Return the role of this thread."""
    name = threading.current_thread().name
    return name.removeprefix("tenuto-") if name.startswith("tenuto-") else "main"


def die() -> None:
    """End at once, as by kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


def count(driver: type) -> Counter[tuple[str, int, str]]:
    """Begin to count all lines and commits, in this and all threads that begin from now on."""
    found: Counter[tuple[str, int, str]] = Counter()

    def line(frame, event, _):
        if event == "line":
            found[FILES[frame.f_code.co_filename], frame.f_lineno, role()] += 1
        return line

    def call(frame, event, _):
        return line if frame.f_code.co_filename in FILES else None

    def commit(after: int) -> None:
        found[COMMIT, after, role()] += 1

    _around(driver, commit)
    _trace(call)
    return found


def kill_at(point: Point, driver: type) -> list[int]:
    """Arrange for the end. The list holds how often the point was reached."""
    reached = [0]

    def come() -> None:
        reached[0] += 1
        if reached[0] == point.nth:
            die()

    if point.file == COMMIT:

        def commit(after: int) -> None:
            if (after, role()) == (point.line, point.role):
                come()

        _around(driver, commit)
        return reached

    path = str(FOLDER / point.file)
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


def stop() -> None:
    """Count no more in this thread."""
    threading.settrace(None)
    sys.settrace(None)


def _around(driver: type, told) -> None:
    real = driver.commit

    def commit(self) -> None:
        told(0)
        real(self)
        told(1)

    driver.commit = commit


# --- which lines there are --------------------------------------------------------------------------------------------


def lines_of(file: str) -> set[int]:
    """Return the lines that a call can come to: those of functions that do something, without their heads."""
    source = (FOLDER / file).read_text()
    codes = _codes(compile(source, file, "exec"))
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


LINES = {file: lines_of(file) for file in FILES.values()}
"""As they were when they were loaded."""
