"""`--out FILE`: the answer in a file, whole or not at all. What stood there before stays until all of it is written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import click

from tenuto.cli.keeping import whole

__all__ = ["OutFile"]


class OutFile:
    """Where an answer is to go. Raise `click.UsageError`, before anything is asked, for a place that cannot be written.

    A link is followed. What is no plain file (a pipe, `/dev/stderr`) is written to, and never replaced.
    """

    def __init__(self, named: str) -> None:
        self.named = named
        try:
            self._path = Path(named).expanduser().resolve()
            self._is_plain = self._path.is_file() or not self._path.exists()
        except (OSError, ValueError, RuntimeError) as exc:  # a loop of links, a name with a zero in it, no such user
            raise click.UsageError(f"--out {named!r} cannot be written: {_why(exc)}") from None
        why = self._refused()
        if why:
            raise click.UsageError(f"--out {named!r} cannot be written: {why}")

    def _refused(self) -> str:
        folder = self._path.parent
        if not named_well(self.named):
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
        """Write the text, in UTF-8. Raise `OSError`; what stood there before stands there then."""
        data = text.encode("utf-8", "backslashreplace")
        if not self._is_plain:
            with self._path.open("wb") as file:
                file.write(data)
            return
        with whole(self._path, _put) as file:
            file.write(data)


def _put(beside: Path, path: Path) -> None:
    """Who may read it stays as it was."""
    with suppress(FileNotFoundError):  # there was none before
        beside.chmod(path.stat().st_mode & 0o7777)
    beside.replace(path)


def named_well(name: str) -> bool:
    """Tell whether a text can name a file: not nothing, and not a folder by its last sign."""
    return bool(name.strip()) and not name.endswith(("/", os.sep))


def _why(exc: Exception) -> str:
    return getattr(exc, "strerror", None) or str(exc)
