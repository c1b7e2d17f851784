"""One question on its way: sent, read, turned into events.

This is the innermost handler: it finds the target, writes the request, sends it, and hands out the events as they come.
Each attempt begins here anew, from the canonical request; so a retry or a fallback never resends another provider's
bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from tenuto import settings
from tenuto.client.deadlines import Alarm, Clock, Deadlines, StreamIdleAfterEnd, out_of_time
from tenuto.client.http import HttpReply, HttpRequest, Transport, safe_url, secrets_of, wrap_secrets
from tenuto.client.losses import LossReporter
from tenuto.client.options import OnLoss, Timeouts
from tenuto.client.reply import Exchange
from tenuto.client.routing import Endpoint, Router
from tenuto.core.events import ErrorEvent, MessageDone, StreamEvent
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, UserMessage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import ConnectionFailed, IncompleteResponse, LLMError, ProtocolError, TimedOut, UnsupportedContent
from tenuto.wire.decoder import MOST_CHOICES, Decoder
from tenuto.wire.prefix_binding import prefix_of
from tenuto.wire.provider_errors import classify_error
from tenuto.wire.registry import codec_for
from tenuto.wire.write import write_request

__all__ = ["MAX_ERROR", "MAX_REPLY", "MAX_STREAM", "Attempt", "BeforeSend", "Body", "Opened", "Sender"]

MAX_REPLY = 64 * 1024 * 1024
MAX_STREAM = 256 * 1024 * 1024
MAX_ERROR = 256 * 1024
_PIECE = 256 * 1024


class Body:
    """Reads an answer. More than `limit` bytes are a `ProtocolError`; `watch` is told when it reads."""

    def __init__(self, reply: HttpReply, limit: int, watch: Deadlines) -> None:
        self._reply = reply
        self._limit = limit
        self._watch = watch
        self._size = 0
        self._inflate = _inflater(reply.headers.get("content-encoding", ""))

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end."""
        self._watch.resume()
        piece = await (self._reply.read() if self._inflate is None else self._inflate.read(self._reply))
        self._size += len(piece)
        self._watch.got_bytes()
        if self._size > self._limit:
            raise ProtocolError(f"the answer is larger than {self._limit} bytes; the rest was not read")
        return piece

    async def whole(self) -> bytes:
        """Return everything."""
        pieces = []
        while piece := await self.read():
            self._watch.event()  # a body that comes whole has no events: its bytes are its signs of life
            pieces.append(piece)
        return b"".join(pieces)

    async def head(self, size: int) -> tuple[bytes, bool]:
        """Return the first bytes, and whether there are more."""
        pieces: list[bytes] = []
        while self._size < size and (piece := await self.read()):
            pieces.append(piece)
        found = b"".join(pieces)
        return found[:size], len(found) >= size


class _Inflater:
    """Unpacks piece by piece; a piece of input may give many of output, but never more than `_PIECE` bytes at once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._raw = False
        self._z = zlib.decompressobj(zlib.MAX_WBITS + (16 if name == "gzip" else 0))

    async def read(self, reply: HttpReply) -> bytes:
        while not self._z.eof:
            packed = self._z.unconsumed_tail or await reply.read()
            if not packed:
                raise ConnectionFailed(f"the answer ended in the middle of its {self._name} data")
            if piece := self._unpacked(packed):
                return piece
        while await reply.read():  # what stands behind the end belongs to nothing
            pass
        return b""

    def _unpacked(self, packed: bytes) -> bytes:
        try:
            return self._z.decompress(packed, _PIECE)
        except zlib.error as exc:
            if self._name == "deflate" and not self._raw:  # some servers leave off the wrapper
                self._raw, self._z = True, zlib.decompressobj(-zlib.MAX_WBITS)
                return self._unpacked(packed)
            raise ProtocolError(f"the answer's {self._name} data cannot be unpacked: {exc}") from exc


def _inflater(encoding: str) -> _Inflater | None:
    name = encoding.strip().lower().removeprefix("x-")
    if name in ("", "identity"):
        return None
    if name in ("gzip", "deflate"):
        return _Inflater(name)
    raise ProtocolError(f"the answer is compressed with {encoding!r}, which was not asked for and is not read")


log = logging.getLogger("tenuto")
USER_AGENT = "tenuto/0.1"
_COVER = "***"
_LONGEST = 2000
"""How many characters of an error's text are its message; a server may answer with a whole page."""


