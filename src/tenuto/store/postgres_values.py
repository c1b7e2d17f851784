"""How values and statements look to Postgres: what it does not take as it is, and the words of a text that it looks for."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence

from tenuto.errors import StoreError
from tenuto.store.driver import Arg
from tenuto.store.texts import words_in

__all__ = ["ESCAPE", "UNTAKEN", "numbered", "query_of", "readable", "vector_of", "written"]

ESCAPE = "\x1a"
"""Begins what stands for a sign that Postgres does not take; the sign itself is written so, too."""
UNTAKEN = re.compile("[\0\x1a\ud800-\udfff]")
"""What has to be escaped: NUL, the escape, and halves of characters."""
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")
_WORD = 500  # characters; Postgres takes 2046 bytes
_WORDS = 900_000  # bytes of words in one text; Postgres takes 1 MB
_PLACES, _PLACE = 255, 16_383  # as many and as far as Postgres keeps them


@functools.lru_cache(maxsize=512)
def numbered(sql: str) -> bytes:
    """Number the arguments as Postgres does: `$1` for the first `?` that is not inside quotes."""
    numbers = itertools.count(1)
    return re.sub(r"""'[^']*'|"[^"]*"|\?""", lambda it: f"${next(numbers)}" if it[0] == "?" else it[0], sql).encode()


def written(args: Sequence[Arg]) -> list[Arg]:
    """Return arguments that Postgres takes; different ones stay different."""
    return [_escaped(arg) if isinstance(arg, str) else _within(arg) if isinstance(arg, int) else arg for arg in args]


def readable(text: str | None) -> str | None:
    """Return a text as it was before it was written."""
    return text and _ESCAPED.sub(lambda sign: chr(int(sign[1], 16)), text)


def query_of(words: list[str]) -> str:
    """Write that all of these words are wanted."""
    return " & ".join(f"'{word[:_WORD]}'" for word in dict.fromkeys(words))


def vector_of(text: str) -> str:
    """Write the words of a text with their places. What does not fit is not found."""
    places: dict[str, list[int]] = {}
    left = _WORDS
    for place, whole in enumerate(words_in(text), 1):
        word = whole[:_WORD]
        left -= 2 if word in places else len(word.encode()) + 8
        if left < 0:
            break
        if len(places.setdefault(word, [])) < _PLACES:
            places[word].append(min(place, _PLACE))
    return " ".join(f"'{word}':{','.join(map(str, at))}" for word, at in places.items())


def _escaped(text: str) -> str:
    return UNTAKEN.sub(lambda sign: f"{ESCAPE}{ord(sign[0]):04x}", text)


def _within(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        raise StoreError("a number is too large to be kept beside an entry")
    return number
