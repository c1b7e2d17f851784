"""The properties of a session that `AsyncSession` and `Session` share."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import tenuto  # annotations load `tenuto.AsyncSession` when they are evaluated
from tenuto.agent.events import Listener
from tenuto.agent.limits import Spent
from tenuto.agent.machine import PendingCall, Phase
from tenuto.client.reply import Reply
from tenuto.core.journal import Configured, status_after
from tenuto.core.messages import AssistantMessage, Usage, display_text
from tenuto.core.transcript import Transcript


class SessionProperties:
    _async: tenuto.AsyncSession[Any, Any]

    @property
    def reply(self) -> Reply | None:
        """The last reply that this process received; None before."""
        return self._async._reply

    @property
    def id(self) -> str:
        """The session's id."""
        return self._async._log.id

    @property
    def is_new(self) -> bool:
        """Whether the session has no entries yet."""
        return self._async._log.head == 0

    @property
    def head(self) -> int:
        """The number of the last entry; 0 for a new session."""
        return self._async._log.head

    @property
    def configuration(self) -> Configured:
        """The settings of the next request: model, system prompt, parameters, tools and their directories."""
        return self._async._effective_config()

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools."""
        return tuple(self._async._context.toolbox.names())

    @property
    def run_totals(self) -> Spent:
        """What the current or the last run has used."""
        return self._async._log.spent

    @property
    def transcript(self) -> Transcript:
        """The conversation without the system prompt."""
        return self._async._log.next.transcript()

    @property
    def usage(self) -> Usage:
        """The tokens used so far, failed attempts and sub-agents included."""
        return self._async._log.usage

    @property
    def cost(self) -> Decimal | None:
        """The cost in USD so far, failed attempts and sub-agents included; None if the price of a reply is unknown."""
        return self._async._log.cost

    @property
    def context_tokens(self) -> int:
        """The tokens of the next request, counted by the provider as far as a reply has reported them."""
        return self._async._log.size.total()

    @property
    def text(self) -> str:
        """The text of the last reply, refusals included; empty before the first reply."""
        last = self._async._log.last
        return "".join(filter(None, map(display_text, last.blocks))) if last is not None else ""

    @property
    def last(self) -> AssistantMessage | None:
        """The model's last message."""
        return self._async._log.last

    @property
    def metadata(self) -> dict[str, str]:
        """The keys and values that the user has given the session."""
        new = self._async._new_metadata
        return dict(self._async._log.metadata if new is None else new)

    @property
    def model(self) -> str:
        """The model of the next request."""
        return (self._async._log.next.configured or self._async._configured).model

    @property
    def status(self) -> str:
        """`new`, `running` (here), `waiting`, `interrupted`, `completed`, `cancelled` or `failed`.

        `interrupted`: work is pending and its run did not end. `waiting_for` has the reason of `waiting`.
        """
        if self._async._active is not None:
            return "running"
        machine = self._async._log.machine
        if machine.halted is not None:
            return status_after(machine.halted)[0]
        if self._async._log.has_work:
            return "interrupted"
        return "completed" if self._async._log.last is not None else "new"

    @property
    def waiting_for(self) -> str:
        """`approval`, `input`, `limit` or `context` if the status is `waiting`; else empty."""
        halted = self._async._log.machine.halted
        return status_after(halted)[1] if halted is not None and self._async._active is None else ""

    @property
    def has_pending_work(self) -> bool:
        """Whether `continue_()` has work to do that the journal shows; the inbox may have more."""
        return self._async._log.has_work

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that need approval: `approve` or `deny` them. `send` denies them instead."""
        own = tuple(
            PendingCall(call.view, call.ordinal, reply_seq=self._async._log.reply_seq)
            for call in self._async._log.machine.calls
            if call.phase is Phase.WAITING
        )
        return (*own, *self._async._pending_below)

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Call a function for each event from now on, in the task or thread of the run. Return a function that ends this."""
        listeners = self._async._listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener) if listener in listeners else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status}>"
