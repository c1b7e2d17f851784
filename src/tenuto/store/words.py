"""Words: what one is, and a piece of text around some. The same for every store."""

from __future__ import annotations

import re

__all__ = ["snippet_of", "tokenize"]

_AROUND = 60


def tokenize(text: str) -> list[str]:
    """Return the words of a text, without regard to capitals."""
    return re.findall(r"\w+", text.casefold())


def snippet_of(text: str, words: list[str]) -> str:
    """Return a piece of the text, in one line, around the first of the words."""
    found = re.search("|".join(rf"\b{re.escape(word)}\b" for word in words), text, re.IGNORECASE) if words else None
    start = max((found.start() if found else 0) - _AROUND, 0)
    return " ".join(text[start : start + 2 * _AROUND].split())
