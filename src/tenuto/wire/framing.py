"""Split the bytes of a response into frames. A decoder chooses its framing with the class attribute `framing`.

Every framing is an incremental reader. The frames do not depend on where the network cuts the bytes: bytes are split
before text is decoded, so that a character in two chunks stays whole. An unfinished frame is limited in size.
"""

from __future__ import annotations

import re
import struct
from abc import ABC, abstractmethod
from typing import TypeAlias
from zlib import crc32

from tenuto.core import jsonio
from tenuto.errors import IncompleteResponse, ProtocolError

Frame: TypeAlias = tuple[bytes, bytes]
"""The name of an event (often empty) and its data."""

MAX_EVENT = 16 * 1024 * 1024
_MAX_START = 1024
"""Number of bytes that an error shows of a frame whose end is unknown."""

_STRUCTURE = rb'(?s)\\.|["{}\[\]]'  # compiled for the first array: most processes read none
_BOM = b"\xef\xbb\xbf"
_BETWEEN_ELEMENTS = b" \t\r\n,[]"
_NAMED_EVENT = re.compile(rb"^event: ([^\n]*)\ndata: ([^\n]+)\n\n", re.MULTILINE)
_PLAIN_EVENT = re.compile(rb"^()data: ([^\n]+)\n\n", re.MULTILINE)


