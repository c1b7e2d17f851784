"""Whether a reply's tokens were given by whom a request goes to."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from tenuto.audit.looking import Sent, once
from tenuto.core.messages import Origin
from tenuto.wire.token_scope import same_issuer

__all__ = ["elsewhere", "of_each"]

SCOPE = ("provider", "dialect", "model", "account", "platform")
_scope = attrgetter(*SCOPE)


@once
def elsewhere(sent: Sent) -> list[bool]:
    """Tell of each reply whether another issuer gave it: another row, dialect, host or account, or another part in a play.

    What is not known of either counts as the same. Which models of one issuer read each other's tokens is a matter of
    the dialect, and not asked here.
    """
    return of_each(sent, lambda origin: not same_issuer(origin, sent.target))


def of_each(sent: Sent, told: Callable[[Origin], bool]) -> list[bool]:
    """Tell something of the origin of each reply, which is false where it is not known.

    It is asked once of origins that differ only in what their tokens are bound to: most replies have the same.
    """
    known: dict[tuple[str, ...], bool] = {}
    found = []
    for message in sent.given:
        origin = message.origin
        if origin is None:
            found.append(False)
            continue
        key = _scope(origin)
        if key not in known:
            known[key] = told(origin)
        found.append(known[key])
    return found
