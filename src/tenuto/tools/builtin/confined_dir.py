"""A folder that nothing leads out of.

A path is taken apart into names, and each folder on the way is opened inside the one before, never through a link: so
nothing that changes in the meantime can lead elsewhere. Where a system cannot open a file relative to a folder
(Windows), each name on the way is looked at first, which somebody who is quick could fool.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol

__all__ = ["ConfinedDir", "Directory", "names_of"]

_WINDOWS = sys.platform == "win32"
_RELATIVE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)  # a pipe without a writer would keep us waiting
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL

_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\..*)?", re.IGNORECASE)


def names_of(path: str, *, windows: bool = _WINDOWS) -> tuple[str, ...]:
    """Take a path apart into the names from the root down; raise `ValueError` if it could lead out of it."""
    if "\0" in path or any("\ud800" <= sign <= "\udfff" and not "\udc80" <= sign <= "\udcff" for sign in path):
        raise ValueError(f"{path!r} is no path: it holds a sign that no file name has")
    if windows:
        path = path.replace("\\", "/")
    if path.startswith("/") or path.partition("/")[0] == "~" or (windows and ":" in path):
        raise ValueError(f"{path!r} leads out of the folder: write a path relative to it, as in 'src/main.py'")
    names = tuple(name for name in path.split("/") if name not in ("", "."))
    if ".." in names:
        raise ValueError(f"{path!r} leads out of the folder: write it without '..', from the top of the folder")
    for name in names:
        if windows and (_DEVICE.fullmatch(name) or name != name.rstrip(". ")):
            raise ValueError(f"{path!r} is no path here: {name!r} means something else to the system")
    return names


class _Handle(Protocol):
    """One folder, by what can be done in it. No name is followed if it is a link."""

    def stat(self, name: str) -> os.stat_result: ...
    def names(self) -> list[str]: ...
    def mkdir(self, name: str) -> None: ...
    def open(self, name: str, flags: int) -> int: ...
    def replace(self, name: str, by: str) -> None: ...
    def unlink(self, name: str) -> None: ...
    def inner(self, name: str) -> _Handle: ...
    def close(self) -> None: ...


class _OpenDir:
    """A folder that is held open: wherever it is moved, and whatever takes its place, it stays the same."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._handle, follow_symlinks=False)

    def names(self) -> list[str]:
        with os.scandir(self._handle) as found:
            return sorted(entry.name for entry in found)

    def mkdir(self, name: str) -> None:
        os.mkdir(name, dir_fd=self._handle)

    def open(self, name: str, flags: int) -> int:
        return os.open(name, flags | _NO_LINK, 0o666, dir_fd=self._handle)

    def replace(self, name: str, by: str) -> None:
        os.replace(by, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self._handle)

    def inner(self, name: str) -> _Handle:
        return _OpenDir(self.open(name, _FOLDER))

    def close(self) -> None:
        os.close(self._handle)


