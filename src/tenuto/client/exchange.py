"""One question on its way: sent, read, turned into events.

This is the innermost handler: it finds the target, writes the request, sends it, and hands out the events as they come.
Each attempt begins here anew, from the canonical request; so a retry or a fallback never resends another provider's
bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

import msgspec

from tenuto.client.body import MAX_REPLY, MAX_STREAM, Body
from tenuto.client.clock import Alarm, Clock
from tenuto.client.door import Way
from tenuto.client.line import Line, Opened
from tenuto.client.options import Timeouts
from tenuto.client.reply import Exchange
from tenuto.client.watch import Settled, Watch, out_of_time
from tenuto.core.events import ErrorEvent, MessageDone, StreamEvent
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, UserMessage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import ConnectionFailed, IncompleteResponse, LLMError, ProtocolError, TimedOut, UnsupportedContent
from tenuto.wire.decoder import MOST_CHOICES, Decoder
from tenuto.wire.prefix_binding import prefix_of
from tenuto.wire.registry import codec_for
from tenuto.wire.write import write_request

__all__ = ["Before", "Question"]

T = TypeVar("T")
Before: TypeAlias = Callable[[Target, WireRequest], Awaitable[None]]
"""What is to be done before a request goes out, each time it does: nothing is sent if it raises."""

_LINGER = 0.25
"""How long a finished stream is waited for to end, so that its line can be used again."""

_SLICE = 16 * 1024
"""So many bytes are decoded at once: a hundred events or so."""


class Question:
    """One call: its deadlines, and what is known of the attempt that is under way."""

    def __init__(
        self, line: Line, waits: Timeouts, total_at: float | None = None, before: Before | None = None
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
        watch = Watch(self._clock or self._line.clock, self._waits, self.total_at)
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

    async def _late_way(self, target: Target, request: ChatRequest) -> tuple[Target, Way]:
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
        except Settled:
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
        except (TimeoutError, Settled, LLMError):  # the reply is whole; the line is cut off instead of kept
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
            self._watch.settled()
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
    newest = f"messages[{len(transcript) - 1}]"
    for loss in losses:
        if loss.kind in ("content-refused", "unsupported-content") and loss.place.startswith(newest):
            raise UnsupportedContent(f"{target.provider.name}/{target.model}", loss.detail)
