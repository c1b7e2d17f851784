"""A fifth dialect needs a decoder and its framing; the code that all dialects share does not change.

The toy dialect sends one JSON object per line: `start` (id, model), `text`, `call` (id, name, args), `usage` (in, out),
`error` (type, message) and, last, `stop`. A body that is not a stream is one object with a list of those as `lines`.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from rules.runner import Case, audit_problems, sim_problems
from tenuto import AsyncClient, Client, resolve
from tenuto.audit import audit_body
from tenuto.catalog import PROVIDERS, add_provider, is_known_provider, page, providers
from tenuto.core import jsonio, stored
from tenuto.core.blocks import ChatMeta, Reasoning, Text, ToolUse
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
from tenuto.core.loss import Location
from tenuto.core.messages import AssistantMessage, Usage, UserMessage
from tenuto.core.provider import ChatSwitches, Provider, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import BadRequest, IncompleteResponse, ProtocolError, RateLimited
from tenuto.rules import book
from tenuto.rules.page import rules_page
from tenuto.sim import Simulator
from tenuto.sim.script import Think
from tenuto.testing import ScriptedResponse, ScriptedTransport
from tenuto.wire import codec as codecs
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.codec import Codec
from tenuto.wire.decoder import Decoder, decode_body, decode_stream
from tenuto.wire.framing import FrameReader, NdjsonReader
from tenuto.wire.provider_errors import classify_error
from tenuto.wire.write import write_request

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
        self._usage: Usage | None = None
        self._raw_stop: str | None = None

    def frame(self, _: bytes, data: bytes) -> None:
        for kind, value in jsonio.parse(data).items():
            if kind == "start":
                self.id, self.model = value["id"], value["model"]
                self.emit_start()
            elif kind == "text":
                self._text = self._text or self._parts.start(Text(""))
                self._parts.append(self._text, value)
            elif kind == "call":
                self._end_text()
                slot = self._parts.start(ToolUse(value["id"], value["name"], ""))
                self._parts.append(slot, value["args"])
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
            self.origin(),
            incomplete=partial,
        )
        return self.make_response([Choice(message)], self._usage, "")

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
    body = json.dumps({"lines": LINES}).encode()

    assert decode_stream(ToyDecoder(TARGET), chunks) == decode_body(ToyDecoder(TARGET), body)
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


def _encode(builder: BodyBuilder) -> WireRequest:
    builder.body["model"] = builder.target.model
    builder.body["lines"] = lines = []
    for index, message in enumerate(builder.request.transcript):
        lines.append(str(message))
        builder.place_texts(Location(index), message.parts, lines, str(index))
    return builder.finish("/ask")


CODEC = Codec(name=DIALECT, decoder=ToyDecoder, encode=_encode, verbatim=lambda message: [])


def test_codec_has_framing_of_its_decoder():
    assert CODEC.decoder.framing is NdjsonReader
    assert codecs.codec_for("gemini").decoder.framing is FrameReader


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(codecs, "_codecs", {**codecs._codecs})
    codecs.register(CODEC)


def answer_in_lines() -> ScriptedTransport:
    return ScriptedTransport(ScriptedResponse.stream(STREAM[:40], STREAM[40:]))


def test_registered_dialect_streams_through_client(toy):
    transport = answer_in_lines()

    with (
        Client(providers=[TARGET.provider], keys={"toy": "k"}, transport=transport) as client,
        client.stream("toy/toy-1", "Rain?") as stream,
    ):
        texts = [event.delta.text for event in stream if isinstance(event, ContentDelta) and event.part_index == 0]

    assert texts == ["It ", "rains: "]
    assert stream.reply.message.blocks == BLOCKS
    assert json.loads(transport.requests[0].body) == {"model": "toy-1", "lines": ["Rain?"]}


def test_registered_dialect_streams_through_async_client(toy):
    async def ask():
        async with AsyncClient(providers=[TARGET.provider], keys={"toy": "k"}, transport=answer_in_lines()) as client:
            async with client.stream("toy/toy-1", "Rain?") as stream:
                events = [event async for event in stream]
            return events, stream.reply

    events, reply = asyncio.run(ask())

    assert isinstance(events[-1], MessageDone)
    assert reply.message.blocks == BLOCKS


def test_registered_dialect_replaces_none(toy):
    assert codecs.dialect_names()[-1] == DIALECT
    assert codecs.codec_for("gemini").name == "gemini"


NEW_PROVIDER = Provider("sunrise", "openai-chat", "https://api.sunrise.example/v1", key_env=("SUNRISE_API_KEY",))


def test_provider_row_is_used_listed_and_documented(monkeypatch):
    """One row is enough: the client resolves it, and the page lists it."""
    chunk = {
        "id": "1",
        "model": "dawn",
        "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}],
    }
    transport = ScriptedTransport(ScriptedResponse(chunk))
    monkeypatch.setattr(providers, "PROVIDERS", PROVIDERS.copy())
    monkeypatch.setattr(page, "PROVIDERS", providers.PROVIDERS)
    add_provider(NEW_PROVIDER)

    with Client(keys={"sunrise": "k"}, transport=transport) as client:
        reply = client.chat("sunrise/dawn", "Hello")

    assert reply.text == "Hi"
    assert transport.requests[0].url == "https://api.sunrise.example/v1/chat/completions"
    assert (
        "| [sunrise](#sunrise) | openai-chat | `https://api.sunrise.example/v1` | `SUNRISE_API_KEY` |" in page.render()
    )
    assert is_known_provider("sunrise")
    assert resolve("sunrise/dawn").provider is NEW_PROVIDER


def test_new_provider_is_simulated_and_audited(monkeypatch):
    """One row is enough: the simulator imitates it, and rules for the whole dialect apply to it without certainty."""
    monkeypatch.setattr(providers, "PROVIDERS", PROVIDERS.copy())
    add_provider(NEW_PROVIDER)
    open_call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [open_call]}]

    with (
        Simulator(script=[(Think("Hm."), "Hello")]) as sim,
        Client(providers={"sim": {"base_url": f"{sim.base_url}/v1"}}, middleware=[]) as client,
    ):
        reply = client.chat("sim/sunrise/dawn", "Hi")
        with pytest.raises(BadRequest, match="must be followed by tool messages"):
            client.chat("sim/sunrise/dawn", "Hi", extra_body={"messages": messages})
    (finding,) = audit_body({"messages": messages}, resolve("sunrise/dawn"))

    assert (reply.text, reply.message.blocks[0]) == ("Hello", Reasoning("Hm.", meta=ChatMeta("reasoning_content")))
    assert (finding.rule, finding.severity, finding.certain) == ("OAC-OAI-01", "warned", False)


@pytest.fixture
def rule_book(monkeypatch):
    """Remove rules that a test registers."""
    rules_before = book.rules_of("openai-chat")
    monkeypatch.setitem(book._registered, "openai-chat", list(rules_before))
    yield
    book.rules_of.cache_clear()
    book.all_rules.cache_clear()


def test_rule_is_one_function_and_one_case(rule_book):
    """The simulator refuses with it, the audit predicts it, and the page lists it."""

    @book.section("openai-chat", type="invalid_request_error")(
        "OAC-NEW-01", "The user is not root.", "user {name} is not allowed", remedy="Send another name.", source="test"
    )
    def user_is_root(request):
        if request.setting("user") == "root":
            yield book.Violation("/user", {"name": "root"})

    book.rules_of.cache_clear()
    book.all_rules.cache_clear()
    hello = {"messages": [{"role": "user", "content": "Hi"}]}
    case = msgspec.convert(
        {
            "rule": "OAC-NEW-01", "target": "groq", "pointer": "/user", "message": "user root is not allowed",
            "body": {**hello, "user": "root"}, "repaired": hello, "near_misses": [{"/user": "rot"}],
        },
        Case,
    )  # fmt: skip

    assert audit_problems(case) == []
    assert sim_problems(case) == []
    assert '| <a id="oac-new-01"></a>OAC-NEW-01 | The user is not root. | refused | all | yes |' in rules_page()
    with Simulator() as sim, Client(providers={"sim": {"base_url": f"{sim.base_url}/v1"}}, middleware=[]) as client:
        with pytest.raises(BadRequest, match="user root is not allowed"):
            client.chat("sim/groq", "Hi", extra_body={"user": "root"})
        assert sim.refusals[0].rule == "OAC-NEW-01"


def test_unknown_response_field_is_stored_and_sent_back():
    message = {"role": "assistant", "content": "Hi", "mood": {"warm": 1.10}}
    body = {"id": "1", "model": "dawn", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    target = Target(
        msgspec.structs.replace(NEW_PROVIDER, chat=ChatSwitches(replayed_fields=("mood",))), "dawn", "openai-chat"
    )
    reply = decode_body(codecs.codec_for("openai-chat").decoder(target), json.dumps(body).encode())

    assert stored.load_response(stored.dump_response(reply)) == reply
    request = ChatRequest(model="dawn", messages=(UserMessage("Hello"), reply.message, UserMessage("And?")))
    written = json.loads(write_request(request, target).body)
    assert written["messages"][1]["mood"] == {"warm": 1.10}
