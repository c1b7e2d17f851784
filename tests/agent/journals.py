"""Acts and journals for the tests of what follows from them."""

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
SAID = MessageAdded(UserMessage("Hi"))
STEERED = SteeringAdded(UserMessage("Quick!"))
ASKED = RequestStarted(MODEL)
REPLIED = ReplyReceived(AssistantMessage((Text("Hello"),), raw_stop_reason="end_turn"))
PAUSED = ReplyReceived(AssistantMessage((Text("Wait"),), raw_stop_reason="pause_turn"))
FAILED = RequestFailed("Unavailable", "busy", retryable=True)
METADATA = MetadataChanged({"customer": "42"})
COMPACTING = CompactionRequested(MODEL, 1)
NOT_COMPACTED = RequestFailed("NoSummary", "it is empty", purpose="compaction")
LOST = LossRecorded(Loss("rule", Location(path="place"), "what", "do"))
HANDED_OVER = HandedOver("sim/openai", MODEL)
COMPLETED = RunEnded("completed")
CANCELLING = RunEnded("cancelling")
CANCELLED = RunEnded("cancelled")


def calling(count: int, *, raw_stop_reason: str = "tool_use") -> ReplyReceived:
    blocks = tuple(ToolUse(f"call_{at}", "act", "{}") for at in range(count))
    return ReplyReceived(AssistantMessage(blocks, raw_stop_reason=raw_stop_reason))


def started(at: int, attempt: int = 1, effect: str = "once") -> CallStarted:
    return CallStarted(f"call_{at}", at, "act", f"key_{at}", effect, attempt)


def returned(at: int) -> CallFinished:
    return CallFinished(ToolResult(f"call_{at}", "done"), at)


def approval(at: int) -> ApprovalRequested:
    return ApprovalRequested(f"call_{at}", at, "act")


def decided(at: int, *, allowed: bool = True) -> ApprovalDecided:
    return ApprovalDecided(f"call_{at}", at, allowed)


def linked(at: int) -> SubSessionLinked:
    return SubSessionLinked(f"child_{at}", f"call_{at}", at)


def compacted(upto: int) -> Compacted:
    return Compacted(upto, (UserMessage("Before that, much was said."),))


def entries_of(acts) -> list[Entry]:
    return [Entry(seq, f"e{seq}", seq, 1, payload_kind(act), b"", "", act) for seq, act in enumerate(acts, 1)]


def machine_of(entries) -> Machine:
    machine = Machine()
    for entry in entries:
        machine.apply(entry.payload)
    return machine
