"""Room in SQLite's log before it is needed.

A commit that makes its file longer waits for the file system's own log as well as for its own data, and costs half as much
again as one that writes over what is there. So the log is made longer beforehand, by zeros, many commits' worth at a time:
as Postgres does with its own. To SQLite, zeros behind the last frame are the end of the log, as anything would be that does
not carry the salts of its header (https://www.sqlite.org/fileformat2.html#walformat).
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

__all__ = ["STEP", "full_at", "make_room"]

_LOG = logging.getLogger("tenuto")
STEP = 1024 * 1024
_LEFT = 64 * 1024 * 1024
"""On a disk with less than this, the log is as long as it must be."""
_HEADER, _FRAME, _SALTS = 32, 24, 8
_BINARY = getattr(os, "O_BINARY", 0)  # Windows


def full_at(log: Path) -> int | None:
    """Return how long the log is, if what is written in it comes near its end; None if not, or if it cannot be read now."""
    try:
        file = os.open(log, os.O_RDONLY | _BINARY)
    except OSError as exc:
        _LOG.debug("%s cannot be looked at now: %s", log, exc)
        return None
    try:
        size = os.fstat(file).st_size
        return size if _comes_near(file, size - STEP // 2) else None
    finally:
        os.close(file)


def make_room(log: Path, most: int) -> None:
    """Make the log longer if what is written comes near its end, and it will not be longer than `most`.

    Whoever calls this has begun a transaction that writes: nobody else writes to the log meanwhile. Where the disk is
    nearly full, nothing is taken from it that is not needed; and what goes wrong here does no harm: the next commit says
    so, if it needs room.
    """
    size = full_at(log)
    if size is None or size + STEP > most:
        return
    try:
        file = os.open(log, os.O_WRONLY | _BINARY)
        try:
            if _is_roomy(file):
                os.lseek(file, size, os.SEEK_SET)
                os.write(file, bytes(STEP))
        finally:
            os.close(file)
    except OSError as exc:
        _LOG.debug("%s has no more room: %s", log, exc)


def _is_roomy(file: int) -> bool:
    if sys.platform == "win32":
        return True
    disk = os.fstatvfs(file)
    return disk.f_bavail * disk.f_frsize > _LEFT


def _comes_near(file: int, place: int) -> bool:
    """Tell whether a frame of this log stands at a place; always, of one that is too short to ask."""
    header = os.read(file, _HEADER)
    if place < _HEADER:
        return True
    frame = _FRAME + int.from_bytes(header[8:12], "big")
    os.lseek(file, _HEADER + (place - _HEADER) // frame * frame + _SALTS, os.SEEK_SET)
    return any(header) and os.read(file, _SALTS) == header[16:24]
