"""Changes one value in the text of a TOML file, and leaves everything else as it stands: comments, order, blank lines.

The standard library reads TOML and does not write it. What is done here to the text is checked by reading it again: the
result holds exactly what was there and the change, and every comment; otherwise nothing is changed, and that is said.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Unchangeable", "changed", "key_path", "removed", "written"]

_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}=\n]"
    r"|[^\"'#\[\]{}=\n]+",
    re.DOTALL,
)
"""What a file of TOML consists of, as far as it matters where things begin and end."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}

Path = tuple[str, ...]


class Unchangeable(ValueError):
    """The text is written in a way that is not changed here."""


class _Statement(NamedTuple):
    """A line, or several: the head of a table, or a key and its value. Numbers are places in the text."""

    path: Path
    """The table, or the key with the tables that it is in."""
    table: Path
    """The table below whose head it stands."""
    is_head: bool
    start: int
    value: int
    end: int
    """Where the value ends, before what may follow on its line."""


# --- reading ----------------------------------------------------------------------------------------------------------


def key_path(key: str) -> Path:
    """Return the steps of a dotted key. Raise `ValueError` if it is none."""
    try:
        held: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        raise ValueError(key) from None
    path = []
    while isinstance(held, dict):
        if len(held) != 1:
            raise ValueError(key)
        [(name, held)] = held.items()
        path.append(name)
    return tuple(path)


def _statements(text: str) -> Iterator[_Statement]:
    """Find what a text that is valid TOML consists of."""
    at = 0
    table: Path = ()
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text[at] == "#":
            at = _line_end(text, at)
        elif text[at] == "[":
            inner = at + (2 if text.startswith("[[", at) else 1)
            close = _until("]", text, inner)
            table = key_path(text[inner:close])
            end = close + inner - at
            yield _Statement(table, table, True, at, at, end)
            at = end
        else:
            sign = _until("=", text, at)
            value = next(place for place in range(sign + 1, len(text)) if text[place] not in " \t")
            end = _value_end(text, value)
            yield _Statement((*table, *key_path(text[at:sign])), table, False, at, value, end)
            at = end


def _until(sign: str, text: str, at: int) -> int:
    """Find a sign that stands in no quotes."""
    return next(token.start() for token in _TOKEN.finditer(text, at) if token[0] == sign)


def _value_end(text: str, at: int) -> int:
    depth = 0
    for token in _TOKEN.finditer(text, at):
        if token[0] in ("[", "{"):
            depth += 1
        elif token[0] in ("]", "}"):
            depth -= 1
        elif not depth and (token[0] == "\n" or token[0].startswith("#")):
            return at + len(text[at : token.start()].rstrip())
    return at + len(text[at:].rstrip())


