"""Whether a reply's tokens were given by whom a request goes to."""

from __future__ import annotations

from tenuto.core.messages import AssistantMessage
from tenuto.core.target import Target
from tenuto.wire.handoff import same_issuer

__all__ = ["elsewhere"]


def elsewhere(message: AssistantMessage, target: Target) -> bool:
    """Tell whether another issuer gave this reply: another row, dialect, host or account, or another part in a play.

    What is not known of either counts as the same. Which models of one issuer read each other's tokens is a matter of
    the dialect, and not asked here.
    """
    return message.origin is not None and not same_issuer(message.origin, target)
