from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.core import jsonio
from tenuto.core.blocks import AnthropicMeta, Reasoning, Text, ToolUse
from tenuto.core.events import (
    ContentDelta,
    ContentDone,
    ContentStart,
    ErrorEvent,
    MessageDone,
    MessageStart,
    SignatureDelta,
    TextDelta,
)
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Origin, Usage
from tenuto.core.provider import Provider, Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import IncompleteResponse, LLMError, OrphanedReasoningDelta, ProtocolError, Unavailable
from tenuto.wire.codec import codec_for, dialect_names
from tenuto.wire.decoder import Decoder, decode_body, decode_stream, new_id
from tenuto.wire.provider_errors import classify_error

TARGET = Target(Provider("row", "gemini", "https://example.org"), "model-1", "gemini", account="acc")


def new_decoder(dialect):
    return codec_for(dialect).decoder(Target(Provider("row", dialect, ""), "model-1", dialect))


class ToyDialect(Decoder):
    """A dialect with one word per frame: text, or the name of a fault."""

    dialect = "gemini"

    def __init__(self, target=TARGET, **options):
        super().__init__(target, **options)
        self._parts = self.parts()
        self._slot = None
        self._ended_well = False

    def frame(self, name, data):
        if name == b"error":
            raise classify_error(data, provider="")
        word = json.loads(data)
        if word == "end":
            self._parts.finish(self._slot)
            self._ended_well = True
        elif word == "orphan":
            self._parts.assembler.on_reasoning_delta("x")
        elif self._slot is None:
            self.out.append(MessageStart("id", "model-1"))
            self._slot = self._parts.start(Text("", meta=AnthropicMeta("s")))
        if word not in ("end", "orphan"):
            self._parts.append(self._slot, word, TextDelta(word))

    def body(self, data):
        for word in json.loads(data)["words"]:
            self.frame(b"", jsonio.encode(word))

    def complete(self):
        return self._ended_well

    def response(self, *, partial):
        assembler = self._parts.assembler
        blocks = tuple(assembler.unfinished() if partial else assembler.finalize())
        message = AssistantMessage(blocks, origin=self.origin(), incomplete=partial)
        return ChatResponse("id", "row", "model-1", (Choice(message),), losses=tuple(self.losses))


def frames(*words, name=b""):
    head = b"event: " + name + b"\n" if name else b""
    return b"".join(head + b"data: " + jsonio.encode(word) + b"\n\n" for word in words)


HELLO = Text("Hello", meta=AnthropicMeta("s"))
GOOD = frames("Hel", "lo", "end")


# --- a reply ----------------------------------------------------------------------------------------------------------


def test_events_follow_the_bytes_and_the_last_has_the_reply():
    decoder = ToyDialect()

    assert decoder.feed(GOOD[:-1]) == [
        MessageStart("id", "model-1"),
        ContentStart(0, 0, Text("", meta=AnthropicMeta("s"))),
        ContentDelta(0, 0, TextDelta("Hel")),
        ContentDelta(0, 0, TextDelta("lo")),
    ]
    last = decoder.finish()
    assert last[0] == ContentDone(0, 0, HELLO)
    assert isinstance(last[1], MessageDone)
    assert last[1].response.message.blocks == (HELLO,)


def test_returned_events_do_not_change():
    """Later events do not appear in a list that was returned earlier."""
    decoder = ToyDialect()
    first = decoder.feed(frames("Hel"))
    decoder.feed(frames("lo"))

    assert first[-1] == ContentDelta(0, 0, TextDelta("Hel"))
    assert len(first) == 3


def test_body_gives_the_same_reply_as_a_stream():
    body = b'{"words":["Hel","lo","end"]}'

    assert decode_body(ToyDialect(), body) == decode_stream(ToyDialect(), [GOOD])
    assert decode_stream(ToyDialect(), [body[:5], body[5:]]) == decode_stream(ToyDialect(), [GOOD])


def test_finish_returns_the_reply_again():
    decoder = ToyDialect()
    decoder.feed(GOOD)

    assert decoder.finish()[-1] == decoder.finish()[-1]


def test_origin_names_the_issuer_of_tokens():
    assert ToyDialect().origin() == Origin("row", "gemini", "model-1", "acc")
    without_model = ToyDialect(Target(TARGET.provider, "", "gemini"))
    without_model.model = "other"
    assert without_model.origin() == Origin("row", "gemini", "other")


