"""Split the bytes of a response into frames. Bytes are split before text is decoded: it does not matter where the
network cuts them.

A decoder chooses its framing with the class attribute `framing`.
"""

import re
import struct
from abc import ABC, abstractmethod
from typing import TypeAlias
from zlib import crc32

from tenuto.core import jsonio
from tenuto.errors import IncompleteResponse, ProtocolError

Frame: TypeAlias = tuple[bytes, bytes]  # the name of an event (often empty) and its data

MAX_EVENT = 16 * 1024 * 1024
_MAX_START = 1024  # number of bytes that an error shows of a frame whose end is unknown

_STRUCTURE = rb'(?s)\\.|["{}\[\]]'  # compiled for the first array: most processes read none
_BOM = b"\xef\xbb\xbf"
_BETWEEN_ELEMENTS = b" \t\r\n,[]"
_NAMED_EVENT = re.compile(rb"^event: ([^\n]*)\ndata: ([^\n]+)\n\n", re.MULTILINE)
_PLAIN_EVENT = re.compile(rb"^()data: ([^\n]+)\n\n", re.MULTILINE)


class Framing(ABC):
    """Read the frames of one response. A frame larger than `limit` bytes and malformed bytes are a `ProtocolError`,
    raised after the frames before it have been returned, and again by every later call.
    """

    whole = False  # whether the response is one JSON body instead of a stream; `close` returns it as a single frame

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._pending: list[bytes] = []  # the unfinished frame, in chunks: joined once, when its end arrives
        self._size = 0
        self._error: ProtocolError | None = None

    def feed(self, chunk: bytes) -> list[Frame]:
        """Read the next bytes; return every frame that they complete."""
        if self._error is not None:
            raise self._error
        frames: list[Frame] = []
        try:
            self._read(chunk, frames)
        except ProtocolError as exc:
            self._error = exc
            if not frames:
                raise
        return frames

    def close(self) -> list[Frame]:
        """End the stream; return the unfinished frame, if any."""
        if self._error is not None:
            raise self._error
        frames: list[Frame] = []
        self._read_rest(frames)
        return frames

    @abstractmethod
    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        """Append the frames that the chunk completes."""

    @abstractmethod
    def _read_rest(self, frames: list[Frame]) -> None:
        """Append the unfinished frame."""

    def _hold(self, chunk: bytes, slack: int = 0) -> None:
        if chunk:
            self._pending.append(chunk)
            self._size += len(chunk)
            if self._size > self._limit + slack:
                raise self._too_large(b"".join(self._pending))

    def _take(self) -> bytes:
        data = b"".join(self._pending)
        self._pending, self._size = [], 0
        return data

    def _too_large(self, start: bytes) -> ProtocolError:
        return ProtocolError(f"one event is larger than {self._limit} bytes; it was not read", frame=start[:_MAX_START])


