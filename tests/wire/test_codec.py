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
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Origin, Usage
from tenuto.core.provider import Provider, Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import IncompleteResponse, LLMError, OrphanedReasoningDelta, ProtocolError, Unavailable
from tenuto.wire.decoder import Decoder, decode_body, decode_stream, new_id
from tenuto.wire.provider_errors import classify_error
from tenuto.wire.registry import codec_for, dialect_names

TARGET = Target(Provider("row", "gemini", "https://example.org"), "model-1", "gemini", account="acc")


class Toy(Decoder):
    """A dialect of one word a frame: text to say, or a thing to go wrong."""

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
        message = AssistantMessage(blocks, origin=self.origin("other"), incomplete=partial)
        return ChatResponse("id", "row", "model-1", (Choice(message),), losses=tuple(self.losses))


def frames(*words, name=b""):
    head = b"event: " + name + b"\n" if name else b""
    return b"".join(head + b"data: " + jsonio.encode(word) + b"\n\n" for word in words)


SAID = Text("Hello", meta=AnthropicMeta("s"))
GOOD = frames("Hel", "lo", "end")


# --- a reply ----------------------------------------------------------------------------------------------------------


def test_events_come_as_their_bytes_do_and_the_last_carries_the_reply():
    decoder = Toy()

    assert decoder.feed(GOOD[:-1]) == [
        MessageStart("id", "model-1"),
        ContentStart(0, 0, Text("", meta=AnthropicMeta("s"))),
        ContentDelta(0, 0, TextDelta("Hel")),
        ContentDelta(0, 0, TextDelta("lo")),
    ]
    last = decoder.finish()
    assert last[0] == ContentDone(0, 0, SAID)
    assert isinstance(last[1], MessageDone)
    assert last[1].response.message.blocks == (SAID,)


def test_events_stay_what_they_were():
    """A list that was handed out must not fill up with later events."""
    decoder = Toy()
    first = decoder.feed(frames("Hel"))
    decoder.feed(frames("lo"))

    assert first[-1] == ContentDelta(0, 0, TextDelta("Hel"))
    assert len(first) == 3


def test_a_body_that_did_not_stream_gives_the_same_reply():
    body = b'{"words":["Hel","lo","end"]}'

    assert decode_body(Toy(), body) == decode_stream(Toy(), [GOOD])
    assert decode_stream(Toy(), [body[:5], body[5:]]) == decode_stream(Toy(), [GOOD]), (
        "also where a stream was asked for"
    )


def test_finishing_twice_gives_the_reply_twice():
    decoder = Toy()
    decoder.feed(GOOD)

    assert decoder.finish()[-1] == decoder.finish()[-1]


def test_the_origin_names_whom_the_tokens_go_back_to():
    assert Toy().origin("other") == Origin("row", "gemini", "model-1", "acc")
    assert Toy(Target(TARGET.provider, "", "gemini")).origin("other") == Origin("row", "gemini", "other")


def test_losses_are_on_the_reply():
    decoder = Toy()
    decoder.record_loss("unknown-event", "stream", "ping")
    decoder.feed(GOOD)

    assert decoder.finish()[-1].response.losses == (Loss("unknown-event", "stream", "ping"),)


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_fault_is_told_after_what_came_before_it():
    decoder = Toy()
    events = decoder.feed(frames("Hel") + b"data: {broken\n\n" + frames("lo", "end"))

    assert events[-2] == ContentDelta(0, 0, TextDelta("Hel"))
    assert isinstance(events[-1], ErrorEvent)
    assert events[-1].raw == "{broken"
    assert decoder.feed(frames("more")) == [], "nothing more is read"
    with pytest.raises(ProtocolError, match="unreadable frame") as caught:
        decoder.finish()
    assert caught.value.frame == b"{broken"
    assert caught.value.provider == "row"
    assert isinstance(caught.value.__cause__, ValueError)


def test_what_was_assembled_is_on_the_error_without_unconfirmed_tokens():
    with pytest.raises(ProtocolError) as caught:
        decode_stream(Toy(), [frames("Hel") + b"data: {\n\n", b"never read"])

    assert caught.value.partial.message == AssistantMessage((Text("Hel"),), origin=Toy().origin(""), incomplete=True)


def faulty(exception):
    """The three ways to read a reply, with a decoder that raises."""

    class Faulty(Toy):
        def frame(self, name, data):
            raise exception

        def body(self, data):
            raise exception

    return (
        lambda: decode_stream(Faulty(), [GOOD]),
        lambda: decode_body(Faulty(), b"{}"),
        lambda: decode_stream(Faulty(), [b"{}"]),
        lambda: decode_stream(Faulty(), [b'data: "x"']),
    )


@pytest.mark.parametrize("exception", [ValueError, jsonio.JsonError, msgspec.ValidationError, RecursionError])
def test_malformed_data_becomes_a_protocol_error(exception):
    *acts, cut = faulty(exception("odd"))
    for act in acts:
        with pytest.raises(ProtocolError, match="odd"):
            act()
    with pytest.raises(IncompleteResponse):
        cut()


