"""Check the scope of a token.

It is sent only to its issuer, on the same platform, for the same account and model family. Some models bind it to the
messages before it, too (`wire.prefix_binding`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.provider import Target

# Compiled when two names of models differ
_DATED = r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|\d{3,4}|latest|preview(?:-\d{2}-\d{2,4})?)$"


def issuer_check(target: Target) -> Callable[[Origin], bool]:
    """Return `issued_by` for one target. Cached: the turns of a conversation share their origin."""
    return functools.cache(lambda origin: issued_by(origin, target))


def issued_by(origin: Origin, target: Target) -> bool:
    """Return whether the target accepts tokens of an origin. An unknown (empty) field matches anything."""
    if not same_issuer(origin, target):
        return False
    if not origin.model or not target.model or origin.model == target.model:
        return True
    if _undated(origin.model) == _undated(target.model):
        return True
    pattern = target.traits.pattern
    return bool(pattern) and re.fullmatch(pattern, origin.model.rpartition("/")[2]) is not None


def same_issuer(origin: Origin, target: Target) -> bool:
    """Return whether all but the model matches."""
    if origin.provider != target.provider.name or origin.dialect != target.dialect:
        return False
    # A simulator counts as the provider that it imitates.
    simulated = target.model.partition("/")[0] if target.provider.plays else ""
    issuer = (origin.account, origin.platform, origin.model.partition("/")[0])
    receiver = (target.account, target.platform, simulated)
    return not any(one and other and one != other for one, other in zip(issuer, receiver, strict=True))


def _undated(model: str) -> str:
    return re.sub(_DATED, "", model.removeprefix("models/"))


def foreign_replies(replies: Sequence[AssistantMessage], target: Target) -> tuple[bool, ...]:
    """Return for each reply whether another issuer gave it: another provider, dialect, host or account."""
    is_foreign = functools.cache(lambda origin: not same_issuer(origin, target))
    return tuple(reply.origin is not None and is_foreign(reply.origin) for reply in replies)
