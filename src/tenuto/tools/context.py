"""What a tool may know of the call it answers, and say while it works."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tenuto.core.messages import ToolCallView

__all__ = ["ToolContext"]

log = logging.getLogger("tenuto")


class ToolContext:
    """The call that a tool answers: annotate a parameter with this class, and it is filled in.

    `key` is the same for every attempt at this call, and different for every other call: a tool whose `effect` is
    `keyed` passes it on to whatever does the work, which then does it once. `attempt` counts from 1. `session` is
    empty where there is none. Made by hand, without a key, the call's id stands for it.
    """

    def __init__(
        self,
        call: ToolCallView,
        *,
        key: str = "",
        attempt: int = 1,
        session: str = "",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.call = call
        self.key = key or call.id
        self.attempt = attempt
        self.session = session
        self._hear = progress
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits any more: a tool that runs in a thread may look now and then, and leave off."""
        return self._cancelled

    def progress(self, text: str) -> None:
        """Say how far the work is. From any thread; whoever listens is called in that thread, and at once.

        What is said when nobody waits any more, or when the call has its result, goes nowhere. A listener that raises
        does not disturb the work: that is logged.
        """
        hear = self._hear
        if hear is None:
            return
        try:
            hear(text)
        except Exception:
            log.debug("nobody could be told of the progress of %s", self.call.name, exc_info=True)

    def cancel(self) -> None:
        """Tell the tool that nobody waits any more."""
        self._cancelled = True
        self.close()

    def close(self) -> None:
        """Stop listening: the call has its result."""
        self._hear = None

    def __repr__(self) -> str:
        return f"ToolContext(call={self.call.id!r}, key={self.key!r}, attempt={self.attempt})"