def test_reply_has_the_losses():
    decoder = ToyDialect()
    decoder.record_loss("unknown-event", "stream", "ping")
    decoder.feed(GOOD)

    assert decoder.finish()[-1].response.losses == (Loss("unknown-event", Location(path="stream"), "ping"),)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_error_event_follows_the_events_before_it():
    decoder = ToyDialect()
    events = decoder.feed(frames("Hel") + b"data: {broken\n\n" + frames("lo", "end"))

    assert events[-2] == ContentDelta(0, 0, TextDelta("Hel"))
    assert isinstance(events[-1], ErrorEvent)
    assert events[-1].raw == "{broken"
    assert decoder.feed(frames("more")) == []
    with pytest.raises(ProtocolError, match="unreadable frame") as caught:
        decoder.finish()
    assert caught.value.frame == b"{broken"
    assert caught.value.provider == "row"
    assert isinstance(caught.value.__cause__, ValueError)


def test_error_has_the_partial_reply_without_open_tokens():
    with pytest.raises(ProtocolError) as caught:
        decode_stream(ToyDialect(), [frames("Hel") + b"data: {\n\n", b"never read"])

    assert caught.value.partial.message == AssistantMessage(
        (Text("Hel"),), origin=ToyDialect().origin(), incomplete=True
    )


def raising(exception, *methods):
    """Return a decoder whose methods raise the exception."""

    def fail(*_, **__):
        raise exception

    return type("Faulty", (ToyDialect,), dict.fromkeys(methods, fail))()


def ways_to_read(exception):
    """The ways to read a reply with a decoder that raises; in the last one, the frame has no end."""
    return (
        lambda: decode_stream(raising(exception, "frame"), [GOOD]),
        lambda: decode_body(raising(exception, "body"), b"{}"),
        lambda: decode_stream(raising(exception, "body"), [b"{}"]),
        lambda: decode_stream(raising(exception, "frame"), [b'data: "x"']),
    )


@pytest.mark.parametrize("exception", [ValueError, jsonio.JsonError, msgspec.ValidationError, RecursionError])
def test_malformed_data_becomes_a_protocol_error(exception):
    *acts, cut = ways_to_read(exception("odd"))
    for act in acts:
        with pytest.raises(ProtocolError, match="odd"):
            act()
    with pytest.raises(IncompleteResponse):
        cut()


@pytest.mark.parametrize(
    "exception",
    [KeyError, IndexError, TypeError, AttributeError, ZeroDivisionError, AssertionError, NotImplementedError],
)
def test_bug_in_a_decoder_is_not_a_protocol_error(exception):
    for act in ways_to_read(exception("ours")):
        with pytest.raises(exception, match="ours"):
            act()


@pytest.mark.parametrize("part", ["complete", "response"])
def test_bug_at_the_end_is_not_a_protocol_error(part):
    with pytest.raises(TypeError, match="ours"):
        decode_stream(raising(TypeError("ours"), part), [GOOD])


ANTHROPIC = {"type": "message_start", "message": {"id": "m", "model": "c", "content": []}}
DELTA = {"type": "text_delta", "text": "x"}


@pytest.mark.parametrize(
    "dialect, frames, text",
    [
        ("anthropic-messages", [{"type": "message_start"}], "message_start without message"),
        (
            "anthropic-messages",
            [ANTHROPIC, {"type": "content_block_start", "index": 0}],
            "content_block_start without content_block",
        ),
        (
            "anthropic-messages",
            [ANTHROPIC, {"type": "content_block_start", "content_block": {}}],
            "content_block_start without index",
        ),
        ("anthropic-messages", [ANTHROPIC, {"type": "content_block_stop"}], "content_block_stop without index"),
        (
            "anthropic-messages",
            [ANTHROPIC, {"type": "content_block_delta", "index": 0}],
            "content_block_delta without delta",
        ),
        (
            "anthropic-messages",
            [ANTHROPIC, {"type": "content_block_delta", "delta": DELTA}],
            "content_block_delta without index",
        ),
        (
            "openai-responses",
            [{"type": "response.output_item.added", "output_index": 0}],
            "response.output_item.added without item",
        ),
        ("openai-responses", [{"type": "response.completed"}], "response.completed without response"),
        ("openai-responses", [{"type": "response.content_part.added"}], "response.content_part.added without part"),
    ],
)
def test_error_names_the_missing_field(dialect, frames, text):
    decoder = new_decoder(dialect)
    with pytest.raises(ProtocolError) as caught:
        decode_stream(decoder, [b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)])

    assert caught.value.message == text
    assert json.loads(caught.value.frame) == frames[-1]


@pytest.mark.parametrize("dialect", dialect_names())
def test_error_shows_the_start_of_a_body_that_is_not_json(dialect):
    page = "<html>" + "Bad gateway ☃ " * 40
    decoder = new_decoder(dialect)
    with pytest.raises(ProtocolError) as caught:
        decode_body(decoder, page.encode())

    assert page[:200] in str(caught.value)
    assert page[:201] not in str(caught.value)
    assert caught.value.frame == page.encode()


