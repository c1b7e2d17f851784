"""Write to stdout and stderr: text, JSON documents, tables, errors."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

import click

from tenuto import settings
from tenuto.cli.terminal.text import cell_width, escape_control, escape_json, one_line, truncate, wrap

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

    from tenuto.cli.errors import Explanation


class BrokenOutput(Exception):
    """The reader of stdout has gone, as after `| head -1`. click would report `BrokenPipeError` as an error."""


def discard_output(stream: TextIO) -> None:
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def flush_output() -> None:
    """Flush stdout and stderr. If that fails, discard the rest: the interpreter would exit with its own code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            discard_output(stream)


Style = Literal["", "dim", "dim italic", "bold", "red", "bold red", "yellow", "bold yellow", "green", "cyan"]
_CODES = {"dim": "2", "bold": "1", "italic": "3", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_LINE = 600  # the longest message: a provider may answer with a whole page


class TerminalInfo(NamedTuple):
    """What stdout and stderr can show."""

    is_out_terminal: bool
    is_err_live: bool  # stderr is a terminal that can rewrite a line
    out_color: bool
    err_color: bool
    quiet: bool = False
    renders_markdown: bool = False  # stdout is a terminal that can redraw lines
    is_err_terminal: bool = False
    streams: bool = False  # without a terminal, stdout gets the answer as it arrives


def detect_terminal(color: str = "auto", *, quiet: bool = False) -> TerminalInfo:
    """Detect terminals. `color` is `auto`, `always` or `never`; `auto` respects `NO_COLOR`."""
    out, err = _is_terminal(sys.stdout), _is_terminal(sys.stderr)
    terms = ("WT_SESSION", "TERM")
    dumb = settings.getenv("TERM") == "dumb" or (sys.platform == "win32" and not settings.first_set(terms))
    plain = color == "never" or (color == "auto" and (dumb or bool(settings.getenv("NO_COLOR"))))
    is_same = True  # only if stdout and stderr are the same terminal both can be redrawn
    with suppress(OSError, ValueError, AttributeError):
        is_same = not out or os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    return TerminalInfo(
        out,
        err and not dumb and is_same,
        not plain and (out or color == "always"),
        not plain and (err or color == "always"),
        quiet,
        out and not dumb and "utf" in (sys.stdout.encoding or "").lower(),
        err,
    )


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def ansi_style(text: str, style: Style, *, color: bool) -> str:
    """Return text in a style, line by line, so that a cut text leaves no style on."""
    if not (style and color and text):
        return text
    codes = ";".join(_CODES[name] for name in style.split())
    return "\n".join(f"\x1b[{codes}m{line}\x1b[0m" if line else line for line in text.split("\n"))


def print_text(text: str, *, escape: bool | None = None, to: TextIO | None = None) -> None:
    """Write text to stdout: escaped on a terminal, else unchanged as UTF-8. `escape` overrides this.

    `to` is the real stdout if it is redirected. Raise `BrokenOutput` if it is closed.
    """
    stream = to or sys.stdout
    if stream is None:  # the caller of the process closed it
        return
    wanted = escape_control(text) if escape or (escape is None and _is_terminal(stream)) else text
    try:
        write_encoded(stream, wanted)
    except BrokenPipeError:
        raise BrokenOutput from None


def print_json(document: object, *, to: TextIO | None = None) -> None:
    """Write a value, or encoded JSON, to stdout as a JSON document in one line."""
    if not isinstance(document, bytes):
        from tenuto.core import jsonio

        document = jsonio.encode(document)
    text = document.decode("utf-8", "surrogatepass")
    print_text(f"{escape_json(text) if _is_terminal(to or sys.stdout) else text}\n", escape=False, to=to)


def write_encoded(stream: TextIO, text: str) -> None:
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        stream.write(text)
    else:
        encoding = (stream.encoding or "utf-8") if _is_terminal(stream) else "utf-8"
        stream.flush()
        buffer.write(text.encode(encoding, "backslashreplace"))
    stream.flush()


def print_error(explanation: Explanation, error: BaseException | None = None, *, color: bool | None = None) -> None:
    """Print message and hint, wrapped on words on a terminal; with `TENUTO_DEBUG` the traceback too."""
    if error is not None and settings.getenv("TENUTO_DEBUG"):
        import traceback

        print_stderr(escape_control("".join(traceback.format_exception(error))))
    columns = window_size(sys.stderr).columns if _is_terminal(sys.stderr) else 2 * _LINE
    message = "\n".join(wrap(f"error: {one_line(explanation.message, _LINE)}", columns))
    label = ansi_style("error:", "bold red", color=detect_terminal().err_color if color is None else color)
    hint = [f"  {line}" for line in wrap(one_line(explanation.hint, _LINE), columns - 2)] if explanation.hint else []
    print_stderr("\n".join([message.replace("error:", label, 1), *hint, ""]))


def print_stderr(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # stderr may be closed
            write_encoded(sys.stderr, text)


def window_size(stream: TextIO | None) -> os.terminal_size:
    """Return the size of the window now; 80x24 if it is unknown."""
    columns = lines = 0
    with suppress(OSError, ValueError, AttributeError):  # no terminal, closed, none
        columns, lines = os.get_terminal_size(stream.fileno() if stream else -1)
    return os.terminal_size((columns or 80, lines or 24))


_LEAST_WIDTH = 20  # the least width of the last column of a table; below it, other columns are dropped
_NUMBER = re.compile(r"[$\d][\d.,]*[KM%+]?|-|")


STATE_STYLES: dict[str, Style] = {
    "running": "green", "waiting": "yellow", "interrupted": "yellow", "failed": "red", "cancelled": "dim",
    "ok": "green", "warning": "yellow", "problem": "red",
}  # fmt: skip


def format_table(
    rows: Sequence[Sequence[str]], *, drop: Sequence[str] = (), bold: Sequence[str] = (), color: bool = False
) -> str:
    """Return aligned rows as lines. Cells are single lines and escaped by the caller (`one_line`).

    Columns of numbers are right-aligned. On a terminal the last column is cut at its width; if too little is left of it,
    the columns `drop` are left out first. With `color`, the heads, and `bold` words in the last column, are bold.
    """
    columns = [list(column) for column in zip(*rows, strict=True)]
    widths = [max(map(cell_width, column)) for column in columns]
    window = window_size(sys.stdout).columns if _is_terminal(sys.stdout) else sum(widths) + 2 * len(widths)
    for name in drop:
        at = next((index for index, column in enumerate(columns) if column[0] == name), -1)
        if at >= 0 and _room(window, widths) < min(_LEAST_WIDTH, widths[-1]):
            del columns[at], widths[at]
    last = max(_room(window, widths), _LEAST_WIDTH)
    for column, width in zip(columns[:-1], widths, strict=False):
        is_number = all(map(_NUMBER.fullmatch, column[1:])) and any(cell > "0" for cell in column[1:])
        for index, cell in enumerate(column):
            space = " " * (width - cell_width(cell))
            column[index] = space + cell if is_number else cell + space
    columns[-1] = [truncate(cell, last) for cell in columns[-1]]
    if color:
        words = re.compile("|".join(map(re.escape, bold)) or r"(?!)", re.IGNORECASE)
        columns[-1] = [words.sub(lambda found: ansi_style(found[0], "bold", color=True), cell) for cell in columns[-1]]
        for column in columns:
            head, *cells = column
            styles = [STATE_STYLES.get(cell.split()[0], "") if head.strip() == "STATUS" else "" for cell in cells]
            column[:] = [ansi_style(*cell, color=True) for cell in zip(column, ["bold", *styles], strict=True)]
    return "".join("  ".join(row).rstrip() + "\n" for row in zip(*columns, strict=True))


def _room(window: int, widths: Sequence[int]) -> int:
    return window - sum(widths[:-1]) - 2 * (len(widths) - 1)


def print_lines(lines: Iterable[str], document: object, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        if _is_terminal(sys.stdout):
            lines = [row for line in lines for row in wrap(line, window_size(sys.stdout).columns)]
        print_text("".join(f"{line}\n" for line in lines), escape=True)


def print_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    document: object,
    *,
    as_json: bool,
    drop: Sequence[str] = (),
    bold: Sequence[str] = (),
    empty: str = "",
) -> None:
    """Print a table, or with `--json` the document; without rows the message `empty` on stderr."""
    if as_json:
        print_json(document)
    elif body := list(rows):
        escaped = [[*map(escape_control, row)] for row in (heads, *body)]
        print_text(format_table(escaped, drop=drop, bold=bold, color=detect_terminal().out_color), escape=False)
    elif empty:
        click.echo(empty, err=True)


def confirm(question: str, refusal: str) -> bool:
    """Ask on the terminal. Without one, raise `click.UsageError` with `refusal`."""
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
        raise click.UsageError(refusal)
    return click.confirm(escape_control(question), default=False, err=True)


@contextmanager
def progress(label: str, total: int = 0, *, quiet: bool = False) -> Iterator[ProgressBar[str]]:
    """Show a progress bar on stderr; nothing without a terminal. Its item is what is processed now, a string."""
    visible = detect_terminal().is_err_live and not quiet
    file = sys.stderr if visible else io.StringIO()
    bar: ProgressBar[str] = click.progressbar(
        length=total, label=label, file=file, item_show_func=lambda item: one_line(item or "", 40)
    )
    with bar:
        yield bar
    if visible:
        click.echo("\x1b[1A\r\x1b[J", nl=False, err=True)  # erase the bar
