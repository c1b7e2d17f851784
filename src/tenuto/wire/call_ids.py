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
from tenuto.wire.codec import CallIdRule
from tenuto.wire.registry import codec_for

__all__ = ["CallIds"]

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MADE = 29
"""How long a made id is, where that is not forbidden."""


class CallIds:
    """The ids of one transcript's calls for one target. Ask for them in the order of the calls."""

    def __init__(self, target: Target) -> None:
        rule = codec_for(target.dialect).call_ids(target)
        self._takes = _accepted_by(rule)
        self._length = min(_MADE, rule.max_length or _MADE)
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


def _accepted_by(rule: CallIdRule) -> Callable[[str], bool]:
    if rule.pattern:
        fits = re.compile(rule.pattern).fullmatch
        return lambda id: fits(id) is not None
    return lambda id: (not rule.max_length or len(id) <= rule.max_length) and not jsonio.lone_surrogates(id)


def _spelt(digest: bytes, length: int) -> str:
    number = int.from_bytes(digest, "big")
    letters = []
    for _ in range(length):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)
