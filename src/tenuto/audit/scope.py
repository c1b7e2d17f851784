"""Whether a reply's tokens were given by whom a request goes to."""

from __future__ import annotations

from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.target import Target

__all__ = ["elsewhere"]


def elsewhere(message: AssistantMessage, target: Target) -> bool:
    """Tell whether another issuer gave this reply: another row, dialect, host or account, or another part in a play.

    What is not known of either counts as the same. Which models of one issuer read each other's tokens is a matter of
    the dialect, and not asked here.
    """
    origin = message.origin
    if origin is None:
        return False
    if (origin.provider, origin.dialect) != (target.provider.name, target.dialect):
        return True
    known = (
        (origin.account, target.account),
        (origin.platform, target.platform),
        (_part(origin, target), _own(target)),
    )
    return any(left and right and left != right for left, right in known)


def _part(origin: Origin, target: Target) -> str:
    """Return whose part a simulator played when it gave the reply."""
    return origin.model.partition("/")[0] if target.provider.plays else ""


def _own(target: Target) -> str:
    return target.provider.plays[0] if target.provider.plays else ""
