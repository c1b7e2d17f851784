"""Approvals that the user remembered for a directory.

They are in the user's data directory, keyed by the real path of the project: no file of a project can grant approvals.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from tenuto import settings
from tenuto.cli.config import read_json
from tenuto.cli.files import file_lock, write_private


def approvals_file() -> Path:
    return settings.home() / "approvals.json"


def remembered_patterns(directory: str) -> list[str]:
    return _read().get(os.path.realpath(directory), [])


def remember_pattern(directory: str, pattern: str) -> None:
    _change(directory, lambda patterns: list(dict.fromkeys([*patterns, pattern])))


def forget_pattern(directory: str, pattern: str) -> bool:
    return _change(directory, lambda patterns: [other for other in patterns if other != pattern])


def _change(directory: str, change: Callable[[list[str]], list[str]]) -> bool:
    """Write the changed patterns of a directory; return whether there was a change."""
    key, path = os.path.realpath(directory), approvals_file()
    with file_lock(path):
        document = _read()
        before = document.get(key, [])
        document[key] = after = change(before)
        if after != before:
            write_private(path, msgspec.json.format(msgspec.json.encode(document)).decode() + "\n")
    return after != before


def _read() -> dict[str, list[str]]:
    return read_json(approvals_file(), dict[str, list[str]], "correct the file or delete it") or {}
