"""Ids and names of sessions: creating and checking them, and reading what a user typed.

A new id has 26 letters and digits. It starts with the time, so that ids sort by age, and ends with 80 random bits.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Sequence

from tenuto.errors import InvalidSessionId, SessionNotFound

ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
"""The form of a session id."""
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u, which are misread or spell words
_TIME_BITS, _RANDOM_BITS = 48, 80
_LONGEST = 200
_SHOWN = 5
_LAST = "last"


def new_id(now: int) -> str:
    """Return a new id; `now` is milliseconds since 1970, of which the last 48 bits are used."""
    number = (max(now, 0) % 2**_TIME_BITS) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    return "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def check_id(id: str) -> str:
    """Return the id; raise `InvalidSessionId` for an invalid one. `last` is a keyword of `find`."""
    if id == _LAST:
        raise InvalidSessionId("'last' is not a session id: it means the session that was used last")
    if re.fullmatch(ID, id) is None:
        raise InvalidSessionId(
            f"{id[:80]!r} is not a session id: use letters, digits, '-' and '_', at most 64, the first a letter or digit"
        )
    return id


def check_name(name: str) -> str:
    """Return the name; raise `ValueError` for an invalid one, or for one that `find` reads as a keyword."""
    if is_keyword(name):
        raise ValueError(f"{name[:80]!r} is not a name: it means a session by its position; choose another name")
    odd = any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name)
    if odd or len(name) > _LONGEST or name != name.strip():
        raise ValueError(
            f"{name[:80]!r} is not a name: use one line of at most {_LONGEST} characters, without control characters and "
            "without spaces at its ends"
        )
    return name


def check_entry_id(id: str, what: str = "entry id") -> str:
    """Return the id of an entry or an owner; raise `ValueError` unless it has 1 to 200 printable characters."""
    if not 0 < len(id) <= _LONGEST or not id.isprintable():
        raise ValueError(f"{id[:80]!r} is not an {what}: use 1 to {_LONGEST} characters without control characters")
    return id


def clean(text: str) -> str:
    """Return text that every database accepts: NUL and unpaired surrogates are replaced."""
    return re.sub("[\0\ud800-\udfff]", "\ufffd", text)


def is_keyword(text: str) -> bool:
    """Return whether `find` reads this text as a position in the list: `last`, `~1`."""
    return text == _LAST or re.fullmatch(r"~[0-9]+", text) is not None


def places_back(text: str) -> int | None:
    """Read `last` (0) and `~N`: how many sessions before the last one to skip; None for any other text."""
    if text == _LAST:
        return 0
    back = re.fullmatch(r"~([0-9]{1,9})", text)
    return int(back[1]) if back else None


def only_match(text: str, matches: Sequence[str]) -> str:
    """Return the only id; raise `SessionNotFound`, which lists the ids if there are several."""
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise SessionNotFound(f"no session is called {text[:80]!r}")
    some = ", ".join(sorted(matches)[:_SHOWN]) + (", ..." if len(matches) > _SHOWN else "")
    raise SessionNotFound(f"several sessions begin with {text[:80]!r}: {some}; type more of the id")
