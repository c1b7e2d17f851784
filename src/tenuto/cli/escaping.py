"""What a model or a tool wrote, made fit for a terminal: control characters are shown there, never obeyed.

A text could otherwise move the cursor, repaint what stands above, set the clipboard, or write one thing and show another.
"""

from __future__ import annotations

import unicodedata

__all__ = ["json_shown", "one_line", "shown"]

_JOINERS = "\u200c\u200d"
"""Invisible, and parts of words and emoji: they stay."""
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters, bidirectional overrides and other invisible signs, halves of characters, odd ends of lines."""


class _Escapes(dict[int, str]):
    """For `str.translate`: looks each sign up once."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        hidden = sign not in f"\n\t{_JOINERS}" and unicodedata.category(sign) in _HIDDEN
        self[code] = _escape(code) if hidden else sign
        return self[code]


def _escape(code: int) -> str:
    if code == ord("\r"):
        return "\\r"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_ESCAPES = _Escapes()


def shown(text: str) -> str:
    """Return the text with every sign that a terminal might obey spelt out, as in a string of Python's, or invisible.

    Ends of lines and tabs stay.
    """
    return text.replace("\r\n", "\n").translate(_ESCAPES)


def one_line(text: str, most: int) -> str:
    """Return the text in one line of at most `most` characters, cut at its end; what is left of it can be shown."""
    line = shown(" ".join(text[: 4 * most + 100].split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def json_shown(document: str) -> str:
    """Return a JSON document that says the same with nothing in it that a terminal might obey."""
    return "".join(_json_escape(sign) for sign in document) if shown(document) != document else document


def _json_escape(sign: str) -> str:
    if shown(sign) == sign:
        return sign
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
