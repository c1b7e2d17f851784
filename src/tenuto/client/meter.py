"""What one call used, as far as its events and its error tell: for whoever keeps an account of it."""

from __future__ import annotations

import msgspec

from tenuto.core.events import MessageDone, MessageStart, StreamEvent, UsageUpdate
from tenuto.core.messages import Origin, Usage
from tenuto.core.response import ChatResponse
from tenuto.errors import LLMError

__all__ = ["Meter", "Used"]


class Used(msgspec.Struct, frozen=True):
    """What an attempt used; `usage` is None if nobody said, `origin` if it did not get far enough to tell.

    `whole` replies have told all they will; of others, it is what was known when they broke off.
    """

    usage: Usage | None
    origin: Origin | None = None
    whole: bool = False


class Meter:
    """Follows one call. An attempt that was broken off, and the reply that follows it, count each for itself."""

    def __init__(self) -> None:
        self._settled: list[Used] = []
        self._told: Usage | None = None
        self._begun = False

    def hear(self, event: StreamEvent) -> None:
        """Take note of an event."""
        if isinstance(event, UsageUpdate):
            self._told = event.usage
        elif isinstance(event, MessageStart):
            if self._begun:
                self._break_off()
            self._begun = True
        elif isinstance(event, MessageDone):
            self._told = None
            self._settled.append(_used(event.response, whole=True))

    def broke(self, error: LLMError) -> None:
        """Take note of how the call ended."""
        if error.partial is not None and error.partial.usage is not None:
            self._told = None
            self._settled.append(_used(error.partial, whole=False))

    def take(self) -> list[Used]:
        """Hand out what was not handed out before."""
        self._break_off()
        taken, self._settled = self._settled, []
        return taken

    def _break_off(self) -> None:
        if self._told is not None:
            self._settled.append(Used(self._told))
            self._told = None


def _used(response: ChatResponse, *, whole: bool) -> Used:
    return Used(response.usage, response.message.origin, whole)
