"""Events of a session besides those of the model's reply.

An event is emitted after the entry that records it is committed. Events have no stored form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

import tenuto  # annotations load `tenuto.Report` when they are evaluated
from tenuto.core.cache_misses import MissedPart
from tenuto.core.events import StreamEvent
from tenuto.core.loss import Loss
from tenuto.core.messages import Message, ToolCallView, ToolResult
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest

__all__ = [
    "AgentEvent",
    "ApprovalNeeded",
    "CacheMissed",
    "CompactionFinished",
    "CompactionStarted",
    "ConfigurationChanged",
    "ModelChanged",
    "OutputRetried",
    "RefusedBlockDropped",
    "RequestReady",
    "Retrying",
    "RunStarted",
    "RunStopped",
    "SteeringInjected",
    "SubAgentEvent",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
    "TurnStarted",
]


class _AgentEvent(msgspec.Struct, frozen=True, tag_field="type", kw_only=True):
    session_id: str = ""
    """The session that the event belongs to."""


class RunStarted(_AgentEvent, frozen=True, tag="run.start"):
    """A run starts: the session's lease is acquired."""

    model: str
    resumed: bool = False
    """Whether the run continues work that an earlier run left."""


class TurnStarted(_AgentEvent, frozen=True, tag="turn.start"):
    """A request is about to be sent."""

    turn: int
    """The number of the turn in this run, from 1."""
    attempt: int = 1


class RequestReady(_AgentEvent, frozen=True, tag="request"):
    """A request is encoded and about to be sent to `target`; `wire` has its bytes."""

    request: ChatRequest
    target: Target
    wire: WireRequest

    def audit(self) -> tenuto.Report:
        """Apply the rule book to the request. It costs more than writing the request."""
        from tenuto.audit.api import report_of

        return report_of(self.request, self.target, self.wire)


class CacheMissed(_AgentEvent, frozen=True, tag="cache.miss"):
    """A reply read less from the provider's prompt cache than the request before it had stored."""

    part: MissedPart
    """What changed: `model`, `tools`, `system`, `messages`, `parameters`; or `expired`, or `unknown`."""
    names: tuple[str, ...] = ()
    """The names of the changed tools or parameters; for messages the reason."""
    tokens: int = 0
    """The tokens that were not read again."""
    provider_reason: str = ""
    """The reason that the provider reports, with `cache_diagnosis`, in its own word."""


class RefusedBlockDropped(_AgentEvent, frozen=True, tag="left_out"):
    """The provider refused one of its own blocks: the request is sent once more, without it."""

    loss: Loss


class ConfigurationChanged(_AgentEvent, frozen=True, tag="configured"):
    """The instructions or tools are about to change, which makes the model lose reasoning that it is bound to."""

    losses: tuple[Loss, ...]


class OutputRetried(_AgentEvent, frozen=True, tag="output.retry"):
    """The output was rejected, and the model is asked for another one."""

    reason: str


class ModelChanged(_AgentEvent, frozen=True, tag="handover"):
    """The session was handed over to another model."""

    model: str
    before: str
    losses: tuple[Loss, ...] = ()
    """The content that the new model does not receive."""


class CompactionStarted(_AgentEvent, frozen=True, tag="compaction.start"):
    """The conversation is being compacted."""

    reason: str
    """`threshold`, `context`, `handover` or `user`."""
    tokens: int
    """The tokens of the conversation."""


class CompactionFinished(_AgentEvent, frozen=True, tag="compaction.done"):
    """The conversation was compacted: later requests have fewer tokens. The journal keeps the originals."""

    reason: str
    before: int
    """The tokens before."""
    after: int
    """The tokens after, estimated."""
    failed: bool = False
    """Whether there is no summary that can be used. The conversation continues as it was."""


class Retrying(_AgentEvent, frozen=True, tag="retry"):
    """A request failed and is sent again after `delay` seconds. Discard the events of the failed reply."""

    error: str
    message: str
    delay: float


class _CallEvent(_AgentEvent, frozen=True):
    call: ToolCallView
    ordinal: int
    """The index of the call in its reply."""


class ToolStarted(_CallEvent, frozen=True, tag="tool.start"):
    """A tool call starts."""

    attempt: int = 1


class ToolProgress(_CallEvent, frozen=True, tag="tool.progress"):
    """A tool reports its progress. A stream omits it while its reader is too far behind."""

    text: str


class ToolFinished(_CallEvent, frozen=True, tag="tool.done"):
    """A tool call has its result."""

    result: ToolResult
    outcome: str = "done"
    """`done`, `failed`, `denied`, `interrupted`, `cancelled` or `unknown`."""
    detail: str = ""


class ApprovalNeeded(_CallEvent, frozen=True, tag="approval"):
    """A tool call needs approval. A call of a sub-agent is reported inside `SubAgentEvent`."""


class SteeringInjected(_AgentEvent, frozen=True, tag="steered"):
    """A message that was posted during the run is in the transcript now."""

    message: Message


class SubAgentEvent(_AgentEvent, frozen=True, tag="sub_agent"):
    """An event of the session of a sub-agent."""

    call: ToolCallView
    session: str
    """The id of the sub-agent's session."""
    event: StreamEvent | AgentEvent


class RunStopped(_AgentEvent, frozen=True, tag="stopped"):
    """The run has ended or waits."""

    reason: str
    """`completed`, `waiting`, `cancelled` or `failed`."""
    detail: str = ""
    """The limit, or the error."""
    waiting_for: str = ""
    """`approval`, `input`, `limit` or `context` if the run waits."""


AgentEvent: TypeAlias = (
    RunStarted
    | TurnStarted
    | Retrying
    | RefusedBlockDropped
    | CacheMissed
    | RequestReady
    | ConfigurationChanged
    | OutputRetried
    | ModelChanged
    | CompactionStarted
    | CompactionFinished
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ApprovalNeeded
    | SteeringInjected
    | SubAgentEvent
    | RunStopped
)
Listener: TypeAlias = Callable[[StreamEvent | AgentEvent], object]
"""Receives the events of a session."""
