"""Files that are written whole or not at all; those of the command itself by one at a time, and readable by their owner
only.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tenuto.errors import TenutoError

__all__ = ["alone", "whole", "write"]


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Read and write a file while nobody else who asks here does. Its folder is made, for its owner only.

    Where nothing can be locked, two who write at once may lose what one of them wrote, and never more than that. Raise
    `TenutoError` if the folder cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as exc:
        raise _unwritten(path, exc) from None
    try:
        with suppress(ImportError, OSError):
            import fcntl  # not on Windows

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextmanager
def whole(path: Path, put: Callable[[Path, Path], object] = Path.replace, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give a file to write in, beside `path`; `put` gives it that name once all of it is on the disk.

    If anything goes wrong before that, `path` is as it was and nothing lies about. Raise `OSError`.
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


def write(path: Path, text: str) -> None:
    """Put a text in a file's place, readable by its owner only. A link stays one. Raise `TenutoError` if it cannot be
    written: the file is as it was then.
    """
    try:
        with whole(Path(os.path.realpath(path)), mode=0o600) as file:
            file.write(text.encode())
    except OSError as exc:
        raise _unwritten(path, exc) from None


def _unwritten(path: Path, exc: OSError) -> TenutoError:
    told = TenutoError(f"{path} cannot be written, and is as it was: {exc.strerror or exc}")
    told.add_note("make it possible, or set TENUTO_HOME to another folder")
    return told
