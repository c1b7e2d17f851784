"""What the user says: an argument, a pipe, or both."""

from __future__ import annotations

import os
import select
import stat
import sys

import click

from tenuto.core.messages import UserMessage, user

__all__ = ["said"]

_PATIENCE = 1.0


def said(argument: str | None, *, quiet: bool = False) -> UserMessage | None:
    """Return what is to be said; None if that is nothing.

    `-`, or no argument, means stdin; with an argument, what is piped in stands behind it as a part of its own. If it is
    slow to come, that is said, unless `quiet`: a pipe that nobody writes to looks the same. Raise `click.UsageError` for
    bytes that are no text.
    """
    if not quiet and (argument == "-" or _is_piped()) and _is_slow():
        click.echo("reading stdin to its end (< /dev/null if there is nothing to read)", err=True)
    if argument == "-":
        piped, words = _read(), ""
    else:
        piped, words = _read() if _is_piped() else "", argument or ""
    parts = [part for part in (words, piped) if part.strip()]
    return user(*parts) if parts else None


def _is_piped() -> bool:
    """Tell whether something was put into stdin: a pipe or a file, and not a terminal or nothing."""
    if sys.stdin is None or sys.stdin.closed:
        return False
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _is_slow() -> bool:
    if sys.platform == "win32" or sys.stdin is None or sys.stdin.closed:
        return False
    ready, _, _ = select.select([sys.stdin], [], [], _PATIENCE)
    return not ready


def _read() -> str:
    if sys.stdin is None or sys.stdin.closed:
        return ""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise click.UsageError(
            f"what is piped in is no UTF-8 text (byte {exc.start}): convert it, or name the file to a tool"
        ) from None
