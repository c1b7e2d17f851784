"""Approvals that the user remembered for a directory.

They are in the user's data directory, keyed by the real path of the project: no file of a project can grant approvals.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tenuto import settings
from tenuto.cli.files import file_lock, write_private
from tenuto.errors import TenutoError


def approvals_file() -> Path:
    return settings.home() / "approvals.json"


def remembered_patterns(directory: str) -> list[str]:
    return _read().get(os.path.realpath(directory), [])


def remember_pattern(directory: str, pattern: str) -> None:
    """Add a pattern. Raise `TenutoError` if the file cannot be written."""
    key = os.path.realpath(directory)
    with file_lock(approvals_file()):
        document = _read()
        document[key] = list(dict.fromkeys([*document.get(key, ()), pattern]))
        _write(document)


def forget_pattern(directory: str, pattern: str) -> bool:
    """Remove a pattern; return whether it was there."""
    key = os.path.realpath(directory)
    with file_lock(approvals_file()):
        document = _read()
        kept = [other for other in document.get(key, ()) if other != pattern]
        found = len(kept) < len(document.get(key, ()))
        if found:
            _write({path: patterns for path, patterns in {**document, key: kept}.items() if patterns})
    return found


def _read() -> dict[str, list[str]]:
    try:
        return msgspec.json.decode(approvals_file().read_bytes(), type=dict[str, list[str]])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        error = TenutoError(f"{approvals_file()} cannot be read: {getattr(exc, 'strerror', None) or exc}")
        error.add_note("correct the file or delete it")
        raise error from None


def _write(document: dict[str, list[str]]) -> None:
    write_private(approvals_file(), msgspec.json.format(msgspec.json.encode(document)).decode() + "\n")