@pytest.mark.parametrize(
    "exception", [KeyError, IndexError, TypeError, AttributeError, ZeroDivisionError, AssertionError]
)
def test_bug_of_ours_is_not_a_protocol_error(exception):
    for act in faulty(exception("ours")):
        with pytest.raises(exception, match="ours"):
            act()


@pytest.mark.parametrize("part", ["complete", "response"])
def test_bug_of_ours_at_the_end_is_not_a_protocol_error(part):
    def fail(*_, **__):
        raise TypeError("ours")

    with pytest.raises(TypeError, match="ours"):
        decode_stream(type("Faulty", (Toy,), {part: fail})(), [GOOD])


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
    decoder = codec_for(dialect).decoder(Target(Provider("row", dialect, ""), "model-1", dialect))
    with pytest.raises(ProtocolError) as caught:
        decode_stream(decoder, [b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)])

    assert str(caught.value) == text
    assert json.loads(caught.value.frame) == frames[-1]


@pytest.mark.parametrize("dialect", dialect_names())
def test_error_shows_the_start_of_a_body_that_is_not_json(dialect):
    page = "<html>" + "Bad gateway ☃ " * 40
    decoder = codec_for(dialect).decoder(Target(Provider("row", dialect, ""), "model-1", dialect))
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
def test_last_frame_without_newline_is_told_before_the_error(dialect, frames, cut):
    decoder = codec_for(dialect).decoder(Target(Provider("row", dialect, ""), "model-1", dialect))
    stream = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames).rstrip() + cut
    events = [*decoder.feed(stream.encode()), *decoder.drain()]
    with pytest.raises(IncompleteResponse) as caught:
        decoder.finish()

    assert caught.value.partial.text == "ab"
    assert "".join(e.delta.text for e in events if isinstance(e, ContentDelta)) == "ab"


def test_drain_tells_of_a_frame_that_was_cut():
    decoder = Toy()
    events = [*decoder.feed(frames("Hel") + b"data: {"), *decoder.drain()]

    assert isinstance(events[-1], ErrorEvent)
    assert decoder.drain() == []
    with pytest.raises(IncompleteResponse, match="middle of an event"):
        decoder.finish()


def test_drain_gives_no_event_twice():
    decoder = Toy()
    events = [*decoder.feed(GOOD[:-1]), *decoder.drain(), *decoder.finish()]

    assert [type(event) for event in events[-2:]] == [ContentDone, MessageDone]
    assert len([event for event in events if isinstance(event, ContentDone)]) == 1


def test_events_that_make_no_block_become_the_same_error():
    with pytest.raises(ProtocolError, match="delta for unknown reasoning block") as caught:
        decode_stream(Toy(), [frames("orphan")])

    assert isinstance(caught.value.__cause__, OrphanedReasoningDelta)


def test_a_fault_in_our_own_code_is_not_hidden():
    class Faulty(Toy):
        def frame(self, name, data):
            raise NotImplementedError

    with pytest.raises(NotImplementedError):
        Faulty().feed(GOOD)


