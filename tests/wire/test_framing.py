from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import json_values, words
from tenuto.errors import ProtocolError
from tenuto.wire.framing import FrameReader, JsonArrayReader, SseDecoder

STREAM = (
    b": hello\n\n"
    b'event: start\ndata: {"a": 1}\n\n'
    b"data: plain\n\n"
    b"data:no space\n\n"
    b"event:two\ndata: line one\ndata: line two\nid: 7\nretry: 5\n\n"
    b": keep-alive\n\n\n"
    b"data: gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80\n\n"
    b"data:  two spaces\n\n"
    b"event: nothing\n\n"
    b"data\n\n"
    b"data: last"
)
FRAMES = [
    (b"start", b'{"a": 1}'),
    (b"", b"plain"),
    (b"", b"no space"),
    (b"two", b"line one\nline two"),
    (b"", "grüß 😀".encode()),
    (b"", b" two spaces"),
    (b"", b"last"),
]


def cut(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


def pieces_of(data, places):
    """Cut `data` at the given places."""
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def frames(reader, pieces):
    return drained(reader, pieces, [])


def drained(reader, pieces, seen):
    for piece in pieces:
        seen += reader.feed(piece)
    return seen + reader.close()


# --- server-sent events -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_where_the_bytes_are_cut_does_not_matter(size, eol):
    assert frames(SseDecoder(), cut(STREAM.replace(b"\n", eol), size)) == FRAMES
    assert frames(FrameReader(), cut(STREAM.replace(b"\n", eol), size)) == FRAMES


lines = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), min_size=1, max_size=20).map(
    str.encode
)
events = st.tuples(st.just(b"") | lines.map(bytes.strip), st.lists(lines, min_size=1, max_size=3))


@given(st.lists(events, max_size=5), st.sampled_from(([b"\n"], [b"\r\n"], [b"\r"], [b"\n", b"\r\n"])), st.data())
def test_any_events_in_any_spelling_and_any_pieces_give_the_same_frames(said, ends, data):
    """Comments and fields of no interest stand anywhere."""
    written, noise = [], [b"", b": comment", b":", b"id: 1", b"retry", b"other: x"]
    for name, values in said:
        written += [b"event: " + name] if name else []
        for value in values:
            written += [data.draw(st.sampled_from(noise[1:])), b"data: " + value]
        written += [b"", data.draw(st.sampled_from(noise[:3])), b""]
    stream = b"".join(line + ends[at % len(ends)] for at, line in enumerate(written))
    pieces = pieces_of(stream, data.draw(st.lists(st.integers(0, 2000), max_size=8)))

    assert frames(SseDecoder(), pieces) == [(name, b"\n".join(values)) for name, values in said]


def test_named_and_plain_events_may_be_mixed():
    stream = b"event: a\ndata: 1\n\ndata: 2\n\nevent: b\ndata: 3\n\n"

    assert SseDecoder().feed(stream) == [(b"a", b"1"), (b"", b"2"), (b"b", b"3")]


def test_a_byte_order_mark_is_skipped():
    for size in (1, 2, 100):
        assert frames(FrameReader(), cut(b"\xef\xbb\xbfdata: 1\n\n", size)) == [(b"", b"1")]


def test_a_last_line_counts_without_its_newline():
    for end in (b"", b"\n", b"\r", b"\r\n", b"\n\n"):
        assert frames(SseDecoder(), [b"event: a\ndata: 1" + end]) == [(b"a", b"1")]


def test_an_empty_stream_has_no_frames():
    assert frames(SseDecoder(), []) == []
    assert frames(FrameReader(), [b"", b" \n"]) == []
    assert frames(SseDecoder(), [b"\n", b"", b"\n", b"\r", b"\n"]) == []


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("event", [b"data: " + b"x" * 95, b"event: " + b"y" * 50 + b"\ndata: " + b"x" * 50, b":" * 101])
def test_an_event_over_the_limit_is_an_error_after_the_frames_before_it(event, size):
    """Memory is bounded, and what came before is not lost, wherever the bytes are cut."""
    for end in (b"", b"\n", b"\n\ndata: 2\n\n"):
        decoder, seen = SseDecoder(limit=100), []
        with pytest.raises(ProtocolError, match="larger than 100 bytes") as caught:
            drained(decoder, cut(b"data: 1\n\n" + event + end, size), seen)
        assert seen == [(b"", b"1")]
        assert caught.value.frame.startswith(event[:40])
        with pytest.raises(ProtocolError):
            decoder.feed(b"data: 3\n\n")
        with pytest.raises(ProtocolError):
            decoder.close()


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_an_event_at_the_limit_is_read(size):
    event = b"data: " + b"x" * 94

    assert frames(SseDecoder(limit=100), cut(event + b"\n\n" + event + b"\n", size)) == [(b"", b"x" * 94)] * 2


