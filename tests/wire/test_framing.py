"""Bytes to frames: the result does not depend on the chunks, an unfinished frame is limited, malformed bytes are errors."""

from __future__ import annotations

import itertools
import json
import os
import struct
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import json_values, words
from tenuto.errors import IncompleteResponse, ProtocolError
from tenuto.wire.framing import (
    BodyReader,
    EventStreamReader,
    FrameReader,
    JsonArrayReader,
    NdjsonReader,
    SseDecoder,
)

SHARED = Path(__file__).parents[3] / "shared"
CORPORA = [
    Path(os.environ.get("TENUTO_CORPUS") or SHARED / "corpus"),
    SHARED / "corpus-more",
]
offsets = st.lists(st.integers(0, 2000), max_size=8)


def cut(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


def cut_at(data, positions):
    edges = [0, *sorted({position % (len(data) + 1) for position in positions}), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def read(reader, chunks, frames=None):
    """Read all chunks; if an error is raised, `frames` has the frames before it."""
    frames = [] if frames is None else frames
    for chunk in chunks:
        frames += reader.feed(chunk)
    return frames + reader.close()


def recorded(name):
    """The directories of all recorded responses with this file name."""
    return sorted(file.parent for corpus in CORPORA for file in corpus.glob(f"*/*/*/{name}"))


# --- server-sent events -----------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_sse_does_not_depend_on_chunks(size, eol):
    assert read(SseDecoder(), cut(STREAM.replace(b"\n", eol), size)) == FRAMES
    assert read(FrameReader(), cut(STREAM.replace(b"\n", eol), size)) == FRAMES


lines = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), min_size=1, max_size=20).map(
    str.encode
)
events = st.tuples(st.just(b"") | lines.map(bytes.strip), st.lists(lines, min_size=1, max_size=3))


@given(st.lists(events, max_size=5), st.sampled_from(([b"\n"], [b"\r\n"], [b"\r"], [b"\n", b"\r\n"])), st.data())
def test_sse_any_spelling_gives_the_same_frames(events, ends, data):
    """Comments and unused fields may be anywhere."""
    written, noise = [], [b"", b": comment", b":", b"id: 1", b"retry", b"other: x"]
    for name, values in events:
        written += [b"event: " + name] if name else []
        for value in values:
            written += [data.draw(st.sampled_from(noise[1:])), b"data: " + value]
        written += [b"", data.draw(st.sampled_from(noise[:3])), b""]
    stream = b"".join(line + ends[index % len(ends)] for index, line in enumerate(written))
    chunks = cut_at(stream, data.draw(offsets))

    assert read(SseDecoder(), chunks) == [(name, b"\n".join(values)) for name, values in events]


def test_sse_named_and_plain_events_can_be_mixed():
    stream = b"event: a\ndata: 1\n\ndata: 2\n\nevent: b\ndata: 3\n\n"

    assert SseDecoder().feed(stream) == [(b"a", b"1"), (b"", b"2"), (b"b", b"3")]


def test_sse_byte_order_mark_is_skipped():
    for size in (1, 2, 100):
        assert read(FrameReader(), cut(b"\xef\xbb\xbfdata: 1\n\n", size)) == [(b"", b"1")]


def test_sse_last_line_needs_no_newline():
    for end in (b"", b"\n", b"\r", b"\r\n", b"\n\n"):
        assert read(SseDecoder(), [b"event: a\ndata: 1" + end]) == [(b"a", b"1")]


def test_empty_stream_has_no_frames():
    for framing in (SseDecoder, JsonArrayReader, NdjsonReader, EventStreamReader, BodyReader, FrameReader):
        assert read(framing(), []) == []
        assert read(framing(), [b"", b""]) == []
    assert read(FrameReader(), [b"", b" \n"]) == []
    assert read(SseDecoder(), [b"\n", b"", b"\n", b"\r", b"\n"]) == []


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("event", [b"data: " + b"x" * 95, b"event: " + b"y" * 50 + b"\ndata: " + b"x" * 50, b":" * 101])
def test_sse_error_for_large_event_follows_earlier_frames(event, size):
    for end in (b"", b"\n", b"\n\ndata: 2\n\n"):
        decoder, frames = SseDecoder(limit=100), []
        with pytest.raises(ProtocolError, match="larger than 100 bytes") as caught:
            read(decoder, cut(b"data: 1\n\n" + event + end, size), frames)
        assert frames == [(b"", b"1")]
        assert caught.value.frame.startswith(event[:40])
        with pytest.raises(ProtocolError):
            decoder.feed(b"data: 3\n\n")
        with pytest.raises(ProtocolError):
            decoder.close()


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_sse_event_at_the_limit_is_read(size):
    event = b"data: " + b"x" * 94

    assert read(SseDecoder(limit=100), cut(event + b"\n\n" + event + b"\n", size)) == [(b"", b"x" * 94)] * 2


