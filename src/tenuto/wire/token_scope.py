"""The scope of a token: to whom it may go back.

It is replayed only to who issued it, on the same platform, for the same account and family of models.
"""

from __future__ import annotations

import re

from tenuto.core.messages import Origin
from tenuto.core.provider import Target

__all__ = ["IssuerCheck", "issued_by", "same_issuer"]

# Compiled when two names of models differ
_DATED = r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|\d{3,4}|latest|preview(?:-\d{2}-\d{2,4})?)$"


class IssuerCheck(dict[Origin, bool]):
    """Whether the target issued what has an origin. Each is looked at once: the turns of a conversation share theirs."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __missing__(self, origin: Origin) -> bool:
        self[origin] = issued_by(origin, self._target)
        return self[origin]


def issued_by(origin: Origin, target: Target) -> bool:
    """Tell whether these tokens are good at the target: its provider, platform, account, model family and dialect.

    What is not known on one side is not held against it.
    """
    if not same_issuer(origin, target):
        return False
    return not origin.model or not target.model or _same_model(origin.model, target)


def same_issuer(origin: Origin, target: Target) -> bool:
    """Tell the same of all but the model: which of them read each other's tokens is a question of its own."""
    if origin.provider != target.provider.name or origin.dialect != target.dialect:
        return False
    played = target.model.partition("/")[0] if target.provider.plays else ""  # a simulator is whom it plays
    scopes = (
        (origin.account, target.account),
        (origin.platform, target.platform),
        (origin.model.partition("/")[0] if played else "", played),
    )
    return not any(one and other and one != other for one, other in scopes)


def _same_model(model: str, target: Target) -> bool:
    if model == target.model or _undated(model) == _undated(target.model):
        return True
    pattern = target.traits.pattern
    return bool(pattern) and re.fullmatch(pattern, model.rpartition("/")[2]) is not None


def _undated(model: str) -> str:
    return re.sub(_DATED, "", model.removeprefix("models/"))
