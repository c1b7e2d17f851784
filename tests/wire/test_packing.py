"""What is held of a reply on its way: little more than its text, in however many pieces it comes."""

from __future__ import annotations

import gc
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.replies import DIALECTS, named, plain
from strategies import words
from tenuto.core.blocks import Text
from tenuto.core.events import ContentDelta
from tenuto.core.provider import Provider, Target
from tenuto.errors import IncompleteResponse
from tenuto.wire.assembler import BlockAssembler
from tenuto.wire.framing import FrameReader
from tenuto.wire.registry import codec_for

PIECES = [f"piece number {at:06} " for at in range(600)]
TEXT = "".join(PIECES)
STATE = 8_000
"""What a decoder takes up beside the text, in bytes; each piece on its own, the text would take 46,000."""


def decoder(dialect):
    return codec_for(dialect).decoder(Target(Provider("row", dialect, "https://example.org"), "m", dialect))


def anthropic(pieces):
    message = {"id": "msg_1", "type": "message", "model": "m", "content": []}
    return named(
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
    return plain(
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

    said = [chunk(at, {"content": piece}) for piece in pieces for at in range(choices)]
    return plain(*said, *(chunk(at, {}, "stop") for at in range(choices)), b"[DONE]")


def gemini(pieces):
    def chunk(text, **more):
        return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, **more}], "responseId": "r1"}

    *most, last = pieces
    return plain(*map(chunk, most), chunk(last, finishReason="STOP"))


STREAMS = dict(zip(DIALECTS, (anthropic, responses, chat, gemini), strict=True))


def held(reading, events):
    """The bytes that a decoder has taken up when it has read these events, one after the other."""
    gc.collect()
    tracemalloc.start()
    try:
        for event in events:
            reading.feed(event)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_many_pieces_take_little_more_than_their_text(dialect):
    """A piece of its own costs four times its letters: with many streams at once, that is what a client is made of."""
    events, reading = STREAMS[dialect](PIECES), decoder(dialect)
    said = events[: len(PIECES) - 10]

    assert held(reading, said) < 1.25 * len(TEXT) + STATE
    for event in events[len(said) :]:
        reading.feed(event)
    assert reading.finish()[-1].response.message.blocks[0].text == TEXT


def test_parts_that_grow_in_turns_are_all_packed():
    """Nobody's turn falls always between two packings."""
    events, reading = chat(PIECES, choices=2), decoder("openai-chat")

    assert held(reading, events[: 2 * len(PIECES)]) < 1.25 * 2 * len(TEXT) + STATE
    reading.feed(b"".join(events[2 * len(PIECES) :]))
    assert [choice.message.blocks[0].text for choice in reading.finish()[-1].response.choices] == [TEXT, TEXT]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("many", [1, 7, 31, 400])
def test_how_many_events_come_at_once_does_not_matter(dialect, many):
    """The same deltas and the same reply, however often was packed in between."""
    events = STREAMS[dialect](PIECES[:300])
    reading, told = decoder(dialect), []
    for at in range(0, len(events), many):
        told += reading.feed(b"".join(events[at : at + many]))
    done = reading.finish()[-1]

    once = decoder(dialect)
    assert told == once.feed(b"".join(events))
    assert done == once.finish()[-1]
    assert [event.delta.text for event in told if type(event) is ContentDelta] == PIECES[:300]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_broke_off_is_there_to_its_last_piece(dialect):
    """Packed or not: an error carries all that came."""
    reading = decoder(dialect)
    for event in STREAMS[dialect](PIECES)[:100]:
        reading.feed(event)

    with pytest.raises(IncompleteResponse) as caught:
        reading.finish()
    text = caught.value.partial.message.blocks[0].text
    assert TEXT.startswith(text)
    assert len(text) >= 98 * len(PIECES[0])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_decoder_keeps_nothing_that_it_has_told(dialect):
    """Nor the bytes that it was fed: whoever waits for more of 200 streams would hold as much 200 times."""
    events, reading = STREAMS[dialect](PIECES), decoder(dialect)
    fed = b"".join(events[:20])
    before = sys.getrefcount(fed)
    told = reading.feed(fed)

    free = [object() for _ in told]
    assert {sys.getrefcount(event) for event in told} == {sys.getrefcount(thing) for thing in free}
    assert sys.getrefcount(fed) == before
    assert reading.feed(b"") == []


@pytest.mark.parametrize("start", [b'data: {"a":1}\n\n', b'[{"a":1},'])
def test_a_reader_hands_the_first_bytes_on(start):
    """It holds them until it knows what they are, and no longer."""
    reader, first = FrameReader(), start * 1
    before = sys.getrefcount(first)

    assert [data for _, data in reader.feed(first)] == [b'{"a":1}']
    assert sys.getrefcount(first) == before


@given(st.lists(st.one_of(words, st.sampled_from([None, True]))))
def test_a_slot_says_the_same_however_it_is_packed(acts):
    """A word is a piece; None packs; True looks at what has come so far."""
    assembler = BlockAssembler()
    slot = assembler.begin(Text(""))
    said = ""
    for act in acts:
        if act is None:
            slot.pack()
        elif act is True:
            assert slot.joined() == Text(said)
        else:
            slot.pieces.append(act)
            said += act

    assert "".join(slot.pieces) == said
    assert assembler.finish(slot) == Text(said)
    assert slot.pieces == []


def test_what_was_packed_is_not_joined_again_before_the_end():
    """Else a long text would be copied with each packing: the cost would be quadratic."""
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
    assert slot.pieces == ["abcdef"] * 5, "nothing new came"


def test_after_a_look_at_all_that_came_the_next_pieces_are_packed():
    """What was joined for the look counts as packed."""
    slot = BlockAssembler().begin(Text(""))
    for pieces in (["a", "b"], ["c", "d"]):
        slot.pieces += pieces
        slot.pack()
    slot.joined()
    slot.pieces += ["e", "f"]
    slot.pack()

    assert slot.pieces == ["abcd", "ef"]


def test_a_slot_that_was_finished_begins_anew():
    """Text of the specified interface may grow after it was finished."""
    assembler = BlockAssembler()
    slot = assembler.begin(Text(""))
    slot.pieces += ["a", "b"]
    slot.pack()
    assembler.finish(slot)
    slot.pieces += ["c", "d"]
    slot.pack()

    assert slot.pieces == ["cd"]
    assert assembler.finalize() == [Text("abcd")]
