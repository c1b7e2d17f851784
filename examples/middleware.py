"""Put things around every call: a log, retries, a cache, a budget, and middleware of your own."""

from collections.abc import AsyncIterator

from tenuto import ChatRequest, Client
from tenuto.events import ContentDelta, StreamEvent
from tenuto.middleware import LogEntry, Next, budget, cache, logger, retry


def log(entry: LogEntry) -> None:
    """Write a line for each call."""
    print(f"log: {entry.provider}/{entry.model} {entry.status}")


async def counted(request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
    """See the events pass, whether the call streams or not."""
    pieces = 0
    async for event in next(request):
        pieces += isinstance(event, ContentDelta)
        yield event
    print(f"pieces of {request.model}: {pieces}")


limit = budget(usd=1)
with Client(middleware=[logger(log), retry(), cache(ttl=60), limit], default_provider="openai") as ai:
    ai.use(counted)  # added last: closest to the provider
    for _ in range(2):  # the second time, the cache answers
        reply = ai.chat("gpt-5.2", "What is the capital of Norway?")
        print(reply.text, "for", reply.cost, "USD")
    print("left:", limit.remaining_usd, "USD")