class Sender:
    """Sends a client's requests."""

    def __init__(self, door: Router, transport: Transport, now: Callable[[], float], on_loss: OnLoss = "warn") -> None:
        self.losses = LossReporter(on_loss)
        self._door = door
        self.target = door.target
        self.waits = door.needs_await
        self._transport = transport
        self.now = now
        self.closed = False
        self._clock: Clock | None = None
        self.tapped = settings.debug("wire")
        if self.tapped:
            _show_debugging()

    @property
    def clock(self) -> Clock:
        """The clock of the loop that runs."""
        loop = asyncio.get_running_loop()
        if self._clock is None or self._clock.loop is not loop:
            self._clock = Clock(loop)
        return self._clock

    def close(self) -> None:
        """Send nothing more, and let no deadline pass any more."""
        self.closed = True
        if self._clock is not None:
            self._clock.close()

    async def way_to(self, target: Target, headers: Mapping[str, str]) -> tuple[Target, Endpoint]:
        """Find how to get to a target; the target comes back with the account that is asked. `headers` are the caller's."""
        way = await self._door.endpoint(target, headers)
        return msgspec.structs.replace(target, account=way.account, platform=way.platform), way

    async def open(self, target: Target, way: Endpoint, wire: WireRequest, watch: Deadlines) -> Opened:
        """Send a request; return the answer once its head is there, whatever it says. `watch` guards it from now on.

        Raise what a transport raises, and `TimedOut` if no answer begins in time.
        """
        headers = {
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
            **({"content-type": "application/json"} if wire.body else {}),
            **way.auth,
            **wrap_secrets(wire.headers),
        }
        request = HttpRequest(wire.method, way.url(wire.path), headers, wire.body, watch.waits.connect)
        secrets = secrets_of(headers)
        if self.closed:
            raise ConnectionFailed("the client was closed", provider=target.provider.name, retryable=False)
        if self.tapped:
            log.debug("-> %r %s", request, redact(wire.body, secrets))
        try:
            reply = await watch.head(self._transport.send(request))
        except BaseException as exc:
            watch.close()
            if not isinstance(exc, LLMError):
                raise
            exc.provider = exc.provider or target.provider.name
            raise _clean(exc, secrets) from exc.__cause__
        watch.start_body(reply.abort)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s answered %d", wire.method, safe_url(request.url), reply.status)
        return Opened(self, target, secrets, reply, watch)

    async def ask(self, target: Target, wire: WireRequest, waits: Timeouts, total_at: float | None) -> bytes:
        """Send a request whose answer does not stream; return its body, or raise the typed error it came to."""
        target, way = await self.way_to(target, wire.headers)
        opened = await self.open(target, way, wire, Deadlines(self.clock, waits, total_at))
        try:
            await opened.check()
            body = await opened.body(MAX_REPLY).whole()
            opened.tap(body)
            return opened.covered(body)
        except LLMError as exc:
            raise opened.known(exc) from exc.__cause__
        finally:
            opened.close()


