"""The transcript: what was said, as a value.

`transcript + "..."` makes a new transcript; two are equal when their content is. Nothing here sends, stores or repairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from tenuto.core.blocks import ToolUse, Value
from tenuto.core.messages import AssistantMessage, Message, ToolCallView, ToolResult, ToolResults, UserMessage

__all__ = ["Sayable", "Transcript"]

Sayable: TypeAlias = "str | Message | ToolResult | Sequence[ToolResult]"


class Transcript(Value, frozen=True):
    """Messages in order."""

    messages: tuple[Message, ...] = ()

    def __add__(self, said: Sayable) -> Transcript:
        """Append a user's words, a message, or the results of the open calls."""
        return msgspec.structs.replace(self, messages=(*self.messages, _message(said)))

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, at: int) -> Message:
        return self.messages[at]

    def open_calls(self) -> tuple[ToolCallView, ...]:
        """Return the calls that no later result answers, in order; a result answers one call, the first of its id."""
        left: dict[tuple[str, int], ToolCallView] = {}
        called: dict[str, int] = {}
        answered: dict[str, int] = {}
        for message in self.messages:
            if isinstance(message, AssistantMessage):
                for call in message.tool_calls():
                    nth = called.get(call.id, 0)
                    called[call.id] = nth + 1
                    left[call.id, nth] = call
            elif isinstance(message, ToolResults):
                for result in message.results:
                    nth = answered.get(result.tool_use_id, 0)
                    if left.pop((result.tool_use_id, nth), None) is not None:
                        answered[result.tool_use_id] = nth + 1
        return tuple(left.values())

    def check(self) -> tuple[str, ...]:
        """Say what no provider would take: orphaned or doubled results, doubled calls, calls left open in between."""
        return tuple(_faults(self.messages))


def _message(said: Sayable) -> Message:
    if isinstance(said, str):
        return UserMessage(said)
    if isinstance(said, ToolResult):
        return ToolResults((said,))
    if isinstance(said, Message):
        return said
    results = tuple(said)
    if not all(isinstance(result, ToolResult) for result in results):
        raise TypeError("a transcript grows by a string, a message, a ToolResult or a sequence of ToolResults")
    return ToolResults(results)


def _faults(messages: Iterable[Message]) -> Iterator[str]:
    open_ids: dict[str, int] = {}
    for at, message in enumerate(messages):
        if isinstance(message, ToolResults):
            for result in message.results:
                if open_ids.pop(result.tool_use_id, None) is None:
                    yield f"message {at}: result for {result.tool_use_id!r} answers no open call"
            continue
        for id, place in open_ids.items():
            yield f"message {place}: call {id!r} is not answered before message {at}"
        open_ids = {}
        for block in message.blocks if isinstance(message, AssistantMessage) else ():
            if isinstance(block, ToolUse):
                if block.id in open_ids:
                    yield f"message {at}: call id {block.id!r} occurs twice"
                open_ids[block.id] = at
    for id, place in open_ids.items():
        yield f"message {place}: call {id!r} is not answered"
