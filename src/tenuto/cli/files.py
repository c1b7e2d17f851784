"""Write files atomically: settings, answers (`--out`) and exports."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import click

from tenuto.cli.terminal.output import BrokenOutput, print_text
from tenuto.errors import TenutoError


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock for reading and writing a file. The directory is created with mode 0700.

    Without file locks (Windows), simultaneous writers may lose one change. Raise `TenutoError` if the directory cannot be
    created.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as exc:
        raise _write_failed(path, exc) from None
    try:
        with suppress(ImportError, OSError):
            import fcntl  # not on Windows

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextmanager
def atomic_open(
    path: Path, put: Callable[[Path, Path], object] = Path.replace, *, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """Open a temporary file next to `path`; `put` renames it to `path` after it is synced.

    On an error `path` is unchanged and the temporary file is deleted. Raise `OSError`.
    """
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    try:
        with open(beside, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        put(beside, path)
    finally:
        with suppress(OSError):
            beside.unlink()


def write_private(path: Path, text: str) -> None:
    """Write a text atomically with mode 0600. A symbolic link stays one.

    Raise `TenutoError` if it cannot be written; the file is unchanged then.
    """
    try:
        with atomic_open(Path(os.path.realpath(path)), mode=0o600) as file:
            file.write(text.encode())
    except OSError as exc:
        raise _write_failed(path, exc) from None


def _write_failed(path: Path, exc: OSError) -> TenutoError:
    told = TenutoError(f"{path} cannot be written, and is as it was: {exc.strerror or exc}")
    told.add_note("make it possible, or set TENUTO_HOME to another folder")
    return told


class OutputFile:
    """The file of `--out`. Raise `click.UsageError`, before any request, if it cannot be written.

    Links are followed. Pipes and devices are written to, not replaced.
    """

    def __init__(self, named: str) -> None:
        self.named = named
        try:
            self._path = Path(named).expanduser().resolve()
            self._is_plain = self._path.is_file() or not self._path.exists()
        except (OSError, ValueError, RuntimeError) as exc:  # a loop of links, a name with a zero in it, no such user
            raise click.UsageError(f"--out {named!r} cannot be written: {_reason(exc)}") from None
        why = self._refused()
        if why:
            raise click.UsageError(f"--out {named!r} cannot be written: {why}")

    def _refused(self) -> str:
        folder = self._path.parent
        if not is_file_name(self.named):
            return "it names no file"
        if self._path.is_dir():
            return "it is a folder; name a file in it"
        if not folder.is_dir():
            return f"there is no folder {str(folder)!r}; make it first"
        if self._path.exists() and not os.access(self._path, os.W_OK):
            return "it may not be written"
        if self._is_plain and not os.access(folder, os.W_OK | os.X_OK):
            return f"nothing may be written in the folder {str(folder)!r}"
        return ""

    def write(self, text: str) -> None:
        """Write the text as UTF-8. Raise `OSError`; the file is unchanged then."""
        data = text.encode("utf-8", "backslashreplace")
        if not self._is_plain:
            with self._path.open("wb") as file:
                file.write(data)
            return
        with atomic_open(self._path, _replace_keeping_mode) as file:
            file.write(data)


def _replace_keeping_mode(beside: Path, path: Path) -> None:
    """Replace a file, keeping its mode."""
    with suppress(FileNotFoundError):  # there was none before
        beside.chmod(path.stat().st_mode & 0o7777)
    beside.replace(path)


def is_file_name(name: str) -> bool:
    """Whether a text can name a file."""
    return bool(name.strip()) and not name.endswith(("/", os.sep))


def _reason(exc: Exception) -> str:
    return getattr(exc, "strerror", None) or str(exc)


ExportWriter = Callable[[bytes], object]
"""Takes a piece of what is written."""


@contextmanager
def export_target(named: str | None, *, force: bool, spelt: Callable[[str], str]) -> Iterator[ExportWriter]:
    """Yield a function that writes bytes to a file, or to stdout for None and `-`.

    The file appears when the block ends without an error. Raise `click.UsageError` if it exists, unless `force`, and
    `BrokenOutput` if stdout is closed. On a terminal, text is passed through `spelt`.
    """
    if named is None or named == "-":
        with _write_stdout(spelt) as put:
            yield put
        return
    path = _check_target(named, force=force)
    if path.exists() and not path.is_file():  # a pipe, a device: there is nothing to replace
        with _explain_errors(named), path.open("wb") as file:
            yield file.write
        return
    with _explain_errors(named), atomic_open(path, partial(_publish, named, force=force)) as file:
        yield file.write


def _check_target(named: str, *, force: bool) -> Path:
    """Return the path. Raise `click.UsageError` if it cannot be written."""
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
def _explain_errors(named: str) -> Iterator[None]:
    """Turn `OSError` into `TenutoError` with the file name."""
    try:
        yield
    except OSError as exc:
        raise TenutoError(f"{named!r} cannot be written, and nothing of it was: {exc.strerror or exc}") from exc


def _publish(named: str, beside: Path, path: Path, *, force: bool) -> None:
    """Rename the temporary file. If another process created the file meanwhile, refuse without loss."""
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
def _write_stdout(spelt: Callable[[str], str]) -> Iterator[ExportWriter]:
    """Write bytes through the buffer of stdout, or text on a terminal."""
    stream = sys.stdout
    buffer = getattr(stream, "buffer", None)
    shown = stream is not None and not stream.closed and stream.isatty()
    if shown or buffer is None:
        spell = spelt if shown else str
        yield lambda piece: print_text(spell(piece.decode("utf-8", "surrogatepass")), escape=False)
        return
    try:
        stream.flush()
        yield buffer.write
        buffer.flush()
    except BrokenPipeError:
        raise BrokenOutput from None
