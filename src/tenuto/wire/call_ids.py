"""Call ids that a target takes: one map, from the transcript alone.

An id that the target gave itself goes back as it is, and so does any other that the target would take. The rest get an
id made of the message's place and the id they had. Ids are given in the order of the calls and never looked up ahead:
however the conversation goes on, its beginning keeps its ids. No two calls share one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from tenuto.core import jsonio
from tenuto.core.provider import Target

__all__ = ["CallIds"]

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SAFE = r"[a-zA-Z0-9_-]{1,64}"  # compiled when there is a call
_NINE = r"[0-9A-Za-z]{9}"
_MADE = 29
"""How long a made id is, where that is not forbidden."""


class CallIds:
    """The ids of one transcript's calls for one target. Ask for them in the order of the calls."""

    def __init__(self, target: Target) -> None:
        self._takes = _rule(target)
        self._length = _length(target)
        self._used: set[str] = set()
        self._turn = -1
        self._seen: dict[str, int] = {}

    def of(self, id: str, turn: int, *, own: bool) -> str:
        """Return the id for a call of the turn at this place; `own` tells that the target issued it."""
        if turn != self._turn:
            self._turn, self._seen = turn, {}
        before = self._seen.get(id, 0)
        self._seen[id] = before + 1
        given = id
        if not id or id in self._used or not (own or self._takes(id)):
            given = self._made("\x00".join((str(turn), id, *((str(before),) if before else ()))))
        self._used.add(given)
        return given

    def _made(self, named: str) -> str:
        while True:
            digest = hashlib.sha256(named.encode("utf-8", "surrogatepass"))
            made = f"call_{digest.hexdigest()[:24]}" if self._length >= _MADE else _spelt(digest.digest(), self._length)
            if made not in self._used:
                return made
            named += "\x00"


def _rule(target: Target) -> Callable[[str], bool]:
    """Tell which ids the target takes: by their letters, by their length, or any that can be written."""
    if target.dialect == "anthropic-messages":
        return _fitting(_SAFE)
    if target.dialect == "openai-chat" and target.provider.chat.call_id == "nine":
        return _fitting(_NINE)
    most = _longest(target)
    return lambda name: (not most or len(name) <= most) and not jsonio.lone_surrogates(name)


def _fitting(pattern: str) -> Callable[[str], bool]:
    fits = re.compile(pattern).fullmatch
    return lambda name: fits(name) is not None


def _length(target: Target) -> int:
    """Return how long a made id is at most."""
    if target.dialect == "openai-chat" and target.provider.chat.call_id == "nine":
        return 9
    return min(_MADE, _longest(target) or _MADE)


def _longest(target: Target) -> int:
    limits = {
        "openai-chat": target.provider.chat.call_id_max,
        "openai-responses": target.provider.responses.call_id_max,
    }
    return limits.get(target.dialect, 0)


def _spelt(digest: bytes, length: int) -> str:
    number = int.from_bytes(digest, "big")
    letters = []
    for _ in range(length):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)
