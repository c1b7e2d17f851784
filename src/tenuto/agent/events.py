"""What happens in a session beside the model's words: told to its listeners, and to who streams it.

Each is told when it has happened, and what can be kept is in the journal by then. They have no stored form.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

import tenuto  # annotations load `tenuto.Report` when they are evaluated
from tenuto.core.events import StreamEvent
from tenuto.core.loss import Loss
from tenuto.core.messages import Message, ToolCallView, ToolResult
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest

__all__ = [
    "AgentEvent",
    "ApprovalNeeded",
    "ModelChanged",
    "RefusedBlockDropped",
    "RequestReady",
    "Retrying",
    "RunStopped",
    "SteeringInjected",
    "SubAgentEvent",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
    "TurnStarted",
]


class _Told(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class TurnStarted(_Told, frozen=True, tag="turn.start"):
    """The model is about to be asked. `turn` counts from 1 in each run; `attempt` is above 1 where it is asked again."""

    turn: int
    attempt: int = 1


class RequestReady(_Told, frozen=True, tag="request"):
    """A request is written and about to be sent to `target`; `wire` has its bytes."""

    request: ChatRequest
    target: Target
    wire: WireRequest

    def audit(self) -> tenuto.Report:
        """Apply the rule book to the request. It costs more than writing the request."""
        from tenuto.audit.auditing import report_of

        return report_of(self.request, self.target, self.wire)


class RefusedBlockDropped(_Told, frozen=True, tag="left_out"):
    """The provider refused one of its own blocks by name: it is asked once more, without it."""

    loss: Loss


class ModelChanged(_Told, frozen=True, tag="handover"):
    """The session goes on with another model, and this is what cannot go along."""

    model: str
    before: str
    losses: tuple[Loss, ...] = ()


class Retrying(_Told, frozen=True, tag="retry"):
    """An attempt failed, and another follows in `delay` seconds: what was streamed of the reply is void."""

    error: str
    message: str
    delay: float


class ToolStarted(_Told, frozen=True, tag="tool.start"):
    """A call acts now."""

    call: ToolCallView
    ordinal: int
    attempt: int = 1


class ToolProgress(_Told, frozen=True, tag="tool.progress"):
    """A tool says how far it is."""

    call: ToolCallView
    ordinal: int
    text: str


class ToolFinished(_Told, frozen=True, tag="tool.done"):
    """A call has its result; `outcome` says whether it ran, failed, was denied, interrupted or cancelled."""

    call: ToolCallView
    ordinal: int
    result: ToolResult
    outcome: str = "done"
    detail: str = ""


class ApprovalNeeded(_Told, frozen=True, tag="approval"):
    """A call waits for somebody's word. That of a sub-agent's comes inside `SubAgentEvent`."""

    call: ToolCallView
    ordinal: int


class SteeringInjected(_Told, frozen=True, tag="steered"):
    """What was said meanwhile is in the transcript now."""

    message: Message


class SubAgentEvent(_Told, frozen=True, tag="sub_agent"):
    """Something happened in the session of a sub-agent that answers a call."""

    call: ToolCallView
    session: str
    event: StreamEvent | AgentEvent


class RunStopped(_Told, frozen=True, tag="stopped"):
    """The run has ended or waits: `completed`, `waiting`, `limit`, `cancelled`, `failed`; `detail` says for what."""

    reason: str
    detail: str = ""


AgentEvent: TypeAlias = (
    TurnStarted
    | Retrying
    | RefusedBlockDropped
    | RequestReady
    | ModelChanged
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ApprovalNeeded
    | SteeringInjected
    | SubAgentEvent
    | RunStopped
)
