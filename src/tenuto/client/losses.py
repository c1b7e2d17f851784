"""Report what a request to a target cannot carry."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tenuto.client.options import OnLoss
from tenuto.core.loss import Loss
from tenuto.core.provider import Target
from tenuto.errors import LossError

log = logging.getLogger("tenuto")
_MAX_LOSSES = 5
"""The number of losses in a message."""
_MAX_DETAIL = 100
"""The number of characters of one loss in a message."""
_MAX_REMEMBERED = 1000


class LossReporter:
    """Reports the losses of requests: as one WARNING per request, as an error, or not at all."""

    def __init__(self, on_loss: OnLoss) -> None:
        self._on_loss = on_loss
        self._reported: set[tuple[str, Loss]] = set()

    def report(self, target: Target, losses: Sequence[Loss], *, once: bool = False) -> None:
        """Report the losses of a request to a target. Raise `LossError` with `on_loss="raise"`.

        With `once`, losses that were reported before are not reported again: an agent sends its conversation with
        every turn.
        """
        if not losses or self._on_loss == "keep":
            return
        model = f"{target.provider.name}/{target.model}"
        if self._on_loss == "raise":
            raise LossError(model, tuple(losses))
        new = [loss for loss in losses if not once or (model, loss) not in self._reported]
        if len(self._reported) > _MAX_REMEMBERED:
            self._reported.clear()
        self._reported.update((model, loss) for loss in losses)
        if new:
            more = f"; and {len(new) - _MAX_LOSSES} more" if len(new) > _MAX_LOSSES else ""
            lines = "; ".join(map(_describe, new[:_MAX_LOSSES]))
            log.warning("%s cannot take all of the request: %s%s", model, lines, more)


def _describe(loss: Loss) -> str:
    detail = loss.detail if len(loss.detail) <= _MAX_DETAIL else f"{loss.detail[:_MAX_DETAIL]}..."
    return f"{loss.location}: {detail} ({loss.kind})"
