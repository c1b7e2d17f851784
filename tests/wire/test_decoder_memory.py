"""The memory of a decoder: little more than the text so far, however many pieces it has."""

from __future__ import annotations

import gc
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.replies import DIALECTS, named_events, unnamed_events
from strategies import words
from tenuto.core.blocks import Text
from tenuto.core.events import ContentDelta
from tenuto.core.provider import Provider, Target
from tenuto.errors import IncompleteResponse
from tenuto.wire.assembler import BlockAssembler
from tenuto.wire.codec import codec_for
from tenuto.wire.framing import FrameReader

PIECES = [f"piece number {index:06} " for index in range(600)]
TEXT = "".join(PIECES)
STATE = 8_000
"""Bytes of a decoder without the text. As separate pieces, the text would take 46,000."""


def decoder(dialect):
    return codec_for(dialect).decoder(Target(Provider("row", dialect, "https://example.org"), "m", dialect))


def anthropic(pieces):
    message = {"id": "msg_1", "type": "message", "model": "m", "content": []}
    return named_events(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )


def responses(pieces):
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    response = {"id": "resp_1", "model": "m", "output": []}
    whole = {**item, "content": [{"type": "output_text", "text": "".join(pieces), "annotations": []}]}
    return unnamed_events(
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *(
            {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": piece}
            for piece in pieces
        ),
        {"type": "response.completed", "response": {**response, "status": "completed", "output": [whole]}},
    )


def chat(pieces, choices=1):
    def chunk(index, delta, finish=None):
        return {"id": "c1", "model": "m", "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}

    chunks = [chunk(at, {"content": piece}) for piece in pieces for at in range(choices)]
    return unnamed_events(*chunks, *(chunk(at, {}, "stop") for at in range(choices)), b"[DONE]")


def gemini(pieces):
    def chunk(text, **more):
        return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, **more}], "responseId": "r1"}

    *most, last = pieces
    return unnamed_events(*map(chunk, most), chunk(last, finishReason="STOP"))


STREAMS = dict(zip(DIALECTS, (anthropic, responses, chat, gemini), strict=True))


def allocated(reading, events):
    """The bytes that a decoder has allocated after these events, fed one by one."""
    gc.collect()
    tracemalloc.start()
    try:
        for event in events:
            reading.feed(event)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_pieces_take_little_more_memory_than_their_text(dialect):
    """A separate piece takes four times its characters: most of a client's memory with many streams."""
    events, reading = STREAMS[dialect](PIECES), decoder(dialect)
    first = events[: len(PIECES) - 10]

    assert allocated(reading, first) < 1.25 * len(TEXT) + STATE
    for event in events[len(first) :]:
        reading.feed(event)
    assert reading.finish()[-1].response.message.blocks[0].text == TEXT


def test_interleaved_parts_are_all_packed():
    events, reading = chat(PIECES, choices=2), decoder("openai-chat")

    assert allocated(reading, events[: 2 * len(PIECES)]) < 1.25 * 2 * len(TEXT) + STATE
    reading.feed(b"".join(events[2 * len(PIECES) :]))
    assert [choice.message.blocks[0].text for choice in reading.finish()[-1].response.choices] == [TEXT, TEXT]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("many", [1, 7, 31, 400])
def test_reply_does_not_depend_on_events_per_chunk(dialect, many):
    events = STREAMS[dialect](PIECES[:300])
    reading, received = decoder(dialect), []
    for at in range(0, len(events), many):
        received += reading.feed(b"".join(events[at : at + many]))
    done = reading.finish()[-1]

    once = decoder(dialect)
    assert received == once.feed(b"".join(events))
    assert done == once.finish()[-1]
    assert [event.delta.text for event in received if type(event) is ContentDelta] == PIECES[:300]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_partial_reply_has_every_piece(dialect):
    reading = decoder(dialect)
    for event in STREAMS[dialect](PIECES)[:100]:
        reading.feed(event)

    with pytest.raises(IncompleteResponse) as caught:
        reading.finish()
    text = caught.value.partial.message.blocks[0].text
    assert TEXT.startswith(text)
    assert len(text) >= 98 * len(PIECES[0])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_decoder_keeps_no_returned_event_and_no_bytes(dialect):
    events, reading = STREAMS[dialect](PIECES), decoder(dialect)
    fed = b"".join(events[:20])
    before = sys.getrefcount(fed)
    events = reading.feed(fed)

    free = [object() for _ in events]
    assert {sys.getrefcount(event) for event in events} == {sys.getrefcount(thing) for thing in free}
    assert sys.getrefcount(fed) == before
    assert reading.feed(b"") == []


@pytest.mark.parametrize("start", [b'data: {"a":1}\n\n', b'[{"a":1},'])
def test_frame_reader_keeps_no_bytes_of_complete_frames(start):
    reader, first = FrameReader(), start * 1
    before = sys.getrefcount(first)

    assert [data for _, data in reader.feed(first)] == [b'{"a":1}']
    assert sys.getrefcount(first) == before


@given(st.lists(st.one_of(words, st.sampled_from([None, True]))))
def test_packing_does_not_change_the_block(acts):
    """A word is a piece; None packs; True reads the block so far."""
    assembler = BlockAssembler()
    slot = assembler.begin(Text(""))
    text = ""
    for act in acts:
        if act is None:
            slot.pack()
        elif act is True:
            assert slot.joined() == Text(text)
        else:
            slot.pieces.append(act)
            text += act

    assert "".join(slot.pieces) == text
    assert assembler.finish(slot) == Text(text)
    assert slot.pieces == []


def test_packed_pieces_are_not_joined_again():
    """Otherwise every packing would copy the text: quadratic cost."""
    assembler = BlockAssembler()
    slot = assembler.begin(Text(""))
    firsts = []
    for _ in range(5):
        slot.pieces += ["ab", "cd", "ef"]
        slot.pack()
        firsts.append(slot.pieces[0])

    assert slot.pieces == ["abcdef"] * 5
    assert all(first is firsts[0] for first in firsts)
    slot.pack()
    assert slot.pieces == ["abcdef"] * 5


def test_pieces_after_joined_are_packed_apart():
    slot = BlockAssembler().begin(Text(""))
    for pieces in (["a", "b"], ["c", "d"]):
        slot.pieces += pieces
        slot.pack()
    slot.joined()
    slot.pieces += ["e", "f"]
    slot.pack()

    assert slot.pieces == ["abcd", "ef"]


def test_finished_slot_packs_later_pieces():
    """Text of `on_text_delta` grows after it was finished."""
    assembler = BlockAssembler()
    slot = assembler.begin(Text(""))
    slot.pieces += ["a", "b"]
    slot.pack()
    assembler.finish(slot)
    slot.pieces += ["c", "d"]
    slot.pack()

    assert slot.pieces == ["cd"]
    assert assembler.finalize() == [Text("abcd")]