def test_an_error_inside_the_stream_is_raised_as_what_it_is():
    error = frames({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, name=b"error")
    with pytest.raises(Unavailable, match="Overloaded") as caught:
        decode_stream(Toy(), [frames("Hel"), error])

    assert caught.value.provider == "row"
    assert caught.value.partial.text == "Hel"


def test_a_stream_without_its_last_word_is_incomplete():
    with pytest.raises(IncompleteResponse, match="before its last event") as caught:
        decode_stream(Toy(), [frames("Hel")])

    assert caught.value.retryable
    assert caught.value.partial.text == "Hel"


def test_a_last_frame_without_newline_is_read_and_judged():
    assert decode_stream(Toy(), [GOOD.rstrip()]).text == "Hello"
    with pytest.raises(IncompleteResponse, match="middle of an event") as caught:
        decode_stream(Toy(), [frames("Hel") + b"data: {"])
    assert caught.value.partial.text == "Hel"


def test_an_event_that_is_too_large_is_an_error_with_what_came_before():
    decoder = Toy()
    decoder._reader._limit = 20
    with pytest.raises(ProtocolError, match="larger than 20 bytes") as caught:
        decode_stream(decoder, [frames("Hel", "lo") + b"data: " + b"x" * 30])

    assert caught.value.partial.text == "Hello"


def test_the_first_of_several_faults_counts():
    decoder = Toy()
    decoder.feed(b"data: {first\n\ndata: {second")
    with pytest.raises(ProtocolError) as caught:
        decoder.finish()

    assert caught.value.frame == b"{first"


def test_a_reply_that_cannot_be_assembled_is_an_error_too():
    class Faulty(Toy):
        def response(self, *, partial):
            raise ValueError("blocks")

    with pytest.raises(ProtocolError, match="blocks") as caught:
        decode_stream(Faulty(), [GOOD])

    nothing = (Choice(AssistantMessage((), incomplete=True)),)
    told = Loss("unassembled", "reply", "the partial reply cannot be assembled: ValueError('blocks')")
    assert caught.value.partial == ChatResponse("", "row", "model-1", nothing, losses=(told,))


def test_what_has_come_so_far_can_be_had_at_any_time():
    decoder = Toy()
    assert decoder.partial().message == AssistantMessage((), origin=decoder.origin(""), incomplete=True)
    decoder.feed(frames("Hel"))
    assert decoder.partial().message == AssistantMessage((Text("Hel"),), origin=decoder.origin(""), incomplete=True)
    decoder.feed(frames("lo", "end"))
    assert decoder.partial().text == decoder.finish()[-1].response.text == "Hello"


def test_what_has_come_is_an_incomplete_message_also_if_no_answer_began():
    class Mute(Toy):
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
def test_what_cannot_be_put_together_is_told(dialect, body):
    """Whoever cancels gets an incomplete reply, and no exception of ours or of another."""
    decoder = codec_for(dialect).decoder(Target(Provider("row", dialect, ""), "model-1", dialect))
    events = decoder.feed(body)
    partial = decoder.partial()

    assert isinstance(events[0], MessageStart)
    assert (partial.provider, partial.model, partial.message.incomplete) == ("row", "model-1", True)
    assert [loss.kind for loss in partial.losses if loss.kind == "unassembled"] == ["unassembled"]


def test_an_error_can_be_printed_whatever_the_bytes_were():
    class Faulty(Toy):
        def frame(self, name, data):
            raise ValueError("odd \ud800")

    with pytest.raises(ProtocolError) as caught:
        decode_stream(Faulty(), [GOOD])

    assert str(caught.value).startswith("unreadable frame: odd \ufffd")


def test_a_fault_while_closing_is_an_error_too():
    class Faulty(Toy):
        def complete(self):
            raise ValueError("odd")

    with pytest.raises(ProtocolError, match="odd"):
        decode_stream(Faulty(), [GOOD])


@given(st.lists(st.binary(max_size=30), max_size=4))
def test_any_bytes_raise_nothing_but_our_errors(pieces):
    with pytest.raises(LLMError):
        decode_stream(Toy(), pieces)


# --- parts ------------------------------------------------------------------------------------------------------------


def told(act):
    decoder = Toy()
    result = act(decoder._parts)
    return result, decoder.out, decoder.losses


def test_a_part_that_came_whole_is_started_grown_and_done():
    block, events, _ = told(lambda parts: parts.add(Text("Hi"), TextDelta("Hi")))

    assert block == Text("Hi")
    assert events == [
        ContentStart(0, 0, Text("Hi")),
        ContentDelta(0, 0, TextDelta("Hi")),
        ContentDone(0, 0, Text("Hi")),
    ]
    assert told(lambda parts: parts.add(Reasoning()))[1] == [
        ContentStart(0, 0, Reasoning()),
        ContentDone(0, 0, Reasoning()),
    ]


def test_a_part_that_came_whole_may_start_bare():
    block, events, _ = told(lambda parts: parts.add(Text("Hi"), TextDelta("Hi"), Text("")))

    assert block == Text("Hi")
    assert events[0] == ContentStart(0, 0, Text(""))
    assert events[-1] == ContentDone(0, 0, Text("Hi"))


def finished(call):
    return told(lambda parts: parts.finish(parts.start(ToolUse(call.id, call.name, "")), call))


def test_arguments_that_are_json_are_not_broken():
    call = ToolUse("a", "f", '{"x":1}')

    assert finished(call) == (call, [ContentStart(0, 0, ToolUse("a", "f", "")), ContentDone(0, 0, call)], [])


def test_arguments_that_are_not_json_are_kept_with_the_reason_and_a_loss():
    block, events, losses = finished(ToolUse("a", "f", '{"x":'))

    assert block.args == '{"x":'
    assert block.args_error
    assert events[-1] == ContentDone(0, 0, block)
    assert losses == [
        Loss("broken-arguments", "choices[0].blocks[0].args", f"f: {block.args_error}", "answer the call with an error")
    ]


@pytest.mark.parametrize(
    "call", [ToolUse("a", "f", "select 1", "custom"), ToolUse("a", "f", ""), ToolUse("a", "f", "{", args_error="known")]
)
def test_free_text_and_absent_arguments_are_not_broken(call):
    assert finished(call)[0] == call


def test_what_is_no_piece_of_a_part_is_told_without_growing_it():
    def act(parts):
        slot = parts.start(Reasoning())
        parts.emit(slot, SignatureDelta("s"))
        return parts.finish(slot)

    block, events, _ = told(act)

    assert block == Reasoning()
    assert ContentDelta(0, 0, SignatureDelta("s")) in events


# --- ids --------------------------------------------------------------------------------------------------------------


def test_minted_ids_are_the_same_for_the_same_bytes_and_differ_otherwise():
    ids = {
        new_id(*args) for args in (("", "r", 0, 0), ("s", "r", 0, 0), ("", "r", 1, 0), ("", "r", 0, 1), ("", "", 0, 0))
    }

    assert len(ids) == 5
    assert new_id("s", "r", 0, 1) == new_id("s", "r", 0, 1)
    assert new_id("\ud800", "r", 0, 0).startswith("tnt_")
    assert all(len(id) <= 40 and id.replace("_", "").isalnum() for id in ids)
