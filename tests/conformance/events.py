"""Check the events of one reply: their order, and that the deltas add up to the blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.oracle import shown
from tenuto.core.blocks import Audio, Block, CodeExecution, Image, Reasoning, Refusal, ServerToolUse, Text, ToolUse
from tenuto.core.events import (
    ArgumentsDelta,
    AudioDelta,
    CodeDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    ImageDelta,
    MessageDone,
    MessageStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
)
from tenuto.core.response import ChatResponse

__all__ = ["event_faults"]

_GROWS: dict[type[Block], tuple[type, str, str]] = {
    Text: (TextDelta, "text", "text"),
    Reasoning: (ThinkingDelta, "thinking", "text"),
    Refusal: (TextDelta, "text", "text"),
    ToolUse: (ArgumentsDelta, "arguments", "args"),
    ServerToolUse: (ArgumentsDelta, "arguments", "args"),
    CodeExecution: (CodeDelta, "code", "code"),
    Image: (ImageDelta, "data", "data"),
    Audio: (AudioDelta, "data", "data"),
}
_ALWAYS = (Text, Reasoning, Refusal, ToolUse)
"""Blocks whose deltas must add up; the others may be emitted without deltas."""


class _Part:
    def __init__(self, begun: Block) -> None:
        self.begun = begun
        self.done: Block | None = None
        self.pieces: list[Any] = []


def event_faults(
    events: list[StreamEvent], response: ChatResponse | None, *, broken: bool, torn: Sequence[str] = ()
) -> list[str]:
    """Return the faults in the events of a reply.

    A `broken` reply may end without its last events. `torn` has the recorded deltas of items whose finished text
    differs from them: our deltas must repeat the recorded ones.
    """
    found: list[str] = []
    parts: dict[tuple[int, int], _Part] = {}
    for event in events:
        if isinstance(event, MessageStart):
            parts.clear()
        elif isinstance(event, ContentStart | ContentDelta | ContentDone):
            _take(parts, event, found)
    if not broken and (not events or not isinstance(events[-1], MessageDone) or events[-1].response != response):
        found.append("the last event is not the response")
    for choice in response.choices if response else ():
        for at, block in enumerate(choice.message.blocks):
            part = parts.pop((choice.index, at), None)
            found += [
                f"choices[{choice.index}].blocks[{at}]: {fault}"
                for fault in _part_faults(part, block, broken=broken, torn=torn)
            ]
    found += [f"events of a part that is not in the response: {key}" for key in parts]
    return found


def _take(parts: dict[tuple[int, int], _Part], event: Any, found: list[str]) -> None:
    key = (event.choice_index, event.part_index)
    part = parts.get(key)
    if isinstance(event, ContentStart):
        if part is not None:
            found.append(f"part {key} starts twice")
        parts[key] = _Part(event.part)
    elif part is None or part.done is not None:
        found.append(f"{type(event).__name__} of part {key}, which is not open")
    elif isinstance(event, ContentDone):
        part.done = event.part
    else:
        part.pieces.append(event.delta)


def _part_faults(part: _Part | None, block: Block, *, broken: bool, torn: Sequence[str]) -> list[str]:
    if part is None:
        return ["no events"]
    found = []
    if type(part.begun) is not type(block):
        found.append(f"begun as {type(part.begun).__name__}, ended as {type(block).__name__}")
    if part.done != block and not (broken and part.done is None):
        found.append(f"content.done says {shown(part.done, 80)}")
    if type(block) in _GROWS:
        kind, piece, field = _GROWS[type(block)]
        pieces = [getattr(delta, piece) for delta in part.pieces if isinstance(delta, kind)]
        streamed, block_text = "".join(pieces), getattr(block, field)
        if (pieces or isinstance(block, _ALWAYS)) and streamed != block_text and streamed not in torn:
            found.append(f"the deltas say {shown(streamed, 80)}, the block {shown(block_text, 80)}")
    return found
