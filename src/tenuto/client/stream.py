"""A call, and the stream of its events."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias

import msgspec

from tenuto import errors
from tenuto.client.exchange import MAX_STREAM, Attempt, Sender, StreamIdleAfterEnd, out_of_time
from tenuto.client.middleware.base import (
    AnyNext,
    AnyRequest,
    Middleware,
    OperationCall,
    OperationDone,
    compose,
    split_model,
)
from tenuto.client.parameters import Timeouts
from tenuto.client.reply import Reply
from tenuto.closable import AsyncClosable
from tenuto.core.events import ContentDelta, ErrorEvent, MessageDone, StreamEvent, TextDelta
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, UserMessage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript
from tenuto.wire.body_builder import WrittenMessages
from tenuto.wire.codec import codec_for
from tenuto.wire.decoder import MOST_CHOICES, Decoder
from tenuto.wire.write import write_request

BeforeSend: TypeAlias = Callable[[Target, WireRequest], Awaitable[None]]
"""Called before each request is sent. If it raises, the request is not sent."""

USAGE_WAIT = 30.0
"""Seconds to wait for the usage, or for the end of the stream, after the answer is complete."""
_SLICE = 16 * 1024
"""The number of bytes that are decoded at a time, about a hundred events: the first need not wait for the last."""


class ClientCall(msgspec.Struct, eq=False):
    """One call with all of its attempts: a chat, or an operation that `handler` sends. `calls` has it while it runs."""

    sender: Sender
    _request: AnyRequest
    _middleware: tuple[Middleware, ...]
    _timeouts: Timeouts
    _total_at: float | None
    _calls: set[ClientCall]
    _before_send: BeforeSend | None = None
    _handler: AnyNext | None = None
    _written: WrittenMessages | None = None
    _asked_at: float = 0.0
    _reported: tuple[Loss, ...] = ()
    _decoder: Decoder | None = None
    _in_attempt: bool = False
    _reader: asyncio.Task[Any] | None = None
    _cancelling: int = 0
    _stop_reason: errors.TenutoError | None = None
    attempt: Attempt | None = None
    """The last attempt that got a response."""
    last: Any = None
    """The last event, `MessageDone` or `OperationDone`; None if it has not arrived."""
    is_reading: bool = False
    """Whether a task waits for the next event."""
    done: bool = False
    """Whether the events have ended."""

    # --- the whole call -----------------------------------------------------------------------------------------------

    async def events(self) -> AsyncGenerator[Any, None]:
        """Send the request through the middleware and yield the events. After the last one the reply is complete."""
        request, loop = self._request, asyncio.get_running_loop()
        operation = request.operation if isinstance(request, OperationCall) else "chat"
        last_type = MessageDone if operation == "chat" else OperationDone
        stream = compose(self._middleware, self._handler or self._send, operation)(request)
        self._asked_at = self.sender.now()
        if self._total_at is None and self._timeouts.total is not None:
            self._total_at = loop.time() + self._timeouts.total
        timer = None if self._total_at is None else loop.call_at(self._total_at, self._on_deadline)
        self._calls.add(self)
        try:
            self._set_reader(asyncio.current_task())
            async for event in stream:
                if type(event) is last_type:
                    self.last = event
                self.is_reading = False
                yield event
                self.is_reading = True
                if self._stop_reason is not None:
                    break
                if (task := asyncio.current_task(loop)) is not self._reader:
                    self._set_reader(task)
        except asyncio.CancelledError:
            # a cancellation that does not come from `stop` is propagated
            if self._stop_reason is None or self._reader is None or self._reader.uncancel() > self._cancelling:
                raise
        except errors.LLMError as exc:
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
        if self.last is not None:
            return
        if isinstance(self._stop_reason, errors.LLMError):
            reason, (provider, model) = self._stop_reason, split_model(request.model)
            reason.provider, reason.model = reason.provider or provider, reason.model or model
            self._add_transcript(self._stop_reason)
            raise self._stop_reason
        if self._stop_reason is None:
            name = last_type.__name__
            raise errors.TenutoError(f"the middleware ended without a result: it must yield the last event, {name}")

    async def drain(self) -> Reply:
        async for _ in self.events():
            pass
        return self.reply()

    def stop(self, reason: errors.TenutoError) -> None:
        """End the call from outside. An `LLMError` is raised in the reader; any other reason ends its events."""
        if self._stop_reason is not None:
            return
        self._stop_reason = reason
        reader = self._reader
        if self.is_reading and reader is not None and reader is not asyncio.current_task():
            reader.cancel()

    def reply(self) -> Reply:
        """Return the reply to a chat, or the part of it that has arrived."""
        assert isinstance(self._request, ChatRequest)
        response: ChatResponse | None = None if self.last is None else self.last.response
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

    def _add_transcript(self, error: errors.LLMError) -> None:
        if error.partial is not None and error.transcript is None and isinstance(self._request, ChatRequest):
            error.transcript = Transcript((*self._request.transcript, error.partial.message))

    def _on_deadline(self) -> None:
        """Stop the call at its total timeout, also in the pauses of middleware. An attempt has its own deadline."""
        if not (self.is_reading and self._in_attempt):
            self.stop(out_of_time(self._timeouts))

    # --- one attempt --------------------------------------------------------------------------------------------------

    async def _send(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        """Send a chat once. Yield the events, of which the last is `MessageDone`; raise the typed error.

        Each attempt writes the request again, so that a fallback never sends the bytes of another provider.
        """
        router = self.sender.router
        target = router.target(request.model)
        endpoint = await router.endpoint(target, request.extra_headers)
        target = msgspec.structs.replace(target, account=endpoint.account, platform=endpoint.platform)
        attempt = Attempt(self.sender, target, self._timeouts, self._total_at)
        self._in_attempt = True
        try:
            wire = write_request(request, target, written=self._written)
            losses = wire.losses
            if losses:
                self._report_losses(request, target, losses)
            if self._before_send is not None:
                await self._before_send(target, wire)
            audio_format = (request.audio or {}).get("format")
            self._decoder = decoder = codec_for(target.dialect).decoder(
                target,
                seed=hashlib.sha256(wire.body).hexdigest(),
                audio_format=audio_format if isinstance(audio_format, str) else "",
            )
            if target.traits.prefix_bound:
                decoder.request_body = wire.body
            decoder.most_choices = MOST_CHOICES + (request.n or 0)
            await attempt.send(endpoint, wire)
            del wire  # its body may be large
            self.attempt = attempt
            await attempt.check_status()
            async with aclosing(self._read_events(attempt, decoder, losses, stream=request.stream)) as batches:
                async for events in batches:
                    if decoder.error is not None:
                        attempt.annotate(decoder.error)
                        error = ErrorEvent(decoder.error.message, decoder.error.raw)  # without the keys that it quotes
                        events[:] = [error if isinstance(event, ErrorEvent) else event for event in events]
                    self._in_attempt = False
                    for event in events:
                        yield event
                    events.clear()  # not held while the next bytes are awaited
                    self._in_attempt = True
        except errors.LLMError as exc:
            attempt.annotate(exc)
            raise
        finally:
            self._in_attempt = False
            attempt.close()

    def _report_losses(self, request: ChatRequest, target: Target, losses: tuple[Loss, ...]) -> None:
        """Report the losses once for all attempts. Raise `UnsupportedContent` if the newest user message is concerned."""
        newest = len(request.transcript) - 1
        if isinstance(request.transcript[newest], UserMessage):
            for loss in losses:
                if loss.kind in ("content-refused", "unsupported-content") and loss.location.message == newest:
                    raise errors.UnsupportedContent(f"{target.provider.name}/{target.model}", loss.detail)
        if losses != self._reported:
            self._reported = losses
            self.sender.report_losses(target, losses, once=self._before_send is not None)

    async def _read_events(
        self, attempt: Attempt, decoder: Decoder, losses: tuple[Loss, ...], *, stream: bool
    ) -> AsyncGenerator[list[StreamEvent], None]:
        """Read and decode a response. The events before an error are yielded before it."""
        if not stream:  # some servers stream although no stream was requested
            stream = attempt.headers.get("content-type", "").lower().startswith("text/event-stream")
        attempt.max_size = MAX_STREAM if stream else attempt.max_size
        at_end = False
        while not (at_end or decoder.ended or decoder.error):
            try:
                chunk = await (attempt.read() if stream else attempt.read_all())
            except StreamIdleAfterEnd:
                chunk = b""
            except (errors.ConnectionFailed, errors.TimedOut, errors.ProtocolError) as exc:
                if decoder.only_usage_missing:
                    chunk = b""
                elif isinstance(exc, errors.ConnectionFailed):
                    error = errors.IncompleteResponse(f"the reply was interrupted: {exc}")
                    decoder.fail(error)
                    raise error from exc
                else:
                    decoder.fail(exc)
                    raise
            at_end = not (chunk and stream)
            if not stream:
                attempt.raw = chunk
                if not chunk.strip():
                    raise errors.ProtocolError(f"a response without a body (HTTP {attempt.status})")
                yield decoder.feed_body(chunk)
                break
            for start in range(0, len(chunk), _SLICE):
                frame_count = decoder.frame_count
                yield decoder.feed(chunk[start : start + _SLICE])
                if decoder.frame_count != frame_count:
                    attempt.event_left = self._timeouts.event
            del chunk  # do not hold it while waiting for the next one
            if decoder.only_usage_missing and attempt.end_left is None:
                attempt.end_left = USAGE_WAIT
        yield decoder.drain()
        events = decoder.finish()
        if losses and isinstance(done := events[-1], MessageDone):
            response = msgspec.structs.replace(done.response, losses=(*losses, *done.response.losses))
            events[-1] = MessageDone(response)
        yield events
        if not at_end:
            await attempt.read_rest()


class AsyncStream(AsyncClosable):
    """A reply while it arrives: use it in an `async with`, and iterate over its events.

    The request is sent when the first event is requested. Leaving the `async with` early closes the connection.
    """

    def __init__(self, start: Callable[[], ClientCall]) -> None:
        self._start = start
        self._call: ClientCall | None = None
        self._events: AsyncGenerator[StreamEvent, None] | None = None
        self._closed = self._interrupted = False

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        if self._closed:
            raise errors.ClosedError("the stream is closed")
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
        if call is not None and (call.last is not None or self._interrupted):
            return call.reply()
        if call is not None and call.done:
            raise errors.TenutoError("no reply: the stream failed; its error has the part that arrived")
        raise errors.TenutoError("the stream has not ended: read on, or call drain() or cancel()")

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
            call.stop(errors.TenutoError("the stream was closed"))
            if call.attempt is not None:
                call.attempt.close()
        else:
            await self._events.aclose()
