"""Read JSON for the runner with `json`, and keep the text of every number.

Nothing here imports the package under test. `load` returns values whose numbers are `Number`s, equal only if their text is
equal; `plain` turns them into Python numbers where only the value counts; `members` and `elements` split a text
without changing a character of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

__all__ = [
    "ABSENT",
    "Number",
    "canonical_sha1",
    "elements",
    "load",
    "members",
    "plain",
    "pruned",
    "same_json",
    "text_at",
]

_SPACE = re.compile(r"[ \t\n\r]*")


class _Absent:
    """The value of a missing field."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT: Any = _Absent()


class Number(str):
    """A number with its text: `1.10` is not `1.1`, and `"1"` is not a number."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("Number", str(self)))

    def __repr__(self) -> str:
        return str(self)


_reader = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=Number)


def load(data: bytes | str) -> Any:
    """Read a document; numbers keep their spelling. Raise `ValueError` if it is not JSON."""
    text = data.decode("utf-8-sig", "surrogatepass") if isinstance(data, bytes) else data
    return _reader.decode(text)


def plain(value: Any) -> Any:
    """Return the same value with Python's own numbers."""
    if isinstance(value, Number):
        return json.loads(str(value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def pruned(value: Any) -> Any:
    """Return the same value without the object fields that are null: null equals absent where the oracle is compared."""
    if isinstance(value, dict):
        return {key: pruned(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [pruned(item) for item in value]
    return value


def canonical_sha1(value: Any) -> str:
    """Hash a plain value as the oracle does: sorted keys, compact, non-ASCII unescaped."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def same_json(left: str, right: str) -> bool:
    """Return whether two texts have equal values; texts that are not JSON must be identical."""
    if left == right:
        return True
    try:
        return bool(plain(load(left or "{}")) == plain(load(right or "{}")))
    except ValueError:
        return False


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def members(text: str) -> dict[str, str]:
    """Split an object's text into the exact texts of its values; {} if it is not an object."""
    found: dict[str, str] = {}
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        return found
    at = _skip(text, at + 1)
    while text[at : at + 1] == '"':
        key, at = _reader.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        at = _reader.raw_decode(text, start)[1]
        found[key] = text[start:at]
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at : at + 1] == "," else at
    return found


def elements(text: str) -> list[str]:
    """Split an array's text into the exact texts of its elements; [] if it is not an array."""
    found: list[str] = []
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        return found
    at = _skip(text, at + 1)
    while text[at : at + 1] not in ("]", ""):
        end = _reader.raw_decode(text, at)[1]
        found.append(text[at:end])
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at : at + 1] == "," else at
    return found


def text_at(text: str, *path: str) -> str:
    """Return the exact text of the value at a path of keys; empty if there is none."""
    for key in path:
        text = members(text).get(key, "")
        if not text:
            return ""
    return text
