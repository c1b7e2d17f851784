"""Texts that match a pattern: a small reader of regular expressions that writes instead of matching.

It knows characters, classes, groups, choices and repetitions. Of what it does not know (looking ahead and behind, back
references) it takes no notice: whoever asks has to look whether the text does match.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import msgspec

__all__ = ["examples", "matches"]

_PRINTABLE = "".join(sorted(string.ascii_letters + string.digits + " " + string.punctuation, key=ord))
_CLASSES = {
    "d": string.digits,
    "w": string.ascii_lowercase + string.digits + "_" + string.ascii_uppercase,
    "s": " ",
    "p": string.ascii_letters,
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_MANY = 64
_NESTED = (18, 5)  # so long may a text be where the time to match doubles with each character, or does worse
_ROOM = (20_000, 20_000, 2000, 400, 400, 100)  # and so long by how many repetitions there are, side by side
_DEPTH = 30


class _Chars(msgspec.Struct, frozen=True):
    allowed: str
    """What is written."""
    meant: str = ""
    """What is matched, if that is more."""


class _Repeated(msgspec.Struct, frozen=True):
    of: _Node
    least: int
    most: int


class _Row(msgspec.Struct, frozen=True):
    of: tuple[_Node, ...]


class _Choice(msgspec.Struct, frozen=True):
    of: tuple[_Node, ...]


_Node: TypeAlias = _Chars | _Repeated | _Row | _Choice


class _Unknown(ValueError):
    pass


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def matches(pattern: str, text: str) -> bool:
    """Say whether the pattern is found in the text. A pattern that cannot be read matches everything; a text that would
    take too long to try does not match.
    """
    found = _compiled(pattern)
    return found is None or (len(text) <= _longest(pattern) and bool(found.search(text)))


@lru_cache(maxsize=256)
def _longest(pattern: str) -> int:
    reader = _Reader(pattern[:2000])
    try:
        reader.whole()
    except (_Unknown, IndexError, ValueError):
        return _NESTED[0] if reader.nested < 2 else _NESTED[1]
    if reader.nested:
        return _NESTED[min(reader.nested, len(_NESTED)) - 1]
    return _ROOM[min(reader.loops, len(_ROOM) - 1)]


def _allowed(node: _Node) -> set[str]:
    match node:
        case _Chars(allowed, meant):
            return set(meant or allowed)
        case _Repeated(of=inner):
            return _allowed(inner)
        case _Row(of) | _Choice(of):
            return set().union(*map(_allowed, of))


def _blurs(node: _Node) -> bool:
    """Say whether a text can be cut into repetitions of this in more than one way, as far as can be told."""
    match node:
        case _Chars():
            return False
        case _Repeated(inner, least, most):
            return least != most or _blurs(inner)
        case _Choice(of):
            begins = [row.of[0] if isinstance(row, _Row) and row.of else row for row in of]
            clear = all(isinstance(first, _Chars) for first in begins)
            apart = sum(map(len, map(_allowed, begins))) == len(_allowed(_Choice(tuple(begins))))
            return not (clear and apart) or any(map(_blurs, of))
        case _Row(of):
            edges = [inner for inner in (of[:1] + of[-1:]) if isinstance(inner, _Chars)]
            loose = set().union(*(_allowed(inner) for inner in of if not isinstance(inner, _Chars)))
            return any(map(_blurs, of)) and not any(loose.isdisjoint(_allowed(edge)) for edge in edges)


def examples(
    pattern: str, least: int = 0, most: int | None = None, chance: random.Random | None = None
) -> Iterator[str]:
    """Yield texts that should match the pattern and have a length in these bounds, the shortest first."""
    chance = chance or random.Random(pattern)
    try:
        node = _Reader(pattern).whole()
    except (_Unknown, IndexError, ValueError):
        return
    limit = least + 4 * _MANY if most is None else min(most, least + 4 * _MANY)
    for extra in (0, 1, 2, 3, 5, 8, 12, least, limit // 2, limit):
        for _ in range(4):
            text = "".join(_written(node, extra, chance, limit + 1))
            if len(text) < least and not pattern.endswith("$"):
                text += "x" * (least - len(text))
            if len(text) < least and not pattern.startswith("^"):
                text = "x" * (least - len(text)) + text
            if least <= len(text) <= limit and matches(pattern, text):
                yield text


def _written(node: _Node, extra: int, chance: random.Random, room: int) -> Iterator[str]:
    """Write a text, each repetition with so many more than it needs, and stop when there is no room any more."""
    left = room
    todo: list[_Node] = [node]
    while todo and left > 0:
        match todo.pop():
            case _Chars(allowed=allowed):
                left -= 1
                yield chance.choice(allowed) if allowed else ""
            case _Row(of):
                todo.extend(reversed(of))
            case _Choice(of):
                todo.append(chance.choice(of))
            case _Repeated(of, least, most):
                count = min(least + extra, most, left)
                todo.extend([of] * count)


class _Reader:
    def __init__(self, pattern: str) -> None:
        if len(pattern) > 2000:
            raise _Unknown
        self._text = pattern
        self._at = 0
        self._depth = 0
        self.loops = 0
        self.nested = 0

    def whole(self) -> _Node:
        node = self._choice()
        if self._at < len(self._text):
            raise _Unknown
        return node

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _sees(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _choice(self) -> _Node:
        self._depth += 1
        if self._depth > _DEPTH:
            raise _Unknown
        rows = [self._row()]
        while self._sees("|"):
            rows.append(self._row())
        self._depth -= 1
        return rows[0] if len(rows) == 1 else _Choice(tuple(rows))

    def _row(self) -> _Node:
        found: list[_Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            found.append(self._repeated(self._atom()))
        return _Row(tuple(found))

    def _atom(self) -> _Node:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escaped(self._next())
        if char in "^$":
            return _Row(())
        return _Chars(_CLASSES["w"], _PRINTABLE) if char == "." else _Chars(char)

    def _group(self) -> _Node:
        silent = False
        if self._sees("?"):
            kind = re.compile(r":|P?<[A-Za-z]\w*>|[=!]|<[=!]|[a-zA-Z]+:|[a-zA-Z]+(?=\))").match(self._text, self._at)
            if not kind:
                raise _Unknown
            self._at = kind.end()
            silent = kind[0] in ("=", "!", "<=", "<!")
        node = self._choice()
        if not self._sees(")"):
            raise _Unknown
        return _Row(()) if silent else node

    def _escaped(self, char: str) -> _Node:
        if char in "bBAZzG":
            return _Row(())
        if char in "123456789":
            raise _Unknown
        return _Chars(self._set(char))

    def _set(self, char: str) -> str:
        if char in "pP":
            self._at = self._text.index("}", self._at) + 1 if self._sees("{") else self._at + 1
            return _CLASSES["p"]
        if char in _CLASSES:
            return _CLASSES[char]
        if char.lower() in _CLASSES:
            return "".join(other for other in _PRINTABLE if other not in _CLASSES[char.lower()])
        if char in "xu":
            digits = 2 if char == "x" else 4
            self._at += digits
            return chr(int(self._text[self._at - digits : self._at], 16))
        return _CONTROLS.get(char, char)

    def _class(self) -> _Node:
        negated = self._sees("^")
        allowed = ""
        first = True
        while first or not self._sees("]"):
            first = False
            some = self._member()
            ahead = self._text[self._at : self._at + 2]
            if len(some) == 1 and ahead[:1] == "-" and ahead[1:] != "]":
                self._at += 1
                last = self._member()
                some = "".join(map(chr, range(ord(some), min(ord(last[-1]), ord(some) + 300) + 1)))
            allowed += some
        if negated:
            allowed = "".join(char for char in _PRINTABLE if char not in allowed)
        plain = "".join(char for char in allowed if char.isalnum()) or allowed
        return _Chars(plain, allowed)

    def _member(self) -> str:
        char = self._next()
        return self._set(self._next()) if char == "\\" else char

    def _repeated(self, node: _Node) -> _Node:
        while True:
            if self._sees("*"):
                node = _Repeated(node, 0, _MANY)
            elif self._sees("+"):
                node = _Repeated(node, 1, _MANY)
            elif self._sees("?"):
                node = _Repeated(node, 0, 1)
            elif found := re.compile(r"\{(\d*)(,?)(\d*)\}").match(self._text, self._at):
                self._at = found.end()
                least = int(found[1] or 0)
                most = int(found[3]) if found[3] else (least + _MANY if found[2] else least)
                node = _Repeated(node, min(least, 10_000), min(most, 10_000))
            else:
                return node
            self.loops += node.most > node.least + 1
            self.nested += node.most > 1 and _blurs(node.of)
            if self._sees("?") or self._sees("+"):  # lazy or possessive: the same texts
                continue
