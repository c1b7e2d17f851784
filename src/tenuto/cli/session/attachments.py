"""Attachments (`-a`): files, URLs and stdin as parts of a user message.

The bytes decide the media type before the file name does. Text is sent in a fence, with its name. URLs are passed on: the
provider reads them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from tenuto.cli.terminal.text import one_line, similar_names
from tenuto.core import files, media_types
from tenuto.core.blocks import Audio, Document, Image, Text
from tenuto.core.messages import Content

MAX_BYTES = 75_000_000  # of all attachments: as base64 they are 100 MB, and no provider takes a longer request
_MAX_TEXT_BYTES = 20_000_000  # the limit for the text of one attachment: some five million tokens
_NAME_LENGTH = 200
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_URL_SCHEMES = ("http", "https", "gs", "s3")
_KINDS = "images, audio, video, PDF and office documents, and UTF-8 text"


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
        if _SCHEME.match(name):
            parts.append(_url_part(name))
            continue
        data = _read_stdin(room) if name == "-" else _read_file(name, room)
        room -= len(data)
        parts.append(_file_part(data, "stdin" if name == "-" else name))
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


def _file_part(data: bytes, name: str) -> Content:
    kind = _media_type(data, name)
    if media := _media_class(kind):
        return media.from_bytes(data, kind)
    text = files.plain_text(data) if kind != "application/pdf" else None
    if text is not None:
        return _text_part(text, name, len(data))
    if not kind or media_types.is_text(kind) or kind == "application/zip":
        what = f"it is {kind}" if kind == "application/zip" else "it is not UTF-8 text, and its type is unknown"
        raise _refuse(name, f" cannot be attached ({len(data):,} bytes): {what}; supported are {_KINDS}")
    return Document.from_bytes(data, kind, title=one_line(Path(name).name, _NAME_LENGTH))


def _media_class(kind: str) -> type[Image | Audio] | None:
    return Image if kind.startswith("image/") else Audio if kind.startswith("audio/") else None


def _media_type(data: bytes, name: str) -> str:
    """Return the type of the bytes; the name decides for containers and for unknown bytes that are not text."""
    detected, named = media_types.detect_type(data), media_types.type_from_name(name)
    is_audio = detected in ("video/mp4", "video/webm") and named.startswith("audio/")
    if named and (is_audio or detected == "application/zip"):
        return named
    return detected or ("text/plain" if files.plain_text(data) is not None else named)


def _text_part(text: str, name: str, size: int) -> Text:
    if size > _MAX_TEXT_BYTES:
        limit = f"{_MAX_TEXT_BYTES / 1e6:,.0f} MB"
        raise _refuse(name, f" is too large: {size / 1e6:,.1f} MB of text; the limit is {limit}")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    title = one_line(name, _NAME_LENGTH).replace('"', "'").replace("`", "'")
    return Text(f'File "{title}":\n{fence}\n{text}{"" if text.endswith(chr(10)) else chr(10)}{fence}')


def _url_part(url: str) -> Content:
    """Return a part with a URL whose suffix names a supported type."""
    try:
        split = urlsplit(url)
        if split.scheme not in _URL_SCHEMES:
            raise ValueError(f"a URL starts with {', '.join(_URL_SCHEMES)}; a file is named by its path alone")
        checked = files.check_url(url)
    except ValueError as exc:
        raise _refuse(url, f": {exc}") from None
    kind = media_types.type_from_name(split.path.rpartition("/")[2])
    if media := _media_class(kind):
        return media.from_url(checked, mime=kind)
    if not kind or media_types.is_text(kind):
        raise _refuse(
            url, ": URL type unknown: it must end in .png, .pdf, ...; or download it: curl -sL URL | tenuto ... -a -"
        )
    return Document.from_url(checked, mime=kind)