class Framing(ABC):
    """Read the frames of one response.

    A frame larger than `limit` bytes and malformed bytes are a `ProtocolError`. It is raised after the frames before it
    have been returned, and again by every later call.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0
        self._error: ProtocolError | None = None

    @abstractmethod
    def feed(self, chunk: bytes) -> list[Frame]:
        """Read the next bytes; return every frame that they complete."""

    @abstractmethod
    def close(self) -> list[Frame]:
        """End the stream; return the unfinished frame, if any."""

    @property
    def whole(self) -> bool:
        """Whether the response is one JSON body instead of a stream; `close` returns it as a single frame."""
        return False

    def _too_large(self, start: bytes) -> ProtocolError:
        return ProtocolError(f"one event is larger than {self._limit} bytes; it was not read", frame=start[:_MAX_START])


class SseDecoder(Framing):
    """Server-sent events.

    LF, CRLF and CR end a line, the space after a colon is optional, comments are skipped, data lines are joined by a
    newline, and the last line counts even without its newline.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        super().__init__(limit)
        self._after_cr = False
        self._after_lf = False

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._error is not None:
            raise self._error
        if self._after_cr or b"\r" in chunk:
            chunk = self._to_lf(chunk)
        if b"\n\n" not in chunk and not (self._after_lf and chunk[:1] == b"\n"):
            self._wait(chunk)  # no event ends here: joining now would mean joining the same bytes again later
            frames: list[Frame] = []
        else:
            data = b"".join((*self._pending, chunk))
            end = data.rfind(b"\n\n") + 2
            self._pending, self._size, self._after_lf = [], 0, False
            frames = self._split(data[:end] if end <= self._limit else self._cut_at_limit(data[:end]))
            self._wait(data[end:])
        if self._error is not None and not frames:
            raise self._error
        return frames

    def close(self) -> list[Frame]:
        rest, self._pending = b"".join(self._pending), []
        if self._error is None and len(rest.removesuffix(b"\n")) > self._limit:
            self._error = self._too_large(rest)
        if self._error is not None:
            raise self._error
        return [frame] if (frame := _parse_event(rest)) else []

    def _wait(self, chunk: bytes) -> None:
        self._pending.append(chunk)
        self._size += len(chunk)
        self._after_lf = chunk[-1:] == b"\n" if chunk else self._after_lf
        if self._size > self._limit + 1 and self._error is None:  # + 1: the newline that may end the last line
            self._error = self._too_large(b"".join(self._pending))

    def _split(self, events: bytes) -> list[Frame]:
        """Split complete events: with one regex if all have the usual lines, else line by line."""
        lines, pattern = (3, _NAMED_EVENT) if events[:7] == b"event: " else (2, _PLAIN_EVENT)
        frames: list[Frame] = pattern.findall(events)
        if len(frames) * lines != events.count(b"\n"):  # the pattern skipped a line
            frames = [frame for event in events.split(b"\n\n") if (frame := _parse_event(event))]
        return frames

    def _cut_at_limit(self, events: bytes) -> bytes:
        """Return the events before the first one that is too large."""
        offset = 0
        for event in events.split(b"\n\n"):
            if len(event) > self._limit:
                self._error = self._too_large(event)
                return events[:offset]
            offset += len(event) + 2
        return events

    def _to_lf(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk[:1] == b"\n":  # the second half of a CRLF in two chunks
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk[-1:] == b"\r"
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _parse_event(event: bytes) -> Frame | None:
    name = b""
    lines: list[bytes] = []
    for line in event.removeprefix(_BOM).split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value
    data = b"\n".join(lines)
    return (name, data) if data else None


class JsonArrayReader(Framing):
    """An array of JSON objects; each object is a frame.

    Anything else between the objects is a frame, too, so that the decoder reports it; the same for an array without end.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        super().__init__(limit)
        self._depth = 0
        self._in_string = False
        self._escape = b""
        self._find_structure = re.compile(_STRUCTURE).finditer

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._error is not None:
            raise self._error
        chunk = self._escape + chunk
        # A backslash at the end escapes the first character of the next chunk.
        self._escape = b"\\" if (len(chunk) - len(chunk.rstrip(b"\\"))) % 2 else b""
        chunk = chunk[:-1] if self._escape else chunk
        frames: list[Frame] = []
        start = 0
        for match in self._find_structure(chunk):
            character = match.group()
            if self._in_string or character == b'"':
                self._in_string ^= character == b'"'
            elif character in b"{[":
                self._depth += 1
                if self._depth == 2:
                    self._end_frame(chunk[start : match.start()], frames)
                    start = match.start()
            elif character in b"}]":
                self._depth -= 1
                if self._depth == 1:
                    self._end_frame(chunk[start : match.end()], frames)
                    start = match.end()
        self._wait(chunk[start:])
        if self._error is not None and not frames:
            raise self._error
        return frames

    def close(self) -> list[Frame]:
        frames: list[Frame] = []
        if self._error is None:
            self._end_frame(self._escape, frames)
        if self._error is not None:
            raise self._error
        return frames

    def _wait(self, chunk: bytes) -> None:
        self._pending.append(chunk)
        self._size += len(chunk)
        if self._size > self._limit and self._error is None:
            self._error = self._too_large(b"".join(self._pending))

    def _end_frame(self, end: bytes, frames: list[Frame]) -> None:
        self._wait(end)
        data = b"".join(self._pending)
        self._pending, self._size = [], 0
        if self._error is None and data.strip(_BETWEEN_ELEMENTS):
            frames.append((b"", data))


class NdjsonReader(Framing):
    """Lines of JSON; each line is a frame. LF and CRLF end a line, empty lines are skipped, the last LF is optional."""

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._error is not None:
            raise self._error
        self._pending.append(chunk)
        self._size += len(chunk)
        frames: list[Frame] = []
        if b"\n" in chunk:
            *lines, rest = b"".join(self._pending).split(b"\n")
            self._pending, self._size = [rest], len(rest)
            frames = self._parse_lines(lines)
        if self._size > self._limit and self._error is None:
            self._error = self._too_large(b"".join(self._pending))
        if self._error is not None and not frames:
            raise self._error
        return frames

    def close(self) -> list[Frame]:
        if self._error is not None:
            raise self._error
        return self._parse_lines([b"".join(self._pending)])

    def _parse_lines(self, lines: list[bytes]) -> list[Frame]:
        frames: list[Frame] = []
        for line in lines:
            if len(line) > self._limit:
                self._error = self._too_large(line)
                break
            if data := line.removeprefix(_BOM).strip():
                frames.append((b"", data))
        return frames


_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
_HEADER_VALUE_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Sizes by type: true, false, byte, short, integer, long, timestamp, UUID."""
_HEADER_BYTES, _HEADER_STRING = 6, 7
"""Types whose value starts with its length in two bytes."""


class EventStreamReader(Framing):
    """Messages of the AWS binary event stream (application/vnd.amazon.eventstream).

    The data of a frame is the payload of a message. Its name is the header `:event-type`; for the message type
    "exception" it is `EXCEPTION` and `:exception-type`, for "error" it is `ERROR` and `:error-code`. An error has no
    payload: its data is a JSON object with `:error-message` as `message`, which is the usual payload of an exception.

    A message consists of a prelude (length of the message, length of the headers, checksum of both), headers, payload,
    and a checksum of everything before it. Numbers are big-endian, checksums are CRC32. A stream that ends inside a
    message is an `IncompleteResponse`.
    """

    EXCEPTION = b"exception:"
    ERROR = b"error:"

    def __init__(self, limit: int = MAX_EVENT) -> None:
        super().__init__(limit)
        self._needed = _PRELUDE.size

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._error is not None:
            raise self._error
        self._pending.append(chunk)
        self._size += len(chunk)
        frames: list[Frame] = []
        if self._size >= self._needed:
            data = b"".join(self._pending)
            offset = 0
            try:
                while len(data) - offset >= self._needed:
                    if self._needed == _PRELUDE.size:  # a complete message is larger
                        self._needed = self._message_length(data, offset)
                    else:
                        frames.append(_parse_message(data[offset : offset + self._needed]))
                        offset += self._needed
                        self._needed = _PRELUDE.size
            except ProtocolError as exc:
                self._error = exc
            self._pending, self._size = [data[offset:]], len(data) - offset
        if self._error is not None and not frames:
            raise self._error
        return frames

    def close(self) -> list[Frame]:
        if self._error is not None:
            raise self._error
        if self._size:
            raise IncompleteResponse("the reply ended in the middle of an event stream message")
        return []

    def _message_length(self, data: bytes, offset: int) -> int:
        length, headers_length, checksum = _PRELUDE.unpack_from(data, offset)
        if crc32(data[offset : offset + 8]) != checksum:
            raise ProtocolError(
                "event stream: the prelude checksum does not match", frame=data[offset : offset + _MAX_START]
            )
        if length < _PRELUDE.size + headers_length + _CHECKSUM.size:
            raise ProtocolError(
                f"event stream: a message of {length} bytes cannot have headers of {headers_length} bytes",
                frame=data[offset : offset + _MAX_START],
            )
        if length > self._limit:
            raise self._too_large(data[offset:])
        return int(length)


def _parse_message(message: bytes) -> Frame:
    if crc32(message[: -_CHECKSUM.size]) != _CHECKSUM.unpack(message[-_CHECKSUM.size :])[0]:
        raise ProtocolError("event stream: the message checksum does not match", frame=message)
    payload_start = _PRELUDE.size + _PRELUDE.unpack_from(message)[1]
    headers = _parse_headers(message, payload_start)
    payload = message[payload_start : -_CHECKSUM.size]
    message_type = headers.get(b":message-type", b"event")
    if message_type == b"event":
        return headers.get(b":event-type", b""), payload
    if message_type == b"exception":
        return EventStreamReader.EXCEPTION + headers.get(b":exception-type", b""), payload
    if message_type == b"error":
        text = headers.get(b":error-message", b"").decode("utf-8", "replace")
        return EventStreamReader.ERROR + headers.get(b":error-code", b""), jsonio.encode({"message": text})
    raise ProtocolError(
        f"event stream: unknown message type {message_type.decode('utf-8', 'replace')!r}", frame=message
    )


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

    @property
    def whole(self) -> bool:
        return True

    def feed(self, chunk: bytes) -> list[Frame]:
        self._pending.append(chunk)
        self._size += len(chunk)
        if self._size > self._limit and self._error is None:
            self._error = self._too_large(b"".join(self._pending))
        if self._error is not None:
            raise self._error
        return []

    def close(self) -> list[Frame]:
        if self._error is not None:
            raise self._error
        body = b"".join(self._pending).removeprefix(_BOM)
        return [(b"", body)] if body.strip() else []


class FrameReader(Framing):
    """Server-sent events, a JSON array or a body that is one JSON object, depending on the first character.

    Some servers send an object although a stream was requested, and most send their errors so.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        super().__init__(limit)
        self._reader: Framing | None = None

    @property
    def whole(self) -> bool:
        return self._reader is not None and self._reader.whole

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._reader is not None:
            return self._reader.feed(chunk)
        if self._error is not None:
            raise self._error
        self._pending.append(chunk)
        self._size += len(chunk)
        if not chunk.strip():
            if self._size > self._limit:
                self._error = self._too_large(b"".join(self._pending))
                raise self._error
            return []
        data = b"".join(self._pending)
        self._pending = [data]
        start = data.removeprefix(_BOM).lstrip()
        if not start or _BOM.startswith(start):  # more of the byte order mark may follow
            return []
        self._pending = []
        if start[:1] == b"{":
            self._reader = BodyReader(self._limit)
        elif start[:1] == b"[":
            self._reader, data = JsonArrayReader(self._limit), start
        else:
            self._reader = SseDecoder(self._limit)
        return self._reader.feed(data)

    def close(self) -> list[Frame]:
        if self._error is not None:
            raise self._error
        return self._reader.close() if self._reader is not None else []
