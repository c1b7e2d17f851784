"""Payloads and journals for tests of the state machine."""

from __future__ import annotations

from tenuto.agent.machine import Machine
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.journal import (
    ApprovalDecided,
    ApprovalRequested,
    CallFinished,
    CallStarted,
    Compacted,
    CompactionRequested,
    Configured,
    Entry,
    HandedOver,
    LossRecorded,
    MessageAdded,
    MetadataChanged,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    RunEnded,
    SteeringAdded,
    SubSessionLinked,
    payload_kind,
)
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, ToolResult, UserMessage

MODEL = "sim/anthropic"
CONFIGURED = Configured(MODEL)
MESSAGE_ADDED = MessageAdded(UserMessage("Hi"))
STEERING_ADDED = SteeringAdded(UserMessage("Quick!"))
REQUEST_STARTED = RequestStarted(MODEL)
REPLY_RECEIVED = ReplyReceived(AssistantMessage((Text("Hello"),), raw_stop_reason="end_turn"))
PAUSED_REPLY = ReplyReceived(AssistantMessage((Text("Wait"),), raw_stop_reason="pause_turn"))
REQUEST_FAILED = RequestFailed("Unavailable", "busy", retryable=True)
METADATA = MetadataChanged({"customer": "42"})
COMPACTING = CompactionRequested(MODEL, 1)
NOT_COMPACTED = RequestFailed("NoSummary", "it is empty", purpose="compaction")
LOSS_RECORDED = LossRecorded(Loss("rule", Location(path="place"), "what", "do"))
HANDED_OVER = HandedOver("sim/openai", MODEL)
COMPLETED = RunEnded("completed")
CANCELLING = RunEnded("cancelling")
CANCELLED = RunEnded("cancelled")


def reply_with_calls(count: int, *, raw_stop_reason: str = "tool_use") -> ReplyReceived:
    blocks = tuple(ToolUse(f"call_{at}", "act", "{}") for at in range(count))
    return ReplyReceived(AssistantMessage(blocks, raw_stop_reason=raw_stop_reason))


def call_started(at: int, attempt: int = 1, effect: str = "once") -> CallStarted:
    return CallStarted(f"call_{at}", at, "act", f"key_{at}", effect, attempt)


def call_finished(at: int) -> CallFinished:
    return CallFinished(ToolResult(f"call_{at}", "done"), at)


def approval_requested(at: int) -> ApprovalRequested:
    return ApprovalRequested(f"call_{at}", at, "act")


def approval_decided(at: int, *, allowed: bool = True) -> ApprovalDecided:
    return ApprovalDecided(f"call_{at}", at, allowed)


def sub_session_linked(at: int) -> SubSessionLinked:
    return SubSessionLinked(f"child_{at}", f"call_{at}", at)


def compacted_up_to(upto: int) -> Compacted:
    return Compacted(upto, (UserMessage("Earlier messages."),))


def entries_of(payloads) -> list[Entry]:
    return [
        Entry(seq, f"e{seq}", seq, 1, payload_kind(payload), b"", "", payload)
        for seq, payload in enumerate(payloads, 1)
    ]


def machine_of(entries) -> Machine:
    machine = Machine()
    for entry in entries:
        machine.apply(entry.payload)
    return machine
