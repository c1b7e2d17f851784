"""The names of sessions: making ids, telling what is one, and reading what somebody typed to mean one.

An id made here is 26 letters and digits. It begins with the time, so that ids sort by age, and ends in 80 bits of chance.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Sequence

from tenuto.errors import InvalidSessionId, SessionNotFound
from tenuto.store.protocol import ID

__all__ = ["check_entry_id", "check_id", "check_name", "is_keyword", "new_id", "only_match", "places_back"]

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u: they are misread, or spell words
_TIME = 48  # bits: enough until the year 10889
_CHANCE = 80
_SHOWN = 5
_LAST = "last"
_LONGEST = 200


def new_id(now: int) -> str:
    """Make an id; `now` is milliseconds since 1970. Any clock will do: what it says beyond its range is cut off."""
    number = (max(now, 0) % 2**_TIME) << _CHANCE | secrets.randbits(_CHANCE)
    return "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def check_id(id: str) -> str:
    """Return the id; raise `InvalidSessionId` for an invalid one. `last` is a keyword of `find`."""
    if id == _LAST:
        raise InvalidSessionId("'last' is not a session id: it means the session that was used last")
    if re.fullmatch(ID, id) is None:
        raise InvalidSessionId(
            f"{id[:80]!r} is no session id: letters, digits, '-' and '_', at most 64, the first a letter or digit"
        )
    return id


def check_name(name: str) -> str:
    """Return the name; raise `ValueError` for an invalid one, or for one that `find` reads as a keyword."""
    if is_keyword(name):
        raise ValueError(f"{name[:80]!r} is no name: it means a session by its position; choose another name")
    odd = next((sign for sign in name if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp")), None)
    if odd is not None or len(name) > 200 or name != name.strip():
        raise ValueError(
            f"{name[:80]!r} is no name: one line of at most 200 characters, with no space around and no control characters"
        )
    return name


def check_entry_id(id: str) -> str:
    """Return the id of an entry; raise `ValueError` unless it has 1 to 200 characters that can be shown."""
    if not 0 < len(id) <= _LONGEST or not id.isprintable():
        raise ValueError(f"{id[:80]!r} is no entry id: 1 to {_LONGEST} characters without control characters")
    return id


def is_keyword(text: str) -> bool:
    """Return whether `find` reads this text as a position in the list: `last`, `~1`."""
    return text == _LAST or re.fullmatch(r"~[0-9]+", text) is not None


def places_back(text: str) -> int | None:
    """Read `last` (0) and `~N`: how many sessions before the last one are passed over; None for any other text."""
    if text == _LAST:
        return 0
    back = re.fullmatch(r"~([0-9]{1,9})", text)
    return int(back[1]) if back else None


def only_match(text: str, fitting: Sequence[str]) -> str:
    """Return the only one of the ids that fit the text; raise `SessionNotFound`, which shows them if there are several."""
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise SessionNotFound(f"no session is called {text[:80]!r}")
    some = ", ".join(sorted(fitting)[:_SHOWN]) + (", ..." if len(fitting) > _SHOWN else "")
    raise SessionNotFound(f"several sessions begin with {text[:80]!r}: {some}; type more of the one you mean")