class Opened:
    """An answer whose head is there. It must be closed."""

    def __init__(
        self, line: Sender, target: Target, secrets: tuple[str, ...], reply: HttpReply, watch: Deadlines
    ) -> None:
        self._line = line
        self._secrets = secrets
        self._reply = reply
        self._provider = target.provider.name
        self._untapped = b""
        self.watch = watch
        headers = reply.headers
        if secrets and any(secret in value for secret in secrets for value in headers.values()):
            headers = {name: redact(value, secrets) for name, value in headers.items()}
        self.exchange = Exchange(target, reply.status, headers)
        self._content_type = headers.get("content-type", "").lower()
        self.streams = self._content_type.startswith("text/event-stream")
        """Whether the response is a stream, even if none was requested."""

    def body(self, limit: int) -> Body:
        """Begin to read; `ProtocolError` if the head already tells that this is no answer of an API."""
        if "html" in self._content_type:
            raise ProtocolError(f"the answer is a web page ({self._content_type}); is base_url the address of an API?")
        return Body(self._reply, limit, self.watch)

    async def check(self) -> None:
        """Raise the typed error if the answer is a refusal."""
        status, headers = self._reply.status, self.exchange.headers
        if 200 <= status < 300:
            return
        if status < 200:
            what = "upgrade" if status == 101 else "status"
            raise LLMError(f"HTTP {status}: unexpected {what}", provider=self._provider, status=status)
        raw, more = await self._refusal()
        text = redact(raw, self._secrets)
        if 300 <= status < 400 and "location" in headers:
            where = safe_url(headers["location"])
            message = f"redirected to {where}: not followed, because a key stays with its address; set it as base_url"
            raise LLMError(message, provider=self._provider, status=status, raw=text)
        error = classify_error(text, provider=self._provider, status=status, headers=headers)
        if len(error.message) > _LONGEST:
            error.message = f"{error.message[:_LONGEST]}... ({len(error.message)} characters; raw has them)"
            error.args = (error.message,)
        if error.retry_after is None:
            error.retry_after = _until(headers.get("retry-after", ""), self._line.now())
        if more:
            error.add_note(f"the body of the error is longer than {MAX_ERROR} bytes; the rest was not read")
        raise error

    async def _refusal(self) -> tuple[bytes, bool]:
        try:
            return await Body(self._reply, MAX_REPLY, self.watch).head(MAX_ERROR)
        except (ConnectionFailed, TimedOut, ProtocolError) as exc:  # the status alone says what it is
            log.debug("the body of the error could not be read: %s", exc)
            return b"", False

    def tap(self, piece: bytes) -> None:
        """Log what arrived, if asked for. An empty piece is the end.

        As many bytes as the longest secret has are held back: the rest of a secret may be in the next piece.
        """
        if not self._line.tapped:
            return
        held = self.covered(self._untapped + piece)
        cut = len(held) - (len(self._secrets[0].encode()) - 1 if self._secrets and piece else 0)
        while 0 < cut < len(held) and held[cut] & 0xC0 == 0x80:  # not inside a character
            cut -= 1
        self._untapped = held[max(cut, 0) :]
        if cut > 0:
            log.debug("<- %s", held[:cut].decode("utf-8", "replace"))

    def covered(self, body: bytes) -> bytes:
        """Cover the keys that a body quotes."""
        for secret in self._secrets:
            body = body.replace(secret.encode(), _COVER.encode())
        return body

    def known(self, error: LLMError) -> LLMError:
        """Write on an error where it comes from, and cover the key wherever the server quoted it."""
        error.provider = error.provider or self._provider
        error.request_id = error.request_id or self.exchange.request_id
        return _clean(error, self._secrets)

    def close(self) -> None:
        """Let the line go."""
        self.tap(b"")
        self.watch.close()
        self._reply.close()