@pytest.mark.parametrize("cut", ["", "\n"])
@pytest.mark.parametrize(
    "dialect, frames",
    [
        (
            "gemini",
            [{"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}]} for text in "ab"],
        ),
        (
            "openai-chat",
            [{"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]} for text in "ab"],
        ),
        (
            "anthropic-messages",
            [
                ANTHROPIC,
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "b"}},
            ],
        ),
        (
            "openai-responses",
            [{"type": "response.output_text.delta", "output_index": 0, "delta": text} for text in "ab"],
        ),
    ],
)
def test_last_frame_without_newline_precedes_the_error(dialect, frames, cut):
    decoder = new_decoder(dialect)
    stream = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames).rstrip() + cut
    events = [*decoder.feed(stream.encode()), *decoder.drain()]
    with pytest.raises(IncompleteResponse) as caught:
        decoder.finish()

    assert caught.value.partial.text == "ab"
    assert "".join(e.delta.text for e in events if isinstance(e, ContentDelta)) == "ab"


def test_drain_reports_a_cut_frame():
    decoder = ToyDialect()
    events = [*decoder.feed(frames("Hel") + b"data: {"), *decoder.drain()]

    assert isinstance(events[-1], ErrorEvent)
    assert decoder.drain() == []
    with pytest.raises(IncompleteResponse, match="middle of an event"):
        decoder.finish()


def test_drain_returns_no_event_twice():
    decoder = ToyDialect()
    events = [*decoder.feed(GOOD[:-1]), *decoder.drain(), *decoder.finish()]

    assert [type(event) for event in events[-2:]] == [ContentDone, MessageDone]
    assert len([event for event in events if isinstance(event, ContentDone)]) == 1


def test_assembly_error_becomes_a_protocol_error():
    with pytest.raises(ProtocolError, match="delta for unknown reasoning block") as caught:
        decode_stream(ToyDialect(), [frames("orphan")])

    assert isinstance(caught.value.__cause__, OrphanedReasoningDelta)


def test_error_inside_the_stream_keeps_its_class():
    error = frames({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, name=b"error")
    with pytest.raises(Unavailable, match="Overloaded") as caught:
        decode_stream(ToyDialect(), [frames("Hel"), error])

    assert caught.value.provider == "row"
    assert caught.value.partial.text == "Hel"


def test_stream_without_last_event_is_incomplete():
    with pytest.raises(IncompleteResponse, match="before its last event") as caught:
        decode_stream(ToyDialect(), [frames("Hel")])

    assert caught.value.retryable
    assert caught.value.partial.text == "Hel"


def test_last_frame_without_newline_is_read():
    assert decode_stream(ToyDialect(), [GOOD.rstrip()]).text == "Hello"
    with pytest.raises(IncompleteResponse, match="middle of an event") as caught:
        decode_stream(ToyDialect(), [frames("Hel") + b"data: {"])
    assert caught.value.partial.text == "Hel"


def test_error_for_large_event_has_the_reply_so_far():
    decoder = ToyDialect()
    decoder._reader._limit = 20
    with pytest.raises(ProtocolError, match="larger than 20 bytes") as caught:
        decode_stream(decoder, [frames("Hel", "lo") + b"data: " + b"x" * 30])

    assert caught.value.partial.text == "Hello"


def test_first_of_several_errors_is_raised():
    decoder = ToyDialect()
    decoder.feed(b"data: {first\n\ndata: {second")
    with pytest.raises(ProtocolError) as caught:
        decoder.finish()

    assert caught.value.frame == b"{first"


def test_reply_that_cannot_be_assembled_is_an_error():
    with pytest.raises(ProtocolError, match="blocks") as caught:
        decode_stream(raising(ValueError("blocks"), "response"), [GOOD])

    nothing = (Choice(AssistantMessage((), incomplete=True)),)
    loss = Loss("unassembled", Location(path="reply"), "the partial reply cannot be assembled: ValueError('blocks')")
    assert caught.value.partial == ChatResponse("", "row", "model-1", nothing, losses=(loss,))


def test_partial_returns_the_reply_so_far():
    decoder = ToyDialect()
    assert decoder.partial().message == AssistantMessage((), origin=decoder.origin(), incomplete=True)
    decoder.feed(frames("Hel"))
    assert decoder.partial().message == AssistantMessage((Text("Hel"),), origin=decoder.origin(), incomplete=True)
    decoder.feed(frames("lo", "end"))
    assert decoder.partial().text == decoder.finish()[-1].response.text == "Hello"


def test_partial_has_a_message_without_any_choice():
    class Mute(ToyDialect):
        def response(self, *, partial):
            return ChatResponse("id", "row", "model-1", (), Usage(input_tokens=1))

    nothing = (Choice(AssistantMessage((), incomplete=True)),)
    assert Mute().partial() == ChatResponse("id", "row", "model-1", nothing, Usage(input_tokens=1))


@pytest.mark.parametrize(
    "dialect, body",
    [
        ("openai-chat", b'data: {"id":"a","choices":[{"index":0,"delta":{"role":"assis\x81ant","content":"x"}}]}\n\n'),
        ("gemini", b'data: {"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":"x"}\n\n'),
    ],
)
def test_partial_reports_a_reply_that_cannot_be_assembled(dialect, body):
    decoder = new_decoder(dialect)
    events = decoder.feed(body)
    partial = decoder.partial()

    assert isinstance(events[0], MessageStart)
    assert (partial.provider, partial.model, partial.message.incomplete) == ("row", "model-1", True)
    assert [loss.kind for loss in partial.losses if loss.kind == "unassembled"] == ["unassembled"]


def test_error_message_is_printable():
    with pytest.raises(ProtocolError) as caught:
        decode_stream(raising(ValueError("odd \ud800"), "frame"), [GOOD])

    assert caught.value.message.startswith("unreadable frame: odd \ufffd")


def test_malformed_data_found_by_complete_is_an_error():
    with pytest.raises(ProtocolError, match="odd"):
        decode_stream(raising(ValueError("odd"), "complete"), [GOOD])


@given(st.lists(st.binary(max_size=30), max_size=4))
def test_any_bytes_raise_only_llm_errors(pieces):
    with pytest.raises(LLMError):
        decode_stream(ToyDialect(), pieces)


# --- parts ------------------------------------------------------------------------------------------------------------


def emitted_events(act):
    decoder = ToyDialect()
    result = act(decoder._parts)
    return result, decoder.out, decoder.losses


def test_complete_part_emits_start_delta_and_done():
    block, events, _ = emitted_events(lambda parts: parts.add(Text("Hi"), TextDelta("Hi")))

    assert block == Text("Hi")
    assert events == [
        ContentStart(0, 0, Text("Hi")),
        ContentDelta(0, 0, TextDelta("Hi")),
        ContentDone(0, 0, Text("Hi")),
    ]
    assert emitted_events(lambda parts: parts.add(Reasoning()))[1] == [
        ContentStart(0, 0, Reasoning()),
        ContentDone(0, 0, Reasoning()),
    ]


def finish_call(call):
    return emitted_events(lambda parts: parts.finish(parts.start(ToolUse(call.id, call.name, "")), call))


def test_valid_arguments_are_not_a_loss():
    call = ToolUse("a", "f", '{"x":1}')

    assert finish_call(call) == (call, [ContentStart(0, 0, ToolUse("a", "f", "")), ContentDone(0, 0, call)], [])


def test_invalid_arguments_stay_with_reason_and_loss():
    block, events, losses = finish_call(ToolUse("a", "f", '{"x":'))

    assert block.args == '{"x":'
    assert block.args_error
    assert events[-1] == ContentDone(0, 0, block)
    assert losses == [
        Loss(
            "broken-arguments",
            Location(path="choices[0].blocks[0].args"),
            f"f: {block.args_error}",
            "answer the call with an error",
        )
    ]


@pytest.mark.parametrize(
    "call", [ToolUse("a", "f", "select 1", "custom"), ToolUse("a", "f", ""), ToolUse("a", "f", "{", args_error="known")]
)
def test_free_text_and_missing_arguments_are_not_a_loss(call):
    assert finish_call(call)[0] == call


def test_emitted_delta_does_not_extend_the_part():
    def act(parts):
        slot = parts.start(Reasoning())
        parts.emit(slot, SignatureDelta("s"))
        return parts.finish(slot)

    block, events, _ = emitted_events(act)

    assert block == Reasoning()
    assert ContentDelta(0, 0, SignatureDelta("s")) in events


# --- ids --------------------------------------------------------------------------------------------------------------


def test_new_id_depends_only_on_its_arguments():
    ids = {
        new_id(*args) for args in (("", "r", 0, 0), ("s", "r", 0, 0), ("", "r", 1, 0), ("", "r", 0, 1), ("", "", 0, 0))
    }

    assert len(ids) == 5
    assert new_id("s", "r", 0, 1) == new_id("s", "r", 0, 1)
    assert new_id("\ud800", "r", 0, 0).startswith("tnt_")
    assert all(len(id) <= 40 and id.replace("_", "").isalnum() for id in ids)
