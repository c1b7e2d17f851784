"""Scripted handlers for tests of middleware."""

from __future__ import annotations

import asyncio

from tenuto.core.blocks import Text
from tenuto.core.events import MessageDone, MessageStart
from tenuto.core.messages import AssistantMessage, Origin, Usage, UserMessage
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse, Choice

USAGE = Usage(input_tokens=1000, output_tokens=100)
ORIGIN = Origin("anthropic", "anthropic-messages", "claude-sonnet-4-5")


def make_request(model="anthropic/claude-sonnet-4-5", text="Hello", **fields):
    return ChatRequest(model=model, messages=(UserMessage(text),), **fields)


def make_response(text="Hi", usage=USAGE, origin=ORIGIN, **fields):
    message = AssistantMessage((Text(text),), "stop", "end_turn", origin, **fields)
    return ChatResponse("msg_1", "anthropic", "claude-sonnet-4-5", (Choice(message),), usage)


def reply_events(text="Hi", **fields):
    """Return the events of the shortest complete reply."""
    return [MessageStart("msg_1", "claude-sonnet-4-5"), MessageDone(make_response(text, **fields))]


class Script:
    """Play one list per call: events are yielded, exceptions raised, functions awaited.

    The last list is repeated. The script records its requests and how many calls were closed.
    """

    def __init__(self, *plays):
        self._plays = list(plays)
        self.requests = []
        self.closed = 0

    async def __call__(self, request):
        self.requests.append(request)
        play = self._plays.pop(0) if len(self._plays) > 1 else self._plays[0]
        try:
            for item in play:
                if isinstance(item, BaseException):
                    raise item
                if callable(item):
                    await item()
                else:
                    yield item
        finally:
            self.closed += 1

    @property
    def models(self):
        return [request.model for request in self.requests]


class EventList(list):
    """The events of a call, and the error it ended with."""

    error: BaseException | None = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.error = error
        return isinstance(error, Exception)

    @property
    def text(self):
        return self[-1].response.text


async def read_events(events):
    """Read a call to its end."""
    with EventList() as found:
        async for event in events:
            found.append(event)
    return found


def run_middleware(middleware, request, handler):
    """Run one call through one middleware."""

    async def run():
        return await read_events(middleware(request, handler))

    return asyncio.run(run())


class FakeClock:
    """A clock that moves when a task sleeps."""

    def __init__(self, now=0.0):
        self.now = now
        self.slept = []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)
