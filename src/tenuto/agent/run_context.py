"""The settings of a run, and the values that its parts exchange."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from tenuto.agent.events import AgentEvent
from tenuto.agent.hooks import Hooks
from tenuto.agent.limits import Limits
from tenuto.client.client import AsyncClient
from tenuto.client.middleware.retry import Retry
from tenuto.client.options import Timeouts
from tenuto.core.events import StreamEvent
from tenuto.core.messages import ToolCallView, Usage
from tenuto.tools.execution import Outcome
from tenuto.tools.toolbox import Toolbox

Approve: TypeAlias = Callable[[ToolCallView], bool | str | Awaitable[bool | str]]
"""Decides about a call that needs approval: True runs it, False or a reason denies it."""
Listener: TypeAlias = Callable[[StreamEvent | AgentEvent], object]
"""Receives the events of a session."""


class PendingCall(msgspec.Struct, frozen=True):
    """A tool call that needs approval."""

    call: ToolCallView
    ordinal: int
    """The index of the call in its reply."""
    session: str = ""
    """The id of the sub-agent session that made the call; empty for the session itself."""
    reply_seq: int = 0
    """The sequence number of the reply with the call."""


class AwaitingApproval(Exception):
    """A call still needs approval, or the call of a sub-agent does."""


class CallResult(msgspec.Struct, frozen=True):
    """The outcome of a call, and the usage of the sub-agent that ran it."""

    outcome: Outcome
    usage: Usage | None = None
    cost: str = ""


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a run."""

    client: AsyncClient
    toolbox: Toolbox
    system: str | None
    """The instructions; None keeps those of a resumed session."""
    retry: Retry
    limits: Limits
    approve: Approve | None = None
    hooks: tuple[Hooks, ...] = ()
    headers: Mapping[str, str] = {}
    timeout: float | Timeouts | None = None
    fallback: tuple[str, ...] = ()
    strict: bool = False
    """Whether a block that its provider refused ends the run, instead of a request without it."""
    keep_roots: bool = True
    """Whether tools work in the directories that a session has stored."""
