"""A reply while it arrives."""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tenuto.client.middleware.base import AnyNext
from tenuto.client.reply import Reply
from tenuto.core.events import ContentDelta, MessageDone, StreamEvent, TextDelta
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.core.transcript import Transcript
from tenuto.errors import ClosedError, LLMError, TenutoError

if TYPE_CHECKING:
    from tenuto.client.exchange import Attempt

__all__ = ["AsyncStream", "ChatCall"]


def _nothing() -> None:
    return None


def _current_task() -> Callable[[], asyncio.Task[Any] | None]:
    """Return what tells the current task of the running loop: it is asked for each event, so it has to be quick."""
    loop = asyncio.get_running_loop()
    if sys.version_info < (3, 12):  # there it is written in Python, and costs as much as all the layers together
        tasks: dict[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = getattr(
            asyncio.tasks, "_current_tasks", None
        )
        if tasks is not None:
            return partial(tasks.get, loop)
    return partial(asyncio.current_task, loop)


class ChatCall:
    """One call through the middleware: yields the events, keeps the reply. While it runs, it stands in `calls`."""

    def __init__(
        self, request: ChatRequest, question: Attempt, handler: AnyNext, now: Callable[[], float], calls: set[ChatCall]
    ) -> None:
        self._request = request
        self._handler = handler
        self._now = now
        self._calls = calls
        self.question = question
        self.response: ChatResponse | None = None
        self._asked_at = 0.0
        self._generator: Callable[[], AsyncGenerator[StreamEvent, None] | None] = _nothing
        self._drains = False
        self._reader: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._ended: TenutoError | None = None

    def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events; the reply is there when they have ended."""
        generator = self._run()
        self._generator = weakref.ref(generator)  # it holds this call already
        return generator

    async def _run(self) -> AsyncGenerator[StreamEvent, None]:
        current = _current_task()
        stream = self._begin(current())
        try:
            async for event in stream:
                if type(event) is MessageDone:
                    self.response = event.response
                yield event
                if self._ended is not None:
                    break
                if (task := current()) is not self._reader:
                    self._set_reader(task)
        except asyncio.CancelledError:
            if not self._stopped():
                raise
        except LLMError as exc:
            self._add_transcript(exc)
            raise
        finally:
            await self._close(stream)
        self._conclude()

    async def drain(self) -> Reply:
        """Read to the end."""
        stream = self._begin(asyncio.current_task())
        self._drains = True
        try:
            async for event in stream:
                if type(event) is MessageDone:
                    self.response = event.response
                if self._ended is not None:
                    break
        except asyncio.CancelledError:
            if not self._stopped():
                raise
        except LLMError as exc:
            self._add_transcript(exc)
            raise
        finally:
            self._drains = False
            await self._close(stream)
        self._conclude()
        return self.reply()

    def _begin(self, reader: asyncio.Task[Any] | None) -> AsyncIterator[StreamEvent]:
        stream = self._handler(self._request)  # first: a layer that raises at once leaves nothing behind
        self._asked_at = self._now()
        self._set_reader(reader)
        self._calls.add(self)
        self.question.begin(self)
        return stream

    async def _close(self, stream: AsyncIterator[StreamEvent]) -> None:
        self._calls.discard(self)
        self.question.over(self)
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
        self.question.close()

    def _set_reader(self, task: asyncio.Task[Any] | None) -> None:
        """Remember who waits for the next event, and how often that task was to be cancelled already."""
        self._reader = task
        self._cancelling = 0 if task is None else task.cancelling()

    def _stopped(self) -> bool:
        """Whether the reader was cancelled by `stop`, and by nobody else: whoever else wanted it gets what he wanted."""
        return self._ended is not None and self._reader is not None and self._reader.uncancel() <= self._cancelling

    def _conclude(self) -> None:
        """Raise what is to be said of a call that ended; whatever ended it, a reply that was there is no error."""
        if self.response is not None:
            return
        if isinstance(self._ended, LLMError):
            self._add_transcript(self._ended)
            raise self._ended
        if self._ended is None:
            raise TenutoError("the middleware ended without a reply: it must pass on the last event, MessageDone")

    def _add_transcript(self, error: LLMError) -> None:
        if error.partial is not None and error.transcript is None:
            error.transcript = Transcript((*self._request.transcript, error.partial.message))

    def ring(self, _now: float) -> None:
        """The whole time is over: it also bounds what middleware waits for, its pauses and its queues."""
        if not (self.is_reading and self.question.asking):  # what is being read has deadlines of its own
            self.stop(self.question.late())

    @property
    def done(self) -> bool:
        """Whether the events have ended, one way or another."""
        return self._generator is not _nothing and getattr(self._generator(), "ag_frame", None) is None

    @property
    def is_reading(self) -> bool:
        """Whether somebody waits for the next event at this moment."""
        return self._drains or bool(getattr(self._generator(), "ag_running", False))

    def stop(self, why: TenutoError) -> None:
        """End the call, from outside. An `LLMError` is raised where the events are read; anything else ends them."""
        if self._ended is not None:
            return
        self._ended = why
        reader = self._reader
        if self.is_reading and reader is not None and reader is not asyncio.current_task():
            reader.cancel()

    def reply(self) -> Reply:
        """Return the reply, or what has come of it."""
        response = self.response or self.question.partial()
        transcript = Transcript((*self._request.transcript, response.message))
        exchange = self.question.exchange
        if exchange is None:  # nobody was asked
            return Reply(response=response, transcript=transcript)
        return Reply(
            response=response,
            transcript=transcript,
            asked_at=self._asked_at,
            request_id=exchange.request_id,
            headers=exchange.headers,
            raw=exchange.raw,
        )


class AsyncStream:
    """A reply while it arrives: `async with` it and iterate over its events.

    The request goes out with the first event that is asked for. Leaving the `async with` early closes the connection.
    """

    def __init__(self, start: Callable[[], ChatCall]) -> None:
        self._start = start
        self._call: ChatCall | None = None
        self._events: AsyncGenerator[StreamEvent, None] | None = None
        self._closed = self._cut_short = False

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
        """Yield only the text of the first answer, piece by piece."""
        async for event in self:
            if type(event) is ContentDelta and type(event.delta) is TextDelta and event.choice_index == 0:
                yield event.delta.text

    async def drain(self) -> Reply:
        """Read what is left, and return the reply."""
        async for _ in self:
            pass
        return self.reply

    @property
    def reply(self) -> Reply:
        """The reply, once the events have ended; what arrived of it, if the stream was cancelled or closed.

        Raise `TenutoError` before the end, and if the stream failed: then the error has `partial` and `transcript`.
        """
        call = self._call
        if call is not None and (call.response is not None or self._cut_short):
            return call.reply()
        if call is not None and call.done:
            raise TenutoError("no reply: the stream failed, and its error has what arrived")
        raise TenutoError("the stream has not ended: read on, drain() or cancel() it")

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the provider's answer, as soon as it began."""
        exchange = self._call.question.exchange if self._call is not None else None
        return exchange.headers if exchange is not None else {}

    async def cancel(self) -> Reply:
        """Stop, and return what has come: an incomplete reply, whose unfinished blocks carry no token.

        Whoever iterates over the stream at that moment sees it end.
        """
        await self.close()
        if self._call is None:
            self._call = self._start()
        return self._call.reply()

    async def close(self) -> None:
        """Close the connection. To do so twice is harmless."""
        again, self._closed = self._closed, True
        if again or self._call is None or self._events is None:
            return
        self._cut_short = not self._call.done
        if self._call.is_reading:
            self._call.stop(TenutoError("the stream was closed"))
            self._call.question.close()
        else:
            await self._events.aclose()