class _PathDir:
    """A folder by its path, for systems that open nothing relative to a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def stat(self, name: str) -> os.stat_result:
        return (self._path / name).lstat()

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self._path.iterdir())

    def mkdir(self, name: str) -> None:
        (self._path / name).mkdir()

    def open(self, name: str, flags: int) -> int:
        return os.open(self._path / name, flags | _NO_LINK, 0o666)

    def replace(self, name: str, by: str) -> None:
        (self._path / by).replace(self._path / name)

    def unlink(self, name: str) -> None:
        (self._path / name).unlink()

    def inner(self, name: str) -> _Handle:
        return _PathDir(self._path / name)

    def close(self) -> None:
        """Nothing is held."""


class Directory:
    """One folder inside the root. Names in it are never followed if they are links. Leaving the `with` closes it."""

    def __init__(self, handle: _Handle, shown: str) -> None:
        self._handle = handle
        self._shown = shown

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._handle.close()

    def stat(self, name: str) -> os.stat_result | None:
        """Tell what stands there, a link by itself; None if nothing does."""
        with _telling(self.shown(name)):
            try:
                return self._handle.stat(name)
            except FileNotFoundError:
                return None

    def folder(self, name: str) -> Directory:
        """Open a folder in this one."""
        shown, found = self.shown(name), self.stat(name)
        if found is None:
            raise FileNotFoundError(f"there is no {shown}; list_files shows what there is")
        _refuse_link(found, shown)
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(f"{shown} is no folder")
        with _telling(shown):
            return Directory(self._handle.inner(name), shown)

    def make(self, name: str) -> None:
        """Make a folder in this one, unless something stands there."""
        with _telling(self.shown(name)), contextlib.suppress(FileExistsError):
            self._handle.mkdir(name)

    def read(self, name: str, most: int) -> bytes:
        """Return a file's bytes; raise `OSError` if it is none, or if it has more than `most`."""
        shown, found = self.shown(name), self.stat(name)
        if found is None:
            raise FileNotFoundError(f"there is no {shown}; list_files shows what there is")
        _refuse_other(found, shown)
        with _telling(shown), os.fdopen(self._handle.open(name, _READ), "rb") as file:
            opened = os.fstat(file.fileno())  # it may be another by now
            _refuse_other(opened, shown)
            data = file.read(most + 1)
        if len(data) > most:
            raise OSError(f"{shown} is too large: {opened.st_size:,} bytes, and at most {most:,} are read")
        return data

    def write(self, name: str, data: bytes) -> bool:
        """Write a file, whole or not at all; tell whether there was one. Its permissions stay."""
        shown, found = self.shown(name), self.stat(name)
        if found is not None:
            _refuse_other(found, shown)
        new = f".tenuto-{secrets.token_hex(8)}"
        with _telling(shown):
            handle = self._handle.open(new, _NEW)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    if found is not None and hasattr(os, "fchmod"):
                        os.fchmod(handle, stat.S_IMODE(found.st_mode))
                    file.flush()
                    os.fsync(handle)
                self._handle.replace(name, new)
            except BaseException:
                with contextlib.suppress(OSError):
                    self._handle.unlink(new)
                raise
        return found is not None

    def entries(self) -> list[tuple[str, os.stat_result]]:
        """Return what stands in it, by name, links as links; what vanished meanwhile is left out."""
        with _telling(self._shown or "."):
            names = self._handle.names()
        found = ((name, self.stat(name)) for name in names)
        return [(name, entry) for name, entry in found if entry is not None]

    def shown(self, name: str) -> str:
        """Return the path from the root to a name in this folder."""
        return f"{self._shown}/{name}" if self._shown else name


class ConfinedDir:
    """The folder that everything stays in. Raise `NotADirectoryError` if it is none."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_dir():
            raise NotADirectoryError(f"{os.fspath(path)!r} is no folder: give one that exists as root")

    def open(self, names: tuple[str, ...], *, make: bool = False) -> Directory:
        """Open the folder that these names lead to; `make` those that are not there."""
        here = Directory(_OpenDir(os.open(self.path, _FOLDER | _NO_LINK)) if _RELATIVE else _PathDir(self.path), "")
        for name in names:
            with here:
                if make:
                    here.make(name)
                inner = here.folder(name)
            here = inner
        return here

    def place(self, path: str, *, make: bool = False) -> tuple[Directory, str]:
        """Open the folder that a file stands in, and return the file's name in it."""
        names = names_of(path)
        if not names:
            raise IsADirectoryError(f"{path!r} is the folder itself, no file")
        return self.open(names[:-1], make=make), names[-1]


def _refuse_link(found: os.stat_result, shown: str) -> None:
    tag: int = getattr(found, "st_reparse_tag", 0)  # Windows has other kinds of link, too
    if stat.S_ISLNK(found.st_mode) or tag:
        raise PermissionError(f"{shown} is a link, and links are not followed")


def _refuse_other(found: os.stat_result, shown: str) -> None:
    """Refuse what is no ordinary file."""
    _refuse_link(found, shown)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(f"{shown} is a folder, no file")
    if not stat.S_ISREG(found.st_mode):
        raise PermissionError(f"{shown} is no ordinary file")


@contextlib.contextmanager
def _telling(shown: str) -> Iterator[None]:
    """Have the system's errors name the path as the model knows it."""
    try:
        yield
    except OSError as exc:
        if exc.errno is None:  # our own
            raise
        raise type(exc)(f"{shown}: {exc.strerror}") from exc
