"""A directory that no path leads out of.

A path is split into names. Each directory on the way is opened relative to the previous one, and never through a link, so a
concurrent change cannot redirect it. Where the system cannot open files relative to a directory (Windows), each name is
checked before it is used, which is subject to a race (TOCTOU).
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
from typing import NamedTuple

_RELATIVE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)  # without O_NONBLOCK, opening a pipe waits for a writer
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
_VERSION_CONTROL = (".git", ".hg", ".svn")
_WINDOWS_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\..*)?", re.IGNORECASE)


def split_path(path: str, *, windows: bool = sys.platform == "win32") -> tuple[str, ...]:
    """Split a path relative to the root into its names. Raise `ValueError` if it could lead out of the root."""
    if re.search("[\0\ud800-\udc7f\udd00-\udfff]", path):
        raise ValueError(f"{path!r} is not a valid path: it contains a character that no file name can have")
    if windows:
        path = path.replace("\\", "/")
    if path.startswith("/") or path.partition("/")[0] == "~" or (windows and ":" in path):
        raise ValueError(f"{path!r} is outside the working directory: use a relative path, as in 'src/main.py'")
    names = tuple(name for name in path.split("/") if name not in ("", "."))
    if ".." in names:
        raise ValueError(f"{path!r} may be outside the working directory: use a path without '..'")
    for name in names:
        if windows and (_WINDOWS_DEVICE.fullmatch(name) or name != name.rstrip(". ")):
            raise ValueError(f"{path!r} is not a valid path: {name!r} has another meaning on Windows")
    return names


def printable_path(path: str) -> str:
    """Return a path as one line of text; bytes that are not UTF-8 are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\n", "\\n")


class WalkEntry(NamedTuple):
    path: str
    """Relative to the root."""
    kind: str
    """`file`, `directory`, `link` or `other`."""
    size: int
    hidden: bool
    """Whether the name starts with a dot."""


