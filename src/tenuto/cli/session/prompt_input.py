"""The prompt from the argument, stdin and attachments; the system prompt."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tenuto.core.blocks import Text
from tenuto.core.messages import Content, UserMessage, user

_PATIENCE = 1.0
_MAX_BYTES = 20_000_000


def read_prompt(argument: str | None, attach: Sequence[str] = ()) -> UserMessage | None:
    """Return the user message; None if there is no input.

    Without an argument, or with `-`, the prompt is stdin. With an argument, piped stdin follows after a blank line, then
    the attachments. If one of these is `-`, stdin is only an attachment. A note is printed if stdin sends nothing for a
    second: the pipe may have no writer. Raise `click.UsageError` for invalid text and unusable attachments.
    """
    shown: tuple[Content, ...] = ()
    if attach:
        from tenuto.cli.session.attachments import load_attachments

        shown = load_attachments(attach, prompt_from_stdin=argument == "-")
    wanted = "-" not in attach and (argument == "-" or _is_piped())
    if wanted and _is_slow():
        click.echo("reading stdin (use < /dev/null if there is none)", err=True)
    words = "" if argument == "-" else argument or ""
    parts = [part for part in (words, _read_stdin() if wanted else "") if part.strip()]
    return compose_message("\n\n".join(parts), shown) if parts or shown else None


def compose_message(words: str, attached: Sequence[Content]) -> UserMessage:
    """Return the message. A blank line divides its texts: models and titles get them without a separator."""
    first, *others = [words, *attached] if words else attached
    separated = [Text("\n\n" + part.text.lstrip("\n")) if isinstance(part, Text) else part for part in others]
    return user(first, *separated)


def read_system_prompt(given: str | None) -> str:
    """Return the system prompt: `@FILE` reads a file, `@@` starts a text with `@`. Raise `click.UsageError`."""
    text = given or ""
    if not text.startswith("@") or text.startswith("@@"):
        return text[1:] if text.startswith("@@") else text
    try:
        return Path(text[1:]).expanduser().read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"-s {text}: the file is not UTF-8 text (byte {exc.start})") from None
    except (OSError, ValueError, RuntimeError) as exc:
        why = getattr(exc, "strerror", None) or str(exc)
        raise click.UsageError(f"-s {text}: the file cannot be read: {why}; use @@ to start a text with @") from None


def _is_piped() -> bool:
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # there is no stdin, or it is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _is_slow() -> bool:
    if sys.platform == "win32" or sys.stdin is None or sys.stdin.closed:
        return False
    return not select.select([sys.stdin], [], [], _PATIENCE)[0]


def _read_stdin() -> str:
    if sys.stdin is None or sys.stdin.closed:
        return ""
    data = sys.stdin.buffer.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise click.UsageError(f"stdin is too large: the limit is {_MAX_BYTES / 1e6:,.0f} MB of text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise click.UsageError(
            f"stdin is not UTF-8 text (byte {exc.start}): convert it, attach it with -a -, or name the file to a tool"
        ) from None
