"""Glob patterns that are matched in linear time: models write them, and `re` could take hours.

A pattern is compiled to a nondeterministic automaton. Its set of active states is one integer, and each character of the
text takes one step, whatever the pattern.
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
        self._tests: list[_Test] = []
        self._loops_any = 0
        self._loops_name = 0
        self._optional = 0
        self._masks: dict[str, tuple[int, int]] = {}
        for symbol in _symbols(pattern, directories=not crosses_slash):
            self._add(symbol, crosses_slash=crosses_slash)
        self._accepting = 1 << len(self._tests)

    def matches(self, text: str, *, or_parent: bool = False) -> bool:
        """Return True if the whole text matches, or with `or_parent` a directory above this path."""
        states = self._closed(1)
        for character in text:
            if or_parent and character == "/" and states & self._accepting:
                return True
            states = self._step(states, character)
            if not states:
                return False
        return bool(states & self._accepting)

    def _add(self, symbol: str, *, crosses_slash: bool) -> None:
        """Add the states of one symbol. State n is active when the first n tests have matched."""
        state = 1 << len(self._tests)
        if symbol == "**/":
            if self._optional & (state >> 2):
                return  # `**/**/` means the same as `**/`
            self._optional |= state
            self._loops_any |= state << 1
            self._tests += [lambda _: False, "/".__eq__]
        elif symbol == "**" or (symbol == "*" and crosses_slash):
            self._loops_any |= state
        elif symbol == "*":
            self._loops_name |= state
        elif symbol == "?":
            self._tests.append(lambda character: crosses_slash or character != "/")
        elif len(symbol) > 1:
            self._tests.append(_set_test(symbol[1:-1], crosses_slash=crosses_slash))
        else:
            self._tests.append(symbol.__eq__)

    def _closed(self, states: int) -> int:
        """Add the states that `**/` reaches without a character: into its directories, and past it."""
        optional = states & self._optional
        return states | optional << 1 | optional << 2

    def _step(self, states: int, character: str) -> int:
        if character not in self._masks:  # the states that this character advances, and those that stay active
            advance = sum(1 << state for state, test in enumerate(self._tests) if test(character))
            self._masks[character] = advance, self._loops_any | (0 if character == "/" else self._loops_name)
        advance, stay = self._masks[character]
        return self._closed((states & advance) << 1 | states & stay)


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
    """Return a function that matches paths with a glob; a glob without a slash is matched with the file name.

    Raise `ValueError` for a pattern that `Glob` does not accept.
    """
    pattern = pattern.removeprefix("./")
    if "/" in pattern:
        return Glob(pattern).matches
    if "**" in pattern:
        return Glob(f"**/{pattern}").matches
    name = Glob(pattern)
    return lambda path: name.matches(path.rpartition("/")[2])
