"""A conversation as a value: `transcript + "..."` makes a new one; two are equal if their content is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

import tenuto  # annotations load `tenuto.ReasoningItem`, of a higher layer, when they are evaluated
from tenuto.core.blocks import ToolUse, Value
from tenuto.core.messages import AssistantMessage, Message, ToolCallView, ToolResult, ToolResults, UserMessage

Appendable: TypeAlias = "str | Message | ToolResult | Sequence[ToolResult]"


class Transcript(Value, frozen=True):
    messages: tuple[Message, ...] = msgspec.field(default_factory=lambda: ())
    """The stored form always has it: it tells a transcript from other documents."""

    def __add__(self, message: Appendable) -> Transcript:
        """Append the text of a user message, a message, or tool results."""
        return msgspec.structs.replace(self, messages=(*self.messages, _message(message)))

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, index: int) -> Message:
        return self.messages[index]

    def open_calls(self) -> tuple[ToolCallView, ...]:
        """Return the calls without a later result, in order. A result answers the first open call of its id."""
        open_calls: dict[str | tuple[str, int], ToolUse] = {}
        repeated: dict[str, deque[tuple[str, int]]] = {}  # the keys of calls whose id was open already
        repeated_count = 0
        for message in self.messages:
            if isinstance(message, AssistantMessage):
                for block in message.blocks:
                    if isinstance(block, ToolUse):
                        if block.id not in open_calls and not repeated.get(block.id):
                            open_calls[block.id] = block
                        else:
                            repeated_count += 1
                            key = (block.id, repeated_count)
                            repeated.setdefault(block.id, deque()).append(key)
                            open_calls[key] = block
            elif isinstance(message, ToolResults):
                for result in message.results:
                    id = result.tool_use_id
                    if open_calls.pop(id, None) is None and repeated.get(id):
                        del open_calls[repeated[id].popleft()]
        calls = open_calls.values()
        return tuple(ToolCallView(call.id, call.name, call.args, call.kind, call.args_error) for call in calls)

    def check(self) -> tuple[str, ...]:
        """Return the problems that providers refuse: results without a call, repeated ids, calls without a result."""
        return tuple(_find_problems(self.messages))

    def to_json(self) -> str:
        """Return the transcript as JSON text with everything it has, signatures included. `from_json` reads it."""
        from tenuto.core.stored import dump_transcript

        return dump_transcript(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Transcript:
        """Read what `to_json` wrote. Fields of a later version are kept. Raise `ValueError` for anything else."""
        from tenuto.core.stored import load_transcript

        return load_transcript(text)

    def reasoning_details(self) -> dict[int, list[tenuto.ReasoningItem]]:
        """Return the `reasoning_details` items of each reply that has any, by the index of its message."""
        from tenuto.reasoning.views import to_details

        replies = {index: message for index, message in enumerate(self) if isinstance(message, AssistantMessage)}
        return {index: items for index, reply in replies.items() if (items := to_details(reply))}


def _message(value: Appendable) -> Message:
    if isinstance(value, str):
        return UserMessage(value)
    if isinstance(value, ToolResult):
        return ToolResults((value,))
    if isinstance(value, Message):
        return value
    results = tuple(value)
    if not all(isinstance(result, ToolResult) for result in results):
        raise TypeError("expected a string, a message, a ToolResult or a sequence of ToolResults")
    return ToolResults(results)


def _find_problems(messages: Iterable[Message]) -> Iterator[str]:
    open_ids: dict[str, int] = {}
    for index, message in enumerate(messages):
        if isinstance(message, ToolResults):
            for result in message.results:
                if open_ids.pop(result.tool_use_id, None) is None:
                    yield f"message {index}: result for {result.tool_use_id!r} answers no open call"
            continue
        for id, call_index in open_ids.items():
            yield f"message {call_index}: call {id!r} is not answered before message {index}"
        open_ids = {}
        for block in message.blocks if isinstance(message, AssistantMessage) else ():
            if isinstance(block, ToolUse):
                if block.id in open_ids:
                    yield f"message {index}: call id {block.id!r} occurs twice"
                open_ids[block.id] = index
    for id, index in open_ids.items():
        yield f"message {index}: call {id!r} is not answered"
