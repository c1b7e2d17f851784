"""Attachments (`-a`): files, URLs and stdin as parts of a user message."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tenuto.cli.terminal.text import one_line, similar_names
from tenuto.core.attachments import part_from_bytes, part_from_url
from tenuto.core.messages import Content

MAX_BYTES = 75_000_000  # of all attachments: as base64 they are 100 MB, and no provider takes a longer request
_NAME_LENGTH = 200
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def load_attachments(names: Sequence[str], *, prompt_from_stdin: bool = False) -> tuple[Content, ...]:
    """Return the parts for files, URLs and `-` (stdin), in this order.

    Raise `click.UsageError` for a name that cannot be read, is too large or has an unsupported type.
    """
    if names.count("-") > 1:
        raise click.UsageError("-a - reads stdin: pass it once")
    if "-" in names and prompt_from_stdin:
        raise click.UsageError("-a - and the prompt cannot both be stdin: pass the prompt as an argument")
    room, parts = MAX_BYTES, []
    for name in names:
        is_url = _SCHEME.match(name)
        data = b"" if is_url else _read_stdin(room) if name == "-" else _read_file(name, room)
        room -= len(data)
        shown = "stdin" if name == "-" else one_line(name, 4096)
        try:
            parts.append(part_from_url(name) if is_url else part_from_bytes(data, shown))
        except ValueError as exc:
            more = "; or download it: curl -sL URL | tenuto ... -a -" if is_url else ""
            raise _refuse(shown, f"{':' if is_url else ''} {exc}{more}") from None
    return tuple(parts)


def _refuse(name: str, why: str) -> click.UsageError:
    return click.UsageError(f"-a {one_line(name, _NAME_LENGTH) or repr('')}{why}")


def _read_stdin(room: int) -> bytes:
    stdin = sys.stdin
    if stdin is None or stdin.closed or stdin.isatty():
        raise click.UsageError("-a - reads stdin, which is not a pipe or file: name a file or pipe one in (... < FILE)")
    data: bytes = stdin.buffer.read(room + 1)
    return _check_size(data, "stdin", 0, room)


def _read_file(name: str, room: int) -> bytes:
    """Read a file, or a pipe such as `<(...)` of a shell."""
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            raise _refuse(name, " is a directory: name the files in it, each with -a")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _check_size(b"" if size > room else file.read(room + 1), name, size, room)
    except FileNotFoundError:
        raise _refuse(name, f": file not found{_suggest_files(path)}") from None
    except (OSError, ValueError, RuntimeError) as exc:  # a path with a NUL, an unknown user
        raise _refuse(name, f" cannot be read: {getattr(exc, 'strerror', None) or exc}") from None


def _check_size(data: bytes, name: str, size: int, room: int) -> bytes:
    """Reject empty data and data over the limit. `size` is that of the file system, 0 if unknown."""
    if max(size, len(data)) > room:
        found = f"{size / 1e6:,.1f} MB" if size > room else f"more than {room / 1e6:,.1f} MB"
        others = "" if room == MAX_BYTES else f" ({(MAX_BYTES - room) / 1e6:,.1f} MB are used by the others)"
        raise _refuse(name, f" is too large: {found}; the limit is {MAX_BYTES / 1e6:,.0f} MB in all{others}")
    if not data:
        raise _refuse(name, " is empty")
    return data


def _suggest_files(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f"; directory not found: {one_line(str(path.parent), _NAME_LENGTH)}"
    near = [str(path.with_name(name)) for name in similar_names(path.name, names)]
    return f"; did you mean {one_line(' or '.join(near), 2 * _NAME_LENGTH)}?" if near else ""
