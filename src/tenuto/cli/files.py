"""Write files atomically: settings, answers (`--out`) and exports."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from tenuto.cli.terminal.output import detect_terminal, print_text
from tenuto.errors import TenutoError
from tenuto.store.locks import rename_new


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Lock a file for reading and writing. Without file locks (Windows), simultaneous writers may lose one change."""
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
    path: Path, publish: Callable[[Path, Path], object] = Path.replace, *, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """Open a temporary file next to `path`; `publish` renames it to `path` after it is synced.

    On an error `path` is unchanged and the temporary file is deleted. Raise `OSError`.
    """
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        publish(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_private(path: Path, text: str) -> None:
    """Write a text atomically with mode 0600. A symbolic link stays one."""
    try:
        with atomic_open(Path(os.path.realpath(path)), mode=0o600) as file:
            file.write(text.encode())
    except OSError as exc:
        raise _write_failed(path, exc) from None


def _write_failed(path: Path, exc: OSError) -> TenutoError:
    error = TenutoError(f"{path} cannot be written and is unchanged: {exc.strerror or exc}")
    error.add_note("change its permissions or free some space, or set TENUTO_HOME to another directory")
    return error


class OutputFile:
    """The file of `--out`. Raise `click.UsageError`, before any request, if it cannot be written.

    Links are followed. Pipes and devices are written to, not replaced.
    """

    def __init__(self, named: str, *, overwrite: bool = True) -> None:
        self.named = named
        self._overwrite = overwrite
        try:
            self._path = Path(named).expanduser().resolve()
            self._is_plain = self._path.is_file() or not self._path.exists()
            problem = self._find_problem()
        except (OSError, ValueError, RuntimeError) as exc:  # a loop of links, a name with a zero byte, an unknown user
            problem = getattr(exc, "strerror", None) or str(exc)
        if problem:
            raise click.UsageError(f"--out {named!r} cannot be written: {problem}")

    def _find_problem(self) -> str:
        directory = self._path.parent
        if not self.named.strip() or self.named.endswith(("/", os.sep)) or self._path.is_dir():
            return "it is a directory; name a file in it"
        if not directory.is_dir():
            return f"directory {str(directory)!r} does not exist"
        if self._path.is_file() and not self._overwrite:
            return "it already exists (use --force)"
        needed = [self._path] * self._path.exists() + [directory] * self._is_plain  # for the temporary file
        blocked = [path for path in needed if not os.access(path, os.W_OK | (os.X_OK if path is directory else 0))]
        return f"no permission to write {blocked[0]}" if blocked else ""

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file; its content appears when the block ends without an error. Raise `OSError`."""
        if not self._is_plain:
            with self._path.open("wb") as file:
                yield file
            return
        try:
            with atomic_open(self._path, Path.replace if self._overwrite else rename_new) as file:
                with suppress(FileNotFoundError):  # the file is new
                    Path(file.name).chmod(self._path.stat().st_mode & 0o7777)
                yield file
        except FileExistsError:
            raise click.UsageError(f"--out {self.named!r} exists now (use --force)") from None

    def write(self, text: str) -> None:
        """Write the text as UTF-8. Raise `OSError`; the file is unchanged then."""
        with self.open() as file:
            file.write(text.encode("utf-8", "backslashreplace"))


@contextmanager
def export_target(
    named: str | None, *, force: bool, escape: Callable[[str], str]
) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes bytes to a file, or for None and `-` to stdout: to a terminal through `escape`."""
    if named not in (None, "-"):
        try:
            with OutputFile(named, overwrite=force).open() as file:
                yield file.write
        except OSError as exc:
            raise TenutoError(f"{named!r} cannot be written, and nothing of it was: {exc.strerror or exc}") from exc
    else:
        show = escape if detect_terminal().is_out_terminal else str
        yield lambda piece: print_text(show(piece.decode("utf-8", "surrogatepass")), escape=False)
