"""A tool call as text: one line while it runs, and everything that it would do for an approval."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tenuto.cli.errors import plural
from tenuto.cli.terminal.output import Style
from tenuto.cli.terminal.text import escape_control, one_line, wrap
from tenuto.core import jsonio
from tenuto.core.messages import ToolCallView
from tenuto.tools.builtin.confined_dir import ConfinedDir
from tenuto.tools.builtin.files import MAX_FILE, replace_text

MAX_ROWS = 40  # the rows of a call in an approval
_ARGUMENT_LENGTH = 60
_LINE_LENGTH = 160
_BLANKS = re.compile(r"[ \t]{21,}")
_EMPTY_LINES = 3
_INVISIBLE = re.compile("[\u00a0\u034f\u115f\u1160\u1680\u2000-\u200d\u202f\u205f\u2800\u3000\u3164\uffa0]")
"""Characters of other categories that look like blanks or like nothing."""
_DIFF_STYLES: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}


class Row(NamedTuple):
    style: Style
    text: str


def format_call(call: ToolCallView) -> str:
    words = [call.name]
    for name, value in _arguments(call).items():
        short = one_line(_as_text(value), _ARGUMENT_LENGTH)
        words.append(f'{name}="{short}"' if isinstance(value, str) else f"{name}={short}")
    return one_line(" ".join(words), _LINE_LENGTH)


def _arguments(call: ToolCallView) -> Mapping[str, object]:
    """Return the arguments by name; invalid JSON as one argument."""
    try:
        parsed = call.parse()
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"arguments": call.args}


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else jsonio.encode(value).decode("utf-8", "replace")


def argument_lines(call: ToolCallView) -> Iterator[str]:
    """Yield every argument with its name. Continuation lines are marked, so that no argument can look like another."""
    for name, value in _arguments(call).items():
        first, *rest = show_blanks(_as_text(value)).split("\n")
        yield f"{one_line(name, _ARGUMENT_LENGTH)}: {first}"
        yield from (f"| {line}" for line in rest)


def show_blanks(text: str) -> str:
    """Return escaped text in which long runs of blanks and of empty lines are counted."""
    escaped = _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", escape_control(text))
    counted = _BLANKS.sub(lambda found: f"[{len(found[0])} {'blanks' if chr(9) in found[0] else 'spaces'}]", escaped)
    return re.sub(
        rf"\n(?:[ \t]*\n){{{_EMPTY_LINES},}}", lambda found: f"\n[{found[0].count(chr(10)) - 1} empty lines]\n", counted
    )


def view_call(call: ToolCallView, root: str) -> list[Row]:
    """Return all lines that an approval shows; `root` is the working directory of a built-in tool, else empty."""
    arguments = _arguments(call)
    path = arguments.get("path")
    if root and call.name == "shell" and isinstance(command := arguments.get("command"), str):
        others = [f"{name}: {one_line(_as_text(value), 80)}" for name, value in arguments.items() if name != "command"]
        return _rows([*show_blanks(command).split("\n"), *others])
    if root and call.name in ("edit_file", "write_file") and isinstance(path, str):
        try:
            return _view_change(call.name, path, arguments, root)
        except (OSError, ValueError, TypeError) as exc:  # the tool will report it too
            return [Row("yellow", f"this call fails: {one_line(str(exc), 400)}"), *_rows(argument_lines(call))]
    return _rows(argument_lines(call))


def _rows(lines: Iterator[str] | Sequence[str]) -> list[Row]:
    return [Row("", line) for line in lines]


def _view_change(name: str, path: str, arguments: Mapping[str, object], root: str) -> list[Row]:
    before: bytes | None = None
    with suppress(FileNotFoundError):
        directory, file = ConfinedDir(root).open_parent(path)
        with directory:
            before = directory.read(file, MAX_FILE)
    if name == "write_file":
        after = str(arguments["content"]).encode()
    else:
        is_all = arguments.get("all", False) is True
        after, _ = replace_text(before or b"", str(arguments["old"]), str(arguments["new"]), all=is_all)
    new = show_blanks(after.decode("utf-8", "replace")).splitlines()
    shown = one_line(path, _ARGUMENT_LENGTH)
    if before is None:
        return [Row("bold", f"create {shown} ({plural(len(new), 'line')})"), *_rows(new)]
    old = show_blanks(before.decode("utf-8", "replace")).splitlines()
    verb = "overwrite" if name == "write_file" else "edit"
    head = Row("bold", f"{verb} {shown} ({len(before):,} -> {len(after):,} bytes)")
    diff = list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
    return [head, *(Row(_DIFF_STYLES.get(line[:1], ""), line) for line in diff)]


def shorten_rows(rows: Sequence[Row], columns: int, most: int = MAX_ROWS, key: str = "") -> list[Row]:
    """Wrap rows at `columns`; of more than `most`, return head and tail and the size of the part that is not shown."""
    wrapped = [Row(style, part) for style, text in rows for part in wrap(text, columns)]
    if len(wrapped) <= most:
        return wrapped
    head, tail = (most - 1) * 3 // 4, (most - 1) // 4
    hidden = wrapped[head : len(wrapped) - tail]
    characters = sum(len(row.text) for row in hidden)
    note = f"... {len(hidden):,} lines, {characters:,} characters not shown{key}"
    return [*wrapped[:head], *(Row("yellow", part) for part in wrap(note, columns)), *wrapped[len(wrapped) - tail :]]


def display_path(path: str) -> str:
    """Return a path as text, with `~` for the home directory."""
    try:
        short = Path(path).relative_to(Path.home())
    except (ValueError, RuntimeError):
        return one_line(path, 200)
    return one_line(str(Path("~") / short) if short.parts else "~", 200)
