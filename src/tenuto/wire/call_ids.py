"""Map call ids to ids that a target accepts.

Ids that the target issued or accepts do not change. Any other id is replaced by a digest of the index of its message
and the old id. Ids are assigned in the order of the calls, so that the ids of earlier messages never change when the
conversation continues. No two calls share an id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from tenuto.core import jsonio
from tenuto.core.provider import Target
from tenuto.wire.codec import CallIdRule
from tenuto.wire.registry import codec_for

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTH = 29
"""The length of a generated id, if the target accepts it."""


class CallIds:
    """The ids of one transcript's calls for one target. Ask for them in the order of the calls."""

    def __init__(self, target: Target) -> None:
        rule = codec_for(target.dialect).call_ids(target)
        self._takes = _accepted_by(rule)
        self._length = min(_LENGTH, rule.max_length or _LENGTH)
        self._used: set[str] = set()
        self._turn = -1
        self._seen: dict[str, int] = {}

    def of(self, id: str, turn: int, *, own: bool) -> str:
        """Return the id for a call of the turn at this index. `own`: the target issued it."""
        if turn != self._turn:
            self._turn, self._seen = turn, {}
        before = self._seen.get(id, 0)
        self._seen[id] = before + 1
        result = id
        if not id or id in self._used or not (own or self._takes(id)):
            result = self._generate("\x00".join((str(turn), id, *((str(before),) if before else ()))))
        self._used.add(result)
        return result

    def _generate(self, key: str) -> str:
        while True:
            digest = hashlib.sha256(key.encode("utf-8", "surrogatepass"))
            new_id = (
                f"call_{digest.hexdigest()[:24]}"
                if self._length >= _LENGTH
                else _encode_base62(digest.digest(), self._length)
            )
            if new_id not in self._used:
                return new_id
            key += "\x00"


def _accepted_by(rule: CallIdRule) -> Callable[[str], bool]:
    if rule.pattern:
        fits = re.compile(rule.pattern).fullmatch
        return lambda id: fits(id) is not None
    return lambda id: (not rule.max_length or len(id) <= rule.max_length) and not jsonio.lone_surrogates(id)


def _encode_base62(digest: bytes, length: int) -> str:
    number = int.from_bytes(digest, "big")
    letters = []
    for _ in range(length):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)
