"""`--jsonl`: each event is a JSON line with `seq` (from 1), `session`, `type` and its fields; the last is that of `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tenuto.agent.events import AgentEvent, RequestReady, SubAgentEvent
from tenuto.cli.terminal.display import Display
from tenuto.core import jsonio
from tenuto.core.events import ContentDelta, StreamEvent, ThinkingDelta


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
    if not thinking and isinstance(event, ContentDelta) and isinstance(event.delta, ThinkingDelta):
        return None
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name != "session_id"}
    if isinstance(event, RequestReady):  # the body is as long as the session
        target = f"{event.target.provider.name}/{event.target.model}"
        fields = {"target": target, "bytes": len(event.wire.body), "losses": event.wire.losses}
    elif isinstance(event, SubAgentEvent):
        if (inner := event_fields(event.event, thinking=thinking)) is None:
            return None
        fields = {"call": event.call, "sub_session": event.session, "event": inner}
    line = {"type": event.__struct_config__.tag, **fields}
    return line if thinking else _hide_thinking(msgspec.to_builtins(line, builtin_types=(msgspec.Raw,)))


def _hide_thinking(value: Any) -> Any:
    """Return a JSON value without the text of reasoning blocks (`extra` may repeat it); their tokens stay."""
    if isinstance(value, list | tuple):
        return [*map(_hide_thinking, value)]
    if not isinstance(value, dict):
        return value
    hidden = ("text", "extra") if value.get("block_type") == "reasoning" else ()
    return {name: _hide_thinking(item) for name, item in value.items() if name not in hidden}
