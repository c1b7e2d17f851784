"""What a run works with, and how its parts speak to one another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

import msgspec

from tenuto.agent.events import AgentEvent
from tenuto.agent.limits import Budget, Limits
from tenuto.client.client import AsyncClient
from tenuto.client.middleware.retry import Retry
from tenuto.client.options import Timeouts
from tenuto.core.events import StreamEvent
from tenuto.core.journal import ApprovalDecided
from tenuto.core.messages import ToolCallView, Usage
from tenuto.tools.execution import Outcome, ToolContext
from tenuto.tools.toolbox import PreparedCall, Toolbox

__all__ = ["Approve", "AwaitingApproval", "CallResult", "Listener", "PendingCall", "RunContext", "SubAgentRunner"]

Approve: TypeAlias = Callable[[ToolCallView], bool | str | Awaitable[bool | str]]
"""Asked for a call that needs somebody's word: True lets it run, False does not, and a string says why not."""
Listener: TypeAlias = Callable[[StreamEvent | AgentEvent], None]
"""Hears of everything that happens."""


class PendingCall(msgspec.Struct, frozen=True):
    """A call that waits for somebody's word. `session` is the sub-agent's whose call it is; empty if it is one's own."""

    call: ToolCallView
    ordinal: int
    session: str = ""


class AwaitingApproval(Exception):
    """There is no word for a call, and it goes on waiting; if it is a sub-agent's, so does the call that is answered."""


class CallResult(msgspec.Struct, frozen=True):
    """The outcome of a call, and what a sub-agent spent on it. Close its `budget` when the outcome is recorded."""

    outcome: Outcome
    usage: Usage | None = None
    cost: str = ""
    budget: Budget | None = None


class SubAgentRunner(Protocol):
    """Answer calls, each in a session of its own."""

    def session_for(self, name: str, key: str) -> str:
        """Return the id of the session in which a call is answered; empty if no sub-agent answers calls of this name."""

    async def answer(self, prepared: PreparedCall, session: str, context: ToolContext) -> CallResult:
        """Answer a call; a session that is there already goes on. Raise `AwaitingApproval` if it cannot."""

    async def waiting(self, session: str) -> list[PendingCall]:
        """Return the calls of a session, and of those below it, that wait for somebody's word."""

    async def decided(self, session: str, act: ApprovalDecided) -> None:
        """Write somebody's word into a session."""


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a run works with."""

    client: AsyncClient
    toolbox: Toolbox
    system: str | None
    """The instructions; None keeps those of a resumed session."""
    retry: Retry
    limits: Limits
    approve: Approve | None = None
    sub_agents: SubAgentRunner | None = None
    headers: Mapping[str, str] = {}
    timeout: float | Timeouts | None = None
    fallback: tuple[str, ...] = ()
    strict: bool = False
    keep_roots: bool = True
    """Whether tools work in the directories that a session has stored."""