class Directory:
    """An open directory inside the root. Its methods take names of entries and never follow a link.

    `handle` is the open file descriptor; None where the system cannot open files relative to a directory. `path` is used
    in that case. `label` is the path relative to the root, for messages. Leaving the `with` statement closes the handle.
    """

    def __init__(self, path: Path, handle: int | None, label: str) -> None:
        self._path = path
        self._handle = handle
        self._label = label

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def _at(self, name: str) -> str | Path:
        """Return the path of an entry for functions that take a `dir_fd`."""
        return self._path / name if self._handle is None else name

    def _open(self, name: str, flags: int) -> int:
        return os.open(self._at(name), flags | _NO_LINK, 0o666, dir_fd=self._handle)

    def label(self, name: str) -> str:
        """Return the path of an entry relative to the root."""
        return f"{self._label}/{name}" if self._label else name

    def stat(self, name: str) -> os.stat_result | None:
        """Return the status of an entry, of a link itself; None if it does not exist."""
        with _named_errors(self.label(name)):
            try:
                return os.stat(self._at(name), dir_fd=self._handle, follow_symlinks=False)
            except FileNotFoundError:
                return None

    def open_directory(self, name: str, *, create: bool = False) -> Directory:
        """Open a directory in this one; `create` it unless an entry of this name exists."""
        label = self.label(name)
        if create:
            with _named_errors(label), contextlib.suppress(FileExistsError):
                os.mkdir(self._at(name), dir_fd=self._handle)
        status = self.stat_existing(name)
        _check_not_link(status, label)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(f"{label} is not a directory")
        with _named_errors(label):
            handle = None if self._handle is None else self._open(name, _DIRECTORY)
        return Directory(self._path / name, handle, label)

    def read(self, name: str, limit: int) -> bytes:
        """Return the bytes of a file. Raise `OSError` if it is not a file or has more than `limit` bytes."""
        label = self.label(name)
        _check_regular(self.stat_existing(name), label)
        with _named_errors(label), os.fdopen(self._open(name, _READ), "rb") as file:
            status = os.fstat(file.fileno())  # the entry may have been replaced
            _check_regular(status, label)
            data = file.read(limit + 1)
        if len(data) > limit:
            raise OSError(f"{label} is too large: {status.st_size:,} bytes, the limit is {limit:,}")
        return data

    def write(self, name: str, data: bytes) -> bool:
        """Create or overwrite a file atomically and keep its permissions. Return whether it existed."""
        label, status = self.label(name), self.stat(name)
        if status is not None:
            _check_regular(status, label)
        new = f".tenuto-{secrets.token_hex(8)}"
        with _named_errors(label):
            handle = self._open(new, _CREATE)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    if status is not None and hasattr(os, "fchmod"):
                        os.fchmod(handle, stat.S_IMODE(status.st_mode))
                    file.flush()
                    os.fsync(handle)
                os.replace(self._at(new), self._at(name), src_dir_fd=self._handle, dst_dir_fd=self._handle)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(self._at(new), dir_fd=self._handle)
                raise
        return status is not None

    def walk(self, depth: int, *, hidden: bool) -> Iterator[tuple[WalkEntry, Directory]]:
        """Yield the entries down to `depth` levels in the order of their names, each with its open directory.

        Links are not followed. Hidden directories are entered only if `hidden` is true, those of version control never.
        """
        source = self._path if self._handle is None else self._handle
        with _named_errors(self._label or "."), os.scandir(source) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            status = self.stat(name)
            if status is None:  # deleted in the meantime
                continue
            kind, is_hidden = _KINDS.get(stat.S_IFMT(status.st_mode), "other"), name.startswith(".")
            yield WalkEntry(self.label(name), kind, status.st_size, is_hidden), self
            if kind == "directory" and depth > 1 and name not in _VERSION_CONTROL and (hidden or not is_hidden):
                try:
                    inner = self.open_directory(name)
                except OSError:  # deleted in the meantime, or not readable; the entry is listed
                    continue
                with inner:
                    yield from inner.walk(depth - 1, hidden=hidden)

    def stat_existing(self, name: str) -> os.stat_result:
        """Return the status of an entry, of a link itself. Raise `FileNotFoundError` if it does not exist."""
        status = self.stat(name)
        if status is None:
            raise FileNotFoundError(f"{self.label(name)} not found; list_files shows the files")
        return status


class ConfinedDir:
    """The root directory. Raise `NotADirectoryError` if it is not a directory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_dir():
            raise NotADirectoryError(f"{os.fspath(path)!r} is not a directory: choose an existing one as root")

    def open(self, names: tuple[str, ...], *, create: bool = False) -> Directory:
        """Open the directory at these names; `create` those that do not exist."""
        current = Directory(self.path, os.open(self.path, _DIRECTORY | _NO_LINK) if _RELATIVE else None, "")
        for name in names:
            with current:
                inner = current.open_directory(name, create=create)
            current = inner
        return current

    def open_parent(self, path: str, *, create: bool = False) -> tuple[Directory, str]:
        """Open the directory of a file. Return it and the name of the file."""
        names = split_path(path)
        if not names:
            raise IsADirectoryError(f"{path!r} is the working directory, not a file")
        return self.open(names[:-1], create=create), names[-1]


def _check_not_link(status: os.stat_result, label: str) -> None:
    reparse_tag: int = getattr(status, "st_reparse_tag", 0)  # Windows: junctions and other kinds of links
    if stat.S_ISLNK(status.st_mode) or reparse_tag:
        raise PermissionError(f"{label} is a link, and links are not followed")


def _check_regular(status: os.stat_result, label: str) -> None:
    _check_not_link(status, label)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{label} is a directory, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise PermissionError(f"{label} is not a regular file")


@contextlib.contextmanager
def _named_errors(label: str) -> Iterator[None]:
    """Replace the path in errors of the system by the path that the model knows."""
    try:
        yield
    except OSError as exc:
        if exc.errno is None:  # raised by this module
            raise
        raise type(exc)(f"{label}: {exc.strerror}") from exc
