"""A chat call, and the stream of its events."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, TypeAlias

import msgspec

from tenuto.client.deadlines import StreamIdleAfterEnd, out_of_time
from tenuto.client.exchange import MAX_STREAM, Attempt, Sender
from tenuto.client.middleware.base import Middleware, compose
from tenuto.client.options import Timeouts
from tenuto.client.reply import Reply
from tenuto.client.routing import Endpoint
from tenuto.core.events import ContentDelta, ErrorEvent, MessageDone, StreamEvent, TextDelta
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, UserMessage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript
from tenuto.errors import (
    ClosedError,
    ConnectionFailed,
    IncompleteResponse,
    LLMError,
    ProtocolError,
    TenutoError,
    TimedOut,
    UnsupportedContent,
)
from tenuto.wire.decoder import MOST_CHOICES, Decoder
from tenuto.wire.registry import codec_for
from tenuto.wire.write import write_request

BeforeSend: TypeAlias = Callable[[Target, WireRequest], Awaitable[None]]
"""Called before each request is sent. If it raises, the request is not sent."""

USAGE_WAIT = 30.0
"""Seconds to wait for the usage, or for the end of the stream, after the answer is complete."""
_SLICE = 16 * 1024
"""The number of bytes that are decoded at a time, about a hundred events: the first need not wait for the last."""


class ChatCall:
    """One chat call with all of its attempts. `calls` contains it while it runs."""

    def __init__(
        self,
        sender: Sender,
        request: ChatRequest,
        middleware: tuple[Middleware, ...],
        timeouts: Timeouts,
        total_at: float | None,
        before_send: BeforeSend | None,
        calls: set[ChatCall],
    ) -> None:
        self._sender = sender
        self._request = request
        self._middleware = middleware
        self._timeouts = timeouts
        self._total_at = total_at
        self._before_send = before_send
        self._calls = calls
        self._asked_at = 0.0
        self._reported: tuple[Loss, ...] = ()
        self._decoder: Decoder | None = None
        self._in_attempt = False
        self._reader: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._stop_reason: TenutoError | None = None
        self.attempt: Attempt | None = None
        """The last attempt that got a response."""
        self.response: ChatResponse | None = None
        self.is_reading = False
        """Whether a task waits for the next event."""
        self.done = False
        """Whether the events have ended."""

    # --- the whole call -----------------------------------------------------------------------------------------------

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Send the request through the middleware and yield the events. After the last one the reply is complete."""
        stream = compose(self._middleware, self._send)(self._request)
        loop = asyncio.get_running_loop()
        self._asked_at = self._sender.now()
        if self._total_at is None and self._timeouts.total is not None:
            self._total_at = loop.time() + self._timeouts.total
        timer = None if self._total_at is None else loop.call_at(self._total_at, self._on_deadline)
        self._calls.add(self)
        try:
            self._set_reader(asyncio.current_task())
            async for event in stream:
                if type(event) is MessageDone:
                    self.response = event.response
                self.is_reading = False
                yield event
                self.is_reading = True
                if self._stop_reason is not None:
                    break
                if (task := asyncio.current_task(loop)) is not self._reader:
                    self._set_reader(task)
        except asyncio.CancelledError:
            if not self._was_stopped():
                raise
        except LLMError as exc:
            self._add_transcript(exc)
            raise
        finally:
            self.is_reading, self.done = False, True
            if timer is not None:
                timer.cancel()
            self._calls.discard(self)
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
            if self.attempt is not None:  # middleware need not close the iterator that it gets
                self.attempt.close()
        self._raise_stop_reason()

    async def drain(self) -> Reply:
        """Read to the end and return the reply."""
        async for _ in self.events():
            pass
        return self.reply()

    def stop(self, reason: TenutoError) -> None:
        """End the call from outside. An `LLMError` is raised in the reader; any other reason ends its events."""
        if self._stop_reason is not None:
            return
        self._stop_reason = reason
        reader = self._reader
        if self.is_reading and reader is not None and reader is not asyncio.current_task():
            reader.cancel()

    def reply(self) -> Reply:
        """Return the reply, or the part of it that has arrived."""
        response = self.response
        if response is None and self._decoder is not None:
            response = self._decoder.partial()
        if response is None:
            response = ChatResponse("", "", "", (Choice(AssistantMessage((), incomplete=True)),))
        transcript = Transcript((*self._request.transcript, response.message))
        attempt = self.attempt
        if attempt is None:  # no provider has responded
            return Reply(response=response, transcript=transcript)
        return Reply(
            response=response,
            transcript=transcript,
            asked_at=self._asked_at,
            request_id=attempt.request_id,
            headers=attempt.headers,
            raw=attempt.raw,
        )

    def _set_reader(self, task: asyncio.Task[Any] | None) -> None:
        """Store the task that waits for the next event, and the number of its pending cancellations."""
        self.is_reading = True
        self._reader = task
        self._cancelling = 0 if task is None else task.cancelling()

    def _was_stopped(self) -> bool:
        """Tell whether only `stop` cancelled the reader. A cancellation from anyone else is propagated."""
        return (
            self._stop_reason is not None and self._reader is not None and self._reader.uncancel() <= self._cancelling
        )

    def _raise_stop_reason(self) -> None:
        """Raise the error that ended the call, unless the reply is complete."""
        if self.response is not None:
            return
        if isinstance(self._stop_reason, LLMError):
            self._add_transcript(self._stop_reason)
            raise self._stop_reason
        if self._stop_reason is None:
            raise TenutoError("the middleware ended without a reply: it must yield the last event, MessageDone")

    def _add_transcript(self, error: LLMError) -> None:
        if error.partial is not None and error.transcript is None:
            error.transcript = Transcript((*self._request.transcript, error.partial.message))

    def _on_deadline(self) -> None:
        """Stop the call at its total timeout, also in the pauses of middleware. An attempt has its own deadline."""
        if not (self.is_reading and self._in_attempt):
            self.stop(out_of_time(self._timeouts))

    # --- one attempt --------------------------------------------------------------------------------------------------

    async def _send(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        """Send a request once. Yield the events, of which the last is `MessageDone`; raise the typed error.

        Each attempt writes the request again, so that a fallback never sends the bytes of another provider.
        """
        router = self._sender.router
        target = router.target(request.model)
        endpoint = await router.endpoint(target, request.extra_headers)
        self._in_attempt = True
        try:
            async with aclosing(self._attempt_events(request, target, endpoint)) as stream:
                async for events in stream:
                    self._in_attempt = False
                    for event in events:
                        yield event
                    events.clear()  # not held while the next bytes are awaited
                    self._in_attempt = True
        finally:
            self._in_attempt = False

    async def _attempt_events(
        self, request: ChatRequest, target: Target, endpoint: Endpoint
    ) -> AsyncGenerator[list[StreamEvent], None]:
        """Write and send a request, and decode the response. The events before an error are yielded before it."""
        target = msgspec.structs.replace(target, account=endpoint.account, platform=endpoint.platform)
        wire = write_request(request, target)
        losses = wire.losses
        _check_content(request, target, losses)
        if losses and losses != self._reported:  # once for all attempts
            self._reported = losses
            self._sender.losses.report(target, losses, once=self._before_send is not None)
        if self._before_send is not None:
            await self._before_send(target, wire)
        self._decoder = decoder = _create_decoder(request, target, wire.body)
        with Attempt(self._sender, target.provider.name, self._timeouts, self._total_at) as attempt:
            await attempt.send(endpoint, wire)
            del wire  # its body may be large
            self.attempt = attempt
            await attempt.check_status()
            events, at_end = list[StreamEvent](), False
            if request.stream or attempt.is_stream:
                attempt.max_size = MAX_STREAM
                while not (at_end or decoder.ended or decoder.error):
                    chunk = await _read(attempt.read, decoder)
                    at_end = not chunk
                    for start in range(0, len(chunk), _SLICE):
                        frame_count = decoder.frame_count
                        yield _redact_errors(decoder.feed(chunk[start : start + _SLICE]), decoder, attempt)
                        if decoder.frame_count != frame_count:
                            attempt.deadlines.got_event()
                    del chunk  # do not hold it while waiting for the next one
                    if decoder.only_usage_missing:
                        attempt.deadlines.limit_end(USAGE_WAIT)
            else:
                attempt.raw = await _read(attempt.read_all, decoder)
                at_end = True
                if not attempt.raw.strip():
                    raise ProtocolError(f"a response without a body (HTTP {attempt.status})")
                events = decoder.feed_body(attempt.raw)
            yield _redact_errors([*events, *decoder.drain()], decoder, attempt)
            events = decoder.finish()
            if losses and isinstance(done := events[-1], MessageDone):
                response = msgspec.structs.replace(done.response, losses=(*losses, *done.response.losses))
                events[-1] = MessageDone(response)
            yield events
            if not at_end:
                await attempt.read_rest()


async def _read(read: Callable[[], Awaitable[bytes]], decoder: Decoder) -> bytes:
    """Read bytes of a response. If only the usage is missing, an error is the end of the response."""
    try:
        return await read()
    except StreamIdleAfterEnd:
        return b""
    except (ConnectionFailed, TimedOut, ProtocolError) as exc:
        if decoder.only_usage_missing:
            return b""
        if not isinstance(exc, ConnectionFailed):
            decoder.fail(exc)
            raise
        error = IncompleteResponse(f"the reply was interrupted: {exc}")
        decoder.fail(error)
        raise error from exc


def _redact_errors(events: list[StreamEvent], decoder: Decoder, attempt: Attempt) -> list[StreamEvent]:
    """Return the events without the keys that an error inside the stream quotes."""
    error = decoder.error
    if error is None:
        return events
    attempt.annotate(error)
    return [ErrorEvent(str(error), error.raw) if isinstance(event, ErrorEvent) else event for event in events]


def _create_decoder(request: ChatRequest, target: Target, body: bytes) -> Decoder:
    audio_format = request.audio.get("format", "") if request.audio else ""
    decoder = codec_for(target.dialect).decoder(
        target,
        seed=hashlib.sha256(body).hexdigest(),
        audio_format=audio_format if isinstance(audio_format, str) else "",
    )
    if target.traits.prefix_bound:
        decoder.request_body = body
    decoder.most_choices = MOST_CHOICES + (request.n or 0)
    return decoder


def _check_content(request: ChatRequest, target: Target, losses: tuple[Loss, ...]) -> None:
    """Raise `UnsupportedContent` if the newest user message has content that the target does not accept."""
    transcript = request.transcript
    if not losses or not isinstance(transcript[-1], UserMessage):
        return
    newest = len(transcript) - 1
    for loss in losses:
        if loss.kind in ("content-refused", "unsupported-content") and loss.location.message == newest:
            raise UnsupportedContent(f"{target.provider.name}/{target.model}", loss.detail)


class AsyncStream:
    """A reply while it arrives: use it in an `async with`, and iterate over its events.

    The request is sent when the first event is requested. Leaving the `async with` early closes the connection.
    """

    def __init__(self, start: Callable[[], ChatCall]) -> None:
        self._start = start
        self._call: ChatCall | None = None
        self._events: AsyncGenerator[StreamEvent, None] | None = None
        self._closed = self._interrupted = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        if self._closed:
            raise ClosedError("the stream is closed")
        if self._events is None:
            self._call = self._start()
            self._events = self._call.events()
        return self._events

    async def text_deltas(self) -> AsyncIterator[str]:
        """Yield only the text of the first choice, delta by delta."""
        async for event in self:
            if type(event) is ContentDelta and type(event.delta) is TextDelta and event.choice_index == 0:
                yield event.delta.text

    async def drain(self) -> Reply:
        """Read the remaining events and return the reply."""
        async for _ in self:
            pass
        return self.reply

    @property
    def reply(self) -> Reply:
        """The reply, after the last event; the part that arrived, if the stream was cancelled or closed.

        Raise `TenutoError` before the end, and if the stream failed: then its error has `partial` and `transcript`.
        """
        call = self._call
        if call is not None and (call.response is not None or self._interrupted):
            return call.reply()
        if call is not None and call.done:
            raise TenutoError("no reply: the stream failed; its error has the part that arrived")
        raise TenutoError("the stream has not ended: read on, or call drain() or cancel()")

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the provider's response, as soon as it starts."""
        attempt = self._call.attempt if self._call is not None else None
        return attempt.headers if attempt is not None else {}

    async def cancel(self) -> Reply:
        """Stop and return the part that has arrived: an incomplete reply whose unfinished blocks have no signature.

        A task that iterates over the stream at that moment sees it end.
        """
        await self.close()
        if self._call is None:
            self._call = self._start()
        return self._call.reply()

    async def close(self) -> None:
        """Close the connection. A second call has no effect."""
        was_closed, self._closed = self._closed, True
        call = self._call
        if was_closed or call is None or self._events is None:
            return
        self._interrupted = not call.done
        if call.is_reading:
            call.stop(TenutoError("the stream was closed"))
            if call.attempt is not None:
                call.attempt.close()
        else:
            await self._events.aclose()
