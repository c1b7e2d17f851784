"""Acts and journals for the tests of what follows from them."""

from __future__ import annotations

from tenuto.core.blocks import Text, ToolUse
from tenuto.core.journal import (
    ApprovalAsked,
    Asked,
    Compacted,
    Configured,
    Decided,
    Entry,
    Failed,
    HandedOver,
    Linked,
    Lost,
    Replied,
    Returned,
    Said,
    Started,
    Steered,
    Stopped,
    kind_of,
)
from tenuto.core.messages import AssistantMessage, ToolResult, UserMessage
from tenuto.core.target import Loss

MODEL = "sim/anthropic"
CONFIGURED = Configured(MODEL)
SAID = Said(UserMessage("Hi"))
STEERED = Steered(UserMessage("Quick!"))
ASKED = Asked(MODEL)
REPLIED = Replied(AssistantMessage((Text("Hello"),), raw_stop="end_turn"))
PAUSED = Replied(AssistantMessage((Text("Wait"),), raw_stop="pause_turn"))
FAILED = Failed("Unavailable", "busy", retryable=True)
LOST = Lost(Loss("rule", "place", "what", "do"))
HANDED_OVER = HandedOver("sim/openai", MODEL)
COMPLETED = Stopped("completed")
CANCELLING = Stopped("cancelling")
CANCELLED = Stopped("cancelled")


def calling(count: int, *, raw_stop: str = "tool_use") -> Replied:
    blocks = tuple(ToolUse(f"call_{at}", "act", "{}") for at in range(count))
    return Replied(AssistantMessage(blocks, raw_stop=raw_stop))


def started(at: int, attempt: int = 1, effect: str = "once") -> Started:
    return Started(f"call_{at}", at, "act", f"key_{at}", effect, attempt)


def returned(at: int) -> Returned:
    return Returned(ToolResult(f"call_{at}", "done"), at)


def approval(at: int) -> ApprovalAsked:
    return ApprovalAsked(f"call_{at}", at, "act")


def decided(at: int, *, allowed: bool = True) -> Decided:
    return Decided(f"call_{at}", at, allowed)


def linked(at: int) -> Linked:
    return Linked(f"child_{at}", f"call_{at}", at)


def compacted(upto: int) -> Compacted:
    return Compacted(upto, (UserMessage("Before that, much was said."),))


def entries_of(acts) -> list[Entry]:
    return [Entry(seq, f"e{seq}", seq, 1, kind_of(act), b"", "", act) for seq, act in enumerate(acts, 1)]
