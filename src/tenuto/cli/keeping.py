"""Files that are written whole or not at all, by one at a time, and that only their owner can read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tenuto.errors import TenutoError

__all__ = ["alone", "write"]


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


def write(path: Path, text: str) -> None:
    """Put a text in a file's place, readable by its owner only. A link stays one. Raise `TenutoError` if it cannot be
    written: the file is as it was then.
    """
    real = Path(os.path.realpath(path))
    made: Path | None = None
    try:
        file, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)  # for its owner only
        made = Path(name)
        with os.fdopen(file, "wb") as out:
            out.write(text.encode())
            out.flush()
            os.fsync(out.fileno())
        made.replace(real)
        made = None
    except OSError as exc:
        raise _unwritten(path, exc) from None
    finally:
        if made is not None:
            with suppress(OSError):
                made.unlink()


def _unwritten(path: Path, exc: OSError) -> TenutoError:
    told = TenutoError(f"{path} cannot be written, and is as it was: {exc.strerror or exc}")
    told.add_note("make it possible, or set TENUTO_HOME to another folder")
    return told
