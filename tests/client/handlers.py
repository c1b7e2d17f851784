"""Handlers that play a script, for what stands around a call."""

from __future__ import annotations

import asyncio

from tenuto.core.blocks import Text
from tenuto.core.events import MessageDone, MessageStart
from tenuto.core.messages import AssistantMessage, Origin, Usage, UserMessage
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse, Choice

USAGE = Usage(input_tokens=1000, output_tokens=100)
ORIGIN = Origin("anthropic", "anthropic-messages", "claude-sonnet-4-5")


def question(model="anthropic/claude-sonnet-4-5", text="Hello", **fields):
    return ChatRequest(model=model, messages=(UserMessage(text),), **fields)


def response(text="Hi", usage=USAGE, origin=ORIGIN, **fields):
    message = AssistantMessage((Text(text),), "stop", "end_turn", origin, **fields)
    return ChatResponse("msg_1", "anthropic", "claude-sonnet-4-5", (Choice(message),), usage)


def reply(text="Hi", **fields):
    """The shortest whole reply."""
    return [MessageStart("msg_1", "claude-sonnet-4-5"), MessageDone(response(text, **fields))]


class Script:
    """Plays one list for each call: events are yielded, exceptions raised, functions awaited.

    The last list is played again and again. It remembers what it was asked, and how often it was closed.
    """

    def __init__(self, *plays):
        self._plays = list(plays)
        self.asked = []
        self.closed = 0

    async def __call__(self, request):
        self.asked.append(request)
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
        return [request.model for request in self.asked]


class Told(list):
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


async def told(events):
    """Read a call to its end."""
    with Told() as found:
        async for event in events:
            found.append(event)
    return found


def played(middleware, request, handler):
    """Run one call through one middleware."""

    async def run():
        return await told(middleware(request, handler))

    return asyncio.run(run())


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self, now=0.0):
        self.now = now
        self.slept = []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)
