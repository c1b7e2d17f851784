"""Glob patterns whose cost is bounded: models write them, and `re` could take hours.

Each symbol of a pattern maps the offsets at which a match of the symbols before it may end to those at which its own may
end. So the cost is at most the length of the pattern times that of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

_MAX_LENGTH = 300
_Test = Callable[[str], bool]


class Glob:
    """A glob: `*` matches any characters but a slash, `**` any at all, `?` one character, `[a-z]` and `[!a-z]` one of a set.

    `**/` also matches nothing. With `crosses_slash`, `*`, `?` and sets match slashes too, as in `fnmatch`. Raise
    `ValueError` for a pattern that is too long or has a reversed range.
    """

    def __init__(self, pattern: str, *, crosses_slash: bool = False) -> None:
        if len(pattern) > _MAX_LENGTH:
            raise ValueError(f"pattern {pattern[:80]!r} is too long: use at most {_MAX_LENGTH} characters")
        self._symbols: list[str | _Test] = []  # `*`, `**`, `**/`, and the tests for one character
        for symbol in _symbols(pattern, directories=not crosses_slash):
            if symbol.startswith("*"):
                self._symbols.append("**" if crosses_slash else symbol)
            elif symbol == "?":
                self._symbols.append(lambda character: crosses_slash or character != "/")
            elif len(symbol) > 1:
                self._symbols.append(_set_test(symbol[1:-1], crosses_slash=crosses_slash))
            else:
                self._symbols.append(symbol.__eq__)

    def matches(self, text: str, *, or_parent: bool = False) -> bool:
        """Return True if the whole text matches, or with `or_parent` a directory above this path."""
        ends = {0}
        for symbol in self._symbols:
            ends = self._advance(symbol, ends, text)
            if not ends:
                return False
        return len(text) in ends or (or_parent and any(text[end] == "/" for end in ends))

    def _advance(self, symbol: str | _Test, ends: set[int], text: str) -> set[int]:
        """Return the offsets at which a match may end after one more symbol."""
        if not isinstance(symbol, str):
            return {end + 1 for end in ends if end < len(text) and symbol(text[end])}
        following = range(min(ends), len(text))
        if symbol == "**":
            return {*following, len(text)}
        if symbol == "**/":
            return ends | {offset + 1 for offset in following if text[offset] == "/"}
        for offset in following:
            if offset in ends and text[offset] != "/":
                ends.add(offset + 1)
        return ends


def _symbols(pattern: str, *, directories: bool) -> Iterator[str]:
    """Split a pattern; with `directories`, `**/` is one symbol."""
    at = 0
    while at < len(pattern):
        length = 1
        if pattern.startswith("**", at):
            length = 3 if directories and pattern.startswith("**/", at) else 2
        elif pattern[at] == "[":
            first = at + 1 + (pattern[at + 1 : at + 2] in ("!", "^"))
            end = pattern.find("]", first + 1)  # a bracket in first position belongs to the set
            length = end + 1 - at if end > 0 else 1
        yield pattern[at : at + length]
        at += length


def _set_test(members: str, *, crosses_slash: bool) -> _Test:
    negated = members[0] in "!^"
    members = members[negated:]
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(members):
        is_range = members[at + 1 : at + 2] == "-" and at + 2 < len(members)
        low, high = members[at], members[at + 2] if is_range else members[at]
        if low > high:
            raise ValueError(f"pattern has the reversed range {low}-{high}: write {high}-{low}")
        ranges.append((low, high))
        at += 3 if is_range else 1

    def test(character: str) -> bool:
        is_member = any(low <= character <= high for low, high in ranges)
        return is_member is not negated and (crosses_slash or character != "/")

    return test


def path_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches paths, or names if the glob has no slash. Raise `ValueError` as `Glob` does."""
    pattern = pattern.removeprefix("./")
    if "/" in pattern:
        return Glob(pattern).matches
    if "**" in pattern:
        return Glob(f"**/{pattern}").matches
    name = Glob(pattern)
    return lambda path: name.matches(path.rpartition("/")[2])
