"""The output of a run while it is streamed: values that grow with the text of the model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto.agent.events import AgentEvent, Retrying, TurnStarted
from tenuto.agent.limits import FINAL_TOOL
from tenuto.core import jsonio
from tenuto.core.blocks import ToolUse
from tenuto.core.events import ArgumentsDelta, ContentDelta, ContentStart, MessageStart, StreamEvent, TextDelta
from tenuto.schema.strict_subset import VALUE_PROPERTY

if TYPE_CHECKING:
    from tenuto.core.journal import Configured

_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]..")
_OPENING = {"object": "{", "array": "["}


class PartialJson:
    """Reads JSON that is not complete yet: the values so far, without those that may still change.

    The last string may grow; a number, a literal or a name of a property is read when it is complete. Text before
    `opening`, such as a code fence, is skipped.
    """

    def __init__(self, opening: str = "{[") -> None:
        self._opening = opening
        self._text = ""
        self._closers: list[str] = []
        self._is_started = self._in_string = self._is_name = self._after_colon = False
        self._escape = -1
        """The index of the last escape in the open string."""
        self._escape_end = 0
        """The index after that escape."""
        self._pair = -1
        """The index of the escape of a high surrogate that the last escape completes."""
        self._end = 0
        """The index after the last complete value, or after the last opening bracket."""

    def feed(self, text: str) -> None:
        for char in text:
            if not self._is_started:
                self._is_started = char in self._opening
            if self._is_started and (self._closers or not self._text):
                self._text += char
                self._read(char, len(self._text))

    def _read(self, char: str, end: int) -> None:
        if self._in_string:
            if end <= self._escape_end:
                if char == "u" and end == self._escape + 2:
                    self._escape_end = end + 4
            elif char == "\\":
                is_second = self._escape_end == end - 1 and _HIGH_SURROGATE.fullmatch(self._text, self._escape, end - 1)
                self._pair = self._escape if is_second else -1
                self._escape, self._escape_end = end - 1, end + 1
            elif char == '"':
                self._in_string = False
                self._end = self._end if self._is_name else end
        elif char == '"':
            self._in_string, self._escape, self._escape_end = True, -1, 0
            self._is_name = self._closers[-1] == "}" and not self._after_colon
        elif char in "{[":
            self._closers.append("}" if char == "{" else "]")
            self._end, self._after_colon = end, False
        elif char in "}]":
            self._closers.pop()
            self._end, self._after_colon = end, False
        elif char == ",":
            self._end, self._after_colon = end - 1, False
        elif char == ":":
            self._after_colon = True

    def value(self) -> Any:
        """Return the value so far; unset before the first bracket, and for text that is not JSON."""
        text = self._text[: self._end]
        if self._in_string and not self._is_name:
            text = self._text
            if self._escape_end > len(text):
                text = text[: self._pair if self._pair >= 0 else self._escape]
            elif self._escape_end == len(text) and _HIGH_SURROGATE.fullmatch(text, self._escape):
                text = text[: self._escape]
            text += '"'
        try:
            return jsonio.parse(text + "".join(reversed(self._closers))) if text else msgspec.UNSET
        except jsonio.JsonError:
            return msgspec.UNSET


class PartialReader:
    """Turns the events of a run into the outputs that grow."""

    _json: PartialJson | None
    _text: str
    _part: int
    """The index of the call that gives the output; -1: none does."""
    _last: Any

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._json, self._text, self._part, self._last = None, "", -1, msgspec.UNSET

    def feed(self, event: StreamEvent | AgentEvent, config: Configured | None) -> Any:
        """Return the output so far if the event changes it; otherwise unset."""
        if isinstance(event, TurnStarted | Retrying | MessageStart):
            self._reset()
        elif isinstance(event, ContentStart) and isinstance(event.part, ToolUse) and event.part.name == FINAL_TOOL:
            self._json, self._part = None, event.part_index
        elif isinstance(event, ContentDelta) and event.choice_index == 0 and config is not None:
            if isinstance(event.delta, TextDelta) and self._part < 0:
                return self._grow(event.delta.text, config)
            if isinstance(event.delta, ArgumentsDelta) and event.part_index == self._part:
                return self._grow(event.delta.arguments, config)
        return msgspec.UNSET

    def _grow(self, text: str, config: Configured) -> Any:
        if config.output_mode in ("", "text"):
            self._text += text
            return self._text
        if self._json is None:
            kind = jsonio.parse(config.output_schema).get("type", "")
            self._json = PartialJson("{" if is_wrapped(config) else _OPENING.get(kind, "{["))
        self._json.feed(text)
        value = self._json.value()
        if is_wrapped(config):
            value = value.get(VALUE_PROPERTY, msgspec.UNSET) if isinstance(value, dict) else msgspec.UNSET
        if value == self._last:
            return msgspec.UNSET
        self._last = value
        return value


def is_wrapped(config: Configured) -> bool:
    """Return whether the value is requested as the only property of an object."""
    if config.output_mode == "prompt":
        return False
    request = jsonio.parse(config.output_request)
    requested = request.get("schema") or request.get("parameters")
    return (
        {*requested.get("properties", ())}
        == {VALUE_PROPERTY}
        != {*jsonio.parse(config.output_schema).get("properties", ())}
    )