def test_sse_pending_chunks_are_joined_once():
    """Joining them with every chunk would take quadratic time."""
    decoder = SseDecoder()
    for _ in range(1000):
        assert decoder.feed(b"data: x\n") == []

    assert len(decoder._pending) == 1000
    assert decoder.feed(b"\n") == [(b"", b"\n".join([b"x"] * 1000))]
    assert decoder._pending == []


# --- JSON arrays ------------------------------------------------------------------------------------------------------

ELEMENTS = [{"a": '}]\\"'}, {"b": [{"c": "{["}, "\\"], "d": "é"}, {}]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_array_does_not_depend_on_chunks(size, indent):
    text = json.dumps(ELEMENTS, indent=indent).encode()

    for reader in (JsonArrayReader(), FrameReader()):
        assert [json.loads(data) for _, data in read(reader, cut(text, size))] == ELEMENTS


@given(st.lists(st.dictionaries(words, json_values, max_size=3), max_size=4), st.lists(st.integers(0, 500), max_size=9))
def test_array_gives_its_objects_for_any_chunks(elements, positions):
    text = json.dumps(elements, ensure_ascii=False).encode()

    assert [json.loads(data) for _, data in read(FrameReader(), cut_at(text, positions))] == elements


def test_array_gives_each_object_as_soon_as_it_is_complete():
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
def test_array_gives_other_content_to_the_decoder(text, expected, size):
    """The decoder reports it; skipping it here would lose it."""
    assert [data for _, data in read(JsonArrayReader(), cut(text, size))] == expected


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("end", [b"", b'"}', b'"},{"b":2}]'])
def test_array_error_for_large_object_follows_earlier_frames(end, size):
    reader, frames = JsonArrayReader(limit=50), []
    with pytest.raises(ProtocolError, match="larger than 50 bytes"):
        read(reader, cut(b'[{"a":1},{"b":"' + b"x" * 60 + end, size), frames)

    assert frames == [(b"", b'{"a":1}')]
    with pytest.raises(ProtocolError):
        reader.feed(b"{}")


# --- lines of JSON ----------------------------------------------------------------------------------------------------

json_lines = st.lists(st.dictionaries(words, json_values, max_size=3), max_size=4)


@given(json_lines, st.sampled_from([b"\n", b"\r\n", b"\n\r\n\n", b" \n"]), st.booleans(), offsets)
def test_ndjson_gives_its_lines_for_any_chunks(elements, end, ended, positions):
    """With LF, CRLF, empty lines, and with or without the last newline."""
    texts = [json.dumps(element).encode() for element in elements]
    stream = end.join(texts) + (end if ended else b"")

    assert read(NdjsonReader(), cut_at(stream, positions)) == [(b"", text) for text in texts]


def test_ndjson_gives_each_line_as_soon_as_it_is_complete():
    reader = NdjsonReader()

    assert reader.feed(b'\xef\xbb\xbf{"a":1}\r') == []
    assert reader.feed(b'\n\r\n{"b":2}\n{"c"') == [(b"", b'{"a":1}'), (b"", b'{"b":2}')]
    assert reader.feed(b":3}") == []
    assert reader.close() == [(b"", b'{"c":3}')]


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\n2\n"])
def test_ndjson_error_for_long_line_follows_earlier_frames(end, size):
    reader, frames = NdjsonReader(limit=50), []
    with pytest.raises(ProtocolError, match="larger than 50 bytes"):
        read(reader, cut(b"1\n" + b"x" * 51 + end, size), frames)

    assert frames == [(b"", b"1")]
    with pytest.raises(ProtocolError):
        reader.feed(b"{}\n")
    with pytest.raises(ProtocolError):
        reader.close()
    assert read(NdjsonReader(limit=50), cut(b"x" * 50 + b"\n" + b"y" * 50, size)) == [
        (b"", b"x" * 50),
        (b"", b"y" * 50),
    ]


def test_ndjson_pending_chunks_are_joined_once():
    reader = NdjsonReader()
    for _ in range(1000):
        assert reader.feed(b"x") == []

    assert len(reader._pending) == 1000
    assert reader.feed(b"\n") == [(b"", b"x" * 1000)]
    assert reader._pending == []