def _line_end(text: str, at: int) -> int:
    """Return the place behind the end of a line."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _comments(text: str) -> list[str]:
    return [token[0].rstrip() for token in _TOKEN.finditer(text) if token[0].startswith("#")]


# --- writing ----------------------------------------------------------------------------------------------------------


def written(value: object) -> str:
    """Write a value as TOML, in one line. Raise `Unchangeable` for one that is not written here."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str():
            return _text(value)
        case list():
            return f"[{', '.join(map(written, value))}]"
        case dict():
            inner = ", ".join(f"{_name(name)} = {written(held)}" for name, held in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case _:
            raise Unchangeable(type(value).__name__)


def _text(value: str) -> str:
    return '"' + "".join(_ESCAPES.get(sign) or _sign(sign) for sign in value) + '"'


def _sign(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x20 or ord(sign) == 0x7F else sign


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _dotted(path: Sequence[str]) -> str:
    return ".".join(map(_name, path))


# --- changing ---------------------------------------------------------------------------------------------------------


def changed(text: str, path: Path, value: object) -> str:
    """Return the text with a value set. Raise `Unchangeable` if that cannot be done without touching anything else."""
    wanted = copy.deepcopy(tomllib.loads(text))
    table = wanted
    for step in path[:-1]:
        table = table.setdefault(step, {})
        if not isinstance(table, dict):
            raise Unchangeable(f"{step} is no table")
    table[path[-1]] = value
    made = _set(text, path, value, wanted)
    if not _same(_read(made), wanted) or _comments(made) != _comments(text):
        raise Unchangeable(_dotted(path))
    return made


def removed(text: str, path: Path) -> str:
    """Return the text without a value, or without a table and all that is in it. Comments on its own lines go with it.

    Raise `KeyError` if it is not there, `Unchangeable` if it cannot be removed without touching anything else.
    """
    wanted = copy.deepcopy(tomllib.loads(text))
    tables = [wanted]
    for step in path[:-1]:
        tables.append(tables[-1][step])
    del tables[-1][path[-1]]
    made = _unset(text, path, wanted)
    held = _read(made)
    for table, step in zip(reversed(tables[:-1]), reversed(path[:-1]), strict=True):
        if _same(held, wanted):
            break
        if not table[step]:  # with its last value, a table goes that has no head
            del table[step]
    left = iter(_comments(text))
    if not _same(held, wanted) or not all(comment in left for comment in _comments(made)):
        raise Unchangeable(_dotted(path))
    return made


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise Unchangeable(str(exc)) from None


def _same(one: object, other: object) -> bool:
    """Tell whether two values are the same in TOML, where 1 is neither 1.0 nor true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(held, other[name]) for name, held in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other


def _set(text: str, path: Path, value: object, wanted: dict[str, Any]) -> str:
    found = list(_statements(text))
    for one in found:
        if not one.is_head and one.path == path:
            return text[: one.value] + written(value) + text[one.end :]
        if not one.is_head and one.path == path[: len(one.path)]:  # a table in one line
            return text[: one.value] + written(_at(wanted, one.path)) + text[one.end :]
    parent = path[:-1]
    inside = [one for one in found if one.table == parent]
    if inside or not parent:
        if inside:
            return _behind(text, inside[-1], _dotted(path[-1:]), value)
        return _on_top(text, found, f"{_dotted(path)} = {written(value)}")
    dotted = [
        one for one in found if not one.is_head and one.path[: len(parent)] == parent and len(one.table) < len(parent)
    ]
    if dotted:
        return _behind(text, dotted[-1], _dotted(path[len(dotted[-1].table) :]), value)
    end = _end(text)
    body = text + ("" if not text or text.endswith("\n") else end) + (end if text.strip() else "")
    return f"{body}[{_dotted(parent)}]{end}{_dotted(path[-1:])} = {written(value)}{end}"


def _behind(text: str, one: _Statement, key: str, value: object) -> str:
    """Put a line behind a statement, as far in as that is."""
    place = _line_end(text, one.end)
    before, end = text[:place], _end(text)
    margin = "" if one.is_head else text[text.rfind("\n", 0, one.start) + 1 : one.start]
    return f"{before}{'' if before.endswith(chr(10)) else end}{margin}{key} = {written(value)}{end}{text[place:]}"


def _on_top(text: str, found: Sequence[_Statement], line: str) -> str:
    """Put the first line that is in no table before the first table, and before the comment above that."""
    end = _end(text)
    if not found:
        return f"{text}{'' if not text or text.endswith(chr(10)) else end}{line}{end}"
    place = text.rfind("\n", 0, found[0].start) + 1
    while place and text[(above := text.rfind("\n", 0, place - 1) + 1) : place].lstrip().startswith("#"):
        place = above
    return f"{text[:place]}{line}{end}{end}{text[place:]}"


def _unset(text: str, path: Path, wanted: dict[str, Any]) -> str:
    cuts = []
    for one in _statements(text):
        if one.path[: len(path)] == path:
            cuts.append((text.rfind("\n", 0, one.start) + 1, _line_end(text, one.end)))
        elif not one.is_head and one.path == path[: len(one.path)]:
            return text[: one.value] + written(_at(wanted, one.path)) + text[one.end :]
    for start, stop in reversed(cuts):
        text = text[:start] + text[stop:]
    return text


def _at(document: dict[str, Any], path: Path) -> Any:
    for step in path:
        document = document[step]
    return document


def _end(text: str) -> str:
    """How this text ends its lines."""
    return "\r\n" if "\r\n" in text else "\n"
