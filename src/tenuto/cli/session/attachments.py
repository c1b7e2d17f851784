"""Attachments (`-a`): files, URLs and stdin as parts of a user message.

The bytes decide the media type before the file name does. Text is sent in a fence, with its name. URLs are passed on: the
provider reads them.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from tenuto.cli.terminal.text import one_line
from tenuto.core import files, media_types
from tenuto.core.blocks import Audio, Document, Image, Text
from tenuto.core.messages import Content

MAX_BYTES = 75_000_000
"""How many bytes may be attached, together: written as base64 they are 100 MB, and no provider takes a longer request."""
_MAX_TEXT_BYTES = 20_000_000
"""How many bytes of text may be attached at once: some five million tokens."""
_NAME_LENGTH = 200
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_URL_SCHEMES = ("http", "https", "gs", "s3")
_KINDS = "pictures, sounds, films, PDF and office documents, and text in UTF-8"


def load_attachments(names: Sequence[str], *, prompt_from_stdin: bool = False) -> tuple[Content, ...]:
    """Return the parts that these names stand for, in their order: a file, an address, or `-` for stdin's bytes.

    Raise `click.UsageError` for what cannot be read, is too large, or is nothing that a model can be shown; and for `-`
    where stdin is not to be had: named twice, or the prompt itself (`prompt_from_stdin`), or a terminal.
    """
    if names.count("-") > 1:
        raise click.UsageError("-a - stands for stdin, which can be read only once: give it once")
    if "-" in names and prompt_from_stdin:
        raise click.UsageError("-a - and the prompt cannot both be stdin: give the prompt as an argument")
    room, parts = MAX_BYTES, []
    for name in names:
        if _SCHEME.match(name):
            parts.append(_url_part(name))
            continue
        data = _read_stdin(room) if name == "-" else _read_file(name, room)
        room -= len(data)
        parts.append(_make_part(data, "stdin" if name == "-" else name))
    return tuple(parts)


# --- bytes ------------------------------------------------------------------------------------------------------------


def _read_stdin(room: int) -> bytes:
    stdin = sys.stdin
    if stdin is None or stdin.closed or stdin.isatty():
        raise click.UsageError("-a - reads stdin, and nothing is piped in: name a file, or pipe one in (... < FILE)")
    data: bytes = stdin.buffer.read(room + 1)
    return _check_size(data, "stdin", 0, room)


def _read_file(name: str, room: int) -> bytes:
    """Read a file; a pipe that a shell has put in a file's place (`<(...)`) is one, too."""
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            raise click.UsageError(f"-a {_display_name(name)} is a folder: name the files in it, each with -a")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _check_size(b"" if size > room else file.read(room + 1), name, size, room)
    except FileNotFoundError:
        raise click.UsageError(f"-a {_display_name(name)}: file not found{_suggest_files(path)}") from None
    except (OSError, ValueError, RuntimeError) as exc:  # a path with a NUL, an unknown user
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise click.UsageError(f"-a {_display_name(name)} cannot be read: {why}") from None


def _check_size(data: bytes, name: str, size: int, room: int) -> bytes:
    """Refuse what is too much, or nothing. `size` is what the system says, if it says anything."""
    if max(size, len(data)) > room:
        told = f"{size / 1e6:,.1f} MB" if size > room else f"more than {room / 1e6:,.1f} MB"
        others = "" if room == MAX_BYTES else f" (the others have {(MAX_BYTES - room) / 1e6:,.1f} MB)"
        raise click.UsageError(
            f"-a {_display_name(name)} is too large: {told}, and no provider takes more than {MAX_BYTES / 1e6:,.0f} MB at once{others}; "
            "attach a part of it, or an address that the provider reads"
        )
    if not data:
        raise click.UsageError(f"-a {_display_name(name)} is empty")
    return data


def _suggest_files(path: Path) -> str:
    """Return a hint with similar file names in the directory."""
    try:
        there = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f"; directory not found: {_display_name(str(path.parent))}"
    near = [str(path.with_name(name)) for name in difflib.get_close_matches(path.name, there, n=2)]
    return f"; did you mean {' or '.join(map(_display_name, near))}?" if near else ""


# --- parts ------------------------------------------------------------------------------------------------------------


def _make_part(data: bytes, name: str) -> Content:
    kind = _media_type(data, name)
    if kind.startswith("image/"):
        return Image.from_bytes(data, kind)
    if kind.startswith("audio/"):
        return Audio.from_bytes(data, kind)
    text = files.plain_text(data) if kind != "application/pdf" else None
    if text is not None:
        return _text_part(text, name, len(data))
    if not kind or media_types.is_text(kind) or kind == "application/zip":
        what = f"it is {kind}" if kind == "application/zip" else "it is not UTF-8 text, and its type is unknown"
        raise click.UsageError(
            f"-a {_display_name(name)} cannot be attached ({len(data):,} bytes): {what}; what can be are {_KINDS}"
        )
    return Document.from_bytes(data, kind, title=one_line(Path(name).name, _NAME_LENGTH))


def _media_type(data: bytes, name: str) -> str:
    """Tell the media type by the bytes; where they do not tell, and are no text, by the name. It also tells what is in a
    container.
    """
    told, named = media_types.detect_type(data), media_types.type_from_name(name)
    if told == "application/zip" or (told in ("video/mp4", "video/webm") and named.startswith("audio/")):
        return named or told
    return told or ("text/plain" if files.plain_text(data) is not None else named)


def _text_part(text: str, name: str, size: int) -> Text:
    """Put a text in a fence that is longer than any in it; its name cannot leave its line."""
    if size > _MAX_TEXT_BYTES:
        raise click.UsageError(
            f"-a {_display_name(name)} is too large: {size / 1e6:,.1f} MB of text, and no model reads more than "
            f"{_MAX_TEXT_BYTES / 1e6:,.0f} MB; attach a part of it"
        )
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    called = one_line(name, _NAME_LENGTH).replace('"', "'").replace("`", "'")
    end = "" if text.endswith("\n") else "\n"
    return Text(f'File "{called}":\n{fence}\n{text}{end}{fence}')


# --- addresses --------------------------------------------------------------------------------------------------------


def _url_part(url: str) -> Content:
    """Pass an address on, if its ending tells what is there."""
    try:
        split = urlsplit(url)
        if split.scheme not in _URL_SCHEMES:
            raise ValueError(f"an address begins with {', '.join(_URL_SCHEMES)}; a file is named by its path alone")
        checked = files.check_url(url)
    except ValueError as exc:
        raise click.UsageError(f"-a {_display_name(url)}: {exc}") from None
    name = split.path.rpartition("/")[2]
    kind = media_types.type_from_name(name)
    if kind.startswith("image/"):
        return Image.from_url(checked, mime=kind)
    if kind.startswith("audio/"):
        return Audio.from_url(checked, mime=kind)
    if not kind or media_types.is_text(kind):
        raise click.UsageError(
            f"-a {_display_name(url)}: an address is passed on if its ending says that a picture, a sound or a document is "
            "there; fetch any other, and pipe it in: curl -sL URL | tenuto ... -a -"
        )
    return Document.from_url(checked, mime=kind)


def _display_name(name: str) -> str:
    return one_line(name, _NAME_LENGTH) or "''"