@pytest.mark.parametrize("folder", recorded("response.ndjson"), ids=lambda path: path.name)
def test_ndjson_recorded_stream(folder):
    stream = (folder / "response.ndjson").read_bytes()
    frames = read(NdjsonReader(), [stream])

    assert [json.loads(data) for _, data in frames] == [
        json.loads(line) for line in stream.splitlines() if line.strip()
    ]
    for size in (1, 10, 1000):
        assert read(NdjsonReader(), cut(stream, size)) == frames


# --- the AWS binary event stream --------------------------------------------------------------------------------------

HEADER_VALUES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Sizes of the header values of fixed size, by type."""


def string_header(name, value):
    return bytes([len(name)]) + name + b"\x07" + struct.pack(">H", len(value)) + value


def encode_message(headers, payload):
    """Encode one message; `headers` are bytes, or string values by name."""
    if isinstance(headers, dict):
        headers = b"".join(itertools.starmap(string_header, headers.items()))
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return message + struct.pack(">I", crc32(message))


def event(name, payload):
    return encode_message({b":event-type": name, b":message-type": b"event"}, payload)


aws_events = st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=60)), max_size=4)


@given(aws_events, offsets)
def test_event_stream_gives_its_messages_for_any_chunks(events, positions):
    stream = b"".join(itertools.starmap(event, events))

    assert read(EventStreamReader(), cut_at(stream, positions)) == events


def flip(data, bit):
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


@given(st.binary(max_size=40), st.integers(min_value=0), st.sampled_from([1, 3, 1000]))
def test_event_stream_error_names_the_checksum_that_fails(payload, bit, size):
    """For one wrong bit anywhere: prelude, headers, payload, checksums."""
    message = event(b"messageStart", payload)
    bit %= 8 * len(message)
    reader, frames = EventStreamReader(), []
    with pytest.raises(ProtocolError, match="prelude checksum" if bit < 96 else "message checksum") as caught:
        read(reader, cut(event(b"first", b"{}") + flip(message, bit), size), frames)

    assert frames == [(b"first", b"{}")]
    assert flip(message, bit).startswith(caught.value.frame)
    with pytest.raises(ProtocolError):
        reader.feed(message)
    with pytest.raises(ProtocolError):
        reader.close()


@pytest.mark.parametrize("part", ["prelude", "headers", "payload", "checksum"])
def test_event_stream_every_wrong_bit_is_an_error(part):
    message = event(b"a", b"{}")
    length = len(message)
    ranges = {
        "prelude": (0, 12),
        "headers": (12, length - 6),
        "payload": (length - 6, length - 4),
        "checksum": (length - 4, length),
    }
    for bit in range(8 * ranges[part][0], 8 * ranges[part][1]):
        with pytest.raises(ProtocolError, match=f"{'prelude' if part == 'prelude' else 'message'} checksum"):
            EventStreamReader().feed(flip(message, bit))


@given(st.binary(max_size=40), st.integers(min_value=1))
def test_event_stream_cut_inside_a_message_is_incomplete(payload, position):
    message = event(b"messageStart", payload)
    reader, frames = EventStreamReader(), []
    with pytest.raises(IncompleteResponse, match="in the middle of"):
        read(reader, [event(b"first", b"{}") + message[: 1 + position % (len(message) - 1)]], frames)

    assert frames == [(b"first", b"{}")]


def test_event_stream_exceptions_and_errors_differ_from_events():
    exception = {b":exception-type": b"throttlingException", b":message-type": b"exception"}
    error = {b":message-type": b"error", b":error-code": b"InternalFailure", b":error-message": 'a "b" é'.encode()}
    stream = (
        encode_message(exception, b'{"message":"Too many requests"}')
        + event(b"throttlingException", b"{}")
        + encode_message(error, b"")
        + encode_message({}, b"{}")
    )
    frames = read(EventStreamReader(), [stream])

    assert frames[:2] == [
        (EventStreamReader.EXCEPTION + b"throttlingException", b'{"message":"Too many requests"}'),
        (b"throttlingException", b"{}"),
    ]
    assert frames[2][0] == EventStreamReader.ERROR + b"InternalFailure"
    assert json.loads(frames[2][1]) == {"message": 'a "b" é'}
    assert frames[3] == (b"", b"{}")


def test_event_stream_skips_headers_of_other_types():
    others = b"".join(
        bytes([1, 97 + value_type, value_type]) + b"\xff" * size for value_type, size in HEADER_VALUES.items()
    )
    headers = others + b"\x01g\x06\x00\x02\xff\xff" + string_header(b":event-type", b"a") + b"\x00\x00"

    assert read(EventStreamReader(), [encode_message(headers, b"{}")]) == [(b"a", b"{}")]


@pytest.mark.parametrize(
    "headers, error",
    [
        (b"\x01a", "headers of a message are malformed"),
        (b"\x01a\x0a", "headers of a message are malformed"),
        (b"\x01a\x07\x00\x09x", "headers of a message are malformed"),
        (b"\x01a\x04\x00", "headers of a message are malformed"),
        (b"\xffa", "headers of a message are malformed"),
        ({b":message-type": b"ping"}, "unknown message type 'ping'"),
    ],
)
def test_event_stream_malformed_headers_are_errors(headers, error):
    """With correct checksums."""
    with pytest.raises(ProtocolError, match=error):
        EventStreamReader().feed(encode_message(headers, b""))


@pytest.mark.parametrize("length, headers_length", [(16, 1), (15, 0), (0, 0), (20, 2**32 - 1)])
def test_event_stream_impossible_lengths_are_errors(length, headers_length):
    prelude = struct.pack(">II", length, headers_length)
    with pytest.raises(ProtocolError, match="cannot have headers"):
        EventStreamReader().feed(prelude + struct.pack(">I", crc32(prelude)))


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_event_stream_error_for_large_message_follows_frames(size):
    """The prelude is enough: the message itself is never stored."""
    small = event(b"a", b"x" * (100 - len(event(b"a", b""))))
    large = event(b"a", b"x" * len(small))
    reader, frames = EventStreamReader(limit=100), []
    with pytest.raises(ProtocolError, match="larger than 100 bytes"):
        read(reader, cut(small + large[:12], size), frames)

    assert len(small) == 100
    assert len(frames) == 1


def test_event_stream_pending_chunks_are_joined_once():
    reader, message = EventStreamReader(), event(b"a", b"x" * 1000)
    for byte in message[:-1]:
        assert reader.feed(bytes([byte])) == []

    assert len(reader._pending) == len(message) - 12
    assert reader.feed(message[-1:]) == [(b"a", b"x" * 1000)]
    assert reader._pending == []


def test_event_stream_error_shows_a_body_of_another_form():
    with pytest.raises(ProtocolError, match="prelude checksum") as caught:
        EventStreamReader().feed(b'{"message": "The security token is invalid"}')

    assert "security token" in caught.value.raw


@pytest.mark.parametrize("folder", recorded("response.bin"), ids=lambda path: path.name)
def test_event_stream_recorded(folder):
    """Every recorded Bedrock stream: names in order, the text of the oracle, any chunks."""
    assert json.loads((folder / "exchange.json").read_bytes())["transport"] == "aws-eventstream"
    stream = (folder / "response.bin").read_bytes()
    expected = json.loads((folder / "expected.json").read_bytes())
    frames = read(EventStreamReader(), [stream])
    payloads = [(name, json.loads(data)) for name, data in frames]
    deltas = [payload["delta"].get("text", "") for name, payload in payloads if name == b"contentBlockDelta"]
    texts = [block["text"] for block in expected["blocks"] if block["type"] == "text"]
    stops = [payload["stopReason"] for name, payload in payloads if name == b"messageStop"]

    assert [frames[0][0], frames[-1][0]] == [b"messageStart", b"metadata"]
    assert "".join(deltas) == "".join(texts)
    assert stops == [expected["stop"]]
    for size in (1, 13, 1000):
        assert read(EventStreamReader(), cut(stream, size)) == frames


# --- a body that is not a stream --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("before", [b"", b" \n", b"\xef\xbb\xbf"])
def test_object_is_recognized_as_whole_body(before, size):
    for reader in (FrameReader(), BodyReader()):
        assert [data.lstrip() for _, data in read(reader, cut(before + b'{"a":\n\n1}', size))] == [b'{"a":\n\n1}']
        assert reader.whole


@pytest.mark.parametrize("start", [b"data: {}\n\n", b'[{"a":1},'])
def test_stream_is_not_a_whole_body(start):
    reader = FrameReader()
    reader.feed(start)

    assert not reader.whole


@pytest.mark.parametrize("start", [b'{"a":"', b"   "])
def test_whole_body_over_the_limit_is_an_error(start):
    reader = FrameReader(limit=50)
    with pytest.raises(ProtocolError, match="larger than 50 bytes"):
        read(reader, [start, *[start[-1:]] * 60])
    with pytest.raises(ProtocolError, match="larger than 50 bytes"):
        reader.feed(b"{}")
    with pytest.raises(ProtocolError, match="larger than 50 bytes"):
        reader.close()
