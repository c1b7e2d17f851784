"""What a client does when a request cannot carry everything that was asked for."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tenuto.client.options import OnLoss
from tenuto.core.loss import Loss
from tenuto.core.provider import Target
from tenuto.errors import LossError

__all__ = ["LossReporter"]

log = logging.getLogger("tenuto")
_SHOWN = 5
_LONGEST = 100
_REMEMBERED = 1000


class LossReporter:
    """Reports the losses of requests: as one WARNING per request, as an error, or not at all."""

    def __init__(self, on_loss: OnLoss) -> None:
        self._on_loss = on_loss
        self._known: set[tuple[str, Loss]] = set()

    def report(self, target: Target, losses: Sequence[Loss], *, once: bool = False) -> None:
        """Report what a request to a target loses. Raise `LossError` with `on_loss="raise"`.

        With `once`, losses that were reported before are not reported again: an agent sends its conversation with
        every turn.
        """
        if not losses or self._on_loss == "keep":
            return
        model = f"{target.provider.name}/{target.model}"
        if self._on_loss == "raise":
            raise LossError(model, tuple(losses))
        new = [loss for loss in losses if not once or (model, loss) not in self._known]
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known.update((model, loss) for loss in losses)
        if new:
            more = f"; and {len(new) - _SHOWN} more" if len(new) > _SHOWN else ""
            log.warning("%s cannot take all of the request: %s%s", model, "; ".join(map(_line, new[:_SHOWN])), more)


def _line(loss: Loss) -> str:
    what = loss.detail if len(loss.detail) <= _LONGEST else f"{loss.detail[:_LONGEST]}..."
    return f"{loss.location}: {what} ({loss.kind})"