def redact(data: bytes | str, secrets: tuple[str, ...]) -> str:
    """Return the text with the keys covered."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    for secret in secrets:
        text = text.replace(secret, _COVER)
    return text


def _clean(error: LLMError, secrets: tuple[str, ...]) -> LLMError:
    """Cover the keys wherever an error quotes them."""
    if any(secret in error.raw or secret in str(error) for secret in secrets):
        error.raw, error.message = redact(error.raw, secrets), redact(error.message, secrets)
        error.args = (error.message,)
        if isinstance(error, ProtocolError):
            error.frame = redact(error.frame, secrets).encode()
    return error


def _until(date: str, now: float) -> float | None:
    """Return the seconds to a date, 0 if it has passed; None if it is no date."""
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _show_debugging() -> None:
    """Where nobody set up logging, debugging goes to the terminal."""
    log.setLevel(logging.DEBUG)
    if not log.hasHandlers():
        log.addHandler(logging.StreamHandler(sys.stderr))


T = TypeVar("T")
BeforeSend: TypeAlias = Callable[[Target, WireRequest], Awaitable[None]]
"""What is to be done before a request goes out, each time it does: nothing is sent if it raises."""

_LINGER = 0.25
"""How long a finished stream is waited for to end, so that its line can be used again."""

_SLICE = 16 * 1024
"""So many bytes are decoded at once: a hundred events or so."""


class Attempt:
    """One call: its deadlines, and what is known of the attempt that is under way."""

    def __init__(
        self, line: Sender, waits: Timeouts, total_at: float | None = None, before: BeforeSend | None = None
    ) -> None:
        self._line = line
        self._waits = waits
        self._before = before
        self.total_at = total_at
        self._opened: Opened | None = None
        self._decoder: Decoder | None = None
        self._clock: Clock | None = None
        self._reported: tuple[Loss, ...] = ()
        self.exchange: Exchange | None = None
        self.asking = False

    def begin(self, call: Alarm) -> None:
        """The call begins: from now on its whole time runs, whatever stands around it, and `call` is rung at its end."""
        self._clock = clock = self._line.clock
        if self.total_at is None and self._waits.total is not None:
            self.total_at = clock.time() + self._waits.total
        if self.total_at is not None:
            clock.set(call, self.total_at)

    def over(self, call: Alarm) -> None:
        """The call has ended: ring no more."""
        if self._clock is not None:
            self._clock.drop(call)

    def late(self) -> TimedOut:
        """Say that the whole time is over."""
        return out_of_time(self._waits)

    async def ask(self, request: ChatRequest) -> AsyncIterator[list[StreamEvent]]:
        """Ask once: yield the events, of which the last is `MessageDone`; raise the typed error it came to."""
        reading, opened = await self._own(self._begin(request))
        try:
            while not reading.done:
                self.asking = True  # as in _own, which would be a coroutine more for each read: 2 % of what one costs
                try:
                    events = await reading.step()
                finally:
                    self.asking = False
                yield events
            await reading.linger()
        except LLMError as exc:
            raise opened.known(exc) from exc.__cause__
        finally:
            opened.close()

    async def _own(self, act: Coroutine[Any, Any, T]) -> T:
        """Wait for something that has deadlines of its own."""
        self.asking = True
        try:
            return await act
        finally:
            self.asking = False

    def close(self) -> None:
        """Let the line go, whoever still holds the events: middleware need not close what it was handed."""
        if self._opened is not None:
            self._opened.close()

    def partial(self) -> ChatResponse:
        """Assemble what has come so far; open blocks are stripped of their tokens."""
        if self._decoder is not None:
            return self._decoder.partial()
        return ChatResponse("", "", "", (Choice(AssistantMessage((), incomplete=True)),))

    async def _begin(self, request: ChatRequest) -> tuple[Reading, Opened]:
        target = self._line.target(request.model)
        if self._line.waits(target):
            target, way = await self._late_way(target, request)
        else:  # a key that is a string is there at once, and needs no clock
            target, way = await self._line.way_to(target, request.extra_headers)
        wire = write_request(request, target)
        _check_content(request, target, wire.losses)
        self._report(target, wire.losses)
        if self._before is not None:
            await self._before(target, wire)
        self._decoder = decoder = _decoder(request, target, wire.body)
        watch = Deadlines(self._clock or self._line.clock, self._waits, self.total_at)
        self._opened = opened = await self._line.open(target, way, wire, watch)
        self.exchange = opened.exchange
        try:
            await opened.check()
            streams = request.stream or opened.streams
            body = opened.body(MAX_STREAM if streams else MAX_REPLY)
        except BaseException as exc:
            opened.close()
            if isinstance(exc, LLMError):
                opened.known(exc)
            raise
        return Reading(opened, body, decoder, wire.losses, whole=not streams), opened

    def _report(self, target: Target, losses: tuple[Loss, ...]) -> None:
        """Report the losses of the request, once for all attempts."""
        if losses and losses != self._reported:
            self._reported = losses
            self._line.losses.report(target, losses, once=self._before is not None)

    async def _late_way(self, target: Target, request: ChatRequest) -> tuple[Target, Endpoint]:
        try:
            async with asyncio.timeout_at(self.total_at):
                return await self._line.way_to(target, request.extra_headers)
        except TimeoutError:
            raise self.late() from None


class Reading:
    """An answer on its way through the decoder.

    Faults are told in order: `step` returns the events that came before one, and the next `step` raises it.
    """

    def __init__(self, opened: Opened, body: Body, decoder: Decoder, losses: tuple[Loss, ...], *, whole: bool) -> None:
        self._opened = opened
        self._watch = opened.watch
        self._body = body
        self._decoder = decoder
        self._losses = losses
        self._whole = whole
        self._error: LLMError | None = None
        self._piece, self._read_to = b"", 0
        self._at_end = False
        self.done = False

    async def step(self) -> list[StreamEvent]:
        """Return the events of the next bytes; the last of all is `MessageDone`."""
        if self._error is not None:
            raise self._error
        if self._piece:
            return self._fed()
        try:
            piece = await (self._body.whole() if self._whole else self._body.read())
        except StreamIdleAfterEnd:
            piece = b""
        except (ConnectionFailed, TimedOut, ProtocolError) as exc:
            return self._broken(exc)
        if self._whole:
            return self._read_whole(piece)
        self._opened.tap(piece)
        self._piece = piece
        return self._fed()

    async def linger(self) -> None:
        """Wait a moment for the end of a stream whose last word has come."""
        if self._at_end:
            return
        try:
            async with asyncio.timeout(_LINGER):
                while await self._body.read():
                    pass
        except (TimeoutError, StreamIdleAfterEnd, LLMError):  # the reply is whole; the line is cut off instead of kept
            return

    def _read_whole(self, body: bytes) -> list[StreamEvent]:
        self._opened.exchange.raw = body
        self._at_end = True
        self._opened.tap(body)
        if not body.strip():
            self._error = ProtocolError(f"an answer without a body (HTTP {self._opened.exchange.status})")
            return []
        events = self._decoder.feed_body(body)
        return self._covered(events) if self._decoder.error is not None else [*events, *self._last()]

    def _fed(self) -> list[StreamEvent]:
        """Decode the next slice of what came: the first events need not wait for the last."""
        piece = self._piece
        if len(piece) > _SLICE:
            piece = self._sliced(piece)
        else:
            self._piece = b""  # whoever waits for more does not hold what was read
        if not piece:
            self._at_end = True
            return self._last()
        decoder, heard = self._decoder, self._decoder.frame_count
        events = decoder.feed(piece)
        if decoder.error is not None:
            return self._covered(events)
        if decoder.frame_count != heard:
            self._watch.event()
        if decoder.ended and not self._piece:
            return [*events, *self._last()]
        if decoder.only_usage_missing:
            self._watch.answer_complete()
        return events

    def _sliced(self, piece: bytes) -> bytes:
        start, end = self._read_to, self._read_to + _SLICE
        if end < len(piece):
            self._read_to = end
        else:
            self._piece, self._read_to = b"", 0
        return piece[start:end]

    def _last(self) -> list[StreamEvent]:
        events = self._decoder.drain()
        if self._decoder.error is not None:
            return self._covered(events)
        try:
            events += self._decoder.finish()
        except LLMError as exc:
            self._error = exc
            return events
        self.done = True
        last = events[-1]
        if self._losses and isinstance(last, MessageDone):
            response = msgspec.structs.replace(last.response, losses=(*self._losses, *last.response.losses))
            events[-1] = MessageDone(response)
        return events

    def _broken(self, exc: LLMError) -> list[StreamEvent]:
        """The line failed. A reply whose last word has come is whole all the same."""
        self._at_end = True
        if self._decoder.only_usage_missing:
            return self._last()
        self._error = exc
        if isinstance(exc, ConnectionFailed):
            self._error = IncompleteResponse(f"the reply broke off: {exc}")
            self._error.__cause__ = exc
        self._decoder.fail(self._error)
        return []

    def _covered(self, events: list[StreamEvent]) -> list[StreamEvent]:
        """The provider reported an error inside the stream: hand out what came, without the key it may quote."""
        assert self._decoder.error is not None
        self._error = self._opened.known(self._decoder.error)
        return [ErrorEvent(str(self._error), self._error.raw) if isinstance(e, ErrorEvent) else e for e in events]


def _decoder(request: ChatRequest, target: Target, body: bytes) -> Decoder:
    sound = request.audio.get("format", "") if request.audio else ""
    seed = hashlib.sha256(body).hexdigest()
    decoder = codec_for(target.dialect).decoder(target, seed=seed, audio_format=sound if isinstance(sound, str) else "")
    decoder.prefix = prefix_of(body, target)
    decoder.most_choices = MOST_CHOICES + (request.n or 0)
    return decoder


def _check_content(request: ChatRequest, target: Target, losses: tuple[Loss, ...]) -> None:
    """Raise `UnsupportedContent` if the newest message of the user has content that the target does not take."""
    transcript = request.transcript
    if not losses or not isinstance(transcript[-1], UserMessage):
        return
    newest = len(transcript) - 1
    for loss in losses:
        if loss.kind in ("content-refused", "unsupported-content") and loss.location.message == newest:
            raise UnsupportedContent(f"{target.provider.name}/{target.model}", loss.detail)
