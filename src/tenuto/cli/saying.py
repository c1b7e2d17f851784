"""What is said: by the user, as an argument, a pipe, files, or all of them; and to the model before anything else."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tenuto.core.messages import Content, UserMessage, user

__all__ = ["said", "system_words"]

_PATIENCE = 1.0


def said(argument: str | None, attach: Sequence[str] = (), *, quiet: bool = False) -> UserMessage | None:
    """Return what is to be said; None if that is nothing.

    `-`, or no argument, means stdin; with an argument, what is piped in stands behind it as a part of its own, and what
    is attached behind that. `-` among the attached is stdin, and then it is nothing else. If stdin is slow to come, that is
    said, unless `quiet`: a pipe that nobody writes to looks the same. Raise `click.UsageError` for bytes that are no text,
    and for what cannot be attached.
    """
    shown: tuple[Content, ...] = ()
    if attach:
        from tenuto.cli.attaching import attached

        shown = attached(attach, prompt_from_stdin=argument == "-")
    wanted = "-" not in attach and (argument == "-" or _is_piped())
    if wanted and not quiet and _is_slow():
        click.echo("reading stdin to its end (< /dev/null if there is nothing to read)", err=True)
    words = "" if argument == "-" else argument or ""
    parts = [part for part in (words, _read() if wanted else "") if part.strip()]
    return user(*parts, *shown) if parts or shown else None


def system_words(given: str | None) -> str:
    """Return what the model is told before anything else: `@FILE` is what the file holds, and `@@` a plain `@`.

    Raise `click.UsageError` for a file that cannot be read.
    """
    text = given or ""
    if not text.startswith("@") or text.startswith("@@"):
        return text[1:] if text.startswith("@@") else text
    try:
        return Path(text[1:]).expanduser().read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"-s {text}: the file is no UTF-8 text (byte {exc.start})") from None
    except (OSError, ValueError, RuntimeError) as exc:
        why = getattr(exc, "strerror", None) or str(exc)
        raise click.UsageError(
            f"-s {text}: the file cannot be read: {why}; a text that begins with @ is @@..."
        ) from None


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
            f"what is piped in is no UTF-8 text (byte {exc.start}): convert it, attach it with -a -, or name the file to a tool"
        ) from None
