"""Stream events in the older shape: `delta`, `usage`, `done` and `error` dictionaries, as chat completions stream.

A view for consumers that know nothing else. It tells of text, refusals and function calls; reasoning, pictures, sounds,
server tools and citations have no word in it. A reply that the provider starts over is told twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tenuto.core.blocks import ToolUse
from tenuto.core.events import (
    ArgumentsDelta,
    ContentDelta,
    ContentStart,
    Event,
    Failure,
    MessageDelta,
    MessageDone,
    MessageStart,
    TextDelta,
)

__all__ = ["to_delta_events"]


def to_delta_events(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Yield the older events. A call's `index` is its part's; usage comes once, before `done`, if it is known."""
    calls: set[tuple[int, int]] = set()
    for event in events:
        if isinstance(event, MessageStart):
            calls.clear()
        elif isinstance(event, ContentStart):
            if isinstance(event.part, ToolUse):
                calls.add((event.choice_index, event.part_index))
                yield _called(event, id=event.part.id, type="function", function={"name": event.part.name})
        elif isinstance(event, ContentDelta):
            yield from _grown(event, calls)
        elif isinstance(event, MessageDelta):
            yield _delta(event.choice_index, {}, event.finish_reason)
        elif isinstance(event, MessageDone):
            yield from _ended(event)
        elif isinstance(event, Failure):
            yield {"type": "error", "error": {"message": event.message, "raw": event.raw}}


def _grown(event: ContentDelta, calls: set[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    delta = event.delta
    if isinstance(delta, TextDelta):
        yield _delta(event.choice_index, {"content": delta.text})
    elif isinstance(delta, ArgumentsDelta) and (event.choice_index, event.part_index) in calls:
        yield _called(event, function={"arguments": delta.arguments})


def _called(event: ContentStart | ContentDelta, **fields: Any) -> dict[str, Any]:
    return _delta(event.choice_index, {"tool_calls": [{"index": event.part_index, **fields}]})


def _delta(choice: int, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"type": "delta", "index": choice, "delta": delta, "finish_reason": finish_reason}


def _ended(event: MessageDone) -> Iterator[dict[str, Any]]:
    usage = event.response.usage
    if usage is not None:
        counts = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
        yield {"type": "usage", "usage": {**counts, "total_tokens": usage.total_tokens}}
    yield {"type": "done"}
