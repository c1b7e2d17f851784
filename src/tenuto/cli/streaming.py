"""`--jsonl`: what happens in a run, one JSON object a line, as it happens.

Each line has `seq`, which counts from 1, the `session`, and a `type`; then what the event says. Nothing is said twice: a part
that is whole has only what its pieces did not say, a call is named by its id once its arguments stood there, and a message
that is done has what does not stand in its parts. What only the provider can make something of (`extra`, its own usage) stands
in the journal, and not here. The last line is the `result`: the document that `--json` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tenuto.agent.events import (
    AgentEvent,
    ApprovalNeeded,
    RequestReady,
    SubAgentEvent,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from tenuto.cli.screen import Screen
from tenuto.core import jsonio
from tenuto.core.blocks import Block, Reasoning, ToolUse
from tenuto.core.events import (
    CitationDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    Delta,
    MessageDelta,
    MessageDone,
    MessageStart,
    StreamEvent,
    ThinkingDelta,
    UsageUpdate,
)
from tenuto.core.messages import AssistantMessage, ToolCallView, Usage
from tenuto.core.response import Choice

__all__ = ["Lines", "Told"]

Line = dict[str, Any]
_KIND = "block_type"
_ITS_OWN = ("extra", "raw_usage")
_FIELD = {"thinking": "text", "arguments": "args"}
"""Where the pieces of a part end up, unless that has the name of the piece."""


class Lines:
    """Writes the lines of one run where the answer would stand. Raise `Unread` if nobody reads them."""

    def __init__(self, screen: Screen, session: str, *, thinking: bool = True) -> None:
        self._screen = screen
        self._session = session
        self._told = Told(thinking=thinking)
        self._seq = 0

    def hear(self, event: StreamEvent | AgentEvent) -> None:
        """Write an event, if there is something in it that was not said before."""
        line = self._told.line(event)
        if line is not None:
            self._write(line)

    def result(self, document: Mapping[str, Any]) -> None:
        """Write the last line."""
        self._write({"type": "result", **document})

    def _write(self, line: Line) -> None:
        self._seq += 1
        self._screen.document(jsonio.encode({"seq": self._seq, "session": self._session, **line}))


class _Part:
    """A part of a reply, as far as it was told."""

    def __init__(self, part: Block) -> None:
        self.begun = _members(part)
        self.pieces: dict[str, list[str]] = {}
        self.citations: list[Any] = []

    def take(self, delta: Delta) -> None:
        """Add a piece."""
        if isinstance(delta, CitationDelta):
            self.citations.append(delta.citation)
            return
        (name,) = delta.__struct_fields__
        self.pieces.setdefault(name, []).append(getattr(delta, name))

    def left(self, part: Block) -> Line:
        """Return what was not told of the whole part: what stood there at the beginning, or came in pieces, is left out."""
        told = {_FIELD.get(name, name): jsonio.encode("".join(pieces)) for name, pieces in self.pieces.items()}
        if self.citations:
            told["citations"] = jsonio.encode(self.citations)
        left: Line = {}
        for name, value in _members(part).items():
            if name == _KIND:
                left[name] = value
            elif bytes(value) == told.get(name) or value == self.begun.get(name):
                continue
            elif name == "meta":  # what a token is called in it depends on who gave it
                left[name] = {
                    of: token for of, token in jsonio.members(value).items() if bytes(token) != told.get("signature")
                }
            else:
                left[name] = value
        return left


def _members(value: object) -> dict[str, msgspec.Raw]:
    """Return the fields of a value, without those that only the provider can make something of."""
    return {name: raw for name, raw in jsonio.members(jsonio.encode(value)).items() if name not in _ITS_OWN}


class Told:
    """Follows the events of one session; says of each what was not said before."""

    def __init__(self, *, thinking: bool = True) -> None:
        self._thinking = thinking
        self._parts: dict[tuple[int, int], _Part] = {}
        self._blocks: dict[int, list[Block]] = {}
        self._stops: dict[int, tuple[str | None, str | None]] = {}
        self._usage: Usage | None = None
        self._calls: set[str] = set()
        self._below: dict[str, Told] = {}
        self._kinds: dict[type, Callable[[Any], Line | None]] = {
            MessageStart: self._start,
            ContentStart: self._part_start,
            ContentDelta: self._delta,
            ContentDone: self._part_done,
            MessageDelta: self._stop,
            UsageUpdate: self._used,
            MessageDone: self._done,
            RequestReady: self._request,
            ToolStarted: self._call,
            ToolProgress: self._call,
            ToolFinished: self._call,
            ApprovalNeeded: self._call,
            SubAgentEvent: self._inner,
        }

    def line(self, event: StreamEvent | AgentEvent) -> Line | None:
        """Return what is to be said of an event, its `type` first; None if that is nothing."""
        said = self._kinds.get(type(event), _fields)(event)
        return None if said is None else {"type": event.__struct_config__.tag, **said}

    # --- a reply ---

    def _start(self, event: MessageStart) -> Line:
        self._parts.clear()
        self._blocks.clear()
        self._stops.clear()
        self._usage = None
        return _fields(event)

    def _part_start(self, event: ContentStart) -> Line:
        self._parts[event.choice_index, event.part_index] = _Part(event.part)
        return {**_fields(event), "part": self._shown(event.part, {**_members(event.part)})}

    def _delta(self, event: ContentDelta) -> Line | None:
        part = self._parts.get((event.choice_index, event.part_index))
        if part is not None:
            part.take(event.delta)
        if isinstance(event.delta, ThinkingDelta) and not self._thinking:
            return None
        return _fields(event)

    def _part_done(self, event: ContentDone) -> Line:
        self._blocks.setdefault(event.choice_index, []).append(event.part)
        if isinstance(event.part, ToolUse):
            self._calls.add(event.part.id)
        told = self._parts.get((event.choice_index, event.part_index))
        part: Line = told.left(event.part) if told is not None else {**_members(event.part)}
        return {**_fields(event), "part": self._shown(event.part, part)}

    def _shown(self, part: Block, said: Line) -> Line:
        if isinstance(part, Reasoning) and not self._thinking:
            said.pop("text", None)
        return said

    def _stop(self, event: MessageDelta) -> Line:
        self._stops[event.choice_index] = event.finish_reason, event.raw_finish_reason
        return _fields(event)

    def _used(self, event: UsageUpdate) -> Line | None:
        if event.usage == self._usage:
            return None
        self._usage = event.usage
        return _fields(event)

    def _done(self, event: MessageDone) -> Line:
        whole = event.response
        response = _members(msgspec.structs.replace(whole, choices=(), losses=()))
        left: Line = {name: value for name, value in response.items() if name != "choices"}
        if whole.usage == self._usage:
            left.pop("usage", None)
        if whole.losses:
            left["losses"] = whole.losses
        left["choices"] = [self._choice(choice) for choice in whole.choices]
        return left

    def _choice(self, choice: Choice) -> Line:
        message = choice.message
        left: Line = {"index": choice.index, **self._ended(choice.index, message)}
        if message.origin is not None:
            left["origin"] = message.origin
        if tuple(self._blocks.get(choice.index, ())) != message.blocks:
            left["blocks"] = message.blocks
        return left

    def _ended(self, index: int, message: AssistantMessage) -> Line:
        if self._stops.get(index) == (message.stop_reason, message.raw_stop_reason):
            return {}
        return {"finish_reason": message.stop_reason, "raw_finish_reason": message.raw_stop_reason}

    # --- everything else ---

    def _request(self, event: RequestReady) -> Line:
        """Leave the bytes out: a request is as long as the session."""
        target = f"{event.target.provider.name}/{event.target.model}"
        return {"target": target, "bytes": len(event.wire.body), "losses": event.wire.losses}

    def _call(self, event: ToolStarted | ToolProgress | ToolFinished | ApprovalNeeded) -> Line:
        return {**_fields(event), "call": self._named(event.call)}

    def _named(self, call: ToolCallView) -> Line:
        """Name a call; what it is called with was told, unless that was in another run."""
        if call.id in self._calls:
            return {"id": call.id, "name": call.name}
        self._calls.add(call.id)
        return _fields(call)

    def _inner(self, event: SubAgentEvent) -> Line | None:
        below = self._below.setdefault(event.session, Told(thinking=self._thinking))
        inner = below.line(event.event)
        if inner is None:
            return None
        return {"call": self._named(event.call), "sub_session": event.session, "event": inner}


def _fields(value: msgspec.Struct) -> Line:
    """Return the fields of a value. The line has the session id already, as `session` or `sub_session`."""
    return {name: getattr(value, name) for name in value.__struct_fields__ if name != "session_id"}
