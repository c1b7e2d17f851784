"""A fifth dialect needs a decoder and its framing; the code that all dialects share does not change.

The toy dialect sends one JSON object per line: `start` (id, model), `text`, `call` (id, name, args), `usage` (in, out),
`error` (type, message) and, last, `stop`. A body that is not a stream is one object with a list of those as `lines`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenuto.core import jsonio
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.events import (
    ArgumentsDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    MessageDone,
    MessageStart,
    TextDelta,
    UsageUpdate,
)
from tenuto.core.messages import AssistantMessage, Usage
from tenuto.core.provider import Provider, Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import IncompleteResponse, ProtocolError, RateLimited
from tenuto.wire.decoder import Decoder, decode_body, decode_stream
from tenuto.wire.framing import NdjsonReader
from tenuto.wire.provider_errors import classify_error

DIALECT: Any = "toy-lines"
STOP_REASONS: Any = {"end": "stop", "calls": "tool_calls"}
TARGET = Target(Provider("toy", DIALECT, "https://toy.example"), "toy-1", DIALECT)


class ToyDecoder(Decoder):
    dialect = DIALECT
    framing = NdjsonReader

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        super().__init__(target, seed=seed, audio_format=audio_format)
        self._parts = self.parts()
        self._text: Any = None
        self._id = self._model = ""
        self._usage: Usage | None = None
        self._raw_stop: str | None = None

    def frame(self, _: bytes, data: bytes) -> None:
        for kind, value in jsonio.parse(data).items():
            if kind == "start":
                self._id, self._model = value["id"], value["model"]
                self.out.append(MessageStart(self._id, self._model))
            elif kind == "text":
                self._text = self._text or self._parts.start(Text(""))
                self._parts.append(self._text, value, TextDelta(value))
            elif kind == "call":
                self._end_text()
                slot = self._parts.start(ToolUse(value["id"], value["name"], ""))
                self._parts.append(slot, value["args"], ArgumentsDelta(value["args"]))
                self._parts.finish(slot)
            elif kind == "usage":
                self._usage = Usage(value["in"], value["out"])
                self.out.append(UsageUpdate(self._usage))
            elif kind == "error":
                raise classify_error(data, provider=self.target.provider.name)
            elif kind == "stop":
                self._end_text()
                self._raw_stop = value
            else:
                self.record_loss("unknown-line", "stream", kind)

    def body(self, data: bytes) -> None:
        for line in jsonio.parse(data)["lines"]:
            self.frame(b"", jsonio.encode(line))

    def complete(self) -> bool:
        return self._raw_stop is not None

    def response(self, *, partial: bool) -> ChatResponse:
        assembler = self._parts.assembler
        message = AssistantMessage(
            tuple(assembler.unfinished() if partial else assembler.finalize()),
            STOP_REASONS.get(self._raw_stop),
            self._raw_stop,
            self.origin(self._model),
            incomplete=partial,
        )
        name = self.target.provider.name
        return ChatResponse(self._id, name, self._model, (Choice(message),), self._usage, losses=tuple(self.losses))

    def _end_text(self) -> None:
        if self._text is not None:
            self._parts.finish(self._text)
            self._text = None


LINES = [
    {"start": {"id": "r1", "model": "toy-1-large"}},
    {"text": "It "},
    {"text": "rains: "},
    {"call": {"id": "c1", "name": "weather", "args": '{"city":  "Bergen"}'}},
    {"usage": {"in": 7, "out": 9}},
    {"stop": "calls"},
]
STREAM = b"".join(json.dumps(line).encode() + b"\r\n" for line in LINES)
BLOCKS = (Text("It rains: "), ToolUse("c1", "weather", '{"city":  "Bergen"}'))


def test_new_dialect_streams_events():
    decoder = ToyDecoder(TARGET)
    events = [*decoder.feed(STREAM), *decoder.finish()]

    assert events[:-1] == [
        MessageStart("r1", "toy-1-large"),
        ContentStart(0, 0, Text("")),
        ContentDelta(0, 0, TextDelta("It ")),
        ContentDelta(0, 0, TextDelta("rains: ")),
        ContentDone(0, 0, BLOCKS[0]),
        ContentStart(0, 1, ToolUse("c1", "weather", "")),
        ContentDelta(0, 1, ArgumentsDelta('{"city":  "Bergen"}')),
        ContentDone(0, 1, BLOCKS[1]),
        UsageUpdate(Usage(7, 9)),
    ]
    assert isinstance(events[-1], MessageDone)
    assert events[-1].response.message.blocks == BLOCKS
    assert events[-1].response.message.stop_reason == "tool_calls"


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_new_dialect_does_not_depend_on_chunks(size):
    chunks = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    whole = json.dumps({"lines": LINES}).encode()

    assert decode_stream(ToyDecoder(TARGET), chunks) == decode_body(ToyDecoder(TARGET), whole)
    assert decode_stream(ToyDecoder(TARGET), [STREAM.rstrip()]).message.blocks == BLOCKS


def test_new_dialect_reports_faults_like_the_others():
    with pytest.raises(IncompleteResponse, match="before its last event") as incomplete:
        decode_stream(ToyDecoder(TARGET), [STREAM[: STREAM.index(b'{"usage"')]])
    with pytest.raises(IncompleteResponse, match="middle of an event"):
        decode_stream(ToyDecoder(TARGET), [STREAM[:-6]])
    with pytest.raises(RateLimited, match="slow down"):
        decode_stream(ToyDecoder(TARGET), [b'{"error": {"type": "rate_limit_error", "message": "slow down"}}\n'])
    with pytest.raises(ProtocolError, match="unreadable frame"):
        decode_stream(ToyDecoder(TARGET), [b"{\n" + STREAM])

    assert incomplete.value.partial is not None
    assert incomplete.value.partial.message.blocks == BLOCKS
