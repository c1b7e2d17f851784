"""Where an export goes: a file, whole or not at all, or stdout, which gets the very bytes unless it is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from tenuto.cli.keeping import whole
from tenuto.cli.pipe import Unread
from tenuto.cli.screen import write_text
from tenuto.errors import TenutoError

__all__ = ["Put", "saved"]

Put = Callable[[bytes], object]
"""Takes a piece of what is written."""


@contextmanager
def saved(named: str | None, *, force: bool, spelt: Callable[[str], str]) -> Iterator[Put]:
    """Give whoever writes something to put it into; `named` is a file, None or `-` stdout.

    A file is there when the block has ended well, and only then. One that is there already is not overwritten, unless
    `force`: `click.UsageError`. On a terminal, text is shown as `spelt` makes it. Raise `Unread` if nobody reads.
    """
    if named is None or named == "-":
        with _to_stdout(spelt) as put:
            yield put
        return
    path = _looked(named, force=force)
    if path.exists() and not path.is_file():  # a pipe, a device: there is nothing to replace
        with _spoken(named), path.open("wb") as file:
            yield file.write
        return
    with _spoken(named), whole(path, partial(_put, named, force=force)) as file:
        yield file.write


def _looked(named: str, *, force: bool) -> Path:
    """Return where the file is to be. Raise `click.UsageError` for a place where it cannot be."""
    try:
        path = Path(named).expanduser()
        if "\0" in named:
            raise ValueError("no file can have a zero in its name")
        if path.is_dir() or not path.name:
            raise click.UsageError(f"--out {named!r} is a folder: name a file in it")
        if path.is_file() and not force:
            raise click.UsageError(f"--out {named!r} is there already: name another file, or say --force")
        if not path.parent.is_dir():
            raise click.UsageError(f"--out {named!r}: there is no folder {str(path.parent)!r}; make it first")
    except (OSError, ValueError, RuntimeError) as exc:  # a loop of links, no such user
        raise click.UsageError(f"--out {named!r} cannot be written: {getattr(exc, 'strerror', None) or exc}") from None
    return path


@contextmanager
def _spoken(named: str) -> Iterator[None]:
    """Say what goes wrong with the file; nothing is left of it then."""
    try:
        yield
    except OSError as exc:
        raise TenutoError(f"{named!r} cannot be written, and nothing of it was: {exc.strerror or exc}") from exc


def _put(named: str, beside: Path, path: Path, *, force: bool) -> None:
    """Give the file its name. Somebody may have made another one meanwhile: a link is refused then, and nothing is lost."""
    if force:
        beside.replace(path.resolve())
        return
    try:
        os.link(beside, path)
    except FileExistsError:
        raise click.UsageError(f"--out {named!r} is there by now: name another file, or say --force") from None
    except OSError:  # a file system without links
        beside.rename(path)


@contextmanager
def _to_stdout(spelt: Callable[[str], str]) -> Iterator[Put]:
    """Everything goes through one buffer, so that many small pieces are no many small writes."""
    stream = sys.stdout
    buffer = getattr(stream, "buffer", None)
    shown = stream is not None and not stream.closed and stream.isatty()
    if shown or buffer is None:
        spell = spelt if shown else str
        yield lambda piece: write_text(spell(piece.decode("utf-8", "surrogatepass")), escape=False)
        return
    try:
        stream.flush()
        yield buffer.write
        buffer.flush()
    except BrokenPipeError:
        raise Unread from None
