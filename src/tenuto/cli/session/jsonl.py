"""`--jsonl`: write the events of a run as JSON lines, the result last.

Each line has `seq` (from 1), `session` and `type`, then the fields of the event. The last line is the document of `--json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tenuto.agent.events import AgentEvent, RequestReady, SubAgentEvent
from tenuto.cli.terminal.display import Display
from tenuto.core import jsonio
from tenuto.core.blocks import Reasoning
from tenuto.core.events import ContentDelta, ContentDone, ContentStart, MessageDone, StreamEvent, ThinkingDelta


class JsonlWriter:
    """Writes the lines of one run. Raise `BrokenOutput` if stdout is closed."""

    def __init__(self, display: Display, session: str, *, thinking: bool = True) -> None:
        self._display = display
        self._session = session
        self._thinking = thinking
        self._seq = 0

    def handle(self, event: StreamEvent | AgentEvent) -> None:
        line = event_fields(event, thinking=self._thinking)
        if line is not None:
            self._write(line)

    def result(self, document: Mapping[str, Any]) -> None:
        self._write({"type": "result", **document})

    def _write(self, line: Mapping[str, Any]) -> None:
        self._seq += 1
        self._display.document(jsonio.encode({"seq": self._seq, "session": self._session, **line}))


def event_fields(event: StreamEvent | AgentEvent, *, thinking: bool = True) -> dict[str, Any] | None:
    """Return type and fields of an event; None for a piece of thinking that is hidden."""
    if not thinking:
        if isinstance(event, ContentDelta) and isinstance(event.delta, ThinkingDelta):
            return None
        event = _hide_thinking(event)
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name != "session_id"}
    if isinstance(event, RequestReady):  # the body is as long as the session
        target = f"{event.target.provider.name}/{event.target.model}"
        fields = {"target": target, "bytes": len(event.wire.body), "losses": event.wire.losses}
    elif isinstance(event, SubAgentEvent):
        inner = event_fields(event.event, thinking=thinking)
        if inner is None:
            return None
        fields = {"call": event.call, "sub_session": event.session, "event": inner}
    return {"type": event.__struct_config__.tag, **fields}


def _hide_thinking(event: StreamEvent | AgentEvent) -> StreamEvent | AgentEvent:
    """Return the event without the text of reasoning (`extra` may repeat it); tokens stay."""
    replace = msgspec.structs.replace
    if isinstance(event, ContentStart | ContentDone) and isinstance(event.part, Reasoning):
        return replace(event, part=replace(event.part, text="", extra=""))
    if isinstance(event, MessageDone):
        choices = tuple(
            replace(
                choice,
                message=replace(
                    choice.message,
                    blocks=tuple(
                        replace(block, text="", extra="") if isinstance(block, Reasoning) else block
                        for block in choice.message.blocks
                    ),
                ),
            )
            for choice in event.response.choices
        )
        return replace(event, response=replace(event.response, choices=choices))
    return event