def test_waiting_bytes_are_joined_once():
    """Lines that arrive one by one must not be joined again with each: that would take quadratic time."""
    decoder = SseDecoder()
    for _ in range(1000):
        assert decoder.feed(b"data: x\n") == []

    assert len(decoder._tail) == 1000
    assert decoder.feed(b"\n") == [(b"", b"\n".join([b"x"] * 1000))]
    assert decoder._tail == [b""]


# --- arrays -----------------------------------------------------------------------------------------------------------

ELEMENTS = [{"a": '}]\\"'}, {"b": [{"c": "{["}, "\\"], "d": "é"}, {}]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_an_array_in_pieces_gives_its_objects(size, indent):
    text = json.dumps(ELEMENTS, indent=indent).encode()

    for reader in (JsonArrayReader(), FrameReader()):
        assert [json.loads(data) for _, data in frames(reader, cut(text, size))] == ELEMENTS


@given(st.lists(st.dictionaries(words, json_values, max_size=3), max_size=4), st.lists(st.integers(0, 500), max_size=9))
def test_any_array_cut_anywhere_gives_its_objects(elements, places):
    text = json.dumps(elements, ensure_ascii=False).encode()

    assert [json.loads(data) for _, data in frames(FrameReader(), pieces_of(text, places))] == elements


def test_each_object_of_an_array_comes_as_soon_as_it_is_whole():
    reader = FrameReader()

    assert reader.feed(b'\xef\xbb\xbf [{"a":1}') == [(b"", b'{"a":1}')]
    assert reader.feed(b',\n{"b"') == []
    assert reader.feed(b":2}]") == [(b"", b'{"b":2}')]
    assert reader.close() == []


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    "text,expected",
    [
        (b'[{"a":1}, 5, {"b":2}]', [b'{"a":1}', b", 5, ", b'{"b":2}']),
        (b'[{"a":1}]{"error":2}', [b'{"a":1}', b']{"error":2}']),
        (b'[{"a":1},{"b', [b'{"a":1}', b'{"b']),
        (b'[{"a":"\\', [b'{"a":"\\']),
        (b'["words"]', [b'["words"]']),
        (b"[[1],[2]]", [b"[1]", b"[2]"]),
        (b"[]]]", []),
        (b'[{"a":1}]]{"b":2}', [b'{"a":1}', b']]{"b":2}']),
    ],
)
def test_what_is_no_object_is_handed_on_to_be_refused(text, expected, size):
    """A decoder tells what is wrong with it; to skip it here would be to lose it."""
    assert [data for _, data in frames(JsonArrayReader(), cut(text, size))] == expected


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("end", [b"", b'"}', b'"},{"b":2}]'])
def test_an_object_over_the_limit_is_an_error_after_the_frames_before_it(end, size):
    reader, seen = JsonArrayReader(limit=50), []
    with pytest.raises(ProtocolError, match="larger than 50 bytes"):
        drained(reader, cut(b'[{"a":1},{"b":"' + b"x" * 60 + end, size), seen)

    assert seen == [(b"", b'{"a":1}')]
    with pytest.raises(ProtocolError):
        reader.feed(b"{}")


# --- a body that did not stream ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("before", [b"", b" \n", b"\xef\xbb\xbf"])
def test_one_object_is_known_as_a_whole_body(before, size):
    reader = FrameReader()

    assert [data.lstrip() for _, data in frames(reader, cut(before + b'{"a":\n\n1}', size))] == [b'{"a":\n\n1}']
    assert reader.whole


def test_a_stream_is_not_known_as_a_whole_body():
    reader = FrameReader()
    reader.feed(b"data: {}\n\n")

    assert not reader.whole


@pytest.mark.parametrize("start", [b'{"a":"', b"   "])
def test_a_whole_body_over_the_limit_is_an_error(start):
    with pytest.raises(ProtocolError, match="larger than 50 bytes"):
        frames(FrameReader(limit=50), [start, *[start[-1:]] * 60])