class SseDecoder(Framing):
    """Server-sent events: LF, CRLF and CR end a line, the space after a colon is optional, comments are skipped, data
    lines are joined by a newline, and the last line counts even without its newline.
    """

    _after_cr = False

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        if self._after_cr or b"\r" in chunk:
            chunk = self._to_lf(chunk)
        if b"\n\n" in chunk or (chunk[:1] == b"\n" and self._pending and self._pending[-1][-1:] == b"\n"):
            if self._pending:
                chunk = b"".join((*self._pending, chunk))
                self._pending, self._size = [], 0
            end = chunk.rfind(b"\n\n") + 2
            events, chunk = chunk[:end], chunk[end:]
            lines, pattern = (3, _NAMED_EVENT) if events[:7] == b"event: " else (2, _PLAIN_EVENT)
            matches = pattern.findall(events) if len(events) <= self._limit else []
            if matches and len(matches) * lines == events.count(b"\n"):  # the pattern skipped no line
                frames += matches
            else:
                self._parse_events(events, frames)
        if chunk:
            self._hold(chunk, slack=1)  # the newline that may end the last line

    def _read_rest(self, frames: list[Frame]) -> None:
        if self._pending:
            self._parse_events(b"".join(self._pending).removesuffix(b"\n"), frames)

    def _parse_events(self, events: bytes, frames: list[Frame]) -> None:
        """Parse events line by line: those that have other lines than the usual ones."""
        for event in events.split(b"\n\n"):
            if len(event) > self._limit:
                raise self._too_large(event)
            name = b""
            lines: list[bytes] = []
            for line in event.removeprefix(_BOM).split(b"\n"):
                field, _, value = line.partition(b":")
                value = value.removeprefix(b" ")
                if field == b"data":
                    lines.append(value)
                elif field == b"event":
                    name = value
            if data := b"\n".join(lines):
                frames.append((name, data))

    def _to_lf(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk[:1] == b"\n":  # the second half of a CRLF in two chunks
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk[-1:] == b"\r"
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class JsonArrayReader(Framing):
    """Each object in a JSON array is a frame, and so is anything else between them, so that the decoder reports it."""

    _depth = 0
    _in_string = False
    _escape = b""

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        chunk = self._escape + chunk
        # A backslash at the end escapes the first character of the next chunk.
        self._escape = b"\\" if (len(chunk) - len(chunk.rstrip(b"\\"))) % 2 else b""
        chunk = chunk.removesuffix(self._escape)
        start = 0
        for match in re.finditer(_STRUCTURE, chunk):
            character = match.group()
            if self._in_string or character == b'"':
                self._in_string ^= character == b'"'
                continue
            if character in b"{[":
                self._depth += 1
                end = match.start() if self._depth == 2 else None
            else:
                self._depth -= 1
                end = match.end() if self._depth == 1 else None
            if end is not None:
                self._hold(chunk[start:end])
                self._end_frame(frames)
                start = end
        self._hold(chunk[start:])

    def _read_rest(self, frames: list[Frame]) -> None:
        self._hold(self._escape)
        self._end_frame(frames)

    def _end_frame(self, frames: list[Frame]) -> None:
        data = self._take()
        if data.strip(_BETWEEN_ELEMENTS):
            frames.append((b"", data))


class NdjsonReader(Framing):
    """Lines of JSON; each line is a frame. LF and CRLF end a line, empty lines are skipped, the last LF is optional."""

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._hold(line)
            self._read_rest(frames)
        self._hold(rest)

    def _read_rest(self, frames: list[Frame]) -> None:
        if data := self._take().removeprefix(_BOM).strip():
            frames.append((b"", data))


_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
_HEADER_VALUE_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Sizes by type: true, false, byte, short, integer, long, timestamp, UUID."""
_HEADER_BYTES, _HEADER_STRING = 6, 7  # types whose value starts with its length in two bytes


class EventStreamReader(Framing):
    """Messages of the AWS binary event stream (application/vnd.amazon.eventstream).

    A message has a prelude (length of the message, length of the headers, checksum of both), headers, payload, and a
    checksum. The data of a frame is the payload. Its name is the header `:event-type`, or `EXCEPTION` and
    `:exception-type`, or `ERROR` and `:error-code`; an error has no payload: its data is an object with
    `:error-message` as `message`.
    """

    EXCEPTION = b"exception:"
    ERROR = b"error:"

    _needed = _PRELUDE.size

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        self._pending.append(chunk)
        self._size += len(chunk)
        if self._size < self._needed:
            return
        data = self._take()
        offset = 0
        while len(data) - offset >= self._needed:
            if self._needed == _PRELUDE.size:  # a complete message is larger
                self._needed = self._message_length(data[offset : offset + _MAX_START])
            else:
                frames.append(_parse_message(data[offset : offset + self._needed]))
                offset += self._needed
                self._needed = _PRELUDE.size
        self._hold(data[offset:])

    def _read_rest(self, frames: list[Frame]) -> None:
        if self._size:
            raise IncompleteResponse("the reply ended in the middle of an event stream message")

    def _message_length(self, start: bytes) -> int:
        length, headers_length, checksum = _PRELUDE.unpack_from(start)
        if crc32(start[:8]) != checksum:
            raise ProtocolError("event stream: the prelude checksum does not match", frame=start)
        if length < _PRELUDE.size + headers_length + _CHECKSUM.size:
            problem = f"a message of {length} bytes cannot have headers of {headers_length} bytes"
            raise ProtocolError(f"event stream: {problem}", frame=start)
        if length > self._limit:
            raise self._too_large(start)
        return int(length)


def _parse_message(message: bytes) -> Frame:
    payload_end = len(message) - _CHECKSUM.size
    if crc32(message[:payload_end]) != _CHECKSUM.unpack_from(message, payload_end)[0]:
        raise ProtocolError("event stream: the message checksum does not match", frame=message)
    payload_start = _PRELUDE.size + _PRELUDE.unpack_from(message)[1]
    headers = _parse_headers(message, payload_start)
    payload = message[payload_start:payload_end]
    message_type = headers.get(b":message-type", b"event")
    if message_type == b"event":
        return headers.get(b":event-type", b""), payload
    if message_type == b"exception":
        return EventStreamReader.EXCEPTION + headers.get(b":exception-type", b""), payload
    if message_type == b"error":
        text = headers.get(b":error-message", b"").decode("utf-8", "replace")
        return EventStreamReader.ERROR + headers.get(b":error-code", b""), jsonio.encode({"message": text})
    name = message_type.decode("utf-8", "replace")
    raise ProtocolError(f"event stream: unknown message type {name!r}", frame=message)


def _parse_headers(message: bytes, end: int) -> dict[bytes, bytes]:
    """Return the headers of type string and bytes by name; skip those of other types."""
    headers: dict[bytes, bytes] = {}
    offset = _PRELUDE.size
    try:
        while offset < end:
            name_end = offset + 1 + message[offset]
            name, value_type = message[offset + 1 : name_end], message[name_end]
            offset = name_end + 1
            if value_type in (_HEADER_BYTES, _HEADER_STRING):
                size = int.from_bytes(message[offset : offset + 2], "big")
                offset += 2
                headers[name] = message[offset : offset + size]
            else:
                size = _HEADER_VALUE_SIZES[value_type]
            offset += size
    except (IndexError, KeyError):
        offset = -1
    if offset != end:
        raise ProtocolError("event stream: the headers of a message are malformed", frame=message)
    return headers


class BodyReader(Framing):
    """A response that is not a stream: the complete body is one frame, which `close` returns."""

    whole = True

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        self._hold(chunk)

    def _read_rest(self, frames: list[Frame]) -> None:
        body = self._take().removeprefix(_BOM)
        if body.strip():
            frames.append((b"", body))


class FrameReader(Framing):
    """Server-sent events, a JSON array or one JSON object (as most errors are), depending on the first character."""

    _reader: Framing | None = None

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        if self._reader is not None:
            self._reader._read(chunk, frames)
            return
        if not chunk.strip():
            self._hold(chunk)
            return
        data = b"".join((*self._pending, chunk))
        start = data.removeprefix(_BOM).lstrip()
        if not start or _BOM.startswith(start):  # more of the byte order mark may follow
            self._hold(chunk)
            return
        if start[:1] == b"{":
            self._reader = BodyReader(self._limit)
        elif start[:1] == b"[":
            self._reader, data = JsonArrayReader(self._limit), start
        else:
            self._reader = SseDecoder(self._limit)
        self.whole = self._reader.whole
        self._reader._read(data, frames)

    def _read_rest(self, frames: list[Frame]) -> None:
        if self._reader is not None:  # else there was only white space or a byte order mark
            self._reader._read_rest(frames)
